"""The OpenSpiel API: its own checkers, its algorithms, and random games against the core."""

from __future__ import annotations

import functools
import importlib
import pickle

import numpy as np
import pytest

from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.core.loops import act_games, chance_games, clear_games
from alles_kaese_env.core.records import DECISION
from alles_kaese_env.core.rules import chance_weight, num_chance_outcomes

pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed (extra openspiel)")

from open_spiel.integration_tests import api_test  # noqa: E402
from open_spiel.python import policy, rl_environment  # noqa: E402
from open_spiel.python.algorithms import exploitability, ismcts, mcts  # noqa: E402

from alles_kaese_env.envs import open_spiel  # noqa: E402
from apis.helpers import VARIANTS  # noqa: E402

TINY = "python_alles_kaese(traps=1 1,copies=2 2,row_size=2,trap_limit=1)"
PLAYERS = range(2, 7)
GAMES = 200  # for each number of players


def load(players):
    return pyspiel.load_game(f"{open_spiel.SHORT_NAME}(players={players})")


def choose(state, rng):
    """A random action or outcome of chance."""
    if state.is_chance_node():
        outcomes, chances = zip(*state.chance_outcomes(), strict=True)
        return int(rng.choice(outcomes, p=chances))
    return int(rng.choice(state.legal_actions()))


def after(game, moves, rng):
    """A state after so many events, or the end."""
    state = game.new_initial_state()
    while moves and not state.is_terminal():
        state.apply_action(choose(state, rng))
        moves -= 1
    return state


def shown(state):
    """All that a state shows to anybody."""
    seats = range(state.num_players())
    return (
        str(state),
        state.current_player(),
        state.history(),
        state.returns(),
        [state.information_state_string(seat) for seat in seats],
        [state.information_state_tensor(seat) for seat in seats],
        [state.observation_string(seat) for seat in seats],
        [state.observation_tensor(seat) for seat in seats],
    )


# --- Games against the core ---------------------------------------------------------------------


@pytest.mark.parametrize("players", PLAYERS)
def test_random_games_are_those_of_the_engine(players):
    game, rng = load(players), np.random.default_rng(players)
    variant = Variant(num_players=players)
    batch, rules, rows = GameBatch(1, variant), variant.rules, np.zeros(1, np.int64)
    for _ in range(GAMES):
        state = game.new_initial_state()
        clear_games(batch.games, rules, rows)
        while not state.is_terminal():
            batch.look(rows)
            record = batch.games[0]
            assert state.is_chance_node() == (record.phase < DECISION)
            if state.is_chance_node():
                number = num_chance_outcomes(record, rules[0])
                weights = [chance_weight(record, rules[0], k) for k in range(number)]
                expected = {k: w / sum(weights) for k, w in enumerate(weights) if w}
                assert dict(state.chance_outcomes()) == pytest.approx(expected)
                outcome = choose(state, rng)
                chance_games(*batch.arrays[:3], rows, np.array([outcome]))
            else:
                seat = state.current_player()
                assert seat == batch.seats[0]
                assert state.legal_actions() == np.flatnonzero(batch.masks[0]).tolist()
                assert np.array_equal(state.observation_tensor(), batch.observations[0])
                outcome = choose(state, rng)
                act_games(batch.games, rules, rows, np.array([outcome]), batch.illegal)
                assert not batch.illegal[0]
            state.apply_action(outcome)
        batch.look(rows)
        assert batch.over[0]
        assert state.returns() == pytest.approx(batch.payoffs[0].tolist(), abs=1e-6)
        assert state.legal_actions() == []


@pytest.mark.parametrize("action", [-1, 18, 1000, 3.5, "3", None, float("nan")])
@pytest.mark.parametrize("moves", [0, 40], ids=["chance", "decision"])
def test_what_is_no_action_raises_and_changes_nothing(action, moves):
    rng = np.random.default_rng(5)
    state = after(load(2), moves, rng)
    while moves and state.is_chance_node():
        state.apply_action(choose(state, rng))
    assert state.is_chance_node() == (moves == 0)
    before = shown(state)
    with pytest.raises((ValueError, TypeError, pyspiel.SpielError)):
        state.apply_action(action)
    assert shown(state) == before


# --- OpenSpiel's checkers -------------------------------------------------------------------------


@pytest.mark.parametrize("sims", [2, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("players", PLAYERS)
def test_random_sim(players, sims):
    pyspiel.random_sim_test(load(players), num_sims=sims, serialize=True, verbose=False)


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS.keys())
def test_random_sim_of_variants(fields):
    game = pyspiel.load_game(open_spiel.SHORT_NAME, open_spiel.parameters_of(Variant(**fields)))
    pyspiel.random_sim_test(game, num_sims=2, serialize=True, verbose=False)


@pytest.mark.parametrize("players", PLAYERS)
def test_api_on_some_states(players):
    class Checks(api_test.EnforceAPIOnPartialTreeBase):
        game, game_name = load(players), open_spiel.SHORT_NAME

    run_checks(Checks)


def test_api_on_the_full_tree(monkeypatch):
    # OpenSpiel looks its own games up in these tables. Beside the sum of the three numbers, which
    # `agents.solve` prints too (477), they were counted by a walk through this tree.
    monkeypatch.setitem(api_test.TOTAL_NUM_STATES, TINY, (173, 76, 228))
    monkeypatch.setitem(api_test.PERFECT_RECALL_NUM_STATES, TINY, 68)

    class Checks(api_test.EnforceAPIOnFullTreeBase):
        game, game_name = pyspiel.load_game(TINY), TINY

    run_checks(Checks)


def run_checks(case):
    import unittest

    result = unittest.defaultTestLoader.loadTestsFromTestCase(case).run(unittest.TestResult())
    problems = result.failures + result.errors
    assert not problems, problems[0][1]
    assert result.testsRun > 3


# --- The game object ------------------------------------------------------------------------------


@pytest.mark.parametrize("players", PLAYERS)
def test_number_of_players_and_bounds(players):
    game = load(players)
    assert game.num_players() == len(game.new_initial_state().returns()) == players
    assert game.max_utility() == 1
    assert game.min_utility() == pytest.approx(-1 / (players - 1))
    assert game.utility_sum() == 0
    assert (game.max_game_length() == 30) == (players <= 3)  # E3


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS.keys())
def test_parameters_survive_the_string(fields):
    variant = Variant(**fields)
    game = pyspiel.load_game(open_spiel.SHORT_NAME, open_spiel.parameters_of(variant))
    assert game.variant == variant
    for again in (pyspiel.load_game(str(game)), pickle.loads(pickle.dumps(game))):
        assert again.variant == variant
        assert str(again) == str(game)
        assert again.num_players() == variant.num_players


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ("players=7", "num_players is 7"),
        ("traps=1 x", "traps is '1 x'"),
        ("row_size=0", "row_size is 0"),
        ("burn=often", "burn is 'often'"),
        ("nonsense=1", "nonsense"),
    ],
)
def test_a_wrong_parameter_is_named(parameters, word):
    with pytest.raises((ValueError, pyspiel.SpielError), match=word):
        pyspiel.load_game(f"{open_spiel.SHORT_NAME}({parameters})")


@pytest.mark.parametrize("players", PLAYERS)
def test_copies_go_their_own_way(players):
    game, rng = load(players), np.random.default_rng(0)
    for moves in (0, 3, 20, 60, 10_000):
        state = after(game, moves, rng)
        before = shown(state)
        copies = [
            state.clone(),
            pickle.loads(pickle.dumps(state)),
            game.deserialize_state(state.serialize()),
            pyspiel.deserialize_game_and_state(pyspiel.serialize_game_and_state(game, state))[1],
        ]
        for one in copies:
            assert shown(one) == before
        while not copies[0].is_terminal():
            action = choose(copies[0], rng)
            for one in copies:
                one.apply_action(action)
        assert all(shown(one) == shown(copies[0]) for one in copies)
        assert shown(state) == before


# --- What a seat may know -------------------------------------------------------------------------


def test_resampled_states_look_the_same_and_hide_the_rest():
    game, rng = load(2), np.random.default_rng(0)
    differs = 0
    for _ in range(30):
        state = after(game, int(rng.integers(20, 90)), rng)
        for seat in range(2):
            other = state.resample_from_infostate(seat, rng.random)
            assert other.information_state_string(seat) == state.information_state_string(seat)
            assert other.information_state_tensor(seat) == state.information_state_tensor(seat)
            assert other.observation_tensor(seat) == state.observation_tensor(seat)
            assert other.current_player() == state.current_player()
            differs += str(other) != str(state)
    assert differs > 10


def test_a_front_that_another_saw_is_drawn_by_the_cards_left():
    # Seat 0 sees a trap of 1 hole; seat 1 knows that 1 of the 4 cards of 1 hole is one (I4).
    game = pyspiel.load_game("python_alles_kaese(traps=1 1,copies=4 4,row_size=2)")
    state = game.new_initial_state()
    for action in (0, 0, 1, 1, 0, 1):  # backs 1 1, on top 2; die 2; peek slot 0: a trap
        state.apply_action(action)
    rng = np.random.default_rng(0)
    drawn = [str(state.resample_from_infostate(1, rng.random)) for _ in range(400)]
    share = sum(text.endswith("trap") for text in drawn) / 400
    assert share == pytest.approx(0.25, abs=0.09)  # four standard errors
    assert str(state.resample_from_infostate(0, rng.random)) == str(state)


def test_nobody_else_learns_what_a_peek_shows():
    game = pyspiel.load_game("python_alles_kaese(players=3)")
    state = game.new_initial_state()
    for action in (0, 0, 0, 0, 0, 0, 1, 1, 2):  # six backs of 1 hole, on top 2; die 2; peek 2
        state.apply_action(action)
    cheese, trap = state.child(0), state.child(1)
    for seat in range(3):
        is_same = cheese.information_state_string(seat) == trap.information_state_string(seat)
        assert is_same == (seat != 0)
        is_same = cheese.information_state_tensor(seat) == trap.information_state_tensor(seat)
        assert is_same == (seat != 0)
    assert trap.information_state_string(0).endswith("peek2 front=1t")
    assert trap.information_state_string(1).endswith("peek2 front")


# --- OpenSpiel's algorithms -----------------------------------------------------------------------


def test_cfr_comes_near_to_equilibrium():
    game = pyspiel.load_game(TINY)
    solver = pyspiel.CFRPlusSolver(game)
    for _ in range(20):
        solver.evaluate_and_update_policy()
    uniform = pyspiel.nash_conv(game, pyspiel.UniformRandomPolicy(game))
    assert pyspiel.nash_conv(game, solver.average_policy()) < 0.1 * uniform


@pytest.mark.parametrize("players", [2, 4])
def test_search_bots_play(players):
    game, rng = load(players), np.random.RandomState(0)
    evaluator = mcts.RandomRolloutEvaluator(1, rng)
    bots = [
        mcts.MCTSBot(game, 1.0, 2, evaluator, random_state=rng),
        ismcts.ISMCTSBot(game, evaluator, 1.0, 2, random_state=rng),
    ]
    state = after(game, 20, np.random.default_rng(1))
    for bot in bots:
        here = state.clone()
        while here.is_chance_node():
            here.apply_action(here.chance_outcomes()[0][0])
        assert bot.step(here) in here.legal_actions()


@pytest.mark.parametrize("players", PLAYERS)
def test_rl_environment(players):
    env = rl_environment.Environment(load(players))
    env.seed(0)
    step, rng = env.reset(), np.random.default_rng(0)
    while not step.last():
        seat = step.observations["current_player"]
        step = env.step([int(rng.choice(step.observations["legal_actions"][seat]))])
    assert len(step.rewards) == players
    assert sum(step.rewards) == pytest.approx(0, abs=1e-6)


@pytest.fixture
def pytorch():
    """OpenSpiel's PyTorch algorithms, by the name of their module."""
    for library in ("torch", "tree"):
        pytest.importorskip(library, reason=f"{library} is not installed (extra openspiel)")
    return lambda name: importlib.import_module(f"open_spiel.python.pytorch.{name}")


@pytest.mark.parametrize("name", ["dqn", "nfsp"])
def test_pytorch_agents_learn_from_their_games(pytorch, name):
    """After some hundred games they have learned, and play what is legal."""
    sizes = {"hidden_layers_sizes": [32], "batch_size": 32, "min_buffer_size_to_learn": 32}
    if name == "dqn":
        make = functools.partial(pytorch(name).DQN, **sizes)
    else:
        more = {"reservoir_buffer_capacity": 1_000, "anticipatory_param": 0.5}
        make = functools.partial(pytorch(name).NFSP, **sizes, **more)
    env = rl_environment.Environment(pyspiel.load_game(TINY))
    env.seed(0)
    size, actions = env.observation_spec()["info_state"][0], env.action_spec()["num_actions"]
    players = [make(seat, size, actions) for seat in range(2)]
    for _ in range(150):
        step = env.reset()
        while not step.last():
            seat = step.observations["current_player"]
            action = players[seat].step(step).action
            assert action in step.observations["legal_actions"][seat]
            step = env.step([action])
        for player in players:
            player.step(step)
    assert np.isfinite(np.hstack([player.loss for player in players]).astype(float)).all()


def test_deep_cfr_comes_nearer_to_equilibrium(pytorch):
    game = pyspiel.load_game(TINY)
    solver = pytorch("deep_cfr").DeepCFRSolver(
        game,
        policy_network_layers=(32,),
        advantage_network_layers=(32,),
        num_iterations=30,
        num_traversals=40,
        learning_rate=3e-3,
        batch_size_advantage=128,  # without these it trains on the memory still empty, too
        batch_size_strategy=128,
        policy_network_train_steps=300,
        advantage_network_train_steps=20,
        seed=0,
    )
    solver.solve()
    learned = policy.tabular_policy_from_callable(game, solver.action_probabilities)
    uniform = policy.UniformRandomPolicy(game)
    assert exploitability.nash_conv(game, learned) < exploitability.nash_conv(game, uniform)

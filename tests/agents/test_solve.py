"""The solver of small variants, against OpenSpiel, a linear program and values by hand."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from agent_tools import ROOT, assert_one_line_of_error, random_network

import agents
from agents.ppo.agent import PPOAgent
from agents.solve import exploitability, responses
from agents.solve import solution as solver
from agents.solve.__main__ import main
from agents.solve.responses import payoffs
from agents.solve.solution import solve
from alles_kaese_env import NUM_ACTIONS, OBSERVATION, Variant
from alles_kaese_env.variant import VARIANTS

TINY = {"traps": (1, 1), "copies": (2, 2), "row_size": 2, "trap_limit": 1}
# Small enough for a linear program, and both seats have something to hide.
HIDDEN = {"traps": (0, 1), "copies": (2, 2), "row_size": 1, "trap_limit": 1}
CASES = {
    "tiny": TINY,
    "hidden": HIDDEN,
    "burn turn": {**TINY, "burn": "turn", "traps": (1, 0)},
    "row of three": {**TINY, "copies": (2, 3), "row_size": 3, "trap_limit": 2},
}
OPTIONS = ["--traps", "1,1", "--copies", "2,2", "--trap-limit", "1"]


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def variant(request):
    return Variant(**request.param)


@pytest.fixture
def game(variant):
    reason = "OpenSpiel is not installed (extra openspiel)"
    pyspiel = pytest.importorskip("pyspiel", reason=reason)
    from alles_kaese_env.envs.open_spiel import SHORT_NAME, parameters_of

    return pyspiel.load_game(SHORT_NAME, parameters_of(variant))


# --- Against OpenSpiel, which knows nothing of subgames and sequence forms ------------------------


def walk(state, chance=1.0):
    """All states that can be reached, with the part of chance in their probability."""
    yield state, chance
    if state.is_chance_node():
        for outcome, probability in state.chance_outcomes():
            yield from walk(state.child(outcome), chance * probability)
    else:
        for action in state.legal_actions():
            yield from walk(state.child(action), chance)


def value_by_linear_program(game):
    """The value for seat 0, by the linear program of Koller, Megiddo and von Stengel (1996)."""
    reason = "SciPy is not installed (extra openspiel)"
    optimize = pytest.importorskip("scipy.optimize", reason=reason)
    sequences = [{(): 0}, {(): 0}]  # by the own information sets and actions on the way
    sets = [{}, {}]  # from an information set to the sequence before it and those after it
    payoffs = {}

    def visit(state, chance, own):
        if state.is_terminal():
            payoffs[own] = payoffs.get(own, 0) + chance * state.returns()[0]
        elif state.is_chance_node():
            for outcome, probability in state.chance_outcomes():
                visit(state.child(outcome), chance * probability, own)
        else:
            seat = state.current_player()
            known = state.information_state_string(seat)
            for action in state.legal_actions():
                after = len(sequences[seat])
                after = sequences[seat].setdefault((known, action), after)
                sets[seat].setdefault(known, (own[seat], set()))[1].add(after)
                assert sets[seat][known][0] == own[seat], "no perfect recall"
                visit(state.child(action), chance, (after, own[1]) if not seat else (own[0], after))

    visit(game.new_initial_state(), 1.0, (0, 0))
    matrix = np.zeros([len(one) for one in sequences])
    for own, payoff in payoffs.items():
        matrix[own] = payoff
    flows = []
    for seat in range(2):
        flow = np.zeros((1 + len(sets[seat]), len(sequences[seat])))
        flow[0, 0] = 1
        for row, (before, after) in enumerate(sets[seat].values(), start=1):
            flow[row, before] = -1
            flow[row, list(after)] = 1
        flows.append(flow)
    # max q[0] with a plan x of seat 0: F' q <= A' x, E x = e
    rows, columns = flows[1].shape
    plan = len(sequences[0])
    found = optimize.linprog(
        np.concatenate([np.zeros(plan), [-1], np.zeros(rows - 1)]),
        A_ub=np.hstack([-matrix.T, flows[1].T]),
        b_ub=np.zeros(columns),
        A_eq=np.hstack([flows[0], np.zeros((len(flows[0]), rows))]),
        b_eq=np.eye(len(flows[0]))[0],
        bounds=[(0, None)] * plan + [(None, None)] * rows,
    )
    assert found.success
    return -found.fun


def test_value_is_that_of_a_linear_program(variant, game):
    solution = solve(variant, gap=1e-6)
    assert solution.value == pytest.approx(value_by_linear_program(game), abs=2e-6)
    assert -1e-9 <= solution.gap <= 1e-6


def test_states_are_those_of_the_uncut_tree(variant, game):
    assert solve(variant).states == sum(1 for _ in walk(game.new_initial_state()))


def policy(game, agent):
    """OpenSpiel's, of what an agent says or, if it says nothing, does."""
    import pyspiel

    table = {}
    for state, _ in walk(game.new_initial_state()):
        if state.current_player() >= 0:
            legal = state.legal_actions()
            mask = np.isin(np.arange(NUM_ACTIONS), legal)[None]
            seen = np.array([state.observation_tensor()], np.float32)
            if hasattr(agent, "probabilities"):
                chances = agent.probabilities(seen, mask)[0, legal].tolist()
            else:
                chosen = agent.act(seen, mask, np.random.default_rng(0))[0]
                chances = [float(action == chosen) for action in legal]
            known = state.information_state_string()
            table[known] = list(zip(legal, chances, strict=True))
    return pyspiel.TabularPolicy(table)


def nash_conv(game, agent):
    import pyspiel

    return pyspiel.nash_conv(game, policy(game, agent))


AGENTS = {name: partial(agents.make, name) for name in ("random", "greedy", "heuristic")}
AGENTS["network, sampled"] = lambda variant: PPOAgent(random_network(), is_greedy=False)
AGENTS["network, greedy"] = lambda variant: PPOAgent(random_network())


@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS.keys())
def test_exploitability_is_that_of_openspiel(variant, game, make):
    agent = make(variant)
    measured = exploitability(agent, variant)
    # A batch of other size rounds the products of a network in another way.
    assert 2 * measured.value == pytest.approx(nash_conv(game, agent), abs=1e-7)
    assert sum(measured.responses) == pytest.approx(2 * measured.value)
    assert measured.low == measured.high == measured.value
    assert solve(variant, {"a": agent}).exploited["a"] == measured


def test_payoffs_are_those_of_openspiel(variant, game):
    """Of two agents in both orders of their seats; against themselves they get 0."""
    import pyspiel

    table = [AGENTS[name](variant) for name in ("random", "network, sampled", "network, greedy")]
    policies = [policy(game, agent) for agent in table]
    start = game.new_initial_state()

    def value(*pair):
        return pyspiel.expected_returns(start, [policies[k] for k in pair], -1, True)[0]

    for k, agent in enumerate(table):
        expected = [(value(k, other) - value(other, k)) / 2 for other in range(len(table))]
        found = payoffs(agent, table, variant)
        assert found == pytest.approx(expected, abs=1e-7)
        assert found[k] == pytest.approx(0, abs=1e-12)
        assert max(map(abs, found)) > 0.001


# --- Agents that play at random -------------------------------------------------------------------


class Gambler:
    """A legal action that the generator draws; nobody knows how."""

    def act(self, observations, masks, rng):
        return (masks * rng.random(masks.shape)).argmax(axis=1)


SMALL = Variant(**TINY | {"copies": (3, 3)})


def test_an_interval_holds_what_is_exact():
    """In 39 of 40 seeds at least: one end is of responses that get less, the other of more."""
    exact = exploitability(agents.make("random"), SMALL).value
    measured = [exploitability(Gambler(), SMALL, draws=8, seed=seed) for seed in range(40)]
    assert sum(one.low <= exact <= one.high for one in measured) >= 39
    assert all(one.low < one.value < one.high for one in measured)
    assert np.mean([one.value for one in measured]) == pytest.approx(exact, abs=0.01)


def test_more_draws_make_the_interval_narrower():
    few, many = (exploitability(Gambler(), SMALL, draws=draws) for draws in (8, 256))
    assert many.high - many.low < (few.high - few.low) / 2


def test_what_is_measured_of_an_agent_does_not_depend_on_the_others():
    variant = Variant(**TINY)
    reference = agents.make("reference", variant)
    one = solve(variant, {"a": Gambler(), "b": reference}, draws=8).exploited
    other = solve(variant, {"b": reference, "a": Gambler()}, draws=8).exploited
    assert one == other
    assert one["a"] != solve(variant, {"c": Gambler()}, draws=8).exploited["c"]
    assert one["a"] != solve(variant, {"a": Gambler()}, draws=8, seed=1).exploited["a"]


def test_a_gambler_that_says_the_same_twice_is_asked_on():
    """In small parts that happens; the generator tells it from an agent that draws nothing."""

    class Rarely:
        asked = 0

        def act(self, observations, masks, rng):
            Rarely.asked += 1
            last = NUM_ACTIONS - 1 - masks[:, ::-1].argmax(axis=1)
            return np.where(rng.random(len(masks)) < 1e-9, last, masks.argmax(axis=1))

    exploitability(Rarely(), Variant(**TINY), draws=8)
    assert Rarely.asked % 8 == 0


WRONG = {
    "shape": (lambda masks: masks[:, :17].astype(float), "shape"),
    "illegal": (lambda masks: np.full(masks.shape, 1 / NUM_ACTIONS), "0 for the others"),
    "sum": (lambda masks: masks.astype(float), "1 together"),
    "negative": (lambda masks: np.where(masks, 2.0, 0) - np.eye(18)[masks.argmax(1)], "0 or more"),
    "nan": (lambda masks: np.where(masks, np.nan, 0.0), "nan"),
}


@pytest.mark.parametrize(("wrong", "words"), WRONG.values(), ids=WRONG.keys())
def test_wrong_probabilities_are_refused(wrong, words):
    class Wrong(Gambler):
        def probabilities(self, observations, masks):
            return wrong(masks)

    with pytest.raises(ValueError, match=r"probabilities.*allowed") as raised:
        exploitability(Wrong(), Variant(**TINY))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


# --- By itself ------------------------------------------------------------------------------------


def test_a_game_that_one_take_decides():
    # Backs 1 1 2 or 1 2 with no trap at all: nothing is hidden and the second card ends the game.
    # Row 1, reserve 1: seat 0 rolls once. On a match (1/2) it takes and wins, otherwise it peeks,
    # which burns the last card (E2), and nobody has points (P4).
    variant = Variant(traps=(0, 0), copies=(1, 1), row_size=1, trap_limit=1)
    solution = solve(variant, {"random": agents.make("random")}, gap=1e-9)
    assert solution.value == pytest.approx(0.5, abs=1e-9)
    # Random discards in half of the matches, and seat 1 has no turn.
    first, second = solution.exploited["random"].responses
    assert (second + 0.5, first - 0.5) == pytest.approx((0.25, 0.0), abs=1e-9)


def test_threads_and_parts_change_nothing(monkeypatch):
    variant = Variant(**TINY | {"copies": (3, 3)})
    table = {name: agents.make(name, variant) for name in ("reference", "random")}
    one = solve(variant, table)
    monkeypatch.setattr(solver, "LEAVES_AT_ONCE", 100)
    monkeypatch.setattr(responses, "SETS_AT_ONCE", 7)
    assert solve(variant, table, threads=3) == one


def test_agents_see_observations_of_the_variant():
    seen = []

    class Spy:
        def act(self, observations, masks, rng):
            seen.append(observations)
            assert masks.any(axis=1).all()
            return masks.argmax(axis=1)

    variant = Variant(**TINY)
    solve(variant, {"spy": Spy()})
    for observation in np.concatenate(seen):
        facts = OBSERVATION.facts(observation, variant)
        assert facts["turn"] == 0
        in_row = np.bincount(facts["row"], minlength=7)[1:]
        on_top = np.arange(1, 7) == facts["top"]
        assert (facts["gone"] + in_row + on_top <= [2, 2, 0, 0, 0, 0]).all()


# --- The named variants ---------------------------------------------------------------------------


def solved_page():
    """The rows of the table in ``docs/solved.md``, by name: cells by head."""
    lines = (ROOT / "docs" / "solved.md").read_text().splitlines()
    heads, *rows = [line.strip("| ").split("|") for line in lines if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in (heads, *rows)]
    return {row[0].strip("`"): dict(zip(cells[0], row, strict=False)) for row in cells[1:]}


def test_the_page_has_every_named_variant():
    page = solved_page()
    assert ["full", *page] == list(VARIANTS)
    for name, row in page.items():
        one = VARIANTS[name]
        traps, copies = (",".join(map(str, field)) for field in (one.traps, one.copies))
        words = f"{traps} of {copies}, row {one.row_size}, limit {one.trap_limit}"
        assert row["traps, copies, row, limit"] == words


@pytest.mark.parametrize("name", ["477", "50k", "98k", "283k"])
def test_the_page_is_right(name):
    row, variant = solved_page()[name], Variant.named(name)
    names = ["random", "greedy", "reference", "heuristic"]
    solution = solve(variant, {name: agents.make(name, variant) for name in names})
    assert f"{solution.states:,}" == row["states"]
    assert solution.value == pytest.approx(float(row["value of seat 0"]), abs=1e-4)
    for agent in names:
        assert solution.exploited[agent].value == pytest.approx(float(row[agent]), abs=6e-5)


# --- Files and the command ------------------------------------------------------------------------


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    file = tmp_path / "solved.npz"
    variant = Variant(**TINY | {"copies": (3, 3)})
    table = {"reference": agents.make("reference", variant)}
    monkeypatch.setattr(solver, "LEAVES_AT_ONCE", 100)
    whole = solve(variant, table)
    kernel, parts = solver.solve_subgames, []

    def stopping(which, *args):
        if len(parts) == 5:
            raise KeyboardInterrupt
        parts.append(which)
        return kernel(which, *args)

    monkeypatch.setattr(solver, "solve_subgames", stopping)
    with pytest.raises(KeyboardInterrupt):
        solve(variant, table, file=file)
    monkeypatch.setattr(solver, "solve_subgames", lambda *args: parts.append(0) or kernel(*args))
    parts.clear()
    again = solve(variant, table, file=file)
    assert again == whole
    done = len(parts)
    parts.clear()
    assert solve(variant, table, file=file) == whole
    assert parts == []
    assert done > 0


def test_a_file_of_another_task_is_refused(tmp_path):
    file = tmp_path / "solved.npz"
    solve(Variant(**TINY), file=file)
    with pytest.raises(ValueError, match=r"allowed: .*trap_limit=2"):
        solve(Variant(**TINY | {"trap_limit": 2}), file=file)
    with np.load(file) as stored:
        arrays = dict(stored)
    np.savez(file, **arrays | {"done": arrays["done"][:-1]})
    with pytest.raises(ValueError, match=r"has done of \(18,\) bool; allowed: \(19,\) bool"):
        solve(Variant(**TINY), file=file)
    file.write_text("nonsense")
    with pytest.raises(ValueError, match=r"solved\.npz is no file of agents\.solve"):
        solve(Variant(**TINY), file=file)


def test_the_command_takes_a_name(capsys):
    assert main(["random", "--variant", "477", "--burn", "turn"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(Variant.named("477", burn="turn"))
    assert lines[-1].endswith("exact")


def test_command(capsys):
    assert main(["random", "heuristic", *OPTIONS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "477 states in 19 subgames with 174 leaves and 44 information sets"
    assert lines[3] == "value: seat 0 +0.00000, seat 1 -0.00000"
    assert [line.split()[0] for line in lines[-2:]] == ["random", "heuristic"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--burn", "never"], ["burn", "'never'", "E3"]),
        (["--num-players", "3"], ["num_players is 3"]),
        (["--traps", "1;1"], ["--traps", "'1;1'"]),
        (["--traps", "1,9"], ["traps[1] is 9"]),
        (["--gap", "0"], ["--gap is 0"]),
        (["--threads", "0"], ["--threads is 0"]),
        (["nobody"], ["agent is 'nobody'"]),
        (["--save", "/no/such/place/x.npz"], ["--save is /no/such/place/x.npz"]),
    ],
)
def test_wrong_use_is_one_line(capsys, options, words):
    with pytest.raises(SystemExit) as exit_:
        main(options)
    assert exit_.value.code == 2
    assert_one_line_of_error(capsys.readouterr().err, "python -m agents.solve", *words)

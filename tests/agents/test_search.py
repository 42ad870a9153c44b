"""The search agent: what it rebuilds from an observation, what it draws, how it decides."""

from __future__ import annotations

import time

import numpy as np
import pytest
from agent_tools import chi_square, chi_square_limit, observed, positions
from builders import (
    PLAYERS,
    mixed_states,
    name_of,
    play,
    playing,
    random_legal,
    small_variants,
    table,
    with_games,
)

import agents
from agents.heuristics.beliefs import believed_games, rules_by_players
from agents.search import agent as search
from agents.search import playouts
from agents.search.agent import SearchAgent
from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.core.beliefs import determinise
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.observe import OBSERVATION_RECORD
from alles_kaese_env.core.records import (
    CHEESE,
    DECISION,
    DISCARD,
    MAX_HOLES,
    MAX_PLAYERS,
    PEEK,
    STREAM,
    TAKE,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.core.rules import face_of

# --- Tools -------------------------------------------------------------------------------------


@jit
def complete_all(views, rules, games, seen):
    for i in range(len(views)):
        playouts.rebuild_opponents(views[i], rules[0], games[i], seen[i])


@jit
def determinise_all(games, rules, seen, odds, stream):
    for i in range(len(games)):
        determinise(games[i], rules[0], 0, seen[i], odds, stream[0])


def rebuilt(observations, variant):
    """Games from observations, and what opponents know of discards."""
    games, _ = believed_games(observations, rules_by_players(variant))
    seen = np.zeros((len(games), MAX_PLAYERS, MAX_HOLES), np.int64)
    views = observations.view(OBSERVATION_RECORD).reshape(len(observations))
    complete_all(views, variant.rules, games, seen)
    return games, seen


def determinised(observations, variant, seed=0, odds=1):
    """Complete games that fit the observations; with odds of 1 drawn by I4 alone."""
    games, seen = rebuilt(observations, variant)
    stream = np.zeros(1, STREAM)
    stream["counter"] = seed
    determinise_all(games, variant.rules, seen, odds, stream)
    return games


def best(batch, playouts=400, seed=0):
    """What the search does in a batch of one game, as (kind, slot)."""
    agent = SearchAgent(playouts=playouts)
    action = agent.act(batch.observations, batch.masks, np.random.default_rng(seed))[0]
    return divmod(int(action), 6)


# --- From an observation to a game -------------------------------------------------------------


@pytest.mark.parametrize("players", PLAYERS)
def test_the_rebuilt_game_shows_the_seat_the_same(players):
    """Byte for byte, also when fronts have been drawn and whatever they are."""
    variant = Variant(num_players=players)
    batch = mixed_states(variant, 3_000, seed=players)
    rows = playing(batch)
    observations = batch.observations[rows]
    games = determinised(observations, variant)
    assert len(rows) > 1_000
    assert observed(games, variant).tobytes() == observations.tobytes()
    assert (with_games(GameBatch(len(rows), variant), games).masks == batch.masks[rows]).all()


@pytest.mark.parametrize("players", PLAYERS)
def test_a_determinised_game_is_whole(players):
    """No more fronts of a kind than there are, and whoever peeked knows what it saw (I2)."""
    variant = Variant(num_players=players)
    batch = mixed_states(variant, 3_000, seed=players)
    rows = playing(batch)
    games = determinised(batch.observations[rows], variant)
    true = batch.games[rows]
    fronts = variant.rules["fronts"][0]
    assert (games["drawn"] <= fronts).all()
    assert (games["known"] <= games["drawn"][:, None]).all()
    assert ((games["peeked"] == 0) == (games["front"] == UNSEEN)).all()
    assert (games["below"] == true["below"]).all()
    for place in range(players):  # I2: each seat knows as many fronts as in the true game
        seats = (true["seat"] + place) % players
        known = [
            records["known"][np.arange(len(rows)), who].reshape(-1, 2, MAX_HOLES).sum(axis=1)
            for records, who in ((true, seats), (games, place))
        ]
        assert (known[0] == known[1]).all()


def test_unknown_fronts_have_their_share():
    """I4, F2: of 3 traps among 6 cards of four holes, with one cheese known: 3 of 5."""
    variant = Variant(num_players=2)
    batch = table(variant, "4c 4t 4c 1c 1t 2c 3c 5c 6c 6t", dice=[6, 6, 6, 6, 6])
    play(batch, "peek 0", "peek 1", "peek 3", "peek 2")
    drawn = determinised(np.repeat(batch.observations, 6_000, axis=0), variant, seed=1)
    assert (drawn["front"][:, 0] == CHEESE).all()
    assert (drawn["front"][:, 4] == UNSEEN).all()
    pairs = (drawn["front"][:, 1] == TRAP) * 2 + (drawn["front"][:, 2] == TRAP)
    shares = np.array([2 / 5 * 1 / 4, 2 / 5 * 3 / 4, 3 / 5 * 2 / 4, 3 / 5 * 2 / 4])
    counts = np.bincount(pairs, minlength=4)
    assert chi_square(counts, shares) < chi_square_limit(3)


def test_fronts_of_discards_have_their_share():
    """I2, I4: what an opponent knows of the discard pile is drawn as well."""
    variant = Variant(num_players=2)
    batch = table(variant, "5t 1t 2c 3c 4c 4t 2c 3t 5c 1t", dice=[6, 5, 6, 6])
    play(batch, "peek 0", "discard 0", "peek 1")  # seat 0 peeked at what seat 1 discarded
    cheese, trap = face_of(CHEESE, 5), face_of(TRAP, 5)
    for odds in (1, 4):
        observations = np.repeat(batch.observations, 6_000, axis=0)
        drawn = determinised(observations, variant, seed=2, odds=odds)["known"][:, 1]
        assert (drawn[:, trap] + drawn[:, cheese] == 1).all()
        shares = np.array([2, 4 * odds]) / (2 + 4 * odds)
        counts = np.bincount(drawn[:, trap], minlength=2)
        assert chi_square(counts, shares) < chi_square_limit(1)


def test_the_true_fronts_are_not_known_to_the_search():
    """F2: in states with three fronts or more that only others know, they are hit by chance."""
    variant = Variant(num_players=4)
    batch = mixed_states(variant, 4_000, seed=3)
    rows = playing(batch)
    true = batch.games[rows]
    own = true["peeked"] >> true["seat"][:, None] & 1
    hidden = (true["peeked"] > 0) & (own == 0)
    some = hidden.sum(axis=1) >= 3
    assert some.sum() > 100
    drawn = determinised(batch.observations[rows][some], variant, seed=5)
    hits = (drawn["front"] == true["front"][some])[hidden[some]]
    assert 0.4 < hits.mean() < 0.65


# --- Play-outs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reference", "greedy", "heuristic"])
@pytest.mark.parametrize("players", PLAYERS)
def test_play_outs_imagine_the_moves_of_the_agents(name, players):
    """By what the mover knows of the true game as by its observation, move by move."""
    variant = Variant(num_players=players)
    agent = agents.make(name)
    batch = mixed_states(variant, 3_000, seed=players)
    for _ in range(12):
        rows = playing(batch)
        actions, counts = np.zeros((2, len(rows)), np.int64)
        counts[:] = players
        agent.choose(batch.games[rows], counts, actions)
        moves = agent.act(batch.observations[rows], batch.masks[rows], None)
        assert (actions == moves).all()
        batch.step(moves, rows)


def test_simulations_foresee_no_dice():
    """F4: the first roll in a play-out is that of the true game in about one of six."""
    variant = Variant(num_players=4)
    batch = mixed_states(variant, 1_500, seed=8)
    rng = np.random.default_rng(8)
    rows = playing(batch)
    actions = random_legal(batch.masks[rows], rng)
    games = determinised(batch.observations[rows], variant, seed=9)
    imagined = with_games(GameBatch(len(rows), variant), games)
    streams = rng.integers(2**64, size=len(rows), dtype=np.uint64)
    imagined.streams[:] = streams
    imagined.step(actions)
    batch.step(actions, rows)
    both = np.isin(rows, playing(batch)) & ~imagined.over
    same = imagined.games["die"][both] == batch.games["die"][rows][both]
    assert both.sum() > 800
    assert abs(same.mean() - 1 / 6) < 4 * (5 / 36 / both.sum()) ** 0.5


def test_an_action_must_gain_more_than_luck():
    """The first action stays the choice unless another one gains, and is sure to."""
    sums = np.array([[0.0, 4.0, 60.0, -60.0], [0.0, 100.0, 100.0, 100.0]])  # of 100 rounds
    assert search.best_choice(sums, 100) == 2
    assert search.best_choice(sums[:, :2], 100) == 0
    assert search.have_a_chance(sums, 100).tolist() == [True, False, True, False]
    assert search.have_a_chance(sums[:, [0, 1, 3]], 100).tolist() == [True, True, False]


# --- Decisions ---------------------------------------------------------------------------------


def test_moves_are_legal():
    observations, masks = positions(600, seed=4)
    moves = SearchAgent(playouts=2).act(observations, masks, np.random.default_rng(0))
    assert len(moves) > 2_000
    assert moves.dtype == np.int64
    assert masks[np.arange(len(moves)), moves].all()


def test_same_seed_same_moves():
    observations, masks = positions(60, seed=5)
    moves = [
        SearchAgent(playouts=20).act(observations, masks, np.random.default_rng(seed))
        for seed in (1, 1, 2)
    ]
    assert (moves[0] == moves[1]).all()
    assert (moves[0] != moves[2]).any()


def test_the_clock_is_kept():
    observations, masks = positions(2, seed=6)
    agent = agents.make("search:20ms")
    agent.act(observations, masks, np.random.default_rng(0))
    start = time.perf_counter()
    moves = agent.act(observations, masks, np.random.default_rng(0))
    passed = time.perf_counter() - start
    assert masks[np.arange(len(moves)), moves].all()
    assert passed < 0.2 * len(moves)  # ten times as much: the machine may be busy


def test_the_observation_is_left_as_it_is():
    observations, masks = positions(20, seed=7)
    before = observations.copy(), masks.copy()
    agents.make("search:5").act(observations, masks, np.random.default_rng(0))
    assert (observations == before[0]).all()
    assert (masks == before[1]).all()


def test_fewer_rows_are_no_special_case():
    observations, masks = positions(20, seed=7)
    agent = agents.make("search:5")
    assert len(agent.act(observations[:0], masks[:0], np.random.default_rng(0))) == 0
    one = agent.act(observations[:1], masks[:1], np.random.default_rng(0))
    many = agent.act(observations[:4], masks[:4], np.random.default_rng(0))
    assert one[0] == many[0]


@pytest.mark.parametrize(
    "budget",
    [
        "",
        "flat",
        "flat:",
        "flat:0",
        "0",
        "-1",
        "1.5",
        "ms",
        "0ms",
        "10 ms",
        "100s",
        "ten",
        "²",
        "9" * 30,
    ],
)
def test_wrong_budgets(budget):
    with pytest.raises(ValueError, match="allowed") as caught:
        agents.make(f"search:{budget}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{}, {"playouts": 1, "milliseconds": 1}, {"playouts": 2.5}, {"milliseconds": True}],
)
def test_wrong_options(options):
    with pytest.raises(ValueError, match="allowed"):
        SearchAgent(**options)


def test_search_without_a_budget_is_an_error():
    with pytest.raises(ValueError, match="allowed"):
        agents.make("search")


@pytest.mark.parametrize("fields", [{"traps": (1, 1)}, {"copies": (5,) * 6}])
def test_other_decks_are_refused(fields):
    batch = GameBatch(1, Variant(num_players=2, **fields), seed=0)
    with pytest.raises(ValueError, match="default rules"):
        agents.make("search:1").act(batch.observations, batch.masks, np.random.default_rng(0))


def test_an_agent_of_a_variant_plays_no_other():
    batch = GameBatch(1, Variant(num_players=3), seed=0)
    agent = SearchAgent(playouts=1, variant=Variant(num_players=2))
    with pytest.raises(ValueError, match="3 players"):
        agent.act(batch.observations, batch.masks, np.random.default_rng(0))


@pytest.mark.parametrize("variant", [*small_variants(2), *small_variants(5)], ids=name_of)
def test_small_variants(variant):
    """What is rebuilt shows the seat the same, and moves are legal."""
    batch = mixed_states(variant, 200, seed=2)
    rows = playing(batch)
    observations, masks = batch.observations[rows], batch.masks[rows]
    games = determinised(observations, variant)
    assert observed(games, variant).tobytes() == observations.tobytes()
    agent = SearchAgent(playouts=2, variant=variant)
    moves = agent.act(observations, masks, np.random.default_rng(0))
    assert masks[np.arange(len(rows)), moves].all()


def test_cards_that_nothing_tells_apart_are_tried_once():
    batch = table(Variant(num_players=2), "6c 6t 6c 2c 2t 3c 3t 1c", dice=[5, 5])
    play(batch, "peek 1")
    variant = Variant(num_players=2)
    games, _ = rebuilt(batch.observations, variant)
    assert playouts.different_actions(games[0], variant.rules[0], 3).tolist() == [3, 0, 1, 5]


def test_only_the_seat_to_move_can_be_asked():
    batch = GameBatch(1, seed=0)
    with pytest.raises(ValueError, match="mover's turn"):
        agents.make("search:1").act(batch.observe(1), batch.masks, np.random.default_rng(0))


# --- Positions whose best move is known --------------------------------------------------------
#
# One card is left in the reserve and everybody knows enough: whoever acts ends the game (E2).


def last_turn(players, points, row, die, peeked=()):
    """A batch of one game at its last turn, which is that of seat 0.

    Args:
        players: how many.
        points: points of each seat, as one cheese card for each of them.
        row: holes of the six cards.
        die: the roll.
        peeked: (slot, front) that seat 0 has peeked at.
    """
    batch = GameBatch(1, Variant(num_players=players), seed=0)
    game = batch.games[0].copy()
    for name in game.dtype.names:
        game[name] = 0
    game["phase"], game["turns"], game["reserve"] = DECISION, players, 1
    game["row"], game["die"], game["top"] = row, die, 1
    gone = np.full(MAX_HOLES, 6) - np.bincount(row, minlength=7)[1:]
    gone[0] -= 1  # on top of the reserve
    game["gone"] = gone
    for seat, holes in enumerate(points):
        if holes:
            face = face_of(CHEESE, holes)
            game["taken"][seat, face] = game["cheese"][seat] = 1
            game["points"][seat] = holes
            game["known"][:players, face] += 1
            game["drawn"][face] += 1
    for slot, front in peeked:
        face = face_of(front, row[slot])
        game["front"][slot], game["peeked"][slot] = front, 1
        game["known"][0, face] += 1
        game["drawn"][face] += 1
    return with_games(batch, np.array([game]))


@pytest.mark.parametrize(
    ("players", "points"),
    [(2, (1, 4)), (3, (1, 4, 2)), (3, (1, 2, 4)), (4, (1, 4, 2, 0)), (4, (1, 0, 2, 4))],
)
def test_the_mover_takes_what_wins(players, points):
    """I5: the payoffs of the mover count, whoever leads and whoever would be next."""
    batch = last_turn(players, points, [5, 5, 2, 3, 4, 6], 5, [(0, TRAP), (1, CHEESE)])
    assert best(batch) == (TAKE, 1)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_the_leader_takes_no_third_trap(players):
    """E1: with two traps and the lead a discard wins for certain, the trap would lose."""
    batch = last_turn(players, [4] + [1] * (players - 1), [5, 2, 2, 3, 4, 6], 5, [(0, TRAP)])
    games = batch.games.copy()
    games["traps"][0, 0] = 2
    games["taken"][0, 0, face_of(TRAP, 6)] = 2
    games["known"][0, :players, face_of(TRAP, 6)] = 2
    games["drawn"][0, face_of(TRAP, 6)] = 2
    assert best(with_games(batch, games)) == (DISCARD, 0)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_who_is_behind_takes_a_chance(players):
    """The reference would never take it: four of six such cards are traps; nothing to lose."""
    points = [1] + [4] * (players - 1)
    batch = last_turn(players, points, [6, 2, 2, 3, 4, 5], 6)
    games = batch.games.copy()
    games["traps"][0, 0] = 2
    games["taken"][0, 0, face_of(TRAP, 2)] = 2
    games["known"][0, :players, face_of(TRAP, 2)] = 2
    games["drawn"][0, face_of(TRAP, 2)] = 2
    reference = agents.make("reference")
    batch = with_games(batch, games)
    assert reference.act(batch.observations, batch.masks, None)[0] // 6 == DISCARD
    assert best(batch) == (TAKE, 0)


def test_two_turns_before_the_end():
    """I5: the next mover would take the cheese that both know, so it must not stay."""
    batch = last_turn(2, (5, 0), [6, 6, 2, 3, 4, 5], 6)
    games = batch.games.copy()
    game = games[0]
    game["reserve"] = 2
    game["gone"][1] -= 1
    game["below"][1] = 1
    game["front"][:2], game["peeked"][:2] = (TRAP, CHEESE), (1, 3)
    for seat, face in ((0, face_of(TRAP, 6)), (0, face_of(CHEESE, 6))):
        game["known"][seat, face] += 1
        game["drawn"][face] += 1
    game["known"][1, face_of(CHEESE, 6)] += 1
    kind, slot = best(with_games(batch, games))
    assert (kind, slot) in ((TAKE, 1), (DISCARD, 1))


# --- Equal information, equal move -------------------------------------------------------------


def test_two_true_states_one_move():
    """F3: seat 1 peeked at cheese here and at a trap there; seat 0 cannot tell, and acts alike."""
    moves = []
    for front in ("c", "t"):
        batch = table(Variant(num_players=2), f"6{front} 1c 2c 3c 4c 1t 2t 3t 4t", dice=[5, 5, 6])
        play(batch, "peek 1", "peek 0")
        moves.append(best(batch, playouts=50, seed=3))
    assert moves[0] == moves[1]


@pytest.mark.parametrize("players", PLAYERS)
def test_other_hidden_fronts_same_move(players):
    """F3: true states against others that the seat cannot tell from them, 2,000 pairs in all."""
    variant = Variant(num_players=players)
    batch = mixed_states(variant, 3_000, seed=20 + players)
    rows = playing(batch)
    hidden = (batch.games["peeked"][rows] > 0).sum(axis=1) > 1
    rows = rows[hidden][:400]
    assert len(rows) == 400
    other = determinised(batch.observations[rows], variant, seed=9)
    assert (other["front"] != batch.games["front"][rows]).any(axis=1).sum() > 100
    moves = [
        SearchAgent(playouts=4).act(observations, batch.masks[rows], np.random.default_rng(0))
        for observations in (batch.observations[rows], observed(other, variant))
    ]
    assert (moves[0] == moves[1]).all()


def test_without_a_match_it_peeks():
    batch = table(Variant(num_players=3), "6c 1c 2c 3c 4c 1t 2t 3t 4t", dice=[5])
    assert best(batch, playouts=10)[0] == PEEK

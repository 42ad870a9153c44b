"""The figures of the rule book, and whether dice and first draws are what chance makes them."""

from __future__ import annotations

import numpy as np
import pytest
from builders import PLAYERS, playing

from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.core.records import CHEESE, MAX_SLOTS, TRAP

GAMES = 40_000

# players, burn rule, turns a game, half a unit of its last digit, share of games that end by a
# third trap, share of the win by seat
FIGURES = [
    (2, "peek", 23.09, 0.005, 0.667, (0.491, 0.509)),
    (3, "peek", 25.99, 0.005, 0.470, (0.341, 0.335, 0.325)),
    (4, "peek", 36.7, 0.05, 0.777, (0.263, 0.253, 0.248, 0.235)),
    (5, "peek", 40.1, 0.05, 0.652, (0.218, 0.206, 0.197, 0.192, 0.188)),
    (6, "peek", 42.4, 0.05, 0.532, (0.187, 0.176, 0.166, 0.163, 0.156, 0.152)),
    (2, "turn", 17.4, 0.05, 0.301, (0.503, 0.497)),
    (2, "never", 26.5, 0.05, 0.966, (0.481, 0.519)),
]


def assert_near(sample, figure, rounding):
    """The mean is the figure, but for three standard errors and the rounding of the figure."""
    error = sample.std() / len(sample) ** 0.5
    assert abs(sample.mean() - figure) <= 3 * error + rounding


@pytest.mark.parametrize(
    ("players", "burn", "turns", "rounding", "by_trap", "shares"),
    FIGURES,
    ids=[f"{players}-{burn}" for players, burn, *_ in FIGURES],
)
def test_random_play_agrees_with_the_rule_book(players, burn, turns, rounding, by_trap, shares):
    """One game in each row, so that long games count as much as short ones."""
    batch = GameBatch(GAMES, Variant(num_players=players, burn=burn), seed=0)
    while len(rows := playing(batch)):
        batch.step(batch.random_actions(rows), rows)
    assert_near(batch.games["turns"].astype(float), turns, rounding)
    assert_near(batch.games["traps"].max(axis=1) == 3, by_trap, 0.0005)
    wins = batch.payoffs == batch.payoffs.max(axis=1, keepdims=True)
    wins = wins / wins.sum(axis=1, keepdims=True)  # P4
    for seat, share in enumerate(shares):
        assert_near(wins[:, seat], share, 0.0005)


def chi_square(counts, expected):
    """The statistic over its bound: above 1 in one of ten thousand samples of pure chance.

    The bound is the approximation of Wilson and Hilferty.
    """
    counts, expected = np.ravel(counts), np.ravel(expected)
    freedom = len(counts) - 1
    spread = 2 / (9 * freedom)
    bound = freedom * (1 - spread + 3.72 * spread**0.5) ** 3
    return ((counts - expected) ** 2 / expected).sum() / bound


def test_the_bound_tells_chance_from_a_bias():
    """A fair sample stays below 1, and a die that is off by a twentieth does not."""
    rolls = np.random.default_rng(1).integers(0, 6, GAMES)
    fair = np.bincount(rolls, minlength=6)
    assert chi_square(fair, np.full(6, GAMES / 6)) < 1
    biased = fair + np.array([1, -1, 0, 0, 0, 0]) * GAMES / 6 * 0.05
    assert chi_square(biased, np.full(6, GAMES / 6)) > 1


@pytest.fixture(scope="module")
def dealt():
    """Games at their first decision."""
    return GameBatch(GAMES, Variant(), seed=0)


@pytest.mark.parametrize("players", PLAYERS)
def test_each_side_of_the_die_is_as_likely(players):
    """T1: at the first turn, and over many turns."""
    batch = GameBatch(4000, Variant(num_players=players), seed=0, autoreset=True)
    rolled = np.zeros(6)
    pairs = np.zeros((6, 6))
    for _ in range(40):
        before = batch.games["die"] - 1
        batch.step(batch.random_actions())
        after = batch.games["die"] - 1
        rolled += np.bincount(after, minlength=6)
        np.add.at(pairs, (before, after), 1)
    assert chi_square(rolled, np.full(6, rolled.sum() / 6)) < 1
    assert chi_square(pairs, np.full((6, 6), pairs.sum() / 36)) < 1


def test_each_back_is_as_likely_at_each_place(dealt):
    """S1, S2: in each slot and on top of the reserve."""
    places = np.column_stack([dealt.games["row"], dealt.games["top"]])
    for place in range(MAX_SLOTS + 1):
        counts = np.bincount(places[:, place] - 1, minlength=6)
        assert chi_square(counts, np.full(6, GAMES / 6)) < 1


def test_neighbours_are_drawn_without_replacement(dealt):
    """S1: two places next to each other show the same number in 5 of 35 deals."""
    places = np.column_stack([dealt.games["row"], dealt.games["top"]]) - 1
    expected = (36 - 6 * np.eye(6)) / (36 * 35) * GAMES
    for one in range(MAX_SLOTS):
        counts = np.zeros((6, 6))
        np.add.at(counts, (places[:, one], places[:, one + 1]), 1)
        assert chi_square(counts, expected) < 1


def test_the_die_does_not_depend_on_the_row(dealt):
    """T1: each face with each back of slot 0."""
    counts = np.zeros((6, 6))
    np.add.at(counts, (dealt.games["row"][:, 0] - 1, dealt.games["die"] - 1), 1)
    assert chi_square(counts, np.full((6, 6), GAMES / 36)) < 1


@pytest.mark.parametrize("slot", [0, 5])
def test_first_fronts_are_traps_as_often_as_their_backs_say(slot):
    """C2, I4: 2, 2, 3, 3, 4, 4 of six; seen by a peek."""
    batch = GameBatch(GAMES, Variant(num_players=4), seed=0)
    rows = np.flatnonzero(batch.masks[:, slot])
    holes = batch.games["row"][rows, slot].astype(int)
    batch.step(np.full(len(rows), slot), rows)
    fronts = batch.games["front"][rows, slot]
    traps = np.array([2, 2, 3, 3, 4, 4])
    seen = np.bincount(holes - 1, minlength=6)
    for front, share in ((CHEESE, 1 - traps / 6), (TRAP, traps / 6)):
        counts = np.bincount(holes[fronts == front] - 1, minlength=6)
        assert chi_square(counts, seen * share) < 1


def test_second_fronts_of_a_back_depend_on_the_first():
    """I4: after a trap of h holes there are h's traps less one among five."""
    variant = Variant(num_players=4)
    batch = GameBatch(GAMES, variant, seed=0)
    first, second = batch.games["row"][:, 0], batch.games["row"][:, 1]
    rows = np.flatnonzero(batch.masks[:, 0] & (first == second))
    batch.step(np.zeros(len(rows), int), rows)
    rows = rows[batch.masks[rows, 1]]
    batch.step(np.ones(len(rows), int), rows)
    holes = batch.games["row"][rows, 0] - 1
    fronts = batch.games["front"][rows] == TRAP
    traps = np.array(variant.traps)[holes] - fronts[:, 0]
    share = traps / 5
    error = (share * (1 - share)).sum() ** 0.5
    assert len(rows) > 500
    assert abs(fronts[:, 1].sum() - share.sum()) < 4 * error


# --- A million deals ---------------------------------------------------------------------------

DEALS = 1_000_000


def pairs_of(one, other):
    """How often each number comes with each other one, both from 1 to 6."""
    return np.bincount((one.astype(int) - 1) * 6 + other - 1, minlength=36).reshape(6, 6)


@pytest.fixture(scope="module")
def million():
    """The first decision of a million games, and its action at random."""
    batch = GameBatch(DEALS, Variant(num_players=4), seed=2)
    places = np.column_stack([batch.games["row"], batch.games["top"]])
    dice, actions = batch.games["die"].copy(), batch.random_actions()
    slots = actions % MAX_SLOTS
    batch.step(actions)
    return batch, places, dice, actions, slots


@pytest.mark.long
def test_a_million_deals_backs_and_dice(million):
    """C3, S1, T1: 1 + 7 + 21 + 7 + 1 tests, each at a level of one in ten thousand."""
    _, places, dice, _, _ = million
    die = np.full(6, DEALS / 6)
    assert chi_square(np.bincount(dice - 1, minlength=6), die) < 1
    without_replacement = (36 - 6 * np.eye(6)) / (36 * 35) * DEALS
    for one in range(MAX_SLOTS + 1):
        assert chi_square(np.bincount(places[:, one] - 1, minlength=6), die) < 1
        assert chi_square(pairs_of(places[:, one], dice), np.full((6, 6), DEALS / 36)) < 1
        for other in range(one + 1, MAX_SLOTS + 1):
            assert chi_square(pairs_of(places[:, one], places[:, other]), without_replacement) < 1
    neighbours = pairs_of(dice[:-1], dice[1:])  # of game i and i + 1
    assert chi_square(neighbours, np.full((6, 6), (DEALS - 1) / 36)) < 1


@pytest.mark.long
def test_a_million_deals_fronts(million):
    """C2, I4: fronts are traps as their backs say, whatever die, slot and kind of action."""
    batch, places, dice, actions, slots = million
    looked = actions < 2 * MAX_SLOTS  # a peek or a take
    holes = places[np.arange(DEALS), slots]
    peeked = (actions < MAX_SLOTS) & (batch.games["front"][np.arange(DEALS), slots] == TRAP)
    taken = batch.games["traps"].sum(axis=1) > 0
    is_trap = np.where(actions < MAX_SLOTS, peeked, taken)
    share = np.array([2, 2, 3, 3, 4, 4]) / 6
    for what in (dice, slots + 1, actions // MAX_SLOTS + 1):
        seen = pairs_of(holes[looked], what[looked])
        traps = pairs_of(holes[looked & is_trap], what[looked & is_trap])
        observed, expected = [traps, seen - traps], [seen.T * share, seen.T * (1 - share)]
        for counts, wanted in zip(observed, expected, strict=True):
            some = wanted.T > 0
            assert chi_square(counts[some], wanted.T[some]) < 1
    neighbours = np.zeros((2, 2))
    pairs = looked[:-1] & looked[1:]
    np.add.at(neighbours, (is_trap[:-1][pairs].astype(int), is_trap[1:][pairs].astype(int)), 1)
    chance = is_trap[looked].mean()
    line = np.array([1 - chance, chance])
    assert chi_square(neighbours, np.outer(line, line) * pairs.sum()) < 1


@pytest.mark.long
def test_a_million_rolls_of_games_that_go_on():
    """T1: each face after each, and in each turn, over a million turns of many games."""
    batch = GameBatch(25_000, Variant(num_players=3), seed=3, autoreset=True)
    rolled, pairs = np.zeros(6), np.zeros((6, 6))
    for _ in range(40):
        before = batch.games["die"].copy()
        batch.step(batch.random_actions())
        rolled += np.bincount(batch.games["die"] - 1, minlength=6)
        pairs += pairs_of(before, batch.games["die"])
    assert rolled.sum() == DEALS
    assert chi_square(rolled, np.full(6, DEALS / 6)) < 1
    assert chi_square(pairs, np.full((6, 6), DEALS / 36)) < 1

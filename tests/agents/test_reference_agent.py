"""The reference heuristic against the rule book: move by move, and by its published figures."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from agent_tools import LARGE, situation, standard_error
from builders import KINDS, PLAYERS, action_of, play, random_legal, shuffled, table
from reference.game import ReferenceGame, reference_policy

import agents
from agents.arena.matches import win_share
from alles_kaese_env import GameBatch, Variant, encode_action
from alles_kaese_env.scripted import ScriptedDeal

GAMES = 50
ROLLS = 700  # a game of 4 to 6 players has no bound (E3)
SHARES_AGAINST_RANDOM = {2: 0.784, 3: 0.545, 4: 0.461, 5: 0.390, 6: 0.341}
TABLE_GAMES = 40_000

# All that I4 can say of a card whose front is not known, with six cards of each hole count.
PROBABILITIES = sorted({Fraction(traps, cards) for cards in range(1, 7) for traps in range(cards)})
ALL_HOLES = range(1, 7)


def move_of(observations, masks):
    """The action of the reference agent in each row; it needs no random numbers."""
    return agents.make("reference").act(observations, masks, None)


def action_by_the_rule_book(game):
    """The action of the slow reference."""
    kind, slot = reference_policy(game)
    return encode_action(KINDS[kind], slot)


# --- Move by move ------------------------------------------------------------------------------


def random_positions(players, seed):
    """Every position of some random games: the reference game, and what the core tells."""
    rng = np.random.default_rng(seed)
    variant = Variant(num_players=players)
    for _ in range(GAMES):
        deck, dice = shuffled(variant, rng), rng.integers(1, 7, ROLLS).tolist()
        batch = GameBatch(1, variant, seed=0)
        batch.reset(script=ScriptedDeal(variant, deck, dice))
        game = ReferenceGame(deck, dice, num_players=players)
        while not game.over:
            yield game, batch.observations.copy(), batch.masks.copy()
            kind, slot = divmod(int(random_legal(batch.masks, rng)[0]), 6)
            batch.step([encode_action(kind, slot)])
            game.play(("peek", "take", "discard")[kind], slot)
        assert batch.over[0]


def decision_of(game):
    """What kind of move the rule book asks for, and whether a tie is broken by it."""
    kind, _ = reference_policy(game)
    seat, matching = game.seat, game.matching_slots()
    q = {slot: game.trap_probability(seat, slot) for slot in range(6)}
    if kind == "peek":
        worth = [
            game.row[slot].holes * q[slot] * (1 - q[slot])
            for slot in range(6)
            if not game.knows(seat, game.row_ids[slot])
        ]
        return kind, worth.count(max(worth, default=0)) > 1
    chances = [q[slot] for slot in matching]
    best = min(chances) if kind == "take" else max(chances)
    return kind, chances.count(best) > 1


@pytest.mark.parametrize("players", PLAYERS)
def test_same_moves_as_the_rule_book(players):
    decisions = Counter()
    for game, observations, masks in random_positions(players, seed=players):
        assert move_of(observations, masks) == [action_by_the_rule_book(game)]
        decisions[decision_of(game)] += 1
    assert decisions.total() > 1000
    for kind, is_tied in product(KINDS, (False, True)):
        assert decisions[kind, is_tied] >= 10, decisions


def test_a_whole_batch_at_once_as_row_by_row():
    rows = [position[1:] for position in random_positions(3, seed=9)]
    observations, masks = (np.concatenate(column) for column in zip(*rows, strict=True))
    one_by_one = [move_of(*row)[0] for row in rows]
    actions = move_of(observations, masks)
    assert actions.dtype == np.int64
    assert actions.tolist() == one_by_one


# --- Ties and thresholds, one by one -----------------------------------------------------------


def moves_in(rows):
    """The actions of the reference agent in situations, given by the arguments of `situation`."""
    sides = [np.concatenate(side) for side in zip(*(situation(**row) for row in rows), strict=True)]
    return agents.make("reference", LARGE[2]).act(*sides, None).tolist()


def test_the_peek_is_where_an_unknown_front_matters_most():
    """Two unknown fronts at slots 1 and 4, all others known; equal worth goes to slot 1."""
    cards = list(product(ALL_HOLES, PROBABILITIES))
    worth = {(holes, q): holes * q * (1 - q) for holes, q in cards}
    # Two unknown cards of as many holes are as likely to be traps.
    pairs = [(one, two) for one, two in product(cards, cards) if one[0] != two[0] or one == two]
    rows = []
    for one, two in pairs:
        known = next(number for number in (5, 6, 4) if number not in (one[0], two[0]))
        holes, chances = [known] * 6, [Fraction(0)] * 6
        (holes[1], chances[1]), (holes[4], chances[4]) = one, two
        rows.append({"holes": holes, "chances": chances, "known": (0, 2, 3, 5)})
    assert moves_in(rows) == [1 if worth[one] >= worth[two] else 4 for one, two in pairs]
    ties = [one for one, two in pairs if one[0] != two[0] and worth[one] == worth[two] > 0]
    assert len(ties) > 10  # such as 3 x 1/4 = 4 x 3/16


@pytest.mark.parametrize("traps", [0, 1, 2])
def test_take_the_safest_or_discard_the_worst(traps):
    """Two matching cards at slots 2 and 5, of any trap probability; equal ones go to slot 2."""
    threshold = Fraction(7, 10) if traps <= 1 else Fraction(1, 10)
    unknown = [q for q in PROBABILITIES if 0 < q < 1]
    pairs = [*product((Fraction(0), Fraction(1)), repeat=2), *zip(unknown, unknown, strict=True)]
    pairs += [pair for q in unknown for side in (0, 1) for pair in ((q, side), (side, q))]
    rows = [
        {
            "holes": [1, 1, 3, 1, 1, 3],
            "chances": [0, 0, left, 0, 0, right],
            "own": (0, traps),
            "others": (0, 1),
            "die": 3,
        }
        for left, right in pairs
    ]
    expected = [
        6 + (2 if left <= right else 5)
        if min(left, right) <= threshold
        else 12 + (2 if left >= right else 5)
        for left, right in pairs
    ]
    assert moves_in(rows) == expected
    assert {action // 6 for action in expected} == {1, 2}


def test_the_others_traps_do_not_count():
    row = {"holes": [1, 1, 1, 1, 3, 1], "chances": [0.5] * 6, "die": 3}
    assert moves_in([row | {"own": (0, 1), "others": (0, 2)}]) == [action_of("take 4")]
    assert moves_in([row | {"own": (0, 2), "others": (0, 0)}]) == [action_of("discard 4")]


def test_slot_0_if_every_front_is_known():
    """Both seats peek at all six cards; nobody ever finds a match."""
    batch = table(Variant(num_players=2), "1c 1t 2c 2t 3c 3t", [6] * 14)
    for slot in range(5, -1, -1):
        assert move_of(batch.observations, batch.masks) != [action_of(f"peek {5 - slot}")] or slot
        play(batch, f"peek {slot}", f"peek {slot}")
    assert move_of(batch.observations, batch.masks) == [action_of("peek 0")]


def test_known_fronts_decide():
    """A trap is not taken where there is another card, and discarded where there is none."""
    batch = table(Variant(num_players=4), "4t 4c 1c 1c 1t 1t", [2, 2, 2, 2, 4])
    play(batch, "peek 0", "peek 5", "peek 5", "peek 5")
    assert move_of(batch.observations, batch.masks) == [action_of("take 1")]
    batch = table(Variant(num_players=4), "4t 1c 1c 1c 1t 1t", [2, 2, 2, 2, 4])
    play(batch, "peek 0", "peek 5", "peek 5", "peek 5")
    assert move_of(batch.observations, batch.masks) == [action_of("discard 0")]


# --- The figures of the rule book --------------------------------------------------------------


@pytest.mark.parametrize(("players", "share"), SHARES_AGAINST_RANDOM.items())
def test_share_against_random_play(players, share):
    """Both the figure and ours are from 40,000 games, the figure rounded to three digits."""
    reference, random = agents.make("reference"), agents.make("random")
    score = win_share(reference, random, num_players=players, games=TABLE_GAMES, seed=players)
    assert score.games >= TABLE_GAMES
    assert abs(score.share - share) <= 4 * standard_error(score) + 0.0005


@pytest.mark.parametrize("players", PLAYERS)
def test_among_themselves_no_third_trap(players):
    """With 2 or 3 players a turn uses one card of the reserve, so a mean of 30 is 30 in each."""
    reference = agents.make("reference")
    score = win_share(reference, reference, num_players=players, games=12_000)
    assert score.third_traps == 0
    assert score.share == pytest.approx(1 / players, abs=1e-7)  # each deal is played alike
    assert (score.turns == 30) == (players <= 3)
    if players > 3:
        assert score.turns == pytest.approx(49.2, abs=1)

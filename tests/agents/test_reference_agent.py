"""The reference heuristic against the rule book: move by move, and by its published figures."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from agent_tools import standard_error
from builders import KINDS, PLAYERS, action_of, play, random_legal, shuffled, table
from reference.game import ReferenceGame, reference_policy

import agents
from agents.arena.matches import win_share
from alles_kaese_env import OBSERVATION, GameBatch, Variant, encode_action
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
    """Every position of some random games: the reference game, and what the engine tells."""
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


def write(observations, name, values):
    """Fill a field of observations (B, 253) with values (B, ...)."""
    field = OBSERVATION[name]
    observations[:, field.where] = np.reshape(values, (len(observations), -1))


def situations(holes, chances, known):
    """Observations of rows with these holes (B, 6), trap probabilities (B, 6) and known fronts."""
    holes, chances, known = np.asarray(holes), np.asarray(chances, float), np.asarray(known)
    observations = np.zeros((len(holes), OBSERVATION.size), np.float32)
    write(observations, "row", holes[..., None] == np.arange(1, 7))
    write(observations, "trap_probability", chances)
    write(observations, "own_peeks", known[..., None] & np.stack([chances < 1, chances == 1], -1))
    return observations


def masks_of(number, *slots):
    """Masks (number, 18): take and discard of matching slots, or six peeks if there are none."""
    masks = np.zeros((number, 18), bool)
    masks[:, [slot + kind for slot in slots for kind in (6, 12)] or range(6)] = True
    return masks


def test_the_peek_is_where_an_unknown_front_matters_most():
    """Two unknown fronts at slots 1 and 4, all others known; equal worth goes to slot 1."""
    cards = list(product(ALL_HOLES, PROBABILITIES))
    worth = [holes * q * (1 - q) for holes, q in cards]
    pairs = list(product(range(len(cards)), repeat=2))
    holes, chances = np.full((len(pairs), 6), 6), np.zeros((len(pairs), 6))
    for row, pair in enumerate(pairs):
        for slot, card in zip((1, 4), pair, strict=True):
            holes[row, slot], chances[row, slot] = cards[card]
    known = np.tile([True, False, True, True, False, True], (len(pairs), 1))
    moves = move_of(situations(holes, chances, known), masks_of(len(pairs)))
    expected = [1 if worth[left] >= worth[right] else 4 for left, right in pairs]
    assert moves.tolist() == expected
    other_holes = {
        pair
        for pair in pairs
        if worth[pair[0]] == worth[pair[1]] > 0 and cards[pair[0]][0] != cards[pair[1]][0]
    }
    assert len(other_holes) > 10  # such as 3 x 1/4 = 4 x 3/16


@pytest.mark.parametrize("traps", [0, 1, 2])
def test_take_the_safest_or_discard_the_worst(traps):
    """Two matching cards at slots 2 and 5, of any trap probability; equal ones go to slot 2."""
    threshold = Fraction(7, 10) if traps <= 1 else Fraction(1, 10)
    pairs = list(product([*PROBABILITIES, Fraction(1)], repeat=2))
    chances = np.zeros((len(pairs), 6))
    chances[:, [2, 5]] = np.array(pairs, float)
    holes = np.full((len(pairs), 6), 3)
    known = np.isin(chances, (0, 1))
    observations = situations(holes, chances, known)
    write(observations, "traps", np.tile([traps / 3, 1 / 3, 0, 0, 0, 0], (len(pairs), 1)))
    expected = [
        6 + (2 if left <= right else 5)
        if min(left, right) <= threshold
        else 12 + (2 if left >= right else 5)
        for left, right in pairs
    ]
    assert move_of(observations, masks_of(len(pairs), 2, 5)).tolist() == expected
    assert {action // 6 for action in expected} == {1, 2}


def test_the_others_traps_do_not_count():
    observations = situations([[3] * 6], [[0.5] * 6], [[False] * 6])
    write(observations, "traps", [[1 / 3, *[2 / 3] * 5]])
    assert move_of(observations, masks_of(1, 4)) == [action_of("take 4")]
    write(observations, "traps", [[2 / 3, *[0] * 5]])
    assert move_of(observations, masks_of(1, 4)) == [action_of("discard 4")]


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

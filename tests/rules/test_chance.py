"""Chance as a phase: its outcomes, their weights, and that sampling follows them."""

import numpy as np
import pytest
from agent_tools import chi_square, chi_square_limit
from builders import mixed_states, play, table

from alles_kaese_env import OBSERVATION, GameBatch, Variant
from alles_kaese_env.core.loops import act_games, chance_games, clear_games
from alles_kaese_env.core.records import (
    CARD,
    CHEESE,
    DECISION,
    DIE,
    FRONT,
    MAX_HOLES,
    MAX_SLOTS,
    NUM_ACTIONS,
    OVER,
    STREAM,
    TRAP,
    as_records,
)
from alles_kaese_env.core.rules import chance_weight, face_of, legal_actions, num_chance_outcomes

CHANCE = (CARD, DIE, FRONT)
VARIANTS = [
    Variant(),
    Variant(num_players=4),
    Variant(burn="turn"),
    Variant(traps=(1, 1), copies=(2, 3), row_size=2),
]
SAMPLES = 6_000


def walk(variant, seed, plies=60):
    """An undealt game, led through chance and decisions by hand; yields it in each chance phase."""
    rng = np.random.default_rng(seed)
    batch = GameBatch(1, variant, seed=seed)
    rules, rows = variant.rules, np.zeros(1, np.int64)
    clear_games(batch.games, rules, rows)
    for _ in range(plies):
        phase = batch.games["phase"][0]
        if phase == OVER:
            return
        if phase == DECISION:
            legal = legal_actions(batch.games[0], rules[0])
            action = rng.choice([a for a in range(NUM_ACTIONS) if legal >> a & 1])
            act_games(batch.games, rules, rows, np.array([action]), batch.illegal)
            assert not batch.illegal[0]
            continue
        yield batch.games
        weights = np.array(weights_of(batch.games, rules))
        outcome = rng.choice(len(weights), p=weights / weights.sum())
        chance_games(*batch.arrays[:3], rows, np.array([outcome]))


def weights_of(games, rules):
    number = num_chance_outcomes(games[0], rules[0])
    return [chance_weight(games[0], rules[0], outcome) for outcome in range(number)]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_weights_count_what_is_left(variant):
    """S1, T1, I4."""
    seen = set()
    for games in (games for seed in range(20) for games in walk(variant, seed)):
        game, weights = games[0], weights_of(games, variant.rules)
        seen.add(int(game.phase))
        if game.phase == CARD:
            assert weights == game.below[: variant.num_holes].tolist()
            assert sum(weights) == game.reserve
        elif game.phase == DIE:
            assert weights == [1] * variant.num_holes
        else:
            holes = int(game.row[game.action % MAX_SLOTS])
            left = [
                sum(card == (holes, is_trap) for card in variant.deck)
                - int(game.drawn[is_trap * MAX_HOLES + holes - 1])
                for is_trap in (False, True)
            ]
            assert weights == left
        assert min(weights) >= 0
        assert sum(weights) > 0
    assert seen == set(CHANCE)


def test_a_decision_and_the_end_have_no_outcomes():
    batch = GameBatch(1, seed=0)
    assert weights_of(batch.games, batch.variant.rules) == []
    while not batch.over[0]:
        batch.step(batch.random_actions())
    assert weights_of(batch.games, batch.variant.rules) == []


@pytest.mark.parametrize("phase", CHANCE)
def test_samples_follow_the_weights(phase):
    """Chi-square of 6,000 samples in a state of each phase, below its 99.99 % quantile."""
    variant = Variant()
    states = [games.copy() for games in walk(variant, 5) if games["phase"][0] == phase]
    games = np.repeat(states[len(states) // 2], SAMPLES)
    streams = as_records(np.arange(SAMPLES, dtype=np.uint64) * np.uint64(7919), STREAM)
    outcomes = np.full(SAMPLES, -1, np.int64)
    weights = np.array(weights_of(games, variant.rules))
    chance_games(games, streams, variant.rules, np.arange(SAMPLES), outcomes)
    expected = SAMPLES * weights / weights.sum()
    counts = np.bincount(outcomes, minlength=len(weights))
    assert not counts[weights == 0].any()
    possible = weights > 0
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    quantile = {1: 15.1, 2: 18.4, 3: 21.1, 4: 23.5, 5: 25.7}
    assert statistic < quantile[int(possible.sum()) - 1]


# --- What a seat does not know, drawn by I4 ----------------------------------------------------


@pytest.mark.parametrize("players", [2, 4])
def test_hidden_fronts_are_traps_as_often_as_the_seat_believes(players):
    """A card of the row in each of many states, by holes."""
    batch = mixed_states(Variant(num_players=players), 2_000, seed=1)
    observed = expected = variance = np.zeros(MAX_HOLES)
    for seat in range(players):
        hidden = (batch.games["peeked"] > 0) & (batch.games["peeked"] >> seat & 1 == 0)
        rows = np.flatnonzero(hidden.any(axis=1))
        slots = hidden[rows].argmax(axis=1)
        holes = batch.games["row"][rows, slots] - 1
        believed = OBSERVATION.decode(batch.observe(seat))["trap_probability"][rows, slots]
        draws = batch.sample_hidden(seat, 10, seed=seat)["front"][rows, :, slots]
        assert np.isin(draws, (CHEESE, TRAP)).all()
        traps = (draws == TRAP).sum(axis=1)
        observed = observed + np.bincount(holes, traps, MAX_HOLES)
        expected = expected + np.bincount(holes, 10 * believed, MAX_HOLES)
        variance = variance + np.bincount(holes, 10 * believed * (1 - believed), MAX_HOLES)
    assert (variance > 100).all()
    assert ((observed - expected) ** 2 / variance).sum() < chi_square_limit(MAX_HOLES)


def test_hidden_fronts_of_a_row_are_drawn_without_replacement():
    """Of 3 traps among 6 cards of four holes, with one cheese known to the seat: 3 of 5."""
    batch = table(Variant(num_players=2), "4c 4t 4c 1c 1t 2c 3c 5c 6c 6t", dice=[6, 6, 6, 6, 6])
    play(batch, "peek 0", "peek 1", "peek 3", "peek 2")
    drawn = batch.sample_hidden(0, SAMPLES, seed=1)[0]
    assert (drawn["front"][:, 0] == CHEESE).all()
    pairs = (drawn["front"][:, 1] == TRAP) * 2 + (drawn["front"][:, 2] == TRAP)
    shares = np.array([2 / 5 * 1 / 4, 2 / 5 * 3 / 4, 3 / 5 * 2 / 4, 3 / 5 * 2 / 4])
    assert chi_square(np.bincount(pairs, minlength=4), shares) < chi_square_limit(3)
    known = batch.sample_hidden(1, 100, seed=1)[0]["front"][:, 1:3]
    assert (known == batch.games["front"][0, 1:3]).all()


def test_hidden_fronts_of_discarded_cards_are_drawn_too():
    """Seat 0 peeked at what seat 1 discarded: seat 1 knows that it does, and not what it saw."""
    batch = table(Variant(num_players=2), "5t 1t 2c 3c 4c 4t 2c 3t 5c 1t", dice=[6, 5, 6, 6])
    play(batch, "peek 0", "discard 0", "peek 1")
    cheese, trap = face_of(CHEESE, 5), face_of(TRAP, 5)
    drawn = batch.sample_hidden(1, SAMPLES, seed=2)[0]["known"][:, 0]
    assert (drawn[:, trap] + drawn[:, cheese] == 1).all()
    assert chi_square(np.bincount(drawn[:, trap]), np.array([2, 4]) / 6) < chi_square_limit(1)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((2, 1), "seats is 2"),
        ((-1, 1), "seats is -1"),
        ((0, 0), "number is 0"),
        (("0", 1), "seats is '0'"),
    ],
)
def test_wrong_arguments_of_the_draws_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        GameBatch(3, seed=0).sample_hidden(*arguments)

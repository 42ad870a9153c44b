"""Chance as a phase: its outcomes, their weights, and that sampling follows them."""

import numpy as np
import pytest

from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.core.loops import act_games, chance_games, clear_games
from alles_kaese_env.core.records import (
    CARD,
    DECISION,
    DIE,
    FRONT,
    MAX_HOLES,
    MAX_SLOTS,
    NUM_ACTIONS,
    OVER,
    STREAM,
)
from alles_kaese_env.core.rules import chance_weight, legal_actions, num_chance_outcomes
from alles_kaese_env.game_batch import as_records

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

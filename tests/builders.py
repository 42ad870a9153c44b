"""Stacked decks, tables to play on, and small ways to look at them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from alles_kaese_env import DISCARD, OBSERVATION, PEEK, TAKE, GameBatch, Variant, encode_action
from alles_kaese_env.core.records import (
    DECISION,
    MAX_HOLES,
)
from alles_kaese_env.scripted import ScriptedDeal

PLAYERS = range(2, 7)
BURNS = ("peek", "turn", "never")
KINDS = {"peek": PEEK, "take": TAKE, "discard": DISCARD}
KIND_NAMES = {kind: name for name, kind in KINDS.items()}

# Small enough to reach every corner in a few turns.
SMALL_VARIANTS = (
    {"traps": (1, 1), "copies": (3, 3), "row_size": 2, "trap_limit": 1},
    {"traps": (0, 2), "copies": (1, 4), "row_size": 1, "trap_limit": 2, "burn": "never"},
    {"traps": (1, 2, 1), "copies": (4, 4, 2), "row_size": 4, "trap_limit": 2, "burn": "turn"},
    {"traps": (6, 6, 0, 1), "copies": (12, 12, 1, 1), "row_size": 6, "trap_limit": 10},
    {"traps": (0, 0), "copies": (2, 2), "row_size": 3, "trap_limit": 4},
)


def small_variants(num_players):
    return [Variant(num_players=num_players, **fields) for fields in SMALL_VARIANTS]


def all_variants():
    """Every number of players with every burn rule, and the small ones for two and five."""
    default = [Variant(num_players=n, burn=burn) for n in PLAYERS for burn in BURNS]
    return default + small_variants(2) + small_variants(5)


def name_of(variant):
    """A short name for a test that is parametrised over variants."""
    holes = "".join(str(number) for number in variant.traps)
    return f"{variant.num_players}-{variant.burn}-{holes}-{variant.row_size}"


# Decks


def cards(text):
    """Cards from a text such as "3t 1c": a trap of three holes, then a cheese of one."""
    return [(int(word[:-1]), {"t": True, "c": False}[word[-1]]) for word in text.split()]


def stacked(variant, first, last=""):
    """The whole deck of a variant that begins and ends with certain cards."""
    top, bottom = cards(first), cards(last)
    left = Counter(variant.deck)
    left.subtract(top + bottom)
    assert min(left.values()) >= 0, "the variant has not so many of these cards"
    return top + sorted(left.elements()) + bottom


def shuffled(variant, rng):
    """The deck of a variant in random order."""
    deck = variant.deck
    return [deck[k] for k in rng.permutation(len(deck))]


# Tables


def table(variant, first, dice=(), last=""):
    """A batch of one game with a stacked deck and certain dice."""
    batch = GameBatch(1, variant, seed=0)
    batch.reset(script=ScriptedDeal(variant, stacked(variant, first, last), dice))
    return batch


def action_of(move):
    """The action of a text such as "take 3"."""
    kind, slot = move.split()
    return encode_action(KINDS[kind], int(slot))


def play(batch, *moves):
    """Let the seats to move do these things one after the other."""
    for move in moves:
        batch.step([action_of(move)])


def game_of(batch, row=0):
    """A copy of the record of a game."""
    return batch.games[row].copy()


def facts_of(batch, seat):
    """What a seat of the only game reads from its observation."""
    return OBSERVATION.facts(batch.observe(seat)[0], batch.variant)


def own_facts(batch):
    """For every seat what it reads from its observation."""
    return [facts_of(batch, seat) for seat in range(batch.variant.num_players)]


def legal_moves(batch):
    """The moves that the mask of the only game allows, as a set of texts."""
    return {f"{KIND_NAMES[a // 6]} {a % 6}" for a in np.flatnonzero(batch.masks[0])}


def by_holes(**counts):
    """Counts by holes, such as by_holes(_2=1) for one card of two holes."""
    return [counts.get(f"_{holes}", 0) for holes in range(1, MAX_HOLES + 1)]


def bytes_of(games):
    """The bytes of all fields of records; what lies between them means nothing."""
    return b"".join(games[name].tobytes() for name in games.dtype.names)


# Random play


def random_legal(masks, rng):
    """A legal action of each row (B,), any of them as likely; the mask of each row has a bit."""
    return np.argmax(rng.random(masks.shape) * masks, axis=1)


def playing(batch):
    """The rows whose game is not over."""
    return np.flatnonzero(batch.games["phase"] == DECISION)


def play_random_plies(batch, plies, rng):
    """Random legal play on all games that are not over."""
    for _ in range(plies):
        rows = playing(batch)
        batch.step(random_legal(batch.masks[rows], rng), rows)


def mixed_states(variant, games, seed):
    """A batch whose games stand at very different points, some of them at their end."""
    batch = GameBatch(games, variant, seed=seed)
    rng = np.random.default_rng(seed)
    stop_at = rng.integers(0, 45, games)
    for ply in range(45):
        rows = np.flatnonzero((batch.games["phase"] == DECISION) & (stop_at > ply))
        batch.step(random_legal(batch.masks[rows], rng), rows)
    return batch


def with_games(batch, games):
    """A new batch with these records in place of its own."""
    other = GameBatch(len(games), batch.variant, seed=0)
    other.games[:] = games
    other.look(np.arange(len(games)))
    return other

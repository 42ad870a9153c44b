"""What a seat knows of a game."""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np

from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import (
    MAX_HOLES,
    MAX_OPPONENTS,
    MAX_PLAYERS,
    MAX_SLOTS,
    NUM_FACES,
    OVER,
    UNSEEN,
    record,
)
from alles_kaese_env.core.rules import matching_slots, seat_after
from alles_kaese_env.core.vector import (
    EACH_BYTE,
    bits_of_bytes,
    divide_bytes,
    lookup_bytes,
    one_hot_bytes,
    pack_bytes,
    scale_bytes,
    spread_bits,
)

AXES = {  # the lengths of the axes of a field
    "slots": MAX_SLOTS,
    "holes": MAX_HOLES,
    "fronts": 2,  # cheese, trap
    "seats": MAX_PLAYERS,  # the observer, then the others in turn order
    "opponents": MAX_OPPONENTS,  # in turn order after the observer
    "numbers of players": MAX_OPPONENTS,
}
ONE_HOT, BITS, SHARE = "one-hot", "bits", "share"
LAYOUT: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    # The fields of the observation in their order, all float32: name, axes, what the numbers are,
    # meaning. Numbers are ONE_HOT along the last axis, BITS, a SHARE, or counts times a field of
    # RULES. First what is a bit,
    ("row", ("slots", "holes"), ONE_HOT,
     "holes of the card in each slot, one-hot; all 0 for an empty slot (I1)"),
    ("own_peeks", ("slots", "fronts"), ONE_HOT,
     "the front in each slot is known to the observer as cheese, as a trap (I2)"),
    ("die", ("holes",), ONE_HOT,
     "number on the die, one-hot; all 0 before the first roll (I1)"),
    ("match", (), BITS,
     "1 if a card in the row shows as many holes as the die (T5)"),
    ("top", ("holes",), ONE_HOT,
     "holes on top of the reserve, one-hot; all 0 if no card is visible there (I1)"),
    ("num_players", ("numbers of players",), ONE_HOT,
     "2, 3, 4, 5, 6 players, one-hot"),
    ("turn", ("seats",), ONE_HOT,
     "whose turn it is, by seat, one-hot; all 0 when the game is over (I1)"),
    ("opponent_peeks", ("slots", "opponents"), BITS,
     "which opponents peeked at the card in each slot (T3)"),
    # then what is a share of something.
    ("trap_share", ("holes",), SHARE,
     "probability that a card of 1, 2, ... holes whose front the observer does not know is a trap "
     "(I4); 0 if it knows them all"),
    ("trap_probability", ("slots",), SHARE,
     "the same for the card in each slot; 0 or 1 where the observer knows the front, 0 for an "
     "empty slot (I4)"),
    ("reserve", (), "per_card", "cards in the reserve / all cards (I1)"),
    ("gone", ("holes",), "per_copy",
     "cards that left row and reserve, by holes / copies (I1)"),
    ("known", ("fronts", "holes"), "per_copy",
     "fronts that the observer knows, wherever the cards are now: cheese, then traps, by holes / "
     "copies (I1, I2)"),
    ("traps", ("seats",), "per_trap", "traps taken, by seat / trap limit (I1)"),
    ("points", ("seats",), "per_point", "points, by seat / all points of the deck (I1)"),
    ("cheese", ("seats",), "per_cheese", "cheese cards taken, by seat / all cheese cards (I1)"),
    ("taken", ("seats", "fronts", "holes"), "per_copy",
     "cards taken, by seat: cheese, then traps, by holes / copies (I1)"),
    ("opponent_fronts", ("opponents", "holes"), "per_copy",
     "how many fronts each opponent knows, by holes, wherever the cards are now / copies (T3)"),
)  # fmt: skip
RECALLED = ("own_peeks", "trap_share", "trap_probability", "known")  # what recall has a part in
STATE_LAYOUT = (
    # The whole state: who saw which fronts, then what a seat would observe that saw them all.
    ("peeks", ("slots", "seats"), BITS, "which seats peeked at the card in each slot (T3)"),
    ("known_by", ("seats", "fronts", "holes"), "per_copy",
     "fronts that each seat knows, wherever the cards are now: cheese, then traps, by holes / "
     "copies (I1, I2)"),
    *LAYOUT,
)  # fmt: skip


def record_of(layout: tuple[tuple[str, tuple[str, ...], str, str], ...]) -> np.dtype[Any]:
    """The record with the fields of a layout."""
    return record([(name, "f4", tuple(AXES[axis] for axis in axes)) for name, axes, _, _ in layout])


OBSERVATION_RECORD = record_of(LAYOUT)
STATE_RECORD = record_of(STATE_LAYOUT)
OBSERVATION_SIZE = OBSERVATION_RECORD.itemsize // 4
OBSERVATION_VERSION = 1
NO_RECALL_VERSION = 1  # of the same layout without recall


@jit
def observe(game, rules, seat, out):
    """I1, I2, I4: all that a seat may know, into ``out``, an OBSERVATION_RECORD.

    What stands for seats beyond the number of players is left as it is: ``out`` begins as zeros.
    """
    observe_row(game, rules, seat, out)
    observe_table(game, rules, seat, out)
    observe_fronts(game, rules, seat, out)
    for place in range(rules.num_players):
        observe_seat(game, rules, seat_after(seat, place, rules), place, out)


@jit
def one_hot(number):
    """Bit number - 1, no bit for 0."""
    return (1 << np.int64(number)) >> 1


@jit
def observe_row(game, rules, seat, out):
    """I1, I2, I4, T3: the row: backs, fronts that the seat peeked at, beliefs, who else peeked."""
    backs = pack_bytes(game.row, 0)
    knows = pack_bytes(game.peeked, 0) >> seat & EACH_BYTE
    fronts = pack_bytes(game.front, 0) & knows * 255
    one_hot_bytes(backs, out.row, MAX_HOLES)
    one_hot_bytes(fronts, out.own_peeks, 2)
    bits_of_bytes(opponents_that_peeked(game, rules, seat), out.opponent_peeks, MAX_OPPONENTS)

    cheese = rules.cheese_word - pack_bytes(game.known[seat], 0)
    traps = rules.traps_word - pack_bytes(game.known[seat], MAX_HOLES)
    divide_bytes(traps, cheese + traps, out.trap_share)
    # In the row: nothing of 1 where the slot is empty, the front itself of 1 where it is known.
    chances = lookup_bytes(traps << 8, backs) & ~(knows * 255) | fronts >> 1 & EACH_BYTE
    cases = lookup_bytes(cheese + traps << 8 | 1, backs) & ~(knows * 255) | knows
    divide_bytes(chances, cases, out.trap_probability)


@jit
def opponents_that_peeked(game, rules, seat):
    """T3: for each slot, bit k is set where the opponent of place k + 1 peeked at its card."""
    peeked = pack_bytes(game.peeked, 0)
    later = peeked & ((-1 << seat + 1) & 255) * EACH_BYTE
    earlier = peeked & ((1 << seat) - 1) * EACH_BYTE
    return later >> seat + 1 | earlier << rules.num_players - 1 - seat


@jit
def observe_table(game, rules, seat, out):
    """I1: the die, the reserve, what has gone, the number of players, whose turn it is."""
    spread_bits(one_hot(game.die), out.die, MAX_HOLES)
    out.match = game.die != 0 and matching_slots(game) != 0
    spread_bits(one_hot(game.top), out.top, MAX_HOLES)
    out.reserve = np.float32(game.reserve) * rules.per_card
    scale_bytes(pack_bytes(game.gone, 0), rules.per_copy, out.gone)
    spread_bits(1 << rules.num_players - 2, out.num_players, MAX_OPPONENTS)
    place = seat_after(np.int64(game.seat), rules.num_players - seat, rules)
    spread_bits(np.int64(game.phase != OVER) << place, out.turn, MAX_PLAYERS)


@jit
def observe_fronts(game, rules, seat, out):
    """I1, I2: the fronts that the seat knows, wherever the cards are now."""
    scale_bytes(pack_bytes(game.known[seat], 0), rules.per_copy, out.known[0])
    scale_bytes(pack_bytes(game.known[seat], MAX_HOLES), rules.per_copy, out.known[1])


@jit
def observe_seat(game, rules, seat, place, out):
    """I1, T3: what everybody knows of a seat that sits ``place`` places after the observer."""
    out.traps[place] = np.float32(game.traps[seat]) * rules.per_trap
    out.points[place] = np.float32(game.points[seat]) * rules.per_point
    out.cheese[place] = np.float32(game.cheese[seat]) * rules.per_cheese
    scale_bytes(pack_bytes(game.taken[seat], 0), rules.per_copy, out.taken[place, 0])
    scale_bytes(pack_bytes(game.taken[seat], MAX_HOLES), rules.per_copy, out.taken[place, 1])
    if place > 0:
        fronts = pack_bytes(game.known[seat], 0) + pack_bytes(game.known[seat], MAX_HOLES)
        scale_bytes(fronts, rules.per_copy, out.opponent_fronts[place - 1])


@jit
def observe_without_recall(game, rules, seat, last_peeks, work, out):
    """`observe` for a seat that has forgotten its peeks, except the one that was its last action.

    What all seats know by a take is no memory of its own. ``work`` is a GAME to work in, a copy of
    the game.
    """
    for slot in range(MAX_SLOTS):
        if last_peeks.slots[seat] != slot + 1:
            work.peeked[slot] = game.peeked[slot] & 255 - (1 << seat)
    for face in range(NUM_FACES):
        known = np.int64(last_peeks.faces[seat] == face + 1)
        for taker in range(rules.num_players):
            known += np.int64(game.taken[taker, face])
        work.known[seat, face] = known
    observe(work, rules, seat, out)


@jit
def observe_state(game, rules, seat, whole, out):
    """The whole state as far as it is determined, from a seat on, into ``out``, a STATE_RECORD.

    ``whole`` is a GAME to work in, a copy of the game.
    """
    for slot in range(MAX_SLOTS):
        if whole.front[slot] != UNSEEN:
            whole.peeked[slot] |= 1 << seat
    for face in range(NUM_FACES):
        whole.known[seat, face] = whole.drawn[face]
    observe(whole, rules, seat, out)
    for place in range(rules.num_players):
        other = seat_after(seat, place, rules)
        for slot in range(MAX_SLOTS):
            out.peeks[slot, place] = game.peeked[slot] >> other & 1
        scale_bytes(pack_bytes(game.known[other], 0), rules.per_copy, out.known_by[place, 0])
        scale_bytes(
            pack_bytes(game.known[other], MAX_HOLES), rules.per_copy, out.known_by[place, 1]
        )

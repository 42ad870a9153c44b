"""The records that a game is made of, and the codes of what stands in them.

Each field says who may see it; the tests that look for leaks read that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# --- Capacities and codes ------------------------------------------------------------------

MAX_PLAYERS = 6
MAX_OPPONENTS = MAX_PLAYERS - 1
MAX_SLOTS = 6
MAX_HOLES = 6
MAX_COPIES = 12  # points stay below 256 with every card of six hole counts cheese
NUM_FACES = 2 * MAX_HOLES  # cheese of 1 to 6 holes, then traps of 1 to 6 holes

CARD, DIE, FRONT, DECISION, OVER = range(5)  # the chance phases come before DECISION
UNSEEN, CHEESE, TRAP = range(3)
PEEK, TAKE, DISCARD = range(3)
BURN_NEVER, BURN_PEEK, BURN_TURN = range(3)

NUM_ACTIONS = 3 * MAX_SLOTS  # action = kind * MAX_SLOTS + slot
NO_ACTION = 255

RULES_VERSION = 1

# --- The records ---------------------------------------------------------------------------

GAME_FIELDS = (
    # field, dtype, shape, who may see it, meaning. "owner": of a card in the row, the seats that
    # peeked at it; of a table with a row for each seat, that seat.
    # The wider fields come first, so that there is no gap whose bytes mean nothing.
    ("turns", "u2", (), "all", "turns that have ended"),
    ("reserve", "u2", (), "all", "cards in the reserve, the top one included"),
    ("phase", "u1", (), "all", "CARD, DIE, FRONT, DECISION or OVER"),
    ("seat", "u1", (), "all", "whose turn it is; when OVER, whose turn ended the game"),
    ("die", "u1", (), "all", "number of the last roll, 0 before the first"),
    ("action", "u1", (), "all", "the last decision, NO_ACTION before the first"),
    ("burn_due", "u1", (), "all", "1 while a card has still to be burned in this turn"),
    ("top", "u1", (), "all", "holes on top of the reserve, 0 where no back is visible there"),
    ("row", "u1", (MAX_SLOTS,), "all", "holes of the card in each slot, 0 for none"),
    ("peeked", "u1", (MAX_SLOTS,), "all", "bit s: seat s peeked at the card in this slot"),
    ("front", "u1", (MAX_SLOTS,), "owner", "UNSEEN, CHEESE or TRAP, for the card in each slot"),
    ("below", "u1", (MAX_HOLES,), "all", "cards under the top of the reserve, by holes"),
    ("gone", "u1", (MAX_HOLES,), "all", "cards that left row and reserve, by holes"),
    ("traps", "u1", (MAX_PLAYERS,), "all", "traps taken by each seat"),
    ("cheese", "u1", (MAX_PLAYERS,), "all", "cheese cards taken by each seat"),
    ("points", "u1", (MAX_PLAYERS,), "all", "holes on these cheese cards"),
    ("taken", "u1", (MAX_PLAYERS, NUM_FACES), "all", "cards taken by each seat, by face"),
    ("known", "u1", (MAX_PLAYERS, NUM_FACES), "owner", "fronts that each seat knows, by face"),
    ("drawn", "u1", (NUM_FACES,), "nobody", "fronts that anybody has seen, by face"),
)


def record(fields: list[tuple[Any, ...]]) -> np.dtype[Any]:
    """An aligned record whose fields are attributes."""
    return np.dtype((np.record, np.dtype(fields, align=True)))


def as_records(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[np.void]:
    """A contiguous array (B,) or (B, n) as (B,) records over the same memory."""
    return array.view(dtype).reshape(len(array))


GAME = record([field[:3] for field in GAME_FIELDS])
STREAM = record([("counter", "u8")])
MASK = record([("legal", "u1", (NUM_ACTIONS,))])
LAST_PEEKS = record(
    # What a game played without recall keeps beside its record: of each seat whose last action was
    # a peek, what it saw, known to that seat alone. 0 for none.
    [
        ("faces", "u1", (MAX_PLAYERS,)),  # face + 1 of the card, while not all seats know it
        ("slots", "u1", (MAX_PLAYERS,)),  # slot + 1, while the card lies there
    ]
)

RULES = record(
    [
        ("num_players", "i8"),
        ("num_holes", "i8"),  # hole counts, and so sides of the die
        ("row_size", "i8"),
        ("trap_limit", "i8"),
        ("burn", "i8"),  # BURN_NEVER, BURN_PEEK or BURN_TURN
        ("num_cards", "i8"),
        ("copies", "i8", (MAX_HOLES,)),  # cards by holes
        ("fronts", "i8", (NUM_FACES,)),  # cards by face
        ("cheese_word", "i8"),  # the same as words of bytes
        ("traps_word", "i8"),
        # What the observation multiplies its counts with, to have them end at 1.
        ("per_copy", "f4", (MAX_HOLES,)),
        ("per_card", "f4"),
        ("per_trap", "f4"),
        ("per_point", "f4"),
        ("per_cheese", "f4"),
    ]
)

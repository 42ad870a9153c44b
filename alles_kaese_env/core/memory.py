"""How much memory games need."""

from __future__ import annotations

import os

import numpy as np

from alles_kaese_env.core.observe import OBSERVATION_RECORD
from alles_kaese_env.core.records import GAME, NUM_ACTIONS, STREAM

BYTES_A_GAME = (  # its payoffs aside: record, observation, stream, mask, three numbers, two flags
    GAME.itemsize + OBSERVATION_RECORD.itemsize + STREAM.itemsize + NUM_ACTIONS + 3 * 8 + 2
)


def check_memory(games: int, players: int) -> None:
    """Raise `ValueError` if the arrays of so many games are larger than the memory of this machine.

    Where memory is handed out before it is there, as on Linux and macOS, the system would end the
    process. Elsewhere NumPy's `MemoryError` says how much is missing.
    """
    if hasattr(os, "sysconf"):
        needed = games * (BYTES_A_GAME + np.float32().itemsize * players)
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > there:
            raise ValueError(
                f"{games} games need {needed / 1e9:,.0f} GB of memory; "
                f"allowed: as many as fit into the {there / 1e9:,.0f} GB of this machine"
            )

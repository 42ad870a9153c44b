"""The table as text, drawn from an observation: it can show nothing that the seat may not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.engine import CHEESE, TRAP, UNSEEN
from alles_kaese_env.observation import OBSERVATION
from alles_kaese_env.variant import Variant

FRONTS = {UNSEEN: "?", CHEESE: "cheese", TRAP: "TRAP"}


def render_text(observation: npt.NDArray[np.float32], variant: Variant, seat: int) -> str:
    """The table as a seat sees it, in lines of at most 80 columns.

    Args:
        observation: (253,) float32, of that seat.
        variant: the rules of the game.
        seat: the observing seat.
    """
    facts = OBSERVATION.facts(observation, variant)
    lines = [_table_line(facts), *_row_lines(facts, variant, seat), *_seat_lines(facts, seat)]
    return "\n".join(lines)


def _table_line(facts: dict[str, Any]) -> str:
    die = facts["die"] or "-"
    match = "match" if facts["match"] else "no match"
    top = f", {facts['top']} holes on top" if facts["top"] else ""
    return f"die {die} ({match})   reserve {facts['reserve']} cards{top}"


def _row_lines(facts: dict[str, Any], variant: Variant, seat: int) -> list[str]:
    slots = range(variant.row_size)
    seats = variant.num_players
    peekers = [
        "".join(f" {(seat + 1 + k) % seats}" for k in np.flatnonzero(facts["opponent_peeks"][slot]))
        for slot in slots
    ]
    cells = {
        "slot": [str(slot) for slot in slots],
        "holes": [str(facts["row"][slot] or "-") for slot in slots],
        "front": [FRONTS[int(facts["front"][slot])] for slot in slots],
        "trap": [f"{facts['trap_probability'][slot]:.0%}" for slot in slots],
        "seen by": [text.strip().replace(" ", ",") or "-" for text in peekers],
    }
    return [f"{name:<8}" + "".join(f"{cell:>11}" for cell in row) for name, row in cells.items()]


def _seat_lines(facts: dict[str, Any], seat: int) -> list[str]:
    seats = facts["num_players"]
    lines = []
    for number in range(seats):
        place = (number - seat) % seats
        marks = "> " if facts["turn"] == place else "  "
        you = "  (you)" if place == 0 else ""
        traps, points, cheese = (int(facts[k][place]) for k in ("traps", "points", "cheese"))
        lines.append(
            f"{marks}seat {number}: {points:>2} points on {cheese:>2} cheese, {traps} traps{you}"
        )
    return lines

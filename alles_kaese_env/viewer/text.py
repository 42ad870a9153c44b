"""The game as text, from a view: it can show nothing that the observer may not know."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alles_kaese_env.variant import Variant
from alles_kaese_env.viewer.view import View, view_of_observation
from alles_kaese_env.viewer.words import FRONTS, cut, describe_turn

MOST_TURNS = 6
WIDTH = 80


def render_text(observation: npt.NDArray[np.float32], variant: Variant, seat: int) -> str:
    """The game as a seat sees it, in lines of at most 80 columns.

    Args:
        observation: (253,) float32, of that seat.
        variant: the rules of the game.
        seat: the observing seat.
    """
    return text_of(view_of_observation(observation, variant, seat))


def text_of(view: View) -> str:
    """The game of a view in lines of at most 80 columns; below it what was done last."""
    seats = [_seat_line(view, seat) for seat in view.seats]
    return "\n".join([_top_line(view), *_row_lines(view), *seats, *_news_lines(view)])


def _top_line(view: View) -> str:
    match = "match" if view.matching else "no match"
    top = f", {view.top} holes on top" if view.top else ""
    return f"die {view.die or '-'} ({match})   reserve {view.reserve} cards{top}"


def _row_lines(view: View) -> list[str]:
    seers = [
        ",".join(str(seat) for seat in _after(view, seats) if seat != view.perspective)
        for seats in view.peeked
    ]
    cells = {
        "slot": [str(slot) for slot in range(len(view.row))],
        "holes": [str(holes or "-") for holes in view.row],
        "front": [FRONTS[front] for front in view.front],
        "trap": [f"{share:.0%}" for share in view.trap_probability],
        "seen by": [text or "-" for text in seers],
    }
    return [f"{name:<8}" + "".join(f"{cell:>11}" for cell in row) for name, row in cells.items()]


def _after(view: View, seats: tuple[int, ...]) -> list[int]:
    """Seats in turn order after the observing seat."""
    first = 0 if isinstance(view.perspective, str) else view.perspective
    return sorted(seats, key=lambda seat: (seat - first) % len(view.seats))


def _seat_line(view: View, seat: int) -> str:
    marks = "> " if view.turn == seat else "* " if seat in view.winners else "  "
    you = "  (you)" if view.perspective == seat else ""
    traps, points, cheese = view.traps[seat], view.points[seat], view.cheese[seat]
    won = "  wins" if seat in view.winners else ""
    return f"{marks}seat {seat}: {points:>2} points on {cheese:>2} cheese, {traps} traps{you}{won}"


def _news_lines(view: View) -> list[str]:
    """What was done last, the latest first."""
    turns = [describe_turn(view, turn) for turn in reversed(view.turns[-MOST_TURNS:])]
    return [cut(f"{'last' if k == 0 else '':<8}{turn}", WIDTH) for k, turn in enumerate(turns)]

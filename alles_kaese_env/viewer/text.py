"""The table as text, from a view: it can show nothing that the observer may not know."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.records import (
    CHEESE,
    DISCARD,
    PEEK,
    TAKE,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.variant import Variant
from alles_kaese_env.viewer.view import Event, View, view_of_observation

FRONTS = {UNSEEN: "?", CHEESE: "cheese", TRAP: "TRAP"}
PAST = {PEEK: "peeked at", TAKE: "took", DISCARD: "discarded"}
MOST_EVENTS = 6


def render_text(observation: npt.NDArray[np.float32], variant: Variant, seat: int) -> str:
    """The table as a seat sees it, in lines of at most 80 columns.

    Args:
        observation: (253,) float32, of that seat.
        variant: the rules of the game.
        seat: the observing seat.
    """
    return text_of(view_of_observation(observation, variant, seat))


def text_of(view: View) -> str:
    """The table of a view in lines of at most 80 columns; below it what was done last."""
    seats = [_seat_line(view, seat) for seat in range(view.num_players)]
    return "\n".join([_table_line(view), *_row_lines(view), *seats, *_news_lines(view)])


def describe_event(view: View, event: Event) -> str:
    """A turn in words, such as "seat 0 took slot 2 (4 holes): cheese"."""
    text = f"{view.name_of(event.seat)} {PAST[event.kind]} slot {event.slot}"
    if event.holes:
        text += f" ({event.holes} hole{'s' * (event.holes > 1)})"
    return f"{text}: {FRONTS[event.front]}" if event.front != UNSEEN else text


def _table_line(view: View) -> str:
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
    return sorted(seats, key=lambda seat: (seat - first) % view.num_players)


def _seat_line(view: View, seat: int) -> str:
    marks = "> " if view.turn == seat else "* " if seat in view.winners else "  "
    you = "  (you)" if view.perspective == seat else ""
    traps, points, cheese = view.traps[seat], view.points[seat], view.cheese[seat]
    won = "  wins" if seat in view.winners else ""
    return f"{marks}seat {seat}: {points:>2} points on {cheese:>2} cheese, {traps} traps{you}{won}"


def _news_lines(view: View) -> list[str]:
    """What was done last, the latest first."""
    events = [describe_event(view, event) for event in reversed(view.events[-MOST_EVENTS:])]
    return [f"{'last' if k == 0 else '':<8}{event}"[:80] for k, event in enumerate(events)]

"""A replay as one HTML page with a slider, which needs no other file and no network.

The page is in parts: the table and how it is drawn serve other pages, too.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from alles_kaese_env.core.records import DISCARD, PEEK, TAKE, TRAP
from alles_kaese_env.files import replacing
from alles_kaese_env.replay.game import PUBLIC, Replay, shortened
from alles_kaese_env.viewer.text import (
    LONGEST_NAME,
    describe_end,
    describe_now,
    describe_perspective,
    describe_seat,
    describe_turn,
    plural,
)
from alles_kaese_env.viewer.view import View, view_of_replay

SHOWN = (
    *("row", "front", "peeked", "matching", "die", "top", "reserve", "discarded"),
    *("turn", "traps", "points", "winners"),
)


def save_page(replay: Replay, path: str | Path) -> None:
    """Write the page to a file, atomically.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(Path(path)) as temporary:
        temporary.write_text(page_of(replay), encoding="utf-8")


def page_of(replay: Replay) -> str:
    """The page as text. It holds no more than the replay knows."""
    data = json.dumps(_data_of(replay), separators=(",", ":"))
    page = part("page.html")
    for place, name in (("STYLE", "css"), ("TABLE", "html"), ("DRAWING", "js")):
        page = page.replace(f"__{place}__", part(f"table.{name}"))
    return page.replace("__DATA__", data.replace("<", "\\u003c"))  # "<" could end the script


def part(name: str) -> str:
    """A part of a page that draws a game: page.html, or table.css, table.html and table.js."""
    return resources.files("alles_kaese_env.viewer").joinpath(name).read_text(encoding="utf-8")


def _data_of(replay: Replay) -> dict[str, Any]:
    """What the script of the page draws."""
    views = [view_of_replay(replay, position) for position in range(len(replay))]
    end = views[-1]
    states = [state_of(view) for view in views]
    states[-1]["now"] = describe_end(end)
    return {
        **frame_of(end),
        "turns": log_of(end),
        "states": states,
    }


def frame_of(view: View) -> dict[str, Any]:
    """What stays the same in a game."""
    variant = view.variant
    players = plural(variant.num_players, "player")
    return {
        "rules": f"{players}, {len(variant.deck)} cards, burn {variant.burn}",
        "view": describe_perspective(view),
        "private": view.perspective != PUBLIC,
        "seats": [describe_seat(view, seat) for seat in view.seats],
        "names": [shortened(view.name_of(seat), LONGEST_NAME) for seat in view.seats],
        "trapLimit": variant.trap_limit,
        "copies": variant.copies,
    }


def log_of(view: View) -> list[dict[str, Any]]:
    """Who did what, from the first turn on."""
    return [{"seat": turn.seat, "text": describe_turn(view, turn)} for turn in view.turns]


def state_of(view: View) -> dict[str, Any]:
    """What `drawTable` of table.js draws; the cards of each seat in the order of taking them."""
    taken: list[list[tuple[int, bool]]] = [[] for _ in view.seats]
    last = view.turns[-1] if view.turns else None
    for turn in view.turns:
        if turn.kind == TAKE:
            taken[turn.seat].append((turn.holes, turn.front == TRAP))
    return {
        **{name: getattr(view, name) for name in SHOWN},
        "chance": [round(share, 4) for share in view.trap_probability],
        "peekedAt": last.slot if last and last.kind == PEEK else None,
        "takenBy": last.seat if last and last.kind == TAKE else None,
        "discardedHoles": last.holes if last and last.kind == DISCARD else None,
        "taken": taken,
        "now": describe_now(view),
    }

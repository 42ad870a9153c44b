"""A replay as one HTML page with a slider, which needs no other file and no network."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from alles_kaese_env.core.records import DISCARD, PEEK, TAKE, TRAP
from alles_kaese_env.files import replacing
from alles_kaese_env.replay.game import Replay, shortened
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
    template = resources.files("alles_kaese_env.viewer").joinpath("page.html")
    data = json.dumps(_data_of(replay), separators=(",", ":"))
    # In a script element, only "<" could end it.
    return template.read_text(encoding="utf-8").replace("__DATA__", data.replace("<", "\\u003c"))


def _data_of(replay: Replay) -> dict[str, Any]:
    """What the script of the page draws."""
    views = [view_of_replay(replay, position) for position in range(len(replay))]
    variant, end = replay.variant, views[-1]
    players = plural(variant.num_players, "player")
    states = [_state_of(view) for view in views]
    states[-1]["now"] = describe_end(end)
    return {
        "rules": f"{players}, {len(variant.deck)} cards, burn {variant.burn}",
        "view": describe_perspective(end),
        "private": replay.is_private,
        "seats": [describe_seat(end, seat) for seat in end.seats],
        "names": [shortened(end.name_of(seat), LONGEST_NAME) for seat in end.seats],
        "trapLimit": variant.trap_limit,
        "copies": variant.copies,
        "turns": [{"seat": turn.seat, "text": describe_turn(end, turn)} for turn in end.turns],
        "states": states,
    }


def _state_of(view: View) -> dict[str, Any]:
    """The game at a position; the cards of each seat in the order in which it took them."""
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

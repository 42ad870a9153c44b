"""A replay as one HTML page with a slider, which needs no other file and no network."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from alles_kaese_env.actions import decode_action
from alles_kaese_env.core.records import (
    NUM_ACTIONS,
    OVER,
    PEEK,
    TAKE,
    TRAP,
)
from alles_kaese_env.core.rules import (
    legal_actions,
)
from alles_kaese_env.files import replacing
from alles_kaese_env.replay.game import Replay
from alles_kaese_env.viewer.words import (
    describe_end,
    describe_perspective,
    describe_turn,
    discarded_cards,
    due,
    plural,
    trap_chances,
)


def save_page(replay: Replay, path: str | Path) -> None:
    """Write the page to a file, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(Path(path)) as temporary:
        temporary.write_text(page_of(replay), encoding="utf-8")


def page_of(replay: Replay) -> str:
    """The page as text. What stands in it beyond the drawing is what the replay knows."""
    template = resources.files("alles_kaese_env.viewer").joinpath("page.html")
    data = json.dumps(_data_of(replay), separators=(",", ":"))
    # In a script element, only "<" could end it.
    return template.read_text(encoding="utf-8").replace("__DATA__", data.replace("<", "\\u003c"))


def _data_of(replay: Replay) -> dict[str, Any]:
    """What the script of the page draws."""
    variant = replay.variant
    players = plural(variant.num_players, "player")
    return {
        "rules": f"{players}, {len(variant.deck)} cards, burn {variant.burn}",
        "view": describe_perspective(replay),
        "private": replay.is_private,
        "seats": [replay.name_of(seat) for seat in range(variant.num_players)],
        "names": replay.names or [f"seat {seat}" for seat in range(variant.num_players)],
        "rowSize": variant.row_size,
        "trapLimit": variant.trap_limit,
        "copies": variant.copies,
        "turns": [
            {"seat": turn.seat, "text": describe_turn(replay, number)}
            for number, turn in enumerate(replay.turns)
        ],
        "states": [_state_of(replay, position) for position in range(len(replay))],
    }


def _state_of(replay: Replay, position: int) -> dict[str, Any]:
    """The table at a position."""
    game, variant = replay.games[position], replay.variant
    legal = int(legal_actions(game, variant.rules[0]))
    kinds_and_slots = [decode_action(a) for a in range(NUM_ACTIONS) if legal >> a & 1]
    seats = range(variant.num_players)
    is_end = position == len(replay) - 1
    payoffs = replay.payoffs()
    is_over = bool(game["phase"] == OVER)
    return {
        "row": game["row"].tolist(),
        "front": game["front"].tolist(),
        "peeked": [
            [seat for seat in seats if bits >> seat & 1] for bits in game["peeked"].tolist()
        ],
        "chance": [round(chance, 4) for chance in trap_chances(replay, position)],
        "die": int(game["die"]),
        "top": int(game["top"]),
        "reserve": int(game["reserve"]),
        "discarded": discarded_cards(replay, position),
        "turn": None if is_over else int(game["seat"]),
        "match": any(kind != PEEK for kind, _ in kinds_and_slots),
        "legal": sorted({slot for _, slot in kinds_and_slots}),
        "acted": decode_action(replay.turns[position - 1].action)[1] if position else None,
        "traps": game["traps"].tolist(),
        "points": game["points"].tolist(),
        "taken": [_taken_cards(replay, position, seat) for seat in seats],
        "winners": [s for s in seats if is_over and payoffs[s] == max(payoffs)],
        "now": describe_end(replay) if is_end else due(replay, position),
    }


def _taken_cards(replay: Replay, position: int, seat: int) -> list[tuple[int, bool]]:
    """(holes, is_trap) of the cards before a seat, in the order in which it took them."""
    cards = []
    for turn, game in zip(replay.turns[:position], replay.games, strict=False):
        kind, slot = decode_action(turn.action)
        if turn.seat == seat and kind == TAKE:
            cards.append((int(game["row"][slot]), turn.front == TRAP))
    return cards

"""The table of a replay as coloured text for terminals of 80 columns.

Needs the extra ``play``.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from rich.style import Style
from rich.text import Text

from alles_kaese_env.actions import decode_action
from alles_kaese_env.core.records import (
    CHEESE,
    MAX_HOLES,
    NUM_ACTIONS,
    OVER,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.core.rules import (
    legal_actions,
)
from alles_kaese_env.replay.game import Replay
from alles_kaese_env.viewer.words import (
    describe_end,
    describe_turn,
    discarded_cards,
    due,
    trap_chances,
)

WIDTH = 78
CARD = 9  # columns of a card, and GAP between two
GAP = 1
SEATS = ("#3d9be9", "#f08030", "#2fbf8f", "#d978b0", "#a58bf0", "#b0b0b0")
SEATS_DARK = ("#0062a2", "#b84d00", "#00805a", "#984a78", "#6c4cb8", "#5c5c5c")
BACK = Style(color="#6b4206", bgcolor="#f5c044")
MATCH = Style(color="#6b4206", bgcolor="#ffe27a", bold=True)
CHOSEN = Style(color="#2a1a00", bgcolor="#ffffff", bold=True)
EMPTY = Style(color="#777777")
FRONTS = {
    UNSEEN: ("", Style(dim=True)),
    CHEESE: ("cheese", Style(color="#3ecf6e", bold=True)),
    TRAP: ("TRAP", Style(color="#ff6157", bold=True)),
}
# Where the holes of a back lie, in three lines of seven columns.
BACKS = {
    0: ("       ", "       ", "       "),
    1: ("       ", "   ●   ", "       "),
    2: (" ●     ", "       ", "     ● "),
    3: (" ●     ", "   ●   ", "     ● "),
    4: (" ●   ● ", "       ", " ●   ● "),
    5: (" ●   ● ", "   ●   ", " ●   ● "),
    6: (" ●   ● ", " ●   ● ", " ●   ● "),
}


def table_text(replay: Replay, position: int, chosen: Collection[int] = ()) -> Text:
    """The table at a position: what was done, row, piles and seats.

    Args:
        replay: the game as its perspective saw it.
        position: 0 to ``len(replay) - 1``.
        chosen: slots to light up.
    """
    parts = [
        _news(replay, position),
        _cards(replay, position, chosen),
        _piles(replay, position),
        *(_seat(replay, position, seat) for seat in range(replay.variant.num_players)),
    ]
    return Text("\n").join(parts)


def log_text(replay: Replay, position: int) -> Text:
    """The turns up to a position, a line each."""
    lines = []
    for number, turn in enumerate(replay.turns[:position]):
        line = Text()
        line.append(f"{number + 1:>3} ", style="dim")
        line.append(describe_turn(replay, number), Style(color=SEATS[turn.seat]))
        lines.append(line)
    return Text("\n").join(lines)


def _news(replay: Replay, position: int) -> Text:
    """What the last turn was, and who has to act."""
    last = describe_turn(replay, position - 1) if position else "the cards are dealt"
    is_end = position == len(replay) - 1 and replay.is_over
    now = describe_end(replay) if is_end else due(replay, position)
    text = Text(_cut(last), style="dim")
    text.append(f"\n{_cut(now)}", style="bold")
    return text


def _cards(replay: Replay, position: int, chosen: Collection[int]) -> Text:
    """The row and the top of the reserve, with who peeked, what is known, and the chances."""
    game, variant = replay.games[position], replay.variant
    legal = int(legal_actions(game, variant.rules[0]))
    taking = {decode_action(a)[1] for a in range(NUM_ACTIONS) if legal >> a & 1}
    matching = {slot for slot in taking if game["row"][slot] == game["die"]}
    chances = trap_chances(replay, position)
    lines = [Text() for _ in range(7)]
    for slot in range(variant.row_size):
        style = CHOSEN if slot in chosen else MATCH if slot in matching else BACK
        seers = [s for s in range(variant.num_players) if game["peeked"][slot] >> s & 1]
        name, name_style = FRONTS[int(game["front"][slot])]
        _centre(lines[0], f"[{slot}]" if slot in chosen else str(slot), Style(bold=slot in chosen))
        _draw_card(lines[1:6], int(game["row"][slot]), style, seers)
        if not name and game["row"][slot]:
            name = f"{chances[slot]:.0%} trap"
        _centre(lines[6], name, name_style)
    for line in lines:
        line.append("   ")
    _centre(lines[0], "reserve", Style(dim=True))
    _draw_card(lines[1:6], int(game["top"]), BACK, [])
    _centre(lines[6], f"{int(game['reserve'])} cards", Style(dim=True))
    return Text("\n").join(lines)


def _draw_card(lines: list[Text], holes: int, style: Style, seers: list[int]) -> None:
    """A card, five lines high; in its upper edge the seats that peeked at it."""
    style = style if holes else EMPTY
    lines[0].append("╭", style)
    for seat in seers:
        lines[0].append(str(seat), Style(color="#ffffff", bgcolor=SEATS_DARK[seat], bold=True))
    lines[0].append("─" * (CARD - 2 - len(seers)) + "╮", style)
    for line, inside in zip(lines[1:4], BACKS[holes], strict=True):
        line.append(f"│{inside}│", style)
    number = str(holes) if holes else "─"
    lines[4].append(f"╰───{number}───╯", style)
    for line in lines:
        line.append(" " * GAP)


def _piles(replay: Replay, position: int) -> Text:
    """The die, and the discard pile by holes."""
    game = replay.games[position]
    text = Text("die ", style="dim")
    text.append(
        f" {int(game['die']) or '-'} ", Style(color="#000000", bgcolor="#ffffff", bold=True)
    )
    counts = discarded_cards(replay, position)
    text.append(f"    discarded {sum(counts)}", style="dim")
    if any(counts):
        piles = ", ".join(f"{n} of {holes}" for holes, n in enumerate(counts, start=1) if n)
        text.append(f": {piles} holes", style="dim")
    return text


def _seat(replay: Replay, position: int, seat: int) -> Text:
    """What lies before a seat."""
    game, variant = replay.games[position], replay.variant
    is_turn = game["phase"] != OVER and game["seat"] == seat
    text = Text("▶ " if is_turn else "  ", style="bold yellow")
    text.append(f" {seat} ", Style(color="#ffffff", bgcolor=SEATS_DARK[seat], bold=True))
    name = replay.names[seat] if replay.names else f"seat {seat}"
    text.append(f" {_cut(name, 14):<14}", Style(color=SEATS[seat], bold=bool(is_turn)))
    text.append(f"{int(game['points'][seat]):>3} points  ", style="bold")
    traps = int(game["traps"][seat])
    text.append(f"{traps}/{variant.trap_limit} traps ", FRONTS[TRAP][1] if traps else "dim")
    taken = game["taken"][seat].reshape(2, MAX_HOLES)
    for front, counts in zip((CHEESE, TRAP), taken, strict=True):
        for holes in np.flatnonzero(counts):
            times = f"×{counts[holes]}" if counts[holes] > 1 else ""
            text.append(f" {holes + 1}{times}", FRONTS[front][1])
    return text


def _centre(line: Text, text: str, style: Style) -> None:
    line.append(f"{text:^{CARD}}" + " " * GAP, style)


def _cut(text: str, width: int = WIDTH) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"

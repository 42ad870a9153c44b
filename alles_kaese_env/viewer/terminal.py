"""A session in a terminal of 80 columns, in colours.

Needs the extra ``play``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from alles_kaese_env.command_line import INTERRUPTED
from alles_kaese_env.core.records import CHEESE, TRAP, UNSEEN
from alles_kaese_env.replay.game import shortened
from alles_kaese_env.viewer.session import Session
from alles_kaese_env.viewer.text import FRONTS, cut, describe_now, describe_turn, plural
from alles_kaese_env.viewer.view import View

WIDTH = 78
CARD = 9  # columns of a card, and GAP between two
GAP = 1
NAME = 14  # columns of a name
ROWS = 15  # of the screen beside a line for each seat: title, row, prompt, log, keys
TICK_SECONDS = 0.03
SEATS = ("#3d9be9", "#f08030", "#2fbf8f", "#d978b0", "#a58bf0", "#b0b0b0")
SEATS_DARK = ("#0062a2", "#b84d00", "#00805a", "#984a78", "#6c4cb8", "#5c5c5c")
# Of 16 colours these become black on yellow and on white; edges tell them apart without colours.
BACK = Style(color="#3a2400", bgcolor="#f5c044")
MATCH = Style(color="#2a1a00", bgcolor="#ffe27a", bold=True)
CHOSEN = Style(color="#2a1a00", bgcolor="#ffffff", bold=True)
EDGES = {BACK: "╭─╮│╰╯", MATCH: "╔═╗║╚╝", CHOSEN: "┏━┓┃┗┛"}
EMPTY = Style(color="#777777")
DIM = Style(dim=True)
FRONT_STYLES = {
    UNSEEN: DIM,
    CHEESE: Style(color="#3ecf6e", bold=True),
    TRAP: Style(color="#ff6157", bold=True),
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


# --- The game as coloured text -------------------------------------------------------------


def board_text(view: View, chosen: int | None = None) -> Text:
    """What was done last, the row, the piles and the seats; with the chosen slot marked."""
    seats = (_seat(view, seat) for seat in view.seats)
    return Text("\n").join([_news(view), _cards(view, chosen), _piles(view), *seats])


def log_text(view: View) -> Text:
    """All turns, a line each."""
    lines = []
    for number, turn in enumerate(view.turns, start=1):
        line = Text()
        line.append(f"{number:>3} ", DIM)
        line.append(describe_turn(view, turn), Style(color=SEATS[turn.seat]))
        lines.append(line)
    return Text("\n").join(lines)


def _news(view: View) -> Text:
    """What the last turn was, and who has to act."""
    last = describe_turn(view, view.turns[-1]) if view.turns else "the cards are dealt"
    text = Text(cut(last, WIDTH), style="dim")
    text.append(f"\n{cut(describe_now(view), WIDTH)}", style="bold")
    return text


def _cards(view: View, chosen: int | None) -> Text:
    """The row and the top of the reserve, with who peeked, what is known, and the chances."""
    lines = [Text() for _ in range(7)]
    for slot, holes in enumerate(view.row):
        is_matching = view.turn is not None and slot in view.matching
        is_chosen = slot == chosen
        style = CHOSEN if is_chosen else MATCH if is_matching else BACK
        front = view.front[slot]
        name = FRONTS[front] if front != UNSEEN else ""
        if not name and holes:
            name = f"{view.trap_probability[slot]:.0%} trap"
        _centre(lines[0], f"[{slot}]" if is_chosen else str(slot), Style(bold=is_chosen))
        _draw_card(lines[1:6], holes, style, view.peeked[slot])
        _centre(lines[6], name, FRONT_STYLES[front])
    for line in lines:
        line.append("   ")
    _centre(lines[0], "reserve", DIM)
    _draw_card(lines[1:6], view.top, BACK, ())
    _centre(lines[6], plural(view.reserve, "card"), DIM)
    return Text("\n").join(lines)


def _draw_card(lines: list[Text], holes: int, style: Style, seers: Collection[int]) -> None:
    """A card, five lines high; in its upper edge the seats that peeked at it."""
    left, edge, right, side, low_left, low_right = tuple(EDGES[style])
    style = style if holes else EMPTY
    lines[0].append(left, style)
    for seat in seers:
        lines[0].append(str(seat), Style(color="#ffffff", bgcolor=SEATS_DARK[seat], bold=True))
    lines[0].append(edge * (CARD - 2 - len(seers)) + right, style)
    for line, inside in zip(lines[1:4], BACKS[holes], strict=True):
        line.append(f"{side}{inside}{side}", style)
    number = str(holes) if holes else edge
    lines[4].append(f"{low_left}{number:{edge}^{CARD - 2}}{low_right}", style)
    for line in lines:
        line.append(" " * GAP)


def _piles(view: View) -> Text:
    """The die, and the discard pile by holes."""
    text = Text("die ", style="dim")
    text.append(f" {view.die or '-'} ", Style(color="#000000", bgcolor="#ffffff", bold=True))
    text.append(f"    discarded {sum(view.discarded)}", style="dim")
    if any(view.discarded):
        counts = enumerate(view.discarded, start=1)
        piles = " ".join(f"{holes}×{n}" for holes, n in counts if n)
        text.append(f" (holes × cards: {piles})", style="dim")
    return text


def _seat(view: View, seat: int) -> Text:
    """What lies before a seat."""
    is_turn = view.turn == seat
    text = Text("▶ " if is_turn else "  ", style="bold yellow")
    text.append(f" {seat} ", Style(color="#ffffff", bgcolor=SEATS_DARK[seat], bold=True))
    name = shortened(view.name_of(seat), NAME)
    text.append(f" {name:<{NAME}}", Style(color=SEATS[seat], bold=is_turn))
    text.append(f"{plural(view.points[seat], 'point'):>10}  ", style="bold")
    traps = view.traps[seat]
    limit = f"{traps}/{view.variant.trap_limit} traps "
    text.append(limit, FRONT_STYLES[TRAP] if traps else "dim")
    for front, counts in zip((CHEESE, TRAP), view.taken[seat], strict=True):
        for holes, count in enumerate(counts, start=1):
            if count:
                text.append(f" {holes}" + f"×{count}" * (count > 1), FRONT_STYLES[front])
    return text


def _centre(line: Text, text: str, style: Style) -> None:
    line.append(f"{text:^{CARD}}" + " " * GAP, style)


# --- The program ---------------------------------------------------------------------------


class Terminal(App[None]):
    """A session in the terminal."""

    TITLE = "Alles Käse!"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: #1d2b24; }
    #title { width: 100%; height: 1; padding: 0 1; background: #2f6b4f; color: #fdf6e3; }
    #board { width: 100%; height: auto; padding: 0 1; }
    #prompt { width: 100%; height: auto; padding: 0 1; color: #ffd24a; }
    #log { width: 100%; height: 1fr; min-height: 1; padding: 0 1; background: #16211b; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "quit", show=False, priority=True),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        for key, (label, _) in session.keys.items():
            self.bind(key, f"press({key!r})", description=label, show=bool(label))

    def compose(self) -> ComposeResult:
        """The title, the board, what may be done, all turns, and the keys."""
        yield Static(id="title")
        yield Static(id="board")
        yield Static(id="prompt")
        with VerticalScroll(id="log", can_focus=False):
            yield Static(id="turns")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Show the game, and let time pass."""
        self.query_one("#log").anchor()  # its end stays in view whatever its size
        self.set_interval(TICK_SECONDS, self.action_tick)
        self.update()

    def on_resize(self) -> None:
        """Draw anew at the next tick, when the sizes are known."""
        self.session.is_stale = True

    def action_tick(self) -> None:
        """Tell the session that time has passed."""
        self.session.tick(TICK_SECONDS)
        self.update()

    def action_press(self, key: str) -> None:
        """Tell the session of a key."""
        self.session.press(key)
        self.update()

    def action_interrupt(self) -> None:
        """Ctrl-C: leave at once, with the terminal as it was."""
        self.exit(return_code=INTERRUPTED)

    def update(self) -> None:
        """Bring the screen up to date."""
        session = self.session
        if not session.is_open:
            self.exit()
        if not session.is_stale:
            return
        session.is_stale = False
        texts: dict[str, Any] = {
            "title": session.title,
            "board": self.board(),
            "prompt": session.prompt(has_mouse=False),
            "turns": log_text(session.view),
        }
        for place, text in texts.items():
            self.query_one(f"#{place}", Static).update(text)
        # In case it was scrolled by hand; not before the log has its new height.
        self.call_after_refresh(self.query_one("#log").scroll_end, animate=False)

    def board(self) -> Text:
        """The game, the help, or what size the game needs where the terminal is too small."""
        session, size = self.session, self.size
        rows = len(session.view.seats) + ROWS
        if size.width < WIDTH + 2 or size.height < rows:
            return Text(
                f"The game needs {WIDTH + 2} columns and {rows} rows; the terminal has "
                f"{size.width} and {size.height}. Make it larger, or use --window."
            )
        if session.is_help_shown:
            return Text("\n\n".join(session.help))
        return board_text(session.view, session.chosen)


def run(session: Session) -> int:
    """Run a session in the terminal; returns the exit code."""
    program = Terminal(session)
    program.run()
    return program.return_code or 0

"""A replay in the terminal, stepped through with keys.

Needs the extra ``play``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from alles_kaese_env.replay.game import Replay
from alles_kaese_env.viewer.table import log_text, table_text
from alles_kaese_env.viewer.words import describe_perspective

SECONDS = 1.0  # of a turn while it plays
INTERRUPTED = 130  # the exit code of what Ctrl-C ended, as shells have it


class TableApp(App[None]):
    """What stands on the screen of a replay and of a game that is played."""

    TITLE = "Alles Käse!"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: #1d2b24; }
    #view { width: 100%; height: 1; padding: 0 1; background: #2f6b4f; color: #fdf6e3; }
    #table { width: 100%; height: auto; padding: 0 1; }
    #prompt { width: 100%; height: auto; padding: 0 1; color: #ffd24a; }
    #log { width: 100%; height: 1fr; min-height: 1; padding: 0 1; background: #16211b; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "leave", show=False, priority=True),
    ]

    def compose(self) -> ComposeResult:
        """The view, the table, what may be done, what was done, and the keys."""
        yield Static(id="view")
        yield Static(id="table")
        yield Static(id="prompt")
        with VerticalScroll(id="log", can_focus=False):
            yield Static(id="events")
        yield Footer(compact=True)

    def action_interrupt(self) -> None:
        """Ctrl-C: leave at once, with the terminal as it was."""
        self.exit(return_code=INTERRUPTED)

    def write(self, where: str, text: Any) -> None:
        """Show a text in one of the places."""
        self.query_one(f"#{where}", Static).update(text)


class ReplayApp(TableApp):
    """A replay to step through.

    Args:
        replay: what to show.
        is_playing: go on by itself from the beginning.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "back"),
        Binding("right", "step(1)", "next"),
        Binding("home", "step(-1000000)", "first"),
        Binding("end", "step(1000000)", "last"),
        Binding("space", "play", "play/pause"),
        Binding("q", "quit", "leave"),
    ]

    def __init__(self, replay: Replay, *, is_playing: bool = False) -> None:
        super().__init__()
        self.replay = replay
        self.position = 0
        self.is_playing = is_playing

    def on_mount(self) -> None:
        """Show the deal."""
        self.set_interval(SECONDS, self.tick)
        self.show()

    def tick(self) -> None:
        """A turn further, while it plays."""
        if self.is_playing:
            self.move_to(self.position + 1)

    def move_to(self, position: int) -> None:
        """Show another position, the nearest one that there is."""
        last = len(self.replay) - 1
        self.position = min(max(position, 0), last)
        self.is_playing &= self.position < last
        self.show()

    def show(self) -> None:
        """Bring the screen up to date."""
        last = len(self.replay) - 1
        state = "playing" if self.is_playing else "paused"
        self.write("view", describe_perspective(self.replay))
        self.write("table", table_text(self.replay, self.position))
        self.write("prompt", f"turn {self.position} of {last}, {state}")
        self.write("events", log_text(self.replay, self.position))
        self.query_one("#log").scroll_end(animate=False)

    def action_step(self, places: int) -> None:
        """So many turns further."""
        self.is_playing = False
        self.move_to(self.position + places)

    def action_play(self) -> None:
        """Play on, from the beginning if it is at the end; or pause."""
        is_at_end = self.position == len(self.replay) - 1
        self.is_playing = not self.is_playing
        self.move_to(0 if is_at_end else self.position)

"""A game on the screen of a person: what is shown and what keys and clicks do.

A terminal (`terminal.Terminal`) and a window (`window.GameWindow`) show any session.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from alles_kaese_env.command_line import MISSING, NoDisplayError, needs_extra
from alles_kaese_env.replay.game import Replay
from alles_kaese_env.viewer.text import describe_perspective, rules_in_short
from alles_kaese_env.viewer.view import View, view_of_replay

TURN_SECONDS = 1.0  # while a replay plays


class Session:
    """What a terminal or a window shows, and what a person can do.

    Attributes:
        view: the game as it is shown.
        title: who sees it.
        chosen: the slot that is marked, if any.
        keys: what each key does, by the name that Textual gives it, with a label; a key without
            a label works and is not listed.
        buttons: of a window, from left to right: label and what a click does.
        help: what the keys do and how the game goes, in paragraphs.
        is_help_shown: whether it stands in the place of the game.
        is_open: whether the session goes on.
        is_stale: whether the screen has to be redrawn.
    """

    view: View
    title = ""
    chosen: int | None = None
    keys: Mapping[str, tuple[str, Callable[[], None]]]
    buttons: tuple[tuple[str, Callable[[], None]], ...] = ()
    help: Sequence[str] = ()
    is_help_shown = False
    is_open = True
    is_stale = True

    def prompt(self, has_mouse: bool) -> str:
        """Where the game is and what may be done, on one line where there is a mouse."""
        raise NotImplementedError

    def common_keys(self) -> dict[str, tuple[str, Callable[[], None]]]:
        """What every session has."""
        return {
            "f1": ("help", self.show_help),
            "question_mark": ("", self.show_help),
            "q": ("quit", self.leave),
            "escape": ("", self.leave),
        }

    def press(self, key: str) -> None:
        """A key was pressed; any of them closes the help."""
        if self.is_help_shown:
            self.is_help_shown, self.is_stale = False, True
        elif key in self.keys:
            self.keys[key][1]()

    def show_help(self) -> None:
        """Show the help until the next key."""
        self.is_help_shown = self.is_stale = True

    def click(self, slot: int) -> None:
        """A card was clicked."""

    def tick(self, seconds: float) -> None:
        """So much time has passed."""

    def leave(self) -> None:
        """End the session."""
        self.is_open = False


class ReplaySession(Session):
    """A replay to step through.

    Args:
        replay: what to show.
        is_playing: play on by itself from the beginning.
    """

    def __init__(self, replay: Replay, is_playing: bool = False) -> None:
        self.replay = replay
        self.last = len(replay) - 1
        self.is_playing = is_playing
        self.keys = {
            "left": ("back", partial(self.step, -1)),
            "right": ("next", partial(self.step, 1)),
            "home": ("first", partial(self.step, -self.last)),
            "end": ("last", partial(self.step, self.last)),
            "space": ("play/pause", self.play),
            **self.common_keys(),
        }
        self.help = (
            "Left, right: a turn back or forwards. Home, End: the deal, the end. Space: play on "
            "or pause. q or Esc: quit. Any key closes this help.",
            *rules_in_short(replay.variant),
        )
        self.move_to(0)
        self.title = describe_perspective(self.view)

    def prompt(self, has_mouse: bool) -> str:
        """Such as "turn 3 of 20, paused"."""
        state = "playing" if self.is_playing else "paused"
        return f"turn {self.position} of {self.last}, {state}"

    def move_to(self, position: int) -> None:
        """Show another position, the nearest one that there is."""
        self.position = min(max(position, 0), self.last)
        self.is_playing &= self.position < self.last
        self.view = view_of_replay(self.replay, self.position)
        self.buttons = (
            ("<", partial(self.step, -1)),
            ("pause" if self.is_playing else "play", self.play),
            (">", partial(self.step, 1)),
        )
        self._waited = 0.0
        self.is_stale = True

    def step(self, places: int) -> None:
        """Pause, and go so many turns forwards."""
        self.is_playing = False
        self.move_to(self.position + places)

    def play(self) -> None:
        """Play on, from the beginning if it is at the end; or pause."""
        self.is_playing = not self.is_playing
        self.move_to(0 if self.position == self.last else self.position)

    def tick(self, seconds: float) -> None:
        """Go a turn forwards when it is time, while it plays."""
        self._waited += seconds
        if self.is_playing and self._waited >= TURN_SECONDS:
            self.move_to(self.position + 1)


def run_session(session: Session, parser: argparse.ArgumentParser, *, in_window: bool) -> int:
    """Run a session in a terminal or in a window until it ends; returns the exit code."""
    what, extra = ("--window", "render") if in_window else ("the terminal", "play")
    try:
        if in_window:
            from alles_kaese_env.viewer.window import run
        else:
            from alles_kaese_env.viewer.terminal import run
    except MISSING as error:
        parser.error(needs_extra(what, extra, error))
    try:
        return run(session)
    except NoDisplayError as error:
        parser.error(f"{what} is given, but {error}")

"""Stepping through a replay, in the terminal and in a window."""

from __future__ import annotations

from alles_kaese_env.replay.game import Replay
from alles_kaese_env.viewer.view import View, view_of_replay

TURN_SECONDS = 1.0  # while it plays


class Stepping:
    """Where somebody is in a replay, and whether it goes on by itself; a subclass shows it."""

    replay: Replay
    position: int
    is_playing: bool

    def begin(self, replay: Replay, is_playing: bool) -> None:
        """Start with the deal."""
        self.replay, self.position, self.is_playing = replay, 0, is_playing

    def show(self) -> None:
        """Show the present position."""
        raise NotImplementedError

    def view_here(self) -> View:
        """The game at the present position."""
        return view_of_replay(self.replay, self.position)

    def describe_place(self) -> str:
        """Such as "turn 3 of 20"."""
        return f"turn {self.position} of {len(self.replay) - 1}"

    def move_to(self, position: int) -> None:
        """Show another position, the nearest one that there is."""
        last = len(self.replay) - 1
        self.position = min(max(position, 0), last)
        self.is_playing &= self.position < last
        self.show()

    def step(self, places: int) -> None:
        """So many turns further."""
        self.is_playing = False
        self.move_to(self.position + places)

    def play(self) -> None:
        """Play on, from the beginning if it is at the end; or pause."""
        is_at_end = self.position == len(self.replay) - 1
        self.is_playing = not self.is_playing
        self.move_to(0 if is_at_end else self.position)

    def go_on(self) -> None:
        """A turn further, while it plays."""
        if self.is_playing:
            self.move_to(self.position + 1)

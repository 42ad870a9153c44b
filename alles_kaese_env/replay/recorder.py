"""What a batch writes down of its games, if it is asked to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass
class Recording:
    """A game from its deal on.

    Attributes:
        events: decisions and chance outcomes in the order in which they happened; the
            phases of the game say which is which.
        decisions: how many of them are decisions.
        names: who sits on each seat, for people; empty if nobody said.
        is_whole: whether it goes back to the deal. It does not after `GameBatch.set_state`.
    """

    events: list[int] = field(default_factory=list)
    decisions: int = 0
    names: tuple[str, ...] = ()
    is_whole: bool = True


class Recorder:
    """The present game of each row of a batch, and the one before in which somebody has acted."""

    def __init__(self, num_games: int) -> None:
        self.present = [Recording() for _ in range(num_games)]
        self.previous: list[Recording | None] = [None] * num_games

    def begin(self, rows: npt.NDArray[np.int64]) -> None:
        """A new game is dealt in these rows."""
        for row in rows.tolist():
            if self.present[row].decisions:
                self.previous[row] = self.present[row]
            self.present[row] = Recording()

    def forget(self, rows: npt.NDArray[np.int64]) -> None:
        """The present games of these rows shall count for nothing."""
        for row in rows.tolist():
            self.present[row] = Recording()

    def lose_track(self) -> None:
        """The games have been replaced by others, whose past nobody knows."""
        self.present = [Recording(is_whole=False) for _ in self.present]

    def name_seats(
        self, rows: npt.NDArray[np.int64], seats: npt.NDArray[np.int64], num_players: int
    ) -> None:
        """Write down that seat ``seats[row]`` learns in each of these rows."""
        for row in rows.tolist():
            names = ["opponent"] * num_players
            names[seats[row]] = "learner"
            self.present[row].names = tuple(names)

    def decide(self, rows: npt.NDArray[np.int64], actions: npt.NDArray[np.int64]) -> None:
        """Write down a decision in each of these rows."""
        self.happen(rows, actions)
        for row in rows.tolist():
            self.present[row].decisions += 1

    def happen(self, rows: npt.NDArray[np.int64], outcomes: npt.NDArray[np.int64]) -> None:
        """Write down a chance outcome in each of these rows."""
        for row, outcome in zip(rows.tolist(), outcomes.tolist(), strict=True):
            self.present[row].events.append(outcome)

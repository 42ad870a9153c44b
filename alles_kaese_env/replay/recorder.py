"""The recordings of a batch that was made with ``record=True``."""

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
        is_played: whether a seat has acted.
        names: who sits on each seat, for people; empty if nobody said.
        is_whole: whether it goes back to the deal. It does not after `GameBatch.set_state`.
    """

    events: list[int] = field(default_factory=list)
    is_played: bool = False
    names: tuple[str, ...] = ()
    is_whole: bool = True


class Recorder:
    """The current game of each row of a batch, and the last one before it with a decision."""

    def __init__(self, num_games: int) -> None:
        self.present = [Recording() for _ in range(num_games)]
        self.previous: list[Recording | None] = [None] * num_games

    def begin(self, rows: npt.NDArray[np.int64]) -> None:
        """A new game is dealt in these rows."""
        for row in rows.tolist():
            if self.present[row].is_played:
                self.previous[row] = self.present[row]
        self.forget(rows)

    def forget(self, rows: npt.NDArray[np.int64]) -> None:
        """Start new recordings in these rows."""
        for row in rows.tolist():
            self.present[row] = Recording()

    def lose_track(self) -> None:
        """The games have been replaced by others, whose past is unknown."""
        self.present = [Recording(is_whole=False) for _ in self.present]

    def name_seats(
        self, rows: npt.NDArray[np.int64], seats: npt.NDArray[np.int64], num_players: int
    ) -> None:
        """Write down that seat ``seats[row]`` learns in each of these rows."""
        for row in rows.tolist():
            names = ["opponent"] * num_players
            names[seats[row]] = "learner"
            self.present[row].names = tuple(names)

    def write(
        self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], is_decision: bool = False
    ) -> None:
        """Write down a decision or a chance outcome in each of these rows."""
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            self.present[row].events.append(number)
            self.present[row].is_played |= is_decision

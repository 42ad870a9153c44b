"""How a face renders: its mode, its perspective, and its window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.game_batch import GameBatch
from alles_kaese_env.replay.game import Perspective, checked_perspective
from alles_kaese_env.variant import Variant, one_of
from alles_kaese_env.viewer.text import text_of
from alles_kaese_env.viewer.view import Event, View, events_of, view_of

if TYPE_CHECKING:
    from alles_kaese_env.viewer.picture import Window

MODES = ["human", "ansi", "rgb_array"]
RENDER_FPS = 2  # turns a second, slow enough to follow
Frame = str | npt.NDArray[np.uint8]


class Renderer:
    """Renders games of a batch in one mode.

    Args:
        mode: one of ``allowed``, or None to render nothing.
        perspective: a seat, "public", "all", or None for the seat that each call names.
        variant: the rules of the games.
        allowed: the modes of the face.

    Raises:
        ValueError: mode or perspective is not what is allowed.
        gymnasium.error.DependencyNotInstalled: the mode needs the extra ``render``.
    """

    def __init__(
        self,
        mode: str | None,
        perspective: Perspective | None,
        variant: Variant,
        allowed: list[str] = MODES,
    ) -> None:
        self.mode = None if mode is None else one_of("render_mode", mode, allowed)
        self.perspective = perspective
        if perspective is not None:
            self.perspective = checked_perspective(variant, perspective)
        self._window: Window | None = None
        self._told: tuple[Any, tuple[Event, ...]] = (None, ())
        if mode in ("human", "rgb_array"):
            from alles_kaese_env.viewer import picture  # the extra is needed for these alone

            if mode == "human":
                self._window = picture.Window("Alles Käse!", RENDER_FPS)

    def render(self, batch: GameBatch, row: int, seat: int) -> Frame | None:
        """A game as text or as an array (640, 1024, 3) uint8; None where a window shows it."""
        view = self._view(batch, row, seat)
        if self.mode == "ansi":
            return text_of(view)
        from alles_kaese_env.viewer import picture

        if self._window is None:
            return picture.frame(view)
        self._window.show(view)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()

    def _view(self, batch: GameBatch, row: int, seat: int) -> View:
        perspective = seat if self.perspective is None else self.perspective
        events = self._events(batch, row, perspective)
        return view_of(batch.games[row], batch.variant, perspective, events)

    def _events(self, batch: GameBatch, row: int, perspective: Perspective) -> tuple[Event, ...]:
        """All turns of a game that is recorded from its deal on, else none."""
        recording = batch.recorder.present[row] if batch.recorder is not None else None
        if recording is None or not recording.is_whole:
            return ()
        which = tuple(recording.events), perspective
        if self._told[0] != which:  # frames of one instant are read from the record once
            self._told = which, events_of(batch.replay(row, perspective=perspective))
        return self._told[1]

"""How an environment renders: its mode, its perspective, and its window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from alles_kaese_env.game_batch import GameBatch
from alles_kaese_env.replay.game import Perspective, checked_perspective
from alles_kaese_env.variant import Variant, one_of
from alles_kaese_env.viewer.text import text_of
from alles_kaese_env.viewer.view import view_of

if TYPE_CHECKING:
    from alles_kaese_env.viewer.picture import Window

MODES = ["human", "ansi", "rgb_array"]
RENDER_FPS = 2  # turns a second, slow enough to follow
Frame = str | npt.NDArray[np.uint8]


class Renderer:
    """Renders games of a batch in one mode.

    It shows all turns of a game that is recorded, the last turn of any other.

    Args:
        mode: one of ``allowed``, or None to render nothing.
        perspective: a seat, "public", "all", or None for the seat that each call names.
        variant: the rules of the games.
        allowed: the modes of the environment.

    Raises:
        ValueError: mode or perspective is not what is allowed.
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

    def render(self, batch: GameBatch, row: int, seat: int) -> Frame | None:
        """A game as text or as an array (640, 1024, 3) uint8; None where a window shows it.

        Raises:
            gymnasium.error.DependencyNotInstalled: the mode needs the extra ``render``.
            RuntimeError: the mode is "human", and there is no display.
        """
        perspective = seat if self.perspective is None else self.perspective
        is_recorded = batch.recorder is not None and batch.recorder.present[row].is_whole
        turns = batch.replay(row, perspective=perspective).turns if is_recorded else ()
        view = view_of(batch.games[row], batch.variant, perspective, turns)
        if self.mode == "ansi":
            return text_of(view)
        from alles_kaese_env.viewer import picture  # the extra is needed for pictures alone

        if self.mode == "rgb_array":
            return picture.frame(view)
        if self._window is None:
            self._window = picture.Window()
        self._window.show(view, RENDER_FPS)
        return None

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._window.close()

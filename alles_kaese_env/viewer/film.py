"""A replay as an animated picture or a film.

Needs the extra ``render``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from moviepy import ImageSequenceClip
from PIL import Image

from alles_kaese_env.files import replacing
from alles_kaese_env.replay.game import Replay
from alles_kaese_env.viewer.picture import frame
from alles_kaese_env.viewer.view import view_of_replay

TURN_SECONDS = 1.2
LAST_SECONDS = 4.0  # for the end
FRAMES_A_SECOND = 10  # of a film: some players need that many


def save_gif(replay: Replay, path: Path) -> None:
    """Write an animated GIF in a loop, atomically.

    Raises:
        OSError: the file cannot be written.
    """
    first, *others = (Image.fromarray(picture) for picture in pictures(replay))
    durations = [int(1000 * seconds) for seconds in seconds_of(replay)]
    with replacing(path) as temporary:
        first.save(
            temporary, "GIF", save_all=True, append_images=others, duration=durations, loop=0
        )


def save_mp4(replay: Replay, path: Path) -> None:
    """Write a film, atomically.

    Raises:
        OSError: the file cannot be written.
    """
    clip = ImageSequenceClip(pictures(replay), durations=seconds_of(replay))
    with replacing(path) as temporary:
        temporary.touch()  # where this fails, the reason is clearer than the encoder's
        clip.write_videofile(
            str(temporary), fps=FRAMES_A_SECOND, codec="libx264", audio=False, logger=None
        )


def pictures(replay: Replay) -> list[npt.NDArray[np.uint8]]:
    """The game at each position, (640, 1024, 3) uint8 each."""
    return [frame(view_of_replay(replay, position)) for position in range(len(replay))]


def seconds_of(replay: Replay) -> list[float]:
    """How long each position is shown."""
    return [TURN_SECONDS] * (len(replay) - 1) + [LAST_SECONDS]

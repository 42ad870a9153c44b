"""A replay as an animated picture or a film.

Needs the extra ``render``.
"""

from __future__ import annotations

from collections.abc import Sequence
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
COLORS = 160  # of a GIF
BITS = 6  # of a colour's part, when colours are counted


def save_gif(replay: Replay, path: Path) -> None:
    """Write an animated GIF in a loop, atomically.

    Raises:
        OSError: the file cannot be written.
    """
    frames = pictures(replay)
    colors = palette_of(frames)
    # Without dithering and with one palette, what does not change costs nothing.
    first, *others = (
        Image.fromarray(picture).quantize(palette=colors, dither=Image.Dither.NONE)
        for picture in frames
    )
    durations = [int(1000 * seconds) for seconds in seconds_of(replay)]
    with replacing(path) as temporary:
        first.save(
            temporary,
            "GIF",
            save_all=True,
            append_images=others,
            duration=durations,
            loop=0,
            optimize=True,
        )


def palette_of(frames: Sequence[npt.NDArray[np.uint8]]) -> Image.Image:
    """One palette for all frames, with room for a transparent colour.

    A colour weighs with the root of its pixels: a small token keeps its own beside the cloth.
    """
    shares = np.zeros(1 << 3 * BITS, np.int64)
    for picture in frames:
        red, green, blue = (picture[::2, ::2] >> (8 - BITS)).astype(np.int64).transpose(2, 0, 1)
        numbers = (red << 2 * BITS | green << BITS | blue).ravel()
        shares += np.bincount(numbers, minlength=len(shares))
    used = np.flatnonzero(shares)
    numbers = np.repeat(used, np.ceil(np.sqrt(shares[used])).astype(np.int64))
    channels = [numbers >> 2 * BITS, numbers >> BITS, numbers]
    levels = np.stack(channels, axis=-1) % (1 << BITS) * 255 // ((1 << BITS) - 1)
    return Image.fromarray(levels[None].astype(np.uint8)).quantize(COLORS)


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

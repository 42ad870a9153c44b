"""The parts of a picture: cards, mice, die. Each is drawn large once, scaled down and cached.

Needs the extra ``render``; no display.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, lru_cache

import gymnasium
import numpy as np

from alles_kaese_env.command_line import NoDisplayError
from alles_kaese_env.core.records import CHEESE, TRAP

try:
    import pygame as pygame  # the others take it from here, with the error below
    from pygame import freetype
except ImportError as error:
    raise gymnasium.error.DependencyNotInstalled(
        f"pictures of the game need pygame-ce ({error}); install it with: "
        'pip install "alles-kaese[render]", in a clone: pip install -e ".[render]"'
    ) from error

Color = tuple[int, ...]
Point = tuple[float, float]

OVERSAMPLING = 4
SMALL = 60  # the width of a card on which the picture gives way to the number

INK = (58, 36, 8)
CREAM = (255, 247, 226)
CHEESE_YELLOW = (248, 200, 72)
CHEESE_LIGHT = (255, 224, 130)
CHEESE_DARK = (219, 158, 44)
CHEESE_HOLE = (190, 126, 28)
RIND = (232, 172, 52)
WOOD = (184, 128, 76)
WOOD_DARK = (140, 92, 52)
STEEL = (120, 128, 138)
RED = (222, 74, 66)
GREEN = (70, 176, 106)
GOLD = (255, 214, 92)
WHITE = (244, 248, 246)
MUTED = (158, 182, 182)
SEATS = (
    (61, 155, 233),
    (240, 128, 48),
    (47, 191, 143),
    (226, 118, 178),
    (165, 139, 250),
    (176, 184, 190),
)

# Where the holes of a back lie, before they wander a little, in units of a card.
HOLES: dict[int, tuple[Point, ...]] = {
    0: (),
    1: ((50, 62),),
    2: ((32, 36), (68, 88)),
    3: ((30, 32), (66, 58), (36, 92)),
    4: ((30, 34), (70, 40), (32, 86), (70, 92)),
    5: ((27, 30), (72, 34), (50, 63), (27, 94), (73, 94)),
    6: ((29, 28), (71, 30), (29, 63), (71, 65), (29, 98), (71, 98)),
}
PIPS: dict[int, tuple[Point, ...]] = {
    0: (),
    1: ((50, 50),),
    2: ((27, 27), (73, 73)),
    3: ((25, 25), (50, 50), (75, 75)),
    4: ((27, 27), (73, 27), (27, 73), (73, 73)),
    5: ((26, 26), (74, 26), (50, 50), (26, 74), (74, 74)),
    6: ((28, 24), (72, 24), (28, 50), (72, 50), (28, 76), (72, 76)),
}


def open_display() -> None:
    """Start the display, unless it is on.

    Raises:
        NoDisplayError: there is none. SDL would go on in memory, where nobody sees it.
    """
    try:
        pygame.display.init()
    except pygame.error as error:
        raise NoDisplayError(f"a window needs a display ({error})") from None
    if pygame.display.get_driver() == "offscreen" and "SDL_VIDEODRIVER" not in os.environ:
        pygame.display.quit()
        display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        problem = f"{display} does not answer" if display else "DISPLAY is not set"
        raise NoDisplayError(f"a window needs a display, and {problem}")


@lru_cache(2048)
def text(words: str, size: int, color: Color) -> pygame.Surface:
    """Words in the font that pygame ships with, or in one that has their letters.

    The surface is shared.
    """
    # Letters keep their distances when they are drawn large.
    file, words = drawable(words)
    large = _font(size * OVERSAMPLING, file).render(words, True, color)
    width, height = large.get_size()
    return pygame.transform.smoothscale(
        large, (-(-width // OVERSAMPLING), -(-height // OVERSAMPLING))
    )


@lru_cache(256)
def drawable(words: str) -> tuple[str | None, str]:
    """The file of a font for words, None for that of pygame, and what it can draw of them.

    Where pygame's font lacks letters (names in Chinese, say), the fonts of the system are tried;
    what none of them has becomes a question mark.
    """
    if not _lacking(words, None):
        return None, words
    names = sorted(pygame.font.get_fonts(), key=lambda name: ("sans" not in name, name))
    files = [file for name in names if (file := pygame.font.match_font(name))]
    best = min([None, *files], key=lambda file: len(_lacking(words, file)))
    lacking = _lacking(words, best)
    return best, "".join("?" if letter in lacking else letter for letter in words)


def _lacking(words: str, file: str | None) -> set[str]:
    """The letters that a font does not have."""
    freetype.init()  # `pygame.font` does not tell which letters are missing
    try:
        metrics = freetype.Font(file, 16).get_metrics(words)
    except (OSError, pygame.error):  # such as a font of bitmaps
        return set(words)
    return {letter for letter, known in zip(words, metrics, strict=True) if known is None}


def fitted_text(
    words: str, size: int, color: Color, width: int, keeps_end: bool = False
) -> pygame.Surface:
    """The same, cut to a width: at its end, or at its beginning."""
    image = text(words, size, color)
    while image.get_width() > width and len(words) > 1:
        words = "…" + words.lstrip("…")[1:] if keeps_end else words.rstrip("…")[:-1] + "…"
        image = text(words, size, color)
    return image


class Pen:
    """Draws a part several times as large as it will be.

    Places are in units of ``unit`` pixels; its borders fade to the colour ``edge``.
    """

    def __init__(self, size: tuple[int, int], unit: float, edge: Color) -> None:
        self.size, self.unit = size, unit * OVERSAMPLING
        self.big = pygame.Surface([OVERSAMPLING * length for length in size], pygame.SRCALPHA)
        self.big.fill((*edge[:3], 0))

    def finish(self) -> pygame.Surface:
        """The part, scaled down smoothly."""
        return pygame.transform.smoothscale(self.big, self.size)

    def rect(self, x: float, y: float, width: float, height: float) -> pygame.Rect:
        """A rectangle of the surface."""
        return pygame.Rect(*(round(number * self.unit) for number in (x, y, width, height)))

    def box(self, place: tuple[float, ...], radius: float, color: Color, line: float = 0) -> None:
        """A box with round corners; its outline where a line is given."""
        rect, unit = self.rect(*place), self.unit
        pygame.draw.rect(self.big, color, rect, round(line * unit), round(radius * unit))

    def disc(self, x: float, y: float, radius: float, color: Color) -> None:
        """A filled circle."""
        unit = self.unit
        pygame.draw.circle(self.big, color, (x * unit, y * unit), radius * unit)

    def line(self, ends: tuple[Point, Point], width: float, color: Color) -> None:
        """A line from one point to another."""
        start, end = self._scaled(ends)
        pygame.draw.line(self.big, color, start, end, round(width * self.unit))

    def polygon(self, points: tuple[Point, ...], color: Color, line: float = 0) -> None:
        """A polygon; its outline where a line is given."""
        pygame.draw.polygon(self.big, color, self._scaled(points), round(line * self.unit))

    def write(self, words: str, size: float, color: Color, center: Point) -> None:
        """Words around a place."""
        image = _font(round(size * self.unit)).render(words, True, color)
        self.big.blit(image, image.get_rect(center=self._scaled((center,))[0]))

    def _scaled(self, points: tuple[Point, ...]) -> list[Point]:
        return [(x * self.unit, y * self.unit) for x, y in points]


@cache
def back(holes: int, style: int, width: int) -> pygame.Surface:
    """A card from behind, cheese with holes; each style has them in other places."""
    pen = _card_pen(width, CHEESE_DARK)
    _card_body(pen, CHEESE_YELLOW, RIND)
    places = np.random.default_rng([holes, style])
    for x, y in HOLES[holes]:
        dx, dy = places.uniform(-4, 4, 2)
        _hole(pen, x + dx, y + dy, places.uniform(9.5, 13) - (holes > 4))
    return pen.finish()


@cache
def front(kind: int, holes: int, width: int) -> pygame.Surface:
    """A card from its front: a piece of cheese, or a mousetrap."""
    paper, rim, picture = FRONTS[kind]
    pen = _card_pen(width, CREAM)
    _card_body(pen, paper, rim)
    number_size = 38
    if width < SMALL:  # the number takes more of a small card
        number_size = 60
        part = _card_pen(width, paper)
        picture(part)
        smaller = pygame.transform.smoothscale_by(part.big, 0.8)
        pen.big.blit(smaller, (10 * pen.unit, -3 * pen.unit))
    else:
        picture(pen)
    pen.write(str(holes), number_size, INK, (50, 134 - number_size * 0.37))
    return pen.finish()


@cache
def empty_slot(width: int) -> pygame.Surface:
    """The place of a card where there is none."""
    pen = _card_pen(width, WHITE)
    pen.box((2, 2, 96, 136), 12, (255, 255, 255, 12))
    pen.box((2, 2, 96, 136), 12, (255, 255, 255, 40), line=1.6)
    return pen.finish()


@cache
def mouse(seat: int, size: int) -> pygame.Surface:
    """The token of a seat: the head of a mouse in its colour, with its number."""
    color = SEATS[seat]
    dark = _shade(color, 0.62)
    pen = Pen((size, size), size / 100, dark)
    for x in (23, 77):
        pen.disc(x, 27, 22, dark)
        pen.disc(x, 27, 19.5, color)
        pen.disc(x, 28, 12.5, (255, 190, 196))
    pen.disc(50, 57, 38, dark)
    pen.disc(50, 57, 35.5, color)
    pen.write(str(seat), 46, WHITE, (50, 44))
    for x in (36, 64):
        pen.disc(x, 64, 5.2, (32, 26, 28))
        pen.disc(x + 1.6, 62.4, 1.7, WHITE)
    for y in (76, 82):
        for side in (-1, 1):
            ends = (50 + side * 9, 78), (50 + side * 33, y)
            pen.line(ends, 1.4, _shade(color, 0.45))
    pen.disc(50, 77, 6.4, (255, 132, 148))
    return pen.finish()


@cache
def die(number: int, size: int) -> pygame.Surface:
    """The die from above; blank before the first roll."""
    pen = Pen((size, size), size / 100, (206, 200, 186))
    pen.box((2, 4, 96, 94), 20, (206, 200, 186))
    pen.box((2, 2, 96, 92), 20, CREAM)
    pen.box((7, 6, 86, 83), 16, (255, 252, 243))
    for x, y in PIPS[number]:
        pen.disc(x, y - 2, 9.5, (74, 48, 22))
        pen.disc(x - 1.5, y - 3.5, 6, (98, 66, 34))
    return pen.finish()


@cache
def shadow(width: int, height: int, radius: int = 12, blur: int = 7) -> pygame.Surface:
    """A soft shadow of a rounded box, wider by ``2 * blur`` on each side."""
    image = pygame.Surface((width + 4 * blur, height + 4 * blur), pygame.SRCALPHA)
    box = pygame.Rect(2 * blur, 2 * blur, width, height)
    pygame.draw.rect(image, (0, 0, 0, 130), box, border_radius=radius)
    return pygame.transform.gaussian_blur(image, blur, repeat_edge_pixels=False)


@cache
def rounded_box(
    width: int, height: int, radius: int, fill: Color, edge: Color | None = None, line: float = 1.5
) -> pygame.Surface:
    """A box with round corners and perhaps an edge."""
    pen = Pen((width, height), 1, edge or fill)
    pen.box((0, 0, width, height), radius, fill)
    if edge is not None:
        pen.box((0, 0, width, height), radius, edge, line)
    return pen.finish()


@cache
def disc(size: int, fill: Color, edge: Color) -> pygame.Surface:
    """A round mark."""
    pen = Pen((size, size), size / 100, edge)
    pen.disc(50, 50, 49, edge)
    pen.disc(50, 50, 38, fill)
    return pen.finish()


@cache
def crown(size: int) -> pygame.Surface:
    """For who has won."""
    pen = Pen((size, size), size / 100, GOLD)
    pen.polygon(((12, 80), (6, 34), (30, 54), (50, 20), (70, 54), (94, 34), (88, 80)), GOLD)
    for x, y in ((6, 32), (50, 18), (94, 32)):
        pen.disc(x, y, 7, GOLD)
    pen.box((12, 82, 76, 10), 4, (232, 178, 52))
    return pen.finish()


@cache
def background(width: int, height: int) -> pygame.Surface:
    """A dark tablecloth with faint checks."""
    y, x = np.mgrid[0:height, 0:width]
    light = 1.0 - 0.42 * (((x / width - 0.45) ** 2) * 1.5 + (y / height - 0.4) ** 2 * 1.9)
    checks = 1.0 + 0.035 * (x // 32 % 2) + 0.035 * (y // 32 % 2)
    cloth = np.array([26, 66, 72]) * (light * checks)[..., None]
    image = pygame.Surface((width, height))
    pygame.surfarray.blit_array(image, cloth.clip(0, 255).astype(np.uint8).swapaxes(0, 1))
    return image


def _font(size: int, file: str | None = None) -> pygame.font.Font:
    """A font, by default that of pygame; not cached, since any part of the program may quit it."""
    pygame.font.init()
    return pygame.font.Font(file, size)


def _card_pen(width: int, edge: Color) -> Pen:
    return Pen((width, round(width * 1.4)), width / 100, edge)


def _card_body(pen: Pen, paper: Color, rim: Color) -> None:
    pen.box((0, 0, 100, 140), 13, _shade(rim, 0.78))
    pen.box((0, 0, 100, 137.5), 13, rim)
    pen.box((4, 4, 92, 129.5), 10, _shade(paper, 1.12))
    pen.box((4, 6, 92, 127.5), 10, paper)


def _hole(pen: Pen, x: float, y: float, radius: float) -> None:
    pen.disc(x + 0.8, y + 1.6, radius + 0.6, CHEESE_LIGHT)
    pen.disc(x, y, radius, CHEESE_HOLE)
    pen.disc(x + 0.7, y + 1.8, radius - 2.2, CHEESE_DARK)


def _wedge(pen: Pen) -> None:
    """A piece of cheese, in the upper part of a card."""
    pen.polygon(((14, 70), (70, 30), (88, 56), (86, 70)), CHEESE_LIGHT)
    pen.polygon(((14, 70), (87, 70), (87, 102), (14, 102)), CHEESE_YELLOW)
    pen.line(((14, 70), (87, 70)), 1.5, CHEESE_DARK)
    for x, y, radius in ((33, 87, 7.5), (60, 84, 5.5), (74, 94, 4.5)):
        pen.disc(x, y, radius, CHEESE_HOLE)
        pen.disc(x + 0.5, y + 1.2, radius - 1.5, CHEESE_DARK)
    pygame.draw.ellipse(pen.big, CHEESE_DARK, pen.rect(52, 48, 17, 9))


def _mousetrap(pen: Pen) -> None:
    """A board with a spring, a bar ready to snap and a bait."""
    pen.box((18, 22, 64, 86), 6, WOOD_DARK)
    pen.box((18, 20, 64, 84), 6, WOOD)
    for y in (38, 84):
        pen.line(((22, y), (78, y)), 0.9, WOOD_DARK)
    pen.box((26, 28, 48, 38), 6, STEEL, line=4)
    pen.box((21, 60, 58, 7), 3.5, STEEL)
    for x in range(28, 74, 6):
        pen.box((x, 57, 3, 13), 1.5, (188, 196, 204))
    bait = ((38, 92), (60, 78), (64, 92))
    pen.polygon(bait, CHEESE_YELLOW)
    pen.polygon(bait, CHEESE_DARK, line=1.2)
    pen.disc(55, 88, 2.2, CHEESE_HOLE)


def _shade(color: Color, factor: float) -> Color:
    return tuple(min(255, round(part * factor)) for part in color)


FRONTS: dict[int, tuple[Color, Color, Callable[[Pen], None]]] = {
    CHEESE: ((238, 248, 226), (104, 182, 116), _wedge),
    TRAP: ((250, 222, 212), (214, 96, 84), _mousetrap),
}

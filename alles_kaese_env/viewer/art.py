"""The parts of a picture: cards, mice, die. Drawn large once, scaled down smoothly and kept.

Needs the extra ``render``; no display.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

import gymnasium
import numpy as np

from alles_kaese_env.core.records import CHEESE, TRAP

try:
    import pygame as pygame  # the others take it from here, with the error below
except ImportError as error:
    raise gymnasium.error.DependencyNotInstalled(
        f"pictures of the table need pygame-ce ({error}); install it with: "
        'pip install "alles-kaese[render]", in a clone: pip install -e ".[render]"'
    ) from error

Color = tuple[int, ...]
Point = tuple[float, float]
Pen = Callable[[pygame.Surface, float], None]

OVERSAMPLING = 4
CARD = (100, 140)  # the units in which cards are drawn
SMALL = 60

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


@lru_cache(2048)
def text(words: str, size: int, color: Color) -> pygame.Surface:
    """Words in the font that pygame ships with; the surface is shared."""
    # Letters keep their distances when they are drawn large.
    large = _font(size * OVERSAMPLING).render(words, True, color)
    width, height = large.get_size()
    return pygame.transform.smoothscale(
        large, (-(-width // OVERSAMPLING), -(-height // OVERSAMPLING))
    )


def fitted_text(
    words: str, size: int, color: Color, width: int, keeps_end: bool = False
) -> pygame.Surface:
    """The same, cut to a width: at its end, or at its beginning."""
    image = text(words, size, color)
    while image.get_width() > width and len(words) > 1:
        words = "…" + words.lstrip("…")[1:] if keeps_end else words.rstrip("…")[:-1] + "…"
        image = text(words, size, color)
    return image


@cache
def back(holes: int, style: int, width: int) -> pygame.Surface:
    """A card from behind, cheese with holes; each style has them in other places."""

    def draw(big: pygame.Surface, unit: float) -> None:
        _card_body(big, unit, CHEESE_YELLOW, RIND)
        places = np.random.default_rng([holes, style])
        for x, y in HOLES[holes]:
            dx, dy = places.uniform(-4, 4, 2)
            _hole(big, unit, x + dx, y + dy, places.uniform(9.5, 13) - (holes > 4))

    return _piece((width, round(width * 1.4)), width / CARD[0], draw, CHEESE_DARK)


@cache
def front(kind: int, holes: int, width: int) -> pygame.Surface:
    """A card from its front: a piece of cheese, or a mousetrap."""

    def draw(big: pygame.Surface, unit: float) -> None:
        paper, rim, picture = FRONTS[kind]
        _card_body(big, unit, paper, rim)
        if width < SMALL:  # the number takes more of a small card
            part = pygame.Surface(big.get_size(), pygame.SRCALPHA)
            part.fill((*paper, 0))
            picture(part, unit)
            part = pygame.transform.smoothscale_by(part, 0.8)
            big.blit(part, (10 * unit, -3 * unit))
        else:
            picture(big, unit)
        _number(big, unit, str(holes), 60 if width < SMALL else 38)

    return _piece((width, round(width * 1.4)), width / CARD[0], draw, CREAM)


@cache
def empty_slot(width: int) -> pygame.Surface:
    """The place of a card where there is none."""

    def draw(big: pygame.Surface, unit: float) -> None:
        box = _box(unit, 2, 2, 96, 136)
        pygame.draw.rect(big, (255, 255, 255, 12), box, border_radius=round(12 * unit))
        pygame.draw.rect(big, (255, 255, 255, 40), box, round(1.6 * unit), round(12 * unit))

    return _piece((width, round(width * 1.4)), width / CARD[0], draw, WHITE)


@cache
def mouse(seat: int, size: int) -> pygame.Surface:
    """The token of a seat: the head of a mouse in its colour, with its number."""
    color = SEATS[seat]
    dark = _shade(color, 0.62)

    def draw(big: pygame.Surface, unit: float) -> None:
        for x in (23, 77):
            _disc(big, unit, x, 27, 22, dark)
            _disc(big, unit, x, 27, 19.5, color)
            _disc(big, unit, x, 28, 12.5, (255, 190, 196))
        _disc(big, unit, 50, 57, 38, dark)
        _disc(big, unit, 50, 57, 35.5, color)
        words = _font(round(46 * unit)).render(str(seat), True, WHITE)
        big.blit(words, words.get_rect(center=(50 * unit, 44 * unit)))
        for x in (36, 64):
            _disc(big, unit, x, 64, 5.2, (32, 26, 28))
            _disc(big, unit, x + 1.6, 62.4, 1.7, WHITE)
        for y in (76, 82):
            for side in (-1, 1):
                ends = (50 + side * 9, 78), (50 + side * 33, y)
                _line(big, unit, ends, 1.4, _shade(color, 0.45))
        _disc(big, unit, 50, 77, 6.4, (255, 132, 148))

    return _piece((size, size), size / 100, draw, dark)


@cache
def die(number: int, size: int) -> pygame.Surface:
    """The die from above; blank before the first roll."""

    def draw(big: pygame.Surface, unit: float) -> None:
        _rounded(big, unit, (2, 4, 96, 94), 20, (206, 200, 186))
        _rounded(big, unit, (2, 2, 96, 92), 20, CREAM)
        _rounded(big, unit, (7, 6, 86, 83), 16, (255, 252, 243))
        for x, y in PIPS[number]:
            _disc(big, unit, x, y - 2, 9.5, (74, 48, 22))
            _disc(big, unit, x - 1.5, y - 3.5, 6, (98, 66, 34))

    return _piece((size, size), size / 100, draw, (206, 200, 186))


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

    def draw(big: pygame.Surface, unit: float) -> None:
        box = big.get_rect()
        pygame.draw.rect(big, fill, box, border_radius=round(radius * unit))
        if edge is not None:
            pygame.draw.rect(big, edge, box, round(line * unit), round(radius * unit))

    return _piece((width, height), 1, draw, (edge or fill)[:3])


@cache
def disc(size: int, fill: Color, edge: Color) -> pygame.Surface:
    """A round mark."""

    def draw(big: pygame.Surface, unit: float) -> None:
        _disc(big, unit, 50, 50, 49, edge)
        _disc(big, unit, 50, 50, 38, fill)

    return _piece((size, size), size / 100, draw, edge[:3])


@cache
def crown(size: int) -> pygame.Surface:
    """For who has won."""

    def draw(big: pygame.Surface, unit: float) -> None:
        shape = ((12, 80), (6, 34), (30, 54), (50, 20), (70, 54), (94, 34), (88, 80))
        pygame.draw.polygon(big, GOLD, _scaled(shape, unit))
        for x, y in ((6, 32), (50, 18), (94, 32)):
            _disc(big, unit, x, y, 7, GOLD)
        _rounded(big, unit, (12, 82, 76, 10), 4, (232, 178, 52))

    return _piece((size, size), size / 100, draw, GOLD)


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


def _font(size: int) -> pygame.font.Font:
    """The font that pygame ships with; not kept, since any part of the program may quit pygame."""
    pygame.font.init()
    return pygame.font.Font(None, size)


def _piece(size: tuple[int, int], unit: float, draw: Pen, edge: Color) -> pygame.Surface:
    """Draw several times as large and scale down; ``edge`` is the colour that borders fade to."""
    big = pygame.Surface((size[0] * OVERSAMPLING, size[1] * OVERSAMPLING), pygame.SRCALPHA)
    big.fill((*edge[:3], 0))
    draw(big, unit * OVERSAMPLING)
    return pygame.transform.smoothscale(big, size)


def _card_body(big: pygame.Surface, unit: float, paper: Color, rim: Color) -> None:
    _rounded(big, unit, (0, 0, 100, 140), 13, _shade(rim, 0.78))
    _rounded(big, unit, (0, 0, 100, 137.5), 13, rim)
    _rounded(big, unit, (4, 4, 92, 129.5), 10, _shade(paper, 1.12))
    _rounded(big, unit, (4, 6, 92, 127.5), 10, paper)


def _hole(big: pygame.Surface, unit: float, x: float, y: float, radius: float) -> None:
    _disc(big, unit, x + 0.8, y + 1.6, radius + 0.6, CHEESE_LIGHT)
    _disc(big, unit, x, y, radius, CHEESE_HOLE)
    _disc(big, unit, x + 0.7, y + 1.8, radius - 2.2, CHEESE_DARK)


def _wedge(big: pygame.Surface, unit: float) -> None:
    """A piece of cheese, in the upper part of a card."""
    top = ((14, 70), (70, 30), (88, 56), (86, 70))
    side = ((14, 70), (87, 70), (87, 102), (14, 102))
    pygame.draw.polygon(big, CHEESE_LIGHT, _scaled(top, unit))
    pygame.draw.polygon(big, CHEESE_YELLOW, _scaled(side, unit))
    _line(big, unit, ((14, 70), (87, 70)), 1.5, CHEESE_DARK)
    for x, y, radius in ((33, 87, 7.5), (60, 84, 5.5), (74, 94, 4.5)):
        _disc(big, unit, x, y, radius, CHEESE_HOLE)
        _disc(big, unit, x + 0.5, y + 1.2, radius - 1.5, CHEESE_DARK)
    pygame.draw.ellipse(big, CHEESE_DARK, _box(unit, 52, 48, 17, 9))


def _mousetrap(big: pygame.Surface, unit: float) -> None:
    """A board with a spring, a bar ready to snap and a bait."""
    _rounded(big, unit, (18, 22, 64, 86), 6, WOOD_DARK)
    _rounded(big, unit, (18, 20, 64, 84), 6, WOOD)
    for y in (38, 84):
        _line(big, unit, ((22, y), (78, y)), 0.9, WOOD_DARK)
    pygame.draw.rect(big, STEEL, _box(unit, 26, 28, 48, 38), round(4 * unit), round(6 * unit))
    _rounded(big, unit, (21, 60, 58, 7), 3.5, STEEL)
    for x in range(28, 74, 6):
        _rounded(big, unit, (x, 57, 3, 13), 1.5, (188, 196, 204))
    bait = ((38, 92), (60, 78), (64, 92))
    pygame.draw.polygon(big, CHEESE_YELLOW, _scaled(bait, unit))
    pygame.draw.polygon(big, CHEESE_DARK, _scaled(bait, unit), round(1.2 * unit))
    _disc(big, unit, 55, 88, 2.2, CHEESE_HOLE)


def _number(big: pygame.Surface, unit: float, words: str, size: float) -> None:
    image = _font(round(size * unit)).render(words, True, INK)
    big.blit(image, image.get_rect(center=(50 * unit, (134 - size * 0.37) * unit)))


def _rounded(
    big: pygame.Surface, unit: float, box: tuple[float, ...], radius: float, color: Color
) -> None:
    pygame.draw.rect(big, color, _box(unit, *box), border_radius=round(radius * unit))


def _line(
    big: pygame.Surface, unit: float, ends: tuple[Point, Point], width: float, color: Color
) -> None:
    start, end = _scaled(ends, unit)
    pygame.draw.line(big, color, start, end, round(width * unit))


def _disc(
    big: pygame.Surface, unit: float, x: float, y: float, radius: float, color: Color
) -> None:
    pygame.draw.circle(big, color, (x * unit, y * unit), radius * unit)


def _box(unit: float, x: float, y: float, width: float, height: float) -> pygame.Rect:
    return pygame.Rect(*(round(number * unit) for number in (x, y, width, height)))


def _scaled(points: tuple[Point, ...], unit: float) -> list[Point]:
    return [(x * unit, y * unit) for x, y in points]


def _shade(color: Color, factor: float) -> Color:
    return tuple(min(255, round(part * factor)) for part in color)


FRONTS: dict[int, tuple[Color, Color, Pen]] = {
    CHEESE: ((238, 248, 226), (104, 182, 116), _wedge),
    TRAP: ((250, 222, 212), (214, 96, 84), _mousetrap),
}

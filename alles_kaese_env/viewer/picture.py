"""The game as a picture, from a view: what the observer knows and nothing else.

Needs the extra ``render``; only `Window` needs a display.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.records import CHEESE, TAKE, TRAP, UNSEEN
from alles_kaese_env.replay.game import ALL, PUBLIC, Turn, shortened
from alles_kaese_env.viewer import art
from alles_kaese_env.viewer.art import GOLD, GREEN, INK, MUTED, RED, WHITE, pygame
from alles_kaese_env.viewer.text import LONGEST_NAME, PAST, describe_match, plural
from alles_kaese_env.viewer.view import View

SIZE = (1024, 640)
CARD, GAP, ROW_TOP = (100, 140), 14, 92
LEFT = pygame.Rect(28, 308, 670, 312)  # the seats
RIGHT = pygame.Rect(730, 308, 266, 312)  # what was done
PANEL, PANEL_EDGE = (255, 255, 255, 16), (255, 255, 255, 34)
GRID = {2: (1, 2), 3: (1, 3), 4: (2, 2), 5: (2, 3), 6: (2, 3)}  # columns and rows of seats
MOST_PIPS = 6  # a trap limit above is written in figures


def frame(view: View) -> npt.NDArray[np.uint8]:
    """The game as an array (640, 1024, 3) uint8 of red, green and blue."""
    pixels = np.frombuffer(pygame.image.tobytes(draw(view), "RGB"), np.uint8)
    return pixels.reshape(SIZE[1], SIZE[0], 3).copy()  # the bytes themselves are read-only


def draw(view: View) -> pygame.Surface:
    """The game as a new surface of `SIZE`."""
    canvas = pygame.Surface(SIZE)
    canvas.blit(art.background(*SIZE), (0, 0))
    _header(canvas, view)
    for slot in range(len(view.row)):
        _slot(canvas, view, slot)
    _reserve(canvas, view)
    _die(canvas, view)
    _discards(canvas, view)
    for seat in view.seats:
        _seat(canvas, view, seat)
    _turns(canvas, view)
    return canvas


def slot_rect(slot: int, row_size: int) -> pygame.Rect:
    """Where the card of a slot lies in the picture."""
    width = row_size * CARD[0] + (row_size - 1) * GAP
    left = LEFT.centerx - width // 2
    return pygame.Rect(left + slot * (CARD[0] + GAP), ROW_TOP, *CARD)


class Window:
    """A window for one picture after the other; it opens with the first.

    Closing it leaves other windows open. If another part of the program has quit pygame, it opens
    again.
    """

    def __init__(self) -> None:
        self._window: pygame.Window | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is a window that is not open."""
        return Window, ()

    def show(self, view: View, frames_a_second: float) -> None:
        """Show a game, and wait for the rate of frames."""
        window = self._opened()
        window.get_surface().blit(draw(view), (0, 0))
        pygame.event.pump()
        window.flip()
        self._clock.tick(frames_a_second)

    def _opened(self) -> pygame.Window:
        """The window, or a new one if there is none or another part of the program closed it."""
        with suppress(pygame.error):
            if self._window is not None:
                self._window.get_surface()
                return self._window
        self._window = None  # destroyed first: it could take a new one of the same address along
        pygame.display.init()
        self._window = pygame.Window("Alles Käse!", SIZE)
        self._clock = pygame.time.Clock()
        return self._window

    def close(self) -> None:
        """Close the window, if it is open."""
        if self._window is not None:
            self._window.destroy()
            self._window = None


def _put(canvas: pygame.Surface, image: pygame.Surface, **place: Any) -> pygame.Rect:
    """Blit an image with one of its points, such as ``midtop``, at a place."""
    return canvas.blit(image, image.get_rect(**place))


def _write(
    canvas: pygame.Surface, words: str, size: int, color: art.Color = WHITE, **place: Any
) -> pygame.Rect:
    return _put(canvas, art.text(words, size, color), **place)


def _shadowed(canvas: pygame.Surface, image: pygame.Surface, box: pygame.Rect) -> None:
    _put(canvas, art.shadow(*box.size), center=(box.centerx + 2, box.centery + 5))
    canvas.blit(image, box)


def _box(canvas: pygame.Surface, box: pygame.Rect, *style: Any) -> None:
    canvas.blit(art.rounded_box(*box.size, *style), box)


def _header(canvas: pygame.Surface, view: View) -> None:
    """Whose turn it is or who has won, and who looks."""
    seats = (view.turn,) if view.turn is not None else view.winners
    x = LEFT.left
    for seat in seats:
        x = _put(canvas, art.mouse(seat, 46), midleft=(x, 38)).right + 6
    names = [shortened(view.name_of(seat), LONGEST_NAME) for seat in seats]
    if view.turn is not None:
        title, note = f"{names[0]} to act", f"die {view.die}: {describe_match(view)}"
    else:
        verb = "wins" if len(seats) == 1 else "share the win"
        title, note = f"{' and '.join(names)} {verb}", "the game is over"
    width = RIGHT.left - x
    _put(canvas, art.fitted_text(title, 34, WHITE, width), midleft=(x + 6, 28))
    is_match = view.turn is not None and view.matching
    _write(canvas, note, 21, GOLD if is_match else MUTED, midleft=(x + 7, 53))
    label = {PUBLIC: "public view", ALL: "FULL VIEW"}.get(
        str(view.perspective), f"view of seat {view.perspective}"
    )
    words = art.text(label, 22, WHITE)
    fill = (*RED, 220) if view.perspective == ALL else (255, 255, 255, 28)
    badge = pygame.Rect(0, 0, words.get_width() + 28, 32)
    badge.midright = RIGHT.right, 38
    _box(canvas, badge, 16, fill)
    _put(canvas, words, center=badge.center)


def _slot(canvas: pygame.Surface, view: View, slot: int) -> None:
    """A card of the row, what the observer knows of it, and who peeked at it."""
    box, holes = slot_rect(slot, len(view.row)), view.row[slot]
    _write(canvas, str(slot), 18, MUTED, midbottom=(box.centerx, box.top - 4))
    if not holes:
        canvas.blit(art.empty_slot(CARD[0]), box)
        return
    _shadowed(canvas, art.back(holes, slot, CARD[0]), box)
    if slot in view.matching and view.turn is not None:
        _box(canvas, box.inflate(8, 8), 16, (0, 0, 0, 0), WHITE, 3)
    if view.front[slot] != UNSEEN:
        _front_badge(canvas, view.front[slot], box)
    _chance(canvas, view.trap_probability[slot], box)
    _tokens(canvas, view.peeked[slot], (box.centerx, box.bottom + 43))


def _front_badge(canvas: pygame.Surface, front: int, card: pygame.Rect) -> None:
    """A small marker for a front that only some may know."""
    badge = pygame.Rect(0, 0, 78, 24)
    badge.midbottom = card.centerx, card.bottom - 8
    color, name = (RED, "TRAP") if front == TRAP else (GREEN, "CHEESE")
    _box(canvas, badge, 12, color, WHITE, 2)
    _write(canvas, name, 19, WHITE, center=(badge.centerx, badge.centery + 1))


def _chance(canvas: pygame.Surface, share: float, card: pygame.Rect) -> None:
    """The trap probability as a bar and in figures."""
    bar = pygame.Rect(card.left + 4, card.bottom + 15, 54, 8)
    _box(canvas, bar, 4, (255, 255, 255, 40))
    filled = round(bar.width * share)
    if filled >= 2:
        _box(canvas, pygame.Rect(bar.topleft, (max(filled, 8), 8)), 4, RED)
    _write(canvas, f"{share:.0%}", 18, WHITE, midright=(card.right - 2, bar.centery + 1))


def _tokens(canvas: pygame.Surface, seats: tuple[int, ...], center: tuple[int, int]) -> None:
    """Who peeked at a card."""
    size = 24 if len(seats) <= 4 else 16
    left = center[0] - len(seats) * size // 2
    for k, seat in enumerate(seats):
        _put(canvas, art.mouse(seat, size), midleft=(left + k * size, center[1]))


def _reserve(canvas: pygame.Surface, view: View) -> None:
    """The reserve as a pile, its top card visible."""
    box = pygame.Rect(RIGHT.left + 8, ROW_TOP, *CARD)
    if not view.reserve:
        canvas.blit(art.empty_slot(CARD[0]), box)
    for k in reversed(range(min(3, view.reserve))):
        card = box.move(3 * k, 3 * k)
        _shadowed(canvas, art.back(view.top, 6 + k, CARD[0]), card)
    _write(canvas, "reserve", 18, MUTED, midbottom=(box.centerx, box.top - 4))
    _write(canvas, plural(view.reserve, "card"), 20, WHITE, midtop=(box.centerx, box.bottom + 12))


def _die(canvas: pygame.Surface, view: View) -> None:
    box = pygame.Rect(0, 0, 92, 92)
    box.midtop = RIGHT.right - 66, ROW_TOP + 18
    _put(canvas, art.shadow(*box.size, 20), center=(box.centerx + 2, box.centery + 5))
    canvas.blit(art.die(view.die, box.width), box)
    _write(canvas, "die", 18, MUTED, midbottom=(box.centerx, ROW_TOP - 4))
    if view.die and view.turn is not None:
        words, color = ("match", GOLD) if view.matching else ("no match", MUTED)
        _write(canvas, words, 22, color, midtop=(box.centerx, box.bottom + 14))


def _discards(canvas: pygame.Surface, view: View) -> None:
    """How many cards of each hole count lie on the discard pile."""
    y = ROW_TOP + CARD[1] + 52
    number = sum(view.discarded)
    _write(canvas, f"discards {number}", 18, MUTED, midleft=(RIGHT.left, y))
    for k, count in enumerate(view.discarded):
        x = RIGHT.left + 88 + k * 30
        card = art.back(k + 1, 0, 17)
        card.set_alpha(255 if count else 60)
        _put(canvas, card, midleft=(x, y))
        card.set_alpha(255)
        if count:
            _write(canvas, str(count), 17, WHITE, midleft=(x + 19, y))


def _seat_box(seat: int, num_players: int) -> pygame.Rect:
    columns, rows = GRID[num_players]
    gap = 10
    width = (LEFT.width - gap * (columns - 1)) // columns
    height = (LEFT.height - gap * (rows - 1)) // rows
    row, column = divmod(seat, columns)
    left, top = LEFT.left + column * (width + gap), LEFT.top + row * (height + gap)
    return pygame.Rect(left, top, width, height)


def _seat(canvas: pygame.Surface, view: View, seat: int) -> None:
    """What lies before a seat."""
    box = _seat_box(seat, len(view.seats))
    if seat == view.turn or seat in view.winners:
        _box(canvas, box, 14, (255, 214, 92, 34), GOLD, 2.5)
    else:
        _box(canvas, box, 14, PANEL, PANEL_EDGE)
    size = 64 if box.height > 120 else 54
    left = box.left + 12
    token = _put(canvas, art.mouse(seat, size), midleft=(left, box.centery))
    if seat in view.winners:
        _put(canvas, art.crown(28), midbottom=(token.centerx, token.top + 8))
    width = box.right - token.right - 24
    inner = pygame.Rect(token.right + 12, box.top + 8, width, box.height - 14)
    points = plural(view.points[seat], "point")
    right = _write(canvas, points, 24, topright=inner.topright).left
    right = _traps(canvas, view, seat, right - 12, inner.top + 8)
    name = view.name_of(seat)
    if seat == view.perspective and name != "you":
        name += " (you)"
    width = max(right - inner.left - 8, 20)
    label = art.fitted_text(name, 22, art.SEATS[seat], width, keeps_end=True)
    _put(canvas, label, topleft=inner.topleft)
    cards = pygame.Rect(inner.left, inner.top + 22, inner.width, inner.height - 22)
    _taken(canvas, view, seat, cards)


def _traps(canvas: pygame.Surface, view: View, seat: int, right: int, y: int) -> int:
    """Traps taken out of the limit, right-aligned; where they begin."""
    taken, limit = view.traps[seat], view.variant.trap_limit
    if limit > MOST_PIPS:
        words = f"{taken}/{limit} traps"
        return _write(canvas, words, 18, RED if taken else MUTED, midright=(right, y)).left
    for k in range(limit):
        fill = RED if limit - 1 - k < taken else (30, 58, 62)
        edge = (255, 190, 182) if limit - 1 - k < taken else (92, 122, 124)
        _put(canvas, art.disc(13, fill, edge), midright=(right - k * 15, y))
    return right - limit * 15


def _taken(canvas: pygame.Surface, view: View, seat: int, box: pygame.Rect) -> None:
    """The cards that a seat took: cheese above, traps below, by holes."""
    height = box.height // 2
    width = min(round((height - 4) / 1.4), 44)
    step = min(box.width / view.variant.num_holes, 96)
    for line, (kind, counts) in enumerate(zip((CHEESE, TRAP), view.taken[seat], strict=True)):
        for k, count in enumerate(counts):
            x, y = box.left + round(k * step), box.top + line * height + 2
            image = art.front(kind, k + 1, width) if count else art.empty_slot(width)
            canvas.blit(image, (x, y))
            if count > 1:
                mark = _put(canvas, art.disc(16, INK, GOLD), center=(x + width - 2, y + 6))
                _write(canvas, str(count), 15, WHITE, center=(mark.centerx, mark.centery + 1))


def _turns(canvas: pygame.Surface, view: View) -> None:
    """What was done last, the latest first and large."""
    _box(canvas, RIGHT, 14, PANEL, PANEL_EDGE)
    _write(canvas, "what was done", 18, MUTED, topleft=(RIGHT.left + 14, RIGHT.top + 12))
    if not view.turns:
        _write(canvas, "the cards are dealt", 20, WHITE, topleft=(RIGHT.left + 14, RIGHT.top + 40))
        return
    *earlier, last = view.turns
    _last_turn(canvas, last, pygame.Rect(RIGHT.left + 14, RIGHT.top + 34, 238, 104))
    for k, turn in enumerate(reversed(earlier[-6:])):
        y = RIGHT.top + 164 + k * 25
        _put(canvas, art.mouse(turn.seat, 22), midleft=(RIGHT.left + 14, y))
        words = f"{PAST[turn.kind]} slot {turn.slot}"
        _write(canvas, words, 19, MUTED, midleft=(RIGHT.left + 42, y))
        image = _turn_card(turn, 15)
        if image is not None:
            _put(canvas, image, midright=(RIGHT.right - 16, y))


def _last_turn(canvas: pygame.Surface, turn: Turn, box: pygame.Rect) -> None:
    _put(canvas, art.mouse(turn.seat, 40), topleft=(box.left, box.top + 2))
    lines = [PAST[turn.kind], f"slot {turn.slot}"]
    if turn.front != UNSEEN:
        lines.append("a trap!" if turn.front == TRAP else "cheese")
    for k, words in enumerate(lines):
        color = {TRAP: RED, CHEESE: GREEN}[turn.front] if k == 2 else WHITE
        _write(canvas, words, 23, color, topleft=(box.left + 50, box.top + 6 + 24 * k))
    image = _turn_card(turn, 72)
    if image is not None:
        card = image.get_rect(topright=box.topright)
        _put(canvas, art.shadow(*card.size, 9), center=(card.centerx + 1, card.centery + 3))
        canvas.blit(image, card)
    line = pygame.Rect(box.left, box.bottom + 8, box.width, 1)
    canvas.fill((70, 104, 108), line)


def _turn_card(turn: Turn, width: int) -> pygame.Surface | None:
    """The card of a turn, open if it was taken."""
    if not turn.holes:
        return None
    if turn.kind == TAKE and turn.front != UNSEEN:
        return art.front(turn.front, turn.holes, width)
    return art.back(turn.holes, 0, width)

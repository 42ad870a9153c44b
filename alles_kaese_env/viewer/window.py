"""A session in a window, for keys and the mouse.

Needs the extra ``render``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from alles_kaese_env.command_line import INTERRUPTED
from alles_kaese_env.viewer import art
from alles_kaese_env.viewer.art import GOLD, INK, WHITE, pygame
from alles_kaese_env.viewer.picture import SIZE, draw, slot_rect
from alles_kaese_env.viewer.session import Session

STRIP = 56  # height of the strip with the prompt and the buttons, under the picture
FRAMES_A_SECOND = 30
EDGE = 14
KEYS = {"return": "enter", "?": "question_mark"}  # where Textual has another name
HELP_COLUMNS = 96


class GameWindow:
    """A session in a window, with a line of words and buttons below the picture."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self) -> int:
        """Show the window until it is closed; returns the exit code."""
        session = self.session
        art.open_display()
        try:
            screen = pygame.display.set_mode((SIZE[0], SIZE[1] + STRIP))
            pygame.display.set_caption(f"Alles Käse! - {session.title}")
            clock = pygame.time.Clock()
            while session.is_open:
                for event in pygame.event.get():
                    self.answer(event)
                session.tick(clock.tick(FRAMES_A_SECOND) / 1000)
                if session.is_stale:
                    session.is_stale = False
                    self._paint(screen)
                    pygame.display.flip()
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            pygame.display.quit()
        return 0

    def slot_rects(self) -> list[pygame.Rect]:
        """Where the cards of the row lie."""
        row_size = len(self.session.view.row)
        return [slot_rect(slot, row_size) for slot in range(row_size)]

    def button_rects(self) -> list[pygame.Rect]:
        """Where the buttons lie."""
        rects: list[pygame.Rect] = []
        right = SIZE[0] - EDGE
        for label, _ in reversed(self.session.buttons):
            width = art.text(label, 20, INK).get_width() + 2 * EDGE
            rects.insert(0, pygame.Rect(right - width, SIZE[1] + 9, width, STRIP - 18))
            right -= width + 10
        return rects

    def answer(self, event: pygame.Event) -> None:
        """Tell the session of a key or a click."""
        session = self.session
        if event.type == pygame.QUIT:
            session.is_open = False
        elif event.type == pygame.KEYDOWN:
            letter = getattr(event, "unicode", "")
            name = "?" if letter == "?" else pygame.key.name(event.key).strip("[]")  # "[1]": keypad
            session.press(KEYS.get(name, name))
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1:
            for rect, (_, do) in zip(self.button_rects(), session.buttons, strict=True):
                if rect.collidepoint(event.pos):
                    do()
                    return
            for slot, rect in enumerate(self.slot_rects()):
                if rect.collidepoint(event.pos):
                    session.click(slot)
        elif event.type in (pygame.WINDOWEXPOSED, pygame.WINDOWRESTORED):
            session.is_stale = True

    def _paint(self, screen: pygame.Surface) -> None:
        session = self.session
        screen.fill((18, 34, 30))
        if session.is_help_shown:
            _paint_help(screen, session.help)
        else:
            screen.blit(draw(session.view), (0, 0))
            if session.chosen is not None:
                _mark(screen, self.slot_rects()[session.chosen])
        rects = self.button_rects()
        width = (rects[0].left if rects else SIZE[0]) - 2 * EDGE
        words = art.fitted_text(session.prompt(has_mouse=True), 20, WHITE, width)
        screen.blit(words, words.get_rect(midleft=(EDGE, SIZE[1] + STRIP // 2)))
        for rect, (label, _) in zip(rects, session.buttons, strict=True):
            pygame.draw.rect(screen, GOLD, rect, border_radius=9)
            image = art.text(label, 20, INK)
            screen.blit(image, image.get_rect(center=rect.center))


def _mark(screen: pygame.Surface, card: pygame.Rect) -> None:
    """The chosen card: a white frame and two arrows beside its number, unlike a matching card."""
    frame = card.inflate(14, 14)
    screen.blit(art.rounded_box(*frame.size, 18, (0, 0, 0, 0), WHITE, 6), frame)
    y = card.top - 14
    for side in (-1, 1):
        x = card.centerx + side * 12
        arrow = (x, y), (x + side * 12, y - 7), (x + side * 12, y + 7)
        pygame.draw.polygon(screen, WHITE, arrow)


def _paint_help(screen: pygame.Surface, paragraphs: Sequence[str]) -> None:
    """The help in the place of the picture."""
    y = 60
    for paragraph in paragraphs:
        for line in textwrap.wrap(paragraph, HELP_COLUMNS):
            screen.blit(art.text(line, 26, WHITE), (60, y))
            y += 34
        y += 22


def run(session: Session) -> int:
    """Run a session in a window; returns the exit code."""
    return GameWindow(session).run()

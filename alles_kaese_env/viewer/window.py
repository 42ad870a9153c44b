"""A replay in a window, stepped through with keys or the mouse.

Needs the extra ``render``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from alles_kaese_env.command_line import INTERRUPTED
from alles_kaese_env.replay.game import Replay
from alles_kaese_env.viewer import art
from alles_kaese_env.viewer.art import GOLD, INK, WHITE, pygame
from alles_kaese_env.viewer.picture import SIZE, draw
from alles_kaese_env.viewer.stepping import TURN_SECONDS, Stepping
from alles_kaese_env.viewer.view import View
from alles_kaese_env.viewer.words import describe_perspective

STRIP = 56  # height of the strip with the words and the buttons, under the picture
FRAMES_A_SECOND = 30
EDGE = 14

Button = tuple[str, Callable[[], None]]


class GameWindow:
    """A window with a game, a line of words and buttons below, until somebody closes it.

    Attributes:
        is_open: set to False to leave.
        view: the game as it is shown.
        words: the line below.
        buttons: label and what a click does, from left to right.
        chosen: slots that are framed.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.words = ""
        self.buttons: Sequence[Button] = ()
        self.chosen: Sequence[pygame.Rect] = ()
        self.is_open = True
        self._is_stale = True

    def run(self) -> int:
        """Show the window until it is closed; returns the exit code."""
        pygame.display.init()
        try:
            screen = pygame.display.set_mode((SIZE[0], SIZE[1] + STRIP))
            pygame.display.set_caption("Alles Käse!")
            clock = pygame.time.Clock()
            while self.is_open:
                for event in pygame.event.get():
                    self._answer(event)
                self.tick(clock.tick(FRAMES_A_SECOND) / 1000)
                if self._is_stale:
                    self._is_stale = False
                    self._paint(screen)
                    pygame.display.flip()
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            pygame.display.quit()
        return 0

    def refresh(self) -> None:
        """The window has to be drawn anew."""
        self._is_stale = True

    def tick(self, seconds: float) -> None:
        """So much time has gone by."""

    def press(self, key: int) -> None:
        """A key was pressed."""

    def click(self, place: tuple[int, int]) -> None:
        """The mouse was clicked somewhere on the picture."""

    def button_rects(self) -> list[pygame.Rect]:
        """Where the buttons lie."""
        rects: list[pygame.Rect] = []
        right = SIZE[0] - EDGE
        for label, _ in reversed(self.buttons):
            width = art.text(label, 20, INK).get_width() + 2 * EDGE
            rects.insert(0, pygame.Rect(right - width, SIZE[1] + 9, width, STRIP - 18))
            right -= width + 10
        return rects

    def _answer(self, event: pygame.Event) -> None:
        if event.type == pygame.QUIT:
            self.is_open = False
        elif event.type == pygame.KEYDOWN:
            self.press(event.key)
        elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1:
            for rect, (_, do) in zip(self.button_rects(), self.buttons, strict=True):
                if rect.collidepoint(event.pos):
                    do()
                    return
            self.click(event.pos)
        elif event.type in (pygame.WINDOWEXPOSED, pygame.WINDOWRESTORED):
            self.refresh()

    def _paint(self, screen: pygame.Surface) -> None:
        screen.fill((18, 34, 30))
        screen.blit(draw(self.view), (0, 0))
        for rect in self.chosen:
            pygame.draw.rect(screen, WHITE, rect.inflate(10, 10), width=4, border_radius=14)
        rects = self.button_rects()
        width = (rects[0].left if rects else SIZE[0]) - 2 * EDGE
        words = art.fitted_text(self.words, 20, WHITE, width)
        screen.blit(words, words.get_rect(midleft=(EDGE, SIZE[1] + STRIP // 2)))
        for rect, (label, _) in zip(rects, self.buttons, strict=True):
            pygame.draw.rect(screen, GOLD, rect, border_radius=9)
            image = art.text(label, 20, INK)
            screen.blit(image, image.get_rect(center=rect.center))


class ReplayWindow(Stepping, GameWindow):
    """A replay to step through.

    Args:
        replay: what to show.
        is_playing: go on by itself from the beginning.
    """

    def __init__(self, replay: Replay, *, is_playing: bool = False) -> None:
        self.begin(replay, is_playing)
        super().__init__(self.view_here())
        self._waited = 0.0
        self.show()

    def show(self) -> None:
        """Bring the window up to date."""
        self.view = self.view_here()
        self.words = f"{self.describe_place()}   {describe_perspective(self.view)}"
        self.buttons = (
            ("<", lambda: self.step(-1)),
            ("pause" if self.is_playing else "play", self.play),
            (">", lambda: self.step(1)),
        )
        self._waited = 0.0
        self.refresh()

    def tick(self, seconds: float) -> None:
        """A turn further when it is time for it."""
        self._waited += seconds
        if self._waited >= TURN_SECONDS:
            self.go_on()

    def press(self, key: int) -> None:
        """The keys of the terminal, and Escape."""
        if key in (pygame.K_q, pygame.K_ESCAPE):
            self.is_open = False
        elif key == pygame.K_SPACE:
            self.play()
        elif key in (pygame.K_LEFT, pygame.K_RIGHT):
            self.step(1 if key == pygame.K_RIGHT else -1)
        elif key in (pygame.K_HOME, pygame.K_END):
            self.step(len(self.replay) if key == pygame.K_END else -len(self.replay))


def show_in_window(replay: Replay, *, is_playing: bool = False) -> int:
    """Let a person step through a replay; returns the exit code."""
    return ReplayWindow(replay, is_playing=is_playing).run()

"""A game against agents in a window, played with the mouse.

Needs the extra ``render``.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from functools import partial

from agents.play.table import Table
from agents.play.turns import Turns
from alles_kaese_env.actions import decode_action, encode_action
from alles_kaese_env.core.records import DISCARD, PEEK, TAKE
from alles_kaese_env.viewer.art import pygame
from alles_kaese_env.viewer.picture import slot_rect
from alles_kaese_env.viewer.window import GameWindow
from alles_kaese_env.viewer.words import describe_end


def play_in_window(table: Table, delay: float) -> int:
    """Let the person play until they close the window; returns the exit code."""
    return PlayWindow(table, delay).run()


class PlayWindow(Turns, GameWindow):
    """A game of one person: click a card, then take or discard; a peek needs one click.

    Arguments as in `Turns`.
    """

    def __init__(self, table: Table, delay: float) -> None:
        self.join(table, delay)
        self.slot: int | None = None  # what the person has clicked
        self._results: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._later: Callable[[], None] | None = None  # what an agent decided
        self._waited = 0.0
        super().__init__(self.view_now())
        self.go_on()

    # --- The course of the game -------------------------------------------------------------

    def begin_turn(self) -> None:
        """Show the game, with no card chosen."""
        self.slot, self._waited = None, 0.0
        self.answer("")

    def resume(self, do: Callable[[], None]) -> None:
        """Do something at the next tick."""
        self._results.put(do)

    def do_after_delay(self, do: Callable[[], None]) -> None:
        """Do something when the last move has been seen."""
        self._later = do

    def tick(self, seconds: float) -> None:
        """Take what the threads have found, and do it when its time has come."""
        self._waited += seconds
        while not self._results.empty():
            self._results.get()()
        if self._later is not None and self._waited >= self.delay:
            do, self._later = self._later, None
            do()

    # --- What is shown ----------------------------------------------------------------------

    def answer(self, note: str) -> None:
        """Bring the window up to date, with an answer or what may be done now."""
        self.view = self.view_now()
        self.chosen = [] if self.slot is None else [self.rect(self.slot)]
        self.words = note or self.prompt()
        self.buttons = self._buttons()
        self.refresh()

    def prompt(self) -> str:
        """What may be done now."""
        if self.table.is_over:
            return describe_end(self.view)
        if not self.table.is_persons_turn:
            return self.waiting()
        if PEEK in self.legal_kinds():
            return "no match: click a card to peek at it"
        return "a match: click a framed card" if self.slot is None else "take or discard it?"

    def _buttons(self) -> list[tuple[str, Callable[[], None]]]:
        if self.table.is_over:
            return [("close", self.leave)]
        if not self.table.is_persons_turn:
            return []
        buttons = [("hint", self.ask_for_hint)]
        if self.slot is not None:
            for label, kind in (("take", TAKE), ("discard", DISCARD)):
                buttons.append((label, partial(self.carry_out, encode_action(kind, self.slot))))
        return buttons

    def rect(self, slot: int) -> pygame.Rect:
        """Where a slot lies."""
        return slot_rect(slot, len(self.view.row))

    # --- Mouse and keys ---------------------------------------------------------------------

    def click(self, place: tuple[int, int]) -> None:
        """Choose a card, or peek at it where that is what may be done."""
        slots = range(len(self.view.row))
        clicked = [slot for slot in slots if self.rect(slot).collidepoint(place)]
        if not clicked or not self.table.is_persons_turn:
            return
        slot, mask = clicked[0], self.table.mask
        if mask[encode_action(PEEK, slot)]:
            self.carry_out(encode_action(PEEK, slot))
        elif mask[encode_action(TAKE, slot)]:
            self.slot = slot
            self.answer("")
        else:
            self.answer(f"slot {slot} is not legal now: its card does not match the die")

    def press(self, key: int) -> None:
        """A key for each button; other keys do nothing."""
        wanted = {pygame.K_h: "hint", pygame.K_t: "take", pygame.K_d: "discard"}.get(key)
        for label, do in self.buttons:
            if label == wanted:
                do()
        if key == pygame.K_q and self.table.is_over:
            self.leave()

    def leave(self) -> None:
        """Close the window."""
        self.is_open = False

    def select(self, action: int) -> None:
        """Choose the card of an action that needs a second click."""
        kind, slot = decode_action(action)
        self.slot = None if kind == PEEK else slot

"""A game against agents in a window, played with the mouse.

Needs the extra ``render``.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial

import numpy as np

from agents.play.table import HINT_PLAYOUTS, Table
from agents.search.agent import SearchAgent
from alles_kaese_env.actions import decode_action, describe_action, encode_action
from alles_kaese_env.core.records import DISCARD, PEEK, TAKE
from alles_kaese_env.viewer.art import pygame
from alles_kaese_env.viewer.picture import slot_rect
from alles_kaese_env.viewer.view import view_of_replay
from alles_kaese_env.viewer.window import GameWindow
from alles_kaese_env.viewer.words import describe_end


def play_in_window(table: Table, delay: float) -> int:
    """Let the person play until it closes the window; returns the exit code."""
    return PlayWindow(table, delay).run()


class PlayWindow(GameWindow):
    """A game of one person: click a card, then take or discard; a peek needs one click.

    Args:
        table: with a person at it.
        delay: seconds for which a move of an opponent is shown.
    """

    def __init__(self, table: Table, delay: float) -> None:
        assert table.seat is not None, "there is a person"
        self.table, self.delay, self.seat = table, delay, table.seat
        self.slot: int | None = None  # what the person has clicked
        self._results: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._later: Callable[[], None] | None = None  # what an agent decided
        self._waited = 0.0
        super().__init__(view_of_replay(table.replay(self.seat)))
        self.go_on()

    # --- The course of the game -------------------------------------------------------------

    def go_on(self) -> None:
        """Let whose turn it is decide."""
        self.slot, self._waited = None, 0.0
        self.show("")
        if not self.table.is_over and not self.table.is_persons_turn:
            self.work_beside(self.table.choose, self.carry_out_later)

    def work_beside(self, work: Callable[[], int], then: Callable[[int], None]) -> None:
        """Work in a thread, so that the window stays alive, then go on with the result."""
        threading.Thread(
            target=lambda: self._results.put(partial(then, work())), daemon=True
        ).start()

    def carry_out_later(self, action: int) -> None:
        """Do what an agent decided, when its move before has been seen."""
        self._later = partial(self.carry_out, action)

    def carry_out(self, action: int) -> None:
        """Do what was decided."""
        self.table.act(action)
        self.go_on()

    def tick(self, seconds: float) -> None:
        """Take what the threads have found, and do it when its time has come."""
        self._waited += seconds
        while not self._results.empty():
            self._results.get()()
        if self._later is not None and self._waited >= self.delay:
            do, self._later = self._later, None
            do()

    # --- What is shown ----------------------------------------------------------------------

    def show(self, note: str) -> None:
        """Bring the window up to date."""
        self.view = view_of_replay(self.table.replay(self.seat))
        self.chosen = [] if self.slot is None else [self.rect(self.slot)]
        self.words = note or self.prompt()
        self.buttons = self._buttons()
        self.refresh()

    def prompt(self) -> str:
        """What may be done now."""
        if self.table.is_over:
            return describe_end(self.view)
        if not self.table.is_persons_turn:
            return f"{self.table.names[self.table.mover]} is thinking"
        if PEEK in self.kinds():
            return "no match: click a card to peek at it"
        return "a match: click a framed card" if self.slot is None else "take or discard it?"

    def _buttons(self) -> list[tuple[str, Callable[[], None]]]:
        if self.table.is_over:
            return [("close", self.leave)]
        if not self.table.is_persons_turn:
            return []
        buttons = [("hint", self.hint)]
        if self.slot is not None:
            for label, kind in (("take", TAKE), ("discard", DISCARD)):
                buttons.append((label, partial(self.carry_out, encode_action(kind, self.slot))))
        return buttons

    def rect(self, slot: int) -> pygame.Rect:
        """Where a slot lies."""
        return slot_rect(slot, len(self.view.row))

    def kinds(self) -> set[int]:
        """The kinds of action that are legal now."""
        return {decode_action(int(action))[0] for action in np.flatnonzero(self.table.mask)}

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
            self.show("")
        else:
            self.show(f"slot {slot} is not legal now: its card does not match the die")

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

    def hint(self) -> None:
        """Ask the search agent what it would do, by what the person knows."""
        self.show("the search agent is thinking (the first time some seconds)")
        turns = len(self.view.turns)
        agent = SearchAgent(playouts=HINT_PLAYOUTS)
        self.work_beside(partial(self.table.hint, agent), partial(self.show_hint, turns))

    def show_hint(self, turns: int, action: int) -> None:
        """Say what the search agent would do, if it is still about that turn."""
        if turns == len(self.view.turns):
            kind, slot = decode_action(action)
            self.slot = None if kind == PEEK else slot
            self.show(f"hint: {describe_action(action)}")

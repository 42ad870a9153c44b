"""A game that a person plays against agents, for a terminal or a window."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial

import numpy as np

from agents.play.table import Table
from agents.search.agent import SearchAgent
from alles_kaese_env.actions import KINDS, decode_action, describe_action, encode_action
from alles_kaese_env.core.records import DISCARD, MAX_SLOTS, PEEK, TAKE
from alles_kaese_env.viewer.session import Session
from alles_kaese_env.viewer.text import describe_end
from alles_kaese_env.viewer.view import view_of_replay

HINT_PLAYOUTS = 400  # for each legal action
THINKING = "the search agent is thinking (the first time some seconds)"


class PlaySession(Session):
    """A game of one person.

    Args:
        table: with a person at it.
        delay: seconds for which a move of an opponent is shown.

    Attributes:
        kind, slot: of the action that the person has selected.
        note: an answer to the last key or click.
    """

    def __init__(self, table: Table, delay: float) -> None:
        assert table.seat is not None, "there is a person"
        self.table, self.delay, self.seat = table, delay, table.seat
        self.title = f"you are seat {self.seat}; what you peeked at stays shown to you"
        self.kind, self.slot = TAKE, 0
        self._results: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._decided: int | None = None  # by an agent, not yet carried out
        self._waited = 0.0
        self._is_leaving = False  # one more q leaves the game
        self.keys = {
            "left": ("slot", partial(self.move_slot, -1)),
            "right": ("slot", partial(self.move_slot, 1)),
            "up": ("take/discard", self.switch_kind),
            "down": ("", self.switch_kind),
            "enter": ("act", self.act),
            "h": ("hint", self.ask_for_hint),
            "q": ("quit", self.leave),
            "p": ("", partial(self.select_kind, PEEK)),
            "t": ("", partial(self.select_kind, TAKE)),
            "d": ("", partial(self.select_kind, DISCARD)),
            **{str(slot): ("", partial(self.select_slot, slot)) for slot in range(MAX_SLOTS)},
        }
        self.go_on()

    # --- The course of the game -------------------------------------------------------------

    def go_on(self) -> None:
        """Let the seat to move decide."""
        self._waited = 0.0
        if self.table.is_persons_turn:
            self.kind, self.slot = self.legal()[0]
        elif not self.table.is_over:
            self.work_beside(self.table.choose, self.decide)
        self.view = view_of_replay(self.table.replay(self.seat))
        self.answer("")

    def work_beside(self, work: Callable[[], int], then: Callable[[int], None]) -> None:
        """Work in a thread, so that the screen stays alive; a later tick passes on the result.

        The thread is a daemon: leaving does not wait for an agent that thinks.
        """
        threading.Thread(
            target=lambda: self._results.put(partial(then, work())), daemon=True
        ).start()

    def tick(self, seconds: float) -> None:
        """Take the results of threads, and carry out a move when the last one has been seen."""
        self._waited += seconds
        while not self._results.empty():
            self._results.get()()
        if self._decided is not None and self._waited >= self.delay:
            action, self._decided = self._decided, None
            self.carry_out(action)

    def decide(self, action: int) -> None:
        """An agent has decided."""
        self._decided = action

    def carry_out(self, action: int) -> None:
        """Let the seat to move act."""
        self.table.act(action)
        self.go_on()

    def show_hint(self, position: int, action: int) -> None:
        """Select what the search agent would do, if the game is still where it was asked."""
        if len(self.table.replay()) == position:
            self.kind, self.slot = decode_action(action)
            self.answer(f"hint: {describe_action(action)}")

    # --- What is shown ----------------------------------------------------------------------

    def answer(self, note: str) -> None:
        """Bring the screen up to date, with an answer to the last key or click."""
        table = self.table
        self.note, self.is_stale, self.chosen, self.buttons = note, True, None, ()
        if table.is_persons_turn:
            self.chosen, self.buttons = self.slot, (("hint", self.ask_for_hint),)
            for kind in self.legal_kinds():
                act = partial(self.carry_out, encode_action(kind, self.slot))
                self.buttons += ((KINDS[kind], act),)
        elif table.is_over:
            self.buttons = (("close", self.leave),)

    def prompt(self, has_mouse: bool) -> str:
        """What may be done now, and the answer to the last key or click."""
        if self.table.is_over:
            text = describe_end(self.view) + ("" if has_mouse else ". Press q to quit.")
        elif not self.table.is_persons_turn:
            text = f"{self.table.names[self.table.mover]} is thinking"
        elif has_mouse and self.kind == PEEK:
            text = "no match: click a card to peek at it"
        elif has_mouse:
            text = f"a match: take or discard slot {self.slot}, or click another matching card"
        else:
            kinds = "" if self.kind == PEEK else "; up, down: take or discard"
            slots = ", ".join(map(str, self.legal_slots()))
            text = f"Enter: {describe_action(self.action)}   (slots: {slots}{kinds})"
        return self.note or text if has_mouse else f"{text}\n{self.note}"

    # --- Keys and clicks --------------------------------------------------------------------

    @property
    def action(self) -> int:
        """The selected action."""
        return encode_action(self.kind, self.slot)

    def legal(self) -> list[tuple[int, int]]:
        """The kind and the slot of each legal action."""
        return [decode_action(int(action)) for action in np.flatnonzero(self.table.mask)]

    def legal_kinds(self) -> list[int]:
        """The kinds of action that are legal now."""
        return sorted({kind for kind, _ in self.legal()})

    def legal_slots(self) -> list[int]:
        """The slots at which the person may act."""
        return sorted({slot for _, slot in self.legal()})

    def press(self, key: str) -> None:
        """A key was pressed: those of the game make sense in the person's turn alone."""
        if key == "q" or self.table.is_persons_turn:
            self._is_leaving &= key == "q"
            super().press(key)
        elif key in self.keys:
            self._is_leaving = False
            self.answer("the game is over" if self.table.is_over else "it is not your turn yet")

    def click(self, slot: int) -> None:
        """Select a card, or peek at it where that is what may be done."""
        if self.table.is_persons_turn:
            self.select_slot(slot)
            if self.kind == PEEK and self.slot == slot:
                self.act()

    def move_slot(self, places: int) -> None:
        """Select the next legal slot to the left or right."""
        slots = self.legal_slots()
        self.select_slot(slots[(slots.index(self.slot) + places) % len(slots)])

    def select_slot(self, slot: int) -> None:
        """Select a slot, if it is legal."""
        slots = self.legal_slots()
        if slot in slots:
            self.slot = slot
            self.answer("")
        else:
            self.answer(f"slot {slot} is not legal now; allowed: {', '.join(map(str, slots))}")

    def switch_kind(self) -> None:
        """Select the other kind of action."""
        kinds = self.legal_kinds()
        self.select_kind(kinds[kinds.index(self.kind) - 1])

    def select_kind(self, kind: int) -> None:
        """Select a kind of action, if it is legal."""
        kinds = self.legal_kinds()
        if kind in kinds:
            self.kind = kind
            self.answer("")
        else:
            allowed = ", ".join(KINDS[one] for one in kinds)
            self.answer(f"{KINDS[kind]} is not legal now; allowed: {allowed}")

    def act(self) -> None:
        """Carry out the selected action."""
        self.carry_out(self.action)

    def ask_for_hint(self) -> None:
        """Ask the search agent what it would do, by what the person knows."""
        self.answer(THINKING)
        hint = partial(self.table.choose, SearchAgent(playouts=HINT_PLAYOUTS))
        self.work_beside(hint, partial(self.show_hint, len(self.table.replay())))

    def leave(self) -> None:
        """Leave, after a second press of the key while the game goes on."""
        if self.table.is_over or self._is_leaving:
            super().leave()
        else:
            self.answer("press q again to leave the game")
            self._is_leaving = True

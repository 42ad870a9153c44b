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
from alles_kaese_env.core.records import CHEESE, MAX_SLOTS, PEEK, TAKE, TRAP
from alles_kaese_env.viewer.session import Session
from alles_kaese_env.viewer.text import describe_end, rules_in_short, slots_in_words
from alles_kaese_env.viewer.view import View, view_of_replay

HINT_PLAYOUTS = 400  # for each legal action
THINKING = "the search agent is thinking (its first hint ever compiles for a minute or two)"
LEAVING = ("q", "escape")
HELP = (
    "Left, right or the number of a slot: choose a card. Up, down, or p, t, d: peek, take, "
    "discard. Enter: act. h: a hint. n: a new game after this one. q or Esc, twice: quit. Any key "
    "closes this help."
)


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
        self.help = HELP, *rules_in_short(table.variant)
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
            "n": ("new game", self.play_again),
            **self.common_keys(),
            **{name[0]: ("", partial(self.select, kind=kind)) for kind, name in KINDS.items()},
            **{str(slot): ("", partial(self.select, slot=slot)) for slot in range(MAX_SLOTS)},
        }
        self.go_on()

    # --- The course of the game -------------------------------------------------------------

    def go_on(self) -> None:
        """Let the seat to move decide."""
        self._waited = 0.0
        self.view = view_of_replay(self.table.replay(self.seat))
        if self.table.is_persons_turn:
            self.kind, self.slot = self.first_choice()
        elif not self.table.is_over:
            self.work_beside(self.table.choose, self.decide)
        self.answer("")

    def first_choice(self) -> tuple[int, int]:
        """What is selected to begin with: the first legal action that is of some use.

        A card that the person knows is not peeked at, and no trap is taken: if all that match
        are known as traps, to discard is selected.
        """
        kinds, slots = self.legal()
        wrong = (CHEESE, TRAP) if kinds[0] == PEEK else (TRAP,)
        safe = [slot for slot in slots if self.view.front[slot] not in wrong]
        return (kinds[0], safe[0]) if safe else (kinds[-1], slots[0])

    def play_again(self) -> None:
        """Deal anew, when the game is over."""
        if self.table.is_over:
            self.table.deal()
            self.go_on()
        else:
            self.answer("the game is not over yet")

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

    def show_hint(self, view: View, action: int) -> None:
        """Select what the search agent would do, if the game is still where it was asked."""
        if self.view is view:
            self.select(*decode_action(action))
            self.answer(f"hint: {describe_action(action)}")

    # --- What is shown ----------------------------------------------------------------------

    def answer(self, note: str) -> None:
        """Bring the screen up to date, with an answer to the last key or click."""
        table = self.table
        self.note, self.is_stale, self.chosen, self.buttons = note, True, None, ()
        if table.is_persons_turn:
            self.chosen, self.buttons = self.slot, (("hint", self.ask_for_hint),)
            for kind in self.legal()[0]:
                act = partial(self.carry_out, encode_action(kind, self.slot))
                self.buttons += ((KINDS[kind], act),)
        elif table.is_over:
            self.buttons = (("new game", self.play_again), ("close", self.leave))

    def prompt(self, has_mouse: bool) -> str:
        """What may be done now, and the answer to the last key or click."""
        if self.table.is_over:
            text = describe_end(self.view)
            text += "" if has_mouse else ". Press n for a new game, q to quit."
        elif not self.table.is_persons_turn:
            text = f"{self.table.names[self.table.mover]} is thinking"
        elif has_mouse and self.kind == PEEK:
            text = f"no match: click a card to peek at it (Enter: slot {self.slot})"
        elif has_mouse:
            text = f"click a matching card (Enter: {describe_action(self.action)}; F1: help)"
        else:
            kinds = "" if self.kind == PEEK else "; up, down: take or discard"
            slots = slots_in_words(self.legal()[1])
            text = f"Enter: {describe_action(self.action)}   ({slots}{kinds})"
        return self.note or text if has_mouse else f"{text}\n{self.note}"

    # --- Keys and clicks --------------------------------------------------------------------

    @property
    def action(self) -> int:
        """The selected action."""
        return encode_action(self.kind, self.slot)

    def legal(self) -> tuple[list[int], list[int]]:
        """The kinds and the slots that are legal now; each kind is legal at each slot (T2, T5)."""
        kinds, slots = divmod(np.flatnonzero(self.table.mask), MAX_SLOTS)
        return np.unique(kinds).tolist(), np.unique(slots).tolist()

    def press(self, key: str) -> None:
        """A key was pressed: those of the game make sense in the person's turn alone."""
        is_common = key in ("n", *self.common_keys())
        if is_common or self.is_help_shown or self.table.is_persons_turn:
            self._is_leaving &= key in LEAVING
            super().press(key)
        elif key in self.keys:
            self._is_leaving = False
            self.answer("the game is over" if self.table.is_over else "it is not your turn yet")

    def click(self, slot: int) -> None:
        """Select a card, or peek at it where that is what may be done."""
        if self.table.is_persons_turn:
            self.select(slot=slot)
            if self.kind == PEEK and self.slot == slot:
                self.act()

    def select(self, kind: int | None = None, slot: int | None = None) -> None:
        """Select another kind or slot, if that is legal."""
        kind = self.kind if kind is None else kind
        slot = self.slot if slot is None else slot
        action = encode_action(kind, slot)
        if self.table.mask[action]:
            self.kind, self.slot = kind, slot
            self.answer("")
        else:
            kinds, slots = self.legal()
            allowed = f"{' or '.join(KINDS[one] for one in kinds)} {slots_in_words(slots)}"
            self.answer(f"{describe_action(action)} is not legal now; allowed: {allowed}")

    def move_slot(self, places: int) -> None:
        """Select the next legal slot to the left or right."""
        _, slots = self.legal()
        self.select(slot=slots[(slots.index(self.slot) + places) % len(slots)])

    def switch_kind(self) -> None:
        """Select the other kind of action."""
        kinds, _ = self.legal()
        self.select(kind=kinds[kinds.index(self.kind) - 1])

    def act(self) -> None:
        """Carry out the selected action."""
        self.carry_out(self.action)

    def ask_for_hint(self) -> None:
        """Ask the search agent what it would do, by what the person knows."""
        self.answer(THINKING)
        searcher = SearchAgent(playouts=HINT_PLAYOUTS, variant=self.table.variant)
        hint = partial(self.table.choose, searcher)
        self.work_beside(hint, partial(self.show_hint, self.view))

    def leave(self) -> None:
        """Leave, after a second press of the key while the game goes on."""
        if self.table.is_over or self._is_leaving:
            super().leave()
        else:
            self.answer("press q again to leave the game")
            self._is_leaving = True

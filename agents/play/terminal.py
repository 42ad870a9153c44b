"""A game against agents in the terminal.

Needs the extra ``play``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ClassVar

import numpy as np
from textual.binding import Binding, BindingType

from agents.play.table import HINT_PLAYOUTS, Table
from agents.search.agent import SearchAgent
from alles_kaese_env.actions import KINDS, decode_action, describe_action, encode_action
from alles_kaese_env.core.records import DISCARD, PEEK, TAKE
from alles_kaese_env.viewer.terminal import GameApp
from alles_kaese_env.viewer.view import view_of_replay
from alles_kaese_env.viewer.words import describe_end

SHORTEST = 0.01  # seconds that a timer can be set to


def play_in_terminal(table: Table, delay: float) -> int:
    """Let the person play to the end or until it leaves; returns the exit code."""
    app = PlayApp(table, delay)
    app.run()
    return app.return_code or 0


class PlayApp(GameApp):
    """A game of one person.

    Args:
        table: with a person at it.
        delay: seconds for which a move of an opponent is shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "slot(-1)", "slot"),
        Binding("right", "slot(1)", "slot"),
        Binding("up,down", "kind", "take/discard"),
        Binding("enter", "act", "act"),
        Binding("h", "hint", "hint"),
        Binding("q", "leave", "leave"),
        *(Binding(str(slot), f"slot_number({slot})", show=False) for slot in range(6)),
        Binding("p", f"kind({PEEK})", show=False),
        Binding("t", f"kind({TAKE})", show=False),
        Binding("d", f"kind({DISCARD})", show=False),
    ]

    def __init__(self, table: Table, delay: float) -> None:
        super().__init__()
        self.table = table
        self.delay = delay
        self.kind, self.slot = TAKE, 0  # what the person is about to do
        self.note = ""  # an answer to the last key
        self.is_leaving = False  # one more q and it leaves

    def on_mount(self) -> None:
        """Begin."""
        self.go_on()

    # --- The course of the game -------------------------------------------------------------

    def go_on(self) -> None:
        """Let whose turn it is decide."""
        if self.table.is_persons_turn:
            self.kind, self.slot = decode_action(int(np.flatnonzero(self.table.mask)[0]))
        self.show()
        if not self.table.is_over and not self.table.is_persons_turn:
            self.work_beside(self.table.choose, self.carry_out_later)

    def work_beside(self, work: Callable[[], int], then: Callable[[int], None]) -> None:
        """Work in a thread, so that the screen stays alive, then go on with the result.

        The thread is a daemon: leaving does not wait for an agent that thinks.
        """

        def run() -> None:
            action = work()
            with suppress(RuntimeError):  # the person has left meanwhile
                self.call_from_thread(then, action)

        threading.Thread(target=run, daemon=True).start()

    def carry_out_later(self, action: int) -> None:
        """Do what an agent decided, when its move before has been seen."""
        self.set_timer(max(self.delay, SHORTEST), partial(self.carry_out, action))

    def carry_out(self, action: int) -> None:
        """Do what was decided."""
        self.note = ""
        self.table.act(action)
        self.go_on()

    # --- The screen -------------------------------------------------------------------------

    def show(self) -> None:
        """Bring the screen up to date."""
        seat = self.table.seat
        assert seat is not None, "there is a person"
        view = view_of_replay(self.table.replay(seat))
        title = f"you are seat {seat}; what you peeked at stays shown to you"
        chosen = [self.slot] if self.table.is_persons_turn else []
        self.show_view(view, title, self.prompt(describe_end(view)), chosen)

    def prompt(self, end: str) -> str:
        """What may be done now, and the answer to the last key."""
        if self.table.is_over:
            text = f"{end}. Press q to leave."
        elif self.table.is_persons_turn:
            slots = ", ".join(str(slot) for slot in self.legal_slots())
            text = f"Enter: {describe_action(self.action)}   (slots: {slots}"
            text += "; up, down: take or discard)" if self.kind != PEEK else ")"
        else:
            text = f"{self.table.names[self.table.mover]} is thinking"
        return f"{text}\n{self.note}"

    def answer(self, note: str) -> None:
        """Show an answer to a key."""
        self.note = note
        self.show()

    # --- Keys -------------------------------------------------------------------------------

    @property
    def action(self) -> int:
        """What Enter does."""
        return encode_action(self.kind, self.slot)

    def legal_slots(self) -> list[int]:
        """The slots at which the person may act."""
        return sorted({decode_action(int(action))[1] for action in np.flatnonzero(self.table.mask)})

    def is_asked(self) -> bool:
        """Whether a key of the game makes sense; says so if it does not."""
        self.is_leaving = False
        if not self.table.is_persons_turn:
            self.answer("the game is over" if self.table.is_over else "it is not your turn yet")
        return self.table.is_persons_turn

    def action_slot(self, places: int) -> None:
        """The next legal slot to the left or right."""
        if self.is_asked():
            slots = self.legal_slots()
            self.slot = slots[(slots.index(self.slot) + places) % len(slots)]
            self.answer("")

    def action_slot_number(self, slot: int) -> None:
        """This slot, if it is legal."""
        if self.is_asked():
            if slot in self.legal_slots():
                self.slot = slot
                self.answer("")
            else:
                allowed = ", ".join(str(one) for one in self.legal_slots())
                self.answer(f"slot {slot} is not legal now; allowed: {allowed}")

    def action_kind(self, kind: int | None = None) -> None:
        """This kind of action, or the other one."""
        if self.is_asked():
            kinds = sorted({decode_action(int(a))[0] for a in np.flatnonzero(self.table.mask)})
            wanted = kinds[kinds.index(self.kind) - 1] if kind is None else kind
            if wanted in kinds:
                self.kind = wanted
                self.answer("")
            else:
                allowed = ", ".join(KINDS[one] for one in kinds)
                self.answer(f"{KINDS[wanted]} is not legal now; allowed: {allowed}")

    def action_act(self) -> None:
        """Do what is chosen."""
        if self.is_asked():
            self.carry_out(self.action)

    def action_hint(self) -> None:
        """Ask the search agent what it would do, by what the person knows."""
        if self.is_asked():
            self.answer("the search agent is thinking (the first time some seconds)")
            agent, position = SearchAgent(playouts=HINT_PLAYOUTS), len(self.table.replay())
            self.work_beside(partial(self.table.hint, agent), partial(self.show_hint, position))

    def show_hint(self, position: int, action: int) -> None:
        """Choose what the search agent would do, if it is still about that turn."""
        if len(self.table.replay()) == position:
            self.kind, self.slot = decode_action(action)
            self.answer(f"hint: {describe_action(action)}")

    def action_leave(self) -> None:
        """Leave after a second press while the game goes on."""
        if self.table.is_over or self.is_leaving:
            self.exit()
            return
        self.answer("press q again to leave the game")
        self.is_leaving = True

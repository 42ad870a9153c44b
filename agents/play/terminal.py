"""A game against agents in the terminal.

Needs the extra ``play``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from textual.binding import Binding, BindingType

from agents.play.table import Table
from agents.play.turns import Turns
from alles_kaese_env.actions import KINDS, decode_action, describe_action, encode_action
from alles_kaese_env.core.records import DISCARD, PEEK, TAKE
from alles_kaese_env.viewer.terminal import GameApp
from alles_kaese_env.viewer.words import describe_end

SHORTEST = 0.01  # seconds that a timer can be set to


def play_in_terminal(table: Table, delay: float) -> int:
    """Let the person play to the end or until they leave; returns the exit code."""
    app = PlayApp(table, delay)
    app.run()
    return app.return_code or 0


class PlayApp(Turns, GameApp):
    """A game of one person; arguments as in `Turns`."""

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
        self.join(table, delay)
        self.kind, self.slot = TAKE, 0  # what the person is about to do
        self.note = ""  # an answer to the last key
        self.is_leaving = False  # one more q and it leaves

    def on_mount(self) -> None:
        """Begin."""
        self.go_on()

    # --- The course of the game -------------------------------------------------------------

    def begin_turn(self) -> None:
        """Show the game, with the first legal action chosen."""
        if self.table.is_persons_turn:
            self.kind, self.slot = self.legal()[0]
        self.answer("")

    def resume(self, do: Callable[[], None]) -> None:
        """Do something in the event loop."""
        with suppress(RuntimeError):  # the person has left meanwhile
            self.call_from_thread(do)

    def do_after_delay(self, do: Callable[[], None]) -> None:
        """Do something when the last move has been seen."""
        self.set_timer(max(self.delay, SHORTEST), do)

    # --- The screen -------------------------------------------------------------------------

    def answer(self, note: str) -> None:
        """Bring the screen up to date, with an answer to the last key."""
        self.note = note
        view = self.view_now()
        title = f"you are seat {self.seat}; what you peeked at stays shown to you"
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
            text = self.waiting()
        return f"{text}\n{self.note}"

    # --- Keys -------------------------------------------------------------------------------

    @property
    def action(self) -> int:
        """What Enter does."""
        return encode_action(self.kind, self.slot)

    def select(self, action: int) -> None:
        """Choose an action."""
        self.kind, self.slot = decode_action(action)

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
            kinds = self.legal_kinds()
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
            self.ask_for_hint()

    def action_leave(self) -> None:
        """Leave after a second press while the game goes on."""
        if self.table.is_over or self.is_leaving:
            self.exit()
            return
        self.answer("press q again to leave the game")
        self.is_leaving = True

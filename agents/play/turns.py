"""The course of a game that a person plays, the same in the terminal and in the window."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np

from agents.play.table import Table
from agents.search.agent import SearchAgent
from alles_kaese_env.actions import decode_action, describe_action
from alles_kaese_env.viewer.view import View, view_of_replay

HINT_PLAYOUTS = 400  # for each legal action
THINKING = "the search agent is thinking (the first time some seconds)"


class Turns:
    """Let the person and the agents of a table act in turn.

    A subclass shows the game and has an event loop.

    Args:
        table: with a person at it.
        delay: seconds for which a move of an opponent is shown.
    """

    def join(self, table: Table, delay: float) -> None:
        """Sit down at a table."""
        assert table.seat is not None, "there is a person"
        self.table, self.delay, self.seat = table, delay, table.seat

    # --- What a subclass provides -----------------------------------------------------------

    def begin_turn(self) -> None:
        """Show the game at the beginning of a turn, or at its end."""
        raise NotImplementedError

    def answer(self, note: str) -> None:
        """Show an answer to what the person has just done."""
        raise NotImplementedError

    def select(self, action: int) -> None:
        """Make an action the one that the person is about to do."""
        raise NotImplementedError

    def resume(self, do: Callable[[], None]) -> None:
        """Do something in the event loop; called from another thread."""
        raise NotImplementedError

    def do_after_delay(self, do: Callable[[], None]) -> None:
        """Do something when the last move has been seen."""
        raise NotImplementedError

    # --- The course of the game -------------------------------------------------------------

    def go_on(self) -> None:
        """Let whose turn it is decide."""
        self.begin_turn()
        if not self.table.is_over and not self.table.is_persons_turn:
            self.work_beside(self.table.choose, self.carry_out_later)

    def work_beside(self, work: Callable[[], int], then: Callable[[int], None]) -> None:
        """Work in a thread, so that the screen stays alive, then go on with the result.

        The thread is a daemon: leaving does not wait for an agent that thinks.
        """
        threading.Thread(target=lambda: self.resume(partial(then, work())), daemon=True).start()

    def carry_out_later(self, action: int) -> None:
        """Do what an agent decided, when the move before it has been seen."""
        self.do_after_delay(partial(self.carry_out, action))

    def carry_out(self, action: int) -> None:
        """Do what was decided."""
        self.table.act(action)
        self.go_on()

    def ask_for_hint(self) -> None:
        """Ask the search agent what it would do, by what the person knows."""
        self.answer(THINKING)
        hint = partial(self.table.hint, SearchAgent(playouts=HINT_PLAYOUTS))
        self.work_beside(hint, partial(self.show_hint, len(self.table.replay())))

    def show_hint(self, position: int, action: int) -> None:
        """Choose what the search agent would do, if it is still about that turn."""
        if len(self.table.replay()) == position:
            self.select(action)
            self.answer(f"hint: {describe_action(action)}")

    # --- What the person sees and may do ----------------------------------------------------

    def view_now(self) -> View:
        """The game as the person knows it."""
        return view_of_replay(self.table.replay(self.seat))

    def waiting(self) -> str:
        """Whose decision the person waits for."""
        return f"{self.table.names[self.table.mover]} is thinking"

    def legal(self) -> list[tuple[int, int]]:
        """The kind and the slot of each legal action."""
        return [decode_action(int(action)) for action in np.flatnonzero(self.table.mask)]

    def legal_kinds(self) -> list[int]:
        """The kinds of action that are legal now."""
        return sorted({kind for kind, _ in self.legal()})

    def legal_slots(self) -> list[int]:
        """The slots at which the person may act."""
        return sorted({slot for _, slot in self.legal()})

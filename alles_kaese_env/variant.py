"""The variant: every rule that can differ, as data (clause V of the rule book)."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.records import (
    BURN_NEVER,
    BURN_PEEK,
    BURN_TURN,
    MAX_COPIES,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    RULES,
)

BURN_RULES = {"peek": BURN_PEEK, "turn": BURN_TURN, "never": BURN_NEVER}
BYTE_PLACES = 256 ** np.arange(MAX_HOLES, dtype=np.int64)  # in a word of bytes


def whole_number(field: str, value: Any, low: int, high: int) -> int:
    """`value` as an int from low to high; `ValueError` names the field, the value, the range."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, (bool, np.bool_)) or not low <= number <= high:
        raise ValueError(f"{field} is {value!r}; allowed: a whole number from {low} to {high}")
    return number


def one_of(field: str, value: Any, allowed: Any) -> Any:
    """`value`, if it is one of the allowed; `ValueError` names the field, the value, the choice."""
    if not isinstance(value, str) or value not in allowed:
        choice = ", ".join(repr(name) for name in allowed)
        raise ValueError(f"{field} is {value!r}; allowed: {choice}")
    return value


def _whole_numbers(field: str, values: Any, low: int, high: int) -> tuple[int, ...]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise ValueError(f"{field} is {values!r}; allowed: a sequence, one number a hole count")
    return tuple(whole_number(f"{field}[{k}]", v, low, high) for k, v in enumerate(values))


@dataclass(frozen=True)
class Variant:
    """The rules that a game is played by.

    Attributes:
        num_players: seats, 2 to 6.
        traps: how many of the cards of 1, 2, ... holes are traps (C2). Its length is the number
            of hole counts, 2 to 6, and so the number of sides of the die (V).
        copies: how many cards there are of 1, 2, ... holes (C1), 1 to 12 each; six of each if
            not given.
        row_size: slots in the row (S1), 1 to 6.
        trap_limit: the trap that loses (E1), 1 or more.
        burn: "peek" (T4: with 2 or 3 players a peek burns a card), "turn" (the end of every turn
            burns one, whatever the number of players) or "never".

    Raises:
        ValueError: a field is not what is allowed; the message names field, value and choice.
    """

    num_players: int = 2
    traps: tuple[int, ...] = (2, 2, 3, 3, 4, 4)
    copies: tuple[int, ...] | None = None
    row_size: int = 6
    trap_limit: int = 3
    burn: str = "peek"

    def __post_init__(self) -> None:
        traps = _whole_numbers("traps", self.traps, 0, MAX_COPIES)
        if not 2 <= len(traps) <= MAX_HOLES:
            raise ValueError(
                f"traps has {len(traps)} entries ({self.traps!r}); "
                f"allowed: 2 to {MAX_HOLES}, one for each hole count"
            )
        copies = (6,) * len(traps) if self.copies is None else self.copies
        copies = _whole_numbers("copies", copies, 1, MAX_COPIES)
        if len(copies) != len(traps):
            raise ValueError(
                f"copies has {len(copies)} entries ({self.copies!r}); "
                f"allowed: {len(traps)}, as many as traps"
            )
        for holes, (some, every) in enumerate(zip(traps, copies, strict=True), start=1):
            if some > every:
                raise ValueError(
                    f"traps[{holes - 1}] is {some}; allowed: at most copies[{holes - 1}] = {every}"
                )
        if sum(traps) == sum(copies):
            raise ValueError(f"traps is {traps}; allowed: at least one card that is cheese")
        most = min(MAX_SLOTS, sum(copies) - 1)
        checked = {
            "num_players": whole_number("num_players", self.num_players, 2, MAX_PLAYERS),
            "traps": traps,
            "copies": copies,
            "row_size": whole_number("row_size", self.row_size, 1, most),
            "trap_limit": whole_number("trap_limit", self.trap_limit, 1, sum(copies)),
            "burn": one_of("burn", self.burn, BURN_RULES),
        }
        for field, value in checked.items():
            object.__setattr__(self, field, value)

    def __getstate__(self) -> dict[str, Any]:
        """Without ``rules``, which a copy makes anew: copied, they could be written into."""
        return {name: value for name, value in self.__dict__.items() if name != "rules"}

    @classmethod
    def named(cls, name: str, **fields: Any) -> Variant:
        """A variant of `VARIANTS`, with other values of the fields that are given.

        Raises:
            ValueError: there is none of that name, or a field is not what is allowed.
        """
        return replace(VARIANTS[one_of("variant", name, VARIANTS)], **fields)

    @property
    def num_holes(self) -> int:
        """Hole counts, and so sides of the die."""
        return len(self.traps)

    @property
    def deck(self) -> list[tuple[int, bool]]:
        """All cards as (holes, is_trap), unshuffled."""
        assert self.copies is not None
        return [
            (holes, number < traps)
            for holes, (traps, copies) in enumerate(zip(self.traps, self.copies, strict=True), 1)
            for number in range(copies)
        ]

    @cached_property
    def rules(self) -> npt.NDArray[np.void]:
        """The variant as the core reads it: a read-only array (1,) of `RULES`."""
        rules = np.zeros(1, RULES)
        cheese = [holes for holes, is_trap in self.deck if not is_trap]
        fronts = np.zeros((2, MAX_HOLES))
        for holes, is_trap in self.deck:
            fronts[int(is_trap), holes - 1] += 1
        copies = fronts.sum(axis=0)
        rules["num_players"] = self.num_players
        rules["num_holes"] = self.num_holes
        rules["row_size"] = self.row_size
        rules["trap_limit"] = self.trap_limit
        rules["burn"] = BURN_RULES[self.burn]
        rules["num_cards"] = len(self.deck)
        rules["copies"] = copies
        rules["fronts"] = fronts.ravel()
        rules["cheese_word"], rules["traps_word"] = fronts.astype(np.int64) @ BYTE_PLACES
        rules["per_copy"] = np.divide(1, copies, where=copies > 0, out=0 * copies)
        rules["per_card"] = 1 / len(self.deck)
        rules["per_trap"] = 1 / self.trap_limit
        rules["per_point"] = 1 / sum(cheese)
        rules["per_cheese"] = 1 / len(cheese)
        rules.flags.writeable = False
        return rules


# Beside the game itself a ladder of solved variants, named by their numbers of states; the values
# of these games stand in ``docs/solved.md``.
VARIANTS = {
    "full": Variant(),
    "477": Variant(traps=(1, 1), copies=(2, 2), row_size=2, trap_limit=1),
    "50k": Variant(traps=(1, 1), copies=(3, 3), row_size=2, trap_limit=1),
    "98k": Variant(traps=(1, 1), copies=(3, 3), row_size=2, trap_limit=2),
    "283k": Variant(traps=(1, 1, 1), copies=(2, 2, 2), row_size=3, trap_limit=2),
    "10m": Variant(traps=(2, 2), copies=(4, 4), row_size=3, trap_limit=2),
    "17m": Variant(traps=(2, 2), copies=(4, 4), row_size=2, trap_limit=2),
    "187m": Variant(traps=(1, 1, 1), copies=(3, 3, 3), row_size=5, trap_limit=2),
    "1b": Variant(traps=(2, 2), copies=(5, 5), row_size=4, trap_limit=2),
    "33b": Variant(traps=(2, 2), copies=(6, 6), row_size=6, trap_limit=2),
}

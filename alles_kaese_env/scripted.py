"""Scripted deals: chance outcomes from a stacked deck and a list of dice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from alles_kaese_env.actions import decode_action
from alles_kaese_env.core.records import CARD, DIE, PEEK
from alles_kaese_env.variant import Variant, whole_number


class ScriptedDeal:
    """The physical cards of one game in the order in which they are dealt, and its dice.

    The rules draw a back when it becomes visible and a front when somebody looks at it; this class
    answers with the cards as they lie. It keeps track of which card came into which slot.

    Args:
        variant: the rules of the game.
        deck: (holes, is_trap) of every card: the slots of the row first, then the reserve from
            top to bottom; None for backs and fronts by chance.
        dice: the numbers of the first rolls; later ones are rolled.

    Raises:
        ValueError: deck or dice do not fit the variant.
    """

    def __init__(
        self,
        variant: Variant,
        deck: Sequence[tuple[int, bool]] | None = None,
        dice: Sequence[int] = (),
    ) -> None:
        self._deck = None if deck is None else checked_deck(variant, deck)
        self._dice = checked_dice(variant, dice)
        self._slots = list(range(variant.row_size))  # the number of the card in each slot
        self._dealt = 0
        self._rolled = 0
        self._turns = 0

    @classmethod
    def from_options(
        cls, variant: Variant, options: Mapping[str, Any] | None, ignored: Sequence[str] = ()
    ) -> ScriptedDeal | None:
        """The deal that `reset(options={"deck": ..., "dice": ...})` asks for, None if for none.

        Options named in ``ignored`` mean nothing; `ValueError` for any other.
        """
        given = {name: value for name, value in (options or {}).items() if name not in ignored}
        for name in given:
            if name not in ("deck", "dice"):
                raise ValueError(f"options has {name!r}; allowed: 'deck', 'dice'")
        return cls(variant, **given) if given else None

    def outcome(self, game: np.record) -> int:
        """The outcome of the present chance phase, -1 where it is left to chance."""
        if game.phase == DIE:
            self._rolled += 1
            return self._dice[self._rolled - 1] - 1 if self._rolled <= len(self._dice) else -1
        if self._deck is None:
            return -1
        if game.phase == CARD:
            self._follow_refill(game)
            self._dealt += 1
            return self._deck[self._dealt - 1][0] - 1
        _, slot = decode_action(int(game.action))
        return int(self._deck[self._slots[slot]][1])

    def _follow_refill(self, game: np.record) -> None:
        """T6: after a turn that took or discarded, the last card dealt lies in that slot.

        A refill makes the next back visible, so this is seen before anybody acts again.
        """
        if game.turns == self._turns:
            return
        self._turns = int(game.turns)
        kind, slot = decode_action(int(game.action))
        if kind != PEEK:
            self._slots[slot] = self._dealt - 1


def checked_deck(variant: Variant, deck: Any) -> list[tuple[int, bool]]:
    """The deck as (int, bool) pairs; `ValueError` unless it holds the cards of the variant."""
    try:
        pairs = [(holes, is_trap) for holes, is_trap in deck]
    except (TypeError, ValueError):
        raise ValueError(f"deck is {deck!r}; allowed: a list of (holes, is_trap)") from None
    cards = []
    for k, (holes, is_trap) in enumerate(pairs):
        is_whole = isinstance(is_trap, (bool, np.bool_, int, np.integer))
        if not is_whole or is_trap not in (0, 1):
            raise ValueError(f"deck[{k}][1] is {is_trap!r}; allowed: True, False")
        cards.append((whole_number(f"deck[{k}][0]", holes, 1, variant.num_holes), bool(is_trap)))
    if len(cards) != len(variant.deck):
        raise ValueError(f"deck has {len(cards)} cards; allowed: {len(variant.deck)}")
    given, allowed = Counter(cards), Counter(variant.deck)
    for holes, is_trap in sorted(given | allowed):
        some, wanted = given[holes, is_trap], allowed[holes, is_trap]
        if some != wanted:
            kind = "traps" if is_trap else "cheese cards"
            raise ValueError(f"deck has {some} {kind} of {holes} holes; allowed: {wanted}")
    return cards


def checked_dice(variant: Variant, dice: Any) -> list[int]:
    """The dice as ints; `ValueError` if the die of the variant has no such numbers."""
    if isinstance(dice, str) or not hasattr(dice, "__iter__"):
        raise ValueError(f"dice is {dice!r}; allowed: a list of numbers")
    return [whole_number(f"dice[{k}]", one, 1, variant.num_holes) for k, one in enumerate(dice)]

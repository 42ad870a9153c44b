"""The 18 actions: a kind (peek, take, discard) and a slot."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.records import DISCARD, MAX_SLOTS, NUM_ACTIONS, PEEK, TAKE
from alles_kaese_env.variant import whole_number

KINDS = {PEEK: "peek", TAKE: "take", DISCARD: "discard"}


def encode_action(kind: int, slot: int) -> int:
    """The action that is this kind (PEEK, TAKE, DISCARD) at this slot (0 to 5).

    Raises:
        ValueError: kind or slot is out of range.
    """
    kind = whole_number("kind", kind, PEEK, DISCARD)
    return kind * MAX_SLOTS + whole_number("slot", slot, 0, MAX_SLOTS - 1)


def decode_action(action: int) -> tuple[int, int]:
    """(kind, slot) of an action from 0 to 17.

    Raises:
        ValueError: the action is out of range.
    """
    return divmod(as_action(action), MAX_SLOTS)


def describe_action(action: int) -> str:
    """An action in words, such as "take slot 3"; slots are counted from 0."""
    kind, slot = decode_action(action)
    return f"{KINDS[kind]} slot {slot}"


def as_action(action: Any) -> int:
    """An action as an int, from any integer, or an array or a tensor of one; else `ValueError`."""
    if not isinstance(action, (int, bool, str)) and getattr(action, "size", 0) != 0:
        array = np.asarray(action)
        action = array.item() if array.size == 1 else action
    return whole_number("action", action, 0, NUM_ACTIONS - 1)


def as_actions(actions: Any, number: int) -> npt.NDArray[np.int64]:
    """Actions as an int64 array (number,), each from 0 to 17; else `ValueError`."""
    array = as_whole_numbers(actions, number)
    for k in np.flatnonzero((array < 0) | (array >= NUM_ACTIONS)):
        whole_number(f"actions[{k}]", array[k], 0, NUM_ACTIONS - 1)
    return array


def as_whole_numbers(actions: Any, number: int, whose: str = "") -> npt.NDArray[np.int64]:
    """An int64 array (number,) of whole numbers, whatever they are; else `ValueError`."""
    array = np.asarray(actions)
    if array.shape != (number,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"actions{whose} has shape {array.shape} and type {array.dtype}; "
            f"allowed: shape ({number},) and whole numbers"
        )
    return array.astype(np.int64, copy=False)


def illegal_action(action: int, mask: npt.NDArray[np.bool_], where: str = "") -> ValueError:
    """The error for an action that the mask (18,) of its game forbids."""
    whole_number(f"action{where}", action, 0, NUM_ACTIONS - 1)
    legal = ", ".join(str(number) for number in np.flatnonzero(mask))
    allowed = f"allowed now: {legal}" if legal else "the game is over"
    return ValueError(f"action{where} is {action} ({describe_action(action)}); {allowed}")

"""The observation: one layout for every number of players."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from alles_kaese_env.core import observe
from alles_kaese_env.variant import Variant


@dataclass(frozen=True)
class Field:
    """A named part of the observation.

    Attributes:
        name: its name.
        start: where it begins in the vector.
        shape: of the decoded array; () for a single number.
        axes: what its axes are, such as "slots" or "seats".
        unit: "one-hot", "bits", "share", or the field of `RULES` that counts are multiplied by.
        meaning: in a sentence, with the clause of the rules.
    """

    name: str
    start: int
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    unit: str
    meaning: str

    @property
    def stop(self) -> int:
        """Where the next field begins."""
        return self.start + math.prod(self.shape)

    @property
    def where(self) -> slice:
        """Its place in the vector."""
        return slice(self.start, self.stop)


class Layout:
    """What stands where in an observation: a float32 vector (size,) of numbers in [0, 1].

    It is seen from the observing seat: tables by seat begin with the observer and go on in turn
    order, tables by opponent begin with the next seat. They are padded with zeros to six seats.

    Attributes:
        size: the length of the vector, 253.
        version: changes with the layout.
        fields: the fields in their order.
    """

    size: int = observe.OBSERVATION_SIZE
    version: int = observe.OBSERVATION_VERSION

    def __init__(self) -> None:
        offsets: Any = observe.OBSERVATION_RECORD.fields
        self.fields = tuple(
            Field(name, offsets[name][1] // 4, offsets[name][0].shape, axes, unit, meaning)
            for name, axes, unit, meaning in observe.LAYOUT
        )

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        allowed = ", ".join(field.name for field in self.fields)
        raise KeyError(f"field is {name!r}; allowed: {allowed}")

    def space(self) -> gymnasium.spaces.Box:
        """The Gymnasium space of an observation, a new object."""
        return gymnasium.spaces.Box(0.0, 1.0, (self.size,), np.float32)

    def decode(self, observation: npt.ArrayLike) -> dict[str, npt.NDArray[np.float32]]:
        """The fields of an observation (size,) or of many (..., size), by name.

        Each is a copy, float32, of shape (..., *field.shape).

        Raises:
            ValueError: the last dimension is not the size of an observation.
        """
        vector = self._checked(observation)
        return {
            field.name: vector[..., field.where].reshape(vector.shape[:-1] + field.shape).copy()
            for field in self.fields
        }

    def facts(self, observation: npt.ArrayLike, variant: Variant) -> dict[str, Any]:
        """What one observation (size,) says, in whole numbers and in the words of the rules.

        Keys (N players, H = 6 hole counts, seats from the observer on in turn order):
            row (6,) holes, 0 for none; front (6,) `UNSEEN`, `CHEESE` or `TRAP` as far as the
            observer knows it; opponent_peeks (6, N - 1) bool; die, top: int, 0 for none; reserve:
            cards; match: bool; num_players: int; turn: int, place of the seat to move, None when
            the game is over; gone (H,); known, with rows cheese and traps (2, H); traps, points,
            cheese (N,); taken (N, 2, H); opponent_fronts (N - 1, H); trap_share (H,) and
            trap_probability (6,) float32.

        Raises:
            ValueError: the observation has another shape or was made with other players.
        """
        parts = self.decode(observation)
        if np.ndim(observation) != 1:
            shape = np.shape(observation)
            raise ValueError(f"observation has shape {shape}; allowed: ({self.size},), one of them")
        seats = int(one_hot_index(parts["num_players"])) + 1
        if seats != variant.num_players:
            raise ValueError(
                f"observation is of a game with {seats} players; allowed: {variant.num_players}"
            )
        facts: dict[str, Any] = {}
        lengths = {"seats": seats, "opponents": seats - 1}  # the rest is padding
        for field in self.fields:
            numbers = parts[field.name][tuple(slice(lengths.get(axis)) for axis in field.axes)]
            fact = in_whole_numbers(numbers, field.unit, variant)
            name = "front" if field.name == "own_peeks" else field.name
            facts[name] = fact.item() if fact.ndim == 0 else fact
        facts["num_players"] = seats
        facts["turn"] = facts["turn"] - 1 if facts["turn"] else None
        return facts

    def table(self) -> str:
        """The layout as a Markdown table."""
        lines = ["| field | place | shape | meaning |", "|---|---|---|---|"]
        for field in self.fields:
            place = f"{field.start} to {field.stop - 1}"
            lines.append(f"| `{field.name}` | {place} | {field.shape} | {field.meaning} |")
        return "\n".join(lines)

    def _checked(self, observation: npt.ArrayLike) -> npt.NDArray[np.float32]:
        vector = np.asarray(observation, np.float32)
        if vector.ndim == 0 or vector.shape[-1] != self.size:
            raise ValueError(
                f"observation has shape {vector.shape}; allowed: (..., {self.size}), "
                f"layout version {self.version}"
            )
        return vector


def one_hot_index(bits: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Which place of the last axis is set, counted from 1; 0 if none is."""
    return np.where(bits.any(-1), bits.argmax(-1) + 1, 0)


def in_whole_numbers(
    numbers: npt.NDArray[np.float32], unit: str, variant: Variant
) -> npt.NDArray[Any]:
    """The numbers of a field as indices, bits or counts; a share stays what it is."""
    if unit == observe.ONE_HOT:
        return one_hot_index(numbers)
    if unit == observe.BITS:
        return numbers > 0
    if unit == observe.SHARE:
        return numbers
    scale = variant.rules[0][unit]
    return whole(numbers / np.where(scale > 0, scale, 1))


def whole(numbers: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The nearest whole numbers."""
    return np.rint(numbers).astype(np.int64)


OBSERVATION = Layout()

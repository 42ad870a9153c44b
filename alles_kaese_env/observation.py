"""The observation: one layout for every number of players."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.observe import (
    LAYOUT,
    OBSERVATION_RECORD,
    OBSERVATION_SIZE,
    OBSERVATION_VERSION,
)
from alles_kaese_env.variant import Variant

FIELD_MEANINGS = {
    "row": "holes of the card in each slot, one-hot; all 0 for an empty slot (I1)",
    "own_peeks": "the front in each slot is known to the observer as cheese, as a trap (I2)",
    "die": "face of the die, one-hot; all 0 before the first roll (I1)",
    "match": "1 if a card in the row shows as many holes as the die (T5)",
    "top": "holes on top of the reserve, one-hot; all 0 if no card is visible there (I1)",
    "num_players": "2, 3, 4, 5, 6 players, one-hot",
    "turn": "whose turn it is, by seat, one-hot; all 0 when the game is over (I1)",
    "opponent_peeks": "which opponents peeked at the card in each slot (T3)",
    "trap_share": "probability that a card of 1, 2, ... holes whose front the observer does not "
    "know is a trap (I4); 0 if it knows them all",
    "trap_probability": "the same for the card in each slot; 0 or 1 where the observer knows the "
    "front, 0 for an empty slot (I4)",
    "reserve": "cards in the reserve / all cards (I1)",
    "gone": "cards that left row and reserve, by holes / copies (I1)",
    "known": "fronts that the observer knows, wherever the cards are now: cheese, then traps, by "
    "holes / copies (I1, I2)",
    "traps": "traps taken, by seat / trap limit (I1)",
    "points": "points, by seat / all points of the deck (I1)",
    "cheese": "cheese cards taken, by seat / all cheese cards (I1)",
    "taken": "cards taken, by seat: cheese, then traps, by holes / copies (I1)",
    "opponent_fronts": "how many fronts each opponent knows, by holes, wherever the cards are "
    "now / copies (T3)",
}


@dataclass(frozen=True)
class Field:
    """A named part of the observation.

    Attributes:
        name: its name.
        start: where it begins in the vector.
        shape: of the decoded array; () for a single number.
        meaning: in a sentence, with the clause of the rules.
    """

    name: str
    start: int
    shape: tuple[int, ...]
    meaning: str

    @property
    def stop(self) -> int:
        """Where the next field begins."""
        return self.start + int(np.prod(self.shape))

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

    size: int = OBSERVATION_SIZE
    version: int = OBSERVATION_VERSION

    def __init__(self) -> None:
        offsets = OBSERVATION_RECORD.fields
        assert offsets is not None
        self.fields = tuple(
            Field(name, offsets[name][1] // 4, shape, FIELD_MEANINGS[name])
            for name, shape in LAYOUT
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
        rules = variant.rules[0]
        copies = rules.copies
        turn = int(one_hot_index(parts["turn"]))
        return {
            "row": one_hot_index(parts["row"]),
            "front": one_hot_index(parts["own_peeks"]),
            "opponent_peeks": parts["opponent_peeks"][:, : seats - 1] > 0,
            "die": int(one_hot_index(parts["die"])),
            "match": bool(parts["match"]),
            "top": int(one_hot_index(parts["top"])),
            "reserve": int(whole(parts["reserve"] * rules.num_cards)),
            "num_players": seats,
            "turn": turn - 1 if turn else None,
            "gone": whole(parts["gone"] * copies),
            "known": whole(parts["known"] * copies),
            "traps": whole(parts["traps"][:seats] * variant.trap_limit),
            "points": whole(parts["points"][:seats] / rules.per_point),
            "cheese": whole(parts["cheese"][:seats] / rules.per_cheese),
            "taken": whole(parts["taken"][:seats] * copies),
            "opponent_fronts": whole(parts["opponent_fronts"][: seats - 1] * copies),
            "trap_share": parts["trap_share"],
            "trap_probability": parts["trap_probability"],
        }

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


def whole(numbers: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The nearest whole numbers."""
    return np.rint(numbers).astype(np.int64)


OBSERVATION = Layout()

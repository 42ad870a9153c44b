"""Agents that follow a few rules of thumb."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alles_kaese_env import DISCARD, OBSERVATION, PEEK, TAKE
from alles_kaese_env.engine import MAX_SLOTS

TRAP_LIMIT = 3  # of the default variant, which the thresholds are made for
HOLES = np.arange(1, 7)
DECIMALS = 5  # probabilities are fractions of small numbers; float32 tells them apart up to here


class ReferenceAgent:
    """The reference heuristic of the rule book, to the letter: a fixed yardstick.

    With q the trap probability of a slot (I4; 0 or 1 where the front is known), k the own traps
    and t = 0.7 for k <= 1, 0.1 for more: on a match take the matching slot of the smallest q if
    that q <= t, otherwise discard the one of the greatest q. On no match peek at the slot of the
    greatest holes x q x (1 - q) among those whose front is unknown, at slot 0 if all are known.
    Ties go to the lowest slot.
    """

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64 for observations (B, 253) float32 and masks (B, 18) bool."""
        match = masks[:, TAKE * MAX_SLOTS : DISCARD * MAX_SLOTS]
        trap = field(observations, "trap_probability").astype(np.float64).round(DECIMALS)
        threshold = np.where(own_traps(observations) <= 1, 0.7, 0.1)
        safest = np.where(match, trap, 2.0).argmin(axis=1)
        riskiest = np.where(match, trap, -1.0).argmax(axis=1)
        takes = trap[np.arange(len(trap)), safest] <= threshold
        on_match = np.where(takes, TAKE * MAX_SLOTS + safest, DISCARD * MAX_SLOTS + riskiest)
        peek = PEEK * MAX_SLOTS + most_uncertain(observations, masks, trap)
        return np.where(match.any(axis=1), on_match, peek)


def most_uncertain(
    observations: npt.NDArray[np.float32],
    masks: npt.NDArray[np.bool_],
    trap: npt.NDArray[np.float64],
) -> npt.NDArray[np.int64]:
    """The slot (B,) of the greatest holes x q x (1 - q) among the unknown ones, 0 for none."""
    shape = len(observations), MAX_SLOTS, -1
    holes = field(observations, "row").reshape(shape) @ HOLES
    known = field(observations, "own_peeks").reshape(shape).any(axis=2)
    worth = (holes * trap * (1 - trap)).round(DECIMALS)
    return np.where(masks[:, :MAX_SLOTS] & ~known, worth, -1.0).argmax(axis=1)


def own_traps(observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """How many traps the observer has taken, (B,)."""
    return np.rint(field(observations, "traps")[:, 0] * TRAP_LIMIT)


def field(observations: npt.NDArray[np.float32], name: str) -> npt.NDArray[np.float32]:
    """A field of the observations as a view (B, its size)."""
    return observations[:, OBSERVATION[name].where]

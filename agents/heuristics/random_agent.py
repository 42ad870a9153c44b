"""The agent that knows the rules and nothing else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from alles_kaese_env.agent import checked_batch


class RandomAgent:
    """Each legal action is as likely as the others."""

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64 for observations (B, 253) float32 and masks (B, 18) bool."""
        _, masks = checked_batch(observations, masks)
        return np.where(masks, rng.random(masks.shape), -1.0).argmax(axis=1)

    def probabilities(
        self, observations: npt.NDArray[np.float32], masks: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float64]:
        """Of each action, (B, 18)."""
        _, masks = checked_batch(observations, masks)
        return masks / masks.sum(axis=1, keepdims=True)

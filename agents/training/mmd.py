"""Magnetic mirror descent, on top of MaskablePPO: ``train.py --algo mmd``.

The algorithm of Sokota et al., "A Unified Approach to Reinforcement Learning, Quantal Response
Equilibria, and Two-Player Zero-Sum Games" (ICLR 2023). A step from a policy to the next maximises

    E[advantage] - alpha KL(next, magnet) - KL(next, policy) / eta

The first penalty makes the game one whose equilibrium these steps come to, where steps without it
may go round in circles; as alpha goes to 0, its equilibrium goes to one of the game itself. The
magnet is the uniform policy, so the first penalty is an entropy bonus.

As in Rudolph et al., "Reevaluating Policy Gradient Methods for Imperfect-Information Games" (ICLR
2026), a step is an update of PPO with its clipping, epochs and normalised advantages, and the
learning rate goes linearly to 0. What is different: alpha goes to 0 too, values are not clipped,
nothing is discounted, and one seat of a game learns, against the policy before the rollout.
"""

from __future__ import annotations

from typing import Any

import torch
from sb3_contrib import MaskablePPO

Evaluation = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class MMD(MaskablePPO):
    """`MaskablePPO` with the penalties of magnetic mirror descent.

    Args:
        alpha: weight of the entropy at the beginning.
        kl_coef: 1 / eta, weight of the KL divergence from the policy that played.
        options: of `MaskablePPO`.
    """

    def __init__(self, *args: Any, alpha: float, kl_coef: float, **options: Any) -> None:
        options["ent_coef"] = 1.0  # what counts as entropy has its weights
        super().__init__(*args, **options)
        self.alpha = alpha
        self.kl_coef = kl_coef

    def _setup_model(self) -> None:
        super()._setup_model()
        policy: Any = self.policy
        self._played = type(policy)(**policy._get_constructor_parameters()).to(self.device)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_played"]  # the same as the policy by then

    def train(self) -> None:
        """An update. MaskablePPO asks the policy for an entropy, and gets both penalties."""
        policy: Any = self.policy
        played = self._played
        played.load_state_dict(policy.state_dict())
        alpha = self.alpha * self._current_progress_remaining
        entropies, divergences = [], []

        def evaluate_actions(
            observations: torch.Tensor, actions: torch.Tensor, action_masks: torch.Tensor
        ) -> Evaluation:
            latent, latent_value = policy.mlp_extractor(observations)
            now = policy._get_action_dist_from_latent(latent)
            now.apply_masking(action_masks)
            with torch.no_grad():
                before = played.get_distribution(observations, action_masks)
            entropy = now.entropy()
            divergence = torch.distributions.kl_divergence(now.distribution, before.distribution)
            entropies.append(entropy.mean().item())
            divergences.append(divergence.mean().item())
            bonus = alpha * entropy - self.kl_coef * divergence
            return policy.value_net(latent_value), now.log_prob(actions), bonus

        policy.evaluate_actions = evaluate_actions
        try:
            super().train()
        finally:
            del policy.evaluate_actions
        self.logger.record("train/alpha", alpha)
        self.logger.record("train/entropy", sum(entropies) / len(entropies))
        self.logger.record("train/kl", sum(divergences) / len(divergences))

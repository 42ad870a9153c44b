"""The network that `agents.ppo.agent.SlotBody` plays, as a policy of sb3-contrib to be trained.

The slots of the row are alike, so every slot goes through the same weights (deep sets: Zaheer et
al. 2017): whatever holds for one slot is learned for all six, and permuting the row permutes the
action probabilities. How much that is worth stands in ``docs/training.md``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from agents.ppo.agent import TABLE_FIELDS, PolicyNetwork, SlotForward, flat_logits, split
from alles_kaese_env import NUM_ACTIONS, OBSERVATION
from alles_kaese_env.core.records import MAX_SLOTS

SLOT_UNITS = 32  # of a slot, before and after it is joined with the table
SCALES = {  # of inputs that vary much less than the others; see docs/training.md
    "points": 8,
    "cheese": 8,
    "taken": 4,
    "known": 4,
    "trap_share": 4,
    "opponent_fronts": 2,
    "reserve": 4,
    "gone": 2,
    "traps": 2,
}
GAINS = {"mlp_extractor": 2**0.5, "action_net": 0.01, "value_net": 1.0}  # as stable-baselines3's


class SlotExtractor(SlotForward, nn.Module):
    """Features for policy and value from observations (B, 253).

    Args:
        units: of the two layers that look at the whole table, and of the one for the value.
    """

    relu = staticmethod(torch.relu)
    concatenate = staticmethod(torch.cat)

    def __init__(self, units: int) -> None:
        super().__init__()
        of_slots, of_table = split(torch.zeros(1, OBSERVATION.size))
        scale = torch.tensor([SCALES.get(name, 1) for name in TABLE_FIELDS], dtype=torch.float32)
        sizes = torch.tensor([part.shape[1] for part in of_table])
        self.register_buffer("scale", scale.repeat_interleave(sizes))
        self.slot = nn.Linear(sum(part.shape[2] for part in of_slots), SLOT_UNITS)
        self.table = nn.Linear(sum(part.shape[1] for part in of_table), units)
        self.row = nn.Linear(SLOT_UNITS, units, bias=False)
        self.context = nn.Linear(units, units)
        self.own = nn.Linear(SLOT_UNITS, SLOT_UNITS)
        self.others = nn.Linear(units, SLOT_UNITS, bias=False)
        self.value = nn.Linear(units, units)


class SlotPolicy(MaskableActorCriticPolicy):
    """`MaskableActorCriticPolicy` with a `SlotExtractor`; ``net_arch`` says how many units."""

    def _build(self, lr_schedule: Schedule) -> None:
        assert isinstance(self.net_arch, list)
        units = self.net_arch[0]
        self.mlp_extractor = SlotExtractor(units)  # type: ignore[assignment]
        self.action_net = nn.Linear(SLOT_UNITS, NUM_ACTIONS // MAX_SLOTS)
        self.value_net = nn.Linear(units, 1)
        for name, gain in GAINS.items():
            getattr(self, name).apply(partial(self.init_weights, gain=gain))
        self.optimizer = self.optimizer_class(
            self.parameters(),
            lr=lr_schedule(1),  # type: ignore[call-arg]
            **self.optimizer_kwargs,
        )

    def _get_action_dist_from_latent(self, latent_pi: torch.Tensor) -> MaskableDistribution:
        logits = flat_logits(self.action_net(latent_pi))
        return self.action_dist.proba_distribution(action_logits=logits)


NETWORKS = {"slots": SlotPolicy, "mlp": MaskableActorCriticPolicy}


def logits_of(policy: Any, observations: torch.Tensor) -> torch.Tensor:
    """Unmasked logits (B, 18) of a policy of `NETWORKS` for observations (B, 253)."""
    outputs = policy.action_net(policy.mlp_extractor.forward_actor(observations))
    return flat_logits(outputs) if outputs.ndim == 3 else outputs


def network_of(policy: nn.Module) -> PolicyNetwork:
    """A frozen copy of a policy."""
    state = policy.state_dict()
    return PolicyNetwork({name: tensor.cpu().numpy().copy() for name, tensor in state.items()})

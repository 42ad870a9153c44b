"""The network that `agents.ppo.agent.SlotBody` plays, as a policy of sb3-contrib to be trained.

The slots of the row are alike, so every slot goes through the same weights (deep sets: Zaheer et
al. 2017): whatever holds for one slot is learned for all six, and permuting the row permutes the
action probabilities. How much that is worth stands in ``docs/training.md``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gymnasium.spaces import Box, Discrete
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from agents.ppo.agent import TABLE_FIELDS, PolicyNetwork, SlotForward, flat_logits, split
from alles_kaese_env import NUM_ACTIONS, OBSERVATION
from alles_kaese_env.core.records import MAX_SLOTS
from alles_kaese_env.files import replacing

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
    return _logits(policy, policy.mlp_extractor.forward_actor(observations))


def _logits(policy: Any, latent: torch.Tensor) -> torch.Tensor:
    outputs = policy.action_net(latent)
    return flat_logits(outputs) if outputs.ndim == 3 else outputs


def network_of(policy: nn.Module) -> PolicyNetwork:
    """A frozen copy of a policy."""
    state = policy.state_dict()
    return PolicyNetwork({name: tensor.cpu().numpy().copy() for name, tensor in state.items()})


def load_network(policy: nn.Module, network: PolicyNetwork) -> None:
    """Put weights into a policy: the inverse of `network_of`.

    The weights of a run or a file are ``PPOAgent.load(path).network``, and the policy may be
    ``model.policy`` of a `MaskablePPO`.

    Raises:
        ValueError: the policy has another shape; it stays as it was.
    """
    own = {name: tuple(tensor.shape) for name, tensor in policy.state_dict().items()}
    given = {name: array.shape for name, array in network.weights.items()}
    for name in sorted(own.keys() | given.keys()):
        if own.get(name) != given.get(name):
            raise ValueError(
                f"network has {_shape(given, name)}; allowed for this policy: {_shape(own, name)}"
            )
    policy.load_state_dict({name: torch.tensor(one) for name, one in network.weights.items()})


def _shape(shapes: Mapping[str, tuple[int, ...]], name: str) -> str:
    return f"{name} {shapes[name]}" if name in shapes else f"no {name}"


def new_policy(network: str, hidden: int) -> MaskableActorCriticPolicy:
    """An untrained policy on its own: a name of `NETWORKS`, and the units of a layer."""
    return NETWORKS[network](
        Box(0, 1, (OBSERVATION.size,)), Discrete(NUM_ACTIONS), lambda _: 0.0, **architecture(hidden)
    )


def architecture(hidden: int) -> dict[str, Any]:
    """What makes a policy of `NETWORKS` one that a `PolicyNetwork` can play."""
    return {"net_arch": 2 * [hidden], "activation_fn": nn.ReLU}


class _Outputs(nn.Module):
    """Logits (B, 18) and values (B,) of a policy."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self._policy = policy

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        policy = self._policy
        latent, latent_value = policy.mlp_extractor(observations)
        return _logits(policy, latent), policy.value_net(latent_value)[:, 0]


def export_onnx(policy: nn.Module, file: str | os.PathLike[str]) -> None:
    """Write a policy as ONNX, atomically; needs the packages onnx and onnxscript.

    The model takes ``observations`` (B, 253) float32, for any B, and gives ``logits`` (B, 18),
    unmasked, and ``values`` (B,), as `PolicyNetwork` does.
    """
    example = torch.zeros(2, OBSERVATION.size, device=next(policy.parameters()).device)
    program = torch.onnx.export(
        _Outputs(policy).eval(),
        (example,),
        input_names=["observations"],
        output_names=["logits", "values"],
        dynamic_shapes={"observations": {0: torch.export.Dim("batch")}},
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    with replacing(Path(file)) as temporary:
        program.save(temporary)

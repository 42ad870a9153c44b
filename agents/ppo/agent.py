"""The PPO agent: a trained network that plays from observations and masks alone.

It needs NumPy only. Weights are a plain state dict (``.npz``, loaded without pickle) beside a
JSON file that says what they are for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env import NUM_ACTIONS, OBSERVATION, OBSERVATION_VERSION, RULES_VERSION
from alles_kaese_env.agent import checked_batch
from alles_kaese_env.core.records import MAX_SLOTS
from alles_kaese_env.files import read_arrays, reading, replacing

Weights = Mapping[str, npt.NDArray[np.float32]]

WEIGHTS_FILE = "policy.npz"
PRETRAINED = Path(__file__).parents[1] / "pretrained" / "ppo.npz"

SLOT_FIELDS = ("row", "own_peeks", "opponent_peeks", "trap_probability")
TABLE_FIELDS = tuple(field.name for field in OBSERVATION.fields if field.name not in SLOT_FIELDS)


class PolicyNetwork:
    """A policy of stable-baselines3, forward only.

    Args:
        weights: its state dict, as arrays: of a `SlotPolicy` (see `agents.ppo.network`) or of
            a `MaskableActorCriticPolicy` with ReLU layers and separate networks for policy and
            value.

    Raises:
        ValueError: the weights are of another network or another observation.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = {name: np.asarray(array, np.float32) for name, array in weights.items()}
        body = SlotBody if "mlp_extractor.slot.weight" in weights else MLPBody
        nothing = np.zeros((1, OBSERVATION.size), np.float32)
        try:
            self._body = body(self.weights)
            shapes = self.logits(nothing).shape, self.values(nothing).shape
        except KeyError as error:
            raise ValueError(f"weights have no {error}; allowed: those of a policy") from None
        except ValueError as error:
            raise ValueError(
                f"weights do not take {OBSERVATION.size} inputs or do not fit together ({error})"
            ) from None
        if shapes != ((1, NUM_ACTIONS), (1,)):
            raise ValueError(
                f"weights give logits and values of shapes {shapes}; "
                f"allowed: {NUM_ACTIONS} logits and a value"
            )

    def logits(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Unmasked logits (B, 18) for observations (B, 253)."""
        return self._body.logits(observations)

    def values(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The payoff (B,) that the critic expects for observations (B, 253)."""
        return self._body.values(observations)[:, 0]


class Linear:
    """A layer of a state dict, forward only."""

    def __init__(self, weights: Weights, name: str, has_bias: bool = True) -> None:
        self._weight = np.ascontiguousarray(weights[f"{name}.weight"].T)
        self._bias = weights[f"{name}.bias"] if has_bias else np.float32(0)

    def __call__(self, inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Outputs (..., O) for inputs (..., I)."""
        outputs = inputs.reshape(-1, len(self._weight)) @ self._weight  # as one product of matrices
        outputs += self._bias
        return outputs.reshape(*inputs.shape[:-1], -1)


class MLPBody:
    """Two multi-layer perceptrons, one for the policy and one for the value."""

    def __init__(self, weights: Weights) -> None:
        self._actor = self._layers(weights, "mlp_extractor.policy_net", "action_net")
        self._critic = self._layers(weights, "mlp_extractor.value_net", "value_net")

    def logits(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Logits (B, 18)."""
        return self._forward(self._actor, observations)

    def values(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Values (B, 1)."""
        return self._forward(self._critic, observations)

    @staticmethod
    def _layers(weights: Weights, hidden: str, last: str) -> list[Linear]:
        numbers = sorted(
            int(name.split(".")[-2])
            for name in weights
            if name.startswith(hidden + ".") and name.endswith(".weight")
        )
        return [Linear(weights, name) for name in [f"{hidden}.{k}" for k in numbers] + [last]]

    @staticmethod
    def _forward(layers: list[Linear], inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        for layer in layers[:-1]:
            inputs = relu(layer(inputs))
        return layers[-1](inputs)


class SlotBody:
    """The same weights for every slot of the row, see `agents.ppo.network`."""

    def __init__(self, weights: Weights) -> None:
        names = {"slot": True, "table": True, "row": False, "context": True, "own": True}
        names |= {"others": False, "value": True}
        self._hidden = {
            name: Linear(weights, f"mlp_extractor.{name}", has_bias)
            for name, has_bias in names.items()
        }
        self._scale = weights["mlp_extractor.scale"]
        self._action_net = Linear(weights, "action_net")
        self._value_net = Linear(weights, "value_net")

    def logits(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Logits (B, 18)."""
        slots, table = self._embed(observations)
        hidden = relu(self._hidden["own"](slots) + self._hidden["others"](table)[:, None])
        by_slot = self._action_net(hidden)
        return by_slot.transpose(0, 2, 1).reshape(len(by_slot), -1)  # actions are kind x slot

    def values(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Values (B, 1)."""
        _, table = self._embed(observations)
        return self._value_net(relu(self._hidden["value"](table)))

    def _embed(
        self, observations: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """What is known of each slot (B, 6, units) and of the table (B, units)."""
        inputs = split(observations)
        slots = relu(self._hidden["slot"](np.concatenate(inputs[0], axis=2)))
        table = self._hidden["table"](np.concatenate(inputs[1], axis=1) * self._scale)
        table = relu(table + self._hidden["row"](slots.sum(axis=1)))
        return slots, relu(self._hidden["context"](table))


def split(observations: Any) -> tuple[list[Any], list[Any]]:
    """The inputs of a network of slots, from observations (B, 253): an array or a tensor.

    Returns:
        What says something of each slot, parts (B, 6, any), the last of them whether the slot
        matches the die; and the rest, parts (B, any).
    """
    slots = [
        observations[:, OBSERVATION[name].where].reshape(len(observations), MAX_SLOTS, -1)
        for name in SLOT_FIELDS
    ]
    die = observations[:, OBSERVATION["die"].where]
    table = [observations[:, OBSERVATION[name].where] for name in TABLE_FIELDS]
    return [*slots, slots[0] @ die[:, :, None]], table


def relu(inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The positive part, in place."""
    return np.maximum(inputs, 0, out=inputs)


class PPOAgent:
    """Plays a `PolicyNetwork`.

    Args:
        network: what to play.
        is_greedy: take the likeliest legal action; otherwise draw one by its probability.
        metadata: what is known about the weights.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        is_greedy: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.network = network
        self.is_greedy = is_greedy
        self.metadata = dict(metadata or {})

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64 for observations (B, 253) float32 and masks (B, 18) bool."""
        observations, masks = checked_batch(observations, masks)
        logits = self.network.logits(observations)
        if not self.is_greedy:  # the greatest of logit plus Gumbel noise is a draw by probability
            logits += rng.gumbel(size=logits.shape).astype(np.float32)
        return np.where(masks, logits, -np.inf).argmax(axis=1)

    @classmethod
    def load(cls, path: str | os.PathLike[str], is_greedy: bool = True) -> PPOAgent:
        """The agent of a run directory or of a weights file.

        Raises:
            ValueError: there are no weights, or they are of another version of the game.
        """
        file = Path(path)
        file = file / WEIGHTS_FILE if file.is_dir() else file
        with reading(path, f"run directory with {WEIGHTS_FILE} and no weights file"):
            metadata = read_metadata(file.with_suffix(".json"))
            weights = read_arrays(file)
        for name, version in versions().items():
            if metadata.get(name) != version:
                raise ValueError(f"{file} has {name} {metadata.get(name)}; allowed: {version}")
        return cls(PolicyNetwork(weights), is_greedy, metadata)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the weights and, beside them, the metadata; each file atomically."""
        path = Path(file)  # comes last: where it is, the metadata are
        with replacing(path.with_suffix(".json")) as temporary:
            temporary.write_text(
                json.dumps({**self.metadata, **versions()}, indent=2) + "\n", encoding="utf-8"
            )
        with replacing(path) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, allow_pickle=False, **self.network.weights)


def read_metadata(file: Path) -> dict[str, Any]:
    """The JSON object in a file; `ValueError` if it holds something else."""
    data = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"{file.name} holds no JSON object")
    return data


def versions() -> dict[str, int]:
    """What weights depend on."""
    return {"observation_version": OBSERVATION_VERSION, "rules_version": RULES_VERSION}

"""The PPO agent: a trained network that plays from observations and masks alone.

It needs NumPy only. Weights are a plain state dict (``.npz``, loaded without pickle) beside a
JSON file that says what they are for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from alles_kaese_env import NUM_ACTIONS, OBSERVATION, OBSERVATION_VERSION, RULES_VERSION
from alles_kaese_env.agent import checked_batch
from alles_kaese_env.core.records import MAX_SLOTS
from alles_kaese_env.files import read_arrays, reading, replacing
from alles_kaese_env.variant import Variant

Array: TypeAlias = "npt.NDArray[np.float32]"
Weights: TypeAlias = "Mapping[str, Array]"

WEIGHTS_FILE = "policy.npz"
PRETRAINED = Path(__file__).parents[1] / "pretrained" / "ppo.npz"

SLOT_FIELDS = ("row", "own_peeks", "opponent_peeks", "trap_probability")
TABLE_FIELDS = tuple(field.name for field in OBSERVATION.fields if field.name not in SLOT_FIELDS)
OF_SLOTS = [OBSERVATION[name].where for name in SLOT_FIELDS]
OF_TABLE = [OBSERVATION[name].where for name in TABLE_FIELDS]
DIE = OBSERVATION["die"].where


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
            self._action_net = Linear(self.weights, "action_net")
            self._value_net = Linear(self.weights, "value_net")
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

    def logits(self, observations: Array) -> Array:
        """Unmasked logits (B, 18) for observations (B, 253)."""
        outputs = self._action_net(self._body.forward_actor(observations))
        return flat_logits(outputs) if outputs.ndim == 3 else outputs

    def values(self, observations: Array) -> Array:
        """The payoff (B,) that the critic expects for observations (B, 253)."""
        return self._value_net(self._body.forward_critic(observations))[:, 0]


class Linear:
    """A layer of a state dict, forward only."""

    def __init__(self, weights: Weights, name: str, has_bias: bool = True) -> None:
        self._weight = np.ascontiguousarray(weights[f"{name}.weight"].T)
        self._bias = weights[f"{name}.bias"] if has_bias else np.float32(0)

    def __call__(self, inputs: Array) -> Array:
        """Outputs (..., O) for inputs (..., I)."""
        outputs = inputs.reshape(-1, len(self._weight)) @ self._weight  # one matrix product
        outputs += self._bias
        return outputs.reshape(*inputs.shape[:-1], -1)


def relu(inputs: Array) -> Array:
    """The positive part, in place."""
    return np.maximum(inputs, 0, out=inputs)


class MLPBody:
    """Two multi-layer perceptrons, one for the policy and one for the value."""

    def __init__(self, weights: Weights) -> None:
        self._layers = {
            part: [
                Linear(weights, name.removesuffix(".weight"))
                for name in sorted(weights, key=lambda name: (len(name), name))  # 10 after 9
                if name.startswith(f"mlp_extractor.{part}.") and name.endswith(".weight")
            ]
            for part in ("policy_net", "value_net")
        }

    def forward_actor(self, observations: Array) -> Array:
        """Features for the policy (B, units)."""
        return self._forward("policy_net", observations)

    def forward_critic(self, observations: Array) -> Array:
        """Features for the value (B, units)."""
        return self._forward("value_net", observations)

    def _forward(self, part: str, features: Array) -> Array:
        for layer in self._layers[part]:
            features = relu(layer(features))
        return features


class SlotForward:
    """The forward pass of a network of slots, see `agents.ppo.network`.

    It is the same for arrays and for tensors: subclasses have the layers, ``scale``, and ``relu``
    and ``concatenate`` of their library.
    """

    def forward(self, observations: Any) -> tuple[Any, Any]:
        """Features of each slot (B, 6, units) and of the table (B, units)."""
        slots, table = self._embed(observations)
        return self._of_slots(slots, table), self._of_table(table)

    def forward_actor(self, observations: Any) -> Any:
        """Features of each slot alone."""
        return self._of_slots(*self._embed(observations))

    def forward_critic(self, observations: Any) -> Any:
        """Features of the table alone."""
        return self._of_table(self._embed(observations)[1])

    def _embed(self: Any, observations: Any) -> tuple[Any, Any]:
        of_slots, of_table = split(observations)
        slots = self.relu(self.slot(self.concatenate(of_slots, 2)))
        table = self.table(self.concatenate(of_table, 1) * self.scale)
        table = self.relu(table + self.row(slots.sum(1)))
        return slots, self.relu(self.context(table))

    def _of_slots(self: Any, slots: Any, table: Any) -> Any:
        return self.relu(self.own(slots) + self.others(table)[:, None])

    def _of_table(self: Any, table: Any) -> Any:
        return self.relu(self.value(table))


class SlotBody(SlotForward):
    """The same weights for every slot of the row."""

    relu = staticmethod(relu)
    concatenate = staticmethod(np.concatenate)

    def __init__(self, weights: Weights) -> None:
        for name in ("slot", "table", "row", "context", "own", "others", "value"):
            layer = Linear(weights, f"mlp_extractor.{name}", name not in ("row", "others"))
            setattr(self, name, layer)
        self.scale = weights["mlp_extractor.scale"]


def split(observations: Any) -> tuple[list[Any], list[Any]]:
    """The inputs of a network of slots, from observations (B, 253): an array or a tensor.

    Returns:
        What describes each slot, parts (B, 6, any), the last of them whether the slot matches the
        die; and the rest, parts (B, any).
    """
    slots = [  # -1 for the batch alone, which an ONNX export would fix with a number
        observations[:, where].reshape(-1, MAX_SLOTS, (where.stop - where.start) // MAX_SLOTS)
        for where in OF_SLOTS
    ]
    table = [observations[:, where] for where in OF_TABLE]
    return [*slots, slots[0] @ observations[:, DIE, None]], table


def flat_logits(by_slot: Any) -> Any:
    """Logits (B, 18) from those of each slot (B, 6, 3)."""
    return by_slot.swapaxes(1, 2).reshape(-1, NUM_ACTIONS)  # actions are kind x slot


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

    def probabilities(
        self, observations: npt.NDArray[np.float32], masks: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float64]:
        """Of each action, (B, 18); 1 for that of a greedy agent."""
        observations, masks = checked_batch(observations, masks)
        logits = np.where(masks, self.network.logits(observations).astype(np.float64), -np.inf)
        if self.is_greedy:
            return np.eye(NUM_ACTIONS)[logits.argmax(axis=1)]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        is_greedy: bool = True,
        variant: Variant | None = None,
    ) -> PPOAgent:
        """The agent of a run directory or of a weights file.

        Args:
            path: of either.
            is_greedy: as for the agent.
            variant: the rules to play, with any number of players; None for any rules.

        Raises:
            ValueError: there are no weights, or they are of another version of the game or were
                trained by other rules.
        """
        file = Path(path)
        file = file / WEIGHTS_FILE if file.is_dir() else file
        with reading(path, f"run directory with {WEIGHTS_FILE} and no weights file"):
            metadata = read_metadata(file.with_suffix(".json"))
            weights = read_arrays(file)
        for name, version in versions().items():
            if metadata.get(name) != version:
                raise ValueError(f"{file} has {name} {metadata.get(name)}; allowed: {version}")
        if not is_greedy and has_q_values(metadata):
            raise ValueError(f'{file} has Q-values; allowed: a name without ",sample"')
        if variant is not None:
            check_rules(file, metadata, variant)
        return cls(PolicyNetwork(weights), is_greedy, metadata)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the weights and, beside them, the metadata; each file atomically."""
        path = Path(file)  # written last: where there are weights, there are metadata
        with replacing(path.with_suffix(".json")) as temporary:
            temporary.write_text(
                json.dumps({**self.metadata, **versions()}, indent=2) + "\n", encoding="utf-8"
            )
        with replacing(path) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, allow_pickle=False, **self.network.weights)


def has_q_values(metadata: Mapping[str, Any]) -> bool:
    """Whether the logits of weights are Q-values, which are no logits of probabilities."""
    return bool(metadata.get("options", {}).get("algo") == "dqn")


def check_rules(file: Path, metadata: Mapping[str, Any], variant: Variant) -> None:
    """Raise `ValueError` if weights were trained by other rules; their metadata may not say."""
    trained, asked = metadata.get("variant"), rules_of(variant)
    if not isinstance(trained, dict):
        return
    other = [name for name in asked if trained.get(name) != asked[name]]
    if other:
        was, now = (
            ", ".join(f"{name} {rules.get(name)}" for name in other) for rules in (trained, asked)
        )
        raise ValueError(
            f"{file} was trained with {was}; allowed: these rules, or a name that ends in "
            f'",any-rules" to play with {now}'
        )


def rules_of(variant: Variant) -> dict[str, Any]:
    """The rules that weights depend on, as JSON has them: without the number of players."""
    fields = json.loads(json.dumps(asdict(variant)))
    return {name: value for name, value in fields.items() if name != "num_players"}


def read_metadata(file: Path) -> dict[str, Any]:
    """The JSON object in a file; `ValueError` if it holds something else."""
    data = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"{file.name} holds no JSON object")
    return data


def versions() -> dict[str, int]:
    """What weights depend on."""
    return {"observation_version": OBSERVATION_VERSION, "rules_version": RULES_VERSION}

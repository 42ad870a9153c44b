"""The PPO agent: a trained network that plays from observations and masks alone.

It needs NumPy only. Weights are a plain state dict (``.npz``, loaded without pickle) beside a
JSON file that says what they are for.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.files import replacing
from alles_kaese_env import NUM_ACTIONS, OBSERVATION, OBSERVATION_VERSION, RULES_VERSION

Weights = Mapping[str, npt.NDArray[np.float32]]

WEIGHTS_FILE = "policy.npz"


class PolicyNetwork:
    """The actor and the critic of stable-baselines3's MLP policy, forward only.

    Args:
        weights: the state dict of a `MaskableActorCriticPolicy` with ReLU layers and separate
            networks for policy and value, as arrays.

    Raises:
        ValueError: the weights are of another network or another observation.
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = {name: np.asarray(array, np.float32) for name, array in weights.items()}
        try:
            self._actor = self._layers("mlp_extractor.policy_net", "action_net")
            self._critic = self._layers("mlp_extractor.value_net", "value_net")
        except KeyError as error:
            raise ValueError(f"weights have no {error}; allowed: those of an MLP policy") from None
        inputs, outputs = self._actor[0][0].shape[0], self._actor[-1][0].shape[1]
        if (inputs, outputs) != (OBSERVATION.size, NUM_ACTIONS):
            raise ValueError(
                f"weights are for {inputs} inputs and {outputs} actions; "
                f"allowed: {OBSERVATION.size} and {NUM_ACTIONS}"
            )

    def logits(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Unmasked logits (B, 18) for observations (B, 253)."""
        return _forward(self._actor, observations)

    def values(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The payoff (B,) that the critic expects for observations (B, 253)."""
        return _forward(self._critic, observations)[:, 0]

    def _layers(self, hidden: str, last: str) -> list[tuple[npt.NDArray[np.float32], ...]]:
        numbers = sorted(
            int(name.split(".")[-2])
            for name in self.weights
            if name.startswith(hidden + ".") and name.endswith(".weight")
        )
        names = [f"{hidden}.{number}" for number in numbers] + [last]
        return [
            (np.ascontiguousarray(self.weights[f"{name}.weight"].T), self.weights[f"{name}.bias"])
            for name in names
        ]


def _forward(
    layers: list[tuple[npt.NDArray[np.float32], ...]], inputs: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    for weight, bias in layers[:-1]:
        inputs = inputs @ weight
        inputs += bias
        np.maximum(inputs, 0, out=inputs)
    weight, bias = layers[-1]
    return inputs @ weight + bias


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
        try:
            metadata = read_metadata(file.with_suffix(".json"))
            weights = read_weights(file)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(
                f"{path} is no run directory with {WEIGHTS_FILE} and no weights file ({error})"
            ) from None
        for name, version in versions().items():
            if metadata.get(name) != version:
                raise ValueError(f"{file} has {name} {metadata.get(name)}; allowed: {version}")
        return cls(PolicyNetwork(weights), is_greedy, metadata)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the weights and, beside them, the metadata; each file whole or not at all."""
        path = Path(file)  # comes last: where it is, the metadata are
        with replacing(path.with_suffix(".json")) as temporary:
            temporary.write_text(json.dumps({**self.metadata, **versions()}, indent=2) + "\n")
        with replacing(path) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, allow_pickle=False, **self.network.weights)


def read_metadata(file: Path) -> dict[str, Any]:
    """The JSON object in a file; `ValueError` if it holds something else."""
    data = json.loads(file.read_text())
    if not isinstance(data, dict):
        raise ValueError(f"{file.name} holds no JSON object")
    return data


def read_weights(file: Path) -> Weights:
    """The arrays of an archive; `ValueError` if it holds something else."""
    with open(file, "rb") as stream:
        arrays = np.load(stream, allow_pickle=False)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise ValueError(f"{file.name} is no archive of arrays")
        return dict(arrays)


def versions() -> dict[str, int]:
    """What weights depend on."""
    return {"observation_version": OBSERVATION_VERSION, "rules_version": RULES_VERSION}

"""Neural fictitious self-play, on top of DQN: ``train.py --algo nfsp``.

The algorithm of Heinrich and Silver, "Deep Reinforcement Learning from Self-Play in
Imperfect-Information Games" (2016). In each game a seat plays the best response, which is DQN's,
with the anticipatory probability eta, and the average policy otherwise. DQN learns from all that is
played; the average policy learns by cross-entropy what the best responses of the whole run did,
from a reservoir of their decisions. In games of two players and zero sum it is the average that
comes to an equilibrium, and it is what a run leaves.

What is different: one seat of a game learns, and the others share one of the two policies; all
seats share the networks; the reservoir holds the action of the greatest Q-value, also where the
best response took a random one; double Q-learning, many games at once and updates after rollouts,
as in `agents.training.dqn`.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from agents.ppo.agent import PolicyNetwork, PPOAgent
from agents.ppo.network import logits_of, network_of
from agents.training.dqn import DQN, Actions, Masks, Observations, descend
from alles_kaese_env import NUM_ACTIONS, OBSERVATION
from alles_kaese_env.agent import Agent

RESERVOIR_FILE = "reservoir.npz"  # in a checkpoint


class Reservoir:
    """A uniform sample of all decisions that were ever added (Vitter 1985, algorithm R).

    Args:
        size: the most decisions in it, half a kB each.

    Attributes:
        seen: decisions added.
        observations: (size, 253) float16, which changes them by less than 0.0003.
        masks: (size, 18) bool.
        actions: (size,) int64.
    """

    def __init__(self, size: int) -> None:
        self.seen = 0
        self.observations = np.zeros((size, OBSERVATION.size), np.float16)
        self.masks = np.zeros((size, NUM_ACTIONS), np.bool_)
        self.actions = np.zeros(size, np.int64)

    def __len__(self) -> int:
        return min(self.seen, len(self.actions))

    def add(
        self, observations: Observations, masks: Masks, actions: Actions, rng: np.random.Generator
    ) -> None:
        """Add decisions (B, 253), (B, 18), (B,), each in place of a random one once it is full."""
        numbers = self.seen + np.arange(len(actions))
        size = len(self.actions)
        places = np.where(numbers < size, numbers, rng.integers(numbers + 1))
        kept = places < size
        self.observations[places[kept]] = observations[kept]
        self.masks[places[kept]] = masks[kept]
        self.actions[places[kept]] = actions[kept]
        self.seen += len(actions)

    def sample(
        self, number: int, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.float32], Masks, Actions]:
        """So many of its decisions, with replacement."""
        rows = rng.integers(len(self), size=number)
        return self.observations[rows].astype(np.float32), self.masks[rows], self.actions[rows]

    def save(self, archive: zipfile.ZipFile) -> None:
        """Write it into a checkpoint."""
        arrays = {name: getattr(self, name)[: len(self)] for name in self._arrays}
        data = io.BytesIO()
        np.savez(data, allow_pickle=False, seen=np.asarray(self.seen), **arrays)
        archive.writestr(RESERVOIR_FILE, data.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=1)

    def load(self, archive: zipfile.ZipFile) -> None:
        """Go on with the one of a checkpoint; any exception means that it is broken."""
        with np.load(io.BytesIO(archive.read(RESERVOIR_FILE)), allow_pickle=False) as data:
            self.seen = int(data["seen"])
            for name in self._arrays:
                getattr(self, name)[: len(self)] = data[name]

    _arrays = ("observations", "masks", "actions")


class NFSP(DQN):
    """`DQN` as the best response, and the average policy.

    Args:
        eta: probability that a seat plays the best response in a game.
        reservoir_size: decisions that the average policy learns from.
        options: of DQN of stable-baselines3.

    Attributes:
        average: the network of the average policy.
    """

    def __init__(self, *args: Any, eta: float, reservoir_size: int, **options: Any) -> None:
        self.eta = eta
        self.reservoir = Reservoir(reservoir_size)
        self._responds: Masks | None = None  # in which games the learner plays the best response
        super().__init__(*args, **options)

    def _setup_model(self) -> None:
        super()._setup_model()
        self.average: Any = self.policy.make_q_net()

    def _excluded_save_params(self) -> list[str]:
        own = ["reservoir", "average", "average_player", "_responds"]
        return [*super()._excluded_save_params(), *own]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, others = super()._get_torch_save_params()
        return [*names, "average", "average.optimizer"], others

    def save(self, path: Any, *args: Any, **options: Any) -> None:
        """Write a checkpoint with the reservoir, without which the average would forget."""
        super().save(path, *args, **options)
        with zipfile.ZipFile(path, "a") as archive:
            self.reservoir.save(archive)

    def load_rest(self, file: Path | io.BytesIO) -> None:
        """Load what `set_parameters` does not; any exception means that it is broken."""
        with zipfile.ZipFile(file) as archive:
            self.reservoir.load(archive)

    def network(self) -> PolicyNetwork:
        """A frozen copy of the average policy."""
        return network_of(self.average)

    def players(self) -> tuple[list[Agent], list[float]]:
        """The best response and the average policy, and how often each is drawn."""
        super().players()
        self.average_player = PPOAgent(self.network(), is_greedy=False)
        return [self.response, self.average_player], [self.eta, 1 - self.eta]

    def _choose(self, observations: Observations, masks: Masks) -> Actions:
        if self._responds is None:
            self._responds = self._rng.random(len(masks)) < self.eta
        responds, rng = self._responds, self._rng
        actions = self.average_player.act(observations, masks, rng)
        if responds.any():
            seen, legal = observations[responds], masks[responds]
            best = self.response.greedy.act(seen, legal, rng)
            self.reservoir.add(seen, legal, best, rng)
            actions[responds] = self.response.explore(best, seen, legal, rng)
        return actions

    def _store_transition(self, replay_buffer: Any, *step: Any) -> None:
        super()._store_transition(replay_buffer, *step)
        assert self._responds is not None
        ended = np.asarray(step[3])
        self._responds[ended] = self._rng.random(ended.sum()) < self.eta

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Learn both policies from so many minibatches each."""
        super().train(gradient_steps, batch_size)
        if not len(self.reservoir):
            return
        self._update_learning_rate(self.average.optimizer)
        loss = 0.0
        for _ in range(gradient_steps):
            batch = self.reservoir.sample(batch_size, self._rng)
            observations, masks, actions = (
                torch.as_tensor(array, device=self.device) for array in batch
            )
            logits = logits_of(self.average, observations).masked_fill(~masks, -torch.inf)
            error = nn.functional.cross_entropy(logits, actions)
            descend(error, self.average, self.average.optimizer, self.max_grad_norm)
            loss += error.item() / gradient_steps
        self.logger.record("train/average_loss", loss)

"""Self-play: who the learner plays against."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

import agents
from agents.ppo.agent import PPOAgent
from agents.ppo.network import network_of
from agents.training.options import Config
from alles_kaese_env.agent import Agent
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv, JoinedVecEnv

POOL_SIZE = 8
STEPS_BETWEEN_SNAPSHOTS = 500_000
SHARES = {"present": 0.4, "past": 0.2, "reference": 0.4}


def games_of(config: Config) -> JoinedVecEnv:
    """The games of a run, shared evenly among its numbers of players."""
    counts = config.num_players
    numbers = [len(part) for part in np.array_split(np.arange(config.num_envs), len(counts))]
    parts = [
        AllesKaeseVecEnv(number, reward=config.reward, **asdict(config.rules(count)))
        for number, count in zip(numbers, counts, strict=True)
    ]
    games = JoinedVecEnv(parts)
    games.seed(config.seed)
    return games


class SelfPlay(BaseCallback):
    """Keeps the opponents of the learner up to date.

    With "self" it plays against its present policy, which is renewed before each rollout. With
    "pool" who plays all other seats of a new game is drawn: the present policy, a past one from a
    pool of at most `POOL_SIZE`, or the reference heuristic, by `SHARES`. Past policies are kept in
    files, so that a resumed run has them; when the pool is full, a random one makes room. Any
    other name is an agent that stays as it is. All workers of a run have the same pool; the
    first one ``writes`` the files.
    """

    def __init__(
        self, opponents: str, games: JoinedVecEnv, pool: Path, seed: int, writes: bool = True
    ) -> None:
        super().__init__()
        self._writes = writes
        self._kind = opponents
        self._venv = games
        self._pool = pool
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,)))
        kinds = {batch.batch.variant for batch in games.batches}
        self._rules = kinds.pop() if len(kinds) == 1 else None  # None: the default ones
        is_fixed = opponents not in ("self", "pool")
        self._fixed = agents.make(opponents, self._rules) if is_fixed else None
        self._past: dict[Path, PPOAgent] = {}
        self._next_snapshot = 0

    def _on_training_start(self) -> None:
        self._load_pool()
        self._next_snapshot = self.model.num_timesteps + STEPS_BETWEEN_SNAPSHOTS
        if self._fixed is not None:
            self._venv.set_opponents([self._fixed], [1.0])

    def _on_rollout_start(self) -> None:
        if self._fixed is not None:
            return
        present = PPOAgent(network_of(self.model.policy), is_greedy=False)
        if self._kind == "self":
            self._venv.set_opponents([present], [1.0])
            return
        if self.model.num_timesteps >= self._next_snapshot:
            self._next_snapshot += STEPS_BETWEEN_SNAPSHOTS
            self._keep(present)
        self._venv.set_opponents(*self._table(present))

    def _on_step(self) -> bool:
        return True

    def _table(self, present: PPOAgent) -> tuple[list[Agent], list[float]]:
        """The opponents and how often each is drawn."""
        shares = dict(SHARES)
        if not self._past:
            shares["present"] += shares.pop("past")
        weights = [shares["present"], shares["reference"]]
        weights += [shares["past"] / len(self._past)] * len(self._past) if self._past else []
        return [present, agents.make("reference", self._rules), *self._past.values()], weights

    def _load_pool(self) -> None:
        """The pool of the checkpoint that the run goes on from; later snapshots are left over."""
        newest = snapshot_name(self.model.num_timesteps)
        for file in sorted(self._pool.glob("step-*.npz")):
            if file.name > newest:
                self._remove(file)
                continue
            with suppress(ValueError):  # half of a snapshot is none
                self._past[file] = PPOAgent.load(file, is_greedy=False)

    def _keep(self, snapshot: PPOAgent) -> None:
        if len(self._past) >= POOL_SIZE:
            file = list(self._past)[int(self._rng.integers(len(self._past)))]
            del self._past[file]
            self._remove(file)
        file = self._pool / snapshot_name(self.model.num_timesteps)
        if self._writes:
            snapshot.save(file)
        self._past[file] = snapshot

    def _remove(self, file: Path) -> None:
        """Delete a past policy, its weights first: without them nobody looks at the rest."""
        if self._writes:
            file.unlink()
            file.with_suffix(".json").unlink(missing_ok=True)


def snapshot_name(steps: int) -> str:
    """The file of a past policy; names sort by steps."""
    return f"step-{steps:012d}.npz"

"""How strong equal time makes: ``train.py``'s learner and default SB3, each by the same clock.

Example:
    python benchmarks/strength.py --minutes 5 15 --seeds 0 1 2 --json strength.json

Default SB3 is MaskablePPO with its default hyperparameters on eight single games in a DummyVecEnv.
It gets the reference heuristic for an opponent, which makes it stronger than random ones do. The
learning rate of ``train.py`` falls to 0 over the longest time. What is measured after each time is
the share of the win against ``heuristic``, playing greedily, which neither trained with.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from figures import collect
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from training import default_sb3_model, measure_speed

import agents
from agents.arena.matches import win_share
from agents.training.options import Config
from agents.training.sb3 import new_model, use_threads
from agents.training.self_play import SelfPlay, games_of
from alles_kaese_env.command_line import Parser

GAMES = 20_000
OPPONENT = "heuristic"


@dataclass(frozen=True)
class Strength:
    """What a way of training had reached after some minutes."""

    way: str
    seed: int
    minutes: float
    steps: int
    share: float
    low: float
    high: float


class Greedy:
    """Plays the policy of a model of sb3-contrib, as it is."""

    def __init__(self, model: MaskablePPO) -> None:
        self._model = model

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) for observations (B, 253) and masks (B, 18)."""
        return self._model.predict(observations, action_masks=masks, deterministic=True)[0]


class Clock(BaseCallback):
    """Keeps the weights after each of some times, and ends the run after the last."""

    def __init__(self, minutes: list[float]) -> None:
        super().__init__()
        self.kept: list[tuple[float, int, dict[str, torch.Tensor]]] = []
        self._minutes = sorted(minutes)
        self._started = 0.0

    def _on_training_start(self) -> None:
        self._started = time.perf_counter()

    def _on_rollout_start(self) -> None:
        self._keep((time.perf_counter() - self._started) / 60)

    def _on_step(self) -> bool:
        return len(self.kept) < len(self._minutes)

    def _on_training_end(self) -> None:
        self._keep(self._minutes[-1])  # a schedule of steps may end a little before the time

    def _keep(self, passed: float) -> None:
        for minutes in self._minutes[len(self.kept) :]:
            if passed >= minutes:
                state = self.model.policy.state_dict()
                weights = {name: one.clone() for name, one in state.items()}
                self.kept.append((minutes, self.model.num_timesteps, weights))


def usual_way(seed: int, num_players: int, clock: Clock) -> MaskablePPO:
    """Train with default hyperparameters on eight single games."""
    model = default_sb3_model(num_players, agents.make("reference"), seed)
    model.learn(10**12, callback=clock)
    return model


def way_of_train(config: Config, minutes: float, clock: Clock) -> MaskablePPO:
    """Train as train.py does, for about so many minutes."""
    total_steps = int(measure_speed(replace(config, total_steps=1)) * minutes * 60)
    venv = games_of(config)
    model = new_model(config, venv)
    with tempfile.TemporaryDirectory() as pool:
        self_play = SelfPlay(config.opponents, venv, Path(pool), config.seed)
        model.learn(total_steps, callback=[self_play, clock])
    return model


def strengths(
    way: str, model: MaskablePPO, seed: int, players: int, clock: Clock
) -> Iterator[Strength]:
    """Measure what a run kept."""
    for minutes, steps, weights in clock.kept:
        model.policy.load_state_dict(weights)
        score = win_share(Greedy(model), agents.make(OPPONENT), num_players=players, games=GAMES)
        print(
            f"{way}, seed {seed}, {minutes:g} minutes, {steps:,} steps: "
            f"{score.share:.3f} ({score.low:.3f} to {score.high:.3f})",
            flush=True,
        )
        yield Strength(way, seed, minutes, steps, score.share, score.low, score.high)


def main() -> int:
    """The command; returns its exit code."""
    parser = Parser(
        prog="python benchmarks/strength.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", nargs="+", type=float, default=[5, 15])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if min(*options.minutes, options.threads) <= 0 or min(options.seeds) < 0:
        parser.error("--minutes, --threads and --seeds: allowed are positive numbers")
    use_threads(options.threads)
    return collect(parser, measured(options), options.json)[1]


def measured(options: argparse.Namespace) -> Iterator[Strength]:
    """What the runs of both ways kept, seed by seed."""
    players = options.num_players
    for seed in options.seeds:
        config = Config(num_players=(players,), seed=seed, threads=options.threads)
        clock = Clock(options.minutes)
        model: Any = way_of_train(config, max(options.minutes), clock)
        yield from strengths("train.py", model, seed, players, clock)
        clock = Clock(options.minutes)
        yield from strengths("default SB3", usual_way(seed, players, clock), seed, players, clock)


if __name__ == "__main__":
    sys.exit(main())

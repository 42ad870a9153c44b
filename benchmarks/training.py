"""Where the time of a PPO run goes, and how many steps a second it makes.

Example:
    python benchmarks/training.py --num-envs 256 1024 --threads 1 2 --default-sb3 --json out.json

Each line is a run of ``train.py``'s learner without its evaluations, after a first rollout and
update that are not counted. ``--default-sb3`` adds what one would write without this project:
MaskablePPO with default hyperparameters on eight single games in a DummyVecEnv, against random
opponents, in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

from agents.ppo.options import Config
from agents.ppo.sb3 import new_model, use_threads
from agents.ppo.self_play import SelfPlay, games_of
from alles_kaese_env.command_line import Parser

PARTS = ("environment", "opponents", "policy forward", "update")


@dataclass(frozen=True)
class Run:
    """Steps a second of a run, and the share of its time that each part took."""

    name: str
    num_envs: int
    threads: int
    steps: int
    steps_per_s: float
    shares: dict[str, float]


class Stopwatch:
    """Adds up the time that calls take, apart from that of calls within them."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(PARTS, 0.0)
        self._inner: list[float] = []

    def watch(self, part: str, owner: Any, name: str) -> None:
        """Count the calls of ``owner.name`` as this part from now on."""
        setattr(owner, name, self._timed(part, getattr(owner, name)))

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                elapsed = time.perf_counter() - started
                self.spent[part] += elapsed - self._inner.pop()
                if self._inner:
                    self._inner[-1] += elapsed

        return timed


def measure(name: str, model: MaskablePPO, venv: Any, steps: int, callback: Any = None) -> Run:
    """Learn for so many steps after a first rollout."""
    watch = Stopwatch()
    model.learn(1, callback=callback)
    watch.watch("environment", venv, "step")
    watch.watch("environment", venv, "env_method")
    for games in getattr(venv, "batches", []):
        watch.watch("opponents", games, "_choose")
    watch.watch("policy forward", model.policy, "forward")
    watch.watch("policy forward", model.policy, "predict_values")
    watch.watch("update", model, "train")
    before = model.num_timesteps
    started = time.perf_counter()
    model.learn(steps, callback=callback, reset_num_timesteps=False)
    elapsed = time.perf_counter() - started
    shares = {part: seconds / elapsed for part, seconds in watch.spent.items()}
    shares["everything else"] = 1 - sum(shares.values())
    made = model.num_timesteps - before
    return Run(name, venv.num_envs, torch.get_num_threads(), made, made / elapsed, shares)


def self_play(config: Config, steps: int) -> Run:
    """The learner of train.py."""
    use_threads(config.threads)
    venv = games_of(config)
    with tempfile.TemporaryDirectory() as pool:
        callback = SelfPlay(config.opponents, venv, Path(pool), config.seed)
        return measure(
            f"train.py, {config.opponents}", new_model(config, venv), venv, steps, callback
        )


def measure_speed(config: Config) -> float:
    """Decisions of the learner a second, from a second rollout and update."""
    return self_play(config, config.num_envs * config.n_steps).steps_per_s


def default_sb3_model(num_players: int, opponents: Any = "random", seed: int = 0) -> MaskablePPO:
    """Default hyperparameters on eight single games."""
    arguments: dict[str, Any] = {"num_players": num_players, "opponents": opponents}
    venv = DummyVecEnv([lambda: gymnasium.make("AllesKaese-v0", **arguments)] * 8)
    return MaskablePPO("MlpPolicy", venv, seed=seed, device="cpu")


def default_sb3(num_players: int, threads: int, steps: int) -> Run:
    """Default SB3."""
    torch.set_num_threads(threads)
    model = default_sb3_model(num_players)
    return measure("default SB3", model, model.get_env(), steps)


def main() -> int:
    """The command; returns its exit code."""
    parser = Parser(
        prog="python benchmarks/training.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Config()
    parser.add_argument("--num-envs", nargs="+", type=int, default=[default.num_envs])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    parser.add_argument("--opponents", nargs="+", default=["pool", "random"])
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--default-sb3", action="store_true", help="measure default SB3 too")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if min(*options.num_envs, *options.threads, options.steps) < 1:
        parser.error("--num-envs, --threads and --steps: allowed are positive numbers")
    runs = []
    for threads in options.threads:
        for num_envs in options.num_envs:
            for opponents in options.opponents:
                config = replace(
                    default,
                    num_players=(options.num_players,),
                    num_envs=num_envs,
                    threads=threads,
                    opponents=opponents,
                )
                runs.append(self_play(config, options.steps))
                print_run(runs[-1])
        if options.default_sb3:
            runs.append(default_sb3(options.num_players, threads, 16_384))
            print_run(runs[-1])
            for run in runs[:-1]:
                if run.threads == threads:
                    ratio = run.steps_per_s / runs[-1].steps_per_s
                    print(f"{run.name}, {run.num_envs} games: {ratio:.1f} x default SB3")
    if options.json:
        options.json.write_text(json.dumps({"runs": [asdict(run) for run in runs]}, indent=2))
    return 0


def print_run(run: Run) -> None:
    """A line for a run."""
    shares = ", ".join(f"{part} {share:.0%}" for part, share in run.shares.items())
    print(
        f"{run.name}: {run.num_envs} games, threads {run.threads}: "
        f"{run.steps_per_s:,.0f} steps/s ({shares})",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())

"""How many steps a second a training run makes, by its workers, and where its time goes.

Example:
    python benchmarks/training.py --workers 1 2 4 8 16 --busy 0 1 --json out.json
    python benchmarks/training.py --algo ppo mmd dqn nfsp --workers 1 --busy 0 --no-default-sb3

Each line is a run of ``train.py``'s learner without its evaluations, after a first rollout and
update that are not counted; the shares are of the time of the first worker, and its update holds
the time that it waits for the others. ``--busy`` runs so many busy processes beside it. Runs of
all kinds take turns, ``--repeats`` times; the medians and their ratios stand at the end.

Default SB3 is what one would write without this project: MaskablePPO with default hyperparameters
on eight single games in a DummyVecEnv, against random opponents.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import torch
from figures import collect
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from agents.training import sb3
from agents.training.options import Config, new_config
from agents.training.sb3 import new_model, others, use_threads
from agents.training.self_play import games_of
from alles_kaese_env.command_line import Parser

PARTS = ("environment", "opponents", "policy forward", "update")


@dataclass(frozen=True)
class Run:
    """Steps a second of a run, and the share of its time that each part took."""

    name: str
    num_envs: int
    workers: int
    threads: int
    busy: int
    steps: int
    steps_per_s: float
    shares: dict[str, float]

    @property
    def kind(self) -> str:
        """What the run is of."""
        beside = f", beside {self.busy} busy" if self.busy else ""
        cores = f"{self.workers} x {self.threads} threads" if self.threads > 1 else self.workers
        return f"{self.name}, {self.num_envs:,} games, workers {cores}{beside}"


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


class Begin(BaseCallback):
    """Calls a function before the second rollout."""

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__()
        self._function = function
        self._rollouts = 0

    def _on_rollout_start(self) -> None:
        self._rollouts += 1
        if self._rollouts == 2:
            self._function()

    def _on_step(self) -> bool:
        return True


def measure(
    model: Any, venv: Any, total_steps: int, callbacks: list[BaseCallback]
) -> tuple[int, float, dict[str, float]]:
    """Learn so many steps; those after the first rollout and update, steps a second, shares."""
    watch = Stopwatch()
    began: list[float] = []

    def begin() -> None:
        watch.watch("environment", venv, "step")
        watch.watch("environment", venv, "env_method")
        for games in getattr(venv, "batches", []):
            watch.watch("opponents", games, "_choose")
        watch.watch("policy forward", model.policy, "forward")
        if hasattr(model.policy, "predict_values"):
            watch.watch("policy forward", model.policy, "predict_values")
        if hasattr(model, "_choose"):  # DQN and NFSP play in NumPy
            watch.watch("policy forward", model, "_choose")
        watch.watch("update", model, "train")
        began.extend([model.num_timesteps, time.perf_counter()])

    model.learn(total_steps, callback=[*callbacks, Begin(begin)])
    before, started = began
    elapsed = time.perf_counter() - started
    shares = {part: seconds / elapsed for part, seconds in watch.spent.items()}
    shares["everything else"] = 1 - sum(shares.values())
    made = model.num_timesteps - int(before)
    return made, made / elapsed, shares


def self_play(config: Config, steps: int, busy: int = 0) -> Run:
    """The learner of train.py."""
    use_threads(config.threads)
    config = replace(config, total_steps=config.num_envs * config.n_steps + steps)
    venv = games_of(config.of_worker(0))
    model = new_model(config, venv)
    with tempfile.TemporaryDirectory() as pool, others(model, config, Path(pool)) as together:
        callbacks = [sb3.self_play(config, venv, Path(pool)), *together]
        figures = measure(model, venv, config.total_steps, callbacks)
    name = f"train.py, {config.algo}, {config.opponents}"
    workers = config.number_of_workers
    return Run(name, config.num_envs, workers, config.threads, busy, *figures)


def measure_speed(config: Config) -> float:
    """Decisions of the learner a second, from a second rollout and update."""
    return self_play(config, config.num_envs * config.n_steps).steps_per_s


def default_sb3_model(num_players: int, opponents: Any = "random", seed: int = 0) -> MaskablePPO:
    """Default hyperparameters on eight single games."""
    arguments: dict[str, Any] = {"num_players": num_players, "opponents": opponents}
    venv = DummyVecEnv([lambda: gymnasium.make("AllesKaese-v0", **arguments)] * 8)
    return MaskablePPO("MlpPolicy", venv, seed=seed, device="cpu")


def default_sb3(num_players: int, steps: int, busy: int = 0) -> Run:
    """Default SB3, on one thread."""
    torch.set_num_threads(1)
    model = default_sb3_model(num_players)
    venv = model.get_env()
    figures = measure(model, venv, model.n_steps * 8 + steps, [])
    return Run("default SB3, random", 8, 1, 1, busy, *figures)


@contextmanager
def neighbours(number: int) -> Iterator[None]:
    """So many busy processes."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(number)]  # noqa: S603
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> int:
    """The command; returns its exit code."""
    parser = Parser(
        prog="python benchmarks/training.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Config()
    add = parser.add_argument
    add("--algo", nargs="+", default=[default.algo])
    add("--workers", nargs="+", type=int, default=[1, 2])
    add("--busy", nargs="+", type=int, default=[0, 1], help="busy processes beside it (0 1)")
    add("--threads", nargs="+", type=int, default=[1], help="of each worker (1)")
    add("--num-envs", nargs="+", type=int, default=[default.num_envs])
    add("--opponents", nargs="+", default=[None], help="by default those of the algorithm")
    add("--num-players", type=int, default=2, choices=range(2, 7))
    add("--steps", type=int, default=200_000, help="of each run (200,000)")
    add("--repeats", type=int, default=3)
    add("--default-sb3", action=argparse.BooleanOptionalAction, default=True)
    add("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    positive = [*options.workers, *options.threads, *options.num_envs]
    if min(*positive, options.steps, options.repeats, *[busy + 1 for busy in options.busy]) < 1:
        parser.error("--busy: allowed are numbers from 0 on; of the other options positive ones")
    runs, code = collect(parser, measured(options), options.json)
    print_medians(runs)
    return code


def measured(options: argparse.Namespace) -> Iterator[Run]:
    """The runs, in turns: all kinds once, then all again."""
    kinds = list(
        product(options.algo, options.opponents, options.num_envs, options.threads, options.workers)
    )
    for _, busy in product(range(options.repeats), options.busy):
        with neighbours(busy):
            for algo, opponents, num_envs, threads, workers in kinds:
                given = {
                    "algo": algo,
                    "num_players": (options.num_players,),
                    "num_envs": num_envs,
                    "threads": threads,
                    "workers": workers,
                }
                config = new_config(given | ({"opponents": opponents} if opponents else {}))
                yield print_run(self_play(config, options.steps, busy))
            if options.default_sb3 and not busy:
                yield print_run(default_sb3(options.num_players, 16_384))


def print_run(run: Run) -> Run:
    """Print a line for a run, with the load of the machine where the system tells it."""
    shares = ", ".join(f"{part} {share:.0%}" for part, share in run.shares.items())
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{run.kind}: {run.steps_per_s:,.0f} steps/s ({shares}){load}", flush=True)
    return run


def print_medians(runs: list[Run]) -> None:
    """The median of each kind, and how it compares with the first kind and with the last."""
    speeds: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        speeds[run.kind].append(run.steps_per_s)
    if not speeds:
        return
    medians = {kind: statistics.median(each) for kind, each in speeds.items()}
    first, default = next(iter(medians)), [kind for kind in medians if kind.startswith("default")]
    print(f"\nMedians of {len(speeds[first])}; x: times the first line")
    for kind, median in medians.items():
        ratio = f"{median / medians[first]:5.2f} x"
        ratio += f", {median / medians[default[0]]:5.1f} x default SB3" if default else ""
        print(f"{median:>9,.0f} steps/s {ratio}  {kind}")


if __name__ == "__main__":
    sys.exit(main())

"""What each further env runner of ``train.py --engine rllib`` adds, on a cluster on this machine.

Example:
    python benchmarks/cluster.py --runners 0 1 2 --json cluster.json

Each runner is a node of its own of a local Ray cluster. Decisions a second are those of playing
alone, and of playing and updates together; the first rollout and update are not counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import ray
from figures import collect
from ray.cluster_utils import Cluster
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample

from agents.training.options import Config
from agents.training.rllib import algorithm_config, steps_of
from alles_kaese_env.command_line import Parser

MEMORY = 200_000_000  # bytes of each node for what goes from process to process


@dataclass(frozen=True)
class Result:
    """Decisions a second with so many runners, medians over rounds."""

    runners: int
    playing: float
    training: float


def measure(config: Config, runners: int, rounds: int) -> Result:
    """Some rounds of playing and updating with so many runners."""
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": MEMORY, "include_dashboard": False},
    )
    for _ in range(runners):
        cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    ray.init(address=cluster.address, log_to_driver=False)
    algorithm = algorithm_config(replace(config, num_env_runners=runners)).build_algo()
    playing, training = [], []
    try:
        algorithm.train()
        for _ in range(rounds):
            before, started = steps_of(algorithm), time.perf_counter()
            algorithm.train()
            made = steps_of(algorithm) - before
            training.append(made / (time.perf_counter() - started))
            playing.append(made / play(algorithm))
    finally:
        algorithm.stop()
        ray.shutdown()
        cluster.shutdown()
    return Result(runners, statistics.median(playing), statistics.median(training))


def play(algorithm: Algorithm) -> float:
    """Seconds that the runners take for a rollout in parallel, as an update asks for it."""
    config, group = algorithm.config, algorithm.env_runner_group
    started = time.perf_counter()
    synchronous_parallel_sample(
        worker_set=group,
        max_env_steps=config.total_train_batch_size,
        sample_timeout_s=config.sample_timeout_s,
        _uses_new_env_runners=True,
        _return_metrics=True,
    )
    return time.perf_counter() - started


def main() -> int:
    """The command; returns its exit code."""
    parser = Parser(
        prog="python benchmarks/cluster.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runners", nargs="+", type=int, default=[0, 1, 2], help="0: the learner")
    parser.add_argument("--num-envs", type=int, default=64, help="games, shared by the runners")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if min(options.runners) < 0 or min(options.num_envs, options.rounds) < 1:
        parser.error("--runners, --num-envs and --rounds: allowed are positive numbers")
    return collect(parser, measured(options), options.json)[1]


def measured(options: argparse.Namespace) -> Iterator[Result]:
    """The speed with each number of runners."""
    for runners in options.runners:
        config = Config(num_envs=options.num_envs, batch_size=1024, opponents="self", threads=1)
        result = measure(config, runners, options.rounds)
        print(
            f"{runners} runners: {result.playing:,.0f} decisions/s of play, "
            f"{result.training:,.0f} with updates",
            flush=True,
        )
        yield result


if __name__ == "__main__":
    sys.exit(main())

"""Some steps and nothing else, for valgrind to count their instructions.

Example:
    export NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES=  # valgrind knows no AVX-512
    python benchmarks/steps.py all 1  # compiles, which valgrind would take long for
    valgrind --tool=cachegrind --cache-sim=no --branch-sim=yes python benchmarks/steps.py all 250

A run with 0 steps says what to take off. Each step is one of 4,096 games; ``look`` is mask,
observation and payoffs without a move, ``choose`` the choice of an action alone.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from alles_kaese_env import GameBatch, Variant

GAMES = 4096


def main() -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["all", "look", "choose"])
    parser.add_argument("steps", type=int)
    parser.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    options = parser.parse_args()
    if options.steps < 0:
        parser.error(f"steps is {options.steps}; allowed: a number from 0 on")
    batch = GameBatch(GAMES, Variant(num_players=options.num_players), seed=0, autoreset=True)
    rows = np.arange(GAMES)
    parts = {
        "all": lambda: batch.step(batch.random_actions()),
        "look": lambda: batch.look(rows),
        "choose": batch.random_actions,
    }
    for part in parts.values():  # so that each run loads the same compiled code
        part()
    for _ in range(options.steps):
        parts[options.part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A number of steps and nothing else, so that valgrind can count their instructions.

Example:
    export NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES=  # valgrind knows no AVX-512
    python benchmarks/steps.py all 1  # compiles, which is slow under valgrind
    valgrind --tool=cachegrind --cache-sim=no --branch-sim=yes python benchmarks/steps.py all 250

A run with 0 steps gives the baseline to subtract. Each step advances 4,096 games; ``look`` is mask,
observation and payoffs without a move, ``choose`` only draws the actions.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.command_line import Parser

GAMES = 4096


def main() -> int:
    """The command; returns its exit code."""
    parser = Parser(
        prog="python benchmarks/steps.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=["all", "look", "choose"])
    parser.add_argument("steps", type=int)
    parser.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    options = parser.parse_args()
    if options.steps < 0:
        parser.error(f"steps is {options.steps}; allowed: 0 or more")
    batch = GameBatch(GAMES, Variant(num_players=options.num_players), seed=0, autoreset=True)
    rows = np.arange(GAMES)
    parts = {
        "all": lambda: batch.step(batch.random_actions()),
        "look": lambda: batch.look(rows),
        "choose": batch.random_actions,
    }
    for part in parts.values():  # every run loads the same compiled code
        part()
    for _ in range(options.steps):
        parts[options.part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())

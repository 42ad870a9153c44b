"""Solve small variants for two players, and measure how far agents are from equilibrium there.

Example:
    python -m agents.solve random reference --variant 50k

What was found stands in ``docs/solved.md``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import agents
from agents.solve.responses import GROUPS
from agents.solve.solution import Solution, solve
from agents.solve.subgames import Report, check
from alles_kaese_env import Variant
from alles_kaese_env.command_line import INTERRUPTED, Parser, add_variant, progress, variant_of
from alles_kaese_env.files import checked_output
from alles_kaese_env.seeding import as_seed
from alles_kaese_env.variant import whole_number

DEFAULT = "98k"  # the variant


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    names = list(dict.fromkeys(options.agents))
    started = time.monotonic()
    try:
        variant = variant_of(options, DEFAULT)
        check(variant)
        whole_number("--threads", options.threads, 1, 1024)
        whole_number("--draws", options.draws, GROUPS, 10**6)
        if not options.gap > 0:
            raise ValueError(f"--gap is {options.gap}; allowed: a number above 0")
        if options.save:
            checked_output(options.save, "--save")
        table = {name: agents.make(name, variant) for name in names}
        with reporting() as report:
            solution = solve(
                variant,
                table,
                gap=options.gap,
                threads=options.threads,
                draws=options.draws,
                seed=as_seed(options.seed) or 0,
                file=options.save,
                report=report,
            )
    except (ValueError, OSError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        hint = f"; the same command goes on from {options.save}" if options.save else ""
        parser.exit(INTERRUPTED, f"{parser.prog}: interrupted{hint}\n")
    print_solution(solution, variant, time.monotonic() - started)
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python -m agents.solve",
        description="Solve a small variant for two players, and measure how far agents are from "
        "equilibrium on it.",
        epilog="example: python -m agents.solve random reference --variant 98k --row-size 3",
    )
    add = parser.add_argument
    add("agents", nargs="*", metavar="AGENT", help=agents.names())
    add("--gap", type=float, default=1e-4, help="the NashConv to reach (%(default)s)")
    add("--threads", type=int, default=1, help="in parallel (1)")
    add(
        "--draws",
        type=int,
        default=32,
        help="of an agent without known probabilities at each information set (%(default)s)",
    )
    add("--seed", type=int, default=0, help="random seed of such agents (0)")
    add("--save", type=Path, metavar="FILE", help="store what is solved, and go on from it")
    add_variant(parser, DEFAULT)
    return parser


@contextmanager
def reporting() -> Iterator[Report]:
    """Show the progress of each part of the work."""
    with ExitStack() as stack:
        shown = {}

        def report(what: str, done: float, of: float) -> None:
            if (what, of) not in shown:
                stack.close()
                shown[what, of] = stack.enter_context(progress(what, int(of)))
            shown[what, of](int(done))

        yield report


def print_solution(solution: Solution, variant: Variant, seconds: float) -> None:
    """The values, and a line for each agent."""
    print(variant)
    print(
        f"{solution.states:,} states in {solution.subgames:,} subgames with {solution.leaves:,} "
        f"leaves and {solution.sets:,} information sets"
    )
    print(f"solved in {seconds:.1f} s, {solution.iterations:.0f} iterations a leaf")
    print(f"value: seat 0 {solution.value:+.5f}, seat 1 {-solution.value:+.5f}")
    print(f"NashConv of the solution: {solution.gap:.2g}")
    if solution.exploited:
        width = max(10, *(len(name) + 2 for name in solution.exploited))
        heads = f"{'exploitability':>14}{'in seat 0':>12}{'in seat 1':>12}"
        print(f"\n{'agent':<{width}}{heads}  95 % interval")
    for name, one in solution.exploited.items():
        losses = one.responses[1] + solution.value, one.responses[0] - solution.value
        interval = "exact" if one.low == one.high else f"{one.low:.4f} to {one.high:.4f}"
        print(f"{name:<{width}}{one.value:>14.4f}{losses[0]:>12.4f}{losses[1]:>12.4f}  {interval}")


if __name__ == "__main__":
    sys.exit(main())

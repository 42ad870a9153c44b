"""The command line of training: ``python train.py --algo ppo``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from agents.ppo import sb3
from agents.ppo.options import Config, add_options, given_in, new_config, resumed_config
from agents.ppo.run_directory import RunDirectory, RunError
from alles_kaese_env.command_line import Parser, needs_extra


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        return _run(options, parser)
    except (RunError, OSError) as error:  # no good checkpoint, another run, a full disk
        parser.error(str(error))
    except KeyboardInterrupt:
        print("Stopped before the first step; begin again with the same command.")
        return 130


def build_parser() -> argparse.ArgumentParser:
    """The options of ``train.py``; None stands for the default or, resumed, for what it was."""
    parser = Parser(
        prog="train.py",
        description="Train an agent for Alles Käse! by self-play. "
        "With no options: two players, a few minutes on two cores.",
        epilog="example: python train.py --algo ppo --num-players 4 --total-steps 20000000",
    )
    parser.add_argument("--algo", choices=["ppo"], default="ppo", help="learning algorithm (ppo)")
    add_options(parser)
    parser.add_argument("--resume", type=Path, metavar="RUN", help="continue the run in RUN")
    parser.add_argument("--out", type=Path, help="directory of the new run (runs/ppo-...)")
    return parser


def _run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Begin or resume a run."""
    try:
        run, config = _prepare(options)
    except ValueError as error:
        parser.error(str(error))
    train: Callable[[RunDirectory, Config, bool], int] = sb3.train
    if config.engine == "rllib":
        try:
            from agents.ppo import rllib
        except ImportError as error:
            parser.error(needs_extra("--engine rllib", "rllib", error))
        train = rllib.train
    is_resumed = run is not None
    with run or RunDirectory.create(options.out, config) as run:
        if is_resumed:
            run.write_config(config, is_resumed=True)
        return train(run, config, is_resumed)


def _prepare(options: argparse.Namespace) -> tuple[RunDirectory | None, Config]:
    """The run that the options resume, if any, and the configuration.

    Raises:
        ValueError: an option is not what is allowed.
    """
    given = given_in(options)
    if options.resume is None:
        return None, new_config(given)
    if options.out is not None:
        raise ValueError("--out goes with a new run; allowed with --resume: a new --total-steps")
    run, config = RunDirectory.open(options.resume)
    return run, resumed_config(config, given, run.steps())


if __name__ == "__main__":
    sys.exit(main())

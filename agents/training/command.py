"""The command line of training: ``python train.py --algo ppo``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from agents.training import sb3
from agents.training.options import (
    OPTIONS,
    Config,
    RunError,
    as_text,
    flag,
    new_config,
    resumed_config,
)
from agents.training.run_directory import RunDirectory
from alles_kaese_env.command_line import RULE_OPTIONS, Parser, add_variant, needs_extra, variant_of


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except (RunError, OSError) as error:
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
    for name, about in OPTIONS.items():
        default = getattr(Config, name)
        is_list = isinstance(default, tuple)
        parser.add_argument(
            *[flag(name), *([about.alias] if about.alias else [])],
            dest=name,
            type=int if is_list else type(default),
            nargs="+" if is_list else None,
            choices=about.choices or None,
            metavar=None if about.choices else "X",
            help=f"{about.scope()}{about.meaning} ({as_text(default)})".replace("%", "%%"),
        )
    add_variant(parser, has_players=False)
    parser.add_argument("--resume", type=Path, metavar="RUN", help="continue the run in RUN")
    parser.add_argument("--out", type=Path, help="directory of the new run (runs/ppo-...)")
    return parser


def _run(options: argparse.Namespace) -> int:
    """Begin or resume a run."""
    given = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) is not None}
    if "num_players" in given:
        given["num_players"] = tuple(given["num_players"])
    if any(getattr(options, name, None) is not None for name in RULE_OPTIONS.keys() - OPTIONS):
        try:
            given["variant"] = variant_of(options, num_players=2)
        except ValueError as error:
            raise RunError(str(error)) from None
    is_resumed = options.resume is not None
    run: RunDirectory | None = None
    if not is_resumed:
        config = new_config(given)
    elif options.out is not None:
        raise RunError("--out goes with a new run; allowed with --resume: a new --total-steps")
    else:
        run, before = RunDirectory.open(options.resume)
        config = resumed_config(before, given, run.steps())
    train: Callable[[RunDirectory, Config, bool], int] = sb3.train
    if config.engine == "rllib":
        try:
            from agents.training import rllib
        except ImportError as error:
            raise RunError(needs_extra("--engine rllib", "rllib", error)) from None
        train = rllib.train
    with run or RunDirectory.create(options.out, config) as run:
        if is_resumed:
            run.write_config(config, is_resumed=True)
        return train(run, config, is_resumed)


if __name__ == "__main__":
    sys.exit(main())

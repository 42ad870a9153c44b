"""The command line of training, and the run from its options to its report."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tensorboard  # noqa: F401 - missed here, and not when a run directory is made already
import torch
from rich.console import Console
from sb3_contrib import MaskablePPO
from stable_baselines3.common.logger import Logger, make_output_format

import agents
from agents.command_line import Parser
from agents.ppo import PPOAgent
from agents.training.callbacks import Checkpoints, Evaluation, ProgressBar, save
from agents.training.config import Config, RunDirectory
from agents.training.report import draw_curves, measure, print_report, write_report
from agents.training.self_play import SelfPlay, network_of
from alles_kaese_env.adapters.sb3 import AllesKaeseVecEnv


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        run, config = prepare(options)
    except ValueError as error:
        parser.error(str(error))
    return train(run, config, is_resumed=options.resume is not None)


def build_parser() -> argparse.ArgumentParser:
    """The options of ``train.py``; None stands for the default or, resumed, for what it was."""
    parser = Parser(
        prog="train.py",
        description="Train an agent for Alles Käse! by self-play. "
        "With no options: two players, a few minutes on two cores.",
        epilog="example: python train.py --algo ppo --num-players 4 --total-steps 20000000",
    )
    default = Config()
    add = parser.add_argument
    add("--algo", choices=["ppo"], default="ppo", help="ppo: MaskablePPO of sb3-contrib")
    add("--num-players", type=int, help=f"2 to 6 ({default.num_players})")
    add("--total-steps", type=int, help=f"decisions of the learner ({default.total_steps:,})")
    add("--num-envs", type=int, help=f"games side by side ({default.num_envs:,})")
    add("--opponents", help=f"self, pool, or an agent such as reference ({default.opponents})")
    add("--seed", type=int, help=f"of everything that is drawn ({default.seed})")
    add("--device", help=f"of the update, as torch names it ({default.device})")
    add("--threads", type=int, help=f"of torch ({default.threads})")
    add("--resume", type=Path, metavar="RUN", help="go on with the run in this directory")
    add("--out", type=Path, help="directory of the new run (runs/ppo-...)")
    return parser


def prepare(options: argparse.Namespace) -> tuple[RunDirectory, Config]:
    """The run directory and the configuration that the options ask for.

    Raises:
        ValueError: an option is not what is allowed.
    """
    names = ("num_players", "total_steps", "num_envs", "opponents", "seed", "device", "threads")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.resume is None:
        config = replace(Config(), **given)
        check(config)
        return RunDirectory.create(options.out, config), config
    if options.out is not None:
        raise ValueError("--out goes with a new run; allowed with --resume: a new --total-steps")
    run, config = RunDirectory.open(options.resume)
    for name in given:
        if name not in ("total_steps", "num_envs", "device", "threads"):
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option} cannot change with --resume; it is {getattr(config, name)}")
    config = replace(config, **given)
    check(config)
    run.write_config(config, is_resumed=True)
    return run, config


def check(config: Config) -> None:
    """Raise `ValueError` for the first option that is not what is allowed."""
    bounds = {
        "num_players": (2, 6),
        "total_steps": (1, 10**12),
        "num_envs": (1, 2**20),
        "threads": (1, 1024),
        "seed": (0, 2**32 - 1),
    }
    for name, (low, high) in bounds.items():
        value = getattr(config, name)
        if not low <= value <= high:
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option} is {value}; allowed: {low} to {high}")
    if config.opponents not in ("self", "pool"):
        try:
            agents.make(config.opponents)
        except ValueError as error:
            raise ValueError(f"--opponents: 'self', 'pool' or an agent; {error}") from None
    try:
        torch.ones(1, device=config.device).item()
    except (RuntimeError, AssertionError, ImportError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"--device is {config.device!r}; allowed: cpu, cuda ({reason})") from None


def train(run: RunDirectory, config: Config, is_resumed: bool = False) -> int:
    """Train to the end, or until Ctrl-C; returns the exit code."""
    torch.set_num_threads(config.threads)
    console = Console(markup=False, soft_wrap=True)  # paths stay as they are, commands whole
    games = AllesKaeseVecEnv(
        config.num_envs, config.num_players, reward=config.reward, seed=config.seed
    )
    model = load_model(run, config, games) if is_resumed else new_model(config, games)
    if is_resumed:
        games.seed(config.seed + model.num_timesteps)  # other deals than those already played
    model.set_logger(make_logger(run))
    evaluation = Evaluation(run, config.num_players, config.total_steps)
    bar = ProgressBar(config.total_steps, evaluation, console)
    self_play = SelfPlay(config.opponents, games, run.pool, config.seed)
    callbacks = [self_play, evaluation, Checkpoints(run, config.total_steps), bar]
    console.print(f"Run directory: {run.path}")
    try:
        steps = max(0, config.total_steps - model.num_timesteps)
        model.learn(steps, callback=callbacks, reset_num_timesteps=not is_resumed, log_interval=1)
        self_play.learned_steps = model.num_timesteps
        save(model, run)
        evaluation.evaluate()
        model.logger.record("time/total_timesteps", model.num_timesteps)
        model.logger.dump(model.num_timesteps)  # of the last update and the last evaluation
        finish(run, config, model, console)
    except KeyboardInterrupt:
        bar.stop()
        model.num_timesteps = self_play.learned_steps  # what was played since is played again
        save(model, run)
        console.print(
            f"Stopped and saved at step {model.num_timesteps:,}. "
            f"Go on with: python train.py --algo ppo --resume {shlex.quote(str(run.path))}"
        )
        return 130
    finally:
        model.logger.close()
    return 0


def finish(run: RunDirectory, config: Config, model: MaskablePPO, console: Console) -> None:
    """Measure what came out, and leave the table and the curves."""
    scores = measure(PPOAgent(network_of(model)), config)
    write_report(run, scores)
    draw_curves(run, config.num_players)
    print_report(scores, config.num_players, console)
    console.print(f"Curves: {run.curves}")
    agent = shlex.quote(f"ppo:{run.path}")
    console.print(f"Play it in the arena: python -m agents.arena {agent} reference")


def new_model(config: Config, games: AllesKaeseVecEnv) -> MaskablePPO:
    """An untrained model."""
    hidden = list(config.hidden)
    return MaskablePPO(
        "MlpPolicy",
        games,
        learning_rate=LinearSchedule(config.learning_rate),
        n_steps=config.n_steps,
        batch_size=min(config.batch_size, config.n_steps * config.num_envs),
        n_epochs=config.n_epochs,
        gamma=1.0,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip_range,
        ent_coef=config.ent_coef,
        policy_kwargs={
            "net_arch": {"pi": hidden, "vf": hidden},
            "activation_fn": torch.nn.ReLU,
        },
        seed=config.seed,
        device=config.device,
    )


def load_model(run: RunDirectory, config: Config, games: AllesKaeseVecEnv) -> MaskablePPO:
    """The model of the last checkpoint: weights, optimizer and step counter."""
    return MaskablePPO.load(run.model, env=games, device=config.device)


class LinearSchedule:
    """A learning rate that falls to 0 in a straight line; a class, so that it can be pickled."""

    def __init__(self, initial: float) -> None:
        self.initial = initial

    def __call__(self, progress_remaining: float) -> float:
        """The rate when this share of the run is left."""
        return self.initial * progress_remaining


def make_logger(run: RunDirectory) -> Logger:
    """CSV and TensorBoard; a resumed run writes files of its own beside the earlier ones."""
    number = len(list(run.path.glob("progress*.csv")))
    suffix = f"-{number + 1}" if number else ""
    formats = [
        make_output_format("csv", str(run.path), suffix),
        make_output_format("tensorboard", str(run.path / "tensorboard"), suffix),
    ]
    return Logger(str(run.path), formats)


if __name__ == "__main__":
    sys.exit(main())

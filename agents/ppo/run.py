"""The command line of training, and the run from its options to its report."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

import tensorboard  # noqa: F401 - missed here, and not when a run directory is made already
import torch
from rich.console import Console
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.logger import Logger, make_output_format
from threadpoolctl import threadpool_limits

import agents
from agents.arena.plots import evaluations_of, learning_curves
from agents.ppo.agent import PPOAgent
from agents.ppo.callbacks import (
    Checkpoints,
    Evaluation,
    ProgressBar,
    Speed,
    save,
)
from agents.ppo.checkpoint import RunError, only_run, restore
from agents.ppo.config import Config, RunDirectory
from agents.ppo.network import SlotPolicy
from agents.ppo.report import measure, print_report, write_report
from agents.ppo.self_play import SelfPlay, games_of, network_of
from alles_kaese_env.command_line import Parser, needs_extra
from alles_kaese_env.envs.sb3 import JoinedVecEnv
from alles_kaese_env.single_seat import REWARDS

ADDRESSES = ("local", "auto")
NETWORKS = {"slots": SlotPolicy, "mlp": MaskableActorCriticPolicy}
NUMBERS: dict[str, tuple[str, float, float]] = {  # options: meaning, least, most
    "total_steps": ("decisions of the learner", 1, 10**12),
    "num_envs": ("games side by side", 1, 2**20),
    "seed": ("of everything that is drawn", 0, 2**32 - 1),
    "threads": ("of torch", 1, 1024),
    "n_steps": ("decisions in each game between two updates", 1, 2**20),
    "batch_size": ("decisions in a step of the update", 2, 2**30),
    "n_epochs": ("passes of an update", 1, 1000),
    "learning_rate": ("at the start; it falls to 0", 0, 1),
    "ent_coef": ("weight of the entropy", 0, 1),
    "gae_lambda": ("of the advantages", 0, 1),
    "clip_range": ("of the ratio of probabilities", 0, 1),
    "hidden": ("units of a layer", 1, 2**14),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.engine == "rllib":
        try:
            from agents.ppo import rllib
        except ImportError as error:
            parser.error(needs_extra("--engine rllib", "rllib", error))
        return rllib.run(options, parser)
    try:
        run, config = prepare(options)
    except ValueError as error:
        parser.error(str(error))
    is_resumed = options.resume is not None
    try:
        with only_run(run.path):
            if is_resumed:
                run.write_config(config, is_resumed=True)
            return train(run, config, is_resumed)
    except (RunError, OSError) as error:  # no good checkpoint, another run, a full disk
        parser.error(str(error))


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
    add("--num-players", type=int, nargs="+", metavar="N", help="2 to 6, or several of them (2)")
    add("--opponents", help=f"self, pool, or an agent such as reference ({default.opponents})")
    add("--against", dest="opponents", metavar="AGENT", help="the same, for a best response")
    add("--network", choices=NETWORKS, help=f"see docs/training.md ({default.network})")
    add("--reward", choices=REWARDS, help=f"see AllesKaeseEnv ({default.reward})")
    for name, (meaning, _, _) in NUMBERS.items():
        value = getattr(default, name)
        add(option_of(name), type=type(value), metavar="X", help=f"{meaning} ({value:,})")
    add("--engine", choices=["sb3", "rllib"], default="sb3", help="who trains (%(default)s)")
    add("--num-env-runners", type=int, metavar="X", help="processes that play, of rllib (1)")
    add("--address", choices=ADDRESSES, help="of the Ray cluster; local starts one here (local)")
    add("--device", help=f"of the update, as torch names it ({default.device})")
    add("--resume", type=Path, metavar="RUN", help="go on with the run in this directory")
    add("--out", type=Path, help="directory of the new run (runs/ppo-...)")
    return parser


def option_of(name: str) -> str:
    """The option for a field of `Config`."""
    return "--" + name.replace("_", "-")


def prepare(
    options: argparse.Namespace, check_engine: Callable[[Config], None] = lambda config: None
) -> tuple[RunDirectory, Config]:
    """The run directory and the configuration that the options ask for.

    Args:
        options: of the command line.
        check_engine: raises `ValueError` where an engine allows less.

    Raises:
        ValueError: an option is not what is allowed.
    """
    names = [field.name for field in fields(Config) if hasattr(options, field.name)]
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if "num_players" in given:
        given["num_players"] = tuple(given["num_players"])
    if options.resume is None:
        config = replace(Config(), **given)
        check(config)
        check_engine(config)
        return RunDirectory.create(options.out, config), config
    if options.out is not None:
        raise ValueError("--out goes with a new run; allowed with --resume: a new --total-steps")
    run, config = RunDirectory.open(options.resume)
    for name in given:
        if name not in ("total_steps", "num_envs", "device", "threads"):
            before = getattr(config, name)
            raise ValueError(f"{option_of(name)} cannot change with --resume; it is {before}")
    config = replace(config, **given)
    check(config)
    check_engine(config)
    return run, config


def check(config: Config) -> None:
    """Raise `ValueError` for the first option that is not what is allowed."""
    for name, (_, low, high) in NUMBERS.items():
        value = getattr(config, name)
        if not low <= value <= high:
            raise ValueError(f"{option_of(name)} is {value}; allowed: {low} to {high}")
    counts = config.num_players
    if len(set(counts)) < len(counts) or not set(counts) <= set(range(2, 7)):
        raise ValueError(
            f"--num-players is {' '.join(map(str, counts))}; allowed: different numbers from 2 to 6"
        )
    if config.num_envs < len(counts):
        raise ValueError(
            f"--num-envs is {config.num_envs}; allowed: at least {len(counts)}, "
            "a game for each number of players"
        )
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
    use_threads(config.threads)
    console = Console(markup=False, soft_wrap=True)  # paths stay as they are, commands whole
    speed = measure_speed(config)
    games = games_of(config)
    model = new_model(config, games)
    if is_resumed:
        restore(model, run.path, config.seed)
    model.set_logger(make_logger(run))
    evaluation = Evaluation(run, config.num_players, config.total_steps)
    bar = ProgressBar(config.total_steps, evaluation, console)
    self_play = SelfPlay(config.opponents, games, run.pool, config.seed)
    callbacks = [self_play, evaluation, Checkpoints(run, config.total_steps), bar]
    steps = max(0, config.total_steps - model.num_timesteps)
    console.print(f"Run directory: {run.path}")
    console.print(f"About {duration(steps / speed)}, at {speed:,.0f} steps a second")
    try:
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


def use_threads(number: int) -> None:
    """How many threads torch has; NumPy, which plays the opponents, gets one.

    Its BLAS lets threads spin after each product, on cores that torch needs then: with two threads
    on two cores that cost a quarter of the speed (``docs/performance.md``).
    """
    torch.set_num_threads(number)
    threadpool_limits(1, user_api="blas")


def measure_speed(config: Config) -> float:
    """Decisions of the learner a second, from a second rollout and update on games of its own."""
    games = games_of(config)
    model = new_model(config, games)
    model.set_logger(Logger(None, []))
    speed = Speed()
    steps = config.num_envs * config.n_steps
    with tempfile.TemporaryDirectory() as pool:
        self_play = SelfPlay(config.opponents, games, Path(pool), config.seed)
        model.learn(config.total_steps + 3 * steps, callback=[self_play, speed])
    return steps / speed.seconds


def duration(seconds: float) -> str:
    """A time in the words of people."""
    minutes = seconds / 60
    if minutes < 1:
        return "a minute at most"
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"


def finish(run: RunDirectory, config: Config, model: MaskablePPO, console: Console) -> None:
    """Measure what came out, and leave the table and the curves."""
    scores = measure(PPOAgent(network_of(model)), config)
    write_report(run, scores)
    learning_curves([evaluations_of(run.evaluations)], run.curves)
    print_report(scores, console)
    console.print(f"Curves: {run.curves}")
    agent = shlex.quote(f"ppo:{run.path}")
    console.print(f"Play it in the arena: python -m agents.arena {agent} reference")


def new_model(config: Config, games: JoinedVecEnv) -> MaskablePPO:
    """An untrained model."""
    return MaskablePPO(
        NETWORKS[config.network],
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
            "net_arch": 2 * [config.hidden],
            "activation_fn": torch.nn.ReLU,
            "optimizer_kwargs": {"fused": True},  # Adam in one pass, a few percent faster
        },
        seed=config.seed,
        device=config.device,
    )


class LinearSchedule:
    """A learning rate that falls to 0 in a straight line; a class, so that it can be pickled."""

    def __init__(self, initial: float) -> None:
        self.initial = initial

    def __call__(self, progress_remaining: float) -> float:
        """The rate when this share of the run is left; the last rollout can go beyond its end."""
        return self.initial * max(0.0, progress_remaining)


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

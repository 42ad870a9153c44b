"""The options of a training run, each declared once.

The command line, the checks, ``config.json`` and the table in the documentation follow from the
fields of `Config`.
"""

from __future__ import annotations

import argparse
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

import torch

import agents
from agents.ppo.network import NETWORKS
from alles_kaese_env.single_seat import REWARDS


@dataclass(frozen=True)
class Option:
    """What the command line knows of a field of `Config`.

    Attributes:
        meaning: one line of help.
        low, high: bounds of a number, both allowed.
        choices: allowed words; any if empty.
        can_change: it may be given together with ``--resume``.
        engine: the only training backend that has it; None for all.
        alias: another flag for it.
    """

    meaning: str
    low: float = 0
    high: float = 1
    choices: tuple[str, ...] = ()
    can_change: bool = False
    engine: str | None = None
    alias: str | None = None


def option(default: Any, meaning: str, **details: Any) -> Any:
    """A field of `Config`; details are those of `Option`."""
    return field(default=default, metadata={"option": Option(meaning, **details)})


@dataclass(frozen=True)
class Config:
    """The options of a run; the defaults are those of a few minutes on two cores."""

    num_players: tuple[int, ...] = option(
        (2,), "one number of players or several, which share the games evenly", low=2, high=6
    )
    total_steps: int = option(
        6_000_000, "decisions of the learner", low=1, high=10**12, can_change=True
    )
    num_envs: int = option(1024, "parallel games", low=1, high=2**20, can_change=True)
    opponents: str = option(
        "pool",
        "self (the present policy), pool (the present policy, past ones and reference), "
        "or an agent such as search:100 or my_module:MyAgent, for a best response to it",
        alias="--against",
    )
    seed: int = option(0, "random seed", high=2**32 - 1)
    device: str = option("cpu", "device of the update, as torch names it", can_change=True)
    threads: int = option(1, "threads of torch", low=1, high=1024, can_change=True)
    n_steps: int = option(32, "decisions in each game between two updates", low=1, high=2**20)
    batch_size: int = option(2048, "decisions in a minibatch", low=2, high=2**30)
    n_epochs: int = option(4, "passes over the data in an update", low=1, high=1000)
    learning_rate: float = option(1e-3, "initial learning rate, annealed linearly to 0")
    ent_coef: float = option(0.01, "weight of the entropy bonus")
    gae_lambda: float = option(0.9, "lambda of generalised advantage estimation")
    clip_range: float = option(0.2, "clipping range of the probability ratio")
    network: str = option(
        "slots",
        "slots (the same weights for every slot of the row) or mlp (two plain networks)",
        choices=tuple(NETWORKS),
    )
    hidden: int = option(128, "units of a layer", low=1, high=2**14)
    reward: str = option("win", "reward of the environment", choices=tuple(REWARDS))
    eval_every: int = option(
        0,
        "decisions between two evaluations, each with a checkpoint; 0: a 20th of the run",
        high=10**12,
        can_change=True,
    )
    eval_games: int = option(
        0,
        "games of an evaluation against each baseline, shared by the numbers of players; "
        "0: by the length of the run, 400 to 4,000",
        high=10**9,
        can_change=True,
    )
    report_games: int = option(
        0,
        "games of the final report for each line; 0: five times those of an evaluation",
        high=10**9,
        can_change=True,
    )
    engine: str = option(
        "sb3",
        "training backend: sb3 (MaskablePPO of sb3-contrib) or rllib (PPO of Ray RLlib)",
        choices=("sb3", "rllib"),
    )
    num_env_runners: int = option(
        1,
        "processes that play; with 0 the learner plays too",
        high=2**20,
        can_change=True,
        engine="rllib",
    )
    address: str = option(
        "local",
        "local starts Ray on this machine, auto joins the cluster that it belongs to",
        choices=("local", "auto"),
        can_change=True,
        engine="rllib",
    )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Config:
        """The inverse of `dataclasses.asdict`; names that are not fields are left out."""
        known = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        return cls(**{**known, "num_players": tuple(known.get("num_players", cls.num_players))})

    @property
    def evaluation_interval(self) -> int:
        """Decisions between two evaluations."""
        return self.eval_every or max(1, self.total_steps // 20)

    @property
    def evaluation_games(self) -> int:
        """Games of an evaluation against each baseline: one for each 500 decisions of the run."""
        return self.eval_games or min(4_000, max(400, self.total_steps // 500))

    @property
    def games_of_report(self) -> int:
        """Games for each line of the final report."""
        return self.report_games or 5 * self.evaluation_games


def flag(name: str) -> str:
    """The command-line flag of a field of `Config`."""
    return "--" + name.replace("_", "-")


def _options() -> list[tuple[Field[Any], Option]]:
    return [(one, one.metadata["option"]) for one in fields(Config)]


def _text(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


# --- The command line --------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each field of `Config`; what is not given is None."""
    for one, about in _options():
        is_list = isinstance(one.default, tuple)
        only = f"with --engine {about.engine}: " if about.engine else ""
        parser.add_argument(
            *[flag(one.name), *([about.alias] if about.alias else [])],
            dest=one.name,
            type=int if is_list else type(one.default),
            nargs="+" if is_list else None,
            choices=about.choices or None,
            metavar=None if about.choices else "X",
            help=f"{only}{about.meaning} ({_text(one.default)})".replace("%", "%%"),
        )


def given_in(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of `Config` that the command line gives."""
    given = {one.name: getattr(arguments, one.name) for one, _ in _options()}
    given = {name: value for name, value in given.items() if value is not None}
    if "num_players" in given:
        given["num_players"] = tuple(given["num_players"])
    return given


def new_config(given: dict[str, Any]) -> Config:
    """The configuration of a new run.

    Raises:
        ValueError: an option is not what is allowed.
    """
    opponents = {"opponents": "self"} if given.get("engine") == "rllib" else {}
    config = replace(Config(), **{**opponents, **given})
    check(config, given)
    return config


def resumed_config(before: Config, given: dict[str, Any], done: int) -> Config:
    """The configuration of a run that goes on.

    Args:
        before: what it was.
        given: what the command line changes.
        done: decisions that the run has made.

    Raises:
        ValueError: an option is not what is allowed, or cannot change.
    """
    for one, about in _options():
        was = getattr(before, one.name)
        if not about.can_change and given.get(one.name, was) != was:
            raise ValueError(f"{flag(one.name)} cannot change with --resume; it is {_text(was)}")
    config = replace(before, **given)
    if "total_steps" in given and config.total_steps < done:
        raise ValueError(
            f"--total-steps is {config.total_steps}; allowed with --resume: at least {done}, "
            "the decisions that the run has made"
        )
    check(config, given)
    return config


# --- The checks --------------------------------------------------------------------------------


def check(config: Config, given: dict[str, Any]) -> None:
    """Raise `ValueError` for the first option that is not what is allowed."""
    for one, about in _options():
        _check_value(flag(one.name), getattr(config, one.name), about)
        if one.name in given and about.engine not in (None, config.engine):
            raise ValueError(f"{flag(one.name)} goes with --engine {about.engine} only")
    _check_games(config)
    if config.engine == "rllib":
        _check_rllib(config)
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


def _check_value(name: str, value: Any, about: Option) -> None:
    if isinstance(value, tuple):
        if len(set(value)) < len(value) or not all(about.low <= one <= about.high for one in value):
            raise ValueError(
                f"{name} is {_text(value)}; allowed: different numbers "
                f"from {about.low} to {about.high}"
            )
    elif isinstance(value, str):
        if about.choices and value not in about.choices:
            raise ValueError(f"{name} is {value}; allowed: {', '.join(about.choices)}")
    elif not about.low <= value <= about.high:
        raise ValueError(f"{name} is {value}; allowed: {about.low} to {about.high}")


def _check_games(config: Config) -> None:
    """The numbers of games and decisions fit together."""
    if config.num_envs < len(config.num_players):
        raise ValueError(
            f"--num-envs is {config.num_envs}; allowed: at least {len(config.num_players)}, "
            "a game for each number of players"
        )
    rollout = config.n_steps * config.num_envs
    if rollout == 1:
        raise ValueError("--n-steps 1 with --num-envs 1 leaves one decision an update; allowed: 2")
    if rollout > config.batch_size and rollout % config.batch_size == 1:
        raise ValueError(  # advantages are divided by the standard deviation of a minibatch
            f"--batch-size is {config.batch_size}; allowed: a number that leaves no minibatch of "
            f"a single decision from the {rollout} of an update (--n-steps times --num-envs)"
        )


def _check_rllib(config: Config) -> None:
    """What ``--engine rllib`` does not have."""
    only = "allowed with --engine rllib"
    if config.num_env_runners > config.num_envs:
        raise ValueError(
            f"--num-env-runners is {config.num_env_runners}; "
            f"allowed: 0 to --num-envs, {config.num_envs}"
        )
    if len(config.num_players) > 1:
        raise ValueError(f"--num-players is {_text(config.num_players)}; {only}: one number")
    if config.opponents == "pool":
        raise ValueError(f"--opponents is pool; {only}: self, or an agent")
    if config.reward != "win":
        raise ValueError(f"--reward is {config.reward}; {only}: win")


# --- The documentation -------------------------------------------------------------------------


def options_table() -> str:
    """All options as a Markdown table."""
    lines = ["| option | default | allowed | meaning |", "|---|---|---|---|"]
    for one, about in _options():
        names = ", ".join(f"`{name}`" for name in (flag(one.name), about.alias) if name)
        allowed = ", ".join(f"`{choice}`" for choice in about.choices)
        if not isinstance(one.default, str):
            allowed = f"{about.low:,} to {about.high:,}"
        only = f"with `--engine {about.engine}`: " if about.engine else ""
        resume = "; may change with `--resume`" if about.can_change else ""
        lines.append(
            f"| {names} | `{_text(one.default)}` | {allowed} | {only}{about.meaning}{resume} |"
        )
    return "\n".join(lines)

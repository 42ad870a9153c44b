"""The options of a training run, each declared once.

The command line, the checks, ``config.json`` and the table in the documentation follow from the
fields of `Config`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import psutil
import torch

import agents
from agents.ppo.agent import PPOAgent, has_q_values
from agents.ppo.network import NETWORKS, load_network, new_policy
from agents.solve.subgames import check as check_solvable
from alles_kaese_env.command_line import usable_cores
from alles_kaese_env.single_seat import REWARDS
from alles_kaese_env.variant import Variant

ON_POLICY = ("ppo", "mmd", "psro")
OFF_POLICY = ("dqn", "nfsp")  # algorithms that learn from a replay buffer
ONE_PROCESS = (*OFF_POLICY, "psro")  # algorithms without workers
REUSED: dict[str, Any] = {  # of what learns from each decision several times
    "total_steps": 6_000_000,
    "batch_size": 2048,
    "n_epochs": 4,
    "learning_rate": 1e-3,
}
DEFAULTS: dict[str, dict[str, Any]] = {  # of algorithms, where they differ from those of `Config`
    "mmd": REUSED | {"opponents": "self", "ent_coef": 0.05},
    "dqn": REUSED | {"opponents": "self", "n_steps": 8, "batch_size": 512},
    "nfsp": REUSED | {"opponents": "self", "n_steps": 2, "batch_size": 512, "target_every": 4096},
    "psro": REUSED,
}
DEFAULTS_OF_RLLIB: dict[str, Any] = REUSED | {"opponents": "self"}
MOST_CARDS = 12  # of the largest variant that was solved

# From here on another worker pays, see docs/performance.md.
STEPS_THAT_PAY = 500_000  # in a run: it takes seconds to start a worker
GAMES_THAT_PAY, BATCH_THAT_PAYS = 128, 256  # of a minibatch, for each worker
SECONDS_OF_LOAD = 0.5  # over which other processes are watched


class RunError(ValueError):
    """What ends a run in one line."""


class WorkerLostError(RuntimeError):
    """The workers of a run cannot go on, since one of them has ended."""


@dataclass(frozen=True)
class Option:
    """What the command line knows of a field of `Config`.

    Attributes:
        meaning: one line of help.
        low, high: bounds of a number, both allowed.
        choices: allowed words; any if empty.
        can_change: it may be given together with ``--resume``.
        engine: the only training backend that has it; None for all.
        algos: the only algorithms that have it; all if empty.
        alias: another flag for it.
    """

    meaning: str
    low: float = 0
    high: float = 1
    choices: tuple[str, ...] = ()
    can_change: bool = False
    engine: str | None = None
    algos: tuple[str, ...] = ()
    alias: str | None = None

    def scope(self, quote: str = "") -> str:
        """With what the option goes, in words that stand before its meaning."""
        only = f"--engine {self.engine}" if self.engine else ""
        only = f"--algo {' or '.join(self.algos)}" if self.algos else only
        return f"with {quote}{only}{quote}: " if only else ""


def option(default: Any, meaning: str, **details: Any) -> Any:
    """A field of `Config`; details are those of `Option`."""
    return field(default=default, metadata={"option": Option(meaning, **details)})


@dataclass(frozen=True)
class Config:
    """The options of a run; the defaults are those of a few minutes on two cores."""

    algo: str = option(
        "ppo",
        "learning algorithm: ppo (MaskablePPO of sb3-contrib), mmd (magnetic mirror descent), "
        "dqn (masked double DQN), nfsp (neural fictitious self-play) or psro (policy-space "
        "response oracles)",
        choices=agents.TRAINED,
    )
    num_players: tuple[int, ...] = option(
        (2,), "one number of players or several, which share the games evenly", low=2, high=6
    )
    total_steps: int = option(
        12_000_000, "decisions of the learner", low=1, high=10**12, can_change=True
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
    workers: int = option(
        0,
        "processes that play and learn as one, each with its share of the games; 0: one for each "
        "core that this process may use and others leave idle at the start, fewer where more would "
        "not pay",
        high=1024,
        can_change=True,
        engine="sb3",
    )
    threads: int = option(1, "threads of torch in each worker", low=1, high=1024, can_change=True)
    n_steps: int = option(32, "decisions in each game between two updates", low=1, high=2**20)
    batch_size: int = option(1024, "decisions in a minibatch", low=2, high=2**30)
    n_epochs: int = option(
        1,
        "passes over the data in an update; of dqn and nfsp how often a decision is replayed",
        low=1,
        high=1000,
    )
    learning_rate: float = option(3e-3, "initial learning rate, annealed linearly to 0")
    ent_coef: float = option(
        0.01, "weight of the entropy bonus; with mmd it goes linearly to 0", algos=ON_POLICY
    )
    kl_coef: float = option(
        0.05, "weight of the divergence from the policy that played", high=10, algos=("mmd",)
    )
    gae_lambda: float = option(0.9, "lambda of generalised advantage estimation", algos=ON_POLICY)
    clip_range: float = option(0.2, "clipping range of the probability ratio", algos=ON_POLICY)
    buffer_size: int = option(
        200_000, "decisions in the replay buffer, 1 kB each", low=2, high=2**30, algos=OFF_POLICY
    )
    target_every: int = option(
        65_536,
        "decisions between two renewals of the target network",
        low=1,
        high=10**12,
        algos=OFF_POLICY,
    )
    epsilon: float = option(
        0.1, "initial probability of a random action, which goes linearly to 0", algos=OFF_POLICY
    )
    eta: float = option(
        0.3, "probability that a seat plays the best response in a game", algos=("nfsp",)
    )
    reservoir_size: int = option(
        500_000,
        "best responses that the average policy learns from, half a kB each",
        low=1,
        high=2**30,
        algos=("nfsp",),
    )
    iteration_steps: int = option(
        200_000,
        "decisions until a best response joins the pool",
        low=1,
        high=10**12,
        algos=("psro",),
    )
    games_per_pair: int = option(
        0,
        "games that estimate the payoff of two policies of the pool; 0: exact on a variant that "
        "can be solved, else 2,000",
        high=10**9,
        algos=("psro",),
    )
    network: str = option(
        "slots",
        "slots (the same weights for every slot of the row) or mlp (two plain networks)",
        choices=tuple(NETWORKS),
    )
    hidden: int = option(128, "units of a layer", low=1, high=2**14)
    init: str = option(
        "none",
        "agent whose weights a new run begins with: ppo or ppo:RUN, also a file such as "
        "ppo:RUN/best.npz; none: random weights",
        engine="sb3",
        algos=ON_POLICY,
    )
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
    exploitability_every: int = option(
        0,
        "decisions between two exact measurements of the exploitability of the sampled policy, on "
        "a variant that can be solved; 0: none",
        high=10**12,
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

    variant: Variant = field(default_factory=Variant)  # whose number of players does not count

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Config:
        """The inverse of `dataclasses.asdict`; names that are not fields are left out."""
        known = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        known["num_players"] = tuple(known.get("num_players", cls.num_players))
        return cls(**{**known, "variant": Variant(**known.get("variant", {}))})

    def rules(self, num_players: int) -> Variant:
        """The rules with so many players."""
        return replace(self.variant, num_players=num_players)

    @property
    def rules_of_agents(self) -> Variant | None:
        """What agents are told: None for the default rules with several numbers of players."""
        return self.rules(self.num_players[0]) if len(self.num_players) == 1 else None

    @property
    def is_greedy_only(self) -> bool:
        """Whether the policy is one of Q-values, which are no logits of probabilities."""
        return self.algo == "dqn"

    @property
    def number_of_workers(self) -> int:
        """Processes that learn as one."""
        if self.workers:
            return self.workers
        if self.algo in ONE_PROCESS:
            return 1
        if self.engine != "sb3" or self.device != "cpu" or self.total_steps < STEPS_THAT_PAY:
            return 1
        pays = min(self.num_envs // GAMES_THAT_PAY, self.batch_size // BATCH_THAT_PAYS)
        return max(1, min(idle_cores() // self.threads, pays))

    def of_worker(self, rank: int) -> Config:
        """What the worker of that rank plays: its share of the games."""
        share, more = divmod(self.num_envs, self.number_of_workers)
        return replace(self, num_envs=share + (rank < more))

    @property
    def evaluation_interval(self) -> int:
        """Decisions between two evaluations."""
        return self.eval_every or max(1, self.total_steps // 20)

    @property
    def evaluation_games(self) -> int:
        """Games of an evaluation against each baseline: one for each 500 decisions of the run."""
        return self.eval_games or min(4_000, max(400, self.total_steps // 500))

    @property
    def games_of_pair(self) -> int:
        """Games that estimate the payoff of two policies of a pool; 0 where it is computed."""
        return self.games_per_pair or (0 if is_solvable(self.rules(2)) else 2_000)

    @property
    def games_of_report(self) -> int:
        """Games for each line of the final report."""
        return self.report_games or 5 * self.evaluation_games


@cache
def idle_cores() -> int:
    """Cores that this process may use and that other processes leave idle; at least one.

    Looked up once, so that everything in a run goes by the same number. Beside a process that
    keeps a core busy, a worker on that core costs the others more than it adds.
    """
    shares = psutil.cpu_percent(SECONDS_OF_LOAD, percpu=True)
    own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(shares))
    idle = sum(1 - shares[core] / 100 for core in own if core < len(shares))
    return max(1, min(usable_cores(), round(idle)))


def flag(name: str) -> str:
    """The command-line flag of a field of `Config`."""
    return "--" + name.replace("_", "-")


OPTIONS: dict[str, Option] = {
    one.name: one.metadata["option"] for one in fields(Config) if one.metadata
}


def as_text(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def new_config(given: dict[str, Any]) -> Config:
    """The configuration of a new run.

    Raises:
        RunError: an option is not what is allowed.
    """
    of_engine = DEFAULTS_OF_RLLIB if given.get("engine") == "rllib" else {}
    defaults = of_engine | DEFAULTS.get(given.get("algo", ""), {})
    config = replace(Config(), **{**defaults, **given})
    check(config, given)
    if config.init != "none":
        load_init(config, new_policy(config.network, config.hidden))
    return config


def resumed_config(before: Config, given: dict[str, Any], done: int) -> Config:
    """The configuration of a run that goes on.

    Args:
        before: what it was.
        given: what the command line changes.
        done: decisions that the run has made.

    Raises:
        RunError: an option is not what is allowed, or cannot change.
    """
    if "init" in given:
        raise RunError("--init goes with a new run; --resume goes on with the weights of its own")
    for name, about in OPTIONS.items():
        was = getattr(before, name)
        if not about.can_change and given.get(name, was) != was:
            raise RunError(f"{flag(name)} cannot change with --resume; it is {as_text(was)}")
    if given.get("variant", before.variant) != before.variant:
        raise RunError(f"--variant cannot change with --resume; it is {before.variant}")
    config = replace(before, **given)
    if "total_steps" in given and config.total_steps < done:
        raise RunError(
            f"--total-steps is {config.total_steps}; allowed with --resume: at least {done}, "
            "the decisions that the run has made"
        )
    check(config, given)
    return config


def check(config: Config, given: dict[str, Any]) -> None:
    """Raise `RunError` for the first option that is not what is allowed."""
    for name, about in OPTIONS.items():
        _check_value(flag(name), getattr(config, name), about)
        if name in given and about.engine not in (None, config.engine):
            raise RunError(f"{flag(name)} goes with --engine {about.engine} only")
        if name in given and about.algos and config.algo not in about.algos:
            raise RunError(f"{flag(name)} goes with --algo {' or '.join(about.algos)} only")
    _check_games(config)
    _check_workers(config)
    if config.engine == "rllib":
        _check_rllib(config)
    if config.algo in OFF_POLICY:
        _check_off_policy(config)
    if config.algo == "psro":
        _check_psro(config)
    if config.opponents not in ("self", "pool"):
        try:
            agents.make(config.opponents, config.rules_of_agents)
        except ValueError as error:
            raise RunError(f"--opponents: 'self', 'pool' or an agent; {error}") from None
    try:
        torch.ones(1, device=config.device).item()
    except (RuntimeError, AssertionError, ImportError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"--device is {config.device!r}; allowed: cpu, cuda ({reason})") from None


def load_init(config: Config, policy: torch.nn.Module) -> None:
    """Put the weights that a run begins with into its policy.

    Raises:
        RunError: the agent has no network, one of another shape, or was trained by other rules.
    """
    try:
        agent = agents.make(config.init, config.rules(config.num_players[0]))
        if not isinstance(agent, PPOAgent):
            raise ValueError("it has no network; allowed: ppo or ppo:RUN")
        if has_q_values(agent.metadata):
            raise ValueError("it has Q-values; allowed: a policy, such as ppo or nfsp:RUN")
        load_network(policy, agent.network)
    except ValueError as error:
        shape = f"--network {config.network} --hidden {config.hidden}"
        raise RunError(f"--init is {config.init}, with {shape}: {error}") from None


def _check_value(name: str, value: Any, about: Option) -> None:
    if isinstance(value, tuple):
        if len(set(value)) < len(value) or not all(about.low <= one <= about.high for one in value):
            raise RunError(
                f"{name} is {as_text(value)}; allowed: different numbers "
                f"from {about.low} to {about.high}"
            )
    elif isinstance(value, str):
        if about.choices and value not in about.choices:
            raise RunError(f"{name} is {value}; allowed: {', '.join(about.choices)}")
    elif not about.low <= value <= about.high:
        raise RunError(f"{name} is {value}; allowed: {about.low} to {about.high}")


def _check_games(config: Config) -> None:
    """The numbers of games and decisions fit together."""
    if config.num_envs < len(config.num_players):
        raise RunError(
            f"--num-envs is {config.num_envs}; allowed: at least {len(config.num_players)}, "
            "a game for each number of players"
        )
    if len(config.num_players) > 1 and config.rules(2) != Variant():
        raise RunError(
            f"--num-players is {as_text(config.num_players)}; allowed with other rules than those "
            "of --variant full: one number"
        )
    if config.exploitability_every:
        _check_exploitability(config.rules(config.num_players[-1]))
    rollout = config.n_steps * config.num_envs
    if rollout == 1:
        raise RunError("--n-steps 1 with --num-envs 1 leaves one decision an update; allowed: 2")
    if rollout > config.batch_size and rollout % config.batch_size == 1:
        raise RunError(  # advantages are divided by the standard deviation of a minibatch
            f"--batch-size is {config.batch_size}; allowed: a number that leaves no minibatch of "
            f"a single decision from the {rollout} of an update (--n-steps times --num-envs)"
        )


def is_solvable(rules: Variant) -> bool:
    """Whether best responses can be computed in reasonable time."""
    try:
        _check_exploitability(rules)
    except RunError:
        return False
    return True


def _check_exploitability(rules: Variant) -> None:
    """Best responses go through the whole game."""
    try:
        check_solvable(rules)
    except ValueError as error:
        raise RunError(f"--exploitability-every: {error}") from None
    if len(rules.deck) > MOST_CARDS:
        raise RunError(
            f"--exploitability-every goes with {MOST_CARDS} cards at most, these rules have "
            f"{len(rules.deck)}; allowed: such as --variant 17m"
        )


def _check_workers(config: Config) -> None:
    """Each worker has games of every kind and a part of every minibatch, on the processor."""
    most = max(1, min(config.num_envs // len(config.num_players), config.batch_size // 2))
    if config.workers > most:
        raise RunError(
            f"--workers is {config.workers}; allowed: 0 to {most}, a game for each number of "
            "players and two decisions of a minibatch for each worker"
        )
    if config.workers > 1 and config.device != "cpu":
        raise RunError(f"--workers is {config.workers}; allowed with --device {config.device}: 1")
    if config.workers > 1 and config.algo in ONE_PROCESS:
        raise RunError(f"--workers is {config.workers}; allowed with --algo {config.algo}: 1")


def _check_off_policy(config: Config) -> None:
    """What algorithms with a replay buffer do not have."""
    only = f"allowed with --algo {config.algo}"
    if config.opponents == "pool":
        raise RunError(f"--opponents is pool; {only}: self, or an agent")
    if config.buffer_size < 2 * config.num_envs:
        raise RunError(
            f"--buffer-size is {config.buffer_size}; allowed: at least two decisions for each of "
            f"--num-envs, {2 * config.num_envs}"
        )


def _check_psro(config: Config) -> None:
    """What policy-space response oracles do not have."""
    only = "allowed with --algo psro"
    if config.num_players != (2,):
        number = as_text(config.num_players)
        raise RunError(f"--num-players is {number}; {only}: 2, its linear program is for two")
    if config.opponents != "pool":
        raise RunError(f"--opponents is {config.opponents}; {only}: pool")
    rollout = config.n_steps * config.num_envs
    if config.iteration_steps < rollout:
        raise RunError(
            f"--iteration-steps is {config.iteration_steps}; allowed: at least the {rollout} "
            "decisions of an update (--n-steps times --num-envs)"
        )


def _check_rllib(config: Config) -> None:
    """What ``--engine rllib`` does not have."""
    only = "allowed with --engine rllib"
    if config.algo != "ppo":
        raise RunError(f"--algo is {config.algo}; {only}: ppo")
    if config.num_env_runners > config.num_envs:
        raise RunError(
            f"--num-env-runners is {config.num_env_runners}; "
            f"allowed: 0 to --num-envs, {config.num_envs}"
        )
    if len(config.num_players) > 1:
        raise RunError(f"--num-players is {as_text(config.num_players)}; {only}: one number")
    if config.opponents == "pool":
        raise RunError(f"--opponents is pool; {only}: self, or an agent")
    if config.reward != "win":
        raise RunError(f"--reward is {config.reward}; {only}: win")

"""Self-play on this machine with stable-baselines3: ``--engine sb3``, the default."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import tensorboard  # noqa: F401 - missed here, and not when a run directory is made already
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, make_output_format
from stable_baselines3.common.utils import LinearSchedule
from threadpoolctl import threadpool_limits

from agents.ppo.agent import PolicyNetwork
from agents.ppo.network import NETWORKS, architecture, network_of
from agents.training.dqn import DQN, MaskedReplayBuffer, QPolicy, SelfPlayOfDQN
from agents.training.mmd import MMD
from agents.training.nfsp import NFSP
from agents.training.options import OFF_POLICY, Config, load_init
from agents.training.psro import PSRO, SelfPlayOfPSRO
from agents.training.run_directory import RunDirectory
from agents.training.self_play import SelfPlay, games_of
from agents.training.training import Learner, Training
from agents.training.workers import Exchange, LearnTogether, workers
from alles_kaese_env.envs.sb3 import JoinedVecEnv
from alles_kaese_env.seeding import seed_of

Model: TypeAlias = "MaskablePPO | DQN"
COUNTERS = ("num_timesteps", "_n_updates")


def train(run: RunDirectory, config: Config, is_resumed: bool = False) -> int:
    """Train to the end, or until Ctrl-C; returns the exit code.

    Raises:
        RunError: there is no good checkpoint to continue from.
    """
    use_threads(config.threads)
    games = games_of(config.of_worker(0))
    model = new_model(config, games)
    if config.init != "none" and not is_resumed:
        load_init(config, model.policy)

    def learn(training: Training) -> None:
        model.set_logger(make_logger(run))
        try:
            with others(model, config, run.pool) as together:
                learn_on(
                    model,
                    config,
                    [self_play(config, games, run.pool), *together, Monitor(training)],
                )
        except KeyboardInterrupt:
            model.num_timesteps = training.learned  # what was played since is played again
            raise
        finally:
            model.logger.close()

    learner = Learner(
        ".zip",
        steps=lambda: model.num_timesteps,
        network=lambda: network_to_play(model),
        write=model.save,
        load=partial(load, model, seed=config.seed),
    )
    return Training(run, config, learner, is_resumed).train(learn)


def self_play(config: Config, games: JoinedVecEnv, pool: Path) -> SelfPlay:
    """What keeps the opponents up to date."""
    kind: Callable[..., SelfPlay] = SelfPlayOfDQN if config.algo in OFF_POLICY else SelfPlay
    if config.algo == "psro":
        kind = partial(SelfPlayOfPSRO, config.games_of_pair)
    return kind(config.opponents, games, pool, config.seed)


@contextmanager
def others(model: MaskablePPO, config: Config, pool: Path) -> Iterator[list[BaseCallback]]:
    """The other workers of a run, at work from where a model stands.

    Yields:
        The callbacks with which the model learns together with them; none for a single worker.
    """
    config = replace(config, workers=config.number_of_workers)  # the same one in each process
    number = config.workers
    if number == 1 or model.num_timesteps >= config.total_steps:
        yield []
        return
    print(f"{number} workers learn as one (--workers)", flush=True)
    start = io.BytesIO()
    model.save(start)
    size = LearnTogether.size_of_exchange(config, model.policy)
    with workers(number, size, work, config, pool, start.getvalue()) as exchange:
        yield [LearnTogether(exchange, config)]


def work(exchange: Exchange, config: Config, pool: Path, start: bytes) -> None:
    """What a worker other than the first does.

    Args:
        exchange: of this worker.
        config: of the run.
        pool: directory of past policies, which the first worker keeps.
        start: the checkpoint that the first worker begins with.
    """
    use_threads(config.threads)
    games = games_of(config.of_worker(exchange.rank))
    model = new_model(config, games)
    load(model, io.BytesIO(start), config.seed, exchange.rank)
    model.set_logger(Logger(None, []))
    self_play = SelfPlay(config.opponents, games, pool, config.seed, writes=False)
    learn_on(model, config, [self_play, LearnTogether(exchange, config)])


def learn_on(model: Model, config: Config, callbacks: list[BaseCallback]) -> None:
    """Learn what is left of a run."""
    left = max(0, config.total_steps - model.num_timesteps)
    model.learn(left, callback=callbacks, reset_num_timesteps=False, log_interval=1)


def use_threads(number: int) -> None:
    """How many threads torch has; NumPy, which plays the opponents, gets one.

    Its BLAS lets threads spin after each product, on cores that torch needs then: with two threads
    on two cores that cost a quarter of the speed (``docs/performance.md``).
    """
    torch.set_num_threads(number)
    threadpool_limits(1, user_api="blas")


def network_to_play(model: Model) -> PolicyNetwork:
    """A frozen copy of the policy that a model leaves."""
    return model.network() if isinstance(model, (DQN, PSRO)) else network_of(model.policy)


def new_model(config: Config, games: JoinedVecEnv) -> Any:
    """An untrained model."""
    return new_dqn(config, games) if config.algo in OFF_POLICY else new_ppo(config, games)


def new_ppo(config: Config, games: JoinedVecEnv) -> MaskablePPO:
    """An untrained model of PPO or MMD."""
    kind: Callable[..., MaskablePPO] = MaskablePPO
    if config.algo == "mmd":
        kind = partial(MMD, alpha=config.ent_coef, kl_coef=config.kl_coef)
    annealed = config.total_steps
    if config.algo == "psro":
        annealed = config.iteration_steps
        kind = partial(PSRO, iteration_steps=annealed)
    # The library asks after a rollout for the rate, so the last update would be one at 0.
    last = min(1.0, config.n_steps * config.num_envs / annealed)
    return kind(
        NETWORKS[config.network],
        games,
        learning_rate=LinearSchedule(config.learning_rate, last * config.learning_rate, 1.0),
        n_steps=config.n_steps,
        batch_size=min(config.batch_size, config.n_steps * config.num_envs),
        n_epochs=config.n_epochs,
        gamma=1.0,
        gae_lambda=config.gae_lambda,
        clip_range=config.clip_range,
        ent_coef=config.ent_coef,
        policy_kwargs={
            **architecture(config.hidden),
            "optimizer_kwargs": {"fused": True},  # Adam in one pass, a few percent faster
        },
        seed=config.seed,
        device=config.device,
    )


def new_dqn(config: Config, games: JoinedVecEnv) -> DQN:
    """An untrained model of DQN or NFSP."""
    kind: Callable[..., DQN] = DQN
    if config.algo == "nfsp":
        kind = partial(NFSP, eta=config.eta, reservoir_size=config.reservoir_size)
    rollout = config.n_steps * config.num_envs
    return kind(
        QPolicy,
        games,
        learning_rate=LinearSchedule(config.learning_rate, 0.0, 1.0),
        buffer_size=config.buffer_size,
        replay_buffer_class=MaskedReplayBuffer,
        learning_starts=0,
        batch_size=config.batch_size,
        gamma=1.0,
        train_freq=(config.n_steps, "step"),
        gradient_steps=max(1, config.n_epochs * rollout // config.batch_size),
        target_update_interval=max(config.target_every, config.num_envs),
        exploration_fraction=1.0,
        exploration_initial_eps=config.epsilon,
        exploration_final_eps=0.0,
        policy_kwargs={
            "network": config.network,
            **architecture(config.hidden),
            "optimizer_kwargs": {"fused": True},
        },
        seed=config.seed,
        device=config.device,
    )


def make_logger(run: RunDirectory) -> Logger:
    """CSV and TensorBoard; a resumed run writes files of its own beside the earlier ones."""
    number = len(list(run.path.glob("progress*.csv")))
    suffix = f"-{number + 1}" if number else ""
    formats = [
        make_output_format("csv", str(run.path), suffix),
        make_output_format("tensorboard", str(run.path / "tensorboard"), suffix),
    ]
    return Logger(str(run.path), formats)


class Monitor(BaseCallback):
    """Saves, evaluates and shows progress between rollouts."""

    def __init__(self, training: Training) -> None:
        super().__init__()
        self._training = training

    def _on_training_start(self) -> None:
        self._record(self._training.evaluate())

    def _on_rollout_start(self) -> None:
        self._record(self._training.between_rollouts())

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._training.show_progress()

    def _on_training_end(self) -> None:
        self._record(self._training.between_rollouts(is_end=True))
        self.logger.record("time/total_timesteps", self.model.num_timesteps)
        self.logger.dump(self.model.num_timesteps)

    def _record(self, figures: dict[str, float]) -> None:
        """Log an evaluation at its own step; the logger of the model waits for the next rollout."""
        if figures:
            steps = self.model.num_timesteps
            logger = Logger(None, self.logger.output_formats)
            for name, figure in {**figures, "time/total_timesteps": steps}.items():
                logger.record(name, figure)
            logger.dump(steps)


def load(model: Model, file: Path | io.BytesIO, seed: int, rank: int = 0) -> None:
    """Load weights, optimizer and counters of a checkpoint into a new model.

    Nothing is unpickled: the model is built from ``config.json``, and torch loads weights only.
    All random streams (games, sampling, minibatches) begin anew, from the seed and the number of
    steps, so that a checkpoint always continues in the same way, and with new deals.

    Args:
        model: as it was when the run began.
        file: the checkpoint.
        seed: of the run.
        rank: of the worker; each plays games of its own.

    Raises:
        Exception: whatever torch, zipfile and json raise for a broken file.
    """
    with zipfile.ZipFile(file) as archive:
        broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"{broken} is broken")
        data: dict[str, Any] = json.loads(archive.read("data"))
    counters = {name: data[name] for name in COUNTERS}
    if any(type(value) is not int or value < 0 for value in counters.values()):
        raise ValueError(f"counters are {counters}")
    model.set_parameters(file, device=model.device)  # type: ignore[arg-type]
    if isinstance(model, (NFSP, PSRO)):
        model.load_rest(file)
    for counter, value in counters.items():
        setattr(model, counter, value)
    own = (seed + counters["num_timesteps"]) % 2**32
    model.set_random_seed(seed_of(own, rank) if rank else own)

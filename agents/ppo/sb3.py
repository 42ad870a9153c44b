"""PPO of sb3-contrib by self-play on this machine: ``train.py --engine sb3``, the default."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorboard  # noqa: F401 - missed here, and not when a run directory is made already
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, make_output_format
from stable_baselines3.common.utils import LinearSchedule
from threadpoolctl import threadpool_limits

from agents.ppo.agent import PPOAgent
from agents.ppo.evaluation import Evaluator, Speed, report
from agents.ppo.network import NETWORKS, network_of
from agents.ppo.options import Config
from agents.ppo.run_directory import RunDirectory, RunError
from agents.ppo.self_play import SelfPlay, games_of
from alles_kaese_env.command_line import progress
from alles_kaese_env.envs.sb3 import JoinedVecEnv

COUNTERS = ("num_timesteps", "_n_updates")


def train(run: RunDirectory, config: Config, is_resumed: bool = False) -> int:
    """Train to the end, or until Ctrl-C; returns the exit code.

    Raises:
        RunError: there is no good checkpoint to go on from.
    """
    use_threads(config.threads)
    games = games_of(config)
    model = new_model(config, games)
    if is_resumed:
        restore(model, run, config.seed)
    else:
        save(model, run)  # so that a run that ends early can be resumed
    evaluator = Evaluator(run, config)
    self_play = SelfPlay(config.opponents, games, run.pool, config.seed)
    self_play.learned_steps = model.num_timesteps
    model.set_logger(make_logger(run))
    print(f"Run directory: {run.path}", flush=True)
    try:
        with progress("steps", config.total_steps, model.num_timesteps, sys.stdout) as show:
            steps = max(0, config.total_steps - model.num_timesteps)
            callbacks = [self_play, Monitor(run, config, evaluator, show)]
            model.learn(
                steps, callback=callbacks, reset_num_timesteps=not is_resumed, log_interval=1
            )
            self_play.learned_steps = model.num_timesteps
            save(model, run)
            evaluate(model, evaluator)
        model.logger.record("time/total_timesteps", model.num_timesteps)
        model.logger.dump(model.num_timesteps)  # of the last update and the last evaluation
        report(run, config, network_of(model.policy))
    except KeyboardInterrupt:
        model.num_timesteps = self_play.learned_steps  # what was played since is played again
        save(model, run)
        print(f"Stopped and saved at step {model.num_timesteps:,}. Go on with:", run.resume_command)
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


def new_model(config: Config, games: JoinedVecEnv) -> MaskablePPO:
    """An untrained model."""
    return MaskablePPO(
        NETWORKS[config.network],
        games,
        learning_rate=LinearSchedule(config.learning_rate, 0.0, 1.0),
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
    """Saves and evaluates the model, and shows how far it is, before each rollout."""

    def __init__(
        self,
        run: RunDirectory,
        config: Config,
        evaluator: Evaluator,
        show: Callable[..., None],
    ) -> None:
        super().__init__()
        self._run = run
        self._every = config.evaluation_interval
        self._evaluator = evaluator
        self._show = show

    def _on_training_start(self) -> None:
        self._next_save = self._next(self.model.num_timesteps)
        self._next_evaluation = self._next_save - self._every
        self._speed = Speed(self.model.num_timesteps)

    def _next(self, steps: int) -> int:
        """The first multiple of the interval after so many steps."""
        return (steps // self._every + 1) * self._every

    def _on_rollout_start(self) -> None:
        steps = self.model.num_timesteps
        if steps >= self._next_save:
            self._next_save = self._next(steps)
            save(self.model, self._run)
        if steps >= self._next_evaluation:
            self._next_evaluation = self._next(steps)
            evaluate(self.model, self._evaluator)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        steps = self.model.num_timesteps
        speed = f"{self._speed.mean(steps):,.0f} steps/s"
        self._show(steps, f"{speed}  {self._evaluator.summary()}")
        if warning := self._speed.warning(steps):
            print(warning, flush=True)


def evaluate(model: Any, evaluator: Evaluator) -> None:
    """Measure the present policy; the figures go to the logger too."""
    for name, share in evaluator.evaluate(network_of(model.policy), model.num_timesteps).items():
        model.logger.record(name, share)


# --- Checkpoints -------------------------------------------------------------------------------


def save(model: Any, run: RunDirectory) -> None:
    """Write the checkpoint and the policy."""
    run.save(model.save, ".zip", PPOAgent(network_of(model.policy)), model.num_timesteps)


def restore(model: MaskablePPO, run: RunDirectory, seed: int) -> str:
    """Take weights, optimizer and counters of the last good checkpoint into a new model.

    Nothing is unpickled: the model is built from ``config.json``, and torch loads weights only.
    All random streams (games, sampling, minibatches) begin anew, from the seed and the number of
    steps, so that a checkpoint goes on in one way alone, and with other deals than before it.

    Args:
        model: as it was when the run began.
        run: where the checkpoints are.
        seed: of the run.

    Returns:
        The name of the file that was read.

    Raises:
        RunError: there is no good checkpoint.
    """
    reasons = []
    for file in run.checkpoints():
        try:
            counters = _load(model, file)
        except Exception as error:  # torch, zipfile and json raise anything for half a file
            reason = " ".join(str(error).split())[:120] or type(error).__name__
            reasons.append(f"{file.name}: {reason}")
            continue
        for counter, value in counters.items():
            setattr(model, counter, value)
        model.set_random_seed((seed + counters["num_timesteps"]) % 2**32)
        return file.name
    raise RunError(f"{run.path} has no good checkpoint ({'; '.join(reasons)})")


def _load(model: MaskablePPO, file: Path) -> dict[str, int]:
    """Set the parameters of a model; returns its counters."""
    with zipfile.ZipFile(file) as archive:
        broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"{broken} is broken")
        data: dict[str, Any] = json.loads(archive.read("data"))
    counters = {name: data[name] for name in COUNTERS}
    if any(type(value) is not int or value < 0 for value in counters.values()):
        raise ValueError(f"counters are {counters}")
    model.set_parameters(str(file), device=model.device)
    return counters

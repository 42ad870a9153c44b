"""PPO of Ray RLlib by self-play, on one machine or on a cluster: ``train.py --engine rllib``.

The network is that of the other engine, weight by weight, and so are evaluations, report and run
directory. What differs is who learns: here all seats of a game play the present policy, and the
decisions of all of them train it.
"""

from __future__ import annotations

import argparse
import logging
import pickle
import shlex
import zlib
from functools import partial
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import ray
import torch
import tree
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.torch_utils import FLOAT_MIN
from rich.console import Console
from stable_baselines3.common.logger import Logger

import agents
from agents.ppo import run as training
from agents.ppo.callbacks import Checkpoints, Evaluation, ProgressBar, save
from agents.ppo.checkpoint import only_run
from agents.ppo.config import Config, RunDirectory
from alles_kaese_env import NUM_ACTIONS, OBSERVATION
from alles_kaese_env.envs.rllib import AllesKaeseMultiAgentEnv

LEARNER, OPPONENT = "learner", "opponent"  # modules
OPTIMIZER = f"{LEARNER}_default_optimizer"  # as RLlib names it
OBJECT_STORE = 200_000_000  # bytes on a machine of its own; a rollout of 32,768 decisions is 40 MB
MAX_GRAD_NORM, VALUE_WEIGHT = 0.5, 0.5  # as MaskablePPO has them
METRICS = ("policy_loss", "vf_loss", "entropy", "vf_explained_var", "total_loss")


# --- The command line --------------------------------------------------------------------------


def check(config: Config, num_env_runners: int) -> None:
    """Raise `ValueError` for the first option that is not what this engine allows."""
    if not 0 <= num_env_runners <= config.num_envs:
        raise ValueError(
            f"--num-env-runners is {num_env_runners}; allowed: 0 to --num-envs, {config.num_envs}"
        )
    if len(config.num_players) > 1:
        counts = " ".join(map(str, config.num_players))
        raise ValueError(f"--num-players is {counts}; allowed with --engine rllib: one number")
    if config.opponents == "pool":
        raise ValueError("--opponents is pool; allowed with --engine rllib: self, or an agent")
    if config.reward != "win":
        raise ValueError(f"--reward is {config.reward}; allowed with --engine rllib: win")


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """What ``train.py --engine rllib`` does; returns its exit code."""
    runners = 1 if options.num_env_runners is None else options.num_env_runners
    is_resumed = options.resume is not None
    if not is_resumed and options.opponents is None:
        options.opponents = "self"
    try:
        run, config = training.prepare(options, lambda config: check(config, runners))
        with only_run(run.path):
            if is_resumed:
                run.write_config(config, is_resumed=True)
            return train(run, config, runners, options.address or "local", is_resumed)
    except (ValueError, OSError) as error:
        parser.error(str(error))


# --- The modules -------------------------------------------------------------------------------


class PolicyModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]
    """A policy of `agents.ppo.run.NETWORKS` as RLlib wants it; its logits are masked.

    ``model_config`` holds ``network`` and ``hidden`` of `Config`.
    """

    def setup(self) -> None:
        """Build the network."""
        self.policy = new_policy(self.model_config["network"], self.model_config["hidden"])

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        seen = batch[Columns.OBS]  # stays as it is: the update looks at it again
        latent = self.policy.mlp_extractor.forward_actor(seen["observations"])
        logits = self.policy._get_action_dist_from_latent(latent).distribution.logits
        return {Columns.ACTION_DIST_INPUTS: torch.where(seen["action_mask"] > 0, logits, FLOAT_MIN)}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        """The expected payoffs (B,)."""
        latent = self.policy.mlp_extractor.forward_critic(batch[Columns.OBS]["observations"])
        return self.policy.value_net(latent).squeeze(-1)


class AgentModule(RLModule):  # type: ignore[misc]
    """An agent that stays as it is; ``model_config`` holds its name."""

    def setup(self) -> None:
        """Make the agent."""
        self.agent = agents.make(self.model_config["name"])
        self.rng = np.random.default_rng()

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        seen = {name: np.asarray(part) for name, part in batch[Columns.OBS].items()}
        masks = seen["action_mask"].astype(bool)
        return {Columns.ACTIONS: self.agent.act(seen["observations"], masks, self.rng)}

    def _forward_train(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError("an agent that stays as it is does not learn")


def new_policy(network: str, hidden: int) -> Any:
    """An untrained policy, the same as that of `agents.ppo.run.new_model`."""
    return training.NETWORKS[network](
        OBSERVATION.space(),
        gymnasium.spaces.Discrete(NUM_ACTIONS),
        lambda _: 0.0,  # of an optimizer that nobody uses
        net_arch=2 * [hidden],
        activation_fn=torch.nn.ReLU,
    )


def module_of(players: int, agent_id: str, episode: Any, **kwargs: Any) -> str:
    """Who plays against an agent that stays as it is: the learner has one seat of each game."""
    seat = zlib.crc32(str(episode.id_).encode()) % players
    return LEARNER if agent_id == f"player_{seat}" else OPPONENT


def always_learner(agent_id: str, episode: Any, **kwargs: Any) -> str:
    """Who plays in self-play."""
    return LEARNER


# --- The learner ---------------------------------------------------------------------------------


def algorithm_config(config: Config, num_env_runners: int, done: int = 0) -> PPOConfig:
    """The configuration of PPO.

    Args:
        config: of the run.
        num_env_runners: processes that play; with 0 the learner's does.
        done: decisions of the learner before a resumed run goes on.
    """
    players = config.num_players[0]
    is_self_play = config.opponents == "self"
    shape = {"network": config.network, "hidden": config.hidden}
    modules = {LEARNER: RLModuleSpec(module_class=PolicyModule, model_config=shape)}
    if not is_self_play:
        agent = {"name": config.opponents}
        modules[OPPONENT] = RLModuleSpec(module_class=AgentModule, model_config=agent)
    rate = config.learning_rate * max(0.0, 1 - done / config.total_steps)
    left = max(1, config.total_steps - done) * (1 if is_self_play else players)
    games = max(1, config.num_envs // max(1, num_env_runners))
    batch = config.n_steps * games * max(1, num_env_runners)
    return (
        PPOConfig()
        .environment(AllesKaeseMultiAgentEnv, env_config={"num_players": players})
        .env_runners(
            num_env_runners=num_env_runners,
            num_envs_per_env_runner=games,
            rollout_fragment_length=config.n_steps,
            batch_mode="truncate_episodes",  # whole episodes would begin with the same deals
        )
        .fault_tolerance(restart_failed_env_runners=True)
        .learners(num_learners=0, num_gpus_per_learner=0 if config.device == "cpu" else 1)
        .training(
            lr=[[0, rate], [left, 0.0]],
            gamma=1.0,
            lambda_=config.gae_lambda,
            clip_param=config.clip_range,
            entropy_coeff=config.ent_coef,
            vf_loss_coeff=VALUE_WEIGHT,
            vf_clip_param=float("inf"),
            use_kl_loss=False,
            grad_clip=MAX_GRAD_NORM,
            grad_clip_by="global_norm",
            num_epochs=config.n_epochs,
            minibatch_size=min(config.batch_size, batch),
            train_batch_size_per_learner=batch,
        )
        .multi_agent(
            policies=set(modules),
            policy_mapping_fn=always_learner if is_self_play else partial(module_of, players),
            policies_to_train=[LEARNER],
        )
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=modules))
        .debugging(seed=(config.seed + done) % 2**31, log_level="ERROR")
    )


class Learner:
    """RLlib's PPO behind the names by which our callbacks know a model of stable-baselines3.

    Args:
        config: of the run.
        num_env_runners: processes that play; with 0 the learner's does.
        logger: where metrics go.

    Attributes:
        num_timesteps: decisions of the learner that an update has been made from.
        policy: a copy of the network after the last update.
        logger: where metrics go.
    """

    def __init__(self, config: Config, num_env_runners: int, logger: Logger) -> None:
        self.logger = logger
        self.num_timesteps = 0
        self.policy = new_policy(config.network, config.hidden)
        self._config = config
        self._num_env_runners = num_env_runners
        self._done_before = 0

    def build(self, checkpoint: dict[str, Any] | None = None) -> None:
        """Start the processes; with what `read_checkpoint` found, go on from there."""
        self._done_before = self.num_timesteps = checkpoint["num_timesteps"] if checkpoint else 0
        config = algorithm_config(self._config, self._num_env_runners, self.num_timesteps)
        self.algorithm = config.build_algo()
        if checkpoint is not None:
            optimizer = self._optimizer()
            optimizer["state"]["state"] = checkpoint["optimizer"]
            weights = {f"policy.{name}": part for name, part in checkpoint["policy"].items()}
            state = {"rl_module": {LEARNER: weights}, "optimizer": {OPTIMIZER: optimizer}}
            group = self.algorithm.learner_group
            group.set_state({"learner": state})
            self.algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=group)
        self._copy_policy()

    def learn(self) -> None:
        """Play and make one update."""
        result = self.algorithm.train()
        self.num_timesteps = self._done_before + int(
            result["env_runners"]["num_module_steps_sampled_lifetime"][LEARNER]
        )
        self._copy_policy()
        figures = result.get("learners", {}).get(LEARNER, {})
        for name in METRICS:
            if name in figures:
                self.logger.record(f"train/{name}", float(figures[name]))

    def save(self, file: Path) -> None:
        """Write weights, optimizer and step counter as plain tensors and numbers."""
        buffers = self._optimizer()["state"]["state"]
        data = {
            "num_timesteps": self.num_timesteps,
            "policy": self.policy.state_dict(),
            "optimizer": tree.map_structure(torch.as_tensor, buffers),
        }
        with open(file, "wb") as stream:
            torch.save(data, stream)

    def close(self) -> None:
        """End the processes."""
        self.algorithm.stop()

    def _optimizer(self) -> dict[str, Any]:
        state = self.algorithm.learner_group.get_state("learner/optimizer")
        return state["learner"]["optimizer"][OPTIMIZER]

    def _copy_policy(self) -> None:
        weights = self.algorithm.learner_group.get_weights([LEARNER])[LEARNER]
        prefix = "policy."
        self.policy.load_state_dict(
            {name.removeprefix(prefix): torch.as_tensor(part) for name, part in weights.items()}
        )


def read_checkpoint(run: RunDirectory) -> dict[str, Any]:
    """What `Learner.save` wrote; nothing is unpickled.

    Raises:
        ValueError: there is no good checkpoint.
    """
    try:
        data: dict[str, Any] = torch.load(run.model, weights_only=True)
        return {name: data[name] for name in ("num_timesteps", "policy", "optimizer")}
    except (OSError, RuntimeError, KeyError, TypeError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"--resume is {run.path}, which has no good checkpoint of --engine rllib ({reason})"
        ) from None


# --- The run -------------------------------------------------------------------------------------


def connect(address: str, num_env_runners: int) -> None:
    """Start Ray on this machine, or join the cluster that this machine is in.

    Raises:
        ValueError: there is no cluster.
    """
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        cpus = max(1, num_env_runners)  # one for each runner, however many this machine has
        ray.init("local", num_cpus=cpus, object_store_memory=OBJECT_STORE, **quiet)
        return
    try:
        ray.init("auto", **quiet)
    except (ConnectionError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"--address is auto, but there is no Ray cluster ({reason})") from None


def train(
    run: RunDirectory,
    config: Config,
    num_env_runners: int = 1,
    address: str = "local",
    is_resumed: bool = False,
) -> int:
    """Train to the end, or until Ctrl-C; returns the exit code.

    Raises:
        ValueError: there is no cluster, or no checkpoint to go on from.
    """
    checkpoint = read_checkpoint(run) if is_resumed else None
    training.use_threads(config.threads)
    torch.manual_seed(config.seed)
    console = Console(markup=False, soft_wrap=True)
    connect(address, num_env_runners)
    logger = training.make_logger(run)
    learner = Learner(config, num_env_runners, logger)
    try:
        learner.build(checkpoint)
        console.print(f"Run directory: {run.path}")
        return go_on(learner, run, config, console)
    finally:
        logger.close()
        ray.shutdown()


def go_on(learner: Learner, run: RunDirectory, config: Config, console: Console) -> int:
    """Train what has been built to the end, or until Ctrl-C; returns the exit code."""
    evaluation = Evaluation(run, config.num_players, config.total_steps)
    bar = ProgressBar(config.total_steps, evaluation, console)
    callbacks = [evaluation, Checkpoints(run, config.total_steps), bar]
    model = cast(Any, learner)
    for callback in callbacks:
        callback.init_callback(model)
        callback.on_training_start({}, {})
    try:
        while learner.num_timesteps < config.total_steps:
            for callback in callbacks:
                callback.on_rollout_start()
            learner.learn()
            bar.on_rollout_end()
            learner.logger.record("time/total_timesteps", learner.num_timesteps)
            learner.logger.dump(learner.num_timesteps)
        bar.stop()
        save(model, run)
        evaluation.evaluate()
        training.finish(run, config, model, console)
    except KeyboardInterrupt:
        bar.stop()
        save(model, run)
        console.print(
            f"Stopped and saved at step {learner.num_timesteps:,}. Go on with: "
            f"python train.py --algo ppo --engine rllib --resume {shlex.quote(str(run.path))}"
        )
        return 130
    finally:
        bar.stop()
        learner.close()
    return 0

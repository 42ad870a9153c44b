"""PPO of Ray RLlib by self-play, on one machine or on a cluster: ``train.py --engine rllib``.

The network is that of the other training backend, weight by weight, and so are evaluations, report
and run directory. All seats of a game play the present policy, and the decisions of all of them
train it; against a fixed agent the learner has one seat.

Checkpoints are those of RLlib, which unpickles them: resume only runs that you trust.
"""

from __future__ import annotations

import json
import logging
import zlib
from dataclasses import asdict
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.utils.torch_utils import FLOAT_MIN
from ray.tune.utils import flatten_dict
from torch.utils.tensorboard import SummaryWriter

import agents
from agents.ppo.agent import PolicyNetwork
from agents.ppo.network import NETWORKS
from agents.training.options import Config, RunError
from agents.training.run_directory import RunDirectory
from agents.training.sb3 import use_threads
from agents.training.training import Learner, Training
from alles_kaese_env import NUM_ACTIONS, OBSERVATION, Variant
from alles_kaese_env.envs.rllib import AllesKaeseMultiAgentEnv

LEARNER, OPPONENT = "learner", "opponent"  # modules
OBJECT_STORE = 200_000_000  # bytes on a machine of its own; a rollout of 32,768 decisions is 40 MB
MAX_GRAD_NORM, VALUE_WEIGHT = 0.5, 0.5  # as MaskablePPO has them
STEPS = ("env_runners", "num_module_steps_sampled_lifetime", LEARNER)  # in the metrics of RLlib

# --- The modules -------------------------------------------------------------------------------


class PolicyModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]
    """A policy of `agents.ppo.network.NETWORKS` as RLlib wants it; its logits are masked.

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
    """An agent that stays as it is; ``model_config`` holds its name and the rules."""

    def setup(self) -> None:
        """Make the agent."""
        rules = Variant(**self.model_config["rules"])
        self.agent = agents.make(self.model_config["name"], rules)
        self.rng = np.random.default_rng()

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        seen = {name: np.asarray(part) for name, part in batch[Columns.OBS].items()}
        masks = seen["action_mask"].astype(bool)
        return {Columns.ACTIONS: self.agent.act(seen["observations"], masks, self.rng)}

    def _forward_train(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        raise NotImplementedError("an agent that stays as it is does not learn")


def new_policy(network: str, hidden: int) -> Any:
    """An untrained policy, the same as that of `agents.training.sb3.new_model`."""
    return NETWORKS[network](
        OBSERVATION.space(),
        gymnasium.spaces.Discrete(NUM_ACTIONS),
        lambda _: 0.0,  # of an optimizer that nobody uses
        net_arch=2 * [hidden],
        activation_fn=torch.nn.ReLU,
    )


def module_of(players: int, agent_id: str, episode: Any, **kwargs: Any) -> str:
    """Who plays against a fixed agent: the learner has one seat of each game."""
    seat = zlib.crc32(str(episode.id_).encode()) % players
    return LEARNER if agent_id == f"player_{seat}" else OPPONENT


# --- The algorithm -----------------------------------------------------------------------------


def algorithm_config(config: Config, seed: int = 0) -> PPOConfig:
    """The configuration of PPO.

    Args:
        config: of the run; with 0 ``num_env_runners`` the process of the learner plays.
        seed: of the environments and the sampling.
    """
    players = config.num_players[0]
    is_self_play = config.opponents == "self"
    shape = {"network": config.network, "hidden": config.hidden}
    self_play = lambda agent_id, episode, **kwargs: LEARNER  # noqa: E731
    modules = {LEARNER: RLModuleSpec(module_class=PolicyModule, model_config=shape)}
    if not is_self_play:
        agent = {"name": config.opponents, "rules": asdict(config.rules(players))}
        modules[OPPONENT] = RLModuleSpec(module_class=AgentModule, model_config=agent)
    turns = config.total_steps * (1 if is_self_play else players)  # those of all seats
    runners = max(1, config.num_env_runners)
    games = max(1, config.num_envs // runners)
    batch = config.n_steps * games * runners
    return (
        PPOConfig()
        .environment(AllesKaeseMultiAgentEnv, env_config=asdict(config.rules(players)))
        .env_runners(
            num_env_runners=config.num_env_runners,
            num_envs_per_env_runner=games,
            rollout_fragment_length=config.n_steps,
            batch_mode="truncate_episodes",  # whole episodes would begin with the same deals
        )
        .fault_tolerance(restart_failed_env_runners=True)
        .learners(num_learners=0, num_gpus_per_learner=0 if config.device == "cpu" else 1)
        .training(
            lr=[[0, config.learning_rate], [turns, 0.0]],
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
            policy_mapping_fn=self_play if is_self_play else partial(module_of, players),
            policies_to_train=[LEARNER],
        )
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=modules))
        .debugging(seed=seed % 2**31, log_level="ERROR")
    )


class RunCallback(RLlibCallback):  # type: ignore[misc]
    """Saves and evaluates between rollouts; the figures become part of RLlib's results."""

    training: Training | None = None  # in the process of the algorithm alone

    def on_train_result(self, *, result: dict[str, Any], **kwargs: Any) -> None:
        """Save and evaluate if it is time."""
        if self.training is not None:
            result.update(self.training.between_rollouts())


def steps_of(algorithm: Algorithm) -> int:
    """Decisions of the learner, those before a resumption included."""
    return int(algorithm.metrics.peek(STEPS, default=0))


def network_of(algorithm: Algorithm) -> PolicyNetwork:
    """A frozen copy of the policy."""
    weights = algorithm.learner_group.get_weights([LEARNER])[LEARNER]
    return PolicyNetwork(
        {name.removeprefix("policy."): np.array(part) for name, part in weights.items()}
    )


# --- The run -----------------------------------------------------------------------------------


def connect(address: str, num_env_runners: int) -> Any:
    """Start Ray on this machine, or join the cluster that this machine is in.

    Returns:
        A context that shuts Ray down at its end.

    Raises:
        RunError: there is no cluster.
    """
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        cpus = max(1, num_env_runners)  # one for each runner, however many this machine has
        return ray.init("local", num_cpus=cpus, object_store_memory=OBJECT_STORE, **quiet)
    try:
        return ray.init("auto", **quiet)
    except (ConnectionError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"--address is auto, but there is no Ray cluster ({reason})") from None


def train(run: RunDirectory, config: Config, is_resumed: bool = False) -> int:
    """Train to the end, or until Ctrl-C; returns the exit code.

    Raises:
        RunError: there is no cluster, or no good checkpoint to continue from.
    """
    use_threads(config.threads)
    torch.manual_seed(config.seed)
    with connect(config.address, config.num_env_runners):
        ppo = algorithm_config(config, config.seed + run.steps()).callbacks(RunCallback)
        algorithm = ppo.build_algo()

        def learn(training: Training) -> None:
            (callback,) = algorithm.callbacks
            callback.training = training
            with SummaryWriter(run.path / "tensorboard") as writer:
                training.evaluate()
                while steps_of(algorithm) < config.total_steps:
                    log(algorithm.train(), run, writer, steps_of(algorithm))
                    training.show_progress()
                training.between_rollouts(is_end=True)

        learner = Learner(
            "",
            steps=lambda: steps_of(algorithm),
            network=lambda: network_of(algorithm),
            write=lambda path: algorithm.save_to_path(path.absolute()),
            load=lambda path: algorithm.restore_from_path(path.absolute()),
        )
        try:
            return Training(run, config, learner, is_resumed).train(learn)
        finally:
            algorithm.stop()


def log(result: dict[str, Any], run: RunDirectory, writer: SummaryWriter, steps: int) -> None:
    """A result of RLlib, as Tune writes it: a line of ``result.json``, and TensorBoard."""
    flat = flatten_dict({name: part for name, part in result.items() if name != "config"})
    numbers = {
        name: float(value)
        for name, value in flat.items()
        if isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    }
    with open(run.path / "result.json", "a", encoding="utf-8") as stream:
        stream.write(json.dumps({"steps": steps, **numbers}) + "\n")
    for name, value in numbers.items():
        writer.add_scalar(name, value, steps)

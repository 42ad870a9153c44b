"""Masked double DQN, on top of stable-baselines3's: ``train.py --algo dqn``.

Q-learning with a replay buffer and a target network (Mnih et al., "Human-level control through
deep reinforcement learning", Nature 2015), with the double estimate of van Hasselt, Guez and
Silver, "Deep Reinforcement Learning with Double Q-learning" (AAAI 2016): the network chooses the
best action of the next decision, the target network says what it is worth.

What is different: only legal actions are drawn, chosen and compared; the Q-values are the logits
of the same networks as PPO's; many games are played at once, and an update of many minibatches
comes after each rollout, so many that every decision is replayed ``n_epochs`` times on average;
nothing is discounted; the share of random actions and the learning rate go linearly to 0. In
self-play the other seats have the policy before the rollout, its random actions included.

DQN leaves a greedy policy. Where all equilibria of a game are mixed, none of these is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.dqn import dqn
from stable_baselines3.dqn.policies import DQNPolicy
from torch import nn

from agents.heuristics.random_agent import RandomAgent
from agents.ppo.agent import PolicyNetwork, PPOAgent
from agents.ppo.network import logits_of, network_of, new_policy
from agents.training.self_play import SelfPlay
from alles_kaese_env import NUM_ACTIONS
from alles_kaese_env.agent import Agent

Observations = npt.NDArray[np.float32]
Masks = npt.NDArray[np.bool_]
Actions = npt.NDArray[np.int64]


class Transitions(NamedTuple):
    """A minibatch, B decisions of the learner and what came next.

    Attributes:
        observations: (B, 253) float32.
        actions: (B, 1) int64.
        next_observations: (B, 253) float32, of the next decision; of any game after ``dones``.
        next_masks: (B, 18) bool, in the same way.
        dones: (B, 1) float32, 1 where the game was over.
        rewards: (B, 1) float32.
    """

    observations: torch.Tensor
    actions: torch.Tensor
    next_observations: torch.Tensor
    next_masks: torch.Tensor
    dones: torch.Tensor
    rewards: torch.Tensor


class MaskedReplayBuffer(ReplayBuffer):
    """`ReplayBuffer` with masks, 1 kB a decision: an observation is kept once, as the next one too.

    Attributes:
        next_masks: (N, games, 18) bool, legal actions after each decision.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        options |= {"optimize_memory_usage": True, "handle_timeout_termination": False}
        super().__init__(*args, **options)
        self.next_masks = np.zeros((self.buffer_size, self.n_envs, NUM_ACTIONS), np.bool_)

    def _get_samples(self, batch_inds: npt.NDArray[np.int64], env: Any = None) -> Any:
        games = np.random.randint(self.n_envs, size=len(batch_inds))  # noqa: NPY002 - the library's
        rows = batch_inds, games
        arrays = (
            self.observations[rows],
            self.actions[rows],
            self.observations[(batch_inds + 1) % self.buffer_size, games],
            self.next_masks[rows],
            self.dones[rows][:, None],
            self.rewards[rows][:, None],
        )
        return Transitions(*(self.to_torch(array, copy=False) for array in arrays))


class QPolicy(DQNPolicy):
    """`DQNPolicy` whose networks are PPO's, see `agents.ppo.network.NETWORKS`."""

    def __init__(self, *args: Any, network: str, **options: Any) -> None:
        self._network = network
        super().__init__(*args, **options)

    def make_q_net(self) -> Any:
        """A network of 18 logits, with an optimizer that is left alone."""
        return new_policy(self._network, self.net_arch[0]).to(self.device)


class EpsilonGreedy:
    """Plays the greatest logit, or with probability epsilon a random legal action."""

    def __init__(self, network: PolicyNetwork, epsilon: float) -> None:
        self.greedy = PPOAgent(network)
        self._random = RandomAgent()
        self.epsilon = epsilon

    def act(self, observations: Observations, masks: Masks, rng: np.random.Generator) -> Actions:
        """Actions (B,) for observations (B, 253) and masks (B, 18)."""
        actions = self.greedy.act(observations, masks, rng)
        return self.explore(actions, observations, masks, rng)

    def explore(
        self, actions: Actions, observations: Observations, masks: Masks, rng: np.random.Generator
    ) -> Actions:
        """The actions (B,), each with probability epsilon replaced by a random legal one."""
        drawn = self._random.act(observations, masks, rng)
        return np.where(rng.random(len(masks)) < self.epsilon, drawn, actions)


class DQN(dqn.DQN):
    """DQN of stable-baselines3 with masks and double Q-learning, for `QPolicy`."""

    env: Any
    replay_buffer: MaskedReplayBuffer
    response: EpsilonGreedy

    def set_random_seed(self, seed: int | None = None) -> None:
        """Begin all random streams anew."""
        super().set_random_seed(seed)
        self._rng = np.random.default_rng(seed)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_rng", "response"]

    def network(self) -> PolicyNetwork:
        """A frozen copy of the policy that is learned."""
        return network_of(self.q_net)

    def players(self) -> tuple[list[Agent], list[float]]:
        """Who plays the next rollout, and the probability of each, drawn for a seat of a game."""
        self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
        epsilon = self.exploration_schedule(self._current_progress_remaining)
        self.response = EpsilonGreedy(network_of(self.q_net), epsilon)
        return [self.response], [1.0]

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[Actions, Actions]:
        actions = self._choose(np.asarray(self._last_obs), self.env.action_masks())
        return actions, actions

    def _choose(self, observations: Observations, masks: Masks) -> Actions:
        return self.response.act(observations, masks, self._rng)

    def _store_transition(self, replay_buffer: Any, *step: Any) -> None:
        replay_buffer.next_masks[replay_buffer.pos] = self.env.action_masks()
        super()._store_transition(replay_buffer, *step)

    def collect_rollouts(self, *args: Any, **options: Any) -> Any:
        """Play; the log gets a line for each rollout, and none for each episode."""
        rollout = super().collect_rollouts(*args, **{**options, "log_interval": None})
        self.dump_logs()
        return rollout

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Learn from so many minibatches."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        loss = 0.0
        for _ in range(gradient_steps):
            batch: Any = self.replay_buffer.sample(batch_size)
            values = logits_of(self.q_net, batch.observations).gather(1, batch.actions)
            error = nn.functional.smooth_l1_loss(values, self.targets(batch))
            descend(error, self.q_net, self.policy.optimizer, self.max_grad_norm)
            loss += error.item() / gradient_steps
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", loss)

    @torch.no_grad()
    def targets(self, batch: Transitions) -> torch.Tensor:
        """What the decisions of a minibatch turned out to be worth, (B, 1)."""
        illegal = ~batch.next_masks
        choices = logits_of(self.q_net, batch.next_observations).masked_fill(illegal, -torch.inf)
        values = logits_of(self.q_net_target, batch.next_observations)
        values = values.gather(1, choices.argmax(1, keepdim=True))
        return batch.rewards + (1 - batch.dones) * values


def descend(
    loss: torch.Tensor, network: nn.Module, optimizer: torch.optim.Optimizer, max_norm: float
) -> None:
    """A step of an optimizer."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(network.parameters(), max_norm)
    optimizer.step()


class SelfPlayOfDQN(SelfPlay):
    """`SelfPlay` without a pool: the other seats have the players of the model, or one agent."""

    def _on_rollout_start(self) -> None:
        model: Any = self.model
        players = model.players()
        if self._fixed is None:
            self._venv.set_opponents(*players)

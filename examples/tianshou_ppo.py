"""tianshou: PPO plays both seats of its PettingZooEnv; prints its share of the wins."""

import argparse
import logging

import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, ReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from torch.nn import Linear, Sequential, Tanh

from alles_kaese_env import AllesKaeseVectorEnv, alles_kaese_v0

parser = argparse.ArgumentParser()
parser.add_argument("--games", type=int, default=1_280)
options = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)
logging.getLogger("tianshou").setLevel(logging.ERROR)  # its statistics expect one reward, not two


class Network(Sequential):
    """With one output a critic, else an actor, as tianshou calls them."""

    def forward(self, seen, state=None, info=None):
        """Values; of an actor logits, masked, and its state."""
        x = super().forward(torch.as_tensor(seen.obs))
        return x if x.shape[1] == 1 else (x.masked_fill(~torch.as_tensor(seen.mask), -1e9), state)


def seat_by_seat(games):
    """The turns of each seat as an episode of its own, which ends with the payoff of that seat."""
    game, ends = np.cumsum(games.done) - games.done, np.flatnonzero(games.done)
    seat = (games.obs.agent_id == "player_1").astype(int)
    turns = np.lexsort((seat, game))  # by game, then by seat
    game, seat, seen = game[turns], seat[turns], games.obs[turns]
    done = np.append(np.diff(2 * game + seat) != 0, True)
    rewards, following = done * games.rew[ends[game], seat], seen[np.roll(np.arange(len(seen)), -1)]
    return ReplayBuffer.from_data(seen, games.act[turns], rewards, done, 0 * done, done, following)


actor, critic = (Network(Linear(253, 128), Tanh(), Linear(128, size)) for size in (18, 1))
envs = DummyVectorEnv([lambda: PettingZooEnv(alles_kaese_v0.env(num_players=2))] * 16)
policy = DiscreteActorPolicy(actor=actor, action_space=envs.action_space[0])
learner = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=2.5e-3), gamma=1.0)
policy.is_within_training_step = True
for _ in range(options.games // 64):
    games = VectorReplayBuffer(10_000, len(envs))
    Collector(policy, envs, games).collect(n_episode=64, reset_before_collect=True)
    learner.update(seat_by_seat(games.sample(0)[0]), batch_size=256, repeat=10)
test, payoffs = AllesKaeseVectorEnv(256, opponents="random"), []
seen, _ = test.reset(seed=1)
for _ in range(60):
    logits, _ = actor(Batch(obs=seen, mask=test.action_masks()))
    seen, reward, done, _, _ = test.step(logits.argmax(1).numpy())
    payoffs += reward[done].tolist()
print(f"share of the wins against random: {(np.mean(payoffs) + 1) / 2:.3f}")

"""PPO in one file, as CleanRL has it: a network, a rollout, the loss. Masks are -inf logits."""

from __future__ import annotations

import argparse

import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical

parser = argparse.ArgumentParser()
parser.add_argument("--updates", type=int, default=60)
options = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)
GAMES, STEPS, CLIP, EPOCHS, LAMBDA = 128, 32, 0.2, 4, 0.95  # gamma is 1: the payoff is at the end

same_step = gym.vector.AutoresetMode.SAME_STEP
envs = gym.make_vec("alles_kaese_env:AllesKaese-v0", GAMES, autoreset_mode=same_step)
actor = nn.Sequential(nn.Linear(253, 128), nn.Tanh(), nn.Linear(128, 18))
critic = nn.Sequential(nn.Linear(253, 128), nn.Tanh(), nn.Linear(128, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3, eps=1e-5)


def policy(seen: torch.Tensor, mask: torch.Tensor) -> Categorical:
    """Probabilities of the legal actions."""
    return Categorical(logits=actor(seen).masked_fill(~mask, -torch.inf), validate_args=False)


observation, info = envs.reset(seed=0)
for _update in range(options.updates):
    rollout, payoffs = [], []
    for _ in range(STEPS):
        seen, mask = torch.tensor(observation), torch.tensor(info["action_mask"]).bool()
        with torch.no_grad():
            choice, value = policy(seen, mask), critic(seen)[:, 0]
        action = choice.sample()
        observation, reward, done, _, info = envs.step(action.numpy())
        win, end = torch.tensor(reward).float(), torch.tensor(done).float()
        rollout.append((seen, mask, action, choice.log_prob(action), value, win, end))
        payoffs += reward[done].tolist()
    seen, mask, action, before, value, win, end = map(torch.stack, zip(*rollout, strict=True))
    advantage, total = torch.zeros_like(win), torch.zeros(GAMES)
    following = critic(torch.tensor(observation))[:, 0].detach()
    for t in reversed(range(STEPS)):
        total = advantage[t] = win[t] - value[t] + (1 - end[t]) * (following + LAMBDA * total)
        following = value[t]
    data = [x.flatten(0, 1) for x in (seen, mask, action, before, advantage, advantage + value)]
    for part in (p for _ in range(EPOCHS) for p in torch.randperm(GAMES * STEPS).split(1024)):
        seen, mask, action, before, gain, target = (x[part] for x in data)
        choice, ratio_gain = policy(seen, mask), (gain - gain.mean()) / (gain.std() + 1e-8)
        ratio = (choice.log_prob(action) - before).exp()
        gains = torch.min(ratio * ratio_gain, ratio.clamp(1 - CLIP, 1 + CLIP) * ratio_gain)
        error = (critic(seen)[:, 0] - target).square()
        loss = 0.5 * error.mean() - gains.mean() - 0.01 * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"share of the wins against random: {(sum(payoffs) / len(payoffs) + 1) / 2:.3f}")

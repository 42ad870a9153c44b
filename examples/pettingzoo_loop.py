"""PettingZoo: random legal play of every seat, and what each seat won on average."""

from __future__ import annotations

import argparse
from collections import defaultdict

from alles_kaese_env import alles_kaese_v0

parser = argparse.ArgumentParser()
parser.add_argument("--games", type=int, default=200)
options = parser.parse_args()

env = alles_kaese_v0.env(num_players=4)
env.reset(seed=0)
payoffs = defaultdict(float)
for _ in range(options.games):
    env.reset()
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        payoffs[agent] += reward
        mask = observation["action_mask"]
        over = terminated or truncated
        env.step(None if over else env.action_space(agent).sample(mask))
for agent, payoff in sorted(payoffs.items()):
    print(f"{agent}: mean payoff {payoff / options.games:+.3f}")

"""stable-baselines3: MaskablePPO learns against random opponents; prints its share of the wins."""

from __future__ import annotations

import argparse

import numpy as np
import torch
from sb3_contrib import MaskablePPO

from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60_000, help="decisions of the learner")
options = parser.parse_args()
torch.set_num_threads(1)

env = AllesKaeseVecEnv(num_envs=64, num_players=2, opponents="random", seed=0)
model = MaskablePPO("MlpPolicy", env, n_steps=32, batch_size=512, gamma=1.0, seed=0, device="cpu")
model.learn(options.steps)

test = AllesKaeseVecEnv(num_envs=256, num_players=2, opponents="random", seed=1)
observations = test.reset()
payoffs: list[float] = []
while len(payoffs) < 500:
    actions, _ = model.predict(observations, action_masks=test.action_masks(), deterministic=True)
    observations, rewards, dones, _ = test.step(actions)
    payoffs += rewards[dones].tolist()
print(f"share of the wins against random: {(np.mean(payoffs) + 1) / 2:.3f}")

"""Self-play on GameBatch: PPO with one policy in all seats, and a critic that sees the whole state.

An asymmetric actor-critic: no critic is needed at play, so it may see what no seat may, all fronts
that anybody has seen and who knows them (``--critic observation``: only what the actor sees).
Prints how much of the payoffs the critic explains, and the share of the wins against random play.
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from alles_kaese_env import OBSERVATION, STATE, GameBatch, Variant

parser = argparse.ArgumentParser()
parser.add_argument("--updates", type=int, default=100)
parser.add_argument("--players", type=int, default=2, choices=range(2, 7))
parser.add_argument("--critic", choices=["state", "observation"], default="state")
options = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)
GAMES, EPOCHS, CLIP, ENTROPY = 256, 4, 0.2, 0.01

sees_state = options.critic == "state"
actor = nn.Sequential(nn.Linear(OBSERVATION.size, 128), nn.Tanh(), nn.Linear(128, 18))
judged = STATE if sees_state else OBSERVATION
critic = nn.Sequential(nn.Linear(judged.size, 128), nn.Tanh(), nn.Linear(128, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
batch = GameBatch(GAMES, Variant(num_players=options.players), seed=0)


def policy(seen: torch.Tensor, mask: torch.Tensor) -> Categorical:
    """Probabilities of the legal actions."""
    return Categorical(logits=actor(seen).masked_fill(~mask, -torch.inf), validate_args=False)


def play(is_learner: np.ndarray) -> list[torch.Tensor]:
    """Play games to their end; the turns of the learner's seats (GAMES, P), and their payoffs."""
    batch.reset()
    turns = []
    while len(rows := np.flatnonzero(~batch.over)):
        seats, seen, masks = batch.seats[rows], batch.observations[rows], batch.masks[rows]
        judged, own = batch.states()[rows] if sees_state else seen, is_learner[rows, seats]
        with torch.no_grad():
            choice = policy(torch.tensor(seen), torch.tensor(masks))
            action = choice.sample()
            chance = choice.log_prob(action).numpy()
        actions = np.where(own, action.numpy(), batch.random_actions(rows))
        turns.append([x[own] for x in (seen, masks, judged, actions, chance, rows, seats)])
        batch.step(actions, rows)
    *data, rows, seats = (np.concatenate(parts) for parts in zip(*turns, strict=True))
    return [torch.tensor(x) for x in (*data, batch.payoffs[rows, seats])]


for update in range(1, options.updates + 1):
    seen, mask, judged, action, before, payoff = play(np.ones((GAMES, options.players), bool))
    gain = payoff - critic(judged)[:, 0].detach()
    if update % 10 == 0:
        print(f"update {update}: the critic explains {1 - gain.var() / payoff.var():.2f}")
    gain = (gain - gain.mean()) / gain.std()
    for part in (p for _ in range(EPOCHS) for p in torch.randperm(len(seen)).split(1024)):
        choice, error = policy(seen[part], mask[part]), critic(judged[part])[:, 0] - payoff[part]
        ratio = (choice.log_prob(action[part]) - before[part]).exp()
        gains = torch.min(ratio * gain[part], ratio.clamp(1 - CLIP, 1 + CLIP) * gain[part])
        loss = error.square().mean() - gains.mean() - ENTROPY * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
one_seat = np.eye(options.players, dtype=bool)[np.arange(GAMES) % options.players]
payoffs = [payoff for _ in range(8) if play(one_seat) for payoff in batch.payoffs[one_seat]]
wins = (np.array(payoffs) * (options.players - 1) + 1) / options.players  # P5
print(f"share of the wins against random: {wins.mean():.3f}")

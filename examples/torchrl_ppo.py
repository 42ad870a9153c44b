"""TorchRL: PPO plays both seats of its PettingZooWrapper; prints its share of the wins."""

import argparse

import torch
from tensordict.nn import TensorDictModule
from torchrl.envs import ExplorationType
from torchrl.envs.libs.pettingzoo import PettingZooWrapper
from torchrl.modules import MLP, MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value.functional import generalized_advantage_estimate

from alles_kaese_env import AllesKaeseVectorEnv, alles_kaese_v0

parser = argparse.ArgumentParser()
parser.add_argument("--games", type=int, default=640)
options = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(0)

both = {"seats": ["player_0", "player_1"]}  # one policy
env = PettingZooWrapper(alles_kaese_v0.raw_env(), use_mask=True, group_map=both, seed=0)
sight, inputs = ("observation", "observation"), {"logits": "logits", "mask": "action_mask"}
network, value = MLP(253, 18, num_cells=[128]), MLP(253, 1, num_cells=[128])
scores = TensorDictModule(network, [sight], ["logits"])
chance = {"default_interaction_type": ExplorationType.RANDOM, "return_log_prob": True}
actor = ProbabilisticActor(
    scores, inputs, ["action"], distribution_class=MaskedCategorical, **chance
)
ppo = ClipPPOLoss(actor, ValueOperator(value, [sight]), normalize_advantage=True)
optimizer = torch.optim.Adam(ppo.parameters(), lr=2.5e-3)


def turns_of(seat, game):
    """The turns of a seat as an episode of its own, which ends with the payoff of that seat."""
    turns = game["seats"][game["seats", "mask"][:, seat], seat]
    now = value(turns[sight])
    done, reward = torch.zeros_like(now).bool(), torch.zeros_like(now)
    done[-1], reward[-1] = True, game["next", "seats", "reward"][-1, seat]
    gain, target = generalized_advantage_estimate(1, 0.95, now, now.roll(-1, 0), reward, done)
    return turns.update({"advantage": gain, "value_target": target})


for _ in range(options.games // 64):
    with torch.no_grad():  # both seats are given an action; that of the seat on turn counts
        act = {"policy": lambda now: now.set("seats", actor(now["seats"])), "trust_policy": True}
        games = [env.rollout(100, **act) for _ in range(64)]
        data = torch.cat([turns_of(seat, game) for game in games for seat in (0, 1)])
    for part in (p for _ in range(10) for p in torch.randperm(len(data)).split(256)):
        losses = ppo(data[part])
        optimizer.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
        optimizer.step()
test, payoffs = AllesKaeseVectorEnv(256, opponents="random"), []
seen, _ = test.reset(seed=1)
for _ in range(60):
    logits = network(torch.tensor(seen)).where(torch.tensor(test.action_masks()), -torch.inf)
    seen, reward, done, _, _ = test.step(logits.argmax(1).numpy())
    payoffs += reward[done].tolist()
print(f"share of the wins against random: {(sum(payoffs) / len(payoffs) + 1) / 2:.3f}")

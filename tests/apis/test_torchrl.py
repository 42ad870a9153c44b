"""TorchRL over the PettingZoo API, by its own `PettingZooWrapper` as it is."""

from __future__ import annotations

import numpy as np
import pytest

from alles_kaese_env import GameBatch, Variant, alles_kaese_v0
from apis.helpers import pick

torchrl = pytest.importorskip("torchrl", reason="needs the extra torchrl")
torch = pytest.importorskip("torch", reason="needs torch")
from torchrl.envs.libs.pettingzoo import PettingZooWrapper  # noqa: E402
from torchrl.envs.utils import check_env_specs  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL is tested using:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch and TorchRL themselves
]
PLAYERS = range(2, 7)


def wrapped(players):
    return PettingZooWrapper(
        alles_kaese_v0.raw_env(num_players=players), use_mask=True, categorical_actions=True
    )


def assert_looks(step, batch, seat):
    """Who acts, what it may do and what every seat knows are those of the core."""
    for other in range(batch.variant.num_players):
        group = step[f"player_{other}"]
        assert group["mask"].item() == (other == seat)
        seen = group["observation", "observation"][0].numpy()
        assert np.array_equal(seen, batch.observe(other)[0])
    if seat is not None:
        mask = step[f"player_{seat}", "action_mask"][0].numpy()
        assert np.array_equal(mask, batch.masks[0])


def replay_games(players, games):
    """Random games through TorchRL and through the core, from the same seeds."""
    env = wrapped(players)
    batch = GameBatch(1, Variant(num_players=players))
    rng = np.random.default_rng(players)
    for seed in range(games):
        batch.reset(seed=seed)
        step = env.reset(seed=seed)
        while not batch.over[0]:
            seat = int(batch.seats[0])
            assert_looks(step, batch, seat)
            action = pick(batch.masks[0], rng)
            for other in range(players):  # what the others are given must not count
                step[f"player_{other}", "action"] = torch.tensor([action if other == seat else 0])
            batch.step([action])
            step = env.step(step)["next"]
            rewards = [step[f"player_{other}", "reward"].item() for other in range(players)]
            assert rewards == batch.payoffs[0].tolist()
            assert step["done"].item() == step["terminated"].item() == batch.over[0]
            assert not step["truncated"].item()


@pytest.mark.parametrize("players", PLAYERS)
def test_games_through_torchrl_are_those_of_the_core(players):
    replay_games(players, games=3)


@pytest.mark.long
@pytest.mark.parametrize("players", PLAYERS)
def test_a_thousand_games_through_torchrl_are_those_of_the_core(players):
    replay_games(players, games=200)


@pytest.mark.parametrize("players", [2, 6])
def test_torchrl_checks_the_specs(players):
    check_env_specs(wrapped(players))


def test_a_rollout_of_torchrl_plays_legally():
    """`raw_env` raises for an illegal action, so the masks reach TorchRL's own random policy."""
    rollout = wrapped(3).rollout(1_000)
    assert rollout["next", "done"][-1].item()
    rewards = [rollout["next", f"player_{seat}", "reward"] for seat in range(3)]
    assert all((one[:-1] == 0).all() for one in rewards)
    assert sum(one[-1].item() for one in rewards) == pytest.approx(0)

"""tianshou over the PettingZoo API, by its own `PettingZooEnv`: no adapter of ours is needed."""

from __future__ import annotations

import numpy as np
import pytest

from alles_kaese_env import GameBatch, Variant, alles_kaese_v0
from apis.helpers import pick

pytest.importorskip("tianshou", reason="needs the extra tianshou")
from tianshou.env import DummyVectorEnv
from tianshou.env.pettingzoo_env import PettingZooEnv

PLAYERS = range(2, 7)


def make(players):
    return PettingZooEnv(alles_kaese_v0.env(num_players=players))


def assert_looks(seen, batch):
    """Who acts, what it knows and what it may do are those of the core."""
    assert seen["agent_id"] == f"player_{batch.seats[0]}"
    assert np.array_equal(seen["obs"], batch.observations[0])
    assert list(seen["mask"]) == batch.masks[0].tolist()


def replay_games(players, games):
    """Random games through tianshou and through the core, from the same seeds."""
    env = make(players)
    batch = GameBatch(1, Variant(num_players=players))
    rng = np.random.default_rng(players)
    for seed in range(games):
        batch.reset(seed=seed)
        seen, _ = env.reset(seed=seed)
        while not batch.over[0]:
            assert_looks(seen, batch)
            action = pick(batch.masks[0], rng)
            batch.step([action])
            seen, rewards, terminated, truncated, _ = env.step(action)
            assert rewards == pytest.approx(batch.payoffs[0].tolist())
            assert terminated == batch.over[0]
            assert not truncated


@pytest.mark.parametrize("players", PLAYERS)
def test_games_through_tianshou_are_those_of_the_core(players):
    replay_games(players, games=20)


@pytest.mark.long
@pytest.mark.parametrize("players", PLAYERS)
def test_a_thousand_games_through_tianshou_are_those_of_the_core(players):
    replay_games(players, games=200)


def test_rewards_of_every_seat_pass_a_vector_environment():
    envs = DummyVectorEnv([lambda: make(3)] * 2)
    rng = np.random.default_rng(0)
    envs.seed([0, 1])  # reset(seed=...) would hand the whole list to every game
    seen, _ = envs.reset()
    playing, payoffs = np.arange(2), {}
    while len(playing):
        actions = [pick(np.array(one["mask"]), rng) for one in seen]
        seen, rewards, terminated, _, _ = envs.step(actions, playing)
        assert rewards.shape == (len(playing), 3)
        assert (rewards[~terminated] == 0).all()
        payoffs.update(zip(playing[terminated], rewards[terminated], strict=True))
        seen, playing = seen[~terminated], playing[~terminated]
    assert len(payoffs) == 2
    for one in payoffs.values():
        assert one.sum() == pytest.approx(0)
        assert one.max() > 0 or not one.any()

"""SuperSuit over the Gymnasium and PettingZoo APIs: the conversions that take a mask along."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from pettingzoo.utils.conversions import turn_based_aec_to_parallel

from alles_kaese_env import OBSERVATION, GameBatch, Variant, alles_kaese_v0
from apis.helpers import assert_same, pick

supersuit = pytest.importorskip("supersuit", reason="needs SuperSuit (pip install supersuit)")

PLAYERS = range(2, 7)
AEC_WRAPPERS = {  # those that leave the game as it is with these arguments
    "clip_reward_v0": (),
    "pad_action_space_v0": (),
    "nan_zeros_v0": (),
    "nan_random_v0": (),
    "sticky_actions_v0": (0.0,),
    "delay_observations_v0": (0,),
}
NEED_A_BOX = {
    "agent_indicator_v0": (),
    "dtype_v0": (np.float16,),
    "flatten_v0": (),
    "frame_stack_v1": (2,),
    "normalize_obs_v0": (),
    "pad_observations_v0": (),
}
GYM_WRAPPERS = {  # and what they make of the size
    "clip_reward_v0": ((), OBSERVATION.size),
    "delay_observations_v0": ((1,), OBSERVATION.size),
    "dtype_v0": ((np.float16,), OBSERVATION.size),
    "flatten_v0": ((), OBSERVATION.size),
    "frame_stack_v1": ((3,), 3 * OBSERVATION.size),
    "normalize_obs_v0": ((), OBSERVATION.size),
}


def parallel(players):
    return turn_based_aec_to_parallel(alles_kaese_v0.env(num_players=players))


def random_game(env, seed):
    """All that `last` says in a random game."""
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    trace = []
    for agent in env.agent_iter():
        trace.append((agent, *env.last()))
        observation, _, terminated, _, _ = env.last()
        env.step(None if terminated else pick(observation["action_mask"], rng))
    return trace


@pytest.mark.parametrize("name", AEC_WRAPPERS)
def test_wrappers_of_pettingzoo_take_the_mask_along(name):
    wrapped = getattr(supersuit, name)(alles_kaese_v0.env(num_players=3), *AEC_WRAPPERS[name])
    bare = alles_kaese_v0.env(num_players=3)
    for seed in range(5):
        assert_same(random_game(wrapped, seed), random_game(bare, seed))


@pytest.mark.parametrize("name", NEED_A_BOX)
def test_wrappers_that_need_a_box_refuse_observations_with_a_mask(name):
    with pytest.raises((AssertionError, AttributeError)):
        getattr(supersuit, name)(alles_kaese_v0.env(num_players=3), *NEED_A_BOX[name])


@pytest.mark.parametrize("name", GYM_WRAPPERS)
def test_wrappers_of_gymnasium_leave_masks_rewards_and_ends(name):
    arguments, size = GYM_WRAPPERS[name]
    bare = gym.make("AllesKaese-v0", num_players=3)
    wrapped = getattr(supersuit, name)(gym.make("AllesKaese-v0", num_players=3), *arguments)
    rng = np.random.default_rng(0)
    for seed in range(5):
        (_, info), (seen, other) = bare.reset(seed=seed), wrapped.reset(seed=seed)
        terminated = False
        while not terminated:
            assert seen.shape == wrapped.observation_space.shape == (size,)
            assert np.array_equal(info["action_mask"], other["action_mask"])
            action = pick(info["action_mask"], rng)
            _, reward, terminated, _, info = bare.step(action)
            seen, *result, other = wrapped.step(action)
            assert result == [reward, terminated, False]


@pytest.mark.parametrize("players", PLAYERS)
def test_games_through_a_vector_environment_are_those_of_the_core(players):
    """A row for each seat; only the action of the seat whose turn it is counts."""
    env = supersuit.pettingzoo_env_to_vec_env_v1(parallel(players))
    batch = GameBatch(1, Variant(num_players=players))
    rng = np.random.default_rng(players)
    for seed in range(10):
        seen, _ = env.reset(seed=seed)
        batch.reset(seed=seed)
        while not batch.over[0]:
            seat = int(batch.seats[0])
            assert np.array_equal(seen["observation"][seat], batch.observations[0])
            assert np.array_equal(seen["action_mask"][seat], batch.masks[0])
            assert seen["action_mask"].any(axis=1).tolist() == (np.arange(players) == seat).tolist()
            actions = rng.integers(18, size=players)
            actions[seat] = pick(batch.masks[0], rng)
            batch.step(actions[[seat]])
            seen, rewards, terminated, truncated, _ = env.step(actions)
            assert rewards == pytest.approx(batch.payoffs[0] * batch.over[0], abs=1e-6)
            assert terminated.astype(bool).tolist() == [bool(batch.over[0])] * players
            assert not truncated.any()


def test_vector_environments_for_stable_baselines3():
    vector = supersuit.pettingzoo_env_to_vec_env_v1(parallel(3))
    venv = supersuit.concat_vec_envs_v1(vector, 2, base_class="stable_baselines3")
    seen, rng, ends = venv.reset(), np.random.default_rng(0), 0
    for _ in range(200):
        masks = seen["action_mask"]
        assert (masks.any(axis=1).reshape(2, 3).sum(axis=1) == 1).all()  # a seat of each game
        actions = np.array([pick(mask, rng) if mask.any() else 0 for mask in masks])
        seen, rewards, dones, _ = venv.step(actions)
        dones = dones.astype(bool)  # they are bytes
        assert (rewards[~dones] == 0).all()
        assert rewards.reshape(2, 3).sum(axis=1) == pytest.approx(0, abs=1e-6)
        ends += dones.sum()
    assert ends >= 6

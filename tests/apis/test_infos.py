"""Infos have the same keys, types and shapes at every reset and step, as libraries need it."""

from __future__ import annotations

import csv
import gc
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from alles_kaese_env import (
    NUM_ACTIONS,
    OBSERVATION,
    AllesKaeseEnv,
    AllesKaeseVectorEnv,
    alles_kaese_v0,
)
from apis.helpers import pick

SINGLE = {
    "action_mask": ("ndarray", "int8", (NUM_ACTIONS,)),
    "illegal_action": ("ndarray", "bool", ()),
}
GAMES = 3
NATIVE = {
    "action_mask": ("ndarray", "int8", (GAMES, NUM_ACTIONS)),
    "_action_mask": ("ndarray", "bool", (GAMES,)),
    "illegal_action": ("ndarray", "bool", (GAMES,)),
    "_illegal_action": ("ndarray", "bool", (GAMES,)),
}
SB3 = {
    "illegal_action": (np.bool_.__name__, "bool", ()),
    "TimeLimit.truncated": ("bool", None, None),
}


def form_of(info):
    """Key, type, dtype and shape of what an info holds."""
    return {
        key: (
            type(one).__name__,
            str(getattr(one, "dtype", "")) or None,
            getattr(one, "shape", None),
        )
        for key, one in info.items()
    }


def any_action(step, rng):
    """Now and then an illegal action."""
    return int(rng.integers(NUM_ACTIONS)) if step % 5 == 0 else None


def test_of_the_single_environment():
    env = AllesKaeseEnv(num_players=3)
    rng = np.random.default_rng(0)
    info = env.reset(seed=0)[1]
    illegal = 0
    for step in range(300):
        assert form_of(info) == SINGLE
        action = any_action(step, rng)
        action = pick(info["action_mask"], rng) if action is None else action
        expected = not info["action_mask"][action]
        _, _, terminated, _, info = env.step(action)
        assert info["illegal_action"] == expected
        illegal += expected
        if terminated:
            assert form_of(info) == SINGLE
            info = env.reset()[1]
            assert not info["illegal_action"]
    assert illegal > 10
    assert form_of(env.set_state(env.get_state())[1]) == SINGLE


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name)
def test_of_the_vector_environment(mode):
    env = AllesKaeseVectorEnv(GAMES, 3, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    infos = env.reset(seed=0)[1]
    illegal = 0
    for _ in range(100):
        final = infos.pop("final_info", None)  # of Gymnasium itself, where an episode ended
        assert final is None or form_of(final) == NATIVE
        infos = {key: one for key, one in infos.items() if "final" not in key}
        assert form_of(infos) == NATIVE
        _, _, terminated, _, infos = env.step(rng.integers(NUM_ACTIONS, size=GAMES))
        illegal += infos.get("final_info", infos)["illegal_action"].sum()
        if mode == AutoresetMode.DISABLED and terminated.any():
            assert form_of(env.reset(options={"reset_mask": terminated})[1]) == NATIVE
    assert illegal > 10
    assert form_of(env.set_state(env.get_state())[1]) == NATIVE


def test_of_stable_baselines3():
    sb3 = pytest.importorskip("alles_kaese_env.envs.sb3", exc_type=ImportError)
    venv = sb3.AllesKaeseVecEnv(GAMES, 3, seed=0)
    venv.reset()
    rng = np.random.default_rng(0)
    illegal = 0
    for _ in range(100):
        _, _, dones, infos = venv.step(rng.integers(NUM_ACTIONS, size=GAMES))
        for info, done in zip(infos, dones, strict=True):
            illegal += info["illegal_action"]
            if done:  # as DummyVecEnv and Monitor add them
                assert info.pop("terminal_observation").shape == (OBSERVATION.size,)
                assert set(info.pop("episode")) == {"r", "l", "t"}
            assert form_of(info) == SB3
    assert illegal > 10


@pytest.mark.parametrize("make", [alles_kaese_v0.env, alles_kaese_v0.raw_env])
def test_of_pettingzoo(make):
    env = make(num_players=3)
    for seed in range(5):
        env.reset(seed=seed)
        for _ in env.agent_iter():
            observation, _, terminated, _, info = env.last()
            assert info == {}
            assert all(one == {} for one in env.infos.values())
            mask = observation["action_mask"]
            env.step(None if terminated else int(mask.argmax()))


def test_of_rllib():
    rllib = pytest.importorskip("alles_kaese_env.envs.rllib", exc_type=ImportError)
    env = rllib.AllesKaeseMultiAgentEnv({"num_players": 3})
    rng = np.random.default_rng(0)
    illegal = 0
    for seed in range(20):
        seen, infos = env.reset(seed=seed)
        is_over = False
        while not is_over:
            assert set(infos) == set(seen)
            assert all(
                form_of(info) == {"illegal_action": SINGLE["illegal_action"]}
                for info in infos.values()
            )
            (mover,) = seen
            action = int(rng.integers(NUM_ACTIONS))
            expected = not seen[mover]["action_mask"][action]
            seen, _, terminated, _, infos = env.step({mover: action})
            assert infos[mover]["illegal_action"] == expected if mover in infos else not expected
            illegal += expected
            is_over = terminated["__all__"]
        assert set(infos) == set(seen) == set(env.possible_agents)
    assert illegal > 10


# --- What needs it ------------------------------------------------------------------------------


def test_a_monitor_writes_them_down(tmp_path):
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    path = str(tmp_path / "log.monitor.csv")
    env = monitor.Monitor(AllesKaeseEnv(), path, info_keywords=("illegal_action",))
    info = env.reset(seed=0)[1]
    while not env.step(int(info["action_mask"].argmax()))[2]:
        info = {"action_mask": env.unwrapped.action_masks()}
    info = env.reset()[1]
    env.step(int(info["action_mask"].argmin()))
    env.close()
    with open(path, newline="") as file:
        file.readline()
        assert [row["illegal_action"] for row in csv.DictReader(file)] == ["False", "True"]


def test_minari_collects_them(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari", reason="needs the extra minari")
    pytest.importorskip("jax", reason="Minari's collector needs JAX")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = minari.DataCollector(gym.make("AllesKaese-v0"), record_infos=True)
    for seed in range(3):
        info = env.reset(seed=seed)[1]
        terminated = False
        while not terminated:
            choose = np.argmin if seed == 2 else np.argmax
            _, _, terminated, _, info = env.step(int(choose(info["action_mask"])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of metadata, and of folders that Minari leaves
        data = env.create_dataset("alles-kaese/infos-v0")
        del env
        gc.collect()
    last = [episode.infos["illegal_action"][-1] for episode in data.iterate_episodes()]
    assert last == [False, False, True]


def test_torchrl_makes_specs_of_them():
    envs = pytest.importorskip("torchrl.envs", reason="needs the extra torchrl")
    env = envs.GymEnv("AllesKaese-v0", categorical_action_encoding=True).auto_register_info_dict()
    envs.check_env_specs(env)
    rollout = env.rollout(50)
    assert rollout["next", "illegal_action"].shape == rollout["next", "done"].shape[:1]
    assert rollout["next", "action_mask"].shape[-1] == NUM_ACTIONS

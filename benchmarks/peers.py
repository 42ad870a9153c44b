"""Other environments, played at random in the same way and the same run, for comparison.

Peers that are not installed are left out. Each is a generator that yields how many steps it made.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np


def cartpole() -> Iterator[int]:
    """One game of Gymnasium's CartPole, without wrappers."""
    env = gymnasium.make("CartPole-v1").unwrapped
    actions = np.random.default_rng(0).integers(2, size=4096).tolist()
    env.reset(seed=0)
    while True:
        for action in actions:
            _, _, terminated, _, _ = env.step(action)
            if terminated:
                env.reset()
            yield 1


def cartpole_vectorised() -> Iterator[int]:
    """1,024 games of Gymnasium's own vectorised CartPole."""
    games = 1024
    env = gymnasium.make_vec("CartPole-v1", games, vectorization_mode="vector_entry_point")
    actions = np.random.default_rng(0).integers(2, size=(64, games))
    env.reset(seed=0)
    while True:
        for some in actions:
            env.step(some)
            yield games


def pettingzoo_leduc() -> Iterator[int]:
    """PettingZoo's Leduc hold'em."""
    from pettingzoo.classic import leduc_holdem_v4

    return aec_game(leduc_holdem_v4.raw_env())


def pettingzoo_connect_four() -> Iterator[int]:
    """PettingZoo's Connect Four."""
    from pettingzoo.classic import connect_four_v3

    return aec_game(connect_four_v3.raw_env())


def aec_game(env: Any) -> Iterator[int]:
    """Random legal play; steps of agents that are done do not count."""
    tickets = np.random.default_rng(0).random(4096).tolist()
    number = 0
    env.reset(seed=0)
    while True:
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
                continue
            legal = np.flatnonzero(observation["action_mask"])
            number = (number + 1) % len(tickets)
            env.step(int(legal[int(tickets[number] * len(legal))]))
            yield 1
        env.reset()


def openspiel_leduc() -> Iterator[int]:
    """OpenSpiel's Leduc poker."""
    import pyspiel

    return open_spiel_game(pyspiel.load_game("leduc_poker"))


def open_spiel_game(game: Any) -> Iterator[int]:
    """Random play with the observation tensor and legal actions of each decision."""
    draw = random.Random(0)  # noqa: S311 - a game
    while True:
        state = game.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                outcomes, chances = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(draw.choices(outcomes, chances)[0])
                continue
            state.observation_tensor()
            state.apply_action(draw.choice(state.legal_actions()))
            yield 1


def pgx_leduc() -> Iterator[int]:
    """1,024 games of pgx's Leduc hold'em on the CPU, compiled, with automatic resets."""
    import jax
    import pgx
    from pgx.experimental import auto_reset

    games = 1024
    env = pgx.make("leduc_holdem")

    @jax.jit
    def play(state: Any, key: Any) -> Any:
        key, choice, step = jax.random.split(key, 3)
        logits = jax.numpy.where(state.legal_action_mask, 0.0, -1e9)
        action = jax.random.categorical(choice, logits, axis=1)
        keys = jax.random.split(step, games)
        return jax.vmap(auto_reset(env.step, env.init))(state, action, keys), key

    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.PRNGKey(0), games))
    key = jax.random.PRNGKey(1)
    while True:
        state, key = play(state, key)
        jax.block_until_ready(state)
        yield games


PEERS: dict[str, tuple[str, Callable[[], Iterator[int]]]] = {
    # name: what must be installed, the generator
    "Gymnasium CartPole": ("gymnasium", cartpole),
    "Gymnasium CartPole, vectorised": ("gymnasium", cartpole_vectorised),
    "PettingZoo leduc": ("rlcard", pettingzoo_leduc),
    "PettingZoo connect four": ("pygame", pettingzoo_connect_four),
    "OpenSpiel leduc": ("pyspiel", openspiel_leduc),
    "pgx leduc": ("pgx", pgx_leduc),
}


def installed() -> dict[str, Callable[[], Iterator[int]]]:
    """The peers that can be measured here."""
    return {
        name: play for name, (module, play) in PEERS.items() if importlib.util.find_spec(module)
    }

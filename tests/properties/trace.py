"""A digest of many plies on several APIs: the same in every process and on every machine."""

from __future__ import annotations

import hashlib

import gymnasium
from builders import BURNS, PLAYERS, bytes_of, small_variants

from alles_kaese_env import GameBatch, Variant, alles_kaese_v0


def trace_digest() -> str:
    """Some dozen plies of each number of players and of small variants, as one hash."""
    digest = hashlib.sha256()
    variants = [Variant(num_players=n, burn=BURNS[n % 3]) for n in PLAYERS]
    for variant in variants + small_variants(3):
        add_batch(digest, variant)
    for players in PLAYERS:
        add_gymnasium(digest, players)
        add_pettingzoo(digest, players)
    return digest.hexdigest()


def add_batch(digest, variant):
    """Random play of two games, with everything that a batch shows."""
    batch = GameBatch(2, variant, seed=11, autoreset=True)
    for _ in range(40):
        batch.step(batch.random_actions())
        digest.update(bytes_of(batch.games))
        for array in (batch.streams, batch.observations, batch.masks, batch.payoffs):
            digest.update(array.tobytes())
        digest.update(batch.observe(variant.num_players - 1).tobytes())


def add_gymnasium(digest, players):
    """Two episodes, the second one without a seed."""
    env = gymnasium.make("AllesKaese-v0", num_players=players)
    for seed in (12, None):
        observation, info = env.reset(seed=seed)
        for _ in range(5):
            digest.update(observation.tobytes())
            action = int(info["action_mask"].argmax())
            observation, reward, terminated, _, info = env.step(action)
            digest.update(repr((float(reward), terminated)).encode())
            if terminated:
                break


def add_pettingzoo(digest, players):
    """A game with the first legal action each time."""
    env = alles_kaese_v0.raw_env(num_players=players)
    env.reset(seed=13)
    while not any(env.terminations.values()):
        seen = env.observe(env.agent_selection)
        digest.update(seen["observation"].tobytes())
        env.step(int(seen["action_mask"].argmax()))


if __name__ == "__main__":
    print(trace_digest())  # noqa: T201 - the test that runs this as a program reads it

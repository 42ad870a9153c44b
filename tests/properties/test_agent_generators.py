"""What agents draw from tells nothing of the games (I3)."""

from __future__ import annotations

import numpy as np
import pytest

from alles_kaese_env import AllesKaeseEnv, AllesKaeseVectorEnv
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv, JoinedVecEnv
from alles_kaese_env.seeding import agent_generator, streams_of

SEED = 987_654_321


class Curious:
    """Plays the first legal action and keeps the state of the generator that it is given."""

    def act(self, observations, masks, rng):
        if not hasattr(self, "entropy"):
            self.entropy = rng.bit_generator.seed_seq.entropy
            self.words = words_of(rng)
        rng.random()  # differs from step to step, as for an agent that draws
        return masks.argmax(axis=1)


def words_of(rng):
    """All 64-bit words from which somebody could go back, and those drawn next."""
    state = rng.bit_generator.state["state"]
    numbers = [state["state"], state["inc"]]
    found = {number >> shift & 2**64 - 1 for number in numbers for shift in (0, 1, 64, 65)}
    found |= set(rng.bit_generator.seed_seq.generate_state(8, np.uint64).tolist())
    return found | set(rng.integers(2**64, size=8, dtype=np.uint64).tolist())


def single(agent):
    AllesKaeseEnv(opponents=agent, seat=1).reset(seed=SEED)


def vector(agent):
    AllesKaeseVectorEnv(3, opponents=agent, seat=1).reset(seed=SEED)


def vector_of_seeds(agent):
    AllesKaeseVectorEnv(3, opponents=agent, seat=1).reset(seed=[SEED, SEED + 1, SEED + 2])


def stable_baselines(agent):
    AllesKaeseVecEnv(3, opponents=agent, seat=1, seed=SEED).reset()


def self_play(agent):
    """As `train.py` seats its opponents, with several numbers of players."""
    games = JoinedVecEnv([AllesKaeseVecEnv(2, players, agent, seat=1) for players in (2, 3)])
    games.seed(SEED)
    games.set_opponents([agent], [1.0])
    games.reset()


@pytest.mark.parametrize("begin", [self_play, single, vector, vector_of_seeds, stable_baselines])
def test_an_opponent_finds_no_way_back_to_the_deal(begin):
    agent, again = Curious(), Curious()
    begin(agent)
    begin(again)
    assert agent.words == again.words, "the same seed draws the same"
    assert agent.entropy not in (SEED, [SEED, SEED + 1, SEED + 2])
    seeds = [SEED, SEED + 1, SEED + 2, *streams_of(SEED, 2).tolist()]  # the last: of the parts
    assert agent.entropy not in seeds
    streams = np.concatenate([streams_of(seed, 8) for seed in seeds])
    assert not agent.words & set(streams.tolist())
    assert np.random.default_rng(SEED).random() != agent_generator(SEED).random()


def test_generators_of_other_seeds_and_keys_are_others():
    arguments = [(0,), (1,), (0, 1), (0, 2), (None,), (None,), ([0, 1],)]
    drawn = {agent_generator(*one).integers(2**63) for one in arguments}
    assert len(drawn) == len(arguments)
    assert agent_generator(5, 1).random() == agent_generator(np.int64(5), np.int64(1)).random()
    assert agent_generator([5]).random() == agent_generator(5).random()

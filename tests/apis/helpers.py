"""What the tests of several APIs share."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import subprocess
import sys
import zlib
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

import alles_kaese_env
from alles_kaese_env import (
    DISCARD,
    NUM_ACTIONS,
    OBSERVATION,
    PEEK,
    TAKE,
    AllesKaeseEnv,
    GameBatch,
    Variant,
    encode_action,
)

PACKAGE = Path(alles_kaese_env.__file__).parent
# Start methods of processes that Windows lacks.
FORKS = [pytest.param(name, marks=pytest.mark.posix) for name in ("fork", "forkserver")]
KINDS = {PEEK: "peek", TAKE: "take", DISCARD: "discard"}
GAMES_A_SEAT = 50  # 1,000 games of all seats at tables for 2 to 6
SEATS_AT_TABLE = [(players, seat) for players in range(2, 7) for seat in range(players)]

# Rules that an API has to pass on to the core.
VARIANTS = {
    "2 players": {"num_players": 2},
    "3 players": {"num_players": 3},
    "4 players": {"num_players": 4},
    "5 players": {"num_players": 5},
    "6 players": {"num_players": 6},
    "burn turn": {"num_players": 4, "burn": "turn"},
    "burn never": {"num_players": 2, "burn": "never"},
    "small": {"traps": (1, 1), "copies": (3, 3), "row_size": 2, "trap_limit": 2},
    "row of three": {"num_players": 3, "traps": (1, 2, 2), "copies": (4, 5, 6), "row_size": 3},
}

# What is no action, and what is one but not from 0 to 17.
NO_ACTIONS = {
    "True": True,
    "np.bool_": np.bool_(True),
    "3.0": 3.0,
    "3.5": 3.5,
    "np.float64": np.float64(3.0),
    "NaN": float("nan"),
    "text": "3",
    "text array": np.array(["3"]),
    "None": None,
    "list": [3],
    "float array": np.array([3.0]),
    "bool array": np.array(True),
    "two numbers": np.array([3, 4]),
    "no numbers": np.array([], np.int64),
    "-1": -1,
    "18": NUM_ACTIONS,
    "np -1": np.int8(-1),
    "np 18": np.uint8(18),
    "2**31 - 1": 2**31 - 1,
    "2**64": 2**64,
}

GOOD_SEEDS = [0, 2**31 - 1, 2**32 - 1, 2**63 - 1, np.int64(7), np.uint64(2**63)]
BAD_SEEDS = [-1, 2**64, 1.5, 1.0, "1", True, np.float64(1)]


# --- Opponents -----------------------------------------------------------------------------


class FirstLegal:
    """The lowest legal action: takes if it can."""

    def act(self, observations, masks, rng):
        return masks.argmax(axis=1)


class Hasher:
    """A legal action that depends on the whole observation, and on nothing else."""

    def act(self, observations, masks, rng):
        return np.array(
            [
                np.flatnonzero(mask)[zlib.crc32(observation.tobytes()) % mask.sum()]
                for observation, mask in zip(observations, masks, strict=True)
            ]
        )


class Gambler:
    """A legal action drawn from the generator that it is handed."""

    def act(self, observations, masks, rng):
        return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])


class Cheat:
    """The lowest action that is not legal."""

    def act(self, observations, masks, rng):
        return masks.argmin(axis=1)


class Broken:
    """Whatever it is made with, as often as there are games."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def act(self, observations, masks, rng):
        return np.array([self.answer] * len(masks))


class NeedsArgument:
    """An agent that cannot be made without an argument."""

    def __init__(self, argument: int) -> None:
        self.argument = argument

    def act(self, observations, masks, rng):
        return masks.argmax(axis=1)


first_legal = FirstLegal()


def path_of(name: str) -> str:
    """The import path of something in this file."""
    return f"{__name__}:{name}"


# --- Rules by hand, from the observation alone ------------------------------------------------


def mask_by_hand(observation: np.ndarray, row_size: int = 6) -> np.ndarray:
    """T2, T5: the legal actions of the observer if it is its turn, from backs and die."""
    facts = OBSERVATION.decode(observation)
    mask = np.zeros(NUM_ACTIONS, bool)
    if not facts["turn"][0]:
        return mask
    matching = [slot for slot in range(6) if (facts["row"][slot] * facts["die"]).any()]
    if not matching:
        mask[[encode_action(PEEK, slot) for slot in range(row_size)]] = True
    for slot in matching:
        mask[[encode_action(TAKE, slot), encode_action(DISCARD, slot)]] = True
    return mask


def payoffs_by_hand(observation: np.ndarray, variant: Variant) -> list[Fraction]:
    """P1 to P5: the payoffs of a finished game by seat, beginning with the observer."""
    facts = OBSERVATION.facts(observation, variant)
    assert facts["turn"] is None
    players = variant.num_players
    standing = [
        (facts["traps"][k] < variant.trap_limit, facts["points"][k], facts["cheese"][k])
        for k in range(players)
    ]
    best = max(standing)
    share = Fraction(players, standing.count(best)) - 1
    return [share / (players - 1) if one == best else Fraction(-1, players - 1) for one in standing]


# --- Decks ------------------------------------------------------------------------------------


def shuffled_deck(variant: Variant, rng: np.random.Generator) -> list[tuple[int, bool]]:
    """The cards of a variant in a random order."""
    deck = variant.deck
    return [deck[k] for k in rng.permutation(len(deck))]


def stacked_deck(variant: Variant, *first: tuple[int, bool]) -> list[tuple[int, bool]]:
    """A deck that begins with some cards; the others follow by holes."""
    rest = variant.deck
    for card in first:
        rest.remove(card)
    return [*first, *rest]


def third_trap_options(players: int, victim: int) -> dict[str, Any]:
    """A deal in which a seat that takes slots 0, 1, 2 in its first three turns has three traps.

    Everybody else finds no match: there is no card of 6 holes within reach.
    """
    deck = stacked_deck(Variant(num_players=players), *[(4, True)] * 3, *[(1, False)] * 3)
    turns = 2 * players + victim + 1
    return {"deck": deck, "dice": [4 if k % players == victim else 6 for k in range(turns)]}


# --- Playing ------------------------------------------------------------------------------


def pick(mask: np.ndarray, rng: np.random.Generator) -> int:
    """One of the legal actions."""
    return int(rng.choice(np.flatnonzero(mask)))


def picks(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One of the legal actions of each row."""
    return np.array([pick(mask, rng) for mask in masks])


def let_others_play(batch: GameBatch, seat: int) -> None:
    """Random opponents act, in each game, until it is the seat's turn or the game is over."""
    while (rows := np.flatnonzero(~batch.over & (batch.seats != seat))).size:
        batch.step(batch.random_actions(rows), rows)


def replay_random_games(
    looks: Any, masks: Any, step: Any, players: int, seat: int, seed: int, games: int
) -> None:
    """Whole games of one seat through an API of many games and through the core.

    Args:
        looks: the first observations.
        masks: called for the masks (B, 18) now.
        step: called with actions (B,); answers with observations, those of ended games the last
            of the old game; rewards; and which games ended.
        players, seat, seed, games: what the API was made with.
    """
    batch = GameBatch(games, Variant(num_players=players), seed=seed)
    let_others_play(batch, seat)
    rng = np.random.default_rng(seed)
    on = np.arange(games)  # the games that go on; an API deals anew where one is over
    while on.size:
        assert np.array_equal(looks[on], batch.observations[on])
        assert np.array_equal(masks()[on], batch.masks[on])
        actions = np.zeros(games, np.int64)
        actions[on] = picks(batch.masks[on], rng)
        batch.step(actions[on], on)
        let_others_play(batch, seat)
        looks, rewards, ended = step(actions)
        payoffs = np.where(batch.over, batch.payoffs[:, seat], 0)
        assert np.allclose(rewards[on], payoffs[on], atol=1e-6)
        assert np.array_equal(ended[on], batch.over[on])
        last = on[ended[on]]
        assert np.array_equal(looks[last], batch.observe(seat)[last])
        on = on[~ended[on]]


def play_on(env: Any, info: dict[str, Any], steps: int, seed: int = 0) -> list[Any]:
    """Random legal steps of a Gymnasium environment, reset without a seed where a game ends."""
    rng = np.random.default_rng(seed)
    trace = []
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(pick(info["action_mask"], rng))
        trace.append((observation, reward, terminated, truncated, info))
        if terminated or truncated:
            observation, info = env.reset()
            trace.append((observation, info))
    return trace


def episodes_digest(seed: int, episodes: int = 4, **options: Any) -> str:
    """A digest of all that happens in some episodes after one seeded reset."""
    env = AllesKaeseEnv(**options)
    rng = np.random.default_rng(seed)
    digest = hashlib.sha256()
    for episode in range(episodes):
        observation, info = env.reset(seed=None if episode else seed)
        terminated = False
        while not terminated:
            digest.update(observation.tobytes() + info["action_mask"].tobytes())
            observation, reward, terminated, _, info = env.step(pick(info["action_mask"], rng))
            digest.update(np.float64(reward).tobytes())
    return digest.hexdigest()


def state_of(env: Any) -> tuple[bytes, bytes]:
    """The game records and random streams of any API, as bytes."""
    base = env.unwrapped
    games = getattr(base, "games", None) or getattr(base, "_games", None)
    batch = games.batch if games is not None else base._batch
    return batch.games.tobytes(), batch.streams.tobytes()


# --- Comparing ----------------------------------------------------------------------------


def assert_same(left: Any, right: Any, where: str = "") -> None:
    """Equal in value, type of array and keys, all the way down."""
    if isinstance(left, dict):
        assert isinstance(right, dict), where
        assert set(left) == set(right), where
        for key in left:
            assert_same(left[key], right[key], f"{where}[{key!r}]")
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right), where
        for k, (one, other) in enumerate(zip(left, right, strict=True)):
            assert_same(one, other, f"{where}[{k}]")
    elif isinstance(left, np.ndarray):
        assert isinstance(right, np.ndarray), where
        assert (left.dtype, left.shape) == (right.dtype, right.shape), where
        if left.dtype == object:
            assert_same(list(left), list(right), where)
        else:
            assert np.array_equal(left, right), f"{where}: {left} is not {right}"
    else:
        assert type(left) is type(right), f"{where}: {left!r} is not {right!r}"
        assert left == right, f"{where}: {left!r} is not {right!r}"


def arrays_in(value: Any) -> list[np.ndarray]:
    """All arrays in what an API returned."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [value]
    if isinstance(value, (list, tuple, np.ndarray)):
        return [array for one in value for array in arrays_in(one)]
    return []


def assert_no_views(results: list[Any]) -> None:
    """No two arrays of the results lie in the same memory."""
    arrays = [array for result in results for array in arrays_in(result)]
    assert len(arrays) > 1
    for k, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[:k])


def scribble(value: Any) -> None:
    """Write nonsense into all arrays of what an API returned."""
    for array in arrays_in(value):
        array[...] = 1 - array if array.dtype != bool else ~array


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "cloudpickle": lambda one: cloudpickle.loads(cloudpickle.dumps(one)),
}


# --- Processes --------------------------------------------------------------------------------


def run_python(code: str, *flags: str) -> str:
    """What a fresh interpreter prints for the code; it finds the package and these tests."""
    paths = [str(PACKAGE.parent), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def maker(**options: Any) -> Any:
    """Makes the Gymnasium environment in whatever process, which need not have imported it."""
    return partial(gym.make, "alles_kaese_env:AllesKaese-v0", **options)

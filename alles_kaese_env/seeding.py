"""From seeds to random streams, one for each game."""

from __future__ import annotations

import hashlib
import operator
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_SEED = 2**64 - 1


def as_seed(seed: Any) -> int | None:
    """`seed` as an int from 0 to 2^64 - 1, or None; else `ValueError`."""
    if seed is None:
        return None
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if isinstance(seed, (bool, np.bool_)) or not 0 <= number <= MAX_SEED:
        raise ValueError(f"seed is {seed!r}; allowed: a whole number from 0 to {MAX_SEED}, or None")
    return number


def streams_of(seed: int | None, games: int) -> npt.NDArray[np.uint64]:
    """The streams (games,) that belong to a seed; stream i is the same for any number of games.

    They are words of one `numpy.random.SeedSequence`, so neighbouring seeds share none.
    """
    return np.random.SeedSequence(as_seed(seed)).generate_state(games, np.uint64).astype(np.uint64)


def drawn_streams(rng: np.random.Generator, games: int) -> npt.NDArray[np.uint64]:
    """Streams (games,) for games that were given no seed."""
    return rng.integers(MAX_SEED, size=games, dtype=np.uint64, endpoint=True)


def seed_of(seed: int, *key: int) -> int:
    """A seed that belongs to a seed and a key; different keys give unrelated deals."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1)[0])


def agent_generator(seed: int | Sequence[int] | None, *key: int) -> np.random.Generator:
    """What agents draw from in games of a seed: nothing in it leads back to the games.

    An agent that knew the seed could deal the same cards again. So the generator begins from a
    hash of it, and its ``bit_generator.seed_seq`` holds that hash alone.

    Args:
        seed: of the games, or their seeds; None for one from the operating system.
        key: makes several independent generators from one seed.
    """
    given = seed if isinstance(seed, Sequence) else [seed]
    seeds = [secrets.randbits(128) if one is None else as_seed(one) for one in given]
    text = repr((seeds, [int(number) for number in key])).encode()
    digest = hashlib.blake2b(text, digest_size=16, person=b"agents").digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))

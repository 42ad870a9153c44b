"""Random streams: SplitMix64 (Steele, Lea and Flood 2014), one counter a game."""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np

from alles_kaese_env.core.jit import jit, jit_wrapping


@jit_wrapping
def next_word(stream):
    """Advance a stream; its next 64 random bits."""
    stream.counter += np.uint64(0x9E3779B97F4A7C15)
    word = stream.counter
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@jit
def random_below(stream, bound):
    """A whole number from 0 to bound - 1; its bias is below bound / 2^32."""
    return np.int64(((next_word(stream) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))

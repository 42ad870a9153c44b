"""A value network: the chance to win of a seat that has just acted, from what that seat knows.

It judges the table after an action, before chance goes on, and expects that the seat will play by
it and all others by the reference heuristic. A small one, compiled, so that a search can afford
it at the end of every game that it imagines. ``train_values.py`` trains it, for the default
rules; ``docs/search.md`` says how.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.heuristics.heuristic import seen_by_others
from alles_kaese_env.core.jit import compiled, jit
from alles_kaese_env.core.records import (
    CHEESE,
    DISCARD,
    GAME,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NUM_ACTIONS,
    OVER,
    TRAP,
)
from alles_kaese_env.core.rules import (
    apply_action,
    kind_of,
    legal_actions,
    slot_of,
    trap_probability,
    write_payoffs,
)
from alles_kaese_env.files import read_arrays, reading

HIDDEN = (64, 32)
BY_SEAT, BY_OPPONENT, BY_HOLES = 5, 7, 8  # numbers that describe each of them
DIRECTORY = Path(__file__).parents[1] / "pretrained"

Floats = npt.NDArray[np.float32]


class Network(NamedTuple):
    """Weights of two hidden layers and an output; with none of them it judges nothing.

    Attributes:
        first, second, last: (F, H), (H, K) and (K, 1) for F features and H and K hidden units.
        first_bias, second_bias, last_bias: (H,), (K,) and (1,).
    """

    first: Floats
    first_bias: Floats
    second: Floats
    second_bias: Floats
    last: Floats
    last_bias: Floats


class Buffers(NamedTuple):
    """What play-outs work in: a game, features, hidden units, payoffs."""

    game: npt.NDArray[Any]
    features: Floats
    first: Floats
    second: Floats
    payoffs: npt.NDArray[np.float64]


def sizes_for(num_players: int) -> tuple[int, ...]:
    """Inputs, hidden units and outputs of the network for so many players."""
    return num_features(num_players), *HIDDEN, 1


def num_features(num_players: int) -> int:
    """How many numbers describe a table with so many players."""
    return 2 + BY_SEAT + BY_OPPONENT * (num_players - 1) + BY_HOLES * MAX_HOLES


def buffers_for(num_players: int) -> Buffers:
    """For games with so many players."""
    first, second = (np.zeros(size, np.float32) for size in HIDDEN)
    features = np.zeros(num_features(num_players), np.float32)
    return Buffers(np.zeros(1, GAME), features, first, second, np.zeros((1, MAX_PLAYERS)))


def no_network() -> Network:
    """One that judges nothing."""
    none, nothing = np.zeros((0, 0), np.float32), np.zeros(0, np.float32)
    return Network(none, nothing, none, nothing, none, nothing)


def network_file(num_players: int, directory: Path = DIRECTORY, name: str = "values") -> Path:
    """Where the network of that name for so many players is kept."""
    return directory / f"{name}_{num_players}.npz"


def load_network(path: Path, sizes: Sequence[int], module: str) -> Network:
    """A network with so many inputs, hidden units and outputs, as ``module`` has trained it.

    Raises:
        ValueError: it is no file of arrays, or their shapes are others.
    """
    shapes = [shape for pair in pairwise(sizes) for shape in (pair, pair[1:])]
    with reading(path, "file of a value network"):
        arrays = read_arrays(path)
    found = [arrays.get(name, np.zeros(0)) for name in Network._fields]
    if [array.shape for array in found] != shapes:
        raise ValueError(
            f"{path} has arrays of shapes {[array.shape for array in found]}; allowed: {shapes}; "
            f"train it anew with python -m {module}"
        )
    return Network(*(np.ascontiguousarray(array, np.float32) for array in found))


# --- What the network sees ---------------------------------------------------------------------


@jit
def write_features(game, rules, seat, features):
    """Describe a table by what a seat knows: score, time left, the row, what is still unseen."""
    features[:] = 0
    cards = np.int64(game.reserve)
    features[0] = cards / 30
    features[1] = 1 / (1 + cards / rules.num_players)
    features[2 + np.minimum(np.int64(game.traps[seat]), 2)] = 1
    features[5] = game.points[seat] / 10
    features[6] = game.cheese[seat] / 4
    start = 2 + BY_SEAT
    for place in range(1, rules.num_players):
        other = (seat + place) % rules.num_players
        describe_opponent(game, seat, other, features[start : start + BY_OPPONENT])
        start += BY_OPPONENT
    describe_cards(game, rules, seat, features[start:])


@jit
def describe_opponent(game, seat, other, out):
    """An opponent's traps and the lead over it, in points and by what can still change it."""
    cards = np.float64(game.reserve)
    lead = np.float64(game.points[seat]) - np.float64(game.points[other])
    lead += (np.float64(game.cheese[seat]) - np.float64(game.cheese[other])) / 2
    out[np.minimum(np.int64(game.traps[other]), 2)] = 1
    out[3] = lead / 8
    out[4] = 1 / (1 + np.exp(min(max(-lead / (1.1 * np.sqrt(cards) + 0.3), -30.0), 30.0)))
    out[5] = max(min(lead / max(np.sqrt(cards), 0.3), 3.0), -3.0)
    out[6] = game.points[other] / 10


@jit
def describe_cards(game, rules, seat, out):
    """By holes: cards in the row by who knows what, trap share (I4), cards of the reserve."""
    for slot in range(MAX_SLOTS):
        if game.row[slot] > 0:
            place = np.int64(game.row[slot]) - 1
            seen = seen_by_others(game, rules, seat, slot)
            knows = game.peeked[slot] >> seat & 1
            group = 2 * (np.int64(game.front[slot]) - CHEESE) if knows else 4
            out[group * MAX_HOLES + place] += 1 - seen
            out[(group + 1) * MAX_HOLES + place] += seen
    for h in range(MAX_HOLES):
        cheese = rules.fronts[h] - np.int64(game.known[seat, h])
        traps = rules.fronts[MAX_HOLES + h] - np.int64(game.known[seat, MAX_HOLES + h])
        out[6 * MAX_HOLES + h] = traps / max(traps + cheese, 1)
        out[7 * MAX_HOLES + h] = (np.int64(game.below[h]) + (game.top == h + 1)) / 3


# --- What it thinks of it ----------------------------------------------------------------------


def _output(network, features, first, second):
    """The network's output for some features, 0 to 1; ``first`` and ``second`` are buffers."""
    first[:] = network.first_bias
    for k in range(len(features)):
        if features[k] != 0:
            for j in range(len(first)):
                first[j] += features[k] * network.first[k, j]
    second[:] = network.second_bias
    for k in range(len(first)):
        if first[k] > 0:
            for j in range(len(second)):
                second[j] += first[k] * network.second[k, j]
    total = network.last_bias[0]
    for j in range(len(second)):
        total += max(second[j], np.float32(0)) * network.last[j, 0]
    return 1 / (1 + np.exp(-total))


# The order of sums is left to the compiler: it makes three of them at a time.
output = compiled(_output, fastmath=True)


@jit
def final_share(game, rules, seat, payoffs):
    """P5: a seat's share of the win of a finished game."""
    write_payoffs(game, rules, payoffs, 0)
    return (payoffs[0, seat] * (rules.num_players - 1) + 1) / rules.num_players


@jit
def value_after(game, rules, seat, action, network, buffers):
    """The chance to win after an action whose front, if one is seen, lies in ``game.front``."""
    apply_action(game, rules, action)
    if game.phase == OVER:
        return final_share(game, rules, seat, buffers.payoffs)
    write_features(game, rules, seat, buffers.features)
    return np.float64(output(network, buffers.features, buffers.first, buffers.second))


@jit
def action_value(game, rules, action, network, buffers):
    """The chance to win of the seat to move after an action, by what that seat knows (I4)."""
    seat, slot = np.int64(game.seat), slot_of(action)
    if kind_of(action) == DISCARD or game.peeked[slot] >> seat & 1:
        buffers.game[0] = game
        return value_after(buffers.game[0], rules, seat, action, network, buffers)
    trap = trap_probability(game, rules, seat, slot)
    value = 0.0
    for front, chance in ((CHEESE, 1 - trap), (TRAP, trap)):
        if chance > 0:
            buffers.game[0] = game
            buffers.game[0].front[slot] = front
            value += chance * value_after(buffers.game[0], rules, seat, action, network, buffers)
    return value


@jit
def is_repeated(game, slot):
    """Whether the seat to move cannot tell the card in a slot from one in a lower slot."""
    knows = game.peeked[slot] >> np.int64(game.seat) & 1
    for other in range(slot):
        is_alike = game.row[other] == game.row[slot] and game.peeked[other] == game.peeked[slot]
        if is_alike and (not knows or game.front[other] == game.front[slot]):
            return True
    return False


@jit
def best_action(game, rules, network, buffers):
    """The action of the seat to move that the network likes best, and its value."""
    legal = legal_actions(game, rules)
    chosen, best = 0, -1.0
    for action in range(NUM_ACTIONS):
        if legal >> action & 1 and not is_repeated(game, slot_of(action)):
            value = action_value(game, rules, action, network, buffers)
            if value > best:
                chosen, best = action, value
    return chosen, best

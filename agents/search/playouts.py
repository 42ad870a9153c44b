"""Compiled play-outs: how games go on after each action, counted."""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.heuristics.heuristic import heuristic_action
from agents.heuristics.reference import reference_action
from agents.search.beliefs import determinise, rebuild_opponents
from agents.search.values import Buffers, Network, best_action, final_share
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import DECISION
from alles_kaese_env.core.rules import apply_action, run_chance
from alles_kaese_env.core.streams import next_word

DISCARD_ODDS = 4  # of a trap, for a discard that an opponent knew and did not take


class Policy(NamedTuple):
    """How a seat plays without a search: as its network says, or else as the heuristic does.

    Attributes:
        parameters: of the heuristic, (1,) PARAMETERS.
        network: that of `no_network` for none.
        buffers: to work in.
    """

    parameters: npt.NDArray[Any]
    network: Network
    buffers: Buffers


@jit
def policy_action(game, rules, policy):
    """What the seat to move does without a search."""
    if len(policy.network.first):
        return best_action(game, rules, policy.network, policy.buffers)[0]
    return heuristic_action(game, rules, policy.parameters[0], policy.buffers.payoffs[0])


@jit
def begin(views, rules, policy, work, seen):
    """Complete the first game by what opponents know; what the mover does without a search.

    Args:
        views: (1,) OBSERVATION_RECORD.
        rules, policy, work, seen: as in `search`.
    """
    rebuild_opponents(views[0], rules[0], work[0], seen)
    return policy_action(work[0], rules[0], policy)


@jit
def outcome(game, rules, mover, policy, stream):
    """The mover's chance to win when it has acted, from one way in which the game goes on.

    The others play the reference heuristic. With a network the way ends at the mover's next
    decision, with what the network thinks of the best action there; without one the mover plays
    the tuned heuristic to the end.
    """
    while game.phase == DECISION:
        if game.seat != mover:
            action = reference_action(game, rules)
        elif len(policy.network.first):
            return best_action(game, rules, policy.network, policy.buffers)[1]
        else:
            action = heuristic_action(game, rules, policy.parameters[0], policy.buffers.payoffs[0])
        apply_action(game, rules, action)
        run_chance(game, rules, stream)
    return final_share(game, rules, mover, policy.buffers.payoffs)


@jit
def search(work, rules, policy, seen, actions, rounds, streams, gains):
    """Rounds of play-outs: one determinisation each, and from it one play-out for each action.

    All play-outs of a round share the determinisation and the random stream: common random
    numbers, so that luck tells actions apart less.

    Args:
        work: (3,) GAME: that of `rebuild_opponents`, and two buffers.
        rules: (1,) RULES.
        policy: the Policy of the mover.
        seen: as in `rebuild_opponents`.
        actions: (A,) int64, the legal ones; the first is the one that others are compared with.
        rounds: how many rounds.
        streams: (2,) STREAM: the first one goes on from call to call, the second is a buffer.
        gains: (2, A) float64, to which is added by how much each action is better for the mover
            than the first one, as a share of the win, and the square of it.
    """
    mover = np.int64(work[0].seat)
    for _ in range(rounds):
        work[1] = work[0]
        determinise(work[1], rules[0], seen, DISCARD_ODDS, streams[0])
        word = next_word(streams[0])
        first = 0.0
        for k in range(len(actions)):
            work[2] = work[1]
            streams[1].counter = word
            apply_action(work[2], rules[0], actions[k])
            run_chance(work[2], rules[0], streams[1])
            share = outcome(work[2], rules[0], mover, policy, streams[1])
            if k == 0:
                first = share
            gains[0, k] += share - first
            gains[1, k] += (share - first) ** 2

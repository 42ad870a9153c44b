"""Compiled play-outs: how games go on after each action, counted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.heuristics.beliefs import whole
from agents.heuristics.heuristic import heuristic_action
from agents.heuristics.reference import reference_action
from agents.search.values import Buffers, Network, best_action, final_share, is_repeated
from alles_kaese_env.core.beliefs import determinise, forget
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import DECISION, MAX_HOLES, NUM_ACTIONS
from alles_kaese_env.core.rules import apply_action, legal_actions, run_chance, slot_of
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
    return judged_action(game, rules, policy)[0]


@jit
def judged_action(game, rules, policy):
    """The same, and what the network thinks of it; 0 without one."""
    if len(policy.network.first):
        return best_action(game, rules, policy.network, policy.buffers)
    return heuristic_action(game, rules, policy.parameters[0], policy.buffers.payoffs[0]), 0.0


@jit
def begin(views, rules, policy, work, seen):
    """Complete the first game by what opponents know; returns the actions to compare.

    The first is what the mover does without a search. The others are the legal ones, but of
    several cards that nothing tells apart only the lowest slot is tried.
    """
    rebuild_opponents(views[0], rules[0], work[0], seen)
    return different_actions(work[0], rules[0], policy_action(work[0], rules[0], policy))


@jit
def rebuild_opponents(view, rules, game, seen):
    """Complete a game of `rebuild` by how many fronts opponents know (T3); `forget` tells more."""
    for seat in range(1, rules.num_players):
        for h in range(MAX_HOLES):
            game.known[seat, h] = whole(view.opponent_fronts[seat - 1, h] * rules.copies[h])
    forget(game, rules, 0, seen)


@jit
def different_actions(game, rules, first):
    """The legal actions (A,), ``first`` before the others, one for cards that are alike."""
    actions, number = np.full(NUM_ACTIONS, first), 1
    legal = legal_actions(game, rules)
    for action in range(NUM_ACTIONS):
        is_new = action != first and not is_repeated(game, slot_of(action))
        if legal >> action & 1 and is_new:
            actions[number] = action
            number += 1
    return actions[:number]


@jit
def outcome(game, rules, mover, policy, stream):
    """The mover's chance to win when it has acted, from one way in which the game goes on.

    The others play the reference heuristic. With a network the way ends at the mover's next
    decision, with what the network thinks of the best action there; without one the mover plays
    the tuned heuristic to the end.
    """
    while game.phase == DECISION:
        if game.seat == mover:
            action, value = judged_action(game, rules, policy)
            if len(policy.network.first):
                return value
        else:
            action = reference_action(game, rules)
        apply_action(game, rules, action)
        run_chance(game, rules, stream)
    return final_share(game, rules, mover, policy.buffers.payoffs)


@jit
def search(work, rules, policy, seen, actions, rounds, streams, gains):
    """Rounds of play-outs: one determinisation each, and from it one play-out for each action.

    All play-outs of a round share the determinisation and the random stream: common random
    numbers, so that luck tells actions apart less.

    ``work`` (3,) GAME has the game of `rebuild_opponents` and two buffers, ``streams`` (2,) STREAM
    the stream to draw from and a buffer. Added to ``gains`` (2, A) is by how much each of the
    actions (A,) is better for the mover than the first, as a share of the win, and its square.
    """
    mover = np.int64(work[0].seat)
    for _ in range(rounds):
        work[1] = work[0]
        determinise(work[1], rules[0], 0, seen, DISCARD_ODDS, streams[0])
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

"""The reference heuristic of the rule book, a fixed baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from agents.heuristics.beliefs import Actions, BelievingAgent
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import CHEESE, DISCARD, MAX_SLOTS, PEEK, TAKE, TRAP
from alles_kaese_env.core.rules import face_of, matching_slots, trap_probability


class ReferenceAgent(BelievingAgent):
    """The reference heuristic of the rule book, to the letter: a fixed baseline.

    With q the trap probability of a slot (I4; 0 or 1 where the front is known), k the own traps
    and t = 0.7 for k <= 1, 0.1 for more: on a match take the matching slot of the smallest q if
    that q <= t, otherwise discard the one of the greatest q. On no match peek at the slot of the
    greatest holes x q x (1 - q) among those whose front is unknown, at slot 0 if all are known.
    Ties go to the lowest slot.
    """

    def choose(self, games: npt.NDArray[Any], players: Actions, actions: Actions) -> None:
        """See `BelievingAgent.choose`."""
        reference_actions(games, self.rules, players, actions)


@jit
def reference_actions(games, rules, players, actions):
    """`reference_action` in each of some games."""
    for i in range(len(games)):
        actions[i] = reference_action(games[i], rules[players[i]])


@jit
def reference_action(game, rules):
    """What the reference heuristic does in place of the seat to move, by what that seat knows."""
    if matching_slots(game):
        return take_or_discard(game, rules, 0.7 if game.traps[game.seat] <= 1 else 0.1)
    chosen, best = 0, -1.0
    for slot in range(MAX_SLOTS):
        if game.row[slot] > 0 and not game.peeked[slot] >> np.int64(game.seat) & 1:
            worth = uncertainty(game, rules, slot)
            if worth > best:
                chosen, best = slot, worth
    return PEEK * MAX_SLOTS + chosen


@jit
def take_or_discard(game, rules, risk):
    """Take the matching card that is least likely a trap, or discard the one that most likely is.

    ``risk`` is the greatest trap probability at which a card is taken.
    """
    safest = riskiest = 0
    least, most = 2.0, -1.0
    for slot in range(MAX_SLOTS):
        if game.row[slot] == game.die:
            trap = trap_probability(game, rules, np.int64(game.seat), slot)
            if trap < least:
                safest, least = slot, trap
            if trap > most:
                riskiest, most = slot, trap
    return TAKE * MAX_SLOTS + safest if least <= risk else DISCARD * MAX_SLOTS + riskiest


@jit
def uncertainty(game, rules, slot):
    """holes x q x (1 - q), by whole numbers, so that what is equal gives the same number."""
    known, holes = game.known[game.seat], np.int64(game.row[slot])
    cheese, trap = face_of(CHEESE, holes), face_of(TRAP, holes)
    cheeses = rules.fronts[cheese] - np.int64(known[cheese])
    traps = rules.fronts[trap] - np.int64(known[trap])
    cards = cheeses + traps
    return holes * traps * cheeses / (cards * cards)

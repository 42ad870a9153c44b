"""The greedy agent, a player's first idea."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from agents.heuristics.beliefs import Actions, BelievingAgent
from agents.heuristics.reference import take_or_discard
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import MAX_SLOTS, PEEK
from alles_kaese_env.core.rules import matching_slots, trap_probability


class GreedyAgent(BelievingAgent):
    """As many points as the next turn can bring: a player's first idea.

    On a match it takes the card of the greatest expected points, which is the one of the smallest
    trap probability q (I4), if the risk is not too high: q <= 0.7, or known cheese alone where one
    more trap would lose. Otherwise it discards the matching card of the greatest q. On no match
    it peeks at the card of the most holes among those that it does not know. Ties go to the
    lowest slot.
    """

    def choose(self, games: npt.NDArray[Any], players: Actions, actions: Actions) -> None:
        """See `BelievingAgent.choose`."""
        greedy_actions(games, self.rules, players, actions)


@jit
def greedy_actions(games, rules, players, actions):
    """`greedy_action` in each of some games."""
    for i in range(len(games)):
        actions[i] = greedy_action(games[i], rules[players[i]])


@jit
def greedy_action(game, rules):
    """What the greedy agent does in place of the seat to move, by what that seat knows."""
    if matching_slots(game):
        is_last_trap = game.traps[game.seat] + 1 >= rules.trap_limit  # E1
        return take_or_discard(game, rules, 0.0 if is_last_trap else 0.7)
    chosen, most = 0, 0
    for slot in range(MAX_SLOTS):
        trap = 0.0
        if game.row[slot] > most:
            trap = trap_probability(game, rules, np.int64(game.seat), slot)
        if 0 < trap < 1:
            chosen, most = slot, game.row[slot]
    return PEEK * MAX_SLOTS + chosen

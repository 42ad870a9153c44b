"""Compiled policies, for a search to imagine what others and its own seat will do.

They are those of ``agents/heuristics/heuristic.py``, for the seat to move in a game record and by
what that seat knows. What is compiled here is not kept on disk: Numba would not renew it when the
engine changes.
"""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from dataclasses import astuple, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.heuristics.heuristic import SETTLED, TIE_BREAK, TRAP_DISLIKE, Parameters
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import (
    CHEESE,
    DISCARD,
    MAX_SLOTS,
    PEEK,
    TAKE,
    TRAP,
    record,
)
from alles_kaese_env.core.rules import (
    face_of,
    matching_slots,
    trap_probability,
)

EQUAL = 1e-9  # what values may differ by and be equal
PARAMETERS = record([(field.name, "f8") for field in fields(Parameters)])


def parameters_record(parameters: Parameters) -> npt.NDArray[Any]:
    """Parameters of the heuristic as a record array (1,)."""
    return np.array([astuple(parameters)], PARAMETERS)


# --- What a seat knows -------------------------------------------------------------------------


@jit
def uncertainty(game, rules, seat, slot):
    """q x (1 - q) for the trap probability q; the same fractions give the same number."""
    holes = game.row[slot]
    cheese, trap = face_of(CHEESE, holes), face_of(TRAP, holes)
    traps = rules.fronts[trap] - np.int64(game.known[seat, trap])
    cheeses = rules.fronts[cheese] - np.int64(game.known[seat, cheese])
    cards = traps + cheeses
    return np.int64(holes) * traps * cheeses / (cards * cards)


# --- The reference heuristic -------------------------------------------------------------------


@jit
def reference_action(game, rules):
    """What the reference heuristic does in place of the seat to move, by what that seat knows."""
    seat = np.int64(game.seat)
    safest = riskiest = most_uncertain = 0
    least, most, best = 2.0, -1.0, -1.0
    for slot in range(MAX_SLOTS):
        if game.row[slot] == game.die:
            trap = trap_probability(game, rules, seat, slot)
            if trap < least:
                safest, least = slot, trap
            if trap > most:
                riskiest, most = slot, trap
    if most >= 0:
        if least <= (0.7 if game.traps[seat] <= 1 else 0.1):
            return TAKE * MAX_SLOTS + safest
        return DISCARD * MAX_SLOTS + riskiest
    for slot in range(MAX_SLOTS):
        if game.row[slot] > 0 and not game.peeked[slot] >> seat & 1:
            worth = uncertainty(game, rules, seat, slot)
            if worth > best:
                most_uncertain, best = slot, worth
    return PEEK * MAX_SLOTS + most_uncertain


# --- The tuned heuristic -----------------------------------------------------------------------


@jit
def trap_step(game, rules, seat):
    """How many traps a seat has, counted so that 2 is one before the last (E1)."""
    return max(np.int64(game.traps[seat]) + 3 - rules.trap_limit, 0)


@jit
def prospects(game, rules, parameters, seat, turns):
    """Points of a seat, those of its turns to come among them; more cheese breaks ties (P3)."""
    step = trap_step(game, rules, seat)
    rate = parameters.rate
    if step >= 1:
        rate -= parameters.first_trap
    if step >= 2:
        rate -= parameters.second_trap
    score = np.float64(game.points[seat]) + TIE_BREAK * game.cheese[seat] * rules.per_cheese
    return score + rate * turns


@jit
def cost_of_a_trap(game, rules, parameters, seat, turns):
    """What one more trap takes from the prospects of a seat, in points."""
    step = trap_step(game, rules, seat)
    if step >= 2:
        return parameters.ruin
    return turns * (parameters.first_trap if step == 0 else parameters.second_trap)


@jit
def chance_to_win(gaps, opponents, gain, spread, power):
    """From the leads over each opponent and a gain on top of them."""
    chance = 1.0
    for k in range(opponents):
        chance /= 1 + np.exp(min(max(-(gaps[k] + gain) / spread, -50.0), 50.0))
    return chance if opponents == 1 else chance**power


@jit
def seen_by_others(game, rules, seat, slot):
    """The share of the opponents who peeked at the card in a slot."""
    others = np.int64(game.peeked[slot]) & ~(1 << seat)
    number = 0
    while others:
        number += others & 1
        others >>= 1
    return number / (rules.num_players - 1)


@jit
def removal(game, rules, parameters, seat, slot, trap):
    """What it is worth that a card leaves the row, besides being taken, in points."""
    seen = seen_by_others(game, rules, seat, slot)
    holes = np.float64(game.row[slot])
    kept = 0.0
    if trap == 0:
        kept = parameters.keep * holes
    elif trap == 1:
        kept = parameters.bait
    return parameters.deny * seen * holes * (1 - trap) - (1 - seen) * kept


@jit
def heuristic_action(game, rules, parameters, gaps):
    """What the heuristic agent does in place of the seat to move, by what that seat knows.

    Args:
        game, rules: the GAME and the RULES.
        parameters: PARAMETERS.
        gaps: (MAX_PLAYERS,) float64, room.
    """
    seat, players = np.int64(game.seat), rules.num_players
    cards = cards_to_come(game)
    trap_cost = cost_of_a_trap(game, rules, parameters, seat, cards // players)
    if matching_slots(game) == 0:
        return heuristic_peek(game, rules, parameters, seat, trap_cost)
    own = prospects(game, rules, parameters, seat, cards // players)
    for place in range(1, players):
        turns = (cards - place + players) // players
        other = (seat + place) % players
        gaps[place - 1] = own - prospects(game, rules, parameters, other, turns)
    return heuristic_match(game, rules, parameters, seat, gaps, trap_cost)


@jit
def cards_to_come(game):
    """Cards in the reserve after this turn."""
    cards = np.int64(game.reserve) - 1
    return cards if cards > 0 else 0


@jit
def heuristic_match(game, rules, parameters, seat, gaps, trap_cost):
    """What the heuristic agent takes or discards."""
    opponents = rules.num_players - 1
    spread = np.maximum(parameters.spread * np.sqrt(np.float64(cards_to_come(game))), SETTLED)
    power = np.log2(rules.num_players) / opponents
    take, discard = 0, 0
    best_take, best_discard = -1.0, -1.0
    for slot in range(MAX_SLOTS):
        if game.row[slot] == game.die:
            trap = trap_probability(game, rules, seat, slot)
            gone = removal(game, rules, parameters, seat, slot, trap)
            left = chance_to_win(gaps, opponents, gone, spread, power)
            cheese = chance_to_win(gaps, opponents, gone + np.float64(game.die), spread, power)
            caught = 0.0
            if game.traps[seat] + 1 < rules.trap_limit:  # E1
                caught = chance_to_win(gaps, opponents, gone - trap_cost, spread, power)
            worth = (1 - trap) * cheese + trap * (caught - TRAP_DISLIKE)
            if worth > best_take + EQUAL:
                take, best_take = slot, worth
            if left > best_discard + EQUAL:
                discard, best_discard = slot, left
    if best_discard > best_take + EQUAL:
        return DISCARD * MAX_SLOTS + discard
    return TAKE * MAX_SLOTS + take


@jit
def has_spare(game, seat, slot):
    """Whether the seat knows a cheese of as many holes in the row."""
    for other in range(MAX_SLOTS):
        knows = game.peeked[other] >> seat & 1
        if knows and game.row[other] == game.row[slot] and game.front[other] == CHEESE:
            return True
    return False


@jit
def heuristic_peek(game, rules, parameters, seat, trap_cost):
    """Where the heuristic agent peeks."""
    chosen, best = 0, -1.0
    for slot in range(MAX_SLOTS):
        if game.row[slot] > 0:
            trap = trap_probability(game, rules, seat, slot)
            if 0 < trap < 1:
                holes = np.float64(game.row[slot])
                saved = min((1 - trap) * holes, trap * trap_cost)
                worth = saved + parameters.doubt * holes * trap * (1 - trap)
                worth *= 1 + parameters.rivals * seen_by_others(game, rules, seat, slot)
                if has_spare(game, seat, slot):
                    worth *= 1 - parameters.spare
                if worth > best + EQUAL:
                    chosen, best = slot, worth
    return PEEK * MAX_SLOTS + chosen

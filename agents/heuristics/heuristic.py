"""The tuned heuristic: it weighs each action by the chance to win after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.heuristics.beliefs import Actions, BelievingAgent
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import CHEESE, DISCARD, MAX_PLAYERS, MAX_SLOTS, PEEK, TAKE, record
from alles_kaese_env.core.rules import matching_slots, trap_probability
from alles_kaese_env.core.vector import SET_BITS
from alles_kaese_env.variant import Variant

PARAMETERS_FILE = Path(__file__).with_name("parameters.json")
TIE_BREAK = 0.5  # of a point, for all cheese cards of the deck: less than a point for any lead
SETTLED = 0.01  # spread of a lead after the last turn, in points: what is ahead has won
TRAP_DISLIKE = 1e-6  # settles for a discard where a trap would change nothing any more
EQUAL = 1e-9  # what values may differ by and be equal


@dataclass(frozen=True)
class Parameters:
    """What the heuristic believes about the game, for one number of players.

    The values here are where the tuning starts; `PARAMETERS_FILE` has the tuned ones.

    Attributes:
        rate: points of a turn to come.
        first_trap: points that each turn to come is worth less with one trap.
        second_trap: the same for two traps, on top.
        spread: points by which a lead can still change, per root of the cards to come: the scale
            of the logistic function.
        deny: share of a card's expected points that its removal takes from an opponent who
            peeked at it.
        keep: share of the holes of a known cheese that its removal costs while no opponent has
            peeked at it.
        bait: points that the removal of a known trap costs while no opponent has peeked at it.
        ruin: points that a third trap is worth, when it comes to peeks.
        doubt: weight of holes x q x (1 - q) in the worth of a peek.
        rivals: by how much a peek is worth more (or less) at a card that all opponents know.
        spare: by how much a peek is worth less while a cheese of as many holes lies in the row.
    """

    rate: float = 1.5
    first_trap: float = 0.15
    second_trap: float = 0.4
    spread: float = 1.8
    deny: float = 0.2
    keep: float = 0.2
    bait: float = 0.5
    ruin: float = 10.0
    doubt: float = 0.5
    rivals: float = 0.2
    spare: float = 0.3


PARAMETERS = record([(field.name, "f8") for field in fields(Parameters)])


def load_parameters(path: Path = PARAMETERS_FILE) -> dict[int, Parameters]:
    """The tuned parameters by number of players."""
    counts = json.loads(path.read_text(encoding="utf-8"))["num_players"]
    return {int(count): Parameters(**entry["parameters"]) for count, entry in counts.items()}


def parameters_by_players(
    parameters: Mapping[int, Parameters] | None = None,
) -> npt.NDArray[Any]:
    """(MAX_PLAYERS + 1,) PARAMETERS, those of N players in entry N; None for the tuned ones."""
    records = np.zeros(MAX_PLAYERS + 1, PARAMETERS)
    for players, one in (load_parameters() if parameters is None else parameters).items():
        records[players] = astuple(one)
    return records


class HeuristicAgent(BelievingAgent):
    """Weighs each action by the chance to win after it.

    A lead over an opponent is the difference of points and of prospects: turns to come times the
    points of a turn, fewer with traps. The chance to win is, but for a power, the product over the
    opponents of a logistic function of lead / spread, and the spread shrinks with the reserve, so
    it plays safe when ahead and risks more when behind. A peek is worth what it saves: the
    points of a card that it would otherwise leave, or the trap of one that it would otherwise
    take. Ties go to the lowest slot, and to taking.

    Args:
        parameters: by number of players; None for the tuned ones.
        variant: see `BelievingAgent`; the parameters are tuned for the default rules.
    """

    def __init__(
        self,
        parameters: Mapping[int, Parameters] | None = None,
        variant: Variant | None = None,
    ) -> None:
        super().__init__(variant)
        self.parameters = parameters_by_players(parameters)

    def choose(self, games: npt.NDArray[Any], players: Actions, actions: Actions) -> None:
        """See `BelievingAgent.choose`."""
        heuristic_actions(games, self.rules, self.parameters, players, actions)


@jit
def heuristic_actions(games, rules, parameters, players, actions):
    """`heuristic_action` in each of some games."""
    gaps = np.empty(MAX_PLAYERS)
    for i in range(len(games)):
        number = players[i]
        actions[i] = heuristic_action(games[i], rules[number], parameters[number], gaps)


@jit
def heuristic_action(game, rules, parameters, gaps):
    """What the heuristic agent does in place of the seat to move, by what that seat knows.

    ``gaps`` (MAX_PLAYERS,) float64 is a buffer.
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


@jit
def cards_to_come(game):
    """Cards in the reserve after this turn."""
    cards = np.int64(game.reserve) - 1
    return cards if cards > 0 else 0


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
def trap_step(game, rules, seat):
    """How many traps a seat has, counted so that 2 is one before the last (E1)."""
    return max(np.int64(game.traps[seat]) + 3 - rules.trap_limit, 0)


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
def seen_by_others(game, rules, seat, slot):
    """The share of the opponents who peeked at the card in a slot."""
    others = np.int64(game.peeked[slot]) & ~(1 << seat)
    return SET_BITS[others] / (rules.num_players - 1)


@jit
def has_spare(game, seat, slot):
    """Whether the seat knows a cheese of as many holes in the row."""
    for other in range(MAX_SLOTS):
        knows = game.peeked[other] >> seat & 1
        if knows and game.row[other] == game.row[slot] and game.front[other] == CHEESE:
            return True
    return False

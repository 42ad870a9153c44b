"""Agents that follow a few rules of thumb."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alles_kaese_env import DISCARD, OBSERVATION, PEEK, TAKE
from alles_kaese_env.core.records import (
    MAX_SLOTS,
)

TRAP_LIMIT = 3  # of the default variant, which the thresholds are made for
NUM_CARDS, ALL_POINTS = 36, 55  # of the default variant, too
HOLES = np.arange(1, 7)
TIE_BREAK = 0.5  # of a point, for all cheese cards of the deck: less than a point for any lead
DECIMALS = 5  # probabilities are fractions of small numbers; float32 tells them apart up to here
SETTLED = 0.01  # spread of a lead after the last turn, in points: what is ahead has won
TRAP_DISLIKE = 1e-6  # settles for a discard where a trap would change nothing any more
DECIMALS_OF_VALUES = 9  # equal values are equal whatever the order of their sums
PARAMETERS_FILE = Path(__file__).with_name("parameters.json")


class ReferenceAgent:
    """The reference heuristic of the rule book, to the letter: a fixed yardstick.

    With q the trap probability of a slot (I4; 0 or 1 where the front is known), k the own traps
    and t = 0.7 for k <= 1, 0.1 for more: on a match take the matching slot of the smallest q if
    that q <= t, otherwise discard the one of the greatest q. On no match peek at the slot of the
    greatest holes x q x (1 - q) among those whose front is unknown, at slot 0 if all are known.
    Ties go to the lowest slot.
    """

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64 for observations (B, 253) float32 and masks (B, 18) bool."""
        match = masks[:, TAKE * MAX_SLOTS : DISCARD * MAX_SLOTS]
        trap = field(observations, "trap_probability").astype(np.float64).round(DECIMALS)
        threshold = np.where(own_traps(observations) <= 1, 0.7, 0.1)
        safest = np.where(match, trap, 2.0).argmin(axis=1)
        riskiest = np.where(match, trap, -1.0).argmax(axis=1)
        takes = trap[np.arange(len(trap)), safest] <= threshold
        on_match = np.where(takes, TAKE * MAX_SLOTS + safest, DISCARD * MAX_SLOTS + riskiest)
        peek = PEEK * MAX_SLOTS + most_uncertain(observations, masks, trap)
        return np.where(match.any(axis=1), on_match, peek)


class GreedyAgent:
    """As many points as the next turn can bring: a player's first idea.

    On a match it takes the matching card of the greatest expected points holes x (1 - q), with q
    the trap probability (I4), if the risk is not too high: q <= 0.7 with up to one trap, known
    cheese alone with two. Otherwise it discards the matching card of the greatest q. On no match
    it peeks at the card of the most holes among those that it does not know. Ties go to the
    lowest slot.
    """

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64 for observations (B, 253) float32 and masks (B, 18) bool."""
        match = masks[:, TAKE * MAX_SLOTS : DISCARD * MAX_SLOTS]
        holes, trap = holes_of(observations), trap_probabilities(observations)
        best = np.where(match, holes * (1 - trap), -1.0).argmax(axis=1)
        worst = np.where(match, trap, -1.0).argmax(axis=1)
        risk_limit = np.where(own_traps(observations) <= 1, 0.7, 0.0)
        takes = trap[np.arange(len(trap)), best] <= risk_limit
        on_match = np.where(takes, TAKE * MAX_SLOTS + best, DISCARD * MAX_SLOTS + worst)
        is_unknown = (trap > 0) & (trap < 1)
        peek = PEEK * MAX_SLOTS + np.where(is_unknown, holes, 0.0).argmax(axis=1)
        return np.where(match.any(axis=1), on_match, peek)


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


def load_parameters(path: Path = PARAMETERS_FILE) -> dict[int, Parameters]:
    """The tuned parameters by number of players."""
    counts = json.loads(path.read_text(encoding="utf-8"))["num_players"]
    return {int(count): Parameters(**entry["parameters"]) for count, entry in counts.items()}


@dataclass(frozen=True)
class View:
    """What the observations (B, 253) of games with N players say, in the numbers of the rules.

    Seats go from the observer on in turn order.

    Attributes:
        holes: in each slot, (B, 6).
        trap: trap probability of each slot (I4), 0 or 1 where the front is known, (B, 6).
        seen: share of the opponents who peeked at the card in each slot (T3), (B, 6).
        cards: in the reserve after this turn, (B,).
        traps, score: by seat, (B, N). The score is points, and more cheese breaks ties (P3).
    """

    holes: npt.NDArray[np.float64]
    trap: npt.NDArray[np.float64]
    seen: npt.NDArray[np.float64]
    cards: npt.NDArray[np.float64]
    traps: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]

    @staticmethod
    def of(observations: npt.NDArray[np.float32], num_players: int) -> View:
        """Read the fields."""
        by_seat = {
            name: field(observations, name)[:, :num_players].astype(np.float64)
            for name in ("traps", "points", "cheese")
        }
        peeks = table_of(observations, "opponent_peeks")
        reserve = np.rint(field(observations, "reserve")[:, 0].astype(np.float64) * NUM_CARDS)
        return View(
            holes=holes_of(observations),
            trap=trap_probabilities(observations),
            seen=peeks.sum(axis=2, dtype=np.float64) / (num_players - 1),
            cards=np.maximum(reserve - 1, 0),
            traps=np.rint(by_seat["traps"] * TRAP_LIMIT).astype(np.int64),
            score=np.rint(by_seat["points"] * ALL_POINTS) + by_seat["cheese"] * TIE_BREAK,
        )


class HeuristicAgent:
    """Weighs each action by the chance to win after it.

    A lead over an opponent is the difference of points and of prospects: turns to come times the
    points of a turn, fewer with traps. The chance to win is, but for a power, the product over the
    opponents of a logistic function of lead / spread, and the spread shrinks with the reserve, so
    it plays safe when ahead and risks more when behind. A peek is worth what it saves: the
    points of a card that it would otherwise leave, or the trap of one that it would otherwise
    take. Ties go to the lowest slot, and to taking.

    Args:
        parameters: by number of players; None for the tuned ones.
    """

    def __init__(self, parameters: Mapping[int, Parameters] | None = None) -> None:
        self.parameters = load_parameters() if parameters is None else dict(parameters)

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64 for observations (B, 253) float32 and masks (B, 18) bool."""
        actions = np.zeros(len(observations), np.int64)
        counts = field(observations, "num_players").argmax(axis=1) + 2
        for count in np.unique(counts):
            rows = np.flatnonzero(counts == count)
            view = View.of(observations[rows], int(count))
            values = action_values(view, self.parameters[int(count)])
            actions[rows] = np.where(masks[rows], values, -np.inf).argmax(axis=1)
        return actions


def action_values(view: View, parameters: Parameters) -> npt.NDArray[np.float64]:
    """The value of each action, (B, 18), legal or not.

    Those of peeks and those of takes and discards are of different units; no mask allows both.
    """
    lead, trap_cost = leads(view, parameters), cost_of_a_trap(view, parameters)
    spread = np.maximum(parameters.spread * np.sqrt(view.cards), SETTLED)
    gone = lead[:, None] + removal(view, parameters)[..., None]  # (B, 6, N - 1)
    discard = chance_to_win(gone, spread)
    cheese = chance_to_win(gone + view.holes[..., None], spread)
    trap = chance_to_win(gone - trap_cost[:, None, None], spread)
    trap[view.traps[:, 0] == TRAP_LIMIT - 1] = 0.0  # E1
    take = (1 - view.trap) * cheese + view.trap * (trap - TRAP_DISLIKE)
    values = np.concatenate([peek_values(view, trap_cost, parameters), take, discard], axis=1)
    return values.round(DECIMALS_OF_VALUES)


def chance_to_win(
    lead: npt.NDArray[np.float64], spread: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Against all opponents, (B, 6), from the leads over each (B, 6, N - 1) and the spread (B,).

    The chances against each are not independent, so their product is raised to the power that
    gives each of N players 1 / N in a level game.
    """
    against_each = 1 / (1 + np.exp(np.clip(-lead / spread[:, None, None], -50, 50)))
    opponents = lead.shape[2]
    return against_each.prod(axis=2) ** (np.log2(opponents + 1) / opponents)


def leads(view: View, parameters: Parameters) -> npt.NDArray[np.float64]:
    """Points and prospects ahead of each opponent, (B, N - 1)."""
    seats = view.score.shape[1]
    order = np.roll(np.arange(1, seats + 1), 1)  # the next seat has the next turn
    turns = (view.cards[:, None] - order + seats) // seats
    expected = view.score + turns * rate_of(view.traps, parameters)
    return expected[:, :1] - expected[:, 1:]


def rate_of(traps: npt.NDArray[np.int64], parameters: Parameters) -> npt.NDArray[np.float64]:
    """Points of a turn to come, for players with so many traps."""
    one = parameters.rate - parameters.first_trap
    return np.array([parameters.rate, one, one - parameters.second_trap])[traps]


def cost_of_a_trap(view: View, parameters: Parameters) -> npt.NDArray[np.float64]:
    """What one more trap takes from the observer's prospects, in points, (B,)."""
    per_turn = np.array([parameters.first_trap, parameters.second_trap, 0.0])[view.traps[:, 0]]
    turns = view.cards // view.score.shape[1]
    return np.where(view.traps[:, 0] == TRAP_LIMIT - 1, parameters.ruin, per_turn * turns)


def removal(view: View, parameters: Parameters) -> npt.NDArray[np.float64]:
    """What it is worth that a card leaves the row, besides being taken, in points, (B, 6)."""
    denied = parameters.deny * view.seen * view.holes * (1 - view.trap)
    kept = parameters.keep * view.holes * (view.trap == 0) + parameters.bait * (view.trap == 1)
    return denied - (1 - view.seen) * kept


def peek_values(
    view: View, trap_cost: npt.NDArray[np.float64], parameters: Parameters
) -> npt.NDArray[np.float64]:
    """What a peek at each slot is worth, in points, (B, 6); -1 where the front is known.

    Without it the card is taken or left, whichever is better, so a peek saves the lesser of the
    points of a card left and the cost of a trap taken.
    """
    saved = np.minimum((1 - view.trap) * view.holes, view.trap * trap_cost[:, None])
    doubt = parameters.doubt * view.holes * view.trap * (1 - view.trap)
    worth = (saved + doubt) * (1 + parameters.rivals * view.seen)
    cheese = np.where(view.trap == 0, view.holes, 0)
    has_spare = (view.holes[:, :, None] == cheese[:, None]).any(axis=2)
    worth = worth * np.where(has_spare, 1 - parameters.spare, 1.0)
    return np.where((view.trap == 0) | (view.trap == 1), -1.0, worth)


def most_uncertain(
    observations: npt.NDArray[np.float32],
    masks: npt.NDArray[np.bool_],
    trap: npt.NDArray[np.float64],
) -> npt.NDArray[np.int64]:
    """The slot (B,) of the greatest holes x q x (1 - q) among the unknown ones, 0 for none."""
    shape = len(observations), MAX_SLOTS, -1
    holes = field(observations, "row").reshape(shape) @ HOLES
    known = field(observations, "own_peeks").reshape(shape).any(axis=2)
    worth = (holes * trap * (1 - trap)).round(DECIMALS)
    return np.where(masks[:, :MAX_SLOTS] & ~known, worth, -1.0).argmax(axis=1)


def own_traps(observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """How many traps the observer has taken, (B,)."""
    return np.rint(field(observations, "traps")[:, 0] * TRAP_LIMIT)


def field(observations: npt.NDArray[np.float32], name: str) -> npt.NDArray[np.float32]:
    """A field of the observations as a view (B, its size)."""
    return observations[:, OBSERVATION[name].where]


def holes_of(observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """The holes in each slot, (B, 6), 0 for an empty slot."""
    return np.asarray(table_of(observations, "row") @ HOLES, np.float64)


def trap_probabilities(observations: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """The trap probability of each slot (I4), (B, 6)."""
    return field(observations, "trap_probability").astype(np.float64).round(DECIMALS)


def table_of(observations: npt.NDArray[np.float32], name: str) -> npt.NDArray[np.float32]:
    """A field of the observations in its own shape, (B, *shape)."""
    return field(observations, name).reshape(len(observations), *OBSERVATION[name].shape)

"""By how much chance helped a seat in a game, judged by a value function of the whole table.

Chance is a phase with exact weights. So for any value function u of the full state, what u says
after an outcome, minus the mean of u over all outcomes by their weights, is 0 on average, and so is
the sum of it over a game: the luck of the game. A result minus the luck has the same mean and, if u
is good, a much smaller variance, whatever the agents are: a control variate. MIVAT: White and
Bowling, *Learning a value analysis tool for agent evaluation*, IJCAI 2009. AIVAT: Burch, Schmid,
Moravcik, Morrill and Bowling, *AIVAT: A new variance reduction technique for agent evaluation in
imperfect information games*, AAAI 2018.

Here u(state) of a table before a card or a roll is a small network's, trained by ``train_luck.py``;
before a decision it is that of what the seat would do if it were its model, a compiled agent. Of
an agent that is random and no other, the choice itself is chance, and corrected in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.heuristics.greedy import GreedyAgent, greedy_action
from agents.heuristics.heuristic import heuristic_action, parameters_by_players
from agents.heuristics.random_agent import RandomAgent
from agents.heuristics.reference import ReferenceAgent, reference_action
from agents.search import values
from alles_kaese_env.agent import Agent
from alles_kaese_env.core.jit import compiled, jit
from alles_kaese_env.core.records import (
    CARD,
    CHEESE,
    DECISION,
    FRONT,
    GAME,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NO_ACTION,
    NUM_ACTIONS,
    OVER,
    STREAM,
    TAKE,
    TRAP,
    UNSEEN,
    as_records,
)
from alles_kaese_env.core.rules import (
    apply_action,
    apply_chance,
    chance_weight,
    clear,
    legal_actions,
    num_chance_outcomes,
    sample_chance,
    seat_after,
)
from alles_kaese_env.game_batch import GameBatch
from alles_kaese_env.variant import Variant

RANDOM, GREEDY, REFERENCE, HEURISTIC = range(4)  # models
MODELS = {RandomAgent: RANDOM, GreedyAgent: GREEDY, ReferenceAgent: REFERENCE}  # else HEURISTIC
HIDDEN = (96, 48)
BY_SEAT, BY_HOLES = 6, 7  # numbers that describe each of them
BY_HOLES_AND_SEAT = 3
RISK = 0.7  # greatest trap probability at which most take a card


class Judge(NamedTuple):
    """What tables are judged by, for one number of players.

    Attributes:
        network: the value network.
        parameters: of the heuristic, (1,) PARAMETERS.
        models: of each seat, (MAX_PLAYERS,) int64.
        games: to work in, (3,) GAME.
        features, first, second, payoffs, gaps: to work in.
    """

    network: values.Network
    parameters: npt.NDArray[Any]
    models: npt.NDArray[np.int64]
    games: npt.NDArray[Any]
    features: values.Floats
    first: values.Floats
    second: values.Floats
    payoffs: npt.NDArray[np.float64]
    gaps: npt.NDArray[np.float64]


def judge_by(network: values.Network, num_players: int) -> Judge:
    """A judge with buffers of its own."""
    sizes = num_features(num_players), *HIDDEN
    features, first, second = (np.zeros(size, np.float32) for size in sizes)
    return Judge(
        network=network,
        parameters=parameters_by_players()[num_players : num_players + 1],
        models=np.full(MAX_PLAYERS, HEURISTIC),
        games=np.zeros(3, GAME),
        features=features,
        first=first,
        second=second,
        payoffs=np.zeros((1, MAX_PLAYERS)),
        gaps=np.zeros(MAX_PLAYERS),
    )


def num_features(num_players: int) -> int:
    """How many numbers describe a table with so many players."""
    by_opponent = values.BY_OPPONENT * (num_players - 1)
    by_holes = BY_HOLES + BY_HOLES_AND_SEAT * num_players
    return 5 + BY_SEAT * num_players + by_opponent + by_holes * MAX_HOLES


# --- What the network sees ---------------------------------------------------------------------


@jit
def write_features(game, rules, seat, models, features):
    """Describe a table before a card or a roll, all that anybody knows, from a seat's place."""
    features[:] = 0
    cards = np.int64(game.reserve)
    features[0] = cards / 30
    features[1] = 1 / (1 + cards / rules.num_players)
    features[2] = game.points[seat] / 10
    features[3] = game.cheese[seat] / 4
    features[4] = game.phase == CARD
    start = 5
    mover = np.int64(game.seat)
    if game.phase == CARD and game.turns > 0:
        mover = seat_after(mover, 1, rules)
    for place in range(rules.num_players):
        other = seat_after(seat, place, rules)
        out = features[start : start + BY_SEAT]
        out[0] = other == mover
        out[1] = models[other] == RANDOM
        out[2] = models[other] == HEURISTIC
        write_next_turn(game, rules, other, out)
        start += BY_SEAT
        if place > 0:
            out = features[start : start + values.BY_OPPONENT]
            values.describe_opponent(game, seat, other, out)
            start += values.BY_OPPONENT
    write_cards(game, rules, seat, features[start:])


@jit
def write_next_turn(game, rules, seat, out):
    """What a roll would give the seat: points, the chance of a trap; and whether a trap loses."""
    for h in range(MAX_HOLES):
        unknown = cheese = np.int64(0)
        for slot in range(MAX_SLOTS):
            if game.row[slot] == h + 1:
                knows = np.int64(game.peeked[slot]) >> seat & 1
                unknown += 1 - knows
                cheese += knows * np.int64(game.front[slot] == CHEESE)
        trap = trap_share(game.known[seat], rules, h)
        if cheese > 0:
            out[3] += (h + 1) / (2 * MAX_HOLES)
        elif unknown > 0 and trap <= RISK:
            out[3] += (1 - trap) * (h + 1) / (2 * MAX_HOLES)
            out[4] += trap / 2
    out[5] = game.traps[seat] / 2


@jit
def trap_share(seen, rules, h):
    """The share of traps among the cards of h + 1 holes whose front is not among those seen."""
    cheese = rules.fronts[h] - np.int64(seen[h])
    traps = rules.fronts[MAX_HOLES + h] - np.int64(seen[MAX_HOLES + h])
    return traps / max(cheese + traps, 1)


@jit
def write_cards(game, rules, seat, out):
    """By holes: the row by who knows what, trap shares, the reserve."""
    for slot in range(MAX_SLOTS):
        if game.row[slot] > 0:
            column = np.int64(game.row[slot]) - 1
            if game.front[slot] == UNSEEN:
                out[column] += 1
            else:
                is_trap = np.int64(game.front[slot] == TRAP)
                out[(1 + is_trap) * MAX_HOLES + column] += 1
                is_shared = np.int64(game.peeked[slot]) & ~(1 << seat) > 0
                out[(3 + is_trap) * MAX_HOLES + column] += is_shared * (
                    game.peeked[slot] >> seat & 1
                )
                for place in range(rules.num_players):
                    if game.peeked[slot] >> seat_after(seat, place, rules) & 1:
                        group = BY_HOLES + BY_HOLES_AND_SEAT * place + is_trap
                        out[group * MAX_HOLES + column] += 1
    for h in range(MAX_HOLES):
        out[5 * MAX_HOLES + h] = (np.int64(game.below[h]) + (game.top == h + 1)) / 3
        out[6 * MAX_HOLES + h] = game.top == h + 1
        for place in range(rules.num_players):
            last = BY_HOLES + BY_HOLES_AND_SEAT * place + 2
            known = game.known[seat_after(seat, place, rules)]
            out[last * MAX_HOLES + h] = trap_share(known, rules, h)


# --- The value function ------------------------------------------------------------------------


def _settled_value(game, rules, seat, judge):
    """The seat's share of the win as the network expects it before a card or a roll.

    That of a finished game is the true one; without a network all others are worth 0.
    """
    if game.phase == OVER:
        return values.final_share(game, rules, seat, judge.payoffs)
    if len(judge.network.first) == 0:
        return 0.0
    write_features(game, rules, seat, judge.models, judge.features)
    return np.float64(values.output(judge.network, judge.features, judge.first, judge.second))


settled_value = compiled(_settled_value)  # called at several places: not inlined there


@jit
def front_value(game, rules, seat, judge):
    """The value while a front is about to be seen, with all fronts that nobody knows drawn by I4.

    Works in the first game of the judge.
    """
    total, weights = 0.0, 0
    for outcome in range(num_chance_outcomes(game, rules)):
        weight = chance_weight(game, rules, outcome)
        if weight > 0:
            judge.games[0] = game
            apply_chance(judge.games[0], rules, outcome)
            total += weight * settled_value(judge.games[0], rules, seat, judge)
            weights += weight
    return total / weights


def _action_value(game, rules, seat, action, judge):
    """The value before an action; works in the first two games of the judge."""
    judge.games[1] = game
    apply_action(judge.games[1], rules, action)
    if judge.games[1].phase == FRONT:
        return front_value(judge.games[1], rules, seat, judge)
    return settled_value(judge.games[1], rules, seat, judge)


action_value = compiled(_action_value)


@jit
def model_action(game, rules, judge):
    """What the model of the seat to move does, unless it is random."""
    model = judge.models[game.seat]
    if model == HEURISTIC:
        return heuristic_action(game, rules, judge.parameters[0], judge.gaps)
    return reference_action(game, rules) if model == REFERENCE else greedy_action(game, rules)


def _decision_value(game, rules, seat, judge):
    """The value before a decision, that of the model; works in the same games."""
    if judge.models[game.seat] != RANDOM:
        return action_value(game, rules, seat, model_action(game, rules, judge), judge)
    legal, total, number = legal_actions(game, rules), 0.0, 0
    for action in range(NUM_ACTIONS):
        if legal >> action & 1:
            total += action_value(game, rules, seat, action, judge)
            number += 1
    return total / number


decision_value = compiled(_decision_value)


def _chance_values(game, rules, seat, judge, outcomes):
    """The value after each outcome of chance, into ``outcomes``; their mean by weight.

    Works in all games of the judge. Rolls that match no card lead to the same peek.
    """
    total, weights, unmatched = 0.0, 0, -1.0
    for outcome in range(num_chance_outcomes(game, rules)):
        weight = chance_weight(game, rules, outcome)
        if weight == 0:
            continue
        judge.games[2] = game
        after = judge.games[2]
        apply_chance(after, rules, outcome)
        if after.phase != DECISION:
            value = settled_value(after, rules, seat, judge)
        elif legal_actions(after, rules) >> TAKE * MAX_SLOTS or unmatched < 0:
            value = decision_value(after, rules, seat, judge)
            if legal_actions(after, rules) >> TAKE * MAX_SLOTS == 0:
                unmatched = value
        else:
            value = unmatched
        outcomes[outcome] = value
        total += weight * value
        weights += weight
    return total / weights


chance_values = compiled(_chance_values)


# --- The luck of a game ------------------------------------------------------------------------


@jit
def luck_of_choice(game, rules, seat, action, judge):
    """The seat's luck in the choice of a random agent; 0 for others."""
    if judge.models[game.seat] != RANDOM:
        return 0.0
    mean = decision_value(game, rules, seat, judge)
    return action_value(game, rules, seat, action, judge) - mean


@jit
def seat_models(judge, rules, seat, models):
    """Seat the models (N,) at the table, the first on a seat."""
    for place in range(rules.num_players):
        judge.models[seat_after(seat, place, rules)] = models[place]


@jit
def luck_of_moves(games, streams, rules, actions, seats, models, judge, luck):
    """The luck of seat seats[i] in a step of each game i, or where there is no action in its deal.

    One loop for both, since compiling it takes half a minute. ``models`` (N,) has those of the
    players from that seat on. Games and streams are overwritten, and ``luck`` (B,) is the result.
    """
    outcomes = np.zeros(MAX_HOLES)
    for i in range(len(games)):
        game, stream, seat = games[i], streams[i], seats[i]
        seat_models(judge, rules[0], seat, models)
        if actions[i] == NO_ACTION:
            luck[i] = 0
            clear(game, rules[0])
        else:
            luck[i] = luck_of_choice(game, rules[0], seat, actions[i], judge)
            apply_action(game, rules[0], actions[i])
        while game.phase < DECISION:
            mean = chance_values(game, rules[0], seat, judge, outcomes)
            outcome = sample_chance(game, rules[0], stream)
            luck[i] += outcomes[outcome] - mean
            apply_chance(game, rules[0], outcome)


class Follower:
    """Goes through the games of a batch with it, and adds up how lucky one seat is in each.

    It works on copies of the games and of their streams, so that nothing in the games depends on
    it and no agent can see any of it.

    Args:
        batch: games of the default rules.
        seats: whose luck it is, (B,) int64.
        table: the agents in turn order from that seat on.

    Attributes:
        luck: up to now, as a share of the win, (B,).

    Raises:
        ValueError: there is no network for the rules of the batch.
    """

    def __init__(
        self, batch: GameBatch, seats: npt.NDArray[np.int64], table: Sequence[Agent]
    ) -> None:
        self.batch, self.seats = batch, seats
        self.luck = np.zeros(len(batch))
        self._models = np.array([MODELS.get(type(agent), HEURISTIC) for agent in table])
        self._judge = judge_by(network_of(batch.variant), batch.variant.num_players)

    def reset(self) -> None:
        """`GameBatch.reset`."""
        games, streams = self.batch.games.copy(), self.batch.streams.copy()
        self.batch.reset()
        rows = np.arange(len(games))
        self.luck[:] = self._luck_of(games, streams, np.full(len(games), NO_ACTION), rows)

    def step(self, actions: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> None:
        """`GameBatch.step`."""
        games, streams = self.batch.games[rows], self.batch.streams[rows]
        self.batch.step(actions, rows)
        self.luck[rows] += self._luck_of(games, streams, np.asarray(actions, np.int64), rows)

    def _luck_of(
        self,
        games: npt.NDArray[Any],
        streams: npt.NDArray[np.uint64],
        actions: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.float64]:
        luck = np.zeros(len(rows))
        about = self.seats[rows], self._models, self._judge, luck
        luck_of_moves(games, as_records(streams, STREAM), self.batch.variant.rules, actions, *about)
        return luck


@lru_cache
def network_of(variant: Variant) -> values.Network:
    """The network for a variant.

    Raises:
        ValueError: there is none, or its file is damaged.
    """
    if variant != Variant(num_players=variant.num_players):
        raise ValueError(
            f"luck-adjusted results are asked for {variant}; allowed: the default rules"
        )
    path = values.network_file(variant.num_players, values.DIRECTORY, "luck")
    sizes = num_features(variant.num_players), *HIDDEN, 1
    return values.load_network(path, sizes, "agents.arena.train_luck")

"""How much an agent can be exploited: exact best responses to it on a small variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.solve.sequence_form import (
    SEATS,
    SEQUENCES,
    SETS,
    exploit_held_out,
    exploit_subgames,
    play_subgames,
)
from agents.solve.subgames import Subgames, Written, inform_movers
from alles_kaese_env.actions import illegal_action
from alles_kaese_env.agent import Agent, StochasticAgent, ask, name_of
from alles_kaese_env.core.observe import OBSERVATION_RECORD, OBSERVATION_SIZE
from alles_kaese_env.core.records import MASK, NUM_ACTIONS, as_records
from alles_kaese_env.seeding import agent_generator
from alles_kaese_env.variant import Variant, whole_number

LEAVES_AT_ONCE = 1_000_000  # of the subgames that a thread holds in memory
SETS_AT_ONCE = 65_536  # observations that an agent is asked about in one call
GROUPS = 8  # of draws, each of which is once kept from the response
T_95 = 2.364624  # of the t distribution with GROUPS - 1 degrees of freedom
ROUNDING = 1e-9  # an interval below that is none
NEAR_ONE = 1e-6  # how far probabilities may be from a sum of 1

Masks = npt.NDArray[np.bool_]
Probabilities = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Exploitability:
    """By how much an agent gets less than the value of the game against best responses.

    Attributes:
        value: the mean of both seats, which is half of its NashConv: 0 is equilibrium, an agent
            that always loses has about 1.
        low, high: the same as ``value``, which is exact, for an agent that says its probabilities
            (`alles_kaese_env.agent.StochasticAgent`) or draws nothing. Else the 95 % interval: its
            low end is of responses to some draws that meet others, which get less than a best
            response, its high end of responses to the draws that they meet, which get more.
        responses: payoff of the best response in seat 0 and in seat 1.
    """

    value: float
    low: float
    high: float
    responses: tuple[float, float]


def exploitability(
    agent: Agent,
    variant: Variant,
    *,
    draws: int = 32,
    seed: int = 0,
) -> Exploitability:
    """Measure an agent by exact best responses to it in both seats.

    No equilibrium is solved for that. A variant of ten million states takes a few seconds.

    Args:
        agent: exact if it says its `probabilities` or draws nothing; else its policy is estimated.
        variant: of two players, in whose games every turn uses a card (E3).
        draws: how often an agent that says no probabilities is asked, at least 8.
        seed: of the agent.

    Raises:
        ValueError: the variant cannot be solved here, or the probabilities are none.
    """
    subgames = subgames_of(variant)
    best = np.zeros((rows_for(agent), SEATS, len(subgames)))
    responses = Responses(agent, best, draws, seed)
    for parts in subgames.levels(LEAVES_AT_ONCE):
        for which in parts:
            responses.write(which, subgames.write(which, with_games=True), variant)
    return responses.result()


def payoffs(
    agent: StochasticAgent, others: Sequence[StochasticAgent], variant: Variant
) -> list[float]:
    """What an agent gets against each of some others, exactly: the mean of both seats.

    Raises:
        ValueError: as of `exploitability`.
    """
    subgames = subgames_of(variant)
    values = np.zeros((len(others), SEATS, len(subgames)))  # of seat 0, by the seat of the agent
    rng = agent_generator(0)  # nobody draws
    players = [Responses(one, np.zeros((1, SEATS, 0)), GROUPS, 0) for one in (agent, *others)]
    for parts in subgames.levels(LEAVES_AT_ONCE):
        for which in parts:
            written = subgames.write(which, with_games=True)
            tables = (one.policies(written, variant.rules, rng)[0] for one in players)
            own = next(tables)
            for other, by_seat in zip(tables, values, strict=True):
                game = which, written.forms, written.starts
                play_subgames(*game, own[0], other[1], by_seat[0])
                play_subgames(*game, other[0], own[1], by_seat[1])
    return ((values[:, 0, 0] - values[:, 1, 0]) / 2).tolist()


@lru_cache(maxsize=1)
def subgames_of(variant: Variant) -> Subgames:
    """The subgames of the variant that was asked about last."""
    return Subgames.of(variant, lambda what, done, of: None)


def rows_for(agent: Agent) -> int:
    """How many rows of ``best`` the responses to an agent need."""
    return 1 if isinstance(agent, StochasticAgent) else 2 * GROUPS


class Responses:
    """Best responses to an agent, from the last subgames to the first.

    Args:
        agent: to whom.
        best: where to write what they get in each subgame, (`rows_for`, 2, subgames): one row if
            probabilities are known; else two for each group of draws, against the draws of the
            other groups, to which they respond, and against that group.
        draws: see `exploitability`.
        seed, key: of what the agent draws.
    """

    def __init__(
        self, agent: Agent, best: npt.NDArray[np.float64], draws: int, seed: int, key: int = 0
    ) -> None:
        self.agent = agent
        self.best = best
        self._draws = whole_number("draws", draws, GROUPS, 10**6)
        self._seed = seed, key

    def write(self, which: npt.NDArray[np.int64], written: Written, variant: Variant) -> None:
        """Respond in some subgames, after those that follow them."""
        forms, starts = written.forms, written.starts
        rng = agent_generator(self._seed[0], self._seed[1], int(which[0]))
        policies = self.policies(written, variant.rules, rng)
        if len(policies) == 1:
            exploit_subgames(which, forms, starts, policies[0], self.best[0])
            return
        total = policies.sum(axis=0)
        for group, held in enumerate(policies):
            pair = np.stack([(total - held) / (GROUPS - 1), held])
            exploit_held_out(which, forms, starts, pair, self.best[2 * group : 2 * group + 2])

    def result(self) -> Exploitability:
        """What the whole game says."""
        by_seat = self.best[:, :, 0]
        first, second = by_seat.mean(axis=0).tolist()
        value = (first + second) / 2
        low = high = value
        if len(by_seat) > 1:
            fitted, held = by_seat.mean(axis=1).reshape(GROUPS, 2).T
            high = float(fitted.mean() + T_95 * fitted.std() * (GROUPS - 1) ** 0.5)  # jackknife
            low = float(held.mean() - T_95 * held.std() / (GROUPS - 1) ** 0.5)
            if high - low < ROUNDING:
                low = high = value
        return Exploitability(value, low, high, (first, second))

    def policies(
        self, written: Written, rules: npt.NDArray[np.void], rng: np.random.Generator
    ) -> Probabilities:
        """What the agent does at every information set of both seats, by groups of its draws:
        (1 or GROUPS, 2, sequences).

        An agent sees observations and nothing before them, so it does the same in all sets in
        which it sees the same.
        """
        forms, starts = written.forms, written.starts
        number = 1 if len(self.best) == 1 else GROUPS
        policies = np.zeros((number, SEATS, starts[-1, SEQUENCES:].max()))
        for seat in range(SEATS):
            sets = np.diff(starts[:, SETS + seat])
            firsts = np.repeat(starts[:-1, SEQUENCES + seat], sets)
            firsts += forms.set_firsts[seat, : len(firsts)]
            for begin in range(0, len(firsts), SETS_AT_ONCE):
                part = slice(begin, min(begin + SETS_AT_ONCE, len(firsts)))
                masks, chances = self._choices(written.set_games[seat, part], rules, rng)
                places = np.cumsum(masks, axis=1) - 1 + firsts[part, None]
                policies[:, seat, places[masks]] = chances[:, masks]
        return policies

    def _choices(
        self, games: npt.NDArray[Any], rules: npt.NDArray[np.void], rng: np.random.Generator
    ) -> tuple[Masks, Probabilities]:
        """The legal actions (B, 18) of the seat to move of each game, and how likely the agent
        takes them (1 or GROUPS, B, 18).
        """
        masks = np.zeros((len(games), NUM_ACTIONS), bool)
        observations = np.zeros((len(games), OBSERVATION_SIZE), np.float32)
        codes = np.zeros(len(games), np.uint64)
        records = as_records(masks, MASK), as_records(observations, OBSERVATION_RECORD)
        inform_movers(games, rules[0], *records, observations.view(np.uint32), codes)
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        seen = observations[first], masks[first]
        if isinstance(self.agent, StochasticAgent):
            chances = checked_probabilities(self.agent.probabilities(*seen), seen[1])[None]
        else:
            chances = self._drawn(*seen, rng)
        return masks, chances[:, inverse]

    def _drawn(
        self, observations: npt.NDArray[np.float32], masks: Masks, rng: np.random.Generator
    ) -> Probabilities:
        """How often the agent takes each action (GROUPS, B, 18).

        One that leaves the generator as it was and says the same twice does so always.
        """
        rows, who = np.arange(len(masks)), f"agent {name_of(self.agent)}"
        counts = np.zeros((GROUPS, len(masks), NUM_ACTIONS))
        before = str(rng.bit_generator.state)
        for draw in range(self._draws):
            actions = ask(self.agent, who, observations, masks, rng)
            for k in np.flatnonzero(~masks[rows, actions]):
                raise illegal_action(int(actions[k]), masks[k], f" of {who}")
            counts[draw % GROUPS, rows, actions] += 1
            is_second = draw == 1 and before == str(rng.bit_generator.state)
            if is_second and (counts[0] == counts[1]).all():
                counts[:] = counts[0]
                break
        return counts / counts.sum(axis=2, keepdims=True)


def checked_probabilities(probabilities: Any, masks: Masks) -> Probabilities:
    """What an agent says, (B, 18) float64; `ValueError` unless they are those of legal actions."""
    checked = np.asarray(probabilities, np.float64)
    if checked.shape != masks.shape:
        raise ValueError(f"probabilities have shape {checked.shape}; allowed: {masks.shape}")
    is_wrong = (abs(checked.sum(axis=1) - 1) > NEAR_ONE) | (
        (checked < 0) | ~masks & (checked > 0)
    ).any(1)
    for k in np.flatnonzero(~np.isfinite(checked).all(axis=1) | is_wrong):
        raise ValueError(
            f"probabilities[{k}] is {checked[k].tolist()}; allowed: 0 or more for each legal "
            "action, 0 for the others, 1 together"
        )
    return checked

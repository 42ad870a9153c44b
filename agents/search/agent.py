"""The search agent: it imagines how games go on from what one observation says, and counts.

From an observation alone it makes a game record that fits it, draws what the seat does not know,
and lets compiled play-outs find the best action. Sources stand in ``docs/search.md``.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.heuristics.beliefs import believed_games, checked_moves, rules_by_players
from agents.heuristics.heuristic import parameters_by_players
from agents.search import values
from agents.search.playouts import Policy, begin, search
from alles_kaese_env.agent import checked_batch
from alles_kaese_env.core.observe import OBSERVATION_RECORD
from alles_kaese_env.core.records import GAME, MAX_HOLES, MAX_PLAYERS, STREAM
from alles_kaese_env.variant import Variant, whole_number

MOST_PLAYOUTS = 10**9
MOST_MILLISECONDS = 10**7
CAUTION = 0.7  # standard errors that an action must gain over the choice without a search
SURE = 3.0  # standard errors that an action is behind before no more play-outs are spent on it
ROUNDS_TO_TRUST = 128  # before that a standard error says little
ROUNDS_AT_ONCE = 64  # rounds of play-outs between two looks at the clock


class SearchAgent:
    """Plays the action whose play-outs pay best.

    It needs no more than observations.

    Args:
        playouts: at most so many play-outs for each legal action of a decision.
        milliseconds: instead of it, at most so long for each decision, by the clock on the wall.
            How many play-outs that gives depends on the machine, so only the other budget makes
            moves repeatable.
        variant: the rules of the games, which no observation names; None for the default rules
            with any number of players.
        is_flat: play out to the end instead of asking a value network. So does an agent whose
            variant is not the default one, for which there is no network.

    Raises:
        ValueError: not exactly one budget is given, or it is not what is allowed.
    """

    def __init__(
        self,
        *,
        playouts: int | None = None,
        milliseconds: int | None = None,
        variant: Variant | None = None,
        is_flat: bool = False,
    ) -> None:
        if (playouts is None) == (milliseconds is None):
            raise ValueError(
                f"playouts is {playouts!r} and milliseconds is {milliseconds!r}; "
                "allowed: exactly one of them"
            )
        if playouts is not None:
            playouts = whole_number("playouts", playouts, 1, MOST_PLAYOUTS)
        else:
            milliseconds = whole_number("milliseconds", milliseconds, 1, MOST_MILLISECONDS)
        self.playouts = playouts
        self.milliseconds = milliseconds
        self._rules = rules_by_players(variant)
        self._parameters = parameters_by_players()
        self._networks = {
            number: values.no_network() if is_flat else network_of(variant or Variant(number))
            for number in np.flatnonzero(self._rules["num_players"]).tolist()
        }

    @classmethod
    def from_budget(cls, budget: str, variant: Variant | None = None) -> SearchAgent:
        """An agent from its budget as text: "400" play-outs an action, "100ms" a decision.

        Before it may stand "flat:" for play-outs to the end, without the value network. ``variant``
        is that of the constructor.

        Raises:
            ValueError: the text is neither.
        """
        is_flat = budget.startswith("flat:")
        budget = budget.removeprefix("flat:")
        number = budget.removesuffix("ms")
        if not (number.isascii() and number.isdigit()):
            raise ValueError(
                f'search budget is {budget!r}; allowed: "400" for play-outs an action, '
                'or "100ms" for milliseconds a decision'
            )
        if number != budget:
            return cls(milliseconds=int(number), is_flat=is_flat, variant=variant)
        return cls(playouts=int(number), is_flat=is_flat, variant=variant)

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64 for observations (B, 253) float32 and masks (B, 18) bool.

        Raises:
            ValueError: an observation is not of the mover's turn in a game of the agent's rules.
        """
        observations, masks = checked_batch(observations, masks)
        games, players = believed_games(observations, self._rules)
        views = observations.view(OBSERVATION_RECORD)
        words = rng.integers(2**64, size=len(games), dtype=np.uint64)
        moves = [self._move(*row) for row in zip(games, players, views, words, strict=True)]
        return checked_moves(np.array(moves, np.int64), masks)

    def _move(
        self,
        game: np.void,
        players: int,
        view: npt.NDArray[Any],
        word: np.uint64,
    ) -> int:
        """The best action for one observation, with a random word of its own.

        The choice without a search comes first among the actions: the others must beat it.
        """
        deadline = time.perf_counter() + (self.milliseconds or 0) / 1000
        work, streams = np.zeros(3, GAME), np.zeros(2, STREAM)
        work[0], streams["counter"][0] = game, word
        seen = np.zeros((MAX_PLAYERS, MAX_HOLES), np.int64)
        rules, policy = self._rules[players : players + 1], self.policy(players)
        actions = begin(view, rules, policy, work, seen)
        gains = np.zeros((2, len(actions)))
        rounds = 0
        while rounds == 0 or not self._is_spent(rounds, deadline):
            more = min(ROUNDS_AT_ONCE, (self.playouts or MOST_PLAYOUTS) - rounds)
            search(work, rules, policy, seen, actions, more, streams, gains)
            rounds += more
            if rounds >= ROUNDS_TO_TRUST:
                keep = have_a_chance(gains, rounds)
                actions, gains = actions[keep], gains[:, keep]
            if len(actions) == 1:
                break
        return int(actions[best_choice(gains, rounds)])

    def policy(self, num_players: int) -> Policy:
        """How the agent plays without a search, with buffers of its own for each call."""
        parameters = self._parameters[num_players : num_players + 1]
        return Policy(parameters, self._networks[num_players], values.buffers_for(num_players))

    def _is_spent(self, rounds: int, deadline: float) -> bool:
        """Whether the budget of a decision is used up."""
        if self.playouts is not None:
            return rounds >= self.playouts
        return time.perf_counter() >= deadline


@lru_cache
def network_of(variant: Variant) -> values.Network:
    """The value network for a variant; one that judges nothing where there is none."""
    path = values.network_file(variant.num_players, values.DIRECTORY)
    if variant != Variant(num_players=variant.num_players) or not path.exists():
        return values.no_network()
    sizes = values.sizes_for(variant.num_players)
    return values.load_network(path, sizes, "agents.search.train_values")


def means_and_errors(
    gains: npt.NDArray[np.float64], rounds: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The mean gain of each action over the first and its standard error, (A,) each."""
    mean, square = gains / rounds
    return mean, np.sqrt(np.maximum(square - mean**2, 0) / rounds)


def have_a_chance(gains: npt.NDArray[np.float64], rounds: int) -> npt.NDArray[np.bool_]:
    """Which actions (A,) may still be the best; the first, for comparison, always stays."""
    mean, error = means_and_errors(gains, rounds)
    keep = mean + SURE * error >= (mean - SURE * error).max()
    keep[0] = True
    return keep


def best_choice(gains: npt.NDArray[np.float64], rounds: int) -> int:
    """Which action gains most over the first, after a deduction for what may be luck."""
    mean, error = means_and_errors(gains, rounds)
    return int((mean - CAUTION * error).argmax())

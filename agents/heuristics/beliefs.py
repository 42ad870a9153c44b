"""From an observation to the game that its seat believes in, and agents that play by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.agent import checked_batch
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.observe import OBSERVATION_RECORD
from alles_kaese_env.core.records import (
    CHEESE,
    DECISION,
    GAME,
    MAX_HOLES,
    MAX_OPPONENTS,
    MAX_PLAYERS,
    MAX_SLOTS,
    NO_ACTION,
    RULES,
)
from alles_kaese_env.variant import Variant

TOLERANCE = 1e-3  # of a share; two shares that differ do so by more than that

Actions = npt.NDArray[np.int64]


def rules_by_players(variant: Variant | None = None) -> npt.NDArray[Any]:
    """The rules that an agent knows, by number of players: (MAX_PLAYERS + 1,) RULES.

    Those of a variant, or the default rules for all numbers of players; other entries are all 0.
    """
    rules = np.zeros(MAX_PLAYERS + 1, RULES)
    for one in [variant] if variant else map(Variant, range(2, MAX_PLAYERS + 1)):
        rules[one.num_players] = one.rules[0]
    return rules


class BelievingAgent:
    """An agent that plays by the game that it believes in; its policy is compiled.

    Args:
        variant: the rules of the games to play, which observations do not tell in full; None for
            the default rules with any number of players.
    """

    rules = rules_by_players()

    def __init__(self, variant: Variant | None = None) -> None:
        self.rules = rules_by_players(variant)

    def choose(self, games: npt.NDArray[Any], players: Actions, actions: Actions) -> None:
        """Write the actions (B,) of the seats to move of games (B,) with so many players (B,)."""
        raise NotImplementedError

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64 for observations (B, 253) float32 and masks (B, 18) bool.

        Raises:
            ValueError: the shapes are others, or an observation is not of the mover's turn in a
                game by the agent's rules.
        """
        observations, masks = checked_batch(observations, masks)
        games, players = believed_games(observations, self.rules)
        actions = np.zeros(len(games), np.int64)
        self.choose(games, players, actions)
        return checked_moves(actions, masks)


def believed_games(
    observations: npt.NDArray[np.float32], rules: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], Actions]:
    """The games (B,) of `rebuild` for observations (B, 253), and how many play each of them (B,).

    Raises:
        ValueError: an observation is not of the mover's turn in a game by these rules.
    """
    games, players = np.zeros(len(observations), GAME), np.zeros(len(observations), np.int64)
    views = observations.view(OBSERVATION_RECORD).reshape(len(observations))
    wrong = rebuild_games(views, rules, games, players)
    if wrong >= 0:
        raise ValueError(
            f"observations[{wrong}] is of {players[wrong]} players and of no decision in a game "
            "by the agent's rules; allowed: one of the mover's turn, by the default rules or by "
            "those of the agent's variant"
        )
    return games, players


def checked_moves(actions: Actions, masks: npt.NDArray[np.bool_]) -> Actions:
    """The actions (B,) themselves, if the masks (B, 18) allow them; `ValueError` if not."""
    wrong = np.flatnonzero(~masks[np.arange(len(masks)), actions])
    if len(wrong):
        raise ValueError(
            f"masks[{wrong[0]}] forbids action {actions[wrong[0]]}, which observations[{wrong[0]}] "
            "allows; allowed: masks that belong to the observations"
        )
    return actions


# --- Compiled ------------------------------------------------------------------------------------


@jit
def rebuild_games(views, rules, games, players):
    """`rebuild` each of some observations; the first that is refused, -1 if there is none."""
    for i in range(len(views)):
        for k in range(MAX_OPPONENTS):
            if views[i].num_players[k] > 0:
                players[i] = k + 2
        if not rebuild(views[i], rules[players[i]], games[i]):
            return i
    return -1


@jit
def rebuild(view, rules, game):
    """Write what an observation says into a game, all 0, in which the observer sits on seat 0.

    What others know is left out of it. Returns whether the observation can be that of the seat to
    move in a game by these rules.
    """
    game.phase = DECISION
    game.turns = 1  # not the first, so that turns go round (S3)
    game.action = NO_ACTION
    fits = view.turn[0] > 0 and rebuild_row(view, game) == rules.row_size
    for seat in range(rules.num_players):
        fits &= rebuild_seat(view, rules, game, seat)
    hidden = np.int64(0)
    for h in range(MAX_HOLES):
        fits &= rebuild_cards(view, rules, game, h)
        hidden += np.int64(game.below[h])
    game.reserve = whole(view.reserve * rules.num_cards)
    return fits and game.top > 0 and game.reserve == hidden + 1


@jit
def whole(number):
    """The nearest whole number, of one that is not negative."""
    return np.int64(number + 0.5)


@jit
def is_share(share, number, of):
    """Whether a share of the observation stands for a number out of so many."""
    return abs(share - number / max(of, 1)) < TOLERANCE


@jit
def rebuild_row(view, game):
    """I1, I2, T3: backs, own fronts, who peeked; how many cards there are."""
    cards = 0
    for slot in range(MAX_SLOTS):
        for h in range(MAX_HOLES):
            if view.row[slot, h] > 0:
                game.row[slot] = h + 1
        for k in range(2):
            if view.own_peeks[slot, k] > 0:
                game.front[slot] = CHEESE + k
                game.peeked[slot] = 1
        for k in range(MAX_OPPONENTS):
            if view.opponent_peeks[slot, k] > 0:
                game.peeked[slot] |= 2 << k
        cards += game.row[slot] > 0
    return cards


@jit
def rebuild_seat(view, rules, game, seat):
    """I1: what a seat has taken; whether its totals are those of the rules."""
    all_points = all_cheese = 0
    for h in range(MAX_HOLES):
        cheese = whole(view.taken[seat, 0, h] * rules.copies[h])
        traps = whole(view.taken[seat, 1, h] * rules.copies[h])
        game.taken[seat, h] = cheese
        game.taken[seat, MAX_HOLES + h] = traps
        game.cheese[seat] += cheese
        game.points[seat] += cheese * (h + 1)
        game.traps[seat] += traps
        all_cheese += rules.fronts[h]
        all_points += rules.fronts[h] * (h + 1)
    return (
        is_share(view.cheese[seat], game.cheese[seat], all_cheese)
        and is_share(view.points[seat], game.points[seat], all_points)
        and is_share(view.traps[seat], game.traps[seat], rules.trap_limit)
    )


@jit
def rebuild_cards(view, rules, game, h):
    """I1, I2, I4: the cards of h + 1 holes; whether there are so many by the rules."""
    holes, cheese, trap = h + 1, h, MAX_HOLES + h
    if view.die[h] > 0:
        game.die = holes
    if view.top[h] > 0:
        game.top = holes
    game.gone[h] = whole(view.gone[h] * rules.copies[h])
    below = rules.copies[h] - np.int64(game.gone[h]) - (game.top == holes)
    for slot in range(MAX_SLOTS):
        below -= game.row[slot] == holes
    game.below[h] = max(below, 0)
    for kind, face in enumerate((cheese, trap)):
        game.known[0, face] = whole(view.known[kind, h] * rules.copies[h])
        game.drawn[face] = game.known[0, face]
    cheeses = rules.fronts[cheese] - np.int64(game.known[0, cheese])
    traps = rules.fronts[trap] - np.int64(game.known[0, trap])
    is_known = cheeses >= 0 and traps >= 0 and is_share(view.trap_share[h], traps, cheeses + traps)
    return below >= 0 and is_known

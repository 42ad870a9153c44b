"""The search agent: it imagines how games go on from what one observation says, and counts.

From an observation alone it makes a game record that fits it, draws what the seat does not know,
and lets compiled play-outs find the best action. Sources stand in ``docs/search.md``.

What is compiled here is not kept on disk: Numba would not renew it when the engine changes.
"""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.heuristics.heuristic import load_parameters
from agents.heuristics.policies import heuristic_action, parameters_record, reference_action
from agents.search.values import (
    DIRECTORY,
    Network,
    Room,
    best_action,
    final_share,
    load_network,
    network_file,
    no_network,
    room_for,
)
from alles_kaese_env import OBSERVATION as LAYOUT
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.observe import (
    OBSERVATION_RECORD,
)
from alles_kaese_env.core.records import (
    CHEESE,
    DECISION,
    GAME,
    MAX_COPIES,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NO_ACTION,
    NUM_FACES,
    STREAM,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.core.rules import (
    apply_action,
    face_of,
    run_chance,
)
from alles_kaese_env.core.streams import (
    next_word,
    random_below,
)
from alles_kaese_env.variant import Variant, whole_number

MOST_PLAYOUTS = 10**9
MOST_MILLISECONDS = 10**7
DISCARD_ODDS = 4  # of a trap, for a discard that an opponent knew and did not take
CAUTION = 0.7  # standard errors that an action must gain over the choice without a search
SURE = 3.0  # standard errors that an action is behind before no more play-outs are spent on it
ROUNDS_TO_TRUST = 128  # before that a standard error says little
ROUNDS_AT_ONCE = 64  # rounds of play-outs between two looks at the clock
PLAYERS = range(2, MAX_PLAYERS + 1)
NUM_PLAYERS = LAYOUT["num_players"].where

Policy = tuple[npt.NDArray[Any], Network, Room]  # (1,) PARAMETERS, a network, and room for both


# --- From an observation to a game ------------------------------------------------------------


@jit
def whole(number):
    """The nearest whole number, of one that is not negative."""
    return np.int64(number + 0.5)


@jit
def rebuild(view, rules, game, seen):
    """Write what an observation says into a game in which the observer sits on seat 0.

    Args:
        view: the OBSERVATION_RECORD, I1 and I2.
        rules: the RULES.
        game: the GAME to write. It has all that the observer knows, and of what opponents know
            as much as the observer knows too.
        seen: (MAX_PLAYERS, MAX_HOLES) int64 to write: for each seat and hole count, of how many
            discarded cards it knows the front (I2); row 0, the observer's, is not used.

    Returns:
        Whether the observation can be that of the seat to move in a game with these rules.
    """
    rebuild_table(view, rules, game)
    rebuild_row(view, game)
    for seat in range(rules.num_players):
        rebuild_seat(view, rules, game, seat)
    rebuild_knowledge(view, rules, game, seen)
    hidden = 0
    for h in range(MAX_HOLES):
        in_row = 0
        for slot in range(MAX_SLOTS):
            in_row += game.row[slot] == h + 1
        below = rules.copies[h] - in_row - np.int64(game.gone[h]) - (game.top == h + 1)
        if below < 0:
            return False
        game.below[h] = below
        hidden += below
    return view.turn[0] > 0 and game.top > 0 and game.reserve == hidden + 1


@jit
def rebuild_first(views, rules, games, seen):
    """`rebuild` of the first of some observations into the first of some games."""
    return rebuild(views[0], rules[0], games[0], seen)


@jit
def rebuild_table(view, rules, game):
    """I1: the die, the reserve, what has gone; it is the observer's turn."""
    game.phase = DECISION
    game.seat = 0
    game.turns = 1  # not the first, so that turns go round (S3)
    game.action = NO_ACTION
    game.burn_due = 0
    game.die = game.top = 0
    for h in range(MAX_HOLES):
        if view.die[h] > 0:
            game.die = h + 1
        if view.top[h] > 0:
            game.top = h + 1
        game.gone[h] = whole(view.gone[h] * rules.copies[h])
    game.reserve = whole(view.reserve * rules.num_cards)


@jit
def rebuild_row(view, game):
    """I1, I2, T3: backs, own fronts, who peeked."""
    for slot in range(MAX_SLOTS):
        game.row[slot] = game.peeked[slot] = 0
        game.front[slot] = UNSEEN
        for h in range(MAX_HOLES):
            if view.row[slot, h] > 0:
                game.row[slot] = h + 1
        for k in range(2):
            if view.own_peeks[slot, k] > 0:
                game.front[slot] = CHEESE + k
                game.peeked[slot] = 1
        for k in range(MAX_PLAYERS - 1):
            if view.opponent_peeks[slot, k] > 0:
                game.peeked[slot] |= 2 << k


@jit
def rebuild_seat(view, rules, game, seat):
    """I1: what a seat has taken."""
    game.traps[seat] = whole(view.traps[seat] * rules.trap_limit)
    game.points[seat] = whole(view.points[seat] / rules.per_point)
    game.cheese[seat] = whole(view.cheese[seat] / rules.per_cheese)
    for face in range(NUM_FACES):
        kind, h = face // MAX_HOLES, face % MAX_HOLES
        game.taken[seat, face] = whole(view.taken[seat, kind, h] * rules.copies[h])


@jit
def rebuild_knowledge(view, rules, game, seen):
    """I2, T3: which fronts each seat knows, and of how many more."""
    for face in range(NUM_FACES):
        kind, h = face // MAX_HOLES, face % MAX_HOLES
        game.known[0, face] = whole(view.known[kind, h] * rules.copies[h])
        game.drawn[face] = game.known[0, face]
        public = 0
        for seat in range(rules.num_players):
            public += game.taken[seat, face]
        for seat in range(1, rules.num_players):
            game.known[seat, face] = public
    for seat in range(1, rules.num_players):
        for h in range(MAX_HOLES):
            fronts = whole(view.opponent_fronts[seat - 1, h] * rules.copies[h])
            public = game.known[seat, h] + game.known[seat, MAX_HOLES + h]
            seen[seat, h] = fronts - public
        for slot in range(MAX_SLOTS):
            if game.peeked[slot] >> seat & 1:
                seen[seat, np.int64(game.row[slot]) - 1] -= 1
                if game.peeked[slot] & 1:
                    game.known[seat, face_of(game.front[slot], game.row[slot])] += 1


@jit
def determinise(game, rules, seen, odds, stream):
    """Draw the fronts that opponents know and the observer does not, by I4.

    Fronts that nobody knows, backs and dice stay open: the engine draws them when they are seen.

    Args:
        game: a GAME of `rebuild`, to be completed.
        rules: the RULES.
        seen: as in `rebuild`.
        odds: how many times likelier than by I4 alone a trap is, to cheese, for a discarded card
            that an opponent knows: 1 for I4.
        stream: the STREAM to draw from.
    """
    for slot in range(MAX_SLOTS):
        if game.peeked[slot] > 1 and game.peeked[slot] & 1 == 0:
            game.front[slot] = draw_front(game, rules, game.row[slot], 1, stream)
            face = face_of(game.front[slot], game.row[slot])
            for seat in range(1, rules.num_players):
                game.known[seat, face] += game.peeked[slot] >> seat & 1
    for h in range(MAX_HOLES):
        most = 0
        for seat in range(1, rules.num_players):
            most = max(most, seen[seat, h])
        if most > 0:
            determinise_discards(game, rules, seen, h, odds, stream)


@jit
def draw_front(game, rules, holes, odds, stream):
    """I4: a front for a card with this back whose front the observer does not know.

    The odds of a trap are multiplied by ``odds``, a whole number.
    """
    cheese, trap = face_of(CHEESE, holes), face_of(TRAP, holes)
    left = rules.fronts[cheese] - np.int64(game.drawn[cheese])
    traps = odds * (rules.fronts[trap] - np.int64(game.drawn[trap]))
    front = TRAP if random_below(stream, left + traps) >= left else CHEESE
    game.drawn[face_of(front, holes)] += 1
    return front


@jit
def determinise_discards(game, rules, seen, h, odds, stream):
    """Which cards of h + 1 holes in the discard pile each opponent knows, and their fronts.

    Nobody but the one who peeked knows which they are, so every choice is as likely.
    """
    cheese, trap = face_of(CHEESE, h + 1), face_of(TRAP, h + 1)
    pile = np.int64(game.gone[h])
    own = np.array([np.int64(game.known[0, cheese]), np.int64(game.known[0, trap])])
    for seat in range(rules.num_players):
        for kind, face in enumerate((cheese, trap)):
            own[kind] -= game.taken[seat, face]
            pile -= game.taken[seat, face]
    for slot in range(MAX_SLOTS):
        if game.row[slot] == h + 1 and game.peeked[slot] & 1:
            own[game.front[slot] - CHEESE] -= 1
    fronts = np.zeros(MAX_COPIES, np.int64)
    fronts[: own[0]] = CHEESE
    fronts[own[0] : own[0] + own[1]] = TRAP
    for seat in range(1, rules.num_players):
        wanted = seen[seat, h]
        for card in range(pile):
            if random_below(stream, pile - card) < wanted:
                wanted -= 1
                if fronts[card] == UNSEEN:
                    fronts[card] = draw_front(game, rules, h + 1, odds, stream)
                game.known[seat, face_of(fronts[card], h + 1)] += 1


# --- Flat Monte Carlo --------------------------------------------------------------------------


@jit
def policy_action(game, rules, parameters, network, room):
    """What the seat to move does without a search: as the network says, or the heuristic."""
    if len(network.first):
        return best_action(game, rules, network, room)[0]
    return heuristic_action(game, rules, parameters, room.payoffs[0])


@jit
def first_choice(games, rules, parameters, network, room):
    """`policy_action` in the first of some games."""
    return policy_action(games[0], rules[0], parameters[0], network, room)


@jit
def outcome(game, rules, mover, parameters, network, room, stream):
    """The mover's chance to win when it has acted, from one way in which the game goes on.

    The others play the reference heuristic. With a network the way ends at the mover's next
    decision, with what the network thinks of the best action there; without one the mover plays
    the tuned heuristic to the end.
    """
    while game.phase == DECISION:
        if game.seat != mover:
            action = reference_action(game, rules)
        elif len(network.first):
            return best_action(game, rules, network, room)[1]
        else:
            action = heuristic_action(game, rules, parameters, room.payoffs[0])
        apply_action(game, rules, action)
        run_chance(game, rules, stream)
    return final_share(game, rules, mover, room.payoffs)


@jit
def search(work, rules, parameters, network, room, seen, actions, rounds, streams, gains):
    """Rounds of play-outs: one determinisation each, and from it one play-out for each action.

    All play-outs of a round share the determinisation and the random stream: common random
    numbers, so that luck tells actions apart less.

    Args:
        work: (3,) GAME: that of `rebuild`, and room for two more.
        rules, parameters: (1,) RULES and (1,) PARAMETERS.
        network, room: a Network, which may be that of `no_network`, and a Room.
        seen: as in `rebuild`.
        actions: (A,) int64, the legal ones; the first is the one that others are compared with.
        rounds: how many rounds.
        streams: (2,) STREAM: the first one goes on from call to call, the second is room.
        gains: (2, A) float64, to which is added by how much each action is better for the mover
            than the first one, as a share of the win, and the square of it.
    """
    mover = np.int64(work[0].seat)
    for _ in range(rounds):
        work[1] = work[0]
        determinise(work[1], rules[0], seen, DISCARD_ODDS, streams[0])
        word = next_word(streams[0])
        first = 0.0
        for k in range(len(actions)):
            work[2] = work[1]
            streams[1].counter = word
            apply_action(work[2], rules[0], actions[k])
            run_chance(work[2], rules[0], streams[1])
            share = outcome(work[2], rules[0], mover, parameters[0], network, room, streams[1])
            if k == 0:
                first = share
            gains[0, k] += share - first
            gains[1, k] += (share - first) ** 2


class SearchAgent:
    """Plays the action whose play-outs pay best.

    It needs no more than observations.

    Args:
        playouts: at most so many play-outs for each legal action of a decision.
        milliseconds: instead of it, at most so long for each decision, by the clock on the wall.
            How many play-outs that gives depends on the machine, so only the other budget makes
            moves repeatable. The first decision of a process compiles for some seconds.
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
        variants = [variant] if variant else [Variant(num_players=number) for number in PLAYERS]
        self._rules = {each.num_players: each.rules for each in variants}
        parameters = load_parameters()
        self._parameters = {number: parameters_record(parameters[number]) for number in self._rules}
        self._networks = {
            each.num_players: no_network() if is_flat else network_of(each) for each in variants
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
        vectors = np.ascontiguousarray(observations, np.float32)
        words = rng.integers(2**64, size=len(vectors), dtype=np.uint64)
        moves = [self._move(*row) for row in zip(vectors, masks, words, strict=True)]
        return np.array(moves, np.int64)

    def _move(
        self,
        observation: npt.NDArray[np.float32],
        mask: npt.NDArray[np.bool_],
        word: np.uint64,
    ) -> int:
        """The best action for one observation, with a random word of its own.

        The choice without a search comes first among the actions: the others must beat it.
        """
        deadline = time.perf_counter() + (self.milliseconds or 0) / 1000
        players = int(observation[NUM_PLAYERS].argmax()) + 2
        work, streams = np.zeros(3, GAME), np.zeros(2, STREAM)
        streams["counter"][0] = word
        seen = np.zeros((MAX_PLAYERS, MAX_HOLES), np.int64)
        rules = self._rules.get(players)
        if rules is None or not rebuild_first(
            observation.view(OBSERVATION_RECORD), rules, work, seen
        ):
            raise ValueError(
                f"observation is of {players} players and of no decision in a game of the "
                "agent's rules; allowed: one of the mover's turn, by the default rules or by "
                "those of the agent's variant"
            )
        policy = self.policy(players)
        actions = different_actions(work[0], mask, first_choice(work, rules, *policy))
        gains = np.zeros((2, len(actions)))
        rounds = 0
        while rounds == 0 or not self._is_spent(rounds, deadline):
            more = min(ROUNDS_AT_ONCE, (self.playouts or MOST_PLAYOUTS) - rounds)
            search(work, rules, *policy, seen, actions, more, streams, gains)
            rounds += more
            if rounds >= ROUNDS_TO_TRUST:
                keep = have_a_chance(gains, rounds)
                actions, gains = actions[keep], gains[:, keep]
            if len(actions) == 1:
                break
        return int(actions[best_choice(gains, rounds)])

    def policy(self, num_players: int) -> Policy:
        """What the agent goes by without a search, with room of its own for each call."""
        room = room_for(num_players)
        return self._parameters[num_players], self._networks[num_players], room

    def _is_spent(self, rounds: int, deadline: float) -> bool:
        """Whether the budget of a decision is used up."""
        if self.playouts is not None:
            return rounds >= self.playouts
        return time.perf_counter() >= deadline


@lru_cache
def network_of(variant: Variant) -> Network:
    """The value network for a variant; one that judges nothing where there is none."""
    path = network_file(variant.num_players, DIRECTORY)
    if variant != Variant(num_players=variant.num_players) or not path.exists():
        return no_network()
    return load_network(path, variant.num_players)


def different_actions(game: np.void, mask: npt.NDArray[np.bool_], first: int) -> npt.NDArray[Any]:
    """The legal actions (A,), one of each kind with cards that nothing tells apart.

    Args:
        game: the GAME of `rebuild`.
        mask: the legal actions, (18,).
        first: the one that is to come first; of several such cards it has the lowest slot.
    """
    slots: dict[tuple[int, ...], int] = {}
    actions = [first]
    for action in np.flatnonzero(mask):
        slot = action % MAX_SLOTS
        card = tuple(int(game[name][slot]) for name in ("row", "peeked", "front"))
        if slots.setdefault(card, int(slot)) == slot and action != first:
            actions.append(int(action))
    return np.array(actions)


def means_and_errors(
    gains: npt.NDArray[np.float64], rounds: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The mean gain of each action over the first and its standard error, (A,) each.

    Args:
        gains: as in `search`.
        rounds: how many of them, at least 1.
    """
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

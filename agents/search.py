"""The search agent: it imagines how games go on from what one observation says, and counts.

From an observation alone it makes a game record that fits it, draws what the seat does not know,
and lets compiled play-outs find the best action. Rules: those of ``Variant(num_players=n)``.
Sources stand in ``docs/search.md``.

What is compiled here is not kept on disk: Numba would not renew it when the engine changes.
"""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from alles_kaese_env import OBSERVATION as LAYOUT
from alles_kaese_env.engine import (
    CHEESE,
    DECISION,
    DISCARD,
    GAME,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NO_ACTION,
    NUM_FACES,
    OBSERVATION,
    PEEK,
    STREAM,
    TAKE,
    TRAP,
    UNSEEN,
    apply_action,
    face_of,
    matching_slots,
    next_word,
    random_below,
    record,
    run_chance,
    write_payoffs,
)
from alles_kaese_env.variant import Variant, whole_number

COPIES = 6  # cards of each hole count in the default variant
MOST_PLAYOUTS = 10**9
MOST_MILLISECONDS = 10**7
DISCARD_ODDS = 4  # of a trap, for a discard that an opponent knew and did not take
CAUTION = 0.7  # standard errors that an action must gain over that of the tuned policy
SURE = 3.0  # standard errors that an action is behind before no more play-outs are spent on it
ROUNDS_TO_TRUST = 128  # before that a standard error says little
ROUNDS_AT_ONCE = 64  # rounds of play-outs between two looks at the clock
PLAYERS = range(2, MAX_PLAYERS + 1)
NUM_PLAYERS = LAYOUT["num_players"].where


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use, in memory only, and release the GIL."""
    return njit(nogil=True, error_model="numpy")(function)


# --- The policies of the play-outs -------------------------------------------------------------

ONE = 60  # probabilities are counted in sixtieths: exact, for fractions of up to six cards
SIXTIETHS = np.array([[ONE * t // max(n, 1) for n in range(COPIES + 1)] for t in range(COPIES + 1)])

WEIGHTS = record(
    [
        ("threshold", "f8", (3,)),  # most q to take a card, by own traps
        ("need", "f8", (3,)),  # more of it for a point behind the best opponent, a turn left
        ("holes", "f8"),  # more of it for a hole on the card, with two traps
        ("theirs_first", "f8"),  # q less, when choosing what to take, if an opponent knows it
        ("keep_own", "f8"),  # less reason to discard a card that the seat knows
        ("drop_theirs", "f8"),  # more reason to discard one that an opponent knows
        ("base_holes", "f8"),  # added to the holes that a peek is worth
        ("crowd", "f8"),  # more worth of a peek for each other card of as many holes
    ]
)


def weights_of(values: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Values of WEIGHTS as a record array (1,)."""
    return np.array([values], WEIGHTS)


# From a search for the most wins against the reference with 2 and with 4 players, see
# docs/search.md. Those for 4 are the better ones for 3, 5 and 6 players too.
TWO = weights_of(((0.77, 0.67, 0.12), (0.04, 0.13, 0.31), 0.055, 0.06, 1.8, 0.75, 2.2, 0.2))
MORE = weights_of(((0.87, 0.75, 0.24), (0.11, 0.07, 0.19), 0.05, 0.16, 1.8, 0.92, 0.9, 0.41))


@jit
def trap_sixtieths(game, rules, seat, slot):
    """I4: the probability that the card in a slot is a trap, as far as the seat knows, in 1/60."""
    if game.peeked[slot] >> seat & 1:
        return ONE * np.int64(game.front[slot] == TRAP)
    holes = game.row[slot]
    cheese, trap = face_of(CHEESE, holes), face_of(TRAP, holes)
    traps = rules.fronts[trap] - np.int64(game.known[seat, trap])
    return SIXTIETHS[traps, traps + rules.fronts[cheese] - np.int64(game.known[seat, cheese])]


@jit
def reference_action(game, rules):
    """What the reference heuristic does in place of the seat to move, by what that seat knows."""
    seat = np.int64(game.seat)
    safest = riskiest = most_uncertain = 0
    least, most, best = ONE + 1, -1, -1
    for slot in range(MAX_SLOTS):
        if game.row[slot] == game.die:
            trap = trap_sixtieths(game, rules, seat, slot)
            if trap < least:
                safest, least = slot, trap
            if trap > most:
                riskiest, most = slot, trap
    if most >= 0:
        threshold = 42 if game.traps[seat] <= 1 else 6  # 0.7 and 0.1
        if least <= threshold:
            return TAKE * MAX_SLOTS + safest
        return DISCARD * MAX_SLOTS + riskiest
    for slot in range(MAX_SLOTS):
        if not game.peeked[slot] >> seat & 1:
            trap = trap_sixtieths(game, rules, seat, slot)
            worth = np.int64(game.row[slot]) * trap * (ONE - trap)
            if worth > best:
                most_uncertain, best = slot, worth
    return PEEK * MAX_SLOTS + most_uncertain


@jit
def tuned_action(game, rules, weights):
    """What the mover of a search does later on: the reference with a view to the score.

    It takes more risk with two traps when it is behind, discards rather what opponents know than
    what it knows itself, and rather peeks where more cards have the same back.
    """
    if matching_slots(game) == 0:
        return tuned_peek(game, rules, weights)
    seat = np.int64(game.seat)
    safest = worst = 0
    least, most = np.inf, -np.inf
    for slot in range(MAX_SLOTS):
        if game.row[slot] == game.die:
            trap = trap_sixtieths(game, rules, seat, slot) / ONE
            own = game.peeked[slot] >> seat & 1
            theirs = np.int64(game.peeked[slot] & ~(1 << seat) != 0)
            risk = trap - weights.theirs_first * theirs
            if risk < least:
                safest, least = slot, risk
            harm = trap - weights.keep_own * own + weights.drop_theirs * theirs
            if harm > most:
                worst, most = slot, harm
    trap = trap_sixtieths(game, rules, seat, safest) / ONE
    if trap == 0 or trap <= tuned_threshold(game, rules, weights, seat):
        return TAKE * MAX_SLOTS + safest
    return DISCARD * MAX_SLOTS + worst


@jit
def tuned_threshold(game, rules, weights, seat):
    """The greatest trap probability at which a seat takes a card of the die's number."""
    most = np.int64(0)
    for other in range(rules.num_players):
        if other != seat and game.points[other] > most:
            most = np.int64(game.points[other])
    turns = game.reserve / rules.num_players
    need = (most - np.int64(game.points[seat])) / (turns + 0.5)
    traps = min(np.int64(game.traps[seat]), 2)
    threshold = weights.threshold[traps] + weights.need[traps] * max(min(need, 6.0), -6.0)
    if traps == 2:
        threshold += weights.holes * np.float64(game.die)
    return threshold


@jit
def tuned_peek(game, rules, weights):
    """Where the tuned policy peeks."""
    seat = np.int64(game.seat)
    slot, best = 0, -1.0
    for k in range(MAX_SLOTS):
        if not game.peeked[k] >> seat & 1:
            crowd = -1
            for other in range(MAX_SLOTS):
                crowd += game.row[other] == game.row[k]
            trap = trap_sixtieths(game, rules, seat, k) / ONE
            holes = np.float64(game.row[k]) + weights.base_holes
            worth = holes * trap * (1 - trap) * (1 + weights.crowd * crowd)
            if worth > best:
                slot, best = k, worth
    return PEEK * MAX_SLOTS + slot


@jit
def tuned_choice(games, rules, weights):
    """`tuned_action` in the first of some games."""
    return tuned_action(games[0], rules[0], weights[0])


@jit
def play_out(game, rules, mover, weights, stream):
    """Play to the end of the game: one seat by the tuned policy, the others by the reference."""
    while game.phase == DECISION:
        if game.seat == mover:
            action = tuned_action(game, rules, weights)
        else:
            action = reference_action(game, rules)
        apply_action(game, rules, action)
        run_chance(game, rules, stream)


# --- From an observation to a game ------------------------------------------------------------


@jit
def whole(number):
    """The nearest whole number, of one that is not negative."""
    return np.int64(number + 0.5)


@jit
def rebuild(view, rules, game, seen):
    """Write what an observation says into a game in which the observer sits on seat 0.

    Args:
        view: the OBSERVATION, I1 and I2.
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
    fronts = np.zeros(COPIES, np.int64)
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
def search(work, rules, weights, seen, actions, rounds, streams, gains):
    """Rounds of play-outs: one determinisation each, and from it one play-out for each action.

    All play-outs of a round share the determinisation and the random stream: common random
    numbers, so that luck tells actions apart less.

    Args:
        work: (3,) GAME: that of `rebuild`, and room for two more.
        rules, weights: (1,) RULES and (1,) WEIGHTS.
        seen: as in `rebuild`.
        actions: (A,) int64, the legal ones; the first is the one that others are compared with.
        rounds: how many rounds.
        streams: (2,) STREAM: the first one goes on from call to call, the second is room.
        gains: (2, A) float64, to which is added how much more than the first action each action
            paid to the mover (P5), and the square of it.
    """
    mover = np.int64(work[0].seat)
    payoffs = np.zeros((1, MAX_PLAYERS))
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
            play_out(work[2], rules[0], mover, weights[0], streams[1])
            write_payoffs(work[2], rules[0], payoffs, 0)
            if k == 0:
                first = payoffs[0, mover]
            gain = payoffs[0, mover] - first
            gains[0, k] += gain
            gains[1, k] += gain * gain


class SearchAgent:
    """Plays the action whose play-outs pay best.

    It is for the default rules, with any number of players, and needs no more than observations.

    Args:
        playouts: at most so many play-outs for each legal action of a decision.
        milliseconds: instead of it, at most so long for each decision, by the clock on the wall.
            How many play-outs that gives depends on the machine, so only the other budget makes
            moves repeatable. The first decision of a process compiles for some seconds.

    Raises:
        ValueError: not exactly one budget is given, or it is not what is allowed.
    """

    def __init__(self, *, playouts: int | None = None, milliseconds: int | None = None) -> None:
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
        self._variants = {players: Variant(num_players=players) for players in PLAYERS}

    @classmethod
    def from_budget(cls, budget: str) -> SearchAgent:
        """An agent from its budget as text: "400" play-outs an action, "100ms" a decision.

        Raises:
            ValueError: the text is neither.
        """
        number = budget.removesuffix("ms")
        if not (number.isascii() and number.isdigit()):
            raise ValueError(
                f'search budget is {budget!r}; allowed: "400" for play-outs an action, '
                'or "100ms" for milliseconds a decision'
            )
        if number != budget:
            return cls(milliseconds=int(number))
        return cls(playouts=int(number))

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64 for observations (B, 253) float32 and masks (B, 18) bool.

        Raises:
            ValueError: an observation is not of a decision in a game of the default rules.
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

        The tuned policy's own choice comes first among the actions: the others must beat it.
        """
        deadline = time.perf_counter() + (self.milliseconds or 0) / 1000
        players = int(observation[NUM_PLAYERS].argmax()) + 2
        rules, weights = self._variants[players].rules, TWO if players == 2 else MORE
        work, streams = np.zeros(3, GAME), np.zeros(2, STREAM)
        streams["counter"][0] = word
        seen = np.zeros((MAX_PLAYERS, MAX_HOLES), np.int64)
        if not rebuild_first(observation.view(OBSERVATION), rules, work, seen):
            raise ValueError(
                "observation is of no decision in a game of the default rules; "
                f"allowed: one of Variant(num_players={players}), at the mover's turn"
            )
        own = tuned_choice(work, rules, weights)
        actions = np.array([own, *(action for action in np.flatnonzero(mask) if action != own)])
        gains = np.zeros((2, len(actions)))
        rounds = 0
        while rounds == 0 or not self._is_spent(rounds, deadline):
            more = min(ROUNDS_AT_ONCE, (self.playouts or MOST_PLAYOUTS) - rounds)
            search(work, rules, weights, seen, actions, more, streams, gains)
            rounds += more
            if rounds >= ROUNDS_TO_TRUST:
                keep = have_a_chance(gains, rounds)
                actions, gains = actions[keep], gains[:, keep]
            if len(actions) == 1:
                break
        return int(actions[best_choice(gains, rounds)])

    def _is_spent(self, rounds: int, deadline: float) -> bool:
        """Whether the budget of a decision is used up."""
        if self.playouts is not None:
            return rounds >= self.playouts
        return time.perf_counter() >= deadline


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

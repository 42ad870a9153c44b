"""Loops over many games.

``rows`` (R,) int64 lists the games that a loop is about; ``actions`` and ``outcomes`` (R,) int64
have an entry for each of them. ``buffers`` is a plain tuple of the arrays of `Buffers`: a named one
takes longer to pass (1.9 for 1.1 microseconds). A loop unpacks it before it begins. A loop over few
arrays takes them one by one: ``games`` (B,) GAME, ``streams`` (B,) STREAM, ``rules`` (1,) RULES,
``seats`` (B,) int64. ``episodes`` are three arrays of how the games went on for one seat of each:
whether its last action was ``illegal`` and changed nothing, (B,) bool; its ``rewards`` for that
step, (B,) float32; and whether this ``terminated`` its episode, (B,) bool.
"""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.beliefs import determinise, forget
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.observe import observe, observe_state, observe_without_recall
from alles_kaese_env.core.records import (
    DECISION,
    FRONT,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NUM_ACTIONS,
    NUM_FACES,
    OVER,
    TAKE,
)
from alles_kaese_env.core.rules import (
    apply_action,
    apply_chance,
    chance_weight,
    clear,
    legal_actions,
    lost_payoff,
    note_last_peeks,
    num_chance_outcomes,
    run_chance,
    sample_chance,
    write_payoffs,
)
from alles_kaese_env.core.streams import random_below
from alles_kaese_env.core.vector import NTH_BIT, SET_BITS, spread_bits


class Buffers(NamedTuple):
    """The arrays of B games of P players by the same rules.

    Attributes:
        games: the records, (B,) GAME.
        streams: where each game draws from, (B,) STREAM.
        rules: (1,) RULES.
        seats: whose observation and mask is written, (B,) int64.
        legal: the legal actions as bits, (B,) int64.
        masks: the same as a mask, (B,) MASK.
        observations: what the seat knows, (B,) OBSERVATION_RECORD.
        over: whether the last step ended the game, (B,) bool.
        payoffs: P5 where it did, else 0, (B, P) float32.
    """

    games: npt.NDArray[Any]
    streams: npt.NDArray[Any]
    rules: npt.NDArray[Any]
    seats: npt.NDArray[np.int64]
    legal: npt.NDArray[np.int64]
    masks: npt.NDArray[Any]
    observations: npt.NDArray[Any]
    over: npt.NDArray[np.bool_]
    payoffs: npt.NDArray[np.float32]


# --- One game ------------------------------------------------------------------------------


@jit
def random_action(legal, stream):
    """One of the actions whose bits are set in ``legal``, each as likely as the others."""
    slots = (legal | legal >> TAKE * MAX_SLOTS) & (1 << MAX_SLOTS) - 1
    number = SET_BITS[slots]
    kinds = 1 + np.int64(legal >> TAKE * MAX_SLOTS != 0)  # T2: peek; T5: take or discard
    ticket = random_below(stream, number * kinds)
    second = np.int64(ticket >= number)
    return (kinds - 1 + second) * MAX_SLOTS + NTH_BIT[slots, ticket - second * number]


@jit
def deal(game, rules, stream):
    """S1: a new game, up to its first decision."""
    clear(game, rules)
    run_chance(game, rules, stream)


@jit
def inform(game, rules, seat, mask, observation):
    """Write the mask of the legal actions and what the seat knows; the actions as bits."""
    legal = legal_actions(game, rules)
    spread_bits(legal, mask.legal, NUM_ACTIONS)
    observe(game, rules, seat, observation)
    return legal


@jit
def settle_payoffs(games, rules, i, over, payoffs):
    """P5: whether game i is over, and its payoffs; zeros while it goes on."""
    over[i] = games[i].phase == OVER
    for seat in range(rules.num_players):
        payoffs[i, seat] = 0
    if over[i]:
        write_payoffs(games[i], rules, payoffs, i)


# --- Beginning -----------------------------------------------------------------------------


@jit
def deal_games(games, streams, rules, rows):
    """Deal a new game in each row."""
    for i in rows:
        deal(games[i], rules[0], streams[i])


@jit
def clear_games(games, rules, rows):
    """An undealt game in each row; chance is up to the caller."""
    for i in rows:
        clear(games[i], rules[0])


@jit
def draw_seats(streams, rules, rows, seats):
    """S3: a random seat seats[i] for each row i."""
    for i in rows:
        seats[i] = random_below(streams[i], rules[0].num_players)


# --- Stepping ------------------------------------------------------------------------------


@jit
def random_actions(legal, streams, rows, actions):
    """Write one of the legal actions of each row, at random; 0 where there is none."""
    for k in range(len(rows)):
        bits = legal[rows[k]]
        actions[k] = random_action(bits, streams[rows[k]]) if bits else 0


@jit
def first_illegal(legal, rows, actions):
    """The first k where actions[k] is illegal in rows[k], -1 if there is none."""
    for k in range(len(rows)):
        action = actions[k]
        if action < 0 or action >= NUM_ACTIONS or not legal[rows[k]] >> action & 1:
            return k
    return -1


@jit
def step_games(buffers, rows, actions, is_autoreset):
    """Carry out legal actions up to the next decisions, and look at the games.

    With ``is_autoreset`` a game that ends is dealt anew.
    """
    games, streams, rules, seats, legal, masks, observations, over, payoffs = buffers
    for k in range(len(rows)):
        i = rows[k]
        apply_action(games[i], rules[0], actions[k])
        run_chance(games[i], rules[0], streams[i])
        settle_payoffs(games, rules[0], i, over, payoffs)
        if over[i] and is_autoreset:
            deal(games[i], rules[0], streams[i])
        seats[i] = games[i].seat
        legal[i] = inform(games[i], rules[0], seats[i], masks[i], observations[i])


@jit
def look_at_games(buffers, rows):
    """Bring all that follows from the records up to date, for the seats that look."""
    games, _, rules, seats, legal, masks, observations, over, payoffs = buffers
    for i in rows:
        settle_payoffs(games, rules[0], i, over, payoffs)
        legal[i] = inform(games[i], rules[0], seats[i], masks[i], observations[i])


@jit
def act_games(games, rules, rows, actions, illegal):
    """Carry out the actions that are legal; illegal[i] is set where nothing was changed."""
    for k in range(len(rows)):
        i = rows[k]
        illegal[i] = not legal_actions(games[i], rules[0]) >> actions[k] & 1
        if not illegal[i]:
            apply_action(games[i], rules[0], actions[k])


@jit
def try_games(games, streams, rules, rows, actions, illegal):
    """`act_games`, then chance."""
    act_games(games, rules, rows, actions, illegal)
    for i in rows:
        run_chance(games[i], rules[0], streams[i])


@jit
def chance_games(games, streams, rules, rows, outcomes):
    """Carry out an outcome of chance in each row; one is drawn and written where it is -1."""
    for k in range(len(rows)):
        i = rows[k]
        if outcomes[k] < 0:
            outcomes[k] = sample_chance(games[i], rules[0], streams[i])
        apply_chance(games[i], rules[0], outcomes[k])


@jit
def note_peeks(games, rules, last_peeks, rows):
    """`note_last_peeks` in each row."""
    for i in rows:
        note_last_peeks(games[i], rules[0], last_peeks[i])


# --- Event by event ------------------------------------------------------------------------


@jit
def weigh(game, rules, weights):
    """The weight of every outcome of chance, or 1 for every legal action; (NUM_ACTIONS,) uint8."""
    legal, outcomes = legal_actions(game, rules), num_chance_outcomes(game, rules)
    for k in range(NUM_ACTIONS):
        weights[k] = chance_weight(game, rules, k) if k < outcomes else legal >> k & 1


@jit
def begin_events(games, rules, weights):
    """An undealt first game, and what may happen in it."""
    clear(games[0], rules[0])
    weigh(games[0], rules[0], weights)


@jit
def play_event(games, rules, number, weights, seen):
    """Let an outcome of chance or an action of positive weight happen in the first game.

    Into ``weights`` goes what may happen next, into ``seen`` (P, 3) uint8 what each seat saw of it,
    counted from 1: the phase, the number (1 for a front), the face that the seat came to know (0
    for none).
    """
    game = games[0]
    known = game.known.copy()
    seen[:, 0] = game.phase + 1
    seen[:, 1] = 1 if game.phase == FRONT else number + 1
    if game.phase == DECISION:
        apply_action(game, rules[0], number)
    else:
        apply_chance(game, rules[0], number)
    for seat in range(len(seen)):
        seen[seat, 2] = 0
        for face in range(NUM_FACES):
            if game.known[seat, face] != known[seat, face]:
                seen[seat, 2] = face + 1
    weigh(game, rules[0], weights)


# --- One seat learns -----------------------------------------------------------------------


@jit
def play_random(games, streams, rules, rows, seats):
    """Let every seat but seats[i] act at random until it is that seat's turn or the end."""
    for i in rows:
        while games[i].phase == DECISION and games[i].seat != seats[i]:
            legal = legal_actions(games[i], rules[0])
            apply_action(games[i], rules[0], random_action(legal, streams[i]))
            run_chance(games[i], rules[0], streams[i])


@jit
def reward_games(buffers, episodes, rows):
    """P5: what the seat gets for its last step, and whether it was the last.

    An illegal action ends the seat's episode with the payoff of a lost game.
    """
    _, _, rules, seats, _, masks, _, over, payoffs = buffers
    illegal, rewards, terminated = episodes
    for i in rows:
        terminated[i] = over[i] or illegal[i]
        rewards[i] = lost_payoff(rules[0]) if illegal[i] else payoffs[i, seats[i]]
        if illegal[i]:
            spread_bits(0, masks[i].legal, NUM_ACTIONS)


@jit
def step_seats(buffers, episodes, rows, actions):
    """Let the seat of each row act, and the others at random up to its next turn."""
    games, streams, rules, seats = buffers[:4]
    try_games(games, streams, rules, rows, actions, episodes[0])
    play_random(games, streams, rules, rows, seats)
    look_at_games(buffers, rows)
    reward_games(buffers, episodes, rows)


# --- Observing -----------------------------------------------------------------------------


@jit
def observe_games(games, rules, seats, observations):
    """What seat seats[i] knows of each game i."""
    for i in range(len(games)):
        observe(games[i], rules[0], seats[i], observations[i])


@jit
def observe_without(games, rules, last_peeks, rows, seats, observations):
    """What seat seats[i] knows of the game of each row i without recall."""
    work = games[:1].copy()
    for i in rows:
        work[0] = games[i]
        observe_without_recall(
            games[i], rules[0], seats[i], last_peeks[i], work[0], observations[i]
        )


@jit
def observe_states(games, rules, seats, work, states):
    """The whole state of each game i from seats[i] on; ``work`` (1,) GAME is a buffer."""
    for i in range(len(games)):
        work[0] = games[i]
        observe_state(games[i], rules[0], seats[i], work[0], states[i])


@jit
def sample_hidden(games, streams, rules, seats, draws):
    """Games (B, n) that seat seats[i] cannot tell from game i, drawn by I4 into ``draws``."""
    seen = np.zeros((MAX_PLAYERS, MAX_HOLES), np.int64)
    for i in range(len(games)):
        for k in range(draws.shape[1]):
            draws[i, k] = games[i]
            forget(draws[i, k], rules[0], seats[i], seen)
            determinise(draws[i, k], rules[0], seats[i], seen, 1, streams[i])

"""Loops over many games."""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np

from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.observe import (
    observe,
)
from alles_kaese_env.core.records import (
    DECISION,
    MAX_SLOTS,
    NUM_ACTIONS,
    OVER,
    TAKE,
)
from alles_kaese_env.core.rules import (
    apply_action,
    apply_chance,
    clear,
    legal_actions,
    lost_payoff,
    run_chance,
    sample_chance,
    write_payoffs,
)
from alles_kaese_env.core.streams import (
    random_below,
)
from alles_kaese_env.core.vector import (
    NTH_BIT,
    SET_BITS,
    spread_bits,
)


@jit
def random_action(legal, stream):
    """One of the actions whose bits are set in ``legal``, each as likely as the others."""
    slots = (legal | legal >> TAKE * MAX_SLOTS) & (1 << MAX_SLOTS) - 1
    number = SET_BITS[slots]
    kinds = 1 + np.int64(legal >> TAKE * MAX_SLOTS != 0)  # T2: peek; T5: take or discard
    ticket = random_below(stream, number * kinds)
    second = np.int64(ticket >= number)
    return (kinds - 1 + second) * MAX_SLOTS + NTH_BIT[slots, ticket - second * number]


#
# ``games`` (games,) GAME, ``streams`` (games,) STREAM, ``masks`` (games,) MASK and ``views``
# (games,) OBSERVATION lie side by side, and so do ``legal``, ``seats`` (games,) int64, ``over``,
# ``illegal``, ``terminated`` (games,) bool, ``rewards`` (games,) and ``payoffs`` (games,
# num_players) float32; ``rules`` is (1,) RULES. ``rows`` lists the games that a loop is about;
# ``actions`` and ``outcomes`` have an entry for each of them.


@jit
def deal(game, rules, stream):
    """S1: a new game, up to its first decision."""
    clear(game, rules)
    run_chance(game, rules, stream)


@jit
def inform(game, rules, seat, mask, observation):
    """The legal actions, as bits and as a mask, and what the seat knows."""
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


@jit
def deal_games(games, streams, rules, rows):
    """A new game in each row."""
    for i in rows:
        deal(games[i], rules[0], streams[i])


@jit
def clear_games(games, rules, rows):
    """An undealt game in each row; chance is up to the caller."""
    for i in rows:
        clear(games[i], rules[0])


@jit
def first_illegal(legal, rows, actions):
    """The first k where actions[k] is not among the legal ones of rows[k], -1 if there is none."""
    for k in range(len(rows)):
        action = actions[k]
        if action < 0 or action >= NUM_ACTIONS or not legal[rows[k]] >> action & 1:
            return k
    return -1


@jit
def advance_games(
    games, streams, rules, rows, actions, is_autoreset, over, payoffs, seats, legal, masks, views
):
    """Carry out legal actions, let chance happen, settle and deal anew what ended, and look."""
    for k in range(len(rows)):
        i = rows[k]
        apply_action(games[i], rules[0], actions[k])
        run_chance(games[i], rules[0], streams[i])
        settle_payoffs(games, rules[0], i, over, payoffs)
        if over[i] and is_autoreset:
            deal(games[i], rules[0], streams[i])
        seats[i] = games[i].seat
        legal[i] = inform(games[i], rules[0], seats[i], masks[i], views[i])


@jit
def inform_games(games, rules, rows, over, payoffs, seats, legal, masks, views):
    """All that `advance_games` writes, for games that seats[i] looks at as they are."""
    for i in rows:
        settle_payoffs(games, rules[0], i, over, payoffs)
        legal[i] = inform(games[i], rules[0], seats[i], masks[i], views[i])


@jit
def try_games(games, streams, rules, rows, actions, illegal):
    """Carry out actions and let chance happen; illegal[i] is set where nothing was changed."""
    for k in range(len(rows)):
        i = rows[k]
        illegal[i] = not legal_actions(games[i], rules[0]) >> actions[k] & 1
        if not illegal[i]:
            apply_action(games[i], rules[0], actions[k])
            run_chance(games[i], rules[0], streams[i])


@jit
def play_random(games, streams, rules, rows, seats):
    """Let every seat but seats[i] act at random until it is that seat's turn or the end."""
    for i in rows:
        while games[i].phase == DECISION and games[i].seat != seats[i]:
            legal = legal_actions(games[i], rules[0])
            apply_action(games[i], rules[0], random_action(legal, streams[i]))
            run_chance(games[i], rules[0], streams[i])


@jit
def reward_games(rules, rows, seats, illegal, over, payoffs, masks, rewards, terminated):
    """P5: what seat seats[i] gets for its last step in each row, and whether it was the last.

    An illegal action ends the seat's episode with the payoff of a lost game.
    """
    for i in rows:
        terminated[i] = over[i] or illegal[i]
        rewards[i] = lost_payoff(rules[0]) if illegal[i] else payoffs[i, seats[i]]
        if illegal[i]:
            spread_bits(0, masks[i].legal, NUM_ACTIONS)


@jit
def step_seats(
    games,
    streams,
    rules,
    rows,
    actions,
    illegal,
    over,
    payoffs,
    seats,
    legal,
    masks,
    views,
    rewards,
    terminated,
):
    """Let seat seats[i] of each row act, and the others at random up to its next turn."""
    try_games(games, streams, rules, rows, actions, illegal)
    play_random(games, streams, rules, rows, seats)
    inform_games(games, rules, rows, over, payoffs, seats, legal, masks, views)
    reward_games(rules, rows, seats, illegal, over, payoffs, masks, rewards, terminated)


@jit
def random_actions(legal, streams, rows, actions):
    """One of the legal actions of each row, at random; 0 where there is none."""
    for k in range(len(rows)):
        bits = legal[rows[k]]
        actions[k] = random_action(bits, streams[rows[k]]) if bits else 0


@jit
def draw_seats(streams, rules, rows, seats):
    """S3: a random seat seats[i] for each row i."""
    for i in rows:
        seats[i] = random_below(streams[i], rules[0].num_players)


@jit
def act_games(games, streams, rules, rows, actions, illegal):
    """`try_games`, but chance is up to the caller."""
    for k in range(len(rows)):
        i = rows[k]
        illegal[i] = not legal_actions(games[i], rules[0]) >> actions[k] & 1
        if not illegal[i]:
            apply_action(games[i], rules[0], actions[k])


@jit
def chance_games(games, rules, rows, outcomes):
    """Let chance have these outcomes."""
    for k in range(len(rows)):
        apply_chance(games[rows[k]], rules[0], outcomes[k])


@jit
def sample_games(games, streams, rules, rows, outcomes):
    """Draw an outcome for each row, whose phase is one of chance, and leave the game as it is."""
    for k in range(len(rows)):
        outcomes[k] = sample_chance(games[rows[k]], rules[0], streams[rows[k]])


@jit
def observe_games(games, rules, seats, views):
    """What seat seats[i] knows of each game i."""
    for i in range(len(games)):
        observe(games[i], rules[0], seats[i], views[i])

"""What a seat does not know of a game: taken out of it, and drawn anew (I4)."""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np

from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import (
    CHEESE,
    MAX_COPIES,
    MAX_HOLES,
    MAX_SLOTS,
    NUM_FACES,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.core.rules import face_of
from alles_kaese_env.core.streams import random_below


@jit
def forget(game, rules, seat, seen):
    """Leave in a game only what a seat knows (I1, I2).

    How many fronts of each hole count others know is public (T3). Into ``seen`` (MAX_PLAYERS,
    MAX_HOLES) int64 goes, for each other seat, of how many discarded cards it knows the front.
    """
    seen[:] = 0
    for face in range(NUM_FACES):
        game.drawn[face] = game.known[seat, face]
    for other in range(rules.num_players):
        if other != seat:
            forget_fronts(game, rules, other, seen[other])
    for slot in range(MAX_SLOTS):
        is_own = game.peeked[slot] >> seat & 1
        for other in range(rules.num_players):
            if other != seat and game.peeked[slot] >> other & 1:
                seen[other, np.int64(game.row[slot]) - 1] -= 1
                if is_own:
                    game.known[other, face_of(game.front[slot], game.row[slot])] += 1
        if not is_own:
            game.front[slot] = UNSEEN


@jit
def forget_fronts(game, rules, other, seen):
    """Leave of what another seat knows the fronts of the taken cards; the others go to ``seen``."""
    for face in range(NUM_FACES):
        taken = np.int64(0)
        for taker in range(rules.num_players):
            taken += np.int64(game.taken[taker, face])
        seen[face % MAX_HOLES] += np.int64(game.known[other, face]) - taken
        game.known[other, face] = taken


@jit
def determinise(game, rules, seat, seen, odds, stream):
    """Draw the fronts that others know and the seat does not, by I4, after `forget`.

    Fronts that nobody knows, backs and dice stay open: they are drawn when they are seen. For a
    discarded card that another seat knows, the odds of a trap are ``odds`` times those of I4.
    """
    for slot in range(MAX_SLOTS):
        if game.peeked[slot] != 0 and game.peeked[slot] >> seat & 1 == 0:
            game.front[slot] = draw_hidden_front(game, rules, game.row[slot], 1, stream)
            face = face_of(game.front[slot], game.row[slot])
            for other in range(rules.num_players):
                game.known[other, face] += game.peeked[slot] >> other & 1
    for h in range(MAX_HOLES):
        if seen[:, h].max() > 0:
            determinise_discards(game, rules, seat, seen, h, odds, stream)


@jit
def draw_hidden_front(game, rules, holes, odds, stream):
    """I4: a front for a card with this back whose front the seat does not know.

    The odds of a trap are multiplied by ``odds``, a whole number.
    """
    cheese, trap = face_of(CHEESE, holes), face_of(TRAP, holes)
    left = rules.fronts[cheese] - np.int64(game.drawn[cheese])
    traps = odds * (rules.fronts[trap] - np.int64(game.drawn[trap]))
    front = TRAP if random_below(stream, left + traps) >= left else CHEESE
    game.drawn[face_of(front, holes)] += 1
    return front


@jit
def determinise_discards(game, rules, seat, seen, h, odds, stream):
    """Which cards of h + 1 holes in the discard pile each other seat knows, and their fronts.

    Nobody but the one who peeked knows which they are, so every choice is as likely.
    """
    cheese, trap = face_of(CHEESE, h + 1), face_of(TRAP, h + 1)
    pile = np.int64(game.gone[h])
    own = np.array([np.int64(game.known[seat, cheese]), np.int64(game.known[seat, trap])])
    for taker in range(rules.num_players):
        for kind, face in enumerate((cheese, trap)):
            own[kind] -= game.taken[taker, face]
            pile -= game.taken[taker, face]
    for slot in range(MAX_SLOTS):
        if game.row[slot] == h + 1 and game.peeked[slot] >> seat & 1:
            own[game.front[slot] - CHEESE] -= 1
    fronts = np.zeros(MAX_COPIES, np.int64)
    fronts[: own[0]] = CHEESE
    fronts[own[0] : own[0] + own[1]] = TRAP
    for other in range(rules.num_players):
        wanted = seen[other, h]  # 0 for the seat itself
        for card in range(pile):
            if random_below(stream, pile - card) < wanted:
                wanted -= 1
                if fronts[card] == UNSEEN:
                    fronts[card] = draw_hidden_front(game, rules, h + 1, odds, stream)
                game.known[other, face_of(fronts[card], h + 1)] += 1

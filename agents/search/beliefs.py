"""What a seat believes of what others know, drawn anew for each play-out."""

from __future__ import annotations

import numpy as np

from agents.heuristics.beliefs import whole
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import CHEESE, MAX_COPIES, MAX_HOLES, MAX_SLOTS, TRAP, UNSEEN
from alles_kaese_env.core.rules import face_of
from alles_kaese_env.core.streams import random_below


@jit
def rebuild_opponents(view, rules, game, seen):
    """Complete a game of `rebuild` by what the observer knows of what opponents know (I2, T3).

    Into ``seen`` (MAX_PLAYERS, MAX_HOLES) int64 goes, for each opponent and hole count, of how
    many discarded cards it knows the front.
    """
    for seat in range(1, rules.num_players):
        for h in range(MAX_HOLES):
            public = np.int64(0)
            for face in (h, MAX_HOLES + h):
                for other in range(rules.num_players):
                    game.known[seat, face] += game.taken[other, face]
                public += np.int64(game.known[seat, face])
            seen[seat, h] = whole(view.opponent_fronts[seat - 1, h] * rules.copies[h]) - public
        for slot in range(MAX_SLOTS):
            if game.peeked[slot] >> seat & 1:
                seen[seat, np.int64(game.row[slot]) - 1] -= 1
                if game.peeked[slot] & 1:
                    game.known[seat, face_of(game.front[slot], game.row[slot])] += 1


@jit
def determinise(game, rules, seen, odds, stream):
    """Draw the fronts that opponents know and the observer does not, by I4.

    Fronts that nobody knows, backs and dice stay open: they are drawn when they are seen. For a
    discarded card that an opponent knows, the odds of a trap are ``odds`` times those of I4.
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

"""The rules of one game, in the order of the rule book (``docs/rules.md``), with its clauses.

A game is a record (`GAME`), its variant another (`RULES`). Chance is a phase: whatever nobody knows
yet, a back (CARD), the die (DIE) or a front (FRONT), is drawn at the moment that somebody sees it.

    CARD -> ... -> DIE -> DECISION -> (FRONT ->) CARD or DIE -> ... -> OVER

`apply_action` carries out a decision, `apply_chance` an outcome of chance; either goes on to the
next phase in which something has to be decided or drawn.
"""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np

from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import (
    BURN_PEEK,
    BURN_TURN,
    CARD,
    CHEESE,
    DECISION,
    DIE,
    DISCARD,
    FRONT,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NO_ACTION,
    NUM_FACES,
    OVER,
    PEEK,
    TAKE,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.core.streams import random_below
from alles_kaese_env.core.vector import NTH_BIT, equal_bytes, pack_bytes

# --- Actions and fronts ------------------------------------------------------------------


@jit
def kind_of(action):
    """PEEK, TAKE or DISCARD."""
    return np.int64(action) // MAX_SLOTS


@jit
def slot_of(action):
    """The slot that an action is about."""
    return np.int64(action) % MAX_SLOTS


@jit
def face_of(front, holes):
    """The place of a front of so many holes in the tables of NUM_FACES: cheese, then traps."""
    return (front - CHEESE) * MAX_HOLES + holes - 1


# --- S. Set-up ---------------------------------------------------------------------------


@jit
def clear(game, rules):
    """C1, S1: an empty table and all cards in the reserve, none of them visible yet."""
    game.phase = CARD
    game.seat = 0
    game.die = 0
    game.action = NO_ACTION
    game.burn_due = 0
    game.top = 0
    game.reserve = rules.num_cards
    game.turns = 0
    for k in range(MAX_SLOTS):
        game.row[k] = 0
        game.peeked[k] = 0
        game.front[k] = UNSEEN
    for h in range(MAX_HOLES):
        game.below[h] = rules.copies[h]
        game.gone[h] = 0
    for face in range(NUM_FACES):
        game.drawn[face] = 0
    for seat in range(MAX_PLAYERS):
        game.traps[seat] = 0
        game.cheese[seat] = 0
        game.points[seat] = 0
        for face in range(NUM_FACES):
            game.taken[seat, face] = 0
            game.known[seat, face] = 0


@jit
def show_top(game, rules, holes):
    """S2: the back on top of the reserve becomes visible."""
    game.top = holes
    game.below[holes - 1] -= 1
    settle_reserve(game, rules)


# --- T. A turn ---------------------------------------------------------------------------


@jit
def begin_turn(game, rules):
    """S3: it is the next seat's turn, at first that of seat 0."""
    if game.turns > 0:
        game.seat = seat_after(np.int64(game.seat), 1, rules)
    game.phase = DIE


@jit
def seat_after(seat, places, rules):
    """S3: the seat that comes so many places, num_players at most, after another one."""
    other = seat + places
    return other - rules.num_players if other >= rules.num_players else other


@jit
def roll(game, number):
    """T1: the die shows a number; the seat to move has to decide."""
    game.die = number
    game.phase = DECISION


@jit
def matching_slots(game):
    """T5: bit k is set where the card in slot k shows the number of the die."""
    return equal_bytes(pack_bytes(game.row, 0), game.die)


@jit
def legal_actions(game, rules):
    """T2, T5, T7: bit a is set where action a is legal; no bit outside a decision."""
    if game.phase != DECISION:
        return 0
    match = matching_slots(game)
    if match == 0:
        return ((1 << rules.row_size) - 1) << (PEEK * MAX_SLOTS)
    return match << (TAKE * MAX_SLOTS) | match << (DISCARD * MAX_SLOTS)


@jit
def apply_action(game, rules, action):
    """T2, T5: carry out a legal action of the seat to move, up to the next chance or decision."""
    game.action = action
    slot = slot_of(action)
    if kind_of(action) == DISCARD:  # T5b: nobody looks at its front
        leave_row(game, slot)
        end_turn(game, rules)
    elif game.front[slot] == UNSEEN:
        game.phase = FRONT
    else:
        look(game, rules)


@jit
def draw_front(game, rules, front):
    """I4: somebody looks at this front for the first time."""
    slot = slot_of(game.action)
    game.front[slot] = front
    game.drawn[face_of(front, game.row[slot])] += 1
    look(game, rules)


@jit
def look(game, rules):
    """T2, T5a: the front of the chosen card is known; the action goes on."""
    slot = slot_of(game.action)
    if kind_of(game.action) == PEEK:
        peek(game, slot)
    else:
        take(game, rules, slot)
        if game.traps[game.seat] >= rules.trap_limit:  # E1
            game.phase = OVER
            game.turns += 1
            return
    end_turn(game, rules)


@jit
def peek(game, slot):
    """T2, T3: the seat learns a front; that it peeked is public."""
    learn(game, slot, game.seat)
    game.peeked[slot] |= 1 << np.int64(game.seat)


@jit
def learn(game, slot, seat):
    """I2: a seat gets to know the front in a slot, and counts it once."""
    is_new = 1 - (game.peeked[slot] >> seat & 1)
    game.known[seat, face_of(game.front[slot], game.row[slot])] += is_new


@jit
def take(game, rules, slot):
    """T5a: everybody sees the front; the card lies before the seat."""
    for seat in range(rules.num_players):
        learn(game, slot, seat)
    seat = game.seat
    holes = game.row[slot]
    is_trap = np.uint8(game.front[slot] == TRAP)
    game.taken[seat, face_of(game.front[slot], holes)] += 1
    game.traps[seat] += is_trap
    game.cheese[seat] += 1 - is_trap
    game.points[seat] += holes * (1 - is_trap)
    leave_row(game, slot)


@jit
def leave_row(game, slot):
    """T5: the card leaves the row; its slot is empty until the reserve fills it."""
    game.gone[game.row[slot] - 1] += 1
    game.row[slot] = 0
    game.front[slot] = UNSEEN
    game.peeked[slot] = 0


# --- T4, T6, E. The end of a turn, and of the game ---------------------------------------


@jit
def end_turn(game, rules):
    """T4, T6: the slot is refilled and a card burned, or the game ends with the reserve (E2)."""
    game.turns += 1
    game.burn_due = burns(game, rules)
    settle_reserve(game, rules)


@jit
def burns(game, rules):
    """T4: whether the turn that ends costs the reserve a card."""
    if rules.burn == BURN_PEEK:
        return kind_of(game.action) == PEEK and rules.num_players <= 3
    return rules.burn == BURN_TURN


@jit
def settle_reserve(game, rules):
    """S1, T6, T4, E2: the top card goes where it is due, until one stays for the next roll."""
    while game.top != 0:
        slot = empty_slot(game, rules)
        if slot < MAX_SLOTS:
            fill_slot(game, slot)
        elif game.burn_due:
            burn_top(game)
        else:
            begin_turn(game, rules)
            return
    if game.reserve > 0:
        game.phase = CARD
    else:
        game.phase = OVER
        game.burn_due = 0


@jit
def empty_slot(game, rules):
    """T6: the first slot without a card, MAX_SLOTS if there is none."""
    empty = equal_bytes(pack_bytes(game.row, 0), 0) & (1 << rules.row_size) - 1
    return NTH_BIT[empty, 0] if empty else MAX_SLOTS


@jit
def fill_slot(game, slot):
    """S1, T6: the top card of the reserve comes into a slot; nobody has peeked at it."""
    game.row[slot] = game.top
    game.front[slot] = UNSEEN
    game.peeked[slot] = 0
    remove_top(game)


@jit
def burn_top(game):
    """T4: the top card of the reserve goes to the discard pile unseen."""
    game.gone[game.top - 1] += 1
    game.burn_due = 0
    remove_top(game)


@jit
def remove_top(game):
    """S2: the top card has left the reserve; the next one is not visible yet."""
    game.top = 0
    game.reserve -= 1


@jit
def last_mover(game, rules):
    """S3: the seat that made the last decision, once there is one."""
    if game.phase == OVER or game.phase == FRONT:
        return np.int64(game.seat)
    return seat_after(np.int64(game.seat), rules.num_players - 1, rules)


@jit
def note_last_peeks(game, rules, last_peeks):
    """Bring ``last_peeks`` up to date after a deal, or after an action and what chance did then.

    Doing it twice changes nothing.
    """
    if game.turns == 0:
        for seat in range(MAX_PLAYERS):
            last_peeks.faces[seat] = 0
            last_peeks.slots[seat] = 0
        return
    mover, slot, kind = last_mover(game, rules), slot_of(game.action), kind_of(game.action)
    last_peeks.faces[mover] = 0
    last_peeks.slots[mover] = 0
    if kind == PEEK:
        last_peeks.faces[mover] = face_of(game.front[slot], game.row[slot]) + 1
        last_peeks.slots[mover] = slot + 1
        return
    for seat in range(rules.num_players):  # the card has left the row
        if last_peeks.slots[seat] == slot + 1:
            last_peeks.slots[seat] = 0
            if kind == TAKE:
                last_peeks.faces[seat] = 0


# --- P. Points ---------------------------------------------------------------------------


@jit
def standing(game, rules, seat):
    """P1 to P3: a number that orders the seats; -1 for a seat that has lost by its traps (E1)."""
    if game.traps[seat] >= rules.trap_limit:
        return -1
    return np.int64(game.points[seat]) * 256 + np.int64(game.cheese[seat])


@jit
def winners(game, rules):
    """P2 to P4: bit s is set where seat s has won, or shares the win of, a finished game."""
    best = np.int64(-1)
    bits = 0
    for seat in range(rules.num_players):
        score = standing(game, rules, seat)
        if score > best:
            best = score
            bits = 1 << seat
        elif score == best:
            bits |= 1 << seat
    return bits


@jit
def write_payoffs(game, rules, payoffs, i):
    """P5: the payoff of every seat of a finished game, into row i."""
    players = rules.num_players
    won = winners(game, rules)
    number = 0
    for seat in range(players):
        number += won >> seat & 1
    for seat in range(players):
        if won >> seat & 1:
            payoffs[i, seat] = (players / number - 1) / (players - 1)
        else:
            payoffs[i, seat] = lost_payoff(rules)


@jit
def lost_payoff(rules):
    """P5: the payoff of a seat that has not won."""
    return -1 / (rules.num_players - 1)


# --- I. Information ----------------------------------------------------------------------


@jit
def trap_probability(game, rules, seat, slot):
    """I4: the probability that the card in a slot is a trap, as far as the seat knows."""
    if game.peeked[slot] >> seat & 1:
        return np.float64(game.front[slot] == TRAP)
    holes = game.row[slot]
    cheese, trap = face_of(CHEESE, holes), face_of(TRAP, holes)
    traps = rules.fronts[trap] - np.int64(game.known[seat, trap])
    return traps / (traps + rules.fronts[cheese] - np.int64(game.known[seat, cheese]))


# --- Chance ------------------------------------------------------------------------------


@jit
def num_chance_outcomes(game, rules):
    """How many outcomes the present chance phase has; 0 in other phases."""
    if game.phase == CARD or game.phase == DIE:
        return rules.num_holes
    return 2 if game.phase == FRONT else 0


@jit
def chance_weight(game, rules, outcome):
    """S1, T1, I4: the weight of a chance outcome, a whole number, not normalised."""
    if game.phase == CARD:
        return np.int64(game.below[outcome])
    if game.phase == DIE:
        return 1
    face = face_of(outcome + 1, game.row[slot_of(game.action)])
    return rules.fronts[face] - np.int64(game.drawn[face])


@jit
def apply_chance(game, rules, outcome):
    """Carry out an outcome of chance, which has a positive weight."""
    if game.phase == CARD:
        show_top(game, rules, outcome + 1)
    elif game.phase == DIE:
        roll(game, outcome + 1)
    else:
        draw_front(game, rules, outcome + 1)


@jit
def sample_chance(game, rules, stream):
    """Draw an outcome of the present chance phase from a stream, by its weight."""
    if game.phase == CARD:
        return sample_card(game, stream)
    if game.phase == DIE:
        return random_below(stream, rules.num_holes)
    return sample_front(game, rules, stream)


@jit
def sample_card(game, stream):
    """CARD: no card of the reserve is visible, each is as likely as the others."""
    ticket = random_below(stream, game.reserve)
    drawn = 0
    upto = 0
    for h in range(MAX_HOLES - 1):
        upto += np.int64(game.below[h])
        drawn += np.int64(ticket >= upto)
    return drawn


@jit
def sample_front(game, rules, stream):
    """FRONT: one of the fronts of this back that nobody has seen."""
    cheese, traps = chance_weight(game, rules, 0), chance_weight(game, rules, 1)
    return np.int64(random_below(stream, cheese + traps) >= cheese)


@jit
def run_chance(game, rules, stream):
    """Let chance happen until somebody has to decide or the game is over.

    A front comes first, then cards, then the die. `sample_chance` and `apply_chance` in a loop do
    the same, but processors predict their branches worse.
    """
    if game.phase == FRONT:
        draw_front(game, rules, sample_front(game, rules, stream) + 1)
    while game.phase == CARD:
        show_top(game, rules, sample_card(game, stream) + 1)
    if game.phase == DIE:
        roll(game, random_below(stream, rules.num_holes) + 1)

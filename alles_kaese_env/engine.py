"""The rules of Alles Käse!: one game, then plain loops over many.

Everything that is jitted stands in this file, because Numba renews a cached function only when
the file of that function changes. For the same reason the file takes no constant from another
one. With ``NUMBA_DISABLE_JIT=1`` all of it runs as plain Python.

Chance is a phase. A game goes from phase to phase until it waits for a decision:

========  =========================================  =======================  ==================
phase     what happens                               outcome                  weights
========  =========================================  =======================  ==================
CARD      a back becomes visible on the reserve      holes - 1                cards of that back
DIE       the seat rolls                             face - 1                 all equal
FRONT     somebody looks at a front for the first    0 cheese, 1 trap         fronts of that kind
          time                                                                still unseen
DECISION  the seat acts
OVER      the game has ended
========  =========================================  =======================  ==================

A front and a back are drawn at the moment that somebody sees them (I4), so a state holds only
what somebody knows, and no copy of a state can foresee anything.

Clause numbers (C1, T4, ...) are those of ``docs/rules.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

# --- Capacities and codes ------------------------------------------------------------------

MAX_PLAYERS = 6
MAX_OPPONENTS = MAX_PLAYERS - 1
MAX_SLOTS = 6
MAX_HOLES = 6
MAX_COPIES = 12  # points stay below 256 with every card of six hole counts cheese
NUM_FACES = 2 * MAX_HOLES  # cheese of 1 to 6 holes, then traps of 1 to 6 holes

CARD, DIE, FRONT, DECISION, OVER = range(5)  # the chance phases come before DECISION
UNSEEN, CHEESE, TRAP = range(3)
PEEK, TAKE, DISCARD = range(3)
BURN_NEVER, BURN_PEEK, BURN_TURN = range(3)

NUM_ACTIONS = 3 * MAX_SLOTS  # action = kind * MAX_SLOTS + slot
NO_ACTION = 255

RULES_VERSION = 1

IS_PLAIN_PYTHON: bool = getattr(config, "DISABLE_JIT", False)

# --- The records ---------------------------------------------------------------------------

GAME_FIELDS = (
    # field, dtype, shape, who may see it, meaning. "owner": of a card in the row, the seats that
    # peeked at it; of a table with a row for each seat, that seat.
    # The wider fields come first, so that there is no gap whose bytes mean nothing.
    ("turns", "u2", (), "all", "turns that have ended"),
    ("reserve", "u2", (), "all", "cards in the reserve, the top one included"),
    ("phase", "u1", (), "all", "CARD, DIE, FRONT, DECISION or OVER"),
    ("seat", "u1", (), "all", "whose turn it is; when OVER, whose turn ended the game"),
    ("die", "u1", (), "all", "face of the last roll, 0 before the first"),
    ("action", "u1", (), "all", "the last decision, NO_ACTION before the first"),
    ("burn_due", "u1", (), "all", "1 while a card has still to be burned in this turn"),
    ("top", "u1", (), "all", "holes on top of the reserve, 0 where no back is visible there"),
    ("row", "u1", (MAX_SLOTS,), "all", "holes of the card in each slot, 0 for none"),
    ("peeked", "u1", (MAX_SLOTS,), "all", "bit s: seat s peeked at the card in this slot"),
    ("front", "u1", (MAX_SLOTS,), "owner", "UNSEEN, CHEESE or TRAP, for the card in each slot"),
    ("below", "u1", (MAX_HOLES,), "all", "cards under the top of the reserve, by holes"),
    ("gone", "u1", (MAX_HOLES,), "all", "cards that left row and reserve, by holes"),
    ("traps", "u1", (MAX_PLAYERS,), "all", "traps taken by each seat"),
    ("cheese", "u1", (MAX_PLAYERS,), "all", "cheese cards taken by each seat"),
    ("points", "u1", (MAX_PLAYERS,), "all", "holes on these cheese cards"),
    ("taken", "u1", (MAX_PLAYERS, NUM_FACES), "all", "cards taken by each seat, by face"),
    ("known", "u1", (MAX_PLAYERS, NUM_FACES), "owner", "fronts that each seat knows, by face"),
    ("drawn", "u1", (NUM_FACES,), "nobody", "fronts that anybody has seen, by face"),
)


def record(fields: list[tuple[Any, ...]]) -> np.dtype[Any]:
    """An aligned record whose fields are attributes."""
    return np.dtype((np.record, np.dtype(fields, align=True)))


GAME = record([field[:3] for field in GAME_FIELDS])
STREAM = record([("counter", "u8")])
MASK = record([("legal", "u1", (NUM_ACTIONS,))])

RULES = record(
    [
        ("num_players", "i8"),
        ("num_holes", "i8"),  # hole counts, and so sides of the die
        ("row_size", "i8"),
        ("trap_limit", "i8"),
        ("burn", "i8"),  # BURN_NEVER, BURN_PEEK or BURN_TURN
        ("num_cards", "i8"),
        ("copies", "i8", (MAX_HOLES,)),  # cards by holes
        ("fronts", "i8", (NUM_FACES,)),  # cards by face
        ("cheese_word", "i8"),  # the same as words of bytes
        ("traps_word", "i8"),
        # What the observation multiplies its counts with, to have them end at 1.
        ("per_copy", "f4", (MAX_HOLES,)),
        ("per_card", "f4"),
        ("per_trap", "f4"),
        ("per_point", "f4"),
        ("per_cheese", "f4"),
    ]
)

LAYOUT = (
    # The fields of the observation in their order, all float32, with their shapes; their meaning
    # stands in observation.py. In a table by seat the first row is the observer and the others
    # follow in turn order; in a table by opponent the first is the next seat in turn order.
    # First what is a bit,
    ("row", (MAX_SLOTS, MAX_HOLES)),
    ("own_peeks", (MAX_SLOTS, 2)),
    ("die", (MAX_HOLES,)),
    ("match", ()),
    ("top", (MAX_HOLES,)),
    ("num_players", (MAX_OPPONENTS,)),
    ("turn", (MAX_PLAYERS,)),
    ("opponent_peeks", (MAX_SLOTS, MAX_OPPONENTS)),
    # then what is a share of something.
    ("trap_share", (MAX_HOLES,)),
    ("trap_probability", (MAX_SLOTS,)),
    ("reserve", ()),
    ("gone", (MAX_HOLES,)),
    ("known", (2, MAX_HOLES)),
    ("traps", (MAX_PLAYERS,)),
    ("points", (MAX_PLAYERS,)),
    ("cheese", (MAX_PLAYERS,)),
    ("taken", (MAX_PLAYERS, 2, MAX_HOLES)),
    ("opponent_fronts", (MAX_OPPONENTS, MAX_HOLES)),
)
OBSERVATION = record([(name, "f4", shape) for name, shape in LAYOUT])
OBSERVATION_SIZE = OBSERVATION.itemsize // 4
OBSERVATION_VERSION = 1


class CompiledFiles(FunctionCache):
    """Numba's cache on disk, but a broken file is a missing one, and so is a disk to write on."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled before, None if it is not there; then it is compiled anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # half a file, after a kill or a full disk, can raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if there is room for it."""
        with suppress(OSError):
            super().save_overload(sig, data)


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use into whatever calls it, keep the result on disk, release the GIL."""
    compiled = njit(nogil=True, error_model="numpy", forceinline=True)(function)
    if not IS_PLAIN_PYTHON:
        with suppress(RuntimeError):  # no directory can be written: each process compiles anew
            compiled._cache = CompiledFiles(function)  # type: ignore[attr-defined]
    return compiled


def jit_wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jit`, for integers that wrap around: plain Python would warn of it."""
    return np.errstate(over="ignore")(function) if IS_PLAIN_PYTHON else jit(function)


# --- Randomness: SplitMix64 (Steele, Lea and Flood 2014), one counter a game ----------------


@jit_wrapping
def next_word(stream):
    """Advance a stream; its next 64 random bits."""
    stream.counter += np.uint64(0x9E3779B97F4A7C15)
    word = stream.counter
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@jit
def random_below(stream, bound):
    """A whole number from 0 to bound - 1; its bias is below bound / 2^32."""
    return np.int64(((next_word(stream) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


# --- Actions -------------------------------------------------------------------------------


@jit
def kind_of(action):
    """PEEK, TAKE or DISCARD."""
    return np.int64(action) // MAX_SLOTS


@jit
def slot_of(action):
    """The slot that an action is about."""
    return np.int64(action) % MAX_SLOTS


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
def face_of(front, holes):
    """Where a card with this front and back is counted."""
    return (front - CHEESE) * MAX_HOLES + holes - 1


# --- Set-up and the reserve ----------------------------------------------------------------


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


@jit
def empty_slot(game, rules):
    """The first slot without a card, MAX_SLOTS if there is none."""
    empty = equal_bytes(pack_bytes(game.row, 0), 0) & (1 << rules.row_size) - 1
    return NTH_BIT[empty, 0] if empty else MAX_SLOTS


@jit
def settle_reserve(game, rules):
    """S1, T4, T6, E2: the top card goes where it is due, until one stays for the next roll."""
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
    """The top card has left the reserve; the next one is not visible yet."""
    game.top = 0
    game.reserve -= 1


# --- A turn --------------------------------------------------------------------------------


@jit
def begin_turn(game, rules):
    """S3: it is the next seat's turn, at first that of seat 0."""
    if game.turns > 0:
        game.seat = seat_after(np.int64(game.seat), 1, rules)
    game.phase = DIE


@jit
def roll(game, face):
    """T1."""
    game.die = face
    game.phase = DECISION


@jit
def apply_action(game, rules, action):
    """T2, T5: carry out a legal action of the seat to move, up to the next chance or decision."""
    game.action = action
    slot = slot_of(action)
    if kind_of(action) == DISCARD:
        discard(game, slot)
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
    """I2: a seat comes to know the front in a slot, and counts it once."""
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
def discard(game, slot):
    """T5b: the card goes to the discard pile; nobody looks at its front."""
    leave_row(game, slot)


@jit
def leave_row(game, slot):
    """The slot is empty until the reserve fills it."""
    game.gone[game.row[slot] - 1] += 1
    game.row[slot] = 0
    game.front[slot] = UNSEEN
    game.peeked[slot] = 0


@jit
def end_turn(game, rules):
    """T4, T6: the slot is refilled and a card burned, or the game ends with the reserve (E2)."""
    game.turns += 1
    game.burn_due = burns(game, rules)
    settle_reserve(game, rules)


@jit
def seat_after(seat, places, rules):
    """S3: the seat that comes so many places, num_players at most, after another one."""
    other = seat + places
    return other - rules.num_players if other >= rules.num_players else other


@jit
def burns(game, rules):
    """T4: whether the turn that ends costs the reserve a card."""
    if rules.burn == BURN_PEEK:
        return kind_of(game.action) == PEEK and rules.num_players <= 3
    return rules.burn == BURN_TURN


# --- Chance --------------------------------------------------------------------------------


@jit
def num_chance_outcomes(game, rules):
    """How many outcomes the present chance phase has; 0 outside of one."""
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
    """Let chance have a certain outcome of positive weight."""
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

    The rules let a front come first, then cards, then the die; `sample_chance` and
    `apply_chance` in a loop do the same, but their next step is harder to foresee for a processor.
    """
    if game.phase == FRONT:
        draw_front(game, rules, sample_front(game, rules, stream) + 1)
    while game.phase == CARD:
        show_top(game, rules, sample_card(game, stream) + 1)
    if game.phase == DIE:
        roll(game, random_below(stream, rules.num_holes) + 1)


# --- Points --------------------------------------------------------------------------------


@jit
def standing(game, rules, seat):
    """P1 to P3: a number that orders the seats; -1 for a seat that has lost by its traps (E1)."""
    if game.traps[seat] >= rules.trap_limit:
        return -1
    return np.int64(game.points[seat]) * 256 + np.int64(game.cheese[seat])


@jit
def write_payoffs(game, rules, payoffs, i):
    """P2 to P5: the payoff of every seat of a finished game, into row i."""
    best = -1
    winners = 0
    for seat in range(rules.num_players):
        score = standing(game, rules, seat)
        if score > best:
            best = score
            winners = 1
        elif score == best:
            winners += 1
    players = rules.num_players
    for seat in range(players):
        if standing(game, rules, seat) == best:
            payoffs[i, seat] = (players / winners - 1) / (players - 1)
        else:
            payoffs[i, seat] = lost_payoff(rules)


@jit
def lost_payoff(rules):
    """P5: what a seat gets that has not won."""
    return -1 / (rules.num_players - 1)


# --- The observation -----------------------------------------------------------------------


@jit
def observe(game, rules, seat, out):
    """I1, I2, I4: all that a seat may know, into ``out``, an OBSERVATION.

    What stands for seats beyond the number of players is left as it is: ``out`` begins as zeros.
    """
    observe_row(game, rules, seat, out)
    observe_table(game, rules, seat, out)
    observe_fronts(game, rules, seat, out)
    for place in range(rules.num_players):
        observe_seat(game, rules, seat_after(seat, place, rules), place, out)


@jit
def one_hot(number):
    """Bit number - 1, no bit for 0."""
    return (1 << np.int64(number)) >> 1


@jit
def observe_row(game, rules, seat, out):
    """I1, I2, I4, T3: the row: backs, fronts that the seat peeked at, beliefs, who else peeked."""
    backs = pack_bytes(game.row, 0)
    knows = pack_bytes(game.peeked, 0) >> seat & EACH_BYTE
    fronts = pack_bytes(game.front, 0) & knows * 255
    one_hot_bytes(backs, out.row, MAX_HOLES)
    one_hot_bytes(fronts, out.own_peeks, 2)
    bits_of_bytes(opponents_that_peeked(game, rules, seat), out.opponent_peeks, MAX_OPPONENTS)

    cheese = rules.cheese_word - pack_bytes(game.known[seat], 0)
    traps = rules.traps_word - pack_bytes(game.known[seat], MAX_HOLES)
    divide_bytes(traps, cheese + traps, out.trap_share)
    # In the row: nothing of 1 where the slot is empty, the front itself of 1 where it is known.
    chances = lookup_bytes(traps << 8, backs) & ~(knows * 255) | fronts >> 1 & EACH_BYTE
    cases = lookup_bytes(cheese + traps << 8 | 1, backs) & ~(knows * 255) | knows
    divide_bytes(chances, cases, out.trap_probability)


@jit
def opponents_that_peeked(game, rules, seat):
    """T3: for each slot, bit k is set where the opponent of place k + 1 peeked at its card."""
    peeked = pack_bytes(game.peeked, 0)
    later = peeked & ((-1 << seat + 1) & 255) * EACH_BYTE
    earlier = peeked & ((1 << seat) - 1) * EACH_BYTE
    return later >> seat + 1 | earlier << rules.num_players - 1 - seat


@jit
def observe_table(game, rules, seat, out):
    """I1: the die, the reserve, what has gone, the number of players, whose turn it is."""
    spread_bits(one_hot(game.die), out.die, MAX_HOLES)
    out.match = game.die != 0 and matching_slots(game) != 0
    spread_bits(one_hot(game.top), out.top, MAX_HOLES)
    out.reserve = np.float32(game.reserve) * rules.per_card
    scale_bytes(pack_bytes(game.gone, 0), rules.per_copy, out.gone)
    spread_bits(1 << rules.num_players - 2, out.num_players, MAX_OPPONENTS)
    place = seat_after(np.int64(game.seat), rules.num_players - seat, rules)
    spread_bits(np.int64(game.phase != OVER) << place, out.turn, MAX_PLAYERS)


@jit
def observe_fronts(game, rules, seat, out):
    """I1, I2: the fronts that the seat knows, wherever the cards are now."""
    scale_bytes(pack_bytes(game.known[seat], 0), rules.per_copy, out.known[0])
    scale_bytes(pack_bytes(game.known[seat], MAX_HOLES), rules.per_copy, out.known[1])


@jit
def observe_seat(game, rules, seat, place, out):
    """I1, T3: what everybody knows of a seat that sits ``place`` places after the observer."""
    out.traps[place] = np.float32(game.traps[seat]) * rules.per_trap
    out.points[place] = np.float32(game.points[seat]) * rules.per_point
    out.cheese[place] = np.float32(game.cheese[seat]) * rules.per_cheese
    scale_bytes(pack_bytes(game.taken[seat], 0), rules.per_copy, out.taken[place, 0])
    scale_bytes(pack_bytes(game.taken[seat], MAX_HOLES), rules.per_copy, out.taken[place, 1])
    if place > 0:
        fronts = pack_bytes(game.known[seat], 0) + pack_bytes(game.known[seat], MAX_HOLES)
        scale_bytes(fronts, rules.per_copy, out.opponent_fronts[place - 1])


# --- Random play ---------------------------------------------------------------------------

SET_BITS = np.array([bin(bits).count("1") for bits in range(1 << MAX_SLOTS)])
NTH_BIT = np.array(
    [
        ([k for k in range(MAX_SLOTS) if bits >> k & 1] + [0] * MAX_SLOTS)[:MAX_SLOTS]
        for bits in range(1 << MAX_SLOTS)
    ]
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


# --- Loops over many games -----------------------------------------------------------------
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


# --- Six bytes at a time -------------------------------------------------------------------
#
# A table of six bytes (by slot or by hole count) is packed into a 64-bit word, the first byte
# lowest, and expanded into floats by vector instructions. Left to itself the compiler writes these
# loops number by number, since it cannot see that an observation and a game never overlap. For
# each helper there is a plain loop that says what it does, which runs with NUMBA_DISABLE_JIT=1.
# The two highest bytes of a word mean nothing: they are whatever follows the table in its record.

WORD_BYTES = 6
EACH_BYTE = 0x010101010101  # times a byte: a word that repeats it
FLOATS = ir.VectorType(ir.FloatType(), WORD_BYTES)


def _bytes_of(word):
    return [int(word) >> 8 * k & 255 for k in range(WORD_BYTES)]


def _word_of(numbers):
    return sum(int(number) << 8 * k for k, number in enumerate(numbers))


def _pack_bytes(source, start):
    """The six bytes source[start], source[start + 1], ... as a word."""
    return _word_of(source[start : start + WORD_BYTES])


def _equal_bytes(word, number):
    """Bit k is set where byte k of the word is this number."""
    return sum((byte == number) << k for k, byte in enumerate(_bytes_of(word)))


def _lookup_bytes(table, word):
    """The word whose byte k is that byte of ``table`` which byte k of ``word`` counts off."""
    return _word_of(int(table) >> 8 * byte & 255 for byte in _bytes_of(word))


def _one_hot_bytes(word, target, width):
    """In row k of ``target`` (6, width), 1 at place byte k - 1 and 0 elsewhere."""
    for k, byte in enumerate(_bytes_of(word)):
        for place in range(width):
            target[k, place] = byte == place + 1


def _bits_of_bytes(word, target, width):
    """In row k of ``target`` (6, width), the lowest bits of byte k."""
    for k, byte in enumerate(_bytes_of(word)):
        for place in range(width):
            target[k, place] = byte >> place & 1


def _scale_bytes(word, scales, target):
    """target[k] = byte k of the word times scales[k]."""
    for k, byte in enumerate(_bytes_of(word)):
        target[k] = np.float32(byte) * scales[k]


def _divide_bytes(word, divisors, target):
    """target[k] = byte k of the word over byte k of the divisors, over 1 where that is 0."""
    for k, (byte, divisor) in enumerate(zip(_bytes_of(word), _bytes_of(divisors), strict=True)):
        target[k] = np.float32(byte) / np.float32(max(divisor, 1))


def _spread_bits(bits, target, count):
    """target[k] = bit k, for the first ``count`` of them."""
    for k in range(count):
        target[k] = bits >> k & 1


def _address(context, builder, kind, array, as_type):
    """The first byte of an array, as the address of something else."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(data, as_type.as_pointer())


def _lanes(builder, word, places):
    """These bytes of a word (a list of places) as a vector of bytes."""
    eight = builder.bitcast(word, ir.VectorType(ir.IntType(8), 8))
    order = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
    return builder.shuffle_vector(eight, eight, order)


def _store_bits(context, builder, kind, array, bits):
    """Write a vector of bits as 1.0 and 0.0 to the beginning of an array."""
    floats = ir.VectorType(ir.FloatType(), bits.type.count)
    one, zero = (ir.Constant(floats, [number] * floats.count) for number in (1.0, 0.0))
    address = _address(context, builder, kind, array, floats)
    builder.store(builder.select(bits, one, zero), address, align=4)


def _store_rows(context, builder, kind, array, word, patterns, test):
    """For each byte of a word, its test against each pattern, as floats, row by row."""
    places = [k for k in range(WORD_BYTES) for _ in patterns]
    lanes = _lanes(builder, word, places)
    constant = ir.Constant(lanes.type, patterns * WORD_BYTES)
    _store_bits(context, builder, kind, array, test(lanes, constant))


@intrinsic
def _pack_bytes_vector(typing, source, start):
    def generate(context, builder, signature, args):
        data = context.make_array(source)(context, builder, args[0]).data
        address = builder.gep(data, [args[1]])
        return builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()), align=1)

    return types.int64(source, types.int64), generate


@intrinsic
def _equal_bytes_vector(typing, word, number):
    def generate(context, builder, signature, args):
        lanes = _lanes(builder, args[0], list(range(WORD_BYTES)))
        repeated = builder.mul(args[1], ir.Constant(ir.IntType(64), EACH_BYTE))
        wanted = _lanes(builder, repeated, list(range(WORD_BYTES)))
        is_equal = builder.icmp_unsigned("==", lanes, wanted)
        return builder.zext(builder.bitcast(is_equal, ir.IntType(WORD_BYTES)), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _lookup_bytes_vector(typing, table, word):
    def generate(context, builder, signature, args):
        wide = ir.VectorType(ir.IntType(64), 8)
        zero = ir.Constant(ir.IntType(32), 0)
        first = builder.insert_element(ir.Constant(wide, ir.Undefined), args[0], zero)
        order = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
        tables = builder.shuffle_vector(first, first, order)
        lanes = builder.zext(_lanes(builder, args[1], list(range(8))), wide)
        shifts = builder.mul(lanes, ir.Constant(wide, [8] * 8))
        found = builder.trunc(builder.lshr(tables, shifts), ir.VectorType(ir.IntType(8), 8))
        six = ir.Constant(ir.IntType(64), 255 * EACH_BYTE)
        return builder.and_(builder.bitcast(found, ir.IntType(64)), six)

    return types.int64(types.int64, types.int64), generate


@intrinsic(prefer_literal=True)
def _one_hot_bytes_vector(typing, word, target, width):
    def generate(context, builder, signature, args):
        def is_place(lanes, places):
            return builder.icmp_unsigned("==", lanes, places)

        patterns = [place + 1 for place in range(width.literal_value)]
        _store_rows(context, builder, target, args[1], args[0], patterns, is_place)

    return types.void(types.int64, target, width), generate


@intrinsic(prefer_literal=True)
def _bits_of_bytes_vector(typing, word, target, width):
    def generate(context, builder, signature, args):
        def is_set(lanes, bits):
            return builder.icmp_unsigned("!=", builder.and_(lanes, bits), lanes.type(None))

        patterns = [1 << place for place in range(width.literal_value)]
        _store_rows(context, builder, target, args[1], args[0], patterns, is_set)

    return types.void(types.int64, target, width), generate


@intrinsic
def _scale_bytes_vector(typing, word, scales, target):
    def generate(context, builder, signature, args):
        numbers = builder.uitofp(_lanes(builder, args[0], list(range(WORD_BYTES))), FLOATS)
        factors = builder.load(_address(context, builder, scales, args[1], FLOATS), align=4)
        address = _address(context, builder, target, args[2], FLOATS)
        builder.store(builder.fmul(numbers, factors), address, align=4)

    return types.void(types.int64, scales, target), generate


@intrinsic
def _divide_bytes_vector(typing, word, divisors, target):
    def generate(context, builder, signature, args):
        above, below = (_lanes(builder, one, list(range(WORD_BYTES))) for one in args[:2])
        one = ir.Constant(below.type, [1] * WORD_BYTES)
        is_zero = builder.icmp_unsigned("==", below, below.type(None))
        below = builder.select(is_zero, one, below)
        ratio = builder.fdiv(builder.uitofp(above, FLOATS), builder.uitofp(below, FLOATS))
        builder.store(ratio, _address(context, builder, target, args[2], FLOATS), align=4)

    return types.void(types.int64, types.int64, target), generate


@intrinsic(prefer_literal=True)
def _spread_bits_vector(typing, bits, target, count):
    def generate(context, builder, signature, args):
        number = count.literal_value
        # All 64 at first: LLVM cannot spread 18 bits on processors without AVX-512.
        all_bits = builder.bitcast(args[0], ir.VectorType(ir.IntType(1), 64))
        order = ir.Constant(ir.VectorType(ir.IntType(32), number), list(range(number)))
        is_set = builder.shuffle_vector(all_bits, all_bits, order)
        if target.dtype == types.float32:
            _store_bits(context, builder, target, args[1], is_set)
        else:
            small = ir.VectorType(ir.IntType(8), number)
            address = _address(context, builder, target, args[1], small)
            builder.store(builder.zext(is_set, small), address, align=1)

    return types.void(types.int64, target, count), generate


pack_bytes: Any = _pack_bytes if IS_PLAIN_PYTHON else _pack_bytes_vector
equal_bytes: Any = _equal_bytes if IS_PLAIN_PYTHON else _equal_bytes_vector
lookup_bytes: Any = _lookup_bytes if IS_PLAIN_PYTHON else _lookup_bytes_vector
one_hot_bytes: Any = _one_hot_bytes if IS_PLAIN_PYTHON else _one_hot_bytes_vector
bits_of_bytes: Any = _bits_of_bytes if IS_PLAIN_PYTHON else _bits_of_bytes_vector
scale_bytes: Any = _scale_bytes if IS_PLAIN_PYTHON else _scale_bytes_vector
divide_bytes: Any = _divide_bytes if IS_PLAIN_PYTHON else _divide_bytes_vector
spread_bits: Any = _spread_bits if IS_PLAIN_PYTHON else _spread_bits_vector

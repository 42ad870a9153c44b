"""From the rules to sequence forms: a small game for two players, cut into subgames.

A game is cut at every turn at whose beginning both seats know the same fronts and know that they
do: from there on it is a game of its own, whose value depends on the game record alone.
However many ways lead to such a subgame, it is written once.
"""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.solve.sequence_form import (
    COUNTS,
    LEAVES,
    NODES,
    SEATS,
    SEQUENCES,
    SETS,
    Forms,
    new_forms,
)
from alles_kaese_env import Variant
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.loops import inform
from alles_kaese_env.core.records import (
    DECISION,
    DIE,
    FRONT,
    GAME,
    MAX_HOLES,
    MAX_SLOTS,
    NO_ACTION,
    NUM_ACTIONS,
    NUM_FACES,
    OVER,
    PEEK,
)
from alles_kaese_env.core.rules import (
    apply_action,
    apply_chance,
    burns,
    chance_weight,
    clear,
    face_of,
    legal_actions,
    num_chance_outcomes,
    write_payoffs,
)

BOTH = 3  # bits of the seats that peeked at a card that both know
MOST_EVENTS = 300  # of a path: a back a card, and a roll, an action and a front a turn
EVENTS = NUM_ACTIONS + 3 * MAX_HOLES  # actions, then backs, rolls and fronts
TOKENS = EVENTS * (NUM_FACES + 1)  # an event and the front that a seat learned by it, or none
OWN_SET = TOKENS  # under which the trie stores the information set of a place
ALL_TOKENS = TOKENS + 1
AT_ONCE = 256  # subgames that are counted between two reports
FIRST_ROOM = 1024  # subgames

Report = Callable[[str, float, float], None]  # what is done, how much of it, of how much


# --- Tables of whole numbers ----------------------------------------------------------------------
#
# Open addressing: (2^k, 2) int64, in each row a key above 0 and its value. They compile in a
# fraction of the time of Numba's dictionaries.


@jit
def row_of(table, key):
    """The row of a key, or the free one where it belongs."""
    mask = len(table) - 1
    at = (key ^ key >> 29) * 0x9E3779B1 >> 7 & mask
    while table[at, 0] != 0 and table[at, 0] != key:
        at = at + 1 & mask
    return at


@jit
def grown(table):
    """The same in a table of twice the size."""
    larger = np.zeros((2 * len(table), 2), np.int64)
    for row in range(len(table)):
        if table[row, 0] != 0:
            larger[row_of(larger, table[row, 0])] = table[row]
    return larger


# --- Where a game can be cut ----------------------------------------------------------------------


@jit
def is_public(game):
    """Whether both seats know the same fronts and each knows that the other does."""
    for slot in range(MAX_SLOTS):
        if game.peeked[slot] != 0 and game.peeked[slot] != BOTH:
            return False
    for face in range(NUM_FACES):
        common = np.int64(game.taken[0, face]) + np.int64(game.taken[1, face])
        for slot in range(MAX_SLOTS):
            if game.peeked[slot] == BOTH:
                common += face_of(game.front[slot], np.int64(game.row[slot])) == face
        if game.known[0, face] != common or game.known[1, face] != common:
            return False
    return True


@jit
def forget(game):
    """Forget what has no bearing on the rest of the game, at the beginning of a turn."""
    game.turns = 1
    game.action = NO_ACTION
    game.die = 0


class Roots(NamedTuple):
    """The beginnings of subgames; the first is the whole game.

    Attributes:
        games: (room,) GAME.
        as_bytes: the same, (room, size of a game) uint8.
        places: a table from their hashes to their numbers, but for the first.
        number: how many there are, (1,) int64.
    """

    games: npt.NDArray[Any]
    as_bytes: npt.NDArray[np.uint8]
    places: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]


@jit
def hash_of(game_bytes):
    """FNV-1a of the bytes of a game, in 62 bits and not 0."""
    code = np.uint64(14695981039346656037)
    for byte in game_bytes:
        code = (code ^ np.uint64(byte)) * np.uint64(1099511628211)
    return np.int64(code >> np.uint64(2)) | 1


@jit
def is_same(one, other):
    """Whether two rows of bytes are equal."""
    same = len(one) == len(other)
    for k in range(len(one)):
        same &= one[k] == other[k]
    return same


@jit
def find_root(walk, depth, roots):
    """The number of the subgame that begins at a node; -1 if it is new and there is no room."""
    game_bytes = walk.as_bytes[depth]
    key = hash_of(game_bytes)
    row = row_of(roots.places, key)
    while roots.places[row, 0] != 0:
        if is_same(roots.as_bytes[roots.places[row, 1]], game_bytes):
            return roots.places[row, 1]
        key += 2
        row = row_of(roots.places, key)
    number = roots.number[0]
    if number == len(roots.games):
        return -1
    roots.games[number] = walk.games[depth]
    roots.places[row, 0] = key
    roots.places[row, 1] = number
    roots.number[0] += 1
    return number


# --- One subgame ----------------------------------------------------------------------------------


class Walk(NamedTuple):
    """The path from the beginning of a subgame to a node, by depth.

    Attributes:
        games: (depth,) GAME.
        as_bytes: the same, (depth, size of a game) uint8.
        places: in the trie of all that a seat saw, by seat, (depth, 2).
        sequences: with which the node is reached, by seat, (depth, 2).
        chances: with which the node is reached, (depth,).
        outcomes: the action or outcome of chance to be tried next, (depth,).
        next_sequences: of the seat to move, for the action to be tried next, (depth,).
        num_places: in the trie, (1,).
        payoffs: of the end of a game, (1, 2).
    """

    games: npt.NDArray[Any]
    as_bytes: npt.NDArray[np.uint8]
    places: npt.NDArray[np.int64]
    sequences: npt.NDArray[np.int64]
    chances: npt.NDArray[np.float64]
    outcomes: npt.NDArray[np.int64]
    next_sequences: npt.NDArray[np.int64]
    num_places: npt.NDArray[np.int64]
    payoffs: npt.NDArray[np.float64]


class Written(NamedTuple):
    """Subgames as sequence forms, one after the other.

    Attributes:
        forms: without room for leaves they are only counted.
        set_games: a game in which the seat to move knows just this, for each information set,
            (2, sets) GAME; (2, 0) where nobody asks for it.
        starts: where each subgame begins, (subgames + 1, COUNTS).
    """

    forms: Forms
    set_games: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]


def new_walk() -> Walk:
    """An empty path."""
    games, pairs = np.zeros(MOST_EVENTS, GAME), (MOST_EVENTS, SEATS)
    return Walk(
        games,
        bytes_of(games),
        np.zeros(pairs, np.int64),
        np.zeros(pairs, np.int64),
        np.zeros(MOST_EVENTS),
        np.zeros(MOST_EVENTS, np.int64),
        np.zeros(MOST_EVENTS, np.int64),
        np.zeros(1, np.int64),
        np.zeros((1, SEATS)),
    )


def bytes_of(games: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of games, (n, size of a game)."""
    return games.view(np.uint8).reshape(len(games), -1)


@jit
def begin(walk, root, counts):
    """Go to the beginning of a subgame."""
    walk.games[0] = root
    walk.chances[0] = 1
    walk.outcomes[0] = 0
    walk.num_places[0] = SEATS
    for seat in range(SEATS):
        walk.places[0, seat] = seat
        walk.sequences[0, seat] = 0
        counts[SEQUENCES + seat] += 1


@jit
def learned_by(before, after, seat):
    """The face of the front that a seat came to know, counted from 1; 0 for none."""
    for face in range(NUM_FACES):
        if after.known[seat, face] != before.known[seat, face]:
            return face + 1
    return 0


@jit
def place_after(trie, walk, place, token):
    """Where in the trie a seat is that saw one thing more."""
    key = place * ALL_TOKENS + token + 1
    row = row_of(trie, key)
    if trie[row, 0] == 0:
        trie[row, 0] = key
        trie[row, 1] = walk.num_places[0]
        walk.num_places[0] += 1
    return trie[row, 1]


@jit
def choices_of(game, rules):
    """How many actions or outcomes are numbered at a node, and which are possible, as bits."""
    if game.phase == DECISION:
        return NUM_ACTIONS, legal_actions(game, rules)
    number = num_chance_outcomes(game, rules)
    bits: Any = 0
    for outcome in range(number):
        bits |= np.int64(chance_weight(game, rules, outcome) > 0) << outcome
    return number, bits


@jit
def chance_of(game, rules, outcome):
    """The probability of an outcome of chance."""
    total = 0
    for other in range(num_chance_outcomes(game, rules)):
        total += chance_weight(game, rules, other)
    return chance_weight(game, rules, outcome) / total


@jit
def descend(walk, rules, depth, outcome, trie):
    """Go on from a node by an action or an outcome of chance."""
    game, after = walk.games[depth], walk.games[depth + 1]
    walk.games[depth + 1] = game
    walk.chances[depth + 1] = walk.chances[depth]
    walk.outcomes[depth + 1] = 0
    for seat in range(SEATS):
        walk.sequences[depth + 1, seat] = walk.sequences[depth, seat]
    event = outcome
    if game.phase == DECISION:
        walk.sequences[depth + 1, game.seat] = walk.next_sequences[depth]
        walk.next_sequences[depth] += 1
        apply_action(after, rules, outcome)
    else:
        event = NUM_ACTIONS + MAX_HOLES * np.int64(game.phase)
        if game.phase != FRONT:  # what a front shows stands in what seats learn
            event += outcome
        walk.chances[depth + 1] *= chance_of(game, rules, outcome)
        apply_chance(after, rules, outcome)
    for seat in range(SEATS):
        token = event * (NUM_FACES + 1) + learned_by(game, after, seat)
        place = place_after(trie, walk, walk.places[depth, seat], token)
        walk.places[depth + 1, seat] = place


@jit
def write_leaf(forms, counts, walk, depth, link, payoff):
    """Count a leaf, and write it where there is room."""
    at = counts[LEAVES]
    counts[LEAVES] += 1
    if len(forms.leaf_links) > 0:
        for seat in range(SEATS):
            forms.leaf_sequences[seat, at] = walk.sequences[depth, seat]
        forms.leaf_links[at] = link
        forms.leaf_weights[at] = walk.chances[depth] * payoff


@jit
def write_set(written, counts, walk, depth, first, size):
    """Count an information set, and write it where there is room."""
    forms, set_games = written.forms, written.set_games
    seat = np.int64(walk.games[depth].seat)
    at = counts[SETS + seat]
    counts[SETS + seat] += 1
    counts[SEQUENCES + seat] += size
    if len(forms.leaf_links) > 0:
        forms.set_parents[seat, at] = walk.sequences[depth, seat]
        forms.set_firsts[seat, at] = first
        forms.set_sizes[seat, at] = size
    if set_games.shape[1] > 0:
        set_games[seat, at] = walk.games[depth]


@jit
def enter_set(written, k, walk, depth, rules, trie):
    """Come to a decision of subgame k: find its information set or begin one."""
    game = walk.games[depth]
    seat = np.int64(game.seat)
    key = walk.places[depth, seat] * ALL_TOKENS + OWN_SET + 1
    row = row_of(trie, key)
    if trie[row, 0] == 0:
        counts = written.starts[k + 1]
        first = counts[SEQUENCES + seat] - written.starts[k, SEQUENCES + seat]
        trie[row, 0] = key
        trie[row, 1] = first
        bits = legal_actions(game, rules)
        size = 0
        for action in range(NUM_ACTIONS):
            size += bits >> action & 1
        write_set(written, counts, walk, depth, first, size)
    walk.next_sequences[depth] = trie[row, 1]


@jit
def enter_node(roots, written, k, walk, depth, rules, trie):
    """Come to a node of subgame k; returns whether a later subgame begins there.

    -1 stands for a new subgame for which there is no room.
    """
    game, counts = walk.games[depth], written.starts[k + 1]
    if depth > 0 and game.phase == DIE and is_public(game):
        forget(game)
        link = find_root(walk, depth, roots)
        if link < 0:
            return -1
        write_leaf(written.forms, counts, walk, depth, link, 1.0)
        return 1
    counts[NODES] += 1
    if game.phase == OVER:
        write_payoffs(game, rules, walk.payoffs, 0)
        write_leaf(written.forms, counts, walk, depth, -1, walk.payoffs[0, 0])
    elif game.phase == DECISION:
        enter_set(written, k, walk, depth, rules, trie)
    return 0


@jit
def write_subgame(roots, written, k, walk, rules):
    """Write subgame k, whose root is the first of the walk; False if there is no room for a root.

    The subgames that follow it are added to the roots.
    """
    trie = np.zeros((64, 2), np.int64)
    counts = written.starts[k + 1]
    depth = np.int64(0)
    while depth >= 0:
        if walk.outcomes[depth] == 0:
            entered = enter_node(roots, written, k, walk, depth, rules, trie)
            if entered < 0:
                return False
            if entered > 0:
                depth -= 1
                continue
        choices, possible = choices_of(walk.games[depth], rules)
        outcome = walk.outcomes[depth]
        while outcome < choices and not possible >> outcome & 1:
            outcome += 1
        walk.outcomes[depth] = outcome + 1
        if outcome < choices:
            descend(walk, rules, depth, outcome, trie)
            depth += 1
            if 2 * (walk.num_places[0] + counts[SETS] + counts[SETS + 1]) > len(trie) - 8:
                trie = grown(trie)
        else:
            depth -= 1
    return True


@jit
def write_subgames(which, rules, roots, written, walk):
    """Write the subgames of these numbers, or count them; returns for how many there was room."""
    starts = written.starts
    for k in range(len(which)):
        starts[k + 1] = starts[k]
        begin(walk, roots.games[which[k]], starts[k + 1])
        if not write_subgame(roots, written, k, walk, rules):
            return k
    return len(which)


@jit
def inform_movers(games, rules, masks, views):
    """What the seat to move of each game sees and may do."""
    for i in range(len(games)):
        inform(games[i], rules, np.int64(games[i].seat), masks[i], views[i])


# --- All of them ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subgames:
    """The subgames that a game is cut into; the first is the whole game.

    Attributes:
        variant: the rules.
        roots: their beginnings.
        sizes: what they hold, (subgames, COUNTS).
    """

    variant: Variant
    roots: Roots
    sizes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sizes)

    @staticmethod
    def of(variant: Variant, report: Report) -> Subgames:
        """Find and count all of them.

        Raises:
            ValueError: the variant has not two players, or its games have no bound.
        """
        check(variant)
        roots = new_roots(np.zeros(FIRST_ROOM, GAME), np.zeros((4 * FIRST_ROOM, 2), np.int64), 1)
        clear(roots.games[0], variant.rules[0])
        sizes = np.zeros((FIRST_ROOM, COUNTS), np.int64)
        nothing, no_games = new_forms(np.zeros(COUNTS, np.int64)), np.zeros((SEATS, 0), GAME)
        walk, done = new_walk(), 0
        while done < roots.number[0]:
            which = np.arange(done, min(done + AT_ONCE, roots.number[0]))
            starts = np.zeros((len(which) + 1, COUNTS), np.int64)
            written = Written(nothing, no_games, starts)
            counted = write_subgames(which, variant.rules[0], roots, written, walk)
            sizes[done : done + counted] = np.diff(starts[: counted + 1], axis=0)
            done += counted
            report("finding subgames", done, int(roots.number[0]))
            if counted < len(which):
                sizes = doubled(sizes)
                roots = new_roots(doubled(roots.games), grown(roots.places), roots.number[0])
        return Subgames(variant, roots, sizes[:done].copy())

    def levels(self, leaves_at_once: int) -> Iterator[list[npt.NDArray[np.int64]]]:
        """Levels of subgames, which depend on those of earlier levels alone, in parts.

        Every turn uses a card of the reserve (E3), so what follows has a smaller reserve.
        """
        reserves = self.roots.games["reserve"][: len(self)]
        for reserve in np.unique(reserves):
            level = np.flatnonzero(reserves == reserve)
            parts = np.cumsum(self.sizes[level, LEAVES]) // leaves_at_once
            yield np.split(level, np.flatnonzero(np.diff(parts)) + 1)

    def write(self, which: npt.NDArray[np.int64], with_games: bool) -> Written:
        """The sequence forms of some subgames, with a game of each information set or without."""
        forms = new_forms(self.sizes[which].sum(axis=0))
        set_games = np.zeros((SEATS, forms.set_sizes.shape[1] if with_games else 0), GAME)
        written = Written(forms, set_games, np.zeros((len(which) + 1, COUNTS), np.int64))
        write_subgames(which, self.variant.rules[0], self.roots, written, new_walk())
        return written


def check(variant: Variant) -> None:
    """Raise `ValueError` if the games of a variant cannot be solved here."""
    if variant.num_players != SEATS:
        raise ValueError(f"num_players is {variant.num_players}; allowed: {SEATS}")
    game = np.zeros(1, GAME)[0]
    game.action = PEEK * MAX_SLOTS
    if not burns(game, variant.rules[0]):
        raise ValueError(
            f"burn is {variant.burn!r}; allowed: 'peek', 'turn', since a game has no bound where "
            "a peek burns no card (E3)"
        )


def new_roots(games: npt.NDArray[Any], places: npt.NDArray[np.int64], number: int) -> Roots:
    """Roots in these arrays."""
    return Roots(games, bytes_of(games), places, np.array([number], np.int64))


def doubled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array with as much room again."""
    return np.concatenate([array, np.zeros_like(array)])

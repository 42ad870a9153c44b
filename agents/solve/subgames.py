"""From the rules to sequence forms: a small game for two players, cut into subgames.

A game is cut at every turn at whose beginning both seats know the same fronts and know that they
do: from there on it is a game of its own, whose value depends on the game record alone.
However many ways lead to such a subgame, it is written once.

Subgames, and what a seat has seen before a decision, are told apart by 64 bits of a hash. Among
ten million of them, two share one with a probability of 3 in a million.
"""

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
from alles_kaese_env.core import rules as game_rules
from alles_kaese_env.core.jit import jit, jit_wrapping
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
    record,
)

BOTH = 3  # bits of the seats that peeked at a card that both know
MAX_DEPTH = 300  # events of a path: a back a card, and a roll, an action and a front a turn
AT_ONCE = 256  # subgames that are counted between two reports
FIRST_CAPACITY = 1024  # of subgames

Report = Callable[[str, float, float], None]  # what is done, how much of it, of how much


# --- Tables ---------------------------------------------------------------------------------------
#
# Open addressing: (2^k, 2) int64, in each row a hash, which is not 0, and its value. They compile
# in a fraction of the time of Numba's dictionaries.


@jit_wrapping
def mixed(code, number):
    """A hash (uint64) of another one and a number."""
    word = (code ^ np.uint64(number)) * np.uint64(0x9E3779B97F4A7C15)
    return word ^ word >> np.uint64(32)


@jit
def row_of(table, key):
    """The row of a key, or the free one where it belongs."""
    at = key & len(table) - 1
    while table[at, 0] != 0 and table[at, 0] != key:
        at = at + 1 & len(table) - 1
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
                common += game_rules.face_of(game.front[slot], np.int64(game.row[slot])) == face
        if game.known[0, face] != common or game.known[1, face] != common:
            return False
    return True


class Roots(NamedTuple):
    """The beginnings of subgames; the first is the whole game.

    Attributes:
        games: (capacity,) GAME.
        table: from their hashes to their numbers, but for the first.
        number: how many there are, (1,) int64.
    """

    games: npt.NDArray[Any]
    table: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]


@jit
def find_root(walk, depth, roots):
    """The number of the subgame that begins at a node; -1 if it is new and the roots are full."""
    game = walk.games[depth]
    game.turns, game.action, game.die = 1, NO_ACTION, 0  # no bearing on the rest of the game
    code = np.uint64(1)
    for byte in walk.as_bytes[depth]:
        code = mixed(code, byte)
    row = row_of(roots.table, np.int64(code))
    if roots.table[row, 0] == 0:
        number = roots.number[0]
        if number == len(roots.games):
            return -1
        roots.games[number] = game
        roots.table[row, 0], roots.table[row, 1] = np.int64(code), number
        roots.number[0] += 1
    return roots.table[row, 1]


# --- One subgame ----------------------------------------------------------------------------------

NODE = record(
    [
        ("histories", "u8", (SEATS,)),  # a hash of all that each seat saw
        ("sequences", "i8", (SEATS,)),  # with which it is reached, by seat
        ("chance", "f8"),  # with which it is reached
        ("outcome", "i8"),  # the action or outcome of chance to be tried next
        ("next_sequence", "i8"),  # of the seat to move, for that action
    ]
)


class Walk(NamedTuple):
    """The path from the beginning of a subgame to a node.

    Attributes:
        games: (MAX_DEPTH,) GAME.
        as_bytes: the same, (MAX_DEPTH, size of a game) uint8.
        nodes: (MAX_DEPTH,) NODE.
    """

    games: npt.NDArray[Any]
    as_bytes: npt.NDArray[np.uint8]
    nodes: npt.NDArray[Any]


class Written(NamedTuple):
    """Subgames as sequence forms, one after the other.

    Attributes:
        forms: if they are of no size, everything is only counted.
        set_games: a game in which the seat to move knows just this, for each information set,
            (2, sets) GAME; (2, 0) where nobody asks for it.
        starts: where each subgame begins, (subgames + 1, COUNTS).
    """

    forms: Forms
    set_games: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]


def new_walk() -> Walk:
    """An empty path."""
    games = np.zeros(MAX_DEPTH, GAME)
    return Walk(games, games.view(np.uint8).reshape(MAX_DEPTH, -1), np.zeros(MAX_DEPTH, NODE))


@jit
def learned_by(before, after, seat):
    """The face of the front that a seat came to know, counted from 1; 0 for none."""
    for face in range(NUM_FACES):
        if after.known[seat, face] != before.known[seat, face]:
            return face + 1
    return 0


@jit
def choices_of(game, rules):
    """How many actions or outcomes are numbered at a node, and which are possible, as bits."""
    if game.phase == DECISION:
        return NUM_ACTIONS, game_rules.legal_actions(game, rules)
    number = game_rules.num_chance_outcomes(game, rules)
    bits: Any = 0
    for outcome in range(number):
        bits |= np.int64(game_rules.chance_weight(game, rules, outcome) > 0) << outcome
    return number, bits


@jit
def chance_of(game, rules, outcome):
    """The probability of an outcome of chance."""
    total = 0
    for other in range(game_rules.num_chance_outcomes(game, rules)):
        total += game_rules.chance_weight(game, rules, other)
    return game_rules.chance_weight(game, rules, outcome) / total


@jit
def descend(walk, rules, depth):
    """Go on from a node by the action or outcome of chance that is next."""
    walk.games[depth + 1] = walk.games[depth]
    walk.nodes[depth + 1] = walk.nodes[depth]
    game, node = walk.games[depth], walk.nodes[depth]
    after, below = walk.games[depth + 1], walk.nodes[depth + 1]
    event = node.outcome
    if game.phase == DECISION:
        below.sequences[game.seat] = node.next_sequence
        node.next_sequence += 1
        game_rules.apply_action(after, rules, node.outcome)
    else:
        below.chance *= chance_of(game, rules, node.outcome)
        event = NUM_ACTIONS + MAX_HOLES * np.int64(game.phase)
        if game.phase != FRONT:  # what a front shows stands in what seats learn
            event += node.outcome
        game_rules.apply_chance(after, rules, node.outcome)
    for seat in range(SEATS):
        token = event * (NUM_FACES + 1) + learned_by(game, after, seat)
        below.histories[seat] = mixed(node.histories[seat], token)
    node.outcome += 1
    below.outcome = 0


@jit
def write_leaf(forms, counts, node, link, payoff):
    """Count a leaf, and write it where there are arrays for it."""
    at = counts[LEAVES]
    counts[LEAVES] += 1
    if len(forms.leaf_links) > 0:
        for seat in range(SEATS):
            forms.leaf_sequences[seat, at] = node.sequences[seat]
        forms.leaf_links[at] = link
        forms.leaf_weights[at] = node.chance * payoff


@jit
def enter_set(written, k, game, node, rules, table):
    """Come to a decision of subgame k: find its information set or begin one."""
    forms, counts, seat = written.forms, written.starts[k + 1], np.int64(game.seat)
    key = np.int64(node.histories[seat])
    row = row_of(table, key)
    if table[row, 0] == 0:
        first = counts[SEQUENCES + seat] - written.starts[k, SEQUENCES + seat]
        table[row, 0], table[row, 1] = key, first
        at, legal = counts[SETS + seat], game_rules.legal_actions(game, rules)
        counts[SETS + seat] += 1
        for action in range(NUM_ACTIONS):
            counts[SEQUENCES + seat] += legal >> action & 1
        if len(forms.leaf_links) > 0:
            last = counts[SEQUENCES + seat] - written.starts[k, SEQUENCES + seat]
            forms.set_parents[seat, at] = node.sequences[seat]
            forms.set_firsts[seat, at] = first
            forms.set_sizes[seat, at] = last - first
        if written.set_games.shape[1] > 0:
            written.set_games[seat, at] = game
    node.next_sequence = table[row, 1]


@jit
def enter_node(roots, written, k, walk, depth, rules, table):
    """Come to a node of subgame k; False if a subgame begins there and the roots are full."""
    game, node, counts = walk.games[depth], walk.nodes[depth], written.starts[k + 1]
    if depth > 0 and game.phase == DIE and is_public(game):
        link = find_root(walk, depth, roots)
        write_leaf(written.forms, counts, node, link, 1.0)
        node.outcome = NUM_ACTIONS  # nothing is tried here
        return link >= 0
    counts[NODES] += 1
    if game.phase == OVER:
        payoffs = np.zeros((1, SEATS))
        game_rules.write_payoffs(game, rules, payoffs, 0)
        write_leaf(written.forms, counts, node, -1, payoffs[0, 0])
    elif game.phase == DECISION:
        enter_set(written, k, game, node, rules, table)
    return True


@jit
def write_subgame(roots, written, k, walk, rules):
    """Write subgame k, which begins with the first game of the walk; False if the roots are full.

    The subgames that follow it are added to the roots.
    """
    table = np.zeros((64, 2), np.int64)
    start, counts = written.starts[k], written.starts[k + 1]
    counts[:] = start
    node = walk.nodes[0]
    node.chance, node.outcome = 1, 0
    for seat in range(SEATS):
        node.histories[seat], node.sequences[seat] = seat + 1, 0
        counts[SEQUENCES + seat] += 1
    depth = np.int64(0)
    while depth >= 0:
        game, node = walk.games[depth], walk.nodes[depth]
        if node.outcome == 0 and not enter_node(roots, written, k, walk, depth, rules, table):
            return False
        if 2 * (counts[SETS] + counts[SETS + 1] - start[SETS] - start[SETS + 1]) > len(table) - 8:
            table = grown(table)
        choices, possible = choices_of(game, rules)
        while node.outcome < choices and not possible >> node.outcome & 1:
            node.outcome += 1
        if node.outcome < choices:
            descend(walk, rules, depth)
            depth += 1
        else:
            depth -= 1
    return True


@jit
def write_subgames(which, rules, roots, written, walk):
    """Write the subgames of these numbers, or count them; returns how many until roots are full."""
    for k in range(len(which)):
        walk.games[0] = roots.games[which[k]]
        if not write_subgame(roots, written, k, walk, rules):
            return k
    return len(which)


@jit
def inform_movers(games, rules, masks, views, words, codes):
    """What the seat to move of each game sees and may do, and a hash of what it sees.

    ``words`` (B, 253) uint32 are the observations that ``views`` write.
    """
    for i in range(len(games)):
        inform(games[i], rules, np.int64(games[i].seat), masks[i], views[i])
        code = np.uint64(1)
        for word in words[i]:
            code = mixed(code, word)
        codes[i] = code


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
        games, table = np.zeros(FIRST_CAPACITY, GAME), np.zeros((4 * FIRST_CAPACITY, 2), np.int64)
        roots = Roots(games, table, np.ones(1, np.int64))
        game_rules.clear(games[0], variant.rules[0])
        nothing, no_games = new_forms(np.zeros(COUNTS, np.int64)), np.zeros((SEATS, 0), GAME)
        walk, done, sizes = new_walk(), 0, []
        while done < roots.number[0]:
            which = np.arange(done, min(done + AT_ONCE, roots.number[0]), dtype=np.int64)
            starts = np.zeros((len(which) + 1, COUNTS), np.int64)
            written = Written(nothing, no_games, starts)
            counted = write_subgames(which, variant.rules[0], roots, written, walk)
            sizes.append(np.diff(starts[: counted + 1], axis=0))
            done += counted
            report("finding subgames", done, int(roots.number[0]))
            if counted < len(which):
                games = np.concatenate([roots.games, np.zeros_like(roots.games)])
                roots = Roots(games, grown(roots.table), roots.number)
        return Subgames(variant, roots, np.concatenate(sizes))

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
    if variant.burn == "never":
        raise ValueError(
            f"burn is {variant.burn!r}; allowed: 'peek', 'turn', since a game has no bound where "
            "a peek burns no card (E3)"
        )

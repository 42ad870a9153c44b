"""The reference next to the core: what it expects of records and observations, ply by ply."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from builders import KIND_NAMES, KINDS, shuffled

from alles_kaese_env import OBSERVATION, Variant
from alles_kaese_env.core.records import (
    CHEESE,
    DECISION,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NO_ACTION,
    NUM_ACTIONS,
    OVER,
    PEEK,
    TRAP,
    UNSEEN,
)
from reference.game import ReferenceGame

NO_CARDS = [0] * (2 * MAX_HOLES)
MANY_ROLLS = 700  # a game of 4 to 6 players has no bound (E3)


class Reference(ReferenceGame):
    """The reference for a variant; it keeps what it has counted until the next turn."""

    def __init__(self, variant, deck, dice):
        super().__init__(
            deck,
            dice,
            num_players=variant.num_players,
            row_size=variant.row_size,
            trap_limit=variant.trap_limit,
            burn=variant.burn,
        )
        self.variant = variant
        self.last_action = None
        self._counted = {}

    def play_action(self, action):
        """A turn by the number of its action."""
        kind, slot = divmod(int(action), MAX_SLOTS)
        self.play(KIND_NAMES[kind], slot)
        self.last_action = int(action)
        self._counted.clear()

    def _once_a_turn(self, what, count):
        if what not in self._counted:
            self._counted[what] = count()
        return self._counted[what]

    def known_counts(self, seat):
        return self._once_a_turn(("known", seat), lambda: ReferenceGame.known_counts(self, seat))

    def known_ids(self, seat):
        return self._once_a_turn(("ids", seat), lambda: ReferenceGame.known_ids(self, seat))

    def seats(self):
        """For each seat its traps, points, cheese cards, and cards by face."""
        return self._once_a_turn("seats", self._count_seats)

    def _count_seats(self):
        return [
            (self.traps(seat), self.points(seat), self.cheese_cards(seat), self._taken_table(seat))
            for seat in range(self.num_players)
        ]

    @property
    def last_die(self):
        """The die of this turn; of the last one when the game is over."""
        return self.dice[self.turns - 1] if self.over else self.die

    def mask(self):
        """The legal actions as a list of 18 bools."""
        legal = {KINDS[kind] * MAX_SLOTS + slot for kind, slot in self.legal_actions()}
        return [action in legal for action in range(NUM_ACTIONS)]

    def holes_in_row(self):
        """The backs in the row, padded to six slots, 0 for none."""
        return _padded([card.holes if card else 0 for card in self.row], MAX_SLOTS)

    def known_table(self, seat):
        """The fronts that a seat knows: cheese by holes, then traps by holes."""
        cheese, traps = self.known_counts(seat)
        return _padded(cheese, MAX_HOLES) + _padded(traps, MAX_HOLES)

    def _taken_table(self, seat):
        table = [0] * (2 * MAX_HOLES)
        for card in self.taken[seat]:
            table[card.is_trap * MAX_HOLES + card.holes - 1] += 1
        return table


def _padded(numbers, size):
    return [*numbers, *[0] * (size - len(numbers))]


# --- What the reference expects --------------------------------------------------------------


def expected_record(game: Reference) -> dict[str, Any]:
    """The fields of the record of a game that waits for a decision or is over.

    `burn_due` is left out: it matters only while chance is at work.
    """
    players = game.num_players
    reserve = game.reserve
    below = [0] * MAX_HOLES
    for card in reserve[1:]:
        below[card.holes - 1] += 1
    seen = set().union(*(game.known_ids(seat) for seat in range(players)))
    drawn = [0] * (2 * MAX_HOLES)
    for card in (game.cards[card_id] for card_id in seen):
        drawn[card.is_trap * MAX_HOLES + card.holes - 1] += 1
    peekers = [game.slot_peekers(slot) for slot in range(len(game.row))]
    peekers += [frozenset()] * (MAX_SLOTS - len(game.row))
    seats = game.seats() + [(0, 0, 0, NO_CARDS)] * (MAX_PLAYERS - players)
    return {
        "phase": OVER if game.over else DECISION,
        "seat": (game.turns - 1 if game.over else game.turns) % players,
        "die": game.last_die,
        "action": NO_ACTION if game.last_action is None else game.last_action,
        "top": reserve[0].holes if reserve else 0,
        "reserve": len(reserve),
        "turns": game.turns,
        "row": game.holes_in_row(),
        "peeked": [sum(1 << seat for seat in who) for who in peekers],
        "front": [
            (TRAP if game.row[slot].is_trap else CHEESE) if who else UNSEEN
            for slot, who in enumerate(peekers)
        ],
        "below": below,
        "gone": _padded(game.gone, MAX_HOLES),
        "traps": [seat[0] for seat in seats],
        "points": [seat[1] for seat in seats],
        "cheese": [seat[2] for seat in seats],
        "taken": [seat[3] for seat in seats],
        "known": [game.known_table(seat) for seat in range(players)]
        + [NO_CARDS] * (MAX_PLAYERS - players),
        "drawn": drawn,
    }


def expected_observation(game: Reference, observer: int) -> dict[str, list[float]]:
    """Every number that a seat may be told, by the names and meanings of the layout."""
    variant, players = game.variant, game.num_players
    order = [(observer + place) % players for place in range(players)]
    seats = [game.seats()[seat] for seat in order] + [(0, 0, 0, NO_CARDS)] * (MAX_PLAYERS - players)
    holes = game.holes_in_row()
    row = game.row + [None] * (MAX_SLOTS - len(game.row))
    peekers = [game.slot_peekers(slot) for slot in range(len(game.row))]
    peekers += [frozenset()] * (MAX_SLOTS - len(game.row))
    copies, traps = _padded(variant.copies, MAX_HOLES), _padded(variant.traps, MAX_HOLES)
    known = game.known_table(observer)
    unknown = [a - b - c for a, b, c in zip(copies, known[:6], known[6:], strict=True)]
    traps_left = [a - b for a, b in zip(traps, known[6:], strict=True)]
    others = [game.known_table(seat) for seat in order[1:]]
    others += [NO_CARDS] * (MAX_PLAYERS - players)
    all_points = sum(holes for holes, is_trap in variant.deck if not is_trap)
    place = None if game.over else order.index(game.seat)
    return {
        "row": [float(h == number) for h in holes for number in range(1, 7)],
        "own_peeks": [
            float(observer in who and card.is_trap == kind)
            for who, card in zip(peekers, row, strict=True)
            for kind in (False, True)
        ],
        "die": [float(game.last_die == number) for number in range(1, 7)],
        "match": [float(game.last_die in holes)],
        "top": [float(_top(game) == number) for number in range(1, 7)],
        "num_players": [float(players == number) for number in range(2, 7)],
        "turn": [float(place == number) for number in range(MAX_PLAYERS)],
        "opponent_peeks": [
            float(number < players and order[number] in who)
            for who in peekers
            for number in range(1, MAX_PLAYERS)
        ],
        "trap_share": [a / b if b else 0.0 for a, b in zip(traps_left, unknown, strict=True)],
        "trap_probability": [
            float(game.trap_probability(observer, slot)) if card else 0.0
            for slot, card in enumerate(row)
        ],
        "reserve": [len(game.reserve_ids) / len(game.cards)],
        "gone": _shares(_padded(game.gone, MAX_HOLES), copies),
        "known": _shares(known, copies * 2),
        "traps": [seat[0] / variant.trap_limit for seat in seats],
        "points": [seat[1] / all_points for seat in seats],
        "cheese": [seat[2] / (sum(copies) - sum(traps)) for seat in seats],
        "taken": [share for seat in seats for share in _shares(seat[3], copies * 2)],
        "opponent_fronts": [
            share
            for table in others
            for share in _shares(map(sum, zip(table[:6], table[6:], strict=True)), copies)
        ],
    }


def _top(game):
    return game.cards[game.reserve_ids[0]].holes if game.reserve_ids else 0


def _shares(counts, of):
    return [count / number if number else 0.0 for count, number in zip(counts, of, strict=True)]


# --- Comparison ------------------------------------------------------------------------------


def assert_record(game: Reference, record: np.record) -> None:
    """The record is that of the reference, field by field."""
    given = dict(zip(record.dtype.names, record.item(), strict=True))
    for name, value in expected_record(game).items():
        is_table = isinstance(given[name], np.ndarray)
        found = given[name].tolist() if is_table else given[name]
        assert found == value, f"turn {game.turns}: {name} is {found}, not {value}"


def assert_observation(game: Reference, seat: int, observation: np.ndarray) -> None:
    """A seat is told what it may know by the reference, and nothing else."""
    expected = expected_observation(game, seat)
    numbers = np.concatenate([expected[field.name] for field in OBSERVATION.fields])
    assert observation.shape == numbers.shape == (OBSERVATION.size,)
    assert observation.dtype == np.float32
    wrong = np.flatnonzero(np.abs(observation - numbers) > 1e-6)
    if len(wrong):
        name = next(field.name for field in OBSERVATION.fields if wrong[0] < field.stop)
        found = OBSERVATION.decode(observation)[name].tolist()
        pytest.fail(f"turn {game.turns}, seat {seat}: {name} is {found}, not {expected[name]}")


def assert_mask(game: Reference, mask: np.ndarray) -> None:
    """The mask has the legal actions of the reference."""
    assert mask.astype(bool).tolist() == game.mask(), f"turn {game.turns}"


def assert_payoffs(game: Reference, payoffs: np.ndarray) -> None:
    """The payoffs are those of the reference; zeros before the end."""
    expected = game.payoffs() if game.over else [0] * game.num_players
    assert np.asarray(payoffs).tolist() == pytest.approx([float(one) for one in expected])


# --- Deals -------------------------------------------------------------------------------------


def random_deal(variant: Variant, rng: np.random.Generator) -> tuple[list, list[int]]:
    """A shuffled deck and more rolls than a game needs."""
    return shuffled(variant, rng), rng.integers(1, variant.num_holes + 1, MANY_ROLLS).tolist()


@dataclass
class GameLog:
    """What happened in one game of a batch: the record before each ply and at the end."""

    records: list[np.record] = field(default_factory=list)
    extras: list[dict[str, Any]] = field(default_factory=list)

    def add(self, record: np.record, **extra: Any) -> None:
        """Note a record, and what an API said at that moment."""
        self.records.append(record.copy())
        self.extras.append(extra)


def rebuilt_deal(variant: Variant, records: list, rng: np.random.Generator) -> tuple[list, list]:
    """A whole deck and dice that lead to these records, as the physical cards may have lain.

    Backs come from the tops of the reserve in their order, fronts from the looks at them. What
    nobody has seen is filled with what is left over.
    """
    backs, fronts = _seen_cards(variant, records)
    left = [holes for holes, _ in variant.deck]
    for holes in backs:
        left.remove(holes)
    backs += [left[k] for k in rng.permutation(len(left))]
    unseen = list(variant.deck)
    for card_id, is_trap in fronts.items():
        unseen.remove((backs[card_id], is_trap))
    unseen = [unseen[k] for k in rng.permutation(len(unseen))]
    for card_id, holes in enumerate(backs):
        if card_id not in fronts:
            fronts[card_id] = next(is_trap for other, is_trap in unseen if other == holes)
            unseen.remove((holes, fronts[card_id]))
    deck = [(holes, bool(fronts[card_id])) for card_id, holes in enumerate(backs)]
    return deck, [int(record["die"]) for record in records]


def _seen_cards(variant, records):
    """The backs in the order in which they became visible, and the fronts seen by card."""
    first = records[0]
    assert first["turns"] == 0
    backs = [int(holes) for holes in first["row"][: variant.row_size]]
    slots = list(range(variant.row_size))
    fronts = {}
    if first["top"]:
        backs.append(int(first["top"]))
    for before, after in pairwise(records):
        kind, slot = divmod(int(after["action"]), MAX_SLOTS)
        card_id = slots[slot]
        is_trap = _front_looked_at(before, after, kind, slot)
        if is_trap is not None:
            assert fronts.setdefault(card_id, is_trap) == is_trap, "a front has changed"
        used = int(before["reserve"]) - int(after["reserve"])
        if used:
            passed_by = after["gone"].astype(int) - before["gone"]
            if kind == PEEK:  # the card burned is the top one, which is among the backs already
                passed_by[backs[-1] - 1] -= 1
            else:
                passed_by[backs[card_id] - 1] -= 1
                slots[slot] = len(backs) - 1
            backs += [int(holes) for holes in np.repeat(np.arange(1, MAX_HOLES + 1), passed_by)]
            if after["top"]:
                backs.append(int(after["top"]))
    return backs, fronts


def _front_looked_at(before, after, kind, slot):
    """Whether the card that was looked at is a trap; None if nobody looked."""
    if kind == PEEK:
        return int(after["front"][slot]) == TRAP
    gained = (after["taken"] - before["taken"]).sum(axis=0)
    return int(gained[MAX_HOLES:].sum()) == 1 if gained.any() else None


def assert_game(variant: Variant, log: GameLog, rng: np.random.Generator) -> Reference:
    """Replay a game of a batch on the reference, and compare whatever was noted of it."""
    deck, dice = rebuilt_deal(variant, log.records, rng)
    game = Reference(variant, deck, dice)
    for k, (record, extra) in enumerate(zip(log.records, log.extras, strict=True)):
        if k:
            game.play_action(record["action"])
        assert_record(game, record)
        assert_extra(game, extra)
    return game


def assert_extra(game: Reference, extra: dict[str, Any]) -> None:
    """What an API said: observations by seat, the mask of the seat to move, payoffs."""
    for seat, observation in extra.get("observations", {}).items():
        assert_observation(game, seat, observation)
    if "mask" in extra:
        assert_mask(game, extra["mask"])
    if "payoffs" in extra:
        assert_payoffs(game, extra["payoffs"])

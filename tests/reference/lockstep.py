"""The reference next to the engine: what it expects of records and observations, ply by ply."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from builders import KIND_NAMES, KINDS, shuffled

from alles_kaese_env import OBSERVATION, Variant
from alles_kaese_env.engine import (
    CHEESE,
    DECISION,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NUM_ACTIONS,
    OVER,
    PEEK,
    TRAP,
    UNSEEN,
)

from .game import ReferenceGame

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

    def known_counts(self, seat):
        if seat not in self._counted:
            self._counted[seat] = super().known_counts(seat)
        return self._counted[seat]

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
        """The fronts that a seat knows: cheese by holes, traps by holes."""
        return [_padded(counts, MAX_HOLES) for counts in self.known_counts(seat)]

    def taken_table(self, seat):
        """The cards before a seat: cheese by holes, traps by holes."""
        table = [[0] * MAX_HOLES, [0] * MAX_HOLES]
        for card in self.taken[seat]:
            table[card.is_trap][card.holes - 1] += 1
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
    peekers = _padded([game.slot_peekers(k) for k in range(len(game.row))], MAX_SLOTS)
    no_cards = [[0] * (2 * MAX_HOLES)] * (MAX_PLAYERS - players)
    return {
        "phase": OVER if game.over else DECISION,
        "seat": (game.turns - 1 if game.over else game.turns) % players,
        "die": game.last_die,
        "action": 255 if game.last_action is None else game.last_action,
        "top": reserve[0].holes if reserve else 0,
        "reserve": len(reserve),
        "turns": game.turns,
        "row": game.holes_in_row(),
        "peeked": [sum(1 << seat for seat in seats) if seats else 0 for seats in peekers],
        "front": [
            (TRAP if game.row[slot].is_trap else CHEESE) if seats else UNSEEN
            for slot, seats in enumerate(peekers)
        ],
        "below": below,
        "gone": _padded(game.gone, MAX_HOLES),
        "traps": _padded([game.traps(seat) for seat in range(players)], MAX_PLAYERS),
        "cheese": _padded([game.cheese_cards(seat) for seat in range(players)], MAX_PLAYERS),
        "points": _padded([game.points(seat) for seat in range(players)], MAX_PLAYERS),
        "taken": [sum(game.taken_table(seat), []) for seat in range(players)] + no_cards,
        "known": [sum(game.known_table(seat), []) for seat in range(players)] + no_cards,
        "drawn": drawn,
    }


def expected_facts(game: Reference, observer: int) -> dict[str, Any]:
    """Everything that `OBSERVATION.facts` may say to a seat."""
    variant, players = game.variant, game.num_players
    order = [(observer + place) % players for place in range(players)]
    own = game.known_table(observer)
    row = game.row
    peekers = [game.slot_peekers(slot) for slot in range(len(row))]
    fronts = [
        (TRAP if row[slot].is_trap else CHEESE) if observer in seats else UNSEEN
        for slot, seats in enumerate(peekers)
    ]
    probability = [
        float(game.trap_probability(observer, slot)) if row[slot] else 0.0
        for slot in range(len(row))
    ]
    peeks = [[seat in seats for seat in order[1:]] for seats in peekers]
    unseen_peeks = [[False] * (players - 1)] * (MAX_SLOTS - len(row))
    shares = [
        (traps - known) / (copies - known - cheese) if copies > known + cheese else 0.0
        for traps, copies, cheese, known in zip(variant.traps, variant.copies, *_cut(own, variant))
    ]
    known = [game.known_table(seat) for seat in order[1:]]
    return {
        "row": game.holes_in_row(),
        "front": _padded(fronts, MAX_SLOTS),
        "opponent_peeks": peeks + unseen_peeks,
        "die": game.last_die,
        "match": game.last_die in game.holes_in_row(),
        "top": game.reserve[0].holes if game.reserve_ids else 0,
        "reserve": len(game.reserve_ids),
        "num_players": players,
        "turn": None if game.over else order.index(game.seat),
        "gone": _padded(game.gone, MAX_HOLES),
        "known": own,
        "traps": [game.traps(seat) for seat in order],
        "points": [game.points(seat) for seat in order],
        "cheese": [game.cheese_cards(seat) for seat in order],
        "taken": [game.taken_table(seat) for seat in order],
        "opponent_fronts": [[a + b for a, b in zip(*table)] for table in known],
        "trap_share": _padded(shares, MAX_HOLES),
        "trap_probability": _padded(probability, MAX_SLOTS),
    }


def _cut(table, variant):
    return [counts[: variant.num_holes] for counts in table]


# --- Comparison ------------------------------------------------------------------------------


def assert_record(game: Reference, record: np.record) -> None:
    """The record is that of the reference, field by field."""
    for name, value in expected_record(game).items():
        given = record[name].tolist()
        assert given == value, f"turn {game.turns}: {name} is {given}, not {value}"


def assert_observation(game: Reference, seat: int, observation: np.ndarray) -> None:
    """A seat is told what it may know by the reference, and nothing else."""
    facts = OBSERVATION.facts(observation, game.variant)
    expected = expected_facts(game, seat)
    assert facts.keys() == expected.keys()
    for name, value in expected.items():
        given = facts[name].tolist() if isinstance(facts[name], np.ndarray) else facts[name]
        same = _is_near(given, value) if name.startswith("trap_") else given == value
        assert same, f"turn {game.turns}, seat {seat}: {name} is {given}, not {value}"


def _is_near(given, value):
    return len(given) == len(value) and max(map(abs, map(float.__sub__, given, value))) < 1e-6


def assert_mask(game: Reference, mask: np.ndarray) -> None:
    """The mask has the legal actions of the reference."""
    assert mask.astype(bool).tolist() == game.mask(), f"turn {game.turns}"


def assert_payoffs(game: Reference, payoffs: np.ndarray) -> None:
    """The payoffs are those of the reference; zeros before the end."""
    expected = game.payoffs() if game.over else [0] * game.num_players
    assert _is_near(np.asarray(payoffs, float).tolist(), [float(one) for one in expected])


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
        """Note a record, and what a face said at that moment."""
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
    for before, after in zip(records, records[1:]):
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
    """What a face said: observations by seat, the mask of the seat to move, payoffs."""
    for seat, observation in extra.get("observations", {}).items():
        assert_observation(game, seat, observation)
    if "mask" in extra:
        assert_mask(game, extra["mask"])
    if "payoffs" in extra:
        assert_payoffs(game, extra["payoffs"])

"""Alles Käse! as it is played on a table, clause by clause of the rule book.

The deck is shuffled beforehand and lies in dealing order; every front is printed on its card
from the beginning. A card is identified by its index in the deck, since two cards may look alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Action = tuple[str, int]


# C. Components


@dataclass(frozen=True)
class Card:
    """C1. The holes are on the back, cheese or trap on the front."""

    holes: int
    is_trap: bool


def standard_deck(
    traps: Sequence[int] = (2, 2, 3, 3, 4, 4), copies: Sequence[int] = (6,) * 6
) -> list[tuple[int, bool]]:
    """C1, C2. All cards, not shuffled: of each hole count the traps, then the cheese."""
    deck = []
    for holes, (trap_count, card_count) in enumerate(zip(traps, copies, strict=True), start=1):
        deck += [(holes, True)] * trap_count
        deck += [(holes, False)] * (card_count - trap_count)
    return deck


class ReferenceGame:
    """One game with a given shuffle and given rolls."""

    # S. Set-up

    def __init__(
        self,
        deck: Sequence[tuple[int, bool]],
        dice: Sequence[int],
        *,
        num_players: int = 2,
        row_size: int = 6,
        trap_limit: int = 3,
        burn: str = "peek",
    ) -> None:
        """S1, S2. The first cards of the deck form the row, the others the reserve, top first."""
        if burn not in ("peek", "turn", "never"):
            raise ValueError(f"unknown burn rule {burn!r}")
        if not 2 <= num_players <= 6:
            raise ValueError(f"2 to 6 players, not {num_players}")
        if not 1 <= row_size <= len(deck):
            raise ValueError(f"no row of {row_size} from a deck of {len(deck)}")
        if trap_limit < 1:
            raise ValueError(f"no trap limit of {trap_limit}")
        self.cards = [Card(holes, is_trap) for holes, is_trap in deck]
        # C3, V. The die has as many sides as there are hole counts.
        self.sides = max(card.holes for card in self.cards)
        self.dice = list(dice)
        self.num_players = num_players
        self.trap_limit = trap_limit
        self.burn = burn
        self.row_ids: list[int | None] = list(range(row_size))
        self.reserve_ids = list(range(row_size, len(deck)))
        self.taken_ids: list[list[int]] = [[] for _ in range(num_players)]
        self.discarded_ids: list[int] = []
        self.peeked: list[set[int]] = [set() for _ in range(num_players)]
        self.turns = 0
        self.over = False

    @property
    def row(self) -> list[Card | None]:
        """S1. The card in each slot, None where there is none."""
        return [None if card_id is None else self.cards[card_id] for card_id in self.row_ids]

    @property
    def reserve(self) -> list[Card]:
        """S2. The reserve, top card first."""
        return [self.cards[card_id] for card_id in self.reserve_ids]

    @property
    def taken(self) -> list[list[Card]]:
        """T5a. The cards in front of each seat, in the order in which it took them."""
        return [[self.cards[card_id] for card_id in pile] for pile in self.taken_ids]

    @property
    def discarded(self) -> list[Card]:
        """T4, T5b. The discard pile, oldest card first: cards discarded and cards burned."""
        return [self.cards[card_id] for card_id in self.discarded_ids]

    @property
    def seat(self) -> int | None:
        """S3. Seat 0 begins, turns go round in seat order; None when the game is over."""
        return None if self.over else self.turns % self.num_players

    # T. A turn

    @property
    def die(self) -> int | None:
        """T1. There is one roll a turn, so this turn's roll is found by the number of the turn."""
        if self.over:
            return None
        if self.turns >= len(self.dice):
            raise IndexError(f"no roll left for turn {self.turns}: {len(self.dice)} were given")
        face = self.dice[self.turns]
        if not 1 <= face <= self.sides:
            raise ValueError(f"a die with {self.sides} sides cannot show {face}")
        return face

    def matching_slots(self) -> list[int]:
        """T2, T5. The slots whose card shows as many holes as the die."""
        die = self.die
        return [slot for slot, card in enumerate(self.row) if card and card.holes == die]

    def legal_actions(self) -> list[Action]:
        """T2, T5, T7. Without a match any peek; otherwise take or discard a matching card."""
        if self.over:
            return []
        matching = self.matching_slots()
        if not matching:
            return [("peek", slot) for slot, card in enumerate(self.row) if card]
        return sorted((kind, slot) for kind in ("take", "discard") for slot in matching)

    def play(self, kind: str, slot: int) -> None:
        """T. The whole turn of the seat to move, up to its end."""
        if (kind, slot) not in self.legal_actions():
            raise ValueError(f"{kind} {slot} is not legal now")
        if kind == "peek":
            self._peek(slot)
        elif kind == "take":
            self._take(slot)
        else:
            self._discard(slot)
        self._end_turn()

    def _peek(self, slot: int) -> None:
        """T2, T3, T4. Look at the front; the card stays where it is."""
        self.peeked[self.seat].add(self.row_ids[slot])
        if self.burn == "peek" and self.num_players <= 3:
            self._burn()

    def _burn(self) -> None:
        """T4. The top card of the reserve, if any, goes to the discard pile unseen."""
        if self.reserve_ids:
            self.discarded_ids.append(self.reserve_ids.pop(0))

    def _take(self, slot: int) -> None:
        """T5a, E1. The card lies open before the player; after a last trap nothing is drawn."""
        self.taken_ids[self.seat].append(self.row_ids[slot])
        self.row_ids[slot] = None
        if not self.ended_by_trap:
            self._refill(slot)

    def _discard(self, slot: int) -> None:
        """T5b. The card goes to the discard pile and nobody looks at it."""
        self.discarded_ids.append(self.row_ids[slot])
        self.row_ids[slot] = None
        self._refill(slot)

    def _refill(self, slot: int) -> None:
        """T6. The top card of the reserve, if any, fills the empty slot."""
        if self.reserve_ids:
            self.row_ids[slot] = self.reserve_ids.pop(0)

    # E. End

    @property
    def ended_by_trap(self) -> bool:
        """E1. Somebody has as many traps as end the game."""
        return any(self.traps(seat) >= self.trap_limit for seat in range(self.num_players))

    def _end_turn(self) -> None:
        """T4, E1, E2. Burn if every turn burns, then see whether the game is over."""
        if self.burn == "turn" and not self.ended_by_trap:
            self._burn()
        self.over = self.ended_by_trap or not self.reserve_ids
        self.turns += 1

    # P. Points

    def cheese_cards(self, seat: int) -> int:
        """P3. The number of cheese cards that the seat took."""
        return sum(not card.is_trap for card in self.taken[seat])

    def traps(self, seat: int) -> int:
        """E1. The number of traps that the seat took."""
        return sum(card.is_trap for card in self.taken[seat])

    def points(self, seat: int) -> int:
        """P1. The holes on the cheese cards that the seat took."""
        return sum(card.holes for card in self.taken[seat] if not card.is_trap)

    def winners(self) -> list[int]:
        """P2, P3, P4. Most points, then most cheese cards, among the seats not out by traps."""
        if not self.over:
            raise ValueError("nobody has won before the end")
        in_play = [seat for seat in range(self.num_players) if self.traps(seat) < self.trap_limit]
        best = max((self.points(seat), self.cheese_cards(seat)) for seat in in_play)
        return [seat for seat in in_play if (self.points(seat), self.cheese_cards(seat)) == best]

    def payoffs(self) -> list[Fraction]:
        """P5. Zero-sum: the w winners share what the others lose."""
        winners = self.winners()
        n, w = self.num_players, len(winners)
        won, lost = (Fraction(n, w) - 1) / (n - 1), Fraction(-1, n - 1)
        return [won if seat in winners else lost for seat in range(n)]

    # I. Information

    @property
    def gone(self) -> tuple[int, ...]:
        """I1. By hole count, the cards that are neither in the row nor in the reserve any more."""
        gone = [card for pile in self.taken for card in pile] + self.discarded
        return self._count_by_holes(gone)

    def slot_peekers(self, slot: int) -> frozenset[int]:
        """I1. The seats that peeked at the card now in the slot."""
        card_id = self.row_ids[slot]
        return frozenset(seat for seat, seen in enumerate(self.peeked) if card_id in seen)

    def known_ids(self, seat: int) -> set[int]:
        """I1, I2. Every taken card, and what the seat peeked at, wherever that card is now."""
        return self.peeked[seat].union(*self.taken_ids)

    def knows(self, seat: int, card_index: int) -> bool:
        """I1, I2. Whether the seat has seen the front of that card of the deck."""
        return card_index in self.known_ids(seat)

    def known_counts(self, seat: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """I1, I2. By hole count, the cheese and the traps among the fronts that the seat knows."""
        known = [self.cards[card_id] for card_id in self.known_ids(seat)]
        cheese = [card for card in known if not card.is_trap]
        traps = [card for card in known if card.is_trap]
        return self._count_by_holes(cheese), self._count_by_holes(traps)

    def trap_probability(self, seat: int, slot: int) -> Fraction:
        """I4. How likely the card in the slot is a trap, for what the seat knows."""
        card_id = self.row_ids[slot]
        if card_id is None:
            raise ValueError(f"slot {slot} is empty")
        card = self.cards[card_id]
        if self.knows(seat, card_id):
            return Fraction(int(card.is_trap))
        alike = [other for other in self.cards if other.holes == card.holes]
        cheese_known, traps_known = (count[card.holes - 1] for count in self.known_counts(seat))
        traps_left = sum(other.is_trap for other in alike) - traps_known
        return Fraction(traps_left, len(alike) - traps_known - cheese_known)

    def _count_by_holes(self, cards: Sequence[Card]) -> tuple[int, ...]:
        """How many of the cards have 1 hole, 2 holes and so on."""
        counts = [0] * self.sides
        for card in cards:
            counts[card.holes - 1] += 1
        return tuple(counts)


# The reference heuristic


def reference_policy(game: ReferenceGame) -> Action:
    """What the reference heuristic plays, from nothing but what the seat to move knows."""
    matching = game.matching_slots()
    return _on_match(game, matching) if matching else _on_no_match(game)


def _on_match(game: ReferenceGame, matching: list[int]) -> Action:
    """Take the safest matching card if it is safe enough, otherwise discard the worst one."""
    seat = game.seat
    threshold = Fraction(7, 10) if game.traps(seat) <= 1 else Fraction(1, 10)
    q = {slot: game.trap_probability(seat, slot) for slot in matching}
    # min and max keep the first of equals, and the slots come in ascending order.
    safest = min(matching, key=lambda slot: q[slot])
    if q[safest] <= threshold:
        return "take", safest
    return "discard", max(matching, key=lambda slot: q[slot])


def _on_no_match(game: ReferenceGame) -> Action:
    """Peek where an unknown front matters most; at slot 0 if there is none."""
    seat = game.seat
    unknown = [slot for slot, card_id in enumerate(game.row_ids) if not game.knows(seat, card_id)]
    if not unknown:
        return "peek", 0

    def weight(slot: int) -> Fraction:
        q = game.trap_probability(seat, slot)
        return game.row[slot].holes * q * (1 - q)

    return "peek", max(unknown, key=weight)

"""The reference implementation against the figures and the clauses of the rule book."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import fmean, stdev

import pytest

from reference.game import Action, Card, ReferenceGame, reference_policy, standard_deck

Policy = Callable[[ReferenceGame], Action]

# A game of 4 to 6 players has no bound (E3); 30 refills in 600 turns fail with less than 1e-16.
ROLLS = 600
GAMES = 2500


def shuffled_game(rng: random.Random, num_players: int, burn: str = "peek") -> ReferenceGame:
    """S1. A game with the default deck, shuffled, and enough rolls."""
    deck = standard_deck()
    rng.shuffle(deck)
    dice = rng.choices(range(1, 7), k=ROLLS)
    return ReferenceGame(deck, dice, num_players=num_players, burn=burn)


def random_policy(rng: random.Random) -> Policy:
    """Uniformly random legal play."""
    return lambda game: rng.choice(game.legal_actions())


def play_out(game: ReferenceGame, policies: Sequence[Policy]) -> ReferenceGame:
    """Play to the end, each seat with its own policy."""
    while not game.over:
        game.play(*policies[game.seat](game))
    return game


def win_share(game: ReferenceGame, seat: int) -> float:
    """P4. One win, shared by all winners."""
    winners = game.winners()
    return 1 / len(winners) if seat in winners else 0.0


def assert_near(sample: Sequence[float], figure: float, rounding: float) -> None:
    """The sample's mean is the figure, but for 3.5 standard errors and the figure's rounding."""
    error = stdev(sample) / len(sample) ** 0.5
    assert abs(fmean(sample) - figure) <= 3.5 * error + rounding


# The figures of the rule book


@pytest.mark.parametrize(
    ("num_players", "burn", "turns", "rounding", "by_trap", "shares"),
    [
        (2, "peek", 23.09, 0.005, 0.667, (0.491, 0.509)),
        (3, "peek", 25.99, 0.005, 0.470, (0.341, 0.335, 0.325)),
        (4, "peek", 36.7, 0.05, 0.777, (0.263, 0.253, 0.248, 0.235)),
        (5, "peek", 40.1, 0.05, 0.652, (0.218, 0.206, 0.197, 0.192, 0.188)),
        (6, "peek", 42.4, 0.05, 0.532, (0.187, 0.176, 0.166, 0.163, 0.156, 0.152)),
        (2, "turn", 17.4, 0.05, 0.301, (0.503, 0.497)),
        (2, "never", 26.5, 0.05, 0.966, (0.481, 0.519)),
    ],
)
def test_random_play_agrees_with_the_table(
    num_players: int,
    burn: str,
    turns: float,
    rounding: float,
    by_trap: float,
    shares: tuple[float, ...],
) -> None:
    rng = random.Random(20130 + num_players)
    policies = [random_policy(rng)] * num_players
    games = [play_out(shuffled_game(rng, num_players, burn), policies) for _ in range(GAMES)]
    assert_near([game.turns for game in games], turns, rounding)
    assert_near([game.ended_by_trap for game in games], by_trap, 0.0005)
    for seat, share in enumerate(shares):
        assert_near([win_share(game, seat) for game in games], share, 0.0005)


@pytest.mark.parametrize(
    ("num_players", "games", "share"),
    [(2, 800, 0.784), (3, 300, 0.545), (4, 200, 0.461), (5, 200, 0.390), (6, 200, 0.341)],
)
def test_reference_heuristic_against_random(num_players: int, games: int, share: float) -> None:
    rng = random.Random(20140 + num_players)
    won = []
    for number in range(games):
        seat = number % num_players
        policies = [random_policy(rng)] * num_players
        policies[seat] = reference_policy
        won.append(win_share(play_out(shuffled_game(rng, num_players), policies), seat))
    assert_near(won, share, 0.0005)


@pytest.mark.parametrize("num_players", [2, 3])
def test_reference_heuristic_among_itself_plays_thirty_turns(num_players: int) -> None:
    rng = random.Random(20150 + num_players)
    for _ in range(150):
        game = play_out(shuffled_game(rng, num_players), [reference_policy] * num_players)
        assert game.turns == 30
        assert not game.ended_by_trap


# Clauses


@pytest.mark.parametrize("burn", ["peek", "turn", "never"])
@pytest.mark.parametrize("num_players", [2, 3, 4, 5, 6])
def test_cards_are_conserved(num_players: int, burn: str) -> None:
    rng = random.Random(20160 + num_players)
    policy = random_policy(rng)
    for _ in range(20):
        game = shuffled_game(rng, num_players, burn)
        deck = Counter(game.cards)
        while True:
            out = [card for pile in game.taken for card in pile] + game.discarded
            left = [card for card in game.row if card] + game.reserve
            assert Counter(out + left) == deck
            assert sum(game.gone) == len(out)
            if game.over:
                break
            game.play(*policy(game))
        assert sum(game.payoffs()) == 0


def test_standard_deck() -> None:
    """C1, C2."""
    deck = standard_deck()
    assert Counter(holes for holes, _ in deck) == dict.fromkeys(range(1, 7), 6)
    assert Counter(holes for holes, trap in deck if trap) == {1: 2, 2: 2, 3: 3, 4: 3, 5: 4, 6: 4}


def small_game(dice: Sequence[int], **variant: object) -> ReferenceGame:
    """A row of two, three cards in reserve, one trap of each hole count, out at one trap."""
    deck = [(1, True), (2, False), (2, True), (1, False), (2, False)]
    return ReferenceGame(deck, dice, **{"row_size": 2, "trap_limit": 1, **variant})


def test_match_takes_or_discards_and_refills() -> None:
    """T5, T5b, T6."""
    game = small_game([1, 2])
    assert game.legal_actions() == [("discard", 0), ("take", 0)]
    game.play("discard", 0)
    assert game.discarded == [Card(1, True)]
    assert game.row == [Card(2, True), Card(2, False)]
    assert game.reserve == [Card(1, False), Card(2, False)]
    assert (game.seat, game.die, game.turns) == (1, 2, 1)
    assert game.legal_actions() == [("discard", 0), ("discard", 1), ("take", 0), ("take", 1)]


@pytest.mark.parametrize(
    ("num_players", "burn", "burned"),
    [
        (2, "peek", 1),
        (3, "peek", 1),
        (4, "peek", 0),
        (2, "turn", 1),
        (4, "turn", 1),
        (2, "never", 0),
    ],
)
def test_peek_is_secret_and_may_burn(num_players: int, burn: str, burned: int) -> None:
    """T2, T3, T4, I2."""
    # Slot 1 has two holes and slot 0 gets two, so that the second roll, a 1, matches nothing.
    game = small_game([1, 1], num_players=num_players, burn=burn)
    game.play("discard", 0)
    reserve_before = game.reserve
    assert game.legal_actions() == [("peek", 0), ("peek", 1)]
    game.play("peek", 1)
    assert game.row[1] == Card(2, False)
    assert game.slot_peekers(1) == {1}
    assert game.slot_peekers(0) == frozenset()
    assert game.knows(1, 1)
    assert not game.knows(0, 1)
    assert game.reserve == reserve_before[burned:]


def test_last_trap_ends_the_game_without_a_refill() -> None:
    """E1, P2, P5."""
    for burn in ("peek", "turn", "never"):
        game = small_game([1], burn=burn)
        game.play("take", 0)
        assert game.over
        assert game.ended_by_trap
        assert (game.seat, game.die, game.turns) == (None, None, 1)
        assert game.row == [None, Card(2, False)]
        assert len(game.reserve) == 3
        assert game.winners() == [1]
        assert game.payoffs() == [-1, 1]
        assert game.legal_actions() == []


def test_empty_reserve_ends_the_game() -> None:
    """E2; with burn="turn" the burn comes after the refill and only if there is a card."""
    game = small_game([2, 2], burn="turn")
    game.play("take", 1)
    assert game.row == [Card(1, True), Card(2, True)]
    assert game.discarded == [Card(1, False)]
    assert not game.over
    game.play("discard", 1)
    assert game.row == [Card(1, True), Card(2, False)]
    assert game.discarded == [Card(1, False), Card(2, True)]
    assert game.over
    assert not game.ended_by_trap
    assert game.winners() == [0]


def test_more_cheese_cards_break_a_tie_of_points() -> None:
    """P1, P3: 2 points of two cards beat 2 points of one."""
    deck = [(1, False), (2, False), (1, False), (1, True), (2, True)]
    game = ReferenceGame(deck, [1, 2, 1], row_size=2, burn="never")
    game.play("take", 0)
    game.play("take", 1)
    game.play("take", 0)
    assert game.over
    assert [game.points(seat) for seat in (0, 1)] == [2, 2]
    assert [game.cheese_cards(seat) for seat in (0, 1)] == [2, 1]
    assert game.winners() == [0]


def test_shared_win_pays_by_the_formula() -> None:
    """P4, P5: of three seats two share the win."""
    deck = [(1, False), (1, False), (1, True), (1, True), (1, True)]
    game = ReferenceGame(deck, [1, 1, 1], num_players=3, row_size=2)
    game.play("take", 0)
    game.play("take", 1)
    game.play("discard", 0)
    assert game.winners() == [0, 1]
    assert game.payoffs() == [Fraction(1, 4), Fraction(1, 4), Fraction(-1, 2)]


def test_trap_probability_counts_own_peeks_and_taken_cards() -> None:
    """I4, also after a card that was peeked at has been discarded."""
    deck = [(2, True), (2, False), (2, False), (2, True), (1, False), (1, True)]
    game = ReferenceGame(deck, [1, 2, 2, 2], row_size=2, burn="never")
    assert game.trap_probability(0, 0) == game.trap_probability(1, 0) == Fraction(1, 2)
    game.play("peek", 0)
    assert game.known_counts(0) == ((0, 0), (0, 1))
    assert game.trap_probability(0, 0) == 1
    assert game.trap_probability(0, 1) == Fraction(1, 3)
    assert game.trap_probability(1, 1) == Fraction(1, 2)
    game.play("discard", 0)
    assert game.trap_probability(0, 0) == Fraction(1, 3)
    assert game.slot_peekers(0) == frozenset()
    game.play("take", 1)
    assert game.known_counts(0) == ((0, 1), (0, 1))
    assert game.known_counts(1) == ((0, 1), (0, 0))
    assert game.trap_probability(0, 0) == Fraction(1, 2)
    assert game.trap_probability(1, 0) == Fraction(2, 3)
    assert game.gone == (0, 2)


def test_illegal_play_changes_nothing() -> None:
    """T7."""
    game = small_game([1])
    before = (game.row, game.reserve, game.discarded, game.taken, game.turns)
    for kind, slot in [("peek", 0), ("take", 1), ("discard", -2), ("pass", 0)]:
        with pytest.raises(ValueError, match="not legal"):
            game.play(kind, slot)
    assert (game.row, game.reserve, game.discarded, game.taken, game.turns) == before
    assert game.peeked == [set(), set()]
    with pytest.raises(ValueError, match="before the end"):
        game.payoffs()


def test_missing_roll_is_reported() -> None:
    """T1."""
    game = small_game([2])
    game.play("take", 1)
    with pytest.raises(IndexError, match="no roll left for turn 1"):
        game.legal_actions()


# The reference heuristic


def heuristic_game(
    deck: Sequence[tuple[int, bool]], dice: Sequence[int], row_size: int
) -> ReferenceGame:
    """A game in which only T6 draws cards."""
    return ReferenceGame(deck, dice, row_size=row_size, burn="never")


@pytest.mark.parametrize(("traps", "kind"), [(7, "take"), (8, "discard")])
def test_heuristic_takes_up_to_exactly_seven_tenths(traps: int, kind: str) -> None:
    """q <= t with k = 0, and ties go to the lowest slot."""
    deck = [(1, True)] * traps + [(1, False)] * (10 - traps)
    assert reference_policy(heuristic_game(deck, [1], 3)) == (kind, 0)


@pytest.mark.parametrize(("traps", "kind"), [(1, "take"), (2, "discard")])
def test_heuristic_takes_up_to_exactly_one_tenth_with_two_traps(traps: int, kind: str) -> None:
    """q <= t with k = 2; seat 0 takes two traps of one hole first, seat 1 only discards."""
    ones = [(1, True)] * 4
    twos = [(2, True)] * traps + [(2, False)] * (10 - traps)
    game = heuristic_game([*ones, *twos], [1, 1, 1, 1, 2], 4)
    for slot, action in enumerate(["take", "discard", "take", "discard"]):
        game.play(action, slot)
    assert game.traps(0) == 2
    assert reference_policy(game) == (kind, 0)


def test_heuristic_discards_the_greatest_q() -> None:
    """The seat knows a trap in slot 1; the other matching slots have q = 3/4."""
    deck = [(1, True), (1, True), (1, False), (1, True), (1, True), (2, False)]
    game = heuristic_game(deck, [2, 2, 1], 3)
    game.play("peek", 1)
    game.play("peek", 0)
    quarters = [game.trap_probability(0, slot) * 4 for slot in range(3)]
    assert quarters == [3, 4, 3]
    assert reference_policy(game) == ("discard", 1)


def test_heuristic_takes_the_smallest_q() -> None:
    """The seat knows cheese in slot 2, and what the other seat saw in slot 1 does not help it."""
    deck = [(1, True), (1, False), (1, False), (1, True), (2, False)]
    game = heuristic_game(deck, [2, 2, 1], 3)
    game.play("peek", 2)
    game.play("peek", 1)
    assert reference_policy(game) == ("take", 2)


def test_heuristic_peeks_at_the_greatest_weight() -> None:
    """holes x q x (1 - q): 1 x 1/4, 2 x 0 and 3 x 2/9, so slot 2, then 0, then 1, then slot 0."""
    deck = [(1, True), (2, True), (3, False), (1, False), (3, False), (3, True), (4, True)]
    game = heuristic_game(deck, [4] * 7, 3)
    for slot in (2, 0, 1):
        assert reference_policy(game) == ("peek", slot)
        game.play("peek", slot)
        # The other seat looks at slot 1, which tells this seat nothing.
        game.play("peek", 1)
    assert reference_policy(game) == ("peek", 0)


def test_heuristic_peek_ties_go_to_the_lowest_slot() -> None:
    deck = [(1, True), (2, True), (2, False), (1, False), (3, False)]
    assert reference_policy(heuristic_game(deck, [3], 3)) == ("peek", 1)

"""The rule book, clause by clause, on stacked decks with certain dice."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import gymnasium
import numpy as np
import pytest
from builders import (
    BURNS,
    PLAYERS,
    action_of,
    by_holes,
    bytes_of,
    facts_of,
    game_of,
    legal_moves,
    own_facts,
    play,
    play_random_plies,
    playing,
    table,
    with_games,
)

from alles_kaese_env import NUM_ACTIONS, GameBatch, Variant, alles_kaese_v0
from alles_kaese_env.core.records import (
    CHEESE,
    DECISION,
    DISCARD,
    MAX_HOLES,
    MAX_SLOTS,
    NO_ACTION,
    OVER,
    PEEK,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv
from alles_kaese_env.scripted import ScriptedDeal

# A row without 4, 5 and 6 holes: those rolls are no match, and 1, 2 and 3 match two slots each.
ROW = "1c 1t 2c 2t 3c 3t"

for_all_players = pytest.mark.parametrize("players", PLAYERS)
for_all_burns = pytest.mark.parametrize("burn", BURNS)


def burned_by_peek(players, burn):
    """T4: the cards that a peek burns."""
    return int(burn == "turn" or (burn == "peek" and players <= 3))


def cheese_cards(record, seat):
    """Cheese in front of a seat, by holes."""
    return list(record.taken[seat, :MAX_HOLES])


def trap_cards(record, seat):
    """Traps in front of a seat, by holes."""
    return list(record.taken[seat, MAX_HOLES:])


# --- C. Components -------------------------------------------------------------------------


@for_all_players
def test_c1_there_are_six_cards_of_each_hole_count(players):
    """C1."""
    deck = Variant(num_players=players).deck
    assert len(deck) == 36
    assert Counter(holes for holes, _ in deck) == dict.fromkeys(range(1, 7), 6)


@for_all_players
def test_c1_every_dealt_game_holds_these_cards(players):
    """C1: row, top and what lies below it are six backs of each number."""
    batch = GameBatch(50, Variant(num_players=players), seed=1)
    for record in batch.games:
        backs = [*record.row, record.top]
        counts = record.below + np.bincount(backs, minlength=7)[1:]
        assert counts.tolist() == [6] * 6


@for_all_players
def test_c1_nothing_on_a_back_tells_the_front(players):
    """C1: the same backs with other fronts look the same as long as nobody turns a card."""
    variant = Variant(num_players=players)
    dice = [1, 2, 3]
    one = table(variant, "1c 1t 2c 2t 3c 3t 4c 5c", dice)
    other = table(variant, "1t 1c 2t 2c 3t 3c 4t 5t", dice)
    for move in (None, "discard 1", "discard 2", "discard 4"):
        if move:
            play(one, move)
            play(other, move)
        assert bytes_of(one.games) == bytes_of(other.games)
        for seat in range(players):
            assert one.observe(seat).tobytes() == other.observe(seat).tobytes()


@for_all_players
def test_c2_traps_among_six_cards_of_each_hole_count(players):
    """C2: 2, 2, 3, 3, 4, 4."""
    deck = Variant(num_players=players).deck
    traps = Counter(holes for holes, is_trap in deck if is_trap)
    assert traps == {1: 2, 2: 2, 3: 3, 4: 3, 5: 4, 6: 4}


@for_all_players
def test_c2_everybody_knows_these_numbers(players):
    """C2: the shares of traps stand in every observation from the start."""
    batch = GameBatch(1, Variant(num_players=players), seed=2)
    for facts in own_facts(batch):
        assert facts["trap_share"] == pytest.approx([2 / 6, 2 / 6, 3 / 6, 3 / 6, 4 / 6, 4 / 6])


@for_all_players
def test_c2_there_are_no_more_traps_than_that(players):
    """C2: after both traps of one hole have been seen, the other four ones are cheese."""
    batch = table(Variant(num_players=players, burn="never"), "1t 1t 1c 1c 1c 1c 2c 2t", [1, 1])
    play(batch, "take 0", "take 1")
    for facts in own_facts(batch):
        assert facts["trap_share"][0] == 0
        assert facts["trap_probability"][2:].tolist() == [0, 0, 0, 0]


@for_all_players
def test_c3_the_die_has_six_sides(players):
    """C3."""
    batch = GameBatch(600, Variant(num_players=players), seed=3)
    assert sorted(set(batch.games["die"])) == [1, 2, 3, 4, 5, 6]


# --- S. Set-up -----------------------------------------------------------------------------


@for_all_players
def test_s1_the_first_six_cards_form_the_row_with_their_backs_up(players):
    """S1."""
    batch = table(Variant(num_players=players), "3t 1c 6t 2c 5c 4t 1c")
    record = game_of(batch)
    assert record.row.tolist() == [3, 1, 6, 2, 5, 4]
    assert record.front.tolist() == [UNSEEN] * 6
    assert record.peeked.tolist() == [0] * 6
    for facts in own_facts(batch):
        assert facts["row"].tolist() == [3, 1, 6, 2, 5, 4]
        assert facts["front"].tolist() == [UNSEEN] * 6


@for_all_players
def test_s1_each_slot_keeps_its_place(players):
    """S1: a new card comes where the old one was, and the others stay."""
    batch = table(Variant(num_players=players), "3t 1c 6t 2c 5c 4t 1t 6c 2t", [6, 4, 1])
    play(batch, "discard 2")
    assert game_of(batch).row.tolist() == [3, 1, 1, 2, 5, 4]
    play(batch, "discard 5")
    assert game_of(batch).row.tolist() == [3, 1, 1, 2, 5, 6]
    play(batch, "take 1")
    assert game_of(batch).row.tolist() == [3, 2, 1, 2, 5, 6]


@for_all_players
def test_s2_the_other_thirty_cards_form_the_reserve_and_its_top_back_is_visible(players):
    """S2."""
    batch = table(Variant(num_players=players), f"{ROW} 5t 6c")
    record = game_of(batch)
    assert record.reserve == 30
    assert record.top == 5
    assert record.below.tolist() == [4, 4, 4, 6, 5, 6]
    for facts in own_facts(batch):
        assert (facts["reserve"], facts["top"]) == (30, 5)


@for_all_players
def test_s2_nothing_else_about_the_order_of_the_reserve_is_known(players):
    """S2: below its top the reserve may lie in any order, and the game looks the same."""
    variant = Variant(num_players=players)
    one = table(variant, f"{ROW} 5t 6c 4t", [4], last="1c 2c")
    other = table(variant, f"{ROW} 5t 2c 1c", [4], last="4t 6c")
    assert bytes_of(one.games) == bytes_of(other.games)
    for seat in range(players):
        assert one.observe(seat).tobytes() == other.observe(seat).tobytes()


@for_all_players
def test_s3_seat_0_begins_and_turns_go_round(players):
    """S3: whatever a turn was, a peek, a take or a discard."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 1c 2c 3c", [4, 1, 2] * 5)
    for turn in range(3 * players):
        assert batch.seats[0] == turn % players
        assert [facts["turn"] for facts in own_facts(batch)] == [
            (turn - seat) % players for seat in range(players)
        ]
        play(batch, min(legal_moves(batch)))


@for_all_players
def test_s3_the_learner_may_have_its_seat_drawn(players):
    """S3: each seat about as often, and all seats occur; a chosen seat stays."""
    games = 300 * players
    drawn = AllesKaeseVecEnv(games, players, seed=4)
    drawn.reset()
    counts = np.bincount(drawn.games.seats, minlength=players)
    assert len(counts) == players
    # Five standard deviations of a binomial count.
    assert np.abs(counts - 300).max() < 5 * (300 * (1 - 1 / players)) ** 0.5
    chosen = AllesKaeseVecEnv(10, players, seed=4, seat=players - 1)
    chosen.reset()
    assert set(chosen.games.seats) == {players - 1}


# --- T. A turn -----------------------------------------------------------------------------


@for_all_players
def test_t1_every_turn_begins_with_a_roll(players):
    """T1: the dice come one a turn in their order, and everybody sees them."""
    dice = [4, 1, 5, 2, 6, 3]
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 4c 5c 6c 1c", dice)
    for face in dice[:4]:
        assert game_of(batch).die == face
        assert [facts["die"] for facts in own_facts(batch)] == [face] * players
        play(batch, min(legal_moves(batch)))


@for_all_players
@for_all_burns
def test_t2_without_a_match_the_player_must_peek_at_one_of_six(players, burn):
    """T2: any of the six, and nothing else."""
    batch = table(Variant(num_players=players, burn=burn), f"{ROW} 4c", [4])
    assert legal_moves(batch) == {f"peek {slot}" for slot in range(6)}
    assert not facts_of(batch, 0)["match"]


@for_all_players
def test_t2_the_card_stays_in_its_slot_with_its_back_up(players):
    """T2."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 4c", [5, 5])
    play(batch, "peek 3")
    record = game_of(batch)
    assert record.row.tolist() == [1, 1, 2, 2, 3, 3]
    assert record.gone.tolist() == [0] * 6
    assert record.taken.sum() == record.traps.sum() == record.cheese.sum() == 0


@for_all_players
def test_t2_a_player_may_peek_at_a_card_that_he_knows(players):
    """T2, I2: the player learns nothing new by it."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 4c", [5] * (players + 1))
    for slot in range(players):
        play(batch, f"peek {slot}")
    before = game_of(batch)
    assert "peek 0" in legal_moves(batch)
    play(batch, "peek 0")
    after = game_of(batch)
    assert after.known.tolist() == before.known.tolist()
    assert after.drawn.tolist() == before.drawn.tolist()
    assert after.peeked.tolist() == before.peeked.tolist()
    assert after.turns == before.turns + 1


@for_all_players
def test_t3_everybody_sees_who_peeked_at_which_slot(players):
    """T3: one slot a seat, and every seat sees it of every other."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 4c", [5] * 7)
    for slot in range(players):
        play(batch, f"peek {slot}")
    for observer, facts in enumerate(own_facts(batch)):
        for place in range(players - 1):
            other = (observer + 1 + place) % players
            assert np.flatnonzero(facts["opponent_peeks"][:, place]).tolist() == [other]
            assert facts["opponent_fronts"][place].sum() == 1


@for_all_players
def test_t3_what_he_saw_is_his_alone(players):
    """T3: the fronts differ, and nobody but who peeked can tell."""
    variant = Variant(num_players=players)
    one = table(variant, "1c 1t 2c 2t 3c 3t 4c 5c", [6, 6])
    other = table(variant, "1t 1c 2c 2t 3c 3t 4c 5c", [6, 6])
    play(one, "peek 0")
    play(other, "peek 0")
    assert facts_of(one, 0)["front"][0] == CHEESE
    assert facts_of(other, 0)["front"][0] == TRAP
    for seat in range(1, players):
        assert facts_of(one, seat)["front"].tolist() == [UNSEEN] * 6
        assert one.observe(seat).tobytes() == other.observe(seat).tobytes()


@for_all_players
@for_all_burns
def test_t4_what_a_peek_burns(players, burn):
    """T4: the top card with 2 or 3 players, none with more; otherwise as the burn rule says."""
    batch = table(Variant(num_players=players, burn=burn), f"{ROW} 4t 5c 6c", [6, 6])
    burned = burned_by_peek(players, burn)
    play(batch, "peek 0")
    record = game_of(batch)
    assert record.reserve == 30 - burned
    assert record.top == (5 if burned else 4)
    assert record.gone.tolist() == by_holes(_4=burned)
    assert record.row.tolist() == [1, 1, 2, 2, 3, 3]


@for_all_players
@for_all_burns
def test_t4_the_burned_card_goes_unseen(players, burn):
    """T4: nobody knows its front afterwards, and nobody is told whether it was a trap."""
    variant = Variant(num_players=players, burn=burn)
    one = table(variant, f"{ROW} 4t 5c 6c", [6, 6])
    other = table(variant, f"{ROW} 4c 5c 6c", [6, 6])
    play(one, "peek 0")
    play(other, "peek 0")
    assert bytes_of(one.games) == bytes_of(other.games)
    assert game_of(one).known.sum() == game_of(one).drawn.sum() == 1  # the front in slot 0


@for_all_players
@for_all_burns
@pytest.mark.parametrize("kind", ["take", "discard"])
def test_t4_a_take_or_discard_burns_only_with_burn_turn(players, burn, kind):
    """T4: and then after the refill."""
    batch = table(Variant(num_players=players, burn=burn), f"{ROW} 4t 5c 6c", [1, 6])
    burned = int(burn == "turn")
    play(batch, f"{kind} 0")
    record = game_of(batch)
    assert record.row.tolist() == [4, 1, 2, 2, 3, 3]
    assert record.reserve == 29 - burned
    assert record.top == (6 if burned else 5)
    assert record.gone.tolist() == by_holes(_1=1, _5=burned)


@for_all_players
@pytest.mark.parametrize("matching", range(1, 7))
def test_t5_a_match_allows_to_take_or_discard_just_the_matching_cards(players, matching):
    """T5, T7: 2k actions for k matching cards."""
    sixes = ["6t", "6c", "6t", "6t", "6c", "6t"][:matching]
    row = " ".join([*sixes, "1c", "2c", "3c", "4c", "5c"])
    batch = table(Variant(num_players=players), row, [6])
    kinds = ("take", "discard")
    assert legal_moves(batch) == {f"{kind} {slot}" for kind in kinds for slot in range(matching)}
    assert all(facts["match"] for facts in own_facts(batch))


@for_all_players
def test_t5_matching_cards_need_not_lie_side_by_side(players):
    """T5."""
    batch = table(Variant(num_players=players), "2c 1c 2t 3c 4c 2t 1c", [2])
    assert legal_moves(batch) == {f"{kind} {k}" for kind in ("take", "discard") for k in (0, 2, 5)}


@for_all_players
def test_t5a_a_taken_cheese_is_shown_to_everybody_and_lies_before_its_taker(players):
    """T5a, P1."""
    batch = table(Variant(num_players=players), f"{ROW} 6t", [3])
    play(batch, "take 4")
    record = game_of(batch)
    assert cheese_cards(record, 0) == by_holes(_3=1)
    assert trap_cards(record, 0) == by_holes()
    assert (record.cheese[0], record.points[0], record.traps[0]) == (1, 3, 0)
    assert record.taken[1:].sum() == 0
    assert record.gone.tolist() == by_holes(_3=1)
    for facts in own_facts(batch):
        assert facts["known"].tolist() == [by_holes(_3=1), by_holes()]


@for_all_players
def test_t5a_a_taken_trap_is_shown_to_everybody_and_lies_before_its_taker(players):
    """T5a, P1."""
    batch = table(Variant(num_players=players), f"{ROW} 6t", [3])
    play(batch, "take 5")
    record = game_of(batch)
    assert trap_cards(record, 0) == by_holes(_3=1)
    assert cheese_cards(record, 0) == by_holes()
    assert (record.cheese[0], record.points[0], record.traps[0]) == (0, 0, 1)
    assert record.gone.tolist() == by_holes(_3=1)
    for facts in own_facts(batch):
        assert facts["known"].tolist() == [by_holes(), by_holes(_3=1)]


@for_all_players
def test_t5a_taken_cards_stay_for_the_rest_of_the_game(players):
    """T5a: what lies before a seat never becomes less, over whole games."""
    batch = GameBatch(100, Variant(num_players=players), seed=5)
    rng = np.random.default_rng(5)
    while len(playing(batch)):
        before = batch.games.copy()
        play_random_plies(batch, 1, rng)
        assert (batch.games["taken"] >= before["taken"]).all()
        gained = (batch.games["taken"] - before["taken"]).sum(axis=(1, 2))
        assert gained.max() <= 1


@for_all_players
@pytest.mark.parametrize("slot", [4, 5])
def test_t5b_nobody_looks_at_a_discarded_card(players, slot):
    """T5b: cheese or trap, nobody learns it, and it counts for nobody."""
    batch = table(Variant(num_players=players), f"{ROW} 6t", [3])
    play(batch, f"discard {slot}")
    record = game_of(batch)
    assert record.gone.tolist() == by_holes(_3=1)
    assert record.known.sum() == record.drawn.sum() == record.taken.sum() == 0
    assert record.traps.sum() == record.cheese.sum() == record.points.sum() == 0


@for_all_players
def test_t5b_who_peeked_at_a_discarded_card_still_knows_it(players):
    """T5b, I2: the front stays among what the player knows, and theirs alone."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 6t 3c", [4, 3, 4])
    play(batch, "peek 5", "discard 5")
    for seat, facts in enumerate(own_facts(batch)):
        assert facts["known"].tolist() == [by_holes(), by_holes(_3=int(seat == 0))]
        assert facts["trap_probability"][4] == pytest.approx(2 / 5 if seat == 0 else 3 / 6)
        # How many threes each opponent knows is public; whether traps or cheese is not.
        expected = [int((seat + place) % players == 0) for place in range(1, players)]
        assert facts["opponent_fronts"][:, 2].tolist() == expected


@for_all_players
@pytest.mark.parametrize("kind", ["take", "discard"])
def test_t6_the_top_card_fills_the_slot_and_nobody_has_peeked_at_it(players, kind):
    """T6: even if somebody had peeked at the card before it."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 6t 5c 2c", [4, 3, 1])
    play(batch, "peek 4", f"{kind} 4")
    record = game_of(batch)
    assert record.row.tolist() == [1, 1, 2, 2, 6, 3]
    assert record.peeked.tolist() == [0] * 6
    assert record.front.tolist() == [UNSEEN] * 6
    assert (record.reserve, record.top) == (29, 5)
    for facts in own_facts(batch):
        assert not facts["opponent_peeks"].any()
        assert facts["front"].tolist() == [UNSEEN] * 6
        assert facts["trap_probability"][4] == pytest.approx(4 / 6)


@for_all_players
def test_t6_the_front_of_the_new_card_is_its_own(players):
    """T6: the card that came into the slot is looked at, not the one before it."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 6t 5c 2c", [3, 6, 5])
    play(batch, "take 4", "take 4")
    record = game_of(batch)
    assert cheese_cards(record, 0) == by_holes(_3=1)
    assert trap_cards(record, 1) == by_holes(_6=1)
    play(batch, "take 4")
    assert cheese_cards(game_of(batch), 2 % players)[4] == 1


@for_all_players
@for_all_burns
def test_t6_a_card_taken_after_a_peek_is_its_own(players, burn):
    """T6: a peek moves no card of the row, so the next player takes what lies there."""
    batch = table(Variant(num_players=players, burn=burn), f"{ROW} 4c 5c 6c", [6, 3])
    play(batch, "peek 0", "take 5")
    assert trap_cards(game_of(batch), 1) == by_holes(_3=1)


@for_all_players
@pytest.mark.parametrize("die", [3, 4])
def test_t7_there_is_no_passing(players, die):
    """T7: after a match and without one, what is not allowed is refused and changes nothing."""
    batch = table(Variant(num_players=players), f"{ROW} 6t", [die])
    before = bytes_of(batch.games)
    allowed = {action_of(move) for move in legal_moves(batch)}
    assert allowed
    for action in {*range(-1, NUM_ACTIONS + 1), NO_ACTION} - allowed:
        with pytest.raises(ValueError, match=f"is {action}"):
            batch.step([action])
    assert bytes_of(batch.games) == before


# --- E. End --------------------------------------------------------------------------------


def third_trap_game(players, victim, **fields):
    """A game at the decision in which the victim takes its third trap.

    All have the same dice: 6 for the victim, which takes sixes, and 5 for the others, which peek.
    """
    variant = Variant(num_players=players, **fields)
    dice = [6 if turn % players == victim else 5 for turn in range(4 * players)]
    batch = table(variant, "6t 6t 6t 1c 2c 3c", dice, last="5c 5c 5t 5t 5t 5t")
    taken = 0
    while taken < 2 or batch.seats[0] != victim:
        if batch.seats[0] == victim:
            play(batch, f"take {taken}")
            taken += 1
        else:
            play(batch, "peek 5")
    return batch


@for_all_players
@for_all_burns
def test_e1_the_third_trap_ends_the_game_in_that_very_turn(players, burn):
    """E1: for each seat; the turn before it the game went on, and nothing is drawn any more."""
    for victim in range(players):
        batch = third_trap_game(players, victim, burn=burn)
        before = game_of(batch)
        assert before.phase == DECISION
        assert not batch.over[0]
        assert before.traps[victim] == 2
        play(batch, "take 2")
        record = game_of(batch)
        assert batch.over[0]
        assert (record.phase, record.traps[victim], record.seat) == (OVER, 3, victim)
        assert record.turns == before.turns + 1
        assert (record.reserve, record.top) == (before.reserve, before.top)
        assert record.row[2] == 0
        assert not batch.masks[0].any()


@for_all_players
def test_e1_whoever_has_three_traps_has_lost(players):
    """E1, P5: the others share, as none of them has a point."""
    for victim in range(players):
        batch = third_trap_game(players, victim)
        play(batch, "take 2")
        winner = (Fraction(players, players - 1) - 1) / (players - 1)
        expected = [float(winner)] * players
        expected[victim] = -1 / (players - 1)
        assert batch.payoffs[0].tolist() == pytest.approx(expected)


@for_all_players
def test_e1_a_loser_by_traps_has_lost_whatever_else_he_holds(players):
    """E1, P2: seat 0 has all points and the most cheese, and loses by its last trap."""
    variant = Variant(num_players=players, trap_limit=1, burn="never")
    dice = [6, *[5] * (players - 1), 6]
    batch = table(variant, "6c 6t 1c 2c 3c 4c 1c", dice)
    play(batch, "take 0", *["peek 5"] * (players - 1))
    assert game_of(batch).points.tolist() == [6, 0, 0, 0, 0, 0]
    play(batch, "take 1")
    assert batch.over[0]
    assert batch.payoffs[0, 0] == pytest.approx(-1 / (players - 1))
    assert (batch.payoffs[0, 1:] > 0).all()


@for_all_players
def test_e1_two_traps_do_not_end_the_game(players):
    """E1: exactly three; two of one seat and one of every other are not enough."""
    variant = Variant(num_players=players, traps=(12, 0), copies=(12, 12), burn="never")
    batch = table(variant, "1t " * 12, [1] * 12)
    play(batch, *[f"take {turn % 6}" for turn in range(2 * players)])
    record = game_of(batch)
    assert record.traps.tolist() == [2] * players + [0] * (6 - players)
    assert record.phase == DECISION
    assert not batch.over[0]


@for_all_players
def test_e1_the_third_trap_counts_before_the_empty_reserve(players):
    """E1, E2: with one card left in the reserve a third trap still loses and draws nothing."""
    variant = Variant(
        num_players=players, traps=(1, 0), copies=(1, 2), row_size=2, trap_limit=1, burn="never"
    )
    batch = table(variant, "1t 2c 2c", [1])
    assert game_of(batch).reserve == 1
    play(batch, "take 0")
    record = game_of(batch)
    assert (record.phase, record.reserve, record.top) == (OVER, 1, 2)
    assert record.row.tolist() == [0, 2, 0, 0, 0, 0]
    assert batch.payoffs[0, 0] == pytest.approx(-1 / (players - 1))


@for_all_players
def test_e1_every_api_reports_it_in_the_same_step(players):
    """E1: Gymnasium and PettingZoo end with the step that took the third trap."""
    variant = Variant(num_players=players, trap_limit=1)
    deck = third_trap_deck(variant)
    options = {"deck": deck, "dice": [6]}
    env = gymnasium.make("AllesKaese-v0", num_players=players, trap_limit=1, seat=0)
    env.reset(seed=0, options=options)
    _, reward, terminated, truncated, info = env.step(action_of("take 0"))
    assert terminated
    assert not truncated
    assert reward == pytest.approx(-1 / (players - 1))
    assert not info["action_mask"].any()
    aec = alles_kaese_v0.raw_env(num_players=players, trap_limit=1)
    aec.reset(seed=0, options=options)
    aec.step(action_of("take 0"))
    assert all(aec.terminations.values())
    assert aec.rewards["player_0"] == pytest.approx(-1 / (players - 1))
    assert sum(aec.rewards.values()) == pytest.approx(0, abs=1e-6)


def third_trap_deck(variant):
    """A deck with a trap of six holes in slot 0."""
    deck = variant.deck
    deck.remove((6, True))
    return [(6, True), *deck]


@for_all_players
def test_e2_the_draw_of_the_last_card_by_a_refill_ends_the_game(players):
    """E2: one turn earlier it goes on; the cards left in the row count for nobody."""
    variant = Variant(
        num_players=players, traps=(1, 1), copies=(3, 3), row_size=2, trap_limit=2, burn="never"
    )
    batch = table(variant, "1c 2c 1t 2c 1c 2t", [1, 1, 2, 2])
    play(batch, "take 0", "discard 0", "discard 0")
    record = game_of(batch)
    assert (record.phase, record.reserve, record.top) == (DECISION, 1, 2)
    play(batch, "discard 1")
    record = game_of(batch)
    assert batch.over[0]
    assert (record.phase, record.reserve, record.top, record.turns) == (OVER, 0, 0, 4)
    assert record.row[:2].tolist() == [1, 2]
    assert record.points.tolist() == [1, 0, 0, 0, 0, 0]
    assert record.traps.sum() == 0
    assert batch.payoffs[0].tolist() == pytest.approx([1] + [-1 / (players - 1)] * (players - 1))


@pytest.mark.parametrize(("players", "burn"), [(2, "peek"), (3, "peek"), (2, "turn"), (6, "turn")])
def test_e2_the_burn_of_the_last_card_ends_the_game(players, burn):
    """E2, T4."""
    variant = Variant(
        num_players=players, traps=(0, 1), copies=(3, 1), row_size=2, trap_limit=2, burn=burn
    )
    batch = table(variant, "1c 1c 1c 2t", [2, 2])
    play(batch, "peek 0")
    assert not batch.over[0]
    assert game_of(batch).reserve == 1
    play(batch, "peek 1")
    record = game_of(batch)
    assert batch.over[0]
    assert (record.phase, record.reserve, record.turns) == (OVER, 0, 2)
    assert record.gone.tolist() == by_holes(_1=1, _2=1)
    assert batch.payoffs[0].tolist() == [0] * players


@for_all_players
def test_e2_a_peek_that_burns_nothing_does_not_end_the_game(players):
    """E2, T4: with one card in the reserve and no burn it goes on."""
    variant = Variant(
        num_players=players, traps=(0, 1), copies=(2, 1), row_size=2, trap_limit=2, burn="never"
    )
    batch = table(variant, "1c 1c 2t", [2] * 50)
    play(batch, *["peek 0"] * 40)
    assert not batch.over[0]
    assert game_of(batch).reserve == 1


@for_all_players
@pytest.mark.parametrize("kind", ["take", "discard"])
def test_e2_with_burn_turn_the_refill_comes_before_the_burn(players, kind):
    """E2, T4, T6: two cards left are drawn and burned, one card left is drawn."""
    fields = {"num_players": players, "row_size": 2, "burn": "turn", "traps": (0, 1)}
    two_left = table(Variant(copies=(3, 1), **fields), "1c 1c 2t 1c", [1])
    play(two_left, f"{kind} 0")
    assert two_left.over[0]
    assert game_of(two_left).row[:2].tolist() == [2, 1]
    assert game_of(two_left).gone.tolist() == by_holes(_1=2)
    one_left = table(Variant(copies=(2, 1), **fields), "1c 1c 2t", [1])
    play(one_left, f"{kind} 0")
    assert one_left.over[0]
    assert game_of(one_left).row[:2].tolist() == [2, 1]
    assert game_of(one_left).gone.tolist() == by_holes(_1=1)


@for_all_players
@pytest.mark.parametrize("left", [1, 2])
def test_e2_the_record_says_whose_turn_ended_the_game(players, left):
    """E2, S3: also where a burn after the refill took the last card; no burn is due any more."""
    variant = Variant(
        num_players=players, traps=(0, 1), copies=(1 + left, 1), row_size=2, burn="turn"
    )
    batch = table(variant, "1c 1c 2t 1c" if left == 2 else "1c 1c 2t", [1])
    play(batch, "discard 0")
    record = game_of(batch)
    assert record.phase == OVER
    assert batch.seats[0] == record.seat == 0
    assert record.burn_due == 0


@pytest.mark.parametrize("players", [2, 3])
def test_e3_with_two_or_three_players_every_turn_uses_one_card(players):
    """E3: until a third trap ends the game; so there are at most 30 turns."""
    batch = GameBatch(300, Variant(num_players=players), seed=6)
    rng = np.random.default_rng(6)
    while len(playing(batch)):
        play_random_plies(batch, 1, rng)
        by_trap = batch.games["traps"].max(axis=1) == 3
        used = 30 - batch.games["reserve"].astype(int)
        assert (batch.games["turns"] - by_trap == used).all()
    assert batch.games["turns"].max() == 30


@pytest.mark.parametrize("players", [2, 3])
def test_e3_a_game_of_two_or_three_without_takes_has_exactly_30_turns(players):
    """E3: the bound is reached when nobody takes a card."""
    batch = GameBatch(200, Variant(num_players=players), seed=7)
    for turn in range(30):
        assert (batch.games["turns"] == turn).all()
        assert not batch.over.any()
        first = batch.masks.argmax(axis=1)
        batch.step(first + (first >= MAX_SLOTS) * MAX_SLOTS)  # a peek, or the discard of a take
    assert batch.over.all()


@pytest.mark.parametrize("players", [4, 5, 6])
def test_e3_with_four_to_six_players_there_is_no_bound(players):
    """E3: as long as nothing matches, no card is used."""
    batch = table(Variant(num_players=players), f"{ROW} 6t", [5] * 301)
    play(batch, *[f"peek {turn % 6}" for turn in range(300)])
    record = game_of(batch)
    assert (record.turns, record.reserve, record.phase) == (300, 30, DECISION)


@pytest.mark.parametrize("players", [4, 5, 6])
def test_e3_with_four_to_six_players_a_turn_uses_a_card_just_if_it_matches(players):
    """E3: and at least one of the six rolls matches."""
    batch = GameBatch(300, Variant(num_players=players), seed=8)
    rng = np.random.default_rng(8)
    while len(playing(batch)):
        before = batch.games.copy()
        rows = playing(batch)
        assert (before["row"][rows] > 0).all()
        play_random_plies(batch, 1, rng)
        matched = (before["row"] == before["die"][:, None]).any(axis=1)
        going_on = batch.games["traps"].max(axis=1) < 3
        used = before["reserve"].astype(int) - batch.games["reserve"]
        rows = rows[going_on[rows]]
        assert (used[rows] == matched[rows]).all()


# --- P. Points -----------------------------------------------------------------------------


@for_all_players
def test_p1_points_are_the_holes_on_taken_cheese_and_traps_are_worth_nothing(players):
    """P1."""
    dice = [6, *[1] * (players - 1), 5, *[1] * (players - 1), 4]
    variant = Variant(num_players=players, burn="never")
    batch = table(variant, "6c 5t 4c 2c 3c 3t 2c 2t 3c", dice)
    for move in ("take 0", "take 1", "take 2"):
        play(batch, move, *["peek 3"] * (players - 1))
    record = game_of(batch)
    assert (record.points[0], record.cheese[0], record.traps[0]) == (10, 2, 1)
    assert record.points[1:].sum() == 0
    for observer, facts in enumerate(own_facts(batch)):
        expected = [0] * players
        expected[-observer % players] = 10
        assert facts["points"].tolist() == expected


def end_with(players, *, holdings):
    """A game that has ended with what each seat has taken, such as ["2c 1t", "1c"].

    Its record is put together here, as the way there does not matter.
    """
    batch = GameBatch(1, Variant(num_players=players), seed=0)
    games = batch.games.copy()
    record = games[0]
    record.phase = OVER
    for seat, text in enumerate(holdings):
        for word in text.split():
            holes, is_trap = int(word[0]), word[1] == "t"
            record.taken[seat, holes - 1 + MAX_HOLES * is_trap] += 1
            record.traps[seat] += is_trap
            record.cheese[seat] += not is_trap
            record.points[seat] += 0 if is_trap else holes
    return with_games(batch, games).payoffs[0].tolist()


def payoffs_of(players, winners):
    """P5, from the text of the rule book."""
    share = (players / len(winners) - 1) / (players - 1)
    return pytest.approx(
        [share if seat in winners else -1 / (players - 1) for seat in range(players)]
    )


@for_all_players
def test_p2_the_most_points_win(players):
    """P2: not the most cards, and traps take nothing away."""
    for winner in range(players):
        holdings = ["1c 1c"] * players
        holdings[winner] = "3c 1t 1t"
        assert end_with(players, holdings=holdings) == payoffs_of(players, [winner])


@for_all_players
def test_p2_only_among_players_without_three_traps(players):
    """P2, E1: the most points with three traps lose to none."""
    for loser in range(players):
        holdings = [""] * players
        holdings[loser] = "6c 6c 1t 1t 2t"
        holdings[loser - 1] = "1c"
        assert end_with(players, holdings=holdings) == payoffs_of(players, [(loser - 1) % players])


@for_all_players
def test_p3_a_tie_goes_to_the_one_with_more_cheese_cards(players):
    """P3: six points of three cards beat six of two and of one."""
    for winner in range(players):
        holdings = ["6c"] * players
        holdings[winner - 1] = "4c 2c"
        holdings[winner] = "1c 2c 3c"
        assert end_with(players, holdings=holdings) == payoffs_of(players, [winner])


@for_all_players
def test_p3_traps_are_no_cards_in_a_tie(players):
    """P3, P4: the same points and cheese cards, but another number of traps: still tied."""
    holdings = ["3c"] * players
    holdings[0] = "3c 1t 1t"
    assert end_with(players, holdings=holdings) == payoffs_of(players, range(players))


@for_all_players
def test_p3_is_reached_in_a_real_game(players):
    """P3: seat 0 has two points of two cards, seat 1 of one card."""
    variant = Variant(
        num_players=players, traps=(1, 1, 0), copies=(3, 2, 1), row_size=2, burn="never"
    )
    batch = table(variant, "1c 2c 1c 1t 2t 3c", [1, 2, *[3] * (players - 2), 1, 1])
    play(batch, "take 0", "take 1", *["peek 0"] * (players - 2), "take 0", "discard 1")
    record = game_of(batch)
    assert batch.over[0]
    assert record.points[:2].tolist() == [2, 2]
    assert record.cheese[:2].tolist() == [2, 1]
    assert batch.payoffs[0].tolist() == payoffs_of(players, [0])


SHARES = [(players, winners) for players in PLAYERS for winners in range(1, players + 1)]


@pytest.mark.parametrize(("players", "winners"), SHARES)
def test_p4_who_is_still_tied_shares_the_win(players, winners):
    """P4, P5: a real game in which the first so many seats take a cheese of one hole each."""
    variant = Variant(num_players=players, traps=(0, 1), copies=(players, 1), row_size=1)
    batch = table(variant, "1c " * players + "2t", [1] * players)
    for seat in range(players):
        assert not batch.over[0]
        assert batch.payoffs[0].tolist() == [0] * players
        play(batch, "take 0" if seat < winners else "discard 0")
    assert batch.over[0]
    assert batch.payoffs[0].tolist() == payoffs_of(players, range(winners))


@for_all_players
def test_p4_a_share_may_be_between_any_two_of_the_seats(players):
    """P4: two of three, for every pair of seats."""
    for one in range(players):
        for other in range(one):
            holdings = ["2c 2c"] * players
            holdings[one] = holdings[other] = "3c 2c"
            assert end_with(players, holdings=holdings) == payoffs_of(players, [other, one])


PAYOFFS = [
    # players, winners, payoff of a winner, payoff of each other: worked out by hand
    (2, 1, 1, -1),
    (2, 2, 0, None),
    (3, 1, 1, -1 / 2),
    (3, 2, 1 / 4, -1 / 2),
    (3, 3, 0, None),
    (4, 1, 1, -1 / 3),
    (4, 2, 1 / 3, -1 / 3),
    (4, 3, 1 / 9, -1 / 3),
    (5, 2, 3 / 8, -1 / 4),
    (5, 4, 1 / 16, -1 / 4),
    (6, 1, 1, -1 / 5),
    (6, 2, 2 / 5, -1 / 5),
    (6, 3, 1 / 5, -1 / 5),
    (6, 6, 0, None),
]


@pytest.mark.parametrize(("players", "winners", "win", "loss"), PAYOFFS)
def test_p5_the_payoffs_in_numbers(players, winners, win, loss):
    """P5."""
    payoffs = end_with(players, holdings=["4c"] * winners + ["3c"] * (players - winners))
    assert payoffs == pytest.approx([win] * winners + [loss] * (players - winners))


@for_all_players
def test_p5_payoffs_are_zero_sum(players):
    """P5: over random games to their end."""
    batch = GameBatch(2000, Variant(num_players=players), seed=9)
    rng = np.random.default_rng(9)
    while len(playing(batch)):
        play_random_plies(batch, 1, rng)
    assert batch.over.all()
    assert np.abs(batch.payoffs.sum(axis=1)).max() < 1e-6
    assert batch.payoffs.max() == 1


@for_all_players
def test_p5_a_loser_by_traps_is_a_loser_like_any_other(players):
    """P5, E1."""
    holdings = [""] * players
    holdings[0], holdings[-1] = "6c 5t 5t 6t", "1c"
    assert end_with(players, holdings=holdings) == payoffs_of(players, [players - 1])


# --- I. Information ------------------------------------------------------------------------


@for_all_players
def test_i1_what_is_public_stands_in_every_observation(players):
    """I1: backs, top, reserve, die, turn, peeks, taken cards and what has gone."""
    variant = Variant(num_players=players, burn="never")
    batch = table(variant, f"{ROW} 4t 5c 6c 4c", [5, 1, 4, 6])
    play(batch, "peek 1", "take 1", "discard 1")
    turn = 3 % players
    for observer, facts in enumerate(own_facts(batch)):

        def by_place(seat, value, observer=observer):
            row = [0] * players
            row[(seat - observer) % players] = value
            return row

        assert facts["row"].tolist() == [1, 5, 2, 2, 3, 3]
        assert (facts["top"], facts["reserve"], facts["die"]) == (6, 28, 6)
        assert facts["match"] is False
        assert facts["num_players"] == players
        assert facts["turn"] == (turn - observer) % players
        assert facts["traps"].tolist() == by_place(1, 1)
        assert facts["points"].tolist() == facts["cheese"].tolist() == [0] * players
        assert facts["taken"].sum() == 1
        assert facts["taken"][(1 - observer) % players, 1].tolist() == by_holes(_1=1)
        assert facts["gone"].tolist() == by_holes(_1=1, _4=1)
        assert not facts["opponent_peeks"].any()  # the card that seat 0 peeked at has gone
        assert facts["opponent_fronts"].tolist() == [by_holes(_1=1)] * (players - 1)


@for_all_players
def test_i2_own_peeks_are_private(players):
    """I2: each seat sees the fronts that it peeked at, and no others."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 4c", [5] * 7)
    for slot in range(players):
        play(batch, f"peek {slot}")
    fronts = [CHEESE, TRAP] * 3
    for seat, facts in enumerate(own_facts(batch)):
        expected = [UNSEEN] * 6
        expected[seat] = fronts[seat]
        assert facts["front"].tolist() == expected


@for_all_players
def test_i2_a_front_learnt_by_peeking_stays_known_when_somebody_else_takes_the_card(players):
    """I2, T5a: all know it then, and each counts it once."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 4c 5c", [4, 3, 6])
    play(batch, "peek 5", "take 5")
    for facts in own_facts(batch):
        assert facts["known"].tolist() == [by_holes(), by_holes(_3=1)]
    assert game_of(batch).drawn.sum() == 1


@for_all_players
def test_i2_a_card_that_all_peeked_at_and_that_is_taken_counts_once(players):
    """I2, I4."""
    dice = [4] * players + [3, 4]
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 4c 5c", dice)
    play(batch, *["peek 5"] * players)
    assert game_of(batch).peeked.tolist() == [0, 0, 0, 0, 0, 2**players - 1]
    play(batch, "take 5")
    for facts in own_facts(batch):
        assert facts["known"].tolist() == [by_holes(), by_holes(_3=1)]
        assert facts["opponent_fronts"].tolist() == [by_holes(_3=1)] * (players - 1)
        assert facts["trap_share"][2] == pytest.approx(2 / 5)


@for_all_players
def test_i2_two_seats_may_peek_at_the_same_card(players):
    """I2, T3: each knows it, and a third one does not."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 4c", [5] * 3)
    play(batch, "peek 5", "peek 5")
    record = game_of(batch)
    assert record.peeked.tolist() == [0, 0, 0, 0, 0, 0b11]
    assert record.drawn.tolist() == [0] * 8 + [1] + [0] * 3
    for seat, facts in enumerate(own_facts(batch)):
        assert facts["front"][5] == (TRAP if seat < 2 else UNSEEN)


@for_all_players
def test_i3_nobody_knows_a_front_before_somebody_looks(players):
    """I3: another deck under the same backs is the same game, up to the look."""
    variant = Variant(num_players=players, burn="never")
    one = table(variant, f"{ROW} 4c 5c 6t", [4, 1, 2, 3])
    other = table(variant, "1t 1c 2c 2t 3c 3t 4t 5t 6c", [4, 1, 2, 3])
    for move in ("peek 4", "discard 0", "discard 2"):
        play(one, move)
        play(other, move)
        assert bytes_of(one.games) == bytes_of(other.games)
    play(one, "take 5")
    play(other, "take 5")
    assert bytes_of(one.games) == bytes_of(other.games)  # this one was the same in both


@for_all_players
def test_i4_a_known_front_is_certain_and_changes_what_the_others_are(players):
    """I4: after a trap of 3 holes is peeked at, the other five have two traps among them."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 3c 5c", [5, 1])
    play(batch, "peek 5")
    mine, *others = own_facts(batch)
    assert mine["trap_probability"] == pytest.approx([2 / 6, 2 / 6, 2 / 6, 2 / 6, 2 / 5, 1])
    assert mine["trap_share"] == pytest.approx([2 / 6, 2 / 6, 2 / 5, 3 / 6, 4 / 6, 4 / 6])
    for facts in others:
        assert facts["trap_probability"] == pytest.approx([2 / 6] * 4 + [3 / 6] * 2)


@for_all_players
def test_i4_a_known_cheese_makes_the_others_worse(players):
    """I4."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 3c 5c", [5, 1])
    play(batch, "peek 4")
    mine = facts_of(batch, 0)
    assert mine["trap_probability"] == pytest.approx([2 / 6] * 4 + [0, 3 / 5])


@for_all_players
def test_i4_holds_for_the_card_that_comes_from_the_reserve(players):
    """I4: also where a card of the same holes has been peeked at and discarded."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 3c 5c", [5, 3, 1])
    play(batch, "peek 5", "discard 5")
    for seat, facts in enumerate(own_facts(batch)):
        assert facts["row"][5] == 3
        assert facts["trap_probability"][5] == pytest.approx(2 / 5 if seat == 0 else 3 / 6)


@for_all_players
def test_i4_a_discard_that_nobody_saw_changes_no_probability(players):
    """I4: the discard pile is like the reserve."""
    batch = table(Variant(num_players=players, burn="never"), f"{ROW} 3c 5c", [3, 1])
    before = [facts["trap_share"].tolist() for facts in own_facts(batch)]
    play(batch, "discard 5")
    assert [facts["trap_share"].tolist() for facts in own_facts(batch)] == before


@for_all_players
def test_i4_is_the_chance_by_which_fronts_are_drawn(players):
    """I4: one of the first takes of each hole count is a trap as often as its share says."""
    batch = GameBatch(6000, Variant(num_players=players), seed=10)
    rows = np.flatnonzero(batch.masks[:, :MAX_SLOTS].sum(axis=1) == 0)
    actions = batch.masks[rows].argmax(axis=1)
    holes = batch.games["die"][rows]
    batch.step(actions, rows)
    was_trap = batch.games["traps"][rows, 0]
    for number, share in enumerate([2 / 6, 2 / 6, 3 / 6, 3 / 6, 4 / 6, 4 / 6], start=1):
        drawn = was_trap[holes == number]
        error = (share * (1 - share) / len(drawn)) ** 0.5
        assert abs(drawn.mean() - share) < 4.5 * error


# --- V. Variants ---------------------------------------------------------------------------


@for_all_players
def test_v_the_die_has_as_many_sides_as_there_are_hole_counts(players):
    """V."""
    for sides in range(2, 7):
        variant = Variant(num_players=players, traps=(1,) * sides, copies=(4,) * sides)
        dice = set(GameBatch(400, variant, seed=11).games["die"])
        assert dice == set(range(1, sides + 1))
        with pytest.raises(ValueError, match=f"dice\\[0\\] is {sides + 1}"):
            ScriptedDeal(variant, dice=[sides + 1])


@for_all_players
@pytest.mark.parametrize("size", range(1, 7))
def test_v_the_row_has_as_many_slots_as_the_variant_says(players, size):
    """V: cards, peeks and matches are in these slots only."""
    variant = Variant(num_players=players, traps=(1, 1), copies=(6, 6), row_size=size)
    batch = table(variant, "1c 1c 1c 1c 1c 1t 2c", [2, 1])
    record = game_of(batch)
    assert record.row.tolist() == [1] * size + [0] * (6 - size)
    assert record.reserve == 12 - size
    assert legal_moves(batch) == {f"peek {slot}" for slot in range(size)}
    play(batch, "peek 0")
    kinds = ("take", "discard")
    assert legal_moves(batch) == {f"{kind} {slot}" for kind in kinds for slot in range(size)}


@for_all_players
@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_v_the_trap_limit_is_the_trap_that_loses(players, limit):
    """V, E1."""
    variant = Variant(
        num_players=players,
        traps=(6, 0, 0),
        copies=(6, 8, 1),
        trap_limit=limit,
        burn="never",
    )
    dice = [1, *[3] * (players - 1)] * limit
    batch = table(variant, "1t 1t 1t 1t 1t 1t", dice, last="3c")
    for number in range(limit):
        assert not batch.over[0]
        play(batch, f"take {number}")
        if number < limit - 1:
            play(batch, *["peek 5"] * (players - 1))
    assert batch.over[0]
    assert game_of(batch).traps[0] == limit


@for_all_players
def test_v_traps_and_copies_are_the_deck(players):
    """V: a deck of seven cards, dealt to its end."""
    variant = Variant(
        num_players=players, traps=(1, 0, 2), copies=(2, 1, 4), row_size=3, burn="turn"
    )
    assert sorted(variant.deck) == [
        (1, False),
        (1, True),
        (2, False),
        (3, False),
        (3, False),
        (3, True),
        (3, True),
    ]
    batch = GameBatch(50, variant, seed=12)
    play_random_plies(batch, 60, np.random.default_rng(12))
    ended = batch.games
    backs = np.stack([(ended["row"] == holes).sum(axis=1) for holes in (1, 2, 3)], axis=1)
    tops = np.stack([ended["top"] == holes for holes in (1, 2, 3)], axis=1)
    counts = backs + tops + ended["below"][:, :3] + ended["gone"][:, :3]
    assert (counts == [2, 1, 4]).all()
    assert batch.over.all()


def test_v_kinds_of_actions_are_as_documented():
    """V, T2, T5: kind x slot, whatever the variant."""
    assert (PEEK, DISCARD, NUM_ACTIONS) == (0, 2, 18)
    assert [action_of(move) for move in ("peek 0", "take 0", "discard 5")] == [0, 6, 17]

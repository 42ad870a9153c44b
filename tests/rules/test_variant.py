"""What a variant and a stacked deck may be; errors name the field, the value and the choice."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, asdict, replace

import gymnasium
import numpy as np
import pytest
from builders import PLAYERS, all_variants, name_of, shuffled, stacked

from alles_kaese_env import GameBatch, Variant, alles_kaese_v0
from alles_kaese_env.command_line import Parser, add_variant, variant_of, variant_words
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.variant import VARIANTS

NOT_WHOLE = [True, False, np.True_, 2.0, 2.5, "2", None, [2], float("nan"), np.float32(2)]


def assert_refused(field, value, allowed, make):
    """A ValueError whose one line names what is wrong, what it is and what may be."""
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        make()
    message = str(caught.value)
    assert field in message
    assert str(value) in message
    assert allowed in message


# --- The variant -------------------------------------------------------------------------------


def test_the_default_is_the_published_game():
    """C1, C2, S1, E1, T4."""
    assert asdict(Variant()) == {
        "num_players": 2,
        "traps": (2, 2, 3, 3, 4, 4),
        "copies": (6, 6, 6, 6, 6, 6),
        "row_size": 6,
        "trap_limit": 3,
        "burn": "peek",
    }


@pytest.mark.parametrize("players", [-1, 0, 1, 7, 2**40, *NOT_WHOLE])
def test_wrong_number_of_players(players):
    assert_refused(
        "num_players", repr(players), "from 2 to 6", lambda: Variant(num_players=players)
    )


@pytest.mark.parametrize("size", [-1, 0, 7, *NOT_WHOLE])
def test_wrong_row_size(size):
    assert_refused("row_size", repr(size), "from 1 to 6", lambda: Variant(row_size=size))


@pytest.mark.parametrize("size", [4, 5, 6])
def test_a_row_leaves_a_card_for_the_reserve(size):
    """E2: a game cannot begin with an empty reserve."""
    assert_refused(
        "row_size",
        size,
        "from 1 to 3",
        lambda: Variant(traps=(1, 1), copies=(2, 2), row_size=size),
    )
    assert Variant(traps=(1, 1), copies=(2, 2), row_size=3).row_size == 3


@pytest.mark.parametrize("limit", [-1, 0, 37, *NOT_WHOLE])
def test_wrong_trap_limit(limit):
    assert_refused("trap_limit", repr(limit), "from 1 to 36", lambda: Variant(trap_limit=limit))


@pytest.mark.parametrize("burn", ["", "Peek", "always", 1, None, True, ["peek"], b"peek"])
def test_wrong_burn_rule(burn):
    assert_refused("burn", repr(burn), "'peek', 'turn', 'never'", lambda: Variant(burn=burn))


@pytest.mark.parametrize("traps", [(), (1,), (1,) * 7, (0,) * 12])
def test_wrong_number_of_hole_counts(traps):
    assert_refused("traps", len(traps), "2 to 6", lambda: Variant(traps=traps))


@pytest.mark.parametrize("traps", [3, None, "223344", 2.5])
def test_traps_that_are_no_sequence(traps):
    assert_refused("traps", repr(traps), "a sequence", lambda: Variant(traps=traps))


@pytest.mark.parametrize("number", [-1, 13, *NOT_WHOLE])
def test_wrong_number_of_traps(number):
    assert_refused(
        "traps[1]", repr(number), "from 0 to 12", lambda: Variant(traps=(1, number, 2, 2))
    )


@pytest.mark.parametrize("number", [-1, 0, 13, *NOT_WHOLE])
def test_wrong_number_of_copies(number):
    assert_refused(
        "copies[0]",
        repr(number),
        "from 1 to 12",
        lambda: Variant(traps=(0, 1), copies=(number, 6)),
    )


@pytest.mark.parametrize("copies", [(6,), (6,) * 7, ()])
def test_copies_are_as_many_as_traps(copies):
    assert_refused("copies", len(copies), "6, as many as traps", lambda: Variant(copies=copies))


@pytest.mark.parametrize("copies", [6, "666666", 6.0])
def test_copies_that_are_no_sequence(copies):
    assert_refused("copies", repr(copies), "a sequence", lambda: Variant(copies=copies))


def test_there_are_no_more_traps_than_cards():
    assert_refused("traps[0]", "7", "at most copies[0] = 6", lambda: Variant(traps=(7, 2)))
    assert_refused(
        "traps[1]", "3", "at most copies[1] = 2", lambda: Variant(traps=(1, 3), copies=(2, 2))
    )


def test_some_card_is_cheese():
    assert_refused(
        "traps", (2, 3), "at least one card that is cheese", lambda: Variant(2, (2, 3), (2, 3))
    )


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8])
def test_whole_numbers_of_numpy_are_welcome(kind):
    variant = Variant(
        num_players=kind(4),
        traps=np.array([1, 2], kind),
        copies=[kind(3), kind(4)],
        row_size=kind(2),
        trap_limit=kind(2),
    )
    assert variant == Variant(4, (1, 2), (3, 4), 2, 2)
    for value in (variant.num_players, *variant.traps, *variant.copies, variant.row_size):
        assert type(value) is int


def test_a_variant_cannot_be_changed():
    variant = Variant()
    with pytest.raises(FrozenInstanceError):
        variant.burn = "never"
    with pytest.raises(ValueError, match="read-only"):
        variant.rules["burn"] = 0


@pytest.mark.parametrize("variant", all_variants(), ids=name_of)
def test_a_variant_can_be_stored_compared_and_made_again(variant):
    assert pickle.loads(pickle.dumps(variant)) == variant
    assert Variant(**asdict(variant)) == variant
    assert replace(variant) == variant
    assert len({variant, Variant(**asdict(variant))}) == 1
    assert replace(variant, trap_limit=1) != replace(variant, trap_limit=2)


@pytest.mark.parametrize(
    "make",
    [
        lambda **fields: gymnasium.make("AllesKaese-v0", **fields),
        lambda **fields: gymnasium.make_vec(
            "AllesKaese-v0", num_envs=2, vectorization_mode="vector_entry_point", **fields
        ),
        lambda **fields: alles_kaese_v0.raw_env(**fields),
        lambda **fields: AllesKaeseVecEnv(2, **fields),
    ],
    ids=["gymnasium", "vector", "pettingzoo", "sb3"],
)
class TestAPIs:
    def test_an_unknown_option_is_named(self, make):
        said = r"unexpected keyword argument 'num_player'; allowed: .*num_players.*traps.*burn"
        with pytest.raises(TypeError, match=said):
            make(num_player=3)

    def test_a_wrong_value_is_named(self, make):
        with pytest.raises(ValueError, match="burn is 'no'; allowed: 'peek', 'turn', 'never'"):
            make(burn="no")
        with pytest.raises(ValueError, match=r"num_players is 7; allowed: .* from 2 to 6"):
            make(num_players=7)

    def test_every_field_is_taken(self, make):
        made = make(num_players=3, traps=(1, 1), copies=(4, 4), row_size=2, trap_limit=2)
        variant = made if isinstance(made, Variant) else getattr(made, "unwrapped", made).variant
        assert variant == Variant(3, (1, 1), (4, 4), 2, 2)


# --- Stacked decks -----------------------------------------------------------------------------

VARIANT = Variant(traps=(1, 0), copies=(2, 3), row_size=2)
DECK = [(1, True), (1, False), (2, False), (2, False), (2, False)]


def with_card(number, card):
    return [*DECK[:number], card, *DECK[number + 1 :]]


WRONG_DECKS = [
    # deck, what the message names, what it says is allowed
    (DECK[:-1], "4 cards", "5"),
    ([*DECK, (2, False)], "6 cards", "5"),
    ([], "0 cards", "5"),
    (with_card(0, (1, False)), "2 cheese cards of 1 holes", "1"),
    (with_card(1, (1, True)), "0 cheese cards of 1 holes", "1"),
    (with_card(2, (2, True)), "cheese cards of 2 holes", "3"),
    (with_card(1, (2, False)), "0 cheese cards of 1 holes", "1"),
    (with_card(2, (3, False)), "deck[2][0] is 3", "a whole number from 1 to 2"),
    (with_card(2, (0, False)), "deck[2][0] is 0", "a whole number from 1 to 2"),
    (with_card(2, (-1, False)), "deck[2][0] is -1", "a whole number from 1 to 2"),
    (with_card(2, (2.0, False)), "deck[2][0] is 2.0", "a whole number from 1 to 2"),
    (with_card(2, (True, False)), "deck[2][0] is True", "a whole number from 1 to 2"),
    (with_card(2, ("2", False)), "deck[2][0] is '2'", "a whole number from 1 to 2"),
    (with_card(2, (None, False)), "deck[2][0] is None", "a whole number from 1 to 2"),
    (with_card(0, (1, 2)), "deck[0][1] is 2", "True, False"),
    (with_card(0, (1, "trap")), "deck[0][1] is 'trap'", "True, False"),
    (with_card(0, (1, None)), "deck[0][1] is None", "True, False"),
    (with_card(0, 1), "deck is ", "a list of (holes, is_trap)"),
    (with_card(0, (1, True, 0)), "deck is ", "a list of (holes, is_trap)"),
    (5, "deck is 5", "a list of (holes, is_trap)"),
    ("deck", "deck is 'deck'", "a list of (holes, is_trap)"),
]


@pytest.mark.parametrize(
    ("deck", "named", "allowed"), WRONG_DECKS, ids=[named for _, named, _ in WRONG_DECKS]
)
def test_wrong_decks(deck, named, allowed):
    assert_refused("deck", named, f"allowed: {allowed}", lambda: ScriptedDeal(VARIANT, deck))


WRONG_DICE = [
    ([3], "dice[0] is 3", "a whole number from 1 to 2"),
    ([1, 0], "dice[1] is 0", "a whole number from 1 to 2"),
    ([1, -1], "dice[1] is -1", "a whole number from 1 to 2"),
    ([1.0], "dice[0] is 1.0", "a whole number from 1 to 2"),
    ([True], "dice[0] is True", "a whole number from 1 to 2"),
    (["1"], "dice[0] is '1'", "a whole number from 1 to 2"),
    ([None], "dice[0] is None", "a whole number from 1 to 2"),
    ("12", "dice is '12'", "a list of numbers"),
    (1, "dice is 1", "a list of numbers"),
    (None, "dice is None", "a list of numbers"),
]


@pytest.mark.parametrize(
    ("dice", "named", "allowed"), WRONG_DICE, ids=[named for _, named, _ in WRONG_DICE]
)
def test_wrong_dice(dice, named, allowed):
    assert_refused("dice", named, allowed, lambda: ScriptedDeal(VARIANT, DECK, dice))


def apis():
    fields = asdict(VARIANT)
    return [
        gymnasium.make("AllesKaese-v0", seat=0, **fields),
        alles_kaese_v0.raw_env(**fields),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deck": DECK[:-1]}, "deck has 4 cards; allowed: 5"),
        ({"dice": [3]}, r"dice\[0\] is 3; allowed"),
        ({"decks": DECK}, "options has 'decks'; allowed: 'deck', 'dice'"),
        ({"deck": DECK, "die": [1]}, "options has 'die'; allowed: 'deck', 'dice'"),
        ({"deck": None, "seed": 1}, "options has 'seed'; allowed: 'deck', 'dice'"),
        ({"dice": None}, "dice is None; allowed: a list of numbers"),
    ],
)
def test_wrong_options_of_reset_are_refused_and_leave_the_game_as_it_is(options, message):
    for env in apis():
        env.reset(seed=1, options={"deck": DECK, "dice": [1, 2]})
        inner = env.unwrapped
        batch = inner._games.batch if hasattr(inner, "_games") else inner._batch
        before = batch.games.copy(), batch.streams.copy()
        with pytest.raises(ValueError, match=message):
            env.reset(seed=2, options=options)
        assert (batch.games == before[0]).all()
        assert (batch.streams == before[1]).all()


def test_a_script_is_for_one_game():
    batch = GameBatch(2, VARIANT, seed=0)
    before = batch.games.copy()
    with pytest.raises(ValueError, match="script is given for 2 games; allowed: for 1 game"):
        batch.reset(script=ScriptedDeal(VARIANT, DECK))
    assert (batch.games == before).all()


def test_options_with_nothing_in_them_deal_by_chance():
    for options in (None, {}):
        for env in apis():
            env.reset(seed=3, options=options)
            inner = env.unwrapped
            batch = inner._games.batch if hasattr(inner, "_games") else inner._batch
            assert batch.script is None


@pytest.mark.parametrize("players", PLAYERS)
def test_dice_without_a_deck(players):
    """The cards come by chance, the first rolls are given and later ones are not."""
    variant = Variant(num_players=players)
    later = set()
    for seed in range(40):
        batch = GameBatch(1, variant, seed=seed)
        batch.reset(script=ScriptedDeal(variant, dice=[4, 2]))
        assert batch.games["die"][0] == 4
        batch.step(batch.random_actions())
        assert batch.games["die"][0] == 2
        batch.step(batch.random_actions())
        later.add(int(batch.games["die"][0]))
    assert later == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("players", PLAYERS)
def test_a_deck_without_dice(players):
    """The cards are given, and all rolls are by chance."""
    variant = Variant(num_players=players)
    deck = stacked(variant, "6t 5c 4c 3c 2t 1c 1t")
    rolled = set()
    for seed in range(60):
        batch = GameBatch(1, variant, seed=seed)
        batch.reset(script=ScriptedDeal(variant, deck))
        assert batch.games["row"][0].tolist() == [6, 5, 4, 3, 2, 1]
        assert batch.games["top"][0] == 1
        rolled.add(int(batch.games["die"][0]))
    assert rolled == {1, 2, 3, 4, 5, 6}


def test_decks_may_be_given_as_arrays_and_with_numbers_for_fronts():
    variant = Variant()
    deck = shuffled(variant, np.random.default_rng(0))
    games = []
    for given in (deck, np.array(deck, int), [(h, int(t)) for h, t in deck], tuple(deck)):
        batch = GameBatch(1, variant, seed=0)
        batch.reset(script=ScriptedDeal(variant, given, np.array([1, 2, 3])))
        games.append(batch.games.copy())
    assert all((one == games[0]).all() for one in games)


def test_a_deal_does_not_change_with_the_list_that_it_came_from():
    deck, dice = list(DECK), [1, 2]
    script = ScriptedDeal(VARIANT, deck, dice)
    deck.clear()
    dice.clear()
    batch = GameBatch(1, VARIANT, seed=0)
    batch.reset(script=script)
    assert batch.games["row"][0, :2].tolist() == [1, 1]
    assert batch.games["die"][0] == 1


def test_the_next_reset_without_a_script_is_by_chance_again():
    rows = set()
    batch = GameBatch(1, seed=0)
    variant = batch.variant
    batch.reset(script=ScriptedDeal(variant, stacked(variant, "1c 1c 1c 1c 1t 1t")))
    assert batch.games["row"][0].tolist() == [1] * 6
    for _ in range(20):
        batch.reset()
        rows.add(tuple(batch.games["row"][0].tolist()))
    assert len(rows) > 10


def test_every_variant_of_the_tests_has_its_deck():
    for variant in all_variants():
        deck = variant.deck
        assert len(deck) == sum(variant.copies)
        assert sum(is_trap for _, is_trap in deck) == sum(variant.traps)
        for holes in range(1, variant.num_holes + 1):
            fronts = [is_trap for number, is_trap in deck if number == holes]
            assert len(fronts) == variant.copies[holes - 1]
            assert sum(fronts) == variant.traps[holes - 1]


def test_a_variant_has_a_name():
    assert Variant.named("full") == Variant()
    assert Variant.named("50k").copies == (3, 3)
    assert Variant.named("50k", num_players=4, burn="turn") == Variant(
        4, traps=(1, 1), copies=(3, 3), row_size=2, trap_limit=1, burn="turn"
    )
    assert_refused("variant", "'51k'", "'50k'", lambda: Variant.named("51k"))
    assert_refused("row_size", "9", "from 1 to 5", lambda: Variant.named("50k", row_size=9))


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("fields", [{}, {"row_size": 1}, {"traps": (1, 2), "copies": (3, 4)}])
def test_a_command_takes_rules_and_says_how_it_was_given_them(name, fields):
    parser = Parser()
    add_variant(parser, "50k")
    variant = Variant.named(name, **fields)
    words = variant_words(variant) or ["--variant", "full"]
    assert variant_of(parser.parse_args(words), "50k") == variant
    assert variant_of(parser.parse_args([]), "50k") == Variant.named("50k")
    assert variant_of(parser.parse_args(words), num_players=5).num_players == 5

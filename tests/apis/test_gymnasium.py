"""The Gymnasium API: `AllesKaeseEnv`, alone, through `gym.make` and behind wrappers."""

from __future__ import annotations

import copy
import warnings
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import OrderEnforcing, RecordEpisodeStatistics, TimeLimit
from reference.game import ReferenceGame

from alles_kaese_env import (
    NUM_ACTIONS,
    OBSERVATION,
    AllesKaeseEnv,
    AllesKaeseVectorEnv,
    GameBatch,
    Variant,
    decode_action,
    encode_action,
)
from apis.helpers import (
    BAD_SEEDS,
    COPIES,
    GAMES_A_SEAT,
    GOOD_SEEDS,
    KINDS,
    NO_ACTIONS,
    SEATS_AT_TABLE,
    VARIANTS,
    Broken,
    Cheat,
    FirstLegal,
    Gambler,
    Hasher,
    NeedsArgument,
    arrays_in,
    assert_no_views,
    assert_same,
    episodes_digest,
    mask_by_hand,
    path_of,
    payoffs_by_hand,
    pick,
    play_on,
    run_python,
    scribble,
    shuffled_deck,
    stacked_deck,
    state_of,
    third_trap_options,
)

# The checkers sample actions without the mask, so they need on_illegal="forfeit".
OPTIONS = {
    **VARIANTS,
    "first seat": {"seat": 0},
    "last seat": {"num_players": 6, "seat": 5},
    "shaped": {"num_players": 3, "reward": "shaped"},
    "agent": {"num_players": 4, "opponents": Hasher()},
    "agents": {"num_players": 3, "opponents": ["random", path_of("FirstLegal")]},
    "forfeit": {"on_illegal": "forfeit"},
    "ansi": {"render_mode": "ansi"},
}


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS.keys())
def options(request):
    return request.param


@pytest.fixture
def playing():
    """An environment in the middle of a game, and its last info."""
    env = AllesKaeseEnv(num_players=3, opponents=Hasher(), on_illegal="raise", render_mode="ansi")
    info = env.reset(seed=3)[1]
    return env, play_on(env, info, 4)[-1][-1]


def illegal_action(env) -> int:
    return int(env.action_masks().argmin())


# --- Checkers ---------------------------------------------------------------------------------


def test_checker_finds_no_fault(options):
    check_env(gym.make("AllesKaese-v0", **options).unwrapped)


def test_checker_behind_the_wrappers_of_make(options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(gym.make("AllesKaese-v0", **options))
    # The checker would rather have the environment without wrappers; it says nothing else.
    assert ["is different from the unwrapped" in str(one.message) for one in caught] == [True]


def test_checker_finds_no_fault_without_recall():
    env = gym.make("AllesKaeseNoRecall-v0")
    check_env(env.unwrapped)
    assert (env.spec.id, env.unwrapped._batch.recall) == ("AllesKaeseNoRecall-v0", False)


def test_spaces():
    env = gym.make("AllesKaese-v0", num_players=5)
    assert env.action_space == gym.spaces.Discrete(NUM_ACTIONS)
    assert env.action_space.start == 0
    assert env.observation_space == gym.spaces.Box(0, 1, (OBSERVATION.size,), np.float32)


# --- Masks ----------------------------------------------------------------------------------


def test_masks_are_those_of_the_rules(options):
    env = AllesKaeseEnv(**options)
    observation, info = env.reset(seed=1)
    rng = np.random.default_rng(1)
    for _ in range(300):
        mask = info["action_mask"]
        assert mask.dtype == np.int8
        assert mask.shape == (NUM_ACTIONS,)
        assert mask.flags.c_contiguous
        masks = env.action_masks()
        assert masks.dtype == bool
        assert np.array_equal(masks, mask)
        assert observation in env.observation_space
        assert np.array_equal(masks, mask_by_hand(observation, env.variant.row_size))
        observation, _, terminated, truncated, info = env.step(pick(mask, rng))
        assert not truncated
        if terminated:
            assert not info["action_mask"].any()
            assert not env.action_masks().any()
            observation, info = env.reset()


def test_sampled_actions_are_legal():
    env = AllesKaeseEnv(num_players=4, on_illegal="raise")
    info = env.reset(seed=2)[1]
    env.action_space.seed(2)
    for _ in range(100):
        samples = {int(env.action_space.sample(info["action_mask"])) for _ in range(100)}
        assert samples <= set(np.flatnonzero(info["action_mask"]))
        _, _, terminated, _, info = env.step(env.action_space.sample(info["action_mask"]))
        if terminated:
            info = env.reset()[1]


@pytest.mark.parametrize("seed", range(40))
def test_just_what_the_mask_allows_is_accepted(seed):
    env = AllesKaeseEnv(num_players=2 + seed % 5, on_illegal="raise")
    info = env.reset(seed=seed)[1]
    play_on(env, info, seed % 8, seed)
    mask = env.action_masks()
    for action in range(NUM_ACTIONS):
        if mask[action]:
            before = state_of(env)
            tried = copy.deepcopy(env)
            tried.step(action)
            assert state_of(tried) != before
        else:
            with pytest.raises(ValueError, match=f"action of game 0 is {action} "):
                env.step(action)


@pytest.mark.parametrize(
    "options",
    [
        {"trap_limit": 1, "seat": 1},
        {"traps": (1, 1), "copies": (2, 2), "row_size": 2, "num_players": 4, "seat": 2},
    ],
    ids=["by a trap", "by the reserve"],
)
def test_an_episode_begins_with_a_decision_where_opponents_can_end_a_game_before(options):
    env = AllesKaeseEnv(**options)
    assert all(env.reset(seed=seed)[1]["action_mask"].any() for seed in range(50))


# --- Illegal actions --------------------------------------------------------------------------


@pytest.mark.parametrize("reward", ["win", "shaped"])
@pytest.mark.parametrize("players", range(2, 7))
def test_forfeit_ends_the_episode_as_a_lost_game(players, reward):
    env = AllesKaeseEnv(num_players=players, reward=reward, on_illegal="forfeit")
    info = env.reset(seed=players)[1]
    trace = play_on(env, info, 3, players)
    assert not any(result[-1]["illegal_action"] for result in trace)
    earlier = sum(result[1] for result in trace)
    before = state_of(env)
    last_observation = trace[-1][0]
    observation, reward, terminated, truncated, info = env.step(illegal_action(env))
    assert earlier + reward == pytest.approx(-1 / (players - 1), abs=1e-6)
    assert (terminated, truncated, info["illegal_action"]) == (True, False, True)
    assert state_of(env) == before
    assert np.array_equal(observation, last_observation)
    assert not info["action_mask"].any()


def test_forfeit_is_the_default_and_does_not_stick():
    env = gym.make("AllesKaese-v0")
    env.reset(seed=0)
    action = illegal_action(env.unwrapped)
    assert env.step(action)[4]["illegal_action"]
    info = env.reset()[1]
    assert not info["illegal_action"]
    assert not env.step(info["action_mask"].argmax())[4]["illegal_action"]


def test_raise_leaves_the_game_as_it_is(playing):
    env, info = playing
    before, twin = state_of(env), copy.deepcopy(env)
    with pytest.raises(ValueError, match="action of game 0 is") as caught:
        env.step(illegal_action(env))
    assert ", ".join(str(one) for one in np.flatnonzero(info["action_mask"])) in str(caught.value)
    assert state_of(env) == before
    assert_same(play_on(env, info, 50), play_on(twin, info, 50))


@pytest.mark.parametrize("on_illegal", ["forfeit", "raise"])
@pytest.mark.parametrize("action", NO_ACTIONS.values(), ids=NO_ACTIONS.keys())
def test_what_is_no_action_raises_and_changes_nothing(action, on_illegal):
    env = AllesKaeseEnv(on_illegal=on_illegal)
    info = env.reset(seed=4)[1]
    before, twin = state_of(env), copy.deepcopy(env)
    with pytest.raises(ValueError, match=r"action is .* allowed: a whole number from 0 to 17"):
        env.step(action)
    assert state_of(env) == before
    assert_same(play_on(env, info, 20), play_on(twin, info, 20))


@pytest.mark.parametrize("make", ["True", "3.0", "[3, 4]", "float('nan')"])
def test_a_tensor_that_is_no_action_raises(make, playing):
    torch = pytest.importorskip("torch")
    env, _ = playing
    before = state_of(env)
    with pytest.raises(ValueError, match="action is"):
        env.step(torch.tensor(eval(make)))
    assert state_of(env) == before


# --- Forms of an action -------------------------------------------------------------------


NUMPY_INTEGERS = [
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.longlong,
]


@pytest.mark.parametrize("kind", NUMPY_INTEGERS, ids=lambda kind: kind.__name__)
def test_every_numpy_integer_is_an_action(kind, playing):
    env, info = playing
    action = int(np.flatnonzero(info["action_mask"])[-1])
    expected = copy.deepcopy(env).step(action)
    for form in (kind(action), np.array(action, kind), np.array([action], kind)):
        assert_same(copy.deepcopy(env).step(form), expected)


def test_tensors_of_one_element_are_actions(playing):
    torch = pytest.importorskip("torch")
    env, info = playing
    action = int(np.flatnonzero(info["action_mask"])[-1])
    expected = copy.deepcopy(env).step(action)
    for kind in (torch.int64, torch.int32, torch.uint8):
        for form in (torch.tensor(action, dtype=kind), torch.tensor([action], dtype=kind)):
            assert_same(copy.deepcopy(env).step(form), expected)


# --- Order of calls -----------------------------------------------------------------------


def test_step_before_reset_raises():
    with pytest.raises(ResetNeeded, match="reset"):
        AllesKaeseEnv().step(0)


def test_step_after_the_end_raises():
    env = AllesKaeseEnv()
    info = env.reset(seed=0)[1]
    terminated = False
    while not terminated:
        _, _, terminated, _, info = env.step(info["action_mask"].argmax())
    before = state_of(env)
    for action in range(NUM_ACTIONS):
        with pytest.raises(ResetNeeded, match="reset"):
            env.step(action)
    assert state_of(env) == before
    env.reset()
    env.step(env.action_masks().argmax())


def test_step_after_a_forfeit_raises():
    env = AllesKaeseEnv()
    env.reset(seed=0)
    env.step(illegal_action(env))
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(0)


def test_close_twice():
    for env in (AllesKaeseEnv(), gym.make("AllesKaese-v0")):
        env.reset(seed=0)
        env.close()
        env.close()


# --- Rendering ----------------------------------------------------------------------------


def test_render_before_reset_raises():
    with pytest.raises(ResetNeeded, match="reset"):
        AllesKaeseEnv(render_mode="ansi").render()
    with pytest.raises(ResetNeeded):
        gym.make("AllesKaese-v0", render_mode="ansi").render()


def test_render_without_a_mode_warns():
    env = AllesKaeseEnv()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


def test_render_shows_the_table():
    env = AllesKaeseEnv(num_players=4, seat=2, render_mode="ansi")
    observation, _ = env.reset(seed=0)
    facts = OBSERVATION.facts(observation, env.variant)
    text = env.render()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(f"die {facts['die']} ")
    assert f"reserve {facts['reserve']} cards, {facts['top']} holes on top" in lines[0]
    assert lines[2].split() == ["holes", *map(str, facts["row"])]
    (mine,) = (line for line in lines if "(you)" in line)
    assert mine.startswith("> seat 2:")


# --- Options -----------------------------------------------------------------------------


BAD_OPTIONS = {
    "num_players": 7,
    "seat": 2,
    "reward": "points",
    "on_illegal": "ignore",
    "burn": "often",
    "row_size": 7,
    "trap_limit": 0,
    "traps": (7, 2, 3, 3, 4, 4),
    "copies": (6, 6),
    "opponents": 5,
}
MORE_BAD_OPTIONS = [
    ("num_players", 1),
    ("num_players", 2.0),
    ("num_players", True),
    ("num_players", "2"),
    ("num_players", None),
    ("seat", -1),
    ("seat", "0"),
    ("seat", True),
    ("reward", None),
    ("on_illegal", True),
    ("opponents", ["random", "random"]),
    ("opponents", []),
    ("opponents", None),
]


def make_env(**options):
    return AllesKaeseEnv(**options)


def make_by_id(**options):
    return gym.make("AllesKaese-v0", **options)


def make_vector(**options):
    return AllesKaeseVectorEnv(2, **options)


def make_vector_by_id(**options):
    mode = {"vectorization_mode": "vector_entry_point"}
    return gym.make_vec("AllesKaese-v0", num_envs=2, **mode, **options)


@pytest.mark.parametrize(("name", "value"), [*BAD_OPTIONS.items(), *MORE_BAD_OPTIONS])
@pytest.mark.parametrize("make", [make_env, make_by_id, make_vector, make_vector_by_id])
def test_a_wrong_option_is_named(make, name, value):
    with pytest.raises(ValueError, match=name):
        make(**{name: value})


@pytest.mark.parametrize("mode", ["film", "", 3])
@pytest.mark.parametrize("make", [make_env, make_vector])
def test_a_wrong_render_mode_is_named(make, mode):
    with pytest.raises(ValueError, match="render_mode"):
        make(render_mode=mode)


@pytest.mark.filterwarnings("ignore:.*render_mode:UserWarning")  # gym.make warns before we raise
def test_a_wrong_render_mode_is_named_through_make():
    with pytest.raises(ValueError, match="render_mode is 'film'; allowed: 'human', 'ansi'"):
        make_by_id(render_mode="film")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deck": None, "seed": 3}, "'seed'"),
        ({"reset_mask": np.ones(1, bool)}, "'reset_mask'"),
        ({"num_players": 3}, "'num_players'"),
        ({"deck": stacked_deck(Variant())[1:]}, "deck has 35 cards"),
        ({"deck": [(1, True)] * 36}, r"deck has \d+ .* of \d holes; allowed: \d"),
        ({"deck": [(7, True), *stacked_deck(Variant())[1:]]}, r"deck\[0\]\[0\] is 7"),
        ({"deck": [(1, 2), *stacked_deck(Variant())[1:]]}, r"deck\[0\]\[1\] is 2"),
        ({"deck": [(1.0, True), *stacked_deck(Variant())[1:]]}, r"deck\[0\]\[0\] is 1.0"),
        ({"deck": [1] * 36}, "deck is"),
        ({"deck": 3}, "deck is 3"),
        ({"deck": "cheese"}, "deck is 'cheese'"),
        ({"dice": [1, 7]}, r"dice\[1\] is 7"),
        ({"dice": [0]}, r"dice\[0\] is 0"),
        ({"dice": [1.0]}, r"dice\[0\] is 1.0"),
        ({"dice": [True]}, r"dice\[0\] is True"),
        ({"dice": 3}, "dice is 3"),
        ({"dice": "123"}, "dice is '123'"),
    ],
)
def test_a_wrong_reset_option_is_named_and_changes_nothing(options, message, playing):
    env, info = playing
    before, twin = state_of(env), copy.deepcopy(env)
    with pytest.raises(ValueError, match=message):
        env.reset(seed=1, options=options)
    assert state_of(env) == before
    assert_same(play_on(env, info, 30), play_on(twin, info, 30))


def test_reset_takes_empty_options():
    env = AllesKaeseEnv()
    first = env.reset(seed=1)
    assert_same(env.reset(seed=1, options={}), first)
    assert_same(env.reset(seed=1, options=None), first)


# --- Scripted deals -----------------------------------------------------------------------


def assert_like_reference(observation, game: ReferenceGame, seat: int, variant: Variant):
    """All that a seat knows is what the physical game says (I1, I2, I4)."""
    facts = OBSERVATION.facts(observation, variant)
    players = variant.num_players
    seats = [(seat + place) % players for place in range(players)]
    holes = [card.holes if card else 0 for card in game.row]
    filled = [slot for slot, card in enumerate(game.row) if card]
    assert facts["row"][: variant.row_size].tolist() == holes
    assert facts["reserve"] == len(game.reserve)
    assert facts["top"] == (game.reserve[0].holes if game.reserve else 0)
    assert facts["turn"] == (None if game.over else (game.seat - seat) % players)
    if not game.over:
        assert facts["die"] == game.die
        assert facts["match"] == bool(game.matching_slots())
    assert facts["traps"].tolist() == [game.traps(one) for one in seats]
    assert facts["points"].tolist() == [game.points(one) for one in seats]
    assert facts["cheese"].tolist() == [game.cheese_cards(one) for one in seats]
    assert facts["gone"].tolist() == [*game.gone, *[0] * (6 - len(game.gone))]
    for slot in filled:
        knows = seat in game.slot_peekers(slot)
        assert facts["front"][slot] == (1 + game.row[slot].is_trap if knows else 0)
        peekers = game.slot_peekers(slot)
        assert facts["opponent_peeks"][slot].tolist() == [one in peekers for one in seats[1:]]
        share = float(game.trap_probability(seat, slot))
        assert facts["trap_probability"][slot] == pytest.approx(share, abs=1e-6)
    cheese, traps = game.known_counts(seat)
    assert facts["known"][0, : len(cheese)].tolist() == list(cheese)
    assert facts["known"][1, : len(traps)].tolist() == list(traps)


def reference_of(variant: Variant, deck, dice) -> ReferenceGame:
    return ReferenceGame(
        deck,
        dice,
        num_players=variant.num_players,
        row_size=variant.row_size,
        trap_limit=variant.trap_limit,
        burn=variant.burn,
    )


def encoded_legal(game: ReferenceGame) -> list[int]:
    numbers = {name: kind for kind, name in KINDS.items()}
    return sorted(encode_action(numbers[kind], slot) for kind, slot in game.legal_actions())


def play_number(game: ReferenceGame, action: int) -> None:
    kind, slot = decode_action(action)
    game.play(KINDS[kind], slot)


def let_first_legal_play(game: ReferenceGame, seat: int) -> None:
    while not game.over and game.seat != seat:
        play_number(game, encoded_legal(game)[0])


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_scripted_deals_are_the_physical_game(variant):
    rules = Variant(**variant)
    rng = np.random.default_rng(5)
    for number in range(12):
        seat = number % min(rules.num_players, 2)  # the small game may end before a third seat
        deck = shuffled_deck(rules, rng)
        dice = rng.integers(1, rules.num_holes + 1, 1200).tolist()
        env = AllesKaeseEnv(opponents=FirstLegal(), seat=seat, on_illegal="raise", **variant)
        game = reference_of(rules, deck, dice)
        observation, info = env.reset(options={"deck": deck, "dice": dice})
        let_first_legal_play(game, seat)
        total, terminated = 0.0, False
        while not terminated:
            assert_like_reference(observation, game, seat, rules)
            assert np.flatnonzero(info["action_mask"]).tolist() == encoded_legal(game)
            action = pick(info["action_mask"], rng)
            play_number(game, action)
            let_first_legal_play(game, seat)
            observation, reward, terminated, _, info = env.step(action)
            total += reward
            assert terminated == game.over
        assert_like_reference(observation, game, seat, rules)
        assert total == pytest.approx(float(game.payoffs()[seat]), abs=1e-6)


def test_dice_beyond_the_list_are_rolled():
    env = AllesKaeseEnv(num_players=4, seat=0, opponents=FirstLegal())
    deck = stacked_deck(Variant(num_players=4))
    options = {"deck": deck, "dice": [6, 5, 4, 3, 2]}
    numbers = Counter()
    for seed in range(60):
        observation, info = env.reset(seed=seed, options=options)
        assert OBSERVATION.facts(observation, env.variant)["die"] == 6
        observation = env.step(info["action_mask"].argmax())[0]
        assert OBSERVATION.facts(observation, env.variant)["die"] == 2
        observation, _, terminated, _, _ = env.step(env.action_masks().argmax())
        if not terminated:
            numbers[OBSERVATION.facts(observation, env.variant)["die"]] += 1
    assert set(numbers) == set(range(1, 7))


def test_dice_alone_leave_the_cards_to_chance():
    env = AllesKaeseEnv(seat=0)
    rows = set()
    for seed in range(5):
        observation, _ = env.reset(seed=seed, options={"dice": [3]})
        facts = OBSERVATION.facts(observation, env.variant)
        assert facts["die"] == 3
        rows.add(tuple(facts["row"]))
    assert len(rows) == 5


def test_a_script_holds_for_one_game():
    env = AllesKaeseEnv(seat=0)
    deck = stacked_deck(Variant())
    first, _ = env.reset(seed=1, options={"deck": deck, "dice": [1]})
    after, _ = env.reset()
    assert OBSERVATION.facts(first, env.variant)["row"].tolist() == [1] * 6
    assert OBSERVATION.facts(after, env.variant)["row"].tolist() != [1] * 6


# --- Rewards ------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", ["win", "shaped"])
@pytest.mark.parametrize(("players", "seat"), SEATS_AT_TABLE)
def test_rewards_sum_to_the_payoff_of_the_core(players, seat, reward):
    env = AllesKaeseEnv(players, seat=seat, reward=reward, on_illegal="raise")
    batch = GameBatch(1, Variant(players))  # the same game, and its random opponents, move by move
    rng = np.random.default_rng(seat)
    for seed in range(GAMES_A_SEAT):
        observation, info = env.reset(seed=seed)
        batch.reset(seed=seed)
        rewards, terminated = [], False
        while not terminated:
            while batch.seats[0] != seat:
                batch.step(batch.random_actions())
            assert np.array_equal(observation, batch.observations[0])
            assert np.array_equal(info["action_mask"], batch.masks[0])
            action = pick(info["action_mask"], rng)
            batch.step([action])
            while not batch.over[0] and batch.seats[0] != seat:
                batch.step(batch.random_actions())
            observation, one, terminated, truncated, info = env.step(action)
            rewards.append(one)
            assert (terminated, truncated) == (bool(batch.over[0]), False)
        assert np.array_equal(observation, batch.observe(seat)[0])
        assert sum(rewards) == pytest.approx(float(batch.payoffs[0, seat]), abs=1e-5)
        assert sum(rewards) == pytest.approx(
            float(payoffs_by_hand(observation, env.variant)[0]), abs=1e-5
        )
        if reward == "win":
            assert not any(rewards[:-1])


@pytest.mark.parametrize("opponents", ["random", Hasher(), Gambler()])
@pytest.mark.parametrize("players", range(2, 7))
def test_rewards_sum_to_the_payoff_of_a_drawn_seat(players, opponents):
    env = AllesKaeseEnv(players, opponents, reward="shaped", render_mode="ansi")
    rng = np.random.default_rng(players)
    seats = Counter()
    info = env.reset(seed=players)[1]
    for _ in range(60):
        seats[next(line for line in env.render().splitlines() if "(you)" in line)[7]] += 1
        total, terminated = 0.0, False
        while not terminated:
            observation, reward, terminated, _, info = env.step(pick(info["action_mask"], rng))
            total += reward
        payoff = payoffs_by_hand(observation, env.variant)[0]
        assert total == pytest.approx(float(payoff), abs=1e-5)
        info = env.reset()[1]
    assert set(seats) == {str(seat) for seat in range(players)}


def test_shaped_reward_follows_the_lead_in_points():
    variant = Variant(num_players=3)
    cards = [(6, False), (5, False), (4, False), (1, True), (1, True), (2, True)]
    deck = stacked_deck(variant, *cards)
    env = AllesKaeseEnv(3, FirstLegal(), seat=0, reward="shaped")
    # Seat 0 takes 6 points; seat 1 takes 5; seat 2 takes 4; that leaves 6 - 4.5 of all points.
    info = env.reset(options={"deck": deck, "dice": [6, 5, 4, 3]})[1]
    assert info["action_mask"][encode_action(1, 0)] == 1
    reward = env.step(encode_action(1, 0))[1]
    points = sum(holes for holes, is_trap in variant.deck if not is_trap)
    assert reward == pytest.approx((6 - 4.5) / points, abs=1e-6)


@pytest.mark.parametrize("reward", ["win", "shaped"])
@pytest.mark.parametrize(("players", "seat"), SEATS_AT_TABLE)
def test_a_third_trap_of_the_learner_loses_in_that_step(players, seat, reward):
    env = AllesKaeseEnv(players, Hasher(), seat=seat, reward=reward)
    env.reset(seed=0, options=third_trap_options(players, victim=seat))
    rewards = []
    for slot in range(3):
        _, one, terminated, truncated, info = env.step(encode_action(1, slot))
        rewards.append(one)
        assert (terminated, truncated) == (slot == 2, False)
    assert sum(rewards) == pytest.approx(-1 / (players - 1), abs=1e-6)
    assert reward != "win" or rewards == [0, 0, pytest.approx(-1 / (players - 1))]
    assert not info["action_mask"].any()
    assert not info["illegal_action"]


@pytest.mark.parametrize(("players", "seat"), SEATS_AT_TABLE)
def test_a_third_trap_of_an_opponent_ends_the_step_of_the_learner(players, seat):
    victim = (seat + 1) % players
    env = AllesKaeseEnv(players, FirstLegal(), seat=seat)
    info = env.reset(seed=0, options=third_trap_options(players, victim))[1]
    rewards, terminated = [], False
    while not terminated:
        _, reward, terminated, _, info = env.step(info["action_mask"].argmax())
        rewards.append(reward)
    # Nobody has points, so all others share the win (P4).
    assert rewards == [*[0] * (len(rewards) - 1), pytest.approx(1 / (players - 1) ** 2)]
    assert len(rewards) == 2 + (victim > seat)


# --- Wrappers -----------------------------------------------------------------------------


def time_limit(env):
    return TimeLimit(env, 5)


def statistics(env):
    return RecordEpisodeStatistics(env, stats_key="statistics")  # Monitor has the key "episode"


def monitor(env):
    return pytest.importorskip("stable_baselines3.common.monitor").Monitor(env)


def discard_or_peek(mask) -> int:
    """The highest legal action, which can give nobody a trap."""
    return int(np.flatnonzero(mask)[-1])


WRAPPERS = [time_limit, statistics, OrderEnforcing, monitor]


@pytest.mark.parametrize("wrappers", [WRAPPERS, WRAPPERS[::-1]], ids=["one way", "the other"])
def test_masks_behind_wrappers(wrappers):
    env = gym.make("AllesKaese-v0", num_players=3)
    for wrap in wrappers:
        env = wrap(env)
    info = env.reset(seed=0)[1]
    for _ in range(4):
        masks = env.get_wrapper_attr("action_masks")()
        assert masks.dtype == bool
        assert np.array_equal(masks, info["action_mask"])
        _, _, terminated, truncated, info = env.step(discard_or_peek(masks))
        assert (terminated, truncated) == (False, False)
    _, _, terminated, truncated, info = env.step(discard_or_peek(info["action_mask"]))
    assert (terminated, truncated) == (False, True)


def test_time_limit_truncates_a_game_that_goes_on():
    env = TimeLimit(AllesKaeseEnv(num_players=4), 3)
    info = env.reset(seed=0)[1]
    flags = []
    for _ in range(3):
        _, reward, terminated, truncated, info = env.step(info["action_mask"].argmax())
        flags.append((reward, terminated, truncated))
    assert flags == [(0, False, False), (0, False, False), (0, False, True)]
    assert info["action_mask"].any()


@pytest.mark.parametrize("limit", [3, 4])
def test_a_game_that_ends_within_the_time_limit_terminates(limit):
    env = TimeLimit(AllesKaeseEnv(seat=0, opponents=Hasher()), limit)
    env.reset(seed=0, options=third_trap_options(2, victim=0))
    results = [env.step(encode_action(1, slot)) for slot in range(3)]
    _, reward, terminated, truncated, _ = results[-1]
    assert (reward, terminated) == (-1, True)
    assert truncated == (limit == 3)  # the wrapper of Gymnasium sets both flags at the limit


def test_episode_statistics_count_decisions_of_the_learner():
    env = RecordEpisodeStatistics(AllesKaeseEnv(num_players=3))
    rng = np.random.default_rng(0)
    info = env.reset(seed=0)[1]
    for _ in range(20):
        rewards, terminated = [], False
        while not terminated:
            _, reward, terminated, _, info = env.step(pick(info["action_mask"], rng))
            rewards.append(reward)
        assert info["episode"]["l"] == len(rewards)
        assert info["episode"]["r"] == pytest.approx(sum(rewards))
        info = env.reset()[1]


# --- Copies -------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("opponents", ["random", Hasher(), Gambler()])
def test_a_copy_in_mid_game_has_the_same_future(opponents, duplicate):
    options = {"num_players": 4, "reward": "shaped", "on_illegal": "raise", "burn": "turn"}
    env = AllesKaeseEnv(opponents=opponents, **options)
    info = play_on(env, env.reset(seed=6)[1], 5)[-1][-1]
    before = state_of(env)
    twin = duplicate(env)
    future = play_on(twin, info, 100, seed=1)
    assert state_of(env) == before
    assert_same(play_on(env, info, 100, seed=1), future)


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES.keys())
def test_a_copy_of_a_scripted_game_goes_on_with_the_script(duplicate):
    env = AllesKaeseEnv(seat=1, opponents=FirstLegal())
    env.reset(seed=0, options=third_trap_options(2, victim=1))
    env.step(encode_action(1, 0))
    twin = duplicate(env)
    for one in (twin, env):
        one.step(encode_action(1, 1))
        assert one.step(encode_action(1, 2))[1:3] == (-1.0, True)


def test_a_copy_before_reset_can_be_played():
    twin = copy.deepcopy(AllesKaeseEnv())
    with pytest.raises(ResetNeeded):
        twin.step(0)
    assert_same(twin.reset(seed=1), AllesKaeseEnv().reset(seed=1))


# --- Returned arrays ----------------------------------------------------------------------


def test_returned_arrays_are_not_views():
    env = AllesKaeseEnv(num_players=4)
    info = env.reset(seed=1)[1]
    results = []
    for _ in range(30):
        results += play_on(env, info, 1)
        info = results[-1][-1]
        results.append({"masks": env.action_masks()})
    assert_no_views(results)
    kept = copy.deepcopy(results)
    play_on(env, info, 50)
    assert_same(results, kept)


def test_writing_into_returned_arrays_changes_nothing():
    env, twin = (AllesKaeseEnv(num_players=4, seat=0) for _ in range(2))
    for one in (env, twin):
        one.reset(seed=1)
    terminated = False
    while not terminated:
        masks = env.action_masks()
        action = discard_or_peek(masks)
        result = env.step(action)
        assert_same(result, twin.step(action))
        terminated = result[2]
        scribble([result, masks])
        assert np.array_equal(env.action_masks(), twin.action_masks())
    assert state_of(env) == state_of(twin)


def test_opponents_get_arrays_that_they_may_write_into():
    class Scribbler(FirstLegal):
        def act(self, observations, masks, rng):
            actions = super().act(observations, masks, rng)
            scribble([observations, masks])
            return actions

    envs = [AllesKaeseEnv(num_players=3, opponents=one()) for one in (Scribbler, FirstLegal)]
    traces = [play_on(env, env.reset(seed=2)[1], 60) for env in envs]
    assert_same(*traces)


# --- Seeds --------------------------------------------------------------------------------


@pytest.mark.parametrize("opponents", ["random", Gambler()])
def test_a_seed_fixes_all_later_episodes(opponents):
    digests = {episodes_digest(8, opponents=opponents, num_players=3) for _ in range(3)}
    assert len(digests) == 1
    assert digests != {episodes_digest(9, opponents=opponents, num_players=3)}


def test_a_seed_fixes_all_later_episodes_in_a_fresh_process():
    here = episodes_digest(8, opponents=path_of("Gambler"), num_players=3)
    code = (
        f"from {episodes_digest.__module__} import episodes_digest, path_of;"
        "print(episodes_digest(8, opponents=path_of('Gambler'), num_players=3))"
    )
    assert run_python(code) == here


def test_a_seed_begins_anew_in_mid_game():
    env = AllesKaeseEnv(opponents=Gambler())
    info = env.reset(seed=5)[1]
    first = play_on(env, info, 40)
    info = env.reset(seed=5)[1]
    assert_same(play_on(env, info, 40), first)


def test_episodes_without_a_seed_differ():
    env = AllesKaeseEnv()
    firsts = [AllesKaeseEnv().reset()[0].tobytes() for _ in range(4)]
    firsts += [env.reset()[0].tobytes() for _ in range(4)]
    assert len(set(firsts)) >= 7  # one pair may be alike by chance, once in 50,000 runs


@pytest.mark.parametrize("seed", GOOD_SEEDS)
def test_good_seeds(seed):
    for make in (make_env, make_by_id):
        first, again = (make().reset(seed=seed)[0] for _ in range(2))
        assert np.array_equal(first, again)


@pytest.mark.parametrize("seed", BAD_SEEDS)
def test_bad_seeds_are_named_and_change_nothing(seed, playing):
    env, _ = playing
    before = state_of(env)
    with pytest.raises(ValueError, match=r"seed is .* allowed: a whole number from 0"):
        env.reset(seed=seed)
    assert state_of(env) == before


def test_neighbouring_seeds_give_other_games():
    traces = set()
    for seed in range(300):
        env = AllesKaeseEnv()
        info = env.reset(seed=seed)[1]
        traces.add(b"".join(one.tobytes() for one in arrays_in(play_on(env, info, 5))))
    assert len(traces) == 300


# --- Opponents ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "opponent",
    [path_of("FirstLegal"), path_of("first_legal"), FirstLegal, FirstLegal()],
    ids=["path of a class", "path of an object", "class", "object"],
)
def test_opponents_by_path_class_and_object(opponent):
    def trace(opponents):
        env = gym.make("AllesKaese-v0", num_players=3, opponents=opponents)
        return play_on(env, env.reset(seed=1)[1], 40)

    expected = trace(FirstLegal())
    assert_same(trace(opponent), expected)
    assert_same(trace([opponent, opponent]), expected)
    assert_same(trace((opponent, opponent)), expected)


@pytest.mark.parametrize(
    "opponent",
    [
        "",
        "Random",
        "no_such_module:Agent",
        path_of("NoSuchAgent"),
        path_of("KINDS"),
        path_of("pick"),
        path_of("FirstLegal") + ".act",
        FirstLegal.__module__,
        ":FirstLegal",
        ".helpers:FirstLegal",
        object(),
        3,
        None,
    ],
)
def test_a_wrong_opponent_is_named(opponent):
    allowed = r'opponents is .* allowed: "random", the name of an agent, an import path'
    with pytest.raises(ValueError, match=allowed):
        AllesKaeseEnv(opponents=opponent)
    with pytest.raises(ValueError, match=r"opponents\[1\] is .* allowed"):
        AllesKaeseEnv(num_players=3, opponents=["random", opponent])


@pytest.mark.parametrize("opponent", [NeedsArgument, path_of("NeedsArgument")])
def test_an_agent_that_needs_arguments_is_named(opponent):
    with pytest.raises(ValueError, match=r"opponents is .*NeedsArgument.*argument"):
        AllesKaeseEnv(opponents=opponent)


def test_opponents_sit_in_turn_order_after_the_learner():
    class Peeker:
        """Peeks at a slot of its own; takes and discards as little as can be."""

        def __init__(self, slot):
            self.slot = slot

        def act(self, observations, masks, rng):
            return np.where(masks[:, self.slot], self.slot, masks.argmax(axis=1))

    for seat in range(4):
        env = AllesKaeseEnv(4, [Peeker(1), Peeker(2), Peeker(3)], seat=seat)
        deck = stacked_deck(Variant(4), *[(1, False)] * 4, *[(2, False)] * 2)
        env.reset(seed=0, options={"deck": deck, "dice": [6] * 8})
        facts = OBSERVATION.facts(env.step(encode_action(0, 0))[0], env.variant)
        peeks = [np.flatnonzero(facts["opponent_peeks"][:, k]).tolist() for k in range(3)]
        assert peeks == [[1], [2], [3]]


def test_opponents_see_their_own_side_and_only_legal_masks():
    class Witness(FirstLegal):
        seen = 0

        def act(self, observations, masks, rng):
            Witness.seen += len(masks)
            assert observations.dtype == np.float32
            assert observations.shape == (len(masks), OBSERVATION.size)
            assert masks.dtype == bool
            for observation, mask in zip(observations, masks, strict=True):
                assert OBSERVATION.decode(observation)["turn"][0] == 1
                assert np.array_equal(mask, mask_by_hand(observation))
            assert isinstance(rng, np.random.Generator)
            return super().act(observations, masks, rng)

    env = AllesKaeseEnv(num_players=4, opponents=Witness())
    play_on(env, env.reset(seed=0)[1], 60)
    assert Witness.seen > 100


def test_an_illegal_action_of_an_opponent_is_named():
    env = AllesKaeseEnv(seat=0, opponents=Cheat(), render_mode="ansi")
    env.reset(seed=0, options={"dice": [1, 1]})
    with pytest.raises(
        ValueError,
        match=r"action of opponent Cheat on seat 1 of game 0 is \d+ \(\w+ slot \d\); allowed now",
    ):
        env.step(env.action_masks().argmax())
    for call in (lambda: env.step(0), env.action_masks, env.render):  # it is the opponent's view
        with pytest.raises(gym.error.ResetNeeded, match="reset"):
            call()
    env.reset(seed=0)
    assert env.action_masks().any()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            NUM_ACTIONS,
            "opponent Broken on seat 1 of game 0 is 18; allowed: a whole number from 0 to 17",
        ),
        (-1, r"action of opponent Broken on seat 1 of game 0 is -1"),
        (2.0, "type float64"),
        (True, "type bool"),
        (None, "type object"),
        ([1, 2], r"shape \(1, 2\)"),
    ],
)
def test_an_opponent_that_answers_with_no_action_is_named(answer, message):
    env = AllesKaeseEnv(seat=0, opponents=Broken(answer))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(env.action_masks().argmax())


# --- Registration -------------------------------------------------------------------------


def test_made_in_a_fresh_process_that_has_imported_nothing():
    code = """
import sys
import gymnasium as gym
assert not any(name.startswith("alles_kaese_env") for name in sys.modules)
env = gym.make("alles_kaese_env:AllesKaese-v0", num_players=3)
info = env.reset(seed=1)[1]
print(env.step(int(info["action_mask"].argmax()))[0].sum())
"""
    env = AllesKaeseEnv(num_players=3)
    info = env.reset(seed=1)[1]
    expected = env.step(int(info["action_mask"].argmax()))[0].sum()
    assert run_python(code, "-W", "error::UserWarning") == str(expected)


def test_importing_twice_warns_of_nothing():
    code = """
import importlib, sys
import alles_kaese_env
importlib.reload(alles_kaese_env)
for name in [name for name in sys.modules if name.startswith("alles_kaese_env")]:
    del sys.modules[name]
import gymnasium, alles_kaese_env
print(gymnasium.make("AllesKaese-v0").spec.id)
"""
    assert run_python(code, "-W", "error::UserWarning") == "AllesKaese-v0"


def test_the_spec_makes_the_same_environment():
    options = {"num_players": 4, "seat": 2, "burn": "turn", "reward": "shaped"}
    env = gym.make("AllesKaese-v0", **options)
    again = env.spec.make()
    assert_same(*[play_on(one, one.reset(seed=1)[1], 40) for one in (env, again)])
    assert env.unwrapped.variant == Variant(num_players=4, burn="turn")


class ForbiddenMoves:
    def act(self, observations, masks, rng):
        return masks.argmin(axis=1)


class NoMoves:
    def act(self, observations, masks, rng):
        return None


@pytest.mark.parametrize(
    ("opponent", "expected"),
    [
        (ForbiddenMoves(), r"action of opponent ForbiddenMoves on seat 0 of game 0 is \d+"),
        (NoMoves(), "actions of opponent NoMoves has shape"),
    ],
)
def test_a_fault_of_an_opponent_names_the_opponent(opponent, expected):
    env = AllesKaeseEnv(opponents=opponent, seat=1)
    with pytest.raises(ValueError, match=expected):
        env.reset(seed=0)

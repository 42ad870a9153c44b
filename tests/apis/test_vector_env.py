"""The native VectorEnv against Gymnasium's own vector environments of the single environment."""

from __future__ import annotations

import copy
from functools import partial
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from alles_kaese_env import NUM_ACTIONS, OBSERVATION, AllesKaeseEnv, AllesKaeseVectorEnv
from apis.helpers import (
    BAD_SEEDS,
    COPIES,
    FORKS,
    GAMES_A_SEAT,
    GOOD_SEEDS,
    SEATS_AT_TABLE,
    Cheat,
    FirstLegal,
    Gambler,
    Hasher,
    assert_no_views,
    assert_same,
    maker,
    mask_by_hand,
    path_of,
    payoffs_by_hand,
    picks,
    replay_random_games,
    scribble,
    state_of,
)

MODES = list(AutoresetMode)
SETTINGS = {
    "random": {"num_players": 2},
    "shaped": {"num_players": 3, "reward": "shaped"},
    "agent": {"num_players": 3, "opponents": Hasher()},
    "agents": {"num_players": 6, "seat": 3, "opponents": ["random", Hasher(), *["random"] * 3]},
    "small": {"traps": (1, 1), "copies": (3, 3), "row_size": 2, "trap_limit": 2},
}


def native(num_envs=4, mode=AutoresetMode.NEXT_STEP, **options) -> AllesKaeseVectorEnv:
    return AllesKaeseVectorEnv(num_envs, autoreset_mode=mode, **options)


def by_id(num_envs=4, mode=AutoresetMode.NEXT_STEP, **options) -> gym.vector.VectorEnv:
    return gym.make_vec(
        "AllesKaese-v0",
        num_envs=num_envs,
        vectorization_mode="vector_entry_point",
        autoreset_mode=mode,  # Gymnasium takes no vector_kwargs in this mode
        **options,
    )


def sync(num_envs=4, mode=AutoresetMode.NEXT_STEP, **options) -> SyncVectorEnv:
    return SyncVectorEnv([partial(AllesKaeseEnv, **options)] * num_envs, autoreset_mode=mode)


def mostly_legal(masks, rng, share=0.97) -> np.ndarray:
    """Legal actions, and now and then any action; for a game without a legal action too."""
    actions = rng.integers(NUM_ACTIONS, size=len(masks))
    legal = masks.any(axis=1) & (rng.random(len(masks)) < share)
    actions[legal] = picks(masks[legal], rng)
    return actions


def play(env, infos, steps, seed=0):
    """Results of random legal steps; the rows that ended are reset where nobody else does it."""
    rng = np.random.default_rng(seed)
    results = []
    for _ in range(steps):
        result = env.step(mostly_legal(infos["action_mask"], rng, share=1))
        results.append(result)
        infos = result[-1]
        if env.metadata["autoreset_mode"] == AutoresetMode.DISABLED and result[2].any():
            results.append(env.reset(options={"reset_mask": result[2]}))
            infos = {"action_mask": env.unwrapped.action_masks()}
    return results


@pytest.fixture(params=MODES, ids=lambda mode: mode.name)
def mode(request):
    return request.param


@pytest.fixture
def playing():
    """An environment in the middle of its games, none of which is over."""
    env = native(num_players=3, opponents=Hasher(), on_illegal="raise")
    infos = env.reset(seed=1)[1]
    play(env, infos, 3)
    assert env.action_masks().any(axis=1).all()
    return env


# --- Making -------------------------------------------------------------------------------


def test_made_by_id(mode):
    env = by_id(3, mode, num_players=4)
    assert isinstance(env.unwrapped, AllesKaeseVectorEnv)
    assert env.metadata["autoreset_mode"] is mode
    assert AllesKaeseVectorEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert (env.num_envs, env.spec.id) == (3, "AllesKaese-v0")
    assert env.single_action_space == gym.spaces.Discrete(NUM_ACTIONS)
    assert env.action_space == gym.spaces.MultiDiscrete([NUM_ACTIONS] * 3)
    assert env.single_observation_space.shape == (OBSERVATION.size,)
    assert env.observation_space.shape == (3, OBSERVATION.size)
    observations, infos = env.reset(seed=0)
    assert observations in env.observation_space
    assert_same((observations, infos), native(3, mode, num_players=4).reset(seed=0))
    env.close()
    env.close()


def test_made_by_id_without_a_vectorization_mode():
    assert isinstance(gym.make_vec("AllesKaese-v0", num_envs=2).unwrapped, AllesKaeseVectorEnv)


@pytest.mark.parametrize("value", [mode.value for mode in MODES])
def test_a_mode_is_taken_by_its_value(value):
    assert native(2, value).metadata["autoreset_mode"] is AutoresetMode(value)


@pytest.mark.parametrize("value", ["", "next_step", None, 3])
def test_a_wrong_mode_is_named(value):
    with pytest.raises(ValueError, match="autoreset_mode is"):
        native(2, value)


@pytest.mark.parametrize("number", [0, -1, 2.0, True, "2", None])
def test_a_wrong_number_of_games_is_named(number):
    with pytest.raises(ValueError, match="num_envs is"):
        native(number)


# --- Like the single environment ------------------------------------------------------------


@pytest.mark.parametrize("make", [native, by_id])
@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_single_environments_step_by_step(name, make, mode):
    steps = 2000 if name in ("random", "agent") and make is native else 300
    ours, theirs = make(4, mode, **SETTINGS[name]), sync(4, mode, **SETTINGS[name])
    seeds = [11, 22, 33, 44]
    result = ours.reset(seed=seeds)
    assert_same(result, theirs.reset(seed=seeds))
    masks = result[1]["action_mask"]
    rng = np.random.default_rng(0)
    ends = forfeits = 0
    for step in range(steps):
        actions = mostly_legal(masks, rng)
        result = ours.step(actions)
        assert_same(result, theirs.step(actions), f"step {step}")
        _, rewards, terminated, truncated, infos = result
        assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, bool, bool)
        ends += terminated.sum()
        forfeits += infos.get("final_info", infos)["illegal_action"].any()
        masks = infos["action_mask"]
        if mode == AutoresetMode.DISABLED and terminated.any():
            result = ours.reset(options={"reset_mask": terminated})
            assert_same(result, theirs.reset(options={"reset_mask": terminated.copy()}))
            masks = np.where(terminated[:, None], result[1]["action_mask"], masks)
    assert ends > steps // 10
    assert forfeits > steps // 100


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())
def test_masks_are_those_of_the_rules(setting, mode):
    env = native(16, mode, **setting)
    observations, infos = env.reset(seed=3)
    masks = env.action_masks()
    rng = np.random.default_rng(3)
    for _ in range(100):
        assert masks.dtype == bool
        assert infos["action_mask"].dtype == np.int8
        assert infos["action_mask"].flags.c_contiguous
        by_hand = [mask_by_hand(one, env.variant.row_size) for one in observations]
        assert np.array_equal(masks, by_hand)
        observations, _, terminated, _, infos = env.step(mostly_legal(masks, rng, share=1))
        if mode == AutoresetMode.DISABLED and terminated.any():
            observations, _ = env.reset(options={"reset_mask": terminated})
        masks = env.action_masks()
        if mode != AutoresetMode.DISABLED:
            assert np.array_equal(masks, infos["action_mask"])


@pytest.mark.parametrize(("players", "seat"), SEATS_AT_TABLE)
def test_random_games_are_those_of_the_engine(players, seat):
    env = native(GAMES_A_SEAT, num_players=players, seat=seat)

    def step(actions):
        return env.step(actions)[:3]

    looks = env.reset(seed=seat)[0]
    replay_random_games(looks, env.action_masks, step, players, seat, seat, GAMES_A_SEAT)


def test_rewards_sum_to_the_payoffs():
    for players in range(2, 7):
        for reward in ("win", "shaped"):
            env = native(200, AutoresetMode.SAME_STEP, num_players=players, reward=reward)
            infos = env.reset(seed=players)[1]
            rng = np.random.default_rng(players)
            returns, games = np.zeros(200), 0
            for _ in range(25):
                actions = picks(infos["action_mask"], rng)
                _, rewards, terminated, _, infos = env.step(actions)
                returns += rewards
                for row in np.flatnonzero(terminated):
                    last = infos["final_obs"][row]
                    payoff = float(payoffs_by_hand(last, env.variant)[0])
                    assert returns[row] == pytest.approx(payoff, abs=1e-5)
                    games += 1
                returns[terminated] = 0
            assert games > 150


def test_an_episode_begins_with_a_decision_where_opponents_can_end_a_game_before():
    env = native(200, trap_limit=1, seat=1)
    assert env.reset(seed=0)[1]["action_mask"].any(axis=1).all()


# --- A limit of steps ---------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1, 0.9])
@pytest.mark.parametrize("limit", [1, 3, 8])
def test_a_limit_of_steps_is_that_of_the_single_environments(limit, share, mode):
    ours = by_id(6, mode, num_players=3, opponents=Hasher(), max_episode_steps=limit)
    one = partial(gym.make, "AllesKaese-v0", max_episode_steps=limit, disable_env_checker=True)
    theirs = SyncVectorEnv(
        [partial(one, num_players=3, opponents=Hasher())] * 6, autoreset_mode=mode
    )
    result = ours.reset(seed=list(range(6)))
    assert_same(result, theirs.reset(seed=list(range(6))))
    masks, rng = result[1]["action_mask"], np.random.default_rng(limit)
    seen = set()
    for step in range(100):
        actions = mostly_legal(masks, rng, share)
        result = ours.step(actions)
        assert_same(result, theirs.step(actions), f"step {step}")
        _, _, terminated, truncated, infos = result
        seen |= set(zip(terminated.tolist(), truncated.tolist(), strict=True))
        masks, ended = infos["action_mask"], terminated | truncated
        if mode == AutoresetMode.DISABLED and ended.any():
            result = ours.reset(options={"reset_mask": ended})
            assert_same(result, theirs.reset(options={"reset_mask": ended.copy()}))
            masks = np.where(ended[:, None], result[1]["action_mask"], masks)
    assert (False, True) in seen
    assert limit > 1 or {cut for _, cut in seen} <= {True, mode != AutoresetMode.NEXT_STEP}


def test_a_limit_may_stand_in_the_registration():
    spec = gym.spec("AllesKaese-v0")
    vector = spec.vector_entry_point
    gym.register(
        "AllesKaeseLimit-v0", spec.entry_point, vector_entry_point=vector, max_episode_steps=2
    )
    try:
        env = gym.make_vec("AllesKaeseLimit-v0", 2, num_players=4)
        env.reset(seed=0)
        cuts = [env.step(env.unwrapped.action_masks().argmax(axis=1))[3].tolist() for _ in range(3)]
        assert cuts == [[False] * 2, [True] * 2, [False] * 2]
    finally:
        del gym.registry["AllesKaeseLimit-v0"]


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3"])
def test_a_wrong_limit_is_named(value):
    with pytest.raises(ValueError, match="max_episode_steps is"):
        native(max_episode_steps=value)


def test_a_state_holds_the_steps_of_the_episode():
    env = native(2, num_players=4, max_episode_steps=3)
    env.reset(seed=0)
    env.step(env.action_masks().argmax(axis=1))
    state = env.get_state()
    twin = native(2, num_players=4, max_episode_steps=3)
    twin.set_state(state)
    for _ in range(4):
        actions = env.action_masks().argmax(axis=1)
        result = env.step(actions)
        assert_same(result, twin.step(actions))
        twin.set_state(env.get_state())
    with pytest.raises(ValueError, match="lengths"):
        native(2, num_players=4, max_episode_steps=1).set_state(
            {**state, "lengths": state["lengths"] + 1}
        )


# --- The autoreset modes --------------------------------------------------------------------


def end_of_a_game(env, infos):
    """Play to a step that ends some games but not all."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        result = env.step(mostly_legal(infos["action_mask"], rng, share=1))
        infos = result[-1]
        if 0 < result[2].sum() < env.num_envs:
            return result
    raise AssertionError("no game ended")


@pytest.mark.parametrize("action", [17, 6, 0, 99, -1])
@pytest.mark.parametrize("on_illegal", ["forfeit", "raise"])
def test_next_step_ignores_the_action_of_a_reset_step(action, on_illegal):
    env = native(num_players=3, on_illegal=on_illegal)
    _, _, ended, _, infos = end_of_a_game(env, env.reset(seed=1)[1])
    assert not infos["action_mask"][ended].any()
    twin = copy.deepcopy(env)
    actions = mostly_legal(infos["action_mask"], np.random.default_rng(0), share=1)
    actions[ended] = action
    _, rewards, terminated, _, infos = result = env.step(actions)
    assert not rewards[ended].any()
    assert not terminated[ended].any()
    assert infos["action_mask"][ended].any(axis=1).all()
    assert not infos["illegal_action"].any()
    actions[ended] = 0
    assert_same(result, twin.step(actions))


def test_same_step_returns_the_new_game_and_the_end_of_the_old():
    env = native(mode=AutoresetMode.SAME_STEP, num_players=3)
    observations, _, ended, _, infos = end_of_a_game(env, env.reset(seed=1)[1])
    assert infos["action_mask"].any(axis=1).all()
    assert not infos["final_info"]["action_mask"].any()
    assert np.array_equal(infos["_final_obs"], ended)
    assert np.array_equal(infos["_final_info"], ended)
    for row in range(env.num_envs):
        last = infos["final_obs"][row]
        if ended[row]:
            assert not OBSERVATION.decode(last)["turn"].any()
            assert OBSERVATION.decode(observations[row])["turn"][0] == 1
        else:
            assert last is None


def test_disabled_refuses_to_step_a_finished_game():
    env = native(mode=AutoresetMode.DISABLED, num_players=3)
    _, _, ended, _, _ = end_of_a_game(env, env.reset(seed=1)[1])
    before = state_of(env)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"game {np.flatnonzero(ended)[0]} is over"):
            env.step(np.zeros(env.num_envs, int))
    assert state_of(env) == before
    env.reset(options={"reset_mask": ended})
    env.step(env.action_masks().argmax(axis=1))


def test_disabled_counts_a_forfeit_as_a_finished_game():
    env = native(mode=AutoresetMode.DISABLED)
    masks = env.reset(seed=1)[1]["action_mask"]
    actions = masks.argmax(axis=1)
    actions[2] = masks[2].argmin()
    infos = env.step(actions)[-1]
    assert infos["illegal_action"].tolist() == [False, False, True, False]
    with pytest.raises(ValueError, match="game 2 is over"):
        env.step(actions)


def test_reset_mask_resets_just_those_rows(mode):
    env = native(5, mode, num_players=4)
    env.reset(seed=2)
    env.step(env.action_masks().argmax(axis=1))
    before, untouched = state_of(env), copy.deepcopy(env)
    chosen = np.array([True, False, False, True, False])
    observations, infos = env.reset(options={"reset_mask": chosen})
    was = untouched.step(untouched.action_masks().argmax(axis=1))
    now = env.step(env.action_masks().argmax(axis=1))
    assert state_of(env) != before
    assert np.array_equal(infos["_action_mask"], chosen)
    assert not infos["action_mask"][~chosen].any()
    assert infos["action_mask"][chosen].any(axis=1).all()
    for one, other in zip(now[:3], was[:3], strict=True):
        assert np.array_equal(one[~chosen], other[~chosen])
    assert (now[0][chosen] != was[0][chosen]).any(axis=1).all()
    assert chosen.tolist() == [True, False, False, True, False]
    reserve = [OBSERVATION.facts(one, env.variant)["reserve"] for one in observations]
    assert all(reserve[row] >= 27 for row in (0, 3))  # at most three opponents have played


@pytest.mark.parametrize("seed", [7, [7, 8, 9, 10]], ids=["int", "list"])
def test_reset_mask_with_a_seed_leaves_the_other_rows_their_streams(seed):
    env, twin = native(), native()
    for one in (env, twin):
        one.reset(seed=2)
    chosen = np.array([True, False, False, True])
    env.reset(seed=seed, options={"reset_mask": chosen})
    twin.reset(options={"reset_mask": chosen})
    for _ in range(10):
        now, was = (one.step(one.action_masks().argmax(axis=1)) for one in (env, twin))
        assert np.array_equal(now[0][~chosen], was[0][~chosen])


@pytest.mark.parametrize("seed", [7, [7, 8, 9, 10]], ids=["int", "list"])
def test_reset_mask_with_a_seed_gives_the_chosen_rows_theirs(seed):
    env = native()
    first, _ = env.reset(seed=seed)
    env.reset(seed=3)
    chosen = np.array([True, False, False, True])
    again, _ = env.reset(seed=seed, options={"reset_mask": chosen})
    assert np.array_equal(first[chosen], again[chosen])


# --- Wrong arguments --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mask",
    [
        [True, False, False, False],
        np.array([1, 0, 0, 0]),
        np.ones(3, bool),
        np.ones((4, 1), bool),
        np.zeros(4, bool),
        True,
        None,
    ],
    ids=repr,
)
def test_a_wrong_reset_mask_is_named_and_changes_nothing(mask, playing):
    before = state_of(playing)
    with pytest.raises(ValueError, match="reset_mask"):
        playing.reset(seed=5, options={"reset_mask": mask})
    assert state_of(playing) == before


@pytest.mark.parametrize("name", ["deck", "dice", "mask"])
def test_an_unknown_reset_option_is_named_and_changes_nothing(name, playing):
    before = state_of(playing)
    with pytest.raises(ValueError, match=name):
        playing.reset(seed=5, options={name: [1, 2, 3, 4]})
    assert state_of(playing) == before


@pytest.mark.parametrize("seed", [*BAD_SEEDS, [1, 2], [1, 2, 3, -1], [1, 2, 3, 4.0], 3.5], ids=repr)
def test_a_wrong_seed_is_named_and_changes_nothing(seed, playing):
    before = state_of(playing)
    with pytest.raises(ValueError, match="seed"):
        playing.reset(seed=seed)
    assert state_of(playing) == before


WRONG_ACTIONS = {
    "too few": [0, 0, 0],
    "too many": [0, 0, 0, 0, 0],
    "a table": [[0], [0], [0], [0]],
    "a number": 0,
    "None": None,
    "floats": [0.0, 0.0, 0.0, 0.0],
    "bools": [True, False, True, False],
    "texts": ["0", "0", "0", "0"],
    "-1": [0, 0, 0, -1],
    "18": [0, 0, 0, NUM_ACTIONS],
    "2**31 - 1": [0, 0, 0, 2**31 - 1],
    "ragged": [0, 0, 0, [0]],
}


@pytest.mark.parametrize("actions", WRONG_ACTIONS.values(), ids=WRONG_ACTIONS.keys())
def test_wrong_actions_raise_and_change_nothing(actions, playing):
    before, twin = state_of(playing), copy.deepcopy(playing)
    with pytest.raises(ValueError, match=r"actions|inhomogeneous"):
        playing.step(actions)
    assert state_of(playing) == before
    legal = playing.action_masks().argmax(axis=1)
    assert_same(playing.step(legal), twin.step(legal))


def test_one_illegal_action_leaves_all_games_as_they_are(playing):
    before, twin = state_of(playing), copy.deepcopy(playing)
    legal = playing.action_masks().argmax(axis=1)
    actions = legal.copy()
    actions[3] = playing.action_masks()[3].argmin()
    with pytest.raises(ValueError, match=f"action of game 3 is {actions[3]} "):
        playing.step(actions)
    assert state_of(playing) == before
    assert_same(playing.step(legal), twin.step(legal))


def test_an_illegal_action_of_an_opponent_is_named():
    env = native(seat=0, opponents=Cheat())
    env.reset(seed=0)
    with pytest.raises(
        ValueError, match=r"action of opponent Cheat on seat 1 of game \d is \d+ \(\w+ slot \d\)"
    ):
        play(env, {"action_mask": env.action_masks()}, 20)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64, list, tuple])
def test_forms_of_actions(kind, playing):
    legal = playing.action_masks().argmax(axis=1)
    twin = copy.deepcopy(playing)
    form = kind(legal) if kind in (list, tuple) else legal.astype(kind)
    assert_same(playing.step(form), twin.step(legal))


def test_the_actions_of_the_caller_are_not_changed():
    env = native(num_players=3)
    _, _, ended, _, infos = end_of_a_game(env, env.reset(seed=1)[1])
    actions = np.where(ended, 17, infos["action_mask"].argmax(axis=1))
    kept = actions.copy()
    env.step(actions)
    assert np.array_equal(actions, kept)


def test_step_before_reset_raises(mode):
    env = native(mode=mode)
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(np.zeros(4, int))
    env.reset(options={"reset_mask": np.array([True, False, True, True])})
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(np.zeros(4, int))
    env.reset(options={"reset_mask": np.array([False, True, False, False])})
    env.step(env.action_masks().argmax(axis=1))


# --- Seeds --------------------------------------------------------------------------------


@pytest.mark.parametrize("opponents", ["random", Hasher()])
def test_one_seed_gives_row_i_the_same_games_for_any_number_of_games(opponents):
    options = {"mode": AutoresetMode.SAME_STEP, "num_players": 3, "opponents": opponents}
    envs = [native(number, **options) for number in (1, 3, 8)]
    for env in envs:
        env.reset(seed=12)
    for _ in range(60):
        results = [env.step(env.action_masks().argmax(axis=1)) for env in envs]
        for one, other in pairwise(results):
            for part, whole in zip(one[:3], other[:3], strict=True):
                assert np.array_equal(part, whole[: len(part)])


def test_row_0_of_one_seed_is_the_single_environment_with_that_seed():
    env, single = native(5, num_players=4), AllesKaeseEnv(num_players=4)
    assert np.array_equal(env.reset(seed=9)[0][0], single.reset(seed=9)[0])


def test_neighbouring_seeds_share_no_game():
    traces = []
    for seed in range(10):
        env = native(64, AutoresetMode.SAME_STEP)
        trace = [env.reset(seed=seed)[0]]
        trace += [env.step(env.action_masks().argmax(axis=1))[0] for _ in range(6)]
        traces += [row.tobytes() for row in np.stack(trace, axis=1)]
    assert len(set(traces)) == 640


def test_a_list_of_seeds_gives_each_game_its_own():
    env = native(3, num_players=5)
    rows = env.reset(seed=[5, 5, 6])[0]
    assert np.array_equal(rows[0], rows[1])
    for seed, row in ((5, rows[1]), (6, rows[2])):
        assert np.array_equal(AllesKaeseEnv(num_players=5).reset(seed=seed)[0], row)


def test_none_in_a_list_of_seeds_leaves_a_game_its_stream():
    env, twin = native(3), native(3)
    env.reset(seed=1)
    twin.reset(seed=1)
    rows = env.reset(seed=[None, 4, None])[0]
    others = twin.reset()[0]
    assert np.array_equal(rows[[0, 2]], others[[0, 2]])
    assert np.array_equal(rows[1], AllesKaeseEnv().reset(seed=4)[0])


@pytest.mark.parametrize("seed", GOOD_SEEDS)
def test_good_seeds(seed):
    for given in (seed, [seed] * 4):
        first, again = (native().reset(seed=given)[0] for _ in range(2))
        assert np.array_equal(first, again)


@pytest.mark.parametrize("seed", [6, [6, 7, 8, 9]], ids=["int", "list"])
@pytest.mark.parametrize("opponents", ["random", Gambler()])
def test_a_seed_fixes_all_later_games(seed, opponents, mode):
    env = native(4, mode, num_players=3, opponents=opponents)
    runs = []
    for _ in range(2):
        first = env.reset(seed=seed)
        runs.append([first, *play(env, first[1], 60), env.reset()])
    fresh = native(4, mode, num_players=3, opponents=opponents)
    first = fresh.reset(seed=seed)
    runs.append([first, *play(fresh, first[1], 60), fresh.reset()])
    assert_same(runs[0], runs[1])
    assert_same(runs[0], runs[2])


def test_games_without_a_seed_differ():
    rows = np.concatenate([native().reset()[0] for _ in range(2)])
    assert len({row.tobytes() for row in rows}) >= 7  # one pair may be alike by chance


# --- Copies and returned arrays ---------------------------------------------------------------


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("opponents", ["random", Gambler()])
def test_a_copy_in_mid_game_has_the_same_future(opponents, duplicate, mode):
    env = native(4, mode, num_players=3, opponents=opponents, reward="shaped")
    play(env, env.reset(seed=4)[1], 7)
    infos = {"action_mask": env.action_masks()}
    before, twin = state_of(env), duplicate(env)
    future = play(twin, infos, 100)
    assert state_of(env) == before
    assert_same(play(env, infos, 100), future)
    assert twin.metadata["autoreset_mode"] is mode


def test_returned_arrays_are_not_views(mode):
    env = native(4, mode, num_players=3)
    first = env.reset(seed=4)
    results = [first, *play(env, first[1], 40), [env.action_masks()], [env.action_masks()]]
    assert_no_views(results)
    kept = copy.deepcopy(results)
    play(env, {"action_mask": env.action_masks()}, 50)
    assert_same(results, kept)


def test_writing_into_returned_arrays_changes_nothing(mode):
    env, twin = (native(4, mode, num_players=3) for _ in range(2))
    for one in (env, twin):
        one.reset(seed=4)
    rng = np.random.default_rng(0)
    for _ in range(60):
        masks = env.action_masks()
        actions = mostly_legal(masks, rng, share=1)
        result = env.step(actions)
        assert_same(result, twin.step(actions))
        if mode == AutoresetMode.DISABLED and result[2].any():
            for one in (env, twin):
                scribble(one.reset(options={"reset_mask": result[2].copy()}))
        scribble([result, masks])
    assert state_of(env) == state_of(twin)


# --- Processes --------------------------------------------------------------------------------


# From Python 3.12 on, a fork of a process with threads warns. No thread of ours is at work then.
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.usefixtures("_ran_threads")
@pytest.mark.parametrize("context", [None, *FORKS, "spawn"])
def test_environments_in_other_processes_equal_those_in_this_one(context):
    options = {"num_players": 3, "opponents": path_of("Hasher"), "disable_env_checker": True}
    makers = [maker(**options)] * 2
    theirs = AsyncVectorEnv(makers, context=context)
    try:
        ours = SyncVectorEnv(makers)
        expected = ours.reset(seed=[1, 2])
        theirs.reset_async(seed=[1, 2])
        assert_same(theirs.reset_wait(timeout=100), expected)
        rng = np.random.default_rng(0)
        ends = 0
        for _ in range(60):
            actions = mostly_legal(expected[-1]["action_mask"], rng)
            expected = ours.step(actions)
            ends += expected[2].sum()
            theirs.step_async(actions)
            assert_same(theirs.step_wait(timeout=100), expected)
        assert ends > 5
        masks = theirs.call("action_masks")
        assert np.array_equal(masks, ours.call("action_masks"))
    finally:
        theirs.close(terminate=True)


# --- Statistics of episodes -------------------------------------------------------------------


def newer_than(version: str) -> bool:
    numbers = [int(part) for part in gym.__version__.split(".")[:2]]
    return numbers >= [int(part) for part in version.split(".")]


@pytest.mark.parametrize("reward", ["win", "shaped"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_the_statistics_of_gymnasium_are_right(mode, reward):
    if mode == AutoresetMode.SAME_STEP and not newer_than("1.4"):
        pytest.skip("before 1.4 Gymnasium miscounts in SAME_STEP (Gymnasium issue 1624)")
    env = RecordEpisodeStatistics(native(8, mode, num_players=3, reward=reward))
    infos = env.reset(seed=3)[1]
    rng = np.random.default_rng(3)
    returns, lengths = np.zeros(8), np.zeros(8, int)
    was_over = np.zeros(8, bool)
    episodes = 0
    while episodes < 500:
        actions = mostly_legal(infos["action_mask"], rng)
        _, rewards, terminated, _, infos = env.step(actions)
        counts = ~was_over
        returns[counts] += rewards[counts]
        lengths[counts] += 1
        if terminated.any():
            assert np.array_equal(infos["_episode"], terminated)
            assert np.array_equal(infos["episode"]["l"][terminated], lengths[terminated])
            assert infos["episode"]["r"][terminated] == pytest.approx(returns[terminated])
            episodes += terminated.sum()
        else:
            assert "episode" not in infos
        returns[terminated] = 0
        lengths[terminated] = 0
        was_over = terminated & (mode == AutoresetMode.NEXT_STEP)
    assert env.episode_count == episodes


def test_opponents_act_on_many_games_at_once():
    class Counter(FirstLegal):
        sizes = ()

        def act(self, observations, masks, rng):
            Counter.sizes += (len(masks),)
            return super().act(observations, masks, rng)

    env = native(32, AutoresetMode.SAME_STEP, num_players=2, opponents=Counter())
    env.reset(seed=0)
    for _ in range(10):
        env.step(env.action_masks().argmax(axis=1))
    assert len(Counter.sizes) < 40
    assert max(Counter.sizes) > 16

"""The stable-baselines3 API: `AllesKaeseVecEnv`, and the single environment in its VecEnvs."""

from __future__ import annotations

import copy
import textwrap
import warnings

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.distributions import MaskableCategoricalDistribution
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor

from alles_kaese_env import (
    NUM_ACTIONS,
    OBSERVATION,
    AllesKaeseEnv,
    AllesKaeseVectorEnv,
    Variant,
    encode_action,
)
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv, JoinedVecEnv
from alles_kaese_env.seeding import streams_of
from apis.helpers import (
    BAD_SEEDS,
    COPIES,
    FORKS,
    GAMES_A_SEAT,
    GOOD_SEEDS,
    SEATS_AT_TABLE,
    VARIANTS,
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
    pick,
    picks,
    replay_random_games,
    run_python,
    scribble,
    state_of,
    third_trap_options,
)

TINY = {"net_arch": [8]}


def single_makers(number):
    return [maker(num_players=3, disable_env_checker=True)] * number


def monitored(*args, **options):
    """A monitor around ours, of which stable-baselines3 says that ours needs none."""
    with pytest.warns(UserWarning, match="already wrapped with a `Monitor`"):
        return VecMonitor(AllesKaeseVecEnv(*args, **options))


VEC_ENVS = {
    "ours": lambda: AllesKaeseVecEnv(4, num_players=3),
    "monitor of ours": lambda: monitored(4, num_players=3),
    "dummy": lambda: DummyVecEnv(single_makers(3)),
    "fork": lambda: SubprocVecEnv(single_makers(2), start_method="fork"),
    "forkserver": lambda: SubprocVecEnv(single_makers(2), start_method="forkserver"),
    "monitor of spawn": lambda: VecMonitor(SubprocVecEnv(single_makers(2), start_method="spawn")),
}

# From Python 3.12 on, a fork of a process with threads warns. No thread of ours is at work then.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny networks are faster with one thread, and forked processes know no others."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def playing(**options) -> AllesKaeseVecEnv:
    """An environment in the middle of its games."""
    venv = AllesKaeseVecEnv(4, seed=1, **options)
    venv.reset()
    rng = np.random.default_rng(1)
    for _ in range(3):
        venv.step(picks(venv.action_masks(), rng))
    return venv


def play(venv, steps, seed=0):
    """The results of random legal steps."""
    rng = np.random.default_rng(seed)
    return [venv.step(picks(venv.action_masks(), rng)) for _ in range(steps)]


class Inspector(BaseCallback):
    """Looks at each step of a rollout, and at its end at what the buffer holds."""

    def __init__(self):
        super().__init__()
        self.steps = 0
        self.episodes = []
        self.gaps = []

    def _on_step(self) -> bool:
        seen = self.locals
        masks = seen["action_masks"]
        assert masks.shape == (self.training_env.num_envs, NUM_ACTIONS)
        assert masks.dtype == bool
        assert masks.any(axis=1).all()
        assert masks[np.arange(len(masks)), seen["actions"]].all()
        assert not any(info["illegal_action"] for info in seen["infos"])
        self.episodes += [info["episode"] for info in seen["infos"] if "episode" in info]
        self.steps += len(masks)
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer
        parts = (buffer.observations, buffer.actions, buffer.action_masks, buffer.log_probs)
        observations, actions, masks, log_probs = (
            torch.as_tensor(part.reshape(-1, *part.shape[2:])) for part in parts
        )
        for observation, mask in zip(observations.numpy(), masks.numpy(), strict=True):
            assert np.array_equal(mask, mask_by_hand(observation))
        with torch.no_grad():
            again = self.model.policy.evaluate_actions(observations, actions.flatten(), masks)[1]
        self.gaps.append(float((again - log_probs.flatten()).abs().max()))


# --- Checkers -----------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_checker_of_sb3_finds_no_fault(variant):
    check_env(AllesKaeseEnv(render_mode="ansi", **variant), skip_render_check=False)


# --- What sb3 asks of a VecEnv ------------------------------------------------------------------


def test_spaces():
    venv = AllesKaeseVecEnv(3, num_players=4)
    assert venv.num_envs == 3
    assert venv.action_space.n == NUM_ACTIONS
    assert venv.action_space.start == 0
    assert venv.reset().shape == (3, OBSERVATION.size)
    assert venv.observation_space.shape == (OBSERVATION.size,)
    assert venv.env_is_wrapped(VecMonitor) == [False] * 3


def test_attributes():
    venv = AllesKaeseVecEnv(3)
    assert venv.has_attr("action_masks")
    assert is_masking_supported(venv)
    assert is_masking_supported(monitored(3))
    assert not venv.has_attr("nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        venv.get_attr("nonsense")
    assert venv.get_attr("num_envs", indices=[0, 2]) == [3, 3]
    with pytest.raises(AttributeError, match="seat"):
        venv.set_attr("seat", 1)


def test_methods():
    venv = playing(num_players=3)
    masks = venv.action_masks()
    assert len({mask.tobytes() for mask in masks}) > 1
    rows = venv.env_method("action_masks", indices=[2, 0])
    assert_same(rows, [masks[2], masks[0]])
    assert_same(venv.env_method("action_masks"), list(masks))
    assert_same(venv.env_method("action_masks", indices=1), [masks[1]])
    with pytest.raises(AttributeError, match="no_such"):
        venv.env_method("no_such")


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_envs", 0), ("num_players", 7), ("seat", 2), ("reward", "x"), ("opponents", 3)],
)
def test_a_wrong_option_is_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} is"):
        AllesKaeseVecEnv(**{"num_envs": 2, name: value})


# --- Masks and training ---------------------------------------------------------------------


@pytest.mark.parametrize("make", VEC_ENVS.values(), ids=VEC_ENVS.keys())
def test_maskable_ppo_sees_the_masks_and_trains_without_an_illegal_action(make):
    venv = make()
    try:
        venv.seed(3)
        observations = venv.reset()
        rng = np.random.default_rng(3)
        for _ in range(30):
            masks = get_action_masks(venv)
            assert masks.shape == (venv.num_envs, NUM_ACTIONS)
            assert masks.dtype == bool
            assert np.array_equal(masks, [mask_by_hand(one) for one in observations])
            observations = venv.step(picks(masks, rng))[0]
        inspector = Inspector()
        model = MaskablePPO(
            "MlpPolicy",
            venv,
            n_steps=64,
            batch_size=64,
            n_epochs=2,
            policy_kwargs=TINY,
            seed=3,
            device="cpu",
        )
        model.learn(512, callback=inspector)
        assert inspector.steps >= 512
        assert len(inspector.gaps) == inspector.steps // (64 * venv.num_envs)
        assert max(inspector.gaps) < 1e-5
    finally:
        venv.close()


def test_maskable_ppo_counts_episodes_without_a_monitor():
    inspector = Inspector()
    model = MaskablePPO(
        "MlpPolicy", AllesKaeseVecEnv(8), n_steps=64, policy_kwargs=TINY, device="cpu", seed=0
    )
    model.learn(512, callback=inspector)
    assert len(inspector.episodes) > 20
    assert [dict(one) for one in model.ep_info_buffer] == inspector.episodes[-100:]
    assert all(one["r"] in (-1.0, 0.0, 1.0) and 1 <= one["l"] <= 15 for one in inspector.episodes)


@pytest.mark.parametrize("order", ["limit first", "monitor first"])
def test_maskable_ppo_trains_behind_wrappers(order):
    env = maker(num_players=2)()
    env = Monitor(TimeLimit(env, 8)) if order == "limit first" else TimeLimit(Monitor(env), 8)
    inspector = Inspector()
    model = MaskablePPO(
        "MlpPolicy", env, n_steps=64, batch_size=32, policy_kwargs=TINY, device="cpu", seed=0
    )
    model.learn(64, callback=inspector)
    assert inspector.steps == 64
    assert inspector.gaps[0] < 1e-5


def test_a_time_limit_is_told_from_an_end():
    def ended(limit, slots):
        """The info of the last step, with a third trap at the third."""
        venv = DummyVecEnv([lambda: TimeLimit(AllesKaeseEnv(seat=0, opponents=Hasher()), limit)])
        venv.set_options(third_trap_options(2, victim=0))
        venv.reset()
        for slot in slots:
            _, _, dones, infos = venv.step([encode_action(1, slot)])
        assert dones[0]
        return infos[0]

    cut, won = ended(2, [0, 1]), ended(3, [0, 1, 2])
    assert cut["TimeLimit.truncated"] is True
    assert OBSERVATION.decode(cut["terminal_observation"])["turn"].any()
    assert won["TimeLimit.truncated"] is False  # the end wins where both fall together
    assert not OBSERVATION.decode(won["terminal_observation"])["turn"].any()


def test_masks_keep_the_distribution_of_the_policy_sound():
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.choice([-1e4, 1e4], NUM_ACTIONS) * rng.random(NUM_ACTIONS))
    policy = MaskableCategoricalDistribution(NUM_ACTIONS).proba_distribution(logits.float())
    assert policy.distribution.probs.sum() == pytest.approx(1, abs=1e-5)
    venv = AllesKaeseVecEnv(50, num_players=4, seed=0)
    venv.reset()
    for _ in range(20):
        masks = venv.action_masks()
        for mask in masks:
            policy.apply_masking(mask)
            probs = policy.distribution.probs[0].numpy()
            assert probs.sum() == pytest.approx(1, abs=1e-5)
            assert probs[~mask].max() < 1e-7
        venv.step(picks(masks, rng))


# --- The usual entry points of stable-baselines3 -------------------------------------------------


def test_its_entry_points_need_no_pygame_and_record_nothing():
    """`make_vec_env` and an environment by its id ask for the render mode "rgb_array"."""
    code = """
        import sys
        sys.modules["pygame"] = None
        from sb3_contrib import MaskablePPO
        from stable_baselines3.common.env_util import make_vec_env
        import alles_kaese_env
        env = make_vec_env("AllesKaese-v0", n_envs=2)
        assert env.render_mode == "rgb_array"
        env.reset()
        env.step([0, 0])
        model = MaskablePPO("MlpPolicy", "AllesKaese-v0", n_steps=16, batch_size=16, device="cpu")
        model.learn(16)
        for one in (*env.envs, *model.env.envs):
            assert one.unwrapped._batch.recorder is None
        print("done")
    """
    assert run_python(textwrap.dedent(code)).endswith("done")


@pytest.mark.parametrize("evaluate", [evaluate_policy, evaluate_masked])
@pytest.mark.parametrize("joined", [False, True])
def test_its_evaluation_warns_of_no_missing_monitor(evaluate, joined):
    venv = AllesKaeseVecEnv(4, seed=0)
    venv = JoinedVecEnv([venv, AllesKaeseVecEnv(2, 3, seed=1)]) if joined else venv
    assert venv.env_is_wrapped(Monitor, indices=[0, 2]) == [True, True]
    model = MaskablePPO("MlpPolicy", venv, n_steps=16, policy_kwargs=TINY, device="cpu", seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        returns, lengths = evaluate(model, venv, 12, return_episode_rewards=True)
    assert len(returns) == len(lengths) == 12
    assert set(returns) <= {-1, -0.5, 0, 0.25, 1}


# --- Evaluation without masks -------------------------------------------------------------------


def test_evaluation_without_masks_comes_to_an_end():
    train, judge = (AllesKaeseVecEnv(4, num_players=3, seed=2) for _ in range(2))
    callback = EvalCallback(judge, n_eval_episodes=20, eval_freq=16, verbose=0)
    model = MaskablePPO("MlpPolicy", train, n_steps=32, policy_kwargs=TINY, device="cpu", seed=2)
    model.learn(128, callback=callback)
    assert -0.5 <= callback.last_mean_reward <= 1


def test_evaluation_without_masks_raises_a_clear_error_if_asked_to():
    train, judge = (AllesKaeseVecEnv(4, on_illegal="raise", seed=2) for _ in range(2))
    model = MaskablePPO("MlpPolicy", train, n_steps=32, policy_kwargs=TINY, device="cpu", seed=2)
    with pytest.raises(ValueError, match=r"action of game \d is \d+ \(.*\); allowed now: "):
        model.learn(128, callback=EvalCallback(judge, eval_freq=16, n_eval_episodes=50, verbose=0))


# --- Ends of games ------------------------------------------------------------------------


@pytest.mark.parametrize(("players", "seat"), SEATS_AT_TABLE)
def test_random_games_are_those_of_the_engine(players, seat):
    venv = AllesKaeseVecEnv(GAMES_A_SEAT, players, seat=seat, seed=seat)

    def step(actions):
        looks, rewards, dones, infos = venv.step(actions)
        for row in np.flatnonzero(dones):
            looks[row] = infos[row]["terminal_observation"]
        return looks, rewards, dones

    replay_random_games(venv.reset(), venv.action_masks, step, players, seat, seat, GAMES_A_SEAT)


@pytest.mark.usefixtures("_ran_threads")
@pytest.mark.parametrize("start_method", [*FORKS, "spawn"])
def test_environments_in_other_processes_equal_those_in_this_one(start_method):
    makers = [maker(num_players=3, opponents=path_of("Hasher"), disable_env_checker=True)] * 2
    ours, theirs = DummyVecEnv(makers), SubprocVecEnv(makers, start_method=start_method)
    try:
        for venv in (ours, theirs):
            venv.seed(3)
        assert np.array_equal(ours.reset(), theirs.reset())
        rng = np.random.default_rng(3)
        ends = 0
        for _ in range(60):
            masks = get_action_masks(ours)
            assert np.array_equal(masks, get_action_masks(theirs))
            actions = picks(masks, rng)
            expected = ours.step(actions)
            for one, other in zip(theirs.step(actions)[:3], expected[:3], strict=True):
                assert np.array_equal(one, other)  # the rewards of theirs are of 64 bits
            ends += expected[2].sum()
        assert ends > 5
    finally:
        theirs.close()


@pytest.mark.parametrize("options", [{"num_players": 2}, {"num_players": 4, "reward": "shaped"}])
def test_equals_the_native_vector_environment(options):
    venv = AllesKaeseVecEnv(6, seed=8, opponents=Hasher(), **options)
    mode = AutoresetMode.SAME_STEP
    native = AllesKaeseVectorEnv(6, opponents=Hasher(), autoreset_mode=mode, **options)
    assert np.array_equal(venv.reset(), native.reset(seed=8)[0])
    rng = np.random.default_rng(8)
    returns, lengths = np.zeros(6), np.zeros(6, int)
    ends = 0
    for step in range(300):
        actions = picks(venv.action_masks(), rng)
        if step % 10 == 0:
            actions[0] = venv.action_masks()[0].argmin()  # a forfeit
        observations, rewards, dones, infos = venv.step(actions)
        expected = native.step(actions)
        assert np.array_equal(observations, expected[0])
        assert np.allclose(rewards, expected[1], atol=1e-7)
        assert np.array_equal(dones, expected[2])
        assert np.array_equal(venv.action_masks(), expected[4]["action_mask"])
        returns += rewards
        lengths += 1
        for row, info in enumerate(infos):
            if not dones[row]:
                assert info == {"illegal_action": False, "TimeLimit.truncated": False}
                continue
            ends += 1
            last = info["terminal_observation"]
            assert np.array_equal(last, expected[4]["final_obs"][row])
            assert not np.array_equal(last, observations[row])
            assert info["TimeLimit.truncated"] is False
            assert info["episode"]["r"] == pytest.approx(returns[row], abs=1e-6)
            assert info["episode"]["l"] == lengths[row]
            forfeit = step % 10 == 0 and row == 0
            assert info["illegal_action"] == forfeit
            if forfeit:
                assert info["episode"]["r"] == pytest.approx(-1 / (venv.variant.num_players - 1))
            else:
                payoff = payoffs_by_hand(last, venv.variant)[0]
                assert info["episode"]["r"] == pytest.approx(float(payoff), abs=1e-5)
            returns[row] = lengths[row] = 0
    assert ends > 100


@pytest.mark.parametrize("reward", ["win", "shaped"])
@pytest.mark.parametrize("players", range(2, 7))
def test_returns_of_episodes_are_the_payoffs(players, reward):
    venv = AllesKaeseVecEnv(64, num_players=players, reward=reward, seed=players)
    venv.reset()
    ends = [info for result in play(venv, 40) for info in result[3] if "episode" in info]
    assert len(ends) > 64
    for info in ends:
        payoff = payoffs_by_hand(info["terminal_observation"], Variant(num_players=players))[0]
        assert info["episode"]["r"] == pytest.approx(float(payoff), abs=1e-5)


def test_a_monitor_around_it_counts_the_same():
    venv = monitored(8, num_players=3, reward="shaped", seed=0)
    twin = AllesKaeseVecEnv(8, num_players=3, reward="shaped", seed=0)
    venv.reset()
    twin.reset()
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(100):
        actions = picks(twin.action_masks(), rng)
        for theirs, ours in zip(venv.step(actions)[3], twin.step(actions)[3], strict=True):
            assert ("episode" in theirs) == ("episode" in ours)
            if "episode" in ours:
                ends += 1
                assert theirs["episode"]["l"] == ours["episode"]["l"]
                assert theirs["episode"]["r"] == pytest.approx(ours["episode"]["r"], abs=1e-5)
    assert ends > 30


def test_reset_begins_the_counts_anew():
    venv = playing(num_players=4)
    venv.reset()
    lengths = np.zeros(4, int)
    rng = np.random.default_rng(0)
    seen = False
    while not seen:
        _, _, dones, infos = venv.step(picks(venv.action_masks(), rng))
        lengths += 1
        for row in np.flatnonzero(dones):
            assert infos[row]["episode"]["l"] == lengths[row]
            lengths[row], seen = 0, True


@pytest.mark.parametrize("options", [{"trap_limit": 1, "seat": 1}])
def test_an_episode_begins_with_a_decision_where_opponents_can_end_a_game_before(options):
    venv = AllesKaeseVecEnv(100, seed=0, **options)
    venv.reset()
    rng = np.random.default_rng(0)
    for _ in range(5):
        masks = venv.action_masks()
        assert masks.any(axis=1).all()
        venv.step(picks(masks, rng))


# --- Illegal and wrong actions ------------------------------------------------------------------


@pytest.mark.parametrize(
    "actions",
    [[0, 0, 0], [0.0] * 4, [True] * 4, [0, 0, 0, -1], [0, 0, 0, NUM_ACTIONS], None, ["0"] * 4],
    ids=repr,
)
def test_wrong_actions_raise_and_change_nothing(actions):
    venv = playing()
    before, twin = state_of(venv), copy.deepcopy(venv)
    with pytest.raises(ValueError, match="actions"):
        venv.step(actions)
    assert state_of(venv) == before
    assert_same(play(venv, 20), play(twin, 20))


def test_one_illegal_action_leaves_all_games_as_they_are():
    venv = playing(on_illegal="raise", num_players=3)
    before, twin = state_of(venv), copy.deepcopy(venv)
    actions = venv.action_masks().argmax(axis=1)
    actions[2] = venv.action_masks()[2].argmin()
    with pytest.raises(ValueError, match=f"action of game 2 is {actions[2]} "):
        venv.step(actions)
    assert state_of(venv) == before
    assert_same(play(venv, 20), play(twin, 20))


def test_an_illegal_action_of_an_opponent_is_named():
    venv = AllesKaeseVecEnv(4, opponents=Cheat(), seat=0, seed=0)
    venv.reset()
    with pytest.raises(
        ValueError, match=r"action of opponent Cheat on seat 1 of game \d is \d+ \(\w+ slot \d\)"
    ):
        play(venv, 20)


# --- Opponents ----------------------------------------------------------------------------


class Tally(FirstLegal):
    """Plays like `FirstLegal` and counts its decisions."""

    def __init__(self):
        self.decisions = 0

    def act(self, observations, masks, rng):
        self.decisions += len(masks)
        return super().act(observations, masks, rng)


def test_opponents_are_drawn_by_their_weights():
    venv = AllesKaeseVecEnv(1000, num_players=3, seed=0)
    agents = [Tally(), Tally(), Tally(), Tally()]
    venv.games.set_opponents(agents, weights=[3, 1, 0, 4])
    venv.reset()
    play(venv, 30)
    shares = np.array([agent.decisions for agent in agents])
    assert shares[2] == 0
    assert shares / shares.sum() == pytest.approx([3 / 8, 1 / 8, 0, 4 / 8], abs=0.02)


def test_one_agent_plays_all_other_seats_of_a_game():
    venv = AllesKaeseVecEnv(50, num_players=4, seed=0, seat=0)
    firsts = [Tally(), Tally()]
    venv.games.set_opponents(firsts, weights=[1, 1])
    venv.reset()
    play(venv, 1)
    assert all(agent.decisions % 3 == 0 for agent in firsts)
    assert sum(agent.decisions for agent in firsts) == 150


def test_opponents_without_weights_sit_in_turn_order():
    venv = AllesKaeseVecEnv(20, num_players=3, seed=0)
    agents = [Tally(), Tally()]
    venv.games.set_opponents(agents)
    venv.reset()
    results = play(venv, 40)
    assert sum(result[2].sum() for result in results) > 20
    counts = [agent.decisions for agent in agents]
    assert min(counts) > 400
    assert max(counts) - min(counts) < 100  # each of them acts once a round


def test_opponents_by_path_and_random_can_be_drawn():
    def trace(opponents):
        venv = AllesKaeseVecEnv(6, num_players=3, seed=4)
        venv.games.set_opponents(opponents, weights=[1, 1])
        venv.reset()
        return play(venv, 40)

    expected = trace(["random", FirstLegal()])
    assert_same(trace(["random", path_of("FirstLegal")]), expected)


@pytest.mark.parametrize(
    ("opponents", "weights", "message"),
    [
        (["random"], [1, 1], "weights"),
        (["random", "random"], [1], "weights"),
        (["random", "random"], [1, -1], "weights"),
        (["random", "random"], [0, 0], "weights"),
        (["random", "random"], [[1, 1]], "weights"),
        (["random", "random"], [float("nan"), 1], "weights"),
        ([], [], "weights"),
        (["random", "no_such_module:Agent"], [1, 1], r"opponents\[1\]"),
        (["random"] * 3, None, "opponents has 3 entries; allowed: 1"),
    ],
)
def test_wrong_opponents_and_weights_are_named_and_change_nothing(opponents, weights, message):
    venv = playing(opponents=Hasher())
    twin = copy.deepcopy(venv)
    with pytest.raises(ValueError, match=message):
        venv.games.set_opponents(opponents, weights)
    assert_same(play(venv, 40), play(twin, 40))


@pytest.mark.parametrize("weights", [None, [1.0]])
def test_new_opponents_come_with_the_next_games_only(weights):
    """A pool that gets smaller between two steps leaves the games that go on as they are."""
    venv = AllesKaeseVecEnv(16, num_players=4, seat=0, seed=0)
    venv.games.set_opponents([Hasher(), FirstLegal(), Hasher()], weights=[1, 1, 1])
    venv.reset()
    twin = copy.deepcopy(venv)
    new = Tally()
    venv.games.set_opponents([new] if weights else [new] * 3, weights)
    for _ in range(2):  # nobody has had the turns for three traps after two rounds
        actions = venv.action_masks().argmax(axis=1)
        assert_same(venv.step(actions), twin.step(actions))
    assert new.decisions == 0
    venv.reset()
    venv.step(venv.action_masks().argmax(axis=1))
    assert new.decisions == 16 * 3


# --- Seeds --------------------------------------------------------------------------------


@pytest.mark.parametrize("opponents", ["random", Hasher()])
def test_game_i_is_the_same_for_any_number_of_games(opponents):
    venvs = [AllesKaeseVecEnv(n, num_players=3, opponents=opponents, seed=5) for n in (1, 4, 9)]
    firsts = [venv.reset() for venv in venvs]
    assert all(np.array_equal(first, firsts[-1][: len(first)]) for first in firsts)
    for _ in range(60):
        results = [venv.step(venv.action_masks().argmax(axis=1)) for venv in venvs]
        for result in results:
            for part, whole in zip(result[:3], results[-1][:3], strict=True):
                assert np.array_equal(part, whole[: len(part)])
            assert_same(result[3], results[-1][3][: len(result[3])])


@pytest.mark.parametrize("opponents", ["random", Gambler()])
def test_a_seed_fixes_all_later_games(opponents):
    runs = []
    for _ in range(2):
        venv = AllesKaeseVecEnv(4, num_players=3, opponents=opponents)
        assert list(venv.seed(6)) == [6] * 4
        runs.append([venv.reset(), *play(venv, 60), venv.reset()])
    venv.seed(6)
    runs.append([venv.reset(), *play(venv, 60), venv.reset()])
    given = AllesKaeseVecEnv(4, num_players=3, opponents=opponents, seed=6)
    runs.append([given.reset(), *play(given, 60), given.reset()])
    for run in runs[1:]:
        assert_same(runs[0], run)


def test_games_without_a_seed_differ():
    rows = np.concatenate([AllesKaeseVecEnv(4).reset() for _ in range(2)])
    assert len({row.tobytes() for row in rows}) >= 7  # one pair may be alike by chance


@pytest.mark.parametrize("seed", GOOD_SEEDS)
def test_good_seeds(seed):
    first, again = (AllesKaeseVecEnv(2, seed=seed).reset() for _ in range(2))
    assert np.array_equal(first, again)


@pytest.mark.parametrize("seed", BAD_SEEDS)
def test_bad_seeds_are_named_and_change_nothing(seed):
    venv = playing()
    before = state_of(venv)
    with pytest.raises(ValueError, match="seed is"):
        venv.seed(seed)
    with pytest.raises(ValueError, match="seed is"):
        AllesKaeseVecEnv(2, seed=seed)
    assert state_of(venv) == before


# --- Copies and returned arrays ---------------------------------------------------------------


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES.keys())
@pytest.mark.parametrize("opponents", ["random", Gambler()])
def test_a_copy_in_mid_game_has_the_same_future(opponents, duplicate):
    venv = playing(num_players=4, opponents=opponents, reward="shaped")
    venv.games.set_opponents([opponents, FirstLegal()], [2, 1])
    before, twin = state_of(venv), duplicate(venv)
    future = play(twin, 100)
    assert state_of(venv) == before
    assert_same(play(venv, 100), future)


def test_returned_arrays_are_not_views():
    venv = playing(num_players=3)
    results = [*play(venv, 40), [venv.action_masks()], venv.env_method("action_masks", indices=0)]
    assert_no_views(results)
    kept = copy.deepcopy(results)
    venv.reset()
    play(venv, 50)
    assert_same(results, kept)


def test_writing_into_returned_arrays_changes_nothing():
    venv, twin = playing(num_players=3), playing(num_players=3)
    rng = np.random.default_rng(0)
    for _ in range(60):
        masks = venv.action_masks()
        actions = picks(masks, rng)
        result = venv.step(actions)
        assert_same(result, twin.step(actions))
        scribble([result, masks, venv.env_method("action_masks")])
    assert state_of(venv) == state_of(twin)


def test_single_picks_are_legal_in_a_dummy_vec_env():
    venv = DummyVecEnv([lambda: AllesKaeseEnv(num_players=5, on_illegal="raise")])
    venv.seed(0)
    venv.reset()
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(200):
        mask = venv.env_method("action_masks")[0]
        _, _, dones, infos = venv.step([pick(mask, rng)])
        if dones[0]:
            ends += 1
            assert not infos[0]["action_mask"].any()
            assert not OBSERVATION.decode(infos[0]["terminal_observation"])["turn"].any()
    assert ends > 5


# --- Several in one ----------------------------------------------------------------------------


def joined(counts=(2, 4, 3), num_envs=5, seed=3):
    return JoinedVecEnv([AllesKaeseVecEnv(num_envs, count) for count in counts]), seed


def test_joined_games_are_those_of_their_parts():
    """Row by row, step by step, each part with the seed that follows from the seed of the whole."""
    venv, seed = joined()
    venv.seed(seed)
    parts = [AllesKaeseVecEnv(5, count) for count in (2, 4, 3)]
    for part, stream in zip(parts, streams_of(seed, 3), strict=True):
        part.seed(int(stream))
    observations = venv.reset()
    assert (observations == np.concatenate([part.reset() for part in parts])).all()
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(200):
        masks = venv.action_masks()
        assert (masks == np.array(venv.env_method("action_masks"))).all()
        actions = np.where(masks, rng.random(masks.shape), 0).argmax(axis=1)
        observations, rewards, dones, infos = venv.step(actions)
        for number, part in enumerate(parts):
            rows = slice(5 * number, 5 * number + 5)
            step = part.step(actions[rows])
            for whole, own in zip((observations, rewards, dones), step[:3], strict=True):
                assert (whole[rows] == own).all()
            assert [info.keys() for info in infos[rows]] == [info.keys() for info in step[3]]
        ended += dones.sum()
    assert ended > 20


def test_joined_games_share_their_opponents():
    venv, seed = joined()
    venv.set_opponents([FirstLegal()], [1.0])
    venv.seed(seed)
    venv.reset()
    for games in venv.batches:
        assert [type(agent) for agent in games._agents] == [FirstLegal]


def test_nothing_cannot_be_joined():
    with pytest.raises(ValueError, match="parts is empty; allowed: one AllesKaeseVecEnv or more"):
        JoinedVecEnv([])

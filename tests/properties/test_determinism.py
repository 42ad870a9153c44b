"""The same seed is the same game, and a copy goes on like its original."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from builders import PLAYERS, all_variants, game_of, name_of, play, stacked, table
from llvmlite.binding import get_host_cpu_features

import alles_kaese_env
from alles_kaese_env import GameBatch, Variant, alles_kaese_v0
from alles_kaese_env.core.records import GAME
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv
from alles_kaese_env.scripted import ScriptedDeal
from properties.narrow import code_of, narrow
from properties.trace import trace_digest

SEEDS = [0, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1]
WRONG_SEEDS = [-1, 2**64, 1.0, 3.5, True, False, "1", np.True_, float("nan"), [1.0]]

for_all_variants = pytest.mark.parametrize("variant", all_variants(), ids=name_of)


def random_play(batch, plies):
    """Let a batch play by its own streams; all that it holds after each ply."""
    trace = []
    for _ in range(plies):
        batch.step(batch.random_actions())
        trace.append(snapshot(batch))
    return trace


def snapshot(batch):
    arrays = (batch.games, batch.streams, batch.seats, batch.observations, batch.masks)
    return [array.copy() for array in (*arrays, batch.over, batch.payoffs)]


def assert_same(one, other, rows=slice(None)):
    """Two traces are equal to the byte, in certain rows of both."""
    for arrays, others in zip(one, other, strict=True):
        for a, b in zip(arrays, others, strict=True):
            is_same = (a[rows] == b[rows]).all()
            assert is_same


# --- The same seed -----------------------------------------------------------------------------


@for_all_variants
def test_game_i_is_the_same_in_a_batch_of_any_size(variant):
    many = random_play(GameBatch(1000, variant, seed=1, autoreset=True), 40)
    for size in (1, 7, 64):
        few = random_play(GameBatch(size, variant, seed=1, autoreset=True), 40)
        assert_same(few, many, slice(0, size))
        if size < 64:
            assert (few[-1][0] != many[-1][0][size : 2 * size]).any()


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("games", [1, 2, 3, 1000])
def test_threads_change_nothing(players, games):
    variant = Variant(num_players=players)
    one = random_play(GameBatch(games, variant, seed=2, threads=1, autoreset=True), 40)
    two = random_play(GameBatch(games, variant, seed=2, threads=2, autoreset=True), 40)
    assert_same(one, two)


def test_numpy_s_global_random_state_is_neither_read_nor_changed():
    traces = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002 - this is the state in question
        before = pickle.dumps(np.random.get_state())  # noqa: NPY002
        traces.append(random_play(GameBatch(20, seed=3, autoreset=True), 50))
        env = gymnasium.make("AllesKaese-v0")
        env.reset(seed=3)
        assert pickle.dumps(np.random.get_state()) == before  # noqa: NPY002
    assert_same(*traces)


def test_other_seeds_are_other_games():
    one, other = (GameBatch(20, seed=seed) for seed in (4, 5))
    assert (one.games != other.games).any()
    assert (GameBatch(20).games != GameBatch(20).games).any()


def digest_of_a_process(**environment):
    """The digest that another process comes to."""
    return output_of_a_process("-m", "properties.trace", **environment)


def output_of_a_process(*arguments, **environment):
    """What another process of Python prints; a warning there is an error."""
    tests = Path(__file__).parents[1]
    package = Path(alles_kaese_env.__file__).parents[1]
    paths = os.pathsep.join([str(tests), str(package)])
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def digest():
    return trace_digest()


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_another_process_plays_the_same_games(digest, hash_seed):
    assert digest_of_a_process(PYTHONHASHSEED=hash_seed) == digest


def test_plain_python_plays_the_same_games(digest):
    """NUMBA_DISABLE_JIT=1: records and observations to the byte, and no warning."""
    assert digest_of_a_process(NUMBA_DISABLE_JIT="1") == digest


@pytest.mark.long
def test_default_integers_of_32_bits_change_nothing():
    """As NumPy 1.26 has them on Windows, simulated: games, agents, solver, types compiled for."""
    program = str(Path(__file__).with_name("narrow.py"))
    wide = json.loads(output_of_a_process(program))
    small = json.loads(output_of_a_process(program, "narrow"))
    assert set(small.pop("types")) <= set(wide.pop("types"))
    assert small == wide


def test_the_simulated_default_integers_overflow():
    """The fault that was found on Windows: a word of bytes needs more than 32 bits."""
    source = "import numpy as np; word = np.full(6, 4.0).astype(int) @ 256 ** np.arange(6)"
    words = {}
    for name, function in (("wide", lambda one: one), ("narrow", narrow)):
        names = {"narrow_integers": function}
        exec(code_of(source, "example"), names)
        words[name] = int(names["word"])
    assert words == {"wide": 0x040404040404, "narrow": 0x04040404}


@pytest.mark.long
@pytest.mark.parametrize(
    ("processor", "feature"),
    [
        ("x86-64", "sse2"),
        ("haswell", "avx2"),
        ("skylake-avx512", "avx512f"),
    ],
)
def test_code_for_other_processors_plays_the_same_games(digest, processor, feature, tmp_path):
    """LLVM writes very different instructions for vectors of six, with AVX-512 and without."""
    if not get_host_cpu_features().get(feature):
        pytest.skip(f"this processor has no {feature}")
    environment = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    assert digest_of_a_process(**environment, NUMBA_CACHE_DIR=str(tmp_path)) == digest


FOR_ARM = """
import re
import warnings
import llvmlite.binding as llvm
from alles_kaese_env import GameBatch
from alles_kaese_env.core.loops import step_games

warnings.simplefilter("ignore")  # of Numba, that it does not keep what is not optimised
batch = GameBatch(2, seed=0, autoreset=True)
batch.step(batch.random_actions())
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple("aarch64-linux-gnu")
(code,) = step_games.inspect_llvm().values()
for wrong in (r'target (triple|datalayout) = ".*"', r'"target-(cpu|features)"="[^"]*"'):
    code = re.sub(wrong, "", code)
module = llvm.parse_assembly(code)
machine = target.create_target_machine(cpu="apple-m1", opt=3)
builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
builder.getModulePassManager().run(module, builder)
print("fdiv" in machine.emit_assembly(module))
"""


@pytest.mark.long
def test_llvm_writes_code_for_arm(tmp_path):
    """No machine here runs it, but what LLVM cannot translate ends the process."""
    environment = {"NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(tmp_path)}  # optimised for ARM then
    assert output_of_a_process("-c", FOR_ARM, **environment) == "True"


def test_a_reset_without_a_seed_goes_on_with_the_stream():
    """The first seed fixes all later games of an environment."""
    env = gymnasium.make("AllesKaese-v0", num_players=3)
    runs = []
    for _ in range(2):
        run = []
        for seed in (6, None, None):
            observation, info = env.reset(seed=seed)
            terminated = False
            while not terminated:
                run.append(observation.tobytes())
                action = int(info["action_mask"].argmax())
                observation, reward, terminated, _, info = env.step(action)
                run.append(reward)
        runs.append(run)
    assert runs[0] == runs[1]


def test_batch_reset_with_a_seed_is_the_batch_made_with_it():
    batch = GameBatch(9, seed=7)
    random_play(batch, 5)
    batch.reset(seed=8)
    assert_same([snapshot(batch)], [snapshot(GameBatch(9, seed=8))])


# --- Seeds -------------------------------------------------------------------------------------


def reset_batch(seed):
    batch = GameBatch(2)
    batch.reset(seed=seed)
    return batch.observations


def reset_gymnasium(seed):
    return gymnasium.make("AllesKaese-v0").reset(seed=seed)[0]


def reset_vector_env(seed):
    env = gymnasium.make_vec("AllesKaese-v0", num_envs=2, vectorization_mode="vector_entry_point")
    return env.reset(seed=seed)[0]


def reset_vector_env_with_a_list(seed):
    env = gymnasium.make_vec("AllesKaese-v0", num_envs=2, vectorization_mode="vector_entry_point")
    return env.reset(seed=[0, seed])[0]


def reset_pettingzoo(seed):
    env = alles_kaese_v0.raw_env()
    env.reset(seed=seed)
    return env.observe("player_0")["observation"]


def reset_stable_baselines3(seed):
    env = AllesKaeseVecEnv(2)
    env.seed(seed)
    return env.reset()


APIS = [
    lambda seed: GameBatch(2, seed=seed).observations,
    reset_batch,
    reset_gymnasium,
    reset_vector_env,
    reset_vector_env_with_a_list,
    reset_pettingzoo,
    reset_stable_baselines3,
]
for_all_apis = pytest.mark.parametrize(
    "reset",
    APIS,
    ids=["new-batch", "batch", "gymnasium", "vector", "vector-list", "pettingzoo", "sb3"],
)


@for_all_apis
def test_large_seeds_work_and_are_different(reset):
    first = [reset(seed).tobytes() for seed in SEEDS]
    assert first == [reset(np.uint64(seed)).tobytes() for seed in SEEDS]
    assert len(set(first)) == len(SEEDS)


@for_all_apis
@pytest.mark.parametrize("seed", WRONG_SEEDS, ids=repr)
def test_wrong_seeds_are_refused(reset, seed):
    with pytest.raises(ValueError, match=r"seed (is|has) .*; allowed: "):
        reset(seed)


def test_a_wrong_seed_changes_no_batch():
    batch = GameBatch(3, seed=9)
    before = snapshot(batch)
    with pytest.raises(ValueError, match="seed is -1"):
        batch.reset(seed=-1)
    assert_same([before], [snapshot(batch)])


def first_dice(batch, plies):
    """The dice of each game over so many plies, with the first legal action each time."""
    dice = []
    for _ in range(plies):
        dice.append(batch.games["die"].copy())
        batch.step(batch.masks.argmax(axis=1))
    return np.array(dice).T


def test_neighbouring_seeds_share_no_dice():
    """The first 100 dice of 64 games for each of ten seeds in a row: 640 different sequences."""
    sequences = set()
    for seed in range(10):
        dice = first_dice(GameBatch(64, seed=seed, autoreset=True), 100)
        sequences |= {row.tobytes() for row in dice}
    assert len(sequences) == 640


def test_neighbouring_seeds_share_no_stream_on_any_api():
    streams = []
    for seed in range(10):
        streams += GameBatch(64, seed=seed).streams.tolist()
    assert len(set(streams)) == 640
    observations = [reset_gymnasium(seed).tobytes() for seed in range(64)]
    assert len(set(observations)) == 64


def test_neighbouring_games_roll_as_chance_has_it():
    """Dice of game i and i + 1, and of seed s and s + 1, agree in about a sixth."""
    one = first_dice(GameBatch(64, seed=0, autoreset=True), 100)
    other = first_dice(GameBatch(64, seed=1, autoreset=True), 100)
    bound = 4.5 * (5 / 36 / one.size) ** 0.5
    assert abs((one == other).mean() - 1 / 6) < bound
    assert abs((one[1:] == one[:-1]).mean() - 1 / 6) < bound
    assert abs((one[:, 1:] == one[:, :-1]).mean() - 1 / 6) < bound


# --- Copies ------------------------------------------------------------------------------------


def by_state(batch):
    other = GameBatch(len(batch), batch.variant, seed=99, autoreset=batch.autoreset)
    other.set_state(batch.get_state())
    return other


def by_pickled_state(batch):
    other = GameBatch(len(batch), batch.variant, seed=99, autoreset=batch.autoreset)
    other.set_state(pickle.loads(pickle.dumps(batch.get_state())))
    return other


def by_pickle(batch):
    return pickle.loads(pickle.dumps(batch))


@pytest.mark.parametrize("copied", [by_state, by_pickled_state, copy.deepcopy, by_pickle])
@for_all_variants
def test_a_copy_in_mid_game_goes_on_identically(variant, copied):
    batch = GameBatch(8, variant, seed=10, autoreset=True)
    random_play(batch, 7)
    other = copied(batch)
    before = snapshot(batch)
    its_own = random_play(other, 30)
    assert_same([before], [snapshot(batch)])  # the original has not moved
    assert_same(its_own, random_play(batch, 30))


@pytest.mark.parametrize("copied", [copy.deepcopy, by_pickle, by_state])
def test_a_copy_of_a_batch_with_threads_goes_on(copied):
    batch = GameBatch(50, seed=11, threads=2, autoreset=True)
    random_play(batch, 5)
    other = copied(batch)
    assert_same(random_play(other, 20), random_play(batch, 20))


@pytest.mark.parametrize("copied", [by_state, copy.deepcopy, by_pickle])
def test_a_copy_shares_no_memory(copied):
    batch = GameBatch(4, seed=12)
    other = copied(batch)
    for mine in vars(batch).values():
        for its in vars(other).values():
            if isinstance(mine, np.ndarray) and isinstance(its, np.ndarray):
                assert not np.shares_memory(mine, its)


def test_equal_states_have_equal_bytes():
    """No byte of a record lies between its fields: NumPy would copy those as it likes."""
    fields = GAME.fields.values()
    assert sum(dtype.itemsize for dtype, *_ in fields) == GAME.itemsize


def test_a_state_is_a_copy():
    """Neither does the batch change it, nor does writing to it change the batch."""
    batch = GameBatch(4, seed=13, autoreset=True)
    state = batch.get_state()
    kept = copy.deepcopy(state)
    random_play(batch, 5)
    assert (state["games"] == kept["games"]).all()
    assert (state["streams"] == kept["streams"]).all()
    batch.set_state(state)
    before = snapshot(batch)
    state["games"]["points"] = 77
    state["streams"][:] = 0
    assert_same([before], [snapshot(batch)])


@pytest.mark.parametrize("copied", [copy.deepcopy, by_pickle])
def test_a_copy_of_a_scripted_game_goes_on_with_the_script(copied):
    """Its cards come from the same deck, and the original is still where it was."""
    variant = Variant(burn="never")
    batch = table(variant, "1c 1t 2c 2t 3c 3t 4t 5c 6t 1c", [3, 4, 5, 6, 1])
    play(batch, "take 4")
    other = copied(batch)
    play(other, "take 4", "take 4")
    assert game_of(other).traps[1] == 1
    assert game_of(other).points[0] == 8
    assert game_of(batch).turns == 1
    play(batch, "take 4", "take 4")
    assert (other.games == batch.games).all()


def test_set_state_ends_a_script():
    """What a state holds has no script, so chance goes on by the stream."""
    variant = Variant()
    batch = GameBatch(1, variant, seed=14)
    state = batch.get_state()
    batch.reset(script=ScriptedDeal(variant, stacked(variant, "1c")))
    batch.set_state(state)
    other = GameBatch(1, variant, seed=14)
    assert_same(random_play(batch, 15), random_play(other, 15))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rules_version": -1}, "state has rules_version -1; allowed: "),
        ({"variant": asdict(Variant(num_players=3))}, "state has variant .*num_players=3.*allowed"),
        ({"variant": asdict(Variant(burn="never"))}, "state has variant .*never.*; allowed: "),
        ({"variant": None}, "state has variant None; allowed: "),
        ({"games": GameBatch(5, seed=0).games}, "state has number of games 5; allowed: 4"),
    ],
)
def test_a_state_of_another_kind_is_refused(change, message):
    batch = GameBatch(4, seed=15)
    before = snapshot(batch)
    with pytest.raises(ValueError, match=message):
        batch.set_state({**batch.get_state(), **change})
    assert_same([before], [snapshot(batch)])


def test_a_state_of_another_batch_is_refused():
    with pytest.raises(ValueError, match="variant"):
        GameBatch(4, Variant(num_players=2)).set_state(
            GameBatch(4, Variant(num_players=3)).get_state()
        )
    with pytest.raises(ValueError, match="number of games"):
        GameBatch(4).set_state(GameBatch(3).get_state())


def test_a_gymnasium_environment_can_be_copied_in_mid_game():
    env = gymnasium.make("AllesKaese-v0", num_players=3)
    _, info = env.reset(seed=16)
    for _ in range(3):
        *_, info = env.step(int(info["action_mask"].argmax()))
    other = copy.deepcopy(env)
    traces = []
    for one in (other, env):
        masks, trace = info["action_mask"], []
        terminated = False
        while not terminated:
            observation, reward, terminated, _, last = one.step(int(masks.argmax()))
            masks = last["action_mask"]
            trace.append((observation.tobytes(), reward))
        traces.append(trace)
    assert traces[0] == traces[1]

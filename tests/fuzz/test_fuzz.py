"""Fuzzing of all that comes from outside: actions, options, seeds, and files.

Whatever is passed in, the answer is a result, a `ValueError` or a `TypeError`, and the
games stay as they were. Hypothesis begins with the cases in ``FOUND`` and then thinks of others:
a few in the default tier, many in the long one.
"""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from agent_tools import random_network
from apis.helpers import state_of
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from agents.ppo.agent import PPOAgent
from alles_kaese_env import (
    AllesKaeseEnv,
    AllesKaeseVectorEnv,
    GameBatch,
    Variant,
    alles_kaese_v0,
    replay,
)
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.state import load_state, save_state

EXAMPLES = 40
LONG_EXAMPLES = 5_000

TIERS = [EXAMPLES, pytest.param(LONG_EXAMPLES, marks=pytest.mark.long)]
for_both_tiers = pytest.mark.parametrize("examples", TIERS)

numbers = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.complex_numbers(max_magnitude=9)
)
scalars = st.one_of(st.none(), numbers, st.text(max_size=5), st.binary(max_size=5))
dtypes = st.one_of(
    arrays.integer_dtypes(),
    arrays.unsigned_integer_dtypes(),
    arrays.floating_dtypes(),
    arrays.boolean_dtypes(),
    arrays.unicode_string_dtypes(max_len=3),
)
tables = arrays.arrays(dtypes, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
values = st.recursive(
    st.one_of(scalars, tables),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.text(max_size=6), st.integers()), inner, max_size=4),
        st.tuples(inner, inner),
    ),
    max_leaves=8,
)

# What fuzzing or a look at the code has found, kept for good.
FOUND = [
    {"state": {"state": 1}},
    np.zeros((0,)),
    np.array(5, np.uint64),
    [3, [4]],
    {"batch": {"games": np.zeros(3)}},
    float("nan"),
    2**64,
    b"\x80\x04",
]


def with_settings(examples):
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def fuzz(examples, strategy, check):
    """Hand what is found and what hypothesis thinks of to the check."""

    def one(value):
        check(value)

    for value in FOUND:
        one = example(value)(one)
    with_settings(examples)(given(strategy)(one))()


def refuses(call, value):
    """Whether a call refuses a value; any other error is a fault."""
    try:
        call(value)
    except (ValueError, TypeError):
        return True
    return False


def apis():
    single = AllesKaeseEnv(num_players=3, on_illegal="raise")
    vector = AllesKaeseVectorEnv(2, num_players=3, on_illegal="raise")
    aec = alles_kaese_v0.raw_env(num_players=3)
    for env in (single, vector, aec):
        env.reset(seed=0)
    sb3 = AllesKaeseVecEnv(2, num_players=3, on_illegal="raise", seed=0)
    sb3.reset()
    return {"gymnasium": single, "vector": vector, "pettingzoo": aec, "sb3": sb3}


APIS = ["gymnasium", "vector", "pettingzoo", "sb3"]


@for_both_tiers
@pytest.mark.parametrize("name", APIS)
def test_actions(examples, name):
    """A refused action changes nothing; one that is taken was a legal one."""
    env = apis()[name]
    start = env.get_state()

    def check(value):
        env.set_state(start)
        before = state_of(env)
        if refuses(env.step, value):
            assert state_of(env) == before
        else:
            assert np.asarray(value).dtype.kind in "iu"
            assert ((np.asarray(value) >= 0) & (np.asarray(value) < 18)).all()

    fuzz(examples, st.one_of(values, st.integers(-1, 18)), check)


@for_both_tiers
@pytest.mark.parametrize("name", [*APIS, "batch"])
def test_states(examples, name):
    """Nonsense in the place of a state or of one of its parts."""
    env = GameBatch(2, seed=0) if name == "batch" else apis()[name]
    start = env.get_state()
    parts = sorted(start)

    def check(value):
        for state in (value, *({**start, part: value} for part in parts)):
            before = json.dumps(env.get_state(), default=repr)
            if refuses(env.set_state, state):
                assert json.dumps(env.get_state(), default=repr) == before

    fuzz(examples, values, check)


@for_both_tiers
@pytest.mark.parametrize("name", APIS)
def test_seeds_and_options(examples, name):
    env = apis()[name]

    def check(value):
        before = state_of(env)
        call = env.seed if name == "sb3" else lambda seed: env.reset(seed=seed)
        if refuses(call, value):
            assert state_of(env) == before
        if name == "sb3":
            return
        for option in ("deck", "dice", "reset_mask", "nonsense"):
            before = state_of(env)
            if refuses(lambda options: env.reset(options=options), {option: value}):
                assert state_of(env) == before

    fuzz(examples, values, check)


@for_both_tiers
def test_variants_and_scripts(examples):
    def check(value):
        for field in ("num_players", "traps", "copies", "row_size", "trap_limit", "burn"):
            refuses(lambda given, name=field: Variant(**{name: given}), value)
        refuses(lambda deck: ScriptedDeal(Variant(), deck), value)
        refuses(lambda dice: ScriptedDeal(Variant(), None, dice), value)

    fuzz(examples, values, check)


# --- Files -------------------------------------------------------------------------------------


@st.composite
def damages(draw):
    """Places and bytes to write over, and how much of a file to keep."""
    changes = draw(
        st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=8)), max_size=6)
    )
    return changes, draw(st.sampled_from([1.0, 1.0, 0.999, 0.9, 0.5, 0.1, 0.0]))


def damaged(data, damage):
    changes, kept = damage
    data = bytearray(data[: int(len(data) * kept)])
    for place, piece in changes:
        start = int(place * len(data))
        data[start : start + len(piece)] = piece
    return bytes(data)


@for_both_tiers
def test_damaged_files_of_states(examples, tmp_path):
    """A damaged file is refused, or it is still a state; nothing else comes of it."""
    env = AllesKaeseEnv(num_players=3)
    env.reset(seed=0)
    file = tmp_path / "state.npz"
    save_state(file, env.get_state())
    whole = file.read_bytes()

    @with_settings(examples)
    @given(damages())
    def check(damage):
        file.write_bytes(damaged(whole, damage))
        refuses(lambda path: env.set_state(load_state(path)), file)

    check()


@for_both_tiers
def test_states_from_files_of_nonsense(examples, tmp_path):
    """Archives that are whole, with nonsense in them."""
    env = AllesKaeseEnv()
    env.reset(seed=0)
    file = tmp_path / "state.npz"

    def check(value):
        plain = json.dumps(value, default=lambda one: {"array": str(one)[:9]}, skipkeys=True)
        with zipfile.ZipFile(file, "w") as archive, archive.open("plain.npy", "w") as entry:
            np.save(entry, np.frombuffer(plain.encode(), np.uint8))
        assert refuses(lambda path: env.set_state(load_state(path)), file)

    fuzz(examples, values, check)


@for_both_tiers
def test_damaged_replays(examples, tmp_path):
    """What is taken is a game: it is read again from what is written of it."""
    batch = GameBatch(1, seed=0, record=True)
    while not batch.over[0]:
        batch.step(batch.random_actions())
    whole = replay.to_json(batch.replay(perspective=replay.ALL)).encode()

    @with_settings(examples)
    @given(damages())
    def check(damage):
        data = damaged(whole, damage)
        if not refuses(replay.from_json, data):
            text = replay.to_json(replay.from_json(data))
            assert replay.to_json(replay.from_json(text)) == text

    check()


@for_both_tiers
def test_replays_of_nonsense(examples):
    """Nonsense in the place of every part of a replay."""
    batch = GameBatch(1, seed=0, record=True)
    batch.step(batch.random_actions())
    parts = json.loads(replay.to_json(batch.replay(perspective=replay.ALL)))
    turn = parts["turns"][0]

    def check(value):
        wrong = [value, *({**parts, name: value} for name in parts)]
        wrong += [{**parts, "turns": [{**turn, name: value}]} for name in turn]
        for one in wrong:
            text = json.dumps(one, default=lambda one: {"array": str(one)[:9]}, skipkeys=True)
            refuses(replay.from_json, text)

    fuzz(examples, values, check)


@for_both_tiers
@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_damaged_weights(examples, tmp_path, suffix):
    """What users exchange of an agent: weights and what they are for."""
    file = tmp_path / "policy.npz"
    PPOAgent(random_network(hidden=(4,))).save(file)
    target = file.with_suffix(suffix)
    whole = target.read_bytes()

    @with_settings(examples)
    @given(damages())
    def check(damage):
        target.write_bytes(damaged(whole, damage))
        refuses(PPOAgent.load, file)

    check()


def header_that_does_not_end(file):
    """Found among damaged weights: NumPy reads headers as Python, whose tokenizer then fails."""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("plain.npy", data)


@pytest.mark.parametrize("load", [load_state, PPOAgent.load], ids=["state", "weights"])
def test_a_header_that_does_not_end(load, tmp_path):
    file = tmp_path / "policy.npz"
    PPOAgent(random_network(hidden=(4,))).save(file)
    header_that_does_not_end(file)
    with pytest.raises(ValueError, match=r"policy\.npz"):
        load(file)


def test_found_cases_are_of_every_kind():
    """Arrays, nested containers, numbers and bytes stay among them."""
    assert {type(case) for case in FOUND} >= {dict, list, np.ndarray, float, int, bytes}

"""Every API can be saved in mid-game and goes on identically; what is no state is refused."""

from __future__ import annotations

import copy
import json
import pickle
import zipfile

import gymnasium
import numpy as np
import pytest

from alles_kaese_env import AllesKaeseEnv, AllesKaeseVectorEnv, GameBatch, Variant, alles_kaese_v0
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv, JoinedVecEnv
from alles_kaese_env.state import load_state, save_state
from apis.helpers import Gambler, assert_same, pick, picks, state_of

# --- The APIs, each with what it shows of a step -----------------------------------------------


class Single:
    def __init__(self, seed, **options):
        self.env = AllesKaeseEnv(num_players=3, **options)
        self.last = self.env.reset(seed=seed)

    def step(self, rng):
        if len(self.last) > 2 and self.last[2]:
            self.last = self.env.reset()
        else:
            self.last = self.env.step(pick(self.env.action_masks(), rng))
        return self.last

    def set_state(self, state):
        self.last = self.env.set_state(state)


class Vector:
    def __init__(self, seed, **options):
        self.env = AllesKaeseVectorEnv(5, num_players=4, **options)
        self.env.reset(seed=seed)

    def step(self, rng):
        masks = self.env.action_masks()
        masks[~masks.any(axis=1)] = True
        return self.env.step(picks(masks, rng))

    def set_state(self, state):
        self.env.set_state(state)


class StableBaselines:
    def __init__(self, seed, **options):
        self.env = AllesKaeseVecEnv(5, seed=seed, **options)
        self.env.reset()

    def step(self, rng):
        return self.env.step(picks(self.env.action_masks(), rng))

    def set_state(self, state):
        self.env.set_state(state)


class Joined(StableBaselines):
    def __init__(self, seed, **options):
        parts = [AllesKaeseVecEnv(2, num_players=n, **options) for n in (2, 5)]
        self.env = JoinedVecEnv(parts)
        self.env.seed(seed)
        self.env.reset()


class PettingZoo:
    def __init__(self, seed):
        self.env = alles_kaese_v0.raw_env(num_players=3)
        self.env.reset(seed=seed)

    def step(self, rng):
        env = self.env
        if not env.agents:
            env.reset()
        seen, *rest = env.last()
        mask = seen["action_mask"]
        env.step(pick(mask, rng) if mask.any() else None)
        return seen, rest, env.agents[:], dict(env.rewards), env.agent_selection

    def set_state(self, state):
        self.env.set_state(state)


class Batch:
    def __init__(self, seed):
        self.env = GameBatch(6, Variant(num_players=3), seed=seed, autoreset=True)

    def step(self, rng):
        env = self.env
        env.step(env.random_actions())
        return env.observations.copy(), env.masks.copy(), env.over.copy(), env.payoffs.copy()

    def set_state(self, state):
        self.env.set_state(state)


APIS = {
    "batch": Batch,
    "gymnasium": Single,
    "gymnasium, drawing opponents": lambda seed: Single(seed, opponents=Gambler()),
    "gymnasium, shaped": lambda seed: Single(seed, reward="shaped"),
    "vector": Vector,
    "vector, same step": lambda seed: Vector(seed, autoreset_mode="SameStep"),
    "vector, drawing opponents": lambda seed: Vector(seed, opponents=Gambler()),
    "pettingzoo": PettingZoo,
    "sb3": StableBaselines,
    "sb3, drawing opponents": lambda seed: StableBaselines(seed, opponents=Gambler()),
    "sb3, joined": Joined,
}
for_all_apis = pytest.mark.parametrize("make", APIS.values(), ids=APIS)


def play(api, steps, seed=0):
    rng = np.random.default_rng(seed)
    return [api.step(rng) for _ in range(steps)]


# --- Saving and restoring ----------------------------------------------------------------------


def by_file(state, folder):
    save_state(folder / "state.npz", state)
    return load_state(folder / "state.npz")


ROUTES = {
    "as it is": lambda state, folder: state,
    "pickle": lambda state, folder: pickle.loads(pickle.dumps(state)),
    "file": by_file,
}


@for_all_apis
@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_a_restored_game_goes_on_identically(make, route, tmp_path):
    """At several moments, episodes that have just ended among them; the original stays."""
    for steps in (0, 1, 7, 24, 61):
        api, other = make(seed=1), make(seed=2)
        play(api, steps)
        before = copy.deepcopy(api)
        state = api.env.get_state()
        its_own = play(api, 40, seed=3)
        other.set_state(route(state, tmp_path))
        if isinstance(api, Single):  # whether its episode has ended is what the caller knows
            other.last = before.last
        assert_same(play(other, 40, seed=3), its_own)
        assert_same(before.env.get_state(), state)


@for_all_apis
def test_a_state_is_neither_changed_by_the_games_nor_the_other_way_round(make):
    api = make(seed=1)
    play(api, 5)
    state = api.env.get_state()
    kept = copy.deepcopy(state)
    play(api, 20)
    assert_same(state, kept)
    api.set_state(state)
    play(api, 20)
    assert_same(state, kept)


def test_a_dead_step_of_pettingzoo_is_restored():
    """Amid the last, empty steps of the agents."""
    env = alles_kaese_v0.raw_env(num_players=4)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    while not any(env.terminations.values()):
        env.step(pick(env.observe(env.agent_selection)["action_mask"], rng))
    for _ in range(5):
        other = alles_kaese_v0.raw_env(num_players=4)
        other.set_state(env.get_state())
        for name in ("agents", "rewards", "_cumulative_rewards", "terminations", "infos"):
            assert getattr(other, name) == getattr(env, name), name
        if env.agents:
            assert other.agent_selection == env.agent_selection
            assert_same(other.last(), env.last())
            env.step(None)


def test_a_forfeited_episode_is_restored():
    env, other = AllesKaeseEnv(), AllesKaeseEnv()
    env.reset(seed=0)
    env.step(int((~env.action_masks()).argmax()))
    _, info = other.set_state(env.get_state())
    assert not info["action_mask"].any()
    assert_same(other.get_state(), env.get_state())
    with pytest.raises(gymnasium.error.ResetNeeded):
        other.step(0)


def test_a_game_that_was_broken_off_has_no_state():
    env = alles_kaese_v0.env()
    env.reset(seed=0)
    mask = env.observe(env.agent_selection)["action_mask"]
    env.step(int((1 - mask).argmax()))
    with pytest.raises(ValueError, match="broken off"):
        env.unwrapped.get_state()


@pytest.mark.parametrize("make", [AllesKaeseEnv, AllesKaeseVectorEnv, alles_kaese_v0.raw_env])
def test_there_is_no_state_before_a_game(make):
    with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
        make().get_state()


# --- What is no state --------------------------------------------------------------------------


def with_part(state, path, value):
    """The state with something else in one place."""
    head, *rest = path
    part = with_part(state[head], rest, value) if rest else value
    if isinstance(state, list):
        return [*state[:head], part, *state[head + 1 :]]
    return {**state, head: part}


def paths_of(state, path=()):
    """The way to every part of a state."""
    parts = state.items() if isinstance(state, dict) else enumerate(state)
    for name, part in parts:
        yield (*path, name)
        if isinstance(part, dict) or (isinstance(part, list) and part and name == "parts"):
            yield from paths_of(part, (*path, name))


def refusal_of(env, state):
    """What `set_state` has against a state; None if it takes it."""
    try:
        env.set_state(state)
    except ValueError as error:
        return str(error)
    return None


NONSENSE = [None, "nonsense", -1, 2**70, float("nan"), {}, [], np.zeros(3), np.array("text")]


@for_all_apis
def test_whatever_is_no_state_is_refused_in_one_line_and_changes_nothing(make):
    """Nonsense in the place of every part, parts left out, and something else altogether."""
    api = make(seed=1)
    play(api, 9)
    state = api.env.get_state()
    play(api, 3)
    if isinstance(api, Joined):  # its parts come one after the other
        state = api.env.get_state()
    before = api.env.get_state()
    refused = 0
    wrong = [*NONSENSE]
    for path in paths_of(state):
        wrong += [with_part(state, path, value) for value in NONSENSE]
        wrong += [{name: part for name, part in state.items() if name != path[0]}]
    for one in wrong:
        refusal = refusal_of(api.env, one)
        if refusal is None:  # a number that says nothing, such as what a generator has left over
            api.env.set_state(before)
        else:
            refused += 1
            assert refusal.startswith("state")
            assert "\n" not in refusal
        assert_same(api.env.get_state(), before)
    assert refused >= 0.95 * len(wrong)


@for_all_apis
@pytest.mark.parametrize("name", ["state_version", "rules_version"])
def test_another_version_is_named(make, name):
    api = make(seed=1)
    state = api.env.get_state()
    with pytest.raises(ValueError, match=rf"state has {name} 99; allowed: \d"):
        api.env.set_state({**state, name: 99})


def test_the_state_of_another_api_is_named():
    state = AllesKaeseVecEnv(1, seed=0)
    state.reset()
    env = AllesKaeseEnv()
    env.reset(seed=0)
    before = state_of(env)
    with pytest.raises(ValueError, match="state has kind 'GamesVecEnv'; allowed: 'Single"):
        env.set_state(state.get_state())
    assert state_of(env) == before


def test_other_rules_are_named():
    state = GameBatch(1, Variant(num_players=3), seed=0).get_state()
    with pytest.raises(ValueError, match=r"state has variant .*num_players=3.*; allowed: .*=2"):
        GameBatch(1, seed=0).set_state(state)


def test_other_opponents_in_number_are_refused():
    env = AllesKaeseEnv(num_players=3, opponents=["random", "random"])
    env.reset(seed=0)
    other = AllesKaeseEnv(num_players=3)
    with pytest.raises(ValueError, match="state has assigned beyond its bounds"):
        other.set_state(env.get_state())


def changed_byte(state, rng):
    """A copy of a state in which one byte of one game is another."""
    games = state["games"].copy()
    numbers = games.view(np.uint8)
    place = rng.integers(numbers.size)
    numbers[place] ^= rng.integers(1, 256)
    return {**state, "games": games}


def test_a_front_that_a_seat_knows_twice_is_refused():
    """Without its bit in ``peeked`` the seat would count the front in the slot once more."""
    batch = GameBatch(1, seed=0)
    while not ((peeked := batch.games["peeked"][0]) == 3).any():
        peeks = np.flatnonzero(batch.masks[0][:6])
        batch.step([peeks[0] if len(peeks) else np.flatnonzero(batch.masks[0])[-1]])
        if batch.over[0]:
            batch.reset()
    state = batch.get_state()
    state["games"]["peeked"][0, np.flatnonzero(peeked == 3)[0]] = 1
    with pytest.raises(ValueError, match="a seat knows what it saw"):
        batch.set_state(state)


@pytest.mark.parametrize("players", [2, 4])
def test_a_record_that_cannot_occur_is_refused(players):
    """Of 3,000 records with one byte changed, those taken have their cards and can be played on.

    The core takes numbers of a record as places in memory, so this is what guards it.
    """
    rng = np.random.default_rng(0)
    batch = GameBatch(1, Variant(num_players=players), seed=0)
    refused = 0
    for number in range(3_000):
        if number % 10 == 0:
            batch.reset()
            for _ in range(rng.integers(12)):
                batch.step(batch.random_actions()) if not batch.over[0] else None
        changed = changed_byte(batch.get_state(), rng)
        other = GameBatch(1, batch.variant, seed=1)
        refusal = refusal_of(other, changed)
        if refusal is not None:
            assert "that cannot occur" in refusal
            refused += 1
            continue
        names = [
            name
            for name in batch.games.dtype.names
            if not np.array_equal(other.games[name], batch.games[name])
        ]
        # The die, the last action, the number of rounds, and what is known of fronts beyond
        # those in sight can be others in the same place.
        assert set(names) <= {"die", "action", "turns", "known", "drawn", "front", "peeked"}
        while not other.over[0]:
            other.step(other.random_actions())
        assert other.payoffs.sum() == pytest.approx(0, abs=1e-6)
    assert refused > 2_500


def test_states_of_real_games_are_taken():
    """All that occurs in whole games of every number of players, burn and end."""
    for variant in (Variant(num_players=n, burn=b) for n in range(2, 7) for b in ("peek", "turn")):
        batch = GameBatch(200, variant, seed=0)
        while not batch.over.all():
            rows = np.flatnonzero(~batch.over)
            batch.step(batch.random_actions(rows), rows)
            batch.set_state(batch.get_state())


# --- Files -------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    env = AllesKaeseEnv()
    env.reset(seed=0)
    save_state(tmp_path / "state.npz", env.get_state())
    return tmp_path / "state.npz"


class Bomb:
    """Leaves a trace if somebody unpickles it."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (str(self.trace), "w")


def pickled(file):
    file.write_bytes(pickle.dumps(Bomb(file.with_name("trace"))))


def with_pickled_array(file):
    plain = np.frombuffer(json.dumps({"array": "a"}).encode(), np.uint8)
    np.savez(file, plain=plain, a=np.array([Bomb(file.with_name("trace"))], object))


def far_too_large(file):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("plain.npy", bytes(10))
        archive.infolist()[0].file_size = 2**40
        archive.filelist[0].file_size = 2**40


def header_of_a_huge_array(file):
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000000,)}"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("plain.npy", data)


SPOILERS = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "text": lambda file: file.write_text("state"),
    "first half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "almost all": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "pickle": pickled,
    "pickled array": with_pickled_array,
    "one array": lambda file: np.save(file.open("wb"), np.zeros(3)),
    "no header": lambda file: np.savez(file, games=np.zeros(3)),
    "text in the header": lambda file: np.savez(file, plain=np.array("state")),
    "a list": lambda file: np.savez(file, plain=np.frombuffer(b"[]", np.uint8)),
    "deep": lambda file: np.savez(file, plain=np.frombuffer(b"[" * 10**5, np.uint8)),
    "absent array": lambda file: np.savez(file, plain=np.frombuffer(b'{"array": "x"}', np.uint8)),
    "array by list": lambda file: np.savez(file, plain=np.frombuffer(b'{"array": []}', np.uint8)),
    "far too large": far_too_large,
    "huge array": header_of_a_huge_array,
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS)
def test_what_is_no_file_of_a_state_is_refused_in_one_line(file, spoil):
    spoil(file)
    with pytest.raises(ValueError, match="is no file of a state") as error:
        load_state(file)
    assert "\n" not in str(error.value)
    assert not file.with_name("trace").exists()  # nothing was executed


def test_a_state_is_written_whole_or_not_at_all(file, monkeypatch):
    whole = file.read_bytes()

    def fail(stream, **arrays):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        save_state(file, GameBatch(1, seed=0).get_state())
    assert file.read_bytes() == whole
    assert [one.name for one in file.parent.iterdir()] == [file.name]

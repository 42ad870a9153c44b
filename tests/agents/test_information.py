"""No agent knows more than its seat may know."""

from __future__ import annotations

import gc
import importlib
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType

import numpy as np
import pytest
from agent_tools import ROOT, SOURCES, imports_of, random_network
from builders import PLAYERS, mixed_states, playing, with_games

import agents
from agents.arena import matches as arena
from agents.ppo.agent import PPOAgent
from alles_kaese_env import OBSERVATION, AllesKaeseEnv, GameBatch, Variant
from alles_kaese_env.core.records import (
    CHEESE,
    GAME,
    MAX_SLOTS,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.core.rules import (
    face_of,
)
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv

AGENTS = {
    "random": lambda: agents.make("random"),
    "reference": lambda: agents.make("reference"),
    "greedy": lambda: agents.make("greedy"),
    "heuristic": lambda: agents.make("heuristic"),
    "search": lambda: agents.make("search:4"),
    "flat search": lambda: agents.make("search:flat:4"),
    "ppo greedy": lambda: PPOAgent(random_network()),
    "ppo sampling": lambda: PPOAgent(random_network(), is_greedy=False),
}


# --- Pairs of states that a seat cannot tell apart ---------------------------------------------


def flip_front(game, slot, fronts):
    """Turn cheese into a trap or the other way round, for all who have seen it; False if there
    are too few such cards."""
    old = int(game["front"][slot])
    new = CHEESE + TRAP - old
    before, after = (face_of(front, int(game["row"][slot])) for front in (old, new))
    if game["drawn"][after] >= fronts[after]:
        return False
    game["front"][slot] = new
    changed = [game["drawn"]]
    changed += [game["known"][k] for k in range(6) if game["peeked"][slot] >> k & 1]
    for counts in changed:
        counts[before] -= 1
        counts[after] += 1
    return True


def flipped(batch, is_known):
    """Copies of the games with other fronts in the row, and the rows where there are any.

    Either fronts that the seat to move knows are flipped, or those that only others know.
    """
    games, changed = batch.games.copy(), []
    for row in playing(batch):
        game, seat = games[row], int(batch.games["seat"][row])
        slots = [
            slot
            for slot in range(MAX_SLOTS)
            if game["front"][slot] != UNSEEN and game["peeked"][slot] >> seat & 1 == is_known
        ]
        flips = [flip_front(game, slot, batch.variant.rules["fronts"][0]) for slot in slots]
        if any(flips):
            changed.append(row)
    return games, np.array(changed)


def pairs_of(is_known):
    """Observations and masks of the seat to move, before and after fronts are flipped."""
    before, after = [], []
    for players in PLAYERS:
        batch = mixed_states(Variant(num_players=players), 1_000, seed=players)
        games, rows = flipped(batch, is_known)
        other = with_games(batch, games)
        assert (games[rows] != batch.games[rows]).all()
        assert (other.seats[rows] == batch.seats[rows]).all()
        before.append((batch.observations[rows], batch.masks[rows]))
        after.append((other.observations[rows], other.masks[rows]))
    return [tuple(map(np.concatenate, zip(*parts, strict=True))) for parts in (before, after)]


@pytest.fixture(scope="module")
def hidden_pairs():
    return pairs_of(is_known=False)


@pytest.fixture(scope="module")
def known_pairs():
    return pairs_of(is_known=True)


def test_fronts_that_others_saw_are_not_in_the_observation(hidden_pairs):
    (observations, masks), (other_observations, other_masks) = hidden_pairs
    assert len(observations) > 2_000
    assert observations.tobytes() == other_observations.tobytes()
    assert masks.tobytes() == other_masks.tobytes()


@pytest.mark.parametrize("name", AGENTS)
def test_same_knowledge_same_move(hidden_pairs, name):
    """One by one, each pair with a seed of its own, and in one batch."""
    agent = AGENTS[name]()
    moves = [agent.act(*side, np.random.default_rng(7)) for side in hidden_pairs]
    assert (moves[0] == moves[1]).all()
    number = len(moves[0])
    one_by_one = [
        [
            agent.act(side[0][[row]], side[1][[row]], np.random.default_rng(row))[0]
            for row in range(number)
        ]
        for side in hidden_pairs
    ]
    assert one_by_one[0] == one_by_one[1]


@pytest.mark.parametrize("name", ["reference", "ppo greedy"])
def test_other_knowledge_other_moves(known_pairs, name):
    """The control: what the seat itself saw is in the observation, and agents go by it."""
    (observations, _), (other_observations, _) = known_pairs
    assert (observations != other_observations).any(axis=1).all()
    agent = AGENTS[name]()
    moves = [agent.act(*side, np.random.default_rng(7)) for side in known_pairs]
    assert 0.02 < (moves[0] != moves[1]).mean() < 1


# --- What can be reached from what an agent is handed ------------------------------------------


def references(thing):
    """What a thing refers to; code and modules are left out, since every agent can import them."""
    if isinstance(thing, (type, ModuleType, BuiltinFunctionType)):
        return []
    if isinstance(thing, FunctionType):
        return [thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
    base = [thing.base] if isinstance(thing, np.ndarray) else []  # unknown to the collector
    return gc.get_referents(thing) + base


def reachable(things):
    """All objects on paths of references from some things."""
    found, open_ = {}, list(things)
    while open_:
        thing = open_.pop()
        if id(thing) not in found:
            found[id(thing)] = thing
            open_ += references(thing)
    return list(found.values())


def is_of_a_game(thing, batch):
    """Whether a thing is a batch, or records of games, or memory of a batch."""
    if isinstance(thing, GameBatch):
        return True
    if not isinstance(thing, (np.ndarray, np.void)):
        return False
    own = [value for value in vars(batch).values() if isinstance(value, np.ndarray)]
    array = np.asarray(thing)
    return array.dtype == GAME or any(np.shares_memory(array, one) for one in own)


class Curious:
    """Plays at random and keeps all that it is handed; spoils it afterwards if it is told to."""

    def __init__(self, is_spoiling=False):
        self.handed, self.is_spoiling = [], is_spoiling

    def act(self, observations, masks, rng):
        actions = agents.make("random").act(observations, masks, rng)
        self.handed += [observations, masks, rng]
        if self.is_spoiling:
            observations[:], masks[:] = 9, ~masks
        return actions


@pytest.fixture
def batches(monkeypatch):
    """The batches that the arena makes."""
    made = []

    def make(*args, **options):
        made.append(GameBatch(*args, **options))
        return made[-1]

    monkeypatch.setattr(arena, "GameBatch", make)
    return made


def handed_in_the_arena(batches):
    agent = Curious()
    arena.win_share(agent, agent, num_players=3, games=6)
    return agent.handed, batches[0]


def handed_where_luck_is_taken_out(batches):
    agent = Curious()
    arena.win_share(agent, agent, num_players=3, games=6, luck_adjusted=True)
    return agent.handed, batches[0]


def handed_by_the_gymnasium_api(_):
    agent = Curious()
    env = AllesKaeseEnv(num_players=3, opponents=agent)
    _, info = env.reset(seed=0)
    for _ in range(8):
        _, _, terminated, _, info = env.step(int(info["action_mask"].argmax()))
        if terminated:
            _, info = env.reset()
    batch = next(thing for thing in reachable([vars(env)]) if isinstance(thing, GameBatch))
    return agent.handed, batch


def handed_in_training(_):
    agent = Curious()
    env = AllesKaeseVecEnv(5, num_players=3, opponents=agent, seed=0)
    env.reset()
    for _ in range(40):
        env.step_async(env.action_masks().argmax(axis=1))
        env.step_wait()
    return agent.handed, env.games.batch


@pytest.mark.parametrize(
    "play",
    [
        handed_in_the_arena,
        handed_where_luck_is_taken_out,
        handed_by_the_gymnasium_api,
        handed_in_training,
    ],
)
def test_no_way_from_an_observation_to_a_game(batches, play):
    handed, batch = play(batches)
    assert len(handed) > 20
    found = reachable(handed)
    assert not [type(thing) for thing in found if is_of_a_game(thing, batch)]


@pytest.mark.parametrize(
    "hide",
    [
        lambda batch: batch.observations[:1],
        lambda batch: batch.games[["row", "front"]],
        lambda batch: {"a": [batch]},
        lambda batch: partial(print, batch),
        lambda batch: lambda: batch,
        lambda batch: batch.step,
        lambda batch: batch.games[0],
    ],
)
def test_the_search_finds_what_is_hidden(hide):
    batch = GameBatch(2, seed=0)
    assert any(is_of_a_game(thing, batch) for thing in reachable([hide(batch)]))


def test_the_generator_of_an_agent_is_not_that_of_the_games(batches):
    """Knowing the state of its generator, an agent foresees no roll."""
    handed, batch = handed_in_the_arena(batches)
    generator = handed[2]
    streams = batch.streams.copy()
    generator.random(1000)
    assert (batch.streams == streams).all()


@pytest.mark.parametrize("players", [2, 5])
def test_an_agent_cannot_change_a_game(players):
    """What it is handed are copies: to spoil them changes nothing."""
    honest, spoiling = (
        arena.win_share(Curious(flag), Curious(flag), num_players=players, games=60)
        for flag in (False, True)
    )
    assert honest == spoiling


# --- What the sources of the agents import -----------------------------------------------------

# They deal, and hand out observations, or features of what a seat knows.
PLAYS_GAMES = (
    "agents/arena/",
    "agents/play/",
    "agents/training/",
    "agents/search/train_values.py",
    "agents/solve/",
    "agents/watch.py",
)
TOOLS = tuple(
    f"alles_kaese_env.{name}" for name in ("agent", "command_line", "files", "seeding", "variant")
)
SIMULATES = ("agents/search/", "agents/heuristics/")  # games they imagine


def may_import(module, name, file=""):
    """Numbers, the layout of the observation and the protocol; nothing that holds a game."""
    if file.startswith(SIMULATES) and module.startswith("alles_kaese_env.core."):
        return True
    if name is None or module in TOOLS:
        return name is not None
    value = getattr(importlib.import_module(module), name)
    return isinstance(value, int) or value is OBSERVATION or value is agents.Agent


@pytest.mark.parametrize(
    "file",
    [file for file in SOURCES if not file.relative_to(ROOT).as_posix().startswith(PLAYS_GAMES)],
    ids=lambda file: file.relative_to(ROOT).as_posix(),
)
def test_agents_do_not_import_games(file):
    ours = [
        (module, name)
        for module, name in imports_of(file)
        if module.partition(".")[0] == "alles_kaese_env"
    ]
    name = file.relative_to(ROOT).as_posix()
    assert not [pair for pair in ours if not may_import(*pair, name)]


def test_the_scan_tells_games_from_numbers():
    assert may_import("alles_kaese_env.core.records", "MAX_SLOTS")
    assert may_import("alles_kaese_env", "OBSERVATION")
    assert not may_import("alles_kaese_env", "GameBatch")
    assert not may_import("alles_kaese_env.core.records", "GAME")
    assert not may_import("alles_kaese_env.core.loops", "deal_games")
    assert not may_import("alles_kaese_env.core.records", None)
    arena_imports = imports_of(ROOT / "agents/arena/matches.py")
    assert ("alles_kaese_env", "GameBatch") in arena_imports

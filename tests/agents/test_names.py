"""An agent has one name everywhere: those of the project, and those of anybody's module."""

from __future__ import annotations

import json
import sys

import gymnasium as gym
import numpy as np
import pytest
from agent_tools import ROOT, run_python

import agents
from agents.arena.matches import win_share
from agents.play.table import Table
from agents.solve.responses import exploitability
from alles_kaese_env import Variant
from alles_kaese_env.agent import Agent, load_agent
from alles_kaese_env.replay import load

MODULE = """
class Nth:
    def __init__(self, place="0"):
        self.place = int(place)

    def act(self, observations, masks, rng):
        legal = [mask.nonzero()[0] for mask in masks]
        return [actions[self.place % len(actions)] for actions in legal]
"""
NAME = "my_agents_module:Nth:1"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a module with arguments in a directory outside the project that holds the agent."""
    (tmp_path / "my_agents_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)

    def run_there(*arguments):
        return run_python(*arguments, cwd=tmp_path)

    return run_there


def test_the_arena_plays_an_agent_of_anybody(run, tmp_path):
    code, _, errors = run("-m", "agents.arena", NAME, "random", "--games", "20", "--json", "a.json")
    assert (code, errors) == (0, "")
    pairs = json.loads((tmp_path / "a.json").read_text())["pairs"]
    assert [pair["agent"] for pair in pairs] == [NAME, "random"]


def test_the_solver_measures_an_agent_of_anybody(run):
    options = ["--traps", "1,1", "--copies", "2,2", "--trap-limit", "1"]
    code, output, errors = run("-m", "agents.solve", NAME, *options)
    assert code == 0, errors
    assert output.splitlines()[-1].startswith(NAME)


def test_an_agent_of_anybody_is_watched(run, tmp_path):
    code, _, errors = run("-m", "agents.watch", NAME, "reference", "--save", "game.json")
    assert code == 0, errors
    assert load(tmp_path / "game.json").names == (NAME, "reference")


def test_a_person_plays_against_an_agent_of_anybody(run):
    """It is made; then the command asks for a terminal."""
    code, _, errors = run("-m", "agents.play", "--opponents", NAME)
    assert code == 2
    assert "no terminal" in errors
    code, _, errors = run("-m", "agents.play", "--opponents", NAME + "x")
    assert code == 2
    assert NAME + "x" in errors


def test_training_against_an_agent_of_anybody(run, tmp_path):
    pytest.importorskip("sb3_contrib", reason="needs the extra train")
    sizes = ["--total-steps", "64", "--num-envs", "4", "--n-steps", "16", "--batch-size", "16"]
    options = [*sizes, "--opponents", NAME, "--out", "run"]
    code, _, errors = run(ROOT / "train.py", *options)
    assert code == 0, errors
    data = json.loads((tmp_path / "run" / "config.json").read_text())
    assert data["options"]["opponents"] == NAME


GYM = """
import gymnasium as gym, sys
import alles_kaese_env
from gymnasium.vector import AsyncVectorEnv

def make():
    return gym.make("alles_kaese_env:AllesKaese-v0", opponents=sys.argv[1])

if __name__ == "__main__":
    envs = AsyncVectorEnv([make, make], context="spawn", shared_memory=True)
    _, infos = envs.reset(seed=0)
    envs.step(infos["action_mask"].argmax(axis=1))
    envs.close()
"""


@pytest.mark.parametrize("name", ["reference", NAME])
def test_gym_make_takes_the_name_in_spawned_processes_too(run, tmp_path, name):
    (tmp_path / "program.py").write_text(GYM)
    code, _, errors = run("program.py", name)
    assert code == 0, errors


@pytest.mark.parametrize("name", ["greedy", "reference", "heuristic", "search:4", "ppo"])
def test_names_of_the_project_are_opponents(name):
    env = gym.make("alles_kaese_env:AllesKaese-v0", opponents=name)
    _, info = env.reset(seed=0)
    env.step(int(np.flatnonzero(info["action_mask"])[0]))
    assert type(load_agent("opponents", name)) is type(agents.make(name))
    assert isinstance(agents.make(name), Agent)


@pytest.mark.parametrize("text", ["", "make = 3", "def make(name): return name", "import nosuch"])
def test_another_module_of_that_name_gets_one_line(text, tmp_path, monkeypatch):
    """Another distribution installs a module `agents`, or there is none."""
    (tmp_path / "agents.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for module in [name for name in sys.modules if name.split(".")[0] == "agents"]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ValueError, match=r"opponents is 'reference'") as raised:
        load_agent("opponents", "reference")
    assert "module:name" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "name", ["nobody", "this", "os:", "os:nothing", "nosuch:Agent", "os:path:x"]
)
def test_what_is_no_agent_gets_one_line(name):
    with pytest.raises(ValueError, match=r"opponents is .*allowed: .random., the name of an agent"):
        load_agent("opponents", name)


class Raising:
    def act(self, observations, masks, rng):
        raise KeyError("lost")


class Cheating:
    def act(self, observations, masks, rng):
        return (~masks).argmax(axis=1)


def step_against(agent):
    env = gym.make("alles_kaese_env:AllesKaese-v0", opponents=agent, seat=1)
    env.reset(seed=0)


def share_of(agent):
    win_share(agents.make("random"), agent, num_players=2, games=2)


def move_of(agent):
    table = Table(["random", "random"], seed=0)
    table._agents = [agent, agent]
    table.choose()


def gap_of(agent):
    exploitability(agent, Variant.named("477"))


@pytest.mark.parametrize("play", [step_against, share_of, move_of, gap_of])
def test_a_fault_names_the_agent(play):
    with pytest.raises(RuntimeError, match=r"(agent|opponent) Raising.* raised KeyError: 'lost'"):
        play(Raising())
    with pytest.raises(ValueError, match=r"action of (agent|opponent) Cheating.* is \d+ \("):
        play(Cheating())

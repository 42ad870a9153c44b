"""Agents and what they are asked: any rules that they are told, and nothing that makes no sense."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from agent_tools import positions, random_network, situation
from builders import action_of, all_variants, mixed_states, name_of, playing

import agents
from agents.ppo.agent import PPOAgent
from alles_kaese_env import GameBatch, Variant

NAMES = ["random", "greedy", "reference", "heuristic", "search:2", "search:flat:2", "ppo"]
OTHER_RULES = [{"row_size": 3}, {"trap_limit": 8}, {"traps": (1, 1)}, {"copies": (5,) * 6}]


def decisions(variant, games=60):
    """Observations and masks of some decisions by the rules of a variant."""
    batch = mixed_states(variant, games, seed=1)
    rows = playing(batch)
    return batch.observations[rows], batch.masks[rows]


@pytest.mark.parametrize("variant", all_variants(), ids=name_of)
@pytest.mark.parametrize("name", NAMES)
def test_moves_are_legal_by_all_rules(name, variant):
    observations, masks = decisions(variant)
    agent = agents.make("ppo:,any-rules" if name == "ppo" else name, variant)
    moves = agent.act(observations, masks, np.random.default_rng(0))
    assert len(moves) > 0
    assert masks[np.arange(len(masks)), moves].all()


@pytest.mark.parametrize("fields", OTHER_RULES, ids=str)
@pytest.mark.parametrize("name", ["greedy", "reference", "heuristic", "search:2", "search:flat:2"])
def test_an_agent_refuses_rules_that_it_was_not_told(name, fields):
    """As soon as an observation shows them, in one line."""
    observations, masks = decisions(Variant(num_players=2, **fields))
    with pytest.raises(ValueError, match=r"observations\[\d+\] is of 2 .*allowed") as raised:
        agents.make(name).act(observations, masks, np.random.default_rng(0))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("fields", OTHER_RULES, ids=str)
def test_weights_of_other_rules_are_refused_unless_asked_for(fields):
    variant = Variant(num_players=3, **fields)
    (name,) = set(fields) - {"copies"} or {"copies"}
    with pytest.raises(ValueError, match=rf"trained with .*{name}.*; allowed: ") as raised:
        agents.make("ppo", variant)
    assert "\n" not in str(raised.value)
    assert not agents.make("ppo:,sample,any-rules", variant).is_greedy
    assert agents.make("ppo", Variant(num_players=3)).is_greedy
    with pytest.raises(ValueError, match="was trained with"):
        gym.make("alles_kaese_env:AllesKaese-v0", opponents="ppo", **fields)


@pytest.mark.parametrize("fields", OTHER_RULES, ids=str)
@pytest.mark.parametrize("name", ["greedy", "heuristic", "search:2", "agents:ReferenceAgent"])
def test_an_environment_tells_its_opponents_the_rules(name, fields):
    env = gym.make("alles_kaese_env:AllesKaese-v0", opponents=name, **fields)
    _, info = env.reset(seed=0)
    for _ in range(60):
        action = int(np.flatnonzero(info["action_mask"])[-1])
        _, _, is_over, _, info = env.step(action)
        if is_over:
            _, info = env.reset()


@pytest.mark.parametrize(("traps", "expected"), [(2, "take 2"), (6, "take 2"), (7, "discard 2")])
@pytest.mark.parametrize("name", ["greedy", "heuristic"])
def test_own_traps_are_counted_by_the_trap_limit(name, traps, expected):
    """Of eight traps the last one loses; an even chance is taken before."""
    variant = Variant(num_players=2, traps=(6,) * 6, copies=(12,) * 6, trap_limit=8)
    row = {"holes": [1, 1, 4, 1, 1, 1], "chances": [0.5] * 6, "die": 4}
    sides = situation(**row, own=(0, traps), variant=variant)
    assert agents.make(name, variant).act(*sides, None) == [action_of(expected)]


@pytest.fixture(params=[*NAMES, "ppo sampling"])
def agent(request):
    if request.param == "ppo sampling":
        return PPOAgent(random_network(), is_greedy=False)
    return agents.make(request.param)


def test_all_agents_are_asked():
    kinds = {name.partition(":")[0] for name in NAMES}
    assert kinds == set(agents.AGENTS) - set(agents.TRAINED) | {"ppo"}


def test_a_single_observation_is_refused_with_the_way_out(agent):
    batch = GameBatch(1, seed=0)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"\(253,\).*\(18,\).*observation\[None\]") as raised:
        agent.act(batch.observations[0], batch.masks[0], rng)
    assert "\n" not in str(raised.value)
    assert batch.masks[0][agent.act(batch.observations, batch.masks, rng)[0]]


@pytest.mark.parametrize(
    ("observations", "masks"),
    [
        ((5, 253), (1, 18)),
        ((5, 253), (4, 18)),
        ((5, 252), (5, 18)),
        ((5, 253), (5, 17)),
        ((0,), ()),
    ],
)
def test_unlike_shapes_are_refused_by_name(agent, observations, masks):
    with pytest.raises(ValueError, match="allowed") as raised:
        agent.act(np.zeros(observations, np.float32), np.ones(masks, bool), None)
    assert str(observations) in str(raised.value)
    assert str(masks) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_mask_without_an_action_is_refused(agent):
    observations, masks = positions(30, players=[2])
    masks[2] = False
    with pytest.raises(ValueError, match=r"masks\[2\] is all False; allowed") as raised:
        agent.act(observations, masks, np.random.default_rng(0))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["greedy", "reference", "heuristic", "search:2"])
def test_a_mask_of_another_observation_is_refused(name):
    observations, masks = positions(60, players=[2])
    with pytest.raises(ValueError, match=r"masks\[\d+\] forbids action \d+"):
        agents.make(name).act(observations, ~masks, np.random.default_rng(0))

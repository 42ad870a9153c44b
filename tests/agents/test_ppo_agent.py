"""The PPO agent: the network of stable-baselines3 in NumPy, its files, its moves."""

from __future__ import annotations

import gc
import io
import json
import pickle
import re

import numpy as np
import pytest
import torch
from agent_tools import (
    chi_square,
    chi_square_limit,
    positions,
    random_network,
    random_weights,
    run_python,
)

import agents
from agents.arena.matches import win_share
from agents.ppo.agent import SLOT_FIELDS, PolicyNetwork, PPOAgent
from agents.ppo.network import network_of
from agents.training.options import Config
from agents.training.sb3 import new_model
from agents.training.self_play import games_of
from alles_kaese_env import OBSERVATION, OBSERVATION_VERSION, RULES_VERSION
from alles_kaese_env.core.records import (
    MAX_SLOTS,
)


def legal(actions, masks):
    """Which actions the masks allow."""
    return masks[np.arange(len(masks)), actions]


def same_weights(left, right):
    return left.keys() == right.keys() and all((left[name] == right[name]).all() for name in left)


# --- The network -------------------------------------------------------------------------------


NETWORKS = [("slots", 128), ("slots", 24), ("mlp", 128), ("mlp", 24)]


@pytest.fixture(scope="module", params=NETWORKS, ids=str)
def model(request):
    """A MaskablePPO model whose weights are so large that its logits are of about one."""
    network, hidden = request.param
    config = Config(num_envs=2, network=network, hidden=hidden)
    model = new_model(config, games_of(config))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            fan_in = parameter.shape[-1] if parameter.dim() == 2 else 8
            parameter.normal_(0, (2 / fan_in) ** 0.5)
    return model


def test_logits_and_values_are_those_of_the_model(model):
    observations, _ = positions(100)
    network = network_of(model.policy)
    with torch.no_grad():
        tensor = torch.as_tensor(observations)
        logits = model.policy.get_distribution(tensor).distribution.logits.numpy()  # normalised
        values = model.policy.predict_values(tensor).numpy()[:, 0]
    of_network = network.logits(observations)
    of_network -= np.log(np.exp(of_network).sum(axis=1, keepdims=True))
    assert of_network == pytest.approx(logits, abs=1e-5)
    assert network.values(observations) == pytest.approx(values, abs=1e-5)
    assert logits.std() > 0.3
    assert values.std() > 0.1
    assert network.logits(observations).shape == (len(observations), 18)
    assert network.values(observations).shape == (len(observations),)


def test_greedy_moves_are_those_of_the_model(model):
    observations, masks = positions(200)
    actions, _ = model.predict(observations, action_masks=masks, deterministic=True)
    agent = PPOAgent(network_of(model.policy))
    assert agent.act(observations, masks, None).tolist() == actions.tolist()


def test_a_network_is_a_frozen_copy(model):
    observations, _ = positions(5)
    network = network_of(model.policy)
    before = network.logits(observations).copy()
    with torch.no_grad():
        model.policy.action_net.bias.add_(1)
    assert (network.logits(observations) == before).all()
    assert network_of(model.policy).logits(observations) == pytest.approx(before + 1, abs=1e-5)


def test_a_look_at_the_logits_changes_nothing():
    """Neither the observations nor the weights, whatever the caller does with the result."""
    observations, masks = positions(5)
    network = random_network()
    kept = observations.copy()
    for agent in (PPOAgent(network), PPOAgent(network, is_greedy=False)):
        agent.act(observations, masks, np.random.default_rng(0))
    network.logits(observations)[:] = 0
    network.values(observations)[:] = 0
    assert (observations == kept).all()
    assert same_weights(network.weights, random_network().weights)


def test_permuted_slots_permute_the_logits():
    """Every slot goes through the same weights, and what is said of the table stays."""
    network = network_of(new_model(Config(num_envs=1), games_of(Config(num_envs=1))).policy)
    observations, _ = positions(50)
    order = np.random.default_rng(0).permutation(MAX_SLOTS)
    permuted = observations.copy()
    for name in SLOT_FIELDS:
        where = OBSERVATION[name].where
        by_slot = observations[:, where].reshape(len(observations), MAX_SLOTS, -1)
        permuted[:, where] = by_slot[:, order].reshape(len(observations), -1)
    before = network.logits(observations).reshape(-1, 3, MAX_SLOTS)
    after = network.logits(permuted).reshape(-1, 3, MAX_SLOTS)
    assert before.std(axis=2).min() > 1e-5
    assert after == pytest.approx(before[:, :, order], abs=1e-6)
    assert network.values(permuted) == pytest.approx(network.values(observations), abs=1e-6)


def broken_slots(name):
    """The weights of a network of slots with one array that does not fit."""
    model = new_model(Config(num_envs=1), games_of(Config(num_envs=1)))
    weights = dict(network_of(model.policy).weights)
    rows, columns = weights[name].shape
    weights[name] = np.zeros((rows + 1, columns + 1), np.float32)
    return weights


@pytest.mark.parametrize(
    "name", ["mlp_extractor.slot.weight", "mlp_extractor.context.weight", "action_net.weight"]
)
def test_slots_that_do_not_fit_together_are_refused(name):
    with pytest.raises(ValueError, match="weights"):
        PolicyNetwork(broken_slots(name))


def broken_weights(name):
    weights = random_weights()
    if name == "no actor":
        del weights["action_net.weight"]
    elif name == "no bias":
        del weights["mlp_extractor.policy_net.0.bias"]
    elif name == "other observation":
        weights["mlp_extractor.policy_net.0.weight"] = np.zeros((32, OBSERVATION.size + 1))
    elif name == "other actions":
        weights["action_net.weight"] = np.zeros((19, 32))
    else:
        return {}
    return weights


@pytest.mark.parametrize(
    "name", ["no actor", "no bias", "other observation", "other actions", "nothing"]
)
def test_weights_of_another_network_are_refused(name):
    with pytest.raises(ValueError, match="weights"):
        PolicyNetwork(broken_weights(name))


# --- Its moves ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_greedy", [True, False], ids=["greedy", "sampled"])
def test_every_move_is_legal(is_greedy):
    """At 10,000 positions, of a network that has learned nothing about masks."""
    observations, masks = positions(3_500)
    assert len(observations) > 10_000
    agent = PPOAgent(random_network(), is_greedy)
    actions = agent.act(observations, masks, np.random.default_rng(0))
    assert actions.dtype == np.int64
    assert actions.shape == (len(observations),)
    assert legal(actions, masks).all()
    free = random_network().logits(observations).argmax(axis=1)
    assert not legal(free, masks).all()  # without the mask it would play illegal moves


def test_huge_logits_do_not_break_the_mask():
    weights = random_weights()
    weights["action_net.weight"] *= 1e6
    observations, masks = positions(200)
    for is_greedy in (True, False):
        agent = PPOAgent(PolicyNetwork(weights), is_greedy)
        assert legal(agent.act(observations, masks, np.random.default_rng(0)), masks).all()


def test_greedy_takes_the_likeliest_legal_move():
    observations, masks = positions(200)
    network = random_network()
    logits = network.logits(observations).astype(float)
    expected = np.where(masks, logits, -np.inf).argmax(axis=1)
    assert (PPOAgent(network).act(observations, masks, None) == expected).all()


@pytest.mark.parametrize("number_legal", [2, 4, 6])
def test_sampled_moves_follow_the_masked_softmax(number_legal):
    """30,000 draws at each of three positions."""
    draws = 30_000
    observations, masks = positions(300)
    network = random_network()
    agent = PPOAgent(network, is_greedy=False)
    rng = np.random.default_rng(number_legal)
    for row in np.flatnonzero(masks.sum(axis=1) == number_legal)[:3]:
        which = np.flatnonzero(masks[row])
        weights = np.exp(network.logits(observations[row : row + 1])[0, which].astype(float))
        same = [np.repeat(array[row : row + 1], draws, axis=0) for array in (observations, masks)]
        counts = np.bincount(agent.act(*same, rng), minlength=18)
        assert counts[which].sum() == draws
        limit = chi_square_limit(number_legal - 1)
        assert chi_square(counts[which], weights / weights.sum()) < limit
        uniform = np.full(number_legal, 1 / number_legal)
        assert chi_square(counts[which], uniform) > limit  # the test can tell


@pytest.mark.parametrize("is_greedy", [True, False], ids=["greedy", "sampled"])
def test_probabilities_are_those_of_its_moves(is_greedy):
    observations, masks = positions(50)
    agent = PPOAgent(random_network(), is_greedy)
    chances = agent.probabilities(observations, masks)
    weights = np.exp(random_network().logits(observations).astype(float)) * masks
    if is_greedy:
        weights = np.eye(18)[agent.act(observations, masks, None)]
    assert chances == pytest.approx(weights / weights.sum(axis=1, keepdims=True), abs=1e-6)
    assert chances.dtype == np.float64
    assert chances.sum(axis=1) == pytest.approx(1, abs=1e-12)


def test_same_generator_same_moves():
    observations, masks = positions(100)
    agent = PPOAgent(random_network(), is_greedy=False)
    moves = [agent.act(observations, masks, np.random.default_rng(seed)) for seed in (3, 3, 4)]
    assert (moves[0] == moves[1]).all()
    assert (moves[0] != moves[2]).any()


# --- Its files ---------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    """A directory with the weights of an agent."""
    agent = PPOAgent(random_network(), metadata={"steps": 12})
    agent.save(tmp_path / "policy.npz")
    return tmp_path


def test_round_trip(run):
    network = random_network()
    for path in (run, str(run), run / "policy.npz"):
        agent = PPOAgent.load(path)
        assert same_weights(agent.network.weights, network.weights)
        assert agent.is_greedy
        assert agent.metadata["steps"] == 12
    assert not PPOAgent.load(run, is_greedy=False).is_greedy
    assert sorted(file.name for file in run.iterdir()) == ["policy.json", "policy.npz"]
    made = agents.make(f"ppo:{run}")
    observations, masks = positions(50)
    expected = PPOAgent(network).act(observations, masks, None)
    assert (made.act(observations, masks, None) == expected).all()


def test_a_name_can_ask_for_sampled_actions(run):
    assert agents.make(f"ppo:{run}").is_greedy
    assert not agents.make(f"ppo:{run},sample").is_greedy
    assert not agents.make("ppo:,sample").is_greedy
    assert "ppo[:RUN[,sample][,any-rules]]" in agents.names()


def test_metadata_say_what_the_weights_are_for(run):
    metadata = json.loads((run / "policy.json").read_text())
    assert metadata == {
        "steps": 12,
        "observation_version": OBSERVATION_VERSION,
        "rules_version": RULES_VERSION,
    }


def test_saving_again_replaces_both_files(run):
    PPOAgent(random_network(seed=1), metadata={"steps": 13}).save(run / "policy.npz")
    agent = PPOAgent.load(run)
    assert agent.metadata["steps"] == 13
    assert same_weights(agent.network.weights, random_network(seed=1).weights)


def test_a_failed_save_leaves_the_old_file(run, monkeypatch):
    whole = (run / "policy.npz").read_bytes()

    def fail(stream, **arrays):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        PPOAgent(random_network(seed=1)).save(run / "policy.npz")
    assert (run / "policy.npz").read_bytes() == whole
    assert sorted(file.name for file in run.iterdir()) == ["policy.json", "policy.npz"]


def cut(part):
    def spoil(run):
        data = (run / "policy.npz").read_bytes()
        (run / "policy.npz").write_bytes(data[: int(len(data) * part)])

    return spoil


def flip_a_byte(run):
    data = bytearray((run / "policy.npz").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (run / "policy.npz").write_bytes(data)


def with_version(name, version):
    def spoil(run):
        metadata = json.loads((run / "policy.json").read_text())
        (run / "policy.json").write_text(json.dumps({**metadata, name: version}))

    return spoil


def without_version(run):
    (run / "policy.json").write_text("{}")


def pickled_objects(run):
    weights = {**random_weights(), "value_net.bias": np.array([{}], object)}
    with open(run / "policy.npz", "wb") as stream:
        np.savez(stream, **weights)


def array_in_place_of_an_archive(run):
    with io.BytesIO() as stream:
        np.save(stream, np.zeros(3))
        (run / "policy.npz").write_bytes(stream.getvalue())


SPOILERS = {
    "no weights": lambda run: (run / "policy.npz").unlink(),
    "no metadata": lambda run: (run / "policy.json").unlink(),
    "empty file": cut(0),
    "first tenth": cut(0.1),
    "first half": cut(0.5),
    "almost all": cut(0.999),
    "flipped byte": flip_a_byte,
    "text": lambda run: (run / "policy.npz").write_text("weights"),
    "pickle": lambda run: (run / "policy.npz").write_bytes(pickle.dumps({"a": 1})),
    "pickled objects": pickled_objects,
    "one array": array_in_place_of_an_archive,
    "half of the metadata": lambda run: (run / "policy.json").write_text('{"steps": '),
    "metadata no object": lambda run: (run / "policy.json").write_text("[]"),
    "old observation": with_version("observation_version", OBSERVATION_VERSION - 1),
    "new observation": with_version("observation_version", OBSERVATION_VERSION + 1),
    "other rules": with_version("rules_version", RULES_VERSION + 1),
    "no version": without_version,
}


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS)
def test_what_cannot_be_loaded_is_refused_in_one_line(run, spoil):
    spoil(run)
    with pytest.raises(ValueError, match=re.escape(str(run))) as error:
        PPOAgent.load(run)
    gc.collect()  # a file that is still open would be a warning, and so an error
    assert "\n" not in str(error.value)


def test_a_wrong_version_is_named(run):
    with_version("observation_version", 99)(run)
    allowed = f"observation_version 99; allowed: {OBSERVATION_VERSION}"
    with pytest.raises(ValueError, match=allowed):
        PPOAgent.load(run)


@pytest.mark.parametrize("name", ["nowhere", "nowhere/policy.npz", "", "empty"])
def test_a_path_that_is_no_run_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no run directory") as error:
        PPOAgent.load(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)


WITHOUT_TORCH = """
import sys
for name in ("torch", "stable_baselines3", "sb3_contrib", "tensorboard", "matplotlib", "rich"):
    sys.modules[name] = None
import agents
from agents.arena.matches import win_share
score = win_share(agents.make("ppo:" + sys.argv[1]), agents.make("random"), games=20)
print(score.games, score.share)
"""


def test_playing_needs_no_torch(run):
    code, output, errors = run_python("-c", WITHOUT_TORCH, run)
    assert code == 0, errors
    expected = win_share(PPOAgent(random_network()), agents.RandomAgent(), games=20)
    assert output.split() == ["20", str(expected.share)]

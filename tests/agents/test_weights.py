"""Weights travel: into a policy of torch, into a new run, into ONNX."""

from __future__ import annotations

import json

import numpy as np
import pytest
from agent_tools import assert_refused, positions

import agents
from agents.ppo.agent import PRETRAINED, PPOAgent
from agents.ppo.network import NETWORKS, export_onnx, load_network, network_of, new_policy
from agents.training import command
from agents.training.options import Config
from agents.training.sb3 import new_model
from agents.training.self_play import games_of

SMALL = ["--num-envs", "16", "--eval-games", "20", "--report-games", "20", "--workers", "1"]


def same(one, other):
    """Whether two networks have the same weights."""
    return one.weights.keys() == other.weights.keys() and all(
        (one.weights[name] == other.weights[name]).all() for name in one.weights
    )


@pytest.mark.parametrize("network", NETWORKS)
def test_loading_is_the_inverse_of_a_copy(network):
    source = network_of(new_policy(network, 24))
    config = Config(num_envs=1, network=network, hidden=24)
    model = new_model(config, games_of(config))
    assert not same(network_of(model.policy), source)
    load_network(model.policy, source)
    assert same(network_of(model.policy), source)
    observations, masks = positions(50)
    actions, _ = model.predict(observations, action_masks=masks, deterministic=True)
    assert actions.tolist() == PPOAgent(source).act(observations, masks, None).tolist()


def test_a_policy_keeps_its_own_weights_where_others_do_not_fit():
    for kind, hidden, words in [
        ("slots", 32, r"network has mlp_extractor\.context\.bias \(24,\); allowed .*\(32,\)"),
        ("mlp", 24, r"network has action_net\.bias \(3,\); allowed .*\(18,\)"),
    ]:
        policy = new_policy(kind, hidden)
        before = network_of(policy)
        with pytest.raises(ValueError, match=words):
            load_network(policy, network_of(new_policy("slots", 24)))
        assert same(network_of(policy), before)


def test_a_run_begins_with_the_weights_of_another(tmp_path, capsys):
    """The learning rate is 0, so that they stay; the second run begins with the first's best."""
    first, second = tmp_path / "first", tmp_path / "second"
    still = [*SMALL, "--learning-rate", "0", "--total-steps", "512"]
    assert command.main([*still, "--init", "ppo", "--out", str(first)]) == 0
    shipped = agents.make("ppo").network
    assert same(agents.make(f"ppo:{first}").network, shipped)
    assert json.loads((first / "config.json").read_text())["options"]["init"] == "ppo"
    init = ["--init", f"ppo:{first}/best.npz", "--num-players", "4", "--algo", "mmd"]
    assert command.main([*still, *init, "--out", str(second)]) == 0
    assert same(agents.make(f"ppo:{second}").network, shipped)

    capsys.readouterr()
    words = "--init goes with a new run"
    assert_refused(capsys, command, ["--resume", str(first), "--init", "ppo"], words)
    longer = ["--total-steps", "1024"]
    for file in [*first.glob("best.*")]:
        file.unlink()  # a resumed run does not look at what it began with
    assert command.main(["--resume", str(second), *longer]) == 0


def test_a_run_that_began_with_weights_learns_from_them(tmp_path):
    out = ["--out", str(tmp_path / "run"), "--total-steps", "512", "--seed", "3"]
    assert command.main([*SMALL, "--init", "ppo", *out]) == 0
    now, shipped = agents.make(f"ppo:{tmp_path / 'run'}").network, agents.make("ppo").network
    moved = [abs(now.weights[name] - shipped.weights[name]).max() for name in shipped.weights]
    assert 0 < max(moved) < 0.02  # four epochs of one minibatch; other weights are 1 away
    row = (tmp_path / "run" / "evaluations.csv").read_text().splitlines()[1].split(",")
    assert row[0] == "0"  # what it began with is measured, too


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--init", "heuristic"], "it has no network; allowed: ppo or ppo:RUN"),
        (["--init", "nobody"], "agent is 'nobody'"),
        (["--init", "ppo", "--network", "mlp"], "--init is ppo, with --network mlp --hidden 128"),
        (["--init", "ppo", "--hidden", "64"], "mlp_extractor.context.bias (128,)"),
        (["--init", "ppo", "--variant", "17m"], "was trained with"),
        (["--init", "ppo", "--engine", "rllib"], "--init goes with --engine sb3 only"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, capsys, arguments, words):
    out = tmp_path / "run"
    assert_refused(capsys, command, [*arguments, "--out", str(out)], words)
    assert not out.exists()


def test_other_rules_are_there_for_the_asking(tmp_path):
    out, init = ["--out", str(tmp_path / "run")], "ppo:,any-rules"
    options = [*SMALL, "--variant", "477", "--learning-rate", "0", "--total-steps", "512"]
    assert command.main([*options, "--init", init, *out]) == 0


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of the exporter
@pytest.mark.parametrize("network", NETWORKS)
def test_onnx_takes_any_batch(tmp_path, network):
    for library in ("onnxruntime", "onnxscript"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    from onnxruntime import InferenceSession

    policy, file = new_policy(network, 128), tmp_path / "policy.onnx"
    if network == "slots":
        load_network(policy, PPOAgent.load(PRETRAINED).network)
    export_onnx(policy, file)
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    session = InferenceSession(file)
    agent = PPOAgent(network_of(policy), is_greedy=False)
    every, legal = positions(50)
    for number in (1, 7):
        observations, masks = every[:number], legal[:number]
        logits, values = session.run(None, {"observations": observations})
        weights = np.exp(np.where(masks, logits, -np.inf))
        chances = weights / weights.sum(axis=1, keepdims=True)
        assert chances == pytest.approx(agent.probabilities(observations, masks), abs=1e-4)
        assert values == pytest.approx(agent.network.values(observations), abs=1e-4)

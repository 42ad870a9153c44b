"""Magnetic mirror descent: what it adds to MaskablePPO, and where it goes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from agent_tools import assert_refused, positions
from sb3_contrib import MaskablePPO

import agents
from agents.solve import exploitability
from agents.training import command
from agents.training.options import Config, new_config
from agents.training.sb3 import new_model
from agents.training.self_play import games_of
from alles_kaese_env import Variant

GAMES = ["--eval-games", "20", "--report-games", "20"]
ALPHA, KL_COEF = 0.05, 0.3


def new(**options):
    reused = {"n_epochs": 4, "learning_rate": 1e-3}
    config = Config(algo="mmd", num_envs=4, n_steps=8, batch_size=32, **reused, **options)
    return new_model(config, games_of(config))


def softmax(logits, masks):
    weights = np.where(masks, np.exp(logits - logits.max(axis=1, keepdims=True)), 0)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("network", ["slots", "mlp"])
def test_the_penalties_are_those_of_the_paper(monkeypatch, network):
    """By hand: the entropy, and the divergence from the policy before the update."""
    model = new(network=network, ent_coef=ALPHA, kl_coef=KL_COEF)
    observations, masks = positions(20)
    tensor, actions = torch.as_tensor(observations), torch.as_tensor(masks.argmax(axis=1))
    logits = []

    def look():
        with torch.no_grad():
            logits.append(
                model.policy.get_distribution(tensor).distribution.logits.double().numpy()
            )
            return model.policy.evaluate_actions(tensor, actions, action_masks=masks)

    def an_update(self):
        first = look()
        with torch.no_grad():
            for parameter in model.policy.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        updates.append((first, look()))

    updates = []
    monkeypatch.setattr(MaskablePPO, "train", an_update)
    model._current_progress_remaining = 0.5
    plain = model.policy.evaluate_actions(tensor, actions, action_masks=masks)
    model._logger = type("Log", (), {"record": lambda *_: None})()
    model.train()
    (before, after), (one, other) = updates[0], (softmax(each, masks) for each in logits)
    for left, right in zip(before[:2], plain[:2], strict=True):  # values and log-probabilities
        assert left.detach().numpy() == pytest.approx(right.detach().numpy(), abs=1e-6)
    assert before[2].numpy() == pytest.approx(0.5 * ALPHA * plain[2].detach().numpy(), abs=1e-6)
    entropy = -np.sum(other * np.log(np.where(masks, other, 1)), axis=1)
    ratio = np.where(masks, other, 1) / np.where(masks, one, 1)
    bonus = 0.5 * ALPHA * entropy - KL_COEF * np.sum(other * np.log(ratio), axis=1)
    assert after[2].numpy() == pytest.approx(bonus, abs=1e-5)
    assert np.sum(other * np.log(ratio)) > 0.1
    assert "evaluate_actions" not in vars(model.policy)
    assert model.ent_coef == 1


def test_an_update_moves_less_with_a_larger_penalty():
    moved = []
    for kl_coef in (0.0, 10.0):
        model = new(kl_coef=kl_coef, ent_coef=0.0)
        before = [one.clone() for one in model.policy.action_net.parameters()]
        model.learn(320)
        after = model.policy.action_net.parameters()
        moved.append(sum((a - b).abs().sum().item() for a, b in zip(before, after, strict=True)))
    assert moved[1] < moved[0]


def test_its_defaults_are_its_own():
    config = new_config({"algo": "mmd"})
    assert (config.opponents, config.ent_coef) == ("self", 0.05)
    assert new_config({"algo": "mmd", "ent_coef": 0.1, "opponents": "pool"}).ent_coef == 0.1
    assert new_config({}).opponents == "pool"


def test_a_run_goes_on_and_is_an_agent(tmp_path, capsys):
    run = tmp_path / "run"
    options = ["--variant", "477", "--num-envs", "16", *GAMES, "--out", str(run)]
    assert command.main(["--algo", "mmd", *options, "--total-steps", "512"]) == 0
    assert json.loads((run / "config.json").read_text())["options"]["algo"] == "mmd"
    assert command.main(["--algo", "mmd", "--resume", str(run), "--total-steps", "1024"]) == 0
    assert agents.make(f"mmd:{run}", Variant.named("477")).metadata["steps"] == 1024
    capsys.readouterr()
    for arguments, words in [
        (["--resume", str(run), "--algo", "ppo"], "--algo cannot change"),
        (["--kl-coef", "0.1"], "--kl-coef goes with --algo mmd only"),
        (["--algo", "mmd", "--engine", "rllib"], "--algo is mmd; allowed with --engine rllib: ppo"),
    ]:
        assert_refused(capsys, command, arguments, words)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_it_goes_to_equilibrium(tmp_path, seed):
    """Of a game of 477 states, where untrained play has 0.026, and of one of 49,655, 0.2."""
    for name, steps, most in [("477", 400_000, 0.002), ("50k", 800_000, 0.02)]:
        run, variant = tmp_path / name, Variant.named(name)
        options = ["--variant", name, "--num-envs", "256", *GAMES, "--seed", str(seed)]
        options += ["--total-steps", str(steps), "--out", str(run)]
        assert command.main(["--algo", "mmd", *options]) == 0
        assert exploitability(agents.make(f"mmd:{run},sample", variant), variant).value < most

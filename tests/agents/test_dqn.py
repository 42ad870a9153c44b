"""DQN and NFSP: what they add to stable-baselines3's DQN, and where they go."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from agent_tools import assert_refused, positions
from scipy.stats import chisquare

import agents
from agents.ppo.agent import PPOAgent
from agents.ppo.network import logits_of
from agents.solve import exploitability
from agents.training import command, sb3
from agents.training.dqn import EpsilonGreedy, Transitions
from agents.training.nfsp import Reservoir
from agents.training.options import Config, new_config
from agents.training.self_play import games_of
from alles_kaese_env import Variant

GAMES = ["--eval-games", "20", "--report-games", "20"]
TINY = ["--variant", "477", "--num-envs", "16", "--batch-size", "64", *GAMES]


def new(algo, **options):
    config = Config(algo=algo, num_envs=8, n_steps=8, batch_size=32, opponents="self", **options)
    return sb3.new_model(config, games_of(config))


def played(model, rollouts=2):
    """The model after some rollouts and updates."""
    steps = rollouts * model.train_freq.frequency * model.n_envs
    model.learn(steps, callback=[sb3.SelfPlayOfDQN("self", model.env, Path("none"), 0)])
    return model


# --- DQN -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["slots", "mlp"])
def test_the_target_is_masked_and_estimated_twice(network):
    """By hand: the network chooses among the legal actions, the target network says the worth."""
    model = new("dqn", network=network)
    with torch.no_grad():
        for parameter in model.q_net_target.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    observations, masks = positions(20)
    number = len(masks)
    rng = np.random.default_rng(0)
    dones = (rng.random((number, 1)) < 0.3).astype(np.float32)
    rewards = rng.normal(size=(number, 1)).astype(np.float32)
    actions = np.zeros((number, 1), np.int64)
    batch = (observations, actions, observations, masks, dones, rewards)
    targets = model.targets(Transitions(*map(torch.as_tensor, batch))).numpy()
    with torch.no_grad():
        one, other = (
            logits_of(network, torch.as_tensor(observations)).numpy()
            for network in (model.q_net, model.q_net_target)
        )
    legal = [np.flatnonzero(mask) for mask in masks]
    best = [row[np.argmax(q[row])] for q, row in zip(one, legal, strict=True)]
    expected = rewards[:, 0] + (1 - dones[:, 0]) * other[np.arange(number), best]
    assert targets[:, 0] == pytest.approx(expected, abs=1e-6)
    single = [q[row].max() for q, row in zip(other, legal, strict=True)]
    assert np.abs(other[np.arange(number), best] - single).max() > 0.1
    assert any(best[k] != one[k].argmax() for k in range(number))


def test_the_q_values_are_the_logits_of_the_agent():
    model = new("dqn")
    observations, _ = positions(20)
    with torch.no_grad():
        values = logits_of(model.q_net, torch.as_tensor(observations)).numpy()
    assert model.network().logits(observations) == pytest.approx(values, abs=1e-6)


def test_an_update_goes_towards_the_target(monkeypatch):
    model = played(new("dqn", n_epochs=1))
    batch = model.replay_buffer.sample(64)
    monkeypatch.setattr(model.replay_buffer, "sample", lambda _: batch)
    monkeypatch.setattr(model, "_update_learning_rate", lambda _: None)
    model.policy.optimizer.param_groups[0]["lr"] = 1e-3

    def error():
        with torch.no_grad():
            values = logits_of(model.q_net, batch.observations).gather(1, batch.actions)
            return (values - model.targets(batch)).square().mean().item()

    before = error()
    model.train(100, 64)
    assert error() < 0.5 * before


def test_the_buffer_holds_what_was_played():
    """Every transition is one of the environment: legal actions, its reward, its next decision."""
    model, steps = new("dqn"), []
    step_wait = model.env.step_wait

    def step():
        masks = model.env.action_masks()
        before, actions = np.array(model._last_obs), model.env._actions.copy()
        after, rewards, dones, infos = step_wait()
        steps.append((before, actions, masks, after.copy(), rewards, dones))
        return after, rewards, dones, infos

    model.env.step_wait = step
    played(model, rollouts=3)
    buffer = model.replay_buffer
    assert buffer.pos == len(steps) == 24
    following = [step[2] for step in steps[1:]] + [model.env.action_masks()]
    for k, (before, actions, masks, after, rewards, dones) in enumerate(steps):
        assert masks[np.arange(8), actions].all()
        assert (buffer.observations[k] == before).all()
        assert (buffer.actions[k, :, 0] == actions).all()
        assert (buffer.rewards[k] == rewards).all()
        assert (buffer.dones[k] == dones).all()
        assert (buffer.observations[k + 1] == after)[~dones].all()
        assert (buffer.next_masks[k] == following[k])[~dones].all()
    assert any(step[5].any() for step in steps)
    batch = buffer.sample(500)
    legal = batch.next_masks.any(dim=1)
    assert legal[batch.dones[:, 0] == 0].all()
    place = {row.tobytes(): k for k, row in enumerate(buffer.observations.reshape(-1, 253))}
    for before, after, done in zip(
        batch.observations.numpy(), batch.next_observations.numpy(), batch.dones[:, 0], strict=True
    ):
        if not done and before.tobytes() in place:
            assert after.tobytes() in place


def test_a_random_action_is_a_legal_one_and_as_often_as_asked():
    model = new("dqn")
    observations, masks = positions(300)
    rng = np.random.default_rng(0)
    greedy = EpsilonGreedy(model.network(), 0.0).act(observations, masks, rng)
    assert (greedy == PPOAgent(model.network()).act(observations, masks, rng)).all()
    actions = EpsilonGreedy(model.network(), 0.5).act(observations, masks, rng)
    assert masks[np.arange(len(masks)), actions].all()
    expected = 0.5 * (1 - 1 / masks.sum(axis=1)).mean()
    assert (actions != greedy).mean() == pytest.approx(expected, abs=0.05)
    row, many = np.repeat(observations[:1], 6_000, axis=0), np.repeat(masks[:1], 6_000, axis=0)
    drawn = EpsilonGreedy(model.network(), 1.0).act(row, many, rng)
    counts = np.bincount(drawn, minlength=18)[masks[0]]
    assert chisquare(counts).pvalue > 1e-4


def test_random_actions_and_learning_rate_go_to_nothing():
    model = played(new("dqn", epsilon=0.4), rollouts=4)
    assert model.exploration_rate == 0.0
    assert model.response.epsilon == pytest.approx(0.1)  # of the last rollout
    assert model.policy.optimizer.param_groups[0]["lr"] == 0.0


# --- NFSP ----------------------------------------------------------------------------------------


def test_the_reservoir_is_a_uniform_sample():
    """Of all that was added, in parts of any size; each decision keeps its three entries."""
    rng = np.random.default_rng(0)
    counts = np.zeros(60, np.int64)
    for _ in range(2_000):
        reservoir = Reservoir(12)
        for part in np.split(np.arange(60), [7, 10, 31, 32]):
            observations = np.repeat(part[:, None] / 64, 253, axis=1).astype(np.float32)
            masks = (part[:, None] >> np.arange(18)) & 1 > 0
            reservoir.add(observations, masks, part, rng)
        kept = reservoir.actions
        assert (reservoir.observations == (kept / 64)[:, None]).all()
        assert (reservoir.masks == ((kept[:, None] >> np.arange(18)) & 1 > 0)).all()
        assert (len(reservoir), len(set(kept.tolist())), reservoir.seen) == (12, 12, 60)
        counts[kept] += 1
    assert chisquare(counts).pvalue > 1e-4


def test_the_reservoir_takes_the_best_responses_alone():
    model, added = new("nfsp", eta=0.4), []
    add = model.reservoir.add

    def noting(observations, masks, actions, rng):
        best = model.response.greedy.act(observations, masks, rng)
        added.append((len(actions), model._responds.sum(), (best == actions).all()))
        add(observations, masks, actions, rng)

    model.reservoir.add = noting
    played(model, rollouts=8)
    assert all(number == responds and is_best for number, responds, is_best in added)
    share = model.reservoir.seen / model.num_timesteps
    assert share == pytest.approx(0.4, abs=0.15)
    players, weights = model.players()
    assert weights == [0.4, 0.6]
    assert players[1].is_greedy is False


def test_the_average_policy_learns_the_mixture():
    """Of a position in which the best responses took two actions, 3 to 1."""
    model = new("nfsp", network="mlp")  # for the other one two slots may be the same
    played(model, rollouts=1)
    observations, masks = positions(1)
    row = int(masks.sum(axis=1).argmax())
    first, second = np.flatnonzero(masks[row])[:2]
    model.reservoir = Reservoir(100)
    same = (np.repeat(array[row : row + 1], 100, axis=0) for array in (observations, masks))
    model.reservoir.add(*same, np.array([first] * 75 + [second] * 25), np.random.default_rng(0))
    model._current_progress_remaining = 1.0
    model.train(200, 64)
    agent = PPOAgent(model.network(), is_greedy=False)
    chances = agent.probabilities(observations[row : row + 1], masks[row : row + 1])[0]
    assert chances[[first, second]] == pytest.approx([0.75, 0.25], abs=0.08)


# --- Runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ["dqn", "nfsp"])
def test_a_run_goes_on_and_is_an_agent(tmp_path, capsys, algo, monkeypatch):
    run, variant = tmp_path / "run", Variant.named("477")
    exploit = ["--exploitability-every", "512"]
    options = ["--algo", algo, *TINY, *exploit, "--out", str(run)]
    assert command.main([*options, "--total-steps", "512"]) == 0
    output = capsys.readouterr().out
    assert re.search(rf"python -m agents\.arena '?{algo}:.*run'? reference", output)
    report = json.loads((run / "report.json").read_text())
    modes = ["greedy"] if algo == "dqn" else ["greedy", "sampled"]
    assert list(report["exploitability"]) == modes
    assert {pair["agent"] for pair in report["pairs"]} == {
        f"{algo}:{run}{ending}" for ending in ("", ",sample")[: len(modes)]
    }
    loaded = []

    def load(model, *args, **options):
        sb3_load(model, *args, **options)
        loaded.append((model.num_timesteps, getattr(model, "reservoir", None)))
        loaded.append(len(loaded[0][1]) if algo == "nfsp" else 0)

    sb3_load = sb3.load
    monkeypatch.setattr(sb3, "load", load)
    assert command.main(["--resume", str(run), "--total-steps", "1024"]) == 0
    assert loaded[0][0] == 512
    assert (loaded[1] > 0) == (algo == "nfsp")
    name = f"{algo}:{run}" + (",sample" if algo == "nfsp" else "")
    agent = agents.make(name, variant)
    assert agent.metadata["steps"] == 1024
    last = (run / "evaluations.csv").read_text().splitlines()[-1].split(",")
    assert float(last[-1]) == pytest.approx(exploitability(agent, variant).value, abs=1e-5)
    if algo == "dqn":
        with pytest.raises(ValueError, match=r"has Q-values; allowed: .*without"):
            agents.make(f"{name},sample", variant)
        init = [*TINY, "--init", name, "--out", str(tmp_path / "next")]
        assert_refused(capsys, command, init, "it has Q-values; allowed:")


def test_a_checkpoint_with_half_a_reservoir_is_broken(tmp_path):
    model = played(new("nfsp"))
    model.save(tmp_path / "model.zip")
    again = new("nfsp")
    sb3.load(again, tmp_path / "model.zip", seed=0)
    assert again.reservoir.seen == model.reservoir.seen > 0
    for name in ("observations", "masks", "actions"):
        assert (getattr(again.reservoir, name) == getattr(model.reservoir, name)).all()
    assert str(again.average.state_dict()) == str(model.average.state_dict())
    smaller = new("nfsp", reservoir_size=1)
    with pytest.raises(ValueError, match="broadcast"):
        sb3.load(smaller, tmp_path / "model.zip", seed=0)


def test_the_same_seed_gives_the_same_weights():
    for algo in ("dqn", "nfsp"):
        one, again, other = (played(new(algo, seed=seed), 3).network() for seed in (5, 5, 6))
        assert all((one.weights[name] == again.weights[name]).all() for name in one.weights)
        assert any((one.weights[name] != other.weights[name]).any() for name in one.weights)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--algo", "dqn", "--workers", "2"], "--workers is 2; allowed with --algo dqn: 1"),
        (["--algo", "nfsp", "--opponents", "pool"], "is pool; allowed with --algo nfsp"),
        (["--algo", "dqn", "--eta", "0.2"], "--eta goes with --algo nfsp only"),
        (["--algo", "dqn", "--ent-coef", "0.2"], "--algo ppo or mmd or psro only"),
        (["--epsilon", "0.2"], "--epsilon goes with --algo dqn or nfsp only"),
        (["--algo", "nfsp", "--buffer-size", "10"], "--buffer-size is 10; allowed: at least two"),
        (["--algo", "dqn", "--engine", "rllib"], "--algo is dqn; allowed with --engine rllib: ppo"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(capsys, arguments, words):
    assert_refused(capsys, command, arguments, words)


def test_an_algorithm_without_a_run_is_no_agent():
    for name in ("dqn", "nfsp:", "mmd:,sample"):
        with pytest.raises(ValueError, match="no run directory"):
            agents.make(name)


def test_defaults_are_those_of_the_algorithm():
    assert new_config({"algo": "nfsp"}).opponents == "self"
    assert new_config({"algo": "nfsp"}).number_of_workers == 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("algo", "most"), [("dqn", 0.0005), ("nfsp", 0.002)])
def test_it_goes_to_equilibrium(tmp_path, algo, most, seed):
    """Of a game of 477 states, which has a pure one; uniform play has 0.026."""
    run, variant = tmp_path / "run", Variant.named("477")
    options = ["--variant", "477", "--num-envs", "256", *GAMES, "--seed", str(seed)]
    options += ["--algo", algo, "--total-steps", "400000", "--out", str(run)]
    assert command.main(options) == 0
    ending = ",sample" if algo == "nfsp" else ""
    assert exploitability(agents.make(f"{algo}:{run}{ending}", variant), variant).value < most

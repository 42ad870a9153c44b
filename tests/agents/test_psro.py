"""Policy-space response oracles: the pool, the linear program, and the mixture as one policy."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from agent_tools import assert_one_line_of_error, assert_refused, positions

import agents
from agents.arena.matches import win_share
from agents.ppo.agent import PRETRAINED, PPOAgent
from agents.solve import exploitability
from agents.solve.responses import payoffs
from agents.training import command, sb3
from agents.training.options import Config
from agents.training.psro import PSRO, Watched, maximin
from agents.training.self_play import games_of, snapshot_name
from alles_kaese_env import Variant
from alles_kaese_env.envs.sb3 import GamesVecEnv

GAMES = ["--eval-games", "20", "--report-games", "20"]
TINY = ["--variant", "477", "--num-envs", "16", "--n-steps", "8", "--batch-size", "64", *GAMES]
ROLLOUT = 128  # decisions
VARIANT = Variant.named("477")
OPTIONS = ["--algo", "psro", "--iteration-steps", str(2 * ROLLOUT)]


def same_weights(left, right):
    return all((left.weights[name] == right.weights[name]).all() for name in left.weights)


def checkpoint(run):
    """The plain data of the last one."""
    with zipfile.ZipFile(run / "model.zip") as archive:
        return json.loads(archive.read("data"))


def learned(pool, rollouts, **options):
    """A model after some rollouts, with iterations of two."""
    config = Config(
        algo="psro",
        variant=VARIANT,
        num_envs=16,
        n_steps=8,
        batch_size=64,
        n_epochs=4,
        learning_rate=1e-3,
        hidden=32,
        iteration_steps=2 * ROLLOUT,
        total_steps=rollouts * ROLLOUT,
        **options,
    )
    games = games_of(config)
    model = sb3.new_model(config, games)
    pool.mkdir()
    callback = sb3.self_play(config, games, pool)
    sb3.learn_on(model, config, [callback])
    return model


# --- The linear program --------------------------------------------------------------------------


def test_the_mixture_is_the_equilibrium_of_the_matrix():
    assert maximin([[]]) == pytest.approx([1])
    assert maximin([[], [-0.2]]) == pytest.approx([1, 0])
    rock_paper_scissors = [[], [1], [-1, 1]]
    assert maximin(rock_paper_scissors) == pytest.approx([1 / 3] * 3)
    # By hand: with payoffs a, b, c of the pairs, the weights go as c, b and a.
    assert maximin([[], [0.1], [-0.2, 0.5]]) == pytest.approx(np.array([5, 2, 1]) / 8)
    assert maximin([*rock_paper_scissors, [-0.1, -0.1, -0.1]]) == pytest.approx([1 / 3] * 3 + [0])


def test_no_member_gains_against_the_mixture():
    rng = np.random.default_rng(0)
    for number in (5, 20):
        rows = [rng.normal(size=k).tolist() for k in range(number)]
        weights = maximin(rows)
        payoffs = np.zeros((number, number))
        for k, row in enumerate(rows):
            payoffs[k, :k], payoffs[:k, k] = row, np.negative(row)
        assert (payoffs @ weights).max() == pytest.approx(0, abs=1e-7)
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1)


# --- The mixture as one policy -------------------------------------------------------------------


def test_a_member_draws_by_its_probabilities_and_notes_them(tmp_path):
    member = PPOAgent(learned(tmp_path / "pool", 1).network(), is_greedy=False)
    observations, masks = positions(1)
    row = int(masks.sum(axis=1).argmax())
    many = [np.repeat(array[row : row + 1], 20_000, axis=0) for array in (observations, masks)]
    notes = []
    actions = Watched(member, notes).act(*many, np.random.default_rng(0))
    chances = member.probabilities(*many)
    for noted, expected in zip(notes[0], [*many, chances], strict=True):
        assert (noted == expected).all()
    assert np.bincount(actions, minlength=18) / 20_000 == pytest.approx(chances[0], abs=0.015)


def test_the_mixture_learns_what_the_members_did(tmp_path, monkeypatch):
    """In a position to which one of them came three times as often as the other."""
    model = learned(tmp_path / "pool", 1, network="mlp")  # of the other two slots may be the same
    observations, masks = positions(1)
    row = int(masks.sum(axis=1).argmax())
    first, second = np.flatnonzero(masks[row])[:2]
    one = [np.repeat(array[row : row + 1], 32, axis=0) for array in (observations, masks)]
    monkeypatch.setattr("sb3_contrib.MaskablePPO.train", lambda self: None)
    model._current_progress_remaining = 1.0
    for _ in range(60):
        model.notes += [(*one, np.eye(18)[[action] * 32]) for action in 3 * [first] + [second]]
        model.train()
    assert not model.notes
    agent = PPOAgent(model.network(), is_greedy=False)
    chances = agent.probabilities(observations[row : row + 1], masks[row : row + 1])[0]
    assert chances[[first, second]] == pytest.approx([0.75, 0.25], abs=0.03)


# --- Runs ----------------------------------------------------------------------------------------


def test_a_response_joins_the_pool_after_each_iteration(tmp_path, monkeypatch):
    tables, rates = [], []

    def set_opponents(games, opponents, weights):
        tables.append((opponents, weights))
        original(games, opponents, weights)

    def train(model):
        rates.append(model.lr_schedule(model._current_progress_remaining))
        update(model)

    original, update = GamesVecEnv.set_opponents, PSRO.train
    monkeypatch.setattr(GamesVecEnv, "set_opponents", set_opponents)
    monkeypatch.setattr(PSRO, "train", train)
    model, pool = learned(tmp_path / "pool", 6), tmp_path / "pool"
    assert model.joined == [0, 2 * ROLLOUT, 4 * ROLLOUT]
    files = sorted(pool.glob("*.npz"))
    assert [file.name for file in files] == [snapshot_name(steps) for steps in model.joined]
    members = [PPOAgent.load(file, is_greedy=False) for file in files]
    for k, row in enumerate(model.payoffs):
        assert row == payoffs(members[k], members[:k], VARIANT)
    assert len(tables) == 3
    for k, (opponents, weights) in enumerate(tables):
        used = maximin(model.payoffs[: k + 1])
        assert weights == pytest.approx(used[used > 0])
        for opponent, place in zip(opponents, np.flatnonzero(used), strict=True):
            assert same_weights(opponent.member.network, members[place].network)
    assert rates == pytest.approx(3 * [0.75e-3, 0.5e-3])


def test_payoffs_are_estimated_where_they_cannot_be_computed(tmp_path):
    model = learned(tmp_path / "pool", 3, games_per_pair=20)
    first, second = (
        PPOAgent.load(tmp_path / "pool" / snapshot_name(steps), is_greedy=False)
        for steps in model.joined
    )
    share = win_share(second, first, variant=VARIANT, games=20, seed=3).share
    assert model.payoffs == [[], [2 * share - 1]]
    assert Config(algo="psro", variant=VARIANT).games_of_pair == 0
    assert Config(algo="psro").games_of_pair == 2_000


def test_a_run_goes_on_and_is_an_agent(tmp_path, capsys):
    run = tmp_path / "run"
    options = [*OPTIONS, *TINY, "--exploitability-every", "512", "--out", str(run)]
    assert command.main([*options, "--total-steps", str(5 * ROLLOUT)]) == 0
    report = json.loads((run / "report.json").read_text())
    assert {pair["agent"] for pair in report["pairs"]} == {f"psro:{run}", f"psro:{run},sample"}
    payoffs = checkpoint(run)["payoffs"]
    assert [len(row) for row in payoffs] == [0, 1, 2]
    left = run / "pool" / snapshot_name(6 * ROLLOUT)  # of a run that was killed after this
    PPOAgent.load(run).save(left)
    assert command.main(["--resume", str(run), "--total-steps", str(6 * ROLLOUT)]) == 0
    assert not left.exists()
    assert checkpoint(run)["payoffs"] == payoffs
    assert command.main(["--resume", str(run), "--total-steps", str(8 * ROLLOUT)]) == 0
    assert checkpoint(run)["payoffs"][:3] == payoffs
    assert checkpoint(run)["joined"] == [0, 2 * ROLLOUT, 4 * ROLLOUT, 6 * ROLLOUT]
    agent = agents.make(f"psro:{run},sample", VARIANT)
    assert agent.metadata["steps"] == 8 * ROLLOUT
    last = (run / "evaluations.csv").read_text().splitlines()[-1].split(",")
    assert float(last[-1]) == pytest.approx(exploitability(agent, VARIANT).value, abs=1e-5)
    (run / "pool" / snapshot_name(2 * ROLLOUT)).unlink()
    capsys.readouterr()
    with pytest.raises(SystemExit):
        command.main(["--resume", str(run), "--total-steps", str(9 * ROLLOUT)])
    words = ("not that of the checkpoint", snapshot_name(2 * ROLLOUT))
    assert_one_line_of_error(capsys.readouterr().err, "train.py", *words)


def test_a_checkpoint_holds_the_mixture(tmp_path):
    model = learned(tmp_path / "pool", 3)
    model.save(tmp_path / "model.zip")
    again = sb3.new_model(Config(algo="psro", num_envs=16, hidden=32), model.env)
    assert not same_weights(again.network(), model.network())
    sb3.load(again, tmp_path / "model.zip", seed=0)
    assert same_weights(again.network(), model.network())
    assert (again.joined, again.payoffs) == (model.joined, model.payoffs)
    states = [one.mixture.optimizer.state_dict()["state"] for one in (again, model)]
    assert str(states[0]) == str(states[1])
    assert len(states[0]) > 0


def test_the_same_seed_gives_the_same_weights(tmp_path):
    one, again, other = (
        learned(tmp_path / name, 3, seed=seed).network()
        for name, seed in zip("abc", (5, 5, 6), strict=True)
    )
    assert same_weights(one, again)
    assert not same_weights(one, other)


def test_weights_that_exist_are_the_first_of_the_pool(tmp_path):
    run = tmp_path / "run"
    options = [*OPTIONS, *TINY, "--init", "ppo:agents/pretrained/ppo.npz,any-rules"]
    assert command.main([*options, "--out", str(run), "--total-steps", str(ROLLOUT)]) == 0
    first = PPOAgent.load(run / "pool" / snapshot_name(0))
    assert same_weights(first.network, PPOAgent.load(PRETRAINED).network)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--algo", "psro", "--num-players", "3"], "--num-players is 3; allowed with --algo psro"),
        (["--algo", "psro", "--num-players", "2", "3"], "--num-players is 2 3; allowed with"),
        (["--algo", "psro", "--workers", "2"], "--workers is 2; allowed with --algo psro: 1"),
        (["--algo", "psro", "--against", "reference"], "--opponents is reference; allowed with"),
        (["--algo", "psro", "--iteration-steps", "9"], "--iteration-steps is 9; allowed: at least"),
        (["--algo", "psro", "--engine", "rllib"], "--algo is psro; allowed with --engine rllib"),
        (["--games-per-pair", "9"], "--games-per-pair goes with --algo psro only"),
        (["--algo", "mmd", "--iteration-steps", "9"], "--iteration-steps goes with --algo psro"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(capsys, arguments, words):
    assert_refused(capsys, command, arguments, words)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_it_goes_to_equilibrium(tmp_path, seed):
    """Of a game of 477 states, where untrained play has 0.026."""
    run = tmp_path / "run"
    options = ["--algo", "psro", "--variant", "477", "--num-envs", "256", *GAMES]
    options += ["--iteration-steps", "20000", "--seed", str(seed), "--total-steps", "400000"]
    assert command.main([*options, "--out", str(run)]) == 0
    assert exploitability(agents.make(f"psro:{run},sample", VARIANT), VARIANT).value < 0.002

"""The value network of the search, and its training."""

from __future__ import annotations

import json

import numpy as np
import pytest
from agent_tools import assert_one_line_of_error, positions, run_python
from builders import PLAYERS, mixed_states, playing, with_games

from agents.heuristics.beliefs import believed_games, rules_by_players
from agents.search import agent as search
from agents.search import values
from agents.search.agent import SearchAgent
from agents.search.values import Network, load_network, network_file, num_features
from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.core.jit import jit


@jit
def features_all(games, rules, seats, features):
    for i in range(len(games)):
        values.write_features(games[i], rules[0], seats[i], features[i])


@jit
def best_all(games, rules, network, buffers, actions, best):
    for i in range(len(games)):
        actions[i], best[i] = values.best_action(games[i], rules[0], network, buffers)


def load(path, players):
    return load_network(path, values.sizes_for(players), "agents.search.train_values")


def some_network(players, seed=0):
    """Weights that nobody has trained, with outputs that differ."""
    rng = np.random.default_rng(seed)
    sizes = (num_features(players), *values.HIDDEN, 1)
    shapes = [shape for k in range(3) for shape in (sizes[k : k + 2], sizes[k + 1 : k + 2])]
    return Network(*(rng.normal(0, 0.3, shape).astype(np.float32) for shape in shapes))


def true_and_rebuilt(players):
    """Games with hidden fronts, and games of the observations of their seats to move."""
    variant = Variant(num_players=players)
    batch = mixed_states(variant, 400, seed=players)
    rows = playing(batch)
    games, _ = believed_games(batch.observations[rows], rules_by_players(variant))
    return variant, batch.games[rows], games


@pytest.mark.parametrize("players", PLAYERS)
def test_features_are_of_what_the_seat_knows(players):
    """F2: those of the true game are those of a game rebuilt from the observation alone."""
    variant, true, games = true_and_rebuilt(players)
    found = np.zeros((2, len(true), num_features(players)), np.float32)
    features_all(true, variant.rules, true["seat"].astype(np.int64), found[0])
    features_all(games, variant.rules, np.zeros(len(games), np.int64), found[1])
    assert np.allclose(found[0], found[1], atol=1e-6)
    assert (found[0].std(axis=0) > 0).mean() > 0.9
    assert np.abs(found).max() < 16


@pytest.mark.parametrize("players", [2, 4])
def test_the_network_chooses_by_what_the_seat_knows(players):
    """F2: fronts that others saw and that lie in the true game change nothing."""
    variant, true, games = true_and_rebuilt(players)
    network, buffers = some_network(players), values.buffers_for(players)
    actions, best = np.zeros((2, len(true)), np.int64), np.zeros((2, len(true)))
    for k, records in enumerate((true, games)):
        best_all(records, variant.rules, network, buffers, actions[k], best[k])
    assert (actions[0] == actions[1]).all()
    assert np.allclose(best[0], best[1], atol=1e-5)
    assert best.std() > 0.05


def test_the_compiled_network_is_a_plain_one():
    network, buffers = some_network(3), values.buffers_for(3)
    features = np.random.default_rng(1).normal(0, 1, num_features(3)).astype(np.float32)
    hidden = np.maximum(features @ network.first + network.first_bias, 0)
    hidden = np.maximum(hidden @ network.second + network.second_bias, 0)
    expected = 1 / (1 + np.exp(-(hidden @ network.last + network.last_bias)[0]))
    found = values.output(network, features, buffers.first, buffers.second)
    assert found == pytest.approx(expected, abs=1e-4)


def test_a_network_of_other_shapes_is_refused(tmp_path):
    path = network_file(2, tmp_path)
    np.savez(path, **some_network(2)._asdict())
    assert (load(path, 2).first == some_network(2).first).all()
    with pytest.raises(ValueError, match="train it anew") as caught:
        load(path, 3)
    assert "\n" not in str(caught.value)


def test_a_damaged_network_is_refused(tmp_path):
    path = network_file(2, tmp_path)
    np.savez(path, **some_network(2)._asdict())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        ValueError, match=r"values_2\.npz is no file of a value network \("
    ) as caught:
        load(path, 2)
    assert "\n" not in str(caught.value)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Where the search finds a network for 2 players, and for no other number."""
    np.savez(network_file(2, tmp_path), **some_network(2)._asdict())
    monkeypatch.setattr(values, "DIRECTORY", tmp_path)
    search.network_of.cache_clear()
    yield tmp_path
    search.network_of.cache_clear()


@pytest.mark.parametrize(
    ("options", "is_used"),
    [
        ({}, True),
        ({"variant": Variant(num_players=2)}, True),
        ({"variant": Variant(num_players=2, trap_limit=2)}, False),
        ({"is_flat": True}, False),
    ],
)
def test_a_network_is_for_the_default_rules(directory, options, is_used):
    network = SearchAgent(playouts=1, **options).policy(2).network
    assert len(network.first) == (num_features(2) if is_used else 0)


def test_without_a_network_play_outs_go_to_the_end(directory):
    assert len(SearchAgent(playouts=1).policy(3).network.first) == 0


def test_search_with_a_network(directory):
    """Its moves are legal, follow from the seed, and are not those of a flat search."""
    observations, masks = positions(300, seed=4, players=[2])
    moves = [
        SearchAgent(playouts=8, is_flat=is_flat).act(observations, masks, np.random.default_rng(1))
        for is_flat in (False, False, True)
    ]
    assert masks[np.arange(len(masks)), moves[0]].all()
    assert (moves[0] == moves[1]).all()
    assert (moves[0] != moves[2]).any()


def test_only_known_fronts_move_a_search_with_a_network(directory):
    """F3: other fronts that the seat has not seen, and the same move."""
    variant, true, _ = true_and_rebuilt(2)
    flipped = true.copy()
    hidden = (true["front"] > 0) & (true["peeked"] >> true["seat"][:, None] & 1 == 0)
    flipped["front"][hidden] = 3 - true["front"][hidden]
    sides = [with_games(GameBatch(len(true), variant), games) for games in (true, flipped)]
    agent = SearchAgent(playouts=4)
    moves = [agent.act(side.observations, side.masks, np.random.default_rng(0)) for side in sides]
    assert hidden.any(axis=1).sum() > 50
    assert (moves[0] == moves[1]).all()


@pytest.mark.long
def test_training_writes_a_network(tmp_path):
    """A short run: the network is better than none, and the same seed gives the same one."""
    pytest.importorskip("torch", reason="training needs torch")
    options = ["--rounds", "5", "--games", "1000", "--check-games", "4000", "--out"]
    for name in ("a", "b"):
        code, _, errors = run_python("-m", "agents.search.train_values", *options, tmp_path / name)
        assert code == 0, errors
    networks = [load(network_file(2, tmp_path / name), 2) for name in ("a", "b")]
    assert all((one == other).all() for one, other in zip(*networks, strict=True))
    entry = json.loads((tmp_path / "a/values.json").read_text())["num_players"]["2"]
    assert entry["rounds"] == 5
    assert entry["check"]["share"] > 0.45


def test_wrong_use_of_the_training():
    code, _, errors = run_python("-m", "agents.search.train_values", "--games", "0")
    assert code == 2
    assert_one_line_of_error(
        errors, "python -m agents.search.train_values", "--games", "'0'", "1000"
    )

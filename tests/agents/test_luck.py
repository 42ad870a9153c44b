"""Luck-adjusted results: unbiased whatever judges, and unseen by those who play."""

from __future__ import annotations

import csv
import json
from fractions import Fraction

import numpy as np
import pytest
from agent_tools import Taker, assert_one_line_of_error
from builders import PLAYERS, mixed_states, small_variants

import agents
from agents.arena import __main__ as command
from agents.arena import luck
from agents.arena import matches as arena
from agents.arena.matches import win_share
from agents.search.values import Network, no_network
from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.core import rules as game_rules
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import DECISION, GAME, OVER

TINY = (
    Variant(num_players=2, traps=(1, 1), copies=(3, 2), row_size=2, trap_limit=2),
    Variant(num_players=3, traps=(1, 1), copies=(3, 2), row_size=1, trap_limit=1),
)


def bad_network(players, seed=0):
    """A network that nobody has trained, and that is very sure of itself."""
    rng = np.random.default_rng(seed)
    sizes = (luck.num_features(players), *luck.HIDDEN, 1)
    shapes = [shape for k in range(3) for shape in (sizes[k : k + 2], sizes[k + 1 : k + 2])]
    return Network(*(rng.normal(0, 0.5, shape).astype(np.float32) for shape in shapes))


@pytest.fixture
def misjudged(monkeypatch):
    """All luck is judged by a bad network."""
    monkeypatch.setattr(luck, "network_of", lambda variant: bad_network(variant.num_players))


def total(parts):
    """Luck without its interval, from parts of a pairing."""
    return np.concatenate([part.luck for part in parts])


def parts_of(table, games, seed=0):
    variant = Variant(num_players=len(table))
    return [
        arena._play(table, streams, variant, seed, number, True)
        for number, streams in enumerate(arena._deals(len(table), games, seed))
    ]


# --- Unbiased, exactly -------------------------------------------------------------------------


@jit
def values_of_outcomes(games, rules, seat, judge, outcomes):
    return luck.chance_values(games[0], rules[0], seat, judge, outcomes)


@jit
def luck_of_one_choice(games, rules, seat, action, judge):
    return luck.luck_of_choice(games[0], rules[0], seat, action, judge)


class Tree:
    """All that can happen in a tiny game, with the chance of each of it as a fraction."""

    def __init__(self, variant, models, seat=0):
        self.variant, self.seat = variant, seat
        self.rules = variant.rules[0]
        self.judge = luck.judge_by(bad_network(variant.num_players), variant.num_players)
        self.judge.models[: len(models)] = models
        self.ends, self.sizes, self.chances = [], [], []

    def walk(self, games, chance, found):
        """Go on from a game; ``found`` is the luck up to it."""
        game = games[0]
        if game.phase == OVER:
            self.ends.append(found)
            self.chances.append(chance)
        elif game.phase == DECISION:
            self.choose(games, chance, found)
        else:
            outcomes = np.zeros(6)
            mean = values_of_outcomes(games, self.variant.rules, self.seat, self.judge, outcomes)
            number = game_rules.num_chance_outcomes(game, self.rules)
            weights = [int(game_rules.chance_weight(game, self.rules, k)) for k in range(number)]
            for outcome, weight in enumerate(weights):
                if weight:
                    after = games.copy()
                    game_rules.apply_chance(after[0], self.rules, outcome)
                    self.sizes.append(abs(outcomes[outcome] - mean))
                    share = chance * Fraction(weight, sum(weights))
                    self.walk(after, share, found + outcomes[outcome] - mean)

    def choose(self, games, chance, found):
        """A random seat does all that it may, another one something that it may."""
        legal = int(game_rules.legal_actions(games[0], self.rules))
        actions = [action for action in range(18) if legal >> action & 1]
        if self.judge.models[games[0].seat] != luck.RANDOM:
            actions = [actions[int(games[0].turns) % len(actions)]]
        for action in actions:
            more = luck_of_one_choice(games, self.variant.rules, self.seat, action, self.judge)
            after = games.copy()
            game_rules.apply_action(after[0], self.rules, action)
            self.walk(after, chance / len(actions), found + more)


@pytest.mark.parametrize("variant", TINY, ids=["two", "three"])
@pytest.mark.parametrize("kind", [luck.HEURISTIC, luck.REFERENCE, luck.GREEDY, luck.RANDOM])
def test_luck_is_nothing_on_average(variant, kind):
    """Over the whole tree of a tiny game, by a network that knows nothing: 0 to rounding."""
    models = [kind] + [luck.HEURISTIC] * (variant.num_players - 1)
    tree = Tree(variant, models)
    game = np.zeros(1, GAME)
    game_rules.clear(game[0], tree.rules)
    tree.walk(game.view(np.recarray), Fraction(1), 0.0)
    assert sum(tree.chances) == 1
    assert len(tree.ends) > 100
    assert max(tree.sizes) > 0.1
    mean = sum(float(chance) * end for chance, end in zip(tree.chances, tree.ends, strict=True))
    assert abs(mean) < 1e-12


# --- Unbiased in the arena ---------------------------------------------------------------------


@pytest.mark.parametrize(("players", "games"), [(2, 4_000), (5, 3_000)])
def test_a_bad_network_adds_noise_alone(misjudged, players, games):
    """Its luck is large, and 0 within four standard errors."""
    table = [Taker(), *[agents.make("random")] * (players - 1)]
    found = total(parts_of(table, games)).ravel()
    assert found.std() > 0.3
    assert abs(found.mean()) < 4 * found.std() / len(found) ** 0.5


@pytest.mark.parametrize("variant", small_variants(2))
def test_luck_and_games_are_stepped_alike(variant, monkeypatch):
    """Copies and games go the same way: what is worked on ends as the game does."""
    monkeypatch.setattr(luck, "network_of", lambda _: no_network())
    batch, plain = (GameBatch(300, variant, seed=3) for _ in range(2))
    table = [agents.make("random")] * 2
    follower = luck.Follower(batch, np.arange(300) % 2, table)
    follower.reset()
    plain.reset()
    while len(rows := np.flatnonzero(~batch.over)):
        assert batch.games.tobytes() == plain.games.tobytes()
        actions = batch.random_actions(rows)
        assert (plain.random_actions(rows) == actions).all()
        follower.step(actions, rows)
        plain.step(actions, rows)
    ended = batch.payoffs[np.arange(300), follower.seats] / 2 + 0.5
    assert np.isfinite(follower.luck).all()
    assert ended.std() > 0


# --- The same games ----------------------------------------------------------------------------


class Writer:
    """Plays at random by its generator, and keeps all that it was shown and did."""

    def __init__(self):
        self.log = []

    def act(self, observations, masks, rng):
        moves = np.where(masks, rng.random(masks.shape), -1.0).argmax(axis=1)
        self.log += [observations.tobytes(), masks.tobytes(), moves.tobytes()]
        return moves


@pytest.mark.parametrize("players", [2, 4])
def test_games_and_moves_are_the_same_with_and_without(players):
    """No agent sees anything of it: each is shown the same bytes and draws the same numbers."""
    scores, logs = [], []
    for luck_adjusted in (False, True):
        agent, other = Writer(), Writer()
        scores.append(
            win_share(agent, other, num_players=players, games=200, luck_adjusted=luck_adjusted)
        )
        logs.append(agent.log + other.log)
    assert logs[0] == logs[1]
    fields = ("games", "share", "low", "high", "per_seat", "turns", "third_traps")
    assert [getattr(scores[0], field) for field in fields] == [
        getattr(scores[1], field) for field in fields
    ]
    assert scores[0].adjusted is None
    assert scores[1].adjusted is not None


def test_an_illegal_move_is_refused_as_ever():
    class Cheat:
        def act(self, observations, masks, rng):
            return np.full(len(masks), 99)

    with pytest.raises(ValueError, match="99"):
        win_share(Cheat(), Cheat(), games=10, luck_adjusted=True)


# --- The networks ------------------------------------------------------------------------------


@jit
def features_all(games, rules, seats, models, features):
    for i in range(len(games)):
        luck.write_features(games[i], rules[0], seats[i], models, features[i])


def turned(games, players):
    """The same tables, each seat with what the next one had."""
    other = games.copy()
    for name in ("traps", "cheese", "points", "taken", "known"):
        other[name][:, :players] = np.roll(games[name][:, :players], -1, axis=1)
    other["seat"] = (games["seat"] + players - 1) % players
    low = games["peeked"] & 1
    other["peeked"] = games["peeked"] >> 1 | low << (players - 1)
    return other


@pytest.mark.parametrize("players", PLAYERS)
def test_features_do_not_depend_on_the_number_of_a_seat(players):
    variant = Variant(num_players=players)
    games = mixed_states(variant, 300, seed=players).games
    features = np.zeros((2, len(games), luck.num_features(players)), np.float32)
    models = np.full(6, luck.REFERENCE)
    features_all(games, variant.rules, np.full(len(games), 1), models, features[0])
    features_all(
        turned(games, players), variant.rules, np.zeros(len(games), int), models, features[1]
    )
    assert np.allclose(features[0], features[1])
    assert (features[0].std(axis=0) > 0).mean() > 0.8
    assert np.abs(features).max() < 16


@pytest.mark.parametrize(("players", "goal"), [(2, 1 / 4), (3, 1 / 3), (4, 1 / 3), (6, 1 / 3)])
def test_the_networks_cut_the_variance(players, goal):
    """And what they call luck is 0 within four standard errors."""
    table = [agents.make("heuristic"), *[agents.make("reference")] * (players - 1)]
    parts = parts_of(table, 1_200)
    shares = np.concatenate([part.shares for part in parts])
    found = total(parts)
    assert (shares - found).var() < goal * shares.var()
    assert abs(found.mean()) < 4 * found.std() / found.size**0.5


def test_two_sides_of_a_pairing():
    """The luck of one is the misfortune of the other."""
    pairs = {
        names: score
        for *names_, score in arena.all_pairs(
            ["heuristic", "random"], 2, 100, 0, luck_adjusted=True
        )
        for names in [tuple(names_)]
    }
    one, other = pairs["heuristic", "random"], pairs["random", "heuristic"]
    assert one.adjusted + other.adjusted == pytest.approx(1)
    assert one.adjusted_low + other.adjusted_high == pytest.approx(1)
    assert one.adjusted_high - one.adjusted_low < one.high - one.low


# --- Errors and outputs ------------------------------------------------------------------------


def test_other_rules_are_refused():
    with pytest.raises(ValueError, match="allowed: the default rules"):
        luck.network_of(Variant(num_players=2, trap_limit=2))


def test_a_missing_network_ends_with_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(luck.values, "DIRECTORY", tmp_path)
    luck.network_of.cache_clear()
    with pytest.raises(SystemExit) as exit_:
        command.main(["random", "--games", "20", "--luck-adjusted"])
    luck.network_of.cache_clear()
    assert exit_.value.code == 2
    assert_one_line_of_error(capsys.readouterr().err, "python -m agents.arena", "luck_2.npz")


ADJUSTED = ("adjusted", "adjusted_low", "adjusted_high")


def test_the_command_prints_and_writes_both(tmp_path, capsys):
    outputs = ["--json", tmp_path / "x.json", "--csv", tmp_path / "x.csv"]
    arguments = ["heuristic", "reference", "--games", "200", "--luck-adjusted"]
    assert command.main([*arguments, *map(str, outputs)]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert "adjusted" in header
    data = json.loads((tmp_path / "x.json").read_text())
    assert "--luck-adjusted" in data["command"]
    pair = data["pairs"][0]
    both = [pair[name] for name in ("share", "low", "high")]
    without = [pair[name] for name in ADJUSTED]
    assert without[2] - without[1] < 0.5 * (both[2] - both[1])
    words = line.split()
    assert [words[2], words[3], words[5]] == [f"{number:.3f}" for number in both]
    assert [words[6], words[7], words[9]] == [f"{number:.4f}" for number in without]
    with open(tmp_path / "x.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(rows[0][name]) for name in ADJUSTED] == without


@pytest.mark.long
def test_training_writes_a_network(tmp_path):
    """A short run already cuts the variance by half."""
    pytest.importorskip("torch", reason="training needs torch")
    from agents.arena import train_luck

    options = ["--rounds", "5", "--games", "300", "--check-games", "300", "--out", str(tmp_path)]
    assert train_luck.main(options) == 0
    entry = json.loads((tmp_path / "luck.json").read_text())["num_players"]["2"]
    assert entry["rounds"] == 5
    assert entry["check"]["variance_left"] < 0.5
    assert (tmp_path / "luck_2.npz").exists()

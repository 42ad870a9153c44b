"""The greedy agent and the tuned heuristic: where the right move is obvious, and the figures."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, fields, replace

import numpy as np
import pytest
from agent_tools import LARGE, positions, situation, standard_error
from builders import PLAYERS, action_of
from test_information import pairs_of

import agents
from agents.arena.matches import win_share
from agents.heuristics import tune
from agents.heuristics.heuristic import PARAMETERS_FILE, HeuristicAgent, Parameters, load_parameters
from agents.search import train_values
from alles_kaese_env import OBSERVATION
from alles_kaese_env.command_line import INTERRUPTED
from alles_kaese_env.seeding import seed_of

AGENTS = ("greedy", "heuristic")
NAMES = [field.name for field in fields(Parameters)]
ENTRIES = json.loads(PARAMETERS_FILE.read_text(encoding="utf-8"))["num_players"]
AGAIN = 4_000

UNCERTAIN = [1 / 3] * 2 + [1 / 2] * 2 + [2 / 3] * 2  # slot k has k + 1 holes in most situations


@pytest.fixture(scope="module")
def many():
    """Observations and masks of 2 to 6 players."""
    return positions(1_200)


# --- What every agent owes ---------------------------------------------------------------------


@pytest.mark.parametrize("name", AGENTS)
def test_every_move_is_legal_and_has_no_luck_in_it(many, name):
    observations, masks = many
    before = observations.tobytes(), masks.tobytes()
    actions = agents.make(name).act(observations, masks, None)
    assert len(actions) > 4_000
    assert actions.dtype == np.int64
    assert masks[np.arange(len(masks)), actions].all()
    assert (agents.make(name).act(observations, masks, None) == actions).all()
    assert (observations.tobytes(), masks.tobytes()) == before


@pytest.mark.parametrize("name", AGENTS)
def test_a_whole_batch_at_once_as_row_by_row(many, name):
    observations, masks = many[0][::7], many[1][::7]
    agent = agents.make(name)
    together = agent.act(observations, masks, None)
    pairs = zip(observations, masks, strict=True)
    assert [agent.act(one[None], mask[None], None)[0] for one, mask in pairs] == together.tolist()


@pytest.mark.parametrize("name", AGENTS)
def test_no_games_no_actions(name):
    nothing = np.zeros((0, OBSERVATION.size), np.float32), np.zeros((0, 18), bool)
    assert agents.make(name).act(*nothing, None).shape == (0,)


@pytest.mark.parametrize("name", AGENTS)
def test_same_knowledge_same_move(name):
    agent = agents.make(name)
    hidden, known = (
        [agent.act(*side, None) for side in pairs_of(is_known=flag)] for flag in (False, True)
    )
    assert (hidden[0] == hidden[1]).all()
    assert 0.02 < (known[0] != known[1]).mean() < 1


@pytest.mark.parametrize("name", AGENTS)
def test_what_is_never_right(many, name):
    """No known trap is taken, and no front looked at that is known while another is not."""
    observations, masks = many
    actions = agents.make(name).act(observations, masks, None)
    kind, slot = np.divmod(actions, 6)
    trap = OBSERVATION.decode(observations)["trap_probability"]
    chosen = trap[np.arange(len(trap)), slot]
    assert (kind == 1).sum() > 1_000
    assert not (chosen[kind == 1] == 1).any()
    is_unknown = (trap > 0) & (trap < 1)
    peeks = (kind == 0) & is_unknown.any(axis=1)
    assert peeks.sum() > 1_000
    assert is_unknown[peeks, slot[peeks]].all()


# --- Where the right move is obvious -----------------------------------------------------------


ROW = (1, 2, 3, 4, 5, 6)


def move(agent, holes=ROW, trap=UNCERTAIN, *, match=None, players=2, **options):
    """The action of an agent, or of the agent of that name, when the card in a slot matches."""
    die = None if match is None else holes[match]
    sides = situation(holes, trap, players=players, die=die, **options)
    agent = agents.make(agent, LARGE[players]) if isinstance(agent, str) else agent
    return int(agent.act(*sides, None)[0])


def with_parameters(players=2, **changes):
    """The heuristic with some parameters changed."""
    parameters = {players: replace(load_parameters()[players], **changes)}
    return HeuristicAgent(parameters, LARGE[players])


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize(
    ("players", "lead", "cards"),
    [(2, 0, 12), (2, 0, 24), *((count, 10, left) for count in PLAYERS for left in (4, 12, 24))],
)
def test_no_even_chance_with_two_traps(name, players, lead, cards):
    """Level with one opponent and turns to come, or ahead of more."""
    options = {"players": players, "cards": cards, "own": (8 + lead, 2), "others": (8, 1)}
    for slot in (2, 3, 4, 5):
        assert move(name, match=slot, **options) == action_of(f"discard {slot}")


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("traps", [0, 1, 2])
@pytest.mark.parametrize("cards", [1, 9, 30])
def test_a_known_cheese_is_taken(name, players, traps, cards):
    for lead in (-12, 0, 12):
        options = {"cards": cards, "own": (15 + lead, traps), "others": (15, 1)}
        for slot in range(6):
            found = move(name, trap=[0] * 6, match=slot, players=players, **options)
            assert found == action_of(f"take {slot}")


@pytest.mark.parametrize("name", AGENTS)
def test_cheese_before_an_unknown_card_and_any_card_before_a_trap(name):
    half = 0.5
    assert move(name, [3] * 6, [1, half, 0, half, 0, 1], match=0) == action_of("take 2")
    assert move(name, [3, 1, 1, 1, 1, 1], [1] + [half] * 5, match=0) == action_of("discard 0")
    assert move(name, [3, 1, 1, 3, 1, 1], [1] + [half] * 5, match=0) == action_of("take 3")


@pytest.mark.parametrize("players", PLAYERS)
def test_the_last_card_ahead_and_behind(players):
    """With two traps: safe as it is won, and at any odds as it is lost otherwise."""
    ahead = {"players": players, "cards": 1, "own": (20, 2), "others": (15, 0)}
    behind = ahead | {"own": (12, 2)}
    assert move("heuristic", match=3, **ahead) == action_of("discard 3")
    assert move("heuristic", match=3, **behind) == action_of("take 3")
    assert move("heuristic", match=1, **behind) == action_of("discard 1")  # too small to help


@pytest.mark.parametrize("lead", [-12, 12])
def test_a_lead_makes_cautious(lead):
    """A card of four holes at 1/2 with two traps and three turns each to go."""
    agent = with_parameters(spread=2.0)
    expected = "discard 3" if lead > 0 else "take 3"
    assert move(agent, match=3, cards=7, own=(20 + lead, 2), others=(20, 0)) == action_of(expected)


@pytest.mark.parametrize("players", PLAYERS)
def test_a_first_trap_is_a_small_risk(players):
    for slot in (1, 3):
        assert move("heuristic", match=slot, players=players) == action_of(f"take {slot}")


# --- Each term of the heuristic ----------------------------------------------------------------


def test_traps_to_come_make_cautious():
    for name, own in (("second_trap", (0, 1)), ("first_trap", (0, 0))):
        for value, expected in ((0.0, "take 5"), (3.0, "discard 5")):
            agent = with_parameters(**{name: value})
            assert move(agent, match=5, own=own) == action_of(expected)


def test_a_card_that_an_opponent_knows_is_denied():
    """Of two equal cards the one that an opponent peeked at goes."""
    row = {"holes": [1, 1, 4, 4, 1, 1], "trap": [0.5] * 6, "seen": [3], "match": 2}
    assert move(with_parameters(deny=0.3), **row) == action_of("take 3")
    assert move(with_parameters(deny=0.0), **row) == action_of("take 2")


def test_a_trap_is_left_as_bait_unless_the_opponent_knows_it():
    row = {"holes": [4, 4, 1, 1, 1, 1], "trap": [1, 1] + [0.5] * 4, "seen": [1], "match": 0}
    assert move(with_parameters(bait=2.0), **row) == action_of("discard 1")
    assert move(with_parameters(bait=-2.0), **row) == action_of("discard 0")


def test_a_cheese_of_its_own_can_wait():
    """Two known cheeses of as many holes: first the one that an opponent knows as well."""
    row = {"holes": [4, 4, 1, 1, 1, 1], "trap": [0, 0] + [0.5] * 4, "seen": [1], "match": 0}
    assert move(with_parameters(deny=0.0, keep=0.2), **row) == action_of("take 1")
    assert move(with_parameters(deny=0.0, keep=0.0), **row) == action_of("take 0")


def test_where_to_peek():
    agent = with_parameters(doubt=0.5, rivals=0.0, spare=0.0)
    assert move(agent, [2, 3, 4, 3, 2, 1], [0.5] * 6) == action_of("peek 2")
    assert move(agent, [4, 4, 5, 4, 4, 4], [0, 1, 5 / 6, 0.5, 0.5, 1]) == action_of("peek 3")
    assert move(agent, [4] * 6, [0, 1, 0, 1, 0, 1]) == action_of("peek 0")


def test_a_peek_at_what_opponents_know():
    row = {"holes": [4] * 6, "trap": [0.5] * 6, "seen": [2, 4]}
    assert move(with_parameters(rivals=0.3), **row) == action_of("peek 2")
    assert move(with_parameters(rivals=-0.3), **row) == action_of("peek 0")


def test_a_peek_is_worth_less_while_a_cheese_of_as_many_holes_waits():
    row = {"holes": [4, 4, 3, 4, 4, 4], "trap": [0] + [0.5] * 5}
    assert move(with_parameters(spare=0.9), **row) == action_of("peek 2")
    assert move(with_parameters(spare=0.0), **row) == action_of("peek 1")


def test_with_two_traps_a_peek_is_for_cheese():
    """The ruin of a third trap outweighs: likely cheese comes first."""
    row = {"holes": [3, 3, 3, 3, 5, 6], "trap": [0.5] * 4 + [0.4, 0.6], "own": (8, 2)}
    agent = with_parameters(doubt=0.0, ruin=30.0, rivals=0.0, spare=0.0)
    assert move(agent, **row) == action_of("peek 4")
    assert move(with_parameters(doubt=0.0, ruin=3.0), **row) == action_of("peek 5")


# --- Parameters and figures --------------------------------------------------------------------


def test_the_file_has_parameters_and_provenance_for_every_number_of_players():
    tuned = load_parameters()
    assert sorted(tuned) == list(PLAYERS)
    for count, entry in ENTRIES.items():
        assert asdict(tuned[int(count)]) == entry["parameters"]
        assert np.isfinite(astuple(tuned[int(count)])).all()
        assert f"--num-players {count} " in entry["tuning"]["command"]
        assert entry["check"]["games"] >= 40_000


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_used(many, name):
    """Another value makes other moves."""
    tuned = load_parameters()
    moves = HeuristicAgent(tuned).act(*many, None)
    others = [
        HeuristicAgent({count: replace(one, **{name: value}) for count, one in tuned.items()})
        for value in (-3.0, 0.0, 3.0)
    ]
    assert any((agent.act(*many, None) != moves).any() for agent in others)


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("against", tune.CHECKS)
def test_the_figures_of_the_file_again(players, against):
    """On other deals, within three standard errors of the difference."""
    figures = ENTRIES[str(players)]["check"]["against"][against]
    score = win_share(
        agents.make("heuristic"), agents.make(against), num_players=players, games=AGAIN, seed=1
    )
    error = np.hypot(standard_error(score), (figures["high"] - figures["low"]) / 3.92)
    assert abs(score.share - figures["share"]) <= 3 * error


@pytest.mark.parametrize("players", PLAYERS)
def test_better_than_the_reference(players):
    against = ENTRIES[str(players)]["check"]["against"]
    assert against["reference"]["low"] > 1 / players
    assert players > 2 or against["reference"]["low"] > 0.53
    assert players > 2 or against["random"]["low"] > 0.784


# --- The tuning --------------------------------------------------------------------------------


def test_tuning_writes_what_it_found_and_again_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tune, "CANDIDATES", 4)
    monkeypatch.setattr(tune, "ELITE", 2)
    few = ["--budget", "4", "--games", "6", "--check-games", "6", "--seed", "4"]
    found = []
    for name in ("first.json", "second.json"):
        assert tune.main(["--num-players", "3", *few, "--out", str(tmp_path / name)]) == 0
        found.append((tmp_path / name).read_text(encoding="utf-8"))
    assert found[0] == found[1]
    assert load_parameters(tmp_path / "first.json")[3] != Parameters()
    assert "round 1/1: mean value" in capsys.readouterr().out
    tune.main(["--num-players", "2", *few, "--out", str(tmp_path / "first.json")])
    assert sorted(load_parameters(tmp_path / "first.json")) == [2, 3]


def test_ctrl_c_keeps_what_was_found(tmp_path, monkeypatch, capsys):
    whole = np.array(astuple(Parameters())) * 1.1

    def interrupted(*_):
        yield whole, 0.5
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "rounds", interrupted)
    out = tmp_path / "out.json"
    assert tune.main(["--budget", "60", "--check-games", "4", "--out", str(out)]) == INTERRUPTED
    assert astuple(load_parameters(out)[2]) == pytest.approx(whole, abs=1e-4)
    assert "interrupted after 1 rounds" in capsys.readouterr().out
    assert json.loads(out.read_text())["num_players"]["2"]["tuning"]["candidates"] == 20


@pytest.mark.parametrize("wrong", ["--budget 19", "--games 1", "--seed -1", "--budget many"])
def test_wrong_arguments(wrong, capsys):
    with pytest.raises(SystemExit):
        tune.main(wrong.split())
    assert "allowed: a whole number from" in capsys.readouterr().err


def test_deals_of_the_check_are_not_those_of_the_rounds():
    rounds = {seed_of(0, 1, number) for number in range(1_000)}
    assert len(rounds) == 1_000
    assert seed_of(0, tune.CHECK_KEY) not in rounds


@pytest.mark.parametrize("command", [tune.main, train_values.main])
@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_outputs_are_checked_before_the_work(command, content, tmp_path, monkeypatch, capsys):
    """No directory, or a file that is no such file: one line, and nothing has been done."""
    monkeypatch.setattr(tune, "rounds", None)
    monkeypatch.setattr(train_values, "rounds", None)
    name = "values.json" if command is train_values.main else "parameters.json"
    if content is None:
        (tmp_path / "file").write_text("")
        out = tmp_path / "file" / "nothing"
    else:
        (tmp_path / name).write_text(content)
        out = tmp_path if command is train_values.main else tmp_path / name
    with pytest.raises(SystemExit) as stop:
        command(["--out", str(out)])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_interrupted_check_keeps_what_was_found(tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "rounds", lambda *_: iter([(np.array(astuple(Parameters())), 0.5)]))
    monkeypatch.setattr(tune, "win_share", interrupted)
    out = tmp_path / "out.json"
    assert tune.main(["--budget", "20", "--out", str(out)]) == INTERRUPTED
    assert load_parameters(out)[2] == Parameters()
    assert json.loads(out.read_text())["num_players"]["2"]["check"] is None

"""The arena: fair to seats, exact in its counting, honest in its intervals."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from agent_tools import (
    Discarder,
    Taker,
    assert_one_line_of_error,
    random_network,
    run_python,
    standard_error,
)
from builders import PLAYERS

import agents
from agents.arena import __main__ as command
from agents.arena import matches as arena
from agents.arena.matches import win_share
from agents.ppo.agent import PPOAgent
from alles_kaese_env import RULES_VERSION, GameBatch, Variant, __version__

COMMAND = "python -m agents.arena"


@pytest.fixture
def random():
    return agents.make("random")


@pytest.fixture
def reference():
    return agents.make("reference")


# --- Fairness ----------------------------------------------------------------------------------


@pytest.mark.parametrize("players", PLAYERS)
def test_identical_agents_share_evenly(random, players):
    score = win_share(random, random, num_players=players, games=20_000, seed=1)
    assert abs(score.share - 1 / players) < 3 * standard_error(score)
    assert len(score.per_seat) == players
    assert np.mean(score.per_seat) == pytest.approx(score.share)


def test_first_seat_is_no_advantage_of_one_agent(random):
    """Seat 0 wins more often than seat 5 (rule book); the shares by seat show it."""
    score = win_share(random, random, num_players=6, games=30_000)
    assert score.per_seat[0] - score.per_seat[5] > 0.01


class Watched:
    """An agent that says who was asked last."""

    last = None

    def __init__(self, name):
        self.name = name

    def act(self, observations, masks, rng):
        Watched.last = self.name
        return masks.argmax(axis=1)


@pytest.fixture
def tables(monkeypatch):
    """The batches that the arena plays on; each keeps (agent, game, seat) of all moves."""
    made = []

    class WatchedBatch(GameBatch):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.moves, self.rows_at_start = set(), None
            made.append(self)

        def step(self, actions, rows=None):
            if self.rows_at_start is None:
                self.rows_at_start = self.games["row"].copy()
            self.moves |= {(Watched.last, int(row), int(self.seats[row])) for row in rows}
            super().step(actions, rows)

    monkeypatch.setattr(arena, "GameBatch", WatchedBatch)
    return made


@pytest.mark.parametrize("players", PLAYERS)
def test_every_deal_is_played_from_every_seat(tables, players):
    """The agent goes through the seats, the others follow it in turn order."""
    names = list("ABCDEF"[:players])
    one, *others = map(Watched, names)
    win_share(one, others, num_players=players, games=4 * players)
    (batch,) = tables
    assert len(batch) == 4 * players
    expected = {
        (name, game, (game + place) % players)
        for game in range(len(batch))
        for place, name in enumerate(names)
    }
    assert batch.moves == expected
    deals = batch.rows_at_start.reshape(4, players, 6)
    assert (deals == deals[:, :1]).all()
    assert len(np.unique(deals[:, 0], axis=0)) == 4


def test_games_are_rounded_up_to_whole_deals(random):
    assert win_share(random, random, num_players=3, games=10).games == 12


# --- Counting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("players", PLAYERS)
def test_a_tie_of_all_gives_each_its_part(players):
    """Nobody takes a card, so all are equal (P4)."""
    score = win_share(Discarder(), Discarder(), num_players=players, games=60)
    assert score.share == pytest.approx(1 / players, abs=1e-7)
    assert score.per_seat == pytest.approx([1 / players] * players, abs=1e-7)
    assert score.third_traps == 0


def test_a_tie_of_two_of_three_gives_each_a_half():
    """The third is out by traps, or wins alone, or has taken no cheese; one deal at a time."""
    seen = set()
    for seed in range(60):
        score = win_share(Discarder(), [Discarder(), Taker()], num_players=3, games=3, seed=seed)
        halves = sum(abs(share - 1 / 2) < 1e-6 for share in score.per_seat)
        assert halves == round(3 * score.third_traps)
        seen |= {round(share, 6) for share in score.per_seat}
    assert {0.5, 0.0} <= seen <= {0.5, 0.0, round(1 / 3, 6)}


def test_a_third_trap_loses():
    """Against one that never takes: the taker loses just the games that its traps end."""
    for seed in range(30):
        score = win_share(Taker(), Discarder(), games=2, seed=seed)
        assert score.share == pytest.approx(1 - score.third_traps)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_shares_of_all_seats_add_up_to_one(reference, players):
    """Agents without chance of their own play the same games, whoever is asked for."""
    table = [reference, Taker(), Discarder(), Taker()][:players]
    shares = [
        win_share(
            table[place],
            table[place + 1 :] + table[:place],
            num_players=players,
            games=600,
            seed=4,
        ).share
        for place in range(players)
    ]
    assert sum(shares) == pytest.approx(1, abs=1e-6)
    assert len(set(shares)) > 1


def test_one_opponent_is_a_whole_table_of_it(reference):
    alone = win_share(reference, Taker(), num_players=4, games=200, seed=3)
    assert alone == win_share(reference, [Taker()] * 3, num_players=4, games=200, seed=3)
    assert alone == win_share(reference, (Taker(),) * 3, num_players=4, games=200, seed=3)
    assert alone != win_share(
        reference, [Taker(), Taker(), Discarder()], num_players=4, games=200, seed=3
    )


@pytest.mark.parametrize(("players", "others"), [(2, 0), (2, 2), (3, 1), (6, 6)])
def test_the_wrong_number_of_opponents_is_refused(random, players, others):
    with pytest.raises(ValueError, match=f"against has {others} agents; allowed: {players - 1}"):
        win_share(random, [random] * others, num_players=players, games=10)


# --- Repetition --------------------------------------------------------------------------------


def test_same_seed_same_score(random, reference):
    first, again, other = (
        win_share(reference, random, num_players=3, games=300, seed=seed) for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other


def test_deals_do_not_depend_on_how_many_are_played_at_once(reference, monkeypatch):
    whole = win_share(reference, Taker(), num_players=3, games=300)
    monkeypatch.setattr(arena, "GAMES_AT_ONCE", 40)
    assert win_share(reference, Taker(), num_players=3, games=300) == whole


@pytest.mark.parametrize("kind", ["random", "reference"])
def test_the_interval_holds_the_truth_in_95_of_100_runs(random, kind):
    """Of 100 runs 88 to 100 do, but for one chance in a thousand."""
    agent = agents.make(kind)
    scores = [win_share(agent, random, games=300, seed=seed) for seed in range(100)]
    truth = 1 / 2 if kind == "random" else np.mean([score.share for score in scores])
    assert sum(score.low <= truth <= score.high for score in scores) >= 88
    widths = [score.high - score.low for score in scores]
    assert sum(widths) / 100 < 0.12  # an interval that says nothing would hold the truth as well


def test_one_deal_says_nothing_about_its_error(random):
    score = win_share(random, random, games=2)
    assert (score.low, score.high) == (0, 1)


def test_a_score_is_made_of_plain_numbers(random, reference):
    score = win_share(reference, random, games=50)
    numbers = [score.share, score.low, score.high, score.turns, score.third_traps]
    assert all(type(number) is float for number in [*numbers, *score.per_seat])
    assert type(score.games) is int


# --- The command -------------------------------------------------------------------------------


def test_command_prints_the_shares(capsys, random, reference):
    """For each pair a line: the two names, the share, the interval, and more."""
    arguments = ["random", "reference", "--num-players", "2", "--games", "200"]
    code, output, errors = run_python("-m", "agents.arena", *arguments)
    assert (code, errors) == (0, "")
    header, line = output.splitlines()
    assert "share" in header
    assert line.split()[:2] == ["random", "reference"]
    score = win_share(random, reference, games=200)
    seats = [f"{share:.3f}" for share in score.per_seat]
    shares = [f"{score.share:.3f}", f"{score.low:.3f}", "to", f"{score.high:.3f}"]
    assert line.split()[2:6] == shares
    assert line.split()[6:8] == [f"{score.turns:.1f}", f"{score.third_traps:.3f}"]
    assert line.split()[9:] == seats
    assert float(line.split()[8]) > 0
    assert command.main(arguments) == 0
    assert without_times(capsys.readouterr().out) == without_times(output)


def without_times(output):
    """The lines of the command without the column of microseconds a move."""
    return [line.split()[:8] + line.split()[9:] for line in output.splitlines()]


def test_command_writes_what_it_prints(capsys, tmp_path):
    """JSON and CSV hold each ordered pair once, and the plot is a picture."""
    files = {kind: tmp_path / f"pairs.{kind}" for kind in ("json", "csv", "png")}
    arguments = ["random", "reference", "--games", "60", "--num-players", "3"]
    outputs = ["--json", files["json"], "--csv", files["csv"], "--plot", files["png"]]
    assert command.main([*arguments, *map(str, outputs)]) == 0
    printed = capsys.readouterr().out.splitlines()[1:]
    pairs = json.loads(files["json"].read_text())["pairs"]
    assert [(pair["agent"], pair["against"]) for pair in pairs] == [
        ("random", "reference"),
        ("reference", "random"),
    ]
    for pair, line in zip(pairs, printed, strict=True):
        score = win_share(
            agents.make(pair["agent"]), agents.make(pair["against"]), num_players=3, games=60
        )
        assert (pair["num_players"], pair["games"]) == (3, 60)
        assert (pair["share"], pair["low"], pair["high"]) == (score.share, score.low, score.high)
        assert line.split()[2] == f"{score.share:.3f}"
    with open(files["csv"], newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row, pair in zip(rows, pairs, strict=True):
        seats = [float(share) for share in row.pop("per_seat").split()]
        assert seats == pytest.approx(pair.pop("per_seat"), abs=6e-4)
        assert row == {name: str(value) for name, value in pair.items()}
        assert len(seats) == 3
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.iterdir())) == 3


def test_scores_do_not_depend_on_the_number_of_processes(monkeypatch):
    """Each part has its own generator, so it does not matter who plays it."""
    monkeypatch.setattr(arena, "GAMES_AT_ONCE", 40)
    names = ["random", "reference"]
    alone = list(arena.all_pairs(names, 2, 100, 3))
    told = []
    assert list(arena.all_pairs(names, 2, 100, 3, 2, told.append)) == alone
    assert told == [40, 40, 20]
    assert [pair[:2] for pair in alone] == [("random", "reference"), ("reference", "random")]


def test_only_the_pairs_of_one_agent():
    names = ["random", "reference", "greedy"]
    every = {pair[:2]: pair[2] for pair in arena.all_pairs(names, 3, 30, 0)}
    some = {pair[:2]: pair[2] for pair in arena.all_pairs(names, 3, 30, 0, only="greedy")}
    assert some == {pair: score for pair, score in every.items() if pair[0] == "greedy"}
    assert len(some) == 2
    of_two = list(arena.all_pairs(names, 2, 30, 0, only="greedy"))
    assert [pair[:2] for pair in of_two] == [
        ("random", "greedy"),
        ("greedy", "random"),
        ("reference", "greedy"),
        ("greedy", "reference"),
    ]


def test_the_same_deals_for_every_pairing(tables):
    list(arena.all_pairs(["random", "reference", "greedy"], 2, 10, 0))
    assert len(tables) == 3
    assert all((table.rows_at_start == tables[0].rows_at_start).all() for table in tables)


@pytest.mark.parametrize("players", [2, 4])
def test_ratings_are_the_odds_of_the_shares(players):
    """Known strengths of 0, 100 and 300 points come back from the shares that they give."""
    names, points = ["a", "b", "c"], [0.0, 100.0, 300.0]
    strength = {name: 10 ** (elo / 400) for name, elo in zip(names, points, strict=True)}
    pairs = {}
    for one in names:
        for other in names:
            share = strength[one] / (strength[one] + (players - 1) * strength[other])
            if one != other:
                pairs[one, other] = arena.Score(1000, share, 0, 1, (), 0, 0, 0)
    assert list(arena.ratings(pairs, names, players).values()) == pytest.approx(points, abs=1)


def test_an_agent_that_met_others_from_one_side_alone_is_rated():
    """As `--only` leaves it: nobody is told to have lost all games that were not played."""
    even = arena.Score(1000, 0.25, 0, 1, (), 0, 0, 0)
    pairs = {("a", "b"): even, ("b", "a"): even, ("c", "a"): even}
    assert list(arena.ratings(pairs, ["a", "b", "c"], 4).values()) == pytest.approx(
        [0, 0, 0], abs=1
    )


def test_command_takes_other_players_seeds_and_runs(capsys, tmp_path):
    PPOAgent(random_network()).save(tmp_path / "policy.npz")
    name = f"ppo:{tmp_path}"
    options = ["--num-players", "3", "--games", "30"]
    assert command.main(["random", "reference", name, *options]) == 0
    lines = capsys.readouterr().out.split("\n\n")[0].splitlines()[1:]
    assert len(lines) == 6
    pairs = {tuple(line.split()[:2]) for line in lines}
    assert ("random", name) in pairs
    outputs = set()
    for seed in ("0", "1"):
        command.main(["random", "--games", "100", "--seed", seed])
        outputs.add(capsys.readouterr().out)
    assert len(outputs) == 2


def test_command_lets_a_single_agent_play_itself(capsys):
    assert command.main(["reference", "--games", "20"]) == 0
    (line,) = capsys.readouterr().out.splitlines()[1:]
    assert line.split()[:3] == ["reference", "reference", "0.500"]


BAD_COMMANDS = {
    "no agent": ([], "AGENT"),
    "unknown agent": (["nonsense"], "nonsense"),
    "second unknown": (["random", "Random"], "'Random'"),
    "argument": (["random:3"], "random:3"),
    "only a stranger": (["random", "reference", "--only", "greedy"], "--only is 'greedy'"),
    "ppo of nothing": (["ppo:/nowhere"], "/nowhere"),
    "games 0": (["random", "--games", "0"], "--games"),
    "games 1": (["random", "--games", "1"], "--games"),
    "games -5": (["random", "--games", "-5"], "--games"),
    "games text": (["random", "--games", "many"], "--games"),
    "players 1": (["random", "--num-players", "1"], "--num-players"),
    "players 7": (["random", "--num-players", "7"], "--num-players"),
    "seed text": (["random", "--seed", "x"], "--seed"),
    "seed -1": (["random", "--games", "2", "--seed", "-1"], "seed"),
    "seed 2**64": (["random", "--games", "2", "--seed", str(2**64)], "seed"),
}


@pytest.mark.parametrize(("arguments", "word"), BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_bad_commands_end_with_one_line(capsys, arguments, word):
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)
    assert exit_.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert_one_line_of_error(errors, COMMAND, word)


def test_a_broken_weights_file_ends_with_one_line(capsys, tmp_path):
    PPOAgent(random_network()).save(tmp_path / "policy.npz")
    whole = (tmp_path / "policy.npz").read_bytes()
    (tmp_path / "policy.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SystemExit) as exit_:
        command.main([f"ppo:{tmp_path}", "--games", "2"])
    assert exit_.value.code == 2
    assert_one_line_of_error(capsys.readouterr().err, COMMAND, str(tmp_path))


def test_bad_command_in_a_process():
    code, output, errors = run_python("-m", "agents.arena", "nonsense")
    assert (code, output) == (2, "")
    assert_one_line_of_error(errors, COMMAND, "nonsense", agents.names())
    assert (
        agents.names()
        == "random, greedy, reference, heuristic, search:BUDGET, ppo[:RUN[,sample][,any-rules]], "
        "mmd:RUN, dqn:RUN, nfsp:RUN, psro:RUN, MODULE:NAME[:ARGUMENT]"
    )


# --- Other rules ---------------------------------------------------------------------------------


def test_games_are_played_by_the_rules_that_are_asked_for():
    variant = Variant.named("98k", num_players=3)
    score = win_share(Taker(), agents.make("reference", variant), variant=variant, games=300)
    assert len(score.per_seat) == 3
    assert score.turns <= 4  # a reserve of four cards
    ((*_, played),) = arena.all_pairs(["random"], variant, 300, 0)
    random = agents.make("random")
    assert played == win_share(random, random, variant=variant, games=300)


def test_the_command_takes_rules_and_keeps_them(tmp_path, capsys):
    file = tmp_path / "pairs.json"
    rules = ["--variant", "98k", "--trap-limit", "1"]
    arguments = ["random", "reference", "--games", "100", "--json", str(file)]
    assert command.main([*arguments, *rules]) == 0
    data = json.loads(file.read_text())
    assert data["command"].endswith("--seed 0 --variant 50k")  # the name of these rules
    assert data["pairs"][0]["turns"] <= 4
    capsys.readouterr()
    with pytest.raises(SystemExit):
        command.main(["random", "ppo", *rules])
    assert_one_line_of_error(capsys.readouterr().err, COMMAND, "was trained with", "any-rules")


# --- Outputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "file"),
    [
        ("--json", "no/such/place/x.json"),
        ("--csv", "."),
        ("--plot", "x.unknown"),
        ("--plot", "no/such/place/x.png"),
    ],
)
def test_outputs_are_checked_before_anything_is_played(option, file, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit_:
        command.main(["random", "reference", "--games", "60", option, file])
    assert exit_.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert_one_line_of_error(errors, COMMAND, f"{option} is {file}")
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_fails_loses_no_other(capsys, tmp_path, monkeypatch):
    def full(data, file):
        raise OSError("no space left on device")

    monkeypatch.setattr(command, "write_json", full)
    outputs = ["--json", str(tmp_path / "x.json"), "--csv", str(tmp_path / "x.csv")]
    with pytest.raises(SystemExit) as exit_:
        command.main(["random", "reference", "--games", "60", *outputs])
    assert exit_.value.code == 2
    assert_one_line_of_error(capsys.readouterr().err, COMMAND, "x.json", "no space left")
    assert [file.name for file in tmp_path.iterdir()] == ["x.csv"]


def test_an_interrupted_arena_keeps_the_pairs_played(capsys, tmp_path, monkeypatch):
    whole = arena.all_pairs

    def interrupted(*arguments):
        pairs = whole(*arguments)
        yield next(pairs)
        yield next(pairs)
        raise KeyboardInterrupt

    monkeypatch.setattr(arena, "all_pairs", interrupted)
    file = tmp_path / "pairs.json"
    names = ["random", "reference", "greedy"]
    assert command.main([*names, "--games", "60", "--json", str(file)]) == 130
    errors = capsys.readouterr().err
    assert errors == f"{COMMAND}: interrupted; 2 pairs are complete and written to {file}\n"
    data = json.loads(file.read_text())
    assert len(data["pairs"]) == 2
    assert not data["complete"]


def test_the_file_says_what_made_it(tmp_path):
    file = tmp_path / "pairs.json"
    assert command.main(["random", "--games", "60", "--json", str(file)]) == 0
    data = json.loads(file.read_text())
    assert data["complete"]
    assert (data["version"], data["rules_version"]) == (__version__, RULES_VERSION)
    assert "commit" in data
    assert data["command"] == f"{COMMAND} random --num-players 2 --games 60 --seed 0"


def test_no_locale_stops_the_arena(tmp_path):
    """The name of an agent may be the path of a run in any alphabet."""
    run = tmp_path / "日本"
    run.mkdir()
    PPOAgent(random_network()).save(run / "policy.npz")
    arguments = [f"ppo:{run}", "random", "--games", "20", "--csv", run / "pairs.csv"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LC_ALL", "C")
        patch.setenv("PYTHONUTF8", "0")
        patch.setenv("PYTHONCOERCECLOCALE", "0")
        code, _, errors = run_python("-m", "agents.arena", *arguments)
    assert (code, errors) == (0, "")
    assert "日本" in (run / "pairs.csv").read_text(encoding="utf-8")


def test_what_an_agent_draws_from_does_not_lead_to_the_deal():
    seen = []

    class Reader:
        def act(self, observations, masks, rng):
            seen.append(rng)
            return masks.argmax(axis=1)

    win_share(Reader(), Reader(), games=4, seed=123456)
    for rng in seen:
        assert rng.bit_generator.seed_seq.entropy != 123456
        assert rng.bit_generator.state != np.random.default_rng(123456).bit_generator.state
    again = {str(rng.bit_generator.state) for rng in seen}
    seen.clear()
    win_share(Reader(), Reader(), games=4, seed=123456)
    assert {str(rng.bit_generator.state) for rng in seen} == again


# --- Names -------------------------------------------------------------------------------------


def test_every_name_makes_an_agent(tmp_path):
    PPOAgent(random_network(), metadata={"steps": 7}).save(tmp_path / "policy.npz")
    for name in ("random", "reference", f"ppo:{tmp_path}", f"ppo:{tmp_path / 'policy.npz'}"):
        assert isinstance(agents.make(name), agents.Agent)
    assert json.loads((tmp_path / "policy.json").read_text())["steps"] == 7


@pytest.mark.parametrize("name", ["", "nonsense", "Reference", "random:1", ":"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="agent is"):
        agents.make(name)

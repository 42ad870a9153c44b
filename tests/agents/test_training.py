"""Training from the command line to the report, with tiny budgets."""

from __future__ import annotations

import ast
import csv
import json
import math
import shlex
import shutil
import signal
import sys
import time
from dataclasses import asdict
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
import torch
from agent_tools import (
    ROOT,
    SOURCES,
    assert_one_line_of_error,
    imports_of,
    random_network,
    run_python,
    start_python,
)
from threadpoolctl import threadpool_info, threadpool_limits

import agents
from agents.arena.matches import win_share
from agents.ppo.agent import PPOAgent
from agents.solve import exploitability
from agents.training import command, evaluation, run_directory, sb3, self_play, training
from agents.training.options import Config
from agents.training.run_directory import RunDirectory
from alles_kaese_env import (
    OBSERVATION,
    OBSERVATION_VERSION,
    RULES_VERSION,
    GameBatch,
    Variant,
    command_line,
)
from alles_kaese_env.command_line import provenance

N_STEPS = Config().n_steps
ENVS = 16
ROLLOUT = N_STEPS * ENVS  # decisions of the learner between two updates
EVALUATION_GAMES, REPORT_GAMES = 20, 40
GAMES = ["--eval-games", str(EVALUATION_GAMES), "--report-games", str(REPORT_GAMES)]
SMALL = ["--num-envs", str(ENVS), *GAMES]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """One thread, and logs that are closed."""
    threads, loggers = torch.get_num_threads(), []

    def make_logger(run):
        loggers.append(training_logger(run))
        return loggers[-1]

    training_logger = sb3.make_logger
    monkeypatch.setattr(sb3, "make_logger", make_logger)
    yield
    torch.set_num_threads(threads)
    for logger in loggers:
        logger.close()


def train(out, *arguments, steps=ROLLOUT):
    """A new run of so many steps; its directory."""
    code = command.main(["--out", str(out), "--total-steps", str(steps), *SMALL, *arguments])
    assert code == 0
    return out


def resume(run, *arguments):
    """Go on with a run; the exit code."""
    return command.main(["--resume", str(run), *map(str, arguments)])


def rows_of(file):
    with open(file, newline="") as stream:
        return list(csv.DictReader(stream))


def steps_of(run):
    """Where the last checkpoint stands."""
    return json.loads((run / "policy.json").read_text())["steps"]


def weights_of(run):
    return PPOAgent.load(run).network.weights


def fingerprint(agent):
    """All weights of an agent as bytes."""
    return b"".join(array.tobytes() for _, array in sorted(agent.network.weights.items()))


def same_weights(left, right):
    return left.keys() == right.keys() and all((left[name] == right[name]).all() for name in left)


def test_torch_gets_the_threads_and_the_libraries_under_numpy_get_one():
    with threadpool_limits():  # leaves everything as it was
        sb3.use_threads(2)
        assert torch.get_num_threads() == 2
        pools = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        assert pools <= {1}  # Apple's BLAS is not listed


class Spy(self_play.SelfPlay):
    """The callback of self-play, which also notes what happens."""

    def __init__(self, *args):
        super().__init__(*args)
        self.tables, self.buffers, self.presents, self.log_probs, self.illegal = [], [], [], [], 0
        games = self._venv
        set_opponents = games.set_opponents

        def noting(opponents, weights=None):
            self.tables.append((list(opponents), weights))
            set_opponents(opponents, weights)

        games.set_opponents = noting
        spies.append(self)

    def _on_training_start(self):
        super()._on_training_start()
        self.past_at_start = list(self._past.values())

    def _on_rollout_start(self):
        super()._on_rollout_start()
        self.presents.append(fingerprint(PPOAgent(self_play.network_of(self.model.policy))))

    def _on_step(self):
        assert len(self.locals["infos"]) == self._venv.num_envs
        self.illegal += sum(info["illegal_action"] for info in self.locals["infos"])
        return super()._on_step()

    def _on_rollout_end(self):
        buffer = self.model.rollout_buffer
        names = ("observations", "actions", "action_masks", "log_probs")
        self.buffers.append({name: getattr(buffer, name).copy() for name in names})
        self.buffers[-1]["full"] = buffer.full
        self.log_probs.append(log_probs_of(self.model, self.buffers[-1]))


spies = []


@pytest.fixture
def spy(monkeypatch):
    """The spies of the runs of this test, in their order."""
    spies.clear()
    monkeypatch.setattr(sb3, "SelfPlay", Spy)
    return spies


def log_probs_of(model, buffer):
    """What the policy says of the actions in a buffer, with the masks stored beside them."""
    flat = {
        name: array.reshape(-1, *array.shape[2:])
        for name, array in buffer.items()
        if name != "full"
    }
    with torch.no_grad():
        _, log_probs, _ = model.policy.evaluate_actions(
            torch.as_tensor(flat["observations"]),
            torch.as_tensor(flat["actions"]).flatten(),
            action_masks=flat["action_masks"],
        )
    return log_probs.numpy().reshape(buffer["log_probs"].shape)


# --- Other rules ---------------------------------------------------------------------------------


@pytest.mark.parametrize("opponents", ["pool", "heuristic"])
def test_a_run_learns_by_the_rules_that_it_is_given(tmp_path, capsys, opponents):
    rules = ["--variant", "98k", "--trap-limit", "1"]
    run = train(tmp_path / "run", *rules, "--opponents", opponents)
    assert "reference --variant 50k" in capsys.readouterr().out
    config = Config.from_json(json.loads((run / "config.json").read_text())["options"])
    assert config.variant == Variant.named("50k")
    assert json.loads((run / "policy.json").read_text())["variant"] == {
        "traps": [1, 1], "copies": [3, 3], "row_size": 2, "trap_limit": 1, "burn": "peek",
    }  # fmt: skip
    assert agents.make(f"ppo:{run}", config.variant)
    with pytest.raises(ValueError, match=r"was trained with .*allowed"):
        agents.make(f"ppo:{run}")
    pairs = json.loads((run / "report.json").read_text())["pairs"]
    assert all(score["turns"] <= 4 for score in pairs)
    assert resume(run, "--total-steps", 2 * ROLLOUT) == 0
    capsys.readouterr()
    assert_refused(capsys, ["--resume", run, "--row-size", "3"], "--variant cannot change")


def test_exploitability_is_measured_while_a_run_learns(tmp_path):
    every = ["--exploitability-every", str(2 * ROLLOUT), "--eval-every", str(3 * ROLLOUT)]
    run = train(tmp_path / "run", "--variant", "50k", *every, steps=5 * ROLLOUT)
    rows = [row for row in rows_of(run / "evaluations.csv") if row["exploitability"]]
    assert [int(row["step"]) // ROLLOUT for row in rows] == [0, 2, 4, 5]
    assert {row["against"] for row in rows} == {"best response"}
    last = rows[-1]
    variant = Variant.named("50k")
    greedy, measured = (
        exploitability(agents.make(f"ppo:{run}{mode}", variant), variant).value
        for mode in ("", ",sample")
    )
    assert float(last["exploitability"]) == pytest.approx(measured, abs=1e-5)
    assert float(last["share"]) == pytest.approx((1 - measured) / 2, abs=1e-5)
    assert json.loads((run / "report.json").read_text())["exploitability"] == {
        "greedy": pytest.approx(greedy, abs=1e-12),
        "sampled": pytest.approx(measured, abs=1e-12),
    }
    logged = [row["evaluation/exploitability"] for row in rows_of(run / "progress.csv")]
    assert float([figure for figure in logged if figure][-1]) == pytest.approx(measured, abs=1e-5)
    assert resume(run, "--total-steps", 7 * ROLLOUT) == 0
    steps = [row["step"] for row in rows_of(run / "evaluations.csv") if row["exploitability"]]
    assert [int(step) // ROLLOUT for step in steps] == [0, 2, 4, 5, 6, 7]


def test_exploitability_needs_a_game_that_can_be_solved(capsys):
    every = ["--exploitability-every", "1"]
    assert_refused(capsys, every, "12 cards", "36", "--variant 17m")
    rules = ["--variant", "17m", "--num-players", "3"]
    assert_refused(capsys, [*every, *rules], "--exploitability-every: num_players is 3")
    assert_refused(capsys, [*every, "--variant", "17m", "--burn", "never"], "burn is 'never'")


def test_rules_that_do_not_go_together_are_refused(capsys):
    assert_refused(capsys, ["--variant", "50k", "--row-size", "6"], "row_size is 6; allowed")
    assert_refused(capsys, ["--burn", "turn", "--num-players", "2", "3"], "one number")
    assert_refused(capsys, ["--burn", "turn", "--against", "ppo"], "was trained with burn peek")


# --- A whole run -------------------------------------------------------------------------------


PATCHED = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
sys.argv[0] = "train.py"
runpy.run_path("train.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def process_run(tmp_path_factory):
    """A run in a process of its own, but for the number of games in its evaluations."""
    out = tmp_path_factory.mktemp("process") / "run"
    options = [*SMALL, "--total-steps", "600", "--seed", "3", "--out", out]
    return out, run_python("-c", PATCHED, "--algo", "ppo", *options)


def test_a_run_leaves_all_its_files(process_run):
    run, (code, output, errors) = process_run
    assert code == 0, errors
    assert errors == ""
    assert f"Run directory: {run}" in in_one_line(output)
    names = {"config.json", "evaluations.csv", "progress.csv", "model.zip", "policy.npz"}
    names |= {"policy.json", "report.json", "curves.png", "tensorboard", "pool"}
    names |= {"best.npz", "best.json", "model-previous.zip", ".lock"}
    assert {file.name for file in run.iterdir()} == names
    (events,) = (run / "tensorboard").iterdir()
    assert events.name.startswith("events.out.tfevents")
    assert events.stat().st_size > 500
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (run / "curves.png").stat().st_size > 10_000


def test_the_best_policy_of_all_evaluations_is_kept(tmp_path):
    run = train(tmp_path / "run", steps=4 * ROLLOUT)
    rows = [row for row in rows_of(run / "evaluations.csv") if row["against"] == "reference"]
    best = max(float(row["share"]) for row in rows)
    metadata = PPOAgent.load(run / "best.npz").metadata
    assert metadata["steps"] in [int(row["step"]) for row in rows if float(row["share"]) == best]


def test_the_configuration_is_kept(process_run):
    run, _ = process_run
    data = json.loads((run / "config.json").read_text())
    expected = Config(
        num_envs=ENVS,
        total_steps=600,
        seed=3,
        eval_games=EVALUATION_GAMES,
        report_games=REPORT_GAMES,
    )
    assert data["options"] == json.loads(json.dumps(asdict(expected)))
    arguments = ["train.py", "--algo", "ppo", *SMALL, "--total-steps", "600"]
    assert data["command"][1:] == [*arguments, "--seed", "3", "--out", str(run)]
    assert data["command"][0].startswith("python")
    assert set(data["libraries"]) >= {"numpy", "torch", "stable-baselines3", "sb3-contrib"}
    assert all(version is None or version[0].isdigit() for version in data["libraries"].values())
    assert data["python"] == ".".join(map(str, sys.version_info[:3]))
    assert data["observation_version"] == OBSERVATION_VERSION
    assert data["rules_version"] == RULES_VERSION
    assert {name: data[name] for name in ("version", "commit")} == provenance()
    assert data["version"]


def test_the_report_is_of_the_trained_policy(process_run):
    """With other deals than the evaluations."""
    run, (_, output, _) = process_run
    scores = json.loads((run / "report.json").read_text())
    modes = [(f"ppo:{run}", True), (f"ppo:{run},sample", False)]
    expected = [(agent, name) for agent, _ in modes for name in ("random", "reference")]
    assert [(pair["agent"], pair["against"]) for pair in scores["pairs"]] == expected
    for score in scores["pairs"]:
        name = score["against"]
        assert score["num_players"] == 2
        assert score["games"] == REPORT_GAMES
        assert 0 <= score["low"] < score["share"] < score["high"] <= 1
        expected = win_share(
            PPOAgent.load(run, dict(modes)[score["agent"]]),
            agents.make(name),
            games=REPORT_GAMES,
            seed=2,
        )
        assert score["share"] == expected.share
        assert f"{score['share']:.3f}" in output
    assert steps_of(run) == 2 * ROLLOUT


def test_evaluations_are_logged(process_run):
    run, _ = process_run
    rows = rows_of(run / "evaluations.csv")
    assert [(int(row["step"]), row["against"]) for row in rows] == [
        (step, name) for step in (0, ROLLOUT, 2 * ROLLOUT) for name in ("random", "reference")
    ]
    for row in rows:
        assert int(row["games"]) == EVALUATION_GAMES
        assert 0 <= float(row["low"]) <= float(row["share"]) <= float(row["high"]) <= 1
        assert float(row["seconds"]) >= 0


LOSSES = ("loss", "policy_gradient_loss", "value_loss", "entropy_loss", "approx_kl")


@pytest.mark.parametrize("players", [2, 6])
def test_all_logged_numbers_are_finite(tmp_path, players):
    """With the validation of distributions that torch has by default."""
    assert torch.distributions.Distribution._validate_args
    run = train(tmp_path / "run", "--num-players", str(players), steps=4 * ROLLOUT)
    assert torch.distributions.Distribution._validate_args
    rows = rows_of(run / "progress.csv")
    evaluated = [row for row in rows if row[f"evaluation/{players}_players_random"]]
    steps = [int(row["step"]) for row in rows_of(run / "evaluations.csv")]
    assert [int(row["time/total_timesteps"]) for row in evaluated] == list(dict.fromkeys(steps))
    rows = [row for row in rows if row not in evaluated]
    assert [int(row["time/total_timesteps"]) for row in rows] == [
        number * ROLLOUT
        for number in (1, 2, 3, 4, 4)  # the last after the last update
    ]
    assert all(math.isfinite(float(value)) for row in rows for value in row.values() if value)
    for name in LOSSES:  # the first row is written before the first update
        assert all(row[f"train/{name}"] for row in rows[1:])


def test_a_run_closes_its_logs(tmp_path, monkeypatch):
    """Otherwise the end of a log may stay in memory."""
    kept = []
    monkeypatch.setattr(
        sb3, "make_output_format", lambda *args: kept.append(make(*args)) or kept[-1]
    )
    make = sys.modules["stable_baselines3.common.logger"].make_output_format
    train(tmp_path / "run")
    csv_log, tensorboard = kept
    assert csv_log.file.closed
    assert tensorboard.writer.all_writers is None


def test_checkpoints_are_as_frequent_as_evaluations(tmp_path, monkeypatch):
    """At the start, for every second of eight rollouts, and at the end."""
    saved = []

    def save(self):
        callback_save(self)
        saved.append(steps_of(tmp_path / "run"))

    callback_save = training.Training.save
    monkeypatch.setattr(training.Training, "save", save)
    every = ["--eval-every", str(2 * ROLLOUT)]
    run = train(tmp_path / "run", *every, steps=8 * ROLLOUT)
    every_second = [number * ROLLOUT for number in range(0, 9, 2)]
    evaluated = [int(row["step"]) for row in rows_of(run / "evaluations.csv")]
    assert evaluated[::2] == evaluated[1::2] == every_second
    assert saved == every_second


def test_without_out_a_run_is_named_by_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command.main(["--total-steps", "1", "--seed", "9", *SMALL]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("ppo-2p-seed9-")


def test_out_may_be_an_empty_directory(tmp_path):
    (tmp_path / "empty").mkdir()
    train(tmp_path / "empty")
    assert steps_of(tmp_path / "empty") == ROLLOUT


def test_one_network_for_several_numbers_of_players(tmp_path, spy):
    """The games are shared among them, and each is evaluated and reported."""
    run = train(tmp_path / "run", "--num-players", "2", "4", "6")
    options = json.loads((run / "config.json").read_text())["options"]
    assert options["num_players"] == [2, 4, 6]
    players = OBSERVATION["num_players"].where
    counts = spy[0].buffers[0]["observations"][0][:, players].sum(axis=0)
    two, four, six = map(len, np.array_split(range(ENVS), 3))
    assert counts.tolist() == [two, 0, four, 0, six]
    expected = [(count, name) for count in ("2", "4", "6") for name in ("random", "reference")]
    rows = rows_of(run / "evaluations.csv")
    assert [(row["num_players"], row["against"]) for row in rows[:6]] == expected
    pairs = json.loads((run / "report.json").read_text())["pairs"]
    assert [(str(pair["num_players"]), pair["against"]) for pair in pairs] == 2 * expected
    assert all(len(pair["per_seat"]) == pair["num_players"] for pair in pairs)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--num-players", "2", "2"], "--num-players is 2 2; allowed: different numbers"),
        (["--num-players", "7"], "--num-players is 7; allowed: different numbers from 2 to 6"),
        (["--num-players", "2", "3", "--num-envs", "1"], "--num-envs is 1; allowed: at least 2"),
        (["--hidden", "0"], "--hidden is 0; allowed: 1 to"),
        (["--learning-rate", "nan"], "--learning-rate is nan; allowed: 0 to 1"),
    ],
)
def test_options_out_of_bounds(options, line, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main([*options, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert line in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


# --- Going on ----------------------------------------------------------------------------------


@pytest.mark.parametrize("envs", [1, ENVS, 40])
def test_resume_goes_on_with_other_numbers_of_games(tmp_path, spy, envs):
    """The step counter and the weights go on, and the logs beside the earlier ones."""
    run = train(tmp_path / "run", steps=2 * ROLLOUT)
    before = weights_of(run)
    rollout = N_STEPS * envs
    more = -(-ROLLOUT // rollout) * rollout  # whole rollouts
    assert resume(run, "--total-steps", 2 * ROLLOUT + more, "--num-envs", envs) == 0
    assert steps_of(run) == 2 * ROLLOUT + more
    assert spy[1].buffers[0]["actions"].shape[:2] == (N_STEPS, envs)
    assert sum(buffer["actions"].size for buffer in spy[1].buffers) == more
    assert spy[1].presents[0] == b"".join(before[name].tobytes() for name in sorted(before))
    rows = rows_of(run / "progress-2.csv")
    first = next(row for row in rows if row["time/iterations"])
    assert int(first["time/total_timesteps"]) == 2 * ROLLOUT + rollout
    assert len(list((run / "tensorboard").iterdir())) == 2
    evaluated = [int(row["step"]) for row in rows_of(run / "evaluations.csv")]
    assert evaluated == sorted(evaluated)


def test_resume_deals_other_games(tmp_path, spy):
    run = train(tmp_path / "run")
    assert resume(run, "--total-steps", 2 * ROLLOUT) == 0
    first, second = (one.buffers[0]["observations"][0] for one in spy)
    assert (first != second).any(axis=1).all()


def test_resume_of_a_finished_run_reports_at_once(tmp_path, spy):
    run = train(tmp_path / "run")
    before = weights_of(run)
    for name in ("report.json", "curves.png"):
        (run / name).unlink()
    assert resume(run) == 0
    assert spy[1].buffers == []
    assert same_weights(weights_of(run), before)
    assert steps_of(run) == ROLLOUT
    assert json.loads((run / "report.json").read_text())["pairs"][0]["games"] == REPORT_GAMES
    assert (run / "curves.png").exists()


def test_a_resumed_run_remembers_its_new_total(tmp_path, monkeypatch):
    """A run that was resumed with a new total, stopped, and resumed as it says, goes on to it."""
    run = train(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(sb3, "SelfPlay", Interrupted)
        assert resume(run, "--total-steps", 3 * ROLLOUT) == 130
    assert resume(run) == 0
    assert 3 * ROLLOUT <= steps_of(run) < 4 * ROLLOUT


# --- Ctrl-C ------------------------------------------------------------------------------------


class Interrupted(self_play.SelfPlay):
    """Ctrl-C in the middle of the second rollout of a run."""

    def _on_step(self):
        if self.n_calls == N_STEPS + 5:
            raise KeyboardInterrupt
        return True


class Once:
    """A function that is stopped by Ctrl-C once, at its first call or a later one."""

    def __init__(self, function, number=1):
        self.function, self.left = function, number

    def __call__(self, *args, **options):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return self.function(*args, **options)


def interrupted(main, arguments):
    """The exit code; a Ctrl-C that nobody caught is a failure of the test, not its end."""
    try:
        return main(arguments)
    except KeyboardInterrupt:
        pytest.fail("Ctrl-C was not caught")


def in_one_line(output):
    """Without the line ends that the width of the terminal asks for."""
    return " ".join(line.rstrip() for line in output.splitlines())


INTERRUPTIONS = {
    "in a game": lambda patch: patch.setattr(sb3, "SelfPlay", Interrupted),
    "in an evaluation": lambda patch: patch.setattr(
        evaluation, "win_share", Once(evaluation.win_share)
    ),
    "in an update": lambda patch: patch.setattr(
        sb3.MaskablePPO, "train", Once(sb3.MaskablePPO.train)
    ),
    "in a checkpoint": lambda patch: patch.setattr(
        training.Training, "save", partialmethod(Once(training.Training.save, number=2))
    ),
    "in the report": lambda patch: patch.setattr(training, "report", Once(training.report)),
}


@pytest.mark.parametrize("interrupt", INTERRUPTIONS.values(), ids=INTERRUPTIONS)
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, monkeypatch, capsys, interrupt):
    run, total = tmp_path / "run", 3 * ROLLOUT
    with monkeypatch.context() as patch:
        interrupt(patch)
        arguments = ["--out", str(run), "--total-steps", str(total), *SMALL]
        assert interrupted(command.main, arguments) == 130
    assert f"python train.py --algo ppo --resume {run}" in in_one_line(capsys.readouterr().out)
    assert (run / "model.zip").exists()
    assert 0 <= steps_of(run) <= total
    assert not list(run.rglob("*.tmp*"))
    assert resume(run) == 0
    assert steps_of(run) >= total
    assert (run / "report.json").exists()


def test_ctrl_c_in_a_process(tmp_path):
    run = tmp_path / "run"
    steps = ["--total-steps", str(10**9)]
    process = start_python("-c", PATCHED, "--out", run, *steps, *SMALL)
    deadline = time.monotonic() + 120
    progress = run / "progress.csv"
    while process.poll() is None and not (progress.exists() and len(rows_of(progress)) > 2):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert errors == ""
    assert "Stopped and saved at step" in output
    assert "--resume" in output
    before = steps_of(run)
    assert before > 0
    assert resume(run, "--total-steps", before + 1) == 0
    assert steps_of(run) > before


def test_ctrl_c_before_the_first_step_leaves_a_directory_to_begin_again(
    tmp_path, monkeypatch, capsys
):
    run = tmp_path / "run"
    arguments = ["--out", str(run), "--total-steps", "1", *SMALL]
    with monkeypatch.context() as patch:
        patch.setattr(sb3, "new_model", Once(sb3.new_model))
        assert interrupted(command.main, arguments) == 130
    output, errors = capsys.readouterr()
    assert (output.count("\n"), errors) == (1, "")
    assert "begin again with the same command" in output
    assert_refused(capsys, ["--resume", run], "has no checkpoint yet", f"--out {run}")
    assert command.main(arguments) == 0
    assert steps_of(run) == ROLLOUT


def test_a_run_that_never_stepped_can_be_resumed(tmp_path, monkeypatch):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(sb3, "make_logger", Once(sb3.make_logger))
        assert interrupted(command.main, ["--out", str(run), "--total-steps", "1", *SMALL]) == 130
    assert steps_of(run) == 0
    assert resume(run) == 0
    assert steps_of(run) == ROLLOUT


# --- Where a run is watched --------------------------------------------------------------------


def test_without_a_terminal_a_line_says_now_and_then_how_far_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "SECONDS_BETWEEN_LINES", 0.0)
    train(tmp_path / "run", steps=3 * ROLLOUT)
    lines = [line for line in capsys.readouterr().out.splitlines() if " of 1,536 steps" in line]
    assert [line.split()[0] for line in lines] == ["512", "1,024", "1,536"]
    assert all("steps/s" in line and "v. reference" in line for line in lines)


def test_a_speed_that_falls_by_half_is_said_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(evaluation.time, "monotonic", lambda: now[0])
    speed, warnings = evaluation.Speed(0), []
    for steps in (0, 300, 600, 1200, 1500, 1740, 1800, 1860):  # ten a second, then four, then one
        now[0] += 30
        warnings.append(speed.warning(steps))
    assert [number for number, line in enumerate(warnings) if line] == [7]
    assert warnings[7].startswith("Slower: 2 steps/s in the last minute, 5 in the first; ")


IN_ENCODING = """
import os, sys
encoding = sys.argv.pop(1)
environment = {**os.environ, "PYTHONIOENCODING": encoding}
os.execve(sys.executable, [sys.executable, "train.py", *sys.argv[1:]], environment)
"""


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_directory_that_the_output_cannot_name(tmp_path, encoding):
    run = tmp_path / "日本" / "y"
    options = ["--out", run, "--total-steps", "1", *SMALL]
    code, output, errors = run_python("-c", IN_ENCODING, encoding, *options)
    assert (code, errors) == (0, "")
    assert "\\u65e5" in output
    assert resume(run) == 0


def test_runs_that_begin_at_once_without_out_get_names_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_directory.time, "strftime", lambda _: "now")
    runs = [RunDirectory.create(None, Config()) for _ in range(4)]
    names = ["", "-2", "-3", "-4"]
    assert [run.path.name for run in runs] == [f"ppo-2p-seed0-now{name}" for name in names]
    for run in runs:
        run.__exit__()


# --- Bad options -------------------------------------------------------------------------------


BAD_OPTIONS = {
    "players 7": (
        ["--num-players", "7"],
        "--num-players is 7; allowed: different numbers from 2 to 6",
    ),
    "players 1": (
        ["--num-players", "1"],
        "--num-players is 1; allowed: different numbers from 2 to 6",
    ),
    "players text": (["--num-players", "two"], "--num-players"),
    "steps 0": (["--total-steps", "0"], "--total-steps is 0; allowed: 1 to"),
    "steps -1": (["--total-steps", "-1"], "--total-steps is -1"),
    "envs 0": (["--num-envs", "0"], "--num-envs is 0"),
    "threads 0": (["--threads", "0"], "--threads is 0"),
    "seed -1": (["--seed", "-1"], "--seed is -1"),
    "seed 2**32": (["--seed", str(2**32)], f"--seed is {2**32}"),
    "opponents": (["--opponents", "nonsense"], "--opponents: 'self', 'pool' or an agent"),
    "opponents ppo": (["--opponents", "ppo:/nowhere"], "/nowhere"),
    "device": (["--device", "nonsense"], "--device is 'nonsense'; allowed: cpu, cuda"),
    "device meta": (["--device", "meta"], "--device is 'meta'"),
    "device hpu": (["--device", "hpu"], "--device is 'hpu'"),
    "algorithm": (["--algo", "sarsa"], "--algo"),
    "one decision": (["--n-steps", "1", "--num-envs", "1"], "one decision an update"),
    "a minibatch of one": (
        ["--n-steps", "13", "--num-envs", "5", "--batch-size", "64"],
        "--batch-size is 64; allowed: a number that leaves no minibatch of a single decision",
    ),
    "runners": (["--num-env-runners", "4"], "--num-env-runners goes with --engine rllib only"),
    "address": (["--address", "auto"], "--address goes with --engine rllib only"),
    "option": (["--nonsense"], "--nonsense"),
}


@pytest.mark.parametrize("name", ["run", "run [bold]"])
def test_paths_are_printed_as_they_are(tmp_path, capsys, name):
    """On one line, to be copied; also with what the console would take for a style."""
    run = train(tmp_path / name)
    lines = capsys.readouterr().out.splitlines()
    assert f"Run directory: {run}" in lines
    assert f"Curves: {run / 'curves.png'}" in lines
    agent = shlex.quote(f"ppo:{run}")
    assert f"Play it in the arena: python -m agents.arena {agent} reference" in lines


def test_commands_that_are_printed_work_where_they_are_printed(tmp_path, monkeypatch):
    """Outside the clone, too: what they start lies in the clone, and the run here."""
    monkeypatch.chdir(tmp_path)
    run = RunDirectory.create(Path("a run"), Config())
    where, agent = shlex.quote(str(ROOT)), shlex.quote(f"ppo:{tmp_path / 'a run'}")
    assert run.arena_command == f"cd {where} && python -m agents.arena {agent} reference"
    path = shlex.quote(str(tmp_path / "a run"))
    assert run.resume_command == f"cd {where} && python train.py --algo ppo --resume {path}"
    run.__exit__()
    monkeypatch.chdir(ROOT)
    assert (
        RunDirectory(tmp_path / "a run").arena_command
        == f"python -m agents.arena {agent} reference"
    )


def assert_refused(capsys, arguments, *words):
    with pytest.raises(SystemExit) as exit_:
        command.main(list(map(str, arguments)))
    assert exit_.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert_one_line_of_error(errors, "train.py", *words)


@pytest.mark.parametrize(("arguments", "words"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options_end_with_one_line(tmp_path, capsys, arguments, words):
    out = tmp_path / "run"
    assert_refused(capsys, ["--total-steps", "1", *SMALL, "--out", out, *arguments], words)
    assert not out.exists()


def test_out_must_be_new_or_empty(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path, tmp_path / "file", tmp_path / "file" / "below"):
        assert_refused(capsys, ["--total-steps", "1", "--out", out], f"--out is {out}")
    assert (tmp_path / "file").read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["missing", "empty", "file", "no checkpoint", "broken", "other"])
def test_resume_needs_a_run(tmp_path, capsys, kind):
    run = tmp_path / "run"
    if kind == "file":
        run.write_text("mine")
    elif kind != "missing":
        run.mkdir()
    text = {"no checkpoint": {"options": asdict(Config())}, "broken": 0, "other": {"a": 1}}
    if kind in text:
        (run / "config.json").write_text(json.dumps(text[kind]) if text[kind] else '{"options":')
    files = sorted(tmp_path.rglob("*"))
    word = "checkpoint" if kind == "no checkpoint" else "no run directory"
    assert_refused(capsys, ["--resume", run], f"--resume is {run}", word)
    assert sorted(tmp_path.rglob("*")) == files


@pytest.fixture
def finished(tmp_path):
    return train(tmp_path / "run")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seed", "1"],
        ["--num-players", "3"],
        ["--opponents", "self"],
        ["--out", "elsewhere"],
        ["--total-steps", "0"],
        ["--total-steps", "10"],
        ["--num-envs", "0"],
        ["--device", "nonsense"],
        ["--engine", "rllib"],
    ],
    ids=" ".join,
)
def test_what_cannot_change_with_resume(finished, capsys, arguments):
    capsys.readouterr()
    files = {file: file.read_bytes() for file in finished.rglob("*") if file.is_file()}
    assert_refused(capsys, ["--resume", finished, *arguments], arguments[0])
    assert files == {file: file.read_bytes() for file in finished.rglob("*") if file.is_file()}


def test_bad_option_in_a_process():
    code, output, errors = run_python("train.py", "--num-players", "7")
    assert (code, output) == (2, "")
    assert_one_line_of_error(
        errors, "train.py", "--num-players is 7; allowed: different numbers from 2 to 6"
    )


WITHOUT = """
import runpy, sys
sys.modules[sys.argv.pop(1)] = None
runpy.run_path("train.py", run_name="__main__")
"""


def test_a_script_that_does_not_find_the_project_says_what_is_missing():
    """Such as with python -I."""
    code, output, errors = run_python("-c", WITHOUT, "agents", "--total-steps", "1")
    assert (code, output) == (2, "")
    assert errors == (
        "train.py needs its own agents.training, which Python does not find; "
        'install it with: pip install -e ".[train]"\n'
    )


@pytest.mark.parametrize("library", ["sb3_contrib", "tensorboard"])
def test_a_missing_library_is_named(tmp_path, library):
    out = tmp_path / "run"
    code, output, errors = run_python(
        "-c", WITHOUT, library, "--total-steps", "1", "--num-envs", "1", "--out", out
    )
    assert (code, output) == (2, "")
    assert errors == f'train.py needs {library}; install it with: pip install -e ".[train]"\n'
    assert not out.exists()


# --- Self-play ---------------------------------------------------------------------------------


def kinds_of(table):
    return [type(agent) for agent in table[0]]


def test_opponents_self_are_the_present_policy(tmp_path, spy):
    train(tmp_path / "run", "--opponents", "self", steps=3 * ROLLOUT)
    assert len(spy[0].tables) == 3
    for ([opponent], weights), present in zip(spy[0].tables, spy[0].presents, strict=True):
        assert fingerprint(opponent) == present
        assert not opponent.is_greedy
        assert weights == [1.0]
    assert len(set(spy[0].presents)) == 3


@pytest.mark.parametrize("name", ["reference", "random"])
def test_opponents_may_be_an_agent(tmp_path, spy, name):
    train(tmp_path / "run", "--opponents", name, steps=2 * ROLLOUT)
    (table,) = spy[0].tables
    assert kinds_of(table) == [type(agents.make(name))]
    assert list((tmp_path / "run" / "pool").iterdir()) == []


def test_opponents_may_be_another_run(tmp_path, spy):
    """It stays as it is, on disk and in memory, while the learner learns."""
    PPOAgent(random_network()).save(tmp_path / "policy.npz")
    files = [(tmp_path / name).read_bytes() for name in ("policy.npz", "policy.json")]
    train(tmp_path / "run", "--opponents", f"ppo:{tmp_path}", steps=2 * ROLLOUT)
    pairs = json.loads((tmp_path / "run" / "report.json").read_text())["pairs"]
    assert [pair["against"] for pair in pairs[:3]] == ["random", "reference", f"ppo:{tmp_path}"]
    ((opponent,), _), *more = spy[0].tables
    assert not more
    assert fingerprint(opponent) == fingerprint(PPOAgent(random_network()))
    assert files == [(tmp_path / name).read_bytes() for name in ("policy.npz", "policy.json")]


@pytest.fixture
def small_pool(monkeypatch):
    """A pool of three, and a snapshot before each rollout but the first."""
    monkeypatch.setattr(self_play, "POOL_SIZE", 3)
    monkeypatch.setattr(self_play, "STEPS_BETWEEN_SNAPSHOTS", ROLLOUT)


@pytest.mark.usefixtures("small_pool")
def test_the_pool_is_bounded_and_random(tmp_path, spy):
    rollouts = 12
    run = train(tmp_path / "run", "--opponents", "pool", steps=rollouts * ROLLOUT)
    files = sorted(run.glob("pool/*.npz"))
    assert len(files) == 3
    assert [file.with_suffix(".json") for file in files] == sorted(run.glob("pool/*.json"))
    on_disk = [fingerprint(PPOAgent.load(file)) for file in files]
    assert on_disk == [fingerprint(agent) for agent in spy[0]._past.values()]
    number_of = {present: number for number, present in enumerate(spy[0].presents)}
    assert len(number_of) == rollouts
    pasts = []
    for number, (table, weights) in enumerate(spy[0].tables):
        present, reference, *past = table
        assert fingerprint(present) == spy[0].presents[number]
        assert type(reference) is agents.ReferenceAgent
        assert len(past) == min(number, 3)
        assert weights == pytest.approx(
            [0.4, 0.4, *[0.2 / len(past)] * len(past)] if past else [0.6, 0.4]
        )
        assert not any(agent.is_greedy for agent in (present, *past))
        pasts.append([number_of[fingerprint(agent)] for agent in past])
    newest = [list(range(max(1, number - 2), number + 1)) for number in range(rollouts)]
    assert pasts != newest  # not just the last ones are kept
    assert all(past[-1] == number for number, past in enumerate(pasts) if number)


@pytest.mark.usefixtures("small_pool")
def test_frozen_opponents_stay_as_they_are(tmp_path, monkeypatch, spy):
    """The weights of all opponents, from the moment that they are set to the end of the run."""
    noted = []

    def table_of(self, present):
        opponents, weights = table(self, present)
        policies = [agent for agent in opponents if isinstance(agent, PPOAgent)]
        noted.extend((agent, fingerprint(agent)) for agent in policies)
        return opponents, weights

    table = self_play.SelfPlay._table
    monkeypatch.setattr(self_play.SelfPlay, "_table", table_of)
    train(tmp_path / "run", "--opponents", "pool", steps=8 * ROLLOUT)
    assert len(noted) > 8
    assert len(set(spy[0].presents)) == 8  # while the learner changed
    assert all(fingerprint(agent) == print_ for agent, print_ in noted)
    assert not any(
        np.shares_memory(array, parameter.detach().numpy())
        for agent, _ in noted
        for array in agent.network.weights.values()
        for parameter in spy[0].model.policy.parameters()
        if array.shape == parameter.shape
    )


@pytest.mark.usefixtures("small_pool")
def test_resume_keeps_the_pool(tmp_path, spy):
    run = train(tmp_path / "run", "--opponents", "pool", steps=3 * ROLLOUT)
    kept = [fingerprint(PPOAgent.load(file)) for file in sorted(run.glob("pool/*.npz"))]
    assert len(kept) == 2
    assert resume(run, "--total-steps", 6 * ROLLOUT) == 0
    assert [fingerprint(agent) for agent in spy[1].past_at_start] == kept
    assert len(spy[1].tables[0][0]) == 4
    assert len(list(run.glob("pool/*.npz"))) == 3


def stray_temporary_file(pool):
    (pool / ".step-000000001024.npz.77.tmp.npz").write_bytes(b"half")


def weights_without_metadata(pool):
    sorted(pool.glob("*.json"))[0].unlink()


@pytest.mark.usefixtures("small_pool")
@pytest.mark.parametrize("leave", [stray_temporary_file, weights_without_metadata])
def test_resume_after_a_kill_while_the_pool_was_written(tmp_path, leave):
    """What a process leaves that ends between two of its writes is passed over."""
    run = train(tmp_path / "run", "--opponents", "pool", steps=3 * ROLLOUT)
    leave(run / "pool")
    assert resume(run, "--total-steps", 5 * ROLLOUT) == 0
    assert steps_of(run) == 5 * ROLLOUT


@pytest.mark.usefixtures("small_pool")
def test_resume_after_a_kill_between_two_checkpoints(tmp_path, monkeypatch, spy):
    """The pool is then ahead of the checkpoint, and the same snapshots come once more."""
    monkeypatch.setattr(self_play, "POOL_SIZE", 4)
    run = train(tmp_path / "run", "--opponents", "pool", steps=2 * ROLLOUT)
    shutil.copytree(run, tmp_path / "then")
    assert resume(run, "--total-steps", 6 * ROLLOUT) == 0
    for name in ("model.zip", "policy.npz", "policy.json"):
        shutil.copy(tmp_path / "then" / name, run / name)
    assert resume(run, "--total-steps", 12 * ROLLOUT) == 0
    on_disk = [fingerprint(PPOAgent.load(file)) for file in run.glob("pool/*.npz")]
    assert len(on_disk) == 4
    assert sorted(on_disk) == sorted(fingerprint(agent) for agent in spy[-1]._past.values())


@pytest.mark.parametrize("players", [2, 4])
def test_the_buffer_holds_the_decisions_of_the_learner_alone(tmp_path, monkeypatch, spy, players):
    """Each is of a seat whose turn it is, legal, and none is one that an opponent was asked for."""
    asked = []

    class Opponent:
        def act(self, observations, masks, rng):
            asked.extend(row.tobytes() for row in observations)
            return agents.make("reference").act(observations, masks, rng)

    monkeypatch.setitem(agents.AGENTS, "spied", lambda _, variant: Opponent())
    options = ["--opponents", "spied", "--num-players", str(players)]
    train(tmp_path / "run", *options, steps=3 * ROLLOUT)
    buffers = spy[0].buffers
    assert [buffer["actions"].size for buffer in buffers] == [ROLLOUT] * 3
    assert all(buffer["full"] for buffer in buffers)
    assert spy[0].illegal == 0
    turn = OBSERVATION["turn"].start
    learned = set()
    for buffer in buffers:
        observations = buffer["observations"].reshape(ROLLOUT, -1)
        assert (observations[:, turn] == 1).all()
        masks = buffer["action_masks"].reshape(ROLLOUT, 18)
        assert masks[np.arange(ROLLOUT), buffer["actions"].ravel().astype(int)].all()
        learned |= {row.tobytes() for row in observations}
    assert len(learned) > ROLLOUT
    assert len(asked) > (players - 1) * 2 * ROLLOUT
    assert not learned & set(asked)


def test_stored_probabilities_are_those_of_the_masked_policy(tmp_path, spy):
    """Right after each rollout, before the update."""
    train(tmp_path / "run", steps=3 * ROLLOUT)
    assert len(spy[0].log_probs) == 3
    for buffer, log_probs in zip(spy[0].buffers, spy[0].log_probs, strict=True):
        assert np.abs(buffer["log_probs"] - log_probs).max() < 1e-5
        choices = buffer["action_masks"].reshape(*log_probs.shape, 18).sum(axis=-1)
        assert (np.abs(log_probs + np.log(choices)) < 0.5).mean() > 0.5  # still about uniform


# --- Repetition --------------------------------------------------------------------------------


def traced(out, monkeypatch, seed):
    """The weights of each checkpoint, those of the end, and the table of evaluations."""
    kept = []

    def save(self):
        callback_save(self)
        kept.append(weights_of(out))

    callback_save = training.Training.save
    with monkeypatch.context() as patch:
        patch.setattr(training.Training, "save", save)
        run = train(out, "--seed", str(seed), steps=6 * ROLLOUT)
    rows = [{**row, "seconds": None} for row in rows_of(run / "evaluations.csv")]
    return [*kept, weights_of(run)], rows


@pytest.mark.usefixtures("small_pool")
def test_same_seed_same_weights_bit_by_bit(tmp_path, monkeypatch):
    first, again, other = (
        traced(tmp_path / str(number), monkeypatch, seed) for number, seed in enumerate((7, 7, 8))
    )
    assert len(first[0]) == len(again[0]) == 8
    assert all(map(same_weights, first[0], again[0]))
    assert first[1] == again[1]
    assert not any(map(same_weights, first[0], other[0]))


def test_the_learning_rate_falls_and_no_update_is_one_at_nothing(tmp_path):
    run = train(tmp_path / "run", steps=2 * ROLLOUT)
    rates = [float(row["train/learning_rate"] or "nan") for row in rows_of(run / "progress.csv")]
    rates = list(dict.fromkeys(rate for rate in rates if not math.isnan(rate)))
    assert rates == pytest.approx([0.75 * Config().learning_rate, 0.5 * Config().learning_rate])


@pytest.mark.long
def test_training_learns(tmp_path):
    """From worse than random play to better; small steps, for a small budget."""
    config = Config(
        total_steps=200_000,
        num_envs=64,
        opponents="random",
        threads=1,
        batch_size=256,
        n_epochs=4,
        hidden=64,
    )
    with RunDirectory.create(tmp_path / "run", config) as run:
        assert sb3.train(run, config) == 0
    agent, random = agents.make(f"ppo:{run.path}"), agents.make("random")
    assert win_share(agent, random, games=4_000).low > 0.55


# --- What is documented ------------------------------------------------------------------------


def test_the_numbers_of_the_page_are_those_of_the_code():
    text = " ".join((ROOT / "docs/training.md").read_text().split())
    config = Config()
    present, past, reference = (
        round(100 * self_play.SHARES[name]) for name in ("present", "past", "reference")
    )
    assert self_play.POOL_SIZE == 8
    for words in (
        f"the present policy ({present} %), a past one ({past} %) "
        f"or the reference heuristic ({reference} %)",
        f"Every {self_play.STEPS_BETWEEN_SNAPSHOTS:,} decisions",
        "the pool, which keeps eight",
        f"{config.total_steps // config.evaluation_interval} times in a run; one game for each "
        f"500 decisions of the run, 400 to {config.evaluation_games:,} against each baseline",
        f"2,000 to {config.games_of_report:,} for each line",
    ):
        assert words in text


def test_every_option_is_on_the_page():
    text = "".join(
        (ROOT / f"docs/{name}.md").read_text() for name in ("training", "training_options")
    )
    actions = command.build_parser()._actions
    flags = {flag for action in actions for flag in action.option_strings}
    assert len(flags) > 8
    assert not {flag for flag in flags - {"-h", "--help"} if flag not in text}


# --- What the sources say ----------------------------------------------------------------------

each_source = pytest.mark.parametrize(
    "file", SOURCES, ids=lambda file: file.relative_to(ROOT).as_posix()
)


def is_guard(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


@each_source
def test_nothing_runs_at_import(file):
    """A process that spawns others imports the script anew; all that acts is behind the guard."""
    body = ast.parse(file.read_text()).body
    calls = [node for node in body if isinstance(node, ast.Expr) and not is_text(node.value)]
    loops = [node for node in body if isinstance(node, (ast.For, ast.While, ast.With, ast.Try))]
    assert not calls + loops
    has_main = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in body)
    assert sum(map(is_guard, body)) == has_main


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@each_source
def test_only_callbacks_that_know_masks(file):
    """The plain ones of stable-baselines3 evaluate without masks."""
    plain = [
        (module, name)
        for module, name in imports_of(file)
        if module.startswith("stable_baselines3")
        and name in ("EvalCallback", "evaluate_policy", "PPO", "evaluation", None)
    ]
    assert not plain


@each_source
def test_validation_of_distributions_stays_on(file):
    assert "validate_args" not in file.read_text()


def test_the_training_script_is_found_by_the_scans():
    names = {file.relative_to(ROOT).as_posix() for file in SOURCES}
    assert {"train.py", "agents/arena/matches.py", "agents/training/command.py"} <= names


def test_a_batch_of_games_checks_every_move_of_an_evaluation():
    """The arena counts on it: an illegal move raises, so a score has none."""
    batch = GameBatch(1, seed=0)
    with pytest.raises(ValueError, match="action"):
        batch.step([int(batch.masks[0].argmin())])

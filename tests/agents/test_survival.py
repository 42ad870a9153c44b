"""What a training run leaves when it is killed, when the disk is full, when files are broken."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest
from agent_tools import ROOT, assert_one_line_of_error

from agents.arena.plots import evaluations_of
from agents.ppo.agent import PPOAgent
from agents.ppo.network import network_of
from agents.training import command, evaluation, sb3
from agents.training.run_directory import RunDirectory
from agents.training.self_play import games_of

MODEL, PREVIOUS = "model.zip", "model-previous.zip"
HERE = Path(command.__file__).parents[2]
STEPS = 8 * 32  # between two updates
SMALL = ["--num-envs", "8", "--eval-games", "4", "--report-games", "8"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of three updates, with a checkpoint after each of them."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    arguments = ["--out", str(directory), "--total-steps", str(3 * STEPS), *SMALL]
    assert command.main([*arguments, "--eval-every", str(STEPS)]) == 0
    return directory


@pytest.fixture
def run(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def new_model(directory):
    _, config = RunDirectory.open(directory)
    return sb3.new_model(config, games_of(config))


def restored(directory):
    """The model of the last good checkpoint, and the file that it is of."""
    model = new_model(directory)
    file = RunDirectory(directory).restore(partial(sb3.load, model, seed=0))
    return model, file.name


def cut(file, part):
    os.truncate(file, int(file.stat().st_size * part))


def refused(capsys, *arguments):
    """The line of a command that is refused."""
    with pytest.raises(SystemExit) as exit_:
        command.main(list(map(str, arguments)))
    assert exit_.value.code == 2
    errors = capsys.readouterr().err
    assert_one_line_of_error(errors, "train.py")
    return errors


# --- Checkpoints -------------------------------------------------------------------------------


def test_there_are_the_last_checkpoint_and_the_one_before(run):
    model, file = restored(run)
    assert (model.num_timesteps, file) == (3 * STEPS, MODEL)
    (run / MODEL).unlink()
    model, file = restored(run)
    assert (model.num_timesteps, file) == (2 * STEPS, PREVIOUS)


def test_weights_optimizer_and_counters_are_restored(run):
    model, _ = restored(run)
    policy = PPOAgent.load(run).network.weights
    ours = network_of(model.policy).weights
    assert policy.keys() == ours.keys()
    assert all((policy[name] == ours[name]).all() for name in policy)
    assert model.policy.optimizer.state_dict()["state"]
    assert model._n_updates == 3 * model.n_epochs


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_checkpoint_that_was_cut_off_costs_one_step_back(run, part):
    cut(run / MODEL, part)
    model, file = restored(run)
    assert (model.num_timesteps, file) == (2 * STEPS, PREVIOUS)
    arguments = ["--resume", str(run), "--total-steps", str(4 * STEPS)]
    assert command.main(arguments) == 0
    assert restored(run)[0].num_timesteps == 4 * STEPS


def test_flipped_bytes_are_found(run):
    data = bytearray((run / MODEL).read_bytes())
    data[len(data) // 2] ^= 0xFF
    (run / MODEL).write_bytes(data)
    assert restored(run)[1] == PREVIOUS


def test_without_a_good_checkpoint_a_run_says_so_in_one_line(run, capsys):
    for name in (MODEL, PREVIOUS):
        cut(run / name, 0.5)
    assert "has no good checkpoint" in refused(capsys, "--resume", run)


def test_two_resumed_runs_of_one_checkpoint_agree(run, tmp_path):
    """All random streams follow from the seed and the step."""
    twin = Path(shutil.copytree(run, tmp_path / "twin"))
    for directory in (run, twin):
        arguments = ["--resume", str(directory), "--total-steps", str(5 * STEPS)]
        assert command.main(arguments) == 0
    one, other = (PPOAgent.load(directory).network.weights for directory in (run, twin))
    assert all((one[name] == other[name]).all() for name in one)


class Bomb:
    """Leaves a trace if somebody unpickles it."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return open, (self.trace, "w")


@pytest.mark.parametrize("entry", ["data", "policy.pth"])
def test_a_hostile_checkpoint_executes_nothing(run, tmp_path, entry):
    trace = tmp_path / "trace"
    bomb = pickle.dumps(Bomb(trace))
    with zipfile.ZipFile(run / MODEL) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    if entry == "data":
        data = json.loads(parts["data"])
        serialized = {":type:": "x", ":serialized:": base64.b64encode(bomb).decode()}
        parts["data"] = json.dumps({**data, "lr_schedule": serialized}).encode()
    else:
        parts[entry] = bomb
    with zipfile.ZipFile(run / MODEL, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    _, file = restored(run)
    assert file == (MODEL if entry == "data" else PREVIOUS)
    assert not trace.exists()


# --- Two runs, full disks ----------------------------------------------------------------------


def test_a_second_run_keeps_out(run, capsys):
    with RunDirectory(run):
        assert "is in use by another run" in refused(capsys, "--resume", run)
        child = "from agents.training.run_directory import *; RunDirectory(Path({!r})).__enter__()"
        done = subprocess.run(
            [sys.executable, "-c", child.format(str(run))],
            cwd=HERE,
            env={**os.environ, "PYTHONPATH": str(HERE)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "RunError" in done.stderr
    with RunDirectory(run):
        pass


def test_of_two_runs_that_begin_at_once_one_is_refused(tmp_path, capsys, monkeypatch):
    """Both have seen an empty directory; the lock decides, and what is there when it is got."""
    (tmp_path / "run").mkdir()
    with RunDirectory(tmp_path / "run"):
        refused(capsys, "--out", tmp_path / "run", "--total-steps", "1")
        assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.posix
def test_the_lock_of_a_killed_run_is_no_lock(run):
    process = os.fork()
    if not process:
        RunDirectory(run).__enter__()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)
    with RunDirectory(run):
        pass


def test_leftovers_of_a_kill_are_removed(run):
    for name in (".model.zip.123.tmp.zip", "pool/.step-1.npz.123.tmp.npz"):
        (run / name).write_bytes(b"half")
    with RunDirectory(run):
        assert not list(run.rglob(".*.tmp*"))


FULL = """
import resource, signal, sys
from agents.training import command
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
sys.exit(command.main(sys.argv[1:]))
"""


@pytest.mark.posix
def test_a_full_disk_ends_a_run_in_one_line_and_breaks_no_file(run):
    before = (run / MODEL).read_bytes()
    arguments = ["--resume", str(run), "--total-steps", str(6 * STEPS)]
    done = subprocess.run(
        [sys.executable, "-c", FULL, *arguments],
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert_one_line_of_error(done.stderr, "train.py")
    assert (run / MODEL).read_bytes() == before
    assert not list(run.rglob(".*.tmp*"))
    assert command.main(arguments) == 0  # there is room again
    assert restored(run)[0].num_timesteps == 6 * STEPS


# --- Evaluations -------------------------------------------------------------------------------


def evaluated_steps(run):
    """The step of each row; every evaluation has its rows, one for each baseline."""
    rows = evaluations_of(run / "evaluations.csv")
    names = [row["against"] for row in rows]
    assert names == list(evaluation.BASELINES) * (len(rows) // len(evaluation.BASELINES))
    return [int(row["step"]) for row in rows]


@pytest.mark.parametrize("kept", [-2, -20, -70, 1], ids=lambda kept: f"{kept} bytes")
def test_a_row_that_was_cut_off_does_not_stop_a_run(run, kept):
    file = run / "evaluations.csv"
    whole = file.read_bytes()
    file.write_bytes(whole[:kept])
    before = evaluations_of(file)
    assert len(before) < whole.count(b"\n") - 1
    assert command.main(["--resume", str(run), "--total-steps", str(5 * STEPS)]) == 0
    after = evaluations_of(file)
    assert after[: len(before)] == before
    assert [int(row["step"]) for row in after[-2:]] == [5 * STEPS] * 2
    assert all(None not in row.values() for row in after)


class Ended(BaseException):
    """What ends a process in the middle of its work."""


def test_an_evaluation_is_written_atomically(run, monkeypatch):
    """Whatever ends the run between two baselines, and the same evaluation comes again."""
    before = evaluated_steps(run)
    measure = evaluation.win_share

    def end_at_the_second(agent, baseline, **options):
        if baseline is not first_met.setdefault("baseline", baseline):
            raise Ended
        return measure(agent, baseline, **options)

    first_met = {}
    arguments = ["--resume", str(run), "--total-steps", str(5 * STEPS)]
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "win_share", end_at_the_second)
        with pytest.raises(Ended):
            command.main(arguments)
    assert first_met
    assert evaluated_steps(run) == before
    assert command.main(arguments) == 0
    assert evaluated_steps(run)[: len(before)] == before
    assert evaluated_steps(run)[-1] == 5 * STEPS


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "step\n1\n", "\0\n\0\n"])
def test_what_is_no_file_of_evaluations_ends_a_run_in_one_line(run, capsys, text):
    (run / "evaluations.csv").write_text(text)
    before = (run / MODEL).read_bytes()
    arguments = ("--resume", run, "--total-steps", 5 * STEPS)
    assert "evaluations.csv is no file of evaluations" in refused(capsys, *arguments)
    assert (run / "evaluations.csv").read_text() == text
    assert (run / MODEL).read_bytes() == before


# --- kill -9 -----------------------------------------------------------------------------------


def killed(directory, kills):
    """What was left after each kill."""
    process = subprocess.run(
        [sys.executable, str(ROOT / "tests/agents/killed_training.py"), directory, str(kills)],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.mark.posix
@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.long)])
def test_kill_9_at_any_moment_leaves_a_good_checkpoint(tmp_path, kills):
    """Checked after each kill; no kill throws a run back behind what it had saved."""
    left = killed(tmp_path / "run", kills)
    assert len(left) == kills
    assert all(one["was_killed"] for one in left)
    steps = [one["steps"] for one in left]
    assert steps == sorted(steps)
    assert not any(one.get("leftovers") for one in left)
    assert len(set(steps)) > kills // 2

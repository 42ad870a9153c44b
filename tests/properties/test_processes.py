"""Compiled code on disk, whatever happens to it: the same games, or none the slower."""

from __future__ import annotations

import ctypes
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import alles_kaese_env
from agents.heuristics import heuristic, reference
from agents.search import playouts
from alles_kaese_env.core import jit, loops, rules

PACKAGE = Path(alles_kaese_env.__file__).parent
TESTS = Path(__file__).parents[1]
PROBE = """
from alles_kaese_env import GameBatch
batch = GameBatch(3, seed=0, autoreset=True)
for _ in range(60):
    batch.step(batch.random_actions())
print(batch.games["turns"].tolist(), batch.payoffs.sum(), batch.observe(1).sum())
"""


def start(code, cache, package=PACKAGE, **more):
    """An interpreter of its own that runs code with the package and a directory for the cache."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(package.parent), str(TESTS)]),
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more.pop("environment", {}),
    }
    more.setdefault("cwd", package.parent)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        env={name: value for name, value in environment.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def output_of(process):
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return output.strip()


def run(code, cache, **more):
    return output_of(start(code, cache, **more))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the probe prints, in plain Python."""
    cache = tmp_path_factory.mktemp("plain")
    return run(PROBE, cache, environment={"NUMBA_DISABLE_JIT": "1"})


@pytest.fixture(scope="module")
def whole_cache(tmp_path_factory, expected):
    """A directory with all that the probe compiles."""
    cache = tmp_path_factory.mktemp("whole")
    assert run(PROBE, cache) == expected
    assert files_of(cache)
    return cache


@pytest.fixture
def cache(whole_cache, tmp_path):
    return Path(shutil.copytree(whole_cache, tmp_path / "cache"))


def files_of(cache):
    return sorted(file for file in cache.rglob("*.nb*") if file.is_file())


@pytest.mark.long
@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc", "*.nb?"])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.9])
def test_files_that_were_cut_off_are_compiled_anew(cache, expected, pattern, part):
    files = list(cache.rglob(pattern))
    assert files
    for file in files:
        os.truncate(file, int(file.stat().st_size * part))
    assert run(PROBE, cache) == expected
    before = {file: file.stat().st_mtime_ns for file in files_of(cache)}
    assert run(PROBE, cache) == expected
    assert {file: file.stat().st_mtime_ns for file in files_of(cache)} == before  # whole again


@pytest.mark.long
def test_eight_cold_starts_at_once(tmp_path, expected):
    processes = [start(PROBE, tmp_path) for _ in range(8)]
    assert [output_of(process) for process in processes] == [expected] * 8
    assert run(PROBE, tmp_path) == expected


@pytest.mark.long
def test_a_first_run_may_be_killed(tmp_path, expected):
    """kill -9 in ten moments of compiling; then it runs."""
    moments = random.Random(0)
    for _ in range(10):
        process = start(PROBE, tmp_path)
        try:
            process.communicate(timeout=moments.uniform(1, 15))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    assert run(PROBE, tmp_path) == expected


@pytest.mark.long
def test_a_full_disk_costs_only_the_time_to_compile(tmp_path, expected):
    full = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    )
    assert run(full + PROBE, tmp_path) == expected
    assert not files_of(tmp_path)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="root has to be kept from writing everywhere")
def test_an_installation_and_a_home_that_nobody_may_write(tmp_path, expected):
    """Nothing can be kept on disk, and all works."""
    site = tmp_path / "site"
    copy = Path(shutil.copytree(PACKAGE, site / PACKAGE.name, ignore=ignore_compiled))
    directories = [site, copy, *(one for one in copy.rglob("*") if one.is_dir())]
    for directory in directories:
        directory.chmod(0o555)
    nowhere = dict.fromkeys(("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")) | {"HOME": str(site)}
    try:
        probe = PROBE + "from alles_kaese_env.core.observe import observe\nprint(observe._cache)\n"
        found = run(probe, "", package=copy, environment=nowhere, preexec_fn=like_other_users)
        assert found.splitlines()[0] == expected
        assert "NullCache" in found.splitlines()[1]
    finally:
        for directory in directories:
            directory.chmod(0o755)


def like_other_users():
    """Let the permissions of files hold for root, too (capabilities(7), prctl(2))."""
    drop, dac_override = 24, 1
    ctypes.CDLL(None).prctl(drop, dac_override, 0, 0, 0)


def ignore_compiled(folder, names):
    return [name for name in names if name == "__pycache__" or ".nb" in name]


@pytest.mark.long
def test_an_edited_file_leaves_no_stale_code(tmp_path, whole_cache):
    """G6: an edit of the rules counts in the next process, with the cache of the old ones."""
    copy = Path(shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=ignore_compiled))
    code = (
        "from alles_kaese_env import GameBatch\n"
        "batch = GameBatch(40, seed=0)\n"
        "while not batch.over.all():\n"
        "    rows = (~batch.over).nonzero()[0]\n"
        "    batch.step(batch.random_actions(rows), rows)\n"
        "print(batch.payoffs.min())\n"
    )
    cache = tmp_path / "cache"
    assert run(code, cache, package=copy) == "-1.0"
    rules = copy / "core" / "rules.py"  # what is run stands in loops.py
    text = rules.read_text()
    assert text.count("return -1 / (rules.num_players - 1)") == 1
    rules.write_text(
        text.replace("return -1 / (rules.num_players - 1)", "return -7 / (rules.num_players - 1)")
    )
    assert run(code, cache, package=copy) == "-7.0"
    rules.write_text(text)
    assert run(code, cache, package=copy) == "-1.0"
    compiled = {file: file.stat().st_mtime_ns for file in files_of(cache)}
    for file in copy.rglob("*.py"):
        os.utime(file, (0, 0))
    with open(copy / "viewer" / "view.py", "a") as viewer:
        viewer.write("# nothing compiled depends on this\n")
    assert run(code, cache, package=copy) == "-1.0"
    assert {file: file.stat().st_mtime_ns for file in files_of(cache)} == compiled


def test_compiled_code_depends_on_all_that_it_calls():
    files = {path.name for path in jit.dependencies(Path(loops.__file__))}
    assert files >= {"loops.py", "rules.py", "records.py", "observe.py", "streams.py", "vector.py"}
    assert not files & {"view.py", "game_batch.py"}
    assert jit.dependencies(Path(playouts.__file__)) >= {
        Path(module.__file__) for module in (playouts, rules, reference, heuristic)
    }


class Terminal(io.StringIO):
    """A stream that a person reads."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "lines"), [(Terminal, 1), (io.StringIO, 0)])
def test_a_person_at_a_terminal_is_told_once_that_it_compiles(stream, lines, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(jit, "PATIENCE", 0)
    before, compiler = set(threading.enumerate()), jit.Compiler()
    for _ in range(2):
        compiler.begin()
        for timer in set(threading.enumerate()) - before:
            timer.join()
        compiler.end()
    assert sys.stderr.getvalue().count("this happens once\n") == lines


@pytest.mark.long
def test_with_bounds_checked_no_index_is_out_of_them(tmp_path):
    """NUMBA_BOUNDSCHECK=1: the same digest of many plies of all variants and APIs."""
    code = "from properties.trace import trace_digest; print(trace_digest())"
    checked = run(code, tmp_path, environment={"NUMBA_BOUNDSCHECK": "1"})
    assert checked == run(code, tmp_path / "plain", environment={"NUMBA_DISABLE_JIT": "1"})


FORK = """
import multiprocessing, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads; it is the subject
from alles_kaese_env import GameBatch

def play(_):
    batch = GameBatch(64, seed=1, threads=2, autoreset=True)
    for _ in range(20):
        batch.step(batch.random_actions())
    return batch.games.tobytes()

here = play(0)
used = GameBatch(64, seed=1, threads=2, autoreset=True)  # its threads stay behind in the parent
used.step(used.random_actions())

def go_on(_):
    for _ in range(19):
        used.step(used.random_actions())
    return used.games.tobytes()

with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(play, range(3)) == [here] * 3
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(go_on, range(3), chunksize=1)[0] == here
print("done")
"""


@pytest.mark.posix
def test_a_process_that_used_threads_can_fork():
    """G5: children play on, with threads of their own."""
    found = start(FORK, os.environ.get("NUMBA_CACHE_DIR"))
    assert output_of(found) == "done"

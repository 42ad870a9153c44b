"""No encoding of output or paths stops a command, with and without a terminal."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from agent_tools import ROOT

SEVERAL = """
import runpy, sys

# Each command ends with an empty word.
words, commands = sys.argv[1:], [[]]
for word in words:
    commands[-1].append(word) if word else commands.append([])
for command in filter(None, commands):
    sys.argv = command
    run = runpy.run_path if command[0].endswith(".py") else runpy.run_module
    print("#", ascii(command), flush=True)
    try:
        run(command[0], run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    if code:
        sys.exit(f"{command} ended with {code}")
"""
ENCODINGS = [  # of the output, and the locale, which is that of paths
    ("ascii", "C"),
    ("cp932", "C.UTF-8"),
    pytest.param("cp1252", "C.UTF-8", marks=pytest.mark.long),
    pytest.param("utf-8", "C", marks=pytest.mark.long),
]
SMALL = ["--total-steps", "64", "--num-envs", "4", "--n-steps", "8", "--batch-size", "16"]
SMALL += ["--hidden", "8", "--eval-games", "2", "--report-games", "2"]


def folders(tmp_path, locale):
    """Where outputs go, and a run: TensorBoard has no path that the locale cannot decode."""
    folder = tmp_path / "日本 é"
    folder.mkdir()
    return folder, (tmp_path if locale == "C" else folder) / "run"


def commands_in(folder, run, is_terminal):
    """Every command: its help, or work that writes into a folder whose name is not ASCII.

    The full screens of play, watch and viewer have tests of their own, see `test_play`.
    """
    game, agent, run = f"{folder}/game.json", f"ppo:{run}", str(run)
    yield from (["agents.play", "--help"], ["agents.watch", "--help"], ["train.py", "--help"])
    yield ["train.py", "--out", run, *SMALL]
    yield ["train.py", "--resume", run]
    yield ["agents.arena", "--help"]
    yield ["agents.arena", agent, "random", "--games", "2", "--csv", f"{folder}/pairs.csv",
           "--json", f"{folder}/pairs.json", "--plot", f"{folder}/pairs.png"]  # fmt: skip
    yield ["agents.arena.plots", "--help"]
    yield ["agents.arena.plots", "curves", run, "--out", f"{folder}/curves.png"]
    yield ["alles_kaese_env.viewer", "--help"]
    if not is_terminal:
        yield ["agents.watch", agent, "random", "--seed", "1", "--save", game]
        yield ["alles_kaese_env.viewer", game, "--html", f"{folder}/game.html"]
    yield ["agents.solve", "--help"]
    yield ["agents.solve", "random", "--traps", "1,1", "--copies", "2,2", "--gap", "0.01",
           "--save", f"{folder}/solved.npz"]  # fmt: skip
    yield ["agents.heuristics.tune", "--help"]
    yield ["agents.search.train_values", "--help"]
    yield ["docs/generate.py", "--help"]
    yield ["benchmarks/throughput.py", "--apis", "GameBatch", "--games", "1", "--players", "2",
           "--repeats", "1", "--seconds", "0.01", "--json", f"{folder}/speed.json"]  # fmt: skip
    for name in ("good_play", "search_gain", "steps", "strength", "throughput", "training"):
        yield [f"benchmarks/{name}.py", "--help"]
    if find_spec("ray"):
        yield ["benchmarks/cluster.py", "--help"]
    if find_spec("minari"):
        yield ["examples/minari_dataset.py", "--help"]


def process_of(commands, encoding, locale, **pipes):
    """Several commands in one process, whose output has an encoding."""
    words = [word for command in commands for word in (*command, "")]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "benchmarks")))
    settings = {"PYTHONPATH": paths, "PYTHONIOENCODING": encoding, "LC_ALL": locale}
    settings |= {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "xterm"}
    return subprocess.Popen(
        [sys.executable, "-c", SEVERAL, *words], cwd=ROOT, env={**os.environ, **settings}, **pipes
    )


@pytest.mark.parametrize(("encoding", "locale"), ENCODINGS)
def test_into_a_pipe(encoding, locale, tmp_path):
    folder, run = folders(tmp_path, locale)
    process = process_of(
        commands_in(folder, run, is_terminal=False),
        encoding,
        locale,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output[-2000:].decode(errors="replace")
    for name in ("pairs.csv", "game.html", "solved.npz", "speed.json"):
        assert (folder / name).stat().st_size > 0


@pytest.mark.posix
@pytest.mark.parametrize(("encoding", "locale"), ENCODINGS)
def test_on_a_terminal(encoding, locale, tmp_path):
    import pty

    folder, run = folders(tmp_path, locale)
    master, slave = pty.openpty()
    process = process_of(
        commands_in(folder, run, is_terminal=True), encoding, locale, stdout=slave, stderr=slave
    )
    os.close(slave)
    output, deadline = b"", time.monotonic() + 300
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                output += os.read(master, 65536)
            except OSError:  # the other end is closed
                break
    os.close(master)
    assert process.wait(timeout=60) == 0, output[-2000:].decode(errors="replace")
    for name in ("pairs.csv", "solved.npz", "speed.json"):
        assert (folder / name).stat().st_size > 0


@pytest.mark.posix
def test_a_run_whose_path_the_locale_cannot_decode_is_refused(tmp_path):
    process = process_of(
        [["train.py", "--out", str(tmp_path / "日本"), *SMALL]],
        "utf-8",
        "C",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors.count(b"\n")) == (1, 2), errors  # the second is of SEVERAL
    assert errors.startswith(b"train.py: error: --out is ")
    assert b"PYTHONUTF8=1" in errors
    assert list(tmp_path.iterdir()) == []

"""The package as others get it: built, checked, and played without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import alles_kaese_env

ROOT = Path(__file__).parents[1]
PACKAGE = Path(alles_kaese_env.__file__).parent
PROBE = """
import multiprocessing, alles_kaese_env

def play(seed):
    import gymnasium as gym

    env = gym.make("alles_kaese_env:AllesKaese-v0", num_players=3)
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    terminated, actions = False, []
    while not terminated:
        actions.append(int(env.action_space.sample(info["action_mask"])))
        _, reward, terminated, _, info = env.step(actions[-1])
    return actions, reward

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(play, [1]) == [play(1)]
    print(alles_kaese_env.__file__)
"""
NAMED = """
import gymnasium as gym

try:
    gym.make("alles_kaese_env:AllesKaese-v0", opponents="reference").reset(seed=0)
    print("played")
except ValueError as error:
    print(error)
"""


def run(*command, cwd):
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_is_typed_and_its_citation_names_its_version():
    assert (PACKAGE / "py.typed").is_file()
    assert f"version: {alles_kaese_env.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def clean_copy(folder):
    """The checkout without what it has built, as a clone of it would be."""
    ignored = shutil.ignore_patterns(".git", "build", "dist", "runs", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=ignored)
    return folder


def new_python(folder):
    """The interpreter of a new virtual environment."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return next(one for one in folder.glob("*/python*") if one.is_file())


@pytest.mark.long
def test_built_checked_and_played_without_the_checkout(tmp_path):
    for tool in ("build", "twine"):
        pytest.importorskip(tool, reason="needs the extra dev")
    source, dist = clean_copy(tmp_path / "source"), tmp_path / "dist"
    run(sys.executable, "-m", "build", "--outdir", dist, source, cwd=tmp_path)
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir(), cwd=tmp_path)
    [wheel] = dist.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    kept = [one for one in PACKAGE.rglob("*") if one.suffix in {".py", ".typed", ".html"}]
    assert {one.relative_to(PACKAGE.parent).as_posix() for one in kept} <= inside
    assert {name.partition("/")[0].partition("-")[0] for name in inside} == {
        "alles_kaese_env",
        "alles_kaese",  # the metadata
    }
    assert any(name.endswith("/licenses/LICENSE") for name in inside)
    python = new_python(tmp_path / "venv")
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    (tmp_path / "probe.py").write_text(PROBE)
    found = run(python, "-W", "error", "probe.py", cwd=tmp_path)
    assert Path(found.strip()).is_relative_to(tmp_path / "venv")
    (tmp_path / "named.py").write_text(NAMED)
    assert "makes no agent here" in run(python, "named.py", cwd=tmp_path)


@pytest.mark.long
def test_an_editable_install_has_the_agents_everywhere(tmp_path):
    source, python = clean_copy(tmp_path / "source"), new_python(tmp_path / "venv")
    run(python, "-m", "pip", "install", "--quiet", "-e", source, cwd=tmp_path)
    found = run(python, "-c", "import agents; print(agents.__file__)", cwd=tmp_path)
    assert Path(found.strip()) == source / "agents" / "__init__.py"
    (tmp_path / "named.py").write_text(NAMED)
    assert "played" in run(python, "named.py", cwd=tmp_path)
    arena = run(python, "-m", "agents.arena", "random", "greedy", "--games", "20", cwd=tmp_path)
    assert "greedy" in arena

"""The package as others get it: built, checked, and played without the checkout."""

from __future__ import annotations

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


def run(*command, cwd):
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_is_typed_and_its_citation_names_its_version():
    assert (PACKAGE / "py.typed").is_file()
    assert f"version: {alles_kaese_env.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.long
def test_built_checked_and_played_without_the_checkout(tmp_path):
    for tool in ("build", "twine"):
        pytest.importorskip(tool, reason="needs the extra dev")
    source, dist = tmp_path / "source", tmp_path / "dist"
    ignored = shutil.ignore_patterns(".git", "*.egg-info", "build", "dist", "runs", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    run(sys.executable, "-m", "build", "--outdir", dist, source, cwd=tmp_path)
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir(), cwd=tmp_path)
    [wheel] = dist.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    kept = [one for one in PACKAGE.rglob("*") if one.suffix in {".py", ".typed", ".html"}]
    assert {one.relative_to(PACKAGE.parent).as_posix() for one in kept} <= inside
    assert not any(name.startswith(("agents/", "tests/")) for name in inside)
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = next(one for one in (tmp_path / "venv").glob("*/python*") if one.is_file())
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    (tmp_path / "probe.py").write_text(PROBE)
    found = run(python, "-W", "error", "probe.py", cwd=tmp_path)
    assert Path(found.strip()).is_relative_to(tmp_path / "venv")

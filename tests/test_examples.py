"""The examples run, at a small size, where their library is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SMALL = {  # library, arguments, and what the example prints at its end
    "pettingzoo_loop": ("pettingzoo", ["--games", "5"], "mean payoff"),
    "sb3_maskable_ppo": ("sb3_contrib", ["--steps", "2048"], "share of the wins"),
    "self_play": ("torch", ["--updates", "2"], "share of the wins"),
    "cleanrl_ppo": ("torch", ["--updates", "2"], "share of the wins"),
    "torchrl_ppo": ("torchrl", ["--games", "64"], "share of the wins"),
    "tianshou_ppo": ("tianshou", ["--games", "64"], "share of the wins"),
    "openspiel_cfr": ("pyspiel", ["--iterations", "2"], "exploitability"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_an_example_runs(name, tmp_path):
    library, arguments, printed = SMALL[name]
    pytest.importorskip(library, reason=f"needs {library}")
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_an_example_is_short(file):
    assert len(file.read_text().splitlines()) <= 75

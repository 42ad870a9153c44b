"""The figures: what is drawn, and what the command says."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest

from agents.arena import plots
from agents.training.run_directory import EVALUATION_FIELDS


def evaluations(shares, players=2):
    """Rows of a run with these shares against the reference."""
    return [
        dict(
            zip(
                EVALUATION_FIELDS,
                map(
                    str,
                    (1000 * k, 1.0, players, "reference", 100, share, share - 0.1, share + 0.1, ""),
                ),
                strict=True,
            )
        )
        for k, share in enumerate(shares)
    ]


def write_run(path, shares, **options):
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"options": options}))
    with open(path / "evaluations.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, EVALUATION_FIELDS)
        writer.writeheader()
        writer.writerows(evaluations(shares))
    return path


def test_the_band_of_one_run_is_that_of_its_games():
    steps, share, low, high = plots._curve([evaluations([0.25, 0.5])], 2, "reference")
    assert steps == [0.0, 0.001]
    assert share == pytest.approx([0.5, 1.0])  # times players
    assert low == pytest.approx([0.3, 0.8])
    assert high == pytest.approx([0.7, 1.2])


def test_the_band_of_several_runs_is_that_of_their_mean():
    """By hand for 0.4, 0.5, 0.6: standard error 0.1 / sqrt(3), quantile of t with 2 degrees."""
    runs = [evaluations([share]) for share in (0.4, 0.5, 0.6)]
    _, share, low, high = plots._curve(runs, 2, "reference")
    half = 2 * 4.302653 * 0.1 / 3**0.5
    assert (share[0], low[0], high[0]) == pytest.approx((1.0, 1.0 - half, 1.0 + half))


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_curves_from_the_command(tmp_path, suffix):
    runs = [str(write_run(tmp_path / name, [0.2, 0.5])) for name in ("a", "b")]
    file = tmp_path / f"curves.{suffix}"
    assert plots.main(["curves", *runs, "--out", str(file)]) == 0
    first = file.read_bytes()
    assert first.startswith({"png": b"\x89PNG", "svg": b"<?xml"}[suffix])
    assert plots.main(["curves", *runs, "--out", str(file)]) == 0
    assert file.read_bytes() == first


def test_runs_are_grouped_by_the_options_in_which_they_differ(tmp_path):
    runs = [
        write_run(tmp_path / f"{epochs}-{seed}", [0.2, 0.5], n_epochs=epochs, gamma=1, seed=seed)
        for seed in (0, 1)
        for epochs in (2, 4)
    ]
    groups = plots.alike(runs)
    assert groups == {"n_epochs 2": runs[::2], "n_epochs 4": runs[1::2]}
    assert plots.alike(runs[::2]) == {"all runs": runs[::2]}


def test_unlike_runs_are_compared_and_not_pooled(tmp_path, capsys):
    runs = [str(write_run(tmp_path / f"{n}", [0.2, 0.5], n_epochs=n, seed=0)) for n in (2, 4)]
    file = tmp_path / "x.svg"
    with pytest.raises(SystemExit, match="2"):
        plots.main(["curves", *runs, "--out", str(file)])
    assert "runs differ: n_epochs 2; n_epochs 4; allowed with curves" in capsys.readouterr().err
    assert not file.exists()
    assert plots.main(["compare", *runs, "--out", str(file)]) == 0
    text = file.read_text()
    assert text.count("<!-- n_epochs 2 (1 seed) -->") == 1
    assert text.count("<!-- n_epochs 4 (1 seed) -->") == 1
    with pytest.raises(SystemExit, match="2"):
        plots.main(["compare", *runs, "--against", "nobody", "--out", str(file)])
    assert "n_epochs 2 has a run without evaluations against nobody" in capsys.readouterr().err


def test_exploitability_is_compared_by_its_own_figures(tmp_path):
    """By 0.25 and 0.45 of the best responses' games: exploitability of 0.5 and 0.1."""
    rows = [row | {"against": plots.BEST_RESPONSE} for row in evaluations([0.25, 0.45])]
    groups = {"ppo": [rows, rows], "mmd": [rows]}
    plots.compared_curves(groups, 2, plots.BEST_RESPONSE, tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert "<!-- exploitability (band: 95 % interval) -->" in text
    assert "<!-- ppo (2 seeds) -->" in text
    assert "<!-- an even share" not in text


def test_trap_shares_are_those_of_the_deck():
    """At the start nobody knows a front, so they are the traps of each back by its copies (C1)."""
    shares = plots.trap_shares("random", 2, games=50)
    full = np.flatnonzero(~np.isnan(shares).any(axis=1)).max()
    assert shares[full] == pytest.approx([1 / 3, 1 / 3, 1 / 2, 1 / 2, 2 / 3, 2 / 3], abs=0.02)
    assert np.nanmin(shares) >= 0
    assert np.nanmax(shares) <= 1
    assert (plots.trap_shares("random", 2, games=50)[full] == shares[full]).all()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["curves", "nowhere", "--out", "x.png"], "run is nowhere; allowed: a directory of"),
        (["traps", "--agent", "nobody", "--out", "x.png"], "agent is 'nobody'; allowed:"),
        (["traps"], "--out"),
        ([], "WHAT"),
    ],
)
def test_wrong_use_ends_with_one_line(arguments, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        plots.main(arguments)
    assert stop.value.code == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert re.search(re.escape(line), errors)
    assert list(tmp_path.iterdir()) == []


def test_exploitability_has_an_axis_of_its_own(tmp_path):
    rows = evaluations([0.3, 0.4])
    rows += [row | {"against": plots.BEST_RESPONSE, "exploitability": "0.1"} for row in rows]
    plots.learning_curves([rows], tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text()
    assert text.count("<!-- exploitability -->") == 2  # at the axis and in the legend
    assert "<!-- 2 players against best response -->" not in text

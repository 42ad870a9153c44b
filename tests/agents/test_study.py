"""The runner of studies: its cells, results and tables; and what other benchmarks keep."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import figures
import numpy as np
import pytest
import study

from agents.training import command
from agents.training.options import OPTIONS, Config, new_config
from alles_kaese_env.command_line import INTERRUPTED, Parser
from alles_kaese_env.variant import VARIANTS

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "benchmarks/results").iterdir())

STUDY = {
    "name": "tiny",
    "seeds": [3, 4],
    "variants": ["477"],
    "options": {
        "total_steps": 64,
        "num_envs": 8,
        "n_steps": 8,
        "eval_games": 4,
        "report_games": 4,
        "exploitability_every": 64,
    },
    "configurations": {"ppo": {}, "one epoch": {"n_epochs": 1}},
}


def write(folder, **changes):
    file = folder / "study.json"
    file.write_text(json.dumps({**STUDY, **changes}))
    return file


def result(name, variant, seed, share, **options):
    """A result whose only figure is the share."""
    pair = {"mode": "greedy", "against": "random", "num_players": 2, "share": share}
    made = {"options": {"seed": seed, **options}, "commit": "0"}
    return {"configuration": name, "variant": variant, "seed": seed, "pairs": [pair], **made}


def test_cells_are_all_combinations_seed_by_seed(tmp_path):
    cells = study.read_study(write(tmp_path))
    names = [(cell.seed, cell.configuration) for cell in cells]
    assert names == [(3, "ppo"), (3, "one epoch"), (4, "ppo"), (4, "one epoch")]
    assert cells[1].options == {**STUDY["options"], "n_epochs": 1}
    assert cells[1].name == "one-epoch--477--seed3"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": []}, "seeds of .* is \\[\\]; allowed: a list"),
        ({"seeds": 3}, "seeds of .* is 3; allowed: a list"),
        ({"seeds": [1, "2"]}, "seeds of .* has '2'; allowed: whole numbers"),
        ({"configurations": {"ppo": 3}}, "configuration ppo of .* is 3; allowed: an object"),
        ({"variants": ["fool"]}, f"variant of .* is 'fool'; allowed: {', '.join(VARIANTS)}"),
        ({"options": {"steps": 3}}, "options of .* has 'steps'; allowed: address, algo, "),
        ({"options": {"seed": 3}}, "options of .* has 'seed'; allowed: address, algo, "),
        ({"more": 1}, "study .* has .*'more'.*; allowed: an object with"),
    ],
)
def test_a_wrong_study_is_refused_in_one_line(tmp_path, changes, message, capsys):
    file = write(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        study.read_study(file)
    with pytest.raises(SystemExit, match="2"):
        study.main(["run", str(file), "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_each_cell_is_run_once_and_its_result_says_what_made_it(tmp_path, capfd):
    file, out = write(tmp_path, seeds=[3]), tmp_path / "out"
    assert study.main(["run", str(file), "--out", str(out)]) == 0
    files = sorted((out / "results").iterdir())
    assert [file.name for file in files] == ["one-epoch--477--seed3.json", "ppo--477--seed3.json"]
    data = json.loads(files[0].read_text())
    assert data["options"]["n_epochs"] == 1
    assert data["options"]["seed"] == data["seed"] == 3
    assert data["exploitability"].keys() == {"greedy", "sampled"}
    assert data.keys() >= {"version", "commit", "libraries", "processor", "evaluations"}
    assert data["command"].startswith("python train.py --variant 477 --seed 3 --workers 1 ")
    assert data["seconds"] > 0
    assert str(tmp_path) not in files[0].read_text()
    assert "2 of 2 runs have a result" in capfd.readouterr().out

    kept = files[1].stat().st_mtime_ns
    files[0].unlink()  # as if the study had been killed before it was written
    assert study.main(["run", str(file), "--out", str(out)]) == 0
    again = json.loads(files[0].read_text())
    assert study.figures_of(again) == study.figures_of(data)
    assert files[1].stat().st_mtime_ns == kept

    capfd.readouterr()
    assert study.main(["table", str(out / "results")]) == 0
    table = capfd.readouterr().out
    assert (
        f"| exploitability, sampled | 477 | one epoch | 1 | {data['exploitability']['sampled']:.4f}"
        in table
    )
    curves = tmp_path / "curves.svg"
    arguments = ["curves", str(out / "results"), "--variant", "477", "--out", str(curves)]
    assert study.main(arguments) == 0
    assert "<!-- one epoch (1 seed) -->" in curves.read_text()


def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path, capsys):
    file = write(tmp_path, seeds=[3], configurations={"bad": {"gae_lambda": 7}})
    assert study.main(["run", str(file), "--out", str(tmp_path / "out")]) == 1
    captured = capsys.readouterr()
    assert "bad--477--seed3 ended with code 2; see" in captured.err
    assert "0 of 1 runs have a result" in captured.out


@pytest.mark.posix
def test_an_interrupt_reaches_every_run():
    """A run that ends leaves the list of those that are running."""
    running, told = [], []

    class Run:
        def send_signal(self, number):
            told.append(self)

        def wait(self):
            running.remove(self)

    runs = [Run(), Run(), Run()]
    running += runs
    study.interrupt(running)
    assert told == runs
    assert not running


def test_the_table_holds_means_and_interquartile_means_by_variant_and_over_all():
    shares = {"full": [0.1, 0.2, 0.3, 0.4], "small": [0.5, 0.6, 0.7, 0.8]}
    results = [
        result("ppo", variant, seed, share)
        for variant, sample in shares.items()
        for seed, share in enumerate(sample)
    ]
    lines = study.table_of(results).splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines]
    assert [cell[:3] for cell in cells] == [
        ["full", "ppo", "4"],
        ["small", "ppo", "4"],
        ["all", "ppo", "4 + 4"],
    ]
    assert [float(cell[3]) for cell in cells] == [0.25, 0.65, 0.45]
    assert [float(cell[4]) for cell in cells] == [0.25, 0.65, 0.45]  # of 2 and 3, of 3 to 6


def test_the_interval_resamples_each_variant_by_itself():
    """Two constant samples far apart have no interval, though together they vary."""
    samples = [np.full(5, 0.1), np.full(5, 0.9)]
    assert study.interval_of(samples) == (0.5, 0.5)
    low, high = study.interval_of([np.array([0.1, 0.2, 0.3, 0.4, 0.5]), np.full(5, 0.3)])
    assert 0.1 < low < 0.3 < high < 0.5


def test_results_of_unlike_runs_are_not_pooled(tmp_path):
    results = [result("ppo", "full", 0, 0.5), result("ppo", "full", 1, 0.5, n_epochs=1)]
    with pytest.raises(ValueError, match="results of ppo on full differ in their options or"):
        study.table_of(results)
    with pytest.raises(ValueError, match="results of ppo on full differ in their options or"):
        study.draw_curves(results, "full", "random", tmp_path / "curves.png")
    assert list(tmp_path.iterdir()) == []


# --- The results that come with the project ----------------------------------------------------


def arguments_of(result):
    """What ``train.py`` is given by the command of a result."""
    python, program, *arguments = shlex.split(result["command"])
    assert (python, program) == ("python", "train.py")
    return arguments


@pytest.mark.parametrize("folder", RESULTS, ids=lambda folder: folder.name)
def test_the_command_of_a_result_is_that_of_its_options(folder):
    parser = command.build_parser()
    for result in study.read_results(folder):
        options = vars(parser.parse_args(arguments_of(result)))
        given = {name: options[name] for name in OPTIONS if options[name] is not None}
        variant = study.VARIANTS[options["variant"]]
        made = Config.from_json(result["options"])
        assert new_config({**given, "variant": variant}) == made
        assert (options["variant"], made.seed) == (result["variant"], result["seed"])


def test_the_page_has_the_lines_of_the_results_and_no_others():
    page = (ROOT / "docs/benchmark.md").read_text(encoding="utf-8").splitlines()
    shown = {line for line in page if line.startswith(("| exploitability,", "| share "))}
    tables = [study.table_of(study.read_results(folder)).splitlines() for folder in RESULTS]
    assert shown <= {line for table in tables for line in table}
    wanted = {line for table in tables for line in table if "exploitability, sampled" in line}
    assert {line for line in wanted if "| all |" not in line} <= shown


@pytest.mark.long
def test_a_result_is_found_again(tmp_path):
    """The first of the smallest study, held against all of its seeds."""
    results = study.read_results(ROOT / "benchmarks/results/smallest")
    results = [result for result in results if result["configuration"] == "ppo"]
    assert [result["seed"] for result in results] == [0, 1, 2, 3, 4]
    run = tmp_path / "run"
    assert command.main([*arguments_of(results[0]), "--out", str(run)]) == 0
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    for mode, value in report["exploitability"].items():
        before = [result["exploitability"][mode] for result in results]
        assert min(before) - 0.0005 <= value <= max(before) + 0.0005
    shares = {(pair["mode"], pair["against"]): pair["share"] for pair in report["pairs"]}
    for pair in results[0]["pairs"]:
        assert shares[pair["mode"], pair["against"]] == pytest.approx(pair["share"], abs=0.05)


# --- Other benchmarks ----------------------------------------------------------------------------


def results_until_interrupted():
    yield study.Cell("a", "477", 0, {})
    raise KeyboardInterrupt


def test_ctrl_c_keeps_the_results_of_a_benchmark(tmp_path, capsys):
    file = tmp_path / "results.json"
    found, code = figures.collect(Parser(prog="benchmark"), results_until_interrupted(), file)
    assert (len(found), code) == (1, INTERRUPTED)
    assert capsys.readouterr().err == f"benchmark: interrupted after 1 results; {file} has them\n"
    assert [result["seed"] for result in json.loads(file.read_text())["results"]] == [0]


def test_a_benchmark_checks_its_output_first(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        figures.collect(Parser(prog="benchmark"), results_until_interrupted(), tmp_path / "no/x")
    assert end.value.code == 2
    assert f"--json is {tmp_path / 'no/x'}; allowed" in capsys.readouterr().err

"""Train configurations on variants with several seeds, and put the results into tables.

Examples:
    python benchmarks/study.py run benchmarks/studies/ladder.json --out runs/ladder
    python benchmarks/study.py table runs/ladder/results
    python benchmarks/study.py curves runs/ladder/results --variant 17m --out ladder-17m.png

A study is a JSON object:

    {
      "name": "ladder",
      "seeds": [0, 1, 2, 3, 4],
      "variants": ["10m", "17m"],
      "options": {"total_steps": 3000000, "exploitability_every": 300000},
      "configurations": {"ppo": {"opponents": "self"}, "mmd": {"algo": "mmd"}}
    }

``options`` and the options of each configuration are those of ``train.py``, with underscores. Every
configuration is trained on every variant with every seed. Each of these cells is a run of
``train.py`` in a directory of its own and ends with a file in ``results``, so the same command goes
on after an interruption.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.arena.plots import BEST_RESPONSE, SUFFIXES, compared_curves, evaluations_of
from agents.training.options import OPTIONS, flag
from alles_kaese_env.command_line import INTERRUPTED, Parser, at_least, progress
from alles_kaese_env.files import checked_output, replacing
from alles_kaese_env.variant import VARIANTS

FIELDS = {"name": str, "seeds": list, "variants": list, "options": dict, "configurations": dict}
ROOT = Path(__file__).parents[1]
RESAMPLES = 5_000  # of the bootstrap


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Attributes:
        configuration: its name.
        variant: its name.
        seed: of the run.
        options: of ``train.py``, by name.
    """

    configuration: str
    variant: str
    seed: int
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of its directory and of its result."""
        return f"{self.configuration}--{self.variant}--seed{self.seed}".replace(" ", "-")


# --- Studies -----------------------------------------------------------------------------------


def read_study(file: Path) -> list[Cell]:
    """The cells of a study, seed by seed, so that an interruption leaves a balanced part.

    Raises:
        ValueError: the file is no study.
    """
    try:
        study = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"study is {file}, which cannot be read ({error})") from None
    if not isinstance(study, dict) or study.keys() != FIELDS.keys():
        names = sorted(study) if isinstance(study, dict) else type(study).__name__
        raise ValueError(f"study {file} has {names}; allowed: an object with {sorted(FIELDS)}")
    for name, kind in FIELDS.items():
        if not isinstance(study[name], kind) or not study[name]:
            raise ValueError(f"{name} of {file} is {study[name]!r}; allowed: a {kind.__name__}")
    check_entries(file, study)
    return [
        Cell(name, variant, seed, checked_options(file, {**study["options"], **options}))
        for seed in study["seeds"]
        for variant in study["variants"]
        for name, options in study["configurations"].items()
    ]


def check_entries(file: Path, study: dict[str, Any]) -> None:
    """`ValueError` for the first configuration, seed or variant that is not what is allowed."""
    for name, options in study["configurations"].items():
        if not isinstance(options, dict):
            raise ValueError(f"configuration {name} of {file} is {options!r}; allowed: an object")
    for seed in study["seeds"]:
        if type(seed) is not int:
            raise ValueError(f"seeds of {file} has {seed!r}; allowed: whole numbers")
    for variant in study["variants"]:
        if variant not in VARIANTS:
            raise ValueError(f"variant of {file} is {variant!r}; allowed: {', '.join(VARIANTS)}")


def checked_options(file: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The options, if ``train.py`` has them all; `ValueError` otherwise."""
    allowed = OPTIONS.keys() - {"seed"}
    for name in options.keys() - allowed:
        raise ValueError(f"options of {file} has {name!r}; allowed: {', '.join(sorted(allowed))}")
    return options


# --- Running -----------------------------------------------------------------------------------


def run_study(cells: Sequence[Cell], out: Path, jobs: int) -> int:
    """Run the cells that have no result yet, some at once; returns the exit code."""
    results = out / "results"
    results.mkdir(parents=True, exist_ok=True)
    missing = [cell for cell in cells if not (results / f"{cell.name}.json").exists()]
    done = len(cells) - len(missing)
    failed = 0
    running: list[subprocess.Popen[Any]] = []
    with ThreadPoolExecutor(jobs) as pool, progress("runs", len(cells), done) as show:
        show(done)
        waiting = {pool.submit(run_cell, cell, out, running) for cell in missing}
        try:
            while waiting:
                ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                failures = [failure for one in ended if (failure := one.result())]
                print(*failures, sep="\n", end="\n" * bool(failures), file=sys.stderr)
                failed += len(failures)
                done += len(ended) - len(failures)
                show(done)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            interrupt(running)
            print(f"interrupted; {out} keeps what is done; the same command goes on")
            return INTERRUPTED
    print(f"{done} of {len(cells)} runs have a result in {results}")
    return 1 if failed else 0


def interrupt(running: Sequence[subprocess.Popen[Any]]) -> None:
    """Let each run save and end."""
    processes = list(running)  # they leave the other list as they end
    for process in processes:
        if os.name == "posix":  # elsewhere Ctrl-C has reached the runs, too
            process.send_signal(signal.SIGINT)
    for process in processes:
        process.wait()


def run_cell(cell: Cell, out: Path, running: list[subprocess.Popen[Any]]) -> str | None:
    """Run a cell, or go on with it, and write its result; returns a line if it failed.

    ``running`` holds the process meanwhile.
    """
    run = out / cell.name
    log = out / f"{cell.name}.log"
    with open(log, "a", encoding="utf-8") as stream:
        # In a session of its own, so that Ctrl-C reaches it once, from `interrupt`.
        process = subprocess.Popen(  # noqa: S603
            command_of(cell, run), stdout=stream, stderr=stream, start_new_session=True
        )
        running.append(process)
        code = process.wait()
        running.remove(process)
    if code:
        return f"{cell.name} ended with code {code}; see {log}"
    write_result(cell, run, out / "results" / f"{cell.name}.json")
    return None


def command_of(cell: Cell, run: Path) -> list[str]:
    """The command that begins or resumes a cell."""
    if any(run.glob("model*")):
        flags = ["--resume", str(run.resolve())]
    else:
        flags = [*flags_of(cell), "--out", str(run.resolve())]
    return [sys.executable, str(ROOT / "train.py"), *flags]


def flags_of(cell: Cell) -> list[str]:
    """What ``train.py`` is given to run a cell, in any directory."""
    first = {"variant": cell.variant, "seed": cell.seed, "workers": 1}  # runs share the cores
    flags = []
    for name, value in {**first, **cell.options}.items():
        values = value if isinstance(value, list) else [value]
        flags += [flag(name), *map(str, values)]
    return flags


def write_result(cell: Cell, run: Path, file: Path) -> None:
    """Keep what a run that has ended says of itself, but for its paths; a line for each name."""
    config, report = (
        json.loads((run / name).read_text(encoding="utf-8"))
        for name in ("config.json", "report.json")
    )
    rows = evaluations_of(run / "evaluations.csv")
    result = {
        "configuration": cell.configuration,
        "variant": cell.variant,
        "seed": cell.seed,
        **config,
        **report,
        "command": shlex.join(["python", "train.py", *flags_of(cell)]),
        "resumed_by": len(config["resumed_by"]),
        "seconds": float(rows[-1]["seconds"]),
        "pairs": [{k: v for k, v in pair.items() if k != "agent"} for pair in report["pairs"]],
        "evaluations": rows,
    }
    lines = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in result.items())
    with replacing(file) as temporary:
        temporary.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


# --- Tables and curves -------------------------------------------------------------------------


def read_results(folder: Path) -> list[dict[str, Any]]:
    """The results in a directory.

    Raises:
        ValueError: there are none.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise ValueError(f"results is {folder}; allowed: a directory with results")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def check_alike(results: Sequence[dict[str, Any]]) -> None:
    """Refuse to pool what differs in more than its seed.

    Raises:
        ValueError: results of one configuration were made with different options or commits.
    """
    made: dict[tuple[str, str], Any] = {}
    for result in results:
        name, variant = result["configuration"], result["variant"]
        how = {**result["options"], "seed": None}, result["commit"]
        if made.setdefault((name, variant), how) != how:
            raise ValueError(f"results of {name} on {variant} differ in their options or commit")


def draw_curves(results: Sequence[dict[str, Any]], variant: str, against: str, file: Path) -> None:
    """Evaluations on a variant by steps of training, a line for each configuration.

    Raises:
        ValueError: there is nothing to draw, or `check_alike` refuses the results.
    """
    check_alike(results)
    groups: dict[str, list[Any]] = {}
    for result in results:
        if result["variant"] == variant:
            groups.setdefault(result["configuration"], []).append(result["evaluations"])
    if not groups:
        raise ValueError(f"variant is {variant}; allowed: one of the results")
    compared_curves(groups, 2, against, file)


def table_of(results: Sequence[dict[str, Any]]) -> str:
    """A Markdown table: for each figure and variant, each configuration over its seeds.

    The mean, the interquartile mean and its 95 % interval by a bootstrap over seeds, stratified by
    variant in the lines of all variants (Agarwal et al. 2021).
    """
    lines = [
        "| figure | variant | configuration | seeds | mean | interquartile mean | 95 % interval |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure, variant, configuration, samples in groups_of(results):
        values = np.concatenate(samples)
        ends = interval_of(samples)
        seeds = " + ".join(str(len(sample)) for sample in samples)
        lines.append(
            f"| {figure} | {variant} | {configuration} | {seeds} | {in_digits(values.mean())} "
            f"| {in_digits(interquartile_means(values))} | {' to '.join(map(in_digits, ends))} |"
        )
    return "\n".join(lines) + "\n"


def in_digits(value: Any) -> str:
    """A figure of the table; what is 0 in its digits has no sign."""
    return f"{round(float(value), 4) + 0.0:.4f}"


def groups_of(
    results: Sequence[dict[str, Any]],
) -> Iterator[tuple[str, str, str, list[npt.NDArray[np.float64]]]]:
    """The lines of the table: figure, variant or "all", configuration, values by variant.

    Raises:
        ValueError: `check_alike` refuses the results.
    """
    check_alike(results)
    values: dict[tuple[str, str, str], list[float]] = {}
    for result in results:
        name, variant = result["configuration"], result["variant"]
        for figure, value in figures_of(result).items():
            values.setdefault((figure, name, variant), []).append(value)
    for figure, name in dict.fromkeys((figure, name) for figure, name, _ in values):
        samples = {
            variant: np.array(sample)
            for (other, configuration, variant), sample in values.items()
            if (other, configuration) == (figure, name)
        }
        for variant, sample in samples.items():
            yield figure, variant, name, [sample]
        if len(samples) > 1:
            yield figure, "all", name, list(samples.values())


def figures_of(result: dict[str, Any]) -> dict[str, float]:
    """The figures of the report of a run, by what they are."""
    figures = {}
    for pair in result["pairs"]:
        against, players = pair["against"], pair["num_players"]
        figures[f"share against {against}, {players} players, {pair['mode']}"] = pair["share"]
    for mode, value in result.get("exploitability", {}).items():
        figures[f"exploitability, {mode}"] = value
    return figures


def interquartile_means(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The mean of the middle half of each row."""
    from scipy.stats import trim_mean  # comes with choix

    return np.asarray(trim_mean(values, 0.25, axis=-1))


def interval_of(samples: Sequence[npt.NDArray[np.float64]]) -> tuple[float, float]:
    """The 95 % interval of the interquartile mean; of a single value, the value itself.

    Each sample is resampled by itself, with a fixed seed; the interval is of percentiles.
    """
    rng = np.random.default_rng(0)
    resampled = [rng.choice(sample, (RESAMPLES, len(sample))) for sample in samples]
    means = interquartile_means(np.concatenate(resampled, axis=1))
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


# --- The command -------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        if options.what == "run":
            return run_study(read_study(options.study), options.out, options.jobs)
        results = read_results(options.results)
        if options.what == "table":
            print(table_of(results), end="")
        else:
            checked_output(options.out, "--out", SUFFIXES)
            draw_curves(results, options.variant, options.against, options.out)
    except (ValueError, KeyError, OSError, ImportError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python benchmarks/study.py",
        description="Train configurations on variants with several seeds, and tabulate them.",
        epilog="example: python benchmarks/study.py run STUDY.json --out runs/study",
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    run = kinds.add_parser("run", help="run what has no result yet")
    run.add_argument("study", type=Path, metavar="STUDY.json")
    run.add_argument("--out", type=Path, required=True, metavar="DIR")
    run.add_argument("--jobs", type=at_least(1), default=os.cpu_count(), help="runs at once")
    table = kinds.add_parser("table", help="print the results as a Markdown table")
    curves = kinds.add_parser("curves", help="draw a line for each configuration")
    for kind in (table, curves):
        kind.add_argument("results", type=Path, metavar="DIR")
    curves.add_argument("--variant", required=True, choices=VARIANTS)
    curves.add_argument(
        "--against", default=BEST_RESPONSE, help="of the evaluations (the default: exploitability)"
    )
    curves.add_argument("--out", type=Path, required=True, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The figures of the project: learning curves, win shares of an arena, traps over a game.

Example:
    python -m agents.arena.plots curves runs/seed0 runs/seed1 runs/seed2 --out curves.png
    python -m agents.arena.plots compare runs/* --against reference --out compared.png
    python -m agents.arena.plots traps --agent heuristic --num-players 2 --out traps.svg
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import agents
from alles_kaese_env import OBSERVATION, GameBatch, Variant
from alles_kaese_env.command_line import INTERRUPTED, Parser
from alles_kaese_env.files import checked_output, replacing
from alles_kaese_env.seeding import agent_generator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Evaluations = Sequence[Mapping[str, str]]  # the rows of ``evaluations.csv``
Curve = tuple[list[float], list[float], list[float], list[float]]

TRAP_GAMES = 1_000
SUFFIXES = (".png", ".svg")
LEAST = 1e-5  # of an exploitability that is drawn, by a logarithmic scale; it has five digits
BEST_RESPONSE = "best response"  # in place of a baseline, of rows with an exploitability
STYLES = ("-", "--", ":", "-.")


@contextmanager
def figure(file: Path, width: float = 7.0, height: float = 4.2) -> Iterator[Axes]:
    """Axes that are saved to ``file`` (PNG or SVG, by its name) when the block ends well."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'plots need matplotlib; install it with: pip install -e ".[train]"'
        ) from error
    with rc_context({"svg.hashsalt": "alles-kaese"}):  # the same figure is the same file
        canvas = Figure(figsize=(width, height), layout="constrained")
        axes = canvas.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        yield axes
        with replacing(file) as temporary:
            metadata = {"Date": None} if file.suffix == ".svg" else None
            canvas.savefig(temporary, dpi=150, metadata=metadata)


def learning_curves(runs: Sequence[Evaluations], file: Path) -> None:
    """Win share times players by steps of training, for each number of players and baseline.

    Where it was measured, exploitability is a dotted line, by the logarithmic scale on the right.

    Args:
        runs: evaluations of one run, or of runs that differ in their seeds. The band is the 95 %
            interval of the games of a single run, or that of the mean over several runs.
        file: PNG or SVG.
    """
    with figure(file, width=9) as axes:
        opponents = list(dict.fromkeys(name for _, name in _baselines(runs)))
        for players, name in _baselines(runs):
            curve = _curve(runs, players, name)
            if name == BEST_RESPONSE:
                right = axes.twinx()
                steps, exploitability, *_ = _exploitability(curve)
                right.semilogy(steps, exploitability, "k:", label="exploitability")
                right.set_ylabel("exploitability")
                continue
            # A colour for the number of players, a line style for the opponent.
            color, style = f"C{players - 2}", STYLES[opponents.index(name) % len(STYLES)]
            _draw(axes, curve, f"{players} players against {name}", color=color, linestyle=style)
        _draw_even_share(axes)
        band = "of its games" if len(runs) == 1 else f"of the mean of {len(runs)} seeds"
        axes.set_ylabel("win share times players")
        axes.set_title(f"Learning by self-play (band: 95 % interval {band})")
        axes.figure.legend(loc="outside right center", frameon=False)
        _by_decisions(axes)


def compared_curves(
    groups: Mapping[str, Sequence[Evaluations]], players: int, against: str, file: Path
) -> None:
    """The win share against one baseline by steps of training, a line for each configuration.

    Args:
        groups: evaluations of runs that differ in their seeds, by the name of their configuration.
            The bands are those of `learning_curves`.
        players: of the games.
        against: the baseline; of "best response" the exploitability, by a logarithmic scale.
        file: PNG or SVG.

    Raises:
        ValueError: a run has not played against it.
    """
    for name, runs in groups.items():
        if not all((players, against) in _baselines([run]) for run in runs):
            raise ValueError(f"{name} has a run without evaluations against {against}")
    is_exploitability = against == BEST_RESPONSE
    with figure(file) as axes:
        for name, runs in groups.items():
            curve = _curve(runs, players, against)
            seeds = f"{len(runs)} seed" + "s" * (len(runs) > 1)
            _draw(axes, _exploitability(curve) if is_exploitability else curve, f"{name} ({seeds})")
        if is_exploitability:
            axes.set_yscale("log")
        else:
            _draw_even_share(axes)
        what = "exploitability" if is_exploitability else f"win share times players v. {against}"
        axes.set_ylabel(f"{what} (band: 95 % interval)")
        axes.legend(frameon=False)
        _by_decisions(axes)


def _draw(axes: Axes, curve: Curve, label: str, **style: Any) -> None:
    """A line with its band, in a colour of its own unless the style names one."""
    steps, values, low, high = curve
    (line,) = axes.plot(steps, values, label=label, **style)
    axes.fill_between(steps, low, high, alpha=0.25, color=line.get_color(), linewidth=0)


def _draw_even_share(axes: Axes) -> None:
    axes.axhline(1, color="grey", linewidth=1.2, label="1.0: an even share")


def _by_decisions(axes: Axes) -> None:
    """What all curves of training have below them."""
    axes.set_xlabel("million decisions of the learner")
    axes.grid(alpha=0.25)


def heat_map(
    shares: npt.NDArray[np.float64], names: Sequence[str], num_players: int, file: Path
) -> None:
    """The win share of each agent against each other.

    Args:
        shares: (A, A), of the agent of the row against that of the column; NaN where unknown.
        names: of the agents, A.
        num_players: whose even share is the middle of the colours.
        file: PNG or SVG.
    """
    size = 2 + 0.9 * len(names)
    with figure(file, size + 1, size) as axes:
        even = 1 / num_players
        image = axes.imshow(shares, cmap="RdBu_r", vmin=0, vmax=2 * even)
        for row, column in zip(*np.nonzero(~np.isnan(shares)), strict=True):
            axes.text(column, row, f"{shares[row, column]:.3f}", ha="center", va="center")
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
        axes.set_yticks(range(len(names)), names)
        axes.set_title(f"Win share of the row against the column, {num_players} players")
        axes.figure.colorbar(image, ax=axes, label=f"even: {even:.3f}")


def trap_shares(
    agent: str, num_players: int, seed: int = 0, games: int = TRAP_GAMES
) -> npt.NDArray[np.float64]:
    """How likely a card whose front the mover does not know is a trap, over a game.

    Args:
        agent: who plays all seats.
        num_players: 2 to 6.
        seed: of deals, dice and agent.
        games: how many are played.

    Returns:
        (cards in the reserve + 1, 6): the mean over all decisions with so many cards in the
        reserve, by holes; NaN where there was no decision.
    """
    player, rng = agents.make(agent), agent_generator(seed, 1)
    variant = Variant(num_players=num_players)
    batch = GameBatch(games, variant, seed=seed)
    cards = int(variant.rules["num_cards"][0])
    sums, counts = np.zeros((cards + 1, 6)), np.zeros((cards + 1, 1))
    while len(rows := np.flatnonzero(~batch.over)):
        seen = batch.observations[rows]
        reserve = np.rint(seen[:, OBSERVATION["reserve"].start] * cards).astype(np.int64)
        np.add.at(sums, reserve, seen[:, OBSERVATION["trap_share"].where])
        np.add.at(counts, reserve, 1)
        batch.step(player.act(seen, batch.masks[rows], rng), rows)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def traps_over_a_game(shares: npt.NDArray[np.float64], title: str, file: Path) -> None:
    """Lines of `trap_shares`, from the first card of the reserve to the last."""
    with figure(file) as axes:
        seen = np.flatnonzero(~np.isnan(shares).any(axis=1))
        for holes in range(shares.shape[1]):
            name = f"{holes + 1} hole" + "s" * (holes > 0)
            axes.plot(seen, shares[seen, holes], label=name)
        axes.invert_xaxis()
        axes.set_ylim(0, 1)
        axes.set_xlabel("cards in the reserve")
        axes.set_ylabel("probability that an unknown front is a trap")
        axes.set_title(title)
        axes.legend(ncols=2)
        axes.grid(alpha=0.25)


def read_evaluations(run: Path) -> list[dict[str, str]]:
    """The evaluations of a run directory.

    Raises:
        ValueError: there are none.
    """
    rows = evaluations_of(run / "evaluations.csv")
    if not rows:
        raise ValueError(f"run is {run}; allowed: a directory of train.py with evaluations")
    return rows


def evaluations_of(file: Path) -> list[dict[str, str]]:
    """The rows of ``evaluations.csv``, none if there is no such file yet.

    A last line that does not end was cut off, and is passed over.

    Raises:
        ValueError: it is no such file.
    """
    try:
        *lines, _ = file.read_text(encoding="utf-8").split("\n")
        rows = list(csv.DictReader(lines))
        for players, name in _baselines([rows]):
            _curve([rows], players, name)
        for row in rows:
            float(row["seconds"])
    except FileNotFoundError:
        return []
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(f"{file} is no file of evaluations ({error!r})") from None
    return rows


def alike(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Run directories by the options in which they differ, such as "n_epochs 4", but for seeds.

    Raises:
        ValueError: one has no readable configuration.
    """
    options = [_options_of(run) for run in runs]
    names = dict.fromkeys(name for one in options for name in one if name != "seed")
    differ = [
        name for name in names if any(one.get(name) != options[0].get(name) for one in options)
    ]
    groups: dict[str, list[Path]] = {}
    for run, one in zip(runs, options, strict=True):
        words = (f"{name} {one.get(name)}" for name in differ)
        groups.setdefault(", ".join(words) or "all runs", []).append(run)
    return groups


def _options_of(run: Path) -> dict[str, Any]:
    try:
        options: dict[str, Any] = json.loads((run / "config.json").read_text("utf-8"))["options"]
        return dict(options)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"run is {run}; allowed: a directory of train.py ({error})") from None


def _baselines(runs: Sequence[Evaluations]) -> list[tuple[int, str]]:
    return sorted({(int(row["num_players"]), row["against"]) for run in runs for row in run})


def _curve(runs: Sequence[Evaluations], players: int, name: str) -> Curve:
    """Million steps, and share, low and high end times players, one for each step."""
    by_step: dict[int, list[Any]] = {}
    for run in runs:
        for row in run:
            if (int(row["num_players"]), row["against"]) == (players, name):
                values = [players * float(row[key]) for key in ("share", "low", "high")]
                by_step.setdefault(int(row["step"]), []).append(values)
    points = [_interval(np.array(by_step[step])) for step in sorted(by_step)]
    share, low, high = ([point[k] for point in points] for k in range(3))
    return [step / 1e6 for step in sorted(by_step)], share, low, high


def _exploitability(curve: Curve) -> Curve:
    """The exploitability by its share against best responses, which is times two players."""
    steps, share, low, high = curve
    value, least, most = ([max(1 - one, LEAST) for one in ends] for ends in (share, high, low))
    return steps, value, least, most


def _interval(values: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """The share and its interval, from one run or from the spread of several (R, 3)."""
    if len(values) == 1:
        share, low, high = values[0].tolist()
        return share, low, high
    from scipy.stats import t  # comes with choix

    mean = float(values[:, 0].mean())
    error = float(values[:, 0].std(ddof=1)) / len(values) ** 0.5
    half = float(t.ppf(0.975, len(values) - 1)) * error
    return mean, mean - half, mean + half


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        checked_output(options.out, "--out", SUFFIXES)
        if options.what == "curves":
            _check_alike(options.runs)
            learning_curves([read_evaluations(run) for run in options.runs], options.out)
        elif options.what == "compare":
            groups = {
                name: [read_evaluations(run) for run in runs]
                for name, runs in alike(options.runs).items()
            }
            compared_curves(groups, options.num_players, options.against, options.out)
        else:
            shares = trap_shares(options.agent, options.num_players, options.seed)
            title = f"{options.num_players} players, all {options.agent}"
            traps_over_a_game(shares, title, options.out)
    except (ValueError, ImportError, OSError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted; {options.out} is not written", file=sys.stderr)
        return INTERRUPTED
    return 0


def _check_alike(runs: Sequence[Path]) -> None:
    """`ValueError` for runs that differ in more than their seeds: their mean would say nothing."""
    if len(groups := alike(runs)) > 1:
        raise ValueError(
            f"runs differ: {'; '.join(groups)}; allowed with curves: different seeds of one "
            "configuration. Use compare, which draws a line for each"
        )


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python -m agents.arena.plots",
        description="Draw a figure as PNG or SVG.",
        epilog="example: python -m agents.arena.plots curves runs/a runs/b --out curves.png",
    )
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    curves = kinds.add_parser("curves", help="win share over the training of one run or several")
    curves.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    compare = kinds.add_parser("compare", help="runs of several configurations, a line for each")
    compare.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    compare.add_argument(
        "--against", default="reference", help=f"baseline of the evaluations, or {BEST_RESPONSE!r}"
    )
    compare.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    traps = kinds.add_parser("traps", help="probability of a trap by holes, over a game")
    traps.add_argument("--agent", default="heuristic", help=agents.names())
    traps.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    traps.add_argument("--seed", type=int, default=0)
    for kind in (curves, compare, traps):
        kind.add_argument("--out", type=Path, required=True, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())

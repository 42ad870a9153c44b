"""The figures of the project: learning curves, win shares of an arena, traps over a game.

Example:
    python -m agents.arena.plots curves runs/seed0 runs/seed1 runs/seed2 --out curves.png
    python -m agents.arena.plots traps --agent heuristic --num-players 2 --out traps.svg
"""

from __future__ import annotations

import argparse
import csv
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
            steps, share, low, high = _curve(runs, players, name)
            if name == BEST_RESPONSE:
                right = axes.twinx()
                exploitability = [max(1 - one, LEAST) for one in share]
                right.semilogy(steps, exploitability, "k:", label="exploitability")
                right.set_ylabel("exploitability")
                continue
            # A colour for the number of players, a line style for the opponent.
            color, style = f"C{players - 2}", STYLES[opponents.index(name) % len(STYLES)]
            label = f"{players} players against {name}"
            axes.plot(steps, share, linestyle=style, color=color, label=label)
            axes.fill_between(steps, low, high, alpha=0.25, color=color, linewidth=0)
        axes.axhline(1, color="grey", linewidth=1.2, label="1.0: an even share")
        band = "of its games" if len(runs) == 1 else f"of the mean of {len(runs)} seeds"
        axes.set_xlabel("million decisions of the learner")
        axes.set_ylabel("win share times players")
        axes.set_title(f"Learning by self-play (band: 95 % interval {band})")
        axes.figure.legend(loc="outside right center", frameon=False)
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
            learning_curves([read_evaluations(run) for run in options.runs], options.out)
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
    traps = kinds.add_parser("traps", help="probability of a trap by holes, over a game")
    traps.add_argument("--agent", default="heuristic", help=agents.names())
    traps.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    traps.add_argument("--seed", type=int, default=0)
    for kind in (curves, traps):
        kind.add_argument("--out", type=Path, required=True, metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The command of the arena."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

import agents
from agents.arena.matches import (
    MOST_GAMES,
    PAIR_FIELDS,
    Pairs,
    _agent,
    _pairings,
    all_pairs,
    ratings,
)
from agents.arena.plots import heat_map
from alles_kaese_env.command_line import Parser
from alles_kaese_env.files import replacing
from alles_kaese_env.seeding import as_seed
from alles_kaese_env.variant import whole_number

# --- The command ---------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    names = list(dict.fromkeys(options.agents))
    try:
        whole_number("--games", options.games, 2, MOST_GAMES)
        whole_number("--processes", options.processes, 1, 1024)
        as_seed(options.seed)
        for name in names:
            _agent(name)
        if options.only not in (None, *names):
            raise ValueError(f"--only is {options.only!r}; allowed: {', '.join(names)}")
    except ValueError as error:
        parser.error(str(error))
    pairs = play_and_print(names, options)
    rows = [
        {"agent": name, "against": other, "num_players": options.num_players, **asdict(score)}
        for (name, other), score in pairs.items()
    ]
    if options.json:
        with replacing(options.json) as temporary:
            data = {"command": command_of(names, options), "pairs": rows}
            temporary.write_text(json.dumps(data, indent=2) + "\n")
    if options.csv:
        with replacing(options.csv) as temporary, open(temporary, "w", newline="") as stream:
            writer = csv.DictWriter(stream, PAIR_FIELDS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
    if options.plot:
        draw(pairs, names, options.num_players, options.plot)
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of the arena."""
    parser = Parser(
        prog="python -m agents.arena",
        description="All agents against all others, each deal once from every seat, the same "
        "deals for every pairing. With more than two players an agent meets a table of the other.",
        epilog="example: python -m agents.arena random reference --num-players 4 --games 20000",
    )
    add = parser.add_argument
    add("agents", nargs="+", metavar="AGENT", help=agents.names())
    add("--num-players", type=int, default=2, choices=range(2, 7))
    add("--games", type=int, default=20_000, help="of each pair (%(default)s)")
    add("--only", metavar="AGENT", help="of all pairs those in which this agent meets the others")
    add("--seed", type=int, default=0)
    cores = os.cpu_count() or 1
    add("--processes", type=int, default=1, help=f"side by side (1; cores here: {cores})")
    add("--json", type=Path, metavar="FILE", help="the pairs")
    add("--csv", type=Path, metavar="FILE", help="the pairs")
    add("--plot", type=Path, metavar="FILE", help="a heat map of the win shares, PNG or SVG")
    return parser


def command_of(names: Sequence[str], options: argparse.Namespace) -> str:
    """The command that plays the same games."""
    words = ["python -m agents.arena", *names, "--num-players", options.num_players]
    words += ["--games", options.games, "--seed", options.seed]
    return " ".join(map(str, words + (["--only", options.only] if options.only else [])))


def play_and_print(names: Sequence[str], options: argparse.Namespace) -> Pairs:
    """Play all pairs, with a bar where somebody looks, and print a line for each."""
    width = max(10, *(len(name) + 2 for name in names))
    heads = f"{'share':>7}  {'95 % interval':<16}{'turns':>6}  {'third traps':<13}{'ms/move':>9}"
    print(f"{'agent':<{width}}{'against':<{width}}{heads}  by seat", flush=True)
    pairs: Pairs = {}
    shape = options.num_players, options.games, options.seed, options.processes
    with progress_bar(names, options) as on_part:
        for name, other, score in all_pairs(names, *shape, on_part, options.only):
            pairs[name, other] = score
            seats = " ".join(f"{share:.3f}" for share in score.per_seat)
            print(
                f"{name:<{width}}{other:<{width}}{score.share:>7.3f}  {score.low:.3f} to "
                f"{score.high:.3f}  {score.turns:>6.1f}  {score.third_traps:<13.3f}"
                f"{score.seconds * 1000:>9.3f}  {seats}",
                flush=True,
            )
    if len(names) > 2 and options.only is None:
        print_ratings(pairs, names, options.num_players)
    return pairs


@contextmanager
def progress_bar(
    names: Sequence[str], options: argparse.Namespace
) -> Iterator[Callable[[int], None]]:
    """A bar with the time left on the terminal of the errors; nothing where there is none."""
    if not sys.stderr.isatty():
        yield lambda games: None
        return
    from rich.console import Console
    from rich.progress import Progress

    number = len(_pairings(names, options.num_players, options.only))
    deals = -(-options.games // options.num_players)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("games", total=number * deals * options.num_players)
        yield lambda games: progress.advance(task, games)


def print_ratings(pairs: Pairs, names: Sequence[str], num_players: int) -> None:
    """The strengths of the agents, if the library for it is there."""
    try:
        elo = ratings(pairs, names, num_players)
    except ImportError:
        print('\nratings need choix; install it with: pip install -e ".[train]"')
        return
    print(f"\nBradley-Terry strength in Elo points, {names[0]} at 0 (100 points: 64 % of two)")
    for name, points in sorted(elo.items(), key=lambda pair: -pair[1]):
        print(f"{name:<24}{points:>7.0f}")


def draw(pairs: Pairs, names: Sequence[str], num_players: int, file: Path) -> None:
    """A heat map of the win shares."""
    shares = np.full((len(names), len(names)), np.nan)
    for (name, other), score in pairs.items():
        shares[names.index(name), names.index(other)] = score.share
    heat_map(shares, names, num_players, file)


if __name__ == "__main__":
    sys.exit(main())

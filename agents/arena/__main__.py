"""The command of the arena.

Example:
    python -m agents.arena random reference --num-players 2 --games 20000 --json pairs.json
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import agents
from agents.arena import matches
from agents.arena.luck import network_of
from agents.arena.plots import SUFFIXES, heat_map
from alles_kaese_env import RULES_VERSION
from alles_kaese_env.command_line import (
    INTERRUPTED,
    Parser,
    add_variant,
    progress,
    provenance,
    usable_cores,
    variant_of,
    variant_words,
)
from alles_kaese_env.files import checked_output, replacing
from alles_kaese_env.seeding import as_seed
from alles_kaese_env.variant import whole_number


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    names = list(dict.fromkeys(options.agents))
    try:
        check(names, options)
    except ValueError as error:
        parser.error(str(error))
    pairs: matches.Pairs = {}
    code = 0
    try:
        play_and_print(names, options, pairs)
    except KeyboardInterrupt:
        code = INTERRUPTED
    kept, failures = write_outputs(pairs, names, options, is_complete=code == 0)
    if code:
        where = f" and written to {', '.join(kept)}" if kept else ""
        print(
            f"{parser.prog}: interrupted; {len(pairs)} pairs are complete{where}", file=sys.stderr
        )
    if failures:
        parser.error("; ".join(failures))
    return code


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
    add("--games", type=int, default=20_000, help="games of each pair (%(default)s)")
    add("--only", metavar="AGENT", help="play this agent's pairs alone")
    add("--luck-adjusted", action="store_true", help="print the shares without the luck, too")
    add("--seed", type=int, default=0, help="random seed (%(default)s)")
    cores = usable_cores()
    add("--processes", type=int, default=1, help=f"in parallel (1; cores here: {cores})")
    add("--json", type=Path, metavar="FILE", help="the pairs")
    add("--csv", type=Path, metavar="FILE", help="the pairs")
    add("--plot", type=Path, metavar="FILE", help="a heat map of the win shares, PNG or SVG")
    add_variant(parser)
    return parser


def check(names: Sequence[str], options: argparse.Namespace) -> None:
    """Raise `ValueError` if an option is not what is allowed, before anything is played."""
    whole_number("--games", options.games, 2, matches.MOST_GAMES)
    whole_number("--processes", options.processes, 1, 1024)
    as_seed(options.seed)
    options.rules = variant_of(options)
    options.num_players = options.rules.num_players
    for name in names:
        matches.cached_agent(name, options.rules)
    if options.only not in (None, *names):
        raise ValueError(f"--only is {options.only!r}; allowed: {', '.join(names)}")
    if options.luck_adjusted:
        network_of(options.rules)
    for option, file in outputs_of(options).items():
        checked_output(file, option, SUFFIXES if option == "--plot" else ())
    if options.plot and find_spec("matplotlib") is None:
        raise ValueError('--plot needs matplotlib; install it with: pip install -e ".[train]"')


def play_and_print(names: Sequence[str], options: argparse.Namespace, pairs: matches.Pairs) -> None:
    """Play all pairs, print a line for each, and add each to ``pairs``."""
    width = max(10, *(len(name) + 2 for name in names))
    heads = f"{'share':>7}  {'95 % interval':<16}"
    heads += f"{'adjusted':>8}  {'95 % interval':<18}" if options.luck_adjusted else ""
    heads += f"{'turns':>6}  {'third traps':<13}{'us/move':>9}"
    print(f"{'agent':<{width}}{'against':<{width}}{heads}  by seat", flush=True)
    shape = options.rules, options.games, options.seed, options.processes
    deals = -(-options.games // options.num_players)
    number = len(matches.pairings(names, options.num_players, options.only))
    played = 0
    with progress("games", number * deals * options.num_players) as show:

        def on_part(games: int) -> None:
            nonlocal played
            played += games
            show(played)

        for name, other, score in matches.all_pairs(
            names, *shape, on_part, options.only, options.luck_adjusted
        ):
            pairs[name, other] = score
            if options.num_players > 2 or (other, name) not in pairs or name == other:
                print(f"{name:<{width}}{other:<{width}}{line_of(score)}", flush=True)
    if len(names) > 2 and options.only is None:
        print_ratings(pairs, names, options.num_players)


def line_of(score: matches.Score) -> str:
    """The columns of a pair."""
    adjusted = ""
    if score.adjusted is not None:
        adjusted = (
            f"{score.adjusted:>8.4f}  {score.adjusted_low:.4f} to {score.adjusted_high:.4f}  "
        )
    return (
        f"{score.share:>7.3f}  {score.low:.3f} to {score.high:.3f}  {adjusted}"
        f"{score.turns:>6.1f}  {score.third_traps:<13.3f}{score.seconds * 1e6:>9.1f}  "
        f"{seats_in_words(score.per_seat)}"
    )


def seats_in_words(shares: Sequence[float]) -> str:
    """The share in each seat, as it stands in a line and in the CSV file."""
    return " ".join(f"{share:.3f}" for share in shares)


def print_ratings(pairs: matches.Pairs, names: Sequence[str], num_players: int) -> None:
    """The strengths of the agents, if the library for it is there."""
    try:
        elo = matches.ratings(pairs, names, num_players)
    except ImportError:
        print('\nratings need choix; install it with: pip install -e ".[train]"')
        return
    print(f"\nBradley-Terry strength in Elo points, {names[0]} at 0 (100 points: 64 % of two)")
    for name, points in sorted(elo.items(), key=lambda pair: -pair[1]):
        print(f"{name:<24}{points:>7.0f}")


# --- Outputs -------------------------------------------------------------------------------


def outputs_of(options: argparse.Namespace) -> dict[str, Path]:
    """The files that were asked for, by their options."""
    named = {"--json": options.json, "--csv": options.csv, "--plot": options.plot}
    return {option: file for option, file in named.items() if file is not None}


def write_outputs(
    pairs: matches.Pairs, names: Sequence[str], options: argparse.Namespace, *, is_complete: bool
) -> tuple[list[str], list[str]]:
    """Write each file atomically; returns the files written, and a line for each that failed."""
    rows = [
        {"agent": name, "against": other, "num_players": options.num_players}
        | {field: value for field, value in asdict(score).items() if value is not None}
        for (name, other), score in pairs.items()
    ]
    words = ["python -m agents.arena", *names, "--num-players", options.num_players]
    words += ["--games", options.games, "--seed", options.seed, *variant_words(options.rules)]
    words += ["--only", options.only] if options.only else []
    words += ["--luck-adjusted"] if options.luck_adjusted else []
    heading = {"command": " ".join(map(str, words)), "rules_version": RULES_VERSION}
    heading |= {**provenance(), "complete": is_complete}
    writers: dict[str, Callable[[Path], None]] = {
        "--json": lambda file: write_json({**heading, "pairs": rows}, file),
        "--csv": lambda file: write_csv(rows, file),
        "--plot": lambda file: heat_map(shares_of(pairs, names), names, options.num_players, file),
    }
    written: list[str] = []
    failures: list[str] = []
    for option, file in outputs_of(options).items() if pairs else ():
        failure = failure_of(writers[option], file)
        (failures if failure else written).append(failure or str(file))
    return written, failures


def failure_of(write: Callable[[Path], None], file: Path) -> str:
    """Write a file; returns why it failed, or an empty text."""
    try:
        write(file)
    except OSError as error:
        return f"{file} is not written: {error}"
    return ""


def write_json(data: dict[str, Any], file: Path) -> None:
    """The pairs and where they come from."""
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def write_csv(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """The pairs, a line each."""
    with (
        replacing(file) as temporary,
        open(temporary, "w", newline="", encoding="utf-8", errors="surrogateescape") as stream,
    ):
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "per_seat": seats_in_words(row["per_seat"])} for row in rows)


def shares_of(pairs: matches.Pairs, names: Sequence[str]) -> Any:
    """The win shares (A, A) of the agent of the row against that of the column, or NaN."""
    shares = np.full((len(names), len(names)), np.nan)
    for (name, other), score in pairs.items():
        shares[names.index(name), names.index(other)] = score.share
    return shares


if __name__ == "__main__":
    sys.exit(main())

"""Play against agents, in the terminal or in a window.

Example:
    python -m agents.play --opponents heuristic search:400 --save game.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agents import names as agent_names
from agents.play.session import PlaySession
from agents.play.table import YOU, Table
from alles_kaese_env.command_line import Parser, add_variant, variant_of
from alles_kaese_env.core.records import MAX_PLAYERS
from alles_kaese_env.files import checked_output
from alles_kaese_env.replay import ALL, PUBLIC, Perspective, save
from alles_kaese_env.variant import Variant, whole_number
from alles_kaese_env.viewer.session import run_session
from alles_kaese_env.viewer.text import describe_perspective
from alles_kaese_env.viewer.view import view_of_replay

SECONDS = 0.7  # between the moves of opponents, so that one can follow them


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        if options.save:
            checked_output(options.save, "--save")
        table = table_of(options)
    except ValueError as error:
        parser.error(str(error))
    if not options.window and not (sys.stdin.isatty() and sys.stdout.isatty()):
        parser.error("input or output is no terminal; allowed: a terminal, or --window")
    session = PlaySession(table, options.delay)
    code = run_session(session, parser, in_window=options.window)
    perspective = options.seat if options.view == "own" else options.view
    return save_game(table, options.save, perspective) or code


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python -m agents.play",
        description="Play against agents. Arrow keys or slot numbers choose, Enter acts, h asks "
        "the search agent for a hint; what you peeked at stays shown.",
        epilog="example: python -m agents.play --opponents heuristic reference",
    )
    add = parser.add_argument
    add(
        "--opponents",
        nargs="+",
        default=["heuristic"],
        metavar="AGENT",
        help=f"1 to {MAX_PLAYERS - 1}, in turn order after you (heuristic); {agent_names()}",
    )
    add("--seat", type=int, default=0, help="yours, from 0, which begins (0)")
    add("--delay", type=float, default=SECONDS, help="seconds for a move to be seen (%(default)s)")
    add_common(parser, (PUBLIC, "own", ALL))
    return parser


def add_common(parser: argparse.ArgumentParser, views: Sequence[str]) -> None:
    """The options that `agents.watch` has too."""
    add = parser.add_argument
    add("--seed", type=int, help="random seed of cards, dice and agents (another game each time)")
    add("--window", action="store_true", help="in a window instead of the terminal")
    add("--save", type=Path, metavar="FILE", help="write the game, for alles_kaese_env.viewer")
    add("--view", choices=views, default=PUBLIC, help="what the file holds (%(default)s)")
    add_variant(parser, has_players=False)


def table_of(options: argparse.Namespace) -> Table:
    """The game with the person in their seat and the opponents after it in turn order.

    Raises:
        ValueError: a number or a name is not what is allowed.
    """
    opponents, seat = options.opponents, options.seat
    if not 0 <= options.delay <= 60:
        raise ValueError(f"--delay is {options.delay}; allowed: 0 to 60 seconds")
    if not 0 <= seat <= len(opponents):
        raise ValueError(f"--seat is {seat}; allowed: a whole number from 0 to {len(opponents)}")
    if YOU in opponents:
        raise ValueError(f"--opponents has {YOU!r}; allowed: agents, since you have a seat already")
    after = len(opponents) - seat
    names = [*opponents[after:], YOU, *opponents[:after]]
    return Table(names, options.seed, rules_for(len(names), options))


def rules_for(players: int, options: argparse.Namespace) -> Variant:
    """The rules that the options ask for; `ValueError` if they are not what is allowed."""
    whole_number("number of players", players, 2, MAX_PLAYERS)
    return variant_of(options, num_players=players)


def save_game(table: Table, path: Path | None, perspective: Perspective) -> int:
    """Write the game if asked to, also one that was left; returns the exit code."""
    if path is None:
        return 0
    replay = table.replay(perspective)
    try:
        save(replay, path)
    except OSError as error:
        print(f"the game is not saved: {error}", file=sys.stderr)
        return 1
    print(f"wrote {path}, {describe_perspective(view_of_replay(replay))}", file=sys.stderr)
    print(f"see it with: python -m alles_kaese_env.viewer {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

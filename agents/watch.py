"""Watch agents play a game, in the terminal or in a window.

Example:
    python -m agents.watch heuristic reference random
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from agents import names as agent_names
from agents.play.__main__ import add_common, rules_for, save_game
from agents.play.table import YOU, Table
from alles_kaese_env.command_line import INTERRUPTED, Parser
from alles_kaese_env.core.records import MAX_PLAYERS
from alles_kaese_env.files import checked_output
from alles_kaese_env.replay import ALL, PUBLIC
from alles_kaese_env.viewer.__main__ import show


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        if options.save:
            checked_output(options.save, "--save")
        if YOU in options.agents:
            raise ValueError(f"agent is {YOU!r}; allowed: {agent_names()} (you play: agents.play)")
        table = Table(options.agents, options.seed, rules_for(len(options.agents), options))
    except ValueError as error:
        parser.error(str(error))
    try:
        play_out(table)
    except KeyboardInterrupt:
        print(f"\n{parser.prog}: interrupted", file=sys.stderr)
        return save_game(table, options.save, options.view) or INTERRUPTED
    code = save_game(table, options.save, options.view)
    replay = table.replay(options.view)
    return code or show(replay, parser, in_window=options.window, is_playing=True)


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python -m agents.watch",
        description="Watch agents play a game, forwards and backwards (keys: left, right, Home, "
        "End, space, q). Into a pipe, it is printed turn by turn.",
        epilog="example: python -m agents.watch heuristic reference random",
    )
    parser.add_argument(
        "agents",
        nargs="+",
        metavar="AGENT",
        help=f"2 to {MAX_PLAYERS}, one for each seat: {agent_names()}",
    )
    add_common(parser, (PUBLIC, ALL))
    return parser


def play_out(table: Table) -> None:
    """Play to the end; a terminal shows how far it is."""
    is_shown = sys.stderr.isatty()
    turns = 0
    while not table.is_over:
        table.act(table.choose())
        turns += 1
        if is_shown:
            print(f"\rplaying, turn {turns}", end="", file=sys.stderr, flush=True)
    if is_shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""What commands share that find something in rounds, such as parameters or weights."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from alles_kaese_env.command_line import Parser, at_least
from alles_kaese_env.files import write_entry

T = TypeVar("T")
CHECK_KEY = 2  # of the seed of the deals of the final check; rounds have key 1


def parser_of(
    module: str, what: str, numbers: Sequence[tuple[str, int, int, str]], out: Path
) -> Parser:
    """The options of a command: the number of players, other numbers, and where to write.

    ``numbers`` has for each option its name, default, lowest value and meaning.
    """
    parser = Parser(
        prog=f"python -m {module}",
        description=f"{what}; Ctrl-C keeps what was found.",
        epilog=f"example: python -m {module} --num-players 2",
    )
    parser.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    for name, value, low, meaning in numbers:
        parser.add_argument(
            name, type=at_least(low), default=value, help=f"{meaning} (%(default)s)"
        )
    parser.add_argument("--out", type=Path, default=out, help="default: %(default)s")
    return parser


def last_of(rounds: Iterator[tuple[T, float]], number: int, what: str) -> tuple[T | None, int]:
    """What the last of some rounds found, and how many there were; Ctrl-C ends them early.

    Each round yields what it found and a figure, named ``what``, that is printed.
    """
    found, done, begin = None, 0, time.monotonic()
    try:
        for result, figure in rounds:
            found, done = result, done + 1
            left = (time.monotonic() - begin) / done * (number - done)
            print(
                f"round {done}/{number}: {what} {figure:.4f}, about {left:.0f} s left", flush=True
            )
    except KeyboardInterrupt:
        print(f"interrupted after {done} rounds; what they found is kept", flush=True)
    return found, done


def keep(
    file: Path, about: str, num_players: int, entry: dict[str, Any], check: Callable[[], Any]
) -> bool:
    """Check what was found, unless Ctrl-C ends it, and write all of it; whether it was checked."""
    try:
        entry["check"] = check()
    except KeyboardInterrupt:
        print("interrupted; what was found is kept without a check", flush=True)
        entry["check"] = None
    write_entry(file, about, num_players, entry)
    print(json.dumps(entry, indent=2))
    return entry["check"] is not None

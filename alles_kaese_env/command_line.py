"""What the commands of the project share: errors in one line, progress, where a file came from."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn, TextIO

from gymnasium.error import DependencyNotInstalled

from alles_kaese_env.variant import BURN_RULES, VARIANTS, Variant

MISSING = (ImportError, DependencyNotInstalled)  # what an extra raises that is not installed
SECONDS_BETWEEN_LINES = 30.0
INTERRUPTED = 130  # the exit code of what Ctrl-C ended, as shells have it


class NoDisplayError(RuntimeError):
    """A window is asked for where there is no display."""


class Parser(argparse.ArgumentParser):
    """A parser that answers wrong use with one line and exit code 2."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments; whatever the program prints afterwards, no encoding stops it."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # On a terminal, a screen keeps its columns.
                stream.reconfigure(errors="replace" if stream.isatty() else "backslashreplace")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """End the program; the usage is left to ``--help``."""
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")


def at_least(low: int) -> Callable[[str], int]:
    """A type of `argparse`: a whole number from ``low`` on."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number from {low} on")
        return int(text)

    return number


def numbers(text: str) -> tuple[int, ...]:
    """A type of `argparse`: whole numbers with commas between them."""
    words = text.split(",")
    if not all(word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: whole numbers such as 1,1")
    return tuple(map(int, words))


# The rules of a command: a named variant, and fields that replace some of its own.
RULE_OPTIONS: dict[str, dict[str, Any]] = {
    "variant": {"choices": VARIANTS, "help": "rules by their name"},
    "num_players": {"type": int, "choices": range(2, 7)},
    "traps": {"type": numbers, "metavar": "N,N", "help": "traps by holes"},
    "copies": {"type": numbers, "metavar": "N,N", "help": "cards by holes"},
    "row_size": {"type": int, "metavar": "N", "help": "slots of the row"},
    "trap_limit": {"type": int, "metavar": "N", "help": "the trap that loses"},
    "burn": {"choices": BURN_RULES, "help": "when a card of the reserve is burned"},
}


def add_variant(
    parser: argparse.ArgumentParser, default: str = "full", *, has_players: bool = True
) -> None:
    """The options for the rules, with or without the number of players; see `variant_of`."""
    group = parser.add_argument_group(f"rules (--variant {default}; the others change its fields)")
    for name, about in RULE_OPTIONS.items():
        if has_players or name != "num_players":
            group.add_argument(f"--{name.replace('_', '-')}", **about)


def variant_of(options: argparse.Namespace, default: str = "full", **fields: Any) -> Variant:
    """The rules that the options ask for.

    Args:
        options: what a parser with `add_variant` has read.
        default: the name of the variant if none is named.
        fields: of `Variant` that do not come from the options.

    Raises:
        ValueError: a field is not what is allowed.
    """
    given = {name: getattr(options, name, None) for name in RULE_OPTIONS}
    given = {name: value for name, value in given.items() if value is not None} | fields
    return Variant.named(given.pop("variant", default), **given)


def variant_words(variant: Variant) -> list[str]:
    """The options that ask for rules, without the number of players."""
    for name, known in VARIANTS.items():
        if replace(variant, num_players=known.num_players) == known:
            return ["--variant", name] if name != "full" else []
    words = []
    for name in list(RULE_OPTIONS)[2:]:
        value = getattr(variant, name)
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [f"--{name.replace('_', '-')}", text]
    return words


def usable_cores() -> int:
    """Cores that this process may use: its affinity and, on Linux, the limits of its cgroups.

    A limit that is no whole number counts as the next smaller one.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min([cores, *map(int, _cgroup_limits(Path("/proc/self/cgroup")))]))


def _cgroup_limits(membership: Path, root: Path = Path("/sys/fs/cgroup")) -> Iterator[float]:
    """Cores that a process may use, by each of its cgroups that has a limit (versions 1 and 2).

    Args:
        membership: lines ``number:controllers:path``, as in ``/proc/self/cgroup``.
        root: where the cgroups are mounted.
    """
    with suppress(OSError, ValueError):
        for line in membership.read_text(encoding="utf-8").splitlines():
            _, controllers, own = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            # A container sees its own group as the root, so each one above counts as well.
            for group in [PurePosixPath(own), *PurePosixPath(own).parents]:
                folder = root / ("cpu" if controllers else "") / str(group).lstrip("/")
                names = ["cpu.cfs_quota_us", "cpu.cfs_period_us"] if controllers else ["cpu.max"]
                with suppress(OSError, ValueError, ZeroDivisionError):
                    texts = [(folder / name).read_text(encoding="utf-8") for name in names]
                    quota, period = " ".join(texts).split()
                    if float(quota) > 0:  # "max" and -1 stand for none
                        yield float(quota) / float(period)


def needs_extra(what: str, extra: str, error: Exception) -> str:
    """The line for a package that is missing, with how to install it."""
    return (
        f'{what} needs the extra "{extra}" ({str(error).splitlines()[0]}); install it with: '
        f'pip install "alles-kaese[{extra}]", in a clone: pip install -e ".[{extra}]"'
    )


@contextmanager
def progress(
    what: str, total: int, done: int = 0, stream: TextIO | None = None
) -> Iterator[Callable[..., None]]:
    """Show how far some work is: a bar on a terminal, elsewhere a line now and then.

    Args:
        what: the unit of the work, such as "games".
        total: how much there is to do.
        done: how much has been done before.
        stream: where to show it; None stands for the errors.

    Yields:
        A function ``show(done, note="")`` to call as often as one likes.
    """
    stream = sys.stderr if stream is None else stream
    lines = _lines(what, total, stream)
    if not stream.isatty():
        yield lines
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield lines
        return
    columns: list[Any] = [TextColumn(what), BarColumn(bar_width=12)]
    columns += [TextColumn("{task.percentage:.0f} %"), TextColumn("{task.fields[note]}")]
    columns += [TimeRemainingColumn(), TextColumn("left")]
    with Progress(
        *columns,
        console=Console(file=stream, markup=False),
        transient=True,
        refresh_per_second=2,
    ) as bar:
        task = bar.add_task(what, total=total, completed=min(done, total), note="")
        yield lambda done, note="": bar.update(task, completed=min(done, total), note=note)


def _lines(what: str, total: int, stream: TextIO) -> Callable[..., None]:
    """Print a line each time that `SECONDS_BETWEEN_LINES` have passed."""
    last = time.monotonic()

    def show(done: int, note: str = "") -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{min(done, total):,} of {total:,} {what}  {note}".rstrip(), file=stream)
            stream.flush()

    return show


def provenance() -> dict[str, str | None]:
    """Version and commit of the project, for files that must say what made them.

    The commit ends in ``-dirty`` if tracked files differ from it; it is None outside a clone.
    """
    from alles_kaese_env import __version__

    root = Path(__file__).parents[1]
    commit = None
    if (root / ".git").exists():
        command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        try:
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)  # noqa: S603
            commit = done.stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            pass
    return {"version": __version__, "commit": commit}

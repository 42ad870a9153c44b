"""What benchmarks share: figures that reach their file, also when Ctrl-C ends the command."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from alles_kaese_env.command_line import INTERRUPTED, provenance
from alles_kaese_env.files import checked_output, replacing


def collect(
    parser: argparse.ArgumentParser, results: Iterable[Any], file: Path | None
) -> tuple[list[Any], int]:
    """Take results, dataclasses, as they are measured, and write those that there are.

    Args:
        parser: of the command, which it ends before the first result if ``file`` cannot be written.
        results: measures each when it is asked for.
        file: where the results go; None for nowhere.

    Returns:
        The results and the exit code of the command.
    """
    found: list[Any] = []
    code = 0
    try:
        if file:
            checked_output(file, "--json")
    except ValueError as error:
        parser.error(str(error))
    try:
        for result in results:
            found.append(result)  # noqa: PERF402 - those before an exception are kept
    except KeyboardInterrupt:
        kept = f"; {file} has them" if file else ""
        print(f"{parser.prog}: interrupted after {len(found)} results{kept}", file=sys.stderr)
        code = INTERRUPTED
    if file:
        write_json({**provenance(), "results": [asdict(result) for result in found]}, file)
    return found, code


def write_json(report: dict[str, Any], file: Path) -> None:
    """The figures, to a file or, for ``-``, to the standard output."""
    text = json.dumps(report, indent=2) + "\n"
    if file == Path("-"):
        print(text, end="")
        return
    with replacing(file) as temporary:
        temporary.write_text(text, encoding="utf-8")

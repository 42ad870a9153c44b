"""Write the generated pages: ``python docs/generate.py``, or only compare with ``--check``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from alles_kaese_env import OBSERVATION

DOCS = Path(__file__).parent


def observation_page() -> str:
    """The layout of the observation."""
    return f"""# The observation

A float32 vector of {OBSERVATION.size} numbers in [0, 1], layout version {OBSERVATION.version}, as
the observing seat sees the table. In a table by seat the first row is the observer and the others
follow in turn order; in a table by opponent the first row is the next seat. Tables are padded with
zeros to six seats, so one network plays 2 to 6 players. `OBSERVATION.decode(observation)` gives the
fields by name, `OBSERVATION.facts(observation, variant)` the same in whole numbers.

This page is written by `python docs/generate.py`.

{OBSERVATION.table()}
"""


PAGES = {"observation.md": observation_page}


def main() -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    is_check = parser.parse_args().check
    stale = [
        name
        for name, page in PAGES.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text() != page()
    ]
    for name in stale:
        if is_check:
            print(f"docs/{name} is stale; write it with: python docs/generate.py")
        else:
            (DOCS / name).write_text(PAGES[name]())
    return int(is_check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())

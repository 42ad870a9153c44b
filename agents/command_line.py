"""What the commands of the project share."""

from __future__ import annotations

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """A parser that answers wrong use with one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """End the program; the usage is left to ``--help``."""
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")

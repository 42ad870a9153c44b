"""What the commands of the project share."""

from __future__ import annotations

import argparse
from typing import NoReturn

from gymnasium.error import DependencyNotInstalled

MISSING = (ImportError, DependencyNotInstalled)  # what an extra raises that is not installed


class Parser(argparse.ArgumentParser):
    """A parser that answers wrong use with one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """End the program; the usage is left to ``--help``."""
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")


def needs_extra(what: str, extra: str, error: Exception) -> str:
    """The line for a package that is missing, with how to install it."""
    return (
        f'{what} needs the extra "{extra}" ({str(error).splitlines()[0]}); install it with: '
        f'pip install "alles-kaese[{extra}]", in a clone: pip install -e ".[{extra}]"'
    )

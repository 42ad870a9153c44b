"""Long tests are left out unless they are asked for, and those of POSIX where there is none."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # windows need no display here
NO_POSIX = pytest.mark.skip(reason="needs POSIX: fork, signals, pseudo-terminals or devices")


def pytest_collection_modifyitems(config, items):
    """Without `-m`, tests that are marked long do not run."""
    for item in items:
        if os.name != "posix" and item.get_closest_marker("posix"):
            item.add_marker(NO_POSIX)
    if config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]

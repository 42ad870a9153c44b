"""Let the tests find the agents, and leave out the long ones unless they are asked for."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[1])
if ROOT not in sys.path:  # the agents are not installed with the package
    sys.path.insert(0, ROOT)


def pytest_collection_modifyitems(config, items):
    """Without `-m`, tests that are marked long do not run."""
    if config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]

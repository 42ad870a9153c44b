"""Long tests are left out unless they are asked for."""

from __future__ import annotations


def pytest_collection_modifyitems(config, items):
    """Without `-m`, tests that are marked long do not run."""
    if config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]

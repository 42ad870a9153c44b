"""Let the tests find the agents in the repository, and what their tests share."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
for path in map(str, (TESTS.parent, TESTS / "agents")):
    if path not in sys.path:
        sys.path.insert(0, path)

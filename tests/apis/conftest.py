"""What the APIs' tests of other processes share."""

from __future__ import annotations

import pytest

from alles_kaese_env import GameBatch, Variant


@pytest.fixture(scope="session")
def _ran_threads():
    """A batch with threads, and so compiled code, has run in this process."""
    batch = GameBatch(2000, Variant(num_players=4), seed=0, threads=2, autoreset=True)
    for _ in range(5):
        batch.step(batch.random_actions())
    assert batch.games["turns"].sum() > 0
    return batch

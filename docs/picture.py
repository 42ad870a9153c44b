"""Draw the picture of the first page: ``python docs/picture.py`` (extra ``render``).

Three heuristic agents have played for some turns; seat 0 looks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

import agents
from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.viewer import picture
from alles_kaese_env.viewer.view import view_of_replay

FILE = Path(__file__).parent / "images" / "table.png"
TURNS = 18


def main() -> None:
    """Play, and write the file."""
    batch = GameBatch(1, Variant(num_players=3), seed=113, record=True)
    agent, rng = agents.make("heuristic"), np.random.default_rng(0)
    for _ in range(TURNS):
        batch.step(agent.act(batch.observations, batch.masks, rng))
    frame = picture.frame(view_of_replay(batch.replay(perspective=0)))
    Image.fromarray(frame).save(FILE, optimize=True)
    print(f"wrote {FILE}")


if __name__ == "__main__":
    main()

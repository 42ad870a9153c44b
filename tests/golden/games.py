"""Golden games: whole games as text, to be read by a person and compared line by line.

``python tests/golden/games.py`` writes them anew; the difference says what changed.
"""

from pathlib import Path

import numpy as np

from alles_kaese_env import GameBatch, Variant, describe_action
from alles_kaese_env.viewer.text import text_of as text_of_view
from alles_kaese_env.viewer.view import view_of_observation

FOLDER = Path(__file__).parent
SEED = 0
GAMES = {
    "2-players": Variant(num_players=2),
    "3-players": Variant(num_players=3),
    "4-players": Variant(num_players=4),
    "5-players": Variant(num_players=5),
    "6-players": Variant(num_players=6),
    "2-players-burn-turn": Variant(num_players=2, burn="turn"),
    "2-players-burn-never": Variant(num_players=2, burn="never"),
    "small": Variant(traps=(1, 1), copies=(2, 2), row_size=2, trap_limit=2),
}


def text_of(variant):
    """A game of random legal actions, as the seat to move sees it before each of them."""
    batch = GameBatch(1, variant, seed=SEED)
    lines = [f"{variant}", f"seed {SEED}"]
    while not batch.over[0]:
        seat = int(batch.seats[0])
        legal = " ".join(str(action) for action in np.flatnonzero(batch.masks[0]))
        action = batch.random_actions()
        lines += ["", f"--- turn {int(batch.games['turns'][0]) + 1}: seat {seat}, legal {legal}"]
        lines += [text_of_view(view_of_observation(batch.observations[0], variant, seat))]
        lines += [f"=> {describe_action(int(action[0]))}"]
        batch.step(action)
    lines += ["", "--- end"]
    for seat in range(variant.num_players):
        lines += [text_of_view(view_of_observation(batch.observe(seat)[0], variant, seat)), ""]
    lines += ["payoffs " + " ".join(f"{payoff:.4f}" for payoff in batch.payoffs[0])]
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()) + "\n"


def main():
    for name, variant in GAMES.items():
        (FOLDER / f"{name}.txt").write_text(text_of(variant))


if __name__ == "__main__":
    main()

"""Draw the pictures of README and site: ``python docs/picture.py`` (extras ``render``, ``play``).

All show games that agents play: a table for three in mid-game, and a whole game against ``ppo``,
which is also written as ``docs/game/game.json`` (`docs/generate.py` makes a page of it).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

import agents
from agents.play.session import PlaySession
from agents.play.table import YOU, Table
from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.replay import Replay, save
from alles_kaese_env.viewer import picture
from alles_kaese_env.viewer.film import pictures, seconds_of
from alles_kaese_env.viewer.session import ReplaySession
from alles_kaese_env.viewer.terminal import Terminal
from alles_kaese_env.viewer.view import view_of_replay
from alles_kaese_env.viewer.window import GameWindow

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
PLAYERS = ("heuristic", "ppo")
TURNS = 18  # of the table for three
WINDOW_TURNS = 4
LOOP = (768, 480)  # pixels of the animated picture
RULES_HEIGHT = 300  # of a picture that shows row, reserve and die


def main() -> None:
    """Play, and write the files."""
    three = played(["heuristic"] * 3, seed=113, turns=TURNS).replay(perspective=0)
    write(picture.frame(view_of_replay(three)), "table.png")
    two = played(PLAYERS, seed=1).replay(perspective="public", names=PLAYERS)
    save(two, DOCS / "game" / "game.json")
    draw_loop(two, IMAGES / "game.webp")
    views = [view_of_replay(two, position) for position in range(len(two) - 1)]
    for name, is_match in (("peek.png", False), ("match.png", True)):
        view = next(one for one in views[2:] if bool(one.matching) == is_match)
        write(picture.frame(view)[:RULES_HEIGHT], name)
    asyncio.run(draw_terminal(ReplaySession(two), IMAGES / "terminal.svg"))
    draw_window(IMAGES / "window.png")


def played(names: Sequence[str], seed: int, turns: int = 10_000) -> GameBatch:
    """A recorded game after so many turns, or at its end."""
    batch = GameBatch(1, Variant(num_players=len(names)), seed=seed, record=True)
    table, rng = [agents.make(name) for name in names], np.random.default_rng(0)
    while not batch.over[0] and batch.games["turns"][0] < turns:
        agent = table[batch.seats[0]]
        batch.step(agent.act(batch.observations, batch.masks, rng))
    return batch


def write(pixels: np.ndarray, name: str) -> None:
    """A picture with as many colours as it needs to look the same."""
    Image.fromarray(pixels).save(IMAGES / name, optimize=True)


def draw_loop(replay: Replay, file: Path) -> None:
    """All turns as an animated picture."""
    first, *others = (Image.fromarray(one).resize(LOOP) for one in pictures(replay))
    durations = [int(1000 * seconds) for seconds in seconds_of(replay)]
    first.save(file, save_all=True, append_images=others, duration=durations, loop=0, quality=70)


async def draw_terminal(session: ReplaySession, file: Path) -> None:
    """The screen of a terminal in mid-game."""
    app = Terminal(session)
    async with app.run_test(size=(80, 24)) as pilot:
        session.step(session.last // 2)
        await pilot.pause(0.2)
        drawing = app.export_screenshot()
    fonts = re.compile(r"@font-face \{.*?\}", re.DOTALL)  # those of another server
    file.write_text(fonts.sub("", drawing), encoding="utf-8")


def draw_window(file: Path) -> None:
    """A person plays against ``ppo`` in the window, and takes and peeks at what comes first."""
    session = PlaySession(Table([YOU, "ppo"], seed=1), delay=0)
    while len(session.view.turns) < WINDOW_TURNS or not session.table.is_persons_turn:
        if session.table.is_over:
            break
        session.press("enter")
        session.tick(1)
        time.sleep(0.01)
    window = GameWindow(session)
    screen = picture.pygame.Surface(window.size)
    window.paint(screen)
    picture.pygame.image.save(screen, file)


if __name__ == "__main__":
    main()

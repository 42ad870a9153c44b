"""The end of a run: the table of win shares and the learning curves."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table

import agents
from agents.arena.matches import Score, win_share
from agents.ppo.agent import PPOAgent
from agents.ppo.callbacks import YARDSTICKS
from agents.ppo.config import Config, RunDirectory
from alles_kaese_env.files import replacing

REPORT_GAMES = 20_000


Scores: TypeAlias = "dict[tuple[int, str], Score]"  # by number of players and yardstick


def measure(agent: PPOAgent, config: Config) -> Scores:
    """The win shares of the trained agent against the yardsticks, and against the agent that it is
    a best response to, with other deals than before.
    """
    fixed = [] if config.opponents in ("self", "pool") else [config.opponents]
    return {
        (players, name): win_share(
            agent, agents.make(name), num_players=players, games=REPORT_GAMES, seed=2
        )
        for players in config.num_players
        for name in dict.fromkeys([*YARDSTICKS, *fixed])
    }


def write_report(run: RunDirectory, scores: Scores) -> None:
    """Keep the figures in ``report.json``."""
    pairs = [
        {"agent": f"ppo:{run.path}", "against": name, "num_players": players, **asdict(score)}
        for (players, name), score in scores.items()
    ]
    with replacing(run.report) as temporary:
        temporary.write_text(json.dumps({"pairs": pairs}, indent=2) + "\n")


def print_report(scores: Scores, console: Console) -> None:
    """The table that a run ends with."""
    table = Table(title="Win share", box=box.SIMPLE)
    for column in ("players", "against", "games", "share", "95 % interval", "worst to best seat"):
        table.add_column(column, justify="left" if column == "against" else "right")
    for (players, name), score in scores.items():
        table.add_row(
            str(players),
            name,
            f"{score.games:,}",
            f"{score.share:.3f}",
            f"{score.low:.3f} to {score.high:.3f}",
            f"{min(score.per_seat):.3f} to {max(score.per_seat):.3f}",
        )
    console.print(table)

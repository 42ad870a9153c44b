"""The end of a run: the table of win shares and the learning curves."""

from __future__ import annotations

import json
from dataclasses import asdict

import matplotlib
from rich.console import Console
from rich.table import Table

import agents
from agents.arena import Score, win_share
from agents.files import replacing
from agents.ppo import PPOAgent
from agents.training.callbacks import YARDSTICKS, evaluations_of
from agents.training.config import Config, RunDirectory

REPORT_GAMES = 20_000


def measure(agent: PPOAgent, config: Config) -> dict[str, Score]:
    """The win shares of the trained agent against the yardsticks, with other deals than before."""
    return {
        name: win_share(
            agent,
            agents.make(name),
            num_players=config.num_players,
            games=REPORT_GAMES,
            seed=2,
        )
        for name in YARDSTICKS
    }


def write_report(run: RunDirectory, scores: dict[str, Score]) -> None:
    """Keep the figures in ``report.json``."""
    with replacing(run.report) as temporary:
        data = {name: asdict(score) for name, score in scores.items()}
        temporary.write_text(json.dumps(data, indent=2) + "\n")


def print_report(scores: dict[str, Score], num_players: int, console: Console) -> None:
    """The table that a run ends with."""
    table = Table(title=f"Win share, {num_players} players, every seat alike")
    for column in ("against", "games", "share", "95 % interval", "by seat", "turns", "third traps"):
        table.add_column(column, justify="left" if column == "against" else "right")
    for name, score in scores.items():
        table.add_row(
            name,
            f"{score.games:,}",
            f"{score.share:.3f}",
            f"{score.low:.3f} to {score.high:.3f}",
            " ".join(f"{share:.3f}" for share in score.per_seat),
            f"{score.turns:.1f}",
            f"{score.third_traps:.3f}",
        )
    console.print(table)


def draw_curves(run: RunDirectory, num_players: int) -> None:
    """Win share by steps of training, with intervals, as ``curves.png``."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = evaluations_of(run.evaluations)
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name in YARDSTICKS:
        mine = [row for row in rows if row["against"] == name]
        steps = [int(row["step"]) / 1e6 for row in mine]
        line = axes.plot(steps, [float(row["share"]) for row in mine], label=f"against {name}")[0]
        low, high = ([float(row[key]) for row in mine] for key in ("low", "high"))
        axes.fill_between(steps, low, high, alpha=0.25, color=line.get_color(), linewidth=0)
    axes.axhline(1 / num_players, color="grey", linewidth=0.8, linestyle="--")
    axes.set_xlabel("million decisions of the learner")
    axes.set_ylabel("win share (band: 95 % interval)")
    axes.set_title(f"PPO by self-play, {num_players} players")
    axes.legend()
    axes.grid(alpha=0.25)
    with replacing(run.curves) as temporary:
        figure.savefig(temporary, dpi=150)
    plt.close(figure)

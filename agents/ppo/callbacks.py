"""What happens beside the learning: evaluation, checkpoints and the progress bar."""

from __future__ import annotations

import csv
import time
from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

import agents
from agents.arena.matches import Score, win_share
from agents.arena.plots import evaluations_of
from agents.ppo.agent import PPOAgent
from agents.ppo.checkpoint import RunError, save_checkpoint
from agents.ppo.config import RunDirectory
from agents.ppo.self_play import network_of
from alles_kaese_env.files import replacing

YARDSTICKS = ("random", "reference")
EVALUATIONS = 20  # in a run, evenly spread
EVALUATION_GAMES = 4_000  # against each yardstick, shared among the numbers of players
EVALUATION_FIELDS = ("step", "seconds", "num_players", "against", "games", "share", "low", "high")


class Evaluation(BaseCallback):
    """Measures the win share of the present policy, playing greedily, against fixed agents.

    The policy that did best against the last of them is kept. ``latest`` holds the scores by
    number of players and yardstick.
    """

    def __init__(self, run: RunDirectory, num_players: Sequence[int], total_steps: int) -> None:
        super().__init__()
        self.latest: dict[tuple[int, str], Score] = {}
        self._run = run
        self._num_players = num_players
        self._every = max(1, total_steps // EVALUATIONS)
        self._next = 0
        self._started = time.monotonic()
        self._yardsticks = {name: agents.make(name) for name in YARDSTICKS}

    def _on_training_start(self) -> None:
        self._next = self.model.num_timesteps // self._every * self._every
        try:
            rows = evaluations_of(self._run.evaluations)
        except ValueError as error:
            raise RunError(str(error)) from None
        self._started = time.monotonic() - (float(rows[-1]["seconds"]) if rows else 0.0)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.model.num_timesteps >= self._next:
            self._next += self._every
            self.evaluate()

    def evaluate(self) -> None:
        """Measure now, once a step; the figures go to ``evaluations.csv`` and to the logger.

        The file always holds whole evaluations, whatever ends the run.
        """
        rows = evaluations_of(self._run.evaluations)
        if rows and int(rows[-1]["step"]) >= self.model.num_timesteps:
            return
        agent = PPOAgent(network_of(self.model))
        games = EVALUATION_GAMES // len(self._num_players)
        for players in self._num_players:
            for name, yardstick in self._yardsticks.items():
                score = win_share(agent, yardstick, num_players=players, games=games, seed=1)
                self.latest[players, name] = score
                self.logger.record(f"evaluation/{players}_players_{name}", score.share)
                rows.append(self._row(players, name, score))
        with replacing(self._run.evaluations) as file, open(file, "w", newline="") as stream:
            writer = csv.DictWriter(stream, EVALUATION_FIELDS)
            writer.writeheader()
            writer.writerows(rows)
        self._keep_best(agent, rows)

    def summary(self) -> str:
        """The latest win shares in a few words; of several numbers of players only the first."""
        first = self._num_players[0]
        shares = (
            f"{score.share:.3f} v. {name}"
            for (players, name), score in self.latest.items()
            if players == first
        )
        return ", ".join(shares)

    def _keep_best(self, agent: PPOAgent, rows: Sequence[dict[str, str]]) -> None:
        strength = strengths(rows)
        if strength[self.model.num_timesteps] >= max(strength.values()):
            agent.metadata = self._run.metadata(self.model.num_timesteps)
            agent.save(self._run.best)

    def _row(self, players: int, name: str, score: Score) -> dict[str, str]:
        seconds = round(time.monotonic() - self._started, 1)
        numbers = (f"{number:.4f}" for number in (score.share, score.low, score.high))
        values = (self.model.num_timesteps, seconds, players, name, score.games, *numbers)
        return dict(zip(EVALUATION_FIELDS, map(str, values), strict=True))


def strengths(rows: Sequence[dict[str, str]]) -> dict[int, float]:
    """The win share against the last yardstick by step; with several numbers of players the sum of
    the shares, each times its number, so that being as good as the others is 1 for each.
    """
    total: dict[int, float] = defaultdict(float)
    for row in rows:
        if row["against"] == YARDSTICKS[-1]:
            total[int(row["step"])] += float(row["share"]) * int(row["num_players"])
    return total


class Checkpoints(BaseCallback):
    """Saves the model and the policy as often as it is evaluated."""

    def __init__(self, run: RunDirectory, total_steps: int) -> None:
        super().__init__()
        self._run = run
        self._every = max(1, total_steps // EVALUATIONS)
        self._next = 0

    def _on_training_start(self) -> None:
        self._next = (self.model.num_timesteps // self._every + 1) * self._every

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.model.num_timesteps >= self._next:
            self._next += self._every
            save(self.model, self._run)


def save(model: BaseAlgorithm, run: RunDirectory) -> None:
    """Write the checkpoint and the policy, each whole or not at all."""
    save_checkpoint(model, run.path)
    agent = PPOAgent(network_of(model), metadata=run.metadata(model.num_timesteps))
    agent.save(run.policy)


class Speed(BaseCallback):
    """Ends a run after its second update, and keeps how long that rollout and update took."""

    def __init__(self) -> None:
        super().__init__()
        self._starts: list[float] = []

    @property
    def seconds(self) -> float:
        """From the second rollout to the third."""
        return self._starts[2] - self._starts[1]

    def _on_rollout_start(self) -> None:
        self._starts.append(time.perf_counter())

    def _on_step(self) -> bool:
        return len(self._starts) < 3


class ProgressBar(BaseCallback):
    """A bar with steps a second, the present win shares and the time left."""

    def __init__(self, total_steps: int, evaluation: Evaluation, console: Console) -> None:
        super().__init__()
        self._total = total_steps
        self._evaluation = evaluation
        self._started_at = 0
        self._progress = Progress(
            BarColumn(bar_width=12),
            TextColumn("{task.percentage:.0f} %"),
            TextColumn("{task.fields[speed]:,.0f} steps/s"),
            TextColumn("{task.fields[shares]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            refresh_per_second=2,
        )

    def _on_training_start(self) -> None:
        self._started_at = self.model.num_timesteps
        self._started = time.monotonic()
        self._task = self._progress.add_task(
            "", total=self._total, completed=self._started_at, speed=0, shares=""
        )
        self._progress.start()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        steps = self.model.num_timesteps
        elapsed = time.monotonic() - self._started
        shares = self._evaluation.summary()
        self._progress.update(
            self._task,
            completed=min(steps, self._total),
            speed=(steps - self._started_at) / elapsed,
            shares=shares,
        )

    def _on_training_end(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the bar as it is."""
        self._progress.stop()

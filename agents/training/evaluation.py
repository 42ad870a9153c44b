"""How strong a policy is: evaluations during training, the report at its end, and the speed."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import agents
from agents.arena.matches import Score, win_share
from agents.arena.plots import BEST_RESPONSE, evaluations_of, learning_curves
from agents.ppo.agent import PolicyNetwork, PPOAgent
from agents.solve import exploitability
from agents.training.options import Config
from agents.training.run_directory import EVALUATION_FIELDS, RunDirectory
from alles_kaese_env.command_line import usable_cores, variant_words

BASELINES = ("random", "reference")
MODES = {"": True, ",sample": False}  # of the report: endings of the name, whether it is greedy


class Evaluator:
    """Measures the win share of the greedy policy against the baselines.

    The policy that does best against the last of them is kept.

    Args:
        run: where the figures go.
        config: of the run.
    """

    def __init__(self, run: RunDirectory, config: Config) -> None:
        self._run = run
        self._config = config
        self._latest: dict[tuple[int, str], Score] = {}
        self._exploitability: float | None = None
        self._baselines = {name: agents.make(name, config.rules_of_agents) for name in BASELINES}
        self._rows = evaluations_of(run.evaluations)
        before = float(self._rows[-1]["seconds"]) if self._rows else 0.0
        self._started = time.monotonic() - before

    def evaluate(self, network: PolicyNetwork, steps: int) -> dict[str, float]:
        """Measure a policy after so many steps, once; returns the figures by name."""
        if self._has_measured(steps, *BASELINES):
            return {}
        agent, rows = PPOAgent(network), []
        games = max(1, self._config.evaluation_games // len(self._config.num_players))
        for players, (name, baseline) in product(self._config.num_players, self._baselines.items()):
            rules = self._config.rules(players)
            score = win_share(agent, baseline, variant=rules, games=games, seed=1)
            self._latest[players, name] = score
            numbers = (f"{number:.4f}" for number in (score.share, score.low, score.high))
            rows.append(self._row(steps, players, name, score.games, *numbers, ""))
        self._rows += rows
        self._run.write_evaluations(self._rows)
        strength = strengths(self._rows)
        if strength[steps] >= max(strength.values()):
            self._run.save_policy(agent, steps, self._run.best)
        return {
            f"evaluation/{players}_players_{name}": score.share
            for (players, name), score in self._latest.items()
        }

    def exploit(self, network: PolicyNetwork, steps: int) -> dict[str, float]:
        """Let best responses play against the policy after so many steps, once.

        The policy is sampled if it has probabilities. Against them its win share, as the mean of
        both seats, is exactly (1 - exploitability) / 2.
        """
        if self._has_measured(steps, BEST_RESPONSE):
            return {}
        agent = PPOAgent(network, is_greedy=self._config.is_greedy_only)
        self._exploitability = exploitability(agent, self._config.rules(2)).value
        share = f"{(1 - self._exploitability) / 2:.5f}"
        measured = f"{self._exploitability:.5f}"
        self._rows.append(self._row(steps, 2, BEST_RESPONSE, 0, share, share, share, measured))
        self._run.write_evaluations(self._rows)
        return {"evaluation/exploitability": self._exploitability}

    def _has_measured(self, steps: int, *against: str) -> bool:
        """Whether there are figures after so many steps or more."""
        return any(int(row["step"]) >= steps for row in self._rows if row["against"] in against)

    def _row(self, steps: int, *values: Any) -> dict[str, str]:
        """A row of ``evaluations.csv``, from its third field on."""
        seconds = round(time.monotonic() - self._started, 1)
        return dict(zip(EVALUATION_FIELDS, map(str, (steps, seconds, *values)), strict=True))

    def summary(self) -> str:
        """The latest win shares in a few words; of several numbers of players only the first."""
        first = self._config.num_players[0]
        shares = (
            f"{score.share:.3f} v. {name}"
            for (players, name), score in self._latest.items()
            if players == first
        )
        if self._exploitability is None:
            return ", ".join(shares)
        return ", ".join([*shares, f"exploitability {self._exploitability:.4f}"])


def strengths(rows: Sequence[dict[str, str]]) -> dict[int, float]:
    """The win share against the last baseline by step; with several numbers of players the sum of
    the shares, each times its number, so that being as good as the others is 1 for each.
    """
    total: dict[int, float] = defaultdict(float)
    for row in rows:
        if row["against"] == BASELINES[-1]:
            total[int(row["step"])] += float(row["share"]) * int(row["num_players"])
    return total


# --- The end of a run --------------------------------------------------------------------------


def report(run: RunDirectory, config: Config, network: PolicyNetwork) -> None:
    """Measure the trained policy, greedy and sampled, and leave the table and the curves.

    Opponents are the baselines and the agent that it is a best response to; the deals are others
    than those of the evaluations.
    """
    fixed = [] if config.opponents in ("self", "pool") else [config.opponents]
    heads = f"{'mode':<8}{'players':>7}  {'against':<20}{'games':>8}{'even':>7}{'share':>7}  "
    print(f"{heads}{'95 % interval':<16}  worst to best seat")
    pairs: list[dict[str, Any]] = []
    exploited: dict[str, float] = {}
    for ending, is_greedy in MODES.items():
        if config.is_greedy_only and not is_greedy:
            continue
        agent, mode = PPOAgent(network, is_greedy), "greedy" if is_greedy else "sampled"
        for players in config.num_players:
            for name in dict.fromkeys([*BASELINES, *fixed]):
                score = win_share(
                    agent,
                    agents.make(name, config.rules_of_agents),
                    variant=config.rules(players),
                    games=config.games_of_report,
                    seed=2,
                )
                pair = {"agent": f"{config.algo}:{run.path}{ending}", "mode": mode, "against": name}
                pairs.append({**pair, "num_players": players, **asdict(score)})
                print(
                    f"{mode:<8}{players:>7}  {name:<20}{score.games:>8,}{1 / players:>7.3f}"
                    f"{score.share:>7.3f}  "
                    f"{score.low:.3f} to {score.high:.3f}  "
                    f"{min(score.per_seat):.3f} to {max(score.per_seat):.3f}",
                    flush=True,
                )
        if config.exploitability_every:
            exploited[mode] = exploitability(agent, config.rules(2)).value
            print(f"{mode:<8}{2:>7}  {BEST_RESPONSE:<20} exploitability {exploited[mode]:.5f}")
    run.write_report(pairs, exploited)
    learning_curves([evaluations_of(run.evaluations)], run.curves)
    print(f"Curves: {run.curves}")
    print("Play it in the arena:", run.arena_command, *variant_words(config.variant))


# --- Speed -------------------------------------------------------------------------------------


class Speed:
    """Decisions a second, and whether they have fallen off.

    Args:
        steps: decisions made before.
    """

    WINDOW = 60.0  # seconds

    def __init__(self, steps: int) -> None:
        self._start = self._mark = time.monotonic(), steps
        self._first = 0.0  # decisions a second in the first window
        self._has_warned = False

    def mean(self, steps: int) -> float:
        """Decisions a second since the start."""
        began, before = self._start
        return (steps - before) / max(time.monotonic() - began, 1e-9)

    def warning(self, steps: int) -> str | None:
        """One line, once, when the speed of a minute is below half of that of the first one."""
        now, (then, before) = time.monotonic(), self._mark
        if now - then < self.WINDOW:
            return None
        rate = (steps - before) / (now - then)
        self._mark = now, steps
        if not self._first:
            self._first = rate
        elif rate < self._first / 2 and not self._has_warned:
            self._has_warned = True
            return (
                f"Slower: {rate:,.0f} steps/s in the last minute, {self._first:,.0f} in the first; "
                f"{_likely_cause()}"
            )
        return None


def _likely_cause() -> str:
    """Why training may have become slow."""
    cores = usable_cores()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > cores:
        return f"other processes want the cores (load {load:.1f} on {cores})"
    return "the cores are not overbooked; they may run slower, or the opponents may take longer"

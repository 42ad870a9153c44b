"""What every training backend does in the same way: checkpoints, evaluations, progress, the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.ppo.agent import PolicyNetwork, PPOAgent
from agents.training.evaluation import Evaluator, Speed, report
from agents.training.options import Config, WorkerLostError
from agents.training.run_directory import RunDirectory
from alles_kaese_env.command_line import INTERRUPTED, progress


@dataclass(frozen=True)
class Learner:
    """What a training backend trains.

    Attributes:
        suffix: of its checkpoints.
        steps: decisions of the learner, those before a resumption included.
        network: a frozen copy of the policy.
        write: writes a checkpoint.
        load: continues from a checkpoint; any exception means that it is broken.
    """

    suffix: str
    steps: Callable[[], int]
    network: Callable[[], PolicyNetwork]
    write: Callable[[Path], Any]
    load: Callable[[Path], Any]


class Training:
    """A training run, begun or resumed.

    Attributes:
        learned: decisions that an update has used.

    Raises:
        RunError: there is no good checkpoint to continue from, or no readable evaluations.
    """

    def __init__(
        self, run: RunDirectory, config: Config, learner: Learner, is_resumed: bool
    ) -> None:
        self._run = run
        self._config = config
        self._learner = learner
        if is_resumed:
            run.restore(learner.load)
        else:
            self.save()  # so that a run that ends early can be resumed
        self._evaluator = Evaluator(run, config)
        self._mark()

    def train(self, learn: Callable[[Training], None]) -> int:
        """Train to the end, or until Ctrl-C; returns the exit code.

        Args:
            learn: calls `evaluate` first, and then `between_rollouts` and `show_progress`.
        """
        run, config, learner = self._run, self._config, self._learner
        print(f"Run directory: {run.path}", flush=True)
        self._speed = Speed(self.learned)
        try:
            with progress("steps", config.total_steps, self.learned, sys.stdout) as self._show:
                learn(self)
            report(run, config, learner.network())
        except KeyboardInterrupt:
            self.save()
            print(f"Stopped and saved at step {run.steps():,}. Go on with:", run.resume_command)
            return INTERRUPTED
        except WorkerLostError as error:
            stands = f"the last checkpoint is at step {run.steps():,}"
            print(f"{error}; {stands}. Go on with: {run.resume_command}", file=sys.stderr)
            return 1
        return 0

    def save(self) -> None:
        """Write the checkpoint and the policy."""
        learner = self._learner
        agent = PPOAgent(learner.network())
        self._run.save(learner.write, learner.suffix, agent, learner.steps())

    def evaluate(self) -> dict[str, float]:
        """Measure the policy, once after so many steps; returns the figures by name."""
        return self._evaluator.evaluate(*self._policy()) | self._exploit()

    def _policy(self) -> tuple[PolicyNetwork, int]:
        return self._learner.network(), self._learner.steps()

    def _exploit(self) -> dict[str, float]:
        """Measure the exploitability, once after so many steps, if that is asked for."""
        asked = self._config.exploitability_every
        return self._evaluator.exploit(*self._policy()) if asked else {}

    def between_rollouts(self, is_end: bool = False) -> dict[str, float]:
        """Save and evaluate if it is time or the end; returns the figures of the evaluation."""
        self.learned = self._learner.steps()
        is_time, is_time_to_exploit = (is_end or self.learned >= steps for steps in self._next)
        figures: dict[str, float] = {}
        if is_time:
            self.save()
            figures |= self._evaluator.evaluate(*self._policy())
        if is_time_to_exploit:
            figures |= self._exploit()
        self._mark()
        return figures

    def show_progress(self) -> None:
        """Show how far the run is, and warn once if it has become slow."""
        steps = self._learner.steps()
        speed = f"{self._speed.mean(steps):,.0f} steps/s"
        self._show(steps, f"{speed}  {self._evaluator.summary()}")
        if warning := self._speed.warning(steps):
            print(warning, flush=True)

    def _mark(self) -> None:
        """The next evaluation and the next exploitability are at the next multiples."""
        self.learned = self._learner.steps()
        config = self._config
        every = config.evaluation_interval, config.exploitability_every or config.total_steps
        self._next = [(self.learned // interval + 1) * interval for interval in every]

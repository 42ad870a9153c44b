"""What every training backend does in the same way: checkpoints, evaluations, progress, the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.ppo.agent import PolicyNetwork, PPOAgent
from agents.ppo.evaluation import Evaluator, Speed, report
from agents.ppo.options import Config, WorkerLostError
from agents.ppo.run_directory import RunDirectory
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
        return self._evaluator.evaluate(self._learner.network(), self._learner.steps())

    def between_rollouts(self, is_end: bool = False) -> dict[str, float]:
        """Save and evaluate if it is time or the end; returns the figures of the evaluation."""
        self.learned = self._learner.steps()
        if not is_end and self.learned < self._next:
            return {}
        self._mark()
        self.save()
        return self.evaluate()

    def show_progress(self) -> None:
        """Show how far the run is, and warn once if it has become slow."""
        steps = self._learner.steps()
        speed = f"{self._speed.mean(steps):,.0f} steps/s"
        self._show(steps, f"{speed}  {self._evaluator.summary()}")
        if warning := self._speed.warning(steps):
            print(warning, flush=True)

    def _mark(self) -> None:
        """The next evaluation is at the next multiple of the interval."""
        every = self._config.evaluation_interval
        self.learned = self._learner.steps()
        self._next = (self.learned // every + 1) * every

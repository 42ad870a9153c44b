"""The directory of a training run: the names of its files, and all that is written to them.

Whatever ends a run, each file is whole. There are always two checkpoints, the last and the one
before it, so that a broken file costs no more than the training between them.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import filelock

from agents.arena.plots import evaluations_of
from agents.ppo.agent import WEIGHTS_FILE, PPOAgent, read_metadata, rules_of, versions
from agents.training.options import Config, RunError
from alles_kaese_env.command_line import provenance
from alles_kaese_env.files import replacing

CLONE = Path(__file__).resolve().parents[2]
LIBRARIES = ("numpy", "numba", "gymnasium", "torch", "stable-baselines3", "sb3-contrib", "ray")
EVALUATION_FIELDS = (
    *("step", "seconds", "num_players", "against", "games", "share", "low", "high"),
    "exploitability",
)


class RunDirectory:
    """A run directory; as a context manager it keeps other runs out.

    Attributes:
        config: ``config.json``: options, command, versions.
        models: ``model``, the last checkpoint, and ``model-previous``, the one before it; of
            ``--engine sb3`` they end in ``.zip``, of ``--engine rllib`` they are directories.
        policy: ``policy.npz``, with ``policy.json``: what `agents.ppo.agent.PPOAgent` loads.
        best: ``best.npz``, with ``best.json``: the policy of the best evaluation.
        pool: directory of past policies.
        evaluations: ``evaluations.csv``: win shares and exploitability during training.
        report: ``report.json``: win shares and exploitability at the end.
        curves: ``curves.png``: the evaluations as curves.

    Beside them are the logs of the training backend, and ``.lock`` while a run is at work.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.policy = path / WEIGHTS_FILE
        self.best = path / "best.npz"
        self.pool = path / "pool"
        self.evaluations = path / "evaluations.csv"
        self.report = path / "report.json"
        self.curves = path / "curves.png"
        self._lock = filelock.FileLock(path / ".lock")

    @classmethod
    def create(cls, out: Path | None, config: Config) -> RunDirectory:
        """A new run directory, locked; without ``out`` it is named by players, seed and time.

        Raises:
            RunError: ``out`` is in use or cannot be made.
        """
        try:
            run = cls(_new_directory(config) if out is None else out)
            run._check_name()
            run._check_unused()
            run.path.mkdir(parents=True, exist_ok=True)
            run.__enter__()
            try:
                run._check_unused()  # another run may have begun in the meantime
                run.pool.mkdir(exist_ok=True)
                run.write_config(config)
            except BaseException:
                run.__exit__()
                raise
        except OSError as error:
            where = f"--out is {'runs' if out is None else out}, which cannot be written"
            raise RunError(f"{where} ({error})") from None
        return run

    @classmethod
    def open(cls, path: Path) -> tuple[RunDirectory, Config]:
        """An existing run and its configuration.

        Raises:
            RunError: it is no run directory, or one without a checkpoint or readable evaluations.
        """
        run = cls(path)
        try:
            config = Config.from_json(run._read_config()["options"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"--resume is {path}, which is no run directory ({error})") from None
        if not run.checkpoints():
            raise RunError(
                f"--resume is {path}, which has no checkpoint yet; begin it with --out {path}"
            )
        try:
            evaluations_of(run.evaluations)
        except ValueError as error:
            raise RunError(str(error)) from None
        return run, config

    def __enter__(self) -> RunDirectory:
        """Keep other runs out; the system lets go of the lock, however this one ends.

        Raises:
            RunError: another run is at work there, or the directory cannot be written.
        """
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            raise RunError(f"{self.path} is in use by another run") from None
        except OSError as error:
            raise RunError(f"{self.path} cannot be written ({error})") from None
        for left in [*self.path.glob(".*.tmp*"), *self.pool.glob(".*.tmp*")]:  # by a killed run
            _remove(left)
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release(force=True)

    @property
    def resume_command(self) -> str:
        """The command that goes on with the run."""
        return self._command(f"python train.py --algo {self._algo} --resume {{}}")

    @property
    def arena_command(self) -> str:
        """The command that plays its policy against the reference."""
        return self._command("python -m agents.arena {} reference", f"{self._algo}:")

    @property
    def _algo(self) -> str:
        return str(self._read_config()["options"].get("algo", Config.algo))

    def _command(self, words: str, prefix: str = "") -> str:
        """A command about the run, to be given here; what it starts lies in the clone."""
        path = self.path
        if Path.cwd() != CLONE:
            words, path = f"cd {shlex.quote(str(CLONE))} && {words}", path.absolute()
        return words.format(shlex.quote(f"{prefix}{path}"))

    def _check_name(self) -> None:
        """Raise `RunError` for a path that TensorBoard cannot name, which does so in UTF-8."""
        try:
            str(self.path.absolute()).encode()
        except UnicodeEncodeError:
            raise RunError(
                f"--out is {self.path}, which Python cannot read in this locale; "
                "allowed: any path with PYTHONUTF8=1 in the environment, else ASCII"
            ) from None

    def _check_unused(self) -> None:
        """Raise `RunError` unless there is nothing, or what a run left that never began."""
        if not self.path.exists():
            return
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else {"file"}
        names = {name for name in names if name != ".lock" and ".tmp" not in name}
        if names <= {self.config.name, self.pool.name} and not any(self.pool.glob("*")):
            with suppress(OSError, ValueError, TypeError):
                if not names or "options" in self._read_config():
                    return
        raise RunError(f"--out is {self.path}; allowed: a directory that is new or empty")

    # --- Configuration -------------------------------------------------------------------------

    def _read_config(self) -> Any:
        return json.loads(self.config.read_text(encoding="utf-8"))

    def write_config(self, config: Config, is_resumed: bool = False) -> None:
        """Keep the options, the commands and what they ran with."""
        command = [Path(sys.executable).name, *sys.argv]
        before = self._read_config() if is_resumed else {}
        data = {
            "options": asdict(config),
            "command": before.get("command", command),
            "resumed_by": before.get("resumed_by", []) + [command] * is_resumed,
            **provenance(),
            "python": platform.python_version(),
            "processor": platform.processor() or platform.machine(),
            "workers": config.number_of_workers,
            "libraries": {name: _version_of(name) for name in LIBRARIES},
            **versions(),
        }
        _write_json(self.config, data)

    def _metadata(self, steps: int) -> dict[str, Any]:
        """What weights after so many steps carry along: rules, options, command, libraries."""
        config = self._read_config()
        rules = rules_of(Config.from_json(config["options"]).variant)
        names = ("options", "command", "version", "commit", "libraries")
        return {"steps": steps, "variant": rules, **{name: config.get(name) for name in names}}

    # --- Checkpoints and policies --------------------------------------------------------------

    def save(self, write: Callable[[Path], Any], suffix: str, agent: PPOAgent, steps: int) -> None:
        """Write a checkpoint and the policy after so many steps, each atomically.

        Args:
            write: writes the checkpoint to a path.
            suffix: of that path; the one of the last checkpoint, kept as the previous one.
            agent: the policy.
            steps: decisions that it has learned from.
        """
        last = self.path / f"model{suffix}"
        temporary = self.path / f".{last.name}.{os.getpid()}.tmp{suffix}"
        previous = self.path / f"model-previous{suffix}"
        try:
            write(temporary)
            if last.exists():
                if previous.is_dir():
                    shutil.rmtree(previous)
                os.replace(last, previous)
            os.replace(temporary, last)
        finally:
            _remove(temporary)
        self.save_policy(agent, steps, self.policy)

    def save_policy(self, agent: PPOAgent, steps: int, file: Path) -> None:
        """Write the policy after so many steps, with what made it."""
        agent.metadata = self._metadata(steps)
        agent.save(file)

    def checkpoints(self) -> list[Path]:
        """All checkpoints, the last one first."""
        names = ("model.zip", "model", "model-previous.zip", "model-previous")
        return [file for name in names if (file := self.path / name).exists()]

    def restore(self, load: Callable[[Path], Any]) -> Path:
        """Load the last good checkpoint; returns it.

        Raises:
            RunError: there is none.
        """
        reasons = []
        for path in self.checkpoints():
            try:
                load(path)
            except Exception as error:  # noqa: PERF203 - torch, zipfile, RLlib raise anything
                reason = " ".join(str(error).split())[:120] or type(error).__name__
                reasons.append(f"{path.name}: {reason}")
            else:
                return path
        raise RunError(f"{self.path} has no good checkpoint ({'; '.join(reasons)})")

    def steps(self) -> int:
        """Decisions that the saved policy has learned from; 0 if nothing can be read."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(read_metadata(self.policy.with_suffix(".json"))["steps"])
        return 0

    # --- Evaluations and report ----------------------------------------------------------------

    def write_evaluations(self, rows: Sequence[dict[str, str]]) -> None:
        """Replace ``evaluations.csv``, so that it always holds whole evaluations."""
        with (
            replacing(self.evaluations) as file,
            open(file, "w", newline="", encoding="utf-8") as stream,
        ):
            writer = csv.DictWriter(stream, EVALUATION_FIELDS)
            writer.writeheader()
            writer.writerows(rows)

    def write_report(
        self, pairs: Sequence[dict[str, Any]], exploitability: dict[str, float]
    ) -> None:
        """Keep the figures of the end; exploitability by mode, nothing where it is unknown."""
        figures = {"exploitability": exploitability} if exploitability else {}
        _write_json(self.report, {**provenance(), "pairs": pairs, **figures})


def _new_directory(config: Config) -> Path:
    """Make a directory named by players, seed and time, with a number if the name is taken."""
    players = "-".join(map(str, config.num_players))
    name = f"runs/{config.algo}-{players}p-seed{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in itertools.count(1):
        path = Path(name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            path.mkdir(parents=True)
            break
    return path


def _write_json(file: Path, data: Any) -> None:
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _version_of(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None

"""What a training run is told, and the directory that keeps it."""

from __future__ import annotations

import json
import platform
import sys
import time
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agents.ppo.agent import versions
from agents.ppo.checkpoint import has_checkpoint
from alles_kaese_env import Variant
from alles_kaese_env.files import replacing

CONFIG_FILE = "config.json"
LIBRARIES = ("numpy", "numba", "gymnasium", "torch", "stable-baselines3", "sb3-contrib", "ray")


@dataclass(frozen=True)
class Config:
    """The options of a run; the defaults are those of a few minutes on two cores.

    Attributes:
        num_players: with how many players the games are played, each 2 to 6; the games are shared
            evenly among them.
        total_steps: decisions of the learner.
        num_envs: games that are played side by side.
        opponents: "self" (the present policy), "pool" (the present policy, past ones and the
            reference heuristic), or the name of an agent.
        seed: of everything that is drawn.
        device: of the update, as torch names it.
        threads: of torch.
        n_steps: decisions in each game between two updates.
        batch_size, n_epochs, learning_rate, ent_coef, gae_lambda, clip_range: of PPO. The
            learning rate falls to 0 in a straight line.
        network: "slots", see `agents.ppo.network`, or "mlp", two plain networks of two layers.
        hidden: units of a layer.
        reward: "win" or "shaped", see `AllesKaeseEnv`.
    """

    num_players: tuple[int, ...] = (2,)
    total_steps: int = 6_000_000
    num_envs: int = 1024
    opponents: str = "pool"
    seed: int = 0
    device: str = "cpu"
    threads: int = 2
    n_steps: int = 32
    batch_size: int = 2048
    n_epochs: int = 4
    learning_rate: float = 1e-3
    ent_coef: float = 0.01
    gae_lambda: float = 0.9
    clip_range: float = 0.2
    network: str = "slots"
    hidden: int = 128
    reward: str = "win"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Config:
        """The inverse of `dataclasses.asdict`; names that are not fields are left out."""
        known = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        return cls(**{**known, "num_players": tuple(known.get("num_players", cls.num_players))})


class RunDirectory:
    """The directory of a run: configuration, logs, checkpoints, the trained policy, the report.

    ``config.json`` holds options, command and versions; ``model.zip`` the last checkpoint,
    ``model-previous.zip`` the one before it, ``.lock`` whether a run is at work;
    ``policy.npz`` and ``.json`` what `agents.ppo.PPOAgent` loads, ``best.npz`` and ``.json`` the
    policy that did best in an evaluation; ``pool/`` past policies;
    ``evaluations.csv`` win shares during training; ``progress*.csv`` and ``tensorboard/`` the
    metrics of PPO; ``report.json`` and ``curves.png`` the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model = path / "model.zip"
        self.policy = path / "policy.npz"
        self.best = path / "best.npz"
        self.pool = path / "pool"
        self.evaluations = path / "evaluations.csv"
        self.report = path / "report.json"
        self.curves = path / "curves.png"

    @classmethod
    def create(cls, out: Path | None, config: Config) -> RunDirectory:
        """A new run directory; named by players, seed and time if ``out`` is None.

        Raises:
            ValueError: there is something at ``out``, or it cannot be made.
        """
        players = "-".join(map(str, config.num_players))
        name = f"ppo-{players}p-seed{config.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
        path = Path("runs") / name if out is None else out
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise ValueError(f"--out is {path}; allowed: a directory that is new or empty")
        run = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            run.pool.mkdir()  # of two runs that begin at once, one fails here
            run.write_config(config)
        except OSError as error:
            raise ValueError(f"--out is {path}, which cannot be written ({error})") from None
        return run

    @classmethod
    def open(cls, path: Path) -> tuple[RunDirectory, Config]:
        """An existing run and its configuration.

        Raises:
            ValueError: it is no run directory, or one without a checkpoint.
        """
        run = cls(path)
        try:
            config = Config.from_json(json.loads((path / CONFIG_FILE).read_text())["options"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"--resume is {path}, which is no run directory ({error})") from None
        if not has_checkpoint(path):
            raise ValueError(f"--resume is {path}, which has no checkpoint {run.model.name} yet")
        return run, config

    def write_config(self, config: Config, is_resumed: bool = False) -> None:
        """Keep the options, the commands and what they ran with."""
        file = self.path / CONFIG_FILE
        command = [Path(sys.executable).name, *sys.argv]
        before = json.loads(file.read_text()) if is_resumed else {}
        data = {
            "options": asdict(config),
            "command": before.get("command", command),
            "resumed_by": before.get("resumed_by", []) + [command] * is_resumed,
            "python": platform.python_version(),
            "processor": platform.processor() or platform.machine(),
            "libraries": {name: _version_of(name) for name in LIBRARIES},
            **versions(),
        }
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(data, indent=2) + "\n")

    def metadata(self, steps: int) -> dict[str, Any]:
        """What weights after so many steps carry along: rules, options, command, libraries."""
        config = json.loads((self.path / CONFIG_FILE).read_text())
        variant = asdict(Variant())
        del variant["num_players"]  # stands in the options
        names = ("options", "command", "libraries")
        return {"steps": steps, "variant": variant, **{name: config[name] for name in names}}


def _version_of(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None

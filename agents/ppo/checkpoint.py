"""Checkpoints that survive whatever ends a run, and a lock that keeps two runs apart.

There are always two checkpoints, the last and the one before it, so that a broken file costs no
more than the training between them. Nothing in them is unpickled: the model is built from
``config.json``, and torch loads weights only.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock
from stable_baselines3.common.base_class import BaseAlgorithm

from alles_kaese_env.files import replacing

LOCK = ".lock"
MODEL, PREVIOUS = "model.zip", "model-previous.zip"
COUNTERS = ("num_timesteps", "_n_updates")


def save_checkpoint(model: BaseAlgorithm, directory: Path) -> None:
    """Write ``model.zip``, whole or not at all; the one before becomes ``model-previous.zip``."""
    last = directory / MODEL
    with replacing(last) as temporary:
        model.save(temporary)
        if last.exists():
            os.replace(last, directory / PREVIOUS)


def has_checkpoint(directory: Path) -> bool:
    """Whether there is a file that `restore` may read."""
    return any((directory / name).exists() for name in (MODEL, PREVIOUS))


def restore(model: BaseAlgorithm, directory: Path, seed: int) -> str:
    """Take weights, optimizer and counters of the last good checkpoint into a new model.

    All random streams (games, sampling, minibatches) begin anew, from the seed and the number of
    steps, so that a checkpoint goes on in one way alone, and with other deals than before it.

    Args:
        model: as it was when the run began.
        directory: of the run.
        seed: of the run.

    Returns:
        The name of the file that was read.

    Raises:
        RunError: there is no good checkpoint.
    """
    reasons = []
    for name in (MODEL, PREVIOUS):
        try:
            counters = _load(model, directory / name)
        except Exception as error:  # torch, zipfile and json raise anything for half a file
            reason = " ".join(str(error).split())[:120] or type(error).__name__
            reasons.append(f"{name}: {reason}")
            continue
        for counter, value in counters.items():
            setattr(model, counter, value)
        model.set_random_seed((seed + counters["num_timesteps"]) % 2**32)
        return name
    raise RunError(f"{directory} has no good checkpoint ({'; '.join(reasons)})")


def _load(model: BaseAlgorithm, file: Path) -> dict[str, int]:
    """Set the parameters of a model; returns its counters."""
    with zipfile.ZipFile(file) as archive:
        broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"{broken} is broken")
        data: dict[str, Any] = json.loads(archive.read("data"))
    counters = {name: data[name] for name in COUNTERS}
    if any(type(value) is not int or value < 0 for value in counters.values()):
        raise ValueError(f"counters are {counters}")
    model.set_parameters(str(file), device=model.device)
    return counters


class RunError(ValueError):
    """What ends a run in one line."""


@contextmanager
def only_run(directory: Path) -> Iterator[None]:
    """Keep other runs out of a directory; the system lets go of it, however this one ends.

    Raises:
        RunError: another run is at work there, or the directory cannot be written.
    """
    lock = filelock.FileLock(directory / LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise RunError(f"{directory} is in use by another run") from None
    except OSError as error:
        raise RunError(f"{directory} cannot be written ({error})") from None
    try:
        _remove_leftovers(directory)
        yield
    finally:
        lock.release()


def _remove_leftovers(directory: Path) -> None:
    """Delete the temporary files of a run that was killed while it wrote."""
    for file in [*directory.glob(".*.tmp*"), *directory.glob("pool/.*.tmp*")]:
        with suppress(OSError):
            file.unlink()

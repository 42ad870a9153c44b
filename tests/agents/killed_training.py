"""A training run that is killed again and again; prints what was left each time, as JSON.

``python tests/agents/killed_training.py DIRECTORY KILLS``. Each run is a fork of this process, so
that the time goes into training and writing, and not into imports.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path

import torch

from agents.arena.plots import evaluations_of
from agents.ppo.agent import PPOAgent
from agents.training import command, sb3
from agents.training.run_directory import RunDirectory
from agents.training.self_play import games_of

# A checkpoint and an evaluation after every rollout, so that a run mostly writes.
OPTIONS = ["--num-envs", "8", "--eval-every", "1", "--eval-games", "4", "--report-games", "4"]
MODEL = "model.zip"
LONGEST = 0.5  # seconds from a checkpoint to a kill


def train(directory):
    """Go on without end."""
    command.main(["--resume", str(directory), "--total-steps", "1000000"])


def forked(work):
    """The process that does some work, silently."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        work()
        code = 0
    finally:
        os._exit(code)


def state_of(directory):
    """The step of the checkpoint that a run would go on from; all other files are looked at."""
    run, config = RunDirectory.open(directory)
    model = sb3.new_model(config, games_of(config))
    with run:
        file = run.restore(partial(sb3.load, model, seed=config.seed))
    evaluations_of(run.evaluations)
    for weights in [run.policy, run.best, *run.pool.glob("*.npz")]:
        if weights.exists():
            PPOAgent.load(weights)
    leftovers = [*directory.rglob(".*.tmp*")]
    return {"steps": model.num_timesteps, "file": file.name, "leftovers": len(leftovers)}


def wait_for_a_checkpoint(directory, process):
    """Until the run has written one, so that kills hit writing and learning, not imports."""
    file = directory / MODEL
    before = file.stat().st_ino if file.exists() else None
    while not file.exists() or file.stat().st_ino == before:
        if os.waitpid(process, os.WNOHANG) != (0, 0):
            raise RuntimeError("the run has ended by itself")
        time.sleep(0.001)


def main(directory, kills):
    """Kill so many runs: one in four in its beginning, the others around a checkpoint."""
    torch.set_num_threads(1)
    with redirect_stdout(sys.stderr):
        command.main(["--out", str(directory), "--total-steps", "1", *OPTIONS])
    moments = random.Random(0)
    for number in range(kills):
        process = forked(lambda: train(directory))
        if number % 4:
            with suppress(FileNotFoundError):  # it is between two names at this moment
                wait_for_a_checkpoint(directory, process)
        time.sleep(moments.uniform(0, LONGEST))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        was_killed = os.WIFSIGNALED(status)
        state = state_of(directory)
        line = json.dumps({"kill": number, "was_killed": was_killed, **state})
        print(line, flush=True)  # noqa: T201 - the test that runs this as a program reads it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""A process that plays games dies: whoever waits for it is told, and nobody stays behind."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alles_kaese_env import AllesKaeseVectorEnv
from apis.helpers import PACKAGE

TOO_LONG = 300  # seconds, after which a parent counts as hanging

# A parent of two workers, the last of which is killed between two steps.
PARENT = """
import os, signal, sys
import numpy as np
from apis.helpers import maker

def actions(masks):
    return np.array([mask.argmax() for mask in masks])

def gymnasium(context):
    from gymnasium.vector import AsyncVectorEnv
    env = AsyncVectorEnv([maker(disable_env_checker=True)] * 2, context=context)
    _, infos = env.reset(seed=1)
    env.step(actions(infos["action_mask"]))
    return env, env.processes, lambda: env.step(actions(env.call("action_masks")))

def sb3(context):
    from stable_baselines3.common.vec_env import SubprocVecEnv
    env = SubprocVecEnv([maker(disable_env_checker=True)] * 2, start_method=context)
    env.reset()
    return env, env.processes, lambda: env.step(actions(env.env_method("action_masks")))

if __name__ == "__main__":
    env, workers, step = {"gymnasium": gymnasium, "sb3": sb3}[sys.argv[1]](sys.argv[2])
    print(*[worker.pid for worker in workers], flush=True)
    step()
    os.kill(workers[-1].pid, signal.SIGKILL)
    workers[-1].join()
    print("killed", flush=True)
    step()
"""


def is_alive(process):
    """Whether there is a process with this number that has not ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


# With "fork", workers of stable-baselines3 hold the pipes of their neighbours open, so that its
# parent waits for ever; its default is "forkserver".
@pytest.mark.parametrize(
    ("library", "context"),
    [("gymnasium", "fork"), ("gymnasium", "spawn"), ("sb3", "forkserver"), ("sb3", "spawn")],
)
def test_a_killed_worker_is_an_error_in_its_parent(library, context, tmp_path):
    """D10: the next step raises, and with the parent its other workers end."""
    if library == "sb3":
        pytest.importorskip("stable_baselines3", reason="needs the extra train")
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    paths = os.pathsep.join([str(PACKAGE.parent), str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, str(script), library, context],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=TOO_LONG,
        check=False,
    )
    pids, *killed = done.stdout.splitlines()
    assert killed == ["killed"], done.stderr
    assert done.returncode == 1
    assert re.search(r"^(BrokenPipe|ConnectionReset|EOF)Error", done.stderr, re.MULTILINE)
    deadline = time.monotonic() + TOO_LONG
    while any(map(is_alive, map(int, pids.split()))):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_native_vector_environment_has_no_workers():
    """All games are played in this process, so there is nobody to wait for."""
    before = set(multiprocessing.active_children())
    env = AllesKaeseVectorEnv(64, num_players=4)
    _, infos = env.reset(seed=0)
    for _ in range(20):
        *_, infos = env.step(infos["action_mask"].argmax(axis=1))
    assert set(multiprocessing.active_children()) == before
    env.close()

"""Several processes that learn as one."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import psutil
import pytest
import torch
from agent_tools import assert_one_line_of_error, start_python
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import Logger

from agents.ppo.agent import PPOAgent
from agents.training import command, options, sb3, self_play
from agents.training.options import Config, WorkerLostError
from agents.training.self_play import SelfPlay, games_of
from agents.training.workers import MEANS, Exchange, LearnTogether
from alles_kaese_env import command_line

GAMES = ["--eval-games", "8", "--report-games", "8"]
ENVS = 12
ROLLOUT = ENVS * Config().n_steps


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def train(out, workers, *arguments, steps=3 * ROLLOUT):
    """A new run; its directory."""
    arguments = [*arguments, "--workers", workers, "--num-envs", ENVS, "--total-steps", steps]
    assert command.main([*map(str, arguments), *GAMES, "--out", str(out)]) == 0
    return out


def resume(run, *arguments):
    return command.main(["--resume", str(run), *map(str, arguments)])


def weights_of(run):
    agent = PPOAgent.load(run)
    return agent.metadata["steps"], [array.tobytes() for array in agent.network.weights.values()]


# --- The exchange ------------------------------------------------------------------------------


def in_threads(exchanges, work):
    """What the workers return, each called with its exchange; here they are threads."""
    with ThreadPoolExecutor(len(exchanges)) as pool:
        return list(pool.map(work, exchanges))


def exchanges_of(number, size=8 * 100):
    exchange = Exchange(number, size)
    return [exchange.of(rank) for rank in range(number)]


def test_sums_are_the_same_for_all_workers_and_in_order():
    def work(exchange):
        rng = np.random.default_rng(exchange.rank)
        arrays = [rng.normal(size=(2, 5)).astype(kind) for kind in ("f", "d") * 50]
        return arrays, [exchange.sum(array) for array in arrays]

    results = in_threads(exchanges_of(3), work)
    arrays = list(zip(*(given for given, _ in results), strict=True))
    for k, (first, *others) in enumerate(arrays):
        expected = first
        for other in others:
            expected = expected + other
        assert all((sums[k] == expected).all() for _, sums in results)
        assert all(sums[k].dtype == expected.dtype for _, sums in results)


# --- One update --------------------------------------------------------------------------------


def fixed_order(monkeypatch, envs, steps, batch, number):
    """The decisions of minibatches, so that those of a single learner hold the same ones.

    A worker takes its own in their order; the single learner all parts of each minibatch.
    """
    part = batch // number
    rows = np.arange(envs * steps).reshape(number, -1, part)
    whole = rows.swapaxes(0, 1).ravel()
    monkeypatch.setattr(
        np.random, "permutation", lambda size: whole if size == envs * steps else np.arange(size)
    )


def model_with(config, rollout, callbacks=()):
    """A model that has played; with the decisions of the single learner, or a part of them."""
    model = sb3.new_model(config, games_of(config))
    model.set_logger(Logger(None, []))
    model._setup_learn(1, None)
    model.policy.optimizer.param_groups[0]["eps"] = 0.01  # or Adam makes steps of rounding errors
    callback = CallbackList(list(callbacks))
    callback.init_callback(model)
    for name, array in rollout.items():
        setattr(model.rollout_buffer, name, array.copy())
    model.rollout_buffer.full = True
    model._update_current_progress_remaining(0, 1)
    return model, callback


def learned(model):
    return torch.cat([one.detach().flatten() for one in model.policy.parameters()]).numpy()


FIELDS = [
    "observations",
    "actions",
    "values",
    "log_probs",
    "advantages",
    "returns",
    "action_masks",
    "rewards",
    "episode_starts",
]


@pytest.mark.parametrize(("number", "batch"), [(2, 64), (4, 64), (3, 384)])
@pytest.mark.parametrize("network", ["slots", "mlp"])
def test_workers_learn_what_a_single_learner_learns(monkeypatch, number, batch, network):
    """From the same decisions, up to rounding: weights, Adam's moments, and what is logged."""
    config = Config(num_envs=ENVS, batch_size=batch, network=network, workers=number)
    single = sb3.new_model(config, games_of(config))
    single.set_logger(Logger(None, []))
    _, callback = single._setup_learn(1, None)
    single.collect_rollouts(single.env, callback, single.rollout_buffer, config.n_steps)
    rollout = {name: getattr(single.rollout_buffer, name) for name in FIELDS}
    fixed_order(monkeypatch, ENVS, config.n_steps, batch, number)
    model, _ = model_with(config, rollout)
    before = learned(model)
    model.train()

    exchanges = exchanges_of(number, LearnTogether.size_of_exchange(config, model.policy))
    workers = []
    for exchange in exchanges:
        share = config.of_worker(exchange.rank)
        rows = slice(exchange.rank * share.num_envs, (exchange.rank + 1) * share.num_envs)
        part = {name: array[:, rows] for name, array in rollout.items()}
        workers.append(model_with(share, part, [LearnTogether(exchange, config)]))

    def work(exchange):
        worker, callback = workers[exchange.rank]
        callback.on_rollout_end()
        worker.train()
        callback.on_training_end()

    in_threads(exchanges, work)
    workers = [worker for worker, _ in workers]
    moved = np.abs(learned(model) - before)
    for worker in workers:
        assert (learned(worker) == learned(workers[0])).all()
        assert np.abs(learned(worker) - learned(model)).max() < 1e-3 * moved.max()
        known, expected = worker.logger.name_to_value, model.logger.name_to_value
        for name in (*MEANS, "train/explained_variance"):
            assert known[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-5), name
        assert known["train/n_updates"] == expected["train/n_updates"]


def test_workers_whose_weights_differ_stop():
    config = Config(num_envs=4, workers=2)

    callbacks = []
    model = sb3.new_model(config, games_of(config))
    for exchange in exchanges_of(2, LearnTogether.size_of_exchange(config, model.policy)):
        share = replace(config.of_worker(exchange.rank), seed=exchange.rank)
        _, callback = model_with(share, {}, [LearnTogether(exchange, config)])
        callbacks.append(callback)

    def work(exchange):
        with pytest.raises(WorkerLostError, match="no longer have the same weights"):
            callbacks[exchange.rank].on_rollout_end()

    in_threads([one.callbacks[0]._exchange for one in callbacks], work)


def test_all_workers_have_the_same_pool(tmp_path, monkeypatch):
    """Only the first writes it."""
    monkeypatch.setattr(self_play, "POOL_SIZE", 2)
    monkeypatch.setattr(self_play, "STEPS_BETWEEN_SNAPSHOTS", 1)
    config = Config(num_envs=2)
    games = games_of(config)
    model = sb3.new_model(config, games)
    players = [SelfPlay("pool", games, tmp_path, 5, writes=writes) for writes in (True, False)]
    for one in players:
        one.model = model
        one._on_training_start()
    for _ in range(6):
        model.num_timesteps += 1
        model.policy.value_net.bias.data += 1
        for one in players:
            one._on_rollout_start()
        first, second = (one._past for one in players)
        assert list(first) == list(second)
        assert set(first) == set(tmp_path.glob("*.npz"))
        for mine, other in zip(first.values(), second.values(), strict=True):
            biases = [agent.network.weights["value_net.bias"] for agent in (mine, other)]
            assert biases[0] == biases[1]


# --- Runs --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A run of two workers."""
    return train(tmp_path_factory.mktemp("pair") / "run", 2)


def test_same_seed_and_workers_same_weights_bit_by_bit(pair, tmp_path):
    assert weights_of(train(tmp_path / "again", 2)) == weights_of(pair)
    assert weights_of(train(tmp_path / "single", 1)) != weights_of(pair)


def test_a_run_of_several_workers_is_a_run(pair):
    """Whole steps, and one line for each update."""
    with open(pair / "progress.csv", newline="") as stream:
        updates = [row for row in csv.DictReader(stream) if row["train/loss"]]
    assert len(updates) == 3
    assert weights_of(pair)[0] == 3 * ROLLOUT
    assert '"workers": 2' in (pair / "config.json").read_text()
    assert (pair / "report.json").exists()


@pytest.mark.parametrize(
    "number", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_resume_with_as_many_workers_or_others(pair, tmp_path, number):
    """Two runs that go on in the same way agree."""
    twins = [shutil.copytree(pair, tmp_path / name) for name in ("a", "b")]
    for run in twins[: 1 if number == 3 else 2]:
        assert resume(run, "--workers", number, "--total-steps", 5 * ROLLOUT) == 0
    steps, _ = weights_of(twins[0])
    assert steps == 5 * ROLLOUT
    if number != 3:
        assert weights_of(twins[0]) == weights_of(twins[1])


def test_a_finished_run_starts_no_workers(pair, tmp_path, monkeypatch):
    run = shutil.copytree(pair, tmp_path / "run")
    monkeypatch.setattr(sb3, "workers", None)
    assert resume(run) == 0


# --- Ends --------------------------------------------------------------------------------------


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True
    )
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def hear_interrupts():
    """A job in the background, as these tests may be, ignores them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def running(tmp_path):
    """A run of two workers without end, in a session of its own, and its other worker."""
    if not shutil.which("pgrep"):
        pytest.skip("needs ps and pgrep")
    run = tmp_path / "run"
    many = ["--total-steps", "1000000000", "--num-envs", "8", "--workers", "2", *GAMES]
    process = start_python(
        *("train.py", "--out", run, *many), start_new_session=True, preexec_fn=hear_interrupts
    )
    progress = run / "progress.csv"
    wait_until(lambda: process.poll() is not None or (progress.exists() and lines(progress) > 3))
    assert process.poll() is None, process.communicate()
    found = subprocess.run(
        ["pgrep", "-P", str(process.pid), "-f", "spawn_main"], capture_output=True, text=True
    )
    (worker,) = map(int, found.stdout.split())
    yield run, process, worker
    if process.poll() is None:
        process.kill()
    process.communicate()
    wait_until(lambda: not alive(worker), 20)


def lines(file):
    return file.read_text().count("\n")


@pytest.mark.posix
def test_kill_9_of_a_worker_ends_the_run_in_one_line(running):
    run, process, worker = running
    os.kill(worker, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.startswith("worker 1 has ended (killed by signal 9); the last checkpoint is at")
    assert errors.count("\n") == 1
    assert f"--resume {run}" in errors
    steps, _ = weights_of(run)
    assert resume(run, "--workers", 1, "--total-steps", steps + 1) == 0


@pytest.mark.posix
def test_kill_9_of_the_first_worker_ends_the_others(running):
    _, process, worker = running
    process.kill()
    process.communicate()
    wait_until(lambda: not alive(worker), 20)


@pytest.mark.posix
def test_ctrl_c_ends_all_workers_and_saves(running):
    """The terminal sends it to all of them."""
    run, process, worker = running
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "")
    assert "Stopped and saved at step" in output
    assert not alive(worker)
    assert weights_of(run)[0] > 0


# --- How many ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--workers", "-1"], "--workers is -1; allowed: 0 to 1024"),
        (["--workers", "5", "--num-envs", "4"], "--workers is 5; allowed: 0 to 4"),
        (
            ["--workers", "3", "--num-envs", "4", "--num-players", "2", "3"],
            "--workers is 3; allowed: 0 to 2",
        ),
        (["--workers", "3", "--batch-size", "4"], "--workers is 3; allowed: 0 to 2"),
        (["--workers", "2", "--engine", "rllib"], "--workers goes with --engine sb3 only"),
    ],
)
def test_workers_that_are_not_allowed(arguments, line, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main([*arguments, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert_one_line_of_error(capsys.readouterr().err, "train.py", line)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({}, 4),
        ({"workers": 3}, 3),
        ({"threads": 2}, 2),
        ({"threads": 8}, 1),
        ({"total_steps": 100_000}, 1),
        ({"num_envs": 300}, 2),
        ({"num_envs": 2}, 1),
        ({"batch_size": 512}, 2),
        ({"engine": "rllib"}, 1),
        ({"device": "cuda"}, 1),
    ],
    ids=str,
)
def test_how_many_workers_a_run_has_by_itself(monkeypatch, changes, number):
    monkeypatch.setattr(options, "idle_cores", lambda: 4)
    assert replace(Config(), **changes).number_of_workers == number


@pytest.mark.parametrize(
    ("membership", "files", "limits"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n", "a/cpu.max": "max 100000\n"}, [1.5]),
        ("0::/\n", {"cpu.max": "300000 100000\n"}, [3.0]),
        ("0::/a/b\n", {"cpu.max": "50000 100000\n"}, [0.5]),
        ("0::/a\n", {"a/cpu.max": "nonsense\n"}, []),
        (
            "4:cpu,cpuacct:/x\n3:cpuset:/y\n0::/\n",
            {"cpu/x/cpu.cfs_quota_us": "200000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            [2.0],
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, []),
        ("nonsense", {}, []),
    ],
)
def test_limits_of_cgroups_are_heeded(tmp_path, membership, files, limits):
    for name, text in {"membership": membership, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(command_line._cgroup_limits(tmp_path / "membership", tmp_path)) == limits


@pytest.mark.parametrize(
    ("usable", "shares", "idle"),
    [
        (4, [0.0, 3.0, 0.0, 10.0], 4),
        (4, [100.0, 3.0, 0.0, 10.0], 3),
        (4, [50.0, 50.0, 60.0, 40.0], 2),  # processes that move from core to core
        (4, [100.0, 100.0, 100.0, 100.0], 1),
        (2, [0.0, 0.0, 100.0, 0.0], 2),  # a limit of a cgroup
    ],
)
def test_cores_that_others_keep_busy_get_no_worker(monkeypatch, usable, shares, idle):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    monkeypatch.setattr(options, "usable_cores", lambda: usable)
    monkeypatch.setattr(psutil, "cpu_percent", lambda *_, **__: shares)
    assert options.idle_cores.__wrapped__() == idle


def test_only_cores_of_the_affinity_count(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3}, raising=False)
    monkeypatch.setattr(options, "usable_cores", lambda: 2)
    monkeypatch.setattr(psutil, "cpu_percent", lambda *_, **__: [0.0, 100.0, 0.0, 0.0])
    assert options.idle_cores.__wrapped__() == 1


def test_usable_cores_are_at_least_one(monkeypatch):
    monkeypatch.setattr(command_line, "_cgroup_limits", lambda _: [0.5])
    assert command_line.usable_cores() == 1
    monkeypatch.setattr(command_line, "_cgroup_limits", lambda _: [])
    assert 1 <= command_line.usable_cores() <= os.cpu_count()

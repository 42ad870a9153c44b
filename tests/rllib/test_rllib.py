"""The RLlib API and the training with it, in an environment that has Ray."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray.rllib", reason='Ray RLlib is missing; pip install -e ".[rllib]"')

import gymnasium
import ray
import torch
from ray.cluster_utils import Cluster
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.pre_checks.env import check_multiagent_environments

import agents
from agents.arena.matches import win_share
from agents.ppo.agent import PPOAgent
from agents.ppo.network import network_of
from agents.training import command, rllib
from agents.training.options import Config
from alles_kaese_env import NUM_ACTIONS, OBSERVATION, GameBatch, Variant
from alles_kaese_env.envs.rllib import AllesKaeseMultiAgentEnv
from alles_kaese_env.seeding import streams_of

pytestmark = [
    # Ray and what it brings along use what is deprecated, and leave sockets and files to the end
    # of the process. None of that is ours to close.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::UserWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    # Every env runner registers its environment anew; here there are several in one process.
    pytest.mark.filterwarnings("ignore:.*Overriding environment rllib-multi-agent-env"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROOT = Path(__file__).parents[2]
GAMES = 200  # for each number of players
SMALL = {"traps": (1, 1), "copies": (3, 3), "row_size": 2, "trap_limit": 1}
LONG = pytest.mark.long

each_number = pytest.mark.parametrize("players", range(2, 7), ids=lambda n: f"{n} players")


def config_of(opponents="self", **fields):
    """A run of a few decisions."""
    defaults = {"num_envs": 8, "n_steps": 16, "batch_size": 64, "n_epochs": 1, "threads": 1}
    return Config(**{**defaults, "total_steps": 256, "opponents": opponents, **fields})


# --- The environment ---------------------------------------------------------------------------


def assert_legal(infos, seen):
    """The agents that observe, and nobody else, are told that there was no illegal action."""
    assert set(infos) == set(seen)
    assert not any(info["illegal_action"] for info in infos.values())


@each_number
def test_random_games_are_those_of_the_core(players):
    """Observations, masks, rewards and ends of 1,000 games; every seat sees the last position."""
    env = AllesKaeseMultiAgentEnv({"num_players": players})
    batch = GameBatch(1, Variant(num_players=players))
    rng = np.random.default_rng(players)
    for seed in range(GAMES):
        seen, infos = env.reset(seed=seed)
        batch.reset(seed=seed)
        assert_legal(infos, seen)
        is_over = False
        while not is_over:
            mover = f"player_{batch.seats[0]}"
            assert list(seen) == [mover]
            assert seen[mover] in env.observation_spaces[mover]
            assert np.array_equal(seen[mover]["observations"], batch.observations[0])
            assert np.array_equal(seen[mover]["action_mask"], batch.masks[0])
            action = int(rng.choice(np.flatnonzero(batch.masks[0])))
            seen, rewards, terminated, truncated, infos = env.step({mover: action})
            batch.step([action])
            is_over = bool(batch.over[0])
            assert terminated["__all__"] == is_over
            assert not any(truncated.values())
            assert_legal(infos, seen)
            assert is_over or rewards == {}
        assert list(rewards) == list(seen) == env.possible_agents
        assert list(rewards.values()) == batch.payoffs[0].tolist()
        for seat, agent in enumerate(env.possible_agents):
            assert np.array_equal(seen[agent]["observations"], batch.observe(seat)[0])
            assert not seen[agent]["action_mask"].any()


@each_number
def test_the_checker_of_rllib(players):
    """It samples without the mask, which may end its game."""
    check_multiagent_environments(AllesKaeseMultiAgentEnv({"num_players": players}))


def test_the_checker_of_rllib_without_recall():
    env = AllesKaeseMultiAgentEnv({"recall": False})
    check_multiagent_environments(env)
    assert not env._batch.recall


def illegal_in(seen):
    (agent, parts), *_ = seen.items()
    return {agent: int(parts["action_mask"].argmin())}


def test_an_illegal_action_forfeits_the_game():
    env = AllesKaeseMultiAgentEnv({"num_players": 3})
    seen, _ = env.reset(seed=1)
    seen, rewards, terminated, _, infos = env.step(illegal_in(seen))
    assert rewards == {"player_0": -1.0, "player_1": 0.0, "player_2": 0.0}
    assert all(terminated.values())
    assert list(seen) == env.possible_agents
    assert {agent: bool(info["illegal_action"]) for agent, info in infos.items()} == {
        "player_0": True,
        "player_1": False,
        "player_2": False,
    }
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        env.step({"player_0": 0})


def test_an_illegal_action_raises_if_wanted_and_changes_nothing():
    env, twin = (AllesKaeseMultiAgentEnv({"on_illegal": "raise"}) for _ in range(2))
    seen, _ = env.reset(seed=1)
    twin.reset(seed=1)
    with pytest.raises(ValueError, match="action is"):
        env.step(illegal_in(seen))
    action = {"player_0": int(seen["player_0"]["action_mask"].argmax())}
    ours, theirs = env.step(action)[0], twin.step(action)[0]
    assert np.array_equal(ours["player_1"]["observations"], theirs["player_1"]["observations"])


@pytest.mark.parametrize("actions", [{}, {"player_1": 0}, {"player_0": 0, "player_1": 0}])
def test_only_the_agent_whose_turn_it_is_acts(actions):
    env = AllesKaeseMultiAgentEnv()
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"allowed: \['player_0'\]"):
        env.step(actions)


@pytest.mark.parametrize(
    ("name", "value"), [("num_players", 7), ("on_illegal", "ask"), ("nonsense", 1)]
)
def test_a_wrong_entry_is_named(name, value):
    with pytest.raises(ValueError, match=name):
        AllesKaeseMultiAgentEnv({name: value})


# --- In the hands of RLlib ---------------------------------------------------------------------


def runner_of(config, worker_index=0):
    """An env runner in this process; an illegal action would raise, as in RLlib's checker."""
    algorithm = rllib.algorithm_config(replace(config, num_env_runners=0))
    strict = {"num_players": config.num_players[0], "on_illegal": "raise"}
    algorithm.environment(env_config=strict, disable_env_checking=True)
    return MultiAgentEnvRunner(config=algorithm, worker_index=worker_index)


@pytest.mark.parametrize("players", [2, 3, 6])
def test_every_seat_gets_its_payoff_and_all_its_decisions(players):
    """Also what is earned while others act, and across the ends of rollouts."""
    runner = runner_of(config_of(num_players=(players,)))
    chunks = [chunk for _ in range(60) for chunk in runner.sample(num_timesteps=40)]
    games: dict[str, list[MultiAgentEpisode]] = {}
    for chunk in chunks:
        games.setdefault(chunk.id_, []).append(chunk)
    whole = [parts for parts in games.values() if parts[-1].is_done]
    assert len(whole) > 5
    assert any(len(parts) > 1 for parts in whole)
    for parts in whole:
        assert parts[0].env_t_started == 0
        turns = parts[-1].env_t
        rewards = dict.fromkeys((f"player_{seat}" for seat in range(players)), 0.0)
        decisions = dict.fromkeys(rewards, 0)
        for part in parts:
            for agent, episode in part.agent_episodes.items():
                rewards[agent] += float(np.sum(episode.get_rewards()))
                decisions[agent] += len(episode)
        assert sum(decisions.values()) == turns
        assert sum(rewards.values()) == pytest.approx(0, abs=1e-5)  # P5
        assert sorted(rewards.values())[-1] > 0 or not any(rewards.values())
    runner.stop()


def test_no_two_games_of_two_runners_are_the_same():
    """RLlib gives neighbouring runners and games the same seeds."""
    runners = [runner_of(config_of(), worker_index) for worker_index in (1, 2)]
    first = [
        chunk.agent_episodes["player_0"].get_observations(0)["observations"].tobytes()
        for runner in runners
        for chunk in runner.sample(num_timesteps=32)
    ]
    assert len(first) == len(set(first)) == 16


@pytest.mark.parametrize("network", ["slots", "mlp"])
def test_the_module_plays_as_the_agent_that_its_weights_make(network):
    """Same logits, values and masks; and the batch stays as it was."""
    policy = rllib.new_policy(network, 16)
    agent = PPOAgent(network_of(policy))
    module = rllib.PolicyModule(
        observation_space=OBSERVATION.space(),
        action_space=gymnasium.spaces.Discrete(NUM_ACTIONS),
        model_config={"network": network, "hidden": 16},
    )
    module.policy.load_state_dict(policy.state_dict())
    games = GameBatch(64, seed=0)
    for _ in range(5):
        games.step(games.random_actions())
    seen = {
        "observations": torch.as_tensor(games.observations),
        "action_mask": torch.as_tensor(games.masks.astype(np.int8)),
    }
    batch = {"obs": seen}
    with torch.no_grad():
        logits = module.forward_train(batch)["action_dist_inputs"].numpy()
        values = module.compute_values(batch).numpy()
    assert set(batch) == {"obs"}
    assert batch["obs"].keys() == {"observations", "action_mask"}
    assert (logits[~games.masks] < -1e30).all()
    assert np.isfinite(logits).all()
    expected = agent.act(games.observations, games.masks, np.random.default_rng())
    assert np.array_equal(logits.argmax(axis=1), expected)
    theirs = agent.network.logits(games.observations)
    shift = np.where(games.masks, logits - theirs, np.nan)
    assert np.nanstd(shift, axis=1).max() < 1e-5
    assert np.allclose(values, agent.network.values(games.observations), atol=1e-5)


def test_against_an_agent_the_learner_has_one_seat_of_each_game():
    runner = runner_of(config_of("reference", num_players=(4,)))
    for chunk in runner.sample(num_timesteps=200):
        modules = [chunk.module_for(agent) for agent in chunk.agent_ids]
        assert modules.count(rllib.LEARNER) <= 1
        if len(modules) == 4:
            assert modules.count(rllib.OPPONENT) == 3
    runner.stop()


def test_the_generator_of_a_fixed_agent_tells_nothing_of_the_games(monkeypatch):
    """It comes from the operating system: two runners with the same seeds draw differently."""
    drawn, streams = [], []

    class Curious:
        def act(self, observations, masks, rng):
            drawn.append(rng.bit_generator.seed_seq.entropy)
            return masks.argmax(axis=1)

    monkeypatch.setattr(agents, "make", lambda name, variant: Curious())
    for _ in range(2):
        runner = runner_of(config_of("curious"))
        runner.sample(num_timesteps=32)
        streams += [int(env.unwrapped._batch.streams[0]) for env in runner.env.envs]
        runner.stop()
    assert len(set(drawn)) == 2
    seeds = {*range(100), *streams, *(int(streams_of(seed, 1)[0]) for seed in range(100))}
    assert not seeds & set(drawn)


# --- The training ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--opponents", "pool"], "--opponents is pool"),
        (["--num-players", "2", "3"], "--num-players is 2 3"),
        (["--reward", "shaped"], "--reward is shaped"),
        (["--num-env-runners", "-1"], "--num-env-runners is -1"),
    ],
)
def test_what_this_backend_does_not_allow(options, line, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["--engine", "rllib", *options, "--out", str(tmp_path / "run")])
    assert stop.value.code == 2
    assert line in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@LONG
def test_a_run_and_its_resumption(tmp_path):
    """All files, the agent in the arena, and going on with weights, optimizer and counter."""
    run = tmp_path / "run"
    options = ["--engine", "rllib", "--num-envs", "8", "--num-env-runners", "1", "--n-steps", "16"]
    options += ["--batch-size", "64", "--eval-games", "20", "--report-games", "40"]
    assert command.main([*options, "--total-steps", "256", "--out", str(run)]) == 0
    names = {"config.json", "evaluations.csv", "model", "model-previous", "policy.npz", "best.npz"}
    names |= {"report.json", "curves.png", "result.json", "tensorboard"}
    assert names <= {file.name for file in run.iterdir()}
    steps = json.loads((run / "policy.json").read_text())["steps"]
    assert steps >= 256
    agent, random = agents.make(f"ppo:{run}"), agents.make("random")
    assert win_share(agent, random, games=20, seed=1).games == 20
    assert command.main(["--resume", str(run), "--total-steps", str(2 * steps)]) == 0
    lines = [json.loads(line) for line in (run / "result.json").read_text().splitlines()]
    made = [line["steps"] for line in lines]
    assert made == sorted(made)
    assert steps in made
    assert made[-1] >= 2 * steps
    rates = [line["learners/learner/default_optimizer_learning_rate"] for line in lines]
    assert rates[made.index(steps)] < rates[made.index(steps) + 1] < rates[0]  # of the new total
    (run / "model" / "rllib_checkpoint.json").write_text("{")
    shutil.rmtree(run / "model" / "learner_group")
    assert command.main(["--resume", str(run), "--total-steps", str(2 * steps + 1)]) == 0
    assert json.loads((run / "policy.json").read_text())["steps"] > 2 * steps


@LONG
def test_a_cluster_survives_the_death_of_a_runner():
    """Three nodes on this machine; the killed runner comes back with the present weights."""
    # Workers import what they are handed by name, and nobody but this process knows this module.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    memory = 100_000_000
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=memory)
    ray.init(cluster.address, log_to_driver=False)
    algorithm = rllib.algorithm_config(config_of(num_env_runners=2)).build_algo()
    try:
        algorithm.train()
        runners = algorithm.env_runner_group
        where = runners.foreach_env_runner(place, local_env_runner=False)
        assert len({node for _, node in where}) == 2
        victim = where[0][0]
        os.kill(victim, signal.SIGKILL)
        for _ in range(60):
            before = rllib.steps_of(algorithm)
            algorithm.train()
            assert rllib.steps_of(algorithm) > before
            if runners.num_healthy_remote_workers() == 2:
                break
        now = runners.foreach_env_runner(place, local_env_runner=False)
        assert len(now) == 2
        assert victim not in [pid for pid, _ in now]
        algorithm.train()
        name = "policy.value_net.weight"
        expected = torch.as_tensor(rllib.network_of(algorithm).weights["value_net.weight"])
        for weight in runners.foreach_env_runner(
            lambda one: one.module[rllib.LEARNER].state_dict()[name], local_env_runner=False
        ):
            assert torch.equal(weight, expected)
    finally:
        algorithm.stop()
        ray.shutdown()
        cluster.shutdown()


def place(runner):
    """The process and the node of an env runner."""
    return os.getpid(), ray.get_runtime_context().get_node_id()


@LONG
def test_the_example(capsys):
    runpy.run_path(str(ROOT / "examples" / "rllib_ppo.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "iteration 2:" in output
    assert len((ROOT / "examples" / "rllib_ppo.py").read_text().splitlines()) <= 60

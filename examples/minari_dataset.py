"""Games of an agent as a Minari dataset, the standard format of offline reinforcement learning.

Example:
    python -m minari_dataset heuristic --episodes 1000 --dataset alles-kaese/heuristic-v0

An episode is what one seat saw and did in a game of ``AllesKaese-v0``: with T decisions,
observations (T + 1, 253) float32, actions (T,) int64, rewards (T,), terminations and truncations
(T,) bool, and ``infos["action_mask"]`` (T + 1, 18) int8, all 0 where the game is over. Minari
writes to its own folder, or to the one that the variable ``MINARI_DATASETS_PATH`` names.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

import agents
from alles_kaese_env.agent import Agent
from alles_kaese_env.command_line import Parser, needs_extra
from alles_kaese_env.seeding import as_seed
from alles_kaese_env.variant import whole_number

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_dataset import MinariDataset

ENVIRONMENT = "alles_kaese_env:AllesKaese-v0"  # so that it can be made wherever the data is loaded
MOST_EPISODES = 10**7


def record(
    agent: Agent,
    dataset: str,
    *,
    episodes: int,
    seed: int = 0,
    algorithm: str | None = None,
    on_episode: Callable[[], None] = lambda: None,
    **options: Any,
) -> MinariDataset:
    """Let an agent play and write its episodes as a dataset.

    Args:
        agent: who acts in the learner's seat.
        dataset: its name for Minari, such as "alles-kaese/heuristic-v0".
        episodes: how many, whole games; the data is in memory until it is written at the end.
        seed: of deals, dice and agents.
        algorithm: the name of the agent in the dataset.
        on_episode: is called after every episode.
        **options: of `alles_kaese_env.AllesKaeseEnv`. Opponents are "random" or import paths: the
            dataset keeps how its environment is made, for `MinariDataset.recover_environment`.

    Raises:
        ImportError: Minari is not installed.
        ValueError: an argument is not what is allowed, or there is such a dataset already.
    """
    import minari
    from minari.dataset.minari_dataset import parse_dataset_id

    parse_dataset_id(dataset)
    whole_number("episodes", episodes, 1, MOST_EPISODES)
    rng = np.random.default_rng(as_seed(seed))
    if dataset in minari.list_local_datasets():
        raise ValueError(f"dataset is {dataset!r}; allowed: a name that is not taken")
    env = gymnasium.make(ENVIRONMENT, **options)
    buffer = []
    for number in range(episodes):
        buffer.append(play(env, agent, rng, number, seed if number == 0 else None))
        on_episode()
    return minari.create_dataset_from_buffers(
        dataset, buffer, env=env, algorithm_name=algorithm, requirements=["alles-kaese"]
    )


def play(
    env: gymnasium.Env[Any, Any],
    agent: Agent,
    rng: np.random.Generator,
    number: int,
    seed: int | None,
) -> EpisodeBuffer:
    """An episode."""
    from minari.data_collector import EpisodeBuffer

    observation, info = env.reset(seed=seed)
    observations, masks = [observation], [info["action_mask"]]
    actions: list[np.int64] = []
    rewards: list[float] = []
    terminations: list[bool] = []
    while not (terminations and terminations[-1]):
        actions.append(agent.act(observation[None], masks[-1][None].astype(bool), rng)[0])
        observation, reward, terminated, _, info = env.step(actions[-1])
        observations.append(observation)
        masks.append(info["action_mask"])
        rewards.append(float(reward))
        terminations.append(terminated)
    return EpisodeBuffer(
        id=number,
        seed=seed,
        observations=observations,
        actions=actions,
        rewards=rewards,
        terminations=terminations,
        truncations=[False] * len(actions),
        infos={"action_mask": masks},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as progress:
            bar = progress.add_task("episodes", total=options.episodes)
            dataset = record(
                agents.make(options.agent),
                options.dataset,
                episodes=options.episodes,
                seed=options.seed,
                algorithm=options.agent,
                on_episode=lambda: progress.advance(bar),
                num_players=options.num_players,
                opponents=options.opponents[0]
                if len(options.opponents) == 1
                else options.opponents,
            )
    except ImportError as error:
        parser.error(needs_extra("minari_dataset", "minari", error))
    except ValueError as error:
        parser.error(str(error))
    print(
        f"wrote {options.dataset}: {dataset.total_episodes} episodes, {dataset.total_steps} steps\n"
        f'load it with: minari.load_dataset("{options.dataset}")'
    )
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python -m minari_dataset",
        description="Record games of an agent as a Minari dataset. Masks are in its infos. The "
        "variable MINARI_DATASETS_PATH says where datasets are.",
        epilog="example: python -m minari_dataset heuristic --dataset alles-kaese/heuristic-v0",
    )
    add = parser.add_argument
    add("agent", metavar="AGENT", help=agents.names())
    add("--dataset", required=True, metavar="NAME", help="for Minari, such as alles-kaese/mine-v0")
    add("--episodes", type=int, default=1_000, help="(%(default)s)")
    add(
        "--opponents",
        nargs="+",
        default=["random"],
        metavar="OPPONENT",
        help='"random" or import paths such as agents.heuristics.heuristic:ReferenceAgent: one for all other '
        "seats, or one for each of them (random)",
    )
    add("--num-players", type=int, default=2, choices=range(2, 7))
    add("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())

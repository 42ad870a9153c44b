"""Games of an agent as a Minari dataset: python examples/minari_dataset.py AGENT --dataset NAME.

Each episode is one seat's view of a game, with the action masks in its infos. Minari writes to its
own folder, or to the one that the variable MINARI_DATASETS_PATH names.
"""

from dataclasses import asdict

import gymnasium
import minari
import numpy as np
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_dataset import parse_dataset_id

import agents
from alles_kaese_env.command_line import RULE_OPTIONS, Parser, add_variant, variant_of


def record(agent, dataset, episodes, seed=0, algorithm=None, **options):
    """Let an agent play episodes and write them; options are those of `AllesKaeseEnv`."""
    parse_dataset_id(dataset)
    if episodes < 1:
        raise ValueError(f"episodes is {episodes}; allowed: 1 or more")
    if dataset in minari.list_local_datasets():
        raise ValueError(f"dataset is {dataset!r}; allowed: a name that is not taken")
    env = gymnasium.make("alles_kaese_env:AllesKaese-v0", **options)
    rng = np.random.default_rng([seed, 1])
    games = [play(env, agent, rng, k, seed if k == 0 else None) for k in range(episodes)]
    return minari.create_dataset_from_buffers(
        dataset, games, env=env, algorithm_name=algorithm, requirements=["alles-kaese"]
    )


def play(env, agent, rng, number, seed):
    """An episode."""
    observation, info = env.reset(seed=seed)
    observations, masks, actions, rewards = [observation], [info["action_mask"]], [], []
    terminated = False
    while not terminated:
        actions.append(agent.act(observation[None], masks[-1][None].astype(bool), rng)[0])
        observation, reward, terminated, _, info = env.step(actions[-1])
        observations.append(observation)
        masks.append(info["action_mask"])
        rewards.append(float(reward))
    ends, never = [False] * (len(actions) - 1) + [True], [False] * len(actions)
    infos = {"action_mask": masks}
    return EpisodeBuffer(number, seed, None, observations, actions, rewards, ends, never, infos)


def main(arguments=None):
    """The command; returns its exit code."""
    parser = Parser("python examples/minari_dataset.py", description="Record games with Minari.")
    parser.add_argument("agent", help=agents.names())
    parser.add_argument("--dataset", required=True, help="its name, such as alles-kaese/mine-v0")
    parser.add_argument("--episodes", type=int, default=1_000, help="(%(default)s)")
    parser.add_argument("--opponents", nargs="+", default=["random"], help="one, or one a seat")
    parser.add_argument("--seed", type=int, default=0, help="random seed (0)")
    add_variant(parser)
    parsed = parser.parse_args(arguments)
    options = {key: value for key, value in vars(parsed).items() if key not in RULE_OPTIONS}
    name, others = options.pop("agent"), options.pop("opponents")
    try:
        variant = variant_of(parsed)
        options |= asdict(variant)
        others = others[0] if len(others) == 1 else others
        record(agents.make(name, variant), algorithm=name, opponents=others, **options)
    except ValueError as error:
        parser.error(str(error))
    print(f"wrote {options['dataset']}: {options['episodes']} episodes")
    return 0


if __name__ == "__main__":
    main()

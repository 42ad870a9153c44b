"""Ray RLlib: a short PPO self-play with RLlib's own masking module and one policy for all seats.

pip install "alles-kaese[rllib]" && python examples/rllib_ppo.py
"""

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule

from alles_kaese_env.envs.rllib import AllesKaeseMultiAgentEnv

ITERATIONS = 2


def one_policy(agent_id, episode, **kwargs):
    """The same policy for every seat."""
    return "policy"


def main():
    """Train for some iterations; prints how long games are and how far the policy is."""
    ray.init("local", num_cpus=1, object_store_memory=200_000_000, log_to_driver=False)
    config = (
        PPOConfig()
        .environment(AllesKaeseMultiAgentEnv, env_config={"num_players": 2})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=16, rollout_fragment_length=32)
        .training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=2, gamma=1.0)
        .multi_agent(policies={"policy"}, policy_mapping_fn=one_policy)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=ActionMaskingTorchRLModule))
    )
    algorithm = config.build_algo()
    for iteration in range(ITERATIONS):
        result = algorithm.train()
        turns = result["env_runners"]["episode_len_mean"]
        entropy = result["learners"]["policy"]["entropy"]
        print(f"iteration {iteration + 1}: {turns:.1f} turns a game, entropy {entropy:.2f}")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()

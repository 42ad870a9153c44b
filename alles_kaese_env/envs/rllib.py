"""The RLlib face: all seats are agents of a `MultiAgentEnv`, one acts at a time.

Needs the extra ``rllib``. It is made for RLlib's new API stack.

Example:
    >>> from ray.rllib.algorithms.ppo import PPOConfig
    >>> from alles_kaese_env.envs.rllib import AllesKaeseMultiAgentEnv
    >>> config = PPOConfig().environment(AllesKaeseMultiAgentEnv, env_config={"num_players": 4})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from alles_kaese_env.actions import as_action, illegal_action
from alles_kaese_env.core.records import (
    NUM_ACTIONS,
)
from alles_kaese_env.game_batch import GameBatch
from alles_kaese_env.observation import OBSERVATION
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.seeding import as_seed, streams_of
from alles_kaese_env.single_seat import ON_ILLEGAL
from alles_kaese_env.variant import Variant, one_of

try:
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
except ImportError as error:
    raise ImportError(
        "alles_kaese_env.envs.rllib needs Ray RLlib; "
        'install it with: pip install "alles-kaese[rllib]"'
    ) from error

Observation = dict[str, npt.NDArray[Any]]


class AllesKaeseMultiAgentEnv(MultiAgentEnv):  # type: ignore[misc]
    """Alles Käse! for agents ``player_0`` to ``player_5``.

    Observations are dicts with the keys of RLlib's `ActionMaskingTorchRLModule`:
    ``observations``, float32 (253,), see `alles_kaese_env.OBSERVATION`; ``action_mask``, int8
    (18,). `reset` and `step` return that of the agent that acts next, and of all agents with
    masks of 0 when the game is over: so every seat sees the end. Rewards are the payoffs of RULES
    P5; all of them come with the last step, whoever made it.

    Args:
        config: of the environment, as RLlib hands it over. ``num_players``, 2 to 6, and the other
            fields of `Variant`: traps, copies, row_size, trap_limit, burn. ``on_illegal``, for an
            action that the mask forbids: "forfeit" ends the game, with reward -1 for who played
            it and 0 for the others (as the PettingZoo face does; RLlib's checker and its random
            policy know no masks); "raise" raises `ValueError` and leaves the game as it is.

    `reset` takes the seeds and options of `AllesKaeseEnv.reset`. RLlib seeds game i of env runner
    w with ``seed + w + i``, which is the seed of many games; here each env runner has a stream of
    its own for every seed, so that no two games share one.

    Raises:
        ValueError: an entry, a seed, an option or an action is not what is allowed.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        fields = dict(config or {})
        self.on_illegal = one_of("on_illegal", fields.pop("on_illegal", "forfeit"), ON_ILLEGAL)
        self.variant = Variant.from_fields(**fields)
        self.possible_agents = [f"player_{seat}" for seat in range(self.variant.num_players)]
        self.agents = self.possible_agents[:]
        mask = gymnasium.spaces.Box(0, 1, (NUM_ACTIONS,), np.int8)
        self.observation_spaces = {
            agent: gymnasium.spaces.Dict({"observations": OBSERVATION.space(), "action_mask": mask})
            for agent in self.possible_agents
        }
        self.action_spaces = {
            agent: gymnasium.spaces.Discrete(NUM_ACTIONS) for agent in self.possible_agents
        }
        self._batch = GameBatch(1, self.variant)
        self._stream = getattr(config, "worker_index", 0)  # 0 of the local env runner and without
        self._is_over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Any]]:
        """Begin a new game; without a seed, the random stream goes on."""
        script = ScriptedDeal.from_options(self.variant, options)
        number = as_seed(seed)
        if number is not None:
            self._batch.streams[:] = streams_of(number, self._stream + 1)[self._stream :]
        self._batch.reset(script=script)
        self._is_over = False
        return self._of_next(), {}

    def step(
        self, action_dict: Mapping[str, Any]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, Any],
    ]:
        """Let the agent act whose turn it is: the five dicts of a step."""
        if self._is_over:
            raise gymnasium.error.ResetNeeded("there is no game, or it is over; call reset first")
        mover = self._next
        if set(action_dict) != {mover}:
            raise ValueError(f"action_dict is of {sorted(action_dict)}; allowed: ['{mover}']")
        action = as_action(action_dict[mover])
        mask = self._batch.masks[0]
        if not mask[action]:
            if self.on_illegal == "raise":
                raise illegal_action(action, mask)
            rewards = {agent: -float(agent == mover) for agent in self.possible_agents}
            return self._end(rewards, {mover: {"illegal_action": True}})
        self._batch.step([action])
        if self._batch.over[0]:
            payoffs = self._batch.payoffs[0].tolist()
            return self._end(dict(zip(self.possible_agents, payoffs, strict=True)), {})
        return self._of_next(), {}, {"__all__": False}, {"__all__": False}, {}

    @property
    def _next(self) -> str:
        """The agent whose turn it is."""
        return self.possible_agents[int(self._batch.seats[0])]

    def _of_next(self) -> dict[str, Observation]:
        observation = self._batch.observations[0].copy()
        mask = self._batch.masks[0].astype(np.int8)
        return {self._next: {"observations": observation, "action_mask": mask}}

    def _end(self, rewards: dict[str, float], infos: dict[str, Any]) -> tuple[Any, ...]:
        """The last step: every agent sees how the game ended."""
        self._is_over = True
        observations = {
            agent: {
                "observations": self._batch.observe(seat)[0],
                "action_mask": np.zeros(NUM_ACTIONS, np.int8),
            }
            for seat, agent in enumerate(self.possible_agents)
        }
        terminated = dict.fromkeys([*self.possible_agents, "__all__"], True)
        truncated = dict.fromkeys([*self.possible_agents, "__all__"], False)
        return observations, rewards, terminated, truncated, infos

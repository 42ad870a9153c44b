"""The RLlib API: all seats are agents of a `MultiAgentEnv`, one acts at a time.

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

from alles_kaese_env.actions import as_action, illegal_action
from alles_kaese_env.envs.common import EverySeat, Info, Observation, missing_extra
from alles_kaese_env.single_seat import ON_ILLEGAL
from alles_kaese_env.variant import Variant, one_of

try:
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
except ImportError as error:
    raise missing_extra(__name__, "Ray RLlib", "rllib") from error


class AllesKaeseMultiAgentEnv(EverySeat, MultiAgentEnv):  # type: ignore[misc]
    """Alles Käse! for agents ``player_0`` to ``player_5``.

    Observations are dicts with the keys of RLlib's `ActionMaskingTorchRLModule`:
    ``observations``, float32 (253,), see `alles_kaese_env.OBSERVATION`; ``action_mask``, int8
    (18,). `reset` and `step` return the observation of the agent that acts next, and when the
    game is over those of all agents, with masks of 0. Rewards are the payoffs of RULES P5, for
    all agents in the last step. Infos are of the agents that observe: ``illegal_action``, whether
    the agent's illegal action ended the game, a bool array ().

    Args:
        config: of the environment, as RLlib passes it. ``num_players``, 2 to 6, and the other
            fields of `Variant`: traps, copies, row_size, trap_limit, burn. ``on_illegal``, for an
            action that the mask forbids: "forfeit" ends the game, with reward -1 for the agent
            that played it and 0 for the others (as PettingZoo's wrappers do; RLlib's checker and
            its random policy know no masks); "raise" raises `ValueError` and leaves the game as
            it is. ``recall``: False leaves out of all observations what an agent has to remember
            by itself: what a peek of its own saw is shown until its next action.

    `reset` takes the seeds and options of `AllesKaeseEnv.reset`. RLlib seeds game i of env runner
    w with ``seed + w + i``, so two games can have the same seed; here each env runner has a
    stream of its own for every seed, so that no two games share one.

    Raises:
        ValueError: an entry, a seed, an option or an action is not what is allowed.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        fields = {"on_illegal": "forfeit", **(config or {})}
        self.on_illegal = one_of("on_illegal", fields.pop("on_illegal"), ON_ILLEGAL)
        recall = fields.pop("recall", True)
        allowed = [*Variant.__dataclass_fields__, "on_illegal", "recall"]
        for name in fields:
            if name not in allowed:
                raise ValueError(f"config has {name!r}; allowed: {', '.join(allowed)}")
        self._open(Variant(**fields), "observations", recall=recall)
        self.agents = self.possible_agents[:]
        self._stream = getattr(config, "worker_index", 0)  # of RLlib's EnvContext
        self._is_over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Begin a new game; without a seed, the random stream goes on."""
        self._deal(seed, options, self._stream)
        self._is_over = False
        return self._seen(), self._info()

    def step(
        self, action_dict: Mapping[str, Any]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, Info],
    ]:
        """Let the agent act whose turn it is: the five dicts of a step."""
        if self._is_over:
            raise gymnasium.error.ResetNeeded("there is no game, or it is over; call reset first")
        mover = self._mover()
        if set(action_dict) != {mover}:
            raise ValueError(f"action_dict is of {sorted(action_dict)}; allowed: ['{mover}']")
        action = as_action(action_dict[mover])
        mask = self._batch.masks[0]
        if not mask[action]:
            if self.on_illegal == "raise":
                raise illegal_action(action, mask)
            return self._end([-float(agent == mover) for agent in self.possible_agents], mover)
        self._batch.step([action])
        if self._batch.over[0]:
            return self._end(self._batch.payoffs[0].tolist())
        return self._seen(), {}, {"__all__": False}, {"__all__": False}, self._info()

    def _seen(self) -> dict[str, Observation]:
        return {self._mover(): self._seen_by_mover()}

    def _info(self) -> dict[str, Info]:
        return {self._mover(): {"illegal_action": np.array(False)}}

    def _end(self, rewards: list[float], cheat: str | None = None) -> tuple[Any, ...]:
        """The last step: all agents see how the game ended; ``cheat`` acted illegally."""
        self._is_over = True
        agents = self.possible_agents
        return (
            {agent: self._seen_by_other(seat) for seat, agent in enumerate(agents)},
            dict(zip(agents, rewards, strict=True)),
            dict.fromkeys([*agents, "__all__"], True),
            dict.fromkeys([*agents, "__all__"], False),
            {agent: {"illegal_action": np.array(agent == cheat)} for agent in agents},
        )

"""The PettingZoo face: all seats are agents, one acts at a time (AEC)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from alles_kaese_env.actions import as_action
from alles_kaese_env.core.records import (
    NUM_ACTIONS,
    OVER,
)
from alles_kaese_env.game_batch import GameBatch
from alles_kaese_env.observation import OBSERVATION
from alles_kaese_env.replay.game import PUBLIC, Perspective, Replay
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.seeding import as_seed, streams_of
from alles_kaese_env.state import State, make_state, open_state
from alles_kaese_env.variant import Variant, whole_number
from alles_kaese_env.viewer.renderer import MODES, RENDER_FPS, Frame, Renderer

Observation = dict[str, npt.NDArray[Any]]


def env(**kwargs: Any) -> AECEnv[str, Observation, int]:
    """The environment with PettingZoo's usual wrappers: an illegal action ends the game, with
    reward -1 for who played it and 0 for the others. Arguments as for `raw_env`.
    """
    wrapped: AECEnv[str, Observation, int] = raw_env(**kwargs)
    wrapped = wrappers.TerminateIllegalWrapper(wrapped, illegal_reward=-1)
    wrapped = wrappers.AssertOutOfBoundsWrapper(wrapped)
    return wrappers.OrderEnforcingWrapper(wrapped)


class raw_env(AECEnv[str, Observation, int]):  # type: ignore[misc]  # noqa: N801 - PettingZoo's
    """Alles Käse! for agents ``player_0`` to ``player_5``, without wrappers.

    Observations are dicts: ``observation``, float32 (253,), see `alles_kaese_env.OBSERVATION`;
    ``action_mask``, int8 (18,), all 0 for an agent that does not act. `observe` answers for any
    agent at any time. Rewards are 0 until the game ends and then the payoffs of RULES P5.

    Args:
        num_players: 2 to 6.
        render_mode: None; "ansi" for a text; "rgb_array" for an array (640, 1024, 3) uint8; "human"
            for a window that follows by itself. The last two need the extra ``render``.
        perspective: what `render` shows: "public" for what everybody sees, a seat for what it may
            know, or "all" for every front that anybody has seen.
        record: write down every game for `replay`; then `render` shows all turns, else the last.
        **variant: the other fields of `Variant`: traps, copies, row_size, trap_limit, burn.

    `reset` takes the seeds and options of `AllesKaeseEnv.reset`. `step` raises `ValueError` for
    an illegal action and leaves the game as it is.

    Raises:
        ValueError: an argument, a seed or an option is not what is allowed.
    """

    metadata = {  # noqa: RUF012 - as PettingZoo has it
        "render_modes": MODES,
        "name": "alles_kaese_v0",
        "is_parallelizable": False,
        "render_fps": RENDER_FPS,
    }

    def __init__(
        self,
        num_players: int = 2,
        render_mode: str | None = None,
        perspective: Perspective = PUBLIC,
        record: bool = False,
        **variant: Any,
    ) -> None:
        super().__init__()
        self.render_mode = render_mode
        self.variant = Variant.from_fields(num_players=num_players, **variant)
        self._renderer = Renderer(render_mode, perspective, self.variant)
        self.possible_agents = [f"player_{seat}" for seat in range(self.variant.num_players)]
        mask = gymnasium.spaces.Box(0, 1, (NUM_ACTIONS,), np.int8)
        self.observation_spaces = {
            agent: gymnasium.spaces.Dict({"observation": OBSERVATION.space(), "action_mask": mask})
            for agent in self.possible_agents
        }
        self.action_spaces = {
            agent: gymnasium.spaces.Discrete(NUM_ACTIONS) for agent in self.possible_agents
        }
        self._seat_of = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._batch = GameBatch(1, self.variant, record=record)
        self._row = np.zeros(1, np.int64)
        self._action = np.zeros(1, np.int64)
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> gymnasium.spaces.Dict:
        """The same space object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Discrete:
        """The same space object at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a new game; without a seed, the random stream goes on."""
        # PettingZoo's api_test hands over an option of the name "options".
        script = ScriptedDeal.from_options(self.variant, options, ignored=("options",))
        number = as_seed(seed)
        if number is not None:
            self._batch.streams[:] = streams_of(number, 1)
        self._batch.deal(self._row, script)
        self._batch.look(self._row)
        self._begin()
        self._follow()

    def _begin(self) -> None:
        """All agents are in the game, which goes on."""
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = self.possible_agents[int(self._batch.seats[0])]

    def step(self, action: Any) -> None:
        """Let the selected agent act; None for an agent whose game is over."""
        self._check_begun()
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._action[0] = as_action(action)
        self._batch.check(self._action, self._row)
        self._batch.attempt(self._action, self._row)
        self._batch.look(self._row)
        self._cumulative_rewards[agent] = 0.0
        if self._batch.over[0]:
            self._end()
        else:
            self.agent_selection = self.possible_agents[int(self._batch.seats[0])]
        self._follow()

    def observe(self, agent: str) -> Observation:
        """What an agent knows now, and what it may do."""
        self._check_begun()
        seat = self._seat_of[agent]
        if seat == self._batch.seats[0] and not self.terminations.get(agent, True):
            observation = self._batch.observations[0].copy()
            mask = self._batch.masks[0].astype(np.int8)
        else:
            observation = self._batch.observe(seat)[0]
            mask = np.zeros(NUM_ACTIONS, np.int8)
        return {"observation": observation, "action_mask": mask}

    def replay(self, **options: Any) -> Replay:
        """The game as it went up to now, with ``record=True``; see `GameBatch.replay`."""
        return self._batch.replay(0, **options)

    def get_state(self) -> State:
        """The game, its random stream and how far it is, to save and restore it in mid-game.

        Plain data for `set_state` and `alles_kaese_env.state.save_state`, without a stacked deck.
        It holds more than any agent may know. Take it of `raw_env`, or of ``env().unwrapped``.

        Raises:
            gymnasium.error.ResetNeeded: there is no game yet.
            ValueError: `TerminateIllegalWrapper` has broken the game off.
        """
        self._check_begun()
        gone = len(self.possible_agents) - len(self.agents)
        ended = [*self.terminations.values(), *self.truncations.values()]
        if (any(ended) or gone) and not self._batch.over[0]:
            raise ValueError(
                "the game was broken off; allowed: a state of one that goes on or ended"
            )
        return make_state("raw_env", batch=self._batch.get_state(), dead_steps=gone)

    def set_state(self, state: State) -> None:
        """Go on from a state of an environment with the same arguments.

        Raises:
            ValueError: the state is of another version or other rules, or none that can occur.
        """
        open_state(state, "raw_env", ("batch", "dead_steps"))
        games, _ = self._batch.checked_state(state["batch"])
        is_over = games["phase"][0] == OVER
        most = len(self.possible_agents) if is_over else 0
        gone = whole_number("state['dead_steps']", state["dead_steps"], 0, most)
        self._batch.set_state(state["batch"])
        self._begin()
        if is_over:
            self._end()
        for _ in range(gone):
            self._was_dead_step(None)

    def render(self) -> Frame | None:
        """The table as ``perspective`` sees it: text, array, or None where a window shows it.

        Raises:
            gymnasium.error.ResetNeeded: there is no game yet.
        """
        if self.render_mode is None:
            allowed = ", ".join(f'"{mode}"' for mode in MODES)
            gymnasium.logger.warn(f"render was called without a render_mode; allowed: {allowed}")
            return None
        self._check_begun()
        return self._renderer.render(self._batch, 0, int(self._batch.seats[0]))

    def close(self) -> None:
        """Close the window, if there is one."""
        self._renderer.close()

    def _follow(self) -> None:
        """Show the new table in the window, if there is one."""
        if self.render_mode == "human":
            self.render()

    def _check_begun(self) -> None:
        if not hasattr(self, "agent_selection"):
            raise gymnasium.error.ResetNeeded("there is no game yet; call reset first")

    def _end(self) -> None:
        """The game is over: payoffs for all agents, which then take a last, empty step each."""
        payoffs = self._batch.payoffs[0]
        self.rewards = {agent: float(payoffs[self._seat_of[agent]]) for agent in self.agents}
        self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self._deads_step_first()

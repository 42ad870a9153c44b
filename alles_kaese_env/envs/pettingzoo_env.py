"""The PettingZoo API: all seats are agents, one acts at a time (AEC)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from alles_kaese_env.actions import as_action
from alles_kaese_env.core.records import OVER
from alles_kaese_env.envs.common import EverySeat, Observation, OneGame, variant_of
from alles_kaese_env.observation import STATE
from alles_kaese_env.replay.game import PUBLIC, Perspective
from alles_kaese_env.state import State, make_state, open_state
from alles_kaese_env.variant import whole_number
from alles_kaese_env.viewer.renderer import MODES, RENDER_FPS, Renderer


def env(**kwargs: Any) -> AECEnv[str, Observation, int]:
    """The environment with PettingZoo's usual wrappers; arguments as for `raw_env`.

    An illegal action ends the game, with reward -1 for the agent that played it and 0 for the
    others.
    """
    wrapped: AECEnv[str, Observation, int] = raw_env(**kwargs)
    wrapped = wrappers.TerminateIllegalWrapper(wrapped, illegal_reward=-1)
    wrapped = wrappers.AssertOutOfBoundsWrapper(wrapped)
    return wrappers.OrderEnforcingWrapper(wrapped)


class raw_env(OneGame, EverySeat, AECEnv[str, Observation, int]):  # type: ignore[misc]  # noqa: N801 - PettingZoo's
    """Alles Käse! for agents ``player_0`` to ``player_5``, without wrappers.

    Observations are dicts: ``observation``, float32 (253,), see `alles_kaese_env.OBSERVATION`;
    ``action_mask``, int8 (18,), all 0 for an agent that does not act. `observe` works for any
    agent at any time. Rewards are 0 until the game ends and then the payoffs of RULES P5. Infos
    are empty.

    Args:
        num_players: 2 to 6.
        render_mode: None; "ansi" for text; "rgb_array" for an array (640, 1024, 3) uint8; "human"
            for a window that is updated at every step. The last two need the extra ``render``.
        perspective: what `render` shows: "public" for what everybody sees, a seat for what it may
            know, or "all" for every front that anybody has seen.
        record: record every game for `replay`; then `render` shows all turns, else the last one.
        recall: False leaves out of all observations what an agent has to remember by itself: what
            a peek of its own saw is shown until its next action.
        **variant: the other fields of `Variant`: traps, copies, row_size, trap_limit, burn.

    `reset` takes the seeds and options of `AllesKaeseEnv.reset`. `step` raises `ValueError` for
    an illegal action and leaves the game as it is.

    Raises:
        TypeError: there is no argument of that name.
        ValueError: an argument, a seed or an option is not what is allowed.
    """

    metadata = {  # noqa: RUF012 - as PettingZoo has it
        "render_modes": MODES,
        "name": "alles_kaese_v0",
        "is_parallelizable": False,
        "render_fps": RENDER_FPS,
    }
    agent_selection: str  # unset before the first reset

    def __init__(
        self,
        num_players: int = 2,
        render_mode: str | None = None,
        perspective: Perspective = PUBLIC,
        record: bool = False,
        recall: bool = True,
        **variant: Any,
    ) -> None:
        super().__init__()
        self._open(variant_of(raw_env, num_players, variant), "observation", record, recall)
        self.render_mode = render_mode
        self._renderer = Renderer(render_mode, perspective, self.variant)
        self._seat_of = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._action = np.zeros(1, np.int64)
        self.state_space = STATE.space()
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> gymnasium.spaces.Dict:
        """The same space object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gymnasium.spaces.Discrete:
        """The same space object at every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a new game; without a seed, the random stream goes on."""
        self._deal(seed, options, ignored=("options",))  # which PettingZoo's api_test passes
        self._begin()
        self._update_window()

    def step(self, action: Any) -> None:
        """Let the selected agent act; None for an agent whose game is over."""
        self._check_begun()
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._action[0] = as_action(action)
        self._batch.step(self._action)
        self._cumulative_rewards[agent] = 0.0
        if self._batch.over[0]:
            self._end()
        else:
            self.agent_selection = self._mover()
        self._update_window()

    def observe(self, agent: str) -> Observation:
        """What an agent knows now, and what it may do."""
        self._check_begun()
        seat = self._seat_of[agent]
        if seat == self._batch.seats[0] and not self.terminations.get(agent, True):
            return self._seen_by_mover()
        return self._seen_by_other(seat)

    def state(self) -> npt.NDArray[np.float32]:
        """The whole state from ``player_0`` on, float32 (361,), see `alles_kaese_env.STATE`.

        It is privileged: for a centralised critic, never for an agent that plays.
        """
        self._check_begun()
        return self._batch.states(0)[0]

    def get_state(self) -> State:
        """The game, its random stream and the progress of the episode, to go on from later.

        Plain data for `set_state` and `alles_kaese_env.state.save_state`, without a stacked deck.
        It holds more than any agent may know. Call it on `raw_env`, or on ``env().unwrapped``.

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
            ValueError: the state is of another version or other rules, or one that cannot occur.
        """
        open_state(state, "raw_env", ("batch", "dead_steps"))
        games, *_ = self._batch.checked_state(state["batch"])
        is_over = games["phase"][0] == OVER
        most = len(self.possible_agents) if is_over else 0
        gone = whole_number("state['dead_steps']", state["dead_steps"], 0, most)
        self._batch.set_state(state["batch"])
        self._begin()
        if is_over:
            self._end()
        for _ in range(gone):
            self._was_dead_step(None)

    def _check_begun(self) -> None:
        if not hasattr(self, "agent_selection"):
            raise gymnasium.error.ResetNeeded("there is no game yet; call reset first")

    def _begin(self) -> None:
        """All agents are in the game, which goes on."""
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = self._mover()

    def _end(self) -> None:
        """The game is over: payoffs for all agents, which then take a last, empty step each."""
        payoffs = self._batch.payoffs[0]
        self.rewards = {agent: float(payoffs[self._seat_of[agent]]) for agent in self.agents}
        self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self._deads_step_first()

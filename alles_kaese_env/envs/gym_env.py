"""The Gymnasium API: one game, in which one seat learns and opponents play the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from alles_kaese_env.actions import as_action
from alles_kaese_env.agent import Opponent
from alles_kaese_env.core.records import NUM_ACTIONS
from alles_kaese_env.envs.common import Info, OneGame, variant_of
from alles_kaese_env.observation import OBSERVATION
from alles_kaese_env.replay.game import Perspective
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.seeding import agent_generator, as_seed, drawn_streams, streams_of
from alles_kaese_env.single_seat import SingleSeatGames
from alles_kaese_env.state import State
from alles_kaese_env.viewer.renderer import MODES, RENDER_FPS, Renderer


class AllesKaeseEnv(OneGame, gymnasium.Env[npt.NDArray[np.float32], np.int64]):
    """Alles Käse! for one learner.

    ## Action space
    `Discrete(18)`: kind x slot; 0 to 5 peek, 6 to 11 take, 12 to 17 discard (see
    `alles_kaese_env.decode_action`).

    ## Observation space
    `Box(0, 1, (253,), float32)`, see `alles_kaese_env.OBSERVATION`.

    ## Info
    Every `reset` and `step` returns ``action_mask``, the legal actions, int8 (18,), and
    ``illegal_action``, whether an illegal action ended the episode, a bool array ().
    `action_masks()` returns the legal actions as bool (18,).

    ## Reward
    The payoff of RULES P5 at the end: 1 for a sole winner down to -1 / (num_players - 1). With
    ``reward="shaped"`` it is spread over the episode.

    ## Start
    A new deal. Opponents that sit before the learner have already played.

    ## End
    `terminated` when the game is over or the learner acted illegally. `truncated` is always
    False. Games of 4 to 6 players have no bound on their length but end with probability 1; pass
    ``max_episode_steps`` to `gymnasium.make` if you need a bound.

    Args:
        num_players: 2 to 6.
        opponents: an agent for all other seats, or num_players - 1 of them in turn order after
            the learner. An agent is "random", a name such as "reference", an import path, or an
            object with ``act(observations, masks, rng) -> actions`` on batches.
        seat: the learner's seat; None draws one for each game.
        reward: "win" or "shaped".
        on_illegal: what an illegal action of the learner does: "forfeit" ends the episode with
            the payoff of a lost game, "raise" raises `ValueError`. The game is not changed.
        render_mode: None; "ansi" for text; "rgb_array" for an array (640, 1024, 3) uint8; "human"
            for a window that is updated at every step. The last two need the extra ``render``.
        perspective: what `render` shows: None for what the learner may know, "public" for what
            everybody sees, a seat for what it may know, or "all" for every front that anybody
            has seen.
        record: record every game for `replay`, from the next deal on; then `render` shows all
            turns, else the last one.
        recall: False leaves out of the learner's observations what its seat has to remember by
            itself: what a peek of its own saw is shown until its next action. Opponents know as
            much as ever, unless they say ``recall = False``.
        **variant: the other fields of `Variant`: traps, copies, row_size, trap_limit, burn.

    `reset(seed=...)` takes 0 to 2^64 - 1. `reset(options={"deck": ..., "dice": ...})` deals a
    stacked deck: (holes, is_trap) of all cards, first the slots of the row and then the reserve,
    and the numbers of the first rolls.

    Raises:
        TypeError: there is no argument of that name.
        ValueError: an argument, a seed or an option is not what is allowed.

    ## Version history
    v0: first version. `AllesKaeseNoRecall-v0` is the same with ``recall=False``.
    """

    metadata = {"render_modes": MODES, "render_fps": RENDER_FPS}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        num_players: int = 2,
        opponents: Opponent | Sequence[Opponent] = "random",
        seat: int | None = None,
        reward: str = "win",
        on_illegal: str = "forfeit",
        render_mode: str | None = None,
        perspective: Perspective | None = None,
        record: bool = False,
        recall: bool = True,
        **variant: Any,
    ) -> None:
        self.variant = variant_of(AllesKaeseEnv, num_players, variant)
        self.observation_space: gymnasium.spaces.Box[Any] = OBSERVATION.space()
        self.action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self.render_mode = render_mode
        self._renderer = Renderer(render_mode, perspective, self.variant)
        self._games = SingleSeatGames(
            1, self.variant, opponents, seat, reward, on_illegal, record, recall
        )
        self._batch = self._games.batch
        self._action = np.zeros(1, np.int64)
        self._is_seeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], Info]:
        """Begin a new game; without a seed, the random stream goes on."""
        script = ScriptedDeal.from_options(self.variant, options)
        number = as_seed(seed)
        super().reset(seed=number)
        if number is not None:
            self._games.seed(streams_of(number, 1), agent_generator(number))
        elif not self._is_seeded:
            game, opponents = drawn_streams(self.np_random, 2)
            self._games.seed(np.array([game]), agent_generator(int(opponents)))
        self._is_seeded = True
        self._games.deal(self._games.rows, script)
        self._update_window()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[npt.NDArray[np.float32], float, bool, bool, Info]:
        """Act with the learner's seat, and let the opponents play up to its next decision."""
        self._action[0] = as_action(action)
        games = self._games
        games.step(self._action, games.rows)
        self._update_window()
        reward, terminated = float(games.rewards[0]), bool(games.terminated[0])
        return self._observation(), reward, terminated, False, self._info()

    def get_state(self) -> State:
        """The game, its random streams and the progress of the episode, to go on from later.

        Plain data for `set_state` and `alles_kaese_env.state.save_state`; the opponents are not
        part of it, and neither is a stacked deck. It holds more than the learner may know.

        Raises:
            gymnasium.error.ResetNeeded: there is no game yet.
        """
        return self._games.get_state()

    def set_state(self, state: State) -> tuple[npt.NDArray[np.float32], Info]:
        """Go on from a state of an environment with the same arguments; returns as `reset` does.

        Raises:
            ValueError: the state is of another version or other rules, or one that cannot occur.
        """
        self._games.set_state(state)
        self._is_seeded = True
        self._update_window()
        return self._observation(), self._info()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions, (18,) bool, under the name that sb3-contrib uses."""
        self._check_begun()
        return self._batch.masks[0].copy()

    def _check_begun(self) -> None:
        self._games.check_begun()

    def _observation(self) -> npt.NDArray[np.float32]:
        return self._batch.observations[0].copy()

    def _info(self) -> Info:
        # An array, since Gymnasium's vector environments put np.bool_ into arrays of objects.
        illegal = np.array(self._games.illegal[0])
        return {"action_mask": self._batch.masks[0].astype(np.int8), "illegal_action": illegal}

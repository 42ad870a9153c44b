"""The native Gymnasium VectorEnv: many games in one compiled loop; one seat of each learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from alles_kaese_env.actions import as_actions
from alles_kaese_env.agent import Opponent
from alles_kaese_env.core.records import NUM_ACTIONS
from alles_kaese_env.envs.common import Info, variant_of, warn_without_mode
from alles_kaese_env.observation import OBSERVATION
from alles_kaese_env.replay.game import Perspective, Replay
from alles_kaese_env.seeding import agent_generator, as_seed, drawn_streams, streams_of
from alles_kaese_env.single_seat import SingleSeatGames
from alles_kaese_env.state import State, checked_array, open_state
from alles_kaese_env.variant import one_of, whole_number
from alles_kaese_env.viewer.renderer import RENDER_FPS, Frame, Renderer

Flags = npt.NDArray[np.bool_]
NO_LIMIT = 2**31 - 1  # decisions of an episode


class AllesKaeseVectorEnv(VectorEnv[npt.NDArray[np.float32], npt.NDArray[np.int64], Any]):
    """`AllesKaeseEnv` for many games at once.

    Given the same seeds, game i is the same as the single environment with ``seeds[i]``, step by
    step, as long as the opponents are deterministic or "random" (others draw from one generator).

    Args:
        num_envs: number of games, B below.
        autoreset_mode: `AutoresetMode` or its value: NEXT_STEP, SAME_STEP or DISABLED, as
            Gymnasium defines them.
        num_players, opponents, seat, reward, on_illegal, record, recall, **variant: as in
            `AllesKaeseEnv`. With ``on_illegal="raise"`` no game is changed when one of the
            actions is illegal.
        render_mode, perspective: as in `AllesKaeseEnv`, without a window.
        max_episode_steps: truncate an episode after so many steps, as Gymnasium's `TimeLimit`
            does; None for no limit.

    `reset(seed=...)` takes one seed for all games (their streams are words of one
    `SeedSequence`, so neighbouring seeds share none), or a sequence of B seeds or Nones.
    `reset(options={"reset_mask": (B,) bool})` begins new games in these rows only.

    Infos always hold ``action_mask``, int8 (B, 18), and ``illegal_action``, bool (B,), with
    ``_action_mask`` and ``_illegal_action`` as Gymnasium adds them; with SAME_STEP, a step that
    ends episodes adds ``final_obs`` and ``final_info``. `action_masks()`: bool (B, 18).

    Raises:
        TypeError: there is no argument of that name.
        ValueError: an argument, a seed, an option or the actions are not what is allowed.
    """

    metadata = {  # noqa: RUF012 - as Gymnasium has it
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": RENDER_FPS,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        num_players: int = 2,
        opponents: Opponent | Sequence[Opponent] = "random",
        seat: int | None = None,
        reward: str = "win",
        on_illegal: str = "forfeit",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        perspective: Perspective | None = None,
        record: bool = False,
        recall: bool = True,
        max_episode_steps: int | None = None,
        **variant: Any,
    ) -> None:
        self.variant = variant_of(AllesKaeseVectorEnv, num_players, variant)
        modes: Any = self.metadata["render_modes"]
        self._renderer = Renderer(render_mode, perspective, self.variant, modes)
        self.num_envs = whole_number("num_envs", num_envs, 1, 2**31 - 1)
        self._games = SingleSeatGames(
            num_envs, self.variant, opponents, seat, reward, on_illegal, record, recall
        )
        self._limit = NO_LIMIT
        if max_episode_steps is not None:
            self._limit = whole_number("max_episode_steps", max_episode_steps, 1, NO_LIMIT)
        self.render_mode = render_mode
        mode = getattr(autoreset_mode, "value", autoreset_mode)
        mode = one_of("autoreset_mode", mode, [one.value for one in AutoresetMode])
        self.autoreset_mode = AutoresetMode(mode)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = OBSERVATION.space()
        self.single_action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._all = np.ones(self.num_envs, bool)
        self._lengths = np.zeros(self.num_envs, np.int64)  # steps of the present episodes
        self._is_over = np.zeros(self.num_envs, bool)  # waits for a new game
        self._is_seeded = False

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[npt.NDArray[np.float32], Info]:
        """Begin new games, in all rows or in those of ``options["reset_mask"]``."""
        which = self._reset_mask(options)
        rows = np.flatnonzero(which)
        self._seed(seed, rows)
        self._deal(rows)
        self._is_over &= ~which
        return self._observations(), self._infos(which)

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], Flags, Flags, Info]:
        """Act in each game; the autoreset mode says when ended games begin anew."""
        chosen = self._checked_actions(actions)
        playing = np.flatnonzero(~self._is_over)
        self._games.step(chosen[playing], playing)
        self._lengths[playing] += 1
        if len(playing) < self.num_envs:
            self._deal(np.flatnonzero(self._is_over))
        rewards = self._games.rewards.astype(np.float64)
        terminated = self._games.terminated.copy()
        truncated = self._lengths >= self._limit
        self._is_over = terminated | truncated
        infos: Info = {}
        if self.autoreset_mode == AutoresetMode.SAME_STEP and self._is_over.any():
            infos = self._final_infos(self._is_over)
            self._deal(np.flatnonzero(self._is_over))
            self._is_over = np.zeros(self.num_envs, bool)
        infos |= self._infos(self._all)
        return self._observations(), rewards, terminated, truncated, infos

    def get_state(self) -> State:
        """The games, their streams and the progress of episodes; see `AllesKaeseEnv.get_state`.

        Raises:
            gymnasium.error.ResetNeeded: there are no games yet.
        """
        return {**self._games.get_state(), "lengths": self._lengths.copy()}

    def set_state(self, state: State) -> tuple[npt.NDArray[np.float32], Info]:
        """Go on from a state of an environment with the same arguments; returns as `reset` does.

        Raises:
            ValueError: the state is of another version, other rules or another number of games,
                or one that cannot occur.
        """
        open_state(state, "SingleSeatGames", ("lengths",))
        lengths = checked_array(state, "lengths", self._lengths, 0, self._limit)
        self._games.set_state(state)
        self._lengths[:] = lengths
        self._is_over = self._games.terminated | (lengths >= self._limit)
        self._is_seeded = True
        return self._observations(), self._infos(self._all)

    def action_masks(self) -> Flags:
        """The legal actions of each game, (B, 18) bool."""
        self._games.check_begun()
        return self._games.batch.masks.copy()

    def render(self) -> tuple[Frame | None, ...] | None:  # type: ignore[override]
        """Each game as its learner, or ``perspective``, sees it: texts or arrays."""
        if self.render_mode is None:
            warn_without_mode(self.metadata["render_modes"])
            return None
        self._games.check_begun()
        seats = enumerate(self._games.seats.tolist())
        return tuple(self._renderer.render(self._games.batch, row, seat) for row, seat in seats)

    def replay(self, row: int = 0, **options: Any) -> Replay:
        """A game up to now, recorded with ``record=True``; see `GameBatch.replay`."""
        return self._games.batch.replay(row, **options)

    def _deal(self, rows: npt.NDArray[np.int64]) -> None:
        self._games.deal(rows)
        self._lengths[rows] = 0

    def _seed(self, seed: Any, rows: npt.NDArray[np.int64]) -> None:
        """Begin the streams of these rows anew; without a seed they go on."""
        agents_seed: int | list[int] | None
        if isinstance(seed, (Sequence, np.ndarray)) and not isinstance(seed, str):
            words, agents_seed = self._streams_of_list(seed)
        else:
            number = as_seed(seed)
            if number is None and self._is_seeded:
                return
            self._np_random, self._np_random_seed = gymnasium.utils.seeding.np_random(number)
            if number is None:
                agents_seed, *drawn = drawn_streams(self._np_random, 1 + self.num_envs).tolist()
                words = np.array(drawn, np.uint64)
            else:
                words, agents_seed = streams_of(number, self.num_envs), number
        streams = self._games.batch.streams.copy()
        which = rows if self._is_seeded else self._games.rows
        streams[which] = words[which]
        self._games.seed(streams, agent_generator(agents_seed))
        self._is_seeded = True

    def _streams_of_list(self, seeds: Any) -> tuple[npt.NDArray[np.uint64], list[int] | None]:
        """A stream for each seed, where None leaves a game its own; and the seeds given."""
        shape = np.asarray(seeds, object).shape
        if shape != (self.num_envs,):
            raise ValueError(
                f"seed has shape {shape}; allowed: one seed, or one for each of "
                f"{self.num_envs} games"
            )
        numbers = [as_seed(seed) for seed in seeds]
        words = self._games.batch.streams.copy()
        for k, number in enumerate(numbers):
            if number is not None:
                words[k] = streams_of(number, 1)[0]
        given = [number for number in numbers if number is not None]
        if given:
            self._np_random, self._np_random_seed = np.random.default_rng(given), -1
        return words, given or None

    def _reset_mask(self, options: dict[str, Any] | None) -> Flags:
        for name in options or {}:
            if name != "reset_mask":
                raise ValueError(f"options has {name!r}; allowed: 'reset_mask'")
        if not options:
            return np.ones(self.num_envs, bool)
        mask = options["reset_mask"]
        is_mask = isinstance(mask, np.ndarray) and mask.dtype == bool
        if not is_mask or mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"options['reset_mask'] is {mask!r}; "
                f"allowed: a bool array ({self.num_envs},) with a True in it"
            )
        return mask

    def _checked_actions(self, actions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        if self.autoreset_mode == AutoresetMode.DISABLED and self._is_over.any():
            row = int(np.flatnonzero(self._is_over)[0])
            raise ValueError(f"game {row} is over; reset it before the next step")
        chosen = np.array(actions)
        if chosen.shape == (self.num_envs,):
            chosen[self._is_over] = 0  # ignored: the step only begins a new game
        return as_actions(chosen, self.num_envs)

    def _observations(self) -> npt.NDArray[np.float32]:
        return self._games.batch.observations.copy()

    def _infos(self, which: Flags) -> Info:
        """The infos of the games in ``which``, as `VectorEnv._add_info` collects them."""
        return {
            "action_mask": (self._games.batch.masks & which[:, None]).astype(np.int8),
            "_action_mask": which.copy(),
            "illegal_action": self._games.illegal & which,
            "_illegal_action": which.copy(),
        }

    def _final_infos(self, ended: Flags) -> Info:
        """SAME_STEP: the last observation and info of each game that has just ended."""
        last = np.full(self.num_envs, None, object)
        for row in np.flatnonzero(ended):
            last[row] = self._games.batch.observations[row].copy()
        return {
            "final_obs": last,
            "_final_obs": ended.copy(),
            "final_info": self._infos(ended),
            "_final_info": ended.copy(),
        }

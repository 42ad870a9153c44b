"""The stable-baselines3 API: a VecEnv of many games with the action masks of all in one call.

Needs the extra ``train``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt

from alles_kaese_env.actions import as_actions
from alles_kaese_env.agent import Opponent
from alles_kaese_env.core.records import NUM_ACTIONS
from alles_kaese_env.envs.common import Info, missing_extra, variant_of
from alles_kaese_env.observation import OBSERVATION
from alles_kaese_env.replay.game import Replay
from alles_kaese_env.seeding import agent_generator, as_seed, streams_of
from alles_kaese_env.single_seat import SingleSeatGames
from alles_kaese_env.state import State, checked_array, make_state, open_state
from alles_kaese_env.variant import whole_number

try:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise missing_extra(__name__, "stable-baselines3", "train") from error

Step: TypeAlias = (
    "tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_], list[Any]]"
)


class GamesVecEnv(VecEnv):
    """A VecEnv over one batch of games or several; a finished game begins anew at once.

    Games are no objects of their own, so they share all attributes of the environment.

    Args:
        batches: the games, in the order of the rows.
    """

    def __init__(self, batches: Sequence[SingleSeatGames]) -> None:
        self.batches = list(batches)
        *self._starts, number = accumulate(len(games.rows) for games in batches)
        self.render_mode = None
        super().__init__(number, OBSERVATION.space(), gymnasium.spaces.Discrete(NUM_ACTIONS))
        self._actions = np.zeros(self.num_envs, np.int64)
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Begin all streams anew from one seed, 0 to 2^64 - 1; None takes one at random.

        Neighbouring seeds share no stream, unlike those of `make_vec_env`.
        """
        number = as_seed(seed)
        for games, own in zip(self.batches, self._seeds_of_batches(number), strict=True):
            games.seed(streams_of(own, len(games.seats)), agent_generator(own))
        return [number] * self.num_envs

    def reset(self) -> npt.NDArray[np.float32]:
        """Begin new games; observations (B, 253) float32."""
        for games in self.batches:
            games.deal(games.rows)
        self._returns[:] = 0
        self._lengths[:] = 0
        return self._observations()

    def step_async(self, actions: npt.NDArray[np.int64]) -> None:
        """Take the actions (B,) of the next step."""
        self._actions = as_actions(actions, self.num_envs).copy()

    def step_wait(self) -> Step:
        """Carry the actions out: observations (B, 253), rewards (B,), dones (B,), infos."""
        batches = self.batches
        parts = np.split(self._actions, self._starts)
        for games, actions in zip(batches, parts, strict=True):
            games.step(actions, games.rows)
        rewards = np.concatenate([games.rewards for games in batches])
        dones = np.concatenate([games.terminated for games in batches])
        illegal = np.concatenate([games.illegal for games in batches])
        self._returns += rewards
        self._lengths += 1
        infos = [{"illegal_action": one, "TimeLimit.truncated": False} for one in illegal]
        if dones.any():
            self._begin_anew(np.flatnonzero(dones), infos)
        return self._observations(), rewards, dones, infos

    def _begin_anew(self, ended: npt.NDArray[np.int64], infos: list[Info]) -> None:
        """Complete the infos of the episodes that have just ended, and deal new games."""
        batches = self.batches
        last = np.concatenate([games.batch.observations[games.terminated] for games in batches])
        returns, lengths = self._returns[ended].tolist(), self._lengths[ended].tolist()
        for k, row in enumerate(ended.tolist()):
            infos[row]["terminal_observation"] = last[k]
            infos[row]["episode"] = {"r": returns[k], "l": lengths[k], "t": 0.0}
        for games in batches:
            games.deal(np.flatnonzero(games.terminated))
        self._returns[ended] = 0
        self._lengths[ended] = 0

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions of all games, (B, 18) bool."""
        for games in self.batches:
            games.check_begun()
        return np.concatenate([games.batch.masks for games in self.batches])

    def close(self) -> None:
        """Do nothing."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute of the whole, once for each game asked for."""
        return [getattr(self, attr_name)] * len(self._rows_of(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise `AttributeError`: single games have no attributes of their own."""
        raise AttributeError(f"{attr_name} cannot be set for single games of {type(self).__name__}")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """The result of a method for each game asked for; there is only ``action_masks``."""
        if method_name != "action_masks":
            raise AttributeError(f"{type(self).__name__} has no method {method_name!r} for a game")
        return list(self.action_masks()[self._rows_of(indices)])

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """True for `Monitor` alone, since infos hold its ``episode``."""
        return [wrapper_class is Monitor] * len(self._rows_of(indices))

    def get_state(self) -> State:
        """The games, their streams and the progress of episodes; see `AllesKaeseEnv.get_state`.

        Raises:
            gymnasium.error.ResetNeeded: there are no games yet.
        """
        return make_state(
            "GamesVecEnv",
            batches=[games.get_state() for games in self.batches],
            returns=self._returns.copy(),
            lengths=self._lengths.copy(),
        )

    def set_state(self, state: State) -> npt.NDArray[np.float32]:
        """Go on from a state of an environment with the same arguments; observations (B, 253).

        Raises:
            ValueError: the state is of another version, other rules or another number of games,
                or one that cannot occur. Batches before the one at fault have changed then.
        """
        open_state(state, "GamesVecEnv", ("batches", "returns", "lengths"))
        returns = checked_array(state, "returns", self._returns, -2, 2)
        lengths = checked_array(state, "lengths", self._lengths, 0, 2**16)
        states, number = state["batches"], len(self.batches)
        if not isinstance(states, list) or len(states) != number:
            raise ValueError(f"state has batches {states!r:.100}; allowed: a list of {number}")
        for games, one in zip(self.batches, states, strict=True):
            games.set_state(one)
        self._returns[:] = returns
        self._lengths[:] = lengths
        return self._observations()

    def set_opponents(
        self, opponents: Sequence[Opponent], weights: Sequence[float] | None = None
    ) -> None:
        """Change who plays from the next deals on, see `SingleSeatGames.set_opponents`."""
        for games in self.batches:
            games.set_opponents(opponents, weights)

    def _seeds_of_batches(self, seed: int | None) -> list[int | None]:
        return [seed]

    def _observations(self) -> npt.NDArray[np.float32]:
        return np.concatenate([games.batch.observations for games in self.batches])

    def _rows_of(self, indices: Any) -> list[int]:
        rows: Iterable[int] = self._get_indices(indices)
        return list(rows)


class AllesKaeseVecEnv(GamesVecEnv):
    """Many games, in each of which one seat learns; a finished game begins anew at once.

    Args:
        num_envs: number of games, B below.
        num_players, opponents, seat, reward, on_illegal, record, recall, **variant: as in
            `alles_kaese_env.AllesKaeseEnv`.
        seed: as for `seed`.

    `action_masks()` returns the legal actions, bool (B, 18), and `env_method("action_masks")`
    the rows of that array. Every info holds ``illegal_action``, whether an illegal action ended
    the episode, np.bool_, and ``TimeLimit.truncated``, False. The info of an episode that has
    just ended adds, as stable-baselines3 has it, ``terminal_observation`` and ``episode``: return
    and length in decisions of the learner, as of its `Monitor`.

    Raises:
        TypeError: there is no argument of that name.
        ValueError: an argument, a seed or the actions are not what is allowed.
    """

    def __init__(
        self,
        num_envs: int,
        num_players: int = 2,
        opponents: Opponent | Sequence[Opponent] = "random",
        seat: int | None = None,
        reward: str = "win",
        on_illegal: str = "forfeit",
        seed: int | None = None,
        record: bool = False,
        recall: bool = True,
        **variant: Any,
    ) -> None:
        self.variant = variant_of(AllesKaeseVecEnv, num_players, variant)
        number = whole_number("num_envs", num_envs, 1, 2**31 - 1)
        self.games = SingleSeatGames(
            number, self.variant, opponents, seat, reward, on_illegal, record, recall
        )
        super().__init__([self.games])
        if seed is not None:
            self.seed(seed)

    def replay(self, row: int = 0, **options: Any) -> Replay:
        """A game up to now, recorded with ``record=True``; see `GameBatch.replay`."""
        return self.games.batch.replay(row, **options)


class JoinedVecEnv(GamesVecEnv):
    """Several `AllesKaeseVecEnv` as one, such as games with 2 and games with 4 players.

    Each part gets a seed of its own that follows from the seed of the whole.

    Args:
        parts: in the order of their games.

    Raises:
        ValueError: there is no part.
    """

    def __init__(self, parts: Sequence[AllesKaeseVecEnv]) -> None:
        if not parts:
            raise ValueError("parts is empty; allowed: one AllesKaeseVecEnv or more")
        super().__init__([part.games for part in parts])

    def _seeds_of_batches(self, seed: int | None) -> list[int | None]:
        return list(streams_of(seed, len(self.batches)).tolist())

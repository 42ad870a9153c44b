"""The stable-baselines3 API: a VecEnv of many games with the action masks of all in one call.

Needs the extra ``train``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt

from alles_kaese_env.actions import as_actions
from alles_kaese_env.agent import Opponent
from alles_kaese_env.core.records import NUM_ACTIONS
from alles_kaese_env.envs.common import Info, variant_of
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
    raise ImportError(
        "alles_kaese_env.envs.sb3 needs stable-baselines3; "
        'install it with: pip install "alles-kaese[train]"'
    ) from error

Step: TypeAlias = (
    "tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_], list[Any]]"
)


class BatchedVecEnv(VecEnv):
    """A VecEnv whose games are no objects of their own, so that they share all attributes."""

    def __init__(self, num_envs: int) -> None:
        self.render_mode = None
        super().__init__(num_envs, OBSERVATION.space(), gymnasium.spaces.Discrete(NUM_ACTIONS))
        self._actions = np.zeros(num_envs, np.int64)

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions of all games, (B, 18) bool."""
        raise NotImplementedError

    def step_async(self, actions: npt.NDArray[np.int64]) -> None:
        """Take the actions (B,) of the next step."""
        self._actions = as_actions(actions, self.num_envs).copy()

    def close(self) -> None:
        """Nothing to close."""

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

    def _rows_of(self, indices: Any) -> list[int]:
        rows: Iterable[int] = self._get_indices(indices)
        return list(rows)


class AllesKaeseVecEnv(BatchedVecEnv):
    """Many games, in each of which one seat learns; a finished game begins anew at once.

    Args:
        num_envs: number of games, B below.
        num_players, opponents, seat, reward, on_illegal, record, **variant: as in
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
        **variant: Any,
    ) -> None:
        self.variant = variant_of(AllesKaeseVecEnv, num_players, variant)
        super().__init__(whole_number("num_envs", num_envs, 1, 2**31 - 1))
        self.games = SingleSeatGames(
            num_envs, self.variant, opponents, seat, reward, on_illegal, record
        )
        self._all_rows = np.arange(self.num_envs, dtype=np.int64)
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Begin all streams anew from one seed, 0 to 2^64 - 1; None takes one at random.

        Neighbouring seeds share no stream, unlike those of `make_vec_env`.
        """
        number = as_seed(seed)
        streams = streams_of(number, self.num_envs)
        self.games.seed(streams, agent_generator(number))
        return [number] * self.num_envs

    def reset(self) -> npt.NDArray[np.float32]:
        """Begin new games; observations (B, 253) float32."""
        self.games.deal(self._all_rows)
        self._returns[:] = 0
        self._lengths[:] = 0
        return self.games.batch.observations.copy()

    def step_wait(self) -> Step:
        """Carry the actions out: observations (B, 253), rewards (B,), dones (B,), infos."""
        games = self.games
        games.step(self._actions, self._all_rows)
        rewards, dones = games.rewards.copy(), games.terminated.copy()
        self._returns += rewards
        self._lengths += 1
        infos: list[Info] = [
            {"illegal_action": illegal, "TimeLimit.truncated": False} for illegal in games.illegal
        ]
        ended = np.flatnonzero(dones)
        if len(ended):
            self._add_episodes(infos, ended)
            games.deal(ended)
            self._returns[ended] = 0
            self._lengths[ended] = 0
        return games.batch.observations.copy(), rewards, dones, infos

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions of all games, (B, 18) bool."""
        self.games.check_begun()
        return self.games.batch.masks.copy()

    def get_state(self) -> State:
        """The games, their streams and the progress of episodes; see `AllesKaeseEnv.get_state`.

        Raises:
            gymnasium.error.ResetNeeded: there are no games yet.
        """
        return make_state(
            "AllesKaeseVecEnv",
            games=self.games.get_state(),
            returns=self._returns.copy(),
            lengths=self._lengths.copy(),
        )

    def set_state(self, state: State) -> npt.NDArray[np.float32]:
        """Go on from a state of an environment with the same arguments; observations (B, 253).

        Raises:
            ValueError: the state is of another version, other rules or another number of games,
                or one that cannot occur.
        """
        open_state(state, "AllesKaeseVecEnv", ("games", "returns", "lengths"))
        returns = checked_array(state, "returns", self._returns, -2, 2)
        lengths = checked_array(state, "lengths", self._lengths, 0, 2**16)
        self.games.set_state(state["games"])
        self._returns[:] = returns
        self._lengths[:] = lengths
        return self.games.batch.observations.copy()

    def set_opponents(
        self, opponents: Sequence[Opponent], weights: Sequence[float] | None = None
    ) -> None:
        """Change who plays from the next deals on, see `SingleSeatGames.set_opponents`."""
        self.games.set_opponents(opponents, weights)

    def replay(self, row: int = 0, **options: Any) -> Replay:
        """A game up to now, recorded with ``record=True``; see `GameBatch.replay`."""
        return self.games.batch.replay(row, **options)

    def _add_episodes(self, infos: list[Info], ended: npt.NDArray[np.int64]) -> None:
        """What stable-baselines3 asks for in the infos of the episodes that have just ended."""
        last = self.games.batch.observations[ended]
        returns, lengths = self._returns[ended].tolist(), self._lengths[ended].tolist()
        for k, row in enumerate(ended.tolist()):
            infos[row]["terminal_observation"] = last[k]
            infos[row]["episode"] = {"r": returns[k], "l": lengths[k], "t": 0.0}


class JoinedVecEnv(BatchedVecEnv):
    """Several `AllesKaeseVecEnv` as one, such as games with 2 and games with 4 players.

    Args:
        parts: in the order of their games.

    Raises:
        ValueError: there is no part.
    """

    def __init__(self, parts: Sequence[AllesKaeseVecEnv]) -> None:
        if not parts:
            raise ValueError("parts is empty; allowed: one AllesKaeseVecEnv or more")
        self.parts = list(parts)
        super().__init__(sum(part.num_envs for part in self.parts))
        ends = np.cumsum([part.num_envs for part in self.parts])
        self._rows = [
            slice(end - part.num_envs, end) for part, end in zip(self.parts, ends, strict=True)
        ]

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Begin all streams anew; each part gets a seed of its own that follows from this one."""
        number = as_seed(seed)
        streams = streams_of(number, len(self.parts))
        for part, stream in zip(self.parts, streams, strict=True):
            part.seed(int(stream))
        return [number] * self.num_envs

    def reset(self) -> npt.NDArray[np.float32]:
        """Begin new games; observations (B, 253) float32."""
        return np.concatenate([part.reset() for part in self.parts])

    def step_wait(self) -> Step:
        """Carry the actions out: observations (B, 253), rewards (B,), dones (B,), infos."""
        for part, rows in zip(self.parts, self._rows, strict=True):
            part.step_async(self._actions[rows])
        steps = [part.step_wait() for part in self.parts]
        observations, rewards, dones = (
            np.concatenate([step[k] for step in steps]) for k in range(3)
        )
        return observations, rewards, dones, [info for step in steps for info in step[3]]

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions of all games, (B, 18) bool."""
        return np.concatenate([part.action_masks() for part in self.parts])

    def get_state(self) -> State:
        """The states of all parts."""
        return make_state("JoinedVecEnv", parts=[part.get_state() for part in self.parts])

    def set_state(self, state: State) -> npt.NDArray[np.float32]:
        """Go on from a state of the same parts; observations (B, 253).

        Raises:
            ValueError: the state is of other parts, or of what `AllesKaeseVecEnv` does not take;
                then parts before that one have changed already.
        """
        states = open_state(state, "JoinedVecEnv", ("parts",))["parts"]
        if not isinstance(states, list) or len(states) != len(self.parts):
            raise ValueError(f"state has parts of another number; allowed: {len(self.parts)}")
        both = zip(self.parts, states, strict=True)
        return np.concatenate([part.set_state(one) for part, one in both])

    def set_opponents(
        self, opponents: Sequence[Opponent], weights: Sequence[float] | None = None
    ) -> None:
        """Change who plays in every part from the next deals on."""
        for part in self.parts:
            part.set_opponents(opponents, weights)

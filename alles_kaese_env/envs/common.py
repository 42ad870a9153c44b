"""What the environment APIs share: the variant, errors, rendering, and seats as agents."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.records import NUM_ACTIONS
from alles_kaese_env.game_batch import GameBatch
from alles_kaese_env.observation import OBSERVATION
from alles_kaese_env.replay.game import Replay
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.seeding import as_seed, streams_of
from alles_kaese_env.variant import Variant
from alles_kaese_env.viewer.renderer import Frame, Renderer

Info = dict[str, Any]
Observation = dict[str, npt.NDArray[Any]]


def variant_of(env: type, num_players: int, others: Mapping[str, Any]) -> Variant:
    """The variant of an environment, whose constructor ends in ``**variant``.

    Raises:
        TypeError: a keyword is no field of `Variant`. Libraries that try keywords rely on it.
        ValueError: a field's value is not allowed.
    """
    unknown = [name for name in others if name not in Variant.__dataclass_fields__]
    if unknown:
        named = [name for name in inspect.signature(env).parameters if name != "variant"]
        allowed = dict.fromkeys([*named, *Variant.__dataclass_fields__])
        raise TypeError(
            f"{env.__name__}.__init__() got an unexpected keyword argument {unknown[0]!r}; "
            f"allowed: {', '.join(allowed)}"
        )
    return Variant(num_players=num_players, **others)


def warn_without_mode(modes: Sequence[str]) -> None:
    """Warn, as Gymnasium does, that nothing can be rendered."""
    allowed = ", ".join(f'"{mode}"' for mode in modes)
    gymnasium.logger.warn(f"render was called without a render_mode; allowed: {allowed}")


def missing_extra(module: str, library: str, extra: str) -> ImportError:
    """The error for a module whose library is not installed."""
    return ImportError(
        f'{module} needs {library}; install it with: pip install "alles-kaese[{extra}]"'
    )


class OneGame:
    """`render`, `replay` and `close` of an environment of one game."""

    metadata: dict[str, Any]
    render_mode: str | None
    _batch: GameBatch
    _renderer: Renderer

    def replay(self, **options: Any) -> Replay:
        """The game up to now, recorded with ``record=True``; see `GameBatch.replay`."""
        return self._batch.replay(0, **options)

    def render(self) -> Frame | None:
        """The table as ``perspective`` sees it: text, array, or None where a window shows it.

        Raises:
            gymnasium.error.ResetNeeded: there is no game yet.
        """
        if self.render_mode is None:
            warn_without_mode(self.metadata["render_modes"])
            return None
        self._check_begun()
        return self._renderer.render(self._batch, 0, int(self._batch.seats[0]))

    def close(self) -> None:
        """Close the window, if there is one."""
        self._renderer.close()

    def _check_begun(self) -> None:
        """Raise `gymnasium.error.ResetNeeded` if there is no game yet."""
        raise NotImplementedError

    def _update_window(self) -> None:
        if self.render_mode == "human":
            self.render()


class EverySeat:
    """One game whose seats are all agents, ``player_0`` to ``player_5``.

    Each of them observes a dict: under one key the observation, float32 (253,), and under
    ``action_mask`` its legal actions, int8 (18,), all 0 for an agent that does not act.
    """

    def _open(self, variant: Variant, key: str, record: bool = False, recall: bool = True) -> None:
        """Make agents, spaces and game; ``key`` is the one of the observation."""
        self.variant = variant
        self.possible_agents = [f"player_{seat}" for seat in range(variant.num_players)]
        mask = gymnasium.spaces.Box(0, 1, (NUM_ACTIONS,), np.int8)
        self.observation_spaces = {
            agent: gymnasium.spaces.Dict({key: OBSERVATION.space(), "action_mask": mask})
            for agent in self.possible_agents
        }
        self.action_spaces = {
            agent: gymnasium.spaces.Discrete(NUM_ACTIONS) for agent in self.possible_agents
        }
        self._batch = GameBatch(1, variant, record=record, recall=recall)
        self._key = key

    def _deal(
        self,
        seed: int | None,
        options: Mapping[str, Any] | None,
        stream: int = 0,
        ignored: Sequence[str] = (),
    ) -> None:
        """`reset`, from one of the streams of the seed; ``ignored`` options mean nothing."""
        script = ScriptedDeal.from_options(self.variant, options, ignored)
        number = as_seed(seed)
        if number is not None:
            self._batch.streams[:] = streams_of(number, stream + 1)[stream:]
        self._batch.reset(script=script)

    def _mover(self) -> str:
        """The agent whose turn it is."""
        return self.possible_agents[int(self._batch.seats[0])]

    def _seen_by_mover(self) -> Observation:
        mask = self._batch.masks[0].astype(np.int8)
        return {self._key: self._batch.observations[0].copy(), "action_mask": mask}

    def _seen_by_other(self, seat: int) -> Observation:
        mask = np.zeros(NUM_ACTIONS, np.int8)
        return {self._key: self._batch.observe(seat)[0], "action_mask": mask}

"""What an agent is, and how one is named."""

from __future__ import annotations

import importlib
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt


@runtime_checkable
class Agent(Protocol):
    """Whatever can play: it sees observations and masks, and never a game."""

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Legal actions (B,) for observations (B, 253) and masks (B, 18)."""


Opponent: TypeAlias = "str | Agent"


def load_agent(field: str, opponent: Any) -> Agent | None:
    """An agent from itself or from its import path; None for "random", which the engine plays.

    Raises:
        ValueError: it is neither "random" nor "module:name" of an agent nor an agent.
    """
    allowed = 'allowed: "random", an import path "module:name", or an object with a method act'
    if opponent == "random":
        return None
    agent = opponent
    if isinstance(opponent, str):
        module, _, name = opponent.partition(":")
        try:
            agent = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{field} is {opponent!r} ({error}); {allowed}") from None
    if isinstance(agent, type):
        agent = agent()
    if not isinstance(agent, Agent):
        raise ValueError(f"{field} is {opponent!r}; {allowed}")
    return agent

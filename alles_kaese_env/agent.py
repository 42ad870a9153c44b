"""What an agent is, and how one is named.

The package knows no agents. A distribution that has some names them as entry points of the group
``alles_kaese_env.agents``: the name of the agent, and a function that makes it from its full name,
such as ``search:400``. The agents of this project are named in its ``pyproject.toml``; its module
``agents`` comes with the clone alone, and another distribution installs one of the same name.
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

GROUP = "alles_kaese_env.agents"
ALLOWED = '"random", the name of an agent, an import path "module:name", or an object with act'


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
    """An agent from itself or from its name; None for "random", which the core plays.

    Args:
        field: what the argument is called in an error.
        opponent: "random", the name of an agent of an installed distribution ("reference",
            "search:400"), an import path (see `import_agent`), or an agent.

    Raises:
        ValueError: it is none of these.
    """
    if opponent == "random":
        return None
    if not isinstance(opponent, str):
        return checked_agent(field, opponent)
    found = tuple(entry_points(group=GROUP, name=opponent.partition(":")[0]))
    if not found:
        return import_agent(opponent, field)
    try:
        return checked_agent(field, found[0].load()(opponent))
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{field} is {opponent!r}, but {found[0].value} makes no agent here ({error}); install "
            'the clone with pip install -e ., or name an import path "module:name"'
        ) from None


def import_agent(path: str, field: str = "agent") -> Agent:
    """The agent of an import path: "module:name", or "module:name:argument".

    Args:
        path: the name in it is that of an agent, or of a class or function that makes one, without
            an argument or from that one text.
        field: what the path is called in an error.

    Raises:
        ValueError: there is no such agent.
    """
    module, _, rest = path.partition(":")
    name, colon, argument = rest.partition(":")
    if not name:
        raise ValueError(f"{field} is {path!r}; allowed: {ALLOWED}")
    try:
        found = getattr(importlib.import_module(module), name)
        if colon or isinstance(found, type) or not isinstance(found, Agent):
            found = found(*[argument] * bool(colon))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{field} is {path!r} ({error}); allowed: {ALLOWED}") from None
    return checked_agent(field, found)


def checked_agent(field: str, agent: Any) -> Agent:
    """`agent`, or one of its class; `ValueError` if it cannot act."""
    try:
        made = agent() if isinstance(agent, type) else agent
    except TypeError as error:
        raise ValueError(f"{field} is {agent!r} ({error}); allowed: {ALLOWED}") from None
    if not isinstance(made, Agent):
        raise ValueError(f"{field} is {agent!r}; allowed: {ALLOWED}")
    return made

"""What an agent is, and how one is named.

The package knows no agents. A distribution that has some names them as entry points of the group
``alles_kaese_env.agents``: the name of the agent, and a function that makes it from its full name,
such as ``search:400``, and from the ``variant``, if it has a parameter of that name. The agents of
this project are named in its ``pyproject.toml``; its module ``agents`` comes with the clone alone,
and another distribution installs one of the same name.
"""

from __future__ import annotations

import importlib
import inspect
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from alles_kaese_env.actions import as_whole_numbers
from alles_kaese_env.core.observe import OBSERVATION_SIZE
from alles_kaese_env.core.records import NUM_ACTIONS
from alles_kaese_env.variant import Variant

GROUP = "alles_kaese_env.agents"
ALLOWED = '"random", the name of an agent, an import path "module:name", or an object with act'


@runtime_checkable
class Agent(Protocol):
    """Whatever can play: it sees observations and masks, and never a game.

    One that was made for observations without recall says so by an attribute ``recall = False``.
    """

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Legal actions (B,) for observations (B, 253) and masks (B, 18)."""


@runtime_checkable
class StochasticAgent(Agent, Protocol):
    """An agent that also says how likely it takes each action, so that its policy is known."""

    def probabilities(
        self, observations: npt.NDArray[np.float32], masks: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float64]:
        """What `act` draws from: (B, 18) for observations (B, 253) and masks (B, 18).

        0 for illegal actions; 1 in each row together.
        """


def ask(
    agent: Agent,
    who: str,
    observations: npt.NDArray[np.float32],
    masks: npt.NDArray[np.bool_],
    rng: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """The actions (B,) of an agent; whether they are legal is left to the caller.

    Args:
        agent: is asked.
        who: names it in an error, such as "opponent SearchAgent".
        observations, masks, rng: as in `Agent.act`.

    Raises:
        ValueError: the answer has another shape or type, or the agent raised a `ValueError`.
        RuntimeError: the agent raised another exception. It is the cause.
    """
    try:
        actions = agent.act(observations, masks, rng)
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from error
    except Exception as error:
        raise RuntimeError(f"{who} raised {type(error).__name__}: {error}") from error
    return as_whole_numbers(actions, len(masks), f" of {who}")


def name_of(agent: Agent | None) -> str:
    """What an agent is called in an error."""
    return "random" if agent is None else getattr(agent, "__name__", type(agent).__name__)


Opponent: TypeAlias = "str | Agent"


def has_recall(agent: Agent | None) -> bool:
    """Whether an agent was made for observations that recall its peeks."""
    return bool(getattr(agent, "recall", True))


def load_agent(field: str, opponent: Any, variant: Variant | None = None) -> Agent | None:
    """An agent from itself or from its name; None for "random", which the core plays.

    Args:
        field: what the argument is called in an error.
        opponent: "random", the name of an agent of an installed distribution ("reference",
            "search:400"), an import path (see `import_agent`), or an agent.
        variant: the rules, for an agent that is made here and takes a ``variant``; None stands
            for the default rules.

    Raises:
        ValueError: it is none of these.
    """
    if opponent == "random":
        return None
    if not isinstance(opponent, str):
        return checked_agent(field, opponent, variant)
    found = tuple(entry_points(group=GROUP, name=opponent.partition(":")[0]))
    if not found:
        return import_agent(opponent, field, variant)
    try:
        return checked_agent(field, _made(found[0].load(), opponent, variant=variant))
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{field} is {opponent!r}, but {found[0].value} makes no agent here ({error}); install "
            'the clone with pip install -e ., or name an import path "module:name"'
        ) from None


def import_agent(path: str, field: str = "agent", variant: Variant | None = None) -> Agent:
    """The agent of an import path: "module:name", or "module:name:argument"; else `ValueError`.

    The name is that of an agent, or of a class or function that makes one, from the argument if
    there is one. ``field`` and ``variant`` are as in `load_agent`.
    """
    module, _, rest = path.partition(":")
    name, colon, argument = rest.partition(":")
    if not name:
        raise ValueError(f"{field} is {path!r}; allowed: {ALLOWED}")
    try:
        found = getattr(importlib.import_module(module), name)
        if colon or isinstance(found, type) or not isinstance(found, Agent):
            found = _made(found, *[argument] * bool(colon), variant=variant)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{field} is {path!r} ({error}); allowed: {ALLOWED}") from None
    return checked_agent(field, found)


def _made(factory: Any, *arguments: str, variant: Variant | None) -> Any:
    """What the factory makes; it is told the variant if it has a parameter of that name."""
    if variant is None or "variant" not in inspect.signature(factory).parameters:
        return factory(*arguments)
    return factory(*arguments, variant=variant)


def checked_agent(field: str, agent: Any, variant: Variant | None = None) -> Agent:
    """`agent`, or one of its class; `ValueError` if it cannot act."""
    try:
        made = _made(agent, variant=variant) if isinstance(agent, type) else agent
    except TypeError as error:
        raise ValueError(f"{field} is {agent!r} ({error}); allowed: {ALLOWED}") from None
    if not isinstance(made, Agent):
        raise ValueError(f"{field} is {agent!r}; allowed: {ALLOWED}")
    return made


def checked_batch(
    observations: npt.ArrayLike, masks: npt.ArrayLike
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """What an agent is asked: observations (B, 253) float32 and masks (B, 18) bool.

    Raises:
        ValueError: the shapes are others, or a mask allows no action.
    """
    vectors, legal = np.ascontiguousarray(observations, np.float32), np.asarray(masks, np.bool_)
    if vectors.shape != (*legal.shape[:1], OBSERVATION_SIZE) or legal.shape[1:] != (NUM_ACTIONS,):
        hint = "; a single one is a batch of one: observation[None], mask[None]"
        raise ValueError(
            f"observations has shape {np.shape(observations)} and masks {np.shape(masks)}; "
            f"allowed: (B, {OBSERVATION_SIZE}) and (B, {NUM_ACTIONS}) with the same B"
            f"{hint if np.ndim(observations) == 1 else ''}"
        )
    for k in np.flatnonzero(~legal.any(axis=1)):
        raise ValueError(
            f"masks[{k}] is all False; allowed: at least one action, so ask only about games "
            "that are not over"
        )
    return vectors, legal

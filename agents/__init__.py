"""Agents for Alles Käse!, an arena that says how strong they are, and their training.

Agents see observations and masks, never a game. Name them with `make`.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.agent import Agent
from agents.heuristic import ReferenceAgent
from agents.random_agent import RandomAgent

__all__ = ["Agent", "RandomAgent", "ReferenceAgent", "make"]


def _make_ppo(run: str) -> Agent:
    from agents.ppo import PPOAgent

    if not run:
        raise ValueError('agent is "ppo"; allowed: "ppo:RUN" with a run directory of train.py')
    return PPOAgent.load(run)


AGENTS: dict[str, Callable[[str], Agent]] = {
    "random": lambda _: RandomAgent(),
    "reference": lambda _: ReferenceAgent(),
    "ppo": _make_ppo,
}


def make(name: str) -> Agent:
    """An agent by its name: "random", "reference" or "ppo:RUN".

    Args:
        name: the name, for some agents followed by a colon and an argument: for ``ppo`` a run
            directory of ``train.py`` or a weights file in it.

    Raises:
        ValueError: there is no such agent, or its argument is not what is allowed.
    """
    kind, colon, argument = name.partition(":")
    if kind not in AGENTS or (colon and kind != "ppo"):
        raise ValueError(f"agent is {name!r}; allowed: 'random', 'reference', 'ppo:RUN'")
    return AGENTS[kind](argument)

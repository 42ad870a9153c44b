"""Agents for Alles Käse!, an arena that says how strong they are, and their training.

Agents see observations and masks, never a game. Name them with `make`.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.heuristics.heuristic import GreedyAgent, HeuristicAgent, ReferenceAgent
from agents.heuristics.random_agent import RandomAgent
from alles_kaese_env.agent import Agent, import_agent

__all__ = ["Agent", "RandomAgent", "ReferenceAgent", "make"]


def _make_ppo(argument: str) -> Agent:
    from agents.ppo.agent import PRETRAINED, PPOAgent

    run = argument.removesuffix(",sample")
    return PPOAgent.load(run or PRETRAINED, is_greedy=run == argument)


def _make_search(budget: str) -> Agent:
    from agents.search.agent import SearchAgent

    return SearchAgent.from_budget(budget)


AGENTS: dict[str, Callable[[str], Agent]] = {
    "random": lambda _: RandomAgent(),
    "greedy": lambda _: GreedyAgent(),
    "reference": lambda _: ReferenceAgent(),
    "heuristic": lambda _: HeuristicAgent(),
    "search": _make_search,
    "ppo": _make_ppo,
}
ARGUMENTS = {"search": ":BUDGET", "ppo": "[:RUN[,sample]]"}


def names() -> str:
    """All names that `make` knows, for people."""
    return ", ".join(
        [*(name + ARGUMENTS.get(name, "") for name in AGENTS), "MODULE:NAME[:ARGUMENT]"]
    )


def make(name: str) -> Agent:
    """An agent by its name, such as "reference", "search:400" or "ppo:RUN".

    Args:
        name: the name, for some agents followed by a colon and an argument: for ``search`` its
            budget: 400 for so many play-outs an action, 100ms for so long a decision; for ``ppo``
            a run directory of ``train.py`` or a weights file in it, or nothing for the network
            that comes with the project (``agents/pretrained``); it plays the likeliest action,
            or, if the name ends in ",sample", draws one by its probability. Any other name is the
            import path of an agent, see `alles_kaese_env.agent.import_agent`.

    Raises:
        ValueError: there is no such agent, or its argument is not what is allowed.
    """
    kind, colon, argument = name.partition(":")
    if colon and kind not in AGENTS:
        return import_agent(name)
    if kind not in AGENTS or (colon and kind not in ARGUMENTS):
        raise ValueError(f"agent is {name!r}; allowed: {names()}")
    return AGENTS[kind](argument)

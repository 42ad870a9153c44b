"""Agents for Alles Käse!, an arena that says how strong they are, and their training.

Agents see observations and masks, never a game. Name them with `make`.
"""

from __future__ import annotations

from collections.abc import Callable

from agents.heuristics.greedy import GreedyAgent
from agents.heuristics.heuristic import HeuristicAgent
from agents.heuristics.random_agent import RandomAgent
from agents.heuristics.reference import ReferenceAgent
from alles_kaese_env.agent import Agent, import_agent
from alles_kaese_env.variant import Variant

__all__ = ["Agent", "RandomAgent", "ReferenceAgent", "make"]


def _make_ppo(argument: str, variant: Variant | None) -> Agent:
    from agents.ppo.agent import PRETRAINED, PPOAgent

    named = argument.removesuffix(",any-rules")
    run = named.removesuffix(",sample")
    rules = (variant or Variant()) if named == argument else None
    return PPOAgent.load(run or PRETRAINED, is_greedy=run == named, variant=rules)


def _make_search(budget: str, variant: Variant | None) -> Agent:
    from agents.search.agent import SearchAgent

    return SearchAgent.from_budget(budget, variant)


AGENTS: dict[str, Callable[[str, Variant | None], Agent]] = {
    "random": lambda _, variant: RandomAgent(),
    "greedy": lambda _, variant: GreedyAgent(variant),
    "reference": lambda _, variant: ReferenceAgent(variant),
    "heuristic": lambda _, variant: HeuristicAgent(variant=variant),
    "search": _make_search,
    "ppo": _make_ppo,
}
ARGUMENTS = {"search": ":BUDGET", "ppo": "[:RUN[,sample][,any-rules]]"}


def names() -> str:
    """All names that `make` knows, for people."""
    return ", ".join(
        [*(name + ARGUMENTS.get(name, "") for name in AGENTS), "MODULE:NAME[:ARGUMENT]"]
    )


def make(name: str, variant: Variant | None = None) -> Agent:
    """An agent by its name, such as "reference", "search:400" or "ppo:RUN".

    Args:
        name: the name, for some agents followed by a colon and an argument: for ``search`` its
            budget: 400 for so many play-outs an action, 100ms for so long a decision; for ``ppo``
            a run directory of ``train.py`` or a weights file in it, or nothing for the network
            that comes with the project (``agents/pretrained``); it plays the likeliest action,
            or, after ",sample", draws one by its probability. It plays the rules that it was
            trained by, or, after ",any-rules", others too. Any other name is the import path of an
            agent, see `alles_kaese_env.agent.import_agent`.
        variant: the rules of the games to play, which observations do not tell in full; None
            stands for the default rules with any number of players.

    Raises:
        ValueError: there is no such agent, or its argument is not what is allowed.
    """
    kind, colon, argument = name.partition(":")
    if colon and kind not in AGENTS:
        return import_agent(name, variant=variant)
    if kind not in AGENTS or (colon and kind not in ARGUMENTS):
        raise ValueError(f"agent is {name!r}; allowed: {names()}")
    return AGENTS[kind](argument, variant)

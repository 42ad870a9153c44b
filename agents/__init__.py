"""Agents for Alles Käse!, an arena that says how strong they are, and their training.

Agents see observations and masks, never a game. Name them with `make`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agents.heuristics.greedy import GreedyAgent
from agents.heuristics.heuristic import HeuristicAgent
from agents.heuristics.random_agent import RandomAgent
from agents.heuristics.reference import ReferenceAgent
from alles_kaese_env.agent import Agent, import_agent
from alles_kaese_env.variant import Variant

__all__ = ["Agent", "RandomAgent", "ReferenceAgent", "make"]


def _make_trained(argument: str, variant: Variant | None, has_own: bool = False) -> Agent:
    from agents.ppo.agent import PRETRAINED, PPOAgent

    named = argument.removesuffix(",any-rules")
    run = named.removesuffix(",sample")
    if not run and not has_own:
        raise ValueError("agent has no run directory; allowed: such as nfsp:RUN")
    rules = (variant or Variant()) if named == argument else None
    return PPOAgent.load(run or PRETRAINED, is_greedy=run == named, variant=rules)


def _make_search(budget: str, variant: Variant | None) -> Agent:
    from agents.search.agent import SearchAgent

    return SearchAgent.from_budget(budget, variant)


TRAINED = ("ppo", "mmd", "dqn", "nfsp", "psro")  # algorithms of train.py
AGENTS: dict[str, Callable[[str, Variant | None], Agent]] = {
    "random": lambda _, variant: RandomAgent(),
    "greedy": lambda _, variant: GreedyAgent(variant),
    "reference": lambda _, variant: ReferenceAgent(variant),
    "heuristic": lambda _, variant: HeuristicAgent(variant=variant),
    "search": _make_search,
    **dict.fromkeys(TRAINED, _make_trained),
    "ppo": partial(_make_trained, has_own=True),
}
ARGUMENTS = {"search": ":BUDGET", **dict.fromkeys(TRAINED, ":RUN")}
ARGUMENTS["ppo"] = "[:RUN[,sample][,any-rules]]"


def names() -> str:
    """All names that `make` knows, for people."""
    return ", ".join(
        [*(name + ARGUMENTS.get(name, "") for name in AGENTS), "MODULE:NAME[:ARGUMENT]"]
    )


def make(name: str, variant: Variant | None = None) -> Agent:
    """An agent by its name, such as "reference", "search:400" or "nfsp:RUN".

    Args:
        name: the name, for some agents followed by a colon and an argument: for ``search`` its
            budget: 400 for so many play-outs an action, 100ms for so long a decision; for an
            algorithm of ``train.py`` a run directory or a weights file in it; for ``ppo`` also
            nothing, for the network that comes with the project (``agents/pretrained``). It plays
            the likeliest action, or, after ",sample", draws one by its probability (not with
            ``dqn``). It plays the rules that it was trained by, or, after ",any-rules", others
            too. Any other name is the import path of an agent, see
            `alles_kaese_env.agent.import_agent`.
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

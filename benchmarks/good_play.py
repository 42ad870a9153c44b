"""What good play is: measured answers, for ``docs/good_play.md``.

All agents are asked about the same decisions, those of games in which the heuristic plays all
seats, so that their answers differ by what they would do and not by where they get to.

Example:
    python benchmarks/good_play.py --agents reference heuristic ppo search:400 --out docs/good_play
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import agents
from agents.arena.matches import win_share
from agents.arena.plots import figure
from agents.heuristics.random_agent import RandomAgent
from alles_kaese_env import OBSERVATION, GameBatch, Variant
from alles_kaese_env.actions import KINDS
from alles_kaese_env.agent import Agent
from alles_kaese_env.command_line import INTERRUPTED, Parser
from alles_kaese_env.core.records import DISCARD, MAX_HOLES, MAX_SLOTS, PEEK, TAKE, TRAP
from alles_kaese_env.files import checked_output, replacing
from alles_kaese_env.seeding import agent_generator
from alles_kaese_env.variant import whole_number

GUIDE = "heuristic"  # whose games are looked at
BASELINE = "reference"
GAMES = 1_000  # that are looked at
HEAVY_DECISIONS = 2_000  # about which a search is asked
SHARE_GAMES = 20_000
ALL_KNOWN = 0.999  # of the copies of a back
MARKS = ("-o", "--s", "-.^", ":D", "-v", "--P")  # lines are told apart without colours, too
OUTPUTS = ("answers.json", "take.svg", "peeks.svg")
BINS = np.linspace(0, 1, 11)


@dataclass(frozen=True)
class Decisions:
    """Decisions of many games: observations (D, 253), masks (D, 18), and what follows from them.

    Attributes:
        risk: the least trap probability among the matching cards, (D,); 1 without a match.
        traps: that the mover has taken, (D,).
        lead: its points less the most points of an opponent, as a share of all points, (D,).
        is_match: whether the decision is about take and discard, (D,).
        fronts: what lies in the row in truth, (D, 6), UNSEEN where nobody knows; for
            `peeked_by_others`, no agent is shown it.
    """

    observations: npt.NDArray[np.float32]
    masks: npt.NDArray[np.bool_]
    risk: npt.NDArray[np.float32]
    traps: npt.NDArray[np.int64]
    lead: npt.NDArray[np.float32]
    is_match: npt.NDArray[np.bool_]
    fronts: npt.NDArray[np.uint8]

    @classmethod
    def of(
        cls,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        fronts: npt.NDArray[np.uint8],
        variant: Variant,
    ) -> Decisions:
        """The decisions that these observations ask for."""
        parts = OBSERVATION.decode(observations)
        takes = masks[:, TAKE * MAX_SLOTS : (TAKE + 1) * MAX_SLOTS]
        points = parts["points"][:, : variant.num_players]
        return cls(
            observations,
            masks,
            np.where(takes, parts["trap_probability"], 1).min(axis=1),
            np.rint(parts["traps"][:, 0] * variant.trap_limit).astype(np.int64),
            points[:, 0] - points[:, 1:].max(axis=1),
            parts["match"] > 0,
            fronts,
        )

    def choices(self, agent: Agent, seed: int) -> npt.NDArray[np.int64]:
        """What an agent would do, (D,)."""
        return agent.act(self.observations, self.masks, agent_generator(seed))


def play(num_players: int, seed: int, games: int = GAMES) -> Decisions:
    """All decisions of games in which the guide plays all seats."""
    variant = Variant(num_players=num_players)
    batch = GameBatch(games, variant, seed=seed)
    guide, rng = agents.make(GUIDE), agent_generator(seed)
    observations, masks, fronts = [], [], []
    while len(rows := np.flatnonzero(~batch.over)):
        observations.append(batch.observations[rows])
        masks.append(batch.masks[rows])
        fronts.append(batch.games["front"][rows])
        batch.step(guide.act(observations[-1], masks[-1], rng), rows)
    seen, legal, true = (np.concatenate(part) for part in (observations, masks, fronts))
    return Decisions.of(seen, legal, true, variant)


def kinds_of(actions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Peek, take or discard, (D,)."""
    return actions // MAX_SLOTS


# --- When to take ------------------------------------------------------------------------------


def take_rates(decisions: Decisions, actions: npt.NDArray[np.int64]) -> list[list[float | None]]:
    """How often a matching card is taken, by own traps (0, 1, 2) and by risk in tenths."""
    is_take = kinds_of(actions) == TAKE
    tenth = np.clip(np.digitize(decisions.risk, BINS, right=True) - 1, 0, len(BINS) - 2)
    return [
        [
            rate_of(is_take, decisions.is_match & (decisions.traps == traps) & (tenth == k))
            for k in range(len(BINS) - 1)
        ]
        for traps in range(3)
    ]


def take_rates_with_two_traps(
    decisions: Decisions, actions: npt.NDArray[np.int64]
) -> dict[str, float | None]:
    """How often a card that may be a trap is taken by who has two, by who leads."""
    risky = decisions.is_match & (decisions.traps == 2) & (decisions.risk > 0)
    risky &= decisions.risk < 1
    is_take = kinds_of(actions) == TAKE
    groups = {
        "behind": decisions.lead < 0,
        "level": decisions.lead == 0,
        "ahead": decisions.lead > 0,
    }
    return {name: rate_of(is_take, risky & group) for name, group in groups.items()}


def rate_of(hits: npt.NDArray[np.bool_], among: npt.NDArray[np.bool_]) -> float | None:
    """The share of hits, None where there are fewer than 20 cases."""
    return float(hits[among].mean()) if among.sum() >= 20 else None


# --- Which card to peek at ---------------------------------------------------------------------


def peeks(decisions: Decisions, actions: npt.NDArray[np.int64]) -> dict[str, list[float]]:
    """Of all peeks, how many go to a card of 1 to 6 holes, and how many cards there have so many
    among those whose front the mover does not know.
    """
    chosen = ~decisions.is_match & (kinds_of(actions) == PEEK)
    rows = np.flatnonzero(chosen)
    parts = OBSERVATION.decode(decisions.observations[rows])
    slots = actions[rows] % MAX_SLOTS
    unknown = (parts["own_peeks"].sum(axis=2) == 0)[:, :, None] * parts["row"]
    peeked = parts["row"][np.arange(len(rows)), slots].sum(axis=0)
    offered = unknown.sum(axis=(0, 1))
    return {
        "peeked": (peeked / peeked.sum()).tolist(),
        "offered": (offered / offered.sum()).tolist(),
    }


class RandomPeeks:
    """An agent that peeks at a slot drawn at random and else plays as another."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64."""
        actions = self.agent.act(observations, masks, rng)
        drawn = RandomAgent().act(observations, masks, rng)
        return np.where(kinds_of(actions) == PEEK, drawn, actions)


class Forgetful:
    """An agent that forgets which cards of the row it peeked at.

    It still knows how many cheeses and traps it has seen of each back, and so the odds. Where it
    has seen all fronts of a back, no odds are left, and it forgets none of its cards.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def act(
        self,
        observations: npt.NDArray[np.float32],
        masks: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> npt.NDArray[np.int64]:
        """Actions (B,) int64."""
        seen = observations.copy()
        parts = OBSERVATION.decode(seen)
        has_odds = parts["known"].sum(axis=1) < ALL_KNOWN
        forgets = (parts["row"] * has_odds[:, None]).any(axis=2)
        odds = (parts["row"] * parts["trap_share"][:, None]).sum(axis=2)
        probability = np.where(forgets, odds, parts["trap_probability"])
        seen[:, OBSERVATION["trap_probability"].where] = probability
        peeks = parts["own_peeks"] * ~forgets[:, :, None]
        seen[:, OBSERVATION["own_peeks"].where] = peeks.reshape(len(seen), -1)
        return self.agent.act(seen, masks, rng)


def worth_of_peeks(name: str, num_players: int) -> dict[str, list[float]]:
    """Win share against the baseline, with interval: as it is, peeking anywhere, forgetting."""
    agent, baseline = agents.make(name), agents.make(BASELINE)
    versions = {
        "as it is": agent,
        "peeks anywhere": RandomPeeks(agent),
        "forgets where": Forgetful(agent),
    }
    scores = {
        version: win_share(one, baseline, num_players=num_players, games=SHARE_GAMES)
        for version, one in versions.items()
    }
    return {version: [score.share, score.low, score.high] for version, score in scores.items()}


def peeked_by_others(decisions: Decisions) -> dict[str, dict[str, float]]:
    """Cards that an opponent peeked at and the mover has not: how many, by holes and in all, their
    mean trap probability (I4), and the share that are traps.
    """
    parts = OBSERVATION.decode(decisions.observations)
    cards = parts["opponent_peeks"].any(axis=2) & ~parts["own_peeks"].any(axis=2)
    groups = {str(h + 1): cards & (parts["row"][:, :, h] > 0) for h in range(MAX_HOLES)}
    return {
        name: {
            "cards": int(group.sum()),
            "I4": float(parts["trap_probability"][group].mean()),
            "traps": float((decisions.fronts[group] == TRAP).mean()),
        }
        for name, group in (groups | {"all": cards}).items()
        if group.any()
    }


# --- Seats, and what one agent does otherwise ----------------------------------------------------


def seat_shares(name: str) -> dict[str, list[float]]:
    """The share of each seat when one agent plays all of them, by number of players."""
    agent = agents.make(name)
    shares = {}
    for players in range(2, 7):
        score = win_share(agent, agent, num_players=players, games=SHARE_GAMES)
        shares[str(players)] = list(score.per_seat)
    return shares


def differences(
    decisions: Decisions, actions: npt.NDArray[np.int64], guide: npt.NDArray[np.int64]
) -> dict[str, float]:
    """How often an agent does something else than the guide, by what each of them does."""
    total = len(actions)
    words = [KINDS[kind] for kind in (PEEK, TAKE, DISCARD)]
    counts: dict[str, float] = {}
    for before, after in zip(kinds_of(guide), kinds_of(actions), strict=True):
        key = f"{words[after]} instead of {words[before]}" if before != after else ""
        counts[key] = counts.get(key, 0) + 1
    del counts[""]
    for kind, word in enumerate(words):
        other = (kinds_of(actions) == kind) & (kinds_of(guide) == kind) & (actions != guide)
        counts[f"{word} in another slot"] = float(other.sum())
    return {key: count / total for key, count in sorted(counts.items())}


# --- The command -------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        players = {name: agents.make(name) for name in options.agents}
        whole_number("--games", options.games, 10, 10**6)
        options.out.mkdir(parents=True, exist_ok=True)
        for name in OUTPUTS:
            checked_output(options.out / name, "--out")
    except (ValueError, OSError) as error:
        parser.error(str(error))
    try:
        data = answers_of(players, options.num_players, options.games, options.seed)
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    with replacing(options.out / "answers.json") as temporary:
        temporary.write_text(json.dumps(data, indent=1) + "\n")
    draw_take_rates(data["agents"], options.out / "take.svg")
    draw_peeks(data["agents"], options.out / "peeks.svg")
    return 0


def answers_of(
    players: dict[str, Agent], num_players: int, games: int, seed: int
) -> dict[str, Any]:
    """What all agents answer to the decisions of some games of the guide."""
    decisions = play(num_players, seed, games)
    data: dict[str, Any] = {
        "num_players": num_players,
        "games": games,
        "decisions": len(decisions.masks),
        "peeked_by_others": peeked_by_others(decisions),
        "agents": {},
    }
    guide = decisions.choices(agents.make(GUIDE), seed)
    for name, agent in players.items():
        print(f"asking {name}", file=sys.stderr, flush=True)
        rows = slice(None) if not name.startswith("search") else slice(0, None, stride(decisions))
        some = Decisions(*(getattr(decisions, field)[rows] for field in decisions.__dict__))
        actions = some.choices(agent, seed)
        answers: dict[str, Any] = {
            "decisions": len(actions),
            "take_rates": take_rates(some, actions),
            "two_traps": take_rates_with_two_traps(some, actions),
            "peeks": peeks(some, actions),
            "differences": differences(some, actions, guide[rows]),
        }
        if not name.startswith("search"):
            answers["worth_of_peeks"] = worth_of_peeks(name, num_players)
            answers["seats"] = seat_shares(name)
        data["agents"][name] = answers
    return data


def stride(decisions: Decisions) -> int:
    """Every how many decisions a search is asked."""
    return max(1, len(decisions.masks) // HEAVY_DECISIONS)


def draw_take_rates(answers: dict[str, Any], file: Path) -> None:
    """A panel for each number of own traps, in it a line for each agent."""
    with figure(file, width=10) as axes:
        canvas = axes.figure
        axes.remove()
        middles = (BINS[:-1] + BINS[1:]) / 2
        for traps, panel in enumerate(canvas.subplots(1, 3, sharey=True)):
            for (name, answer), style in zip(answers.items(), cycle(MARKS)):
                rates = [np.nan if rate is None else rate for rate in answer["take_rates"][traps]]
                panel.plot(middles, rates, style, label=name if traps == 0 else None)
            panel.set_title(f"own traps: {traps}")
            panel.set_xlabel("least probability of a trap")
            panel.spines[["top", "right"]].set_visible(False)
            panel.grid(alpha=0.25)
            if traps == 0:
                panel.set_ylabel("how often a matching card is taken")
        canvas.legend(loc="outside right center", frameon=False)


def draw_peeks(answers: dict[str, Any], file: Path) -> None:
    """Bars by holes: what is peeked at, beside what is on offer."""
    with figure(file, width=9) as axes:
        holes = np.arange(1, 7)
        bars = {name: answer["peeks"]["peeked"] for name, answer in answers.items()}
        bars["on offer"] = next(iter(answers.values()))["peeks"]["offered"]
        width = 0.8 / len(bars)
        for number, (name, shares) in enumerate(bars.items()):
            color = "lightgrey" if name == "on offer" else f"C{number}"
            axes.bar(holes + (number + 0.5) * width - 0.4, shares, width, label=name, color=color)
        axes.set_xlabel("holes of the card")
        axes.set_ylabel("share of the peeks, of the cards on offer")
        axes.figure.legend(loc="outside right center", frameon=False)


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python benchmarks/good_play.py",
        description="Ask agents about the same decisions, and write answers.json and two plots.",
        epilog="example: python benchmarks/good_play.py --agents heuristic ppo --out answers",
    )
    add = parser.add_argument
    add("--agents", nargs="+", metavar="AGENT", required=True, help=agents.names())
    add("--num-players", type=int, default=2, choices=range(2, 7))
    add("--games", type=int, default=GAMES, help="that are looked at (%(default)s)")
    add("--seed", type=int, default=0)
    add("--out", type=Path, required=True, metavar="DIRECTORY")
    return parser


if __name__ == "__main__":
    sys.exit(main())

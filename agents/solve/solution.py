"""The solution of a small variant, and how far agents are from it.

The game is cut into subgames (`agents.solve.subgames`), which are solved from the last to the first
(`agents.solve.sequence_form`). Exact best responses say how near to equilibrium the result is, and
how much an agent can be exploited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from agents.heuristics.random_agent import RandomAgent
from agents.solve.sequence_form import (
    LEAVES,
    SEATS,
    SEQUENCES,
    SETS,
    count_states,
    exploit_subgames,
    solve_subgames,
)
from agents.solve.subgames import Report, Subgames, Written, inform_movers
from alles_kaese_env import RULES_VERSION, Variant
from alles_kaese_env.agent import Agent
from alles_kaese_env.core.observe import OBSERVATION_RECORD
from alles_kaese_env.core.records import MASK, NUM_ACTIONS
from alles_kaese_env.files import read_arrays, reading, replacing
from alles_kaese_env.game_batch import as_records
from alles_kaese_env.seeding import agent_generator

LEAVES_AT_ONCE = 1_000_000  # of the subgames that a thread holds in memory
SETS_AT_ONCE = 65_536  # observations that an agent is asked about in one call
CERTAIN = 2  # actions that are drawn from an agent before it counts as deterministic

# --- Agents --------------------------------------------------------------------------------------


def strategy_of(
    agent: Agent,
    written: Written,
    rules: npt.NDArray[np.void],
    draws: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """What an agent does at every information set of both seats, (2, sequences).

    An agent sees observations and nothing before them, so it does the same in all sets in which
    it sees the same.
    """
    forms, starts = written.forms, written.starts
    strategy = np.zeros((SEATS, starts[-1, SEQUENCES:].max()))
    for seat in range(SEATS):
        numbers = np.diff(starts[:, SETS + seat])
        firsts = np.repeat(starts[:-1, SEQUENCES + seat], numbers)
        firsts += forms.set_firsts[seat, : len(firsts)]
        for begin in range(0, len(firsts), SETS_AT_ONCE):
            part = slice(begin, min(begin + SETS_AT_ONCE, len(firsts)))
            masks, chances = choices(agent, written.set_games[seat, part], rules, draws, rng)
            places = np.cumsum(masks, axis=1) - 1 + firsts[part, None]
            strategy[seat, places[masks]] = chances[masks]
    return strategy


def choices(
    agent: Agent,
    games: npt.NDArray[Any],
    rules: npt.NDArray[np.void],
    draws: int,
    rng: np.random.Generator,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """The legal actions of the seat to move of each game, and an agent's probability of each.

    The probabilities are known of a random agent. Others are asked ``draws`` times, or less often
    if they always say the same.
    """
    masks = np.zeros((len(games), NUM_ACTIONS), bool)
    observations = np.zeros((len(games), OBSERVATION_RECORD.itemsize // 4), np.float32)
    records = as_records(masks, MASK), as_records(observations, OBSERVATION_RECORD)
    inform_movers(games, rules[0], *records)
    if isinstance(agent, RandomAgent):
        return masks, masks / masks.sum(axis=1, keepdims=True)
    as_bytes = observations.view(f"V{OBSERVATION_RECORD.itemsize}")[:, 0]
    _, first, inverse = np.unique(as_bytes, return_index=True, return_inverse=True)
    counts = np.zeros((len(first), NUM_ACTIONS))
    for draw in range(draws):
        actions = agent.act(observations[first], masks[first], rng)
        counts[np.arange(len(first)), actions] += 1
        if draw + 1 == CERTAIN and (counts.max(axis=1) == CERTAIN).all():
            break
    return masks, (counts / counts.sum(axis=1, keepdims=True))[inverse]


# --- Solving -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solution:
    """What is known about a variant.

    Attributes:
        value: payoff of seat 0 in equilibrium, up to half the gap; that of seat 1 is the negative.
        gap: NashConv of the solution: what both seats can gain by a best response to it.
        exploited: by agent, what it gets less than the value of the game in seat 0 and in seat 1
            against a best response. Its exploitability is their mean.
        subgames, sets, leaves: how many were solved.
        states: of the uncut game tree, chance nodes and ends among them.
        iterations: of PCFR+ for a leaf, on average.
    """

    value: float
    gap: float
    exploited: dict[str, tuple[float, float]]
    subgames: int
    sets: int
    leaves: int
    states: int
    iterations: float


class Progress:
    """What has been solved so far, in a file if there is one.

    Attributes:
        best: what best responses get in each subgame, (1 + agents, 2, subgames): against the
            solution, then against each agent.
        states: of the uncut tree, (subgames,).
        done: whether a subgame is solved, (subgames,) bool.
        work: iterations times leaves.
    """

    ARRAYS = ("best", "states", "done", "work")

    def __init__(self, file: Path | None, subgames: Subgames, names: Sequence[str], gap: float):
        number = len(subgames)
        self.file = file
        self.best = np.zeros((1 + len(names), SEATS, number))
        self.states = np.zeros(number)
        self.done = np.zeros(number, bool)
        self.work = np.zeros(1)
        self.task = f"{subgames.variant}, rules {RULES_VERSION}, gap {gap}, agents {list(names)}"
        if file is not None and file.exists():
            self._load(file)

    def _load(self, file: Path) -> None:
        with reading(file, "file of agents.solve"):
            stored = read_arrays(file)
            task = str(stored["task"])
            arrays = {name: stored[name] for name in self.ARRAYS}
        if task != self.task:
            raise ValueError(f"{file} is of {task}; allowed: {self.task}")
        for name, array in arrays.items():
            own = getattr(self, name)
            if (array.shape, array.dtype) != (own.shape, own.dtype):
                raise ValueError(
                    f"{file} has {name} of {array.shape} {array.dtype}; "
                    f"allowed: {own.shape} {own.dtype}"
                )
        self.__dict__.update(arrays)

    def save(self) -> None:
        """Write the file atomically."""
        if self.file is not None:
            arrays = {name: getattr(self, name) for name in self.ARRAYS}
            with replacing(self.file) as temporary, open(temporary, "wb") as stream:
                np.savez(stream, allow_pickle=False, task=np.array(self.task), **arrays)


def solve(
    variant: Variant,
    table: Mapping[str, Agent] | None = None,
    *,
    gap: float = 1e-4,
    threads: int = 1,
    draws: int = 32,
    seed: int = 0,
    file: Path | None = None,
    report: Report = lambda what, done, of: None,
) -> Solution:
    """Solve a variant, and let best responses play against agents.

    Args:
        variant: of two players, in whose games every turn uses a card (E3).
        table: the agents by name.
        gap: the NashConv to reach.
        threads: that solve in parallel.
        draws: how often an agent that plays at random is asked what it does.
        seed: of the agents; what an agent draws does not depend on the other agents.
        file: where to store what is solved, and to go on from if it exists.
        report: is told what is done.

    Raises:
        ValueError: the variant cannot be solved here, or the file is of another task.
    """
    table = dict(table or {})
    subgames = Subgames.of(variant, report)
    progress = Progress(file, subgames, list(table), gap)
    levels = list(subgames.levels(LEAVES_AT_ONCE))
    sizes = subgames.sizes[:, LEAVES]
    lock = Lock()  # agents need not bear threads

    def work(which: npt.NDArray[np.int64]) -> None:
        written = subgames.write(which, with_games=bool(table))
        effort = solve_subgames(
            which, written.forms, written.starts, progress.best[0], gap / len(levels)
        )
        count_states(which, written.forms, written.starts, progress.states)
        with lock:
            for best, (name, agent) in zip(progress.best[1:], table.items(), strict=True):
                rng = agent_generator(seed, crc32(name.encode()), int(which[0]))
                strategy = strategy_of(agent, written, variant.rules, draws, rng)
                exploit_subgames(which, written.forms, written.starts, strategy, best)
            progress.work += effort
            progress.done[which] = True
            progress.save()
            report("solving", sizes[progress.done].sum(), sizes.sum())

    with ThreadPoolExecutor(threads) as pool:
        for parts in levels:
            left = [which for which in parts if not progress.done[which].all()]
            for _ in pool.map(work, left):
                pass
    return solution_of(subgames, progress, list(table))


def solution_of(subgames: Subgames, progress: Progress, names: Sequence[str]) -> Solution:
    """What the whole game says."""
    first, second = progress.best[0, :, 0]
    value = (first - second) / 2
    totals = subgames.sizes.sum(axis=0)
    exploited = {
        name: (float(progress.best[k, 1, 0] + value), float(progress.best[k, 0, 0] - value))
        for k, name in enumerate(names, start=1)
    }
    return Solution(
        value=float(value),
        gap=float(first + second),
        exploited=exploited,
        subgames=len(subgames),
        sets=int(totals[SETS : SETS + SEATS].sum()),
        leaves=int(totals[LEAVES]),
        states=int(progress.states[0]),
        iterations=float(progress.work[0] / totals[LEAVES]),
    )

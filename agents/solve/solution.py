"""The solution of a small variant, and how far agents are from it.

The game is cut into subgames (`agents.solve.subgames`), which are solved from the last to the first
(`agents.solve.sequence_form`). Exact best responses say how near to equilibrium the result is, and
how much an agent can be exploited.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from zlib import crc32

import numpy as np
import numpy.typing as npt

from agents.solve.responses import LEAVES_AT_ONCE, Exploitability, Responses, rows_for
from agents.solve.sequence_form import LEAVES, SEATS, SETS, count_states, solve_subgames
from agents.solve.subgames import Report, Subgames
from alles_kaese_env import RULES_VERSION, Variant
from alles_kaese_env.agent import Agent
from alles_kaese_env.files import read_arrays, reading, replacing


@dataclass(frozen=True)
class Solution:
    """What is known about a variant.

    Attributes:
        value: payoff of seat 0 in equilibrium, up to half the gap; that of seat 1 is the negative.
        gap: NashConv of the solution: what both seats can gain by a best response to it.
        exploited: by agent, how much it can be exploited.
        subgames, sets, leaves: how many were solved.
        states: of the uncut game tree, chance nodes and ends among them.
        iterations: of PCFR+ for a leaf, on average.
    """

    value: float
    gap: float
    exploited: dict[str, Exploitability]
    subgames: int
    sets: int
    leaves: int
    states: int
    iterations: float


class Progress:
    """What has been solved so far, in a file if there is one.

    Attributes:
        best: what best responses get in each subgame, (1 + rows, 2, subgames): against the
            solution, then against the agents.
        states: of the uncut tree, (subgames,).
        done: whether a subgame is solved, (subgames,) bool.
        work: iterations times leaves.
    """

    ARRAYS = ("best", "states", "done", "work")

    def __init__(self, file: Path | None, subgames: Subgames, rows: int, task: str) -> None:
        number = len(subgames)
        self.file = file
        self.best = np.zeros((1 + rows, SEATS, number))
        self.states = np.zeros(number)
        self.done = np.zeros(number, bool)
        self.work = np.zeros(1)
        self.task = f"{subgames.variant}, rules {RULES_VERSION}, {task}"
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
        draws: how often an agent is asked that says no probabilities.
        seed: of the agents; what one draws depends on its name, not on the other agents.
        file: where to store what is solved, and to go on from if it exists.
        report: is told what is done.

    Raises:
        ValueError: the variant cannot be solved here, or the file is of another task.
    """
    table = dict(table or {})
    subgames = Subgames.of(variant, report)
    rows = [rows_for(agent) for agent in table.values()]
    task = f"gap {gap}, agents {list(table)}" + f", {draws} draws, seed {seed}" * bool(table)
    progress = Progress(file, subgames, sum(rows), task)
    responses = {
        name: Responses(agent, best, draws, seed, crc32(name.encode()))
        for (name, agent), best in zip(
            table.items(), np.split(progress.best[1:], np.cumsum(rows, dtype=int)), strict=False
        )
    }
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
            for one in responses.values():
                one.write(which, written, variant)
            progress.work += effort
            progress.done[which] = True
            progress.save()
            report("solving", sizes[progress.done].sum(), sizes.sum())

    with ThreadPoolExecutor(threads) as pool:
        for parts in levels:
            left = [which for which in parts if not progress.done[which].all()]
            for _ in pool.map(work, left):
                pass
    exploited = {name: one.result() for name, one in responses.items()}
    return solution_of(subgames, progress, exploited)


def solution_of(
    subgames: Subgames, progress: Progress, exploited: dict[str, Exploitability]
) -> Solution:
    """What the whole game says."""
    first, second = progress.best[0, :, 0]
    value = (first - second) / 2
    totals = subgames.sizes.sum(axis=0)
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

"""Solve small variants for two players, and measure how far agents are from equilibrium there.

Example:
    python -m agents.solve random reference --traps 1,1 --copies 3,3 --row-size 2

The game is cut into subgames (`agents.solve.subgames`), which are solved from the last to the first
(`agents.solve.sequence_form`). Exact best responses say how near to equilibrium the result is, and
how much an agent can be exploited. What was found stands in ``docs/solved.md``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

import agents
from agents.heuristics.random_agent import RandomAgent
from agents.search.agent import SearchAgent
from agents.solve.sequence_form import (
    LEAVES,
    MOST_ITERATIONS,
    SEATS,
    SEQUENCES,
    SETS,
    Forms,
    count_states,
    exploit_subgames,
    solve_subgames,
)
from agents.solve.subgames import Report, Subgames, check
from alles_kaese_env import RULES_VERSION, Variant
from alles_kaese_env.agent import Agent
from alles_kaese_env.command_line import Parser
from alles_kaese_env.core.loops import (
    inform_games,
)
from alles_kaese_env.core.observe import (
    OBSERVATION_RECORD,
)
from alles_kaese_env.core.records import (
    MASK,
    NUM_ACTIONS,
)
from alles_kaese_env.files import read_arrays, reading, replacing
from alles_kaese_env.game_batch import as_records
from alles_kaese_env.seeding import as_seed
from alles_kaese_env.variant import BURN_RULES, whole_number

LEAVES_AT_ONCE = 1_000_000  # of the subgames that a thread holds in memory
SETS_AT_ONCE = 65_536  # observations that an agent is asked about in one call
CERTAIN = 2  # actions that are drawn from an agent before it counts as deterministic

# --- Agents --------------------------------------------------------------------------------------


def strategy_of(
    agent: Agent,
    forms: Forms,
    set_games: npt.NDArray[Any],
    starts: npt.NDArray[np.int64],
    rules: npt.NDArray[np.void],
    draws: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """What an agent does at every information set of both seats, (2, sequences).

    An agent sees observations and nothing before them, so it does the same in all sets in which
    it sees the same.
    """
    strategy = np.zeros((SEATS, starts[-1, SEQUENCES:].max()))
    for seat in range(SEATS):
        numbers = np.diff(starts[:, SETS + seat])
        firsts = np.repeat(starts[:-1, SEQUENCES + seat], numbers)
        firsts += forms.set_firsts[seat, : len(firsts)]
        for begin in range(0, len(firsts), SETS_AT_ONCE):
            part = slice(begin, min(begin + SETS_AT_ONCE, len(firsts)))
            masks, chances = choices(agent, set_games[seat, part], rules, draws, rng)
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
    number = len(games)
    masks = np.zeros((number, NUM_ACTIONS), bool)
    observations = np.zeros((number, OBSERVATION_RECORD.itemsize // 4), np.float32)
    inform_games(
        games,
        rules,
        np.arange(number),
        np.zeros(number, bool),
        np.zeros((number, SEATS), np.float32),
        games["seat"].astype(np.int64),
        np.zeros(number, np.int64),
        as_records(masks, MASK),
        as_records(observations, OBSERVATION_RECORD),
    )
    if isinstance(agent, RandomAgent):
        return masks, masks / masks.sum(axis=1, keepdims=True)
    as_bytes = np.ascontiguousarray(observations).view(f"V{OBSERVATION_RECORD.itemsize}")[:, 0]
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
        """Write the file, whole or not at all."""
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
        threads: that solve side by side.
        draws: how often an agent that plays at random is asked what it does.
        seed: of the agents.
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
        forms, set_games, starts = subgames.write(which, with_games=bool(table))
        effort = solve_subgames(
            which, forms, starts, progress.best[0], gap / len(levels), MOST_ITERATIONS
        )
        count_states(which, forms, starts, progress.states)
        with lock:
            for number, agent in enumerate(table.values(), start=1):
                rng = np.random.default_rng((seed, number, int(which[0])))
                strategy = strategy_of(agent, forms, set_games, starts, variant.rules, draws, rng)
                exploit_subgames(which, forms, starts, strategy, progress.best[number])
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


# --- The command ---------------------------------------------------------------------------------


def agent_of(name: str, variant: Variant) -> Agent:
    """An agent by its name; a search has to be told the rules, which no observation does.

    Raises:
        ValueError: there is no such agent.
    """
    kind, _, budget = name.partition(":")
    if kind != "search":
        return agents.make(name)
    return SearchAgent.from_budget(budget, variant)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    names = list(dict.fromkeys(options.agents))
    started = time.monotonic()
    try:
        variant = Variant(
            num_players=options.num_players,
            traps=options.traps,
            copies=options.copies,
            row_size=options.row_size,
            trap_limit=options.trap_limit,
            burn=options.burn,
        )
        check(variant)
        whole_number("--threads", options.threads, 1, 1024)
        whole_number("--draws", options.draws, 1, 10**6)
        if not options.gap > 0:
            raise ValueError(f"--gap is {options.gap}; allowed: a number above 0")
        table = {name: agent_of(name, variant) for name in names}
        with reporting() as report:
            solution = solve(
                variant,
                table,
                gap=options.gap,
                threads=options.threads,
                draws=options.draws,
                seed=as_seed(options.seed) or 0,
                file=options.save,
                report=report,
            )
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        hint = f"; the same command goes on from {options.save}" if options.save else ""
        parser.exit(130, f"{parser.prog}: interrupted{hint}\n")
    print_solution(solution, variant, time.monotonic() - started)
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python -m agents.solve",
        description="Solve a small variant for two players, and measure how far agents are from "
        "equilibrium on it.",
        epilog="example: python -m agents.solve random reference --traps 1,1 --copies 3,3 "
        "--row-size 2 --trap-limit 2",
    )
    add = parser.add_argument
    add("agents", nargs="*", metavar="AGENT", help=agents.names())
    add("--num-players", type=int, default=SEATS, metavar="2")
    add("--traps", type=numbers, default=(1, 1), help="by hole count (1,1)")
    add("--copies", type=numbers, default=(3, 3), help="cards by hole count (3,3)")
    add("--row-size", type=int, default=2)
    add("--trap-limit", type=int, default=2)
    add("--burn", default="peek", choices=BURN_RULES)
    add("--gap", type=float, default=1e-4, help="the NashConv to reach (%(default)s)")
    add("--threads", type=int, default=1, help="side by side (1)")
    add("--draws", type=int, default=32, help="of an agent that plays at random (%(default)s)")
    add("--seed", type=int, default=0, help="of such agents (0)")
    add("--save", type=Path, metavar="FILE", help="store what is solved, and go on from it")
    return parser


def numbers(text: str) -> tuple[int, ...]:
    """A type of `argparse`: whole numbers with commas between them."""
    words = text.split(",")
    if not all(word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: whole numbers such as 1,1")
    return tuple(map(int, words))


@contextmanager
def reporting() -> Iterator[Report]:
    """A bar with the time left on the terminal of the errors; nothing where there is none."""
    if not sys.stderr.isatty():
        yield lambda what, done, of: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: float, of: float) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=of)

        yield report


def print_solution(solution: Solution, variant: Variant, seconds: float) -> None:
    """The values, and a line for each agent."""
    print(variant)
    print(
        f"{solution.states:,} states in {solution.subgames:,} subgames with {solution.leaves:,} "
        f"leaves and {solution.sets:,} information sets"
    )
    print(f"solved in {seconds:.1f} s, {solution.iterations:.0f} iterations a leaf")
    print(f"value: seat 0 {solution.value:+.5f}, seat 1 {-solution.value:+.5f}")
    print(f"NashConv of the solution: {solution.gap:.2g}")
    if solution.exploited:
        width = max(10, *(len(name) + 2 for name in solution.exploited))
        print(f"\n{'agent':<{width}}{'exploitability':>14}{'in seat 0':>12}{'in seat 1':>12}")
    for name, losses in solution.exploited.items():
        print(f"{name:<{width}}{sum(losses) / 2:>14.4f}{losses[0]:>12.4f}{losses[1]:>12.4f}")


if __name__ == "__main__":
    sys.exit(main())

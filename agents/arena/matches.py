"""The arena: how often an agent wins against others, from every seat equally often."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

import agents
from agents.arena.luck import Follower
from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.agent import Agent, ask, name_of
from alles_kaese_env.seeding import agent_generator, streams_of
from alles_kaese_env.variant import whole_number

NORMAL_95 = 1.959964  # half the width of a 95 % interval, in standard errors
GAMES_AT_ONCE = 2_000  # a part of a pairing, and what a process does before it reports
MOST_GAMES = 10**9


@dataclass(frozen=True)
class Score:
    """How an agent did against others.

    Attributes:
        games: games played.
        share: the agent's share of the wins, 0 to 1; w winners of a game share it (P4).
        low, high: its 95 % interval, from the spread between deals.
        per_seat: the share in each seat, (N,).
        turns: mean turns of a game.
        third_traps: share of the games that ended by a third trap (E1).
        seconds: that the agent takes for a decision, on average, with many games at once.
        adjusted, adjusted_low, adjusted_high: the share without the luck in the games, see
            ``luck.py``, and its 95 % interval; None if that was not asked for.
    """

    games: int
    share: float
    low: float
    high: float
    per_seat: tuple[float, ...]
    turns: float
    third_traps: float
    seconds: float = field(compare=False)
    adjusted: float | None = None
    adjusted_low: float | None = None
    adjusted_high: float | None = None


@dataclass(frozen=True)
class Part:
    """Some deals of a pairing: shares of the win of the first agent (deals, N), turns (deals, N),
    ends by a third trap (deals, N), and for each agent its seconds and its decisions (N,); the luck
    of the first agent (deals, N), None if nobody asked for it.
    """

    shares: npt.NDArray[np.float64]
    turns: npt.NDArray[np.int64]
    trapped: npt.NDArray[np.bool_]
    seconds: npt.NDArray[np.float64]
    decisions: npt.NDArray[np.int64]
    luck: npt.NDArray[np.float64] | None


def win_share(
    agent: Agent,
    against: Agent | Sequence[Agent],
    *,
    num_players: int = 2,
    variant: Variant | None = None,
    games: int = 20_000,
    seed: int = 0,
    luck_adjusted: bool = False,
) -> Score:
    """Let an agent play against others, each deal once from every seat.

    Args:
        agent: whose share of the wins is asked for.
        against: who plays all other seats, or num_players - 1 agents in turn order after it.
        num_players: 2 to 6, N below, by the default rules.
        variant: the rules, which have their own number of players; None for the default ones.
        games: at least this many, up to the next multiple of N.
        seed: of deals and dice. Games of one deal have the same random stream, and so begin
            with the same row; what chance brings later depends on how they are played.
        luck_adjusted: estimate the share without the luck in the games, too (``luck.py``). The
            games stay the same.

    Raises:
        ValueError: the number of games, players or opponents, or the seed, is not what is allowed.
    """
    whole_number("games", games, 1, MOST_GAMES)
    variant = variant or Variant(num_players=num_players)
    num_players = variant.num_players
    others = list(against) if isinstance(against, Sequence) else [against] * (num_players - 1)
    if len(others) != num_players - 1:
        raise ValueError(
            f"against has {len(others)} agents; allowed: {num_players - 1} "
            f"for {num_players} players"
        )
    table = [agent, *others]
    return _score(
        [
            _play(table, streams, variant, seed, number, luck_adjusted)
            for number, streams in enumerate(_deals(num_players, games, seed))
        ]
    )


def _deals(num_players: int, games: int, seed: int) -> list[npt.NDArray[np.uint64]]:
    """The streams of the deals, in parts; they are the same for every pairing."""
    streams = streams_of(seed, -(-games // num_players))
    size = max(1, GAMES_AT_ONCE // num_players)
    return [streams[start : start + size] for start in range(0, len(streams), size)]


def _play(
    table: Sequence[Agent],
    streams: npt.NDArray[np.uint64],
    variant: Variant,
    seed: int,
    number: int,
    luck_adjusted: bool,
) -> Part:
    """Each deal with table[0] in every seat and the others after it in turn order."""
    seats = len(table)
    rng = agent_generator(seed, 1, number)
    batch = GameBatch(len(streams) * seats, variant)
    batch.streams[:] = np.repeat(streams, seats)
    first = np.tile(np.arange(seats), len(streams))  # the seat of table[0] in each game
    follower = Follower(batch, first, table) if luck_adjusted else None
    played = follower or batch
    played.reset()
    seconds, decisions = np.zeros(seats), np.zeros(seats, np.int64)
    while len(playing := np.flatnonzero(~batch.over)):
        who = (batch.seats[playing] - first[playing]) % seats
        for place, agent in enumerate(table):
            rows = playing[who == place]
            if len(rows):
                started = time.perf_counter()
                asked = f"agent {name_of(agent)}"
                actions = ask(agent, asked, batch.observations[rows], batch.masks[rows], rng)
                seconds[place] += time.perf_counter() - started
                batch.check(actions, rows, f" of {asked}")
                decisions[place] += len(rows)
                played.step(actions, rows)
    payoffs = batch.payoffs[np.arange(len(batch)), first].astype(np.float64)
    shares = (payoffs * (seats - 1) + 1) / seats  # P5, solved for the share of the win
    trapped = (batch.games["traps"] >= variant.trap_limit).any(axis=1)
    turns = batch.games["turns"].astype(np.int64)
    shape = len(streams), seats
    luck = follower.luck.reshape(shape) if follower else None
    shares, turns, trapped = shares.reshape(shape), turns.reshape(shape), trapped.reshape(shape)
    return Part(shares, turns, trapped, seconds, decisions, luck)


def interval(shares: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """The mean of independent shares and its 95 % interval, which for a single one is 0 to 1."""
    mean = float(shares.mean())
    spread = float(shares.std(ddof=1)) if len(shares) > 1 else float("inf")
    margin = NORMAL_95 * spread / math.sqrt(len(shares))
    return mean, max(0.0, mean - margin), min(1.0, mean + margin)


def _score(parts: Sequence[Part], is_other: bool = False) -> Score:
    """The score of the first agent, or with two players of the other one."""
    shares = np.concatenate([part.shares for part in parts])
    lucks = [part.luck for part in parts if part.luck is not None]
    adjusted = shares - np.concatenate(lucks) if lucks else None
    if is_other:
        shares, adjusted = 1 - shares[:, ::-1], None if adjusted is None else 1 - adjusted
    share, low, high = interval(shares.mean(axis=1))
    without_luck = (None,) * 3 if adjusted is None else interval(adjusted.mean(axis=1))
    place = int(is_other)
    seconds = sum(float(part.seconds[place]) for part in parts)
    return Score(
        games=shares.size,
        share=share,
        low=low,
        high=high,
        per_seat=tuple(shares.mean(axis=0).tolist()),
        turns=float(np.concatenate([part.turns for part in parts]).mean()),
        third_traps=float(np.concatenate([part.trapped for part in parts]).mean()),
        seconds=seconds / sum(int(part.decisions[place]) for part in parts),
        adjusted=without_luck[0],
        adjusted_low=without_luck[1],
        adjusted_high=without_luck[2],
    )


# --- All against all -----------------------------------------------------------------------

Pairs = dict[tuple[str, str], Score]
Task = tuple[str, str, npt.NDArray[np.uint64], Variant, int, int, bool]


def all_pairs(
    names: Sequence[str],
    variant: Variant | int,
    games: int,
    seed: int,
    processes: int = 1,
    on_part: Callable[[int], None] = lambda games: None,
    only: str | None = None,
    luck_adjusted: bool = False,
) -> Iterator[tuple[str, str, Score]]:
    """The score of each agent against a table of each other one, on the same deals.

    With two players a pairing is played once and counted from both sides. The scores do not
    depend on the number of processes.

    Args:
        names: of the agents, see `agents.make`; a single one plays itself.
        variant: the rules, or the number of players, 2 to 6, for the default ones.
        games: of each pairing, up to the next multiple of the number of players.
        seed: of deals, dice and agents.
        processes: that play in parallel.
        on_part: is told how many games have been played since it was last told.
        only: the agent whose pairs are played, with more than two players as the single one at
            its tables; None plays all.
        luck_adjusted: as in `win_share`.
    """
    variant = Variant(num_players=variant) if isinstance(variant, int) else variant
    num_players = variant.num_players
    deals = _deals(num_players, games, seed)
    meetings = pairings(names, num_players, only)
    tasks = [
        (name, other, streams, variant, seed, number, luck_adjusted)
        for name, other in meetings
        for number, streams in enumerate(deals)
    ]
    parts: list[Part] = []
    for task, part in zip(tasks, _parts(tasks, processes), strict=True):
        parts.append(part)
        on_part(part.shares.size)
        if len(parts) == len(deals):
            name, other = task[:2]
            yield name, other, _score(parts)
            if num_players == 2 and name != other:
                yield other, name, _score(parts, is_other=True)
            parts = []


def pairings(names: Sequence[str], num_players: int, only: str | None) -> list[tuple[str, str]]:
    """Who meets whom; with two players a pairing counts for both sides."""
    choose = itertools.combinations if num_players == 2 else itertools.permutations
    every = list(choose(names, 2)) or [(names[0], names[0])]
    sides = 2 if num_players == 2 else 1
    return [pair for pair in every if only is None or only in pair[:sides]]


def _parts(tasks: Sequence[Task], processes: int) -> Iterator[Part]:
    if processes == 1:
        yield from map(_play_task, tasks)
        return
    context = multiprocessing.get_context("spawn")  # a fork would take the threads of libraries
    with ProcessPoolExecutor(processes, context, _end_on_interrupt) as pool:
        try:
            yield from pool.map(_play_task, tasks)
        finally:
            pool.shutdown(cancel_futures=True)


def _end_on_interrupt() -> None:
    """Ctrl-C ends a worker at once and without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _play_task(task: Task) -> Part:
    name, other, streams, variant, seed, number, luck_adjusted = task
    others = [cached_agent(other, variant)] * (variant.num_players - 1)
    table = [cached_agent(name, variant), *others]
    return _play(table, streams, variant, seed, number, luck_adjusted)


@lru_cache
def cached_agent(name: str, variant: Variant) -> Agent:
    """The agent of that name for these rules, made once in each process."""
    return agents.make(name, variant)


def ratings(pairs: Pairs, names: Sequence[str], num_players: int) -> dict[str, float]:
    """Bradley-Terry strengths in Elo points, the first agent at 0.

    A difference of 100 means that the stronger of two wins 64 % of their games. A share against
    several copies of an agent counts as the chance against one of them that gives this share.

    Raises:
        ImportError: choix is not installed.
    """
    import choix

    wins = np.zeros((len(names), len(names)))
    for (name, other), score in pairs.items():
        odds = (num_players - 1) * score.share / max(1 - score.share, 1e-9)
        won = score.games * odds / (1 + odds)
        wins[names.index(name), names.index(other)] += won
        wins[names.index(other), names.index(name)] += score.games - won
    strengths = choix.ilsr_pairwise_dense(wins, alpha=1e-4)
    elo = (strengths - strengths[0]) * 400 / math.log(10)
    return dict(zip(names, elo.tolist(), strict=True))

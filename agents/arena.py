"""The arena: how often an agent wins against others, with every seat played alike.

Example:
    python -m agents.arena random reference --num-players 2 --games 20000
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import agents
from agents.agent import Agent
from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.seeding import as_seed, streams_of
from alles_kaese_env.variant import whole_number

NORMAL_95 = 1.959964  # half the width of a 95 % interval, in standard errors
GAMES_AT_ONCE = 20_000
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
    """

    games: int
    share: float
    low: float
    high: float
    per_seat: tuple[float, ...]
    turns: float
    third_traps: float


def win_share(
    agent: Agent,
    against: Agent | Sequence[Agent],
    *,
    num_players: int = 2,
    games: int = 20_000,
    seed: int = 0,
) -> Score:
    """Let an agent play against others, each deal once from every seat.

    Args:
        agent: whose share of the wins is asked for.
        against: who plays all other seats, or num_players - 1 agents in turn order after it.
        num_players: 2 to 6, N below.
        games: at least this many, up to the next multiple of N.
        seed: of deals and dice. Games of one deal have the same random stream, and so begin
            with the same row; what chance brings later depends on how they are played.

    Raises:
        ValueError: the number of games, players or opponents, or the seed, is not what is allowed.
    """
    whole_number("games", games, 1, MOST_GAMES)
    others = list(against) if isinstance(against, Sequence) else [against] * (num_players - 1)
    if len(others) != num_players - 1:
        raise ValueError(
            f"against has {len(others)} agents; allowed: {num_players - 1} "
            f"for {num_players} players"
        )
    deals = -(-games // num_players)
    streams = streams_of(seed, deals)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    size = max(1, GAMES_AT_ONCE // num_players)
    parts = [
        _play([agent, *others], streams[start : start + size], rng)
        for start in range(0, deals, size)
    ]
    shares, turns, trapped = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _score(shares, turns, trapped)


def _play(
    table: Sequence[Agent], streams: npt.NDArray[np.uint64], rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Each deal with table[0] in every seat and the others after it in turn order.

    Returns:
        Shares of the win of table[0] (deals, N), turns (deals, N), ends by a third trap (deals, N).
    """
    seats = len(table)
    variant = Variant(num_players=seats)
    batch = GameBatch(len(streams) * seats, variant)
    batch.streams[:] = np.repeat(streams, seats)
    batch.reset()
    first = np.tile(np.arange(seats), len(streams))  # the seat of table[0] in each game
    while len(playing := np.flatnonzero(~batch.over)):
        who = (batch.seats[playing] - first[playing]) % seats
        for place, agent in enumerate(table):
            rows = playing[who == place]
            if len(rows):
                batch.step(agent.act(batch.observations[rows], batch.masks[rows], rng), rows)
    payoffs = batch.payoffs[np.arange(len(batch)), first].astype(np.float64)
    shares = (payoffs * (seats - 1) + 1) / seats  # P5, solved for the share of the win
    trapped = (batch.games["traps"] >= variant.trap_limit).any(axis=1)
    shape = len(streams), seats
    turns = batch.games["turns"].astype(np.int64)
    return shares.reshape(shape), turns.reshape(shape), trapped.reshape(shape)


def _score(
    shares: npt.NDArray[np.float64],
    turns: npt.NDArray[np.int64],
    trapped: npt.NDArray[np.bool_],
) -> Score:
    by_deal = shares.mean(axis=1)
    share = float(by_deal.mean())
    spread = float(by_deal.std(ddof=1)) if len(by_deal) > 1 else float("nan")
    margin = NORMAL_95 * spread / np.sqrt(len(by_deal))
    return Score(
        games=shares.size,
        share=share,
        low=float(max(0.0, share - margin)),
        high=float(min(1.0, share + margin)),
        per_seat=tuple(float(one) for one in shares.mean(axis=0)),
        turns=float(turns.mean()),
        third_traps=float(trapped.mean()),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m agents.arena",
        description="All agents against all others, each deal once from every seat.",
        epilog="example: python -m agents.arena random reference --num-players 2 --games 20000",
    )
    parser.add_argument("agents", nargs="+", metavar="AGENT", help="random, reference, ppo:RUN")
    parser.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    parser.add_argument("--games", type=int, default=20_000, help="of each pair (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        whole_number("--games", options.games, 2, MOST_GAMES)
        as_seed(options.seed)
        table = {name: agents.make(name) for name in options.agents}
    except ValueError as error:
        parser.error(str(error))
    print(
        f"{'agent':<24}{'against':<24}{'share':>7}  {'95 % interval':<16}{'turns':>6}  third traps"
    )
    for name, other in itertools.permutations(table, 2) if len(table) > 1 else [(*table, *table)]:
        score = win_share(
            table[name],
            table[other],
            num_players=options.num_players,
            games=options.games,
            seed=options.seed,
        )
        print(
            f"{name:<24}{other:<24}{score.share:>7.3f}  {score.low:.3f} to {score.high:.3f}  "
            f"{score.turns:>6.1f}  {score.third_traps:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

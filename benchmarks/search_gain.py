"""How much a search gains over what its agent would do without one, against the reference.

Example:
    python benchmarks/search_gain.py search:500 --num-players 2 --games 400

By the performance difference lemma the gain in the share of the win is the sum, over the decisions
of the search's games, of what its moves gain over the policy without a search, when that policy
plays on. Wherever the two differ, both are played out from the true game, with the same random
stream. Beside the share by the same games it has some forty times less variance, and unlike the
search's own figures it rests on no model: fronts are what they are. The share that follows is that
of the policy, see ``heuristics/parameters.json`` and ``pretrained/values.json``, plus the gain.
"""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import agents
from agents.arena.matches import NORMAL_95
from agents.heuristics.reference import reference_action
from agents.search.agent import SearchAgent
from agents.search.playouts import policy_action
from agents.search.values import final_share
from alles_kaese_env import GameBatch, Variant
from alles_kaese_env.command_line import INTERRUPTED, Parser, at_least, progress
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.records import DECISION, GAME, STREAM
from alles_kaese_env.core.rules import apply_action, run_chance
from alles_kaese_env.seeding import streams_of

PLAYOUTS_KEY = 3  # of the seed of the play-outs that measure


@jit
def share_after(game, rules, action, policy, stream):
    """The mover's share of the win after an action, when it plays on by its policy."""
    mover = game.seat
    apply_action(game, rules, action)
    run_chance(game, rules, stream)
    while game.phase == DECISION:
        if game.seat == mover:
            action = policy_action(game, rules, policy)
        else:
            action = reference_action(game, rules)
        apply_action(game, rules, action)
        run_chance(game, rules, stream)
    return final_share(game, rules, np.int64(mover), policy.buffers.payoffs)


@jit
def gains(games, rules, actions, policy, playouts, counters, found):
    """By how much each action is better than that of the policy, in shares of the win.

    Args:
        games: (B,) GAME.
        rules: (1,) RULES.
        actions: (B,) int64.
        policy: the Policy that plays on.
        playouts: how many of each of the two actions.
        counters: (B,) uint64: where the stream of each game's play-outs begins.
        found: (B,) float64 to write.
    """
    work, stream = np.zeros(1, GAME), np.zeros(1, STREAM)
    for i in range(len(games)):
        found[i] = 0
        base = policy_action(games[i], rules[0], policy)
        for number in range(playouts if base != actions[i] else 0):
            for action, sign in ((actions[i], 1), (base, -1)):
                work[0] = games[i]
                stream[0].counter = counters[i] + np.uint64(number) * np.uint64(0x632BE59BD9B4E019)
                share = share_after(work[0], rules[0], action, policy, stream[0])
                found[i] += sign * share / playouts


def gain_of(
    agent: SearchAgent, num_players: int, games: int, playouts: int, seed: int
) -> npt.NDArray[np.float64]:
    """What the search gains in each of some games, its seat going round, (games,)."""
    variant = Variant(num_players=num_players)
    policy = agent.policy(num_players)
    reference = agents.make("reference")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(PLAYOUTS_KEY,)))
    batch = GameBatch(games, variant)
    batch.streams[:] = streams_of(seed, games)
    batch.reset()
    seats, total = np.arange(games) % num_players, np.zeros(games)
    with progress("games", games) as show:
        while len(playing := np.flatnonzero(~batch.over)):
            is_own = batch.seats[playing] == seats[playing]
            own, others = playing[is_own], playing[~is_own]
            if len(own):
                actions = agent.act(batch.observations[own], batch.masks[own], rng)
                found = np.zeros(len(own))
                counters = rng.integers(2**64, size=len(own), dtype=np.uint64)
                gains(batch.games[own], variant.rules, actions, policy, playouts, counters, found)
                total[own] += found
                batch.step(actions, own)
            if len(others):
                actions = reference.act(batch.observations[others], batch.masks[others], rng)
                batch.step(actions, others)
            show(int(batch.over.sum()))
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        prog="python benchmarks/search_gain.py",
        description="Measure what a search gains over its agent without one.",
        epilog="example: python benchmarks/search_gain.py search:500 --num-players 2 --games 400",
    )
    parser.add_argument("agent", help="search:BUDGET or search:flat:BUDGET")
    parser.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    for name, value, low, meaning in (
        ("--games", 400, 2, "games (%(default)s)"),
        ("--playouts", 300, 1, "that measure a move (%(default)s)"),
        ("--seed", 0, 0, "of deals and play-outs (%(default)s)"),
    ):
        parser.add_argument(name, type=at_least(low), default=value, help=meaning)
    options = parser.parse_args(arguments)
    try:
        agent = agents.make(options.agent)
    except ValueError as error:
        parser.error(str(error))
    if not isinstance(agent, SearchAgent):
        parser.error(f"agent is {options.agent!r}; allowed: search:BUDGET or search:flat:BUDGET")
    try:
        found = gain_of(agent, options.num_players, options.games, options.playouts, options.seed)
    except KeyboardInterrupt:
        print("interrupted; nothing was kept", file=sys.stderr)
        return INTERRUPTED
    margin = NORMAL_95 * found.std(ddof=1) / np.sqrt(len(found))
    print(
        f"gain {found.mean():.4f}, 95 % interval {found.mean() - margin:.4f} "
        f"to {found.mean() + margin:.4f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

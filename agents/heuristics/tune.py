"""Tune the parameters of the heuristic for one number of players, and measure what came out.

Example:
    python -m agents.heuristics.tune --num-players 2 --budget 320

The method is the cross-entropy method: draw candidates from a normal distribution for each
parameter, let all of them play the same deals, move the distribution towards the best quarter;
each round has new deals. A candidate's value is a weighted mean of its shares of the win against
the reference heuristic, the greedy agent and the present mean of the distribution. What is kept
is that mean, and no single lucky candidate. Afterwards it plays deals that no round has seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple
from typing import Any

import numpy as np
import numpy.typing as npt

import agents
from agents.arena.matches import win_share
from agents.heuristics.heuristic import PARAMETERS_FILE, HeuristicAgent, Parameters
from agents.rounds import CHECK_KEY, keep, last_of, parser_of
from alles_kaese_env.agent import Agent
from alles_kaese_env.command_line import INTERRUPTED
from alles_kaese_env.files import checked_output, read_entries
from alles_kaese_env.seeding import seed_of

MIX = {"reference": 0.4, "greedy": 0.2, "present": 0.4}  # weights of the opponents
CHECKS = ("reference", "greedy", "random")
CANDIDATES = 20
ELITE = 5
FIRST_SPREAD = 0.4  # of a parameter, as a share of where it starts
LEAST_SPREAD = 0.03
STEP = 0.5  # how far a round moves the distribution
ABOUT = "parameters of HeuristicAgent, tuned by agents/heuristics/tune.py"

Vector = npt.NDArray[np.float64]


def agent_of(vector: Vector, num_players: int) -> Agent:
    """The heuristic with these parameters, in the order of `Parameters`."""
    return HeuristicAgent({num_players: Parameters(*vector.tolist())})


def value_of(candidate: Vector, present: Vector, num_players: int, games: int, seed: int) -> float:
    """The weighted share of the win of a candidate against the opponents of `MIX`."""
    total = 0.0
    for name, weight in MIX.items():
        other = agent_of(present, num_players) if name == "present" else agents.make(name)
        agent = agent_of(candidate, num_players)
        score = win_share(agent, other, num_players=num_players, games=games, seed=seed)
        total += weight * score.share
    return total


def rounds(num_players: int, number: int, games: int, seed: int) -> Iterator[tuple[Vector, float]]:
    """The mean of the distribution after each round, and the value of the mean candidate."""
    rng = np.random.default_rng(seed)
    start = np.array(astuple(Parameters()))
    mean, spread = start.copy(), FIRST_SPREAD * start
    for one in range(number):
        candidates = rng.normal(mean, spread, (CANDIDATES, len(mean)))
        deals = seed_of(seed, 1, one)
        values = np.array([value_of(each, mean, num_players, games, deals) for each in candidates])
        elite = candidates[np.argsort(-values, kind="stable")[:ELITE]]
        mean = (1 - STEP) * mean + STEP * elite.mean(axis=0)
        spread = (1 - STEP) * spread + STEP * elite.std(axis=0)
        spread = np.maximum(spread, LEAST_SPREAD * start)
        yield mean, float(values.mean())


def check(vector: Vector, num_players: int, games: int, seed: int) -> dict[str, Any]:
    """Shares of the win with their 95 % intervals, on unseen deals."""
    found: dict[str, Any] = {"games": games, "seed": seed_of(seed, CHECK_KEY), "against": {}}
    agent = agent_of(vector, num_players)
    options = {"num_players": num_players, "games": games, "seed": found["seed"]}
    for name in CHECKS:
        score = win_share(agent, agents.make(name), **options)
        figures = {"share": score.share, "low": score.low, "high": score.high}
        found["against"][name] = {key: round(figure, 4) for key, figure in figures.items()}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    numbers = (
        ("--budget", 320, CANDIDATES, "candidates"),
        ("--games", 2400, 2, "of a candidate and opponent"),
        ("--check-games", 40_000, 2, "of the final check"),
        ("--seed", 0, 0, "of candidates, deals and dice"),
    )
    what = "Tune the heuristic for one number of players"
    parser = parser_of("agents.heuristics.tune", what, numbers, PARAMETERS_FILE)
    options = parser.parse_args(arguments)
    players, games, seed = options.num_players, options.games, options.seed
    try:
        checked_output(options.out, "--out")
        read_entries(options.out)
    except ValueError as error:
        parser.error(str(error))
    number = options.budget // CANDIDATES
    found, done = last_of(rounds(players, number, games, seed), number, "mean value")
    if found is None:
        print("nothing was found; the file stays as it is")
        return INTERRUPTED
    vector = found.round(4)
    entry = {
        "parameters": asdict(Parameters(*vector.tolist())),
        "tuning": {
            "command": f"{parser.prog} --num-players {players} "
            f"--budget {options.budget} --games {games} --seed {seed}",
            "candidates": done * CANDIDATES,
            "opponents": MIX,
        },
    }
    is_checked = keep(
        options.out,
        ABOUT,
        players,
        entry,
        lambda: check(vector, players, options.check_games, seed),
    )
    return 0 if is_checked and done == number else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

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

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import agents
from agents.arena.matches import win_share
from agents.heuristics.heuristic import PARAMETERS_FILE, HeuristicAgent, Parameters
from alles_kaese_env.agent import Agent
from alles_kaese_env.command_line import INTERRUPTED, Parser, at_least
from alles_kaese_env.files import checked_output, read_entries, write_entry
from alles_kaese_env.seeding import seed_of

MIX = {"reference": 0.4, "greedy": 0.2, "present": 0.4}  # weights of the opponents
CHECKS = ("reference", "greedy", "random")
CANDIDATES = 20
ELITE = 5
FIRST_SPREAD = 0.4  # of a parameter, as a share of where it starts
LEAST_SPREAD = 0.03
STEP = 0.5  # how far a round moves the distribution
CHECK_KEY = 2  # of the seed of the deals of the check; rounds have key 1
ABOUT = "parameters of HeuristicAgent, tuned by agents/heuristics/tune.py"

Vector = npt.NDArray[np.float64]


def agent_of(vector: Vector, num_players: int) -> Agent:
    """The heuristic with these parameters, in the order of `Parameters`."""
    return HeuristicAgent({num_players: Parameters(*map(float, vector))})


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


def check(vector: Vector, num_players: int, games: int, seed: int) -> dict[str, Any] | None:
    """Shares of the win with their 95 % intervals, on unseen deals; None on Ctrl-C."""
    deals = seed_of(seed, CHECK_KEY)
    found: dict[str, Any] = {"games": games, "seed": deals, "against": {}}
    agent = agent_of(vector, num_players)
    options = {"num_players": num_players, "games": games, "seed": deals}
    try:
        for name in CHECKS:
            score = win_share(agent, agents.make(name), **options)
            figures = {"share": score.share, "low": score.low, "high": score.high}
            found["against"][name] = {key: round(figure, 4) for key, figure in figures.items()}
    except KeyboardInterrupt:
        print("interrupted; what was found is kept without a check", flush=True)
        return None
    return found


def tune(num_players: int, budget: int, games: int, seed: int) -> tuple[Vector, int]:
    """The tuned parameters, and how many candidates were tried; Ctrl-C ends it early."""
    mean, done, begin = np.array(astuple(Parameters())), 0, time.monotonic()
    number = budget // CANDIDATES
    try:
        for found, value in rounds(num_players, number, games, seed):
            mean, done = found, done + 1
            left = (time.monotonic() - begin) / done * (number - done)
            print(
                f"round {done}/{number}: mean value {value:.4f}, about {left:.0f} s left",
                flush=True,
            )
    except KeyboardInterrupt:
        print(f"interrupted after {done} rounds; what they found is kept", flush=True)
    return mean.round(4), done * CANDIDATES


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        prog="python -m agents.heuristics.tune",
        description="Tune the heuristic for one number of players; Ctrl-C keeps what was found.",
        epilog="example: python -m agents.heuristics.tune --num-players 2 --budget 320",
    )
    parser.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    for name, value, low, meaning in (
        ("--budget", 320, CANDIDATES, "candidates (%(default)s)"),
        ("--games", 2400, 2, "of a candidate and opponent (%(default)s)"),
        ("--check-games", 40_000, 2, "of the final check (%(default)s)"),
        ("--seed", 0, 0, "of candidates, deals and dice (%(default)s)"),
    ):
        parser.add_argument(name, type=at_least(low), default=value, help=meaning)
    parser.add_argument("--out", type=Path, default=PARAMETERS_FILE, help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        checked_output(options.out, "--out")
        read_entries(options.out)
    except ValueError as error:
        parser.error(str(error))
    found, tried = tune(options.num_players, options.budget, options.games, options.seed)
    if not tried:
        print("nothing was found; the file stays as it is")
        return INTERRUPTED
    entry = {
        "parameters": asdict(Parameters(*map(float, found))),
        "tuning": {
            "command": f"python -m agents.heuristics.tune --num-players {options.num_players} "
            f"--budget {options.budget} --games {options.games} --seed {options.seed}",
            "candidates": tried,
            "opponents": MIX,
        },
        "check": check(found, options.num_players, options.check_games, options.seed),
    }
    write_entry(options.out, ABOUT, options.num_players, entry)
    print(json.dumps(entry, indent=2))
    return (
        0 if entry["check"] and tried == options.budget // CANDIDATES * CANDIDATES else INTERRUPTED
    )


if __name__ == "__main__":
    sys.exit(main())

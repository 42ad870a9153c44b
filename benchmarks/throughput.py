"""Random legal play through every face: steps a second, observation and mask included.

Example:
    python benchmarks/throughput.py --players 2 --games 1024 --json throughput.json
    python benchmarks/throughput.py --faces GameBatch --games 256 1024 4096 16384 65536 \
        --players 2 3 4 5 6 --plot growth.svg

A step is one decision of one seat; faces in which opponents play inside a step (Gymnasium,
VectorEnv, stable-baselines3) count only the learner's, and say how many decisions a step holds.
Compilation is not part of the figures. Finished games are dealt anew and counted in.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import gymnasium
import numpy as np
import peers
from numba import njit

from alles_kaese_env import GameBatch, Variant, alles_kaese_v0
from alles_kaese_env.core.loops import (
    deal,
    inform,
    random_action,
)
from alles_kaese_env.core.observe import (
    OBSERVATION_RECORD,
)
from alles_kaese_env.core.records import (
    MASK,
    OVER,
    STREAM,
)
from alles_kaese_env.core.rules import (
    apply_action,
    legal_actions,
    run_chance,
)
from alles_kaese_env.core.streams import (
    random_below,
)
from alles_kaese_env.game_batch import as_records

STEPS_BETWEEN_LOOKS = 64  # at the clock


@dataclass(frozen=True)
class Result:
    """A figure: the median of several runs, and how far they lie apart."""

    face: str
    games: int
    players: int
    threads: int
    steps_per_s: float
    lowest: float
    highest: float
    compile_s: float


@njit(nogil=True)
def choose(masks: Any, stream: Any, actions: Any) -> None:
    """A random legal action for each row of masks (B, 18)."""
    for i in range(len(masks)):
        number = 0
        for action in range(masks.shape[1]):
            number += masks[i, action] != 0
        ticket = random_below(stream[0], number) if number else -1
        for action in range(masks.shape[1]):
            if masks[i, action]:
                if ticket == 0:
                    actions[i] = action
                ticket -= 1


@njit(nogil=True, forceinline=True)
def act_at_random(game: Any, rules: Any, stream: Any) -> None:
    """A step of random play, and a new game where it was the last."""
    legal = legal_actions(game, rules)
    apply_action(game, rules, random_action(legal, stream))
    run_chance(game, rules, stream)
    if game.phase == OVER:
        deal(game, rules, stream)


@njit(nogil=True)
def play_blindly(games: Any, streams: Any, rules: Any) -> None:
    """A step of random play without a look at the games."""
    for i in range(len(games)):
        act_at_random(games[i], rules[0], streams[i])


@njit(nogil=True)
def play_on(games: Any, streams: Any, rules: Any, masks: Any, observations: Any) -> None:
    """A step of random play by the engine alone."""
    for i in range(len(games)):
        act_at_random(games[i], rules[0], streams[i])
        inform(games[i], rules[0], np.int64(games[i].seat), masks[i], observations[i])


def new_stream() -> np.ndarray[Any, Any]:
    """A stream for the choice of actions."""
    return as_records(np.array([12345], np.uint64), STREAM)


def rules_loop(games: int, players: int, threads: int) -> Iterator[int]:
    """The compiled rules without mask and observation."""
    batch = GameBatch(games, Variant(num_players=players), seed=0)
    while True:
        play_blindly(batch.games, batch.buffers.streams, batch.variant.rules)
        yield games


def engine_loop(games: int, players: int, threads: int) -> Iterator[int]:
    """The compiled rules, mask and observation with nothing around them."""
    batch = GameBatch(games, Variant(num_players=players), seed=0)
    masks = as_records(batch.masks, MASK)
    observations = as_records(batch.observations, OBSERVATION_RECORD)
    args = batch.games, batch.buffers.streams, batch.variant.rules, masks, observations
    while True:
        play_on(*args)
        yield games


def game_batch(games: int, players: int, threads: int) -> Iterator[int]:
    """GameBatch with autoreset."""
    batch = GameBatch(games, Variant(num_players=players), seed=0, threads=threads, autoreset=True)
    while True:
        batch.step(batch.random_actions())
        yield games


def vector_env(games: int, players: int, threads: int) -> Iterator[int]:
    """The Gymnasium VectorEnv, SAME_STEP, random opponents."""
    env = gymnasium.make_vec(
        "AllesKaese-v0",
        num_envs=games,
        vectorization_mode="vector_entry_point",
        num_players=players,
        autoreset_mode="SameStep",
    )
    _, infos = env.reset(seed=0)
    stream, actions = new_stream(), np.zeros(games, np.int64)
    while True:
        choose(infos["action_mask"], stream, actions)
        _, _, _, _, infos = env.step(actions)
        yield games


def sb3_vec_env(games: int, players: int, threads: int) -> Iterator[int]:
    """The stable-baselines3 VecEnv, random opponents."""
    from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv

    env = AllesKaeseVecEnv(games, players, seed=0)
    env.reset()
    stream, actions = new_stream(), np.zeros(games, np.int64)
    while True:
        choose(env.action_masks(), stream, actions)
        env.step(actions)
        yield games


def gymnasium_env(games: int, players: int, threads: int) -> Iterator[int]:
    """One Gymnasium env, random opponents."""
    env = gymnasium.make("AllesKaese-v0", num_players=players).unwrapped
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    tickets = rng.random(4096)
    number = 0
    while True:
        legal = np.flatnonzero(info["action_mask"])
        number = (number + 1) % len(tickets)
        _, _, terminated, _, info = env.step(int(legal[int(tickets[number] * len(legal))]))
        if terminated:
            _, info = env.reset()
        yield 1


def pettingzoo_aec(games: int, players: int, threads: int) -> Iterator[int]:
    """One PettingZoo AEC env without wrappers; the steps of agents that are done count not."""
    return peers.aec_game(alles_kaese_v0.raw_env(num_players=players))


BATCHED: dict[str, Callable[[int, int, int], Iterator[int]]] = {
    "rules": rules_loop,
    "engine": engine_loop,
    "GameBatch": game_batch,
    "VectorEnv": vector_env,
    "SB3 VecEnv": sb3_vec_env,
}
SINGLE = {"Gymnasium": gymnasium_env, "PettingZoo AEC": pettingzoo_aec}
THREADED = ("GameBatch",)


def measure(
    face: str, games: int, players: int, threads: int, seconds: float, repeats: int
) -> Result:
    """The median of several runs of a face."""
    started = time.perf_counter()
    play = (BATCHED | SINGLE)[face](games, players, threads)
    for _ in range(4):
        next(play)
    compile_s = time.perf_counter() - started
    speeds = [speed(play, seconds) for _ in range(repeats)]
    middle = statistics.median(speeds)
    return Result(face, games, players, threads, middle, min(speeds), max(speeds), compile_s)


def speed(play: Iterator[int], seconds: float) -> float:
    """Steps a second, over about so many seconds."""
    steps = 0
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        for _ in range(STEPS_BETWEEN_LOOKS):
            steps += next(play)
    return steps / elapsed


def processor() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def main() -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    faces = [*BATCHED, *SINGLE]
    parser.add_argument("--faces", nargs="+", choices=faces, default=faces, metavar="FACE")
    parser.add_argument("--games", nargs="+", type=int, default=[1024], help="batch sizes")
    parser.add_argument("--players", nargs="+", type=int, default=[2], choices=range(2, 7))
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--seconds", type=float, default=1.0, help="of one run")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="measure other environments too")
    parser.add_argument("--json", type=Path, metavar="FILE", nargs="?", const=Path("-"))
    parser.add_argument("--plot", type=Path, metavar="FILE", help="cost of a step by batch size")
    options = parser.parse_args()
    if min(*options.games, *options.threads, options.repeats, 1) < 1 or options.seconds <= 0:
        parser.error("--games, --threads, --repeats and --seconds: allowed are positive numbers")
    out = sys.stderr if options.json == Path("-") else sys.stdout
    results = []
    print(f"{processor()}, Python {platform.python_version()}", file=out)
    print(f"{'face':<16}{'games':>7}{'players':>9}{'threads':>9}{'steps/s':>14}  spread", file=out)
    for face, games, players, threads in cases(options):
        result = measure(face, games, players, threads, options.seconds, options.repeats)
        results.append(result)
        print(
            f"{face:<16}{games:>7}{players:>9}{threads:>9}{result.steps_per_s:>14,.0f}"
            f"  {result.lowest:,.0f} to {result.highest:,.0f}",
            file=out,
        )
    report = {"processor": processor(), "results": [asdict(result) for result in results]}
    if options.peers:
        report["peers"] = measure_peers(results, options, out)
    if options.plot:
        plot_growth(results, options.plot)
    if options.json:
        text = json.dumps(report, indent=2)
        if options.json == Path("-"):
            print(text)
        else:
            options.json.write_text(text + "\n")
    return 0


def measure_peers(
    results: list[Result], options: argparse.Namespace, out: TextIO
) -> list[dict[str, Any]]:
    """The speed of each peer that is installed, and how our faces compare with it."""
    found = []
    for name, play in peers.installed().items():
        steps = play()
        next(steps)
        speeds = [speed(steps, options.seconds) for _ in range(options.repeats)]
        found.append({"name": name, "steps_per_s": statistics.median(speeds)})
        print(f"{name:<41}{found[-1]['steps_per_s']:>14,.0f}", file=out)
    for result in results:
        ratios = [
            f"{result.steps_per_s / peer['steps_per_s']:.2f} x {peer['name']}" for peer in found
        ]
        print(f"{result.face} ({result.games} games): {', '.join(ratios)}", file=out)
    return found


def plot_growth(results: list[Result], file: Path) -> None:
    """The cost of a step by the number of games, a line for each face and number of players."""
    from agents.arena.plots import figure

    lines: dict[str, list[Result]] = {}
    for one in results:
        if one.face in BATCHED:
            name = f"{one.face}, {one.players} players, {one.threads} threads"
            lines.setdefault(name, []).append(one)
    with figure(file) as axes:
        for name, line in lines.items():
            costs = [1e9 / one.steps_per_s for one in line]
            errors = [[1e9 / one.steps_per_s - 1e9 / one.highest for one in line]]
            errors += [[1e9 / one.lowest - 1e9 / one.steps_per_s for one in line]]
            axes.errorbar([one.games for one in line], costs, errors, marker=".", label=name)
        axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("games side by side")
        axes.set_ylabel("nanoseconds a step")
        axes.legend()


def cases(options: argparse.Namespace) -> Iterator[tuple[str, int, int, int]]:
    """What is measured: single games once, threads only where a face has them."""
    for players in options.players:
        for face in options.faces:
            for games in options.games if face in BATCHED else [1]:
                for threads in options.threads if face in THREADED else [1]:
                    yield face, games, players, threads


if __name__ == "__main__":
    sys.exit(main())

"""Random legal play through every API: steps per second, observation and mask included.

Example:
    python benchmarks/throughput.py --players 2 --games 1024 --json throughput.json
    python benchmarks/throughput.py --apis GameBatch --games 256 1024 4096 16384 65536 \
        --players 2 3 4 5 6 --plot growth.svg
    python benchmarks/throughput.py --apis Gymnasium --render-modes none ansi rgb_array

A step is one decision of one seat. Where opponents play inside a step (Gymnasium, VectorEnv,
stable-baselines3), only the learner's decisions count. Compilation is not measured; dealing a new
game when one has ended is. "rules" is the compiled rules alone, "core" adds mask and observation.
A render mode is set and ``render`` never called, as libraries do by default; "Gymnasium pictures"
draws each step with ``render_mode="rgb_array"``.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

import gymnasium
import numpy as np
import peers
from figures import write_json
from numba import njit

from alles_kaese_env import GameBatch, Variant, alles_kaese_v0
from alles_kaese_env.command_line import INTERRUPTED, Parser, provenance
from alles_kaese_env.core.loops import deal, inform, random_action
from alles_kaese_env.core.observe import OBSERVATION_RECORD
from alles_kaese_env.core.records import MASK, OVER, STREAM, as_records
from alles_kaese_env.core.rules import apply_action, legal_actions, run_chance
from alles_kaese_env.core.streams import random_below
from alles_kaese_env.files import checked_output
from alles_kaese_env.variant import whole_number

STEPS_BETWEEN_LOOKS = 64  # at the clock
PICTURES_BEFORE = 1_000


@dataclass(frozen=True)
class Case:
    """What is measured."""

    api: str
    games: int = 1
    players: int = 2
    threads: int = 1
    render_mode: str | None = None


@dataclass(frozen=True)
class Result(Case):
    """A figure: the median of several runs, and how far they lie apart."""

    steps_per_s: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    compile_s: float = 0.0


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
    """A step of random play, without mask and observation."""
    for i in range(len(games)):
        act_at_random(games[i], rules[0], streams[i])


@njit(nogil=True)
def play_on(games: Any, streams: Any, rules: Any, masks: Any, observations: Any) -> None:
    """A step of random play, with mask and observation."""
    for i in range(len(games)):
        act_at_random(games[i], rules[0], streams[i])
        inform(games[i], rules[0], np.int64(games[i].seat), masks[i], observations[i])


def new_stream() -> np.ndarray[Any, Any]:
    """A stream for the choice of actions."""
    return as_records(np.array([12345], np.uint64), STREAM)


def rules_loop(case: Case) -> Iterator[int]:
    """The compiled rules without mask and observation."""
    batch = GameBatch(case.games, Variant(num_players=case.players), seed=0)
    while True:
        play_blindly(batch.games, batch.buffers.streams, batch.variant.rules)
        yield case.games


def core_loop(case: Case) -> Iterator[int]:
    """The compiled rules, mask and observation with nothing around them."""
    batch = GameBatch(case.games, Variant(num_players=case.players), seed=0)
    masks = as_records(batch.masks, MASK)
    observations = as_records(batch.observations, OBSERVATION_RECORD)
    args = batch.games, batch.buffers.streams, batch.variant.rules, masks, observations
    while True:
        play_on(*args)
        yield case.games


def game_batch(case: Case) -> Iterator[int]:
    """GameBatch with autoreset."""
    variant = Variant(num_players=case.players)
    batch = GameBatch(case.games, variant, seed=0, threads=case.threads, autoreset=True)
    while True:
        batch.step(batch.random_actions())
        yield case.games


def vector_env(case: Case) -> Iterator[int]:
    """The Gymnasium VectorEnv, SAME_STEP, random opponents."""
    env = gymnasium.make_vec(
        "AllesKaese-v0",
        num_envs=case.games,
        vectorization_mode="vector_entry_point",
        num_players=case.players,
        autoreset_mode="SameStep",
        render_mode=case.render_mode,
    )
    _, infos = env.reset(seed=0)
    stream, actions = new_stream(), np.zeros(case.games, np.int64)
    while True:
        choose(infos["action_mask"], stream, actions)
        _, _, _, _, infos = env.step(actions)
        yield case.games


def sb3_vec_env(case: Case) -> Iterator[int]:
    """The stable-baselines3 VecEnv, random opponents."""
    from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv

    env = AllesKaeseVecEnv(case.games, case.players, seed=0)
    env.reset()
    stream, actions = new_stream(), np.zeros(case.games, np.int64)
    while True:
        choose(env.action_masks(), stream, actions)
        env.step(actions)
        yield case.games


def gymnasium_env(case: Case, is_drawn: bool = False) -> Iterator[int]:
    """One Gymnasium env without wrappers, random opponents."""
    env: Any = gymnasium.make(
        "AllesKaese-v0", num_players=case.players, render_mode=case.render_mode
    ).unwrapped
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=0)
    tickets = rng.random(4096)
    number = 0
    while True:
        legal = np.flatnonzero(info["action_mask"])
        number = (number + 1) % len(tickets)
        _, _, terminated, _, info = env.step(int(legal[int(tickets[number] * len(legal))]))
        if is_drawn:
            env.render()
        if terminated:
            _, info = env.reset()
        yield 1


def gymnasium_pictures(case: Case) -> Iterator[int]:
    """The same, with a picture of each step; the parts of pictures are drawn before."""
    play = gymnasium_env(replace(case, render_mode="rgb_array"), is_drawn=True)
    for _ in range(PICTURES_BEFORE):
        next(play)
    return play


def pettingzoo_aec(case: Case) -> Iterator[int]:
    """One PettingZoo AEC env without wrappers; steps of agents that are done do not count."""
    return peers.aec_game(
        alles_kaese_v0.raw_env(num_players=case.players, render_mode=case.render_mode)
    )


def open_spiel(case: Case) -> Iterator[int]:
    """One OpenSpiel game, its observation tensor and legal actions; chance events do not count."""
    import pyspiel

    from alles_kaese_env.envs.open_spiel import SHORT_NAME

    return peers.open_spiel_game(pyspiel.load_game(SHORT_NAME, {"players": case.players}))


def open_spiel_rl(case: Case) -> Iterator[int]:
    """OpenSpiel's rl_environment, which its agents learn in: information states of all seats."""
    import pyspiel
    from open_spiel.python import rl_environment

    from alles_kaese_env.envs.open_spiel import SHORT_NAME

    game = pyspiel.load_game(SHORT_NAME, {"players": case.players})
    env, tickets = rl_environment.Environment(game), np.random.default_rng(0)
    env.seed(0)
    while True:
        step = env.reset()
        while not step.last():
            legal = step.observations["legal_actions"][step.observations["current_player"]]
            step = env.step([legal[int(tickets.random() * len(legal))]])
            yield 1


def rllib_env(case: Case) -> Iterator[int]:
    """One RLlib env, without RLlib's env runner."""
    from alles_kaese_env.envs.rllib import AllesKaeseMultiAgentEnv

    env, tickets = AllesKaeseMultiAgentEnv({"num_players": case.players}), np.random.default_rng(0)
    seen, _ = env.reset(seed=0)
    while True:
        agent = next(iter(seen))
        legal = np.flatnonzero(seen[agent]["action_mask"])
        seen, _, ended, *_ = env.step({agent: int(legal[int(tickets.random() * len(legal))])})
        if ended["__all__"]:
            seen, _ = env.reset()
        yield 1


BATCHED: dict[str, Callable[[Case], Iterator[int]]] = {
    "rules": rules_loop,
    "core": core_loop,
    "GameBatch": game_batch,
    "VectorEnv": vector_env,
    "SB3 VecEnv": sb3_vec_env,
}
SINGLE: dict[str, Callable[[Case], Iterator[int]]] = {
    "Gymnasium": gymnasium_env,
    "Gymnasium pictures": gymnasium_pictures,
    "PettingZoo AEC": pettingzoo_aec,
    "OpenSpiel": open_spiel,
    "OpenSpiel rl_environment": open_spiel_rl,
    "RLlib": rllib_env,
}
NEEDED = {  # a library of each API that the base install lacks
    "SB3 VecEnv": "stable_baselines3",
    "Gymnasium pictures": "pygame",
    "OpenSpiel": "pyspiel",
    "OpenSpiel rl_environment": "pyspiel",
    "RLlib": "ray",
}
THREADED = ("GameBatch",)
RENDERED = ("VectorEnv", "Gymnasium", "PettingZoo AEC")
RENDER_MODES = ("none", "ansi", "rgb_array")


def measure(case: Case, seconds: float, repeats: int) -> Result:
    """The median of several runs."""
    started = time.perf_counter()
    play = (BATCHED | SINGLE)[case.api](case)
    for _ in range(4):
        next(play)
    compile_s = time.perf_counter() - started
    speeds = [speed(play, seconds) for _ in range(repeats)]
    middle = statistics.median(speeds)
    return Result(
        **asdict(case),
        steps_per_s=middle,
        lowest=min(speeds),
        highest=max(speeds),
        compile_s=compile_s,
    )


def speed(play: Iterator[int], seconds: float) -> float:
    """Steps per second, measured for about so many seconds."""
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
    parser = build_parser()
    options = parser.parse_args()
    try:
        check(options)
    except ValueError as error:
        parser.error(str(error))
    out = sys.stderr if options.json == Path("-") else sys.stdout
    results: list[Result] = []
    report: dict[str, Any] = {"processor": processor(), **provenance()}
    code = 0
    try:
        print(f"{processor()}, Python {platform.python_version()}", file=out)
        heads = f"{'games':>7}{'players':>9}{'threads':>9}{'steps/s':>14}  spread"
        print(f"{'API':<26}{heads}", file=out)
        for case in cases(options):
            results.append(measure(case, options.seconds, options.repeats))
            print(line_of(results[-1]), file=out, flush=True)
        if options.peers:
            report["peers"] = measure_peers(results, options, out)
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted after {len(results)} measurements", file=sys.stderr)
        code = INTERRUPTED
    report["results"] = [asdict(result) for result in results]
    if options.plot and results:
        plot_growth(results, options.plot)
    if options.json:
        write_json(report, options.json)
    return code


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python benchmarks/throughput.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    apis = [api for api in (*BATCHED, *SINGLE) if find_spec(NEEDED.get(api, "gymnasium"))]
    add("--apis", nargs="+", choices=apis, default=apis, metavar="API", help=", ".join(apis))
    add("--games", nargs="+", type=int, default=[1024], help="batch sizes (1024)")
    add("--players", nargs="+", type=int, default=[2], choices=range(2, 7))
    add("--threads", nargs="+", type=int, default=[1], help="of GameBatch (1)")
    add(
        "--render-modes",
        nargs="+",
        choices=RENDER_MODES,
        default=["none"],
        metavar="MODE",
        help=f"{', '.join(RENDER_MODES)} (none)",
    )
    add("--seconds", type=float, default=1.0, help="of one run (%(default)s)")
    add("--repeats", type=int, default=5, help="runs of each case (%(default)s)")
    add("--peers", action="store_true", help="measure other environments too")
    add("--json", type=Path, metavar="FILE", nargs="?", const=Path("-"), help="the figures")
    add("--plot", type=Path, metavar="FILE", help="cost of a step by batch size, PNG or SVG")
    return parser


def check(options: argparse.Namespace) -> None:
    """Raise `ValueError` if an option is not what is allowed, before anything is measured."""
    for name in ("games", "threads"):
        for number in getattr(options, name):
            whole_number(f"--{name}", number, 1, 2**24)
    whole_number("--repeats", options.repeats, 1, 10**6)
    if not 0 < options.seconds < 10**6:
        raise ValueError(f"--seconds is {options.seconds}; allowed: more than 0")
    if options.json and options.json != Path("-"):
        checked_output(options.json, "--json")
    if options.plot:
        checked_output(options.plot, "--plot", (".png", ".svg"))


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """What is measured: threads and render modes only where an API has them."""
    for players in options.players:
        for api in options.apis:
            for games in options.games if api in BATCHED else [1]:
                for threads in options.threads if api in THREADED else [1]:
                    for mode in options.render_modes if api in RENDERED else ["none"]:
                        yield Case(api, games, players, threads, None if mode == "none" else mode)


def name_of(case: Case) -> str:
    """The API, and its render mode if there is one."""
    return case.api + (f", {case.render_mode}" if case.render_mode else "")


def line_of(result: Result) -> str:
    """The columns of a figure."""
    return (
        f"{name_of(result):<26}{result.games:>7}{result.players:>9}{result.threads:>9}"
        f"{result.steps_per_s:>14,.0f}  {result.lowest:,.0f} to {result.highest:,.0f}"
    )


def measure_peers(
    results: list[Result], options: argparse.Namespace, out: TextIO
) -> list[dict[str, Any]]:
    """The speed of each peer that is installed, and how our APIs compare with it."""
    found = []
    for name, play in peers.installed().items():
        steps = play()
        next(steps)
        speeds = [speed(steps, options.seconds) for _ in range(options.repeats)]
        found.append({"name": name, "steps_per_s": statistics.median(speeds)})
        print(f"{name:<51}{found[-1]['steps_per_s']:>14,.0f}", file=out, flush=True)
    for result in results:
        ratios = [
            f"{result.steps_per_s / peer['steps_per_s']:.2f} x {peer['name']}" for peer in found
        ]
        print(f"{name_of(result)} ({result.games} games): {', '.join(ratios)}", file=out)
    return found


def plot_growth(results: list[Result], file: Path) -> None:
    """The cost of a step by the number of games, a line for each API and number of players."""
    from agents.arena.plots import figure

    lines: dict[str, list[Result]] = {}
    for one in results:
        if one.api in BATCHED:
            name = f"{one.api}, {one.players} players, {one.threads} threads"
            lines.setdefault(name, []).append(one)
    with figure(file) as axes:
        for name, line in lines.items():
            costs = [1e9 / one.steps_per_s for one in line]
            errors = [[1e9 / one.steps_per_s - 1e9 / one.highest for one in line]]
            errors += [[1e9 / one.lowest - 1e9 / one.steps_per_s for one in line]]
            axes.errorbar([one.games for one in line], costs, errors, marker=".", label=name)
        axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("parallel environments")
        axes.set_ylabel("nanoseconds per step")
        axes.legend()


if __name__ == "__main__":
    sys.exit(main())

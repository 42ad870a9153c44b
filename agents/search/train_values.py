"""Train the value network of the search for one number of players, and measure it.

Example:
    python -m agents.search.train_values --num-players 2

Watkins's Q(lambda) on the states after actions, as in TD-Gammon: one seat plays by the network,
now and then at random, the others play the reference heuristic; each state is then drawn towards
a mean of what the network thinks of the seat's later decisions and of what the game brought. The
first rounds, in which the network knows nothing, are played by the tuned heuristic. What is kept
is the running mean of the weights. Afterwards it plays deals that no round has seen, without
looking ahead.
"""

# Numba infers the types of what is compiled, and np.record has none.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.arena.matches import NORMAL_95
from agents.heuristics.heuristic import parameters_by_players
from agents.heuristics.reference import reference_action
from agents.search.playouts import Policy, policy_action
from agents.search.values import (
    DIRECTORY,
    HIDDEN,
    Network,
    best_action,
    buffers_for,
    final_share,
    network_file,
    no_network,
    num_features,
    write_features,
)
from alles_kaese_env.command_line import INTERRUPTED, Parser, at_least
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.loops import deal, random_action
from alles_kaese_env.core.records import DECISION, FRONT, GAME, OVER, STREAM
from alles_kaese_env.core.rules import (
    apply_action,
    draw_front,
    legal_actions,
    run_chance,
    sample_front,
)
from alles_kaese_env.core.streams import random_below
from alles_kaese_env.files import checked_output, read_entries, replacing, write_entry
from alles_kaese_env.seeding import seed_of, streams_of
from alles_kaese_env.variant import Variant

MOST_DECISIONS = 100  # of a seat that are learned from, in one game
DECISIONS_A_GAME = 26  # on average, and with some to spare
FIRST_ROUNDS = 3  # played by the heuristic
RANDOM_MOVES = 3  # of a hundred; 10 in the first rounds
TRACE = 0.7  # lambda: the weight of later decisions and of the outcome
MINIBATCH = 512
LEARNING_RATE = 1e-3  # at first; it falls to a hundredth
MEMORY = 0.999  # of the running mean of the weights, for a minibatch; 0.98 in the first rounds
CHECK_KEY = 2  # of the seed of the deals of the check; rounds have key 1
ABOUT = (
    "value networks of SearchAgent, trained by agents/search/train_values.py for the default rules"
)


# --- Games -------------------------------------------------------------------------------------


class Course(NamedTuple):
    """A game as the learner saw it, up to M decisions.

    Attributes:
        features: of the table after each decision, (M, F) float32.
        best: the value of the best action of each decision, (M,).
        is_best: whether it was taken, (M,).
        targets: what the value after each decision is drawn towards, (M,).
    """

    features: npt.NDArray[np.float32]
    best: npt.NDArray[np.float64]
    is_best: npt.NDArray[np.bool_]
    targets: npt.NDArray[np.float64]


@jit
def own_turn(game, rules, policy, random_moves, streams):
    """Act for the learner; the value of the best action and whether it was taken."""
    best = 0.0
    if len(policy.network.first):
        action, best = best_action(game, rules, policy.network, policy.buffers)
    else:
        action = policy_action(game, rules, policy)
    is_best = random_below(streams[1], 100) >= random_moves
    if not is_best:
        action = random_action(legal_actions(game, rules), streams[1])
    apply_action(game, rules, action)
    if game.phase == FRONT:
        draw_front(game, rules, sample_front(game, rules, streams[0]) + 1)
    return best, is_best


@jit
def play(game, rules, policy, seat, random_moves, streams, course):
    """Play a game with the learner on a seat; its share, its decisions, and the states it left."""
    decisions = states = 0
    deal(game, rules, streams[0])
    while game.phase == DECISION:
        if game.seat == seat:
            best, is_best = own_turn(game, rules, policy, random_moves, streams)
            if decisions < len(course.best):
                course.best[decisions], course.is_best[decisions] = best, is_best
                decisions += 1
                if game.phase != OVER:
                    write_features(game, rules, seat, course.features[states])
                    states += 1
        else:
            apply_action(game, rules, reference_action(game, rules))
        run_chance(game, rules, streams[0])
    return final_share(game, rules, seat, policy.buffers.payoffs), decisions, states


@jit
def write_targets(share, decisions, states, is_first, course):
    """Watkins: what the value of each state is drawn towards, from the last one on."""
    target = share
    for k in range(decisions - 1, -1, -1):
        if k < states:
            course.targets[k] = target
        if not is_first:
            trace = TRACE if course.is_best[k] else 0.0
            target = (1 - trace) * course.best[k] + trace * target


@jit
def play_games(counters, rules, policy, random_moves, features, targets, shares):
    """Play games, the learner on each seat in turn; how many states they gave.

    Args:
        counters: (games,) uint64: where the stream of each game begins.
        rules: (1,) RULES.
        policy: the learner's Policy; while it has no network, outcomes alone count.
        random_moves: how many of a hundred.
        features, targets: (N, F) and (N,) float32 to write; when they are full, no more is kept.
        shares: (games,) to write: the learner's share of each win.
    """
    games, streams = np.zeros(1, GAME), np.zeros(2, STREAM)
    course = Course(
        np.zeros((MOST_DECISIONS, features.shape[1]), np.float32),
        np.zeros(MOST_DECISIONS),
        np.zeros(MOST_DECISIONS, np.bool_),
        np.zeros(MOST_DECISIONS),
    )
    number = 0
    for i in range(len(counters)):
        streams[0].counter = counters[i]
        streams[1].counter = ~counters[i]
        seat = i % rules[0].num_players
        shares[i], decisions, states = play(
            games[0], rules[0], policy, seat, random_moves, streams, course
        )
        write_targets(shares[i], decisions, states, len(policy.network.first) == 0, course)
        states = min(states, len(targets) - number)
        features[number : number + states] = course.features[:states]
        targets[number : number + states] = course.targets[:states]
        number += states
    return number


def played(
    num_players: int,
    network: Network,
    counters: npt.NDArray[np.uint64],
    random_moves: int,
    per_game: int = DECISIONS_A_GAME,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """`play_games` of the default rules: features (S, F), targets (S,) and shares (games,)."""
    features = np.zeros((len(counters) * per_game, num_features(num_players)), np.float32)
    targets, shares = np.zeros(len(features), np.float32), np.zeros(len(counters))
    parameters = parameters_by_players()[num_players : num_players + 1]
    policy = Policy(parameters, network, buffers_for(num_players))
    rules = Variant(num_players=num_players).rules
    number = play_games(counters, rules, policy, random_moves, features, targets, shares)
    return features[:number], targets[:number], shares


# --- Learning ----------------------------------------------------------------------------------


def torch_network(num_players: int, seed: int) -> Any:
    """An untrained network of torch with the shapes of `Network`."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    first, second = HIDDEN
    return torch.nn.Sequential(
        torch.nn.Linear(num_features(num_players), first),
        torch.nn.ReLU(),
        torch.nn.Linear(first, second),
        torch.nn.ReLU(),
        torch.nn.Linear(second, 1),
    )


def as_network(model: Any) -> Network:
    """The weights of a network of torch."""
    arrays = [weights.detach().numpy().T for weights in model.parameters()]
    return Network(*(np.ascontiguousarray(array, np.float32) for array in arrays))


def rounds(num_players: int, number: int, games: int, seed: int) -> Iterator[tuple[Network, float]]:
    """The mean network after each round, and the learner's share of the win in it."""
    import torch
    from torch.optim.swa_utils import AveragedModel

    model = torch_network(num_players, seed)
    memory = {"now": 0.98}
    mean = AveragedModel(
        model, avg_fn=lambda old, new, _: memory["now"] * old + (1 - memory["now"]) * new
    )
    optimizer = torch.optim.Adam(model.parameters())
    loss = torch.nn.BCEWithLogitsLoss()
    rng = np.random.default_rng(seed)
    network = no_network()
    for one in range(number):
        counters = streams_of(seed_of(seed, 1, one), games)
        is_first = one < FIRST_ROUNDS
        features, values, shares = played(
            num_players, network, counters, 10 if is_first else RANDOM_MOVES
        )
        memory["now"] = 0.98 if one < 2 * FIRST_ROUNDS else MEMORY
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1.01 - one / number)
        for _ in range(2 if is_first else 1):
            order = rng.permutation(len(values))
            for start in range(0, len(values) - MINIBATCH + 1, MINIBATCH):
                rows = order[start : start + MINIBATCH]
                optimizer.zero_grad()
                outputs = model(torch.from_numpy(features[rows])).squeeze(1)
                loss(outputs, torch.from_numpy(values[rows])).backward()
                optimizer.step()
                mean.update_parameters(model)
        if one + 1 >= FIRST_ROUNDS:
            network = as_network(mean.module)
        yield as_network(mean.module), float(shares.mean())


def train(num_players: int, number: int, games: int, seed: int) -> tuple[Network | None, int]:
    """The trained network and how many rounds it had; Ctrl-C ends it early."""
    found, done, begin = None, 0, time.monotonic()
    try:
        for network, share in rounds(num_players, number, games, seed):
            found, done = network, done + 1
            left = (time.monotonic() - begin) / done * (number - done)
            print(f"round {done}/{number}: share {share:.4f}, about {left:.0f} s left", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted after {done} rounds; what they found is kept", flush=True)
    return found, done


def check(network: Network, num_players: int, games: int, seed: int) -> dict[str, Any] | None:
    """The share of the win of the network by itself, with its 95 % interval; None on Ctrl-C."""
    deals = seed_of(seed, CHECK_KEY)
    try:
        shares = played(num_players, network, streams_of(deals, games), 0, per_game=0)[2]
    except KeyboardInterrupt:
        print("interrupted; what was found is kept without a check", flush=True)
        return None
    margin = NORMAL_95 * shares.std() / np.sqrt(games)
    figures = (shares.mean(), shares.mean() - margin, shares.mean() + margin)
    named = zip(("share", "low", "high"), (round(float(one), 4) for one in figures), strict=True)
    return {"games": games, "seed": deals, "against": "reference", **dict(named)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        prog="python -m agents.search.train_values",
        description="Train the search's value network; Ctrl-C keeps what was found.",
        epilog="example: python -m agents.search.train_values --num-players 2",
    )
    parser.add_argument("--num-players", type=int, default=2, choices=range(2, 7))
    for name, value, low, meaning in (
        ("--rounds", 80, 1, "of games and learning (%(default)s)"),
        ("--games", 20_000, 1_000, "of a round (%(default)s)"),
        ("--check-games", 100_000, 2, "of the final check (%(default)s)"),
        ("--seed", 0, 0, "of weights, deals and dice (%(default)s)"),
    ):
        parser.add_argument(name, type=at_least(low), default=value, help=meaning)
    parser.add_argument("--out", type=Path, default=DIRECTORY, help="default: %(default)s")
    options = parser.parse_args(arguments)
    file, summary = network_file(options.num_players, options.out), options.out / "values.json"
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        checked_output(file, "--out")
        checked_output(summary, "--out")
        read_entries(summary)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    network, done = train(options.num_players, options.rounds, options.games, options.seed)
    if network is None:
        print("nothing was found; the files stay as they are")
        return INTERRUPTED
    entry = {
        "training": f"python -m agents.search.train_values --num-players {options.num_players} "
        f"--rounds {options.rounds} --games {options.games} --seed {options.seed}",
        "rounds": done,
        "check": check(network, options.num_players, options.check_games, options.seed),
    }
    with replacing(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **network._asdict())
    write_entry(summary, ABOUT, options.num_players, entry)
    print(json.dumps(entry, indent=2))
    return 0 if entry["check"] and done == options.rounds else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

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
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.heuristics.heuristic import load_parameters
from agents.heuristics.policies import heuristic_action, parameters_record, reference_action
from agents.heuristics.tune import at_least, say, seed_of
from agents.search.values import (
    DIRECTORY,
    HIDDEN,
    Network,
    best_action,
    final_share,
    network_file,
    no_network,
    num_features,
    room_for,
    write_features,
)
from alles_kaese_env.command_line import Parser
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.loops import (
    deal,
    random_action,
)
from alles_kaese_env.core.records import (
    DECISION,
    FRONT,
    GAME,
    OVER,
    STREAM,
)
from alles_kaese_env.core.rules import (
    apply_action,
    draw_front,
    legal_actions,
    run_chance,
    sample_front,
)
from alles_kaese_env.core.streams import (
    random_below,
)
from alles_kaese_env.files import replacing
from alles_kaese_env.seeding import streams_of
from alles_kaese_env.variant import Variant

MOST_DECISIONS = 100  # of a seat that are learned from, in one game
ROOM_FOR_DECISIONS = 26  # a game, on average
FIRST_ROUNDS = 3  # played by the heuristic
RANDOM_MOVES = 3  # of a hundred; 10 in the first rounds
TRACE = 0.7  # lambda: the weight of later decisions and of the outcome
MINIBATCH = 512
LEARNING_RATE = 1e-3  # at first; it falls to a hundredth
MEMORY = 0.999  # of the running mean of the weights, for a minibatch; 0.98 in the first rounds
CHECK_KEY = 2  # of the seed of the deals of the check; rounds have key 1


# --- Games -------------------------------------------------------------------------------------


@jit
def own_turn(game, rules, parameters, network, room, random_moves, streams):
    """Act for the learner; the value of the best action and whether it was taken."""
    if len(network.first) == 0:
        action, best = heuristic_action(game, rules, parameters, room.payoffs[0]), 0.0
    else:
        action, best = best_action(game, rules, network, room)
    is_best = random_below(streams[1], 100) >= random_moves
    if not is_best:
        action = random_action(legal_actions(game, rules), streams[1])
    apply_action(game, rules, action)
    if game.phase == FRONT:
        draw_front(game, rules, sample_front(game, rules, streams[0]) + 1)
    return best, is_best


@jit
def play(game, rules, parameters, network, room, seat, random_moves, streams, seen, bests, kept):
    """Play a game with the learner on a seat; its share, its decisions, and the states it left.

    Args:
        seen: (M, F) float32 to write: the features of the table after each decision.
        bests, kept: (M,) to write: of each decision the best value, and whether it was followed.
    """
    decisions = states = 0
    deal(game, rules, streams[0])
    while game.phase == DECISION:
        if game.seat == seat:
            best, is_best = own_turn(game, rules, parameters, network, room, random_moves, streams)
            if decisions < len(bests):
                bests[decisions], kept[decisions] = best, is_best
                decisions += 1
                if game.phase != OVER:
                    write_features(game, rules, seat, seen[states])
                    states += 1
        else:
            apply_action(game, rules, reference_action(game, rules))
        run_chance(game, rules, streams[0])
    return final_share(game, rules, seat, room.payoffs), decisions, states


@jit
def targets(share, decisions, states, bests, kept, is_first, out):
    """Watkins: what each state is drawn towards, from the last one on; ``out`` is (M,)."""
    target = share
    for k in range(decisions - 1, -1, -1):
        if k < states:
            out[k] = target
        if not is_first:
            trace = TRACE if kept[k] else 0.0
            target = (1 - trace) * bests[k] + trace * target


@jit
def play_games(
    counters, rules, parameters, network, room, random_moves, is_first, features, values, shares
):
    """Play games, the learner on each seat in turn; how many states they gave.

    Args:
        counters: (games,) uint64: where the stream of each game begins.
        rules, parameters: (1,) RULES and (1,) PARAMETERS.
        network, room: a Network and a Room.
        random_moves: how many of a hundred.
        is_first: whether the network knows nothing yet, so that outcomes alone count.
        features, values: (N, F) and (N,) float32 to write; when they are full, no more is kept.
        shares: (games,) to write: the learner's share of each win.
    """
    games, streams = np.zeros(1, GAME), np.zeros(2, STREAM)
    seen = np.zeros((MOST_DECISIONS, features.shape[1]), np.float32)
    bests, kept = np.zeros(MOST_DECISIONS), np.zeros(MOST_DECISIONS, np.bool_)
    wanted, number = np.zeros(MOST_DECISIONS), 0
    for i in range(len(counters)):
        streams[0].counter = counters[i]
        streams[1].counter = ~counters[i]
        seat = i % rules[0].num_players
        shares[i], decisions, states = play(
            games[0],
            rules[0],
            parameters[0],
            network,
            room,
            seat,
            random_moves,
            streams,
            seen,
            bests,
            kept,
        )
        targets(shares[i], decisions, states, bests, kept, is_first, wanted)
        states = min(states, len(values) - number)
        features[number : number + states] = seen[:states]
        values[number : number + states] = wanted[:states]
        number += states
    return number


def played(
    num_players: int,
    network: Network,
    counters: npt.NDArray[np.uint64],
    random_moves: int,
    per_game: int = ROOM_FOR_DECISIONS,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """`play_games` of the default rules: features (S, F), targets (S,) and shares (games,)."""
    features = np.zeros((len(counters) * per_game, num_features(num_players)), np.float32)
    values, shares = np.zeros(len(features), np.float32), np.zeros(len(counters))
    number = play_games(
        counters,
        Variant(num_players=num_players).rules,
        parameters_record(load_parameters()[num_players]),
        network,
        room_for(num_players),
        random_moves,
        len(network.first) == 0,
        features,
        values,
        shares,
    )
    return features[:number], values[:number], shares


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
            say(f"round {done}/{number}: share {share:.4f}, about {left:.0f} s left")
    except KeyboardInterrupt:
        say(f"interrupted after {done} rounds; what they found is kept")
    return found, done


def check(network: Network, num_players: int, games: int, seed: int) -> dict[str, Any]:
    """The share of the win of the network by itself, with its 95 % interval."""
    deals = seed_of(seed, CHECK_KEY)
    shares = played(num_players, network, streams_of(deals, games), 0, per_game=0)[2]
    margin = 1.959964 * shares.std() / np.sqrt(games)
    figures = (shares.mean(), shares.mean() - margin, shares.mean() + margin)
    named = zip(("share", "low", "high"), (round(float(one), 4) for one in figures), strict=True)
    return {"games": games, "seed": deals, "against": "reference", **dict(named)}


def write(directory: Path, num_players: int, network: Network, entry: dict[str, Any]) -> None:
    """The weights in a file of their own, and where they come from in one for all."""
    directory.mkdir(parents=True, exist_ok=True)
    with replacing(network_file(num_players, directory)) as temporary, temporary.open("wb") as file:
        np.savez(file, **network._asdict())
    path = directory / "values.json"
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    counts = content.get("num_players", {}) | {str(num_players): entry}
    content = {
        "about": "value networks of SearchAgent, trained by agents/search/train_values.py "
        "for the default rules",
        "num_players": dict(sorted(counts.items())),
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


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
    network, done = train(options.num_players, options.rounds, options.games, options.seed)
    if network is None:
        say("nothing was found; the files stay as they are")
        return 1
    entry = {
        "training": f"python -m agents.search.train_values --num-players {options.num_players} "
        f"--rounds {options.rounds} --games {options.games} --seed {options.seed}",
        "rounds": done,
        "check": check(network, options.num_players, options.check_games, options.seed),
    }
    write(options.out, options.num_players, network, entry)
    say(json.dumps(entry, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

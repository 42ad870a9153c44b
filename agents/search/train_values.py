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

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.arena.matches import interval
from agents.heuristics.heuristic import parameters_by_players
from agents.heuristics.reference import reference_action
from agents.rounds import CHECK_KEY, keep, last_of, parser_of
from agents.search import values
from agents.search.playouts import Policy, judged_action
from alles_kaese_env.command_line import INTERRUPTED, Parser
from alles_kaese_env.core import rules as game_rules
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.loops import deal, random_action
from alles_kaese_env.core.records import DECISION, FRONT, GAME, OVER, STREAM, record
from alles_kaese_env.core.streams import random_below
from alles_kaese_env.files import checked_output, read_entries, replacing
from alles_kaese_env.seeding import seed_of, streams_of
from alles_kaese_env.variant import Variant

MAX_DECISIONS = 100  # of a seat that are learned from, in one game
DECISIONS_A_GAME = 26  # on average, and with some to spare
FIRST_ROUNDS = 3  # played by the heuristic
RANDOM_MOVES = 3  # of a hundred; 10 in the first rounds
TRACE = 0.7  # lambda: the weight of later decisions and of the outcome
MINIBATCH = 512
LEARNING_RATE = 1e-3  # at first; it falls to a hundredth
MEMORY = 0.999  # of the running mean of the weights, for a minibatch; 0.98 in the first rounds
ABOUT = (
    "value networks of SearchAgent, trained by agents/search/train_values.py for the default rules"
)


# --- Games -------------------------------------------------------------------------------------


# Of a decision of the learner, the value of the best action and whether it was taken.
CHOICE = record([("best", "f8"), ("is_best", "u1")])


@jit
def own_turn(game, rules, policy, random_moves, streams):
    """Act for the learner; the value of the best action and whether it was taken."""
    action, best = judged_action(game, rules, policy)
    is_best = random_below(streams[1], 100) >= random_moves
    if not is_best:
        action = random_action(game_rules.legal_actions(game, rules), streams[1])
    game_rules.apply_action(game, rules, action)
    if game.phase == FRONT:
        game_rules.draw_front(game, rules, game_rules.sample_front(game, rules, streams[0]) + 1)
    return best, is_best


@jit
def play(game, rules, policy, seat, random_moves, streams, choices, features):
    """Play a game with the learner on a seat; its share, its decisions, and the states it left."""
    decisions = states = 0
    deal(game, rules, streams[0])
    while game.phase == DECISION:
        if game.seat == seat:
            best, is_best = own_turn(game, rules, policy, random_moves, streams)
            if decisions < len(choices):
                choices[decisions].best, choices[decisions].is_best = best, is_best
                decisions += 1
                if game.phase != OVER and states < len(features):
                    values.write_features(game, rules, seat, features[states])
                    states += 1
        else:
            game_rules.apply_action(game, rules, reference_action(game, rules))
        game_rules.run_chance(game, rules, streams[0])
    return values.final_share(game, rules, seat, policy.buffers.payoffs), decisions, states


@jit
def write_targets(share, choices, is_first, targets):
    """Watkins: what the value of each state is drawn towards, from the last one on."""
    target = share
    for k in range(len(choices) - 1, -1, -1):
        if k < len(targets):
            targets[k] = target
        if not is_first:
            trace = TRACE if choices[k].is_best else 0.0
            target = (1 - trace) * choices[k].best + trace * target


@jit
def play_games(counters, rules, policy, random_moves, features, targets, shares):
    """Play games, the learner on each seat in turn; how many states they gave.

    The streams of the games begin at ``counters``. When ``features`` (N, F) and ``targets`` (N,)
    are full, no more is kept. While the policy has no network, outcomes alone count.
    """
    games, streams = np.zeros(1, GAME), np.zeros(2, STREAM)
    choices, number = np.zeros(MAX_DECISIONS, CHOICE), 0
    for i in range(len(counters)):
        streams[0].counter = counters[i]
        streams[1].counter = ~counters[i]
        seat = i % rules[0].num_players
        shares[i], decisions, states = play(
            games[0], rules[0], policy, seat, random_moves, streams, choices, features[number:]
        )
        is_first = len(policy.network.first) == 0
        write_targets(shares[i], choices[:decisions], is_first, targets[number : number + states])
        number += states
    return number


def played(
    num_players: int,
    network: values.Network,
    counters: npt.NDArray[np.uint64],
    random_moves: int,
    per_game: int = DECISIONS_A_GAME,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """`play_games` of the default rules: features (S, F), targets (S,) and shares (games,)."""
    features = np.zeros((len(counters) * per_game, values.num_features(num_players)), np.float32)
    targets, shares = np.zeros(len(features), np.float32), np.zeros(len(counters))
    parameters = parameters_by_players()[num_players : num_players + 1]
    policy = Policy(parameters, network, values.buffers_for(num_players))
    rules = Variant(num_players=num_players).rules
    number = play_games(counters, rules, policy, random_moves, features, targets, shares)
    return features[:number], targets[:number], shares


# --- Learning ----------------------------------------------------------------------------------


Batch = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], float]


def torch_network(sizes: Sequence[int], seed: int) -> Any:
    """An untrained network of torch with so many inputs, hidden units and outputs."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    layers: list[Any] = []
    for pair in pairwise(sizes):
        layers += [torch.nn.Linear(*pair), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def as_network(model: Any) -> values.Network:
    """The weights of a network of torch."""
    arrays = [weights.detach().numpy().T for weights in model.parameters()]
    return values.Network(*(np.ascontiguousarray(array, np.float32) for array in arrays))


def rounds(
    sizes: Sequence[int], number: int, seed: int, play: Callable[[values.Network, int], Batch]
) -> Iterator[tuple[values.Network, float]]:
    """The mean network after each round, and the figure that ``play`` gave in it.

    ``play`` gets the network, in the first rounds one that judges nothing, and the number of the
    round; it returns features (S, F), targets (S,) in [0, 1] or about it, and the figure.
    """
    import torch
    from torch.optim.swa_utils import AveragedModel

    model = torch_network(sizes, seed)
    memory = {"now": 0.98}
    mean = AveragedModel(
        model, avg_fn=lambda old, new, _: memory["now"] * old + (1 - memory["now"]) * new
    )
    optimizer = torch.optim.Adam(model.parameters())
    loss = torch.nn.BCEWithLogitsLoss()
    rng = np.random.default_rng(seed)
    network = values.no_network()
    for one in range(number):
        features, targets, figure = play(network, one)
        memory["now"] = 0.98 if one < 2 * FIRST_ROUNDS else MEMORY
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1.01 - one / number)
        for _ in range(2 if one < FIRST_ROUNDS else 1):
            order = rng.permutation(len(targets))
            for rows in order[: len(order) // MINIBATCH * MINIBATCH].reshape(-1, MINIBATCH):
                optimizer.zero_grad()
                outputs = model(torch.from_numpy(features[rows])).squeeze(1)
                loss(outputs, torch.from_numpy(targets[rows])).backward()
                optimizer.step()
                mean.update_parameters(model)
        if one + 1 >= FIRST_ROUNDS:
            network = as_network(mean.module)
        yield as_network(mean.module), figure


def check(network: values.Network, num_players: int, games: int, seed: int) -> dict[str, Any]:
    """The share of the win of the network by itself, with its 95 % interval, on unseen deals."""
    deals = seed_of(seed, CHECK_KEY)
    shares = played(num_players, network, streams_of(deals, games), 0, per_game=0)[2]
    figures = zip(("share", "low", "high"), interval(shares), strict=True)
    rounded = {name: round(figure, 4) for name, figure in figures}
    return {"games": games, "seed": deals, "against": "reference", **rounded}


class Task(NamedTuple):
    """A network to train for some number of players.

    Attributes:
        name: of its files.
        about: what the file of its figures says of it.
        figure: what ``play`` tells of each round.
        sizes: inputs, hidden units and outputs.
        play: what `rounds` learns from.
        check: figures of the network on unseen deals.
    """

    name: str
    about: str
    figure: str
    sizes: Sequence[int]
    play: Callable[[values.Network, int], Batch]
    check: Callable[[values.Network], dict[str, Any]]


def train(parser: Parser, options: argparse.Namespace, task: Task) -> int:
    """Train a network, write it and its figures; returns the exit code."""
    players = options.num_players
    file = values.network_file(players, options.out, task.name)
    summary = options.out / f"{task.name}.json"
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        checked_output(file, "--out")
        checked_output(summary, "--out")
        read_entries(summary)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    learning = rounds(task.sizes, options.rounds, options.seed, task.play)
    network, done = last_of(learning, options.rounds, task.figure)
    if network is None:
        print("nothing was found; the files stay as they are")
        return INTERRUPTED
    with replacing(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **network._asdict())
    entry = {
        "training": f"{parser.prog} --num-players {players} --rounds {options.rounds} "
        f"--games {options.games} --seed {options.seed}",
        "rounds": done,
    }
    is_checked = keep(summary, task.about, players, entry, lambda: task.check(network))
    return 0 if is_checked and done == options.rounds else INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    numbers = (
        ("--rounds", 80, 1, "of games and learning"),
        ("--games", 20_000, 1_000, "of a round"),
        ("--check-games", 100_000, 2, "of the final check"),
        ("--seed", 0, 0, "of weights, deals and dice"),
    )
    what = "Train the search's value network"
    parser = parser_of("agents.search.train_values", what, numbers, values.DIRECTORY)
    options = parser.parse_args(arguments)
    players, games, seed = options.num_players, options.games, options.seed

    def play(network: values.Network, one: int) -> Batch:
        counters = streams_of(seed_of(seed, 1, one), games)
        random_moves = 10 if one < FIRST_ROUNDS else RANDOM_MOVES
        features, targets, shares = played(players, network, counters, random_moves)
        return features, targets, float(shares.mean())

    def final_check(network: values.Network) -> dict[str, Any]:
        return check(network, players, options.check_games, seed)

    sizes = values.sizes_for(players)
    return train(parser, options, Task("values", ABOUT, "share", sizes, play, final_check))


if __name__ == "__main__":
    sys.exit(main())

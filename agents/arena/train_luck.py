"""Train the value network of the luck-adjusted results for one number of players.

Example:
    python -m agents.arena.train_luck --num-players 2

Games among the compiled agents, their kinds drawn anew for each game. The first rounds learn from
results. Later ones learn from expected TD(lambda): each table before a card or a roll is drawn
towards the mean of the network over what chance can bring next, and that is corrected by how far
the network erred later in the game. With lambda = 1 it is the result minus the luck from there on.
Afterwards deals that no round has seen say by how much the luck cuts the variance.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.arena import luck
from agents.arena.luck import GREEDY, HEURISTIC, RANDOM, REFERENCE
from agents.rounds import CHECK_KEY, parser_of
from agents.search import values
from agents.search.train_values import FIRST_ROUNDS, Batch, Task, train
from alles_kaese_env.core import rules as game_rules
from alles_kaese_env.core.jit import jit
from alles_kaese_env.core.loops import random_action
from alles_kaese_env.core.records import (
    CARD,
    DECISION,
    DIE,
    GAME,
    MAX_HOLES,
    OVER,
    STREAM,
)
from alles_kaese_env.core.streams import random_below
from alles_kaese_env.seeding import seed_of, streams_of
from alles_kaese_env.variant import Variant

TABLES_A_GAME = 200  # at most; a card and a roll for each turn, and the deal
TRACE = 0.9  # lambda
FIRST_GAMES = 3  # times as many games in the first rounds, which are cheap
KINDS = (HEURISTIC,) * 4 + (REFERENCE,) * 3 + (GREEDY, RANDOM)
ABOUT = "value networks of agents/arena/luck.py, trained by agents/arena/train_luck.py"


@jit
def own_action(game, rules, judge, stream):
    """What the seat to move does."""
    if judge.models[game.seat] == RANDOM:
        return random_action(game_rules.legal_actions(game, rules), stream)
    return luck.model_action(game, rules, judge)


@jit
def play(game, rules, seat, judge, streams, features, steps):
    """Play a game; its share, and how many tables it gave.

    Of each table before a card or a roll come its ``features``, and in ``steps`` the network's
    mean over what chance can bring next and its own value.
    """
    outcomes, number = np.zeros(MAX_HOLES), 0
    game_rules.clear(game, rules)
    has_network = len(judge.network.first) > 0
    while game.phase != OVER:
        if game.phase == DECISION:
            game_rules.apply_action(game, rules, own_action(game, rules, judge, streams[1]))
            continue
        if (game.phase == CARD or game.phase == DIE) and number < len(features):
            luck.write_features(game, rules, seat, judge.models, features[number])
            if has_network:
                steps[number, 0] = luck.chance_values(game, rules, seat, judge, outcomes)
                steps[number, 1] = luck.settled_value(game, rules, seat, judge)
            number += 1
        game_rules.apply_chance(game, rules, game_rules.sample_chance(game, rules, streams[0]))
    return values.final_share(game, rules, seat, judge.payoffs), number


@jit
def write_targets(share, steps, is_first, targets):
    """What each table of a game is drawn towards, from the last one on; the share without luck."""
    error, adjusted = 0.0, 0.0
    for k in range(len(targets) - 1, -1, -1):
        targets[k] = share if is_first else steps[k, 0] + TRACE * error
        error = targets[k] - steps[k, 1]
        adjusted += steps[k, 0] - steps[k, 1]
    return adjusted + steps[0, 1]


@jit
def play_games(counters, rules, judge, kinds, features, targets, shares):
    """Play games, the seat that looks going round; how many tables they gave.

    The streams of the games begin at ``counters`` (games,); the models of their seats are drawn
    from ``kinds``. Into ``shares`` (games, 2) go the share of the seat and the same without its
    luck. While there is no network, results alone count.
    """
    games, streams = np.zeros(1, GAME), np.zeros(2, STREAM)
    steps, number = np.zeros((TABLES_A_GAME, 2)), 0
    for i in range(len(counters)):
        streams[0].counter = counters[i]
        streams[1].counter = ~counters[i]
        for seat in range(rules[0].num_players):
            judge.models[seat] = kinds[random_below(streams[1], len(kinds))]
        seat = i % rules[0].num_players
        tables = features[number : number + TABLES_A_GAME]
        share, found = play(games[0], rules[0], seat, judge, streams, tables, steps)
        some, is_first = targets[number : number + found], len(judge.network.first) == 0
        shares[i, 0] = share
        shares[i, 1] = write_targets(share, steps, is_first, some)
        number += found
    return number


def played(
    num_players: int,
    network: values.Network,
    counters: npt.NDArray[np.uint64],
    kinds: Sequence[int],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """`play_games` of the default rules: features (S, F), targets (S,) and shares (games, 2)."""
    rules = Variant(num_players=num_players).rules
    judge = luck.judge_by(network, num_players)
    size = TABLES_A_GAME * (len(counters) + 1)
    features = np.zeros((size, luck.num_features(num_players)), np.float32)
    targets, shares = np.zeros(size, np.float32), np.zeros((len(counters), 2))
    number = play_games(counters, rules, judge, np.array(kinds), features, targets, shares)
    return features[:number], targets[:number], shares


# --- The command -------------------------------------------------------------------------------


def check(network: values.Network, num_players: int, games: int, seed: int) -> dict[str, Any]:
    """The variance that is left without the luck, as a share of the whole, on unseen deals."""
    deals = seed_of(seed, CHECK_KEY)
    kinds = HEURISTIC, REFERENCE
    shares = played(num_players, network, streams_of(deals, games), kinds)[2]
    raw, left = shares.var(axis=0)
    share, adjusted = shares.mean(axis=0)
    figures = {"variance_left": round(left / raw, 4), "luck": round(share - adjusted, 4)}
    return {"games": games, "seed": deals, "among": "heuristic, reference", **figures}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    numbers = (
        ("--rounds", 40, 1, "of games and learning"),
        ("--games", 3_000, 100, "of a round"),
        ("--check-games", 10_000, 2, "of the final check"),
        ("--seed", 0, 0, "of weights, deals and dice"),
    )
    what = "Train the value network of luck-adjusted results"
    parser = parser_of("agents.arena.train_luck", what, numbers, values.DIRECTORY)
    options = parser.parse_args(arguments)
    players, seed = options.num_players, options.seed

    def play(network: values.Network, one: int) -> Batch:
        games = options.games * (FIRST_GAMES if one < FIRST_ROUNDS else 1)
        counters = streams_of(seed_of(seed, 1, one), games)
        features, targets, shares = played(players, network, counters, KINDS)
        raw, left = shares.var(axis=0)
        return features, targets, float(left / raw)

    def final_check(network: values.Network) -> dict[str, Any]:
        return check(network, players, options.check_games, seed)

    sizes = luck.num_features(players), *luck.HIDDEN, 1
    return train(parser, options, Task("luck", ABOUT, "variance left", sizes, play, final_check))


if __name__ == "__main__":
    sys.exit(main())

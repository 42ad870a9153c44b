"""The turns of a replay in words, from what its perspective knows."""

from __future__ import annotations

import numpy as np

from alles_kaese_env.actions import decode_action
from alles_kaese_env.core.records import (
    CHEESE,
    MAX_HOLES,
    PEEK,
    TRAP,
)
from alles_kaese_env.replay.game import ALL, PUBLIC, Replay
from alles_kaese_env.variant import Variant

FRONTS = {CHEESE: "cheese", TRAP: "a TRAP"}
VERBS = ("peeked at", "took", "discarded")  # by the kind of the action


def plural(number: int, word: str) -> str:
    """Such as "1 hole" and "2 holes"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def describe_perspective(replay: Replay) -> str:
    """Who sees what the replay shows."""
    if replay.perspective == PUBLIC:
        return "public view: what everybody saw"
    if replay.perspective == ALL:
        return "FULL view: the private knowledge of all seats is in it"
    seat = int(replay.perspective)
    return f"view of {replay.name_of(seat)}: its private knowledge is in it"


def describe_turn(replay: Replay, number: int) -> str:
    """A turn, counted from 0, such as "seat 0 rolled 4 and took slot 2 (4 holes): cheese"."""
    turn, before = replay.turns[number], replay.games[number]
    kind, slot = decode_action(turn.action)
    holes = plural(int(before["row"][slot]), "hole")
    text = f"{replay.name_of(turn.seat)} rolled {turn.die} and {VERBS[kind]} slot {slot} ({holes})"
    if turn.front in FRONTS:
        text += f": {FRONTS[turn.front]}"
    for burned in burned_cards(replay, number):
        text += f"; a {burned} is burned"
    return text


def burned_cards(replay: Replay, number: int) -> list[int]:
    """T4: holes of the cards that a turn burned."""
    turn = replay.turns[number]
    before, after = replay.games[number], replay.games[number + 1]
    gone = after["gone"].astype(int) - before["gone"].astype(int)
    kind, slot = decode_action(turn.action)
    if kind != PEEK:
        gone[int(before["row"][slot]) - 1] -= 1
    return [int(holes) + 1 for holes in np.flatnonzero(gone)]


def due(replay: Replay, position: int) -> str:
    """Who has to act on what."""
    game = replay.games[position]
    slots = [str(slot) for slot in np.flatnonzero(game["row"] == game["die"])]
    where = f"slot{'s' * (len(slots) > 1)} {', '.join(slots)}"
    match = f"a match in {where}" if slots else "no match, so a peek"
    return f"{replay.name_of(int(game['seat']))} rolls {game['die']}: {match}"


def describe_end(replay: Replay) -> str:
    """Who has won, or whose turn it is where the record stops."""
    game = replay.games[-1]
    if not replay.is_over:
        return f"the record stops where {replay.name_of(int(game['seat']))} is to act"
    payoffs = replay.payoffs()
    winners = [seat for seat, payoff in enumerate(payoffs) if payoff == max(payoffs)]
    reason = "the reserve is empty"
    for seat in range(replay.variant.num_players):
        if game["traps"][seat] >= replay.variant.trap_limit:
            reason = f"{replay.name_of(seat)} took {_last_trap(replay.variant)}"
    names = " and ".join(replay.name_of(seat) for seat in winners)
    return f"{reason}; {names} {'wins' if len(winners) == 1 else 'share the win'}"


def _last_trap(variant: Variant) -> str:
    ordinals = {1: "a trap", 2: "a second trap", 3: "a third trap"}
    return ordinals.get(variant.trap_limit, f"trap number {variant.trap_limit}")


def trap_chances(replay: Replay, position: int) -> list[float]:
    """I4: the probability of a trap in each slot, as far as the perspective knows, 0 if empty."""
    game = replay.games[position]
    left = replay.variant.rules[0]["fronts"] - game["drawn"].astype(int)
    cheese, traps = left.reshape(2, MAX_HOLES)
    share = traps / np.maximum(cheese + traps, 1)
    return [float(share[holes - 1]) if holes else 0.0 for holes in game["row"].tolist()]


def discarded_cards(replay: Replay, position: int) -> list[int]:
    """How many cards of 1, 2, ... holes lie on the discard pile."""
    game = replay.games[position]
    taken = game["taken"].sum(axis=0, dtype=int).reshape(2, MAX_HOLES).sum(axis=0)
    return (game["gone"] - taken)[: replay.variant.num_holes].tolist()

"""What an observer sees of a game at one time: the source of text, pictures and pages.

There are three perspectives, as in a replay: a seat sees what is public and the fronts that it
peeked at (I2), "public" sees what everybody sees (I1), and "all" every front that anybody has
seen. What follows from the rules comes from the rules and the observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.records import GAME, MAX_PLAYERS, NO_ACTION, OVER, UNSEEN
from alles_kaese_env.core.rules import last_mover, matching_slots, standing, winners
from alles_kaese_env.observation import OBSERVATION
from alles_kaese_env.replay.game import ALL, PUBLIC, Perspective, Replay, Turn, observation_of
from alles_kaese_env.variant import Variant

SEATS = range(MAX_PLAYERS)


@dataclass(frozen=True)
class View:
    """A game as an observer sees it; counts by holes begin with one hole.

    Attributes:
        variant: the rules of the game.
        perspective: a seat, "public" or "all".
        row: holes of the card in each slot, 0 for none.
        front: of the card in each slot, as far as the observer knows it.
        trap_probability: of the card in each slot (I4), 0 for an empty slot.
        peeked: which seats peeked at the card in each slot (T3).
        matching: the slots whose cards show the number of the die (T5).
        die: the last roll, 0 before the first.
        top: holes on top of the reserve, 0 for none.
        reserve: cards in the reserve.
        discarded: cards on the discard pile, by holes.
        points, cheese, traps: what each seat has taken.
        taken: cards of each seat, (cheese by holes, traps by holes).
        turn: whose turn it is, None when the game is over.
        winners: empty while the game goes on.
        loser: the seat that has lost by its last trap (E1), if there is one.
        turns: those up to now, or only the last of them.
        names: of the players, for people; empty, or one for each seat.
    """

    variant: Variant
    perspective: Perspective
    row: tuple[int, ...]
    front: tuple[int, ...]
    trap_probability: tuple[float, ...]
    peeked: tuple[tuple[int, ...], ...]
    matching: tuple[int, ...]
    die: int
    top: int
    reserve: int
    discarded: tuple[int, ...]
    points: tuple[int, ...]
    cheese: tuple[int, ...]
    traps: tuple[int, ...]
    taken: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    turn: int | None
    winners: tuple[int, ...] = ()
    loser: int | None = None
    turns: tuple[Turn, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def seats(self) -> range:
        """All seats."""
        return range(self.variant.num_players)

    def name_of(self, seat: int) -> str:
        """What to call a seat."""
        return self.names[seat] if self.names else f"seat {seat}"


def view_of(
    game: Any,
    variant: Variant,
    perspective: Perspective = PUBLIC,
    turns: Sequence[Turn] = (),
    names: Sequence[str] = (),
) -> View:
    """The game of a record as an observer sees it.

    Args:
        game: a record of `GAME`, also one that holds no more than the perspective knows.
        variant: the rules of the game.
        perspective: a seat, "public" or "all"; checked by the caller.
        turns: those up to now; by default the last one, without what it showed.
        names: of the players, for people.
    """
    seen, seat = _seen_by(game, perspective)
    view = view_of_observation(observation_of(seen, variant, seat), variant, seat)
    rules = variant.rules[0]
    is_over = game["phase"] == OVER
    losers = [s for s in view.seats if is_over and standing(seen, rules, s) < 0]
    if not turns and game["action"] != NO_ACTION:
        turns = [Turn(int(last_mover(game, rules)), int(game["action"]))]
    return replace(
        view,
        perspective=perspective,
        peeked=tuple(_places(bits) for bits in game["peeked"][: variant.row_size]),
        winners=_places(winners(seen, rules)) if is_over else (),
        loser=losers[0] if losers else None,
        turns=tuple(turns),
        names=tuple(names),
    )


def view_of_observation(observation: npt.ArrayLike, variant: Variant, seat: int) -> View:
    """The game as a seat knows it from its observation (253,): without turns and winners.

    Raises:
        ValueError: the observation has another shape or was made with other players.
    """
    facts = OBSERVATION.facts(observation, variant)
    players, slots, holes = variant.num_players, variant.row_size, variant.num_holes
    turn = facts["turn"]
    by_seat = (np.arange(players) - seat) % players  # the places of seats 0, 1, ...
    knows = facts["front"][:, None] != UNSEEN
    peeked = np.concatenate([knows, facts["opponent_peeks"]], axis=1)[:, by_seat]
    taken = facts["taken"][by_seat, :, :holes]
    gone = facts["gone"][:holes]
    return View(
        variant=variant,
        perspective=seat,
        row=_whole(facts["row"][:slots]),
        front=_whole(facts["front"][:slots]),
        trap_probability=tuple(facts["trap_probability"][:slots].tolist()),
        peeked=tuple(_whole(np.flatnonzero(seats)) for seats in peeked[:slots]),
        matching=_matching(facts["row"], facts["die"]),
        die=facts["die"],
        top=facts["top"],
        reserve=facts["reserve"],
        discarded=_whole(gone - taken.sum(axis=(0, 1))),
        points=_whole(facts["points"][by_seat]),
        cheese=_whole(facts["cheese"][by_seat]),
        traps=_whole(facts["traps"][by_seat]),
        taken=tuple((_whole(cheese), _whole(traps)) for cheese, traps in taken),
        turn=None if turn is None else (turn + seat) % players,
    )


def view_of_replay(replay: Replay, position: int = -1) -> View:
    """The game of a replay at a position, by default its last one."""
    position %= len(replay)
    game, turns = replay.games[position], replay.turns[:position]
    return view_of(game, replay.variant, replay.perspective, turns, replay.names)


def _seen_by(game: Any, perspective: Perspective) -> tuple[Any, int]:
    """A copy of a record and the seat that knows there what the perspective knows."""
    seen = game.copy()
    if not isinstance(perspective, str):
        return seen, perspective
    is_all = perspective == ALL
    seen["known"][0] = game["drawn"] if is_all else game["taken"].sum(axis=0)
    seen["peeked"] = (game["peeked"] & ~np.uint8(1)) | (is_all & (game["front"] != UNSEEN))
    return seen, 0


def _matching(row: npt.NDArray[np.int64], die: int) -> tuple[int, ...]:
    """T5, for what an observation tells."""
    if die == 0:
        return ()
    game = np.zeros(1, GAME)[0]
    game["row"], game["die"] = row, die
    return _places(matching_slots(game))


def _places(bits: Any) -> tuple[int, ...]:
    """Where bits are set: seats or slots."""
    return tuple(place for place in SEATS if int(bits) >> place & 1)


def _whole(numbers: npt.NDArray[Any]) -> tuple[int, ...]:
    return tuple(numbers.astype(np.int64).tolist())

"""What an observer may see of a table at one instant: all that text and pictures are made from.

Three perspectives, as in a replay: a seat sees what is public and the fronts that it peeked at
(I2), "public" what everybody sees (I1), and "all", only when asked for by name, every front that
anybody has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.actions import decode_action
from alles_kaese_env.core.loops import (
    observe_games,
)
from alles_kaese_env.core.observe import (
    OBSERVATION_RECORD,
)
from alles_kaese_env.core.records import (
    GAME,
    MAX_HOLES,
    MAX_PLAYERS,
    NO_ACTION,
    OVER,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.core.rules import (
    write_payoffs,
)
from alles_kaese_env.observation import OBSERVATION
from alles_kaese_env.replay.game import ALL, PUBLIC, Perspective, Replay
from alles_kaese_env.variant import Variant

SCORES = ("points", "cheese", "traps")


@dataclass(frozen=True)
class Event:
    """A turn as an observer saw it.

    Attributes:
        seat: who acted.
        kind: PEEK, TAKE or DISCARD.
        slot: at which slot.
        holes: of the card that stood there, 0 if not told.
        front: of that card, as far as the observer knows it: UNSEEN, CHEESE or TRAP.
    """

    seat: int
    kind: int
    slot: int
    holes: int = 0
    front: int = UNSEEN


@dataclass(frozen=True)
class View:
    """A table as an observer sees it; counts by holes begin with one hole.

    Attributes:
        perspective: a seat, "public" or "all".
        num_players: how many seats there are.
        num_holes: how many hole counts there are.
        trap_limit: the trap that loses (E1).
        row: holes of the card in each slot, 0 for none.
        front: of the card in each slot, as far as the observer knows it.
        trap_probability: of the card in each slot (I4), 0 for an empty slot.
        peeked: which seats peeked at the card in each slot (T3).
        die: face of the last roll, 0 before the first.
        top: holes on top of the reserve, 0 for none.
        reserve: cards in the reserve.
        discarded: cards on the discard pile, by holes.
        points, cheese, traps: what each seat has taken.
        taken: cards of each seat, (cheese by holes, traps by holes).
        turn: whose turn it is, None when the game is over.
        winners: who has won, empty while the game goes on.
        events: turns up to now, the last of them the latest; at least that one, if there is one.
        names: of the seats, for people; empty, or one for each.
    """

    perspective: Perspective
    num_players: int
    num_holes: int
    trap_limit: int
    row: tuple[int, ...]
    front: tuple[int, ...]
    trap_probability: tuple[float, ...]
    peeked: tuple[tuple[int, ...], ...]
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
    events: tuple[Event, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def matching(self) -> tuple[int, ...]:
        """The slots whose cards show the number of the die (T5)."""
        return tuple(slot for slot, holes in enumerate(self.row) if holes and holes == self.die)

    def name_of(self, seat: int) -> str:
        """What to call a seat."""
        return self.names[seat] if self.names else f"seat {seat}"


def view_of(
    game: Any,
    variant: Variant,
    perspective: Perspective = PUBLIC,
    events: Iterable[Event] = (),
    names: Sequence[str] = (),
) -> View:
    """The table of a record as an observer sees it.

    A seat's private knowledge is read from its observation, everything else from the public
    fields of the record; only "all" reads the fronts that others know.

    Args:
        game: a record of `GAME`, also one that holds no more than the perspective knows.
        variant: the rules of the game.
        perspective: a seat, "public" or "all"; checked by the caller.
        events: turns up to now; by default the last one, without what it showed.
        names: of the seats, for people.
    """
    is_over = game["phase"] == OVER
    turns = tuple(events) or last_event(game, variant)
    winners = _winners(game, variant) if is_over else ()
    if perspective not in (PUBLIC, ALL):
        assert not isinstance(perspective, str)
        seen = np.zeros(1, OBSERVATION_RECORD)
        seats = np.array([perspective], np.int64)
        observe_games(np.array([game], GAME), variant.rules, seats, seen)
        observation = seen.view(np.float32).reshape(-1)
        view = view_of_observation(observation, variant, perspective)
        return replace(view, winners=winners, events=turns, names=tuple(names))
    front, probability = _fronts(game, variant, perspective)
    return _view(
        variant,
        perspective,
        fields={name: game[name] for name in ("row", "die", "top", "reserve", "gone", *SCORES)},
        front=front,
        trap_probability=probability,
        peeked=[
            [s for s in range(variant.num_players) if bits >> s & 1] for bits in game["peeked"]
        ],
        taken=game["taken"].reshape(MAX_PLAYERS, 2, MAX_HOLES),
        turn=None if is_over else int(game["seat"]),
        winners=winners,
        events=turns,
        names=tuple(names),
    )


def view_of_observation(observation: npt.ArrayLike, variant: Variant, seat: int) -> View:
    """The table as a seat knows it from its observation (253,): without events and winners.

    Raises:
        ValueError: the observation has another shape or was made with other players.
    """
    facts = OBSERVATION.facts(observation, variant)
    players = variant.num_players
    turn = facts["turn"]
    by_seat = (np.arange(players) - seat) % players  # the places of seats 0, 1, ...
    others = [
        sorted((seat + 1 + k) % players for k in np.flatnonzero(bits).tolist())
        for bits in facts["opponent_peeks"]
    ]
    fields = {name: facts[name] for name in ("row", "die", "top", "reserve", "gone")}
    return _view(
        variant,
        seat,
        fields={**fields, **{name: facts[name][by_seat] for name in SCORES}},
        front=facts["front"],
        trap_probability=facts["trap_probability"],
        peeked=[
            sorted([*seats, seat]) if front != UNSEEN else seats
            for seats, front in zip(others, facts["front"], strict=True)
        ],
        taken=facts["taken"][by_seat],
        turn=None if turn is None else (turn + seat) % players,
    )


def _view(
    variant: Variant,
    perspective: Perspective,
    *,
    fields: dict[str, Any],
    front: npt.NDArray[Any],
    trap_probability: npt.NDArray[Any],
    peeked: Sequence[Sequence[int]],
    taken: npt.NDArray[Any],
    **told: Any,
) -> View:
    """A view of arrays by seat, slot and hole count, cut to the size of the variant."""
    seats, slots, holes = range(variant.num_players), variant.row_size, variant.num_holes
    taken = taken.astype(int)
    return View(
        perspective=perspective,
        num_players=len(seats),
        num_holes=holes,
        trap_limit=variant.trap_limit,
        row=_whole(fields["row"][:slots]),
        front=_whole(front[:slots]),
        trap_probability=tuple(float(share) for share in trap_probability[:slots]),
        peeked=tuple(tuple(seen) for seen in peeked[:slots]),
        die=int(fields["die"]),
        top=int(fields["top"]),
        reserve=int(fields["reserve"]),
        discarded=_whole((fields["gone"].astype(int) - taken.sum(axis=(0, 1)))[:holes]),
        points=_whole(fields["points"][: len(seats)]),
        cheese=_whole(fields["cheese"][: len(seats)]),
        traps=_whole(fields["traps"][: len(seats)]),
        taken=tuple((_whole(taken[s, 0, :holes]), _whole(taken[s, 1, :holes])) for s in seats),
        **told,
    )


def last_event(game: Any, variant: Variant) -> tuple[Event, ...]:
    """The last turn of a record: who did what where; nothing before the first."""
    if game["action"] == NO_ACTION:
        return ()
    kind, slot = decode_action(int(game["action"]))
    # The seat stays with who ended the game, and has gone on after any other turn.
    back = 0 if game["phase"] == OVER else 1
    return (Event((int(game["seat"]) - back) % variant.num_players, kind, slot),)


def events_of(replay: Replay, position: int | None = None) -> tuple[Event, ...]:
    """The turns up to a position of a replay, by default its last, as its perspective saw them."""
    events = []
    for turn, game in zip(replay.turns[:position], replay.games, strict=False):
        kind, slot = decode_action(turn.action)
        holes = int(game["row"][slot])
        events.append(Event(turn.seat, kind, slot, holes, int(turn.front)))
    return tuple(events)


def view_of_replay(replay: Replay, position: int = -1) -> View:
    """The table of a replay at a position, by default its last one."""
    position %= len(replay)
    return view_of(
        replay.games[position],
        replay.variant,
        replay.perspective,
        events_of(replay, position),
        replay.names,
    )


def _fronts(
    game: Any, variant: Variant, perspective: Perspective
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Fronts in the row and trap probabilities (I4) as everybody knows them, or as "all" do."""
    front = game["front"] if perspective == ALL else np.zeros_like(game["front"])
    known = game["drawn"] if perspective == ALL else game["taken"].sum(axis=0)
    cheese, traps = (variant.rules["fronts"][0] - known).reshape(2, MAX_HOLES)
    share = traps / np.maximum(cheese + traps, 1)
    unseen = np.where(game["row"] > 0, share[game["row"].astype(int) - 1], 0)
    return front, np.where(front == UNSEEN, unseen, front == TRAP)


def _winners(game: Any, variant: Variant) -> tuple[int, ...]:
    """P2 to P4, as the payoffs of the engine say it."""
    payoffs = np.zeros((1, variant.num_players))
    write_payoffs(np.array([game], GAME)[0], variant.rules[0], payoffs, 0)
    return _whole(np.flatnonzero(payoffs[0] == payoffs[0].max()))


def _whole(numbers: npt.NDArray[Any]) -> tuple[int, ...]:
    return tuple(numbers.astype(int).tolist())

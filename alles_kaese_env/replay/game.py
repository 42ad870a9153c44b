"""A recorded game: its events, and the table at every decision, as one perspective saw it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from alles_kaese_env.actions import decode_action, describe_action, illegal_action
from alles_kaese_env.core.loops import (
    act_games,
    chance_games,
    clear_games,
    observe_games,
)
from alles_kaese_env.core.observe import (
    OBSERVATION_RECORD,
)
from alles_kaese_env.core.records import (
    CARD,
    DECISION,
    DIE,
    FRONT,
    GAME,
    MAX_HOLES,
    NUM_ACTIONS,
    OVER,
    PEEK,
    STREAM,
    UNSEEN,
)
from alles_kaese_env.core.rules import (
    chance_weight,
    legal_actions,
    num_chance_outcomes,
    write_payoffs,
)
from alles_kaese_env.variant import Variant, whole_number

Perspective: TypeAlias = "int | str"
PUBLIC, ALL = "public", "all"
LONGEST_NAME = 40
PHASES = {
    CARD: "a card",
    DIE: "a die",
    FRONT: "a front",
    DECISION: "an action",
    OVER: "nothing, since the game is over",
}


@dataclass(frozen=True)
class Event:
    """A decision or a chance outcome.

    Attributes:
        phase: CARD, DIE, FRONT or DECISION of the engine.
        value: the chance outcome or the action; None for a front that the perspective did not see.
        where: names it in an error.
    """

    phase: int
    value: Any
    where: str = "event"


@dataclass(frozen=True)
class Turn:
    """What happened between two positions of a replay.

    Attributes:
        seat: who acted.
        die: the face that it had rolled.
        action: what it did.
        front: of the card that it was about, as far as the perspective knows it after the turn:
            UNSEEN, CHEESE or TRAP.
        cards: holes of the cards that became visible after it.
    """

    seat: int
    die: int
    action: int
    front: int
    cards: tuple[int, ...]


class Replay:
    """A game to be stepped through, as far as one perspective saw it.

    It is made by the engine's own chance phases. From the perspective "all" the records are those
    of the game, byte by byte. From another one, what it does not know stands in no record:
    ``front`` is UNSEEN, ``known`` of another seat counts all its fronts as cheese (only how many
    they are is public, T3), and ``drawn`` counts the fronts that the perspective knows.

    Args:
        variant: the rules of the game.
        events: its decisions and chance outcomes in the order of the engine, whole numbers or
            `Event`; None for a front that the perspective did not see.
        perspective: "public" for what everybody saw (I1), a seat for what that seat saw (I2), or
            "all".
        names: who sat on each seat, for people; empty, or one for each.

    Attributes:
        variant, perspective, names: as given.
        events: all of them as `Event`, a tuple.
        games: the table at each decision, then at the end or where the record stops, (N,) of
            `GAME`, read-only.
        turns: what happened between them, a tuple of N - 1 `Turn`.
        deal: holes of the cards that were visible at the first decision, the row first.

    Raises:
        ValueError: an event, the perspective or a name is not what is allowed.
    """

    def __init__(
        self,
        variant: Variant,
        events: Iterable[Event | int | None],
        *,
        perspective: Perspective = ALL,
        names: Sequence[str] = (),
    ) -> None:
        self.variant = variant
        self.perspective = checked_perspective(variant, perspective)
        self.names = checked_names(variant, names)
        walk = Walk(variant, self.perspective)
        taken, positions = [], []
        for event in walk.with_hidden_fronts(events):
            taken.append(walk.take(event))
            if walk.phase >= DECISION:
                positions.append(walk.game)
        if walk.phase < DECISION:
            raise ValueError(f"the record ends where {PHASES[walk.phase]} is due")
        self.events = tuple(taken)
        self.games = np.array(positions, GAME)
        self.games.flags.writeable = False
        self.deal, self.turns = self._read()

    def __len__(self) -> int:
        """How many positions there are."""
        return len(self.games)

    def __repr__(self) -> str:
        return f"Replay({self.variant}, {len(self.turns)} turns, {self.perspective!r})"

    @property
    def is_private(self) -> bool:
        """Whether it holds what not everybody saw."""
        return self.perspective != PUBLIC

    @property
    def is_over(self) -> bool:
        """Whether it goes to the end of the game."""
        return bool(self.games["phase"][-1] == OVER)

    def name_of(self, seat: int) -> str:
        """A seat with the name of who sat there."""
        return f"seat {seat} ({self.names[seat]})" if self.names else f"seat {seat}"

    def payoffs(self) -> list[float]:
        """RULES P5 for every seat; zeros while the game goes on."""
        payoffs = np.zeros((1, self.variant.num_players))
        if self.is_over:
            write_payoffs(self.games[-1], self.variant.rules[0], payoffs, 0)
        return [float(payoff) for payoff in payoffs[0]]

    def observation(self, position: int, seat: int) -> npt.NDArray[np.float32]:
        """What a seat knew at a position, (253,) float32.

        Raises:
            ValueError: the replay does not hold what that seat knew, or there is no such seat.
        """
        seat = whole_number("seat", seat, 0, self.variant.num_players - 1)
        if self.perspective not in (ALL, seat):
            raise ValueError(
                f"seat is {seat}, and the replay shows the perspective {self.perspective!r}; "
                f"allowed: a replay of {ALL!r} or of this seat"
            )
        views = np.zeros(1, OBSERVATION_RECORD)
        games = self.games[position][None].copy()
        observe_games(games, self.variant.rules, np.array([seat]), views)
        return views.view(np.float32).reshape(-1)

    def seen_by(self, perspective: Perspective) -> Replay:
        """The same game as another perspective saw it.

        Raises:
            ValueError: there is no such perspective, or this replay does not hold what it saw.
        """
        wanted = checked_perspective(self.variant, perspective)
        if wanted == self.perspective:
            return self
        if wanted != PUBLIC and self.perspective != ALL:
            raise ValueError(
                f"perspective is {wanted!r}, and the replay holds {self.perspective!r} only; "
                f"allowed: {self.perspective!r}, {PUBLIC!r}"
            )
        return Replay(self.variant, self._events_for(wanted), perspective=wanted, names=self.names)

    def _events_for(self, perspective: Perspective) -> Iterator[Event]:
        """The events that another perspective saw, with the same outcomes."""
        inner, outer = Walk(self.variant, self.perspective), Walk(self.variant, perspective)
        front = None
        for event in self.events:
            if event.phase == FRONT:
                front = event.value
            else:
                yield outer.take(event)
                if event.phase == DECISION:
                    front = inner.front_in(event.value) - 1
            inner.take(event)
            # A card that this replay knew already may be new to the other perspective.
            if outer.phase == FRONT and inner.phase != FRONT:
                yield outer.take(Event(FRONT, None if outer.is_hidden else front))

    def _read(self) -> tuple[tuple[int, ...], tuple[Turn, ...]]:
        """The deal and the turns, from events and records."""
        cards: list[list[int]] = [[]]  # that became visible before each decision and at the end
        actions: list[int] = []
        fronts: list[int] = []
        for event in self.events:
            if event.phase == DECISION:
                _, slot = decode_action(event.value)
                fronts.append(int(self.games["front"][len(actions), slot]))
                actions.append(int(event.value))
                cards.append([])
            elif event.phase == FRONT and event.value is not None:
                fronts[-1] = event.value + 1
            elif event.phase == CARD:
                cards[-1].append(event.value + 1)
        deal, *later = map(tuple, cards)
        told = zip(self.games[:-1], actions, fronts, later, strict=True)
        return deal, tuple(
            Turn(int(game["seat"]), int(game["die"]), action, front, after)
            for game, action, front, after in told
        )


class Walk:
    """One game, led from event to event by the engine, with no more in it than a perspective knows.

    Args:
        variant: the rules of the game.
        perspective: one that `checked_perspective` has let through.
    """

    def __init__(self, variant: Variant, perspective: Perspective) -> None:
        self._rules = variant.rules
        self._players = variant.num_players
        self._perspective = perspective
        self._row = np.zeros(1, np.int64)
        self._games = np.zeros(1, GAME)
        clear_games(self._games, self._rules, self._row)

    @property
    def game(self) -> Any:
        """A copy of the record as it stands."""
        return self._games[0].copy()

    @property
    def phase(self) -> int:
        """CARD, DIE, FRONT, DECISION or OVER."""
        return int(self._games["phase"][0])

    def front_in(self, action: Any) -> int:
        """UNSEEN, CHEESE or TRAP: of the card that an action is about, before it."""
        _, slot = decode_action(action)
        return int(self._games["front"][0, slot])

    @property
    def is_hidden(self) -> bool:
        """T3: whether a front is due that is for the eyes of another seat alone."""
        game = self._games[0]
        if game["phase"] != FRONT:
            return False
        kind, _ = decode_action(int(game["action"]))
        is_mine = self._perspective in (ALL, int(game["seat"]))
        return kind == PEEK and not is_mine

    def with_hidden_fronts(
        self, events: Iterable[Event | int | None]
    ) -> Iterator[Event | int | None]:
        """The events with those fronts between them that a file leaves out."""
        for event in events:
            if isinstance(event, Event) and event.phase != FRONT and self.is_hidden:
                yield Event(FRONT, None)
            yield event
        if self.is_hidden:
            yield Event(FRONT, None)

    def take(self, event: Event | int | None) -> Event:
        """Go on by one event, after a check; it comes back with its phase.

        Raises:
            ValueError: the event is not one that may come now.
        """
        if not isinstance(event, Event):
            event = Event(self.phase, event)
        if event.phase != self.phase or self.phase == OVER:
            raise ValueError(
                f"{event.where} is {PHASES[event.phase]}; allowed now: {PHASES[self.phase]}"
            )
        if self.phase == DECISION:
            self._decide(event)
        elif self.is_hidden:
            self._pass_over_front(event)
        else:
            self._happen(event)
        return event

    def _decide(self, event: Event) -> None:
        action = whole_number(event.where, event.value, 0, NUM_ACTIONS - 1)
        legal = legal_actions(self._games[0], self._rules[0])
        if not legal >> action & 1:
            mask = np.array([legal >> k & 1 for k in range(NUM_ACTIONS)], bool)
            raise ValueError(f"{event.where}: {illegal_action(action, mask)}")
        # The engine draws nothing here, so there is no stream.
        args = self._games, np.zeros(1, STREAM), self._rules, self._row
        act_games(*args, np.array([action]), np.zeros(1, bool))
        self._blur()

    def _happen(self, event: Event) -> None:
        game, rules = self._games[0], self._rules[0]
        most = num_chance_outcomes(game, rules) - 1
        outcome = whole_number(event.where, event.value, 0, most)
        if chance_weight(game, rules, outcome) <= 0:
            raise ValueError(f"{event.where} is {self._words(outcome)}; there is none left of it")
        chance_games(self._games, self._rules, self._row, np.array([outcome]))
        self._blur()

    def _pass_over_front(self, event: Event) -> None:
        """Another seat looks: any front will do to go on, and none stays in the record."""
        if event.value is not None:
            raise ValueError(
                f"{event.where} is given; allowed: none, since "
                f"{describe_action(int(self._games['action'][0]))} was not seen from the "
                f"perspective {self._perspective!r}"
            )
        _, slot = decode_action(int(self._games["action"][0]))
        holes = int(self._games["row"][0, slot])
        drawn = self._games["drawn"][0].copy()
        weight = chance_weight(self._games[0], self._rules[0], 0)
        outcome = 0 if weight > 0 else 1
        if chance_weight(self._games[0], self._rules[0], outcome) <= 0:
            raise ValueError(f"{event.where}: all fronts of {holes} holes have been seen")
        chance_games(self._games, self._rules, self._row, np.array([outcome]))
        self._games["drawn"][0] = drawn
        self._games["front"][0, slot] = UNSEEN
        self._blur()

    def _blur(self) -> None:
        """I2: of the fronts that other seats know, leave only how many they are."""
        if self._perspective == ALL:
            return
        half = MAX_HOLES
        for seat in range(self._players):
            if seat != self._perspective:
                known = self._games["known"][0, seat]
                known[:half] += known[half:]
                known[half:] = 0

    def _words(self, outcome: int) -> str:
        if self.phase == FRONT:
            return ("cheese", "trap")[outcome]
        return str(outcome + 1)


def checked_perspective(variant: Variant, perspective: Any) -> Perspective:
    """`perspective`, if it is "public", "all" or a seat.

    Raises:
        ValueError: it is not.
    """
    if isinstance(perspective, str) and perspective in (PUBLIC, ALL):
        return perspective
    most = variant.num_players - 1
    try:
        return whole_number("perspective", perspective, 0, most)
    except ValueError:
        raise ValueError(
            f"perspective is {perspective!r}; allowed: {PUBLIC!r}, {ALL!r}, "
            f"or a seat from 0 to {most}"
        ) from None


def checked_names(variant: Variant, names: Any) -> tuple[str, ...]:
    """`names` as a tuple, if there is none or a short printable one for each seat.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(names, str) or len(names) not in (0, variant.num_players):
        raise ValueError(
            f"names is {names!r}; allowed: none, or {variant.num_players} of them, one a seat"
        )
    for seat, name in enumerate(names):
        is_text = isinstance(name, str) and name.isprintable()
        if not is_text or not 0 < len(name) <= LONGEST_NAME:
            raise ValueError(
                f"names[{seat}] is {name!r}; allowed: 1 to {LONGEST_NAME} printable characters"
            )
    return tuple(names)

"""A recorded game as one perspective saw it: its events, turns, and record at every decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from alles_kaese_env.actions import decode_action, illegal_action
from alles_kaese_env.core import rules
from alles_kaese_env.core.observe import OBSERVATION_RECORD, observe
from alles_kaese_env.core.records import (
    CARD,
    CHEESE,
    DECISION,
    DIE,
    FRONT,
    GAME,
    MAX_HOLES,
    NUM_ACTIONS,
    OVER,
    PEEK,
    UNSEEN,
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
        phase: CARD, DIE, FRONT or DECISION.
        value: the chance outcome or the action.
        where: its name in an error.
        first: the number of the first outcome: 0 in the core, 1 in a file.
    """

    phase: int
    value: Any
    where: str = "event"
    first: int = 0


@dataclass(frozen=True)
class Turn:
    """What a seat did, as far as a perspective knows it after the turn.

    Attributes:
        seat: who acted.
        action: its action.
        die: what it had rolled; 0 if unknown.
        holes: of the card that the action was about; 0 if unknown.
        front: of that card: UNSEEN, CHEESE or TRAP.
        cards: holes of the cards that became visible after the action.
        burned: holes of the card that the turn burned (T4), 0 for none.
    """

    seat: int
    action: int
    die: int = 0
    holes: int = 0
    front: int = UNSEEN
    cards: tuple[int, ...] = ()
    burned: int = 0

    @property
    def kind(self) -> int:
        """PEEK, TAKE or DISCARD."""
        return decode_action(self.action)[0]

    @property
    def slot(self) -> int:
        """The slot that the action was about."""
        return decode_action(self.action)[1]


class Replay:
    """A recorded game as one perspective saw it.

    From the perspective "all" the records are those of the game, byte by byte. From another one,
    no record holds what it does not know: ``front`` is UNSEEN, ``known`` of another seat counts
    all its fronts as cheese (only their number is public, T3), and ``drawn`` counts the fronts
    that the perspective knows.

    Args:
        variant: the rules of the game.
        events: its decisions and chance outcomes in the order of the core, whole numbers or
            `Event`, without the fronts that the perspective did not see.
        perspective: "public" for what everybody saw (I1), a seat for what that seat saw (I2), or
            "all".
        names: of the players, for people; empty, or one for each seat.

    Attributes:
        variant, perspective, names: as given.
        events: all of them as `Event`, a tuple.
        games: the record at each decision, then at the end or where the record stops, (N,) of
            `GAME`, read-only.
        turns: what happened between them, a tuple of N - 1 `Turn`.
        deal: holes of the cards that were visible at the first decision, the row first.

    Raises:
        ValueError: an event, the perspective or a name is not what is allowed.
    """

    def __init__(
        self,
        variant: Variant,
        events: Iterable[Event | int],
        *,
        perspective: Perspective = ALL,
        names: Sequence[str] = (),
    ) -> None:
        self.variant = variant
        self.perspective = checked_perspective(variant, perspective)
        self.names = checked_names(variant, names)
        observer = Observer(variant, self.perspective)
        for event in events:
            observer.take(event)
        if observer.phase < DECISION:
            raise ValueError(f"the record ends where {PHASES[observer.phase]} is due")
        self.events = tuple(observer.events)
        self.games = np.array(observer.games, GAME)
        self.games.flags.writeable = False
        self.deal = observer.deal
        self.turns = tuple(observer.turns)

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

    def payoffs(self) -> list[float]:
        """RULES P5 for every seat; zeros while the game goes on."""
        payoffs = np.zeros((1, self.variant.num_players))
        if self.is_over:
            rules.write_payoffs(self.games[-1], self.variant.rules[0], payoffs, 0)
        return payoffs[0].tolist()

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
        return observation_of(self.games[position].copy(), self.variant, seat)

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
        observer = Observer(self.variant, wanted)
        turns = iter(self.turns)
        for event in self.events:
            observer.follow(event, next(turns).front if event.phase == DECISION else UNSEEN)
        return Replay(self.variant, observer.events, perspective=wanted, names=self.names)


def observation_of(game: Any, variant: Variant, seat: int) -> npt.NDArray[np.float32]:
    """What a seat knows of the game of a record, (253,) float32."""
    observation = np.zeros(1, OBSERVATION_RECORD)
    observe(game, variant.rules[0], seat, observation[0])
    return observation.view(np.float32).reshape(-1)


def _cards_of(events: Iterable[Event]) -> tuple[int, ...]:
    """Holes of the cards that became visible."""
    return tuple(event.value + 1 for event in events if event.phase == CARD)


def _turn_of(before: Any, after: Any, events: Sequence[Event]) -> Turn:
    """The turn that led from one record to the next, by a decision and the chance after it."""
    action = int(events[0].value)
    kind, slot = decode_action(action)
    front, holes = int(before["front"][slot]), int(before["row"][slot])
    for event in events:
        if event.phase == FRONT:
            front = event.value + CHEESE
    gone = after["gone"].astype(np.int64) - before["gone"]
    gone[holes - 1] -= kind != PEEK
    burned = int(gone.argmax()) + 1 if gone.any() else 0
    seat, die = int(before["seat"]), int(before["die"])
    return Turn(seat, action, die, holes, front, _cards_of(events), burned)


class Observer:
    """A game as one perspective sees it while it goes on.

    Args:
        variant: the rules of the game.
        perspective: as of a `Replay`, checked by the caller.

    Attributes:
        events, games, turns, deal: as of a `Replay`, up to now.
    """

    def __init__(self, variant: Variant, perspective: Perspective) -> None:
        self._builder = GameBuilder(variant, perspective)
        self.events: list[Event] = []
        self.games: list[Any] = []
        self.turns: list[Turn] = []
        self.deal: tuple[int, ...] = ()
        self._step: list[Event] = []  # from the last decision on

    @property
    def phase(self) -> int:
        """CARD, DIE, FRONT, DECISION or OVER."""
        return self._builder.phase

    def take(self, given: Event | int) -> None:
        """Go on by one event that the perspective saw.

        Raises:
            ValueError: the event is not one that may come now.
        """
        event = self._builder.take(given)
        self.events.append(event)
        self._step = [event] if event.phase == DECISION else [*self._step, event]
        if self.phase >= DECISION:
            self._end_step(self._builder.game.copy())

    def _end_step(self, game: Any) -> None:
        if self.games:
            self.turns.append(_turn_of(self.games[-1], game, self._step))
        else:
            self.deal = _cards_of(self._step)
        self.games.append(game)

    def follow(self, event: Event, front: int) -> None:
        """Go on by an event of the whole game, as far as the perspective sees it.

        Args:
            event: one that an observer of everything took.
            front: of the card that a decision is about, for a perspective that has not seen it.
        """
        if event.phase != FRONT:
            self.take(event)
        if event.phase == DECISION and self.phase == FRONT:
            self.take(Event(FRONT, front - CHEESE))


class GameBuilder:
    """One game, built event by event, whose record holds no more than a perspective knows."""

    def __init__(self, variant: Variant, perspective: Perspective) -> None:
        self.game = np.zeros(1, GAME)[0]
        self._rules = variant.rules[0]
        self._perspective = perspective
        rules.clear(self.game, self._rules)

    @property
    def phase(self) -> int:
        """CARD, DIE, FRONT, DECISION or OVER."""
        return int(self.game["phase"])

    def take(self, event: Event | int) -> Event:
        """Go on by one event, after a check, and past a front that the perspective does not see.

        Returns:
            The event as the core counts it.

        Raises:
            ValueError: the event is not one that may come now.
        """
        if not isinstance(event, Event):
            event = Event(self.phase, event)
        if event.phase != self.phase or self.phase == OVER:
            raise ValueError(
                f"{event.where} is {PHASES[event.phase]}; allowed now: {PHASES[self.phase]}"
            )
        if event.phase == DECISION:
            self._decide(event)
        else:
            event = replace(event, value=self._happen(event), first=0)
        self._hide_fronts()
        return event

    def _decide(self, event: Event) -> None:
        action = whole_number(event.where, event.value, 0, NUM_ACTIONS - 1)
        legal = rules.legal_actions(self.game, self._rules)
        mask = np.array([legal >> k & 1 for k in range(NUM_ACTIONS)], bool)
        if not mask[action]:
            raise ValueError(f"{event.where}: {illegal_action(action, mask)}")
        rules.apply_action(self.game, self._rules, action)
        kind, slot = decode_action(action)
        is_seen = kind != PEEK or self._perspective in (ALL, int(self.game["seat"]))
        if self.phase != FRONT or is_seen:
            return
        # T3: another seat peeks. Any front will do to go on, and none stays in the record.
        if not any(rules.chance_weight(self.game, self._rules, k) > 0 for k in (0, 1)):
            holes = int(self.game["row"][slot])
            raise ValueError(f"{event.where}: all fronts of {holes} holes have been seen")
        self.game["front"][slot] = CHEESE
        rules.look(self.game, self._rules)
        self.game["front"][slot] = UNSEEN

    def _happen(self, event: Event) -> int:
        last = event.first + rules.num_chance_outcomes(self.game, self._rules) - 1
        outcome = whole_number(event.where, event.value, event.first, last) - event.first
        if rules.chance_weight(self.game, self._rules, outcome) <= 0:
            name = ("cheese", "trap")[outcome] if self.phase == FRONT else outcome + 1
            raise ValueError(f"{event.where} is {name}; there is none left of it")
        rules.apply_chance(self.game, self._rules, outcome)
        return outcome

    def _hide_fronts(self) -> None:
        """I2: of the fronts that other seats know, leave only how many they are."""
        if self._perspective != ALL:
            others = [s for s in range(self._rules["num_players"]) if s != self._perspective]
            known = self.game["known"]
            known[others, :MAX_HOLES] += known[others, MAX_HOLES:]
            known[others, MAX_HOLES:] = 0


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


def short_names(names: Any) -> Any:
    """Names as `checked_names` allows them; what is no list of texts is left for that check."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        return names
    printable = ("".join(c if c.isprintable() else "?" for c in name) for name in names)
    return [shortened(name, LONGEST_NAME) for name in printable]


def shortened(text: str, most: int) -> str:
    """The end of a text that is too long: of a path, it tells more than the beginning."""
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"

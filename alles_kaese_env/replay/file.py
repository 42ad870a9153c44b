"""Replays as small JSON files, in which every field is checked when they are read.

A file holds a public view unless its ``perspective`` says otherwise; ``private`` repeats that for
people. A front is in it where the perspective sees it for the first time::

    {
      "format": "alles-kaese-replay",
      "format_version": 1,
      "rules_version": 1,
      "variant": {"num_players": 2, "traps": [2, 2, 3, 3, 4, 4], ...},
      "perspective": "public",
      "private": false,
      "names": ["you", "heuristic"],
      "deal": [5, 1, 4, 4, 6, 2, 2],
      "turns": [
        {"die": 3, "action": "peek slot 4", "cards": [1]},
        {"die": 4, "action": "take slot 2", "front": "trap", "cards": [3]},
        {"die": 4}
      ]
    }

``deal`` and ``cards`` are the holes of the cards that become visible, in the order of the core.
The last turn of a game that goes on has no action yet.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from alles_kaese_env.actions import describe_action
from alles_kaese_env.core import records
from alles_kaese_env.core.records import CARD, CHEESE, DECISION, DIE, FRONT
from alles_kaese_env.files import replacing
from alles_kaese_env.replay.game import Event, Replay
from alles_kaese_env.variant import Variant

FORMAT = "alles-kaese-replay"
FORMAT_VERSION = 1
MOST_BYTES = 2**20  # some hundred times as much as a game needs
LONGEST_LINE = 300  # of an error
FRONTS = ("cheese", "trap")
ACTIONS = [describe_action(action) for action in range(records.NUM_ACTIONS)]
VERSIONS = {
    "format": FORMAT,
    "format_version": FORMAT_VERSION,
    "rules_version": records.RULES_VERSION,
}
FIELDS = (*VERSIONS, "variant", "perspective", "private", "names", "deal", "turns")
VARIANT_FIELDS = tuple(Variant.__dataclass_fields__)
TURN_FIELDS = ("die", "action", "front", "cards")


# --- Writing -------------------------------------------------------------------------------


def to_json(replay: Replay) -> str:
    """A replay as the text of a file, a line for each field and turn."""
    head = {
        **VERSIONS,
        "variant": {name: getattr(replay.variant, name) for name in VARIANT_FIELDS},
        "perspective": replay.perspective,
        "private": replay.is_private,
        "names": replay.names,
        "deal": replay.deal,
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    turns = ",\n".join(f"    {json.dumps(turn)}" for turn in _turns_of(replay))
    return "\n".join(["{", *lines, '  "turns": [', turns, "  ]", "}", ""])


def save(replay: Replay, path: str | Path) -> None:
    """Write a replay to a file, atomically.

    Raises:
        OSError: the file cannot be written.
    """
    with replacing(Path(path)) as temporary:
        temporary.write_text(to_json(replay), encoding="utf-8")


def _turns_of(replay: Replay) -> Iterator[dict[str, Any]]:
    """The turns as a file holds them."""
    for game, turn in zip(replay.games, replay.turns, strict=False):
        parts: dict[str, Any] = {"die": turn.die, "action": describe_action(turn.action)}
        if turn.front != game["front"][turn.slot]:
            parts["front"] = FRONTS[turn.front - CHEESE]
        if turn.cards:
            parts["cards"] = turn.cards
        yield parts
    if not replay.is_over:
        yield {"die": int(replay.games[-1]["die"])}


# --- Reading -------------------------------------------------------------------------------


def load(path: str | Path) -> Replay:
    """Read a replay from a file.

    Raises:
        ValueError: the file is no replay of a game that can have happened; one line says why.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as stream:
        data = stream.read(MOST_BYTES + 1)
    try:
        return from_json(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def from_json(text: str | bytes) -> Replay:
    """A replay from the text of a file.

    Raises:
        ValueError: the text is no replay of a game that can have happened; one line says why.
    """
    try:
        return _replay_of(_parse(text))
    except ValueError as error:
        raise ValueError(str(error)[:LONGEST_LINE]) from None


def _replay_of(parts: Any) -> Replay:
    _checked("the file", parts, dict)
    for name, wanted in VERSIONS.items():
        value = parts.get(name)
        if type(value) is not type(wanted) or value != wanted:
            raise ValueError(f"{name} is {reprlib.repr(value)}; allowed: {wanted!r}")
    _fields("the file", parts, FIELDS, FIELDS)
    variant = Variant(**_fields("variant", parts["variant"], VARIANT_FIELDS, VARIANT_FIELDS))
    names = _checked("names", parts["names"], list)
    events = _events(parts["deal"], parts["turns"])
    replay = Replay(variant, events, perspective=parts["perspective"], names=names)
    if parts["private"] is not replay.is_private:
        raise ValueError(
            f"private is {reprlib.repr(parts['private'])}; "
            f"allowed with perspective {replay.perspective!r}: {json.dumps(replay.is_private)}"
        )
    return replay


def _parse(text: str | bytes) -> Any:
    """JSON, of bounded size, in which no name appears twice."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"the file is too large; allowed: {MOST_BYTES} bytes")
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:  # of JSON, of its encoding, of huge numbers
        reason = str(error).splitlines()[0]
        raise ValueError(f"the file is no JSON ({reason}); allowed: a replay") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name appears twice in an object")
    return found


def _events(deal: Any, turns: Any) -> Iterator[Event]:
    """The events of a file in their order."""
    yield from _cards("deal", deal)
    for number, turn in enumerate(_checked("turns", turns, list)):
        where = f"turns[{number}]"
        is_last = number == len(turns) - 1
        parts = _fields(where, turn, TURN_FIELDS, ("die",) if is_last else ("die", "action"))
        yield Event(DIE, parts["die"], f"{where}.die", first=1)
        if "action" not in parts:
            if len(parts) > 1:
                raise ValueError(f"{where} has no action; allowed: a die alone")
            return
        action = _choice(f"{where}.action", parts["action"], ACTIONS)
        yield Event(DECISION, action, f"{where}.action")
        if "front" in parts:
            front = _choice(f"{where}.front", parts["front"], FRONTS)
            yield Event(FRONT, front, f"{where}.front")
        yield from _cards(f"{where}.cards", parts.get("cards", []))


def _cards(where: str, cards: Any) -> Iterator[Event]:
    for number, holes in enumerate(_checked(where, cards, list)):
        yield Event(CARD, holes, f"{where}[{number}]", first=1)


def _fields(where: str, value: Any, allowed: Sequence[str], needed: Sequence[str]) -> Any:
    """An object with some of these names, and with all that are needed."""
    for name in _checked(where, value, dict):
        if name not in allowed:
            raise ValueError(f"{where} has {reprlib.repr(name)}; allowed: {', '.join(allowed)}")
    for name in needed:
        if name not in value:
            raise ValueError(f"{where} has no {name}")
    return value


def _checked(where: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        allowed = "an object" if kind is dict else "a list"
        raise ValueError(f"{where} is {reprlib.repr(value)}; allowed: {allowed}")
    return value


def _choice(where: str, value: Any, allowed: Sequence[str]) -> int:
    """The number of a name."""
    if value not in allowed:
        raise ValueError(f"{where} is {reprlib.repr(value)}; allowed: {', '.join(allowed)}")
    return allowed.index(value)

"""A game and its turns in words, from a view: what the observer knows."""

from __future__ import annotations

from alles_kaese_env.core.records import TRAP, UNSEEN
from alles_kaese_env.replay.game import ALL, PUBLIC, Turn, shortened
from alles_kaese_env.variant import Variant
from alles_kaese_env.viewer.view import View

FRONTS = ("?", "cheese", "TRAP")  # UNSEEN, CHEESE, TRAP
PAST = ("peeked at", "took", "discarded")  # PEEK, TAKE, DISCARD
LONGEST_NAME = 24  # in a sentence


def plural(number: int, word: str) -> str:
    """Such as "1 hole" and "2 holes"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def cut(text: str, most: int) -> str:
    """The beginning of a text that is too long, with a sign that there was more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def describe_seat(view: View, seat: int) -> str:
    """A seat with the name of who sits there."""
    return f"seat {seat}" + (
        f" ({shortened(view.names[seat], LONGEST_NAME)})" if view.names else ""
    )


def describe_perspective(view: View) -> str:
    """Who sees what is shown."""
    if view.perspective == PUBLIC:
        return "public view: what everybody saw"
    if view.perspective == ALL:
        return "FULL view: the private knowledge of all seats is in it"
    return f"view of {describe_seat(view, int(view.perspective))}: its private knowledge is in it"


def describe_turn(view: View, turn: Turn) -> str:
    """A turn, such as "seat 0 rolled 4 and took slot 2 (4 holes): cheese"."""
    rolled = f" rolled {turn.die} and" if turn.die else ""
    text = f"{describe_seat(view, turn.seat)}{rolled} {PAST[turn.kind]} slot {turn.slot}"
    if turn.holes:
        text += f" ({plural(turn.holes, 'hole')})"
    if turn.front != UNSEEN:
        text += ": a TRAP" if turn.front == TRAP else ": cheese"
    return text + (f"; a {turn.burned} is burned" if turn.burned else "")


def describe_match(view: View) -> str:
    """T5: which slots match the die."""
    if not view.matching:
        return "no match"
    slots = ", ".join(str(slot) for slot in view.matching)
    return f"match in slot{'s' * (len(view.matching) > 1)} {slots}"


def describe_now(view: View) -> str:
    """Who has to act on what, or how the game ended."""
    if view.turn is None:
        return describe_end(view)
    match = f"a {describe_match(view)}" if view.matching else "no match, so a peek"
    return f"{describe_seat(view, view.turn)} rolls {view.die}: {match}"


def describe_end(view: View) -> str:
    """Who has won and why, or whose turn it is where the record stops."""
    if view.turn is not None:
        return f"the record stops where {describe_seat(view, view.turn)} is to act"
    reason = "the reserve is empty"
    if view.loser is not None:
        reason = f"{describe_seat(view, view.loser)} took {_last_trap(view.variant)}"
    names = " and ".join(describe_seat(view, seat) for seat in view.winners)
    return f"{reason}; {names} {'wins' if len(view.winners) == 1 else 'share the win'}"


def _last_trap(variant: Variant) -> str:
    ordinals = {1: "a trap", 2: "a second trap", 3: "a third trap"}
    return ordinals.get(variant.trap_limit, f"trap number {variant.trap_limit}")

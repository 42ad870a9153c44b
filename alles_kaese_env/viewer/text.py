"""The game and its turns as text, from a view: what the observer knows and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from alles_kaese_env.core.records import TAKE, TRAP, UNSEEN
from alles_kaese_env.replay.game import ALL, PUBLIC, Turn, shortened
from alles_kaese_env.variant import Variant
from alles_kaese_env.viewer.view import View

MOST_TURNS = 6
WIDTH = 80
FRONTS = ("?", "cheese", "TRAP")  # UNSEEN, CHEESE, TRAP
PAST = ("peeked at", "took", "discarded")  # PEEK, TAKE, DISCARD
LONGEST_NAME = 24  # in a sentence


# --- The game in lines ----------------------------------------------------------------------


def text_of(view: View) -> str:
    """The game of a view in lines of at most 80 columns, with the last turns below it."""
    seats = [_seat_line(view, seat) for seat in view.seats]
    return "\n".join([_top_line(view), *_row_lines(view), *seats, *_news_lines(view)])


def _top_line(view: View) -> str:
    match = "match" if view.matching else "no match"
    top = f", {plural(view.top, 'hole')} on top" if view.top else ""
    return f"die {view.die or '-'} ({match})   reserve {plural(view.reserve, 'card')}{top}"


def _row_lines(view: View) -> list[str]:
    seers = [
        ",".join(str(seat) for seat in _after(view, seats) if seat != view.perspective)
        for seats in view.peeked
    ]
    cells = {
        "slot": [str(slot) for slot in range(len(view.row))],
        "holes": [str(holes or "-") for holes in view.row],
        "front": [FRONTS[front] for front in view.front],
        "trap": [f"{share:.0%}" for share in view.trap_probability],
        "seen by": [text or "-" for text in seers],
    }
    return [f"{name:<8}" + "".join(f"{cell:>11}" for cell in row) for name, row in cells.items()]


def _after(view: View, seats: tuple[int, ...]) -> list[int]:
    """Seats in turn order after the observing seat."""
    first = 0 if isinstance(view.perspective, str) else view.perspective
    return sorted(seats, key=lambda seat: (seat - first) % len(view.seats))


def _seat_line(view: View, seat: int) -> str:
    marks = "> " if view.turn == seat else "* " if seat in view.winners else "  "
    you = "  (you)" if view.perspective == seat else ""
    traps, points, cheese = view.traps[seat], view.points[seat], view.cheese[seat]
    won = "  wins" if seat in view.winners else ""
    taken = f"{plural(points, 'point'):>9} on {cheese:>2} cheese, {plural(traps, 'trap')}"
    return f"{marks}seat {seat}: {taken}{you}{won}"


def _news_lines(view: View) -> list[str]:
    """What was done last, the latest first."""
    turns = [describe_turn(view, turn) for turn in reversed(view.turns[-MOST_TURNS:])]
    return [cut(f"{'last' if k == 0 else '':<8}{turn}", WIDTH) for k, turn in enumerate(turns)]


# --- Sentences -------------------------------------------------------------------------------


def plural(number: int, word: str) -> str:
    """Such as "1 hole" and "2 holes"."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def slots_in_words(slots: Sequence[int]) -> str:
    """Such as "slot 1" and "slots 1, 2"."""
    return f"slot{'s' * (len(slots) > 1)} {', '.join(map(str, slots))}"


def cut(text: str, most: int) -> str:
    """The beginning of a text that is too long, with a sign that there was more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def describe_seat(view: View, seat: int) -> str:
    """A seat with the name of its player."""
    name = f" ({shortened(view.names[seat], LONGEST_NAME)})" if view.names else ""
    return f"seat {seat}{name}"


def describe_perspective(view: View) -> str:
    """Who sees what is shown."""
    if view.perspective == PUBLIC:
        return "public view: what everybody saw"
    if view.perspective == ALL:
        return "FULL view: the private knowledge of all seats is in it"
    return f"view of {describe_seat(view, int(view.perspective))}: its private knowledge is in it"


def describe_turn(view: View, turn: Turn) -> str:
    """A turn, such as "seat 0 rolled 4 and took slot 2 (4 holes): cheese".

    A front that was not shown to everybody is told apart: "(4 holes; you know: cheese)".
    """
    rolled = f" rolled {turn.die} and" if turn.die else ""
    text = f"{describe_seat(view, turn.seat)}{rolled} {PAST[turn.kind]} slot {turn.slot}"
    is_public = turn.kind == TAKE
    if turn.holes:
        knower = "hidden" if view.perspective == ALL else "you know"
        is_hidden = turn.front != UNSEEN and not is_public
        known = f"; {knower}: {FRONTS[turn.front]}" if is_hidden else ""
        text += f" ({plural(turn.holes, 'hole')}{known})"
    if turn.front != UNSEEN and is_public:
        text += ": a TRAP" if turn.front == TRAP else ": cheese"
    return text + (f"; a {turn.burned} is burned" if turn.burned else "")


def rules_in_short(variant: Variant) -> tuple[str, ...]:
    """The game in four paragraphs, for people who have not read its rules."""
    cards = zip(variant.traps, variant.copies or (), strict=True)
    traps = ", ".join(f"{count} of {copies}" for count, copies in cards)
    burn = {
        "peek": " With 2 or 3 players, a peek also burns the top card of the reserve.",
        "turn": " Every turn also burns the top card of the reserve.",
        "never": "",
    }[variant.burn]
    return (
        f"The back of a card shows its holes, 1 to {variant.num_holes}; its front is cheese or a "
        f"trap, and nobody sees which. Traps among the cards, from 1 hole on: {traps}.",
        "Roll the die. If no card in the row shows that many holes, peek at one card: you alone "
        f"see its front, and it stays in its slot.{burn}",
        "On a match, pick one of the cards that match. Take it, cheese or trap, or discard it "
        "unseen. The top card of the reserve fills the gap.",
        "A cheese scores its holes, a trap nothing. Who takes "
        f"{describe_limit(variant.trap_limit)} has lost at once; otherwise the game ends with the "
        "reserve, and the most points win (then the most cheese cards).",
    )


def describe_limit(limit: int) -> str:
    """The trap that loses, such as "a third trap"."""
    ordinals = {1: "a trap", 2: "a second trap", 3: "a third trap"}
    return ordinals.get(limit, f"trap number {limit}")


def describe_match(view: View) -> str:
    """T5: which slots match the die."""
    return f"match in {slots_in_words(view.matching)}" if view.matching else "no match"


def describe_now(view: View) -> str:
    """Who has to act on what, or how the game ended."""
    if view.turn is None:
        return describe_end(view)
    match = f"a {describe_match(view)}" if view.matching else "no match, so a peek"
    return f"{describe_seat(view, view.turn)} rolls {view.die}: {match}"


def describe_end(view: View) -> str:
    """Who has won and why, or whose turn it is where the recording stops."""
    if view.turn is not None:
        return f"the record stops where {describe_seat(view, view.turn)} is to act"
    reason = "the reserve is empty"
    if view.loser is not None:
        trap = describe_limit(view.variant.trap_limit)
        reason = f"{describe_seat(view, view.loser)} took {trap}"
    names = " and ".join(describe_seat(view, seat) for seat in view.winners)
    return f"{reason}; {names} {'wins' if len(view.winners) == 1 else 'share the win'}"

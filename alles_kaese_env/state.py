"""Saved states: what they hold, how they are checked, and files of them.

A state is plain data: dicts, lists, numbers, texts and NumPy arrays. It holds games, random streams
and how far an episode is, and neither opponents nor scripts. A file of it is a NumPy archive
without pickle, so that loading one executes nothing; whatever is not a state that can occur is
refused, because the compiled core takes the numbers of a record as places in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.core.records import (
    CHEESE,
    DECISION,
    GAME,
    LAST_PEEKS,
    MAX_HOLES,
    MAX_PLAYERS,
    MAX_SLOTS,
    NO_ACTION,
    NUM_ACTIONS,
    NUM_FACES,
    OVER,
    RULES_VERSION,
    TRAP,
    UNSEEN,
)
from alles_kaese_env.core.rules import face_of
from alles_kaese_env.files import read_arrays, reading, replacing
from alles_kaese_env.variant import Variant

State = dict[str, Any]

VERSIONS = {"state_version": 1, "rules_version": RULES_VERSION}
PLAIN = "plain"  # the entry of a file that says where its arrays belong


def make_state(kind: str, **parts: Any) -> State:
    """A state of a kind of games, with the versions that it depends on."""
    return {"kind": kind, **VERSIONS, **parts}


def open_state(state: Any, kind: str, parts: tuple[str, ...]) -> Mapping[str, Any]:
    """The state, if it is of this kind and version and has all its parts; else `ValueError`."""
    if not isinstance(state, Mapping):
        raise ValueError(f"state is a {type(state).__name__}; allowed: a dict of get_state")
    for name, allowed in {"kind": kind, **VERSIONS}.items():
        given = state.get(name)
        if type(given) is not type(allowed) or given != allowed:
            raise ValueError(f"state has {name} {given!r}; allowed: {allowed!r}")
    for name in parts:
        if name not in state:
            raise ValueError(f"state has no {name}; allowed: a dict of get_state")
    return state


def checked_array(
    state: Mapping[str, Any], name: str, like: npt.NDArray[Any], low: float, high: float
) -> npt.NDArray[Any]:
    """An array of a state, of the type and shape of ``like``, from low to high; or `ValueError`."""
    array = state[name]
    if not isinstance(array, np.ndarray) or (array.dtype, array.shape) != (like.dtype, like.shape):
        raise ValueError(
            f"state has {name} of {_kind_of(array)}; allowed: {like.dtype} {like.shape}"
        )
    if not ((array >= low) & (array <= high)).all():  # also where it is no number
        raise ValueError(f"state has {name} beyond its bounds; allowed: {low} to {high}")
    return array


def _check_variant(fields: Any, variant: Variant) -> None:
    """Raise `ValueError` unless these are the fields of the variant."""
    try:
        given = Variant(**fields)
    except (TypeError, ValueError):
        given = None
    if given != variant:
        shown = fields if given is None else given
        raise ValueError(f"state has variant {shown}; allowed: {variant}")


def checked_games(state: Mapping[str, Any], number: int, variant: Variant) -> npt.NDArray[np.void]:
    """The records of a state, if such games of this variant can occur; else `ValueError`."""
    _check_variant(state["variant"], variant)
    games = state["games"]
    is_array = isinstance(games, np.ndarray) and games.ndim == 1
    if not is_array or games.dtype.descr != GAME.descr:
        raise ValueError(f"state has games of {_kind_of(games)}; allowed: records of the core")
    if len(games) != number:
        raise ValueError(f"state has number of games {len(games)}; allowed: {number}")
    for meaning, holds in _invariants(games, variant).items():
        wrong = np.flatnonzero(~holds.reshape(number, -1).all(axis=1))
        if len(wrong):
            raise ValueError(f"state has a game {wrong[0]} that cannot occur: {meaning}")
    return games


def checked_last_peeks(
    state: Mapping[str, Any], games: npt.NDArray[np.void]
) -> npt.NDArray[np.void]:
    """The last peeks of a state without recall, if they can be of its games; or `ValueError`."""
    if "last_peeks" not in state:
        raise ValueError("state has no last_peeks; allowed: a state of games with recall=False")
    peeks = state["last_peeks"]
    if not isinstance(peeks, np.ndarray) or peeks.dtype.descr != LAST_PEEKS.descr:
        raise ValueError(f"state has last_peeks of {_kind_of(peeks)}; allowed: records of the core")
    if peeks.shape != games.shape:
        raise ValueError(f"state has last_peeks of {peeks.shape}; allowed: {games.shape}")
    faces, slots = peeks["faces"].astype(np.int64), peeks["slots"].astype(np.int64)
    for i, seat in np.argwhere((faces > 0) | (slots > 0)):
        if not _can_show(games[i], seat, faces[i, seat], slots[i, seat]):
            raise ValueError(f"state has a last peek of seat {seat} in game {i} that cannot occur")
    return peeks


def _can_show(game: np.void, seat: int, face: int, slot: int) -> bool:
    """Whether a seat may have seen a face, and where; both are counted from 1, 0 for none."""
    if not 0 < face <= NUM_FACES or slot > MAX_SLOTS:
        return False
    if game["known"][seat, face - 1] <= game["taken"][:, face - 1].astype(np.int64).sum():
        return False
    if slot == 0:
        return True
    in_slot = face_of(int(game["front"][slot - 1]), int(game["row"][slot - 1]))
    return bool(game["peeked"][slot - 1] >> seat & 1) and in_slot == face - 1


def _invariants(games: npt.NDArray[Any], variant: Variant) -> dict[str, npt.NDArray[np.bool_]]:
    """What holds between two decisions, by its meaning; arrays (games,) or (games, ...)."""
    wide = {name: games[name].astype(np.int64) for name in GAME.names or ()}
    return {**_of_turns(wide, variant), **_of_cards(wide, variant), **_of_fronts(wide, variant)}


def _of_turns(
    game: dict[str, npt.NDArray[np.int64]], variant: Variant
) -> dict[str, npt.NDArray[np.bool_]]:
    is_over, turns, size = game["phase"] == OVER, game["turns"], variant.row_size
    losers = (game["traps"] >= variant.trap_limit).sum(axis=1)
    cards_in_row = (game["row"] > 0).sum(axis=1)
    is_numbered = [game[name].reshape(len(turns), -1) for name in ("die", "top", "row")]
    return {
        "it waits for a decision or is over": is_over | (game["phase"] == DECISION),
        "die and backs have the numbers of the variant": (
            np.column_stack(is_numbered) <= variant.num_holes
        ),
        "a die was rolled (T1)": game["die"] >= 1,
        "the row has its slots (S1)": game["row"][:, size:] == 0,
        "the row is full (T6)": cards_in_row >= size - is_over,
        "the last action is one": (game["action"] < NUM_ACTIONS)
        | ((game["action"] == NO_ACTION) & (turns == 0)),
        "seats take turns (S3)": game["seat"] == (turns - is_over) % variant.num_players,
        "burns are done (T4)": game["burn_due"] == 0,
        "it ends with a last trap or the reserve (E1, E2)": (
            is_over == ((game["reserve"] == 0) | (losers > 0))
        ),
        "one seat at most has lost by its traps (E1)": losers <= 1,
    }


def _of_cards(
    game: dict[str, npt.NDArray[np.int64]], variant: Variant
) -> dict[str, npt.NDArray[np.bool_]]:
    holes = np.arange(1, MAX_HOLES + 1)
    in_row = (game["row"][:, :, None] == holes).sum(axis=1)
    in_reserve = game["below"] + (game["top"][:, None] == holes)
    cheese, traps = np.split(game["taken"], 2, axis=2)
    return {
        "cards are conserved (C1)": in_reserve + in_row + game["gone"] == variant.rules[0].copies,
        "the reserve is its cards (S2)": game["reserve"] == in_reserve.sum(axis=1),
        "the top of the reserve is visible (S2)": (game["top"] == 0) == (game["reserve"] == 0),
        "taken cards have left the row": game["gone"] >= (cheese + traps).sum(axis=1),
        "traps are those taken": game["traps"] == traps.sum(axis=2),
        "cheese is that taken": game["cheese"] == cheese.sum(axis=2),
        "points are those taken (P1)": game["points"] == cheese @ holes,
        "nobody sits beyond the last seat": game["taken"][:, variant.num_players :] == 0,
    }


def _of_fronts(
    game: dict[str, npt.NDArray[np.int64]], variant: Variant
) -> dict[str, npt.NDArray[np.bool_]]:
    seats, players = np.arange(MAX_PLAYERS), variant.num_players
    row, front, peeked = game["row"], game["front"], game["peeked"]
    face = (front - CHEESE) * MAX_HOLES + row - 1
    seen = (front > UNSEEN)[..., None] & (face[..., None] == np.arange(NUM_FACES))
    knows = (peeked[:, None] >> seats[:, None] & 1)[..., None] & seen[:, None]
    taken = game["taken"].sum(axis=1)
    is_at_table = (seats < players)[:, None]
    least = (taken[:, None] + knows.sum(axis=2)) * is_at_table
    others_peeked = (seen[:, None] & ~knows).sum(axis=2)  # in the row, and not at by this seat
    most = (game["drawn"][:, None] - others_peeked) * is_at_table
    return {
        "a front is unseen, cheese or a trap": front <= TRAP,
        "only seats peek": peeked < 1 << players,
        "only cards have fronts": (row > 0) | (peeked == 0),
        "a front is known where somebody peeked (I4)": (front == UNSEEN) == (peeked == 0),
        "there are no more fronts than cards (C2)": game["drawn"] <= variant.rules[0].fronts,
        "known fronts were looked at (I4)": game["drawn"] >= taken + seen.sum(axis=1),
        "a seat knows what it saw (I2)": (least <= game["known"]) & (game["known"] <= most),
    }


def _kind_of(value: Any) -> str:
    is_array = isinstance(value, np.ndarray)
    return f"{value.dtype} {value.shape}" if is_array else f"type {type(value).__name__}"


# --- The generator of opponents ----------------------------------------------------------------


def generator_state(rng: np.random.Generator) -> State:
    """The state of a generator as plain numbers."""
    return dict(rng.bit_generator.state)


def set_generator_state(rng: np.random.Generator, state: Any) -> None:
    """Let a generator continue from a state; `ValueError`, and no change, if it is none."""
    trial = type(rng.bit_generator)()
    try:
        trial.state = state
        is_state = bool(trial.state == state)  # nothing was left out, cut off or added
    except (TypeError, ValueError, LookupError, OverflowError):
        is_state = False
    if not is_state:
        name = type(trial).__name__
        raise ValueError(f"state has rng {state!r}; allowed: that of a generator {name}")
    rng.bit_generator.state = state


# --- Files -------------------------------------------------------------------------------------


def save_state(file: str | os.PathLike[str], state: State) -> None:
    """Write a state of ``get_state`` to a file, atomically."""
    arrays: dict[str, npt.NDArray[Any]] = {}

    def set_aside(value: Any) -> dict[str, str]:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"state holds a {type(value).__name__}; allowed: plain data and arrays")
        name = f"array_{len(arrays)}"
        arrays[name] = value
        return {"array": name}

    plain = json.dumps(state, default=set_aside)
    with replacing(Path(file)) as temporary, open(temporary, "wb") as stream:
        header = np.frombuffer(plain.encode(), np.uint8)
        np.savez_compressed(stream, allow_pickle=False, **{PLAIN: header}, **arrays)


def load_state(file: str | os.PathLike[str]) -> State:
    """The state in a file of `save_state`; ``set_state`` then checks its contents.

    Raises:
        ValueError: the file is missing or holds no state. Nothing in it is executed.
    """
    with reading(file, "file of a state"):
        arrays = read_arrays(Path(file))

        def put_back(value: dict[str, Any]) -> Any:
            return arrays[value["array"]] if value.keys() == {"array"} else value

        state = json.loads(arrays.pop(PLAIN).tobytes(), object_hook=put_back)
        if not isinstance(state, dict):
            raise ValueError(f"it holds a {type(state).__name__}")
        return state

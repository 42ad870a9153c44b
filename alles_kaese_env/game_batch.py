"""Many games at once, where the caller controls every seat: the native API."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from alles_kaese_env.actions import as_whole_numbers, illegal_action
from alles_kaese_env.core import loops
from alles_kaese_env.core.observe import OBSERVATION_RECORD, OBSERVATION_SIZE
from alles_kaese_env.core.records import DECISION, GAME, MASK, NUM_ACTIONS, STREAM
from alles_kaese_env.replay.game import Perspective, Replay, short_names
from alles_kaese_env.replay.recorder import Recorder
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.seeding import MAX_SEED, streams_of
from alles_kaese_env.state import State, checked_array, checked_games, make_state, open_state
from alles_kaese_env.variant import Variant, whole_number

Rows = npt.NDArray[np.int64]
BYTES_A_GAME = (  # its payoffs aside: record, observation, stream, mask, three numbers, two flags
    GAME.itemsize + OBSERVATION_RECORD.itemsize + STREAM.itemsize + NUM_ACTIONS + 3 * 8 + 2
)


def as_records(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[np.void]:
    """A contiguous array (B,) or (B, n) as (B,) records over the same memory."""
    return array.view(dtype).reshape(len(array))


def check_memory(games: int, players: int) -> None:
    """Raise `ValueError` if the arrays of so many games are larger than the memory of this machine.

    Where memory is handed out before it is there, as on Linux and macOS, the system would end the
    process. Elsewhere NumPy's `MemoryError` says how much is missing.
    """
    if hasattr(os, "sysconf"):
        needed = games * (BYTES_A_GAME + np.float32().itemsize * players)
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > there:
            raise ValueError(
                f"{games} games need {needed / 1e9:,.0f} GB of memory; "
                f"allowed: as many as fit into the {there / 1e9:,.0f} GB of this machine"
            )


class GameBatch:
    """Games of one variant, stepped together.

    Game i is the same whatever the number of games and threads: it has a random stream of its
    own, which belongs to the seed and to i. A record holds no future.

    Args:
        num_games: how many games, B below.
        variant: their rules; P is its number of players.
        seed: 0 to 2^64 - 1, or None for one from the operating system.
        threads: how many threads share the work of a call. More than one pays from some
            thousand games on.
        autoreset: deal games anew in the step that ends them.
        record: write down every game for `replay`. Steps then go outcome by outcome, much slower,
            to the same games.

    Attributes (arrays of the batch, rewritten by `step`, `reset` and `set_state`; copy what you
    want to keep, and write into none of them):
        games: the records, (B,) of `GAME`. `GAME_FIELDS` says who may see what.
        streams: the random streams, (B,) uint64.
        seats: whose turn it is, (B,) int64; where a game is over, whose turn ended it.
        observations: what that seat knows, (B, 253) float32, see `OBSERVATION`.
        masks: what it may do, (B, 18) bool; all False where a game is over.
        over: which games the last step ended, (B,) bool; without autoreset, which are over.
        payoffs: RULES P5 for every seat of the games in ``over``, (B, P) float32, else 0.

    Raises:
        ValueError: an argument is not what is allowed.

    Example:
        >>> batch = GameBatch(1024, Variant(num_players=4), seed=0, autoreset=True)
        >>> for _ in range(100):
        ...     batch.step(batch.random_actions())
        >>> batch.observations.shape, batch.payoffs.shape
        ((1024, 253), (1024, 4))
    """

    def __init__(
        self,
        num_games: int,
        variant: Variant | None = None,
        *,
        seed: int | None = None,
        threads: int = 1,
        autoreset: bool = False,
        record: bool = False,
    ) -> None:
        self.num_games = whole_number("num_games", num_games, 1, 2**31 - 1)
        if variant is not None and not isinstance(variant, Variant):
            raise ValueError(f"variant is {variant!r}; allowed: a Variant, or None")
        self.variant = Variant() if variant is None else variant
        self.threads = whole_number("threads", threads, 1, 1024)
        check_memory(self.num_games, self.variant.num_players)
        self.autoreset = bool(autoreset)
        self.streams = streams_of(seed, num_games)
        self.games = np.zeros(num_games, GAME)
        self.seats = np.zeros(num_games, np.int64)
        self.observations = np.zeros((num_games, OBSERVATION_SIZE), np.float32)
        self.masks = np.zeros((num_games, NUM_ACTIONS), bool)
        self.over = np.zeros(num_games, bool)
        self.payoffs = np.zeros((num_games, self.variant.num_players), np.float32)
        self.illegal = np.zeros(num_games, bool)
        self._legal = np.zeros(num_games, np.int64)  # the masks as bits
        self.all_rows = np.arange(num_games, dtype=np.int64)
        self.script: ScriptedDeal | None = None
        self.recorder = Recorder(num_games) if record else None
        self._pool: ThreadPoolExecutor | None = None
        self._pool_pid = 0
        self._bind()
        self.reset()

    def __len__(self) -> int:
        return self.num_games

    def __repr__(self) -> str:
        return f"GameBatch({self.num_games}, {self.variant})"

    def __getstate__(self) -> dict[str, Any]:
        # Threads and views of the arrays are neither copied nor pickled.
        return {**self.__dict__, "_pool": None, "buffers": None, "arrays": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def reset(
        self,
        rows: npt.ArrayLike | None = None,
        *,
        seed: int | None = None,
        script: ScriptedDeal | None = None,
    ) -> None:
        """Deal new games.

        Args:
            rows: which games, whole numbers or a mask (B,) bool; all of them if None.
            seed: begin the streams of all games anew from this seed; None goes on with them.
            script: deal this; for a batch of one game only.

        Raises:
            ValueError: a row or the seed is not what is allowed, or a script meets many games.
        """
        if script is not None and self.num_games > 1:
            raise ValueError(f"script is given for {self.num_games} games; allowed: for 1 game")
        which = self._rows(rows)
        if seed is not None:
            self.streams[:] = streams_of(seed, self.num_games)
        self.deal(which, script)
        self.look(which)

    def step(self, actions: npt.ArrayLike, rows: npt.ArrayLike | None = None) -> None:
        """Let the seat to move of each game act, and chance happen up to the next decision.

        Args:
            actions: whole numbers from 0 to 17, one a game, or one a row of ``rows``.
            rows: which games, whole numbers or a mask (B,) bool; all of them if None.

        Raises:
            ValueError: an action is illegal or no action, or a game is over. No game is changed.
        """
        which = self._rows(rows)
        chosen = as_whole_numbers(actions, len(which))
        self.check(chosen, which)
        if not self.goes_by_outcomes:
            advance = loops.step_games
            self._share(
                which, lambda part: advance(self.arrays, which[part], chosen[part], self.autoreset)
            )
            return
        self.attempt(chosen, which)
        self.look(which)
        if self.autoreset and self.script is None:
            ended = which[self.over[which]]
            payoffs = self.payoffs[ended]  # of the games that ended, with ``over``, are kept
            self.deal(ended)
            self.look(ended)
            self.over[ended] = True
            self.payoffs[ended] = payoffs

    def random_actions(self, rows: npt.ArrayLike | None = None) -> npt.NDArray[np.int64]:
        """A random legal action for each row, drawn from the game's stream; 0 where it is over."""
        which = self._rows(rows)
        actions = np.zeros(len(which), np.int64)
        loops.random_actions(self._legal, self.buffers.streams, which, actions)
        return actions

    def observe(self, seats: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """What a seat of each game knows now, a new array (B, 253) float32.

        Args:
            seats: a seat for all games or one for each, (B,); the seat to move if None.

        Raises:
            ValueError: there is no such seat.
        """
        if seats is None:
            return self.observations.copy()
        given = np.asarray(seats)
        if given.dtype.kind not in "iu" or given.shape not in ((), (self.num_games,)):
            raise ValueError(
                f"seats is {seats!r}; allowed: a whole number, or {self.num_games} of them"
            )
        who = np.array(np.broadcast_to(given.astype(np.int64), self.num_games))
        for seat in (who.min(), who.max()):
            whole_number("seats", seat, 0, self.variant.num_players - 1)
        observations = np.zeros_like(self.observations)
        loops.observe_games(
            self.games, self.variant.rules, who, as_records(observations, OBSERVATION_RECORD)
        )
        return observations

    def get_state(self) -> State:
        """A copy of the games and their streams for `set_state`, plain data (see `state.py`).

        It holds more than any seat knows, and no script. ``over`` and ``payoffs`` of the last
        step belong to it only as far as they follow from the games.
        """
        return make_state(
            "GameBatch",
            variant=asdict(self.variant),
            games=self.games.copy(),
            streams=self.streams.copy(),
        )

    def set_state(self, state: State) -> None:
        """Go on from a state of `get_state`, of a batch of the same size and variant.

        Raises:
            ValueError: the state is of another version, variant or number of games, or holds what
                cannot occur. Nothing is changed then.
        """
        games, streams = self.checked_state(state)
        self.games[:] = games
        self.streams[:] = streams
        self.script = None
        if self.recorder is not None:
            self.recorder.lose_track()
        self.look(self.all_rows)

    def replay(
        self,
        row: int = 0,
        *,
        perspective: Perspective = "public",
        previous: bool = False,
        names: Sequence[str] = (),
    ) -> Replay:
        """A game as it went up to now, to be saved or stepped through.

        Args:
            row: which game.
            perspective: "public" for what everybody saw; a seat for what that seat saw; "all" for
                everything, private knowledge of all seats included.
            previous: the game before the present one of this row, where games begin anew.
            names: who sits on each seat, for people; of a long name the end is kept.

        Raises:
            ValueError: the batch was made without ``record=True``, there is no such game or
                perspective, or the game did not begin in this batch (`set_state`).
        """
        if self.recorder is None:
            raise ValueError("no game was recorded; allowed: replay() of what has record=True")
        number = whole_number("row", row, 0, self.num_games - 1)
        recording = self.recorder.previous[number] if previous else self.recorder.present[number]
        if recording is None:
            raise ValueError(f"row {number} has no previous game; allowed: previous=False")
        if not recording.is_whole:
            raise ValueError(
                f"the deal of game {number} is not recorded, since its state was set; "
                "allowed: replay() after the next reset"
            )
        who = short_names(names) or recording.names
        return Replay(self.variant, recording.events, names=who).seen_by(perspective)

    def _rows(self, rows: npt.ArrayLike | None) -> Rows:
        if rows is None:
            return self.all_rows
        which = np.asarray(rows)
        if which.dtype == bool and which.shape == (self.num_games,):
            return np.flatnonzero(which)
        if which.ndim != 1 or (which.size and which.dtype.kind not in "iu"):
            raise ValueError(
                f"rows has shape {which.shape} and type {which.dtype}; "
                f"allowed: a list of whole numbers, or a mask of shape ({self.num_games},)"
            )
        if which.size and not 0 <= which.min() <= which.max() < self.num_games:
            raise ValueError(f"rows is {rows!r}; allowed: numbers from 0 to {self.num_games - 1}")
        if len(np.unique(which)) != len(which):
            raise ValueError(f"rows is {rows!r}; allowed: every number once")
        return which.astype(np.int64)

    # The methods below trust their caller: rows are int64 and in range.

    def checked_state(self, state: State) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint64]]:
        """The games and the streams of a state; `ValueError` if `set_state` must not take it."""
        open_state(state, "GameBatch", ("variant", "games", "streams"))
        games = checked_games(state, self.num_games, self.variant)
        return games, checked_array(state, "streams", self.streams, 0, MAX_SEED)

    @property
    def goes_by_outcomes(self) -> bool:
        """Whether each chance outcome comes from a script or is recorded."""
        return self.script is not None or self.recorder is not None

    def _bind(self) -> None:
        """Collect the arrays for the compiled loops, which see some of them as records."""
        self.buffers = loops.Buffers(
            games=self.games,
            streams=as_records(self.streams, STREAM),
            rules=self.variant.rules,
            seats=self.seats,
            legal=self._legal,
            masks=as_records(self.masks, MASK),
            observations=as_records(self.observations, OBSERVATION_RECORD),
            over=self.over,
            payoffs=self.payoffs,
        )
        self.arrays = tuple(self.buffers)

    def deal(self, rows: Rows, script: ScriptedDeal | None = None) -> None:
        """`reset`, without a look at the games."""
        self.script = script
        if not self.goes_by_outcomes:
            loops.deal_games(*self.arrays[:3], rows)
            return
        if self.recorder is not None:
            self.recorder.begin(rows)
        loops.clear_games(self.games, self.variant.rules, rows)
        self._run_chance(rows)

    def check(self, actions: npt.NDArray[np.int64], rows: Rows, whose: str = "") -> None:
        """Raise `ValueError` for the first illegal action; ``whose`` says who acted."""
        wrong = loops.first_illegal(self._legal, rows, actions)
        if wrong >= 0:
            row = int(rows[wrong])
            where = f"{whose} on seat {self.games['seat'][row]}" if whose else ""
            raise illegal_action(int(actions[wrong]), self.masks[row], f"{where} of game {row}")

    def attempt(self, actions: npt.NDArray[np.int64], rows: Rows) -> None:
        """Let the seat to move act in each row, without a look at the games after it.

        ``illegal`` (B,) says afterwards where the action was illegal and nothing was changed.
        """
        if not self.goes_by_outcomes:
            loops.try_games(*self.arrays[:3], rows, actions, self.illegal)
            return
        loops.act_games(self.games, self.variant.rules, rows, actions, self.illegal)
        if self.recorder is not None:
            is_legal = ~self.illegal[rows]
            self.recorder.write(rows[is_legal], actions[is_legal], is_decision=True)
        self._run_chance(rows)

    def look(self, rows: Rows, seats: npt.NDArray[np.int64] | None = None) -> None:
        """Update all that follows from the records, for ``seats`` (B,) or the seats to move."""
        self.seats[rows] = (self.games["seat"] if seats is None else seats)[rows]
        loops.look_at_games(self.arrays, rows)

    def _run_chance(self, rows: Rows) -> None:
        """Let chance have what the script says or what is drawn, up to the next decisions."""
        while len(rows := rows[self.games["phase"][rows] < DECISION]):
            outcomes = np.full(len(rows), -1, np.int64)  # to be drawn
            if self.script is not None:
                outcomes[0] = self.script.outcome(self.games[0])
            loops.chance_games(*self.arrays[:3], rows, outcomes)
            if self.recorder is not None:
                self.recorder.write(rows, outcomes)

    def _share(self, rows: Rows, work: Callable[[slice], None]) -> None:
        """Do the work on all rows, in equal parts by the threads."""
        if self.threads == 1 or len(rows) < self.threads:
            work(slice(0, len(rows)))
            return
        if self._pool is None or self._pool_pid != os.getpid():  # threads do not survive a fork
            self._pool = ThreadPoolExecutor(self.threads - 1)
            self._pool_pid = os.getpid()
        bounds = np.linspace(0, len(rows), self.threads + 1).astype(np.int64)
        own, *others = map(slice, bounds[:-1], bounds[1:])
        waiting = [self._pool.submit(work, part) for part in others]
        work(own)
        for one in waiting:
            one.result()

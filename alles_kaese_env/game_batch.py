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
from alles_kaese_env.core.memory import check_memory
from alles_kaese_env.core.observe import OBSERVATION_RECORD, OBSERVATION_SIZE, STATE_RECORD
from alles_kaese_env.core.records import (
    DECISION,
    GAME,
    LAST_PEEKS,
    MASK,
    NUM_ACTIONS,
    STREAM,
    as_records,
)
from alles_kaese_env.observation import STATE
from alles_kaese_env.replay.game import Perspective, Replay, short_names
from alles_kaese_env.replay.recorder import Recorder
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.seeding import MAX_SEED, streams_of
from alles_kaese_env.state import (
    State,
    checked_array,
    checked_games,
    checked_last_peeks,
    make_state,
    open_state,
)
from alles_kaese_env.variant import Variant, whole_number

Rows = npt.NDArray[np.int64]


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
        recall: False leaves out of all observations what a seat has to remember by itself: it is
            shown what its own peek saw until its next action, and never again.

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
        recall: bool = True,
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
        self.recall = bool(recall)
        self.last_peeks = np.zeros(0 if self.recall else num_games, LAST_PEEKS)
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
            self._share(which, lambda part: self._advance(which[part], chosen[part]))
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
        observations = np.zeros_like(self.observations)
        self._observe(self._who(seats), as_records(observations, OBSERVATION_RECORD))
        return observations

    def joint_observations(self) -> npt.NDArray[np.float32]:
        """What every seat knows now, a new array (B, P, 253) float32.

        Together they are privileged: for a centralised critic, never for an agent that plays.
        """
        players = self.variant.num_players
        observations = np.zeros((self.num_games, players, OBSERVATION_SIZE), np.float32)
        records = observations.view(OBSERVATION_RECORD)[:, :, 0]
        for seat in range(players):
            self._observe(self._who(seat), records[:, seat])
        return observations

    def states(self, seats: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """The whole state of each game, a new array (B, 361) float32 with the layout `STATE`.

        It is privileged: for a centralised critic, never for an agent that plays. It holds every
        front that anybody has seen; of one that nobody has seen, which is not determined yet, the
        probability that it is a trap.

        Args:
            seats: the seat that tables by seat begin with, for all games or for each, (B,); the
                seat to move if None.

        Raises:
            ValueError: there is no such seat.
        """
        who = self.seats if seats is None else self._who(seats)
        states = np.zeros((self.num_games, STATE.size), np.float32)
        loops.observe_states(
            self.games,
            self.variant.rules,
            who,
            np.zeros(1, GAME),
            as_records(states, STATE_RECORD),
        )
        return states

    def sample_hidden(
        self, seats: npt.ArrayLike, number: int, *, seed: int | None = None
    ) -> npt.NDArray[np.void]:
        """Games that a seat cannot tell from its own, drawn as it has to believe (RULES I4).

        Drawn are the fronts that other seats know and this one does not, in the row and among the
        discarded cards, of which every choice is as likely. What others did tells nothing (I4).
        Fronts that nobody has seen, backs and dice stay open. The true game has no influence
        beyond what the seat observes.

        Args:
            seats: a seat for all games or one for each, (B,).
            number: how many games to draw, n.
            seed: of the draws, or None for one from the operating system. The streams of the
                games do not move.

        Returns:
            The records, (B, n) of `GAME`: games that `set_state` accepts.

        Raises:
            ValueError: there is no such seat, or another argument is not what is allowed.
        """
        who = self._who(seats)
        draws = np.zeros((self.num_games, whole_number("number", number, 1, 2**31 - 1)), GAME)
        streams = as_records(streams_of(seed, self.num_games), STREAM)
        loops.sample_hidden(self.games, streams, self.variant.rules, who, draws)
        return draws

    def get_state(self) -> State:
        """A copy of the games and their streams for `set_state`, plain data (see `state.py`).

        It holds more than any seat knows, and no script. Without recall it also holds the last
        peeks; a batch with recall takes it, too. ``over`` and ``payoffs`` of the last
        step belong to it only as far as they follow from the games.
        """
        return make_state(
            "GameBatch",
            variant=asdict(self.variant),
            games=self.games.copy(),
            streams=self.streams.copy(),
            **({} if self.recall else {"last_peeks": self.last_peeks.copy()}),
        )

    def set_state(self, state: State) -> None:
        """Go on from a state of `get_state`, of a batch of the same size and variant.

        Raises:
            ValueError: the state is of another version, variant or number of games, or holds what
                cannot occur. Nothing is changed then.
        """
        games, streams, last_peeks = self.checked_state(state)
        self.games[:] = games
        self.streams[:] = streams
        self.last_peeks[:] = last_peeks
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

    def _who(self, seats: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """A seat for each game."""
        given = np.asarray(seats)
        if given.dtype.kind not in "iu" or given.shape not in ((), (self.num_games,)):
            raise ValueError(
                f"seats is {seats!r}; allowed: a whole number, or {self.num_games} of them"
            )
        who = np.array(np.broadcast_to(given.astype(np.int64), self.num_games))
        for seat in (int(who.min()), int(who.max())):
            whole_number("seats", seat, 0, self.variant.num_players - 1)
        return who

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

    def checked_state(
        self, state: State
    ) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint64], npt.NDArray[np.void]]:
        """Games, streams and last peeks of a state; `ValueError` if it must not be taken."""
        open_state(state, "GameBatch", ("variant", "games", "streams"))
        games = checked_games(state, self.num_games, self.variant)
        streams = checked_array(state, "streams", self.streams, 0, MAX_SEED)
        return games, streams, self.last_peeks if self.recall else checked_last_peeks(state, games)

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
        else:
            if self.recorder is not None:
                self.recorder.begin(rows)
            loops.clear_games(self.games, self.variant.rules, rows)
            self._run_chance(rows)
        self._note_peeks(rows)

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
        else:
            loops.act_games(self.games, self.variant.rules, rows, actions, self.illegal)
            if self.recorder is not None:
                is_legal = ~self.illegal[rows]
                self.recorder.write(rows[is_legal], actions[is_legal], is_decision=True)
            self._run_chance(rows)
        self._note_peeks(rows)

    def look(self, rows: Rows, seats: npt.NDArray[np.int64] | None = None) -> None:
        """Update all that follows from the records, for ``seats`` (B,) or the seats to move."""
        self.seats[rows] = (self.games["seat"] if seats is None else seats)[rows]
        loops.look_at_games(self.arrays, rows)
        self._leave_out_recall(rows)

    def _leave_out_recall(self, rows: Rows) -> None:
        """Without recall, write the observations of these rows anew, for ``self.seats``."""
        if not self.recall:
            self._observe_rows(self.seats, self.buffers.observations, rows)

    def _advance(self, rows: Rows, actions: npt.NDArray[np.int64]) -> None:
        """`step` by the streams of the games."""
        loops.step_games(self.arrays, rows, actions, self.autoreset)
        self._note_peeks(rows)
        self._leave_out_recall(rows)

    def _note_peeks(self, rows: Rows) -> None:
        if not self.recall:
            loops.note_peeks(self.games, self.variant.rules, self.last_peeks, rows)

    def _observe(self, seats: npt.NDArray[np.int64], observations: npt.NDArray[np.void]) -> None:
        """Write what a seat of each game knows."""
        if self.recall:
            loops.observe_games(self.games, self.variant.rules, seats, observations)
        else:
            self._observe_rows(seats, observations, self.all_rows)

    def _observe_rows(self, seats: Any, observations: Any, rows: Rows) -> None:
        """The same in some rows, without recall."""
        games, peeks = self.games, self.last_peeks
        loops.observe_without(games, self.variant.rules, peeks, rows, seats, observations)

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

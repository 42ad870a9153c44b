"""Many games in which one seat learns and opponents play the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from alles_kaese_env.agent import Agent, Opponent, ask, has_recall, load_agent, name_of
from alles_kaese_env.core.loops import (
    draw_seats,
    look_at_games,
    play_random,
    reward_games,
    step_seats,
)
from alles_kaese_env.core.records import DECISION, OVER
from alles_kaese_env.game_batch import GameBatch, Rows
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.seeding import agent_generator
from alles_kaese_env.state import (
    State,
    checked_array,
    generator_state,
    make_state,
    open_state,
    set_generator_state,
)
from alles_kaese_env.variant import Variant, one_of, whole_number

REWARDS = ("win", "shaped")
ON_ILLEGAL = ("forfeit", "raise")
SAVED = {  # the arrays of a state, by their attributes
    "seats": "seats",
    "rewards": "rewards",
    "terminated": "terminated",
    "illegal": "illegal",
    "handed_over": "_rewarded",
    "assigned": "_assigned",
}
BOUNDS = {"rewards": (-2, 2), "handed_over": (-1, 1), "terminated": (0, 1), "illegal": (0, 1)}
MOST_DEALS = 1000  # until an episode has a decision; then there is no use in going on


class SingleSeatGames:
    """Games in which a learner decides for one seat; a step goes on to its next decision.

    Args:
        num_games: how many games, B below.
        variant: their rules.
        opponents, seat, on_illegal: as in `AllesKaeseEnv`.
        reward: "win" is the payoff (RULES P5) with the last step. "shaped" is the change of the
            lead in points, as a share of all points, and at the end what is missing from the
            payoff, so that the sum over an episode is the payoff as well (Ng,
            Harada and Russell 1999).
        record: write down every game for `GameBatch.replay`.
        recall: as in `GameBatch`, for the learner, and for opponents that say ``recall = False``;
            the others know as much as ever.

    Attributes (rewritten by each call):
        batch: the games. Its observations and masks are those of the learner.
        rows: all of them, (B,) int64; not rewritten.
        seats: the learner's seat, (B,) int64.
        rewards: of the last step, (B,) float32.
        terminated: which episodes the last step ended, (B,) bool.
        illegal: where the last step was an illegal action, (B,) bool.
        playing: which games wait for the learner, (B,) bool.
    """

    def __init__(
        self,
        num_games: int,
        variant: Variant,
        opponents: Opponent | Sequence[Opponent] = "random",
        seat: int | None = None,
        reward: str = "win",
        on_illegal: str = "forfeit",
        record: bool = False,
        recall: bool = True,
    ) -> None:
        players = variant.num_players
        self.batch = GameBatch(num_games, variant, record=record, recall=recall)
        self.rows = self.batch.all_rows
        self.seat = None if seat is None else whole_number("seat", seat, 0, players - 1)
        self.reward = one_of("reward", reward, REWARDS)
        self.on_illegal = one_of("on_illegal", on_illegal, ON_ILLEGAL)
        self.seats = np.zeros(num_games, np.int64)
        self.illegal = self.batch.illegal
        self.rewards = np.zeros(num_games, np.float32)
        self.terminated = np.zeros(num_games, bool)
        self._episodes = (self.illegal, self.rewards, self.terminated)
        self.rng = agent_generator(None)
        self.playing = np.zeros(num_games, bool)
        self._is_learners_view = False  # what the batch shows
        self._rewarded = np.zeros(num_games, np.float32)
        self._agents: list[Agent | None] = []
        self._assigned = np.zeros((num_games, players), np.int64)  # places in _agents, by seat
        self._first_new = 0  # the opponents of new games stand in _agents from here on
        self._replace_agents(self._checked_opponents(opponents), None)

    def set_opponents(
        self, opponents: Sequence[Opponent], weights: Sequence[float] | None = None
    ) -> None:
        """Change who plays from the next deals on.

        Args:
            opponents: as in the constructor; any number of them if weights are given.
            weights: who plays all other seats of a new game is drawn with these probabilities.

        Raises:
            ValueError: the opponents are not what is allowed, or the weights do not fit them.
        """
        if weights is None:
            self._replace_agents(self._checked_opponents(opponents), None)
            return
        shares = np.asarray(weights, np.float64)
        if shares.shape != (len(opponents),) or (shares < 0).any() or not shares.sum() > 0:
            raise ValueError(f"weights is {weights!r}; allowed: {len(opponents)} numbers from 0 on")
        agents = [self._loaded(f"opponents[{k}]", one) for k, one in enumerate(opponents)]
        self._replace_agents(agents, shares / shares.sum())

    def seed(self, streams: npt.NDArray[np.uint64], rng: np.random.Generator) -> None:
        """Begin the streams of the games (B,) anew, and draw for the opponents from ``rng``."""
        self.batch.streams[:] = streams
        self.rng = rng

    def deal(self, rows: Rows, script: ScriptedDeal | None = None) -> None:
        """Begin new games, up to the learner's first decision.

        In small variants a game can end before it: then it is dealt anew. `ValueError` if the
        learner gets no turn in this script, or never in its seat.
        """
        waiting = rows
        for _ in range(MOST_DEALS):
            self._deal_once(waiting, script)
            waiting = waiting[self.batch.over[waiting]]
            if not len(waiting):
                break
            if self.batch.recorder is not None:
                self.batch.recorder.forget(waiting)
            if script is not None:
                raise ValueError(
                    f"the game of options ends before seat {self.seats[0]} of the learner acts"
                )
        else:
            raise ValueError(
                f"seat is {self.seat}; allowed: one that gets a turn, "
                f"which it did not in {MOST_DEALS} games of {self.batch.variant}"
            )
        self._rewarded[rows] = 0
        self.rewards[rows] = 0
        self.terminated[rows] = False
        self.illegal[rows] = False
        self.playing[rows] = True

    def check_begun(self) -> None:
        """Raise `gymnasium.error.ResetNeeded` if no game was dealt, or an opponent broke it off."""
        if not self._is_learners_view:
            raise gymnasium.error.ResetNeeded("there is no game yet; call reset first")

    def step(self, actions: npt.NDArray[np.int64], rows: Rows) -> None:
        """Let the learner act (0 to 17) in each row, then the opponents up to its next decision.

        Raises:
            ValueError: with ``on_illegal="raise"``, an action is illegal; no game is changed. Or
                an opponent acted illegally; the games have to be dealt anew.
            gymnasium.error.ResetNeeded: a game is over or was never dealt.
        """
        batch = self.batch
        if np.count_nonzero(self.playing[rows]) < len(rows):  # for one game much faster than all()
            raise gymnasium.error.ResetNeeded("step was called without a game; call reset first")
        if self.on_illegal == "raise":
            batch.check(actions, rows)
        if self._is_one_loop:
            step_seats(batch.arrays, self._episodes, rows, actions)
        else:
            batch.attempt(actions, rows)
            illegal = self.illegal[rows]  # the opponents' actions overwrite it
            self.playing[rows] = False  # until the opponents have played
            self._to_learner(rows)
            self.illegal[rows] = illegal
            reward_games(batch.arrays, self._episodes, rows)
        if self.reward == "shaped":
            self._spread_reward(rows)
        self.playing[rows] = ~self.terminated[rows]

    def get_state(self) -> State:
        """See `AllesKaeseEnv.get_state`."""
        self.check_begun()
        return make_state(
            "SingleSeatGames",
            batch=self.batch.get_state(),
            rng=generator_state(self.rng),
            **{name: getattr(self, attribute).copy() for name, attribute in SAVED.items()},
        )

    def set_state(self, state: State) -> None:
        """See `AllesKaeseEnv.set_state`; a state that is refused changes nothing."""
        open_state(state, "SingleSeatGames", ("batch", "rng", *SAVED))
        games, *_ = self.batch.checked_state(state["batch"])
        last_seat, last_agent = self.batch.variant.num_players - 1, len(self._agents) - 1
        bounds = {**BOUNDS, "seats": (0, last_seat), "assigned": (0, last_agent)}
        arrays = {
            name: checked_array(state, name, getattr(self, attribute), *bounds[name])
            for name, attribute in SAVED.items()
        }
        check_episodes(games, arrays)
        set_generator_state(self.rng, state["rng"])
        self.batch.set_state(state["batch"])
        for name, array in arrays.items():
            getattr(self, SAVED[name])[:] = array
        self.playing[:] = ~self.terminated
        self.batch.look(self.rows, self.seats)
        self.batch.masks[self.illegal] = False  # as after the step that ended the episode
        self._is_learners_view = True

    def _checked_opponents(self, opponents: Any) -> list[Agent | None]:
        players = self.batch.variant.num_players
        if isinstance(opponents, (str, type)) or not isinstance(opponents, Sequence):
            return [self._loaded("opponents", opponents)]
        if len(opponents) != players - 1:
            raise ValueError(
                f"opponents has {len(opponents)} entries; allowed: {players - 1}, "
                f"one for each other seat of {players} players"
            )
        return [self._loaded(f"opponents[{k}]", one) for k, one in enumerate(opponents)]

    def _loaded(self, field: str, opponent: Any) -> Agent | None:
        agent = load_agent(field, opponent, self.batch.variant)
        if self.batch.recall and not has_recall(agent):
            raise ValueError(
                f"{field} is {opponent!r}, made to play without recall; "
                "allowed: in games with recall=False"
            )
        return agent

    def _replace_agents(
        self, agents: list[Agent | None], weights: npt.NDArray[np.float64] | None
    ) -> None:
        """Take new opponents for new games, and keep those that running games still need."""
        needed, places = np.unique(self._assigned[self.playing], return_inverse=True)
        self._assigned[self.playing] = places.reshape(-1, self._assigned.shape[1])
        self._first_new = len(needed)
        self._agents = [self._agents[k] for k in needed] + agents
        self._weights = weights
        self._is_random = all(agent is None for agent in self._agents)

    def _deal_once(self, rows: Rows, script: ScriptedDeal | None) -> None:
        if self.seat is None:
            draw_seats(*self.batch.arrays[1:3], rows, self.seats)
        else:
            self.seats[rows] = self.seat
        self._assign(rows)
        self.batch.deal(rows, script)
        if self.batch.recorder is not None:
            self.batch.recorder.name_seats(rows, self.seats, self.batch.variant.num_players)
        self._to_learner(rows)

    def _assign(self, rows: Rows) -> None:
        """Say which agent has which seat of the new games."""
        players = self.batch.variant.num_players
        number = len(self._agents) - self._first_new
        if self._weights is None:
            places = (np.arange(players) - self.seats[rows, None] - 1) % players
            self._assigned[rows] = self._first_new + places % number
        else:
            drawn = self.rng.choice(number, (len(rows), 1), p=self._weights)
            self._assigned[rows] = self._first_new + drawn

    @property
    def _is_one_loop(self) -> bool:
        """Whether a compiled loop plays all opponents; without recall each peek is noted."""
        return self._is_random and self.batch.recall and not self.batch.goes_by_outcomes

    def _to_learner(self, rows: Rows) -> None:
        """Let the opponents play up to the learner's next decision or the end."""
        batch = self.batch
        self._is_learners_view = False
        if self._is_one_loop:
            play_random(*batch.arrays[:3], rows, self.seats)
        else:
            while len(waiting := self._waiting(rows)):
                self._opponents_act(waiting)
        batch.look(rows, self.seats)
        self._is_learners_view = True

    def _waiting(self, rows: Rows) -> Rows:
        """The rows in which an opponent has to decide."""
        games = self.batch.games
        is_waiting = games["phase"][rows] == DECISION
        return rows[is_waiting & (games["seat"][rows] != self.seats[rows])]

    def _opponents_act(self, rows: Rows) -> None:
        batch = self.batch
        movers = batch.games["seat"][rows].astype(np.int64)
        batch.look(rows, batch.games["seat"].astype(np.int64))
        which = self._assigned[rows, movers]
        for k in np.unique(which):
            some = rows[which == k]
            agent = self._agents[k]
            who = f"opponent {name_of(agent)}"
            if has_recall(agent) and not batch.recall:
                look_at_games(batch.arrays, some)  # the opponent knows as much as ever
            actions = self._choose(agent, who, some)
            batch.check(actions, some, f" of {who}")
            batch.attempt(actions, some)

    def _choose(self, agent: Agent | None, who: str, rows: Rows) -> npt.NDArray[np.int64]:
        if agent is None:
            return self.batch.random_actions(rows)
        return ask(agent, who, self.batch.observations[rows], self.batch.masks[rows], self.rng)

    def _spread_reward(self, rows: Rows) -> None:
        """Reward the change of the lead, and at the end what is missing from the payoff."""
        due = np.where(self.terminated[rows], self.rewards[rows], self._lead(rows))
        self.rewards[rows] = due - self._rewarded[rows]
        self._rewarded[rows] = due

    def _lead(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Points ahead of the mean of the others, as a share of all points."""
        players = self.batch.variant.num_players
        points = self.batch.games["points"][rows, :players].astype(np.float32)
        own = points[np.arange(len(rows)), self.seats[rows]]
        others = (points.sum(axis=1) - own) / (players - 1)
        return (own - others) * self.batch.variant.rules["per_point"][0]


def check_episodes(games: npt.NDArray[np.void], arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Raise `ValueError` unless each episode of a state has ended or waits for its learner."""
    is_over = games["phase"] == OVER
    waits = games["seat"] == arrays["seats"]
    for row in np.flatnonzero(~(waits | is_over)):
        raise ValueError(f"state has a game {row} in which it is not the learner's turn")
    for row in np.flatnonzero(arrays["terminated"] != (is_over | arrays["illegal"])):
        raise ValueError(
            f"state has an episode {row} that has ended without its game, or not with it"
        )

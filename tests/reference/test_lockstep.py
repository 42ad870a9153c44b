"""The reference against every API, over random games, ply by ply.

APIs that take a stacked deck play it and so does the reference. For the others the cards and
the dice are put together again from the records, and the reference replays the game with them.
"""

from __future__ import annotations

from dataclasses import asdict
from zlib import crc32

import gymnasium
import numpy as np
import pytest
from builders import all_variants, bytes_of, name_of, playing, random_legal
from gymnasium.vector import AutoresetMode

from alles_kaese_env import GameBatch, alles_kaese_v0
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv
from alles_kaese_env.scripted import ScriptedDeal
from reference.lockstep import (
    GameLog,
    Reference,
    assert_game,
    assert_mask,
    assert_observation,
    assert_payoffs,
    assert_record,
    random_deal,
)

for_all_variants = pytest.mark.parametrize("variant", all_variants(), ids=name_of)

ROWS = 6  # parallel games of a batched API


@pytest.fixture(params=[1, pytest.param(12, marks=pytest.mark.long)], ids=["short", "long"])
def scale(request):
    """How much more than in a short run; the long one is about a million plies."""
    return request.param


class Hasher:
    """An opponent whose choice follows from all that it is shown."""

    def act(self, observations, masks, rng):
        return np.array(
            [
                (legal := np.flatnonzero(mask))[crc32(observation.tobytes()) % len(legal)]
                for observation, mask in zip(observations, masks, strict=True)
            ]
        )


class Recorder(Hasher):
    """It keeps what it was shown and what it did."""

    def __init__(self):
        self.plies = []

    def act(self, observations, masks, rng):
        actions = super().act(observations, masks, rng)
        self.plies += zip(observations.copy(), masks.copy(), actions, strict=True)
        return actions


def learner_seat(variant, number):
    """A seat of its own for each game; in a small variant the game may end before seat 1 acts."""
    return number % variant.num_players if len(variant.deck) == 36 else 0


def a_legal(mask, rng):
    return int(rng.choice(np.flatnonzero(mask)))


def assert_batch(game, batch):
    """The only game of a batch: record, mask, payoffs and what every seat is told."""
    assert_record(game, batch.games[0])
    assert_mask(game, batch.masks[0])
    assert_payoffs(game, batch.payoffs[0])
    assert batch.over[0] == game.over
    if not game.over:
        assert batch.seats[0] == game.seat
    for seat in range(game.num_players):
        assert_observation(game, seat, batch.observe(seat)[0])


# --- APIs that take a stacked deck -------------------------------------------------------------


@for_all_variants
def test_game_batch_with_a_scripted_deal(variant, scale):
    rng = np.random.default_rng(1)
    batch = GameBatch(1, variant, seed=1)
    for _ in range(6 * scale):
        deck, dice = random_deal(variant, rng)
        batch.reset(script=ScriptedDeal(variant, deck, dice))
        game = Reference(variant, deck, dice)
        assert_batch(game, batch)
        while not game.over:
            action = a_legal(batch.masks[0], rng)
            batch.step([action])
            game.play_action(action)
            assert_batch(game, batch)


@for_all_variants
def test_pettingzoo_with_a_scripted_deal(variant, scale):
    rng = np.random.default_rng(2)
    aec = alles_kaese_v0.raw_env(**asdict(variant))
    for _ in range(5 * scale):
        deck, dice = random_deal(variant, rng)
        aec.reset(seed=2, options={"deck": deck, "dice": dice})
        game = Reference(variant, deck, dice)
        while not game.over:
            assert aec.agents == aec.possible_agents
            assert not any(aec.rewards.values())
            assert not any(aec.terminations.values())
            assert aec.agent_selection == f"player_{game.seat}"
            for seat, agent in enumerate(aec.agents):
                seen = aec.observe(agent)
                assert_observation(game, seat, seen["observation"])
                if seat == game.seat:
                    assert_mask(game, seen["action_mask"])
                else:
                    assert not seen["action_mask"].any()
            action = a_legal(aec.observe(aec.agent_selection)["action_mask"], rng)
            aec.step(action)
            game.play_action(action)
        assert all(aec.terminations.values())
        assert_payoffs(game, [aec.rewards[agent] for agent in aec.possible_agents])
        for seat, agent in enumerate(aec.possible_agents):
            assert_observation(game, seat, aec.observe(agent)["observation"])
            assert not aec.observe(agent)["action_mask"].any()


def gym_env(variant, opponents, seat):
    """The Gymnasium API, and the batch of one game inside it."""
    env = gymnasium.make("AllesKaese-v0", opponents=opponents, seat=seat, **asdict(variant))
    return env, env.unwrapped._games.batch


def assert_step(game, seat, step):
    """What `step` returned to the learner."""
    observation, reward, terminated, truncated, info = step
    assert_observation(game, seat, observation)
    assert_mask(game, info["action_mask"])
    assert terminated == game.over
    assert not truncated
    assert reward == pytest.approx(float(game.payoffs()[seat]) if game.over else 0, abs=1e-6)


@for_all_variants
def test_gymnasium_with_a_scripted_deal_and_recorded_opponents(variant, scale):
    """What the opponents were shown is compared as well."""
    rng = np.random.default_rng(3)
    for number in range(5 * scale):
        seat = learner_seat(variant, number)
        recorder = Recorder()
        env, inner = gym_env(variant, recorder, seat)
        deck, dice = random_deal(variant, rng)
        observation, info = env.reset(seed=number, options={"deck": deck, "dice": dice})
        step = observation, 0.0, False, False, info
        game = Reference(variant, deck, dice)
        while True:
            for shown, mask, action in recorder.plies:
                assert game.seat != seat
                assert_observation(game, game.seat, shown)
                assert_mask(game, mask)
                game.play_action(action)
            recorder.plies.clear()
            assert_record(game, inner.games[0])
            assert_step(game, seat, step)
            if game.over:
                break
            assert game.seat == seat
            action = a_legal(step[-1]["action_mask"], rng)
            game.play_action(action)
            step = env.step(action)


@for_all_variants
def test_gymnasium_with_a_scripted_deal_and_random_opponents(variant, scale):
    """A batch with the same stream tells what the opponents did."""
    rng = np.random.default_rng(4)
    for number in range(5 * scale):
        seat = learner_seat(variant, number)
        env, inner = gym_env(variant, "random", seat)
        env.reset(seed=number)
        deck, dice = random_deal(variant, rng)
        mirror = GameBatch(1, variant)
        mirror.streams[:] = inner.streams
        mirror.reset(script=ScriptedDeal(variant, deck, dice))
        observation, info = env.reset(options={"deck": deck, "dice": dice})
        step = observation, 0.0, False, False, info
        game = Reference(variant, deck, dice)
        while True:
            while not game.over and game.seat != seat:
                action = mirror.random_actions()
                game.play_action(action[0])
                mirror.step(action)
            assert_record(game, inner.games[0])
            assert_step(game, seat, step)
            if game.over:
                break
            action = a_legal(step[-1]["action_mask"], rng)
            game.play_action(action)
            mirror.step([action])
            step = env.step(action)


# --- APIs that deal themselves -----------------------------------------------------------------


def all_seats(batch, row):
    return {seat: batch.observe(seat)[row] for seat in range(batch.variant.num_players)}


@for_all_variants
@pytest.mark.parametrize("autoreset", [False, True], ids=["plain", "autoreset"])
def test_game_batch_that_deals_itself(variant, autoreset, scale):
    """With autoreset, a twin without it shows the last record of each game."""
    rng = np.random.default_rng(5)
    batch = GameBatch(ROWS, variant, seed=5, autoreset=autoreset)
    twin = GameBatch(ROWS, variant, seed=5)
    logs, finished = [GameLog() for _ in range(ROWS)], []
    note_all(twin, logs, range(ROWS))
    for _ in range(50 * scale):
        rows = np.arange(ROWS) if autoreset else playing(batch)
        actions = random_legal(batch.masks[rows], rng)
        batch.step(actions, rows)
        twin.step(actions, rows)
        note_all(twin, logs, rows)
        assert batch.over.tolist() == twin.over.tolist()
        assert batch.payoffs.tobytes() == twin.payoffs.tobytes()
        for row in np.flatnonzero(twin.over):
            finished.append(logs[row])
            logs[row] = GameLog()
        if twin.over.any():
            ended = np.flatnonzero(twin.over)
            if not autoreset:
                batch.reset(ended)
            twin.reset(ended)
            note_all(twin, logs, ended)
        assert bytes_of(batch.games) == bytes_of(twin.games)
        assert batch.observations.tobytes() == twin.observations.tobytes()
        assert batch.masks.tobytes() == twin.masks.tobytes()
    assert finished
    for log in finished + logs:
        assert_game(variant, log, rng)


def note_all(batch, logs, rows):
    seen = [batch.observe(seat) for seat in range(batch.variant.num_players)]
    for row in rows:
        logs[row].add(
            batch.games[row],
            observations={seat: shown[row].copy() for seat, shown in enumerate(seen)},
            mask=batch.masks[row].copy(),
            payoffs=batch.payoffs[row].copy(),
        )


class Mirror:
    """A batch that repeats, ply by ply, what an API does in one step, and keeps the records.

    It has the streams of the API, and asks the same opponents.
    """

    def __init__(self, variant, streams, seat, opponents):
        self.batch = GameBatch(len(streams), variant)
        self.batch.streams[:] = streams
        self.seat = seat
        self.opponents = opponents  # of each other seat, in turn order after the learner
        self.logs = [GameLog() for _ in streams]
        self.finished = []
        self.reset(np.arange(len(streams)))

    def reset(self, rows):
        """New games in these rows, up to the learner's first decision."""
        self.batch.reset(rows)
        for row in rows:
            if self.logs[row].records:
                self.finished.append(self.logs[row])
            self.logs[row] = GameLog()
        self._note(rows)
        self._let_opponents_play(rows)

    def step(self, actions, rows):
        """The learner's actions, then the opponents up to its next decision."""
        self._step(actions, rows)
        self._let_opponents_play(rows)

    def over(self):
        """The rows whose game is over."""
        return ~np.isin(np.arange(len(self.batch)), playing(self.batch))

    def payoffs(self):
        """Of the learner, 0 where the game goes on."""
        return self.batch.payoffs[:, self.seat]

    def assert_api(self, observations, masks, rows):
        """What an API shows the learner is what the batch shows it; the reference judges it too."""
        mine = self.batch.observe(self.seat)
        for row in rows:
            assert observations[row].tobytes() == mine[row].tobytes()
            assert masks[row].astype(bool).tolist() == self.batch.masks[row].tolist()
            extra = self.logs[row].extras[-1]
            extra["observations"] = {self.seat: observations[row].copy()}
            extra["mask"] = masks[row].copy()

    def assert_reference(self, rng):
        """Replay all games on the reference."""
        assert self.finished
        for log in self.finished + self.logs:
            assert_game(self.batch.variant, log, rng)

    def _step(self, actions, rows):
        self.batch.step(actions, rows)
        self._note(rows)

    def _note(self, rows):
        for row in rows:
            self.logs[row].add(self.batch.games[row], payoffs=self.batch.payoffs[row].copy())

    def _let_opponents_play(self, rows):
        while len(waiting := self._waiting(rows)):
            places = (self.batch.seats[waiting] - self.seat - 1) % self.batch.variant.num_players
            for place in np.unique(places):
                some = waiting[places == place]
                self._step(self._choose(self.opponents[place], some), some)

    def _waiting(self, rows):
        others = self.batch.seats[rows] != self.seat
        return rows[others & np.isin(rows, playing(self.batch))]

    def _choose(self, opponent, rows):
        if opponent == "random":
            return self.batch.random_actions(rows)
        return opponent.act(self.batch.observations[rows], self.batch.masks[rows], None)


def mixed_opponents(variant):
    """One that follows from what it is shown, then one at random, and so on."""
    return [Hasher() if place % 2 == 0 else "random" for place in range(variant.num_players - 1)]


def opponents_of(variant, kind):
    """What an API is given, and the same for each place after the learner."""
    if kind == "random":
        return "random", ["random"] * (variant.num_players - 1)
    mixed = mixed_opponents(variant)
    return mixed, mixed


def learner_steps(variant, scale):
    """Enough steps of the learner to see some games to their end."""
    return 60 * scale // variant.num_players


@for_all_variants
@pytest.mark.parametrize("kind", ["random", "mixed"])
@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name.lower())
def test_gymnasium_vector_env(variant, kind, mode, scale):
    rng = np.random.default_rng(6)
    opponents, by_place = opponents_of(variant, kind)
    seat = learner_seat(variant, variant.num_players - 1)
    env = gymnasium.make_vec(
        "AllesKaese-v0",
        num_envs=ROWS,
        vectorization_mode="vector_entry_point",
        autoreset_mode=mode,
        opponents=opponents,
        seat=seat,
        **asdict(variant),
    )
    env.reset(seed=6)
    mirror = Mirror(variant, env.unwrapped._games.batch.streams, seat, by_place)
    observations, infos = env.reset()
    every = np.arange(ROWS)
    pending = np.zeros(ROWS, bool)
    mirror.assert_api(observations, infos["action_mask"], every)
    for _ in range(learner_steps(variant, scale)):
        actions = random_legal(infos["action_mask"], rng)
        observations, rewards, terminated, truncated, infos = env.step(actions)
        stepped = np.flatnonzero(~pending)
        mirror.step(actions[stepped], stepped)
        if pending.any():  # NEXT_STEP: this step only began a new game
            mirror.reset(np.flatnonzero(pending))
        over = mirror.over()
        assert terminated.tolist() == over.tolist()
        assert not truncated.any()
        assert rewards.tolist() == mirror.payoffs().tolist()
        masks = infos["action_mask"]
        pending = over & (mode == AutoresetMode.NEXT_STEP)
        if over.any() and mode != AutoresetMode.NEXT_STEP:
            ended = np.flatnonzero(over)
            if mode == AutoresetMode.SAME_STEP:
                assert infos["_final_obs"].tolist() == over.tolist()
                mirror.assert_api(infos["final_obs"], infos["final_info"]["action_mask"], ended)
            else:
                mirror.assert_api(observations, masks, ended)
                observations, infos = env.reset(options={"reset_mask": over})
                masks = np.where(over[:, None], infos["action_mask"], masks)
                infos["action_mask"] = masks
            mirror.reset(ended)
        mirror.assert_api(observations, masks, every)
    mirror.assert_reference(rng)


@for_all_variants
@pytest.mark.parametrize("kind", ["random", "mixed"])
def test_stable_baselines3_vec_env(variant, kind, scale):
    rng = np.random.default_rng(7)
    opponents, by_place = opponents_of(variant, kind)
    seat = learner_seat(variant, 1)
    env = AllesKaeseVecEnv(ROWS, opponents=opponents, seat=seat, seed=7, **asdict(variant))
    mirror = Mirror(variant, env.games.batch.streams, seat, by_place)
    observations = env.reset()
    every = np.arange(ROWS)
    mirror.assert_api(observations, env.action_masks(), every)
    for _ in range(learner_steps(variant, scale)):
        actions = random_legal(env.action_masks(), rng)
        observations, rewards, dones, infos = env.step(actions)
        mirror.step(actions, every)
        over = mirror.over()
        assert dones.tolist() == over.tolist()
        assert rewards.tolist() == mirror.payoffs().tolist()
        ended = np.flatnonzero(over)
        last = {row: infos[row]["terminal_observation"] for row in ended}
        mirror.assert_api(last, np.zeros((ROWS, 18)), ended)
        mirror.reset(ended)
        mirror.assert_api(observations, env.action_masks(), every)
    mirror.assert_reference(rng)

"""``recall=False``: a seat is shown what its own peek saw until its next action, and no longer."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict

import gymnasium
import numpy as np
import pytest
from builders import KIND_NAMES, all_variants, bytes_of, name_of, playing, random_legal
from reference.lockstep import Reference, expected_observation, random_deal

from alles_kaese_env import OBSERVATION, GameBatch, Variant, alles_kaese_v0
from alles_kaese_env.core.observe import RECALLED
from alles_kaese_env.core.records import MAX_SLOTS
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.state import load_state, save_state

for_variants = pytest.mark.parametrize("variant", all_variants()[::3], ids=name_of)
VARIANT = Variant(num_players=3)


class Forgetful(Reference):
    """The reference for an observer that remembers the peek that was its last action alone."""

    def __init__(self, variant, deck, dice, observer):
        super().__init__(variant, deck, dice)
        self.observer = observer
        self.shown = set()

    def play_action(self, action):
        kind, slot = divmod(int(action), MAX_SLOTS)
        if self.seat == self.observer:
            self.shown = {self.row_ids[slot]} if KIND_NAMES[kind] == "peek" else set()
        super().play_action(action)

    def known_ids(self, seat):
        if seat == self.observer:
            return self.shown.union(*self.taken_ids)
        return super().known_ids(seat)

    def slot_peekers(self, slot):
        who = super().slot_peekers(slot)
        return who if self.row_ids[slot] in self.shown else who - {self.observer}


def random_actions(variant, rng):
    """A deal, and the actions of a random game of it up to some point."""
    deck, dice = random_deal(variant, rng)
    game, actions, length = Reference(variant, deck, dice), [], int(rng.integers(1, 60))
    while not game.over and len(actions) < length:
        actions.append(int(rng.choice(np.flatnonzero(game.mask()))))
        game.play_action(actions[-1])
    return deck, dice, actions


def dealt(variant, deck, dice):
    """A batch of one game without recall."""
    batch = GameBatch(1, variant, recall=False)
    batch.reset(script=ScriptedDeal(variant, deck, dice))
    return batch


@for_variants
def test_every_number_is_that_of_a_seat_that_forgets(variant):
    """By the reference, which counts cards, after each action and for every seat."""
    rng = np.random.default_rng(1)
    for _ in range(2):
        deck, dice, actions = random_actions(variant, rng)
        games = [Forgetful(variant, deck, dice, seat) for seat in range(variant.num_players)]
        batch = dealt(variant, deck, dice)
        for action in [*actions, None]:
            for seat, game in enumerate(games):
                told = batch.observe(seat)[0]
                for name, expected in expected_observation(game, seat).items():
                    assert told[OBSERVATION[name].where] == pytest.approx(expected, abs=1e-6), name
            if action is not None:
                batch.step([action])
                for game in games:
                    game.play_action(action)


def forgotten(game, rng):
    """The deck with other fronts on the cards that the observer does not know any more."""
    deck = [(card.holes, card.is_trap) for card in game.cards]
    known = game.known_ids(game.observer)
    for holes in range(1, game.sides + 1):
        hidden = [k for k, card in enumerate(deck) if card[0] == holes and k not in known]
        for k, other in zip(hidden, rng.permutation(hidden), strict=True):
            deck[k] = holes, game.cards[other].is_trap
    return deck


def told_by_batch(variant, seat, deck, dice, actions):
    batch = dealt(variant, deck, dice)
    for _, action in actions:
        batch.step([action])
    joint = batch.joint_observations()[0, seat]
    assert (joint == batch.observe(seat)[0]).all()
    return joint, batch.masks, batch.seats, batch.over


def told_by_pettingzoo(variant, seat, deck, dice, actions):
    env = alles_kaese_v0.raw_env(recall=False, **asdict(variant))
    env.reset(seed=0, options={"deck": deck, "dice": dice})
    for _, action in actions:
        env.step(action)
    seen = env.observe(f"player_{seat}")
    return seen["observation"], seen["action_mask"]


class PlayBack:
    """An opponent that plays moves from a list, whatever it is shown."""

    def __init__(self, actions):
        self.actions = list(actions)

    def act(self, observations, masks, rng):
        return np.array([self.actions.pop(0)])


def told_by_gymnasium(variant, seat, deck, dice, actions):
    own = [action for mover, action in actions if mover == seat]
    opponents = PlayBack([action for mover, action in actions if mover != seat])
    env = gymnasium.make("AllesKaeseNoRecall-v0", opponents=opponents, seat=seat, **asdict(variant))
    seen = env.reset(seed=0, options={"deck": deck, "dice": dice})
    for action in own:
        observation, *_, info = env.step(action)
        seen = observation, info
    return seen[0], *seen[1].values()


@pytest.mark.parametrize("tell", [told_by_batch, told_by_pettingzoo, told_by_gymnasium])
@for_variants
def test_what_a_seat_has_to_remember_reaches_it_no_more(variant, tell):
    """The same game with other fronts where it peeked before: the observation is the same."""
    rng = np.random.default_rng(2)
    changed = 0
    for number in range(5):
        seat = 0 if len(variant.deck) < 36 else number % variant.num_players
        deck, dice = random_deal(variant, rng)
        game, actions, length = Forgetful(variant, deck, dice, seat), [], int(rng.integers(1, 60))
        while not game.over and (len(actions) < length or game.seat != seat):
            actions.append((game.seat, int(rng.choice(np.flatnonzero(game.mask())))))
            game.play_action(actions[-1][1])
        other = forgotten(game, rng)
        changed += any(other[k] != deck[k] for k in game.peeked[seat])
        for one, two in zip(
            tell(variant, seat, deck, dice, actions),
            tell(variant, seat, other, dice, actions),
            strict=True,
        ):
            assert one.tobytes() == two.tobytes()
    if len(variant.deck) == 36 and variant.num_players < 5:  # others have few turns a game
        assert changed > 0


def test_the_test_above_can_fail_with_recall():
    rng = np.random.default_rng(3)
    deck, dice, actions = random_actions(VARIANT, rng)
    differ = 0
    for seat in range(3):
        game = Forgetful(VARIANT, deck, dice, seat)
        for action in actions:
            game.play_action(action)
        seen = []
        for cards in (deck, forgotten(game, rng)):
            batch = GameBatch(1, VARIANT)
            batch.reset(script=ScriptedDeal(VARIANT, cards, dice))
            for action in actions:
                batch.step([action])
            seen.append(batch.observe(seat))
        differ += (seen[0] != seen[1]).any()
    assert differ > 0


def played(batch, plies, look):
    """A trace of random play by the streams of the batch."""
    trace = []
    for _ in range(plies):
        batch.step(batch.random_actions())
        trace.append(look(batch))
    return trace


def all_shown(batch):
    return (batch.observations.copy(), batch.joint_observations(), batch.games.copy())


@for_variants
def test_games_are_the_same_and_only_these_fields_differ(variant):
    with_recall, without = (
        GameBatch(20, variant, seed=4, autoreset=True, recall=recall) for recall in (True, False)
    )
    differ = set()
    for one, other in zip(
        played(with_recall, 25, all_shown), played(without, 25, all_shown), strict=True
    ):
        assert bytes_of(one[2]) == bytes_of(other[2])
        for a, b in zip(one[:2], other[:2], strict=True):
            differ |= {
                field.name
                for field in OBSERVATION.fields
                if (a[..., field.where] != b[..., field.where]).any()
            }
    assert differ <= set(RECALLED)
    assert differ or len(variant.deck) < 36


@pytest.mark.parametrize("options", [{"threads": 2}, {"record": True}, {}])
def test_observations_depend_neither_on_threads_nor_on_size_nor_on_recording(options):
    one = played(GameBatch(60, VARIANT, seed=5, autoreset=True, recall=False), 60, all_shown)
    size = 60 if options else 7
    batch = GameBatch(size, VARIANT, seed=5, autoreset=True, recall=False, **options)
    for all_of_one, all_of_other in zip(one, played(batch, 60, all_shown), strict=True):
        for a, b in zip(all_of_one, all_of_other, strict=True):
            assert (a[:size] == b).all()


def copies_of(batch, file):
    """The same games again, by copy, pickle, state and file."""
    yield copy.deepcopy(batch)
    yield pickle.loads(pickle.dumps(batch))
    save_state(file, batch.get_state())
    for state in (batch.get_state(), load_state(file)):
        other = GameBatch(len(batch), batch.variant, seed=6, recall=False)
        other.set_state(state)
        yield other


def test_copies_and_states_go_on_identically(tmp_path):
    batch = GameBatch(40, VARIANT, seed=6, recall=False)
    rng = np.random.default_rng(6)
    for _ in range(9):
        rows = playing(batch)
        batch.step(random_legal(batch.masks[rows], rng), rows)
    for other in copies_of(batch, tmp_path / "state.npz"):
        assert (other.joint_observations() == batch.joint_observations()).all()
        assert (other.observations == batch.observations).all()
        rows = playing(batch)
        twin = copy.deepcopy(batch)
        for one in (twin, other):
            one.step(one.random_actions(rows), rows)
        assert (other.joint_observations() == twin.joint_observations()).all()


def test_a_state_fits_a_batch_with_recall_and_not_the_other_way_round():
    with_recall, without = (
        GameBatch(2, VARIANT, seed=7, recall=recall) for recall in (True, False)
    )
    with_recall.set_state(without.get_state())
    with pytest.raises(ValueError, match="state has no last_peeks; allowed: a state of games"):
        without.set_state(GameBatch(2, VARIANT, seed=7).get_state())


def a_peek():
    """A batch of a game in which seat 0 has just peeked, and its state."""
    batch = GameBatch(1, VARIANT, seed=0, recall=False)
    while batch.masks[0].argmax() >= MAX_SLOTS:
        batch.reset()
    batch.step([2])
    return batch, batch.get_state()


@pytest.mark.parametrize(
    ("field", "seat", "number"),
    [("faces", 0, 0), ("faces", 0, 13), ("faces", 1, 1), ("slots", 0, 2), ("slots", 0, 255)],
)
def test_last_peeks_that_cannot_occur_are_refused(field, seat, number):
    batch, state = a_peek()
    assert (state["last_peeks"]["slots"][0, 0], state["last_peeks"]["faces"][0, 0] > 0) == (3, True)
    batch.set_state(state)
    state["last_peeks"][field][0, seat] = number
    with pytest.raises(ValueError, match=f"last peek of seat {seat} in game 0 that cannot occur"):
        batch.set_state(state)


@pytest.mark.parametrize("wrong", [np.zeros(1), np.zeros((1, 6, 2), np.uint8), None])
def test_last_peeks_of_another_kind_are_refused(wrong):
    batch, state = a_peek()
    with pytest.raises(ValueError, match="state has last_peeks of"):
        batch.set_state({**state, "last_peeks": wrong})
    with pytest.raises(ValueError, match="state has last_peeks of"):
        batch.set_state({**state, "last_peeks": np.repeat(state["last_peeks"], 2)})


class Keeper:
    """A random opponent that keeps what it was shown."""

    def __init__(self, recall=None):
        self.seen = []
        if recall is not None:
            self.recall = recall

    def act(self, observations, masks, rng):
        self.seen.append(observations.copy())
        return cautious(masks)


def cautious(masks):
    """The last legal action of each row: a peek, or a discard, which ends no game early."""
    return masks.shape[1] - 1 - np.argmax(masks[:, ::-1], axis=1)


def games_of_one(recall, opponent, steps=6):
    """What a learner sees in the first steps of some games, which end none of them."""
    env = gymnasium.make("AllesKaese-v0", opponents=opponent, seat=0, recall=recall)
    seen = []
    for seed in range(5):
        seen.append(env.reset(seed=seed)[0])
        for step in range(steps):
            legal = np.flatnonzero(env.unwrapped.action_masks())
            is_peek = legal[0] < MAX_SLOTS
            seen.append(env.step(legal[step if is_peek else -1])[0])  # every time at another card
    return np.array(seen)


def test_opponents_know_as_much_as_ever_unless_they_say_that_they_do_not():
    knows, forgets, default = Keeper(True), Keeper(False), Keeper()
    learner = games_of_one(True, default)
    for opponent in (knows, forgets):
        assert (games_of_one(False, opponent) != learner).any()
    assert np.array_equal(knows.seen, default.seen)
    assert not np.array_equal(forgets.seen, default.seen)


@pytest.mark.parametrize("opponents", [Keeper(False), [Keeper(False)]])
def test_an_opponent_without_recall_is_refused_where_observations_recall(opponents):
    with pytest.raises(ValueError, match="made to play without recall; allowed: in games with"):
        gymnasium.make("AllesKaese-v0", opponents=opponents)
    env = AllesKaeseVecEnv(2)
    with pytest.raises(ValueError, match=r"opponents\[0\] is .* made to play without recall"):
        env.set_opponents([Keeper(False)], [1.0])


def test_all_apis_of_one_learner_show_the_same():
    """Random opponents in one compiled loop, event by event, in one game and in many."""
    options = {"num_players": 3, "seat": 1}
    one = gymnasium.make("AllesKaeseNoRecall-v0", **options)
    recorded = gymnasium.make("AllesKaeseNoRecall-v0", record=True, **options)
    many = gymnasium.make_vec(
        "AllesKaeseNoRecall-v0",
        num_envs=4,
        vectorization_mode="vector_entry_point",
        autoreset_mode="SameStep",
        **options,
    )
    sb3 = AllesKaeseVecEnv(4, recall=False, seed=9, **options)
    seen = [env.reset(seed=9)[0] for env in (one, recorded)]
    vectors, rows = many.reset(seed=9)[0], sb3.reset()
    rng = np.random.default_rng(9)
    for _ in range(40):
        assert seen[0].tobytes() == seen[1].tobytes()
        assert vectors.tobytes() == rows.tobytes()
        inner = one.unwrapped._games.batch
        assert seen[0].tobytes() == inner.observe(1).tobytes()
        action = int(random_legal(one.unwrapped.action_masks()[None], rng)[0])
        steps = [env.step(action) for env in (one, recorded)]
        seen = [step[0] for step in steps]
        if steps[0][2]:
            seen = [env.reset()[0] for env in (one, recorded)]
        actions = random_legal(many.unwrapped.action_masks(), rng)
        vectors, rows = many.step(actions)[0], sb3.step(actions)[0]

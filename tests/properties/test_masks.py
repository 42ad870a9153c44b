"""Masks over a million random plies: never empty for a seat that acts, and never wrong."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from builders import BURNS, PLAYERS, all_variants, mixed_states, name_of, random_legal

from alles_kaese_env import NUM_ACTIONS, GameBatch, Variant
from alles_kaese_env.core.records import DECISION, DISCARD, MAX_SLOTS, OVER, PEEK, TAKE
from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv

for_all_variants = pytest.mark.parametrize("variant", all_variants(), ids=name_of)


def expected_masks(games, row_size):
    """The mask invariant, from the backs in the row and the die alone (T2, T5, T7)."""
    matching = (games["row"] == games["die"][:, None]) & (games["row"] > 0)
    there = np.arange(MAX_SLOTS) < row_size
    masks = np.zeros((len(games), 3, MAX_SLOTS), bool)
    masks[:, PEEK] = there & ~matching.any(axis=1, keepdims=True)
    masks[:, TAKE] = masks[:, DISCARD] = matching
    masks[games["phase"] != DECISION] = False
    return masks.reshape(len(games), NUM_ACTIONS)


@pytest.mark.parametrize("burn", BURNS)
@pytest.mark.parametrize("players", PLAYERS)
def test_masks_over_random_plies(players, burn):
    """Over a million plies in all 15 cases: six peeks, or take and discard of k cards."""
    batch = GameBatch(700, Variant(num_players=players, burn=burn), seed=players, autoreset=True)
    rng = np.random.default_rng(players)
    for _ in range(100):
        counts = batch.masks.sum(axis=1)
        assert counts.min() > 0
        assert batch.masks.tobytes() == expected_masks(batch.games, 6).tobytes()
        peeks = batch.masks[:, :MAX_SLOTS].sum(axis=1)
        matching = (batch.games["row"] == batch.games["die"][:, None]).sum(axis=1)
        assert (peeks == 6 * (matching == 0)).all()
        assert (counts - peeks == 2 * matching).all()
        batch.step(random_legal(batch.masks, rng))


@for_all_variants
def test_masks_up_to_the_end_of_games(variant):
    """Without autoreset: no bit for a game that is over, the invariant for every other."""
    batch = mixed_states(variant, 400, seed=1)
    is_over = batch.games["phase"] == OVER
    assert is_over.any()
    assert not is_over.all()
    assert (batch.masks.any(axis=1) == ~is_over).all()
    assert batch.masks.tobytes() == expected_masks(batch.games, variant.row_size).tobytes()


@for_all_variants
def test_set_bits_are_accepted_and_clear_bits_refused_without_a_trace(variant):
    """All 18 actions in copies of sampled states; 5000 states in all variants."""
    batch = mixed_states(variant, 200, seed=2)
    state = batch.get_state()
    for action in range(NUM_ACTIONS):
        is_legal = batch.masks[:, action].copy()
        accepted = np.flatnonzero(is_legal)
        if len(accepted):
            batch.step(np.full(len(accepted), action), accepted)
            turns = state["games"]["turns"].astype(int) + is_legal
            assert (batch.games["turns"] == turns).all()
            batch.set_state(state)
        before = everything(batch)
        for row in np.flatnonzero(~is_legal):
            with pytest.raises(ValueError, match=f"action of game {row} is {action} "):
                batch.step([action], [row])
        assert everything(batch) == before


def everything(batch):
    """All bytes of a batch: what a refused action must leave as it is."""
    arrays = (batch.games, batch.streams, batch.seats, batch.observations, batch.masks)
    return b"".join(array.tobytes() for array in (*arrays, batch.over, batch.payoffs))


@for_all_variants
def test_one_illegal_action_stops_the_whole_step(variant):
    """No game of the batch is changed, wherever the illegal action stands."""
    batch = GameBatch(8, variant, seed=3)
    rng = np.random.default_rng(3)
    for row in range(8):
        before = everything(batch)
        actions = random_legal(batch.masks, rng)
        actions[row] = np.flatnonzero(~batch.masks[row])[0]
        with pytest.raises(ValueError, match=f"action of game {row} is"):
            batch.step(actions)
        assert everything(batch) == before


@pytest.mark.parametrize(
    "actions",
    [
        [-1, 0],
        [0, 18],
        [0, 2**31 - 1],
        [0, -(2**63)],
        [0, 255],
        [0],
        [0, 0, 0],
        [[0, 0]],
        0,
        [0.0, 0.0],
        [True, False],
        ["0", "1"],
        [None, 0],
        [float("nan"), 0],
        [],
    ],
)
def test_actions_that_are_none_are_refused_without_a_trace(actions):
    batch = GameBatch(2, seed=4)
    before = everything(batch)
    with pytest.raises(ValueError, match=r"actions? "):
        batch.step(actions)
    assert everything(batch) == before


def test_a_finished_game_takes_no_action():
    """Every action is refused, and the message says that the game is over."""
    batch = GameBatch(1, seed=5)
    rng = np.random.default_rng(5)
    while not batch.over[0]:
        batch.step(random_legal(batch.masks, rng))
    before = everything(batch)
    for action in range(NUM_ACTIONS):
        with pytest.raises(ValueError, match="the game is over"):
            batch.step([action])
    assert everything(batch) == before


# --- APIs with a learner -----------------------------------------------------------------------

# Here an opponent can end the game before the learner in the last seat has decided anything.
QUICK = {"num_players": 4, "trap_limit": 1}


def test_gymnasium_begins_with_a_decision():
    env = gymnasium.make("AllesKaese-v0", seat=3, **QUICK)
    for seed in range(60):
        _, info = env.reset(seed=seed)
        assert info["action_mask"].any()


def test_gymnasium_vector_env_begins_with_decisions():
    env = gymnasium.make_vec(
        "AllesKaese-v0", num_envs=100, vectorization_mode="vector_entry_point", seat=3, **QUICK
    )
    _, infos = env.reset(seed=0)
    assert infos["action_mask"].any(axis=1).all()


def test_stable_baselines3_vec_env_never_shows_an_empty_mask():
    env = AllesKaeseVecEnv(100, seat=3, seed=0, **QUICK)
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(20):
        masks = env.action_masks()
        assert masks.any(axis=1).all()
        env.step(random_legal(masks, rng))

"""Minari: recorded games are those of the core. What else `minari_dataset` does: test_record."""

from __future__ import annotations

import numpy as np
import pytest

from agents import make
from alles_kaese_env import GameBatch, Variant
from apis.helpers import GAMES_A_SEAT, SEATS_AT_TABLE, let_others_play

minari = pytest.importorskip("minari", reason="needs the extra minari")
from minari_dataset import record  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:minari")  # of metadata left out


def replay_episodes(players, seat, games, folder, monkeypatch):
    """Random games, recorded and loaded, through the core from the same seed."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    name = "alles-kaese/replayed-v0"
    record(make("random"), name, episodes=games, seed=seat, num_players=players, seat=seat)
    batch = GameBatch(1, Variant(num_players=players), seed=seat)
    episodes = list(minari.load_dataset(name).iterate_episodes())
    assert len(episodes) == games
    for episode in episodes:
        for step, action in enumerate(episode.actions):
            let_others_play(batch, seat)
            assert not batch.over[0]
            assert np.array_equal(episode.observations[step], batch.observations[0])
            assert np.array_equal(episode.infos["action_mask"][step], batch.masks[0])
            assert episode.rewards[step] == 0 or step == len(episode.actions) - 1
            batch.step([action])
        let_others_play(batch, seat)
        assert batch.over[0]
        assert episode.terminations[-1]
        assert np.array_equal(episode.observations[-1], batch.observe(seat)[0])
        assert episode.rewards[-1] == pytest.approx(batch.payoffs[0, seat], abs=1e-6)
        batch.reset()


@pytest.mark.parametrize("players", range(2, 7))
def test_recorded_games_are_those_of_the_core(players, tmp_path, monkeypatch):
    replay_episodes(players, players - 1, 5, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize(("players", "seat"), SEATS_AT_TABLE)
def test_a_thousand_recorded_games_are_those_of_the_core(players, seat, tmp_path, monkeypatch):
    replay_episodes(players, seat, GAMES_A_SEAT, tmp_path, monkeypatch)

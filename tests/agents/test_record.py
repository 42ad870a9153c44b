"""Datasets of `minari_dataset`: what was played is what is loaded, and it replays."""

from __future__ import annotations

import numpy as np
import pytest

from agents import make

minari = pytest.importorskip("minari", reason="needs the extra minari")
from minari_dataset import main, record  # noqa: E402

NAME = "alles-kaese/test-v0"

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:minari")  # of metadata left out


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def test_a_dataset_replays_in_the_environment_that_it_recovers():
    record(
        make("reference"),
        NAME,
        episodes=6,
        seed=4,
        num_players=3,
        opponents="reference",
    )
    dataset = minari.load_dataset(NAME)
    env = dataset.recover_environment()
    assert dataset.total_episodes == 6
    for episode in dataset.iterate_episodes():
        observation, info = env.reset(seed=None if episode.id else 4)
        masks = episode.infos["action_mask"]
        assert masks.shape == (len(episode.actions) + 1, 18)
        for step, action in enumerate(episode.actions):
            assert np.array_equal(episode.observations[step], observation)
            assert np.array_equal(masks[step], info["action_mask"])
            assert masks[step, action] == 1
            observation, reward, terminated, _, info = env.step(action)
            assert episode.rewards[step] == pytest.approx(reward)
            assert episode.terminations[step] == terminated
        assert terminated
        assert np.array_equal(episode.observations[-1], observation)
        assert not masks[-1].any()
        assert not episode.truncations.any()


def test_the_command_writes_a_dataset_and_keeps_one_that_is_there(capsys):
    arguments = ["random", "--episodes", "3", "--dataset", NAME]
    assert main(arguments) == 0
    assert "3 episodes" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "not taken" in capsys.readouterr().err
    assert minari.load_dataset(NAME).total_episodes == 3


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["--episodes", "0"], "episodes"),
        (["--opponents", "nobody"], "opponents"),
        (["--opponents", "random", "random", "--num-players", "2"], "opponents"),
        (["--dataset", "no version"], "no version"),
    ],
)
def test_wrong_use_is_one_line(wrong, named, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["random", "--episodes", "1", "--dataset", NAME, *wrong])
    assert stopped.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("python examples/minari_dataset.py: error:")
    assert named in line
    assert not minari.list_local_datasets()

"""The golden games are what they were; see games.py for how to write them anew."""

import pytest

from golden.games import FOLDER, GAMES, text_of


@pytest.mark.parametrize("name", GAMES)
def test_golden_game(name):
    wanted = (FOLDER / f"{name}.txt").read_text().splitlines()
    assert text_of(GAMES[name]).splitlines() == wanted


def test_every_file_is_a_game():
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(GAMES)

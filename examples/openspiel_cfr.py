"""OpenSpiel: CFR+ solves a small variant; prints its value and how exploitable the play is."""

from __future__ import annotations

import argparse

import pyspiel
from open_spiel.python.algorithms import cfr, expected_game_score, exploitability

import alles_kaese_env.envs.open_spiel  # noqa: F401 - registers the game

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=10)
options = parser.parse_args()

SMALL = "players=2,traps=1 1,copies=2 2,row_size=2,trap_limit=1"
game = pyspiel.load_game(f"python_alles_kaese({SMALL})")
solver = cfr.CFRPlusSolver(game)
for _ in range(options.iterations):
    solver.evaluate_and_update_policy()
average = solver.average_policy()
value = expected_game_score.policy_value(game.new_initial_state(), [average, average])
gap = exploitability.exploitability(game, average)
print(f"value of seat 0: {value[0]:+.4f}, exploitability: {gap:.5f}")

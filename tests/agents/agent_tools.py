"""What the tests of agents and training share: networks, positions, simple agents, processes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from builders import PLAYERS, mixed_states, playing

from agents.ppo.agent import PolicyNetwork
from alles_kaese_env import DISCARD, NUM_ACTIONS, OBSERVATION, TAKE, Variant

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "train.py", *sorted((ROOT / "agents").rglob("*.py"))]


# --- Networks and positions --------------------------------------------------------------------


def random_weights(seed=0, hidden=(32, 32)):
    """Weights of a policy that nobody has trained, with logits of about one."""
    rng = np.random.default_rng(seed)
    sizes = list(pairwise((OBSERVATION.size, *hidden)))
    layers = {
        f"mlp_extractor.{part}.{2 * number}": size
        for part in ("policy_net", "value_net")
        for number, size in enumerate(sizes)
    }
    layers |= {"action_net": (hidden[-1], NUM_ACTIONS), "value_net": (hidden[-1], 1)}
    weights = {}
    for name, (inputs, outputs) in layers.items():
        weights[f"{name}.weight"] = rng.normal(0, (2 / inputs) ** 0.5, (outputs, inputs))
        weights[f"{name}.bias"] = rng.normal(0, 0.5, outputs)
    return {name: array.astype(np.float32) for name, array in weights.items()}


def random_network(seed=0, hidden=(32, 32)):
    """A network with such weights."""
    return PolicyNetwork(random_weights(seed, hidden))


def positions(games, seed=0, players=PLAYERS):
    """Observations and masks of the seat to move at very different points of random games."""
    batches = [mixed_states(Variant(num_players=number), games, seed) for number in players]
    observations = [batch.observations[playing(batch)] for batch in batches]
    masks = [batch.masks[playing(batch)] for batch in batches]
    return np.concatenate(observations), np.concatenate(masks)


# --- Agents ------------------------------------------------------------------------------------


class Taker:
    """Takes the lowest matching slot, and peeks at the lowest if there is none."""

    def act(self, observations, masks, rng):
        return np.where(masks[:, TAKE * 6 : TAKE * 6 + 6].any(axis=1), masks.argmax(axis=1), 0)


class Discarder:
    """Never takes a card, so that it has no points and no traps."""

    def act(self, observations, masks, rng):
        discards = masks[:, DISCARD * 6 :]
        return np.where(discards.any(axis=1), DISCARD * 6 + discards.argmax(axis=1), 0)


# --- Statistics --------------------------------------------------------------------------------


def standard_error(score):
    """Of a share, from its 95 % interval, which is cut off at 0 and 1."""
    assert 0 < score.low < score.high < 1
    return (score.high - score.low) / 2 / 1.959964


def chi_square(counts, probabilities):
    """Pearson's statistic."""
    expected = np.sum(counts) * np.asarray(probabilities)
    return float(((counts - expected) ** 2 / expected).sum())


def chi_square_limit(freedom):
    """What the statistic exceeds with probability 1e-4 (Wilson and Hilferty)."""
    spread = 2 / (9 * freedom)
    return freedom * (1 - spread + 3.719 * spread**0.5) ** 3


# --- Sources and processes ---------------------------------------------------------------------


def imports_of(file):
    """The modules and names that a file imports, as (module, name); name None for `import x`."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            found += [(node.module, alias.name) for alias in node.names]
    return found


def start_python(*arguments, cwd=ROOT):
    """A fresh interpreter that finds the repository and ``cwd``, with its output in pipes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(cwd)])}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )


def run_python(*arguments, cwd=ROOT):
    """Exit code, output and errors of a fresh interpreter."""
    process = start_python(*arguments, cwd=cwd)
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


def assert_one_line_of_error(errors, command, *words):
    """One line, which comes from the command and holds the words."""
    assert errors.startswith(f"{command}: error: "), errors
    assert errors.count("\n") == 1, errors
    assert errors.endswith("\n")
    for word in words:
        assert word in errors

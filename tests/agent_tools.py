"""What the tests of agents and training share: networks, positions, simple agents, processes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from builders import PLAYERS, mixed_states, playing

from agents.ppo.agent import PolicyNetwork
from alles_kaese_env import DISCARD, NUM_ACTIONS, OBSERVATION, TAKE, Variant
from alles_kaese_env.core.loops import observe_games
from alles_kaese_env.core.observe import OBSERVATION_RECORD
from alles_kaese_env.core.records import CHEESE, DECISION, GAME, TRAP

ROOT = Path(__file__).parents[1]
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


LARGE = {
    players: Variant(num_players=players, traps=(6,) * 6, copies=(12,) * 6) for players in PLAYERS
}  # a deck from which any row can lie on the table


def observed(games, variant, seat=0):
    """What a seat sees of some games."""
    observations = np.zeros((len(games), OBSERVATION.size), np.float32)
    views = observations.view(OBSERVATION_RECORD).reshape(len(games))
    observe_games(games, variant.rules, np.full(len(games), seat), views)
    return observations


def situation(
    holes, chances, *, players=2, cards=20, own=(0, 0), others=(0, 0), seen=(), known=None,
    die=None, variant=None,
):  # fmt: skip
    """An observation (1, 253) and its mask, in a game by the rules of `LARGE`.

    Args:
        holes: of the six cards in the row.
        chances: their trap probabilities; of two unknown cards of as many holes they are equal.
        players: how many.
        cards: in the reserve.
        own, others: points and traps of the observer and of everybody else.
        seen: the slots that all others peeked at.
        known: the slots that the observer peeked at; None for those of probability 0 and 1.
        die: the roll; None for one that matches no card.
        variant: rules with the deck of `LARGE`, instead of it.
    """
    variant = variant or LARGE[players]
    rules, game = variant.rules[0], np.zeros(1, GAME)[0]
    known = [slot for slot in range(6) if chances[slot] in (0, 1)] if known is None else known
    game["phase"], game["turns"], game["reserve"], game["top"] = DECISION, 1, cards, 1
    game["die"] = die or next(number for number in range(1, 7) if number not in holes)
    game["row"], left = holes, 12 - np.bincount(holes, minlength=7)[1:]
    left[0] -= 1
    for card in range(cards - 1):
        place = np.arange(6)[left > 0][card % (left > 0).sum()]
        left[place] -= 1
        game["below"][place] += 1
    game["gone"] = left
    for seat in range(players):
        points, traps = own if seat == 0 else others
        taken = [6] * (points // 6) + [points % 6] * (points % 6 > 0)
        game["points"][seat], game["cheese"][seat], game["traps"][seat] = points, len(taken), traps
        game["taken"][seat, :6] = np.bincount(taken, minlength=7)[1:]
        game["taken"][seat, 6] = traps
    for slot, chance in enumerate(chances):
        if slot in known:
            game["front"][slot], game["peeked"][slot] = (TRAP if chance else CHEESE), 1
        else:
            share = Fraction(chance).limit_denominator(12)
            game["known"][0, holes[slot] - 1] = 6 - (share.denominator - share.numerator)
            game["known"][0, holes[slot] + 5] = 6 - share.numerator
        if slot in seen:
            game["peeked"][slot] |= 2**players - 2
    assert (game["known"][0] <= rules["fronts"]).all()
    mask = np.zeros((1, NUM_ACTIONS), bool)
    matching = [slot for slot in range(6) if holes[slot] == game["die"]]
    mask[0, [slot + kind for slot in matching for kind in (6, 12)] or range(6)] = True
    return observed(np.array([game]), variant), mask


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


def start_python(*arguments, cwd=ROOT, **options):
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
        **options,
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


def assert_refused(capsys, command, arguments, words):
    """``train.py`` with these arguments ends in one line that holds the words."""
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert_one_line_of_error(capsys.readouterr().err, "train.py", words)

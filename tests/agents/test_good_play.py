"""The measured answers about good play: what is counted, and what the command leaves."""

from __future__ import annotations

import json

import good_play
import numpy as np
import pytest
from agent_tools import positions

import agents
from alles_kaese_env import OBSERVATION, GameBatch, Variant
from alles_kaese_env.core.records import CHEESE, TRAP


@pytest.fixture(scope="module")
def decisions():
    return good_play.play(2, seed=0, games=60)


def test_the_risk_is_the_least_among_the_matching_cards(decisions):
    """By hand, one observation at a time."""
    for number in range(0, len(decisions.masks), 37):
        facts = OBSERVATION.facts(decisions.observations[number], Variant())
        matching = [
            chance
            for holes, chance in zip(facts["row"], facts["trap_probability"], strict=True)
            if holes == facts["die"] and holes
        ]
        assert decisions.risk[number] == min(matching, default=1)
        assert decisions.is_match[number] == bool(matching)
        assert decisions.traps[number] == facts["traps"][0]
        assert np.sign(decisions.lead[number]) == np.sign(facts["points"][0] - facts["points"][1])


def test_rates_of_the_reference_are_its_rule(decisions):
    """It takes up to a trap probability of 0.7, with two traps up to 0.1 (RULES, reference)."""
    actions = decisions.choices(agents.make("reference"), 0)
    none, one, two = good_play.take_rates(decisions, actions)
    assert set(none[:7]) | set(one[:7]) <= {1.0, None}
    assert set(none[7:]) | set(one[7:]) <= {0.0, None}
    assert set(two[1:]) <= {0.0, None}
    assert none[6] == 1.0
    assert good_play.differences(decisions, actions, actions) == dict.fromkeys(
        ("discard in another slot", "peek in another slot", "take in another slot"), 0.0
    )


def test_a_difference_says_what_is_done_and_what_the_guide_does(decisions):
    """Peeks stay, of two takes one becomes a discard in its slot."""
    guide = np.array([0, 6, 7])
    assert good_play.differences(decisions, np.array([0, 12, 7]), guide) == {
        "discard in another slot": 0.0,
        "discard instead of take": 1 / 3,
        "peek in another slot": 0.0,
        "take in another slot": 0.0,
    }


def test_who_forgets_sees_no_own_peek():
    """Known fronts look like any card of their back; what remains is as it was."""
    observations, masks = positions(200)
    seen = []

    class Spy:
        def act(self, observations, masks, rng):
            seen.append(observations.copy())
            return masks.argmax(axis=1)

    kept = observations.copy()
    good_play.Forgetful(Spy()).act(observations, masks, np.random.default_rng(0))
    assert (observations == kept).all()
    before, after = OBSERVATION.decode(observations), OBSERVATION.decode(seen[0])
    assert before["own_peeks"].any()
    copies = np.array(Variant().copies)
    unseen = copies - np.rint(before["known"].sum(axis=1) * copies)  # fronts, by back
    forgotten = before["own_peeks"].any(axis=2) & ~after["own_peeks"].any(axis=2)
    assert forgotten.any()
    assert (
        forgotten
        == before["own_peeks"].any(axis=2) & (before["row"] @ unseen[:, :, None] > 0)[:, :, 0]
    ).all()
    unknown = before["own_peeks"].sum(axis=2) == 0
    assert after["trap_probability"][unknown] == pytest.approx(before["trap_probability"][unknown])
    for name in before.keys() - {"own_peeks", "trap_probability"}:
        assert (before[name] == after[name]).all()


def test_random_peeks_are_legal_and_leave_other_moves():
    observations, masks = positions(300)
    agent = agents.make("heuristic")
    actions = good_play.RandomPeeks(agent).act(observations, masks, np.random.default_rng(0))
    own = agent.act(observations, masks, np.random.default_rng(0))
    assert masks[np.arange(len(masks)), actions].all()
    is_peek = own < 6
    assert (actions[~is_peek] == own[~is_peek]).all()
    assert (actions[is_peek] != own[is_peek]).mean() > 0.5


def test_cards_that_only_an_opponent_knows_are_counted_with_their_true_fronts(decisions):
    """By hand, one card at a time; a known front is not among them."""
    found = {}
    for observation, fronts in zip(decisions.observations, decisions.fronts, strict=True):
        facts = OBSERVATION.facts(observation, Variant())
        for slot, holes in enumerate(facts["row"]):
            if any(facts["opponent_peeks"][slot]) and not facts["front"][slot]:
                assert fronts[slot] in (CHEESE, TRAP)
                for name in (str(holes), "all"):
                    found.setdefault(name, []).append(
                        (facts["trap_probability"][slot], fronts[slot] == TRAP)
                    )
    answers = good_play.peeked_by_others(decisions)
    assert answers.keys() == found.keys()
    for name, cards in found.items():
        assert answers[name]["cards"] == len(cards)
        chances, traps = np.mean(cards, axis=0)
        assert answers[name]["I4"] == pytest.approx(chances, abs=1e-5)
        assert answers[name]["traps"] == pytest.approx(traps)


def test_the_command_leaves_answers_and_plots(tmp_path, monkeypatch):
    monkeypatch.setattr(good_play, "SHARE_GAMES", 60)
    out = tmp_path / "answers"
    arguments = ["--agents", "reference", "heuristic", "--games", "20", "--out", str(out)]
    assert good_play.main(arguments) == 0
    answers = json.loads((out / "answers.json").read_text())["agents"]
    assert list(answers) == ["reference", "heuristic"]
    assert len(answers["heuristic"]["seats"]["6"]) == 6
    assert sum(answers["heuristic"]["peeks"]["peeked"]) == pytest.approx(1)
    assert sorted(file.name for file in out.iterdir()) == ["answers.json", "peeks.svg", "take.svg"]


def test_wrong_use_ends_with_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        good_play.main(["--agents", "nobody", "--out", str(tmp_path / "answers")])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "answers").exists()


def test_the_heuristic_can_forget_in_any_game():
    """It plays by the odds. Here a mover has seen all fronts of the only back that matches."""
    batch, rng = GameBatch(1000, seed=10), np.random.default_rng(0)
    players = good_play.Forgetful(agents.make("heuristic")), agents.make("reference")
    while len(rows := np.flatnonzero(~batch.over)):
        seat = batch.seats[rows[0]]
        rows = rows[batch.seats[rows] == seat]
        batch.step(players[seat].act(batch.observations[rows], batch.masks[rows], rng), rows)

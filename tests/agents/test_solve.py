"""The solver of small variants, against OpenSpiel, a linear program and values by hand."""

from __future__ import annotations

import numpy as np
import pytest
from agent_tools import assert_one_line_of_error

import agents
from agents.solve import solution as solver
from agents.solve.__main__ import main
from agents.solve.solution import solve
from alles_kaese_env import NUM_ACTIONS, OBSERVATION, Variant

TINY = {"traps": (1, 1), "copies": (2, 2), "row_size": 2, "trap_limit": 1}
# Small enough for a linear program, and both seats have something to hide.
HIDDEN = {"traps": (0, 1), "copies": (2, 2), "row_size": 1, "trap_limit": 1}
VARIANTS = {
    "tiny": TINY,
    "hidden": HIDDEN,
    "burn turn": {**TINY, "burn": "turn", "traps": (1, 0)},
    "row of three": {**TINY, "copies": (2, 3), "row_size": 3, "trap_limit": 2},
}
OPTIONS = ["--traps", "1,1", "--copies", "2,2", "--trap-limit", "1"]


class Gambler:
    """A legal action that the generator draws."""

    def act(self, observations, masks, rng):
        return (masks * rng.random(masks.shape)).argmax(axis=1)


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def variant(request):
    return Variant(**request.param)


@pytest.fixture
def game(variant):
    reason = "OpenSpiel is not installed (extra openspiel)"
    pyspiel = pytest.importorskip("pyspiel", reason=reason)
    from alles_kaese_env.envs.open_spiel import SHORT_NAME, parameters_of

    return pyspiel.load_game(SHORT_NAME, parameters_of(variant))


# --- Against OpenSpiel, which knows nothing of subgames and sequence forms ------------------------


def walk(state, chance=1.0):
    """All states that can be reached, with the part of chance in their probability."""
    yield state, chance
    if state.is_chance_node():
        for outcome, probability in state.chance_outcomes():
            yield from walk(state.child(outcome), chance * probability)
    else:
        for action in state.legal_actions():
            yield from walk(state.child(action), chance)


def value_by_linear_program(game):
    """The value for seat 0, by the linear program of Koller, Megiddo and von Stengel (1996)."""
    reason = "SciPy is not installed (extra openspiel)"
    optimize = pytest.importorskip("scipy.optimize", reason=reason)
    sequences = [{(): 0}, {(): 0}]  # by the own information sets and actions on the way
    sets = [{}, {}]  # from an information set to the sequence before it and those after it
    payoffs = {}

    def visit(state, chance, own):
        if state.is_terminal():
            payoffs[own] = payoffs.get(own, 0) + chance * state.returns()[0]
        elif state.is_chance_node():
            for outcome, probability in state.chance_outcomes():
                visit(state.child(outcome), chance * probability, own)
        else:
            seat = state.current_player()
            known = state.information_state_string(seat)
            for action in state.legal_actions():
                after = len(sequences[seat])
                after = sequences[seat].setdefault((known, action), after)
                sets[seat].setdefault(known, (own[seat], set()))[1].add(after)
                assert sets[seat][known][0] == own[seat], "no perfect recall"
                visit(state.child(action), chance, (after, own[1]) if not seat else (own[0], after))

    visit(game.new_initial_state(), 1.0, (0, 0))
    matrix = np.zeros([len(one) for one in sequences])
    for own, payoff in payoffs.items():
        matrix[own] = payoff
    flows = []
    for seat in range(2):
        flow = np.zeros((1 + len(sets[seat]), len(sequences[seat])))
        flow[0, 0] = 1
        for row, (before, after) in enumerate(sets[seat].values(), start=1):
            flow[row, before] = -1
            flow[row, list(after)] = 1
        flows.append(flow)
    # max q[0] with a plan x of seat 0: F' q <= A' x, E x = e
    rows, columns = flows[1].shape
    plan = len(sequences[0])
    found = optimize.linprog(
        np.concatenate([np.zeros(plan), [-1], np.zeros(rows - 1)]),
        A_ub=np.hstack([-matrix.T, flows[1].T]),
        b_ub=np.zeros(columns),
        A_eq=np.hstack([flows[0], np.zeros((len(flows[0]), rows))]),
        b_eq=np.eye(len(flows[0]))[0],
        bounds=[(0, None)] * plan + [(None, None)] * rows,
    )
    assert found.success
    return -found.fun


def test_value_is_that_of_a_linear_program(variant, game):
    solution = solve(variant, gap=1e-6)
    assert solution.value == pytest.approx(value_by_linear_program(game), abs=2e-6)
    assert -1e-9 <= solution.gap <= 1e-6


def test_states_are_those_of_the_uncut_tree(variant, game):
    assert solve(variant).states == sum(1 for _ in walk(game.new_initial_state()))


@pytest.mark.parametrize("name", ["random", "greedy", "reference", "heuristic"])
def test_exploitability_is_that_of_openspiel(variant, game, name):
    import pyspiel

    agent = agents.make(name, variant)
    solution = solve(variant, {name: agent}, gap=1e-6)
    table = {}
    for state, _ in walk(game.new_initial_state()):
        if state.current_player() >= 0:
            legal = state.legal_actions()
            chances = [1 / len(legal)] * len(legal)
            if name != "random":
                mask = np.isin(np.arange(NUM_ACTIONS), legal)[None]
                seen = np.array([state.observation_tensor()], np.float32)
                chosen = agent.act(seen, mask, np.random.default_rng(0))[0]
                chances = [float(action == chosen) for action in legal]
            known = state.information_state_string()
            table[known] = list(zip(legal, chances, strict=True))
    nash_conv = pyspiel.nash_conv(game, pyspiel.TabularPolicy(table))
    assert sum(solution.exploited[name]) == pytest.approx(nash_conv, abs=1e-9)


# --- By itself ------------------------------------------------------------------------------------


def test_a_game_that_one_take_decides():
    # Backs 1 1 2 or 1 2 with no trap at all: nothing is hidden and the second card ends the game.
    # Row 1, reserve 1: seat 0 rolls once. On a match (1/2) it takes and wins, otherwise it peeks,
    # which burns the last card (E2), and nobody has points (P4).
    variant = Variant(traps=(0, 0), copies=(1, 1), row_size=1, trap_limit=1)
    solution = solve(variant, {"random": agents.make("random")}, gap=1e-9)
    assert solution.value == pytest.approx(0.5, abs=1e-9)
    # Random discards in half of the matches, and seat 1 has no turn.
    assert solution.exploited["random"] == pytest.approx((0.25, 0.0), abs=1e-9)


def test_threads_and_parts_change_nothing(monkeypatch):
    variant = Variant(**TINY | {"copies": (3, 3)})
    table = {name: agents.make(name, variant) for name in ("reference", "random")}
    one = solve(variant, table)
    monkeypatch.setattr(solver, "LEAVES_AT_ONCE", 100)
    monkeypatch.setattr(solver, "SETS_AT_ONCE", 7)
    assert solve(variant, table, threads=3) == one


def test_an_agent_that_plays_at_random_is_asked_often():
    solution = solve(Variant(**TINY), {"a": Gambler(), "random": agents.make("random")}, draws=4000)
    assert solution.exploited["a"] == pytest.approx(solution.exploited["random"], abs=0.02)


def test_what_is_measured_of_an_agent_does_not_depend_on_the_others():
    variant = Variant(**TINY)
    reference = agents.make("reference", variant)
    one = solve(variant, {"a": Gambler(), "b": reference}, draws=5).exploited
    other = solve(variant, {"b": reference, "a": Gambler()}, draws=5).exploited
    assert one == other
    assert one["a"] != solve(variant, {"c": Gambler()}, draws=5).exploited["c"]


def test_agents_see_observations_of_the_variant():
    seen = []

    class Spy:
        def act(self, observations, masks, rng):
            seen.append(observations)
            assert masks.any(axis=1).all()
            return masks.argmax(axis=1)

    variant = Variant(**TINY)
    solve(variant, {"spy": Spy()})
    for observation in np.concatenate(seen):
        facts = OBSERVATION.facts(observation, variant)
        assert facts["turn"] == 0
        in_row = np.bincount(facts["row"], minlength=7)[1:]
        on_top = np.arange(1, 7) == facts["top"]
        assert (facts["gone"] + in_row + on_top <= [2, 2, 0, 0, 0, 0]).all()


# --- Files and the command ------------------------------------------------------------------------


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    file = tmp_path / "solved.npz"
    variant = Variant(**TINY | {"copies": (3, 3)})
    table = {"reference": agents.make("reference", variant)}
    monkeypatch.setattr(solver, "LEAVES_AT_ONCE", 100)
    whole = solve(variant, table)
    kernel, parts = solver.solve_subgames, []

    def stopping(which, *args):
        if len(parts) == 5:
            raise KeyboardInterrupt
        parts.append(which)
        return kernel(which, *args)

    monkeypatch.setattr(solver, "solve_subgames", stopping)
    with pytest.raises(KeyboardInterrupt):
        solve(variant, table, file=file)
    monkeypatch.setattr(solver, "solve_subgames", lambda *args: parts.append(0) or kernel(*args))
    parts.clear()
    again = solve(variant, table, file=file)
    assert again == whole
    done = len(parts)
    parts.clear()
    assert solve(variant, table, file=file) == whole
    assert parts == []
    assert done > 0


def test_a_file_of_another_task_is_refused(tmp_path):
    file = tmp_path / "solved.npz"
    solve(Variant(**TINY), file=file)
    with pytest.raises(ValueError, match=r"allowed: .*trap_limit=2"):
        solve(Variant(**TINY | {"trap_limit": 2}), file=file)
    with np.load(file) as stored:
        arrays = dict(stored)
    np.savez(file, **arrays | {"done": arrays["done"][:-1]})
    with pytest.raises(ValueError, match=r"has done of \(18,\) bool; allowed: \(19,\) bool"):
        solve(Variant(**TINY), file=file)
    file.write_text("nonsense")
    with pytest.raises(ValueError, match=r"solved\.npz is no file of agents\.solve"):
        solve(Variant(**TINY), file=file)


def test_command(capsys):
    assert main(["random", "heuristic", *OPTIONS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "477 states in 19 subgames with 174 leaves and 44 information sets"
    assert lines[3] == "value: seat 0 +0.00000, seat 1 -0.00000"
    assert [line.split()[0] for line in lines[-2:]] == ["random", "heuristic"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--burn", "never"], ["burn", "'never'", "E3"]),
        (["--num-players", "3"], ["num_players is 3"]),
        (["--traps", "1;1"], ["--traps", "'1;1'"]),
        (["--traps", "1,9"], ["traps[1] is 9"]),
        (["--gap", "0"], ["--gap is 0"]),
        (["--threads", "0"], ["--threads is 0"]),
        (["nobody"], ["agent is 'nobody'"]),
        (["--save", "/no/such/place/x.npz"], ["--save is /no/such/place/x.npz"]),
    ],
)
def test_wrong_use_is_one_line(capsys, options, words):
    with pytest.raises(SystemExit) as exit_:
        main(options)
    assert exit_.value.code == 2
    assert_one_line_of_error(capsys.readouterr().err, "python -m agents.solve", *words)

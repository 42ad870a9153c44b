"""Playing and watching: the real programs in a terminal and in a window, with wrong input."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import time

import numpy as np
import pytest
from agent_tools import ROOT, assert_one_line_of_error, run_python

from agents import watch
from agents.play import __main__ as play
from agents.play.session import PlaySession
from agents.play.table import YOU, Table
from alles_kaese_env import Variant
from alles_kaese_env.actions import decode_action
from alles_kaese_env.core.records import DISCARD, PEEK, TAKE, TRAP, UNSEEN
from alles_kaese_env.replay import ALL, load, save

# --- The referee ---------------------------------------------------------------------------------


class Spy:
    """Plays the first legal action and keeps what it was given."""

    def __init__(self):
        self.given = []

    def act(self, observations, masks, rng):
        self.given.append((observations.copy(), masks.copy()))
        observations[:] = 0
        masks[:] = True
        return np.array([self.given[-1][1][0].argmax()])


def test_an_agent_gets_observations_alone_and_cannot_write_into_the_game():
    table = Table(["reference", "reference"], seed=1)
    spy = Spy()
    table._agents = [spy, spy]
    while not table.is_over:
        table.act(table.choose())
    replay = table.replay(ALL)
    for position, (turn, (observations, masks)) in enumerate(
        zip(replay.turns, spy.given, strict=True)
    ):
        assert observations[0].tobytes() == replay.observation(position, turn.seat).tobytes()
        assert masks.shape == (1, 18)


def test_an_agent_cannot_read_the_seed_of_the_deal_from_its_generator():
    table = Table(["random", "random"], seed=4321)
    assert table._rng.bit_generator.seed_seq.entropy != 4321
    assert table._rng.bit_generator.state != np.random.default_rng(4321).bit_generator.state


def test_two_people_are_refused():
    with pytest.raises(ValueError, match="one person at a table"):
        Table([YOU, YOU])


def test_a_hint_changes_nothing_that_comes_later():
    plain, asked = (Table(["random", "random"], seed=4) for _ in range(2))
    while not plain.is_over:
        asked.choose(Spy())
        plain.act(plain.choose())
        asked.act(asked.choose())
    assert plain.replay(ALL).games.tobytes() == asked.replay(ALL).games.tobytes()


# --- The terminal, by its pilot ------------------------------------------------------------------


def in_terminal(table, drive):
    """Let a coroutine drive the program; the app when it has ended."""
    pytest.importorskip("textual", reason="needs the extra play")
    from alles_kaese_env.viewer.terminal import Terminal

    app = Terminal(PlaySession(table, 0))

    async def run():
        async with app.run_test(size=(80, 30)) as pilot:
            await drive(app.session, pilot)

    asyncio.run(run())
    return app


async def turn_of_person(game, pilot):
    """Wait until the person has to decide or the game is over."""
    for _ in range(2_000):
        if game.table.is_persons_turn or game.table.is_over:
            await pilot.pause()
            return
        await pilot.pause(0.01)
    raise AssertionError("no turn")


def shown(pilot, where):
    return str(pilot.app.query_one(f"#{where}").render())


@pytest.mark.parametrize("names", [[YOU, "heuristic"], ["reference", "random", "greedy", YOU]])
def test_a_game_goes_to_its_end_whatever_is_pressed(names):
    async def drive(game, pilot):
        while not game.table.is_over:
            await turn_of_person(game, pilot)
            turns = len(game.table.replay().turns)
            if turns < 9:
                await pilot.press(*"x905ptq", "left", "right", "down", "tab")
            assert len(game.table.replay().turns) == turns
            assert game.table.is_over or game.table.mask[game.action]
            await pilot.press("enter")
        await pilot.press("enter", "h", "3", "down")
        assert "wins" in shown(pilot, "prompt") or "share" in shown(pilot, "prompt")
        await pilot.press("q")

    app = in_terminal(Table(names, seed=2), drive)
    assert app.return_code == 0


def settled(session):
    """Let agents move until the person has to act or the game is over."""
    for _ in range(2_000):
        session.tick(1.0)
        if session.table.is_persons_turn or session.table.is_over:
            return
        time.sleep(0.001)
    raise AssertionError("no turn")


def test_enter_alone_never_takes_a_known_trap_nor_peeks_at_a_known_card():
    known_traps = 0
    for seed in range(12):
        session = PlaySession(Table([YOU, "random"], seed=seed), 0)
        settled(session)
        while not session.table.is_over:
            front = session.view.front[session.slot]
            unseen = [front == UNSEEN for front in session.view.front]
            assert session.kind != TAKE or front != TRAP
            assert session.kind != PEEK or front == UNSEEN or not any(unseen)
            known_traps += session.kind == DISCARD
            session.press("enter")
            settled(session)
    assert known_traps > 0


def test_a_new_game_comes_after_the_last_and_the_help_at_any_time():
    session = PlaySession(Table([YOU, "random"], seed=1), 0)
    settled(session)
    session.press("n")
    assert session.note == "the game is not over yet"
    for key in ("f1", "question_mark"):
        session.press(key)
        assert session.is_help_shown
        session.press("enter")
        assert not session.is_help_shown
    assert not session.view.turns
    while not session.table.is_over:
        session.press("enter")
        settled(session)
    first = session.table.replay(ALL)
    session.press("f1")
    session.press("n")
    assert session.table.is_over
    session.press("n")
    settled(session)
    assert not session.table.is_over
    assert session.is_open
    assert session.table.replay(ALL).deal != first.deal


def test_what_was_peeked_at_stays_shown_and_nothing_else_does():
    async def drive(game, pilot):
        await turn_of_person(game, pilot)
        while decode_action(game.action)[0] != PEEK:
            await pilot.press("down", "enter")  # discard, so that the game goes on
            await turn_of_person(game, pilot)
        await pilot.press("enter")
        await turn_of_person(game, pilot)
        game = game.table.replay(0).games[-1]
        known = int((game["front"] > 0).sum())
        lines = shown(pilot, "board").splitlines()
        fronts = lines[8].split("cards")[0]
        assert known == 1
        assert fronts.count("TRAP") + fronts.count("cheese") == known

    in_terminal(Table([YOU, "heuristic"], seed=3), drive)


def test_illegal_keys_are_answered():
    async def drive(game, pilot):
        await turn_of_person(game, pilot)
        legal = game.legal()[1]
        while len(legal) == 6:
            await pilot.press("enter")
            await turn_of_person(game, pilot)
            legal = game.legal()[1]
        wrong = next(slot for slot in range(6) if slot not in legal)
        for key, action in ((str(wrong), f"take slot {wrong}"), ("p", f"peek slot {legal[0]}")):
            await pilot.press(key)
            answer = f"{action} is not legal now; allowed: take or discard slot"
            assert answer in shown(pilot, "prompt")

    in_terminal(Table([YOU, "heuristic"], seed=3), drive)


def test_a_hint_is_what_search_would_do(monkeypatch):
    class Last:
        def __init__(self, playouts, variant):
            assert variant == Variant.named("98k")

        def act(self, observations, masks, rng):
            return np.flatnonzero(masks[0])[-1:]

    pytest.importorskip("textual", reason="needs the extra play")
    monkeypatch.setattr("agents.play.session.SearchAgent", Last)

    async def drive(game, pilot):
        await turn_of_person(game, pilot)
        await pilot.press("h")
        for _ in range(500):
            if "hint: " in game.note:
                break
            await pilot.pause(0.01)
        assert game.action == np.flatnonzero(game.table.mask)[-1]
        assert "hint: " in shown(pilot, "prompt")

    in_terminal(Table([YOU, "heuristic"], seed=3, variant=Variant.named("98k")), drive)


# --- The window, by posted events ----------------------------------------------------------------


def test_a_game_in_the_window_with_the_mouse(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame = pytest.importorskip("pygame", reason="needs the extra render")
    from alles_kaese_env.viewer.window import GameWindow

    table = Table([YOU, "reference"], seed=5)
    session = PlaySession(table, 0)
    window = GameWindow(session)
    rng = np.random.default_rng(0)
    tick = session.tick
    ticks = []

    def click(place):
        pygame.event.post(pygame.event.Event(pygame.MOUSEBUTTONDOWN, button=1, pos=place))

    def drive(seconds):
        tick(1.0)
        ticks.append(len(session.view.turns))
        assert len(ticks) < 3_000
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_x))
        click((3, 3))  # neither a card nor a button
        if table.is_over:
            click(window.button_rects()[-1].center)
        elif table.is_persons_turn:
            labels = [label for label, _ in session.buttons]
            slot = int(rng.integers(6))
            click(window.slot_rects()[slot].center)
            if "discard" in labels:
                click(window.button_rects()[labels.index(rng.choice(["take", "discard"]))].center)

    monkeypatch.setattr(session, "tick", drive)
    assert window.run() == 0
    assert table.is_over
    assert len(session.view.turns) == ticks[-1] > 5


# --- The programs --------------------------------------------------------------------------------


def in_pty(arguments, keys, tmp_path):
    """Exit code, output and whether the terminal is as it was, of a program that gets keys."""
    import pty
    import termios

    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", *arguments],
        environment,
        setsid=True,
        file_actions=[(os.POSIX_SPAWN_DUP2, slave, number) for number in (0, 1, 2)],
    )
    output, keys = b"", list(keys)
    deadline = time.monotonic() + 200
    code = None
    while code is None and time.monotonic() < deadline:
        if select.select([master], [], [], 0.3)[0]:
            with contextlib.suppress(OSError):
                output += os.read(master, 65536)
        elif keys and b"quit" in output:  # the keys are on the screen, and it is quiet
            os.write(master, keys.pop(0))
        done, status = os.waitpid(pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if done else None
    if code is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    while select.select([master], [], [], 0.1)[0]:
        output += os.read(master, 65536)
    after = termios.tcgetattr(slave)
    os.close(master)
    os.close(slave)
    return code, output.decode(errors="replace"), before == after


@pytest.mark.posix
def test_ctrl_c_saves_the_game_and_leaves_the_terminal_in_order(tmp_path):
    pytest.importorskip("textual", reason="needs the extra play")
    path = tmp_path / "game.json"
    arguments = ["agents.play", "--opponents", "reference", "--seed", "1", "--save", str(path)]
    code, output, is_as_before = in_pty(
        [*arguments, "--view", "own", "--delay", "0"], [b"zq8", b"\r", b"\x03"], tmp_path
    )
    assert code == 130, output[-500:]
    assert is_as_before
    assert "Traceback" not in output
    assert output.rindex("\x1b[?1049l") > output.rindex("\x1b[?1049h")  # the screen before is back
    assert output.rindex("\x1b[?25h") > output.rindex("\x1b[?25l")  # and the cursor
    replay = load(path)
    assert replay.perspective == 0
    assert replay.names == (YOU, "reference")
    assert len(replay.turns) >= 1


@pytest.mark.posix
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp932", "utf-8"])
def test_no_encoding_of_a_terminal_stops_the_viewer(encoding, tmp_path, monkeypatch):
    pytest.importorskip("textual", reason="needs the extra play")
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    table = Table(["random", "random"], seed=1)
    path = tmp_path / "日本 é.json"
    save(table._batch.replay(names=["日本", "é"]), path)
    code, output, is_as_before = in_pty(["alles_kaese_env.viewer", str(path)], [b"lq"], tmp_path)
    assert code == 0, output[-500:]
    assert is_as_before
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("module", "arguments", "words"),
    [
        ("play", ["--opponents", "nobody"], ["nobody", "heuristic"]),
        ("play", ["--opponents", *["random"] * 6], ["number of players is 7"]),
        ("play", ["--opponents", "random", "--seat", "2"], ["--seat is 2"]),
        ("play", ["--opponents", "you", "--seat", "1"], ["--opponents has 'you'"]),
        ("play", ["--opponents", "random", "--save", "."], ["--save is ."]),
        ("watch", ["random", "random", "--save", "no/such/x.json"], ["--save is no/such/x.json"]),
        ("play", ["--seed", "-1"], ["seed is -1"]),
        ("play", ["--delay", "nan"], ["--delay is nan"]),
        ("play", ["--save", "no/such/place.json"], ["--save is no/such/place.json"]),
        ("play", [], ["no terminal"]),
        ("watch", ["random"], ["number of players is 1"]),
        ("watch", ["random", "random", "--variant", "98k", "--row-size", "6"], ["row_size is 6"]),
        ("watch", ["ppo", "random", "--variant", "98k"], ["ppo.npz was trained with"]),
        ("watch", ["you", "random"], ["agents.play"]),
        ("watch", [], ["AGENT"]),
    ],
)
def test_wrong_use_gets_one_line_and_code_2(module, arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main_of(module)(arguments)
    assert ended.value.code == 2
    assert_one_line_of_error(capsys.readouterr().err, f"python -m agents.{module}", *words)


def main_of(module):
    """The command of a module or of a package."""
    return {"play": play.main, "watch": watch.main}[module]


@pytest.mark.parametrize("module", ["play", "watch"])
def test_help_has_an_example(module, capsys):
    with pytest.raises(SystemExit) as ended:
        main_of(module)(["--help"])
    assert ended.value.code == 0
    assert f"example: python -m agents.{module} " in capsys.readouterr().out


def test_watch_prints_a_game_into_a_pipe_and_saves_it(tmp_path):
    path = tmp_path / "game.json"
    arguments = ["heuristic", "reference", "random", "--seed", "7", "--save", path, "--view", ALL]
    code, output, errors = run_python("-m", "agents.watch", *arguments)
    assert code == 0, errors
    replay = load(path)
    assert replay.is_over
    assert replay.perspective == ALL
    assert "FULL view" in errors
    assert len(output.splitlines()) == len(replay.turns) + 1


@pytest.mark.parametrize(
    ("module", "arguments", "missing", "extra"),
    [
        ("agents.watch", ["random", "random", "--window"], "pygame", "render"),
        ("agents.play", ["--window"], "pygame", "render"),
    ],
)
def test_a_missing_extra_is_named_with_its_install_line(module, arguments, missing, extra):
    block = f"import sys, runpy; sys.modules[{missing!r}] = None; sys.argv[1:] = {arguments!r}; "
    block += f"runpy.run_module({module!r}, run_name='__main__')"
    code, _, errors = run_python("-c", block)
    assert code == 2, errors
    assert f'pip install "alles-kaese[{extra}]"' in errors
    assert errors.splitlines()[-1].startswith(f"python -m {module}: error: ")


def test_an_illegal_action_changes_nothing():
    table = Table([YOU, "random"], seed=0)
    assert table.mask.any()
    with pytest.raises(ValueError, match="allowed now"):
        table.act(int(np.flatnonzero(~table.mask)[0]))
    assert not table.replay().turns

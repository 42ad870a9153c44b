"""Recorded games: the same states to the byte, files that hold no secret, hostile files, pages."""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import shutil
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from builders import PLAYERS, all_variants, name_of, stacked

import alles_kaese_env
from alles_kaese_env import PEEK, TAKE, AllesKaeseEnv, GameBatch, Variant, decode_action
from alles_kaese_env.core.loops import observe_games
from alles_kaese_env.core.observe import OBSERVATION_RECORD
from alles_kaese_env.core.records import DIE, GAME, GAME_FIELDS, MAX_HOLES, UNSEEN
from alles_kaese_env.replay import ALL, PUBLIC, Event, Replay, from_json, load, save, to_json
from alles_kaese_env.replay.file import MOST_BYTES
from alles_kaese_env.scripted import ScriptedDeal
from alles_kaese_env.viewer.__main__ import INTERRUPTED, main
from alles_kaese_env.viewer.page import page_of
from alles_kaese_env.viewer.session import TURN_SECONDS, ReplaySession
from alles_kaese_env.viewer.text import describe_turn, text_of
from alles_kaese_env.viewer.view import view_of_replay
from apis import helpers

BATCH_ARRAYS = ("games", "streams", "seats", "observations", "masks", "over", "payoffs")
PUBLIC_FIELDS = [name for name, _, _, who, _ in GAME_FIELDS if who == "all"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VARIANTS = pytest.mark.parametrize("variant", all_variants(), ids=name_of)


def played(variant, seed=0, plies=1_000, script=None):
    """A recorded game of random actions, and its records at each decision."""
    batch = GameBatch(1, variant, seed=seed, record=True)
    batch.reset(script=script)
    records = [batch.games[0].copy()]
    while len(records) <= plies and not batch.over[0]:
        batch.step(batch.random_actions())
        records.append(batch.games[0].copy())
    return batch, np.array(records, GAME)


def some_game(players=2, perspective=PUBLIC, **options):
    names = ["you", "heuristic", "ppo", "search:400", "reference", "random"][:players]
    batch, _ = played(Variant(num_players=players), **options)
    return batch.replay(perspective=perspective, names=names)


def perspectives(variant):
    return [PUBLIC, ALL, *range(variant.num_players)]


# --- Recording -----------------------------------------------------------------------------------


@VARIANTS
def test_recording_changes_no_game(variant):
    recorded, plain = (GameBatch(5, variant, seed=2, autoreset=True, record=r) for r in (1, 0))
    for _ in range(60):
        actions = plain.random_actions()
        assert np.array_equal(actions, recorded.random_actions())
        recorded.step(actions)
        plain.step(actions)
        for name in BATCH_ARRAYS:
            assert getattr(recorded, name).tobytes() == getattr(plain, name).tobytes(), name


def test_what_is_not_recorded_cannot_be_replayed():
    with pytest.raises(ValueError, match="record=True"):
        GameBatch(1).replay()
    batch = GameBatch(2, seed=0, record=True)
    for row, previous, message in ((2, False, "row is 2"), (0, True, "no previous game")):
        with pytest.raises(ValueError, match=message):
            batch.replay(row, previous=previous)
    batch.set_state(batch.get_state())
    with pytest.raises(ValueError, match="after the next reset"):
        batch.replay()
    batch.reset()
    assert len(batch.replay()) == 1


# --- Replaying -----------------------------------------------------------------------------------


@VARIANTS
@pytest.mark.parametrize("plies", [0, 7, 1_000])
def test_a_full_file_replays_to_the_same_bytes(variant, plies):
    for seed in range(5):
        batch, records = played(variant, seed, plies)
        replay = from_json(to_json(batch.replay(perspective=ALL)))
        assert replay.games.tobytes() == records.tobytes()
        assert replay.is_over == batch.over[0]
        assert np.float32(replay.payoffs()).tobytes() == batch.payoffs[0].tobytes()


def masked(records, variant, perspective):
    """What a perspective may know of the records (T3, I1, I2), said once more."""
    records = records.copy()
    for record in records:
        public = record["taken"].sum(axis=0)
        record["drawn"] = public
        for seat in range(variant.num_players):
            if seat == perspective:
                record["drawn"] = record["known"][seat]
            else:
                halves = record["known"][seat].reshape(2, MAX_HOLES)
                record["known"][seat] = [*halves.sum(axis=0), *[0] * MAX_HOLES]
        for slot in range(variant.row_size):
            is_mine = perspective != PUBLIC and record["peeked"][slot] >> perspective & 1
            if not is_mine:
                record["front"][slot] = UNSEEN
    return records


@VARIANTS
def test_other_files_replay_to_what_their_perspective_knows(variant):
    for seed in range(3):
        batch, records = played(variant, seed)
        for perspective in [PUBLIC, *range(variant.num_players)]:
            replay = from_json(to_json(batch.replay(perspective=perspective)))
            for name in PUBLIC_FIELDS:
                assert replay.games[name].tobytes() == records[name].tobytes(), name
            assert replay.games.tobytes() == masked(records, variant, perspective).tobytes()


@pytest.mark.parametrize("players", PLAYERS)
def test_a_seat_reads_the_same_observations_from_its_file(players):
    variant = Variant(num_players=players)
    batch, records = played(variant, 1)
    for seat in range(players):
        replay = from_json(to_json(batch.replay(perspective=seat)))
        for position, record in enumerate(records):
            views = np.zeros(1, OBSERVATION_RECORD)
            observe_games(record[None].copy(), variant.rules, np.array([seat]), views)
            assert replay.observation(position, seat).tobytes() == views.tobytes()
        with pytest.raises(ValueError, match="perspective"):
            replay.observation(0, (seat + 1) % players)


def test_a_perspective_cannot_be_widened():
    replay = some_game(3, perspective=1)
    assert to_json(replay.seen_by(PUBLIC)) == to_json(some_game(3))
    for wanted in (ALL, 0, 3, "everything", True, None):
        with pytest.raises(ValueError, match="perspective is"):
            replay.seen_by(wanted)


# --- Files hold no secret ------------------------------------------------------------------------


def peeking_file(fronts, perspective, tmp_path):
    """Both seats look at some fronts; the last of them is taken."""
    variant = Variant()
    first = "".join(f"3{front} " for front in fronts) + "1c 1c 1c 2c"
    script = ScriptedDeal(variant, stacked(variant, first), [6, 6, 6, 3])
    batch = GameBatch(1, variant, seed=0, record=True)
    batch.reset(script=script)
    for action in (0, 1, 2, TAKE * 6 + 2):
        batch.step([action])
    path = tmp_path / "game.json"
    save(batch.replay(perspective=perspective), path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("perspective", "is_same"), [(PUBLIC, True), (1, False), (0, True), (ALL, False)]
)
def test_fronts_that_only_seat_1_saw_stand_in_its_files_alone(perspective, is_same, tmp_path):
    """F1: the other world differs in the front that seat 1 peeked at, and in unseen ones."""
    one, other = (peeking_file(fronts, perspective, tmp_path) for fronts in ("tct", "ttt"))
    assert (one == other) is is_same


def test_a_taken_front_is_public_even_if_it_was_peeked_at(tmp_path):
    turns = json.loads(peeking_file("ttt", PUBLIC, tmp_path))["turns"]
    assert [turn.get("front") for turn in turns] == [None, None, None, "trap", None]


@pytest.mark.parametrize("players", PLAYERS)
def test_a_file_says_whether_it_holds_private_knowledge(players):
    for perspective in perspectives(Variant(num_players=players)):
        parts = json.loads(to_json(some_game(players, perspective)))
        assert parts["perspective"] == perspective
        assert parts["private"] is (perspective != PUBLIC)


@VARIANTS
def test_files_come_back_as_they_were(variant):
    batch, _ = played(variant, 4)
    for perspective in perspectives(variant):
        text = to_json(batch.replay(perspective=perspective))
        assert to_json(from_json(text)) == text
        assert len(text) < 20_000


# --- APIs ----------------------------------------------------------------------------------------


def last_record(replay):
    return replay.games[-1].tobytes()


@pytest.mark.parametrize("fields", helpers.VARIANTS.values(), ids=helpers.VARIANTS)
@pytest.mark.parametrize("opponents", ["random", helpers.FirstLegal()], ids=["random", "agent"])
def test_the_gymnasium_env_records(fields, opponents):
    plain, env = (AllesKaeseEnv(opponents=opponents, record=r, **fields) for r in (False, True))
    for episode in range(3):
        seed = None if episode else 5
        observation, info = env.reset(seed=seed)
        plain.reset(seed=seed)
        terminated = False
        while not terminated:
            action = helpers.pick(info["action_mask"], np.random.default_rng(0))
            observation, _, terminated, _, info = env.step(action)
            assert observation.tobytes() == plain.step(action)[0].tobytes()
        replay = env.replay(perspective=ALL)
        seat = replay.names.index("learner")
        assert last_record(replay) == env._games.batch.games[0].tobytes()
        assert replay.observation(-1, seat).tobytes() == observation.tobytes()
    assert env.replay(perspective=seat, previous=True).is_over


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_the_vector_env_records(mode):
    env = gym.make_vec(
        "AllesKaese-v0",
        4,
        "vector_entry_point",
        autoreset_mode=gym.vector.AutoresetMode[mode.upper()],
        num_players=3,
        record=True,
    )
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(25):
        before = env._games.batch.games.copy()
        masks = env.action_masks()
        actions = [helpers.pick(mask, rng) if mask.any() else 0 for mask in masks]
        _, _, terminated, _, _ = env.step(actions)
        for row in np.flatnonzero(terminated):
            replay = env.replay(row, perspective=ALL, previous=mode == "same_step")
            assert replay.is_over
            assert replay.games["turns"][-1] > before["turns"][row]
        if mode == "disabled" and terminated.any():
            env.reset(options={"reset_mask": terminated})
    for row in range(4):
        replay = env.replay(row, perspective=ALL)
        assert last_record(replay) == env._games.batch.games[row].tobytes()


@pytest.mark.parametrize("players", PLAYERS)
def test_the_pettingzoo_env_records(players):
    env = alles_kaese_env.alles_kaese_v0.env(num_players=players, record=True)
    env.reset(seed=3)
    rng = np.random.default_rng(0)
    for agent in env.agent_iter():
        observation, _, terminated, _, _ = env.last()
        env.step(None if terminated else helpers.pick(observation["action_mask"], rng))
        del agent
    replay = env.replay(perspective=ALL)
    assert replay.is_over
    assert last_record(replay) == env.unwrapped._batch.games[0].tobytes()


def test_the_sb3_env_records():
    sb3 = pytest.importorskip(
        "alles_kaese_env.envs.sb3", reason="extra train", exc_type=ImportError
    )
    env = sb3.AllesKaeseVecEnv(3, seed=0, record=True)
    plain = sb3.AllesKaeseVecEnv(3, seed=0)
    env.reset()
    plain.reset()
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(40):
        actions = helpers.picks(env.action_masks(), rng)
        observations, rewards, dones, _ = env.step(actions)
        same, same_rewards, _, _ = plain.step(actions)
        assert observations.tobytes() == same.tobytes()
        assert rewards.tobytes() == same_rewards.tobytes()
        for row in np.flatnonzero(dones):
            replay = env.replay(row, perspective=ALL, previous=True)
            seat = replay.names.index("learner")
            assert replay.payoffs()[seat] == pytest.approx(rewards[row])
            ended += 1
    assert ended


def test_a_game_without_a_turn_of_the_learner_is_no_previous_game():
    """In small variants such games are dealt anew; nobody has seen them."""
    fields = {"traps": (3, 3), "copies": (4, 4), "row_size": 2, "trap_limit": 1}
    env = AllesKaeseEnv(num_players=4, seat=3, record=True, **fields)
    _, info = env.reset(seed=0)
    for _ in range(40):
        terminated = False
        while not terminated:
            _, reward, terminated, _, info = env.step(int(info["action_mask"].argmax()))
        _, info = env.reset()
        previous = env.replay(perspective=ALL, previous=True)
        assert previous.payoffs()[3] == pytest.approx(reward)
        assert 3 in [turn.seat for turn in previous.turns]


# --- Files that are wrong ------------------------------------------------------------------------


def changed(**changes):
    def change(parts):
        parts.update(changes)

    return change


def in_turn(number, **changes):
    def change(parts):
        parts["turns"][number].update(changes)

    return change


def without(name, where=None):
    def change(parts):
        del (parts if where is None else parts["turns"][where])[name]

    return change


WRONG = {
    "another format": (changed(format="chess"), "format is 'chess'"),
    "a later format": (changed(format_version=2), "format_version is 2"),
    "true for 1": (changed(format_version=True), "format_version is True"),
    "other rules": (changed(rules_version=0), "rules_version is 0"),
    "an unknown field": (changed(code="print()"), "has 'code'"),
    "no variant": (without("variant"), "has no variant"),
    "a variant that is none": (changed(variant=[2]), "variant is"),
    "too many players": (lambda p: p["variant"].update(num_players=7), "num_players is 7"),
    "a nested number": (lambda p: p["variant"].update(traps=[[2]] * 6), "traps"),
    "no such seat": (changed(perspective=2), "perspective is 2"),
    "a perspective that is a list": (changed(perspective=[]), "perspective is"),
    "a lie about private": (changed(private=True), "private is True"),
    "a claim to know all": (changed(perspective=ALL, private=True), "allowed now: a front"),
    "too many names": (changed(names=["a"] * 3), "names is"),
    "a name that is no text": (changed(names=["a", 1]), "names"),
    "a name of two lines": (changed(names=["a", "b\nc"]), "names"),
    "no cards": (changed(deal=[]), "turns[0].die is a die; allowed now: a card"),
    "a card too many": (lambda p: p["deal"].append(1), "deal[7] is a card; allowed now: a die"),
    "no such card": (
        lambda p: p["deal"].__setitem__(0, 7),
        "deal[0] is 7; allowed: a whole number from 1 to 6",
    ),
    "more cards than copies": (changed(deal=[1] * 7), "deal[6] is 1; there is none left"),
    "a die of 0": (in_turn(0, die=0), "turns[0].die is 0; allowed: a whole number from 1 to 6"),
    "a die of text": (in_turn(0, die="4"), "turns[0].die is '4'"),
    "a die of 4.0": (in_turn(0, die=4.0), "turns[0].die is 4.0"),
    "no action": (without("action", 0), "turns[0] has no action"),
    "no such action": (in_turn(0, action="take slot 9"), "turns[0].action is 'take slot 9'"),
    "an action that is a number": (in_turn(0, action=4), "turns[0].action is 4"),
    "a front of a peek": (
        lambda p: p["turns"][first(p, PEEK)].update(front="trap"),
        "front is a front; allowed now",
    ),
    "no front of a take": (lambda p: p["turns"][first(p, TAKE)].pop("front"), "a front"),
    "turns missing": (lambda p: p["turns"].pop(3), "due"),
    "turns after the end": (lambda p: p["turns"].append({"die": 1}), "since the game is over"),
    "turns that are none": (changed(turns={}), "turns is {}"),
    "a turn that is none": (lambda p: p["turns"].__setitem__(2, 5), "turns[2] is 5"),
    "nothing": (lambda p: p.clear(), "format is None"),
}


def first(parts, kind):
    """The first turn with this kind of action, whose card nobody saw before if it is a take."""
    word = {PEEK: "peek", TAKE: "take"}[kind]
    return next(k for k, turn in enumerate(parts["turns"]) if word in turn.get("action", ""))


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_gets_one_line(change, message, tmp_path, capsys):
    parts = json.loads(to_json(some_game()))
    change(parts)
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(parts))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    with pytest.raises(SystemExit) as ended:
        main([str(path)])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"format": 1' + b"0" * 10_000 + b"}",
        b'{"format": 1, "format": 2}',
        b"null",
        b"NaN",
        b" " * (MOST_BYTES + 1),
    ],
    ids=["empty", "no text", "deep", "huge number", "twice", "null", "NaN", "huge"],
)
def test_what_is_no_replay_gets_one_line(data, tmp_path):
    path = tmp_path / "wrong.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"wrong\.json: ") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_file_cut_anywhere_is_refused():
    text = to_json(some_game()).rstrip()
    for length in range(0, len(text) - 1, 7):
        with pytest.raises(ValueError, match="no JSON"):
            from_json(text[:length])


def test_any_other_number_in_a_full_file_is_refused_or_another_game():
    """Random changes never lead anywhere else than to a game that can happen, or to a refusal."""
    rng = np.random.default_rng(0)
    text = to_json(some_game(perspective=ALL))
    places = [match.span() for match in re.finditer(r"\b\d+\b", text)]
    refused = 0
    for start, stop in (places[k] for k in rng.integers(0, len(places), 150)):
        other = text[:start] + str(rng.integers(0, 9)) + text[stop:]
        try:
            replay = from_json(other)
        except ValueError:
            refused += 1
            continue
        assert to_json(replay).split() == other.split()
    assert refused > 50


def test_events_are_checked_in_their_order():
    with pytest.raises(ValueError, match="ends where a card is due"):
        Replay(Variant(), [])
    with pytest.raises(ValueError, match="event is a die; allowed now: a card"):
        Replay(Variant(), [Event(DIE, 0)])


# --- Words, pages, terminal, films ---------------------------------------------------------------


@pytest.mark.parametrize("players", [2, 6])
def test_words_tell_what_the_records_say(players):
    replay = some_game(players, ALL)
    for number, turn in enumerate(replay.turns):
        words = describe_turn(view_of_replay(replay), turn)
        kind, slot = decode_action(turn.action)
        assert f"seat {turn.seat} " in words
        assert f"slot {slot} " in words
        gone = [game["gone"].sum() for game in replay.games[number : number + 2]]
        assert ("burned" in words) == (gone[1] - gone[0] > (kind != PEEK))
        if kind == TAKE:
            is_trap = replay.games["traps"][number + 1].sum() > replay.games["traps"][number].sum()
            assert words.count("TRAP" if is_trap else "cheese") == 1


def test_a_page_needs_nothing_else_and_runs_nothing_strange():
    evil = ["</script><script>alert(1)</script>", "<img onerror=a()>"]
    replay = played(Variant())[0].replay(names=evil)
    page = page_of(replay)
    assert page.count("<script") == 2
    assert "<img" not in page
    assert "innerHTML" not in page
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\bsrc=|@import|url\((?!#)", page)


def in_chromium(page, tmp_path, *flags):
    """What headless Chromium says about a page, which it opens with a fresh profile."""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--hide-scrollbars",
        *flags, page,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("players", [2, 6])
def test_a_browser_shows_the_page(players, tmp_path):
    from matplotlib.image import imread

    replay = some_game(players)
    path = tmp_path / "game.html"
    path.write_text(page_of(replay), encoding="utf-8")
    where = f"{path.as_uri()}#9"
    dom = in_chromium(where, tmp_path, "--dump-dom")
    assert f"9 of {len(replay) - 1} turns" in dom
    assert describe_turn(view_of_replay(replay), replay.turns[8]) in dom
    assert dom.count('class="mouse"') >= 2 * players
    shot = tmp_path / "shot.png"
    in_chromium(where, tmp_path, f"--screenshot={shot}", "--window-size=1120,960")
    picture = imread(shot)
    assert picture.shape[:2] == (960, 1120)
    cheese = np.abs(picture[..., :3] - np.array([0.97, 0.78, 0.29])).max(axis=2) < 0.12
    assert cheese[180:340].mean() > 0.1  # the cards of the row


ASK = """<script>
const answers = {};
const rect = (node) => node.getBoundingClientRect();
const all = (selector) => [...document.querySelectorAll(selector)].map(rect);
const press = (key, target, options = {}) => {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...options });
  target.dispatchEvent(event);
  return event.defaultPrevented;
};
%s
document.title = JSON.stringify(answers);
</script></body>"""


def asked(page, script, tmp_path, *flags):
    """What a script finds in a page."""
    path = tmp_path / "asked.html"
    path.write_text(page.replace("</body>", ASK % script), encoding="utf-8")
    dom = in_chromium(f"{path.as_uri()}#8", tmp_path, "--dump-dom", *flags)
    return json.loads(html.unescape(re.search("<title>(.*?)</title>", dom)[1]))


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("size", [(500, 844), (800, 600), (1280, 800)])
def test_a_page_fits_a_phone_and_a_small_window(size, tmp_path):
    """Chromium's windows are 500 wide at least."""
    script = """
    answers.width = innerWidth; answers.height = innerHeight;
    answers.scroll = document.documentElement.scrollWidth;
    answers.controls = rect(document.querySelector(".controls")).bottom;
    answers.slots = all(".slot").map((box) => Math.round(box.top));
    answers.columns = new Set(all(".seat").map((box) => Math.round(box.left))).size;
    answers.parts = all(".seat .who, .seat .points").map((box) => [box.left, box.right, box.width]);
    """
    page = page_of(some_game(6))
    answers = asked(page, script, tmp_path, f"--window-size={size[0]},{size[1]}")
    assert answers["scroll"] <= answers["width"]
    assert answers["controls"] <= answers["height"]
    assert len(answers["slots"]) == 6
    assert len(set(answers["slots"])) == 1
    assert answers["columns"] == {500: 1, 800: 2, 1280: 3}[size[0]]
    for left, right, width in answers["parts"]:
        assert 0 <= left < right <= answers["width"]
        assert width > 20


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_keys_of_a_page_leave_those_of_the_browser(tmp_path):
    script = """
    answers.hash = [location.hash];
    answers.back = press("ArrowLeft", document.body, { altKey: true });
    answers.hash.push(location.hash);
    answers.right = press("ArrowRight", document.body);
    answers.hash.push(location.hash);
    answers.space = press(" ", byId("next"));
    answers.playing = byId("play").textContent;
    const entries = [...document.querySelectorAll("#log button")];
    answers.future = entries.slice(10).map((entry) => entry.lastChild.textContent);
    entries[3].focus(); entries[3].click();
    answers.focused = document.activeElement === entries[3];
    answers.hash.push(location.hash);
    press("End", document.body);
    answers.end = entries.at(-1).lastChild.textContent;
    """
    replay = some_game(2)
    answers = asked(page_of(replay), script, tmp_path)
    assert answers["hash"] == ["#8", "#8", "#9", "#3"]
    assert (answers["back"], answers["right"], answers["space"]) == (False, True, False)
    assert "Play" in answers["playing"]
    assert answers["focused"]
    last = len(replay) - 1
    assert answers["future"] == [f"turn {k}" for k in range(10, last + 1)]
    assert answers["end"] == describe_turn(view_of_replay(replay), replay.turns[-1])


def test_the_terminal_steps_forwards_and_backwards():
    pytest.importorskip("textual", reason="extra play")
    from alles_kaese_env.viewer.terminal import Terminal, board_text

    replay = some_game(6, 1)
    app = Terminal(ReplaySession(replay))

    def shown():
        return str(app.query_one("#board").render())

    async def press():
        async with app.run_test(size=(80, 30)) as pilot:
            for key, position in (
                ("right", 1), ("right", 2), ("left", 1), ("x", 1), ("9", 1),
                ("end", len(replay) - 1),
                ("right", len(replay) - 1), ("home", 0), ("left", 0),
            ):  # fmt: skip
                await pilot.press(key)
                assert app.session.position == position, key
                assert shown() == board_text(view_of_replay(replay, position)).plain
            await pilot.press("ctrl+c")

    asyncio.run(press())
    assert app.return_code == INTERRUPTED


def test_the_terminal_keeps_the_newest_turn_in_sight_and_says_what_size_it_needs():
    pytest.importorskip("textual", reason="extra play")
    from alles_kaese_env.viewer.terminal import Terminal

    replay = some_game(6, 1)
    app = Terminal(ReplaySession(replay))

    async def look():
        async with app.run_test(size=(80, 24)) as pilot:
            log, board = app.query_one("#log"), app.query_one("#board")

            async def until(is_drawn):
                """Let ticks pass, any number of them on a busy machine."""
                for _ in range(200):
                    if is_drawn():
                        return True
                    await pilot.pause(0.05)
                return False

            await pilot.press("end")
            for size in ((80, 24), (100, 30), (80, 22)):
                await pilot.resize_terminal(*size)
                assert await until(lambda: log.scroll_y == log.max_scroll_y > 0)
                assert await until(lambda: "reserve" in str(board.render()))
                assert app.session.position == len(replay) - 1
            for size in ((79, 30), (100, 20)):
                await pilot.resize_terminal(*size)
                words = f"needs 80 columns and 21 rows; the terminal has {size[0]} and"
                assert await until(lambda words=words: words in str(board.render()))
            await pilot.resize_terminal(80, 24)
            await pilot.press("f1")
            assert "Any key closes this help" in str(board.render())
            await pilot.press("left")
            assert "reserve" in str(board.render())
            assert app.session.position == len(replay) - 1
            await pilot.press("escape")

    asyncio.run(look())
    assert not app.session.is_open


def test_cards_are_told_apart_without_colours():
    pytest.importorskip("rich", reason="extra play")
    from alles_kaese_env.viewer.terminal import board_text

    replay = some_game(2)
    views = [view_of_replay(replay, position) for position in range(len(replay) - 1)]
    for view in views:
        edges = board_text(view, chosen=0).plain.splitlines()[3].split()
        assert edges[0].startswith("┏")
        matching = [slot for slot, edge in enumerate(edges[1:6], 1) if edge.startswith("╔")]
        assert matching == [slot for slot in view.matching if slot > 0]
    assert any(view.matching for view in views)


@pytest.mark.parametrize("players", PLAYERS)
def test_the_table_fits_the_terminal(players):
    pytest.importorskip("rich", reason="extra play")
    from alles_kaese_env.viewer.terminal import board_text

    replay = some_game(players, ALL)
    for position in range(len(replay)):
        lines = board_text(view_of_replay(replay, position)).plain.splitlines()
        assert max(map(len, lines)) <= 78
        assert len(lines) == 10 + players


@pytest.fixture
def pygame(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    return pytest.importorskip("pygame", reason="needs the extra render")


def test_the_window_steps_forwards_and_backwards(pygame):
    from alles_kaese_env.viewer.window import GameWindow

    replay = some_game(4)
    last = len(replay) - 1
    session = ReplaySession(replay)
    window = GameWindow(session)
    for key, position in (
        (pygame.K_RIGHT, 1), (pygame.K_RIGHT, 2), (pygame.K_LEFT, 1), (pygame.K_x, 1),
        (pygame.K_END, last), (pygame.K_RIGHT, last), (pygame.K_HOME, 0),
    ):  # fmt: skip
        window.answer(pygame.event.Event(pygame.KEYDOWN, key=key))
        assert session.position == position

    def click_or_close(seconds):
        """Click on "next" until the window shows turn 3, then close it."""
        forward = window.button_rects()[2].center
        click = pygame.event.Event(pygame.MOUSEBUTTONDOWN, button=1, pos=forward)
        is_there = session.position >= 3
        pygame.event.post(pygame.event.Event(pygame.QUIT) if is_there else click)

    session.tick = click_or_close
    assert window.run() == 0
    assert session.position == 3


def test_a_replay_plays_by_itself_and_begins_anew_at_its_end():
    session = ReplaySession(some_game(), is_playing=True)
    for _ in range(session.last):
        assert session.is_playing
        session.tick(TURN_SECONDS)
    assert session.position == session.last
    assert not session.is_playing
    session.press("space")
    assert session.position == 0
    session.tick(TURN_SECONDS / 2)
    assert session.position == 0
    session.tick(TURN_SECONDS / 2)
    assert session.position == 1
    session.press("space")
    session.tick(TURN_SECONDS)
    assert session.position == 1


def test_a_gif_of_a_whole_game_is_small_enough_to_send(pygame, tmp_path):
    pytest.importorskip("moviepy", reason="needs the extra render")
    from PIL import Image

    from alles_kaese_env.viewer.film import pictures, save_gif

    replay = some_game(2)
    save_gif(replay, tmp_path / "game.gif")
    assert (tmp_path / "game.gif").stat().st_size < 1_000_000
    with Image.open(tmp_path / "game.gif") as film:
        for position, picture in enumerate(pictures(replay)):
            film.seek(position)
            error = np.abs(np.asarray(film.convert("RGB")).astype(int) - picture)
            assert error.mean() < 3
            assert np.percentile(error, 99.9) < 40  # small marks keep their colours


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array:DeprecationWarning")
def test_gif_and_mp4_show_each_position(pygame, tmp_path):
    pytest.importorskip("moviepy", reason="needs the extra render")
    from moviepy import VideoFileClip
    from PIL import Image

    path, gif, mp4 = (tmp_path / name for name in ("game.json", "game.gif", "game.mp4"))
    batch, _ = played(Variant(), plies=4)
    save(batch.replay(), path)
    assert main([str(path), "--gif", str(gif), "--mp4", str(mp4)]) == 0
    with Image.open(gif) as picture:
        assert picture.n_frames == 5
        assert picture.size == (1024, 640)
    with VideoFileClip(str(mp4)) as film:  # moviepy's reader is what NumPy 2.5 warns of
        assert list(film.size) == [1024, 640]
        assert film.duration == pytest.approx(4 * 1.2 + 4, abs=0.2)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["game.gif", "game.json", "game.mp4"]


# --- The command ---------------------------------------------------------------------------------


def test_the_command_writes_a_page_and_says_what_the_file_holds(tmp_path, capsys):
    path, page = tmp_path / "game.json", tmp_path / "game.html"
    save(some_game(2, ALL), path)
    assert main([str(path), "--html", str(page)]) == 0
    assert "FULL view" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == page_of(load(path))


def test_the_command_prints_turns_into_a_pipe(tmp_path, capsys):
    path = tmp_path / "game.json"
    replay = some_game(3)
    save(replay, path)
    assert main([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(replay.turns) + 1
    assert "wins" in lines[-1] or "share" in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "FILE"),
        (["no/such/file.json"], "No such file"),
        (["GAME", "--open"], "--html"),
        (["GAME", "--html", "no/such/directory/x.html"], "--html is no/such/directory/x.html"),
        (["GAME", "--html", "."], "--html is ."),
        (["GAME", "--html", ""], "--html is ."),
        pytest.param(
            ["GAME", "--mp4", "/dev/null/x.mp4"],
            "--mp4 is /dev/null/x.mp4",
            marks=pytest.mark.posix,
        ),
        (["GAME", "--wrong"], "--wrong"),
    ],
)
def test_wrong_use_gets_one_line_and_code_2(arguments, words, tmp_path, capsys):
    path = tmp_path / "game.json"
    save(some_game(), path)
    with pytest.raises(SystemExit) as ended:
        main([str(path) if word == "GAME" else word for word in arguments])
    assert ended.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("python -m alles_kaese_env.viewer: error: ")
    assert words in last


def test_the_command_runs_as_a_module(tmp_path):
    path = tmp_path / "game.json"
    save(some_game(), path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "alles_kaese_env.viewer", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.count("\n") == len(load(path).turns) + 1


def test_all_outputs_are_checked_before_the_first_is_written(tmp_path):
    path, page = tmp_path / "game.json", tmp_path / "game.html"
    save(some_game(), path)
    with pytest.raises(SystemExit):
        main([str(path), "--html", str(page), "--gif", "no/such/directory/x.gif"])
    assert not page.exists()


def test_an_output_that_fails_leaves_the_others(tmp_path, monkeypatch, capsys):
    """The disk is full when the page is written."""
    pytest.importorskip("moviepy", reason="needs the extra render")
    path, page, gif = (tmp_path / name for name in ("game.json", "game.html", "game.gif"))
    save(played(Variant(), plies=1)[0].replay(), path)
    page.write_text("old")

    def full(replay, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("alles_kaese_env.viewer.__main__.save_page", full)
    with pytest.raises(SystemExit) as ended:
        main([str(path), "--html", str(page), "--gif", str(gif)])
    assert ended.value.code == 2
    assert "No space left" in capsys.readouterr().err.splitlines()[-1]
    assert page.read_text() == "old"
    assert gif.stat().st_size > 1_000


def test_ctrl_c_gets_one_line_and_leaves_what_was_there(tmp_path, monkeypatch, capsys):
    path, page = tmp_path / "game.json", tmp_path / "game.html"
    save(some_game(), path)
    page.write_text("old")

    def interrupted(replay):
        raise KeyboardInterrupt

    monkeypatch.setattr("alles_kaese_env.viewer.page.page_of", interrupted)
    assert main([str(path), "--html", str(page)]) == 130
    assert capsys.readouterr().err.count("\n") == 2
    assert page.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("encoding", "locale"),
    [("ascii", "C"), ("cp1252", "C.UTF-8"), ("cp932", "C.UTF-8"), ("utf-8", "C")],
)
def test_no_encoding_stops_the_command(encoding, locale, tmp_path):
    """Its options, paths and names hold letters that the encoding of the output may lack."""
    path, page = tmp_path / "日本 é.json", tmp_path / "日本 é.html"
    save(played(Variant())[0].replay(names=["日本", "é…"]), path)
    options = {"PYTHONIOENCODING": encoding, "LC_ALL": locale, "PYTHONCOERCECLOCALE": "0"}
    for arguments in (["--help"], [path], [path, "--html", page]):
        done = subprocess.run(
            [sys.executable, "-m", "alles_kaese_env.viewer", *map(str, arguments)],
            env={**os.environ, **options, "PYTHONUTF8": "0"},
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
    assert page.read_text(encoding="utf-8") == page_of(load(path))


# --- Names that are too long or strange ----------------------------------------------------------


def test_names_of_any_length_are_shown_shortened_and_lose_no_game(tmp_path):
    """A run directory names itself with more letters than a file of a game holds."""
    pytest.importorskip("textual", reason="extra play")
    from alles_kaese_env.viewer.terminal import board_text, log_text

    long = "ppo:runs/ppo-2-4-6p-seed0-2026-12-02-with-a-long-description/checkpoint-final"
    batch, _ = played(Variant())
    replay = batch.replay(names=[long, "a\nb\udc80" * 30])
    save(replay, tmp_path / "game.json")
    assert load(tmp_path / "game.json").names == replay.names
    assert all(len(name) == 40 and name.isprintable() for name in replay.names)
    assert replay.names[0].endswith("/checkpoint-final")
    view = view_of_replay(replay)
    assert "checkpoint-final)" in log_text(view).plain
    assert max(map(len, board_text(view).plain.splitlines())) <= 78
    assert max(map(len, text_of(view).splitlines())) <= 80
    assert "checkpoint-final" in page_of(replay)


def test_a_name_that_is_no_text_is_refused():
    batch, _ = played(Variant())
    for names in (["a"], [1, 2], ["a", ""], "ab"):
        with pytest.raises(ValueError, match="names"):
            batch.replay(names=names)

"""Text, pictures, windows and films: what they show, and that they show nothing else."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from builders import PLAYERS, mixed_states, name_of, play_random_plies, small_variants
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordVideo
from properties.test_leaks import swap_states

import alles_kaese_env
from alles_kaese_env import AllesKaeseEnv, AllesKaeseVectorEnv, GameBatch, Variant, alles_kaese_v0
from alles_kaese_env.core.records import CHEESE, OVER, TAKE, TRAP, UNSEEN
from alles_kaese_env.viewer.text import describe_turn, text_of
from alles_kaese_env.viewer.view import view_of, view_of_replay

REASON = "needs the extra render"
SHAPE = (640, 1024, 3)
APIS = {
    "gym": AllesKaeseEnv,
    "aec": alles_kaese_v0.raw_env,
    "vector": AllesKaeseVectorEnv,
}
VARIANTS = [*map(Variant, PLAYERS), *small_variants(2), *small_variants(5)]


@pytest.fixture
def picture(monkeypatch):
    """The module that draws; a window, if any, goes nowhere."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pytest.importorskip("pygame", reason=REASON)
    from alles_kaese_env.viewer import picture

    return picture


@pytest.fixture
def no_waiting(picture, monkeypatch):
    """Windows show their frames without a pause."""

    class Clock:
        def tick(self, rate):
            assert rate > 0

    monkeypatch.setattr(picture.pygame.time, "Clock", Clock)


def recorded(variant, plies, seed=0):
    """A batch of one recorded game after some random turns."""
    batch = GameBatch(1, variant, seed=seed, record=True)
    rng = np.random.default_rng(seed)
    for _ in range(plies):
        if batch.games["phase"][0] == OVER:
            break
        play_random_plies(batch, 1, rng)
    return batch


# --- What a view tells -------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
def test_what_an_observer_may_not_know_changes_no_text_and_no_pixel(variant, picture):
    """I2: pairs of states that differ in what others peeked at, for each seat and the public."""
    pairs = has_changed = 0
    for seat, games, others in swap_states(variant, 8):
        for one, other in zip(games[:2], others[:2], strict=True):
            for observer in (seat, "public"):
                views = [view_of(game, variant, observer) for game in (one, other)]
                assert text_of(views[0]) == text_of(views[1])
                assert picture.frame(views[0]).tobytes() == picture.frame(views[1]).tobytes()
            full = [picture.frame(view_of(game, variant, "all")) for game in (one, other)]
            has_changed += (full[0] != full[1]).any()
            pairs += 1
    if any(variant.traps):
        assert pairs > 0
    assert has_changed == pairs  # "all" does show it, so the comparison can fail


def test_a_view_shows_own_peeks_and_of_others_only_that_they_peeked():
    batch = mixed_states(Variant(3), 60, seed=1)
    shown = 0
    for game in batch.games:
        for observer in (0, 1, 2, "public", "all"):
            view = view_of(game, batch.variant, observer)
            for slot, front in enumerate(view.front):
                peeked = view.peeked[slot]
                knows = bool(peeked) if observer == "all" else observer in peeked
                assert front == (game["front"][slot] if knows else UNSEEN)
                assert peeked == tuple(s for s in range(3) if game["peeked"][slot] >> s & 1)
                shown += front != UNSEEN
    assert shown > 0


def test_all_perspectives_agree_on_what_is_public():
    batch = mixed_states(Variant(4), 40, seed=2)
    for game in batch.games:
        views = [vars(view_of(game, batch.variant, who)) for who in ("public", "all", 0, 3)]
        for view in views:
            for private in ("perspective", "front", "trap_probability"):
                del view[private]
        assert all(view == views[0] for view in views)
        assert sum(views[0]["discarded"]) + sum(map(sum, sum(views[0]["taken"], ()))) == sum(
            game["gone"]
        )


def test_turns_show_a_taken_front_and_hide_what_others_peeked_at():
    batch = recorded(Variant(2), 99, seed=3)
    public, full = (batch.replay(0, perspective=p).turns for p in ("public", "all"))
    for told, true in zip(public, full, strict=True):
        assert told.front == (true.front if told.kind == TAKE else UNSEEN)
        assert (told.seat, told.kind, told.slot, told.holes) == (
            (true.seat, true.kind, true.slot, true.holes)
        )
    assert {turn.front for turn in public} == {UNSEEN, CHEESE, TRAP}


@pytest.mark.parametrize("seed", range(5))
def test_the_last_turn_is_that_of_the_record(seed):
    """Without a recording a view still says who did what where."""
    batch = recorded(Variant(3), 99, seed)
    replay = batch.replay(0)
    for position in range(1, len(replay)):
        (last,) = view_of(replay.games[position], batch.variant).turns
        told = replay.turns[position - 1]
        assert (last.seat, last.action) == (told.seat, told.action)


def test_a_finished_game_says_who_wins():
    batch = recorded(Variant(2), 99, seed=3)
    view = view_of(batch.games[0], batch.variant)
    assert view.winners == tuple(np.flatnonzero(batch.payoffs[0] == batch.payoffs[0].max()))
    assert view.turn is None
    for seat in range(2):
        line = next(x for x in text_of(view).splitlines() if f"seat {seat}:" in x)
        assert line.endswith("wins") == (seat in view.winners)


@pytest.mark.parametrize("players", PLAYERS)
def test_a_text_fits_80_columns_with_all_its_news(players):
    batch = recorded(Variant(players), 40, seed=players)
    view = view_of(batch.games[0], batch.variant, 0, batch.replay(0, perspective=0).turns)
    lines = text_of(view).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("last") for line in lines) == 1


@pytest.mark.parametrize("players", PLAYERS)
def test_one_is_singular(players):
    batch = recorded(Variant(players), 99, seed=players)
    replay = batch.replay(0, perspective="all")
    views = [view_of_replay(replay, position) for position in range(len(replay))]
    words = " ".join(text_of(view) for view in views)
    assert re.search(r"\b1 (hole|point|trap|card)\b", words)
    assert not re.search(r"\b1 (hole|point|trap|card)s\b", words)


def test_what_not_everybody_knows_is_told_apart():
    """A card that its player had peeked at is discarded: others do not see its front."""
    told = set()
    for seed in range(20):
        batch = recorded(Variant(2), 99, seed)
        for who, knower in (("all", "hidden"), (0, "you know"), ("public", None)):
            replay = batch.replay(0, perspective=who)
            for turn in replay.turns:
                words = describe_turn(view_of_replay(replay), turn)
                is_private = turn.front != UNSEEN and turn.kind != TAKE
                assert is_private == (f"; {knower}: " in words)
                told.add((who, is_private))
    assert told == {("all", True), ("all", False), (0, True), (0, False), ("public", False)}


# --- Pictures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS, ids=name_of)
@pytest.mark.parametrize("plies", [0, 7, 99])
def test_every_frame_has_the_same_size(variant, plies, picture):
    batch = recorded(variant, plies, seed=plies)
    view = view_of(batch.games[0], variant, 0, batch.replay(0, perspective=0).turns)
    frame = picture.frame(view)
    assert frame.shape == SHAPE
    assert frame.dtype == np.uint8
    assert frame.std() > 20
    assert np.array_equal(frame, picture.frame(view))


@pytest.mark.parametrize("row_size", range(1, 7))
def test_no_card_of_the_row_lies_on_another(row_size, picture):
    boxes = [picture.slot_rect(slot, row_size) for slot in range(row_size)]
    assert all(picture.LEFT.left <= box.left <= box.right <= picture.LEFT.right for box in boxes)
    assert all(one.right < other.left for one, other in itertools.pairwise(boxes))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is a display")
@pytest.mark.parametrize("display", [None, ":4711"])
def test_a_window_without_a_display_is_refused(display):
    """SDL would show it to nobody, in memory, for ever."""
    pytest.importorskip("pygame", reason=REASON)
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    environment = {name: text for name, text in os.environ.items() if name not in hidden}
    if display:
        environment["DISPLAY"] = display
    code = "from alles_kaese_env import AllesKaeseEnv; AllesKaeseEnv(render_mode='human').reset()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    *_, last = done.stderr.splitlines()
    assert "a window needs a display" in last
    assert (display or "DISPLAY is not set") in last


@pytest.mark.parametrize("name", ["heuristic", "日本", "мышь", "a\U0010fffdb", "🐭"])
def test_a_name_is_drawn_with_letters_that_its_font_has(name, picture):
    file, words = picture.art.drawable(name)
    assert not picture.art._lacking(words, file)
    assert len(words) == len(name)
    assert all(shown in (letter, "?") for letter, shown in zip(name, words, strict=True))


def test_pictures_need_no_display():
    """In a process of its own, with a video driver that does not exist."""
    pytest.importorskip("pygame", reason=REASON)
    code = (
        "import os; os.environ['SDL_VIDEODRIVER'] = 'none-such'\n"
        "from alles_kaese_env import AllesKaeseEnv\n"
        "env = AllesKaeseEnv(render_mode='rgb_array'); env.reset(seed=0)\n"
        "import pygame; assert env.render().shape == (640, 1024, 3)\n"
        "assert not pygame.display.get_init()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_drawing_is_imported_at_the_first_picture():
    """`make_vec_env` of stable-baselines3 asks for "rgb_array" where nothing is ever drawn."""
    pytest.importorskip("pygame", reason=REASON)
    code = (
        "import sys, gymnasium, alles_kaese_env\n"
        "env = gymnasium.make('AllesKaese-v0', render_mode='rgb_array')\n"
        "_, info = env.reset(seed=0); env.step(int(info['action_mask'].argmax()))\n"
        "assert 'pygame' not in sys.modules\n"
        "env.render(); assert 'pygame' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("api", APIS)
def test_a_render_mode_alone_records_nothing(api):
    """All turns are shown of a game that is recorded, the last one of any other."""
    shown = []
    for record in (False, True):
        env = APIS[api](
            render_mode="ansi", record=record, **({"num_envs": 1} if api == "vector" else {})
        )
        env.reset(seed=4)
        batch = env._batch if api == "aec" else env._games.batch
        assert (batch.recorder is not None) is record
        for _ in range(4):
            action = batch.masks[0].argmax()
            env.step([action] if api == "vector" else action)
        text = env.render()[0] if api == "vector" else env.render()
        lines = text.splitlines()
        first = next(k for k, line in enumerate(lines) if line.startswith("last"))
        shown.append(lines[first:])
    (plain,), recorded = shown
    assert len(recorded) >= 4
    words = plain.split()[1:]  # such as: seat 1 took slot 2
    assert [word for word in recorded[0].split()[1:] if word in words][: len(words)] == words


def test_what_viewers_stand_on_imports_none():
    package = Path(alles_kaese_env.__file__).parent
    below = [*package.glob("core/*.py"), *package.glob("replay/*.py"), *package.glob("*.py")]
    for file in below:
        assert "alles_kaese_env.viewer" not in file.read_text(encoding="utf-8"), file


# --- The APIs ----------------------------------------------------------------------------------


def one_frame(api, **kwargs):
    env = APIS[api](render_mode="rgb_array", **kwargs)
    env.reset(seed=3)
    frame = env.render()
    env.close()
    return frame[0] if api == "vector" else frame


@pytest.mark.parametrize("api", APIS)
def test_an_api_renders_arrays(api, picture):
    assert one_frame(api).shape == SHAPE
    assert "rgb_array" in APIS[api].metadata["render_modes"]
    assert APIS[api].metadata["render_fps"] > 0


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("wrong", ["full", "", 2, -1, True, 1.0])
def test_a_wrong_perspective_is_named(api, wrong):
    with pytest.raises(ValueError, match=r"perspective is .*allowed: 'public', 'all'"):
        APIS[api](render_mode="ansi", perspective=wrong)


@pytest.mark.parametrize("api", APIS)
def test_render_before_reset_is_refused(api):
    with pytest.raises(gymnasium.error.ResetNeeded):
        APIS[api](render_mode="ansi").render()


def render_first(env):
    """The first picture; a window follows by itself and draws it at the reset."""
    env.reset(seed=0)
    env.render()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("mode", ["rgb_array", "human"])
def test_a_missing_extra_is_named_with_its_install_line(api, mode, monkeypatch):
    if mode not in APIS[api].metadata["render_modes"]:
        pytest.skip("an API without this mode")
    for name in [name for name in sys.modules if name.startswith("alles_kaese_env.viewer.")]:
        if name.rpartition(".")[2] in ("art", "picture"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("alles_kaese_env.viewer.picture", raising=False)
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = APIS[api](render_mode=mode)
    with pytest.raises(gymnasium.error.DependencyNotInstalled, match=r"pip install .*\[render\]"):
        render_first(env)


def test_the_full_view_comes_only_by_name():
    hidden = {}
    for who in (None, "public", "all"):
        env = AllesKaeseEnv(seat=0, render_mode="ansi", perspective=who, on_illegal="raise")
        shown = []
        for seed in range(5):
            env.reset(seed=seed)
            for _ in range(3):
                env.step(env.action_masks().argmax())
            text = env.render()
            assert ("(you)" in text) == (who is None)
            fronts = next(line for line in text.splitlines() if line.startswith("front"))
            shown += fronts.split()[1:]
        hidden[who] = shown.count("?")
    assert hidden["all"] < hidden[None] < hidden["public"] == 30


def test_pettingzoo_shows_the_public_view_by_default():
    env = alles_kaese_v0.raw_env(render_mode="ansi")
    env.reset(seed=5)
    while not any(env._batch.games["peeked"][0]):
        env.step(env.observe(env.agent_selection)["action_mask"].argmax())
    assert set(env.render().splitlines()[3].split()[1:]) == {"?"}


def on_screen(env):
    """The pixels of the window of an environment."""
    import pygame

    surface = env._renderer._window._window.get_surface()
    return surface.get_size(), pygame.image.tobytes(surface, "RGB")


@pytest.mark.parametrize("api", ["gym", "aec"])
def test_a_window_follows_by_itself_and_closes(api, picture, no_waiting):
    env = APIS[api](render_mode="human")
    env.reset(seed=0)
    before = on_screen(env)
    assert before[0] == picture.SIZE
    mask = env.action_masks() if api == "gym" else env.observe("player_0")["action_mask"]
    env.step(mask.argmax())
    assert on_screen(env) != before
    assert env.render() is None
    twin = copy.deepcopy(env)
    env.close()
    env.close()
    assert env._renderer._window._window is None
    assert twin.render() is None
    twin.close()


@pytest.mark.parametrize("mode", ["human", "rgb_array"])
def test_a_picture_survives_that_another_environment_shuts_pygame_down(mode, picture, no_waiting):
    """CartPole calls pygame.quit() when it closes."""

    def shown(env):
        frame = env.render()
        return np.frombuffer(on_screen(env)[1], np.uint8) if frame is None else frame

    env = AllesKaeseEnv(render_mode=mode)
    for seed in range(3):
        env.reset(seed=seed)
        before = shown(env)
        other = gymnasium.make("CartPole-v1", render_mode="human")
        other.reset()
        other.close()
        picture.art.text.cache_clear()  # words that nobody has drawn before
        assert np.array_equal(shown(env), before)
    env.close()


def test_closing_a_window_takes_nothing_from_others(picture, no_waiting):
    one, two = (AllesKaeseEnv(render_mode="human") for _ in range(2))
    cart = gymnasium.make("CartPole-v1", render_mode="human")
    for env in (one, two, cart):
        env.reset(seed=0)
    before = on_screen(two)
    one.close()
    cart.step(0)
    assert picture.pygame.display.get_surface().get_size() == (600, 400)
    assert on_screen(two) == before
    two.step(two.action_masks().argmax())
    assert on_screen(two) != before
    cart.close()
    two.close()


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
@pytest.mark.parametrize("api", APIS)
def test_an_environment_that_rendered_can_be_copied_and_pickled(api, mode, picture):
    env = APIS[api](render_mode=mode)
    env.reset(seed=1)
    before = env.render()
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert np.array_equal(twin.render(), before)


def test_rendering_changes_no_game():
    envs = [AllesKaeseEnv(num_players=4, render_mode=mode) for mode in (None, "ansi")]
    told = []
    for env in envs:
        told.append([env.reset(seed=9)[0].tobytes()])
        for _ in range(30):
            if env.render_mode:
                env.render()
            observation, reward, over, *_ = env.step(env.action_masks().argmax())
            told[-1].append((observation.tobytes(), reward, over))
            if over:
                env.reset()
    assert told[0] == told[1]


def test_gymnasiums_checker_accepts_all_render_modes(picture, no_waiting):
    env = gymnasium.make("AllesKaese-v0", render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=False)


def test_pettingzoos_render_test_passes(picture, no_waiting):
    from pettingzoo.test import render_test

    render_test(lambda render_mode: alles_kaese_v0.env(render_mode=render_mode))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_record_video_writes_a_film_of_a_game(picture, tmp_path):
    pytest.importorskip("moviepy", reason=REASON)
    from moviepy import VideoFileClip

    env = RecordVideo(
        gymnasium.make("AllesKaese-v0", render_mode="rgb_array"), str(tmp_path / "films")
    )
    _, info = env.reset(seed=0)
    over, steps = False, 0
    while not over:
        _, _, over, _, info = env.step(int(info["action_mask"].argmax()))
        steps += 1
    env.close()
    (film,) = tmp_path.glob("films/*.mp4")
    with VideoFileClip(str(film)) as clip:
        assert tuple(clip.size) == (1024, 640)
        assert abs(clip.n_frames - (steps + 1)) <= 1
        first, last = clip.get_frame(0), clip.get_frame(clip.duration - 0.3)
    assert np.abs(first.astype(int) - last).mean() > 1  # it moves

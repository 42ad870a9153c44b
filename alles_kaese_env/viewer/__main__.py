"""The command that shows a replay: in the terminal, in a window, as a page, as a film.

Example:
    python -m alles_kaese_env.viewer game.json --html game.html --open
"""

from __future__ import annotations

import argparse
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

from alles_kaese_env.command_line import INTERRUPTED, MISSING, Parser, needs_extra
from alles_kaese_env.files import checked_output
from alles_kaese_env.replay.file import load
from alles_kaese_env.replay.game import Replay
from alles_kaese_env.viewer.page import save_page
from alles_kaese_env.viewer.view import view_of_replay
from alles_kaese_env.viewer.words import describe_end, describe_perspective, describe_turn


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.open and options.html is None:
        parser.error("--open is given without --html FILE")
    try:
        for option, path in outputs_of(options).items():
            checked_output(path, option)
        replay = load(options.file)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    say(f"{options.file}: {describe_perspective(view_of_replay(replay))}")
    try:
        if not outputs_of(options):
            return show(replay, parser, is_window=options.window)
        failures = export(replay, options)
    except KeyboardInterrupt:
        say("interrupted; files that are not named above are as they were")
        return INTERRUPTED
    except MISSING as error:
        parser.error(needs_extra("--gif and --mp4", "render", error))
    if failures:
        parser.error("; ".join(failures))
    if options.open:
        webbrowser.open(options.html.resolve().as_uri())
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = Parser(
        prog="python -m alles_kaese_env.viewer",
        description="Step through a game that was saved: in the terminal (keys: left, right, "
        "Home, End, space, q), in a window, or in a browser.",
        epilog="example: python -m alles_kaese_env.viewer game.json --html game.html --open",
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a replay, such as agents.play --save writes it")
    add("--window", action="store_true", help="in a window, with the same keys")
    add("--html", type=Path, metavar="OUT", help="write a page with a slider, all in one file")
    add("--open", action="store_true", help="and show it in the browser")
    add("--gif", type=Path, metavar="OUT", help="write an animated picture")
    add("--mp4", type=Path, metavar="OUT", help="write a film")
    return parser


def say(words: str) -> None:
    """Tell the person, not the pipe."""
    print(words, file=sys.stderr)


def outputs_of(options: argparse.Namespace) -> dict[str, Path]:
    """The files that were asked for, by their options."""
    named = {"--html": options.html, "--gif": options.gif, "--mp4": options.mp4}
    return {option: path for option, path in named.items() if path is not None}


def export(replay: Replay, options: argparse.Namespace) -> list[str]:
    """Write the files that were asked for; returns a line for each that failed."""
    savers: dict[str, Callable[[Replay, Path], None]] = {"--html": save_page}
    if options.gif or options.mp4:
        from alles_kaese_env.viewer.film import save_gif, save_mp4

        savers.update({"--gif": save_gif, "--mp4": save_mp4})
    failures = (
        failure_of(savers[option], replay, path) for option, path in outputs_of(options).items()
    )
    return [line for line in failures if line]


def failure_of(save: Callable[[Replay, Path], None], replay: Replay, path: Path) -> str:
    """Write a file; returns why it failed, an empty text if it did not."""
    try:
        save(replay, path)
    except OSError as error:
        return f"{path} is not written: {error}"
    say(f"wrote {path}")
    return ""


def show(
    replay: Replay, parser: argparse.ArgumentParser, *, is_window: bool, is_playing: bool = False
) -> int:
    """Let a person step through a replay; the turns as lines where the output is no terminal."""
    if is_window:
        try:
            from alles_kaese_env.viewer.window import show_in_window
        except MISSING as error:
            parser.error(needs_extra("--window", "render", error))
        return show_in_window(replay, is_playing=is_playing)
    if not sys.stdout.isatty():
        print_turns(replay)
        return 0
    try:
        from alles_kaese_env.viewer.terminal import ReplayApp
    except MISSING as error:
        parser.error(needs_extra("the terminal", "play", error))
    app = ReplayApp(replay, is_playing=is_playing)
    app.run()
    return app.return_code or 0


def print_turns(replay: Replay) -> None:
    """A line for each turn, and one for the end."""
    end = view_of_replay(replay)
    for number, turn in enumerate(end.turns, start=1):
        print(f"{number:>3} {describe_turn(end, turn)}")
    print(f"    {describe_end(end)}")


if __name__ == "__main__":
    sys.exit(main())

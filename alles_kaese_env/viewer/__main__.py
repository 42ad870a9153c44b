"""Show a replay in the terminal or in a window, or write it as a page or a film.

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
from alles_kaese_env.viewer.session import ReplaySession, run_session
from alles_kaese_env.viewer.text import describe_end, describe_perspective, describe_turn
from alles_kaese_env.viewer.view import view_of_replay


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.open and options.html is None:
        parser.error("--open is given without --html FILE")
    named = {"--html": options.html, "--gif": options.gif, "--mp4": options.mp4}
    outputs = {option: path for option, path in named.items() if path is not None}
    try:
        for option, path in outputs.items():
            checked_output(path, option)
        replay = load(options.file)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    say(f"{options.file}: {describe_perspective(view_of_replay(replay))}")
    try:
        if not outputs:
            return show(replay, parser, in_window=options.window)
        savers = [saver_of(option) for option in outputs]
        written = zip(savers, outputs.values(), strict=True)
        failures = [line for save, path in written if (line := failure_of(save, replay, path))]
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
        description="Step through a saved game: in the terminal (keys: left, right, "
        "Home, End, space, q), in a window, or in a browser.",
        epilog="example: python -m alles_kaese_env.viewer game.json --html game.html --open",
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="a replay, such as agents.play --save writes")
    add("--window", action="store_true", help="in a window, with the same keys")
    add("--html", type=Path, metavar="OUT", help="write one HTML page with a slider")
    add("--open", action="store_true", help="open the page in the browser")
    add("--gif", type=Path, metavar="OUT", help="write an animated GIF")
    add("--mp4", type=Path, metavar="OUT", help="write an MP4 film")
    return parser


def say(words: str) -> None:
    """Print a line that a pipe does not get."""
    print(words, file=sys.stderr)


def saver_of(option: str) -> Callable[[Replay, Path], None]:
    """What writes the file of an option."""
    if option == "--html":
        return save_page
    from alles_kaese_env.viewer import film

    return film.save_gif if option == "--gif" else film.save_mp4


def failure_of(save: Callable[[Replay, Path], None], replay: Replay, path: Path) -> str:
    """Write a file; returns why it failed, an empty text if it did not."""
    try:
        save(replay, path)
    except OSError as error:
        return f"{path} is not written: {error}"
    say(f"wrote {path}")
    return ""


def show(
    replay: Replay, parser: argparse.ArgumentParser, *, in_window: bool, is_playing: bool = False
) -> int:
    """Let a person step through a replay; the turns as lines where the output is no terminal."""
    if in_window or sys.stdout.isatty():
        return run_session(ReplaySession(replay, is_playing), parser, in_window=in_window)
    end = view_of_replay(replay)
    for number, turn in enumerate(end.turns, start=1):
        print(f"{number:>3} {describe_turn(end, turn)}")
    print(f"    {describe_end(end)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

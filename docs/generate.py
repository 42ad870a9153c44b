"""Write the generated pages: ``python docs/generate.py``, or only compare with ``--check``."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

from agents.arena.matches import Score, ratings
from agents.ppo.options import OPTIONS, Config, as_text, flag
from alles_kaese_env import OBSERVATION
from alles_kaese_env.command_line import Parser

DOCS = Path(__file__).parent


def observation_page() -> str:
    """The layout of the observation."""
    return f"""# The observation

A float32 vector of {OBSERVATION.size} numbers in [0, 1], layout version {OBSERVATION.version}, as
the observing seat sees the table. In a table by seat the first row is the observer and the others
follow in turn order; in a table by opponent the first row is the next seat. Tables are padded with
zeros to six seats, so one network plays 2 to 6 players. `OBSERVATION.decode(observation)` gives the
fields by name, `OBSERVATION.facts(observation, variant)` the same in whole numbers.

This page is written by `python docs/generate.py`.

{OBSERVATION.table()}
"""


def leaderboard_page() -> str:
    """Who is how strong, from the files of the arena in ``docs/leaderboard``."""
    files: dict[int, list[Path]] = defaultdict(list)
    for file in sorted((DOCS / "leaderboard").glob("*.json"), key=lambda file: file.stem):
        files[json.loads(file.read_text())["pairs"][0]["num_players"]].append(file)
    return LEADERBOARD + "".join(board(players, files[players]) for players in sorted(files))


LEADERBOARD = """# Leaderboard

All agents against all others, every deal once from every seat and the same deals for all pairs.
A share is the mean over games of 1/w for each of w winners, with its 95 % interval; a tie is not a
win. With more than two players the agent of the row meets a table of the agent of the column.
*Elo* is a Bradley-Terry strength from all pairs, `random` at 0: 100 points mean 64 % of the games
between two. *Third traps* is the share of games that end by one (E1), *seats* the worst and the
best seat, both against `reference` (of `reference` itself against `random`). *ms* is the time of a
move with many games at once.

This page is written by `python docs/generate.py` from `docs/leaderboard/*.json`, and those by the
commands below.
"""
BASELINE = "reference"


def board(players: int, files: list[Path]) -> str:
    """The section of a number of players."""
    data = {file: json.loads(file.read_text()) for file in files}
    pairs = {
        (pair["agent"], pair["against"]): pair for one in data.values() for pair in one["pairs"]
    }
    names = list(dict.fromkeys(agent for agent, _ in pairs))
    elo = ratings({key: pair_score(pair) for key, pair in pairs.items()}, names, players)
    names.sort(key=lambda agent: -elo[agent])
    commands = "\n".join(
        f"{one['command']} --json docs/leaderboard/{file.name}" for file, one in data.items()
    )
    lines = [
        f"\n## {players} players\n\n```\n{commands}\n```\n",
        f"| agent | Elo | {' | '.join(f'against {other}' for other in names)} | third traps "
        "| seats | ms |",
        "|---|---|" + "---|" * (len(names) + 3),
    ]
    for agent in names:
        mine = [pairs.get((agent, other)) for other in names]
        shares = " | ".join(
            with_interval(pair["share"], pair["low"], pair["high"]) if pair else "" for pair in mine
        )
        against = pairs.get((agent, BASELINE)) or pairs[agent, names[-1]]
        seats = f"{min(against['per_seat']):.3f} to {max(against['per_seat']):.3f}"
        lines.append(
            f"| `{agent}` | {elo[agent]:.0f} | {shares} | {against['third_traps']:.3f} | {seats} "
            f"| {1000 * against['seconds']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def pair_score(pair: dict[str, Any]) -> Score:
    """The score that the arena wrote down."""
    return Score(**{one.name: pair[one.name] for one in fields(Score) if one.name in pair})


def good_play_page() -> str:
    """What good play is, from the answers of ``good_play``."""
    data = json.loads((DOCS / "good_play" / "answers.json").read_text())
    answers = data["agents"]
    names = list(answers)
    players = [name for name in names if "seats" in answers[name]]
    command = (
        f"python benchmarks/good_play.py --agents {' '.join(names)} "
        f"--num-players {data['num_players']} --games {data['games']} --out docs/good_play"
    )
    worth = [
        [
            f"`{name}`",
            *(with_interval(*three) for three in answers[name]["worth_of_peeks"].values()),
        ]
        for name in players
    ]
    two_traps = [
        [f"`{name}`", *(percent(rate) for rate in answers[name]["two_traps"].values())]
        for name in names
    ]
    seats = [
        [f"`{name}`, {count}", " ".join(f"{share:.3f}" for share in shares)]
        for name in players
        for count, shares in answers[name]["seats"].items()
    ]
    kinds = sorted({kind for name in names for kind in answers[name]["differences"]})
    others = [name for name in names if name != "heuristic"]
    differences = [
        [kind, *(percent(answers[name]["differences"].get(kind, 0)) for name in others)]
        for kind in kinds
    ]
    peeked = [
        [name, f"{group['cards']:,}", f"{group['I4']:.3f}", f"{group['traps']:.3f}"]
        for name, group in data["peeked_by_others"].items()
    ]
    return GOOD_PLAY.format(
        command=command,
        games=f"{data['games']:,}",
        decisions=f"{data['decisions']:,}",
        players=data["num_players"],
        worth=table(["agent", *next(iter(answers.values()))["worth_of_peeks"]], worth),
        peeked=table(["holes", "cards", "trap probability by I4", "traps"], peeked),
        two_traps=table(["agent", *next(iter(answers.values()))["two_traps"]], two_traps),
        seats=table(["agent, players", "share of each seat, from the starting player on"], seats),
        differences=table(["", *(f"`{name}`" for name in others)], differences),
    )


GOOD_PLAY = """# What good play is

Measured answers, not advice. All agents were asked about the same {decisions} decisions, those of
{games} games with {players} players in which `heuristic` plays all seats; a search about every
so-many-th of them. This page is written by `python docs/generate.py` from what this leaves:

```
{command}
```

## How much is a peek worth?

Win share against `reference` (20,000 games, 95 % interval), as the agent is; when it peeks at a
card drawn at random; and when it forgets which cards of the row it peeked at, though it still
counts what it has seen.

{worth}

So remembering is worth far more than choosing where to look.

## When to take

How often a matching card is taken, by the least probability of a trap among the matching cards
(in tenths) and by own traps.

![How often a card is taken by its probability of a trap](good_play/take.svg)

With two traps the next one loses the game (E1). How often a card that may be a trap is taken then,
by whether the mover is behind, level or ahead of the best opponent in points:

{two_traps}

## Which card to peek at

![What is peeked at, by holes](good_play/peeks.svg)

Cards with many holes score more and are traps more often. Bars in grey show what cards with an
unknown front there are to choose from.

## What an opponent's peek tells

Cards in the row that an opponent has peeked at and the mover has not, by holes: how many of them
are traps, and how many should be by the mover's own count of the cards (I4). What the opponent did
since then would show as a difference.

{peeked}

So who sees that a card still lies there after another has looked at it learns next to nothing. (A
match with a known card ends with that card taken or discarded, so what is left was hardly ever
passed over.)

## Is it good to start?

The same agent in all seats, 20,000 games each (±0.007 at most):

{seats}

## What others do that the heuristic does not

Share of all decisions:

{differences}
"""


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *rows]]
    return "\n".join(lines)


def percent(rate: float | None) -> str:
    """A share in percent, a dash where there were too few cases."""
    return "–" if rate is None else f"{rate:.1%}"


def with_interval(share: float, low: float, high: float) -> str:
    """A share with its interval."""
    return f"{share:.3f} ({low:.3f} to {high:.3f})"


def options_page() -> str:
    """What a training run can be told."""
    rows = []
    for name, about in OPTIONS.items():
        default = getattr(Config, name)
        flags = ", ".join(f"`{one}`" for one in (flag(name), about.alias) if one)
        allowed = ", ".join(f"`{choice}`" for choice in about.choices)
        if not isinstance(default, str):
            allowed = f"{about.low:,} to {about.high:,}"
        only = f"with `--engine {about.engine}`: " if about.engine else ""
        resume = "; may change with `--resume`" if about.can_change else ""
        rows.append([flags, f"`{as_text(default)}`", allowed, f"{only}{about.meaning}{resume}"])
    return f"""# Training options

What `python train.py --algo ppo` takes beside `--out DIRECTORY`, the directory of the new run
(otherwise `runs/ppo-...`), and `--resume RUN`, which continues a run.

This page is written by `python docs/generate.py`.

{table(["option", "default", "allowed", "meaning"], rows)}
"""


PAGES = {
    "observation.md": observation_page,
    "leaderboard.md": leaderboard_page,
    "good_play.md": good_play_page,
    "training_options.md": options_page,
}


def main() -> int:
    """The command; returns its exit code."""
    parser = Parser(prog="python docs/generate.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which pages are stale")
    is_check = parser.parse_args().check
    stale = [
        name
        for name, page in PAGES.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != page()
    ]
    for name in stale:
        if is_check:
            print(f"docs/{name} is stale; write it with: python docs/generate.py")
        else:
            (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
    return int(is_check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())

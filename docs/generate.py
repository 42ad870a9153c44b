"""Write the generated pages: ``python docs/generate.py``, or only compare with ``--check``."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

from agents.arena.matches import Score, ratings
from agents.training.options import DEFAULTS, DEFAULTS_OF_RLLIB, OPTIONS, Config, as_text, flag
from alles_kaese_env import (
    NO_RECALL_VERSION,
    OBSERVATION,
    OBSERVATION_VERSION,
    RULES_VERSION,
    STATE,
    AllesKaeseEnv,
)
from alles_kaese_env.actions import describe_action, encode_action
from alles_kaese_env.command_line import Parser
from alles_kaese_env.core.observe import RECALLED
from alles_kaese_env.core.records import MAX_SLOTS, NUM_ACTIONS
from alles_kaese_env.envs.pettingzoo_env import raw_env
from alles_kaese_env.replay import load
from alles_kaese_env.viewer.page import page_of

DOCS = Path(__file__).parent


RECALLED_NAMES = ", ".join(f"`{name}`" for name in RECALLED[:-1]) + f" and `{RECALLED[-1]}`"


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

## Without recall

With `recall=False` the APIs leave out what a seat has to remember by itself; the layout is the
same. What the seat saw when it peeked is shown until its next action, also when the card was
discarded meanwhile, and never again: {RECALLED_NAMES} then tell only
of that peek and of the taken cards, whose fronts all seats saw. Everything public stays, also which
opponents peeked where. Games, masks and random streams are the same as with recall. `render` and
replays, which are for people, still show all that a seat has seen. OpenSpiel does not have it.

{recall_versions()}

## The whole state

`GameBatch.states()` and PettingZoo's `state()` give a float32 vector of {STATE.size} numbers in
[0, 1] for a centralised critic. It is privileged: no API hands it over with an observation. After
who saw which fronts stands what an observer would see who saw every front that anybody has seen;
so `own_peeks` holds all fronts of the row that are determined. A front that nobody has seen is not
determined yet (I4): `trap_probability` holds the belief. `STATE.decode(state)` gives the fields by
name.

{STATE.table()}
"""


def recall_versions() -> str:
    """Observations with and without recall, their versions and ids."""
    return table(
        ["`recall`", "version", "Gymnasium", "PettingZoo"],
        [
            ["`True`", f"{OBSERVATION_VERSION}", "`AllesKaese-v0`", "`alles_kaese-v0`"],
            [
                "`False`",
                f"{NO_RECALL_VERSION} (`NO_RECALL_VERSION`)",
                "`AllesKaeseNoRecall-v0`",
                "`alles_kaese_no_recall-v0`",
            ],
        ],
    )


def environment_page() -> str:
    """What Gymnasium and PettingZoo say of their environments, from the code of both APIs."""
    env, aec = AllesKaeseEnv(), raw_env()
    space = env.observation_space
    facts = [
        ["Import", '`gymnasium.make("AllesKaese-v0")` or `alles_kaese_v0.env()`'],
        ["Players", "2 to 6; one learner with Gymnasium, every seat with PettingZoo"],
        ["Agents", f"`{aec.possible_agents[0]}`, `{aec.possible_agents[1]}`, ..."],
        ["Action space", f"`{env.action_space}`, with a mask of the legal ones"],
        ["Observation space", f"`Box(0, 1, {space.shape}, {space.dtype})`"],
        ["Rewards", "-1 to 1, the sum over the seats is 0; 0 before the end"],
        ["Parallel API", "yes" if aec.metadata["is_parallelizable"] else "no: players take turns"],
        ["Render modes", ", ".join(f"`{mode}`" for mode in env.metadata["render_modes"])],
        ["Versions", f"rules {RULES_VERSION}, observation {OBSERVATION.version}"],
    ]
    kinds = []
    for kind in range(NUM_ACTIONS // MAX_SLOTS):
        first, last = encode_action(kind, 0), encode_action(kind, MAX_SLOTS - 1)
        words = f"{describe_action(first)} to {describe_action(last)}"
        kinds.append([f"{first} to {last}", words, WHEN[kind]])
    _, *sections = (inspect.getdoc(AllesKaeseEnv) or "").split("\n## ")
    told = dict(section.split("\n", 1) for section in sections)
    end, _, arguments = told["End"].partition("\nArgs:\n")
    more = arguments.partition("\n\n")[2].partition("\n\nRaises:")[0]
    return ENVIRONMENT.format(
        facts=table(["", ""], facts),
        actions=table(["action", "what it does", "legal"], kinds),
        observation=OBSERVATION.size,
        info=told["Info"].strip(),
        reward=told["Reward"].strip(),
        start=told["Start"].strip(),
        end=end.strip(),
        reset=more.strip(),
        arguments=table(["argument", "default", "meaning"], arguments_of(AllesKaeseEnv)),
        aec_arguments=table(["argument", "default", "meaning"], arguments_of(raw_env)),
        versions=told["Version history"].strip(),
    ).replace("``", "`")


WHEN = (
    "no card in the row matches the die (T2)",
    "that card matches the die (T5)",
    "that card matches the die (T5)",
)


def arguments_of(cls: type) -> list[list[str]]:
    """Name, default and meaning of the arguments of a class, from signature and docstring."""
    text = (inspect.getdoc(cls) or "").split("Args:\n")[1].split("\n\n")[0]
    entries = re.findall(r"^    ([*\w]+): (.*(?:\n        .*)*)", text, re.MULTILINE)
    parameters = inspect.signature(cls).parameters
    rows = []
    for name, meaning in entries:
        default = parameters[name.lstrip("*")].default
        shown = "" if default is inspect.Parameter.empty else f"`{default!r}`"
        rows.append([f"`{name}`", shown, " ".join(meaning.split())])
    return rows


ENVIRONMENT = """# The environment

2 to 6 players, a row of six cards, a die: peek, take or discard, with most of the fronts unknown.
The [rules](rules.md) are those of the published game.

![A game against ppo](images/game.webp){{ .table }}

{facts}

## Actions and the action mask

{actions}

`info["action_mask"]`, with PettingZoo `observation["action_mask"]`, says which of them are legal.
In a smaller variant, slots beyond its row never are.

## Observation

{observation} numbers that hold what one seat knows and nothing else: see
[the observation, field by field](observation.md).

## Information

{info}

## Rewards

{reward}

## Start

{start} {reset}

## End

{end}

## Arguments of Gymnasium

{arguments}

## Arguments of PettingZoo

{aec_arguments}

## Version history

{versions}

The number goes up when results could change, never for speed. How each API is used stands on
[the page of the APIs](apis.md).

This page is written by `python docs/generate.py`.
"""


def leaderboard_page() -> str:
    """Who is how strong, from the files of the arena in ``docs/leaderboard``."""
    files: dict[int, list[Path]] = defaultdict(list)
    for file in sorted((DOCS / "leaderboard").glob("*.json"), key=lambda file: file.stem):
        files[json.loads(file.read_text())["pairs"][0]["num_players"]].append(file)
    return LEADERBOARD + "".join(board(players, files[players]) for players in sorted(files))


LEADERBOARD = """---
hide: [toc]
---

# Leaderboard

All agents against all others. Every deal is played once from every seat, with the same deals for
all pairs. With more than two players the agent of the row has one seat, and the agent of the
column all others.

- **Against X**: the win share with its 95 % interval. A game counts 1/w for each of w winners, so
  with n players 1/n is even.
- **Elo**: Bradley-Terry strength from all pairs, `random` at 0. 100 points mean 64 % of the games
  between two.
- **Third traps**: the share of games against `reference` that end by a third trap (E1).
- **Seats**: the win share in the worst and in the best seat, against `reference`.
- **ms**: the time of a move, with many games at once.

`python docs/generate.py` writes this page from `docs/leaderboard/*.json`, which the commands below
write.
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
        against = pairs.get((agent, BASELINE))
        timed = against or pairs[agent, names[-1]]
        traps, seats = "–", "–"  # of the baseline there is no such figure
        if against:
            traps = f"{against['third_traps']:.3f}"
            seats = f"{min(against['per_seat']):.3f} to {max(against['per_seat']):.3f}"
        lines.append(
            f"| `{agent}` | {elo[agent]:.0f} | {shares} | {traps} | {seats} "
            f"| {1000 * timed['seconds']:.3f} |"
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

These are measurements, not advice. All agents were asked about the same {decisions} decisions,
those of {games} games with {players} players in which `heuristic` plays all seats. The search was
asked about a sample of them. `python docs/generate.py` writes this page from the results of:

```
{command}
```

## How much is a peek worth?

Win share against `reference` (20,000 games, 95 % interval; 0.5 is even): of the agent as it is,
when it peeks at random cards, and when it forgets which cards of the row it peeked at but still
counts what it has seen.

{worth}

So remembering is worth far more than choosing where to look.

## When to take

How often a matching card is taken, by the least probability of a trap among the matching cards
(in tenths) and by own traps.

![How often a card is taken by its probability of a trap](good_play/take.svg)

With two traps, the next one loses the game (E1). How often a card that may be a trap is taken
then, by whether the seat is behind, level with or ahead of the best opponent in points:

{two_traps}

## Which card to peek at

![What is peeked at, by holes](good_play/peeks.svg)

Cards with many holes score more and are traps more often. Grey bars show the cards with an unknown
front that there were to choose from.

## What an opponent's peek tells

Cards in the row that an opponent has peeked at and the seat to move has not, by holes: how many of
them are traps, and how many should be by what the seat to move knows (I4). If leaving a card told
something, the two would differ.

{peeked}

So it tells next to nothing that a card still lies in the row after an opponent has peeked at it.
(When it matches, it is usually taken or discarded, so a card that still lies there was hardly
ever passed over.)

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
        resume = "; may change with `--resume`" if about.can_change else ""
        meaning = f"{about.scope('`')}{about.meaning}{resume}"
        rows.append([flags, f"`{as_text(default)}`", allowed, meaning])
    others = {f"--algo {algo}": defaults for algo, defaults in DEFAULTS.items()}
    others["--engine rllib"] = DEFAULTS_OF_RLLIB
    exceptions = [
        [f"`{given}`", ", ".join(f"`{flag(name)} {value}`" for name, value in defaults.items())]
        for given, defaults in others.items()
    ]
    return f"""# Training options

The options of `python train.py`. In addition, `--out DIRECTORY` names the directory of a new run
(`runs/ppo-...` by default), `--resume RUN` continues a run, and `--variant` and the fields of a
[variant](extend.md#a-variant) say the rules.

`python docs/generate.py` writes this page.

{table(["option", "default", "allowed", "meaning"], rows)}

What has other defaults:

{table(["with", "defaults"], exceptions)}
"""


PAGES = {
    "environment.md": environment_page,
    "game/replay.html": lambda: page_of(load(DOCS / "game" / "game.json")),
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

"""The shape of the code: imports go one way, and files and signatures stay small."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {
    path.relative_to(ROOT).as_posix(): path
    for path in [
        *ROOT.glob("alles_kaese_env/**/*.py"),
        *ROOT.glob("agents/**/*.py"),
        ROOT / "train.py",
    ]
}
FOLDERS = (
    "alles_kaese_env",
    "agents",
    "benchmarks",
    "docs",
    "examples",
    "notebooks",
    "tests",
)
EDITED = [
    path
    for folder in FOLDERS
    for suffix in ("py", "ipynb")
    for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))
]

# From the bottom up: a module imports from its own room and from those before it. The longest
# name counts, so a command that lies in a room of agents can stand above the arena.
ROOMS = [
    "alles_kaese_env.core",
    "alles_kaese_env.files",
    "alles_kaese_env.variant",
    "alles_kaese_env.actions",
    "alles_kaese_env.observation",
    "alles_kaese_env.seeding",
    "alles_kaese_env.agent",
    "alles_kaese_env.scripted",
    "alles_kaese_env.state",
    "alles_kaese_env.replay",
    "alles_kaese_env.game_batch",
    "alles_kaese_env.single_seat",
    "alles_kaese_env.command_line",
    "alles_kaese_env.viewer",
    "alles_kaese_env.envs",
    "alles_kaese_env",
    "agents.heuristics",
    "agents",
    "agents.ppo",
    "agents.search.values",
    "agents.arena",
    "agents.heuristics.tune",
    "agents.search",
    "agents.arena.train_luck",
    "agents.solve",
    "agents.training",
    "agents.play",
    "agents.watch",
    "train",
]


def module_of(name):
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES = {module_of(name): path for name, path in SOURCES.items()}


def room_of(module):
    """The room with the longest name that the module lies in."""
    return max(
        (room for room in ROOMS if f"{module}.".startswith(f"{room}.")), key=len, default=None
    )


def imported_at_once(path):
    """The modules of the project that a file imports when it is imported itself."""
    found = set()
    waiting = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name if name in MODULES else node.module for name in names}
        waiting += ast.iter_child_nodes(node)
    return found & MODULES.keys()


IMPORTS = {module: imported_at_once(path) for module, path in MODULES.items()}


def imported_anywhere(path):
    """The top-level names of whatever a file imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def reached_from(module):
    """All modules that are imported, at first or second hand, when a module is."""
    reached, waiting = set(), [module]
    while waiting:
        new = IMPORTS[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def test_every_room_has_modules():
    assert {room_of(module) for module in MODULES} == set(ROOMS)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_go_one_way(module):
    here = ROOMS.index(room_of(module))
    upwards = {name for name in IMPORTS[module] if ROOMS.index(room_of(name)) > here}
    assert not upwards


def test_no_module_imports_itself_in_a_circle():
    assert not [module for module in MODULES if module in reached_from(module)]


def test_the_environment_knows_nothing_of_the_agents():
    files = (path for name, path in SOURCES.items() if name.startswith("alles_kaese_env/"))
    assert not [path.name for path in files if imported_anywhere(path) & {"agents", "train"}]


@pytest.mark.parametrize("module", ["alles_kaese_env.game_batch", "alles_kaese_env.core.rules"])
def test_games_need_no_viewer(module):
    assert not [name for name in reached_from(module) if ".viewer" in name or ".envs" in name]


def parameters_of(node):
    """The names of what a function takes, without the object that it belongs to."""
    parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [one.arg for one in parameters if one.arg not in {"self", "cls"}]


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_files_and_signatures_stay_small(name):
    """Except for constructors of environment APIs: libraries pass them their keywords by name."""
    text = SOURCES[name].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 600
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            is_api = name.startswith("alles_kaese_env/envs/") and node.name == "__init__"
            assert is_api or len(parameters_of(node)) <= 8, node.name


def test_no_file_edits_the_search_path():
    """An editable install and `pythonpath` of pytest find everything."""
    edits = re.compile(r"sys\s*\.\s*path\s*(?:\.\s*(?:insert|append|extend)|\+?=[^=]|\[)")
    assert not [path.name for path in EDITED if edits.search(path.read_text(encoding="utf-8"))]

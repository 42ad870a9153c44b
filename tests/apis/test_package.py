"""What the package promises as a whole: its imports, its one compiled file, its public names."""

from __future__ import annotations

import ast
import copy

import numpy as np
import pytest

import alles_kaese_env
from alles_kaese_env import (
    OBSERVATION,
    AllesKaeseEnv,
    AllesKaeseVectorEnv,
    GameBatch,
    Variant,
    alles_kaese_v0,
)
from alles_kaese_env.core import loops
from alles_kaese_env.core.memory import BYTES_A_GAME
from apis.helpers import COPIES, PACKAGE, arrays_in, run_python, scribble

FILES = sorted(PACKAGE.rglob("*.py"))
CORE = PACKAGE / "core"
OPTIONAL = ("torch", "stable_baselines3", "sb3_contrib", "matplotlib", "pygame", "ray", "pyspiel")

# Whatever of Numba makes compiled code, or objects with compiled methods.
COMPILERS = {
    "jit",
    "njit",
    "vectorize",
    "guvectorize",
    "cfunc",
    "stencil",
    "overload",
    "intrinsic",
    "jitclass",
    "jit_wrapping",
    "generated_jit",
}


def tree_of(file) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def imported(tree: ast.AST) -> set[str]:
    """The full names of all modules that a file imports, wherever it does."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def dotted(node: ast.AST) -> str:
    """A name such as a.b.c as text."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def decorators(tree: ast.AST) -> set[str]:
    """The last parts of the names of all decorators and of functions that are called as such."""
    names = set()
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", []):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            names.add(dotted(called).rpartition(".")[2])
    return names


# --- Scans of the source ------------------------------------------------------------------


def test_the_scans_see_the_files():
    names = {str(file.relative_to(PACKAGE)) for file in FILES}
    assert {"core/rules.py", "envs/gym_env.py", "envs/sb3.py", "viewer/text.py"} <= names
    assert imported(ast.parse("def f():\n    import a.b\n    from c import d")) == {"a.b", "c"}
    assert decorators(ast.parse("@x.njit(cache=True)\ndef f(): pass")) == {"njit"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_file_imports_agents(file):
    assert not [name for name in imported(tree_of(file)) if name.split(".")[0] == "agents"]


def test_compiled_functions_stand_in_the_core_only():
    for file in FILES:
        tree = tree_of(file)
        uses_numba = any(name.split(".")[0] in ("numba", "llvmlite") for name in imported(tree))
        compiles = bool(decorators(tree) & COMPILERS)
        assert not (uses_numba or compiles) or file.parent == CORE, file.name


def test_the_core_imports_nothing_of_the_rest_of_the_package():
    names = set().union(*(imported(tree_of(file)) for file in CORE.glob("*.py")))
    assert "numpy" in names
    ours = [name for name in names if name.startswith((".", "alles_kaese_env"))]
    assert ours
    assert all(name.startswith("alles_kaese_env.core.") for name in ours)


def test_the_core_has_no_random_numbers_but_its_own():
    trees = [tree_of(file) for file in CORE.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    used = {dotted(node) for node in nodes if isinstance(node, ast.Attribute)}
    assert "np.float32" in used
    assert not [name for name in used if name.startswith(("np.random", "numpy.random"))]
    for tree in trees:
        assert not imported(tree) & {"random", "secrets", "numpy.random"}


def test_no_file_uses_the_global_generator_of_numpy():
    allowed = {"default_rng", "Generator", "SeedSequence", "PCG64", "BitGenerator"}
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            name = dotted(node) if isinstance(node, ast.Attribute) else ""
            if name.startswith("np.random."):
                assert name.split(".")[2] in allowed, f"{name} in {file.name}"


# --- Importing ----------------------------------------------------------------------------


def test_importing_compiles_nothing_and_loads_no_extra():
    code = f"""
import sys
import alles_kaese_env
from alles_kaese_env.core import jit, loops, rules
every = [*vars(loops).values(), *vars(rules).values()]
jitted = [one for one in every if hasattr(one, "signatures")]
assert len(jitted) > 20 or jit.IS_PLAIN_PYTHON
assert all(not one.signatures for one in jitted)
print([name for name in {OPTIONAL!r} if name in sys.modules])
"""
    assert run_python(code, "-W", "error::UserWarning") == "[]"


def test_public_names():
    names = alles_kaese_env.__all__
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(alles_kaese_env, name) is not None
    scope = {}
    exec("from alles_kaese_env import *", scope)
    assert set(names) <= set(scope)
    assert alles_kaese_env.__version__.count(".") == 2


ADAPTERS = {  # library and extra
    "sb3": ("stable_baselines3", "train"),
    "open_spiel": ("pyspiel", "openspiel"),
    "rllib": ("ray", "rllib"),
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_without_its_library_says_how_to_install_it(name):
    module, (library, extra) = f"alles_kaese_env.envs.{name}", ADAPTERS[name]
    code = f"""
import sys
sys.modules[{library!r}] = None
import alles_kaese_env
try:
    import {module}
except ImportError as error:
    print(error)
"""
    said = run_python(code)
    assert module in said
    assert f'pip install "alles-kaese[{extra}]"' in said


def test_every_adapter_is_tested_for_its_missing_library():
    names = {file.stem for file in (PACKAGE / "envs").glob("*.py")} - {"__init__"}
    assert names == set(ADAPTERS) | {"common", "gym_env", "vector_env", "pettingzoo_env"}


# --- Compiled code ----------------------------------------------------------------------------


def compiled() -> dict[str, int]:
    """How many versions of each loop of the core are compiled."""
    return {
        name: len(one.signatures) for name, one in vars(loops).items() if hasattr(one, "signatures")
    }


def make_batch():
    return GameBatch(3, Variant(3), seed=0)


def make_env():
    env = AllesKaeseEnv(num_players=3)
    env.reset(seed=0)
    return env


def make_vector():
    env = AllesKaeseVectorEnv(3, num_players=3)
    env.reset(seed=0)
    return env


def make_aec():
    env = alles_kaese_v0.raw_env(num_players=3)
    env.reset(seed=0)
    return env


def use(one) -> None:
    """Step, reset and observe, whatever it is."""
    if isinstance(one, GameBatch):
        one.step(one.random_actions())
        one.observe(0)
    elif isinstance(one, alles_kaese_v0.raw_env):
        one.step(int(one.last()[0]["action_mask"].argmax()))
        one.observe("player_0")
    else:
        one.step(one.action_masks().argmax(axis=-1))
    one.reset()


def compiled_for_copies() -> list[str]:
    """Which copies make the core compile anything that the original did not need."""
    culprits = []
    for make in (make_batch, make_env, make_vector, make_aec):
        for name, duplicate in COPIES.items():
            original = make()
            use(original)
            before = compiled()
            use(duplicate(original))
            if compiled() != before:
                culprits.append(f"{name} of {make.__name__}")
    return culprits


def test_copies_use_the_code_that_is_compiled_already():
    """Another type of array, one that may be written into, would compile the core again."""
    code = f"from {__name__} import compiled_for_copies; print(compiled_for_copies())"
    assert run_python(code) == "[]"


def test_a_copy_of_a_variant_has_rules_that_cannot_be_changed():
    variant = Variant(3)
    assert not variant.rules.flags.writeable
    for duplicate in COPIES.values():
        assert duplicate(variant) == variant
        assert not duplicate(variant).rules.flags.writeable


# --- What the batch returns ---------------------------------------------------------------


def test_returned_arrays_of_the_batch_are_not_its_own():
    batch = GameBatch(5, Variant(4), seed=1)
    own = [one for one in vars(batch).values() if isinstance(one, np.ndarray)]
    state = batch.get_state()
    returned = [
        batch.observe(),
        batch.observe(2),
        batch.observe([0, 1, 2, 3, 0]),
        batch.random_actions(),
        state["games"],
        state["streams"],
    ]
    assert len(own) > 6
    for array in returned:
        assert not any(np.shares_memory(array, other) for other in own)


def test_writing_into_what_the_batch_returned_changes_nothing():
    batch, twin = (GameBatch(5, Variant(4), seed=1) for _ in range(2))
    for _ in range(10):
        scribble([batch.observe(), batch.observe(1)])
        actions = batch.random_actions()
        assert np.array_equal(actions, twin.random_actions())
        batch.step(actions)
        twin.step(actions)
        scribble(actions)
        state = batch.get_state()
        state["games"][:] = 0
        state["streams"][:] = 0
    ours, theirs = (arrays_in(one.get_state()) for one in (batch, twin))
    assert len(ours) == 2
    assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_a_state_that_was_set_is_copied():
    batch, twin = GameBatch(5, Variant(4), seed=1), GameBatch(5, Variant(4), seed=2)
    state = batch.get_state()
    kept = copy.deepcopy(state)
    twin.set_state(state)
    twin.step(twin.random_actions())
    assert all(
        np.array_equal(one, other)
        for one, other in zip(arrays_in(state), arrays_in(kept), strict=True)
    )


def test_a_batch_counts_its_memory():
    batch = GameBatch(3, Variant(num_players=5))
    arrays = [array for array in vars(batch).values() if isinstance(array, np.ndarray)]
    assert sum(array.nbytes for array in arrays) == 3 * (BYTES_A_GAME + 5 * 4)


@pytest.mark.posix
@pytest.mark.parametrize("make", [GameBatch, AllesKaeseVectorEnv])
def test_more_games_than_memory_holds_are_refused_before_they_are_made(make):
    with pytest.raises(ValueError, match=r"^1000000000 games need 1,286 GB of memory; allowed: "):
        make(10**9)


def test_wrong_arguments_of_the_batch_and_the_layout_are_named():
    batch = GameBatch(4, seed=0)
    with pytest.raises(ValueError, match="variant is 2; allowed: a Variant, or None"):
        GameBatch(4, 2)
    for seats in (1.7, [0, 1], "0", True):
        with pytest.raises(ValueError, match=r"seats is .*; allowed: a whole number, or 4 of them"):
            batch.observe(seats)
    with pytest.raises(KeyError, match="field is 'x'; allowed: row, own_peeks"):
        OBSERVATION["x"]
    size = OBSERVATION.size
    with pytest.raises(ValueError, match=rf"shape \(4, {size}\); allowed: \({size},\)"):
        OBSERVATION.facts(batch.observations, batch.variant)

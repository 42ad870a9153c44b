"""The project as if NumPy's default integer had 32 bits, as in NumPy 1.26 on Windows.

NumPy takes its default from the C compiler and has no switch for it. So `install` translates each
module of the project while it is imported: where plain Python leaves the width to NumPy
(``astype(int)``, ``dtype=int``, `np.arange` and arrays of Python ints, sums of narrower integers),
the result is made int32, with the wrapping around that this brings. What Numba compiles stays as it
is: on every 64-bit platform its integers have 64 bits. Not simulated is what needs no call, such as
an array of bools times a Python int.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import sys
from importlib.machinery import PathFinder, SourceFileLoader

import numpy as np

PROJECT = ("alles_kaese_env", "agents")
COMPILED = ("jit", "jit_wrapping", "emitted_by", "compiled")
MAKERS = ("arange", "array", "asarray", "full", "zeros", "ones", "empty", "where", "fromiter")
SUMS = ("sum", "prod", "cumsum", "cumprod", "trace")
WIDE = (np.dtype(np.int64), np.dtype(np.uint64))


def is_wide(value):
    """Whether a value asks NumPy for 64 bits, whatever the default is."""
    if isinstance(value, (list, tuple)):
        return any(is_wide(one) for one in value)
    if isinstance(value, type):
        return value in (np.int64, np.uint64)
    return getattr(value, "dtype", None) in WIDE


def narrow(function):
    """A function or method of NumPy whose default integers have 32 bits."""

    def call(*args, **kwargs):
        result = function(*args, **kwargs)
        if not isinstance(result, (np.ndarray, np.integer)) or result.dtype not in WIDE:
            return result
        name, given = function.__name__, [*args, *kwargs.values()]
        if int not in [one for one in given if isinstance(one, type)]:
            given += [getattr(function, "__self__", None)]
            is_too_large = name not in SUMS and np.size(result) and np.abs(result).max() >= 2**31
            if name == "astype" or is_too_large or any(is_wide(one) for one in given):
                return result
        return result.astype(np.int32 if result.dtype.kind == "i" else np.uint32)

    return call


class Narrowing(ast.NodeTransformer):
    """Puts `narrow` around each call that leaves the width of an integer to NumPy."""

    def visit_FunctionDef(self, node):
        names = {getattr(getattr(one, "func", one), "id", None) for one in node.decorator_list}
        return node if names & {*COMPILED} else self.generic_visit(node)

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            is_numpy = isinstance(node.func.value, ast.Name) and node.func.value.id == "np"
            if node.func.attr in (*SUMS, *(MAKERS if is_numpy else ("astype",))):
                name = ast.Name("narrow_integers", ast.Load())
                node.func = ast.copy_location(ast.Call(name, [node.func], []), node.func)
                ast.copy_location(name, node.func)
        return node


def code_of(source, path):
    """The translated source, compiled."""
    tree = Narrowing().visit(ast.parse(source))
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class Loader(SourceFileLoader):
    """Loads a module of the project translated, past the compiled files of Python."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return code_of(self.get_data(path), path)


class Finder(PathFinder):
    """Finds the modules of the project."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in PROJECT:
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(fullname, spec.origin)
        return spec


def install():
    """Translate every module of the project that is imported from now on."""
    builtins.narrow_integers = narrow
    sys.meta_path.insert(0, Finder)


# --- What is done once with either default -----------------------------------------------------


def results():
    """What a run of every part that counts gives: digests and figures by name."""
    from properties.trace import trace_digest

    return {
        "games": trace_digest(),
        "rules": rules_of_variants(),
        "states": states_and_replays(),
        "learners": learners(),
        "shares": shares(),
        "solved": solved(),
        "types": compiled_types(),
    }


def rules_of_variants():
    """The rules of all variants as the core reads them."""
    from builders import all_variants

    return hashlib.sha256(b"".join(one.rules.tobytes() for one in all_variants())).hexdigest()


def states_and_replays():
    """Recorded games of small variants: their texts, and states that are taken back."""
    from builders import all_variants

    from alles_kaese_env import GameBatch
    from alles_kaese_env.replay.file import from_json, to_json
    from alles_kaese_env.viewer.text import text_of
    from alles_kaese_env.viewer.view import view_of_observation, view_of_replay

    digest = hashlib.sha256()
    for variant in all_variants():
        batch = GameBatch(3, variant, seed=17, record=True)
        for _ in range(12):
            rows = np.flatnonzero(~batch.over)
            batch.step(batch.random_actions(rows), rows)
        state = batch.get_state()
        batch.set_state(state)
        digest.update(state["games"].tobytes())
        replay = GameBatch(1, variant, seed=17, record=True).replay(perspective="all")
        text = to_json(replay) + text_of(view_of_replay(from_json(to_json(replay))))
        text += text_of(view_of_observation(batch.observe(1)[0], variant, 1))
        digest.update(text.encode())
    return digest.hexdigest()


def learners():
    """Steps of environments in which one seat learns, against agents, with shaped rewards."""
    from alles_kaese_env import AllesKaeseVectorEnv
    from alles_kaese_env.envs.sb3 import AllesKaeseVecEnv, JoinedVecEnv

    digest = hashlib.sha256()
    opponents = ["reference", "heuristic", "random"]
    env = AllesKaeseVectorEnv(4, 4, opponents, reward="shaped", autoreset_mode="SameStep")
    _, infos = env.reset(seed=18)
    parts = [AllesKaeseVecEnv(3, players, "greedy", seed=19) for players in (2, 5)]
    joined = JoinedVecEnv(parts)
    joined.seed(20)
    joined.reset()
    for _ in range(20):
        observations, rewards, *_, infos = env.step(infos["action_mask"].argmax(axis=1))
        digest.update(observations.tobytes() + rewards.tobytes())
        observations, rewards, dones, _ = joined.step(joined.action_masks().argmax(axis=1))
        digest.update(observations.tobytes() + rewards.tobytes() + dones.tobytes())
    return digest.hexdigest()


def shares():
    """Each agent against the reference."""
    import agents
    from agents.arena.matches import win_share

    opponent, names = agents.make("reference"), ("random", "greedy", "heuristic", "ppo", "search:8")
    return {
        f"{name}, {players} players": win_share(
            agents.make(name), opponent, num_players=players, games=12, seed=21
        ).share
        for name in names
        for players in (2, 4)
    }


def solved():
    """A small game with its exploited agents."""
    import agents
    from agents.solve import subgames
    from agents.solve.solution import solve
    from alles_kaese_env import Variant

    subgames.AT_ONCE = 2  # the end of the last part is a number of NumPy, that of others is not
    small = Variant(traps=(1, 1), copies=(2, 2), row_size=2, trap_limit=1)
    table = {name: agents.make(name, small) for name in ("random", "greedy")}
    solution = solve(small, table, gap=1e-3)
    return [solution.value, solution.exploited, solution.states]


def compiled_types():
    """The types for which each compiled function of the project was asked."""
    return sorted(
        f"{name}.{function.__name__} {signature}"
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in PROJECT
        for function in set(filter(callable, vars(module).values()))
        for signature in getattr(function, "signatures", ())
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["narrow"]:
        install()
    json.dump(results(), sys.stdout)

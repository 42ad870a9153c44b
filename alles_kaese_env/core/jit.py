"""Compile with Numba, under one cache for all compiled functions of the project.

Numba renews a cached function when the time stamp of its own file changes, and looks at no other
file. Here the stamp is a digest of the contents of that file and of all files of the project that
it imports, directly or not: an edit of any of them renews what depends on it, and a touched time
stamp renews nothing. With ``NUMBA_DISABLE_JIT=1`` everything runs as plain Python.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import config, njit
from numba.core.caching import FunctionCache

IS_PLAIN_PYTHON: bool = getattr(config, "DISABLE_JIT", False)
PROJECT = ("alles_kaese_env", "agents")
IMPORT = re.compile(
    rf"^(?:from|import) ((?:{'|'.join(PROJECT)})\b[\w.]*)(?: import (\([^)]*\)|.*))?", re.M
)
PATIENCE = 2.0  # seconds of compilation before a person is told


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use into whatever calls it, keep the result on disk, release the GIL."""
    return compiled(function, forceinline=True)


def jit_wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jit`, for integers that wrap around: plain Python would warn of it."""
    return np.errstate(over="ignore")(function) if IS_PLAIN_PYTHON else jit(function)


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function, compiled with these options of `numba.njit` and kept on disk."""
    dispatcher = njit(nogil=True, error_model="numpy", **options)(function)
    if not IS_PLAIN_PYTHON:
        with suppress(RuntimeError):  # no directory can be written: each process compiles anew
            dispatcher._cache = CompiledFiles(function)
    return dispatcher


class CompiledFiles(FunctionCache):
    """Numba's cache on disk, keyed by the contents of files.

    A broken file counts as a missing one, and nothing is kept where nothing can be written.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = digest_of(Path(function.__code__.co_filename))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled before, None if it is not there; then it is compiled anew."""
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # half a file, after a kill or a full disk, can raise anything
            with suppress(OSError):
                self.flush()
        if found is None:
            COMPILER.begin()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if there is space for it."""
        COMPILER.end()
        with suppress(OSError):
            super().save_overload(sig, data)


class Compiler:
    """Tells a person at a terminal, once in a process, that it compiles for some seconds."""

    def __init__(self) -> None:
        self._depth = 0  # compiling a function compiles those that it calls
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """A function is being compiled."""
        self._depth += 1
        if self._timer is None and sys.stderr is not None and sys.stderr.isatty():
            self._timer = threading.Timer(PATIENCE, self._tell)
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """It has been compiled."""
        self._depth = max(0, self._depth - 1)

    def _tell(self) -> None:
        if self._depth:
            print("compiling for this machine; this happens once", file=sys.stderr, flush=True)


COMPILER = Compiler()


def digest_of(file: Path) -> str:
    """A digest of the contents of a file and of the files of the project that it depends on."""
    total = hashlib.sha256()
    for path in sorted(dependencies(file)):
        total.update(path.name.encode() + _contents(path))
    return total.hexdigest()


def dependencies(file: Path) -> set[Path]:
    """A file and all files of the project that it imports, directly or not."""
    found: set[Path] = set()
    waiting = [file.resolve()]
    while waiting:
        path = waiting.pop()
        if path not in found and path.is_file():
            found.add(path)
            waiting.extend(_imports(path))
    return found


@cache
def _contents(path: Path) -> bytes:
    return path.read_bytes()


@cache
def _imports(path: Path) -> list[Path]:
    """Where the modules may be that a file imports: each name can be a module or stand in one."""
    found = []
    for module, names in IMPORT.findall(_contents(path).decode()):
        package, *parts = module.split(".")
        if package in sys.modules:
            inside = Path(str(sys.modules[package].__file__)).resolve().parent.joinpath(*parts)
            found += [inside.with_suffix(".py")]
            found += [inside / f"{name}.py" for name in re.findall(r"\w+", names)]
    return found

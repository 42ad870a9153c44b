"""Files that are written whole or not at all, and read without executing what they hold."""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_BYTES = 2**31  # in one file of arrays, unpacked

# What NumPy, zipfile and json raise for a file that is broken or was made to break them.
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    OverflowError,
    MemoryError,
    RecursionError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place when the block ends well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Say in one line that the file is none of ``what`` if it cannot be read in the block.

    Raises:
        ValueError: the block raised one of `UNREADABLE`.
    """
    try:
        yield
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is no {what} ({reason})") from None


def read_arrays(file: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an ``.npz`` file, without pickle and not larger than `MOST_BYTES`.

    Raises:
        Exception: one of `UNREADABLE`, if it is no such file.
    """
    with open(file, "rb") as stream, zipfile.ZipFile(stream) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES} bytes")
        arrays = {}
        for name in archive.namelist():
            with archive.open(name) as entry:
                array = np.lib.format.read_array(entry, allow_pickle=False, max_header_size=10_000)
            arrays[name.removesuffix(".npy")] = array
    return arrays

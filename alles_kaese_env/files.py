"""Files: written atomically, and read without executing what they hold."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_BYTES = 2**31  # in one file of arrays, unpacked

STREAMS = ("/dev/std", "/dev/fd/", "/proc/")  # written into, even where a file lies behind them


def checked_output(path: str | Path, option: str, suffixes: Collection[str] = ()) -> Path:
    """The path, if a file can be written there: for a check before the work, not after it.

    Args:
        path: where a command will write.
        option: names it in the error, such as "--json".
        suffixes: the endings that are allowed, such as ".png"; any if empty.

    Raises:
        ValueError: nothing can be written there; one line says why.
    """
    path = Path(path)
    if suffixes and path.suffix.lower() not in suffixes:
        raise ValueError(f"{option} is {path}; allowed: a file that ends in {', '.join(suffixes)}")
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a directory")
        target = _replaced_file(path)
        if target is not None:
            temporary = _temporary_beside(target)
            temporary.touch()
            temporary.unlink()
        elif not os.access(path, os.W_OK):
            raise PermissionError(0, "no permission to write")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(
            f"{option} is {path}; allowed: a file that can be written ({reason})"
        ) from None
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file whose content is at ``path`` when the block ends well.

    A regular file is replaced atomically; of a link, the file that it leads to. Anything else,
    such as a device, a FIFO or /dev/stdout, is written into.

    Raises:
        OSError: the file cannot be written.
    """
    target = _replaced_file(path)
    if target is None:
        with tempfile.TemporaryDirectory() as directory:
            temporary = Path(directory) / f"output{path.suffix}"
            yield temporary
            with open(temporary, "rb") as source, open(path, "wb") as stream:
                shutil.copyfileobj(source, stream)
        return
    temporary = _temporary_beside(target)
    try:
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _replaced_file(path: Path) -> Path | None:
    """The file that an output replaces, behind all links; None for what it is written into."""
    target = Path(os.path.realpath(path))
    is_stream = os.path.abspath(path).startswith(STREAMS)
    return None if is_stream or (target.exists() and not target.is_file()) else target


def _temporary_beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.tmp{target.suffix}")


@contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Say in one line that the file is no ``what`` if reading it fails in the block.

    NumPy, zipfile and json raise errors of all kinds for a file that was made to break them.

    Raises:
        ValueError: the block raised an exception.
    """
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is no {what} ({reason})") from None


def read_arrays(file: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an ``.npz`` file, without pickle and not larger than `MOST_BYTES`.

    Raises:
        Exception: it is no such file; see `reading`.
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


def read_entries(path: Path) -> dict[str, Any]:
    """The entries of `write_entry` in a file, by number of players as text; none without a file.

    Raises:
        ValueError: it is no such file.
    """
    with reading(path, "file of entries by number of players"):
        return dict(json.loads(path.read_bytes())["num_players"]) if path.exists() else {}


def write_entry(path: Path, about: str, num_players: int, entry: dict[str, Any]) -> None:
    """Write the entry of a number of players into a JSON file; the other entries stay."""
    entries = read_entries(path) | {str(num_players): entry}
    content = {"about": about, "num_players": dict(sorted(entries.items()))}
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

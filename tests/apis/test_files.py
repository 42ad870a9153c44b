"""Outputs: what is replaced, what is written into, and what is refused before the work."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from alles_kaese_env.files import checked_output, replacing


def write(path, words="new"):
    with replacing(path) as temporary:
        temporary.write_text(words)


def test_a_file_is_replaced_only_when_the_block_ends_well(tmp_path):
    path = tmp_path / "out.json"
    write(path, "old")
    with pytest.raises(TypeError), replacing(path) as temporary:
        temporary.write_text(b"what is no text")
    assert path.read_text() == "old"
    write(path)
    assert path.read_text() == "new"
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.posix
def test_a_file_keeps_its_mode(tmp_path):
    path = tmp_path / "private.json"
    path.touch(0o600)
    write(path)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.posix
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_and_its_target_is_replaced(is_there, tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "target.json", tmp_path / "link.json"
    if is_there:
        target.write_text("old")
    link.symlink_to(target)
    assert checked_output(link, "--json") == link
    write(link)
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert [one.name for one in target.parent.iterdir()] == ["target.json"]


@pytest.mark.posix
def test_a_fifo_is_written_into(tmp_path):
    path, read = tmp_path / "fifo", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()), daemon=True)
    reader.start()
    write(checked_output(path, "--json"))
    reader.join(20)
    assert read == ["new"]
    assert path.is_fifo()


@pytest.mark.posix
@pytest.mark.parametrize("path", ["/dev/null", "/dev/stdout", "/dev/fd/1"])
def test_devices_and_streams_are_written_into(path, tmp_path):
    """The standard output is a file here, which its path may not be replaced by another."""
    code = (
        "import os, pathlib; from alles_kaese_env.files import checked_output, replacing\n"
        f"path = checked_output({path!r}, '--json')\n"
        "with replacing(path) as temporary: temporary.write_text('new')\n"
        "assert not os.path.isfile('/dev/null')\n"
    )
    log = tmp_path / "log"
    with open(log, "w") as stream:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", code],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, stream.fileno(), 1)],
        )
        inode = os.fstat(stream.fileno()).st_ino
    assert os.waitpid(pid, 0)[1] == 0
    assert log.stat().st_ino == inode
    assert log.read_text() == ("" if path == "/dev/null" else "new")


@pytest.mark.parametrize("path", ["", ".", "no/such/directory/x.json", "x" * 300])
def test_what_cannot_be_written_is_refused_in_one_line(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^--json is .*; allowed: a file .*$") as caught:
        checked_output(path, "--json")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_check_leaves_everything_as_it_was(tmp_path):
    old = tmp_path / "old.png"
    old.write_text("old")
    for path in (old, tmp_path / "new.PNG"):
        assert checked_output(path, "--plot", (".png", ".svg")) == path
    assert old.read_text() == "old"
    assert list(tmp_path.iterdir()) == [old]
    with pytest.raises(ValueError, match=r"--plot is x\.gif; allowed: .* \.png, \.svg"):
        checked_output("x.gif", "--plot", (".png", ".svg"))

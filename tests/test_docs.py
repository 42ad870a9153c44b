"""The documentation: generated pages are up to date, code runs, links lead somewhere."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from alles_kaese_env import OBSERVATION

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def run_python(*arguments, cwd=ROOT):
    """A fresh interpreter that finds the repository; it must end well."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def script_of(page):
    """The Python blocks of a page as one script, with each line where it is on the page."""
    text = page.read_text()
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        code = block.group(1).splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines) + "\n"


def libraries_of(page):
    """The top-level names that the code of a page imports."""
    nodes = list(ast.walk(ast.parse(script_of(page))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return sorted({name.partition(".")[0] for name in names})


def test_the_observation_page_has_the_layout():
    assert OBSERVATION.table() in (DOCS / "observation.md").read_text()


def test_generated_pages_are_up_to_date(tmp_path):
    """Written anew in an empty directory, they are byte by byte those of the repository."""
    shutil.copy(DOCS / "generate.py", tmp_path)
    for measured in ("leaderboard", "good_play", "game"):
        shutil.copytree(DOCS / measured, tmp_path / measured)
    (tmp_path / "game" / "replay.html").unlink()
    run_python(tmp_path / "generate.py")
    pages = [page.relative_to(tmp_path) for page in tmp_path.glob("**/*.*")]
    assert {Path("observation.md"), Path("game/replay.html")} <= set(pages)
    for page in pages:
        assert (tmp_path / page).read_bytes() == (DOCS / page).read_bytes(), page


def test_the_readme_has_code():
    assert len(BLOCK.findall((ROOT / "README.md").read_text())) >= 3


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=name_of
)
def test_the_code_of_a_page_runs(page, tmp_path):
    for library in libraries_of(page):
        pytest.importorskip(library, reason=f"{library} is missing, which {page.name} needs")
    script = tmp_path / f"code_of_{page.stem.lower()}.py"
    script.write_text(script_of(page))
    run_python(script, cwd=tmp_path)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if LINK.search(page.read_text())], ids=name_of
)
def test_links_of_a_page_lead_to_files(page):
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing

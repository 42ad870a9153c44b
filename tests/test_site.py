"""The documentation site: it builds without a warning, shows every page and fetches nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REASON = 'needs the extra docs: pip install -e ".[docs]"'
pytest.importorskip("mkdocs", reason=REASON)
pytest.importorskip("material", reason=REASON)
pytest.importorskip("mkdocstrings", reason=REASON)

ROOT = Path(__file__).parents[1]
FETCHED = re.compile(r'<(?:link|script|img|iframe)[^>]*(?:href|src)="?https?://[^">]*')


def build(site):
    """Build the site as the documentation says; the words of the program."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    return site, build(site)


def test_every_page_is_in_the_navigation(built):
    assert "not included in the" not in built[1]


def test_no_page_fetches_anything_from_elsewhere(built):
    pages = list(built[0].glob("**/*.html"))
    assert len(pages) > 10
    fetched = {page.name: FETCHED.findall(page.read_text()) for page in pages}
    assert not {name: links for name, links in fetched.items() if links}


@pytest.mark.parametrize(
    "name",
    ["AllesKaeseEnv", "AllesKaeseVectorEnv", "GameBatch", "raw_env", "Variant", "Replay", "make"],
)
def test_the_api_page_has_the_public_names(built, name):
    text = (built[0] / "api.html").read_text()
    assert re.search(rf'<h[34] id="[a-z_.]*{name}"', text, re.IGNORECASE)

"""The notebooks: kept without outputs, and each runs from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
SECONDS = 1_500  # for a cell, on a machine that is busy with other things
INSTALL = 'needs the extra docs: pip install -e ".[docs]"'
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_four():
    assert [path.stem[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04"]


@by_name
def test_a_notebook_is_kept_without_outputs(path):
    notebook = json.loads(path.read_text())
    assert notebook["metadata"] == METADATA
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@by_name
def test_a_notebook_begins_with_what_to_install(path):
    words, check = json.loads(path.read_text())["cells"][:2]
    assert 'pip install -e ".[train,render]"' in "".join(words["source"])
    assert "find_spec" in "".join(check["source"])


@pytest.mark.long
@by_name
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    for name in ("nbclient", "ipykernel", "sb3_contrib", "choix", "pygame"):
        pytest.importorskip(name, reason=INSTALL)
    import nbformat
    from ipykernel.kernelspec import write_kernel_spec
    from nbclient import NotebookClient

    # "python3" is the interpreter of the tests, whatever kernels somebody has registered.
    write_kernel_spec(tmp_path / "kernels" / "python3")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)

"""Each notebook runs, and produces its saved outputs."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"
# Runs in a separate process, because the kernel's client logs many unrelated warnings.
EXECUTE = """
import json, sys
import nbformat
from nbclient import NotebookClient
for name in sys.argv[1:]:
    notebook = nbformat.read(name, as_version=4)
    try:
        NotebookClient(notebook, timeout=120).execute()
    except Exception as error:
        print(json.dumps(str(error)))
    else:
        print(json.dumps(notebook))
"""
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))


def outputs(notebook: dict) -> list[tuple[str, list[str]]]:
    """Return the source and the text output of each code cell."""
    found = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            shown = [out.get("text") or out["data"]["text/plain"] for out in cell["outputs"]]
            found.append(("".join(cell["source"]), ["".join(text) for text in shown]))
    return found


def test_the_notebooks_are_these():
    index = (NOTEBOOKS / "index.md").read_text("utf-8")
    names = {path.name for path in NOTEBOOKS.glob("*.ipynb")}
    assert names == {*re.findall(r"\]\((\w+\.ipynb)\)", index)}
    assert len(names) == 5


def test_data_of_the_notebooks_are_small_and_named():
    told = (NOTEBOOKS / "data" / "README.md").read_text("utf-8")
    files = {*(NOTEBOOKS / "data").iterdir()} - {NOTEBOOKS / "data" / "README.md"}
    assert files
    assert [file.name for file in files if f"| `{file.name}` |" not in told] == []
    assert [file.name for file in files if file.stat().st_size > 300_000] == []


@pytest.fixture(scope="module")
def executed() -> dict[Path, dict | str]:
    """Return each notebook after a run, or its error."""
    missing = [name for name in ("ipykernel", "nbclient") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: pip install --group docs")
    command = [sys.executable, "-c", EXECUTE, *(path.name for path in PATHS)]
    done = subprocess.run(command, cwd=NOTEBOOKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(PATHS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_was_saved_with(path, executed):
    if "duckdb" in path.read_text("utf-8"):
        pytest.importorskip("duckdb")
        pytest.importorskip("polars")
    saved = outputs(json.loads(path.read_text("utf-8")))
    assert sum(len(shown) for _, shown in saved) > 5
    found = executed[path]
    assert isinstance(found, dict), found
    assert outputs(found) == saved

"""The examples in the manual, as typed user code: type checkers find no errors in them.

Pyright also checks the code of `test_typed_code.py`.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import test_typed_code
from test_docstrings import EXAMPLES

pytest.importorskip("mypy")
pytestmark = pytest.mark.slow

Fault = tuple[str, str]
"""The page, and a message without its position."""

# Examples are shorter than modules: they reuse names, and their helpers have no annotations.
MYPY = """[mypy]
strict = True
allow_redefinition = True
allow_untyped_defs = True
allow_untyped_calls = True
disable_error_code = import-untyped, var-annotated, func-returns-value
"""
PYRIGHT = {
    "typeCheckingMode": "standard",
    "reportMissingModuleSource": False,
    "reportMissingTypeStubs": False,
    "reportOptionalMemberAccess": False,
    "reportOptionalSubscript": False,
    "reportUnusedExpression": False,
}
# Errors that type checkers also report for other programs.
ACCEPTED = re.compile(
    # A poll returns None after the last batch. Examples do not check whether a batch was the last
    # one.
    r'"Any \| None"'
    # Polars does not declare the namespaces that packages register.
    r"|\"LazyFrame\" has no attribute \"tidegate\"|attribute \"tidegate\" for class \"LazyFrame\""
    # DuckDB declares that every query may have no result, and pandas has no type for a single row.
    r"|DuckDBPyRelation \| None|Series|__getitem__"
)


def write(folder: Path) -> dict[str, str]:
    """Write the examples of each page as a module, and return the pages by module."""
    pages = {}
    for place, text in EXAMPLES.items():
        page, _, kind = place.rpartition(":")
        if kind != "examples":
            continue
        lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", text, re.MULTILINE)
        code = "\n".join(["from typing import Any", *lines])
        # A dict of arguments has values of different types.
        for name in set(re.findall(r"\*\*(\w+)", code)):
            annotated = f"{name}: dict[str, Any] = {{"
            code = re.sub(rf"^{name} = \{{", annotated, code, count=1, flags=re.MULTILINE)
        module = re.sub(r"\W", "_", f"page_{page}")
        (folder / f"{module}.py").write_text(code + "\n")
        pages[module] = page
    assert len(pages) > 15
    return pages


def faults(found: Iterator[Fault]) -> list[Fault]:
    return [fault for fault in found if not ACCEPTED.search(fault[1])]


def test_mypy_finds_no_faults(tmp_path):
    pages = write(tmp_path)
    (tmp_path / "mypy.ini").write_text(MYPY)
    names = [f"{module}.py" for module in pages]
    # The types of other libraries are read only once.
    cache = Path(__file__).parents[2] / ".mypy_cache" / "examples"
    options = ["--config-file", "mypy.ini", "--cache-dir", str(cache)]
    command = [sys.executable, "-m", "mypy", *options, *names]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\w+)\.py:\d+: error: (.*)$", done.stdout, re.MULTILINE)
    assert "checked" in done.stdout or "no issues" in done.stdout
    assert faults((pages[module], text) for module, text in found) == []


def test_pyright_finds_only_the_faults_of_typed_code(tmp_path):
    # This package contains Node.js, so the test needs no network.
    pytest.importorskip("basedpyright", reason="pip install basedpyright")
    # Reading the types of all libraries takes most of the time, so pyright runs only once.
    pages, wanted = write(tmp_path), test_typed_code.write(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath"]
    done = subprocess.run(
        [*command, sys.executable, "-p", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == len(pages) + 1
    errors = [one for one in told["generalDiagnostics"] if one["severity"] == "error"]
    in_code = [one for one in errors if Path(one["file"]).stem == "code"]
    assert {one["range"]["start"]["line"] + 1 for one in in_code} == wanted, in_code
    found = (
        (pages[Path(one["file"]).stem], one["message"].partition("\n")[0])
        for one in errors
        if one not in in_code
    )
    assert faults(found) == []

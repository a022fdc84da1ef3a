"""Every example of the package's docstrings and of README.md runs, and shows what it says.

The modules of Spark need a session, and `test_spark.py` runs their examples.
"""

import ast
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "tidegate"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Each docstring of a module or stub that has examples, with the name of what it describes."""

    def visit(
        node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str
    ) -> Iterator[tuple[str, str]]:
        text = ast.get_docstring(node)
        if text and ">>>" in text:
            yield name, text
        for inner in node.body:
            if isinstance(inner, ast.ClassDef | ast.FunctionDef):
                yield from visit(inner, f"{name}.{inner.name}".lstrip("."))

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), "")


def examples() -> Iterator[tuple[str, str]]:
    """All examples, by file and name; in README.md, the blocks of Python that show a result."""
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]):
        file = path.relative_to(PACKAGE)
        if "spark" not in file.parts:
            yield from ((f"{file.as_posix()}:{name}", text) for name, text in docstrings(path))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    ):
        if ">>>" in block:
            yield f"README.md:{number}", block


EXAMPLES = dict(examples())


def run(place: str, names: dict[str, object]) -> dict[str, object]:
    """Run an example and return the names that it leaves, `names` among them."""
    test = doctest.DocTestParser().get_doctest(EXAMPLES[place], names, place, place, 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=OPTIONS).run(test, clear_globs=False).failed == 0
    return test.globs


def names_in(file: str) -> dict[str, object]:
    """What examples of a file may use: its own names, and those its first docstring makes."""
    names: dict[str, object] = {"tidegate": tidegate}
    if file != "README.md":
        module = file.partition(".")[0].replace("/", ".").removesuffix("__init__").rstrip(".")
        names |= vars(importlib.import_module(f"tidegate.{module}".rstrip(".")))
    return run(f"{file}:", names) if f"{file}:" in EXAMPLES else names


@pytest.mark.parametrize(
    "place",
    [
        "__init__.py:",
        "_explain.py:explain",
        "_tidegate.pyi:interval_join",
        "_tidegate.pyi:interval_join_batches",
        "_tidegate.pyi:BatchReader",
        "_tidegate.pyi:IntervalJoin",
        "_tidegate.pyi:Merge.poll",
        "_tidegate.pyi:StreamJoin.poll",
        "expressions.py:Expr",
        "README.md:0",
    ],
)
def test_the_example_was_found(place):
    assert place in EXAMPLES


@pytest.mark.parametrize("place", EXAMPLES)
def test_the_example_runs(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(place, names_in(place.partition(":")[0]))

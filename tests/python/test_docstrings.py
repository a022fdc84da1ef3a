"""Docstrings are whole, and every example of them and of README.md runs and shows what it says.

The modules of Spark need a session, and `test_spark.py` runs their examples.
"""

import ast
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "tidegate"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Each docstring of a module or stub, with the name of what it describes."""

    def visit(
        node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str
    ) -> Iterator[tuple[str, str]]:
        text = ast.get_docstring(node)
        if text:
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
            found = ((f"{file.as_posix()}:{name}", text) for name, text in docstrings(path))
            yield from ((place, text) for place, text in found if ">>>" in text)
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
        "_tidegate.pyi:Operator.poll",
        "_tidegate.pyi:StreamJoin.left_sources",
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


# Arguments that have more than one text: how many, and why.
SEVERAL_TEXTS = {
    "algorithm": (3, "each operator has algorithms of its own"),
    "by": (2, "the keys of pairs of rows, and of rows"),
    "max_rows": (2, "batches may come before the error"),
    "on": (3, "the times of two inputs, the values of a band, and the time of rows"),
    "streams": (2, "any Arrow data, and sorted streams"),
    "where": (2, "a condition on pairs, and on rows"),
}


def sections(text: str) -> dict[str, dict[str, str]]:
    """The entries of each section of a docstring, such as `Args`, with their texts."""
    found: dict[str, dict[str, str]] = {}
    entries: dict[str, str] = {}
    for line in text.splitlines():
        if title := re.fullmatch(r"([A-Z]\w+):", line):
            entries = found.setdefault(title[1], {})
        elif entry := re.fullmatch(r" {4}([\w.*]+): (.*)", line):
            entries[entry[1]] = entry[2]
        elif entries and line.startswith(" " * 8):
            last = next(reversed(entries))
            entries[last] += " " + line.strip()
    return found


def functions() -> dict[str, dict[str, dict[str, str]]]:
    """The sections of each public function of the native module, by its name."""
    texts = dict(docstrings(PACKAGE / "_tidegate.pyi"))
    names = [name for name in tidegate.__all__ if inspect.isbuiltin(getattr(tidegate, name))]
    return {name: sections(texts[name]) for name in names}


FUNCTIONS = functions()


def test_no_docstring_sends_the_reader_to_another():
    texts = dict(docstrings(PACKAGE / "_tidegate.pyi"))
    assert {*FUNCTIONS} >= {"interval_join", "window_join_batches", "aggregate", "merge"}
    assert not [name for name in FUNCTIONS if re.search(r"\b[Aa]s for\b|[Ll]ikewise", texts[name])]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_described(name):
    """In the order of the call."""
    described = FUNCTIONS[name].get("Args", {})
    assert [*described] == [*inspect.signature(getattr(tidegate, name)).parameters]
    # Whatever takes an argument refuses one of another type.
    assert ("TypeError" in FUNCTIONS[name].get("Raises", {})) == bool(described)


def test_an_argument_has_one_text():
    """The text is repeated where the argument is, so that a reader finds it; word for word."""
    texts: dict[str, set[str]] = {}
    for found in FUNCTIONS.values():
        for argument, text in found.get("Args", {}).items():
            texts.setdefault(argument, set()).add(text)
    assert texts["suffix"]
    expected = {name: SEVERAL_TEXTS.get(name, (1, ""))[0] for name in texts}
    assert {name: len(several) for name, several in texts.items()} == expected
    assert texts.keys() >= SEVERAL_TEXTS.keys()


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.endswith("_batches")])
def test_a_function_and_its_form_with_batches_say_the_same(name):
    table, batches = FUNCTIONS[name.removesuffix("_batches")], FUNCTIONS[name]
    assert table["Raises"] == batches["Raises"]
    same = table["Args"].keys() - {"max_rows"}
    assert same
    assert {argument: batches["Args"][argument] for argument in same} == {
        argument: table["Args"][argument] for argument in same
    }

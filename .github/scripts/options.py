"""Writes the options of `tidegate.options` into signatures, docstrings and the reference.

For each function and class in the table, the script writes the parameters and the `Args` section
into the files below. The script also writes a table of all options into the reference page. The
rest of each file is written by hand, and the script does not change it.

    python .github/scripts/options.py          # write
    python .github/scripts/options.py --check  # fail if anything would change
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tidegate.options import Option

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "tidegate"


def _table() -> Any:  # noqa: ANN401 - a module
    """Load the table without importing the package, because the package may not be built yet."""
    spec = importlib.util.spec_from_file_location("tidegate_options", PACKAGE / "options.py")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


_TABLE = _table()
OPTIONS: Sequence[Option] = _TABLE.OPTIONS
JOINS: Sequence[str] = _TABLE.JOINS

# The files, with the prefix that the table uses for the functions in them.
FILES = {
    "calls/functions.py": "",
    "_tidegate.pyi": "",
    "spark/joins.py": "spark.",
}
# Native functions have one-line docstrings; users read the docstrings of the package functions.
NATIVE = {
    "interval_join_query": "interval_join",
    "window_join_query": "window_join",
    "band_join_query": "band_join",
    "asof_join_query": "asof_join",
    "overlap_join_query": "overlap_join",
    "AggregationQuery": "aggregate",
    "RollingQuery": "rolling",
}
# Arguments that `calls` removes before it builds a query.
TAKEN = {"left", "right", "streams", "table", "memory_limit", "lateness", "progress", "unit"}
WIDTH = 100

Definition = ast.FunctionDef | ast.ClassDef


def rewritten(file: str, text: str, options: Sequence[Option] = OPTIONS) -> str:
    """Insert the options into a file's text, and return the new text."""
    lines = text.split("\n")
    prefix = FILES[file]
    for node in reversed(ast.parse(text).body):
        if not isinstance(node, Definition):
            continue
        name = prefix + node.name
        own = [option for option in options if option.is_of(name)]
        if node.name in NATIVE and not prefix:
            of_function = f"{NATIVE[node.name]}_batches"
            own = [one for one in options if one.is_of(of_function) and one.name not in TAKEN]
        # Native functions that share the name of a public function accept only Arrow data.
        is_native = file.endswith(".pyi") and isinstance(node, ast.FunctionDef)
        if not own or (is_native and node.name not in NATIVE):
            continue
        # From bottom to top, so that the line numbers above remain valid.
        if isinstance(node, ast.ClassDef):
            _declare(lines, _constructor(node), own)
        _describe(lines, node, own)
        if isinstance(node, ast.FunctionDef):
            _declare(lines, node, own)
    return "\n".join(lines)


def _constructor(node: ast.ClassDef) -> ast.FunctionDef:
    inner = (one for one in node.body if isinstance(one, ast.FunctionDef))
    return next(one for one in inner if one.name == "__new__")


def _describe(lines: list[str], node: Definition, options: Iterable[Option]) -> None:
    """Replace the `Args` section of a docstring, if it has one."""
    docstring = node.body[0]
    first, last = docstring.lineno - 1, docstring.end_lineno or 0
    title = next((at for at in range(first, last) if lines[at].strip() == "Args:"), None)
    if title is None:
        return
    end = next(at for at in range(title, last) if not lines[at].strip())
    indent = lines[title].removesuffix("Args:") + " " * 4
    entries = [
        line
        for option in options
        for line in textwrap.wrap(
            f"{option.name}: {option.plain_text}",
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent + " " * 4,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    lines[title + 1 : end] = entries


def _declare(lines: list[str], node: ast.FunctionDef, options: Sequence[Option]) -> None:
    """Replace the parameters of a function."""
    first = node.lineno - 1
    last = next(at for at in range(first, len(lines)) if re.match(r"\s*\) ->", lines[at]))
    indent = re.match(r"\s*", lines[first])[0] + " " * 4  # type: ignore[index]
    inputs = [_parameter(option) for option in options if option.is_input]
    named = [_parameter(option) for option in options if not option.is_input]
    of_class = ["cls"] if node.name == "__new__" else []
    parameters = [*of_class, *inputs, "*", *named]
    lines[first + 1 : last] = [f"{indent}{parameter}," for parameter in parameters]


def _parameter(option: Option) -> str:
    default = "" if option.default is None else f" = {option.default}"
    return f"{option.name}: {option.type}{default}".replace("'", '"')


def referenced(text: str, options: Sequence[Option] = OPTIONS) -> str:
    """Return the reference page, with a table that lists every function's options."""
    rows = ["| option | default | functions |", "| --- | --- | --- |"]
    names = dict.fromkeys(option.name for option in options if not option.is_input)
    for name in names:
        of_name = [one for one in options if one.name == name]
        for default in dict.fromkeys(one.default for one in of_name):
            having = [
                function
                for function in FUNCTIONS
                if any(one.is_of(function) and one.default == default for one in of_name)
            ]
            if having:
                shown = "required" if default is None else f"`{default}`".replace("'", '"')
                rows.append(f"| `{name}` | {shown} | {_listed(having)} |")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return "\n".join([before + BEGIN, "", *rows, "", END + after])


FUNCTIONS = [
    f"{function}{form}"
    for function in (*JOINS, "aggregate", "rolling", "merge")
    for form in ("", "_batches")
]
BEGIN, END = "<!-- options: make options -->", "<!-- end of options -->"


def _listed(functions: Sequence[str]) -> str:
    """List functions by name, with one short phrase for the joins if all are included."""
    every = [name for name in FUNCTIONS if name.removesuffix("_batches") in JOINS]
    in_batches = [name for name in every if name.endswith("_batches")]
    if set(every) <= set(functions):
        words, rest = ["all joins"], [name for name in functions if name not in every]
    elif set(in_batches) <= set(functions):
        words, rest = ["joins in batches"], [name for name in functions if name not in every]
    else:
        words, rest = [], list(functions)
    # The name of a function also covers its variant that returns batches.
    rest = [name for name in rest if name.removesuffix("_batches") not in rest[: rest.index(name)]]
    return ", ".join([*words, *(f"`{name}`" for name in rest)])


def _files() -> Iterator[tuple[Path, str, str]]:
    """Yield each file with its current text and its expected text."""
    for file in FILES:
        path = PACKAGE / file
        text = path.read_text(encoding="utf-8")
        yield path, text, rewritten(file, text)
    page = ROOT / "docs" / "reference.md"
    text = page.read_text(encoding="utf-8")
    yield page, text, referenced(text)


def main() -> int:
    """Write the files, or report which files would change."""
    changed = []
    for path, text, new in _files():
        if new != text:
            changed.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    if changed and "--check" in sys.argv:
        sys.stderr.write(f"run make options: {', '.join(changed)} would change\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

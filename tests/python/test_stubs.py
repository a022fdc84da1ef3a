"""The stub declares exactly the contents of the native module.

`make check` compares types with mypy.
"""

import ast
import inspect
from pathlib import Path

import pytest

from tidegate import _tidegate

ROOT = Path(__file__).parents[2]
STUB = ROOT / "python" / "tidegate" / "_tidegate.pyi"
TREE = ast.parse(STUB.read_text(encoding="utf-8"))

Definition = ast.ClassDef | ast.FunctionDef


def definitions(body: list[ast.stmt]) -> dict[str, Definition]:
    return {node.name: node for node in body if isinstance(node, Definition)}


def declared() -> set[str]:
    """Return all public names in the stub."""
    constants = {
        node.target.id
        for node in TREE.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    names = constants | definitions(TREE.body).keys()
    return {name for name in names if not name.startswith("_") or name == "__version__"}


def documented() -> dict[str, tuple[Definition, object]]:
    """Return the documented names, such as `Class.method`, with their stub and runtime objects."""
    found = {}
    for name, node in definitions(TREE.body).items():
        found[name] = node, getattr(_tidegate, name, None)
        if isinstance(node, ast.ClassDef):
            for method, inner in definitions(node.body).items():
                found[f"{name}.{method}"] = inner, getattr(found[name][1], method, None)
    return {name: pair for name, pair in found.items() if ast.get_docstring(pair[0])}


DOCUMENTED = documented()


def test_exports_and_stub_agree():
    assert "interval_join_query" in declared()
    assert (
        declared()
        == set(_tidegate.__all__)
        == {name for name in vars(_tidegate) if not name.startswith("_") or name == "__version__"}
    )


@pytest.mark.parametrize("class_", ["BatchReader", "Operator", "Source", "StreamJoin"])
def test_public_methods_are_declared(class_):
    declared_methods = definitions(definitions(TREE.body)[class_].body).keys()
    present = {name for name in vars(getattr(_tidegate, class_)) if not name.startswith("_")}
    assert present == {name for name in declared_methods if not name.startswith("_")}


def test_everything_public_has_a_docstring():
    assert declared() - {"__version__", "BUILD_PROFILE", "SIMD"} <= DOCUMENTED.keys()
    methods = {
        "BatchReader.schema",
        "BatchReader.stats",
        "Operator.poll",
        "StreamJoin.left_sources",
    }
    methods |= {"Source.push"}
    assert methods <= DOCUMENTED.keys()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_help_shows_the_text_of_the_stub(name):
    """The stub is the manual, and the build copies its docstrings into the native module."""
    node, runtime = DOCUMENTED[name]
    assert inspect.getdoc(runtime) == ast.get_docstring(node)


def test_the_module_shows_the_text_of_the_stub():
    assert inspect.getdoc(_tidegate) == ast.get_docstring(TREE)


def signatures() -> dict[str, tuple[ast.arguments, inspect.Signature]]:
    """Return the public callables, with their stub arguments and their runtime signatures."""
    found = {}
    for name, (node, runtime) in DOCUMENTED.items():
        of_class = isinstance(node, ast.ClassDef)
        call = definitions(node.body).get("__new__") if of_class else node
        if call is not None and callable(runtime):
            found[name] = call.args, inspect.signature(runtime)
    return found


SIGNATURES = signatures()


@pytest.mark.parametrize(
    "name", ["interval_join_query", "IntervalJoin", "merge_batches", "Source.push"]
)
def test_the_signature_was_found(name):
    assert name in SIGNATURES


@pytest.mark.parametrize("name", SIGNATURES)
def test_inspect_shows_the_signature_of_the_stub(name):
    given, shown = SIGNATURES[name]
    positional = [argument.arg for argument in given.args if argument.arg != "cls"]
    defaults = [inspect.Parameter.empty for _ in positional]
    for default in given.kw_defaults:
        literal = inspect.Parameter.empty if default is None else ast.literal_eval(default)
        defaults.append(literal)
    names = positional + [argument.arg for argument in given.kwonlyargs]
    if given.kwarg is not None:
        names.append(given.kwarg.arg)
        defaults.append(inspect.Parameter.empty)
    assert [*shown.parameters] == names
    assert [argument.default for argument in shown.parameters.values()] == defaults
    keywords = [
        argument.name
        for argument in shown.parameters.values()
        if argument.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    assert keywords == [argument.arg for argument in given.kwonlyargs]

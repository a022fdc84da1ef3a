"""The allowed imports between folders of the Python package, including imports for types."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tidegate

PACKAGE = Path(tidegate.__file__).parent

# From the bottom up: each folder of the package may use the folders before it.
ROOMS = ["io", "runtime", "bounded", "slices", "calls", "spark", "cli"]

# From the bottom up: each folder of `tidegate.spark` may use the folders before it.
SPARK = ["layout", "query", "worker", "plan", "stream", "driver"]

# Modules that each folder must not use.
OTHERS = {
    "io": ("tidegate.cli", "tidegate.spark"),
    "cli": ("tidegate.spark",),
    "spark": ("tidegate.io", "tidegate.cli"),
}


def module_of(path: Path) -> str:
    return ".".join(["tidegate", *path.relative_to(PACKAGE).with_suffix("").parts])


def imported_by(path: Path) -> set[str]:
    """Return the modules that a file imports, and the names it imports from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return found


@cache
def uses() -> dict[str, set[str]]:
    """Return the modules of the package, each with those that it imports."""
    files = {module_of(path): path for path in PACKAGE.rglob("*.py") if path.stem != "__init__"}
    return {name: imported_by(path) & files.keys() for name, path in files.items()}


def test_the_spark_form_has_these_folders():
    folders = {path.parent.name for path in (PACKAGE / "spark").glob("*/__init__.py")}
    assert folders == {*SPARK}


def of_folder(folder: str) -> dict[str, set[str]]:
    """Return the modules of a folder, each with those that it imports."""
    beginning = f"tidegate.{folder}."
    found = {name: used for name, used in uses().items() if name.startswith(beginning)}
    assert found
    return found


@pytest.mark.parametrize("folder", SPARK)
def test_a_folder_of_the_spark_form_uses_those_before_it(folder):
    allowed = SPARK[: SPARK.index(folder) + 1]
    for name, used in of_folder(f"spark.{folder}").items():
        spark = {one.split(".")[2] for one in used if one.startswith("tidegate.spark.")}
        assert spark <= {*allowed}, name


def test_the_package_has_these_folders():
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == {*ROOMS}


@pytest.mark.parametrize("folder", ROOMS)
def test_a_folder_uses_those_before_it(folder):
    allowed = ROOMS[: ROOMS.index(folder) + 1]
    for name, used in of_folder(folder).items():
        rooms = {one.split(".")[1] for one in used if one.count(".") > 1}
        assert rooms <= {*allowed}, name


@pytest.mark.parametrize(("folder", "others"), OTHERS.items())
def test_files_the_command_and_the_spark_form_stand_apart(folder, others):
    for name, used in of_folder(folder).items():
        assert not [one for one in used if one.startswith(others)], name


def test_no_two_modules_import_each_other():
    order = [*TopologicalSorter(uses()).static_order()]
    assert order.index("tidegate.spark.plan.join") < order.index("tidegate.spark.driver.route")

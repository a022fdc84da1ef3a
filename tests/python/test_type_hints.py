"""`typing.get_type_hints` resolves the annotations of all public functions and classes."""

import importlib
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import tidegate as tg
import tidegate.polars

MODULES = ["tidegate", "tidegate.agg", "tidegate.types", "tidegate.polars", "tidegate.pandas"]


def public(module: Any) -> Iterator[tuple[str, Any]]:
    for name in module.__all__:
        found = getattr(module, name)
        if not inspect.isroutine(found) and not inspect.isclass(found):
            continue
        yield name, found
        for member, value in vars(found).items() if inspect.isclass(found) else ():
            function = value.fget if isinstance(value, property) else getattr(found, member)
            if not member.startswith("_") and inspect.isroutine(function):
                yield f"{name}.{member}", function


@pytest.mark.parametrize("module", [*MODULES, "tidegate.spark"])
def test_annotations_are_resolved(module: str) -> None:
    if module == "tidegate.spark":
        pytest.importorskip("pyspark")
    found = dict(public(importlib.import_module(module)))
    hints = {name: typing.get_type_hints(one) for name, one in found.items()}
    assert len(hints) > 2
    plain = {
        name: text
        for name, each in hints.items()
        for text in each.values()
        if isinstance(text, str | typing.ForwardRef)
    }
    assert not plain


def test_annotations_are_the_public_types() -> None:
    import pyarrow as pa  # noqa: PLC0415 - the type to expect

    hints = typing.get_type_hints(tg.interval_join)
    assert hints["return"] is pa.Table
    assert hints["left"] == tg.types.Table
    of_method = typing.get_type_hints(tidegate.polars.Frames.interval_join)
    assert of_method == {name: hints[name] for name in hints if name not in {"left", "return"}}
    assert typing.get_type_hints(tg.tasks)["return"] is tg.TaskPlan


def test_the_package_imports_no_library_for_annotations() -> None:
    code = (
        "import sys, tidegate; sys.exit(' '.join({'pyarrow', 'pandas', 'polars'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""

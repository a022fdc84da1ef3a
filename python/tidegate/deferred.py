"""Modules that annotations refer to, but that are too slow to import with the package."""

from __future__ import annotations

import importlib
from typing import Any


class Deferred:
    """Stands in for a module, which is imported when an annotation is evaluated.

    `typing.get_type_hints` evaluates annotations, so all names in them must exist at run time.

    Example:
        >>> pa = Deferred("pyarrow")
        >>> pa.Table
        <class 'pyarrow.lib.Table'>
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute
        return getattr(importlib.import_module(self._module), name)

"""Enables griffe to read the package's docstrings for the reference pages on the site.

Stubs declare a class's arguments in `__new__`, which griffe ignores. Docstrings contain an
`Example` section, which griffe treats as a note.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(\s*)Example:$", re.MULTILINE)


class DocstringsOfStubs(griffe.Extension):
    """Adapts stubs and docstrings to griffe's conventions."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - griffe's words
        """Rename `Example` sections to `Examples`, which griffe recognizes."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"\1Examples:", obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:  # noqa: ANN401
        """Add the arguments of `__new__` to a class's documentation."""
        if (new := cls.members.pop("__new__", None)) is not None:
            new.name = "__init__"
            cls.members["__init__"] = new

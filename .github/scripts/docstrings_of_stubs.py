"""Lets the site's reference read the docstrings of the package as they are.

The stub declares how a class is called as `__new__`, which griffe does not look at, and a section
of examples is called `Example`, which griffe takes for a note.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(\s*)Example:$", re.MULTILINE)


class DocstringsOfStubs(griffe.Extension):
    """Says to griffe what it does not know."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - griffe's words
        """Give examples the name that griffe knows."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"\1Examples:", obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:  # noqa: ANN401
        """Show a class with the arguments of its `__new__`."""
        if (new := cls.members.pop("__new__", None)) is not None:
            new.name = "__init__"
            cls.members["__init__"] = new

"""The files that commands read and write."""

import os
import stat
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import tidegate
from tidegate.io.files import (
    STANDARD_STREAM,
    EventFile,
    EventStream,
    Format,
    open_events,
    stream_events,
    writes_in_place,
)


@dataclass(frozen=True)
class Input:
    """A table to read."""

    name: str
    layout: Format
    csv_nulls: tuple[str, ...]

    def open(self) -> EventFile:
        """Open the file; its rows are read later."""
        return open_events(self.name, self.layout, csv_nulls=self.csv_nulls)

    def stream(self) -> AbstractContextManager[EventStream]:
        """Open the file, to be read batch by batch."""
        return stream_events(self.name, self.layout, csv_nulls=self.csv_nulls)


@dataclass(frozen=True)
class Output:
    """A table to write."""

    name: str
    layout: Format
    force: bool

    def check(self, inputs: Sequence[Input]) -> None:
        """Raise before the work begins if the result could not be put in its place."""
        self.check_place(inputs)
        if not self.force and not writes_in_place(self.name) and Path(self.name).exists():
            message = f"{self.name} exists; give --force to replace it, or another -o"
            raise tidegate.TidegateError(message)

    def check_place(self, inputs: Sequence[Input]) -> None:
        """Raise if the result would go where an input is, or into no folder."""
        own = _regular(self.name, 1)
        for given in inputs:
            other = _regular(given.name, 0)
            if own is not None and other is not None and os.path.samestat(own, other):
                label = _label(self.name, "output")
                message = (
                    f"{label}: is the same file as {_label(given.name, 'input')}, which is read; "
                    "give another -o"
                )
                raise tidegate.TidegateError(message)
        path = Path(self.name)
        if not writes_in_place(self.name) and not path.resolve().parent.is_dir():
            message = f"{self.name}: the folder {path.parent} does not exist"
            raise tidegate.TidegateError(message)


def _label(name: str, kind: str) -> str:
    return f"standard {kind}" if name == STANDARD_STREAM else name


def _regular(name: str, standard: int) -> os.stat_result | None:
    """Tell which file a name is of, through all links; nothing for a pipe or a device."""
    try:
        found = os.fstat(standard) if name == STANDARD_STREAM else os.stat(name)  # noqa: PTH116
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None

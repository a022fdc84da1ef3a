"""The files that commands read and write."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import tidegate
from tidegate.files import (
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

    def check(self) -> None:
        """Raise before the work begins if the result could not be put in its place."""
        path = Path(self.name)
        if writes_in_place(self.name):
            return
        if path.exists() and not self.force:
            message = f"{self.name} exists; give --force to replace it, or another -o"
            raise tidegate.TidegateError(message)
        if not path.resolve().parent.is_dir():
            message = f"{self.name}: the folder {path.parent} does not exist"
            raise tidegate.TidegateError(message)

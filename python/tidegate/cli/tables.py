"""The files that commands read and write."""

import os
import stat
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import tidegate
from tidegate.bounded import limits as bounded
from tidegate.calls import epochs
from tidegate.io.addresses import local_files
from tidegate.io.dialects import Dialect
from tidegate.io.files import (
    STANDARD_STREAM,
    BatchWriter,
    Format,
    batch_writer,
    naming,
    writes_in_place,
)
from tidegate.io.open_tables import OpenTable, csv_columns, open_files, open_table
from tidegate.io.partitioned import partitioned_writer
from tidegate.io.read_files import Reading
from tidegate.types import Length

COMMAND = Dialect(of_command=True)


@dataclass(frozen=True)
class Input:
    """A table to read: a file, a folder, a pattern, a URL, or standard input."""

    name: str
    layout: Format | None
    """The format. None means that file extensions, or the first bytes of a pipe, determine it."""

    csv: Dialect = COMMAND
    """The options for parsing CSV values."""

    def open(self, *, streamed: bool = False) -> OpenTable:
        """Open the files as one table. Rows are not read yet."""
        return open_table(self.name, how=Reading(self.layout, self.csv, streamed=streamed))

    def streams(self) -> list[OpenTable]:
        """Open the files as separate tables that are read batch by batch."""
        return open_files(self.name, how=Reading(self.layout, self.csv, streamed=True))

    def timed(self, table: OpenTable) -> OpenTable:
        """Return a table of this input, with numeric times converted if their unit is known.

        The times in CSV files are already converted, from the digits in the files.
        """
        unit = self.csv.epoch_unit
        is_csv = any(piece.layout.is_csv for piece in table.pieces or [])
        return table if unit is None or is_csv else epochs.in_batches(table, self.csv.times, unit)

    def local_files(self) -> list[str]:
        """Return the local files that are read."""
        return [self.name] if self.name == STANDARD_STREAM else local_files(self.name)


@dataclass(frozen=True)
class IndexInput:
    """An index to join with, in a file that was written by `tidegate index` or `Index.save`."""

    name: str

    def open(self) -> tidegate.Index:
        """Open the index."""
        return tidegate.open_index(self.name)

    def local_files(self) -> list[str]:
        """Return the local files that are read."""
        return [self.name]


def opened(inputs: Sequence[Input], *, streamed: bool = False) -> list[OpenTable]:
    """Open each input as a table.

    Raises:
        SchemaError: `--types` lists a column that is missing from all CSV inputs.
    """
    tables = [given.open(streamed=streamed) for given in inputs]
    check_types(inputs, csv_schemas(tables))
    return tables


def csv_schemas(tables: Sequence[OpenTable]) -> list[pa.Schema]:
    """Return the schemas of the CSV files among the tables."""
    pieces = (piece for table in tables for piece in table.pieces or [])
    return [piece.schema for piece in pieces if piece.layout.is_csv]


def show_csv(tables: Sequence[OpenTable], *, shown: bool) -> None:
    """Show on standard error how the columns of CSV files are read."""
    for line in (line for table in tables for line in csv_columns(table)) if shown else ():
        sys.stderr.write(f"tidegate: {line}\n")


def check_types(inputs: Sequence[Input], of_csv: Sequence[pa.Schema]) -> None:
    """Reject types for columns not in any CSV input; files in other formats contain the types."""
    known = dict.fromkeys(name for schema in of_csv for name in schema.names)
    for name, _ in (one for given in inputs for one in given.csv.types):
        if not of_csv:
            message = "--types: none of the inputs is a CSV file; omit this option"
            raise tidegate.SchemaError(message)
        if name not in known:
            message = f"--types: none of the CSV inputs has a column named `{name}`; "
            message += "the available columns are "
            message += ", ".join(known)
            raise tidegate.SchemaError(message)


@dataclass(frozen=True)
class Limits:
    """The memory limit and the lateness of rows."""

    memory_limit: str | int | None = None
    lateness: Length | None = None

    def of_call(self) -> bounded.Limits | None:
        """Return the limits in the form that calls expect, or None if there is no limit."""
        return bounded.Limits.of(self.memory_limit, self.lateness, in_batches=True)

    @property
    def streamed(self) -> bool:
        """Whether inputs are read batch by batch."""
        return self.memory_limit is not None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Output:
    """A table to write."""

    name: str
    layout: Format
    force: bool
    partition_by: tuple[str, ...] = ()
    """The columns whose values divide rows into folders; if empty, a single file is written."""

    def writer(self, schema: pa.Schema) -> AbstractContextManager[BatchWriter]:
        """Open the table."""
        if self.partition_by:
            return partitioned_writer(self.name, self.layout, schema, self.partition_by)
        return batch_writer(self.name, self.layout, schema)

    def check(self, inputs: Sequence[Input | IndexInput]) -> None:
        """Raise an error before the work starts if the result cannot be written to this path."""
        self.check_place(inputs)
        path = Path(self.name)
        if self.partition_by and path.exists():
            self._check_folder(path, inputs)
        if not self.force and not self._writes_in_place() and path.exists():
            message = f"{self.name} exists; give --force to replace it, or another -o"
            raise tidegate.TidegateError(message)

    def _writes_in_place(self) -> bool:
        return not self.partition_by and writes_in_place(self.name)

    def _check_folder(self, path: Path, inputs: Sequence[Input | IndexInput]) -> None:
        """Raise an error if the folder contains anything other than a partitioned table."""
        first = f"{self.partition_by[0]}="
        if not path.is_dir() or any(not one.name.startswith(first) for one in path.iterdir()):
            message = f"{self.name}: contains more than folders such as {first}..., "
            message += "and --force replaces only such folders; give another -o"
            raise tidegate.TidegateError(message)
        for name in (name for given in inputs for name in given.local_files()):
            if path.resolve() in Path(name).resolve().parents:
                message = (
                    f"{self.name}: is a folder that contains the input {name}; give another -o"
                )
                raise tidegate.TidegateError(message)

    def check_place(self, inputs: Sequence[Input | IndexInput]) -> None:
        """Raise an error if the result would replace an input or its folder does not exist."""
        own = _regular(self.name, 1)
        for name in (name for given in inputs for name in given.local_files()):
            other = _regular(name, 0)
            if own is not None and other is not None and os.path.samestat(own, other):
                label = _label(self.name, "output")
                message = (
                    f"{label}: is the same file as {_label(name, 'input')}, which is read; "
                    "give another -o"
                )
                raise tidegate.TidegateError(message)
        path = Path(self.name)
        if not self._writes_in_place():
            with naming(self.name, "cannot be written"):
                # This raises if the name is too long or contains a NUL character.
                path.exists()
        if not self._writes_in_place() and not path.resolve().parent.is_dir():
            message = f"{self.name}: the folder {path.parent} does not exist"
            raise tidegate.TidegateError(message)


def _label(name: str, kind: str) -> str:
    return f"standard {kind}" if name == STANDARD_STREAM else name


def _regular(name: str, standard: int) -> os.stat_result | None:
    """Return the status of the file with this name, or None for a pipe or a device."""
    try:
        found = os.fstat(standard) if name == STANDARD_STREAM else os.stat(name)  # noqa: PTH116
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None

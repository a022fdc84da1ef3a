"""Finds the column names of CSV files, and checks that the first line contains names.

A wrong delimiter or a missing header would lead to wrong columns without an error. Therefore, if
the first line looks like values, or like several columns with another delimiter, an error states
which option to give.
"""

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv

from tidegate.io.dialects import Dialect
from tidegate.io.files import in_arrow_memory
from tidegate.io.guesses import parse_options
from tidegate.io.lines import first_end

# A longer header most likely contains an unclosed quote, or is not CSV.
LONGEST_BYTES = 1 << 20

OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}

BOM = codecs.BOM_UTF8

VALUE = re.compile(
    r"[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?"  # a number
    r"|\d{4}-\d\d-\d\d.*|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?:[ T].*)?"  # a date, with or without time
    r"|\d{1,2}:\d\d(?::\d\d.*)?"
)


@dataclass(frozen=True)
class Header:
    """The column names of a file."""

    names: list[str]
    line: bytes
    """The bytes before the first row, which may be empty."""

    @property
    def size(self) -> int:
        """The number of bytes before the first row."""
        return len(self.line)

    def after(self, stream: pa.NativeFile) -> pa.NativeFile:
        """Return an open file, moved to its first row."""
        if self.line:
            stream.read(len(self.line))
        return stream


def header_of(opener: Callable[[], pa.NativeFile], dialect: Dialect) -> Header:
    """Return the header of a file.

    Raises:
        ArrowInvalid: The first line does not contain names, or has another delimiter.
    """
    return header_in(_beginning(opener(), dialect), dialect)


def _beginning(stream: pa.NativeFile, dialect: Dialect) -> bytes:
    """Return the beginning of a file, with at least its first two lines."""
    found = b""
    while len(found) < LONGEST_BYTES and (more := stream.read(1 << 16)):
        found += more
        known = dialect.marks
        second = first_end(found, _start(found), known)
        if second < len(found) and first_end(found, second, known) < len(found):
            break
    return found


def _start(text: bytes) -> int:
    """Return the position of the first line that is not empty."""
    return len(text) - len(text[_mark(text) :].lstrip(b"\r\n"))


def _mark(text: bytes) -> int:
    """Return the length of the byte order mark with which some UTF-8 files begin."""
    return len(BOM) if text.startswith(BOM) else 0


def header_in(text: bytes, dialect: Dialect) -> Header:
    """Return the header of a file that begins with these bytes."""
    start = _start(text)
    end = first_end(text, start, dialect.marks)
    values = _values(text[start:end], dialect)
    if dialect.names:
        _check_count(values, dialect)
        return Header([*dialect.names], text[: end if dialect.header else _mark(text)])
    _check_delimiter(text[start:], end - start, values, dialect)
    if dialect.header is False:
        return Header([f"f{at}" for at in range(len(values))], text[: _mark(text)])
    if dialect.header is None:
        _check_names(values, dialect)
    _check_distinct(values, dialect)
    return Header(values, text[:end])


def _values(line: bytes, dialect: Dialect) -> list[str]:
    if not line.strip(b"\r\n"):
        message = "the file is empty; expected a line with the column names"
        if dialect.names:
            return [*dialect.names]
        raise pa.ArrowInvalid(message)
    try:
        found = pyarrow.csv.read_csv(
            # Without an end, pyarrow may not recognize a line that contains line breaks.
            in_arrow_memory(line.rstrip(b"\r\n") + b"\n"),
            pyarrow.csv.ReadOptions(block_size=len(line) + 2),
            parse_options(dialect),
        )
        return [str(name) for name in found.schema.names]
    except UnicodeDecodeError:
        message = f"its first line, {line[:60]!r}, is not UTF-8; "
        message += f"give the encoding of the file: {dialect.written('encoding', 'latin-1')} "
        message += "(or cp1252, utf-16)"
        raise pa.ArrowInvalid(message) from None


def _check_count(values: Sequence[str], dialect: Dialect) -> None:
    if len(values) != len(dialect.names):
        message = f"its first line has {_counted(len(values))}, but {len(dialect.names)} names are "
        message += f"given ({', '.join(dialect.names)}); give as many names as there are columns"
        raise pa.ArrowInvalid(message)
    if [*values] == [*dialect.names] and not dialect.header:
        told = "--names" if dialect.of_command else "names"
        message = f"its first line contains the names themselves; omit {told}"
        raise pa.ArrowInvalid(message)


def _counted(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"


def _check_delimiter(text: bytes, end: int, values: Sequence[str], dialect: Dialect) -> None:
    """Reject a single column that contains another delimiter, unless one was specified.

    The first line may be a comment, so the second line is examined, too.
    """
    if dialect.delimiter is not None or len(values) != 1:
        return
    second = text[end : first_end(text, end, dialect.marks)]
    for line, place in ((text[:end], "its first line"), (second, "its second line")):
        counts = {one: line.count(one.encode()) for one in OTHER_DELIMITERS}
        best = max(counts, key=counts.__getitem__)
        if not counts[best] or (line is not second and best == dialect.separator):
            continue
        told = dialect.written("delimiter", "tab" if best == "\t" and dialect.of_command else best)
        if line is second:
            told += ", and remove the lines before the column names"
        else:
            told += f", or {dialect.written('delimiter', ',')} if this is the only column"
        message = f"{place} contains {OTHER_DELIMITERS[best]}, but with commas as the delimiter, "
        message += f"the file has only one column; give {told}"
        raise pa.ArrowInvalid(message)


def _check_distinct(values: Sequence[str], dialect: Dialect) -> None:
    """Reject several columns without a name; other repeated names are errors when they are used."""
    if values.count("") > 1:
        names = [value or f"c{at + 1}" for at, value in enumerate(values)]
        given = dialect.written("names", ",".join(names))
        if dialect.of_command:
            given += " --header"
        else:
            given = f"tidegate.csv(path, names={names}, header=True)"
        message = f"{values.count('')} columns have no name; give {given}"
        raise pa.ArrowInvalid(message)


def _check_names(values: Sequence[str], dialect: Dialect) -> None:
    """Reject names that look like values."""
    wrong = [value for value in values if VALUE.fullmatch(value.strip())]
    if not wrong:
        return
    names = ",".join(f"c{at}" for at in range(1, len(values) + 1))
    if dialect.of_command:
        told = f"if the file has no header, give --names {names} or --no-header; "
        told += "if these are names, give --header"
    else:
        told = f"if the file has no header, write tidegate.csv(path, names={names.split(',')}) "
        told += "or header=False; if these are names, write header=True"
    message = f"its first line contains {wrong[0]!r:.60} instead of a column name; {told}"
    raise pa.ArrowInvalid(message)

"""Reads rows from CSV files, with specified or inferred column types.

A file is read either whole or block by block. In the second case, the first block determines the
types. Numeric columns are then read as strings and converted here, so that a code such as `007` in
a later block causes an error instead of losing its zeros. Times in formats other than ISO 8601 are
also read as strings.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tidegate.io import times
from tidegate.io.dialects import Dialect, advice
from tidegate.io.files import in_arrow_memory
from tidegate.io.guesses import (
    CODE,
    GIVEN,
    LEADING_ZERO,
    NUMBERS,
    QUOTED,
    TOO_LONG,
    guessed_numbers,
    has_code,
    has_long_integer,
    may_have_long_integers,
    parse_options,
    quoted_columns,
    signs_of_text,
)
from tidegate.io.headers import Header, header_of
from tidegate.io.lines import LineEnds, count_breaks, escaped_quote

Opener: TypeAlias = Callable[[], pa.NativeFile]
"""Opens a file for reading from the beginning."""

BLOCK_BYTES = 1 << 20
# pyarrow stores the size of a block in 32 bits.
LARGEST_BLOCK_BYTES = 1 << 30

BACKSLASH = "\\"

NO_TYPES: Mapping[str, pa.DataType] = {}

FAILURE = re.compile(r"CSV column #(\d+): (?:Row #\d+: )?(.*)", re.DOTALL)


@dataclass(frozen=True)
class Columns:
    """The columns of a file, with reasons for types that do not follow from the values alone."""

    schema: pa.Schema
    dialect: Dialect
    given: Collection[str] = ()
    """The columns whose types were specified."""

    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a column has its type, by column name."""

    def __str__(self) -> str:
        """Return the names and types, with the reasons."""
        return ", ".join(f"{one.name} {one.type}{self._reason(one.name)}" for one in self.schema)

    def _reason(self, name: str) -> str:
        return f" ({self.reasons[name]})" if name in self.reasons else ""

    def advice(self, fault: str) -> str | None:
        """Return advice for a query that does not accept the type of one of these columns."""
        names = [] if "there is no column" in fault else re.findall(r"`([^`]+)`", fault)
        for name in names:
            if name not in self.schema.names:
                continue
            kind, written = self.schema.field(name).type, self.dialect.written
            found = f"column `{name}` is {kind}{self._reason(name)} in CSV"
            if pa.types.is_string(kind) and "number" in fault:
                return f"{found}; give {written('types', 'double', name)}"
            if pa.types.is_string(kind) and "time" in fault:
                form = written("time_format", "%d.%m.%Y %H:%M:%S")
                return f"{found}; give the format of its times, as in {form}"
            if kind in NUMBERS and "time" in fault and not self.dialect.epoch_unit:
                unit = f"{written('epoch_unit', 'ms')} (or s, us, ns)"
                return f"{found}; if its numbers count time since 1970, give their unit: {unit}"
            if pa.types.is_timestamp(kind) and "zone" in fault and kind.tz is None:
                zone = written("zone", "UTC")
                return f"{found} and has no time zone; give the zone of its times, as in {zone}"
            if kind in NUMBERS and "compared" in fault:
                return f"{found}; give {written('types', 'string', name)}"
        return None


def conversion(
    dialect: Dialect, types: Mapping[str, pa.DataType], columns: Sequence[str] = ()
) -> pyarrow.csv.ConvertOptions:
    """Return the options for pyarrow; if `columns` is empty, all columns are read."""
    return pyarrow.csv.ConvertOptions(
        null_values=list(dialect.nulls),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        column_types=dict(types),
        include_columns=[*columns],
        decimal_point=dialect.decimal,
    )


# Whole files


def table(
    opener: Opener, dialect: Dialect, known: Header | None = None
) -> tuple[pa.Table, Columns]:
    """Read all rows in a file, because all values are needed to infer the correct types.

    If the header is already known, the file contains only rows.
    """
    head = header_of(opener, dialect) if known is None else known
    given = dialect.types_given(_first_schema(opener, dialect, head)) if dialect.types else {}
    of_text = {name: pa.string() for name, kind in given.items() if _is_text_time(kind, dialect)}
    found = _read(opener, dialect, head, given | of_text)
    if len({*found.schema.names}) < len(found.schema):
        return found, Columns(found.schema, dialect)
    reasons = dict.fromkeys(given, GIVEN)
    for name in of_text:
        column = _converted(found.column(name), found.schema.field(name), given[name], dialect)
        found = _with_column(found, name, column)
    numbers = guessed_numbers(found.schema, given)
    wanted = {*(one.name for one in found.schema if _may_be_time(one, dialect, given))}
    suspects = _suspects(opener, dialect, head, numbers)
    long = [name for name in numbers if may_have_long_integers(found.column(name))]
    suspects = dict.fromkeys(long, TOO_LONG) | suspects
    texts = _texts(opener, dialect, head, [*dict.fromkeys([*suspects, *wanted])])
    for name, column in texts.items():
        kept, reason = _decided(name, column, suspects, dialect, found.schema.field(name).type)
        if kept is not None:
            found = _with_column(found, name, kept)
        if reason:
            reasons[name] = reason
    _check_utf8(found, given, dialect)
    if any(_has_backslash(column) for column in found.columns):
        for lines in whole_lines(opener(), dialect, head):
            _check_escapes(lines, dialect)
    return found, Columns(found.schema, dialect, given, reasons)


def _decided(
    name: str,
    column: pa.ChunkedArray,
    suspects: Mapping[str, str],
    dialect: Dialect,
    guess: pa.DataType,
) -> tuple[pa.ChunkedArray | None, str]:
    """Return a column with another type, if it needs one, and the reason."""
    reason = suspects.get(name, "")
    if name in dialect.times and dialect.epoch_unit and guess in NUMBERS and reason != QUOTED:
        found = times.since_epoch(column, dialect.epoch_unit)
        if found is not None:
            return found, f"{dialect.epoch_unit} since 1970"
    if reason == QUOTED or (reason == LEADING_ZERO and has_code(column)):
        return column, reason
    if reason and guess == pa.float64() and has_long_integer(column):
        return column, TOO_LONG
    if guess not in NUMBERS and (found := times.guessed(column, dialect)) is not None:
        return found, ""
    # Without a matching format, a time in ISO 8601 format is a string.
    return (column, "no time format fits") if pa.types.is_temporal(guess) else (None, "")


def _has_backslash(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_string(column.type):
        return False
    return bool(pc.any(pc.match_substring(column, "\\")).as_py())


def _check_escapes(lines: bytes, dialect: Dialect) -> None:
    """Reject quotes that are escaped by a backslash, which would end their values too early."""
    if dialect.escape:
        return
    found = escaped_quote(lines, dialect.separator, dialect.quote)
    if found is None:
        return
    mark = dialect.quote
    message = f"the value {found.decode(errors='replace')!r:.80} seems to escape a quote with a "
    message += f"backslash; give {dialect.written('escape', BACKSLASH)}, or write a quote within a "
    message += f"quoted value as {mark}{mark}"
    raise pa.ArrowInvalid(message)


def _suspects(
    opener: Opener, dialect: Dialect, head: Header, numbers: Sequence[str]
) -> dict[str, str]:
    """Return the numeric columns that may have to become strings, with the reason."""
    if not numbers:
        return {}
    may_be_code, may_be_quoted = signs_of_text(opener(), dialect)
    quoted: set[str] = set()
    for lines in whole_lines(opener(), dialect, head) if may_be_quoted else ():
        left = [name for name in numbers if name not in quoted]
        quoted |= quoted_columns(lines, head.names, left, dialect)
    reasons = dict.fromkeys(numbers, LEADING_ZERO) if may_be_code else {}
    return reasons | dict.fromkeys(quoted, QUOTED)


def _may_be_time(one: pa.Field, dialect: Dialect, given: Collection[str]) -> bool:
    """Return whether a column has to be read as strings to find out if its values are times."""
    if one.name in given:
        return False
    if dialect.epoch_unit and one.name in dialect.times and one.type in NUMBERS:
        return True
    if dialect.time_formats:
        kinds = (pa.types.is_string, pa.types.is_timestamp, pa.types.is_date)
        return any(is_kind(one.type) for is_kind in kinds)
    is_naive = pa.types.is_timestamp(one.type) and one.type.tz is None
    return bool(dialect.zone and (pa.types.is_string(one.type) or is_naive))


def _is_text_time(kind: pa.DataType, dialect: Dialect) -> bool:
    """Return whether values of this type are read as strings, and then converted to times."""
    return dialect.has_text_times and bool(pa.types.is_timestamp(kind))


def _check_utf8(found: pa.Table, given: Collection[str], dialect: Dialect) -> None:
    """Reject columns with bytes that are not UTF-8, which pyarrow reads as binary."""
    for one in found.schema:
        if one.name not in given and pa.types.is_binary(one.type):
            raw = next(value for value in found.column(one.name).to_pylist() if not _is_utf8(value))
            message = f"column `{one.name}`: the value {raw[:40]!r} is not UTF-8; give the "
            message += f"encoding of the file: {dialect.written('encoding', 'latin-1')} "
            message += f"(or cp1252, utf-16), or {dialect.written('types', 'binary', one.name)}"
            raise pa.ArrowInvalid(message)


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def retyped(
    opener: Opener, dialect: Dialect, found: pa.Table, types: Mapping[str, pa.DataType]
) -> pa.Table:
    """Return the same rows after rereading some columns from the file as different types.

    Raises:
        ArrowInvalid: A value does not fit the type of its column.
    """
    if not types:
        return found
    head = header_of(opener, dialect)
    native = {
        name: pa.string() if _is_text_time(kind, dialect) else kind for name, kind in types.items()
    }
    read = _read(opener, dialect, head, native, [*types])
    for name, kind in types.items():
        column = read.column(name)
        if column.type != kind:
            column = _converted(column, pa.field(name, kind), kind, dialect)
        found = _with_column(found, name, column)
    return found


def _with_column(found: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return found.set_column(found.schema.get_field_index(name), name, column)


def _texts(
    opener: Opener, dialect: Dialect, head: Header, columns: list[str]
) -> dict[str, pa.ChunkedArray]:
    """Return these columns as strings."""
    if not columns:
        return {}
    read = _read(opener, dialect, head, dict.fromkeys(columns, pa.string()), columns)
    return {name: read.column(name) for name in columns}


def _first_schema(opener: Opener, dialect: Dialect, head: Header) -> pa.Schema:
    """Return the columns of a file, with the types of its first rows."""
    for lines in whole_lines(opener(), dialect, head):
        return _parsed_lines(lines, dialect, head, NO_TYPES).schema
    return pa.schema([(name, pa.null()) for name in head.names])


def _read(
    opener: Opener,
    dialect: Dialect,
    head: Header,
    types: Mapping[str, pa.DataType],
    columns: Sequence[str] = (),
) -> pa.Table:
    """Read a file in blocks large enough to hold its longest row."""
    block = BLOCK_BYTES
    while True:
        try:
            return pyarrow.csv.read_csv(
                head.after(opener()),
                read_options=pyarrow.csv.ReadOptions(column_names=head.names, block_size=block),
                parse_options=parse_options(dialect),
                convert_options=conversion(dialect, types, columns),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                kinds = {name: types.get(name, pa.null()) for name in columns or head.names}
                return pa.schema(kinds).empty_table()
            try:
                block = larger_block(block, error)
            except pa.ArrowInvalid:
                schema = pa.schema(dict.fromkeys(head.names, pa.null()) | dict(types))
                raise explained(error, schema, dialect) from error


def larger_block(block: int, error: pa.ArrowInvalid) -> int:
    """Return the block size to try after a row did not fit in a block.

    Raises:
        ArrowInvalid: The error has another cause, or blocks cannot be any larger.
    """
    if "straddl" not in str(error):
        raise error
    if block >= LARGEST_BLOCK_BYTES:
        message = f"a row is longer than {LARGEST_BLOCK_BYTES:,} bytes, which is the maximum"
        raise pa.ArrowInvalid(message) from error
    return block * 8


# Block by block


def whole_lines(stream: pa.NativeFile, dialect: Dialect, head: Header) -> Iterator[bytes]:
    """Yield the lines of a file after its header, in blocks that end with a whole line.

    Raises:
        ArrowInvalid: A line is too long.
    """
    ends = LineEnds(dialect.marks)
    unread: list[bytes] = []
    head.after(stream)
    while more := stream.read(BLOCK_BYTES):
        end = ends.last(more)
        if end:
            yield b"".join([*unread, more[:end]])
            unread = []
        unread.append(more[end:])
        if sum(map(len, unread)) > LARGEST_BLOCK_BYTES:
            message = f"a row is longer than {LARGEST_BLOCK_BYTES:,} bytes, which is the maximum"
            raise pa.ArrowInvalid(message)
    rest = b"".join(unread)
    if rest.strip(b"\r\n"):
        yield rest


def blocks(
    opener: Opener, dialect: Dialect, types: Mapping[str, pa.DataType] | None = None
) -> tuple[Columns, Iterator[pa.RecordBatch]]:
    """Return the columns of a file, and an iterator over its rows in blocks.

    Args:
        opener: The function that opens the file.
        dialect: The options for parsing values.
        types: The types of some columns. The other types are inferred from the first block.
    """
    head = header_of(opener, dialect)
    first = next(whole_lines(opener(), dialect, head), b"")
    columns = of_lines(first, dialect, head, types or {})
    return columns, _blocks(opener, dialect, head, columns)


def of_lines(
    lines: bytes, dialect: Dialect, head: Header, types: Mapping[str, pa.DataType] = NO_TYPES
) -> Columns:
    """Return the columns of a file, with types specified or inferred from the first lines."""
    found, known = table(lambda: in_arrow_memory(lines), dialect, Header(head.names, b""))
    schema = pa.schema([one.with_type(types.get(one.name, one.type)) for one in found.schema])
    return Columns(schema, dialect, known.given, known.reasons)


def _blocks(
    opener: Opener, dialect: Dialect, head: Header, columns: Columns
) -> Iterator[pa.RecordBatch]:
    line = count_breaks(head.line)
    for lines in whole_lines(opener(), dialect, head):
        rows = parsed(lines, dialect, head, columns, line)
        line += count_breaks(lines)
        if rows.num_rows:
            yield rows


def parsed(
    lines: bytes, dialect: Dialect, head: Header, columns: Columns, before: int
) -> pa.RecordBatch:
    """Return the rows in these lines, with the types inferred from the first lines.

    Args:
        lines: Whole lines without a header.
        dialect: The options for parsing values.
        head: The header of the file.
        columns: The columns of the file.
        before: The number of lines before these.

    Raises:
        ArrowInvalid: A value does not fit the type of its column; the message names the column and
            the lines.
    """
    try:
        return _typed(lines, dialect, head, columns)
    except pa.ArrowInvalid as error:
        place, fault = _first_failing(
            lines, error, lambda part: _typed(part, dialect, head, columns)
        )
        line = before + 1 + count_breaks(lines[:place])
        message = f"in line {line:,}: {fault}"
        raise pa.ArrowInvalid(message) from error


def _first_failing(
    lines: bytes, error: pa.ArrowInvalid, read: Callable[[bytes], object]
) -> tuple[int, pa.ArrowInvalid]:
    """Return the position of the first line that cannot be read, and its error."""
    ends = [found.end() for found in re.finditer(rb"\n", lines)]
    # The part up to `first` can be read, and the part up to `last` cannot.
    first, last, fault = 0, len(ends), error
    while last - first > 1:
        middle = (first + last) // 2
        try:
            read(lines[: ends[middle - 1]])
            first = middle
        except pa.ArrowInvalid as found:
            last, fault = middle, found
    return (ends[first - 1] if first else 0), fault


def _typed(lines: bytes, dialect: Dialect, head: Header, columns: Columns) -> pa.RecordBatch:
    schema = columns.schema
    numbers = guessed_numbers(schema, columns.given)
    texts = {one.name: pa.string() for one in schema if _is_text_time(one.type, dialect)}
    texts |= dict.fromkeys(numbers, pa.string())
    native = dict(zip(schema.names, schema.types, strict=True)) | texts
    found = _parsed_lines(lines, dialect, head, native, schema)
    if quoted := quoted_columns(lines, head.names, numbers, dialect):
        raise _unlike(schema.field(min(quoted)), "this number is in quotes", dialect)
    arrays = [
        column if column.type == one.type else _converted(column, one, one.type, dialect)
        for column, one in zip(found.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _parsed_lines(
    lines: bytes,
    dialect: Dialect,
    head: Header,
    types: Mapping[str, pa.DataType],
    schema: pa.Schema | None = None,
) -> pa.RecordBatch:
    """Parse all lines in one block, so that even a long line is not split."""
    _check_escapes(lines, dialect)
    try:
        found = pyarrow.csv.read_csv(
            in_arrow_memory(lines),
            pyarrow.csv.ReadOptions(column_names=head.names, block_size=len(lines) + 1),
            parse_options(dialect),
            conversion(dialect, types),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            kinds = {name: types.get(name, pa.null()) for name in head.names}
            return pa.RecordBatch.from_pylist([], pa.schema(kinds))
        raise explained(error, schema or pa.schema(types), dialect) from error
    batches = found.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], found.schema)


def _converted(
    texts: pa.Array | pa.ChunkedArray, one: pa.Field, kind: pa.DataType, dialect: Dialect
) -> pa.Array | pa.ChunkedArray:
    """Convert strings to numbers or times.

    Raises:
        ArrowInvalid: A value does not fit the type of its column; the message names the column.
    """
    try:
        if not pa.types.is_timestamp(kind):
            return _numbers(texts, one, dialect)
        return times.converted(texts, kind, dialect)
    except pa.ArrowInvalid as error:
        if str(error).startswith("column"):
            raise
        message = f"column `{one.name}`, read as {kind}: {error}"
        raise pa.ArrowInvalid(message) from error


def _numbers(texts: pa.Array, one: pa.Field, dialect: Dialect) -> pa.Array:
    codes = pc.match_substring_regex(texts, CODE)
    if pc.any(codes).as_py():
        value = texts.filter(codes)[0].as_py()
        sign = "plus sign" if "+" in value else "zero"
        raise _unlike(one, f"the value {value!r:.80} has a leading {sign}", dialect)
    plain = pc.utf8_trim(texts, " \t")
    if dialect.decimal != ".":
        # A point is not part of a number then.
        plain = pc.replace_substring(pc.replace_substring(plain, ".", "?"), dialect.decimal, ".")
    try:
        return plain.cast(one.type)
    except pa.ArrowInvalid as error:
        fault = f"this value is not: {error}"
        raise _unlike(one, fault, dialect, _next_kind(texts, one)) from error


def _next_kind(texts: pa.Array, one: pa.Field) -> str:
    """Return a wider type that can represent these values."""
    try:
        pc.utf8_trim(texts, " \t").cast(pa.float64())
    except pa.ArrowInvalid:
        return "string"
    return "double" if one.type == pa.int64() else "string"


def _unlike(one: pa.Field, fault: str, dialect: Dialect, kind: str = "string") -> pa.ArrowInvalid:
    message = f"column `{one.name}` is {one.type} in the first rows, "
    return pa.ArrowInvalid(f"{message}but {fault}; {advice(dialect, one.name, kind)}")


def explained(error: pa.ArrowInvalid, schema: pa.Schema, dialect: Dialect) -> pa.ArrowInvalid:
    """Return the same error, with the column's name and advice added to its message."""
    found = FAILURE.search(str(error))
    if found is None or int(found[1]) >= len(schema):
        return _of_shape(error, dialect)
    one = schema.field(int(found[1]))
    if "UTF8" in found[2]:
        told = f"give the encoding of the file: {dialect.written('encoding', 'latin-1')}"
    else:
        told = advice(dialect, one.name)
    if pa.types.is_timestamp(one.type) and re.search(r"invalid value '\s*[\d.]+\s*'", found[2]):
        told = f"give the unit of the numbers: {dialect.written('epoch_unit', 's')} (or ms, us, ns)"
    return pa.ArrowInvalid(f"column `{one.name}`, read as {one.type}: {found[2]}; {told}")


def _of_shape(error: pa.ArrowInvalid, dialect: Dialect) -> pa.ArrowInvalid:
    """Return the same error, with advice for a line that has the wrong number of values."""
    if "Expected" not in str(error) or "columns, got" not in str(error):
        return pa.ArrowInvalid(str(error))
    told = f"check the delimiter, {dialect.separator!r}, and remove lines that are not rows"
    if dialect.quote:
        none = dialect.written("quote", "none" if dialect.of_command else "")
        told += f"; if no value is quoted, give {none}"
    if "\\" in str(error) and not dialect.escape:
        told += "; if a backslash makes the next character part of the value, give "
        told += dialect.written("escape", BACKSLASH)
    return pa.ArrowInvalid(f"{error}; {told}")

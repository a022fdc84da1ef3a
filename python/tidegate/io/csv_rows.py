"""Reads rows from CSV files, with specified or inferred column types.

pyarrow infers the types, with one exception: if a numeric column contains a code such as `007`, it
becomes a string column, because numbers do not have leading zeros. If rows are read block by block,
the first block determines the types. Numeric columns are then read as strings and converted here,
so that a code in a later block causes an error instead of losing its zeros.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

Opener: TypeAlias = Callable[[], pa.NativeFile]
"""Opens a file for reading from the beginning."""

PARSING = pyarrow.csv.ParseOptions(newlines_in_values=True)

BLOCK_BYTES = 1 << 20
# pyarrow stores the size of a block in 32 bits.
LARGEST_BLOCK_BYTES = 1 << 30

# From the narrowest type to the widest, in the order in which pyarrow tries them.
GUESSES = [
    pa.null(),
    pa.int64(),
    pa.bool_(),
    pa.float64(),
    pa.date32(),
    pa.time32("s"),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.timestamp("s", "UTC"),
    pa.timestamp("ns", "UTC"),
    pa.string(),
    pa.binary(),
]
NUMBERS = {pa.int64(), pa.float64()}
# Types that can be widened without rereading the values, from narrow to wide.
WIDENINGS = [
    [pa.int64(), pa.float64()],
    [pa.date32(), pa.timestamp("s"), pa.timestamp("ns")],
    [pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC")],
]

CODE = r"^[ \t]*0[0-9]"
# For each byte, whether a number may begin after it. pyarrow ignores spaces and tabs there.
BEFORE_VALUES = np.isin(np.arange(256), [*b',\n\r" \t'])
NO_TYPES: Mapping[str, pa.DataType] = {}

FAILURE = re.compile(r"CSV column #(\d+): (?:Row #\d+: )?(.*)", re.DOTALL)

NAMES = {
    "string": pa.string(),
    "text": pa.string(),
    "int": pa.int64(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "binary": pa.binary(),
}
TIMESTAMP = re.compile(r"timestamp(?:\[(s|ms|us|ns)(?:, *(?:tz=)?([^\]]+))?\])?")
KNOWN = (
    "string, int64, double, bool, date, timestamp, timestamp[us], timestamp[ns, UTC], or the "
    "name of another Arrow type"
)


@dataclass(frozen=True)
class Dialect:
    """The options for parsing CSV values."""

    nulls: Sequence[str] = ("",)
    """The unquoted strings that represent null."""

    types: Mapping[str, str] = field(default_factory=dict)
    """The specified types, by column name."""

    def conversion(
        self, types: Mapping[str, pa.DataType], columns: Sequence[str] = ()
    ) -> pyarrow.csv.ConvertOptions:
        """Return the options for pyarrow; if `columns` is empty, all columns are read."""
        return pyarrow.csv.ConvertOptions(
            null_values=list(self.nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            column_types=dict(types),
            include_columns=[*columns],
        )

    def types_given(self, first: pa.Schema) -> dict[str, pa.DataType]:
        """Return the specified types of those columns that are in the file.

        The type `timestamp` without a unit has a time zone if the first values have one.
        """
        found = {}
        for name, text in self.types.items():
            if name in first.names:
                guess = first.field(name).type
                zone = guess.tz if text == "timestamp" and pa.types.is_timestamp(guess) else None
                found[name] = pa.timestamp("us", zone) if zone else type_named(text)
        return found


PLAIN = Dialect()


def type_named(text: str) -> pa.DataType:
    """Return the Arrow type with this name.

    Raises:
        ValueError: There is no type with this name; the message lists common types.

    Example:
        >>> type_named("double"), type_named("timestamp[ns, UTC]")
        (DataType(double), TimestampType(timestamp[ns, tz=UTC]))
    """
    if text in NAMES:
        return NAMES[text]
    if found := TIMESTAMP.fullmatch(text):
        return pa.timestamp(found[1] or "us", found[2])
    try:
        return pa.type_for_alias(text)
    except ValueError as error:
        message = f"{text!r:.80} is not a type; give {KNOWN}"
        raise ValueError(message) from error


def advice(column: str) -> str:
    """Return advice for a column whose inferred type is wrong."""
    return (
        f"give the type of the column: --types {column}=string (or double, timestamp) in the "
        "command, or column_types of pyarrow.csv in Python"
    )


# Whole files


def table(opener: Opener, dialect: Dialect) -> pa.Table:
    """Read all rows in a file, because all values are needed to infer the correct types."""
    given = dialect.types_given(first_block(opener, dialect).schema) if dialect.types else {}
    found = _read(opener, dialect, given)
    numbers = _guessed_numbers(found.schema, given)
    if numbers and _has_code(opener()):
        texts = _read(opener, dialect, dict.fromkeys(numbers, pa.string()), numbers)
        for name in numbers:
            if has_code(texts.column(name)):
                found = _with_column(found, name, texts.column(name))
    return found


def _guessed_numbers(schema: pa.Schema, given: Collection[str]) -> list[str]:
    """Return the columns inferred as numbers, or no columns if a name is repeated (an error)."""
    if len({*schema.names}) < len(schema):
        return []
    return [one.name for one in schema if one.type in NUMBERS and one.name not in given]


def retyped(
    opener: Opener, dialect: Dialect, found: pa.Table, types: Mapping[str, pa.DataType]
) -> pa.Table:
    """Return the same rows after rereading some columns from the file as different types.

    Raises:
        ArrowInvalid: A value does not fit the type of its column.
    """
    if not types:
        return found
    read = _read(opener, dialect, types, [*types])
    for name in types:
        found = _with_column(found, name, read.column(name))
    return found


def _with_column(found: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return found.set_column(found.schema.get_field_index(name), name, column)


def _read(
    opener: Opener,
    dialect: Dialect,
    types: Mapping[str, pa.DataType],
    columns: Sequence[str] = (),
) -> pa.Table:
    """Read a file in blocks large enough to hold its longest row."""
    block = BLOCK_BYTES
    while True:
        try:
            return pyarrow.csv.read_csv(
                opener(),
                read_options=pyarrow.csv.ReadOptions(block_size=block),
                parse_options=PARSING,
                convert_options=dialect.conversion(types, columns),
            )
        except pa.ArrowInvalid as error:
            block = larger_block(block, error)


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


def _has_code(text: pa.NativeFile) -> bool:
    """Return whether a quick scan finds a code in a file; there may be false positives."""
    last = b"\n"
    while more := text.read(BLOCK_BYTES):
        codes = np.frombuffer(last + more, np.uint8)
        digit = (codes[2:] >= ord("0")) & (codes[2:] <= ord("9"))
        if bool(np.any(BEFORE_VALUES[codes[:-2]] & (codes[1:-1] == ord("0")) & digit)):
            return True
        last = (last + more)[-2:]
    return False


# Block by block


def blocks(
    opener: Opener, dialect: Dialect, types: Mapping[str, pa.DataType] | None = None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns of a file, and an iterator over its rows in blocks.

    Args:
        opener: The function that opens the file.
        dialect: The options for parsing values.
        types: The types of some columns. The other types are inferred from the first block.
    """
    schema = guessed_schema(opener, dialect, types or {})
    return schema, _blocks(opener, dialect, schema)


def guessed_schema(
    opener: Opener,
    dialect: Dialect,
    types: Mapping[str, pa.DataType] = NO_TYPES,
    block: int = BLOCK_BYTES,
) -> pa.Schema:
    """Return the columns of a file, with types specified or inferred from the first values."""
    first = first_block(opener, dialect, block=block).schema
    guesses = _guesses(opener, dialect, first, block) | dict(types)
    return pa.schema([one.with_type(guesses.get(one.name, one.type)) for one in first])


def _blocks(opener: Opener, dialect: Dialect, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    plain = plain_schema(schema, dialect.types)
    conversion = dialect.conversion(dict(zip(plain.names, plain.types, strict=True)))

    def of_size(block: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from pyarrow.csv.open_csv(
                opener(),
                read_options=pyarrow.csv.ReadOptions(block_size=block),
                parse_options=PARSING,
                convert_options=conversion,
            )
        except pa.ArrowInvalid as error:
            raise explained(error, schema) from error

    return (as_guessed(batch, schema) for batch in growing_blocks(of_size, BLOCK_BYTES))


def growing_blocks(
    of_size: Callable[[int], Iterator[pa.RecordBatch]], block: int
) -> Iterator[pa.RecordBatch]:
    """Read the rows in a file, increasing the block size if a row does not fit in a block."""
    rows = 0
    while True:
        # Rows before the block that was too small have already been yielded.
        passed = rows
        try:
            for batch in of_size(block):
                fresh = batch.slice(min(passed, batch.num_rows))
                passed -= batch.num_rows - fresh.num_rows
                if fresh.num_rows:
                    yield fresh
                    rows += fresh.num_rows
        except pa.ArrowInvalid as error:
            block = larger_block(block, error)
        else:
            return


def first_block(
    opener: Opener,
    dialect: Dialect,
    types: Mapping[str, pa.DataType] = NO_TYPES,
    block: int = BLOCK_BYTES,
) -> pa.RecordBatch:
    """Return the first few rows in a file, with specified or inferred types."""
    while True:
        try:
            found = pyarrow.csv.open_csv(
                opener(),
                read_options=pyarrow.csv.ReadOptions(block_size=block),
                parse_options=PARSING,
                convert_options=dialect.conversion(types),
            )
            return next(iter(found), pa.RecordBatch.from_pylist([], found.schema))
        except pa.ArrowInvalid as error:
            block = larger_block(block, error)


def _guesses(
    opener: Opener, dialect: Dialect, first: pa.Schema, block: int
) -> dict[str, pa.DataType]:
    """Return the specified types, plus string for columns with codes in the first block."""
    types = dialect.types_given(first)
    if numbers := _guessed_numbers(first, types):
        texts = first_block(opener, dialect, dict.fromkeys(numbers, pa.string()), block)
        types |= {name: pa.string() for name in numbers if has_code(texts.column(name))}
    return types


def has_code(texts: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether any string is a number with a leading zero."""
    return bool(pc.any(pc.match_substring_regex(texts, CODE)).as_py())


def plain_schema(schema: pa.Schema, given: Collection[str]) -> pa.Schema:
    """Return the columns as pyarrow should read them: strings in place of inferred numbers."""
    numbers = {*_guessed_numbers(schema, given)}
    return pa.schema([one.with_type(pa.string()) if one.name in numbers else one for one in schema])


def as_guessed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows to the types of the first block.

    Raises:
        ArrowInvalid: A value does not fit the type of its column; the message names the column.
    """
    columns = [
        column if column.type == one.type else _numbers(column, one)
        for column, one in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _numbers(texts: pa.Array, one: pa.Field) -> pa.Array:
    codes = pc.match_substring_regex(texts, CODE)
    if pc.any(codes).as_py():
        value = texts.filter(codes)[0].as_py()
        message = (
            f"column `{one.name}` is {one.type} in its first rows, "
            f"but the value {value!r:.80} has a leading zero; {advice(one.name)}"
        )
        raise pa.ArrowInvalid(message)
    try:
        return pc.utf8_trim(texts, " \t").cast(one.type)
    except pa.ArrowInvalid as error:
        message = f"column `{one.name}` is {one.type} in its first rows, "
        message += f"but a later value is not: {error}; {advice(one.name)}"
        raise pa.ArrowInvalid(message) from error


def explained(error: pa.ArrowInvalid, schema: pa.Schema) -> pa.ArrowInvalid:
    """Return the same error, with the column's name and advice added to its message."""
    found = FAILURE.search(str(error))
    if found is None or int(found[1]) >= len(schema):
        return error
    one = schema.field(int(found[1]))
    return pa.ArrowInvalid(
        f"column `{one.name}`, read as {one.type}: {found[2]}; {advice(one.name)}"
    )


# Files of one table


def common_given(kinds: Collection[pa.DataType]) -> pa.DataType | None:
    """Return the type that the user specified, judging by the types in the files, else None.

    A `timestamp` type without a unit has a time zone only in files whose first values have one.
    pyarrow never infers microseconds.
    """
    if not all(pa.types.is_timestamp(kind) and kind.unit == "us" for kind in kinds):
        return None
    zones = {kind.tz for kind in kinds} - {None}
    return pa.timestamp("us", *zones) if len(zones) <= 1 else None


def widened(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type that would be inferred if one file contained values of all these types.

    If only strings can represent all values, the result is None, and the values must be reread.
    """
    left = {kind for kind in kinds if not pa.types.is_null(kind)} or {pa.null()}
    if len(left) == 1:
        return next(iter(left))
    for steps in WIDENINGS:
        if left <= {*steps}:
            return max(left, key=steps.index)
    return None


def guesses_from(kinds: Sequence[pa.DataType]) -> list[pa.DataType]:
    """Return the types to try, in this order, if a column's inferred types differ between files."""
    return GUESSES[max(map(GUESSES.index, kinds)) :]

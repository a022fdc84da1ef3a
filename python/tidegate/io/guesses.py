"""Infers the types of CSV columns from their values.

pyarrow infers the types, with one exception: if a numeric column contains a code such as `007`,
a telephone number such as `+49301234567`, or a quoted number, it becomes a string column, because
numbers do not have leading zeros, plus signs or quotes. Integers that do not fit in 64 bits also
remain strings, because floats would lose digits.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tidegate.io.dialects import Dialect
from tidegate.io.files import in_arrow_memory

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

CODE = r"^[ \t]*(?:0[0-9]|\+[0-9]+[ \t]*$)"
LARGEST = str(2**63 - 1)
# Numbers with as many digits as the largest integer that first differ from it in a larger digit.
LARGER = "|".join(
    f"{LARGEST[:place]}[{int(digit) + 1}-9][0-9]{{{len(LARGEST) - place - 1}}}"
    for place, digit in enumerate(LARGEST)
    if digit != "9"
)
LONG_INTEGER = rf"^[ \t]*-?(?:[0-9]{{{len(LARGEST) + 1},}}|{LARGER})[ \t]*$"
# The first bytes of numbers, including `nan` and `inf`, for quoted numbers.
NUMBER_STARTS = np.isin(np.arange(256), [*b"0123456789+-. \tnNiI"])
MARK = "\x01"
SCANNED_BYTES = 1 << 20

LEADING_ZERO = "a value has a leading zero or plus sign"
QUOTED = "a number is in quotes"
TOO_LONG = "an integer does not fit in 64 bits"
GIVEN = "as specified"


def guessed_numbers(schema: pa.Schema, given: Collection[str]) -> list[str]:
    """Return the columns inferred to be numeric, or none if a name is repeated."""
    if len({*schema.names}) < len(schema):
        return []
    return [one.name for one in schema if one.type in NUMBERS and one.name not in given]


def has_code(texts: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether any string is a number with a leading zero, or an integer with a plus sign."""
    return bool(pc.any(pc.match_substring_regex(texts, CODE)).as_py())


def has_long_integer(texts: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether any string is an integer that does not fit in 64 bits."""
    return bool(pc.any(pc.match_substring_regex(texts, LONG_INTEGER)).as_py())


def may_have_long_integers(column: pa.ChunkedArray) -> bool:
    """Return whether some numbers are so large that they may be integers beyond 64 bits."""
    if column.type != pa.float64():
        return False
    found = pc.min_max(column)
    return any(
        (found[end].as_py() or 0.0) * sign >= 2.0**63 for end, sign in (("min", -1), ("max", 1))
    )


def signs_of_text(text: pa.NativeFile, dialect: Dialect) -> tuple[bool, bool]:
    """Return whether lines seem to contain codes, and whether they seem to contain quoted numbers.

    The scan is quick, so it may report values that are neither.
    """
    quote = dialect.quote.encode()
    has_code, has_quoted = False, not quote
    before = _bytes_of(f"{dialect.separator}{dialect.quote}\n\r \t")
    last = b"\n"
    while not (has_code and has_quoted) and (more := text.read(SCANNED_BYTES)):
        codes = np.frombuffer(last + more, np.uint8)
        if not has_code:
            digit = (codes[2:] >= ord("0")) & (codes[2:] <= ord("9"))
            zero = (codes[1:-1] == ord("0")) | (codes[1:-1] == ord("+"))
            has_code = bool(np.any(before[codes[:-2]] & zero & digit))
        if not has_quoted and quote in more:
            has_quoted = len(_openings(codes, dialect)) > 0
        last = (last + more)[-2:]
    return has_code, has_quoted and bool(quote)


def _bytes_of(characters: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a table that shows for each byte whether it is one of these characters."""
    return np.isin(np.arange(256), [*characters.encode()])


def _openings(
    codes: np.ndarray[tuple[int], np.dtype[np.uint8]], dialect: Dialect
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the positions of quotes that may open a quoted number."""
    places = np.flatnonzero(codes == ord(dialect.quote))
    places = places[(places > 0) & (places < len(codes) - 1)]
    before = _bytes_of(f"{dialect.separator}\n\r")
    return places[before[codes[places - 1]] & NUMBER_STARTS[codes[places + 1]]]


def quoted_columns(
    lines: bytes, names: Sequence[str], columns: Collection[str], dialect: Dialect
) -> set[str]:
    """Return the columns that contain a quoted number, given lines without a header.

    Python adds a mark after each quote that may open such a number, and pyarrow finds the columns
    in which values begin with the mark.
    """
    quote = dialect.quote.encode()
    if not columns or not quote or quote not in lines:
        return set()
    codes = np.frombuffer(b"\n" + lines + b"\n", np.uint8)
    opens = _openings(codes, dialect)
    if not len(opens):
        return set()
    marked = np.insert(codes[1:], opens, ord(MARK)).tobytes()
    found = pyarrow.csv.read_csv(
        in_arrow_memory(marked),
        pyarrow.csv.ReadOptions(column_names=[*names], block_size=len(marked) + 1),
        parse_options(dialect),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()), include_columns=[*columns]
        ),
    )
    return {name for name in columns if pc.any(pc.starts_with(found.column(name), MARK)).as_py()}


def parse_options(dialect: Dialect) -> pyarrow.csv.ParseOptions:
    """Return the options with which pyarrow splits lines into values."""
    return pyarrow.csv.ParseOptions(
        delimiter=dialect.separator,
        quote_char=dialect.quote or False,
        escape_char=dialect.escape or False,
        newlines_in_values=bool(dialect.quote or dialect.escape),
    )


# Files of one table


def common_given(kinds: Collection[pa.DataType]) -> pa.DataType | None:
    """Return the type that the user must have specified for the files to have these types, or None.

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
    known = [GUESSES.index(kind) for kind in kinds if kind in GUESSES]
    return GUESSES[max(known) :] if len(known) == len(kinds) else []

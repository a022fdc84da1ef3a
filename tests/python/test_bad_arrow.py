"""Malformed Arrow data is refused with the column's name; nothing reads foreign memory.

The arrays are built by hand from buffers, as a faulty producer would. They come in two ways: from
pyarrow, whose own check sees the lengths of buffers, and as bare capsules, which carry no lengths.
"""

import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tidegate import TidegateError, interval_join


class Bare:
    """Hands out the capsules of a table and hides that it is pyarrow's."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def spoiled(build: Callable[[pa.Buffer], pa.Array], *values: int) -> pa.Array:
    """Build an array over good offsets, for pyarrow looks, and then write others into them."""
    offsets = np.zeros(len(values), np.int32)
    array = build(pa.py_buffer(offsets))
    offsets[:] = values
    return array


def view(length: int, prefix: bytes, buffer: int, offset: int) -> bytes:
    return struct.pack("i4sii", length, prefix, buffer, offset)


TEXT = b"abcdefghijklmnopqrstuvwxyz"
NO_TEXT = b"\xff\xfe\xc3\x28"
TWO = pa.array(["x", "y"])


def strings(*offsets: int, text: bytes = TEXT) -> pa.Array:
    def build(buffer: pa.Buffer) -> pa.Array:
        return pa.Array.from_buffers(pa.string(), 2, [None, buffer, pa.py_buffer(text)])

    return spoiled(build, *offsets)


def lists(*offsets: int) -> pa.Array:
    def build(buffer: pa.Buffer) -> pa.Array:
        items = pa.array([1, 2])
        return pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, buffer], children=[items])

    return spoiled(build, *offsets)


def views(first: bytes, second: bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(first + second), pa.py_buffer(TEXT)]
    return pa.Array.from_buffers(pa.string_view(), 2, buffers)


MALFORMED = {
    "falling offsets": strings(0, 5, 2),
    "negative offsets": strings(-3, 0, 2),
    "invalid UTF-8": strings(0, 2, 4, text=NO_TEXT),
    "half a character": strings(0, 1, 2, text="é".encode()),
    "dictionary code out of bounds": pa.DictionaryArray.from_arrays(
        pa.array([0, 2], pa.int8()), TWO, safe=False
    ),
    "negative dictionary code": pa.DictionaryArray.from_arrays(
        pa.array([0, -1], pa.int8()), TWO, safe=False
    ),
    "list offsets out of range": lists(0, 1, 1_000),
    "falling list offsets": lists(0, 2, 1),
    "bad text in a struct": pa.StructArray.from_arrays([strings(0, 2, 4, text=NO_TEXT)], ["s"]),
    "bad text in a dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1], pa.int8()), strings(0, 2, 4, text=NO_TEXT)
    ),
    "view beyond its buffer": views(view(20, b"abcd", 0, 0), view(20, b"abcd", 0, 1_000)),
    "view of no buffer": views(view(20, b"abcd", 0, 0), view(20, b"abcd", 7, 0)),
    "run ends that fall": pa.Array.from_buffers(
        pa.run_end_encoded(pa.int32(), pa.string()),
        2,
        [None],
        children=[pa.array([2, 1], pa.int32()), TWO],
    ),
}

# The C data interface carries no lengths, so only pyarrow itself can see this.
TOO_LONG = strings(0, 5, 1_000_000_000)


def refused(array: pa.Array, source: type, *, as_key: bool) -> None:
    bad = pa.table({"ts": [1, 2], "bad": array})
    good = pa.table({"ts": [1, 2], "bad": pa.nulls(2, array.type)})
    for sides in ((source(bad), good), (good, source(bad))):
        with pytest.raises(TidegateError, match=r"malformed|reading the Arrow stream failed"):
            interval_join(*sides, on="ts", lower=0, upper=0, by="bad" if as_key else None)


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("source", [Bare, lambda table: table], ids=["bare", "pyarrow"])
def test_malformed_payload(name, source):
    refused(MALFORMED[name], source, as_key=False)


@pytest.mark.parametrize(
    "name", [name for name, array in MALFORMED.items() if not pa.types.is_nested(array.type)]
)
def test_malformed_key(name):
    refused(MALFORMED[name], Bare, as_key=True)


def test_offsets_beyond_the_text():
    refused(TOO_LONG, lambda table: table, as_key=False)


def test_the_message_names_side_and_column():
    bad = Bare(pa.table({"ts": [1, 2], "city": MALFORMED["invalid UTF-8"]}))
    with pytest.raises(TidegateError) as caught:
        interval_join(pa.table({"ts": [1]}), bad, on="ts", lower=0, upper=0)
    assert "right: column `city` holds malformed Arrow data" in str(caught.value)


def test_misaligned_buffers_are_copied():
    numbers = pa.py_buffer(b"\0" + struct.pack("3q", 10, 20, 30))
    column = pa.Array.from_buffers(pa.int64(), 3, [None, numbers.slice(1)])
    assert column.to_pylist() == [10, 20, 30]
    table = pa.table({"ts": column, "k": column})
    found = interval_join(Bare(table), Bare(table), on="ts", by="k", lower=0, upper=0)
    assert found.to_pydict() == {"ts": [10, 20, 30], "k": [10, 20, 30], "ts_right": [10, 20, 30]}

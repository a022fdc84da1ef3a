"""Followed files of any bytes, cut anywhere, return all rows or raise a typed error."""

import itertools
from collections.abc import Sequence

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.csv
from hypothesis import given

from tidegate import TidegateError
from tidegate.io import followers
from tidegate.io.csv_rows import conversion
from tidegate.io.dialects import PLAIN
from tidegate.io.files import Format, reading
from tidegate.io.guesses import parse_options

HEAD = b"k,v\na,b\n"


class Pipe:
    """Create a pipe that receives bytes piece by piece and is then closed."""

    may_grow = False
    has_successor = False
    closed = False

    def __init__(self, text: bytes, cuts: Sequence[int]) -> None:
        ends = sorted({*cuts, len(text)})
        self._pieces = [
            text[start:end] for start, end in itertools.pairwise([0, *ends]) if start < end
        ]

    def next_bytes(self, most: int = 1 << 20) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.pop(0)
        if len(piece) > most:
            self._pieces.insert(0, piece[most:])
        return piece[:most]

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (more := self.next_bytes(size - len(found))):
            found += more
        return found

    def unread(self, found: bytes) -> None:
        self._pieces.insert(0, found)

    def close(self) -> None:
        self._pieces = []


def rows(follower: followers.Follower) -> pa.Table:
    pieces = [piece.rows for piece in follower.pieces()]
    return pa.concat_tables([follower.schema.empty_table(), *pieces])


CSV = st.lists(
    st.sampled_from(
        [b"a", b"bc", b",", b'"', b'""', b"\n", b"\r\n", b"x,y\n", b'"p\nq",z\n', b"\xc3\xa9"]
    ),
    max_size=30,
).map(b"".join)


@given(CSV, st.lists(st.integers(0, 60), max_size=4))
def test_csv_of_any_quotes_and_line_ends(text, cuts):
    text = HEAD + text
    try:
        whole = pyarrow.csv.read_csv(
            pa.BufferReader(text),
            parse_options=parse_options(PLAIN),
            convert_options=conversion(PLAIN, {}),
        )
    except pa.ArrowInvalid:
        whole = None
    try:
        with reading("pipe", Format.CSV):
            found = rows(followers._CsvFollower("pipe", Pipe(text, cuts), PLAIN, None))
    except TidegateError:
        assert whole is None
        return
    assert whole is not None
    assert found.to_pylist() == whole.to_pylist()


def stream() -> bytes:
    words = pa.array(["a", "b", None]).dictionary_encode()
    table = pa.table({"ts": [1, 2, 3], "w": words, "l": [[1], None, [2, 3]]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for _ in range(3):
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


STREAM = stream()


@given(
    st.lists(st.tuples(st.integers(0, len(STREAM) - 1), st.integers(0, 255)), max_size=3),
    st.one_of(st.none(), st.integers(0, len(STREAM))),
    st.lists(st.integers(0, len(STREAM)), max_size=4),
)
def test_arrow_streams_that_are_damaged_or_cut_off(changes, end, cuts):
    text = bytearray(STREAM)
    for place, byte in changes:
        text[place] = byte
    pipe = Pipe(bytes(text[:end]), cuts)
    try:
        with reading("pipe", Format.ARROW):
            found = rows(followers._ArrowFollower("pipe", pipe, None))
    except TidegateError:
        assert changes or end is not None
        return
    if not changes and end is None:
        assert found.num_rows == 9
        assert found.column("w").to_pylist() == ["a", "b", None] * 3

"""Line ends of CSV that is read in pieces: the same as in pyarrow, and found in linear time."""

import time

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.io.lines import LineEnds, first_end, marks, open_quote

ESCAPED = marks(escape="\\")


def ends(text: bytes, size: int, escape: str = "") -> list[int]:
    """Find the known line ends if bytes arrive in pieces of this size."""
    scanner = LineEnds(marks(escape=escape))
    found = []
    for first in range(0, len(text), size):
        end = scanner.last(text[first : first + size])
        if end:
            found.append(first + end)
    return found


def slow_ends(text: bytes, escape: str = "") -> list[int]:
    """Find line ends byte by byte, with the states of Arrow's own reader."""
    found, state, is_escaped = [], "begin", False
    for place, byte in enumerate(text):
        char = chr(byte)
        if is_escaped or char == escape:
            is_escaped = not is_escaped
            state = state if state == "quoted" else "plain"
        elif state == "quoted":
            state = "quote" if char == '"' else "quoted"
        elif char == '"' and state in {"begin", "quote"}:
            state = "quoted"
        elif char in ",\r\n":
            state = "begin"
            if char == "\n":
                found.append(place + 1)
        else:
            state = "plain"
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"1,a\n2,b", 4),
        (b'1,"a\nb"\n2,"c', 8),
        (b'1,"a""\nb"\n', 10),
        (b'1,"a"""\n"', 8),
        (b'1,5" pipe\n2,6" pipe\n3', 20),
        (b'1,a"\n2,"b\n', 5),
        (b'"a"b"\n"c\n', 6),
        (b'""\n"', 3),
        (b'1,"open\n2,x\n', 0),
        (b'1,\r"x\n"\r\n2', 9),
    ],
)
def test_a_line_ends_where_no_quote_is_open(text, wanted, size):
    assert max(ends(text, size), default=0) == wanted


@given(
    st.lists(st.sampled_from([*'",\n\rx\\'])).map("".join),
    st.integers(1, 7),
    st.sampled_from(["", "\\"]),
)
def test_line_ends_are_those_of_a_reader_that_goes_byte_by_byte(text, size, escape):
    found, known = ends(text.encode(), size, escape), slow_ends(text.encode(), escape)
    assert set(found) <= set(known)
    # Of the line ends in a piece, the last is found.
    wanted = {}
    for end in known:
        wanted[(end - 1) // size] = end
    assert found == [*wanted.values()]
    if escape:
        assert first_end(text.encode(), 0, ESCAPED) == min(known, default=len(text))


@given(st.lists(st.sampled_from([*'"\nx\\'])).map("".join), st.sampled_from(["", "\\"]))
def test_a_text_is_cut_where_pyarrow_cuts_it(text, escape):
    # An empty second column prevents empty lines from being skipped.
    text = "".join(f"{line},\n" for line in text.split("\n")).encode()
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True, escape_char=escape or False)
    names = pyarrow.csv.ReadOptions(column_names=["a", "b"])
    known = slow_ends(text, escape)
    if not known or known[-1] != len(text):
        rest = text[known[-1] if known else 0 :]
        assert open_quote(rest, marks(escape=escape)) is not None or rest.count(b"\\")
        return
    try:
        rows = pyarrow.csv.read_csv(pa.BufferReader(text), names, parsing).num_rows
    except pa.ArrowInvalid:
        return  # a line whose comma is in quotes has only one column
    assert rows == len(known)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "line",
    [b'1,"a"\n', b'1,5" pipe\n', b'1,"open\n', b'1,"a\nb"\n', b'""', b'x"', b"\n", b'"\n'],
)
@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
def test_megabytes_take_a_moment(line, size):
    text = b'"' + line * ((4 << 20) // len(line))
    start = time.process_time()
    ends(text, size)
    # This takes less than 2 s. A search that restarts for each quote or piece would take minutes.
    assert time.process_time() - start < 20

"""Malformed Arrow data is refused with the column's name, and no foreign memory is read.

The arrays are built by hand from buffers, as a faulty producer would. They are passed in two forms:
as pyarrow arrays, whose check knows the lengths of buffers, and as bare capsules, which carry no
lengths.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate import TidegateError, interval_join


class Bare:
    """Exports the capsules of a table and hides that it is a pyarrow table."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


@dataclass
class Malformed:
    """Build a valid array, as pyarrow requires, and then overwrite its offsets."""

    array: pa.Array
    memory: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    offsets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.good = self.memory.copy()

    def table(self) -> pa.Table:
        self.memory[:] = self.good
        table = pa.table({"ts": [1, 2], "bad": self.array})
        self.memory[:] = self.offsets
        return table


def spoiled(build: Callable[[pa.Buffer], pa.Array], *offsets: int) -> Malformed:
    memory = np.zeros(len(offsets), np.int32)
    return Malformed(build(pa.py_buffer(memory)), memory, offsets)


def view(length: int, prefix: bytes, buffer: int, offset: int) -> bytes:
    return struct.pack("i4sii", length, prefix, buffer, offset)


TEXT = b"abcdefghijklmnopqrstuvwxyz"
BYTES = b"\xff\xfe\xc3\x28"
NO_TEXT = pa.array([BYTES[:2], BYTES[2:]]).view(pa.string())
TWO = pa.array(["x", "y"])


def strings(*offsets: int, text: bytes = TEXT) -> Malformed:
    def build(buffer: pa.Buffer) -> pa.Array:
        return pa.Array.from_buffers(pa.string(), 2, [None, buffer, pa.py_buffer(text)])

    return spoiled(build, *offsets)


def lists(*offsets: int) -> Malformed:
    def build(buffer: pa.Buffer) -> pa.Array:
        items = pa.array([1, 2])
        return pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, buffer], children=[items])

    return spoiled(build, *offsets)


def views(first: bytes, second: bytes) -> Malformed:
    buffers = [None, pa.py_buffer(first + second), pa.py_buffer(TEXT)]
    return Malformed(pa.Array.from_buffers(pa.string_view(), 2, buffers))


def codes(first: int, second: int, values: pa.Array = TWO) -> Malformed:
    indices = pa.array([first, second], pa.int8())
    return Malformed(pa.DictionaryArray.from_arrays(indices, values, safe=False))


def run_ends(*ends: int) -> Malformed:
    memory = np.array([1, 2], np.int32)
    numbers = pa.Array.from_buffers(pa.int32(), 2, [None, pa.py_buffer(memory)])
    return Malformed(pa.RunEndEncodedArray.from_arrays(numbers, TWO), memory, ends)


MALFORMED = {
    "falling offsets": strings(0, 5, 2),
    "negative offsets": strings(-3, 0, 2),
    "invalid UTF-8": strings(0, 2, 4, text=BYTES),
    "half a character": strings(0, 1, 2, text="é".encode()),
    "dictionary code out of bounds": codes(0, 2),
    "negative dictionary code": codes(0, -1),
    "list offsets out of range": lists(0, 1, 1_000),
    "falling list offsets": lists(0, 2, 1),
    "bad text in a struct": Malformed(pa.StructArray.from_arrays([NO_TEXT], ["s"])),
    "bad text in a dictionary": codes(0, 1, NO_TEXT),
    "view beyond its buffer": views(view(20, b"abcd", 0, 0), view(20, b"abcd", 0, 1_000)),
    "view of no buffer": views(view(20, b"abcd", 0, 0), view(20, b"abcd", 7, 0)),
    "run ends that fall": run_ends(2, 1),
    "run ends that are short": run_ends(0, 1),
}

# The C data interface carries no lengths, so only pyarrow can detect this.
TOO_LONG = strings(0, 5, 1_000_000_000)


def refused(malformed: Malformed, source: type, *, as_key: bool) -> None:
    bad = source(malformed.table())
    good = pa.table({"ts": [1, 2], "bad": pa.nulls(2, malformed.array.type)})
    for sides in ((bad, good), (good, bad)):
        with pytest.raises(TidegateError, match=r"malformed|reading the Arrow stream failed"):
            interval_join(*sides, on="ts", lower=0, upper=0, by="bad" if as_key else None)


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("source", [Bare, lambda table: table], ids=["bare", "pyarrow"])
def test_malformed_payload(name, source):
    refused(MALFORMED[name], source, as_key=False)


@pytest.mark.parametrize(
    "name", [name for name, one in MALFORMED.items() if not pa.types.is_nested(one.array.type)]
)
def test_malformed_key(name):
    refused(MALFORMED[name], Bare, as_key=True)


GOOD = pa.table({"ts": [1, 2]})
COLLECTED = {"all": tg.agg.collect("bad")}
BOUNDED = {"memory_limit": "512MB"}
JOINED = {
    "interval_join": {"on": "ts", "lower": 0, "upper": 0},
    "window_join": {"on": "ts", "window": 1},
    "overlap_join": {"on": (("ts", "ts"), ("ts", "ts"))},
    "asof_join": {"on": "ts"},
}


def joined(name: str) -> Callable[[object], object]:
    call = getattr(tg, name)
    return lambda bad: call(bad, GOOD, **JOINED[name], **BOUNDED)


def update(bad: object) -> None:
    schema = pa.schema({"ts": pa.int64(), "bad": bad.schema.field("bad").type})
    tg.Digest(schema).update(bad)


def push(bad: object) -> None:
    tg.Merge(bad.schema).sources[0].push(bad)


DOORS = {
    "digest": tg.digest,
    "digest_in_any_order": lambda bad: tg.digest(bad, ordered=False, threads=2),
    "Digest.update": update,
    "push": push,
    "merge": tg.merge,
    "merge_batches": lambda bad: [*tg.merge_batches([bad])],
    "merge_within": lambda bad: tg.merge(bad, **BOUNDED),
    "aggregate": lambda bad: tg.aggregate(bad, on="ts", size=1, aggs=COLLECTED),
    "aggregate_within": lambda bad: tg.aggregate(bad, on="ts", size=1, aggs=COLLECTED, **BOUNDED),
    **{f"{name}_within": joined(name) for name in JOINED},
}


class BareWithSchema(Bare):
    """An exporter that also has a schema."""

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("source", [BareWithSchema, lambda table: table], ids=["bare", "pyarrow"])
def test_every_function_checks_values_before_it_looks_at_them(name, door, source):
    with pytest.raises(TidegateError, match=r"malformed|reading the Arrow stream failed"):
        DOORS[door](source(MALFORMED[name].table()))


@pytest.mark.parametrize("name", MALFORMED)
def test_what_a_function_of_ones_own_returns_is_checked(name):
    bad = MALFORMED[name].table()["bad"]
    for returned in (bad.chunk(0), pa.chunked_array([bad.chunk(0).slice(0, 1), bad.chunk(0)[1:]])):
        own = tg.agg.udf(lambda _, found=returned: found, "ts", returned.type)
        with pytest.raises(TidegateError, match=r"malformed Arrow data|Invalid"):
            tg.aggregate(GOOD, on="ts", size=1, aggs={"x": own})


ENDINGS = {".arrows": pa.ipc.new_stream, ".arrow": pa.ipc.new_file}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["falling offsets", "dictionary code out of bounds"])
@pytest.mark.parametrize("door", [door for door in DOORS if door not in {"Digest.update", "push"}])
def test_a_damaged_file_is_refused(tmp_path, ending, name, door):
    path = tmp_path / f"damaged{ending}"
    table = MALFORMED[name].table()
    with ENDINGS[ending](path, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(TidegateError, match="malformed Arrow data"):
        DOORS[door](str(path))


def test_offsets_beyond_the_text():
    refused(TOO_LONG, lambda table: table, as_key=False)


def test_the_message_names_side_and_column():
    bad = Bare(MALFORMED["invalid UTF-8"].table().rename_columns(["ts", "city"]))
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


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"", b""], pa.binary(0)),
        pa.array([[], []], pa.list_(pa.int64(), 0)),
        pa.array([{"x": b""}, None], pa.struct({"x": pa.binary(0)})),
    ],
    ids=lambda column: str(column.type),
)
def test_values_of_size_0_are_refused(column: pa.Array) -> None:
    """Arrays with these values lose their length when rows are selected."""
    given = pa.table({"ts": [1, 2], "c": column})
    with pytest.raises(tg.SchemaError, match="has values of size 0, which are not supported"):
        tg.merge([given, given])
    with pytest.raises(tg.SchemaError, match="cast it or leave it out"):
        tg.Merge(given.schema)


def nested(levels: int) -> pa.Table:
    column = pa.array([1, 2])
    for _ in range(levels - 1):
        column = pa.StructArray.from_arrays([column], names=["x"])
    return pa.table({"ts": [1, 2], "c": column})


def test_deeply_nested_columns_are_refused():
    """Arrow's kernels recurse once per level, and the stacks of threads are small."""
    deepest = nested(32)
    assert tg.merge([deepest, deepest]).num_rows == 4
    with pytest.raises(tg.SchemaError, match="the type has more than 32 levels"):
        tg.merge([nested(33), nested(33)])

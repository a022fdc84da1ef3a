"""Columns of every Arrow type pass through a join unchanged."""

import datetime as dt
import decimal
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import oracle
from tidegate import Aggregate, agg, aggregate, interval_join

KINDS = ["inner", "left", "right", "full", "semi", "anti"]


class Celsius(pa.ExtensionType):
    """An extension type that Arrow does not know."""

    def __init__(self) -> None:
        super().__init__(pa.float32(), "test.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"C"

    @classmethod
    def __arrow_ext_deserialize__(cls, _storage: pa.DataType, _serialized: bytes) -> "Celsius":
        return cls()


@pytest.fixture
def celsius():
    pa.register_extension_type(Celsius())
    yield Celsius()
    pa.unregister_extension_type("test.celsius")


def nested(type_: pa.DataType) -> pa.Array:
    return pa.array([[1, 2], None, [], [None, 3]], type_)


# Structs whose offsets and nulls differ from those of their children.
NESTED = pa.array(
    [{"a": {"b": {"c": 0}}}] * 3
    + [{"a": {"b": {"c": 1}}}, None, {"a": {"b": None}}, {"a": None}, {"a": {"b": {"c": 2}}}]
)[3:7]

PAYLOADS = {
    "null": pa.nulls(4),
    "bool": pa.array([True, None, False, True]),
    "int8": pa.array([-128, None, 0, 127], pa.int8()),
    "uint16": pa.array([65535, None, 0, 1], pa.uint16()),
    "half": pa.array(
        np.array([1.5, 2.5, -0.0, 0.0], np.float16), mask=np.array([0, 1, 0, 0], bool)
    ),
    "float": pa.array([float("nan"), None, -0.0, float("inf")]),
    "decimal32": pa.array(
        [decimal.Decimal("1.5"), None, decimal.Decimal(2), None], pa.decimal32(4, 1)
    ),
    "decimal128": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(2), None]),
    "decimal256": pa.array([decimal.Decimal("1.5"), None, None, None], pa.decimal256(50, 1)),
    "date": pa.array([dt.date(2024, 1, 1), None, dt.date(1900, 1, 1), None]),
    "time32": pa.array([dt.time(1), None, dt.time(2), None], pa.time32("s")),
    "time64": pa.array([dt.time(1), None, dt.time(2), None], pa.time64("ns")),
    "timestamp": pa.array([1, None, 2, None], pa.timestamp("us", "Asia/Kathmandu")),
    "duration": pa.array([1, None, -2, None], pa.duration("ms")),
    "interval": pa.array([(1, 2, 3), None, (0, 0, 0), None], pa.month_day_nano_interval()),
    "string": pa.array(["", None, "é" * 20, "x"]),
    "large_string": pa.array(["", None, "é" * 20, "x"], pa.large_string()),
    "string_view": pa.array(["", None, "é" * 20, "x"], pa.string_view()),
    "binary": pa.array([b"", None, b"\xff" * 20, b"x"]),
    "binary_view": pa.array([b"", None, b"\xff" * 20, b"x"], pa.binary_view()),
    "fixed_binary": pa.array([b"abc", None, b"\xff\x00\x01", b"xyz"], pa.binary(3)),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "list": nested(pa.list_(pa.int32())),
    "large_list": nested(pa.large_list(pa.int32())),
    "list_view": nested(pa.list_view(pa.int32())),
    "fixed_list": pa.array([[1, 2], None, [3, None], [4, 5]], pa.list_(pa.int16(), 2)),
    "struct": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}, {"a": 2, "b": []}]),
    "map": pa.array([[("a", 1)], None, [], [("b", None)]], pa.map_(pa.string(), pa.int32())),
    "sparse_union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(list("abcd"))]
    ),
    "dense_union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()),
        pa.array([0, 0, 1, 1], pa.int32()),
        [pa.array([1, 2]), pa.array(["a", "b"])],
    ),
    "nested_struct": NESTED,
    "list_of_structs": pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4]), NESTED),
    "fixed_list_of_structs": pa.FixedSizeListArray.from_arrays(
        pa.concat_arrays([NESTED, NESTED]), 2
    ),
    "sparse_union_of_structs": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0, 1], pa.int8()), [NESTED, NESTED]
    ),
    "dictionary_of_structs": pa.DictionaryArray.from_arrays(pa.array([3, None, 0, 2]), NESTED),
    "run_end": pc.run_end_encode(pa.array([1.5, 1.5, None, 2.5])),
    "uuid": pa.array([uuid.UUID(int=7).bytes, None, uuid.UUID(int=8).bytes, None], pa.uuid()),
    "json": pa.array(['{"a": 1}', None, "[]", "1"], pa.json_()),
    "bool8": pa.array([1, None, 0, 1], pa.int8()).cast(pa.bool8()),
}


@pytest.mark.parametrize("name", PAYLOADS)
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("cuts", [[4], [1, 3], [2, 0, 1, 1]], ids=str)
def test_every_type_rides_along(name, how, cuts):
    check_payload(PAYLOADS[name], how, cuts)


@pytest.mark.parametrize("how", KINDS)
def test_unknown_extension_types_ride_along(celsius, how):
    storage = pa.array([1, None, 2, 3], pa.float32())
    check_payload(pa.ExtensionArray.from_storage(celsius, storage), how, [1, 3])


def check_payload(values: pa.Array, how: str, cuts: list[int]) -> None:
    ends = np.cumsum(cuts)
    chunks = [values[end - size : end] for size, end in zip(cuts, ends, strict=True)]
    values = pa.chunked_array(chunks, values.type)
    left = pa.table({"ts": [3, 2, 1, 0], "left_value": values})
    right = pa.table({"ts": [1, 2, 8, 9], "right_value": values})
    join = oracle.Join(on=("ts", "ts"), lower=0, upper=1, how=how)
    found = interval_join(left, right, on="ts", lower=0, upper=1, how=how)
    pairs = oracle.nested_loop(left.select(["ts"]), right.select(["ts"]), join)
    found.validate(full=True)
    assert found.column("left_value").type == values.type
    plain = values.to_pylist()
    wanted = [plain[i] if i is not None else None for i, _ in pairs]
    assert repr(found.column("left_value").to_pylist()) == repr(wanted)
    if how not in ("semi", "anti"):
        wanted = [plain[j] if j is not None else None for _, j in pairs]
        assert repr(found.column("right_value").to_pylist()) == repr(wanted)


@pytest.mark.parametrize("how", ["inner", "left", "full"])
@pytest.mark.parametrize("columns", [1, 3, 5])
@pytest.mark.parametrize("threads", [1, 3])
def test_partners_that_are_far_apart(how, columns, threads):
    """The rows of a key are far apart, so the right columns are stored in a row layout."""
    draw = np.random.Generator(np.random.PCG64(columns))
    rows, keys = 90_000, 20_000
    left = pa.table({"t": np.arange(rows), "k": draw.integers(0, keys + 1_000, rows)})
    right = pa.table(
        {
            "t": np.arange(rows),
            "k": draw.integers(1_000, keys + 2_000, rows),
            "row": np.arange(rows, dtype=np.int32),
            **{f"c{at}": draw.random(rows) for at in range(columns)},
            "some": pa.array(draw.integers(0, 9, rows), mask=draw.random(rows) < 0.3),
        }
    )
    parts = [right.slice(0, 1), right.slice(1, 40_000), right.slice(40_001)]
    found = interval_join(
        left,
        pa.concat_tables(parts),
        on="t",
        by="k",
        lower=-70_000,
        upper=70_000,
        how=how,
        threads=threads,
    )
    assert found.num_rows > rows
    for name in right.column_names[2:]:
        assert found[name].combine_chunks().equals(right[name].take(found["row"]).combine_chunks())


def _extension_columns() -> pa.Table:
    names = pa.array(["b", "a"]).dictionary_encode()
    listed = pa.field("listed", names.type, metadata={"_PL_ENUM_VALUES2": "1;b1;a"})
    ids = pa.array([uuid.UUID(int=number).bytes for number in (2, 1)], pa.uuid())
    texts = pa.array(["1", "{}"], pa.json_())
    degrees = pa.ExtensionArray.from_storage(Celsius(), pa.array([2, 1], pa.float32()))
    schema = pa.schema(
        [
            pa.field("ts", pa.int64()),
            pa.field("id", pa.uuid(), metadata={"PARQUET:field_id": "7", "unit": "none"}),
            pa.field("text", pa.json_()),
            pa.field("degrees", Celsius()),
            listed,
        ]
    )
    return pa.table([[1, 2], ids, texts, degrees, names], schema=schema)


@pytest.mark.parametrize("name", ["id", "text", "degrees", "listed"])
@pytest.mark.parametrize("of", ["windows", "sessions", "partners", "streams"])
def test_values_that_aggregates_hand_on_keep_their_extension_type(name, of, celsius):
    given = _extension_columns()
    aggs = {
        "first": agg.first(name),
        "last": agg.last(name),
        "arg_min": agg.arg_min(name, "ts"),
        "arg_max": agg.arg_max(name, "ts"),
        "all": agg.collect(name),
    }
    if name != "listed":
        aggs |= {"min": agg.min(name), "max": agg.max(name)}
    if of == "windows":
        found = aggregate(given, on="ts", size=5, aggs=aggs)
    elif of == "sessions":
        found = aggregate(given, on="ts", session=5, aggs=aggs)
    elif of == "partners":
        left = pa.table({"ts": [0]})
        found = interval_join(left, given, on="ts", lower=None, upper=None, aggs=aggs)
    else:
        operator = Aggregate(given.schema, on="ts", size=5, aggs=aggs)
        operator.sources[0].push(given)
        restored = Aggregate(given.schema, on="ts", size=5, aggs=aggs)
        restored.restore(operator.snapshot())
        restored.sources[0].close()
        found = pa.Table.from_batches(list(restored))
    expected = given.schema.field(name)
    kept = expected.remove_metadata()
    if expected.metadata is not None:
        metadata = dict(expected.metadata)
        metadata.pop(b"PARQUET:field_id", None)
        kept = kept.with_metadata(metadata)
    for output in set(aggs) - {"all"}:
        assert found.schema.field(output).with_name(name).equals(kept, check_metadata=True)
    item = found.schema.field("all").type.value_field
    assert item.type == kept.type
    assert (item.metadata or {}) == (kept.metadata or {})
    values = given.column(name).to_pylist()
    row = found.to_pylist()[0]
    assert [row["first"], row["last"], row["all"]] == [*values, values]

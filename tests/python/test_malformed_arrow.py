"""Inconsistent structures of Arrow's C interfaces are refused, and nothing crashes.

`malformed_cases.py` contains the cases. It runs in a child process, so that a crash counts as the
failure of one case. Pointers to foreign memory are not tested, because no number in the structures
reveals them.
"""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import c_data
from c_data import AsArray, AsSchema, AsStream
from malformed_cases import STEP
from tidegate import (
    Aggregate,
    IntervalJoin,
    Merge,
    SchemaError,
    TidegateError,
    agg,
    aggregate,
    explain,
    interval_join,
    merge,
)

CASES = Path(__file__).with_name("malformed_cases.py")
PATIENCE = 500
GOOD = pa.table({"ts": [0, 1]})


def failures() -> tuple[int, list[str]]:
    """Run all cases, and return their number and the failures."""
    count, failed = 0, []
    while True:
        done = subprocess.run(
            [sys.executable, CASES, str(count)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        failed += [": ".join(line[1:]) for line in lines if line[2] not in {"good", "refused"}]
        count += len(lines)
        if done.returncode == 0:
            return count, failed
        # The last case ended the process, so it has no outcome.
        assert lines, done.stderr
        assert not lines[-1][2], done.stderr


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE)
def test_every_field_of_every_type():
    count, failed = failures()
    print(f"{count} inputs, {len(failed)} failed")  # noqa: T201 - shown with -s
    assert count > 15_000 / STEP
    assert failed == []


# Messages


def batch() -> tuple[c_data.Schema, c_data.Array]:
    inner = pa.array([{"b": ["x"]}, {"b": []}], pa.struct({"b": pa.list_(pa.string())}))
    return c_data.exported(pa.record_batch({"ts": [0, 1], "a": inner}))


def spoiled_text() -> tuple[c_data.Schema, c_data.Array]:
    """Create a batch in which the strings in lists in structs have a negative length."""
    schema, array = batch()
    *_, texts = c_data.nodes(array)
    texts.length = -1
    return schema, array


TEXT = "column `a.b.item` holds malformed Arrow data: the length is -1 and the offset is 0"
COUNT = {"n": agg.count()}


@pytest.mark.parametrize("source", [AsArray, AsStream])
def test_the_message_names_side_and_place(source):
    bad = source(*spoiled_text())
    for sides, side in (((bad, GOOD), "left"), ((GOOD, bad), "right")):
        with pytest.raises(SchemaError, match=f"^{side}: {TEXT}"):
            interval_join(*sides, on="ts", lower=0, upper=0)
        bad = source(*spoiled_text())
    with pytest.raises(SchemaError, match=rf"^streams\[1\]: {TEXT}"):
        merge([source(*batch()), bad])
    with pytest.raises(SchemaError, match=rf"^streams\[1\]: {TEXT}"):
        aggregate([GOOD, source(*spoiled_text())], on="ts", size=1, aggs=COUNT)


@pytest.mark.parametrize("source", [AsArray, AsStream])
def test_a_push_is_refused_as_a_whole(source):
    operator = Merge(AsSchema(batch()[0]))
    with pytest.raises(SchemaError, match=f"^data: {TEXT}"):
        operator.sources[0].push(source(*spoiled_text()))
    assert operator.stats()["rows_in"] == 0
    operator.sources[0].push(source(*batch()))
    assert operator.stats()["rows_in"] == 2


@pytest.mark.parametrize(
    "call",
    [
        Merge,
        lambda bad: Aggregate(bad, on="ts", size=1, aggs=COUNT),
        lambda bad: IntervalJoin(GOOD.schema, bad, on="ts", lower=0, upper=0),
        lambda bad: explain(interval_join, GOOD, bad, on="ts", lower=0, upper=0),
    ],
)
def test_schemas_are_checked_as_well(call):
    schema, _ = batch()
    *_, texts = c_data.nodes(schema)
    texts.n_children = -1
    text = r"(schema|right): column `a.b.item` .* has 0 children, n_children is -1"
    with pytest.raises(SchemaError, match=text):
        call(AsSchema(schema))


@pytest.mark.parametrize(
    ("values", "field", "value", "text"),
    [
        (pa.array([1.5]), "n_buffers", 5, "double has 2 buffers, n_buffers is 5"),
        (pa.array([[1]]), "n_children", 3, "list<item: int64> has 1 children, n_children is 3"),
        (
            pa.array([0], pa.timestamp("us", "Asia/Kathmandu")),
            "dictionary",
            None,
            r"timestamp[us, tz=Asia/Kathmandu] has no dictionary, but one is given",
        ),
    ],
)
def test_types_have_their_names_in_python(values, field, value, text):
    schema, array = c_data.exported(pa.record_batch({"ts": [0] * len(values), "v": values}))
    _, _, node, *_ = c_data.nodes(array)
    setattr(node, field, c_data.at(node) if field == "dictionary" else value)
    with pytest.raises(
        SchemaError, match=re.escape(f"column `v` holds malformed Arrow data: {text}")
    ):
        interval_join(AsArray(schema, array), GOOD, on="ts", lower=0, upper=0)


def test_types_that_arrow_rs_names_have_their_names_in_python():
    values = pa.array([{"b": [None]}, {"b": [1.5]}])
    schema, array = c_data.exported(pa.record_batch({"ts": [0, 1], "v": values}))
    *_, items = c_data.nodes(schema)
    items.flags = 0  # A non-nullable column
    with pytest.raises(TidegateError, match=r"column `v` holds malformed Arrow data") as told:
        interval_join(AsArray(schema, array), GOOD, on="ts", lower=0, upper=0)
    assert "struct<b: list<item: double not null>> child" in str(told.value)
    assert "child of type double contains nulls" in str(told.value)


def test_data_that_has_no_rows_has_its_name_in_python():
    with pytest.raises(SchemaError, match=r"got Arrow data of type list<item: int64>"):
        interval_join(pa.array([[1]]), GOOD, on="ts", lower=0, upper=0)


def test_a_row_that_is_null_as_a_whole():
    rows = pa.array([{"ts": 0}, None, {"ts": 1}])
    with pytest.raises(SchemaError, match="left: malformed Arrow data: row 1 itself is null"):
        interval_join(rows, GOOD, on="ts", lower=0, upper=0)


def test_nulls_where_none_are_declared():
    schema = pa.schema([pa.field("ts", pa.int64()), pa.field("v", pa.int64(), nullable=False)])
    c_schema, _ = c_data.exported(pa.record_batch([[0], [1]], schema=schema))
    _, array = c_data.exported(pa.record_batch({"ts": [0], "v": pa.nulls(1, pa.int64())}))
    with pytest.raises(
        SchemaError, match=r"column `v` .* null values, but its schema declares it as non-nullable"
    ):
        interval_join(AsArray(c_schema, array), GOOD, on="ts", lower=0, upper=0)


# Errors of streams


def test_an_error_without_a_text():
    schema, array = batch()
    for reason, text in ((None, "the producer gave no reason"), (b"disk \xff", "disk \ufffd")):
        bad = AsStream(schema, array, error=5, reason=reason)
        with pytest.raises(TidegateError, match=rf"left: .* failed: {text} \(error code 5\)"):
            interval_join(bad, GOOD, on="ts", lower=0, upper=0)


@pytest.mark.parametrize("field", ["get_schema", "get_next"])
def test_a_stream_without_its_functions(field):
    class Without(AsStream):
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            capsule = super().__arrow_c_stream__()
            pointer = c_data.c.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = c_data.P, [c_data.c.py_object, c_data.c.c_char_p]
            stream = c_data.Stream.from_address(pointer(capsule, b"arrow_array_stream"))
            setattr(stream, field, None)
            return capsule

    with pytest.raises(
        SchemaError, match="left: malformed Arrow data: the stream lacks a function"
    ):
        interval_join(Without(*batch()), GOOD, on="ts", lower=0, upper=0)


def test_a_stream_without_a_schema():
    schema, array = batch()
    schema.release = None
    with pytest.raises(
        SchemaError, match="left: malformed Arrow data: the stream returned no schema"
    ):
        interval_join(AsStream(schema, array), GOOD, on="ts", lower=0, upper=0)


# Not Arrow data


class Gives:
    """Has a method of Arrow's interface that returns the given object."""

    def __init__(self, method: str, given: object) -> None:
        setattr(self, method, lambda *_: given)


SCHEMA_CAPSULE = GOOD.schema.__arrow_c_schema__()
JUNK = [None, 5, "capsule", object(), (), (1,), (1, 2), (SCHEMA_CAPSULE,) * 2, SCHEMA_CAPSULE]


@pytest.mark.parametrize("given", JUNK, ids=range(len(JUNK)))
@pytest.mark.parametrize("method", ["__arrow_c_stream__", "__arrow_c_array__"])
def test_junk_instead_of_capsules(method, given):
    with pytest.raises((SchemaError, TypeError), match=rf"^left: {method}\(\) returned "):
        interval_join(Gives(method, given), GOOD, on="ts", lower=0, upper=0)


@pytest.mark.parametrize("given", [None, 5, GOOD.__arrow_c_stream__()], ids=["none", "5", "stream"])
def test_junk_instead_of_a_schema(given):
    text = r"^schema: __arrow_c_schema__\(\) returned "
    with pytest.raises((SchemaError, TypeError), match=text):
        Merge(Gives("__arrow_c_schema__", given))


def test_what_pyarrow_raises_is_the_cause():
    class Refusing:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            message = "no rows today"
            raise pa.ArrowInvalid(message)

    with pytest.raises(
        SchemaError, match=r"left: .*Refusing.* returned no Arrow data: no rows"
    ) as caught:
        interval_join(Refusing(), GOOD, on="ts", lower=0, upper=0)
    assert isinstance(caught.value.__cause__, pa.ArrowInvalid)

"""Digests: differences that they detect or ignore, and values that never change."""

import itertools
import random
import re
import signal
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from typer.testing import CliRunner

import tidegate as tg
from tidegate.cli.app import app

ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-2, 2),
        st.none() | st.sampled_from([0.0, -0.0, float("nan"), 1.5]),
        st.none() | st.text("ab", max_size=3),
    ),
    max_size=30,
)


def table(rows: list[tuple[int | None, float | None, str | None]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = [pa.int64(), pa.float64(), pa.string()]
    arrays = [pa.array(column, of) for column, of in zip(columns, types, strict=True)]
    return pa.table(dict(zip("nxt", arrays, strict=True)))


def both(data: Any) -> tuple[str, str]:
    return tg.digest(data), tg.digest(data, ordered=False)


def example() -> pa.Table:
    return table([(1, 0.5, "one"), (None, None, None), (-3, float("nan"), ""), (1, 0.5, "one")])


def test_digests_are_kept_for_ever():
    """A change here invalidates all digests that users have kept."""
    assert both(example()) == (
        "292a638fdcc389dc555944267166cdb8",
        "c9404f48a0244367807f3d9e71f6b348",
    )
    assert both(pa.table({})) == (
        "c9e16cc76eec778553b9fb8bd2d36b8b",
        "409db3e3c65b6d85c2c53597ddaab52c",
    )


@given(ROWS, st.lists(st.integers(0, 30), max_size=4), st.integers(1, 4))
def test_cuts_threads_and_layouts_do_not_show(rows, cuts, threads):
    whole = table(rows)
    ends = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [whole.slice(start, end - start) for start, end in itertools.pairwise(ends)]
    digest = tg.Digest(whole.schema)
    for part in parts:
        digest.update(part, threads=threads)
    assert (digest.ordered, digest.unordered, digest.rows) == (*both(whole), len(rows))
    other = pa.schema({"n": pa.int8(), "x": pa.float64(), "t": pa.large_string()})
    again = pa.concat_tables(parts).cast(other) if parts else whole
    again = again.set_column(2, "t", again["t"].combine_chunks().dictionary_encode())
    assert both(again) == both(whole)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_shows_in_one_of_both(rows, rng):
    mixed = [*rows]
    rng.shuffle(mixed)
    ordered, unordered = both(table(rows))
    is_same = [str(row) for row in map(canonical, rows)] == [
        str(row) for row in map(canonical, mixed)
    ]
    assert (tg.digest(table(mixed)) == ordered) == is_same
    assert tg.digest(table(mixed), ordered=False) == unordered


def canonical(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the row with the zero and the string that represent all equal values."""
    number, value, text = row
    return number, 0.0 if value == 0 else value, text


@given(ROWS, ROWS)
def test_different_rows_have_different_digests(rows, others):
    seen = sorted(str(canonical(row)) for row in rows)
    is_same = seen == sorted(str(canonical(row)) for row in others)
    same = tg.digest(table(rows), ordered=False) == tg.digest(table(others), ordered=False)
    assert same == is_same


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0]),
        pa.array(["1"]),
        pa.array([b"1"]),
        pa.array([True]),
        pa.array([Decimal(1)]),
        pa.array([1], pa.timestamp("s")),
        pa.array([1], pa.timestamp("s", "UTC")),
        pa.array([1], pa.date32()),
        pa.array([1], pa.duration("s")),
        pa.array([1], pa.time32("s")),
        pa.array([None], pa.int64()),
        pa.array([None], pa.null()),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([-1]),
    ],
    ids=lambda values: f"{values.type} {values[0]}",
)
def test_other_values_and_types_show(values):
    seen = {tg.digest(pa.table({"x": array})) for array in [pa.array([1]), values]}
    assert len(seen) == 2


def test_names_of_columns_and_their_order_show():
    rows = pa.table({"a": [1], "b": [1]})
    others = [rows.rename_columns(["b", "a"]), rows.rename_columns(["a", "c"]), rows.select(["a"])]
    assert len({tg.digest(one) for one in [rows, *others]}) == 4
    assert tg.digest(rows.replace_schema_metadata({"k": "v"})) == tg.digest(rows)


def test_rows_of_other_columns_are_refused_whole():
    digest = tg.Digest(pa.schema({"x": pa.int64()}))
    digest.update({"x": [1]})
    before = repr(digest)
    refused = (
        "column 0: expected `x` of kind integer, as in the previous rows, found `x` of kind string"
    )
    with pytest.raises(tg.SchemaError, match=re.escape(refused)):
        digest.update({"x": ["1"]})
    with pytest.raises(tg.SchemaError, match="column 1: expected no column"):
        digest.update({"x": [1], "y": [1]})
    with pytest.raises(tg.SchemaError, match="found no column"):
        digest.update(pa.table({}))
    with pytest.raises(TypeError, match="data"):
        digest.update(7)
    with pytest.raises(tg.TidegateError, match="threads must be from 1 to 512, got 0"):
        digest.update({"x": [1]}, threads=0)
    assert repr(digest) == before

    message = "the feed broke"

    def failing():
        yield pa.record_batch({"x": [1]})
        raise ValueError(message)

    broken = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), failing())
    with pytest.raises(tg.TidegateError, match=message):
        digest.update(broken)
    assert repr(digest) == before


def test_files_of_any_format_have_one_digest(tmp_path: Path):
    rows = pa.table({"ts": [1, 2, 3], "name": ["a", None, "c"]})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=1)
    with pa.ipc.new_stream(tmp_path / "rows.arrows", rows.schema) as stream:
        stream.write_table(rows)
    assert tg.digest(tmp_path / "rows.parquet") == tg.digest(rows)
    assert tg.digest(tmp_path / "rows.arrows") == tg.digest(rows)

    names = [str(tmp_path / "rows.parquet"), str(tmp_path / "rows.arrows")]
    result = CliRunner().invoke(app, ["digest", *names])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [f"{tg.digest(rows)}  {name}" for name in names]
    result = CliRunner().invoke(app, ["digest", "--unordered", names[0]])
    assert result.stdout == f"{tg.digest(rows, ordered=False)}  {names[0]}\n"
    result = CliRunner().invoke(app, ["digest", str(tmp_path / "none.parquet")])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "none.parquet" in result.stderr


def test_ctrl_c_ends_the_wait_for_a_stream():
    entered, over = threading.Event(), threading.Event()

    def waiting():
        entered.set()
        over.wait(60)
        yield from ()

    stream = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), waiting())

    def interrupt():
        entered.wait(60)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            tg.digest(stream)
    finally:
        over.set()
        thread.join(60)
    assert not thread.is_alive()


def quotes() -> pa.Table:
    rng = random.Random(4)  # noqa: S311 - not for secrets
    return pa.table(
        {
            "ts": sorted(rng.randrange(500) for _ in range(900)),
            "k": [rng.randrange(5) for _ in range(900)],
        }
    )


OPERATORS = {
    "merge": lambda **also: tg.Merge(quotes().schema, **also),
    "aggregate": lambda **also: tg.Aggregate(
        quotes().schema, on="ts", size=10, by="k", aggs={"n": tg.agg.count()}, **also
    ),
    "interval": lambda **also: tg.IntervalJoin(
        quotes().schema, quotes().schema, on="ts", by="k", lower=-9, upper=0, **also
    ),
    "window": lambda **also: tg.WindowJoin(
        quotes().schema, quotes().schema, on="ts", by="k", window=3, **also
    ),
    "band": lambda **also: tg.BandJoin(
        quotes().schema, quotes().schema, on="k", within=0, time="ts", window=3, **also
    ),
    "asof": lambda **also: tg.AsofJoin(
        quotes().schema, quotes().schema, on="ts", by="k", strategy="backward", **also
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("threads", [1, 3])
def test_an_operator_tells_the_digest_of_its_results(name, threads):
    operator = OPERATORS[name](threads=threads, digest=True)
    rows, polled = quotes(), []
    nothing = operator.digest()
    for start in range(0, 900, 150):
        for source in operator.sources:
            source.push(rows.slice(start, 150))
        polled += iter(operator.poll, None)
        so_far = pa.Table.from_batches(polled, operator.schema)
        assert operator.digest().ordered == tg.digest(so_far)
        if start == 450:
            snapshot = operator.snapshot()
            operator = OPERATORS[name](threads=4 - threads, digest=True)
            operator.restore(snapshot)
    for source in operator.sources:
        source.close()
    polled += operator
    whole = pa.Table.from_batches(polled, operator.schema)
    assert whole.num_rows > 100
    digest = operator.digest()
    assert (digest.ordered, digest.unordered, digest.rows) == (*both(whole), whole.num_rows)
    assert nothing.rows == 0


def test_a_batch_that_did_not_arrive_does_not_count():
    merge = tg.Merge(quotes().schema, digest=True)
    merge.sources[0].push(quotes())
    merge.sources[0].close()
    first = merge.poll()
    merge._take_back(first)
    assert merge.digest().rows == 0
    assert merge.digest().ordered == tg.digest(quotes().slice(0, 0))
    assert pa.Table.from_batches(merge).num_rows == 900
    assert merge.digest().ordered == tg.digest(quotes())


def test_readers_of_a_merge_count_once():
    merge = tg.Merge(quotes().schema, digest=True)
    readers = [merge.reader(), merge.reader()]
    merge.sources[0].push(quotes())
    merge.sources[0].close()
    assert [sum(batch.num_rows for batch in reader) for reader in readers] == [900, 900]
    assert merge.digest().ordered == tg.digest(quotes())


def test_a_digest_is_asked_for_beforehand():
    merge = tg.Merge(quotes().schema)
    with pytest.raises(
        tg.TidegateError, match=r"this merge does not compute .*create it with digest=True"
    ):
        merge.digest()
    with_digest = tg.Merge(quotes().schema, digest=True)
    with pytest.raises(
        tg.StateError, match=r"has no digest of its results, but .* computes one.*digest=False"
    ):
        with_digest.restore(merge.snapshot())
    with pytest.raises(
        tg.StateError,
        match=r"has a digest of its results, but .* does not compute one.*digest=True",
    ):
        merge.restore(with_digest.snapshot())


def test_updates_of_threads_all_count():
    digest = tg.Digest(quotes().schema)

    def update():
        for start in range(0, 900, 30):
            digest.update(quotes().slice(start, 30))

    threads = [threading.Thread(target=update) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert digest.rows == 3600
    assert digest.unordered == tg.digest(pa.concat_tables([quotes()] * 4), ordered=False)

"""`join_all` returns the result of nested calls, without building intermediate results."""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from tidegate.calls import steps as steps_module

Joined = tuple[Callable[..., pa.Table], pa.Table, dict[str, Any]]

HOWS = ["inner"] * 5 + ["left", "semi", "anti", "right", "full"]


def table(rng: random.Random, number: int, rows: int) -> pa.Table:
    """Return random rows; the names of some columns are the same in all tables."""
    times = [rng.randrange(15) for _ in range(rows)]
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "end": pa.array([ts + rng.randrange(5) for ts in times], pa.int64()),
            "k": pa.array([rng.choice([None, 0, 1, 2]) for _ in times], pa.int64()),
            f"x{number}": pa.array([rng.choice([None, *range(9)]) for _ in times], pa.int64()),
            f"s{number}": pa.array(
                [rng.choice("abc") for _ in times], pa.dictionary(pa.int32(), pa.string())
            ),
            "v": pa.array([rng.gauss(0, 1e3) for _ in times], pa.float64()),
        }
    )


def times_of(rows: pa.Table) -> list[str]:
    """Return the time columns without nulls, which a step can use."""
    kinds = zip(rows.column_names, rows.schema.types, strict=True)
    names = [name for name, kind in kinds if name.startswith("ts") and kind == pa.int64()]
    return [name for name in names if rows[name].null_count == 0]


def step(rng: random.Random, number: int, left: pa.Table, right: pa.Table) -> Joined:
    """Return a random join of the result so far with another table."""
    names = [one.name for one in left.schema if one.type == pa.int64()]
    on = rng.choice(times_of(left)[-2:]), "ts"
    keys = [name for name in names if name.startswith("k")]
    by = [(rng.choice(keys), "k")] if keys and rng.random() < 0.8 else None
    numbers = [name for name in names if name.startswith("x")]
    where = rng.choice([None, None, f"right.x{number} > 3"])
    if numbers and rng.random() < 0.3:
        where = f"left.{rng.choice(numbers)} < right.x{number}"
    asked: dict[str, Any] = {"by": by, "where": where, "suffix": f"_{number}"}
    kind = rng.choice(["interval", "interval", "asof", "overlap", "band", "window", "aggs"])
    how = rng.choice(HOWS)
    if kind == "asof":
        strategy = rng.choice(["backward", "forward", "nearest"])
        how = how if how in ("inner", "left", "semi", "anti") else "left"
        asked |= {"on": on, "how": how, "strategy": strategy, "tolerance": rng.choice([None, 4])}
        if how in ("inner", "left"):
            more: list[dict[str, Any]] = [{}, {}, {"n": 2}, {"at": [0, -3], "long": True}]
            asked |= rng.choice(more)
        return tg.asof_join, right, asked
    if kind == "overlap":
        return tg.overlap_join, right, asked | {"on": ((on[0], on[0]), ("ts", "end")), "how": how}
    if kind == "band":
        return tg.band_join, right, asked | {"on": [on], "within": 3, "how": how}
    if kind == "window":
        window = rng.choice([3, tg.rows(4)])
        return tg.window_join, right, asked | {"on": on, "window": window, "how": how}
    asked |= {"on": on, "lower": -4, "upper": rng.choice([0, 2])}
    if kind == "aggs":
        aggs = {f"n{number}": tg.agg.count(), f"sum{number}": tg.agg.sum("v")}
        asked |= {"aggs": aggs, "how": rng.choice(["left", "inner"])}
        return tg.interval_join, right, asked | {"prevailing": rng.random() < 0.3}
    if how in ("inner", "left") and rng.random() < 0.3:
        asked |= {"limit": 1, "order": rng.choice(["first", "last"])}
    return tg.interval_join, right, asked | {"how": how}


@pytest.mark.parametrize("seed", range(campaign.tries(40)))
def test_oracle_the_result_is_that_of_nested_calls(seed, monkeypatch):
    rng = campaign.rng(f"join_all {seed}")
    monkeypatch.setattr(
        steps_module, "BLOCK_ROWS", rng.choice([(2, 3), (7, 7), (1 << 20, 1 << 24)])
    )
    monkeypatch.setattr(steps_module, "SAMPLE_ROWS", rng.choice([1, 1 << 13]))
    first = table(rng, 0, rng.randrange(16))
    wanted, steps = first, []
    for number in range(1, rng.randint(3, 4)):
        function, right, asked = step(rng, number, wanted, table(rng, number, rng.randrange(16)))
        names = function(wanted[:0], right[:0], **asked).column_names
        if rng.random() < 0.3:
            kept = {*rng.sample(names, rng.randint(1, len(names)))}
            kept |= {name for name in names if name.startswith("ts")}
            kept -= {*asked.get("aggs", ())}
            asked["columns"] = [name for name in names if name in kept]
        wanted = function(wanted, right, **asked)
        steps.append(tg.Step(function, right, **asked))
        if not times_of(wanted):
            break
    found = tg.join_all(first, *steps, threads=rng.choice([1, 2]))
    assert found.schema == wanted.schema
    assert [repr(row) for row in found.to_pylist()] == [repr(row) for row in wanted.to_pylist()]
    with tg.join_all_batches(first, *steps) as reader:
        batches = [repr(row) for batch in reader for row in batch.to_pylist()]
    assert batches == [repr(row) for row in wanted.to_pylist()]
    assert tg.explain(tg.join_all, first, *steps).startswith(f"join_all of {len(steps) + 1} tables")


TRADES = pa.table({"ts": range(1000), "sym": ["A", "B"] * 500, "price": range(1000)})
QUOTES = pa.table({"ts": range(0, 2000, 2), "sym": ["A", "B"] * 500, "bid": range(1000)})
NEWS = pa.table({"at": [500, 10_000], "sym": ["A", "A"], "text": ["up", "down"]})


def nested(columns: list[str] | None = None) -> tuple[list[tg.Step], pa.Table]:
    pairs = {"on": "ts", "by": "sym", "lower": -400, "upper": 0}
    last = {"on": ("ts_right", "at"), "by": "sym", "lower": -2, "upper": 2, "columns": columns}
    steps = [tg.Step(tg.interval_join, QUOTES, **pairs), tg.Step(tg.interval_join, NEWS, **last)]
    middle = tg.interval_join(TRADES, QUOTES, **pairs)
    return steps, tg.interval_join(middle, NEWS, **last)


def test_rows_that_a_later_step_drops_are_never_joined(monkeypatch):
    steps, wanted = nested()
    rows = []
    joined = steps_module._Run._joined

    def counted(run: Any, number: int, *given: Any) -> Any:
        for block in joined(run, number, *given):
            rows.append((number, 0 if block is None else block.num_rows))
            yield block

    monkeypatch.setattr(steps_module._Run, "_joined", counted)
    found = tg.join_all(TRADES, *steps)
    assert found.equals(wanted)
    # The first step alone would return 100,000 pairs.
    assert sum(count for number, count in rows if number == 1) == found.num_rows == 201


def test_the_partner_of_an_as_of_join_is_not_chosen_among_fewer_rows():
    times = {"first": [10], "second": [5, 8], "third": [5]}
    first, second, third = (
        pa.table({"ts": pa.array(one), name: one}) for name, one in times.items()
    )
    for function, more, found in [
        (tg.asof_join, {}, []),
        (tg.asof_join, {"how": "inner"}, []),
        (tg.interval_join, {"lower": -9, "upper": 0}, [5]),
        (tg.interval_join, {"lower": -9, "upper": 0, "aggs": {"ts_right": tg.agg.max("ts")}}, []),
    ]:
        steps = [
            tg.Step(function, second, on="ts", **more),
            tg.Step(tg.interval_join, third, on=("ts_right", "ts"), lower=0, upper=0, suffix="_3"),
        ]
        assert tg.join_all(first, *steps)["ts_right"].to_pylist() == found


def test_inputs_of_all_kinds(tmp_path):
    steps, wanted = nested(["price", "bid", "text"])
    pq.write_table(QUOTES, tmp_path / "quotes.parquet")
    arguments = {"on": "ts", "by": "sym", "lower": -400, "upper": 0}
    of_file = tg.Step(tg.interval_join, tmp_path / "quotes.parquet", **arguments)
    assert tg.join_all(TRADES.to_pandas(), of_file, steps[1]).equals(wanted)
    polars = pytest.importorskip("polars")
    found = tg.join_all(polars.from_arrow(TRADES), of_file, steps[1])
    assert found.to_pylist() == wanted.to_pylist()
    with tg.join_all_batches(TRADES.to_reader(), of_file, steps[1]) as reader:
        assert pa.table(reader).equals(wanted)


def test_only_the_columns_that_are_used_are_read_from_files(tmp_path):
    steps, wanted = nested(["price", "text"])
    damaged = tmp_path / "trades.parquet"
    pq.write_table(TRADES.append_column("unused", pa.array(["x" * 9] * 1000)), damaged)
    footer = pq.ParquetFile(damaged).metadata.row_group(0).column(3)
    rows = bytearray(damaged.read_bytes())
    end = footer.dictionary_page_offset + footer.total_compressed_size
    rows[footer.dictionary_page_offset : end] = bytes(footer.total_compressed_size)
    damaged.write_bytes(rows)
    assert tg.join_all(damaged, *steps).equals(wanted)
    with pytest.raises(tg.TidegateError, match=r"trades\.parquet"):
        tg.join_all(damaged, steps[0])


def test_explain_shows_the_steps_and_the_rows_that_are_removed():
    steps, _ = nested()
    lines = tg.explain(tg.join_all, TRADES, *steps).splitlines()
    assert lines[:4] == [
        "join_all of 3 tables",
        "  step 1     interval_join (inner), time right.ts - left.ts in [-400, 0] integer",
        "  step 2     interval_join (inner), time right.at - left.ts_right in [-2, 2] integer",
        "  reduction  rows of the table of step 1 that have no partner in step 2",
    ]


def test_a_condition_that_fails_only_for_rows_that_are_never_joined_is_no_error():
    left = pa.table({"ts": [1, 2], "x": [1, 1]})
    right = pa.table({"ts": [1, 50], "y": [1, 0]})
    other = pa.table({"ts": [1, 50], "z": [5, 5]})
    steps = [
        tg.Step(tg.interval_join, right, on="ts", lower=0, upper=0),
        tg.Step(
            tg.interval_join, other, on=("ts_right", "ts"), lower=0, upper=0, suffix="_other",
            where="right.z / left.y > 1", columns=["x", "z"],
        ),
    ]  # fmt: skip
    assert tg.join_all(left, *steps).to_pylist() == [{"x": 1, "z": 5}]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tg.join_all(TRADES), TypeError, "join_all: expected at least one step"),
        (lambda: tg.join_all(TRADES, QUOTES), TypeError, "step 1: expected a tidegate.Step, got"),
        (lambda: tg.Step(tg.aggregate, QUOTES), TypeError, "function: expected one of asof_join, "),
        (
            lambda: tg.Step(tg.asof_join, QUOTES, on="ts", threads=2),
            TypeError,
            "threads: this applies to all steps together; give threads to join_all",
        ),
        (
            lambda: tg.Step(tg.asof_join, QUOTES, on="ts", memory_limit="1GB"),
            TypeError,
            "memory_limit: this applies to all steps together; leave it out",
        ),
        (
            lambda: tg.Step(tg.asof_join, QUOTES, on="ts", unit="s"),
            TypeError,
            "unit: a step compares the times of tables as they are; convert",
        ),
        (
            lambda: tg.Step(tg.asof_join, tg.Index(QUOTES, on="ts"), on="ts"),
            TypeError,
            "right: .*an index; give the table itself",
        ),
        (
            lambda: tg.join_all(TRADES, tg.Step(tg.asof_join, QUOTES, on=("ts", "time"))),
            tg.SchemaError,
            "^step 1: right: there is no column `time`, which `on` names",
        ),
        (
            lambda: tg.join_all(TRADES, nested()[0][0], threads=0),
            tg.TidegateError,
            "threads must be from 1 to 512, got 0",
        ),
        (
            lambda: tg.join_all(TRADES, nested()[0][0], max_rows=10),
            tg.MemoryLimitError,
            "the result has at least .* rows, more than max_rows = 10",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_step_and_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_spark_frames_are_refused_with_the_calls_to_make():
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()
    instead = "call the function of each step in tidegate.spark, one after the other"
    with pytest.raises(TypeError, match=f"^left: a Spark DataFrame would be .*{instead}$"):
        tg.join_all(frame, nested()[0][0])
    with pytest.raises(TypeError, match=f"^right: a Spark DataFrame would be .*{instead}$"):
        tg.Step(tg.asof_join, frame, on="ts")


def test_a_stream_is_read_only_once():
    stream = TRADES.to_reader()
    with pytest.raises(tg.ClosedError, match=r"^left and step 1: right are the same stream, which"):
        tg.join_all(stream, tg.Step(tg.asof_join, stream, on="ts"))

"""Features of labels: the same values as a loop over labels and events."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
import tidegate.pandas
import tidegate.polars
from tidegate import ClosedError, FeatureView, SchemaError, TidegateError, agg, left, right

Row = dict[str, Any]

# Aggregates with the function of a list of events that computes the same value.
FUNCTIONS: list[
    tuple[Callable[..., agg.Aggregate], tuple[str, ...], Callable[[list[Row]], Any]]
] = [
    (agg.count, (), len),
    (agg.sum, ("v",), lambda rows: sum(row["v"] for row in rows) if rows else None),
    (agg.max, ("v",), lambda rows: max((row["v"] for row in rows), default=None)),
    (agg.last, ("v",), lambda rows: rows[-1]["v"] if rows else None),
    (agg.collect, ("v",), lambda rows: [row["v"] for row in rows] or None),
]
# Conditions on a label and an event.
CONDITIONS: list[tuple[Any, Callable[[Row, Row], bool]]] = [
    (None, lambda _label, _event: True),
    ("right.v > 3", lambda _label, event: event["v"] > 3),
    (left.size < right.v, lambda label, event: label["size"] < event["v"]),
]
INTERVALS: list[dict[str, Any]] = [
    {},
    {"lower": -9},
    {"lower": -40, "upper": -6},
    {"lower": -15, "closed": "left"},
    {"lower": -15, "upper": -15, "closed": "both"},
    {"lower": -12, "upper": 0, "closed": "neither"},
    {"upper": -4, "closed": "left"},
    {"lower": -3, "upper": 5, "closed": "right"},
    {"lower": -2, "upper": None},
]


def rows(chance: random.Random, count: int, *, in_order: bool = False) -> pa.Table:
    times = [chance.randrange(100) for _ in range(count)]
    return pa.table(
        {
            "ts": pa.array(sorted(times) if in_order else times, pa.int64()),
            "k": pa.array([chance.choice([0, 1, None]) for _ in range(count)], pa.int64()),
            "size": pa.array([chance.randrange(9) for _ in range(count)], pa.int64()),
            "v": pa.array([chance.randrange(9) for _ in range(count)], pa.int64()),
            "delay": pa.array([chance.choice([0, 2, 7, None]) for _ in range(count)], pa.int64()),
            "seen": pa.array([chance.choice([None, *range(0, 120, 5)]) for _ in range(count)]),
        }
    )


def is_valid(interval: Row) -> bool:
    lower, upper = interval.get("lower"), interval.get("upper", 0)
    return lower is None or upper is None or lower <= upper


def is_within(distance: int, interval: Row) -> bool:
    lower, upper = interval.get("lower"), interval.get("upper", 0)
    closed = interval.get("closed", "both")
    after = lower is None or distance > lower or (distance == lower and closed in {"both", "left"})
    before = (
        upper is None or distance < upper or (distance == upper and closed in {"both", "right"})
    )
    return after and before


def is_known(label: Row, event: Row, known: Row) -> bool:
    if known.get("available_at") is not None:
        return event["seen"] is not None and event["seen"] <= label["ts"]
    delay = known.get("available_after")
    if delay is not None and not isinstance(delay, int):
        delay = event["delay"]
        if delay is None:
            return False
    return delay is None or event["ts"] + delay <= label["ts"]


KNOWN: list[Row] = [
    {},
    {"available_after": 0},
    {"available_after": 8},
    {"available_after": 20},
    {"available_after": right.delay},
    {"available_at": "seen"},
]


def drawn_view(
    chance: random.Random, name: str, *, is_in_order: bool, conditions: int, known: int
) -> tuple[FeatureView, Callable[[Row], Row]]:
    """Return a view, and the function that computes its features for a label."""
    events = rows(chance, chance.choice([0, 60]), in_order=is_in_order)
    interval, when = chance.choice(INTERVALS), chance.choice(KNOWN[:known])
    where, holds = chance.choice(CONDITIONS[:conditions])
    aggs, values = {}, {}
    for number in range(chance.randrange(3)):
        make, arguments, value = chance.choice(FUNCTIONS)
        own = chance.choice([{}, *(one for one in INTERVALS if is_valid({**interval, **one}))])
        aggs[f"f{number}"] = make(*arguments, **own)
        values[f"{name}_f{number}"] = ({**interval, **own}, value)
    columns = ["v", "delay"] if not aggs or chance.random() < 0.5 else []
    for column in columns:
        last = lambda found, column=column: found[-1][column] if found else None  # noqa: E731
        values[f"{name}_{column}"] = (interval, last)
    by = chance.choice([None, {"k": "k"}, ["k"]])
    ordered = sorted(enumerate(events.to_pylist()), key=lambda one: (one[1]["ts"], one[0]))

    def features(label: Row) -> Row:
        matching = [
            event
            for _, event in ordered
            if label["k"] is not None
            and label["k"] == event["k"]
            and holds(label, event)
            and is_known(label, event, when)
        ]
        return {
            feature: value(
                [event for event in matching if is_within(event["ts"] - label["ts"], own)]
            )
            for feature, (own, value) in values.items()
        }

    view = FeatureView(
        events, aggs=aggs, columns=columns or None, by=by, where=where, **interval, **when
    )
    return view, features


def drawn(
    chance: random.Random, *, is_in_order: bool = False, conditions: int = 3, known: int = 6
) -> tuple[pa.Table, dict[str, FeatureView], list[Row]]:
    """Return labels, views, and the expected rows."""
    labels = rows(chance, 25, in_order=is_in_order)
    views, expected = {}, labels.to_pylist()
    for name in ("a", "b", "c")[: chance.randrange(1, 4)]:
        view, features = drawn_view(
            chance, name, is_in_order=is_in_order, conditions=conditions, known=known
        )
        views[name] = view
        for label in expected:
            label.update(features(label))
    return labels, views, expected


@pytest.mark.parametrize("seed", range(campaign.tries(60)))
def test_oracle_a_loop(seed: int) -> None:
    chance = campaign.rng(f"features {seed}")
    labels, views, expected = drawn(chance)
    made = tg.features(labels, views, on="ts", by="k", threads=chance.choice([1, 3]))
    assert made.to_pylist() == expected


@pytest.mark.parametrize("seed", range(campaign.tries(20)))
def test_with_a_memory_limit_the_rows_are_the_same_in_time_order(seed: int, tmp_path: Path) -> None:
    chance = campaign.rng(f"features in batches {seed}")
    labels, views, expected = drawn(chance)
    if chance.random() < 0.5:
        pq.write_table(labels, tmp_path / "labels.parquet")
        labels = tmp_path / "labels.parquet"
    options = {"on": "ts", "by": "k", "memory_limit": "1GB"}
    with tg.features_batches(labels, views, **options) as reader:
        made = pa.Table.from_batches(list(reader), reader.schema)
    assert made.to_pylist() == sorted(expected, key=lambda label: label["ts"])
    assert tg.features(labels, views, **options).equals(made)


@pytest.mark.parametrize("seed", range(campaign.tries(40)))
def test_an_operator_returns_the_same_rows(seed: int) -> None:
    chance = campaign.rng(f"features of streams {seed}")
    labels, views, expected = drawn(chance, is_in_order=True)
    schemas = {name: replace(view, table=view.table.schema) for name, view in views.items()}
    arguments = {"on": "ts", "by": "k", "threads": chance.choice([1, 2])}
    ends = [
        dict(function.interval).get("upper", view.upper)
        for view in views.values()
        if not isinstance(view.available_after, int)
        for function in [
            *(view.aggs or {}).values(),
            *(agg.last(one) for one in view.columns or ()),
        ]
    ]
    if None in ends:
        with pytest.raises(TidegateError, match=r"views\['.'\]: upper: .* only at the end"):
            tg.Features(labels.schema, schemas, **arguments)
        return
    operator = tg.Features(labels.schema, schemas, **arguments)
    found: list[Row] = []
    inputs = {"labels": labels, **{name: view.table for name, view in views.items()}}
    pieces = [
        (name, rows.slice(start, 7))
        for name, rows in inputs.items()
        for start in range(0, len(rows), 7)
    ]
    while pieces:
        # The next rows of a random input.
        name = chance.choice(sorted({name for name, _ in pieces}))
        piece = next(one for one in pieces if one[0] == name)
        pieces.remove(piece)
        source = operator.labels if name == "labels" else operator.views[name]
        source.push(piece[1])
        if chance.random() < 0.3:
            found += polled(operator)
        if chance.random() < 0.1:
            saved = operator.snapshot()
            operator = tg.Features(labels.schema, schemas, **arguments)
            operator.restore(saved)
    for source in (operator.labels, *operator.views.values()):
        source.close()
    found += polled(operator)
    assert found == expected


def polled(operator: tg.Features) -> list[Row]:
    found: list[Row] = []
    while (batch := operator.poll()) is not None:
        found += batch.to_pylist()
    return found


SECOND = 1_000_000
LABELS = pa.table({"at": pa.array([60, 120], pa.timestamp("s")), "user": ["u", "u"], "y": [0, 1]})
CLICKS = pa.table(
    {
        "time": pa.array([10 * SECOND, 59 * SECOND, 90 * SECOND], pa.timestamp("us")),
        "name": ["u", "u", "u"],
        "price": [1.0, 2.0, 3.0],
        "delay": pa.array([0, 2, 5], pa.duration("s")),
        "seen": pa.array([10, 70, None], pa.timestamp("s")),
    }
)
CALL: dict[str, Any] = {"on": "at", "by": "user"}


@pytest.mark.parametrize(
    ("known", "counts", "prices"),
    [
        ({}, [2, 2], [2.0, 3.0]),
        ({"available_after": "1s"}, [2, 2], [2.0, 3.0]),
        ({"available_after": timedelta(seconds=2)}, [1, 2], [1.0, 3.0]),
        ({"available_after": pd.Timedelta(seconds=40)}, [1, 1], [1.0, 2.0]),
        ({"available_after": pd.offsets.Second(40)}, [1, 1], [1.0, 2.0]),
        ({"available_after": right.delay}, [1, 2], [1.0, 3.0]),
        ({"available_at": "seen"}, [1, 1], [1.0, 2.0]),
        ({"available_at": "seen", "upper": "0s"}, [1, 1], [1.0, 2.0]),
        ({"available_at": "seen", "upper": timedelta()}, [1, 1], [1.0, 2.0]),
    ],
)
def test_delays_of_timestamps(known: Row, counts: list[int], prices: list[float]) -> None:
    view = FeatureView(
        CLICKS,
        on="time",
        by="name",
        aggs={"n": agg.count(lower="-70s")},
        columns=["price"],
        **known,
    )
    made = tg.features(LABELS, {"clicks": view}, **CALL)
    assert made.column_names == ["at", "user", "y", "clicks_n", "clicks_price"]
    assert made["clicks_n"].to_pylist() == counts
    assert made["clicks_price"].to_pylist() == prices


def test_inputs_of_any_kind(tmp_path: Path) -> None:
    view = FeatureView(CLICKS, on="time", by="name", columns=["price"])
    expected = tg.features(LABELS, {"clicks": view}, **CALL)
    pq.write_table(CLICKS, tmp_path / "clicks.parquet")
    index = tg.Index(CLICKS, on="time", by="name")
    for table in (
        tmp_path / "clicks.parquet",
        CLICKS.to_reader(),
        CLICKS.to_pandas(),
        pl.DataFrame(CLICKS).lazy(),
        index,
    ):
        made = tg.features(LABELS, {"clicks": replace(view, table=table)}, **CALL)
        assert made.equals(expected)
    unnamed = FeatureView(index, columns=["price"], available_after="0s")
    assert tg.features(LABELS, {"clicks": unnamed}, **CALL).equals(expected)
    for labels in (LABELS.to_reader(), pl.DataFrame(LABELS)):
        made = tg.features(labels, {"clicks": view}, **CALL)
        assert made.select(expected.column_names).to_pylist() == expected.to_pylist()
    frame = LABELS.to_pandas()
    of_frame = frame.tidegate.features({"clicks": view}, **CALL)
    assert of_frame["clicks_price"].tolist() == [2.0, 3.0]
    assert of_frame.index.equals(frame.index)
    of_polars = pl.DataFrame(LABELS).tidegate.features({"clicks": view}, **CALL)
    assert of_polars["clicks_price"].to_list() == [2.0, 3.0]


def test_options() -> None:
    view = FeatureView(CLICKS, on="time", by={"user": "name"}, columns=["price"])
    made = tg.features(LABELS, {"c": view}, on="at", columns=["y"], names="{name}.{view}")
    assert made.column_names == ["y", "price.c"]
    for call in ({}, {"by": "user"}):
        no_keys = FeatureView(CLICKS, on="time", by=[], aggs={"n": agg.count()})
        assert tg.features(LABELS, {"c": no_keys}, on="at", **call)["c_n"].to_pylist() == [2, 3]
    computed = FeatureView(CLICKS, on="time", by=tg.row.name.lower(), columns=["price"])
    made = tg.features(LABELS, {"c": computed}, on="at", by=tg.row.user.lower())
    assert made["c_price"].to_pylist() == [2.0, 3.0]
    text = tg.explain(tg.features, LABELS, {"c": view}, on="at")
    assert "c:" in text
    assert "user = name" in text


def test_a_stream_is_read_only_once() -> None:
    view = FeatureView(CLICKS.to_reader(), on="time", by="name", columns=["price"])
    for call in (tg.features, tg.features_batches):
        with pytest.raises(ClosedError, match=r"views\['a'\] and views\['b'\] are the same stream"):
            call(LABELS, {"a": view, "b": view}, **CALL)
        labels = LABELS.to_reader()
        with pytest.raises(ClosedError, match=r"labels and views\['a'\] are the same stream"):
            call(labels, {"a": replace(view, table=labels)}, **CALL)
        with pytest.raises(TypeError, match="got Table"):
            call(labels, {"a": CLICKS}, **CALL)
        # No call has read a row.
        assert labels.read_all().equals(LABELS)
    assert tg.features(LABELS, {"a": view}, **CALL)["a_price"].to_pylist() == [2.0, 3.0]


def test_the_next_call_works_after_a_failure(tmp_path: Path) -> None:
    view = FeatureView(CLICKS, on="time", by="name", columns=["price"])
    views = {"a": view, "b": replace(view, table=tmp_path / "missing.parquet")}
    for limit in ({}, {"memory_limit": "512MB"}):
        with pytest.raises(TidegateError, match=r"views\['b'\]: .*missing.parquet"):
            tg.features_batches(LABELS, views, **CALL, **limit)
        pq.write_table(CLICKS, tmp_path / "missing.parquet")
        with tg.features_batches(LABELS, views, **CALL, **limit) as reader:
            assert [batch["b_price"].to_pylist() for batch in reader] == [[2.0, 3.0]]
        (tmp_path / "missing.parquet").unlink()


def test_numeric_times() -> None:
    labels = pa.table({"at": [60, 120], "user": ["u", "u"]})
    view = FeatureView(CLICKS, on="time", by="name", columns=["price"], available_at="seen")
    views = {"clicks": view}
    made = tg.features(labels, views, **CALL, unit="s")
    assert made["clicks_price"].to_pylist() == [1.0, 2.0]
    with tg.features_batches(labels, views, **CALL, unit="s") as reader:
        assert next(reader)["clicks_price"].to_pylist() == [1.0, 2.0]
    assert "clicks:" in tg.explain(tg.features, labels, views, **CALL, unit="s")
    with pytest.raises(TidegateError, match="unit: "):
        tg.features(labels, views, **CALL, unit="s", memory_limit="1GB")


@pytest.mark.parametrize(
    ("changes", "call", "error", "message"),
    [
        ({"columns": []}, {}, TidegateError, "a view has no values to compute; give aggs"),
        ({"columns": "price"}, {}, TypeError, r"write \['price'\]"),
        (
            {"aggs": {"n": "count"}},
            {},
            TypeError,
            "expected a function .* for 'n', got str",
        ),
        ({"aggs": [agg.count()]}, {}, TypeError, "aggs: expected a mapping"),
        ({"aggs": {"price": agg.count()}}, {}, TidegateError, "both contain 'price'"),
        (
            {"available_after": "1s", "available_at": "seen"},
            {},
            TidegateError,
            "exclude each other",
        ),
        (
            {"available_after": "-1s"},
            {},
            TidegateError,
            r"\['c'\]: .*at least zero, got '-1s'",
        ),
        (
            {"available_after": "1s", "upper": right.delay},
            {},
            TidegateError,
            "expected an interval whose ends are constants",
        ),
        ({"available_after": 5}, {}, SchemaError, r"\['c'\]: available_after is the integer"),
        ({"available_at": "sen"}, {}, SchemaError, r"views\['c'\]: .*no column `sen`"),
        ({"columns": ["prize"]}, {}, SchemaError, r"views\['c'\]: .*`prize`"),
        ({"on": tg.row.time, "available_at": "seen"}, {}, TidegateError, "need time columns"),
        (
            {"by": ["name", "price"]},
            {},
            TidegateError,
            "2 key columns, but the call.s own by has 1",
        ),
        ({}, {"names": "{view}"}, TidegateError, r"pattern with {view} and {name}"),
        ({}, {"names": "{side}_{name}"}, TidegateError, r"pattern with {view} and {name}"),
        ({}, {"columns": ["z"]}, SchemaError, "labels: there is no column `z`, which `columns`"),
        ({}, {"columns": "y"}, TypeError, r"columns: expected a list of names; write \['y'\]"),
        ({}, {"views": [CLICKS], "unit": "s"}, TypeError, "views: expected a mapping .*, got list"),
        ({}, {"views": {}}, TypeError, "views: expected a mapping .* an empty mapping"),
        (
            {},
            {"views": {"c": CLICKS}},
            TypeError,
            r"FeatureView\(...\) for 'c', got Table",
        ),
        ({}, {"names": "{name}", "view": "cd"}, TidegateError, r"views\['d'\]: .*column 'price'"),
    ],
)
def test_errors_name_the_view_and_the_way(
    changes: Row, call: Row, error: type[Exception], message: str
) -> None:
    def compute() -> None:
        view = FeatureView(CLICKS, **{"on": "time", "by": "name", "columns": ["price"], **changes})
        given = {"views": dict.fromkeys(call.get("view", "c"), view), **CALL, **call}
        given.pop("view", None)
        tg.features(LABELS, **given)

    with pytest.raises(error, match=message):
        compute()

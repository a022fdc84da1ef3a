"""Row-based windows over the rows of each key."""

import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from command_line import run
from tidegate import TidegateError, agg, aggregate

AGGS = {
    "n": agg.count(),
    "sum": agg.sum("w"),
    "mean": agg.mean("v"),
    "first": agg.first("w"),
    "median": agg.median("v"),
    "high": agg.max("v", where="w > 3"),
}
KEYS = ["a", "b", None]


def table(draw: random.Random, count: int, span: int) -> pa.Table:
    """Create rows in any order, with equal times and some null values."""
    times = [draw.randrange(span) for _ in range(count)]
    maybe = lambda value: None if draw.random() < 0.2 else value  # noqa: E731 - one line
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "k": pa.array([draw.choice(KEYS) for _ in times], pa.string()),
            "v": pa.array([maybe(draw.random()) for _ in times], pa.float64()),
            "w": pa.array([maybe(draw.randrange(9)) for _ in times], pa.int32()),
        }
    )


def expected(
    streams: list[pa.Table], size: int, advance: int, by: str | None, where: int
) -> list[dict[str, Any]]:
    """Number the rows of each key in merged order, and aggregate them window by window."""
    rows = [row for stream in streams for row in stream.to_pylist()]
    rows = sorted((row for row in rows if (row["w"] or 0) >= where), key=lambda row: row["ts"])
    of_key = defaultdict(list)
    for at, row in enumerate(rows):
        of_key[row["k"] if by else None].append((at, row))
    found = []
    for key, own in of_key.items():
        for start in range(0, len(own), advance):
            inside = own[start : start + size]
            if start and start - advance + size >= len(own):
                break
            found.append((key, inside, start))
    order = lambda one: (one[1][0][1]["ts"], one[0] is None, one[0] or "", one[2])  # noqa: E731
    return [
        result(key, [row for _, row in inside], by) for key, inside, _ in sorted(found, key=order)
    ]


def result(key: str | None, rows: list[dict[str, Any]], by: str | None) -> dict[str, Any]:
    values = sorted(row["v"] for row in rows if row["v"] is not None)
    ints = [row["w"] for row in rows if row["w"] is not None]
    high = [row["v"] for row in rows if row["v"] is not None and (row["w"] or 0) > 3]
    middle = values[(len(values) - 1) // 2 : len(values) // 2 + 1]
    return {
        "window_start": rows[0]["ts"],
        "window_end": rows[-1]["ts"],
        **({"k": key} if by else {}),
        "n": len(rows),
        "sum": sum(ints) if ints else None,
        "mean": sum(values) / len(values) if values else None,
        "first": rows[0]["w"],
        "median": sum(middle) / len(middle) if values else None,
        "high": max(high, default=None),
    }


def shape(draw: random.Random) -> dict[str, Any]:
    size = draw.randint(1, 6)
    advance = draw.choice([size, draw.randint(1, 6)])
    given = {} if advance == size else {"advance": tg.rows(advance)}
    return {"size": tg.rows(size), **given}


def test_windows_are_those_of_a_loop() -> None:
    draw = campaign.rng("windows of rows")
    for _ in range(campaign.tries(60)):
        streams = [table(draw, draw.randrange(30), 40) for _ in range(draw.randint(1, 3))]
        windows, by, where = shape(draw), draw.choice([None, "k"]), draw.choice([0, 3])
        size = windows["size"].count
        advance = windows.get("advance", windows["size"]).count
        condition = {"where": f"w >= {where}"} if where else {}
        found = aggregate(
            streams, on="ts", by=by, **windows, **condition, aggs=AGGS, threads=draw.randint(1, 4)
        )
        wanted = expected(streams, size, advance, by, where)
        assert len(found) == len(wanted)
        for row, want in zip(found.to_pylist(), wanted, strict=True):
            assert row == pytest.approx(want), (windows, by)


def test_streams_return_the_same_windows_by_their_last_rows() -> None:
    draw = campaign.rng("streams with windows of rows")
    for _ in range(campaign.tries(40)):
        given = table(draw, draw.randrange(1, 50), 40).sort_by("ts")
        query = {"on": "ts", "by": draw.choice([None, "k"]), **shape(draw), "aggs": AGGS}
        query["where"] = draw.choice([None, "w > 2"])
        operator = tg.Aggregate(given.schema, **query)
        found, at = [], 0
        while at < len(given):
            more = draw.randint(1, 9)
            operator.sources[0].push(given.slice(at, more))
            found += iter(operator.poll, None)
            at += more
            if draw.random() < 0.3:
                saved = operator.snapshot()
                operator = tg.Aggregate(given.schema, **query)
                operator.restore(saved)
                assert operator.snapshot() == saved
        complete = sum(map(len, found))
        operator.sources[0].close()
        found += iter(operator.poll, None)
        stream = pa.Table.from_batches(found, operator.schema).to_pylist()
        whole = aggregate(given, **query).to_pylist()
        every = lambda rows: sorted(map(repr, rows))  # noqa: E731 - one line
        assert every(stream) == every(whole)
        for part in (stream[:complete], stream[complete:]):
            assert [row["window_end"] for row in part] == sorted(row["window_end"] for row in part)
        assert {row["n"] for row in stream[:complete]} <= {query["size"].count}


def test_a_window_is_emitted_with_its_last_row() -> None:
    operator = tg.Aggregate(
        pa.schema({"ts": pa.int64()}), on="ts", size=tg.rows(2), aggs={"n": agg.count()}
    )
    operator.sources[0].push(pa.table({"ts": [1, 5, 9]}))
    assert operator.poll().to_pydict() == {"window_start": [1], "window_end": [5], "n": [2]}
    operator.sources[0].close()
    assert operator.poll().to_pydict() == {"window_start": [9], "window_end": [9], "n": [1]}


def test_a_long_stream_keeps_only_the_rows_of_open_windows() -> None:
    rows = 20_000
    given = pa.table({"ts": range(rows), "k": [at % 7 for at in range(rows)], "v": [0.1] * rows})
    query = {
        "on": "ts",
        "by": "k",
        "size": tg.rows(50),
        "advance": tg.rows(20),
        "aggs": {"sum": agg.sum("v")},
    }
    operator = tg.Aggregate(given.schema, **query)
    found = []
    for start in range(0, rows, 500):
        operator.sources[0].push(given.slice(start, 500))
        found += iter(operator.poll, None)
        assert operator.stats()["state_rows"] <= 2_500
    operator.sources[0].close()
    found += iter(operator.poll, None)
    stream = pa.Table.from_batches(found).sort_by([("window_start", "ascending")])
    assert stream.equals(aggregate(given, **query))


def test_files_and_the_command_return_the_same_windows(tmp_path: Any) -> None:
    given = table(campaign.rng("files"), 300, 100)
    path = tmp_path / "rows.parquet"
    pq.write_table(given, path)
    query = {"on": "ts", "by": "k", "size": tg.rows(5), "aggs": {"n": agg.count()}}
    wanted = aggregate(given, **query)
    assert aggregate(path, **query).equals(wanted)
    limited = aggregate(path, **query, memory_limit="256MB")
    names = ["window_start", "window_end", "k"]
    by_all = [(name, "ascending") for name in names]
    assert limited.sort_by(by_all).equals(wanted.sort_by(by_all))
    out = str(tmp_path / "out.parquet")
    command = ["aggregate", str(path), "--on", "ts", "--by", "k", "--size", "5rows"]
    assert run(*command, "--agg", "n=count()", "-o", out).exit_code == 0
    assert pq.read_table(out).equals(wanted)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"advance": 5}, "both be numbers of rows"),
        ({"size": 5, "advance": tg.rows(5)}, "both be numbers of rows"),
        ({"offset": 3}, "offset cannot be combined with a number of rows"),
        ({"zone": "UTC"}, "zone cannot be combined with a number of rows"),
        ({"session": 3}, "session cannot be combined with a number of rows"),
        ({"empty": "null"}, "such windows always have rows"),
        ({"algorithm": "mq"}, "row-based windows have their own algorithm"),
    ],
)
def test_wrong_arguments_are_explained(changes: dict[str, Any], words: str) -> None:
    query = {"on": "ts", "size": tg.rows(5), "aggs": {"n": agg.count()}, **changes}
    with pytest.raises(TidegateError) as caught:
        aggregate(pa.table({"ts": [1]}), **query)
    assert words in str(caught.value)

"""Functions with separate intervals: the same columns as one join for each interval."""

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from command_line import read, run
from partner_streams import SCHEMA, draw, play
from test_tasks import results
from tidegate import TidegateError, agg

BASE: dict[str, Any] = {"lower": -20, "upper": 0}
OWN: list[dict[str, Any]] = [
    {},
    {"lower": -5},
    {"lower": -50, "upper": -3, "closed": "left"},
    {"upper": 20, "closed": "neither"},
    {"lower": -7, "prevailing": True},
    {"lower": None, "upper": 4},
]
# Functions and their columns, where `i` stands for a column of integers.
FUNCTIONS: list[tuple[Any, tuple[Any, ...]]] = [
    (agg.count, ()),
    (agg.sum, ("v",)),
    (agg.mean, ("v",)),
    (agg.last, ("v",)),
    (agg.max, ("i",)),
    (agg.time_weighted_mean, ("v",)),
    (agg.median, ("v",)),
    (agg.collect, ("i",)),
    (agg.first, ("i", 2)),
    (agg.arg_max, ("v", "i")),
]
CONDITIONS = [
    None,
    "right.size > 3",
    "left.k > 1 and right.size < 7",
    "left.k + right.size > 5",  # pairs are compared
]


def side(chance: random.Random, rows: int, *, in_order: bool) -> pa.Table:
    times = [chance.randrange(300) for _ in range(rows)]
    return pa.table(
        {
            "ts": pa.array(sorted(times) if in_order else times, pa.int64()),
            "k": pa.array([chance.choice([0, 1, 2, None]) for _ in range(rows)], pa.int64()),
            "v": pa.array([chance.random() for _ in range(rows)], pa.float64()),
            "size": pa.array([chance.randrange(9) for _ in range(rows)], pa.int64()),
        }
    )


def drawn(
    chance: random.Random, integers: str
) -> tuple[dict[str, agg.Aggregate], dict[str, dict[str, Any]]]:
    """Draw functions with their own intervals, and the call with one interval for each of them."""
    functions, calls = {}, {}
    for number in range(chance.randrange(1, 6)):
        (make, arguments), own = chance.choice(FUNCTIONS), chance.choice(OWN)
        arguments = tuple(integers if one == "i" else one for one in arguments)
        functions[f"f{number}"] = make(*arguments, **own)
        calls[f"f{number}"] = {**BASE, **own, "aggs": {f"f{number}": make(*arguments)}}
    return functions, calls


@pytest.mark.parametrize("seed", range(campaign.tries(12)))
def test_oracle_one_call_for_each_interval(seed: int, tmp_path: Path) -> None:
    chance = campaign.rng(f"own intervals {seed}")
    in_order = chance.random() < 0.7
    # Intervals share passes if they contain many rows.
    sizes = (40, chance.choice([0, 150, 3000]))
    left, right = (side(chance, rows, in_order=in_order) for rows in sizes)
    functions, calls = drawn(chance, "size")
    join = {"on": "ts", "by": chance.choice([None, "k"]), "where": chance.choice(CONDITIONS)}
    options = {**join, "how": "left", "threads": chance.randrange(1, 4)}
    found = tg.interval_join(left, right, **BASE, **options, aggs=functions)
    for name, call in calls.items():
        alone = tg.interval_join(left, right, **call, **options)
        assert found[name].to_pylist() == alone[name].to_pylist(), (name, call)

    # A left row is in the inner join if it has partners in any of the intervals.
    counts = {name: agg.count(**dict(one.interval)) for name, one in functions.items()}
    counted = tg.interval_join(left, right, **BASE, **options, aggs=counts)
    kept = [any(row[name] for name in functions) for row in counted.to_pylist()]
    inner = tg.interval_join(left, right, **BASE, **{**options, "how": "inner"}, aggs=functions)
    assert inner.to_pylist() == found.filter(pa.array(kept, pa.bool_())).to_pylist()

    index = tg.Index(right, on="ts", by=join["by"])
    of_index = tg.interval_join(left, index, **BASE, **options, aggs=functions)
    assert of_index.to_pylist() == found.to_pylist()

    is_bounded = all(one.get("lower", 0) is not None for one in calls.values())
    if in_order and is_bounded:
        files = []
        for name, rows in (("left", left), ("right", right)):
            files.append(tmp_path / f"{name}.parquet")
            pq.write_table(rows, files[-1], row_group_size=max(11, len(rows) // 14))
        limited = tg.interval_join(*files, **BASE, **options, aggs=functions, memory_limit=10**9)
        assert limited.to_pylist() == found.to_pylist()
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        plan = tg.tasks(
            tg.interval_join,
            *files,
            **BASE,
            **options,
            aggs=functions,
            target=chance.choice([500, 2000]),
            scratch=scratch,
        )
        assert pa.concat_tables(results(plan)).to_pylist() == found.to_pylist()


@pytest.mark.parametrize("seed", range(campaign.tries(6)))
def test_streams_have_the_rows_of_tables(seed: int) -> None:
    rng = campaign.rng(f"streams of own intervals {seed}")
    streams = draw(rng)
    functions, _ = drawn(rng, "x")
    query = {**BASE, "on": "ts", "by": rng.choice([None, "k"]), "aggs": functions}
    query["where"] = rng.choice([None, "left.x > 0", "left.x + right.x > 0"])
    query["how"] = rng.choice(["inner", "left"])

    def make(**more: Any) -> tg.IntervalJoin:
        lateness = {"lateness": streams.lateness, "sources": streams.sources}
        return tg.IntervalJoin(SCHEMA, SCHEMA, **query, **lateness, **more)

    expected = tg.interval_join(streams.left, streams.right, **query)
    assert repr(play(make, streams, rng).to_pylist()) == repr(expected.to_pylist())


def test_a_snapshot_of_other_intervals_is_refused() -> None:
    schema = side(campaign.rng("own"), 1, in_order=True).schema
    operators = [
        tg.IntervalJoin(schema, schema, on="ts", **BASE, aggs={"n": agg.count(lower=lower)})
        for lower in (-5, -6)
    ]
    with pytest.raises(tg.StateError):
        operators[0].restore(operators[1].snapshot())


def test_the_command_reads_intervals_after_the_function(tmp_path: Path) -> None:
    at = dt.datetime(2024, 3, 1)  # noqa: DTZ001 - naive times
    minutes = [at + dt.timedelta(minutes=minute) for minute in (0, 30, 61, 90)]
    pq.write_table(pa.table({"ts": minutes, "v": [1, 2, 3, 4]}), tmp_path / "rows.parquet")
    rows, out = str(tmp_path / "rows.parquet"), str(tmp_path / "out.parquet")
    options = ["--on", "ts", "--lower", "-1h", "--upper", "0s", "--columns", "v", "-o", out]
    some = ["--agg", "n=count()", "--agg", "few=sum(v) where v > 1 over lower=-30m, closed=right"]
    more = ["--agg", "all=count() over lower=none"]
    result = run("join", rows, rows, *options, *some, *more)
    assert result.exit_code == 0, result.output
    assert [list(row.values()) for row in read(Path(out)).to_pylist()] == [
        [1, 1, None, 1],
        [2, 2, 2, 2],
        [3, 2, 3, 3],
        [4, 3, 7, 4],
    ]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda t: tg.aggregate(t, on="ts", size=5, aggs={"n": agg.count(lower=-5)}),
            "interval_join",
        ),
        (
            lambda t: tg.band_join(t, t, on="v", within=1, aggs={"n": agg.count(upper=0)}),
            "only functions in interval_join",
        ),
        (
            lambda t: tg.interval_join(
                t, t, on="ts", lower="left.v", upper=9, aggs={"n": agg.count(upper=0)}
            ),
            "must be durations or integers, not columns",
        ),
        (
            lambda t: tg.interval_join(
                t, t, on="ts", lower=0, upper=9, aggs={"a": agg.count(), "n": agg.count(lower=10)}
            ),
            "`n`: lower must not be greater than upper",
        ),
        (
            lambda t: tg.interval_join(
                t, t, on="ts", lower=None, upper=9, aggs={"n": agg.count(prevailing=True)}
            ),
            "`n`: prevailing: no row precedes",
        ),
        (
            lambda t: tg.interval_join(
                t, t, on="ts", lower=0, upper=9, aggs={"n": agg.count(closed="x")}
            ),
            "`n`: closed",
        ),
        (
            lambda t: tg.interval_join(
                t, t, on="ts", lower=0, upper=9, aggs={"n": agg.count(lower=1.5)}
            ),
            "`n`: lower",
        ),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    table = pa.table({"ts": [1, 2], "v": [3, 4]})
    with pytest.raises((TidegateError, TypeError, ValueError), match=text):
        call(table)


def test_an_unknown_argument_of_a_function_is_named() -> None:
    with pytest.raises(
        TypeError, match="lowr: a function has no such argument; did you mean lower"
    ):
        agg.count(lowr=-5)  # type: ignore[call-arg]

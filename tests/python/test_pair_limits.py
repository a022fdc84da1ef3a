"""Interval joins that keep only some pairs of each left row, compared with plain Python."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import campaign
import tidegate as tg
from command_line import read, run
from oracle import Join, assert_same, listed, nested_loop
from test_asof_lookups import CONDITIONS, files_of, side
from test_tasks import results
from tidegate import TidegateError, _tidegate, agg


def limited(left: pa.Table, right: pa.Table, join: Join, limit: int, order: str) -> pa.Table:
    """Return the pairs that a limit keeps, by the definition."""
    own, times = left["ts"].to_pylist(), right["ts"].to_pylist()
    matched: list[list[int]] = [[] for _ in own]
    for one, other in nested_loop(left, right, Join(**{**join.__dict__, "how": "inner"})):
        matched[one or 0].append(other or 0)
    for one, found in enumerate(matched):
        found.sort(key=lambda other: (times[other], other))

        def distance(other: int, ts: int = own[one]) -> tuple[int, bool, int]:
            is_past = times[other] <= ts
            return abs(times[other] - ts), not is_past, -other if is_past else other

        some = {
            "first": lambda found: found[:limit],
            "last": lambda found: found[-limit:],
            "nearest": lambda found, by=distance: sorted(found, key=by)[:limit],
        }[order](found)
        matched[one] = sorted(some)
    pairs = listed(matched, join.how, len(times))
    columns = {
        name: left[name].take(pa.array([one for one, _ in pairs], pa.int64()))
        for name in left.column_names
    }
    for name in right.column_names:
        of_right = right[name].take(pa.array([other for _, other in pairs], pa.int64()))
        if name != "k" or not join.by:
            columns[f"{name}_right" if name in columns else name] = of_right
        elif join.how in ("right", "full"):
            missing = [one is None for one, _ in pairs]
            columns[name] = pa.compute.if_else(
                pa.array(missing, pa.bool_()), of_right, columns[name]
            )
    return pa.table(columns)


@pytest.mark.parametrize("seed", range(campaign.tries(8)))
def test_oracle_nested_loop(seed: int, tmp_path: Path) -> None:
    chance = campaign.rng(f"limits {seed}")
    in_order = chance.random() < 0.6
    left = side(chance, chance.choice([0, 30]), "a", in_order=in_order)
    right = side(chance, chance.choice([0, 90]), "size", in_order=in_order)
    where, how = chance.choice([*CONDITIONS]), chance.choice(["inner", "left", "right", "full"])
    limit, order = chance.choice([1, 2, 5, 40, 1000]), chance.choice(["first", "last", "nearest"])
    lower, upper = chance.choice([(-20, 0), (-9, 40), (0, 0), (None, 5), (-60, None), (3, 50)])
    closed, by = chance.choice(["both", "left", "neither"]), chance.choice([(), (("k", "k"),)])
    join = Join(("ts", "ts"), lower, upper, by, closed, how, CONDITIONS[where])
    wanted = limited(left, right, join, limit, order)
    call: dict[str, Any] = {"on": "ts", "by": "k" if by else None, "closed": closed, "how": how}
    call |= {"lower": lower, "upper": upper, "where": where, "limit": limit, "order": order}
    found = tg.interval_join(left, right, **call, threads=chance.randrange(1, 4))
    assert_same(found, wanted)
    rows = [
        row for batch in tg.interval_join_batches(left, right, **call) for row in batch.to_pylist()
    ]
    assert rows == found.to_pylist()
    for parts in (1, 3):
        index = tg.Index(right.slice(0, right.num_rows // parts), on="ts", by=call["by"])
        if parts > 1:
            index.append(right.slice(right.num_rows // parts))
        assert tg.interval_join(left, index, **call).to_pylist() == found.to_pylist()
    if in_order and None not in (lower, upper):
        files = files_of(left, right, tmp_path)
        assert tg.interval_join(*files, **call, memory_limit=10**9).to_pylist() == rows
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        if how in ("inner", "left"):
            plan = tg.tasks(tg.interval_join, *files, **call, target=500, scratch=scratch)
            assert pa.concat_tables(results(plan)).to_pylist() == rows
    # Bounds that are computed for each left row, without and with a condition on pairs.
    computed = {**call, "lower": tg.left.a - 20, "upper": tg.left.a + 1, "closed": "both"}
    bounds = "right.ts - left.ts >= left.a - 20 and right.ts - left.ts <= left.a + 1"
    bounds = bounds if where is None else f"({bounds}) and ({where})"
    of_bounds = {**call, "lower": -20, "upper": 9, "where": bounds, "closed": "both"}
    some = tg.interval_join(left, right, **computed)
    assert some.to_pylist() == tg.interval_join(left, right, **of_bounds).to_pylist()


ROWS = pa.table({"ts": [1, 4, 6, 6], "v": [0, 1, 2, 3]})
ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit must be from 1 to 4294967295, got 0"),
    ({"limit": 1, "order": "best"}, "order must be one of first, last, nearest, got `best`"),
    ({"order": "last"}, "order: this selects the pairs that limit keeps; give limit"),
    ({"limit": 1, "how": "semi"}, "limit: a join with how=`semi` returns no pairs"),
    ({"limit": 1, "aggs": {"n": agg.count()}}, "limit: aggs aggregates all partners"),
    ({"limit": 1, "upper": tg.right.v}, "an end of the interval is computed from right columns"),
]


@pytest.mark.parametrize(("given", "message"), ERRORS, ids=[text for _, text in ERRORS])
def test_bad_arguments(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TidegateError, match=message):
        tg.interval_join(ROWS, ROWS, **{"on": "ts", "lower": -5, "upper": 5, **given})


def test_streams_and_tasks_name_the_call_to_write(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no argument limit; only interval_join, called on tables"):
        tg.IntervalJoin(ROWS.schema, ROWS.schema, on="ts", lower=0, upper=1, limit=1)  # type: ignore[call-arg]
    files = [str(file) for file in files_of(ROWS, ROWS, tmp_path)]
    call: dict[str, Any] = {"on": "ts", "lower": 0, "upper": 1, "limit": 1}
    with pytest.raises(TidegateError, match="a task reads only some of the pairs that limit"):
        tg.tasks(tg.interval_join, *files, **call, how="full")
    options = ("--on", "ts", "--lower", "0", "--upper", "1", "--limit", "1", "--order", "last")
    run("join", *files, *options, "-o", str(tmp_path / "out.arrow"))
    assert read(tmp_path / "out.arrow") == tg.interval_join(ROWS, ROWS, **call, order="last")
    query = _tidegate.interval_join_query(**call)
    with pytest.raises(TidegateError, match="limit: a join of streams returns each pair as soon"):
        query.operator(ROWS.schema, ROWS.schema)


def test_distances_at_the_ends_of_int64() -> None:
    left = pa.table({"ts": pa.array([-(2**63), 2**63 - 1], pa.int64())})
    right = pa.table({"ts": pa.array([-(2**63), -1, 0, 2**63 - 1], pa.int64()), "v": range(4)})
    found = tg.interval_join(left, right, on="ts", lower=None, upper=None, limit=2, order="nearest")
    assert found["v"].to_pylist() == [0, 1, 2, 3]

"""The forms of a join on Spark: the cheapest one is chosen, and all forms have the same rows.

The tests set the statistics that determine the form: the number of rows of a side, and how many
rows each row of a sample represents. Few rows are actually joined.
"""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import spark_session
import tidegate
import tidegate.spark
from cases import grid, more
from tidegate import agg
from tidegate.spark.driver import bins as driver_bins
from tidegate.spark.driver import division, overlap, route
from tidegate.spark.driver import guess as guessing
from tidegate.spark.driver.files import rows_of
from tidegate.spark.driver.whole import Whole, rows_beside
from tidegate.spark.layout.balance import Sample
from tidegate.spark.layout.costs import (
    SPARK,
    Asked,
    Costs,
    Small,
    There,
    Width,
    costs,
    without_bins,
)
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.worker.pack import LEFT, RIGHT

pytestmark = pytest.mark.filterwarnings("ignore")

ASKED = Asked(Width(4, 4, 8), measured=True, once=False)


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


# The model, without Spark.


class Work:
    """The work of a join by bins, with given numbers."""

    def __init__(self, rows: float, pairs: float, candidates: float | None = None) -> None:
        self.rows, self.pairs = rows, pairs
        self.of_copied, self.copies = rows / 2, rows / 10
        self.candidates = 2 * pairs if candidates is None else candidates


def form(left: float, right: float, pairs: float, tasks: int = 4, **more: float) -> str:
    """Return the form of a join whose right side is small."""
    small = Small(RIGHT, (left, right), tasks)
    return costs(Work(left + right, pairs, **more), ASKED, small).cheapest


def test_a_small_side_is_sent_whole_beside_one_that_is_not_much_larger():
    assert form(1e6, 1e6, 2e6) == "whole"
    assert form(1e6, 1e3, 1e6) == "whole"


def test_spark_joins_bins_itself_where_a_large_side_would_go_to_python():
    assert form(1e9, 1e5, 1e9) == "bins"
    assert form(1e9, 1e5, 1e9, candidates=1e11) == "whole", "a hot key has many candidates"


def test_a_side_is_not_sent_whole_to_thousands_of_tasks():
    assert form(4e6, 2e6, 1e6, candidates=1e9) == "whole"
    assert form(4e6, 2e6, 1e6, candidates=1e9, tasks=1_000) == "native"


def test_many_pairs_cost_less_where_they_stay_in_spark():
    assert form(1e6, 1e6, 1e8, candidates=1e8) == "bins"
    assert form(1e6, 1e6, 1e8, candidates=5e8) == "whole"


def test_a_table_that_all_tasks_get_leaves_the_other_rows_where_they_are():
    work, small = Work(6e6 + 2e4, 6e6), Small(RIGHT, (6e6, 2e4), 4)
    moved, stayed = (costs(work, ASKED, small, stay=stay) for stay in (0.0, 6e6))
    assert stayed.bins < moved.bins
    assert stayed[1:] == moved[1:]
    assert stayed.in_place is None
    # Measured with the sample: 5.2 s by bins, 8.1 s with the right side whole.
    assert stayed.after(SPARK.looking(6e6)).cheapest == "bins"
    assert stayed.whole == pytest.approx(8.1, rel=0.1)
    assert stayed.bins + SPARK.looking(6e6) == pytest.approx(5.2, rel=0.1)


def test_bins_must_be_clearly_cheaper():
    assert Costs(0.8, 1.0).cheapest == "bins"
    assert Costs(0.81, 1.0).cheapest == "native"
    assert Costs(0.79, 2.0, 1.0).cheapest == "bins"
    assert Costs(0.9, 2.0, 1.0).cheapest == "whole"
    assert Costs(None, 1.0, 1.1).cheapest == "native"


def test_a_sample_that_was_not_taken_costs_what_needs_it():
    costs = Costs(1.0, 2.0, 1.5)
    assert costs.after(1.0) == Costs(2.0, 3.0, 1.5)
    assert Costs(None, 2.0, 1.5).after(1.0) == Costs(None, 3.0, 1.5)
    assert 0 < SPARK.looking(0) < SPARK.looking(1e6) < SPARK.looking(1e9)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e10), st.integers(1, 1_000))
def test_costs_grow_with_rows_pairs_and_tasks(left, right, pairs, tasks):
    def found(left=left, right=right, pairs=pairs, tasks=tasks):
        small = Small(RIGHT, (left, right), tasks)
        return np.array(costs(Work(left + right, pairs), ASKED, small, There(tasks, 5)))

    least = found()
    for larger in (
        {"left": left * 2 + 1},
        {"right": right * 2 + 1},
        {"pairs": pairs * 2 + 1},
        {"tasks": tasks + 1},
    ):
        assert np.all(found(**larger) >= least)
    without = without_bins(Small(RIGHT, (left, right), tasks), ASKED)
    assert without.bins is None
    assert without.whole == pytest.approx(found(pairs=0)[2])


@pytest.mark.parametrize("by", [(0,), (0, 1), (2, 0, 1)])
def test_equal_keys_and_no_others_have_one_number(by):
    rng = np.random.default_rng(len(by))
    columns = [pa.array(rng.integers(0, 7, 500), mask=rng.random(500) < 0.2) for _ in range(2)]
    columns.append(pa.array(rng.choice(["a", "b", "ab"], 500)))
    table = pa.table(columns, names=["x", "y", "z"])
    keys = [tuple(row[at] for at in by) for row in zip(*table.to_pydict().values(), strict=True)]
    found = set(zip(keys, guessing._numbered(table, by).tolist(), strict=True))
    assert len(found) == len({key for key, _ in found}) == len({number for _, number in found})


# File statistics.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write five similar files of 50,000 rows in a folder whose name must be escaped."""
    path = tmp_path_factory.mktemp("much alike %")
    for part in range(5):
        times = np.arange(50_000) + part * 50_000
        rows = pa.table(
            {"key": np.full(50_000, 7), "s": times, "text": ["a text of theirs"] * 50_000}
        )
        pq.write_table(rows, path / f"part-{part}.parquet", compression="zstd")
    return path


def test_rows_of_files_are_told_by_their_footers(spark, folder):
    read = spark.read.parquet(str(folder))
    for frame in (read, read.select("s"), read.where("key = 8").selectExpr("s + 1 as t")):
        assert rows_of(frame).number == pytest.approx(250_000, rel=0.05)
        assert not rows_of(frame).exact
    some = [str(folder / f"part-{part}.parquet") for part in range(3)]
    assert rows_of(spark.read.parquet(*some)) == (150_000, True)
    (folder.parent / "rows.json").write_text('{"s": 1}\n' * 100)
    others = [
        read.limit(10),
        read.groupBy("key").count(),
        read.join(spark.range(3), read.s == F.col("id")),
        spark.read.schema("s long").json(str(folder.parent / "rows.json")),
        spark.range(10),
        spark.createDataFrame(TABLES[0]),
    ]
    assert [rows_of(frame) for frame in others] == [None] * len(others)


def test_the_rows_beside_a_small_side_are_those_of_files(spark, folder):
    right = spark.createDataFrame(TABLES[1])
    query = SparkQuery.of(
        "interval_join", {"on": ("s", "from"), "by": "key", "lower": 0, "upper": 0}
    )
    plan = Plan.of(spark.read.parquet(str(folder)), right, query)
    rows = rows_beside(plan, Whole(RIGHT, TABLES[1])).rows
    assert rows == (pytest.approx(250_000, rel=0.05), TABLES[1].num_rows)
    # Without files, Spark estimates bytes, so fewer columns reduce the estimated number of rows.
    plan = Plan.of(spark.createDataFrame(TABLES[0]), right, query)
    left, _ = rows_beside(plan, Whole(RIGHT, TABLES[1])).rows
    assert 0 < left < 1_000


def test_a_file_that_is_gone_is_taken_by_its_bytes(spark, tmp_path):
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "rows" / "part.parquet")
    read = spark.read.parquet(str(tmp_path / "rows"))
    assert rows_of(read).number == pytest.approx(10, rel=0.05)
    for path in (tmp_path / "rows").glob("*.parquet"):
        path.unlink()
    assert rows_of(read) is None


# Forms on Spark.


def table(seed: int, rows: int, names: tuple[str, str, str, str]) -> pa.Table:
    """Create keys, null in a tenth of the rows and equal in half, starts, ends and numbers."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 6, rows)
    keys[rng.random(rows) < 0.5] = 1
    starts = rng.integers(0, 3_000, rows) * 1_000
    columns = (
        pa.array(keys, mask=rng.random(rows) < 0.1),
        pa.array(starts),
        pa.array(starts + rng.integers(0, 5, rows)),
        pa.array(range(rows), pa.int64()),
    )
    return pa.table(dict(zip(names, columns, strict=True)))


TABLES = table(1, 300, ("key", "s", "e", "l")), table(2, 250, ("key", "from", "to", "r"))
QUERIES = {
    "interval_join": {"on": ("s", "from"), "by": "key", "lower": 0, "upper": 0},
    "overlap_join": {"on": (("s", "e"), ("from", "to")), "by": "key"},
}
WHOLE, BINS, NATIVE = "is sent in full to every task", "in Spark's own join", "placed     by "
FORMS = {"whole": WHOLE, "bins": BINS, "native": NATIVE}


@pytest.fixture(scope="module")
def frames(spark):
    return tuple(spark.createDataFrame(rows).repartition(3).cache() for rows in TABLES)


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, rows.to_pylist()))


def said(monkeypatch, *, rows: float | None = None, tasks: int = 8, times: float = 1) -> None:
    """Make the planner assume other sizes: `rows` and `tasks` of the side that is not small.

    A sampled row represents `times` as many rows as usual.
    """

    def beside(_, whole):
        if rows is None:
            return Small(whole.side, (300.0, 250.0), tasks)
        every = [rows, rows]
        every[whole.side] = float(whole.rows.num_rows)
        return Small(whole.side, (every[LEFT], every[RIGHT]), tasks)

    sampled = division.sampled

    def heavier(*arguments):
        found, weight = sampled(*arguments)
        return found, weight * times

    monkeypatch.setattr(route, "rows_beside", beside)
    monkeypatch.setattr(division, "sampled", heavier)
    monkeypatch.setattr(overlap, "sampled", heavier)
    # All of these few rows are sampled. The number of rows that they represent would be hashed in
    # more than two tasks.
    monkeypatch.setattr(division, "FRACTION", 1.0)
    monkeypatch.setattr(driver_bins, "_HASHED", 1 << 40)


STATISTICS = {
    "whole": {},
    "bins": {"rows": 1e8, "times": 1e4, "tasks": 100},
    "native": {"tasks": 10**10},
}


def taken(frames, function: str, **query) -> tuple[str, pa.Table]:
    """Return the explanation of a join, and its rows."""
    query = QUERIES[function] | query
    join = getattr(tidegate.spark, function)
    return tidegate.spark.explain(join, *frames, **query), join(*frames, **query).toArrow()


@grid(form=["whole", "bins", "native"], how=["right", "semi", "anti", *more("inner", "left")])
def test_statistics_lead_to_each_form_and_to_the_same_rows(frames, monkeypatch, form, how):
    said(monkeypatch, **STATISTICS[form])
    text, rows = taken(frames, "interval_join", how=how)
    assert [name for name, told in FORMS.items() if told in text] == [form]
    assert " s of processor time by bins, " in text
    assert " s natively, " in text
    assert f" s with {'left' if how == 'right' else 'right'} whole" in text or how == "inner"
    expected = tidegate.interval_join(*TABLES, **QUERIES["interval_join"], how=how)
    assert rows.column_names == expected.column_names
    assert counted(rows) == counted(expected)


AGGREGATES = {"aggs": {"n": agg.count()}, "columns": ["l"], "how": "left"}


@grid(
    case=[
        ("interval_join", AGGREGATES),
        ("overlap_join", {"how": "left"}),
        *more(("overlap_join", AGGREGATES), ("overlap_join", {"how": "semi"})),
    ],
    form=["native", "whole"],
)
def test_joins_without_bins_are_weighed_too(frames, monkeypatch, case, form):
    function, query = case
    said(monkeypatch, **STATISTICS[form])
    text, rows = taken(frames, function, **query)
    assert FORMS[form] in text
    assert "by bins" not in text
    assert ("the cost of results is not included" in text) == (form == "whole")
    assert " s natively, " in text or " s of processor time natively, " in text
    assert " s with right whole" in text
    expected = getattr(tidegate, function)(*TABLES, **QUERIES[function], **query)
    assert counted(rows) == counted(expected)


def test_a_sample_may_say_that_the_large_side_is_small(frames, monkeypatch):
    """A side that was assumed to be large is sampled, and the small side is then sent in full."""
    said(monkeypatch, rows=1e9)
    join, query = tidegate.spark.interval_join, QUERIES["interval_join"]
    text = tidegate.spark.explain(join, *frames, **query)
    assert WHOLE in text
    assert "weighed    by a sample of both sides" in text
    said(monkeypatch)
    text = tidegate.spark.explain(join, *frames, **query)
    assert "sample" not in text.partition("  jobs ")[2].partition("\n")[0]
    assert "weighed    no sample: left is assumed to resemble right" in text or (
        "weighed    no sample: right is assumed to resemble left" in text
    )


def test_a_side_that_was_asked_to_be_whole_is_not_weighed(frames, monkeypatch):
    said(monkeypatch, tasks=10**10)
    query = {**QUERIES["interval_join"], "parallelism": "broadcast"}
    text = tidegate.spark.explain(tidegate.spark.interval_join, *frames, **query)
    assert WHOLE in text
    assert "costs" not in text


# The estimate before sampling.


def drawn(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random keys and sorted random times."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, 10**6, rows))
    return rng.integers(0, 20, rows), times


@pytest.mark.parametrize("side", [LEFT, RIGHT])
@pytest.mark.parametrize("other", [2_000, 400_000])
def test_a_guess_is_near_what_a_sample_says_if_both_sides_are_alike(frames, side, other):
    query = QUERIES["interval_join"] | {"lower": -500, "upper": 500, "how": "inner"}
    plan = Plan.of(*frames, SparkQuery.of("interval_join", query))
    mine, theirs = drawn(40_000, 1), drawn(other, 2)
    keys, times = mine
    rows = pa.table([keys, times, times, times], names=plan.columns.of(side).names)
    of_both = (40_000.0, float(other)) if side == LEFT else (float(other), 40_000.0)
    small = Small(side, of_both, 4)
    guess = guessing.guessed(plan, Whole(side, rows), small, has_bins=True)
    left, right = (mine, theirs) if side == LEFT else (theirs, mine)
    _, found = driver_bins.weighed(plan, Sample(*left, *right, 1.0), small)
    expected = found.after(SPARK.looking(40_000 + other))
    assert guess.costs[:3] == pytest.approx(expected[:3], rel=0.15)
    assert guess.costs.in_place is None


def test_bins_cost_less_where_spark_sends_their_table_to_all_tasks(frames, monkeypatch):
    plan = Plan.of(
        *frames, SparkQuery.of("interval_join", QUERIES["interval_join"] | {"how": "inner"})
    )

    def bins(method: str) -> float:
        monkeypatch.setattr(driver_bins, "hashed", lambda *_: method)
        sample = Sample(*drawn(1_000, 1), *drawn(20_000, 2), 100.0)
        return driver_bins.weighed(plan, sample)[1].bins

    # The saving is at least the shuffle of the larger side's columns.
    assert bins("broadcast") < bins("shuffle_hash") - 1e-9 * 100 * 100_000


def test_an_empty_side_needs_no_sample(spark, frames):
    none = spark.createDataFrame(TABLES[RIGHT].slice(0, 0)).cache()
    text = tidegate.spark.explain(
        tidegate.spark.interval_join, frames[LEFT], none, **QUERIES["interval_join"]
    )
    assert "right is sent in full to every task, 0 rows" in text

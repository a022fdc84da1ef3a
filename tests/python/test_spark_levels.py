"""Overlap joins that Spark does by itself, by equal keys and bins of levels.

Which way is the cheapest, and where a pair meets, is tried without Spark. Each query on Spark has
many random cases at once, told apart by a further key, in any levels that are drawn.
"""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

import campaign
import spark_session
import tidegate
import tidegate.spark
from cases import grid, more, of_campaigns
from tidegate import agg
from tidegate.spark.driver import bins as driver_bins
from tidegate.spark.driver import levels as driver
from tidegate.spark.driver import overlap, whole
from tidegate.spark.layout.costs import Costs, Width
from tidegate.spark.layout.lengths import Sample, Side
from tidegate.spark.layout.levels import Lengths, Level, Levels, fitting, known, measuring
from tidegate.spark.layout.overlap import LEFT, RIGHT

pytestmark = pytest.mark.filterwarnings("ignore")

ON = (("start", "end"), ("from", "to"))
ENDS = np.iinfo(np.int64)
COLUMNS = Width(4, 4, 8)


@pytest.fixture(scope="module")
def spark():
    return spark_session.start()


def counted(table: pa.Table) -> Counter[str]:
    """The rows with their number of times, in no order."""
    return Counter(map(repr, table.to_pylist()))


# Without Spark.


def levels_of(limits: list[int], single: int | None) -> Levels:
    """Levels for rows of these lengths; bins of level n are n + 10 wide."""
    levels = tuple(Level(limit, at + 10) for at, limit in enumerate(limits))
    return Levels(single, levels, (limits[-1], limits[-1]), 0.0, 0.0, (0.0, 0.0), 0.0, 0.0)


@given(st.integers(1, 5))
def test_rows_of_two_levels_have_one_cell_in_common(count):
    levels = levels_of([*range(count)], None)
    for left, right in itertools.product(range(count), repeat=2):
        mine, other = levels.cells_of(LEFT, left), levels.cells_of(RIGHT, right)
        [cell] = {*mine} & {*other}
        assert levels.width_of(cell) == max(left, right) + 10
        assert 0 <= cell < levels.cells
        assert len({*mine}) == len(mine)
        assert len({*other}) == len(other)


def drawn(seed: int, rows: int, long: int, times: int) -> Sample:
    """Intervals of 24 keys that are 20 long on average, a few of them so many times as long."""
    sides = []
    for side in (LEFT, RIGHT):
        rng = np.random.default_rng([seed, side])
        lengths = rng.exponential(20, rows)
        lengths[:long] *= times
        starts = np.sort(rng.integers(0, 80 * rows, rows))
        rng.shuffle(lengths)
        sides.append(Side(rng.integers(0, 24, rows), starts, starts + lengths.astype(np.int64)))
    return Sample((sides[LEFT], sides[RIGHT]), (None, None), 100.0)


EITHER = (None, LEFT, RIGHT)


def test_a_few_long_rows_are_copied_in_short_bins():
    way = fitting(drawn(1, 10_000, 1, 1_000), (Lengths(20_000, 2e7),) * 2, EITHER, COLUMNS)
    assert [level.longest for level in way.levels] == [20_000]
    assert way.levels[0].width < 1_000
    assert way.copies < way.rows / 2


def test_many_long_rows_have_a_level_of_their_own():
    sample = drawn(1, 10_000, 500, 3_000)
    way = fitting(sample, known(sample), EITHER, COLUMNS)
    assert way.single is None
    assert len(way.levels) > 1
    one = min(
        (
            found
            for width in (10, 100, 1_000, 10_000, 100_000)
            for found in [copies_of_one_level(sample, width)]
        ),
    )
    assert way.placed[LEFT] + way.placed[RIGHT] < one


def copies_of_one_level(sample: Sample, width: int) -> float:
    """Rows placed in bins of one width, and candidates at the price of a fifth of a copy."""
    means = [float((side.ends - side.starts).mean()) for side in sample.sides]
    density = 1_000_000.0 * 1_000_000 / 24 / 800_000
    met = density * (means[LEFT] + width) * (means[RIGHT] + width) / width
    return sum(1e6 * (1 + mean / width) for mean in means) + met / 5


@pytest.mark.parametrize("single", EITHER)
@pytest.mark.parametrize("longest", [0, 1, 10**6, ENDS.max])
def test_rows_of_any_length_have_few_bins(single, longest):
    sample = drawn(2, 1_000, 10, 10)
    least = known(sample)
    lengths = tuple(Lengths(max(longest, one.longest), one.total + longest) for one in least)
    way = fitting(sample, lengths, (single,), COLUMNS)
    assert way.levels[-1].longest == max(
        one.longest for at, one in enumerate(lengths) if single in (None, at)
    )
    assert [*way.levels] == sorted(way.levels)
    for level in way.levels:
        covered = level.longest + (0 if single is None else lengths[1 - single].longest)
        assert covered / level.width <= 1 << 14
        assert level.width <= 1 << 62
        assert way.cells == 1 or ENDS.max // level.width * way.cells + way.cells < ENDS.max


@pytest.mark.parametrize("single", EITHER)
def test_no_rows_have_a_level(single):
    none = np.zeros(0, np.int64)
    sample = Sample((Side(none, none, none),) * 2, (None, None), 1.0)
    way = fitting(sample, known(sample), (single,), COLUMNS)
    assert [level.longest for level in way.levels] == [0]
    assert (way.rows, way.copies, way.pairs) == (0, 0, 0)


def test_the_job_that_measures_rows_costs_more_for_more_rows():
    few, many = drawn(3, 100, 1, 10), drawn(3, 10_000, 1, 10)
    assert 0.5 < measuring(few) < measuring(many) < 1
    assert measuring(replace(few, longest=(0, 0))) == 0


# On Spark.


def random_cases(side: int, payload: str) -> pa.Table:
    """Cases of few rows each: nested, equal, empty, huge ones, ties, and those without an end."""
    names = ON[side]
    every = []
    for case in range(campaign.tries(30)):
        rng = np.random.default_rng([campaign.SEED, side, case])
        rows = int(rng.integers(0, 14))
        starts = rng.integers(-30, 30, rows)
        spans = rng.choice([0, 1, 4, 15, 200, 5_000], rows)
        lacking = rng.random((3, rows)) < 0.08
        ends = [
            None if gone else int(end) for gone, end in zip(lacking[1], starts + spans, strict=True)
        ]
        begins = [
            None if gone else int(start) for gone, start in zip(lacking[0], starts, strict=True)
        ]
        keys = [None if gone else int(rng.integers(0, 2)) for gone in lacking[2]]
        every += zip([case] * rows, keys, begins, ends, strict=True)
    # A row from one end to the other is in thousands of bins.
    nearly = more(ENDS.min + 1, 1, ENDS.max - 1)
    extremes = sorted([ENDS.min, -1, 0, ENDS.max, *nearly])
    every += [
        (-1, 0, int(start), int(end))
        for start, end in itertools.combinations_with_replacement(extremes, 2)
    ]
    columns = [pa.array(column, pa.int64()) for column in zip(*every, strict=True)]
    table = pa.table([*columns], names=["case", "key", *names])
    return table.append_column(payload, pa.array(range(len(every)), pa.int64()))


TABLES = random_cases(LEFT, "l"), random_cases(RIGHT, "r")


@pytest.fixture(scope="module")
def sides(spark):
    """Both tables, each in more Spark partitions than there are cores."""
    return tuple(spark.createDataFrame(table).repartition(3).cache() for table in TABLES)


def planned(frames, **query):
    """The join by bins. Spark's plan of it has no row that goes to Python."""
    found = tidegate.spark.overlap_join(*frames, **query, parallelism="bins")
    assert "InArrow" not in found._jdf.queryExecution().toString()
    return found


def same(frames, tables=TABLES, **query) -> None:
    """Assert that the join by bins has the native join's columns and rows."""
    expected = tidegate.overlap_join(*tables, **query)
    rows = planned(frames, **query).toArrow()
    assert rows.column_names == expected.column_names
    assert counted(rows) == counted(expected)


def given_levels(monkeypatch, single: int | None, limits: list[int], widths: list[int]) -> None:
    """Have the plan take these levels, and one for all longer rows."""

    def fixed(sample, lengths, sides, columns):
        assert single in sides
        way = fitting(sample, lengths, (single,), columns)
        last = way.levels[-1]
        levels = (*map(Level, limits, widths), last._replace(width=max(last.width, 1 << 50)))
        return Levels(**{**vars(way), "levels": levels})

    monkeypatch.setattr(driver, "fitting", fixed)


WAYS = {
    "one level": ([], []),
    "two levels": ([4], [7]),
    "three levels": ([0, 15], [6, 11]),
}


@grid(
    way=["one level", "three levels", *more("two levels")],
    single=[None, LEFT, *more(RIGHT)],
    closed=["both", "left"],
    least=[None, 4, *more(0, 1, 10**6)],
    by=[["case", "key"], ["case"]],
    method=["shuffle_hash", None, *more("broadcast")],
)
def test_pairs_are_those_of_the_native_join(
    sides, monkeypatch, way, single, closed, least, by, method
):
    given_levels(monkeypatch, single, *WAYS[way])
    monkeypatch.setattr(driver, "method", lambda *_: method)
    # A row of the side with several places is in each short bin that it covers, however long it is.
    given = (sides, TABLES) if single is None else without_extremes(sides)
    same(*given, on=ON, by=by, closed=closed, min_overlap=least)


@grid(
    how=["right", "semi", *more("anti", "left")],
    way=["two levels", "three levels", *more("one level")],
    closed=["both", "left"],
    least=[None, 4],
    method=["broadcast", "shuffle_hash", *more(None)],
)
def test_rows_without_a_partner_come_once(sides, monkeypatch, how, way, closed, least, method):
    given_levels(monkeypatch, RIGHT if how == "right" else LEFT, *WAYS[way])
    monkeypatch.setattr(driver, "method", lambda *_: method)
    query = {"on": ON, "by": ["case", "key"], "how": how}
    same(*without_extremes(sides), **query, closed=closed, min_overlap=least)


def without_extremes(frames, cases: int = 10**6):
    """The random cases alone, or the first of them, as DataFrames and as tables."""
    case = pa.compute.field("case")
    tables = [table.filter((case >= 0) & (case < cases)) for table in TABLES]
    return [frame.where(f"case >= 0 and case < {cases}") for frame in frames], tables


@grid(how=["right", *more("inner", "left", "semi", "anti")], extremes=[True, *more(False)])  # noqa: FBT003
def test_levels_that_a_sample_chooses(sides, how, extremes):
    given = (sides, TABLES) if extremes else without_extremes(sides)
    same(*given, on=ON, by=["case", "key"], how=how, suffix="_2")


def own_loop(frames, how: str, closed: str, least: int):
    """Spark's own nested loop: it sees no equal keys here, so that it compares each two rows."""
    left, right = (frame.alias(name) for frame, name in zip(frames, "lr", strict=True))
    met = [f"l.{key} <= r.{key} and r.{key} <= l.{key}" for key in ("case", "key")]
    met += ["l.start <= r.to and r.from <= l.end"]
    if closed == "left":
        met += ["l.start < r.to and r.from < l.end and l.start < l.end and r.from < r.to"]
    met += [f"least(l.end, r.to) - greatest(l.start, r.from) >= {least}"]
    kind = {"semi": "left_semi", "anti": "left_anti"}.get(how, how)
    found = left.join(right, F.expr(" and ".join(met)), kind)
    assert "NestedLoop" in found._jdf.queryExecution().toString()
    return found


# The native join is compared with nested loops elsewhere.
@of_campaigns
@grid(
    how=["left", "inner", "right", "full", "semi", "anti"],
    form=["bins", "hybrid", "time", "key"],
    closed=["left", "both"],
    least=[4, 0],
)
def test_rows_are_those_of_sparks_own_loop(sides, how, form, closed, least):
    frames, _ = without_extremes(sides)
    form = "hybrid" if (form, how) == ("bins", "full") else form
    names = ["l"] if how in ("semi", "anti") else ["l", "r"]
    query = {"on": ON, "by": ["case", "key"], "how": how, "closed": closed, "columns": names}
    found = tidegate.spark.overlap_join(*frames, **query, min_overlap=least, parallelism=form)
    expected = own_loop(frames, how, closed, least).select(*names)
    assert counted(found.toArrow()) == counted(expected.toArrow())


@pytest.mark.parametrize("how", ["anti", *more("inner", "left", "right", "semi")])
def test_without_a_key(sides, how):
    same(*without_extremes(sides, 6), on=ON, how=how)


@pytest.mark.parametrize("how", ["right", *more("inner")])
def test_points_in_intervals(sides, how):
    (left, right), tables = without_extremes(sides)
    query = {"on": (("start", "start"), ON[1]), "by": ["case", "key"], "how": how}
    same((left.drop("end"), right), (tables[0].drop_columns(["end"]), tables[1]), **query)


TIMES = {
    "timestamp": (1_000_000, pa.timestamp("us", "UTC"), "3s"),
    "timestamp_ntz": (1_000_000, pa.timestamp("us"), "2500ms"),
    "date": (1, pa.date32(), "3d"),
}


@pytest.mark.parametrize("kind", ["timestamp_ntz", *more("date", "timestamp")])
def test_types_of_times(spark, kind):
    step, arrow, least = TIMES[kind]
    tables = []
    for table, names in zip(without_extremes(())[1], ON, strict=True):
        for name in names:
            at = table.column_names.index(name)
            numbers = pa.compute.multiply(table[name], step)
            numbers = numbers.cast(pa.int32()) if kind == "date" else numbers
            table = table.set_column(at, name, numbers.cast(arrow))  # noqa: PLW2901
        tables.append(table)
    with spark_session.settings(spark, spark__sql__session__timeZone="UTC"):
        frames = []
        for table, names in zip(tables, ON, strict=True):
            frame = spark.createDataFrame(table)
            frames.append(frame.withColumns({name: F.col(name).cast(kind) for name in names}))
        same(frames, tables, on=ON, by=["case", "key"], min_overlap=least, how="left")


@grid(side=["left", *more("right")], key=["null", *more("1")])
def test_a_start_after_its_end_is_refused(spark, side, key):
    """In any row, be its key null."""
    wrong = spark.sql(f"select int({key}) k, 5L s, 4L e union all select 1, 1L, 2L")
    # Spark knows the rows of literals, and drops what they cannot meet before it looks at it.
    other = spark.createDataFrame([(1, 1, 2), (2, 3, 4)], "k int, s long, e long")
    frames = (wrong, other) if side == "left" else (other, wrong)
    found = planned(frames, on=("s", "e"), by="k", how="left")
    message = rf"{side}: a row has 5 in column `s` and 4 in column `e`, expected a start that"
    # A side that is sent whole fails outside of what PySpark translates.
    with pytest.raises((PySparkException, Py4JJavaError), match=message):
        found.collect()


def test_rows_that_are_longer_when_they_are_read_again(sides, monkeypatch):
    monkeypatch.setattr(driver, "lengths_of", lambda _: (Lengths(3, 3.0), Lengths(3, 3.0)))
    found = planned(without_extremes(sides)[0], on=ON, by="case")
    with pytest.raises((PySparkException, Py4JJavaError), match=r"a row is longer than any was"):
        found.collect()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"how": "full"}, "a full join keeps the rows of both sides"),
        ({"where": "left.l < right.r"}, "`where` is a condition of tidegate"),
        ({"aggs": {"n": agg.count()}}, "aggregates of partners"),
        ({"min_overlap": 2**60}, "`min_overlap` is too long"),
    ],
)
def test_bins_are_refused_with_a_reason(sides, change, reason):
    query = {"on": ON, "by": "key", **change, "parallelism": "bins"}
    with pytest.raises(tidegate.TidegateError, match=f"'bins' is not for this join: .*{reason}"):
        tidegate.spark.overlap_join(*sides, **query)


def explained(frames, **query) -> str:
    return tidegate.spark.explain(tidegate.spark.overlap_join, *frames, on=ON, by="case", **query)


@pytest.fixture
def measured(monkeypatch):
    """No side is small, and each job that measures rows is counted."""
    monkeypatch.setattr(whole, "LIMIT", 10)
    monkeypatch.setattr(whole, "_SURE", -1)
    monkeypatch.setattr(driver, "measuring", lambda _: 0.0)
    found = []
    lengths_of = overlap.lengths_of
    monkeypatch.setattr(driver, "lengths_of", lambda plan: found.append(1) or lengths_of(plan))
    return found


@pytest.mark.parametrize("how", ["anti", *more("inner")])
def test_auto_takes_bins_if_they_are_clearly_cheaper(sides, monkeypatch, measured, how):
    monkeypatch.setattr(driver, "costs", lambda *_, **__: Costs(1.0, 3.0))
    text = explained(sides, how=how)
    assert "divided    by key and bins of time, by Spark's own join" in text
    assert "  level      rows up to 9,223,372,036,854,775,807 long, bins " in text
    assert "costs      about 1 s of processor time by bins, 3 s natively" in text
    assert text.endswith("more than 10 bytes, and bins are clearly cheaper")
    assert measured == [1]
    told = "a left row has the bin of its start, a right row all"
    assert (told in text) == (how == "anti")


def test_auto_takes_no_bins_otherwise(sides, monkeypatch, measured):
    monkeypatch.setattr(driver, "costs", lambda *_, **__: Costs(2.9, 3.0))
    text = explained(sides)
    assert "no bins    about 2.9 s of processor time by bins, 3 s natively" in text
    assert "no bins    a full join keeps" in explained(sides, how="full")
    assert not measured


# `test_spark_bins` has the same of joins by an interval.
@of_campaigns
@pytest.mark.usefixtures("measured")
def test_bins_that_fill_a_task_are_sorted_if_they_are_asked_for(sides, monkeypatch):
    monkeypatch.setattr(driver, "costs", lambda *_, **__: Costs(1.0, 3.0))
    monkeypatch.setattr(driver_bins, "_HASHED", 0)
    monkeypatch.setattr(driver_bins, "_WHOLE", 0)
    assert "placed     by partition number" in explained(sides)
    assert "placed     Spark sorts the rows" in explained(sides, parallelism="bins")

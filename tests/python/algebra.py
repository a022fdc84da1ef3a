"""Relations between results that hold for any rows, so that no second system is needed.

A relation is a function of a `World`, which draws tables and arguments. It returns two lists of
tables or batches, whose rows must be the same, in any order. Results are compared by digests, so a
relation can be checked for millions of rows. To add a relation, write a function with `@relation`.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path  # noqa: TC003 - for the annotations of a dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tidegate as tg
from tidegate import agg, left, right

Rows: TypeAlias = Any
"""A table, or a reader of batches."""

Sides: TypeAlias = tuple[Iterable[Rows], Iterable[Rows]]

RELATIONS: dict[str, Callable[[World], Sides]] = {}


def relation(function: Callable[[World], Sides]) -> Callable[[World], Sides]:
    """Add a relation to the list."""
    RELATIONS[function.__name__] = function
    return function


def digest(parts: Iterable[Rows]) -> tuple[int, str]:
    """Return the number of rows in all parts, and their digest in any order."""
    found = None
    for part in parts:
        if found is None:
            found = tg.Digest(part.schema)
        found.update(part)
    assert found is not None
    return found.rows, found.unordered


def check(name: str, world: World) -> int:
    """Check a relation, and return the number of rows compared."""
    one, other = map(digest, RELATIONS[name](world))
    assert one == other, f"{name} does not hold in {world}: {one} and {other}"
    return one[0]


@dataclass
class World:
    """Two tables and the arguments of calls, drawn from a seed."""

    seed: str
    rows: int
    folder: Path
    chance: random.Random = field(init=False, repr=False)
    values: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - for tests
        self.values = np.random.default_rng(self.chance.randrange(2**32))
        rows = self.rows
        self.key_count = self.chance.choice([1, 3, 50, 1000])
        # A key has this many rows in a time as long as an interval.
        self.width = max(1, rows // 100)
        self.span = max(10, rows * self.width // (2 * self.key_count))
        ends = sorted(self.chance.randrange(-self.width, self.width + 1) for _ in range(2))
        self.lower, self.upper = ends
        self.middle = self.chance.randrange(self.lower, self.upper + 1)
        self.closed = self.chance.choice(["both", "left", "right", "neither"])
        self.threads = self.chance.choice([1, 2, 3])
        self.is_sorted = self.chance.random() < 0.6
        self.left, self.right = self.table(), self.table()

    def table(self) -> pa.Table:
        """Return a table of random rows."""
        rows = self.chance.randrange(self.rows // 2, self.rows + 1)
        times = self.values.integers(0, self.span, rows)
        if self.chance.random() < 0.3:
            # Many rows have the same time.
            times -= times % max(1, self.width // 3)
        if self.is_sorted:
            times.sort()
        keys = self.values.integers(0, self.key_count, rows)
        return pa.table(
            {
                "ts": pa.array(times, pa.int64()),
                "k": pa.array(keys, mask=self.values.random(rows) < 0.01),
                "v": pa.array(self.values.integers(-50, 50, rows)),
                "x": pa.array(self.values.random(rows) * 100, mask=self.values.random(rows) < 0.02),
                "id": pa.array(np.arange(rows)),
            }
        )

    @cached_property
    def query(self) -> dict[str, Any]:
        """The arguments of an interval join."""
        return {
            "on": "ts",
            "by": "k",
            "lower": self.lower,
            "upper": self.upper,
            "closed": self.closed,
            "threads": self.threads,
        }

    def pairs(self, **changes: Any) -> Rows:
        """Return the batches of an interval join."""
        given = {"left": self.left, "right": self.right, **self.query, **changes}
        return tg.interval_join_batches(given.pop("left"), given.pop("right"), **given)

    def partners(self, **changes: Any) -> pa.Table:
        """Return each left row with aggregates of its partners."""
        given = {"left": self.left, "right": self.right, **self.query, "aggs": AGGS, **changes}
        return tg.interval_join(given.pop("left"), given.pop("right"), **given)

    def file(self, name: str, table: pa.Table) -> Path:
        """Return a Parquet file with the rows of a table."""
        path = self.folder / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=max(1, len(table) // 7))
        return path


AGGS = {
    "n": agg.count(),
    "sum": agg.sum("v"),
    "least": agg.min("v"),
    "most": agg.max("v"),
    "last": agg.last("id"),
    "top": agg.max("x"),
}


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    """Return a table in which a column has other values."""
    return table.set_column(table.schema.get_field_index(name), name, values)


def mapped(table: pa.Table, change: Callable[[Any], Any], name: str = "ts") -> pa.Table:
    """Return a table in which a function has changed a column."""
    return with_column(table, name, change(table[name]))


def padded(table: pa.Table, schema: pa.Schema, names: Mapping[str, str]) -> pa.Table:
    """Return a table with the columns of a schema, some under other names; others are null."""
    columns = [
        table[names.get(one.name, "")]
        if names.get(one.name) in table.column_names
        else pa.nulls(len(table), one.type)
        for one in schema
    ]
    return pa.table(columns, schema=schema)


# Outer joins


@relation
def a_full_join_is_the_inner_join_and_both_anti_joins(world: World) -> Sides:
    full, inner = world.pairs(how="full"), world.pairs()
    backwards = {"lower": -world.upper, "upper": -world.lower, "closed": MIRRORED[world.closed]}
    of_left = tg.interval_join(world.left, world.right, **world.query, how="anti")
    of_right = tg.interval_join(world.right, world.left, **{**world.query, **backwards}, how="anti")
    left_names = {name: name for name in ("ts", "k", "v", "x", "id")}
    right_names = {"k": "k", **{f"{name}_right": name for name in ("ts", "v", "x", "id")}}
    schema = full.schema
    names = {name: name for name in schema.names}
    return [full], [
        padded(pa.Table.from_batches(inner, inner.schema), schema, names),
        padded(of_left, schema, left_names),
        padded(of_right, schema, right_names),
    ]


MIRRORED = {"both": "both", "neither": "neither", "left": "right", "right": "left"}


@relation
def a_left_row_is_either_matched_or_not(world: World) -> Sides:
    return [world.pairs(how="semi"), world.pairs(how="anti")], [world.left]


@relation
def a_left_join_with_functions_keeps_the_unmatched_rows(world: World) -> Sides:
    kept = world.partners()
    inner, lost = world.partners(how="inner"), world.pairs(how="anti")
    none = pa.Table.from_batches(lost, lost.schema)
    for name in AGGS:
        kind = kept.schema.field(name).type
        values = pa.array([0] * len(none), kind) if name == "n" else pa.nulls(len(none), kind)
        none = none.append_column(name, values)
    return [kept], [inner, none]


# Conditions


@relation
def a_condition_is_true_or_false_or_null(world: World) -> Sides:
    condition = (left.x * 2 - right.x) > right.v
    parts = [condition, ~condition, condition.is_null()]
    return [world.pairs()], [world.pairs(where=part) for part in parts]


@relation
def a_condition_hidden_from_the_scan_selects_the_same_pairs(world: World) -> Sides:
    limit = world.chance.randrange(-20, 60)
    condition = world.chance.choice(
        [
            f"left.v < right.v + {limit}",
            f"right.x > {limit}",
            f"left.v + right.v = {limit}",
            f"left.x between right.x - {abs(limit)} and right.x + 3",
        ]
    )
    hidden = f"case when {condition} then true else false end"
    return [world.pairs(where=condition)], [world.pairs(where=hidden)]


@relation
def a_condition_on_one_side_is_a_filter_of_that_side(world: World) -> Sides:
    few = world.right.filter(pc.greater(world.right["x"], 40.0))
    return [world.pairs(where="right.x > 40")], [world.pairs(right=few)]


# Intervals


@relation
def adjacent_intervals_partition_the_interval(world: World) -> Sides:
    first = "left" if world.closed in {"both", "left"} else "neither"
    second = "both" if world.closed in {"both", "right"} else "left"
    if world.closed in {"right", "neither"} and world.middle == world.lower:
        return [world.pairs()], [world.pairs()]
    if world.closed in {"left", "neither"} and world.middle == world.upper:
        return [world.pairs()], [world.pairs()]
    return [world.pairs()], [
        world.pairs(upper=world.middle, closed=first),
        world.pairs(lower=world.middle, closed=second),
    ]


@relation
def functions_of_adjacent_intervals_add_up(world: World) -> Sides:
    own = [
        {"upper": world.middle, "closed": "left"},
        {"lower": world.middle, "closed": "both"},
    ]
    functions = {
        f"{name}{number}": make
        for number, interval in enumerate(own)
        for name, make in (
            ("n", agg.count(**interval)),
            ("sum", agg.sum("v", **interval)),
            ("most", agg.max("v", **interval)),
        )
    }
    whole = world.partners(closed="both", columns=["id"]).select(["id", "n", "sum", "most"])
    parts = world.partners(closed="both", columns=["id"], aggs=functions)
    totals = pc.add(pc.coalesce(parts["sum0"], 0), pc.coalesce(parts["sum1"], 0))
    count = pc.add(parts["n0"], parts["n1"])
    added = pa.table(
        {
            "id": parts["id"],
            "n": count,
            "sum": pc.if_else(pc.equal(count, 0), None, totals),
            "most": pc.max_element_wise(parts["most0"], parts["most1"]),
        }
    )
    return [whole], [added.cast(whole.schema)]


@relation
def each_function_has_the_value_of_a_call_of_its_own(world: World) -> Sides:
    interval = {"lower": world.lower - 3, "upper": world.middle, "closed": "right"}
    both = world.partners(aggs={"n": agg.count(), "m": agg.sum("v", **interval)}, columns=["id"])
    one = world.partners(aggs={"n": agg.count()}, columns=["id"])
    other = world.partners(aggs={"m": agg.sum("v")}, columns=[], **interval)
    return [both], [one.append_column("m", other["m"])]


@relation
def a_bound_from_a_constant_column_is_the_constant(world: World) -> Sides:
    reach = pa.array(np.full(len(world.left), world.upper))
    with_reach = world.left.append_column("reach", reach)
    bounded = world.pairs(left=with_reach, upper=left.reach, columns=["id", "id_right"])
    return [world.pairs(columns=["id", "id_right"])], [bounded]


@relation
def sides_and_bounds_can_be_swapped(world: World) -> Sides:
    swapped = world.pairs(
        left=world.right,
        right=world.left,
        lower=-world.upper,
        upper=-world.lower,
        closed=MIRRORED[world.closed],
        columns=["id_right", "id"],
    )
    pairs = world.pairs(columns=["id", "id_right"])
    renamed = pa.Table.from_batches(swapped, swapped.schema).rename_columns(pairs.schema.names)
    return [pairs], [renamed]


@relation
def time_can_be_mirrored(world: World) -> Sides:
    backwards = [mapped(table, pc.negate) for table in (world.left, world.right)]
    mirrored = world.pairs(
        left=backwards[0],
        right=backwards[1],
        lower=-world.upper,
        upper=-world.lower,
        closed=MIRRORED[world.closed],
        columns=["id", "id_right"],
    )
    return [world.pairs(columns=["id", "id_right"])], [mirrored]


@relation
def time_can_be_shifted(world: World) -> Sides:
    by = world.chance.choice([-(10**15), 7, 10**12])
    shifted = [mapped(table, lambda ts: pc.add(ts, by)) for table in (world.left, world.right)]
    functions = dict.fromkeys(AGGS)
    of_shifted = world.partners(left=shifted[0], right=shifted[1], columns=["id"])
    assert [*functions] == of_shifted.column_names[1:]
    return [world.partners(columns=["id"])], [of_shifted]


@relation
def times_can_have_other_units(world: World) -> Sides:
    def stamped(table: pa.Table, unit: str) -> pa.Table:
        seconds = table["ts"].cast(pa.timestamp("s"))
        return with_column(table, "ts", seconds.cast(pa.timestamp(unit)))

    one, other = (world.chance.choice(["s", "ms", "us", "ns"]) for _ in range(2))
    timed = world.partners(
        left=stamped(world.left, one),
        right=stamped(world.right, other),
        lower=f"{world.lower}s",
        upper=f"{world.upper}s",
        columns=["id"],
    )
    return [world.partners(columns=["id"])], [timed]


# Keys


@relation
def keys_can_be_renamed(world: World) -> Sides:
    def named(table: pa.Table) -> pa.Table:
        texts = pc.binary_join_element_wise("key", table["k"].cast(pa.string()), "-")
        return with_column(table, "k", texts)

    texts = world.partners(left=named(world.left), right=named(world.right), columns=["id"])
    return [world.partners(columns=["id"])], [texts]


@relation
def keys_can_be_joined_one_part_at_a_time(world: World) -> Sides:
    parts = []
    for rest in range(3):
        halves = []
        for table in (world.left, world.right):
            part = pc.subtract(table["k"], pc.multiply(pc.divide(table["k"], 3), 3))
            halves.append(table.filter(pc.equal(part, rest)))
        parts.append(world.pairs(left=halves[0], right=halves[1]))
    return [world.pairs()], parts


@relation
def without_keys_an_equal_constant_is_the_key(world: World) -> Sides:
    few = [table.slice(0, 2000) for table in (world.left, world.right)]
    same = [with_column(table, "k", pa.array(np.zeros(len(table)), pa.int64())) for table in few]
    columns = {"columns": ["id", "id_right"]}
    one = world.pairs(left=few[0], right=few[1], by=None, **columns)
    return [one], [world.pairs(left=same[0], right=same[1], **columns)]


# Forms of a call


@relation
def a_memory_limit_does_not_change_the_rows(world: World) -> Sides:
    files = [world.file("left", world.left), world.file("right", world.right)]
    how = world.chance.choice(["inner", "left", "full", "semi", "anti"])
    limited = world.pairs(left=files[0], right=files[1], how=how, memory_limit="128MB")
    return [world.pairs(how=how)], [limited]


@relation
def tasks_return_the_rows_of_the_call(world: World) -> Sides:
    files = {name: world.file(name, getattr(world, name)) for name in ("left", "right")}
    given = {key: value for key, value in world.query.items() if key != "threads"}
    plan = tg.tasks(
        tg.interval_join,
        files["left"],
        files["right"],
        **given,
        scratch=tempfile.mkdtemp(dir=world.folder),
        target=max(1, world.rows * world.chance.randrange(3, 20)),
    )
    *before, tasks = plan.stages
    for stage in before:
        for preparation in stage:
            preparation.run()
    return [world.pairs()], [task.run() for task in tasks]


@relation
def an_operator_returns_the_rows_of_the_call(world: World) -> Sides:
    given = dict(world.query)
    operator = tg.IntervalJoin(world.left.schema, world.right.schema, **given)
    found = []
    for table, source in zip((world.left, world.right), operator.sources, strict=True):
        source.push(table.sort_by("ts"))
        source.close()
    while (batch := operator.poll()) is not None:
        found.append(batch)
    return [world.pairs()], [pa.Table.from_batches(found, operator.schema)]


@relation
def an_index_returns_the_rows_of_the_table(world: World) -> Sides:
    index = tg.Index(world.right, on="ts", by="k")
    return [world.pairs()], [world.pairs(right=index)]


@relation
def any_number_of_threads_returns_the_same_rows(world: World) -> Sides:
    return [world.pairs(threads=1)], [world.pairs(threads=4)]


# Other joins and aggregations


@relation
def an_as_of_join_is_the_last_of_all_earlier_rows(world: World) -> Sides:
    keys = {"on": "ts", "by": "k", "threads": world.threads}
    found = tg.asof_join(world.left, world.right, **keys, columns=["id", "id_right"])
    last = {"id_right": agg.last("id")}
    same = tg.interval_join(
        world.left, world.right, **keys, lower=None, upper=0, aggs=last, columns=["id"]
    )
    return [found], [same]


@relation
def a_forward_as_of_join_is_the_first_of_all_later_rows(world: World) -> Sides:
    keys = {"on": "ts", "by": "k", "threads": world.threads}
    most = world.width
    found = tg.asof_join(
        world.left,
        world.right,
        **keys,
        strategy="forward",
        tolerance=most,
        columns=["id", "id_right"],
    )
    first = {"id_right": agg.first("id")}
    same = tg.interval_join(
        world.left, world.right, **keys, lower=0, upper=most, aggs=first, columns=["id"]
    )
    return [found], [same]


@relation
def a_prevailing_row_is_the_as_of_match_of_the_start(world: World) -> Sides:
    keys = {"on": "ts", "by": "k", "threads": world.threads}
    last = {"id_right": agg.last("id", prevailing=True)}
    found = tg.interval_join(
        world.left, world.right, **keys, lower=0, upper=0, aggs=last, columns=["id"]
    )
    return [found], [tg.asof_join(world.left, world.right, **keys, columns=["id", "id_right"])]


@relation
def points_that_overlap_have_the_same_time(world: World) -> Sides:
    pairs = world.pairs(lower=0, upper=0, closed="both", columns=["id", "id_right"])
    overlaps = tg.overlap_join_batches(
        world.left,
        world.right,
        on=("ts", "ts"),
        by="k",
        columns=["id", "id_right"],
        threads=world.threads,
    )
    return [pairs], [overlaps]


@relation
def intervals_that_contain_a_point_are_an_interval_join(world: World) -> Sides:
    stays = world.right.append_column("end", pc.add(world.right["ts"], world.width))
    overlaps = tg.overlap_join_batches(
        world.left,
        stays,
        on=(("ts", "ts"), ("ts", "end")),
        by="k",
        columns=["id", "id_right"],
        threads=world.threads,
    )
    within = {"lower": -world.width, "upper": 0, "closed": "both"}
    return [world.pairs(**within, columns=["id", "id_right"])], [overlaps]


@relation
def a_band_of_integers_is_an_interval(world: World) -> Sides:
    most = world.width
    bands = tg.band_join_batches(
        world.left,
        world.right,
        on="ts",
        within=most,
        by="k",
        columns=["id", "id_right"],
        threads=world.threads,
    )
    around = {"lower": -most, "upper": most, "closed": "both"}
    return [world.pairs(**around, columns=["id", "id_right"])], [bands]


@relation
def tumbling_windows_are_the_interval_join_of_a_grid(world: World) -> Sides:
    size = max(1, world.width)
    functions = {name: AGGS[name] for name in ("n", "sum", "least", "most")}
    known = world.right.filter(pc.is_valid(world.right["k"]))
    windows = tg.aggregate(known, on="ts", by="k", size=size, aggs=functions, threads=world.threads)
    grid = windows.select(["k", "window_start"])
    found = tg.interval_join(
        grid,
        known,
        on=("window_start", "ts"),
        by="k",
        lower=0,
        upper=size,
        closed="left",
        aggs=functions,
        threads=world.threads,
    )
    names = ["k", "window_start", *functions]
    return [windows.select(names)], [found.select(names)]


@relation
def windows_contain_each_row_once(world: World) -> Sides:
    size = max(1, world.width)
    one = tg.aggregate(
        world.left, on="ts", by="k", size=size, aggs={"n": agg.count(), "sum": agg.sum("v")}
    )
    counted = {name: pc.sum(one[name]).as_py() or 0 for name in ("n", "sum")}
    every = {"n": len(world.left), "sum": pc.sum(world.left["v"]).as_py() or 0}
    return [pa.table({name: [value] for name, value in counted.items()})], [
        pa.table({name: [value] for name, value in every.items()})
    ]


@relation
def sessions_begin_after_gaps(world: World) -> Sides:
    gap = max(1, world.width // 10)
    known = world.right.filter(pc.is_valid(world.right["k"])).select(["ts", "k"])
    sessions = tg.aggregate(
        known, on="ts", by="k", session=gap, aggs={"n": agg.count()}, threads=world.threads
    )
    rows = known.sort_by([("k", "ascending"), ("ts", "ascending")])
    ts, k = rows["ts"].to_numpy(), rows["k"].to_numpy()
    begins = np.ones(len(ts), bool)
    begins[1:] = (k[1:] != k[:-1]) | (ts[1:] - ts[:-1] >= gap)
    first = np.flatnonzero(begins)
    counts = np.diff(np.append(first, len(ts)))
    expected = pa.table({"k": k[first], "window_start": ts[first], "n": counts})
    names = ["k", "window_start", "n"]
    return [sessions.select(names)], [expected.cast(sessions.select(names).schema)]


@relation
def rolling_windows_of_distinct_times_are_a_self_join(world: World) -> Sides:
    rows = len(world.left)
    times = pa.array(world.values.permutation(self_times(rows)))
    table = with_column(world.left, "ts", times).filter(pc.is_valid(world.left["k"]))
    functions = {name: AGGS[name] for name in ("n", "sum", "last", "top")}
    size = max(1, world.width)
    rolled = tg.rolling(
        table, on="ts", by="k", size=size, aggs=functions, columns=["id"], threads=world.threads
    )
    joined = tg.interval_join(
        table,
        table,
        on="ts",
        by="k",
        lower=-size,
        upper=0,
        closed="right",
        aggs=functions,
        columns=["id"],
        threads=world.threads,
    )
    return [rolled], [joined]


def self_times(rows: int) -> np.ndarray[Any, Any]:
    """Return distinct times."""
    return np.arange(rows) * 3


@relation
def merging_sorted_parts_sorts_their_rows(world: World) -> Sides:
    table = world.left.sort_by("ts")
    count = world.chance.randrange(1, 6)
    numbers = pa.array(world.values.integers(0, count, len(table)))
    parts = [table.filter(pc.equal(numbers, number)) for number in range(count)]
    merged = tg.merge(parts, on="ts", threads=world.threads)
    # The order of the times must be the same, too.
    assert merged["ts"].equals(pa.chunked_array(table["ts"].chunks))
    return [merged], [table]


@relation
def features_are_the_functions_of_separate_joins(world: World) -> Sides:
    views = {
        "a": tg.FeatureView(world.right, aggs={"n": agg.count(lower=-world.width)}),
        "b": tg.FeatureView(world.right, columns=["id"], available_after=world.width // 3),
    }
    found = tg.features(world.left, views, on="ts", by="k", columns=["id"], threads=world.threads)
    keys = {"on": "ts", "by": "k", "threads": world.threads}
    count = tg.interval_join(
        world.left,
        world.right,
        **keys,
        lower=-world.width,
        upper=0,
        columns=["id"],
        aggs={"a_n": agg.count()},
    )
    earlier = mapped(world.left, lambda ts: pc.subtract(ts, world.width // 3))
    last = tg.asof_join(earlier, world.right, **keys, columns=["id_right"])
    return [found], [count.append_column("b_id", last["id_right"])]


@relation
def as_of_matches_at_offsets_are_those_of_shifted_rows(world: World) -> Sides:
    keys = {"on": "ts", "by": "k", "threads": world.threads}
    offsets = sorted({0, world.width, world.lower})
    found = tg.asof_join(
        world.left, world.right, **keys, at=offsets, long=True, columns=["id", "at", "id_right"]
    )
    parts = []
    for offset in offsets:
        shifted = mapped(world.left, lambda ts, by=offset: pc.add(ts, by))
        part = tg.asof_join(shifted, world.right, **keys, columns=["id", "id_right"])
        at = pa.array(np.full(len(part), offset), found.schema.field("at").type)
        parts.append(part.append_column("at", at).select(found.column_names))
    return [found], parts


@relation
def the_last_partners_are_the_ends_of_lists(world: World) -> Sides:
    count = world.chance.randrange(1, 5)
    keys = {"on": "ts", "by": "k", "threads": world.threads}
    found = tg.asof_join(world.left, world.right, **keys, n=count, columns=["id", "id_right"])
    lists = {"id_right": agg.last("id", count)}
    same = tg.interval_join(
        world.left, world.right, **keys, lower=None, upper=0, aggs=lists, columns=["id"]
    )
    # A row without partners has no list in one of them.
    is_matched = pc.is_valid(same["id_right"])
    return [found.filter(is_matched)], [same.filter(is_matched)]


@relation
def a_limit_of_all_partners_changes_nothing(world: World) -> Sides:
    order = world.chance.choice(["first", "last", "nearest"])
    return [world.pairs()], [world.pairs(limit=len(world.right) + 1, order=order)]


@relation
def the_first_partners_come_first_in_the_pairs(world: World) -> Sides:
    limit = world.chance.randrange(1, 4)
    every = pa.Table.from_batches(list(world.pairs(columns=["id", "ts_right", "id_right"])))
    rows = every.sort_by([(name, "ascending") for name in ("id", "ts_right", "id_right")])
    ids = rows["id"].to_numpy()
    first = np.searchsorted(ids, ids)
    few = rows.filter(pa.array(np.arange(len(ids)) - first < limit))
    return [world.pairs(limit=limit, order="first", columns=rows.column_names)], [few]


@relation
def a_stream_of_intervals_overlaps_as_the_tables_do(world: World) -> Sides:
    lengths = [
        pa.array(world.values.integers(0, world.width, len(one)))
        for one in (world.left, world.right)
    ]
    stays = [
        table.append_column("end", pc.add(table["ts"], length)).sort_by("ts")
        for table, length in zip((world.left, world.right), lengths, strict=True)
    ]
    query = {"on": ("ts", "end"), "by": "k", "threads": world.threads}
    operator = tg.OverlapJoin(stays[0].schema, stays[1].schema, **query, max_width=world.width)
    for table, source in zip(stays, operator.sources, strict=True):
        source.push(table)
        source.close()
    found = []
    while (batch := operator.poll()) is not None:
        found.append(batch)
    return [tg.overlap_join_batches(*stays, **query)], [
        pa.Table.from_batches(found, operator.schema)
    ]


@relation
def three_tables_join_as_nested_calls(world: World) -> Sides:
    few = world.right.take(pa.array(world.values.integers(0, len(world.right), 200)))
    first = {name: value for name, value in world.query.items() if name != "threads"}
    then = {"on": ("ts_right", "ts"), "by": "k", "lower": -world.width, "upper": 0}
    columns = ["id", "id_right", "id_last"]
    pairs = world.pairs()
    nested = tg.interval_join(pairs, few, **then, suffix="_last", columns=columns)
    steps = [
        tg.Step(tg.interval_join, world.right, **first),
        tg.Step(tg.interval_join, few, **then, suffix="_last", columns=columns),
    ]
    return [nested], [tg.join_all(world.left, *steps)]

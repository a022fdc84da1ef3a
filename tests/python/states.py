"""Operators of every kind in a state worth a snapshot, and their input after the snapshot.

The kept snapshots in `tests/data/golden` are from these operators, so an existing kind must stay
unchanged. Add a new kind for a new feature.
"""

import datetime as dt
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pyarrow as pa

from cases import array
from tidegate import (
    Aggregate,
    AsofJoin,
    BandJoin,
    IntervalJoin,
    Merge,
    Operator,
    OverlapJoin,
    Rolling,
    WindowJoin,
    agg,
    rows,
)

STRUCT = pa.struct([("a", pa.int16()), ("b", pa.list_(pa.dictionary(pa.int8(), pa.string())))])
PAYLOAD = {
    "flag": pa.bool_(),
    "small": pa.int8(),
    "text": pa.string(),
    "view": pa.string_view(),
    "word": pa.dictionary(pa.int32(), pa.large_string()),
    "price": pa.decimal128(20, 3),
    "day": pa.date32(),
    "at": pa.timestamp("us", "Europe/Berlin"),
    "raw": pa.binary(3),
    "nested": pa.list_(STRUCT),
    "pairs": pa.map_(pa.string(), pa.float32()),
    "nothing": pa.null(),
}
LEFT = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.float64()), *PAYLOAD.items()])
RIGHT = pa.schema(
    [("ts", pa.int32()), ("k", pa.dictionary(pa.int8(), pa.string())), ("x", pa.float64())]
)
SPAN = pa.schema(
    [("ts", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("until", pa.int64())]
)


def value(name: str, ts: int) -> object:
    """Return a value for a column of a row; every seventh is null."""
    if ts % 7 == 3 and name != "ts":
        return None
    return {
        "ts": ts,
        "k": "abc"[ts % 3],
        "x": float(ts * 5 % 9) - 2.5,
        "flag": ts % 2 == 0,
        "small": ts % 100,
        "text": "text " * (ts % 4),
        "view": f"a text that is too long for a view, number {ts}",
        "word": f"word {ts % 2}",
        "price": Decimal(ts * 1001).scaleb(-3),
        "day": dt.date(2001, 1, 1) + dt.timedelta(ts % 365),
        "at": dt.datetime(2001, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=ts % 9_000),
        "raw": bytes([ts % 256] * 3),
        "nested": [{"a": ts % 50, "b": ["u", None, "v"][: ts % 4]}] * (ts % 3),
        "pairs": [("p", 0.5 * ts)] * (ts % 2),
        "nothing": None,
        "until": ts + ts % 6,
    }[name]


@functools.cache
def _table(schema: pa.Schema, times: tuple[int, ...]) -> pa.Table:
    arrays = [array([value(column.name, ts) for ts in times], column.type) for column in schema]
    return pa.table(arrays, schema=schema)


def table(schema: pa.Schema, times: list[int]) -> pa.Table:
    """Create rows with these times."""
    return _table(schema, tuple(times))


@dataclass(frozen=True)
class Kind:
    """An operator, the times that its sources push before the snapshot, and those after it."""

    make: Callable[[], Operator]
    schemas: list[pa.Schema]
    before: list[list[list[int]]]
    after: list[list[int]]
    advance: dict[int, int] = field(default_factory=dict)
    closed: tuple[int, ...] = ()
    # Idle sources that resume later, and added sources, each with its side and the times it pushes.
    idle: tuple[int, ...] = ()
    added: tuple[tuple[str | None, list[int]], ...] = ()

    def used(self) -> Operator:
        """Create an operator in a state with kept, waiting and late rows, and results."""
        operator = self.make()
        for number, pushes in enumerate(self.before):
            for times in pushes:
                operator.sources[number].push(table(self.schemas[number], times))
        for number, ts in self.advance.items():
            operator.sources[number].advance(ts)
        for number in self.closed:
            operator.sources[number].close()
        for number in self.idle:
            operator.sources[number].idle()
        for (side, times), schema in zip(self.added, self.schemas[len(self.before) :], strict=True):
            source = operator.add_source(side=side, since=times[0])
            source.push(table(schema, times))
        # One batch is returned; later ones are in the snapshot.
        operator.poll()
        return operator

    def rest(self, operator: Operator) -> Iterator[pa.RecordBatch]:
        """Push the remaining rows, and return the results, followed by the late rows."""
        # A newly created operator has no added sources.
        for source, times in zip(operator.sources, self.after, strict=False):
            if source.number not in self.closed:
                source.push(table(self.schemas[source.number], times))
            source.close()
        yield from operator
        yield from operator.late().to_batches()

    def go_on(self, operator: Operator) -> list[dict[str, object]]:
        """Return the rows of `rest`."""
        return [row for batch in self.rest(operator) for row in batch.to_pylist()]


def joined(make: Callable[..., Operator], *schemas: pa.Schema, **arguments: object) -> Kind:
    """Create a join of two left sources and a right one, with out-of-order and late rows."""
    options = {"sources": (2, 1), "lateness": 2, "threads": 1, "pin": False}
    left, right = schemas or (LEFT, RIGHT)
    return Kind(
        lambda: make(left, right, **(options | arguments)),
        [left, left, right],
        [[[1, 4, 3, 9], [2, 12, 11]], [[2, 3, 8, 15]], [[0, 1, 6, 2, 9], [13]]],
        [[12, 14, 30], [14, 15, 21], [12, 16, 22]],
    )


def aggregated(schema: pa.Schema = LEFT, **arguments: object) -> Kind:
    """Create an aggregation of two sources, one of which is closed."""
    options: dict[str, object] = {"on": "ts", "sources": 2, "lateness": 2, "threads": 1}
    return Kind(
        lambda: Aggregate(schema, **(options | arguments)),
        [schema] * 2,
        [[[1, 4, 3, 9], [2, 12, 11]], [[2, 3, 8, 14]]],
        [[11, 14, 30, 41], []],
        closed=(1,),
    )


def rolled(**arguments: object) -> Kind:
    """Create rolling windows over the same two sources."""
    kind = aggregated(aggs=FUNCTIONS)
    options: dict[str, object] = {"on": "ts", "sources": 2, "lateness": 2, "threads": 1}
    return replace(kind, make=lambda: Rolling(LEFT, aggs=FUNCTIONS, **(options | arguments)))


def merged(schema: pa.Schema = LEFT) -> Kind:
    """Create a merge of three sources; one is closed, and another holds back the rest."""
    return Kind(
        lambda: Merge(schema, on="ts", sources=3, lateness=2, threads=1),
        [schema] * 3,
        [[[1, 4, 3, 9], [2, 12, 11]], [[2, 3, 8, 15]], [[0, 1, 6, 2, 7]]],
        [[12, 14, 30], [], [9, 8, 16, 22]],
        closed=(1,),
    )


def changed(kind: Kind, *added: tuple[str | None, list[int]], idle: int) -> Kind:
    """Make a kind with an idle source and with added ones, which are part of its snapshots."""
    schemas = [*kind.schemas, *(RIGHT if side == "right" else LEFT for side, _ in added)]
    after = [*kind.after, *([[25, 33]] * len(added))]
    return replace(kind, schemas=schemas, after=after, idle=(idle,), added=added)


FUNCTIONS = {
    "n": agg.count(),
    "sum": agg.sum("small"),
    "total": agg.sum("price"),
    "mean": agg.mean("x"),
    "least": agg.min("text"),
    "most": agg.max("price"),
    "early": agg.min("at"),
    "first": agg.first("nested"),
    "last": agg.last("word", where="x > 0"),
    "var": agg.var("x"),
    "std": agg.std("small"),
}
PARTNERS = {
    "n": agg.count(),
    "mean": agg.mean("x"),
    "first": agg.first("ts"),
    "largest": agg.max("x", where="x > 0"),
}
INTERVAL = {"on": "ts", "by": "k", "lower": -3, "upper": 2}
WINDOW = {"on": "ts", "window": (4, 3), "where": "abs(left.x - right.x) <= 3"}
BAND = {"on": "x", "within": 2, "time": "ts", "window": 5}

KINDS: dict[str, Kind] = {
    "merge": merged(),
    "interval-full": joined(IntervalJoin, how="full", **INTERVAL),
    "interval-semi": joined(IntervalJoin, how="semi", **INTERVAL),
    "interval-inner-unordered": joined(IntervalJoin, ordered=False, **INTERVAL),
    "interval-without-columns": joined(IntervalJoin, columns=[], **INTERVAL),
    "interval-scale-oij": joined(IntervalJoin, parallelism="scale-oij", **INTERVAL),
    "interval-data": joined(IntervalJoin, parallelism="data", how="anti", **INTERVAL),
    "window-rows": joined(WindowJoin, on="ts", window=(rows(2), rows(3)), by="k", how="left"),
    "band-full": joined(BandJoin, how="full", by="k", **BAND),
    "band-rows": joined(BandJoin, **(BAND | {"window": rows(3)})),
    "windows": aggregated(by=["k", "flag"], size=6, advance=4, aggs=FUNCTIONS),
    "windows-uneven": aggregated(by="word", size=5, advance=3, offset=1, aggs=FUNCTIONS),
    "windows-without-key": aggregated(size=4, aggs={"n": agg.count(), "m": agg.max("text")}),
    "sessions": aggregated(by="k", session=3, aggs=FUNCTIONS),
    "sessions-of-numbers": aggregated(
        session=2, by="x", aggs={"n": agg.count(), "s": agg.sum("x")}, where="small > 1"
    ),
}
KINDS |= {
    "partners-interval": joined(IntervalJoin, aggs=PARTNERS, prevailing=True, **INTERVAL),
    "partners-window": joined(WindowJoin, aggs=PARTNERS, how="inner", **WINDOW),
    "partners-band": joined(BandJoin, aggs=PARTNERS, **BAND),
    "asof-backward": joined(AsofJoin, on="ts", by="k", where="right.x > 0"),
    "asof-forward": joined(AsofJoin, on="ts", by="k", strategy="forward", tolerance=4),
    "asof-nearest": joined(AsofJoin, on="ts", strategy="nearest", how="inner"),
}
KINDS |= {
    f"window-{algorithm}": joined(WindowJoin, algorithm=algorithm, how="left", **WINDOW)
    for algorithm in (
        "scalejoin", "scalejoin-gates", "splitjoin", "handshake", "low-latency-handshake", "cell",
        "three-step"
    )
}  # fmt: skip
KINDS |= {
    f"band-{algorithm}": joined(BandJoin, algorithm=algorithm, how="right", **BAND)
    for algorithm in ("buckets", "pim-tree", "im-tree", "b-chain", "ibwj", "ibwj-bplus-tree")
}
KINDS |= {
    f"windows-{algorithm}": aggregated(
        by="k", size=6, advance=4, aggs=FUNCTIONS, algorithm=algorithm
    )
    for algorithm in ("mq", "wiml")
}
KINDS |= {
    "merge-changed": changed(merged(), (None, [15, 16]), (None, [17]), idle=2),
    "interval-changed": changed(
        joined(IntervalJoin, how="full", **INTERVAL), ("right", [15, 17]), ("left", [15]), idle=1
    ),
}
LISTED = pa.table(
    {"window_start": [0, 2, 8, 9, 13], "window_end": [5, 13, 40, 31, 42], "k": [*"abcab"]}
)
TIMED = {"held": agg.time_weighted_mean("x"), "recent": agg.ewm_mean("x", 3)}
LISTS = {"first": agg.first("text", 2), "top": agg.top("price", 2, by="x")}
KINDS |= {
    "rolling-time": rolled(by="k", size=6, closed="both"),
    "rolling-rows": rolled(by=["k", "flag"], size=rows(3)),
    "windows-of-rows": aggregated(by="k", size=rows(3), advance=rows(2), aggs=FUNCTIONS),
    "windows-listed": aggregated(by="k", windows=LISTED, aggs=FUNCTIONS),
    "windows-filled": aggregated(
        by="k", size=3, aggs={**FUNCTIONS, **LISTS}, empty="last", keep=12
    ),
    "windows-timed": aggregated(by="k", size=6, advance=3, aggs=TIMED),
}
KINDS |= {
    "windows-closed-right": aggregated(by="k", size=6, advance=4, closed="right", aggs=FUNCTIONS),
    "windows-growing": aggregated(by="k", size=8, step=3, offset=1, aggs=FUNCTIONS),
    "windows-growing-filled": aggregated(
        by="k", size=8, step=3, aggs={**FUNCTIONS, **LISTS}, empty="last", keep=12
    ),
    "sessions-of-gaps": aggregated(
        by="k", session="small % 5 + 1", where="small IS NOT NULL", aggs=FUNCTIONS
    ),
}
# Rows that are longer than `max_width` are among the late rows.
KINDS |= {
    "overlap-full": joined(
        OverlapJoin, SPAN, SPAN, on=("ts", "until"), by="k", how="full", max_width=4
    ),
    "partners-overlap": joined(
        OverlapJoin, LEFT, SPAN, on=(("ts", "ts"), ("ts", "until")), aggs=PARTNERS, max_width=4
    ),
}

"""Deterministic, multicore joins and aggregations of event streams in Arrow format.

Pairs of rows that share a key and lie within a time interval of each other:

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> trades = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
    >>> quotes = pa.table({"ts": [8, 19, 29, 31], "sym": ["A", "B", "A", "A"], "bid": [9, 8, 7, 6]})
    >>> tg.interval_join(trades, quotes, on="ts", by="sym", lower=-2, upper=0).to_pylist()[0]
    {'ts': 10, 'sym': 'A', 'price': 1.0, 'ts_right': 8, 'bid': 9}

Each row with the last earlier row that has the same key:

    >>> tg.asof_join(trades, quotes, on="ts", by="sym")["bid"].to_pylist()
    [9, 8, 7]

Pairs of rows whose values are close in one or more columns:

    >>> tg.band_join(trades, quotes, on=[("price", "bid")], within=4.5)["bid"].to_pylist()
    [6, 7, 6]

Pairs of rows whose intervals overlap:

    >>> alarms = pa.table({"start": [10, 20], "end": [15, 29], "alarm": ["A", "B"]})
    >>> jobs = pa.table({"start": [0, 16], "end": [12, 21], "job": ["x", "y"]})
    >>> tg.overlap_join(alarms, jobs, on=("start", "end"), columns=["alarm", "job"]).to_pylist()
    [{'alarm': 'A', 'job': 'x'}, {'alarm': 'B', 'job': 'y'}]

Pairs of rows within each other's sliding windows, with any condition:

    >>> near = abs(tg.left.price - tg.right.bid) <= 6
    >>> tg.window_join(trades, quotes, on="ts", window=tg.rows(2), where=near).num_rows
    7

Aggregates by key over sliding windows of time:

    >>> tg.aggregate(
    ...     trades, on="ts", size=20, advance=10, by="sym", aggs={"n": tg.agg.count()}
    ... ).to_pylist()[1]
    {'window_start': 10, 'window_end': 30, 'sym': 'A', 'n': 1}

Sorted streams merged into one, in an order that depends only on their rows:

    >>> tg.merge([quotes.slice(0, 2), quotes.slice(2)])["ts"].to_pylist()
    [8, 19, 29, 31]
"""

from typing import TYPE_CHECKING

import tidegate.runtime.main_interpreter  # noqa: F401 - must be imported first
from tidegate import agg
from tidegate._tidegate import (
    BatchReader,
    ClosedError,
    Digest,
    MemoryLimitError,
    MergeReader,
    Operator,
    OrderError,
    SchemaError,
    Source,
    StateError,
    StreamJoin,
    TidegateError,
    __version__,
    default_threads,
    release_memory,
)
from tidegate.calendars import calendar
from tidegate.calls.digests import update
from tidegate.calls.explain import explain
from tidegate.calls.features import Features, features, features_batches
from tidegate.calls.functions import (
    Aggregate,
    AsofJoin,
    BandJoin,
    IntervalJoin,
    Merge,
    OverlapJoin,
    Rolling,
    WindowJoin,
    aggregate,
    aggregate_batches,
    asof_join,
    asof_join_batches,
    band_join,
    band_join_batches,
    digest,
    interval_join,
    interval_join_batches,
    merge,
    merge_batches,
    overlap_join,
    overlap_join_batches,
    rolling,
    rolling_batches,
    window_join,
    window_join_batches,
)
from tidegate.calls.index import METHODS, Index, open_index
from tidegate.calls.join_all import Step, join_all, join_all_batches
from tidegate.calls.point_in_time import check_point_in_time
from tidegate.calls.tasks import tasks
from tidegate.csv_files import CsvFiles, csv
from tidegate.expressions import Expr, case, left, right, row
from tidegate.feature_views import FeatureView
from tidegate.runtime.chain import Chain, RunningChain
from tidegate.runtime.methods import attach
from tidegate.runtime.metrics import metrics
from tidegate.runtime.running import Running
from tidegate.windows import Rows, rows

attach({Digest: {"update": update}, **METHODS})

if TYPE_CHECKING:
    from tidegate.slices.plan import TaskPlan
    from tidegate.slices.task import Task
else:

    def __getattr__(name: str) -> type:
        # Imported late, because these import pyarrow.
        if name == "Task":
            from tidegate.slices.task import Task  # noqa: PLC0415

            return Task
        if name == "TaskPlan":
            from tidegate.slices.plan import TaskPlan  # noqa: PLC0415

            return TaskPlan
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)


__all__ = [
    "Aggregate",
    "AsofJoin",
    "BandJoin",
    "BatchReader",
    "Chain",
    "ClosedError",
    "CsvFiles",
    "Digest",
    "Expr",
    "FeatureView",
    "Features",
    "Index",
    "IntervalJoin",
    "MemoryLimitError",
    "Merge",
    "MergeReader",
    "Operator",
    "OrderError",
    "OverlapJoin",
    "Rolling",
    "Rows",
    "Running",
    "RunningChain",
    "SchemaError",
    "Source",
    "StateError",
    "Step",
    "StreamJoin",
    "Task",
    "TaskPlan",
    "TidegateError",
    "WindowJoin",
    "__version__",
    "agg",
    "aggregate",
    "aggregate_batches",
    "asof_join",
    "asof_join_batches",
    "band_join",
    "band_join_batches",
    "calendar",
    "case",
    "check_point_in_time",
    "csv",
    "default_threads",
    "digest",
    "explain",
    "features",
    "features_batches",
    "interval_join",
    "interval_join_batches",
    "join_all",
    "join_all_batches",
    "left",
    "merge",
    "merge_batches",
    "metrics",
    "open_index",
    "overlap_join",
    "overlap_join_batches",
    "release_memory",
    "right",
    "rolling",
    "rolling_batches",
    "row",
    "rows",
    "tasks",
    "window_join",
    "window_join_batches",
]

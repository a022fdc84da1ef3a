"""The plan of a call on files, created from their footers; tasks read their own row groups."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow.dataset as ds
from pyspark.sql import DataFrame

import tidegate
from tidegate._tidegate import AggregationQuery
from tidegate.calls.explain import of_index
from tidegate.calls.inputs import elsewhere, listed, names
from tidegate.slices import aggregation, indexed, join
from tidegate.slices.footers import Source
from tidegate.spark.plan.checks import check_asked, check_columns, check_late_as, check_width
from tidegate.spark.plan.join import origins_of
from tidegate.spark.query.files import struct_of
from tidegate.spark.query.schema import Origin, arrow, told_apart
from tidegate.spark.worker.slices import RightByValue, RowsByValue, Sorted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from tidegate._tidegate import JoinQuery
    from tidegate.slices.cuts import Target
    from tidegate.slices.plan import TaskPlan
    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.plan.join import Plan
    from tidegate.spark.worker.slices import Sort
    from tidegate.types import Length
from tidegate.spark.worker.slices import Sort

Path: TypeAlias = str | os.PathLike[str]
Files: TypeAlias = Path | Sequence[Path] | ds.Dataset
"""An input that consists of Parquet files."""

Input: TypeAlias = DataFrame | Files
Right: TypeAlias = Input | tidegate.Index


class Division(NamedTuple):
    """The settings for dividing a call into tasks."""

    target: Target
    scratch: str | None
    """The folder for the files that preparation steps write."""


@dataclass(frozen=True)
class FilePlan:
    """A call on files, with checked arguments and divided into tasks."""

    session: SparkSession
    tasks: TaskPlan
    result: StructType
    columns: tuple[str, ...]
    """The result columns, by their names in the task results."""

    schema: pa.Schema
    """The types that these columns have when Spark receives them."""

    has_index: bool = False
    """Whether the right side is an index, whose file the tasks map."""


def are_files(inputs: Mapping[str, object]) -> bool:
    """Return whether the inputs of a call are files instead of DataFrames.

    Raises:
        tidegate.TidegateError: Some inputs are files, and others are DataFrames.
        TypeError: Some inputs are files, and others are neither files nor DataFrames.
    """
    kinds = {name: _is_files(one) for name, one in inputs.items()}
    if len({*kinds.values()}) < 2:  # noqa: PLR2004 - both kinds
        return bool(kinds) and all(kinds.values())
    files = next(name for name, is_files in kinds.items() if is_files)
    other = next(name for name, is_files in kinds.items() if not is_files)
    if not isinstance(inputs[other], DataFrame):
        kind = type(inputs[other])
        found = f"{kind.__module__}.{kind.__qualname__}"
        message = f"{other}: expected files, as for {files}, but got {found}; give the path of "
        message += "Parquet files, a list of paths, or a pyarrow dataset"
        raise TypeError(message)
    message = f"{files} is given as files, but {other} is a DataFrame, and tasks cannot find "
    message += f"its rows by time; give the Parquet files of {other}, or read {files} with "
    message += "spark.read.parquet"
    raise tidegate.TidegateError(message)


def _is_files(given: object) -> bool:
    if isinstance(given, list | tuple):
        return bool(given) and all(map(_is_files, given))
    return isinstance(given, str | os.PathLike | ds.Dataset)


def check_options(
    what: str, parallelism: str, late_as: str | None, max_width: Length | None = None
) -> None:
    """Reject options that a call on files does not support."""
    check_late_as(late_as, f"{what} of files", streams=False)
    check_width(max_width, streams=False)
    if parallelism not in ("auto", "files"):
        message = f"parallelism {parallelism!r} divides the rows of DataFrames, but the inputs are "
        message += "files; leave it out, or read the files with spark.read.parquet"
        raise tidegate.TidegateError(message)


def of_paths(
    session: SparkSession,
    query: JoinQuery,
    sides: tuple[Files, Files | tidegate.Index],
    columns: Sequence[str] | None,
    division: Division,
) -> FilePlan:
    """Plan a join of files. Right rows with equal times are in the order of the file or index."""
    check_columns(columns)
    query = query.replace(columns=None if columns is None else [*columns], threads=cpus(session))
    of_right = sides[1]
    left = elsewhere(lambda: Source.of(sides[0], "left"))
    if isinstance(of_right, tidegate.Index):
        native = query.plan(left.schema, of_right)
        check_asked(native.schema)
        tasks = _made(lambda: indexed.planned(query, left, of_right, division.target, of_index))
    else:
        right = elsewhere(lambda: Source.of(of_right, "right"))
        native = query.plan(left.schema, right.schema)
        check_asked(native.schema)
        tasks = _made(lambda: join.planned(query, left, right, *division))
    result, schema = struct_of(tasks.schema)
    if not query.arguments.get("aggs"):
        result = told_apart(session, result, origins_of(native), query.arguments["suffix"])
    has_index = isinstance(of_right, tidegate.Index)
    return FilePlan(session, tasks, result, tuple(schema.names), schema, has_index)


def of_scans(plan: Plan, sources: Sequence[Source], division: Division) -> FilePlan:
    """Plan a join of DataFrames' files. Right rows with equal times are ordered by value."""
    if plan.query.arguments.get("at") is not None:
        message = "the files of a DataFrame may have columns that change the names of the columns "
        message += "at each offset; give the paths of the files, or leave out 'files' and sink"
        raise tidegate.TidegateError(message)
    left, right = sources
    session, of_right = plan.left.sparkSession, plan.columns.right.names
    query = plan.query.native.replace(columns=None, threads=cpus(session))
    asked = [*plan.columns.native]
    columns = [*asked, *plan.query.aggs]
    if not plan.query.aggs:
        # Columns that the DataFrames do not have may change the names of others.
        origins = origins_of(query.plan(left.schema, right.schema))
        name_of = {origin: name for name, origin in origins.items()}
        columns = [name_of[origin] for origin in plan.columns.origins]
        asked = [*columns]
        if plan.query.is_asof and plan.query.native.how not in ("semi", "anti"):
            # All right columns determine the order of rows with equal times.
            every = (name_of.get(Origin("right", name)) for name in of_right)
            asked += [name for name in every if name is not None and name not in columns]
    tasks = _made(lambda: join.planned(query.replace(columns=asked), left, right, *division))
    if plan.order is not None:
        tasks = _sorted(tasks, RightByValue(plan.order, tuple(of_right)))
    schema = arrow(session, plan.columns.result)
    return FilePlan(session, tasks, plan.columns.result, tuple(columns), schema)


def windows_of_paths(
    session: SparkSession, query: AggregationQuery, streams: object, division: Division
) -> FilePlan:
    """Plan an aggregation of files. Rows with equal times are in file order."""
    every = listed(streams)
    query = query.replace(threads=cpus(session))
    tasks = _made(lambda: aggregation.planned(query, every, names(len(every)), *division))
    result, schema = struct_of(tasks.schema)
    return FilePlan(session, tasks, result, tuple(schema.names), schema)


def windows_of_scans(
    plan: AggregatePlan, sources: Sequence[Source], division: Division
) -> FilePlan:
    """Plan an aggregation of DataFrames' files. Rows are ordered by time, then by value."""
    session = plan.frames[0].sparkSession
    query = AggregationQuery(**plan.aggregation.arguments, threads=cpus(session))
    every = [source.name for source in sources]
    tasks = _made(lambda: aggregation.planned(query, sources, every, *division))
    if not plan.is_unordered:
        tasks = _sorted(tasks, RowsByValue(plan.aggregation.on, plan.sent, plan.in_days))
    schema = arrow(session, plan.result)
    return FilePlan(session, tasks, plan.result, tuple(tasks.schema.names), schema)


def _sorted(plan: TaskPlan, sort: Sort) -> TaskPlan:
    """Return the plan with its rows in the order used for DataFrames."""
    if plan.carries:
        message = "preparation steps write rows with equal times in file order, but "
        message += "DataFrames have no order; give the paths of the files, or leave out 'files'"
        raise tidegate.TidegateError(message)
    # The names of files distinguish this plan from that of the same files in their own order.
    call = plan._call  # noqa: SLF001 - of the package
    identity = call.identity + repr(sort).encode()
    return plan.with_call(work=Sorted(call.work, sort), identity=identity)


def _made(plan: Callable[[], TaskPlan]) -> TaskPlan:
    """Return the plan; user-defined functions must be known by name, so that tasks can be named."""
    try:
        return elsewhere(plan)
    except (pickle.PicklingError, AttributeError) as error:
        message = f"aggs: a function cannot be pickled ({error}); define it with def in a module"
        raise tidegate.TidegateError(message) from error


def cpus(session: SparkSession) -> int:
    """Return the number of threads that each Spark task uses."""
    return int(session.conf.get("spark.task.cpus", "1") or "1")

"""Decides whether the tasks of a call read the DataFrames' files themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow.fs as pafs

import tidegate
from tidegate.spark.driver.bins import measures, seconds
from tidegate.spark.driver.scan import scanned
from tidegate.spark.driver.tasks import division
from tidegate.spark.layout.costs import of_files
from tidegate.spark.plan.files import of_scans, windows_of_scans
from tidegate.spark.worker.pack import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tidegate.slices.footers import Source
    from tidegate.spark.layout.costs import Unsampled
    from tidegate.spark.plan.aggregate import AggregatePlan
    from tidegate.spark.plan.files import FilePlan
    from tidegate.spark.plan.join import Plan

# Up to this number of rows, `auto` does not look for files, because every form is fast.
_FEW = 250_000


class Files(NamedTuple):
    """Each task reads the files of its slice; `reason` explains why."""

    plan: FilePlan
    reason: str
    # The costs of all forms as text, if they were compared.
    costs: str | None = None


def of_join(plan: Plan) -> Files | str:
    """Return the plan if tasks should read the files of both sides, otherwise the reason."""
    of_sides = [(plan.left, plan.columns.left), (plan.right, plan.columns.right)]
    found = _scans(of_sides, NAMES)
    if isinstance(found, str):
        return found
    divided = division(plan.left.sparkSession, plan.partitions, plan.scratch)
    return _chosen(
        plan.parallelism,
        lambda: of_scans(plan, found, divided),
        [len(schema) for _, schema in of_sides],
        has_bins=plan.without_bins is None,
    )


def of_aggregation(plan: AggregatePlan) -> Files | str:
    """Return the plan if tasks should read the files of all streams, otherwise the reason."""
    if plan.aggregation.fills and plan.parallelism == "auto":
        return "windows without rows depend on the other windows of their key"
    schemas = [plan.empty.select(list(plan.sent)).schema] * len(plan.frames)
    found = _scans([*zip(plan.frames, schemas, strict=True)], plan.inputs)
    if isinstance(found, str):
        return found
    divided = division(plan.frames[0].sparkSession, plan.partitions, plan.scratch)
    return _chosen(
        plan.parallelism,
        lambda: windows_of_scans(plan, found, divided),
        [len(schema) for schema in schemas],
        has_bins=False,
    )


def _scans(
    inputs: Sequence[tuple[DataFrame, pa.Schema]], names: Sequence[str]
) -> list[Source] | str:
    """Return the files of all inputs, or the reason why an input is not read from its files."""
    sources = []
    for (frame, sent), name in zip(inputs, names, strict=True):
        found = scanned(frame, name, sent)
        if isinstance(found, str):
            return found
        sources.append(found)
    return sources


def _chosen(
    parallelism: str, made: Callable[[], FilePlan], widths: Sequence[int], *, has_bins: bool
) -> Files | str:
    if parallelism == "files":
        return Files(made(), "parallelism is 'files'")
    try:
        plan = made()
    except (tidegate.TidegateError, TypeError) as error:
        return str(error)
    sides = plan.tasks._sides  # noqa: SLF001 - internal to the package
    rows = [int(side.groups.rows.sum()) for side in sides]
    reason = _reason(plan, sum(rows))
    if reason is not None:
        return reason
    read = (float(side.reads.sums(side.groups.rows).sum()) for side in sides)
    costs = of_files(
        sum(count * width for count, width in zip(read, widths, strict=True)),
        len(plan.tasks.tasks),
        max(count * width for count, width in zip(rows, widths, strict=True)),
        sum(rows) if has_bins else None,
        measured=measures(plan.session),
    )
    if not costs.reads_files:
        return f"reading parts of the files twice would cost more; {_told(costs)}"
    return Files(plan, "tasks that read the files themselves are clearly cheaper", _told(costs))


def _reason(plan: FilePlan, rows: int) -> str | None:
    """Return the reason why `auto` does not compare this plan's costs, or None if it does."""
    sources = [side.source for side in plan.tasks._sides]  # noqa: SLF001 - internal to the package
    if not all(isinstance(source.files[0].filesystem, pafs.LocalFileSystem) for source in sources):
        return "the workers may lack permission to read the files; parallelism='files' tries it"
    if len(plan.tasks.stages) > 1:
        return "the rows would have to be prepared first; parallelism='files' does so"
    return "there are few rows" if rows <= _FEW else None


def _told(costs: Unsampled) -> str:
    """Return the costs of all forms as text."""
    forms = [(costs.bins, "by bins"), (costs.native, "natively")]
    others = [f"{seconds(cost)} {how}" for cost, how in forms if cost is not None]
    files = f"about {seconds(costs.files)} of processor time by files"
    return f"{files}, at least {', '.join(others)}, without results"

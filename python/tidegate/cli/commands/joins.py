"""The subcommands that join two files."""

from typing import Annotated

import typer

from tidegate.cli import following, joining
from tidegate.cli.commands import parsing, running
from tidegate.cli.commands.options import (
    By,
    Checkpoint,
    Columns,
    CsvNull,
    Explain,
    Follow,
    Force,
    Functions,
    Kept,
    Lateness,
    Left,
    LeftFormat,
    MaxRows,
    MemoryLimit,
    Out,
    OutFormat,
    PartitionBy,
    Progress,
    Quiet,
    Right,
    RightFormat,
    State,
    Suffix,
    Threads,
    Traceback,
    Types,
    Where,
)
from tidegate.cli.tables import Limits
from tidegate.io.files import STANDARD_STREAM
from tidegate.types import AsofHow, Closed, ClosedEnds, Strategy


def join(  # noqa: PLR0913 - a parameter for each option
    left: Left,
    right: Right,
    *,
    on: Annotated[
        str, typer.Option(metavar="COLUMN|LEFT=RIGHT", help="The time column of both sides.")
    ],
    lower: Annotated[
        str,
        typer.Option(metavar="DURATION|EXPR", help="Earliest right time, minus the left one."),
    ],
    upper: Annotated[
        str,
        typer.Option(metavar="DURATION|EXPR", help="Latest right time, minus the left one."),
    ],
    by: By = None,
    where: Where = None,
    how: Kept = None,
    agg: Functions = None,
    closed: Annotated[
        Closed, typer.Option(help="Which ends of the interval belong to it.")
    ] = "both",
    prevailing: Annotated[
        bool,
        typer.Option(
            "--prevailing",
            help="With --agg: the last right row before the interval counts, too.",
        ),
    ] = False,
    suffix: Suffix = "_right",
    columns: Columns = None,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    left_format: LeftFormat = None,
    right_format: RightFormat = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    csv_null: CsvNull = None,
    types: Types = None,
    threads: Threads = None,
    max_rows: MaxRows = None,
    memory_limit: MemoryLimit = None,
    follow: Follow = False,
    lateness: Lateness = None,
    max_width: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="With --follow: how far a --lower or --upper of columns may be from a row's time.",
        ),
    ] = None,
    state: State = None,
    checkpoint: Checkpoint = None,
    explain: Explain = False,
    progress: Progress = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Parse the options into a job and run it."""
    within = parsing.lateness(max_rows, memory_limit, lateness, state, follow=follow)
    job = joining.Job(
        *parsing.inputs(left, right, left_format, right_format, csv_null, types),
        limits=Limits(memory_limit, within),
        arguments=joining.Arguments(
            on=parsing.pair(on, "--on"),
            by=parsing.keys(by or []) or None,
            lower=parsing.bound(lower),
            upper=parsing.bound(upper),
            where=where,
            how=how,
            aggs=parsing.aggregates(agg) if agg else None,
            closed=closed,
            prevailing=prevailing,
            suffix=suffix,
            columns=None if columns is None else columns.split(","),
            threads=threads,
            max_rows=max_rows,
        ),
    )
    if max_width is not None and not follow:
        parsing.misused("--max-width", parsing.NEEDS_FOLLOW)
    keeping = parsing.keeping(state, checkpoint)
    if follow and partition_by:
        parsing.misused(
            "--partition-by", "cannot be combined with --follow; write one file or folder"
        )
    if follow:
        running.follow(
            following.joined(
                job, within, None if max_width is None else parsing.duration(max_width)
            ),
            out,
            out_format,
            keeping=keeping,
            force=force,
            explain=explain,
            quiet=quiet,
            traceback=traceback,
        )
        return
    running.join(
        job,
        out,
        out_format,
        partition_by=partition_by,
        force=force,
        explain=explain,
        progress=progress,
        quiet=quiet,
        traceback=traceback,
    )


def asof(  # noqa: PLR0913 - a parameter for each option
    left: Left,
    right: Right,
    *,
    on: Annotated[
        str, typer.Option(metavar="COLUMN|LEFT=RIGHT", help="The time column of both sides.")
    ],
    by: By = None,
    strategy: Annotated[
        Strategy, typer.Option(help="On which side in time the right row is.")
    ] = "backward",
    tolerance: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How far away it may be.", show_default="no bound"),
    ] = None,
    exact: Annotated[bool, typer.Option(help="Whether it may have the same time.")] = True,
    where: Where = None,
    how: Annotated[AsofHow, typer.Option(help="Which rows are written.")] = "left",
    suffix: Suffix = "_right",
    columns: Columns = None,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    left_format: LeftFormat = None,
    right_format: RightFormat = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    csv_null: CsvNull = None,
    types: Types = None,
    threads: Threads = None,
    max_rows: MaxRows = None,
    memory_limit: MemoryLimit = None,
    follow: Follow = False,
    lateness: Lateness = None,
    state: State = None,
    checkpoint: Checkpoint = None,
    explain: Explain = False,
    progress: Progress = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Parse the options into a job and run it."""
    within = parsing.lateness(max_rows, memory_limit, lateness, state, follow=follow)
    job = joining.Job(
        *parsing.inputs(left, right, left_format, right_format, csv_null, types),
        limits=Limits(memory_limit, within),
        arguments=joining.AsofArguments(
            on=parsing.pair(on, "--on"),
            by=parsing.keys(by or []) or None,
            strategy=strategy,
            tolerance=None if tolerance is None else parsing.bound(tolerance),
            allow_exact_matches=exact,
            where=where,
            how=how,
            suffix=suffix,
            columns=None if columns is None else columns.split(","),
            threads=threads,
            max_rows=max_rows,
        ),
    )
    keeping = parsing.keeping(state, checkpoint)
    if follow and partition_by:
        parsing.misused(
            "--partition-by", "cannot be combined with --follow; write one file or folder"
        )
    if follow:
        running.follow(
            following.joined_as_of(job, within),
            out,
            out_format,
            keeping=keeping,
            force=force,
            explain=explain,
            quiet=quiet,
            traceback=traceback,
        )
        return
    running.join(
        job,
        out,
        out_format,
        partition_by=partition_by,
        force=force,
        explain=explain,
        progress=progress,
        quiet=quiet,
        traceback=traceback,
    )


def band(  # noqa: PLR0913 - a parameter for each option
    left: Left,
    right: Right,
    *,
    on: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN|LEFT=RIGHT", help="A band column; repeat it for several columns."
        ),
    ],
    within: Annotated[
        list[str],
        typer.Option(
            metavar="DISTANCE|BELOW,ABOVE",
            help="The largest distance of its values; once for all columns, or once for each.",
        ),
    ],
    by: By = None,
    where: Where = None,
    how: Kept = None,
    agg: Functions = None,
    suffix: Suffix = "_right",
    columns: Columns = None,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    left_format: LeftFormat = None,
    right_format: RightFormat = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    csv_null: CsvNull = None,
    types: Types = None,
    threads: Threads = None,
    max_rows: MaxRows = None,
    explain: Explain = False,
    progress: Progress = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Parse the options into a job and run it."""
    widths = [parsing.within(text) for text in within]
    job = joining.Job(
        *parsing.inputs(left, right, left_format, right_format, csv_null, types),
        arguments=joining.BandArguments(
            on=[parsing.pair(text, "--on") for text in on],
            within=widths * len(on) if len(widths) == 1 else widths,
            by=parsing.keys(by or []) or None,
            where=where,
            how=how,
            aggs=parsing.aggregates(agg) if agg else None,
            suffix=suffix,
            columns=None if columns is None else columns.split(","),
            threads=threads,
            max_rows=max_rows,
        ),
    )
    running.join(
        job,
        out,
        out_format,
        partition_by=partition_by,
        force=force,
        explain=explain,
        progress=progress,
        quiet=quiet,
        traceback=traceback,
    )


def overlap(  # noqa: PLR0913 - a parameter for each option
    left: Left,
    right: Right,
    *,
    on: Annotated[
        str,
        typer.Option(
            metavar="START,END|START,END=START,END",
            help="The start and the end column of both sides.",
        ),
    ],
    by: By = None,
    where: Where = None,
    how: Kept = None,
    agg: Functions = None,
    closed: Annotated[
        ClosedEnds, typer.Option(help="both: ends belong to the intervals; left: they do not.")
    ] = "both",
    min_overlap: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="The least length of the common part.",
            show_default="a point",
        ),
    ] = None,
    suffix: Suffix = "_right",
    columns: Columns = None,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    left_format: LeftFormat = None,
    right_format: RightFormat = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    csv_null: CsvNull = None,
    types: Types = None,
    threads: Threads = None,
    max_rows: MaxRows = None,
    memory_limit: MemoryLimit = None,
    lateness: Lateness = None,
    explain: Explain = False,
    progress: Progress = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Parse the options into a job and run it."""
    within = parsing.lateness(max_rows, memory_limit, lateness, None, follow=False)
    job = joining.Job(
        *parsing.inputs(left, right, left_format, right_format, csv_null, types),
        limits=Limits(memory_limit, within),
        arguments=joining.OverlapArguments(
            on=parsing.intervals(on),
            closed=closed,
            min_overlap=None if min_overlap is None else parsing.duration(min_overlap),
            by=parsing.keys(by or []) or None,
            where=where,
            how=how,
            aggs=parsing.aggregates(agg) if agg else None,
            suffix=suffix,
            columns=None if columns is None else columns.split(","),
            threads=threads,
            max_rows=max_rows,
        ),
    )
    running.join(
        job,
        out,
        out_format,
        partition_by=partition_by,
        force=force,
        explain=explain,
        progress=progress,
        quiet=quiet,
        traceback=traceback,
    )

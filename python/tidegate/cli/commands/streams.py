"""The subcommands that take any number of files."""

import sys
from typing import Annotated

import typer

from tidegate.cli import aggregating, digesting, following, merging
from tidegate.cli.commands import parsing, running
from tidegate.cli.commands.options import (
    Checkpoint,
    CsvNull,
    Follow,
    Force,
    Lateness,
    MaxRows,
    MemoryLimit,
    Out,
    OutFormat,
    PartitionBy,
    Progress,
    Quiet,
    State,
    Threads,
    Traceback,
    Types,
)
from tidegate.cli.tables import Limits
from tidegate.io.files import STANDARD_STREAM, Format


def merge(  # noqa: PLR0913 - a parameter for each option
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="The files to merge, or -.")],
    *,
    on: Annotated[str, typer.Option(metavar="COLUMN", help="The time column.")],
    lateness: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How far the rows of a file may be out of order.",
            show_default="not at all",
        ),
    ] = None,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    in_format: Annotated[
        Format | None,
        typer.Option(help="Format of all FILEs.", show_default="by their endings"),
    ] = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    csv_null: CsvNull = None,
    types: Types = None,
    threads: Threads = None,
    progress: Progress = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Parse the options into a job and run it."""
    if files.count(STANDARD_STREAM) > 1:
        parsing.misused("FILE", "only one of the files can be -; give file names for the others")
    job = merging.Job(
        inputs=parsing.listed(files, in_format, csv_null, types),
        on=on,
        lateness=None if lateness is None else parsing.bound(lateness),
        threads=threads,
    )
    output = parsing.output(out, out_format, partition_by, force=force)
    shown = sys.stderr.isatty() if progress is None else progress
    with running.failures_in_one_line(traceback=traceback):
        counts = merging.run(job, output, show_progress=shown and not quiet)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


def aggregate(  # noqa: PLR0913 - a parameter for each option
    streams: Annotated[list[str], typer.Argument(metavar="STREAMS", help="Files, or -.")],
    *,
    on: Annotated[str, typer.Option(metavar="COLUMN", help="The time column.")],
    agg: Annotated[
        list[str], typer.Option(metavar="NAME=FUNCTION", help="What to compute; repeatable.")
    ],
    size: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="The length of a window.", show_default=False),
    ] = None,
    advance: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="The time from the start of a window to the next.",
            show_default="the size",
        ),
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="The time from the epoch to a start.", show_default="0"
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Instead of a size: how long after its last row a window ends.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A key column; repeat it for several columns."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help='Such as "price > 10".')
    ] = None,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    in_format: Annotated[
        Format | None, typer.Option(help="Format of STREAMS.", show_default="by their endings")
    ] = None,
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
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the plan; aggregate and write nothing.")
    ] = False,
    progress: Progress = None,
    quiet: Quiet = False,
    traceback: Traceback = False,
) -> None:
    """Parse the options into a job and run it."""
    if streams.count(STANDARD_STREAM) > 1:
        parsing.misused("STREAMS", "only one of the files can be -; give file names for the others")
    if (size is None) == (session is None):
        parsing.misused("--size", "expected --size or --session, and not both")
    within = parsing.lateness(max_rows, memory_limit, lateness, state, follow=follow)
    job = aggregating.Job(
        streams=parsing.listed(streams, in_format, csv_null, types),
        limits=Limits(memory_limit, within),
        arguments=aggregating.Arguments(
            on=on,
            size=None if size is None else parsing.duration(size),
            advance=None if advance is None else parsing.duration(advance),
            offset=None if offset is None else parsing.duration(offset),
            session=None if session is None else parsing.duration(session),
            by=by,
            aggs=parsing.aggregates(agg),
            where=where,
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
            following.aggregated(job, within),
            out,
            out_format,
            keeping=keeping,
            force=force,
            explain=explain,
            quiet=quiet,
            traceback=traceback,
        )
        return
    if explain:
        with running.failures_in_one_line(traceback=traceback):
            plan = aggregating.plan(job)
        typer.echo(plan)
        return
    output = parsing.output(out, out_format, partition_by, force=force)
    shown = sys.stderr.isatty() if progress is None else progress
    with running.failures_in_one_line(traceback=traceback):
        counts = aggregating.run(job, output, show_progress=shown and not quiet)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


def digest(  # noqa: PLR0913 - a parameter for each option
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files, or -.")],
    *,
    unordered: Annotated[
        bool, typer.Option("--unordered", help="Leave the order of the rows out of account.")
    ] = False,
    in_format: Annotated[
        Format | None, typer.Option(help="Format of FILEs.", show_default="by their endings")
    ] = None,
    csv_null: CsvNull = None,
    types: Types = None,
    threads: Threads = None,
    traceback: Traceback = False,
) -> None:
    """Print a line for each file as soon as it is read."""
    if files.count(STANDARD_STREAM) > 1:
        parsing.misused("FILE", "only one of the files can be -; give file names for the others")
    inputs = parsing.listed(files, in_format, csv_null, types)
    with running.failures_in_one_line(traceback=traceback):
        for given in inputs:
            of_rows = digesting.run(given, ordered=not unordered, threads=threads)
            typer.echo(f"{of_rows}  {given.name}")

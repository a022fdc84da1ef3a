"""The subcommands that accept any number of files."""

import sys
from typing import Annotated, Any

import typer

from tidegate._tidegate import AggregationQuery, RollingQuery
from tidegate.cli import aggregating, digesting, following, merging
from tidegate.cli.commands import parsing, running
from tidegate.cli.commands.making import Asked, command, with_csv
from tidegate.cli.commands.options import (
    Checkpoint,
    Csv,
    FlushAfter,
    Follow,
    Force,
    Out,
    OutFormat,
    PartitionBy,
    Progress,
    Quiet,
    State,
    Threads,
    Traceback,
    UntilEnd,
    Verbose,
)
from tidegate.cli.tables import Limits
from tidegate.io.files import STANDARD_STREAM, Format


def _merged(  # noqa: PLR0913 - a parameter for each option
    asked: Asked[dict[str, Any]],
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="The files to merge, or -.")],
    *,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    in_format: Annotated[
        Format | None,
        typer.Option(help="Format of all FILEs.", show_default="by their extensions"),
    ] = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    progress: Progress = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    traceback: Traceback = False,
) -> None:
    """Merge files in time order."""
    if files.count(STANDARD_STREAM) > 1:
        parsing.misused("FILE", "only one of the files can be -; give file names for the others")
    inputs = parsing.listed(files, in_format, asked.csv, asked.query["on"])
    job = merging.Job(inputs, lateness=asked.lateness, **asked.query)
    output = parsing.output(out, out_format, partition_by, force=force)
    shown = sys.stderr.isatty() if progress is None else progress
    with running.failures_in_one_line(traceback=traceback):
        counts = merging.run(job, output, show_progress=shown and not quiet, verbose=verbose)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


merge = command("merge", dict)(_merged)


def _aggregated(  # noqa: PLR0913 - a parameter for each option
    asked: Asked[AggregationQuery],
    streams: Annotated[list[str], typer.Argument(metavar="STREAMS", help="Files, or -.")],
    *,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    in_format: Annotated[
        Format | None, typer.Option(help="Format of STREAMS.", show_default="by their extensions")
    ] = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    follow: Follow = False,
    until_end: UntilEnd = False,
    flush_after: FlushAfter = None,
    state: State = None,
    checkpoint: Checkpoint = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print the plan without aggregating or writing anything."),
    ] = False,
    progress: Progress = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    traceback: Traceback = False,
) -> None:
    """Aggregate files, once or while they grow, or print the plan."""
    if streams.count(STANDARD_STREAM) > 1:
        parsing.misused("STREAMS", "only one of the files can be -; give file names for the others")
    _run(
        asked,
        streams,
        out=out,
        force=force,
        in_format=in_format,
        out_format=out_format,
        partition_by=partition_by,
        follow=follow,
        until_end=until_end,
        flush_after=flush_after,
        state=state,
        checkpoint=checkpoint,
        explain=explain,
        progress=progress,
        quiet=quiet,
        verbose=verbose,
        traceback=traceback,
    )


def _rolled(  # noqa: PLR0913 - a parameter for each option
    asked: Asked[RollingQuery],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The files to read, or -.")],
    *,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    in_format: Annotated[
        Format | None,
        typer.Option(help="Format of TABLE.", show_default="by its extension or first bytes"),
    ] = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    follow: Follow = False,
    until_end: UntilEnd = False,
    flush_after: FlushAfter = None,
    state: State = None,
    checkpoint: Checkpoint = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print the plan without aggregating or writing anything."),
    ] = False,
    progress: Progress = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    traceback: Traceback = False,
) -> None:
    """Aggregate the windows of a file's rows, once or while it grows, or print the plan."""
    _run(
        asked,
        [table],
        out=out,
        force=force,
        in_format=in_format,
        out_format=out_format,
        partition_by=partition_by,
        follow=follow,
        until_end=until_end,
        flush_after=flush_after,
        state=state,
        checkpoint=checkpoint,
        explain=explain,
        progress=progress,
        quiet=quiet,
        verbose=verbose,
        traceback=traceback,
    )


rolling = command("rolling", RollingQuery)(_rolled)


def _run(  # noqa: PLR0913 - a parameter for each option
    asked: Asked[Any],
    streams: list[str],
    *,
    out: str,
    force: bool,
    in_format: Format | None,
    out_format: Format | None,
    partition_by: list[str] | None,
    follow: bool,
    until_end: bool,
    flush_after: str | None,
    state: str | None,
    checkpoint: str | None,
    explain: bool,
    progress: bool | None,
    quiet: bool,
    verbose: bool,
    traceback: bool,
) -> None:
    """Aggregate files, once or while they grow, or print the plan."""
    parsing.check_limits(asked, state, follow=follow)
    parsing.check_ends(flush_after, until_end=until_end, follow=follow)
    inputs = parsing.listed(streams, in_format, asked.csv, asked.query.on)
    job = aggregating.Job(inputs, asked.query, Limits(asked.memory_limit, asked.lateness))
    keeping = parsing.keeping(state, checkpoint)
    if follow:
        parsing.check_one_file(partition_by)
        running.follow(
            following.aggregated(job, asked.lateness),
            out,
            out_format,
            manner=parsing.manner(
                flush_after, until_end=until_end, verbose=verbose, progress=progress, quiet=quiet
            ),
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
        counts = aggregating.run(job, output, show_progress=shown and not quiet, verbose=verbose)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


def _aggregation(size: Any, session: Any, windows: Any, **arguments: Any) -> AggregationQuery:  # noqa: ANN401 - as read
    if [size, session, windows].count(None) != 2:  # noqa: PLR2004 - all but one
        parsing.misused("--size", "expected one of --size, --session and --windows")
    return AggregationQuery(size=size, session=session, windows=windows, **arguments)


aggregate = command("aggregate", _aggregation)(_aggregated)


@with_csv
def digest(  # noqa: PLR0913 - a parameter for each option
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files, or -.")],
    *,
    unordered: Annotated[
        bool, typer.Option("--unordered", help="Ignore the order of the rows.")
    ] = False,
    in_format: Annotated[
        Format | None, typer.Option(help="Format of FILEs.", show_default="by their extensions")
    ] = None,
    threads: Threads = None,
    csv: Csv,
    traceback: Traceback = False,
) -> None:
    """Print the digest of each file as soon as the file has been read."""
    if files.count(STANDARD_STREAM) > 1:
        parsing.misused("FILE", "only one of the files can be -; give file names for the others")
    inputs = parsing.listed(files, in_format, csv)
    with running.failures_in_one_line(traceback=traceback):
        for given in inputs:
            of_rows = digesting.run(given, ordered=not unordered, threads=threads)
            typer.echo(f"{of_rows}  {given.name}")

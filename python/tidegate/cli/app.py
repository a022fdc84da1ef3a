"""The commands, their options and their help."""

import os
import re
import sys
import traceback as tracebacks
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Annotated, NoReturn

import typer

import tidegate
from tidegate.agg import Aggregate
from tidegate.cli import INTERRUPTED, aggregating, digesting, doctor, following, joining, merging
from tidegate.cli.checkpoints import Keeping
from tidegate.cli.options import (
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
from tidegate.cli.tables import Input, Limits, Output
from tidegate.cli.texts import (
    AGGREGATE_HELP,
    ASOF_HELP,
    BAND_HELP,
    DIGEST_HELP,
    DOCTOR_HELP,
    HELP,
    JOIN_HELP,
    MERGE_HELP,
    OVERLAP_HELP,
)
from tidegate.io.addresses import names_one_file
from tidegate.io.csv_rows import type_named
from tidegate.io.files import STANDARD_STREAM, Format, format_of
from tidegate.types import AsofHow, Closed, ClosedEnds, IntervalNames, Strategy, Within

# How often a state is written by default.
CHECKPOINT_S = 10.0

NEEDS_FOLLOW = "needs --follow; add it, or leave this option out"
FOLDER = (
    "a folder is written as parquet, with --follow and --state only; give a file name, or "
    "--partition-by for a folder of files"
)

# The type may contain an `=` in brackets, as in `timestamp[ns, tz=UTC]`.
NAME_AND_TYPE = re.compile(r"(.+)=([^=\[\]]*(?:\[.*\])?)", re.DOTALL)
BINARY = {Format.PARQUET, Format.ARROW}

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    # Plain text: examples can be copied, and one error is one line.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        typer.echo(f"tidegate {tidegate.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command(help=JOIN_HELP, short_help="Join two files into a third.")
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
    within = _lateness(max_rows, memory_limit, lateness, state, follow=follow)
    job = joining.Job(
        *_inputs(left, right, left_format, right_format, csv_null, types),
        limits=Limits(memory_limit, within),
        arguments=joining.Arguments(
            on=_pair(on, "--on"),
            by=_keys(by or []) or None,
            lower=_bound(lower),
            upper=_bound(upper),
            where=where,
            how=how,
            aggs=_aggregates(agg) if agg else None,
            closed=closed,
            prevailing=prevailing,
            suffix=suffix,
            columns=None if columns is None else columns.split(","),
            threads=threads,
            max_rows=max_rows,
        ),
    )
    if max_width is not None and not follow:
        _misused("--max-width", NEEDS_FOLLOW)
    keeping = _keeping(state, checkpoint)
    if follow and partition_by:
        _misused("--partition-by", "cannot be combined with --follow; write one file or folder")
    if follow:
        _follow(
            following.joined(job, within, None if max_width is None else _duration(max_width)),
            out,
            out_format,
            keeping=keeping,
            force=force,
            explain=explain,
            quiet=quiet,
            traceback=traceback,
        )
        return
    _join(
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


@app.command("asof", help=ASOF_HELP, short_help="Join each row with the row nearest in time.")
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
    within = _lateness(max_rows, memory_limit, lateness, state, follow=follow)
    job = joining.Job(
        *_inputs(left, right, left_format, right_format, csv_null, types),
        limits=Limits(memory_limit, within),
        arguments=joining.AsofArguments(
            on=_pair(on, "--on"),
            by=_keys(by or []) or None,
            strategy=strategy,
            tolerance=None if tolerance is None else _bound(tolerance),
            allow_exact_matches=exact,
            where=where,
            how=how,
            suffix=suffix,
            columns=None if columns is None else columns.split(","),
            threads=threads,
            max_rows=max_rows,
        ),
    )
    keeping = _keeping(state, checkpoint)
    if follow and partition_by:
        _misused("--partition-by", "cannot be combined with --follow; write one file or folder")
    if follow:
        _follow(
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
    _join(
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


@app.command("band", help=BAND_HELP, short_help="Join two files by values that are close.")
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
    widths = [_within(text) for text in within]
    job = joining.Job(
        *_inputs(left, right, left_format, right_format, csv_null, types),
        arguments=joining.BandArguments(
            on=[_pair(text, "--on") for text in on],
            within=widths * len(on) if len(widths) == 1 else widths,
            by=_keys(by or []) or None,
            where=where,
            how=how,
            aggs=_aggregates(agg) if agg else None,
            suffix=suffix,
            columns=None if columns is None else columns.split(","),
            threads=threads,
            max_rows=max_rows,
        ),
    )
    _join(
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


@app.command("overlap", help=OVERLAP_HELP, short_help="Join two files by intervals that overlap.")
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
    within = _lateness(max_rows, memory_limit, lateness, None, follow=False)
    job = joining.Job(
        *_inputs(left, right, left_format, right_format, csv_null, types),
        limits=Limits(memory_limit, within),
        arguments=joining.OverlapArguments(
            on=_intervals(on),
            closed=closed,
            min_overlap=None if min_overlap is None else _duration(min_overlap),
            by=_keys(by or []) or None,
            where=where,
            how=how,
            aggs=_aggregates(agg) if agg else None,
            suffix=suffix,
            columns=None if columns is None else columns.split(","),
            threads=threads,
            max_rows=max_rows,
        ),
    )
    _join(
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


def _join(  # noqa: PLR0913 - a parameter for each option
    job: joining.AnyJob,
    out: str,
    out_format: Format | None,
    *,
    partition_by: list[str] | None,
    force: bool,
    explain: bool,
    progress: bool | None,
    quiet: bool,
    traceback: bool,
) -> None:
    """Join two files into a third, or print the plan."""
    if explain:
        with _failures_in_one_line(traceback=traceback):
            plan = joining.plan(job)
        typer.echo(plan)
        return
    output = _output(out, out_format, partition_by, force=force)
    shown = sys.stderr.isatty() if progress is None else progress
    with _failures_in_one_line(traceback=traceback):
        counts = joining.run(job, output, show_progress=shown and not quiet)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


def _follow(  # noqa: PLR0913 - a parameter for each option
    work: following.Work,
    out: str,
    out_format: Format | None,
    *,
    keeping: Keeping | None,
    force: bool,
    explain: bool,
    quiet: bool,
    traceback: bool,
) -> None:
    """Work on files while they grow, or print the plan."""
    if explain:
        with _failures_in_one_line(traceback=traceback):
            plan = following.plan(work)
        typer.echo(plan)
        return
    state = None if keeping is None else keeping.state
    output = Output(out, _out_layout(out, out_format, state, follow=True), force=force)
    with _failures_in_one_line(traceback=traceback):
        counts = following.run(work, output, keeping=keeping)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


def _inputs(  # noqa: PLR0913, PLR0917 - a parameter for each option
    left: str,
    right: str,
    left_format: Format | None,
    right_format: Format | None,
    csv_null: list[str] | None,
    types: list[str] | None,
) -> tuple[Input, Input]:
    if left == right == STANDARD_STREAM:
        _misused("RIGHT", "only one of LEFT and RIGHT can be -; give a file name for the other")
    nulls = tuple(csv_null) if csv_null else ("",)
    given = _types(types or [])
    return (
        Input(left, _in_format(left, left_format, "--left-format"), nulls, given),
        Input(right, _in_format(right, right_format, "--right-format"), nulls, given),
    )


def _types(given: list[str]) -> tuple[tuple[str, str], ...]:
    """Parse `user=string,ts=timestamp[us]`; commas inside brackets belong to the type."""
    found: dict[str, str] = {}
    for text in (one for texts in given for one in re.split(r",(?![^\[(]*[\])])", texts)):
        parts = NAME_AND_TYPE.fullmatch(text)
        if parts is None:
            _misused("--types", f"expected NAME=TYPE, found {text!r:.80}")
        name, kind = parts.groups()
        if name in found:
            _misused("--types", f"column {name!r} is specified twice; specify it only once")
        try:
            type_named(kind)
        except ValueError as error:
            _misused("--types", str(error))
        found[name] = kind
    return tuple(found.items())


def _lateness(
    max_rows: int | None,
    memory_limit: str | None,
    lateness: str | None,
    state: str | None,
    *,
    follow: bool,
) -> str | int | None:
    """Check the options that depend on --follow and --memory-limit, and read --lateness."""
    if not follow and state is not None:
        _misused("--state", NEEDS_FOLLOW)
    if not follow and memory_limit is None and lateness is not None:
        message = "needs --follow, or --memory-limit; add one of them, or leave this option out"
        _misused("--lateness", message)
    if follow and max_rows is not None:
        _misused("--max-rows", "cannot be combined with --follow, whose result has no end")
    if follow and memory_limit is not None:
        message = "cannot be combined with --follow, which holds the rows that may still match"
        _misused("--memory-limit", message)
    return None if lateness is None else _bound(lateness)


def _keeping(state: str | None, checkpoint: str | None) -> Keeping | None:
    """Read --state and --checkpoint."""
    if state is None:
        if checkpoint is not None:
            _misused("--checkpoint", "needs --state; add --state FILE, or leave --checkpoint out")
        return None
    return Keeping(state, CHECKPOINT_S if checkpoint is None else _seconds(checkpoint))


def _seconds(text: str) -> float:
    """Read how often, such as 10s, 500ms or 1h30m."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    seconds = sum(float(number) * units[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        _misused(
            "--checkpoint", f"expected a duration above 0, such as 10s or 1m; found {text!r:.80}"
        )
    return seconds


@app.command(help=MERGE_HELP, short_help="Merge files in time order.")
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
        _misused("FILE", "only one of the files can be -; give file names for the others")
    job = merging.Job(
        inputs=_listed(files, in_format, csv_null, types),
        on=on,
        lateness=None if lateness is None else _bound(lateness),
        threads=threads,
    )
    output = _output(out, out_format, partition_by, force=force)
    shown = sys.stderr.isatty() if progress is None else progress
    with _failures_in_one_line(traceback=traceback):
        counts = merging.run(job, output, show_progress=shown and not quiet)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


@app.command(help=AGGREGATE_HELP, short_help="Aggregate files over windows of time.")
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
        _misused("STREAMS", "only one of the files can be -; give file names for the others")
    if (size is None) == (session is None):
        _misused("--size", "expected --size or --session, and not both")
    within = _lateness(max_rows, memory_limit, lateness, state, follow=follow)
    job = aggregating.Job(
        streams=_listed(streams, in_format, csv_null, types),
        limits=Limits(memory_limit, within),
        arguments=aggregating.Arguments(
            on=on,
            size=None if size is None else _duration(size),
            advance=None if advance is None else _duration(advance),
            offset=None if offset is None else _duration(offset),
            session=None if session is None else _duration(session),
            by=by,
            aggs=_aggregates(agg),
            where=where,
            threads=threads,
            max_rows=max_rows,
        ),
    )
    keeping = _keeping(state, checkpoint)
    if follow and partition_by:
        _misused("--partition-by", "cannot be combined with --follow; write one file or folder")
    if follow:
        _follow(
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
        with _failures_in_one_line(traceback=traceback):
            plan = aggregating.plan(job)
        typer.echo(plan)
        return
    output = _output(out, out_format, partition_by, force=force)
    shown = sys.stderr.isatty() if progress is None else progress
    with _failures_in_one_line(traceback=traceback):
        counts = aggregating.run(job, output, show_progress=shown and not quiet)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


@app.command(help=DIGEST_HELP, short_help="Print the digest of each file's rows.")
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
        _misused("FILE", "only one of the files can be -; give file names for the others")
    inputs = _listed(files, in_format, csv_null, types)
    with _failures_in_one_line(traceback=traceback):
        for given in inputs:
            of_rows = digesting.run(given, ordered=not unordered, threads=threads)
            typer.echo(f"{of_rows}  {given.name}")


@app.command("doctor", help=DOCTOR_HELP, short_help="Print versions and what the machine has.")
def _doctor() -> None:
    """Print the report."""
    for label, text in doctor.report():
        typer.echo(f"{label:<14}{text}")


def _listed(
    names: list[str],
    in_format: Format | None,
    csv_null: list[str] | None,
    types: list[str] | None,
) -> list[Input]:
    nulls = tuple(csv_null) if csv_null else ("",)
    given = _types(types or [])
    return [Input(name, _in_format(name, in_format, "--in-format"), nulls, given) for name in names]


def _in_format(name: str, given: Format | None, option: str) -> Format | None:
    """The format of an input; none where the endings of several files name it."""
    is_one_file = name == STANDARD_STREAM or names_one_file(name)
    return _format(name, given, option) if is_one_file else given


def _format(name: str, given: Format | None, option: str) -> Format:
    layout = given or format_of(name)
    if layout is None:
        _misused(option, f"the ending of {name} names no format; give parquet, csv, arrow or jsonl")
    return layout


def _output(
    out: str, given: Format | None, partition_by: list[str] | None, *, force: bool
) -> Output:
    """The table that is written, whole, at the end of a command."""
    if not partition_by:
        return Output(out, _out_layout(out, given), force=force)
    if out == STANDARD_STREAM:
        _misused("--partition-by", "needs a folder; give its name, as in -o pairs/")
    layout = given or Format.PARQUET
    if layout is Format.JSON:
        _misused("--partition-by", "writes parquet, csv or arrow; give --format parquet")
    return Output(out, layout, force=force, partition_by=tuple(partition_by))


def _out_layout(
    out: str, given: Format | None, state: str | None = None, *, follow: bool = False
) -> Format:
    """Find out how OUT is written, and whether it can be."""
    is_folder = out.endswith(("/", os.sep))
    layout = Format.PARQUET if is_folder and given is None else _format(out, given, "--format")
    if is_folder and (layout is not Format.PARQUET or state is None):
        _misused("OUT", FOLDER)
    if follow and layout is Format.PARQUET and not is_folder:
        _misused(
            "--format",
            "--follow writes csv or arrow, because nobody can read a parquet file before its end; "
            "with --state it also writes parquet files to a folder, as in -o DIR/",
        )
    if follow and layout is Format.JSON:
        _misused("--format", "--follow writes csv or arrow; give one of these")
    if out == STANDARD_STREAM and layout in BINARY and sys.stdout.isatty():
        _misused("OUT", f"{layout} cannot be shown on a terminal; give a file, or --format csv")
    return layout


def _intervals(text: str) -> IntervalNames:
    """Read `start,end`, or such a pair of columns for each side: `start,end=from,to`."""
    sides = [side.split(",") for side in text.split("=")]
    if len(sides) > 2 or any(len(side) != 2 or not all(side) for side in sides):  # noqa: PLR2004
        _misused("--on", f"expected START,END or START,END=START,END, found {text!r:.80}")
    (start, end), (right_start, right_end) = sides[0], sides[-1]
    return (start, end), (right_start, right_end)


def _pair(text: str, option: str) -> tuple[str, str]:
    """Read `column` or `left=right`."""
    names = text.split("=")
    if text.count("=") > 1 or not all(names):
        _misused(option, f"expected COLUMN or LEFT=RIGHT, found {text!r:.80}")
    return names[0], names[-1]


def _keys(given: list[str]) -> dict[str, str]:
    keys: dict[str, str] = {}
    for left, right in (_pair(text, "--by") for text in given):
        if left in keys:
            _misused("--by", f"column {left!r} is specified twice; specify it only once")
        keys[left] = right
    return keys


def _aggregates(given: list[str]) -> dict[str, Aggregate]:
    found: dict[str, Aggregate] = {}
    for text in given:
        name, equals, function = text.partition("=")
        if not (name and equals):
            _misused("--agg", f"expected NAME=FUNCTION, found {text!r:.80}")
        if name in found:
            _misused("--agg", f"column {name!r} is specified twice; specify it only once")
        try:
            found[name] = aggregating.function(function)
        except ValueError as error:
            _misused("--agg", str(error))
    return found


def _bound(text: str) -> str | int | None:
    """Read a duration, or none for no bound."""
    return None if text.lower() in {"none", "unbounded"} else _duration(text)


def _duration(text: str) -> str | int:
    """Read a duration: a whole number is in the column's unit, other texts are tidegate's."""
    try:
        return int(text)
    except ValueError:
        return text


def _within(text: str) -> Within:
    """Read a distance, or one below and one above."""
    below, comma, above = text.partition(",")
    if comma:
        return _distance(below), _distance(above)
    distance = _distance(text)
    if distance is None:
        _misused("--within", f"expected DISTANCE or BELOW,ABOVE, found {text!r:.80}")
    return distance


def _distance(text: str) -> int | Decimal | str | None:
    """Read a number, a duration, or none for no bound."""
    bound = _bound(text)
    if isinstance(bound, str) and bound[-1:].isdigit():
        try:
            return Decimal(bound)
        except ArithmeticError:
            return bound
    return bound


def _misused(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)


@contextmanager
def _failures_in_one_line(*, traceback: bool) -> Iterator[None]:
    """Turn what ends a command early into a line on standard error and an exit code."""
    try:
        yield
    except BrokenPipeError as error:
        raise typer.Exit(0) from error
    except KeyboardInterrupt as error:
        typer.echo("tidegate: stopped", err=True)
        raise typer.Exit(INTERRUPTED) from error
    except Exception as error:  # whatever it is, the shell gets a line and a code
        if traceback:
            tracebacks.print_exc()
        message = " ".join(str(error).split()) or type(error).__name__
        typer.echo(f"tidegate: error: {message}", err=True)
        raise typer.Exit(1) from error

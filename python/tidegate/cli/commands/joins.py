"""The subcommands that join two files."""

from tidegate._tidegate import (
    JoinQuery,
    asof_join_query,
    band_join_query,
    interval_join_query,
    overlap_join_query,
)
from tidegate.cli import following, joining
from tidegate.cli.commands import parsing, running
from tidegate.cli.commands.making import Asked, command
from tidegate.cli.commands.options import (
    Checkpoint,
    Explain,
    FlushAfter,
    Follow,
    Force,
    Left,
    LeftFormat,
    Out,
    OutFormat,
    PartitionBy,
    Progress,
    Quiet,
    Right,
    RightFormat,
    RightIndex,
    State,
    Traceback,
    UntilEnd,
    Verbose,
)
from tidegate.cli.tables import Limits
from tidegate.io.files import STANDARD_STREAM
from tidegate.options import Option, options_of


def _joined(  # noqa: PLR0913 - a parameter for each option
    asked: Asked[JoinQuery],
    left: Left,
    *,
    right: Right = None,
    right_index: RightIndex = None,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    left_format: LeftFormat = None,
    right_format: RightFormat = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    explain: Explain = False,
    progress: Progress = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    traceback: Traceback = False,
) -> None:
    """Join two files and write the result to a third file, or print the plan."""
    parsing.check_limits(asked, None, follow=None)
    parsing.check_index(asked, right_index, follow=False)
    inputs = parsing.sides(left, right, right_index, left_format, right_format, asked)
    running.join(
        joining.Job(*inputs, asked.query, Limits(asked.memory_limit, asked.lateness)),
        out,
        out_format,
        partition_by=partition_by,
        force=force,
        explain=explain,
        progress=progress,
        quiet=quiet,
        verbose=verbose,
        traceback=traceback,
    )


def _joined_or_followed(  # noqa: PLR0913 - a parameter for each option
    asked: Asked[JoinQuery],
    left: Left,
    *,
    right: Right = None,
    right_index: RightIndex = None,
    out: Out = STANDARD_STREAM,
    force: Force = False,
    left_format: LeftFormat = None,
    right_format: RightFormat = None,
    out_format: OutFormat = None,
    partition_by: PartitionBy = None,
    follow: Follow = False,
    until_end: UntilEnd = False,
    flush_after: FlushAfter = None,
    state: State = None,
    checkpoint: Checkpoint = None,
    explain: Explain = False,
    progress: Progress = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    traceback: Traceback = False,
) -> None:
    """Join two files, once or while they grow, or print the plan."""
    parsing.check_limits(asked, state, follow=follow)
    parsing.check_index(asked, right_index, follow=follow)
    parsing.check_ends(flush_after, until_end=until_end, follow=follow)
    inputs = parsing.sides(left, right, right_index, left_format, right_format, asked)
    job = joining.Job(*inputs, asked.query, Limits(asked.memory_limit, asked.lateness))
    keeping = parsing.keeping(state, checkpoint)
    if not follow:
        running.join(
            job,
            out,
            out_format,
            partition_by=partition_by,
            force=force,
            explain=explain,
            progress=progress,
            quiet=quiet,
            verbose=verbose,
            traceback=traceback,
        )
        return
    parsing.check_one_file(partition_by)
    running.follow(
        following.joined(job, asked.lateness, asked.max_width),
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


def _max_width(operator: str) -> list[Option]:
    return [option for option in options_of(operator) if option.name == "max_width"]


# A band join without a window has no time column that could be used to divide its rows.
_LIMITS = ("memory_limit", "lateness", "time", "window")

join = command("interval_join", interval_join_query, more=_max_width("IntervalJoin"))(
    _joined_or_followed
)
asof = command("asof_join", asof_join_query)(_joined_or_followed)
band = command("band_join", band_join_query, leaves_out=_LIMITS)(_joined)
overlap = command("overlap_join", overlap_join_query, more=_max_width("OverlapJoin"))(
    _joined_or_followed
)

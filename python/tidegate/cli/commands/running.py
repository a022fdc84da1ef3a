"""Runs subcommands. An error or a signal produces one line of output and an exit code."""

import re
import sys
import traceback as tracebacks
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tidegate.cli import INTERRUPTED, following, joining
from tidegate.cli.checkpoints import Keeping
from tidegate.cli.commands import parsing
from tidegate.cli.tables import Output
from tidegate.io.files import Format


def join(  # noqa: PLR0913 - a parameter for each option
    job: joining.Job,
    out: str,
    out_format: Format | None,
    *,
    partition_by: list[str] | None,
    force: bool,
    explain: bool,
    progress: bool | None,
    quiet: bool,
    verbose: bool,
    traceback: bool,
) -> None:
    """Join two files and write the result to a third file, or print the plan."""
    if explain:
        with failures_in_one_line(traceback=traceback):
            plan = joining.plan(job)
        typer.echo(plan)
        return
    output = parsing.output(out, out_format, partition_by, force=force)
    shown = sys.stderr.isatty() if progress is None else progress
    with failures_in_one_line(traceback=traceback):
        counts = joining.run(job, output, show_progress=shown and not quiet, verbose=verbose)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


def follow(  # noqa: PLR0913 - a parameter for each option
    work: following.Work,
    out: str,
    out_format: Format | None,
    *,
    manner: following.Manner,
    keeping: Keeping | None,
    force: bool,
    explain: bool,
    quiet: bool,
    traceback: bool,
) -> None:
    """Process files while they grow, or print the plan."""
    if explain:
        with failures_in_one_line(traceback=traceback):
            plan = following.plan(work)
        typer.echo(plan)
        return
    state = None if keeping is None else keeping.state
    output = Output(out, parsing.out_layout(out, out_format, state, follow=True), force=force)
    with failures_in_one_line(traceback=traceback):
        counts = following.run(work, output, manner, keeping=keeping)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


# A list of keys, which the command reads as a single name.
LISTED = re.compile(r"there is no column `([^`]+,[^`]*)`, which `by` names")

OF_INTEGERS = re.compile(r"is a duration, but the time columns are integers")
MIXED = re.compile(r"(an integer and a time cannot be compared: [^;]*); cast one of them")
UNIT = "if the integers count time since 1970, give their unit: --epoch-unit ms (or s, us, ns)"


@contextmanager
def failures_in_one_line(*, traceback: bool) -> Iterator[None]:
    """Report an error or an interrupt as one line on standard error and an exit code."""
    try:
        yield
    except typer.BadParameter:
        raise
    except BrokenPipeError as error:
        raise typer.Exit(0) from error
    except KeyboardInterrupt as error:
        typer.echo("tidegate: stopped", err=True)
        raise typer.Exit(INTERRUPTED) from error
    except Exception as error:  # any error results in a line and an exit code
        if traceback:
            tracebacks.print_exc()
        message = " ".join(str(error).split()) or type(error).__name__
        if OF_INTEGERS.search(message):
            message = f"{message}; {UNIT}"
        if found := MIXED.search(message):
            message = f"{message[: found.start()]}{found[1]}; {UNIT}"
        if found := LISTED.search(message):
            options = " ".join(f"--by {name}" for name in found[1].split(","))
            message = f"{message}; to give several keys, repeat the option: {options}"
        typer.echo(f"tidegate: error: {message}", err=True)
        raise typer.Exit(1) from error

"""The subcommand that builds an index."""

import sys
from typing import Annotated, Any

import typer

from tidegate.cli import indexing
from tidegate.cli.commands import parsing, running
from tidegate.cli.commands.making import Asked, command
from tidegate.cli.commands.options import Force, Progress, Quiet, Traceback, Verbose
from tidegate.cli.tables import Output
from tidegate.io.files import Format


def _indexed(  # noqa: PLR0913 - a parameter for each option
    asked: Asked[dict[str, Any]],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The files with the rows, or -.")],
    out: Annotated[str, typer.Option("-o", "--out", metavar="OUT", help="The file to write.")],
    *,
    force: Force = False,
    in_format: Annotated[
        Format | None, typer.Option(help="Format of TABLE.", show_default="by its extension")
    ] = None,
    progress: Progress = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    traceback: Traceback = False,
) -> None:
    """Build the index of a table and write it to a file."""
    [given] = parsing.listed([table], in_format, asked.csv, asked.query["on"])
    # An index is not a table, so the format of tables does not matter.
    output = Output(parsing.index_file(out), Format.ARROW, force=force)
    shown = sys.stderr.isatty() if progress is None else progress
    with running.failures_in_one_line(traceback=traceback):
        job = indexing.Job(given, **asked.query)
        counts = indexing.run(job, output, show_progress=shown and not quiet, verbose=verbose)
        if not quiet:
            typer.echo(f"tidegate: {counts}", err=True)


index = command("Index", dict)(_indexed)

"""The command line: the subcommands by name."""

from typing import Annotated

import typer

import tidegate
from tidegate.cli import doctor
from tidegate.cli.commands import indexes, joins, streams
from tidegate.cli.commands.texts import (
    AGGREGATE_HELP,
    ASOF_HELP,
    BAND_HELP,
    DIGEST_HELP,
    DOCTOR_HELP,
    HELP,
    INDEX_HELP,
    JOIN_HELP,
    MERGE_HELP,
    OVERLAP_HELP,
    ROLLING_HELP,
)

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    # Plain text, so that examples can be copied and each error is one line.
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
    """Handle the options before the subcommand."""


app.command("join", help=JOIN_HELP, short_help="Join two files into a third.")(joins.join)
app.command("asof", help=ASOF_HELP, short_help="Join each row with the row nearest in time.")(
    joins.asof
)
app.command("band", help=BAND_HELP, short_help="Join two files on values that are close together.")(
    joins.band
)
app.command("overlap", help=OVERLAP_HELP, short_help="Join two files by intervals that overlap.")(
    joins.overlap
)
app.command("index", help=INDEX_HELP, short_help="Prepare a table for many joins.")(indexes.index)
app.command("merge", help=MERGE_HELP, short_help="Merge files in time order.")(streams.merge)
app.command("aggregate", help=AGGREGATE_HELP, short_help="Aggregate files over windows of time.")(
    streams.aggregate
)
app.command("rolling", help=ROLLING_HELP, short_help="Aggregate a window of rows before each row.")(
    streams.rolling
)
app.command("digest", help=DIGEST_HELP, short_help="Print the digest of each file's rows.")(
    streams.digest
)


@app.command("doctor", help=DOCTOR_HELP, short_help="Print versions and machine features.")
def _doctor() -> None:
    """Print a report on the installation and the machine."""
    for label, text in doctor.report():
        typer.echo(f"{label:<14}{text}")

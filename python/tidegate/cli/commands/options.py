"""Command-line options that are not function arguments: files, progress and state."""

from typing import Annotated, TypeAlias, TypedDict

import typer

from tidegate.io.files import Format

Left: TypeAlias = Annotated[
    str, typer.Argument(metavar="LEFT", help="The files with the left rows, or -.")
]
Right: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="RIGHT", help="The files with the right rows, or -.", show_default=False
    ),
]
RightIndex: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="An index with the right rows, which replaces RIGHT.",
        show_default=False,
    ),
]
Out: TypeAlias = Annotated[
    str, typer.Option("-o", "--out", metavar="OUT", help="The file to write, or -.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")]
LeftFormat: TypeAlias = Annotated[
    Format | None,
    typer.Option(help="Format of LEFT.", show_default="by its extension or first bytes"),
]
RightFormat: TypeAlias = Annotated[
    Format | None,
    typer.Option(help="Format of RIGHT.", show_default="by its extension or first bytes"),
]
OutFormat: TypeAlias = Annotated[
    Format | None,
    typer.Option("--format", help="Format of OUT.", show_default="by its extension"),
]
Null: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--null",
        metavar="TEXT",
        help="Unquoted text that means null in CSV input; repeatable.",
        show_default="the empty string",
    ),
]
Types: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--types",
        metavar="NAME=TYPE,...",
        help="Types of CSV columns, such as user=string,p=double,ts=timestamp; repeatable.",
        show_default="guessed",
    ),
]
Delimiter: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--delimiter",
        metavar="CHARACTER",
        help="Delimiter of CSV input, such as ';' or tab; repeat to set it for each input.",
        show_default="a comma, or a tab in .tsv",
    ),
]
HasHeader: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether CSV input begins with column names.",
        show_default="expected",
    ),
]
ColumnNames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--names",
        metavar="NAME,...",
        help="Column names of CSV input without a header; repeat to give one list per input, "
        "which is empty for an input with a header.",
        show_default=False,
    ),
]
Quote: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--quote",
        metavar="CHARACTER",
        help="Quote character of CSV input, or none; repeat to set it for each input.",
        show_default='"',
    ),
]
Escape: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--escape",
        metavar="CHARACTER",
        help="Escape character of CSV input, such as '\\'; repeat to set it for each input.",
        show_default="none",
    ),
]
TimeFormat: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--time-format",
        metavar="FORMAT",
        help="Format of times in CSV input, such as '%d.%m.%Y %H:%M:%S.%f'; repeatable.",
        show_default="ISO8601",
    ),
]
Zone: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--csv-zone",
        metavar="ZONE",
        help="Time zone of times without a UTC offset in CSV input, such as Europe/Berlin; "
        "repeat to set it for each input.",
        show_default=False,
    ),
]
EpochUnit: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--epoch-unit",
        metavar="s|ms|us|ns",
        help="Unit of time columns with numbers since 1970, in input of any format; repeat to "
        "set it for each input.",
        show_default=False,
    ),
]
DecimalPoint: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--decimal",
        metavar="CHARACTER",
        help="Decimal point of CSV input; repeat to set it for each input.",
        show_default=".",
    ),
]
Encoding: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--encoding",
        metavar="ENCODING",
        help="Encoding of CSV input, such as latin-1; repeat to set it for each input.",
        show_default="utf-8",
    ),
]


class Csv(TypedDict):
    """The options for CSV input, which all commands have."""

    null: Null
    types: Types
    delimiter: Delimiter
    header: HasHeader
    names: ColumnNames
    quote: Quote
    escape: Escape
    time_format: TimeFormat
    zone: Zone
    epoch_unit: EpochUnit
    decimal: DecimalPoint
    encoding: Encoding


Threads: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Threads to use.", show_default="all")
]
PartitionBy: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Write OUT as a folder, with a subfolder for each value of COLUMN; repeatable.",
        show_default=False,
    ),
]
Follow: TypeAlias = Annotated[
    bool, typer.Option("--follow", help="Read the files as they grow, until Ctrl-C.")
]
UntilEnd: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--until-end", help="With --follow: read each file to its current end, then stop."
    ),
]
FlushAfter: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="With --follow: if a file has no new rows for this long, do not wait for its rows.",
        show_default="wait",
    ),
]
State: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="With --follow: save the progress in FILE, and resume from it.",
    ),
]
Checkpoint: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="With --state: the interval at which the state is written.",
        show_default="10s",
    ),
]
Explain: TypeAlias = Annotated[
    bool, typer.Option("--explain", help="Print the plan without joining or writing anything.")
]
Progress: TypeAlias = Annotated[
    bool | None,
    typer.Option(help="Show a progress bar.", show_default="if standard error is a terminal"),
]
Verbose: TypeAlias = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Show how CSV columns are read, and why."),
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Hide the progress bar and the summary.")
]
Traceback: TypeAlias = Annotated[
    bool, typer.Option("--traceback", help="Show the traceback of an error.")
]

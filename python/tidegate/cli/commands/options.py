"""Command-line options that are not function arguments: files, progress and state."""

from typing import Annotated, TypeAlias

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
    Format | None, typer.Option(help="Format of LEFT.", show_default="by its extension")
]
RightFormat: TypeAlias = Annotated[
    Format | None, typer.Option(help="Format of RIGHT.", show_default="by its extension")
]
OutFormat: TypeAlias = Annotated[
    Format | None,
    typer.Option("--format", help="Format of OUT.", show_default="by its extension"),
]
CsvNull: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="Unquoted text that means null in CSV input; repeatable.",
        show_default="the empty string",
    ),
]
Types: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=TYPE,...",
        help="Types of CSV columns, such as user=string,p=double,ts=timestamp; repeatable.",
        show_default="guessed",
    ),
]
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
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Hide the progress bar and the summary.")
]
Traceback: TypeAlias = Annotated[
    bool, typer.Option("--traceback", help="Show the traceback of an error.")
]

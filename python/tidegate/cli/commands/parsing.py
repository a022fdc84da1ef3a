"""Parses the values of options, and rejects invalid ones."""

import os
import re
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, cast

import pyarrow as pa
import typer

from tidegate.agg import Aggregate
from tidegate.calls.listed_windows import windows_table
from tidegate.cli import aggregating
from tidegate.cli.checkpoints import Keeping
from tidegate.cli.commands.options import Csv
from tidegate.cli.following import Manner
from tidegate.cli.tables import IndexInput, Input, Output
from tidegate.io.addresses import names_one_file
from tidegate.io.dialects import Dialect, DialectError, character
from tidegate.io.files import STANDARD_STREAM, Format, format_of, writes_in_place
from tidegate.types import IntervalNames, Within
from tidegate.windows import Rows, rows

# The default interval between two writes of a state, in seconds.
CHECKPOINT_S = 10.0

NEEDS_FOLLOW = "needs --follow; add it, or omit this option"
FOLDER = (
    "a folder can only be written as parquet, with --follow and --state; "
    "give a file name, or add --partition-by to write a folder of files"
)

# The type may contain an `=` in brackets, as in `timestamp[ns, tz=UTC]`.
NAME_AND_TYPE = re.compile(r"(.+)=([^=\[\]]*(?:\[.*\])?)", re.DOTALL)
ROWS = re.compile(r"\s*(\d+)\s*rows?\s*", re.IGNORECASE)
BINARY = {Format.PARQUET, Format.ARROW}


def sides(  # noqa: PLR0913, PLR0917 - a parameter for each option
    left: str,
    right: str | None,
    right_index: str | None,
    left_format: Format | None,
    right_format: Format | None,
    asked: Any,  # noqa: ANN401 - of `making`
) -> tuple[Input, Input | IndexInput]:
    """Return LEFT, and RIGHT or the index that replaces it."""
    if right_index is None:
        if right is None:
            misused("RIGHT", "give the files with the right rows, or --right-index FILE")
        return inputs(left, right, left_format, right_format, asked)
    if right is not None:
        misused("--right-index", "replaces RIGHT; give only one of them")
    if right_format is not None:
        misused("--right-format", "does not apply to --right-index; omit one of them")
    [dialect] = _dialects(asked.csv, [_times(asked.query)[0]])
    layout = _in_format(left, left_format, "--left-format")
    return Input(left, layout, dialect), IndexInput(right_index)


def check_index(asked: Any, right_index: str | None, *, follow: bool) -> None:  # noqa: ANN401 - of `making`
    """Reject options that a join with an index does not support."""
    if right_index is None:
        return
    if follow:
        message = "cannot be combined with --follow, because an index does not grow; "
        misused("--right-index", message + "give RIGHT instead")
    if asked.memory_limit is not None:
        message = "cannot be combined with --right-index, whose rows are mapped; "
        misused("--memory-limit", message + "omit this option, or give RIGHT instead")


def inputs(
    left: str,
    right: str,
    left_format: Format | None,
    right_format: Format | None,
    asked: Any,  # noqa: ANN401 - of `making`
) -> tuple[Input, Input]:
    """Return the inputs LEFT and RIGHT, with the options for input files."""
    if left == right == STANDARD_STREAM:
        misused("RIGHT", "only one of LEFT and RIGHT can be -; give a file name for the other")
    of_left, of_right = _times(asked.query)
    dialects = _dialects(asked.csv, [of_left, of_right])
    return (
        Input(left, _in_format(left, left_format, "--left-format"), dialects[0]),
        Input(right, _in_format(right, right_format, "--right-format"), dialects[1]),
    )


def _times(query: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:  # noqa: ANN401 - any join
    """Return the time columns of both sides of a join; a band join has none."""
    if query.function == "band_join":
        return (), ()
    left, right = query.arguments["on"]
    return (left, right) if query.function == "overlap_join" else ((left,), (right,))


def _dialects(csv: Csv, times: Sequence[tuple[str, ...]]) -> list[Dialect]:
    """Return the dialect of each input, with its time columns.

    If an option is given once, it applies to all inputs. Otherwise, it is given once per input.
    """
    each = {
        name: _each(name, cast("dict[str, list[str] | None]", csv)[name], len(times))
        for name in (
            "delimiter",
            "names",
            "quote",
            "escape",
            "zone",
            "epoch_unit",
            "decimal",
            "encoding",
        )
    }
    found = []
    for at, of_input in enumerate(times):
        given = {name: values[at] for name, values in each.items()}
        try:
            found.append(
                Dialect(
                    nulls=tuple(csv["null"] or [""]),
                    types=_types(csv["types"] or []),
                    delimiter=_character(given["delimiter"]),
                    header=csv["header"],
                    names=tuple((given["names"] or "").split(",")) if given["names"] else (),
                    quote='"' if given["quote"] is None else character(given["quote"]),
                    escape=character(given["escape"] or ""),
                    time_formats=tuple(csv["time_format"] or []),
                    zone=given["zone"] or None,
                    epoch_unit=given["epoch_unit"] or None,
                    times=of_input if given["epoch_unit"] else (),
                    decimal=given["decimal"] or ".",
                    encoding=given["encoding"] or None,
                    of_command=True,
                )
            )
        except DialectError as error:
            misused(_flag(error.option), error.reason)
    return found


def _flag(option: str) -> str:
    """Return the flag of a CSV option. `--zone` is already the flag for calendar windows."""
    return "--csv-zone" if option == "zone" else f"--{option.replace('_', '-')}"


def _character(text: str | None) -> str | None:
    return character(text) if text else None


def _each(name: str, values: list[str] | None, inputs: int) -> list[str | None]:
    """Return the value of an option for each input."""
    if not values:
        return [None] * inputs
    if len(values) == 1:
        return [values[0]] * inputs
    if len(values) != inputs:
        misused(_flag(name), f"expected one value, or one for each of the {inputs} inputs")
    return [*values]


def _types(given: list[str]) -> tuple[tuple[str, str], ...]:
    """Parse types such as `user=string,ts=timestamp[us]`; commas in brackets are part of a type."""
    found: dict[str, str] = {}
    for text in (one for texts in given for one in re.split(r",(?![^\[(]*[\])])", texts)):
        parts = NAME_AND_TYPE.fullmatch(text)
        if parts is None:
            misused("--types", f"expected NAME=TYPE, found {text!r:.80}")
        name, kind = parts.groups()
        if name in found:
            misused("--types", f"column {name!r} is specified twice; specify it only once")
        found[name] = kind
    return tuple(found.items())


def listed(
    names: list[str], in_format: Format | None, csv: Csv, on: str | tuple[str, str] | None = None
) -> list[Input]:
    """Return the inputs with these names, with the options for input files."""
    times = (on,) if isinstance(on, str) else on or ()
    dialects = _dialects(csv, [times] * len(names))
    return [
        Input(name, _in_format(name, in_format, "--in-format"), dialect)
        for name, dialect in zip(names, dialects, strict=True)
    ]


def _in_format(name: str, given: Format | None, option: str) -> Format | None:
    """Return the format of an input, or None if each file's extension determines it."""
    if name == STANDARD_STREAM or not names_one_file(name) or Path(name).is_fifo():
        # The first bytes of a pipe determine its format.
        return given or (None if name == STANDARD_STREAM else format_of(name))
    return _format(name, given, option)


def _format(name: str, given: Format | None, option: str) -> Format:
    layout = given or format_of(name)
    if layout is None:
        misused(option, f"{name} has no known extension; use parquet, csv, tsv, arrow or jsonl")
    return layout


def output(
    out: str, given: Format | None, partition_by: list[str] | None, *, force: bool
) -> Output:
    """Return the table to write; the file receives its name when the command ends."""
    if not partition_by:
        return Output(out, out_layout(out, given), force=force)
    if out == STANDARD_STREAM:
        misused("--partition-by", "needs a folder; give its name, as in -o pairs/")
    layout = given or Format.PARQUET
    if layout in {Format.JSON, Format.TSV}:
        misused("--partition-by", "writes only parquet, csv or arrow; give --format parquet")
    return Output(out, layout, force=force, partition_by=tuple(partition_by))


def index_file(out: str) -> str:
    """Return the name of the index to write, which must be a file name."""
    if writes_in_place(out) or out.endswith(("/", os.sep)):
        misused("OUT", "an index is written to a file, which joins then map; give a file name")
    return out


def out_layout(
    out: str, given: Format | None, state: str | None = None, *, follow: bool = False
) -> Format:
    """Return the format of OUT, and check that OUT can be written in this format."""
    is_folder = out.endswith(("/", os.sep))
    layout = Format.PARQUET if is_folder and given is None else _format(out, given, "--format")
    if out == STANDARD_STREAM and given is None and sys.stdout.isatty():
        # A terminal shows text.
        layout = Format.CSV
    if is_folder and (layout is not Format.PARQUET or state is None):
        misused("OUT", FOLDER)
    if follow and layout is Format.PARQUET and not is_folder:
        misused(
            "--format",
            "--follow writes csv or arrow, because an incomplete parquet file cannot be read; "
            "with --state, it also writes parquet files to a folder, as in -o DIR/",
        )
    if follow and layout is Format.JSON:
        misused("--format", "--follow writes csv or arrow; give one of these")
    if out == STANDARD_STREAM and layout in BINARY and sys.stdout.isatty():
        misused("OUT", f"{layout} cannot be shown on a terminal; write a file, or use --format csv")
    return layout


def check_limits(asked: Any, state: str | None, *, follow: bool | None) -> None:  # noqa: ANN401 - of `making`
    """Check the options that depend on --follow and --memory-limit.

    Args:
        asked: The query's options.
        state: The value of --state.
        follow: The value of --follow; None for a subcommand that does not have this option.
    """
    if not follow and state is not None:
        misused("--state", NEEDS_FOLLOW)
    if not follow and asked.memory_limit is None and asked.lateness is not None:
        needed = (
            "--memory-limit; add it" if follow is None else "--follow or --memory-limit; add one"
        )
        misused("--lateness", f"needs {needed}, or omit this option")
    if not follow and asked.max_width is not None:
        misused("--max-width", NEEDS_FOLLOW)
    if follow and asked.query.max_rows is not None:
        misused("--max-rows", "cannot be combined with --follow, because the result has no end")
    if follow and asked.memory_limit is not None:
        message = "cannot be combined with --follow, which keeps all rows that may still match"
        misused("--memory-limit", message)


def check_ends(flush_after: str | None, *, until_end: bool, follow: bool) -> None:
    """Check the options that determine when growing files end."""
    if until_end and not follow:
        misused("--until-end", NEEDS_FOLLOW)
    if flush_after is not None and not follow:
        misused("--flush-after", NEEDS_FOLLOW)


def manner(
    flush_after: str | None, *, until_end: bool, verbose: bool, progress: bool | None, quiet: bool
) -> Manner:
    """Combine the options for following files."""
    shown = sys.stderr.isatty() if progress is None else progress
    return Manner(
        until_end=until_end,
        flush_after_s=None if flush_after is None else _seconds(flush_after, "--flush-after"),
        is_verbose=verbose,
        shows_progress=shown and not quiet,
    )


def check_one_file(partition_by: list[str] | None) -> None:
    """Reject --partition-by, which --follow does not support."""
    if partition_by:
        misused(
            "--partition-by", "cannot be combined with --follow; write to a single file or folder"
        )


def keeping(state: str | None, checkpoint: str | None) -> Keeping | None:
    """Combine --state and --checkpoint."""
    if state is None:
        if checkpoint is not None:
            misused("--checkpoint", "needs --state; add --state FILE, or omit --checkpoint")
        return None
    return Keeping(
        state, CHECKPOINT_S if checkpoint is None else _seconds(checkpoint, "--checkpoint")
    )


def _seconds(text: str, option: str) -> float:
    """Convert a duration, such as 10s, 500ms or 1h30m, to seconds."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    seconds = sum(float(number) * units[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or seconds <= 0:
        misused(option, f"expected a duration above 0, such as 10s or 1m; found {text!r:.80}")
    return seconds


def intervals(text: str) -> IntervalNames:
    """Parse `start,end`, or a pair of columns for each side, such as `start,end=from,to`."""
    sides = [side.split(",") for side in text.split("=")]
    if len(sides) > 2 or any(len(side) != 2 or not all(side) for side in sides):  # noqa: PLR2004
        misused("--on", f"expected START,END or START,END=START,END, found {text!r:.80}")
    (start, end), (right_start, right_end) = sides[0], sides[-1]
    return (start, end), (right_start, right_end)


def time_or_interval(text: str) -> str | tuple[str, str]:
    """Parse a time column, or `start,end`."""
    names = text.split(",")
    if len(names) > 2 or not all(names):  # noqa: PLR2004
        misused("--on", f"expected COLUMN or START,END, found {text!r:.80}")
    return names[0] if len(names) == 1 else (names[0], names[1])


def pair(text: str, option: str) -> tuple[str, str]:
    """Parse `column` or `left=right`."""
    names = text.split("=")
    if text.count("=") > 1 or not all(names):
        misused(option, f"expected COLUMN or LEFT=RIGHT, found {text!r:.80}")
    return names[0], names[-1]


def pair_of_times(text: str) -> tuple[str, str]:
    """Parse the --on option of a time-based join."""
    return pair(text, "--on")


def pairs_of_values(given: list[str]) -> list[tuple[str, str]]:
    """Parse the --on options of a band join."""
    return [pair(text, "--on") for text in given]


def names(text: str) -> list[str]:
    """Parse a comma-separated list of column names."""
    return text.split(",")


def keys(given: list[str]) -> dict[str, str]:
    """Parse the --by options into a mapping from left to right names."""
    found: dict[str, str] = {}
    for left, right in (pair(text, "--by") for text in given):
        if left in found:
            misused("--by", f"column {left!r} is specified twice; specify it only once")
        found[left] = right
    return found


def group_keys(given: list[str]) -> list[str] | dict[str, str]:
    """Parse the --by options of an aggregation: columns or expressions, which may have names."""
    named = [re.fullmatch(r"(\w+)=([^=].*)", text, re.DOTALL) for text in given]
    if not any(named):
        return given
    found: dict[str, str] = {}
    for text, one in zip(given, named, strict=True):
        name, value = (text, text) if one is None else (one[1], one[2])
        if name in found:
            misused("--by", f"key {name!r} is specified twice; specify it only once")
        found[name] = value
    return found


def aggregates(given: list[str]) -> dict[str, Aggregate]:
    """Parse the --agg options into a mapping from column names to functions."""
    found: dict[str, Aggregate] = {}
    for text in given:
        name, equals, function = text.partition("=")
        if not (name and equals):
            misused("--agg", f"expected NAME=FUNCTION, found {text!r:.80}")
        if name in found:
            misused("--agg", f"column {name!r} is specified twice; specify it only once")
        try:
            found[name] = aggregating.function(function)
        except ValueError as error:
            misused("--agg", str(error))
    return found


def bound(text: str) -> str | int | None:
    """Parse a duration, or `none` for no bound."""
    return None if text.lower() in {"none", "unbounded"} else duration(text)


def tolerance(text: str) -> str | int | list[str | int | None] | None:
    """Parse a duration, or a list of durations with one per offset."""
    return [bound(part.strip()) for part in text.split(",")] if "," in text else bound(text)


def offsets(text: str) -> list[str | int]:
    """Parse offsets: durations that are separated by commas."""
    return [duration(part.strip()) for part in text.split(",")]


def duration(text: str) -> str | int:
    """Parse a duration: an integer in the unit of the column, or a string such as "5s"."""
    try:
        return int(text)
    except ValueError:
        return text


def duration_or_rows(text: str) -> str | int | Rows:
    """Parse a duration, or a number of rows such as `20rows`."""
    if found := ROWS.fullmatch(text):
        return rows(int(found[1]))
    return duration(text)


def windows(text: str) -> pa.Table:
    """Read a file that lists windows."""
    found = windows_table(text)
    assert found is not None  # noqa: S101 - for mypy
    return found


def fills(text: str) -> str | dict[str, str]:
    """Parse the fill value of all functions, or of each one, as in `close=last,size=zero`."""
    if "=" not in text:
        return text
    parts = [part.partition("=") for part in text.split(",")]
    if not all(name and fill for name, _, fill in parts):
        misused("--empty", f"expected FILL or NAME=FILL,..., found {text!r:.80}")
    return {name: fill for name, _, fill in parts}


def within(text: str) -> Within:
    """Parse a single distance, or two distances: one below and one above."""
    below, comma, above = text.partition(",")
    if comma:
        return _distance(below), _distance(above)
    distance = _distance(text)
    if distance is None:
        misused("--within", f"expected DISTANCE or BELOW,ABOVE, found {text!r:.80}")
    return distance


def withins(given: list[str]) -> Within | list[Within]:
    """Parse one distance for all columns, or one distance per column."""
    found = [within(text) for text in given]
    return found[0] if len(found) == 1 else found


def _distance(text: str) -> int | Decimal | str | None:
    """Parse a number, a duration, or `none` for no bound."""
    given = bound(text)
    if isinstance(given, str) and given[-1:].isdigit():
        try:
            return Decimal(given)
        except ArithmeticError:
            return given
    return given


def misused(option: str, reason: str) -> NoReturn:
    """Reject an option's value with a message, as typer does."""
    raise typer.BadParameter(reason, param_hint=option)

"""CSV files with a dialect, types and time formats, as inputs of calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from tidegate.deferred import Deferred

if TYPE_CHECKING:
    from tidegate.io import dialects
else:
    dialects = Deferred("tidegate.io.dialects")

__all__ = ["CsvFiles", "csv"]


@dataclass(frozen=True, slots=True)
class CsvFiles:
    """CSV files and the options for reading them; created by `csv`."""

    paths: str | PathLike[str] | Sequence[str | PathLike[str]]
    dialect: dialects.Dialect


def csv(  # noqa: PLR0913 - the options of the text
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    types: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    quote: str = '"',
    escape: str = "",
    null: str | Sequence[str] = "",
    time_format: str | Sequence[str] | None = None,
    zone: str | None = None,
    epoch_unit: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
) -> CsvFiles:
    r"""Describe how to read CSV files.

    The result can be passed to every function that accepts tables. The files are read when a
    function needs their rows. A value that does not fit its column raises an error and is never
    changed into another value. If no options are needed, pass the path itself.

    Example:
        >>> import pathlib
        >>> import tidegate as tg
        >>> _ = pathlib.Path("trades.csv").write_text(
        ...     "ts;account;price\n02.03.2026 10:00:00;007;1,5\n02.03.2026 10:00:30;007;2,5\n"
        ... )
        >>> trades = tg.csv(
        ...     "trades.csv", delimiter=";", decimal=",", time_format="%d.%m.%Y %H:%M:%S"
        ... )
        >>> aggs = {"n": tg.agg.count(), "last": tg.agg.last("price")}
        >>> minutes = tg.aggregate(trades, on="ts", size="1m", by="account", aggs=aggs)
        >>> minutes.select(["account", "n", "last"]).to_pylist()
        [{'account': '007', 'n': 2, 'last': 2.5}]

        Numbers that count milliseconds since 1970:

        >>> _ = pathlib.Path("pages.csv").write_text("1772445600123,u1\n1772445660000,u2\n")
        >>> pages = tg.csv(
        ...     "pages.csv", names=["at", "user"], types={"at": "timestamp"}, epoch_unit="ms"
        ... )
        >>> tg.merge([pages], on="at")["at"].type
        TimestampType(timestamp[us, tz=UTC])

    Args:
        path: A file, a folder, a pattern such as "trades/*.csv", a URL, or a list of these. Files
            can be compressed with gzip or zstd.
        types: The types of columns by name, such as `{"user": "string", "p": "double", "ts":
            "timestamp"}`. The types of other columns are inferred from their values. A column of
            numbers becomes a string column if a value has a leading zero, does not fit in 64 bits
            as an integer, or is in quotes.
        delimiter: The character between values. By default, this is a comma, or a tab if the
            extension is `.tsv`.
        header: Whether the first line contains the column names. By default, it must do so, and a
            number or time in the first line is an error.
        names: The column names of files without a header. With `header=False` alone, the names are
            `f0`, `f1` and so on.
        quote: The character around values that contain delimiters or line ends; an empty string if
            no value is quoted.
        escape: The character that causes the next character to be read literally, such as a
            backslash in `"say \"hi\""`. By default, there is none, and two quotes within a quoted
            value represent one.
        null: The unquoted strings that represent null.
        time_format: The format of times, such as "%d/%m/%Y %I:%M:%S.%f %p", or a sequence of
            formats. A string column becomes a time column if one of these formats fits all its
            values. `%f` is a fraction of up to nine digits. By default, times are in ISO 8601
            format. To accept this format as well as others, include "ISO8601" in the sequence.
        zone: The time zone of times without a UTC offset, such as "Europe/Berlin". These times are
            converted to UTC. A local time that is skipped or repeated, as when daylight saving time
            begins or ends, is an error.
        epoch_unit: "s", "ms", "us" or "ns": the unit of numbers that count time since the start of
            1970 in UTC, in columns whose type in `types` is a timestamp. Fractions are exact.
        decimal: The decimal point, "." or ",".
        encoding: The character encoding, such as "latin-1". By default, this is UTF-8, or UTF-16 if
            a file begins with a UTF-16 byte order mark.

    Raises:
        TidegateError: An option has an invalid value; the message names the option.
    """
    # Imported late, because it imports pyarrow.
    from tidegate.io.dialects import Dialect  # noqa: PLC0415

    dialect = Dialect(
        nulls=_several(null),
        types=tuple((types or {}).items()),
        delimiter=delimiter,
        header=header,
        names=tuple(names or ()),
        quote=quote,
        escape=escape,
        time_formats=() if time_format is None else _several(time_format),
        zone=zone,
        epoch_unit=epoch_unit,
        decimal=decimal,
        encoding=encoding,
    )
    return CsvFiles(path, dialect)


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)

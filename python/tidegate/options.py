"""The name, type, default and description of each join, aggregation and merge option.

The signatures and docstrings of `tidegate`, of the native classes and of the `tidegate.spark` joins
come from this table, and so do the command's options. `make options` writes the signatures and
docstrings into their files, and a test checks that they are up to date. A new option therefore
needs only two things: an entry here, and code in the native query or the Spark plan that reads it.

Options are listed in the order in which they appear in signatures. An option may have several
entries, because its meaning can differ between functions. Each entry lists the functions and
classes that have the option.

Long because it contains the description of every option.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

PAIRS = ("interval_join", "window_join", "band_join", "overlap_join")
JOINS = ("asof_join", *PAIRS)
OPERATORS_OF_PAIRS = ("IntervalJoin", "WindowJoin", "BandJoin", "OverlapJoin")
OPERATORS = ("AsofJoin", *OPERATORS_OF_PAIRS)
PAIRS_ON_SPARK = tuple(f"spark.{name}" for name in PAIRS)
ON_SPARK = ("spark.asof_join", *PAIRS_ON_SPARK)


def in_one_table(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names used for the variants that return one table."""
    return tuple(f"{name} in one table" for name in names)


def in_batches(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names used for the variants that return batches."""
    return tuple(f"{name} in batches" for name in names)


@dataclass(frozen=True)
class OfCommand:
    """The command-line form of an option.

    Args:
        help: The help text, on one line.
        metavar: The placeholder for the value in the help text.
        read: The function in `tidegate.cli.commands.parsing` that parses the value.
        flag: The flag, if it differs from the argument's name.
        shown_default: The default as shown in the help.
        repeats: Whether the option may be given several times.
        is_required: Whether the command requires the option even though the function has a default.
        least: The minimum of a numeric value.
    """

    help: str
    metavar: str | None = None
    read: str | None = None
    flag: str | None = None
    shown_default: str | bool = True
    repeats: bool = False
    is_required: bool = False
    least: int | None = None


@dataclass(frozen=True)
class Option:
    """An argument that functions and classes accept.

    Args:
        name: The name of the argument.
        type: Its type annotation.
        of: The functions and classes that accept the argument. A function's name also covers its
            variant that returns batches, unless `in_one_table` or `in_batches` is used.
        text: Its description in docstrings.
        default: The default as Python source; None if the argument is required.
        is_input: Whether the argument can be passed by position.
        command: The command-line option, if there is one.
    """

    name: str
    type: str
    of: tuple[str, ...]
    text: str
    default: str | None = None
    is_input: bool = False
    command: OfCommand | None = None

    def is_of(self, name: str) -> bool:
        """Return whether a function or a class has this option.

        Example:
            >>> from tidegate.options import options_of
            >>> [option.name for option in options_of("merge")]
            ['streams', 'on', 'lateness', 'unit', 'progress', 'threads', 'memory_limit']
        """
        function = name.removesuffix("_batches")
        form = "batches" if name != function else "one table"
        return function in self.of or f"{function} in {form}" in self.of

    @property
    def plain_text(self) -> str:
        """The text on one line."""
        return " ".join(textwrap.dedent(self.text).split())


def options_of(name: str) -> list[Option]:
    """Return the options of a function or a class, in signature order."""
    return [option for option in OPTIONS if option.is_of(name)]


OPTIONS: tuple[Option, ...] = (
    Option(
        "left",
        "Table",
        (*JOINS,),
        """
        The left input, which can be Arrow data (a pyarrow table, batches or reader, a polars or
        pandas DataFrame, a DuckDB relation), a path or a list of paths (a file, a folder, a pattern
        such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a pyarrow Dataset, Scanner
        or ParquetFile, a polars LazyFrame, a NumPy record array, a dict of arrays, or an `Index`.
        Only the columns that the call uses are read from files and lazy inputs.
        """,
        is_input=True,
    ),
    Option(
        "left",
        "pa.Schema | Table",
        (*OPERATORS,),
        """
        The schema of the left sources: a `pyarrow.Schema`, or data with this schema.
        """,
        is_input=True,
    ),
    Option(
        "right",
        "Table",
        (*JOINS,),
        """
        The right input. `right` accepts the same kinds of input as `left`. If it is an `Index`,
        `on` and `by` only need the names of the left columns.
        """,
        is_input=True,
    ),
    Option(
        "right",
        "pa.Schema | Table",
        ("AsofJoin", "IntervalJoin", "WindowJoin", "OverlapJoin"),
        """
        The schema of the right sources: a `pyarrow.Schema`, or data with this schema.
        """,
        is_input=True,
    ),
    Option(
        "right",
        "pa.Schema | Table | None",
        ("BandJoin",),
        """
        The schema of the right sources: a `pyarrow.Schema`, or data with this schema. If `right` is
        None, rows from the left sources are joined with each other. Such a self-join accepts single
        names, not pairs, for `on`, `by` and `time`. The self-join has only one `window`, and `how`
        must be `inner`.
        """,
        is_input=True,
    ),
    Option(
        "on",
        "Sides",
        ("asof_join", "interval_join", "window_join"),
        """
        The time column, or a pair of names if the column has a different name on each side. Times
        must be integers, dates or timestamps. Timestamps with time zones are compared as instants.
        The time units of the two sides may differ. Instead of a name, `on` accepts an expression
        over `tidegate.row` columns, or its SQL text.
        """,
        command=OfCommand(
            "The time column of both sides.", metavar="COLUMN|LEFT=RIGHT", read="pair_of_times"
        ),
    ),
    Option(
        "on",
        "Names",
        ("AsofJoin", "IntervalJoin", "WindowJoin"),
        """
        The time column, or a pair of names if the column has a different name on each side. Times
        must be integers, dates or timestamps. Timestamps with time zones are compared as instants.
        The time units of the two sides may differ.
        """,
    ),
    Option(
        "on",
        "SideValues",
        ("band_join",),
        """
        The band columns: a name, a list of names or name pairs, or a mapping from left to right
        names. Band columns must contain integers, floats, decimals, dates or timestamps. If a
        column contains floats on either side, both sides are compared as floats. Instead of a name,
        `on` accepts an expression over `tidegate.row` columns, or its SQL text.
        """,
        command=OfCommand(
            "A band column; repeat it for several columns.",
            metavar="COLUMN|LEFT=RIGHT",
            read="pairs_of_values",
            repeats=True,
        ),
    ),
    Option(
        "on",
        "str | Sequence[Names] | Mapping[str, str]",
        ("BandJoin",),
        """
        The band columns: a name, a list of names or name pairs, or a mapping from left to right
        names. Band columns must contain integers, floats, decimals, dates or timestamps. If a
        column contains floats on either side, both sides are compared as floats.
        """,
    ),
    Option(
        "on",
        "IntervalNames",
        ("overlap_join",),
        """
        The names of the start and end columns. If the names differ between the sides, give a pair
        of names for each side, as in `(("ts", "ts"), ("start", "end"))`. If a side has a single
        time column, give its name twice. Each row on that side then matches the intervals that
        contain its time. The columns must contain integers, dates or timestamps. Instead of a name,
        `on` accepts an expression over `tidegate.row` columns, or its SQL text. A row with a null
        start or end does not match any row, unless `open_ends` is true.
        """,
        command=OfCommand(
            "The start and end columns of both sides.",
            metavar="START,END|START,END=START,END",
            read="intervals",
        ),
    ),
    Option(
        "on",
        "IntervalNames",
        ("OverlapJoin",),
        """
        The names of the start and end columns. If the names differ between the sides, give a pair
        of names for each side, as in `(("ts", "ts"), ("start", "end"))`. If a side has a single
        time column, give its name twice. Each row on that side then matches the intervals that
        contain its time. The columns must contain integers, dates or timestamps. Sources deliver
        rows in the order of their starts, so a start must not be null. A row with a null end does
        not match any row.
        """,
    ),
    Option(
        "within",
        "Within | list[Within] | Mapping[str, Within]",
        ("band_join", "BandJoin"),
        """
        The maximum distance between the values in two matching rows. Give one distance for all
        columns, a list with one distance per column, or a mapping from left column names to
        distances. A distance is a number. For integer times, the distance must be an integer. For
        dates and timestamps, the distance is a timedelta, a numpy timedelta64 or a string such as
        "250ms". A pair `(below, above)` means `l.on - below <= r.on <= l.on + above`, where None
        sets no bound.
        """,
        command=OfCommand(
            "The maximum distance between values: one for all columns, or one per column.",
            metavar="DISTANCE|BELOW,ABOVE",
            read="withins",
            repeats=True,
        ),
    ),
    Option(
        "time",
        "Names | None",
        ("band_join",),
        """
        The time column that orders the rows for `window`, or a pair of names if the column has a
        different name on each side.
        """,
        default="None",
    ),
    Option(
        "time",
        "Names",
        ("BandJoin",),
        """
        The time column that orders the rows for `window`, or a pair of names if the column has a
        different name on each side.
        """,
    ),
    Option(
        "window",
        "Window | tuple[Window, Window] | None",
        ("band_join",),
        """
        How long a row stays in its side's window. Give a timedelta, a numpy timedelta64, a string
        such as "15m", or an integer if times are integers. For a row-based window, use
        `tidegate.rows(n)`, which keeps the last n rows regardless of their keys. To give each side
        its own window, pass a pair: first the left window, then the right one.
        """,
        default="None",
    ),
    Option(
        "window",
        "Window | tuple[Window, Window]",
        ("window_join", "WindowJoin", "BandJoin"),
        """
        How long a row stays in its side's window. Give a timedelta, a numpy timedelta64, a string
        such as "15m", or an integer if times are integers. For a row-based window, use
        `tidegate.rows(n)`, which keeps the last n rows regardless of their keys. To give each side
        its own window, pass a pair: first the left window, then the right one.
        """,
    ),
    Option(
        "lower",
        "End",
        ("interval_join", "IntervalJoin"),
        """
        The start of the interval, as a distance from the left row's time. If the value is negative,
        the interval starts before that time. Give a timedelta, a numpy timedelta64 or a string such
        as "1h30m", "-5s" or "250ms". If times are integers, give an integer in the same unit. None
        sets no bound. To set a separate start for each row, pass an expression over the columns of
        one side, such as `-tg.left.tolerance`, or its SQL text. The expression must return a
        duration or an integer. An expression over left columns may also return a time, which is
        then used as the start itself. If the expression is null for a row, that row does not match
        any row.
        """,
        command=OfCommand(
            "The smallest right time minus left time.", metavar="DURATION|EXPR", read="bound"
        ),
    ),
    Option(
        "upper",
        "End",
        ("interval_join", "IntervalJoin"),
        """
        The end of the interval, as a distance from the left row's time. `upper` accepts the same
        values as `lower`, and must not be less than `lower`. If expressions place the end of a
        row's interval before its start, the row does not match any row. None sets no bound.
        """,
        command=OfCommand(
            "The largest right time minus left time.", metavar="DURATION|EXPR", read="bound"
        ),
    ),
    Option(
        "by",
        "SideValues | None",
        (*JOINS,),
        """
        The key columns: a name, a list of names or name pairs, or a mapping from left to right
        names. Two rows match only if all of their keys are equal. Without keys, any two rows may
        match. Instead of a name, `by` accepts an expression over `tidegate.row` columns, or its SQL
        text.
        """,
        default="None",
        command=OfCommand(
            "A key column; repeat it for several columns.",
            metavar="COLUMN|LEFT=RIGHT",
            read="keys",
            repeats=True,
        ),
    ),
    Option(
        "by",
        "KeyNames | None",
        (*OPERATORS,),
        """
        The key columns: a name, a list of names or name pairs, or a mapping from left to right
        names. Two rows match only if all of their keys are equal. Without keys, any two rows may
        match.
        """,
        default="None",
    ),
    Option(
        "streams",
        "Streams",
        ("aggregate",),
        """
        An input or a sequence of inputs, which can be Arrow data, paths, datasets, lazy frames,
        record arrays or dicts of arrays. The columns of the inputs are matched by name. The inputs
        are numbered from 0 in the order given.
        """,
        is_input=True,
    ),
    Option(
        "streams",
        "Table | Iterable[Table]",
        ("merge",),
        """
        The streams or tables to merge, which can be Arrow data, paths, datasets, lazy frames,
        record arrays or dicts of arrays. There must be at least one stream, and all streams must
        have the same columns. If you pass a single path, each file at that path is a stream. The
        streams are numbered from 0 in the order given.
        """,
        is_input=True,
    ),
    Option(
        "table",
        "Table",
        ("Index",),
        """
        The rows, which can be Arrow data, a path or a list of paths, a lazy frame or a dict of
        arrays. They must not change afterwards.
        """,
        is_input=True,
    ),
    Option(
        "table",
        "Table",
        ("rolling",),
        """
        The input, which can be Arrow data, a path or a list of paths, a dataset, a lazy frame, a
        record array or a dict of arrays.
        """,
        is_input=True,
    ),
    Option(
        "on",
        "str | tuple[str, str]",
        ("Index",),
        """
        The time column, or a pair with the start and end columns for `overlap_join`. A row with a
        null start or end does not match any row, unless `open_ends` is true.
        """,
        command=OfCommand(
            "The time column, or the start and end columns.",
            metavar="COLUMN|START,END",
            read="time_or_interval",
        ),
    ),
    Option(
        "by",
        "str | Sequence[str] | None",
        ("Index",),
        """
        The key columns: a name or a list of names. None means that the joins have no keys.
        """,
        default="None",
        command=OfCommand(
            "A key column; repeat it for several columns.", metavar="COLUMN", repeats=True
        ),
    ),
    Option(
        "keep",
        "Bound",
        ("Index",),
        """
        The age at which rows expire, relative to the latest row: a timedelta, a numpy timedelta64,
        a string such as "1h", or an integer if times are integers. Rows with a start and an end
        expire when they end this long before the latest start. None keeps all rows.
        """,
        default="None",
    ),
    Option(
        "open_ends",
        "bool",
        ("Index",),
        """
        Whether a null start or end means that the interval is open, as in `overlap_join`. Joins
        with the index must have the same `open_ends`. Rows without an end never expire.
        """,
        default="False",
        command=OfCommand(
            "A null start or end means that the interval has no start or end.", flag="--open-ends"
        ),
    ),
    Option(
        "schema",
        "pa.Schema | Table",
        ("Merge", "Aggregate", "Rolling"),
        """
        The schema of all sources: a `pyarrow.Schema`, or data with this schema.
        """,
        is_input=True,
    ),
    Option(
        "on",
        "Value",
        ("aggregate", "rolling"),
        """
        The time column, which must contain integers, dates or timestamps, or an expression over
        `tidegate.row` columns, or its SQL text.
        """,
        command=OfCommand("The time column.", metavar="COLUMN"),
    ),
    Option(
        "on",
        "str",
        ("Aggregate", "Rolling"),
        """
        The time column, which must contain integers, dates or timestamps.
        """,
    ),
    Option(
        "on",
        "str",
        ("merge", "Merge"),
        """
        The time column, which must contain integers, dates or timestamps.
        """,
        default="'ts'",
        command=OfCommand("The time column.", metavar="COLUMN", is_required=True),
    ),
    Option(
        "size",
        "Window | None",
        ("aggregate", "Aggregate"),
        """
        The length of a window: a timedelta, a numpy timedelta64, or a string such as "1h30m" or
        "250ms". If times are integers, give an integer in the same unit. The size must be a
        positive whole number of the time column's units. In strings, "1d", "1w", "1mo", "1q", "1y"
        and their multiples are calendar units if the time zone is known, which means that the time
        column has a time zone, `zone` is given, or the column contains dates. Local days then have
        23 to 25 hours, while "24h" always has 24 hours. `tidegate.rows(n)` specifies a number of
        rows with the same key.
        """,
        default="None",
        command=OfCommand(
            "The length of a window, or a number of rows, such as 20rows; 1d, 1w, 1mo, 1q and 1y"
            " are calendar units if the time zone is known.",
            metavar="DURATION|ROWS",
            read="duration_or_rows",
            shown_default=False,
        ),
    ),
    Option(
        "size",
        "Window",
        ("rolling", "Rolling"),
        """
        The length of each window. A timedelta, a numpy timedelta64 or a string such as "5m" is a
        length of time, and so is an integer if times are integers. `tidegate.rows(n)` specifies a
        number of rows with the same key, in time order. Rows with equal times are in input order.
        """,
        command=OfCommand(
            "The length of each window, such as 5m, or a number of rows, such as 20rows.",
            metavar="DURATION|ROWS",
            read="duration_or_rows",
        ),
    ),
    Option(
        "advance",
        "Window | None",
        ("aggregate", "Aggregate"),
        """
        The time between the starts of successive windows. `advance` accepts the same values as
        `size`. None means `size`. If `advance` is greater than `size`, there are gaps between
        windows. If `size` is in calendar units or is a number of rows, `advance` must be, too.
        """,
        default="None",
        command=OfCommand(
            "The time between the starts of two successive windows.",
            metavar="DURATION|ROWS",
            read="duration_or_rows",
            shown_default="the size",
        ),
    ),
    Option(
        "step",
        "Length | None",
        ("aggregate", "Aggregate"),
        """
        The difference between the lengths of windows that begin at the same time. The result then
        contains running totals: each window of length `size` is preceded by shorter windows that
        end after one step, two steps and so on. `step` accepts durations like `size`, and calendar
        units if `size` is in calendar units.
        """,
        default="None",
        command=OfCommand(
            "The time after which windows that begin at the same time end: once per step.",
            metavar="DURATION",
            read="duration",
            shown_default=False,
        ),
    ),
    Option(
        "closed",
        "ClosedWindow | None",
        ("aggregate", "Aggregate"),
        """
        The end that a window of length `size` includes: `left`, the default, or `right`. With
        `right`, a row at the start of a window belongs to the window that ends there.
        """,
        default="None",
        command=OfCommand("The end that a window includes.", shown_default="left"),
    ),
    Option(
        "offset",
        "Length | None",
        ("aggregate", "Aggregate"),
        """
        The offset of window starts from 1970-01-01T00:00 UTC, or from 0 if times are integers.
        `offset` accepts the same values as `size`, and may also be negative or 0. None means 0. If
        `size` is in calendar units, `offset` is added to the local date and time: with `size="1mo"`
        and `offset="14d6h"`, windows begin on the 15th at 06:00.
        """,
        default="None",
        command=OfCommand(
            "The offset of the window starts from the epoch.",
            metavar="DURATION",
            read="duration",
            shown_default="0",
        ),
    ),
    Option(
        "zone",
        "str | None",
        ("aggregate", "Aggregate"),
        """
        The time zone in which calendar units are counted: a name such as "Europe/Berlin", or an
        offset such as "+05:30". None means the time zone of the time column. Times without a time
        zone are in UTC.
        """,
        default="None",
        command=OfCommand(
            "The time zone of calendar units, such as Europe/Berlin.",
            metavar="ZONE",
            shown_default="the zone of the time column",
        ),
    ),
    Option(
        "week_start",
        "Weekday | None",
        ("aggregate", "Aggregate"),
        """
        The first day of windows that consist of weeks: `monday` to `sunday`. None means Monday.
        """,
        default="None",
        command=OfCommand(
            "The first day of windows that consist of weeks.",
            metavar="WEEKDAY",
            shown_default="monday",
        ),
    ),
    Option(
        "session",
        "Length | Value | None",
        ("aggregate", "Aggregate"),
        """
        How long each row keeps the session of its key open. `session` accepts the same values as
        `size`, except for calendar units, and replaces `size`, `advance` and `offset`. If each row
        has its own gap, `session` is a column or an expression, such as `tidegate.row.gap`. Its
        values are durations, or integers in the same unit as the times, and must be greater than 0.
        A row whose time is exactly the end of a session starts a new session.
        """,
        default="None",
        command=OfCommand(
            "How long each row keeps the session of its key open; replaces the size.",
            metavar="DURATION|EXPR",
            read="duration",
            shown_default=False,
        ),
    ),
    Option(
        "windows",
        "Table | None",
        ("aggregate", "Aggregate"),
        """
        A table with one row per window, which replaces `size`. The columns `window_start` and
        `window_end` contain the start of each window, inclusive, and its end, exclusive. Windows
        may overlap, and a row belongs to every window that contains its time. If the table has
        columns with the names of key columns, a window contains only rows with the same values in
        these columns. Other columns are ignored. `tidegate.calendar` returns such a table.
        """,
        default="None",
        command=OfCommand(
            "A file with the columns window_start and window_end, and optionally key columns.",
            metavar="FILE",
            read="windows",
            shown_default=False,
        ),
    ),
    Option(
        "empty",
        "Empty | Mapping[str, Empty] | None",
        ("aggregate",),
        """
        Whether the result contains windows without rows, and what the functions return for them.
        `skip`, the default, omits them. With any other value, the windows of each key extend from
        its first window with rows to its last one. Counts are 0 in windows without rows. For all
        other functions, `null` returns null, `zero` returns 0, `last` returns the value of the
        key's previous window with rows, and `linear` returns a value on the line between the
        previous and the next window with rows. To fill each column differently, give a mapping from
        result column names to these values; columns that are not in the mapping are null. `linear`
        cannot be combined with `memory_limit`.
        """,
        default="None",
        command=OfCommand(
            "Also return windows without rows, filled with null, zero, last or linear; to fill"
            " columns differently, write NAME=FILL,...",
            metavar="FILL",
            read="fills",
            shown_default="skip",
        ),
    ),
    Option(
        "empty",
        "Empty | Mapping[str, Empty] | None",
        ("Aggregate",),
        """
        Whether the results contain windows without rows, and what the functions return for them.
        `skip`, the default, omits them. With any other value, windows without rows are emitted as
        soon as the watermark has passed their end. Counts are 0 in these windows. For all other
        functions, `null` returns null, `zero` returns 0, and `last` returns the value of the key's
        previous window with rows. To fill each column differently, give a mapping from result
        column names to these values; columns that are not in the mapping are null.
        """,
        default="None",
    ),
    Option(
        "keep",
        "Length | None",
        ("aggregate",),
        """
        How long windows continue after a key's last row: `empty` adds windows that start at most
        this long after the start of the key's last window with rows. With None, the windows of a
        key end with its last row. A call with `memory_limit` needs `keep`.
        """,
        default="None",
        command=OfCommand(
            "How long windows continue after a key's last row; needs --empty.",
            metavar="DURATION",
            read="duration",
            shown_default="until its last row",
        ),
    ),
    Option(
        "keep",
        "Length | None",
        ("Aggregate",),
        """
        How long windows continue after a key's last row: `empty` adds windows that start at most
        this long after the start of the key's last window with rows. Required with `empty`, because
        more rows may always arrive for a key.
        """,
        default="None",
    ),
    Option(
        "start",
        "Time | None",
        ("aggregate",),
        """
        The time from which every key has windows: with `empty`, the windows of each key begin with
        the first window that starts at or after this time, or with its first non-empty window if
        that is earlier. Give a date, a time, a string such as "2026-03-02T09:30", or an integer if
        times are integers. Values before the first row of a key are null or 0. `start` cannot be
        combined with `memory_limit`.
        """,
        default="None",
        command=OfCommand(
            "With --empty: the time from which every key has windows.",
            metavar="TIME",
            read="duration",
            shown_default="the first row of the key",
        ),
    ),
    Option(
        "end",
        "Time | None",
        ("aggregate", "Aggregate"),
        """
        The time before which every key has windows: with `empty`, the windows of each key end with
        the last window that starts before this time, or with its last non-empty window if that is
        later. Give a date, a time, a string such as "2026-03-02T09:30", or an integer if times are
        integers.
        """,
        default="None",
        command=OfCommand(
            "With --empty: the time before which every key has windows.",
            metavar="TIME",
            read="duration",
            shown_default="the last row of the key",
        ),
    ),
    Option(
        "by",
        "GroupKeys | None",
        ("aggregate", "Aggregate"),
        """
        The keys: a column, an expression over `tidegate.row` columns or its SQL text, a list of
        these, or a mapping from names of result columns to them. `"payload.symbol"` is a field of a
        struct, unless a column has this name. Without keys, all rows form one group. Rows with a
        null key also form a group. NaN equals NaN, and 0.0 equals -0.0.
        """,
        default="None",
        command=OfCommand(
            "A key; repeat it for several keys.",
            metavar="COLUMN|NAME=EXPR",
            read="group_keys",
            repeats=True,
        ),
    ),
    Option(
        "by",
        "Value | Sequence[Value] | None",
        ("rolling",),
        """
        The keys: a column, an expression over `tidegate.row` columns or its SQL text, or a list of
        these. Without keys, all rows form one group. Rows with a null key also form a group. NaN
        equals NaN, and 0.0 equals -0.0.
        """,
        default="None",
        command=OfCommand(
            "A key column; repeat it for several columns.", metavar="COLUMN", repeats=True
        ),
    ),
    Option(
        "by",
        "str | Sequence[str] | None",
        ("Rolling",),
        """
        The key columns: a name or a list of names. Without keys, all rows form one group. Rows with
        a null key also form a group. NaN equals NaN, and 0.0 equals -0.0.
        """,
        default="None",
    ),
    Option(
        "closed",
        "Closed",
        ("rolling", "Rolling"),
        """
        The ends that a window includes. The upper end is the row itself, and the lower end precedes
        it by `size`. `right`, the default, includes the row itself but not the lower end. `left`
        includes the lower end but not the row itself. `both` includes both ends, and `neither`
        excludes both ends. If `size` is a length of time, an end includes or excludes all rows with
        the same time.
        """,
        default="'right'",
        command=OfCommand("The ends that a window includes."),
    ),
    Option(
        "aggs",
        "Mapping[str, agg.Aggregate]",
        ("aggregate", "Aggregate", "rolling", "Rolling"),
        """
        The aggregates to compute, as a mapping from result column names to functions from
        `tidegate.agg`.
        """,
        command=OfCommand(
            "An aggregate to compute; repeat it for several columns.",
            flag="--agg",
            metavar="NAME=FUNCTION",
            read="aggregates",
            repeats=True,
        ),
    ),
    Option(
        "where",
        "Expr | str | None",
        ("aggregate", "Aggregate"),
        """
        A condition that selects the rows to aggregate. Build the condition from `tidegate.row`
        columns, or give it as SQL text.
        """,
        default="None",
        command=OfCommand('A condition such as "price > 10".', metavar="CONDITION"),
    ),
    Option(
        "columns",
        "Sequence[str] | None",
        ("rolling", "Rolling"),
        """
        The input columns to include in the result, in this order. None means all columns.
        """,
        default="None",
        command=OfCommand(
            "The columns of TABLE to include in the result.", metavar="NAME,...", read="names"
        ),
    ),
    Option(
        "lateness",
        "Bound",
        ("merge",),
        """
        The maximum time by which rows from a stream may be out of order: a timedelta, a numpy
        timedelta64, a string such as "250ms", or an integer if times are integers. Both None and 0
        mean that the rows are in order.
        """,
        default="None",
        command=OfCommand(
            "The maximum time by which rows of a file may be out of order.",
            metavar="DURATION",
            read="bound",
            shown_default="not at all",
        ),
    ),
    Option(
        "sources",
        "int | None",
        ("Merge", "Aggregate", "Rolling"),
        """
        The number of sources, from 1 to 65536. None means one.
        """,
        default="None",
    ),
    Option(
        "lateness",
        "Bound | list[Bound]",
        ("Merge", "Aggregate", "Rolling"),
        """
        The maximum time by which rows from a source may be out of order: a timedelta, a numpy
        timedelta64, a string such as "250ms", or an integer if times are integers. Use a list to
        give each source its own value. Both None and 0 mean that the rows are in order.
        """,
        default="None",
    ),
    Option(
        "algorithm",
        "Algorithm",
        ("aggregate", "Aggregate"),
        """
        The algorithm that assigns rows to windows. All algorithms return the same result. `auto`
        selects `slices`, the fastest algorithm, which aggregates rows into time slices that all
        windows share. `slices` keeps separate states for each stream, and combines slices into
        windows. The other algorithms are designs from section 5 of the paper, included for
        comparison. In `mq` and `mq-lf`, one thread merges the streams and updates the windows. The
        queues in `mq` use locks; those in `mq-lf` are lock-free. In `tumlsc` and `tumlmc`, a gate
        merges the streams. The windows are updated by one thread in `tumlsc`, and by many in
        `tumlmc`. In `wiml`, the streams are not merged, and each stream updates the windows
        independently. The designs from the paper process rows one at a time and need far more time
        and memory. Sessions always use a separate algorithm.
        """,
        default="'auto'",
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("Merge",),
        """
        The maximum number of bytes for pushed rows that no poll has returned yet, including late
        rows. Each row adds 40 bytes of overhead. None sets no limit. Batches that polls prepare in
        advance do not count towards the limit. The `memory_limit` property describes how sources
        share the limit.
        """,
        default="None",
    ),
    Option(
        "left_df",
        "Input",
        (*ON_SPARK,),
        """
        The left side: a DataFrame, or Parquet files, as a path, a URL, a list of these or a pyarrow
        dataset. Both sides must be of the same kind. Right rows with equal times are in file order,
        as in `tidegate` itself.
        """,
        is_input=True,
    ),
    Option(
        "right_df",
        "Right",
        (*ON_SPARK,),
        """
        The right side. It can also be a `tidegate.Index` that `tidegate.open_index` has opened from
        a file that all workers can access under the same path. Each Python worker then maps this
        file, no rows are shuffled, and right rows with equal times are in the order of the index.
        Such a join cannot return unmatched right rows. If one side is a stream and the other side
        is a table, the call reads the table once and sends the whole table to every task of every
        micro-batch. The results for a stream row are then emitted in the micro-batch in which the
        row arrives. The stream needs no watermark. A table larger than 64 MB requires
        `parallelism="broadcast"`.
        """,
        is_input=True,
    ),
    Option(
        "on",
        "Names",
        ("spark.interval_join", "spark.window_join", "spark.asof_join"),
        """
        The time column, or a pair of names if the column has a different name on each side. The
        column's type must be timestamp, timestamp_ntz, date or integer. For streams, the watermark
        must be defined on the time column.
        """,
    ),
    Option(
        "on",
        "str | Sequence[Names] | Mapping[str, str]",
        ("spark.band_join",),
        """
        The band columns: a name, a list of names or name pairs, or a mapping from left to right
        names. Band columns must contain integers, floats, decimals, dates or timestamps. If a
        column contains floats on either side, both sides are compared as floats. Rows are divided
        among tasks by the values of the first column, so put the most selective column first.
        """,
    ),
    Option(
        "on",
        "IntervalNames",
        ("spark.overlap_join",),
        """
        The names of the start and end columns. If the names differ between the sides, give a pair
        of names for each side, as in `(("ts", "ts"), ("start", "end"))`. If a side has a single
        time column, give its name twice. Each row on that side then matches the intervals that
        contain its time. The type of the columns must be timestamp, timestamp_ntz, date or integer.
        """,
    ),
    Option(
        "lower",
        "End",
        ("spark.interval_join",),
        """
        The smallest `r.ts - l.ts` of two matching rows: a duration, or an integer if times are
        integers. None sets no bound. To set a separate bound for each row, pass an expression over
        the columns of one side, such as `-tidegate.left.tolerance`, or its SQL text. The expression
        must return a duration or an integer. An expression over left columns may also return a
        time, which is then the end of the interval itself. If the expression is null for a row,
        that row does not match any row. With an expression, a table's rows are divided by each
        row's interval, as in `overlap_join`, so a few wide intervals cause only a few copies. For
        streams, see `max_width`.
        """,
    ),
    Option(
        "upper",
        "End",
        ("spark.interval_join",),
        """
        The largest `r.ts - l.ts` of two matching rows. `upper` accepts the same values as `lower`.
        None sets no bound.
        """,
    ),
    Option(
        "window",
        "Window | tuple[Window, Window]",
        ("spark.window_join",),
        """
        The length of time that a row stays in its side's window: a duration, or an integer if times
        are integers. To give each side its own window, pass a pair: first the left window, then the
        right one. Row-based windows (`tidegate.rows(n)`) are not supported. The rows of a DataFrame
        have no order beyond their times, so "the last n rows" is undefined if times are equal.
        """,
    ),
    Option(
        "within",
        "Within | list[Within] | Mapping[str, Within]",
        ("spark.band_join",),
        """
        The maximum distance between the values in two matching rows. Give one distance for all
        columns, a list with one distance per column, or a mapping from left column names to
        distances. A distance is a number. For integer times, the distance must be an integer. For
        dates and timestamps, the distance is a duration. A pair `(below, above)` means `l.on -
        below <= r.on <= l.on + above`, where None sets no bound.
        """,
    ),
    Option(
        "time",
        "Names | None",
        ("spark.band_join",),
        """
        The time column if there is a window, or a pair of names if the column has a different name
        on each side. For streams, the watermark must be defined on the time column, and a window is
        required.
        """,
        default="None",
    ),
    Option(
        "window",
        "Window | tuple[Window, Window] | None",
        ("spark.band_join",),
        """
        The length of time that a row stays in its side's window: a duration, or an integer if times
        are integers. To give each side its own window, pass a pair: first the left window, then the
        right one. Row-based windows (`tidegate.rows(n)`) are not supported. The rows of a DataFrame
        have no order beyond their times, so "the last n rows" is undefined if times are equal.
        """,
        default="None",
    ),
    Option(
        "by",
        "KeyNames | None",
        (*ON_SPARK,),
        """
        The key columns: a name, a list of names or name pairs, or a mapping from left to right
        names. Two rows match only if all of their keys are equal. A null key matches nothing.
        Without keys, any two rows may match.
        """,
        default="None",
    ),
    Option(
        "strategy",
        "Strategy",
        ("asof_join", "spark.asof_join"),
        """
        Which right row matches. `backward`: the last right row with `r.on <= l.on`. `forward`:
        the first right row with `r.on >= l.on`. `nearest`: the right row with the smallest
        `abs(l.on - r.on)`; in a tie between an earlier and a later row, the earlier row.
        `interpolate`: the row before and the row after. Numeric columns, except those in `on` and
        `by`, are then interpolated between the two rows as float64, and all other columns have the
        values of the row before. If the time of a row equals `l.on`, that row's values are
        returned. Otherwise, a left row without a row on both sides is unmatched.
        """,
        default="'backward'",
        command=OfCommand(
            "The right row to match: the last before, the first after, the nearest, or values "
            "interpolated between the rows before and after."
        ),
    ),
    Option(
        "strategy",
        "StreamStrategy",
        ("AsofJoin",),
        """
        Which right row matches. `backward`: the last right row with `r.on <= l.on`. `forward`:
        the first right row with `r.on >= l.on`. `nearest`: the right row with the smallest
        `abs(l.on - r.on)`; in a tie between an earlier and a later row, the earlier row.
        """,
        default="'backward'",
    ),
    Option(
        "tolerance",
        "Bound | Sequence[Bound]",
        ("asof_join",),
        """
        The maximum time difference, inclusive: a timedelta, a numpy timedelta64, or a string
        such as "1h30m" or "250ms". If times are integers, give an integer in the same unit. None
        sets no bound. With `at`, the difference is measured from the time at the offset, and a list
        gives each offset its own tolerance.
        """,
        default="None",
        command=OfCommand(
            "The maximum time difference; with --at, one value or one per offset.",
            metavar="DURATION,...",
            read="tolerance",
            shown_default="no bound",
        ),
    ),
    Option(
        "tolerance",
        "Bound",
        ("AsofJoin",),
        """
        The maximum time difference, inclusive: a timedelta, a numpy timedelta64, or a string
        such as "1h30m" or "250ms". If times are integers, give an integer in the same unit. None
        sets no bound.
        """,
        default="None",
    ),
    Option(
        "tolerance",
        "Bound | Sequence[Bound]",
        ("spark.asof_join",),
        """
        The maximum time difference, inclusive: a duration, or an integer if times are integers.
        None sets no bound. With `at`, the difference is measured from the time at the offset, and a
        list gives each offset its own tolerance.
        """,
        default="None",
    ),
    Option(
        "at",
        "Sequence[Length] | None",
        ("asof_join", "spark.asof_join"),
        """
        Offsets from the time of each left row, such as `["0s", "10s", "-1m"]`, or integers if times
        are integers. At each offset, the match is the one that an as-of join would find if the
        offset were added to `l.on`. The result has one set of right columns per offset. Their names
        end with an underscore and the offset, as in `price_10s`. With None, the match is looked up
        at `l.on` itself.
        """,
        default="None",
        command=OfCommand(
            "Offsets at which to look up matches, such as 0s,10s,-1m.",
            metavar="DURATION,...",
            read="offsets",
            shown_default="the time of each row",
        ),
    ),
    Option(
        "long",
        "bool",
        ("asof_join", "spark.asof_join"),
        """
        Whether the result has one row per left row and offset instead of one set of right columns
        per offset. The column `at` contains the offset. `long` requires `at`.
        """,
        default="False",
        command=OfCommand("Write one row per left row and offset.", flag="--long"),
    ),
    Option(
        "n",
        "int | None",
        ("asof_join", "spark.asof_join"),
        """
        The maximum number of matches per left row, which are the `n` nearest candidates in the
        direction that `strategy` selects. Each right column becomes a list, whose values are in
        time order. With None, there is one match, and columns are not lists.
        """,
        default="None",
        command=OfCommand(
            "The maximum number of matches, which are written as lists.",
            metavar="INTEGER",
            shown_default="one match, not a list",
            least=1,
        ),
    ),
    Option(
        "allow_exact_matches",
        "bool",
        ("asof_join", "AsofJoin", "spark.asof_join"),
        """
        Whether a right row with the same time may match.
        """,
        default="True",
        command=OfCommand(
            "Whether a right row with the same time may match.", flag="--exact/--no-exact"
        ),
    ),
    Option(
        "where",
        "Expr | str | None",
        (*JOINS, *OPERATORS),
        """
        A condition that two rows must satisfy to match. Build the condition from `tidegate.left`
        and `tidegate.right` columns, or give it as SQL text. If the condition is null, the rows do
        not match.
        """,
        default="None",
        command=OfCommand('A condition such as "left.price < right.bid".', metavar="CONDITION"),
    ),
    Option(
        "where",
        "tidegate.Expr | str | None",
        (*ON_SPARK,),
        """
        A condition on two rows, such as `"left.price < right.bid"`. Build the condition from
        `tidegate.left` and `tidegate.right` columns, or give it as SQL text. If the condition is
        null, the rows do not match.
        """,
        default="None",
    ),
    Option(
        "how",
        "AsofHow",
        ("asof_join", "AsofJoin", "spark.asof_join"),
        """
        Which rows to return. `left`: all left rows. The right columns of unmatched rows are null.
        `inner`: only the matched left rows. `semi`: only the left columns of the matched left rows.
        `anti`: only the left columns of the unmatched left rows.
        """,
        default="'left'",
        command=OfCommand("The rows to write."),
    ),
    Option(
        "how",
        "How | None",
        (*PAIRS, *OPERATORS_OF_PAIRS, *PAIRS_ON_SPARK),
        """
        Which rows to return. `inner`: all pairs of matching rows. `left`, `right` and `full`: also
        the unmatched rows from the left side, the right side, or both sides. `semi`: only the
        matched left rows. `anti`: only the unmatched left rows. With `aggs`, `how` must be `left`,
        which keeps all left rows, or `inner`, which keeps only left rows that have partners. None
        means `inner`, or `left` if `aggs` is given.
        """,
        default="None",
        command=OfCommand("The unmatched rows to keep.", shown_default="inner; left with --agg"),
    ),
    Option(
        "aggs",
        "Mapping[str, agg.Aggregate] | None",
        (*PAIRS,),
        """
        Aggregates from `tidegate.agg`, keyed by result column name. Each left row then appears
        once, with aggregates over its partners, which are the right rows that it matches. Partners
        are aggregated in time order. Partners with equal times keep the order of the right rows.
        """,
        default="None",
        command=OfCommand(
            "Write one row per left row, with FUNCTION over its matching rows; repeatable.",
            flag="--agg",
            metavar="NAME=FUNCTION",
            read="aggregates",
            repeats=True,
        ),
    ),
    Option(
        "aggs",
        "Mapping[str, agg.Aggregate] | None",
        (*OPERATORS_OF_PAIRS,),
        """
        Aggregates from `tidegate.agg`, keyed by result column name. Each left row then appears
        once, with aggregates over its partners, which are the right rows that it matches. Partners
        are aggregated in time order. Partners with equal times keep the merged order.
        """,
        default="None",
    ),
    Option(
        "aggs",
        "Mapping[str, tidegate.agg.Aggregate] | None",
        ("spark.interval_join", "spark.window_join", "spark.band_join"),
        """
        Aggregates from `tidegate.agg`, keyed by result column name. Each left row then appears
        once, with aggregates over its partners, which are the right rows that it matches. If times
        are compared, partners are aggregated in time order. Spark does not preserve the order of
        rows, so right rows with equal times are ordered by value. Such rows are compared by the
        first column of `on`, then, in DataFrame order, by the other columns that the join reads,
        with nulls last. Structs are compared field by field, and arrays and maps element by
        element. For streams, the division into micro-batches does not affect the result. A left row
        is emitted once the watermark has passed all possible partners of the row, so an interval
        join of streams requires an upper bound.
        """,
        default="None",
    ),
    Option(
        "aggs",
        "Mapping[str, tidegate.agg.Aggregate] | None",
        ("spark.overlap_join",),
        """
        Aggregates from `tidegate.agg`, keyed by result column name. Each left row then appears
        once, with aggregates over its partners, which are the right rows that it matches. Partners
        are aggregated in the order of their starts. Spark does not preserve the order of rows, so
        right rows with equal starts are ordered by value. The comparison uses the columns that the
        join reads, in DataFrame order, with nulls last. Structs are compared field by field, and
        arrays and maps element by element.
        """,
        default="None",
    ),
    Option(
        "settings",
        "Mapping[str, float] | None",
        ("band_join", "BandJoin"),
        """
        A dict with settings for the index that `algorithm` selects. `pim-tree` has two settings.
        `merge_ratio` is the number of rows at which subindexes are merged, as a fraction of the
        rows in the window. The ratio must be greater than 0 and at most 1. `insertion_depth` is the
        depth of the subindexes in the tree, from 0 to 32. `im-tree` accepts only `merge_ratio`.
        `b-chain` and `ib-chain` accept `chain_length`, from 2 to
        1024. `ibwj` and `ibwj-blocking` accept `merge_ratio`, `insertion_depth` and
        `task_rows`, the number of rows per task, from 1 to 65536. `ibwj-bplus-tree` accepts
        only `task_rows`. None selects the settings that were fastest in benchmarks.
        """,
        default="None",
    ),
    Option(
        "closed",
        "Closed",
        ("interval_join", "IntervalJoin", "spark.interval_join"),
        """
        The ends that the interval includes: `both`, `left`, `right` or `neither`.
        """,
        default="'both'",
        command=OfCommand("The ends that the interval includes."),
    ),
    Option(
        "closed",
        "ClosedEnds",
        ("overlap_join", "OverlapJoin", "spark.overlap_join"),
        """
        Whether intervals include their ends. They always include their start. `both`: intervals
        include their ends, so two intervals that merely touch also overlap. `left`: intervals
        exclude their ends, so intervals that touch do not overlap, and empty intervals do not
        overlap any interval.
        """,
        default="'both'",
        command=OfCommand("both: intervals include their end; left: intervals exclude their end."),
    ),
    Option(
        "open_ends",
        "bool",
        ("interval_join",),
        """
        Whether a bound expression that evaluates to null means that there is no bound. Otherwise, a
        row with a null bound does not match any row.
        """,
        default="False",
        command=OfCommand(
            "A computed --lower or --upper that is null means that there is no bound.",
            flag="--open-ends",
        ),
    ),
    Option(
        "open_ends",
        "bool",
        ("spark.interval_join",),
        """
        Whether a bound expression that evaluates to null means that there is no bound. Otherwise, a
        row with a null bound does not match any row. `open_ends` requires tables, whose rows are
        then divided only by key.
        """,
        default="False",
    ),
    Option(
        "open_ends",
        "bool",
        ("overlap_join",),
        """
        Whether a null start means that the interval has always been open, and a null end that it
        remains open forever. Otherwise, a row with a null start or end does not match any row. If a
        side has a single time column, a null time does not match any row in either case.
        """,
        default="False",
        command=OfCommand(
            "A null start or end means that the interval has no start or end.", flag="--open-ends"
        ),
    ),
    Option(
        "open_ends",
        "bool",
        ("spark.overlap_join",),
        """
        Whether a null start means that the interval has always been open, and a null end that it
        remains open forever. Otherwise, a row with a null start or end does not match any row. If a
        side has a single time column, a null time does not match any row in either case. With
        `open_ends`, rows are divided only by key.
        """,
        default="False",
    ),
    Option(
        "prevailing",
        "bool",
        ("interval_join", "IntervalJoin"),
        """
        Whether the last right row with the same key before the interval also counts as a partner.
        The row must also satisfy `where`. `prevailing` requires `aggs`, a `lower` bound, and bounds
        that are the same for all rows.
        """,
        default="False",
        command=OfCommand(
            "With --agg: also include the last right row before the interval.", flag="--prevailing"
        ),
    ),
    Option(
        "prevailing",
        "bool",
        ("spark.interval_join",),
        """
        Whether the last right row with the same key before the interval also counts as a partner.
        The row must also satisfy `where`. `prevailing` requires `aggs` and a `lower` bound. The
        last row before an interval may be arbitrarily old, so a time slice would need copies of all
        earlier right rows. Streams are therefore divided only by key, and the last right row for
        each key is kept indefinitely.
        """,
        default="False",
    ),
    Option(
        "limit",
        "int | None",
        ("interval_join", "spark.interval_join"),
        """
        The maximum number of pairs per left row. `order` selects these pairs, and other pairs are
        not in the result. A left row's pairs are in the order of the right rows, as without a
        limit. With `how="right"` or `how="full"`, right rows that no left row keeps count as
        unmatched. None sets no limit.
        """,
        default="None",
        command=OfCommand(
            "The maximum number of pairs per left row.",
            metavar="INTEGER",
            shown_default="no limit",
            least=1,
        ),
    ),
    Option(
        "order",
        "PairOrder | None",
        ("interval_join", "spark.interval_join"),
        """
        The pairs that `limit` keeps. `first`: those with the earliest right rows. `last`: those
        with the latest right rows. `nearest`: those with the smallest `abs(l.on - r.on)`. In a tie
        between an earlier and a later right row, the earlier one is kept. Right rows with equal
        times are in row order, and the last of them is the nearest unless they are after the left
        row. None means `first`.
        """,
        default="None",
        command=OfCommand("The pairs that --limit keeps.", shown_default="first"),
    ),
    Option(
        "min_overlap",
        "Length | None",
        ("overlap_join", "OverlapJoin"),
        """
        The minimum length of the overlap, as a timedelta, a numpy timedelta64, a string such as
        "5s", or an integer if the columns contain integers. If None, any overlap is sufficient,
        even a single point.
        """,
        default="None",
        command=OfCommand(
            "The minimum length of the overlap.",
            metavar="DURATION",
            read="duration",
            shown_default="a point",
        ),
    ),
    Option(
        "min_overlap",
        "Length | None",
        ("spark.overlap_join",),
        """
        The minimum length of the overlap: a duration, or an integer if the columns contain
        integers. If None, any overlap is sufficient, even a single point.
        """,
        default="None",
    ),
    Option(
        "max_width",
        "Length | tuple[Length, Length] | None",
        ("IntervalJoin",),
        """
        The maximum distance between a row's time and an interval end that is given as an
        expression: a timedelta, a numpy timedelta64, a string such as "1h", or an integer if times
        are integers. To give each side its own value, pass a pair: first the left value, then the
        right one. `max_width` is required if an end is an expression, because it determines how
        long rows are kept and which rows are compared. A greater width means that more rows are
        compared. A row whose interval end is farther away is set aside, like a late row.
        """,
        default="None",
        command=OfCommand(
            "With --follow: how far a computed --lower or --upper may be from a row's time.",
            metavar="DURATION",
            read="duration",
            shown_default=False,
        ),
    ),
    Option(
        "max_width",
        "Length | tuple[Length, Length] | None",
        ("OverlapJoin",),
        """
        The maximum length of a row, from its start to its end: a timedelta, a numpy timedelta64, a
        string such as "1h", or an integer if times are integers. To give each side its own value,
        pass a pair: first the left value, then the right one. `max_width` is required unless both
        sides have a single time column, because it determines how long rows are kept and which rows
        are compared. A greater width means that more rows are compared. A longer row is set aside,
        like a late row.
        """,
        default="None",
        command=OfCommand(
            "With --follow: the maximum length of a row, from its start to its end.",
            metavar="DURATION",
            read="duration",
            shown_default=False,
        ),
    ),
    Option(
        "max_width",
        "Length | None",
        ("spark.overlap_join",),
        """
        For streams: the maximum length, as a duration, of a row from its start to its end.
        `max_width` is required unless both sides have a single time column, because it determines
        how long rows are kept. A longer row is set aside, like a late row. With `late_as`, such a
        row is emitted and marked as `left wide` or `right wide`; otherwise, it is dropped.
        """,
        default="None",
    ),
    Option(
        "max_width",
        "Length | None",
        ("spark.interval_join",),
        """
        For streams: the maximum distance, as a duration, between a row's time and an interval end
        that is computed from columns. `max_width` is required for computed ends, because it
        determines how long rows are kept. A row whose interval end is farther away is set aside,
        like a late row. With `late_as`, such a row is emitted and marked as `left wide` or
        `right wide`; otherwise, it is dropped.
        """,
        default="None",
    ),
    Option(
        "load_factor",
        "float | None",
        ("IntervalJoin",),
        """
        The load at which `hybrid` and `auto` split keys (the threshold of Algorithm 1). A thread's
        load is the number of comparisons it performs, divided by the mean over all threads. The
        factor must be at least 1. With a smaller factor, more keys are split, and several threads
        examine each row with a split key. None means 1.2.
        """,
        default="None",
    ),
    Option(
        "suffix",
        "str",
        (*JOINS, *OPERATORS, *ON_SPARK),
        """
        The suffix to append to the name of a right column if the left side has a column with
        the same name.
        """,
        default="'_right'",
        command=OfCommand("The suffix for right columns whose names also exist on the left side."),
    ),
    Option(
        "columns",
        "Sequence[str] | None",
        ("asof_join", "AsofJoin"),
        """
        The columns to include in the result, in this order. Other columns are not computed. None
        means all columns.
        """,
        default="None",
        command=OfCommand(
            "Write only these columns, in this order.", metavar="NAME,NAME", read="names"
        ),
    ),
    Option(
        "columns",
        "Sequence[str] | None",
        (*PAIRS, *OPERATORS_OF_PAIRS),
        """
        The columns to include in the result, in this order. With `aggs`, these are the left columns
        to keep. Other columns are not computed. None means all columns.
        """,
        default="None",
        command=OfCommand(
            "Write only these columns, in this order.", metavar="NAME,NAME", read="names"
        ),
    ),
    Option(
        "columns",
        "Sequence[str] | None",
        (*PAIRS_ON_SPARK,),
        """
        The columns to include in the result, in this order. With `aggs`, these are the left columns
        to keep. Other columns are not sent to Python. None means all columns.
        """,
        default="None",
    ),
    Option(
        "columns",
        "Sequence[str] | None",
        ("spark.asof_join",),
        """
        The columns to include in the result, in this order. Other left columns are not sent to
        Python. All right columns are sent, because they determine the order of right rows with
        equal times. None means all columns.
        """,
        default="None",
    ),
    Option(
        "algorithm",
        "BandAlgorithm",
        ("band_join",),
        """
        The algorithm that finds matching rows. All algorithms return the same rows in the same
        order. `sort` sorts the right rows by a band column, and treats the window as an additional
        band. The other algorithms (`buckets`, `pim-tree`, `im-tree`, `bplus-tree`, `b-chain`,
        `ib-chain` and `round-robin`) process rows in time order, and look up each row in an index
        over the other side's window. With `ibwj` and `ibwj-blocking`, threads run tasks of a few
        rows each on shared PIM-Trees (section 4 of the paper). Only `ibwj` merges the trees while
        tasks are running. With `ibwj-bplus-tree`, the same tasks run on shared B+-trees, which are
        never merged. `auto` is usually `sort`. With a window, `auto` selects `buckets` if a sample
        shows that `sort` would check more than about a thousand pairs per left row.
        """,
        default="'auto'",
    ),
    Option(
        "algorithm",
        "WindowAlgorithm",
        ("window_join",),
        """
        The algorithm that finds matching rows. All algorithms return the same result. `auto` uses
        an index on `by`: each left row's window is a range of right rows, and all rows in this
        range are compared. If `where` compares numbers, and a sample of pairs shows that an index
        on one of these numbers is faster, `auto` uses this index instead. The other algorithms come
        from research papers and process both tables as streams: `scalejoin`, `scalejoin-gates`,
        `splitjoin`, `cell`, `three-step`, `handshake` and `low-latency-handshake`. These algorithms
        need eight bytes per pair, and compare keys like other numbers.
        """,
        default="'auto'",
    ),
    Option(
        "sources",
        "tuple[int, int] | None",
        ("AsofJoin", "IntervalJoin", "WindowJoin", "OverlapJoin"),
        """
        The number of left sources and the number of right sources, each from 1 to 32768. None means
        one of each.
        """,
        default="None",
    ),
    Option(
        "sources",
        "tuple[int, int] | None",
        ("BandJoin",),
        """
        The number of left sources and the number of right sources, each from 1 to 32768. None means
        one of each. If `right` is None, there are no right sources: `sources=(3, 0)` creates three
        left sources.
        """,
        default="None",
    ),
    Option(
        "lateness",
        "Bound | tuple[Bound | list[Bound], Bound | list[Bound]]",
        ("AsofJoin", "IntervalJoin", "WindowJoin", "OverlapJoin"),
        """
        The maximum time by which rows from a source may be out of order: a timedelta, a numpy
        timedelta64, a string such as "250ms", or an integer if times are integers. To give each
        side its own value, pass a pair: first the left value, then the right one. Either value may
        be a list with one value per source on that side. Both None and 0 mean that the rows are in
        order.
        """,
        default="None",
    ),
    Option(
        "lateness",
        "Bound | list[Bound] | tuple[Bound | list[Bound], Bound | list[Bound]]",
        ("BandJoin",),
        """
        The maximum time by which rows from a source may be out of order: a timedelta, a numpy
        timedelta64, a string such as "250ms", or an integer if times are integers. To give each
        side its own value, pass a pair: first the left value, then the right one. Either value may
        be a list with one value per source on that side. If `right` is None, use a single list
        instead of a pair. Both None and 0 mean that the rows are in order.
        """,
        default="None",
    ),
    Option(
        "parallelism",
        "Parallelism",
        ("IntervalJoin",),
        """
        The assignment of keys to threads. `key`: all rows with the same key are processed by one
        thread. `data`: every thread stores all rows, and each thread finds the matches for its
        share of the rows. `hybrid`: the number of threads for a key depends on the key's share of
        all comparisons, which is measured repeatedly. `auto`: without a `where`, the same as `key`.
        With a `where`, `auto` starts as `key` and switches to `hybrid` once one thread has far more
        comparisons to perform than the others. These patterns are described in section 3 of the
        PPOIJ paper; `hybrid` is its Algorithm 1. `scale-oij`: each key is assigned to a team of
        threads, and keys with more rows have larger teams. Each row is stored by one thread, which
        looks for matches in the lists of all threads in the team. This is the Scale-OIJ algorithm,
        included for comparison. With `aggs` or `ordered=False`, only `auto` is allowed.
        """,
        default="'auto'",
    ),
    Option(
        "algorithm",
        "WindowAlgorithm",
        ("WindowJoin",),
        """
        The algorithm that divides the comparisons among threads. `auto`: each thread processes a
        share of the new rows. If a sample of pairs shows that lookups by value are faster, `auto`
        looks up matches instead of comparing all pairs. `scalejoin`: rows are distributed among the
        threads round robin, and each thread compares new rows with its share of the windows
        (ScaleJoin, Algorithm 1). `scalejoin-gates`: ScaleJoin as published. Each thread reads rows
        one at a time from one gate, and adds its results to another gate. `splitjoin`: rows are
        also processed one at a time. One tree distributes them to the threads, and another tree
        collects the results (SplitJoin). `cell`: the window that a row is compared with is divided
        into one piece per thread (CellJoin). `three-step`: a single thread makes all comparisons
        (Kang's procedure). `low-latency-handshake`: rows pass quickly through a chain of threads,
        and each row is stored by one thread in the chain (Low-Latency Handshake Join, Figures 12 to
        14). If the condition requires numbers to be equal, rows are looked up in a hash table.
        Otherwise, rows are sorted by their value in the first band, and looked up if only a few
        rows are within reach. `handshake`: the two windows flow past each other through the chain
        of threads (the handshake join of Teubner and Mueller). With `handshake`, results are
        therefore emitted only after the left window has passed and subsequent rows have moved the
        chain forward. The number of results held back depends on the number of threads. These
        results are released when a snapshot is taken or all sources are closed. Results that are
        held back do not count towards the memory limit. Expired rows are removed when further rows
        arrive, not when sources call `advance`. With `scalejoin-gates` and both handshake joins,
        threads continue to process a poll's rows after the poll has returned. With `aggs`,
        only `auto` is allowed.
        """,
        default="'auto'",
    ),
    Option(
        "unit",
        "Epoch | None",
        (*JOINS, "aggregate", "rolling", "merge"),
        """
        The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC or,
        with a pair such as `("s", start)`, from a datetime. The result then contains timestamps.
        Floats must be whole numbers of microseconds, or of nanoseconds if the unit is "ns". The
        inputs are read in full, so `unit` cannot be combined with `memory_limit`, an index or
        tasks.
        """,
        default="None",
    ),
    Option(
        "unit",
        "Epoch | None",
        (*ON_SPARK,),
        """
        The unit of numeric times: "s", "ms", "us" or "ns". The numbers count from 1970 in UTC or,
        with a pair such as `("s", start)`, from a datetime. The result then contains timestamps.
        The numbers must be whole numbers of microseconds. `unit` does not apply to joins of two
        streams, whose times need watermarks, or to files.
        """,
        default="None",
    ),
    Option(
        "progress",
        "Reports",
        (*JOINS, "aggregate", "rolling", "merge"),
        """
        True shows a bar with tqdm or rich, if one of them is installed. A function is called with a
        `tidegate.types.Progress` when the call begins, after each batch of the result, and at the
        end.
        """,
        default="False",
    ),
    Option(
        "algorithm",
        "BandAlgorithm",
        ("BandJoin",),
        """
        The index for finding matching rows in a side's window: `buckets`, `pim-tree`, `im-tree`,
        `bplus-tree`, `b-chain`, `ib-chain` or `round-robin`. All algorithms return the same rows in
        the same order. With `ibwj` and `ibwj-blocking`, threads run tasks of a few rows each on
        shared PIM-Trees (section 4 of the paper). Only `ibwj` merges the trees while tasks are
        running. With `ibwj-bplus-tree`, the same tasks run on shared B+-trees, which are never
        merged. `auto` selects `buckets`, which computes the positions of blocks for many rows at a
        time instead of searching for each block. With `aggs`, `auto` uses the algorithm of
        `band_join`.
        """,
        default="'auto'",
    ),
    Option(
        "threads",
        "int | None",
        (
            *JOINS,
            *OPERATORS,
            "aggregate",
            "rolling",
            "merge",
            "Merge",
            "Aggregate",
            "Rolling",
            "Index",
        ),
        """
        The number of worker threads, from 1 to 512. None means `default_threads()`.
        """,
        default="None",
        command=OfCommand("The number of threads.", shown_default="all", least=1),
    ),
    Option(
        "max_rows",
        "int | None",
        (*in_one_table(PAIRS), "asof_join", "aggregate", "rolling"),
        """
        The maximum number of rows in the result. None sets no limit.
        """,
        default="None",
        command=OfCommand(
            "Fail if the result has more rows than this.", shown_default="no limit", least=0
        ),
    ),
    Option(
        "max_rows",
        "int | None",
        (*in_batches(PAIRS),),
        """
        The maximum number of rows in the result. None sets no limit. If pairs are checked when
        batches are produced, as with `where`, you may receive some batches before an error is
        raised.
        """,
        default="None",
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        (*JOINS,),
        """
        The maximum memory that the call uses in addition to its inputs, as a number of bytes or a
        string such as "2GB". A result that is returned as one table may use half of the limit. With
        a limit, inputs may be larger than memory. Rows are then joined in time order, as if both
        inputs had been sorted by time. None sets no limit.
        """,
        default="None",
        command=OfCommand(
            "Process files larger than memory in time order, using at most BYTES, such as 2GB.",
            metavar="BYTES",
            shown_default="no limit",
        ),
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("aggregate",),
        """
        The maximum memory that the call uses in addition to its inputs, as a number of bytes or a
        string such as "2GB". A result that is returned as one table may use half of the limit. With
        a limit, streams may be larger than memory. None sets no limit.
        """,
        default="None",
        command=OfCommand(
            "Process files larger than memory in time order, using at most BYTES, such as 2GB.",
            metavar="BYTES",
            shown_default="no limit",
        ),
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("rolling",),
        """
        The maximum memory that the call uses in addition to its input, as a number of bytes or a
        string such as "2GB". A result that is returned as one table may use half of the limit. With
        a limit, the input may be larger than memory, and result rows are in time order. None sets
        no limit.
        """,
        default="None",
        command=OfCommand(
            "Process files larger than memory in time order, using at most BYTES, such as 2GB.",
            metavar="BYTES",
            shown_default="no limit",
        ),
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("merge",),
        """
        The maximum memory for rows that are held in addition to the streams themselves, as a number
        of bytes or a string such as "2GB". A result that is returned as one table may use half of
        the limit. None sets no limit.
        """,
        default="None",
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        (*OPERATORS,),
        """
        The maximum number of bytes for three kinds of rows: pushed rows that have not been joined
        yet, rows that later rows may match, and late rows. None sets no limit. The `memory_limit`
        property describes how sources share the limit.
        """,
        default="None",
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("Rolling",),
        """
        The maximum number of bytes for pushed rows that have no results yet, for late rows, and for
        rows that later windows may contain. None sets no limit. The `memory_limit` property
        describes how sources share the limit.
        """,
        default="None",
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("Aggregate",),
        """
        The maximum number of bytes for pushed rows that have not been aggregated yet, for late
        rows, and for the state. None sets no limit. The state that a pushed row may add is counted
        in advance, so every accepted row can be aggregated. Batches that polls prepare in advance
        do not count towards the limit. The `memory_limit` property describes how sources and the
        state share the limit.
        """,
        default="None",
    ),
    Option(
        "lateness",
        "Bound | tuple[Bound, Bound]",
        (*JOINS,),
        """
        The maximum time by which rows from an input may be out of order, as a timedelta, a numpy
        timedelta64, a string such as "250ms", or an integer if times are integers. This option
        requires `memory_limit`. To give each side its own value, pass a pair: first the left value,
        then the right one. If a row is further out of order, an `OrderError` is raised. With None,
        an input that is not known to be in order is sorted in temporary files.
        """,
        default="None",
        command=OfCommand(
            "With --follow or --memory-limit: the maximum time by which rows may be out of order.",
            metavar="DURATION",
            read="bound",
            shown_default="not at all",
        ),
    ),
    Option(
        "lateness",
        "Bound",
        ("aggregate", "rolling"),
        """
        The maximum time by which rows of an input may be out of order, as a timedelta, a numpy
        timedelta64, a string such as "250ms", or an integer if times are integers. This option
        requires `memory_limit`. If a row is further out of order, an `OrderError` is raised. With
        None, an input that is not known to be in order is sorted in temporary files.
        """,
        default="None",
        command=OfCommand(
            "With --follow or --memory-limit: the maximum time by which rows may be out of order.",
            metavar="DURATION",
            read="bound",
            shown_default="not at all",
        ),
    ),
    Option(
        "batch_rows",
        "int | None",
        (*in_batches((*JOINS, "rolling")),),
        """
        The maximum number of rows per batch. None means batches of a few megabytes.
        """,
        default="None",
    ),
    Option(
        "ordered",
        "bool",
        ("AsofJoin",),
        """
        Whether results are emitted in the order that the class description specifies. An as-of join
        always uses this order.
        """,
        default="True",
    ),
    Option(
        "ordered",
        "bool",
        ("IntervalJoin", "OverlapJoin"),
        """
        Whether results are emitted in the order that the class description specifies. A pair is
        then held back until no source can deliver an earlier row. If False, a pair is emitted by
        the first poll after both of its rows have been pushed, regardless of lateness and other
        sources. The result contains the same rows, but their order depends on the pushes. An
        unmatched row is emitted once no row from the other side can match it. Each row is kept
        longer, until the other side has passed the row's interval. With `aggs`, rows are emitted in
        order in either case.
        """,
        default="True",
    ),
    Option(
        "ordered",
        "bool",
        ("WindowJoin",),
        """
        Whether results are emitted in the order that the class description specifies. A pair is
        then held back until no source can deliver an earlier row. If False, with time-based windows
        and `algorithm` set to `auto`, a pair is emitted by the first poll after both of its rows
        have been pushed, regardless of lateness and other sources. The result contains the same
        rows, but their order depends on the pushes. An unmatched row is emitted once no row from
        the other side can match it. Each row is kept longer, until the other side has passed the
        row's window. Row-based windows and the other algorithms depend on the merged order, so
        their pairs are still held back. Pairs joined in the same step are then emitted in any
        order. With `aggs`, rows are emitted in order in either case.
        """,
        default="True",
    ),
    Option(
        "ordered",
        "bool",
        ("BandJoin",),
        """
        Whether results are emitted in the order that the class description specifies. A pair is
        then held back until no source can deliver an earlier row. If False, with time-based windows
        and `algorithm` set to `auto`, a pair is emitted by the first poll after both of its rows
        have been pushed, regardless of lateness and other sources. The result contains the same
        rows, but their order depends on the pushes. An unmatched row is emitted once no row from
        the other side can match it. Each row is kept longer, until the other side has passed the
        row's window. Row-based windows and the other algorithms depend on the merged order, so
        their pairs are still held back. Pairs joined in the same step are then emitted in any
        order. Pairs of a self-join are also held back. With `aggs`, rows are emitted in order in
        either case.
        """,
        default="True",
    ),
    Option(
        "pin",
        "bool | None",
        (*OPERATORS,),
        """
        Whether each of the operator's worker threads is pinned to a processor. Pinning helps if
        nothing else uses the processors. Otherwise, pinning slows the operator down. Each operator
        pins its first thread to a different processor. The thread that calls the operator is not
        pinned. Threads are never pinned if an aggregate is a Python function. By default, threads
        are pinned only in a `WindowJoin` with `scalejoin-gates`.
        """,
        default="None",
    ),
    Option(
        "digest",
        "bool",
        (*OPERATORS, "Merge", "Aggregate", "Rolling"),
        """
        Whether the operator computes a digest of its results. The `digest()` method returns the
        digest. Each batch is then hashed before it is returned.
        """,
        default="False",
    ),
    Option(
        "partitions",
        "int | None",
        (*ON_SPARK,),
        """
        The number of partitions. The default depends on the number of cores and the number of rows.
        A side that is not shuffled keeps its partitions, unless there are more than this number. In
        that case, some partitions are merged. For streams, `partitions` is the number of buckets
        that keys are divided into. For streams, the default is the value of
        `spark.sql.shuffle.partitions`, but at most 64. A restarted query must use the same number.
        """,
        default="None",
    ),
    Option(
        "parallelism",
        "Literal['auto', 'bins', 'broadcast', 'files', 'key', 'time', 'hybrid']",
        ("spark.interval_join", "spark.window_join"),
        """
        The method for dividing rows among tasks. `broadcast`: one side is read immediately and sent
        in full to every task, regardless of its size. Use `broadcast` if Spark cannot determine
        that the side is small, for example after a filter. `key`: rows are divided into buckets by
        key. No rows are sampled, and a heavy key results in a heavy task. Sides that are already
        partitioned by the keys are not shuffled. `time`: rows are divided into time slices, and the
        rows near a border are copied. `hybrid`: rows are divided into buckets by key, and heavy
        keys are split by time. `bins`: Spark itself joins on equal keys and time bins, so no rows
        are sent to Python. A sample determines the width of the bins. `bins` requires tables and
        intervals with two bounds, and does not support full joins, `where`, `aggs` or `then`. For
        tables, `auto` chooses the form with the lowest estimated cost, and `explain` shows the
        estimates. The candidates are `broadcast` if a side is small, `bins` if they are clearly
        cheaper, and the division whose fullest partition is the smallest. The existing partitions
        of both sides are also a candidate if they are balanced and each partition contains all rows
        with its keys. Rows are not sampled if a side is small and an estimate shows that the other
        forms would cost more. Sampling is also skipped if file metadata shows that there are few
        rows, or that bins are not clearly more expensive. For streams, `key` divides the rows only
        by key. `time` assigns time slices to the buckets in turn, to spread out a heavy key's rows.
        Rows near slice borders are copied. `hybrid` also assigns slices in turn, but starts each
        key at a different bucket. `auto` is `key` with `by`, and `time` otherwise. `time` and
        `hybrid` do not support intervals without an end. Without `by`, a join with such intervals
        has a single bucket, and therefore a single task. `files`: each task reads the rows of its
        time slice from Parquet files itself, so only results pass through Spark. Both sides must be
        files, or DataFrames that only select columns of Parquet files and compare them with
        constants. The files must contain statistics for the time columns. `auto` also considers
        `files` if the files are local.
        """,
        default="'auto'",
    ),
    Option(
        "parallelism",
        "Literal['auto', 'broadcast', 'files', 'key', 'value', 'hybrid']",
        ("spark.band_join",),
        """
        The method for dividing rows among tasks. `broadcast`: one side is read immediately and sent
        in full to every task, regardless of its size. Use `broadcast` if Spark cannot determine
        that the side is small, for example after a filter. `key`: rows are divided into buckets by
        key. No rows are sampled, and a heavy key results in a heavy task. Sides that are already
        partitioned by the keys are not shuffled. `value`: rows are divided into value slices, and
        the rows near a border are copied. `hybrid`: rows are divided into buckets by key, and heavy
        keys are split by value. If a single value has more rows than a partition should have, one
        side's rows are divided further by hash, and the other side's rows are copied. A full join
        does not divide single values, because neither side can be copied. `auto`: `broadcast` if a
        side is small; otherwise, the division whose fullest partition, estimated from a sample, is
        the smallest. For streams, `key` divides the rows only by key. `value` assigns value slices
        to the buckets in turn, to spread out a heavy key's rows. Rows near slice borders are
        copied. `hybrid` also assigns slices in turn, but starts each key at a different bucket.
        `auto` is `key` with `by`, and `value` otherwise. `value` and `hybrid` do not support bands
        without an end. Without `by`, a join with such a band has a single bucket, and therefore a
        single task. `files`: each task reads the rows of its time slice from Parquet files itself,
        so only results pass through Spark. Both sides must be files, or DataFrames that only select
        columns of Parquet files and compare them with constants. The files must contain statistics
        for the time columns. `auto` also considers `files` if the files are local.
        """,
        default="'auto'",
    ),
    Option(
        "parallelism",
        "Literal['auto', 'broadcast', 'files', 'key', 'time', 'hybrid']",
        ("spark.asof_join",),
        """
        The method for dividing rows among tasks. `broadcast`: the right side is read immediately
        and sent in full to every task, regardless of its size. Use `broadcast` if Spark cannot
        determine that the side is small, for example after a filter. `key`: rows are divided into
        buckets by key. No rows are sampled, and a heavy key results in a heavy task. Sides that are
        already partitioned by the keys are not shuffled. `time`: rows are divided into time slices.
        For each key, each slice also receives the nearest right rows outside the slice. Each task
        that reads right rows sends at most one row before the slice and one row after it. `hybrid`:
        rows are divided into buckets by key, and heavy keys are split by time. `auto` selects
        `broadcast` if the right side is small. Otherwise, `auto` keeps the existing partitions of
        both sides if they are balanced and each partition contains all rows with its keys. If they
        are not, `auto` uses the division whose fullest partition is the smallest in a sample.
        Without `by`, `auto` uses time slices. For streams, `key` divides the rows only by key.
        `time` assigns time slices to the buckets in turn, and copies all right rows within
        `tolerance` of a slice. `hybrid` also assigns slices in turn, but starts each key at a
        different bucket. Both `time` and `hybrid` require a tolerance. `auto` is `key` with `by`,
        and `time` otherwise. With neither `by` nor `tolerance`, the join has a single bucket, and
        therefore a single task. `files`: each task reads the rows of its time slice from Parquet
        files itself, so only results pass through Spark. Both sides must be files, or DataFrames
        that only select columns of Parquet files and compare them with constants. The files must
        contain statistics for the time columns. `auto` also considers `files` if the files are
        local.
        """,
        default="'auto'",
    ),
    Option(
        "parallelism",
        "Literal['auto', 'broadcast', 'files', 'key', 'time', 'hybrid']",
        ("spark.overlap_join",),
        """
        The method for dividing rows among tasks. `broadcast`: one side is read immediately and sent
        in full to every task, regardless of its size. Use `broadcast` if Spark cannot determine
        that the side is small, for example after a filter. `key`: rows are divided into buckets by
        key. No rows are sampled, and a heavy key results in a heavy task. Sides that are already
        partitioned by the keys are not shuffled. `time`: rows are divided into time slices, and
        each row is sent to all slices in which it may have matches. `hybrid`: rows are divided into
        buckets by key, and heavy keys are split by time. `auto` chooses the form with the lowest
        estimated cost, and `explain` shows the estimates. The candidates are `broadcast` if a side
        is small, and the division whose fullest partition is the smallest. The existing partitions
        of both sides are also a candidate if they are balanced and each partition contains all rows
        with its keys. Rows are not sampled if a side is small and an estimate shows that the other
        forms would cost more, or if file metadata shows that there are few rows. `files`: each task
        reads the rows of its time slice from Parquet files itself, so only results pass through
        Spark. Both sides must be files, or DataFrames that only select columns of Parquet files and
        compare them with constants. The files must contain statistics for the time columns. `auto`
        also considers `files` if the files are local.
        """,
        default="'auto'",
    ),
    Option(
        "late_as",
        "str | None",
        (*ON_SPARK,),
        """
        For streams: the name of an additional result column that marks late rows. The column is
        null in regular result rows. In a late row, the column contains the row's side, `left` or
        `right`, and the columns of the other side are null. Without this column, late rows are
        dropped.
        """,
        default="None",
    ),
    Option(
        "then",
        "Then | None",
        (*ON_SPARK,),
        """
        A function that processes each `pyarrow.RecordBatch` of the result before the rows are
        returned to Spark. The function returns another batch or a `pyarrow.Table`. The function
        receives only some of the rows at a time, so combine an aggregate's partial results with a
        `groupBy`.
        """,
        default="None",
    ),
    Option(
        "then_schema",
        "StructType | str | None",
        (*ON_SPARK,),
        """
        The Spark schema of the data that `then` returns: a `StructType`, or a string such as
        `"origin string, flights bigint"`.
        """,
        default="None",
    ),
    Option(
        "sink",
        "str | None",
        (*ON_SPARK,),
        """
        A folder in which tasks write the result as Parquet files, so that its rows never pass
        through Spark. All workers must be able to write to the folder, which is a path or a URL.
        The call waits until all files are written. It returns one row per file: the number of the
        `task`, the `path`, the number of `rows`, and their `digest`, which is `tidegate.Digest.sum`
        of the file's rows. Each file appears only when it is complete, and its name depends only on
        the call and the input files. If a call is interrupted, repeat it: files that are already
        present are not written again. `sink` requires tasks that read files (see `parallelism`).
        """,
        default="None",
    ),
    Option(
        "scratch",
        "str | None",
        (*ON_SPARK,),
        """
        A folder for the files that preparation steps write, if tasks that read files need rows from
        other slices. As-of joins without a tolerance, joins with `prevailing` and aggregations with
        `session` are examples. All workers must be able to access the folder, which is a path or a
        URL. The default is a temporary folder if Spark runs only on this machine.
        """,
        default="None",
    ),
)

"""Every option of a join, an aggregation and a merge, written once: name, type, default and text.

From this table come the signatures and docstrings of `tidegate`, of `tidegate.spark` and of the
native classes, and the options of the command. `make options` writes those that are files, and a
test compares them. So a new option is two edits: an entry here, and the native query or the Spark
plan that reads it.

Options stand in the order of signatures. An option may have several entries, since what it means
depends on what has it; each entry says which functions and classes have it.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

PAIRS = ("interval_join", "window_join", "band_join", "overlap_join")
JOINS = ("asof_join", *PAIRS)
OPERATORS_OF_PAIRS = ("IntervalJoin", "WindowJoin", "BandJoin")
OPERATORS = ("AsofJoin", *OPERATORS_OF_PAIRS)
PAIRS_ON_SPARK = tuple(f"spark.{name}" for name in PAIRS)
ON_SPARK = ("spark.asof_join", *PAIRS_ON_SPARK)


def in_one_table(names: tuple[str, ...]) -> tuple[str, ...]:
    """The functions that return a table, without their forms that return batches."""
    return tuple(f"{name} in one table" for name in names)


def in_batches(names: tuple[str, ...]) -> tuple[str, ...]:
    """The forms of functions that return batches."""
    return tuple(f"{name} in batches" for name in names)


@dataclass(frozen=True)
class OfCommand:
    """An option as the command has it.

    Args:
        help: One line.
        metavar: How the value is called in the help.
        read: The function of `tidegate.cli.commands.parsing` that reads the text.
        flag: The option, if it is not the argument's name.
        shown_default: How the default is called in the help.
        repeats: Whether the option may be given several times.
        is_required: Whether the command has no default, though the function has one.
        least: The least value of a number.
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
    """An argument of functions and classes.

    Args:
        name: The argument.
        type: Its type, as an annotation.
        of: The functions and classes that have it. A function stands for its form with batches,
            too, unless `in_one_table` or `in_batches` says otherwise.
        text: What docstrings say of it.
        default: Its default, as code; None if it has to be given.
        is_input: Whether it may be given by its place.
        command: The option of the command, if it has one.
    """

    name: str
    type: str
    of: tuple[str, ...]
    text: str
    default: str | None = None
    is_input: bool = False
    command: OfCommand | None = None

    def is_of(self, name: str) -> bool:
        """Whether a function or a class has it.

        Example:
            >>> from tidegate.options import options_of
            >>> [option.name for option in options_of("merge")]
            ['streams', 'on', 'lateness', 'threads', 'memory_limit']
        """
        function = name.removesuffix("_batches")
        form = "batches" if name != function else "one table"
        return function in self.of or f"{function} in {form}" in self.of

    @property
    def plain_text(self) -> str:
        """The text in one line."""
        return " ".join(textwrap.dedent(self.text).split())


def options_of(name: str) -> list[Option]:
    """The options of a function or a class, in the order of its signature."""
    return [option for option in OPTIONS if option.is_of(name)]


OPTIONS: tuple[Option, ...] = (
    Option(
        "left",
        "Table",
        (*JOINS,),
        """
        The left input: Arrow data (a table, batches or a reader of pyarrow, a DataFrame of
        polars or pandas, a relation of DuckDB), a path or a list of paths (a file, a folder, a
        pattern such as "trades/*.parquet", a URL such as "s3://bucket/trades/"), a Dataset,
        Scanner or ParquetFile of pyarrow, a LazyFrame of polars, a record array of NumPy, or a
        dict of arrays. Of files and lazy inputs, only the columns that the call needs are read.
        """,
        is_input=True,
    ),
    Option(
        "left",
        "pa.Schema | Table",
        (*OPERATORS,),
        """
        The schema of the left sources: a `pyarrow.Schema`, or data that has it.
        """,
        is_input=True,
    ),
    Option(
        "right",
        "Table",
        (*JOINS,),
        """
        The right input, of any of these kinds.
        """,
        is_input=True,
    ),
    Option(
        "right",
        "pa.Schema | Table",
        ("AsofJoin", "IntervalJoin", "WindowJoin"),
        """
        The schema of the right sources: a `pyarrow.Schema`, or data that has it.
        """,
        is_input=True,
    ),
    Option(
        "right",
        "pa.Schema | Table | None",
        ("BandJoin",),
        """
        The schema of the right sources: a `pyarrow.Schema`, or data that has it. None joins the
        rows of the left sources with each other. `on`, `by` and `time` then have one name for
        both rows of a pair, `window` is one for both, and `how` is `inner`.
        """,
        is_input=True,
    ),
    Option(
        "on",
        "Names",
        ("asof_join", "interval_join", "window_join", "AsofJoin", "IntervalJoin", "WindowJoin"),
        """
        The time column, or a pair of names if the two sides name it differently. It has
        integers, dates or timestamps. Timestamps with zones are compared as instants. The units
        of the two sides may differ.
        """,
        command=OfCommand(
            "The time column of both sides.", metavar="COLUMN|LEFT=RIGHT", read="pair_of_times"
        ),
    ),
    Option(
        "on",
        "str | Sequence[Names] | Mapping[str, str]",
        ("band_join", "BandJoin"),
        """
        The band columns: a name, a list of names or of pairs of names, or a mapping from left
        to right names. They have integers, floats, decimals, dates or timestamps. A float on
        either side means that both are compared as floats.
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
        "IntervalNames",
        ("overlap_join",),
        """
        The start and the end column of both sides, or a pair of names for each side, as in
        `(("ts", "ts"), ("start", "end"))`: a row that has one time overlaps the intervals that
        it lies in. The columns have integers, dates or timestamps.
        """,
        command=OfCommand(
            "The start and the end column of both sides.",
            metavar="START,END|START,END=START,END",
            read="intervals",
        ),
    ),
    Option(
        "within",
        "Within | list[Within] | Mapping[str, Within]",
        ("band_join", "BandJoin"),
        """
        How far the values of a pair may be apart: one distance for all columns, a list with one
        for each column, or a mapping from left names. A distance is a number. For dates and
        timestamps it is a duration: a timedelta, a numpy timedelta64, a string such as "250ms",
        or an integer where times are integers. A pair `(below, above)` means `l.on - below <=
        r.on <= l.on + above`, where None sets no bound.
        """,
        command=OfCommand(
            "The largest distance of its values; once for all columns, or once for each.",
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
        The time column that orders the rows for `window`, or a pair of names if the two sides
        name it differently.
        """,
        default="None",
    ),
    Option(
        "time",
        "Names",
        ("BandJoin",),
        """
        The time column that orders the rows for `window`, or a pair of names if the two sides
        name it differently.
        """,
    ),
    Option(
        "window",
        "Window | tuple[Window, Window] | None",
        ("band_join",),
        """
        How long a row stays in the window of its side. It is a timedelta, a numpy timedelta64,
        a string such as "15m", or an integer where times are integers. `tidegate.rows(n)` keeps
        the last n rows, of any key. A pair of windows is for the left and the right side.
        """,
        default="None",
    ),
    Option(
        "window",
        "Window | tuple[Window, Window]",
        ("window_join", "WindowJoin", "BandJoin"),
        """
        How long a row stays in the window of its side. It is a timedelta, a numpy timedelta64,
        a string such as "15m", or an integer where times are integers. `tidegate.rows(n)` keeps
        the last n rows, of any key. A pair of windows is for the left and the right side.
        """,
    ),
    Option(
        "lower",
        "End",
        ("interval_join", "IntervalJoin"),
        """
        How long after the left time the interval begins; a negative value begins before it. It
        is a timedelta, a numpy timedelta64, a string such as "1h30m", "-5s" or "250ms", or an
        integer. Integer times take an integer, in their unit. None sets no bound. An expression
        over the columns of one side, such as `-tg.left.tolerance`, or its SQL text, gives each
        row an end of its own. Its value is a duration or an integer, or of the left side a
        time, which is the end itself. A row with a null end has no pair.
        """,
        command=OfCommand(
            "Earliest right time, minus the left one.", metavar="DURATION|EXPR", read="bound"
        ),
    ),
    Option(
        "upper",
        "End",
        ("interval_join", "IntervalJoin"),
        """
        How long after the left time the interval ends, in the same forms. It is not less than
        `lower`, or the row has no pair. None sets no bound.
        """,
        command=OfCommand(
            "Latest right time, minus the left one.", metavar="DURATION|EXPR", read="bound"
        ),
    ),
    Option(
        "by",
        "KeyNames | None",
        (*JOINS, *OPERATORS),
        """
        The key columns, which must all be equal: a name, a list of names or of pairs of names,
        or a mapping from left to right names. Without keys, any two rows may pair.
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
        "streams",
        "Streams",
        ("aggregate",),
        """
        One input, or a sequence of inputs: Arrow data, paths, datasets, lazy frames, record
        arrays or dicts of arrays. Columns of the same name are taken together. The inputs are
        numbered from 0 in this order.
        """,
        is_input=True,
    ),
    Option(
        "streams",
        "Table | Iterable[Table]",
        ("merge",),
        """
        The streams or tables with equal columns: Arrow data, paths, datasets, lazy frames,
        record arrays or dicts of arrays. There is at least one. Each file of a path that is
        given alone is a stream. They are numbered from 0 in this order.
        """,
        is_input=True,
    ),
    Option(
        "schema",
        "pa.Schema | Table",
        ("Merge", "Aggregate"),
        """
        The columns of all sources: a `pyarrow.Schema`, or data that has it.
        """,
        is_input=True,
    ),
    Option(
        "on",
        "str",
        ("aggregate", "Aggregate"),
        """
        The time column. It has integers, dates or timestamps.
        """,
        command=OfCommand("The time column.", metavar="COLUMN"),
    ),
    Option(
        "on",
        "str",
        ("merge", "Merge"),
        """
        The time column. It has integers, dates or timestamps.
        """,
        default="'ts'",
        command=OfCommand("The time column.", metavar="COLUMN", is_required=True),
    ),
    Option(
        "size",
        "Length | None",
        ("aggregate", "Aggregate"),
        """
        How long a window is: a timedelta, a numpy timedelta64, a string such as "1h30m" or
        "250ms", or an integer. Integer times take an integer, in their unit. The size is a
        whole number of these units, greater than 0.
        """,
        default="None",
        command=OfCommand(
            "The length of a window.",
            metavar="DURATION",
            read="duration",
            shown_default=False,
        ),
    ),
    Option(
        "advance",
        "Length | None",
        ("aggregate", "Aggregate"),
        """
        How much later the next window begins, in the same forms. None takes `size`. An advance
        greater than the size leaves gaps.
        """,
        default="None",
        command=OfCommand(
            "The time from the start of a window to the next.",
            metavar="DURATION",
            read="duration",
            shown_default="the size",
        ),
    ),
    Option(
        "offset",
        "Length | None",
        ("aggregate", "Aggregate"),
        """
        Where windows begin, counted from 1970-01-01T00:00 UTC (from 0 for integers), in the
        same forms and with any sign. None takes 0.
        """,
        default="None",
        command=OfCommand(
            "The time from the epoch to a start.",
            metavar="DURATION",
            read="duration",
            shown_default="0",
        ),
    ),
    Option(
        "session",
        "Length | None",
        ("aggregate", "Aggregate"),
        """
        How long a session lasts after its last row, in the same forms, in place of `size`,
        `advance` and `offset`. A row at its very end is the first of the next session.
        """,
        default="None",
        command=OfCommand(
            "Instead of a size: how long after its last row a window ends.",
            metavar="DURATION",
            read="duration",
            shown_default=False,
        ),
    ),
    Option(
        "by",
        "str | Sequence[str] | None",
        ("aggregate", "Aggregate"),
        """
        The key columns: a name or a list of names. Without keys, all rows are one group. Null
        is a group, NaN equals NaN and 0.0 equals -0.0.
        """,
        default="None",
        command=OfCommand(
            "A key column; repeat it for several columns.", metavar="COLUMN", repeats=True
        ),
    ),
    Option(
        "aggs",
        "Mapping[str, agg.Aggregate]",
        ("aggregate", "Aggregate"),
        """
        What is computed: a mapping from the names of the result's columns to functions of
        `tidegate.agg`.
        """,
        command=OfCommand(
            "What to compute; repeatable.",
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
        Which rows take part: a condition on `tidegate.row` columns, or its SQL text.
        """,
        default="None",
        command=OfCommand('Such as "price > 10".', metavar="CONDITION"),
    ),
    Option(
        "lateness",
        "Bound",
        ("merge",),
        """
        How far the rows of a stream may be out of time order: a timedelta, a numpy timedelta64,
        a string such as "250ms", or an integer where times are integers. None, as 0, means that
        they are in order.
        """,
        default="None",
        command=OfCommand(
            "How far the rows of a file may be out of order.",
            metavar="DURATION",
            read="bound",
            shown_default="not at all",
        ),
    ),
    Option(
        "sources",
        "int | None",
        ("Merge", "Aggregate"),
        """
        The number of sources, from 1 to 65536. None makes one.
        """,
        default="None",
    ),
    Option(
        "lateness",
        "Bound | list[Bound]",
        ("Merge", "Aggregate"),
        """
        How far the rows of a source may be out of time order: a timedelta, a numpy timedelta64,
        a string such as "250ms", or an integer where times are integers. A list has one for
        each source. None, as 0, means that they are in order.
        """,
        default="None",
    ),
    Option(
        "algorithm",
        "Algorithm",
        ("aggregate", "Aggregate"),
        """
        How rows come into windows; the result is the same. `auto` is `slices`, the fastest. It
        adds rows up by slice of time, which all windows share, with states of its own for each
        stream, and combines slices to windows. The others are the designs of the paper, section
        5, to compare with. `mq` has queues with locks and `mq-lf` has queues without, from
        which one thread merges and updates. A gate merges for one thread in `tumlsc`, and for
        many in `tumlmc`. In `wiml` nothing is merged, and each stream updates by itself. They
        go row by row, and take far more time and memory. Sessions have an algorithm of their
        own.
        """,
        default="'auto'",
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("Merge",),
        """
        The most bytes that may be held for pushed rows, late rows included, until a poll takes
        them. Each row takes 40 bytes more. None sets no limit. The few batches that a poll
        makes ahead do not count. The property `memory_limit` says how sources share it.
        """,
        default="None",
    ),
    Option(
        "left_df",
        "DataFrame",
        (*ON_SPARK,),
        """
        The left side.
        """,
        is_input=True,
    ),
    Option(
        "right_df",
        "DataFrame",
        (*ON_SPARK,),
        """
        The right side. If one side is a stream and the other a table, the table is read once,
        by the call, and sent whole to every task of every micro-batch. Rows then come in the
        micro-batch that brings them, and the stream needs no watermark. A table of more than 64
        MB needs `parallelism="broadcast"`.
        """,
        is_input=True,
    ),
    Option(
        "on",
        "Names",
        ("spark.interval_join", "spark.window_join", "spark.asof_join"),
        """
        The time column, or a pair of names if the two sides name it differently. Its type is
        timestamp, timestamp_ntz, date or integer. For streams, it is the column that has the
        watermark.
        """,
    ),
    Option(
        "on",
        "str | Sequence[Names] | Mapping[str, str]",
        ("spark.band_join",),
        """
        The band columns: a name, a list of names or of pairs of names, or a mapping from left
        to right names. They have integers, floats, decimals, dates or timestamps. A float on
        either side means that both are compared as floats. Rows are divided by the values of
        the first column, so name the column first that leaves the fewest pairs.
        """,
    ),
    Option(
        "on",
        "IntervalNames",
        ("spark.overlap_join",),
        """
        The start and the end column of both sides, or a pair of names for each side, as in
        `(("ts", "ts"), ("start", "end"))`: a row that has one time overlaps the intervals that
        it lies in. The columns are timestamps, timestamps_ntz, dates or integers.
        """,
    ),
    Option(
        "lower",
        "End",
        ("spark.interval_join",),
        """
        The least `r.ts - l.ts`: a duration, or an integer where times are integers. None sets
        no bound. An expression over the columns of one side, such as
        `-tidegate.left.tolerance`, or its SQL text, gives each row an end of its own. Its value
        is a duration or an integer, or of the left side a time, which is the end itself. A row
        with a null end has no pair. Of tables, rows are then divided as in `overlap_join`, by
        intervals of their own: a few wide ones cost few copies. For streams, see `max_width`.
        """,
    ),
    Option(
        "upper",
        "End",
        ("spark.interval_join",),
        """
        The greatest `r.ts - l.ts`, in the same forms. None sets no bound.
        """,
    ),
    Option(
        "window",
        "Window | tuple[Window, Window]",
        ("spark.window_join",),
        """
        How long a row stays in the window of its side: a duration, or an integer where times
        are integers. A pair of windows is for the left and the right side. It is not
        `tidegate.rows(n)`: the rows of a DataFrame have no order beyond their times, so the
        last n are not defined where times are equal.
        """,
    ),
    Option(
        "within",
        "Within | list[Within] | Mapping[str, Within]",
        ("spark.band_join",),
        """
        How far the values of a pair may be apart: one distance for all columns, a list with one
        for each column, or a mapping from left names. A distance is a number. For dates and
        timestamps it is a duration, or an integer where times are integers. A pair `(below,
        above)` means `l.on - below <= r.on <= l.on + above`, where None sets no bound.
        """,
    ),
    Option(
        "time",
        "Names | None",
        ("spark.band_join",),
        """
        The time columns, if there is a window: one name or a pair. For streams, they are the
        columns that have the watermarks. Streams need a window.
        """,
        default="None",
    ),
    Option(
        "window",
        "Window | tuple[Window, Window] | None",
        ("spark.band_join",),
        """
        How long a row stays in the window of its side: a duration, or an integer where times
        are integers. A pair of windows is for the left and the right side. It is not
        `tidegate.rows(n)`: the rows of a DataFrame have no order beyond their times, so the
        last n are not defined where times are equal.
        """,
        default="None",
    ),
    Option(
        "by",
        "KeyNames | None",
        (*ON_SPARK,),
        """
        The key columns, which must all be equal: a name, a list of names or of pairs of names,
        or a mapping from left to right names. A null key matches nothing. Without keys, any two
        rows may pair.
        """,
        default="None",
    ),
    Option(
        "strategy",
        "Strategy",
        ("asof_join", "AsofJoin", "spark.asof_join"),
        """
        `backward`: the last right row with `r.on <= l.on`. `forward`: the first right row with
        `r.on >= l.on`. `nearest`: the right row of the least `abs(l.on - r.on)`; if a row
        before and a row after are equally far away, the row before.
        """,
        default="'backward'",
        command=OfCommand("On which side in time the right row is."),
    ),
    Option(
        "tolerance",
        "Bound",
        ("asof_join", "AsofJoin"),
        """
        The largest distance of the times, end included. It is a timedelta, a numpy timedelta64
        or a string such as "1h30m" or "250ms"; for integer times, it is an integer in their
        unit. None sets no bound.
        """,
        default="None",
        command=OfCommand(
            "How far away it may be.",
            metavar="DURATION",
            read="bound",
            shown_default="no bound",
        ),
    ),
    Option(
        "tolerance",
        "Bound",
        ("spark.asof_join",),
        """
        The largest distance of the times, end included: a duration, or an integer where times
        are integers. None sets no bound.
        """,
        default="None",
    ),
    Option(
        "allow_exact_matches",
        "bool",
        ("asof_join", "AsofJoin", "spark.asof_join"),
        """
        Whether a right row of the same time is a candidate.
        """,
        default="True",
        command=OfCommand("Whether it may have the same time.", flag="--exact/--no-exact"),
    ),
    Option(
        "where",
        "Expr | str | None",
        (*JOINS, *OPERATORS),
        """
        A condition on a pair, of `tidegate.left` and `tidegate.right` columns, or its SQL text.
        A pair for which it is null is no pair.
        """,
        default="None",
        command=OfCommand('Such as "left.price < right.bid".', metavar="CONDITION"),
    ),
    Option(
        "where",
        "tidegate.Expr | str | None",
        (*ON_SPARK,),
        """
        A condition on a pair, such as `"left.price < right.bid"`, of `tidegate.left` and
        `tidegate.right` columns or as SQL text. A pair for which it is null is no pair.
        """,
        default="None",
    ),
    Option(
        "how",
        "AsofHow",
        ("asof_join", "AsofJoin", "spark.asof_join"),
        """
        `left`: all left rows; without a partner, right columns are null. `inner`: the left rows
        that have a partner. `semi`, `anti`: the left columns of the left rows that have a
        partner, or that have none.
        """,
        default="'left'",
        command=OfCommand("Which rows are written."),
    ),
    Option(
        "how",
        "How | None",
        (*PAIRS, *OPERATORS_OF_PAIRS, *PAIRS_ON_SPARK),
        """
        `inner`: the pairs. `left`, `right`, `full`: also the rows of that side, or of both,
        that have no pair. `semi`, `anti`: the left rows that have a pair, or that have none.
        With `aggs`: `left` for all left rows, or `inner` for left rows with partners. None
        takes `inner`, and `left` with `aggs`.
        """,
        default="None",
        command=OfCommand(
            "Which rows without a partner are kept.", shown_default="inner; left with --agg"
        ),
    ),
    Option(
        "aggs",
        "Mapping[str, agg.Aggregate] | None",
        (*PAIRS,),
        """
        Aggregates from `tidegate.agg`, keyed by result column name. Each left row then appears
        once, with the aggregates of its partners: the right rows that it would pair with.
        Partners are aggregated in time order; ties keep the order of the right rows.
        """,
        default="None",
        command=OfCommand(
            "One row a left row, with FUNCTION of its partners; repeat it for several columns.",
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
        once, with the aggregates of its partners: the right rows that it would pair with.
        Partners are aggregated in time order; ties keep the merged order.
        """,
        default="None",
    ),
    Option(
        "aggs",
        "Mapping[str, tidegate.agg.Aggregate] | None",
        ("spark.interval_join", "spark.window_join", "spark.band_join"),
        """
        Aggregates from `tidegate.agg`, keyed by result column name. Each left row then appears
        once, with the aggregates of its partners: the right rows that it would pair with. If
        times are compared, partners are aggregated in time order. Spark does not preserve the
        order of rows, so right rows with equal times are ordered by value. They are compared by
        the first column of `on`, then by the other columns that the join reads, in DataFrame
        order, with nulls last. Structs are compared field by field, and arrays and maps element
        by element. How streams are divided into micro-batches does not affect the result. A
        left row is emitted once the watermark has passed all its possible partners, so an
        interval join of streams requires an upper bound.
        """,
        default="None",
    ),
    Option(
        "aggs",
        "Mapping[str, tidegate.agg.Aggregate] | None",
        ("spark.overlap_join",),
        """
        Aggregates from `tidegate.agg`, keyed by result column name. Each left row then appears
        once, with the aggregates of its partners: the right rows that it would pair with.
        Partners are aggregated in the order of their starts. Spark does not preserve the order
        of rows, so right rows with equal starts are ordered by value. They are compared by the
        columns that the join reads, in DataFrame order, with nulls last. Structs are compared
        field by field, and arrays and maps element by element.
        """,
        default="None",
    ),
    Option(
        "settings",
        "Mapping[str, float] | None",
        ("band_join", "BandJoin"),
        """
        How the index of `algorithm` is set, a dict. `pim-tree` has `merge_ratio`, the rows of
        its subindexes when they are merged, as a part of the rows of the window, above 0 and at
        most 1, and `insertion_depth`, the depth of the subindexes, from 0 to 32. `im-tree` has
        `merge_ratio`. `b-chain` and `ib-chain` have `chain_length`, from 2 to 1024. `ibwj` and
        `ibwj-blocking` have `merge_ratio`, `insertion_depth` and `task_rows`, the rows of a
        task, from 1 to 65536; `ibwj-bplus-tree` has `task_rows`. None takes the values that
        were measured to be the fastest.
        """,
        default="None",
    ),
    Option(
        "closed",
        "Closed",
        ("interval_join", "IntervalJoin", "spark.interval_join"),
        """
        Which ends of the interval belong to it: `both`, `left`, `right` or `neither`.
        """,
        default="'both'",
        command=OfCommand("Which ends of the interval belong to it."),
    ),
    Option(
        "closed",
        "ClosedEnds",
        ("overlap_join", "spark.overlap_join"),
        """
        `both`: the ends belong to the intervals, and two that touch overlap. `left`: the ends
        do not belong to them; an empty interval then overlaps nothing.
        """,
        default="'both'",
        command=OfCommand("both: ends belong to the intervals; left: they do not."),
    ),
    Option(
        "prevailing",
        "bool",
        ("interval_join", "IntervalJoin"),
        """
        Whether the last right row of the key before the interval is a partner, too, if `where`
        holds for it. It needs `aggs` and a `lower`, and ends that are the same for all rows.
        """,
        default="False",
        command=OfCommand(
            "With --agg: the last right row before the interval counts, too.", flag="--prevailing"
        ),
    ),
    Option(
        "prevailing",
        "bool",
        ("spark.interval_join",),
        """
        Whether the last right row of the key before the interval is a partner, too, if `where`
        holds for it. It needs `aggs` and a `lower`. The row may be any time before, so that a
        slice of time needs copies of all earlier right rows. So streams are divided by key
        alone, and keep the last right row of each key for ever.
        """,
        default="False",
    ),
    Option(
        "min_overlap",
        "Length | None",
        ("overlap_join",),
        """
        The least length of the part that the two have in common: a timedelta, a numpy
        timedelta64, a string such as "5s", or an integer where the columns are integers. None
        takes any, a single point too.
        """,
        default="None",
        command=OfCommand(
            "The least length of the common part.",
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
        The least length of the part that the two have in common: a duration, or an integer
        where the columns are integers. None takes any, a single point too.
        """,
        default="None",
    ),
    Option(
        "max_width",
        "Length | None",
        ("IntervalJoin",),
        """
        The most that an end which is an expression may be from the time of its row, in the
        forms of `lateness`. Such an end needs it, since rows are kept as long as an end may
        reach them, and compared within it: more width is more work. A row whose end is farther
        away is set aside, as a late row is.
        """,
        default="None",
        command=OfCommand(
            "With --follow: how far a --lower or --upper of columns may be from a row's time.",
            metavar="DURATION",
            read="duration",
            shown_default=False,
        ),
    ),
    Option(
        "max_width",
        "Length | None",
        ("spark.interval_join",),
        """
        For streams: the most that an end from columns may be from the time of its row, as a
        duration. Such an end needs it, since rows are kept as long as an end may reach them. A
        row whose end is farther away is set aside, as a late row is: with `late_as` it comes as
        `left wide` or `right wide`, and else it is dropped.
        """,
        default="None",
    ),
    Option(
        "load_factor",
        "float | None",
        ("IntervalJoin",),
        """
        How many times the mean of comparisons a thread may make before `hybrid` and `auto`
        split keys, from 1 on (the threshold of Algorithm 1). A smaller one splits more keys,
        and each row of a split key is looked at by several threads. None takes 1.2.
        """,
        default="None",
    ),
    Option(
        "suffix",
        "str",
        (*JOINS, *OPERATORS, *ON_SPARK),
        """
        The text that is added to the name of a right column if the left side has the name, too.
        """,
        default="'_right'",
        command=OfCommand("Added to a right column whose name the left side has, too."),
    ),
    Option(
        "columns",
        "Sequence[str] | None",
        ("asof_join", "AsofJoin"),
        """
        The columns of the result, in the given order. Other columns are not computed. None
        means all columns.
        """,
        default="None",
        command=OfCommand(
            "Write these columns only, in this order.", metavar="NAME,NAME", read="names"
        ),
    ),
    Option(
        "columns",
        "Sequence[str] | None",
        (*PAIRS, *OPERATORS_OF_PAIRS),
        """
        The columns of the result, in the given order; with `aggs`, the left columns to keep.
        Other columns are not computed. None means all columns.
        """,
        default="None",
        command=OfCommand(
            "Write these columns only, in this order.", metavar="NAME,NAME", read="names"
        ),
    ),
    Option(
        "columns",
        "Sequence[str] | None",
        (*PAIRS_ON_SPARK,),
        """
        The columns of the result, in the given order; with `aggs`, the left columns to keep.
        Other columns are not sent. None means all columns.
        """,
        default="None",
    ),
    Option(
        "columns",
        "Sequence[str] | None",
        ("spark.asof_join",),
        """
        The columns of the result, in the given order. Other left columns are not sent. All
        columns of the right side are sent, since they determine the order of right rows with
        equal times. None means all columns.
        """,
        default="None",
    ),
    Option(
        "algorithm",
        "BandAlgorithm",
        ("band_join",),
        """
        How pairs are found; the rows are the same, in the same order. `sort` puts the right
        rows in the order of a band column; the window is one more band. The others take the
        rows in time order and look for each row in an index of the other side's window:
        `buckets`, `pim-tree`, `im-tree`, `bplus-tree`, `b-chain`, `ib-chain`, `round-robin`.
        With `ibwj` and `ibwj-blocking`, tasks of a few rows work on PIM-Trees that threads
        share (section 4 of the paper). Only `ibwj` merges the trees while tasks go on. With
        `ibwj-bplus-tree`, the same tasks work on B+-trees that threads share, and which are
        never merged. `auto` is `sort`. With a window, it is `buckets` if a sample says that a
        left row would have a thousand pairs to be checked.
        """,
        default="'auto'",
    ),
    Option(
        "algorithm",
        "WindowAlgorithm",
        ("window_join",),
        """
        Who finds the pairs; the result is the same. `auto` finds each left row's window as a
        run of right rows, with an index for `by`. It compares every row of the run. If a sample
        of pairs says that an index of a number that `where` compares is faster, it uses that
        index. The others are the algorithms of papers, through which both tables go as streams:
        `scalejoin`, `scalejoin-gates`, `splitjoin`, `cell`, `three-step`, `handshake` and
        `low-latency-handshake`. They hold eight bytes a pair, and compare keys like other
        numbers.
        """,
        default="'auto'",
    ),
    Option(
        "sources",
        "tuple[int, int] | None",
        ("AsofJoin", "IntervalJoin", "WindowJoin"),
        """
        The numbers of left and of right sources, each from 1 to 32768. None makes one of each.
        """,
        default="None",
    ),
    Option(
        "sources",
        "tuple[int, int] | None",
        ("BandJoin",),
        """
        The numbers of left and of right sources, each from 1 to 32768. None makes one of each.
        Without `right` there are no right ones: `sources=(3, 0)` makes three.
        """,
        default="None",
    ),
    Option(
        "lateness",
        "Bound | tuple[Bound | list[Bound], Bound | list[Bound]]",
        ("AsofJoin", "IntervalJoin", "WindowJoin"),
        """
        How far the rows of a source may be out of time order: a timedelta, a numpy timedelta64,
        a string such as "250ms", or an integer where times are integers. A pair of these is for
        the left and the right sources, and may have lists, with one for each source of the
        side. None, as 0, means that they are in order.
        """,
        default="None",
    ),
    Option(
        "lateness",
        "Bound | list[Bound] | tuple[Bound | list[Bound], Bound | list[Bound]]",
        ("BandJoin",),
        """
        How far the rows of a source may be out of time order: a timedelta, a numpy timedelta64,
        a string such as "250ms", or an integer where times are integers. A pair of these is for
        the left and the right sources, and may have lists, with one for each source of the
        side; without `right`, it is a list alone. None, as 0, means that they are in order.
        """,
        default="None",
    ),
    Option(
        "parallelism",
        "Parallelism",
        ("IntervalJoin",),
        """
        Which threads have the rows of a key. `key`: one thread. `data`: all threads, and each
        looks for the matches of a part of them. `hybrid`: as many threads as the key's share of
        the comparisons asks for, measured again and again. `auto`: `key` without a `where`;
        with one, `key` until one thread has much more to compare than others, then `hybrid`.
        (PPOIJ, section 3; `hybrid` is its Algorithm 1.) `scale-oij`: a team of threads, which
        is larger for a key of more rows. Each row is one thread's, which looks into the lists
        of the whole team (Scale-OIJ, to compare with). With `aggs`, or `ordered=False`, `auto`
        alone has a meaning.
        """,
        default="'auto'",
    ),
    Option(
        "algorithm",
        "WindowAlgorithm",
        ("WindowJoin",),
        """
        How threads share the comparisons. `scalejoin`: each thread has a share of the rows in
        its windows, round robin (ScaleJoin, Algorithm 1). `scalejoin-gates`: the same row by
        row, each thread reading from one gate and adding to another, as published. `splitjoin`:
        the same row by row, with a tree that takes rows to the threads and a tree that takes
        back what they find (SplitJoin). `auto`: each thread has a share of the new rows. They
        are looked up by value if a sample of pairs says that a lookup takes less time. `cell`:
        each row's window is cut into a piece a thread (CellJoin). `three-step`: one thread
        compares (Kang's procedure). `low-latency-handshake`: rows rush through a chain of
        threads, of which one keeps each row (Low-Latency Handshake Join, Figures 12 to 14).
        Numbers that have to be equal are looked up in a hash table. Otherwise the first band is
        looked up in the order of its numbers, while few are in reach. `handshake`: both windows
        flow past each other through the chain (Teubner and Mueller's handshake join). So
        results come when the left window has passed and later rows have moved the chain on; how
        many are held back until then depends on the threads. A snapshot, or the end of the
        sources, lets all of them come. The memory limit does not count results that are held
        back. Rows are let go of as further rows come, not because sources advance. The threads
        of `scalejoin-gates` and of both handshake joins go on with the rows that a poll has
        given them, also between polls. With `aggs`, `auto` alone has a meaning.
        """,
        default="'auto'",
    ),
    Option(
        "algorithm",
        "BandAlgorithm",
        ("BandJoin",),
        """
        Which index of a side's window finds the pairs; the rows are the same, in the same
        order: `buckets`, `pim-tree`, `im-tree`, `bplus-tree`, `b-chain`, `ib-chain` or
        `round-robin`. With `ibwj` and `ibwj-blocking`, tasks of a few rows work on PIM-Trees
        that threads share (section 4 of the paper). Only `ibwj` merges the trees while tasks go
        on. With `ibwj-bplus-tree`, the same tasks work on B+-trees that threads share, and
        which are never merged. `auto` is `buckets`: it computes the place of a block instead of
        searching for it, many rows at a time. With `aggs`, it is the algorithm of `band_join`.
        """,
        default="'auto'",
    ),
    Option(
        "threads",
        "int | None",
        (*JOINS, *OPERATORS, "aggregate", "merge", "Merge", "Aggregate"),
        """
        The number of threads that work, from 1 to 512. None takes `default_threads()`.
        """,
        default="None",
        command=OfCommand("Threads to use.", shown_default="all", least=1),
    ),
    Option(
        "max_rows",
        "int | None",
        (*in_one_table(PAIRS), "asof_join", "aggregate"),
        """
        The most rows that the result may have. None sets no limit.
        """,
        default="None",
        command=OfCommand("Fail if the result has more rows.", shown_default="no limit", least=0),
    ),
    Option(
        "max_rows",
        "int | None",
        (*in_batches(PAIRS),),
        """
        The most rows that the result may have. None sets no limit. If pairs are still checked
        while batches are made, as with `where`, batches may come before the error.
        """,
        default="None",
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        (*JOINS,),
        """
        The most memory that the call takes beside what the inputs hold already: bytes, or a
        text such as "2GB". A table of all rows may have half of it. Inputs may then be larger
        than memory, and are joined in time order, as if they had been sorted by time first.
        None sets no limit.
        """,
        default="None",
        command=OfCommand(
            "Work on files larger than memory in time order, within BYTES, such as 2GB.",
            metavar="BYTES",
            shown_default="no limit",
        ),
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("aggregate",),
        """
        The most memory that the call takes beside what the streams hold already: bytes, or a
        text such as "2GB". A table of all rows may have half of it. Streams may then be larger
        than memory. None sets no limit.
        """,
        default="None",
        command=OfCommand(
            "Work on files larger than memory in time order, within BYTES, such as 2GB.",
            metavar="BYTES",
            shown_default="no limit",
        ),
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("merge",),
        """
        The most bytes of rows that are held beside what the streams hold already, or a text
        such as "2GB". A table of all rows may have half of it. None sets no limit.
        """,
        default="None",
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        (*OPERATORS,),
        """
        The most bytes that may be held for rows that are pushed and not joined yet, rows kept
        for later ones, and late rows. None sets no limit. The property `memory_limit` says how
        sources share it.
        """,
        default="None",
    ),
    Option(
        "memory_limit",
        "Bytes | None",
        ("Aggregate",),
        """
        The most bytes that may be held for rows that are pushed and not aggregated yet, late
        rows, and the state. None sets no limit. A pushed row is charged for the state that it
        may add, so every accepted row can be aggregated. The few batches that a poll makes
        ahead do not count. The property `memory_limit` says how sources and state share it.
        """,
        default="None",
    ),
    Option(
        "lateness",
        "Bound | tuple[Bound, Bound]",
        (*JOINS,),
        """
        With `memory_limit`, how far the rows of an input may be out of time order, in the forms
        of a duration; a pair of these is for the left and the right input. A row that is
        further out of order is an `OrderError`. With None, an input that is not known to be in
        order is sorted in temporary files.
        """,
        default="None",
        command=OfCommand(
            "With --follow or --memory-limit: how far the rows of a file may be out of order.",
            metavar="DURATION",
            read="bound",
            shown_default="not at all",
        ),
    ),
    Option(
        "lateness",
        "Bound",
        ("aggregate",),
        """
        With `memory_limit`, how far the rows of a stream may be out of time order, in the forms
        of a duration. A row that is further out of order is an `OrderError`. With None, a
        stream that is not known to be in order is sorted in temporary files.
        """,
        default="None",
        command=OfCommand(
            "With --follow or --memory-limit: how far the rows of a file may be out of order.",
            metavar="DURATION",
            read="bound",
            shown_default="not at all",
        ),
    ),
    Option(
        "batch_rows",
        "int | None",
        (*in_batches(JOINS),),
        """
        The most rows of a batch. With None, a batch takes a few megabytes.
        """,
        default="None",
    ),
    Option(
        "ordered",
        "bool",
        ("AsofJoin",),
        """
        Whether results must come in the order that is said above. They come in this order for
        either value.
        """,
        default="True",
    ),
    Option(
        "ordered",
        "bool",
        ("IntervalJoin",),
        """
        Whether results come in the order that is said above. A pair then waits until no source
        can bring an earlier row. If not, a pair comes in the first poll after both of its rows
        were pushed, whatever the lateness and the other sources: the same rows, in an order
        that depends on the pushes. A row without a partner comes once no row of the other side
        can match it. Rows are kept longer: until the other side has passed their intervals.
        With `aggs`, rows come in order for either value.
        """,
        default="True",
    ),
    Option(
        "ordered",
        "bool",
        ("WindowJoin",),
        """
        Whether results come in the order that is said above. A pair then waits until no source
        can bring an earlier row. If not, and windows are of time and `algorithm` is `auto`, a
        pair comes in the first poll after both of its rows were pushed, whatever the lateness
        and the other sources: the same rows, in an order that depends on the pushes. A row
        without a partner comes once no row of the other side can match it. Rows are kept
        longer: until the other side has passed their windows. Windows of rows and the other
        algorithms go by merged order, so that pairs wait; the pairs of rows that are joined at
        once then come in any order. With `aggs`, rows come in order for either value.
        """,
        default="True",
    ),
    Option(
        "ordered",
        "bool",
        ("BandJoin",),
        """
        Whether results come in the order that is said above. A pair then waits until no source
        can bring an earlier row. If not, and windows are of time and `algorithm` is `auto`, a
        pair comes in the first poll after both of its rows were pushed, whatever the lateness
        and the other sources: the same rows, in an order that depends on the pushes. A row
        without a partner comes once no row of the other side can match it. Rows are kept
        longer: until the other side has passed their windows. Windows of rows and the other
        algorithms go by merged order, so that pairs wait; the pairs of rows that are joined at
        once then come in any order. So does a join of one stream with itself. With `aggs`, rows
        come in order for either value.
        """,
        default="True",
    ),
    Option(
        "pin",
        "bool | None",
        (*OPERATORS,),
        """
        Whether each worker thread of the operator is pinned to one processor. Pinning helps if
        nothing else needs the processors; otherwise, it slows the operator down. Each operator
        starts with a different processor. The thread that calls the operator is not pinned. If
        an aggregate is a Python function, no threads are pinned. By default, only the threads
        of a `WindowJoin` with `scalejoin-gates` are pinned.
        """,
        default="None",
    ),
    Option(
        "digest",
        "bool",
        (*OPERATORS, "Merge", "Aggregate"),
        """
        Whether `digest()` tells the digest of the results. Each batch is then hashed before it
        is handed out.
        """,
        default="False",
    ),
    Option(
        "partitions",
        "int | None",
        ("spark.interval_join", "spark.window_join", "spark.band_join", "spark.asof_join"),
        """
        The number of partitions. By default, it depends on the number of cores and rows. A side
        that is not shuffled keeps its partitions, up to this number. For streams, this is the
        number of buckets that keys are divided into: by default, the value of
        `spark.sql.shuffle.partitions`, but at most 64. A restarted query must use the same
        number.
        """,
        default="None",
    ),
    Option(
        "partitions",
        "int | None",
        ("spark.overlap_join",),
        """
        The number of partitions. By default, it depends on the number of cores and rows. A side
        that is not shuffled keeps its partitions, up to this number.
        """,
        default="None",
    ),
    Option(
        "parallelism",
        "Literal['auto', 'bins', 'broadcast', 'key', 'time', 'hybrid']",
        ("spark.interval_join", "spark.window_join"),
        """
        How the rows are divided. `broadcast`: one side is read at once and sent whole to every
        task, however large. This is useful if Spark cannot tell that the side is small, as
        after a filter. `key`: buckets of keys; nothing is sampled, and one heavy key makes one
        heavy task. Sides that are partitioned by keys already stay as they are. `time`: slices
        of time, with copies of the rows near a border. `hybrid`: buckets of keys; heavy keys
        are cut by time. `bins`: Spark's own join of equal keys and bins of time, so that no row
        goes to Python. A sample gives the width of the bins. It is for tables and intervals
        with two ends, not for full joins, and not with `where`, `aggs` or `then`. `auto` of
        tables takes the form that costs least by a model, which `explain` shows: `broadcast` if
        a side is small, `bins` if these are clearly cheaper, the partitions of both sides if
        these have all rows of a key and are even, or the division whose fullest partition is
        smallest. Rows are sampled unless a side is small and the other forms would cost more
        without a sample, or files tell that rows are few, or that bins do not cost clearly
        more. Streams: `key` divides them by key alone. `time` deals slices of time to the
        buckets in turn, which spreads the rows of a heavy key, and copies the rows near a
        border. `auto` is `key` with `by`, else `time`. `hybrid` begins each key's turn at
        another bucket. Neither `time` nor `hybrid` is for intervals without an end. Without
        `by`, such a join is one bucket, which is one task.
        """,
        default="'auto'",
    ),
    Option(
        "parallelism",
        "Literal['auto', 'broadcast', 'key', 'value', 'hybrid']",
        ("spark.band_join",),
        """
        How the rows are divided. `broadcast`: one side is read at once and sent whole to every
        task, however large. This is useful if Spark cannot tell that the side is small, as
        after a filter. `key`: buckets of keys; nothing is sampled, and one heavy key makes one
        heavy task. Sides that are partitioned by keys already stay as they are. `value`: slices
        of values, with copies of the rows near a border. `hybrid`: buckets of keys; heavy keys
        are cut by value. A value with more rows than a partition should have is divided
        further: by a hash of the rows of one side, with copies of the other side's rows. In a
        full join it is not, since neither side can be copied alone. `auto`: `broadcast` if a
        side is small, otherwise the division whose fullest partition is smallest in a sample.
        Streams: `key` divides them by key alone. `value` deals slices of values to the buckets
        in turn, which spreads the rows of a heavy key, and copies the rows near a border.
        `auto` is `key` with `by`, else `value`. `hybrid` begins each key's turn at another
        bucket. Neither `value` nor `hybrid` is for bands without an end. Without `by`, such a
        join is one bucket, which is one task.
        """,
        default="'auto'",
    ),
    Option(
        "parallelism",
        "Literal['auto', 'broadcast', 'key', 'time', 'hybrid']",
        ("spark.asof_join",),
        """
        How the rows are divided. `broadcast`: the right side is read at once and sent whole to
        every task, however large. This is useful if Spark cannot tell that the side is small,
        as after a filter. `key`: buckets of keys; nothing is sampled, and one heavy key makes
        one heavy task. Sides that are partitioned by keys already stay as they are. `time`:
        slices of time. Of the right rows outside a slice, it gets the nearest of each key: from
        each task that reads right rows, at most one row before the slice and one after it.
        `hybrid`: buckets of keys; heavy keys are cut by time. `auto`: `broadcast` if the right
        side is small, otherwise the partitions of both sides if these have all rows of a key
        and are even, or the division whose fullest partition is smallest in a sample; without
        `by`, slices of time. Streams: `key` divides them by key alone. `time` deals slices of
        time to the buckets in turn, and copies all right rows within `tolerance` of a slice.
        `hybrid` begins each key's turn at another bucket. Both need a tolerance. `auto` is
        `key` with `by`, else `time`. With neither `by` nor `tolerance`, the join is one bucket,
        which is one task.
        """,
        default="'auto'",
    ),
    Option(
        "parallelism",
        "Literal['auto', 'broadcast', 'key', 'time', 'hybrid']",
        ("spark.overlap_join",),
        """
        How the rows are divided. `broadcast`: one side is read at once and sent whole to every
        task, however large. This is useful if Spark cannot tell that the side is small, as
        after a filter. `key`: buckets of keys; nothing is sampled, and one heavy key makes one
        heavy task. Sides that are partitioned by keys already stay as they are. `time`: slices
        of time. Rows go to each slice that they may have partners in. `hybrid`: buckets of
        keys; heavy keys are cut by time. `auto` takes the form that costs least by a model,
        which `explain` shows: `broadcast` if a side is small, the partitions of both sides if
        these have all rows of a key and are even, or the division whose fullest partition is
        smallest. Rows are sampled unless a side is small and the other forms would cost more
        without a sample, or files tell that rows are few.
        """,
        default="'auto'",
    ),
    Option(
        "late_as",
        "str | None",
        ("spark.interval_join", "spark.window_join", "spark.band_join", "spark.asof_join"),
        """
        For streams: the name of a further column of the result. In a result it is null. In a
        late row it is `left` or `right`, the side of the row, and the columns of the other side
        are null. Without it, late rows are dropped.
        """,
        default="None",
    ),
    Option(
        "then",
        "Then | None",
        (*ON_SPARK,),
        """
        A function that takes every `pyarrow.RecordBatch` of the result inside the same call,
        and returns another, or a `pyarrow.Table`. It sees some of the rows at a time, so an
        aggregate must be finished by a `groupBy` of its partial results.
        """,
        default="None",
    ),
    Option(
        "then_schema",
        "StructType | str | None",
        (*ON_SPARK,),
        """
        The Spark schema of what `then` returns, as a `StructType` or text such as `"origin
        string, flights bigint"`.
        """,
        default="None",
    ),
)

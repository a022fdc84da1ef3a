"""Errors that show what to write instead of unknown or unsupported arguments.

Other libraries use different names for the same arguments. In tidegate, each argument has only one
name, so a call that uses a name from another library is rejected. The error shows the caller's
values under the correct name. Spark DataFrames can also be exported as Arrow data, but Spark's
driver would first have to collect all of their rows. Spark DataFrames are therefore rejected before
any data is requested.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from tidegate import _tidegate
from tidegate.calls.listed_windows import windows_table
from tidegate.calls.remedies import with_remedy
from tidegate.feature_views import FeatureView

Function = TypeVar("Function", bound=Callable[..., Any])
Given = Mapping[str, Any]

# Argument names in other libraries, with the equivalent names here.
SAME = {
    "direction": "strategy",
    "index_column": "on",
    "time_column": "on",
    "timestamp": "on",
    "ts": "on",
    "key": "by",
    "keys": "by",
    "by_keys": "by",
    "group_by": "by",
    "groupby": "by",
    "partition_by": "by",
    "condition": "where",
    "filter": "where",
    "predicate": "where",
    "aggregations": "aggs",
    "agg": "aggs",
    "select": "columns",
    "freq": "size",
    "rule": "size",
    "interval": "size",
    "bucket": "size",
    "window": "size",
    "windowDuration": "size",
    "window_duration": "size",
    "offset_by": "offset",
    "slideDuration": "advance",
    "slide_duration": "advance",
    "gapDuration": "session",
    "gap_duration": "session",
    "max_gap": "session",
    "hop": "advance",
    "slide": "advance",
    "width": "size",
    "window_size": "size",
    "gap": "session",
    "timeout": "session",
    "tolerance": "within",
    "tables": "streams",
    "n_jobs": "threads",
    "n_threads": "threads",
    "num_threads": "threads",
    "workers": "threads",
    "batch_size": "batch_rows",
    "chunk_size": "batch_rows",
    "limit": "max_rows",
    "max_memory": "memory_limit",
    "memory_budget": "memory_limit",
    "start": "first",
    "start_date": "first",
    "end": "last",
    "end_date": "last",
    "open": "opens",
    "close": "closes",
    "tz": "zone",
    "timezone": "zone",
}
# Names of distances that end or begin at a row, for joins with a lower and an upper bound.
BEFORE = {"before", "lookback", "look_back", "preceding", "back"}
AFTER = {"after", "lookahead", "look_ahead", "following", "forward"}
AROUND = {"tolerance", "within", "window", "delta", "max_gap", "max_distance", "radius"}
# Names of a pair of bounds.
BOUNDS = {"window", "range", "bounds", "between", "interval"}
# Arguments that tidegate does not have, with the way to get the same result.
NOTES = {
    "left_index": "a named index is a column, so write on='<the name of the index>'",
    "right_index": "a named index is a column, so write on='<the name of the index>'",
    "index": "a named index is a column, so write its name",
    "origin": "windows are aligned to the epoch; shift them with offset",
    "start_by": "windows are aligned to the epoch; shift them with offset",
    "label": "the result has both window_start and window_end",
    "closed": "windows contain their starts; in calls to tidegate.aggregate, closed='right' makes "
    "them contain their ends instead",
    "unit": "an operator's sources accept push(rows, unit=...)",
    "open_ends": "an operator cannot keep rows without an end forever; replace nulls before rows "
    "are pushed or, in an interval join, in a bound, as in upper=tidegate.left.end.coalesce(...)",
    "at": "only asof_join, called on tables, looks up matches at offsets; IntervalJoin with "
    "aggs={'price_10s': tidegate.agg.last('price', lower='10s', upper='10s', prevailing=True)} "
    "returns the same values",
    "n": "only asof_join, called on tables, returns several matches as lists; IntervalJoin with "
    "aggs={'prices': tidegate.agg.last('price', 3)} returns the same values",
    "limit": "only interval_join, called on tables, limits the pairs of a row; "
    "aggs={'prices': tidegate.agg.first('price', 3)} returns lists of the first values",
    "sort": "results are always in the order that the documentation states",
    "validate": "check keys with aggregate and count() before the join",
    "indicator": "write how='anti' for the unmatched rows",
    "min_periods": "every row has a result; add tidegate.agg.count() to count each window's rows",
    "min_samples": "every row has a result; add tidegate.agg.count() to count each window's rows",
    "center": "a window ends at its row; for rows on both sides, join the table with itself by "
    "interval_join(table, table, lower=..., upper=..., aggs=...)",
    "dropna": "a null key is a group in aggregate, and matches nothing in a join",
}
# Names of a number of rows in calls of `rolling`.
COUNTS = {"rows", "window", "window_size"}
# The maximum length of a value in a message.
SHOWN = 60


def told(function: Function) -> Function:
    """Wrap a function so that its error for an unknown argument shows what to write instead.

    Spark DataFrames are rejected before any rows are requested, except in `tidegate.spark`.

    Example:
        >>> import tidegate as tg
        >>> tg.asof_join([], [], left_on="ts", right_on="time")
        Traceback (most recent call last):
        TypeError: asof_join() has no argument left_on or right_on; write on=('ts', 'time')
    """
    is_of_spark = function.__module__.startswith("tidegate.spark")

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as for the function
        if not is_of_spark:
            check_collected(function, given, named)
        try:
            return function(*given, **named)
        except (TypeError, ValueError) as raised:
            error = (
                of_unknown(function, given, named)
                or _of_column(named)
                or with_remedy(raised, function.__name__, _inputs(function, given, named))
            )
            if error is None:
                raise
        raise error

    if not is_of_spark:
        # The function can be pickled by name, because it is an attribute of the package.
        call.__module__ = "tidegate"
    return call  # type: ignore[return-value]


def _inputs(function: Callable[..., Any], given: tuple[Any, ...], named: Given) -> dict[str, Any]:
    """Return the inputs of a call by name."""
    names = inspect.signature(function).parameters
    return dict(zip(names, given, strict=False)) | dict(named)


def told_class(kind: type) -> type:
    """Wrap a class so that its error for an unknown argument shows what to write instead.

    Example:
        >>> import pyarrow as pa, tidegate as tg
        >>> tg.IntervalJoin(pa.schema([]), pa.schema([]), on="ts", tolerance="5s")
        Traceback (most recent call last):
        TypeError: IntervalJoin() has no argument tolerance; write lower='-5s', upper='5s'
    """
    # If `right` is None, a band join matches rows from the left sources with each other.
    lacking = "right" if kind is _tidegate.BandJoin else None

    def new(cls: type, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as for the class
        check_collected(kind, given, named)
        names = _parameters(kind)
        by_place = dict(zip(names, given, strict=False))
        schemas = {
            name: one if name == lacking and one is None else _with_schema(name, one)
            for name, one in {**by_place, **named}.items()
            if name in SCHEMAS
        }
        given = (*(schemas.get(name, one) for name, one in by_place.items()), *given[len(names) :])
        named |= {name: schemas[name] for name in SCHEMAS & named.keys()}
        if "windows" in named and kind is _tidegate.Aggregate:
            named["windows"] = windows_table(named["windows"])
        try:
            return kind.__new__(cls, *given, **named)
        except (TypeError, ValueError) as raised:
            inputs = dict(zip(names, given, strict=False)) | named
            error = of_unknown(kind, given, named) or with_remedy(raised, kind.__name__, inputs)
            if error is None:
                raise
        raise error

    def refuse(_cls: type, /, **_named: object) -> None:
        message = f"type 'tidegate.{kind.__name__}' is not an acceptable base type"
        raise TypeError(message)

    members = {
        "__new__": new,
        "__init_subclass__": classmethod(refuse),
        "__slots__": (),
        "__doc__": kind.__doc__,
        "__module__": kind.__module__,
        "__wrapped__": kind,
    }
    return type(kind.__name__, (kind,), members)


def told_new(new: Function) -> Function:
    """Wrap a class's `__new__` so that unknown arguments and Spark DataFrames are rejected.

    Example:
        >>> import tidegate as tg
        >>> tg.Index([], timestamp="ts")
        Traceback (most recent call last):
        TypeError: Index() has no argument timestamp; write on='ts'
    """

    @functools.wraps(new)
    def make(cls: type, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as for the class
        check_collected(cls, given, named)
        try:
            return new(cls, *given, **named)
        except (TypeError, ValueError) as raised:
            inputs = dict(zip(_parameters(cls), given, strict=False)) | named
            error = of_unknown(cls, given, named) or with_remedy(raised, cls.__name__, inputs)
            if error is None:
                raise
        raise error

    return make  # type: ignore[return-value]


# Reading the signature of a native class takes longer than creating an operator.
@functools.cache
def _parameters(kind: type) -> tuple[str, ...]:
    return tuple(inspect.signature(kind).parameters)


# The arguments of classes that accept a schema, or data that has one.
SCHEMAS = {"left", "right", "schema"}


def _with_schema(name: str, given: object) -> object:
    """Open any files, and return an object from which the native class can read the schema."""
    if hasattr(given, "__arrow_c_schema__") or _tidegate.is_arrow(given):
        return given
    if isinstance(given, Mapping) and given and not any(map(_is_column, given.values())):
        message = f"{name}: expected a schema or data, got a dict of types; write pyarrow.schema("
        message += "{'ts': pyarrow.timestamp('us', 'UTC'), 'price': pyarrow.float64()})"
        raise TypeError(message)
    # Imported late, because it imports pyarrow.
    from tidegate.calls.inputs import schema_of  # noqa: PLC0415

    opened: object = schema_of(name, given).schema
    return opened


def _is_column(value: object) -> bool:
    """Return whether a value could contain a column's values, rather than name its type."""
    return hasattr(value, "__len__") and not isinstance(value, str | type)


FRAMES = ("Spark", "pandas-on-Spark")

# Functions that `tidegate.spark` also provides.
ON_SPARK = (
    "aggregate",
    "asof_join",
    "band_join",
    "features",
    "interval_join",
    "overlap_join",
    "rolling",
    "window_join",
)


def check_collected(function: Callable[..., Any], given: tuple[Any, ...], named: Given) -> None:
    """Reject Spark DataFrames that are passed to a function or a class."""
    values = [*given, *named.values()]
    for number, value in enumerate(values):
        listed = value if isinstance(value, list | tuple) else [value]
        if isinstance(value, Mapping):
            listed = [one.table for one in value.values() if isinstance(one, FeatureView)]
        kinds = [kind for one in listed if (kind := _of_spark(one)) in FRAMES]
        if kinds:
            names = [*list(inspect.signature(function).parameters)[: len(given)], *named]
            message = f"{names[number]}: {_instead(function.__name__, kinds[0])}"
            raise TypeError(message)


def _instead(name: str, kind: str) -> str:
    """Return an error message that names the call to use for this kind of DataFrame."""
    message = f"a {kind} DataFrame would be collected on the driver; "
    of_spark = "to_spark()." if kind == "pandas-on-Spark" else ""
    line = name.removesuffix("_batches")
    if line in ON_SPARK:
        frames = f"its {of_spark[:-1]}" if of_spark else "it"
        return f"{message}write tidegate.spark.{line}(...) with {frames}"
    if line in ("join_all", "Step"):
        return f"{message}call the function of each step in tidegate.spark, one after the other"
    if name[0].isupper() and name != "Index":
        return f"{message}give the schema alone, its {of_spark}limit(0).toArrow().schema"
    return f"{message}if it is small, give its {of_spark}toArrow()"


def _of_spark(value: object) -> str | None:
    """Return the kind of a Spark value (`Spark`, `pandas-on-Spark` or `Column`), or None.

    Only the name of the value's type is checked, so PySpark does not have to be installed.
    """
    for kind in type(value).__mro__:
        room, _, rest = kind.__module__.partition(".")
        if room != "pyspark":
            continue
        if rest.startswith("pandas"):
            return "pandas-on-Spark"
        return {"DataFrame": "Spark", "Column": "Column"}.get(kind.__name__)
    return None


def _of_column(named: Given) -> TypeError | None:
    """Return an error if a rejected call has a Spark Column among its arguments, else None."""
    for name, value in named.items():
        several = value.values() if isinstance(value, Mapping) else value
        listed = several if isinstance(several, list | tuple) else [several]
        if any(_of_spark(one) == "Column" for one in [*listed]):
            message = f"{name}: only Spark can evaluate a Spark Column; write "
            return TypeError(message + COLUMN_INSTEAD.get(name, "a Python value"))
    return None


# What to write instead of a Spark Column.
COLUMN_INSTEAD = {
    "on": "the name of a column",
    "by": "the name of a column",
    "time": "the name of a column",
    "columns": "the names of columns",
    "lower": "a duration such as '-5s', or a column such as 'left.opened'",
    "upper": "a duration such as '5s', or a column such as 'left.closed'",
    "where": "the condition, as SQL text or built from tidegate.left and tidegate.right",
    "aggs": "a function of tidegate.agg, such as tidegate.agg.sum('price')",
    "tolerance": "a duration such as '5s'",
    "within": "a number",
    "window": "a duration such as '5s'",
    "size": "a duration such as '5s'",
    "advance": "a duration such as '5s'",
    "session": "a duration such as '5s', or a column such as 'row.gap'",
}


def of_unknown(
    function: Callable[..., Any], given: tuple[Any, ...], named: Given
) -> TypeError | None:
    """Return an error if a rejected call has unknown arguments, else None."""
    known = inspect.signature(function).parameters
    unknown = [name for name in named if name not in known]
    name = function.__name__
    if not unknown and len(given) > 1 and "streams" in known:
        message = f"{name}() accepts its streams as one list; write {name}([first, second, ...])"
        return TypeError(message)
    if not unknown:
        return _of_positions(name, known, given, named)
    message = f"{name}() has no argument {' or '.join(unknown)}; "
    return TypeError(message + _advice(name, list(known), unknown, named))


def _of_positions(
    name: str, known: Mapping[str, inspect.Parameter], given: tuple[Any, ...], named: Given
) -> TypeError | None:
    """Return an error if arguments that need a name were given without it, else None."""
    inputs = [one.name for one in known.values() if one.kind is not one.KEYWORD_ONLY]
    rest = [one for one in known if one not in inputs and one not in named]
    unnamed = given[len(inputs) :]
    inputs = [one for one in inputs if one != "self"]
    if not unnamed or any(one.kind is one.VAR_POSITIONAL for one in known.values()):
        return None
    written = ", ".join(
        f"{argument}={_shown(value)}" for argument, value in zip(rest, unnamed, strict=False)
    )
    only = f"only {' and '.join(inputs)}" if inputs else "no arguments"
    message = f"{name}() takes {only} without a name, but got {len(unnamed)} more; write {written}"
    return TypeError(message)


def _advice(function: str, known: list[str], unknown: list[str], named: Given) -> str:
    """Return advice on what to write instead of the unknown arguments."""
    wanted = {name: named[name] for name in unknown}
    lines, rest = _of_pairs(known, wanted)
    notes = []
    for name in rest:
        line, note = _of_one(function, known, name, wanted[name])
        lines += [line] if line else []
        notes += [note] if note else []
    written = [f"write {', '.join(lines)}"] if lines else []
    return "; ".join(dict.fromkeys(written + notes))


def _of_pairs(known: list[str], wanted: Given) -> tuple[list[str], list[str]]:
    """Return advice on `every` and on names such as `left_on`, and a list of all other names."""
    lines = []
    done = set()
    for left, right, argument in (("left_on", "right_on", "on"), ("left_by", "right_by", "by")):
        if argument in known and (left in wanted or right in wanted):
            done |= {left, right}
            lines.append(f"{argument}={_sides(argument, wanted.get(left), wanted.get(right))}")
    if "size" in known and "every" in wanted:
        done |= {"every", "period"}
        lines.append(f"size={_shown(wanted.get('period', wanted['every']))}")
        lines += [f"advance={_shown(wanted['every'])}"] if "period" in wanted else []
    return lines, [name for name in wanted if name not in done]


def _sides(argument: str, left: object, right: object) -> str:
    """Return the value of `on` or `by` that combines the names for both sides."""
    lefts, rights = _names(left), _names(right)
    lefts = lefts or ["<the left name>"] * len(rights)
    rights = rights or ["<the right name>"] * len(lefts)
    pairs = zip(lefts, rights, strict=False)
    items = [one if one == other else (one, other) for one, other in pairs]
    return _shown(items[0] if argument == "on" and len(items) == 1 else items)


def _names(side: Any) -> list[Any]:  # noqa: ANN401 - any value
    """Return one side's names, or an empty list if there are none."""
    if side is None:
        return []
    return list(side) if isinstance(side, list | tuple) else [side]


def _of_one(function: str, known: list[str], name: str, value: Any) -> tuple[str, str]:  # noqa: ANN401, C901, PLR0911 - any value, a kind of advice a return
    """Return what to write for an argument, and a note about it."""
    if "lower" in known and (line := _bounds(name, value)):
        return line, ""
    if name in BEFORE | AFTER | AROUND and "tolerance" in known:
        return f"tolerance={_shown(value)}", ""
    if name in {"tolerance", "within"} and "window" in known and "within" not in known:
        return f"window={_shown(value)}", ""
    if name == "allow_exact_matches" and "closed" in known and not value:
        return "closed='neither'", "this excludes the ends of the interval"
    if name in {"direction", "strategy", "allow_exact_matches"} and "strategy" not in known:
        advice = f"asof_join returns the row nearest in time; {function}, all rows within reach"
        return "", advice
    if name == "period" and "size" in known:
        return f"size={_shown(value)}", ""
    if name == "suffixes" and "suffix" in known and isinstance(value, list | tuple) and value:
        advice = "right columns get this suffix if the left side has the same name"
        return f"suffix={_shown(value[-1])}", advice
    if function.startswith("rolling") and name in COUNTS and isinstance(value, int):
        return f"size=tidegate.rows({value})", "an integer as size is a length of time"
    if SAME.get(name) in known:
        return f"{SAME[name]}={_shown(value)}", ""
    if name in NOTES:
        return "", NOTES[name]
    if near := get_close_matches(name, known, 1):
        return "", f"did you mean {near[0]}?"
    return "", f"its arguments are {', '.join(known)}"


def _bounds(name: str, value: Any) -> str:  # noqa: ANN401 - any value
    """Return the interval join bounds for a distance argument of another library."""
    if name in BOUNDS and isinstance(value, list | tuple) and len(value) == 2:  # noqa: PLR2004 - both ends
        return f"lower={_shown(value[0])}, upper={_shown(value[1])}"
    lower, upper = _negative(value), _positive(value)
    if name in BEFORE:
        return f"lower={lower}"
    if name in AFTER:
        return f"upper={upper}"
    return f"lower={lower}, upper={upper}" if name in AROUND else ""


def _positive(value: Any) -> str:  # noqa: ANN401 - any value
    """Return a distance as the end of an interval."""
    return _shown(value.removeprefix("-") if isinstance(value, str) else value)


def _negative(value: Any) -> str:  # noqa: ANN401 - any value
    """Return a distance as the start of an interval."""
    if value is None:
        return "None"
    if isinstance(value, str):
        return _shown(f"-{value.removeprefix('-')}")
    shown = _shown(value)
    return shown.removeprefix("-") if shown.startswith("-") else f"-{shown}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

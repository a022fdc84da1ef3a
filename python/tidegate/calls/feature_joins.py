"""Joins labels with each view of `features`, and assembles the results.

Labels in memory are read once, and each join returns only the columns that it adds. With a memory
limit, each join instead passes its result on to the next join, batch by batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidegate import SchemaError, TidegateError, _tidegate, agg
from tidegate.agg import Aggregate
from tidegate.bounded import results
from tidegate.calls import epochs, functions
from tidegate.calls.distinct import check_streams
from tidegate.calls.inputs import OpenTable, columns_of, read_table, schema_of
from tidegate.calls.merges import UNIT_OF_WHOLE
from tidegate.expressions import Expr, left, right
from tidegate.feature_views import FeatureView

if TYPE_CHECKING:
    from tidegate._tidegate import BatchReader
    from tidegate.types import JoinStats

SUFFIX = "\x1fright"
"""The suffix of event columns whose names are also those of label columns."""

CLOSED_WITH_UPPER = {"both": "both", "left": "both", "right": "right", "neither": "right"}
"""The same lower end, with the upper end included."""


@dataclass(frozen=True)
class ViewJoin:
    """The interval join that computes the features of one view.

    Args:
        view: The name of the view.
        table: The events.
        arguments: The arguments of the join, except for its inputs. The keys of `aggs` are the
            names of the result columns.
        matched: The columns of events by feature, for features that are also the values of an as-of
            match. An as-of join does not test all earlier events if it has a condition.
    """

    view: str
    table: Any
    arguments: dict[str, Any]
    matched: dict[str, str]

    @property
    def features(self) -> list[str]:
        """The columns that the join adds."""
        return [*self.arguments["aggs"]]


@dataclass(frozen=True)
class Call:
    """The arguments of a call that apply to all views."""

    on: Any
    by: Any
    names: str


def check_views(views: Any) -> None:  # noqa: ANN401 - any argument
    """Check that `views` maps names to views."""
    if not isinstance(views, Mapping) or not views:
        message = "views: expected a mapping of names to tidegate.FeatureView(...), "
        message += (
            f"got {'an empty mapping' if isinstance(views, Mapping) else type(views).__name__}"
        )
        raise TypeError(message)
    for name, view in views.items():
        if not isinstance(view, FeatureView):
            message = f"views: expected tidegate.FeatureView(...) for {name!r}, "
            message += f"got {type(view).__name__}"
            raise TypeError(message)


def _check_inputs(given: Mapping[str, Any]) -> None:
    """Check the arguments that can be checked before any input is read."""
    check_views(given["views"])
    tables = {f"views[{name!r}]": view.table for name, view in given["views"].items()}
    check_streams([given["labels"], *tables.values()], ["labels", *tables])


def kept(columns: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """Return the columns of the labels in the result, given the names of all columns.

    Raises:
        SchemaError: The labels have no such column.
        TypeError: A single name is given instead of a list.
    """
    if isinstance(columns, str):
        message = f"columns: expected a list of names; write [{columns!r}]"
        raise TypeError(message)
    found = list(names if columns is None else columns)
    if missing := [name for name in found if name not in names]:
        message = f"labels: there is no column `{missing[0]}`, which `columns` names; it has "
        message += ", ".join(f"`{name}`" for name in names)
        raise SchemaError(message)
    return found


def planned(
    labels: Any,  # noqa: ANN401 - a schema or an input
    views: Mapping[str, FeatureView],
    call: Call,
) -> list[ViewJoin]:
    """Return the join for each view.

    Args:
        labels: The labels or their schema, or an open table.
        views: The views by name.
        call: The arguments that apply to all views.

    Raises:
        TidegateError: A view is not valid for these labels; the message names the view.
        TypeError: A view has the wrong type.
    """
    check_views(views)
    known = {*_names_of(labels)}
    steps = []
    for name, view in views.items():
        with Named(name):
            step = _step(name, view, labels, call)
            for feature in step.features:
                if feature in known:
                    message = f"there is already a column {feature!r}; use another names= pattern"
                    raise TidegateError(message)
                known.add(feature)
        steps.append(step)
    return steps


def table(arguments: dict[str, Any]) -> pa.Table:
    """Compute the features of all labels; `arguments` maps names to the arguments of the call."""
    given = arguments
    _check_inputs(given)
    if given["memory_limit"] is not None or given["lateness"] is not None:
        found: pa.Table = _in_turn(given, functions.interval_join)
        return found
    if given["unit"] is not None:
        given = with_times(given)
    rows = read_table("labels", given["labels"])
    call = Call(given["on"], given["by"], given["names"])
    steps = planned(rows, given["views"], call)
    return joined(rows, steps, call, given["columns"], given["threads"])


def with_times(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with timestamps in place of numeric times."""
    on, views = given["on"], given["views"]
    check_views(views)
    inputs, columns = {"labels": given["labels"]}, {"labels": [on]}
    for name, view in views.items():
        inputs[name] = view.table
        columns[name] = [on if view.on is None else view.on]
    wanted = {name: [one for one in own if isinstance(one, str)] for name, own in columns.items()}
    labels, *tables = epochs.converted(inputs, wanted, given["unit"])
    of_views = zip(views.items(), tables, strict=True)
    found = {name: replace(view, table=table) for (name, view), table in of_views}
    return {**given, "labels": labels, "views": found, "unit": None}


def joined(
    rows: pa.Table,
    steps: Sequence[ViewJoin],
    call: Call,
    columns: Sequence[str] | None,
    threads: int | None,
) -> pa.Table:
    """Join the labels with each view, and return the labels with the features of all views."""
    result = rows if columns is None else rows.select(kept(columns, rows.column_names))
    read = _read(rows, steps, call)
    for step in steps:
        with Named(step.view):
            found = _features(read, step, threads)
        for name in step.features:
            result = result.append_column(found.schema.field(name), found[name])
    return result


def _features(labels: pa.Table, step: ViewJoin, threads: int | None) -> pa.Table:
    """Return only the features of a view, in the order of the labels."""
    arguments = dict(step.arguments)
    aggs = {name: one for name, one in arguments.pop("aggs").items() if name not in step.matched}
    parts = []
    if aggs:
        parts.append(
            functions.interval_join(
                labels, step.table, **arguments, aggs=aggs, columns=[], threads=threads
            )
        )
    if step.matched:
        names = {
            f"{column}{SUFFIX}" if column in labels.column_names else column: feature
            for feature, column in step.matched.items()
        }
        lower = arguments["lower"]
        matches = functions.asof_join(
            labels,
            step.table,
            on=arguments["on"],
            by=arguments["by"],
            where=arguments["where"],
            tolerance=None if lower is None else _negated(lower),
            suffix=SUFFIX,
            columns=[*names],
            threads=threads,
        )
        parts.append(matches.rename_columns([names[name] for name in matches.column_names]))
    columns = {name: part for part in parts for name in part.column_names}
    fields = [columns[name].schema.field(name) for name in step.features]
    return pa.table([columns[name][name] for name in step.features], schema=pa.schema(fields))


def batches(arguments: dict[str, Any]) -> BatchReader[JoinStats]:
    """Compute the features of all labels, batch by batch."""
    _check_inputs(arguments)
    if arguments["memory_limit"] is not None or arguments["lateness"] is not None:
        reader: BatchReader[JoinStats] = _in_turn(arguments, functions.interval_join_batches)
        return reader
    found = table(arguments)
    return _tidegate.reader_of(results.known(found.to_reader()), "features_batches")


def operators(arguments: dict[str, Any]) -> list[_tidegate.IntervalJoin]:
    """Return one join per view; the results of each join are the labels of the next one."""
    given = arguments
    of_labels, of_views = _lateness(given["lateness"])
    schema = columns_of(schema_of("labels", given["labels"]))
    kept(given["columns"], _names_of(schema))
    steps = planned(schema, given["views"], Call(given["on"], given["by"], given["names"]))
    found: list[_tidegate.IntervalJoin] = []
    for number, step in enumerate(steps):
        with Named(step.view):
            _check_final(step)
            join = functions.IntervalJoin(
                found[-1].schema if found else schema,
                step.table,
                **step.arguments,
                columns=_columns(given["columns"], steps, number),
                lateness=(None if found else of_labels, of_views),
                threads=given["threads"],
            )
        found.append(join)
    return found


def _columns(
    columns: Sequence[str] | None, steps: Sequence[ViewJoin], number: int
) -> list[str] | None:
    """Return the columns that a join returns; only the last one leaves out columns of labels."""
    if columns is None or number < len(steps) - 1:
        return None
    return [*columns, *(feature for step in steps[:-1] for feature in step.features)]


def _lateness(given: Any) -> tuple[Any, Any]:  # noqa: ANN401 - of any kind
    """Return the lateness of the labels and that of the events."""
    return given if isinstance(given, tuple) else (given, given)


def _check_final(step: ViewJoin) -> None:
    """Check that a stream's features are final at some time before its end."""
    for function in step.arguments["aggs"].values():
        upper = dict(function.interval).get("upper", step.arguments["upper"])
        if upper is None:
            message = "upper: without a bound, the features of a stream would be final only at the "
            message += "end of the stream; give upper, such as upper=0"
            raise TidegateError(message)


def _read(rows: pa.Table, steps: Sequence[ViewJoin], call: Call) -> pa.Table:
    """Return the columns of the labels that the joins read, because each join checks its inputs."""
    used = [call.on, *([call.by] if isinstance(call.by, str | Expr) else call.by or ())]
    for step in steps:
        own = step.arguments["by"]
        if isinstance(own, Mapping | list):
            used += [one[0] if isinstance(one, tuple) else one for one in own]
    are_columns = all(isinstance(name, str) and name in rows.column_names for name in used)
    is_part = are_columns and all(map(_reads_names, steps))
    return rows.select([*dict.fromkeys(used)]) if is_part else rows


def _reads_names(step: ViewJoin) -> bool:
    """Return whether a join reads only the labels' times and keys."""
    ends = (step.arguments["lower"], step.arguments["upper"])
    return step.arguments["where"] is None and not any(isinstance(end, Expr | str) for end in ends)


def _in_turn(given: Mapping[str, Any], last: Callable[..., Any]) -> Any:  # noqa: ANN401 - a result
    """Join the labels with each view in turn, batch by batch.

    The function `last` computes the last join, and its result is returned.
    """
    if given["unit"] is not None:
        raise TidegateError(UNIT_OF_WHOLE)
    of_labels, of_views = _lateness(given["lateness"])
    labels = schema_of("labels", given["labels"])
    kept(given["columns"], _names_of(labels))
    steps = planned(labels, given["views"], Call(given["on"], given["by"], given["names"]))
    limit = _tidegate.byte_count("memory_limit", given["memory_limit"])
    rows: Any = labels if isinstance(labels, OpenTable) else given["labels"]
    readers: list[BatchReader[JoinStats]] = []
    try:
        for number, step in enumerate(steps):
            is_last = number == len(steps) - 1
            join = last if is_last else functions.interval_join_batches
            with Named(step.view):
                rows = join(
                    rows,
                    step.table,
                    **step.arguments,
                    columns=_columns(given["columns"], steps, number),
                    threads=given["threads"],
                    memory_limit=None if limit is None else limit // len(steps),
                    lateness=(of_labels if number == 0 else 0, of_views),
                )
            readers += [] if is_last else [rows]
    except BaseException:
        for reader in reversed(readers):
            reader.close()
        raise
    return rows


class Named:
    """Adds the name of a view to errors."""

    def __init__(self, view: str) -> None:
        self._view = view

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TidegateError | TypeError) and len(error.args) == 1:
            message = f"views[{self._view!r}]: {error}"
            raise type(error)(message) from error.__cause__


def _names_of(labels: Any) -> list[str]:  # noqa: ANN401 - see `planned`
    schema = getattr(columns_of(labels), "schema", columns_of(labels))
    return list(pa.schema(schema).names)


def _step(name: str, view: FeatureView, labels: Any, call: Call) -> ViewJoin:  # noqa: ANN401 - see `planned`
    is_index = isinstance(view.table, _tidegate.Index)
    own = call.on if view.on is None else view.on
    if is_index and view.on is None:
        own = view.table.on
    arguments: dict[str, Any] = {
        "on": call.on if own is call.on else (call.on, own),
        "by": _keys(view.by, call.by),
        "lower": view.lower,
        "upper": view.upper,
        "closed": view.closed,
        "where": view.where,
    }
    has_delays = view.available_at is not None or isinstance(view.available_after, Expr)
    if has_delays:
        arguments["where"] = _with(view.where, _is_known(view, call.on, own))
    aggs = dict(view.aggs or {}) | {column: agg.last(column) for column in view.columns or ()}
    if view.available_after is not None and not has_delays:
        events = view.table if is_index else columns_of(schema_of("table", view.table))
        aggs = _delayed(aggs, arguments, view.available_after, (columns_of(labels), events))
    if arguments["where"] is None and view.lower is None:
        for column in view.columns or ():
            aggs[column] = _last_at_any_distance(aggs[column], arguments)
    features = {key: _named(call.names, name, key) for key in aggs}
    arguments["aggs"] = {features[key]: function for key, function in aggs.items()}
    matched = {features[column]: column for column in _matched(view, arguments)}
    return ViewJoin(name, view.table, arguments, matched)


def _matched(view: FeatureView, arguments: Mapping[str, Any]) -> Sequence[str]:
    """Return the columns of a view whose values an as-of join finds faster."""
    lower, delay = view.lower, view.available_after
    is_as_of = _is_zero(view.upper)
    # The text of an expression could be a bound, too.
    is_as_of &= lower.startswith("-") if isinstance(lower, str) else not isinstance(lower, Expr)
    # A constant delay moves the end of the interval.
    is_as_of &= delay is None or isinstance(delay, Expr)
    closed = {"both"} if view.lower is not None else {"both", "right"}
    if arguments["where"] is None or not is_as_of or view.closed not in closed:
        return ()
    # In an as-of join, the columns of shared keys are those of the labels.
    keys = arguments["by"]
    shared = {keys} if isinstance(keys, str) else {*(keys or ())}
    shared |= {one[1] for one in shared if isinstance(one, tuple)}
    return () if shared & {*(view.columns or ())} else view.columns or ()


def _is_zero(bound: Any) -> bool:  # noqa: ANN401 - a bound
    if isinstance(bound, str):
        return re.fullmatch(r"0 ?[a-z]+", bound) is not None
    return isinstance(bound, int | timedelta | np.timedelta64) and not bound


def _keys(of_view: Any, of_call: Any) -> Any:  # noqa: ANN401 - keys of any form
    """Return the pairs of key columns."""
    if of_view is None:
        return of_call
    if isinstance(of_view, Mapping):
        return of_view
    every = [of_view] if isinstance(of_view, str | Expr) else [*of_view]
    if not every:
        return None
    if any(isinstance(one, tuple) for one in every):
        return every
    own = [of_call] if isinstance(of_call, str | Expr) else [*(of_call or ())]
    if len(own) != len(every):
        message = f"by: {len(every)} key columns, but the call's own by has {len(own)}; "
        message += "give a mapping from label columns to event columns"
        raise TidegateError(message)
    return [*zip(own, every, strict=True)]


def _is_known(view: FeatureView, on: object, own: object) -> Expr:
    """Return the condition that an event is known at the time of the label."""
    if not isinstance(on, str) or not isinstance(own, str):
        message = "available_after and available_at need time columns, not expressions, in on"
        raise TidegateError(message)
    if view.available_at is not None:
        return right[view.available_at] <= left[on]
    delay = view.available_after
    assert isinstance(delay, Expr)  # noqa: S101 - otherwise, there is no condition
    return right[own] + delay <= left[on]


def _with(where: Expr | str | None, condition: Expr) -> Expr | str:
    """Return a condition combined with another one."""
    if where is None:
        return condition
    return where & condition if isinstance(where, Expr) else f"({where}) AND ({condition!r})"


def _delayed(
    aggs: Mapping[str, Aggregate],
    arguments: dict[str, Any],
    delay: Any,  # noqa: ANN401 - a bound
    schemas: tuple[Any, Any],
) -> dict[str, Aggregate]:
    """Return the functions with intervals that end no later than `delay` before the label."""
    latest = _negated(delay)

    def steps(bound: Any) -> int | None:  # noqa: ANN401 - a bound
        """Return a bound in the unit of the times; None for no bound."""
        if bound is None:
            return None
        query = _tidegate.interval_join_query(on=arguments["on"], lower=None, upper=bound)
        if query.row_ends[1]:
            message = "available_after: expected an interval whose ends are constants; give the "
            message += "delay as an expression, such as tidegate.right.delay"
            raise TidegateError(message)
        time: Any = query.plan(*schemas).time
        return int(time[1][1])

    try:
        last = steps(latest)
    except TidegateError as error:
        message = str(error).replace("upper", "available_after")
        raise type(error)(message) from None
    if last is None or last > 0:
        message = f"available_after: expected a duration of at least zero, got {delay!r}"
        raise TidegateError(message)
    found = {}
    for name, function in aggs.items():
        own: dict[str, Any] = {key: arguments[key] for key in ("lower", "upper", "closed")}
        own |= {"prevailing": False, **dict(function.interval)}
        end, start = steps(own["upper"]), steps(own["lower"])
        if end is None or end > last:
            own["upper"], own["closed"] = latest, CLOSED_WITH_UPPER[own["closed"]]
            if start is not None and start > last:
                # No event in the interval is known, so the interval is empty.
                own["lower"], own["closed"] = latest, "right"
        found[name] = replace(function, interval=tuple(own.items()))
    return found


def _negated(delay: Any) -> Any:  # noqa: ANN401 - a bound
    """Return the bound with the opposite sign."""
    if isinstance(delay, str):
        return delay.removeprefix("-") if delay.startswith("-") else f"-{delay}"
    if hasattr(delay, "nanos"):
        return np.timedelta64(-delay.nanos, "ns")
    return -delay


def _last_at_any_distance(function: Aggregate, arguments: Mapping[str, Any]) -> Aggregate:
    """Return a function for the same value that needs only one earlier event per key.

    The last event at any distance is the last one at the end of the interval, or the last one
    before it.
    """
    own = {key: arguments[key] for key in ("lower", "upper", "closed")} | dict(function.interval)
    if own["lower"] is not None or own["upper"] is None or isinstance(own["upper"], Expr):
        return function
    at = {"both": "both", "right": "both", "left": "left", "neither": "left"}[own["closed"]]
    interval = {"lower": own["upper"], "upper": own["upper"], "closed": at, "prevailing": True}
    return replace(function, interval=tuple(interval.items()))


def _named(names: str, view: str, name: str) -> str:
    try:
        found = names.format(view=view, name=name)
    except (KeyError, IndexError, ValueError, AttributeError):
        found = None
    if found is None or "{name}" not in names:
        message = f"names: expected a pattern with {{view}} and {{name}}, got {names!r}"
        raise TidegateError(message)
    return found

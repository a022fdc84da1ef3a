"""Adds columns computed from expressions to inputs, for arguments that name columns.

Native queries read keys and times from columns. If `on` or `by` contains an expression, the input
is read in full. The values of the expression become a column, which is not part of the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate import _tidegate
from tidegate.expressions import Expr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidegate.calls.inputs import Input

    Value = str | Expr
    Making = Callable[..., _tidegate.JoinQuery]

Query = TypeVar("Query", _tidegate.JoinQuery, _tidegate.RollingQuery)

# Joins whose `on` is a time column or a pair of time columns.
_ON_TIMES = (
    _tidegate.asof_join_query,
    _tidegate.interval_join_query,
    _tidegate.window_join_query,
)


def with_sides(
    making: Making,
    arguments: dict[str, Any],
    left: Any,  # noqa: ANN401 - any input
    right: Any,  # noqa: ANN401 - any input
    memory_limit: object,
) -> tuple[Any, Any, set[str]]:
    """Compute the expressions in `on` and `by` of a join, and replace them in the arguments.

    Returns:
        The inputs, and the names of their additional columns.
    """
    if not any(_may_be_computed(arguments.get(name)) for name in ("on", "by")):
        return left, right, set()
    given = {"by": _pairs(arguments.get("by"))}
    if making is _tidegate.band_join_query:
        given["on"] = _pairs(arguments["on"])
    elif making in _ON_TIMES:
        on = arguments["on"]
        given["on"] = [on if _is_pair(on) else (on, on)]
    given = {name: pairs for name, pairs in given.items() if _may_be_computed(pairs)}
    if not given or not all(_is_pair(pair) for pairs in given.values() for pair in pairs):
        return left, right, set()
    inputs = {"left": left, "right": right}
    values = [
        {name: [pair[side] for pair in pairs] for name, pairs in given.items()}
        for side in range(len(inputs))
    ]
    wanted = dict(zip(inputs, values, strict=True))
    found, names, more = _with_columns(inputs, wanted, arguments["threads"], memory_limit)
    if not more:
        return found["left"], found["right"], more
    for name in given:
        pairs = [*zip(names["left"][name], names["right"][name], strict=True)]
        arguments[name] = pairs[0] if name == "on" and making in _ON_TIMES else pairs
    return found["left"], found["right"], more


def with_streams(
    streams: Any,  # noqa: ANN401 - any streams
    arguments: dict[str, Any],
    memory_limit: object,
    name: str = "stream",
) -> tuple[Any, set[str]]:
    """Compute the expressions in `on` of an aggregation, or in `on` and `by` of rolling windows.

    Returns:
        The streams, and the names of their additional columns.
    """
    used = ("on", "by") if name == "table" else ("on",)
    asked = {one: _listed(arguments[one]) for one in used if _may_be_computed(arguments[one])}
    if not any(asked.values()):
        return streams, set()
    # Imported late, because it imports pyarrow.
    from tidegate.calls.inputs import listed, names  # noqa: PLC0415

    every = listed(streams)
    inputs = dict(zip(names(len(every), name), every, strict=True))
    wanted = dict.fromkeys(inputs, asked)
    found, columns, more = _with_columns(inputs, wanted, arguments["threads"], memory_limit)
    if more:
        of_first = columns[next(iter(inputs))]
        for one in asked:
            arguments[one] = of_first[one][0] if one == "on" else of_first[one]
    return [*found.values()], more


def without(query: Query, arguments: Mapping[str, Any], inputs: Any, more: set[str]) -> Query:  # noqa: ANN401 - schemas or inputs
    """Return the query without the additional columns in the result."""
    if not more or arguments.get("columns") is not None:
        return query
    plan = query.plan(*(_schemas(one) for one in inputs))
    # The columns of functions cannot be left out.
    left_out = more.union(arguments.get("aggs") or ())
    names = plan.schema.names
    # At several offsets, the names of right columns end with the offset.
    origins = plan.origins if isinstance(plan, _tidegate.JoinPlan) else [(None, None)] * len(names)
    of_each = zip(names, origins, strict=True)
    return query.replace(
        columns=[name for name, (_, right) in of_each if name not in left_out and right not in more]
    )


def _may_be_computed(given: object) -> bool:
    """Return whether an argument contains an expression, or a string that may be one."""
    if isinstance(given, str):
        return re.fullmatch(r"\w*", given) is None
    if isinstance(given, Mapping):
        return any(map(_may_be_computed, (*given, *given.values())))
    if isinstance(given, list | tuple):
        return any(map(_may_be_computed, given))
    return isinstance(given, Expr)


def _is_value(given: object) -> bool:
    return isinstance(given, str | Expr)


def _is_pair(given: object) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(map(_is_value, given))  # noqa: PLR2004 - a pair


def _listed(given: Any) -> list[Value]:  # noqa: ANN401 - any argument
    """Return columns as a list, or an empty list if the native query must reject the argument."""
    every = [given] if _is_value(given) else [*given] if isinstance(given, list | tuple) else []
    return every if all(map(_is_value, every)) else []


def _pairs(given: Any) -> list[Any]:  # noqa: ANN401 - any argument
    """Return columns as pairs of a left and a right one. Other values are returned unchanged."""
    if isinstance(given, Mapping):
        return [*given.items()]
    # A tuple could mean a pair or two columns, which the native query rejects.
    every = [given] if _is_value(given) else given if isinstance(given, list) else []
    return [(one, one) if _is_value(one) else one for one in every]


def _with_columns(
    inputs: Mapping[str, Any],
    wanted: Mapping[str, Mapping[str, list[Value]]],
    threads: int | None,
    memory_limit: object,
) -> tuple[dict[str, Any], dict[str, dict[str, list[str]]], set[str]]:
    """Return the inputs with the columns that expressions define.

    Args:
        inputs: The inputs by name.
        wanted: For each input, the columns and expressions of each argument.
        threads: The number of threads.
        memory_limit: The memory limit of the call.

    Returns:
        The inputs, the names of their columns by argument, and the names of additional columns.

    Raises:
        TidegateError: The call has a memory limit.
    """
    plain = {name: dict(given) for name, given in wanted.items()}
    values = [value for given in wanted.values() for every in given.values() for value in every]
    if memory_limit is not None:
        if not any(isinstance(value, Expr) for value in values):
            # A stream can be read only once, so its columns are not known yet.
            return dict(inputs), plain, set()  # type: ignore[return-value]
        raise _tidegate.TidegateError(OF_WHOLE)
    # Imported late, because it imports pyarrow.
    from tidegate.calls import inputs as reading  # noqa: PLC0415

    found = {name: _opened(name, one) for name, one in inputs.items()}
    known = {name: _columns(one) for name, one in found.items()}
    taken = {name for names in known.values() for name in names}
    more: set[str] = set()
    rows: dict[str, Any] = dict(found)
    names: dict[str, dict[str, list[str]]] = {}
    for name, given in wanted.items():
        if isinstance(found[name], _tidegate.Index):
            names[name] = {one: [*map(str, every)] for one, every in given.items()}
            continue
        names[name] = {}
        for argument, every in given.items():
            if _are_columns(every, known[name]):
                names[name][argument] = [*map(str, every)]
                continue
            table = rows[name]
            if isinstance(table, reading.OpenTable):
                table = reading.rows_of(name, table, table.schema.names)
            table, columns = _tidegate._with_computed(  # noqa: SLF001 - internal to the package
                table, name, argument, every, [*taken], threads
            )
            names[name][argument] = columns
            new = set(table.schema.names) - {*known[name]} - more
            known[name] = table.schema.names
            rows[name] = table
            more |= new
            # Streams are matched by the names of their columns.
            if "left" in inputs:
                taken |= new
    return rows, names, more


def _opened(name: str, given: Any) -> Input:  # noqa: ANN401 - any input
    """Return an input whose columns are known."""
    # Imported late, because it imports pyarrow.
    from tidegate.calls.inputs import opened  # noqa: PLC0415

    if isinstance(given, _tidegate.Index | _tidegate.InputRows):
        return given
    return _tidegate.InputRows(given, name) if _tidegate.is_arrow(given) else opened(name, given)


def _schemas(given: Any) -> Any:  # noqa: ANN401 - an input or a list of inputs
    """Return objects that provide the schemas of the inputs."""
    if isinstance(given, list):
        return [_schemas(one) for one in given]
    return given if _tidegate.is_arrow(given) else given.schema


def _columns(one: Any) -> list[str]:  # noqa: ANN401 - an opened input
    return [] if isinstance(one, _tidegate.Index) else [*one.schema.names]


def _are_columns(values: Iterable[Value], known: list[str]) -> bool:
    """Return whether all values are names of columns, or names that the native query reports."""
    return all(
        isinstance(value, str) and (value in known or not _may_be_computed(value))
        for value in values
    )


OF_WHOLE = (
    "on and by: inputs are read in full to compute expressions, so memory_limit has no effect; "
    "leave memory_limit out, or write the values to a column of the files"
)

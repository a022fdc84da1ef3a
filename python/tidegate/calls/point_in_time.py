"""Checks that features do not depend on events that were not known at the time of their label."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidegate._tidegate import SchemaError, TidegateError
from tidegate.calls.arguments import told
from tidegate.deferred import Deferred
from tidegate.types import Table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    np = Deferred("numpy")
    pa = Deferred("pyarrow")
    pc = Deferred("pyarrow.compute")

INDEX = re.compile(r"__index_level_\d+__")
"""The name of the index of a pandas frame, as a column."""

TOLERANCE = 1e-9
"""The relative difference up to which two floats count as equal. A computation may add the same
values in another order."""


@told
def check_point_in_time(  # noqa: PLR0913 - the arguments of the call
    compute: Callable[[pa.Table, dict[str, pa.Table]], Any],
    labels: Table,
    events: Mapping[str, Table],
    *,
    on: str,
    known: str | Mapping[str, str] | None = None,
    samples: int = 20,
) -> None:
    """Check that no feature depends on events that were not known at the time of its label.

    The check works for features from any library. It computes the features once from all rows, and
    then again for several moments, from only those labels and events that were known by then. A
    feature that differs between the two has seen the future.

    Example:
        The mean price of all clicks of a user also includes later clicks:

        >>> import pyarrow as pa
        >>> import tidegate as tg
        >>> labels = pa.table({"ts": [10, 30], "user": ["A", "A"]})
        >>> clicks = pa.table({"ts": [8, 29], "user": ["A", "A"], "price": [9.0, 7.0]})
        >>> def as_of(labels, events):
        ...     view = tg.FeatureView(events["clicks"], aggs={"mean": tg.agg.mean("price")})
        ...     return tg.features(labels, {"clicks": view}, on="ts", by="user")
        >>> tg.check_point_in_time(as_of, labels, {"clicks": clicks}, on="ts")
        >>> def of_all(labels, events):
        ...     means = events["clicks"].group_by("user").aggregate([("price", "mean")])
        ...     return labels.join(means, "user")
        >>> tg.check_point_in_time(of_all, labels, {"clicks": clicks}, on="ts")
        Traceback (most recent call last):
        tidegate.TidegateError: `price_mean` depends on the future: in row 0, for the label at ...

    Args:
        compute: A function of the labels and a dict of the events. It returns the features as a
            table or data frame with one row per label, in the order of the labels.
        labels: The labels.
        events: The tables of events by name.
        on: The time column of the labels and, unless `known` is given, of the events. A row is
            known from this time on.
        known: The column with the time from which an event is known: one name for all tables, or a
            mapping from the names of tables. Events for which this time is null are never known.
        samples: The number of moments to check. They are spread evenly over the times of the
            labels, and include the first and the last one.

    Raises:
        TidegateError: A feature depends on the future. The message names the feature, a label and
            both values. The error is also raised if `compute` returns a different number of rows.
        SchemaError: A time column is missing.
        TypeError: An argument has the wrong type.
    """
    # Imported late, because it imports pyarrow.
    from tidegate.calls.inputs import read_table  # noqa: PLC0415

    if not isinstance(events, Mapping):
        message = f"events: expected a mapping of names to tables, got {type(events).__name__}"
        raise TypeError(message)
    if samples < 1:
        message = f"samples: expected at least 1, got {samples}"
        raise TidegateError(message)
    rows = read_table("labels", labels)
    tables = {name: read_table(name, table) for name, table in events.items()}
    of_each = known if isinstance(known, Mapping) else dict.fromkeys(tables, known or on)
    times = {name: _times(name, table, of_each.get(name, on)) for name, table in tables.items()}
    own = _times("labels", rows, on)
    complete = _features(compute, rows, tables)
    moments = pc.unique(own).drop_null().sort()
    places = np.linspace(0, len(moments) - 1, min(samples, len(moments))).round().astype(int)
    for moment in moments.take(pa.array(places)):
        past = {
            name: table.filter(_is_known(name, times[name], moment))
            for name, table in tables.items()
        }
        numbers = pc.indices_nonzero(_is_known("labels", own, moment))
        found = _features(compute, rows.take(numbers), past)
        for column in complete.column_names:
            if column not in found.column_names:
                message = f"compute: without later rows, the result has no column `{column}`; "
                message += "return the same columns for any rows"
                raise TidegateError(message)
            _compare(column, complete[column].take(numbers), found[column], (numbers, own))


def _times(name: str, table: pa.Table, column: str) -> Any:  # noqa: ANN401 - a column
    if column not in table.column_names:
        message = f"{name}: there is no column {column!r} with the time from which a row is known; "
        message += f"it has {', '.join(map(repr, table.column_names))}"
        raise SchemaError(message)
    return table[column]


def _is_known(name: str, times: Any, moment: pa.Scalar[Any]) -> Any:  # noqa: ANN401 - columns
    try:
        return pc.less_equal(times, moment)
    except pa.ArrowException as error:
        message = f"{name}: times of type {times.type} cannot be compared with labels of type "
        message += f"{moment.type}; cast one of them"
        raise SchemaError(message) from error


def _features(
    compute: Callable[[pa.Table, dict[str, pa.Table]], Any],
    labels: pa.Table,
    events: dict[str, pa.Table],
) -> pa.Table:
    # Imported late, because it imports pyarrow.
    from tidegate.calls.inputs import read_table  # noqa: PLC0415

    found = read_table("compute", compute(labels, dict(events)))
    if len(found) != len(labels):
        message = f"compute: expected one row per label, {len(labels)} in all, got {len(found)}"
        raise TidegateError(message)
    # The index of a pandas frame numbers the rows, and fewer rows have other numbers.
    names = [name for name in found.column_names if not INDEX.fullmatch(name)]
    return found.select(names)


def _compare(column: str, complete: Any, past: Any, labels: tuple[Any, Any]) -> None:  # noqa: ANN401 - columns
    """Raise an error if a column has other values with only the rows of the past."""
    if complete.equals(past):
        return
    pairs = zip(complete.to_pylist(), past.to_pylist(), strict=True)
    for place, (one, other) in enumerate(pairs):
        if not _are_equal(one, other):
            row = labels[0][place].as_py()
            time = labels[1][row].as_py()
            message = f"`{column}` depends on the future: in row {row}, for the label at {time}, "
            message += f"it is {one!r:.80} with all rows, but {other!r:.80} with the rows known "
            message += "by then; end the interval at the label's time, or check available_after"
            raise TidegateError(message)


def _are_equal(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, TOLERANCE, 0, equal_nan=True))
    return one == other

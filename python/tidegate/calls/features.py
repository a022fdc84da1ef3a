"""The functions that compute many features for each label, as a table or in batches.

Examples use `tg` for `tidegate`, `pa` for `pyarrow`, and these tables:

    >>> import pyarrow as pa
    >>> import tidegate as tg
    >>> labels = pa.table({"ts": [10, 30], "user": ["A", "A"], "bought": [False, True]})
    >>> clicks = pa.table({"ts": [8, 10, 29], "user": ["A", "A", "A"], "price": [9.0, 8.0, 7.0]})
    >>> logins = pa.table({"ts": [5, 26], "user": ["A", "A"], "device": ["phone", "laptop"]})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING

from tidegate._tidegate import BatchReader, Operator, Source
from tidegate.calls.arguments import told
from tidegate.deferred import Deferred
from tidegate.feature_views import FeatureView
from tidegate.runtime.chain import Chain
from tidegate.types import Bound, Bytes, Epoch, JoinStats, SideValues, Table, Value

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = Deferred("pyarrow")


@told
def features(  # noqa: PLR0913 - the arguments of the call
    labels: Table,
    views: Mapping[str, FeatureView],
    *,
    on: Value,
    by: SideValues | None = None,
    names: str = "{view}_{name}",
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    threads: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
) -> pa.Table:
    """Compute features for each label from any number of event tables, as of the label's time.

    Each view is an interval join with `aggs`. The result equals that of one `interval_join` per
    view, but the labels are read only once.

    Example:
        >>> views = {
        ...     "clicks": tg.FeatureView(
        ...         clicks, aggs={"n": tg.agg.count(), "mean": tg.agg.mean("price")}, lower=-10
        ...     ),
        ...     "login": tg.FeatureView(logins, columns=["device"], available_after=5),
        ... }
        >>> tg.features(labels, views, on="ts", by="user").to_pandas()
           ts user  bought  clicks_n  clicks_mean login_device
        0  10    A   False         2          8.5        phone
        1  30    A    True         1          7.0        phone

        The login at 26 is known from 31 on, so the label at 30 does not see it.

    Args:
        labels: The rows for which features are computed, usually with a value to predict.
        views: The event tables and what to compute from them, keyed by name.
        on: The time column of the labels and, unless a view has its own `on`, of all events. `on`
            must contain integers, dates or timestamps. It also accepts an expression over
            `tidegate.row` columns, or its SQL text.
        by: The key columns, as in `interval_join`: a name, a list of names, or None. A view can
            have its own `by`. Without keys, a label sees the events of all keys.
        names: The pattern for the names of features, with the name of the view as `{view}` and the
            name of the aggregate or column as `{name}`.
        columns: The columns of the labels to include in the result. None means all columns.
        unit: The unit of numeric times, such as "s", in the labels and all views, as in
            `interval_join`. `unit` cannot be combined with `memory_limit` or an index.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum memory that the call uses in addition to its inputs, as in
            `interval_join`. The views share this memory. The result is then in time order. None
            sets no limit.
        lateness: The maximum time by which rows may be out of order, as in `interval_join`. The
            option requires `memory_limit`. A pair contains the value for the labels and the one
            for the events.

    Returns:
        A table with the columns of the labels, followed by the features of each view, in the order
        of the labels.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type, or the Arrow data
            is malformed.
        MemoryLimitError: The result does not fit within the memory limit, or the system is out of
            memory.
        ClosedError: An input is a stream that has already been read, or a stream is passed twice.
        TidegateError: Another argument is invalid, a time is null, or an input cannot be read. The
            message names the view.
        TypeError: An argument has the wrong type.

    Note:
        If a view has `available_at`, or if its `where` or `available_after` reads columns of both
        sides, its functions test each pair of a label and an event in the interval. Such functions
        need a `lower` bound. The last values, which `columns` names, are found without one.
    """
    found: pa.Table = _joins().table(locals())
    return found


@told
def features_batches(  # noqa: PLR0913 - the arguments of the call
    labels: Table,
    views: Mapping[str, FeatureView],
    *,
    on: Value,
    by: SideValues | None = None,
    names: str = "{view}_{name}",
    columns: Sequence[str] | None = None,
    unit: Epoch | None = None,
    threads: int | None = None,
    memory_limit: Bytes | None = None,
    lateness: Bound | tuple[Bound, Bound] = None,
) -> BatchReader[JoinStats]:
    """Like `features`, but returns the result in batches.

    With `memory_limit`, both the inputs and the result may be larger than memory.

    Example:
        >>> view = tg.FeatureView(clicks, aggs={"n": tg.agg.count(lower=-10)})
        >>> options = dict(on="ts", by="user", memory_limit="256MB")
        >>> with tg.features_batches(labels, {"clicks": view}, **options) as reader:
        ...     [batch["clicks_n"].to_pylist() for batch in reader]
        [[2, 1]]

    Args:
        labels: The rows for which features are computed, usually with a value to predict.
        views: The event tables and what to compute from them, keyed by name.
        on: The time column of the labels and, unless a view has its own `on`, of all events.
        by: The key columns, as in `features`.
        names: The pattern for the names of features, as in `features`.
        columns: The columns of the labels to include in the result. None means all columns.
        unit: The unit of numeric times, such as "s", in the labels and all views, as in
            `interval_join`. `unit` cannot be combined with `memory_limit` or an index.
        threads: The number of worker threads, from 1 to 512. None means `default_threads()`.
        memory_limit: The maximum memory that the call uses in addition to its inputs. The views
            share this memory. The result is then in time order. None sets no limit.
        lateness: The maximum time by which rows may be out of order, as in `features`.

    Returns:
        A reader for the batches. Their rows are those of `features`, in the same order.

    Raises:
        TidegateError: An argument is invalid, or an input cannot be read. Errors in the rows are
            raised when you read a batch.
        TypeError: An argument has the wrong type.
    """
    found: BatchReader[JoinStats] = _joins().batches(locals())
    return found


class Features(Chain):
    """Computes features for a stream of labels from any number of streams of events.

    The operator is a chain of one interval join per view. Its results have the columns of
    `features`. A label is emitted as soon as the watermarks of all streams guarantee that its
    features are final. Labels are emitted in time order. Results, snapshots and `running` work as
    in any `Chain`.

    Example:
        >>> views = {
        ...     "clicks": tg.FeatureView(clicks.schema, aggs={"n": tg.agg.count()}, lower=-10),
        ...     "login": tg.FeatureView(logins.schema, columns=["device"]),
        ... }
        >>> operator = tg.Features(labels.schema, views, on="ts", by="user")
        >>> operator.labels.push(labels)
        >>> operator.views["clicks"].push(clicks)
        >>> operator.views["login"].push(logins)
        >>> operator.poll().to_pylist()
        [{'ts': 10, 'user': 'A', 'bought': False, 'clicks_n': 2, 'login_device': 'phone'}]

        Further events at 30 could still belong to the label at 30, until the sources advance:

        >>> for source in (operator.labels, *operator.views.values()):
        ...     source.advance(31)
        >>> operator.poll().to_pylist()
        [{'ts': 30, 'user': 'A', 'bought': True, 'clicks_n': 1, 'login_device': 'laptop'}]

    Args:
        labels: The schema of the labels, or data that has one.
        views: The schemas of the events and what to compute from them, keyed by name. The table of
            a view is a schema, or data that has one.
        on: The time column of the labels and, unless a view has its own `on`, of all events.
        by: The key columns, as in `features`.
        names: The pattern for the names of features, as in `features`.
        columns: The columns of the labels to include in the result. None means all columns.
        lateness: The maximum time by which rows may be out of order, as in `IntervalJoin`. A pair
            contains the value for the labels and the one for the events.
        threads: The number of worker threads of each join, from 1 to 512. None means
            `default_threads()`.

    Raises:
        SchemaError: A column is missing or duplicated, or has an unsuitable type.
        TidegateError: Another argument is invalid, or a function would need all earlier events. The
            message names the view.
        TypeError: An argument has the wrong type.
    """

    labels: Source
    """The source of the labels."""

    views: dict[str, Source]
    """The source of each view's events."""

    def __init__(  # noqa: PLR0913 - the arguments of the class
        self,
        labels: Table,
        views: Mapping[str, FeatureView],
        *,
        on: str,
        by: SideValues | None = None,
        names: str = "{view}_{name}",
        columns: Sequence[str] | None = None,
        lateness: Bound | tuple[Bound, Bound] = None,
        threads: int | None = None,
    ) -> None:
        given = dict(locals())
        plan = _joins().operators(given)
        first, last = plan[0], plan[-1]
        feeds = {after.sources[0]: before for before, after in pairwise(plan)}
        self._connect(last, feeds)
        self.labels = first.sources[0]
        self.views = {name: operator.sources[1] for name, operator in zip(views, plan, strict=True)}

    @property
    def schema(self) -> pa.Schema:
        """The schema of the results."""
        last: Operator[JoinStats] = self.operators[-1]
        return last.schema


def _joins() -> ModuleType:
    # Imported late, because it imports pyarrow.
    from tidegate.calls import feature_joins  # noqa: PLC0415

    return feature_joins

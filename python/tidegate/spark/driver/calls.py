"""Runs `tidegate.spark` calls, whose inputs are DataFrames or files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame

import tidegate
from tidegate import _tidegate
from tidegate._tidegate import AggregationQuery
from tidegate.calls.index import with_names_of
from tidegate.calls.joins import times_of
from tidegate.spark.driver.aggregate import aggregated
from tidegate.spark.driver.explain import (
    aggregate_described,
    described,
    files_described,
    index_described,
)
from tidegate.spark.driver.indexed import check_ending
from tidegate.spark.driver.indexed import joined as joined_with_index
from tidegate.spark.driver.join import joined, of_files, outgoing
from tidegate.spark.driver.tasks import Ending, active, division
from tidegate.spark.plan.aggregate import AggregatePlan
from tidegate.spark.plan.checks import check_division
from tidegate.spark.plan.epochs import with_times
from tidegate.spark.plan.files import are_files, check_options, of_paths, windows_of_paths
from tidegate.spark.plan.indexed import IndexPlan
from tidegate.spark.plan.join import Plan
from tidegate.spark.query.input import check_stored
from tidegate.spark.query.query import SparkQuery
from tidegate.spark.worker.pack import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.spark.plan.files import FilePlan, Input, Right
    from tidegate.spark.query.query import Function
    from tidegate.types import Epoch


class JoinCall(NamedTuple):
    """A join call: the native join's arguments, and those that only Spark has."""

    function: Function
    sides: tuple[Input, Right]
    arguments: dict[str, Any]
    of_spark: dict[str, Any]

    def run(self, ending: Ending) -> DataFrame:
        """Return the result as a DataFrame."""
        plan = self._plan()
        if isinstance(plan, IndexPlan):
            check_ending(ending)
            schema, output = outgoing(plan.left.sparkSession, plan.result, ending, None)
            return joined_with_index(plan, schema, output)
        return joined(plan, ending) if isinstance(plan, Plan) else _ran(plan, ending)

    def explain(self, *, fused: bool) -> str:
        """Describe how the call would divide and send its rows."""
        plan = self._plan()
        if isinstance(plan, IndexPlan):
            return index_described(plan)
        return described(plan, fused=fused) if isinstance(plan, Plan) else files_described(plan)

    def _plan(self) -> Plan | FilePlan | IndexPlan:
        frames = [one for one in self.sides if isinstance(one, DataFrame)]
        if len(frames) == len(self.sides):
            check_stored("on", self.arguments["on"], frames)
            check_stored("by", self.arguments["by"], frames)
        given = dict(self.of_spark)
        left, right = self._with_times(given.pop("unit"))
        if isinstance(right, tidegate.Index):
            making = getattr(_tidegate, f"{self.function}_query")
            arguments = with_names_of(making, right, self.arguments)
            query = SparkQuery.of(self.function, arguments)
            if not are_files({"left": left}):
                of_index = {name: one for name, one in given.items() if name != "scratch"}
                return IndexPlan.of(left, right, query, **of_index)
        else:
            query = SparkQuery.of(self.function, self.arguments)
            if not are_files(dict(zip(NAMES, (left, right), strict=True))):
                return Plan.of(left, right, query, **given)
        parallelism, partitions = given["parallelism"], given["partitions"]
        check_division(partitions, parallelism, _known(parallelism), keyed=True)
        check_options("a join", parallelism, given.get("late_as"), given.get("max_width"))
        session = active()
        divided = division(session, partitions, given["scratch"])
        sides: Any = (left, right)
        return of_paths(session, query.native, sides, given["columns"], divided)

    def _with_times(self, unit: Epoch | None) -> tuple[Any, Any]:
        """Return both sides, with timestamps if `unit` is given."""
        if unit is None:
            return self.sides
        making = getattr(_tidegate, f"{self.function}_query")
        columns = dict(zip(NAMES, times_of(making, self.arguments), strict=True))
        left, right = with_times(dict(zip(NAMES, self.sides, strict=True)), columns, unit)
        return left, right


class AggregateCall(NamedTuple):
    """An aggregation call: the native aggregation's arguments, and those that only Spark has."""

    streams: Input | Sequence[Input]
    arguments: dict[str, Any]
    of_spark: dict[str, Any]

    def run(self, ending: Ending) -> DataFrame:
        """Return the result as a DataFrame."""
        plan = self._plan()
        return aggregated(plan, ending) if isinstance(plan, AggregatePlan) else _ran(plan, ending)

    def explain(self) -> str:
        """Describe how the call would divide and send its rows."""
        plan = self._plan()
        if isinstance(plan, AggregatePlan):
            return aggregate_described(plan)
        return files_described(plan)

    def _plan(self) -> AggregatePlan | FilePlan:
        given = dict(self.of_spark)
        unit, on = given.pop("unit"), self.arguments["on"]
        streams = self.streams if isinstance(self.streams, list | tuple) else [self.streams]
        named = {f"streams[{at}]": one for at, one in enumerate(streams)}
        streams = with_times(named, {name: [on] for name in named}, unit)
        if not are_files(named):
            frames = self.streams if unit is None else streams
            return AggregatePlan.of(frames, **self.arguments, **given)  # type: ignore[arg-type]
        parallelism, partitions = given["parallelism"], given["partitions"]
        check_division(partitions, parallelism, _known(parallelism), keyed=True)
        check_options("an aggregation", parallelism, given["late_as"])
        session = active()
        query = AggregationQuery(**self.arguments)
        divided = division(session, partitions, given["scratch"])
        return windows_of_paths(session, query, self.streams, divided)


def _known(parallelism: str) -> tuple[str, ...]:
    """Return the values of `parallelism`; `check_options` explains those for DataFrames."""
    every = ("auto", "bins", "broadcast", "files", "hybrid", "key", "time", "value")
    return every if parallelism in every else ("auto", "files")


def _ran(plan: FilePlan, ending: Ending) -> DataFrame:
    """Return the result of a call on files."""
    schema, output = outgoing(plan.session, plan.result, ending, None)
    return of_files(plan, ending, schema, output)

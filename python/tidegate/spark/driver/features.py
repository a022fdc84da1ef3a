"""Builds and explains DataFrames with features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.worker.features import FeaturesTask
from tidegate.spark.worker.task import on_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.plan.features import FeaturesPlan


def computed(plan: FeaturesPlan) -> DataFrame:
    """Return the labels and their features as a DataFrame."""
    names = tuple(one.names for one in plan.sent)
    task = FeaturesTask(plan.steps, plan.days, plan.call, plan.columns, names, plan.schema)
    return plan.divided().mapInArrow(on_worker(task.run, "tidegate_features"), plan.result)


def features_described(plan: FeaturesPlan) -> str:
    """Describe what is sent for each table, and how the rows are divided."""
    labels, *events = plan.sent
    number = "" if plan.partitions is None else f" into {plan.partitions:,} partitions"
    divided = f"by {', '.join(labels.keys)}{number}, in one shuffle"
    lines = [
        f"features of {len(events)} view{'s' if len(events) > 1 else ''}",
        f"  labels     {', '.join(labels.names)}",
        *(
            f"  {step.view:<10} {', '.join(one.names)}"
            for step, one in zip(plan.steps, events, strict=True)
        ),
        f"  divided    {divided}; one task processes all rows of a key",
        "  ties       events with equal times are ordered by value",
    ]
    return "\n".join(lines)

"""The check for features that depend on the future."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate import SchemaError, TidegateError, agg

LABELS = pa.table({"ts": [30, 10, 20, 20], "k": ["a", "b", "a", "b"]})
EVENTS = pa.table(
    {
        "ts": [5, 6, 9, 15, 20, 25, 31],
        "k": ["a", "b", "b", "a", "b", "a", "b"],
        "v": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
        "seen": [5, 6, 12, 16, 24, 25, None],
    }
)


def computed(**view: Any) -> Callable[..., Any]:
    def compute(labels: pa.Table, events: dict[str, pa.Table]) -> pa.Table:
        views = {
            "e": tg.FeatureView(events["e"], aggs={"n": agg.count(), "m": agg.mean("v")}, **view)
        }
        return tg.features(labels, views, on="ts", by="k")

    return compute


@pytest.mark.parametrize("samples", [1, 2, 3, 20])
def test_features_of_the_past_pass(samples: int) -> None:
    tg.check_point_in_time(computed(), LABELS, {"e": EVENTS}, on="ts", samples=samples)
    with_delay = computed(available_at="seen")
    for known in ("seen", {"e": "seen"}):
        tg.check_point_in_time(with_delay, LABELS, {"e": EVENTS}, on="ts", known=known)


def test_a_leak_is_named() -> None:
    message = "`e_n` depends on the future: in row 1, for the label at 10, it is 2 with all rows"
    compute = computed(upper=5)
    for samples in (3, 20):
        with pytest.raises(TidegateError, match="depends on the future"):
            tg.check_point_in_time(compute, LABELS, {"e": EVENTS}, on="ts", samples=samples)
    # The event at 9 is known only at 12.
    with pytest.raises(TidegateError, match=message):
        tg.check_point_in_time(computed(), LABELS, {"e": EVENTS}, on="ts", known="seen")


def test_frames_of_other_libraries() -> None:
    def of_pandas(labels: pa.Table, events: dict[str, pa.Table]) -> pd.DataFrame:
        means = events["e"].to_pandas().groupby("k")["v"].mean()
        return labels.to_pandas().assign(mean=lambda frame: frame["k"].map(means))

    with pytest.raises(TidegateError, match="`mean` depends on the future: in row"):
        tg.check_point_in_time(of_pandas, LABELS.to_pandas(), {"e": EVENTS}, on="ts")


def test_the_index_of_a_frame_is_not_a_feature() -> None:
    def numbered(labels: pa.Table, _events: object) -> pd.DataFrame:
        frame = labels.to_pandas()
        return frame.set_index(pd.Index(range(len(frame), 0, -1)))

    tg.check_point_in_time(numbered, LABELS, {"e": EVENTS}, on="ts")


def test_arguments_are_checked() -> None:
    call: dict[str, Any] = {"labels": LABELS, "events": {"e": EVENTS}, "on": "ts"}
    with pytest.raises(SchemaError, match="e: there is no column 'sen' with the time"):
        tg.check_point_in_time(computed(), **call, known={"e": "sen"})
    in_days = EVENTS.set_column(0, "ts", EVENTS["ts"].cast(pa.int32()).cast(pa.date32()))
    with pytest.raises(SchemaError, match=r"e: times of type date32.* cannot be compared with"):
        tg.check_point_in_time(lambda labels, _: labels, **{**call, "events": {"e": in_days}})
    with pytest.raises(TypeError, match="events: expected a mapping of names to tables, got Table"):
        tg.check_point_in_time(computed(), **{**call, "events": EVENTS})
    with pytest.raises(TidegateError, match="samples: expected at least 1, got 0"):
        tg.check_point_in_time(computed(), **call, samples=0)
    with pytest.raises(TidegateError, match="expected one row per label, 4 in all, got 1"):
        tg.check_point_in_time(lambda labels, _events: labels.slice(0, 1), **call)
    with pytest.raises(TidegateError, match="the result has no column `x`"):
        tg.check_point_in_time(
            lambda labels, _: (
                labels.append_column("x", labels["ts"]) if len(labels) > 3 else labels
            ),
            **call,
        )

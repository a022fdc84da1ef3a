"""Methods of Polars and pandas frames: the rows of the functions, as frames of the same library."""

import inspect
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import tidegate as tg

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

LEFT = {"ts": [1, 5, 9, 20], "end": [3, 6, 9, 30], "k": ["a", "b", "c", "a"], "x": [1, 2, 3, 4]}
RIGHT = {"ts": [2, 4, 5, 19], "end": [2, 8, 9, 40], "k": ["a", "b", "b", "a"], "y": [1, 2, 2, 9]}
QUERIES: dict[str, dict[str, Any]] = {
    "interval_join": {"on": "ts", "by": "k", "lower": -2, "upper": 2, "how": "full"},
    "asof_join": {"on": "ts", "by": "k", "tolerance": 3},
    "overlap_join": {"on": ("ts", "end"), "how": "left"},
    "window_join": {"on": "ts", "window": 4, "where": "left.x <= right.y"},
    "band_join": {"on": [("x", "y")], "within": 1, "by": "k", "how": "right"},
}
BARS: dict[str, Any] = {"on": "ts", "size": 10, "by": "k", "aggs": {"n": tg.agg.sum("x")}}


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    import tidegate.pandas  # noqa: PLC0415 - needs pandas
    import tidegate.polars  # noqa: F401, PLC0415 - needs polars


@pytest.mark.parametrize("name", QUERIES)
def test_a_method_gives_the_rows_of_its_function(name: str) -> None:
    expected = getattr(tg, name)(pa.table(LEFT), pa.table(RIGHT), **QUERIES[name])
    of_polars = getattr(pl.DataFrame(LEFT).tidegate, name)(pl.DataFrame(RIGHT), **QUERIES[name])
    assert isinstance(of_polars, pl.DataFrame)
    assert of_polars.to_dicts() == expected.to_pylist()
    of_lazy = getattr(pl.LazyFrame(LEFT).tidegate, name)(pl.DataFrame(RIGHT), **QUERIES[name])
    assert of_lazy.collect().equals(of_polars)
    of_pandas = getattr(pd.DataFrame(LEFT).tidegate, name)(pd.DataFrame(RIGHT), **QUERIES[name])
    assert isinstance(of_pandas, pd.DataFrame)
    rows = of_pandas.astype(object).where(of_pandas.notna(), None).to_dict("records")
    assert rows == expected.to_pylist()


def test_aggregations_are_methods() -> None:
    expected = tg.aggregate(pa.table(LEFT), **BARS).to_pylist()
    assert pl.DataFrame(LEFT).tidegate.aggregate(**BARS).to_dicts() == expected
    assert pd.DataFrame(LEFT).tidegate.aggregate(**BARS).to_dict("records") == expected
    lazy = pl.LazyFrame(LEFT).tidegate.aggregate(**BARS)
    assert lazy.collect().to_dicts() == expected
    assert lazy.filter(pl.col("n") > 1).select("n").head(1).collect().to_dicts() == [{"n": 2}]
    assert lazy.select(pl.len()).collect().item() == len(expected)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("sign", ["int", "uint"])
def test_integers_with_nulls_stay_integers(bits: int, sign: str) -> None:
    most = 2 ** (bits - 1) - 1
    right = pd.DataFrame({"ts": [1], "v": pd.Series([most], dtype=f"{sign}{bits}")})
    left = pd.DataFrame({"ts": [1, 5]})
    found = left.tidegate.interval_join(right, on="ts", lower=0, upper=0, how="left")
    assert found["v"].tolist() == [most, pd.NA]
    assert str(found["v"].dtype) == f"{sign}{bits}".replace("i", "I").replace("uI", "UI")
    assert found["ts"].dtype == left["ts"].dtype
    # Without nulls, the type is the given one.
    inner = left.tidegate.interval_join(right, on="ts", lower=0, upper=0)
    assert inner["v"].dtype == right["v"].dtype


def test_other_types_stay_as_given() -> None:
    columns = {
        "flag": pd.Series([True]),
        "nullable": pd.Series([2**60 + 1], dtype="Int64"),
        "number": pd.Series([0.5]),
        "kind": pd.Series(["a"], dtype="category"),
        "at": pd.Series(pd.to_datetime(["2026-03-02T10:00:00Z"])),
        "arrow": pd.Series([7], dtype=pd.ArrowDtype(pa.int64())),
    }
    right = pd.DataFrame({"ts": [1], **columns})
    found = pd.DataFrame({"ts": [1, 5]}).tidegate.asof_join(right, on="ts", tolerance=0)
    types = {name: str(found[name].dtype) for name in columns}
    assert types == {
        "flag": "boolean",
        "nullable": "Int64",
        "number": "float64",
        "kind": "category",
        "at": str(columns["at"].dtype),
        "arrow": "int64[pyarrow]",
    }
    assert found["flag"].tolist() == [True, pd.NA]
    assert found["nullable"][0] == 2**60 + 1


def test_a_named_index_is_a_column_and_stays_the_index() -> None:
    left = pd.DataFrame({"k": ["a", "b"], "x": [1, 2]}, index=pd.Index([1, 5], name="ts"))
    right = pd.DataFrame({"ts": [1, 4], "y": [7, 8]}).set_index("ts")
    found = left.tidegate.asof_join(right, on="ts")
    assert found.index.name == "ts"
    assert found.loc[5, "y"] == 8
    by = left.tidegate.aggregate(on="ts", size=10, by="k", aggs={"n": tg.agg.count()})
    assert by["n"].tolist() == [1, 1]
    keyed = left.reset_index().set_index("k")
    pairs = keyed.tidegate.interval_join(keyed, on="ts", by="k", lower=0, upper=0)
    assert pairs["x_right"].tolist() == [1, 2]


def test_a_filtered_frame_adds_no_index_column() -> None:
    right = pd.DataFrame({"ts": [1, 4, 6], "y": [7, 8, 9]})
    found = pd.DataFrame({"ts": [5, 7]}).tidegate.asof_join(right[right.y > 7], on="ts")
    assert [*found.columns] == ["ts", "ts_right", "y"]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_methods_have_the_parameters_and_errors_of_their_functions(kind: Any) -> None:
    frame = kind({"ts": [1, 5]})
    for name in ("asof_join", "interval_join", "overlap_join", "window_join", "band_join"):
        method = getattr(frame.tidegate, name)
        names = [*inspect.signature(method).parameters]
        form = f"{name}_batches" if kind is pl.LazyFrame else name
        assert names == [*inspect.signature(getattr(tg, form)).parameters][1:]
        assert method.__doc__ == getattr(tg, form).__doc__
    with pytest.raises(TypeError, match=r"write on=\('ts', 'at'\)"):
        frame.tidegate.asof_join(frame, left_on="ts", right_on="at")
    with pytest.raises(TypeError, match="write strategy='backward'"):
        frame.tidegate.asof_join(frame, on="ts", direction="backward")


def test_no_frame_library_is_needed() -> None:
    script = "import sys, tidegate; print({'pandas', 'polars', 'pyarrow'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert found.stdout == b"set()\n"


def test_a_wrapped_lazy_frame_names_the_frame_to_give() -> None:
    wrapper = type("LazyFrame", (), {"__module__": "narwhals.dataframe"})()
    with pytest.raises(
        TypeError, match=r"got narwhals.dataframe.LazyFrame; give its to_native\(\)"
    ):
        tg.asof_join(wrapper, pa.table(RIGHT), on="ts")

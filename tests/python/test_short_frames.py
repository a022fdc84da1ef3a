"""Short pandas frames are converted column by column, with the same result as in pyarrow."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidegate as tg

ROWS = 7
TIMES = np.arange(ROWS)


def with_nulls(values):
    """Return float or time values, some of which are missing."""
    values = values.copy()
    values[[1, 4]] = np.nan if values.dtype.kind == "f" else "NaT"
    return values


PLAIN = {
    "int8": np.arange(ROWS, dtype="int8"),
    "uint64": np.arange(ROWS, dtype="uint64") + 2**63,
    "float32": np.arange(ROWS, dtype="float32"),
    "float64": with_nulls(np.arange(ROWS) * 1.5),
    "bool": np.arange(ROWS) % 2 == 0,
    "datetime64[s]": with_nulls(np.arange(ROWS).astype("datetime64[s]")),
    "datetime64[ns]": with_nulls(np.arange(ROWS).astype("datetime64[ns]")),
    "timedelta64[ms]": with_nulls(np.arange(ROWS).astype("timedelta64[ms]")),
    "text": pd.Series(["a", None, "ä", "", "b", "b", "c"]),
}
OTHERS = {
    "category": pd.Categorical(["a", "b", None, "a", "b", "b", "a"]),
    "with a zone": pd.date_range("2024-03-30", periods=ROWS, tz="Europe/Berlin"),
    "Int64": pd.array([1, None, 3, 4, 5, 6, 7], dtype="Int64"),
    "objects": np.array(["a", None, "b", "c", "d", "e", "f"], dtype=object),
    "Arrow's": pd.array(list(range(ROWS)), dtype=pd.ArrowDtype(pa.int16())),
    "string": pd.array(["a", None, "b", "c", "d", "e", "f"], dtype="string"),
}


def frame(**columns) -> pd.DataFrame:
    return pd.DataFrame({"ts": TIMES, **columns})


def joined(table):
    return tg.asof_join(table, table, on="ts")


def check(given: pd.DataFrame) -> None:
    """Check that a frame is converted as in pyarrow, on the first and on later calls."""
    expected = joined(pa.Table.from_pandas(given))
    for _ in range(2):
        found = joined(given)
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.to_pydict().__repr__() == expected.to_pydict().__repr__()


@pytest.mark.parametrize("name", PLAIN | OTHERS)
def test_a_column_is_what_pyarrow_makes_of_it(name):
    check(frame(x=(PLAIN | OTHERS)[name]))


def test_all_types_beside_each_other():
    check(frame(**PLAIN))
    check(frame(**PLAIN, **OTHERS))


@pytest.mark.filterwarnings("ignore:The DataFrame has column names of mixed type")
@pytest.mark.parametrize(
    "change",
    [
        lambda given: given[::2],
        lambda given: given[::-1].reset_index(drop=True),
        lambda given: given[:0],
        lambda given: given.rename_axis(columns="kind"),
        lambda given: given.rename(columns={"x": 3}),
        lambda given: given.set_index("x"),
        lambda given: given.astype({"x": ">f8"}),
    ],
    ids=["stepped", "reversed", "empty", "labels", "number", "set index", "swapped"],
)
def test_frames_of_other_shapes(change):
    given = change(frame(x=PLAIN["float64"], y=PLAIN["text"]))
    try:
        pa.Table.from_pandas(given)
    except (pa.ArrowException, ValueError, TypeError):
        with pytest.raises((tg.TidegateError, TypeError, ValueError)):
            joined(given)
        return
    check(given)


def test_attributes_are_kept():
    given = frame(x=PLAIN["int8"])
    given.attrs["origin"] = "here"
    check(given)


def test_a_name_that_is_there_twice_is_refused_by_name():
    given = pd.DataFrame(np.zeros((3, 3), int), columns=["ts", "x", "x"])
    with pytest.raises((tg.TidegateError, ValueError), match="x"):
        joined(given)


def test_more_kinds_of_frames_than_are_kept():
    for number in range(100):
        check(frame(**{f"column {number}": PLAIN["int8"]}))

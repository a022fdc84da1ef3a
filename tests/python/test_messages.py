"""Eighty messages: each names the problem and the place, and what to write instead.

A message that a user sees after a slip that is usual in other libraries is complete only if its
remedy can be copied. Where it contains a line of code for this call, the line is tried.
"""

import re
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidegate as tg
from command_line import run

LEFT = pa.table({"ts": [1, 2, 30], "k": ["a", "b", "a"], "price": [1.0, 2.0, 3.0]})
RIGHT = pa.table({"ts": [1, 2, 3], "k": ["a", "b", "b"], "bid": [1.0, 2.0, 3.0]})
ZONED = pa.table({"ts": pa.array([1, 2], pa.timestamp("us", "UTC")), "bid": [1.0, 2.0]})
PAIRS = {"on": "ts", "lower": 0, "upper": 1}
COUNT = {"aggs": {"n": tg.agg.count()}}
GIVEN: dict[str, Any] = {"Expr": tg.row.v}

# The function, its arguments after the inputs, and the remedy. The arguments that a remedy lists
# replace the unknown ones, and the call must then succeed.
REMEDIES: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    # Arguments without their names.
    ("interval_join", ("ts", -5, 0), {}, "write on='ts', lower=-5, upper=0"),
    ("asof_join", ("ts", "k"), {}, "write on='ts', by='k'"),
    ("overlap_join", (("ts", "ts"),), {}, "write on=('ts', 'ts')"),
    ("aggregate", ("ts", 5), COUNT, "write aggregate([first, second, ...])"),
    ("window_join", ("ts", 5), {}, "write on='ts', window=5"),
    # Names of other libraries.
    *(
        ("aggregate", (), {"on": "ts", name: 5} | COUNT, "write size=5")
        for name in ("freq", "rule", "interval", "windowDuration", "bucket", "window", "every")
    ),
    ("aggregate", (), {"on": "ts", "size": 4, "slideDuration": 2} | COUNT, "write advance=2"),
    ("aggregate", (), {"on": "ts", "gapDuration": 2} | COUNT, "write session=2"),
    ("aggregate", (), {"on": "ts", "max_gap": 2} | COUNT, "write session=2"),
    *(
        ("interval_join", (), {"on": "ts", "upper": 0, name: 5}, "write lower=-5")
        for name in ("before", "lookback", "preceding")
    ),
    *(
        ("interval_join", (), {"on": "ts", "lower": 0, name: 5}, "write upper=5")
        for name in ("after", "lookahead", "following")
    ),
    *(
        ("interval_join", (), {"on": "ts", name: 5}, "write lower=-5, upper=5")
        for name in ("within", "tolerance", "window", "delta", "radius", "max_distance")
    ),
    ("interval_join", (), {"on": "ts", "tolerance": None}, "write lower=None, upper=None"),
    ("interval_join", (), {"on": "ts", "window": (-5, 0)}, "write lower=-5, upper=0"),
    ("interval_join", (), {"on": "ts", "range": (-5, 0)}, "write lower=-5, upper=0"),
    ("interval_join", (), {"on": "ts", "between": (-5, 0)}, "write lower=-5, upper=0"),
    ("asof_join", (), {"on": "ts", "lookback": 5}, "write tolerance=5"),
    ("asof_join", (), {"on": "ts", "max_gap": 5}, "write tolerance=5"),
    ("asof_join", (), {"on": "ts", "direction": "forward"}, "write strategy='forward'"),
    ("asof_join", (), {"left_on": "ts", "right_on": "ts"}, "write on='ts'"),
    ("asof_join", (), {"on": "ts", "group_by": "k"}, "write by='k'"),
]


def call(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> pa.Table:
    inputs = (LEFT,) if name == "aggregate" else (LEFT, RIGHT)
    result: pa.Table = getattr(tg, name)(*inputs, *given, **named)
    return result


@pytest.mark.parametrize(("name", "given", "named", "remedy"), REMEDIES)
def test_the_remedy_for_an_argument_can_be_copied(name, given, named, remedy: str) -> None:
    with pytest.raises(TypeError) as raised:
        call(name, given, named)
    message = str(raised.value)
    assert message.startswith(f"{name}() ")
    assert message.endswith(remedy)
    if "[first" in remedy:
        return
    line = eval(f"dict({remedy.removeprefix('write ')})")  # noqa: S307 - a line of this package
    signature = set(line) | {one for one in named if f" {one}" not in message.partition(";")[0]}
    rest = {one: value for one, value in named.items() if one in signature}
    call(name, (), rest | line)


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("5s", "write lower='-5s', upper='5s'"),
        ("-5s", "write lower='-5s', upper='5s'"),
        (
            timedelta(seconds=5),
            "write lower=-datetime.timedelta(seconds=5), upper=datetime.timedelta(seconds=5)",
        ),
        (-5, "write lower=5, upper=-5"),
    ],
)
def test_distances_of_any_form_become_bounds(value: object, remedy: str) -> None:
    with pytest.raises(TypeError) as raised:
        tg.interval_join(LEFT, RIGHT, on="ts", tolerance=value)
    assert str(raised.value).endswith(remedy)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("avg", "mean(column)"),
        ("nunique", "count_distinct(column)"),
        ("n_unique", "count_distinct(column)"),
        ("vwap", "weighted_mean('price', 'size')"),
        ("stddev", "std(column)"),
        ("variance", "var(column)"),
        ("size", "count()"),
        ("len", "count()"),
        ("total", "sum(column)"),
        ("list", "collect(column)"),
        ("array_agg", "collect(column)"),
        ("argmax", "arg_max(column, by)"),
        ("min_by", "arg_min(column, by)"),
        ("percentile", "quantile(column, 0.9)"),
        ("first_value", "first(column)"),
        ("prod", "product(column)"),
        ("bool_or", "any(column)"),
        ("cov", "covar(column, other)"),
        ("correlation", "corr(column, other)"),
    ],
)
def test_functions_of_other_libraries_are_known(name: str, remedy: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(tg.agg, name)
    assert str(raised.value) == (
        f"module 'tidegate.agg' has no function '{name}'; write tidegate.agg.{remedy}"
    )
    function, _, rest = remedy.partition("(")
    arguments = [one.strip(" )'") for one in rest.split(",") if one.strip(" )")]
    numbers = [float(one) if re.fullmatch(r"[\d.]+", one) else one for one in arguments]
    assert isinstance(getattr(tg.agg, function)(*numbers), tg.agg.Aggregate)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("bid", "mean"), "mean('bid')"),
        (("bid", "nunique"), "count_distinct('bid')"),
        (pd.NamedAgg("bid", "sum"), "sum('bid')"),
        (("bid", np.max), "max('bid')"),
        ("avg", "mean(column)"),
        (sum, "sum(column)"),
        (pl.col("bid").mean(), "mean('bid')"),
        (pl.col("bid").n_unique(), "count_distinct('bid')"),
    ],
)
def test_aggregates_of_other_libraries_are_known(given: object, line: str) -> None:
    for call in (tg.aggregate, lambda rows, **query: tg.Aggregate(rows.schema, **query)):
        with pytest.raises(TypeError) as raised:
            call(RIGHT, on="ts", size=5, aggs={"x": given})
        assert str(raised.value).endswith(f'; write "x": tidegate.agg.{line}')


def test_other_functions_are_guessed_or_listed() -> None:
    with pytest.raises(AttributeError, match=r"did you mean median\?"):
        tg.agg.meddian  # noqa: B018 - raises
    with pytest.raises(AttributeError, match="it has all, any, arg_max"):
        tg.agg.zzz  # noqa: B018 - raises
    assert not hasattr(tg.agg, "__wrapped__")


MESSAGES: dict[str, tuple[Any, type[Exception], list[str]]] = {
    "a join type that is a number": (
        lambda: tg.interval_join(LEFT, RIGHT, **PAIRS, how=3),
        TypeError,
        ["how: expected one of 'inner', 'left', 'right', 'full', 'semi', 'anti', got 3"],
    ),
    "a flag that is a word": (
        lambda: tg.asof_join(LEFT, RIGHT, on="ts", allow_exact_matches="yes"),
        TypeError,
        ["allow_exact_matches: expected True or False, got 'yes'"],
    ),
    "a time without its name": (
        lambda: tg.Index(RIGHT, on="ts").expire(2),
        TypeError,
        ["expire() takes no arguments without a name, but got 1 more; write before=2"],
    ),
    "a number to verify": (
        lambda: tg.open_index("quotes.index", verify=3),
        TypeError,
        ["verify: expected True or False, got 3"],
    ),
    "a folder as an index": (
        lambda: tg.open_index("."),
        tg.StateError,
        ["'.' is a folder, expected a file written by Index.save"],
    ),
    "a left column in aggs": (
        lambda: tg.interval_join(LEFT, RIGHT, **PAIRS, aggs={"p": tg.agg.mean("price")}),
        tg.SchemaError,
        ["right: ", "no column `price`", "functions in `aggs` read columns of the matching right"],
    ),
    "a condition that ends too early": (
        lambda: tg.interval_join(LEFT, RIGHT, **PAIRS, where="left.price > right.bid and"),
        tg.TidegateError,
        ["where `", "Column: 27", "write a condition after 'and', or remove this word"],
    ),
    "an open parenthesis": (
        lambda: tg.interval_join(LEFT, RIGHT, **PAIRS, where="(left.price > right.bid"),
        tg.TidegateError,
        ["where `", "close each parenthesis"],
    ),
    "integers beside times": (
        lambda: tg.asof_join(LEFT, ZONED, on="ts"),
        tg.SchemaError,
        ["an integer and a time cannot be compared", "left `ts` is int64", "pass unit='ms'"],
    ),
    "integers and times in an operator": (
        lambda: tg.AsofJoin(LEFT.schema, ZONED.schema, on="ts"),
        tg.SchemaError,
        ["an integer and a time cannot be compared", "unit='ms', utc=True"],
    ),
    "a duration and integers": (
        lambda: tg.aggregate(LEFT, on="ts", size="5s", **COUNT),
        tg.SchemaError,
        ["size is a duration, but", "or pass unit='ms' if the integers count milliseconds"],
    ),
    "the default time column of a merge": (
        lambda: tg.merge([RIGHT.rename_columns(["time", "k", "bid"])]),
        tg.SchemaError,
        ["no column `ts`, the default of `on`; it has `time`", "as in on='time'"],
    ),
    "the default time column of an operator": (
        lambda: tg.Merge(pa.schema({"v": pa.int64(), "tss": pa.int64()})),
        tg.SchemaError,
        ["no column `ts`, the default of `on`; it has `v`, `tss`", "as in on='tss'"],
    ),
    "a time column of a merge that was given": (
        lambda: tg.merge([RIGHT.rename_columns(["time", "k", "bid"])], on="ts"),
        tg.SchemaError,
        ["no column `ts`, which `on` names"],
    ),
    "a repeated column of a pandas frame": (
        lambda: tg.asof_join(LEFT, pd.DataFrame([[1, 2]], columns=["ts", "ts"]), on="ts"),
        tg.SchemaError,
        ["right: there is more than one column `ts`; rename all but one"],
    ),
    "a repeated column of a stream": (
        lambda: tg.merge(
            [pd.DataFrame([[1]], columns=["ts"]), pd.DataFrame([[1, 2]], columns=["ts", "ts"])]
        ),
        tg.SchemaError,
        ["streams[1]: there is more than one column `ts`"],
    ),
    "a repeated column of an index": (
        lambda: tg.Index(pd.DataFrame([[1, 2]], columns=["ts", "ts"]), on="ts"),
        tg.SchemaError,
        ["table: there is more than one column `ts`"],
    ),
    "an index on the left": (
        lambda: tg.asof_join(LEFT, RIGHT, left_index=True, right_index=True),
        TypeError,
        ["no argument left_index or right_index", "write on='<the name of the index>'"],
    ),
    "the label of windows": (
        lambda: tg.aggregate(LEFT, on="ts", size=5, label="right", **COUNT),
        TypeError,
        ["no argument label", "the result has both window_start and window_end"],
    ),
    "a unit of an operator": (
        lambda: tg.IntervalJoin(LEFT.schema, RIGHT.schema, **PAIRS, unit="ms"),
        TypeError,
        ["no argument unit", "push(rows, unit=...)"],
    ),
    "the origin of windows": (
        lambda: tg.aggregate(LEFT, on="ts", size=5, origin="start", **COUNT),
        TypeError,
        ["no argument origin", "shift them with offset"],
    ),
    "a result to explain": (
        lambda: tg.explain(tg.interval_join(LEFT, RIGHT, **PAIRS)),
        TypeError,
        ["function: ", "got pyarrow.lib.Table", "tidegate.explain(tidegate.interval_join, left"],
    ),
    "a name to explain": (
        lambda: tg.explain("interval_join", LEFT, RIGHT),
        TypeError,
        ["function: ", "got builtins.str", "tidegate.explain(tidegate.interval_join, left"],
    ),
    "a list as a column": (
        lambda: tg.agg.sum(["a", "b"]),
        TypeError,
        ["sum: ", "got a value of type list", "give its name"],
    ),
    "types instead of a schema": (
        lambda: tg.IntervalJoin({"ts": "datetime64"}, {"ts": "datetime64"}, **PAIRS),
        TypeError,
        ["left: expected a schema or data, got a dict of types", "pyarrow.schema({'ts':"],
    ),
    "classes instead of a schema": (
        lambda: tg.Merge({"ts": int}),
        TypeError,
        ["schema: expected a schema or data, got a dict of types"],
    ),
    "a missing file": (
        lambda: tg.asof_join("none.parquet", RIGHT, on="ts"),
        FileNotFoundError,
        ["left: none.parquet: cannot be read"],
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_names_problem_place_and_remedy(name: str) -> None:
    run, kind, parts = MESSAGES[name]
    with pytest.raises(kind) as raised:
        run()
    for part in parts:
        assert part in str(raised.value)


COUNT_OF = ["aggregate", "rows.csv", "--on", "ts", "--size", "10", "--format", "csv"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--agg", "n=count"], "'count' is not a function; write count()"),
        (["--agg", "n=count(*)"], "'count(*)' is not a function; write count()"),
        (["--agg", "n=size()"], "'size()' is not a function; write count()"),
        (["--agg", "n=avg(x)"], "'avg(x)' is not a function; write mean(x)"),
        (["--agg", "n=nunique(x)"], "'nunique(x)' is not a function; write count_distinct(x)"),
        (["--agg", "n=sum"], "'sum' is not a function; write sum(column)"),
        (["--agg", "n=zzz(x)"], "expected one of count, sum, mean"),
        (["--by", "k,x", "--agg", "n=count()"], "repeat the option: --by k --by x"),
    ],
)
def test_the_command_answers_usual_slips(tmp_path, monkeypatch, options, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("ts,k,x\n1,a,2\n")
    result = run(*COUNT_OF, *options)
    assert result.exit_code in {1, 2}
    assert said in " ".join(result.stderr.split())
    if ": write " not in said and "write " in said and "column)" not in said:
        name = said.partition("; write ")[2]
        assert run(*COUNT_OF, "--agg", f"n={name}").exit_code == 0


# Times as floats or strings, in frames of each library


def frames(values: list[Any]) -> dict[str, Any]:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"x": [1] * len(values), "at": values}
    return {
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "pyarrow": pa.table(columns),
        "dict": columns,
    }


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict"])
@pytest.mark.parametrize("call_of", ["join", "aggregate", "several"])
@pytest.mark.parametrize("kind", ["seconds", "strings"])
def test_the_cast_of_a_time_can_be_copied(library: str, call_of: str, kind: str) -> None:
    import numpy  # noqa: ICN001, PLC0415 - the line names it so
    import pandas  # noqa: ICN001, PLC0415 - as above
    import polars  # noqa: ICN001, PLC0415 - as above
    import pyarrow.compute  # noqa: PLC0415 - as above

    values = {
        "seconds": [1772445600.25, 1772445601.0],
        "strings": ["2026-03-02T10:00:00.25", "2026-03-02T10:00:01"],
    }[kind]
    given = frames(values)[library]

    def called(frame: Any) -> list[int]:
        if call_of == "join":
            table = tg.asof_join(frame, frame, on="at")
        else:
            streams = frame if call_of == "aggregate" else [frame]
            table = tg.aggregate(streams, on="at", size="1s", aggs={"at": tg.agg.max("at")})
        kept = table["at"].cast(pa.timestamp("us", table["at"].type.tz))
        return sorted(kept.cast(pa.int64()).to_pylist())

    times = pa.array([1772445600250000, 1772445601000000])
    with pytest.raises(tg.SchemaError) as raised:
        called(given)
    message = str(raised.value)
    assert re.match(r"(left|stream|streams\[1\]): column `at` is ", message)
    line = message.partition("write ")[2]
    names = {"left": given, "rows": given, "numpy": numpy, "pandas": pandas, "polars": polars}
    fixed = eval(line, names | {"pyarrow": pyarrow})  # noqa: S307 - a line of this package
    assert called(fixed) == times.to_pylist()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("naive", ["left", "right"])
def test_the_zone_of_naive_times_can_be_copied(library: str, naive: str) -> None:
    import pandas  # noqa: ICN001, PLC0415 - the line names it so
    import polars  # noqa: ICN001, PLC0415 - as above
    import pyarrow.compute  # noqa: PLC0415 - as above

    times = {zone: pa.array([1, 2], pa.timestamp("us", zone)) for zone in (None, "Asia/Tokyo")}
    sides = {
        side: pa.table({"x": [1, 2], "at": times[None if side == naive else "Asia/Tokyo"]})
        for side in ("left", "right")
    }
    convert: dict[str, Any] = {"pandas": pa.Table.to_pandas, "polars": polars.from_arrow}
    given = {side: convert.get(library, lambda one: one)(one) for side, one in sides.items()}
    with pytest.raises(tg.SchemaError) as raised:
        tg.asof_join(**given, on="at")
    line = str(raised.value).partition("in UTC, write ")[2]
    names = given | {"pandas": pandas, "polars": polars, "pyarrow": pyarrow}
    given[naive] = eval(line, names)  # noqa: S307 - a line of this package
    assert tg.asof_join(**given, on="at").num_rows == 2


def test_a_join_type_of_sql_on_the_command_line() -> None:
    shown = run("join", "a.csv", "b.csv", "--on", "ts", "--how", "full_outer", "-o", "c.csv")
    assert shown.exit_code == 2
    assert "'full_outer' is not one of inner, left, right, full, semi, anti; write full" in (
        shown.output
    )

"""The command `tidegate aggregate`: the arguments it passes, its output, and refusals."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import QUOTES, TRADES, read, run, shell, write
from tidegate import agg, aggregate
from tidegate.cli import tables
from tidegate.cli.aggregating import function
from tidegate.io.open_tables import OpenTable, open_table

AGGREGATE = ["aggregate", "trades.parquet", "--on", "ts", "--size", "20s", "--agg", "n=count()"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(TRADES, tmp_path / "trades.parquet")
    write(QUOTES, tmp_path / "quotes.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_option_reaches_the_function(folder: Path) -> None:
    result = run(
        *AGGREGATE,
        *("--advance", "10s", "--offset", "5s", "--by", "symbol", "--where", "price < 4"),
        *("--agg", "most=max(price) where symbol = 'A'", "--threads", "1", "-o", "out.parquet"),
    )

    assert result.exit_code == 0, result.output
    wanted = aggregate(
        TRADES,
        on="ts",
        size="20s",
        advance="10s",
        offset="5s",
        by="symbol",
        where="price < 4",
        aggs={"n": agg.count(), "most": agg.max("price", where="symbol = 'A'")},
    )
    assert wanted.num_rows > 0
    assert read(folder / "out.parquet").cast(wanted.schema).equals(wanted)


def test_only_needed_columns_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spied(*arguments: object, **more: object) -> OpenTable:
        table = open_table(*arguments, **more)
        read = table.whole
        table.whole = lambda columns: asked.append(columns) or read(columns)
        return table

    monkeypatch.setattr(tables, "open_table", spied)
    result = run(*AGGREGATE, "quotes.csv", "--where", "symbol = 'A'", "--by", "symbol", "-q")
    assert result.exit_code == 0, result.output
    assert asked == [["ts", "symbol"], ["ts", "symbol"]]


def test_several_streams_of_several_formats_to_standard_output(folder: Path) -> None:
    done = shell(*AGGREGATE, "quotes.csv", "--by", "symbol", "--format", "csv")

    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert lines[0] == '"window_start","window_end","symbol","n"'
    assert [line.split(",")[-1] for line in lines[1:]] == ["4", "1", "2", "1", "2"]
    assert b"tidegate: 10 rows of 2 streams, 5 rows out" in done.stderr


def test_integers_are_in_the_unit_of_the_column(folder: Path) -> None:
    pq.write_table(pa.table({"ts": [1, 2, 30]}), folder / "numbers.parquet")

    result = run("aggregate", "numbers.parquet", "--on", "ts", "--size", "10", "--agg", "n=count()",
                 "--format", "csv", "-q")  # fmt: skip

    assert result.stdout.splitlines()[1:] == ["0,10,2", "30,40,1"]


def test_explain_prints_the_plan(folder: Path) -> None:
    result = run(*AGGREGATE, "--explain")

    assert result.exit_code == 0
    assert "algorithm  slices" in result.stdout
    assert {path.name for path in folder.iterdir()} == {"trades.parquet", "quotes.csv"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("count()", agg.count()),
        (" Sum( size )", agg.sum("size")),
        ("first(odd name)", agg.first("odd name")),
        ("last(x)  WHERE x > 1 and y < 2", agg.last("x", where="x > 1 and y < 2")),
        ("corr(x, y)", agg.corr("x", "y")),
        ("arg_max(name, x) where x > 1", agg.arg_max("name", "x", where="x > 1")),
        ("quantile(x, 0.99)", agg.quantile("x", 0.99)),
        ("quantile(x, 1, nearest)", agg.quantile("x", 1, interpolation="nearest")),
    ],
)
def test_functions_are_read(text: str, wanted: agg.Aggregate) -> None:
    assert function(text) == wanted


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["aggregate", "trades.parquet", "--on", "ts", "--size", "1s"], "--agg"),
        ([*AGGREGATE, "--agg", "n=count()"], "'n' is specified twice"),
        ([*AGGREGATE, "--agg", "count()"], "expected NAME=FUNCTION"),
        ([*AGGREGATE, "--agg", "m=mode(price)"], "of count, sum, mean"),
        ([*AGGREGATE, "--agg", "m=quantile(price)"], "expected quantile(column, share)"),
        ([*AGGREGATE, "--agg", "m=quantile(price, much)"], "expected quantile(column, share)"),
        ([*AGGREGATE, "trades.data"], "--in-format"),
        ([*AGGREGATE, "-", "-"], "only one of the files can be -"),
    ],
)
def test_wrong_usage_is_2(arguments: list[str], reason: str) -> None:
    result = run(*arguments, "-o", "out.csv")

    assert result.exit_code == 2
    assert reason in result.output


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([*AGGREGATE, "--by", "name"], "stream: there is no column `name`, which `by` names"),
        ([*AGGREGATE, "--size", "0s"], "size must be greater than 0"),
        ([*AGGREGATE, "--where", "price >"], "where `price >`"),
        ([*AGGREGATE, "absent.parquet"], "absent.parquet: cannot be read: No such file"),
        ([*AGGREGATE, "--max-rows", "1"], "max_rows = 1"),
    ],
)
def test_errors_are_one_line_and_1(arguments: list[str], reason: str, tmp_path: Path) -> None:
    result = run(*arguments, "-o", "out.parquet")

    assert result.exit_code == 1
    assert result.stderr.startswith("tidegate: error: ")
    assert result.stderr.count("\n") == 1
    assert reason in result.stderr
    assert not (tmp_path / "out.parquet").exists()

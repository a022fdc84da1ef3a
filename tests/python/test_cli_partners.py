"""Aggregates of partners on the command line: `--agg` in `tidegate join` and `tidegate band`."""

from pathlib import Path

import pyarrow as pa
import pytest

from command_line import read, run, write

TRADES = pa.table({"ts": [10, 20, 30], "sym": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
QUOTES = pa.table({"ts": [8, 10, 19, 28], "sym": ["A", "A", "C", "A"], "bid": [9.0, 8.0, 7.0, 5.0]})
JOIN = ["--on", "ts", "--by", "sym", "--lower", "-2", "--upper", "0"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(TRADES, tmp_path / "trades.parquet")
    write(QUOTES, tmp_path / "quotes.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder: Path, command: str, *options: str) -> list[dict[str, object]]:
    files = ["trades.parquet", "quotes.parquet"]
    result = run(command, *files, *options, "--force", "-o", "out.parquet")
    assert result.exit_code == 0, result.output
    return read(folder / "out.parquet").to_pylist()


def test_each_left_row_comes_with_functions_of_its_partners(folder: Path) -> None:
    options = [*JOIN, "--agg", "n=count()", "--agg", "bid=mean(bid)", "--columns", "ts"]
    assert rows(folder, "join", *options) == [
        {"ts": 10, "n": 2, "bid": 8.5},
        {"ts": 20, "n": 0, "bid": None},
        {"ts": 30, "n": 1, "bid": 5.0},
    ]
    assert [row["ts"] for row in rows(folder, "join", *options, "--how", "inner")] == [10, 30]


def test_conditions_weights_and_the_row_that_prevails(folder: Path) -> None:
    options = [*JOIN, "--columns", "ts", "--prevailing", "--agg", "n=count() where bid > 6"]
    weighted = ["--agg", "w=weighted_mean(bid, ts)"]
    assert rows(folder, "join", *options, *weighted) == [
        {"ts": 10, "n": 2, "w": (9 * 8 + 8 * 10) / 18},
        {"ts": 20, "n": 0, "w": None},
        {"ts": 30, "n": 1, "w": (8 * 10 + 5 * 28) / 38},
    ]


def test_partners_of_a_band(folder: Path) -> None:
    options = ["--on", "price=bid", "--within", "5", "--agg", "last=last(bid)", "--columns", "ts"]
    assert rows(folder, "band", *options) == [
        {"ts": 10, "last": 5.0},
        {"ts": 20, "last": 5.0},
        {"ts": 30, "last": 5.0},
    ]


def test_files_that_are_followed_have_the_same_rows(folder: Path) -> None:
    write(TRADES, folder / "trades.arrows")
    write(QUOTES, folder / "quotes.arrows")
    options = [*JOIN, "--agg", "n=count()", "--agg", "bid=mean(bid)", "--prevailing"]
    for more in ([], ["--how", "inner"], ["--where", "right.bid > 7"], ["--columns", "ts"]):
        command = ["join", "trades.arrows", "quotes.arrows", *options, *more]
        followed = run(*command, "--follow", "--force", "-o", "out.arrows")
        assert followed.exit_code == 0, followed.output
        assert read(folder / "out.arrows").to_pylist() == rows(folder, "join", *options, *more)
        plan = run(*command, "--follow", "--explain").output
        assert "aggregates of partners" in plan
        assert "  cost       a poll" in plan


def test_explain_names_the_functions(folder: Path) -> None:
    command = ["join", "trades.parquet", "quotes.parquet", *JOIN, "--agg", "n=count()"]
    plan = run(*command, "--explain").output
    assert "aggregates of partners" in plan
    assert "n = count()" in plan


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--agg", "count()"], 2, "expected NAME=FUNCTION"),
        (["--agg", "n=mode(bid)"], 2, "expected one of count, sum"),
        (["--agg", "n=count()", "--agg", "n=sum(bid)"], 2, "'n' is specified twice"),
        (["--agg", "n=sum(sym)"], 1, "expected numbers"),
        (["--agg", "n=weighted_mean(bid)"], 1, "needs the column of the weights"),
        (["--agg", "n=count()", "--how", "full"], 1, 'give "left" for all of them'),
        (["--prevailing"], 1, "give aggs"),
    ],
)
def test_refusals(folder: Path, options: list[str], code: int, text: str) -> None:
    result = run("join", "trades.parquet", "quotes.parquet", *JOIN, *options, "-o", "out.csv")
    assert result.exit_code == code, result.output
    assert text in result.output

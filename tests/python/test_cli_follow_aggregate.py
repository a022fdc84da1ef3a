"""`tidegate aggregate --follow`: windows of growing files, and runs that resume after a stop."""

import itertools
import os
import re
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from command_line import PATIENCE, TRADES, read, run, until, write
from tidegate import Aggregate, agg, aggregate, explain
from tidegate.cli import feeding
from tidegate.io.followers import Piece

HEAD = "ts,symbol,price\n"
WINDOWS = ["--on", "ts", "--by", "symbol", "--size", "10s", "--agg", "n=count()"]
WINDOWS += ["--agg", "last=last(price)", "--agg", "most=max(symbol)"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add(path: Path, *rows: str) -> None:
    with path.open("a") as file:
        file.writelines(f"1970-01-01 00:00:{row}\n" for row in rows)


@pytest.mark.skipif(os.name != "posix", reason="sending signals to a process requires POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_windows_are_written_while_files_grow(folder, started, number):
    one, other, out = (folder / name for name in ("one.csv", "other.csv", "out.csv"))
    for path in (one, other):
        path.write_text(HEAD)
    add(one, "01,A,1.5", "08,B,2.5")
    add(other, "09,A,3.5")
    arguments = ["one.csv", "other.csv", *WINDOWS, "-o", "out.csv", "--lateness", "1s"]
    process = started("aggregate", *arguments, "--follow")
    until(out.exists)
    # The first window is complete when both files are a second past its end.
    add(one, "12,A,4.5", "13,A,0.5")
    add(other, "11,A,5.5")
    until(lambda: out.read_text().count("\n") == 3)
    rows = [line.split(",", 2)[2] for line in out.read_text().splitlines()[1:]]
    assert rows == ['"A",2,3.5,"A"', '"B",1,2.5,"B"']
    add(one, "11,A,9.5")  # two seconds late
    add(one, "25,A,1.5")
    add(other, "25,A,1.5")
    until(lambda: out.read_text().count("\n") == 4)
    process.send_signal(number)
    said = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 0
    assert re.fullmatch(r"tidegate: 9 rows in \(1 of them late\), 3 rows out, \S+ s\n", said)
    assert out.read_text().splitlines()[3].endswith('"A",3,0.5,"A"')


def test_files_with_an_end_are_aggregated_to_it(folder):
    write(TRADES, folder / "trades.arrows")
    result = run("aggregate", "trades.arrows", *WINDOWS, "-o", "out.arrows", "--follow")
    assert result.exit_code == 0, result.output
    aggs = {"n": agg.count(), "last": agg.last("price"), "most": agg.max("symbol")}
    wanted = aggregate(TRADES, on="ts", by="symbol", size="10s", aggs=aggs)
    assert read(folder / "out.arrows").equals(wanted)
    assert "4 rows in, 4 rows out" in result.stderr


def test_sessions_are_in_the_order_of_their_ends(folder):
    rows = pa.table({"ts": [0, 1, 4, 8, 20], "k": ["a", "b", "a", "a", "b"]})
    write(rows, folder / "rows.arrows")
    result = run(
        *("aggregate", "rows.arrows", "--on", "ts", "--by", "k", "--session", "5"),
        *("--agg", "n=count()", "--follow", "-o", "out.csv"),
    )
    assert result.exit_code == 0, result.output
    found = [tuple(row.values()) for row in read(folder / "out.csv").to_pylist()]
    assert found == [(1, 6, "b", 1), (0, 13, "a", 3), (20, 25, "b", 1)]


def test_a_plan_of_growing_files(folder):
    write(TRADES, folder / "trades.arrows")
    options = ["--follow", "--explain", "--lateness", "1s", "--threads", "2", "-o", "out.csv"]
    result = run("aggregate", "trades.arrows", "trades.arrows", *WINDOWS, *options)
    assert result.exit_code == 0, result.output
    aggs = {"n": agg.count(), "last": agg.last("price"), "most": agg.max("symbol")}
    wanted = explain(
        Aggregate,
        TRADES,
        on="ts",
        by="symbol",
        size="10s",
        aggs=aggs,
        sources=2,
        lateness="1s",
        threads=2,
    )
    assert result.stdout == wanted + "\n"
    assert not (folder / "out.csv").exists()
    result = run("aggregate", "trades.arrows", *WINDOWS, *options[:2], "--lateness", "soon")
    assert result.exit_code == 1
    assert "lateness" in result.stderr


def test_a_file_that_is_ahead_waits_for_the_others(folder, monkeypatch):
    monkeypatch.setattr(feeding, "HELD_BYTES", 1)
    monkeypatch.setattr(feeding, "PATIENCE_S", 0.001)
    tables = []
    for number in range(3):
        ts = range(number, 300 + 100 * number)
        rows = pa.table({"ts": ts, "v": [1.5] * len(ts)})
        tables.append(rows)
        with pa.ipc.new_stream(folder / f"{number}.arrows", rows.schema) as file:
            file.write_table(rows, max_chunksize=10)
    result = run(
        *("aggregate", *(f"{number}.arrows" for number in range(3)), "--on", "ts", "--size", "7"),
        *("--agg", "n=count()", "--follow", "-o", "out.arrows"),
    )
    assert result.exit_code == 0, result.output
    assert read(folder / "out.arrows").equals(
        aggregate(tables, on="ts", size=7, aggs={"n": agg.count()})
    )


class Held:
    """An operator of two sources, the first of which is ahead of the other."""

    def __init__(self) -> None:
        self.pushes = 0
        self.other = 0
        self.sources = [self, self]

    def push(self, _rows: pa.Table) -> None:
        self.pushes += 1

    def stats(self) -> dict[str, object]:
        return {"watermark": self.other, "sources": [{"watermark": 10 * self.pushes}]}

    def late(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_as_much_is_held_of_a_file_as_may_be(monkeypatch):
    rows = pa.table({"ts": [1]})
    monkeypatch.setattr(feeding, "HELD_BYTES", 3 * rows.nbytes)
    monkeypatch.setattr(feeding, "PATIENCE_S", 0.001)
    follower = SimpleNamespace(
        pieces=lambda: itertools.repeat(Piece(rows, None), 9), schema=rows.schema
    )
    stop = threading.Event()
    reading = feeding.Reading(follower, None, ["ts"], "ts", threading.Event(), stop)
    operator = Held()
    feeder = feeding.Feeder(operator, 0, reading)
    feeder.start()
    until(lambda: operator.pushes == 3)
    # Pushed rows are processed when the other source reaches their times.
    operator.other = 25
    until(lambda: operator.pushes == 5)
    stop.set()
    feeder.join(PATIENCE)
    assert (operator.pushes, feeder.failure) == (5, None)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--lateness", "1s"], "needs --follow"),
        (["--lateness", "1s", "--explain"], "needs --follow"),
        (["--state", "file"], "needs --follow"),
        (["--follow", "--max-rows", "5"], "combined with --follow"),
        (["--follow", "--format", "parquet"], "incomplete parquet file"),
    ],
)
def test_wrong_usage_is_2(folder, options, reason):
    result = run("aggregate", "rows.arrows", *WINDOWS, *options, "-o", "out.csv")
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (
            {"ts": TRADES["ts"], "symbol": TRADES["symbol"]},
            "other.arrows: there is no column `price`, which trades",
        ),
        (
            {"ts": TRADES["ts"], "symbol": TRADES["symbol"], "price": [1, 2, 3, 4]},
            "other.arrows: column `price` is int64, but double in trades.arrows",
        ),
    ],
)
def test_files_have_the_columns_of_the_first(folder, table, reason):
    write(TRADES, folder / "trades.arrows")
    write(pa.table(table), folder / "other.arrows")
    names = ["trades.arrows", "other.arrows"]
    result = run("aggregate", *names, *WINDOWS, "--follow", "-o", "out.csv")
    assert result.exit_code == 1
    assert reason in result.stderr

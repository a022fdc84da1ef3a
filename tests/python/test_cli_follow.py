"""`tidegate join --follow`: files that grow, pipes, Ctrl-C, and what cannot be followed."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

from command_line import (
    JOIN,
    PAIRS,
    PATIENCE,
    QUOTES,
    SECONDS,
    TRADES,
    read,
    run,
    shell,
    until,
    write,
)
from tidegate import StateError, TidegateError
from tidegate.cli.saved import Saved
from tidegate.files import Format
from tidegate.growing import Place, Stopped, follow

TRADES_HEAD = "ts,symbol,price\n"
QUOTES_HEAD = "ts,symbol,bid\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.skipif(os.name != "posix", reason="signals to a process are POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_pairs_are_written_while_files_grow(folder, started, number):
    trades, quotes, out = (folder / name for name in ("trades.csv", "quotes.csv", "out.csv"))
    trades.write_text(TRADES_HEAD)
    quotes.write_text(QUOTES_HEAD + "1970-01-01 00:00:05,A,2.0\n")
    arguments = ["trades.csv", "quotes.csv", *JOIN, "-o", "out.csv", "--lateness", "1s"]
    process = started("join", *arguments, "--follow")
    add(trades, "1970-01-01 00:00:10,A,1.5\n")
    # The first trade is final when no quote of 10 s can come; half a line is no line.
    add(quotes, "1970-01-01 00:00:12,A,3.0\n1970-01-01 00:0")
    add(trades, "1970-01-01 00:00:20,B,2.5\n")
    until(lambda: out.exists() and out.read_text().count("\n") == 2)
    assert out.read_text().splitlines()[1] == ('1970-01-01 00:00:10,"A",1.5,1970-01-01 00:00:05,2')
    # The rest of the line is of 15 s; the trade after it is too late.
    add(quotes, "0:15,B,2.25\n1970-01-01 00:00:40,B,9\n")
    add(trades, "1970-01-01 00:00:15,B,0\n1970-01-01 00:00:30,B,3.5\n")
    until(lambda: out.read_text().count("\n") == 3)
    process.send_signal(number)
    said = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 0
    assert re.fullmatch(r"tidegate: 8 rows in \(1 of them late\), 2 rows out, \S+ s\n", said)
    assert out.read_text().splitlines()[2].startswith('1970-01-01 00:00:20,"B",2.5')


def test_files_with_an_end_are_joined_to_it(folder):
    write(TRADES, folder / "trades.arrows")
    write(QUOTES, folder / "quotes.arrows")
    result = run("join", "trades.arrows", "quotes.arrows", *JOIN, "-o", "out.arrows", "--follow")
    assert result.exit_code == 0, result.output
    assert read(folder / "out.arrows").cast(PAIRS.schema).equals(PAIRS)
    assert "10 rows in, 4 rows out" in result.stderr


def test_standard_input_to_standard_output(folder):
    write(QUOTES, folder / "quotes.arrows")
    rows = "1970-01-01 00:00:10,A,1.5\n1970-01-01 00:00:30,A,3.5"
    done = shell(
        *("join", "-", "quotes.arrows", *JOIN, "--left-format", "csv", "--format", "csv"),
        *("--follow", "--columns", "price,bid", "--how", "left"),
        given=(TRADES_HEAD + rows).encode(),
    )
    assert done.stdout.decode().splitlines() == ['"price","bid"', "1.5,2", "1.5,1.25", "3.5,4"]


@pytest.mark.skipif(os.name != "posix", reason="signals to a process are POSIX")
@pytest.mark.parametrize("layout", ["csv", "arrows"])
def test_a_stopped_join_goes_on_from_its_state(folder, started, layout):
    # Numbers with a fraction from the first row on, from which CSV has its types.
    quoted, wanted = (
        table.set_column(table.num_columns - 1, "bid", pc.add(table["bid"], 0.125))
        for table in (QUOTES, PAIRS)
    )
    trades, quotes = (folder / f"{name}.{layout}" for name in ("trades", "quotes"))
    names = [trades.name, quotes.name]
    writers = {}
    for path, table in ((trades, TRADES), (quotes, quoted)):
        if layout == "csv":
            path.write_bytes(b"")
        else:
            writers[path] = pa.ipc.new_stream(pa.OSFile(str(path), "wb"), table.schema)

    def grow(path: Path, table: pa.Table) -> None:
        if layout == "arrows":
            writers[path].write_table(table)
        else:
            options = pa.csv.WriteOptions(include_header=path.stat().st_size == 0)
            with path.open("ab") as file:
                pa.csv.write_csv(table, file, options)

    def results(number: int) -> list[dict[str, object]]:
        path = folder / f"out{number}.csv"
        return read(path).to_pylist() if path.exists() and path.stat().st_size else []

    for number, rows in enumerate([1, 1, 2]):
        first = [0, 1, 2][number]
        arguments = [*names, *JOIN, "--how", "left", "-o", f"out{number}.csv"]
        process = started("join", *arguments, "--follow", "--state", "join.state")
        grow(trades, TRADES[first : first + rows])
        # Twice as many quotes as trades, as far as they go.
        grow(quotes, quoted[2 * first : 2 * (first + rows)])
        if number < 2:
            until(lambda number=number: bool((folder / f"out{number}.csv").exists()))
            time.sleep(0.3)
        else:
            until(lambda: len(results(2)) > 0)
            time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0, process.stderr.read()
        assert (folder / "join.state").exists()
    found = [row for number in range(3) for row in results(number)]
    # The last trade, of 40 s, is not final: a quote of 40 s may still come.
    assert found == wanted.to_pylist()


def test_a_state_of_something_else_is_refused(folder):
    write(TRADES, folder / "trades.arrows")
    write(QUOTES, folder / "quotes.arrows")
    command = ["join", "trades.arrows", "quotes.arrows", *JOIN, "-o", "out.csv", "--follow"]
    state = folder / "join.state"
    state.write_bytes(b"no state")
    result = run(*command, "--state", "join.state")
    assert result.exit_code == 1
    assert "join.state: is no state of a join, or damaged" in result.stderr
    names = ["a.csv", "b.csv"]
    Saved(b"bytes", (None, Place(7, TRADES.schema))).save("join.state", "join", names)
    assert Saved.load("join.state", "join", names).places == (None, Place(7, TRADES.schema))
    with pytest.raises(StateError, match="is no state of an aggregation"):
        Saved.load("join.state", "aggregation", names)
    result = run(*command, "--state", "join.state")
    assert result.exit_code == 1
    assert "join.state: is of a join of a.csv and b.csv" in result.stderr
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize("rows", [b"", b"ts,symbol,price\n"])
def test_a_state_of_more_than_the_file_has_is_refused(folder, rows):
    (folder / "trades.csv").write_bytes(rows)
    (folder / "quotes.csv").write_text(QUOTES_HEAD)
    names = ["trades.csv", "quotes.csv"]
    place = Place(16, QUOTES.schema)
    Saved(b"bytes", (Place(17, TRADES.schema), place)).save("join.state", "join", names)
    command = ["join", *names, *JOIN, "-o", "out.csv", "--follow", "--state", "join.state"]
    result = run(*command)
    assert result.exit_code == 1
    assert (
        f"trades.csv: the state is of its first 17 bytes, but it has {len(rows)}" in result.stderr
    )
    assert not (folder / "out.csv").exists()


def test_a_plan_of_growing_files(folder):
    write(TRADES, folder / "trades.arrows")
    (folder / "quotes.csv").write_text(QUOTES_HEAD + "1970-01-01 00:00:05,A,2.0\n")
    command = ["join", "trades.arrows", "quotes.csv", *JOIN, "--follow", "--explain"]
    result = run(*command, "--lateness", "1s", "-o", "out.csv")
    assert result.exit_code == 0, result.output
    # A table of rows as they come has sources, and results once they are final.
    assert "  sources    1 left, 1 right" in result.stdout.splitlines()
    assert not (folder / "out.csv").exists()


def test_a_join_that_has_ended_leaves_no_state(folder):
    write(TRADES, folder / "trades.arrows")
    write(QUOTES, folder / "quotes.arrows")
    names = ["trades.arrows", "quotes.arrows"]
    result = run("join", *names, *JOIN, "-o", "out.csv", "--follow", "--state", "join.state")
    assert result.exit_code == 0, result.output
    assert not (folder / "join.state").exists()


def test_a_value_of_another_type_ends_it(folder):
    write(QUOTES, folder / "quotes.arrows")
    rows = "1970-01-01 00:00:10,A,1.5\n"
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "tidegate", "join", "-", "quotes.arrows", *JOIN, "--follow"),
            *("--left-format", "csv", "-o", "out.csv"),
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write((TRADES_HEAD + rows).encode())
        process.stdin.flush()
        until((folder / "out.csv").exists)
        _, said = process.communicate(b"1970-01-01 00:00:11,A,cheap\n", timeout=PATIENCE)
    assert process.returncode == 1
    assert b"tidegate: error: standard input: cannot be read as csv: " in said
    assert b"cheap" in said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["trades.arrows", "quotes.arrows", "--lateness", "1s"], "is for --follow"),
        (["trades.arrows", "quotes.arrows", "--state", "file"], "is for --follow"),
        (["trades.arrows", "quotes.arrows", "--follow", "--max-rows", "5"], "is not for --follow"),
        (["trades.arrows", "quotes.arrows", "--follow", "--format", "parquet"], "at its end only"),
    ],
)
def test_wrong_usage_is_2(folder, options, reason):
    result = run("join", *options, *JOIN, "-o", "out.csv")
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.split())


@pytest.mark.parametrize("name", ["trades.parquet", "trades.csv.gz"])
def test_what_is_read_from_its_end_cannot_be_followed(folder, name):
    write(TRADES, folder / name)
    write(QUOTES, folder / "quotes.arrows")
    result = run("join", name, "quotes.arrows", *JOIN, "--format", "csv", "--follow")
    assert result.exit_code == 1
    assert f"{name}: cannot be followed: expected CSV or an Arrow stream" in result.stderr


# Growing files


def test_lines_end_where_no_quote_is_open(folder):
    path = folder / "notes.csv"
    path.write_text('ts,note\n1,"a\nb"\n2,"c')
    stop = threading.Event()
    follower = follow("notes.csv", Format.CSV, stop)
    pieces = follower.pieces()
    first = next(pieces)
    assert first.rows.to_pylist() == [{"ts": 1, "note": "a\nb"}]
    assert path.read_bytes()[: first.end.position] == b'ts,note\n1,"a\nb"\n'
    add(path, '\nd"\n3,\n')
    second = next(pieces)
    assert second.rows.to_pylist() == [{"ts": 2, "note": "c\nd"}, {"ts": 3, "note": None}]
    assert second.end.position == path.stat().st_size
    stop.set()
    with pytest.raises(Stopped):
        next(pieces)


def test_a_file_that_becomes_shorter_is_named(folder):
    path = folder / "rows.csv"
    path.write_text("ts,x\n1,2\n")
    pieces = follow("rows.csv", Format.CSV, threading.Event()).pieces()
    assert next(pieces).rows.num_rows == 1
    path.write_text("ts,x\n")
    with pytest.raises(TidegateError, match=r"^rows.csv: 9 bytes were read, but it has 5: it was"):
        next(pieces)


@pytest.mark.parametrize("name", ["rows.csv", "rows.arrows"])
def test_a_reading_goes_on_where_it_ended(folder, name):
    table = pa.table({"ts": pa.array([1, 2, 3, 4], SECONDS), "x": ["a", "b", "c", "d"]})
    if name.endswith("csv"):
        write(table, folder / name)
        layout, rest = Format.CSV, None
    else:
        with pa.ipc.new_stream(folder / name, table.schema) as writer:
            writer.write_table(table[:2])
            writer.write_table(table[2:])
        layout, rest = Format.ARROW, table[2:]
    stop = threading.Event()
    follower = follow(name, layout, stop)
    piece = next(follower.pieces())
    if rest is None:
        add(folder / name, '"1970-01-01 00:00:05","e"\n')
        rest = pa.table({"ts": pa.array([5], SECONDS), "x": ["e"]})
    again = follow(name, layout, stop, place=piece.end)
    assert next(again.pieces()).rows.cast(rest.schema).equals(rest)


def test_what_is_no_table_is_named(folder):
    (folder / "rows.arrows").write_bytes(b"no arrow")
    with pytest.raises(TidegateError, match=r"^rows.arrows: expected an Arrow stream, found bytes"):
        follow("rows.arrows", Format.ARROW, threading.Event())
    with pytest.raises(TidegateError, match=r"^none.csv: cannot be read as csv: No such file"):
        follow("none.csv", Format.CSV, threading.Event())

"""The command `tidegate index`, and joins with the files that it writes."""

from pathlib import Path

import pyarrow as pa
import pytest

import tidegate as tg
from command_line import QUOTES, TRADES, read, run, shell, write

RENAMED = QUOTES.rename_columns({"ts": "time", "symbol": "code"})
BOUNDS = ["--lower", "-5s", "--upper", "0s"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(TRADES, tmp_path / "trades.arrow")
    write(RENAMED, tmp_path / "quotes.arrow")
    tg.Index(RENAMED, on="time", by="code").save(tmp_path / "quotes.index")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_index_is_that_of_the_table(folder: Path) -> None:
    result = run("index", "quotes.arrow", "--on", "time", "--by", "code", "-o", "new.index")
    assert result.exit_code == 0, result.output
    size = (folder / "new.index").stat().st_size
    assert result.stderr.startswith(f"tidegate: 6 rows in the index, {size:,} bytes, ")
    index = tg.open_index(folder / "new.index", verify=True)
    assert (index.on, index.by, index.rows) == ("time", ["code"], 6)
    again = run("index", "quotes.arrow", "--on", "time", "-o", "new.index", "--force", "-q")
    assert (again.exit_code, again.output) == (0, "")
    assert tg.open_index(folder / "new.index").by == []


def test_the_rows_can_come_from_standard_input(folder: Path) -> None:
    csv = b"time,code,day\n5,A,007\n3,B,008\n"
    command = ["index", "-", "--in-format", "csv", "--on", "time", "--types", "time=int32"]
    done = shell(*command, "-o", str(folder / "new.index"), "--progress", given=csv)
    assert done.returncode == 0, done.stderr
    assert b"3/3" in done.stderr
    schema = tg.open_index(folder / "new.index").schema
    assert schema.types == [pa.int32(), pa.string(), pa.string()]


@pytest.mark.parametrize(
    ("command", "left", "pairs"),
    [
        (["join", *BOUNDS], ["--on", "ts", "--by", "symbol"], ["ts=time", "symbol=code"]),
        (["join", *BOUNDS, "--how", "full"], ["--on", "ts", "--by", "symbol"], []),
        (["join", *BOUNDS, "--agg", "n=count()"], ["--on", "ts", "--by", "symbol=code"], []),
        (["asof"], ["--on", "ts", "--by", "symbol"], []),
        (["asof", "--strategy", "nearest"], ["--on", "ts=time", "--by", "symbol"], []),
        (["band", "--within", "0.5", "--on", "price=bid"], ["--by", "symbol"], ["symbol=code"]),
    ],
)
def test_a_join_with_an_index_returns_the_rows_of_the_table(
    folder: Path, command: list[str], left: list[str], pairs: list[str]
) -> None:
    values = pairs or ["ts=time", "symbol=code"]
    of_table = [*left]
    of_table[1::2] = values
    indexed = run(*command, "trades.arrow", "--right-index", "quotes.index", *left, "-o", "a.arrow")
    assert indexed.exit_code == 0, indexed.output
    assert "6 rows in the index" in indexed.stderr
    table = run(*command, "trades.arrow", "quotes.arrow", *of_table, "-o", "b.arrow")
    assert table.exit_code == 0, table.output
    found = read(folder / "a.arrow")
    assert found.num_rows > 0
    assert found.equals(read(folder / "b.arrow"))


def test_an_index_of_intervals_is_that_of_an_overlap_join(folder: Path) -> None:
    ends = RENAMED.append_column("end", RENAMED["time"])
    write(ends, folder / "spans.arrow")
    command = ["index", "spans.arrow", "--on", "time,end", "--by", "code", "-o", "spans.index"]
    assert run(*command).exit_code == 0
    index = tg.open_index(folder / "spans.index")
    assert (index.on, index.by) == (("time", "end"), ["code"])
    command = ["overlap", "trades.arrow", "--right-index", "spans.index", "-o", "found.arrow"]
    assert run(*command, "--on", "ts,ts", "--by", "symbol").exit_code == 0
    on, by = (("ts", "ts"), ("time", "end")), {"symbol": "code"}
    assert read(folder / "found.arrow").equals(tg.overlap_join(TRADES, ends, on=on, by=by))


def test_the_plan_is_printed(folder: Path) -> None:
    command = ["asof", "trades.arrow", "--right-index", "quotes.index", "--on", "ts"]
    plan = run(*command, "--by", "symbol", "--explain")
    assert "the last right.time <= left.ts" in plan.output
    assert "symbol = code" in plan.output
    assert sorted(path.name for path in folder.iterdir()) == [
        "quotes.arrow",
        "quotes.index",
        "trades.arrow",
    ]


JOIN = ["join", "trades.arrow", "--on", "ts", "--by", "symbol", *BOUNDS]
INDEXED = [*JOIN, "--right-index", "quotes.index"]
INDEX = ["index", "quotes.arrow", "--on", "time"]


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (JOIN, 2, "give the files with the right rows, or --right-index FILE"),
        ([*INDEXED, "quotes.arrow"], 2, "replaces RIGHT; give only one of them"),
        ([*INDEXED, "--right-format", "csv"], 2, "does not apply to --right-index"),
        ([*INDEXED, "--follow"], 2, "cannot be combined with --follow, because an index"),
        ([*INDEXED, "--memory-limit", "1GB"], 2, "cannot be combined with --right-index"),
        ([*INDEXED, "-o", "quotes.index", "--format", "csv"], 1, "is the same file as quotes"),
        ([*JOIN, "--right-index", "none.index"], 1, "none.index: cannot be read: No such file"),
        (
            [*JOIN, "--right-index", "trades.arrow"],
            1,
            "expected an index that was written by Index.save",
        ),
        ([*INDEXED[:4], *INDEXED[6:]], 1, "the join is on `time` by no keys"),
        (INDEX, 2, "Missing option '-o'"),
        (
            [*INDEX[:3], "time,", "-o", "new.index"],
            2,
            "expected COLUMN or START,END, found 'time,'",
        ),
        ([*INDEX, "-o", "-"], 2, "an index is written to a file"),
        ([*INDEX, "-o", "folder/"], 2, "an index is written to a file"),
        ([*INDEX, "-o", "quotes.index"], 1, "quotes.index exists; give --force"),
        ([*INDEX, "-o", "quotes.arrow", "--force"], 1, "is the same file as quotes.arrow"),
        ([*INDEX, "-o", "none/quotes.index"], 1, "the folder none does not exist"),
        ([*INDEX, "--by", "x", "-o", "new.index"], 1, "there is no column `x`, which `by` names"),
    ],
)
def test_what_does_not_fit_is_refused(
    folder: Path, command: list[str], code: int, text: str
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run(*command)
    assert result.exit_code == code, result.output
    assert text in " ".join(result.output.split())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before

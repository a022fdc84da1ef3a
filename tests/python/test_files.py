"""Event tables in files, pipes and standard streams, in every format, and never half written."""

import errno
import io
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate
from cases import more
from command_line import JOIN, PAIRS, QUOTES, TRADES, read, read_pairs, run, shell, write
from tidegate.io.files import Format, batch_writer, format_of

TABLES = ["trades.parquet", "quotes.parquet"]
ENDINGS = [".parquet", ".pq", ".csv", ".csv.gz", ".arrow", ".ipc", ".feather", ".arrows"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with the two tables."""
    pq.write_table(TRADES, tmp_path / "trades.parquet")
    pq.write_table(QUOTES, tmp_path / "quotes.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


# Formats


@pytest.mark.parametrize("ending", ENDINGS)
def test_reads_every_format(folder: Path, ending: str) -> None:
    write(TRADES, folder / f"left{ending}")
    write(QUOTES, folder / f"right{ending}")

    result = run("join", f"left{ending}", f"right{ending}", *JOIN, "-o", "out.parquet")

    assert result.exit_code == 0, result.output
    assert read_pairs(folder / "out.parquet").equals(PAIRS)


@pytest.mark.parametrize("ending", ENDINGS)
def test_writes_every_format(folder: Path, ending: str) -> None:
    result = run("join", "trades.parquet", "quotes.parquet", *JOIN, "-o", f"out{ending}")

    assert result.exit_code == 0, result.output
    assert names(folder) == sorted([f"out{ending}", *TABLES])
    assert read_pairs(folder / f"out{ending}").equals(PAIRS)


def test_option_overrides_the_ending(folder: Path) -> None:
    write(TRADES, folder / "left.arrows")
    (folder / "left.arrows").rename(folder / "left.data")

    result = run(
        *("join", "left.data", "quotes.parquet", *JOIN, "-o", "out.txt"),
        *("--left-format", "arrow", "--format", "csv"),
    )

    assert result.exit_code == 0, result.output
    assert (folder / "out.txt").read_text().startswith('"ts","symbol","price","ts_right","bid"\n')


def test_csv_keeps_empty_text_apart_from_null(folder: Path) -> None:
    (folder / "left.csv").write_text('ts,key\n1,""\n2,\n3,NA\n')
    (folder / "right.csv").write_text('ts,key,x\n1,"",5\n2,,6\n3,NA,NA\n')
    join = ["join", "left.csv", "right.csv", "--on", "ts", "--by", "key"]
    bounds = ["--lower", "0", "--upper", "0", "--columns", "ts,key"]

    assert run(*join, *bounds, "-o", "text.parquet").exit_code == 0
    assert run(*join, *bounds, "--null", "NA", "-o", "null.parquet").exit_code == 0

    assert read(folder / "text.parquet").to_pylist() == [
        {"ts": 1, "key": ""},
        {"ts": 3, "key": "NA"},
    ]
    assert [row["ts"] for row in read(folder / "null.parquet").to_pylist()] == [1, 2]


def test_csv_text_may_hold_line_ends(folder: Path) -> None:
    (folder / "left.csv").write_bytes(b'ts,note\n1,"two\nlines"\n')

    result = run(
        *("join", "left.csv", "left.csv", "--on", "ts", "--lower", "0", "--upper", "0"),
        *("--columns", "note", "-o", "out.csv"),
    )

    assert result.exit_code == 0, result.output
    assert (folder / "out.csv").read_bytes() == b'"note"\n"two\nlines"\n'


def test_csv_refuses_nested_columns(folder: Path) -> None:
    nested = pa.table({"ts": [1], "tags": [["a", "b"]]})
    write(nested, folder / "nested.parquet")
    join = ["join", "nested.parquet", "nested.parquet", "--on", "ts", "--lower", "0"]

    result = run(*join, "--upper", "0", "-o", "out.csv")

    assert result.exit_code == 1
    assert "column `tags`: CSV cannot represent list<" in result.stderr
    assert names(folder) == sorted(["nested.parquet", *TABLES])


def test_equal_results_are_equal_gzip_files(folder: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        assert run("join", "trades.parquet", "quotes.parquet", *JOIN, "-o", name).exit_code == 0

    assert (folder / "a.csv.gz").read_bytes() == (folder / "b.csv.gz").read_bytes()


# Standard streams, pipes and devices


def test_standard_streams_hold_an_arrow_stream(folder: Path) -> None:
    write(TRADES, folder / "trades.arrows")
    write(QUOTES, folder / "quotes.arrows")

    result = shell(
        *("join", "-", "quotes.arrows", *JOIN), given=(folder / "trades.arrows").read_bytes()
    )

    assert result.returncode == 0, result.stderr
    assert pa.ipc.open_stream(result.stdout).read_all().equals(PAIRS)


def test_standard_input_can_be_read_just_before_the_end() -> None:
    # An Arrow thread that frees Python's memory on exit aborts 2 of 5 processes, so 3 processes
    # reveal the fault in 4 of 5 runs.
    content = pa.BufferOutputStream()
    pq.write_table(TRADES, content)
    script = "from tidegate.io.open_tables import *; from tidegate.io.files import Format; "
    script += "table = open_table('-', how=Reading(Format.PARQUET)); "
    script += "pa.table(table.read(table.schema.names))"
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
        for _ in range(campaign.tries(5 if campaign.ALL else 3))
    ]

    for process in processes:
        process.communicate(content.getvalue().to_pybytes())

    assert {process.returncode for process in processes} == {0}


@pytest.mark.parametrize("layout", ["parquet", "csv", *more("arrow")])
def test_standard_streams_take_a_format(folder: Path, layout: str) -> None:
    write(QUOTES, folder / f"quotes.{layout}")

    result = shell(
        *("join", "trades.parquet", "-", *JOIN, "--right-format", layout, "--format", layout),
        given=(folder / f"quotes.{layout}").read_bytes(),
    )

    assert result.returncode == 0, result.stderr
    out = folder / ("out.arrows" if layout == "arrow" else f"out.{layout}")
    out.write_bytes(result.stdout)
    assert read_pairs(out).equals(PAIRS)


@pytest.mark.usefixtures("folder")
def test_only_one_side_can_be_standard_input() -> None:
    result = run("join", "-", "-", *JOIN)

    assert result.exit_code == 2
    assert "only one of LEFT and RIGHT can be -" in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has named pipes in the file system")
def test_named_pipes_are_read_and_written_in_place(folder: Path) -> None:
    os.mkfifo("in.pipe")
    os.mkfifo("out.pipe")
    received: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: Path("in.pipe").write_text("t,k,n\n1,a,10\n2,b,20\n")),
        threading.Thread(target=lambda: received.append(Path("out.pipe").read_bytes())),
    ]
    for thread in threads:
        thread.start()

    (folder / "right.csv").write_text("t,k\n1,a\n2,c\n")

    result = run(
        *("join", "in.pipe", "right.csv", "--on", "t", "--by", "k", "--lower", "0"),
        *("--upper", "0", "--how", "left", "--columns", "n,t_right"),
        *("--left-format", "csv", "--format", "csv", "-o", "out.pipe"),
    )
    for thread in threads:
        thread.join(60)

    assert result.exit_code == 0, result.output
    assert received == [b'"n","t_right"\n10,1\n20,\n']
    assert stat.S_ISFIFO((folder / "out.pipe").stat().st_mode)


@pytest.mark.usefixtures("folder")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_is_an_error_of_one_line() -> None:
    command = ["join", "trades.parquet", "quotes.parquet", *JOIN, "--format", "csv", "-o"]
    with Path("/dev/full").open("wb") as full:
        streamed = subprocess.run(
            [sys.executable, "-m", "tidegate", *command, "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    named = run(*command, "/dev/full")

    said = "tidegate: error: {}: cannot be written as csv: No space left on device\n"
    assert (streamed.returncode, streamed.stderr.decode()) == (1, said.format("standard output"))
    assert (named.exit_code, named.stderr) == (1, said.format("/dev/full"))


@pytest.mark.usefixtures("folder")
@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals require POSIX")
@pytest.mark.parametrize(("options", "code"), [([], 0), (["--format", "arrow"], 2)])
def test_a_terminal_shows_text(options: list[str], code: int) -> None:
    terminal, process_side = os.openpty()
    try:
        result = subprocess.run(
            [
                sys.executable,
                "-m",
                "tidegate",
                "join",
                "trades.parquet",
                "quotes.parquet",
                *JOIN,
                *options,
            ],
            stdout=process_side,
            stderr=subprocess.PIPE,
            check=False,
        )
        assert result.returncode == code
        if code:
            assert b"arrow cannot be shown on a terminal" in result.stderr
        else:
            shown = os.read(terminal, 1 << 16).decode().splitlines()
            assert shown[0] == '"ts","symbol","price","ts_right","bid"'
            assert len(shown) == 1 + PAIRS.num_rows
    finally:
        os.close(terminal)
        os.close(process_side)


# Complete files or none


@pytest.mark.skipif(os.name != "posix", reason="links need special rights on Windows")
def test_link_stays_and_its_target_is_replaced(folder: Path) -> None:
    (folder / "target.csv").write_text("old")
    (folder / "out.csv").symlink_to("target.csv")

    result = run("join", "trades.parquet", "quotes.parquet", *JOIN, "-o", "out.csv", "--force")

    assert result.exit_code == 0, result.output
    assert (folder / "out.csv").is_symlink()
    assert read_pairs(folder / "target.csv").equals(PAIRS)


@pytest.mark.skipif(os.name != "posix", reason="file modes require POSIX")
def test_new_file_has_the_mode_of_any_new_file(folder: Path) -> None:
    (folder / "plain").touch()

    assert run("join", "trades.parquet", "quotes.parquet", *JOIN, "-o", "out.csv").exit_code == 0

    assert (folder / "out.csv").stat().st_mode == (folder / "plain").stat().st_mode


def test_ending_in_capitals_tells_the_format() -> None:
    assert format_of("A.PARQUET") is Format.PARQUET
    assert format_of("a.parquet.txt") is None


@pytest.mark.parametrize("ending", [".arrow", ".arrows", ".parquet"])
def test_dictionaries_that_differ_by_row_group_are_joined(folder: Path, ending: str) -> None:
    # A batch of the result uses only a part of the long dictionaries.
    rows = 80_000
    schema = pa.schema({"ts": pa.int64(), "code": pa.dictionary(pa.int32(), pa.string())})
    expected: list[str | None] = []
    with pq.ParquetWriter(folder / "left.parquet", schema) as writer:
        for first in range(0, 3 * rows, rows):
            texts = [None, *(f"c{first // 2 + place % 40_000}" for place in range(1, rows))]
            columns = [pa.array(range(first, first + rows)), pa.array(texts).dictionary_encode()]
            writer.write_table(pa.table(columns, schema=schema))
            expected += texts

    result = run(
        *("join", "left.parquet", "left.parquet", "--on", "ts", "--lower", "0", "--upper", "0"),
        *("--columns", "code,ts_right", "-o", f"out{ending}"),
    )

    assert result.exit_code == 0, result.output
    out = read(folder / f"out{ending}")
    assert out["code"].cast(pa.string()).to_pylist() == expected
    assert out["ts_right"].to_pylist() == list(range(3 * rows))


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_view_and_dictionary_columns_are_written(tmp_path: Path, ending: str) -> None:
    views = pa.array(["x", None, "y"], pa.string_view())
    coded = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["p", "q"], views.type))
    batch = pa.record_batch({"view": views, "coded": coded})
    out = tmp_path / f"out{ending}"

    with batch_writer(str(out), format_of(out.name), batch.schema) as writer:
        writer.write_batch(batch)

    assert read(out).to_pydict() == {
        "view": ["x", None, "y"],
        "coded": ["q", None, "p"],
    }


def test_parquet_gathers_batches_into_row_groups(tmp_path: Path) -> None:
    batch = pa.record_batch({"x": pa.array(range(1000))})
    out = tmp_path / "out.parquet"

    with batch_writer(str(out), Format.PARQUET, batch.schema) as writer:
        for _ in range(300):
            writer.write_batch(batch)

    file = pq.ParquetFile(out)
    groups = [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)]
    assert groups == [263_000, 37_000]
    assert file.read()["x"].to_pylist() == list(range(1000)) * 300


@pytest.mark.parametrize("layout", Format)
def test_error_while_writing_leaves_no_file(tmp_path: Path, layout: Format) -> None:
    batch = pa.record_batch({"x": pa.array([1, 2, 3])})

    def write_half() -> None:
        with batch_writer(str(tmp_path / "out"), layout, batch.schema) as writer:
            writer.write_batch(batch)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()

    assert list(tmp_path.iterdir()) == []


def test_cut_off_parquet_on_standard_output_does_not_look_whole() -> None:
    script = """
import pyarrow as pa
from tidegate.io.files import Format, batch_writer
batch = pa.record_batch({"x": pa.array(range(300_000))})
with batch_writer("-", Format.PARQUET, batch.schema) as writer:
    writer.write_batch(batch)
    raise ZeroDivisionError
"""

    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)

    assert b"ZeroDivisionError" in result.stderr
    assert result.stdout.startswith(b"PAR1")
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(io.BytesIO(result.stdout))


def test_damaged_file_is_named_when_its_rows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    pq.write_table(pa.table({"x": list(range(10_000))}), path, compression="none")
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)

    with pytest.raises(
        tidegate.TidegateError, match=r"damaged\.parquet: cannot be read as parquet"
    ):
        tidegate.merge([path], on="x")


# Folders, patterns and addresses


@pytest.mark.parametrize("left", ["trades", "trades/", "trades/*.parquet", "file://{}/trades"])
def test_a_side_may_have_several_files(folder: Path, left: str) -> None:
    Path("trades").mkdir()
    for at in (1, 0):
        rows = TRADES.num_rows // 2
        pq.write_table(TRADES.slice(at * rows, rows + at), f"trades/{at}.parquet")

    result = run("join", left.format(folder), "quotes.parquet", *JOIN, "-o", "out.parquet")

    assert result.exit_code == 0, result.output
    assert read_pairs(folder / "out.parquet").equals(PAIRS)
    assert f"{TRADES.num_rows} rows left, {QUOTES.num_rows} rows right" in result.stderr


@pytest.mark.usefixtures("folder")
def test_merge_takes_each_file_of_a_pattern_as_a_stream() -> None:
    Path("logs").mkdir()
    for at, times in enumerate(("1\n3\n", "2\n4\n")):
        Path(f"logs/{at}.csv").write_text(f"ts\n{times}")

    result = run("merge", "logs/*.csv", "--on", "ts", "-o", "out.csv")

    assert result.exit_code == 0, result.output
    assert Path("out.csv").read_text() == '"ts"\n1\n2\n3\n4\n'
    assert "4 rows of 2 files" in result.stderr
    Path("logs/1.csv").write_text("ts\n4\n2\n")
    result = run("merge", "logs", "--on", "ts", "-o", "other.csv")
    assert result.exit_code == 1
    assert "logs/1.csv" in result.stderr


@pytest.mark.usefixtures("folder")
def test_an_output_is_no_file_of_a_pattern_that_is_read() -> None:
    before = Path("trades.parquet").read_bytes()
    command = ["join", "tr*.parquet", "quotes.parquet", *JOIN]

    result = run(*command, "-o", "trades.parquet", "--force")

    assert "trades.parquet: is the same file as trades.parquet, which is read" in result.stderr
    assert Path("trades.parquet").read_bytes() == before
    result = run("merge", "none/*.csv", "--on", "ts", "-o", "out.csv")
    assert (result.exit_code, result.stderr) == (
        *(1, "tidegate: error: none/*.csv: no file matches this pattern\n"),
    )


# Inputs that are also outputs


@pytest.mark.usefixtures("folder")
@pytest.mark.skipif(os.name != "posix", reason="links need special rights on Windows")
@pytest.mark.parametrize("link", [None, os.link, os.symlink])
@pytest.mark.parametrize(
    "command",
    [
        ["join", "a.arrows", "b.arrows", *JOIN],
        ["join", "a.arrows", "b.arrows", *JOIN, "--follow"],
        ["join", "a.arrows", "b.arrows", *JOIN, "--follow", "--state", "state"],
        ["band", "a.arrows", "b.arrows", "--on", "ts", "--within", "1s"],
        ["merge", "a.arrows", "b.arrows", "--on", "ts"],
        ["aggregate", "a.arrows", "b.arrows", "--on", "ts", "--size", "1s", "--agg", "n=count()"],
    ],
)
def test_no_command_writes_over_its_input(folder: Path, command: list[str], link: Any) -> None:
    write(TRADES, folder / "a.arrows")
    write(QUOTES, folder / "b.arrows")
    out = "b.arrows" if link is None else "linked.arrows"
    if link is not None:
        link("b.arrows", out)
    before = (folder / "b.arrows").read_bytes()

    result = run(*command, "-o", out, "--force")

    said = f"tidegate: error: {out}: is the same file as b.arrows, which is read; give another -o\n"
    assert (result.exit_code, result.stderr) == (1, said)
    assert (folder / "b.arrows").read_bytes() == before


@pytest.mark.usefixtures("folder")
@pytest.mark.skipif(os.name != "posix", reason="standard streams have no paths on Windows")
def test_standard_streams_are_files_too(folder: Path) -> None:
    (folder / "rows.csv").write_text("ts,x\n1,2\n2,3\n")
    command = [sys.executable, "-m", "tidegate", "merge", "-", "--in-format", "csv", "--on", "ts"]

    with (folder / "rows.csv").open("rb") as given:
        into = subprocess.run(
            [*command, "-o", "rows.csv", "--force"],
            stdin=given,
            capture_output=True,
            check=False,
            timeout=60,
        )
    with (folder / "rows.csv").open("rb") as given, (folder / "rows.csv").open("ab") as out:
        onto = subprocess.run(
            [*command, "--format", "csv"],
            stdin=given,
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )

    assert b"error: rows.csv: is the same file as standard input, which is read" in into.stderr
    assert b"error: standard output: is the same file as standard input" in onto.stderr
    assert (folder / "rows.csv").read_text() == "ts,x\n1,2\n2,3\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "arguments", [["join", "--help"], ["doctor"], *more(["--help"], ["--version"])]
)
def test_texts_that_nothing_takes_are_an_error_of_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tidegate", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )

    said = "tidegate: error: standard output: cannot be written: No space left on device\n"
    assert (result.returncode, result.stderr.decode()) == (1, said)


# Paths of missing files


COUNT = {"n": tidegate.agg.count()}
WAYS = [
    lambda path: tidegate.merge(path, on="ts"),
    lambda path: tidegate.merge([path], on="ts"),
    tidegate.digest,
    lambda path: tidegate.interval_join(path, path, on="ts", lower=0, upper=0),
    lambda path: tidegate.aggregate(
        path, on="ts", size=1, aggs={"n": tidegate.agg.count()}, memory_limit=10**9
    ),
]


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize("path", ["missing.csv", "missing/a.parquet"])
def test_a_missing_file_is_a_file_not_found_error(read, path: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot be read: No such file") as error:
        read(path)
    assert isinstance(error.value, tidegate.TidegateError)
    assert error.value.errno == errno.ENOENT


@pytest.mark.parametrize("read", WAYS)
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "the path is empty; give a file"),
        ("x" * 5000 + ".csv", "cannot be read: File name too long"),
        ("x/" * 3000, "cannot be read: File name too long"),
        ("a\0b.csv", "Embedded NUL"),
        ("\udc80.csv", "surrogates not allowed"),
    ],
    ids=["empty", "long name", "long path", "NUL", "surrogate"],
)
def test_a_path_that_no_file_can_have_is_named(read, path: str, said: str) -> None:
    with pytest.raises(tidegate.TidegateError, match=said):
        read(path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("out", ["x" * 300 + ".csv", "x" * 5000 + ".csv"])
def test_an_output_whose_name_is_too_long_is_named(out: str) -> None:
    result = run("merge", "trades.parquet", "--on", "ts", "-o", out)
    assert result.exit_code == 1
    assert result.stderr.endswith(".csv: cannot be written: File name too long\n")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_name_of_a_column_with_a_nul_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b"t\0s,k\n1,2\n" if ending == "csv" else b'{"t\\u0000s":1,"k":2}\n')
    for call in (lambda: tidegate.merge(path, on="k"), lambda: tidegate.digest(path)):
        with pytest.raises(tidegate.SchemaError, match=r"column 't\\x00s' contains a NUL"):
            call()

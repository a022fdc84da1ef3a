"""Followed files that are renamed, truncated, overwritten, removed or replaced.

Files change while they are being read, and between two runs. Changes far from both a file's
beginning and the reader's position are not detected.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from command_line import run, until
from following_run import INPUTS, Growing, command, counted, rows_of, stopped, wanted
from tidegate import StateError, TidegateError
from tidegate.io.files import Format
from tidegate.io.followers import Piece, Place, follow

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(os.name != "posix", reason="Windows cannot rename an open file"),
]

SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.string()})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Table:
    """A file that is written in rows, as CSV or as an Arrow stream."""

    def __init__(self, name: str, first: int | None) -> None:
        self._is_csv = name.endswith("csv")
        self._file = pa.OSFile(name, "wb")
        self._file.write(b"ts,x\n" if self._is_csv else SCHEMA.serialize())
        if first is not None:
            self.add(first)

    def add(self, ts: int) -> None:
        if self._is_csv:
            self._file.write(f"{ts},x{ts}\n".encode())
        else:
            columns = [pa.array([ts]), pa.array([f"x{ts}"])]
            self._file.write(pa.record_batch(columns, schema=SCHEMA).serialize())

    def add_half(self) -> None:
        self._file.write(b'9,"half' if self._is_csv else b"\xff\xff\xff\xff\x10\x01")


def following(name: str, place: Place | None = None) -> Iterator[Piece]:
    layout = Format.CSV if name.endswith("csv") else Format.ARROW
    stop = threading.Event()
    timer = threading.Timer(50, stop.set)
    timer.daemon = True
    timer.start()
    return follow(name, layout, stop, place=place).pieces()


def times(pieces: Iterator[Piece], count: int) -> list[int]:
    """Read at least this many rows."""
    found: list[int] = []
    while len(found) < count:
        found += next(pieces).rows["ts"].to_pylist()
    return found


NAMES = pytest.mark.parametrize("name", ["rows.csv", "rows.arrows"])


@NAMES
def test_a_renamed_file_is_read_to_its_end_and_the_next_from_its_beginning(folder, name):
    old = Table(name, 1)
    pieces = following(name)
    assert times(pieces, 1) == [1]
    for number in range(3):
        Path(name).rename(f"{name}.{number}")
        # The file is written to until another one exists.
        old.add(10 * number + 2)
        old.add(10 * number + 3)
        assert times(pieces, 2) == [10 * number + 2, 10 * number + 3]
        old.add(10 * number + 4)
        old = Table(name, 10 * number + 5)
        old.add(10 * number + 6)
        assert times(pieces, 3) == [10 * number + 4, 10 * number + 5, 10 * number + 6]


@NAMES
def test_the_place_in_the_next_file_is_known_before_it_has_rows(folder, name):
    old = Table(name, 1)
    pieces = following(name)
    old.add(2)
    assert times(pieces, 2) == [1, 2]
    Path(name).rename("old")
    new = Table(name, None)
    end = next(pieces).end
    assert end.mark.inode == Path(name).stat().st_ino
    Path("old").unlink()
    new.add(3)
    assert times(following(name, end), 1) == [3]


@NAMES
def test_a_file_that_was_renamed_between_two_runs_is_found(folder, name):
    old = Table(name, 1)
    piece = next(following(name))
    old.add(2)
    Path(name).rename("older")
    Table(name, 3)
    assert times(following(name, piece.end), 2) == [2, 3]


@NAMES
@pytest.mark.parametrize("number", ["1", "2026-01-02"])
def test_a_file_that_was_between_is_an_error(folder, name, number):
    Table(f"{name}.0", 0)
    os.utime(f"{name}.0", (0, Path(f"{name}.0").stat().st_mtime - 2))
    old = Table(name, 1)
    pieces = following(name)
    end = next(pieces).end
    old.add(2)
    Path(name).rename("older")
    # The clock of a file system can stand still for some milliseconds.
    os.utime("older", (0, Path("older").stat().st_mtime - 1))
    between = Table(name, 3)
    Path(name).rename(f"{name}.{number}")
    between.add(4)
    Table(name, 5)
    reason = rf"^{name}: was renamed twice .the second file .* is now {name}.{number}. while"
    for reading in (pieces, following(name, end)):
        assert times(reading, 1) == [2]
        with pytest.raises(TidegateError, match=reason):
            times(reading, 1)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def write_over(path: Path) -> None:
    content = path.read_bytes().replace(b"x1", b"y1") * 2
    path.write_bytes(content)


def copy_over(path: Path) -> None:
    Path("other").write_bytes(b"ts,x\n7,x7\n8,x8\n9,x9\n" * 100)
    shutil.copyfile("other", path)


def replace(path: Path) -> None:
    Table("other" + path.suffix, 1)
    Path("other" + path.suffix).replace(path)


FAULTS = [
    (cut, "was truncated from "),
    (write_over, "was overwritten: its first "),
    (copy_over, "was overwritten: its first "),
    (Path.unlink, "was removed while it was followed; rename a file when it is full"),
    (replace, "was replaced by another file while it was followed; rename"),
]


@NAMES
@pytest.mark.parametrize(("change", "reason"), FAULTS)
def test_a_file_that_is_no_longer_what_it_was_is_an_error(folder, name, change, reason):
    table = Table(name, 1)
    pieces = following(name)
    table.add(2)
    assert times(pieces, 2) == [1, 2]
    change(folder / name)
    with pytest.raises(TidegateError, match=rf"^{name}: {reason}"):
        times(pieces, 1)


@NAMES
@pytest.mark.parametrize("change", [change for change, _ in FAULTS])
def test_between_two_runs_likewise(folder, name, change):
    table = Table(name, 1)
    piece = next(following(name))
    change(folder / name)
    if change is replace:
        # A file with the same bytes would count as the same table.
        write_over(folder / name)
    with pytest.raises(StateError, match=rf"^{name}: the state includes its first .*start over$"):
        following(name, piece.end)
    assert table is not None


@NAMES
def test_a_copy_is_gone_on_with(folder, name):
    # After a restore from a backup, the inode differs but the bytes are the same.
    table = Table(name, 1)
    piece = next(following(name))
    table.add(2)
    shutil.copyfile(name, "copy")
    Path(name).unlink()
    Path("copy").rename(name)
    assert times(following(name, piece.end), 1) == [2]


@NAMES
def test_rows_that_come_to_a_renamed_file_after_its_successor_are_an_error(folder, name):
    old = Table(name, 1)
    pieces = following(name)
    assert times(pieces, 1) == [1]
    Path(name).rename("old")
    new = Table(name, 2)
    assert times(pieces, 1) == [2]
    old.add(3)
    new.add(4)
    with pytest.raises(TidegateError, match="were written to the previous file with this name"):
        times(pieces, 2)


@NAMES
def test_half_a_row_at_the_end_of_a_renamed_file_is_an_error(folder, name):
    old = Table(name, 1)
    pieces = following(name)
    assert times(pieces, 1) == [1]
    old.add_half()
    Path(name).rename("old")
    Table(name, 2)
    with pytest.raises(TidegateError, match=rf"^{name}: "):
        times(pieces, 1)


@pytest.mark.parametrize("other", [["ts", "y"], ["ts", "x", "y"], ["5", "x5"]])
def test_a_csv_file_of_other_columns_is_not_gone_on_with(folder, other):
    table = Table("rows.csv", 1)
    pieces = following("rows.csv")
    assert times(pieces, 1) == [1]
    Path("rows.csv").rename("old")
    Path("rows.csv").write_text(",".join(other) + "\n" + ",".join("1" for _ in other) + "\n")
    with pytest.raises(TidegateError, match=r"^rows.csv: .*; expected ts \(int64\), x \(string\)"):
        times(pieces, 1)
    assert table is not None


def test_an_arrow_stream_of_other_columns_is_not_gone_on_with(folder):
    table = Table("rows.arrows", 1)
    pieces = following("rows.arrows")
    assert times(pieces, 1) == [1]
    Path("rows.arrows").rename("old")
    other = pa.table({"ts": [1.5]})
    with pa.ipc.new_stream("rows.arrows", other.schema) as writer:
        writer.write_table(other)
    with pytest.raises(
        TidegateError, match=r"different columns from .*: found ts \(double\); expected"
    ):
        times(pieces, 1)
    assert table is not None


def test_a_hard_link_is_one_file(folder):
    table = Table("rows.csv", 1)
    os.link("rows.csv", "also.csv")
    pieces = following("also.csv")
    table.add(2)
    assert times(pieces, 2) == [1, 2]


@pytest.mark.parametrize("stops", [True, False])
def test_runs_with_a_state_follow_renamed_files(folder, stops):
    growing = Growing(folder)
    growing.grow(40)
    later = []

    def rotate() -> None:
        for name in INPUTS:
            (folder / name).rename(folder / f"{name}.1")
        later.append(Growing(folder, first=40))
        later[0].grow(40)

    def work() -> None:
        until(lambda: counted(folder))
        if not stops:
            rotate()
            until(lambda: counted(folder))

    assert stopped(command("join", "out.csv"), work).exit_code == 0
    if stops:
        rotate()
    later[0].end()
    assert run(*command("join", "out.csv")).exit_code == 0
    whole = Growing(folder)
    whole.grow(80)
    whole.end()
    assert rows_of(folder, "out.csv") == wanted(folder, "join", "out.csv")

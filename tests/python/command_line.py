"""Runs the command `tidegate` for tests, on two small tables with a literal expected result."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from tidegate.cli.app import app

# CSV readers infer seconds as the unit, so every format yields the same table.
SECONDS = pa.timestamp("s")
# The seconds until a test stops waiting.
PATIENCE = 60
JOIN = ["--on", "ts", "--by", "symbol", "--lower", "-5s", "--upper", "0s"]

TRADES = pa.table(
    {
        "ts": pa.array([10, 20, 30, 40], SECONDS),
        "symbol": ["A", "B", "A", None],
        "price": [1.5, 2.5, 3.5, 4.5],
    }
)
QUOTES = pa.table(
    {
        "ts": pa.array([4, 5, 10, 15, 30, 40], SECONDS),
        "symbol": ["A", "A", "A", "B", "A", None],
        "bid": [1.0, 2.0, 1.25, 2.25, 4.0, 5.0],
    }
)
PAIRS = pa.table(
    {
        "ts": pa.array([10, 10, 20, 30], SECONDS),
        "symbol": ["A", "A", "B", "A"],
        "price": [1.5, 1.5, 2.5, 3.5],
        "ts_right": pa.array([5, 10, 15, 30], SECONDS),
        "bid": [2.0, 1.25, 2.25, 4.0],
    }
)


def run(*arguments: str) -> Result:
    """Run the command inside this process."""
    return CliRunner().invoke(app, list(arguments))


def shell(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command as a separate process."""
    command = [sys.executable, "-m", "tidegate", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False, timeout=120)


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def write(table: pa.Table, path: Path) -> None:
    """Write a file with pyarrow alone, in the format of its extension."""
    if path.name.endswith((".parquet", ".pq")):
        pq.write_table(table, path)
    elif ".csv" in path.name:
        with pa.output_stream(path, compression="detect") as stream:
            pyarrow.csv.write_csv(table, stream)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    else:
        pyarrow.feather.write_feather(table, path)


def read(path: Path) -> pa.Table:
    """Read a file with pyarrow alone, strictly in the format of its extension."""
    if path.name.endswith((".parquet", ".pq")):
        return pq.read_table(path)
    if ".csv" in path.name:
        convert = pyarrow.csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
        return pyarrow.csv.read_csv(path, convert_options=convert)
    if path.suffix == ".arrows":
        return pa.ipc.open_stream(path.read_bytes()).read_all()
    return pa.ipc.open_file(path.read_bytes()).read_all()


def read_pairs(path: Path) -> pa.Table:
    """Read a file of trades and quotes. Parquet stores milliseconds; they are cast to seconds."""
    return read(path).cast(PAIRS.schema)

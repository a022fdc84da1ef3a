"""Runs Flink SQL on CSV files."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

TYPES = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "TIMESTAMP(3)": pa.timestamp("ms")}


class Flink:
    """A session with tables in a separate folder."""

    def __init__(self, threads: int) -> None:
        api: Any = importlib.import_module("pyflink.table")
        self._folder = tempfile.TemporaryDirectory()
        self._session = api.TableEnvironment.create(api.EnvironmentSettings.in_streaming_mode())
        self._session.get_config().set("parallelism.default", str(threads))
        self._session.get_config().set("table.local-time-zone", "UTC")

    def add(self, name: str, rows: pa.Table, columns: str) -> None:
        """Write a table, and declare its columns to Flink in SQL."""
        path = Path(self._folder.name, f"{name}.csv.gz")
        # Flink reads compressed files sequentially, from beginning to end.
        with pa.CompressedOutputStream(str(path), "gzip") as file:
            csv.write_csv(rows, file, csv.WriteOptions(include_header=False))
        self._create(name, path, columns)

    def insert(self, name: str, query: str, types: dict[str, str]) -> pa.Table:
        """Return the result of a query, in columns of these types."""
        path = Path(self._folder.name, name)
        self._session.execute_sql(f"DROP TABLE IF EXISTS {name}")
        shutil.rmtree(path, ignore_errors=True)
        self._create(name, path, ", ".join(f"{column} {kind}" for column, kind in types.items()))
        self._session.execute_sql(f"INSERT INTO {name} {query}").wait()
        schema = pa.schema({column: TYPES[kind] for column, kind in types.items()})
        read = csv.ReadOptions(column_names=schema.names)
        convert = csv.ConvertOptions(column_types=schema)
        files = [file for file in path.iterdir() if file.is_file() and file.stat().st_size]
        tables = [csv.read_csv(file, read, convert_options=convert) for file in files]
        return pa.concat_tables([schema.empty_table(), *tables])

    def _create(self, name: str, path: Path, columns: str) -> None:
        self._session.execute_sql(
            f"CREATE TABLE {name} ({columns})"
            f" WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
        )

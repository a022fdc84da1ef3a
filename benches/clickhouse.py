"""Loads tables into chDB, which runs ClickHouse inside a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

_TYPES = {"int64": "Int64", "double": "Float64"}


def load_tables(tables: Mapping[str, pa.Table]) -> Any:  # noqa: ANN401 - chdb has no types
    """Return a session with these tables in memory; columns are integers or floats."""
    from chdb.session import Session  # noqa: PLC0415 - loaded by its own process only

    session = Session()
    session.query("create database of_bench")
    session.query("use of_bench")
    for name, given in tables.items():
        columns = ", ".join(f"{field.name} {_TYPES[str(field.type)]}" for field in given.schema)
        session.query(f"create table {name} ({columns}) engine = Memory")
        # chDB finds the table by the name of this variable.
        arrow_input = given
        session.query(f"insert into {name} select * from Python(arrow_input)")  # noqa: S608
        del arrow_input
    return session

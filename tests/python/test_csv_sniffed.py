"""CSV files in dialects that programs write, compared with DuckDB, which detects dialects.

A file is read with the values that DuckDB finds, or an error names the option to specify.
"""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.io.open_tables import open_table
from tidegate.io.read_files import Reading

PLAIN = "ts,k,v\n2026-01-02 10:00:00,a,1.5\n2026-01-02 10:05:00,b,2\n"
ROW = "2026-01-02 10:00:00"
# By name: the text of a file, and a phrase of the error if the file cannot be read.
FILES: dict[str, tuple[str | bytes, str]] = {
    "commas": (PLAIN, ""),
    "semicolons": (PLAIN.replace(",", ";"), "delimiter=';'"),
    "tabs": (PLAIN.replace(",", "\t"), "delimiter='\\t'"),
    "bars": (PLAIN.replace(",", "|"), "delimiter='|'"),
    "line ends of Windows": (PLAIN.replace("\n", "\r\n"), ""),
    "byte order mark": ("\ufeff" + PLAIN, ""),
    "no line end": (PLAIN.rstrip(), ""),
    "blank lines": (PLAIN.replace("\n", "\n\n"), ""),
    "Latin-1": ("ts,k\n2026-01-02,Köln\n".encode("latin-1"), "encoding='latin-1'"),
    "no header": (PLAIN.partition("\n")[2], "names="),
    "decimal commas": (f"ts;v\n{ROW};1,5\n", "delimiter=';'"),
    "single quotes": (f"ts,k,v\n{ROW},'a,b',1\n", "quote="),
    "commas in quotes": (f'ts,k,v\n{ROW},"a,b",1\n', ""),
    "line ends in quotes": (f'ts,k,v\n{ROW},"a\nb",1\n', ""),
    "doubled quotes": (f'ts,k,v\n{ROW},"say ""hi""",1\n', ""),
    "escaped quotes": (f'ts,k,v\n{ROW},"say \\"hi\\"",1\n', "escape="),
    "escaped quotes at ends": (f'ts,k,v\n{ROW},"5\\"",1\n{ROW},"6\\"",2\n', 'as ""'),
    "backslashes": (f'ts,k,v\n{ROW},"C:\\",1\n{ROW},C:\\b,2\n', ""),
    "ISO 8601": ("ts,v\n2026-01-02T10:00:00Z,1\n2026-07-02T10:05:00Z,2\n", ""),
    "offsets": ("ts,v\n2026-01-02T10:00:00+01:00,1\n2026-07-02T10:00:00+02:00,2\n", ""),
    "days": ("ts,v\n2026-01-02,1\n2026-01-03,2\n", ""),
    "compact days": ("ts,v\n20260102,1\n20260103,2\n", ""),
    "seconds since 1970": ("ts,v\n1767348000,1\n1767348300,2\n", ""),
    "fractions of seconds": ("ts,v\n1767348000.25,1\n1767348300.5,2\n", ""),
    "flags": ("ts,v\n1,true\n2,FALSE\n", ""),
    "exponents": ("ts,v\n1,1e3\n2,1E-3\n", ""),
    "large integers": ("ts,id\n1,9223372036854775807\n2,-9223372036854775808\n", ""),
    "missing values": ("ts,k,v\n1,,\n2,b,2\n", ""),
    "comments": (f"# station 12\n# in kW\nts,k,v\n{ROW},a,1\n", "remove lines that are not rows"),
    "short rows": (f"ts,k,v\n{ROW},a,1\n{ROW},b\n", "remove lines that are not rows"),
    "marks for missing values": (f"ts,k,v\n{ROW},a,NA\n{ROW},b,2\n", ""),
    "dashes for missing values": (f"ts,k,v\n{ROW},a,-\n{ROW},b,2\n", ""),
    "thousands separators": (f'ts,k,v\n{ROW},a,"1,234.5"\n{ROW},b,"2,000"\n', ""),
    "a row of units": (f"ts,v\n,kW\n{ROW},1\n", ""),
    "spaces": (f"ts,k,v\n{ROW}, a,1\n{ROW}, b,2\n", ""),
    "text in a late row": ("ts,v\n" + "".join(f"{n},{n}\n" for n in range(3000)) + "3001,x\n", ""),
}
# Files whose values DuckDB changes, with our values.
OURS = {
    "codes": ("ts,k\n1,007\n2,012\n", [["1", "2"], ["007", "012"]]),
    "quoted numbers": ('ts,k\n1,"7"\n2,"12"\n', [["1", "2"], ["7", "12"]]),
    "long identifiers": (
        "ts,k\n1,12345678901234567890\n2,3\n",
        [["1", "2"], ["12345678901234567890", "3"]],
    ),
    "nanoseconds": (f"ts,k\n{ROW}.123456789,a\n", [["2026-01-02 10:00:00.123456789"], ["a"]]),
    "month before day": ("ts,k\n01/02/2026,a\n", [["01/02/2026"], ["a"]]),
}


def ours(path: Path) -> pa.Table:
    opened = open_table(path, "rows", Reading())
    return pa.table(opened.read(opened.schema.names))


def comparable(value: object) -> object:
    """Return a value without the differences between the types of both systems."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float | Decimal):
        return "nan" if math.isnan(value) else float(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    return (
        datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, date)
        else value
    )


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_values_that_duckdb_finds_or_names_an_option(name: str, tmp_path) -> None:
    content, message = FILES[name]
    path = tmp_path / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if message:
        with pytest.raises(tg.TidegateError) as error:
            ours(path)
        assert message in str(error.value)
        return
    found = ours(path)
    theirs = duckdb.sql(f"select * from read_csv('{path}')").to_arrow_table()  # noqa: S608 - a path
    assert found.column_names == theirs.column_names
    for column in found.column_names:
        values = [map(comparable, table[column].to_pylist()) for table in (found, theirs)]
        assert [*values[0]] == [*values[1]]


@pytest.mark.parametrize("name", OURS)
def test_a_value_keeps_its_digits(name: str, tmp_path) -> None:
    content, wanted = OURS[name]
    path = tmp_path / "a.csv"
    path.write_text(content)
    found = ours(path)
    texts = [found[column].cast(pa.string()).to_pylist() for column in found.column_names]
    assert texts == wanted

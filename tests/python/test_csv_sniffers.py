"""CSV files as public sources write them, compared with DuckDB's sniffer.

Each file has the dialect of a well-known source and made-up values. Without options, tidegate reads
the values that DuckDB reads, or keeps them as the text that is in the file, or raises an error that
shows which option to give. With the options of the test, it reads the listed values.
"""

import math
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.io.open_tables import open_table
from tidegate.io.read_files import Reading


@dataclass(frozen=True)
class Source:
    """A file, the options for it, and the values of its first row with these options."""

    text: str | bytes
    options: dict[str, Any]
    first: list[Any]
    refused: str = ""
    """What an error says if no option is given; empty if the file is read."""

    name: str = "rows.csv"
    of_duckdb: dict[str, Any] = field(default_factory=dict)
    """Options that DuckDB's sniffer needs."""


def utc(*given: int) -> datetime:
    return datetime(*given, tzinfo=UTC)


def local(*given: int) -> datetime:
    return utc(*given).replace(tzinfo=None)


SOURCES = {
    "a spreadsheet, semicolons and decimal commas": Source(
        "\ufeffZeit;Konto;Betrag\r\n02.03.2026 10:00;007;1,5\r\n02.03.2026 11:30;012;-2,25\r\n",
        {"delimiter": ";", "decimal": ",", "time_format": "%d.%m.%Y %H:%M"},
        [local(2026, 3, 2, 10, 0), "007", 1.5],
        "give tidegate.csv(path, delimiter=';')",
    ),
    "a spreadsheet, text in UTF-16 with tabs": Source(
        "ts\tname\n2026-03-02 10:00:00\tMüller\n".encode("utf-16"),
        {"delimiter": "\t"},
        [local(2026, 3, 2, 10), "Müller"],
        r"give tidegate.csv(path, delimiter='\t')",
    ),
    "a statistical office, Latin-1": Source(
        "Tag;Land;Wert\n2026-03-02;Thüringen;3\n".encode("latin-1"),
        {"delimiter": ";", "encoding": "latin-1"},
        [date(2026, 3, 2), "Thüringen", 3],
        "delimiter=';'",
    ),
    "Latin-1 with commas": Source(
        "day,land,n\n2026-03-02,Thüringen,3\n".encode("latin-1"),
        {"encoding": "latin-1"},
        [date(2026, 3, 2), "Thüringen", 3],
        "give the encoding of the file: tidegate.csv(path, encoding='latin-1')",
    ),
    "household power, question marks": Source(
        "Date;Time;Global_active_power\n16/12/2006;17:24:00;4.216\n16/12/2006;17:25:00;?\n",
        {"delimiter": ";", "null": "?", "time_format": "%d/%m/%Y"},
        [local(2006, 12, 16), time(17, 24), 4.216],
        "delimiter=';'",
    ),
    "air quality, empty columns at the end": Source(
        "Date;Time;CO(GT);PT08;;\n10/03/2004;18.00.00;2,6;1360;;\n10/03/2004;19.00.00;2;1292;;\n",
        {
            "delimiter": ";",
            "decimal": ",",
            "names": ["day", "time", "co", "sensor", "e1", "e2"],
            "header": True,
        },
        ["10/03/2004", "18.00.00", 2.6, 1360, None, None],
        "delimiter=';'",
    ),
    "hourly weather with NA": Source(
        "No,year,month,pm2.5,cbwd\n1,2010,1,NA,NW\n2,2010,1,129,cv\n",
        {"null": "NA"},
        [1, 2010, 1, None, "NW"],
    ),
    "a weather service, padded numbers": Source(
        "STATIONS_ID;MESS_DATUM;QN_9;TT_TU;eor\n         44;2007040100;    3;  11.4;eor\n",
        {"delimiter": ";", "types": {"MESS_DATUM": "string"}},
        [44, "2007040100", 3, 11.4, "eor"],
        "delimiter=';'",
    ),
    "river gauges, comments and a line of widths": Source(
        "# retrieved: today\nagency\tsite\tdatetime\n5s\t15s\t20d\nUSGS\t01646500\t2026-03-02\n",
        {"delimiter": "\t"},
        [],
        "remove the lines before the column names",
    ),
    "an exchange's candles, no header, epoch ms": Source(
        "1499040000000,0.01634790,0.80000000,1499644799999\n",
        {
            "names": ["open_time", "open", "high", "close_time"],
            "types": {"open_time": "timestamp[ms]", "close_time": "timestamp[ms]"},
            "epoch_unit": "ms",
        },
        [utc(2017, 7, 3), 0.0163479, 0.8, datetime(2017, 7, 9, 23, 59, 59, 999000, UTC)],
        "first line contains '1499040000000' instead of a column name",
    ),
    "an exchange's trades, epoch seconds with a fraction": Source(
        "1381095255.4312,122.00000,0.10000000\n",
        {"names": ["ts", "price", "volume"], "types": {"ts": "timestamp"}, "epoch_unit": "s"},
        [datetime(2013, 10, 6, 21, 34, 15, 431200, UTC), 122.0, 0.1],
        "names=['c1', 'c2', 'c3']",
    ),
    "minute bars, epoch seconds under a header": Source(
        "Timestamp,Open\n1325412060.0,4.58\n",
        {"types": {"Timestamp": "timestamp[s]"}, "epoch_unit": "s"},
        [utc(2012, 1, 1, 10, 1), 4.58],
    ),
    "ticks with a zone behind GMT": Source(
        "Local time,Ask,Bid\n02.03.2026 10:00:00.123 GMT+0100,1.1,1.0\n",
        {"time_format": "%d.%m.%Y %H:%M:%S.%f GMT%z"},
        [datetime(2026, 3, 2, 9, 0, 0, 123000, UTC), 1.1, 1.0],
    ),
    "bars with a time in two parts": Source(
        "20120201 000000;1.3066;1.3067\n20120201 000100;1.3066;1.3068\n",
        {
            "delimiter": ";",
            "names": ["ts", "open", "high"],
            "time_format": "%Y%m%d %H%M%S",
        },
        [local(2012, 2, 1), 1.3066, 1.3067],
        "delimiter=';'",
    ),
    "a broker's file, names in angle brackets": Source(
        "<TICKER>,<DATE>,<TIME>,<CLOSE>\nAAPL.US,20200102,153500,74.2\n",
        {"types": {"<DATE>": "timestamp[s]"}, "time_format": "%Y%m%d"},
        ["AAPL.US", local(2020, 1, 2), 153500, 74.2],
    ),
    "an order book, seconds after midnight": Source(
        "34200.017459617,5,0,1,2238200,-1\n34200.18960767,1,11885113,21,2238100,1\n",
        {"names": ["t", "type", "id", "size", "price", "side"]},
        [34200.017459617, 5, 0, 1, 2238200, -1],
        "header=False",
    ),
    "flights, times with leading zeros": Source(
        '"FL_DATE","OP_CARRIER","CRS_DEP_TIME","DEP_DELAY"\n2019-01-01,"9E","0905",-5.00\n',
        {},
        [date(2019, 1, 1), "9E", "0905", -5.0],
    ),
    "timetables, hours beyond 24": Source(
        "trip_id,arrival_time,stop_id\nA1,25:10:00,0012\n",
        {},
        ["A1", "25:10:00", "0012"],
    ),
    "ship positions, day before month": Source(
        "# Timestamp,MMSI,Latitude\n01/02/2026 00:00:01,219000001,56.1\n",
        {"time_format": "%d/%m/%Y %H:%M:%S"},
        [local(2026, 2, 1, 0, 0, 1), 219000001, 56.1],
    ),
    "taxi trips, ISO times with a space": Source(
        "tpep_pickup_datetime,passenger_count,store_and_fwd_flag\n2020-01-01 00:28:15,1,N\n",
        {},
        [local(2020, 1, 1, 0, 28, 15), 1, "N"],
    ),
    "turnstiles, a name padded with spaces": Source(
        "C/A,DATE,TIME,ENTRIES,EXITS      \nA002,03/02/2026,03:00:00,0007329294,0002484034\n",
        {},
        ["A002", "03/02/2026", time(3), "0007329294", "0002484034"],
    ),
    "bicycle trips, all values quoted": Source(
        '"tripduration","starttime","bikeid"\n"634","2013-07-01 00:00:00","16950"\n',
        {"types": {"tripduration": "int64"}},
        [634, local(2013, 7, 1), "16950"],
    ),
    "page requests, American times": Source(
        "time,page\n03/02/2026 05:55:53 PM,/\n",
        {"time_format": "%m/%d/%Y %I:%M:%S %p"},
        [local(2026, 3, 2, 17, 55, 53), "/"],
    ),
    "a database dump with tabs and \\N": Source(
        "id\tat\tnote\n1\t2026-03-02 10:00:00\t\\N\n",
        {"null": "\\N"},
        [1, local(2026, 3, 2, 10), None],
        name="rows.tsv",
    ),
    "a database export with offsets": Source(
        "at,amount\n2026-03-02 10:00:00+01,1.50\n",
        {},
        [utc(2026, 3, 2, 9), 1.5],
    ),
    "statistics software, row names and NA": Source(
        '"","x","y"\n"1",0.5,"a"\n"2",NA,"b"\n',
        {"null": "NA"},
        ["1", 0.5, "a"],
        of_duckdb={"header": True},
    ),
    "a data frame's index without a name": Source(
        ",time,price\n0,2026-03-02T10:00:00Z,1.5\n",
        {},
        [0, utc(2026, 3, 2, 10), 1.5],
    ),
    "an accounting system, vertical bars": Source(
        "BUDAT|BELNR|WRBTR\n20260302|0000012345|10.00\n",
        {"delimiter": "|"},
        [20260302, "0000012345", 10.0],
        "delimiter='|'",
    ),
    "single quotes": Source(
        "ts,name\n2026-03-02T10:00:00,'a,b'\n",
        {"quote": "'"},
        [local(2026, 3, 2, 10), "a,b"],
        "check the delimiter",
    ),
    "line breaks in quoted values": Source(
        'ts,note\n2026-03-02T10:00:00,"two\nlines, ""quoted"""\n',
        {},
        [local(2026, 3, 2, 10), 'two\nlines, "quoted"'],
    ),
    "inches, which are not quoted": Source(
        'id,size\n1,5" pipe\n2,"6"" pipe"\n',
        {},
        [1, '5" pipe'],
    ),
    "a database dump with escaped quotes and delimiters": Source(
        'id,title,path\n1,"24\\" screen, \\"new\\"",C:\\\\data\\,1\n',
        {"escape": "\\"},
        [1, '24" screen, "new"', "C:\\data,1"],
        "character part of the value, give tidegate.csv(path, escape='\\\\')",
    ),
    "a database dump with escaped quotes": Source(
        'id,title\n1,"24\\" screen"\n2,"6\\" pipe"\n',
        {"escape": "\\"},
        [1, '24" screen'],
        r"escape a quote with a backslash; give tidegate.csv(path, escape='\\')",
    ),
    "telephone numbers": Source(
        "at,from,to\n2026-03-02T10:00:00Z,004915112345678,+4915112345679\n",
        {},
        [utc(2026, 3, 2, 10), "004915112345678", "+4915112345679"],
    ),
    "a mixture of whole and broken seconds": Source(
        "ts,v\n2026-03-02T10:00:00Z,1\n2026-03-02T10:00:00.25Z,2\n",
        {},
        [utc(2026, 3, 2, 10), 1],
    ),
}


def written(folder: Path, source: Source) -> Path:
    path = folder / source.name
    text = source.text
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows(table: Any) -> list[list[Any]]:
    batches = table.few(table.schema.names, 1 << 16)
    return [[*row.values()] for row in pa.Table.from_batches(batches, table.schema).to_pylist()]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", [name for name, one in SOURCES.items() if one.first])
def test_with_its_options_a_file_has_the_expected_values(
    tmp_path: Path, name: str, *, streamed: bool
) -> None:
    source = SOURCES[name]
    given = tg.csv(written(tmp_path, source), **source.options)
    found = rows(open_table(given, how=Reading(streamed=streamed)))
    assert found[0] == source.first


def seen(value: Any) -> Any:
    """Return a value in a form in which values of both systems can be compared."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return float(value) if isinstance(value, int | float | Decimal) else value


@pytest.mark.parametrize("name", SOURCES)
def test_without_options_no_value_differs_in_silence(tmp_path: Path, name: str) -> None:
    source = SOURCES[name]
    path = written(tmp_path, source)
    try:
        found = rows(open_table(path))
    except tg.TidegateError as error:
        said = str(error)
        assert source.refused in said
        assert "tidegate.csv(" in said
        return
    assert not source.refused
    told = source.of_duckdb
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        typed = connection.read_csv(str(path), **told).fetchall()
        texts = connection.read_csv(str(path), all_varchar=True, **told).fetchall()
    assert len(found) == len(typed)
    for own, of_duckdb, written_as in zip(found, typed, texts, strict=True):
        for one, other, text in zip(own, of_duckdb, written_as, strict=True):
            assert seen(one) in {seen(other), text}, (one, other, text)


def test_the_command_shows_its_own_options(tmp_path: Path) -> None:
    path = written(tmp_path, SOURCES["an exchange's candles, no header, epoch ms"])
    command = [sys.executable, "-m", "tidegate", "digest", str(path)]
    said = subprocess.run(command, capture_output=True, check=False, timeout=120).stderr.decode()
    assert "give --names c1,c2,c3,c4 or --no-header; if these are names, give --header" in said

"""CSV files in any dialect: random files, and literal examples of each option and each error.

An independent writer renders random tables in random dialects. A file read with the right options
has exactly the values of its table, whether it is read whole, block by block or while it grows.
"""

import io
import re
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import campaign
import tidegate as tg
from command_line import run, shell
from tidegate.io.dialects import Dialect
from tidegate.io.files import Format
from tidegate.io.followers import follow
from tidegate.io.open_tables import open_table
from tidegate.io.read_files import Reading

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Random files


def times_of(chance: Random, rows: int) -> list[datetime | None]:
    """Return times in a range in which Berlin's clocks are not changed."""
    begin = datetime(2026, 5, 1, tzinfo=UTC)
    return [
        None
        if chance.random() < 0.1
        else begin + timedelta(milliseconds=chance.randrange(10**9) * chance.choice([1, 9]))
        for _ in range(rows)
    ]


TIME_FORMATS = {
    "ISO8601": None,
    "%d.%m.%Y %H:%M:%S.%f": None,
    "%m/%d/%Y %I:%M:%S.%f %p": None,
    "%Y%m%dT%H%M%S.%f": None,
    "%d %b %Y %H:%M:%S.%f": None,
}


def quoted(value: str, quote: str, escape: str, chance: Random) -> str:
    """Return a value in quotes; the quotes within it are escaped or doubled."""
    if escape and chance.random() < 0.8:
        special = re.compile(f"[{re.escape(escape + quote)}]")
        return quote + special.sub(lambda found: escape + found[0], value) + quote
    value = value.replace(escape, escape * 2) if escape else value
    return quote + value.replace(quote, quote * 2) + quote


def case(seed: str) -> tuple[str, dict[str, Any], pa.Table]:
    """Return a random CSV file, the options to read it, and its rows."""
    chance = campaign.rng(seed)
    rows = chance.choice([1, 2, 7, 40])
    delimiter = chance.choice([",", ";", "\t", "|"])
    decimal = chance.choice([".", ","] if delimiter != "," else ["."])
    quote = chance.choice(['"', "'"])
    null = chance.choice(["", "NA", "-"])
    escape = chance.choice(["", "", "\\"])
    form, zone = chance.choice([*TIME_FORMATS, "epoch"]), chance.choice([None, "Europe/Berlin"])
    unit = chance.choice(["s", "ms", "us", "ns"])
    times = times_of(chance, rows)
    codes = [f"{chance.randrange(100):03}" for _ in range(rows)]
    prices = [None if chance.random() < 0.1 else chance.randrange(-999, 999) / 8 for _ in codes]
    parts = ["a", "é", delimiter, quote, quote * 2, "\n", " ", "7", null, escape, escape + quote]
    texts = ["".join(chance.choices(parts, k=chance.randrange(4))) for _ in codes]

    def of_time(value: datetime | None) -> str:
        if value is None:
            return null
        if form == "epoch":
            scale = {"s": 10**6, "ms": 10**3, "us": 1}.get(unit)
            micros = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            if scale is None:
                return str(micros * 1000)
            whole, rest = divmod(micros, scale)
            return f"{whole}.{rest:0{len(str(scale)) - 1}}" if rest else str(whole)
        local = value.astimezone(BERLIN if zone else UTC).replace(tzinfo=None)
        return local.isoformat() if form == "ISO8601" else local.strftime(form)

    columns = [
        [of_time(value) for value in times],
        [
            quoted(value, quote, escape, chance) if chance.random() < 0.5 else value
            for value in codes
        ],
        [null if one is None else str(one).replace(".", decimal) for one in prices],
        [quoted(value, quote, escape, chance) for value in texts],
    ]
    names = ["ts", "code", "price", "text"]
    has_header = chance.random() < 0.5
    end = chance.choice(["\n", "\r\n"])
    lines = [delimiter.join(names)] if has_header else []
    lines += [delimiter.join(row) for row in zip(*columns, strict=True)]
    kind = "timestamp[ns, UTC]" if zone or form == "epoch" else "timestamp[ns]"
    options: dict[str, Any] = {
        "delimiter": delimiter,
        "decimal": decimal,
        "quote": quote,
        "escape": escape,
        "null": null,
        "zone": zone,
        "types": {"ts": kind, "code": "string", "price": "double", "text": "string"},
    }
    if form == "epoch":
        options["epoch_unit"] = unit
    elif form != "ISO8601":
        options["time_format"] = form
    if not has_header:
        options["names"] = names
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("ns", "UTC")),
            "code": codes,
            "price": pa.array(prices, pa.float64()),
            "text": texts,
        }
    )
    if not kind.endswith("UTC]"):
        plain = table["ts"].cast(pa.int64()).cast(pa.timestamp("ns"))
        table = table.set_column(0, "ts", plain)
    return end.join(lines) + chance.choice(["", end]), options, table


@pytest.mark.parametrize("how", ["whole", "blocks", "followed"])
@pytest.mark.parametrize("seed", range(campaign.tries(60)))
def test_a_file_in_any_dialect_has_the_values_of_its_table(folder, seed: int, how: str) -> None:
    text, options, expected = case(f"dialect {seed}")
    encoding = campaign.rng(f"encoding {seed}").choice(["utf-8", "latin-1"])
    path = folder / "rows.csv"
    path.write_bytes(text.encode(encoding))
    given = tg.csv(path, **options, encoding=encoding)
    if how == "followed":
        path.write_bytes(text.encode(encoding).rstrip(b"\r\n") + b"\n")
        follower = follow("rows.csv", Format.CSV, threading.Event(), csv=given.dialect)
        found = next(follower.pieces()).rows
    else:
        opened = open_table(given, how=Reading(streamed=how == "blocks"))
        batches = opened.few(opened.schema.names, 1 << 16)
        found = pa.Table.from_batches(batches, opened.schema)
    assert found.equals(expected.cast(found.schema)), (text, options)


@pytest.mark.parametrize("seed", range(campaign.tries(40)))
def test_what_csv_files_are_written_is_read_again(folder, seed: int) -> None:
    chance = campaign.rng(f"written {seed}")
    _, _, table = case(f"dialect {seed}")
    unit = chance.choice(["ms", "us", "ns"])
    table = table.set_column(0, "ts", table["ts"].cast(pa.timestamp(unit, table["ts"].type.tz)))
    table = table.filter(pa.compute.is_valid(table["ts"]))
    pq.write_table(table, "rows.parquet")
    for name in ("out.csv", "out.tsv", "out.csv.gz"):
        size = ["--on", "ts", "--size", "1ms", "--by", "code", "--agg", "text=first(text)"]
        done = run("aggregate", "rows.parquet", *size, "-o", name)
        assert done.exit_code == 0, done.output
        again = tg.aggregate(
            "rows.parquet", on="ts", size="1ms", by="code", aggs={"text": tg.agg.first("text")}
        )
        found = open_table(folder / name)
        rows = pa.Table.from_batches(found.read(found.schema.names), found.schema)
        assert rows.num_rows == again.num_rows
        if rows.num_rows:
            assert rows.to_pylist() == again.cast(rows.schema).to_pylist()


# Each option


def rows_of(text: str | bytes, **options: Any) -> list[dict[str, Any]]:
    path = Path("given.csv")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    whole, streamed = (
        open_table(tg.csv(path, **options), how=Reading(streamed=streamed))
        for streamed in (False, True)
    )
    rows = pa.Table.from_batches(whole.read(whole.schema.names), whole.schema)
    again = pa.Table.from_batches(streamed.few(streamed.schema.names, 9), streamed.schema)
    assert rows.to_pylist() == again.to_pylist()
    return rows.to_pylist()


def test_quoted_numbers_are_strings(folder) -> None:
    assert rows_of('a,b\n"7",7\n8,8\n') == [{"a": "7", "b": 7}, {"a": "8", "b": 8}]
    assert rows_of('a,b\n7,x\n"7.5",y\n') == [{"a": "7", "b": "x"}, {"a": "7.5", "b": "y"}]
    assert rows_of('a,b\n"7",1\n', types={"a": "int64"}) == [{"a": 7, "b": 1}]
    assert rows_of("a;b\n'7';7\n", delimiter=";", quote="'") == [{"a": "7", "b": 7}]
    # Without quotes, these are ordinary characters.
    assert rows_of("a,b\n'7',7\n") == [{"a": "'7'", "b": 7}]


def test_quoted_times_are_times(folder) -> None:
    [row] = rows_of('ts,x\n"2026-03-02T10:00:00Z",1\n')
    assert row["ts"] == datetime(2026, 3, 2, 10, tzinfo=UTC)


@pytest.mark.parametrize("number", [str(2**63), str(-(2**63) - 1), "9" * 19, "1" * 25])
def test_integers_that_do_not_fit_in_64_bits_are_strings(folder, number: str) -> None:
    largest = str(2**63 - 1)
    Path("a.csv").write_text(f"ts,id,fits,power\n1,{number},{largest},1e30\n2,3,5,2.5\n")
    first, second = rows_of(Path("a.csv").read_text())
    assert first == {"ts": 1, "id": number, "fits": int(largest), "power": 1e30}
    assert second == {"ts": 2, "id": "3", "fits": 5, "power": 2.5}


@pytest.mark.parametrize("code", ["007", "+49301234567", "00", " 007"])
def test_codes_are_strings(folder, code: str) -> None:
    assert [row["x"] for row in rows_of(f"x,y\n7,1\n{code},2\n")] == ["7", code]


@pytest.mark.parametrize("number", ["+1.5", "-7", "1e+5", "0.5"])
def test_other_signs_are_numbers(folder, number: str) -> None:
    assert rows_of(f"x,y\n{number},2\n") == [{"x": float(number), "y": 2}]


def test_columns_without_names(folder) -> None:
    text = "2026-03-02T10:00:00Z,7\n"
    assert [*rows_of(text, header=False)[0]] == ["f0", "f1"]
    assert [*rows_of(text, names=["at", "user"])[0]] == ["at", "user"]
    assert [*rows_of("x,y\n1,2\n", names=["at", "user"], header=True)] == [{"at": 1, "user": 2}]
    assert [*rows_of("2019,2020\n1,2\n", header=True)] == [{"2019": 1, "2020": 2}]


def test_a_byte_order_mark_is_skipped(folder) -> None:
    text = "\ufeffts,x\n1,2\n"
    assert rows_of(text) == [{"ts": 1, "x": 2}]
    assert rows_of("\ufeff1,2\n", names=["ts", "x"]) == [{"ts": 1, "x": 2}]
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        mark = "" if encoding == "utf-16" else "\ufeff"
        assert rows_of((mark + "ts,x\n1,é\n").encode(encoding)) == [{"ts": 1, "x": "é"}]


def test_times_in_a_zone_are_instants(folder) -> None:
    text = "ts,x\n2026-03-02T10:00:00,1\n2026-07-02T10:00:00,2\n2026-07-02T10:00:00Z,3\n"
    found = [row["ts"] for row in rows_of(text, zone="Europe/Berlin")]
    assert found == [
        datetime(2026, 3, 2, 9, tzinfo=UTC),
        datetime(2026, 7, 2, 8, tzinfo=UTC),
        datetime(2026, 7, 2, 10, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("2026-10-25T02:30:00", "is ambiguous.*write such times with a UTC offset"),
        ("2026-03-29T02:30:00", "doesn't exist.*write such times with a UTC offset"),
        ("2046-10-21T05:46:49", "times after 2037 have to be written with a UTC offset"),
    ],
)
def test_local_times_that_are_not_instants_are_refused(folder, value: str, said: str) -> None:
    with pytest.raises(tg.TidegateError, match=said):
        rows_of(f"ts,x\n{value},1\n", zone="Europe/Berlin")


@pytest.mark.parametrize("value", ["31.02.2026", "2026-02-01", "1.2.26", "01.13.2026"])
def test_a_value_that_does_not_fit_the_format_is_no_time(folder, value: str) -> None:
    form = "%d.%m.%Y"
    assert rows_of(f"ts,x\n{value},1\n", time_format=form)[0]["ts"] == value
    types = {"ts": "timestamp"}
    with pytest.raises(tg.TidegateError, match=rf"'{value}' is not a time; expected the format"):
        rows_of(f"ts,x\n01.02.2026,1\n{value},1\n", time_format=form, types=types)


def test_a_column_has_one_of_several_formats(folder) -> None:
    forms = ["%d.%m.%Y", "ISO8601", "%m/%d/%Y"]
    text = "a,b,c,d\n01.02.2026,2026-02-01T00:00:00,02/01/2026,01.02.2026\n" * 1
    text += "02.02.2026,2026-02-02T00:00:00,02/02/2026,02/02/2026\n"
    found = rows_of(text, time_format=forms)[0]
    assert [found[name] for name in "abc"] == [datetime(2026, 2, 1)] * 3  # noqa: DTZ001 - no zone
    assert found["d"] == "01.02.2026"


def test_an_offset_is_part_of_a_format(folder) -> None:
    [row] = rows_of("ts,x\n02.03.2026 23:30 -0500,1\n", time_format="%d.%m.%Y %H:%M %z")
    assert row["ts"] == datetime(2026, 3, 2, 23, 30, tzinfo=timezone(timedelta(hours=-5)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delimiter": ";;"}, "delimiter: expected one ASCII character"),
        ({"quote": "ab"}, "quote: expected one ASCII character"),
        ({"decimal": ","}, "decimal: ',' is also the delimiter; give another delimiter"),
        ({"escape": '"'}, "escape: expected one ASCII character that is neither the delimiter nor"),
        ({"escape": "\\\\"}, "escape: expected one ASCII character"),
        ({"escape": "\\", "null": "\\N"}, "null: escape characters such as '\\\\' are removed"),
        ({"decimal": "x"}, "decimal: expected '.' or ','"),
        ({"types": {"x": "number"}}, "types: column `x`: 'number' is not a type"),
        ({"zone": "Europe/Nowhere"}, "zone: 'Europe/Nowhere' is unknown"),
        ({"epoch_unit": "min"}, "epoch_unit: expected s, ms, us or ns"),
        ({"time_format": "dd.mm.yyyy"}, "time_format: expected a format such as"),
        ({"time_format": "%z %d.%m.%Y"}, "time_format: write %z at the end"),
        ({"names": ["a", "a"]}, "names: column 'a' is specified twice"),
        ({"encoding": "latin"}, "encoding: 'latin' is unknown"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], said: str) -> None:
    if options == {"encoding": "latin"}:
        options = {"encoding": "latin-99"}
        said = "encoding: 'latin-99' is unknown"
    with pytest.raises(tg.TidegateError) as raised:
        tg.csv("rows.csv", **options)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a;b\n1;2\n", {}, "its first line contains semicolons"),
        ("a|b\n1|2\n", {}, "its first line contains vertical bars"),
        ("1,2\n3,4\n", {}, "its first line contains '1' instead of a column name"),
        ("a,b\n1,2,3\n", {}, "Expected 2 columns, got 3"),
        ("a,b\n1,2\n", {"names": ["x"]}, "its first line has 2 columns, but 1 names are given"),
        ("a,b\n1,2\n", {"names": ["a", "b"]}, "contains the names themselves; omit names"),
        ("x\n\xfc\n".encode("latin-1"), {}, "is not UTF-8; give the encoding of the file"),
        ("\xfc\n1\n".encode("latin-1"), {}, "is not UTF-8; give the encoding of the file"),
        ("", {}, "the file is empty"),
        ("a,,\n1,2,3\n", {}, "2 columns have no name; give tidegate.csv(path, names="),
        (
            "ts,x\n1772445600123,1\n",
            {"types": {"ts": "timestamp"}},
            "give the unit of the numbers: tidegate.csv(path, epoch_unit='s')",
        ),
    ],
)
def test_a_file_in_another_dialect_names_the_option(folder, text, options, said: str) -> None:
    with pytest.raises(tg.TidegateError) as raised:
        rows_of(text, **options)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ts,p\n02.03.2026,1\n", "give the format of its times, as in tidegate.csv(path, time_f"),
        ('ts,p\n2026-03-02T10:00:00,"1"\n', "give tidegate.csv(path, types={'p': 'double'})"),
    ],
)
def test_a_query_that_needs_another_type_names_the_option(folder, text: str, said: str) -> None:
    Path("rows.csv").write_text(text)
    with pytest.raises(tg.SchemaError) as raised:
        tg.aggregate("rows.csv", on="ts", size="1h", aggs={"n": tg.agg.sum("p")})
    assert said in str(raised.value)


def test_a_missing_column_is_not_a_matter_of_types(folder) -> None:
    Path("rows.csv").write_text("time,p\n02.03.2026,1\n")
    with pytest.raises(
        tg.SchemaError, match="no column `ts`, which `on` names; it has `time`, `p`"
    ):
        tg.aggregate("rows.csv", on="ts", size="1h", aggs={"n": tg.agg.count()})


def test_numbers_beside_times_name_the_unit(folder) -> None:
    Path("a.csv").write_text("ts,x\n1772445600123,1\n")
    Path("b.csv").write_text("ts,y\n2026-03-02T10:00:00.123Z,2\n")
    bounds = {"on": "ts", "lower": "0s", "upper": "0s"}
    with pytest.raises(tg.SchemaError, match=r"give their unit: tidegate.csv\(path, epoch_unit"):
        tg.interval_join("a.csv", "b.csv", **bounds)
    left = tg.csv("a.csv", types={"ts": "timestamp[ms]"}, epoch_unit="ms")
    assert tg.interval_join(left, "b.csv", **bounds)["y"].to_pylist() == [2]


# The command


JOIN = ["--on", "ts", "--lower", "0s", "--upper", "0s", "--format", "csv"]


def test_inputs_of_different_dialects_are_joined(folder) -> None:
    Path("a.csv").write_text("1772445600123;1,5\n")
    Path("b.csv").write_text("ts,y\n2026-03-02T10:00:00.123Z,2\n")
    dialects = ["--delimiter", ";", "--delimiter", ",", "--decimal", ",", "--decimal", "."]
    dialects += ["--names", "ts,x", "--names", "", "--epoch-unit", "ms"]
    result = run("join", "a.csv", "b.csv", *JOIN, *dialects)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        '"ts","x","ts_right","y"',
        "2026-03-02T10:00:00.123Z,1.5,2026-03-02T10:00:00.123Z,2",
    ]


def test_as_many_values_of_an_option_as_inputs(folder) -> None:
    Path("a.csv").write_text("ts,x\n1,2\n")
    result = run("merge", "a.csv", "--on", "ts", "--delimiter", ",", "--delimiter", ";")
    assert result.exit_code == 2
    assert "expected one value, or one for each of the 1 inputs" in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", ["join", "asof", "overlap", "band", "merge", "digest"])
def test_every_command_takes_the_options(folder, command: str) -> None:
    Path("a.csv").write_text("1;02.03.2026\n")
    names = ["--names", "n,ts", "--delimiter", ";", "--time-format", "%d.%m.%Y"]
    inputs = ["a.csv"] if command in {"merge", "digest"} else ["a.csv", "a.csv"]
    query = {
        "join": ["--on", "ts", "--lower", "0s", "--upper", "0s"],
        "asof": ["--on", "ts"],
        "overlap": ["--on", "ts,ts"],
        "band": ["--on", "n", "--within", "0"],
        "merge": ["--on", "ts"],
        "digest": [],
    }[command]
    assert run(command, *inputs, *query, *names).exit_code == 0


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.jsonl", "rows.arrows", "rows.pq"])
@pytest.mark.parametrize("compressed", [False, True])
def test_the_first_bytes_of_a_pipe_determine_its_format(folder, name: str, compressed) -> None:
    table = pa.table({"ts": [1, 2, 3], "x": ["a", "b", "c"]})
    pq.write_table(table, "given.parquet")
    wanted = name + ".gz" if compressed and name.endswith(("csv", "tsv", "jsonl")) else name
    assert run("merge", "given.parquet", "--on", "ts", "-o", wanted).exit_code == 0
    content = Path(wanted).read_bytes()
    merged = shell("merge", "-", "--on", "ts", "--format", "csv", given=content)
    assert merged.stdout.decode().splitlines() == ['"ts","x"', '1,"a"', '2,"b"', '3,"c"']


def test_a_followed_pipe_has_the_format_of_its_first_bytes(folder) -> None:
    count = ["--on", "ts", "--size", "10", "--agg", "n=count()", "--follow", "--format", "csv"]
    for given in (b"ts,x\n1,a\n12,b\n", b"ts\tx\n1\ta\n12\tb\n"):
        done = shell("aggregate", "-", *count, given=given)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[1:] == [b"0,10,1", b"10,20,1"]


def test_a_wrong_format_of_a_pipe_is_refused(folder) -> None:
    done = shell("merge", "-", "--on", "ts", "--in-format", "arrow", given=b"ts,x\n1,a\n")
    assert done.returncode == 1
    assert b"standard input: cannot be read as arrow: it begins like csv" in done.stderr
    assert b"omit the format, or give csv" in done.stderr


def test_what_was_guessed_is_said(folder) -> None:
    Path("a.csv").write_text('ts,user,p,id\n2026-03-02T10:00:00Z,007,1.5,"7"\n')
    columns = (
        "ts timestamp[s, tz=UTC], user string (a value has a leading zero or plus sign), "
        "p string (as specified), id string (a number is in quotes)"
    )
    count = ["--on", "ts", "--size", "1h", "--agg", "n=count()", "--types", "p=string"]
    assert columns in run("aggregate", "a.csv", *count, "--explain").stdout
    assert f"tidegate: a.csv: {columns}\n" in run("aggregate", "a.csv", *count, "-v").stderr
    assert columns not in run("aggregate", "a.csv", *count).stderr
    plan = tg.explain(
        tg.aggregate, tg.csv("a.csv", types={"p": "string"}), on="ts", size="1h", aggs={}
    )
    assert f"  csv        streams: {columns}" in plan


@pytest.mark.parametrize(
    "time", ["2026-03-02T17:55:53.046Z", "2026-03-02T17:55:53Z", "2026-03-02T17:55:53"]
)
def test_times_are_written_as_they_came(folder, time: str) -> None:
    Path("a.csv").write_text(f"ts,x\n{time},1\n")
    for name, expected in (
        ("out.csv", f"{time},1"),
        ("out.tsv", f"{time}\t1"),
        ("out.jsonl", f'{{"ts":"{time}","x":1}}'),
    ):
        assert run("merge", "a.csv", "--on", "ts", "-o", name).exit_code == 0
        assert Path(name).read_text().splitlines()[-1] == expected


def test_other_zones_are_written_with_their_offset(folder) -> None:
    times = pa.array([1772470553, 1782470553], pa.timestamp("s", "America/New_York"))
    pq.write_table(pa.table({"ts": times}), "a.parquet")
    assert run("merge", "a.parquet", "--on", "ts", "-o", "out.csv").exit_code == 0
    assert Path("out.csv").read_text() == (
        '"ts"\n2026-03-02T11:55:53-05:00\n2026-06-26T06:42:33-04:00\n'
    )


def test_partitions_are_written_with_such_times(folder) -> None:
    Path("a.csv").write_text("ts,x\n2026-03-02T17:55:53.5Z,1\n")
    parts = ["--partition-by", "x", "--format", "csv", "-o", "out"]
    join = ["--on", "ts", "--lower", "0s", "--upper", "0s", "--columns", "ts,x"]
    assert run("join", "a.csv", "a.csv", *join, *parts).exit_code == 0
    [path] = Path("out").rglob("*.csv")
    assert path.read_text() == '"ts"\n"2026-03-02T17:55:53.5Z"\n'


def test_empty_files_of_text_are_empty_tables(folder) -> None:
    Path("a.csv").write_text("ts,x\n")
    Path("b.csv").write_text("ts,y\n2026-03-02T10:00:00Z,2\n")
    for options in ([], ["--memory-limit", "1GB"]):
        for sides in (["a.csv", "b.csv"], ["b.csv", "a.csv"]):
            result = run("join", *sides, *JOIN, *options)
            assert result.exit_code == 0, result.output
            assert len(result.stdout.splitlines()) == 1


def test_a_dialect_is_saved_with_a_state() -> None:
    from tidegate.cli import saved  # noqa: PLC0415 - the subject of this test
    from tidegate.cli.tables import Input  # noqa: PLC0415 - as above

    csv = Dialect(
        nulls=("NA", ""),
        types=(("x", "string"),),
        delimiter=";",
        header=False,
        names=("ts", "x"),
        quote="'",
        escape="\\",
        time_formats=("%d.%m.%Y", "ISO8601"),
        zone="Europe/Berlin",
        epoch_unit="ms",
        times=("ts",),
        decimal=",",
        encoding="latin-1",
        of_command=True,
    )
    given = Input("a.csv", Format.CSV, csv)
    import json  # noqa: PLC0415 - as above

    assert saved._input(json.loads(json.dumps(saved._told(given)))) == given
    assert "--delimiter ';' --header False --names 'ts','x'" in saved._named(given)


def test_pyarrow_reads_what_is_written(folder) -> None:
    """Compare the writer with pyarrow's, apart from the form of times."""
    from decimal import Decimal  # noqa: PLC0415 - only here

    from tidegate.io.csv_lines import CsvLines  # noqa: PLC0415 - the subject of this test

    table = pa.table(
        {
            'a "b",c': ["x", 'q"y', "line\nend", "", None],
            "f": [1.0, 0.1, 1e300, float("nan"), None],
            "b": [True, False, None, True, True],
            "d": pa.array([0, 1, 2, None, 3], pa.date32()),
            "t": pa.array([0, 1, 2, None, 3], pa.time64("us")),
            "x": [b"a", b'"', None, b"", b"b"],
            "c": pa.array(["a", None, "b", "a", 'q"'], pa.dictionary(pa.int8(), pa.string())),
            "m": pa.array([Decimal("1.50"), None, Decimal("-2.25"), None, None]),
            "n": pa.nulls(5),
        }
    )
    own, other = io.BytesIO(), io.BytesIO()
    writer = CsvLines(own, table.schema, ",")
    for batch in table.to_batches(max_chunksize=2):
        writer.write_batch(batch.slice(0, 1))
        writer.write_batch(batch.slice(1))
    pyarrow.csv.write_csv(table, other)
    assert own.getvalue() == other.getvalue()

"""Inputs of functions: files by their addresses, datasets, lazy frames, arrays.

`test_readers.py` passes every kind of input to every function.
"""

import http.server
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import tidegate as tg

TRADES = pa.table(
    {
        "ts": pa.array([1, 4, 9, 12]),
        "sym": ["A", "B", "A", "B"],
        "price": [1.5, 2.5, 3.5, 4.5],
    }
)
QUOTES = pa.table(
    {
        "ts": pa.array([0, 3, 8, 8, 11]),
        "sym": ["A", "B", "A", "B", "B"],
        "bid": [9.0, 8.0, 7.0, 6.0, 5.0],
        "unread": [b"a" * 99, b"b", b"c", b"d", b"e"],
    }
)
JOIN = {"on": "ts", "by": "sym", "lower": -2, "upper": 0}
PAIRS = tg.interval_join(TRADES, QUOTES.drop_columns("unread"), **JOIN)
CHOSEN = {**JOIN, "columns": PAIRS.column_names}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(table: pa.Table, name: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, name, compression="none", use_dictionary=False)


def refuses(error: type[Exception], text: str, given: object) -> None:
    with pytest.raises(error) as caught:
        tg.interval_join(given, QUOTES, **JOIN)
    assert text in str(caught.value)
    assert str(caught.value).startswith("left: ")


# Rows


@pytest.mark.usefixtures("folder")
def test_files_of_a_table_follow_each_other_in_the_order_of_their_paths() -> None:
    for at in (3, 0, 2, 1):
        write(TRADES.slice(at, 1), f"trades/part-{at}.parquet")
    Path("trades/_SUCCESS").touch()
    Path("trades/.part-0.parquet.crc").touch()
    names = [f"trades/part-{at}.parquet" for at in range(4)]
    for given in ("trades", "trades/", Path("trades"), "trades/part-*.parquet", "tr*/**/*", names):
        assert tg.interval_join(given, QUOTES, **CHOSEN).equals(PAIRS), given
    found = tg.interval_join([names[2], names[0]], QUOTES, **CHOSEN, how="left")
    assert found["ts"].to_pylist() == [9, 1]


@pytest.mark.usefixtures("folder")
def test_files_of_a_list_may_have_several_formats() -> None:
    write(TRADES.slice(0, 2).select(["sym", "price", "ts"]), "a.parquet")
    Path("b.csv").write_text("ts,sym,price\n9,A,3.5\n12,B,4.5\n")
    found = tg.interval_join(["a.parquet", "b.csv"], QUOTES, **CHOSEN)
    assert found.equals(PAIRS)


@pytest.mark.usefixtures("folder")
def test_partitions_are_columns() -> None:
    for day in (1, 2):
        write(TRADES.slice(2 * day - 2, 2), f"days/day={day}/zone=eu/x.parquet")
    found = tg.interval_join("days", QUOTES, **JOIN, columns=["ts", "day", "zone"], how="left")
    assert found.to_pydict() == {
        "ts": [1, 4, 9, 12],
        "day": [1, 1, 2, 2],
        "zone": ["eu"] * 4,
    }
    found = tg.aggregate(
        "days/day=*/*/x.parquet", on="ts", size=100, by="day", aggs={"n": tg.agg.count()}
    )
    assert found["day"].to_pylist() == [1, 2]
    # In a merge, each file is a separate stream.
    merged = tg.merge("days")
    assert merged["day"].to_pylist() == [1, 1, 2, 2]
    assert tg.merge("days/day=1/zone=eu/x.parquet").column_names == TRADES.column_names


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "read", [tg.merge, lambda streams: pa.Table.from_batches(list(tg.merge_batches(streams)))]
)
def test_merge_takes_each_file_of_a_path_as_a_stream(read) -> None:
    for at in range(2):
        write(TRADES.take([at, at + 2]), f"trades/{at}.parquet")
        pa.csv.write_csv(TRADES.take([at, at + 2]), f"trades/{at}.csv")
    for ending in ("parquet", "csv"):
        assert read(f"trades/*.{ending}").equals(TRADES)
        # An item of a list is one stream, and its files follow each other.
        with pytest.raises(tg.OrderError):
            read([f"trades/*.{ending}"])
    assert read([TRADES.slice(2), "trades/0.parquet", "trades/1.csv"])["ts"].to_pylist() == [
        *(1, 4, 9, 9, 12, 12)
    ]


@pytest.mark.usefixtures("folder")
def test_several_streams_of_an_aggregation_are_a_list() -> None:
    write(TRADES.slice(0, 2), "a.parquet")
    counts = {"on": "ts", "size": 100, "aggs": {"n": tg.agg.count()}}
    for given in ("a.parquet", {"ts": [1, 4]}, TRADES.slice(2), [{"ts": [1]}, "a.parquet"]):
        found = tg.aggregate(given, **counts)["n"].to_pylist()
        assert found == [3 if isinstance(given, list) else 2]


def test_arrays_and_frames_give_the_rows_of_a_table() -> None:
    frame = TRADES.to_pandas()
    for given in (
        frame.to_records(index=False),
        {
            "ts": np.array([1, 4, 9, 12]),
            "sym": pl.Series(["A", "B", "A", "B"]),
            "price": pd.Series([1.5, 2.5, 3.5, 4.5]),
        },
        {name: TRADES[name] for name in TRADES.column_names},
        pl.LazyFrame(TRADES),
        duckdb.from_arrow(TRADES),
        ds.dataset(TRADES),
        ds.dataset(TRADES).scanner(),
    ):
        assert tg.interval_join(given, QUOTES, **CHOSEN).cast(PAIRS.schema).equals(PAIRS)


@pytest.mark.usefixtures("folder")
def test_schemas_alone_are_read_for_a_plan() -> None:
    write(TRADES, "trades.parquet")
    damage("trades.parquet", "ts")
    plan = tg.explain(tg.interval_join, "trades.parquet", QUOTES, **JOIN)
    assert plan == tg.explain(tg.interval_join, TRADES, QUOTES, **JOIN)
    operator = tg.IntervalJoin("trades.parquet", QUOTES.schema, **JOIN)
    assert operator.schema.names[:3] == TRADES.column_names


# Only the columns that a query needs are read


def damage(name: str, column: str) -> None:
    """Overwrite the first values of a column of a file."""
    group = pq.ParquetFile(name).metadata.row_group(0)
    chunks = (group.column(at) for at in range(group.num_columns))
    begin = next(one.data_page_offset for one in chunks if one.path_in_schema == column)
    content = bytearray(Path(name).read_bytes())
    content[begin : begin + 16] = bytes(16)
    Path(name).write_bytes(content)


@pytest.mark.usefixtures("folder")
def test_columns_that_a_query_does_not_need_are_not_read() -> None:
    write(QUOTES, "quotes.parquet")
    damage("quotes.parquet", "unread")
    assert tg.interval_join(TRADES, "quotes.parquet", **CHOSEN).equals(PAIRS)
    assert tg.aggregate("quotes.parquet", on="ts", size=99, aggs={"n": tg.agg.count()})[
        "n"
    ].to_pylist() == [5]
    for read in (
        lambda: tg.interval_join(TRADES, "quotes.parquet", **JOIN),
        lambda: tg.interval_join(TRADES, ["quotes.parquet"], **JOIN, columns=["unread"]),
        lambda: tg.merge(["quotes.parquet"]),
    ):
        with pytest.raises(tg.TidegateError, match=r"quotes\.parquet: cannot be read as parquet"):
            read()


def test_lazy_inputs_compute_only_the_columns_that_a_query_needs() -> None:
    def boom(_value: object) -> float:
        raise ZeroDivisionError

    lazy = pl.LazyFrame(QUOTES).with_columns(bad=pl.col("bid").map_elements(boom, pl.Float64))
    relation = (
        duckdb.sql("select *, error('boom') as bad from quotes", connection=None)
        if (duckdb.register("quotes", QUOTES))
        else None
    )
    for given in (lazy, relation):
        assert tg.interval_join(TRADES, given, **CHOSEN).cast(PAIRS.schema).equals(PAIRS)
        with pytest.raises(Exception, match=r"python_udf|boom"):
            tg.interval_join(TRADES, given, **JOIN, columns=["bad"])


@pytest.mark.usefixtures("folder")
def test_a_left_name_that_gives_a_right_column_its_suffix_stays() -> None:
    write(TRADES.append_column("bid", [[0.0] * 4]), "trades.parquet")
    found = tg.interval_join("trades.parquet", QUOTES, **JOIN, columns=["bid_right"])
    assert found["bid_right"].to_pylist() == PAIRS["bid"].to_pylist()


# Refusals


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, "NoneType"),
        (5, "int"),
        (object(), "object"),
        ([], "an empty list"),
        ([TRADES], "a list whose item 0 is Table"),
        ([1, 2], "a list whose item 0 is int"),
        (np.arange(3), "numpy.ndarray"),
    ],
)
def test_other_inputs_get_the_list_of_kinds(given, found) -> None:
    refuses(TypeError, f"expected a table, got {found}", given)
    refuses(TypeError, "a pyarrow Dataset, Scanner or ParquetFile, a polars LazyFrame", given)


def test_a_lazy_frame_of_an_older_polars_is_refused_by_name(monkeypatch) -> None:
    monkeypatch.delattr(pl.LazyFrame, "collect_batches")
    expected = f"a LazyFrame from polars 1.34 or later, but this is polars {pl.__version__}; call "
    refuses(TypeError, f"{expected}.collect() on it", pl.LazyFrame(TRADES))


@pytest.mark.usefixtures("folder")
def test_files_that_make_no_table_are_named() -> None:
    write(TRADES, "a.parquet")
    write(TRADES.drop_columns("price"), "b.parquet")
    write(TRADES.set_column(2, "price", [[1, 2, 3, 4]]), "c.parquet")
    Path("empty").mkdir()
    Path("d.csv").write_text("ts\n1\n")
    Path("e.parquet").write_text("no parquet")
    write(TRADES, "mixed/a.parquet")
    Path("mixed/b.csv").write_text("ts\n1\n")
    write(TRADES, "delta/a.parquet")
    Path("delta/_delta_log").mkdir()
    for text, given in (
        ("left: nope.parquet: cannot be read: No such file or directory", "nope.parquet"),
        ("left: nope/*.parquet: no file matches this pattern", "nope/*.parquet"),
        ("left: empty: the folder contains no tables", "empty"),
        ("left: mixed: its files have different formats, csv and parquet", "mixed"),
        ("left: delta: is a Delta table", "delta"),
        ("left: e.parquet: cannot be read as parquet: Could not open", "e.parquet"),
        ("left: ftp://host/x.csv: ftp:// is not supported", "ftp://host/x.csv"),
        ("left: az://bucket/x.csv: cannot be reached: no account", "az://bucket/x.csv"),
    ):
        refuses(tg.TidegateError, text, given)
    Path("x.txt").touch()
    refuses(tg.TidegateError, "x.txt: the extension is unknown; expected one of .parq", "x.txt")
    for text, given in (
        ("b.parquet: there is no column `price`, which a.parquet has", ["a.parquet", "b.parquet"]),
        ("b.parquet: there is no column `price`, which a.parquet has", ["b.parquet", "a.parquet"]),
        ("c.parquet: column `price` is int64, but in a.parquet it is double", "[ac].parquet"),
        ("d.csv: there is no column `sym`", ["a.parquet", "d.csv"]),
        ("column `sym` has 1 values, but column `ts` has 2", {"ts": [1, 2], "sym": ["A"]}),
        ("column `sym`: expected an array or a list of values", {"ts": [1, 2], "sym": 3}),
        ("there is no column `ts`, which `on` names; it has no columns", {}),
    ):
        refuses(tg.SchemaError, text, given)
    refuses(TypeError, "expected column names as the keys of the dict, got 1", {1: [2]})


@pytest.mark.usefixtures("folder")
def test_a_damaged_file_among_many_is_named() -> None:
    for at in range(3):
        write(TRADES, f"trades/{at}.parquet")
    damage("trades/1.parquet", "ts")
    refuses(tg.TidegateError, "left: trades/1.parquet: cannot be read as parquet", "trades")


def test_what_is_wrong_with_arguments_is_told_before_rows_are_read() -> None:
    def boom(_value: object) -> float:
        raise ZeroDivisionError

    lazy = pl.LazyFrame(TRADES).with_columns(bad=pl.col("price").map_elements(boom, pl.Float64))
    with pytest.raises(tg.SchemaError, match="did you mean `sym`"):
        tg.interval_join(lazy, QUOTES, **{**JOIN, "by": "symb"})


def test_a_source_takes_no_paths() -> None:
    merge = tg.Merge(TRADES.schema)
    with pytest.raises(TypeError, match="data: expected Arrow data"):
        merge.sources[0].push("trades.parquet")
    merge.sources[0].close()


# Servers


class Files(http.server.SimpleHTTPRequestHandler):
    """Serve the files of the working folder, in parts if requested."""

    def do_GET(self) -> None:
        content = Path("." + self.path.partition("?")[0])
        if not content.is_file():
            self.send_error(404)
            return
        part, asked = content.read_bytes(), self.headers.get("Range")
        self.server.asked.append(asked)
        if asked and self.server.has_parts:
            first, last = map(int, asked.removeprefix("bytes=").split("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(part)}")
            part = part[first : last + 1]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(part)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def server(folder: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    """Serve the working folder."""
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    made.asked, made.has_parts = [], True
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.parametrize("has_parts", [True, False])
def test_files_behind_http(server, has_parts) -> None:
    server.has_parts = has_parts
    address = f"http://127.0.0.1:{server.server_port}"
    write(TRADES, "trades.parquet")
    pa.csv.write_csv(TRADES, "trades.csv")
    for name in ("trades.parquet", "trades.csv", "trades.parquet?key=secret"):
        assert tg.interval_join(f"{address}/{name}", QUOTES, **CHOSEN).equals(PAIRS)
    missing = "nope.parquet: cannot be read: No such file"
    refuses(tg.TidegateError, missing, f"{address}/nope.parquet")
    refuses(tg.TidegateError, "HTTP cannot list files; give the URLs", f"{address}/*.parquet")


def test_parts_of_a_file_behind_http_are_read(server: http.server.ThreadingHTTPServer) -> None:
    noise = np.random.default_rng(7).bytes(24 << 20)
    column = pa.array([noise[at : at + 1024] for at in range(0, len(noise), 1024)])
    table = pa.table({"ts": range(len(column)), "noise": column})
    write(table, "large.parquet")
    address = f"http://127.0.0.1:{server.server_port}/large.parquet"
    found = tg.aggregate(address, on="ts", size=10**9, aggs={"n": tg.agg.count()})
    assert found["n"].to_pylist() == [len(column)]
    ends = [part.removeprefix("bytes=").split("-") for part in server.asked]
    assert sum(int(last) - int(first) + 1 for first, last in ends) < len(noise) // 2


def test_files_in_an_object_store(bucket: pafs.FileSystem) -> None:
    for at in range(4):
        path = f"market/trades/day={at // 2}/{at}.parquet"
        pq.write_table(TRADES.slice(at, 1), path, filesystem=bucket)
    names = [f"s3://market/trades/day={at // 2}/{at}.parquet" for at in range(4)]
    for given in ("s3://market/trades", "s3://market/trades/", "s3://market/*/day=*/*", names):
        assert tg.interval_join(given, QUOTES, **CHOSEN).equals(PAIRS), given
    found = tg.interval_join("s3://market/trades", QUOTES, **JOIN, columns=["day"])
    assert found["day"].to_pylist() == [0, 0, 1, 1]
    refuses(
        tg.TidegateError,
        "left: s3://market/nope.parquet: cannot be read: No such file",
        "s3://key:hidden@market/nope.parquet",
    )
    refuses(
        tg.TidegateError, "s3://market/trades/*.csv: no file matches", "s3://market/trades/*.csv"
    )


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has named pipes in the file system")
def test_a_pipe_is_read_once(folder: Path) -> None:
    os.mkfifo("pipe.csv")
    thread = threading.Thread(
        target=lambda: Path("pipe.csv").write_text("ts,sym\n1,A\n4,B\n9,A\n12,B\n")
    )
    thread.start()
    found = tg.interval_join("pipe.csv", QUOTES, **JOIN, columns=["ts", "bid"])
    thread.join(60)
    assert found.equals(PAIRS.select(["ts", "bid"]))


def test_an_error_that_asks_for_more_than_a_text_names_the_argument():
    with pytest.raises(tg.TidegateError, match=r"^left: .*surrogates not allowed"):
        tg.interval_join({"ts": [1], "\ud800": [1]}, QUOTES, on="ts", lower=0, upper=0)

"""Measures the as-of joins of KX's NYSE TAQ benchmarks, queries 79 to 84, on generated data.

The suite (https://github.com/KxSystems/NYSETAQBenchmarks) joins one day's trades with the day's
quotes. This script generates both tables. They contain the columns that the queries read, with the
types used in the suite. There are 20 quotes per trade, and symbols follow Zipf's law. No two quotes
have the same time, so all systems return the same result. The queries join these trades:

- 79: trades of 50 symbols, including 5 that do not exist;
- 80: trades of 1,000 infrequent symbols, including 20 that do not exist;
- 81, 82: trades of one infrequent symbol, and of the most frequent symbol;
- 83: trades of more than 500,000 shares, joined by symbol and exchange;
- 84: trades from 16:20 to 16:30.

A call selects the trades, joins them, and returns one table with the trades in time order and the
prevailing quotes. The systems take turns. In each round, each combination of system and query runs
in a fresh process, which first prepares what the query needs, such as an index. Before any later
call is timed, the results are compared by their numbers of rows and partners and the checksums of
all columns, which depend on the order of rows.

    python benches/taq_queries.py --quotes 20000000 --threads 2 --rounds 5 --json taq.json
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import child
import turns
from market import distinct_times, prices, random_of, ranks
from workload import SEED

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Run = Callable[[], Any]

QUERIES = {
    "79": "50 symbols",
    "80": "1,000 infrequent symbols",
    "81": "an infrequent symbol",
    "82": "the most frequent symbol",
    "83": "more than 500,000 shares, by symbol and exchange",
    "84": "16:20 to 16:30",
}
SINGLE = ("81", "82")  # queries for a single symbol, whose results have no symbol column
OURS = "tidegate index"
QUOTES_PER_TRADE = 20
LARGE = 500_000
FEWEST_SYMBOLS = 1_200  # query 80 skips a tenth of them, and selects the next 980
EXCHANGES = list("ABCDHIJKLMNPQTUVXYZ")
CONDITIONS = ["@", "@  I", "@F I", "@F", " F", "@ TI", "   I"]
STOPS = ["", "N"]
MISSING = "nowhere"  # prefix for the names of symbols that do not exist
LEAST_S = 0.2  # short calls are repeated for at least this long

HOUR_NS = 3_600 * 10**9
DAY_NS = 20_544 * 24 * HOUR_NS  # 2026-04-01
OPEN, CLOSE = DAY_NS + 9 * HOUR_NS + HOUR_NS // 2, DAY_NS + 16 * HOUR_NS
# The beginning and end of each session, and its share of the rows.
SESSIONS = [
    (DAY_NS + 4 * HOUR_NS, OPEN, 0.02),
    (OPEN, CLOSE, 0.965),
    (CLOSE, DAY_NS + 20 * HOUR_NS, 0.015),
]
LATE = (CLOSE + HOUR_NS // 3, CLOSE + HOUR_NS // 2)

OF_TRADE = ["sym", "time", "price", "size", "stop", "cond", "ex"]
OF_QUOTE = ["bid", "ask", "bsize", "asize", "quotecond"]


@dataclasses.dataclass(frozen=True)
class Job:
    """A system and a query, which the parent process passes as JSON."""

    form: str
    query: str
    folder: str
    threads: int
    repeat: int

    def read(self, name: str) -> pa.Table:
        """Read a table."""
        with pa.OSFile(str(Path(self.folder) / name)) as file:
            return pa.ipc.open_file(file).read_all()

    @property
    def symbols(self) -> list[str]:
        """Return the symbols that queries 79 to 82 select."""
        chosen: dict[str, list[str]] = json.loads((Path(self.folder) / "symbols").read_text())
        return chosen[self.query]

    @property
    def columns(self) -> list[str]:
        """Return the names of the result columns."""
        more = {"83": [], "84": []}.get(self.query, ["quoteex"])
        names = [*OF_TRADE, *OF_QUOTE, *more]
        return names[1:] if self.query in SINGLE else names


def generate(quotes: int, symbols: int, folder: Path) -> None:
    """Write trades, quotes, and the symbols that the queries select."""
    names = [f"S{number:05}" for number in random_of(SEED, 0).permutation(symbols)]
    frequencies = np.zeros(symbols, np.int64)
    for table, rows, seed in (("trade", quotes // QUOTES_PER_TRADE, 1), ("quote", quotes, 2)):
        random = random_of(SEED, seed)
        drawn = ranks(random, symbols, rows)
        if table == "quote":
            frequencies = np.bincount(drawn, minlength=symbols)
        columns: dict[str, pa.Array] = {
            "time": pa.array(_times(random, rows), pa.timestamp("ns")),
            "sym": pa.DictionaryArray.from_arrays(drawn, names),
            "ex": _drawn(random, EXCHANGES, rows),
        }
        columns |= _trades(random, rows) if table == "trade" else _quotes(random, rows)
        written = pa.table(columns)
        with pa.ipc.new_file(folder / table, written.schema) as file:
            file.write_table(written)
        del columns, written
    chosen = {key: names_of(names, places) for key, places in _chosen(frequencies).items()}
    chosen["79"] += [f"{MISSING} {number}" for number in range(5)]
    chosen["80"] += [f"{MISSING} {number}" for number in range(20)]
    (folder / "symbols").write_text(json.dumps(chosen))


def names_of(names: list[str], places: NDArray[np.int64]) -> list[str]:
    """Return the names of the symbols at these places."""
    return [names[place] for place in places]


def _times(random: np.random.Generator, rows: int) -> NDArray[np.int64]:
    counts = [round(share * rows) for *_, share in SESSIONS]
    counts[1] += rows - sum(counts)
    parts = [
        distinct_times(random, begin, end, count)
        for (begin, end, _), count in zip(SESSIONS, counts, strict=True)
    ]
    return np.concatenate(parts)


def _drawn(random: np.random.Generator, values: list[str], rows: int) -> pa.DictionaryArray:
    codes = random.integers(0, len(values), rows, dtype=np.int8)
    return pa.DictionaryArray.from_arrays(codes, values)


def _trades(random: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    # One trade in 64,000 has more than 500,000 shares, as the size of the suite's results suggests.
    sizes = 100 * (1 + random.pareto(1.3, rows))
    return {
        "price": pa.array(prices(random, rows).astype(np.float32)),
        "size": pa.array(np.floor(sizes).astype(np.float32)),
        "stop": _drawn(random, STOPS, rows),
        "cond": _drawn(random, CONDITIONS, rows),
    }


def _quotes(random: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    bids = prices(random, rows)
    sizes = (100 * random.integers(1, 50, rows, dtype=np.int32) for _ in range(2))
    return {
        "bid": pa.array(bids.astype(np.float32)),
        "ask": pa.array((bids + random.integers(1, 8, rows) / 64).astype(np.float32)),
        "bsize": pa.array(next(sizes)),
        "asize": pa.array(next(sizes)),
        "quotecond": _drawn(random, ["R", "Y", "H"], rows),
    }


def _chosen(frequencies: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Choose symbols by their number of quotes, according to the suite's rules."""
    ascending = np.argsort(frequencies, kind="stable")
    symbols = len(ascending)
    return {
        "79": random_of(SEED, 79).choice(ascending, 45, replace=False),
        "80": ascending[symbols // 10 : symbols // 10 + 980],
        "81": ascending[[symbols // 5]],
        "82": ascending[[-1]],
    }


def tidegate_index(job: Job) -> tuple[Run, float]:
    """Join with an index of the quotes, by symbol, or by symbol and exchange.

    For a query with a single symbol, a second index finds that symbol's trades in time order.
    """
    import tidegate as tg  # noqa: PLC0415 - each process loads its own system

    trade, quote = job.read("trade"), job.read("quote").rename_columns({"ex": "quoteex"})
    by = ["sym", "quoteex"] if job.query == "83" else ["sym"]
    select = _selection(job, trade)
    start = time.perf_counter()
    quotes = tg.Index(quote, on="time", by=by, threads=job.threads)
    prepared = time.perf_counter() - start
    if job.query not in SINGLE:
        return (lambda: _joined(job, select(), quotes)), prepared
    # An unbounded interval contains all trades of the symbol.
    asked = pa.table({"sym": job.symbols, "at": pa.array([0], pa.timestamp("ns"))})
    start = time.perf_counter()
    trades = tg.Index(trade, on="time", by="sym", threads=job.threads)
    prepared += time.perf_counter() - start

    def run() -> pa.Table:
        chosen = tg.interval_join(
            asked, trades, on="at", by="sym", lower=None, upper=None, columns=OF_TRADE,
            threads=job.threads,
        )  # fmt: skip
        return _joined(job, chosen, quotes)

    return run, prepared


def tidegate_table(job: Job) -> tuple[Run, float]:
    """Join with the quotes of the trades' symbols, or with all quotes in query 84.

    The trades in query 84 have so many symbols that filtering the quotes takes longer than the
    join.
    """
    trade, quote = job.read("trade"), job.read("quote").rename_columns({"ex": "quoteex"})
    select = _selection(job, trade)
    codes, symbols = _coded(quote)

    def run() -> pa.Table:
        left = select()
        if job.query == "84":
            return _joined(job, left, quote)
        is_chosen = np.zeros(len(symbols), bool)
        is_chosen[_coded(left)[0]] = True
        return _joined(job, left, quote.filter(pa.array(is_chosen[codes])))

    return run, 0.0


def _joined(job: Job, trades: pa.Table, quotes: Any) -> pa.Table:  # noqa: ANN401 - a table or an index
    import tidegate as tg  # noqa: PLC0415 - as above

    by = [("sym", "sym"), ("ex", "quoteex")] if job.query == "83" else [("sym", "sym")]
    return tg.asof_join(trades, quotes, on="time", by=by, columns=job.columns, threads=job.threads)


def _coded(table: pa.Table) -> tuple[NDArray[np.int32], pa.Array]:
    """Return the dictionary code of each row's symbol, and the dictionary of symbols."""
    column = table["sym"].combine_chunks()
    return column.indices.to_numpy(), column.dictionary


def _selection(job: Job, trade: pa.Table) -> Callable[[], pa.Table]:
    """Return a function that selects the trades of a query."""
    if job.query == "83":
        return lambda: trade.filter(pc.greater(trade["size"], LARGE))
    if job.query == "84":
        times = trade["time"].combine_chunks().view(pa.int64()).to_numpy()

        def between() -> pa.Table:
            first = np.searchsorted(times, LATE[0])
            return trade.slice(first, np.searchsorted(times, LATE[1], "right") - first)

        return between
    chosen, (codes, symbols) = pa.array(job.symbols), _coded(trade)

    def of_symbols() -> pa.Table:
        is_chosen = pc.is_in(symbols, value_set=chosen).to_numpy(zero_copy_only=False)
        return trade.filter(pa.array(is_chosen[codes]))

    return of_symbols


def polars(job: Job) -> tuple[Run, float]:
    """Select the trades, and join them with the quotes of their symbols."""
    import polars as pl  # noqa: PLC0415 - as above

    trade, quote, col = pl.DataFrame(job.read("trade")), pl.DataFrame(job.read("quote")), pl.col
    trade, quote = trade.select(OF_TRADE), quote.rename({"ex": "quoteex"})
    by: dict[str, Any] = {"by": "sym"}
    if job.query == "83":
        is_chosen = col("size") > LARGE
        by = {"by_left": ["sym", "ex"], "by_right": ["sym", "quoteex"]}
    elif job.query == "84":
        begin, end = (pl.lit(at).cast(pl.Datetime("ns")) for at in LATE)
        is_chosen = col("time").is_between(begin, end)
    elif job.query in SINGLE:
        is_chosen = col("sym") == job.symbols[0]
        by = {}
    else:
        is_chosen = col("sym").is_in(job.symbols)

    def run() -> pl.DataFrame:
        left = trade.filter(is_chosen)
        is_own = is_chosen
        if job.query in ("83", "84"):
            is_own = col("sym").is_in(left["sym"].unique().implode())
        right = quote.filter(is_own)
        return left.join_asof(right, on="time", check_sortedness=False, **by).select(job.columns)

    return run, 0.0


def duckdb(job: Job) -> tuple[Run, float]:
    """Select the trades, and join them with the quotes of their symbols."""
    import duckdb  # noqa: PLC0415 - as above

    # Without this setting, DuckDB may run query 82 as a nested loop, which takes minutes.
    connection = duckdb.connect(config={"threads": job.threads, "asof_loop_join_threshold": 0})
    for name in ("trade", "quote"):
        table = job.read(name)
        if name == "trade":
            symbols = table["sym"].chunk(0).dictionary
            for kind, values in (("symbol", symbols), ("exchange", pa.array(EXCHANGES))):
                quoted = ", ".join(f"'{value}'" for value in values.to_pylist())
                connection.execute(f"create type {kind} as enum ({quoted})")
        connection.register("arrow_input", table)
        connection.execute(
            f"create table {name} as select * replace (sym::symbol as sym, ex::exchange as ex) "  # noqa: S608 - our own names
            "from arrow_input"
        )
        connection.unregister("arrow_input")
        del table
    keys = "t.sym = q.sym and"
    if job.query == "83":
        is_chosen, keys = f"size > {LARGE}", "t.sym = q.sym and t.ex = q.ex and"
    elif job.query == "84":
        begin, end = (f"make_timestamp_ns({at})" for at in LATE)
        is_chosen = f"time between {begin} and {end}"
    elif job.query in SINGLE:
        is_chosen, keys = f"sym = '{job.symbols[0]}'", ""
    else:
        # Selecting symbols by a table is faster than by a list.
        known = [name for name in job.symbols if not name.startswith(MISSING)]
        connection.execute("create table chosen as select unnest($1::symbol[]) as sym", [known])
        is_chosen = "sym in (select sym from chosen)"
    is_own = is_chosen
    if job.query in ("83", "84"):
        is_own = f"sym in (select sym from trade where {is_chosen})"  # noqa: S608 - as above
    columns = ", ".join(
        "q.ex as quoteex" if name == "quoteex" else f"{'q' if name in OF_QUOTE else 't'}.{name}"
        for name in job.columns
    )
    query = f"""
        select {columns} from (select *, rowid as place from trade where {is_chosen}) t
        asof left join (select * from quote where {is_own}) q on {keys} t.time >= q.time
        order by place
    """  # noqa: S608 - our own names
    return (lambda: connection.sql(query).to_arrow_table()), 0.0


FORMS: dict[str, Callable[[Job], tuple[Run, float]]] = {
    OURS: tidegate_index,
    "tidegate table": tidegate_table,
    "polars": polars,
    "duckdb": duckdb,
}


def fingerprint(result: Any) -> child.Fingerprint:  # noqa: ANN401 - a table of any system
    """Return the numbers of rows and partners, and an order-dependent checksum of each column."""
    table = result if isinstance(result, pa.Table) else result.to_arrow()
    checksums = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        if name == "time":
            values = column.cast(pa.timestamp("ns")).cast(pa.int64())
        elif pa.types.is_floating(kind):
            values = column.cast(pa.float64())
        elif pa.types.is_integer(kind):
            values = column.cast(pa.int64())
        else:
            values = column.cast(pa.large_string())
        if values.type == pa.large_string():
            joined = "\n".join("null" if text is None else text for text in values.to_pylist())
            checksums.append(zlib.crc32(joined.encode()))
        else:
            filled = pc.fill_null(values, pa.scalar(-1, values.type))
            checksums.append(zlib.crc32(filled.to_numpy().tobytes()))
    return [table.num_rows, table.num_rows - table["bid"].null_count, *checksums]


def measure(job: Job) -> child.Found:
    """Run a job in this process; the last fingerprint value is the preparation time."""
    pa.set_cpu_count(job.threads)
    run, prepared = FORMS[job.form](job)
    found = child.measure(run, fingerprint, job.repeat, LEAST_S)
    return dataclasses.replace(found, fingerprint=[*found.fingerprint, prepared])


def main() -> None:
    """Measure all queries, print a table, and write all figures."""
    given = _options()
    every: dict[str, turns.Rounds] = {}
    with tempfile.TemporaryDirectory() as folder:
        print("generating", file=sys.stderr, flush=True)
        generate(given.quotes, given.symbols, Path(folder))
        for query in given.queries.split(","):
            print(f"query {query}", file=sys.stderr, flush=True)
            jobs = [
                Job(system, query, folder, given.threads, given.repeat)
                for system in given.systems.split(",")
            ]
            every[query] = turns.measured(__file__, jobs, given.rounds, given.timeout, compared=-1)
    sizes = f"{given.quotes:,} quotes, {given.quotes // QUOTES_PER_TRADE:,} trades"
    print(f"{sizes}, {given.symbols:,} symbols, {given.threads} threads\n")
    print(markdown(every))
    print(f"Versions: {turns.versions(given.systems.split(','))}")
    if given.json:
        turns.write(given.json, every)


def markdown(every: dict[str, turns.Rounds]) -> str:
    """Return a table of all queries, with the warm times relative to those of the index."""
    lines = [
        (
            "| query | trades | system | preparation, s | first call, ms | warm, ms "
            "| relative to the index |"
        ),
        "| --- | --: | --- | --: | --: | --: | --: |",
    ]
    for query, found in every.items():
        for system, rounds in found.items():
            trades = f"{int(rounds[0].fingerprint[0]):,}" if rounds else "-"
            prepared = [one.fingerprint[-1] for one in rounds if one.fingerprint[-1]]
            own = [] if system == OURS else found.get(OURS, [])
            cells = [
                *(f"{query}: {QUERIES[query]}", trades, system),
                turns.spread(prepared),
                *(turns.spread(of(rounds), 1e3) for of in (turns.first, turns.warm)),
                turns.spread(turns.ratios(rounds, own)) if own else "",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _options() -> argparse.Namespace:
    lists: dict[str, Iterable[str]] = {"systems": FORMS, "queries": QUERIES}
    parser = turns.parser(__doc__, lists)
    parser.add_argument("--quotes", type=int, default=20_000_000, help="the number of quotes")
    help_of_symbols = f"the number of symbols, at least {FEWEST_SYMBOLS}"
    parser.add_argument("--symbols", type=int, default=5_000, help=help_of_symbols)
    given = turns.parsed(parser, lists)
    if given.symbols < FEWEST_SYMBOLS:
        parser.error(f"--symbols: expected at least {FEWEST_SYMBOLS:,}, found {given.symbols:,}")
    return given


if __name__ == "__main__":
    child.main(lambda job: measure(Job(**job)), main)

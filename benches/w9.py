"""Measures workload W9: joins of a few trades with many quotes, with `tidegate.Index` and peers.

The quotes are in time order and cover the 6.5 hours of a trading day. Their symbols follow Zipf's
law. No two quotes have the same time, so all systems return the same result. The cases are:

- `build`: preparing the quotes, by building an index or sorting by symbol and time;
- `random-N` and `sorted-N`: as-of joins of N trades, in no order or in time order;
- `ten-minutes`, `50-symbols`, `1000-rare` and `one-symbol`: as-of joins of selected trades out of a
  million: those in a ten-minute period, of 50 random symbols, of the 1,000 least frequent symbols,
  or of the most frequent symbol;
- `windows`: the count and the mean of the bids in the 10 s before each of 1,000 trades;
- `full-N`: an as-of join of N trades with N quotes.

The systems take turns. In each round, each combination of system and case runs in a fresh process.
The process first prepares the quotes, unless the case measures the preparation. Successive calls
join different sets of trades. Before any later call is timed, the first results are compared by
their numbers of rows and partners and a checksum of all columns. The script prints Markdown tables.

    python benches/w9.py --rows 20000000 --threads 2 --rounds 5 --json w9.json
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import child
import turns
from market import distinct_times, prices, random_of, ranks
from measure import reset_peak, return_free_memory, status
from workload import KEY_SHIFT, SEED, hash_rows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    import polars as pl
    from numpy.typing import NDArray

    import tidegate

    Arrays = dict[str, NDArray[Any]]
    Form = Callable[["Job"], Callable[[], Any]]

DAY_US = 23_400_000_000  # 6.5 hours
TEN_MINUTES_US = 600_000_000
WINDOW_US = 10_000_000
SETS = 8  # sets of trades per case; if all calls had the same trades, their quotes would be cached
DAY_TRADES, WINDOWS = 1_000_000, 1_000
CHOSEN, RARE = 50, 1_000
MOST_SYMBOLS = 1 << 16
LEAST_S = 0.2  # short calls are repeated for at least this long
OURS = "tidegate index"


@dataclasses.dataclass(frozen=True)
class Job:
    """A system and a case, which the parent process passes as JSON."""

    form: str
    case: str
    folder: str
    threads: int
    repeat: int

    @property
    def kind(self) -> str:
        """Return the key of this case in `FORMS`."""
        return kind_of(self.case)

    @property
    def quotes(self) -> pa.Table:
        """Read the quotes in time order: ts, sym, bid, ask."""
        return _read(self.folder, f"quotes-{self.case}" if self.kind == "full" else "quotes")

    @property
    def by_code(self) -> pa.Table:
        """Read the quotes, sorted by a code that combines symbol and time: code, bid, ask."""
        return _read(self.folder, "by-code")

    @property
    def trades(self) -> list[pa.Table]:
        """Read the sets of trades for the case, which calls join in turn: ts, sym, price."""
        batches = _read(self.folder, self.case).to_batches()
        return [pa.Table.from_batches([batch]) for batch in batches]

    @property
    def has_few_symbols(self) -> bool:
        """Return whether the trades have so few symbols that filtering the quotes saves time."""
        return self.case in ("50-symbols", "1000-rare", "one-symbol", "random-1000", "sorted-1000")


def kind_of(case: str) -> str:
    """Return the kind of measurement, which is a key of `FORMS`."""
    name = case.partition("-")[0]
    return name if name in FORMS else "asof"


def _read(folder: str, name: str) -> pa.Table:
    with pa.OSFile(str(Path(folder) / name)) as file:
        return pa.ipc.open_file(file).read_all()


def _write(folder: Path, name: str, tables: list[pa.Table]) -> None:
    """Write a file with one batch per table."""
    with pa.ipc.new_file(folder / name, tables[0].schema) as file:
        for table in tables:
            file.write_table(table.combine_chunks())


def quotes_of(rows: int, symbols: int, seed: int) -> pa.Table:
    """Generate quotes in time order."""
    random = random_of(SEED, seed)
    bids = prices(random, rows)
    return pa.table(
        {
            "ts": distinct_times(random, 0, DAY_US, rows),
            "sym": ranks(random, symbols, rows),
            "bid": bids,
            "ask": bids + random.integers(1, 8, rows) / 64,
        }
    )


def trades_of(rows: int, symbols: int, seed: int) -> pa.Table:
    """Generate trades in no order."""
    random = random_of(SEED, seed)
    times = random.integers(0, DAY_US, rows)
    return pa.table(
        {"ts": times, "sym": ranks(random, symbols, rows), "price": prices(random, rows)}
    )


def trades_of_case(case: str, symbols: int, number: int) -> pa.Table:
    """Generate a set of trades for a case."""
    name, _, size = case.partition("-")
    if name in ("random", "sorted", "full", "windows"):
        rows = int(size or WINDOWS)
        trades = trades_of(rows, symbols, rows + number)
        return trades if name in ("random", "windows") else trades.sort_by("ts")
    day = trades_of(DAY_TRADES, symbols, DAY_TRADES + number).sort_by("ts")
    ts, sym = day["ts"].to_numpy(), day["sym"].to_numpy()
    some = random_of(SEED, CHOSEN, number).choice(symbols, CHOSEN, replace=False)
    begin = (number + 1) * DAY_US // (SETS + 1)
    chosen = {
        "ten-minutes": (ts >= begin) & (ts < begin + TEN_MINUTES_US),
        "50-symbols": np.isin(sym, some),
        "1000-rare": sym >= symbols - RARE,
        "one-symbol": sym == 0,
    }
    return day.filter(pa.array(chosen[case]))


def write_inputs(cases: list[str], rows: int, symbols: int, folder: Path) -> dict[str, float]:
    """Write the tables for all cases; return the mean number of trades per set in each case."""
    if any(not case.startswith("full-") for case in cases):
        quotes = quotes_of(rows, symbols, 0)
        _write(folder, "quotes", [quotes])
        _write(folder, "by-code", [pa.table(sorted_by_code(arrays_of(quotes)))])
        del quotes
    counts = {}
    for case in cases:
        if case == "build":
            continue
        sets = 1 if case.startswith("full-") else SETS
        trades = [trades_of_case(case, symbols, number) for number in range(sets)]
        counts[case] = statistics.mean(table.num_rows for table in trades)
        _write(folder, case, trades)
        if case.startswith("full-"):
            _write(folder, f"quotes-{case}", [quotes_of(trades[0].num_rows, symbols, 1)])
    return counts


def codes_of(symbols: NDArray[np.int32], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Combine symbols and times into one number per row."""
    return np.left_shift(symbols, KEY_SHIFT, dtype=np.int64) + times


def sorted_by_code(quotes: Arrays) -> Arrays:
    """Sort time-ordered quotes by symbol with NumPy, which uses a radix sort for 16-bit values."""
    order = np.argsort(quotes["sym"].astype(np.uint16), kind="stable")
    sorted_ = {name: quotes[name][order] for name in quotes}
    code = codes_of(sorted_["sym"], sorted_["ts"])
    return {"code": code, "bid": sorted_["bid"], "ask": sorted_["ask"]}


def arrays_of(table: pa.Table) -> Arrays:
    """Return the columns of a table as NumPy arrays."""
    return {name: table[name].to_numpy() for name in table.column_names}


# Preparations. Each function returns a callable whose result refers to the prepared rows.


def build_index(job: Job) -> Callable[[], Any]:
    """Build an index."""
    import tidegate as tg  # noqa: PLC0415 - each process loads its own system

    quotes = job.quotes
    return lambda: tg.Index(quotes, on="ts", by="sym", threads=job.threads)


def build_polars(job: Job) -> Callable[[], Any]:
    """Sort a time-ordered frame by symbol; sorting by both columns takes longer."""
    import polars as pl  # noqa: PLC0415 - as above

    quotes = pl.DataFrame(job.quotes)
    return lambda: (
        quotes.group_by("sym")
        .agg("ts", "bid", "ask")
        .sort("sym")
        .explode("ts", "bid", "ask")
        .select(_code().alias("code"), "bid", "ask")
    )


def build_numpy(job: Job) -> Callable[[], Any]:
    """Sort time-ordered arrays by symbol."""
    quotes = arrays_of(job.quotes)
    return lambda: sorted_by_code(quotes)


def bytes_of(prepared: Any) -> int:  # noqa: ANN401 - what a system prepares
    """Return how many bytes the prepared data takes up in addition to the quotes."""
    if isinstance(prepared, dict):
        return sum(array.nbytes for array in prepared.values())
    return int(prepared.nbytes if hasattr(prepared, "nbytes") else prepared.estimated_size())


# As-of joins. Each result has the trades' columns and the prevailing bid and ask.

COLUMNS = ["ts", "sym", "price", "bid", "ask"]


def tidegate_index(job: Job) -> Callable[[], Any]:
    """Join with an index."""
    return _tidegate(job, build_index(job)())


def tidegate_table(job: Job) -> Callable[[], Any]:
    """Join with the table."""
    return _tidegate(job, job.quotes)


def _tidegate(job: Job, quotes: pa.Table | tidegate.Index) -> Callable[[], Any]:
    import tidegate as tg  # noqa: PLC0415 - as above

    sets = itertools.cycle(job.trades)
    if job.kind == "windows":
        aggs = {"n": tg.agg.count(), "mean": tg.agg.mean("bid")}
        return lambda: tg.interval_join(
            next(sets), quotes, on="ts", by="sym", lower=-WINDOW_US, upper=0, aggs=aggs,
            threads=job.threads,
        )  # fmt: skip
    return lambda: tg.asof_join(
        next(sets), quotes, on="ts", by="sym", columns=COLUMNS, threads=job.threads
    )


def polars(job: Job) -> Callable[[], Any]:
    """Sort the trades if needed. If they have few symbols, first select those symbols' quotes."""
    import polars as pl  # noqa: PLC0415 - as above

    quotes, sets = pl.DataFrame(job.quotes), _frames(job)

    def run() -> pl.DataFrame:
        left, right = next(sets), quotes
        if job.case.startswith("random"):
            left = left.sort("ts")
        if job.has_few_symbols:
            right = quotes.filter(pl.col("sym").is_in(left["sym"].unique().implode()))
        return left.join_asof(right, on="ts", by="sym", check_sortedness=False)

    return run


def _frames(job: Job) -> Iterator[pl.DataFrame]:
    import polars as pl  # noqa: PLC0415 - as above

    return itertools.cycle([pl.DataFrame(table) for table in job.trades])


def _code() -> pl.Expr:
    import polars as pl  # noqa: PLC0415 - as above

    return pl.col("sym").cast(pl.Int64) * (1 << KEY_SHIFT) + pl.col("ts")


def polars_sorted(job: Job) -> Callable[[], Any]:
    """Join with quotes that were sorted beforehand by symbol and time, as one number."""
    import polars as pl  # noqa: PLC0415 - as above

    quotes, sets = pl.DataFrame(job.by_code).set_sorted("code").lazy(), _frames(job)
    is_own = pl.col("code_right") // (1 << KEY_SHIFT) == pl.col("sym")
    of_quote = [pl.when(is_own).then(pl.col(name)) for name in ("bid", "ask")]

    def run() -> pl.DataFrame:
        left = next(sets).lazy().with_columns(code=_code()).sort("code")
        return (
            left.join_asof(quotes, on="code", coalesce=False, check_sortedness=False)
            .select("ts", "sym", "price", *of_quote)
            .collect()
        )

    return run


def duckdb(job: Job) -> Callable[[], Any]:
    """Join native tables. If the trades have few symbols, first select those symbols' quotes."""
    of_symbols = "where sym in (select sym from t)" if job.has_few_symbols else ""
    return _duckdb(
        job,
        f"""
        select t.ts, t.sym, t.price, q.bid, q.ask
        from t asof left join (select * from q {of_symbols}) q on t.sym = q.sym and t.ts >= q.ts
        """,  # noqa: S608 - no values of users
    )


def _duckdb(job: Job, query: str) -> Callable[[], Any]:
    """Return a callable that runs a query on the quotes `q` and the next set of trades `t`."""
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"threads": job.threads, "preserve_insertion_order": False})
    tables = {f"t{number}": table for number, table in enumerate(job.trades)}
    for name, table in (tables | {"q": job.quotes}).items():
        connection.register("arrow_input", table)
        connection.execute(f"create table {name} as from arrow_input")
        connection.unregister("arrow_input")
    sets = itertools.cycle(tables)

    def run() -> pa.Table:
        return connection.sql(f"with t as (from {next(sets)}) {query}").to_arrow_table()

    return run


def numpy_search(job: Job) -> Callable[[], Any]:
    """Sort the trades, and look up each one in quotes that were sorted beforehand."""
    quotes, sets = arrays_of(job.by_code), itertools.cycle([*map(arrays_of, job.trades)])

    def run() -> Arrays:
        trades, codes = _by_code(next(sets))
        places = np.maximum(np.searchsorted(quotes["code"], codes, "right") - 1, 0)
        found = quotes["code"][places]
        is_own = (found >> KEY_SHIFT == trades["sym"]) & (found <= codes)
        return trades | {
            name: np.where(is_own, quotes[name][places], np.nan) for name in ("bid", "ask")
        }

    return run


def _by_code(trades: Arrays) -> tuple[Arrays, NDArray[np.int64]]:
    """Sort trades by symbol and time as one number, so that successive searches are close."""
    codes = codes_of(trades["sym"], trades["ts"])
    order = np.argsort(codes)
    return {name: array[order] for name, array in trades.items()}, codes[order]


# The count and the mean of the bids before each trade.


def polars_windows(job: Job) -> Callable[[], Any]:
    """Join by symbol and a time bucket as wide as the window, and group the pairs."""
    import polars as pl  # noqa: PLC0415 - as above

    col, bucket = pl.col, pl.col("ts") // WINDOW_US
    quotes = pl.DataFrame(job.quotes).lazy().select("ts", "sym", "bid", bucket=bucket)
    sets = _frames(job)

    def run() -> pl.DataFrame:
        trades = next(sets).lazy().with_row_index("row")
        reached = trades.with_columns(bucket=pl.concat_list(bucket - 1, bucket)).explode("bucket")
        found = (
            reached.join(quotes, on=["sym", "bucket"])
            .filter(col("ts_right") <= col("ts"), col("ts_right") >= col("ts") - WINDOW_US)
            .group_by("row")
            .agg(n=pl.len(), mean=col("bid").mean())
        )
        return (
            trades.join(found, on="row", how="left", maintain_order="left")
            .select("ts", "sym", "price", col("n").fill_null(0), "mean")
            .collect(engine="streaming")
        )

    return run


def polars_prefixes(job: Job) -> Callable[[], Any]:
    """Look up precomputed running counts and sums at both ends of each window."""
    import polars as pl  # noqa: PLC0415 - as above

    col = pl.col
    running = (
        pl.DataFrame(job.by_code)
        .select("code", c=pl.int_range(1, pl.len() + 1), s=col("bid").cum_sum())
        .set_sorted("code")
        .lazy()
    )
    n, total = (col(name).fill_null(0) - col(f"{name}_b").fill_null(0) for name in ("c", "s"))
    mean = pl.when(n > 0).then(total / n)
    sets, code = _frames(job), _code()
    begins = running.rename({"code": "begin", "c": "c_b", "s": "s_b"})

    def run() -> pl.DataFrame:
        return (
            next(sets)
            .lazy()
            .with_columns(code=code, begin=code - WINDOW_US - 1)
            .sort("code")
            .join_asof(running, on="code", check_sortedness=False)
            .join_asof(begins, on="begin", check_sortedness=False)
            .select("ts", "sym", "price", n=n, mean=mean)
            .collect()
        )

    return run


def duckdb_windows(job: Job) -> Callable[[], Any]:
    """Join by symbol and a time bucket as wide as the window, and group the pairs."""
    return _duckdb(
        job,
        f"""
        , numbered as (select *, row_number() over () as n from t), reached as (
            select *, unnest([ts // {WINDOW_US} - 1, ts // {WINDOW_US}]) as bucket from numbered
        ), found as (
            select l.n as number, count(*) as n, avg(q.bid) as mean
            from reached l join q on l.sym = q.sym and l.bucket = q.ts // {WINDOW_US}
            where q.ts between l.ts - {WINDOW_US} and l.ts
            group by l.n
        )
        select l.ts, l.sym, l.price, coalesce(f.n, 0) as n, f.mean
        from numbered l left join found f on f.number = l.n
        """,  # noqa: S608 - numbers only
    )


def numpy_windows(job: Job) -> Callable[[], Any]:
    """Search for both ends of each window, and add up the bids between them."""
    quotes, sets = arrays_of(job.by_code), itertools.cycle([*map(arrays_of, job.trades)])

    def run() -> Arrays:
        trades, codes = _by_code(next(sets))
        first = np.searchsorted(quotes["code"], codes - WINDOW_US, "left")
        counts = np.searchsorted(quotes["code"], codes, "right") - first
        rows = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(len(rows)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        sums = np.bincount(rows, quotes["bid"][places], len(counts))
        mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        return trades | {"n": counts, "mean": mean}

    return run


ASOF: dict[str, Form] = {
    OURS: tidegate_index,
    "tidegate table": tidegate_table,
    "polars": polars,
    "polars sorted": polars_sorted,
    "duckdb": duckdb,
    "numpy": numpy_search,
}
FORMS: dict[str, dict[str, Form]] = {
    "build": {OURS: build_index, "polars sorted": build_polars, "numpy": build_numpy},
    "asof": ASOF,
    "windows": {
        OURS: tidegate_index,
        "tidegate table": tidegate_table,
        "polars": polars_windows,
        "polars sorted": polars_prefixes,
        "duckdb": duckdb_windows,
        "numpy": numpy_windows,
    },
    "full": {name: ASOF[name] for name in (OURS, "tidegate table")},
}
CASES = [
    "build",
    *(f"{order}-{rows}" for order in ("random", "sorted") for rows in (1_000, 100_000, 1_000_000)),
    *("ten-minutes", "50-symbols", "1000-rare", "one-symbol", "windows"),
    *(f"full-{rows}" for rows in (1_000_000, 10_000_000)),
]


def fingerprint(result: Any) -> child.Fingerprint:  # noqa: ANN401 - a table of any system
    """Return the numbers of rows and partners, and an order-independent checksum of all values."""
    if isinstance(result, dict):
        # NumPy results use NaN for null.
        columns = {name: pa.array(values, from_pandas=True) for name, values in result.items()}
        result = pa.table(columns)
    table = result if isinstance(result, pa.Table) else result.to_arrow()
    names = ("ts", "sym", "price", "n", "mean") if "n" in table.column_names else COLUMNS
    cast = [
        table[name].cast(pa.float64() if name in ("price", "bid", "ask", "mean") else pa.int64())
        for name in names
    ]
    # Nulls become -1, which is unambiguous because bids and means are positive.
    filled = [pc.fill_null(column, pa.scalar(-1, column.type)).to_numpy() for column in cast]
    checksum = hash_rows(filled)
    # Split into two numbers that floats represent exactly.
    return [table.num_rows, int((filled[4] >= 0).sum()), checksum >> 32, checksum & 0xFFFF_FFFF]


def measure(job: Job) -> child.Found:
    """Run a job in this process."""
    pa.set_cpu_count(job.threads)
    run = FORMS[job.kind][job.form](job)
    if job.kind != "build":
        return child.measure(run, fingerprint, job.repeat, LEAST_S)
    return_free_memory()
    before = status("VmRSS") or 0
    reset_peak()

    def described(prepared: Any) -> child.Fingerprint:  # noqa: ANN401 - as in `bytes_of`
        return [bytes_of(prepared), (status("VmHWM") or 0) - before]

    return child.measure(run, described, job.repeat)


def main() -> None:
    """Measure all cases, print tables, and write all figures."""
    given = _options()
    systems, cases = given.systems.split(","), given.cases.split(",")
    every: dict[str, turns.Rounds] = {}
    with tempfile.TemporaryDirectory() as folder:
        print("generating", file=sys.stderr, flush=True)
        trades = write_inputs(cases, given.rows, given.symbols, Path(folder))
        for case in cases:
            print(case, file=sys.stderr, flush=True)
            kind = kind_of(case)
            jobs = [
                Job(system, case, folder, given.threads, given.repeat)
                for system in systems
                if system in FORMS[kind]
            ]
            # The fingerprints of `build` contain sizes in bytes, which differ between systems.
            compared = 0 if kind == "build" else None
            every[case] = turns.measured(__file__, jobs, given.rounds, given.timeout, compared)
    print(f"{given.rows:,} quotes, {given.symbols:,} symbols, {given.threads} threads\n")
    if "build" in every:
        print(preparations(every["build"], given.rows))
    print(joins({case: found for case, found in every.items() if case != "build"}, trades))
    print(f"Versions: {turns.versions(given.systems.split(','))}")
    if given.json:
        turns.write(given.json, every)


def preparations(found: turns.Rounds, rows: int) -> str:
    """Return a table of the preparation times and sizes."""
    lines = [
        "| system | first call, s | warm, s | bytes per row | peak bytes per row |",
        "| --- | --: | --: | --: | --: |",
    ]
    for system, rounds in found.items():
        times = f"{turns.spread(turns.first(rounds))} | {turns.spread(turns.warm(rounds))}"
        sizes = [
            statistics.median(one.fingerprint[place] for one in rounds) / rows if rounds else 0.0
            for place in (0, 1)
        ]
        lines.append(f"| {system} | {times} | {sizes[0]:.1f} | {sizes[1]:.0f} |")
    return "\n".join([*lines, ""])


def joins(every: dict[str, turns.Rounds], trades: dict[str, float]) -> str:
    """Return a table of the joins, with the warm times relative to those of the index."""
    lines = [
        (
            "| case | trades | system | first call, ms | warm, ms | warm, us per trade "
            "| relative to the index |"
        ),
        "| --- | --: | --- | --: | --: | --: | --: |",
    ]
    for case, found in every.items():
        for system, rounds in found.items():
            times = " | ".join(turns.spread(of(rounds), 1e3) for of in (turns.first, turns.warm))
            each = turns.spread(turns.warm(rounds), 1e6 / trades[case])
            own = [] if system == OURS else found.get(OURS, [])
            ratio = turns.spread(turns.ratios(rounds, own)) if own else ""
            lines.append(
                f"| {case} | {trades[case]:,.0f} | {system} | {times} | {each} | {ratio} |"
            )
    return "\n".join([*lines, ""])


def _options() -> argparse.Namespace:
    lists: dict[str, Iterable[str]] = {"systems": ASOF, "cases": CASES}
    parser = turns.parser(__doc__, lists)
    parser.add_argument("--rows", type=int, default=20_000_000, help="the number of quotes")
    parser.add_argument("--symbols", type=int, default=5_000, help="the number of symbols")
    given = turns.parsed(parser, lists)
    if not RARE <= given.symbols <= MOST_SYMBOLS:
        parser.error(f"--symbols: expected {RARE:,} to {MOST_SYMBOLS:,}, found {given.symbols:,}")
    return given


if __name__ == "__main__":
    child.main(lambda job: measure(Job(**job)), main)

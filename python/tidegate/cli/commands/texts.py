"""The help of the commands."""

# "\b" preserves the line breaks of the paragraph that follows.
EXIT_CODES = """\b
Exit codes:
  0    the command succeeded, also if the reader of standard output closed it
       early, or if Ctrl-C, SIGTERM or SIGHUP stopped --follow
  1    the data, the files or the column names are invalid; one line shows why
  2    the command line is invalid
  130  Ctrl-C stopped the command; no output file is written
"""

EXTENSIONS = (
    ".parquet .pq; .csv .csv.gz .csv.zst; .tsv .tsv.gz .tsv.zst; "
    ".jsonl .jsonl.gz .jsonl.zst .ndjson; "
    ".arrow .ipc .feather (Arrow file); .arrows (Arrow stream)"
)

HELP = f"""Join, aggregate and merge event tables by time: Parquet, CSV, JSON lines and Arrow.

\b
Examples:
  tidegate join trades.parquet quotes.parquet --on ts --by symbol \\
      --lower -5s --upper 0s -o pairs.parquet
  tidegate asof trades.parquet quotes.parquet --on ts --by symbol -o last.parquet
  tidegate band trades.parquet quotes.parquet --on price=bid --within 0.5 -o near.csv
  tidegate aggregate trades.parquet --on ts --by symbol --size 1m \\
      --agg "close=last(price)" -o minutes.parquet
  tidegate index quotes.parquet --on ts --by symbol -o quotes.index
  tidegate merge monday.parquet tuesday.parquet --on ts -o week.parquet
  tidegate digest monday.parquet monday.csv
  tidegate join --help
  tidegate merge --help
  tidegate doctor

{EXIT_CODES}"""

JOIN_HELP = f"""Write every pair of rows from LEFT and RIGHT with equal keys and close times.

A pair is written if its keys are equal, left.ts + lower <= right.ts <= left.ts + upper, and WHERE,
if given, is true. Pairs follow the order of LEFT's rows, then that of RIGHT's rows. The result is
written piece by piece, so it may be larger than memory. The output file appears under its name once
it is complete.

LEFT and RIGHT are files, folders, quoted patterns such as 'trades/*.parquet', URLs such as
s3://bucket/trades/, or - for standard input. OUT is a file, or -. The format is determined by the
extension: {EXTENSIONS}.
The first bytes of a pipe determine its format. Standard output is CSV on a terminal, and otherwise
an Arrow stream, unless --format specifies another format.

With --right-index FILE in place of RIGHT, the right rows come from an index that was written by
tidegate index. --on and --by then only need the names of LEFT's columns.

With --follow, CSV files and Arrow streams are read as they grow. A pair is written as soon as
neither side can deliver another row that precedes the pair's later row. Only pipes and Arrow
streams with an end mark have an end. --until-end stops at the current end of each file,
--flush-after does not wait for rows of silent files, and Ctrl-C stops the command with exit code 0.
Rows are written in time order. Rows that are late by more than --lateness are omitted and counted.
If the type of a CSV column is not listed in --types, it is inferred from the lines present at the
start; with --state, the command can be run again with other --types. If a file is renamed, it is
read to the end. Then the new file with the original name is read. If a file is truncated,
overwritten, removed or replaced, the command fails.

With --state FILE, each row is written to OUT exactly once, even if Ctrl-C, an error, a kill signal,
a power failure or a full disk ends a run. Run the same command again to resume from the last
checkpoint. A checkpoint is written at intervals of --checkpoint, and when a signal stops the run.
FILE records how far the inputs have been read, and how much of OUT has been written. A resumed run
truncates OUT to this point and writes the rest again, with the same rows in the same order. OUT is
a CSV file, an Arrow stream, or (if it ends in /) a folder of Parquet files. Each Parquet file is
given its final name once a checkpoint includes it. Standard streams and pipes are rejected, because
they cannot be read or written again. FILE is removed when all inputs have ended, and FILE.lock is
removed when a run ends.

With --agg, one row is written for each row of LEFT. The row contains LEFT's columns, followed by
the result of each FUNCTION over the row's partners. These are the rows of RIGHT that match the row.
FUNCTION is count(), or count, sum, mean, min, max, first, last, var, std, product, any, all,
median, count_distinct, collect or time_weighted_mean of a COLUMN of RIGHT, quantile(COLUMN, 0.99),
weighted_mean(COLUMN, WEIGHTS), ewm_mean(COLUMN, HALF_LIFE), arg_min or arg_max of (COLUMN, BY), or
covar or corr of (COLUMN, OTHER). The functions first(COLUMN, N), last(COLUMN, N), top(COLUMN, N)
and top(COLUMN, N, BY) return lists. A condition is optional: "count() where bid > 3". A function
can have its own interval: "count() over lower=-1m, upper=0s, closed=left, prevailing=true".
--how inner omits rows without partners. With --follow, a row is written as soon as RIGHT cannot
deliver any more partners.

A duration is a number with a unit, such as 1h30m, -5s or 250ms. For integer times, a duration is an
integer in the same unit. "none" means no bound. An EXPR over the columns of one side, such as
left.tolerance or -right.reach, gives each row its own bound. An EXPR must return a duration or an
integer. An EXPR over columns of LEFT may also return a time, which is then used as the bound
itself. With --follow, an EXPR requires --max-width. Rows with a bound farther away than --max-width
are omitted and counted, like late rows.

\b
Examples:
  # the quotes in the five seconds before each trade
  tidegate join trades.parquet quotes.parquet --on ts --by symbol \\
      --lower -5s --upper 0s -o pairs.parquet

\b
  # columns with different names; flights without weather are kept
  tidegate join flights.csv weather.csv --on departure=observed \\
      --by origin=airport --lower -1h --upper 0s --how left -o delays.csv

\b
  # a condition on pairs, and only some columns
  tidegate join trades.parquet quotes.parquet --on ts --by symbol \\
      --lower -1m --upper 0s --where "left.price < right.bid" \\
      --columns ts,symbol,price,bid -o cheap.arrow

\b
  # each trade with the number of quotes and the mean bid in five seconds before it
  tidegate join trades.parquet quotes.parquet --on ts --by symbol \\
      --lower -5s --upper 0s --agg "n=count()" --agg "bid=mean(bid)" -o around.parquet

\b
  # each reservation with the readings during it
  tidegate join reservations.parquet readings.parquet --on start=ts --by room \\
      --lower 0s --upper left.end -o during.parquet

\b
  # from standard input to standard output
  cat flights.csv | tidegate join - weather.csv --left-format csv \\
      --on departure=observed --by origin=airport --lower -1h --upper 0s \\
      --format csv | head

\b
  # growing files, with rows that are up to a second late
  tidegate join trades.arrows quotes.arrows --on ts --by symbol \\
      --lower -5s --upper 0s --follow --lateness 1s -o pairs.csv

\b
  # growing files, with a state from which a killed run can resume
  tidegate join trades.arrows quotes.arrows --on ts --by symbol \\
      --lower -5s --upper 0s --follow --state pairs.state --checkpoint 1m -o pairs.csv

\b
  # print the plan
  tidegate join trades.parquet quotes.parquet --on ts --lower none --upper 0s \\
      --how anti --explain

{EXIT_CODES}"""

ASOF_HELP = f"""Write each row of LEFT together with the row of RIGHT that is nearest in time.

A row of RIGHT is a candidate if its keys are equal, its time is on the side that --strategy selects
and at most --tolerance away, and WHERE, if given, is true. backward selects the last candidate with
right.ts <= left.ts, and forward the first with right.ts >= left.ts. nearest selects the nearer of
the two; if both are equally near, it selects the earlier one. interpolate computes numbers between
the rows before and after. Rows are in the order of LEFT's rows. The result is written piece by
piece, so it may be larger than memory. The output file appears under its name once it is complete.

LEFT and RIGHT are files, folders, quoted patterns such as 'trades/*.parquet', URLs such as
s3://bucket/trades/, or - for standard input. OUT is a file, or -. The format is determined by the
extension: {EXTENSIONS}.
The first bytes of a pipe determine its format. Standard output is CSV on a terminal, and otherwise
an Arrow stream, unless --format specifies another format.

With --right-index FILE in place of RIGHT, the right rows come from an index that was written by
tidegate index. --on and --by then only need the names of LEFT's columns.

With --follow, CSV files and Arrow streams are read as they grow. A row is written as soon as RIGHT
cannot deliver a nearer row. With backward, a row is written once its own time has passed; with
forward, once the time of the matching row has passed. An unmatched row is written once --tolerance
has passed. The help for tidegate join explains late rows, --state and when files end.

A duration is a number with a unit, such as 1h30m or 250ms. For integer times, a duration is an
integer in the unit of the column.

\b
Examples:
  # each trade with the last quote for its symbol in the five seconds before it
  tidegate asof trades.parquet quotes.parquet --on ts --by symbol \\
      --tolerance 5s -o last.parquet

\b
  # the last quote with a bid below the price of the trade
  tidegate asof trades.parquet quotes.parquet --on ts --by symbol \\
      --where "right.bid < left.price" -o cheap.parquet

\b
  # the quotes at, one second after and a minute after each trade
  tidegate asof trades.parquet quotes.parquet --on ts --by symbol \\
      --at 0s,1s,1m -o markouts.parquet

\b
  # the weather nearest to each departure, with different column names
  tidegate asof flights.csv weather.csv --on departure=observed \\
      --by origin=airport --strategy nearest --format csv | head

\b
  # an index, which is prepared once and then joined with many files
  tidegate index quotes.parquet --on ts --by symbol -o quotes.index
  tidegate asof trades.parquet --right-index quotes.index --on ts --by symbol -o last.parquet

\b
  # growing files, with rows that are up to a second late
  tidegate asof trades.arrows quotes.arrows --on ts --by symbol \\
      --tolerance 5s --follow --lateness 1s -o last.csv

\b
  # print the plan
  tidegate asof trades.parquet quotes.parquet --on ts --no-exact --explain

{EXIT_CODES}"""

BAND_HELP = f"""Write every pair of rows from LEFT and RIGHT whose values are close.

A pair is written if abs(left.x - right.x) <= within for every --on column, its keys are equal, and
WHERE (if given) is true. Pairs follow the order of LEFT's rows, then that of RIGHT's rows. The
result is written piece by piece, so it may be larger than memory. The output file appears under its
name once it is complete.

LEFT and RIGHT are files, folders, quoted patterns such as 'trades/*.parquet', URLs such as
s3://bucket/trades/, or - for standard input. OUT is a file, or -. The format is determined by the
extension: {EXTENSIONS}.
The first bytes of a pipe determine its format. Standard output is CSV on a terminal, and otherwise
an Arrow stream, unless --format specifies another format.

With --right-index FILE in place of RIGHT, the right rows come from an index that was written by
tidegate index.

A distance is a number, or a duration such as 1h30m or 250ms for dates and timestamps. BELOW,ABOVE
means left.x - below <= right.x <= left.x + above, where "none" means no bound.

\b
Examples:
  # quotes close to a trade's price and within a minute of the trade
  tidegate band trades.parquet quotes.parquet --on price=bid --within 0.5 \\
      --on ts --within 1m --by symbol -o pairs.parquet

\b
  # winds of the same speed, or up to 5 faster
  tidegate band weather.csv weather.csv --on wind --within 0,5 \\
      --format csv | head

\b
  # print the plan
  tidegate band trades.parquet quotes.parquet --on price=bid --within 1 --explain

{EXIT_CODES}"""

OVERLAP_HELP = f"""Write every pair of rows from LEFT and RIGHT whose intervals overlap.

Each row has a start and an end. A pair is written if left.start <= right.end, right.start <=
left.end, its keys are equal, and WHERE (if given) is true. Pairs follow the order of LEFT's rows,
then that of RIGHT's rows. The result is written piece by piece, so it may be larger than memory.
The output file appears under its name once it is complete.

LEFT and RIGHT are files, folders, quoted patterns such as 'trades/*.parquet', URLs such as
s3://bucket/trades/, or - for standard input. OUT is a file, or -. The format is determined by the
extension: {EXTENSIONS}.
The first bytes of a pipe determine its format. Standard output is CSV on a terminal, and otherwise
an Arrow stream, unless --format specifies another format.

With --right-index FILE in place of RIGHT, the right rows come from an index that was written by
tidegate index, preferably with --on START,END. --on and --by then only need the names of LEFT's
columns.

With --follow, CSV files and Arrow streams are read as they grow, in the order of the starts, as in
tidegate join. Each row may be at most --max-width long. Longer rows are omitted and counted, like
late rows. --state writes each row exactly once, even if a run is interrupted.

--on specifies the start and end columns. If the names differ between the sides, or if one side has
a single time column, give a pair of names for each side, as in ts,ts=start,end. A DURATION is a
number with a unit, such as 1h30m or 250ms, or an integer if the columns contain integers.

\b
Examples:
  # the jobs that ran while an alarm was active
  tidegate overlap alarms.parquet jobs.parquet --on start,end --by machine -o pairs.parquet

\b
  # readings in maintenance windows
  tidegate overlap readings.parquet windows.csv --on ts,ts=from,to --by machine -o marked.parquet

\b
  # the number of jobs that overlapped each alarm by at least a minute
  tidegate overlap alarms.parquet jobs.parquet --on start,end --min-overlap 1m \\
      --agg "jobs=count()" -o counts.parquet

{EXIT_CODES}"""

AGGREGATE_HELP = f"""Write one row for each combination of window and key that has rows in STREAMS.

The windows are [k * advance + offset, k * advance + offset + size) for all integers k. A row
belongs to every window that contains its time. Times count from the epoch. With --session instead
of --size, each key has its own windows. A window ends when the duration of --session has passed
since its last row. Result rows are ordered by window, then by key.

STREAMS can be files, folders, quoted patterns such as 'trades/*.parquet', and URLs such as
s3://bucket/trades/. All STREAMS must have the same columns, and their rows may be in any order. Use
- for standard input or output. The format is determined by the extension:
{EXTENSIONS}.
The first bytes of a pipe determine its format. Standard output is CSV on a terminal, and otherwise
an Arrow stream, unless --format specifies another format.

A duration is a number with a unit, such as 1h30m or 250ms. For integer times, a duration is an
integer in the unit of the column.

With --follow, CSV files and Arrow streams are read as they grow. A window is written as soon as no
file can deliver another row that belongs to it. Sessions are ordered by their end. Only pipes and
Arrow streams with an end mark have an end. --until-end stops at the current end of each file,
--flush-after does not wait for rows of silent files, and Ctrl-C stops the command with exit code 0.
Rows that are late by more than --lateness are omitted and counted. If the type of a CSV column is
not listed in --types, it is inferred from the lines present at the start; with --state, the command
can be run again with other --types. If a file is renamed, it is read to the end. Then the new file
with the original name is read. If a file is truncated, overwritten, removed or replaced, the
command fails.

With --state FILE, each window is written to OUT exactly once, even if Ctrl-C, an error, a kill
signal, a power failure or a full disk ends a run. Run the same command again to resume from the
last checkpoint. A checkpoint is written at intervals of --checkpoint, and when a signal stops the
run. OUT is a CSV file, an Arrow stream, or (if it ends in /) a folder of Parquet files. FILE is
removed when all inputs have ended.

FUNCTION is count(), or count, sum, mean, min, max, first, last, var, std, product, any, all,
median, count_distinct, collect or time_weighted_mean of a COLUMN, quantile(COLUMN, 0.99),
weighted_mean(COLUMN, WEIGHTS), ewm_mean(COLUMN, HALF_LIFE), arg_min or arg_max of (COLUMN, BY), or
covar or corr of (COLUMN, OTHER). The functions first(COLUMN, N), last(COLUMN, N), top(COLUMN, N)
and top(COLUMN, N, BY) return lists. An SQL expression can take the place of a COLUMN, as in
"mean((bid + ask) / 2)". A condition on the rows is optional: "count() where price > 3". With
--follow or --state, the functions median, quantile, count_distinct, collect and those that return
lists keep rows until their windows are complete.

\b
Examples:
  # the number of trades and the last price in each minute
  tidegate aggregate trades.parquet --on ts --by symbol --size 1m \\
      --agg "trades=count()" --agg "close=last(price)" -o minutes.parquet

\b
  # every ten seconds, the number of rows from two files in five minutes
  tidegate aggregate trades.parquet quotes.parquet --on ts --by symbol \\
      --size 5m --advance 10s --agg "rows=count()" -o busy.parquet

\b
  # bursts of trades; a minute without a trade ends a burst
  tidegate aggregate trades.parquet --on ts --by symbol --session 1m --agg "n=count()"

\b
  # growing files, with rows that are up to a second late
  tidegate aggregate trades.arrows --on ts --size 1m --agg "n=count()" \\
      --follow --lateness 1s -o minutes.csv

\b
  # only some rows, to standard output
  tidegate aggregate trades.parquet --on ts --size 1h --where "price > 2" \\
      --agg "mean=mean(price)" --agg "large=count() where price > 3" --format csv | head

{EXIT_CODES}"""

ROLLING_HELP = f"""Write each row of TABLE with aggregates over a window of earlier rows.

The window of a row contains rows with the same key. With a duration such as 5m as --size, it
contains the rows whose times are in (ts - size, ts]. With a number of rows such as 20rows, it
contains the last rows up to and including the row itself. --closed changes which ends the window
includes: left excludes the row itself. Rows are written in their original order, or in time order
with --memory-limit or --follow.

TABLE is a file, a folder, a quoted pattern such as 'trades/*.parquet', a URL such as
s3://bucket/trades/, or - for standard input. OUT is a file, or -. The format is determined by the
extension: {EXTENSIONS}.
The first bytes of a pipe determine its format. Standard output is CSV on a terminal, and otherwise
an Arrow stream, unless --format specifies another format.

With --follow, CSV files and Arrow streams are read as they grow. A row is written as soon as no
other row can precede it or fall into its window. The help for tidegate aggregate describes the ends
of files, late rows, --state and each FUNCTION.

\b
Examples:
  # the mean price of the last five minutes at each trade
  tidegate rolling trades.parquet --on ts --by symbol --size 5m \\
      --agg "mean=mean(price)" -o means.parquet

\b
  # the volume-weighted price of the 20 trades before each trade
  tidegate rolling trades.parquet --on ts --by symbol --size 20rows --closed left \\
      --agg "vwap=weighted_mean(price, size)" -o vwap.parquet

{EXIT_CODES}"""

INDEX_HELP = f"""Build an index of TABLE, which prepares it as the right side of many joins.

The index contains all rows of TABLE, grouped by key and sorted by time. tidegate join and tidegate
asof search it for the matches of their left rows instead of reading all right rows. tidegate
overlap searches an index of rows that have a start and an end. In Python, tidegate.open_index opens
the index. OUT appears under its name once it is complete. Joins map OUT into memory, so it must be
a local file.

TABLE can be a file, a folder, a quoted pattern such as 'quotes/*.parquet', a URL such as
s3://bucket/quotes/, or - for standard input. The format is determined by the extension:
{EXTENSIONS}. Standard input is an Arrow stream, unless an option specifies
another format.

\b
Examples:
  # an index of quotes, and the last quote before each trade
  tidegate index quotes.parquet --on ts --by symbol -o quotes.index
  tidegate asof trades.parquet --right-index quotes.index --on ts --by symbol -o last.parquet

\b
  # an index of intervals, for tidegate overlap
  tidegate index reservations.parquet --on start,end --by room -o rooms.index

\b
  # the quotes in the five seconds before each trade
  tidegate join trades.parquet --right-index quotes.index --on ts --by symbol \\
      --lower -5s --upper 0s -o pairs.parquet

{EXIT_CODES}"""

MERGE_HELP = f"""Write the rows of all FILEs in time order.

The rows in each FILE must be in time order, or out of order by at most --lateness. Rows with equal
times are written in the order of the files, and within a file in their original order. All files
must have the same columns. Files are read and written piece by piece, so they may be larger than
memory. OUT appears under its name once it is complete.

FILEs can be files, folders, quoted patterns such as 'logs/*.csv', and URLs such as
s3://bucket/logs/. Use - for standard input or output. The format is determined by the extension:
{EXTENSIONS}.
The first bytes of a pipe determine its format. Standard output is CSV on a terminal, and otherwise
an Arrow stream, unless --format specifies another format. The types of CSV and JSON columns not
listed in --types are inferred from the file's first megabyte. Pipes and standard input are read
completely before the merge begins.

\b
Examples:
  # three feeds merged into one
  tidegate merge monday.parquet tuesday.parquet wednesday.parquet --on ts \\
      -o week.parquet

\b
  # rows that are up to half a second out of order
  tidegate merge monday.parquet tuesday.parquet --on ts --lateness 500ms \\
      --format csv | head

\b
  # from standard input
  cat monday.csv | tidegate merge - tuesday.csv --in-format csv --on ts \\
      -o days.csv

{EXIT_CODES}"""

DIGEST_HELP = f"""Print a 128-bit digest of the rows in each FILE, for comparing tables.

Equal rows have equal digests, regardless of the file format. Integer widths and time units make no
difference. Column names matter, and so does the order of rows, unless --unordered is given. The
Python function tidegate.digest returns the same digest.

A FILE is a file, a folder, a quoted pattern such as 'trades/*.parquet', or a URL such as
s3://bucket/trades/. The files of a folder or pattern are read one after the other, as one table.
One FILE may be - for standard input. The format is determined by the extension:
{EXTENSIONS}.
The first bytes of a pipe determine its format. The types of CSV columns are inferred from the
values, so they may differ from the original types.

\b
Examples:
  # compare the rows of two files
  tidegate digest monday.parquet monday.csv

\b
  # compare the rows of two files regardless of their order
  tidegate digest --unordered monday.parquet tuesday.parquet

{EXIT_CODES}"""

DOCTOR_HELP = f"""Print information for bug reports about the installation and the machine.

\b
Examples:
  tidegate doctor

{EXIT_CODES}"""

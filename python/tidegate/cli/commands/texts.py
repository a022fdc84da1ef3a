"""The help texts of the commands."""

# "\b" keeps the lines of the paragraph that follows it as they are.
EXIT_CODES = """\b
Exit codes:
  0    the command is done; the reader of standard output may have closed it
       early, and Ctrl-C, SIGTERM or SIGHUP may have stopped --follow
  1    the data, the files or the names of columns have an error; one line tells it
  2    the command line is wrong
  130  Ctrl-C stopped the command; it leaves no output file
"""

HELP = f"""Join, aggregate and merge event tables by time: Parquet, CSV and Arrow in and out.

\b
Examples:
  tidegate join trades.parquet quotes.parquet --on ts --by symbol \\
      --lower -5s --upper 0s -o pairs.parquet
  tidegate asof trades.parquet quotes.parquet --on ts --by symbol -o last.parquet
  tidegate band trades.parquet quotes.parquet --on price=bid --within 0.5 -o near.csv
  tidegate aggregate trades.parquet --on ts --by symbol --size 1m \\
      --agg "close=last(price)" -o minutes.parquet
  tidegate merge monday.parquet tuesday.parquet --on ts -o week.parquet
  tidegate digest monday.parquet monday.csv
  tidegate join --help
  tidegate merge --help
  tidegate doctor

{EXIT_CODES}"""

JOIN_HELP = f"""Write every pair of rows of LEFT and RIGHT with equal keys that are close in time.

A pair is written when its keys are equal, left.ts + lower <= right.ts <= left.ts + upper, and
WHERE, if given, is true. Pairs are in the order of LEFT's rows, then of RIGHT's. The result is
written in pieces, so it may be larger than memory. It gets its name when it is complete.

LEFT and RIGHT are files, folders, quoted patterns such as 'trades/*.parquet', URLs such as
s3://bucket/trades/, or - for standard input; OUT is a file, or -. The ending gives the format:
.parquet .pq; .csv .csv.gz .csv.zst; .jsonl; .arrow .ipc .feather (Arrow file); .arrows (Arrow
stream). Standard input and output are Arrow streams, unless an option specifies another format.

With --follow the files, CSV or Arrow streams, are read while they grow. A pair is written as soon
as neither side can bring a row before its later row. A file has an end only if it is an Arrow
stream with its end mark, or a pipe. Ctrl-C stops the command, with exit code 0. Rows come in time
order; rows that are later than --lateness are left out and counted. The types of CSV columns not
listed in --types are inferred from the lines present at the start. If a file is renamed, it is read
to its end, and then the new file with the original name is read. If a file is truncated,
overwritten, removed or replaced, the command fails.

With --state FILE, OUT gets each row once, even if Ctrl-C, an error, a kill, a loss of power or a
full disk ends a run. Give the same command again, and it goes on from the last checkpoint. A
checkpoint is made every --checkpoint, and when a signal stops the run. FILE holds how far the
inputs were read, and how much of OUT was written from them. A run that goes on cuts off the rest of
OUT and writes it again; the rows and their order are the same. OUT is CSV, an Arrow stream, or,
with / at its end, a folder of Parquet files. A Parquet file gets its name when a checkpoint counts
it. Standard streams and pipes are refused, because they cannot be read again or taken back. FILE is
removed when all inputs have ended, and FILE.lock when a run ends.

With --agg there is one row for each row of LEFT: its columns, then a FUNCTION of its partners, the
rows of RIGHT that it would pair with. FUNCTION is count(), or count, sum, mean, min, max, first,
last, var, std, product, any, all, median, count_distinct or collect of a COLUMN of RIGHT,
quantile(COLUMN, 0.99), weighted_mean(COLUMN, WEIGHTS), arg_min or arg_max of (COLUMN, BY), or covar
or corr of (COLUMN, OTHER), with a condition if one is wanted: "count() where bid > 3". --how inner
leaves out rows without partners.
With --follow, a row is written as soon as RIGHT can bring no partner of it.

A duration is a number with a unit, as in 1h30m, -5s or 250ms; of integers, a whole number in their
unit; or none, for no bound. An EXPR over columns of one side, as left.tolerance or -right.reach,
gives each row a bound of its own: a duration or a whole number, or of LEFT a time, which is the
bound itself. With --follow such a bound needs --max-width. Rows with a bound farther away are left
out and counted, as late rows are.

\b
Examples:
  # the quotes of the five seconds before each trade
  tidegate join trades.parquet quotes.parquet --on ts --by symbol \\
      --lower -5s --upper 0s -o pairs.parquet

\b
  # columns of different names; flights without weather are kept
  tidegate join flights.csv weather.csv --on departure=observed \\
      --by origin=airport --lower -1h --upper 0s --how left -o delays.csv

\b
  # a condition on the pair, and only some columns
  tidegate join trades.parquet quotes.parquet --on ts --by symbol \\
      --lower -1m --upper 0s --where "left.price < right.bid" \\
      --columns ts,symbol,price,bid -o cheap.arrow

\b
  # each trade with the number of quotes and the mean bid of the five seconds before
  tidegate join trades.parquet quotes.parquet --on ts --by symbol \\
      --lower -5s --upper 0s --agg "n=count()" --agg "bid=mean(bid)" -o around.parquet

\b
  # reservations and the readings during each
  tidegate join reservations.parquet readings.parquet --on start=ts --by room \\
      --lower 0s --upper left.end -o during.parquet

\b
  # from standard input to standard output
  cat flights.csv | tidegate join - weather.csv --left-format csv \\
      --on departure=observed --by origin=airport --lower -1h --upper 0s \\
      --format csv | head

\b
  # files that still grow; rows may be a second late
  tidegate join trades.arrows quotes.arrows --on ts --by symbol \\
      --lower -5s --upper 0s --follow --lateness 1s -o pairs.csv

\b
  # the same, and a run that was killed can go on
  tidegate join trades.arrows quotes.arrows --on ts --by symbol \\
      --lower -5s --upper 0s --follow --state pairs.state --checkpoint 1m -o pairs.csv

\b
  # print the plan
  tidegate join trades.parquet quotes.parquet --on ts --lower none --upper 0s \\
      --how anti --explain

{EXIT_CODES}"""

ASOF_HELP = f"""Write each row of LEFT with the one row of RIGHT that is nearest in time.

A row of RIGHT is a candidate when its keys are equal, its time is on the side that --strategy says
and no further away than --tolerance, and WHERE, if given, is true. backward takes the last one with
right.ts <= left.ts, forward the first one with right.ts >= left.ts, and nearest the nearer of both,
the one before at a tie. Rows are in the order of LEFT's rows. The result is written in pieces, so
it may be larger than memory. It gets its name when it is complete.

LEFT and RIGHT are files, folders, quoted patterns such as 'trades/*.parquet', URLs such as
s3://bucket/trades/, or - for standard input; OUT is a file, or -. The ending gives the format:
.parquet .pq; .csv .csv.gz .csv.zst; .jsonl; .arrow .ipc .feather (Arrow file); .arrows (Arrow
stream). Standard input and output are Arrow streams, unless an option specifies another format.

With --follow the files, CSV or Arrow streams, are read while they grow. A row is written as soon as
RIGHT can bring no row that is nearer: with backward, when its time is over; with forward, when that
of its partner is. Without a partner, the row waits until --tolerance is over. Files end, rows are
late, and --state keeps the progress as for tidegate join, whose help says more.

A duration is a number with a unit, as in 1h30m or 250ms; of integers, it is a whole number in the
unit of the column.

\b
Examples:
  # each trade with the last quote of its symbol, not older than five seconds
  tidegate asof trades.parquet quotes.parquet --on ts --by symbol \\
      --tolerance 5s -o last.parquet

\b
  # the last quote that bids less than the trade paid
  tidegate asof trades.parquet quotes.parquet --on ts --by symbol \\
      --where "right.bid < left.price" -o cheap.parquet

\b
  # the weather nearest to a departure, whatever the columns are called
  tidegate asof flights.csv weather.csv --on departure=observed \\
      --by origin=airport --strategy nearest --format csv | head

\b
  # files that still grow; rows may be a second late
  tidegate asof trades.arrows quotes.arrows --on ts --by symbol \\
      --tolerance 5s --follow --lateness 1s -o last.csv

\b
  # print the plan
  tidegate asof trades.parquet quotes.parquet --on ts --no-exact --explain

{EXIT_CODES}"""

BAND_HELP = f"""Write every pair of rows of LEFT and RIGHT whose values are close.

A pair is written when abs(left.x - right.x) <= within for every --on column, its keys are equal,
and WHERE, if given, is true. Pairs are in the order of LEFT's rows, then of RIGHT's. The result is
written in pieces, so it may be larger than memory. It gets its name when it is complete.

LEFT and RIGHT are files, folders, quoted patterns such as 'trades/*.parquet', URLs such as
s3://bucket/trades/, or - for standard input; OUT is a file, or -. The ending gives the format:
.parquet .pq; .csv .csv.gz .csv.zst; .jsonl; .arrow .ipc .feather (Arrow file); .arrows (Arrow
stream). Standard input and output are Arrow streams, unless an option specifies another format.

A distance is a number, or for dates and timestamps a duration, as in 1h30m or 250ms. BELOW,ABOVE
means left.x - below <= right.x <= left.x + above; none is no bound.

\b
Examples:
  # quotes close to a trade's price, within a minute of it
  tidegate band trades.parquet quotes.parquet --on price=bid --within 0.5 \\
      --on ts --within 1m --by symbol -o pairs.parquet

\b
  # wind of the same speed, or up to 5 more
  tidegate band weather.csv weather.csv --on wind --within 0,5 \\
      --format csv | head

\b
  # print the plan
  tidegate band trades.parquet quotes.parquet --on price=bid --within 1 --explain

{EXIT_CODES}"""

OVERLAP_HELP = f"""Write every pair of rows of LEFT and RIGHT whose intervals overlap.

Each row has a start and an end. A pair is written when left.start <= right.end, right.start <=
left.end, its keys are equal, and WHERE, if given, is true. Pairs are in the order of LEFT's rows,
then of RIGHT's. The result is written in pieces, so it may be larger than memory. It gets its name
when it is complete.

LEFT and RIGHT are files, folders, quoted patterns such as 'trades/*.parquet', URLs such as
s3://bucket/trades/, or - for standard input; OUT is a file, or -. The ending gives the format:
.parquet .pq; .csv .csv.gz .csv.zst; .jsonl; .arrow .ipc .feather (Arrow file); .arrows (Arrow
stream). Standard input and output are Arrow streams, unless an option specifies another format.

--on has the names of the start and the end column. If the two sides name them differently, or one
side has a single time, it has both: ts,ts=start,end. DURATION is as in 1h30m or 250ms, or a whole
number if the columns have integers.

\b
Examples:
  # the jobs that ran while an alarm was on
  tidegate overlap alarms.parquet jobs.parquet --on start,end --by machine -o pairs.parquet

\b
  # readings in maintenance windows
  tidegate overlap readings.parquet windows.csv --on ts,ts=from,to --by machine -o marked.parquet

\b
  # how many jobs ran at least a minute of each alarm
  tidegate overlap alarms.parquet jobs.parquet --on start,end --min-overlap 1m \\
      --agg "jobs=count()" -o counts.parquet

{EXIT_CODES}"""

AGGREGATE_HELP = f"""Write one row for each window and key that have rows in STREAMS.

A row is in every window [k * advance + offset, k * advance + offset + size) that contains its time,
for whole numbers k; times count from the epoch. With --session instead of --size, the rows of a key
keep a window open, and it ends this duration after its last row. Rows of the result are in the
order of windows, then keys.

STREAMS are one or more files, folders, quoted patterns such as 'trades/*.parquet', or URLs such as
s3://bucket/trades/, with the same columns; their rows may be in any order. One of them or OUT may
be - for the standard streams. The ending gives the format: .parquet .pq; .csv .csv.gz .csv.zst;
.jsonl; .arrow .ipc .feather (Arrow file); .arrows (Arrow stream). Standard input and output are
Arrow streams, unless an option specifies another format.

A duration is a number with a unit, as in 1h30m or 250ms; of integers, it is a whole number in the
unit of the column.

With --follow the files, CSV or Arrow streams, are read while they grow. A window is written as soon
as no file can bring a row of it; sessions are in the order of their ends. A file has an end only if
it is an Arrow stream with its end mark, or a pipe. Ctrl-C stops the command, with exit code 0. Rows
that are later than --lateness are left out and counted. The types of CSV columns not listed in
--types are inferred from the lines present at the start. If a file is renamed, it is read to its
end, and then the new file with the original name is read. If a file is truncated, overwritten,
removed or replaced, the command fails.

With --state FILE, OUT gets each window once, even if Ctrl-C, an error, a kill, a loss of power or a
full disk ends a run. Give the same command again, and it goes on from the last checkpoint. A
checkpoint is made every --checkpoint, and when a signal stops the run. OUT is CSV, an Arrow stream,
or, with / at its end, a folder of Parquet files. FILE is removed when all inputs have ended.

FUNCTION is count(), or count, sum, mean, min, max, first, last, var, std, product, any, all,
median, count_distinct or collect of a COLUMN, quantile(COLUMN, 0.99), weighted_mean(COLUMN,
WEIGHTS), arg_min or arg_max of (COLUMN, BY), or covar or corr of (COLUMN, OTHER). It may have a
condition on its rows: "count() where price > 3". With --follow or --state, rows are kept for
median, quantile, count_distinct and collect until their windows are complete.

\b
Examples:
  # the number of trades and the last price of each minute
  tidegate aggregate trades.parquet --on ts --by symbol --size 1m \\
      --agg "trades=count()" --agg "close=last(price)" -o minutes.parquet

\b
  # every ten seconds, the number of rows of two files in five minutes
  tidegate aggregate trades.parquet quotes.parquet --on ts --by symbol \\
      --size 5m --advance 10s --agg "rows=count()" -o busy.parquet

\b
  # bursts of trades; a minute without a trade ends a burst
  tidegate aggregate trades.parquet --on ts --by symbol --session 1m --agg "n=count()"

\b
  # files that still grow; rows may be a second late
  tidegate aggregate trades.arrows --on ts --size 1m --agg "n=count()" \\
      --follow --lateness 1s -o minutes.csv

\b
  # only some rows, to standard output
  tidegate aggregate trades.parquet --on ts --size 1h --where "price > 2" \\
      --agg "mean=mean(price)" --agg "large=count() where price > 3" --format csv | head

{EXIT_CODES}"""

MERGE_HELP = f"""Write the rows of all FILEs in time order.

Each FILE is in time order, or out of it by --lateness at most. Rows of one time are in the order of
the files, then in the order that they have in a file. The files have the same columns. They are
read and written in pieces, so they may be larger than memory. OUT gets its name when it is
complete.

FILEs are files, and all files of a folder, of a quoted pattern such as 'logs/*.csv', or of a URL
such as s3://bucket/logs/. One of them or OUT may be - for the standard streams. The ending gives
the format: .parquet .pq; .csv .csv.gz .csv.zst; .jsonl; .arrow .ipc .feather (Arrow file); .arrows
(Arrow stream). Standard input and output are Arrow streams, unless an option specifies another
format. The types of CSV and JSON columns not listed in --types are inferred from the file's first
megabyte. Pipes and standard input are read completely before the merge begins.

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

DIGEST_HELP = f"""Print 128 bits of the rows of each FILE, by which tables can be compared.

Equal rows have equal digests, whatever the format of the files: integers of any width are equal,
and so are times of any unit. Names of columns count, and so does the order of the rows, unless
--unordered is given. tidegate.digest in Python gives the same digits.

A FILE is a file, a folder or a quoted pattern such as 'trades/*.parquet', whose files are one table
after the other, or a URL such as s3://bucket/trades/; one of them may be - for standard input. The
ending gives the format: .parquet .pq; .csv .csv.gz; .arrow .ipc .feather (Arrow file); .arrows
(Arrow stream). Standard input is an Arrow stream, unless an option says otherwise. The values of a
CSV file decide the types of its columns, so they may differ from the types of the table that was
written.

\b
Examples:
  # whether two files have the same rows
  tidegate digest monday.parquet monday.csv

\b
  # whether they have the same rows in any order
  tidegate digest --unordered monday.parquet tuesday.parquet

{EXIT_CODES}"""

DOCTOR_HELP = f"""Print what is installed and what the machine offers, for a report of a problem.

\b
Examples:
  tidegate doctor

{EXIT_CODES}"""

"""The help texts of the commands."""

# "\b" keeps the lines of the paragraph that follows it as they are.
EXIT_CODES = """\b
Exit codes:
  0    done, also when the reader of standard output closed it early, and when
       Ctrl-C, SIGTERM or SIGHUP stopped --follow
  1    an error in the data, the files or the names of columns; one line says what
  2    wrong usage of the command line
  130  stopped by Ctrl-C; no output file is left
"""

HELP = f"""Join, aggregate and merge event tables by time: Parquet, CSV and Arrow in and out.

\b
Examples:
  tidegate join trades.parquet quotes.parquet --on ts --by symbol \\
      --lower -5s --upper 0s -o pairs.parquet
  tidegate band trades.parquet quotes.parquet --on price=bid --within 0.5 -o near.csv
  tidegate aggregate trades.parquet --on ts --by symbol --size 1m \\
      --agg "close=last(price)" -o minutes.parquet
  tidegate merge monday.parquet tuesday.parquet --on ts -o week.parquet
  tidegate join --help
  tidegate merge --help
  tidegate doctor

{EXIT_CODES}"""

JOIN_HELP = f"""Write every pair of rows of LEFT and RIGHT with equal keys and near in time.

A pair is written when its keys are equal, left.ts + lower <= right.ts <= left.ts + upper, and
WHERE, if given, is true. The order is that of LEFT's rows, then of RIGHT's. The result is written
as it comes, so it may be larger than memory, and appears under its name only when it is whole.

LEFT, RIGHT and OUT are file names, or - for the standard streams, where the format is Arrow
(stream layout) unless said otherwise. The format comes from the ending: .parquet .pq; .csv
.csv.gz; .arrow .ipc .feather (Arrow file); .arrows (Arrow stream).

With --follow the files, CSV or Arrow streams, are read as they grow, and a row is written as soon
as it is final: a pair when neither side can bring a row before its later one. A file has an end
only if it is an Arrow stream with its end mark, or a pipe; Ctrl-C stops, with exit code 0. Rows
come in time order, and those that are later than --lateness are left out and counted. A column of
CSV has the type of its values in the lines that are there at first. A file that is renamed is read
to its end, and then the one that gets its name; one that is cut, written over, removed or replaced
ends the command with an error.

With --state FILE, OUT gets each row once, whatever ends a run: Ctrl-C, an error, a kill, a loss of
power, a full disk. Give the same command again, and it goes on from the last checkpoint, which is
--checkpoint old at most; a signal that stops the run makes one, too. FILE counts how far the inputs
were read, and how much of OUT they gave. A run that goes on cuts off the rest of OUT and writes it
again; the rows and their order are the same. OUT is CSV, an Arrow stream, or, with / at its end, a
folder of Parquet parts, which others see once they count. Standard streams and pipes are refused:
they cannot be read again or taken back. FILE is removed once all inputs have ended, and FILE.lock
when a run ends.

A duration is a number with a unit, as in 1h30m, -5s or 250ms; a whole number, in the column's own
unit; or none for no bound.

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
  # from standard input to standard output
  cat flights.csv | tidegate join - weather.csv --left-format csv \\
      --on departure=observed --by origin=airport --lower -1h --upper 0s \\
      --format csv | head

\b
  # files that are still written to; rows may be a second late
  tidegate join trades.arrows quotes.arrows --on ts --by symbol \\
      --lower -5s --upper 0s --follow --lateness 1s -o pairs.csv

\b
  # the same, once each, however often it is killed and started again
  tidegate join trades.arrows quotes.arrows --on ts --by symbol \\
      --lower -5s --upper 0s --follow --state pairs.state --checkpoint 1m -o pairs.csv

\b
  # what would be done
  tidegate join trades.parquet quotes.parquet --on ts --lower none --upper 0s \\
      --how anti --explain

{EXIT_CODES}"""

BAND_HELP = f"""Write every pair of rows of LEFT and RIGHT whose values are close.

A pair is written when abs(left.x - right.x) <= within for every --on column, its keys are equal,
and WHERE, if given, is true. The order is that of LEFT's rows, then of RIGHT's. The result is
written as it comes, so it may be larger than memory, and appears under its name only when it is
whole. Files and their formats are those of `tidegate join`.

A distance is a number, or for dates and timestamps a duration as in 1h30m or 250ms. BELOW,ABOVE
means left.x - below <= right.x <= left.x + above; none is no bound.

\b
Examples:
  # quotes of about a trade's price, in the same minute
  tidegate band trades.parquet quotes.parquet --on price=bid --within 0.5 \\
      --on ts --within 1m --by symbol -o pairs.parquet

\b
  # wind that is no less, and up to 5 more
  tidegate band weather.csv weather.csv --on wind --within 0,5 \\
      --format csv | head

\b
  # what would be done
  tidegate band trades.parquet quotes.parquet --on price=bid --within 1 --explain

{EXIT_CODES}"""

AGGREGATE_HELP = f"""Write one row for each window of time and key that has rows in STREAMS.

A row is in every window [k * advance + offset, k * advance + offset + size) that holds its time,
for whole numbers k from the epoch on. With --session instead of --size, a key's rows keep a window
open: it ends so much after its last row. The result is in the order of windows, then keys.

STREAMS are one or more files with the same columns, in any order of time; a file or OUT may be -
for the standard streams. Formats and durations are those of `tidegate join`.

With --follow the files, CSV or Arrow streams with the columns of the first, are read as they grow,
as by `tidegate join --follow`, and a window is written as soon as no file can bring a row of it.
Sessions are in the order of their ends then. --state is as for `tidegate join`, too: OUT has each
window once.

FUNCTION is count(), or count, sum, mean, min, max, first, last, var or std of a COLUMN, and may
say which rows count: "count() where price > 3".

\b
Examples:
  # trades and last price of each minute
  tidegate aggregate trades.parquet --on ts --by symbol --size 1m \\
      --agg "trades=count()" --agg "close=last(price)" -o minutes.parquet

\b
  # the rows of five minutes, every ten seconds, of two files together
  tidegate aggregate trades.parquet quotes.parquet --on ts --by symbol \\
      --size 5m --advance 10s --agg "rows=count()" -o busy.parquet

\b
  # bursts of trades, each over after a minute without one
  tidegate aggregate trades.parquet --on ts --by symbol --session 1m --agg "n=count()"

\b
  # files that are still written to; rows may be a second late
  tidegate aggregate trades.arrows --on ts --size 1m --agg "n=count()" \\
      --follow --lateness 1s -o minutes.csv

\b
  # only some rows, to standard output
  tidegate aggregate trades.parquet --on ts --size 1h --where "price > 2" \\
      --agg "mean=mean(price)" --agg "large=count() where price > 3" --format csv | head

{EXIT_CODES}"""

MERGE_HELP = f"""Write the rows of all FILEs in time order.

Each FILE is in time order, or out of it by --lateness at most. Rows of one time are in the order
of the files, then as they stood. The files have the same columns. They are read as far as needed
and the result is written as it comes, so files may be larger than memory; it appears under its
name only when it is whole.

FILEs and OUT are file names, or - for the standard streams, where the format is Arrow (stream
layout) unless said otherwise. The format comes from the ending: .parquet .pq; .csv .csv.gz;
.arrow .ipc .feather (Arrow file); .arrows (Arrow stream). A column of CSV has the type of its
values in the file's first megabyte. Pipes and standard input are read whole first.

\b
Examples:
  # three feeds as one
  tidegate merge monday.parquet tuesday.parquet wednesday.parquet --on ts \\
      -o week.parquet

\b
  # rows may be up to half a second out of order
  tidegate merge monday.parquet tuesday.parquet --on ts --lateness 500ms \\
      --format csv | head

\b
  # from standard input
  cat monday.csv | tidegate merge - tuesday.csv --in-format csv --on ts \\
      -o days.csv

{EXIT_CODES}"""

DOCTOR_HELP = f"""Print what is installed and what the machine offers, for a report of a problem.

\b
Examples:
  tidegate doctor

{EXIT_CODES}"""

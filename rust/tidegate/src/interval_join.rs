//! The interval join of two tables.

use std::iter;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use tidegate_operators::driver::Driver;
use tidegate_operators::interval_join::{BitSet, Closed, How, Interval, Matches, NO_ROW, Output, Side, interval_join};
use tidegate_sync::Stop;

use crate::batches::Batches;
use crate::expression::{self, Expr, Predicate};
use crate::gather::{Column, Gather};
use crate::keys::{self, KeyColumn};
use crate::schema::{OutputColumn, Shape};
use crate::table::{Table, column};
use crate::time::{self, Bound, Unit};
use crate::{Error, Result};

/// The most rows of a batch: 1 MiB for a column of 8 bytes.
const BATCH_ROWS: usize = 1 << 17;

/// What a batch's columns should take together, in a table.
const BATCH_BYTES: usize = 8 << 20;

/// As [`BATCH_BYTES`], where batches are read one by one: so few that a batch is in a cache when it is read.
const STREAM_BYTES: usize = 4 << 20;

/// An interval join: which pairs of rows of two tables are wanted.
///
/// A pair `(l, r)` is in the result when all `by` columns are equal, `l.ts + lower <= r.ts <= l.ts + upper` (`closed`
/// says which ends count) and `predicate` holds.
#[derive(Clone, Debug)]
pub struct IntervalJoin {
    /// The time column of each side.
    pub on: (String, String),
    /// Pairs of columns that must be equal.
    pub by: Vec<(String, String)>,
    /// How far from the left time matches begin; `None` for no bound.
    pub lower: Option<Bound>,
    /// How far from the left time matches end; `None` for no bound.
    pub upper: Option<Bound>,
    /// Which ends of the interval match.
    pub closed: Closed,
    /// A condition on matching pairs.
    pub predicate: Option<Expr>,
    /// Which rows the result has.
    pub how: How,
    /// What is added to names of right columns that the left side has too.
    pub suffix: String,
    /// The columns of the result, or all.
    pub columns: Option<Vec<String>>,
    /// The number of threads.
    pub threads: usize,
    /// The most rows the result may have.
    pub max_rows: Option<u64>,
    /// The most rows of a batch, or what keeps a batch at a few megabytes.
    pub batch_rows: Option<usize>,
}

/// A join whose names and types fit two schemas.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) times: (usize, usize),
    pub(crate) unit: Unit,
    pub(crate) interval: Interval,
    pub(crate) keys: Vec<KeyColumn>,
    pub(crate) predicate: Option<Predicate>,
    pub(crate) columns: Vec<OutputColumn>,
    pub(crate) schema: SchemaRef,
}

impl IntervalJoin {
    pub(crate) fn plan(&self, left: &Schema, right: &Schema) -> Result<Plan> {
        let times = (column("left", left, &self.on.0, "on")?, column("right", right, &self.on.1, "on")?);
        let unit = time::common_unit(left.field(times.0), right.field(times.1))?;
        let interval = time::interval(self.lower, self.upper, self.closed, unit)?;
        let key = |(l, r): &(String, String)| {
            let (l, r) = (column("left", left, l, "by")?, column("right", right, r, "by")?);
            KeyColumn::new(l, left.field(l), r, right.field(r))
        };
        let keys = self.by.iter().map(key).collect::<Result<Vec<_>>>()?;
        let predicate = self.predicate.as_ref().map(|expr| Predicate::bind(expr, left, right)).transpose()?;
        let shape = Shape { how: self.how, keys: &keys, suffix: &self.suffix, columns: self.columns.as_deref() };
        let (columns, schema) = shape.output(left, right)?;
        Ok(Plan { times, unit, interval, keys, predicate, columns, schema })
    }

    /// The schema of the result.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        Ok(self.plan(left, right)?.schema)
    }

    /// What the join of two tables of these schemas would do, for people.
    pub fn explain(&self, left: &Schema, right: &Schema) -> Result<String> {
        let plan = self.plan(left, right)?;
        let mut lines = self.describe(&plan);
        lines.extend([
            "  algorithm  group and sweep: the only batch algorithm; O(n + results) for rows in time order".to_owned(),
            "  index      right rows grouped by key, in time order".to_owned(),
            format!("  threads    {}", self.threads),
            "  memory     inputs + 12 bytes a left row and 8 a right row in time order, up to 60 a row otherwise, + result"
                .to_owned(),
            format!("  output     {} columns, in left row order, then right row order", plan.schema.fields().len()),
        ]);
        Ok(lines.join("\n"))
    }

    /// The lines of an explanation that say which pairs there are.
    pub(crate) fn describe(&self, plan: &Plan) -> Vec<String> {
        let name = |end: Option<i64>, sign: &str| end.map_or(format!("{sign}inf"), |end| end.to_string());
        let keys: Vec<_> = self.by.iter().map(|(l, r)| if l == r { l.clone() } else { format!("{l} = {r}") }).collect();
        let Interval { lower, upper, closed } = plan.interval;
        let open = if lower.is_some() && matches!(closed, Closed::Both | Closed::Left) { '[' } else { '(' };
        let close = if upper.is_some() && matches!(closed, Closed::Both | Closed::Right) { ']' } else { ')' };
        let mut lines = vec![
            format!("interval_join ({:?})", self.how).to_lowercase(),
            format!(
                "  time       right.{} - left.{} in {open}{}, {}{close} {}",
                self.on.1,
                self.on.0,
                name(lower, "-"),
                name(upper, "+"),
                plan.unit.name()
            ),
            match keys.is_empty() {
                true => "  key        none: all rows are one group".to_owned(),
                false => format!("  key        {}", keys.join(", ")),
            },
        ];
        if let Some(predicate) = &self.predicate {
            lines.push(format!("  where      {predicate}, on blocks of candidate pairs"));
        }
        lines
    }

    /// Finds the pairs of two tables. The rows of the result are made when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        let left_ts = time::times(left, plan.times.0, plan.unit)?;
        let right_ts = time::times(right, plan.times.1, plan.unit)?;
        let keys = match &plan.keys[..] {
            [] => None,
            columns => Some(keys::encode(left, right, columns, &driver)?),
        };
        let left_side = Side { ts: &left_ts, keys: keys.as_ref().map(|keys| &*keys.left) };
        let right_side = Side { ts: &right_ts, keys: keys.as_ref().map(|keys| &*keys.right) };
        let key_count = keys.as_ref().map_or(1, |keys| keys.count);
        let matches = Arc::new(interval_join(left_side, right_side, key_count, &plan.interval, &driver)?);
        let filter = plan.predicate.map(|predicate| Filter::new(predicate, left, right));
        let whole = || iter::once(0..matches.left_rows()).collect();
        let pages = if filter.is_some() { matches.pages() } else { whole() };
        let gather = OutputColumn::gather(&plan.columns, &plan.schema, left, right, self.how);
        let batch_rows = self.batch_rows.unwrap_or(BATCH_ROWS).min(BATCH_BYTES / gather.row_bytes().max(1)).max(1);
        let stats = Stats {
            left_rows: left.rows(),
            right_rows: right.rows(),
            key_method: keys.as_ref().map_or("none", |keys| keys.method),
            threads: driver.threads(),
            rows: 0,
            left_rows_done: 0,
        };
        Ok(Join {
            schema: plan.schema,
            how: self.how,
            max_rows: self.max_rows,
            batch_rows,
            gather,
            filter,
            matches,
            pages,
            numbered: 0,
            read_soon: false,
            driver,
            stats,
        })
    }
}

/// A predicate and the columns it reads.
#[derive(Debug)]
struct Filter {
    predicate: Predicate,
    left: Vec<Column>,
    right: Vec<Column>,
}

impl Filter {
    fn new(predicate: Predicate, left: &Table, right: &Table) -> Self {
        let columns = |table, side| predicate.columns(side).iter().map(|&at| Column::new(table, at)).collect();
        let (left, right) = (columns(left, expression::Side::Left), columns(right, expression::Side::Right));
        Filter { predicate, left, right }
    }

    fn keep(&self, left: &[u32], right: &[u32]) -> Result<Vec<bool>> {
        let gather =
            |columns: &[Column], rows| columns.iter().map(|column| column.gather(rows)).collect::<Result<Vec<_>, _>>();
        let kept = self.predicate.evaluate(&gather(&self.left, left)?, &gather(&self.right, right)?, left.len())?;
        Ok(kept.iter().collect())
    }
}

/// Numbers that describe a join while it runs and afterwards.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Rows of the left table.
    pub left_rows: usize,
    /// Rows of the right table.
    pub right_rows: usize,
    /// How keys were numbered.
    pub key_method: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// Result rows handed out so far.
    pub rows: u64,
    /// Left rows whose result rows have been made, about.
    pub left_rows_done: usize,
}

/// A join whose pairs have been found, but for the predicate, and whose result rows have not been made.
#[derive(Debug)]
pub struct Join {
    schema: SchemaRef,
    how: How,
    max_rows: Option<u64>,
    batch_rows: usize,
    gather: Gather,
    filter: Option<Filter>,
    matches: Arc<Matches>,
    /// The left rows, in ranges that are filtered one at a time.
    pages: Vec<Range<usize>>,
    /// Result rows numbered so far.
    numbered: u64,
    /// Whether each batch is read soon after it is made.
    read_soon: bool,
    driver: Driver,
    stats: Stats,
}

impl Join {
    /// The schema of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Numbers that describe the join.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) fn stop(&self) -> Stop {
        self.driver.stop()
    }

    /// All batches of the result.
    pub fn read_all(self) -> Result<Vec<RecordBatch>> {
        Ok(self.run(|_, _, piece| piece)?.concat())
    }

    /// A reader of the batches, which are made while they are read.
    pub fn into_batches(mut self) -> Batches {
        self.read_soon = true;
        self.batch_rows = self.batch_rows.min(STREAM_BYTES / self.gather.row_bytes().max(1)).max(1);
        Batches::new(self)
    }

    /// Makes the result piece by piece, on all threads, and hands each piece, or why it could not be made, to `take` with
    /// its number and the left rows that were done before it. Pieces are begun in order; what `take` returns is returned
    /// in order.
    pub(crate) fn run<R: Send>(mut self, take: impl Fn(u64, usize, Piece) -> Result<R> + Sync) -> Result<Vec<R>> {
        let mut matched = self.how.keeps_right().then(|| BitSet::new(self.matches.right_rows()));
        let mut taken = Vec::new();
        for page in std::mem::take(&mut self.pages) {
            let left_rows = page.start;
            let matches = match &self.filter {
                None => self.matches.clone(),
                Some(filter) => {
                    let keep = |left: &[u32], right: &[u32]| filter.keep(left, right);
                    Arc::new(self.matches.filter(page, &keep, &self.driver)??)
                }
            };
            if let Some(matched) = &mut matched {
                matches.mark_matched(matched);
            }
            let output = Output::new(matches, self.how, &self.driver)?;
            self.count(output.rows())?;
            let pieces = output.cut(self.batch_rows);
            let first = taken.len() as u64;
            let made = self.driver.map((first..).zip(pieces).collect(), |(number, rows)| {
                let done = left_rows + output.left_row(rows.start);
                take(number, done, piece(|| output.list(rows, |pairs| self.batches(pairs.left(), pairs.right()))))
            })?;
            taken.extend(made.into_iter().collect::<Result<Vec<R>>>()?);
        }
        if let Some(matched) = matched {
            let rows: Vec<u32> = matched.missing().map(|row| row as u32).collect();
            self.count(rows.len() as u64)?;
            let first = taken.len() as u64;
            let left_rows = self.stats.left_rows;
            let made = self.driver.map((first..).zip(rows.chunks(self.batch_rows)).collect(), |(number, right)| {
                take(number, left_rows, piece(|| self.batches(&vec![NO_ROW; right.len()], right)))
            })?;
            taken.extend(made.into_iter().collect::<Result<Vec<R>>>()?);
        }
        Ok(taken)
    }

    /// Adds to the number of result rows, unless that makes too many.
    fn count(&mut self, rows: u64) -> Result<()> {
        self.numbered += rows;
        match self.max_rows {
            Some(most) if self.numbered > most => Err(Error::memory(format!(
                "the result has at least {} rows, more than max_rows = {most}; raise it, narrow the interval, or take \
                 the result in batches",
                self.numbered
            ))),
            _ => Ok(()),
        }
    }

    /// One batch of result rows, or several where a column's strings are too long for one array's offsets.
    fn batches(&self, left: &[u32], right: &[u32]) -> Result<Vec<RecordBatch>> {
        match self.gather.columns(left, right, self.read_soon) {
            Ok(columns) => {
                let options = RecordBatchOptions::new().with_row_count(Some(left.len()));
                Ok(vec![RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?])
            }
            Err(ArrowError::OffsetOverflowError(_)) if left.len() > 1 => {
                let half = left.len() / 2;
                let (first, second) = right.split_at(half.min(right.len()));
                let mut batches = self.batches(&left[..half], first)?;
                batches.extend(self.batches(&left[half..], second)?);
                Ok(batches)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The batches of consecutive result rows, or why there are none.
pub(crate) type Piece = Result<Vec<RecordBatch>>;

/// A panic becomes an error, so that whoever waits for the piece hears of it.
fn piece(make: impl FnOnce() -> Piece) -> Piece {
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| Err(Error::from_panic(&*panic)))
}

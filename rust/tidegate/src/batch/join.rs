//! The steps shared by all table joins, from matches to record batches.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use tidegate_operators::driver::Driver;
use tidegate_operators::matches::{BitSet, Matches, Output};
use tidegate_operators::rows::{How, NO_ROW};
use tidegate_structures::memory;
use tidegate_sync::{Counter, Stop};

use super::batches::Batches;
use super::condition::Condition;
use super::lookups::LookupResults;
use super::pairs::{FoundPairs, Pairs};
use super::partners::{PartnerResults, PartnerRows};
use crate::columns::keys::{self, Keys};
use crate::columns::table::Table;
use crate::query::options::{JoinOptions, JoinPlan};
use crate::query::output::OutputColumn;
use crate::results::gather::{Column, ColumnSource, Gather};
use crate::{Error, Result};

/// The maximum number of rows in a batch. An 8-byte column with this many rows takes up 1 MiB.
const BATCH_ROWS: usize = 1 << 17;

/// The target size, in bytes, of a table's batches, counting all columns.
const BATCH_BYTES: usize = 8 << 20;

/// The target size, in bytes, of batches that are read one by one. A batch of this size is still
/// cached when it is read.
const STREAM_BYTES: usize = 4 << 20;

/// The number of batches that are planned at a time. Not all batches of a result are planned
/// together, because there can be more batches than bytes of memory.
const PIECES: usize = 1 << 16;

/// The approximate number of pairs that a task aggregates. A task of this size is short enough to
/// respond quickly to a request to stop. A single left row can have more pairs than this.
const ADDED_PAIRS: u64 = 1 << 22;

impl JoinPlan {
    /// Returns the keys of two tables as numbers, if the join has keys.
    pub(crate) fn encode_keys(
        &self,
        left: &Table,
        right: &Table,
        driver: &Driver,
    ) -> Result<Option<Keys>> {
        match &self.keys[..] {
            [] => Ok(None),
            columns => keys::encode(left, right, columns, driver).map(Some),
        }
    }
}

/// Statistics about a join, available both while the join is running and afterwards.
#[derive(Clone, Debug)]
pub struct JoinStats {
    /// The number of rows in the left table.
    pub left_rows: usize,
    /// The number of rows in the right table.
    pub right_rows: usize,
    /// The method used to number keys.
    pub key_method: &'static str,
    /// The method used to find the pairs that satisfy the condition.
    pub condition_method: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// The number of result rows returned so far.
    pub rows: u64,
    /// The approximate number of left rows whose result rows have been built.
    pub left_rows_done: usize,
}

/// A join of tables that has been started. The candidate pairs have been found, but the predicate
/// has not been evaluated, and no result rows have been built.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{Int64Array, RecordBatch};
/// use tidegate::{Bound, Closed, Driver, How, IntervalJoin, JoinOptions, Stop, Table};
///
/// let column = Arc::new(Int64Array::from(vec![10, 20])) as _;
/// let rows = RecordBatch::try_from_iter([("ts", column)])?;
/// let driver = Driver::new(1, Stop::default());
/// let table = Table::new("rows".to_owned(), rows.schema(), vec![rows], &driver)?;
/// let query = IntervalJoin {
///     on: ("ts".to_owned(), "ts".to_owned()),
///     lower: Some(Bound::Steps(0).into()),
///     upper: Some(Bound::Steps(10).into()),
///     closed: Closed::Both,
///     open_ends: false,
///     limit: None,
///     options: JoinOptions {
///         by: Vec::new(),
///         predicate: None,
///         how: How::Inner,
///         suffix: "_right".to_owned(),
///         columns: None,
///         threads: 1,
///         max_rows: None,
///         batch_rows: None,
///     },
/// };
/// let join = query.start(&table, &table, Stop::default())?;
/// assert_eq!(join.schema().field(1).name(), "ts_right");
/// let batches = join.read_all()?;
/// assert_eq!(batches[0].num_rows(), 3); // 10 with 10 and 20, 20 with itself
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Join {
    schema: SchemaRef,
    how: How,
    max_rows: Option<u64>,
    batch_rows: usize,
    gather: Gather,
    pairs: Pairs,
    /// The aggregates that the result contains instead of pairs.
    aggregation: Option<PartnerResults>,
    /// The rows of an as-of join with several lookups per left row.
    lookups: Option<LookupResults>,
    /// The number of result rows that have been numbered so far.
    numbered: u64,
    /// True if each batch is read soon after it is built.
    read_soon: bool,
    /// True if batches can share memory with the left table.
    may_slice: bool,
    driver: Driver,
    stats: JoinStats,
}

impl Join {
    /// Creates the join of two tables for these pairs.
    pub(super) fn new(
        options: &JoinOptions,
        plan: JoinPlan,
        (left, right): (&Table, &Table),
        found: FoundPairs,
        aggregation: Option<PartnerResults>,
        driver: Driver,
    ) -> Result<Self> {
        let FoundPairs { key_method, candidates } = found;
        let gather = gather(&plan, left, right, options.how);
        let pairs = Pairs::new(candidates, plan.predicate, left, right, &driver)?;
        let batch_rows = options
            .batch_rows
            .unwrap_or(BATCH_ROWS)
            .min(BATCH_BYTES / gather.row_bytes().max(1))
            .max(1);
        let stats = JoinStats {
            left_rows: left.rows(),
            right_rows: right.rows(),
            key_method,
            condition_method: pairs.condition.as_ref().map_or("none", Condition::method),
            threads: driver.threads(),
            rows: 0,
            left_rows_done: 0,
        };
        Ok(Join {
            schema: match &aggregation {
                None => plan.schema,
                Some(aggregation) => aggregation.schema().clone(),
            },
            how: options.how,
            max_rows: options.max_rows,
            batch_rows,
            gather,
            pairs,
            aggregation,
            lookups: None,
            numbered: 0,
            read_soon: false,
            may_slice: true,
            driver,
            stats,
        })
    }

    /// Records how the condition was tested on the join's pairs, and returns the join.
    pub(super) fn with_condition_method(mut self, method: &'static str) -> Self {
        self.stats.condition_method = method;
        self
    }

    /// Returns a join whose result consists of these rows instead of pairs.
    pub(super) fn with_lookups(mut self, lookups: LookupResults) -> Self {
        self.lookups = Some(lookups);
        self
    }

    /// Returns the same join, but with batches that share no memory with the tables. The tables'
    /// rows can then be dropped while the batches are still in use.
    pub(crate) fn of_passing_rows(mut self) -> Self {
        self.may_slice = false;
        self
    }

    /// The schema of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns statistics about the join.
    pub(crate) fn stats(&self) -> &JoinStats {
        &self.stats
    }

    pub(crate) fn stop(&self) -> Stop {
        self.driver.stop()
    }

    /// Returns all batches of the result.
    pub fn read_all(mut self) -> Result<Vec<RecordBatch>> {
        Ok(self.run(|_, _, piece| piece)?.concat())
    }

    /// Returns a reader for the batches, which are built while the reader is in use.
    pub fn into_batches(mut self) -> Batches {
        self.read_soon = true;
        self.batch_rows = self.batch_rows.min(STREAM_BYTES / self.gather.row_bytes().max(1)).max(1);
        Batches::new(self)
    }

    /// Builds the result piece by piece, on all threads. Calls `take` for each piece, with the
    /// piece's number, the number of left rows done before it, and the piece itself. If building a
    /// piece fails, passes the error instead. Pieces are started in order, and the results of
    /// `take` are returned in order.
    pub(crate) fn run<R: Send>(
        &mut self,
        take: impl Fn(u64, usize, Piece) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        if let Some(mut lookups) = self.lookups.take() {
            lookups.set_slicing(self.may_slice);
            return self.run_lookups(&lookups, take);
        }
        match self.aggregation.take() {
            None => self.run_pairs(take),
            Some(mut aggregation) => {
                let other_pairs = aggregation.take_other_pairs();
                self.run_aggregation(&aggregation, other_pairs, take)
            }
        }
    }

    fn run_pairs<R: Send>(
        &mut self,
        take: impl Fn(u64, usize, Piece) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let mut matched =
            self.how.keeps_right().then(|| BitSet::new(self.pairs.candidates.right_rows()));
        let mut taken = Vec::new();
        // With a condition, left rows are processed page by page, because memory might not hold all
        // remaining pairs.
        let mut left_rows = 0;
        let mut is_first = true;
        while is_first || left_rows < self.pairs.candidates.left_rows() {
            is_first = false;
            let (end, matches) = self.pairs.next_page(left_rows, &self.driver)?;
            if let Some(matched) = &mut matched {
                matches.mark_matched(matched);
            }
            let scattered = matches.is_scattered();
            let output = Output::new(matches, self.how, &self.driver)?;
            self.count(output.rows())?;
            // A result with few left rows should not keep all left rows in memory.
            self.gather.slices_left =
                self.may_slice && output.rows() >= (end - left_rows) as u64 / 2;
            if left_rows == 0 && scattered && output.rows() >= self.stats.right_rows as u64 {
                self.gather
                    .lay_out_right((self.stats.left_rows, self.stats.right_rows), &self.driver)?;
            }
            let batch_rows = self.batch_rows as u64;
            for rows in output.cut(self.batch_rows.saturating_mul(PIECES)) {
                let pieces = rows
                    .clone()
                    .step_by(self.batch_rows)
                    .map(|start| start..rows.end.min(start + batch_rows));
                let first = taken.len() as u64;
                let made = self.driver.map((first..).zip(pieces).collect(), |(number, rows)| {
                    let done = left_rows + output.left_row(rows.start);
                    take(
                        number,
                        done,
                        Error::catch(|| {
                            output.list(rows, |pairs| self.batches(pairs.left(), pairs.right()))
                        }),
                    )
                })?;
                taken.extend(made.into_iter().collect::<Result<Vec<R>>>()?);
            }
            left_rows = end;
        }
        if let Some(matched) = matched {
            let rows: Vec<u32> = matched.missing().map(|row| row as u32).collect();
            self.count(rows.len() as u64)?;
            let first = taken.len() as u64;
            let left_rows = self.stats.left_rows;
            let made = self.driver.map(
                (first..).zip(rows.chunks(self.batch_rows)).collect(),
                |(number, right)| {
                    take(
                        number,
                        left_rows,
                        Error::catch(|| self.batches(&vec![NO_ROW; right.len()], right)),
                    )
                },
            )?;
            taken.extend(made.into_iter().collect::<Result<Vec<R>>>()?);
        }
        Ok(taken)
    }

    /// Builds result rows from left rows and aggregates of their partners.
    fn run_aggregation<R: Send>(
        &mut self,
        aggregation: &PartnerResults,
        mut other_pairs: Vec<Pairs>,
        take: impl Fn(u64, usize, Piece) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let values = aggregation.values();
        let kept = Counter::new(0);
        self.gather.slices_left = self.may_slice && aggregation.keeps_all();
        if let Some(partners) = aggregation.partners() {
            let rows = partners.left_rows();
            self.count_all(aggregation.keeps_all(), rows as u64)?;
            let functions = aggregation.fold(&self.driver)?;
            let most = aggregation.has_lists().then_some(ADDED_PAIRS);
            let mut pieces: Vec<Range<usize>> = Vec::new();
            while let start = pieces.last().map_or(0, |piece| piece.end)
                && start < rows
            {
                pieces.push(partners.page(start, self.batch_rows, most, &self.driver)?);
            }
            return self.run_pieces(pieces, 0, &take, |left| {
                let found = functions.of(&left);
                let rows = aggregation.rows(&values, left, found)?;
                self.check_kept(aggregation.keeps_all(), &kept, rows.left.len())?;
                Ok(rows)
            });
        }
        let mut taken = Vec::new();
        let mut left_rows = 0;
        // The current page of each interval. Their ends can differ.
        let mut pages: Vec<(usize, Arc<Matches>)> = Vec::new();
        while left_rows < self.pairs.candidates.left_rows() {
            let pairs = std::iter::once(&mut self.pairs).chain(&mut other_pairs);
            for (interval, pairs) in pairs.enumerate() {
                match pages.get_mut(interval) {
                    Some((end, _)) if *end > left_rows => {}
                    Some(page) => *page = pairs.next_page(left_rows, &self.driver)?,
                    None => pages.push(pairs.next_page(left_rows, &self.driver)?),
                }
            }
            let end = pages.iter().map(|page| page.0).min().unwrap_or(left_rows);
            self.count_all(aggregation.keeps_all(), (end - left_rows) as u64)?;
            let mut pieces: Vec<Range<usize>> = Vec::new();
            while let start = pieces.last().map_or(left_rows, |piece| piece.end)
                && start < end
            {
                let mut rows = (end - start).min(self.batch_rows);
                for (_, matches) in &pages {
                    rows = matches.page(start - matches.first_left(), rows, ADDED_PAIRS).len();
                }
                pieces.push(start..start + rows);
            }
            let pieces = self.run_pieces(pieces, taken.len() as u64, &take, |left| {
                // The rows in a page are positions in its matches, except for a join without a
                // condition.
                let of_interval = |(interval, (_, matches)): (usize, &(usize, Arc<Matches>))| {
                    let first = matches.first_left();
                    let places = left.start - first..left.end - first;
                    aggregation.of_matches(interval, matches, places)
                };
                let found = pages.iter().enumerate().map(of_interval).collect();
                let rows = aggregation.rows(&values, left, found)?;
                self.check_kept(aggregation.keeps_all(), &kept, rows.left.len())?;
                Ok(rows)
            })?;
            taken.extend(pieces);
            left_rows = end;
        }
        Ok(taken)
    }

    /// Builds the result rows of an as-of join with several lookups per left row.
    fn run_lookups<R: Send>(
        &mut self,
        lookups: &LookupResults,
        take: impl Fn(u64, usize, Piece) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let kept = Counter::new(0);
        let (left_rows, batch_rows) = (lookups.left_rows(), self.batch_rows);
        let most = left_rows as u64 * lookups.rows_of_each() as u64;
        self.count_all(lookups.keeps_all(), most)?;
        let step = lookups.left_rows_per_batch(batch_rows);
        let mut taken = Vec::new();
        let mut start = 0;
        while start < left_rows {
            let end = left_rows.min(start.saturating_add(step.saturating_mul(PIECES)));
            let pieces = (start..end).step_by(step).map(|first| first..end.min(first + step));
            let first = taken.len() as u64;
            let made = self.driver.map((first..).zip(pieces).collect(), |(number, left)| {
                let done = left.start;
                let piece = Error::catch(|| {
                    let batches = lookups.batches(left, batch_rows, self.read_soon)?;
                    let rows = batches.iter().map(RecordBatch::num_rows).sum();
                    self.check_kept(lookups.keeps_all(), &kept, rows)?;
                    Ok(batches)
                });
                take(number, done, piece)
            })?;
            taken.extend(made.into_iter().collect::<Result<Vec<R>>>()?);
            start = end;
        }
        Ok(taken)
    }

    /// Builds the result rows for ranges of left rows. Each range is a piece, and pieces are
    /// numbered starting at `first`.
    fn run_pieces<R: Send>(
        &self,
        pieces: Vec<Range<usize>>,
        first: u64,
        take: &(impl Fn(u64, usize, Piece) -> Result<R> + Sync),
        make: impl Fn(Range<usize>) -> Result<PartnerRows> + Sync,
    ) -> Result<Vec<R>> {
        let made = self.driver.map((first..).zip(pieces).collect(), |(number, left)| {
            let start = left.start;
            let piece = Error::catch(|| {
                let rows = make(left)?;
                self.assemble(&rows.left, &[], &rows.aggregates)
            });
            take(number, start, piece)
        })?;
        made.into_iter().collect()
    }

    /// Counts further result rows unless all rows have been [counted](Self::count_all), and fails if
    /// there are too many.
    fn check_kept(&self, keeps_all: bool, kept: &Counter, rows: usize) -> Result<()> {
        let all = (kept.add(rows) + rows) as u64;
        match self.max_rows {
            Some(most) if !keeps_all && all > most => Err(too_many(all, most)),
            _ => Ok(()),
        }
    }

    /// Like [`count`](Self::count), but counts rows, all of which may be in the result.
    fn count_all(&mut self, keeps_all: bool, rows: u64) -> Result<()> {
        match keeps_all {
            true => self.count(rows),
            false if self.read_soon => Ok(()),
            false => room_for(rows, self.gather.row_bytes()),
        }
    }

    /// Counts further result rows. Fails if there are too many, or if they do not fit in memory.
    fn count(&mut self, rows: u64) -> Result<()> {
        self.numbered += rows;
        match self.max_rows {
            Some(most) if self.numbered > most => Err(too_many(self.numbered, most)),
            // Batches are read one by one, whereas the entire table is held in memory.
            _ if self.read_soon => Ok(()),
            _ => room_for(rows, self.gather.row_bytes()),
        }
    }

    /// Builds one batch of result rows, or several batches if a column's strings are too long for
    /// one array's offsets, or if a dictionary would exceed its index type.
    fn batches(&self, left: &[u32], right: &[u32]) -> Result<Vec<RecordBatch>> {
        self.assemble(left, right, &[])
    }

    /// Like [`batches`](Self::batches), but with further columns after the gathered ones.
    fn assemble(&self, left: &[u32], right: &[u32], more: &[ArrayRef]) -> Result<Vec<RecordBatch>> {
        // Each thread builds one batch.
        let alone = Driver::new(1, Stop::default());
        let values = self.gather.values(left, right, self.read_soon, &alone)?;
        match self.gather.columns(left, right, values) {
            Ok(mut columns) => {
                columns.extend(more.iter().cloned());
                let options = RecordBatchOptions::new().with_row_count(Some(left.len()));
                Ok(vec![RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?])
            }
            Err(ArrowError::OffsetOverflowError(_) | ArrowError::DictionaryKeyOverflowError)
                if left.len() > 1 =>
            {
                let half = left.len() / 2;
                let (first, second) = right.split_at(half.min(right.len()));
                let part = |from: usize, rows: usize| -> Vec<ArrayRef> {
                    more.iter().map(|column| column.slice(from, rows)).collect()
                };
                let mut batches = self.assemble(&left[..half], first, &part(0, half))?;
                let rest = part(half, left.len() - half);
                batches.extend(self.assemble(&left[half..], second, &rest)?);
                Ok(batches)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The error for a result that has too many rows.
pub(crate) fn too_many(rows: u64, most: u64) -> Error {
    Error::memory(format!(
        "the result has at least {rows} rows, more than max_rows = {most}; raise it, request fewer \
         pairs, or read the result in batches"
    ))
}

/// Checks that there is enough memory for the rows in a result, given their average size.
pub(crate) fn room_for(rows: u64, row_bytes: usize) -> Result<()> {
    let bytes = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(row_bytes);
    memory::room(bytes)
        .map_err(|refused| Error::from(refused).within(&format!("the result has {rows} more rows")))
}

/// The batches of consecutive result rows, or the error that prevented them.
pub(crate) type Piece = Result<Vec<RecordBatch>>;

/// Gathers the result columns of a table join.
fn gather(plan: &JoinPlan, left: &Table, right: &Table, how: How) -> Gather {
    let source = |column: &OutputColumn| match *column {
        OutputColumn::Left(at) => ColumnSource::Left(Arc::new(Column::new(left, at))),
        OutputColumn::Right(at) => ColumnSource::Right(Arc::new(Column::new(right, at))),
        OutputColumn::Either(l, r) => {
            let (of_left, of_right) = Column::new_pair(left, l, right, r);
            ColumnSource::Either(Arc::new(of_left), Arc::new(of_right))
        }
    };
    Gather {
        sources: plan.columns.iter().map(source).collect(),
        types: plan.schema.fields().iter().map(|field| field.data_type().clone()).collect(),
        optional: [how.keeps_right(), how.keeps_left()],
        records: [Vec::new(), Vec::new()],
        slices_left: false,
    }
}

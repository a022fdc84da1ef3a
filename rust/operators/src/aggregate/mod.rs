//! Aggregates of many sorted streams by key over sliding windows.
//!
//! 1. *Cells* ([`cells`]): time is cut into slices that all windows share ([`windows`]), and the
//!    rows of one key in one slice are a cell. The sources are not merged: each has its own
//!    partials, which never meet before the cell. With few keys, cells are found by the keys
//!    themselves ([`dense`]).
//! 2. *Fold* ([`fold`]): for each function, rows are added to partials, and partials combined to
//!    cells in source order; part by part, so that where rows belong is read from a cache.
//! 3. *Slide* ([`slide`]): cells are combined to windows, at one combination a result.
//!
//! A row is touched once a function, whatever the number of windows it falls in, and the work is
//! O(rows + results). Each stage is cut by time, and each piece of it is written by one thread.
//!
//! Floating-point results do not depend on threads or on how the work is cut: a source's rows are
//! added in time order within a slice, partials combined in source order, and slices as their
//! numbers say.
//!
//! # Trade-offs
//!
//! Beside the inputs there is a state for each function and cell (4 to 24 bytes). Rows of one slice
//! are one thread's work: with fewer slices than threads, some threads have none.
//!
//! The operator is that of Cederman, Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas,
//! "Efficient data streaming multiway aggregation through concurrent algorithmic designs and new
//! abstract data types", section 2, over streams that have ended. That a row is added to one slice
//! instead of to each of its windows is due to Li, Maier, Tufte, Papadimos and Tucker, "No pane, no
//! gain" (2005), and to Krishnamurthy, Wu and Franklin, "On-the-fly sharing for streamed
//! aggregation" (2006), whose paired windows the slices are.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `windows.rs` | the slices that windows share |
//! | `functions.rs`, `stored.rs` | the functions as states that combine; their states as words |
//! | `kinds.rs` | which function an [`Aggregate`] is: the only place that says it |
//! | `given.rs` | the input of functions, row by row |
//! | `user.rs` | functions that users bring |
//! | `cells.rs`, `dense.rs` | rows by slice and key; the same for few keys |
//! | `merged.rs` | the rows of several sources in merged order |
//! | `fold.rs`, `in_order.rs` | states of cells; states of functions that need merged order |
//! | `steps.rs`, `suffix_prefix.rs` | from one window to the next; the two states that make a window |
//! | `slide.rs` | from cells to windows |
//! | `sessions.rs` | windows that rows keep open |
//! | `streaming/` | the same of rows that come epoch by epoch |
//! | `partners/` | functions of the partners that a row has in a join |
//! | `all_values/` | functions that need all values of a window, or of a row's partners, at once |
//!
//! To add a function, write its state in `functions.rs` and `stored.rs`, add it to [`Aggregate`],
//! and say in `kinds.rs` what it is given. Both passes then have it, and so has each
//! other way to add rows (`streaming/epoch.rs`).

mod all_values;
mod cells;
mod dense;
mod fold;
mod functions;
mod given;
mod in_order;
mod kinds;
mod merged;
mod partners;
mod sessions;
mod slide;
mod steps;
mod stored;
mod streaming;
mod suffix_prefix;
mod user;
mod windows;

use tidegate_structures::memory::bits::BitSet;
use tidegate_structures::memory::pages::Pages;
use tidegate_sync::Stop;

use crate::driver::{Driver, Stopped};
pub use all_values::{
    AllValues, Interpolation, PartnerValues, Quantile, WindowRows, WindowValues,
    all_values_of_matches, float_of, order_of,
};
use fold::PartStates;
pub use functions::{OutputValue, RowOrder};
pub use kinds::first_rows;
use kinds::{Kind, kind};
pub use partners::{PartnerAggregates, aggregate_matches};
pub use sessions::aggregate_sessions;
use slide::{Block, Folded, Scratch, Slices, Writer};
pub use stored::STATE_WORDS;
pub use stored::{MAX_WORDS, StateWords};
pub use streaming::{
    AddEpoch, Adder, Epoch, KeyOrder, OpenPartials, Saved, SlicePartials, StateBounds,
    StreamingAggregate, StreamingSessions, StreamingWindows,
};
pub use user::{UserAggregate, UserFunction};
pub use windows::Slice;
pub use windows::Windows;

/// One sorted source of rows.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// The time of each row; never falls.
    pub ts: &'a [i64],
    /// The key of each row; `None` where all rows have the key 0.
    pub keys: Option<&'a [u32]>,
}

/// The rows of a source that count; `None` for all.
pub type Mask<'a> = Option<&'a BitSet>;

/// The values of a source's rows.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a, T> {
    /// A value a row.
    pub values: &'a [T],
    /// The rows that count.
    pub mask: Mask<'a>,
}

/// A column of each source.
#[derive(Clone, Debug)]
pub enum NumberColumns<'a> {
    /// Whole numbers of which no sum leaves 64 bits.
    Integers(Vec<Column<'a, i64>>),
    /// Whole numbers of which no sum leaves 128 bits.
    Wide(Vec<Column<'a, i128>>),
    /// Floats.
    Floats(Vec<Column<'a, f64>>),
}

/// Two columns of each source. The masks of both are the same.
#[derive(Clone, Debug)]
pub struct ColumnPairs<'a> {
    /// The values.
    pub values: Vec<Column<'a, f64>>,
    /// The other value of each row.
    pub others: Vec<Column<'a, f64>>,
}

/// A function and what it is of, for each source.
#[derive(Clone, Debug)]
pub enum Aggregate<'a> {
    /// How many rows there are.
    Count(Vec<Mask<'a>>),
    /// The sum of the values.
    Sum(NumberColumns<'a>),
    /// The mean of the values.
    Mean(NumberColumns<'a>),
    /// The product of the values.
    Product(Vec<Column<'a, f64>>),
    /// The mean of the values, each value counting by the other one, its weight.
    WeightedMean(ColumnPairs<'a>),
    /// The covariance of both values as a sample.
    Covariance(ColumnPairs<'a>),
    /// The correlation of both values.
    Correlation(ColumnPairs<'a>),
    /// The smallest value.
    Min(Vec<Column<'a, i64>>),
    /// The largest value.
    Max(Vec<Column<'a, i64>>),
    /// The variance of the values as a sample.
    Variance(Vec<Column<'a, f64>>),
    /// The square root of the variance.
    Deviation(Vec<Column<'a, f64>>),
    /// The first row by time, source and position.
    First(Vec<Mask<'a>>),
    /// The last row by time, source and position.
    Last(Vec<Mask<'a>>),
    /// The row with the smallest value, the first by time, source and position.
    RowOfMin(Vec<Column<'a, i64>>),
    /// The row with the largest value, the first by time, source and position.
    RowOfMax(Vec<Column<'a, i64>>),
    /// A function of one's own: see [`UserFunction`].
    User(UserAggregate<'a>),
}

/// Rows of the result, by window, then key.
#[derive(Debug)]
pub struct Page {
    /// The number of rows. Columns may be longer; what is behind is of no meaning.
    pub rows: usize,
    /// The windows, in the order of the rows.
    pub windows: Vec<Window>,
    /// The key of each row.
    pub keys: Pages<u32>,
    /// The values of each aggregate.
    pub columns: Vec<OutputColumn>,
}

impl Page {
    /// The rows of some of the windows.
    pub fn only(self, is_wanted: impl Fn(&Window) -> bool) -> Page {
        if self.windows.iter().all(&is_wanted) {
            return self;
        }
        let mut rows: Vec<usize> = Vec::new();
        let mut end = 0;
        for window in &self.windows {
            let start = end;
            end += window.rows;
            rows.extend((start..end).filter(|_| is_wanted(window)));
        }
        let windows = self.windows.iter().filter(|window| is_wanted(window)).copied().collect();
        self.some(&rows, windows)
    }

    /// The page in parts, each of which ends before one of these rows, which ascend, or at the end.
    pub fn cut(self, borders: &[usize]) -> Vec<Page> {
        if borders.is_empty() {
            return vec![self];
        }
        let mut windows = self.windows.iter().copied().peekable();
        let mut start = 0;
        let ends = borders.iter().copied().chain([self.rows]);
        let part = |end: usize| {
            let rows: Vec<usize> = (start..end).collect();
            let mut missing = rows.len();
            let mut own = Vec::new();
            while missing > 0
                && let Some(window) = windows.peek_mut()
            {
                let taken = window.rows.min(missing);
                own.push(Window { rows: taken, ..*window });
                missing -= taken;
                window.rows -= taken;
                if window.rows == 0 {
                    windows.next();
                }
            }
            start = end;
            self.some(&rows, own)
        };
        ends.map(part).collect()
    }

    /// Some of the rows, which are those of these windows.
    fn some(&self, rows: &[usize], windows: Vec<Window>) -> Page {
        Page {
            rows: rows.len(),
            windows,
            keys: Pages::collect(rows.iter().map(|&row| self.keys[row])),
            columns: self.columns.iter().map(|column| column.only(rows)).collect(),
        }
    }
}

/// The time from `start` up to `end`, and the number of its rows in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first time.
    pub start: i64,
    /// The first time after it.
    pub end: i64,
    /// Keys that have rows in it.
    pub rows: usize,
}

/// The values of an aggregate.
#[derive(Debug)]
pub struct OutputColumn {
    /// A value a row; of no meaning where it is missing.
    pub values: OutputValues,
    /// The rows of the page without a value, ascending.
    pub missing: Vec<usize>,
}

impl OutputColumn {
    /// The values of some rows, which ascend.
    fn only(&self, rows: &[usize]) -> OutputColumn {
        fn only<T: OutputValue>(values: &[T], rows: &[usize]) -> Pages<T> {
            Pages::collect(rows.iter().map(|&row| values[row]))
        }
        let is_missing = |(_, row): &(usize, &usize)| self.missing.binary_search(row).is_ok();
        OutputColumn {
            missing: rows.iter().enumerate().filter(is_missing).map(|(at, _)| at).collect(),
            values: match &self.values {
                OutputValues::Integers(values) => OutputValues::Integers(only(values, rows)),
                OutputValues::Wide(values) => OutputValues::Wide(only(values, rows)),
                OutputValues::Floats(values) => OutputValues::Floats(only(values, rows)),
                OutputValues::Rows(values) => OutputValues::Rows(only(values, rows)),
                OutputValues::Lists { ends, rows: all } => {
                    let mut listed = Vec::new();
                    let list = |row: usize| match row.checked_sub(1) {
                        None => &all[..ends[row]],
                        Some(before) => &all[ends[before]..ends[row]],
                    };
                    let end = |&row: &usize| {
                        listed.extend_from_slice(list(row));
                        listed.len()
                    };
                    let ends = rows.iter().map(end).collect();
                    OutputValues::Lists { ends, rows: listed }
                }
            },
        }
    }
}

/// Values of one type.
#[derive(Debug)]
pub enum OutputValues {
    /// Counts, sums, and the smallest and largest values.
    Integers(Pages<i64>),
    /// Sums.
    Wide(Pages<i128>),
    /// Sums, means, variances.
    Floats(Pages<f64>),
    /// Row numbers, counted through all sources.
    Rows(Pages<u32>),
    /// Lists of row numbers, one behind the other.
    Lists {
        /// Where each list ends.
        ends: Vec<usize>,
        /// The row numbers.
        rows: Vec<u32>,
    },
}

/// Aggregates the rows of all sources, and hands the result to `take` page by page, before its
/// memory is taken to `announce` with the number of its rows. What `take` returns is returned in
/// order.
///
/// Keys are less than `key_count`.
///
/// The sums of two sources in windows of 10:
///
/// ```
/// use tidegate_operators::aggregate::{
///     Aggregate, Column, NumberColumns, OutputValues, Page, Stream, Windows, aggregate,
/// };
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_sync::Stop;
///
/// let streams = [Stream { ts: &[1, 12], keys: None }, Stream { ts: &[4, 13], keys: None }];
/// let column = |values| Column { values, mask: None };
/// let sum = Aggregate::Sum(NumberColumns::Integers(vec![column(&[5, 6]), column(&[7, 8])]));
/// let (windows, driver) = (Windows::new(10, 10, 0), Driver::new(2, Stop::default()));
/// let take = |page: Page| {
///     let OutputValues::Integers(sums) = &page.columns[0].values else { unreachable!() };
///     let starts = page.windows.iter().map(|window| window.start);
///     Ok::<_, Stopped>(starts.zip(sums.to_vec()).collect::<Vec<_>>())
/// };
/// let found = aggregate(&streams, 1, &windows, &[sum], &driver, |_| Ok(()), take)?;
/// assert_eq!(found.concat(), [(0, 5 + 7), (10, 6 + 8)]);
/// # Ok::<(), Stopped>(())
/// ```
pub fn aggregate<R: Send, E: From<Stopped> + Send>(
    streams: &[Stream<'_>],
    key_count: usize,
    windows: &Windows,
    aggregates: &[Aggregate<'_>],
    driver: &Driver,
    announce: impl Fn(usize) -> Result<(), E> + Sync,
    take: impl Fn(Page) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let first_rows = first_rows(streams);
    let kinds: Vec<Box<dyn Kind + '_>> =
        aggregates.iter().map(|aggregate| kind(aggregate, streams, &first_rows)).collect();
    let fold_all = |part: &cells::Part, belongs: &cells::Belongs<'_>| -> Vec<PartStates> {
        kinds.iter().map(|kind| kind.fold(part, belongs)).collect()
    };
    let (parts, states): (Vec<_>, Vec<_>) =
        cells::parts(streams, key_count, windows, driver, fold_all)?.into_iter().unzip();
    let mut states: Vec<_> = states.into_iter().map(Vec::into_iter).collect();
    let folded: Vec<Box<dyn Folded>> = kinds
        .iter()
        .map(|kind| {
            let of_function =
                states.iter_mut().map(|part| part.next().expect("states of each function"));
            kind.put_together(of_function.collect())
        })
        .collect();
    let slices = Slices::new(&parts);
    let failure = Stop::default();
    let made = driver.map_with(
        slices.tasks(windows, key_count),
        || Scratch::new(key_count),
        |scratch, task| {
            // What failed tells why; nobody gets what the rest would make.
            if failure.is_requested() {
                return Ok(Vec::new());
            }
            let mut writer = Writer::new(&task, &folded);
            let mut taken = Vec::new();
            let mut keep = |page| {
                taken.push(take(page)?);
                Ok(())
            };
            let mut write = || {
                for stretch in &task.stretches {
                    driver.check()?;
                    let block = Block::new(stretch, &slices, windows, scratch);
                    writer.write(stretch, &block, windows, &announce, &mut keep)?;
                }
                writer.flush(&mut keep)
            };
            let written = write();
            if written.is_err() {
                failure.request();
            }
            written.map(|()| taken)
        },
    )?;
    let mut all = Vec::new();
    for taken in made {
        all.extend(taken?);
    }
    Ok(all)
}

//! Aggregates over sliding windows of rows that come epoch by epoch.
//!
//! ```text
//!             ┌ open: per source and key ┐   ┌ kept: per slice and key ┐
//! rows ──add──▶ partials of slices that  ──▶ cells of the slices that  ──▶ halves of the next window ──▶ pages
//!             └ may get more rows        ┘   └ later windows have      ┘
//! ```
//!
//! What is done, and in which order floats are added, is what [`super::aggregate`] does of whole tables; only that states
//! are kept from one epoch to the next. So the results have the same bits, wherever epochs are cut.
//!
//! 1. *Open* (`open.rs`): the partial of each row, by source, slice and key. Sources are numbered side by side.
//! 2. *Add* (`lane.rs`): rows are added to the states of partials: each function and source is a thread's work.
//! 3. *Close*: once no row of a slice can come, the partials of all sources are combined to its cells.
//! 4. *Slide* (`plan.rs`): cells enter and leave the halves of windows, function by function.
//!
//! # Trade-offs
//!
//! Beside a state for each partial and for each cell of two windows' slices, there are 4 bytes for each source and key. A
//! source that is alone is numbered by one thread.

mod functions;
mod lane;
mod open;
mod plan;
mod saved;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::functions::{Count, Extreme, Mean, NO_ROW, Sum, Variance};
use super::windows::{Slice, Windows};
use super::{Aggregate, Column, Mask, Numbers, Page, Stream};
use crate::driver::{Driver, Stopped};
use functions::{Pick, Stored};
use lane::{Lane, States, Task};
use open::{Closing, Open, close};
use plan::{Position, Steps, ranks};
pub use saved::Saved;

/// A closed slice.
#[derive(Debug)]
struct Kept {
    slice: Slice,
    /// The key of each cell.
    keys: Vec<u32>,
}

/// The keys in the order of results.
#[derive(Clone, Copy, Debug)]
pub struct KeyOrder<'a> {
    /// Keys in order, among them all that rows of the state have.
    pub keys: &'a [u32],
    /// The place of each key there.
    pub ranks: &'a [u32],
}

/// Windows of rows that come.
pub struct OnlineAggregate {
    windows: Windows,
    lanes: Vec<Box<dyn Lane>>,
    open: Vec<Open>,
    kept: VecDeque<Kept>,
    /// No row of a slice before it can come.
    closed: Slice,
    position: Position,
    /// One more than the largest key.
    keys: usize,
    /// Slots of closing slices, for the next that close.
    spare: Mutex<Vec<Vec<u32>>>,
}

impl OnlineAggregate {
    /// Windows of rows of so many sources. Of `aggregates`, only what they compute counts, not of which rows.
    pub fn new(windows: Windows, sources: usize, aggregates: &[Aggregate<'_>]) -> Self {
        OnlineAggregate {
            windows,
            lanes: aggregates.iter().map(|aggregate| lane(aggregate, sources)).collect(),
            open: (0..sources).map(|_| Open::default()).collect(),
            kept: VecDeque::new(),
            closed: Slice::MIN,
            position: Position::new(Slice::MIN),
            keys: 0,
            spare: Mutex::default(),
        }
    }

    /// Adds the rows of an epoch: of each source those that follow its last ones, and none is before a row of an earlier
    /// epoch. Keys are less than `keys`; row `n` of source `s` is called `first_rows[s] + n` by the functions that choose
    /// one.
    pub fn add(
        &mut self,
        rows: &[Stream<'_>],
        keys: usize,
        first_rows: &[u32],
        aggregates: &[Aggregate<'_>],
        driver: &Driver,
    ) -> Result<(), Stopped> {
        self.keys = keys.max(self.keys);
        let (windows, keys) = (&self.windows, self.keys);
        let sources = self.open.iter_mut().zip(rows).enumerate().collect();
        driver.map(sources, |(source, (open, rows))| open.number(source, *rows, windows, keys))?;
        let mut tasks = Vec::new();
        for (lane, aggregate) in self.lanes.iter_mut().zip(aggregates) {
            add(&mut **lane, aggregate, &self.open, rows, first_rows, &mut tasks);
        }
        driver.map(tasks, |task| task())?;
        match rows.iter().filter_map(|rows| rows.ts.last()).max() {
            Some(&last) => self.close(self.windows.slice_of(last), driver),
            None => Ok(()),
        }
    }

    /// No row before `ts` comes any more.
    pub fn advance(&mut self, ts: i64, driver: &Driver) -> Result<(), Stopped> {
        self.close(self.windows.slice_of(ts), driver)
    }

    /// No row comes any more.
    pub fn finish(&mut self, driver: &Driver) -> Result<(), Stopped> {
        self.close(Slice::MAX, driver)
    }

    /// Makes cells of the slices before `upto`.
    fn close(&mut self, upto: Slice, driver: &Driver) -> Result<(), Stopped> {
        self.closed = upto.max(self.closed);
        let closed = self.open.iter().flat_map(|open| open.runs.iter().take_while(|run| run.slice < upto));
        let mut runs: Vec<_> = closed.cloned().collect();
        if runs.is_empty() {
            return Ok(());
        }
        // A slice's runs stay in source order.
        runs.sort_by_key(|run| run.slice);
        let slices = runs.chunk_by(|a, b| a.slice == b.slice).collect();
        let (open, spare) = (&self.open, &self.spare);
        let closing: Vec<Closing> = driver.map(slices, |runs| {
            let spare = || spare.lock().unwrap_or_else(PoisonError::into_inner);
            let mut slots = spare().pop().unwrap_or_default();
            let closing = close(runs, open, &mut slots);
            spare().push(slots);
            closing
        })?;
        let tasks: Vec<Task<'_>> = self.lanes.iter_mut().flat_map(|lane| lane.close(&closing)).collect();
        driver.map(tasks, |task| task())?;
        self.kept.extend(closing.into_iter().map(|Closing { slice, keys, .. }| Kept { slice, keys }));
        let forgotten: Vec<usize> = self.open.iter_mut().map(|open| open.forget(upto)).collect();
        self.lanes.iter_mut().for_each(|lane| lane.forget(&forgotten));
        Ok(())
    }

    /// The results of the next windows that are complete, some `pages` pages at most; nothing once all have been made.
    pub fn pages(&mut self, pages: usize, order: KeyOrder<'_>, driver: &Driver) -> Result<Vec<Page>, Stopped> {
        let Self { windows, kept, closed, position, .. } = self;
        let next = || Some(position.steps(kept, *closed, windows, order.keys)).filter(|steps| !steps.steps.is_empty());
        let planned: Vec<Steps> = std::iter::from_fn(next).take(pages).collect();
        let (kept, keys) = (&self.kept, self.keys);
        let lanes = if planned.is_empty() { Vec::new() } else { self.lanes.iter_mut().collect() };
        let columns = driver.map(lanes, |lane: &mut Box<dyn Lane>| lane.write(&planned, kept, keys))?;
        let dropped = self.position.drop_slices(&self.kept);
        self.kept.drain(..dropped);
        self.lanes.iter_mut().for_each(|lane| lane.drop_slices(dropped));
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let page = |Steps { windows, keys, .. }: Steps| Page {
            rows: keys.len(),
            windows,
            keys: ranks(&keys, order.ranks),
            columns: columns.iter_mut().map(|pages| pages.next().expect("a column a page")).collect(),
        };
        Ok(planned.into_iter().map(page).collect())
    }

    /// Whether each key is one of the state's.
    pub fn is_used(&self) -> Vec<bool> {
        let mut used = vec![false; self.keys];
        let open = self.open.iter().flat_map(|open| &open.keys[1..]);
        open.chain(self.kept.iter().flat_map(|kept| &kept.keys)).for_each(|&key| used[key as usize] = true);
        used
    }

    /// Calls `visit` with every row that has been chosen, in an order that follows from the data; it may change the row.
    /// One row may have been chosen often.
    pub fn for_each_row(&mut self, mut visit: impl FnMut(&mut u32)) {
        self.lanes.iter_mut().for_each(|lane| lane.rows(&mut visit));
    }

    /// Changes the rows that halves of windows have, as those of the cells that they are of were changed: `new` tells the
    /// new row of a former one, or none for a row that no cell has.
    pub fn follow_rows(&mut self, new: impl Fn(u32) -> Option<u32>) {
        let mut visit = |row: &mut u32| *row = new(*row).unwrap_or(NO_ROW);
        self.lanes.iter_mut().for_each(|lane| lane.rows_of_halves(&mut visit));
    }

    /// The number of partials and cells.
    pub fn cells(&self) -> usize {
        let partials: usize = self.open.iter().map(|open| open.keys.len() - 1).sum();
        partials + self.kept.iter().map(|kept| kept.keys.len()).sum::<usize>()
    }

    /// About the bytes that a row adds to the state at most: if it is the first of its key, which then has a place in both
    /// halves.
    pub fn row_bytes(&self) -> usize {
        3 * self.cell_bytes()
    }

    /// The bytes of a partial or a cell.
    fn cell_bytes(&self) -> usize {
        size_of::<u32>() + self.lanes.iter().map(|lane| lane.state_bytes()).sum::<usize>()
    }

    /// The bytes of the state.
    pub fn bytes(&self) -> usize {
        let slots = self.open.iter().map(Open::bytes).sum::<usize>();
        (self.cells() + 2 * self.keys) * self.cell_bytes() + slots
    }
}

impl fmt::Debug for OnlineAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnlineAggregate").field("windows", &self.windows).finish_non_exhaustive()
    }
}

/// The states of what an aggregate computes.
fn lane(aggregate: &Aggregate<'_>, sources: usize) -> Box<dyn Lane> {
    fn of<F: Stored>(sources: usize) -> Box<dyn Lane> {
        Box::new(States::<F>::new(sources))
    }
    match aggregate {
        Aggregate::Count(_) => of::<Count>(sources),
        Aggregate::Sum(Numbers::Integers(_)) => of::<Sum<i64>>(sources),
        Aggregate::Sum(Numbers::Wide(_)) => of::<Sum<i128>>(sources),
        Aggregate::Sum(Numbers::Floats(_)) => of::<Sum<f64>>(sources),
        Aggregate::Mean(Numbers::Integers(_)) => of::<Mean<i64>>(sources),
        Aggregate::Mean(Numbers::Wide(_)) => of::<Mean<i128>>(sources),
        Aggregate::Mean(Numbers::Floats(_)) => of::<Mean<f64>>(sources),
        Aggregate::Min(_) => of::<Extreme<false>>(sources),
        Aggregate::Max(_) => of::<Extreme<true>>(sources),
        Aggregate::Variance(_) => of::<Variance<false>>(sources),
        Aggregate::Deviation(_) => of::<Variance<true>>(sources),
        Aggregate::First(_) => of::<Pick<false>>(sources),
        Aggregate::Last(_) => of::<Pick<true>>(sources),
    }
}

/// Appends the work of adding the rows of an epoch to what an aggregate computes.
fn add<'a>(
    lane: &'a mut dyn Lane,
    aggregate: &'a Aggregate<'a>,
    open: &'a [Open],
    rows: &'a [Stream<'a>],
    first_rows: &'a [u32],
    tasks: &mut Vec<Task<'a>>,
) {
    fn states<F: Stored>(lane: &mut dyn Lane) -> &mut States<F> {
        lane.as_any().downcast_mut().expect("an aggregate computes the same in every epoch")
    }
    fn of<'a, F: Stored>(
        lane: &'a mut dyn Lane,
        open: &'a [Open],
        columns: &'a [Column<'a, F::Input>],
        tasks: &mut Vec<Task<'a>>,
    ) {
        let values = columns.iter().map(|column| (column.values.iter().copied(), column.mask));
        tasks.extend(states::<F>(lane).add(open, values));
    }
    let picked = |masks: &'a [Mask<'a>]| {
        let row =
            |((rows, &first), &mask): ((&'a Stream<'a>, &u32), &Mask<'a>)| (rows.ts.iter().copied().zip(first..), mask);
        rows.iter().zip(first_rows).zip(masks).map(row)
    };
    match aggregate {
        Aggregate::Count(masks) => {
            tasks.extend(states::<Count>(lane).add(open, masks.iter().map(|&mask| (std::iter::repeat(()), mask))));
        }
        Aggregate::Sum(Numbers::Integers(columns)) => of::<Sum<i64>>(lane, open, columns, tasks),
        Aggregate::Sum(Numbers::Wide(columns)) => of::<Sum<i128>>(lane, open, columns, tasks),
        Aggregate::Sum(Numbers::Floats(columns)) => of::<Sum<f64>>(lane, open, columns, tasks),
        Aggregate::Mean(Numbers::Integers(columns)) => of::<Mean<i64>>(lane, open, columns, tasks),
        Aggregate::Mean(Numbers::Wide(columns)) => of::<Mean<i128>>(lane, open, columns, tasks),
        Aggregate::Mean(Numbers::Floats(columns)) => of::<Mean<f64>>(lane, open, columns, tasks),
        Aggregate::Min(columns) => of::<Extreme<false>>(lane, open, columns, tasks),
        Aggregate::Max(columns) => of::<Extreme<true>>(lane, open, columns, tasks),
        Aggregate::Variance(columns) => of::<Variance<false>>(lane, open, columns, tasks),
        Aggregate::Deviation(columns) => of::<Variance<true>>(lane, open, columns, tasks),
        Aggregate::First(masks) => tasks.extend(states::<Pick<false>>(lane).add(open, picked(masks))),
        Aggregate::Last(masks) => tasks.extend(states::<Pick<true>>(lane).add(open, picked(masks))),
    }
}

//! Time-based windows over rows that arrive epoch by epoch: from rows to partials, then to cells,
//! and finally to windows.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::position::{Position, ranks};
use super::saved::{WindowsState, are_states, saved_words};
use super::windows::{KeyOrder, StreamingWindows};
use crate::aggregate::catalog::aggregate::{Aggregate, kind};
use crate::aggregate::catalog::kind::AggregateKind;
use crate::aggregate::folds::epochs::epoch::{AddEpoch, Adder, Epoch};
use crate::aggregate::folds::epochs::lane::{Lane, Task};
use crate::aggregate::folds::epochs::open::{
    ClosedSlice, ClosingSlice, OpenPartials, SourcePartials, arrange, close,
};
use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::inputs::places::{MergedRows, Place};
use crate::aggregate::output::Page;
use crate::aggregate::slices::partials::SourceRun;
use crate::aggregate::slices::steps::WindowSteps;
use crate::aggregate::slices::windows::{Slice, Windows};
use crate::aggregate::states::functions::NO_ROW;
use crate::aggregate::states::words::StateBounds;
use crate::driver::{Driver, Stopped};

/// Time-based windows over rows that arrive epoch by epoch.
///
/// If a function needs rows from several sources in merged order, an additional source contains all
/// rows in that order. Functions that do not need merged order ignore this source.
///
/// ```
/// use tidegate_operators::aggregate::{
///     Aggregate, KeyOrder, OutputValues, Stream, StreamingAggregate, StreamingWindows,
///     Windows,
/// };
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let (windows, count) = (Windows::new(10, 10, 0), [Aggregate::Count(vec![None])]);
/// let mut streaming = StreamingAggregate::new(windows, 1, &count);
/// let order = KeyOrder { keys: &[0], ranks: &[0] };
/// // Further rows may fall in the first window, so it has no result yet.
/// streaming.add(&[Stream { ts: &[1, 4], keys: None }], 1, &[0], &count, &driver)?;
/// assert!(streaming.pages(1, order, &driver)?.is_empty());
/// // A row at 12 is beyond it.
/// streaming.add(&[Stream { ts: &[12], keys: None }], 1, &[2], &count, &driver)?;
/// let pages = streaming.pages(1, order, &driver)?;
/// let OutputValues::Integers(counts) = &pages[0].columns[0].values else { unreachable!() };
/// assert_eq!((pages[0].windows[0].start, counts[0]), (0, 2));
/// # Ok::<(), Stopped>(())
/// ```
pub struct StreamingAggregate {
    windows: Windows,
    /// A replacement for the default way to turn rows into partials. `None` means that rows are
    /// added by slices.
    way: Option<Box<dyn AddEpoch>>,
    /// The number of sources.
    sources: usize,
    lanes: Vec<Box<dyn Lane>>,
    open: Vec<SourcePartials>,
    kept: VecDeque<ClosedSlice>,
    /// The first slice that can still receive rows.
    closed: Slice,
    position: Position,
    /// One more than the largest key.
    keys: usize,
    /// The key slots of closed slices, which are reused.
    spare: Mutex<Vec<Vec<u32>>>,
}

impl StreamingAggregate {
    /// Creates windows over the rows from `sources` sources. Only the functions in `aggregates` are
    /// used, not their columns.
    pub fn new(windows: Windows, sources: usize, aggregates: &[Aggregate<'_>]) -> Self {
        let kinds: Vec<_> = aggregates.iter().map(|aggregate| kind(aggregate, &[], &[])).collect();
        let needs_order = sources > 1 && kinds.iter().any(|kind| kind.needs_order());
        let all = sources + usize::from(needs_order);
        StreamingAggregate {
            windows,
            way: None,
            sources,
            lanes: kinds.iter().map(|kind| kind.lane(all)).collect(),
            open: (0..all).map(|_| SourcePartials::default()).collect(),
            kept: VecDeque::new(),
            closed: Slice::MIN,
            position: Position::new(Slice::MIN),
            keys: 0,
            spare: Mutex::default(),
        }
    }

    /// Returns the same windows, with a different way of adding rows to partials. All ways of
    /// adding rows produce the same state, so a snapshot taken with one can be restored with
    /// another.
    pub fn adding_by(self, way: Box<dyn AddEpoch>) -> Self {
        StreamingAggregate { way: Some(way), ..self }
    }

    /// Adds rows to partials. The rows in merged order, if any, are the last entry in `rows`.
    fn add_by_slices(
        &mut self,
        rows: &[Stream<'_>],
        merged: Option<&[Place]>,
        kinds: &[Box<dyn AggregateKind + '_>],
        driver: &Driver,
    ) -> Result<(), Stopped> {
        let (windows, keys, sources) = (&self.windows, self.keys, self.sources);
        let every = self.open.iter_mut().zip(rows).enumerate().collect();
        driver.map(every, |(source, (open, rows))| open.number(source, *rows, windows, keys))?;
        let mut tasks = Vec::new();
        for (lane, kind) in self.lanes.iter_mut().zip(kinds) {
            match merged {
                None => kind.add(&mut **lane, &self.open, &mut tasks),
                Some(places) if kind.needs_order() => {
                    lane.make_room(&self.open);
                    let SourcePartials { keys, partial_of, .. } = &self.open[sources];
                    tasks.push(kind.add_in_order(
                        &mut **lane,
                        sources,
                        keys.len(),
                        partial_of,
                        places,
                    ));
                }
                Some(_) => {
                    lane.make_room(&self.open);
                    kind.add(&mut **lane, &self.open[..sources], &mut tasks);
                }
            }
        }
        driver.map(tasks, |task| task())?;
        Ok(())
    }

    /// Returns an epoch's rows in the form that other ways of adding rows require.
    fn epoch<'a>(
        &'a self,
        rows: &'a [Stream<'a>],
        merged: Option<&'a [Place]>,
        kinds: &'a [Box<dyn AggregateKind + 'a>],
    ) -> Epoch<'a> {
        let adders = kinds.iter().map(|kind| Adder::new(&**kind, self.sources, merged)).collect();
        let empty = self.lanes.iter().flat_map(|lane| lane.empty()).collect();
        Epoch { rows, windows: &self.windows, adders, empty }
    }

    /// Replaces the partials of all sources, together with their states.
    fn load(&mut self, partials: &OpenPartials) {
        for (source, slices) in partials.iter().enumerate() {
            self.open[source].load(source, slices, self.keys);
            for (function, lane) in self.lanes.iter_mut().enumerate() {
                lane.load(source, slices, function);
            }
        }
    }

    /// Returns the partials of all sources with their states.
    fn partials(&self) -> OpenPartials {
        let source = |(source, open): (usize, &SourcePartials)| {
            let slice = |run: &SourceRun| {
                let state = |partial: usize| {
                    self.lanes.iter().flat_map(move |lane| lane.words(source, partial)).collect()
                };
                let key = |partial: usize| (open.keys[partial], state(partial));
                (run.slice, run.partials.clone().map(key).collect())
            };
            open.runs.iter().map(slice).collect()
        };
        self.open.iter().enumerate().map(source).collect()
    }

    /// Combines partials into the cells of the slices before `upto`.
    fn close(&mut self, upto: Slice, driver: &Driver) -> Result<(), Stopped> {
        self.closed = upto.max(self.closed);
        let closed =
            self.open.iter().flat_map(|open| open.runs.iter().take_while(|run| run.slice < upto));
        let mut runs: Vec<_> = closed.cloned().collect();
        if runs.is_empty() {
            return Ok(());
        }
        let driver = driver.fit(runs.iter().map(|run| run.partials.len()).sum());
        // The sort is stable, so the runs of a slice stay in source order.
        runs.sort_by_key(|run| run.slice);
        let slices = runs.chunk_by(|a, b| a.slice == b.slice).collect();
        let (open, spare) = (&self.open, &self.spare);
        let closing: Vec<ClosingSlice> = driver.map(slices, |runs| {
            let spare = || spare.lock().unwrap_or_else(PoisonError::into_inner);
            let mut slots = spare().pop().unwrap_or_default();
            let closing = close(runs, open, &mut slots);
            spare().push(slots);
            closing
        })?;
        let tasks: Vec<Task<'_>> =
            self.lanes.iter_mut().flat_map(|lane| lane.close(&closing)).collect();
        driver.map(tasks, |task| task())?;
        self.kept.extend(
            closing.into_iter().map(|ClosingSlice { slice, keys, .. }| ClosedSlice { slice, keys }),
        );
        let forgotten: Vec<usize> = self.open.iter_mut().map(|open| open.forget(upto)).collect();
        self.lanes.iter_mut().for_each(|lane| lane.forget(&forgotten));
        Ok(())
    }

    /// Returns the size of a partial or a cell in bytes.
    fn cell_bytes(&self) -> usize {
        size_of::<u32>() + self.lanes.iter().map(|lane| lane.state_bytes()).sum::<usize>()
    }
}

impl StreamingAggregate {
    fn saved(&self) -> WindowsState {
        let open = self.open.iter().map(|open| {
            let run = open.runs.first()?;
            Some((run.slice, open.keys[run.partials.clone()].to_vec()))
        });
        let mut words = Vec::new();
        self.lanes.iter().for_each(|lane| lane.save(&mut words));
        WindowsState {
            closed: self.closed,
            next: self.position.next,
            open: open.collect(),
            kept: self.kept.iter().map(|kept| (kept.slice, kept.keys.clone())).collect(),
            words,
            ..WindowsState::default()
        }
    }

    /// Returns whether a state is valid for these windows. Slices must be in order: closed slices
    /// precede open slices and all future rows. Keys must be distinct within a slice, and every
    /// state must be one that rows can produce.
    fn is_sound(&self, saved: &WindowsState, bounds: &StateBounds) -> bool {
        let next = bounds.next.map(|ts| self.windows.slice_of(ts));
        let is_slice =
            |(slice, keys): &(i64, Vec<u32>)| self.windows.has(*slice) && are_distinct(keys);
        let open = || saved.open.iter().flatten();
        saved.kept.iter().chain(open()).all(is_slice)
            && saved.kept.is_sorted_by(|(a, _), (b, _)| a < b)
            && saved.kept.last().is_none_or(|(last, _)| *last < saved.closed)
            && open()
                .all(|(slice, _)| *slice >= saved.closed && next.is_none_or(|next| *slice <= next))
            && next.is_none_or(|next| saved.closed <= next)
            && saved.next.rem_euclid(self.windows.stride()) == 0
            && are_states(&self.lanes, &saved.words, bounds)
    }

    fn go_on(&mut self, saved: WindowsState) -> bool {
        let count = |(_, keys): &(i64, Vec<u32>)| keys.len();
        let partials: Vec<usize> =
            saved.open.iter().map(|open| open.as_ref().map_or(0, count)).collect();
        let cells: Vec<usize> = saved.kept.iter().map(count).collect();
        let states = partials.iter().chain(&cells).sum::<usize>();
        let expected = states * saved_words(&self.lanes);
        if partials.len() != self.open.len()
            || !saved.sessions.is_empty()
            || saved.words.len() != expected
        {
            return false;
        }
        self.closed = saved.closed;
        self.position = Position::new(saved.next);
        for (source, (open, saved)) in self.open.iter_mut().zip(saved.open).enumerate() {
            if let Some((slice, keys)) = saved {
                self.keys = keys.iter().fold(self.keys, |most, &key| most.max(key as usize + 1));
                let partials = keys.into_iter().map(|key| (key, Vec::new())).collect();
                open.load(source, &[(slice, partials)], self.keys);
            }
        }
        for (slice, keys) in saved.kept {
            self.keys = keys.iter().fold(self.keys, |most, &key| most.max(key as usize + 1));
            self.kept.push_back(ClosedSlice { slice, keys });
        }
        let mut words = saved.words.into_iter();
        self.lanes.iter_mut().for_each(|lane| lane.restore(&partials, &cells, &mut words));
        true
    }
}

impl StreamingWindows for StreamingAggregate {
    fn add(
        &mut self,
        rows: &[Stream<'_>],
        keys: usize,
        first_rows: &[u32],
        aggregates: &[Aggregate<'_>],
        driver: &Driver,
    ) -> Result<(), Stopped> {
        self.keys = keys.max(self.keys);
        let kinds: Vec<_> =
            aggregates.iter().map(|aggregate| kind(aggregate, rows, first_rows)).collect();
        let merged =
            (self.open.len() > self.sources).then(|| MergedRows::new(rows, driver)).transpose()?;
        let (places, mut every) = (merged.as_ref().map(|merged| &merged.places[..]), rows.to_vec());
        every.extend(merged.as_ref().map(MergedRows::stream));
        match &self.way {
            None => self.add_by_slices(&every, places, &kinds, driver)?,
            Some(way) => {
                let epoch = self.epoch(&every, places, &kinds);
                let partials = way.add(&epoch, &self.partials(), driver)?;
                self.load(&partials);
            }
        }
        match rows.iter().filter_map(|rows| rows.ts.last()).max() {
            Some(&last) => self.close(self.windows.slice_of(last), driver),
            None => Ok(()),
        }
    }

    fn advance(&mut self, ts: i64, driver: &Driver) -> Result<(), Stopped> {
        self.close(self.windows.slice_of(ts), driver)
    }

    fn finish(&mut self, driver: &Driver) -> Result<(), Stopped> {
        self.close(Slice::MAX, driver)
    }

    fn pages(
        &mut self,
        pages: usize,
        order: KeyOrder<'_>,
        driver: &Driver,
    ) -> Result<Vec<Page>, Stopped> {
        let Self { windows, kept, closed, position, .. } = self;
        let next = || {
            Some(position.steps(kept, *closed, windows, order.keys))
                .filter(|steps| !steps.steps.is_empty())
        };
        let planned: Vec<WindowSteps> = std::iter::from_fn(next).take(pages).collect();
        let (kept, keys) = (&self.kept, self.keys);
        let lanes = if planned.is_empty() { Vec::new() } else { self.lanes.iter_mut().collect() };
        let driver = driver.fit(planned.iter().map(|steps| steps.keys.len()).sum());
        let columns =
            driver.map(lanes, |lane: &mut Box<dyn Lane>| lane.write(&planned, kept, keys))?;
        let dropped = self.position.drop_slices(&self.kept);
        self.kept.drain(..dropped);
        self.lanes.iter_mut().for_each(|lane| lane.drop_slices(dropped));
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let page = |WindowSteps { windows, keys, .. }: WindowSteps| Page {
            rows: keys.len(),
            windows,
            keys: ranks(&keys, order.ranks),
            columns: columns
                .iter_mut()
                .map(|pages| pages.next().expect("one column per page"))
                .collect(),
        };
        Ok(planned.into_iter().map(page).collect())
    }

    fn is_used(&self) -> Vec<bool> {
        let mut used = vec![false; self.keys];
        let open = self.open.iter().flat_map(|open| &open.keys[1..]);
        open.chain(self.kept.iter().flat_map(|kept| &kept.keys))
            .for_each(|&key| used[key as usize] = true);
        used
    }

    fn arrange(&mut self, order: KeyOrder<'_>) {
        let open = self.open.iter_mut().map(|open| open.arrange(order.ranks)).collect::<Vec<_>>();
        let kept = self
            .kept
            .iter_mut()
            .map(|kept| arrange(&mut kept.keys, order.ranks))
            .collect::<Vec<_>>();
        self.lanes.iter_mut().for_each(|lane| lane.arrange(&open, &kept));
        // The suffixes refer to slices in the former order, so the next window starts with a new
        // suffix.
        self.position = Position::new(self.position.next);
    }

    fn for_each_row(&mut self, visit: &mut dyn FnMut(&mut u32)) {
        self.lanes.iter_mut().for_each(|lane| lane.rows(visit));
    }

    fn follow_rows(&mut self, new: &dyn Fn(u32) -> Option<u32>) {
        let mut visit = |row: &mut u32| *row = new(*row).unwrap_or(NO_ROW);
        self.lanes.iter_mut().for_each(|lane| lane.rows_of_windows(&mut visit));
    }

    fn for_each_value(&mut self, aggregate: usize, visit: &mut dyn FnMut(&mut i64)) {
        self.lanes[aggregate].values(visit);
    }

    fn follow_values(&mut self, aggregate: usize, new: &dyn Fn(i64) -> Option<i64>) {
        // A value that is not in any cell is not in any result either.
        let mut visit = |value: &mut i64| *value = new(*value).unwrap_or(*value);
        self.lanes[aggregate].values_of_windows(&mut visit);
    }

    fn cells(&self) -> usize {
        let partials: usize = self.open.iter().map(|open| open.keys.len() - 1).sum();
        partials + self.kept.iter().map(|kept| kept.keys.len()).sum::<usize>()
    }

    fn row_bytes(&self) -> usize {
        // A row with a new key also adds an entry to the suffix and one to the prefix.
        3 * self.cell_bytes()
    }

    fn bytes(&self) -> usize {
        let slots = self.open.iter().map(SourcePartials::bytes).sum::<usize>();
        (self.cells() + 2 * self.keys) * self.cell_bytes() + slots
    }

    fn save(&self) -> WindowsState {
        self.saved()
    }

    fn restore(&mut self, saved: WindowsState, bounds: &StateBounds) -> bool {
        self.is_sound(&saved, bounds) && self.go_on(saved)
    }
}

impl fmt::Debug for StreamingAggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamingAggregate").field("windows", &self.windows).finish_non_exhaustive()
    }
}

/// Returns whether there is at least one key and all keys are distinct.
fn are_distinct(keys: &[u32]) -> bool {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    !keys.is_empty() && sorted.is_sorted_by(|a, b| a < b)
}

//! The suffixes and prefixes of panes, as one function has them.

use std::ops::Range;

use bytemuck::{AnyBitPattern, NoUninit};
use tidegate_structures::memory;
use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::super::OutputColumn;
use super::super::functions::OutputValue;
use crate::driver::{Driver, Stopped};
use crate::interval::{PartnerTimes, Partners};
use crate::rows::NO_ROW;

/// The fewest places that are folded together: their values and states fit a second-level cache.
const CHUNK: usize = if cfg!(test) { 3 } else { 1 << 14 };

/// How many left rows ahead states are asked for: the states of neighbours lie far apart.
const AHEAD: usize = 16;

/// A function as panes have it: states that can be written down as they are.
pub(super) trait PaneFunction: Send + Sync + 'static {
    type Input: Copy;
    type State: AnyBitPattern + NoUninit + Send + Sync;
    type Output: OutputValue;

    /// The state of no rows.
    const EMPTY: Self::State;

    fn add(state: &mut Self::State, value: Self::Input);

    /// The state of the rows of both; the rows of `earlier` come first.
    fn combine(earlier: Self::State, later: Self::State) -> Self::State;

    /// The result of this number of partners, be they counted or not.
    fn finish(state: Self::State, partners: u64) -> Option<Self::Output>;
}

/// The partners of a left row as places of states. A place behind all places stands for no rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// The row that prevails before the interval.
    pub(super) before: u32,
    /// Where the suffix begins.
    pub(super) suffix: u32,
    /// Where the prefix ends.
    pub(super) prefix: u32,
    /// The number of partners.
    pub(super) partners: u32,
}

/// The partners of some left rows.
pub(in super::super) struct Runs<'a> {
    pub(super) ends: Vec<Ends>,
    pub(super) partners: &'a Partners,
    left: Range<usize>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(partners: &'a Partners, times: PartnerTimes<'_>, left: Range<usize>) -> Self {
        let (pane_starts, prevailing) = (partners.pane_starts(), partners.prevailing());
        let none = pane_starts.len() as u32;
        let runs = &partners.runs()[left.clone()];
        let mut panes = partners.pane_cursor(times);
        let mut ends = memory::vec(runs.len());
        ends.extend(left.clone().zip(runs).map(|(row, run)| {
            let before = prevailing.map_or(NO_ROW, |places| places[row]);
            let (mut suffix, mut prefix) = (none, none);
            if run.len() > 0 {
                let last = run.end - 1;
                let pane_start = pane_starts[last as usize];
                // A run in one pane has all rows from its start, or all to its end, or both.
                let is_prefix = pane_start == run.start
                    && (run.len() == 1 || panes.covers_start(row, run.start));
                (suffix, prefix) = match pane_start > run.start {
                    true => (run.start, last),
                    false if is_prefix => (none, last),
                    false => (run.start, none),
                };
            }
            let partners = run.len() as u32 + u32::from(before != NO_ROW);
            Ends { before: if before == NO_ROW { none } else { before }, suffix, prefix, partners }
        }));
        Runs { ends, partners, left }
    }

    /// The first and the last partner's place of each left row, if it has partners.
    pub(super) fn edges(&self) -> impl Iterator<Item = Option<(u32, u32)>> {
        let none = self.partners.pane_starts().len() as u32;
        let runs = &self.partners.runs()[self.left.clone()];
        self.ends.iter().zip(runs).map(move |(ends, run)| {
            let first = if ends.before == none { run.start } else { ends.before };
            let last = if run.len() == 0 { ends.before } else { run.end - 1 };
            (ends.partners > 0).then_some((first, last))
        })
    }
}

/// One function, whichever it is, of runs.
pub(in super::super) trait OfRuns: Send + Sync {
    fn of_runs(&self, runs: &Runs<'_>) -> OutputColumn;
}

/// A column of results.
pub(super) fn column<T: OutputValue>(
    rows: usize,
    results: impl Iterator<Item = Option<T>>,
) -> OutputColumn {
    let mut values = Pages::unwritten(rows);
    let mut missing = Vec::new();
    for ((at, out), value) in values.iter_mut().enumerate().zip(results) {
        if value.is_none() {
            missing.push(at);
        }
        out.set(value.unwrap_or_default());
    }
    OutputColumn { values: T::column(values.written()), missing }
}

/// The states of a function, each column with one more place, for no rows.
struct Panes<P: PaneFunction> {
    /// From the first place of a pane to each place.
    prefixes: Pages<P::State>,
    /// From each place to the last place of its pane.
    suffixes: Pages<P::State>,
    /// Of each place by itself, where rows prevail.
    alone: Option<Pages<P::State>>,
}

/// Folds the right rows at all places; `value` gives what the row at a place adds, if it counts.
pub(super) fn fold<P: PaneFunction>(
    partners: &Partners,
    value: impl Fn(usize) -> Option<P::Input> + Sync,
    driver: &Driver,
) -> Result<Box<dyn OfRuns>, Stopped> {
    let (pane_starts, rows) = (partners.pane_starts(), partners.rows());
    let count = pane_starts.len();
    let own = |place: usize| {
        let mut own = P::EMPTY;
        if let Some(value) = value(rows.map_or(place, |rows| rows[place] as usize)) {
            P::add(&mut own, value);
        }
        own
    };
    let (mut prefixes, mut suffixes) = (Pages::unwritten(count + 1), Pages::unwritten(count + 1));
    let (of_prefixes, none) = prefixes.split_at_mut(count);
    none[0].set(P::EMPTY);
    let (of_suffixes, none) = suffixes.split_at_mut(count);
    none[0].set(P::EMPTY);
    let mut rest = (of_prefixes, of_suffixes);
    let mut parts = Vec::new();
    for part in cut(pane_starts) {
        let prefixes = std::mem::take(&mut rest.0).split_at_mut(part.len());
        let suffixes = std::mem::take(&mut rest.1).split_at_mut(part.len());
        rest = (prefixes.1, suffixes.1);
        parts.push((part, prefixes.0, suffixes.0));
    }
    driver.map_with(parts, Vec::new, |alone: &mut Vec<P::State>, (part, prefixes, suffixes)| {
        alone.clear();
        memory::reserve(alone, part.len());
        alone.extend(part.clone().map(own));
        fold_part::<P>(part.start, &pane_starts[part], alone, prefixes, suffixes);
    })?;
    let alone = partners.prevailing().is_some().then(|| {
        let behind = |place: usize| if place < count { own(place) } else { P::EMPTY };
        Pages::collect((0..count + 1).map(behind))
    });
    let (prefixes, suffixes) = (prefixes.written(), suffixes.written());
    Ok(Box::new(Panes::<P> { prefixes, suffixes, alone }))
}

/// Folds the rows at places from `first` on, which begin with a pane and end with one. Whether a
/// pane begins at a place is no branch, for short panes cannot be foreseen.
fn fold_part<P: PaneFunction>(
    first: usize,
    pane_starts: &[u32],
    alone: &[P::State],
    prefixes: &mut [Slot<P::State>],
    suffixes: &mut [Slot<P::State>],
) {
    let count = alone.len();
    let (pane_starts, prefixes) = (&pane_starts[..count], &mut prefixes[..count]);
    let suffixes = &mut suffixes[..count];
    let begins = |at: usize| pane_starts[at] as usize == first + at;
    let mut state = P::EMPTY;
    for at in 0..count {
        state = P::combine(if begins(at) { P::EMPTY } else { state }, alone[at]);
        prefixes[at].set(state);
    }
    let mut is_last = true;
    for at in (0..count).rev() {
        state = P::combine(alone[at], if is_last { P::EMPTY } else { state });
        suffixes[at].set(state);
        is_last = begins(at);
    }
}

/// Cuts the places where panes begin.
fn cut(pane_starts: &[u32]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < pane_starts.len() {
        let is_border = |place: &usize| pane_starts[*place] as usize == *place;
        let end = (start + CHUNK..pane_starts.len()).find(is_border).unwrap_or(pane_starts.len());
        parts.push(start..end);
        start = end;
    }
    parts
}

impl<P: PaneFunction> OfRuns for Panes<P> {
    fn of_runs(&self, runs: &Runs<'_>) -> OutputColumn {
        let (prefixes, suffixes) = (&self.prefixes[..], &self.suffixes[..]);
        let ends = &runs.ends[..];
        let state = |at: usize| {
            if let Some(next) = ends.get(at + AHEAD) {
                prefetch(suffixes, next.suffix as usize);
                prefetch(prefixes, next.prefix as usize);
            }
            let Ends { suffix, prefix, .. } = ends[at];
            P::combine(suffixes[suffix as usize], prefixes[prefix as usize])
        };
        match &self.alone {
            None => column(
                ends.len(),
                (0..ends.len()).map(|at| P::finish(state(at), ends[at].partners.into())),
            ),
            Some(alone) => {
                let alone = &alone[..];
                let result = |at: usize| {
                    let before = alone[ends[at].before as usize];
                    P::finish(P::combine(before, state(at)), ends[at].partners.into())
                };
                column(ends.len(), (0..ends.len()).map(result))
            }
        }
    }
}

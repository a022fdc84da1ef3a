//! The suffixes and prefixes of panes, as one function has them.

use std::cmp::Ordering;
use std::ops::Range;

use bytemuck::{AnyBitPattern, NoUninit};
use tidegate_structures::memory::pages::{Pages, Slot};

use super::super::OutputColumn;
use super::super::functions::OutputValue;
use crate::driver::{Driver, Stopped};
use crate::interval::{PartnerTimes, Partners};
use crate::matches::Run;
use crate::rows::NO_ROW;

/// The fewest places that are folded together: their values and states fit a second-level cache.
const CHUNK: usize = if cfg!(test) { 3 } else { 1 << 15 };

/// A function as panes have it: states that can be written down as they are.
pub(super) trait PaneFunction: Send + Sync + 'static {
    type Input: Copy;
    type State: AnyBitPattern + NoUninit + Send + Sync;
    type Output: OutputValue;

    /// Whether states of the same rows depend on how they were combined.
    const IS_ORDERED: bool;

    /// The state of no rows.
    const EMPTY: Self::State;

    fn add(state: &mut Self::State, value: Self::Input);

    /// The state of the rows of both; the rows of `earlier` come first.
    fn combine(earlier: Self::State, later: Self::State) -> Self::State;

    /// The result of this number of partners, be they counted or not.
    fn finish(state: Self::State, partners: u64) -> Option<Self::Output>;
}

/// The runs of some left rows.
pub(in super::super) struct Runs<'a> {
    pub(super) left: Range<usize>,
    pub(super) times: PartnerTimes<'a>,
    pub(super) partners: &'a Partners,
}

impl Runs<'_> {
    /// The number of left rows.
    fn len(&self) -> usize {
        self.left.len()
    }

    /// Each left row, its run, and the place that prevails before it.
    fn iter(&self) -> impl Iterator<Item = (usize, Run, Option<u32>)> {
        let prevailing = self.partners.prevailing();
        let before =
            move |row: usize| prevailing.map(|places| places[row]).filter(|&at| at != NO_ROW);
        let runs = &self.partners.runs()[self.left.clone()];
        self.left.clone().zip(runs).map(move |(row, &run)| (row, run, before(row)))
    }
}

/// One function, whichever it is, of runs.
pub(in super::super) trait OfRuns: Send + Sync {
    fn of_runs(&self, runs: &Runs<'_>) -> OutputColumn;
}

/// A column with what `result` makes of each run.
pub(super) fn of_each<T: OutputValue>(
    runs: &Runs<'_>,
    result: impl Fn(usize, Run, Option<u32>) -> Option<T>,
) -> OutputColumn {
    let mut values = Pages::unwritten(runs.len());
    let mut missing = Vec::new();
    for (at, ((row, run, before), out)) in runs.iter().zip(values.iter_mut()).enumerate() {
        let value = result(row, run, before);
        missing.extend(value.is_none().then_some(at));
        out.set(value.unwrap_or_default());
    }
    OutputColumn { values: T::column(values.written()), missing }
}

/// The states of a function.
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
    let (mut prefixes, mut suffixes) = (Pages::unwritten(count), Pages::unwritten(count));
    let mut rest = (&mut prefixes[..], &mut suffixes[..]);
    let mut parts = Vec::new();
    for part in cut(pane_starts) {
        let prefixes = std::mem::take(&mut rest.0).split_at_mut(part.len());
        let suffixes = std::mem::take(&mut rest.1).split_at_mut(part.len());
        rest = (prefixes.1, suffixes.1);
        parts.push((part, prefixes.0, suffixes.0));
    }
    let at = |place: usize| value(rows.map_or(place, |rows| rows[place] as usize));
    driver.map(
        parts,
        |(part, prefixes, suffixes): (
            Range<usize>,
            &mut [Slot<P::State>],
            &mut [Slot<P::State>],
        )| {
            let mut state = P::EMPTY;
            for (place, slot) in part.clone().zip(prefixes) {
                if pane_starts[place] as usize == place {
                    state = P::EMPTY;
                }
                if let Some(value) = at(place) {
                    P::add(&mut state, value);
                }
                slot.set(state);
            }
            let mut state = P::EMPTY;
            for (place, slot) in part.zip(suffixes).rev() {
                if let Some(value) = at(place) {
                    let mut own = P::EMPTY;
                    P::add(&mut own, value);
                    state = P::combine(own, state);
                }
                slot.set(state);
                if pane_starts[place] as usize == place {
                    state = P::EMPTY;
                }
            }
        },
    )?;
    let alone = partners.prevailing().is_some().then(|| {
        Pages::collect((0..count).map(|place| {
            let mut own = P::EMPTY;
            if let Some(value) = at(place) {
                P::add(&mut own, value);
            }
            own
        }))
    });
    let (prefixes, suffixes) = (prefixes.written(), suffixes.written());
    Ok(Box::new(Panes::<P> { prefixes, suffixes, alone }))
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
        let pane_starts = runs.partners.pane_starts();
        of_each(runs, |row, run, before| {
            let mut state = P::EMPTY;
            if run.len() > 0 {
                let (first, last) = (run.start as usize, run.end as usize - 1);
                let (suffix, prefix) = (self.suffixes[first], self.prefixes[last]);
                // A run is a suffix and the prefix of the next pane, or in one pane.
                state = match pane_starts[last].cmp(&run.start) {
                    Ordering::Greater => P::combine(suffix, prefix),
                    Ordering::Less => suffix,
                    // It has all rows from the start of the pane, or all to its end, or both.
                    Ordering::Equal if P::IS_ORDERED && run.len() > 1 => {
                        match runs.partners.covers_pane_start(row, runs.times) {
                            true => prefix,
                            false => suffix,
                        }
                    }
                    Ordering::Equal => prefix,
                };
            }
            if let (Some(alone), Some(place)) = (&self.alone, before) {
                state = P::combine(alone[place as usize], state);
            }
            P::finish(state, run.len() as u64 + u64::from(before.is_some()))
        })
    }
}

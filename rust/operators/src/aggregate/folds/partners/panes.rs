//! The suffixes and prefixes of panes, as stored for one function.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};
use tidegate_structures::memory;
use tidegate_structures::memory::gather::prefetch;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::blocks::{OfBlocks, PartnerBlock, PartnerResults, ResultColumn};
use super::runs::{AHEAD, RunEnds, states};
use crate::aggregate::inputs::values::Memory;
use crate::aggregate::output::{OutputColumn, OutputValue};
use crate::driver::{Driver, Stopped};
use crate::interval::{self, PartnerColumns, Partners};

/// The minimum number of right rows that are folded together. This many rows' values and states fit
/// in a second-level cache.
const PART_ROWS: usize = if cfg!(test) { 3 } else { 1 << 14 };

/// A function in the form that is used for panes. The function's states can be stored unchanged.
pub(super) trait PaneFunction: Send + Sync + 'static {
    type Input: Copy;
    type State: AnyBitPattern + NoUninit + Send + Sync;
    type Output: OutputValue;

    /// The state before any row is added.
    const EMPTY: Self::State;

    fn add(state: &mut Self::State, value: Self::Input);

    /// Returns the combined state of both groups of rows. The rows of `earlier` precede those of
    /// `later`.
    fn combine(earlier: Self::State, later: Self::State) -> Self::State;

    /// Returns the result. `partners` is the number of all partners, including those that the
    /// function excludes.
    fn finish(state: Self::State, partners: u64) -> Option<Self::Output>;
}

/// The states of a function. Each column has an additional entry for an empty set of rows.
struct PaneStates<S> {
    /// For each row, the combined state of the rows from the pane's start through this row.
    prefixes: Pages<S>,
    /// For each row, the combined state of the rows from this row through the pane's end.
    suffixes: Pages<S>,
    /// Each row's own state, if rows can prevail.
    alone: Option<Pages<S>>,
}

/// A function and its states.
struct FunctionPanes<P: PaneFunction> {
    panes: Arc<PaneStates<P::State>>,
    function: PhantomData<P>,
}

/// The right rows that functions fold, and the states computed so far.
pub(in crate::aggregate) struct PaneFold<'a> {
    partners: &'a Partners,
    columns: PartnerColumns<'a>,
    driver: &'a Driver,
    /// The computed states and row values. Functions with the same key share an entry.
    states: HashMap<(TypeId, TypeId, Memory), Arc<dyn Any + Send + Sync>>,
}

impl<'a> PaneFold<'a> {
    pub(in crate::aggregate) fn new(
        partners: &'a Partners,
        columns: PartnerColumns<'a>,
        driver: &'a Driver,
    ) -> Self {
        PaneFold { partners, columns, driver, states: HashMap::new() }
    }

    /// Folds the right rows. `value` returns the value that a row adds, or `None` if the row is
    /// excluded. Functions in the same family share states if they use the same `memory`, so the
    /// states are computed only once.
    pub(super) fn fold<P: PaneFunction, Family: 'static>(
        &mut self,
        memory: Option<Memory>,
        value: impl Fn(usize) -> Option<P::Input> + Sync,
    ) -> Result<Box<dyn OfBlocks>, Stopped> {
        let id = memory.map(|memory| (TypeId::of::<Family>(), TypeId::of::<P::State>(), memory));
        let known = id.and_then(|id| self.states.get(&id)).cloned();
        let panes = match known.and_then(|states| states.downcast::<PaneStates<P::State>>().ok()) {
            Some(panes) => panes,
            None => {
                let panes = Arc::new(self.panes::<P>(value)?);
                if let Some(id) = id {
                    self.states.insert(id, panes.clone());
                }
                panes
            }
        };
        Ok(Box::new(FunctionPanes::<P> { panes, function: PhantomData }))
    }

    fn panes<P: PaneFunction>(
        &self,
        value: impl Fn(usize) -> Option<P::Input> + Sync,
    ) -> Result<PaneStates<P::State>, Stopped> {
        let own = |row: usize| {
            let mut own = P::EMPTY;
            if let Some(value) = value(row) {
                P::add(&mut own, value);
            }
            own
        };
        let count = states(self.partners);
        let mut prefixes = Pages::unwritten(count + 1);
        let mut suffixes = Pages::unwritten(count + 1);
        let (of_prefixes, none) = prefixes.split_at_mut(count);
        none[0].set(P::EMPTY);
        let (of_suffixes, none) = suffixes.split_at_mut(count);
        none[0].set(P::EMPTY);
        match self.partners.panes() {
            interval::Panes::OfPlaces(starts) => {
                let rows = self.partners.rows();
                let own = |place| own(rows.map_or(place, |rows| rows[place] as usize));
                fold_places::<P>(starts, own, of_prefixes, of_suffixes, self.driver)?;
            }
            interval::Panes::OfRows(borders) => {
                let keys = self.columns.right.keys.expect("rows that are folded by key have keys");
                let rows = RowsOfPanes { borders, keys, key_count: self.columns.key_count };
                rows.fold::<P>(own, of_prefixes, of_suffixes, self.driver)?;
            }
        }
        let rows = match self.partners.panes() {
            interval::Panes::OfPlaces(_) => self.partners.rows(),
            interval::Panes::OfRows(_) => None,
        };
        let alone = self.partners.prevailing().is_some().then(|| {
            let row_at = |at: usize| rows.map_or(at, |rows| rows[at] as usize);
            let state = |at| if at < count { own(row_at(at)) } else { P::EMPTY };
            Pages::collect((0..count + 1).map(state))
        });
        Ok(PaneStates { prefixes: prefixes.written(), suffixes: suffixes.written(), alone })
    }
}

/// Folds rows key by key. `own` returns the state of a single row, given its position.
fn fold_places<P: PaneFunction>(
    pane_starts: &[u32],
    own: impl Fn(usize) -> P::State + Sync,
    mut prefixes: &mut [Slot<P::State>],
    mut suffixes: &mut [Slot<P::State>],
    driver: &Driver,
) -> Result<(), Stopped> {
    let mut parts = Vec::new();
    for part in cut(pane_starts) {
        let of_prefixes =
            prefixes.split_off_mut(..part.len()).expect("there is one state per position");
        let of_suffixes =
            suffixes.split_off_mut(..part.len()).expect("there is one state per position");
        parts.push((part, of_prefixes, of_suffixes));
    }
    driver.map_with(parts, Vec::new, |alone: &mut Vec<P::State>, (part, prefixes, suffixes)| {
        alone.clear();
        memory::reserve(alone, part.len());
        alone.extend(part.clone().map(&own));
        fold_part::<P>(part.start, &pane_starts[part], alone, prefixes, suffixes);
    })?;
    Ok(())
}

/// Right rows in time order, with the pane that contains each row.
struct RowsOfPanes<'a> {
    /// The first row in each pane, and finally the number of rows.
    borders: &'a [u32],
    keys: &'a [u32],
    key_count: usize,
}

impl RowsOfPanes<'_> {
    /// Folds rows in storage order, into one state per key. `own` returns the state of a single
    /// row. Each part of the panes is processed by two tasks, one per direction.
    fn fold<P: PaneFunction>(
        &self,
        own: impl Fn(usize) -> P::State + Sync,
        mut prefixes: &mut [Slot<P::State>],
        mut suffixes: &mut [Slot<P::State>],
        driver: &Driver,
    ) -> Result<(), Stopped> {
        let mut tasks = Vec::new();
        let mut first = 0;
        while first + 1 < self.borders.len() {
            let enough = self.borders[first] as usize + PART_ROWS;
            let rest = &self.borders[first + 1..self.borders.len() - 1];
            let panes =
                first..first + 1 + rest.partition_point(|&border| (border as usize) < enough);
            let rows = (self.borders[panes.end] - self.borders[panes.start]) as usize;
            let of_prefixes = prefixes.split_off_mut(..rows).expect("a state a row");
            let of_suffixes = suffixes.split_off_mut(..rows).expect("a state a row");
            tasks.push((true, panes.clone(), of_prefixes));
            first = panes.end;
            tasks.push((false, panes, of_suffixes));
        }
        let states = || memory::filled(self.key_count + 1, P::EMPTY);
        driver.map_with(tasks, states, |states, (is_forward, panes, slots)| {
            let from = self.borders[panes.start] as usize;
            for pane in self.borders[panes.start..=panes.end].windows(2) {
                let rows = pane[0] as usize..pane[1] as usize;
                let slots = &mut slots[rows.start - from..rows.end - from];
                self.reset::<P>(&rows, states);
                match is_forward {
                    true => self.fold_forward::<P>(rows, &own, states, slots),
                    false => self.fold_backward::<P>(rows, &own, states, slots),
                }
            }
        })?;
        Ok(())
    }

    /// Returns the state of a row's key. Rows without a key share one state that is never read.
    #[inline]
    fn state<S>(key: u32, states: &mut [S]) -> &mut S {
        let without_key = states.len() - 1;
        &mut states[(key as usize).min(without_key)]
    }

    /// Resets the states of all keys that occur in these rows.
    fn reset<P: PaneFunction>(&self, rows: &Range<usize>, states: &mut [P::State]) {
        if rows.len() >= states.len() {
            states.fill(P::EMPTY);
            return;
        }
        self.keys[rows.clone()].iter().for_each(|&key| *Self::state(key, states) = P::EMPTY);
    }

    fn fold_forward<P: PaneFunction>(
        &self,
        rows: Range<usize>,
        own: &impl Fn(usize) -> P::State,
        states: &mut [P::State],
        prefixes: &mut [Slot<P::State>],
    ) {
        let keys = &self.keys[rows.clone()];
        for ((row, &key), prefix) in rows.zip(keys).zip(prefixes) {
            let state = Self::state(key, states);
            *state = P::combine(*state, own(row));
            prefix.set(*state);
        }
    }

    fn fold_backward<P: PaneFunction>(
        &self,
        rows: Range<usize>,
        own: &impl Fn(usize) -> P::State,
        states: &mut [P::State],
        suffixes: &mut [Slot<P::State>],
    ) {
        let keys = &self.keys[rows.clone()];
        for ((row, &key), suffix) in rows.zip(keys).zip(suffixes).rev() {
            let state = Self::state(key, states);
            *state = P::combine(own(row), *state);
            suffix.set(*state);
        }
    }
}

/// Folds rows, starting at position `first`. The rows must form whole panes. The loop does not
/// branch on whether a pane begins at a position. Such a branch is unpredictable if panes are
/// short.
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

/// Divides the positions at which panes begin into parts.
fn cut(pane_starts: &[u32]) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < pane_starts.len() {
        let is_border = |place: &usize| pane_starts[*place] as usize == *place;
        let end =
            (start + PART_ROWS..pane_starts.len()).find(is_border).unwrap_or(pane_starts.len());
        parts.push(start..end);
        start = end;
    }
    parts
}

impl<P: PaneFunction> OfBlocks for FunctionPanes<P> {
    fn results(&self, rows: usize) -> Box<dyn PartnerResults + '_> {
        Box::new(ResultColumn::<Self, P::Output>::new(self, rows))
    }
}

impl<P: PaneFunction> PartnerResults for ResultColumn<'_, FunctionPanes<P>, P::Output> {
    fn add(&mut self, block: &PartnerBlock<'_>) {
        let panes = &self.function.panes;
        let (prefixes, suffixes) = (&panes.prefixes[..], &panes.suffixes[..]);
        let ends = &block.runs().ends[..];
        let state = |at: usize| {
            if let Some(next) = ends.get(at + AHEAD) {
                prefetch(suffixes, next.suffix as usize);
                prefetch(prefixes, next.prefix as usize);
            }
            let RunEnds { suffix, prefix, .. } = ends[at];
            P::combine(suffixes[suffix as usize], prefixes[prefix as usize])
        };
        match &panes.alone {
            None => self
                .extend((0..ends.len()).map(|at| P::finish(state(at), ends[at].partners.into()))),
            Some(alone) => {
                let alone = &alone[..];
                self.extend((0..ends.len()).map(|at| {
                    let before = alone[ends[at].before as usize];
                    P::finish(P::combine(before, state(at)), ends[at].partners.into())
                }));
            }
        }
    }

    fn finish(self: Box<Self>) -> OutputColumn {
        ResultColumn::finish(*self)
    }
}

//! The watermarks of all sources in an operator. This module also determines the initial watermark
//! of a source that is added or resumes while the other sources are running.
//!
//! The operator's watermark is the smallest watermark of all sources that are not idle. If all open
//! sources are idle, the operator's watermark is the largest of their watermarks. The operator's
//! watermark never decreases: a source that is added, or that resumes, starts at this watermark or
//! later. Such a source's rows are treated as if the source had existed from the beginning and had
//! promised this watermark.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_operators::rows::Side;
use tidegate_structures::gate::Rank;

use super::sides::tier;

/// A time, and the rank of a source. All rows up to and including that source's rows at that time
/// may have left the gate.
type RankedTime = (i64, Rank);

/// The watermarks. All clones belong to the same operator.
#[derive(Clone, Debug)]
pub(crate) struct Watermarks(Arc<Mutex<SourceWatermarks>>);

/// The watermarks of all sources, and the time that each scope has reached.
#[derive(Debug)]
struct SourceWatermarks {
    sources: Vec<One>,
    /// The open sources in each scope, sorted by watermark: `active` contains the active ones, and
    /// `idle` the idle ones.
    active: [BTreeSet<RankedTime>; 3],
    idle: [BTreeSet<RankedTime>; 3],
    /// The times that all sources, the left sources and the right sources have reached. These times
    /// are exact only while a source is idle.
    reached: [RankedTime; 3],
}

#[derive(Clone, Copy, Debug)]
struct One {
    watermark: i64,
    state: WatermarkState,
    side: Option<Side>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatermarkState {
    Active,
    Idle,
    Closed,
}

/// A subset of the sources.
#[derive(Clone, Copy, Debug)]
enum Scope {
    All,
    Of(Side),
}

impl Scope {
    const ALL: [Scope; 3] = [Scope::All, Scope::Of(Side::Left), Scope::Of(Side::Right)];

    /// Returns the scopes that include a source on this side.
    fn of(side: Option<Side>) -> impl Iterator<Item = Scope> {
        [Some(Scope::All), side.map(Scope::Of)].into_iter().flatten()
    }
}

impl Watermarks {
    /// Creates the watermarks for sources on these sides. No source has promised anything yet.
    pub(crate) fn new(sides: impl Iterator<Item = Option<Side>>) -> Self {
        let mut all = SourceWatermarks {
            sources: Vec::new(),
            active: Default::default(),
            idle: Default::default(),
            // No source has promised anything yet.
            reached: [(i64::MIN, Rank::from(0)); 3],
        };
        sides.for_each(|side| all.add(side, i64::MIN));
        Watermarks(Arc::new(Mutex::new(all)))
    }

    /// Records a source's promise.
    pub(crate) fn rise(&self, source: u16, watermark: i64) {
        let mut all = self.0.lock();
        let one = all.sources[usize::from(source)];
        if watermark > one.watermark {
            all.put(source, One { watermark, ..one });
        }
        if one.state == WatermarkState::Idle {
            all.settle();
        }
    }

    /// Allows the other sources to proceed without this one.
    pub(crate) fn idle(&self, source: u16) {
        self.0.lock().change(source, WatermarkState::Idle);
    }

    /// Makes an idle source active again.
    pub(crate) fn resume(&self, source: u16) -> Resumption {
        let mut all = self.0.lock();
        all.settle();
        let floor = all.floor(source);
        let own = all.sources[usize::from(source)].watermark;
        all.move_to(source, floor);
        all.change(source, WatermarkState::Active);
        Resumption { floor, own }
    }

    /// Makes a resumed source idle again because no rows were pushed into it.
    pub(crate) fn take_back(&self, source: u16, resumed: Resumption) {
        let mut all = self.0.lock();
        all.move_to(source, resumed.own);
        all.change(source, WatermarkState::Idle);
    }

    /// Records that a source has ended.
    pub(crate) fn close(&self, source: u16) {
        self.0.lock().change(source, WatermarkState::Closed);
    }

    /// Adds a source at watermark `since`, or at the lowest possible watermark. If `since` is
    /// too low, the error contains the lowest possible watermark.
    pub(crate) fn add(&self, side: Option<Side>, since: Option<i64>) -> Result<i64, i64> {
        let mut all = self.0.lock();
        all.settle();
        let floor = all.floor_of_next(side);
        let since = since.unwrap_or(floor);
        if since < floor {
            return Err(floor);
        }
        all.add(side, since);
        Ok(since)
    }

    /// Returns the open source whose future rows sort first. The source can be idle. Returns `None`
    /// if all sources are closed.
    pub(crate) fn slowest(&self) -> Option<u16> {
        let mut all = self.0.lock();
        all.settle();
        all.slowest().map(|(_, slowest)| slowest.number())
    }

    /// Returns whether the operator's watermark is waiting for this source. The watermark waits for
    /// the slowest active source. If all open sources are idle, the watermark waits for each of
    /// them.
    pub(crate) fn wait_for(&self, source: u16) -> bool {
        let all = self.0.lock();
        let is_idle = all.sources[usize::from(source)].state == WatermarkState::Idle;
        let is_one_active = !all.active[Scope::All.number()].is_empty();
        match is_idle {
            true => !is_one_active,
            false => {
                all.standing(Scope::All).is_some_and(|(_, slowest)| slowest.number() == source)
            }
        }
    }

    /// Returns whether a source on this side is open.
    pub(crate) fn is_open(&self, side: Option<Side>) -> bool {
        let all = self.0.lock();
        let scope = side.map_or(Scope::All, Scope::Of).number();
        !all.active[scope].is_empty() || !all.idle[scope].is_empty()
    }

    /// Returns the idle sources, each with the time that the other sources have reached in the
    /// meantime.
    pub(crate) fn idle_sources(&self) -> Vec<(u16, i64)> {
        let mut all = self.0.lock();
        let scope = Scope::All.number();
        if all.idle[scope].is_empty() {
            return Vec::new();
        }
        all.settle();
        let mut numbers: Vec<u16> = all.idle[scope].iter().map(|(_, rank)| rank.number()).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| (number, all.floor(number))).collect()
    }

    /// Returns the watermark that an idle source itself has promised, or `None` if the source is
    /// not idle.
    pub(crate) fn own_of_idle(&self, source: u16) -> Option<i64> {
        let one = self.0.lock().sources[usize::from(source)];
        (one.state == WatermarkState::Idle).then_some(one.watermark)
    }

    /// Returns the times that all sources, the left sources and the right sources have reached.
    /// Each time is paired with a source number.
    pub(crate) fn reached(&self) -> [(i64, u16); 3] {
        let mut all = self.0.lock();
        all.settle();
        all.reached.map(|(ts, last)| (ts, last.number()))
    }

    /// Continues from the times that [`reached`](Self::reached) returned. Sources with these
    /// numbers must exist.
    pub(crate) fn restore(&self, reached: [(i64, u16); 3]) {
        let mut all = self.0.lock();
        all.reached = reached.map(|(ts, last)| (ts, all.rank(last)));
    }
}

/// The result of resuming an idle source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resumption {
    /// The lowest watermark that the source can have from now on.
    pub(crate) floor: i64,
    /// The watermark that the source itself has promised.
    own: i64,
}

impl SourceWatermarks {
    /// Returns the rank that orders a source's rows among other rows with the same time.
    fn rank(&self, source: u16) -> Rank {
        Rank::new(tier(self.sources[usize::from(source)].side), source)
    }

    fn change(&mut self, source: u16, state: WatermarkState) {
        // If no source is idle, the reached times are not needed.
        let matters = state == WatermarkState::Idle || !self.idle[Scope::All.number()].is_empty();
        if matters {
            self.settle();
        }
        self.put(source, One { state, ..self.sources[usize::from(source)] });
        if matters {
            self.settle();
        }
    }

    /// Adds a source that has promised this watermark.
    fn add(&mut self, side: Option<Side>, watermark: i64) {
        let number = self.sources.len() as u16;
        self.sources.push(One { watermark, state: WatermarkState::Closed, side });
        self.put(number, One { watermark, state: WatermarkState::Active, side });
    }

    fn move_to(&mut self, source: u16, watermark: i64) {
        self.put(source, One { watermark, ..self.sources[usize::from(source)] });
    }

    /// Replaces the watermark and the state of a source.
    fn put(&mut self, source: u16, now: One) {
        let before = std::mem::replace(&mut self.sources[usize::from(source)], now);
        let rank = self.rank(source);
        for scope in Scope::of(now.side) {
            if let Some(open) = self.open(before.state, scope) {
                open.remove(&(before.watermark, rank));
            }
            if let Some(open) = self.open(now.state, scope) {
                open.insert((now.watermark, rank));
            }
        }
    }

    fn open(&mut self, state: WatermarkState, scope: Scope) -> Option<&mut BTreeSet<RankedTime>> {
        match state {
            WatermarkState::Active => Some(&mut self.active[scope.number()]),
            WatermarkState::Idle => Some(&mut self.idle[scope.number()]),
            WatermarkState::Closed => None,
        }
    }

    /// Updates the times that the sources have reached.
    fn settle(&mut self) {
        for scope in Scope::ALL {
            if let Some(standing) = self.standing(scope) {
                let reached = &mut self.reached[scope.number()];
                *reached = standing.max(*reached);
            }
        }
    }

    /// Returns the slowest active source's watermark, or the fastest source's watermark if all
    /// sources are idle.
    fn standing(&self, scope: Scope) -> Option<RankedTime> {
        let (active, idle) = (&self.active[scope.number()], &self.idle[scope.number()]);
        active.first().or_else(|| idle.last()).copied()
    }

    /// Returns the open source whose future rows sort first. Also returns the earliest time of
    /// those rows. For an idle source, this is the earliest possible time of a row after the source
    /// resumes.
    fn slowest(&self) -> Option<RankedTime> {
        let scope = Scope::All.number();
        let active = self.active[scope].first().copied();
        let idle = self.idle[scope].iter().map(|&(_, rank)| (self.floor(rank.number()), rank));
        active.into_iter().chain(idle).min()
    }

    /// Returns the lowest watermark at which an idle source can currently resume.
    fn floor(&self, source: u16) -> i64 {
        let One { watermark, side, .. } = self.sources[usize::from(source)];
        let (ts, last) = self.reached[Scope::All.number()];
        // As long as nothing has been promised, all sources still wait for this one.
        let of_all = if ts == i64::MIN { ts } else { least_time(self.rank(source), ts, last) };
        watermark.max(of_all).max(self.floor_of_side(side))
    }

    /// Returns the lowest watermark at which a new source can currently start. All rows from the
    /// new source must sort after the slowest source's promise.
    fn floor_of_next(&self, side: Option<Side>) -> i64 {
        let rank = Rank::new(tier(side), self.sources.len() as u16);
        let (ts, last) = self.slowest().unwrap_or(self.reached[Scope::All.number()]);
        least_time(rank, ts, last).max(self.floor_of_side(side))
    }

    fn floor_of_side(&self, side: Option<Side>) -> i64 {
        side.map_or(i64::MIN, |side| self.reached[Scope::Of(side).number()].0)
    }
}

/// Returns the earliest time at which rows of this rank sort after rows of rank `last` whose time
/// is `ts`.
fn least_time(rank: Rank, ts: i64, last: Rank) -> i64 {
    if rank < last { ts.saturating_add(1) } else { ts }
}

impl Scope {
    fn number(self) -> usize {
        match self {
            Scope::All => 0,
            Scope::Of(side) => 1 + side as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sources: usize) -> Watermarks {
        Watermarks::new((0..sources).map(|_| None))
    }

    #[test]
    fn an_idle_source_is_left_behind_and_goes_on_where_the_others_are() {
        let all = of(2);
        all.rise(0, 5);
        all.rise(1, 10);
        assert_eq!((all.slowest(), all.idle_sources()), (Some(0), vec![]));
        all.idle(0);
        // Rows of source 1 at 10 sort after rows of source 0 at 10, and may have arrived.
        assert_eq!((all.slowest(), all.idle_sources()), (Some(1), vec![(0, 11)]));
        all.rise(1, 20);
        assert_eq!(all.own_of_idle(0), Some(5));
        let resumed = all.resume(0);
        assert_eq!(resumed.floor, 21);
        all.take_back(0, resumed);
        assert_eq!((all.own_of_idle(0), all.idle_sources()), (Some(5), vec![(0, 21)]));
        assert_eq!(all.resume(0).floor, 21);
        assert_eq!((all.slowest(), all.own_of_idle(0)), (Some(1), None));
    }

    #[test]
    fn the_watermark_stands_where_all_are_idle_and_never_falls() {
        let all = of(3);
        all.rise(0, 5);
        all.rise(1, 10);
        all.rise(2, 7);
        all.idle(0);
        all.idle(2);
        // Source 1 ends at 10; the idle sources have promised less.
        all.close(1);
        assert_eq!(all.idle_sources(), [(0, 11), (2, 10)]);
        all.rise(2, 12);
        assert_eq!(all.idle_sources(), [(0, 13), (2, 12)]);
        // The result is the same for repeated calls.
        assert_eq!(all.idle_sources(), [(0, 13), (2, 12)]);
        assert_eq!(all.add(None, Some(11)), Err(12));
        assert_eq!(all.add(None, None), Ok(12));
        all.close(0);
        all.close(2);
        all.close(3);
        assert!(!all.is_open(None) && all.slowest().is_none());
    }

    #[test]
    fn all_wait_for_the_slowest_source_that_is_not_idle() {
        let waited_for = |all: &Watermarks| (0..3).map(|source| all.wait_for(source)).collect();
        let all = of(3);
        all.rise(0, 5);
        all.rise(1, 10);
        all.rise(2, 10);
        let seen: Vec<bool> = waited_for(&all);
        assert_eq!(seen, [true, false, false]);
        all.idle(0);
        // If two sources have reached the same time, the rows of the first one sort first.
        let seen: Vec<bool> = waited_for(&all);
        assert_eq!(seen, [false, true, false]);
        all.idle(1);
        all.close(2);
        // Each of the idle sources can resume.
        let seen: Vec<bool> = waited_for(&all);
        assert_eq!(seen, [true, true, false]);
    }

    #[test]
    fn a_source_begins_where_idle_ones_would_go_on() {
        let all = of(2);
        all.rise(0, 5);
        all.rise(1, 10);
        all.idle(0);
        all.close(1);
        assert_eq!((all.slowest(), all.idle_sources()), (Some(0), vec![(0, 11)]));
        assert_eq!((all.add(None, Some(10)), all.add(None, None)), (Err(11), Ok(11)));
    }

    #[test]
    fn a_left_source_begins_after_right_rows_that_may_have_come() {
        let all = Watermarks::new([Some(Side::Left), Some(Side::Right)].into_iter());
        all.idle(0);
        // All sources wait for the idle source, which has promised nothing.
        assert_eq!((all.slowest(), all.add(Some(Side::Left), None)), (Some(0), Ok(i64::MIN)));
        all.idle(2);
        all.rise(1, 10);
        assert_eq!(all.add(Some(Side::Left), Some(10)), Err(11));
        assert_eq!(all.add(Some(Side::Right), None), Ok(10));
        assert_eq!(all.add(Some(Side::Left), None), Ok(11));
        // Left sources resume after the right rows at 20, which may have been emitted already.
        all.idle(4);
        all.rise(1, 20);
        all.rise(3, 20);
        assert_eq!(all.idle_sources(), [(0, 21), (2, 21), (4, 21)]);
    }

    #[test]
    fn a_source_of_a_side_counts_from_the_watermark_of_its_side() {
        let all = Watermarks::new([Some(Side::Left), Some(Side::Right)].into_iter());
        all.rise(0, 100);
        all.rise(1, 5);
        assert_eq!(all.add(Some(Side::Right), None), Ok(5));
        assert_eq!(all.add(Some(Side::Left), None), Ok(100));
        all.idle(0);
        all.idle(3);
        all.rise(1, 300);
        all.rise(2, 200);
        // The whole side is idle, and the other side has advanced.
        assert_eq!(all.resume(0).floor, 201);
    }
}

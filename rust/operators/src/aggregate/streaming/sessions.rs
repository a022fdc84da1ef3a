//! Session windows over rows that arrive epoch by epoch.
//!
//! [`MergedRows`] provides an epoch's rows in merged order. The rows are assigned to their keys'
//! sessions in that order. Each function then adds the rows to the states of their sessions. Once
//! no row can extend a session, the session is complete and its result is computed. Results are
//! sorted by the end of the session and then by key. Results are not sorted by start, because a
//! session that begins early may never end.
//!
//! If the gap is fixed, a snapshot contains the time of each session's last row. Otherwise, it
//! contains the end of each session.
//!
//! # Trade-offs
//!
//! Every open session has one state per function. A single thread assigns all rows to sessions,
//! whereas the functions are divided among threads. Detecting the end of a session takes O(log
//! sessions) for every gap length that the session lasts.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::fmt;

use super::position::ranks;
use super::saved::{WindowsState, are_states, saved_words};
use super::windows::{KeyOrder, StreamingWindows};
use crate::aggregate::catalog::aggregate::{Aggregate, kind};
use crate::aggregate::folds::epochs::lane::{Lane, Task};
use crate::aggregate::inputs::columns::{Stream, first_rows};
use crate::aggregate::inputs::places::MergedRows;
use crate::aggregate::output::{Page, Window};
use crate::aggregate::sessions::{PAGE_ROWS, SessionGaps};
use crate::aggregate::states::words::StateBounds;
use crate::driver::{Driver, Stopped};

/// The session number of a key without an open session.
const NONE: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Session {
    start: i64,
    /// The end, unless further rows arrive.
    end: i64,
    key: u32,
    /// The number of sessions that began before this one.
    number: u64,
    /// `true` if the result of the session has not been computed yet.
    is_kept: bool,
}

/// Session windows over rows that arrive epoch by epoch. A session stays open while its key
/// receives rows.
///
/// ```
/// use tidegate_operators::aggregate::{
///     Aggregate, KeyOrder, Stream, StreamingSessions, StreamingWindows,
/// };
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_sync::Stop;
///
/// let driver = Driver::new(1, Stop::default());
/// let count = [Aggregate::Count(vec![None])];
/// let mut sessions = StreamingSessions::new(Some(5), &count);
/// let order = KeyOrder { keys: &[0], ranks: &[0] };
/// sessions.add(&[Stream { ts: &[0, 3], keys: None }], 1, &[0], &count, &driver)?;
/// // A row at 7 would extend the session; one at 8 would not.
/// sessions.advance(7, &driver)?;
/// assert!(sessions.pages(1, order, &driver)?.is_empty());
/// sessions.advance(8, &driver)?;
/// let pages = sessions.pages(1, order, &driver)?;
/// assert_eq!((pages[0].windows[0].start, pages[0].windows[0].end), (0, 8));
/// # Ok::<(), Stopped>(())
/// ```
pub struct StreamingSessions {
    /// The gap of all rows, or `None` if each row has its own gap.
    gap: Option<i64>,
    /// The gaps of the rows that are added next, source by source, unless the gap is fixed.
    gaps: Vec<i64>,
    lanes: Vec<Box<dyn Lane>>,
    /// The sessions, indexed by the numbers that lanes use for the partials of the only source. The
    /// first entry is a placeholder.
    sessions: Vec<Session>,
    free: Vec<u32>,
    begun: u64,
    /// Each key's last session, if that session is open.
    of_key: Vec<u32>,
    /// The open sessions, ordered by their recorded ends. The actual ends can be later.
    ends: BinaryHeap<Reverse<(i64, u32)>>,
    /// Completed sessions whose results have not yet been computed, with their ends.
    over: Vec<(i64, u32)>,
    /// The session of each row in the epoch.
    session_of: Vec<u32>,
}

impl StreamingSessions {
    /// Creates sessions that end `gap` after their last row. If `gap` is `None`, each row has its
    /// own gap, which [`set_gaps`](StreamingWindows::set_gaps) provides. Only the functions in
    /// `aggregates` are used, not their columns.
    pub fn new(gap: Option<i64>, aggregates: &[Aggregate<'_>]) -> Self {
        assert!(gap.is_none_or(|gap| gap > 0), "the gap of a session must be positive");
        StreamingSessions {
            gap,
            gaps: Vec::new(),
            lanes: aggregates.iter().map(|aggregate| kind(aggregate, &[], &[]).lane(1)).collect(),
            sessions: vec![Session::default()],
            free: Vec::new(),
            begun: 0,
            of_key: Vec::new(),
            ends: BinaryHeap::new(),
            over: Vec::new(),
            session_of: Vec::new(),
        }
    }

    /// Assigns rows, which must be in merged order, to sessions. `ends` contains the time until
    /// which each row keeps its session open.
    fn find(&mut self, rows: Stream<'_>, ends: &[i64]) {
        self.session_of.clear();
        for (row, (&ts, &end)) in rows.ts.iter().zip(ends).enumerate() {
            let key = rows.keys.map_or(0, |keys| keys[row]);
            let known = self.of_key[key as usize];
            let session = if known != NONE && ts < self.sessions[known as usize].end {
                let session = &mut self.sessions[known as usize];
                session.end = session.end.max(end);
                known
            } else {
                self.begin(Session { start: ts, end, key, number: self.begun, is_kept: true })
            };
            self.session_of.push(session);
        }
    }

    fn begin(&mut self, session: Session) -> u32 {
        self.begun += 1;
        let place = self.free.pop().unwrap_or(self.sessions.len() as u32);
        match self.sessions.get_mut(place as usize) {
            Some(free) => *free = session,
            None => self.sessions.push(session),
        }
        self.of_key[session.key as usize] = place;
        self.ends.push(Reverse((session.end, place)));
        place
    }

    /// Completes the sessions that no row at `ts` or later can extend.
    fn close(&mut self, ts: i64) {
        while let Some(&Reverse((end, place))) = self.ends.peek()
            && end <= ts
        {
            self.ends.pop();
            let Session { end: now, key, .. } = self.sessions[place as usize];
            if now > end {
                self.ends.push(Reverse((now, place)));
                continue;
            }
            self.over.push((end, place));
            if self.of_key[key as usize] == place {
                self.of_key[key as usize] = NONE;
            }
        }
    }

    /// Returns the sessions in the order in which they began.
    fn in_order(&self) -> Vec<(u32, Session)> {
        let kept = (0..).zip(self.sessions.iter().copied()).filter(|(_, session)| session.is_kept);
        let mut kept: Vec<(u32, Session)> = kept.collect();
        kept.sort_unstable_by_key(|(_, session)| session.number);
        kept
    }

    fn cell_bytes(&self) -> usize {
        // The size of a session, of its entry in `ends`, and of its entry in `of_key`.
        let own = size_of::<Session>() + size_of::<(i64, u32)>() + 2 * size_of::<u32>();
        own + self.lanes.iter().map(|lane| lane.state_bytes()).sum::<usize>()
    }

    /// Computes the results of completed sessions.
    fn page(
        &mut self,
        over: &[(i64, u32)],
        order: KeyOrder<'_>,
        driver: &Driver,
    ) -> Result<Page, Stopped> {
        let places: Vec<u32> = over.iter().map(|&(_, place)| place).collect();
        let lanes = self.lanes.iter_mut().collect();
        let columns = driver.map(lanes, |lane: &mut Box<dyn Lane>| lane.take(0, &places))?;
        let (mut windows, mut keys) =
            (Vec::with_capacity(over.len()), Vec::with_capacity(over.len()));
        for &(end, place) in over {
            let session = std::mem::take(&mut self.sessions[place as usize]);
            windows.push(Window { start: session.start, end, rows: 1 });
            keys.push(session.key);
        }
        self.free.extend(places);
        Ok(Page { rows: over.len(), windows, keys: ranks(&keys, order.ranks), columns })
    }
}

impl StreamingWindows for StreamingSessions {
    fn set_gaps(&mut self, gaps: Vec<i64>) {
        self.gaps = gaps;
    }

    fn add(
        &mut self,
        rows: &[Stream<'_>],
        keys: usize,
        first_rows: &[u32],
        aggregates: &[Aggregate<'_>],
        driver: &Driver,
    ) -> Result<(), Stopped> {
        self.of_key.resize(keys.max(self.of_key.len()), NONE);
        let merged = MergedRows::new(rows, driver)?;
        let gaps = std::mem::take(&mut self.gaps);
        let gaps = self.gap.map_or(SessionGaps::OfRows(&gaps), SessionGaps::Fixed);
        let ends = gaps.ends(&merged, &self::first_rows(rows));
        self.find(merged.stream(), &ends);
        let kinds: Vec<_> =
            aggregates.iter().map(|aggregate| kind(aggregate, rows, first_rows)).collect();
        let tasks = self.lanes.iter_mut().zip(&kinds);
        let tasks = tasks
            .map(|(lane, kind)| {
                let states = self.sessions.len();
                kind.add_in_order(&mut **lane, 0, states, &self.session_of, &merged.places)
            })
            .collect();
        driver.map(tasks, |task: Task<'_>| task())?;
        if let Some(&last) = merged.stream().ts.last() {
            self.close(last);
        }
        Ok(())
    }

    fn advance(&mut self, ts: i64, _driver: &Driver) -> Result<(), Stopped> {
        self.close(ts);
        Ok(())
    }

    fn finish(&mut self, _driver: &Driver) -> Result<(), Stopped> {
        self.close(i64::MAX);
        Ok(())
    }

    fn pages(
        &mut self,
        pages: usize,
        order: KeyOrder<'_>,
        driver: &Driver,
    ) -> Result<Vec<Page>, Stopped> {
        let key = |place: u32| order.ranks[self.sessions[place as usize].key as usize];
        self.over.sort_unstable_by_key(|&(end, place)| (end, key(place)));
        let rest = self.over.split_off(self.over.len().min(pages * PAGE_ROWS));
        let over = std::mem::replace(&mut self.over, rest);
        over.chunks(PAGE_ROWS).map(|some| self.page(some, order, driver)).collect()
    }

    fn is_used(&self) -> Vec<bool> {
        let mut used = vec![false; self.of_key.len()];
        let kept = self.sessions.iter().filter(|session| session.is_kept);
        kept.for_each(|session| used[session.key as usize] = true);
        used
    }

    // Sessions are saved in the order in which they began.
    fn arrange(&mut self, _order: KeyOrder<'_>) {}

    fn for_each_row(&mut self, visit: &mut dyn FnMut(&mut u32)) {
        let places: Vec<u32> = self.in_order().into_iter().map(|(place, _)| place).collect();
        self.lanes.iter_mut().for_each(|lane| lane.rows_of(0, &places, visit));
    }

    fn follow_rows(&mut self, _new: &dyn Fn(u32) -> Option<u32>) {}

    fn for_each_value(&mut self, aggregate: usize, visit: &mut dyn FnMut(&mut i64)) {
        self.lanes[aggregate].values(visit);
    }

    fn follow_values(&mut self, _aggregate: usize, _new: &dyn Fn(i64) -> Option<i64>) {}

    fn cells(&self) -> usize {
        self.sessions.len() - 1 - self.free.len()
    }

    fn row_bytes(&self) -> usize {
        self.cell_bytes()
    }

    fn bytes(&self) -> usize {
        self.sessions.len() * self.cell_bytes()
    }

    fn save(&self) -> WindowsState {
        let kept = self.in_order();
        let mut words = Vec::new();
        for lane in &self.lanes {
            let state = |place: u32| lane.words(0, place as usize);
            let of_lane = lane.saved_words();
            kept.iter().for_each(|&(place, _)| words.extend(&state(place)[..of_lane]));
        }
        let gap = self.gap.unwrap_or(0);
        let session = |(_, session): &(u32, Session)| {
            let Session { start, end, key, .. } = *session;
            (start, end - gap, key)
        };
        let sessions = kept.iter().map(session).collect();
        WindowsState { sessions, words, ..WindowsState::default() }
    }

    fn restore(&mut self, saved: WindowsState, bounds: &StateBounds) -> bool {
        let states = saved.sessions.len() * saved_words(&self.lanes);
        let is_session = |&(start, until, _): &(i64, i64, u32)| match self.gap {
            Some(gap) => {
                start <= until
                    && until.checked_add(gap).is_some()
                    && bounds.next.is_none_or(|next| until <= next)
            }
            None => start < until && bounds.next.is_none_or(|next| start <= next),
        };
        let keys: HashSet<u32> = saved.sessions.iter().map(|&(.., key)| key).collect();
        let is_sound = saved.sessions.iter().all(is_session)
            && saved.sessions.is_sorted_by_key(|&(start, ..)| start)
            && keys.len() == saved.sessions.len()
            && saved.words.len() == states
            && are_states(&self.lanes, &saved.words, bounds);
        let WindowsState { closed: 0, next: 0, open, kept, sessions, words } = saved else {
            return false;
        };
        if !is_sound || !open.is_empty() || !kept.is_empty() {
            return false;
        }
        let count = sessions.len();
        let keys = sessions.iter().map(|&(_, _, key)| key as usize + 1).max().unwrap_or(0);
        self.of_key.resize(keys, NONE);
        let gap = self.gap.unwrap_or(0);
        for (start, until, key) in sessions {
            let (end, number) = (until + gap, self.begun);
            self.begin(Session { start, end, key, number, is_kept: true });
        }
        let mut words = words.into_iter();
        self.lanes.iter_mut().for_each(|lane| lane.restore(&[count], &[], &mut words));
        true
    }
}

impl fmt::Debug for StreamingSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamingSessions").field("gap", &self.gap).finish_non_exhaustive()
    }
}

//! Sessions: windows that stay open as long as a key's rows arrive in quick succession.
//!
//! A row opens a window `[ts, ts + gap)` for its key. Each further row in the window extends the
//! window to `gap` after the row's time, unless the window already ends later. The gap is either
//! fixed, or different for each row. Rows from all sources are merged in order of time. A single
//! pass over the rows then finds each row's session. Each function then adds the rows in
//! that order, as it does for rows that arrive epoch by epoch. The cost is O(n log n) for several
//! sources and O(n) for one. The functions are divided among threads.

use super::catalog::aggregate::{Aggregate, kind};
use super::inputs::columns::{Stream, first_rows};
use super::inputs::places::MergedRows;
use super::output::{Page, Window};
use crate::driver::{Driver, Stopped};
use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

/// The number of rows in a page of results.
pub(super) const PAGE_ROWS: usize = 1 << 18;

/// For how long a row keeps a session open. Each gap must be positive, and the sum of each time and
/// its gap must fit in 64 bits.
#[derive(Clone, Copy, Debug)]
pub enum SessionGaps<'a> {
    /// The same gap for all rows.
    Fixed(i64),
    /// The gap of each row, source by source.
    OfRows(&'a [i64]),
}

impl SessionGaps<'_> {
    /// Returns the time until which each row keeps its session open, in merged order.
    pub(super) fn ends(self, merged: &MergedRows, first_rows: &[u32]) -> Vec<i64> {
        let ts = merged.stream().ts;
        memory::collect(merged.places.iter().zip(ts).map(|(place, ts)| match self {
            SessionGaps::Fixed(gap) => ts + gap,
            SessionGaps::OfRows(gaps) => ts + gaps[first_rows[place.source] as usize + place.row],
        }))
    }
}

#[derive(Clone, Copy, Debug)]
struct Session {
    start: i64,
    end: i64,
    key: u32,
}

/// Aggregates rows like [`aggregate`](super::aggregate), but over sessions. A session ends when the
/// gaps of all its rows have elapsed.
///
/// In this example, rows that are less than 5 apart are in the same session:
///
/// ```
/// use tidegate_operators::aggregate::{Aggregate, Page, SessionGaps, Stream, aggregate_sessions};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_sync::Stop;
///
/// let streams = [Stream { ts: &[0, 3, 20], keys: None }, Stream { ts: &[6], keys: None }];
/// let count = Aggregate::Count(vec![None, None]);
/// let driver = Driver::new(1, Stop::default());
/// let take = |page: Page| Ok::<_, Stopped>(page.windows);
/// let gaps = SessionGaps::Fixed(5);
/// let found = aggregate_sessions(&streams, 1, gaps, &[count], &driver, |_| Ok(()), take)?.concat();
/// // The first one ends 5 after the row of the second source.
/// assert_eq!((found[0].start, found[0].end), (0, 11));
/// assert_eq!((found[1].start, found[1].end), (20, 25));
/// # Ok::<(), Stopped>(())
/// ```
pub fn aggregate_sessions<R: Send, E: From<Stopped> + Send>(
    streams: &[Stream<'_>],
    key_count: usize,
    gaps: SessionGaps<'_>,
    aggregates: &[Aggregate<'_>],
    driver: &Driver,
    announce: impl Fn(usize) -> Result<(), E> + Sync,
    take: impl Fn(Page) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let merged = MergedRows::new(streams, driver)?;
    let first_rows = first_rows(streams);
    let ends = gaps.ends(&merged, &first_rows);
    let (sessions, session_of) = find(merged.stream(), &ends, key_count);
    drop(ends);
    let mut order: Vec<u32> = memory::collect((0..sessions.len()).map(|nth| nth as u32 + 1));
    let session = |number: u32| sessions[number as usize - 1];
    order.sort_unstable_by_key(|&number| (session(number).start, session(number).key));
    announce(sessions.len())?;
    let columns = driver.map(aggregates.iter().collect(), |aggregate| {
        let kind = kind(aggregate, streams, &first_rows);
        let mut lane = kind.lane(1);
        kind.add_in_order(&mut *lane, 0, sessions.len() + 1, &session_of, &merged.places)();
        order.chunks(PAGE_ROWS).map(|some| lane.take(0, some)).collect()
    })?;
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let page = |some: &[u32]| {
        let found = some.iter().map(|&number| session(number));
        let keys = Pages::collect(found.clone().map(|session| session.key));
        let windows = found
            .map(|session| Window { start: session.start, end: session.end, rows: 1 })
            .collect();
        let columns =
            columns.iter_mut().map(|pages| pages.next().expect("one column per page")).collect();
        Page { rows: some.len(), windows, keys, columns }
    };
    let pages: Vec<Page> = order.chunks(PAGE_ROWS).map(page).collect();
    driver.map(pages, take)?.into_iter().collect()
}

/// Finds all sessions among rows in merged order, and the session of each row. `ends` contains the
/// time until which each row keeps its session open. Sessions are numbered from 1.
fn find(rows: Stream<'_>, ends: &[i64], key_count: usize) -> (Vec<Session>, Vec<u32>) {
    const NONE: u32 = 0;
    let mut of_key = memory::filled(key_count, NONE);
    let mut sessions: Vec<Session> = Vec::new();
    let mut session_of = memory::vec(rows.ts.len());
    for (row, (&ts, &end)) in rows.ts.iter().zip(ends).enumerate() {
        let key = rows.keys.map_or(0, |keys| keys[row]);
        let number = &mut of_key[key as usize];
        match sessions.get_mut((*number as usize).wrapping_sub(1)) {
            Some(known) if ts < known.end => known.end = known.end.max(end),
            _ => {
                memory::reserve(&mut sessions, 1);
                sessions.push(Session { start: ts, end, key });
                *number = sessions.len() as u32;
            }
        }
        session_of.push(*number);
    }
    (sessions, session_of)
}

//! Sessions: windows that stay open as long as a key's rows arrive in quick succession.
//!
//! A row opens a window `[ts, ts + gap)` for its key. Each further row in the window extends the
//! window to `gap` after the row's time. The rows from all sources are put in merged order. A
//! single pass over the rows then finds each row's session. Each function then adds the rows in
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

#[derive(Clone, Copy, Debug)]
struct Session {
    start: i64,
    last: i64,
    key: u32,
}

/// Returns whether a row extends a session. The row must not be earlier than the last row in the
/// session.
pub(super) fn extends(ts: i64, last: i64, gap: i64) -> bool {
    ts.abs_diff(last) < gap.unsigned_abs()
}

/// Aggregates rows like [`aggregate`](super::aggregate), but over sessions that end `gap` after
/// their last row. The sum of each time and the gap must fit in 64 bits.
///
/// In this example, rows that are less than 5 apart are in the same session:
///
/// ```
/// use tidegate_operators::aggregate::{Aggregate, Page, Stream, aggregate_sessions};
/// use tidegate_operators::driver::{Driver, Stopped};
/// use tidegate_sync::Stop;
///
/// let streams = [Stream { ts: &[0, 3, 20], keys: None }, Stream { ts: &[6], keys: None }];
/// let count = Aggregate::Count(vec![None, None]);
/// let driver = Driver::new(1, Stop::default());
/// let take = |page: Page| Ok::<_, Stopped>(page.windows);
/// let found = aggregate_sessions(&streams, 1, 5, &[count], &driver, |_| Ok(()), take)?.concat();
/// // The first one ends 5 after the row of the second source.
/// assert_eq!((found[0].start, found[0].end), (0, 11));
/// assert_eq!((found[1].start, found[1].end), (20, 25));
/// # Ok::<(), Stopped>(())
/// ```
pub fn aggregate_sessions<R: Send, E: From<Stopped> + Send>(
    streams: &[Stream<'_>],
    key_count: usize,
    gap: i64,
    aggregates: &[Aggregate<'_>],
    driver: &Driver,
    announce: impl Fn(usize) -> Result<(), E> + Sync,
    take: impl Fn(Page) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    assert!(gap > 0, "the gap of a session must be positive");
    let merged = MergedRows::new(streams, driver)?;
    let (sessions, session_of) = find(merged.stream(), key_count, gap);
    let mut order: Vec<u32> = memory::collect((0..sessions.len()).map(|nth| nth as u32 + 1));
    let session = |number: u32| sessions[number as usize - 1];
    order.sort_unstable_by_key(|&number| (session(number).start, session(number).key));
    announce(sessions.len())?;
    let first_rows = first_rows(streams);
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
            .map(|session| Window { start: session.start, end: session.last + gap, rows: 1 })
            .collect();
        let columns =
            columns.iter_mut().map(|pages| pages.next().expect("one column per page")).collect();
        Page { rows: some.len(), windows, keys, columns }
    };
    let pages: Vec<Page> = order.chunks(PAGE_ROWS).map(page).collect();
    driver.map(pages, take)?.into_iter().collect()
}

/// Finds all sessions among rows in merged order, and the session of each row. Sessions are
/// numbered from 1.
fn find(rows: Stream<'_>, key_count: usize, gap: i64) -> (Vec<Session>, Vec<u32>) {
    const NONE: u32 = 0;
    let mut of_key = memory::filled(key_count, NONE);
    let mut sessions: Vec<Session> = Vec::new();
    let mut session_of = memory::vec(rows.ts.len());
    for (row, &ts) in rows.ts.iter().enumerate() {
        let key = rows.keys.map_or(0, |keys| keys[row]);
        let number = &mut of_key[key as usize];
        match sessions.get_mut((*number as usize).wrapping_sub(1)) {
            Some(known) if extends(ts, known.last, gap) => known.last = ts,
            _ => {
                memory::reserve(&mut sessions, 1);
                sessions.push(Session { start: ts, last: ts, key });
                *number = sessions.len() as u32;
            }
        }
        session_of.push(*number);
    }
    (sessions, session_of)
}

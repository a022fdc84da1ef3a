//! Sessions: windows that last for as long as a key's rows follow each other closely.
//!
//! A row opens a window `[ts, ts + gap)` of its key, and each row that falls in the window extends
//! it to `gap` after itself. All sources' rows are put in merged order, in which one pass finds
//! each row's session; then each function adds the rows in that order. O(n log n) with several
//! sources, O(n) with one; functions are shared out among threads.

use super::functions::{Function, Output};
use super::{Aggregate, Mask, OutputColumn, Page, Stream, Window, fold};
use crate::driver::{Driver, Stopped};
use crate::order::time_order;
use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

/// Rows of a page of results.
pub(super) const PAGE_ROWS: usize = 1 << 18;

/// A source's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) source: usize,
    pub(super) row: usize,
}

/// All rows in merged order with their sessions, and the sessions in the order of the result.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    rows: Vec<(Place, u32)>,
    found: Vec<Session>,
    /// The place of each session in the result.
    place_of: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    start: i64,
    last: i64,
    key: u32,
}

/// As [`aggregate`](super::aggregate), of the sessions that end `gap` after their last row. Times
/// plus the gap are within 64 bits.
pub fn aggregate_sessions<R: Send, E: From<Stopped> + Send>(
    streams: &[Stream<'_>],
    key_count: usize,
    gap: i64,
    aggregates: &[Aggregate<'_>],
    driver: &Driver,
    announce: impl Fn(usize) -> Result<(), E> + Sync,
    take: impl Fn(Page) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    assert!(gap > 0, "a session lasts longer than its last row");
    let sessions = Sessions::new(streams, key_count, gap, driver)?;
    announce(sessions.found.len())?;
    let folded = driver.map(aggregates.iter().collect(), |aggregate| {
        fold(aggregate, streams).fold_sessions(&sessions)
    })?;
    let mut columns: Vec<_> = folded.into_iter().map(Vec::into_iter).collect();
    let mut order: Vec<u32> = memory::filled(sessions.found.len(), 0);
    (0..).zip(&sessions.place_of).for_each(|(session, place)| order[*place as usize] = session);
    let page = |some: &[u32]| {
        let found = some.iter().map(|session| sessions.found[*session as usize]);
        let keys = Pages::collect(found.clone().map(|session| session.key));
        let windows = found
            .map(|session| Window { start: session.start, end: session.last + gap, rows: 1 })
            .collect();
        let columns =
            columns.iter_mut().map(|pages| pages.next().expect("a column a page")).collect();
        Page { rows: some.len(), windows, keys, columns }
    };
    let pages: Vec<Page> = order.chunks(PAGE_ROWS).map(page).collect();
    driver.map(pages, take)?.into_iter().collect()
}

impl Sessions {
    fn new(
        streams: &[Stream<'_>],
        key_count: usize,
        gap: i64,
        driver: &Driver,
    ) -> Result<Self, Stopped> {
        const NONE: u32 = u32::MAX;
        let mut open = memory::filled(key_count, NONE);
        let mut sessions = Sessions::default();
        let merged = Merged::new(streams, driver)?;
        let rows = merged.stream();
        for (row, &place) in merged.places.iter().enumerate() {
            let (ts, key) = (rows.ts[row], rows.keys.map_or(0, |keys| keys[row]));
            let session = &mut open[key as usize];
            match sessions.found.get_mut(*session as usize) {
                // Later rows are not earlier.
                Some(known) if ts.abs_diff(known.last) < gap.unsigned_abs() => known.last = ts,
                _ => {
                    *session = sessions.found.len() as u32;
                    sessions.found.push(Session { start: ts, last: ts, key });
                }
            }
            sessions.rows.push((place, *session));
        }
        let mut order: Vec<u32> = (0..sessions.found.len() as u32).collect();
        order.sort_unstable_by_key(|session| {
            let Session { start, key, .. } = sessions.found[*session as usize];
            (start, key)
        });
        sessions.place_of = memory::filled(order.len(), 0);
        (0..).zip(&order).for_each(|(place, session)| sessions.place_of[*session as usize] = place);
        Ok(sessions)
    }

    /// The results of a function, page by page.
    pub(super) fn fold<F: Function>(
        &self,
        masks: &[Mask<'_>],
        value: impl Fn(Place) -> F::Input,
    ) -> Vec<OutputColumn> {
        let mut states = memory::filled(self.found.len(), F::EMPTY);
        for &(place, session) in &self.rows {
            if masks[place.source].is_none_or(|mask| mask.contains(place.row)) {
                F::add(&mut states[self.place_of[session as usize] as usize], value(place));
            }
        }
        let page = |states: &[F::State]| {
            let mut values = Pages::<F::Output>::unwritten(states.len());
            let mut missing = Vec::new();
            for (row, (value, state)) in values.iter_mut().zip(states).enumerate() {
                let found = F::finish(*state);
                missing.extend(found.is_none().then_some(row));
                value.set(found.unwrap_or_default());
            }
            OutputColumn { values: F::Output::column(values.written()), missing }
        };
        states.chunks(PAGE_ROWS).map(page).collect()
    }
}

/// The rows of all sources by time, source and position.
pub(super) struct Merged {
    /// Where each row is.
    pub(super) places: Vec<Place>,
    ts: Vec<i64>,
    keys: Option<Vec<u32>>,
}

impl Merged {
    pub(super) fn new(streams: &[Stream<'_>], driver: &Driver) -> Result<Self, Stopped> {
        let place = |(source, stream): (usize, &Stream<'_>)| {
            (0..stream.ts.len()).map(move |row| Place { source, row })
        };
        let mut places: Vec<Place> = streams.iter().enumerate().flat_map(place).collect();
        let times: Vec<i64> = streams.iter().flat_map(|stream| stream.ts).copied().collect();
        if let Some(order) = time_order(&times, driver)? {
            places = order.iter().map(|row| places[*row as usize]).collect();
        }
        let keys = streams.iter().any(|stream| stream.keys.is_some());
        let key = |place: &Place| streams[place.source].keys.map_or(0, |keys| keys[place.row]);
        Ok(Merged {
            ts: places.iter().map(|place| streams[place.source].ts[place.row]).collect(),
            keys: keys.then(|| places.iter().map(key).collect()),
            places,
        })
    }

    /// They as those of one source.
    pub(super) fn stream(&self) -> Stream<'_> {
        Stream { ts: &self.ts, keys: self.keys.as_deref() }
    }
}

//! Aggregates row-based windows, which contain a fixed number of rows with the same key.
//!
//! The rows of a key are numbered in merged order. A window contains the rows with certain numbers,
//! so these rows are the partners of the window in an interval join in which numbers take the place
//! of times.

use std::ops::Range;

use arrow_array::RecordBatch;
use tidegate_operators::aggregate::{Page, PartnerAggregates, PartnerValues, Window};
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::{PartnerColumns, interval_partners};
use tidegate_operators::order::{JoinColumns, SideIndex};
use tidegate_operators::rows::{Closed, Interval};
use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use super::aggregate::ResultRows;
use super::rolling::continued_ordinals;
use crate::Result;
use crate::aggregate::columns::{Columns, Extent};
use crate::aggregate::groups::Groups;
use crate::aggregate::output::Output;
use crate::aggregate::streams::Streams;
use crate::aggregate::values::FunctionValues;
use crate::query::aggregate::plan::AggregatePlan;
use crate::query::aggregate::row_counts::RowCounts;

/// The number of result rows that are built at a time.
const PAGE_ROWS: usize = 1 << 16;

/// The number of rows from which windows are built at a time, if results list rows.
const LISTED_ROWS: u64 = 1 << 22;

/// The progress of a stream: the rows from which earlier windows have already been built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowProgress<'a> {
    /// For the first rows, the number of earlier rows with the same key. Complete windows that end
    /// with one of these rows have already been returned.
    pub(crate) ordinals: &'a [i64],
    /// True if no more rows will arrive, so that incomplete windows are returned, too.
    pub(crate) has_ended: bool,
}

/// What is known about the rows that precede the given rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EarlierRows<'a> {
    /// There are none.
    None,
    /// The earlier rows of a stream.
    OfStream(RowProgress<'a>),
    /// The rows before a part of a table. For each row of the part, the number of earlier rows with
    /// the same key. Only windows that begin with one of the given rows are returned.
    OfTable(&'a [i64]),
}

/// The windows of a table, or those that have become complete in a stream.
#[derive(Default)]
pub(crate) struct RowWindows {
    pub(crate) batches: Vec<RecordBatch>,
    /// For each row, the number of earlier rows with the same key.
    pub(crate) ordinals: Vec<i64>,
    /// The rows that later windows need, in ascending order. The last row of each key is one of
    /// them, because it shows how many rows precede later ones.
    pub(crate) needed: Vec<u32>,
}

/// The windows to return, in order.
#[derive(Default)]
struct ListedWindows {
    /// The key of each window.
    keys: Vec<u32>,
    /// The number of the first row in each window.
    starts: Vec<i64>,
    /// The first and last row of each window, as row numbers.
    rows: Vec<(u32, u32)>,
}

impl ListedWindows {
    /// Sorts the windows, and returns them in the new order.
    fn sorted_by_key<K: Ord>(self, key: impl Fn(&Self, usize) -> K) -> Self {
        let mut order: Vec<usize> = memory::collect(0..self.keys.len());
        order.sort_by_cached_key(|&at| key(&self, at));
        ListedWindows {
            keys: memory::collect(order.iter().map(|&at| self.keys[at])),
            starts: memory::collect(order.iter().map(|&at| self.starts[at])),
            rows: memory::collect(order.iter().map(|&at| self.rows[at])),
        }
    }
}

/// Aggregates the windows of rows in merged order. Windows of a table are sorted by their starts
/// and keys, and windows of a stream by their last rows.
#[expect(
    clippy::too_many_lines,
    reason = "a sequence of steps, each of which uses the previous result"
)]
pub(super) fn row_windows(
    windows: RowCounts,
    plan: &AggregatePlan,
    streams: &Streams,
    earlier: EarlierRows<'_>,
    results: &ResultRows<'_>,
    driver: &Driver,
) -> Result<RowWindows> {
    let ts = streams.times();
    let groups =
        (!plan.by.is_empty()).then(|| Groups::new(&streams.table, &plan.by, driver)).transpose()?;
    let keys = groups.as_ref().map(|groups| &groups.numbers[..]);
    let key_count = groups.as_ref().map_or(1, |groups| groups.count);
    let (known, done) = match earlier {
        EarlierRows::None => (&[][..], Some(0)),
        EarlierRows::OfStream(progress) => (progress.ordinals, Some(progress.ordinals.len())),
        EarlierRows::OfTable(ordinals) => (ordinals, None),
    };
    let has_ended = !matches!(earlier, EarlierRows::OfStream(RowProgress { has_ended: false, .. }));
    let ordinals = continued_ordinals(known, keys, key_count, ts.len());
    let (listed, needed) = {
        let by_key = SideIndex::new(JoinColumns { ts, keys }, key_count, driver)?;
        let rows = KeyRows { by_key: &by_key, ordinals: &ordinals, done };
        rows.list(windows, has_ended)
    };
    let listed = match earlier {
        EarlierRows::OfStream(_) => listed.sorted_by_key(|all, at| all.rows[at].1),
        _ => listed.sorted_by_key(|all, at| (ts[all.rows[at].0 as usize], all.keys[at])),
    };
    let columns = Columns::new(streams, &plan.functions, Extent::Whole, driver)?;
    let interval = Interval {
        lower: Some(0),
        upper: Some(windows.size.saturating_sub(1)),
        closed: Closed::Both,
    };
    let partner_columns = PartnerColumns {
        left: JoinColumns { ts: &listed.starts, keys: keys.map(|_| &listed.keys[..]) },
        right: JoinColumns { ts: &ordinals, keys },
        key_count,
        interval: &interval,
        with_prevailing: false,
    };
    let partners = interval_partners(partner_columns, driver)?;
    let of_states =
        PartnerAggregates::new(partner_columns, || Ok(&partners), &columns.aggregates(), driver)?;
    let all_values = columns.all_values();
    let of_all_values = (!all_values.is_empty())
        .then(|| PartnerValues::new(&partners, &all_values, driver))
        .transpose()?;
    let output = Output::new(
        plan,
        groups.as_ref(),
        FunctionValues::of_tables(&plan.functions, streams, |at| columns.ranked(at)),
    );
    let most = if columns.has_lists() { LISTED_ROWS } else { u64::MAX };
    let mut pages: Vec<Range<usize>> = Vec::new();
    while let start = pages.last().map_or(0, |page| page.end)
        && start < listed.keys.len()
    {
        pages.push(partners.page(start, PAGE_ROWS, most));
    }
    let page = |page: Range<usize>| {
        results.announce(page.len())?;
        let window = |at: usize| {
            let (first, last) = listed.rows[at];
            Window { start: ts[first as usize], end: ts[last as usize], rows: 1 }
        };
        let all_values = of_all_values.as_ref().map(|functions| functions.of(page.clone()));
        let of_states = of_states.of(page.clone());
        output.batch(Page {
            rows: page.len(),
            windows: page.clone().map(window).collect(),
            keys: Pages::copied(&listed.keys[page]),
            columns: columns.put_together(of_states, all_values.unwrap_or_default()),
        })
    };
    let batches = driver.map(pages, page)?.into_iter().collect::<Result<_>>()?;
    Ok(RowWindows { batches, ordinals, needed })
}

/// The rows of each key, which are numbered consecutively.
struct KeyRows<'a> {
    by_key: &'a SideIndex,
    ordinals: &'a [i64],
    /// The number of rows from which complete windows have already been built. `None` means that
    /// windows must begin with one of the rows.
    done: Option<usize>,
}

impl KeyRows<'_> {
    /// Returns the windows to emit, and the rows that later windows need.
    fn list(&self, windows: RowCounts, has_ended: bool) -> (ListedWindows, Vec<u32>) {
        let mut listed = ListedWindows::default();
        let (mut needed, mut own) = (Vec::new(), Vec::new());
        let starts = self.by_key.starts();
        for (key, places) in starts.windows(2).enumerate() {
            let places = places[0]..places[1];
            if places.is_empty() {
                continue;
            }
            let row =
                |place: u32| self.by_key.numbers().map_or(place, |numbers| numbers[place as usize]);
            let first = self.ordinals[row(places.start) as usize];
            let last = first + (places.len() as i64) - 1;
            // The rows of a key are in merged order.
            own.clear();
            own.extend(places.clone().map(row));
            let row_of = |ordinal: i64| own[(ordinal - first) as usize];
            let mut add = |number: i64, end: i64| {
                let start = number * windows.advance;
                memory::reserve(&mut listed.keys, 1);
                memory::reserve(&mut listed.starts, 1);
                memory::reserve(&mut listed.rows, 1);
                listed.keys.push(key as u32);
                listed.starts.push(start);
                listed.rows.push((row_of(start), row_of(end)));
            };
            let next = match self.done {
                Some(done) => {
                    let seen = own.partition_point(|&row: &u32| (row as usize) < done) as i64;
                    windows.complete(first + seen)
                }
                None => windows.first_from(first),
            };
            let complete = windows.complete(last + 1);
            (next..complete)
                .for_each(|number| add(number, number * windows.advance + windows.size - 1));
            if has_ended && complete >= next && windows.is_begun(complete, last) {
                add(complete, last);
            }
            let from = (complete * windows.advance).clamp(first, last);
            needed.extend((from..=last).map(row_of));
        }
        needed.sort_unstable();
        (listed, needed)
    }
}

//! Aggregates the windows that the caller lists, each with a start and an end.
//!
//! A pass over the rows in time order finds the windows and keys that have rows. The rows of each
//! window and key are then partners in an interval join, and are added one by one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use tidegate_operators::aggregate::{Page, Window, aggregate_matches, all_values_of_matches};
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::row_interval_join;
use tidegate_operators::order::JoinColumns;
use tidegate_operators::rows::{NO_KEY, RowEnds};
use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use super::aggregate::{Ends, ResultRows};
use crate::Result;
use crate::aggregate::columns::{Columns, Extent};
use crate::aggregate::groups::Groups;
use crate::aggregate::output::Output;
use crate::aggregate::streams::Streams;
use crate::aggregate::values::FunctionValues;
use crate::columns::keys::{KeyColumn, encode};
use crate::columns::table::Table;
use crate::query::aggregate::listed::WindowList;
use crate::query::aggregate::plan::AggregatePlan;

/// The number of result rows that are built at a time.
const PAGE_ROWS: usize = 1 << 14;

/// The approximate number of rows that a task aggregates.
const ADDED_ROWS: u64 = 1 << 20;

/// A window, and a key that has rows in it.
type WindowKey = (u32, u32);

/// Aggregates the rows of one source in the windows that end within a range. Results are sorted by
/// the start and the end of the window, then by key. The results of a stream are sorted by window
/// end first, because windows are completed in this order.
pub(super) fn listed_windows(
    windows: &WindowList,
    plan: &AggregatePlan,
    streams: &Streams,
    (ends, by_end): (Ends, bool),
    results: &ResultRows<'_>,
    driver: &Driver,
) -> Result<Vec<RecordBatch>> {
    let ts = streams.times();
    let groups =
        (!plan.by.is_empty()).then(|| Groups::new(&streams.table, &plan.by, driver)).transpose()?;
    let keys = groups.as_ref().map(|groups| &groups.numbers[..]);
    let key_count = groups.as_ref().map_or(1, |groups| groups.count);
    let classes = Classes::new(windows, groups.as_ref(), plan, driver)?;
    let mut found = classes.with_rows(windows, ts, keys, ends);
    found.sort_unstable_by_key(|&(window, key)| {
        let (start, end) = (windows.starts[window as usize], windows.ends[window as usize]);
        let bounds = if by_end { (end, start) } else { (start, end) };
        (bounds, key, window)
    });
    found.dedup();
    let window_keys: Vec<u32> = memory::collect(found.iter().map(|&(_, key)| key));
    let of_windows = |times: &[i64]| -> Vec<i64> {
        memory::collect(found.iter().map(|&(window, _)| times[window as usize]))
    };
    let (starts, window_ends) = (of_windows(&windows.starts), of_windows(&windows.ends));
    let last: Vec<i64> = memory::collect(window_ends.iter().map(|end| end.saturating_sub(1)));
    let left = JoinColumns { ts: &starts, keys: keys.map(|_| &window_keys[..]) };
    let right = JoinColumns { ts, keys };
    let row_ends = RowEnds { first: &starts, last: &last };
    let matches = row_interval_join(left, right, key_count, row_ends, driver)?;
    let columns = Columns::new(streams, &plan.functions, Extent::Whole, driver)?;
    let (aggregates, all_values) = (columns.aggregates(), columns.all_values());
    let values = FunctionValues::of_tables(&plan.functions, streams, |at| columns.ranked(at));
    let output = Output::new(plan, groups.as_ref(), values);
    let mut pages: Vec<Range<usize>> = Vec::new();
    while let start = pages.last().map_or(0, |page| page.end)
        && start < found.len()
    {
        let page = matches.page(start, PAGE_ROWS, ADDED_ROWS);
        pages.push(start..page.end.max(start + 1));
    }
    let page = |page: Range<usize>| {
        results.announce(page.len())?;
        let window = |at: usize| Window { start: starts[at], end: window_ends[at], rows: 1 };
        // Row numbers are in merged order.
        let of_all_values = all_values
            .iter()
            .map(|function| all_values_of_matches(&matches, page.clone(), None, function))
            .collect();
        let of_states = aggregate_matches(&matches, page.clone(), Some(ts), &aggregates);
        output.batch(Page {
            rows: page.len(),
            windows: page.clone().map(window).collect(),
            keys: Pages::copied(&window_keys[page]),
            columns: columns.put_together(of_states, of_all_values),
        })
    };
    driver.map(pages, page)?.into_iter().collect()
}

/// The windows of each class of keys. The keys in a class are equal in the columns that the windows
/// share with them.
struct Classes {
    /// The class of each key, or [`NO_KEY`] if no window has such a key.
    of_key: Vec<u32>,
    /// The windows of each class, sorted by start.
    windows: Vec<Vec<u32>>,
}

impl Classes {
    fn new(
        windows: &WindowList,
        groups: Option<&Groups>,
        plan: &AggregatePlan,
        driver: &Driver,
    ) -> Result<Self> {
        let every: Vec<u32> = (0..windows.starts.len() as u32).collect();
        let Some(groups) = groups.filter(|_| !windows.keys.is_empty()) else {
            let count = groups.map_or(1, |groups| groups.count);
            return Ok(Classes { of_key: vec![0; count], windows: vec![every] });
        };
        // A table with a row for each key.
        let ranks: Vec<u32> = (0..groups.count as u32).collect();
        let mut fields: Vec<Field> = Vec::new();
        let mut arrays = Vec::new();
        let mut keys = Vec::new();
        for (place, key) in windows.keys.iter().enumerate() {
            let field = plan.functions.read.field(plan.by[key.right].right);
            let own = windows.table.schema().field(key.left);
            keys.push(KeyColumn::new(key.left, own, place, field)?);
            fields.push(field.clone().with_nullable(true));
            arrays.push(groups.columns[key.right].gather(&ranks)?);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        let numbers = encode(&windows.table, &Table::trusted("keys", batch), &keys, driver)?;
        let mut of_class = vec![Vec::new(); numbers.count];
        for window in every {
            let class = numbers.left[windows.rows[window as usize] as usize];
            if class != NO_KEY {
                of_class[class as usize].push(window);
            }
        }
        Ok(Classes { of_key: numbers.right.to_vec(), windows: of_class })
    }

    /// Returns the windows that end within a range, each with the keys that have rows in it. The
    /// result may contain duplicates. The rows must be in time order.
    fn with_rows(
        &self,
        list: &WindowList,
        ts: &[i64],
        keys: Option<&[u32]>,
        ends: Ends,
    ) -> Vec<WindowKey> {
        let mut open: Vec<OpenWindows> =
            self.windows.iter().map(|_| OpenWindows::default()).collect();
        // For each key, the value of `changes` when the key's windows were last listed.
        let mut noted = memory::filled(self.of_key.len(), 0_u64);
        let mut found: Vec<WindowKey> = Vec::new();
        for (row, &ts) in ts.iter().enumerate() {
            let key = keys.map_or(0, |keys| keys[row]);
            let class = self.of_key[key as usize];
            if class == NO_KEY {
                continue;
            }
            let open = &mut open[class as usize];
            open.go_to(ts, &self.windows[class as usize], list);
            if noted[key as usize] == open.changes {
                continue;
            }
            noted[key as usize] = open.changes;
            for &Reverse((_, window)) in &open.windows {
                if ends.has_end(list.ends[window as usize]) {
                    memory::reserve(&mut found, 1);
                    found.push((window, key));
                }
            }
        }
        found
    }
}

/// The windows of a class that contain a time.
#[derive(Default)]
struct OpenWindows {
    /// The ends and numbers of the windows, with the earliest end first.
    windows: BinaryHeap<Reverse<(i64, u32)>>,
    /// The number of windows that have begun.
    begun: usize,
    /// The number of times that the set of windows has changed.
    changes: u64,
}

impl OpenWindows {
    /// Moves to a later time.
    fn go_to(&mut self, ts: i64, every: &[u32], list: &WindowList) {
        while let Some(Reverse((end, _))) = self.windows.peek()
            && *end <= ts
        {
            self.windows.pop();
            self.changes += 1;
        }
        while let Some(&window) = every.get(self.begun)
            && list.starts[window as usize] <= ts
        {
            self.begun += 1;
            if list.ends[window as usize] > ts {
                self.windows.push(Reverse((list.ends[window as usize], window)));
                self.changes += 1;
            }
        }
    }
}

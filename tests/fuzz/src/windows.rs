//! Drawn windows, and a loop that assigns rows to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use tidegate::query::aggregate::{
    EmptyWindows, Fill, Fills, RowCounts, SlidingArguments, WindowTable, Windows,
};
use tidegate::{Driver, Length, Stop, Table};

use crate::draw::Draw;
use crate::oracle::Side;
use crate::rows::{Layout, time_column};

/// Windows, in nanoseconds or steps.
#[derive(Clone, Debug)]
pub(crate) enum Span {
    Sliding(Sliding),
    Session(Gap),
    Rows(RowCounts),
    /// The starts and ends of windows in a table.
    Listed(BTreeSet<(i128, i128)>),
}

/// Windows that start at regular intervals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sliding {
    size: i128,
    advance: i128,
    offset: i128,
    /// How much longer each window is than the previous one, if windows grow.
    step: Option<i128>,
    is_closed_right: bool,
    /// The value of functions in windows without rows, and how long a key has such windows.
    fill: Option<(Fill, i128)>,
}

/// For how long a row keeps a session open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gap {
    Fixed(i128),
    /// The number of steps is `id % 4 + 1`.
    OfRows,
}

/// A window of a key.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) start: i128,
    pub(crate) end: i128,
    /// A row with the key.
    pub(crate) key: usize,
    /// The rows of the window in merged order.
    pub(crate) rows: Vec<usize>,
    /// The rows of the window from which a window without rows copies its values.
    pub(crate) copied: Option<Vec<usize>>,
}

/// The position of a window in the result, and its key.
type Place = (i128, i128, [u8; 2], usize);

impl Span {
    pub(crate) fn draw(draw: &mut Draw<'_>, layout: &Layout) -> Self {
        let tick = layout.tick();
        match draw.number(0, 9) {
            0 | 1 => Span::Session(Gap::Fixed(draw.signed(1, 6) * tick)),
            2 => Span::Rows(RowCounts {
                size: draw.number(1, 6) as i64,
                advance: draw.number(1, 6) as i64,
            }),
            3 => Span::Session(Gap::OfRows),
            4 => {
                let mut window = || {
                    let start = draw.signed(0, 12) * tick;
                    (start, start + draw.signed(0, 9) * tick)
                };
                Span::Listed((0..6).map(|_| window()).collect())
            }
            _ => {
                let size = draw.signed(1, 12) * tick;
                let step = draw.once_in(4).then(|| (draw.signed(1, 12) * tick).min(size));
                Span::Sliding(Sliding {
                    size,
                    advance: if step.is_some() { size } else { draw.signed(1, 8) * tick },
                    offset: draw.signed(-5, 9) * tick,
                    step,
                    is_closed_right: draw.once_in(4),
                    fill: draw
                        .once_in(3)
                        .then(|| (draw.pick(&[Fill::Null, Fill::Last]), draw.signed(0, 9) * tick)),
                })
            }
        }
    }

    pub(crate) fn windows(&self, layout: &Layout) -> Windows {
        let bound = |length| layout.bound(length);
        match self {
            Span::Session(Gap::Fixed(gap)) => Windows::Session(bound(*gap)),
            Span::Session(Gap::OfRows) => Windows::SessionOf("id % 4 + 1".to_owned()),
            Span::Rows(counts) => Windows::Rows(*counts),
            Span::Listed(windows) => Windows::Listed(Box::new(table(windows, layout))),
            Span::Sliding(sliding) => {
                let length = |steps| Length::Fixed(bound(steps));
                let Sliding { size, advance, offset, step, is_closed_right, .. } = *sliding;
                Windows::Sliding(Box::new(SlidingArguments {
                    size: length(size),
                    advance: step.is_none().then(|| length(advance)),
                    step: step.map(length),
                    is_closed_right,
                    offset: length(offset),
                    zone: None,
                    week_start: None,
                }))
            }
        }
    }

    pub(crate) fn empty(&self, layout: &Layout) -> Option<EmptyWindows> {
        let Span::Sliding(Sliding { fill: Some((fill, keep)), .. }) = self else { return None };
        let (fills, keep) = (Fills::Every(*fill), Some(layout.bound(*keep)));
        Some(EmptyWindows { fills, keep, start: None, end: None })
    }

    /// Returns whether a stream returns windows in the same order as tables.
    pub(crate) fn is_in_order(&self) -> bool {
        matches!(self, Span::Sliding(_))
    }

    /// Returns whether windows are ordered by their starts and then by their ends, before the keys.
    pub(crate) fn is_ordered_by_end(&self) -> bool {
        matches!(self, Span::Listed(_))
    }

    /// Returns all windows of the result, in its order. `order` contains the rows in merged order,
    /// and `key` returns the key of a row.
    pub(crate) fn groups(
        &self,
        order: &[usize],
        all: &Side,
        layout: &Layout,
        key: impl Fn(usize) -> [u8; 2],
    ) -> Vec<Group> {
        let mut groups: BTreeMap<Place, Group> = BTreeMap::new();
        let mut add = |place: Place, end: i128, row: usize| {
            let new = || Group { start: place.0, end, key: row, rows: Vec::new(), copied: None };
            let group = groups.entry(place).or_insert_with(new);
            group.end = end;
            group.rows.push(row);
        };
        let times = order.iter().map(|&row| (row, all.rows.ts[row], key(row)));
        match self {
            Span::Session(gap) => {
                let ids = all.rows.ids();
                let mut open: BTreeMap<[u8; 2], (i128, i128)> = BTreeMap::new();
                for (row, ts, key) in times {
                    let end = ts
                        + match gap {
                            Gap::Fixed(gap) => *gap,
                            Gap::OfRows => i128::from(ids[row] % 4 + 1) * layout.steps()[0],
                        };
                    let last = open.entry(key).or_insert((ts, end));
                    *last = if ts < last.1 { (last.0, last.1.max(end)) } else { (ts, end) };
                    add((last.0, 0, key, 0), last.1, row);
                }
            }
            Span::Rows(counts) => {
                let mut of_keys: BTreeMap<[u8; 2], Vec<usize>> = BTreeMap::new();
                times.for_each(|(row, _, key)| of_keys.entry(key).or_default().push(row));
                let (size, advance) = (counts.size as usize, counts.advance as usize);
                for (key, rows) in of_keys {
                    for (number, first) in (0..rows.len()).step_by(advance).enumerate() {
                        let inside = &rows[first..rows.len().min(first + size)];
                        let start = all.rows.ts[inside[0]];
                        inside
                            .iter()
                            .for_each(|&row| add((start, 0, key, number), all.rows.ts[row], row));
                        if first + size >= rows.len() {
                            break;
                        }
                    }
                }
            }
            Span::Listed(windows) => {
                for (row, ts, key) in times {
                    let inside = windows.iter().filter(|(start, end)| (*start..*end).contains(&ts));
                    inside.for_each(|&(start, end)| add((start, end, key, 0), end, row));
                }
            }
            Span::Sliding(sliding) => {
                for (row, ts, key) in times {
                    let ts = if sliding.is_closed_right { ts - layout.steps()[0] } else { ts };
                    let inside = sliding.that_contain(ts);
                    inside.into_iter().for_each(|(start, end)| add((start, end, key, 0), end, row));
                }
                sliding.fill(&mut groups);
            }
        }
        groups.into_values().collect()
    }
}

impl Sliding {
    /// Returns the windows that contain a time, if windows contain their starts.
    fn that_contain(&self, ts: i128) -> Vec<(i128, i128)> {
        let mut start = (ts - self.offset).div_euclid(self.advance) * self.advance + self.offset;
        let mut found = Vec::new();
        while start + self.size > ts {
            found.extend(self.that_start(start).into_iter().filter(|(_, end)| *end > ts));
            start -= self.advance;
        }
        found
    }

    /// Returns the windows that start at a time.
    fn that_start(&self, start: i128) -> Vec<(i128, i128)> {
        let Some(step) = self.step else { return vec![(start, start + self.size)] };
        let count = (self.size + step - 1) / step;
        (1..=count).map(|number| (start, start + (number * step).min(self.size))).collect()
    }

    /// Adds the windows without rows.
    fn fill(&self, groups: &mut BTreeMap<Place, Group>) {
        let Some((fill, keep)) = self.fill else { return };
        let mut of_keys: BTreeMap<[u8; 2], Vec<Group>> = BTreeMap::new();
        for (&(_, _, key, _), group) in &*groups {
            of_keys.entry(key).or_default().push(group.clone());
        }
        for (key, known) in of_keys {
            for group in known {
                let mut start = group.start;
                'until_rows: while start <= group.start + keep {
                    for (start, end) in self.that_start(start) {
                        if (start, end) <= (group.start, group.end) {
                            continue;
                        }
                        let place = (start, end, key, 0);
                        if groups.get(&place).is_some_and(|group| !group.rows.is_empty()) {
                            break 'until_rows;
                        }
                        let copied = matches!(fill, Fill::Last).then(|| group.rows.clone());
                        let (rows, key) = (Vec::new(), group.key);
                        groups.insert(place, Group { start, end, key, rows, copied });
                    }
                    start += self.advance;
                }
            }
        }
    }
}

/// Returns the table that lists the windows.
fn table(windows: &BTreeSet<(i128, i128)>, layout: &Layout) -> WindowTable {
    let kind = &layout.times[0];
    let column = |of: fn(&(i128, i128)) -> i128| {
        time_column(windows.iter().map(|window| Some(of(window))), kind)
    };
    let names = ["window_start", "window_end"];
    let fields: Vec<Field> =
        names.iter().map(|name| Field::new(*name, kind.clone(), false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let columns = vec![column(|window| window.0), column(|window| window.1)];
    let batch = RecordBatch::try_new(schema.clone(), columns).expect("two columns of times");
    let driver = Driver::new(1, Stop::default());
    let table = Table::new("windows", schema, vec![batch], &driver).expect("a table of times");
    WindowTable::new(&table, &[], |_| Ok(0)).expect("a table of windows")
}

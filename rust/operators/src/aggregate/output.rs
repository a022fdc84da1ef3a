//! Result rows as pages. A page contains windows, keys and columns of values.

use tidegate_structures::memory::pages::Pages;

use super::held::HeldValues;

/// Rows of the result, sorted by window and then by key.
#[derive(Debug)]
pub struct Page {
    /// The number of rows. Columns can contain more values than there are rows; the excess values
    /// are meaningless.
    pub rows: usize,
    /// The windows, in the order of the rows.
    pub windows: Vec<Window>,
    /// The key of each row.
    pub keys: Pages<u32>,
    /// The values of each aggregate.
    pub columns: Vec<OutputColumn>,
}

impl Page {
    /// Returns the rows for the windows that `is_wanted` accepts.
    pub fn only(self, is_wanted: impl Fn(&Window) -> bool) -> Page {
        if self.windows.iter().all(&is_wanted) {
            return self;
        }
        let mut rows: Vec<usize> = Vec::new();
        let mut end = 0;
        for window in &self.windows {
            let start = end;
            end += window.rows;
            rows.extend((start..end).filter(|_| is_wanted(window)));
        }
        let windows = self.windows.iter().filter(|window| is_wanted(window)).copied().collect();
        self.some(&rows, windows)
    }

    /// Splits the page before each row in `borders`. The borders must be in ascending order.
    pub fn cut(self, borders: &[usize]) -> Vec<Page> {
        if borders.is_empty() {
            return vec![self];
        }
        let mut windows = self.windows.iter().copied().peekable();
        let mut start = 0;
        let ends = borders.iter().copied().chain([self.rows]);
        let part = |end: usize| {
            let rows: Vec<usize> = (start..end).collect();
            let mut missing = rows.len();
            let mut own = Vec::new();
            while missing > 0
                && let Some(window) = windows.peek_mut()
            {
                let taken = window.rows.min(missing);
                own.push(Window { rows: taken, ..*window });
                missing -= taken;
                window.rows -= taken;
                if window.rows == 0 {
                    windows.next();
                }
            }
            start = end;
            self.some(&rows, own)
        };
        ends.map(part).collect()
    }

    /// Returns a page with the given rows and windows.
    fn some(&self, rows: &[usize], windows: Vec<Window>) -> Page {
        Page {
            rows: rows.len(),
            windows,
            keys: Pages::collect(rows.iter().map(|&row| self.keys[row])),
            columns: self.columns.iter().map(|column| column.only(rows)).collect(),
        }
    }
}

/// A window from `start` to `end`, and the number of its result rows in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The start of the window, inclusive.
    pub start: i64,
    /// The end of the window, exclusive.
    pub end: i64,
    /// The number of keys that have rows in the window.
    pub rows: usize,
}

/// The values of an aggregate.
#[derive(Debug)]
pub struct OutputColumn {
    /// One value per row. The entries for missing values are meaningless.
    pub values: OutputValues,
    /// The rows in the page without a value, in ascending order.
    pub missing: Vec<usize>,
}

impl OutputColumn {
    /// Returns the values of the given rows, which must be in ascending order.
    fn only(&self, rows: &[usize]) -> OutputColumn {
        fn only<T: OutputValue>(values: &[T], rows: &[usize]) -> Pages<T> {
            Pages::collect(rows.iter().map(|&row| values[row]))
        }
        let is_missing = |(_, row): &(usize, &usize)| self.missing.binary_search(row).is_ok();
        OutputColumn {
            missing: rows.iter().enumerate().filter(is_missing).map(|(at, _)| at).collect(),
            values: match &self.values {
                OutputValues::Integers(values) => OutputValues::Integers(only(values, rows)),
                OutputValues::Wide(values) => OutputValues::Wide(only(values, rows)),
                OutputValues::Floats(values) => OutputValues::Floats(only(values, rows)),
                OutputValues::Held(values) => OutputValues::Held(only(values, rows)),
                OutputValues::Rows(values) => OutputValues::Rows(only(values, rows)),
                OutputValues::Lists { ends, rows: all } => {
                    let mut listed = Vec::new();
                    let list = |row: usize| match row.checked_sub(1) {
                        None => &all[..ends[row]],
                        Some(before) => &all[ends[before]..ends[row]],
                    };
                    let end = |&row: &usize| {
                        listed.extend_from_slice(list(row));
                        listed.len()
                    };
                    let ends = rows.iter().map(end).collect();
                    OutputValues::Lists { ends, rows: listed }
                }
            },
        }
    }
}

/// Values of the same type.
#[derive(Debug)]
pub enum OutputValues {
    /// Counts, sums, minimums and maximums.
    Integers(Pages<i64>),
    /// Sums that need 128 bits.
    Wide(Pages<i128>),
    /// Sums, means and variances of floats.
    Floats(Pages<f64>),
    /// Values that hold until the end of a window. [`HeldValues::mean`] returns their mean.
    Held(Pages<HeldValues>),
    /// Row numbers, counted across all sources.
    Rows(Pages<u32>),
    /// Lists of row numbers, stored consecutively.
    Lists {
        /// The end of each list.
        ends: Vec<usize>,
        /// The row numbers.
        rows: Vec<u32>,
    },
}

/// A numeric function result.
pub trait OutputValue: bytemuck::AnyBitPattern + bytemuck::NoUninit + Default + Send {
    /// Converts values of this type into a column.
    fn column(values: Pages<Self>) -> OutputValues;
}

impl OutputValue for i64 {
    fn column(values: Pages<Self>) -> OutputValues {
        OutputValues::Integers(values)
    }
}

impl OutputValue for i128 {
    fn column(values: Pages<Self>) -> OutputValues {
        OutputValues::Wide(values)
    }
}

impl OutputValue for f64 {
    fn column(values: Pages<Self>) -> OutputValues {
        OutputValues::Floats(values)
    }
}

impl OutputValue for u32 {
    fn column(values: Pages<Self>) -> OutputValues {
        OutputValues::Rows(values)
    }
}

impl OutputValue for HeldValues {
    fn column(values: Pages<Self>) -> OutputValues {
        OutputValues::Held(values)
    }
}

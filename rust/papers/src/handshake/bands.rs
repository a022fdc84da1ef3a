//! A predicate for numbers. For each column, a row matches a range of the other side's values.
//!
//! Bands, comparisons and equalities can all be written as ranges. `operators::predicate` converts
//! conditions into ranges. The kernels in `structures::scan` compare several new rows with each
//! tile of a window.

use std::ops::Range;

use tidegate_structures::simd::scan::{Lane, Span, scan, scan_two};

use super::predicate::{Columns, Lookup, Pair, Predicate, SearchStructure};

/// The number of new rows compared with each tile of a window.
const TOGETHER: usize = 4;

/// The number of window rows that stay in the first-level cache while all new rows are compared
/// with them.
const PART: usize = 4096;

/// Rows of numbers. Each row also has the ranges of numbers that it matches on the other side.
#[derive(Clone, Debug, Default)]
pub struct NumberRows<T> {
    rows: usize,
    columns: Vec<NumberColumn<T>>,
    /// A copy of the first column, for predicates that look up rows by this column.
    keys: Vec<i64>,
}

/// One number per row.
#[derive(Clone, Debug, Default)]
pub struct NumberColumn<T> {
    /// The numbers, as unsigned integers that sort in the same order.
    pub values: Vec<T>,
    /// The range of the other side's numbers that each row matches. The relation is symmetric: two
    /// rows match in both directions or in neither.
    pub takes: Vec<Span<T>>,
}

impl<T: Lane + Into<u64>> NumberRows<T> {
    /// Creates rows of these columns. If `keyed` is true, the rows can be looked up by the first
    /// column.
    ///
    /// # Panics
    ///
    /// Panics if the columns differ in length, or if `keyed` is true and there are no columns.
    pub fn new(rows: usize, columns: Vec<NumberColumn<T>>, keyed: bool) -> Self {
        assert!(
            columns.iter().all(|column| [column.values.len(), column.takes.len()] == [rows; 2]),
            "a value for each row"
        );
        let keys = if keyed {
            columns[0].values.iter().map(|&value| key(value.into())).collect()
        } else {
            Vec::new()
        };
        NumberRows { rows, columns, keys }
    }
}

/// Returns a signed integer that sorts in the same order.
fn key(value: u64) -> i64 {
    (value ^ 1 << 63) as i64
}

impl<T: Lane + Into<u64> + std::fmt::Debug> Columns for NumberRows<T> {
    fn len(&self) -> usize {
        self.rows
    }

    fn push_rows(&mut self, from: &Self, rows: Range<usize>) {
        self.rows += rows.len();
        self.columns.resize_with(from.columns.len(), NumberColumn::default);
        for (own, from) in self.columns.iter_mut().zip(&from.columns) {
            own.values.extend_from_slice(&from.values[rows.clone()]);
            own.takes.extend_from_slice(&from.takes[rows.clone()]);
        }
        if !from.keys.is_empty() {
            self.keys.extend_from_slice(&from.keys[rows]);
        }
    }

    fn drop_first(&mut self, rows: usize) {
        self.rows -= rows;
        for column in &mut self.columns {
            column.values.drain(..rows);
            column.values.shrink_to(2 * self.rows);
            column.takes.drain(..rows);
            column.takes.shrink_to(2 * self.rows);
        }
        if !self.keys.is_empty() {
            self.keys.drain(..rows);
            self.keys.shrink_to(2 * self.rows);
        }
    }

    fn row_bytes(&self) -> usize {
        self.columns.len() * (size_of::<T>() + size_of::<Span<T>>())
            + if self.keys.is_empty() { 0 } else { 8 }
    }
}

/// A predicate that matches two rows if each row's ranges contain all of the other row's numbers.
#[derive(Clone, Copy, Debug)]
pub struct BandPredicate<T> {
    lookup: Option<SearchStructure>,
    of: std::marker::PhantomData<fn(T)>,
}

impl<T> BandPredicate<T> {
    /// Creates a predicate that compares all rows, or looks them up by the first column. A hash
    /// table requires that the condition on this column be an equality.
    pub fn new(lookup: Option<SearchStructure>) -> Self {
        BandPredicate { lookup, of: std::marker::PhantomData }
    }
}

impl<T: Lane + Into<u64> + std::fmt::Debug> Predicate for BandPredicate<T> {
    type Left = NumberRows<T>;
    type Right = NumberRows<T>;

    fn pairs(
        &self,
        left: &NumberRows<T>,
        left_rows: Range<usize>,
        right: &NumberRows<T>,
        right_rows: Range<usize>,
        pairs: &mut Vec<Pair>,
    ) {
        if left_rows.len() < right_rows.len() {
            compare(left, left_rows, right, right_rows, |left, right| {
                pairs.push(Pair { left, right })
            });
        } else {
            compare(right, right_rows, left, left_rows, |right, left| {
                pairs.push(Pair { left, right })
            });
        }
    }

    fn lookup(&self) -> Option<&dyn Lookup<NumberRows<T>, NumberRows<T>>> {
        self.lookup.is_some().then_some(self)
    }
}

/// Calls `each` with every pair of a new row and a matching row in the window.
fn compare<T: Lane>(
    new: &NumberRows<T>,
    new_rows: Range<usize>,
    window: &NumberRows<T>,
    window_rows: Range<usize>,
    mut each: impl FnMut(u32, u32),
) {
    for start in window_rows.clone().step_by(PART) {
        let part = start..window_rows.end.min(start + PART);
        let mut row = new_rows.start;
        while row + TOGETHER <= new_rows.end {
            compare_some::<T, TOGETHER>(new, row, window, part.clone(), &mut each);
            row += TOGETHER;
        }
        (row..new_rows.end)
            .for_each(|row| compare_some::<T, 1>(new, row, window, part.clone(), &mut each));
    }
}

/// Compares `N` new rows, from `first` onwards.
fn compare_some<T: Lane, const N: usize>(
    new: &NumberRows<T>,
    first: usize,
    window: &NumberRows<T>,
    part: Range<usize>,
    each: &mut impl FnMut(u32, u32),
) {
    let mut found: [Vec<u32>; N] = std::array::from_fn(|_| Vec::new());
    let spans = |column: usize| std::array::from_fn(|nth| new.columns[column].takes[first + nth]);
    let values = |column: usize| &window.columns[column].values[part.clone()];
    let base = part.start as u32;
    match window.columns.len() {
        0 => found.iter_mut().for_each(|found| found.extend(part.start as u32..part.end as u32)),
        1 => scan::<T, N>(values(0), &spans(0), base, &mut found),
        _ => scan_two::<T, T, N>(values(0), values(1), &spans(0), &spans(1), base, &mut found),
    }
    for (row, found) in (first..).zip(found) {
        let rest = || new.columns.iter().zip(&window.columns).skip(2);
        let takes = |place: &u32| {
            rest().all(|(new, window)| window.values[*place as usize].within(new.takes[row]))
        };
        found.into_iter().filter(takes).for_each(|place| each(row as u32, place));
    }
}

impl<T: Lane + Into<u64> + std::fmt::Debug> BandPredicate<T> {
    /// Returns the range of keys that a row matches.
    fn reach(&self, row: &NumberRows<T>, at: usize) -> (i64, i64) {
        let takes = row.columns[0].takes[at];
        let (low, width): (u64, u64) = (takes.low.into(), takes.width.into());
        (key(low), key(low + width))
    }
}

impl<T: Lane + Into<u64> + std::fmt::Debug> Lookup<NumberRows<T>, NumberRows<T>>
    for BandPredicate<T>
{
    fn kind(&self) -> SearchStructure {
        self.lookup.expect("a predicate with a lookup has a search structure")
    }

    fn left_values<'a>(&self, left: &'a NumberRows<T>) -> &'a [i64] {
        &left.keys
    }

    fn right_values<'a>(&self, right: &'a NumberRows<T>) -> &'a [i64] {
        &right.keys
    }

    fn left_reach(&self, right: &NumberRows<T>, row: usize) -> Option<(i64, i64)> {
        Some(self.reach(right, row))
    }

    fn right_reach(&self, left: &NumberRows<T>, row: usize) -> Option<(i64, i64)> {
        Some(self.reach(left, row))
    }

    fn retain(&self, left: &NumberRows<T>, right: &NumberRows<T>, pairs: &mut Vec<Pair>) {
        // The index has searched by the first column. Test the other columns first, because most
        // pairs fail there.
        pairs.retain(|pair| {
            let (l, r) = (pair.left as usize, pair.right as usize);
            left.columns
                .iter()
                .zip(&right.columns)
                .rev()
                .all(|(left, right)| right.values[r].within(left.takes[l]))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns columns of numbers below 40. Two numbers match if they differ by at most `within`.
    fn numbers(rows: usize, columns: usize, within: u32, seed: usize) -> NumberRows<u32> {
        let column = |nth: usize| {
            let value = |row: usize| 100 + ((row + seed) * (7 + 4 * nth) * (row + 3) % 40) as u32;
            let values: Vec<u32> = (0..rows).map(value).collect();
            let takes = values
                .iter()
                .map(|value| Span { low: value - within, width: 2 * within })
                .collect();
            NumberColumn { values, takes }
        };
        NumberRows::new(rows, (0..columns).map(column).collect(), columns > 0)
    }

    #[test]
    fn oracle_all_pairs_one_by_one() {
        for (columns, within) in [(0, 0), (1, 0), (1, 5), (2, 6), (3, 12)] {
            let (left, right) =
                (numbers(23, columns, within, 0), numbers(5000, columns, within, 11));
            let matches = |l: usize, r: usize| {
                left.columns
                    .iter()
                    .zip(&right.columns)
                    .all(|(a, b)| a.values[l].abs_diff(b.values[r]) <= within)
            };
            for (l, r) in [(0..23, 0..5000), (3..10, 17..4801), (0..23, 4..9), (2..2, 0..9)] {
                let all = l.clone().flat_map(|l| r.clone().map(move |r| (l, r)));
                let expected: Vec<_> = all.filter(|&(l, r)| matches(l, r)).collect();
                let mut found = Vec::new();
                BandPredicate::new(None).pairs(&left, l, &right, r, &mut found);
                found.sort_unstable();
                let found: Vec<_> =
                    found.iter().map(|pair| (pair.left as usize, pair.right as usize)).collect();
                assert_eq!(found, expected, "{columns} columns");
            }
            if columns > 0 {
                let bands = BandPredicate::new(Some(SearchStructure::Ordered));
                for row in 0..23 {
                    let (low, high) = bands.right_reach(&left, row).expect("each row has a match");
                    for (r, key) in bands.right_values(&right).iter().enumerate() {
                        let takes = left.columns[0].values[row]
                            .abs_diff(right.columns[0].values[r])
                            <= within;
                        assert_eq!((low..=high).contains(key), takes);
                    }
                }
            }
        }
    }
}

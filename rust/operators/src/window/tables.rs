//! Finds the matching pairs of rows in two whole tables, using a sliding-window join.

use tidegate_structures::memory;
use tidegate_structures::memory::pages::Pages;

use super::SlidingJoin;
use crate::driver::Driver;
use crate::order::time_order;
use crate::predicate::{Operand, Term};
use crate::rows::{Filter, FilterError, JoinError, Results, Side};

/// The number of rows per epoch.
const EPOCH_ROWS: usize = if cfg!(test) { 7 } else { 1 << 16 };

/// The rows on one side in time order.
struct SortedSide<'a> {
    ts: &'a [i64],
    order: Option<Pages<u32>>,
    /// The number of rows that have been processed.
    taken: usize,
}

impl SortedSide<'_> {
    fn row(&self, nth: usize) -> u32 {
        self.order.as_ref().map_or(nth as u32, |order| order[nth])
    }

    fn next(&self) -> Option<i64> {
        (self.taken < self.ts.len()).then(|| self.ts[self.row(self.taken) as usize])
    }
}

/// Returns the pairs that `join` finds in two tables, in any order. `join` must be an inner join
/// without rows. The arguments contain the rows' times, and the terms contain the numbers of all
/// rows. `filter` receives the row numbers in the tables.
///
/// `check` receives the number of pairs found so far, and can reject more pairs by returning an
/// error.
pub fn pairs(
    join: &mut SlidingJoin,
    [left, right]: [&[i64]; 2],
    terms: &[Term],
    filter: Option<&Filter<'_>>,
    check: impl Fn(u64) -> Result<(), FilterError>,
    driver: &Driver,
) -> Result<Results, JoinError> {
    let sorted = |ts| {
        Ok(SortedSide { ts, order: time_order(ts, driver).map_err(JoinError::Stopped)?, taken: 0 })
    };
    let mut sides: [SortedSide<'_>; 2] = [sorted(left)?, sorted(right)?];
    let mut pairs = Results::default();
    loop {
        // 1. Take the next rows in merged order.
        let (mut ts, mut of_sides, mut rows) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        while ts.len() < EPOCH_ROWS {
            let (side, time) = match (sides[0].next(), sides[1].next()) {
                (None, None) => break,
                (Some(left), Some(right)) if right < left => (Side::Right, right),
                (Some(left), _) => (Side::Left, left),
                (None, Some(right)) => (Side::Right, right),
            };
            let own = &mut sides[side as usize];
            rows[side as usize].push(own.row(own.taken));
            own.taken += 1;
            ts.push(time);
            of_sides.push(side);
        }
        // 2. Find their pairs and, at the end, those that were held back.
        let last = ts.last().copied();
        if last.is_some() {
            let numbers = |term: &Term| -> (Operand, Operand) {
                (
                    term.operand(Side::Left).rows_at(&rows[0]),
                    term.operand(Side::Right).rows_at(&rows[1]),
                )
            };
            let numbers: Vec<_> = terms.iter().map(numbers).collect();
            join.begin(driver, ts, of_sides, Some(&numbers));
            assert!(join.compares(), "if all numbers fit, the numbers of each part fit too");
        } else if join.holds_back() {
            join.flush();
        } else {
            return Ok(pairs);
        }
        let rows_of = |side: Side, number: u32| sides[side as usize].row(number as usize);
        let keep = |left: &[u32], right: &[u32]| {
            let filter = filter.expect("a filter");
            let of = |side: Side, numbers: &[u32]| -> Vec<u32> {
                numbers.iter().map(|&number| rows_of(side, number)).collect()
            };
            filter(&of(Side::Left, left), &of(Side::Right, right))
        };
        let keep: Option<&Filter<'_>> = if filter.is_some() { Some(&keep) } else { None };
        while !join.is_done() {
            driver.check().map_err(JoinError::Stopped)?;
            let [left, right] = [Side::Left, Side::Right].map(|side| join.first(side) as u32);
            let found = join.advance(driver, keep)?.into_results();
            memory::reserve(&mut pairs.left, found.left.len());
            memory::reserve(&mut pairs.right, found.right.len());
            pairs.left.extend(found.left.iter().map(|offset| rows_of(Side::Left, left + offset)));
            pairs
                .right
                .extend(found.right.iter().map(|offset| rows_of(Side::Right, right + offset)));
            check(pairs.left.len() as u64).map_err(JoinError::Filter)?;
        }
        // 3. Remove rows from their windows.
        join.purge([last; 2]);
    }
}

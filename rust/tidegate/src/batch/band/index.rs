//! Table rows are inserted into indexes in merged order, as in a stream.

use std::ops::Range;

use tidegate_operators::band::index::{Bands, most_selective};
use tidegate_operators::driver::Driver;
use tidegate_operators::matches::Matches;
use tidegate_operators::order::time_order;
use tidegate_operators::rows::{How, Progress, RowJoin, Side};

use tidegate_structures::memory;

use super::BandTables;
use crate::batch::join::too_many;
use crate::columns::codes::{CodeRanges, of_keys};
use crate::query::band::{AnyIndexJoin, BandAlgorithm};
use crate::{Error, Result};

/// The number of rows that are inserted into an index together.
const EPOCH_ROWS: usize = 1 << 16;

/// The maximum number of pairs. Pair numbers have 32 bits.
const MOST_PAIRS: u64 = u32::MAX as u64;

/// The rows on one side in merged order.
struct OrderedSide {
    ts: Vec<i64>,
    /// The row numbers, or `None` if the rows are already in this order.
    rows: Option<Vec<u32>>,
    columns: Vec<CodeRanges>,
}

impl OrderedSide {
    fn new(ts: &[i64], columns: Vec<CodeRanges>, driver: &Driver) -> Result<Self> {
        let Some(order) = time_order(ts, driver)? else {
            return Ok(OrderedSide {
                ts: memory::collect(ts.iter().copied()),
                rows: None,
                columns,
            });
        };
        let columns = driver.map(columns, |column| column.take(&order))?;
        Ok(OrderedSide {
            ts: memory::collect(order.iter().map(|&row| ts[row as usize])),
            rows: Some(memory::collect(order.iter().copied())),
            columns,
        })
    }

    fn row(&self, nth: usize) -> u32 {
        self.rows.as_ref().map_or(nth as u32, |rows| rows[nth])
    }

    fn bands(&self) -> Vec<Bands<'_>> {
        self.columns.iter().map(CodeRanges::bands).collect()
    }
}

impl BandTables<'_> {
    /// The matches. There can be at most `most` pairs.
    pub(super) fn index(&self, algorithm: BandAlgorithm, most: Option<u64>) -> Result<Matches> {
        let BandTables { plan, left, right, driver, .. } = *self;
        let (left_ts, right_ts) = match &plan.windows {
            // All rows arrive at the same time, with left rows first, and stay.
            None => (memory::filled(left.rows(), 0), memory::filled(right.rows(), 0)),
            Some(windows) => {
                let (left_ts, right_ts) = windows.times(left, right)?;
                (
                    memory::collect(left_ts.iter().copied()),
                    memory::collect(right_ts.iter().copied()),
                )
            }
        };
        let mut sides = [
            OrderedSide::new(&left_ts, self.ranges(Side::Left)?, driver)?,
            OrderedSide::new(&right_ts, self.ranges(Side::Right)?, driver)?,
        ];
        let (indexed, _) = most_selective(&sides[0].bands(), &sides[1].bands(), 0);
        sides.iter_mut().for_each(|side| side.columns.swap(0, indexed));
        let retention = plan.windows.as_ref().map(|windows| windows.retention);
        let join = algorithm.join(retention, How::Inner, sides[0].columns.len(), false);
        let pairs = self.run(join, &sides, most)?;
        Ok(Matches::of_pairs(&pairs, left.rows(), right.rows(), driver)?)
    }

    /// Returns the values by which a side's rows are compared. The values of band columns come
    /// before the values of keys.
    fn ranges(&self, side: Side) -> Result<Vec<CodeRanges>> {
        let table = [self.left, self.right][side as usize];
        let of_bands =
            self.plan.columns.iter().map(|column| column.ranges(side, table, self.driver));
        let mut ranges = of_bands.collect::<Result<Vec<_>>>()?;
        ranges.extend(self.keys.map(|keys| of_keys([&keys.left, &keys.right][side as usize])));
        Ok(ranges)
    }

    /// Returns the left and right row numbers of all pairs, epoch by epoch.
    fn run(
        &self,
        mut join: AnyIndexJoin,
        sides: &[OrderedSide; 2],
        most: Option<u64>,
    ) -> Result<Vec<(Vec<u32>, Vec<u32>)>> {
        let mut done = [0; 2];
        let (mut pairs, mut count) = (Vec::new(), 0);
        while let Some(last) = self.begin(&mut join, sides, &mut done) {
            while !join.is_done() {
                let progress = join.advance(self.driver, None)?;
                let Progress::Pieces(pieces) = progress else {
                    unreachable!("an inner join of tables always returns pieces")
                };
                let found = self.driver.map(pieces, |piece| numbers(&join, sides, piece))?;
                count += found.iter().map(|(left, _)| left.len() as u64).sum::<u64>();
                if let Some(most) = most.filter(|&most| count > most) {
                    return Err(too_many(count, most));
                }
                if count > MOST_PAIRS {
                    return Err(Error::memory(
                        "the tables have more pairs than the 2^32 - 1 that an index can list; give \
                         algorithm=\"sort\"",
                    ));
                }
                pairs.extend(found);
            }
            join.purge([Some(last); 2]);
        }
        Ok(pairs)
    }

    /// Begins the next epoch, and returns its last time. `done` contains the number of rows on each
    /// side that have already been inserted.
    fn begin(
        &self,
        join: &mut AnyIndexJoin,
        sides: &[OrderedSide; 2],
        done: &mut [usize; 2],
    ) -> Option<i64> {
        let from = *done;
        let (mut ts, mut of) = (Vec::with_capacity(EPOCH_ROWS), Vec::with_capacity(EPOCH_ROWS));
        while ts.len() < EPOCH_ROWS {
            let [left, right] = [0, 1].map(|side: usize| sides[side].ts.get(done[side]).copied());
            let side = match (left, right) {
                (None, None) => break,
                (Some(left), Some(right)) if right < left => Side::Right,
                (Some(_), _) => Side::Left,
                (None, Some(_)) => Side::Right,
            };
            ts.extend([left, right][side as usize]);
            of.push(side);
            done[side as usize] += 1;
        }
        let last = ts.last().copied()?;
        let bands = [0, 1].map(|side: usize| -> Vec<Bands<'_>> {
            sides[side].columns.iter().map(|column| column.part(from[side]..done[side])).collect()
        });
        join.begin(self.driver, ts, of, [&bands[0], &bands[1]]);
        Some(last)
    }
}

/// Returns the left and right row numbers of the pairs in a piece.
fn numbers(
    join: &AnyIndexJoin,
    sides: &[OrderedSide; 2],
    piece: Range<usize>,
) -> (Vec<u32>, Vec<u32>) {
    let found = join.assemble(piece);
    let [left_first, right_first] = [Side::Left, Side::Right].map(|side| join.first(side) as usize);
    let left = found.left.iter().map(|&offset| sides[0].row(left_first + offset as usize));
    let right = found.right.iter().map(|&offset| sides[1].row(right_first + offset as usize));
    (left.collect(), right.collect())
}

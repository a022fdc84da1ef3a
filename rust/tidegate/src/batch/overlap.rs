//! The overlap join of two tables.

use tidegate_operators::driver::Driver;
use tidegate_operators::matches::BitSet;
use tidegate_operators::overlap::{IntervalColumns, Overlaps, count_overlaps};
use tidegate_structures::memory::pages::Pages;
use tidegate_structures::memory::partition::ranges;
use tidegate_sync::Stop;

use super::join::{Candidates, Found, Join};
use super::partners::{FoundPartners, Source};
use super::sides::keys_of_some;
use crate::columns::keys::Keys;
use crate::columns::table::Table;
use crate::columns::time::{self, Int64s};
use crate::query::overlap::{OverlapJoin, OverlapPlan};
use crate::{Error, Result};

/// Rows that a thread checks at a time.
const PART_ROWS: usize = 1 << 16;

impl OverlapJoin {
    /// Finds the pairs of two tables. The rows of the result are made when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        let sides = Sides::new(&plan, left, right, &driver)?;
        let key_method = sides.key_method();
        // Whether a row has pairs, their number tells.
        let are_counted = !self.options.how.pairs() && plan.join.predicate.is_none();
        let candidates = sides.find(are_counted, &driver)?.0;
        let found = Found { key_method, candidates };
        Join::new(&self.options, plan.join, (left, right), found, None, driver)
    }

    /// Finds the partners of the left rows of two tables, or only how many each has.
    pub(super) fn partners(
        &self,
        left: &Table,
        right: &Table,
        are_counted: bool,
        driver: &Driver,
    ) -> Result<FoundPartners> {
        let plan = self.plan(left.schema(), right.schema())?;
        let sides = Sides::new(&plan, left, right, driver)?;
        let key_method = sides.key_method();
        let are_counted = are_counted && plan.join.predicate.is_none();
        let (candidates, starts) = sides.find(are_counted, driver)?;
        let partners = Source::Pairs(Found { key_method, candidates }, Some(starts));
        Ok(FoundPartners { plan: plan.join, key_method, partners })
    }
}

/// The intervals and keys of two tables.
struct Sides {
    left: Intervals,
    right: Intervals,
    keys: Option<Keys>,
}

impl Sides {
    fn new(plan: &OverlapPlan, left: &Table, right: &Table, driver: &Driver) -> Result<Self> {
        let [of_left, of_right] = plan.columns;
        let of_left = Intervals::read(left, of_left, plan, driver)?;
        let of_right = Intervals::read(right, of_right, plan, driver)?;
        let mut keys = plan.join.encode_keys(left, right, driver)?;
        let without = [&of_left.without[..], &of_right.without];
        keys_of_some(&mut keys, (left.rows(), right.rows()), without);
        Ok(Sides { left: of_left, right: of_right, keys })
    }

    /// How keys were numbered.
    fn key_method(&self) -> &'static str {
        self.keys.as_ref().map_or("none", |keys| keys.method)
    }

    /// The pairs, or only how many each left row has, and the starts of right rows.
    fn find(self, are_counted: bool, driver: &Driver) -> Result<(Candidates, Int64s)> {
        let keys = self.keys.as_ref();
        let left = self.left.columns(keys.map(|keys| &*keys.left));
        let right = self.right.columns(keys.map(|keys| &*keys.right));
        let key_count = keys.map_or(1, |keys| keys.count);
        let candidates = match are_counted {
            true => Candidates::runs(count_overlaps(left, right, key_count, driver)?),
            false => {
                let overlaps = Overlaps::new(left, right, key_count, driver)?;
                Candidates::Overlaps(Box::new(overlaps), self.left.starts)
            }
        };
        Ok((candidates, self.right.starts))
    }
}

/// The intervals of a table's rows.
struct Intervals {
    starts: Int64s,
    /// The last time at which a row that starts then overlaps it.
    ends: Int64s,
    /// Rows that overlap nothing: a start or an end is missing, or they are too short.
    without: Vec<u32>,
}

impl Intervals {
    fn read(
        table: &Table,
        (start, end): (usize, usize),
        plan: &OverlapPlan,
        driver: &Driver,
    ) -> Result<Self> {
        let (starts, no_starts) = time::times_or_nulls(table, start, plan.unit)?;
        let (mut ends, no_ends) = time::times_or_nulls(table, end, plan.unit)?;
        let mut missing = BitSet::new(table.rows());
        no_starts.iter().chain(&no_ends).for_each(|&row| missing.insert(row as usize));
        let has_missing = !no_starts.is_empty() || !no_ends.is_empty();
        let parts = ranges(table.rows(), table.rows().div_ceil(PART_ROWS).max(1));
        let found = driver.map(parts, |part| {
            let mut without = Vec::new();
            for row in part {
                let (start, end) = (starts[row], ends[row]);
                let is_missing = has_missing && missing.contains(row);
                if is_missing || end.checked_sub(plan.least).is_none_or(|last| last < start) {
                    if !is_missing && end < start {
                        return Err(row);
                    }
                    without.push(row as u32);
                }
            }
            Ok(without)
        })?;
        let without = found.into_iter().collect::<std::result::Result<Vec<_>, usize>>();
        let without = without.map_err(|row| {
            let name = |column| table.schema().field(column).name();
            let after = i128::from(starts[row]) - i128::from(ends[row]);
            Error::data(format!(
                "{}: row {row}: column `{}` is {after} {} after column `{}`, expected a start that \
                 is not after its end; swap the two, or filter such rows out first",
                table.name(),
                name(start),
                plan.unit.steps_name(),
                name(end),
            ))
        })?;
        if plan.least > 0 {
            let last = ends.iter().map(|end| end.wrapping_sub(plan.least));
            ends = Int64s::Own(Pages::collect(last));
        }
        Ok(Intervals { starts, ends, without: without.concat() })
    }

    fn columns<'a>(&'a self, keys: Option<&'a [u32]>) -> IntervalColumns<'a> {
        IntervalColumns { starts: &self.starts, ends: &self.ends, keys }
    }
}

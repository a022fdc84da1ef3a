//! The interval join of two tables.

use tidegate_operators::driver::Driver;
use tidegate_operators::interval::interval_join;
use tidegate_operators::order::JoinColumns;
use tidegate_sync::Stop;

use super::join::Join;
use crate::Result;
use crate::columns::table::Table;
use crate::columns::time;
use crate::query::interval::IntervalJoin;

impl IntervalJoin {
    /// Finds the pairs of two tables. The rows of the result are made when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        let left_ts = time::times(left, plan.times.0, plan.unit)?;
        let right_ts = time::times(right, plan.times.1, plan.unit)?;
        let keys = plan.join.encode_keys(left, right, &driver)?;
        let left_side = JoinColumns { ts: &left_ts, keys: keys.as_ref().map(|keys| &*keys.left) };
        let right_side =
            JoinColumns { ts: &right_ts, keys: keys.as_ref().map(|keys| &*keys.right) };
        let key_count = keys.as_ref().map_or(1, |keys| keys.count);
        let matches = interval_join(left_side, right_side, key_count, &plan.interval, &driver)?;
        let key_method = keys.as_ref().map_or("none", |keys| keys.method);
        Join::new(&self.options, plan.join, left, right, key_method, (matches, Vec::new()), driver)
    }
}

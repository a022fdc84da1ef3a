//! The window join of two tables.

use tidegate_operators::driver::Driver;
use tidegate_operators::interval::interval_join;
use tidegate_operators::order::JoinColumns;
use tidegate_operators::rows::{Interval, Retention};
use tidegate_operators::window::counts::{Counts, count_window_join};
use tidegate_sync::Stop;

use super::join::Join;
use super::sliding;
use crate::Result;
use crate::columns::table::Table;
use crate::query::options::JoinPlan;
use crate::query::window::WindowJoin;

impl WindowJoin {
    /// Finds the pairs of two tables. The rows of the result are made when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        let (left_ts, right_ts) = plan.windows.times(left, right)?;
        let keys = plan.join.encode_keys(left, right, &driver)?;
        let key_method = keys.as_ref().map_or("none", |keys| keys.method);
        if let Some(algorithm) = self.algorithm {
            let tables =
                sliding::Tables { left, right, ts: [&left_ts, &right_ts], keys: keys.as_ref() };
            let matches = self.compare(algorithm, &plan, &tables, &driver)?;
            let plan = JoinPlan { predicate: None, ..plan.join };
            return Join::new(
                &self.options,
                plan,
                left,
                right,
                key_method,
                (matches, Vec::new()),
                driver,
            );
        }
        let left_side = JoinColumns { ts: &left_ts, keys: keys.as_ref().map(|keys| &*keys.left) };
        let right_side =
            JoinColumns { ts: &right_ts, keys: keys.as_ref().map(|keys| &*keys.right) };
        let key_count = keys.as_ref().map_or(1, |keys| keys.count);
        let matches = match plan.windows.retention {
            // A right row comes at most so much after a left row as that one stays, and the
            // reverse.
            Retention::Time { left, right } => interval_join(
                left_side,
                right_side,
                key_count,
                &Interval::of_windows(left, right),
                &driver,
            )?,
            Retention::Rows { left, right } => {
                let counts = Counts { left: left as usize, right: right as usize };
                count_window_join(left_side, right_side, key_count, counts, &driver)?
            }
        };
        Join::new(&self.options, plan.join, left, right, key_method, (matches, Vec::new()), driver)
    }
}

//! The band join of two tables.

mod index;
mod sort;

use tidegate_operators::driver::Driver;
use tidegate_sync::Stop;

use super::join::Join;
use crate::Result;
use crate::columns::keys::Keys;
use crate::columns::table::Table;
use crate::query::band::{BandAlgorithm, BandJoin, BandPlan, MOST_CANDIDATES};
use crate::query::options::JoinOptions;

/// The tables of a join.
struct Tables<'a> {
    plan: &'a BandPlan,
    left: &'a Table,
    right: &'a Table,
    keys: Option<&'a Keys>,
    driver: &'a Driver,
}

impl BandJoin {
    /// Finds the pairs of two tables. The rows of the result are made when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        let keys = plan.join.encode_keys(left, right, &driver)?;
        let key_method = keys.as_ref().map_or("none", |keys| keys.method);
        let tables = Tables { plan: &plan, left, right, keys: keys.as_ref(), driver: &driver };
        let found = match self.algorithm {
            BandAlgorithm::Sort => tables.sort(f64::INFINITY)?,
            BandAlgorithm::Auto if plan.windows.is_none() => tables.sort(f64::INFINITY)?,
            BandAlgorithm::Auto => tables.sort(MOST_CANDIDATES)?,
            _ => None,
        };
        let found = match found {
            Some(found) => found,
            None => (tables.index(self.algorithm, self.most_pairs())?, Vec::new()),
        };
        Join::new(&self.options, plan.join, left, right, key_method, found, driver)
    }

    /// The most pairs that a result can have, if it has pairs.
    fn most_pairs(&self) -> Option<u64> {
        let JoinOptions { how, predicate, max_rows, .. } = &self.options;
        max_rows.filter(|_| how.pairs() && predicate.is_none())
    }
}

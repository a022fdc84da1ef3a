//! The band join of two tables.
//!
//! By default, tables are sorted (`sort.rs`). In some joins, a window acts as an additional band
//! column. If a sample then shows that each column alone leaves too many candidates per left row,
//! rows are instead inserted into indexes in merged order (`index.rs`).

mod index;
mod sort;

use tidegate_operators::driver::Driver;
use tidegate_sync::Stop;

use super::join::Join;
use super::pairs::{Candidates, FoundPairs};
use super::partners::{FoundPartners, PartnerPlaces};
use crate::Result;
use crate::columns::keys::Keys;
use crate::columns::table::Table;
use crate::query::band::{BandAlgorithm, BandJoin, BandPlan, MOST_CANDIDATES};
use crate::query::options::JoinOptions;
use crate::query::window::WindowPlan;

/// The tables of a join.
struct BandTables<'a> {
    plan: &'a BandPlan,
    left: &'a Table,
    right: &'a Table,
    keys: Option<&'a Keys>,
    driver: &'a Driver,
}

impl BandJoin {
    /// Finds the pairs of two tables. The result rows are built when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        let found = self.find(&plan, left, right, self.most_pairs(), &driver)?;
        Join::new(&self.options, plan.join, (left, right), found, None, driver)
    }

    /// Finds the partners of the left table's rows.
    pub(in crate::batch) fn partners(
        &self,
        left: &Table,
        right: &Table,
        driver: &Driver,
    ) -> Result<FoundPartners> {
        let plan = self.plan(left.schema(), right.schema())?;
        let found = self.find(&plan, left, right, None, driver)?;
        let times = |windows: &WindowPlan| windows.times(left, right);
        let ts = plan.windows.as_ref().map(times).transpose()?.map(|(_, right)| right);
        let key_method = found.key_method;
        Ok(FoundPartners { plan: plan.join, key_method, partners: PartnerPlaces::Pairs(found, ts) })
    }

    /// Finds the pairs. If `most` is set, there can be at most this many pairs.
    fn find(
        &self,
        plan: &BandPlan,
        left: &Table,
        right: &Table,
        most: Option<u64>,
        driver: &Driver,
    ) -> Result<FoundPairs> {
        let keys = plan.join.encode_keys(left, right, driver)?;
        let key_method = keys.as_ref().map_or("none", |keys| keys.method);
        let tables = BandTables { plan, left, right, keys: keys.as_ref(), driver };
        let found = match self.algorithm {
            BandAlgorithm::Sort => tables.sort(f64::INFINITY)?,
            BandAlgorithm::Auto if plan.windows.is_none() => tables.sort(f64::INFINITY)?,
            BandAlgorithm::Auto => tables.sort(MOST_CANDIDATES)?,
            _ => None,
        };
        let candidates = match found {
            Some((matches, checks)) if !checks.is_empty() => Candidates::Checked(matches, checks),
            Some((matches, _)) => Candidates::runs(matches),
            None => Candidates::runs(tables.index(self.algorithm, most)?),
        };
        Ok(FoundPairs { key_method, candidates })
    }

    /// If the result consists of pairs and the number of pairs is limited, returns the limit.
    fn most_pairs(&self) -> Option<u64> {
        let JoinOptions { how, predicate, max_rows, .. } = &self.options;
        max_rows.filter(|_| how.pairs() && predicate.is_none())
    }
}

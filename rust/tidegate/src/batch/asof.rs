//! The as-of join of two tables.

use tidegate_operators::asof::{
    Rounds, asof_join, asof_join_in, candidates, candidates_in, chosen,
};
use tidegate_operators::driver::Driver;
use tidegate_operators::matches::Matches;
use tidegate_sync::Stop;

use super::condition::Condition;
use super::index::METHOD;
use super::join::Join;
use super::pairs::{Candidates, FoundPairs};
use super::sides::TableSides;
use crate::Result;
use crate::columns::expression::Predicate;
use crate::columns::index::TableIndex;
use crate::columns::table::Table;
use crate::columns::time;
use crate::query::asof::{AsofJoin, AsofPlan};
use crate::query::options::JoinPlan;

/// If a block has at least this many candidates, an index may be worthwhile. A new sample then
/// determines how the candidates are tested.
const LONG_BLOCK: u32 = 1 << 12;

impl AsofJoin {
    /// Finds the partners of the left table's rows. The result rows are built when they are read.
    pub fn start(&self, left: &Table, right: &Table, stop: Stop) -> Result<Join> {
        let driver = Driver::new(self.options.threads, stop);
        let plan = self.plan(left.schema(), right.schema())?;
        let Partners { key_method, condition_method, matches } =
            partners(&plan, left, right, &driver)?;
        let plan = JoinPlan { predicate: None, ..plan.join };
        let found = FoundPairs { key_method, candidates: Candidates::runs(matches) };
        let join = Join::new(&self.options, plan, (left, right), found, None, driver)?;
        Ok(join.with_condition_method(condition_method))
    }
}

/// The partners found for a table's rows, and the method used to find them.
pub(crate) struct Partners {
    key_method: &'static str,
    condition_method: &'static str,
    /// At most one match for each left row.
    pub(crate) matches: Matches,
}

/// Finds the partners of the left table's rows.
pub(crate) fn partners(
    plan: &AsofPlan,
    left: &Table,
    right: &Table,
    driver: &Driver,
) -> Result<Partners> {
    if let Some(index) = right.index()
        && let Some(found) = indexed_partners(index, plan, (left, right), driver)?
    {
        return Ok(found);
    }
    let (left_ts, right_ts) = match plan.asof.ends() {
        Some(ends) => time::both_times((left, right), plan.times, plan.unit, &ends)?,
        None => (
            time::times(left, plan.times.0, plan.unit)?,
            time::times(right, plan.times.1, plan.unit)?,
        ),
    };
    let sides = TableSides {
        left: left_ts,
        right: right_ts,
        keys: plan.join.encode_keys(left, right, driver)?,
    };
    let (key_method, key_count) = (sides.key_method(), sides.key_count());
    let (left_side, right_side) = sides.columns();
    let (matches, condition_method) = match &plan.join.predicate {
        None => (asof_join(left_side, right_side, key_count, &plan.asof, driver)?, "none"),
        Some(predicate) => {
            let rounds = candidates(left_side, right_side, key_count, &plan.asof, driver)?;
            choose(rounds, predicate, (left, right), (&sides.left, &sides.right), driver)?
        }
    };
    Ok(Partners { key_method, condition_method, matches })
}

/// Finds the partners of the left table's rows in an index. Returns `None` if it takes less time to
/// visit all rows.
fn indexed_partners(
    index: &TableIndex,
    plan: &AsofPlan,
    (left, right): (&Table, &Table),
    driver: &Driver,
) -> Result<Option<Partners>> {
    let (on, keys) = ((plan.times.1, None), &plan.join.keys);
    let ts = time::times(left, plan.times.0, plan.unit)?;
    if index.is_passed_over(&ts, (right, on), keys, driver)? {
        return Ok(None);
    }
    let fit = index.fit((left, right), (on, plan.unit), keys, driver)?;
    let found = match &plan.join.predicate {
        None => asof_join_in(&ts, &fit.rows(), &plan.asof, fit.factor, driver)?
            .map(|matches| (matches, "none")),
        // Times that have to be converted are read in the same way as the times of a table.
        Some(_) if fit.factor != 1 => None,
        Some(predicate) => match candidates_in(&ts, &fit.rows(), &plan.asof, fit.factor, driver)? {
            None => None,
            Some(rounds) => {
                let right_ts = time::times(right, plan.times.1, plan.unit)?;
                let times = (&ts[..], &right_ts[..]);
                Some(choose(rounds, predicate, (left, right), times, driver)?)
            }
        },
    };
    Ok(found.map(|(matches, condition_method)| Partners {
        key_method: METHOD,
        condition_method,
        matches,
    }))
}

/// Chooses the partners that satisfy a condition. Also returns the method used to evaluate it.
fn choose(
    mut found: Vec<Rounds>,
    predicate: &Predicate,
    tables: (&Table, &Table),
    (left_ts, right_ts): (&[i64], &[i64]),
    driver: &Driver,
) -> Result<(Matches, &'static str)> {
    let mut method = "none";
    for rounds in &mut found {
        let mut condition = None;
        while let Some(round) = rounds.next_round() {
            if condition.is_none() || rounds.block() == LONG_BLOCK {
                condition = Some(test(predicate, tables, &round, driver)?);
            }
            let condition = condition.as_mut().expect("made above");
            method = condition.method();
            let mut start = 0;
            while start < round.left_rows() {
                let (page, kept) = condition.next_page(&round, start, driver)?;
                start = page.end;
                rounds.take(page, &kept, right_ts);
            }
        }
    }
    Ok((chosen(found, left_ts, right_ts, driver)?, method))
}

/// Evaluates the condition on candidates.
fn test(
    predicate: &Predicate,
    (left, right): (&Table, &Table),
    round: &Matches,
    driver: &Driver,
) -> Result<Condition> {
    Condition::new(predicate.clone(), left, right, round, driver)
}

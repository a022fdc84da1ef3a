//! Finds the pairs of two tables with an algorithm from the papers: a sliding-window join that
//! receives the tables' rows.

use tidegate_operators::driver::Driver;
use tidegate_operators::matches::{MAX_ROWS, Matches};
use tidegate_operators::predicate::Term;
use tidegate_operators::rows::{Filter as Keep, FilterError, How, Results};
use tidegate_operators::window::pairs;

use super::condition::{Filter, split};
use super::join::too_many;
use crate::columns::keys::Keys;
use crate::columns::table::Table;
use crate::query::window::{
    Algorithm, SlidingJoinParts, WindowJoin, WindowJoinPlan, equal_keys, numbers_of,
};
use crate::{Error, Result};

/// Two tables, with the times and keys of their rows.
#[derive(Debug)]
pub(super) struct Tables<'a> {
    pub(super) left: &'a Table,
    pub(super) right: &'a Table,
    pub(super) ts: [&'a [i64]; 2],
    pub(super) keys: Option<&'a Keys>,
}

impl WindowJoin {
    /// Returns the pairs in the result, with the whole condition applied.
    pub(super) fn compare(
        &self,
        algorithm: Algorithm,
        plan: &WindowJoinPlan,
        tables: &Tables<'_>,
        driver: &Driver,
    ) -> Result<Matches> {
        let Tables { left, right, keys, .. } = *tables;
        let (mut terms, residual) = match &plan.join.predicate {
            Some(predicate) => split(predicate, left, right),
            None => (Vec::new(), None),
        };
        terms.extend(keys.map(|keys| equal_keys(numbers_of(&keys.left), numbers_of(&keys.right))));
        let parts = SlidingJoinParts {
            retention: plan.windows.retention,
            how: How::Inner,
            threads: driver.threads(),
            ordered: false,
            terms: terms.iter().map(Term::without_rows).collect(),
            pin: false,
        };
        let filter = residual.map(|predicate| Filter::new(predicate, left, right));
        let keep = |left: &[u32], right: &[u32]| {
            filter.as_ref().expect("a condition is left").keep(left, right).map_err(Into::into)
        };
        let keep: Option<&Keep<'_>> = if filter.is_some() { Some(&keep) } else { None };
        let most = self.most_pairs();
        let check = |pairs: u64| check(pairs, most).map_err(FilterError::from);
        let mut join = parts.join(algorithm)?;
        let Results { left: left_rows, right: right_rows } =
            pairs(&mut *join, tables.ts, &terms, keep, check, driver)?;
        Ok(Matches::of_pairs(&[(left_rows, right_rows)], left.rows(), right.rows(), driver)?)
    }

    /// Returns the maximum number of pairs in a result if the number of its rows is limited.
    fn most_pairs(&self) -> Option<u64> {
        self.options.max_rows.filter(|_| self.options.how.pairs())
    }
}

/// Returns an error if there are more pairs than the maximum.
fn check(pairs: u64, most: Option<u64>) -> Result<()> {
    match most {
        Some(most) if pairs > most => Err(too_many(pairs, most)),
        _ if pairs >= MAX_ROWS as u64 => Err(Error::memory(format!(
            "the tables have at least {pairs} pairs, more than this algorithm can hold; give \
             algorithm=\"auto\", a narrower window, or a further condition"
        ))),
        _ => Ok(()),
    }
}

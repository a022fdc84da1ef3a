//! The streaming interval join: PPOIJ, with keys as numbers and conditions on columns.

use std::ops::Range;

use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::streaming::{Kept, Parallelism, StreamingJoin};
use tidegate_operators::rows::{Progress, Results, Side};

use super::engine::{Engine, KeptRows, RestoredRows, Rows};
use super::{Query, StreamOptions, operator};
use crate::query::interval::IntervalJoin;
use crate::query::options::JoinOptions;
use crate::stream::explanation::{Method, explain};
use crate::stream::operator::{Figure, Operator};
use crate::stream::state::keys::KeyNumbers;
use crate::{Error, Result};

/// The interval join of rows of these schemas, with keys assigned to threads by `parallelism`.
pub fn interval_join(
    query: &IntervalJoin,
    parallelism: Parallelism,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    let plan = query.plan(&left, &right)?;
    let JoinOptions { how, threads, .. } = query.options;
    let method = Method {
        algorithm: algorithm(parallelism),
        index: "the rows of each key and side that later rows may match, in time order",
        threads,
        row_bytes: 0,
    };
    let explanation = explain(query.describe(&plan), &method, plan.join.columns.len(), options);
    let engine = IntervalEngine {
        keys: KeyNumbers::new(plan.join.keys.clone()),
        join: StreamingJoin::new(&plan.interval, how, parallelism, threads, options.ordered),
    };
    let query = Query {
        identity: query.identity(&left, &right),
        options: &query.options,
        times: plan.times,
        unit: plan.unit,
        plan: plan.join,
        explanation,
    };
    operator(query, Box::new(engine), left, right, options)
}

fn algorithm(parallelism: Parallelism) -> &'static str {
    match parallelism {
        Parallelism::Auto => {
            "PPOIJ, a key on one thread (KP); with a condition, until one has far more to compare, then as hybrid"
        }
        Parallelism::Key => "PPOIJ, a key on one thread (KP)",
        Parallelism::Data => "PPOIJ, each key on all threads (DP)",
        Parallelism::Hybrid => {
            "PPOIJ, a key on as many threads as its share of the rows needs (HP)"
        }
    }
}

/// Finds pairs within an interval.
#[derive(Debug)]
struct IntervalEngine {
    keys: KeyNumbers,
    join: StreamingJoin,
}

impl Engine for IntervalEngine {
    fn begin(&mut self, driver: &Driver, rows: Rows<'_>) -> Result<()> {
        let Rows { ts, sides, batches } = rows;
        let [left, right] = self.keys.of_both(driver, batches)?;
        self.join.begin(driver, ts, sides, [&left, &right]);
        Ok(())
    }

    fn epoch_rows(&self) -> usize {
        self.join.epoch_rows()
    }

    fn comparisons_for(&self, rows: usize, has_condition: bool) -> u64 {
        // Without a condition, all candidates are results.
        let others =
            if has_condition { rows + self.rows(Side::Left) + self.rows(Side::Right) } else { 1 };
        rows as u64 * others as u64
    }

    fn is_done(&self) -> bool {
        self.join.is_done()
    }

    fn advance(&mut self, driver: &Driver, kept: &KeptRows<'_>) -> Result<Progress> {
        let progress = match kept.has_condition() {
            false => self.join.advance::<Error>(driver, None),
            true => self.join.advance(driver, Some(&|left, right| kept.keep(left, right))),
        };
        progress.map_err(Error::from)
    }

    fn assemble(&self, rows: Range<usize>) -> Results {
        self.join.assemble(rows)
    }

    fn unmatched(&mut self, now: Option<i64>) -> Results {
        self.join.unmatched(now)
    }

    fn purge(&mut self, now: Option<i64>) {
        self.keys.release(&self.join.purge(now));
    }

    fn first(&self, side: Side) -> u64 {
        self.join.first(side)
    }

    fn rows(&self, side: Side) -> usize {
        self.join.rows(side)
    }

    fn memory(&self) -> usize {
        self.join.memory() + self.keys.memory()
    }

    fn comparisons(&self) -> Vec<u64> {
        self.join.comparisons()
    }

    fn figures(&self) -> Vec<(&'static str, Figure)> {
        vec![("split_keys", Figure::Number(self.join.split_keys() as u64))]
    }

    fn matched(&self, side: Side) -> (Vec<bool>, usize) {
        self.join.matched(side)
    }

    fn restore(&mut self, rows: [RestoredRows; 2]) -> Result<()> {
        let keys =
            [self.keys.of(Side::Left, &rows[0].batch)?, self.keys.of(Side::Right, &rows[1].batch)?];
        let kept = |at: usize| {
            let RestoredRows { ts, matched, settled, .. } = &rows[at];
            Kept { ts, keys: &keys[at], matched, settled: *settled }
        };
        self.join.restore([kept(0), kept(1)]);
        Ok(())
    }
}

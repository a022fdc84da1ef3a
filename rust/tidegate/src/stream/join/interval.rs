//! The streaming interval join: PPOIJ, with keys as numbers and conditions on columns.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::interval::streaming::{Parallelism, StreamingJoin};

use super::engine::{Engine, Prepare};
use super::{Query, StreamOptions, operator};
use crate::Result;
use crate::query::interval::IntervalJoin;
use crate::query::options::JoinOptions;
use crate::stream::explanation::{Method, explain};
use crate::stream::operator::{Figure, Operator};
use crate::stream::state::keys::KeyNumbers;

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
    let join = StreamingJoin::new(&plan.interval, how, parallelism, threads, options.ordered);
    let prepare = PrepareKeys(KeyNumbers::new(plan.join.keys.clone()));
    let engine = Engine { prepare, join: Box::new(join) };
    let query = Query {
        identity: query.identity(&left, &right),
        options: &query.options,
        times: plan.times,
        unit: plan.unit,
        plan: plan.join,
        explanation,
    };
    operator(query, engine, left, right, options)
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

/// Rows of equal keys match: keys become numbers.
#[derive(Debug)]
struct PrepareKeys(KeyNumbers);

impl Prepare for PrepareKeys {
    type Values<'a> = [&'a [u32]; 2];
    type Join = StreamingJoin;

    fn prepare(
        &mut self,
        join: &mut StreamingJoin,
        driver: &Driver,
        batches: [&RecordBatch; 2],
        then: impl FnOnce(&mut StreamingJoin, Self::Values<'_>),
    ) -> Result<()> {
        let [left, right] = self.0.of_both(driver, batches)?;
        then(join, [&left, &right]);
        Ok(())
    }

    fn finds_results(&self) -> bool {
        true
    }

    fn release(&mut self, join: &mut StreamingJoin) {
        self.0.release(&join.take_silent());
    }

    fn memory(&self) -> usize {
        self.0.memory()
    }

    fn figures(&self, join: &StreamingJoin) -> Vec<(&'static str, Figure)> {
        vec![("split_keys", Figure::Number(join.split_keys() as u64))]
    }
}

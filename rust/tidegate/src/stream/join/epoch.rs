//! The rows in an epoch, either in merged order or in arrival order.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::rows::Side;

use crate::Result;
use crate::stream::intake::ready::{ReadyRun, ReadyRuns};
use crate::stream::memory::Charge;
use crate::stream::sides::rows::{left_first, side_rows};
use crate::stream::tactic::Common;

/// Rows from both sides that are joined at the same time.
#[derive(Debug)]
pub(super) struct Epoch {
    /// The time of each row; `sides` contains the row's side. In arrival order, all left rows
    /// precede the right rows.
    pub(super) ts: Vec<i64>,
    pub(super) sides: Vec<Side>,
    /// The rows on each side. `charges` contains the memory charges that account for these rows.
    pub(super) batches: [RecordBatch; 2],
    pub(super) charges: [Vec<(usize, Arc<Charge>)>; 2],
}

impl Epoch {
    /// Creates an epoch from ready rows, in merged order.
    pub(super) fn merged(
        ready: ReadyRuns,
        common: &mut Common,
        [left, right]: [&SchemaRef; 2],
    ) -> Result<Self> {
        common.latency.begin(ready.runs.iter().map(|run| (run.pushed(), run.len() as u64)));
        let ReadyRuns { ts, sources, mut runs } = ready;
        let of_sources = common.intake.sides();
        let side_of = |source: u16| of_sources.of(source);
        let lefts = left_first(&mut runs, of_sources);
        let (left_runs, right_runs) = runs.split_at(lefts);
        let rows_of = |side: Side, schema: &SchemaRef, runs: &[ReadyRun]| {
            side_rows(schema, runs, &sources, |source| side_of(source) == side)
        };
        let left_rows = || rows_of(Side::Left, left, left_runs);
        let right_rows = || rows_of(Side::Right, right, right_runs);
        let is_little = left_runs.len() <= 1 && right_runs.len() <= 1;
        let (left_rows, right_rows) = if is_little {
            (left_rows(), right_rows())
        } else {
            common.driver.fit(ts.len()).both(left_rows, right_rows)
        };
        let charges = |runs: &[ReadyRun]| runs.iter().map(ReadyRun::charge).collect();
        Ok(Epoch {
            sides: of_sources.of_each(&sources),
            ts,
            batches: [left_rows?, right_rows?],
            charges: [charges(left_runs), charges(right_runs)],
        })
    }
}

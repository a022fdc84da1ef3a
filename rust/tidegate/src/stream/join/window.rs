//! The streaming window join: ScaleJoin, its baselines and the handshake joins, with conditions
//! as comparisons that are scanned for.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::predicate::{Operand, Term};
use tidegate_operators::rows::{Progress, Results, Side};
use tidegate_operators::window::{Kept, SlidingJoin};

use super::engine::{Engine, KeptRows, RestoredRows, Rows};
use super::{Query, StreamOptions, operator};
use crate::columns::expression::{self, Columns, Predicate, Scan};
use crate::query::options::JoinOptions;
use crate::query::window::{Algorithm, Comparing, WindowJoin, WithJoin, equal_keys, numbers_of};
use crate::stream::explanation::{Method, explain};
use crate::stream::operator::{Figure, Operator};
use crate::stream::state::kept_keys::KeptKeys;
use crate::{Error, Result};

/// The window join of rows of these schemas.
pub fn window_join(
    query: &WindowJoin,
    left: SchemaRef,
    right: SchemaRef,
    options: &StreamOptions,
) -> Result<Operator> {
    let plan = query.plan(&left, &right)?;
    let JoinOptions { how, threads, .. } = query.options;
    let scan = plan.join.predicate.as_ref().map(Predicate::scan);
    let mut terms: Vec<Term> = scan.as_ref().map(Scan::terms).unwrap_or_default();
    let keys = (!plan.join.keys.is_empty()).then(|| KeptKeys::new(plan.join.keys.clone()));
    terms.extend(keys.is_some().then(|| equal_keys(numbers_of(&[]), numbers_of(&[]))));
    // Without numbers there is nothing to look up.
    let any = if terms.is_empty() { Algorithm::ScaleJoin } else { Algorithm::Indexed };
    let algorithm = query.algorithm.unwrap_or(any);
    let index = algorithm.index(plan.join.has_equality());
    let row_bytes = algorithm.row_bytes(&terms);
    let method = Method { algorithm: algorithm.describe(), index, threads, row_bytes };
    let explanation = explain(query.describe(&plan), &method, plan.join.columns.len(), options);
    let comparing = Comparing {
        retention: plan.windows.retention,
        how,
        threads,
        ordered: options.ordered,
        terms,
    };
    let parts = Parts { row_bytes, predicate: plan.join.predicate.clone(), scan, keys };
    let engine = comparing.join(algorithm, parts);
    let query = Query {
        identity: query.identity(&left, &right),
        options: &query.options,
        times: plan.windows.times,
        unit: plan.windows.unit,
        plan: plan.join,
        explanation,
    };
    operator(query, engine, left, right, options)
}

/// Makes an engine of a join.
struct Parts {
    row_bytes: usize,
    predicate: Option<Predicate>,
    scan: Option<Scan>,
    keys: Option<KeptKeys>,
}

impl WithJoin for Parts {
    type Done = Box<dyn Engine>;

    fn with<J: SlidingJoin + 'static>(self, join: J) -> Box<dyn Engine> {
        let Parts { row_bytes, predicate, scan, keys } = self;
        Box::new(WindowEngine { row_bytes, predicate, scan, keys, is_scanned: true, join })
    }
}

/// Finds pairs within windows.
#[derive(Debug)]
struct WindowEngine<J> {
    /// What a row is charged for what is kept of it here.
    row_bytes: usize,
    predicate: Option<Predicate>,
    /// How the predicate is tested, while it can be.
    scan: Option<Scan>,
    keys: Option<KeptKeys>,
    /// Whether comparisons are scanned for. Not any more once a row has a number whose arithmetic
    /// may fail, since whether it does is for the evaluation of its pairs to say.
    is_scanned: bool,
    join: J,
}

impl<J: SlidingJoin> WindowEngine<J> {
    /// The numbers of more rows, for each term.
    fn numbers(&mut self, batches: [&RecordBatch; 2]) -> Result<Option<Vec<(Operand, Operand)>>> {
        self.numbers_with(batches, |keys, side| {
            keys.push(side, batches[side as usize]).map(|keys| numbers_of(&keys))
        })
    }

    /// The numbers of rows, for each term, given how to get those of their keys.
    fn numbers_with(
        &mut self,
        batches: [&RecordBatch; 2],
        mut of_keys: impl FnMut(&mut KeptKeys, Side) -> Result<Operand>,
    ) -> Result<Option<Vec<(Operand, Operand)>>> {
        let mut numbers = match (&self.scan, &self.predicate) {
            (Some(scan), Some(predicate)) if self.is_scanned => {
                let columns = |side: expression::Origin, batch: &RecordBatch| Columns {
                    arrays: predicate
                        .columns(side)
                        .iter()
                        .map(|&column| Some(batch.column(column).clone()))
                        .collect(),
                    rows: batch.num_rows(),
                };
                let [left, right] = batches;
                scan.numbers(
                    &columns(expression::Origin::Left, left),
                    &columns(expression::Origin::Right, right),
                )
            }
            _ => self.is_scanned.then(Vec::new),
        };
        if let Some(keys) = &mut self.keys {
            let of_keys = (of_keys(keys, Side::Left)?, of_keys(keys, Side::Right)?);
            numbers.iter_mut().for_each(|numbers| numbers.push(of_keys.clone()));
        }
        Ok(numbers)
    }
}

/// What is left to test of the pairs that were found.
struct Test<'a> {
    predicate: Option<&'a Predicate>,
    keys: Option<&'a KeptKeys>,
    /// The low bits of the number of the row of each side that has place 0.
    firsts: [u32; 2],
}

impl Test<'_> {
    fn keep(&self, kept: &KeptRows<'_>, left: &[u32], right: &[u32]) -> Result<Vec<bool>> {
        let equal: Vec<bool> = match self.keys {
            None => vec![true; left.len()],
            Some(keys) => {
                let place =
                    |number: &u32, side: Side| number.wrapping_sub(self.firsts[side as usize]);
                let equal = |(l, r)| keys.are_equal(place(l, Side::Left), place(r, Side::Right));
                left.iter().zip(right).map(equal).collect()
            }
        };
        let Some(predicate) = self.predicate else { return Ok(equal) };
        // A pair whose keys differ is no candidate: the predicate might fail for it.
        let candidates = |numbers: &[u32]| -> Vec<u32> {
            numbers
                .iter()
                .zip(&equal)
                .filter(|(_, equal)| **equal)
                .map(|(number, _)| *number)
                .collect()
        };
        let mut verdicts =
            kept.keep_by(predicate, &candidates(left), &candidates(right))?.into_iter();
        Ok(equal
            .into_iter()
            .map(|equal| equal && verdicts.next().expect("a verdict a candidate"))
            .collect())
    }
}

impl<J: SlidingJoin> Engine for WindowEngine<J> {
    fn begin(&mut self, _: &Driver, rows: Rows<'_>) -> Result<()> {
        let numbers = self.numbers(rows.batches.each_ref())?;
        self.is_scanned = self.join.begin(rows.ts, rows.sides, numbers.as_deref());
        Ok(())
    }

    fn epoch_rows(&self) -> usize {
        self.join.epoch_rows()
    }

    fn is_done(&self) -> bool {
        self.join.is_done()
    }

    fn advance(&mut self, driver: &Driver, kept: &KeptRows<'_>) -> Result<Progress> {
        let (predicate, keys) = match self.is_scanned {
            true => (self.scan.as_ref().and_then(Scan::rest), None),
            false => (self.predicate.as_ref(), self.keys.as_ref()),
        };
        let firsts = [Side::Left, Side::Right].map(|side| self.join.first(side) as u32);
        let test = Test { predicate, keys, firsts };
        let results = match (test.predicate, test.keys) {
            (None, None) => self.join.advance::<Error>(driver, None),
            _ => self.join.advance(driver, Some(&|left, right| test.keep(kept, left, right))),
        };
        results.map(Progress::Results).map_err(Error::from)
    }

    fn assemble(&self, _rows: Range<usize>) -> Results {
        panic!("results of a window join come whole")
    }

    fn holds_back(&self) -> bool {
        self.join.holds_back()
    }

    fn flush(&mut self) {
        self.join.flush();
    }

    fn refill(&mut self, batches: [&RecordBatch; 2]) -> Result<()> {
        let numbers =
            self.numbers_with(batches, |keys, side| Ok(numbers_of(&keys.of_kept(side))))?;
        self.join.refill(numbers.as_deref());
        Ok(())
    }

    fn unmatched(&mut self, now: Option<i64>) -> Results {
        self.join.unmatched(now)
    }

    fn purge(&mut self, now: Option<i64>) {
        self.join.purge(now);
        if let Some(keys) = &mut self.keys {
            for side in [Side::Left, Side::Right] {
                keys.keep(side, self.join.rows(side));
            }
        }
    }

    fn first(&self, side: Side) -> u64 {
        self.join.first(side)
    }

    fn rows(&self, side: Side) -> usize {
        self.join.rows(side)
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn memory(&self) -> usize {
        self.join.memory()
    }

    fn comparisons(&self) -> Vec<u64> {
        self.join.comparisons()
    }

    fn figures(&self) -> Vec<(&'static str, Figure)> {
        Vec::new()
    }

    fn matched(&self, side: Side) -> (Vec<bool>, usize) {
        let (matched, settled) = self.join.matched(side);
        (matched.to_vec(), settled)
    }

    fn restore(&mut self, rows: [RestoredRows; 2]) -> Result<()> {
        let numbers = self.numbers(rows.each_ref().map(|rows| &rows.batch))?;
        let kept = |at: usize| Kept {
            ts: &rows[at].ts,
            matched: &rows[at].matched,
            settled: rows[at].settled,
        };
        self.is_scanned = self.join.restore([kept(0), kept(1)], numbers.as_deref());
        Ok(())
    }
}

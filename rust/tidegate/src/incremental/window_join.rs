//! The incremental window join: ScaleJoin and its baselines, with conditions as comparisons that are scanned for.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::incremental::{Results, Side};
use tidegate_operators::interval_join::NO_KEY;
use tidegate_operators::online_join::{Failed, Progress};
use tidegate_operators::predicate::{Constraint, Numbers, Operand, Order, Relation, Term};
use tidegate_operators::scale_join::{Algorithm, Kept, ScaleJoin};

use super::explanation::{Method, explain};
use super::join::engine::{Engine, Figure, KeptRows, RestoredRows, Rows};
use super::join::{Query, StreamJoin, StreamOptions};
use super::kept_keys::KeptKeys;
use super::snapshot::{Reader, Writer};
use crate::expression::{self, Columns, Predicate, Scan};
use crate::join::JoinOptions;
use crate::window_join::WindowJoin;
use crate::{Error, Result};

impl StreamJoin {
    /// The window join of rows of these schemas, whose pairs are compared as `algorithm` says.
    pub fn window(
        query: &WindowJoin,
        algorithm: Algorithm,
        left: SchemaRef,
        right: SchemaRef,
        options: &StreamOptions,
    ) -> Result<Self> {
        let plan = query.plan(&left, &right)?;
        let JoinOptions { how, threads, .. } = query.options;
        let method =
            Method { algorithm: name(algorithm), index: "none: every pair in the windows is compared", threads };
        let explanation = explain(query.describe(&plan), &method, plan.join.columns.len(), options);
        let scan = plan.join.predicate.as_ref().map(Predicate::scan);
        let mut terms: Vec<Term> = scan.as_ref().map(Scan::terms).unwrap_or_default();
        let keys = (!plan.join.keys.is_empty()).then(|| KeptKeys::new(plan.join.keys.clone()));
        terms.extend(keys.is_some().then(equal_keys));
        let engine = WindowEngine {
            predicate: plan.join.predicate.clone(),
            scan,
            keys,
            is_scanned: true,
            join: ScaleJoin::new(plan.windows.windows, how, algorithm, threads, options.ordered, terms),
        };
        let query = Query {
            operator: "window_join",
            relation: vec![("on", format!("{:?}", query.on)), ("window", format!("{:?}", query.window))],
            options: &query.options,
            times: plan.windows.times,
            unit: plan.windows.unit,
            plan: plan.join,
            explanation,
        };
        StreamJoin::new(query, Box::new(engine), left, right, options)
    }
}

fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::ThreeStep => {
            "three-step procedure (Kang et al.): one thread compares each row with the other window"
        }
        Algorithm::Cell => "CellJoin: each row's window is cut into a piece a thread",
        Algorithm::ScaleJoin => {
            "ScaleJoin: each thread has a share of the rows, round robin, and compares each row with it"
        }
    }
}

/// What stands for equal keys: the numbers that they have been given.
fn equal_keys() -> Term {
    let none = || Operand::new(Numbers::I32(Vec::new()), None);
    let equal = [Order::LessOrEqual, Order::GreaterOrEqual].map(|order| Constraint::Difference { order, than: 0 });
    Term::new(none(), none(), Relation::Whole(equal.to_vec())).expect("a term without rows")
}

/// Keys as numbers to compare.
fn operand(keys: Vec<u32>) -> Operand {
    let missing: Vec<bool> = keys.iter().map(|&key| key == NO_KEY).collect();
    // The order of keys has no meaning here.
    let numbers = Numbers::I32(keys.into_iter().map(u32::cast_signed).collect());
    Operand::new(numbers, missing.contains(&true).then_some(missing))
}

/// Finds pairs within windows.
#[derive(Debug)]
struct WindowEngine {
    predicate: Option<Predicate>,
    /// How the predicate is tested, while it can be.
    scan: Option<Scan>,
    keys: Option<KeptKeys>,
    /// Whether comparisons are scanned for. Not any more once a row has a number whose arithmetic may fail, since whether
    /// it does is for the evaluation of its pairs to say.
    is_scanned: bool,
    join: ScaleJoin,
}

impl WindowEngine {
    /// The numbers of rows, for each term.
    fn numbers(&mut self, batches: [&RecordBatch; 2]) -> Result<Option<Vec<(Operand, Operand)>>> {
        let mut numbers = match (&self.scan, &self.predicate) {
            (Some(scan), Some(predicate)) if self.is_scanned => {
                let columns = |side: expression::Side, batch: &RecordBatch| Columns {
                    arrays: predicate.columns(side).iter().map(|&column| Some(batch.column(column).clone())).collect(),
                    rows: batch.num_rows(),
                };
                let [left, right] = batches;
                scan.numbers(&columns(expression::Side::Left, left), &columns(expression::Side::Right, right))
            }
            _ => self.is_scanned.then(Vec::new),
        };
        if let Some(keys) = &mut self.keys {
            let [left, right] = batches;
            let of_keys = (operand(keys.push(Side::Left, left)?), operand(keys.push(Side::Right, right)?));
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
                let place = |number: &u32, side: Side| number.wrapping_sub(self.firsts[side as usize]);
                let equal = |(l, r)| keys.are_equal(place(l, Side::Left), place(r, Side::Right));
                left.iter().zip(right).map(equal).collect()
            }
        };
        let Some(predicate) = self.predicate else { return Ok(equal) };
        // A pair whose keys differ is no candidate: the predicate might fail for it.
        let candidates = |numbers: &[u32]| -> Vec<u32> {
            numbers.iter().zip(&equal).filter(|(_, equal)| **equal).map(|(number, _)| *number).collect()
        };
        let mut verdicts = kept.keep_by(predicate, &candidates(left), &candidates(right))?.into_iter();
        Ok(equal.into_iter().map(|equal| equal && verdicts.next().expect("a verdict a candidate")).collect())
    }
}

impl Engine for WindowEngine {
    fn begin(&mut self, rows: Rows<'_>) -> Result<()> {
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
        results.map(Progress::Results).map_err(|failed| match failed {
            Failed::Stopped(stopped) => stopped.into(),
            Failed::Filter(error) => error,
        })
    }

    fn assemble(&self, _rows: Range<usize>) -> Results {
        panic!("results of a window join come whole")
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

    fn memory(&self) -> usize {
        self.join.memory()
    }

    fn comparisons(&self) -> Vec<u64> {
        self.join.comparisons()
    }

    fn figures(&self) -> Vec<(&'static str, Figure)> {
        Vec::new()
    }

    fn write(&self, writer: &mut Writer) {
        for side in [Side::Left, Side::Right] {
            writer.matched(self.join.matched(side));
        }
    }

    fn restore(&mut self, rows: [RestoredRows; 2], reader: &mut Reader<'_>) -> Result<()> {
        let matched = [reader.matched()?, reader.matched()?];
        let numbers = self.numbers(rows.each_ref().map(|rows| &rows.batch))?;
        let kept = |at: usize| Kept { ts: &rows[at].ts, matched: &matched[at].0, settled: matched[at].1 };
        self.is_scanned = self.join.restore([kept(0), kept(1)], numbers.as_deref());
        Ok(())
    }
}

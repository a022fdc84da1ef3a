//! How the pairs of rows are found that come in any order of time.

use std::fmt;

use arrow_array::RecordBatch;
use tidegate_operators::driver::Driver;
use tidegate_operators::eager::{Log, Next, TimeJoin};
use tidegate_operators::rows::{Filter, Kept, Progress, Results, RowJoin, Side};

use super::{Engine, KeptRows, Prepare};
use crate::Result;
use crate::stream::operator::Figure;
use crate::stream::state::keys::KeyNumbers;

const SIDES: [Side; 2] = [Side::Left, Side::Right];

/// Finds the pairs of rows as they arrive. The log has the rows that are kept.
pub(in crate::stream::join) trait Finder:
    fmt::Debug + Send + 'static
{
    /// Takes rows of both sides into the log and begins an epoch with them.
    fn begin(
        &mut self,
        driver: &Driver,
        log: &mut Log,
        ts: [&[i64]; 2],
        batches: [&RecordBatch; 2],
    ) -> Result<()>;

    /// Finds pairs of more rows of the epoch, each pair once.
    fn advance(&mut self, log: &Log, driver: &Driver, kept: &KeptRows<'_>) -> Result<Vec<Results>>;

    /// Whether all pairs of the epoch have been found.
    fn is_done(&self) -> bool;

    /// The rows of the epoch.
    fn epoch_rows(&self) -> usize;

    /// The number that a condition knows the oldest row of each side by.
    fn first(&self, log: &Log) -> [u64; 2];

    /// Whether all candidates are results where there is no condition.
    fn finds_results(&self) -> bool;

    /// Lets go of the oldest rows that no row to come can match, in the log, too; how many they are
    /// of each side.
    fn purge(&mut self, log: &mut Log, next: Next) -> [usize; 2];

    /// Keeps the rows at these offsets alone, in the log, too, given their columns.
    fn retain(
        &mut self,
        log: &mut Log,
        kept: [&[u32]; 2],
        batches: [&RecordBatch; 2],
    ) -> Result<()>;

    /// Takes in rows that were kept, where there are none; in the log, too.
    fn restore(&mut self, log: &mut Log, ts: [&[i64]; 2], batches: [&RecordBatch; 2])
    -> Result<()>;

    /// Candidate pairs that have been looked at, by each part of the join.
    fn comparisons(&self) -> Vec<u64>;

    /// Bytes held beside the rows and the log.
    fn memory(&self) -> usize;

    /// Further figures, with names.
    fn figures(&self) -> Vec<(&'static str, Figure)> {
        Vec::new()
    }
}

/// Rows of equal keys, found by time.
#[derive(Debug)]
pub(in crate::stream::join) struct ByTime {
    keys: KeyNumbers,
    join: TimeJoin,
}

impl ByTime {
    pub(in crate::stream::join) fn new(keys: KeyNumbers) -> Self {
        ByTime { keys, join: TimeJoin::default() }
    }

    /// Takes rows into the log.
    fn log(
        &mut self,
        driver: &Driver,
        log: &mut Log,
        ts: [&[i64]; 2],
        batches: [&RecordBatch; 2],
    ) -> Result<()> {
        let keys = self.keys.of_both(driver, batches)?;
        for side in SIDES {
            log.push(side, ts[side as usize], &keys[side as usize]);
        }
        Ok(())
    }
}

impl Finder for ByTime {
    fn begin(
        &mut self,
        driver: &Driver,
        log: &mut Log,
        ts: [&[i64]; 2],
        batches: [&RecordBatch; 2],
    ) -> Result<()> {
        let before = SIDES.map(|side| log.rows(side));
        self.log(&driver.fit(ts[0].len() + ts[1].len()), log, ts, batches)?;
        self.join.begin(before, log);
        Ok(())
    }

    fn advance(&mut self, log: &Log, driver: &Driver, kept: &KeptRows<'_>) -> Result<Vec<Results>> {
        let test = kept.has_condition().then(|| -> Box<Filter<'_>> {
            Box::new(|left, right| kept.keep(left, right).map_err(Into::into))
        });
        Ok(self.join.advance(log, driver, test.as_deref())?)
    }

    fn is_done(&self) -> bool {
        self.join.is_done()
    }

    fn epoch_rows(&self) -> usize {
        self.join.epoch_rows()
    }

    fn first(&self, log: &Log) -> [u64; 2] {
        SIDES.map(|side| log.first(side))
    }

    fn finds_results(&self) -> bool {
        true
    }

    fn purge(&mut self, log: &mut Log, next: Next) -> [usize; 2] {
        let (gone, silent) = self.join.purge(log, next);
        self.keys.release(&silent);
        gone
    }

    fn retain(&mut self, log: &mut Log, kept: [&[u32]; 2], _: [&RecordBatch; 2]) -> Result<()> {
        let silent = self.join.retain(log, kept);
        SIDES.iter().for_each(|&side| log.retain(side, kept[side as usize]));
        self.keys.release(&silent);
        Ok(())
    }

    fn restore(
        &mut self,
        log: &mut Log,
        ts: [&[i64]; 2],
        batches: [&RecordBatch; 2],
    ) -> Result<()> {
        self.log(&Driver::new(1, Default::default()), log, ts, batches)?;
        self.join.restore(log);
        Ok(())
    }

    fn comparisons(&self) -> Vec<u64> {
        vec![self.join.comparisons()]
    }

    fn memory(&self) -> usize {
        self.keys.memory() + self.join.memory()
    }
}

/// Rows found by the engine of a join in merged order, to which the order of arrival is that order,
/// and time a value like any other.
pub(in crate::stream::join) struct ByEngine<P: Prepare> {
    engine: Engine<P>,
    /// Makes an engine without rows.
    make: Box<dyn Fn() -> Engine<P> + Send>,
}

impl<P: Prepare> fmt::Debug for ByEngine<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByEngine").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl<P: Prepare> ByEngine<P> {
    pub(in crate::stream::join) fn new(make: impl Fn() -> Engine<P> + Send + 'static) -> Self {
        ByEngine { engine: make(), make: Box::new(make) }
    }

    /// The rows of the log enter an engine that has none.
    fn fill(&mut self, log: &Log, batches: [&RecordBatch; 2]) -> Result<()> {
        let kept = SIDES.map(|side| Kept { ts: log.ts(side).to_vec(), ..Kept::default() });
        self.engine.restore(&kept, batches)
    }
}

/// Which pairs match by their times, given the numbers of their rows in an engine whose oldest rows
/// have these numbers.
fn are_near(log: &Log, firsts: [u32; 2], left: &[u32], right: &[u32]) -> Vec<bool> {
    let ts =
        |side: Side, number: u32| log.ts(side)[number.wrapping_sub(firsts[side as usize]) as usize];
    let pairs = left.iter().zip(right);
    pairs.map(|(&l, &r)| log.match_in_time(ts(Side::Left, l), ts(Side::Right, r))).collect()
}

impl<P: Prepare> Finder for ByEngine<P> {
    fn begin(
        &mut self,
        driver: &Driver,
        log: &mut Log,
        ts: [&[i64]; 2],
        batches: [&RecordBatch; 2],
    ) -> Result<()> {
        for side in SIDES {
            log.push(side, ts[side as usize], &vec![0; ts[side as usize].len()]);
        }
        let mut sides = vec![Side::Left; ts[0].len()];
        sides.resize(ts[0].len() + ts[1].len(), Side::Right);
        let batches = batches.map(RecordBatch::clone);
        self.engine.begin(driver, ts.concat(), sides, &batches)
    }

    fn advance(&mut self, log: &Log, driver: &Driver, kept: &KeptRows<'_>) -> Result<Vec<Results>> {
        let firsts = self.engine.first().map(|first| first as u32);
        let Engine { prepare, join } = &mut self.engine;
        let test = prepare.test(join, kept);
        let near = |left: &[u32], right: &[u32]| {
            let mut near = are_near(log, firsts, left, right);
            if let Some(test) = &test {
                let pick = |numbers: &[u32]| -> Vec<u32> {
                    let picked = numbers.iter().zip(&near).filter(|(_, near)| **near);
                    picked.map(|(number, _)| *number).collect()
                };
                let mut verdicts = test(&pick(left), &pick(right))?.into_iter();
                let near = near.iter_mut().filter(|near| **near);
                near.for_each(|near| *near = verdicts.next().expect("a verdict a pair"));
            }
            Ok(near)
        };
        let progress = match join.compares() {
            true => join.advance(driver, test.as_deref()),
            // Nor are times compared then, and a condition is for pairs of near rows alone.
            false => join.advance(driver, Some(&near)),
        };
        let progress = progress?;
        drop(test);
        let join = &*self.engine.join;
        Ok(match progress {
            Progress::Results(results) => vec![results],
            Progress::Pieces(pieces) => {
                driver.fit(join.epoch_rows()).map(pieces, |rows| join.assemble(rows))?
            }
        })
    }

    fn is_done(&self) -> bool {
        self.engine.join.is_done()
    }

    fn epoch_rows(&self) -> usize {
        self.engine.join.epoch_rows()
    }

    fn first(&self, _: &Log) -> [u64; 2] {
        self.engine.first()
    }

    fn finds_results(&self) -> bool {
        self.engine.prepare.finds_results()
    }

    fn purge(&mut self, log: &mut Log, next: Next) -> [usize; 2] {
        let gone = SIDES.map(|side| log.drop_front(side, next, |_| {}));
        self.engine.let_go(gone);
        gone
    }

    fn retain(
        &mut self,
        log: &mut Log,
        kept: [&[u32]; 2],
        batches: [&RecordBatch; 2],
    ) -> Result<()> {
        SIDES.iter().for_each(|&side| log.retain(side, kept[side as usize]));
        self.engine = (self.make)();
        self.fill(log, batches)
    }

    fn restore(
        &mut self,
        log: &mut Log,
        ts: [&[i64]; 2],
        batches: [&RecordBatch; 2],
    ) -> Result<()> {
        for side in SIDES {
            log.push(side, ts[side as usize], &vec![0; ts[side as usize].len()]);
        }
        self.fill(log, batches)
    }

    fn comparisons(&self) -> Vec<u64> {
        self.engine.join.comparisons()
    }

    fn memory(&self) -> usize {
        self.engine.memory()
    }

    fn figures(&self) -> Vec<(&'static str, Figure)> {
        self.engine.prepare.figures(&self.engine.join)
    }
}

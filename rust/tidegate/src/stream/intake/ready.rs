//! Rows that have left the gate, and the batches that store them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use tidegate_operators::driver::Driver;
use tidegate_structures::gate::{BlockReader, Filler, Next, PlannedBlock};
use tidegate_structures::memory;

use super::rows::SourceRun;
use crate::Result;
use crate::stream::memory::Charge;

/// Ready rows in merged order. The rows from each source are stored together.
#[derive(Debug, Default)]
pub(crate) struct ReadyRuns {
    pub(crate) ts: Vec<i64>,
    /// The source of each row.
    pub(crate) sources: Vec<u16>,
    /// The rows from the sources, one source after another.
    pub(crate) runs: Vec<ReadyRun>,
}

/// Adjacent rows of one push.
#[derive(Debug)]
pub(crate) struct ReadyRun {
    pub(crate) source: u16,
    /// The position of the push's first row among the rows from its source.
    first: u64,
    push: SourceRun,
    /// The range of these rows within the push.
    range: Range<usize>,
}

impl ReadyRun {
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    pub(crate) fn rows(&self) -> RecordBatch {
        self.push.batch.slice(self.range.start, self.range.len())
    }

    pub(crate) fn pushed(&self) -> Instant {
        self.push.pushed
    }

    /// Returns the charge for the push's rows.
    pub(crate) fn held(&self) -> Arc<Charge> {
        self.push.charge.clone()
    }

    /// Returns the charge for the push, and the part of the charge that accounts for these rows.
    pub(crate) fn charge(&self) -> (usize, Arc<Charge>) {
        let charge = &self.push.charge;
        (charge.bytes().div_ceil(self.push.batch.num_rows().max(1)) * self.len(), charge.clone())
    }
}

impl ReadyRuns {
    /// Merges the rows in consecutive blocks, using all threads.
    pub(crate) fn new(blocks: &[PlannedBlock<SourceRun>], driver: &Driver) -> Result<ReadyRuns> {
        let mut ready = ReadyRuns::unmerged(blocks);
        driver.map_with(
            ready.places(blocks),
            Filler::default,
            |filler, (block, ts, sources)| block.write(filler, ts, sources),
        )?;
        Ok(ready)
    }

    /// Does the same as [`new`](Self::new), but only on this thread.
    pub(crate) fn merged(blocks: &[PlannedBlock<SourceRun>], filler: &mut Filler) -> ReadyRuns {
        let mut ready = ReadyRuns::unmerged(blocks);
        let places = ready.places(blocks);
        places.into_iter().for_each(|(block, ts, sources)| block.write(filler, ts, sources));
        ready
    }

    /// Selects adjacent rows.
    pub(crate) fn part(&self, rows: Range<usize>) -> ReadyRuns {
        // For each source, the number of rows that precede the part and the number of rows in the
        // part.
        let mut counts: HashMap<u16, (usize, usize)> = HashMap::new();
        self.sources[..rows.start].iter().for_each(|&of| counts.entry(of).or_default().0 += 1);
        self.sources[rows.clone()].iter().for_each(|&of| counts.entry(of).or_default().1 += 1);
        let mut runs = Vec::new();
        for run in &self.runs {
            let (before, taken) = counts.entry(run.source).or_default();
            let skipped = run.len().min(*before);
            let len = (run.len() - skipped).min(*taken);
            (*before, *taken) = (*before - skipped, *taken - len);
            if len > 0 {
                let start = run.range.start + skipped;
                let ReadyRun { source, first, push, .. } = run;
                let push = push.clone();
                runs.push(ReadyRun {
                    source: *source,
                    first: *first,
                    push,
                    range: start..start + len,
                });
            }
        }
        let ts = memory::collect(self.ts[rows.clone()].iter().copied());
        ReadyRuns { ts, sources: memory::collect(self.sources[rows].iter().copied()), runs }
    }

    /// For each block, returns the slices to which its rows' times and sources are written.
    fn places<'a>(&'a mut self, blocks: &'a [PlannedBlock<SourceRun>]) -> Vec<BlockPlace<'a>> {
        let (mut ts_left, mut sources_left) = (&mut self.ts[..], &mut self.sources[..]);
        let place = |block: &'a PlannedBlock<SourceRun>| {
            let (ts, rest) = std::mem::take(&mut ts_left).split_at_mut(block.len());
            ts_left = rest;
            let (sources, rest) = std::mem::take(&mut sources_left).split_at_mut(block.len());
            sources_left = rest;
            (block, ts, sources)
        };
        blocks.iter().map(place).collect()
    }

    /// Allocates space for the rows in these blocks. The rows' times and sources are written later.
    fn unmerged(blocks: &[PlannedBlock<SourceRun>]) -> ReadyRuns {
        let rows = blocks.iter().map(PlannedBlock::len).sum();
        // A source's run can continue in the next block.
        let mut runs: Vec<ReadyRun> = Vec::new();
        let mut last: HashMap<u16, usize> = HashMap::new();
        for (pushed, range) in blocks.iter().flat_map(PlannedBlock::pieces) {
            let (source, first) = (pushed.first.source(), pushed.first.position());
            match last.get(&source).map(|&last| &mut runs[last]).filter(|run| run.first == first) {
                Some(run) => run.range.end = range.end,
                None => {
                    last.insert(source, runs.len());
                    runs.push(ReadyRun { source, first, push: pushed.run.clone(), range });
                }
            }
        }
        // The runs of each source stay in order.
        runs.sort_by_key(|run| run.source);
        ReadyRuns { ts: memory::filled(rows, 0), sources: memory::filled(rows, 0), runs }
    }
}

/// A block and the slices to which its rows' times and sources are written.
type BlockPlace<'a> = (&'a PlannedBlock<SourceRun>, &'a mut [i64], &'a mut [u16]);

/// The gate's state after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// There are more rows ready.
    More,
    /// No rows are ready at the moment.
    NotYet,
    /// There will be no more rows.
    End,
}

/// Plans the processing of up to approximately `rows` ready rows.
pub(crate) fn plan(
    reader: &mut BlockReader<SourceRun>,
    rows: usize,
) -> (Vec<PlannedBlock<SourceRun>>, Rest) {
    let (mut blocks, mut planned) = (Vec::new(), 0);
    while planned < rows {
        match reader.next_planned() {
            Next::Ready(block) => {
                planned += block.len();
                blocks.push(block);
            }
            Next::NotYet => return (blocks, Rest::NotYet),
            Next::End => return (blocks, Rest::End),
        }
    }
    (blocks, Rest::More)
}

//! Rows that the gate has given, and the batches in which they lie.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use tidegate_operators::driver::Driver;
use tidegate_structures::gate::{Block, BlockReader, Filler, Next, Planned};
use tidegate_structures::memory;

use super::source::SourceRun;
use crate::Result;
use crate::results::interleave::Place;
use crate::stream::memory::Charge;

/// Ready rows in merged order.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    pub(crate) ts: Vec<i64>,
    /// Each row's source.
    pub(crate) sources: Vec<u16>,
    /// Where each row lies among `batches`.
    pub(crate) places: Vec<Place>,
    pub(crate) batches: Vec<RecordBatch>,
}

/// Ready rows in merged order, of which each source's are together.
#[derive(Debug, Default)]
pub(crate) struct ReadyRuns {
    pub(crate) ts: Vec<i64>,
    /// Each row's source.
    pub(crate) sources: Vec<u16>,
    /// The rows of each source one after the other.
    pub(crate) runs: Vec<ReadyRun>,
}

/// Neighbours of one push.
#[derive(Debug)]
pub(crate) struct ReadyRun {
    pub(crate) source: u16,
    /// The position of the push's first row in its source.
    first: u64,
    push: SourceRun,
    /// Which rows of the push they are.
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

    /// The charge of the rows of the push, and how much of it these rows take.
    pub(crate) fn charge(&self) -> (usize, Arc<Charge>) {
        let charge = &self.push.charge;
        (charge.bytes().div_ceil(self.push.batch.num_rows().max(1)) * self.len(), charge.clone())
    }
}

impl ReadyRuns {
    /// The rows of blocks that follow each other.
    pub(crate) fn new(blocks: &[Planned<SourceRun>], driver: &Driver) -> Result<ReadyRuns> {
        let rows = blocks.iter().map(Planned::len).sum();
        let (mut ts, mut sources) = (memory::filled(rows, 0), memory::filled(rows, 0));
        // 1. Each block's rows are merged where they belong.
        let (mut ts_left, mut sources_left) = (&mut ts[..], &mut sources[..]);
        let places = blocks.iter().map(|block| {
            let (ts, rest) = std::mem::take(&mut ts_left).split_at_mut(block.len());
            ts_left = rest;
            let (sources, rest) = std::mem::take(&mut sources_left).split_at_mut(block.len());
            sources_left = rest;
            (block, ts, sources)
        });
        let places: Vec<_> = places.collect();
        driver.map_with(places, Filler::default, |filler, (block, ts, sources)| {
            block.write(filler, ts, sources)
        })?;
        // 2. A source's run may go on in the next block.
        let mut runs: Vec<ReadyRun> = Vec::new();
        let mut last: HashMap<u16, usize> = HashMap::new();
        for (pushed, range) in blocks.iter().flat_map(Planned::pieces) {
            let (source, first) = (pushed.first.source(), pushed.first.position());
            match last.get(&source).map(|&last| &mut runs[last]).filter(|run| run.first == first) {
                Some(run) => run.range.end = range.end,
                None => {
                    last.insert(source, runs.len());
                    runs.push(ReadyRun { source, first, push: pushed.run.clone(), range });
                }
            }
        }
        // Each source's stay in order.
        runs.sort_by_key(|run| run.source);
        Ok(ReadyRuns { ts, sources, runs })
    }
}

/// How a reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// There are more rows ready.
    More,
    /// No row is ready now.
    NotYet,
    /// There will be no more.
    End,
}

/// Plans the ready rows, about `rows` of them at most.
pub(crate) fn plan(
    reader: &mut BlockReader<SourceRun>,
    rows: usize,
) -> (Vec<Planned<SourceRun>>, Rest) {
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

impl Ready {
    /// The rows of blocks that follow each other.
    pub(crate) fn new(blocks: Vec<Planned<SourceRun>>, filler: &mut Filler) -> Ready {
        let rows = blocks.iter().map(Planned::len).sum();
        let mut ready = Ready {
            ts: memory::vec(rows),
            sources: memory::vec(rows),
            places: memory::vec(rows),
            ..Ready::default()
        };
        // The batch in which each source's rows lie last, by the position of its first row.
        let mut last = HashMap::new();
        for block in blocks {
            ready.add(block.filled(filler), &mut last);
            block.recycle(filler);
        }
        ready
    }

    fn add(&mut self, block: &Block<SourceRun>, last: &mut HashMap<u16, (u64, u32)>) {
        // 1. The block's runs, which lie in order of source and position, become batches.
        let mut lanes: Vec<Lane> = Vec::with_capacity(block.runs().len());
        for pushed in block.runs() {
            let (source, first) = (pushed.first.source(), pushed.first.position());
            let batch = match last.get(&source) {
                Some(&(known, batch)) if known == first => batch,
                _ => {
                    self.batches.push(pushed.run.batch.clone());
                    (self.batches.len() - 1) as u32
                }
            };
            last.insert(source, (first, batch));
            let end = first + pushed.run.batch.num_rows() as u64;
            lanes.push(Lane { source, first, end, batch, next: lanes.len() + 1 });
        }
        // 2. Each source's rows go through its runs one after the other.
        let sources = lanes.last().map_or(0, |lane| usize::from(lane.source) + 1);
        let mut at = vec![Lane::default(); sources];
        lanes.iter().rev().for_each(|lane| at[usize::from(lane.source)] = *lane);
        self.ts.extend_from_slice(block.ts());
        self.sources.extend(block.ids().iter().map(|id| id.source()));
        self.places.extend(block.ids().iter().map(|id| {
            let (lane, position) = (&mut at[usize::from(id.source())], id.position());
            while lane.end <= position {
                *lane = lanes[lane.next];
            }
            (lane.batch, (position - lane.first) as u32)
        }));
    }
}

/// A run of one source, and its batch.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    source: u16,
    first: u64,
    end: u64,
    batch: u32,
    /// The number of the run after it.
    next: usize,
}

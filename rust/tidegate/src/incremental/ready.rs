//! Rows that the gate has given, and the batches in which they lie.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use tidegate_structures::gate::{Block, BlockReader, Next};
use tidegate_sync::Charge;

use super::source::SourceRun;
use crate::interleave::Place;

/// Ready rows in merged order.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) ts: Vec<i64>,
    /// Each row's source.
    pub(super) sources: Vec<u16>,
    /// Where each row lies among `batches`.
    pub(super) places: Vec<Place>,
    pub(super) batches: Vec<RecordBatch>,
    /// When the rows of each batch were pushed.
    pub(super) pushed: Vec<Instant>,
    /// What each batch has been charged.
    pub(super) charges: Vec<Arc<Charge>>,
}

/// How a reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// There are more rows ready.
    More,
    /// No row is ready now.
    NotYet,
    /// There will be no more.
    End,
}

impl Ready {
    /// Takes what is ready, some `rows` rows at most.
    pub(super) fn read(reader: &mut BlockReader<SourceRun>, rows: usize) -> (Ready, Rest) {
        let mut ready = Ready::default();
        // The batch in which each source's rows lie last, by the position of its first row.
        let mut last: HashMap<u16, (u64, u32)> = HashMap::new();
        while ready.ts.len() < rows {
            match reader.next_block() {
                Next::Ready(block) => ready.add(block, &mut last),
                Next::NotYet => return (ready, Rest::NotYet),
                Next::End => return (ready, Rest::End),
            }
        }
        (ready, Rest::More)
    }

    fn add(&mut self, block: &Block<SourceRun>, last: &mut HashMap<u16, (u64, u32)>) {
        // 1. The block's runs, which lie in order of source and position, become batches.
        let mut runs: Vec<Lane> = Vec::new();
        for pushed in block.runs() {
            let (source, first) = (pushed.first.source(), pushed.first.position());
            let batch = match last.get(&source) {
                Some(&(known, batch)) if known == first => batch,
                _ => {
                    self.batches.push(pushed.run.batch.clone());
                    self.pushed.push(pushed.run.pushed);
                    self.charges.push(pushed.run.charge.clone());
                    (self.batches.len() - 1) as u32
                }
            };
            last.insert(source, (first, batch));
            let end = first + pushed.run.batch.num_rows() as u64;
            runs.push(Lane { source, first, end, batch });
        }
        // 2. Each source's rows go through its runs one after the other.
        let mut at: Vec<u32> = Vec::new();
        for (nth, run) in runs.iter().enumerate().rev() {
            let source = usize::from(run.source);
            if at.len() <= source {
                at.resize(source + 1, u32::MAX);
            }
            at[source] = nth as u32;
        }
        self.ts.extend_from_slice(block.ts());
        self.sources.extend(block.ids().iter().map(|id| id.source()));
        self.places.extend(block.ids().iter().map(|id| {
            let at = &mut at[usize::from(id.source())];
            while runs[*at as usize].end <= id.position() {
                *at += 1;
            }
            let run = &runs[*at as usize];
            (run.batch, (id.position() - run.first) as u32)
        }));
    }
}

/// A run of one source, and its batch.
struct Lane {
    source: u16,
    first: u64,
    end: u64,
    batch: u32,
}

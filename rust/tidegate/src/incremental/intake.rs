//! The sources of an operator, and the gate through which their rows come.

use std::sync::{Arc, Mutex};

use tidegate_structures::gate::{BlockGate, BlockReader, Next};
use tidegate_sync::Budget;

use super::late::LateRows;
use super::lock;
use super::news::News;
use super::ready::{Ready, Rest};
use super::source::{Shared, Source, SourceRun, SourceStats, Stream};
use crate::{Error, Result};

/// What stands between pushes and an operator.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) sources: Vec<Arc<Mutex<Source>>>,
    pub(super) shared: Shared,
    reader: BlockReader<SourceRun>,
}

impl Intake {
    /// Sources of these names and streams, which together hold at most `memory_limit` bytes.
    pub(super) fn new(streams: Vec<(String, Stream)>, memory_limit: Option<usize>) -> Result<Self> {
        let shared = Shared {
            late: LateRows::default(),
            news: Arc::new(News::default()),
            budget: Budget::new(memory_limit.unwrap_or(usize::MAX)),
        };
        let (gates, mut readers) =
            BlockGate::new(streams.len(), 1).map_err(|error| Error::argument(format!("sources: {error}")))?;
        let source = |((name, stream), gate)| Arc::new(Mutex::new(Source::new(name, stream, shared.clone(), gate)));
        let sources = streams.into_iter().zip(gates).map(source).collect();
        Ok(Intake { sources, reader: readers.pop().expect("one reader was asked for"), shared })
    }

    /// The next rows that are ready, some `rows` at most.
    pub(super) fn read(&mut self, rows: usize) -> (Ready, Rest) {
        Ready::read(&mut self.reader, rows)
    }

    /// No row that was not read yet is below it; `None` once all sources have closed.
    pub(super) fn watermark(&self) -> Option<i64> {
        self.reader.watermark()
    }

    pub(super) fn stats(&self) -> Vec<SourceStats> {
        self.sources.iter().map(|source| lock(source).stats()).collect()
    }

    /// Closes the sources and drops what they have brought.
    pub(super) fn close(&mut self) {
        self.sources.iter().for_each(|source| lock(source).abandon());
        while let Next::Ready(_) = self.reader.next_block() {}
        self.shared.late.take();
    }
}

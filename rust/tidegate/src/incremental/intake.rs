//! The sources of an operator, and the gate through which their rows come.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use tidegate_structures::gate::{BlockGate, BlockReader};

use super::late::LateRows;
use super::lock;
use super::memory::Memory;
use super::news::News;
use super::snapshot::{Reader, Writer};
use super::source::{Shared, Source, SourceRun, SourceStats, Stream};
use crate::{Error, Result};

/// What stands between pushes and an operator.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) sources: Vec<Arc<Mutex<Source>>>,
    pub(super) shared: Shared,
    /// Until the operator is closed.
    reader: Option<BlockReader<SourceRun>>,
}

impl Intake {
    /// Sources of these names and streams. Each of their rows is charged so many bytes beside its own.
    pub(super) fn new(streams: Vec<(String, Stream)>, memory: Memory, row_bytes: usize) -> Result<Self> {
        let shared = Shared { row_bytes, late: LateRows::default(), news: Arc::new(News::default()), memory };
        let (gates, mut readers) =
            BlockGate::new(streams.len(), 1).map_err(|error| Error::argument(format!("sources: {error}")))?;
        let source = |((name, stream), gate)| Arc::new(Mutex::new(Source::new(name, stream, shared.clone(), gate)));
        let sources = streams.into_iter().zip(gates).map(source).collect();
        Ok(Intake { sources, reader: readers.pop(), shared })
    }

    /// Whoever reads the gate; nobody once the operator is closed.
    pub(super) fn reader(&mut self) -> Option<&mut BlockReader<SourceRun>> {
        self.reader.as_mut()
    }

    /// No row that was not read yet is below it; `None` once all sources have closed.
    pub(super) fn watermark(&self) -> Option<i64> {
        self.reader.as_ref()?.watermark()
    }

    pub(super) fn stats(&self) -> Vec<SourceStats> {
        self.sources.iter().map(|source| lock(source).stats()).collect()
    }

    /// Writes the sources and the rows that were not read.
    pub(super) fn write(&mut self, writer: &mut Writer) -> Result<()> {
        // Held together, so that the sources are written as they were at one moment.
        let sources: Vec<_> = self.sources.iter().map(|source| lock(source)).collect();
        let mut unread = vec![Vec::new(); sources.len()];
        let reader = self.reader.as_mut().ok_or_else(|| Error::closed("the operator is closed"))?;
        for (pushed, Range { start, end }) in reader.unread() {
            unread[usize::from(pushed.first.source())].push(pushed.run.batch.slice(start, end - start));
        }
        sources.iter().zip(unread).try_for_each(|(source, unread)| source.write(unread, writer))
    }

    /// Reads what [`write`](Self::write) wrote, into sources that were not used.
    pub(super) fn restore(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.sources.iter().try_for_each(|source| lock(source).read(reader))
    }

    /// Closes the sources and drops what they have brought.
    pub(super) fn close(&mut self) {
        // What is in the gate goes with its reader.
        self.reader = None;
        self.sources.iter().for_each(|source| lock(source).abandon());
        self.shared.late.take();
    }
}

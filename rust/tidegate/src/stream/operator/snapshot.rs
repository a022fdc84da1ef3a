//! Saves the state of an operator as bytes, and restores an operator from these bytes.

use std::collections::VecDeque;

use arrow_schema::SchemaRef;
use tidegate_operators::driver::Stopped;
use tidegate_sync::Stop;

use super::Operator;
use crate::columns::dictionary::concat_batches;
use crate::columns::roomy::with_indices;
use crate::digest::STATE_BYTES;
use crate::stream::intake::source::SourceStats;
use crate::stream::readers::ResultBatch;
use crate::stream::state::snapshot::{Reader, TABLE_BYTES, Writer, damaged};
use crate::{Digest, Error, Result};

impl Operator {
    /// Returns the operator's state as bytes. When [`restore`](Self::restore) loads these bytes
    /// into a new operator, that operator continues where this one stopped. Before the state is
    /// saved, all ready rows are processed. The snapshot contains the results of these rows, unless
    /// a poll has already returned them. If `pause` is requested, the call fails, and a later call
    /// resumes the work.
    ///
    /// A snapshot contains the sources, the rows that are not ready yet, the late rows, and the
    /// results that have not yet been returned. For all other rows, the snapshot contains the state
    /// that the operator keeps. The content of a snapshot does not depend on the number of threads.
    pub fn snapshot(&mut self, pause: &Stop) -> Result<Vec<u8>> {
        self.catch_up(pause)?;
        self.tactic.release();
        // Rows that have arrived in the meantime do not belong to this snapshot.
        while self.tactic.is_working() {
            if pause.is_requested() {
                return Err(Stopped.into());
            }
            self.step()?;
        }
        if self.readers.are_apart() {
            return Err(Error::state(
                "one reader has read less than another, but a snapshot has one position for all \
                 readers; continue reading with the readers that are behind, or close them",
            ));
        }
        let mut writer = Writer::new(&self.common.query);
        self.common.intake.write(&mut writer)?;
        self.common.intake.shared.late.write(&mut writer)?;
        self.tactic.write(&self.common, &mut writer)?;
        // Discard faults from writing the state. The step that needs these values evaluates them
        // again.
        self.common.faults.take();
        writer.number(self.rows_out);
        if let Some(digest) = &self.digest {
            writer.bytes(&digest.to_bytes());
        }
        if self.handed.is_some() {
            for made in &mut self.common.ready {
                made.batch = with_indices(&made.batch, &self.common.schema)?;
            }
        }
        if let Some(rows) = self.tactic.batch_rows() {
            self.common.ready = recut(&self.common.ready, &self.common.schema, rows)?;
        }
        writer.number(self.common.ready.len() as u64);
        self.common.ready.iter().try_for_each(|made| writer.table(&made.batch))?;
        Ok(writer.finish())
    }

    /// Restores the state from a snapshot of the same query. This operator must be unused. If this
    /// call fails, the operator is either unchanged or closed. The operator is unchanged if `stop`
    /// is requested before the entire snapshot has been read.
    pub fn restore(&mut self, snapshot: &[u8], stop: &Stop) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.is_used() {
            return Err(Error::state(format!(
                "a snapshot can only be restored into an unused {}; create a new one",
                self.name()
            )));
        }
        let Operator { common, tactic, rows_out, digest, .. } = self;
        let mut reader = Reader::new(snapshot, &common.query)?;
        let intake = common.intake.read(&mut reader)?;
        let row_bytes = common.intake.shared.row_bytes;
        let most = tactic.batch_rows().unwrap_or(usize::MAX);
        // The tactic reads and checks its part of the snapshot before it calls `admit`. The rest is
        // then read and checked, and memory is reserved for everything, before any state is
        // changed.
        let mut admitted = None;
        let mut admit = |reader: &mut Reader<'_>, bytes: usize| {
            let handed_out = reader.rows()?;
            let restored = digest.as_ref().map(|digest| restored(digest, reader, handed_out));
            let restored = restored.transpose()?;
            let ready = (0..reader.count(TABLE_BYTES)?)
                .map(|_| reader.table(&common.schema).map(ResultBatch::from));
            let ready = ready.collect::<Result<VecDeque<_>>>()?;
            if ready.iter().any(|made| made.batch.num_rows() > most) {
                return Err(damaged("results are longer than they are made"));
            }
            reader.finish()?;
            if stop.is_requested() {
                return Err(Stopped.into());
            }
            let mut charges = common.intake.charge(&intake, bytes)?;
            let kept = charges.take_kept();
            admitted = Some((charges, handed_out, restored, ready));
            Ok(kept)
        };
        let taken = Error::catch(|| tactic.restore(&intake, &mut reader, row_bytes, &mut admit));
        let Some((charges, handed_out, restored, ready)) = admitted else {
            return taken.and(Err(Error::bug("a tactic asks to be admitted")));
        };
        common.latency.restore(intake.begun());
        let taken = taken.and(Error::catch(|| common.intake.restore(intake, charges)));
        (*rows_out, *digest, common.ready) = (handed_out, restored, ready);
        taken.map_err(|error| {
            self.close();
            if error.is_data() { damaged(error.message()) } else { error }
        })
    }

    fn is_used(&self) -> bool {
        let is_fed = |source: &SourceStats| {
            source.rows_in > 0 || source.watermark.is_some() || source.closed || source.idle
        };
        self.rows_out > 0
            || !self.common.ready.is_empty()
            || self.tactic.has_rows()
            || self.common.intake.has_added()
            || self.common.intake.stats().iter().any(is_fed)
    }
}

/// Returns the digest of the `rows` results that were returned before the snapshot.
fn restored(digest: &Digest, reader: &mut Reader<'_>, rows: u64) -> Result<Digest> {
    let state = reader.bytes()?;
    let restored = digest.clone().with_state(state).filter(|digest| digest.rows() == rows);
    restored
        .ok_or_else(|| damaged(&format!("it lacks the {STATE_BYTES}-byte digest of {rows} rows")))
}

/// Divides the results that have not been returned into batches whose sizes depend only on the
/// number of rows. Otherwise, the batch sizes would depend on the number of threads. Later polls
/// return these batches, both from this operator and from an operator that is restored from the
/// snapshot.
fn recut(
    ready: &VecDeque<ResultBatch>,
    schema: &SchemaRef,
    batch_rows: usize,
) -> Result<VecDeque<ResultBatch>> {
    let rows = ready.iter().map(|made| made.batch.num_rows()).sum::<usize>();
    let cut = |from: usize| {
        let to = rows.min(from + batch_rows);
        let mut start = 0;
        let parts = ready.iter().filter_map(|ResultBatch { batch, .. }| {
            let (first, end) = (start, start + batch.num_rows());
            start = end;
            let part = from.max(first)..to.min(end);
            (part.start < part.end).then(|| batch.slice(part.start - first, part.len()))
        });
        Ok(concat_batches(schema, &parts.collect::<Vec<_>>())?.into())
    };
    let cut = (0..rows).step_by(batch_rows).map(cut).collect::<Result<VecDeque<ResultBatch>>>();
    cut.map(|mut cut| {
        // The memory that is charged for these batches is released when the last one is read.
        if let Some(last) = cut.back_mut() {
            last.charges = ready.iter().flat_map(|made| made.charges.clone()).collect();
        }
        cut
    })
}

//! The rows in an epoch of a streaming aggregation, and the rows from which functions choose.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_operators::driver::Driver;
use tidegate_operators::rows::NO_ROW;
use tidegate_structures::gate::PlannedBlock;
use tidegate_structures::memory::pages::{Pages, Slot};

use super::AggregateTactic;
use crate::Result;
use crate::aggregate::streams::Streams;
use crate::columns::dictionary::concat_batches;
use crate::columns::table::Table;
use crate::columns::time::Int64s;
use crate::stream::intake::rows::SourceRun;

/// If a source's pieces have fewer rows than this on average, the pieces are concatenated before
/// they are processed.
const PIECE_ROWS: usize = 1 << 10;

/// Adjacent rows in a run, and the position of the run's first row.
type Part<'a> = (&'a SourceRun, u64, Range<usize>);

/// Rows from one source, with their times.
type Piece = (arrow_buffer::ScalarBuffer<i64>, RecordBatch);

impl AggregateTactic {
    /// Returns the rows from each source.
    pub(crate) fn tables(
        &self,
        pending: &[PlannedBlock<SourceRun>],
        driver: &Driver,
    ) -> Result<Vec<(Table, Int64s)>> {
        let mut of_sources: Vec<Vec<Part<'_>>> = vec![Vec::new(); self.sources];
        for (pushed, rows) in pending.iter().flat_map(PlannedBlock::pieces) {
            let of_source = &mut of_sources[usize::from(pushed.first.source())];
            match of_source.last_mut() {
                // The next block continues where the last one was divided.
                Some((_, first, last))
                    if *first == pushed.first.position() && last.end == rows.start =>
                {
                    last.end = rows.end;
                }
                _ => of_source.push((&pushed.run, pushed.first.position(), rows)),
            }
        }
        let read = &self.read[..];
        let schema = Arc::new(self.stream.schema.project(read)?);
        let table = |(number, pieces): (usize, Vec<Part<'_>>)| {
            let piece = |(run, _, rows): &Part<'_>| -> Result<Piece> {
                let (start, rows) = (rows.start, rows.len());
                Ok((run.ts.slice(start, rows), run.batch.slice(start, rows).project(read)?))
            };
            let pieces = pieces.iter().map(piece).collect::<Result<Vec<_>>>()?;
            let (ts, batches) = match &pieces[..] {
                [(ts, batch)] => (Int64s::Arrow(ts.clone()), vec![batch.clone()]),
                pieces => in_few_pieces(&schema, pieces)?,
            };
            Ok((Table::of_valid(format!("source {number}"), schema.clone(), batches)?, ts))
        };
        driver.map(of_sources.into_iter().enumerate().collect(), table)?.into_iter().collect()
    }

    /// Stores an epoch's rows so that functions can choose from them. Returns the number of each
    /// source's first row.
    pub(crate) fn choose_from(&mut self, streams: &Streams) -> Result<Vec<u32>> {
        if self.rows.is_needless() {
            return Ok(vec![0; streams.sources.len()]);
        }
        let names = self.rows.schema().clone();
        let places =
            names.fields().iter().map(|field| self.plan.functions.read.index_of(field.name()));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let mut firsts = Vec::with_capacity(streams.sources.len());
        for source in &streams.sources {
            let mut first = None;
            for batch in &streams.table.batches()[source.batches.clone()] {
                let number = self.rows.push(batch.project(&places)?);
                first = first.or(Some(number));
            }
            firsts.push(first.unwrap_or(0));
        }
        Ok(firsts)
    }

    /// Keeps only the rows that have been chosen.
    pub(crate) fn gather_chosen(&mut self) -> Result<()> {
        if self.rows.is_needless() {
            return Ok(());
        }
        let mut chosen = Vec::new();
        // The new number of each row.
        let mut new = vec![NO_ROW; self.rows.len()];
        self.windows.for_each_row(&mut |row| {
            let number = &mut new[*row as usize];
            if *number == NO_ROW {
                *number = chosen.len() as u32;
                chosen.push(*row);
            }
        });
        // The states refer to the old rows until the new ones exist.
        let rows = self.rows.table(&chosen)?;
        self.windows.for_each_row(&mut |row| *row = new[*row as usize]);
        self.windows
            .follow_rows(&|row| new.get(row as usize).copied().filter(|number| *number != NO_ROW));
        self.rows.keep(rows);
        Ok(())
    }
}

/// Concatenates the times into one piece. The rows are also concatenated if their pieces are small.
/// Larger pieces are processed separately.
fn in_few_pieces(schema: &SchemaRef, pieces: &[Piece]) -> Result<(Int64s, Vec<RecordBatch>)> {
    let rows = pieces.iter().map(|(ts, _)| ts.len()).sum();
    let mut ts = Pages::unwritten(rows);
    let mut filled = 0;
    for (piece, _) in pieces {
        Slot::copy(&mut ts[filled..filled + piece.len()], piece);
        filled += piece.len();
    }
    let batches = match pieces {
        [] => Vec::new(),
        pieces if rows >= pieces.len() * PIECE_ROWS => {
            pieces.iter().map(|(_, batch)| batch.clone()).collect()
        }
        pieces => vec![concat_batches(schema, pieces.iter().map(|(_, batch)| batch))?],
    };
    Ok((Int64s::Own(ts.written()), batches))
}

//! Groups rows into cells by time slice and key.

use std::ops::Range;

use tidegate_structures::memory;

use super::dense::Dense;
use super::part::{SliceCells, TimePart};
use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::slices::partials::{NOWHERE, SourceRun, clear, number_from, number_rows};
use crate::aggregate::slices::windows::{Slice, Windows};
use crate::driver::{Driver, Stopped};

/// The approximate number of rows in a part. The data gathered from a part should fit in a
/// second-level cache.
const PART_ROWS: usize = 1 << 15;

/// The distance between sampled rows. The sampled rows' times determine where to cut a source.
const SAMPLE_ROWS: usize = 1 << 10;

/// The partial or cell of each row in a part.
#[derive(Debug)]
pub(in crate::aggregate) enum Belongs<'a> {
    /// Rows belong to partials.
    Partials(Partials<'a>),
    /// Rows belong directly to the cell of their slice and key.
    Keys(Dense),
}

/// The partials and rows in a part.
///
/// A *partial* covers the rows from one source that have the same key and are in the same slice.
/// Partials are numbered source by source, and cells slice by slice, both from 1. If there is only
/// one source, each partial is also a cell.
#[derive(Debug)]
pub(in crate::aggregate) struct Partials<'a> {
    /// The rows of each source.
    rows: Vec<Range<usize>>,
    /// The partial of each row, source by source. [`NOWHERE`] marks rows that are not in any
    /// window.
    partial_of: &'a [u32],
    /// One more than the largest partial number.
    pub(in crate::aggregate) count: usize,
    /// The runs of partials, sorted by slice and then by source.
    pub(in crate::aggregate) runs: Vec<SourceRun>,
    /// The cell of each partial. `None` if every partial number is equal to the cell number.
    pub(in crate::aggregate) cell_of: Option<Vec<u32>>,
}

impl Partials<'_> {
    /// Returns each source's rows with their partials.
    pub(in crate::aggregate) fn sources(
        &self,
    ) -> impl Iterator<Item = (usize, Range<usize>, &[u32])> {
        let mut rest = self.partial_of;
        self.rows.iter().enumerate().map(move |(source, rows)| {
            let (partials, others) = rest.split_at(rows.len());
            rest = others;
            (source, rows.clone(), partials)
        })
    }
}

/// Finds the slices and cells of all rows, part by part. `fold` receives each part with the
/// partials or cells of its rows.
pub(in crate::aggregate) fn parts<R: Send>(
    streams: &[Stream<'_>],
    key_count: usize,
    windows: &Windows,
    driver: &Driver,
    fold: impl Fn(&TimePart, &Belongs<'_>) -> R + Sync,
) -> Result<Vec<(TimePart, R)>, Stopped> {
    let cuts = cuts(streams, windows);
    // The ends of the parts in each source.
    let ends: Vec<Vec<usize>> = streams
        .iter()
        .map(|stream| {
            let end = |slice: &Slice| {
                let last = windows.last_time(*slice);
                stream.ts.partition_point(|ts| *ts <= last)
            };
            std::iter::once(0).chain(cuts.iter().map(end)).chain([stream.ts.len()]).collect()
        })
        .collect();
    let rows = (0..=cuts.len())
        .map(|part| ends.iter().map(|ends| ends[part]..ends[part + 1]).collect())
        .collect();
    driver.map_with(
        rows,
        || (Slots::new(key_count), Vec::new()),
        |(slots, partial_of), rows: Vec<Range<usize>>| {
            let (part, belongs) = match Dense::new(streams, &rows, key_count, windows) {
                Some((part, dense)) => (part, Belongs::Keys(dense)),
                None => {
                    let mut part = Builder::new(&rows, windows, slots, partial_of);
                    for (stream, rows) in streams.iter().zip(&rows) {
                        part.add(
                            &stream.ts[rows.clone()],
                            stream.keys.map(|keys| &keys[rows.clone()]),
                        );
                    }
                    let (part, partials) = part.finish(rows);
                    (part, Belongs::Partials(partials))
                }
            };
            let folded = fold(&part, &belongs);
            (part, folded)
        },
    )
}

/// Returns the last slice of every part except the last one, chosen so that parts have about
/// [`PART_ROWS`] rows.
fn cuts(streams: &[Stream<'_>], windows: &Windows) -> Vec<Slice> {
    let samples = |stream: &Stream<'_>| {
        stream.ts.iter().skip(SAMPLE_ROWS - 1).step_by(SAMPLE_ROWS).copied().collect()
    };
    let mut samples: Vec<i64> =
        streams.iter().flat_map(|stream| -> Vec<i64> { samples(stream) }).collect();
    samples.sort_unstable();
    let apart = PART_ROWS / SAMPLE_ROWS;
    let mut cuts: Vec<Slice> =
        samples.iter().skip(apart - 1).step_by(apart).map(|ts| windows.slice_of(*ts)).collect();
    cuts.dedup();
    cuts
}

/// The most recent partial number and cell number of each key.
#[derive(Debug)]
struct Slots {
    partials: Vec<u32>,
    cells: Vec<u32>,
}

impl Slots {
    fn new(key_count: usize) -> Self {
        Slots {
            partials: memory::filled(key_count, NOWHERE),
            cells: memory::filled(key_count, NOWHERE),
        }
    }
}

/// Builds one part, source by source.
struct Builder<'a> {
    windows: &'a Windows,
    slots: &'a mut Slots,
    one_source: bool,
    partial_of: &'a mut [u32],
    filled: usize,
    /// The key of each partial.
    keys: Vec<u32>,
    runs: Vec<SourceRun>,
    source: usize,
}

impl<'a> Builder<'a> {
    fn new(
        rows: &[Range<usize>],
        windows: &'a Windows,
        slots: &'a mut Slots,
        partial_of: &'a mut Vec<u32>,
    ) -> Self {
        partial_of.resize(rows.iter().map(ExactSizeIterator::len).sum(), NOWHERE);
        let one_source = rows.len() == 1;
        // The key of the placeholder for no partial.
        let keys = vec![0];
        Builder {
            windows,
            slots,
            one_source,
            partial_of,
            filled: 0,
            keys,
            runs: Vec::new(),
            source: 0,
        }
    }

    /// Adds the rows from the next source, which must be in time order.
    fn add(&mut self, ts: &[i64], keys: Option<&[u32]>) {
        let out = &mut self.partial_of[self.filled..][..ts.len()];
        self.filled += ts.len();
        let rows = Stream { ts, keys };
        let Builder { windows, slots, keys: known, runs, source, .. } = self;
        number_rows(rows, *source, windows, &mut slots.partials, known, runs, out);
        self.source += 1;
    }

    fn finish(mut self, rows: Vec<Range<usize>>) -> (TimePart, Partials<'a>) {
        let count = self.keys.len();
        clear(&mut self.slots.partials, &self.keys);
        // The runs of each source are in time order, so this sort merges one sorted sequence per
        // source.
        self.runs.sort_by_key(|run| run.slice);
        let by_slice = self.runs.chunk_by(|a, b| a.slice == b.slice);
        if self.one_source {
            let slices = self
                .runs
                .iter()
                .map(|run| SliceCells { slice: run.slice, cells: run.partials.clone() })
                .collect();
            let Builder { runs, keys, partial_of, .. } = self;
            return (
                TimePart { keys, slices },
                Partials { rows, partial_of, count, runs, cell_of: None },
            );
        }
        let mut cell_of = memory::filled(count, NOWHERE);
        let mut keys = vec![0];
        let mut slices = Vec::new();
        for runs in by_slice {
            let first = keys.len();
            for run in runs {
                let range = run.partials.clone();
                number_from(
                    first,
                    &self.keys[range.clone()],
                    &mut self.slots.cells,
                    &mut keys,
                    &mut cell_of[range],
                );
            }
            slices.push(SliceCells { slice: runs[0].slice, cells: first..keys.len() });
        }
        clear(&mut self.slots.cells, &keys);
        let Builder { runs, partial_of, .. } = self;
        (
            TimePart { keys, slices },
            Partials { rows, partial_of, count, runs, cell_of: Some(cell_of) },
        )
    }
}

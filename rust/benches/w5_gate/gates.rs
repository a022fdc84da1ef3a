//! Measures both gates. One thread feeds each gate, and every reader has its own thread.

use std::thread;
use std::time::{Duration, Instant};

use tidegate_papers::row_gate::{Row, ScaleGate};
use tidegate_structures::gate::{BlockGate, BlockReader, Next, Rejection};

use crate::workload::{Columns, RUN, Slice};

/// Determines how the rows are divided among the readers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Each reader receives all rows.
    All,
    /// Each row goes to one reader.
    Shared,
}

/// Pushes and reads every row, and adds up the values.
pub(crate) fn row_gate(columns: &Columns, readers: usize, rows: Rows) -> Duration {
    let (mut sources, mut gate) =
        ScaleGate::with_memory_limit::<i64>(columns.ts.len(), readers, 8 << 20).unwrap();
    let started = Instant::now();
    thread::scope(|scope| {
        let reading: Vec<_> = match rows {
            Rows::All => gate
                .into_iter()
                .map(|mut reader| scope.spawn(move || sum(|| value(reader.next_ready()))))
                .collect(),
            Rows::Shared => {
                let group = gate.pop().expect("there is a reader").share();
                let mut readers: Vec<_> = (1..readers).map(|_| group.fork()).collect();
                readers.push(group);
                readers
                    .into_iter()
                    .map(|mut reader| scope.spawn(move || sum(|| value(reader.next_ready()))))
                    .collect()
            }
        };
        columns.feed(|source, ts, mut value| {
            while let Err(rejected) = sources[source].push(ts, value) {
                assert!(matches!(rejected, Rejection::Full { .. }));
                value = rejected.into_inner();
                thread::yield_now();
            }
        });
        drop(sources);
        let sums: Vec<i64> = reading.into_iter().map(|reader| reader.join().unwrap()).collect();
        match rows {
            Rows::All => assert!(sums.into_iter().all(|sum| sum == columns.sum)),
            Rows::Shared => assert_eq!(sums.into_iter().fold(0, i64::wrapping_add), columns.sum),
        }
    });
    started.elapsed()
}

fn value(next: Next<Row<'_, i64>>) -> Next<i64> {
    match next {
        Next::Ready(row) => Next::Ready(*row.payload),
        Next::NotYet => Next::NotYet,
        Next::End => Next::End,
    }
}

/// Returns the sum of all values that `next` returns.
fn sum(mut next: impl FnMut() -> Next<i64>) -> i64 {
    let mut sum = 0i64;
    loop {
        match next() {
            Next::Ready(value) => sum = sum.wrapping_add(value),
            Next::NotYet => thread::yield_now(),
            Next::End => return sum,
        }
    }
}

/// Determines what is done with the blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// The blocks are counted.
    Merged,
    /// Each row's value is looked up by its id and added to a sum.
    LookedUp,
    /// The blocks are counted, and the feeding thread also merges.
    Helped,
}

/// Pushes runs and reads blocks.
pub(crate) fn block_gate(columns: &Columns, readers: usize, blocks: Blocks) -> Duration {
    let (mut sources, gate) =
        BlockGate::with_memory_limit::<Slice>(columns.ts.len(), readers, 64 << 20).unwrap();
    let mut helper = (blocks == Blocks::Helped).then(|| gate[0].fork());
    let started = Instant::now();
    thread::scope(|scope| {
        for mut reader in gate {
            scope.spawn(move || {
                let (mut rows, mut sum) = (0, 0i64);
                loop {
                    match reader.next_block() {
                        Next::Ready(block) => {
                            rows += block.len();
                            if blocks == Blocks::LookedUp {
                                for id in block.ids() {
                                    let value = columns.values[usize::from(id.source())]
                                        [id.position() as usize];
                                    sum = sum.wrapping_add(value);
                                }
                            }
                        }
                        Next::NotYet => thread::yield_now(),
                        Next::End => break,
                    }
                }
                assert_eq!(rows, columns.rows);
                assert!(blocks != Blocks::LookedUp || sum == columns.sum);
            });
        }
        scope.spawn(move || {
            let longest = columns.ts[0].len();
            for turn in (0..longest).step_by(RUN) {
                let rows = turn..(turn + RUN).min(longest);
                for ((source, ts), values) in
                    sources.iter_mut().zip(&columns.ts).zip(&columns.values)
                {
                    let mut run = Slice { ts: &ts[rows.clone()], values: &values[rows.clone()] };
                    while let Err(rejected) = source.push(run) {
                        run = rejected.into_inner();
                        help_out(&mut helper);
                        thread::yield_now();
                    }
                }
                help_out(&mut helper);
            }
        });
    });
    started.elapsed()
}

/// Helps merge the rows that are ready.
fn help_out(helper: &mut Option<BlockReader<Slice>>) {
    if let Some(helper) = helper {
        while let Next::Ready(_) = helper.next_block() {}
    }
}

/// Checks that both gates return the rows in sorted order.
pub(crate) fn check(columns: &Columns) {
    let expected = columns.merged();
    let (mut sources, mut readers) = BlockGate::new::<Slice>(columns.ts.len(), 1).unwrap();
    let (mut row_sources, mut row_readers) = ScaleGate::new::<i64>(columns.ts.len(), 1).unwrap();
    for (source, (ts, values)) in columns.ts.iter().zip(&columns.values).enumerate() {
        for (ts, values) in ts.chunks(RUN).zip(values.chunks(RUN)) {
            sources[source].push(Slice { ts, values }).unwrap();
        }
        for (ts, value) in ts.iter().zip(*values) {
            row_sources[source].push(*ts, *value).unwrap();
        }
    }
    drop((sources, row_sources));
    let mut merged = Vec::new();
    while let Next::Ready(block) = readers[0].next_block() {
        for run in block.runs() {
            assert_eq!(run.run.ts.len(), run.run.values.len());
        }
        merged.extend(block.ts().iter().copied().zip(block.ids().iter().copied()));
    }
    assert!(merged == expected, "the block gate's rows are the sorted rows");
    merged.clear();
    while let Next::Ready(row) = row_readers[0].next_ready() {
        merged.push((row.ts, row.id));
    }
    assert!(merged == expected, "the row gate's rows are the sorted rows");
}

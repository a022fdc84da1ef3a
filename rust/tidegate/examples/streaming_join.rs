//! Joins Arrow batches as they arrive, saves the state halfway through, and resumes in another
//! operator.
//!
//! cargo run -p tidegate --example streaming_join

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidegate::stream::{Operator, Parallelism, Poll, StreamOptions, interval_join, lock};
use tidegate::{Bound, Closed, How, IntervalJoin, JoinOptions, Result, Stop};

fn rows(ts: &[i64], sym: &[&str]) -> RecordBatch {
    let ts: ArrayRef = Arc::new(Int64Array::from(ts.to_vec()));
    let sym: ArrayRef = Arc::new(StringArray::from(sym.to_vec()));
    RecordBatch::try_from_iter([("ts", ts), ("sym", sym)])
        .expect("all columns have the same length")
}

/// Joins each left row with the right rows for the same symbol that are at most 2 time units older.
fn operator() -> Result<Operator> {
    let join = IntervalJoin {
        on: ("ts".to_owned(), "ts".to_owned()),
        lower: Some(Bound::Steps(-2).into()),
        upper: Some(Bound::Steps(0).into()),
        closed: Closed::Both,
        open_ends: false,
        limit: None,
        options: JoinOptions {
            by: vec![("sym".to_owned(), "sym".to_owned())],
            predicate: None,
            how: How::Inner,
            suffix: "_right".to_owned(),
            columns: None,
            threads: 2,
            max_rows: None,
            batch_rows: None,
        },
    };
    let options = StreamOptions {
        sources: (1, 1),
        lateness: (None.into(), None.into()),
        memory_limit: None,
        ordered: true,
        pin: false,
    };
    let schema = rows(&[], &[]).schema();
    interval_join(&join, Parallelism::Auto, None, None, schema.clone(), schema, &options)
}

fn push(join: &Operator, source: usize, batch: RecordBatch) -> Result<()> {
    lock(&join.sources()[source]).push(&batch.schema(), vec![batch], &Stop::default())
}

fn poll(join: &mut Operator) -> Result<usize> {
    let mut pairs = 0;
    while let Poll::Batch(batch) = join.poll()? {
        pairs += batch.num_rows();
    }
    Ok(pairs)
}

fn main() -> Result<()> {
    let mut join = operator()?;
    push(&join, 0, rows(&[10, 20, 30], &["A", "B", "A"]))?;
    push(&join, 1, rows(&[8, 10, 19], &["A", "A", "A"]))?;
    // The trade at 20 waits, because a quote at 20 may still arrive.
    let first = poll(&mut join)?;
    let snapshot = join.snapshot(&Stop::default())?;
    join.close();

    let mut join = operator()?;
    join.restore(&snapshot, &Stop::default())?;
    push(&join, 1, rows(&[20, 29], &["B", "A"]))?;
    join.sources().iter().for_each(|source| lock(source).close());
    let second = poll(&mut join)?;
    println!("{first} pairs before the snapshot of {} bytes, {second} after", snapshot.len());
    assert_eq!((first, second), (2, 2));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the schemas fit");
}

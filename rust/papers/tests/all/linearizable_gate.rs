//! Checks short concurrent histories of the row gate, using `histories.rs` from the structures
//! crate. `stress_gate.rs` describes how to run the tests.

use tidegate_papers::row_gate::{ScaleGate, Source};
use tidegate_structures::gate::Next;

use crate::histories::{Did, READERS, SOURCES, history, is_linearizable};

#[test]
#[ignore = "takes seconds"]
fn linearizable_rows() {
    for seed in 0..2000 {
        let (sources, readers) = ScaleGate::new::<()>(SOURCES, READERS).unwrap();
        let call = |source: &mut Option<Source<()>>, did: &Did| match *did {
            Did::Push(ts) => source.as_mut().unwrap().push(ts, ()).unwrap(),
            Did::Advance(ts) => source.as_mut().unwrap().advance(ts),
            Did::Close => source.take().unwrap().close(),
            Did::Read(..) => unreachable!("sources do not read"),
        };
        let threads = history(seed, sources, readers, call, |reader| match reader.next_ready() {
            Next::Ready(row) => {
                Did::Read(vec![(row.ts, row.id.source(), row.id.position())], Next::Ready(()))
            }
            Next::NotYet => Did::Read(Vec::new(), Next::NotYet),
            Next::End => Did::Read(Vec::new(), Next::End),
        });
        assert!(is_linearizable(&threads, SOURCES), "seed {seed}: {threads:#?}");
    }
}

//! Checks short concurrent histories of the block gate, using `histories.rs`. `stress_gate.rs`
//! describes how to run the tests.

use tidegate_structures::gate::{BlockGate, BlockSource, Next};

use crate::histories::{Call, Did, READERS, SOURCES, history, is_linearizable};

#[test]
#[ignore = "takes seconds"]
fn linearizable_blocks() {
    for seed in 0..2000 {
        let (sources, readers) = BlockGate::new::<Vec<i64>>(SOURCES, READERS).unwrap();
        let call = |source: &mut Option<BlockSource<Vec<i64>>>, did: &Did| match *did {
            Did::Push(ts) => source.as_mut().unwrap().push(vec![ts]).unwrap(),
            Did::Advance(ts) => source.as_mut().unwrap().advance(ts),
            Did::Close => source.take().unwrap().close(),
            Did::Read(..) => unreachable!("sources do not read"),
        };
        let threads = history(seed, sources, readers, call, |reader| match reader.next_block() {
            Next::Ready(block) => {
                let ids = block.ids().iter();
                let rows =
                    block.ts().iter().zip(ids).map(|(ts, id)| (*ts, id.source(), id.position()));
                Did::Read(rows.collect(), Next::Ready(()))
            }
            Next::NotYet => Did::Read(Vec::new(), Next::NotYet),
            Next::End => Did::Read(Vec::new(), Next::End),
        });
        assert!(is_linearizable(&threads, SOURCES), "seed {seed}: {threads:#?}");
    }
}

/// The search rejects histories that are impossible for any gate.
#[test]
fn the_search_finds_wrong_answers() {
    let call = |begin, end, did| Call { begin, end, did };
    let rows = |ts| vec![(ts, 0, 0)];
    let source = vec![call(0, 1, Did::Push(5)), call(6, 7, Did::Close)];
    let read = |begin, end, rows, answer| {
        vec![source.clone(), vec![call(begin, end, Did::Read(rows, answer))]]
    };
    assert!(is_linearizable(&read(2, 3, rows(5), Next::Ready(())), 1));
    assert!(
        !is_linearizable(&read(2, 3, Vec::new(), Next::NotYet), 1),
        "the row was ready before the call"
    );
    assert!(is_linearizable(
        &[vec![call(0, 4, Did::Push(5))], read(2, 3, Vec::new(), Next::NotYet).remove(1)],
        1
    ));
    assert!(!is_linearizable(&read(2, 3, rows(4), Next::Ready(())), 1), "there is no such row");
    assert!(!is_linearizable(&read(8, 9, Vec::new(), Next::End), 1), "a row was not returned");
}

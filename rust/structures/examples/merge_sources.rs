//! Two threads push sorted times into a gate, and a third thread reads them as one sorted stream.
//!
//! cargo run -p tidegate-structures --example merge_sources

use std::thread;

use tidegate_structures::gate::{BlockGate, Next, TooManySources};

fn main() -> Result<(), TooManySources> {
    let (sources, mut readers) = BlockGate::new(2, 1)?;
    let reader = &mut readers[0];
    let mut merged = Vec::new();
    thread::scope(|scope| {
        for (mut source, first) in sources.into_iter().zip([0, 1]) {
            scope.spawn(move || {
                for start in (first..1000).step_by(100) {
                    let run: Vec<i64> = (start..start + 100).step_by(2).collect();
                    source.push(run).expect("times are in ascending order within a source");
                }
                source.close();
            });
        }
        loop {
            match reader.next_block() {
                Next::Ready(block) => merged.extend_from_slice(block.ts()),
                Next::NotYet => thread::yield_now(),
                Next::End => break,
            }
        }
    });
    println!("{} times, from {} to {}", merged.len(), merged[0], merged[merged.len() - 1]);
    assert!(merged.iter().copied().eq(0..1000));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("two sources are within the limit");
}

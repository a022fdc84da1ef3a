//! Stages that run at the same time. Each stage processes the output of another.

use tidegate_structures::gate::Next;
use tidegate_sync::Counter;

use crate::threads::{Turn, take_turns};
use tidegate_operators::driver::{Driver, Stopped};

/// The maximum amount of work that a stage does per turn. The limit is large enough that turns cost
/// little, and small enough that the next stage soon has input.
const BATCH: usize = if cfg!(test) { 2 } else { 64 };

/// The outcome of a stage's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// The stage has done some of its work.
    Some,
    /// The stage cannot continue until another stage has made progress.
    Nothing,
    /// The stage has finished its work.
    Last,
}

/// A part of a pipeline. A stage does a little work per turn and is dropped after its last turn.
pub(super) type Stage<'a> = Box<dyn FnMut() -> Did + Send + 'a>;

/// Runs stages until all of them are finished. If there are enough threads, each stage in `own`
/// runs on its own thread. All other stages share the remaining threads.
pub(super) fn run(
    driver: &Driver,
    own: Vec<Stage<'_>>,
    others: Vec<Stage<'_>>,
) -> Result<(), Stopped> {
    let threads = driver.threads().min(own.len() + others.len()).max(1);
    let running = Counter::new(own.len() + others.len());
    let kept = if threads > own.len() { own.len() } else { 0 };
    let mut shares: Vec<Vec<Stage<'_>>> = (0..threads).map(|_| Vec::new()).collect();
    for (nth, stage) in own.into_iter().enumerate() {
        shares[nth % threads].push(stage);
    }
    for (nth, stage) in others.into_iter().enumerate() {
        shares[kept + nth % (threads - kept)].push(stage);
    }
    take_turns(driver, shares.into_iter().map(|stages| turns(stages, &running)).collect())
}

/// Repeatedly gives each stage a turn.
fn turns<'a>(mut stages: Vec<Stage<'a>>, running: &'a Counter) -> impl FnMut() -> Turn + Send + 'a {
    move || {
        let mut worked = false;
        let before = stages.len();
        stages.retain_mut(|stage| {
            let did = stage();
            worked |= did != Did::Nothing;
            did != Did::Last
        });
        running.subtract(before - stages.len());
        // If another thread's last stage is not visible yet, it will be in a later turn.
        match running.get() {
            0 => Turn::Finished,
            _ if worked => Turn::Worked,
            _ => Turn::Waiting,
        }
    }
}

/// Returns a stage that passes on the items of a source, in order.
pub(super) fn feeding<'a, T>(
    mut items: impl Iterator<Item = T> + Send + 'a,
    mut put: impl FnMut(T) + Send + 'a,
) -> Stage<'a> {
    Box::new(move || {
        for _ in 0..BATCH {
            match items.next() {
                Some(item) => put(item),
                None => return Did::Last,
            }
        }
        Did::Some
    })
}

/// Returns a stage that takes items as they become ready.
pub(super) fn taking<'a, T>(
    mut next: impl FnMut() -> Next<T> + Send + 'a,
    mut take: impl FnMut(T) + Send + 'a,
) -> Stage<'a> {
    Box::new(move || {
        for nth in 0..BATCH {
            match next() {
                Next::Ready(item) => take(item),
                Next::NotYet => return if nth == 0 { Did::Nothing } else { Did::Some },
                Next::End => return Did::Last,
            }
        }
        Did::Some
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tidegate_sync::Stop;

    use super::*;

    #[test]
    fn rows_are_taken_while_others_are_put() {
        let (put, most) = (Counter::default(), Mutex::new(0));
        let feed = feeding(0..100, |row| put.set(row + 1));
        let mut taken = 0;
        let take = taking(
            || match put.get() {
                _ if taken == 100 => Next::End,
                put if put == taken => Next::NotYet,
                put => {
                    taken += 1;
                    Next::Ready(put - taken)
                }
            },
            |waiting| {
                let mut most = most.lock().unwrap();
                *most = waiting.max(*most);
            },
        );
        run(&Driver::new(1, Stop::default()), vec![take], vec![feed]).unwrap();
        assert_eq!((taken, put.get()), (100, 100));
        assert!(most.into_inner().unwrap() < BATCH, "at most one turn's rows are waiting");
    }

    #[test]
    fn every_stage_comes_to_its_end_on_any_threads() {
        for threads in [1, 2, 3, 8] {
            for (own, others) in [(0, 1), (0, 5), (1, 0), (1, 4), (3, 2)] {
                let (turns, dropped) = (Counter::default(), Counter::default());
                struct DropCounter<'a>(&'a Counter);
                impl Drop for DropCounter<'_> {
                    fn drop(&mut self) {
                        self.0.add(1);
                    }
                }
                let stage = || -> Stage<'_> {
                    let (mut left, guard) = (7, DropCounter(&dropped));
                    let turns = &turns;
                    Box::new(move || {
                        let _ = &guard;
                        turns.add(1);
                        left -= 1;
                        if left == 0 { Did::Last } else { Did::Some }
                    })
                };
                let all = |count| (0..count).map(|_| stage()).collect();
                run(&Driver::new(threads, Stop::default()), all(own), all(others)).unwrap();
                let expected = (7 * (own + others), own + others);
                assert_eq!((turns.get(), dropped.get()), expected);
            }
        }
    }
}

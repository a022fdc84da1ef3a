//! Records short concurrent histories of a gate, and searches each history for an order that the
//! contract allows.
//!
//! The start and end of each call are recorded. There must be an order of the calls that is
//! consistent with these times and with a sequential gate. The search also detects momentarily
//! wrong results, such as "nothing is ready" when a row was ready. Histories are short, because the
//! search would otherwise take too long. The interleaving of the threads is random, and rare
//! interleavings are left to the loom models. The crate with the published algorithms also uses
//! this file.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::thread;

use tidegate_structures::gate::Next;
use tidegate_sync::Counter;

use crate::random::Random;

/// `(ts, source, position)`
pub(crate) type Row = (i64, u16, u64);

/// The action of a call, and its result.
#[derive(Clone, Debug)]
pub(crate) enum Did {
    Push(i64),
    Advance(i64),
    Close,
    /// The rows that were returned, and the result of the call.
    Read(Vec<Row>, Next<()>),
}

/// A call, and the times at which it started and ended, in ticks of a shared clock.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    pub(crate) did: Did,
}

/// Records the calls of one thread.
struct Recorder<'a> {
    clock: &'a Counter,
    calls: Vec<Call>,
}

impl Recorder<'_> {
    fn record(&mut self, call: impl FnOnce() -> Did) -> &Did {
        let begin = self.clock.add(1);
        let did = call();
        self.calls.push(Call { begin, end: self.clock.add(1), did });
        &self.calls.last().unwrap().did
    }
}

/// Returns whether the calls can be ordered so that the order is consistent with their times and
/// with a sequential gate.
///
/// Threads below `sources` are sources. The gate's state depends only on how many of each thread's
/// calls have been ordered. Each state is therefore visited only once.
pub(crate) fn is_linearizable(threads: &[Vec<Call>], sources: usize) -> bool {
    let mut visited = HashSet::new();
    let mut stack = vec![vec![0usize; threads.len()]];
    while let Some(done) = stack.pop() {
        if done.iter().zip(threads).all(|(done, calls)| *done == calls.len()) {
            return true;
        }
        if !visited.insert(done.clone()) {
            continue;
        }
        let left = || done.iter().zip(threads).filter_map(|(done, calls)| calls.get(*done));
        let first_end = left().map(|call| call.end).min().unwrap();
        for (thread, calls) in threads.iter().enumerate() {
            let Some(call) = calls.get(done[thread]) else { continue };
            if call.begin < first_end && allows(threads, sources, &done, thread, &call.did) {
                let mut next = done.clone();
                next[thread] += 1;
                stack.push(next);
            }
        }
    }
    false
}

/// Returns whether a gate may return this result. `done` contains the number of calls that each
/// thread has already made.
fn allows(threads: &[Vec<Call>], sources: usize, done: &[usize], thread: usize, did: &Did) -> bool {
    let Did::Read(given, answer) = did else { return true };
    let mut rows = BTreeSet::new();
    let mut promises = Vec::new();
    for source in 0..sources {
        let (mut promise, mut position) = (Some(i64::MIN), 0);
        for call in &threads[source][..done[source]] {
            match call.did {
                Did::Push(ts) => {
                    rows.insert((ts, source as u16, position));
                    position += 1;
                    promise = Some(ts);
                }
                Did::Advance(ts) => promise = promise.max(Some(ts)),
                Did::Close => promise = None,
                Did::Read(..) => unreachable!("sources do not read"),
            }
        }
        promises.push(promise);
    }
    let is_ready = |row: &Row| {
        promises.iter().enumerate().all(|(other, promise)| {
            other == usize::from(row.1)
                || promise.is_none_or(|promise| (promise, other as u16) > (row.0, row.1))
        })
    };
    let before = threads[thread][..done[thread]].iter().rev();
    let mut last = before.filter_map(|call| match &call.did {
        Did::Read(rows, _) => rows.last().copied(),
        _ => None,
    });
    let after = last.next().map_or(Bound::Unbounded, Bound::Excluded);
    let mut next = rows.range((after, Bound::Unbounded));
    match answer {
        Next::Ready(()) => given.iter().all(|row| next.next() == Some(row) && is_ready(row)),
        Next::NotYet => {
            promises.iter().any(Option::is_some) && next.next().is_none_or(|row| !is_ready(row))
        }
        Next::End => promises.iter().all(Option::is_none) && next.next().is_none(),
    }
}

/// Starts all threads of a history at about the same time.
fn meet(met: &Counter, threads: usize) {
    met.add(1);
    while met.get() < threads {
        std::hint::spin_loop();
        thread::yield_now();
    }
}

/// Returns the calls of one source. The times rise slowly, so ties with other sources are frequent.
fn source_calls(random: &mut Random) -> Vec<Did> {
    let mut ts = 0;
    let mut calls: Vec<Did> = (0..12)
        .map(|_| {
            ts += random.below(3) as i64;
            if random.below(4) == 0 { Did::Advance(ts) } else { Did::Push(ts) }
        })
        .collect();
    calls.push(Did::Close);
    calls
}

pub(crate) const SOURCES: usize = 2;
pub(crate) const READERS: usize = 2;

/// Records a history: `source` makes one call on a source, and `read` makes one call on a reader.
pub(crate) fn history<S: Send, R: Send>(
    seed: u64,
    sources: Vec<S>,
    readers: Vec<R>,
    call: impl Fn(&mut Option<S>, &Did) + Sync,
    read: impl Fn(&mut R) -> Did + Sync,
) -> Vec<Vec<Call>> {
    let (clock, met) = (Counter::new(0), Counter::new(0));
    let (clock, met, call, read) = (&clock, &met, &call, &read);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, source) in sources.into_iter().enumerate() {
            threads.push(scope.spawn(move || {
                let mut recorder = Recorder { clock, calls: Vec::new() };
                let mut source = Some(source);
                let calls = source_calls(&mut Random::new(seed * 10 + number as u64));
                meet(met, SOURCES + READERS);
                for did in calls {
                    recorder.record(|| {
                        call(&mut source, &did);
                        did
                    });
                }
                recorder.calls
            }));
        }
        for mut reader in readers {
            threads.push(scope.spawn(move || {
                let mut recorder = Recorder { clock, calls: Vec::new() };
                meet(met, SOURCES + READERS);
                while !matches!(recorder.record(|| read(&mut reader)), Did::Read(_, Next::End)) {
                    // Many "nothing is ready" results would only make the search longer.
                    if recorder.calls.len() > 30 {
                        thread::yield_now();
                    }
                }
                recorder.calls
            }));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

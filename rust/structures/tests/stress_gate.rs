//! Both gates under real threads, more of them than cores.
//!
//! `cargo test --release -p tidegate-structures --test stress_gate -- --ignored --test-threads=1`, and
//! again with `RUSTFLAGS="--cfg tidegate_stress"`, which makes segments of one node, blocks of two rows
//! and a look for memory at every step. Seeds are printed on failure.
//!
//! - `stress_*` compare what every reader got with the sorted rows, and count payloads: they catch what
//!   happens often enough in many rows, on this machine's memory model. Under AddressSanitizer they
//!   catch memory used after it was freed.
//! - `linearizable_*` record when each call began and ended and search for an order of the calls that
//!   the sequential model allows: they catch answers that are wrong for a moment only, such as "nothing
//!   is ready" when something was. Histories are short, so rare interleavings are for `loom_gate.rs`.
#![cfg(not(loom))]

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::thread;

use tidegate_structures::gate::{BlockGate, Next, Reader, Rejected, Run, ScaleGate, SharedReader, Source};
use tidegate_sync::Counter;

/// `(ts, source, position)`
type Row = (i64, u16, u64);

/// xorshift, seeded by number.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// How far a source's time rises: often not at all, seldom far.
    fn rise(&mut self) -> i64 {
        match self.below(10) {
            0..4 => 0,
            9 => self.below(500) as i64,
            _ => self.below(5) as i64,
        }
    }
}

/// A payload that counts those alive and holds memory whose misuse a sanitizer sees.
struct Counted {
    row: Box<Row>,
    alive: Arc<Counter>,
}

impl Counted {
    fn new(row: Row, alive: &Arc<Counter>) -> Self {
        alive.add(1);
        Counted { row: Box::new(row), alive: alive.clone() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.subtract(1);
    }
}

/// Pushes `rows` rows with promises and forks in between; what was pushed, forks' rows included.
fn feed(mut source: Source<Counted>, rows: u64, mut random: Random, alive: &Arc<Counter>) -> Vec<Row> {
    let mut pushed = Vec::new();
    let mut ts = source.promised().max(0);
    for position in 0..rows {
        ts += random.rise();
        let row = (ts, source.number(), position);
        let mut payload = Counted::new(row, alive);
        while let Err(rejected) = source.push(ts, payload) {
            assert!(matches!(rejected, Rejected::Full { .. }), "{rejected}");
            payload = rejected.into_inner();
            thread::yield_now();
        }
        pushed.push(row);
        match random.below(200) {
            0..10 => {
                ts += random.rise();
                source.advance(ts);
            }
            10 if rows > 50 => {
                let (fork, seed) = (source.fork().unwrap(), random.below(1 << 40));
                pushed.extend(feed(fork, rows / 20, Random::new(seed), alive));
            }
            11..15 => thread::yield_now(),
            _ => {}
        }
    }
    pushed
}

fn seen(reader: &mut Reader<Counted>, random: &mut Random) -> Vec<Row> {
    let mut rows = Vec::new();
    loop {
        match reader.next_ready() {
            Next::Ready(row) => {
                assert_eq!(*row.payload.row, (row.ts, row.id.source(), row.id.position()));
                rows.push(*row.payload.row);
                if random.below(1000) == 0 {
                    thread::yield_now();
                }
            }
            Next::NotYet => thread::yield_now(),
            Next::End => return rows,
        }
    }
}

#[test]
#[ignore = "takes seconds"]
fn stress_rows() {
    for seed in 0..30 {
        let alive = Arc::new(Counter::new(0));
        let (sources, mut readers) = ScaleGate::with_memory_limit::<Counted>(6, 4, 4 << 20).unwrap();
        let short = readers.pop().unwrap();
        let (mut pushed, read) = thread::scope(|scope| {
            let alive = &alive;
            let number = |source: &Source<Counted>| seed * 100 + u64::from(source.number());
            let feeders: Vec<_> = sources
                .into_iter()
                .map(|source| {
                    scope.spawn(move || {
                        let random = Random::new(number(&source));
                        feed(source, 3000, random, alive)
                    })
                })
                .collect();
            let readers: Vec<_> = readers
                .into_iter()
                .enumerate()
                .map(|(at, mut reader)| {
                    scope.spawn(move || seen(&mut reader, &mut Random::new(seed * 100 + 50 + at as u64)))
                })
                .collect();
            // A reader that comes and goes: forks itself, reads on with the fork, and stops in the middle.
            let short = scope.spawn(move || {
                let (mut reader, mut rows) = (short, Vec::new());
                while rows.len() < 4000 {
                    match reader.next_ready() {
                        Next::Ready(row) => rows.push(*row.payload.row),
                        Next::NotYet => thread::yield_now(),
                        Next::End => break,
                    }
                    if rows.len() % 100 == 0 {
                        let fork = reader.fork();
                        reader = fork;
                    }
                }
                rows
            });
            let pushed: Vec<Row> = feeders.into_iter().flat_map(|feeder| feeder.join().unwrap()).collect();
            let mut read: Vec<Vec<Row>> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
            read.push(short.join().unwrap());
            (pushed, read)
        });
        pushed.sort_unstable();
        assert!(read[3].len() >= 4000.min(pushed.len()) && pushed.starts_with(&read[3]), "seed {seed}");
        for rows in &read[..3] {
            assert!(*rows == pushed, "seed {seed}: {} rows read of {}", rows.len(), pushed.len());
        }
        assert_eq!(alive.get(), 0, "seed {seed}: payloads alive after the gate is gone");
    }
}

#[test]
#[ignore = "takes seconds"]
fn stress_shared() {
    for seed in 0..30 {
        let alive = Arc::new(Counter::new(0));
        let (sources, mut readers) = ScaleGate::with_memory_limit::<Counted>(4, 1, 4 << 20).unwrap();
        let group = readers.pop().unwrap().share();
        let (mut pushed, mut read) = thread::scope(|scope| {
            let alive = &alive;
            let feeders: Vec<_> = sources
                .into_iter()
                .map(|source| {
                    scope.spawn(move || {
                        let random = Random::new(seed * 100 + u64::from(source.number()));
                        feed(source, 3000, random, alive)
                    })
                })
                .collect();
            let forks: Vec<SharedReader<Counted>> = (0..3).map(|_| group.fork()).collect();
            drop(group);
            let readers: Vec<_> = forks
                .into_iter()
                .map(|mut reader| {
                    scope.spawn(move || {
                        let mut rows = Vec::new();
                        loop {
                            match reader.next_ready() {
                                Next::Ready(row) => rows.push(*row.payload.row),
                                Next::NotYet => thread::yield_now(),
                                Next::End => return rows,
                            }
                            if rows.len() % 500 == 1 {
                                reader = reader.fork();
                            }
                        }
                    })
                })
                .collect();
            let pushed: Vec<Row> = feeders.into_iter().flat_map(|feeder| feeder.join().unwrap()).collect();
            let read: Vec<Vec<Row>> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
            (pushed, read)
        });
        assert!(read.iter().all(|rows| rows.is_sorted()), "seed {seed}");
        let mut all: Vec<Row> = read.drain(..).flatten().collect();
        all.sort_unstable();
        pushed.sort_unstable();
        assert!(all == pushed, "seed {seed}: {} rows read of {}", all.len(), pushed.len());
        assert_eq!(alive.get(), 0, "seed {seed}: payloads alive after the gate is gone");
    }
}

/// A run that counts itself.
struct CountedRun(Vec<i64>, #[allow(dead_code, reason = "counts by being dropped")] Counted);

impl Run for CountedRun {
    fn ts(&self) -> &[i64] {
        &self.0
    }
}

#[test]
#[ignore = "takes seconds"]
fn stress_blocks() {
    for seed in 0..100 {
        let alive = Arc::new(Counter::new(0));
        let (sources, readers) = BlockGate::with_memory_limit::<CountedRun>(5, 4, 4 << 20).unwrap();
        let (mut pushed, read) = thread::scope(|scope| {
            let alive = &alive;
            let mut feeders = Vec::new();
            for mut source in sources {
                feeders.push(scope.spawn(move || {
                    let mut random = Random::new(seed * 100 + u64::from(source.number()));
                    let mut handles = [(source.fork().unwrap(), 0i64, 0u64), (source, 0, 0)];
                    let mut pushed = Vec::new();
                    for _ in 0..300 {
                        let at = random.below(2) as usize;
                        let (source, ts, position) = &mut handles[at];
                        let mut run = Vec::new();
                        for _ in 0..random.below(40) {
                            *ts += random.rise();
                            run.push(*ts);
                            pushed.push((*ts, source.number(), *position));
                            *position += 1;
                        }
                        let mut run = CountedRun(run, Counted::new((0, 0, 0), alive));
                        while let Err(rejected) = source.push(run) {
                            assert!(matches!(rejected, Rejected::Full { .. }), "{rejected}");
                            run = rejected.into_inner();
                            thread::yield_now();
                        }
                        if random.below(20) == 0 {
                            *ts += random.rise();
                            source.advance(*ts);
                        }
                    }
                    pushed
                }));
            }
            let mut consumers = Vec::new();
            for (at, mut reader) in readers.into_iter().enumerate() {
                consumers.push(scope.spawn(move || {
                    let mut random = Random::new(seed * 100 + 50 + at as u64);
                    let mut rows = Vec::new();
                    loop {
                        match reader.next_block() {
                            Next::Ready(block) => {
                                let ids = block.ids().iter();
                                rows.extend(
                                    block.ts().iter().zip(ids).map(|(ts, id)| (*ts, id.source(), id.position())),
                                );
                            }
                            Next::NotYet => thread::yield_now(),
                            Next::End => return rows,
                        }
                        match random.below(20) {
                            0 => reader = reader.fork(),
                            1 => thread::yield_now(),
                            _ => {}
                        }
                    }
                }));
            }
            let pushed: Vec<Row> = feeders.into_iter().flat_map(|feeder| feeder.join().unwrap()).collect();
            let read: Vec<Vec<Row>> = consumers.into_iter().map(|reader| reader.join().unwrap()).collect();
            (pushed, read)
        });
        pushed.sort_unstable();
        for rows in read {
            assert!(rows == pushed, "seed {seed}: {} rows read of {}", rows.len(), pushed.len());
        }
        assert_eq!(alive.get(), 0, "seed {seed}: runs alive after the gate is gone");
    }
}

/// What a call did.
#[derive(Clone, Debug)]
enum Did {
    Push(i64),
    Advance(i64),
    Close,
    /// Rows given, and what the call answered.
    Read(Vec<Row>, Next<()>),
}

/// A call, and the ticks of one clock at its begin and end.
#[derive(Clone, Debug)]
struct Call {
    begin: usize,
    end: usize,
    did: Did,
}

/// Records calls of one thread.
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

/// Whether some order of the calls agrees with their times and with the sequential gate.
///
/// Threads below `sources` are sources. The state of the gate is a function of how many calls of each
/// thread were ordered, so a state is visited once.
fn is_linearizable(threads: &[Vec<Call>], sources: usize) -> bool {
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

/// Whether the gate may answer so after `done` calls of each thread.
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
            other == usize::from(row.1) || promise.is_none_or(|promise| (promise, other as u16) > (row.0, row.1))
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
        Next::NotYet => promises.iter().any(Option::is_some) && next.next().is_none_or(|row| !is_ready(row)),
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

/// Calls of one source: rows that rise slowly, so that ties with other sources are frequent.
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

const SOURCES: usize = 2;
const READERS: usize = 2;

/// Records a history: `source` makes one call of a source, `read` one of a reader.
fn history<S: Send, R: Send>(
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
                    // Many answers that nothing is ready would only make the search long.
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
            Next::Ready(row) => Did::Read(vec![(row.ts, row.id.source(), row.id.position())], Next::Ready(())),
            Next::NotYet => Did::Read(Vec::new(), Next::NotYet),
            Next::End => Did::Read(Vec::new(), Next::End),
        });
        assert!(is_linearizable(&threads, SOURCES), "seed {seed}: {threads:#?}");
    }
}

#[test]
#[ignore = "takes seconds"]
fn linearizable_blocks() {
    for seed in 0..2000 {
        let (sources, readers) = BlockGate::new::<Vec<i64>>(SOURCES, READERS).unwrap();
        let call = |source: &mut Option<tidegate_structures::gate::BlockSource<Vec<i64>>>, did: &Did| match *did {
            Did::Push(ts) => source.as_mut().unwrap().push(vec![ts]).unwrap(),
            Did::Advance(ts) => source.as_mut().unwrap().advance(ts),
            Did::Close => source.take().unwrap().close(),
            Did::Read(..) => unreachable!("sources do not read"),
        };
        let threads = history(seed, sources, readers, call, |reader| match reader.next_block() {
            Next::Ready(block) => {
                let ids = block.ids().iter();
                let rows = block.ts().iter().zip(ids).map(|(ts, id)| (*ts, id.source(), id.position()));
                Did::Read(rows.collect(), Next::Ready(()))
            }
            Next::NotYet => Did::Read(Vec::new(), Next::NotYet),
            Next::End => Did::Read(Vec::new(), Next::End),
        });
        assert!(is_linearizable(&threads, SOURCES), "seed {seed}: {threads:#?}");
    }
}

/// The search refuses histories that no gate may have.
#[test]
fn the_search_finds_wrong_answers() {
    let call = |begin, end, did| Call { begin, end, did };
    let rows = |ts| vec![(ts, 0, 0)];
    let source = vec![call(0, 1, Did::Push(5)), call(6, 7, Did::Close)];
    let read = |begin, end, rows, answer| vec![source.clone(), vec![call(begin, end, Did::Read(rows, answer))]];
    assert!(is_linearizable(&read(2, 3, rows(5), Next::Ready(())), 1));
    assert!(!is_linearizable(&read(2, 3, Vec::new(), Next::NotYet), 1), "the row was ready before the call");
    assert!(is_linearizable(&[vec![call(0, 4, Did::Push(5))], read(2, 3, Vec::new(), Next::NotYet).remove(1)], 1));
    assert!(!is_linearizable(&read(2, 3, rows(4), Next::Ready(())), 1), "there is no such row");
    assert!(!is_linearizable(&read(8, 9, Vec::new(), Next::End), 1), "a row was not given");
}

//! The designs of the multiway aggregation paper: who merges the rows, and who updates their
//! windows.
//!
//! ```text
//!           add            merge                    update                         output
//! MQ        per source ──▶ queues, looked at one ─▶ by one thread ───────────────▶ ┐
//! MQ-LF     the same with queues without locks                                     │
//! TuMLSC    per source ──▶ T-Gate ────────────────▶ by one thread ───────────────▶ ├─▶ cells
//! TuMLMC    per source ──▶ T-Gate ────────────────▶ by many, in the W-Hive ──────▶ │
//! WiML      per source ───────────────────────────▶ by the sources, in the W-Hive ▶ ┘
//! ```
//!
//! They are here to be compared: a row at a time goes through structures that threads share. Each
//! epoch, rows go into winsets, and the states of these go to where all designs keep them.
//!
//! Departures from Cederman, Gulisano, Nikolakopoulos, Papatriantafilou and Tsigas, "Efficient data
//! streaming multiway aggregation through concurrent algorithmic designs and new abstract data
//! types", section 5:
//!
//! - A winset is that of a slice, not of a window: windows are made of slices, as in all of
//!   tidegate.
//! - A window has a part for each source, so that floats are added in an order that follows from
//!   the data. Hence WiML is right for functions that depend on the order of rows, too.
//! - The T-Gate is its successor, ScaleGate.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_structures::gate::Next;
use tidegate_structures::papers::hive::{Hive, HiveReader, HiveWriter};
use tidegate_structures::papers::row_gate::{Reader, Row, ScaleGate, Source};
use tidegate_sync::OnceLink;
use tidegate_sync::atomic::{Arc, AtomicI64, Ordering};

use super::super::Stream;
use super::super::kinds::Kind;
use super::super::merged::Place;
use super::super::stored::STATE_WORDS;
use super::super::windows::{Slice, Windows};
use crate::driver::{Driver, Stopped};

/// How rows become the states of slices. All designs give the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Design {
    /// Each source has states of its own, function by function.
    #[default]
    Slices,
    /// A queue with a lock for each source; one thread merges and updates.
    MultiQueue,
    /// The same without locks.
    LockFreeMultiQueue,
    /// A gate merges; one thread updates.
    MergedSingleConsumer,
    /// A gate merges; many threads update, each some of the keys.
    MergedMultipleConsumer,
    /// Nobody merges; each source updates.
    WindowMerged,
}

/// The states of all functions for one source, key and slice. Written by one thread at a time.
struct Part(Box<[AtomicI64]>);

impl Part {
    fn new(words: impl Iterator<Item = u64>) -> Self {
        Part(words.map(|word| AtomicI64::new(word.cast_signed())).collect())
    }

    /// Replaces the state of a function.
    #[inline]
    fn update(
        &self,
        function: usize,
        change: impl FnOnce([u64; STATE_WORDS]) -> [u64; STATE_WORDS],
    ) {
        let words = &self.0[function * STATE_WORDS..][..STATE_WORDS];
        // Relaxed: one thread updates a part, and a thread that reads it got it from that one.
        let new =
            change(std::array::from_fn(|at| words[at].load(Ordering::Relaxed).cast_unsigned()));
        words
            .iter()
            .zip(new)
            .for_each(|(word, new)| word.store(new.cast_signed(), Ordering::Relaxed));
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|word| word.load(Ordering::Relaxed).cast_unsigned())
    }
}

/// The parts of one key in one slice: one for each source that has rows.
#[derive(Default)]
struct Window(Box<[OnceLink<Part>]>);

impl Window {
    fn new(sources: usize) -> Self {
        Window((0..sources).map(|_| OnceLink::default()).collect())
    }

    /// The part of a source, which is new if it has none: made by the only thread that updates it.
    #[inline]
    fn part(&self, source: usize, empty: &[u64]) -> &Part {
        let link = &self.0[source];
        if link.peek().is_none() {
            let made = link.set(Part::new(empty.iter().copied()).into());
            debug_assert!(made.is_ok(), "one thread updates a part");
        }
        link.peek().expect("it was set")
    }
}

/// The partials of one source in a slice: their keys, and the states of all functions, one after
/// the other.
pub(super) type SlicePartials = (Slice, Vec<(u32, Vec<u64>)>);

/// The partials of each source, by slice.
pub(super) type Partials = Vec<Vec<SlicePartials>>;

/// The values that a function adds to a state, row by row.
pub(super) struct Adder<'a> {
    kind: &'a dyn Kind,
    /// The source that has the rows of all others in merged order, and where they are; it alone
    /// counts for functions that need this order, and it does not for the others.
    merged: Option<(usize, &'a [Place])>,
}

impl<'a> Adder<'a> {
    pub(super) fn new(kind: &'a dyn Kind, sources: usize, merged: Option<&'a [Place]>) -> Self {
        Adder { kind, merged: merged.map(|places| (sources, places)) }
    }

    #[inline]
    fn add(&self, source: usize, row: usize, state: [u64; STATE_WORDS]) -> [u64; STATE_WORDS] {
        match self.merged {
            None => self.kind.added(Place { source, row }, state),
            Some((merged, places)) if (source == merged) == self.kind.needs_order() => {
                let place = if source == merged { places[row] } else { Place { source, row } };
                self.kind.added(place, state)
            }
            Some(_) => state,
        }
    }
}

/// The rows of an epoch, and what is made of them.
pub(super) struct Epoch<'a> {
    pub(super) rows: &'a [Stream<'a>],
    pub(super) windows: &'a Windows,
    pub(super) adders: Vec<Adder<'a>>,
    /// The states of no rows.
    pub(super) empty: Vec<u64>,
}

impl Epoch<'_> {
    /// Where a row goes: its slice, unless that is a gap, and its key.
    #[inline]
    fn place(&self, source: usize, row: usize) -> Option<(Slice, u32)> {
        let Stream { ts, keys } = self.rows[source];
        let slice = self.windows.slice_of(ts[row]);
        (!self.windows.is_gap(slice)).then(|| (slice, keys.map_or(0, |keys| keys[row])))
    }

    /// Adds a row to its window.
    #[inline]
    fn update(&self, source: usize, row: usize, window: &Window) {
        let part = window.part(source, &self.empty);
        for (function, adder) in self.adders.iter().enumerate() {
            part.update(function, |state| adder.add(source, row, state));
        }
    }

    /// Puts partials of earlier epochs into windows, which `window` finds.
    fn seed(&self, partials: &Partials, mut window: impl FnMut(Slice, u32, &dyn Fn(&Window))) {
        for (source, slices) in partials.iter().enumerate() {
            for (slice, keys) in slices {
                for (key, words) in keys {
                    window(*slice, *key, &|window| {
                        window.part(source, words);
                    });
                }
            }
        }
    }
}

/// Winsets by slice, for one thread.
#[derive(Default)]
struct Winsets(BTreeMap<Slice, HashMap<u32, Window>>);

impl Winsets {
    fn window(&mut self, slice: Slice, key: u32, sources: usize) -> &Window {
        self.0.entry(slice).or_default().entry(key).or_insert_with(|| Window::new(sources))
    }

    fn partials(self, sources: usize) -> Partials {
        let mut partials: Partials = vec![Vec::new(); sources];
        for (slice, windows) in self.0 {
            let mut windows: Vec<_> = windows.into_iter().collect();
            windows.sort_unstable_by_key(|(key, _)| *key);
            for (source, of_source) in partials.iter_mut().enumerate() {
                let part = |(key, window): &(u32, Window)| {
                    let part = window.0[source].peek()?;
                    Some((*key, part.words().collect()))
                };
                let keys: Vec<_> = windows.iter().filter_map(part).collect();
                of_source.extend((!keys.is_empty()).then_some((slice, keys)));
            }
        }
        partials
    }
}

/// Takes the rows of an epoch through a design; `open` are partials that they go on with.
pub(super) fn run(
    design: Design,
    epoch: &Epoch<'_>,
    open: &Partials,
    driver: &Driver,
) -> Result<Partials, Stopped> {
    match design {
        Design::Slices => unreachable!("this design has no winsets"),
        Design::MultiQueue => Ok(updated(epoch, open, queued::<Locked>(epoch, driver)?)),
        Design::LockFreeMultiQueue => Ok(updated(epoch, open, queued::<End>(epoch, driver)?)),
        Design::MergedSingleConsumer => {
            let mut reader = merged(epoch, driver)?;
            let rows = || {
                reader
                    .next_ready()
                    .ready()
                    .map(|row| (usize::from(row.id.source()), *row.payload as usize))
            };
            Ok(updated(epoch, open, std::iter::from_fn(rows)))
        }
        Design::MergedMultipleConsumer => by_key(epoch, open, &merged(epoch, driver)?, driver),
        Design::WindowMerged => by_source(epoch, open, driver),
    }
}

/// Updates the winsets of rows that come in merged order, each as its source and its number there.
fn updated(
    epoch: &Epoch<'_>,
    open: &Partials,
    rows: impl Iterator<Item = (usize, usize)>,
) -> Partials {
    let (mut winsets, sources) = (Winsets::default(), epoch.rows.len());
    epoch.seed(open, |slice, key, fill| fill(winsets.window(slice, key, sources)));
    for (source, row) in rows {
        if let Some((slice, key)) = epoch.place(source, row) {
            epoch.update(source, row, winsets.window(slice, key, sources));
        }
    }
    winsets.partials(sources)
}

/// One of the two ends of a queue of times and row numbers, each of which one thread has.
trait Queue: Send + Sized {
    fn ends() -> (Self, Self);
    fn push(&mut self, row: (i64, usize));
    fn first(&self) -> Option<(i64, usize)>;
    fn pop(&mut self);
}

/// The rows of all sources in merged order: each source puts its own into a queue, from which the
/// first of all are taken.
fn queued<Q: Queue>(
    epoch: &Epoch<'_>,
    driver: &Driver,
) -> Result<impl Iterator<Item = (usize, usize)>, Stopped> {
    let (inputs, mut outputs): (Vec<Q>, Vec<Q>) = epoch.rows.iter().map(|_| Q::ends()).unzip();
    driver.map(
        inputs.into_iter().zip(epoch.rows).collect(),
        |(mut input, rows): (Q, &Stream<'_>)| {
            rows.ts.iter().zip(0..).for_each(|(&ts, row)| input.push((ts, row)));
        },
    )?;
    Ok(std::iter::from_fn(move || {
        let firsts =
            outputs.iter().enumerate().filter_map(|(source, queue)| Some((queue.first()?, source)));
        let ((_, row), source) = firsts.min_by_key(|&((ts, _), source)| (ts, source))?;
        outputs[source].pop();
        Some((source, row))
    }))
}

/// A queue with a lock.
struct Locked(Arc<Mutex<VecDeque<(i64, usize)>>>);

impl Locked {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(i64, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue for Locked {
    fn ends() -> (Self, Self) {
        let queue = Arc::default();
        (Locked(Arc::clone(&queue)), Locked(queue))
    }

    fn push(&mut self, row: (i64, usize)) {
        self.lock().push_back(row);
    }

    fn first(&self) -> Option<(i64, usize)> {
        self.lock().front().copied()
    }

    fn pop(&mut self) {
        self.lock().pop_front();
    }
}

/// A list that one thread lengthens and one shortens, neither waiting for the other: the queue of
/// Michael and Scott, "Simple, fast, and practical non-blocking and blocking concurrent queue
/// algorithms" (1996), with one thread at each end. The end stands at the row that was put or taken
/// last.
struct End(Arc<Link>);

#[derive(Default)]
struct Link {
    row: (i64, usize),
    next: OnceLink<Link>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.next.unchain(|link| &mut link.next);
    }
}

impl Queue for End {
    fn ends() -> (Self, Self) {
        let link = Arc::default();
        (End(Arc::clone(&link)), End(link))
    }

    fn push(&mut self, row: (i64, usize)) {
        let link = Arc::new(Link { row, next: OnceLink::default() });
        let put = self.0.next.set(link.clone());
        debug_assert!(put.is_ok(), "one thread puts rows in");
        self.0 = link;
    }

    fn first(&self) -> Option<(i64, usize)> {
        self.0.next.peek().map(|link| link.row)
    }

    fn pop(&mut self) {
        if let Some(next) = self.0.next.get() {
            self.0 = next;
        }
    }
}

/// A reader of all rows in merged order, each source having put its own in.
fn merged(epoch: &Epoch<'_>, driver: &Driver) -> Result<Reader<u32>, Stopped> {
    let (sources, mut readers) =
        ScaleGate::new(epoch.rows.len(), 1).expect("as many sources as an operator may have");
    driver.map(
        sources.into_iter().zip(epoch.rows).collect(),
        |(mut source, rows): (Source<u32>, &Stream<'_>)| {
            for (&ts, row) in rows.ts.iter().zip(0..) {
                source.push(ts, row).expect("rows are in order, and nothing limits the gate");
            }
        },
    )?;
    Ok(readers.pop().expect("there is one"))
}

/// Windows that threads share.
type Shared<'a> = (Vec<Writer<'a>>, HiveReader<Window, New<'a>>);
type Writer<'a> = HiveWriter<Window, New<'a>>;
type New<'a> = Box<dyn Fn() -> Window + Send + Sync + 'a>;

/// A hive that has the partials of earlier epochs.
fn hive<'a>(epoch: &'a Epoch<'_>, open: &Partials, writers: usize) -> Shared<'a> {
    let new: New<'a> = Box::new(|| Window::new(epoch.rows.len()));
    let (mut writers, reader) = Hive::new(writers, new);
    epoch.seed(open, |slice, key, fill| writers[0].update(slice, key, fill));
    (writers, reader)
}

/// The partials of windows, all of whose writers are gone.
fn taken(mut reader: HiveReader<Window, New<'_>>, sources: usize) -> Partials {
    let mut winsets = Winsets::default();
    while let Next::Ready(winset) = reader.next_winset() {
        winsets.0.insert(winset.start(), winset.into_windows().collect());
    }
    winsets.partials(sources)
}

/// Updates the windows of rows of one thread, of which none is of an earlier slice than the one
/// before it.
fn update_all(
    epoch: &Epoch<'_>,
    writer: &mut Writer<'_>,
    rows: impl Iterator<Item = (usize, usize)>,
) {
    let mut last = Slice::MIN;
    for (source, row) in rows {
        let Some((slice, key)) = epoch.place(source, row) else { continue };
        if slice > last {
            writer.advance(slice);
            last = slice;
        }
        writer.update(slice, key, |window| epoch.update(source, row, window));
    }
}

/// Each thread updates the windows of some keys.
fn by_key(
    epoch: &Epoch<'_>,
    open: &Partials,
    reader: &Reader<u32>,
    driver: &Driver,
) -> Result<Partials, Stopped> {
    let threads = driver.threads();
    let (writers, windows) = hive(epoch, open, threads);
    let hash = |row: &Row<'_, u32>| {
        let keys = epoch.rows[usize::from(row.id.source())].keys;
        let key = keys.map_or(0, |keys| keys[*row.payload as usize]);
        u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let work = writers
        .into_iter()
        .enumerate()
        .map(|(part, writer)| (reader.fork().keyed(part, threads, hash), writer));
    driver.map(work.collect(), |(mut rows, mut writer)| {
        let next = || {
            rows.next_ready()
                .ready()
                .map(|row| (usize::from(row.id.source()), *row.payload as usize))
        };
        update_all(epoch, &mut writer, std::iter::from_fn(next));
    })?;
    Ok(taken(windows, epoch.rows.len()))
}

/// Each source updates the windows of its rows.
fn by_source(epoch: &Epoch<'_>, open: &Partials, driver: &Driver) -> Result<Partials, Stopped> {
    let (writers, windows) = hive(epoch, open, epoch.rows.len());
    driver.map(writers.into_iter().enumerate().collect(), |(source, mut writer)| {
        let rows = 0..epoch.rows[source].ts.len();
        update_all(epoch, &mut writer, rows.map(|row| (source, row)));
    })?;
    Ok(taken(windows, epoch.rows.len()))
}

//! Windows, stored by slice and key and updated by a single thread.

use std::collections::{BTreeMap, HashMap};

use tidegate_structures::gate::Next;
use tidegate_sync::OnceLink;
use tidegate_sync::atomic::{AtomicI64, Ordering};

use crate::stages::{Stage, run, taking};
use tidegate_operators::aggregate::{Epoch, MAX_WORDS, OpenPartials, Slice, StateWords};
use tidegate_operators::driver::{Driver, Stopped};

/// The states of all functions for one source, key and slice. Only one thread at a time writes
/// these states.
struct StatePart(Box<[AtomicI64]>);

impl StatePart {
    fn new(words: impl Iterator<Item = u64>) -> Self {
        StatePart(words.map(|word| AtomicI64::new(word.cast_signed())).collect())
    }

    /// Replaces the state of a function.
    #[inline]
    fn update(&self, function: usize, change: impl FnOnce(StateWords) -> StateWords) {
        let words = &self.0[function * MAX_WORDS..][..MAX_WORDS];
        // Relaxed: one thread updates a part, and any thread that reads it received it from that
        // thread.
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

/// The state of one key in one slice, with a part for each source that has rows.
pub(super) struct Window(Box<[OnceLink<StatePart>]>);

impl Window {
    pub(super) fn new(sources: usize) -> Self {
        Window((0..sources).map(|_| OnceLink::default()).collect())
    }

    /// Returns the part for a source. The part is created by the only thread that updates it.
    #[inline]
    fn part(&self, source: usize, empty: &[u64]) -> &StatePart {
        let link = &self.0[source];
        if link.peek().is_none() {
            let made = link.set(StatePart::new(empty.iter().copied()).into());
            debug_assert!(made.is_ok(), "each part is updated by one thread");
        }
        link.peek().expect("it was set")
    }

    /// Adds a row.
    #[inline]
    pub(super) fn add(&self, epoch: &Epoch<'_>, source: usize, row: usize) {
        let part = self.part(source, &epoch.empty);
        for (function, adder) in epoch.adders.iter().enumerate() {
            part.update(function, |state| adder.add(source, row, state));
        }
    }
}

/// Adds partial results from earlier epochs to the windows that `window` returns.
pub(super) fn seed(partials: &OpenPartials, mut window: impl FnMut(Slice, u32, &dyn Fn(&Window))) {
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

/// The winsets of one thread, by slice.
#[derive(Default)]
pub(super) struct Winsets(BTreeMap<Slice, HashMap<u32, Window>>);

impl Winsets {
    fn window(&mut self, slice: Slice, key: u32, sources: usize) -> &Window {
        self.0.entry(slice).or_default().entry(key).or_insert_with(|| Window::new(sources))
    }

    /// Adds the windows of a slice that does not have any windows yet.
    pub(super) fn insert(&mut self, slice: Slice, windows: impl Iterator<Item = (u32, Window)>) {
        self.0.insert(slice, windows.collect());
    }

    pub(super) fn partials(self, sources: usize) -> OpenPartials {
        let mut partials: OpenPartials = vec![Vec::new(); sources];
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

/// Returns the partial results of rows that arrive in merged order. Each row is identified by its
/// source and by its number within that source. One thread takes rows and updates their winsets
/// while `stages` supply further rows.
pub(super) fn updated<'a>(
    epoch: &'a Epoch<'_>,
    open: &OpenPartials,
    (stages, next): (Vec<Stage<'a>>, impl FnMut() -> Next<(usize, usize)> + Send + 'a),
    driver: &Driver,
) -> Result<OpenPartials, Stopped> {
    let (mut winsets, sources) = (Winsets::default(), epoch.rows.len());
    seed(open, |slice, key, fill| fill(winsets.window(slice, key, sources)));
    let update = |(source, row)| {
        if let Some((slice, key)) = epoch.place(source, row) {
            winsets.window(slice, key, sources).add(epoch, source, row);
        }
    };
    run(driver, vec![taking(next, update)], stages)?;
    Ok(winsets.partials(sources))
}

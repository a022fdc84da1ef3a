//! The state as plain numbers.

use crate::aggregate::folds::epochs::lane::Lane;
use crate::aggregate::states::words::{MAX_WORDS, StateBounds, StateWords};

/// The state of [`StreamingWindows`](super::StreamingWindows), from which another of the same query goes
/// on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowsState {
    /// No row of a slice before it can come, and windows that begin before it have been made.
    pub closed: i64,
    /// Windows that begin before it have been made.
    pub next: i64,
    /// For each source, the slice of its partials and their keys, if it has any.
    pub open: Vec<Option<(i64, Vec<u32>)>>,
    /// The slices that are kept, and the keys of their cells.
    pub kept: Vec<(i64, Vec<u32>)>,
    /// Sessions that go on, in the order in which they began: their first and last times, and their
    /// keys.
    pub sessions: Vec<(i64, i64, u32)>,
    /// The states of all partials and cells, or sessions, of one function after the other.
    pub words: Vec<u64>,
}

impl WindowsState {
    /// Calls `visit` with every key, which it may change.
    pub fn for_each_key(&mut self, mut visit: impl FnMut(&mut u32)) {
        let slices = self.open.iter_mut().flatten().chain(&mut self.kept);
        slices.flat_map(|(_, keys)| keys).for_each(&mut visit);
        self.sessions.iter_mut().for_each(|(.., key)| visit(key));
    }
}

/// The words that a snapshot has of a state of each function, together.
pub(super) fn saved_words(lanes: &[Box<dyn Lane>]) -> usize {
    lanes.iter().map(|lane| lane.saved_words()).sum()
}

/// Whether rows within bounds can have brought about the states of these functions, as many of
/// each.
pub(super) fn are_states(lanes: &[Box<dyn Lane>], words: &[u64], bounds: &StateBounds) -> bool {
    let of_state = saved_words(lanes);
    if of_state == 0 || !words.len().is_multiple_of(of_state) {
        return words.is_empty();
    }
    let states = words.len() / of_state;
    let mut rest = words;
    lanes.iter().all(|lane| {
        let own;
        (own, rest) = rest.split_at(states * lane.saved_words());
        own.chunks(lane.saved_words()).all(|words| {
            let mut state: StateWords = [0; MAX_WORDS];
            state[..words.len()].copy_from_slice(words);
            lane.is_state(state, bounds)
        })
    })
}

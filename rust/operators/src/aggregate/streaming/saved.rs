//! The state of streaming windows as plain numbers.

use crate::aggregate::folds::epochs::lane::Lane;
use crate::aggregate::states::words::{MAX_WORDS, StateBounds, StateWords};

/// The state of [`StreamingWindows`](super::StreamingWindows). Other windows of the same query can
/// continue from this state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowsState {
    /// No more rows can arrive for earlier slices, and all windows that begin before this slice
    /// have been computed.
    pub closed: i64,
    /// All windows that begin before this slice have been computed.
    pub next: i64,
    /// The slice and the keys of each source's partials, if the source has any.
    pub open: Vec<Option<(i64, Vec<u32>)>>,
    /// The kept slices, and the keys of their cells.
    pub kept: Vec<(i64, Vec<u32>)>,
    /// The open sessions, in the order in which they began, as lists of first times, last times and keys. If
    /// each row has its own gap, the second time is the end of the session.
    pub sessions: Vec<(i64, i64, u32)>,
    /// The states of all partials and cells, or of all sessions. They are grouped by function.
    pub words: Vec<u64>,
}

impl WindowsState {
    /// Calls `visit` with every key; `visit` can change the key.
    pub fn for_each_key(&mut self, mut visit: impl FnMut(&mut u32)) {
        let slices = self.open.iter_mut().flatten().chain(&mut self.kept);
        slices.flat_map(|(_, keys)| keys).for_each(&mut visit);
        self.sessions.iter_mut().for_each(|(.., key)| visit(key));
    }
}

/// Returns the total number of words per state in a snapshot, over all functions.
pub(super) fn saved_words(lanes: &[Box<dyn Lane>]) -> usize {
    lanes.iter().map(|lane| lane.saved_words()).sum()
}

/// Returns whether these states can result from rows within `bounds`. Every function must have the
/// same number of states.
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

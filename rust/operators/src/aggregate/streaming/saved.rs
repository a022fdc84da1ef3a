//! The state as plain numbers.

use super::super::stored::{MAX_WORDS, StateWords};
use super::plan::Position;
use super::{Kept, Lane, StreamingAggregate};

/// Bounds of the rows that a state was made of.
#[derive(Clone, Copy, Debug)]
pub struct StateBounds {
    /// No more rows have come.
    pub rows: u64,
    /// Rows that may have been chosen are numbered below it.
    pub chosen: u32,
    /// No row before it comes any more; none if that is not known, or no row comes at all.
    pub next: Option<i64>,
}

/// The state of [`StreamingWindows`](super::StreamingWindows), from which another of the same query goes
/// on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
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

impl Saved {
    /// Calls `visit` with every key, which it may change.
    pub fn for_each_key(&mut self, mut visit: impl FnMut(&mut u32)) {
        let slices = self.open.iter_mut().flatten().chain(&mut self.kept);
        slices.flat_map(|(_, keys)| keys).for_each(&mut visit);
        self.sessions.iter_mut().for_each(|(.., key)| visit(key));
    }
}

impl StreamingAggregate {
    pub(super) fn saved(&self) -> Saved {
        let open = self.open.iter().map(|open| {
            let run = open.runs.first()?;
            Some((run.slice, open.keys[run.partials.clone()].to_vec()))
        });
        let mut words = Vec::new();
        self.lanes.iter().for_each(|lane| lane.save(&mut words));
        Saved {
            closed: self.closed,
            next: self.position.next,
            open: open.collect(),
            kept: self.kept.iter().map(|kept| (kept.slice, kept.keys.clone())).collect(),
            words,
            ..Saved::default()
        }
    }

    /// Whether a state may be one of these windows: slices in order, those that are closed before
    /// those that are not and before all rows that come, keys once in each, and states that rows
    /// can have brought about.
    pub(super) fn is_sound(&self, saved: &Saved, bounds: &StateBounds) -> bool {
        let next = bounds.next.map(|ts| self.windows.slice_of(ts));
        let is_slice =
            |(slice, keys): &(i64, Vec<u32>)| self.windows.has(*slice) && are_distinct(keys);
        let open = || saved.open.iter().flatten();
        saved.kept.iter().chain(open()).all(is_slice)
            && saved.kept.is_sorted_by(|(a, _), (b, _)| a < b)
            && saved.kept.last().is_none_or(|(last, _)| *last < saved.closed)
            && open()
                .all(|(slice, _)| *slice >= saved.closed && next.is_none_or(|next| *slice <= next))
            && next.is_none_or(|next| saved.closed <= next)
            && saved.next.rem_euclid(self.windows.stride()) == 0
            && are_states(&self.lanes, &saved.words, bounds)
    }

    pub(super) fn go_on(&mut self, saved: Saved) -> bool {
        let count = |(_, keys): &(i64, Vec<u32>)| keys.len();
        let partials: Vec<usize> =
            saved.open.iter().map(|open| open.as_ref().map_or(0, count)).collect();
        let cells: Vec<usize> = saved.kept.iter().map(count).collect();
        let states = partials.iter().chain(&cells).sum::<usize>();
        let expected = states * saved_words(&self.lanes);
        if partials.len() != self.open.len()
            || !saved.sessions.is_empty()
            || saved.words.len() != expected
        {
            return false;
        }
        self.closed = saved.closed;
        self.position = Position::new(saved.next);
        for (source, (open, saved)) in self.open.iter_mut().zip(saved.open).enumerate() {
            if let Some((slice, keys)) = saved {
                self.keys = keys.iter().fold(self.keys, |most, &key| most.max(key as usize + 1));
                let partials = keys.into_iter().map(|key| (key, Vec::new())).collect();
                open.load(source, &[(slice, partials)], self.keys);
            }
        }
        for (slice, keys) in saved.kept {
            self.keys = keys.iter().fold(self.keys, |most, &key| most.max(key as usize + 1));
            self.kept.push_back(Kept { slice, keys });
        }
        let mut words = saved.words.into_iter();
        self.lanes.iter_mut().for_each(|lane| lane.restore(&partials, &cells, &mut words));
        true
    }
}

/// Whether there are keys, and each once.
fn are_distinct(keys: &[u32]) -> bool {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    !keys.is_empty() && sorted.is_sorted_by(|a, b| a < b)
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

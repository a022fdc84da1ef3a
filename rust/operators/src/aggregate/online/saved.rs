//! The state as plain numbers.

use super::super::stored::STATE_WORDS;
use super::plan::Position;
use super::{Kept, OnlineAggregate};

/// The state of [`OnlineWindows`](super::OnlineWindows), from which another of the same query goes on.
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
    /// Sessions that go on, in the order in which they began: their first and last times, and their keys.
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

impl OnlineAggregate {
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

    pub(super) fn go_on(&mut self, saved: Saved) -> bool {
        let count = |(_, keys): &(i64, Vec<u32>)| keys.len();
        let partials: Vec<usize> = saved.open.iter().map(|open| open.as_ref().map_or(0, count)).collect();
        let cells: Vec<usize> = saved.kept.iter().map(count).collect();
        let states = partials.iter().chain(&cells).sum::<usize>();
        let expected = states * self.lanes.len() * STATE_WORDS;
        if partials.len() != self.open.len() || !saved.sessions.is_empty() || saved.words.len() != expected {
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

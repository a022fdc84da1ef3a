//! An aggregation's snapshot, which contains the slice states that windows still need, their keys,
//! and the rows that functions have chosen.
//!
//! Keys and rows are renumbered in an order that depends only on the data. Therefore, a snapshot's
//! content does not depend on the number of threads or the timing of polls.

use std::collections::HashMap;

use tidegate_operators::aggregate::{StateBounds, WindowsState};
use tidegate_operators::driver::Driver;
use tidegate_structures::memory;

use super::chosen::ChosenRows;
use super::groups::StreamGroups;
use super::ordered::OrderedColumns;
use super::{AggregateTactic, state_bytes};
use crate::stream::intake::RestoredIntake;
use crate::stream::state::snapshot::{Reader, Writer, damaged};
use crate::stream::tactic::Admit;
use crate::{Error, Result};

impl AggregateTactic {
    /// Writes the states of windows, their keys, and the rows that functions have chosen.
    pub(super) fn write_state(&mut self, writer: &mut Writer) -> Result<()> {
        self.windows.arrange(self.groups.order());
        self.gather_chosen()?;
        self.ordered.settle(&mut *self.windows);
        let tables = self.ordered.tables()?;
        let saved = self.windows.save();
        // 1. The keys, in key order.
        let used = self.windows.is_used();
        let is_used = |&number: &u32| used.get(number as usize).copied().unwrap_or(false);
        let numbers: Vec<u32> = self.groups.order().keys.iter().copied().filter(is_used).collect();
        let ranks: HashMap<u32, u64> = numbers.iter().copied().zip(0..).collect();
        if !self.by.is_empty() {
            writer.table(&self.groups.table(&numbers)?)?;
        }
        // 2. The values of columns whose minimum or maximum is computed, in ascending order.
        for values in &tables {
            writer.table(values)?;
        }
        // 3. The sessions or slices, and their states.
        writer.number(saved.sessions.len() as u64);
        for &(start, last, key) in &saved.sessions {
            writer.time(start);
            writer.time(last);
            writer.number(ranks[&key]);
        }
        writer.time(saved.closed);
        writer.time(saved.next);
        let slice = |writer: &mut Writer, (slice, keys): &(i64, Vec<u32>)| {
            writer.time(*slice);
            writer.number(keys.len() as u64);
            keys.iter().for_each(|key| writer.number(ranks[key]));
        };
        writer.number(saved.open.len() as u64);
        for open in &saved.open {
            writer.flag(open.is_some());
            open.iter().for_each(|open| slice(writer, open));
        }
        writer.number(saved.kept.len() as u64);
        saved.kept.iter().for_each(|kept| slice(writer, kept));
        writer.number(saved.words.len() as u64);
        saved.words.iter().for_each(|&word| writer.number(word));
        // 4. The rows that functions have chosen, in the order of the states.
        if !self.rows.is_needless() {
            let all: Vec<u32> = memory::collect(0..self.rows.len() as u32);
            writer.table(&self.rows.table(&all)?)?;
        }
        Ok(())
    }

    /// Restores the state from the output of [`write_state`](Self::write_state).
    pub(super) fn restore_state(
        &mut self,
        intake: &RestoredIntake,
        reader: &mut Reader<'_>,
        admit: &mut Admit<'_>,
    ) -> Result<()> {
        // 1. Everything is read and checked before anything is changed.
        let mut groups = StreamGroups::new(self.groups.schema().clone())?;
        let keys =
            if self.by.is_empty() { vec![0] } else { learn(&mut groups, reader, &self.alone)? };
        let mut ordered = OrderedColumns::new(&self.plan)?;
        ordered.restore(|values| learn(values, reader, &self.alone))?;
        let saved = read_saved(reader, &keys)?;
        let mut rows = ChosenRows::new(self.rows.schema().clone());
        if !rows.is_needless() {
            rows.keep(reader.table(rows.schema())?);
        }
        let bounds =
            StateBounds { rows: intake.rows(), chosen: rows.len() as u32, next: intake.next() };
        let mut windows = self.no_windows()?;
        if !windows.restore(saved, &bounds) || !ordered.has_all(&mut *windows) {
            return Err(damaged("its states do not match its slices or sessions"));
        }
        // 2. The state is restored.
        self.charge = Some(admit(reader, state_bytes(&*windows, &groups, &ordered, &rows))?);
        (self.groups, self.ordered, self.rows, self.windows) = (groups, ordered, rows, windows);
        Ok(())
    }
}

/// Reads keys or values from a snapshot and returns their numbers. In the snapshot, they are
/// distinct and in order.
fn learn(groups: &mut StreamGroups, reader: &mut Reader<'_>, driver: &Driver) -> Result<Vec<u32>> {
    let table = reader.table(groups.schema())?;
    let numbers = groups.of(&[table], driver).map_err(|error| damaged(error.message()))?;
    if numbers != groups.order().keys {
        return Err(damaged("keys or values are out of order, or duplicated"));
    }
    Ok(numbers)
}

fn read_saved(reader: &mut Reader<'_>, numbers: &[u32]) -> Result<WindowsState> {
    const NUMBER: usize = size_of::<u64>();
    let key = |reader: &mut Reader<'_>| {
        let number = usize::try_from(reader.number()?).ok().and_then(|number| numbers.get(number));
        number.copied().ok_or_else(|| {
            damaged("a slice or a session has a number that does not belong to any key")
        })
    };
    let slice = |reader: &mut Reader<'_>| {
        let slice = reader.time()?;
        let keys = (0..reader.count(NUMBER)?).map(|_| key(reader));
        Ok::<_, Error>((slice, keys.collect::<Result<Vec<u32>>>()?))
    };
    let mut saved = WindowsState::default();
    for _ in 0..reader.count(3 * NUMBER)? {
        saved.sessions.push((reader.time()?, reader.time()?, key(reader)?));
    }
    saved.closed = reader.time()?;
    saved.next = reader.time()?;
    for _ in 0..reader.count(1)? {
        let open = if reader.flag()? { Some(slice(reader)?) } else { None };
        saved.open.push(open);
    }
    for _ in 0..reader.count(2 * NUMBER)? {
        saved.kept.push(slice(reader)?);
    }
    let words = reader.count(NUMBER)?;
    saved.words = (0..words).map(|_| reader.number()).collect::<Result<_>>()?;
    Ok(saved)
}

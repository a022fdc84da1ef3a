//! An operator's memory limit, and each source's share of this limit.
//!
//! ```text
//! a merge, a join    │ source 0 │ source 1 │             first come, first served          │
//! an aggregation     │ source 0 │ source 1 │  the state  │    first come, first served     │
//!                    0                    1/5           2/5                             limit
//! ```
//!
//! A fifth of the limit is divided evenly among the sources. A source can always use its share,
//! regardless of how much memory the others hold. Therefore, a source for which all others are
//! waiting can proceed. A row's bytes count toward its source's share from the push until the row
//! is no longer needed. An aggregation's state does not belong to any source. The state has a
//! separate share, which is another fifth of the limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The limit divided by this number is the amount shared among the sources. A state that belongs to
/// no source has a share of the same size.
const SHARED: usize = 5;

/// The holder of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The source with this number.
    Source(u16),
    /// The state of an operator, not including rows that belong to a known source.
    State,
}

/// The number of bytes that an operator holds, and the maximum allowed. All clones belong to the
/// same operator.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Mutex<Accounts>>);

#[derive(Debug)]
struct Accounts {
    limit: Option<usize>,
    /// For each source, the number of bytes that it holds and a flag that is true while it is open.
    /// A closed source has no share.
    sources: Vec<(usize, bool)>,
    open: usize,
    /// The number of bytes that belong to no source.
    state: usize,
    has_state: bool,
    /// The total number of bytes held.
    held: usize,
    /// The total number of bytes held, where each holder below its share counts with its full
    /// share.
    reserved: usize,
    /// True if a request has been refused and [`Memory::take_refused`] has not yet reported the
    /// refusal.
    was_refused: bool,
}

/// A request that exceeded the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The number of bytes requested.
    pub(super) asked: usize,
    /// The number of bytes that the source holds.
    pub(super) own: usize,
    /// The total number of bytes held.
    pub(super) held: usize,
    pub(super) limit: usize,
    /// The number of bytes that are reserved for other holders' shares.
    pub(super) left: usize,
    /// The maximum number of bytes that the source can hold under the limit while no other source
    /// holds any.
    pub(super) most: usize,
    /// The limit at which the source could hold the requested bytes.
    pub(super) enough: usize,
    /// The limit at which the request would succeed, given the source's share and the bytes that
    /// are currently held.
    pub(super) enough_now: usize,
}

/// Bytes that are held until this value is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    memory: Memory,
    holder: Holder,
    bytes: usize,
}

impl Memory {
    /// Creates the accounts, given the limit and the number of sources. `has_state` specifies
    /// whether a share is reserved for a state.
    pub(super) fn new(limit: Option<usize>, sources: usize, has_state: bool) -> Self {
        let mut accounts = Accounts {
            limit: None,
            sources: vec![(0, true); sources],
            open: sources,
            state: 0,
            has_state,
            held: 0,
            reserved: 0,
            was_refused: false,
        };
        accounts.set_limit(limit);
        Memory(Arc::new(Mutex::new(accounts)))
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the maximum number of bytes that can be held, or `None` if there is no limit.
    pub fn limit(&self) -> Option<usize> {
        self.lock().limit
    }

    /// Changes the limit. Bytes that are already held are kept, even if they exceed the limit.
    pub fn set_limit(&self, limit: Option<usize>) {
        self.lock().set_limit(limit);
    }

    /// Returns the number of bytes held.
    pub fn held(&self) -> usize {
        self.lock().held
    }

    /// Returns the number of bytes that a source holds.
    pub(super) fn held_by(&self, source: u16) -> usize {
        self.lock().held_by(Holder::Source(source))
    }

    /// Describes the limit.
    pub(super) fn describe(&self) -> String {
        self.limit().map_or("no limit".to_owned(), |limit| format!("at most {limit} bytes"))
    }

    /// Returns whether more than half of the limit is held.
    pub(super) fn is_short(&self) -> bool {
        let accounts = self.lock();
        accounts.limit.is_some_and(|limit| accounts.held > limit / 2)
    }

    /// Returns whether a request has been refused since the last call.
    pub(super) fn take_refused(&self) -> bool {
        std::mem::take(&mut self.lock().was_refused)
    }

    /// Charges `bytes` to a source before the memory is allocated.
    pub(super) fn charge(&self, source: u16, bytes: usize) -> Result<Charge, Refusal> {
        let mut accounts = self.lock();
        if let Some(refused) = accounts.check(source, bytes) {
            accounts.was_refused = true;
            return Err(refused);
        }
        Ok(self.grant(&mut accounts, Holder::Source(source), bytes))
    }

    /// Charges `bytes` that another operator of the same query used to hold, and ignores other
    /// holders' shares.
    pub(super) fn charge_restored(&self, holder: Holder, bytes: usize) -> Result<Charge, Refusal> {
        let mut accounts = self.lock();
        let limit = accounts.limit.unwrap_or(usize::MAX);
        let (held, enough) = (accounts.held, accounts.held.saturating_add(bytes));
        if enough > limit {
            let (own, enough_now) = (accounts.held_by(holder), enough);
            let (left, most) = (0, limit);
            return Err(Refusal { asked: bytes, own, held, limit, left, most, enough, enough_now });
        }
        Ok(self.grant(&mut accounts, holder, bytes))
    }

    /// Charges `bytes` that the state already holds.
    pub(super) fn charge_state(&self, bytes: usize) -> Charge {
        self.grant(&mut self.lock(), Holder::State, bytes)
    }

    fn grant(&self, accounts: &mut Accounts, holder: Holder, bytes: usize) -> Charge {
        accounts.set(holder, accounts.held_by(holder) + bytes);
        Charge { memory: self.clone(), holder, bytes }
    }

    /// Adds a source, which gets its share of the limit as soon as the other holders have released
    /// enough bytes.
    pub(super) fn add_source(&self) {
        let mut accounts = self.lock();
        accounts.sources.push((0, true));
        accounts.open += 1;
        let limit = accounts.limit;
        accounts.set_limit(limit);
    }

    /// Removes the last sources, which must not hold any bytes.
    pub(super) fn keep_sources(&self, sources: usize) {
        let mut accounts = self.lock();
        let gone = accounts.sources.drain(sources..).filter(|(_, is_open)| *is_open).count();
        accounts.open -= gone;
        let limit = accounts.limit;
        accounts.set_limit(limit);
    }

    /// Makes the share of a source available to all others. The source makes no further requests.
    pub(super) fn close(&self, source: u16) {
        let mut accounts = self.lock();
        let before = accounts.reserved_for(Holder::Source(source));
        let is_open = &mut accounts.sources[usize::from(source)].1;
        let was_open = std::mem::replace(is_open, false);
        accounts.open -= usize::from(was_open);
        accounts.reserved =
            accounts.reserved - before + accounts.reserved_for(Holder::Source(source));
    }
}

impl Accounts {
    fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit;
        if limit.is_none() {
            // Without a limit, nothing is reserved for any source.
            self.reserved = self.held;
            return;
        }
        let sources = (0..self.sources.len()).map(|source| Holder::Source(source as u16));
        self.reserved =
            sources.chain([Holder::State]).map(|holder| self.reserved_for(holder)).sum();
    }

    fn held_by(&self, holder: Holder) -> usize {
        match holder {
            Holder::Source(source) => self.sources[usize::from(source)].0,
            Holder::State => self.state,
        }
    }

    fn set(&mut self, holder: Holder, bytes: usize) {
        let (held, reserved) = (self.held_by(holder), self.reserved_for(holder));
        match holder {
            Holder::Source(source) => self.sources[usize::from(source)].0 = bytes,
            Holder::State => self.state = bytes,
        }
        self.held = self.held - held + bytes;
        self.reserved = self.reserved - reserved + self.reserved_for(holder);
    }

    fn share(&self, holder: Holder) -> usize {
        let limit = self.limit.unwrap_or(0);
        match holder {
            Holder::Source(source) if self.sources[usize::from(source)].1 => {
                limit / SHARED / self.sources.len()
            }
            Holder::State if self.has_state => limit / SHARED,
            _ => 0,
        }
    }

    fn reserved_for(&self, holder: Holder) -> usize {
        self.held_by(holder).max(self.share(holder))
    }

    /// Returns the reason why a source cannot hold another `bytes` bytes, or `None` if it can.
    fn check(&self, source: u16, bytes: usize) -> Option<Refusal> {
        let (limit, holder) = (self.limit?, Holder::Source(source));
        let others = self.reserved - self.reserved_for(holder);
        let own = self.held_by(holder).saturating_add(bytes);
        let fits = self.held.saturating_add(bytes) <= limit;
        let leaves_shares = others.saturating_add(own) <= limit;
        if fits && (leaves_shares || own <= self.share(holder)) {
            return None;
        }
        // The shares of the other open sources and of the state, as parts of the limit.
        let is_open = self.sources[usize::from(source)].1;
        let (parts, open) = (SHARED * self.sources.len(), self.open - usize::from(is_open));
        let left_over = parts - open - usize::from(self.has_state) * self.sources.len();
        let shares = open * (limit / SHARED / self.sources.len()) + self.share(Holder::State);
        let enough = (bytes as u128 * parts as u128).div_ceil(left_over as u128);
        let for_share = own.saturating_mul(parts);
        Some(Refusal {
            asked: bytes,
            own: self.held_by(holder),
            held: self.held,
            limit,
            left: others - (self.held - self.held_by(holder)),
            most: limit - shares,
            enough: usize::try_from(enough).unwrap_or(usize::MAX),
            enough_now: for_share.max(self.held.saturating_add(bytes)),
        })
    }
}

impl Refusal {
    /// Describes the problem and how to continue; `rows` describes the rows that were to be held.
    pub(super) fn say(&self, rows: &str) -> String {
        let Refusal { asked, held, limit, left, most, enough, .. } = self;
        if asked > most {
            return format!(
                "{rows} need {asked} bytes at the same time, but a source can use at most {most} \
                 of memory_limit = {limit}; push fewer rows at a time, or set memory_limit to \
                 {enough} or more"
            );
        }
        let shares = if *left == 0 {
            String::new()
        } else {
            format!("; {left} bytes of the limit are reserved for other sources")
        };
        format!(
            "{rows} need {asked} bytes, but {held} of memory_limit = {limit} are held; poll, close \
             or advance the sources that hold rows back, fetch late rows, or raise the \
             limit{shares}"
        )
    }

    /// Reports that the operator is not being polled because the thread that polled it has ended
    /// with an error.
    pub(super) fn say_left(&self, rows: &str) -> String {
        let Refusal { asked, held, limit, .. } = self;
        format!(
            "{rows} need {asked} bytes, but {held} of memory_limit = {limit} are held, and no \
             memory is released: the thread that ran the operator has ended with an error; \
             fix the cause, and run or poll the operator again"
        )
    }

    /// Returns a message stating that the work cannot continue with this limit. `late` is the
    /// number of bytes in late rows that have not been fetched.
    pub(super) fn say_for_ever(&self, rows: &str, late: usize) -> String {
        let Refusal { asked, own, limit, enough_now, .. } = self;
        let late = if late == 0 {
            String::new()
        } else {
            format!(", or fetch the late rows, which hold {late} bytes")
        };
        format!(
            "{rows} need {asked} bytes in addition to {own} that the source holds. All sources \
             wait for this source, so polls release no memory within memory_limit = {limit}; set \
             memory_limit to {enough_now} or more, or push fewer rows at a time{late}"
        )
    }
}

impl Charge {
    /// Splits off a separate charge of `bytes` bytes, or of all bytes if there are fewer.
    pub(super) fn split(&mut self, bytes: usize) -> Charge {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Charge { memory: self.memory.clone(), holder: self.holder, bytes }
    }

    /// Merges another charge for the same holder into this one.
    pub(super) fn merge(&mut self, mut other: Charge) {
        assert_eq!(self.holder, other.holder, "both charges are of one holder");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Returns the number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut accounts = self.memory.lock();
            let held = accounts.held_by(self.holder);
            accounts.set(self.holder, held - self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_source_that_runs_ahead_leaves_the_others_their_shares() {
        let memory = Memory::new(Some(400), 2, false);
        let ahead = memory.charge(0, 360).unwrap();
        let refused = memory.charge(0, 1).unwrap_err();
        assert_eq!((refused.held, refused.left, refused.most), (360, 40, 360));
        assert!(memory.take_refused() && !memory.take_refused());
        let mut behind = memory.charge(1, 40).unwrap();
        assert!(memory.charge(1, 1).is_err());
        // A source can request memory again after releasing it.
        drop(behind.split(30));
        assert!(memory.charge(0, 1).is_err());
        behind.merge(memory.charge(1, 30).unwrap());
        drop((ahead, behind));
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn a_request_that_never_fits_tells_the_limit_that_would_do() {
        for (sources, has_state) in
            [(1, false), (1, true), (2, false), (2, true), (7, true), (65_536, false)]
        {
            let memory = Memory::new(Some(1_000), sources, has_state);
            let refused = memory.charge(0, 10_007).unwrap_err();
            assert!(refused.asked > refused.most, "{refused:?}");
            assert!(
                refused
                    .say("3 rows")
                    .contains(&format!("set memory_limit to {} or more", refused.enough))
            );
            memory.set_limit(Some(refused.enough));
            drop(memory.charge(0, 10_007).unwrap());
            // A lower limit is not sufficient, apart from the bytes that the shares lose by
            // rounding down.
            memory.set_limit(refused.enough.checked_sub(8 + 2 * sources));
            assert!(
                memory.charge(0, 10_007).is_err() || memory.limit().is_none(),
                "{sources} {has_state}"
            );
        }
    }

    #[test]
    fn a_request_beside_what_is_held_tells_the_limit_that_would_do_at_once() {
        for (sources, has_state) in [(1, true), (2, false), (7, true)] {
            let memory = Memory::new(Some(1_000), sources, has_state);
            let ahead = memory.charge(sources as u16 - 1, 500).unwrap();
            let own = memory.charge(0, 100).unwrap();
            let refused = memory.charge(0, 407).unwrap_err();
            let text = refused.say_for_ever("3 rows", 9);
            assert!(
                text.contains("407 bytes in addition") && text.contains("hold 9 bytes"),
                "{text}"
            );
            assert!(
                text.contains(&format!("set memory_limit to {} or more", refused.enough_now)),
                "{text}"
            );
            memory.set_limit(Some(refused.enough_now));
            drop((memory.charge(0, 407).unwrap(), ahead, own));
        }
    }

    #[test]
    fn a_closed_source_has_no_share_and_a_limit_can_change() {
        let memory = Memory::new(Some(400), 2, false);
        let held = memory.charge(0, 300).unwrap();
        memory.close(1);
        memory.close(1);
        let more = memory.charge(0, 100).unwrap();
        assert!(memory.charge(0, 1).is_err());
        memory.set_limit(None);
        drop(memory.charge(0, 1 << 40).unwrap());
        memory.set_limit(Some(10));
        assert!(memory.charge(0, 1).is_err() && memory.is_short());
        drop((held, more));
        assert!(memory.charge(0, 10).is_ok());
    }

    #[test]
    fn an_added_source_has_a_share_once_others_have_let_go() {
        let memory = Memory::new(Some(400), 1, false);
        let mut ahead = memory.charge(0, 400).unwrap();
        memory.add_source();
        assert!(memory.charge(1, 40).is_err());
        drop(ahead.split(40));
        assert!(memory.charge(0, 1).is_err());
        drop(memory.charge(1, 40).unwrap());
        memory.keep_sources(1);
        assert!(memory.charge(0, 40).is_ok());
    }

    proptest! {
        /// Regardless of what the sources request and release, each of them can use its share, and
        /// the total stays within the limit.
        #[test]
        fn every_source_can_always_have_its_share(
            limit in 8_usize..200,
            sources in 1_usize..5,
            steps in prop::collection::vec((0_usize..5, 0_usize..60, any::<bool>()), 0..60),
        ) {
            let memory = Memory::new(Some(limit), sources, false);
            let mut charges: Vec<Vec<Charge>> = (0..sources).map(|_| Vec::new()).collect();
            for (source, bytes, gives) in steps {
                let source = source % sources;
                match gives {
                    true => drop(charges[source].pop()),
                    false => charges[source].extend(memory.charge(source as u16, bytes).ok()),
                }
                prop_assert!(memory.held() <= limit);
                prop_assert_eq!(memory.held(), charges.iter().flatten().map(Charge::bytes).sum::<usize>());
                for (source, own) in charges.iter().enumerate() {
                    let own = own.iter().map(Charge::bytes).sum::<usize>();
                    let share = limit / SHARED / sources;
                    prop_assert_eq!(memory.held_by(source as u16), own);
                    prop_assert!(own >= share || memory.charge(source as u16, share - own).is_ok());
                }
            }
        }
    }
}

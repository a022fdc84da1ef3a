//! Assigns keys to replicas using one of the three parallel patterns from PPOIJ (section 3).
//!
//! - **KP**: each key has a single replica, called its home.
//! - **DP**: every replica serves all keys. Every replica stores each row, but only one replica
//!   searches for the row's matches. The paper does the opposite: only one replica stores a row,
//!   but all replicas search for its matches. Each row then requires a search on every replica, and
//!   the matches from several replicas have to be put in order. Storing a 4-byte number on every
//!   replica is cheaper.
//! - **HP**: each key gets as many replicas as its load requires (Algorithm 1). The first rows
//!   calibrate the mapping. After every [`MEASURED_ROWS`] rows, the mapping is adapted to the
//!   current key frequencies, which give older rows less weight. Only one out of every [`SAMPLED`]
//!   rows is counted.
//!
//!   A key's load is the product of its frequencies on the two sides. In the paper, a key's load is
//!   its frequency. However, each left row is compared with all right rows that have the same key.
//!   The number of these rows also grows with the key's frequency. If a load were a plain
//!   frequency, replicas would receive equal numbers of rows but perform very different numbers of
//!   comparisons.
//! - **Auto**: KP at first, and HP once the busiest replica performs more than [`LOAD_FACTOR`]
//!   times the mean number of comparisons. `Auto` switches to HP only if pairs are filtered.
//!   Without a filter, putting the pairs from several replicas in order takes longer than finding
//!   them.
//!
//! The mapping changes only between two epochs, when no replica is working. A replica that is
//! removed from a key keeps the rows that it has already stored. The replica still compares new
//! rows with these rows until they are purged, but stores no more rows with that key. A stored row
//! therefore never moves to another replica. Each new row is compared on every replica that has
//! rows with the same key. With DP, the mapping never changes.

use std::collections::HashMap;

use crate::rows::{NO_KEY, Side};

/// The strategy for assigning keys to replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallelism {
    /// KP at first, and HP if the load requires it.
    Auto,
    /// KP.
    Key,
    /// DP.
    Data,
    /// HP.
    Hybrid,
}

/// The default for θ in Algorithm 1: the maximum allowed ratio of the highest replica load to the
/// mean load.
pub const LOAD_FACTOR: f64 = 1.2;

/// The number of rows from one frequency check to the next. Processing that many rows takes a few
/// milliseconds.
const MEASURED_ROWS: u64 = if cfg!(test) { 50 } else { 1 << 15 };

/// Each side is divided into blocks of this many consecutive rows. Within a block, one replica
/// stores all rows with the same split key. That replica then finds most of a row's matches, so
/// these matches do not have to be put in order.
const STORED_TOGETHER: u32 = if cfg!(test) { 2 } else { 64 };

/// If every replica serves all keys, the replicas take turns searching for the matches of rows.
/// This is the maximum number of consecutive rows per turn.
const LOOKED_AT_TOGETHER: usize = 64;
/// The minimum number of turns per replica, if there are enough rows.
const TURNS: usize = 4;

/// The sampling interval: one row in this many is counted.
const SAMPLED: usize = if cfg!(test) { 2 } else { 8 };

/// The load balance is checked once the replicas have performed more than this many comparisons.
const WORTH_SPLITTING: u64 = if cfg!(test) { 100 } else { 1 << 14 };

/// A key is dropped when its frequency falls below this value.
const LEAST_FREQUENCY: f32 = 0.5;

/// Routes at or above this value refer to positions in the list of split keys rather than to
/// replicas. The key then has replicas other than its home.
const SPLIT: u16 = 1 << 15;

/// The route of a row without a key.
const NOWHERE: u16 = u16::MAX;

/// The route of a key that is assigned only to its home replica.
const HOME: u16 = 0;

/// The replicas of a split key.
#[derive(Clone, Debug, Default)]
struct Split {
    /// The replicas that store new rows.
    active: Vec<u16>,
    /// The replicas that no longer store new rows but still have old ones.
    draining: Vec<u16>,
}

/// The replicas that search for a row's matches.
#[derive(Clone, Copy, Debug)]
pub(super) enum LookAssignment {
    None,
    One(usize),
    Several,
}

/// The share of a key's rows assigned to a replica.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyShare {
    /// No rows of the key.
    None,
    /// All rows of the key. Contains the key's index among the keys that have their home on this
    /// replica.
    All(u32),
    /// A part of the rows.
    Part(KeyPart),
}

/// A replica's part of a key's rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyPart {
    /// The key's index among the keys that have their home on this replica. `None` if the key's
    /// home is another replica.
    pub(super) home: Option<u32>,
    /// The key's index among the split keys.
    pub(super) split: u32,
    /// This replica's index among the replicas that store new rows, or `None` if it stores no new
    /// rows.
    place: Option<u32>,
    /// The number of replicas that store new rows.
    degree: u32,
}

impl KeyPart {
    /// Returns whether this replica stores the row with the given number.
    pub(super) fn stores(self, number: u32) -> bool {
        self.place == Some(number / STORED_TOGETHER % self.degree)
    }
}

/// Divides key numbers by the number of replicas, using two multiplications.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    by: u64,
    reciprocal: u64,
}

impl Divisor {
    fn new(by: usize) -> Self {
        // Rounded up. A single replica has all keys, since its reciprocal of 2^64 does not fit in
        // 64 bits.
        Divisor { by: by as u64, reciprocal: (u64::MAX / by as u64).wrapping_add(1) }
    }

    /// Returns quotient and remainder.
    #[inline(always)]
    fn divide(self, key: u32) -> (u32, u16) {
        if self.by == 1 {
            return (key, 0);
        }
        let quotient = (u128::from(self.reciprocal) * u128::from(key)) >> 64;
        (quotient as u32, (u64::from(key) - quotient as u64 * self.by) as u16)
    }
}

/// The mapping from keys to replicas, with the statistics on which it is based.
#[derive(Debug)]
pub(super) struct Assignment {
    parallelism: Parallelism,
    replicas: usize,
    /// The θ of Algorithm 1.
    load_factor: f64,
    divisor: Divisor,
    /// The replicas of each split key.
    splits: Vec<Split>,
    /// Unused positions among the splits.
    free: Vec<u16>,
    /// The route of each key, up to the split key with the largest number.
    routes: Vec<u16>,
    split_keys: Vec<u32>,
    /// `true` for `Hybrid`, and for `Auto` once the load requires splitting keys.
    is_splitting: bool,
    frequencies: Frequencies,
    /// The number of rows since the last check.
    rows: u64,
    /// Each replica's number of comparisons at an earlier check.
    comparisons: Vec<u64>,
}

/// The frequencies of keys among the counted rows. Older rows have less weight than newer ones.
#[derive(Debug, Default)]
struct Frequencies {
    /// The frequencies, indexed by key.
    of_keys: Vec<Frequency>,
    /// The keys with a nonzero frequency, each listed once. Keys that were dropped after the last
    /// call of `fade` are still included.
    listed: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Frequency {
    /// The number of rows per side.
    rows: [f32; 2],
    is_listed: bool,
}

impl Frequencies {
    /// Counts one row.
    fn add(&mut self, key: u32, side: Side) {
        let place = key as usize;
        if self.of_keys.len() <= place {
            // The capacity grows less than that of a vector by default, because there may be many
            // keys.
            if self.of_keys.capacity() <= place {
                self.of_keys.reserve_exact(place + 1 + place / 8 - self.of_keys.len());
            }
            self.of_keys.resize(place + 1, Frequency::default());
        }
        let Frequency { rows, is_listed } = &mut self.of_keys[place];
        if !std::mem::replace(is_listed, true) {
            self.listed.push(key);
        }
        rows[side as usize] += 1.0;
    }

    /// Returns the load of each key.
    fn loads(&self) -> Vec<(u32, f32)> {
        let load = |&key: &u32| {
            let [left, right] = self.of_keys[key as usize].rows;
            (key, left * right)
        };
        self.listed.iter().map(load).collect()
    }

    /// Halves all frequencies, and drops keys whose frequency becomes too low.
    fn fade(&mut self) {
        let of_keys = &mut self.of_keys;
        self.listed.retain(|&key| {
            let Frequency { rows, is_listed } = &mut of_keys[key as usize];
            *rows = rows.map(|rows| rows / 2.0);
            *is_listed = rows[0] + rows[1] >= LEAST_FREQUENCY;
            if !*is_listed {
                *rows = [0.0; 2];
            }
            *is_listed
        });
    }

    /// Resets the frequency of a key, because the key's number can be reused for another key.
    fn forget(&mut self, key: u32) {
        if let Some(of_key) = self.of_keys.get_mut(key as usize) {
            of_key.rows = [0.0; 2];
        }
    }

    fn memory(&self) -> usize {
        self.of_keys.capacity() * size_of::<Frequency>() + self.listed.capacity() * size_of::<u32>()
    }
}

impl Assignment {
    pub(super) fn new(parallelism: Parallelism, replicas: usize) -> Self {
        assert!(replicas < usize::from(SPLIT), "replica numbers have 15 bits");
        Assignment {
            // A single replica has all keys, and with DP, no key has to be looked up.
            parallelism: if replicas == 1 { Parallelism::Data } else { parallelism },
            replicas,
            load_factor: LOAD_FACTOR,
            divisor: Divisor::new(replicas),
            splits: Vec::new(),
            free: Vec::new(),
            routes: Vec::new(),
            split_keys: Vec::new(),
            is_splitting: parallelism == Parallelism::Hybrid,
            frequencies: Frequencies::default(),
            rows: 0,
            comparisons: vec![0; replicas],
        }
    }

    /// Sets the maximum allowed ratio of the highest replica load to the mean load.
    pub(super) fn with_load_factor(self, load_factor: f64) -> Self {
        assert!(load_factor >= 1.0, "the load factor must be at least 1");
        Assignment { load_factor, ..self }
    }

    #[inline]
    fn home(&self, key: u32) -> u16 {
        self.divisor.divide(key).1
    }

    /// Returns the key's index among the keys that have their home on replica `me`, or `None` if
    /// the key's home is another replica. With DP, every replica is home to all keys.
    #[inline]
    pub(super) fn home_of(&self, key: u32, me: u16) -> Option<usize> {
        if self.parallelism == Parallelism::Data {
            return Some(key as usize);
        }
        let (place, home) = self.divisor.divide(key);
        (home == me).then_some(place as usize)
    }

    /// Returns the key's position among the split keys, or `None` if it is not split.
    pub(super) fn split_of(&self, key: u32) -> Option<usize> {
        let route = self.routes.get(key as usize).copied().filter(|&route| route != HOME)?;
        Some(usize::from(route - SPLIT))
    }

    /// Returns the binary logarithm of the number of consecutive rows per turn. In each turn, one
    /// replica finds the matches for these rows. `rows` is the number of rows in the epoch.
    pub(super) fn turn(&self, rows: usize) -> u32 {
        (rows / (TURNS * self.replicas)).clamp(1, LOOKED_AT_TOGETHER).ilog2()
    }

    /// Returns the replica that finds the matches for a row with this key in the given turn of the
    /// epoch. Special values mean that several replicas search, or that the row has no key.
    #[inline]
    pub(super) fn route(&self, turn: usize, key: u32) -> u16 {
        match key {
            NO_KEY => NOWHERE,
            _ if self.stores_all() => self.divisor.divide(turn as u32).1,
            _ => match self.routes.get(key as usize) {
                Some(&route) if route != HOME => route,
                _ => self.home(key),
            },
        }
    }

    /// Returns replica `me`'s share of the rows with this `key`. `route` is the route of these
    /// rows. This method is always inlined into the loop over rows, which is compiled for wider
    /// instructions. By default, the compiler would not inline it there.
    #[inline(always)]
    pub(super) fn share(&self, route: u16, key: u32, me: u16) -> KeyShare {
        if self.stores_all() {
            if route == NOWHERE { KeyShare::None } else { KeyShare::All(key) }
        } else if route == me {
            KeyShare::All(self.divisor.divide(key).0)
        } else if Self::is_split(route) {
            self.part(route, key, me).map_or(KeyShare::None, KeyShare::Part)
        } else {
            KeyShare::None
        }
    }

    /// Returns whether every replica stores all rows.
    #[inline]
    pub(super) fn stores_all(&self) -> bool {
        self.parallelism == Parallelism::Data
    }

    /// Returns whether replica `me` may have to find matches for a row with this `route`.
    #[inline]
    pub(super) fn may_look(route: u16, me: u16) -> bool {
        route == me || Self::is_split(route)
    }

    #[inline]
    fn is_split(route: u16) -> bool {
        (SPLIT..NOWHERE).contains(&route)
    }

    #[inline(never)]
    fn part(&self, route: u16, key: u32, me: u16) -> Option<KeyPart> {
        let split = &self.splits[usize::from(route - SPLIT)];
        let place =
            split.active.iter().position(|&replica| replica == me).map(|place| place as u32);
        let home = self.home_of(key, me).map(|home| home as u32);
        let is_here = place.is_some() || split.draining.contains(&me);
        is_here.then_some(KeyPart {
            home,
            split: u32::from(route - SPLIT),
            place,
            degree: split.active.len() as u32,
        })
    }

    /// Returns the replicas that find the matches for a row with this `route`. There are none if
    /// the row has no key.
    #[inline]
    pub(super) fn looks(route: u16) -> LookAssignment {
        match route {
            NOWHERE => LookAssignment::None,
            route if Self::is_split(route) => LookAssignment::Several,
            replica => LookAssignment::One(usize::from(replica)),
        }
    }

    /// Updates the statistics after an epoch. The caller passes the keys and sides of the epoch's
    /// rows, the number of comparisons that each replica has performed so far, and a flag that is
    /// `true` if pairs are filtered. `holds` receives a replica, and the position of a split key
    /// whose new rows the replica no longer stores. `holds` returns whether the replica still has
    /// rows with that key.
    pub(super) fn observe(
        &mut self,
        keys: &[u32],
        sides: &[Side],
        comparisons: &[u64],
        are_filtered: bool,
        holds: impl Fn(u16, usize) -> bool,
    ) {
        let may_split = match self.parallelism {
            Parallelism::Hybrid => true,
            Parallelism::Auto => are_filtered,
            Parallelism::Key | Parallelism::Data => false,
        };
        if !may_split {
            return;
        }
        if self.is_splitting {
            self.count(keys, sides);
        }
        self.rows += keys.len() as u64;
        if self.rows < MEASURED_ROWS {
            return;
        }
        self.rows = 0;
        let made: Vec<u64> =
            comparisons.iter().zip(&self.comparisons).map(|(now, before)| now - before).collect();
        let total = made.iter().sum::<u64>();
        if total > WORTH_SPLITTING {
            self.comparisons.copy_from_slice(comparisons);
            let mean = total as f64 / self.replicas as f64;
            let most = made.iter().copied().max().unwrap_or(0) as f64;
            if !self.is_splitting && most > self.load_factor * mean {
                self.is_splitting = true;
                self.count(keys, sides);
            }
        }
        if self.is_splitting {
            self.assign(holds);
            self.frequencies.fade();
        }
    }

    /// Counts one of every [`SAMPLED`] consecutive rows, by key and side. The position of the
    /// counted row varies. With a fixed position, all counted rows would be from the same side if
    /// the sides alternate.
    fn count(&mut self, keys: &[u32], sides: &[Side]) {
        let sampled = SAMPLED as u64;
        let end = self.rows + keys.len() as u64;
        for block in self.rows / sampled..end.div_ceil(sampled) {
            let place = (block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % sampled;
            let row = (block * sampled + place).checked_sub(self.rows).map(|row| row as usize);
            let Some(row) = row.filter(|&row| row < keys.len() && keys[row] != NO_KEY) else {
                continue;
            };
            self.frequencies.add(keys[row], sides[row]);
        }
    }

    /// Executes Algorithm 1, starting from line 11, on a mapping that is already in use. A key's
    /// home always remains one of its replicas, so lines 4 to 10 are not needed.
    fn assign(&mut self, holds: impl Fn(u16, usize) -> bool) {
        let of_keys = self.frequencies.loads();
        let total: f32 = of_keys.iter().map(|(_, load)| load).sum();
        if total <= 0.0 {
            return;
        }
        let mut loads = vec![0.0_f32; self.replicas];
        // A key below this share of the mean load cannot disturb the balance, so it stays at its
        // home.
        let heavy = total / self.replicas as f32 / 16.0;
        let mut keys: Vec<(u32, f32)> = Vec::new();
        for (key, load) in of_keys {
            loads[usize::from(self.home(key))] += load;
            if load > heavy {
                keys.push((key, load));
            }
        }
        keys.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut assigned: Vec<Vec<u16>> =
            keys.iter().map(|&(key, _)| vec![self.home(key)]).collect();
        let balanced = |loads: &[f32]| {
            let most = loads.iter().copied().fold(0.0, f32::max);
            f64::from(most) <= self.load_factor * f64::from(total) / loads.len() as f64
        };
        while !balanced(&loads) && assigned.iter().any(|replicas| replicas.len() < self.replicas) {
            for (&(_, load), replicas) in keys.iter().zip(&mut assigned) {
                let free = (0..self.replicas as u16).filter(|replica| !replicas.contains(replica));
                let least =
                    free.min_by(|&a, &b| loads[usize::from(a)].total_cmp(&loads[usize::from(b)]));
                let Some(least) = least else { continue };
                let degree = replicas.len() as f32;
                for &replica in replicas.iter() {
                    loads[usize::from(replica)] += load / (degree + 1.0) - load / degree;
                }
                loads[usize::from(least)] += load / (degree + 1.0);
                replicas.push(least);
                if balanced(&loads) {
                    break;
                }
            }
        }
        let wanted = keys
            .into_iter()
            .map(|(key, _)| key)
            .zip(assigned)
            .filter(|(_, replicas)| replicas.len() > 1);
        self.change(wanted.collect(), holds);
    }

    /// Changes the mapping to `wanted`.
    fn change(&mut self, mut wanted: HashMap<u32, Vec<u16>>, holds: impl Fn(u16, usize) -> bool) {
        // 1. Keys that are already split.
        for key in std::mem::take(&mut self.split_keys) {
            let home = self.home(key);
            let place = usize::from(self.routes[key as usize] - SPLIT);
            let split = &mut self.splits[place];
            let before = std::mem::replace(
                &mut split.active,
                wanted.remove(&key).unwrap_or_else(|| vec![home]),
            );
            split.draining.extend(before);
            split.draining.sort_unstable();
            split.draining.dedup();
            split
                .draining
                .retain(|&replica| !split.active.contains(&replica) && holds(replica, place));
            let is_split = split.active.len() > 1 || !split.draining.is_empty();
            if is_split { self.split_keys.push(key) } else { self.unite(key) }
        }
        // 2. Other keys. Rows at their home replica stay there.
        for (key, active) in wanted {
            let split = Split { active, draining: Vec::new() };
            let place = match self.free.pop() {
                Some(place) => {
                    self.splits[usize::from(place)] = split;
                    place
                }
                // No key is heavy if there are several thousand of them.
                None if self.splits.len() >= usize::from(NOWHERE - SPLIT) => continue,
                None => {
                    self.splits.push(split);
                    (self.splits.len() - 1) as u16
                }
            };
            if self.routes.len() <= key as usize {
                self.routes.resize(key as usize + 1, HOME);
            }
            self.routes[key as usize] = SPLIT + place;
            self.split_keys.push(key);
        }
    }

    /// Assigns a split key to its home replica alone.
    fn unite(&mut self, key: u32) {
        let route = std::mem::replace(&mut self.routes[key as usize], HOME);
        self.free.push(route - SPLIT);
    }

    /// Drops keys without rows.
    pub(super) fn forget(&mut self, keys: &[u32]) {
        for &key in keys {
            if self.split_of(key).is_some() {
                self.unite(key);
                self.split_keys.retain(|&split| split != key);
            }
            self.frequencies.forget(key);
        }
    }

    /// Returns the memory used for keys, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.frequencies.memory() + self.routes.capacity() * size_of::<u16>()
    }

    /// Returns the number of keys whose rows are spread over several replicas.
    pub(super) fn split_keys(&self) -> usize {
        self.split_keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of comparisons for each replica, assuming that every row is compared with
    /// all rows on the other side that have the same key.
    fn loads(assignment: &Assignment, rows: &[(u32, u32)]) -> Vec<f64> {
        let mut loads = vec![0.0; assignment.replicas];
        for (key, &(left, right)) in (0..).zip(rows) {
            let pairs = f64::from(left) * f64::from(right);
            match assignment.split_of(key) {
                None => loads[usize::from(assignment.home(key))] += pairs,
                Some(split) => {
                    let active = &assignment.splits[split].active;
                    for &replica in active {
                        loads[usize::from(replica)] += pairs / active.len() as f64;
                    }
                }
            }
        }
        loads
    }

    /// Returns the load factor that is reached with 8 replicas and 50 keys. The frequencies are
    /// self-similar: a fraction `s` of the keys accounts for a fraction `1 - s` of the rows, and
    /// the same holds within each part. If `turned` is set, the right side's frequencies are in
    /// reverse order.
    fn load_factor(s: f64, theta: f64, turned: bool) -> f64 {
        let share = |keys: f64| keys.powf((1.0 - s).ln() / s.ln());
        let rows = |key: u32| {
            let share = share(f64::from(key + 1) / 50.0) - share(f64::from(key) / 50.0);
            (share * 20_000.0) as u32
        };
        let rows: Vec<(u32, u32)> =
            (0..50).map(|key| (rows(key), rows(if turned { 49 - key } else { key }))).collect();
        let mut assignment = Assignment::new(Parallelism::Hybrid, 8).with_load_factor(theta);
        for (key, &(left, right)) in (0..).zip(&rows) {
            let mut count = |side, rows| {
                let keys = vec![key; SAMPLED * rows as usize];
                assignment.count(&keys, &vec![side; keys.len()]);
            };
            count(Side::Left, left);
            count(Side::Right, right);
        }
        assignment.assign(|_, _| false);
        let loads = loads(&assignment, &rows);
        loads.iter().copied().fold(0.0, f64::max) / (loads.iter().sum::<f64>() / 8.0)
    }

    #[test]
    fn comparisons_are_balanced_as_theta_says() {
        for s in [0.5, 0.4, 0.3, 0.2] {
            for theta in [1.1, 1.2, 2.0] {
                for turned in [false, true] {
                    let found = load_factor(s, theta, turned);
                    assert!(found <= theta, "s {s}, theta {theta}: {found}");
                }
            }
        }
    }

    #[test]
    fn as_many_keys_are_split_as_there_are_routes() {
        let (keys, most) = (0..1_u32 << 15, usize::from(NOWHERE - SPLIT));
        let mut assignment = Assignment::new(Parallelism::Hybrid, 3);
        assignment.change(keys.clone().map(|key| (key, vec![0, 1])).collect(), |_, _| true);
        assert_eq!(assignment.split_keys(), most);
        // The key that could not be split stays at its home, and every key still has a replica.
        let routes = keys.clone().map(|key| assignment.route(0, key));
        assert_eq!(routes.filter(|&route| Assignment::is_split(route)).count(), most);
        assert!(keys.clone().all(|key| assignment.route(0, key) != NOWHERE));
    }

    #[test]
    fn a_larger_theta_splits_fewer_keys() {
        // With the largest load factor, no key is split.
        assert!(load_factor(0.4, 8.0, false) > 2.0, "{}", load_factor(0.4, 8.0, false));
    }

    #[test]
    fn frequencies_fade_and_are_forgotten() {
        let mut frequencies = Frequencies::default();
        for side in [Side::Left, Side::Left, Side::Right, Side::Right] {
            frequencies.add(7, side);
        }
        frequencies.add(3, Side::Left);
        assert_eq!(frequencies.loads(), [(7, 4.0), (3, 0.0)]);
        frequencies.fade();
        frequencies.fade();
        assert_eq!(frequencies.loads(), [(7, 0.25)]);
        // From here on, another key has this number.
        frequencies.forget(7);
        frequencies.add(7, Side::Right);
        frequencies.add(7, Side::Left);
        assert_eq!(frequencies.loads(), [(7, 1.0)]);
    }

    #[test]
    fn division_is_exact() {
        for by in (1..70).chain([255, 256, 511, 512]) {
            let divisor = Divisor::new(by);
            for key in (0..1000).chain([1 << 20, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX]) {
                assert_eq!(
                    divisor.divide(key),
                    (key / by as u32, (key % by as u32) as u16),
                    "{key} / {by}"
                );
            }
        }
    }
}

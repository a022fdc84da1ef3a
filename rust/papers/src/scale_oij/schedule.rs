//! The dynamic balanced schedule, which determines the joiners that share a key's rows.
//!
//! Keys are divided into partitions by key number. Each partition has a team of joiners. Initially,
//! each team has one joiner, and the joiners are assigned to the teams in turn. Rows are counted
//! per partition, and older rows gradually count less. At intervals, one partition of the busiest
//! joiner adds the joiner with the least work to its team, as long as this makes the loads more
//! even. Joiners never leave a team, so the team keeps all rows in its partition.

/// The number of key partitions.
const PARTITIONS: usize = if cfg!(test) { 8 } else { 1024 };

/// The number of rows after which teams can change. Processing these rows takes a few milliseconds,
/// as in the authors' code.
const SCHEDULED_ROWS: u64 = if cfg!(test) { 50 } else { 1 << 15 };

/// The initial number of joiners per partition. In loom models, a partition begins with all
/// joiners, because loads do not accumulate in these models.
const FIRST_JOINERS: usize = if cfg!(loom) { usize::MAX } else { 1 };

/// The fraction of a row's count that remains after each change.
const DAMPING: f64 = 0.9;

/// The minimum number of rows by which an additional joiner must relieve the busiest joiner to be
/// worthwhile.
const LEAST_RELEASE: f64 = 0.1;

/// The minimum decrease in load deviation, as a fraction of the mean load.
const LEAST_GAIN: f64 = 0.01;

/// The teams of the partitions.
#[derive(Debug)]
pub(super) struct Schedule {
    joiners: usize,
    /// The joiners of each partition.
    teams: Vec<Vec<u16>>,
    /// The number of rows in each partition, with older rows counting less.
    counts: Vec<f64>,
    /// The number of rows since the last change.
    rows: u64,
}

impl Schedule {
    /// Creates a schedule for the given number of joiners.
    pub(super) fn new(joiners: usize) -> Self {
        let team = |partition| {
            let members = (partition..).take(FIRST_JOINERS.min(joiners));
            members.map(|joiner| (joiner % joiners) as u16).collect()
        };
        let teams = (0..PARTITIONS).map(team);
        Schedule { joiners, teams: teams.collect(), counts: vec![0.0; PARTITIONS], rows: 0 }
    }

    /// Returns the joiners that store rows with a key.
    #[inline]
    pub(super) fn team(&self, key: u32) -> &[u16] {
        &self.teams[key as usize % PARTITIONS]
    }

    /// Returns the joiner to which a row with this key is assigned. The row's number selects a
    /// random member of the key's team.
    #[inline]
    pub(super) fn joiner(&self, key: u32, row: u64) -> u16 {
        let team = self.team(key);
        if team.len() == 1 {
            return team[0];
        }
        // The SplitMix64 generator of Steele, Lea and Flood.
        let mixed = row.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        team[((mixed ^ (mixed >> 31)) % team.len() as u64) as usize]
    }

    /// Counts the keys of processed rows, and changes teams at intervals.
    pub(super) fn observe(&mut self, keys: impl Iterator<Item = u32>) {
        for key in keys {
            self.counts[key as usize % PARTITIONS] += 1.0;
            self.rows += 1;
        }
        if self.rows >= SCHEDULED_ROWS {
            self.rows = 0;
            self.balance();
            self.counts.iter_mut().for_each(|count| *count *= DAMPING);
        }
    }

    /// Adds joiners to the partitions of busy joiners.
    fn balance(&mut self) {
        let mut loads = self.loads();
        let mut deviation = deviation(&loads);
        loop {
            let busiest = (0..self.joiners).max_by(|&a, &b| loads[a].total_cmp(&loads[b]));
            let Some(better) = busiest.and_then(|busiest| self.relieve(busiest, &loads, deviation))
            else {
                return;
            };
            self.teams[better.partition].push(better.joiner);
            (loads, deviation) = (better.loads, better.deviation);
        }
    }

    /// Among the busiest joiner's partitions, returns the one that benefits most from another
    /// joiner, if adding one is worthwhile.
    fn relieve(&self, busiest: usize, loads: &[f64], deviation_now: f64) -> Option<Better> {
        let release = |partition: usize| {
            let team = self.teams[partition].len() as f64;
            self.counts[partition] / team - self.counts[partition] / (team + 1.0)
        };
        let is_candidate = |&partition: &usize| {
            let team = &self.teams[partition];
            team.contains(&(busiest as u16))
                && team.len() < self.joiners
                && release(partition) >= LEAST_RELEASE
        };
        let mut candidates: Vec<usize> = (0..PARTITIONS).filter(is_candidate).collect();
        // The partition that relieves the joiner most comes first.
        candidates.sort_by(|&a, &b| release(b).total_cmp(&release(a)));
        candidates.into_iter().find_map(|partition| {
            let (team, release) = (&self.teams[partition], release(partition));
            let others = (0..self.joiners).filter(|&joiner| !team.contains(&(joiner as u16)));
            let joiner = others.min_by(|&a, &b| loads[a].total_cmp(&loads[b]))?;
            let mut loads = loads.to_vec();
            team.iter().for_each(|&joiner| loads[usize::from(joiner)] -= release);
            loads[joiner] += release * team.len() as f64;
            let deviation = deviation(&loads);
            let is_better = deviation_now - deviation > LEAST_GAIN;
            is_better.then_some(Better { partition, joiner: joiner as u16, loads, deviation })
        })
    }

    /// Returns how many rows each joiner has if each partition's rows are divided evenly among its
    /// team.
    fn loads(&self) -> Vec<f64> {
        let mut loads = vec![0.0; self.joiners];
        for (team, count) in self.teams.iter().zip(&self.counts) {
            team.iter().for_each(|&joiner| loads[usize::from(joiner)] += count / team.len() as f64);
        }
        loads
    }
}

/// A partition with an additional joiner, and the resulting loads.
#[derive(Debug)]
struct Better {
    partition: usize,
    joiner: u16,
    loads: Vec<f64>,
    deviation: f64,
}

/// Returns the standard deviation of the loads as a fraction of their mean.
fn deviation(loads: &[f64]) -> f64 {
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    if mean <= 0.0 {
        return 0.0;
    }
    let squares: f64 = loads.iter().map(|load| (load - mean).powi(2)).sum();
    (squares / loads.len() as f64).sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes rows with these keys. Returns the resulting schedule, and the ratio of the busiest
    /// joiner's row count to the mean.
    fn after(joiners: usize, rows: &[(u32, usize)]) -> (Schedule, f64) {
        let mut schedule = Schedule::new(joiners);
        for _ in 0..5 {
            let keys = rows.iter().flat_map(|&(key, count)| std::iter::repeat_n(key, count));
            schedule.observe(keys);
        }
        let loads = schedule.loads();
        let most = loads.iter().copied().fold(0.0, f64::max);
        let factor = most / (loads.iter().sum::<f64>() / joiners as f64);
        (schedule, factor)
    }

    #[test]
    fn a_hot_partition_gets_all_joiners_and_a_cold_one_keeps_its_own() {
        let (schedule, factor) = after(4, &[(1, 97), (2, 1), (3, 1), (4, 1)]);
        assert!(factor < 1.1, "{factor}");
        let mut team = schedule.team(1).to_vec();
        team.sort_unstable();
        assert_eq!(team, [0, 1, 2, 3]);
        assert_eq!((schedule.team(2), schedule.team(1 + 8).len()), (&[2][..], 4));
    }

    #[test]
    fn even_loads_change_nothing() {
        let (schedule, factor) = after(4, &[(0, 25), (1, 25), (2, 25), (3, 25)]);
        assert_eq!(factor, 1.0);
        assert!((0..8).all(|key| schedule.team(key) == [(key % 4) as u16]));
    }

    #[test]
    fn rows_are_dealt_out_evenly_and_by_their_number_alone() {
        let (schedule, _) = after(3, &[(5, 100)]);
        assert_eq!(schedule.team(5).len(), 3);
        let mut rows = [0; 3];
        (0..3000).for_each(|row| rows[usize::from(schedule.joiner(5, row))] += 1);
        assert!(rows.iter().all(|rows| (900..1100).contains(rows)), "{rows:?}");
        assert!((0..100).all(|row| schedule.joiner(5, row) == schedule.joiner(5, row)));
        assert!((0..100).all(|row| schedule.joiner(4, row) == 1));
    }

    #[test]
    fn a_load_that_moves_is_followed() {
        let (mut schedule, _) = after(2, &[(0, 100)]);
        (0..100).for_each(|_| schedule.observe(std::iter::repeat_n(1, 10)));
        assert_eq!((schedule.team(0).len(), schedule.team(1).len()), (2, 2));
    }
}

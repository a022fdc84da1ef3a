//! Fuzz targets: functions that accept any bytes, and panic if tidegate misbehaves.
//!
//! `make fuzz` feeds them with libFuzzer, which changes the bytes to reach more of tidegate's code.
//! The seeds in `seeds/` are inputs that reached new code or revealed a fault. `cargo test -p
//! tidegate-fuzz` feeds the seeds.

#![deny(unsafe_code)]

mod aggregates;
mod draw;
mod imports;
mod joins;
mod merges;
mod oracle;
mod overlaps;
mod play;
mod query;
mod rolling;
mod rows;
mod snapshots;
mod texts;
mod windows;

/// A function that is fed with bytes.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("join", joins::join),
    ("overlap", overlaps::overlap),
    ("aggregate", aggregates::aggregate),
    ("rolling", rolling::rolling),
    ("merge", merges::merge),
    ("snapshot", snapshots::snapshot),
    ("import", imports::import),
    ("where", texts::condition),
    ("duration", texts::duration),
];

//! All integration tests, in one executable: each more would be compiled and linked by itself.

#[cfg(not(loom))]
mod random;

#[cfg(not(loom))]
mod api_gate;
#[cfg(not(loom))]
mod linearizable_gate;
#[cfg(not(loom))]
mod oracle_gate;
#[cfg(not(loom))]
mod oracle_hive;
#[cfg(not(loom))]
mod oracle_index;
#[cfg(not(loom))]
mod oracle_time_travel;
#[cfg(not(loom))]
mod stress_gate;

#[cfg(loom)]
mod loom_gate;
#[cfg(loom)]
mod loom_hive;
#[cfg(loom)]
mod loom_olc;
#[cfg(loom)]
mod loom_time_travel;

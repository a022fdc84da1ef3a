//! All integration tests, in one executable: each more would be compiled and linked by itself.

#[cfg(not(loom))]
mod aggregate;
#[cfg(not(loom))]
mod asof_join;
#[cfg(not(loom))]
mod band_join;
#[cfg(not(loom))]
mod interval_join;
#[cfg(not(loom))]
mod overlap_join;
#[cfg(not(loom))]
mod stress_handshake;
#[cfg(not(loom))]
mod tables;

#[cfg(loom)]
mod loom_handshake;
#[cfg(loom)]
mod loom_index_join;
#[cfg(loom)]
mod loom_scale_gates;
#[cfg(loom)]
mod loom_scale_oij;

//! All integration tests are in one executable, because each additional executable would be
//! compiled and linked separately.

#[cfg(not(loom))]
mod gate_model;
#[cfg(not(loom))]
mod histories;
#[cfg(not(loom))]
mod indexes;
#[cfg(not(loom))]
mod payloads;
#[cfg(not(loom))]
mod random;

#[cfg(not(loom))]
mod api_gate;
#[cfg(not(loom))]
mod linearizable_gate;
#[cfg(not(loom))]
mod oracle_gate;
#[cfg(not(loom))]
mod oracle_index;
#[cfg(not(loom))]
mod stress_gate;

#[cfg(loom)]
mod loom_gate;
#[cfg(loom)]
mod loom_payloads;

//! All integration tests are in one executable, because each additional executable would need to be
//! compiled and linked separately.
//!
//! The tests also use helpers from the structures crate: gate models, histories, payloads, and the
//! index oracle.

#[cfg(not(loom))]
#[path = "../../../structures/tests/all/gate_model.rs"]
mod gate_model;
#[cfg(not(loom))]
#[path = "../../../structures/tests/all/histories.rs"]
mod histories;
#[cfg(not(loom))]
#[path = "../../../structures/tests/all/oracle_index.rs"]
mod oracle_index;
#[cfg(not(loom))]
#[path = "../../../structures/tests/all/payloads.rs"]
mod payloads;
#[cfg(not(loom))]
#[path = "../../../structures/tests/all/random.rs"]
mod random;

#[cfg(not(loom))]
mod aggregate_designs;
#[cfg(not(loom))]
mod api_gate;
#[cfg(not(loom))]
mod indexes;
#[cfg(not(loom))]
mod linearizable_gate;
#[cfg(not(loom))]
mod oracle_gate;
#[cfg(not(loom))]
mod oracle_hive;
#[cfg(not(loom))]
mod oracle_time_travel;
#[cfg(not(loom))]
mod stress_gate;
#[cfg(not(loom))]
mod stress_handshake;

#[cfg(loom)]
mod loom_gate;
#[cfg(loom)]
mod loom_handshake;
#[cfg(loom)]
mod loom_hive;
#[cfg(loom)]
mod loom_index_join;
#[cfg(loom)]
mod loom_olc;
#[cfg(loom)]
#[path = "../../../structures/tests/all/loom_payloads.rs"]
mod loom_payloads;
#[cfg(loom)]
mod loom_scale_gates;
#[cfg(loom)]
mod loom_scale_oij;
#[cfg(loom)]
mod loom_time_travel;

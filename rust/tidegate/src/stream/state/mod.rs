//! An operator's state: the rows and keys that it keeps, and their serialized form.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `store.rs` | the kept rows, with 8-byte columns also stored row by row |
//! | `timed_rows.rs` | the kept rows with their times |
//! | `keys.rs`, `kept_keys.rs` | numbers for keys that are added and removed; the keys of kept rows |
//! | `snapshot.rs` | state as bytes |
//! | `stored_table.rs`, `plain.rs` | tables in snapshots, which are checked before an operator uses them |

pub(crate) mod kept_keys;
pub(crate) mod keys;
mod plain;
pub(crate) mod snapshot;
pub(crate) mod store;
mod stored_table;
pub(crate) mod timed_rows;

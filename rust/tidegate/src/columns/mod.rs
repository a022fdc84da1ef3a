//! Imported Arrow tables, and their columns as plain numbers.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `table.rs` | validated inputs |
//! | `time/`, `duration.rs` | units, time zones and bounds; durations as strings |
//! | `index/` | rows that have been grouped and sorted for many joins |
//! | `intervals.rs` | the intervals of rows that have a start and an end |
//! | `cast.rs`, `misfit.rs` | casts values to another type, or reports the first value that does not fit |
//! | `fit.rs` | converts rows to a requested schema |
//! | `dictionary.rs` | concatenates arrays whose dictionary indices may be narrow |
//! | `roomy.rs` | widens the dictionary indices that operators store |
//! | `faults.rs` | rows for which a condition cannot be computed |
//! | `metadata.rs` | the metadata of results |
//! | `nested.rs` | types that contain other types |
//! | `names.rs`, `type_name.rs` | names and types for messages |
//! | `row_ends.rs` | ends of intervals, computed from columns |
//! | `keys/` | keys as dense numbers |
//! | `codes.rs`, `distance.rs` | values as codes that preserve their order; distances between values |
//! | `expression/` | `where` conditions |

pub(crate) mod cast;
pub(crate) mod codes;
pub(crate) mod dictionary;
pub(crate) mod distance;
pub(crate) mod duration;
pub mod expression;
pub(crate) mod faults;
pub(crate) mod fit;
pub(crate) mod index;
pub(crate) mod intervals;
pub(crate) mod keys;
pub(crate) mod metadata;
pub(crate) mod misfit;
pub(crate) mod names;
pub(crate) mod nested;
pub(crate) mod roomy;
pub(crate) mod row_ends;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod type_name;

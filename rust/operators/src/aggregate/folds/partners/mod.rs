//! Computes one function over each left row's partners, from pane suffixes and prefixes.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `runs.rs` | partners as the ends of runs |
//! | `blocks.rs` | the results of functions, block by block of left rows |
//! | `words.rs` | functions whose states are words |
//! | `passes.rs` | suffixes and prefixes of words, if both sides are in time order |
//! | `lanes/` | the same for several intervals at once, or for many right rows per left row |
//! | `operations.rs` | the groups of operations for which loops are compiled |
//! | `row_passes.rs` | suffixes and prefixes of words, if windows are row-based |
//! | `panes.rs` | suffixes and prefixes of any function, in any order of rows |
//! | `listed.rs` | partners that are added one by one |
//! | `functions.rs` | the functions in each of these forms, with small states if all rows count |

pub(in crate::aggregate) mod blocks;
pub(in crate::aggregate) mod functions;
pub(in crate::aggregate) mod lanes;
pub(in crate::aggregate) mod listed;
mod operations;
pub(in crate::aggregate) mod panes;
pub(in crate::aggregate) mod passes;
pub(in crate::aggregate) mod row_passes;
pub(in crate::aggregate) mod runs;
pub(in crate::aggregate) mod words;

//! Deterministic, multicore joins of event streams, Arrow in and Arrow out.

mod error;
pub mod expression;

pub use error::{Error, Result};

//! Published joins against the oracles that the operators have for their own: the index-based
//! joins, and the joins of sliding windows.

mod bands;
mod windows;

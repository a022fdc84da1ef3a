//! Everything that calls need from the interpreter: threads, exceptions, signals, and functions of
//! the package.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `threads.rs` | how threads detach from the interpreter and reattach to it |
//! | `error.rs` | errors as Python exceptions |
//! | `callbacks.rs` | functions of the package that native code calls |
//! | `interrupt.rs` | native work without the GIL, which Ctrl-C can interrupt |
//! | `native.rs` | the native module itself |

pub(crate) mod callbacks;
pub(crate) mod error;
pub(crate) mod interrupt;
pub(crate) mod native;
pub(crate) mod threads;

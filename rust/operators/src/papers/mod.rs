//! Operators as they were published, to compare with: none of them is on the path of a call without
//! an `algorithm`.

pub mod handshake;

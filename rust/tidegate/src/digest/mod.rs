//! Digests of rows. If the digests of two runs are equal, the runs returned the same rows.
//!
//! A digest consists of 128 bits that depend only on the values. The digest does not depend on the
//! number of threads, the batch boundaries, the layouts of equal values, the platform or the
//! version of tidegate.
//!
//! ```text
//!  a batch ──▶ bytes of each row ──▶ 128 bits of each row ──▶ sum      ──▶ order-free digest
//!              types.rs, rows.rs      XXH3                  └▶ polynomial ──▶ digest in order
//! ```
//!
//! # The definition
//!
//! The definition never changes, because a change would make old digests worthless.
//!
//! 1. A column has a *kind* (`types.rs`): all types whose values can be equal as keys have the same
//!    kind. The *header* is the text `tidegate digest 1`, followed by an entry for each column. An
//!    entry consists of `;`, the length of the column's name in bytes, `:`, the name, `=` and the
//!    column's kind.
//! 2. The encoding of a null starts with the byte 0. Any other value is encoded as the byte 1 or 2
//!    followed by the value (`rows.rs`). A row is encoded as its values in the fixed-length
//!    columns, followed by its values in all other columns. Both groups are in column order.
//! 3. A row's *word* is the XXH3-128 hash of its bytes, with seed 0.
//! 4. The order-free state is the sum of the words modulo 2^128. In a sum, equal rows add up,
//!    whereas XOR would cancel them out. The ordered state is the polynomial of the words, `(((w0
//!    b) + w1) b + w2) ...` modulo the prime 2^127 - 1 (`polynomial.rs`; Karp and Rabin's
//!    fingerprint).
//! 5. A digest is the XXH3-128 hash of four values: the header's XXH3-128 hash, the number of rows,
//!    a state, and a byte that is 0 for the ordered digest and 1 for the order-free one. All values
//!    are little-endian.
//!
//! The sum and the polynomial for all rows can be computed from the sums and polynomials of
//! separate parts, so threads process the parts in parallel. For the same reason, the batch that
//! was added last can be removed again.
//!
//! # Trade-offs
//!
//! The digest detects accidental differences. Two tables with the same digest can be constructed
//! deliberately, because no part of the digest is secret.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{Int32Array, Int64Array, RecordBatch};
//! use tidegate::{Digest, Driver, Stop};
//!
//! let driver = Driver::new(2, Stop::default());
//! let whole = RecordBatch::try_from_iter([("ts", Arc::new(Int64Array::from(vec![1, 2])) as _)])?;
//! let mut digest = Digest::new(&whole.schema());
//! digest.add(&whole, &driver)?;
//!
//! // The same values, narrower and row by row.
//! let rows = |ts| RecordBatch::try_from_iter([("ts", Arc::new(Int32Array::from(vec![ts])) as _)]);
//! let mut again = Digest::new(&whole.schema());
//! again.add(&rows(1)?, &driver)?;
//! again.add(&rows(2)?, &driver)?;
//! assert_eq!(again.ordered(), digest.ordered());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod polynomial;
mod rows;
mod types;

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use tidegate_operators::driver::Driver;
use xxhash_rust::xxh3::xxh3_128;

use self::polynomial::Polynomial;
use self::rows::BatchRows;
use crate::{Error, Result};

/// The number of rows whose words a thread computes at a time. This number is large enough to make
/// the cost of waking the thread negligible.
const PART_ROWS: usize = 1 << 14;

/// The number of bytes in a state.
pub(crate) const STATE_BYTES: usize = 40;

/// The digest of the rows so far, both ordered and order-free.
#[derive(Clone, Debug)]
pub struct Digest {
    /// The names and kinds of the columns.
    columns: Vec<(String, String)>,
    header: u128,
    state: State,
}

/// The part of the digest that depends on the rows. This part has a fixed size, regardless of the
/// number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    rows: u64,
    sum: u128,
    polynomial: Polynomial,
}

impl Digest {
    /// Creates the digest of an empty table with these column names and types.
    pub fn new(schema: &Schema) -> Self {
        Self::of_columns(columns(schema))
    }

    /// Creates the digest of an empty table with columns of these names and kinds.
    pub fn of_columns(columns: Vec<(String, String)>) -> Self {
        let mut header = "tidegate digest 1".to_owned();
        for (name, kind) in &columns {
            header += &format!(";{}:{name}={kind}", name.len());
        }
        Digest { columns, header: xxh3_128(header.as_bytes()), state: State::default() }
    }

    /// Returns the name and the kind of each column.
    pub fn columns(&self) -> &[(String, String)] {
        &self.columns
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.state.rows
    }

    /// Returns the digest of the rows in their order.
    pub fn ordered(&self) -> u128 {
        self.of(self.state.polynomial.value(), 0)
    }

    /// Returns the digest of the rows, regardless of their order. Duplicate rows are counted separately.
    pub fn unordered(&self) -> u128 {
        self.of(self.state.sum, 1)
    }

    /// Returns the order-free state. If the rows are divided into parts, the sum of the parts'
    /// states modulo 2^128 equals the state of all rows. The state includes neither the columns'
    /// names and kinds nor the number of rows.
    pub fn sum(&self) -> u128 {
        self.state.sum
    }

    fn of(&self, state: u128, which: u8) -> u128 {
        let mut bytes = [which; 41];
        bytes[..16].copy_from_slice(&self.header.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.state.rows.to_le_bytes());
        bytes[24..40].copy_from_slice(&state.to_le_bytes());
        xxh3_128(&bytes)
    }

    /// Adds the rows in a batch. The column names, their order and the kinds of the column types
    /// must match the schema. If the call fails, no rows are added.
    pub fn add(&mut self, batch: &RecordBatch, driver: &Driver) -> Result<()> {
        self.state = self.state.then(self.state_of(batch, driver)?);
        Ok(())
    }

    /// Adds the rows of another digest with the same columns. The effect is the same as if those
    /// rows had been added to this digest directly.
    pub fn append(&mut self, later: &Digest) -> Result<()> {
        check(&self.columns, &later.columns)?;
        self.state = self.state.then(later.state);
        Ok(())
    }

    /// Removes the rows in the batch that was added last.
    pub(crate) fn take_back(&mut self, batch: &RecordBatch) {
        self.state = self.state.without(State::of(&BatchRows::new(batch), 0..batch.num_rows()));
    }

    /// Returns the state of a single batch, without the other rows.
    fn state_of(&self, batch: &RecordBatch, driver: &Driver) -> Result<State> {
        check(&self.columns, &columns(&batch.schema()))?;
        let rows = BatchRows::new(batch);
        let starts = (0..batch.num_rows()).step_by(PART_ROWS);
        let parts: Vec<Range<usize>> =
            starts.map(|start| start..batch.num_rows().min(start + PART_ROWS)).collect();
        let states = driver.fit(batch.num_rows()).map(parts, |part| State::of(&rows, part))?;
        Ok(states.into_iter().fold(State::default(), State::then))
    }

    /// Returns the state as bytes, for snapshots and pickles.
    pub fn to_bytes(&self) -> [u8; STATE_BYTES] {
        let State { rows, sum, polynomial } = self.state;
        let mut bytes = [0; STATE_BYTES];
        bytes[..8].copy_from_slice(&rows.to_le_bytes());
        bytes[8..24].copy_from_slice(&sum.to_le_bytes());
        bytes[24..].copy_from_slice(&polynomial.value().to_le_bytes());
        bytes
    }

    /// Returns this digest with the state that the bytes represent, or `None` if the bytes are
    /// invalid.
    pub fn with_state(mut self, bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STATE_BYTES] = bytes.try_into().ok()?;
        let word =
            |at: usize| u128::from_le_bytes(bytes[at..at + 16].try_into().expect("16 bytes"));
        self.state = State {
            rows: u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")),
            sum: word(8),
            polynomial: Polynomial::from_value(word(24))?,
        };
        Some(self)
    }
}

impl State {
    /// The state of some rows.
    fn of(rows: &BatchRows<'_>, part: Range<usize>) -> State {
        let words = rows.words(part);
        State {
            rows: words.len() as u64,
            sum: words.iter().fold(0, |sum, &word| sum.wrapping_add(word)),
            polynomial: Polynomial::of(&words),
        }
    }

    /// Returns the state of these rows followed by the rows of `later`.
    fn then(self, later: State) -> State {
        State {
            rows: self.rows + later.rows,
            sum: self.sum.wrapping_add(later.sum),
            polynomial: self.polynomial.then(later.polynomial, later.rows),
        }
    }

    /// Returns this state without the last rows, given the state of those rows.
    fn without(self, last: State) -> State {
        State {
            rows: self.rows - last.rows,
            sum: self.sum.wrapping_sub(last.sum),
            polynomial: self.polynomial.without(last.polynomial, last.rows),
        }
    }
}

/// Returns each column's name and kind.
fn columns(schema: &Schema) -> Vec<(String, String)> {
    let fields = schema.fields().iter();
    fields.map(|field| (field.name().clone(), types::kind(field.data_type()))).collect()
}

/// Rejects rows with different columns.
fn check(wanted: &[(String, String)], given: &[(String, String)]) -> Result<()> {
    if wanted == given {
        return Ok(());
    }
    let shown = |column: Option<&(String, String)>| match column {
        Some((name, kind)) => format!("`{name}` of kind {kind}"),
        None => "no column".to_owned(),
    };
    let at = (0..).find(|&at| wanted.get(at) != given.get(at)).expect("they differ");
    Err(Error::schema(format!(
        "column {at}: expected {}, as in the previous rows, found {}; create a digest for each \
         schema, or cast the rows",
        shown(wanted.get(at)),
        shown(given.get(at))
    )))
}

#[cfg(test)]
mod tests;

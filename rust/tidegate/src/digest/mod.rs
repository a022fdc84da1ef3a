//! Digests of rows: two runs have given the same rows if their digests are equal.
//!
//! A digest is 128 bits of the values alone. Neither threads, nor cuts into batches, nor layouts of
//! equal values show in it, nor the platform, nor the version of tidegate.
//!
//! ```text
//!  a batch ──▶ bytes of each row ──▶ 128 bits of each row ──▶ sum      ──▶ order-free digest
//!              types.rs, rows.rs      XXH3                  └▶ polynomial ──▶ digest in order
//! ```
//!
//! # The definition
//!
//! It is kept for ever: a version that changed it would make old digests worthless.
//!
//! 1. A column has a *kind* (`types.rs`): types whose values can be equal as keys have one kind. The
//!    *header* is the text `tidegate digest 1`, then `;`, the length of its name in bytes, `:`, the
//!    name, `=` and the kind of each column.
//! 2. A value is a byte and more (`rows.rs`): 0 for a null, otherwise 1 or 2 and the value. A row is
//!    the values of the columns whose values have one length, in order, then all others, in order.
//! 3. A row's *word* is XXH3-128 of its bytes, with the seed 0.
//! 4. The order-free state is the sum of the words modulo 2^128: equal rows add up, as they would
//!    not under XOR. The state in order is the polynomial of the words, `(((w0 b) + w1) b + w2) ...`
//!    modulo the prime 2^127 - 1 (`polynomial.rs`; Karp and Rabin's fingerprint).
//! 5. A digest is XXH3-128 of the header's XXH3-128, the number of rows, a state, all little-endian,
//!    and a byte: 0 for the digest in order, 1 for the order-free one.
//!
//! A sum and a polynomial of parts give those of the whole, so threads take parts. For the same
//! reason a batch that was added last can be taken back.
//!
//! # Trade-offs
//!
//! The digest tells apart what chance brings about. Somebody who looks for two tables with one
//! digest can find them, since no part of it is a secret.
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

/// Rows of which a thread makes words at a time: enough that waking it weighs little.
const PART_ROWS: usize = 1 << 14;

/// The bytes of a state.
pub(crate) const STATE_BYTES: usize = 40;

/// The digest of rows so far, in order and order-free.
#[derive(Clone, Debug)]
pub struct Digest {
    /// The names and kinds of the columns.
    columns: Vec<(String, String)>,
    header: u128,
    state: State,
}

/// What is kept of rows. It does not grow with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    rows: u64,
    sum: u128,
    polynomial: Polynomial,
}

impl Digest {
    /// The digest of no rows, with columns of these names and types.
    pub fn new(schema: &Schema) -> Self {
        let columns = columns(schema);
        let mut header = "tidegate digest 1".to_owned();
        for (name, kind) in &columns {
            header += &format!(";{}:{name}={kind}", name.len());
        }
        Digest { columns, header: xxh3_128(header.as_bytes()), state: State::default() }
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.state.rows
    }

    /// The digest of the rows in their order.
    pub fn ordered(&self) -> u128 {
        self.of(self.state.polynomial.value(), 0)
    }

    /// The digest of the rows in any order. Rows that are there twice count twice.
    pub fn unordered(&self) -> u128 {
        self.of(self.state.sum, 1)
    }

    /// The order-free state: those of parts of the rows, added modulo 2^128, are that of all rows.
    /// The columns do not show in it, nor does their number.
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

    /// Adds the rows of a batch. The columns must have the names of the schema, in this order, and
    /// types of the same kinds. When this fails, no row was added.
    pub fn add(&mut self, batch: &RecordBatch, driver: &Driver) -> Result<()> {
        self.state = self.state.then(self.state_of(batch, driver)?);
        Ok(())
    }

    /// Adds the rows of another digest of the same columns, as if they had been added here.
    pub fn append(&mut self, later: &Digest) -> Result<()> {
        check(&self.columns, &later.columns)?;
        self.state = self.state.then(later.state);
        Ok(())
    }

    /// Takes the rows of the batch back that was added last.
    pub(crate) fn take_back(&mut self, batch: &RecordBatch) {
        self.state = self.state.without(State::of(&BatchRows::new(batch), 0..batch.num_rows()));
    }

    /// The state of a batch by itself.
    fn state_of(&self, batch: &RecordBatch, driver: &Driver) -> Result<State> {
        check(&self.columns, &columns(&batch.schema()))?;
        let rows = BatchRows::new(batch);
        let starts = (0..batch.num_rows()).step_by(PART_ROWS);
        let parts: Vec<Range<usize>> =
            starts.map(|start| start..batch.num_rows().min(start + PART_ROWS)).collect();
        let states = driver.fit(batch.num_rows()).map(parts, |part| State::of(&rows, part))?;
        Ok(states.into_iter().fold(State::default(), State::then))
    }

    /// The state as bytes, for snapshots.
    pub(crate) fn to_bytes(&self) -> [u8; STATE_BYTES] {
        let State { rows, sum, polynomial } = self.state;
        let mut bytes = [0; STATE_BYTES];
        bytes[..8].copy_from_slice(&rows.to_le_bytes());
        bytes[8..24].copy_from_slice(&sum.to_le_bytes());
        bytes[24..].copy_from_slice(&polynomial.value().to_le_bytes());
        bytes
    }

    /// This digest, with a state of bytes; `None` if they are none.
    pub(crate) fn with_state(mut self, bytes: &[u8]) -> Option<Self> {
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

    /// The state of these rows, then of later ones.
    fn then(self, later: State) -> State {
        State {
            rows: self.rows + later.rows,
            sum: self.sum.wrapping_add(later.sum),
            polynomial: self.polynomial.then(later.polynomial, later.rows),
        }
    }

    /// The state without the last rows, whose state this is.
    fn without(self, last: State) -> State {
        State {
            rows: self.rows - last.rows,
            sum: self.sum.wrapping_sub(last.sum),
            polynomial: self.polynomial.without(last.polynomial, last.rows),
        }
    }
}

/// The name and the kind of each column.
fn columns(schema: &Schema) -> Vec<(String, String)> {
    let fields = schema.fields().iter();
    fields.map(|field| (field.name().clone(), types::kind(field.data_type()))).collect()
}

/// Refuses rows of other columns.
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
        "column {at}: expected {}, as in the rows before, found {}; make a digest for each schema, \
         or cast the rows",
        shown(wanted.get(at)),
        shown(given.get(at))
    )))
}

#[cfg(test)]
mod tests;

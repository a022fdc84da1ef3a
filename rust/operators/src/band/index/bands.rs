//! A column with a band, as the rows of an epoch bring it.

/// A column with a band, of some rows of one side: for each row its code, and the least and the
/// greatest code of the other side's rows that it matches. A row without a value has a least code
/// above the greatest.
#[derive(Clone, Copy, Debug)]
pub struct Bands<'a> {
    /// Codes.
    pub codes: &'a [i64],
    /// Least codes that match.
    pub low: &'a [i64],
    /// Greatest codes that match.
    pub high: &'a [i64],
}

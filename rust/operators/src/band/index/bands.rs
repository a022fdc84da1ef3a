//! A column with a band, for the rows in an epoch.

/// A band column for some rows on one side. Each row has its code and the smallest and largest
/// codes that it matches on the other side. For a row without a value, the smallest code is greater
/// than the largest one.
#[derive(Clone, Copy, Debug)]
pub struct Bands<'a> {
    /// The codes of the rows.
    pub codes: &'a [i64],
    /// The smallest codes that match.
    pub low: &'a [i64],
    /// The largest codes that match.
    pub high: &'a [i64],
}

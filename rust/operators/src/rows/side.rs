//! The sides of a join, and their watermarks.

/// One of the two sides of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The left side: the base stream of PPOIJ, R of the other papers.
    Left = 0,
    /// The right side: the probe stream of PPOIJ, S of the other papers.
    Right = 1,
}

impl Side {
    /// Returns the other side.
    #[inline]
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

/// One watermark per side. Rows that arrive later on a side are not earlier than its watermark.
/// `None` means that no more rows will arrive. In merged order, both sides have the same watermark.
pub type SideWatermarks = [Option<i64>; 2];

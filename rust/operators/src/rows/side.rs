//! The sides of a join, and their watermarks.

/// A side of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The left side, which is the base stream of PPOIJ and R in the other papers.
    Left = 0,
    /// The right side, which is the probe stream of PPOIJ and S in the other papers.
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

/// One watermark per side. Rows that arrive on a side from now on are at or after the side's
/// watermark. `None` means that no more rows will arrive. In merged order, both sides have the same
/// watermark.
pub type SideWatermarks = [Option<i64>; 2];

//! W3: `r.x BETWEEN s.a - 10 AND s.a + 10 AND r.y BETWEEN s.b - 10 AND s.b + 10`. Values are
//! uniformly distributed in 1..10 000, and `y` and `b` are floats.

use tidegate_operators::rows::Side;
use tidegate_papers::handshake::{BandPredicate, NumberColumn, NumberRows, SearchStructure};
use tidegate_structures::simd::scan::Span;

/// The maximum distance between matching values.
const BAND: i32 = 10;

/// Determines how the condition on `x` is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// Tests the band by comparing all rows.
    Scan,
    /// Tests the band by looking up rows in the order of `x`.
    Ordered,
    /// Tests `r.x = s.a` instead of the band, by comparing all rows.
    EqualScan,
    /// Tests `r.x = s.a` instead of the band, by looking up rows by hash.
    Hash,
}

impl Test {
    /// Returns the maximum distance between matching values of `x`.
    fn x(self) -> i32 {
        if matches!(self, Test::Scan | Test::Ordered) { BAND } else { 0 }
    }

    fn lookup(self) -> Option<SearchStructure> {
        match self {
            Test::Scan | Test::EqualScan => None,
            Test::Ordered => Some(SearchStructure::Ordered),
            Test::Hash => Some(SearchStructure::Hash),
        }
    }

    pub(crate) fn predicate(self) -> BandPredicate<u32> {
        BandPredicate::new(self.lookup())
    }
}

/// The input rows, which alternate between the two sides.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) sides: Vec<Side>,
    pub(crate) left: NumberRows<u32>,
    pub(crate) right: NumberRows<u32>,
    /// The values of each side.
    points: [Vec<(i32, i32)>; 2],
}

impl Rows {
    /// Creates `pairs` rows per side, with values below `range`.
    pub(crate) fn new(pairs: usize, range: u64, test: Test) -> Self {
        let mut state = 42u64;
        let mut random = move || {
            // The SplitMix64 generator of Steele, Lea and Flood.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            1 + ((z ^ (z >> 31)) % range) as i32
        };
        let points = [(); 2].map(|()| (0..pairs).map(|_| (random(), random())).collect::<Vec<_>>());
        let [left, right] = [&points[0], &points[1]].map(|points| columns(points, test));
        Rows { sides: [Side::Left, Side::Right].repeat(pairs), left, right, points }
    }

    /// Returns whether a left row and a right row match, regardless of the windows.
    pub(crate) fn matches(&self, left: usize, right: usize, test: Test) -> bool {
        let (l, r) = (self.points[0][left], self.points[1][right]);
        (l.0 - r.0).abs() <= test.x() && (l.1 as f32 - r.1 as f32).abs() <= BAND as f32
    }
}

/// Returns the two values of each row as unsigned integers that sort in the same order. The floats
/// are whole numbers, so the constant can be added on either side of a condition.
fn columns(points: &[(i32, i32)], test: Test) -> NumberRows<u32> {
    let whole = |value: i32| (value ^ i32::MIN) as u32;
    let float = |value: i32| {
        let bits = (value as f32).to_bits();
        if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
    };
    let column = |value: &dyn Fn(&(i32, i32)) -> i32, code: &dyn Fn(i32) -> u32, within: i32| {
        let span = |value: i32| Span {
            low: code(value - within),
            width: code(value + within) - code(value - within),
        };
        let values = points.iter().map(value);
        NumberColumn {
            values: values.clone().map(code).collect(),
            takes: values.map(span).collect(),
        }
    };
    let columns =
        vec![column(&|point| point.0, &whole, test.x()), column(&|point| point.1, &float, BAND)];
    NumberRows::new(points.len(), columns, test.lookup().is_some())
}

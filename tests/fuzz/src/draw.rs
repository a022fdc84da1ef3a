//! Decisions that are drawn from bytes. When the bytes run out, the first choice is used.

use arbitrary::Unstructured;

/// The source of decisions.
#[derive(Debug)]
pub(crate) enum Draw<'a> {
    /// Bytes, which libFuzzer changes one by one.
    Bytes(Unstructured<'a>),
    /// A generator (SplitMix64), for tables that are too large to be encoded in the bytes.
    Seed(u64),
}

impl<'a> Draw<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Draw::Bytes(Unstructured::new(bytes))
    }

    /// Creates a generator with a drawn seed.
    pub(crate) fn seeded(&mut self) -> Draw<'static> {
        Draw::Seed(u64::from(self.number(0, 255)) << 8 | u64::from(self.number(0, 255)))
    }

    /// Returns a number between `low` and `high`.
    pub(crate) fn number(&mut self, low: u32, high: u32) -> u32 {
        match self {
            Draw::Bytes(bytes) => bytes.int_in_range(low..=high).expect("a non-empty range"),
            Draw::Seed(state) => {
                *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut mixed = *state;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                low + ((mixed ^ (mixed >> 31)) % u64::from(high - low + 1)) as u32
            }
        }
    }

    pub(crate) fn place(&mut self, len: usize) -> usize {
        self.number(0, len.saturating_sub(1) as u32) as usize
    }

    pub(crate) fn signed(&mut self, low: i32, high: i32) -> i128 {
        i128::from(low) + i128::from(self.number(0, (high - low) as u32))
    }

    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.place(choices.len())].clone()
    }

    /// Returns `true` once in `times` draws on average.
    pub(crate) fn once_in(&mut self, times: u32) -> bool {
        self.number(0, times - 1) == times - 1
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.once_in(2)
    }
}

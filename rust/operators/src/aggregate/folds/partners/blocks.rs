//! Computes the results of functions over partners, one block of left rows at a time.

use std::ops::Range;

use tidegate_structures::memory::pages::{Pages, UnwrittenPages};

use super::runs::Runs;
use super::words::Operation;
use crate::aggregate::output::{OutputColumn, OutputValue};

/// The number of left rows in a block. All functions are computed for one block before the next
/// block is begun, so that the positions of the block's partners stay in a cache.
pub(in crate::aggregate) const BLOCK: usize = if cfg!(test) { 7 } else { 1 << 12 };

/// A block of adjacent left rows.
pub(in crate::aggregate) struct PartnerBlock<'a> {
    pub(in crate::aggregate) left: Range<usize>,
    /// The partners of the left rows, if a function is folded by pane.
    pub(in crate::aggregate) runs: Option<Runs<'a>>,
    /// The words folded by the passes.
    pub(in crate::aggregate) words: &'a [FoldedWord],
}

impl<'a> PartnerBlock<'a> {
    /// Returns the partners, for functions that are folded by pane.
    pub(super) fn runs(&self) -> &Runs<'a> {
        self.runs.as_ref().expect("the block has partners if a function is folded by pane")
    }
}

/// A function of any type, with the right rows already folded.
pub(in crate::aggregate) trait OfBlocks: Send + Sync {
    /// Returns an empty column for the results of `rows` left rows.
    fn results(&self, rows: usize) -> Box<dyn PartnerResults + '_>;
}

/// The results of a function, which are appended block by block.
pub(in crate::aggregate) trait PartnerResults {
    fn add(&mut self, block: &PartnerBlock<'_>);
    fn finish(self: Box<Self>) -> OutputColumn;
}

/// A growing column of results.
pub(super) struct ResultColumn<'a, F, T> {
    pub(super) function: &'a F,
    values: UnwrittenPages<T>,
    filled: usize,
    missing: Vec<usize>,
}

impl<'a, F, T: OutputValue> ResultColumn<'a, F, T> {
    pub(super) fn new(function: &'a F, rows: usize) -> Self {
        ResultColumn { function, values: Pages::unwritten(rows), filled: 0, missing: Vec::new() }
    }

    pub(super) fn extend(&mut self, results: impl ExactSizeIterator<Item = Option<T>>) {
        let end = self.filled + results.len();
        let values = &mut self.values[self.filled..end];
        for ((out, value), at) in values.iter_mut().zip(results).zip(self.filled..) {
            if value.is_none() {
                self.missing.push(at);
            }
            out.set(value.unwrap_or_default());
        }
        self.filled = end;
    }

    pub(super) fn finish(self) -> OutputColumn {
        OutputColumn { values: T::column(self.values.written()), missing: self.missing }
    }
}

/// For each left row, a word of the suffix state and a word of the prefix state.
#[derive(Default)]
pub(in crate::aggregate) struct FoldedWord {
    /// Has either a word for each left row, or empty words for the left rows of a single block.
    pub(super) suffixes: Pages<u64>,
    pub(super) prefixes: Pages<u64>,
}

impl FoldedWord {
    /// Returns words that are not divided into suffixes and prefixes.
    pub(super) fn whole(operation: Operation, words: Pages<u64>) -> Self {
        FoldedWord { suffixes: Pages::filled(BLOCK, operation.empty()), prefixes: words }
    }

    /// Returns the folded words for some left rows.
    pub(super) fn of(
        &self,
        left: &Range<usize>,
    ) -> impl ExactSizeIterator<Item = (u64, u64)> + Clone + '_ {
        let prefixes = &self.prefixes[left.clone()];
        let suffixes = match self.suffixes.len() == self.prefixes.len() {
            true => &self.suffixes[left.clone()],
            false => &self.suffixes[..prefixes.len()],
        };
        suffixes.iter().copied().zip(prefixes.iter().copied())
    }
}

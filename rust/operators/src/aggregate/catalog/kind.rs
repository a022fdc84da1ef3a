//! A function of any type and its input, in the form that all folds use.

use crate::aggregate::folds::epochs::add::AddRows;
use crate::aggregate::folds::partners::functions::{InPanes, OfPartners};
use crate::aggregate::folds::tables::cell_states::CellStates;
use crate::aggregate::folds::tables::fold::Fold;
use crate::aggregate::inputs::columns::Stream;
use crate::aggregate::inputs::values::WithInput;

/// A function of any type and its input, as used by the passes.
pub(in crate::aggregate) trait AggregateKind:
    Fold + AddRows + OfPartners
{
}

impl<T: Fold + AddRows + OfPartners> AggregateKind for T {}

/// Creates a function over rows from streams.
pub(in crate::aggregate) fn kind_of<'a, F: InPanes, G: CellStates<F> + 'a>(
    streams: &'a [Stream<'a>],
    input: G,
) -> Box<dyn AggregateKind + 'a> {
    Box::new(WithInput::<F, G>::new(streams, input))
}

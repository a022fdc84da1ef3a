//! The fold of one function in the pass over tables. The functions fold a part one after another,
//! while the cells of the part's rows are in the cache.

use std::any::Any;

use super::cell_states::CellStates;
use super::cells::Belongs;
use super::part::TimePart;
use super::slide::{CellStateParts, FunctionStates};
use crate::aggregate::inputs::values::WithInput;
use crate::aggregate::states::functions::Function;

/// The cell states in one part, for a function of any type.
pub(in crate::aggregate) type PartStates = Box<dyn Any + Send>;

/// The steps of the pass over tables, for a function and its input.
pub(in crate::aggregate) trait Fold: Sync {
    /// Returns the states of the cells in a part.
    fn fold(&self, part: &TimePart, belongs: &Belongs<'_>) -> PartStates;

    /// Combines the states that [`fold`](Self::fold) returned for each part.
    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn FunctionStates>;
}

impl<F: Function, G: CellStates<F>> Fold for WithInput<'_, F, G> {
    fn fold(&self, part: &TimePart, belongs: &Belongs<'_>) -> PartStates {
        Box::new(self.input.cells(self.streams, part, belongs))
    }

    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn FunctionStates> {
        let states = |part: PartStates| {
            *part.downcast().expect("all states of a function have the same type")
        };
        Box::new(CellStateParts::<G::OfCells>(parts.into_iter().map(states).collect()))
    }
}

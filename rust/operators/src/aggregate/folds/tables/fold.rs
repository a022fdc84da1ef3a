//! One function in the pass over tables. All functions fold a part, one after the other, while the
//! cells of its rows are in the cache.

use std::any::Any;

use super::cell_states::CellStates;
use super::cells::Belongs;
use super::part::TimePart;
use super::slide::{CellStateParts, FunctionStates};
use crate::aggregate::inputs::values::WithInput;
use crate::aggregate::states::functions::Function;

/// The states of a function's cells in one part, whichever function it is.
pub(in crate::aggregate) type PartStates = Box<dyn Any + Send>;

/// The steps of the pass over tables, for a function and its input.
pub(in crate::aggregate) trait Fold: Sync {
    /// The states of the cells of a part.
    fn fold(&self, part: &TimePart, belongs: &Belongs<'_>) -> PartStates;

    /// Puts together the states that [`fold`](Self::fold) made of each part.
    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn FunctionStates>;
}

impl<F: Function, G: CellStates<F>> Fold for WithInput<'_, F, G> {
    fn fold(&self, part: &TimePart, belongs: &Belongs<'_>) -> PartStates {
        Box::new(self.input.cells(self.streams, part, belongs))
    }

    fn put_together(&self, parts: Vec<PartStates>) -> Box<dyn FunctionStates> {
        let states =
            |part: PartStates| *part.downcast().expect("a function makes states of one type");
        Box::new(CellStateParts::<G::OfCells>(parts.into_iter().map(states).collect()))
    }
}

//! The parts of a bound expression.

use super::bound::{Operation, TypedOperation};

impl TypedOperation {
    /// Returns the expressions to which the operation is applied.
    pub(super) fn operands(&self) -> Vec<&TypedOperation> {
        match &self.operation {
            Operation::Column(_) | Operation::Scalar(_) => Vec::new(),
            Operation::Cast(x)
            | Operation::Field(x, _)
            | Operation::Negate(x)
            | Operation::Abs(x)
            | Operation::Not(x)
            | Operation::IsNull(x)
            | Operation::IsNotNull(x)
            | Operation::Extract(_, x)
            | Operation::Round(_, x)
            | Operation::Match(x, _) => vec![x],
            Operation::Arithmetic(_, operands)
            | Operation::Divide(operands, _)
            | Operation::Turn(_, operands)
            | Operation::End(_, _, operands)
            | Operation::Compare(_, operands)
            | Operation::And(operands)
            | Operation::Or(operands) => operands.iter().collect(),
            Operation::Between(operands) => operands.iter().collect(),
            Operation::In(value, items) => std::iter::once(&**value).chain(items).collect(),
            Operation::Coalesce(values) | Operation::Call(_, values) => values.iter().collect(),
            Operation::Case(branches, otherwise) => {
                let branches = branches.iter().flat_map(|(condition, value)| [condition, value]);
                branches.chain([&**otherwise]).collect()
            }
        }
    }

    fn operands_mut(&mut self) -> Vec<&mut TypedOperation> {
        match &mut self.operation {
            Operation::Column(_) | Operation::Scalar(_) => Vec::new(),
            Operation::Cast(x)
            | Operation::Field(x, _)
            | Operation::Negate(x)
            | Operation::Abs(x)
            | Operation::Not(x)
            | Operation::IsNull(x)
            | Operation::IsNotNull(x)
            | Operation::Extract(_, x)
            | Operation::Round(_, x)
            | Operation::Match(x, _) => vec![x],
            Operation::Arithmetic(_, operands)
            | Operation::Divide(operands, _)
            | Operation::Turn(_, operands)
            | Operation::End(_, _, operands)
            | Operation::Compare(_, operands)
            | Operation::And(operands)
            | Operation::Or(operands) => operands.iter_mut().collect(),
            Operation::Between(operands) => operands.iter_mut().collect(),
            Operation::In(value, items) => std::iter::once(&mut **value).chain(items).collect(),
            Operation::Coalesce(values) | Operation::Call(_, values) => values.iter_mut().collect(),
            Operation::Case(branches, otherwise) => {
                let branches =
                    branches.iter_mut().flat_map(|(condition, value)| [condition, value]);
                branches.chain([&mut **otherwise]).collect()
            }
        }
    }

    /// Adds the slots of all columns that the expression reads.
    pub(super) fn collect_slots(&self, slots: &mut Vec<usize>) {
        if let Operation::Column(slot) = self.operation {
            slots.push(slot);
        }
        self.operands().into_iter().for_each(|operand| operand.collect_slots(slots));
    }

    /// Assigns a new slot to each column.
    pub(super) fn renumber(&mut self, number: &dyn Fn(usize) -> usize) {
        if let Operation::Column(slot) = &mut self.operation {
            *slot = number(*slot);
        }
        self.operands_mut().into_iter().for_each(|operand| operand.renumber(number));
    }
}

//! What a join reads and gives, told before anything runs.

use arrow_schema::SchemaRef;

use super::options::JoinPlan;
use super::output::OutputColumn;
use crate::columns::expression::Origin;

/// The plan of a join of tables whose schemas are known.
#[derive(Clone, Debug)]
pub struct QueryPlan {
    /// What the join would do, for people.
    pub explanation: String,
    /// The schema of the result.
    pub schema: SchemaRef,
    /// The columns that the join reads of the left and of the right table, ascending.
    pub reads: [Vec<usize>; 2],
    /// For each column of the result, the left and the right column of which it is made.
    pub origins: Vec<(Option<usize>, Option<usize>)>,
}

impl QueryPlan {
    /// The plan of a join that compares these pairs of columns beside its keys.
    pub(crate) fn new(explanation: String, join: &JoinPlan, compared: &[(usize, usize)]) -> Self {
        let origin = |column: &OutputColumn| match *column {
            OutputColumn::Left(at) => (Some(at), None),
            OutputColumn::Right(at) => (None, Some(at)),
            OutputColumn::Either(left, right) => (Some(left), Some(right)),
        };
        let origins: Vec<_> = join.columns.iter().map(origin).collect();
        let mut reads = [Vec::new(), Vec::new()];
        reads[0].extend(origins.iter().filter_map(|(left, _)| *left));
        reads[1].extend(origins.iter().filter_map(|(_, right)| *right));
        let keys = join.keys.iter().map(|key| (key.left, key.right));
        for (left, right) in keys.chain(compared.iter().copied()) {
            reads[0].push(left);
            reads[1].push(right);
        }
        if let Some(predicate) = &join.predicate {
            reads[0].extend(predicate.columns(Origin::Left));
            reads[1].extend(predicate.columns(Origin::Right));
        }
        for columns in &mut reads {
            columns.sort_unstable();
            columns.dedup();
        }
        QueryPlan { explanation, schema: join.schema.clone(), reads, origins }
    }
}

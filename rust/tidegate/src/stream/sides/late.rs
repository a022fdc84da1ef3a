//! The late rows of a join. The rows on both sides are in one table.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt16Array, UInt64Array, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use tidegate_operators::rows::{How, Side};

use crate::Result;
use crate::columns::cast::cast;
use crate::columns::keys::KeyColumn;
use crate::columns::time::Unit;
use crate::query::output::{OutputColumn, Shape};
use crate::stream::intake::late::{Late, LateRows};
use crate::stream::intake::sides::SourceSides;

/// The properties of a join's sides that determine the columns of its late rows.
#[derive(Debug)]
pub(in crate::stream) struct LateSides<'a> {
    pub(in crate::stream) schemas: [&'a SchemaRef; 2],
    /// The time column of each side.
    pub(in crate::stream) times: (usize, usize),
    pub(in crate::stream) unit: Unit,
    pub(in crate::stream) keys: &'a [KeyColumn],
    pub(in crate::stream) of_sources: &'a Option<SourceSides>,
}

impl LateSides<'_> {
    /// Returns the columns of late rows: the side, the source, the position, the missed watermark,
    /// optionally the reason, and all columns of a full join.
    fn late_columns(&self, has_reasons: bool) -> Result<(Vec<OutputColumn>, SchemaRef)> {
        let [left, right] = self.schemas;
        let shape = Shape { how: How::Full, keys: self.keys, suffix: "_right", columns: None };
        let (columns, schema) = shape.output(left, right)?;
        let of_late = [
            Field::new("late_side", DataType::Utf8, false),
            Field::new("late_source", DataType::UInt16, false),
            Field::new("late_position", DataType::UInt64, false),
            Field::new("late_watermark", self.watermark_type(), true),
        ];
        let reason = has_reasons.then(|| Field::new("late_reason", DataType::Utf8, false));
        let nullable = |field: &FieldRef| Arc::new(Field::clone(field).with_nullable(true));
        let fields: Vec<FieldRef> = of_late
            .into_iter()
            .chain(reason)
            .map(Arc::new)
            .chain(schema.fields().iter().map(nullable))
            .collect();
        Ok((columns, Arc::new(Schema::new(fields))))
    }

    /// Returns the time type of the side with the finer unit, or `int64` for integers.
    fn watermark_type(&self) -> DataType {
        let [left, right] = [(0, self.times.0), (1, self.times.1)]
            .map(|(side, at): (usize, usize)| self.schemas[side].field(at).clone());
        match self.unit {
            Unit::Integer => DataType::Int64,
            unit if Unit::of("left", &left).is_ok_and(|of_left| of_left == unit) => {
                left.data_type().clone()
            }
            _ => right.data_type().clone(),
        }
    }

    /// Returns the late rows that have not been forgotten, sorted by source and position. Each push
    /// with late rows has its own batch. The columns of the other side are null.
    pub(in crate::stream) fn batches(
        &self,
        late: &LateRows,
    ) -> Result<(Vec<RecordBatch>, SchemaRef)> {
        let (columns, schema) = self.late_columns(late.has_reasons())?;
        let sides = self.of_sources.as_ref().expect("a join's sources have sides");
        let of_rows = schema.fields().len() - columns.len();
        let batch = |late: &Arc<Late>| {
            let rows = late.rows.num_rows();
            let is_left = sides.of(late.source) == Side::Left;
            let side = if is_left { "left" } else { "right" };
            let mut arrays: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from(vec![side; rows])),
                Arc::new(UInt16Array::from(vec![sides.within(late.source); rows])),
                Arc::new(UInt64Array::from(late.positions.clone())),
                cast(&late.missed(), schema.field(3).data_type())?,
            ];
            if of_rows > arrays.len() {
                arrays.push(Arc::new(late.reasons()));
            }
            for (column, field) in columns.iter().zip(&schema.fields()[of_rows..]) {
                let own = match *column {
                    OutputColumn::Left(at) | OutputColumn::Either(at, _) if is_left => Some(at),
                    OutputColumn::Right(at) | OutputColumn::Either(_, at) if !is_left => Some(at),
                    _ => None,
                };
                arrays.push(match own {
                    Some(at) => cast(late.rows.column(at), field.data_type())?,
                    None => new_null_array(field.data_type(), rows),
                });
            }
            Ok(RecordBatch::try_new(schema.clone(), arrays)?)
        };
        let batches = late.kept().iter().map(batch).collect::<Result<_>>()?;
        Ok((batches, schema))
    }
}

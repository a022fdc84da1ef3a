//! Wider dictionary indices. An operator widens narrow indices to 32 bits in the rows that it
//! stores.
//!
//! For example, a pandas categorical with up to 128 values has 8-bit indices. A result with rows
//! from two such batches can have more distinct values than 8-bit indices can address. Dictionary
//! indices are therefore widened when rows are pushed. The original index type is restored when
//! results are emitted, in batches that are short enough to allow this (`stream/operator/mod.rs`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, UInt8Type, UInt16Type,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, RecordBatchOptions, make_array,
};
use arrow_cast::cast;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use tidegate_structures::memory;

use super::dictionary::{ArrowResult, compacted, have_room, of_column};
use super::nested::{children, with_fields};
use super::table::Table;
use crate::Result;

/// Returns the schema with widened indices in all dictionaries.
pub(crate) fn roomy(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(roomy_field).collect::<Fields>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn roomy_field(field: &FieldRef) -> FieldRef {
    let data_type = roomy_type(field.data_type());
    match data_type == *field.data_type() {
        true => field.clone(),
        false => Arc::new(Field::clone(field).with_data_type(data_type)),
    }
}

fn roomy_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(indices, values) if is_narrow(indices) => {
            DataType::Dictionary(Box::new(DataType::Int32), values.clone())
        }
        other => with_fields(other, roomy_field),
    }
}

/// Returns whether an index type can address only relatively few values.
fn is_narrow(indices: &DataType) -> bool {
    matches!(indices, DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16)
}

/// Widens the indices of columns whose dictionaries together have more values than the indices can
/// address. A single dictionary in the result can then hold the values of all chunks and inputs.
/// The code that builds results requires this.
///
/// `shared` lists the input columns that together become one result column, with one name per
/// input.
pub fn with_room(tables: Vec<Table>, shared: &[Vec<&str>]) -> Result<Vec<Table>> {
    let mut wide = vec![Vec::new(); tables.len()];
    let has_narrow = |table: &Table, at: usize| {
        let data_type = table.schema().field(at).data_type();
        roomy_type(data_type) != *data_type
    };
    let data = |(table, at): (usize, usize)| {
        tables[table].chunks(at).iter().map(|chunk| chunk.to_data()).collect::<Vec<_>>()
    };
    let mut check = |columns: Vec<(usize, usize)>| {
        let chunks: Vec<_> = columns.iter().flat_map(|&column| data(column)).collect();
        // Columns of different types become one column of another type, which has no small indices.
        let are_alike = chunks.windows(2).all(|pair| pair[0].data_type() == pair[1].data_type());
        if are_alike && !have_room(&chunks) {
            columns.into_iter().for_each(|(table, at)| wide[table].push(at));
        }
    };
    for (number, table) in tables.iter().enumerate() {
        let narrow = (0..table.schema().fields().len()).filter(|&at| has_narrow(table, at));
        narrow.for_each(|at| check(vec![(number, at)]));
    }
    for names in shared {
        let place = |(number, name): (usize, &&str)| {
            Some((number, tables[number].schema().index_of(name).ok()?))
        };
        let columns: Vec<_> = names.iter().enumerate().filter_map(place).collect();
        if columns.iter().any(|&(number, at)| has_narrow(&tables[number], at)) {
            check(columns);
        }
    }
    let with = |(table, wide): (Table, Vec<usize>)| match wide.is_empty() {
        true => Ok(table),
        false => widened_columns(&table, &wide),
    };
    tables.into_iter().zip(wide).map(with).collect()
}

fn widened_columns(table: &Table, wide: &[usize]) -> Result<Table> {
    let field = |(at, field): (usize, &FieldRef)| match wide.contains(&at) {
        true => roomy_field(field),
        false => field.clone(),
    };
    let fields = table.schema().fields().iter().enumerate().map(field).collect::<Fields>();
    let schema = Arc::new(Schema::new_with_metadata(fields, table.schema().metadata().clone()));
    let batches = table.batches().iter().map(|batch| with_indices(batch, &schema));
    let wide = Table::of_valid(table.name(), schema.clone(), batches.collect::<Result<_>>()?)?;
    Ok(wide.with_prepared(table.prepared().cloned()))
}

/// Returns the rows with the index types of `schema`. The schema of the rows must otherwise be the
/// same as `schema`. Returns a schema error if an index type is too narrow for a dictionary.
pub(crate) fn with_indices(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |(array, field): (&ArrayRef, &FieldRef)| {
        if array.data_type() == field.data_type() {
            return Ok(array.clone());
        }
        memory::demand(array.get_array_memory_size());
        let made = recoded(array.to_data(), field.data_type());
        made.map(make_array).map_err(|error| of_column(field.name(), error))
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column);
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

fn recoded(data: ArrayData, to: &DataType) -> ArrowResult<ArrayData> {
    if data.data_type() == to {
        return Ok(data);
    }
    if let DataType::Dictionary(indices, _) = to {
        let array = make_array(data);
        return match **indices {
            DataType::Int8 => narrowed::<Int8Type>(&array),
            DataType::UInt8 => narrowed::<UInt8Type>(&array),
            DataType::Int16 => narrowed::<Int16Type>(&array),
            DataType::UInt16 => narrowed::<UInt16Type>(&array),
            _ => widened(&array),
        };
    }
    let parts = data.child_data().iter().zip(children(to));
    let parts =
        parts.map(|(part, to)| recoded(part.clone(), to)).collect::<ArrowResult<Vec<_>>>()?;
    data.into_builder().data_type(to.clone()).child_data(parts).build()
}

/// Returns the dictionary with 32-bit indices.
fn widened(array: &ArrayRef) -> ArrowResult<ArrayData> {
    let dictionary = array.as_any_dictionary();
    let keys = cast(dictionary.keys(), &DataType::Int32)?;
    let keys = keys.as_primitive::<Int32Type>().clone();
    Ok(DictionaryArray::try_new(keys, dictionary.values().clone())?.into_data())
}

/// Returns the dictionary with narrower indices. All values are kept if the narrower indices can
/// address them. Otherwise, only the values that the rows use are kept.
fn narrowed<K: ArrowDictionaryKeyType>(array: &ArrayRef) -> ArrowResult<ArrayData> {
    let dictionary = array.as_dictionary::<Int32Type>();
    let keys = cast(dictionary.keys(), &K::DATA_TYPE)?;
    if keys.null_count() == dictionary.keys().null_count() {
        let keys: PrimitiveArray<K> = keys.as_primitive::<K>().clone();
        return Ok(DictionaryArray::try_new(keys, dictionary.values().clone())?.into_data());
    }
    compacted::<K>(dictionary)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray, StructArray};

    use super::*;

    /// Returns rows that have a dictionary with 8-bit indices, both as a column and in a struct.
    fn rows(from: usize, to: usize) -> RecordBatch {
        let values: StringArray = (from..to).map(|at| Some(format!("v{at}"))).collect();
        let keys = PrimitiveArray::<Int8Type>::from_iter_values(0..(to - from) as i8);
        let words: ArrayRef = Arc::new(DictionaryArray::try_new(keys, Arc::new(values)).unwrap());
        let field = Arc::new(Field::new("word", words.data_type().clone(), true));
        let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, words.clone())]));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter(0..(to - from) as i64));
        RecordBatch::try_from_iter([("n", numbers), ("word", words), ("nested", nested)]).unwrap()
    }

    #[test]
    fn rows_come_back_as_they_were_where_their_values_have_indices() {
        let parts = [rows(0, 100), rows(100, 200)];
        let schema = parts[0].schema();
        let wide = roomy(&schema);
        assert_eq!(roomy(&wide), wide);
        let wider = parts.each_ref().map(|part| with_indices(part, &wide).unwrap());
        assert_eq!(with_indices(&wider[0], &schema).unwrap(), parts[0]);
        let all = arrow_select::concat::concat_batches(&wide, &wider).unwrap();
        let error = with_indices(&all, &schema).unwrap_err();
        assert!(error.is_schema() && error.message().starts_with("column `word`"), "{error}");
        let found = with_indices(&all.slice(100, 100), &schema).unwrap();
        let text = |column: &ArrayRef| cast(column, &DataType::Utf8).unwrap();
        let inner = |batch: &RecordBatch| text(batch.column(2).as_struct().column(0));
        assert_eq!(*text(found.column(1)), *text(parts[1].column(1)));
        assert_eq!(*inner(&found), *inner(&parts[1]));
    }
}

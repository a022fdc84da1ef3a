//! Data that arrow-rs exports is imported unchanged, even in layouts that few producers use. Python
//! tests check that malformed structures are rejected: `test_malformed_arrow.py` sets every field
//! to every kind of bad value.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "data that arrow-rs exports conforms to the interface"
)]

use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Int64Array, ListArray, NullArray,
    RecordBatch, RecordBatchIterator, StringArray, StringViewArray, StructArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use tidegate_import::{Error, Result, UnopenedStream, UnreadBatch};

fn columns() -> Vec<ArrayRef> {
    let words: DictionaryArray<Int32Type> = ["a", "b", "a", "c"].into_iter().collect();
    vec![
        Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)])),
        Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)])),
        Arc::new(StringArray::from(vec![
            Some("é"),
            None,
            Some(""),
            Some("long enough for a view's own buffer"),
        ])),
        Arc::new(BinaryArray::from(vec![&b"\xff"[..], b"", b"x", b"yz"])),
        Arc::new(StringViewArray::from(vec![
            Some("é"),
            None,
            Some("long enough for a view's own buffer"),
            Some(""),
        ])),
        Arc::new(words),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![]),
            Some(vec![Some(2)]),
        ])),
        Arc::new(NullArray::new(4)),
    ]
}

fn schema_of(columns: &[ArrayRef]) -> SchemaRef {
    let field = |(at, column): (usize, &ArrayRef)| {
        Field::new(format!("c{at}"), column.data_type().clone(), true)
    };
    Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()))
}

fn rows() -> RecordBatch {
    let columns = columns();
    RecordBatch::try_new(schema_of(&columns), columns).unwrap()
}

fn exported(rows: &RecordBatch) -> (FFI_ArrowSchema, FFI_ArrowArray) {
    let array = FFI_ArrowArray::new(&StructArray::from(rows.clone()).to_data());
    (FFI_ArrowSchema::try_from(&*rows.schema()).unwrap(), array)
}

fn imported(mut schema: FFI_ArrowSchema, mut array: FFI_ArrowArray) -> Result<RecordBatch> {
    let taken =
        unsafe { UnreadBatch::take(NonNull::from(&mut schema), NonNull::from(&mut array)) }?;
    let again = unsafe { UnreadBatch::take(NonNull::from(&mut schema), NonNull::from(&mut array)) };
    assert!(matches!(again, Err(Error::Released)));
    let schema = taken.schema();
    // Read on a different thread from the one that took over the rows.
    let rows = std::thread::spawn(|| taken.read()).join().unwrap()?;
    assert_eq!(rows.schema(), schema);
    Ok(rows)
}

fn came_back(rows: &RecordBatch) {
    let (schema, array) = exported(rows);
    assert_eq!(imported(schema, array).unwrap(), *rows);
}

/// Returns the structure of a column.
fn column(array: &mut FFI_ArrowArray, at: usize) -> &mut FFI_ArrowArray {
    unsafe { &mut **array.children.add(at) }
}

#[test]
fn batches_come_back() {
    came_back(&rows());
    for start in 0..=4 {
        for length in 0..=4 - start {
            came_back(&rows().slice(start, length));
        }
    }
}

#[test]
fn columns_alone_and_none_at_all() {
    for column in columns() {
        came_back(
            &RecordBatch::try_new(schema_of(std::slice::from_ref(&column)), vec![column]).unwrap(),
        );
    }
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(3));
    came_back(
        &RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap(),
    );
}

#[test]
fn offsets_that_are_not_aligned_are_copied() {
    for at in [2, 3, 6] {
        let (schema, mut array) = exported(&rows());
        let offsets = unsafe { column(&mut array, at).buffers.add(1) };
        let mut bytes = vec![0_u8; 40];
        let place = bytes.as_ptr().align_offset(8) + 1;
        unsafe { bytes.as_mut_ptr().add(place).copy_from_nonoverlapping((*offsets).cast(), 20) };
        unsafe { *offsets = bytes.as_ptr().add(place).cast() };
        assert_eq!(imported(schema, array).unwrap(), rows());
    }
}

#[test]
fn nothing_need_be_there_for_no_rows() {
    let (schema, mut array) = exported(&rows().slice(0, 0));
    // Views are left out, because their lengths belong to buffers rather than to rows.
    for at in [0, 1, 2, 3, 5, 6, 7] {
        let column = column(&mut array, at);
        for buffer in 0..column.n_buffers as usize {
            unsafe { *column.buffers.add(buffer) = null() };
        }
    }
    assert_eq!(imported(schema, array).unwrap(), rows().slice(0, 0));
}

#[test]
fn a_column_of_nulls_may_have_a_buffer() {
    let (schema, mut array) = exported(&rows());
    let mut buffers = [null()];
    let nulls = column(&mut array, 7);
    let (n_buffers, pointers) = (nulls.n_buffers, nulls.buffers);
    (nulls.n_buffers, nulls.buffers) = (1, buffers.as_mut_ptr());
    let found = imported(schema, array).unwrap();
    assert_eq!((found, n_buffers, pointers.is_null()), (rows(), 0, false));
}

#[test]
fn nulls_are_counted() {
    for lie in [-1, 0, 2, 4] {
        let (schema, mut array) = exported(&rows());
        column(&mut array, 0).null_count = lie;
        assert_eq!(imported(schema, array).unwrap().column(0).null_count(), 1);
    }
}

#[test]
fn what_is_longer_than_its_parent_is_cut() {
    let (schema, mut array) = exported(&rows());
    array.length = 2;
    column(&mut array, 2).length = 1 << 39;
    assert_eq!(imported(schema, array).err(), None);
}

#[test]
fn released_structures_are_told() {
    let (schema, _array) = exported(&rows());
    assert_eq!(imported(schema, FFI_ArrowArray::empty()), Err(Error::Released));
    let (_schema, array) = exported(&rows());
    assert_eq!(imported(FFI_ArrowSchema::empty(), array), Err(Error::Released));
}

#[test]
fn a_column_is_no_batch() {
    let column = Int64Array::from(vec![1]);
    let array = FFI_ArrowArray::new(&column.to_data());
    let schema = FFI_ArrowSchema::try_from(&DataType::Int64).unwrap();
    assert_eq!(imported(schema, array), Err(Error::NoRows(DataType::Int64)));
}

#[test]
fn a_missing_child_is_told_by_its_name() {
    let (schema, mut array) = exported(&rows());
    // The children are in a separate list, since the exporter releases its children through its own
    // list.
    let mut children: Vec<_> = (0..8).map(|at| unsafe { *array.children.add(at) }).collect();
    children[3] = null_mut();
    array.children = children.as_mut_ptr();
    let text = imported(schema, array).unwrap_err().to_string();
    assert_eq!(text, "column `c3` holds malformed Arrow data: a child is a null pointer");
}

fn opened(batches: Vec<Result<RecordBatch, ArrowError>>) -> tidegate_import::ArrowStream {
    let reader = RecordBatchIterator::new(batches, rows().schema());
    let mut stream = FFI_ArrowArrayStream::new(Box::new(reader));
    let taken = unsafe { UnopenedStream::take(NonNull::from(&mut stream)) }.unwrap();
    assert!(matches!(
        unsafe { UnopenedStream::take(NonNull::from(&mut stream)) },
        Err(Error::Released)
    ));
    taken.open().unwrap()
}

#[test]
fn streams_come_back() {
    let mut stream = opened(vec![Ok(rows()), Ok(rows().slice(1, 2))]);
    assert_eq!(stream.schema(), rows().schema());
    assert_eq!(stream.next_batch(), Ok(Some(rows())));
    assert_eq!(stream.next_batch(), Ok(Some(rows().slice(1, 2))));
    assert_eq!((stream.next_batch(), stream.next_batch()), (Ok(None), Ok(None)));
}

#[test]
fn a_stream_ends_with_its_error() {
    let mut stream = opened(vec![Err(ArrowError::ComputeError("no disk".into())), Ok(rows())]);
    let text = stream.next_batch().unwrap_err().to_string();
    assert_eq!(text, "reading the Arrow stream failed: Compute error: no disk (error code 22)");
    assert_eq!(stream.next_batch(), Ok(None));
}

//! Arrays: the check makes a copy of the structures, and arrow-rs reads the copy.
//!
//! The copy has the needed lengths and no more, and leaves the nulls to be counted. Memory that
//! arrow-rs reads before it aligns is the copy's own. The copy keeps the exported array, and with
//! it the producer's memory.

use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{ArrowError, DataType, SchemaRef, UnionMode};

use crate::caught;
use crate::error::{Error, Result, What};
use crate::node::{MAX_DEPTH, Node};
use crate::schema::schema as schema_of;

mod buffers;

/// The most elements of an array: a bit each would be 128 GiB. More are a number that was never
/// counted.
const MAX_LENGTH: i64 = 1 << 40;

/// The most rows of a batch, whose numbers have 32 bits.
const MAX_ROWS: i64 = u32::MAX as i64;

/// A record batch that was taken over. Its schema was read, and its rows were not.
#[derive(Debug)]
pub struct UnreadBatch {
    array: FFI_ArrowArray,
    schema: SchemaRef,
}

impl UnreadBatch {
    /// Takes over an array of structs. What `array` points to is a released array then.
    ///
    /// # Safety
    ///
    /// `schema` is as for [`schema`](crate::schema). `array` points to an initialised structure that
    /// nobody else uses meanwhile. It was either released, or each of its pointers that is not null
    /// points to what Arrow's C data interface says, and stays until the array is released, by
    /// any thread.
    pub unsafe fn take(
        schema: NonNull<FFI_ArrowSchema>,
        array: NonNull<FFI_ArrowArray>,
    ) -> Result<Self> {
        // SAFETY: as this function's.
        let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
        if array.release.is_none() {
            return Err(Error::Released);
        }
        // SAFETY: as this function's.
        let schema = unsafe { schema_of(schema)? };
        Ok(UnreadBatch { array, schema })
    }

    /// The schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Checks the structures and the values, and reads the rows.
    pub fn read(self) -> Result<RecordBatch> {
        let data_type = DataType::Struct(self.schema.fields().clone());
        // SAFETY: as for `take`; the array was not released.
        unsafe { import(self.array, &self.schema, &data_type) }
    }
}

/// A record batch of an array of `data_type`, which is a struct of the fields of `schema`.
///
/// # Safety
///
/// As for the array of [`UnreadBatch::take`], which was not released.
pub(crate) unsafe fn import(
    array: FFI_ArrowArray,
    schema: &SchemaRef,
    data_type: &DataType,
) -> Result<RecordBatch> {
    let rows = array.length;
    if rows > MAX_ROWS {
        return Err(Error::malformed(
            None,
            format!(
                "a batch has {rows} rows, more than the {MAX_ROWS} that it may have; send smaller \
                 batches"
            ),
        ));
    }
    let mut kept = Box::new(ArrayCopy { exported: array, ..ArrayCopy::default() });
    let exported: *const FFI_ArrowArray = &raw const kept.exported;
    // SAFETY: as this function's.
    let mut copy = unsafe { kept.copy(exported, data_type, ElementCount::All, &Node::root())? };
    copy.release = Some(release_kept);
    copy.private_data = Box::into_raw(kept).cast();
    caught(|| {
        // SAFETY: the copy is an array of this type as the C data interface says, as far as it can
        // be checked.
        let data = unsafe { from_ffi_and_data_type(copy, data_type.clone()) };
        let invalid = |error: ArrowError| {
            Error::malformed(None, What::Typed(error.to_string(), data_type.clone()))
        };
        let data = data.map_err(invalid)?;
        for (field, column) in schema.fields().iter().zip(data.child_data()) {
            let name = || Some(field.name().clone());
            column.validate().map_err(|error| {
                let what = What::Typed(error.to_string(), field.data_type().clone());
                Error::malformed(name(), what)
            })?;
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(Error::malformed(
                    name(),
                    "it has null values, but its schema declares it to have none",
                ));
            }
        }
        let rows = StructArray::from(data);
        if let Some(nulls) = rows.nulls().filter(|nulls| nulls.null_count() > 0) {
            let row = (0..nulls.len()).find(|&row| nulls.is_null(row)).unwrap_or(0);
            return Err(Error::malformed(
                None,
                format!("row {row} is null as a whole; make its columns null"),
            ));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(schema.clone(), rows.into_parts().1, &options)
            .map_err(invalid)
    })
}

/// What the copy of an array is made of, and the array as it was exported.
struct ArrayCopy {
    exported: FFI_ArrowArray,
    /// Each in a box of its own, so that none moves while others come.
    #[allow(clippy::vec_box, reason = "pointers to them are kept")]
    arrays: Vec<Box<FFI_ArrowArray>>,
    children: Vec<Box<[*mut FFI_ArrowArray]>>,
    buffers: Vec<Box<[*const c_void]>>,
    /// Memory in place of the producer's, in words, so that it is aligned.
    memory: Vec<Box<[i64]>>,
}

impl Default for ArrayCopy {
    fn default() -> Self {
        ArrayCopy {
            exported: FFI_ArrowArray::empty(),
            arrays: Vec::new(),
            children: Vec::new(),
            buffers: Vec::new(),
            memory: Vec::new(),
        }
    }
}

/// Either calls the function that releases a producer's memory or leaks that memory.
type Release = fn(&mut dyn FnMut());

static RELEASE: OnceLock<Release> = OnceLock::new();

/// Installs `release`, which decides whether producers' memory is released. It must either call the
/// function that it receives or leak the memory, because a producer may depend on something that is
/// shutting down. Only the first call has an effect.
pub fn release_through(release: Release) {
    _ = RELEASE.set(release);
}

fn release(kept: Box<ArrayCopy>) {
    let Some(through) = RELEASE.get() else { return drop(kept) };
    let mut kept = Some(kept);
    through(&mut || drop(kept.take()));
    std::mem::forget(kept);
}

/// # Safety
///
/// The array's private data must be an `ArrayCopy` that was turned into a raw pointer. It must not
/// be used afterwards.
unsafe extern "C" fn release_kept(array: *mut FFI_ArrowArray) {
    // SAFETY: as this function's.
    let kept = unsafe { Box::from_raw((*array).private_data.cast::<ArrayCopy>()) };
    release(kept);
    // SAFETY: a consumer that releases an array may write to it.
    unsafe { (*array).release = None };
}

/// How many elements of an array are looked at.
#[derive(Clone, Copy, Debug)]
enum ElementCount {
    All,
    /// So many, which must be there.
    Exactly(i64),
    /// So many, if they are there.
    AtMost(i64),
}

impl ArrayCopy {
    /// A copy of an array that is of `data_type`, as far as it is needed.
    ///
    /// # Safety
    ///
    /// The pointer is null or points to an array as in [`UnreadBatch::take`].
    unsafe fn copy(
        &mut self,
        array: *const FFI_ArrowArray,
        data_type: &DataType,
        needed: ElementCount,
        node: &Node<'_>,
    ) -> Result<FFI_ArrowArray> {
        // SAFETY: a pointer that is not null points to an array.
        let Some(array) = (unsafe { array.as_ref() }) else {
            return Err(Error::at(node, "a child is a null pointer"));
        };
        if array.release.is_none() {
            return Err(Error::at(node, "a child was released"));
        }
        let mut copy = checked_extent(array, needed, node)?;
        // SAFETY: as this function's.
        let items = unsafe { self.copy_buffers(array, &mut copy, data_type, node)? };
        let end = copy.length + copy.offset;
        let children = expected_children(data_type, end, items, node)?;
        if array.n_children != children.len() as i64 {
            let (given, expected) = (array.n_children, children.len());
            return Err(match node.path() {
                None => Error::at(
                    node,
                    format!("the schema has {expected} columns, n_children is {given}"),
                ),
                Some(_) => Error::of_type(
                    node,
                    data_type,
                    &format!("has {expected} children, n_children is {given}"),
                ),
            });
        }
        if !children.is_empty() && array.children.is_null() {
            return Err(Error::at(node, "the list of children is a null pointer"));
        }
        let mut pointers = Vec::with_capacity(children.len());
        for (at, (name, data_type, needed)) in children.into_iter().enumerate() {
            // SAFETY: the list has as many pointers as the structure says.
            let child = unsafe { array.children.add(at).read_unaligned() };
            // SAFETY: as this function's.
            let child = unsafe { self.copy(child, data_type, needed, &node.child(name))? };
            pointers.push(self.keep(child));
        }
        (copy.n_children, copy.children) = (pointers.len() as i64, self.keep_children(pointers));
        match (data_type, array.dictionary.is_null()) {
            (DataType::Dictionary(codes, values), false) => {
                let node = node.child("dictionary");
                // No code reaches further.
                let most =
                    codes.primitive_width().and_then(|bytes| 1_i64.checked_shl(8 * bytes as u32));
                let needed = most.map_or(ElementCount::All, ElementCount::AtMost);
                // SAFETY: as this function's.
                let values = unsafe { self.copy(array.dictionary, values, needed, &node)? };
                copy.dictionary = self.keep(values);
            }
            (DataType::Dictionary(..), true) => {
                return Err(Error::at(node, "the dictionary is a null pointer"));
            }
            (_, false) => {
                let what = "has no dictionary, but one is given";
                return Err(Error::of_type(node, data_type, what));
            }
            (_, true) => {}
        }
        Ok(copy)
    }

    fn keep(&mut self, array: FFI_ArrowArray) -> *mut FFI_ArrowArray {
        self.arrays.push(Box::new(array));
        &raw mut **self.arrays.last_mut().expect("one was added")
    }

    fn keep_children(&mut self, pointers: Vec<*mut FFI_ArrowArray>) -> *mut *mut FFI_ArrowArray {
        self.children.push(pointers.into());
        self.children.last_mut().expect("one was added").as_mut_ptr()
    }
}

/// An array without memory, of the length and the offset of `array`, or of the length that is
/// needed.
fn checked_extent(
    array: &FFI_ArrowArray,
    needed: ElementCount,
    node: &Node<'_>,
) -> Result<FFI_ArrowArray> {
    let FFI_ArrowArray { length, offset, null_count, .. } = *array;
    let wrong = |what: String| Err(Error::at(node, what));
    if node.is_too_deep() {
        return wrong(format!("it has more than {MAX_DEPTH} levels"));
    }
    if !(0..=MAX_LENGTH).contains(&length)
        || !(0..=MAX_LENGTH).contains(&offset)
        || length + offset > MAX_LENGTH
    {
        return wrong(format!(
            "the length is {length} and the offset is {offset}; both must be from 0 to {MAX_LENGTH}"
        ));
    }
    if !(-1..=length).contains(&null_count) {
        return wrong(format!("null_count is {null_count} of {length} elements"));
    }
    let length = match needed {
        ElementCount::All => length,
        ElementCount::AtMost(most) => length.min(most),
        ElementCount::Exactly(needed) if needed <= length => needed,
        ElementCount::Exactly(needed) => {
            return wrong(format!("it has {length} elements, and its parent needs {needed}"));
        }
    };
    // No element is looked at where there is none.
    let offset = if length == 0 { 0 } else { offset };
    Ok(FFI_ArrowArray {
        length,
        // Nulls are counted, so that nobody has to believe a number.
        null_count: -1,
        offset,
        n_buffers: 0,
        n_children: 0,
        buffers: null_mut(),
        children: null_mut(),
        dictionary: null_mut(),
        release: None,
        private_data: null_mut(),
    })
}

type Child<'a> = (&'a str, &'a DataType, ElementCount);

/// The children of an array whose last element ends at `end`, and what is needed of each. The last
/// offset of a list is that of its `items`.
fn expected_children<'a>(
    data_type: &'a DataType,
    end: i64,
    items: Option<i64>,
    node: &Node<'_>,
) -> Result<Vec<Child<'a>>> {
    let all = ElementCount::All;
    Ok(match data_type {
        DataType::Struct(fields) => fields
            .iter()
            .map(|field| (field.name().as_str(), field.data_type(), ElementCount::Exactly(end)))
            .collect(),
        DataType::Union(fields, mode) => {
            let needed = if *mode == UnionMode::Sparse { ElementCount::Exactly(end) } else { all };
            fields
                .iter()
                .map(|(_, field)| (field.name().as_str(), field.data_type(), needed))
                .collect()
        }
        DataType::FixedSizeList(field, size) => {
            let Some(needed) = end.checked_mul(i64::from(*size)) else {
                return Err(Error::at(
                    node,
                    format!("{end} lists of {size} items have too many items"),
                ));
            };
            vec![(field.name(), field.data_type(), ElementCount::Exactly(needed))]
        }
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            vec![(field.name(), field.data_type(), items.map_or(all, ElementCount::Exactly))]
        }
        DataType::ListView(field) | DataType::LargeListView(field) => {
            vec![(field.name(), field.data_type(), all)]
        }
        DataType::RunEndEncoded(run_ends, values) => {
            vec![
                (run_ends.name(), run_ends.data_type(), all),
                (values.name(), values.data_type(), all),
            ]
        }
        _ => Vec::new(),
    })
}

/// A pointer that reads nothing.
const NOTHING: *const c_void = null();

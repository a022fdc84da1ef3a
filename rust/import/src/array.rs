//! Checks arrays and copies their structures. arrow-rs then reads only the copies.
//!
//! The copy has exactly the required lengths. The copy's null count is unset, so arrow-rs computes
//! the count. If arrow-rs reads a buffer before it checks the alignment, the copy has its own
//! aligned version of the buffer. The copy keeps the exported array and the producer's memory
//! alive.

use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{ArrowError, DataType, SchemaRef, UnionMode};

use crate::caught;
use crate::error::{Error, Result, What};
use crate::node::{MAX_DEPTH, Node};
use crate::schema::schema as schema_of;

mod buffers;

/// The maximum number of elements in an array. Even with one bit per element, an array of this
/// length would take 128 GiB. No real array is longer.
const MAX_LENGTH: i64 = 1 << 40;

/// The maximum number of rows in a batch, because row numbers have 32 bits.
const MAX_ROWS: i64 = u32::MAX as i64;

/// A record batch taken over from its producer. The schema has been read, but the rows have not.
#[derive(Debug)]
pub struct UnreadBatch {
    array: FFI_ArrowArray,
    schema: SchemaRef,
}

impl UnreadBatch {
    /// Takes over an array of structs. After the call, `array` points to a released array.
    ///
    /// # Safety
    ///
    /// `schema` must meet the requirements of the [`schema`](crate::schema) function. `array` must
    /// point to an initialised structure that nothing else uses during the call. Unless the array
    /// has been released, each of its non-null pointers must point to the data that Arrow's C data
    /// interface specifies. The data must stay valid on all threads until the array is released.
    pub unsafe fn take(
        schema: NonNull<FFI_ArrowSchema>,
        array: NonNull<FFI_ArrowArray>,
    ) -> Result<Self> {
        // SAFETY: the caller upholds the contract of this function.
        let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
        if array.release.is_none() {
            return Err(Error::Released);
        }
        // SAFETY: the caller upholds the contract of this function.
        let schema = unsafe { schema_of(schema)? };
        Ok(UnreadBatch { array, schema })
    }

    /// Returns the schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Checks the structures and the values, and reads the rows.
    pub fn read(self) -> Result<RecordBatch> {
        let data_type = DataType::Struct(self.schema.fields().clone());
        // SAFETY: the caller of `take` has guaranteed this; the array has not been released.
        unsafe { import(self.array, &self.schema, &data_type) }
    }
}

/// Creates a record batch from an array of type `data_type`, which is a struct with the fields of
/// `schema`.
///
/// # Safety
///
/// The array must meet the requirements of [`UnreadBatch::take`], and must not have been released.
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
                "a batch has {rows} rows, more than the maximum of {MAX_ROWS}; send smaller batches"
            ),
        ));
    }
    let mut kept = Box::new(ArrayCopy { exported: array, ..ArrayCopy::default() });
    let exported: *const FFI_ArrowArray = &raw const kept.exported;
    // SAFETY: the caller upholds the contract of this function.
    let mut copy = unsafe { kept.copy(exported, data_type, ElementCount::All, &Node::root())? };
    copy.release = Some(release_kept);
    copy.private_data = Box::into_raw(kept).cast();
    caught(|| {
        // SAFETY: the copy is an array of this type according to the C data interface. Everything
        // that can be checked has been checked.
        let data = unsafe { from_ffi_and_data_type(copy, data_type.clone()) };
        let invalid = |error: ArrowError| {
            Error::malformed(None, What::Typed(error.to_string(), data_type.clone()))
        };
        let data = data.map_err(invalid)?;
        let rows = data.len();
        let data = rebased(data, 0, rows);
        for (field, column) in schema.fields().iter().zip(data.child_data()) {
            let name = || Some(field.name().clone());
            column.validate().map_err(|error| {
                let what = What::Typed(error.to_string(), field.data_type().clone());
                Error::malformed(name(), what)
            })?;
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(Error::malformed(
                    name(),
                    "it has null values, but its schema declares it as non-nullable",
                ));
            }
        }
        let rows = StructArray::from(data);
        if let Some(nulls) = rows.nulls().filter(|nulls| nulls.null_count() > 0) {
            let row = (0..nulls.len()).find(|&row| nulls.is_null(row)).unwrap_or(0);
            return Err(Error::malformed(
                None,
                format!("row {row} itself is null; set its columns to null instead"),
            ));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(schema.clone(), rows.into_parts().1, &options)
            .map_err(invalid)
    })
}

/// Returns some elements of an array. In the result, structs, fixed-size lists and sparse unions have
/// an offset of 0.
///
/// [`ArrayData::slice`] slices the children of a struct but also adds to the offset of the struct, so
/// that arrow-rs would slice the children twice.
fn rebased(data: ArrayData, start: usize, len: usize) -> ArrayData {
    if data.child_data().is_empty() {
        return if len == data.len() { data } else { data.slice(start, len) };
    }
    let first = data.offset() + start;
    // The number of child elements per element, if children have a fixed number.
    let width = match data.data_type() {
        DataType::Struct(_) | DataType::Union(_, UnionMode::Sparse) => Some(1),
        DataType::FixedSizeList(_, size) => usize::try_from(*size).ok(),
        _ => None,
    };
    let child = |child: &ArrayData| match width {
        Some(width) => rebased(child.clone(), first * width, len * width),
        None => rebased(child.clone(), 0, child.len()),
    };
    let children = data.child_data().iter().map(child).collect();
    let nulls = data.nulls().map(|nulls| nulls.slice(start, len));
    // One-byte type numbers of a union; structs and fixed-size lists have no buffers.
    let buffers = || data.buffers().iter().map(|ids| ids.slice_with_length(first, len)).collect();
    let builder = match width {
        Some(_) => ArrayDataBuilder::new(data.data_type().clone()).buffers(buffers()),
        None => ArrayDataBuilder::new(data.data_type().clone())
            .buffers(data.buffers().to_vec())
            .offset(first),
    };
    // SAFETY: the elements are those of a valid array, and each child has the elements that its
    // parent refers to.
    unsafe { builder.len(len).nulls(nulls).child_data(children).build_unchecked() }
}

/// The parts of a copied array, together with the original array.
struct ArrayCopy {
    exported: FFI_ArrowArray,
    /// Each array has its own box, so adding an array does not move the others.
    #[allow(clippy::vec_box, reason = "pointers to the arrays are kept")]
    arrays: Vec<Box<FFI_ArrowArray>>,
    children: Vec<Box<[*mut FFI_ArrowArray]>>,
    buffers: Vec<Box<[*const c_void]>>,
    /// Aligned memory that replaces the producer's, allocated as words.
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

/// A function that receives the callback for releasing a producer's memory. The function either
/// calls the callback or leaks the memory.
type Release = fn(&mut dyn FnMut());

static RELEASE: OnceLock<Release> = OnceLock::new();

/// Installs `release`, which decides whether a producer's memory is released. `release` must either
/// call the function that it receives or leak the memory. Memory is leaked if its producer depends
/// on something that is shutting down. Only the first call to this function has an effect.
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
/// The array's private data must be an `ArrayCopy` that was converted into a raw pointer. The array
/// must not be used after this call.
unsafe extern "C" fn release_kept(array: *mut FFI_ArrowArray) {
    // SAFETY: the caller upholds the contract of this function.
    let kept = unsafe { Box::from_raw((*array).private_data.cast::<ArrayCopy>()) };
    release(kept);
    // SAFETY: a consumer that releases an array may write to it.
    unsafe { (*array).release = None };
}

/// The number of array elements to read.
#[derive(Clone, Copy, Debug)]
enum ElementCount {
    All,
    /// Exactly this number. It is an error if the array has fewer elements.
    Exactly(i64),
    /// At most this number. The array can have fewer elements.
    AtMost(i64),
}

impl ArrayCopy {
    /// Copies the required elements from an array of type `data_type`.
    ///
    /// # Safety
    ///
    /// The pointer must be null, or point to an array that meets the requirements of
    /// [`UnreadBatch::take`].
    unsafe fn copy(
        &mut self,
        array: *const FFI_ArrowArray,
        data_type: &DataType,
        needed: ElementCount,
        node: &Node<'_>,
    ) -> Result<FFI_ArrowArray> {
        // SAFETY: a non-null pointer points to an array.
        let Some(array) = (unsafe { array.as_ref() }) else {
            return Err(Error::at(node, "a child is a null pointer"));
        };
        if array.release.is_none() {
            return Err(Error::at(node, "a child was released"));
        }
        let mut copy = checked_extent(array, needed, node)?;
        // SAFETY: the caller upholds the contract of this function.
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
            // SAFETY: the list has as many pointers as the structure states.
            let child = unsafe { array.children.add(at).read_unaligned() };
            // SAFETY: the caller upholds the contract of this function.
            let child = unsafe { self.copy(child, data_type, needed, &node.child(name))? };
            pointers.push(self.keep(child));
        }
        (copy.n_children, copy.children) = (pointers.len() as i64, self.keep_children(pointers));
        match (data_type, array.dictionary.is_null()) {
            (DataType::Dictionary(codes, values), false) => {
                let node = node.child("dictionary");
                // All dictionary codes are less than this number.
                let most =
                    codes.primitive_width().and_then(|bytes| 1_i64.checked_shl(8 * bytes as u32));
                let needed = most.map_or(ElementCount::All, ElementCount::AtMost);
                // SAFETY: the caller upholds the contract of this function.
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

/// Returns an array without buffers. The result has the same offset as `array`, and either the same
/// length or the required length.
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
            return wrong(format!("it has {length} elements, but its parent needs {needed}"));
        }
    };
    // An empty array has no element to read.
    let offset = if length == 0 { 0 } else { offset };
    Ok(FFI_ArrowArray {
        length,
        // Nulls are counted later, so the producer's count does not have to be trusted.
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

/// Returns the children of an array that ends at `end`, and the number of elements needed from each
/// child. For a list, the number of items needed is its last offset.
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
                    format!("{end} lists of {size} items have too many items in total"),
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

/// A pointer that is never dereferenced.
const NOTHING: *const c_void = null();

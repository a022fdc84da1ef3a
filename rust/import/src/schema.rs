//! Checks schemas. The structure is checked first, so that arrow-rs can read it. The types are
//! checked last.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use crate::caught;
use crate::error::{Error, Result};
use crate::node::{MAX_DEPTH, Node};

/// The maximum number of columns, including nested ones. The limit is far above the number of
/// columns in real data, but low enough for all columns to be visited.
const MAX_NODES: usize = 1 << 20;

/// The maximum number of metadata entries per column. Memory for the entries is allocated before
/// they are read.
const MAX_METADATA: i32 = 1 << 16;

/// Arrow's C structure for a schema. The type in arrow-rs does not expose its fields.
#[repr(C)]
struct CSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut CSchema,
    dictionary: *mut CSchema,
    release: Option<unsafe extern "C" fn(*mut CSchema)>,
    private_data: *mut c_void,
}

const _: () = assert!(size_of::<CSchema>() == size_of::<FFI_ArrowSchema>());

/// Reads the schema of rows without changing the exported structure.
///
/// # Safety
///
/// `schema` must point to an initialised structure. Unless the schema has been released, each of
/// its non-null pointers must point to the data that Arrow's C data interface specifies. Strings
/// must be null-terminated.
pub unsafe fn schema(schema: NonNull<FFI_ArrowSchema>) -> Result<SchemaRef> {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { check_tree(schema.as_ptr().cast())? };
    // SAFETY: the structure is initialised, and nothing writes to it during the call.
    let schema = unsafe { schema.as_ref() };
    let field = caught(|| {
        Field::try_from(schema).map_err(|error| {
            let text = error.to_string();
            let unknown = if text.contains("not supported") { unknown(schema) } else { None };
            unknown.unwrap_or_else(|| Error::malformed(None, text))
        })
    })?;
    let DataType::Struct(fields) = field.data_type() else {
        return Err(Error::NoRows(field.data_type().clone()));
    };
    check_fields(fields, &Node::root())?;
    Ok(Arc::new(Schema::new_with_metadata(fields.clone(), field.metadata().clone())))
}

/// Returns an error for the first column whose type is not defined by Arrow, if any.
fn unknown(schema: &FFI_ArrowSchema) -> Option<Error> {
    let column = schema.children().find(|column| Field::try_from(*column).is_err())?;
    let (name, format) = (column.name().unwrap_or("").to_owned(), column.format().to_owned());
    Some(Error::Unknown { column: name, format })
}

/// # Safety
///
/// The requirements are the same as for [`schema`].
unsafe fn check_tree(schema: *const CSchema) -> Result<()> {
    // SAFETY: the structure is initialised.
    if unsafe { (*schema).release.is_none() } {
        return Err(Error::Released);
    }
    // SAFETY: the caller upholds the contract of this function.
    unsafe { check(schema, &Node::root(), &mut 0) }
}

/// # Safety
///
/// The requirements are the same as for [`schema`], except that the pointer can be null.
unsafe fn check(schema: *const CSchema, node: &Node<'_>, nodes: &mut usize) -> Result<()> {
    *nodes += 1;
    if *nodes > MAX_NODES {
        return Err(Error::at(
            node,
            format!("the schema has more than {MAX_NODES} columns, including nested columns"),
        ));
    }
    if node.is_too_deep() {
        return Err(Error::at(node, format!("the type has more than {MAX_DEPTH} levels")));
    }
    // SAFETY: a non-null pointer points to a structure.
    let Some(schema) = (unsafe { schema.as_ref() }) else {
        return Err(Error::at(node, "the schema of a child is a null pointer"));
    };
    if schema.release.is_none() {
        return Err(Error::at(node, "the schema of a child was released"));
    }
    // SAFETY: a string is null-terminated unless the pointer is null.
    let format = unsafe { text(schema.format) };
    let Some(Ok(format)) = format else {
        return Err(Error::at(node, "the format is not UTF-8 text"));
    };
    if matches!(format, "w:0" | "+w:0") {
        return Err(Error::NoSize { column: node.path().unwrap_or_default() });
    }
    // SAFETY: see above.
    if let Some(Err(())) = unsafe { text(schema.name) } {
        return Err(Error::at(node, "the name is not UTF-8 text"));
    }
    // SAFETY: the pointer is null, or points to lengths and strings as the interface specifies.
    unsafe { check_metadata(schema.metadata.cast(), node)? };
    check_child_count(schema.n_children, format, node)?;
    if schema.n_children > 0 && schema.children.is_null() {
        return Err(Error::at(node, "the list of children is a null pointer"));
    }
    for at in 0..schema.n_children as usize {
        // SAFETY: the list has as many pointers as the structure states.
        let child = unsafe { schema.children.add(at).read_unaligned() };
        // SAFETY: a non-null pointer points to a structure, whose name is a string or null.
        let name = unsafe { child.as_ref().and_then(|child| text(child.name)) };
        let name = name.and_then(Result::ok).unwrap_or("");
        // SAFETY: the caller upholds the contract of this function.
        unsafe { check(child, &node.child(name), nodes)? };
    }
    if !schema.dictionary.is_null() {
        if !matches!(format, "c" | "C" | "s" | "S" | "i" | "I" | "l" | "L") {
            return Err(Error::at(
                node,
                format!("the codes of a dictionary have the format `{format}`, not integers"),
            ));
        }
        // SAFETY: the caller upholds the contract of this function.
        unsafe { check(schema.dictionary, &node.child("dictionary"), nodes)? };
    }
    Ok(())
}

/// # Safety
///
/// The pointer must be null or point to a null-terminated string.
unsafe fn text<'a>(pointer: *const c_char) -> Option<Result<&'a str, ()>> {
    // SAFETY: the caller upholds the contract of this function.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| ()))
}

fn check_child_count(n_children: i64, format: &str, node: &Node<'_>) -> Result<()> {
    let expected = match format {
        "+l" | "+L" | "+vl" | "+vL" | "+m" => Some(1),
        "+r" => Some(2),
        "+s" => None,
        format if format.starts_with("+w:") => Some(1),
        format if format.starts_with("+u") => None,
        _ => Some(0),
    };
    let fits = expected
        .map_or((0..=MAX_NODES as i64).contains(&n_children), |expected| n_children == expected);
    if fits {
        return Ok(());
    }
    let expected = expected.map_or_else(|| "0 or more".to_owned(), |expected| expected.to_string());
    Err(Error::at(
        node,
        format!("the format `{format}` has {expected} children, n_children is {n_children}"),
    ))
}

/// # Safety
///
/// The pointer must be null or point to metadata in the format of the C data interface.
unsafe fn check_metadata(metadata: *const u8, node: &Node<'_>) -> Result<()> {
    if metadata.is_null() {
        return Ok(());
    }
    // SAFETY: metadata begins with a count.
    let count = unsafe { metadata.cast::<i32>().read_unaligned() };
    if !(0..=MAX_METADATA).contains(&count) {
        return Err(Error::at(node, format!("the metadata has {count} entries")));
    }
    let mut place = size_of::<i32>();
    for _ in 0..2 * count {
        // SAFETY: each string is preceded by its length.
        let length = unsafe { metadata.add(place).cast::<i32>().read_unaligned() };
        let Ok(length) = usize::try_from(length) else {
            return Err(Error::at(
                node,
                format!("the metadata contains a string with a length of {length} bytes"),
            ));
        };
        place += size_of::<i32>() + length;
    }
    Ok(())
}

fn check_fields(fields: &Fields, node: &Node<'_>) -> Result<()> {
    fields.iter().try_for_each(|field| check_type(field.data_type(), &node.child(field.name())))
}

/// Rejects types that arrow-rs can read but cannot create arrays for.
fn check_type(data_type: &DataType, node: &Node<'_>) -> Result<()> {
    let check_field = |field: &Field| check_type(field.data_type(), &node.child(field.name()));
    match data_type {
        DataType::FixedSizeBinary(width) if *width < 0 => {
            Err(Error::at(node, format!("values have a width of {width} bytes")))
        }
        DataType::FixedSizeList(_, size) if *size < 0 => {
            Err(Error::at(node, format!("lists have {size} items")))
        }
        DataType::Decimal32(precision, scale) => check_decimal(*precision, *scale, 9, node),
        DataType::Decimal64(precision, scale) => check_decimal(*precision, *scale, 18, node),
        DataType::Decimal128(precision, scale) => check_decimal(*precision, *scale, 38, node),
        DataType::Decimal256(precision, scale) => check_decimal(*precision, *scale, 76, node),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 && !fields[0].is_nullable() => {
                check_field(entries)
            }
            _ => {
                Err(Error::at(node, "map entries must be structs with a non-null key and a value"))
            }
        },
        DataType::RunEndEncoded(run_ends, values) => match run_ends.data_type() {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => check_field(values),
            other => {
                let what =
                    "is not a valid type for run ends, which must be 16-, 32- or 64-bit integers";
                Err(Error::of_type(node, other, what))
            }
        },
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => check_field(field),
        DataType::Struct(fields) => check_fields(fields, node),
        DataType::Union(fields, _) => fields.iter().try_for_each(|(_, field)| check_field(field)),
        DataType::Dictionary(_, values) => check_type(values, &node.child("dictionary")),
        _ => Ok(()),
    }
}

fn check_decimal(precision: u8, scale: i8, most: u8, node: &Node<'_>) -> Result<()> {
    if (1..=most).contains(&precision) && scale.unsigned_abs() <= most {
        return Ok(());
    }
    Err(Error::at(
        node,
        format!(
            "decimals have {precision} digits and a scale of {scale}; expected 1 to {most} digits"
        ),
    ))
}

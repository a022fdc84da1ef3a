//! Joins two tables after the arguments have been read, and returns a table, a reader or a plan.

use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::stream::{Operator, StreamOptions};
use tidegate::{Batches, Bound as Length, Driver, Join, JoinOptions, Next, QueryPlan, Stop, Table};

use crate::arrow::export;
use crate::arrow::import::UncheckedRows;
use crate::arrow::reader::{BatchReader, BatchStream, HeldInputs, Numbers};
use crate::inputs::rows::{read, schema};
use crate::inputs::untyped;
use crate::interpreter::error::raise;
use crate::interpreter::interrupt::{self, Size};
use crate::queries::plan::JoinPlan;

/// A join whose arguments have been parsed. The join determines which rows match and what is
/// computed from the pairs.
pub(crate) trait Relation: Send + Sync + 'static {
    fn options(&self) -> &JoinOptions;

    /// Returns the argument that specifies which unmatched rows the result keeps, as passed by the
    /// caller.
    fn how(&self) -> String;

    fn start(&self, left: &Table, right: &Table, stop: Stop) -> tidegate::Result<Join>;
    fn plan(&self, left: &Schema, right: &Schema) -> tidegate::Result<QueryPlan>;

    /// Returns the pairs of left and right columns that are compared.
    fn pairs(&self) -> Vec<(String, String)>;

    /// Returns whether each pair takes only a short, bounded time. This requires that no expression
    /// is evaluated and nothing is aggregated.
    fn is_plain(&self) -> bool;

    /// Returns, for the lower and upper ends of the intervals, whether each end varies from row to
    /// row.
    fn row_ends(&self) -> [bool; 2] {
        [false; 2]
    }

    /// Returns an operator that performs the same join on rows that arrive over time. `max_width`
    /// limits the length of intervals whose ends are computed from left or right columns.
    fn operator(
        &self,
        left: SchemaRef,
        right: SchemaRef,
        max_width: Option<[Length; 2]>,
        options: &StreamOptions,
    ) -> tidegate::Result<Operator>;
}

/// Tables with at most this many rows and bytes are joined or merged on the caller's thread.
///
/// With such small tables, a call takes about as long as starting a thread, so Ctrl-C does not need
/// to interrupt it.
const FEW_ROWS: usize = 1 << 11;
const FEW_BYTES: usize = 1 << 18;

/// The maximum size, in bytes, of the pairs found in such small tables. Writing that many bytes
/// takes a few tens of milliseconds.
const MOST_PAIR_BYTES: usize = 1 << 26;

/// Returns whether the inputs have only a few rows and few bytes in total.
pub(crate) fn are_few(inputs: &[&UncheckedRows]) -> bool {
    inputs.iter().map(|input| input.rows()).sum::<usize>() <= FEW_ROWS
        && inputs.iter().map(|input| input.bytes()).sum::<usize>() <= FEW_BYTES
}

/// Joins two inputs and returns the result as a `pyarrow.Table`.
pub(crate) fn to_table<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    join: &Arc<dyn Relation>,
) -> PyResult<Bound<'py, PyAny>> {
    let (batches, schema) = run(py, left, right, join, |join, left, right, stop| {
        let join = join.start(left, right, stop)?;
        let schema = join.schema().clone();
        Ok((join.read_all()?, schema))
    })?;
    export::table(py, batches, schema)
}

/// Joins two inputs and returns a reader of the result's batches. `made_by` names the function that
/// returns the reader.
pub(crate) fn to_reader<'py>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    join: &Arc<dyn Relation>,
    made_by: &str,
) -> PyResult<BatchReader> {
    let join = run(py, left, right, join, |join, left, right, stop| join.start(left, right, stop))?;
    let schema = join.schema().clone();
    Ok(BatchReader::new(join.into_batches(), schema, made_by))
}

/// Plans the join of two inputs. Only the schemas of the inputs are read.
pub(crate) fn to_plan(
    left: &Bound<'_, PyAny>,
    right: &Bound<'_, PyAny>,
    join: &dyn Relation,
) -> PyResult<JoinPlan> {
    let (left, right) = (schema("left", left)?, schema("right", right)?);
    // It is not known whether a side has rows before it is read, so assume here that both sides are
    // empty.
    let [left, right] = typed(join, [&left, &right], [true; 2]);
    let plan = join.plan(&left, &right).map_err(raise)?;
    Ok(JoinPlan::new(plan, left, right))
}

/// Returns the schemas of both sides, after assigning types to the untyped columns of empty sides.
fn typed(join: &dyn Relation, schemas: [&SchemaRef; 2], are_empty: [bool; 2]) -> [SchemaRef; 2] {
    let fits = |left: &Schema, right: &Schema| join.plan(left, right).is_ok();
    untyped::of_join(&join.pairs(), fits, schemas, are_empty)
}

/// Reads and checks two inputs, and calls `work` with them. Ctrl-C can interrupt the call.
fn run<'py, T: Send + 'static>(
    py: Python<'py>,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    join: &Arc<dyn Relation>,
    work: impl FnOnce(&dyn Relation, &Table, &Table, Stop) -> tidegate::Result<T> + Send + 'static,
) -> PyResult<T> {
    let stop = Stop::default();
    let (left, right) = (read("left", left, &stop)?, read("right", right, &stop)?);
    let threads = join.options().threads;
    let running = stop.clone();
    let rows = left.rows_to_read() + right.rows_to_read();
    let are_empty = [left.rows() == 0, right.rows() == 0];
    let [of_left, of_right] = typed(&**join, [left.schema(), right.schema()], are_empty);
    let (left, right) = (left.of_schema(of_left), right.of_schema(of_right));
    let pairs = join.pairs();
    // The number of bytes from both sides in the result if each row matches every row on the other
    // side.
    let most = left
        .bytes()
        .saturating_mul(right.rows().max(1))
        .saturating_add(right.bytes().saturating_mul(left.rows().max(1)));
    let is_short = join.is_plain() && are_few(&[&left, &right]) && most <= MOST_PAIR_BYTES;
    let check = move |driver: &Driver| {
        let tables = vec![left.table(driver)?, right.table(driver)?];
        let shared: Vec<_> = pairs.iter().map(|(left, right)| vec![&**left, &**right]).collect();
        tidegate::with_room(tables, &shared)
    };
    let size = if is_short { Size::Short } else { Size::Rows(rows) };
    let join = join.clone();
    interrupt::run_on_tables(py, &stop, threads, size, check, move |tables| {
        work(&*join, &tables[0], &tables[1], running)
    })
}

impl BatchStream for Batches {
    fn next_within(&self, patience: Duration) -> tidegate::Result<Next> {
        Batches::next_within(self, patience)
    }

    fn stats(&self) -> Numbers {
        let stats = Batches::stats(self);
        Box::new(move |py| {
            let dict = PyDict::new(py);
            dict.set_item("left_rows", stats.left_rows)?;
            dict.set_item("right_rows", stats.right_rows)?;
            dict.set_item("rows", stats.rows)?;
            dict.set_item("left_rows_done", stats.left_rows_done)?;
            dict.set_item("threads", stats.threads)?;
            dict.set_item("keys", stats.key_method)?;
            dict.set_item("where", stats.condition_method)?;
            Ok(dict)
        })
    }

    fn close(&self) {
        Batches::close(self);
    }

    fn held(&self) -> HeldInputs {
        Batches::held(self)
    }
}

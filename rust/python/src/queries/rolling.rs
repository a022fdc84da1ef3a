//! The query for `rolling`, and the class `Rolling`.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::{
    Driver, How, Join, JoinOptions, PartnerAggregation, PartnerJoin, RollingSize, Stop, stream,
};

use crate::arrow::export;
use crate::arrow::reader::BatchReader;
use crate::inputs::arguments::{
    Argument, CLOSED, bound, count, key_names, names, row_count, threads_of, word,
};
use crate::inputs::functions::aggregates;
use crate::inputs::rows::{listed, read, schema};
use crate::inputs::untyped;
use crate::interpreter::error::raise;
use crate::interpreter::interrupt::{self, Size, detached};
use crate::operators::operator::Operator;
use crate::queries::aggregate::options;
use crate::queries::plan::AggregationPlan;

#[doc = manual!(RollingQuery)]
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct RollingQuery {
    /// The original arguments, from which another process can build the same query.
    arguments: Py<PyDict>,
    on: String,
    query: Arc<PartnerAggregation>,
}

#[pymethods]
impl RollingQuery {
    #[new]
    #[pyo3(signature = (
        *, on, size, by=None, closed="right", aggs, columns=None, threads=None, max_rows=None,
        batch_rows=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new<'py>(
        py: Python<'py>,
        on: &str,
        size: &Bound<'py, PyAny>,
        by: Option<&Bound<'py, PyAny>>,
        closed: &str,
        aggs: &Bound<'py, PyAny>,
        columns: Option<&Bound<'py, PyAny>>,
        threads: Option<&Bound<'py, PyAny>>,
        max_rows: Option<&Bound<'py, PyAny>>,
        batch_rows: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let given =
            RollingArguments { on, size, by, closed, aggs, columns, threads, max_rows, batch_rows };
        let arguments = PyDict::new(py);
        arguments.set_item("on", on)?;
        arguments.set_item("size", size)?;
        arguments.set_item("by", by)?;
        arguments.set_item("closed", closed)?;
        arguments.set_item("aggs", aggs)?;
        arguments.set_item("columns", columns)?;
        arguments.set_item("threads", threads)?;
        arguments.set_item("max_rows", max_rows)?;
        arguments.set_item("batch_rows", batch_rows)?;
        let query = Arc::new(given.read()?);
        Ok(RollingQuery { arguments: arguments.unbind(), on: on.to_owned(), query })
    }

    #[doc = manual!(RollingQuery.arguments)]
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.arguments.bind(py).copy()
    }

    #[doc = manual!(RollingQuery.on)]
    #[getter]
    fn on(&self) -> &str {
        &self.on
    }

    #[doc = manual!(RollingQuery.threads)]
    #[getter]
    fn threads(&self) -> usize {
        self.query.options().threads
    }

    #[doc = manual!(RollingQuery.max_rows)]
    #[getter]
    fn max_rows(&self) -> Option<u64> {
        self.query.options().max_rows
    }

    #[doc = manual!(RollingQuery.replace)]
    #[pyo3(signature = (**changes))]
    fn replace<'py>(
        slf: &Bound<'py, Self>,
        changes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = slf.get().arguments(slf.py())?;
        if let Some(changes) = changes {
            arguments.update(changes.as_mapping())?;
        }
        slf.get_type().call((), Some(&arguments))
    }

    #[doc = manual!(RollingQuery.plan)]
    fn plan(&self, tables: &Bound<'_, PyAny>) -> PyResult<AggregationPlan> {
        // It is not known whether the table has rows before it is read.
        let schema = typed(&self.query, &schema(NAME, &only(tables)?)?, true);
        let plan = self.query.query_plan(&schema, &schema).map_err(raise)?;
        let mut reads: Vec<usize> = plan.reads.concat();
        reads.sort_unstable();
        reads.dedup();
        let plan = tidegate::AggregationPlan {
            explanation: plan.explanation,
            schema: plan.schema,
            reads: vec![reads],
            windows: None,
            calendar: None,
            zone: None,
            gap_column: None,
            advice: None,
        };
        Ok(AggregationPlan::new(plan, vec![schema]))
    }

    #[doc = manual!(RollingQuery.table)]
    fn table<'py>(
        &self,
        py: Python<'py>,
        tables: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (batches, schema) = self.run(py, tables, |join| {
            let schema = join.schema().clone();
            Ok((join.read_all()?, schema))
        })?;
        export::table(py, batches, schema)
    }

    #[doc = manual!(RollingQuery.batches)]
    fn batches<'py>(&self, py: Python<'py>, tables: &Bound<'py, PyAny>) -> PyResult<BatchReader> {
        let join = self.run(py, tables, Ok)?;
        let schema = join.schema().clone();
        Ok(BatchReader::new(join.into_batches(), schema, "rolling_batches"))
    }

    #[doc = manual!(RollingQuery.operator)]
    #[pyo3(signature = (schema, *, sources=None, lateness=None, memory_limit=None))]
    fn operator<'py>(
        &self,
        py: Python<'py>,
        schema: &Bound<'py, PyAny>,
        sources: Option<&Bound<'py, PyAny>>,
        lateness: Option<&Bound<'py, PyAny>>,
        memory_limit: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Operator>> {
        let options = options(sources, lateness, memory_limit)?;
        let schema = self::schema("schema", schema)?;
        let operator = detached(py, || stream::rolling(&self.query, schema, &options))?;
        Bound::new(py, Operator::new(operator, false))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok(format!("{name}={}", value.repr()?))
        };
        let arguments = self.arguments.bind(py).iter().map(text);
        Ok(format!("rolling({})", arguments.collect::<PyResult<Vec<_>>>()?.join(", ")))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyDict>,))> {
        let again = slf.py().import(slf.get_type().module()?)?.getattr("rolling_query")?;
        Ok((again, (slf.get().arguments(slf.py())?,)))
    }
}

impl RollingQuery {
    /// Reads and checks a table, and calls `work` with the windows of its rows.
    fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        tables: &Bound<'_, PyAny>,
        work: impl FnOnce(Join) -> tidegate::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let stop = Stop::default();
        let table = read(NAME, &only(tables)?, &stop)?;
        let (threads, size) = (self.query.options().threads, Size::Rows(table.rows_to_read()));
        let schema = typed(&self.query, table.schema(), table.rows() == 0);
        let table = table.of_schema(schema);
        let check = move |driver: &Driver| untyped::with_room(vec![table.table(driver)?]);
        let (query, running) = (self.query.clone(), stop.clone());
        interrupt::run_on_tables(py, &stop, threads, size, check, move |tables| {
            work(query.start(&tables[0], &tables[0], running)?)
        })
    }
}

#[doc = manual!(rolling_query)]
#[pyfunction]
pub(crate) fn rolling_query<'py>(arguments: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    arguments.py().get_type::<RollingQuery>().call((), Some(arguments))
}

/// The name of the input in messages.
const NAME: &str = "table";

/// Returns the single table in a list.
fn only<'py>(tables: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match &listed(tables)?[..] {
        [table] => Ok(table.clone()),
        tables => Err(PyTypeError::new_err(format!(
            "{NAME}: expected one table, got {}; concatenate them first",
            tables.len()
        ))),
    }
}

/// Returns the schema of a table. If the table is empty, untyped columns are assigned types.
fn typed(query: &PartnerAggregation, schema: &SchemaRef, is_empty: bool) -> SchemaRef {
    let fits = |left: &Schema, right: &Schema| query.schema(left, right).is_ok();
    let [typed, _] = untyped::of_join(&query.pairs(), fits, [schema, schema], [is_empty; 2]);
    typed
}

#[doc = manual!(Rolling)]
#[pyclass(frozen, extends = Operator, subclass, module = "tidegate")]
pub(crate) struct Rolling;

#[pymethods]
impl Rolling {
    #[new]
    #[pyo3(signature = (
        schema, *, on, size, by=None, closed="right", aggs, columns=None, sources=None,
        lateness=None, threads=None, memory_limit=None, digest=false
    ))]
    #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn new<'py>(
        schema: &Bound<'py, PyAny>,
        on: &str,
        size: &Bound<'py, PyAny>,
        by: Option<&Bound<'py, PyAny>>,
        closed: &str,
        aggs: &Bound<'py, PyAny>,
        columns: Option<&Bound<'py, PyAny>>,
        sources: Option<&Bound<'py, PyAny>>,
        lateness: Option<&Bound<'py, PyAny>>,
        threads: Option<&Bound<'py, PyAny>>,
        memory_limit: Option<&Bound<'py, PyAny>>,
        digest: bool,
    ) -> PyResult<PyClassInitializer<Self>> {
        let (max_rows, batch_rows) = (None, None);
        let given =
            RollingArguments { on, size, by, closed, aggs, columns, threads, max_rows, batch_rows };
        let query = given.read()?;
        let options = options(sources, lateness, memory_limit)?;
        let py = schema.py();
        let schema = self::schema("schema", schema)?;
        let operator = detached(py, || stream::rolling(&query, schema, &options))?;
        Ok(PyClassInitializer::from(Operator::new(operator, digest)).add_subclass(Rolling))
    }
}

/// The keyword arguments, as they were passed.
struct RollingArguments<'a, 'py> {
    on: &'a str,
    size: Argument<'a, 'py>,
    by: Option<Argument<'a, 'py>>,
    closed: &'a str,
    aggs: Argument<'a, 'py>,
    columns: Option<Argument<'a, 'py>>,
    threads: Option<Argument<'a, 'py>>,
    max_rows: Option<Argument<'a, 'py>>,
    batch_rows: Option<Argument<'a, 'py>>,
}

impl RollingArguments<'_, '_> {
    fn read(self) -> PyResult<PartnerAggregation> {
        let rolling = tidegate::RollingWindows {
            on: self.on.to_owned(),
            size: size_of(self.size)?,
            closed: word("closed", self.closed, &CLOSED)?,
            options: JoinOptions {
                by: key_names(self.by)?.into_iter().map(|key| (key.clone(), key)).collect(),
                predicate: None,
                how: How::Semi,
                suffix: String::new(),
                columns: names("columns", self.columns)?,
                threads: threads_of(self.threads)?,
                max_rows: count("max_rows", self.max_rows, 0, i64::MAX)?.map(i64::unsigned_abs),
                batch_rows: count("batch_rows", self.batch_rows, 1, i64::MAX)?
                    .map(|rows| rows as usize),
            },
        };
        PartnerAggregation::new(PartnerJoin::Rolling(rolling), aggregates(self.aggs)?, How::Left)
            .map_err(raise)
    }
}

/// Returns the length of windows: a length of time, or `tidegate.rows(n)`.
fn size_of(ob: Argument<'_, '_>) -> PyResult<RollingSize> {
    if let Some(rows) = row_count(ob)? {
        return Ok(RollingSize::Rows(rows));
    }
    let wrong = || {
        PyTypeError::new_err(format!(
            "size: expected a timedelta, a string such as \"15m\", an integer if times are \
             integers, or tidegate.rows(n); got {}",
            ob.get_type()
        ))
    };
    match bound("size", ob) {
        Ok(length) => length.map(RollingSize::Time).ok_or_else(wrong),
        Err(error) if error.is_instance_of::<PyTypeError>(ob.py()) => Err(wrong()),
        Err(error) => Err(error),
    }
}

//! The options that all joins share. Only this file declares these options. These options apply to
//! queries on tables and to the classes that join push sources.

use arrow_schema::{Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidegate::query::aggregate::Aggregate;
use tidegate::stream::{self, Operator, StreamOptions};
use tidegate::{
    Bound as Length, Error, How, Join, JoinOptions, PartnerAggregation, PartnerJoin, QueryPlan,
    Stop, Table,
};

use crate::inputs::arguments::{
    Argument, count, name_pairs, names, of_other_libraries, threads_of, word,
};
use crate::inputs::expression;
use crate::inputs::functions::aggregates;
use crate::inputs::rows::schema;
use crate::interpreter::error::raise;
use crate::operators::stream_join::{options, options_of_one};
use crate::queries::tables::Relation;

#[doc = manual!(default_threads)]
#[pyfunction]
pub(crate) fn default_threads() -> usize {
    tidegate::default_threads()
}

/// The keyword arguments common to all joins, as they were passed.
#[derive(Clone, Copy)]
pub(crate) struct Options<'a, 'py> {
    pub(crate) by: Option<Argument<'a, 'py>>,
    pub(crate) r#where: Option<Argument<'a, 'py>>,
    pub(crate) how: Option<&'a str>,
    pub(crate) aggs: Option<Argument<'a, 'py>>,
    pub(crate) suffix: &'a str,
    pub(crate) columns: Option<Argument<'a, 'py>>,
    pub(crate) threads: Option<Argument<'a, 'py>>,
    pub(crate) max_rows: Option<Argument<'a, 'py>>,
    pub(crate) batch_rows: Option<Argument<'a, 'py>>,
}

/// The functions that aggregate partners, and the rule that determines which left rows the result
/// keeps.
pub(crate) type Functions = (Vec<Aggregate>, How);

impl Options<'_, '_> {
    /// Returns the functions passed as `aggs`, if any.
    pub(crate) fn functions(self) -> PyResult<Option<Functions>> {
        let Some(aggs) = self.aggs else { return Ok(None) };
        let how = self.of_left_rows().how.unwrap_or("left");
        Ok(Some((aggregates(aggs)?, word("how", how, &HOW)?)))
    }

    /// Returns the options of a join that returns one row per left row. If the caller requests an
    /// outer join, by this or another library's name, the join is rejected with an explanation.
    pub(crate) fn of_left_rows(self) -> Self {
        let is_outer = self.how.is_some_and(|how| of_other_libraries(how) == "full");
        Options { how: if is_outer { Some("full") } else { self.how }, ..self }
    }

    /// Returns the options by name, as they were passed.
    pub(crate) fn by_name<'p>(self, py: Python<'p>) -> PyResult<Bound<'p, PyDict>> {
        let arguments = PyDict::new(py);
        arguments.set_item("by", self.by)?;
        arguments.set_item("where", self.r#where)?;
        arguments.set_item("how", self.how)?;
        arguments.set_item("aggs", self.aggs)?;
        arguments.set_item("suffix", self.suffix)?;
        arguments.set_item("columns", self.columns)?;
        arguments.set_item("threads", self.threads)?;
        arguments.set_item("max_rows", self.max_rows)?;
        arguments.set_item("batch_rows", self.batch_rows)?;
        Ok(arguments)
    }

    pub(crate) fn read(self) -> PyResult<JoinOptions> {
        let given = if self.aggs.is_some() { self.of_left_rows() } else { self };
        let how = given.how.unwrap_or("inner");
        Ok(JoinOptions {
            by: name_pairs("by", self.by)?,
            predicate: self.r#where.map(expression::extract).transpose()?,
            how: word("how", how, &HOW)?,
            suffix: self.suffix.to_owned(),
            columns: names("columns", self.columns)?,
            threads: threads_of(self.threads)?,
            max_rows: count("max_rows", self.max_rows, 0, i64::MAX)?.map(i64::unsigned_abs),
            batch_rows: count("batch_rows", self.batch_rows, 1, i64::MAX)?
                .map(|rows| rows as usize),
        })
    }
}

const HOW: [(&str, How); 6] = [
    ("inner", How::Inner),
    ("left", How::Left),
    ("right", How::Right),
    ("full", How::Full),
    ("semi", How::Semi),
    ("anti", How::Anti),
];

/// The result requested from a join: pairs, or aggregates of partners.
pub(crate) enum JoinRequest<Q> {
    Pairs(Q),
    Aggregates(Box<PartnerAggregation>),
}

impl<Q> JoinRequest<Q> {
    /// Requests the pairs that a query finds. If `functions` is set, requests aggregates of the
    /// partners that `join` finds instead.
    pub(crate) fn new(
        query: Q,
        functions: Option<Functions>,
        join: impl FnOnce(Q) -> PartnerJoin,
    ) -> PyResult<Self> {
        Ok(match functions {
            None => JoinRequest::Pairs(query),
            Some((functions, how)) => {
                let query = PartnerAggregation::new(join(query), functions, how);
                JoinRequest::Aggregates(Box::new(query.map_err(raise)?))
            }
        })
    }
}

/// A kind of join that finds pairs, which are then returned or aggregated.
pub(crate) trait Pairs: Send + Sync + 'static {
    fn options(&self) -> &JoinOptions;
    fn start(&self, left: &Table, right: &Table, stop: Stop) -> tidegate::Result<Join>;
    fn plan(&self, left: &Schema, right: &Schema) -> tidegate::Result<QueryPlan>;
    fn pairs(&self) -> Vec<(String, String)>;

    /// Returns, for the lower and upper ends of the intervals, whether each end varies from row to
    /// row.
    fn row_ends(&self) -> [bool; 2] {
        [false; 2]
    }

    /// Returns an operator that performs the same join on rows that arrive over time.
    fn operator(
        &self,
        left: SchemaRef,
        right: SchemaRef,
        max_width: Option<[Length; 2]>,
        options: &StreamOptions,
    ) -> tidegate::Result<Operator>;
}

/// Implements [`Pairs`] for a join from the crate `tidegate` by calling the crate's functions with
/// the same names.
macro_rules! pairs {
    ($query:ty { $($more:tt)* }) => {
        impl $crate::queries::join::Pairs for $query {
            fn options(&self) -> &::tidegate::JoinOptions {
                &self.options
            }

            fn start(
                &self,
                left: &::tidegate::Table,
                right: &::tidegate::Table,
                stop: ::tidegate::Stop,
            ) -> ::tidegate::Result<::tidegate::Join> {
                <$query>::start(self, left, right, stop)
            }

            fn plan(
                &self,
                left: &::arrow_schema::Schema,
                right: &::arrow_schema::Schema,
            ) -> ::tidegate::Result<::tidegate::QueryPlan> {
                self.query_plan(left, right)
            }

            fn pairs(&self) -> Vec<(String, String)> {
                <$query>::pairs(self)
            }

            $($more)*
        }
    };
}
pub(crate) use pairs;

impl<Q: Pairs> Relation for JoinRequest<Q> {
    fn options(&self) -> &JoinOptions {
        match self {
            JoinRequest::Pairs(query) => query.options(),
            JoinRequest::Aggregates(query) => query.options(),
        }
    }

    fn how(&self) -> String {
        match self {
            JoinRequest::Pairs(query) => {
                let how = query.options().how;
                let known = HOW.iter().find(|(_, known)| *known == how);
                known.expect("every value of `how` has a name").0.to_owned()
            }
            JoinRequest::Aggregates(query) => query.how().to_owned(),
        }
    }

    fn start(&self, left: &Table, right: &Table, stop: Stop) -> tidegate::Result<Join> {
        match self {
            JoinRequest::Pairs(query) => query.start(left, right, stop),
            JoinRequest::Aggregates(query) => query.start(left, right, stop),
        }
    }

    fn plan(&self, left: &Schema, right: &Schema) -> tidegate::Result<QueryPlan> {
        match self {
            JoinRequest::Pairs(query) => query.plan(left, right),
            JoinRequest::Aggregates(query) => query.query_plan(left, right),
        }
    }

    fn pairs(&self) -> Vec<(String, String)> {
        match self {
            JoinRequest::Pairs(query) => query.pairs(),
            JoinRequest::Aggregates(query) => query.pairs(),
        }
    }

    fn is_plain(&self) -> bool {
        let JoinRequest::Pairs(query) = self else { return false };
        query.options().predicate.is_none() && query.row_ends() == [false; 2]
    }

    fn row_ends(&self) -> [bool; 2] {
        match self {
            JoinRequest::Pairs(query) => query.row_ends(),
            JoinRequest::Aggregates(query) => query.row_ends(),
        }
    }

    fn operator(
        &self,
        left: SchemaRef,
        right: SchemaRef,
        max_width: Option<[Length; 2]>,
        options: &StreamOptions,
    ) -> tidegate::Result<Operator> {
        match self {
            JoinRequest::Pairs(query) => query.operator(left, right, max_width, options),
            JoinRequest::Aggregates(query) => {
                stream::partner_aggregates(query, max_width, left, right, options)
            }
        }
    }
}

/// Rejects `max_width` if the join cannot compute the ends of intervals from columns.
pub(crate) fn check_no_width(max_width: Option<[Length; 2]>) -> tidegate::Result<()> {
    match max_width {
        None => Ok(()),
        Some(_) => Err(Error::argument(
            "max_width: only an interval join and an overlap join read ends from columns; leave it out",
        )),
    }
}

/// Defines the function that builds the query for a kind of join.
///
/// The three lists contain the arguments that only this kind of join takes, grouped by position in
/// the signature. In the signature, the options that all joins share appear before, between and
/// after them. `$ask` takes these arguments and the [`Options`], and returns a [`JoinRequest`].
macro_rules! join_query {
    (
        $name:ident($function:literal) = $ask:ident;
        before_by($($pair:ident: $pair_type:ty $(= $pair_default:tt)?),*)
        before_suffix($($closed:ident: $closed_type:ty = $closed_default:tt),*)
        before_threads($($algorithm:ident: $algorithm_type:ty = $algorithm_default:tt)?)
    ) => {
        #[doc = manual!($name)]
        #[pyfunction]
        #[pyo3(signature = (
            *, $($pair $(= $pair_default)?,)* by=None, r#where=None, how=None, aggs=None,
            $($closed=$closed_default,)* suffix="_right", columns=None,
            $($algorithm=$algorithm_default,)? threads=None, max_rows=None, batch_rows=None
        ))]
        #[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
        pub(crate) fn $name<'py>(
            py: Python<'py>,
            $($pair: $pair_type,)*
            by: Option<&Bound<'py, PyAny>>,
            r#where: Option<&Bound<'py, PyAny>>,
            how: Option<&str>,
            aggs: Option<&Bound<'py, PyAny>>,
            $($closed: $closed_type,)*
            suffix: &str,
            columns: Option<&Bound<'py, PyAny>>,
            $($algorithm: $algorithm_type,)?
            threads: Option<&Bound<'py, PyAny>>,
            max_rows: Option<&Bound<'py, PyAny>>,
            batch_rows: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<$crate::queries::query::JoinQuery> {
            let options = $crate::queries::join::Options {
                by, r#where, how, aggs, suffix, columns, threads, max_rows, batch_rows,
            };
            let asked = $ask($($pair,)* $($closed,)* $($algorithm,)? options)?;
            let arguments = options.by_name(py)?;
            $(arguments.set_item(stringify!($pair), $pair)?;)*
            $(arguments.set_item(stringify!($closed), $closed)?;)*
            $(arguments.set_item(stringify!($algorithm), $algorithm)?;)?
            Ok($crate::queries::query::JoinQuery::new($function, arguments, asked))
        }
    };
}
pub(crate) use join_query;

/// Defines the function that builds the query of a join that matches each left row with one right
/// row. All left rows are kept unless `how` specifies otherwise. `$read` takes the arguments
/// specific to this kind of join and the [`Options`], and returns the join.
macro_rules! asof_query {
    ($name:ident($function:literal) = $read:ident) => {
        #[doc = manual!($name)]
        #[pyfunction]
        #[pyo3(signature = (
            *, on, by=None, strategy="backward", tolerance=None, at=None, long=false, n=None,
            allow_exact_matches=true, r#where=None, how="left", suffix="_right", columns=None, threads=None, max_rows=None,
            batch_rows=None
        ))]
        #[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
        pub(crate) fn $name<'py>(
            py: Python<'py>,
            on: &Bound<'py, PyAny>,
            by: Option<&Bound<'py, PyAny>>,
            strategy: &str,
            tolerance: Option<&Bound<'py, PyAny>>,
            at: Option<&Bound<'py, PyAny>>,
            long: bool,
            n: Option<&Bound<'py, PyAny>>,
            allow_exact_matches: bool,
            r#where: Option<&Bound<'py, PyAny>>,
            how: &str,
            suffix: &str,
            columns: Option<&Bound<'py, PyAny>>,
            threads: Option<&Bound<'py, PyAny>>,
            max_rows: Option<&Bound<'py, PyAny>>,
            batch_rows: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<$crate::queries::query::JoinQuery> {
            let (how, aggs) = (Some(how), None);
            let options = $crate::queries::join::Options {
                by, r#where, how, aggs, suffix, columns, threads, max_rows, batch_rows,
            };
            let lookups = $crate::queries::asof_join::LookupArguments { at, long, n };
            let join = $read(on, strategy, tolerance, allow_exact_matches, lookups, options)?;
            let arguments = options.by_name(py)?;
            arguments.del_item("aggs")?;
            arguments.set_item("on", on)?;
            arguments.set_item("strategy", strategy)?;
            arguments.set_item("tolerance", tolerance)?;
            arguments.set_item("at", at)?;
            arguments.set_item("long", long)?;
            arguments.set_item("n", n)?;
            arguments.set_item("allow_exact_matches", allow_exact_matches)?;
            let asked = $crate::queries::join::JoinRequest::Pairs(join);
            Ok($crate::queries::query::JoinQuery::new($function, arguments, asked))
        }
    };
}
pub(crate) use asof_query;

/// Defines the class for joins of push sources that match each left row with one right row. `$open`
/// takes the arguments of an as-of join, the [`Options`] and the [`Sides`], and returns the join.
macro_rules! asof_class {
    ($class:ident = $open:ident) => {
        #[doc = manual!($class)]
        #[pyclass(
            frozen,
            extends = $crate::operators::stream_join::StreamJoin,
            subclass,
            module = "tidegate"
        )]
        pub(crate) struct $class;

        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (
                left, right, *, on, by=None, strategy="backward", tolerance=None,
                allow_exact_matches=true, r#where=None, how="left", suffix="_right", columns=None,
                sources=None, lateness=None, threads=None, memory_limit=None, ordered=true, pin=None,
                digest=false
            ))]
            #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
            fn new<'py>(
                left: &Bound<'py, PyAny>,
                right: &Bound<'py, PyAny>,
                on: &Bound<'py, PyAny>,
                by: Option<&Bound<'py, PyAny>>,
                strategy: &str,
                tolerance: Option<&Bound<'py, PyAny>>,
                allow_exact_matches: bool,
                r#where: Option<&Bound<'py, PyAny>>,
                how: &str,
                suffix: &str,
                columns: Option<&Bound<'py, PyAny>>,
                sources: Option<&Bound<'py, PyAny>>,
                lateness: Option<&Bound<'py, PyAny>>,
                threads: Option<&Bound<'py, PyAny>>,
                memory_limit: Option<&Bound<'py, PyAny>>,
                ordered: bool,
                pin: Option<bool>,
                digest: bool,
            ) -> PyResult<PyClassInitializer<Self>> {
                let (how, aggs, max_rows, batch_rows) = (Some(how), None, None, None);
                let options = $crate::queries::join::Options {
                    by, r#where, how, aggs, suffix, columns, threads, max_rows, batch_rows,
                };
                let sides = $crate::queries::join::Sides {
                    left, right, sources, lateness, memory_limit, ordered, pin,
                };
                let join = $open(on, strategy, tolerance, allow_exact_matches, options, sides)?;
                let join = $crate::operators::stream_join::StreamJoin::of(join, digest);
                Ok(join.add_subclass($class))
            }
        }
    };
}
pub(crate) use asof_class;

/// Defines the class for a kind of join with push sources. The macro takes the same lists as
/// [`join_query`]. `$open` takes this kind's own arguments, the [`Options`] and the [`Sides`], and
/// returns the join.
macro_rules! join_class {
    (
        $class:ident = $open:ident;
        before_by($($pair:ident: $pair_type:ty),*)
        before_suffix($($closed:ident: $closed_type:ty = $closed_default:tt),*)
        before_threads($($algorithm:ident: $algorithm_type:ty = $algorithm_default:tt)?)
    ) => {
        #[doc = manual!($class)]
        #[pyclass(
            frozen,
            extends = $crate::operators::stream_join::StreamJoin,
            subclass,
            module = "tidegate"
        )]
        pub(crate) struct $class;

        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (
                left, right, *, $($pair,)* by=None, r#where=None, how=None, aggs=None,
                $($closed=$closed_default,)* suffix="_right", columns=None, sources=None,
                lateness=None, $($algorithm=$algorithm_default,)? threads=None, memory_limit=None,
                ordered=true, pin=None,
                digest=false
            ))]
            #[expect(clippy::too_many_arguments, reason = "the arguments of the Python class")]
            fn new<'py>(
                left: &Bound<'py, PyAny>,
                right: &Bound<'py, PyAny>,
                $($pair: $pair_type,)*
                by: Option<&Bound<'py, PyAny>>,
                r#where: Option<&Bound<'py, PyAny>>,
                how: Option<&str>,
                aggs: Option<&Bound<'py, PyAny>>,
                $($closed: $closed_type,)*
                suffix: &str,
                columns: Option<&Bound<'py, PyAny>>,
                sources: Option<&Bound<'py, PyAny>>,
                lateness: Option<&Bound<'py, PyAny>>,
                $($algorithm: $algorithm_type,)?
                threads: Option<&Bound<'py, PyAny>>,
                memory_limit: Option<&Bound<'py, PyAny>>,
                ordered: bool,
                pin: Option<bool>,
                digest: bool,
            ) -> PyResult<PyClassInitializer<Self>> {
                let (max_rows, batch_rows) = (None, None);
                let options = $crate::queries::join::Options {
                    by, r#where, how, aggs, suffix, columns, threads, max_rows, batch_rows,
                };
                let sides = $crate::queries::join::Sides {
                    left, right, sources, lateness, memory_limit, ordered, pin,
                };
                let join = $open($($pair,)* $($closed,)* $($algorithm,)? options, sides)?;
                let join = $crate::operators::stream_join::StreamJoin::of(join, digest);
                Ok(join.add_subclass($class))
            }
        }
    };
}
pub(crate) use join_class;

/// The additional arguments that joins of push sources accept, as the caller passed them.
pub(crate) struct Sides<'a, 'py> {
    pub(crate) left: Argument<'a, 'py>,
    pub(crate) right: Argument<'a, 'py>,
    pub(crate) sources: Option<Argument<'a, 'py>>,
    pub(crate) lateness: Option<Argument<'a, 'py>>,
    pub(crate) memory_limit: Option<Argument<'a, 'py>>,
    pub(crate) ordered: bool,
    pub(crate) pin: Option<bool>,
}

impl Sides<'_, '_> {
    /// Reads the schemas of the left and right sources, and the options.
    pub(crate) fn read(self) -> PyResult<(SchemaRef, SchemaRef, StreamOptions)> {
        let Sides { left, right, sources, lateness, memory_limit, ordered, pin } = self;
        let options = options(sources, lateness, memory_limit, ordered, pin)?;
        Ok((schema("left", left)?, schema("right", right)?, options))
    }

    /// Reads the options and the schema of the left sources, for a join without right sources.
    pub(crate) fn read_one(self) -> PyResult<(SchemaRef, StreamOptions)> {
        let Sides { left, right: _, sources, lateness, memory_limit, ordered, pin } = self;
        let options = options_of_one(sources, lateness, memory_limit, ordered, pin)?;
        Ok((schema("left", left)?, options))
    }
}

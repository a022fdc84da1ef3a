//! Aggregations of tables and streams must agree with a loop over all windows and rows.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Int64Array, RecordBatch};
use arrow_cast::cast;
use arrow_ord::sort::{SortColumn, lexsort_to_indices};
use arrow_schema::{DataType, SchemaRef, SortOptions};
use arrow_select::take::take_record_batch;
use tidegate::columns::expression::{Expr, parse_row_sql};
use tidegate::query::aggregate::{Aggregate, Aggregation, Design, Function, Windows, stream_names};
use tidegate::stream::{self, AggregateOptions, Operator};
use tidegate::{Driver, Result, Stop, Table};

use crate::draw::Draw;
use crate::joins::{late, used};
use crate::oracle::Side;
use crate::play::{self, Feed, Way};
use crate::rows::{Layout, Number, Rows, assert_same, batch_of, concat, pick};
use crate::windows::{Group, Span};

/// An aggregation of streams that share a layout.
#[derive(Debug)]
pub(crate) struct Query {
    layout: Layout,
    span: Span,
    keys: usize,
    aggregates: Vec<Counted>,
    condition: Option<&'static str>,
}

/// Conditions on single rows; [`holds`] evaluates them.
const CONDITIONS: [&str; 3] = ["s = 'a'", "id % 3 != 1", "g IS NULL"];

fn holds(condition: Option<&str>, all: &Side, row: usize) -> bool {
    let batch = &all.rows.batch;
    match condition {
        None => true,
        Some("s = 'a'") => {
            let text = batch.column_by_name("s").expect("a column").as_string::<i32>();
            text.is_valid(row) && text.value(row) == "a"
        }
        Some("g IS NULL") => all.rows.keys[row][1].is_none(),
        Some(_) => {
            batch.column_by_name("id").expect("a column").as_primitive::<UInt32Type>().value(row)
                % 3
                != 1
        }
    }
}

/// A function, its column, and the condition that selects rows.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) function: Function,
    pub(crate) column: Option<&'static str>,
    pub(crate) condition: Option<&'static str>,
}

impl Counted {
    pub(crate) fn draw(draw: &mut Draw<'_>) -> Self {
        let function = match draw.pick(&Function::ALL) {
            // The tables have no Boolean values.
            Function::Any | Function::All => Function::Count,
            function => function.clone(),
        };
        let column = match function {
            Function::Count => draw.pick(&[None, Some("x"), Some("s")]),
            Function::Sum
            | Function::Mean
            | Function::Var
            | Function::Std
            | Function::Product
            | Function::Covar
            | Function::Corr
            | Function::Median
            | Function::WeightedMean
            | Function::TimeWeightedMean
            | Function::EwmMean(_) => Some("x"),
            _ => Some(draw.pick(&["x", "s"])),
        };
        Counted { function, column, condition: drawn_condition(draw) }
    }

    /// Returns the aggregate for the result column with this number.
    pub(crate) fn aggregate(&self, nth: usize) -> Aggregate {
        let columns = self.column.into_iter().chain(second(&self.function));
        Aggregate {
            name: format!("a{nth}"),
            function: self.function.clone(),
            columns: columns.map(str::to_owned).collect(),
            predicate: self.condition.map(parsed),
            interval: None,
        }
    }

    /// Returns the rows that satisfy the condition.
    pub(crate) fn counted(&self, rows: &[usize], all: &Side) -> Vec<usize> {
        rows.iter().copied().filter(|&row| holds(self.condition, all, row)).collect()
    }
}

fn drawn_condition(draw: &mut Draw<'_>) -> Option<&'static str> {
    draw.once_in(4).then(|| draw.pick(&CONDITIONS))
}

fn parsed(condition: &str) -> Expr {
    parse_row_sql(condition).expect("a valid condition")
}

impl Query {
    pub(crate) fn draw(draw: &mut Draw<'_>) -> Self {
        let mut layout = Layout::draw(draw);
        // Windows at the ends of time do not fit in 64 bits and are refused.
        layout.is_extreme = false;
        let span = Span::draw(draw, &layout);
        let aggregates = (0..draw.number(0, 4)).map(|_| Counted::draw(draw)).collect();
        Query {
            layout,
            span,
            keys: draw.number(0, 2) as usize,
            aggregates,
            condition: drawn_condition(draw),
        }
    }

    fn asked(&self, draw: &mut Draw<'_>) -> Aggregation {
        let designs = [
            None,
            Some(Design::Slices),
            Some(Design::MultiQueue),
            Some(Design::LockFreeMultiQueue),
            Some(Design::MergedSingleConsumer),
            Some(Design::MergedMultipleConsumer),
            Some(Design::WindowMerged),
        ];
        let windows = self.span.windows(&self.layout);
        Aggregation {
            on: "ts".to_owned(),
            algorithm: match windows {
                Windows::Sliding(_) => draw.pick(&designs),
                _ => None,
            },
            windows,
            empty: self.span.empty(&self.layout),
            by: ["k", "g"].iter().take(self.keys).map(|&key| key.into()).collect(),
            aggregates: self
                .aggregates
                .iter()
                .enumerate()
                .map(|(nth, one)| one.aggregate(nth))
                .collect(),
            predicate: self.condition.map(parsed),
            threads: draw.pick(&[1, 1, 2, 3]),
            max_rows: None,
        }
    }

    /// Draws the rows of all sources, the number of sources, and how far rows may be out of order.
    pub(crate) fn sources(&self, draw: &mut Draw<'_>) -> (Rows, usize, i128) {
        let rows = match draw.pick(&[6, 0, 1, 14, 30, 3000]) {
            3000 => self.layout.rows(&mut draw.seeded(), 0, 3000),
            few => self.layout.rows(draw, 0, few),
        };
        (rows, draw.number(1, 3) as usize, draw.signed(0, 3) * self.layout.tick())
    }

    pub(crate) fn feeds(
        &self,
        rows: &Rows,
        sources: usize,
        lateness: i128,
        draw: &mut Draw<'_>,
    ) -> Vec<Feed> {
        play::feeds(draw, rows, sources, lateness, (self.layout.steps()[0], self.layout.tick()))
    }

    pub(crate) fn stream(
        &self,
        schema: &SchemaRef,
        sources: usize,
        lateness: i128,
        draw: &mut Draw<'_>,
    ) -> Result<Operator> {
        let options = AggregateOptions {
            sources,
            lateness: self.layout.lateness(lateness),
            memory_limit: None,
        };
        stream::aggregate(&self.asked(draw), schema.clone(), &options)
    }
}

/// Draws an aggregation and sources, aggregates them in several ways and compares the results.
pub(crate) fn aggregate(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let draw = &mut draw;
    let query = Query::draw(draw);
    let (rows, sources, lateness) = query.sources(draw);
    let feeds = query.feeds(&rows, sources, lateness, draw);
    let turns = play::turns(draw, &feeds);

    let tables: Vec<RecordBatch> =
        feeds.iter().map(|feed| feed.rows.take(&feed.sort_out().0).batch).collect();
    let whole = of_tables(&query, &tables, draw);
    for _ in 0..2 {
        assert_same(&of_tables(&query, &tables, draw), &whole, &query);
    }
    against_oracle(&query, &whole, &used(&feeds, 0));

    let schema = rows.batch.schema();
    let mut states = Vec::new();
    for way in Way::all(draw) {
        let mut make = || query.stream(&schema, sources, lateness, draw);
        let found = play::play(&feeds, &turns, way, &mut make);
        let found = found.unwrap_or_else(|error| panic!("{error:?}; {way:?}; {query:#?}"));
        match query.span.is_in_order() {
            // Other windows are emitted when they end.
            false => {
                assert_same(&by_window(&found.rows, &query), &by_window(&whole, &query), &query);
            }
            true => assert_same(&found.rows, &whole, &query),
        }
        assert_eq!(found.late, late(&feeds), "{query:#?}");
        states.push(found.states);
    }
    assert!(states[0] == states[1], "equal histories must yield equal bytes: {query:#?}");
}

fn of_tables(query: &Query, tables: &[RecordBatch], draw: &mut Draw<'_>) -> RecordBatch {
    let asked = query.asked(draw);
    let driver = Driver::new(asked.threads, Stop::default());
    let names = stream_names(tables.len());
    let table = |(name, batch): (String, &RecordBatch)| {
        let cut = batch.num_rows() / 2;
        let parts = vec![batch.slice(0, cut), batch.slice(cut, batch.num_rows() - cut)];
        Table::new(name, batch.schema(), parts, &driver)
    };
    let schemas: Vec<SchemaRef> = tables.iter().map(RecordBatch::schema).collect();
    let run = || -> Result<RecordBatch> {
        let tables = names.into_iter().zip(tables).map(table).collect::<Result<_>>()?;
        Ok(concat(&asked.schema(&schemas)?, &asked.run(tables, Stop::default())?))
    };
    run().unwrap_or_else(|error| panic!("{error:?}; {query:#?}"))
}

/// Sorts a result by window, then key. The sessions of a stream are emitted in order of their ends.
fn by_window(rows: &RecordBatch, query: &Query) -> RecordBatch {
    let ends = query.span.is_ordered_by_end().then_some(1);
    let columns = [0].into_iter().chain(ends).chain(2..2 + query.keys);
    // Several row-based windows of a key may begin at the same time.
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows.num_rows() as i64));
    let columns: Vec<SortColumn> = columns
        .map(|at| rows.column(at).clone())
        .chain([numbers])
        .map(|values| SortColumn {
            values,
            options: Some(SortOptions { descending: false, nulls_first: false }),
        })
        .collect();
    take_record_batch(rows, &lexsort_to_indices(&columns, None).expect("sortable columns"))
        .expect("rows of the batch")
}

/// Panics unless the windows, the keys and all exact aggregates agree with those computed from all
/// rows of each window.
fn against_oracle(query: &Query, found: &RecordBatch, all: &Side) {
    let groups = groups(query, all);
    let firsts = || groups.iter().map(|group| Some(group.key));
    let step = query.layout.steps()[0];
    let times = |of: fn(&Group) -> i128| -> ArrayRef {
        let values: Int64Array = groups.iter().map(|group| (of(group) / step) as i64).collect();
        // A date column is built from a number of days.
        let narrow = if *found.column(0).data_type() == DataType::Date32 {
            DataType::Int32
        } else {
            DataType::Int64
        };
        cast(&values, &narrow)
            .and_then(|values| cast(&values, found.column(0).data_type()))
            .expect("times")
    };
    let mut columns = vec![times(|group| group.start), times(|group| group.end)];
    let mut places: Vec<usize> = vec![0, 1];
    for (key, name) in ["k", "g"].into_iter().enumerate().take(query.keys) {
        // A group of both zeros may have either as its key.
        if !(key == 0 && found.column(2).data_type().is_floating()) {
            columns.push(pick(all.rows.batch.column_by_name(name).expect("a key"), firsts()));
            places.push(2 + key);
        }
    }
    for (nth, one) in query.aggregates.iter().enumerate() {
        let values = |group: &Group| -> Vec<usize> {
            // Counts are 0 in windows without rows.
            let copied = group.copied.as_ref().filter(|_| !matches!(one.function, Function::Count));
            one.counted(copied.unwrap_or(&group.rows), all)
        };
        let windows: Vec<Vec<usize>> = groups.iter().map(values).collect();
        if let Some(wanted) = exact(&one.function, one.column, &windows, all) {
            columns.push(wanted);
            places.push(2 + query.keys + nth);
        }
    }
    let schema = found.schema();
    let named = places
        .iter()
        .zip(columns)
        .map(|(&at, column)| (schema.field(at).name().clone(), column))
        .collect();
    assert_same(
        &found.project(&places).expect("columns of the result"),
        &batch_of(named, groups.len()),
        query,
    );
}

/// Returns all windows that contain rows, in the order of the result.
fn groups(query: &Query, all: &Side) -> Vec<Group> {
    let mut order: Vec<usize> =
        (0..all.rows.len()).filter(|&row| holds(query.condition, all, row)).collect();
    order.sort_by_key(|&row| all.places[row]);
    // Nulls sort last.
    let key = |row: usize| {
        [0, 1].map(|at| if at < query.keys { all.rows.keys[row][at].unwrap_or(u8::MAX) } else { 0 })
    };
    query.span.groups(&order, all, &query.layout, key)
}

/// Returns the second column of a function of two columns.
fn second(function: &Function) -> Option<&'static str> {
    use Function::{ArgMax, ArgMin, Corr, Covar, WeightedMean};
    matches!(function, WeightedMean | ArgMin | ArgMax | Covar | Corr).then_some("x")
}

/// Returns an aggregate of each window's rows, unless it depends on the order of additions.
pub(crate) fn exact(
    function: &Function,
    column: Option<&str>,
    windows: &[Vec<usize>],
    all: &Side,
) -> Option<ArrayRef> {
    let own = column.map(|name| all.rows.batch.column_by_name(name).expect("a column"));
    let of_each = |of: &dyn Fn(&[usize]) -> Option<usize>| {
        own.map(|own| pick(own, windows.iter().map(|rows| of(rows))))
    };
    let valid = |rows: &[usize]| -> Vec<usize> {
        rows.iter().copied().filter(|&row| own.is_none_or(|own| own.is_valid(row))).collect()
    };
    let is_less =
        |a: &usize, b: &usize| compare(own.expect("only count has no column"), all, *a, *b);
    let known = |rows: &[usize]| -> Vec<usize> {
        rows.iter().copied().filter(|&row| all.rows.values[row].is_some()).collect()
    };
    let by_x = |a: &usize, b: &usize| {
        compare(all.rows.batch.column_by_name("x").expect("a column"), all, *a, *b)
    };
    match function {
        Function::ArgMin => of_each(&|rows| known(rows).into_iter().min_by(by_x)),
        // Of equal values, the first is chosen.
        Function::ArgMax => of_each(&|rows| known(rows).into_iter().rev().max_by(by_x)),
        Function::Count => Some(Arc::new(
            windows.iter().map(|rows| Some(valid(rows).len() as i64)).collect::<Int64Array>(),
        )),
        Function::First => of_each(&|rows| rows.first().copied()),
        Function::Last => of_each(&|rows| rows.last().copied()),
        Function::Min => {
            of_each(&|rows| valid(rows).into_iter().min_by(is_less)).map(with_one_zero)
        }
        Function::Max => {
            of_each(&|rows| valid(rows).into_iter().max_by(is_less)).map(with_one_zero)
        }
        Function::Sum => {
            let sum = |rows: &Vec<usize>| -> Option<i128> {
                let whole = |row: &usize| match all.rows.values[*row] {
                    Some(Number::Whole(whole)) => Some(whole),
                    _ => None,
                };
                let values: Vec<i128> = rows.iter().filter_map(whole).collect();
                (!values.is_empty()).then(|| values.iter().sum())
            };
            match own.expect("a sum has a column").data_type() {
                DataType::Float64 => None,
                DataType::Decimal128(..) => {
                    let sums = windows
                        .iter()
                        .map(|rows| sum(rows).map(|sum| sum * 100))
                        .collect::<Decimal128Array>();
                    Some(Arc::new(sums.with_precision_and_scale(38, 2).expect("a scale of two")))
                }
                _ => Some(Arc::new(
                    windows
                        .iter()
                        .map(|rows| sum(rows).map(|sum| sum as i64))
                        .collect::<Int64Array>(),
                )),
            }
        }
        Function::Mean
        | Function::Var
        | Function::Std
        | Function::Product
        | Function::WeightedMean
        | Function::TimeWeightedMean
        | Function::EwmMean(_)
        | Function::FirstRows(_)
        | Function::LastRows(_)
        | Function::Top(_)
        | Function::Any
        | Function::All
        | Function::Covar
        | Function::Corr
        | Function::Median
        | Function::Quantile(_)
        | Function::CountDistinct
        | Function::Collect
        | Function::Udf(_)
        | Function::User(_) => None,
    }
}

/// Replaces -0.0 by 0.0, as minima and maxima do.
fn with_one_zero(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(|x| x + 0.0))
        }
        _ => values,
    }
}

/// The order of values for minima and maxima: strings by bytes, NaN above all other floats, and
/// both zeros equal.
fn compare(own: &ArrayRef, all: &Side, a: usize, b: usize) -> Ordering {
    match own.data_type() {
        DataType::Utf8 => own.as_string::<i32>().value(a).cmp(own.as_string::<i32>().value(b)),
        _ => match (all.rows.values[a], all.rows.values[b]) {
            (Some(Number::Float(a)), Some(Number::Float(b))) => (a + 0.0).total_cmp(&(b + 0.0)),
            (Some(Number::Whole(a)), Some(Number::Whole(b))) => a.cmp(&b),
            _ => unreachable!("nulls are removed"),
        },
    }
}

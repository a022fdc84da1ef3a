//! An aggregation that has been checked against the schemas of all its tables.
//!
//! Long because each function has its own rules for the columns that it accepts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use tidegate_operators::aggregate::{Calendar, CalendarUnit, Quantile, Windows};

use super::fill::{Fill, FillPlan};
use super::group_key::GroupKey;
use super::inputs::{InputPlan, in_table, input};
use super::listed::WindowList;
use super::row_counts::RowCounts;
use super::session_gaps::{GapCheck, GapColumn, SessionGap};
use super::value_types::{is_number, is_ordered, leaf, list_item, meaning};
use super::windows::{DescribedWindows, positive};
use super::{Aggregate, Aggregation, Design, Function, OwnInterval, Takes, own_interval_refused};
use crate::columns::expression::{Origin, Predicate};
use crate::columns::faults::Faults;
use crate::columns::keys::{KeyColumn, beyond_64_bits, common_type};
use crate::columns::metadata::{self, check_extensions, of_both};
use crate::columns::table::{Names, column};
use crate::columns::time::{Length, Unit};
use crate::columns::type_name::TypeName;
use crate::query::result_windows::ResultWindows;
use crate::{Error, Result};

/// The columns that are read from the tables, and the columns that are computed from them.
#[derive(Debug)]
pub(crate) struct AggregatePlan {
    pub(crate) unit: Unit,
    pub(crate) span: WindowSpan,
    pub(crate) described: DescribedWindows,
    /// The windows without rows, if they are in the result.
    pub(crate) fill: Option<FillPlan>,
    /// The key columns, as positions among the columns that functions read.
    pub(crate) by: Vec<KeyColumn>,
    pub(crate) functions: FunctionsPlan,
    pub(crate) tables: Vec<TablePlan>,
    pub(crate) schema: SchemaRef,
}

/// The functions, and the columns that they read.
#[derive(Debug)]
pub(crate) struct FunctionsPlan {
    /// The columns from which keys and values are read. The types of these columns are the common
    /// types to which each table's columns are converted.
    pub(crate) read: SchemaRef,
    pub(crate) outputs: Vec<OutputPlan>,
    /// The record of results that cannot be computed. If `None`, such results cause an error.
    pub(crate) faults: Option<Faults>,
}

impl AggregatePlan {
    /// Makes the plan's conditions and functions record each failure to compute a value.
    pub(crate) fn noting(mut self, faults: &Faults) -> Self {
        self.functions.faults = Some(faults.clone());
        for table in &mut self.tables {
            table.rows = table.rows.take().map(|rows| rows.noting(faults));
            table.inputs.note(faults);
        }
        self
    }
}

/// The windows, in steps of the time unit.
#[derive(Clone, Debug)]
pub(crate) enum WindowSpan {
    Windows(Windows),
    /// Sessions. A session ends when the gaps of all its rows have elapsed.
    Sessions(SessionGap),
    /// Row-based windows over the rows of each key.
    Rows(RowCounts),
    /// Windows that are listed in a table.
    Listed(Arc<WindowList>),
}

impl WindowSpan {
    /// Returns the number of steps by which times are reduced before windows are computed.
    pub(crate) fn behind(&self) -> i64 {
        match self {
            WindowSpan::Windows(windows) => windows.behind(),
            WindowSpan::Sessions(_) | WindowSpan::Rows(_) | WindowSpan::Listed(_) => 0,
        }
    }

    /// Returns the column that contains the gaps of sessions, if there is one.
    pub(crate) fn gap_column(&self) -> Option<&GapColumn> {
        match self {
            WindowSpan::Sessions(SessionGap::OfRows(column)) => Some(column),
            _ => None,
        }
    }

    /// Returns whether the bounds of all windows that contain any of these times fit in 64 bits.
    pub(crate) fn fits_all(&self, ts: &[i64]) -> bool {
        let ends = [ts.iter().min(), ts.iter().max()];
        ends.into_iter().flatten().all(|ts| self.fits(*ts))
    }

    /// Returns whether the bounds of all windows that contain this time fit in 64 bits.
    pub(crate) fn fits(&self, ts: i64) -> bool {
        match self {
            WindowSpan::Windows(windows) => windows.fit(ts.saturating_sub(windows.behind()), ts),
            WindowSpan::Sessions(SessionGap::Fixed(gap)) => ts.checked_add(*gap).is_some(),
            // `GapColumn` checks the ends of such sessions.
            WindowSpan::Sessions(SessionGap::OfRows(_)) => true,
            WindowSpan::Rows(_) | WindowSpan::Listed(_) => true,
        }
    }
}

/// The time span of the rows from which a result is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// If set, the first row can be earlier than this time. Its value then holds from this time on.
    pub(crate) start: Option<i64>,
    pub(crate) end: i64,
}

/// The columns that are read from one table.
#[derive(Debug)]
pub(crate) struct TablePlan {
    pub(crate) time: usize,
    pub(crate) rows: Option<Predicate>,
    pub(crate) inputs: InputPlan,
}

/// One aggregate.
#[derive(Debug)]
pub(crate) struct OutputPlan {
    pub(crate) name: String,
    pub(crate) function: Function,
    /// The positions of the function's columns in `read`.
    pub(crate) columns: Vec<usize>,
    /// The half-life of the weights, in units of the times.
    pub(crate) half_life: Option<i64>,
}

impl OutputPlan {
    /// Creates a plan for an aggregate of these columns, given the unit of the times if the function
    /// needs times.
    fn new(aggregate: &Aggregate, columns: Vec<usize>, unit: Option<Unit>) -> Result<Self> {
        let (name, function) = (aggregate.name.clone(), aggregate.function.clone());
        let half_life = match (&function, unit) {
            (Function::EwmMean(half_life), Some(unit)) => Some(
                positive("half_life", *half_life, unit)
                    .map_err(|error| error.within(&format!("aggs: `{name}`")))?,
            ),
            _ => None,
        };
        Ok(OutputPlan { name, function, columns, half_life })
    }

    /// Returns the function's column, or the first one if there are several.
    pub(crate) fn column(&self) -> Option<usize> {
        self.columns.first().copied()
    }

    /// Returns whether every result is an unchanged value from this column.
    fn has_values_of(&self, of: &Field, data_type: &DataType) -> bool {
        use Function::{ArgMax, ArgMin, First, Last, Max, Min};
        matches!(self.function, First | Last | Min | Max | ArgMin | ArgMax)
            && of.data_type() == data_type
    }

    /// Returns the column whose values the function reads, if any.
    pub(crate) fn taken(&self) -> Option<usize> {
        match self.function {
            _ if self.function.takes() == Takes::Rows => None,
            Function::ArgMin | Function::ArgMax | Function::Top(_) => self.columns.get(1).copied(),
            _ => self.column(),
        }
    }

    /// Returns the column by which the function chooses a row.
    pub(crate) fn chosen(&self) -> Option<usize> {
        let is_arg =
            matches!(self.function, Function::ArgMin | Function::ArgMax | Function::Top(_));
        self.column().filter(|_| is_arg || self.function.takes() == Takes::Rows)
    }
}

impl AggregatePlan {
    pub(crate) fn new(query: &Aggregation, tables: &[(String, &Schema)]) -> Result<Self> {
        if tables.is_empty() {
            return Err(Error::argument("streams: expected at least one stream, got none"));
        }
        let times: Vec<usize> = tables
            .iter()
            .map(|(name, schema)| column(name, schema, &query.on, "on"))
            .collect::<Result<_>>()?;
        let fields: Vec<&Field> =
            tables.iter().zip(&times).map(|((_, schema), at)| schema.field(*at)).collect();
        let unit = unit_of(query, tables, &fields)?;
        let names = read_names(query);
        let columns: Vec<Names<'_>> = tables.iter().map(|(_, schema)| Names::new(schema)).collect();
        let read = Arc::new(read_schema(tables, &columns, &names)?);
        let of_read: HashMap<&str, usize> = names.iter().map(|(name, _)| *name).zip(0..).collect();
        let by = query.by.iter().map(|key| KeyColumn::of_group(of_read[&*key.value], &read));
        let by = by.collect::<Result<Vec<_>>>()?;
        let gap = |text: &str| {
            let at = of_read[text];
            GapColumn::new(at, read.field(at), unit)
        };
        let (span, described) = span(query, unit, &fields, &key_fields(query, &read, &by), gap)?;
        let table =
            |(((name, schema), columns), time): ((&(String, &Schema), &Names<'_>), &usize)| {
                let bind = |expr| {
                    Predicate::bind_row(expr, schema)
                        .map_err(|error| in_table(name, tables.len(), error))
                };
                Ok(TablePlan {
                    time: *time,
                    rows: query.predicate.as_ref().map(bind).transpose()?,
                    inputs: InputPlan {
                        read: names
                            .iter()
                            .map(|(read, role)| Ok(input(name, schema, columns, read, role)?.1))
                            .collect::<Result<_>>()?,
                        predicates: query
                            .aggregates
                            .iter()
                            .map(|aggregate| aggregate.predicate.as_ref().map(bind).transpose())
                            .collect::<Result<_>>()?,
                    },
                })
            };
        let output = |aggregate| of_windows(aggregate, &of_read, unit);
        let outputs: Vec<OutputPlan> =
            query.aggregates.iter().map(output).collect::<Result<_>>()?;
        let functions = FunctionsPlan { read, outputs, faults: None };
        let schema = schema((query, &by), &window_type(&fields, unit), &functions, tables)?;
        let fill = fill_plan(query, &functions, &schema, (fields[0], unit))?;
        let tables = tables.iter().zip(&columns).zip(&times).map(table).collect::<Result<_>>()?;
        Ok(AggregatePlan { unit, span, described, fill, by, functions, tables, schema })
    }

    /// Describes the windows without rows.
    fn describe_fill(&self, fill: &FillPlan) -> String {
        let value = |(output, fill): (&OutputPlan, &Fill)| {
            format!("{} {}", output.name, format!("{fill:?}").to_lowercase())
        };
        let values: Vec<String> =
            self.functions.outputs.iter().zip(&fill.fills).map(value).collect();
        let until = match fill.keep {
            None => "between the first and last rows of a key".to_owned(),
            Some(keep) => format!("up to {} after a window with rows", self.unit.length(keep)),
        };
        let unit = self.unit.name();
        let bound = |word: &str, time: Option<i64>| {
            time.map_or(String::new(), |time| format!(", {word} {time} ({unit})"))
        };
        let until = until + &bound("from", fill.start) + &bound("to", fill.end);
        format!("  empty      windows {until}: {}", values.join(", "))
    }

    /// Returns the windows of the result, unless it has sessions.
    pub(crate) fn result_windows(&self) -> Option<ResultWindows> {
        match &self.span {
            WindowSpan::Windows(windows) => Some(ResultWindows::new(windows.clone(), self.unit)),
            WindowSpan::Sessions(_) | WindowSpan::Rows(_) | WindowSpan::Listed(_) => None,
        }
    }

    pub(crate) fn explain(&self, query: &Aggregation, streams: usize) -> String {
        let mut lines = self.describe(query);
        lines.insert(1, format!("  streams    {streams}"));
        let (algorithm, memory) = match self.span {
            WindowSpan::Windows(_) => (
                format!(
                    "{}; a result is one combination; O(rows + results)",
                    design(query.algorithm)
                ),
                "8 bytes per row + 4 to 24 bytes per aggregate, slice and key",
            ),
            WindowSpan::Sessions(_) => (
                "one pass over all rows in merged order for the sessions, and one for each \
                 aggregate; O(n log n)"
                    .to_owned(),
                "56 bytes per row + 4 to 24 bytes per aggregate and session",
            ),
            WindowSpan::Rows(_) => (
                "the partners of an interval join of windows with rows, by the number of each row \
                 within its key; O(rows + results)"
                    .to_owned(),
                "24 bytes per row + 16 to 64 bytes per aggregate and row",
            ),
            WindowSpan::Listed(_) => (
                "one pass over all rows for the windows and keys that have rows, and an interval \
                 join of these with the rows, which are added one by one"
                    .to_owned(),
                "24 bytes per row + 32 bytes per result",
            ),
        };
        lines.extend([
            format!("  algorithm  {algorithm}"),
            format!("  threads    {}", query.threads),
            format!("  memory     inputs + {memory} + result; rows out of time order are copied"),
        ]);
        lines.extend(self.functions.explain_all_values(false));
        let columns = self.schema.fields().len();
        lines.push(format!("  output     {columns} columns, ordered by window, then key"));
        lines.join("\n")
    }

    /// Describes the query, line by line.
    pub(crate) fn describe(&self, query: &Aggregation) -> Vec<String> {
        let unit = self.unit.name();
        let windows = match &self.span {
            WindowSpan::Windows(windows) => {
                let (size, advance, offset) = windows.lengths();
                let unit = match windows.calendar().map(Calendar::unit) {
                    None => unit,
                    Some(CalendarUnit::Day) => "days since 1970-01-01",
                    Some(CalendarUnit::Month) => "months since 1970-01",
                };
                let growing = match windows.grow() {
                    true => ", and shorter ones that begin with these and end after each step",
                    false => "",
                };
                let (open, close) = if windows.behind() > 0 { ('(', ']') } else { ('[', ')') };
                format!(
                    "{open}k * {advance} + {offset}, k * {advance} + {offset} + {size}{close} \
                     {unit}{growing}"
                )
            }
            WindowSpan::Sessions(gap) => gap.describe(self.unit),
            WindowSpan::Listed(list) => {
                let keys: Vec<&str> = list
                    .keys
                    .iter()
                    .map(|key| list.table.schema().field(key.left).name().as_str())
                    .collect();
                let by = if keys.is_empty() {
                    String::new()
                } else {
                    format!(" by {}", keys.join(", "))
                };
                format!("{} windows from a table{by}", list.starts.len())
            }
            WindowSpan::Rows(RowCounts { size, advance }) => {
                format!("rows [k * {advance}, k * {advance} + {size}) of each key, in time order")
            }
        };
        let aggregates: Vec<String> = query.aggregates.iter().map(show).collect();
        let mut lines = vec![
            "aggregate".to_owned(),
            format!("  windows    {windows}, on {}", query.on),
            match query.by.is_empty() {
                true => "  key        none: all rows are one group".to_owned(),
                false => {
                    let keys: Vec<String> = query.by.iter().map(ToString::to_string).collect();
                    format!("  key        {}; null is a group", keys.join(", "))
                }
            },
        ];
        if let Some(calendar) = &self.described.calendar {
            lines.insert(2, calendar.clone());
        }
        lines.extend(query.predicate.as_ref().map(|predicate| format!("  where      {predicate}")));
        lines.push(format!("  aggregates {}", aggregates.join(", ")));
        lines.extend(self.fill.as_ref().map(|fill| self.describe_fill(fill)));
        lines
    }
}

/// Describes a design and, if it was chosen automatically, the reason for the choice.
pub(crate) fn design(design: Option<Design>) -> &'static str {
    let Some(design) = design else {
        return "slices, which is the fastest: each row goes to one slice, and each source has its \
                own states";
    };
    match design {
        Design::Slices => "slices: each row goes to one slice, and each source has its own states",
        Design::MultiQueue => {
            "MQ: a queue with a lock for each source; one thread merges rows and updates slices"
        }
        Design::LockFreeMultiQueue => {
            "MQ-LF: a lock-free queue for each source; one thread merges rows and updates slices"
        }
        Design::MergedSingleConsumer => "TuMLSC: a gate merges rows; one thread updates slices",
        Design::MergedMultipleConsumer => {
            "TuMLMC: a gate merges rows; each thread updates the slices of some keys in a hive"
        }
        Design::WindowMerged => "WiML: each source updates slices in a hive",
    }
}

/// Formats an aggregate as users write it.
pub(crate) fn show(aggregate: &Aggregate) -> String {
    let Aggregate { name, function, columns, predicate, interval } = aggregate;
    let condition =
        predicate.as_ref().map_or(String::new(), |predicate| format!(" where {predicate}"));
    let share = match function {
        Function::Quantile(quantile) => format!(", {}", quantile.share),
        Function::FirstRows(most) | Function::LastRows(most) | Function::Top(most) => {
            format!(", {most}")
        }
        Function::EwmMean(half_life) => format!(", {}", Length::Fixed(*half_life)),
        _ => String::new(),
    };
    let own = interval.as_ref().map_or(String::new(), |own| format!(" {}", show_interval(own)));
    format!("{name} = {}({}{share}){condition}{own}", function.name(), columns.join(", "))
}

/// Returns the plan of a function that aggregates the rows of windows, given the positions of the
/// columns that are read.
fn of_windows(
    aggregate: &Aggregate,
    of_read: &HashMap<&str, usize>,
    unit: Unit,
) -> Result<OutputPlan> {
    let columns = aggregate.columns.iter().map(|name| of_read[&**name]).collect();
    match aggregate.interval {
        None => OutputPlan::new(aggregate, columns, Some(unit)),
        Some(_) => Err(own_interval_refused(aggregate)),
    }
}

/// Returns the settings of a function's own interval, as in `over lower = -1h, upper = 0`.
fn show_interval(own: &OwnInterval) -> String {
    let OwnInterval { lower, upper, closed, with_prevailing } = own;
    let mut settings = Vec::new();
    for (name, end) in [("lower", lower), ("upper", upper)] {
        if let Some(end) = end {
            let end = end.map_or("None".to_owned(), |end| Length::Fixed(end).to_string());
            settings.push(format!("{name} = {end}"));
        }
    }
    settings.extend(closed.map(|closed| format!("closed = {closed:?}").to_lowercase()));
    settings.extend(with_prevailing.map(|is_set| format!("prevailing = {is_set}")));
    format!("over {}", settings.join(", "))
}

/// Returns the finest unit of all time columns and of the windows, if they are listed in a table.
fn unit_of(query: &Aggregation, tables: &[(String, &Schema)], fields: &[&Field]) -> Result<Unit> {
    let super::Windows::Listed(windows) = &query.windows else {
        return common_unit(tables, fields);
    };
    let (mut tables, mut fields) = (tables.to_vec(), fields.to_vec());
    for bound in windows.bounds()? {
        tables.push(("windows".to_owned(), windows.schema()));
        fields.push(windows.schema().field(bound));
    }
    common_unit(&tables, &fields)
}

/// Returns the finest unit of all time columns.
fn common_unit(tables: &[(String, &Schema)], fields: &[&Field]) -> Result<Unit> {
    let zoned = |field: &Field| matches!(field.data_type(), DataType::Timestamp(_, Some(_)));
    let mut common = Unit::of(&tables[0].0, fields[0])?;
    for ((name, _), field) in tables.iter().zip(fields).skip(1) {
        let refuse = |why: &str| {
            Error::schema(format!(
                "{why}: column `{}` is {} in {} and {} in {name}",
                field.name(),
                TypeName(fields[0].data_type()),
                tables[0].0,
                TypeName(field.data_type())
            ))
        };
        common = match (common, Unit::of(name, field)?) {
            (Unit::Integer, Unit::Integer) => Unit::Integer,
            (Unit::Nanoseconds(_), Unit::Nanoseconds(_)) if zoned(field) != zoned(fields[0]) => {
                return Err(refuse(
                    "times with and without a time zone cannot be compared; add a time zone to all of them, or remove it from all of them",
                ));
            }
            (Unit::Nanoseconds(a), Unit::Nanoseconds(b)) => Unit::Nanoseconds(a.min(b)),
            _ => return Err(refuse("an integer and a time cannot be compared")),
        };
    }
    Ok(common)
}

fn span(
    query: &Aggregation,
    unit: Unit,
    fields: &[&Field],
    keys: &[Field],
    gap_column: impl Fn(&str) -> Result<GapColumn>,
) -> Result<(WindowSpan, DescribedWindows)> {
    match &query.windows {
        super::Windows::Sliding(sliding) => {
            let is_closed_right = sliding.is_closed_right;
            let sliding = sliding.of_times(fields)?;
            let mut described = DescribedWindows::new(&query.windows, Some(&sliding));
            let mut windows = sliding.in_steps(unit)?;
            if is_closed_right {
                windows = windows.closed_right();
                described.identity.push_str(", closed on the right");
            }
            Ok((WindowSpan::Windows(windows), described))
        }
        super::Windows::Session(gap) if query.algorithm.is_none() => {
            let described = DescribedWindows::new(&query.windows, None);
            let gap = SessionGap::Fixed(positive("session", *gap, unit)?);
            Ok((WindowSpan::Sessions(gap), described))
        }
        super::Windows::SessionOf(gap) if query.algorithm.is_none() => {
            let described = DescribedWindows::new(&query.windows, None);
            Ok((WindowSpan::Sessions(SessionGap::OfRows(gap_column(gap)?)), described))
        }
        super::Windows::Session(_) | super::Windows::SessionOf(_) => Err(Error::argument(
            "algorithm: sessions have their own algorithm; omit this argument, \
             or choose windows with a size",
        )),
        super::Windows::Rows(counts) if query.algorithm.is_none() => {
            Ok((WindowSpan::Rows(*counts), DescribedWindows::new(&query.windows, None)))
        }
        super::Windows::Listed(table) if query.algorithm.is_none() => {
            let (list, described) = table.list(keys, unit)?;
            Ok((WindowSpan::Listed(Arc::new(list)), described))
        }
        super::Windows::Listed(_) => Err(Error::argument(
            "algorithm: windows from a table have their own algorithm; omit this argument, or \
             choose windows with a size",
        )),
        super::Windows::Rows(_) => Err(Error::argument(
            "algorithm: row-based windows have their own algorithm; omit this argument, or give \
             size as a duration",
        )),
    }
}

fn fill_plan(
    query: &Aggregation,
    functions: &FunctionsPlan,
    schema: &Schema,
    on: (&Field, Unit),
) -> Result<Option<FillPlan>> {
    let Some(empty) = &query.empty else { return Ok(None) };
    if matches!(query.windows, super::Windows::Session(_) | super::Windows::SessionOf(_)) {
        return Err(Error::argument(
            "empty cannot be combined with session, because sessions always have rows; leave one out",
        ));
    }
    if matches!(query.windows, super::Windows::Listed(_)) {
        return Err(Error::argument(
            "empty cannot be combined with windows; join the table of windows with the result to \
             get those without rows, or leave empty out",
        ));
    }
    if matches!(query.windows, super::Windows::Rows(_)) {
        return Err(Error::argument(
            "empty cannot be combined with a number of rows as size, because such windows always \
             have rows; leave empty out, or give size as a duration",
        ));
    }
    let fields = &schema.fields()[2 + query.by.len()..];
    let mut outputs = Vec::with_capacity(functions.outputs.len());
    for OutputPlan { name, function, .. } in &functions.outputs {
        outputs.push((&**name, matches!(function, Function::Count | Function::CountDistinct)));
    }
    empty.plan(&outputs, fields, on).map(Some)
}

/// Returns the names and expressions that are read, each once, with the argument that contains it.
fn read_names(query: &Aggregation) -> Vec<(&str, &'static str)> {
    let of_keys = query.by.iter().map(|key| (&*key.value, "by"));
    let gap = match &query.windows {
        super::Windows::SessionOf(gap) => Some((&**gap, "session")),
        _ => None,
    };
    let columns = query.aggregates.iter().flat_map(|aggregate| &aggregate.columns);
    let of_aggregates = columns.map(|name| (&**name, "aggs"));
    let mut known = HashSet::new();
    let every = of_keys.chain(gap).chain(of_aggregates);
    every.filter(|(name, _)| known.insert(*name)).collect()
}

/// Returns the columns that are read. Each type can hold the values from all tables.
fn read_schema(
    tables: &[(String, &Schema)],
    columns: &[Names<'_>],
    names: &[(&str, &'static str)],
) -> Result<Schema> {
    let field = |&(name, role): &(&str, &'static str)| {
        let owned = tables
            .iter()
            .zip(columns)
            .map(|((table, schema), columns)| Ok(input(table, schema, columns, name, role)?.0))
            .collect::<Result<Vec<Field>>>()?;
        let fields: Vec<&Field> = owned.iter().collect();
        let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
        if let Some(integers) = beyond_64_bits(&types) {
            let nullable = fields.iter().any(|field| field.is_nullable());
            let (first, others) = (fields[0].clone(), fields[1..].iter());
            let common = others.fold(first, |common, field| of_both(&common, field));
            return Ok(common.with_data_type(integers).with_nullable(nullable));
        }
        let mut common: Option<Field> = None;
        for ((table, _), field) in tables.iter().zip(fields) {
            common = Some(match common {
                None => field.clone(),
                Some(common) if common.data_type() == field.data_type() => {
                    check_extensions(&common, &tables[0].0, field, table)?;
                    let nullable = common.is_nullable() || field.is_nullable();
                    of_both(&common, field).with_nullable(nullable)
                }
                Some(common) => {
                    let both =
                        common_type(common.data_type(), field.data_type()).ok_or_else(|| {
                            Error::schema(format!(
                                "column `{name}` is {} in {} and {} in {table}; cast one of them",
                                TypeName(common.data_type()),
                                tables[0].0,
                                TypeName(field.data_type())
                            ))
                        })?;
                    let nullable = common.is_nullable() || field.is_nullable();
                    of_both(&common, field).with_data_type(both).with_nullable(nullable)
                }
            });
        }
        Ok(common.expect("there is a table"))
    };
    Ok(Schema::new(names.iter().map(field).collect::<Result<Vec<_>>>()?))
}

/// Returns the type of a window's start and end.
fn window_type(fields: &[&Field], unit: Unit) -> DataType {
    let unit = match unit {
        Unit::Integer => return DataType::Int64,
        Unit::Nanoseconds(1) => TimeUnit::Nanosecond,
        Unit::Nanoseconds(1_000) => TimeUnit::Microsecond,
        Unit::Nanoseconds(1_000_000) => TimeUnit::Millisecond,
        Unit::Nanoseconds(1_000_000_000) => TimeUnit::Second,
        Unit::Nanoseconds(_) => return DataType::Date32,
    };
    let zone = match fields[0].data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    DataType::Timestamp(unit, zone)
}

/// Returns the fields of the key columns in the result.
fn key_fields(query: &Aggregation, read: &Schema, by: &[KeyColumn]) -> Vec<Field> {
    let field = |(asked, key): (&GroupKey, &KeyColumn)| {
        let field = read.field(key.left).clone();
        match &asked.name {
            Some(name) => field.with_name(name),
            None => field,
        }
    };
    query.by.iter().zip(by).map(field).collect()
}

fn schema(
    (query, by): (&Aggregation, &[KeyColumn]),
    window: &DataType,
    functions: &FunctionsPlan,
    tables: &[(String, &Schema)],
) -> Result<SchemaRef> {
    let tables: Vec<&Schema> = tables.iter().map(|(_, schema)| *schema).collect();
    let mut fields = vec![
        Field::new("window_start", window.clone(), false),
        Field::new("window_end", window.clone(), false),
    ];
    fields.extend(key_fields(query, &functions.read, by));
    fields.extend(functions.fields()?);
    let mut names = HashSet::with_capacity(fields.len());
    for field in &fields {
        if !names.insert(field.name()) {
            return Err(Error::schema(format!(
                "the result would have two columns `{}`; rename the aggregate or the key",
                field.name()
            )));
        }
    }
    let (keys, results) = fields[2..].split_at(by.len());
    let keys = keys.iter().zip(by).map(|(field, key)| {
        metadata::ColumnOrigin::named(field, functions.read.field(key.left).name(), &tables)
    });
    let columns: Vec<_> = keys.chain(functions.origins(results.iter(), &tables)).collect();
    let metadata = metadata::of_groups(&tables, &columns);
    Ok(Arc::new(Schema::new_with_metadata(fields, metadata)))
}

impl FunctionsPlan {
    /// Returns the functions for the rows in one table, and the columns that are read from it.
    /// `unit` is the unit of the times. It is required if a function needs times.
    pub(crate) fn of_table(
        aggregates: &[Aggregate],
        unit: Option<Unit>,
        name: &str,
        schema: &Schema,
    ) -> Result<(Self, InputPlan)> {
        let names = Names::new(schema);
        let mut known: Vec<&str> = Vec::new();
        let mut outputs = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            let mut places = Vec::with_capacity(aggregate.columns.len());
            for column in &aggregate.columns {
                places.push(known.iter().position(|other| other == column).unwrap_or_else(|| {
                    known.push(column);
                    known.len() - 1
                }));
            }
            outputs.push(OutputPlan::new(aggregate, places, unit)?);
        }
        let read = known.iter().map(|text| input(name, schema, &names, text, "aggs"));
        let (fields, read): (Vec<Field>, _) = read.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let bind = |aggregate: &Aggregate| {
            let bind = |expr| Predicate::bind_row(expr, schema);
            aggregate.predicate.as_ref().map(bind).transpose()
        };
        let predicates = aggregates.iter().map(bind).collect::<Result<_>>()?;
        let functions =
            FunctionsPlan { read: Arc::new(Schema::new(fields)), outputs, faults: None };
        Ok((functions, InputPlan { read, predicates }))
    }

    /// Returns the explanation line that describes functions of all values, or `None` if there are
    /// no such functions. `is_alone` is true if each result is computed separately, rather than
    /// from the previous result.
    pub(crate) fn explain_all_values(&self, is_alone: bool) -> Option<String> {
        let functions = self.outputs.iter().filter(|one| one.function.is_of_all_values());
        let names: Vec<&str> = functions.map(|one| &*one.name).collect();
        let how = match is_alone {
            true => "each row's values are processed one by one",
            false => {
                "rows are sorted by key and time, 16 bytes each; a window slides over their values \
                 from result to result"
            }
        };
        (!names.is_empty()).then(|| format!("  all values {}: {how}", names.join(", ")))
    }

    /// The result's columns.
    pub(crate) fn fields(&self) -> Result<Vec<Field>> {
        let field = |output: &OutputPlan| {
            self.check_columns(output)?;
            let of = output.column().map(|at| self.read.field(at));
            self.check_second(output)?;
            // All rows in a group may be null, or excluded by a condition.
            let nullable = !matches!(output.function, Function::Count | Function::CountDistinct);
            let data_type = output_type(output, of)?;
            let metadata = of.filter(|of| output.has_values_of(of, &data_type)).map(meaning);
            Ok(Field::new(&output.name, data_type, nullable)
                .with_metadata(metadata.unwrap_or_default()))
        };
        self.outputs.iter().map(field).collect()
    }

    /// Pairs these result columns with the input columns that supply their values. A count is never
    /// null, so it is not derived from any input column.
    pub(crate) fn origins<'a>(
        &'a self,
        fields: impl Iterator<Item = &'a Field>,
        inputs: &[&'a Schema],
    ) -> impl Iterator<Item = metadata::ColumnOrigin<'a>> {
        fields.zip(&self.outputs).map(|(field, output)| match output.column() {
            Some(at) if field.is_nullable() => {
                metadata::ColumnOrigin::named(field, self.read.field(at).name(), inputs)
            }
            _ => metadata::ColumnOrigin { field, of: Vec::new() },
        })
    }
}

impl FunctionsPlan {
    /// Returns an error if there are too many or too few columns, or if a quantile has no share.
    fn check_columns(&self, output: &OutputPlan) -> Result<()> {
        let OutputPlan { name, function, columns, .. } = output;
        let wrong = |expected: &str| {
            Err(Error::argument(format!("aggs: `{name}`: {} {expected}", function.name())))
        };
        match (function, columns.len()) {
            (Function::Quantile(Quantile { share, .. }), 1) if !(0.0..=1.0).contains(share) => {
                wrong(&format!("needs a share from 0 to 1, such as 0.99; got {share}"))
            }
            (Function::FirstRows(0) | Function::LastRows(0) | Function::Top(0), _) => {
                wrong("needs a number of rows of at least 1; got 0")
            }
            (Function::Udf(_), 0) => wrong("needs a column; name one in inputs"),
            (Function::Count, 0) | (Function::Udf(_), _) => Ok(()),
            (_, 0) => wrong("needs a column"),
            (Function::WeightedMean, 1) => wrong("needs the column of the weights"),
            (function, 1) if function.is_of_two() => wrong("needs two columns"),
            (function, 2) if function.is_of_two() => Ok(()),
            (_, 1) => Ok(()),
            (_, more) => wrong(&format!("accepts one column, got {more}; leave out the others")),
        }
    }

    /// Returns an error if there is a second column and the function cannot accept it.
    fn check_second(&self, output: &OutputPlan) -> Result<()> {
        let OutputPlan { name, function, columns, .. } = output;
        let Some(of) = columns.get(1).map(|&at| self.read.field(at)) else { return Ok(()) };
        let values = leaf(of.data_type());
        let (is_right, expected) = match function {
            Function::WeightedMean | Function::Covar | Function::Corr => {
                (is_number(values), "numbers")
            }
            Function::ArgMin | Function::ArgMax | Function::Top(_) => {
                (is_ordered(values), "numbers, times, booleans, text or binary")
            }
            _ => (true, ""),
        };
        if is_right {
            return Ok(());
        }
        Err(Error::schema(format!(
            "aggs: `{name}`: {} by column `{}` of type {}: expected {expected}; cast it first",
            function.name(),
            of.name(),
            TypeName(of.data_type())
        )))
    }
}

fn output_type(output: &OutputPlan, of: Option<&Field>) -> Result<DataType> {
    let OutputPlan { name, function, .. } = output;
    let Some(of) = of else { return Ok(DataType::Int64) };
    let given = of.data_type();
    let values = leaf(given);
    let refuse = |expected: &str| {
        Error::schema(format!(
            "aggs: `{name}`: {} of column `{}` of type {}: expected {expected}; cast it first",
            function.name(),
            of.name(),
            TypeName(given)
        ))
    };
    match function {
        Function::Count => Ok(DataType::Int64),
        Function::First | Function::Last | Function::ArgMin | Function::ArgMax => Ok(given.clone()),
        Function::FirstRows(_) | Function::LastRows(_) | Function::Top(_) | Function::Collect => {
            Ok(DataType::List(list_item(of)))
        }
        Function::Udf(udf) => Ok(udf.returns.clone()),
        Function::CountDistinct if is_ordered(values) => Ok(DataType::Int64),
        Function::CountDistinct => Err(refuse("numbers, times, booleans, text or binary")),
        Function::User(user) => user.result(values).ok_or_else(|| refuse(user.expected())),
        Function::Min | Function::Max if is_ordered(values) => Ok(values.clone()),
        Function::Min | Function::Max => Err(refuse("numbers, times, booleans, text or binary")),
        Function::Any | Function::All if *values == DataType::Boolean => Ok(DataType::Boolean),
        Function::Any | Function::All => Err(refuse("booleans")),
        Function::Sum if *values == DataType::Boolean => Ok(DataType::Int64),
        Function::Mean if *values == DataType::Boolean => Ok(DataType::Float64),
        Function::Sum | Function::Mean if matches!(values, DataType::Duration(_)) => {
            Ok(values.clone())
        }
        Function::Sum | Function::Mean if !is_number(values) => {
            Err(refuse("numbers, durations or booleans"))
        }
        _ if !is_number(values) => Err(refuse("numbers")),
        Function::Sum if values.is_unsigned_integer() => Ok(DataType::UInt64),
        Function::Sum if values.is_integer() => Ok(DataType::Int64),
        Function::Sum => Ok(match values {
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
            _ => DataType::Float64,
        }),
        Function::Mean
        | Function::Var
        | Function::Std
        | Function::WeightedMean
        | Function::TimeWeightedMean
        | Function::EwmMean(_)
        | Function::Product
        | Function::Covar
        | Function::Corr
        | Function::Median
        | Function::Quantile(_) => Ok(DataType::Float64),
    }
}

impl TablePlan {
    /// Returns the check of the rows' gaps, if sessions have gaps from a column.
    pub(crate) fn gap_check<'a>(&'a self, span: &'a WindowSpan) -> Option<GapCheck<'a>> {
        let gap = span.gap_column()?;
        Some(GapCheck { gap, read: &self.inputs.read[gap.at], rows: self.rows.as_ref() })
    }

    /// Returns all columns that are read from the table.
    pub(crate) fn every(&self) -> Vec<usize> {
        let of_rows = self.rows.iter().flat_map(|predicate| predicate.columns(Origin::Left));
        let mut every = self.inputs.columns();
        every.extend(of_rows.copied().chain([self.time]));
        every.sort_unstable();
        every.dedup();
        every
    }
}

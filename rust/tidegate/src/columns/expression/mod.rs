//! Typed expressions. A join's `where` is a predicate over pairs, each of which consists of a left
//! row and a right row. An aggregation's `where` is a predicate over single rows. Other expressions
//! compute values of single rows.
//!
//! ```text
//! text ──parse_sql──▶ Expr ──Predicate::bind──▶ Predicate ──evaluate──▶ one bit a pair
//! (sql.rs)            (this file)  (bind.rs, types.rs)     (evaluate.rs, compare.rs)
//!                                              │ split
//!                                              └───────▶ comparisons between the sides, which are scanned for
//!                                                        (split.rs)
//! ```
//!
//! An [`Expr`] is untyped. [`Predicate::bind`] checks the expression once against two schemas and
//! determines the type of every operation. [`Predicate::evaluate`] then runs Arrow kernels over
//! blocks of candidate pairs.
//!
//! # Meaning
//!
//! - Nulls: SQL's three-valued logic. A pair whose predicate is null does not match.
//! - Comparisons convert values without loss. Integers of any width and sign are compared exactly
//!   (`int64` with `uint64` as `decimal128`), and so are decimals with other decimals or with
//!   integers. A float and any other number are compared as `float64`. Strings and binary values
//!   are compared byte by byte, regardless of their layout. Times are compared in the finer unit,
//!   and a date is treated as midnight on that date. Times with a time zone cannot be compared with
//!   times without one. All other comparisons are schema errors.
//! - Floats are compared as in IEEE 754, not in Arrow's total order. NaN is not equal to, less than
//!   or greater than any value, including itself, so `NaN != NaN` is true. `-0.0 = 0.0` is also
//!   true.
//! - Arithmetic uses `int64`, or `float64` if one side is a float. Arithmetic with decimals or
//!   `uint64` is exact, in `decimal128` or `decimal256`. `/` always divides in `float64`, and the
//!   result of `%` has the sign of the dividend. Subtracting one time from another yields a
//!   duration. Adding a duration to a time, or subtracting it from a time, yields a time. A
//!   duration times an integer is a duration, and a duration divided by a duration is a float.
//! - `LIKE` and `REGEXP` match characters, not bytes, and are case-sensitive; `ILIKE` is not. A
//!   backslash in a `LIKE` pattern has no special meaning.
//! - `CASE` and `coalesce` evaluate a value only for the rows that use it. All of their values are
//!   converted to a common type, which is the type for comparing them. `CAST` is exact: a value
//!   that the type cannot represent is a data error. Decimal places are the exception: a cast to an
//!   integer truncates them, and a cast to a decimal rounds them.
//! - `substr` counts characters from 1. No characters are returned for positions before the first
//!   one. `round` rounds half away from zero. `floor`, `ceil` and `round` return a decimal for a
//!   decimal, and a float for a float.
//! - Overflow causes a data error that names the expression. So does division by zero if either
//!   operand is an integer or a decimal. Floats follow IEEE 754. `and` and `or` evaluate their
//!   right side only if the left side does not determine the result. For example, `right.size != 0
//!   and left.amount / right.size > 2` is safe.
//!
//! # Files
//!
//! | file | what is in it |
//! | --- | --- |
//! | `sql.rs`, `display.rs` | conversion from text and to text |
//! | `bind.rs`, `bound.rs`, `types.rs` | expressions with the types of two schemas |
//! | `functions.rs`, `casts.rs` | functions, `CASE` and `CAST`: their types and values |
//! | `evaluate.rs`, `compare.rs`, `pattern.rs` | the values of expressions |
//! | `value.rs`, `end.rs` | the value of an expression over the rows of one table; ends of intervals |
//! | `split.rs`, `linear.rs`, `turn.rs`, `operands.rs` | the comparisons between the sides |
//! | `overflow.rs` | whether these comparisons may overflow for a pair |

mod bind;
mod bound;
mod casts;
mod compare;
mod display;
mod end;
mod evaluate;
mod functions;
mod linear;
mod operands;
mod overflow;
mod pattern;
mod split;
mod sql;
mod turn;
mod types;
mod value;

#[cfg(test)]
mod tests;

pub use bind::Predicate;
pub(crate) use end::{EndRule, is_whole_number, whole_numbers};
pub(crate) use split::{Scan, SideColumns};
pub(crate) use sql::parse_side_sql;
pub use sql::{parse_function_sql, parse_row_sql, parse_sql};
pub(crate) use types::is_text_or_binary;
pub(crate) use value::{EndCondition, RowValue};

/// The table to which a column belongs: one of a join's two tables, or an aggregation's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The left table.
    Left,
    /// The right table.
    Right,
    /// The only table.
    Row,
}

/// An expression over the columns of a left row and a right row, not yet checked against any
/// schema.
///
/// An expression is displayed as SQL text, which [`parse_sql`] parses to the same tree.
///
/// ```
/// let text = "left.price < right.bid * 1.01 AND NOT abs(left.x - right.x) BETWEEN 0 AND 5";
/// assert_eq!(tidegate::columns::expression::parse_sql(text)?.to_string(), text);
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A column of one side, by name.
    Column(Origin, String),
    /// A field of a struct, by name.
    Field(Box<Expr>, String),
    /// A value that is the same for every pair.
    Literal(Literal),
    /// An operation on one value.
    Unary(Unary, Box<Expr>),
    /// An operation on two values.
    Binary(Box<Expr>, Binary, Box<Expr>),
    /// `value BETWEEN low AND high`, with both ends included.
    Between {
        /// The value that is compared.
        value: Box<Expr>,
        /// The smallest value that matches.
        low: Box<Expr>,
        /// The largest value that matches.
        high: Box<Expr>,
    },
    /// `value IN (items)`: true if the value is equal to one of the items. The cost grows with the
    /// number of items.
    In {
        /// The value that is compared.
        value: Box<Expr>,
        /// At least one item.
        items: Vec<Expr>,
    },
    /// `value LIKE 'pattern'` or `value REGEXP 'pattern'`, where `value` is a string.
    Match {
        /// The text that is matched.
        value: Box<Expr>,
        /// The language of the pattern.
        language: Language,
        /// The pattern that the string must match.
        pattern: String,
    },
    /// `CASE WHEN condition THEN value ... ELSE otherwise END`.
    Case {
        /// One or more conditions with their values. The first condition that holds determines the
        /// result.
        branches: Vec<(Expr, Expr)>,
        /// The value if no condition holds. It is null if omitted.
        otherwise: Option<Box<Expr>>,
    },
    /// `CAST(value AS type)`.
    Cast(Box<Expr>, CastType),
    /// `EXTRACT(part FROM time)`.
    Extract(TimePart, Box<Expr>),
    /// A function of values.
    Call(ScalarFunction, Vec<Expr>),
}

impl Expr {
    /// Calls `each` with every column that the expression reads.
    pub(crate) fn for_each_column(&self, each: &mut dyn FnMut(Origin, &str)) {
        match self {
            Expr::Column(side, name) => each(*side, name),
            Expr::Literal(_) => {}
            Expr::Unary(_, x) | Expr::Field(x, _) => x.for_each_column(each),
            Expr::Binary(left, _, right) => {
                [left, right].into_iter().for_each(|x| x.for_each_column(each))
            }
            Expr::Between { value, low, high } => {
                [value, low, high].into_iter().for_each(|x| x.for_each_column(each));
            }
            Expr::In { value, items } => {
                value.for_each_column(each);
                items.iter().for_each(|x| x.for_each_column(each));
            }
            Expr::Match { value, .. } | Expr::Cast(value, _) | Expr::Extract(_, value) => {
                value.for_each_column(each);
            }
            Expr::Case { .. } | Expr::Call(..) => {
                self.parts().into_iter().for_each(|x| x.for_each_column(each));
            }
        }
    }

    /// Returns the same expression over the columns of a single table, regardless of their sides.
    pub(crate) fn of_one_table(self) -> Self {
        let boxed = |x: Box<Expr>| Box::new(x.of_one_table());
        let all = |every: Vec<Expr>| every.into_iter().map(Expr::of_one_table).collect();
        match self {
            Expr::Column(_, name) => Expr::Column(Origin::Row, name),
            Expr::Field(x, name) => Expr::Field(boxed(x), name),
            Expr::Literal(_) => self,
            Expr::Unary(operator, x) => Expr::Unary(operator, boxed(x)),
            Expr::Binary(left, operator, right) => {
                Expr::Binary(boxed(left), operator, boxed(right))
            }
            Expr::Between { value, low, high } => {
                Expr::Between { value: boxed(value), low: boxed(low), high: boxed(high) }
            }
            Expr::In { value, items } => Expr::In { value: boxed(value), items: all(items) },
            Expr::Match { value, language, pattern } => {
                Expr::Match { value: boxed(value), language, pattern }
            }
            Expr::Case { branches, otherwise } => {
                let branch = |(condition, value): (Expr, Expr)| {
                    (condition.of_one_table(), value.of_one_table())
                };
                let branches = branches.into_iter().map(branch).collect();
                Expr::Case { branches, otherwise: otherwise.map(boxed) }
            }
            Expr::Cast(x, to) => Expr::Cast(boxed(x), to),
            Expr::Extract(part, x) => Expr::Extract(part, boxed(x)),
            Expr::Call(function, arguments) => Expr::Call(function, all(arguments)),
        }
    }

    /// Returns the parts of a `CASE` or a call.
    fn parts(&self) -> Vec<&Expr> {
        match self {
            Expr::Case { branches, otherwise } => {
                let branches = branches.iter().flat_map(|(condition, value)| [condition, value]);
                branches.chain(otherwise.as_deref()).collect()
            }
            Expr::Call(_, arguments) => arguments.iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// A constant. A literal value. Times are in nanoseconds, which can represent every Arrow time
/// unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `NULL`, of any type.
    Null,
    /// `TRUE` or `FALSE`.
    Boolean(bool),
    /// An integer that fits in `int64` or `uint64`.
    Integer(i128),
    /// A number with a decimal point or an exponent.
    Float(f64),
    /// `DECIMAL '1.50'`: `value / 10^scale`, of at most 38 digits.
    Decimal {
        /// The digits as a single integer.
        value: i128,
        /// The number of digits after the decimal point.
        scale: u8,
    },
    /// `'text'`.
    Text(String),
    /// `X'00ff'`.
    Binary(Vec<u8>),
    /// `DATE '2024-01-31'`, in days since 1970-01-01.
    Date(i32),
    /// `TIMESTAMP '2024-01-31 12:00:00'`. A literal with an offset such as `+00:00` represents an
    /// instant.
    Timestamp {
        /// Nanoseconds since 1970-01-01 00:00:00, in UTC if `zoned` is true.
        nanoseconds: i128,
        /// True if the literal was written with an offset.
        zoned: bool,
    },
    /// `INTERVAL '5 seconds'`. The length of an interval is fixed, so its units can be weeks or
    /// shorter, but not months or years.
    Duration {
        /// The length.
        nanoseconds: i128,
    },
}

/// The language in which a string pattern is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `LIKE`: `%` matches any string, `_` matches any character, and all other characters match
    /// themselves. The pattern must match the whole string.
    Like,
    /// `ILIKE`: like `LIKE`, but case-insensitive.
    ILike,
    /// `REGEXP`: a regular expression in the syntax of the `regex` crate. A regular expression can
    /// match anywhere in the string.
    Regexp,
}

/// The type of a `CAST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastType {
    /// `BOOLEAN`
    Boolean,
    /// `TINYINT`: `int8`
    TinyInt,
    /// `SMALLINT`: `int16`
    SmallInt,
    /// `INTEGER`: `int32`
    Integer,
    /// `BIGINT`: `int64`
    BigInt,
    /// `REAL`: `float32`
    Real,
    /// `DOUBLE`: `float64`
    Double,
    /// `DECIMAL(precision, scale)` of at most 38 digits
    Decimal(u8, i8),
    /// `VARCHAR`: text
    Text,
    /// `DATE`
    Date,
    /// `TIMESTAMP`, without a time zone; in nanoseconds if cast from text
    Timestamp,
}

/// A part of a date or time that `EXTRACT` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePart {
    /// `year`
    Year,
    /// `quarter`, from 1 to 4
    Quarter,
    /// `month`, from 1 to 12
    Month,
    /// `week` of the ISO year, from 1 to 53
    Week,
    /// `day` of the month
    Day,
    /// `dow`, the day of the week, 0 being Sunday
    DayOfWeek,
    /// `doy`, the day of the year
    DayOfYear,
    /// `hour`, from 0 to 23, in the time zone of the column
    Hour,
    /// `minute`, from 0 to 59
    Minute,
    /// `second`, from 0 to 59
    Second,
}

/// A function of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarFunction {
    /// `coalesce(x, y, ...)`: the first value that is not null
    Coalesce,
    /// `lower(x)`
    Lower,
    /// `upper(x)`
    Upper,
    /// `length(x)`, in characters
    Length,
    /// `substr(x, start)` or `substr(x, start, length)`: characters, counted from 1
    Substr,
    /// `starts_with(x, y)`
    StartsWith,
    /// `ends_with(x, y)`
    EndsWith,
    /// `contains(x, y)`
    Contains,
    /// `floor(x)`
    Floor,
    /// `ceil(x)`
    Ceil,
    /// `round(x)` or `round(x, digits)`
    Round,
}

impl ScalarFunction {
    /// All functions, each with its name and its minimum and maximum number of arguments.
    const ALL: [(ScalarFunction, &'static str, usize, usize); 11] = [
        (ScalarFunction::Coalesce, "coalesce", 1, 100),
        (ScalarFunction::Lower, "lower", 1, 1),
        (ScalarFunction::Upper, "upper", 1, 1),
        (ScalarFunction::Length, "length", 1, 1),
        (ScalarFunction::Substr, "substr", 2, 3),
        (ScalarFunction::StartsWith, "starts_with", 2, 2),
        (ScalarFunction::EndsWith, "ends_with", 2, 2),
        (ScalarFunction::Contains, "contains", 2, 2),
        (ScalarFunction::Floor, "floor", 1, 1),
        (ScalarFunction::Ceil, "ceil", 1, 1),
        (ScalarFunction::Round, "round", 1, 2),
    ];
}

/// An operation on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `-x`
    Negate,
    /// `NOT x`
    Not,
    /// `abs(x)`
    Abs,
    /// `x IS NULL`
    IsNull,
    /// `x IS NOT NULL`
    IsNotNull,
}

/// An operation on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `+ - * / %`
    Arithmetic(Arithmetic),
    /// `= != < <= > >=`
    Compare(Comparison),
    /// `AND`
    And,
    /// `OR`
    Or,
}

/// The arithmetic operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, always a true division
    Divide,
    /// `%`, with the sign of the dividend
    Remainder,
}

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

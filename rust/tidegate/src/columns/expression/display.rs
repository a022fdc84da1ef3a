//! The text of an expression. `parse_sql` converts the text back to the same tree. The text has no
//! unnecessary parentheses.

use std::fmt::{self, Display, Formatter, Write};

use arrow_array::temporal_conversions::{date32_to_datetime, timestamp_s_to_datetime};

use super::{
    Arithmetic, Binary, CastType, Comparison, Expr, Language, Literal, Origin, ScalarFunction,
    TimePart, Unary,
};

/// The precedence of an expression. A subexpression is parenthesized if its precedence is lower
/// than its position requires.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    Or,
    And,
    Not,
    Predicate,
    Sum,
    Product,
    Sign,
    Atom,
}

impl Expr {
    fn level(&self) -> Level {
        match self {
            Expr::Binary(_, Binary::Or, _) => Level::Or,
            Expr::Binary(_, Binary::And, _) => Level::And,
            Expr::Unary(Unary::Not, _) => Level::Not,
            Expr::Binary(_, Binary::Compare(_), _)
            | Expr::Unary(Unary::IsNull | Unary::IsNotNull, _)
            | Expr::Between { .. }
            | Expr::In { .. }
            | Expr::Match { .. } => Level::Predicate,
            Expr::Binary(_, Binary::Arithmetic(Arithmetic::Add | Arithmetic::Subtract), _) => {
                Level::Sum
            }
            Expr::Binary(_, Binary::Arithmetic(_), _) => Level::Product,
            Expr::Unary(Unary::Negate, _) => Level::Sign,
            Expr::Literal(Literal::Integer(value)) if *value < 0 => Level::Sign,
            Expr::Literal(Literal::Float(value))
                if value.is_finite() && value.is_sign_negative() =>
            {
                Level::Sign
            }
            Expr::Column(..)
            | Expr::Field(..)
            | Expr::Literal(_)
            | Expr::Unary(Unary::Abs, _)
            | Expr::Case { .. }
            | Expr::Cast(..)
            | Expr::Extract(..)
            | Expr::Call(..) => Level::Atom,
        }
    }

    fn at_least(&self, level: Level) -> SubExpression<'_> {
        SubExpression { expr: self, parentheses: self.level() < level }
    }

    /// Returns the operand of a minus sign. A number is put in parentheses because `-5` is itself a
    /// literal.
    fn after_sign(&self) -> SubExpression<'_> {
        let number = matches!(self, Expr::Literal(Literal::Integer(_) | Literal::Float(_)));
        SubExpression { expr: self, parentheses: number || self.level() < Level::Atom }
    }
}

struct SubExpression<'a> {
    expr: &'a Expr,
    parentheses: bool,
}

impl Display for SubExpression<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.parentheses { write!(f, "({})", self.expr) } else { write!(f, "{}", self.expr) }
    }
}

impl Expr {
    /// Writes the text of a function, `CASE` or `CAST`. This code is not part of the recursive
    /// function `fmt`, whose stack frames must stay small.
    #[inline(never)]
    fn fmt_called(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Case { branches, otherwise } => {
                f.write_str("CASE")?;
                for (condition, value) in branches {
                    write!(f, " WHEN {condition} THEN {value}")?;
                }
                if let Some(value) = otherwise {
                    write!(f, " ELSE {value}")?;
                }
                f.write_str(" END")
            }
            Expr::Cast(value, to) => write!(f, "CAST({value} AS {to})"),
            Expr::Extract(part, time) => write!(f, "EXTRACT({part} FROM {time})"),
            Expr::Call(function, arguments) => {
                write!(f, "{function}(")?;
                listed(f, arguments)?;
                f.write_char(')')
            }
            _ => unreachable!("`fmt` keeps all other expressions"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Column(side, name) => write!(f, "{side}.{}", Identifier(name)),
            Expr::Field(x, name) => write!(f, "{x}.{}", Identifier(name)),
            Expr::Literal(literal) => literal.fmt(f),
            Expr::Unary(Unary::Negate, x) => write!(f, "-{}", x.after_sign()),
            Expr::Unary(Unary::Not, x) => write!(f, "NOT {}", x.at_least(Level::Not)),
            Expr::Unary(Unary::Abs, x) => write!(f, "abs({x})"),
            Expr::Unary(Unary::IsNull, x) => write!(f, "{} IS NULL", x.at_least(Level::Sum)),
            Expr::Unary(Unary::IsNotNull, x) => write!(f, "{} IS NOT NULL", x.at_least(Level::Sum)),
            Expr::Binary(left, operator, right) => {
                let (left_level, right_level) = match self.level() {
                    Level::Or => (Level::Or, Level::And),
                    Level::And => (Level::And, Level::Not),
                    Level::Sum => (Level::Sum, Level::Product),
                    Level::Product => (Level::Product, Level::Sign),
                    _ => (Level::Sum, Level::Sum),
                };
                write!(
                    f,
                    "{} {operator} {}",
                    left.at_least(left_level),
                    right.at_least(right_level)
                )
            }
            Expr::Between { value, low, high } => {
                let [value, low, high] = [value, low, high].map(|part| part.at_least(Level::Sum));
                write!(f, "{value} BETWEEN {low} AND {high}")
            }
            Expr::In { value, items } => {
                write!(f, "{} IN (", value.at_least(Level::Sum))?;
                listed(f, items)?;
                f.write_char(')')
            }
            Expr::Match { value, language, pattern } => {
                let word = match language {
                    Language::Like => "LIKE",
                    Language::ILike => "ILIKE",
                    Language::Regexp => "REGEXP",
                };
                write!(
                    f,
                    "{} {word} {}",
                    value.at_least(Level::Sum),
                    Literal::Text(pattern.clone())
                )
            }
            Expr::Case { .. } | Expr::Cast(..) | Expr::Extract(..) | Expr::Call(..) => {
                self.fmt_called(f)
            }
        }
    }
}

fn listed(f: &mut Formatter<'_>, items: &[Expr]) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
    }
    Ok(())
}

impl Display for ScalarFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let named = ScalarFunction::ALL.iter().find(|(function, ..)| function == self);
        f.write_str(named.map_or("", |(_, name, ..)| name))
    }
}

impl Display for CastType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CastType::Boolean => "BOOLEAN",
            CastType::TinyInt => "TINYINT",
            CastType::SmallInt => "SMALLINT",
            CastType::Integer => "INTEGER",
            CastType::BigInt => "BIGINT",
            CastType::Real => "REAL",
            CastType::Double => "DOUBLE",
            CastType::Decimal(precision, scale) => {
                return write!(f, "DECIMAL({precision}, {scale})");
            }
            CastType::Text => "VARCHAR",
            CastType::Date => "DATE",
            CastType::Timestamp => "TIMESTAMP",
        })
    }
}

impl Display for TimePart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimePart::Year => "year",
            TimePart::Quarter => "quarter",
            TimePart::Month => "month",
            TimePart::Week => "week",
            TimePart::Day => "day",
            TimePart::DayOfWeek => "dow",
            TimePart::DayOfYear => "doy",
            TimePart::Hour => "hour",
            TimePart::Minute => "minute",
            TimePart::Second => "second",
        })
    }
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Left => "left",
            Origin::Right => "right",
            Origin::Row => "row",
        })
    }
}

struct Identifier<'a>(&'a str);

impl Display for Identifier<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let simple = self.0.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && self.0.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if simple { f.write_str(self.0) } else { write!(f, "\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

impl Display for Binary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Binary::And => "AND",
            Binary::Or => "OR",
            Binary::Arithmetic(Arithmetic::Add) => "+",
            Binary::Arithmetic(Arithmetic::Subtract) => "-",
            Binary::Arithmetic(Arithmetic::Multiply) => "*",
            Binary::Arithmetic(Arithmetic::Divide) => "/",
            Binary::Arithmetic(Arithmetic::Remainder) => "%",
            Binary::Compare(Comparison::Equal) => "=",
            Binary::Compare(Comparison::NotEqual) => "!=",
            Binary::Compare(Comparison::Less) => "<",
            Binary::Compare(Comparison::LessOrEqual) => "<=",
            Binary::Compare(Comparison::Greater) => ">",
            Binary::Compare(Comparison::GreaterOrEqual) => ">=",
        })
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => f.write_str("NULL"),
            Literal::Boolean(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            Literal::Integer(value) => write!(f, "{value}"),
            Literal::Float(value) if value.is_finite() => write!(f, "{value:?}"),
            Literal::Float(value) => write!(f, "DOUBLE '{value}'"),
            Literal::Decimal { value, scale } => write!(f, "DECIMAL '{}'", decimal(*value, *scale)),
            Literal::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Literal::Binary(bytes) => {
                f.write_str("X'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_char('\'')
            }
            Literal::Date(days) => match date32_to_datetime(*days) {
                Some(midnight) => write!(f, "DATE '{}'", midnight.date()),
                None => write!(f, "DATE '{days} days from 1970-01-01'"),
            },
            Literal::Timestamp { nanoseconds, zoned } => timestamp(f, *nanoseconds, *zoned),
            Literal::Duration { nanoseconds } => duration(f, *nanoseconds),
        }
    }
}

fn decimal(value: i128, scale: u8) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

const SECOND: i128 = 1_000_000_000;

fn timestamp(f: &mut Formatter<'_>, nanoseconds: i128, zoned: bool) -> fmt::Result {
    let seconds = i64::try_from(nanoseconds.div_euclid(SECOND)).ok();
    let Some(time) = seconds.and_then(timestamp_s_to_datetime) else {
        return write!(f, "TIMESTAMP '{nanoseconds} nanoseconds from 1970-01-01'");
    };
    write!(f, "TIMESTAMP '{time}")?;
    let fraction = nanoseconds.rem_euclid(SECOND);
    if fraction != 0 {
        write!(f, ".{fraction:09}")?;
    }
    f.write_str(if zoned { "+00:00'" } else { "'" })
}

/// Writes a duration in the coarsest unit that leaves no fraction. Units coarser than seconds are
/// not used.
fn duration(f: &mut Formatter<'_>, nanoseconds: i128) -> fmt::Result {
    let units = [
        (SECOND, "seconds"),
        (1_000_000, "milliseconds"),
        (1_000, "microseconds"),
        (1, "nanoseconds"),
    ];
    let fits = |(size, _): &&(i128, &str)| nanoseconds % size == 0;
    let (size, unit) =
        units.iter().find(fits).expect("every duration is a multiple of one nanosecond");
    write!(f, "INTERVAL '{} {unit}'", nanoseconds / size)
}

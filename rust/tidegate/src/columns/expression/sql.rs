//! Parses SQL text to an [`Expr`].
//!
//! Long because each form of SQL needs its own translation and message.

use arrow_array::timezone::Tz;
use arrow_array::types::Date32Type;
use arrow_cast::parse::{Parser as ParseValue, string_to_datetime};
use sqlparser::ast::{
    self, BinaryOperator, CastKind, CeilFloorKind, DataType, DateTimeField, ExactNumberInfo,
    FunctionArg, FunctionArgExpr, FunctionArguments, Ident, UnaryOperator, Value,
};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use tidegate_structures::memory::OutOfMemory;

use super::{
    Arithmetic, Binary, CastType, Comparison, Expr, Language, Literal, Origin, ScalarFunction,
    TimePart, Unary,
};
use crate::columns::duration::parse_duration;
use crate::columns::names::nearest;
use crate::error::shown_up_to;
use crate::{Error, Result, shown};

/// The maximum number of operators. The tree is as deep as its longest chain of operators, and each
/// level takes stack space.
const MAX_OPERATORS: usize = 200;

/// The maximum length of the part of a `where` that messages quote so that users can locate the
/// error.
const SHOWN: usize = 2000;

/// The maximum nesting depth of parentheses, calls and prefix operators, as counted by the parser.
const MAX_NESTING: usize = 120;

/// The maximum number of names in the path of a struct field, including the side and the column.
const MAX_PATH: usize = 16;

/// The maximum stack space per token, if the parser is compiled without optimization. Threads have
/// between half a megabyte and eight megabytes of stack.
const TOKEN_STACK: usize = 128 << 10;

/// The maximum stack space that a condition can use.
const MOST_STACK: usize = 16 << 20;

/// Parses a predicate over `left` and `right` columns.
///
/// Columns are written as `left.price` or, if the name contains other characters, as
/// `right."odd name"`. A field of a struct is written as `left.payload.price`. Expressions support `+ - * / %`, `= != < <= > >=`, `AND`, `OR`, `NOT`,
/// `IS [NOT] NULL`, `[NOT] BETWEEN`, `[NOT] IN (...)`, `[NOT] LIKE 'a%'`, `ILIKE`,
/// `[NOT] REGEXP '^a+$'`, `CASE`, `CAST(x AS type)`, `EXTRACT(hour FROM x)`, `abs(x)` and each
/// [`ScalarFunction`], numbers, strings, `X'00ff'`, `TRUE`, `FALSE`, `NULL`, `DECIMAL '1.50'`,
/// `DATE '2024-01-31'`, `TIMESTAMP '2024-01-31 12:00:00'` (with an offset for an instant) and
/// `INTERVAL '1 hour 30 minutes'`.
///
/// # Errors
///
/// Returns an argument error that names the invalid or unsupported part.
pub fn parse_sql(text: &str) -> Result<Expr> {
    parse(text, "left.price < right.bid", |side, name| match side {
        Origin::Row if text.contains(&format!("{name}.")) => {
            let name = shown(name);
            Err(format!("`{name}`: expected left or right before the dot, found `{name}`"))
        }
        Origin::Row => {
            let name = shown(name);
            Err(format!("`{name}` has no side; write left.{name} or right.{name}"))
        }
        Origin::Left | Origin::Right => Ok(()),
    })
}

/// Parses a predicate over the columns of one table. The columns are written as `price`,
/// `row.price` or, if the name contains other characters, as `"odd name"`. Otherwise, this function
/// behaves like [`parse_sql`].
///
/// # Errors
///
/// Returns the same errors as [`parse_sql`].
pub fn parse_row_sql(text: &str) -> Result<Expr> {
    parse(text, "price > 10", |side, name| match side {
        Origin::Row => Ok(()),
        Origin::Left | Origin::Right => {
            let name = shown(name);
            Err(format!(
                "`{side}.{name}`: the rows of an aggregation have no sides; write row.{name}"
            ))
        }
    })
}

/// Parses an expression over the rows that a function aggregates. In joins, these are right rows, so
/// columns can also be written as `right.price`. Otherwise, this function behaves like
/// [`parse_row_sql`].
///
/// # Errors
///
/// Returns the same errors as [`parse_sql`].
pub fn parse_function_sql(text: &str) -> Result<Expr> {
    parse(text, "(bid + ask) / 2", |side, name| match side {
        Origin::Row | Origin::Right => Ok(()),
        Origin::Left => {
            let name = shown(name);
            Err(format!("`left.{name}`: functions aggregate right rows; write right.{name}"))
        }
    })
}

/// Parses an expression over the rows of one side of a join, `left` or `right`. Otherwise, this
/// function behaves like [`parse_row_sql`].
///
/// # Errors
///
/// Returns the same errors as [`parse_sql`].
pub(crate) fn parse_side_sql(text: &str, side: &str) -> Result<Expr> {
    parse(text, "start + length", |origin, name| match (origin, side) {
        (Origin::Row, _) | (Origin::Left, "left") | (Origin::Right, "right") => Ok(()),
        _ => {
            let name = shown(name);
            Err(format!("the {side} rows have no column of the other side; write row.{name}"))
        }
    })
}

/// Parses a predicate. Fails if `allowed` rejects one of its columns.
fn parse(
    text: &str,
    example: &str,
    allowed: impl Fn(Origin, &str) -> Result<(), String>,
) -> Result<Expr> {
    let quoted = shown_up_to(text, SHOWN);
    let invalid = |reason: String| Error::argument(format!("where `{quoted}`: {reason}"));
    let tokens = tokens(text).map_err(invalid)?;
    if tokens.is_empty() {
        return Err(invalid(format!(
            "the text is empty; expected a condition such as `{example}`"
        )));
    }
    let operators = tokens.iter().filter(|token| is_operator(&token.token)).count();
    if operators > MAX_OPERATORS {
        // Leave out the text, which is too long to quote.
        return Err(Error::argument(format!(
            "where: {operators} operators are more than the {MAX_OPERATORS} that a condition may \
             have; use IN for a long list of values"
        )));
    }
    let stack = MOST_STACK.min((4 + tokens.len()) * TOKEN_STACK);
    let has_stack = stacker::remaining_stack().is_some_and(|left| left >= stack);
    if !has_stack && Vec::<u8>::new().try_reserve_exact(stack).is_err() {
        return Err(OutOfMemory { bytes: stack, left: None }.into());
    }
    let expr = stacker::maybe_grow(stack, stack, || read(tokens, text)).map_err(invalid)?;
    let mut verdict = Ok(());
    expr.for_each_column(&mut |side, name| {
        if verdict.is_ok() {
            verdict = allowed(side, name);
        }
    });
    verdict.map_err(invalid)?;
    Ok(expr)
}

/// Parses the tokens of a condition. `text` is the condition's SQL text.
fn read(tokens: Vec<TokenWithSpan>, text: &str) -> Result<Expr, String> {
    let mut parser =
        Parser::new(&Where).with_recursion_limit(MAX_NESTING).with_tokens_with_locations(tokens);
    let tree = parser.parse_expr().map_err(|error| placed(&error.to_string(), text))?;
    let rest = parser.next_token();
    if rest.token != Token::EOF {
        return Err(format!("expected the end, found `{}`{}", rest.token, rest.span.start));
    }
    expression(tree)
}

/// Returns the parser's message, including the position if the text ends too early.
fn placed(told: &str, text: &str) -> String {
    let told = told.strip_prefix("sql parser error: ").unwrap_or(told);
    let Some(expected) = told.strip_suffix("found: EOF") else { return told.to_owned() };
    let line = text.lines().count().max(1);
    let column = text.lines().last().map_or(0, |last| last.chars().count()) + 1;
    format!("{expected}found the end of the text at Line: {line}, Column: {column}")
}

/// Plain SQL, with the parser's defaults.
#[derive(Debug)]
struct Where;

impl Dialect for Where {
    fn is_identifier_start(&self, c: char) -> bool {
        c.is_alphabetic() || c == '_'
    }

    fn is_identifier_part(&self, c: char) -> bool {
        c.is_alphanumeric() || c == '_'
    }
}

/// Returns the tokens, without spaces and comments. A word next to a dot is always a name, even if
/// it is a keyword. For example, `left.case` and `right.date` are columns.
fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, String> {
    let tokens =
        Tokenizer::new(&Where, text).tokenize_with_location().map_err(|error| error.to_string())?;
    let mut tokens: Vec<_> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    for point in 1..tokens.len() {
        if tokens[point].token == Token::Period {
            // The parser accepts names of any length, but takes time quadratic in the length.
            let is_point =
                |at: usize| point >= 2 * at && tokens[point - 2 * at].token == Token::Period;
            if (1..MAX_PATH).all(is_point) {
                let first = &tokens[(point + 1).saturating_sub(2 * MAX_PATH)].token;
                return Err(format!(
                    "`{}`: expected a side and a column, such as left.price, in at most {MAX_PATH} \
                     names",
                    shown(&first.to_string())
                ));
            }
            quote(&mut tokens[point - 1].token);
            if let Some(next) = tokens.get_mut(point + 1) {
                quote(&mut next.token);
            }
        }
    }
    Ok(tokens)
}

fn quote(token: &mut Token) {
    if let Token::Word(word) = token {
        word.keyword = Keyword::NoKeyword;
        word.quote_style.get_or_insert('"');
    }
}

fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.keyword != Keyword::NoKeyword,
        Token::Comma | Token::Period | Token::LParen | Token::RParen => false,
        Token::Number(..) | Token::SingleQuotedString(_) => false,
        _ => true,
    }
}

fn expression(tree: ast::Expr) -> Result<Expr, String> {
    match tree {
        ast::Expr::Nested(inner) => expression(*inner),
        ast::Expr::CompoundIdentifier(parts) => column(&parts),
        ast::Expr::Identifier(name) => Ok(Expr::Column(Origin::Row, name.value)),
        ast::Expr::Value(value) => literal(value.value).map(Expr::Literal),
        ast::Expr::TypedString(typed) => typed_literal(typed).map(Expr::Literal),
        ast::Expr::Interval(interval) => duration_literal(interval).map(Expr::Literal),
        ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => negated(*expr),
        ast::Expr::UnaryOp { op: UnaryOperator::Plus, expr } => expression(*expr),
        ast::Expr::UnaryOp { op: UnaryOperator::Not, expr } => unary(Unary::Not, *expr),
        ast::Expr::IsNull(expr) => unary(Unary::IsNull, *expr),
        ast::Expr::IsNotNull(expr) => unary(Unary::IsNotNull, *expr),
        ast::Expr::Function(_)
        | ast::Expr::Floor { .. }
        | ast::Expr::Ceil { .. }
        | ast::Expr::Substring { .. }
        | ast::Expr::Case { .. }
        | ast::Expr::Cast { .. }
        | ast::Expr::Extract { .. } => called(tree),
        ast::Expr::BinaryOp { left, op, right } => {
            let operator = binary(&op)?;
            Ok(Expr::Binary(boxed(*left)?, operator, boxed(*right)?))
        }
        ast::Expr::Between { expr, negated, low, high } => {
            let between =
                Expr::Between { value: boxed(*expr)?, low: boxed(*low)?, high: boxed(*high)? };
            Ok(not_if(negated, between))
        }
        ast::Expr::InList { expr, list, negated } => {
            let items = list.into_iter().map(expression).collect::<Result<_, _>>()?;
            Ok(not_if(negated, Expr::In { value: boxed(*expr)?, items }))
        }
        ast::Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
            Ok(not_if(negated, matched(*expr, Language::Like, *pattern)?))
        }
        ast::Expr::ILike { negated, any: false, expr, pattern, escape_char: None } => {
            Ok(not_if(negated, matched(*expr, Language::ILike, *pattern)?))
        }
        ast::Expr::RLike { negated, expr, pattern, .. } => {
            Ok(not_if(negated, matched(*expr, Language::Regexp, *pattern)?))
        }
        other => Err(unsupported(&other)),
    }
}

#[cold]
fn unsupported(tree: &ast::Expr) -> String {
    format!(
        "`{}` is not supported; write comparisons, arithmetic, AND, OR, NOT, IS NULL, BETWEEN, IN, \
         LIKE, ILIKE, REGEXP, CASE, CAST, EXTRACT or functions: {}",
        shown(&tree.to_string()),
        functions().join(", ")
    )
}

/// Converts a function, `CASE` or `CAST`. This code is not part of the recursive function
/// [`expression`], whose stack frames must stay small.
#[inline(never)]
fn called(tree: ast::Expr) -> Result<Expr, String> {
    match tree {
        ast::Expr::Function(function) => call(function),
        ast::Expr::Floor {
            expr,
            field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
        } => Ok(Expr::Call(ScalarFunction::Floor, vec![expression(*expr)?])),
        ast::Expr::Ceil {
            expr,
            field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime),
        } => Ok(Expr::Call(ScalarFunction::Ceil, vec![expression(*expr)?])),
        ast::Expr::Substring { expr, substring_from: Some(start), substring_for, .. } => {
            let parts = [Some(expr), Some(start), substring_for].into_iter().flatten();
            let parts = parts.map(|part| expression(*part)).collect::<Result<_, _>>()?;
            Ok(Expr::Call(ScalarFunction::Substr, parts))
        }
        ast::Expr::Case { operand, conditions, else_result, .. } => {
            let compared = operand.map(|operand| expression(*operand)).transpose()?;
            let branches = conditions.into_iter().map(|branch| {
                let condition = expression(branch.condition)?;
                let condition = match &compared {
                    Some(operand) => Expr::Binary(
                        Box::new(operand.clone()),
                        Binary::Compare(Comparison::Equal),
                        Box::new(condition),
                    ),
                    None => condition,
                };
                Ok((condition, expression(branch.result)?))
            });
            Ok(Expr::Case {
                branches: branches.collect::<Result<_, String>>()?,
                otherwise: else_result.map(|value| boxed(*value)).transpose()?,
            })
        }
        ast::Expr::Cast { kind: CastKind::Cast, expr, data_type, format: None } => {
            Ok(Expr::Cast(boxed(*expr)?, cast_type(&data_type)?))
        }
        ast::Expr::Extract { field, expr, .. } => Ok(Expr::Extract(part(&field)?, boxed(*expr)?)),
        other => Err(unsupported(&other)),
    }
}

fn matched(value: ast::Expr, language: Language, pattern: ast::Expr) -> Result<Expr, String> {
    match expression(pattern)? {
        Expr::Literal(Literal::Text(pattern)) => {
            Ok(Expr::Match { value: boxed(value)?, language, pattern })
        }
        other => Err(format!(
            "the pattern `{}` is not supported; expected text in quotes",
            shown(&other.to_string())
        )),
    }
}

fn boxed(tree: ast::Expr) -> Result<Box<Expr>, String> {
    expression(tree).map(Box::new)
}

fn unary(operator: Unary, operand: ast::Expr) -> Result<Expr, String> {
    Ok(Expr::Unary(operator, boxed(operand)?))
}

fn not_if(negated: bool, expr: Expr) -> Expr {
    if negated { Expr::Unary(Unary::Not, Box::new(expr)) } else { expr }
}

/// Returns the column or the struct field with this path. A path that does not start with a side
/// starts with a column of the only table.
fn column(parts: &[Ident]) -> Result<Expr, String> {
    let [first, rest @ ..] = parts else { return Err("expected a column".to_owned()) };
    let side = match first.value.to_ascii_lowercase().as_str() {
        "left" => Some(Origin::Left),
        "right" => Some(Origin::Right),
        "row" => Some(Origin::Row),
        _ => None,
    };
    let (column, fields) = match (side, rest) {
        (Some(side), [name, fields @ ..]) => (Expr::Column(side, name.value.clone()), fields),
        _ => (Expr::Column(Origin::Row, first.value.clone()), rest),
    };
    let field = |value: Expr, name: &Ident| Expr::Field(Box::new(value), name.value.clone());
    Ok(fields.iter().fold(column, field))
}

/// Negates an operand. A minus sign directly before a number forms a negative number, so that the
/// smallest `int64` can be written.
fn negated(operand: ast::Expr) -> Result<Expr, String> {
    if let ast::Expr::Value(value) = &operand
        && let Value::Number(digits, false) = &value.value
    {
        return number(&format!("-{digits}")).map(Expr::Literal);
    }
    unary(Unary::Negate, operand)
}

/// The names of all functions.
fn functions() -> Vec<&'static str> {
    std::iter::once("abs").chain(ScalarFunction::ALL.iter().map(|(_, name, ..)| *name)).collect()
}

fn call(function: ast::Function) -> Result<Expr, String> {
    let name = function.name.to_string().to_ascii_lowercase();
    let functions = functions();
    if !functions.contains(&name.as_str()) {
        let hint = nearest(&name, functions.iter().copied());
        let hint = hint.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        let (name, functions) = (shown(&name), functions.join(", "));
        return Err(format!("there is no function `{name}`; the functions are {functions}{hint}"));
    }
    let plain = function.over.is_none()
        && function.filter.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty();
    let not_plain = || format!("`{name}` accepts only values; write {name}(left.x)");
    let list = match function.args {
        FunctionArguments::List(list)
            if plain && list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
        {
            list
        }
        _ => return Err(not_plain()),
    };
    let arguments = list.args.into_iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => expression(argument),
        _ => Err(not_plain()),
    });
    let mut arguments = arguments.collect::<Result<Vec<_>, _>>()?;
    let found = ScalarFunction::ALL.iter().find(|(_, known, ..)| *known == name);
    let (least, most) = found.map_or((1, 1), |&(.., least, most)| (least, most));
    if !(least..=most).contains(&arguments.len()) {
        let takes = match (least, most) {
            (1, 1) => "one value".to_owned(),
            (least, most) if least == most => format!("{least} values"),
            (least, most) if least + 1 == most => format!("{least} or {most} values"),
            (least, most) => format!("{least} to {most} values"),
        };
        return Err(format!("`{name}` takes {takes}, got {}", arguments.len()));
    }
    match found {
        Some(&(function, ..)) => Ok(Expr::Call(function, arguments)),
        None => Ok(Expr::Unary(Unary::Abs, Box::new(arguments.remove(0)))),
    }
}

fn cast_type(data_type: &DataType) -> Result<CastType, String> {
    Ok(match data_type {
        DataType::Boolean | DataType::Bool => CastType::Boolean,
        DataType::TinyInt(None) => CastType::TinyInt,
        DataType::SmallInt(None) => CastType::SmallInt,
        DataType::Int(None) | DataType::Integer(None) => CastType::Integer,
        DataType::BigInt(None) => CastType::BigInt,
        DataType::Real | DataType::Float(ExactNumberInfo::None) => CastType::Real,
        DataType::Double(ExactNumberInfo::None) | DataType::DoublePrecision => CastType::Double,
        DataType::Decimal(digits) | DataType::Numeric(digits) => match *digits {
            ExactNumberInfo::PrecisionAndScale(precision @ 1..=38, scale)
                if (0..=38).contains(&scale) && i128::from(scale) <= i128::from(precision) =>
            {
                CastType::Decimal(
                    u8::try_from(precision).unwrap_or(38),
                    i8::try_from(scale).unwrap_or(38),
                )
            }
            ExactNumberInfo::Precision(precision @ 1..=38) => {
                CastType::Decimal(u8::try_from(precision).unwrap_or(38), 0)
            }
            _ => {
                return Err(format!(
                    "`{data_type}` is not supported; give a precision and scale, such as \
                     DECIMAL(18, 2), with at most 38 digits"
                ));
            }
        },
        DataType::Varchar(None) | DataType::Text | DataType::String(None) => CastType::Text,
        DataType::Date => CastType::Date,
        DataType::Timestamp(None, ast::TimezoneInfo::None) => CastType::Timestamp,
        other => {
            return Err(format!(
                "a cast to `{other}` is not supported; write BOOLEAN, TINYINT, SMALLINT, INTEGER, \
                 BIGINT, REAL, DOUBLE, DECIMAL(18, 2), VARCHAR, DATE or TIMESTAMP"
            ));
        }
    })
}

fn part(field: &DateTimeField) -> Result<TimePart, String> {
    Ok(match field {
        DateTimeField::Year => TimePart::Year,
        DateTimeField::Quarter => TimePart::Quarter,
        DateTimeField::Month => TimePart::Month,
        DateTimeField::Week(None) => TimePart::Week,
        DateTimeField::Day => TimePart::Day,
        DateTimeField::Dow => TimePart::DayOfWeek,
        DateTimeField::Doy => TimePart::DayOfYear,
        DateTimeField::Hour => TimePart::Hour,
        DateTimeField::Minute => TimePart::Minute,
        DateTimeField::Second => TimePart::Second,
        other => {
            return Err(format!(
                "EXTRACT of `{other}` is not supported; write year, quarter, month, week, day, \
                 dow, doy, hour, minute or second"
            ));
        }
    })
}

fn binary(operator: &BinaryOperator) -> Result<Binary, String> {
    Ok(match operator {
        BinaryOperator::And => Binary::And,
        BinaryOperator::Or => Binary::Or,
        BinaryOperator::Plus => Binary::Arithmetic(Arithmetic::Add),
        BinaryOperator::Minus => Binary::Arithmetic(Arithmetic::Subtract),
        BinaryOperator::Multiply => Binary::Arithmetic(Arithmetic::Multiply),
        BinaryOperator::Divide => Binary::Arithmetic(Arithmetic::Divide),
        BinaryOperator::Modulo => Binary::Arithmetic(Arithmetic::Remainder),
        BinaryOperator::Eq => Binary::Compare(Comparison::Equal),
        BinaryOperator::NotEq => Binary::Compare(Comparison::NotEqual),
        BinaryOperator::Lt => Binary::Compare(Comparison::Less),
        BinaryOperator::LtEq => Binary::Compare(Comparison::LessOrEqual),
        BinaryOperator::Gt => Binary::Compare(Comparison::Greater),
        BinaryOperator::GtEq => Binary::Compare(Comparison::GreaterOrEqual),
        other => {
            return Err(format!(
                "the operator `{other}` is not supported; write + - * / % = != < <= > >= AND or OR"
            ));
        }
    })
}

fn literal(value: Value) -> Result<Literal, String> {
    match value {
        Value::Null => Ok(Literal::Null),
        Value::Boolean(value) => Ok(Literal::Boolean(value)),
        Value::Number(digits, false) => number(&digits),
        Value::SingleQuotedString(text) => Ok(Literal::Text(text)),
        Value::HexStringLiteral(digits) => bytes(&digits).map(Literal::Binary),
        other => Err(format!(
            "the literal `{}` is not supported; write a number, a string in single quotes, \
             X'00ff', TRUE, FALSE or NULL",
            shown(&other.to_string())
        )),
    }
}

fn number(digits: &str) -> Result<Literal, String> {
    if digits.contains(['.', 'e', 'E']) {
        return match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Literal::Float(value)),
            _ => Err(format!(
                "the number `{}` does not fit float64; write a smaller one",
                shown(digits)
            )),
        };
    }
    match digits.parse::<i128>() {
        Ok(value) if (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value) => {
            Ok(Literal::Integer(value))
        }
        _ => {
            let digits = shown(digits);
            Err(format!(
                "the number `{digits}` fits neither int64 nor uint64; write DECIMAL '{digits}'"
            ))
        }
    }
}

fn bytes(digits: &str) -> Result<Vec<u8>, String> {
    let invalid = || format!("X'{}': expected an even number of hexadecimal digits", shown(digits));
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(invalid());
    }
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).map_err(|_| invalid()))
        .collect()
}

fn typed_literal(typed: ast::TypedString) -> Result<Literal, String> {
    let written = typed.to_string();
    let written = shown(&written);
    let Value::SingleQuotedString(text) = typed.value.value else {
        return Err(format!("`{written}` is not supported; write the value in single quotes"));
    };
    match typed.data_type {
        DataType::Date => date(&text),
        DataType::Timestamp(None, _) | DataType::Datetime(None) => timestamp(&text),
        DataType::Decimal(ExactNumberInfo::None) | DataType::Numeric(ExactNumberInfo::None) => {
            decimal(&text)
        }
        DataType::Double(ExactNumberInfo::None) | DataType::DoublePrecision => {
            text.parse().ok().map(Literal::Float)
        }
        _ => {
            return Err(format!(
                "`{written}` is not supported; expected DATE, TIMESTAMP, DECIMAL or DOUBLE"
            ));
        }
    }
    .ok_or_else(|| {
        format!(
            "`{written}` is not valid; write, for example, DATE '2024-01-31' or TIMESTAMP \
             '2024-01-31 12:00:00'"
        )
    })
}

fn date(text: &str) -> Option<Literal> {
    // The parser also accepts a time of day, which would be dropped here.
    let days = Date32Type::parse(text)?;
    (text.len() == "2024-01-31".len()).then_some(Literal::Date(days))
}

fn timestamp(text: &str) -> Option<Literal> {
    let utc: Tz = "+00:00".parse().ok()?;
    let time = string_to_datetime(&utc, text).ok()?;
    let nanoseconds =
        i128::from(time.timestamp()) * 1_000_000_000 + i128::from(time.timestamp_subsec_nanos());
    let after_date = text.get("2024-01-31T".len()..).unwrap_or_default();
    let zoned = after_date.contains(|c: char| c.is_alphabetic() || c == '+' || c == '-');
    Some(Literal::Timestamp { nanoseconds, zoned })
}

fn decimal(text: &str) -> Option<Literal> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.trim_start_matches('-').len() + fraction.len();
    if digits > 38 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = format!("{whole}{fraction}").parse().ok()?;
    Some(Literal::Decimal { value, scale: u8::try_from(fraction.len()).ok()? })
}

fn duration_literal(interval: ast::Interval) -> Result<Literal, String> {
    let text = interval.to_string();
    let invalid = || {
        format!(
            "`{}` is not valid; write, for example, INTERVAL '1 hour 30 minutes', in units from \
             nanoseconds to weeks",
            shown(&text)
        )
    };
    let amount = match *interval.value {
        ast::Expr::Value(value) => match value.value {
            Value::SingleQuotedString(text) | Value::Number(text, false) => text,
            _ => return Err(invalid()),
        },
        _ => return Err(invalid()),
    };
    if interval.last_field.is_some() || interval.leading_precision.is_some() {
        return Err(invalid());
    }
    let unit = interval.leading_field.map(|field| field.to_string()).unwrap_or_default();
    let nanoseconds = parse_duration(&format!("{amount} {unit}")).map_err(|_| invalid())?;
    Ok(Literal::Duration { nanoseconds })
}

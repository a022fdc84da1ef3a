//! Checks an expression against two schemas once, and determines the type of every operation.
//!
//! Long because each operation needs its own type rule and its own message.

use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Schema, TimeUnit};

use super::bound::{
    Operation, TypedOperation, ZeroDivisor, any_can_fail, boolean, cast, float, scalar,
};
use super::evaluate::{BlockPairs, arithmetic_kernel};
use super::types::{
    comparison_type, computed, hint, is_text, is_text_or_binary, leaf, literal_type,
    literal_type_beside, operand_types,
};
use super::value::EndCondition;
use super::{Arithmetic, Binary, Comparison, Expr, Literal, Origin, ScalarFunction, Unary};
use super::{casts, functions, pattern};
use crate::columns::faults::Faults;
use crate::columns::names::known;
use crate::columns::type_name::TypeName;
use crate::{Error, Result, shown};

/// A boolean expression that has been checked against two tables' schemas.
#[derive(Clone, Debug)]
pub struct Predicate {
    root: TypedOperation,
    left: Vec<usize>,
    right: Vec<usize>,
    types: Vec<DataType>,
    /// The column names, for messages.
    names: Vec<String>,
    /// The record of rows for which the expression cannot be computed. If this field is `None`,
    /// rows for which the expression cannot be computed cause an error.
    faults: Option<Faults>,
}

impl Predicate {
    /// Checks that `expr` reads existing columns, combines compatible types and yields a boolean.
    ///
    /// # Errors
    ///
    /// Returns a schema error that names the column or operation, its types, and the expected
    /// types.
    pub fn bind(expr: &Expr, left: &Schema, right: &Schema) -> Result<Self> {
        let (root, left_columns, right_columns) = bind_value(expr, left, right)?;
        let root = as_condition(root)?;
        Ok(Predicate::of_bound(root, Binder { left, right, left_columns, right_columns }))
    }

    /// Creates a predicate from a bound condition.
    fn of_bound(root: TypedOperation, binder: Binder<'_>) -> Self {
        let Binder { left, right, left_columns, right_columns } = binder;
        let of = |schema: &Schema, columns: &[usize]| -> Vec<DataType> {
            columns.iter().map(|&i| schema.field(i).data_type().clone()).collect()
        };
        let types = [of(left, &left_columns), of(right, &right_columns)].concat();
        let name = |side: &str, schema: &Schema, at: &usize| match right.fields().is_empty() {
            true => schema.field(*at).name().clone(),
            false => format!("{side}.{}", schema.field(*at).name()),
        };
        let of_left = left_columns.iter().map(|at| name("left", left, at));
        let of_right = right_columns.iter().map(|at| name("right", right, at));
        let names = of_left.chain(of_right).collect();
        Predicate { root, left: left_columns, right: right_columns, types, names, faults: None }
    }

    /// For rows where the condition cannot be computed, treats it as false and records the failure
    /// in `faults`.
    pub(crate) fn noting(self, faults: &Faults) -> Self {
        Predicate { faults: Some(faults.clone()), ..self }
    }

    /// Adds the values of a row to the error that the row caused. Each column contains only this
    /// row.
    fn of_row(&self, error: Error, columns: &[ArrayRef]) -> Error {
        let value = |(name, column): (&String, &ArrayRef)| {
            let value = array_value_to_string(column, 0).unwrap_or_default();
            let value = if column.is_null(0) { "null".into() } else { shown(&value) };
            format!("{name} = {value}")
        };
        let values: Vec<String> = self.names.iter().zip(columns).map(value).collect();
        error.with(&format!(", for {}", values.join(", ")))
    }

    /// Like [`evaluate`](Self::evaluate), but accepts rows for which the expression cannot be
    /// computed. The method finds these rows by repeatedly halving the range.
    fn evaluate_by_halves(
        &self,
        columns: &[ArrayRef],
        faults: &Faults,
        into: &mut BooleanBufferBuilder,
    ) -> Result<()> {
        let rows = columns.first().map_or(1, |column| column.len());
        match self.evaluate_all(columns, rows) {
            Ok(values) => into.append_buffer(&values),
            Err(error) if !error.is_data() => return Err(error),
            Err(error) if rows == 1 => {
                faults.note(self.of_row(error, columns));
                into.append(false);
            }
            Err(_) => {
                let half = rows / 2;
                for (from, len) in [(0, half), (half, rows - half)] {
                    let columns: Vec<ArrayRef> =
                        columns.iter().map(|column| column.slice(from, len)).collect();
                    self.evaluate_by_halves(&columns, faults, into)?;
                }
            }
        }
        Ok(())
    }

    fn evaluate_all(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
        let matches = self.root.boolean(&BlockPairs::All { columns, len: rows })?;
        let (values, nulls) = matches.into_parts();
        Ok(nulls.map_or_else(|| values.clone(), |nulls| &values & nulls.inner()))
    }

    /// Returns the expression that yields the boolean.
    pub(super) fn root(&self) -> &TypedOperation {
        &self.root
    }

    /// Returns a predicate for part of this predicate's expression. The new predicate reads only
    /// the columns that this part needs.
    pub(super) fn of_part(&self, mut root: TypedOperation) -> Self {
        let mut slots = Vec::new();
        root.collect_slots(&mut slots);
        slots.sort_unstable();
        slots.dedup();
        root.renumber(&|slot| slots.binary_search(&slot).expect("all slots have been collected"));
        let (of_left, of_right) =
            slots.split_at(slots.partition_point(|&slot| slot < self.left.len()));
        Predicate {
            root,
            left: of_left.iter().map(|&slot| self.left[slot]).collect(),
            right: of_right.iter().map(|&slot| self.right[slot - self.left.len()]).collect(),
            types: slots.iter().map(|&slot| self.types[slot].clone()).collect(),
            names: slots.iter().map(|&slot| self.names[slot].clone()).collect(),
            faults: self.faults.clone(),
        }
    }

    /// Like [`bind`](Self::bind), but binds an expression over the rows in a single table, which
    /// counts as the left table.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`bind`](Self::bind).
    pub fn bind_row(expr: &Expr, schema: &Schema) -> Result<Self> {
        Predicate::bind(expr, schema, &Schema::empty())
    }

    /// Returns the columns that the expression reads from one side, as positions in the schema in
    /// ascending order.
    pub fn columns(&self, side: Origin) -> &[usize] {
        match side {
            Origin::Left | Origin::Row => &self.left,
            Origin::Right => &self.right,
        }
    }

    /// Returns which of the `rows` candidate pairs match. The arrays contain one value per pair,
    /// for the columns that [`Predicate::columns`] returns, in that order. Null counts as false.
    ///
    /// # Errors
    ///
    /// Returns a data error if integers, decimals or times overflow or are divided by zero.
    pub fn evaluate(
        &self,
        left: &[ArrayRef],
        right: &[ArrayRef],
        rows: usize,
    ) -> Result<BooleanBuffer> {
        let columns: Vec<ArrayRef> = left.iter().chain(right).cloned().collect();
        let as_bound = left.len() == self.left.len()
            && columns.len() == self.types.len()
            && columns
                .iter()
                .zip(&self.types)
                .all(|(column, t)| column.data_type() == t && column.len() == rows);
        if !as_bound {
            return Err(Error::bug(format!(
                "where `{}`: expected {rows} rows of {:?}, got {:?}",
                self.root.text,
                self.types,
                columns.iter().map(|column| (column.data_type(), column.len())).collect::<Vec<_>>()
            )));
        }
        if rows == 0 {
            // Errors in constants are not reported either, because no row would be responsible for
            // them.
            return Ok(BooleanBuffer::new_unset(0));
        }
        match (self.evaluate_all(&columns, rows), &self.faults) {
            (Err(error), Some(faults)) if error.is_data() && !columns.is_empty() => {
                let mut values = BooleanBufferBuilder::new(rows);
                self.evaluate_by_halves(&columns, faults, &mut values)?;
                Ok(values.finish())
            }
            (values, _) => values,
        }
    }
}

/// Binds an expression of any type over two tables. Also returns the columns that the expression
/// reads from each table.
pub(super) fn bind_value(
    expr: &Expr,
    left: &Schema,
    right: &Schema,
) -> Result<(TypedOperation, Vec<usize>, Vec<usize>)> {
    let mut binder = Binder { left, right, left_columns: Vec::new(), right_columns: Vec::new() };
    binder.collect(expr)?;
    Ok((binder.bind(expr)?, binder.left_columns, binder.right_columns))
}

/// Binds the conditions under which a time on the other side is within the interval's ends, and
/// then another condition.
pub(super) fn bind_with_ends(
    ends: &[EndCondition<'_>],
    condition: Option<&Expr>,
    left: &Schema,
    right: &Schema,
) -> Result<Predicate> {
    let mut binder = Binder { left, right, left_columns: Vec::new(), right_columns: Vec::new() };
    for end in ends {
        end.exprs().iter().try_for_each(|expr| binder.collect(expr))?;
    }
    condition.map_or(Ok(()), |condition| binder.collect(condition))?;
    let within = ends.iter().map(|end| {
        let EndCondition { rule, side, .. } = *end;
        let [own, other, value] = end.exprs();
        let own = steps(binder.bind(&own)?, end.unit)?;
        let other = steps(binder.bind(&other)?, end.unit)?;
        let value = binder.bind(&value)?;
        let can_fail = value.can_fail;
        let text = format!("{}: {}", end.argument, value.text);
        let operation = Operation::End(rule, side, Box::new([own, value]));
        let end = TypedOperation { operation, data_type: DataType::Int64, text, can_fail };
        let (sign, order) = match rule.is_start(side) {
            true => (">=", Comparison::GreaterOrEqual),
            false => ("<=", Comparison::LessOrEqual),
        };
        let text = format!("{} {sign} {}", other.text, end.text);
        Ok(boolean(text, Operation::Compare(order, Box::new([other, end]))))
    });
    let condition = condition.map(|condition| binder.condition(condition));
    let all = within.chain(condition).collect::<Result<Vec<_>>>()?;
    let root = all.into_iter().reduce(TypedOperation::and).expect("at least one end");
    Ok(Predicate::of_bound(root, binder))
}

/// Converts a column's times to steps of a unit that can represent all of them.
fn steps(time: TypedOperation, unit: Option<TimeUnit>) -> Result<TypedOperation> {
    let time = match (&time.data_type, unit) {
        (DataType::Timestamp(_, zone), Some(unit)) => {
            let finer = DataType::Timestamp(unit, zone.clone());
            cast(time, &finer)?
        }
        (DataType::Date32 | DataType::Date64, Some(unit)) => {
            cast(time, &DataType::Timestamp(unit, None))?
        }
        _ => time,
    };
    let mut steps = cast(time, &DataType::Int64)?;
    steps.can_fail = false;
    Ok(steps)
}

struct Binder<'a> {
    left: &'a Schema,
    right: &'a Schema,
    left_columns: Vec<usize>,
    right_columns: Vec<usize>,
}

impl Binder<'_> {
    /// Finds the columns that the expression reads. This step takes place before slots are assigned
    /// to columns.
    fn collect(&mut self, expr: &Expr) -> Result<()> {
        match expr {
            Expr::Column(side, name) => {
                let index = self.index(*side, name)?;
                let columns = match side {
                    Origin::Left | Origin::Row => &mut self.left_columns,
                    Origin::Right => &mut self.right_columns,
                };
                if let Err(place) = columns.binary_search(&index) {
                    columns.insert(place, index);
                }
                Ok(())
            }
            Expr::Literal(_) => Ok(()),
            Expr::Unary(_, x) | Expr::Field(x, _) => self.collect(x),
            Expr::Binary(left, _, right) => {
                [left, right].into_iter().try_for_each(|x| self.collect(x))
            }
            Expr::Between { value, low, high } => {
                [value, low, high].into_iter().try_for_each(|x| self.collect(x))
            }
            Expr::In { value, items } => {
                self.collect(value)?;
                items.iter().try_for_each(|x| self.collect(x))
            }
            Expr::Match { value, .. } | Expr::Cast(value, _) | Expr::Extract(_, value) => {
                self.collect(value)
            }
            Expr::Case { .. } | Expr::Call(..) => {
                expr.parts().into_iter().try_for_each(|x| self.collect(x))
            }
        }
    }

    fn schema(&self, side: Origin) -> &Schema {
        match side {
            Origin::Left | Origin::Row => self.left,
            Origin::Right => self.right,
        }
    }

    fn index(&self, side: Origin, name: &str) -> Result<usize> {
        let fields = self.schema(side).fields();
        let mut found = fields.iter().enumerate().filter(|(_, field)| field.name() == name);
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Ok(index),
            (Some(_), Some(_)) => {
                let table = table(side);
                Err(Error::schema(format!(
                    "where: {table} has more than one column `{}`; rename one",
                    shown(name)
                )))
            }
            (None, _) => {
                let known = known(name, fields.iter().map(|field| field.name().as_str()));
                let (table, name) = (table(side), shown(name));
                Err(Error::schema(format!("where: {table} has no column `{name}`; {known}")))
            }
        }
    }

    fn bind(&self, expr: &Expr) -> Result<TypedOperation> {
        let text = expr.to_string();
        match expr {
            Expr::Column(side, name) => self.column(*side, name, text),
            Expr::Field(value, name) => self.field(value, name, text),
            Expr::Literal(literal) => scalar(literal, &literal_type(literal)),
            Expr::Unary(operator, operand) => self.unary(*operator, operand, text),
            Expr::Binary(left, Binary::Arithmetic(operator), right) => {
                self.arithmetic(*operator, left, right, text)
            }
            Expr::Binary(left, Binary::Compare(operator), right) => {
                let operands = self.comparable(&text, &[left, right])?;
                Ok(boolean(text, Operation::Compare(*operator, boxed(operands))))
            }
            Expr::Binary(left, Binary::And, right) => Ok(boolean(
                text,
                Operation::And(Box::new([self.condition(left)?, self.condition(right)?])),
            )),
            Expr::Binary(left, Binary::Or, right) => Ok(boolean(
                text,
                Operation::Or(Box::new([self.condition(left)?, self.condition(right)?])),
            )),
            Expr::Between { value, low, high } => {
                let operands = self.comparable(&text, &[value, low, high])?;
                Ok(boolean(text, Operation::Between(boxed(operands))))
            }
            Expr::In { value, items } => {
                let operands: Vec<&Expr> = std::iter::once(&**value).chain(items).collect();
                let mut operands = self.comparable(&text, &operands)?.into_iter();
                let value = operands.next().expect("the value is the first operand");
                Ok(boolean(text, Operation::In(Box::new(value), operands.collect())))
            }
            Expr::Match { value, language, pattern } => {
                let value = self.bind(value)?;
                let pattern = pattern::compile(&text, *language, pattern)?;
                if !is_text(leaf(&value.data_type)) {
                    let (shown, data_type) = (&value.text, &value.data_type);
                    return Err(Error::schema(format!(
                        "where `{text}`: expected text, but `{shown}` is {}",
                        TypeName(data_type)
                    )));
                }
                Ok(boolean(text, Operation::Match(Box::new(value), pattern)))
            }
            Expr::Cast(..) | Expr::Extract(..) | Expr::Case { .. } | Expr::Call(..) => {
                self.called(expr, text)
            }
        }
    }

    /// Binds a function, `CASE` or `CAST`. This code is not part of the recursive function
    /// [`bind`](Self::bind), whose stack frames must stay small.
    #[inline(never)]
    fn called(&self, expr: &Expr, text: String) -> Result<TypedOperation> {
        match expr {
            Expr::Cast(value, to) => casts::bind(self.bind(value)?, *to, text),
            Expr::Extract(part, time) => functions::extract(*part, self.bind(time)?, text),
            Expr::Case { branches, otherwise } => {
                let null = Expr::Literal(Literal::Null);
                let values: Vec<&Expr> = branches
                    .iter()
                    .map(|(_, value)| value)
                    .chain([otherwise.as_deref().unwrap_or(&null)])
                    .collect();
                let mut values = functions::in_one_type(self.comparable(&text, &values)?);
                let otherwise = values.pop().expect("there is a value for all other rows");
                let conditions = branches.iter().map(|(condition, _)| self.condition(condition));
                let conditions = conditions.collect::<Result<Vec<_>>>()?;
                let branches = conditions.into_iter().zip(values).collect();
                Ok(functions::case(branches, otherwise, text))
            }
            Expr::Call(ScalarFunction::Coalesce, values) => {
                let values = self.comparable(&text, &values.iter().collect::<Vec<_>>())?;
                Ok(functions::coalesce(functions::in_one_type(values), text))
            }
            Expr::Call(function, operands) => {
                let operands = operands.iter().map(|x| self.bind(x)).collect::<Result<Vec<_>>>()?;
                functions::bind(*function, operands, text)
            }
            _ => unreachable!("`bind` keeps all other expressions"),
        }
    }

    fn column(&self, side: Origin, name: &str, text: String) -> Result<TypedOperation> {
        let index = self.index(side, name)?;
        let found = |columns: &[usize]| {
            columns.binary_search(&index).expect("`collect` found every column")
        };
        let slot = match side {
            Origin::Left | Origin::Row => found(&self.left_columns),
            Origin::Right => self.left_columns.len() + found(&self.right_columns),
        };
        let data_type = self.schema(side).field(index).data_type().clone();
        let column =
            TypedOperation { operation: Operation::Column(slot), data_type, text, can_fail: false };
        decoded(column)
    }

    /// Binds a field of a struct.
    fn field(&self, value: &Expr, name: &str, text: String) -> Result<TypedOperation> {
        let value = self.bind(value)?;
        let DataType::Struct(fields) = &value.data_type else {
            return Err(Error::schema(format!(
                "where `{text}`: `{}` is {}, which has no fields; expected a struct",
                value.text,
                TypeName(&value.data_type)
            )));
        };
        let mut found = fields.iter().enumerate().filter(|(_, field)| field.name() == name);
        let (at, data_type) = match (found.next(), found.next()) {
            (Some((at, field)), None) => (at, field.data_type().clone()),
            (Some(_), Some(_)) => {
                return Err(Error::schema(format!(
                    "where `{text}`: `{}` has more than one field `{}`; rename one",
                    value.text,
                    shown(name)
                )));
            }
            (None, _) => {
                let known = known(name, fields.iter().map(|field| field.name().as_str()));
                return Err(Error::schema(format!(
                    "where `{text}`: `{}` has no field `{}`; {known}",
                    value.text,
                    shown(name)
                )));
            }
        };
        let can_fail = value.can_fail;
        let operation = Operation::Field(Box::new(value), at);
        decoded(TypedOperation { operation, data_type, text, can_fail })
    }

    fn unary(&self, operator: Unary, operand: &Expr, text: String) -> Result<TypedOperation> {
        match operator {
            Unary::Not => Ok(boolean(text, Operation::Not(Box::new(self.condition(operand)?)))),
            Unary::IsNull => Ok(boolean(text, Operation::IsNull(Box::new(self.bind(operand)?)))),
            Unary::IsNotNull => {
                Ok(boolean(text, Operation::IsNotNull(Box::new(self.bind(operand)?))))
            }
            Unary::Negate | Unary::Abs => {
                let operand = self.bind(operand)?;
                let data_type = computed(leaf(&operand.data_type))
                    .filter(|t| !matches!(t, DataType::Timestamp(..)));
                let Some(data_type) = data_type else {
                    return Err(Error::schema(format!(
                        "where `{text}`: expected a number or a duration, but `{}` is {}",
                        operand.text,
                        TypeName(&operand.data_type)
                    )));
                };
                let operand = Box::new(cast(operand, &data_type)?);
                let can_fail = data_type != DataType::Float64 || operand.can_fail;
                let operation = if operator == Unary::Abs {
                    Operation::Abs(operand)
                } else {
                    Operation::Negate(operand)
                };
                Ok(TypedOperation { operation, data_type, text, can_fail })
            }
        }
    }

    fn arithmetic(
        &self,
        operator: Arithmetic,
        left: &Expr,
        right: &Expr,
        text: String,
    ) -> Result<TypedOperation> {
        let [left, right] = self.side_by_side(left, right)?;
        if let Some(unit) = multiplied_duration(operator, &left, &right) {
            let operands =
                Box::new([cast(left, &DataType::Int64)?, cast(right, &DataType::Int64)?]);
            let operation = Operation::Arithmetic(operator, operands);
            let steps = TypedOperation {
                operation,
                data_type: DataType::Int64,
                text: text.clone(),
                can_fail: true,
            };
            return cast(steps, &DataType::Duration(unit));
        }
        let types = operand_types(operator, leaf(&left.data_type), leaf(&right.data_type));
        let Some((left_type, right_type)) = types else {
            return Err(mismatch(&text, "compute", &left, &right));
        };
        if operator == Arithmetic::Divide {
            let whole = |bound: &TypedOperation| {
                computed(leaf(&bound.data_type)) != Some(DataType::Float64)
            };
            let zero = if whole(&left) && whole(&right) {
                ZeroDivisor::IsAnError
            } else {
                ZeroDivisor::FollowsIeee754
            };
            let operands =
                Box::new([float(cast(left, &left_type)?)?, float(cast(right, &right_type)?)?]);
            let can_fail = zero == ZeroDivisor::IsAnError || any_can_fail(&*operands);
            let operation = Operation::Divide(operands, zero);
            return Ok(TypedOperation { operation, data_type: DataType::Float64, text, can_fail });
        }
        let operands = Box::new([cast(left, &left_type)?, cast(right, &right_type)?]);
        // The kernel itself determines the type of its result.
        let data_type = arithmetic_kernel(
            operator,
            &new_empty_array(&left_type),
            &new_empty_array(&right_type),
        )
        .map_err(|error| Error::schema(format!("where `{text}`: {error}")))?
        .data_type()
        .clone();
        let can_fail = data_type != DataType::Float64 || any_can_fail(&*operands);
        Ok(TypedOperation {
            operation: Operation::Arithmetic(operator, operands),
            data_type,
            text,
            can_fail,
        })
    }

    /// Binds two operands. A literal is converted to a type that suits the other operand.
    fn side_by_side(&self, left: &Expr, right: &Expr) -> Result<[TypedOperation; 2]> {
        let (left_bound, right_bound) = (self.bind(left)?, self.bind(right)?);
        Ok(match (left, right) {
            (Expr::Literal(literal), _) => [
                scalar(literal, &literal_type_beside(literal, &right_bound.data_type))?,
                right_bound,
            ],
            (_, Expr::Literal(literal)) => {
                let data_type = literal_type_beside(literal, &left_bound.data_type);
                [left_bound, scalar(literal, &data_type)?]
            }
            _ => [left_bound, right_bound],
        })
    }

    /// Converts operands to a common type so that they can be compared.
    fn comparable(&self, text: &str, operands: &[&Expr]) -> Result<Vec<TypedOperation>> {
        let mut bound =
            operands.iter().map(|operand| self.bind(operand)).collect::<Result<Vec<_>>>()?;
        let is_literal = |operand: &&Expr| matches!(operand, Expr::Literal(_));
        if let Some(column) = operands.iter().position(|operand| !is_literal(operand)) {
            let beside = bound[column].data_type.clone();
            for (operand, bound) in operands.iter().zip(&mut bound) {
                if let Expr::Literal(literal) = operand {
                    *bound = scalar(literal, &literal_type_beside(literal, &beside))?;
                }
            }
        }
        let mut common = leaf(&bound[0].data_type).clone();
        for other in &bound[1..] {
            common = comparison_type(&common, leaf(&other.data_type))
                .ok_or_else(|| mismatch(text, "compare", &bound[0], other))?;
        }
        bound.into_iter().map(|operand| cast(operand, &common)).collect()
    }

    fn condition(&self, expr: &Expr) -> Result<TypedOperation> {
        as_condition(self.bind(expr)?)
    }
}

/// Unpacks the values of a column or a field, unless the kernels can process encoded values.
fn decoded(column: TypedOperation) -> Result<TypedOperation> {
    match &column.data_type {
        // The kernels compare these dictionaries without unpacking them.
        DataType::Dictionary(_, values) if is_text_or_binary(values) => Ok(column),
        DataType::Dictionary(_, values) => {
            let values = (**values).clone();
            cast(column, &values)
        }
        DataType::RunEndEncoded(_, values) => {
            let values = values.data_type().clone();
            cast(column, &values)
        }
        _ => Ok(column),
    }
}

fn as_condition(bound: TypedOperation) -> Result<TypedOperation> {
    match bound.data_type {
        DataType::Boolean => Ok(bound),
        DataType::Null => cast(bound, &DataType::Boolean),
        _ => Err(Error::schema(format!(
            "where: expected a condition that is true or false, but `{}` is {}",
            bound.text,
            TypeName(&bound.data_type)
        ))),
    }
}

/// Returns the unit of a duration that is multiplied by a 64-bit integer.
fn multiplied_duration(
    operator: Arithmetic,
    left: &TypedOperation,
    right: &TypedOperation,
) -> Option<TimeUnit> {
    let is_integer = |data_type: &DataType| computed(data_type) == Some(DataType::Int64);
    match (operator, leaf(&left.data_type), leaf(&right.data_type)) {
        (Arithmetic::Multiply, DataType::Duration(unit), other)
        | (Arithmetic::Multiply, other, DataType::Duration(unit))
            if is_integer(other) =>
        {
            Some(*unit)
        }
        _ => None,
    }
}

fn table(side: Origin) -> &'static str {
    match side {
        Origin::Left => "the left table",
        Origin::Right => "the right table",
        Origin::Row => "the table",
    }
}

fn mismatch(text: &str, verb: &str, left: &TypedOperation, right: &TypedOperation) -> Error {
    let hint = hint(leaf(&left.data_type), leaf(&right.data_type));
    Error::schema(format!(
        "where `{text}`: cannot {verb} `{}` of type {} with `{}` of type {}{hint}",
        left.text,
        TypeName(&left.data_type),
        right.text,
        TypeName(&right.data_type)
    ))
}

fn boxed<const N: usize>(operands: Vec<TypedOperation>) -> Box<[TypedOperation; N]> {
    Box::new(operands.try_into().expect("the number of operands does not change"))
}

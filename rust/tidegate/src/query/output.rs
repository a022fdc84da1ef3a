//! The columns of a join's result, with their names and origins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use tidegate_operators::rows::How;

use crate::columns::keys::KeyColumn;
use crate::columns::metadata::{self, ColumnOrigin};
use crate::columns::names::known;
use crate::columns::table::Names;
use crate::{Error, Result, shown};

/// The parts of a query that determine its result columns.
pub(crate) struct Shape<'a> {
    pub(crate) how: How,
    pub(crate) keys: &'a [KeyColumn],
    pub(crate) suffix: &'a str,
    pub(crate) columns: Option<&'a [String]>,
}

/// A column of the result, specified by its input columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputColumn {
    Left(usize),
    Right(usize),
    /// A key column with the same name on both sides, for results that can contain rows without a
    /// left row.
    Either(usize, usize),
}

impl Shape<'_> {
    /// Returns the result columns that `columns` selects. The default is the left columns followed
    /// by the right columns, except for keys with the same name.
    pub(crate) fn output(
        &self,
        left: &Schema,
        right: &Schema,
    ) -> Result<(Vec<OutputColumn>, SchemaRef)> {
        let mut columns = self.left_columns(left, right);
        if self.how.pairs() {
            columns.extend(self.right_columns(left, right));
        }
        let columns = selected(columns, self.columns, self.suffix)?;
        let (columns, fields): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let of_each = columns.iter().zip(&fields);
        let origins: Vec<_> =
            of_each.map(|(&column, field)| origin(column, field, left, right)).collect();
        let metadata = metadata::of_join(left, right, &origins);
        Ok((columns, Arc::new(Schema::new_with_metadata(fields, metadata))))
    }

    /// Returns the keys that have the same name on both sides.
    pub(super) fn shared_keys(
        &self,
        left: &Schema,
        right: &Schema,
    ) -> impl Iterator<Item = &KeyColumn> {
        self.keys.iter().filter(|key| left.field(key.left).name() == right.field(key.right).name())
    }

    fn left_columns(&self, left: &Schema, right: &Schema) -> Vec<(OutputColumn, FieldRef)> {
        let optional = self.how.keeps_right();
        let mut shared: HashMap<usize, &KeyColumn> = HashMap::new();
        for key in self.shared_keys(left, right) {
            shared.entry(key.left).or_insert(key);
        }
        let column = |(at, field): (usize, &FieldRef)| match shared.get(&at) {
            Some(key) if optional => {
                let other = right.field(key.right);
                let nullable = field.is_nullable() || other.is_nullable();
                let field = metadata::of_both(field, other)
                    .with_data_type(key.holding_type(field, other))
                    .with_nullable(nullable);
                (OutputColumn::Either(at, key.right), Arc::new(field))
            }
            _ => (OutputColumn::Left(at), nullable(field, optional)),
        };
        left.fields().iter().enumerate().map(column).collect()
    }

    fn right_columns(&self, left: &Schema, right: &Schema) -> Vec<(OutputColumn, FieldRef)> {
        let shared: HashSet<usize> = self.shared_keys(left, right).map(|key| key.right).collect();
        let names = Names::new(left);
        let column = |(at, field): (usize, &FieldRef)| {
            let mut field = nullable(field, self.how.keeps_left());
            if names.has(field.name()) {
                let name = format!("{}{}", field.name(), self.suffix);
                field = Arc::new(Field::clone(&field).with_name(name));
            }
            (OutputColumn::Right(at), field)
        };
        right
            .fields()
            .iter()
            .enumerate()
            .filter(|(at, _)| !shared.contains(at))
            .map(column)
            .collect()
    }
}

/// Returns the columns of a result that the caller selects, in the caller's order. The default is
/// all columns.
pub(super) fn selected<C: Clone>(
    columns: Vec<(C, FieldRef)>,
    wanted: Option<&[String]>,
    suffix: &str,
) -> Result<Vec<(C, FieldRef)>> {
    let wants = |name: &String| wanted.is_none_or(|wanted| wanted.contains(name));
    let mut places: HashMap<String, usize> = HashMap::with_capacity(columns.len());
    for (at, (_, field)) in columns.iter().enumerate() {
        if places.insert(field.name().clone(), at).is_some() && wants(field.name()) {
            return Err(Error::schema(format!(
                "the result would have two columns `{}`; choose a suffix other than `{suffix}`, or \
                 rename one",
                field.name(),
            )));
        }
    }
    let Some(wanted) = wanted else { return Ok(columns) };
    let mut seen = HashSet::with_capacity(wanted.len());
    let mut pick = |name: &String| match places.get(name) {
        Some(_) if !seen.insert(name.clone()) => {
            Err(Error::argument(format!("columns names `{}` twice", shown(name))))
        }
        Some(&at) => Ok(columns[at].clone()),
        None => {
            let known = known(name, columns.iter().map(|(_, field)| field.name().as_str()));
            Err(Error::schema(format!(
                "columns: the result has no column `{}`; {known}",
                shown(name)
            )))
        }
    };
    wanted.iter().map(&mut pick).collect()
}

/// Returns a result column with the input columns that supply its values.
pub(super) fn origin<'a>(
    column: OutputColumn,
    field: &'a Field,
    left: &'a Schema,
    right: &'a Schema,
) -> ColumnOrigin<'a> {
    let of = match column {
        OutputColumn::Left(at) => vec![(0, left.field(at))],
        OutputColumn::Right(at) => vec![(1, right.field(at))],
        OutputColumn::Either(of_left, of_right) => {
            vec![(0, left.field(of_left)), (1, right.field(of_right))]
        }
    };
    ColumnOrigin { field, of }
}

pub(super) fn nullable(field: &FieldRef, optional: bool) -> FieldRef {
    if optional && !field.is_nullable() {
        Arc::new(Field::clone(field).with_nullable(true))
    } else {
        field.clone()
    }
}

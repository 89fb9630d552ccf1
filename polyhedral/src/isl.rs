//! isl, in the few operations that the analysis needs.
//!
//! The bindings' handles are `Send` by accident and can be duplicated through public fields; here a
//! [`Relation`] is neither, keeps its context alive, and turns isl's errors into ours. isl is configured to
//! return errors instead of ending the process, and to give up after a bounded number of operations.

use crate::conditions::{Column, Condition, Conditions, Form};
use isl_rs::{BasicMap, Context, DimType, LibISLError, Map, Mat, Options, Space, Val};
use polyshard_layout::Name;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// isl's `ISL_ON_ERROR_CONTINUE`.
const CONTINUE: i32 = 1;

/// Far beyond what any schedule in the test suite needs; seconds rather than hours.
const MAX_OPERATIONS: u64 = 400_000_000;

/// An error message of isl.
#[derive(Debug)]
pub(crate) struct IslError(pub String);

pub(crate) type IslResult<T> = Result<T, IslError>;

/// An isl context; relations of two contexts are never combined.
#[derive(Clone)]
pub(crate) struct Isl {
    // Relations built before; dropped before the context that they live in.
    cache: Rc<RefCell<HashMap<Conditions, Map>>>,
    context: Rc<Context>,
}

impl Isl {
    pub(crate) fn new() -> IslResult<Self> {
        let context = Context::alloc();
        Options::set_on_error(&context, CONTINUE).map_err(|error| IslError(error.to_string()))?;
        context.set_max_operations(MAX_OPERATIONS);
        Ok(Self { cache: Rc::default(), context: Rc::new(context) })
    }

    /// The pairs of tuples that satisfy the conditions.
    pub(crate) fn relation(&self, conditions: &Conditions) -> IslResult<Relation> {
        // Passes request the same relations repeatedly.
        if let Some(map) = self.cache.borrow().get(conditions) {
            return self.relation_of(map.copy());
        }
        let map = self.checked(self.map(conditions))?;
        let relation = self.relation_of(map.copy())?;
        self.cache.borrow_mut().insert(conditions.clone(), map);
        Ok(relation)
    }

    fn map(&self, conditions: &Conditions) -> Result<Map, LibISLError> {
        let cases = conditions.cases.iter().map(|case| self.case(conditions, case));
        let union = cases.reduce(|others, case| Map::union(others?, case?));
        union.expect("there is a case; this is a bug in polyshard")
    }

    fn case(&self, conditions: &Conditions, case: &[Condition]) -> Result<Map, LibISLError> {
        let (zero, not_negative): (Vec<_>, Vec<_>) =
            case.iter().partition(|condition| matches!(condition, Condition::Zero(_)));
        let [zero, not_negative] = [zero, not_negative].map(|rows| self.matrix(conditions, &rows));
        let space = Space::alloc(&self.context, 0, conditions.inputs as u32, conditions.outputs as u32)?;
        let [from, to, witness, constant, none] =
            [DimType::In, DimType::Out, DimType::Div, DimType::Cst, DimType::Param];
        Map::from_basic_map(BasicMap::from_constraint_matrices(
            space,
            zero?,
            not_negative?,
            from,
            to,
            witness,
            constant,
            none,
        )?)
    }

    /// A row per condition: inputs, outputs, witnesses, the constant.
    fn matrix(&self, conditions: &Conditions, rows: &[&Condition]) -> Result<Mat, LibISLError> {
        let Conditions { inputs, outputs, witnesses, .. } = conditions;
        let last = inputs + outputs + witnesses;
        let mut matrix = Mat::alloc(&self.context, rows.len() as u32, last as u32 + 1)?;
        for (row, condition) in rows.iter().enumerate() {
            let (Condition::Zero(Form { terms, constant }) | Condition::NotNegative(Form { terms, constant })) =
                condition;
            let mut values = vec![0; last + 1];
            values[last] = *constant;
            for (column, factor) in terms {
                values[match column {
                    Column::Input(dim) => *dim,
                    Column::Output(dim) => inputs + dim,
                    Column::Witness(number) => inputs + outputs + number,
                }] = *factor;
            }
            for (column, value) in values.into_iter().enumerate() {
                let (row, column) = (row as i32, column as i32);
                matrix = match i32::try_from(value) {
                    Ok(value) => matrix.set_element_si(row, column, value)?,
                    Err(_) => {
                        let value = Val::read_from_str(&self.context, &value.to_string())?;
                        matrix.set_element_val(row, column, value)?
                    }
                };
            }
        }
        Ok(matrix)
    }

    fn relation_of(&self, map: Result<Map, LibISLError>) -> IslResult<Relation> {
        self.checked(map).map(|map| Relation { map, isl: self.clone() })
    }

    fn checked<T>(&self, result: Result<T, LibISLError>) -> IslResult<T> {
        result.map_err(|error| {
            // A failed test only returns -1; the context has the error.
            let message = match self.context.last_error() {
                isl_rs::Error::None_ => error.to_string(),
                _ => self.context.last_error_msg().to_owned(),
            };
            self.context.reset_error();
            IslError(message)
        })
    }
}

/// A relation between integer tuples: a union of convex pieces with strides.
pub(crate) struct Relation {
    // Dropped before the context that it lives in.
    map: Map,
    isl: Isl,
}

impl Relation {
    fn map(&self, by: impl FnOnce(Map) -> Result<Map, LibISLError>) -> IslResult<Self> {
        let copy = self.isl.checked(self.map.copy())?;
        self.isl.relation_of(by(copy))
    }

    fn with(&self, other: &Self, by: impl FnOnce(Map, Map) -> Result<Map, LibISLError>) -> IslResult<Self> {
        let other = self.isl.checked(other.map.copy())?;
        self.map(|map| by(map, other))
    }

    /// `{ b -> a : self contains a -> b }`.
    pub(crate) fn reverse(&self) -> IslResult<Self> {
        self.map(Map::reverse)
    }

    /// `{ a -> c : a -> b in self, b -> c in next }`.
    pub(crate) fn then(&self, next: &Self) -> IslResult<Self> {
        self.with(next, Map::apply_range)
    }

    /// Keeps the pairs whose input is an input of `other`.
    pub(crate) fn restrict(&self, other: &Self) -> IslResult<Self> {
        let domain = self.isl.checked(other.map.copy().and_then(Map::domain))?;
        self.map(|map| map.intersect_domain(domain))
    }

    /// `{ [] -> b : a -> b in self }`.
    pub(crate) fn range(&self) -> IslResult<Self> {
        let inputs = self.isl.checked(self.map.dim(DimType::In))? as u32;
        self.map(|map| map.project_out(DimType::In, 0, inputs))
    }

    /// Keeps the output dimension `kept` alone.
    pub(crate) fn output(&self, kept: usize) -> IslResult<Self> {
        let outputs = self.isl.checked(self.map.dim(DimType::Out))? as u32;
        let kept = kept as u32;
        let tail = self.map(|map| map.project_out(DimType::Out, kept + 1, outputs - kept - 1))?;
        tail.map(|map| map.project_out(DimType::Out, 0, kept))
    }

    /// The relation in isl's notation, with these names for tuples and their numbers.
    pub(crate) fn text(&self, from: (&str, &[Name]), to: (&str, &[Name])) -> IslResult<String> {
        let named = |map: Map| {
            let mut map = map.coalesce()?;
            for (side, (tuple, numbers)) in [(DimType::In, from), (DimType::Out, to)] {
                if !tuple.is_empty() {
                    map = map.set_tuple_name(side, tuple)?;
                }
                for (position, name) in numbers.iter().enumerate() {
                    map = map.set_dim_name(side, position as u32, name.as_str())?;
                }
            }
            Ok(map)
        };
        let named = self.map(named)?;
        self.isl.checked(named.map.to_str().map(str::to_owned))
    }

    pub(crate) fn is_single_valued(&self) -> IslResult<bool> {
        self.isl.checked(self.map.is_single_valued())
    }

    pub(crate) fn is_injective(&self) -> IslResult<bool> {
        self.isl.checked(self.map.is_injective())
    }

    pub(crate) fn is_subset(&self, other: &Self) -> IslResult<bool> {
        self.isl.checked(self.map.is_subset(&other.map))
    }

    pub(crate) fn is_equal(&self, other: &Self) -> IslResult<bool> {
        self.isl.checked(self.map.is_equal(&other.map))
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.map.to_str().map_err(|_| fmt::Error)?)
    }
}

//! How records are combined: the formulas as a list of operations, each on earlier ones, without repetitions.
//!
//! Operations on single values come first. Those on rows are computed for a few elements at a time, so that they stay in registers and the
//! L1 cache. Tests: `tests/it/running.rs`.

use super::{RunningForm, constant};
use crate::value::{Comparison, Conditional, Function, Value};
use polyshard_layout::{Combine, Name, ReduceOp, did_you_mean};
use std::collections::HashMap;

/// Elements of a row that are computed together.
const LANES: usize = 64;

/// The operations.
pub(super) struct Plan {
    nodes: Vec<Node>,
    /// By node, whether it has a value per element of a row.
    is_row: Vec<bool>,
    /// By field, the node that is its value.
    results: Vec<usize>,
    /// The field that is a row, if one is.
    row: Option<usize>,
}

/// An operation; numbers are those of earlier nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Node {
    /// A field of the record whose terms come first.
    First(usize),
    /// A field of the other record.
    Second(usize),
    Number(f64),
    Neg(usize),
    Add([usize; 2]),
    Sub([usize; 2]),
    Mul([usize; 2]),
    Div([usize; 2]),
    Max([usize; 2]),
    Min([usize; 2]),
    Pow([usize; 2]),
    Call(Function, usize),
    If(Comparison, [usize; 4]),
}

/// A float with the functions of formulas.
pub(super) trait Float: Combine + PartialOrd {
    fn of(number: f64) -> Self;
    fn negate(self) -> Self;
    fn arithmetic(self, other: Self) -> [Self; 4];
    fn power(self, other: Self) -> Self;
    fn call(self, function: Function) -> Self;
}

macro_rules! floats {
    ($($type:ident)*) => { $(
        impl Float for $type {
            fn of(number: f64) -> Self {
                number as Self
            }

            #[inline(always)]
            fn negate(self) -> Self {
                -self
            }

            #[inline(always)]
            fn arithmetic(self, other: Self) -> [Self; 4] {
                [self + other, self - other, self * other, self / other]
            }

            fn power(self, other: Self) -> Self {
                self.powf(other)
            }

            fn call(self, function: Function) -> Self {
                match function {
                    Function::Exp => self.exp(),
                    Function::Log => self.ln(),
                    Function::Sqrt => self.sqrt(),
                    Function::Tanh => self.tanh(),
                    Function::Sin => self.sin(),
                    Function::Cos => self.cos(),
                    Function::Floor => self.floor(),
                    Function::Abs => self.abs(),
                    Function::Sign if self == 0.0 || self.is_nan() => self,
                    Function::Sign => self.signum(),
                }
            }
        }
    )* };
}
floats!(f32 f64);

impl Plan {
    pub(super) fn new(form: &RunningForm) -> Result<Self, String> {
        let names: Vec<Name> = form.fields.iter().map(|field| field.name).collect();
        let lets = form.lets.iter().map(|(name, _)| *name);
        let all: Vec<Name> = names.iter().copied().chain(lets).collect();
        if let Some(twice) = all.iter().enumerate().find(|(nth, name)| all[..*nth].contains(name)) {
            return Err(format!("the name `{}` stands twice in `{}`", twice.1, form.name));
        }
        if names.is_empty() {
            return Err(format!("`{}` has no fields", form.name));
        }
        if let Some(field) = form.fields.iter().find(|field| constant(&field.initial).is_none()) {
            return Err(format!("the initial value of `{}` is not a number", field.name));
        }
        let row = form.row.then(|| names.len() - 1);
        let mut plan = Self { nodes: Vec::new(), is_row: Vec::new(), results: Vec::new(), row };
        let mut known: HashMap<Name, usize> = HashMap::new();
        for (name, value) in &form.lets {
            let node = plan.value(value, &names, &known)?;
            known.insert(*name, node);
        }
        for (number, field) in form.fields.iter().enumerate() {
            let node = plan.value(&field.combined, &names, &known)?;
            if plan.is_row[node] && row != Some(number) {
                let (field, row) = (field.name, names[names.len() - 1]);
                return Err(format!(
                    "the formula of `{field}` uses `{row}`, whose target has an index that the target of `{field}` lacks"
                ));
            }
            plan.results.push(node);
        }
        Ok(plan)
    }

    /// Adds the operations of a value, and returns the last one.
    fn value(&mut self, value: &Value, fields: &[Name], known: &HashMap<Name, usize>) -> Result<usize, String> {
        let mut parts = Vec::new();
        if !matches!(value, Value::Access(_) | Value::Index(_)) {
            for part in value.parts() {
                parts.push(self.value(part, fields, known)?);
            }
        }
        let two = || [parts[0], parts[1]];
        let node = match value {
            Value::Access(access) => {
                return Err(format!("`{access}` is an element of an array; a formula is of fields only"));
            }
            Value::Index(index) => return Err(format!("`{index}` is an index; a formula is of fields only")),
            Value::Literal(_) => Node::Number(constant(value).unwrap_or(f64::NAN)),
            Value::Scalar(name) => match known.get(name) {
                Some(node) => return Ok(*node),
                None => field(*name, fields)?,
            },
            Value::Neg(_) => Node::Neg(parts[0]),
            Value::Add(..) => Node::Add(two()),
            Value::Sub(..) => Node::Sub(two()),
            Value::Mul(..) => Node::Mul(two()),
            Value::Div(..) => Node::Div(two()),
            Value::Max(..) => Node::Max(two()),
            Value::Min(..) => Node::Min(two()),
            Value::Pow(..) => Node::Pow(two()),
            Value::Call(function, _) => Node::Call(*function, parts[0]),
            Value::If(choice) => {
                let Conditional { compare, .. } = &**choice;
                Node::If(*compare, [parts[0], parts[1], parts[2], parts[3]])
            }
        };
        if let Some(same) = self.nodes.iter().position(|other| *other == node) {
            return Ok(same);
        }
        let is_row = match node {
            Node::First(field) | Node::Second(field) => self.row == Some(field),
            _ => parts.iter().any(|&part| self.is_row[part]),
        };
        self.nodes.push(node);
        self.is_row.push(is_row);
        Ok(self.nodes.len() - 1)
    }

    /// Combines records of `size` elements.
    pub(super) fn combine<T: Float>(&self, size: usize, into: &mut [T], with: &[T]) {
        let none = T::of(0.0);
        let mut scratch = Scratch { singles: vec![none; self.nodes.len()], rows: Vec::new() };
        if self.row.is_some() {
            scratch.rows = vec![[none; LANES]; self.nodes.len()];
        }
        for (into, with) in into.chunks_exact_mut(size).zip(with.chunks_exact(size)) {
            if with[0] == none {
                continue;
            }
            if into[0] == none {
                into.copy_from_slice(with);
                continue;
            }
            self.one(&mut into[1..], &with[1..], &mut scratch);
        }
    }

    /// Combines the fields of two records that have terms.
    fn one<T: Float>(&self, into: &mut [T], with: &[T], scratch: &mut Scratch<T>) {
        let Scratch { singles, rows } = scratch;
        for (number, node) in self.nodes.iter().enumerate().filter(|(number, _)| !self.is_row[*number]) {
            singles[number] = match *node {
                Node::First(field) => into[field],
                Node::Second(field) => with[field],
                _ => node.of(|part| singles[part]),
            };
        }
        if let Some(row) = self.row {
            // A single value that operations on rows use is the same for each element.
            for (number, single) in singles.iter().enumerate().filter(|(number, _)| !self.is_row[*number]) {
                rows[number] = [*single; LANES];
            }
            for start in (row..into.len()).step_by(LANES) {
                let len = LANES.min(into.len() - start);
                for (number, node) in self.nodes.iter().enumerate().filter(|(number, _)| self.is_row[*number]) {
                    let (before, rest) = rows.split_at_mut(number);
                    let lanes = &mut rest[0];
                    match *node {
                        Node::First(_) => lanes[..len].copy_from_slice(&into[start..start + len]),
                        Node::Second(_) => lanes[..len].copy_from_slice(&with[start..start + len]),
                        _ => node.of_lanes(before, lanes),
                    }
                }
                into[start..start + len].copy_from_slice(&rows[self.results[row]][..len]);
            }
        }
        for (field, &node) in self.results.iter().enumerate().filter(|(field, _)| self.row != Some(*field)) {
            into[field] = singles[node];
        }
    }
}

/// The values of nodes.
struct Scratch<T> {
    singles: Vec<T>,
    rows: Vec<[T; LANES]>,
}

impl Node {
    /// The value of an operation on these values.
    #[inline(always)]
    fn of<T: Float>(&self, part: impl Fn(usize) -> T) -> T {
        let arithmetic = |[a, b]: [usize; 2], nth: usize| part(a).arithmetic(part(b))[nth];
        match *self {
            Self::First(_) | Self::Second(_) => unreachable!("a field is no operation; this is a bug in polyshard"),
            Self::Number(number) => T::of(number),
            Self::Neg(a) => part(a).negate(),
            Self::Add(parts) => arithmetic(parts, 0),
            Self::Sub(parts) => arithmetic(parts, 1),
            Self::Mul(parts) => arithmetic(parts, 2),
            Self::Div(parts) => arithmetic(parts, 3),
            Self::Max([a, b]) => part(a).combined(ReduceOp::Max, part(b)),
            Self::Min([a, b]) => part(a).combined(ReduceOp::Min, part(b)),
            Self::Pow([a, b]) => part(a).power(part(b)),
            Self::Call(function, a) => part(a).call(function),
            Self::If(comparison, [left, right, then, otherwise]) => {
                part(if comparison.holds(part(left), part(right)) { then } else { otherwise })
            }
        }
    }

    /// The values of an operation for elements of a row.
    fn of_lanes<T: Float>(&self, parts: &[[T; LANES]], out: &mut [T; LANES]) {
        // One loop per kind of operation, so that those on two numbers are vectorised.
        let each = |[a, b]: [usize; 2], out: &mut [T; LANES], nth: usize| {
            for (out, (a, b)) in out.iter_mut().zip(parts[a].iter().zip(&parts[b])) {
                *out = a.arithmetic(*b)[nth];
            }
        };
        match *self {
            Self::Add(pair) => each(pair, out, 0),
            Self::Sub(pair) => each(pair, out, 1),
            Self::Mul(pair) => each(pair, out, 2),
            Self::Div(pair) => each(pair, out, 3),
            _ => out.iter_mut().enumerate().for_each(|(lane, out)| *out = self.of(|part| parts[part][lane])),
        }
    }
}

/// The field that a name in a formula is: `a.m` or `b.m`.
fn field(name: Name, fields: &[Name]) -> Result<Node, String> {
    let text = name.as_str();
    let side = text.strip_prefix("a.").map(|rest| (rest, true)).or(text.strip_prefix("b.").map(|rest| (rest, false)));
    if let Some((rest, is_first)) = side {
        return match fields.iter().position(|field| field.as_str() == rest) {
            Some(number) if is_first => Ok(Node::First(number)),
            Some(number) => Ok(Node::Second(number)),
            None => {
                let meant = did_you_mean(rest, fields.iter().map(|field| field.as_str()));
                Err(format!("no field `{rest}`; {meant}the fields are {}", polyshard_layout::joined(fields, ", ")))
            }
        };
    }
    match fields.contains(&name) {
        true => Err(format!("`{name}` is a field of both records: write `a.{name}` or `b.{name}`")),
        false => Err(format!(
            "`{name}` is neither a field, `a.{}`, nor a `let` before it",
            fields.first().copied().unwrap_or(name)
        )),
    }
}

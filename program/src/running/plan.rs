//! The formulas of a running reduction as a list of operations, each on earlier ones, without repetitions.
//!
//! Tests: `tests/it/running.rs`.

use super::{RunningForm, constant};
use crate::value::{Comparison, Conditional, Function, Value};
use polyshard_layout::{Name, did_you_mean, joined};
use std::collections::HashMap;

/// The operations that combine two records.
#[derive(Debug)]
pub struct Plan {
    /// The operations, each on those before it.
    pub nodes: Vec<Node>,
    /// By node, whether it has a value per element of a row.
    pub is_row: Vec<bool>,
    /// By field, the node that is its value.
    pub results: Vec<usize>,
    /// The field that is a row, if one is.
    pub row: Option<usize>,
}

/// An operation; numbers are those of earlier nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "they are those of values")]
pub enum Node {
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
                Err(format!("no field `{rest}`; {meant}the fields are {}", joined(fields, ", ")))
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

//! Running reductions: several values that are combined at once, such as the maximum and the sum of an online softmax.
//!
//! ```text
//! reduction online(m = -inf, l = 0.0) {
//!     let t = max(max(a.m, b.m), -1e30);
//!     m: t, l: a.l * exp(a.m - t) + b.l * exp(b.m - t)
//! } means (l * exp(m))
//! ```
//!
//! The values for one element of the output are a record: its first element is 0 until the record has a term, and then 1; the fields
//! follow. The last field may be a row of several elements. Records without terms are never combined, so the initial values only stand
//! for the results of no terms.
//!
//! A definition is proved when it is made: what it says that records mean has to add up (`running/proof.rs`). The leaf combines records
//! (`leaf/src/records.rs`).
//!
//! Tests: `tests/it/running.rs`.

mod plan;
mod proof;

pub use plan::{Node, Plan};

use crate::value::Value;
use polyshard_layout::{Name, joined};
use proof::{Claim, Doubt};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A running reduction as it is written, with the layout of its records.
///
/// Formulas are values whose scalars are the fields of both records, `a.m` and `b.m`, and the names of `lets`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningForm {
    /// Its name.
    pub name: Name,
    /// The fields, in the order of their elements in a record.
    pub fields: Vec<Field>,
    /// Values that formulas share; each may use those before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lets: Vec<(Name, Value)>,
    /// Functions of the fields that add up when records are combined; none if the definition is trusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub means: Vec<Value>,
    /// Whether the last field is a row: all elements of the record after those of the other fields.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub row: bool,
    /// The elements of a record; 0 until the extent of the output is known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: usize,
}

fn is_zero(size: &usize) -> bool {
    *size == 0
}

/// A field of a running reduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Its name.
    pub name: Name,
    /// Its value without terms: a number.
    pub initial: Value,
    /// Its value when two records are combined.
    pub combined: Value,
}

/// A running reduction that has been checked and proved. Equal definitions are one value.
///
/// ```
/// use polyshard::program::{Field, Number, Running, RunningForm, Value};
/// let [a, b] = ["a.s", "b.s"].map(|name| Box::new(Value::Scalar(name.into())));
/// let zero = Value::Literal(Number::Int(0));
/// let field = Field { name: "s".into(), initial: zero, combined: Value::Add(a, b) };
/// let means = vec![Value::Scalar("s".into())];
/// let form = RunningForm { name: "sum".into(), fields: vec![field], lets: Vec::new(), means, row: false, size: 0 };
/// let sum = Running::new(form.clone())?;
/// assert_eq!(sum, Running::new(form.clone())?);
/// let [a, b] = ["a.s", "b.s"].map(|name| Box::new(Value::Scalar(name.into())));
/// let product = Field { combined: Value::Mul(a, b), ..form.fields[0].clone() };
/// let wrong = RunningForm { fields: vec![product], ..form };
/// assert!(Running::new(wrong).unwrap_err().contains("does not hold"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(into = "RunningForm", try_from = "RunningForm")]
pub struct Running(&'static Made);

/// A definition, and how records are combined.
struct Made {
    form: RunningForm,
    plan: Plan,
}

impl Running {
    /// Checks and proves a definition.
    ///
    /// # Errors
    /// A sentence about names that are unknown or stand twice, formulas of a single value that use a row, or a claim that does not hold or
    /// cannot be proved.
    pub fn new(form: RunningForm) -> Result<Self, String> {
        static MADE: OnceLock<Mutex<HashMap<String, &'static Made>>> = OnceLock::new();
        let mut all = MADE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let text = format!("{form:?}");
        if let Some(made) = all.get(&text) {
            return Ok(Self(made));
        }
        let plan = Plan::new(&form)?;
        // The proof of a definition does not depend on the layout of its records.
        let is_proved = |other: &&&Made| RunningForm { size: form.size, ..other.form.clone() } == form;
        if !form.means.is_empty() && !all.values().any(|other| is_proved(&other)) {
            form.prove()?;
        }
        let made: &'static Made = Box::leak(Box::new(Made { form, plan }));
        all.insert(text, made);
        Ok(Self(made))
    }

    /// Returns the definition.
    #[must_use]
    pub fn form(self) -> &'static RunningForm {
        &self.0.form
    }

    /// Returns the reduction with records of this size, in which a row has the elements that are left.
    ///
    /// # Errors
    /// A sentence, if the fields have another size.
    pub fn of_size(self, size: usize) -> Result<Self, String> {
        let form = self.form();
        let least = 1 + form.fields.len() - usize::from(form.row);
        if size < least || size > least && !form.row {
            return Err(format!("records of `{}` have {least} elements, but the output has {size}", form.name));
        }
        Self::new(RunningForm { size, ..form.clone() })
    }

    /// Returns the operations that combine two records.
    #[doc(hidden)]
    #[must_use]
    pub fn plan(self) -> &'static Plan {
        &self.0.plan
    }

    /// Returns, in a few words, what has been proved about it: `(l * exp(m)) is a sum`.
    #[must_use]
    pub fn meaning(self) -> String {
        let form = self.form();
        match &form.means[..] {
            [] => format!("`{}` is trusted to combine terms in any grouping", form.name),
            means => format!("`{}` adds up ({}), proved", form.name, joined(means, ", ")),
        }
    }
}

impl RunningForm {
    fn prove(&self) -> Result<(), String> {
        let names: Vec<Name> = self.fields.iter().map(|field| field.name).collect();
        let part = |part: fn(&Field) -> &Value| -> Vec<Value> {
            self.fields.iter().map(|field| part(field).clone()).collect()
        };
        let (init, formulas) = (part(|field| &field.initial), part(|field| &field.combined));
        let claim = Claim { fields: &names, init: &init, lets: &self.lets, formulas: &formulas, means: &self.means };
        proof::prove(&claim).map_err(|doubt| match doubt {
            Doubt::False(why) => format!("`means` of `{}` does not hold: {why}", self.name),
            Doubt::Undecided(why) => format!("`means` of `{}` cannot be proved: {why}", self.name),
        })
    }
}

impl PartialEq for Running {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Running {}

impl Hash for Running {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

impl From<Running> for RunningForm {
    fn from(running: Running) -> Self {
        running.form().clone()
    }
}

impl TryFrom<RunningForm> for Running {
    type Error = String;

    fn try_from(form: RunningForm) -> Result<Self, String> {
        Self::new(form)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Running({self})")
    }
}

/// Its name, as before the `=` of a statement.
impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.form().name)
    }
}

/// The number that a constant is.
fn constant(value: &Value) -> Option<f64> {
    match value {
        Value::Literal(number) => Some(number.as_f64()),
        Value::Neg(inner) => constant(inner).map(|number| -number),
        // Infinity is written as 1 / 0.
        Value::Div(left, right) => Some(constant(left)? / constant(right)?),
        _ => None,
    }
}

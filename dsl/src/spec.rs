//! A kernel of constants as data, built where it is parsed.
//!
//! It has three uses: to check bounds while the user's crate is compiled, if everything happens to be a literal
//! ([`constant`]), and in the compiled form of `kernel!` and in texts, where everything must be a literal ([`literal`]).

use crate::checked::Checked;
use crate::constant::evaluate;
use crate::errors::{Errors, error};
use crate::form::Form;
use crate::name::name;
use polyshard_program::{KernelSpec, Number};
use syn::{Expr, Result};

/// Returns the kernel, if all its extents and its element type are known.
pub(crate) fn constant(kernel: &Checked) -> Option<KernelSpec> {
    let all = |extents: &[Expr]| extents.iter().map(evaluate).collect::<Option<Vec<_>>>();
    let inputs = kernel.inputs.iter().map(|input| Some((name(&input.name), all(&input.extents)?)));
    let ranges =
        kernel.ranges.iter().map(|range| Some((name(&range.var), evaluate(&range.start)?..evaluate(&range.end)?)));
    let moduli = kernel.moduli.iter().map(|(text, modulus)| Some((*text, evaluate(modulus)?)));
    Some(KernelSpec {
        name: name(&kernel.name),
        dtype: kernel.element.known?,
        inputs: inputs.collect::<Option<_>>()?,
        output: (name(&kernel.output.name), all(&kernel.output.extents)?),
        ranges: ranges.collect::<Option<_>>()?,
        // Their values are known at run time; 1 is legal wherever a number is.
        scalars: kernel.scalars.iter().map(|scalar| (name(scalar), Number::Int(1))).collect(),
        moduli: moduli.collect::<Option<_>>()?,
        target: kernel.target.clone(),
        assign: kernel.assign,
        value: kernel.value.clone(),
    })
}

impl Checked {
    /// Returns the kernel as data, whose scalars get their values at run time.
    ///
    /// # Errors
    /// All extents, moduli and types that are not literals.
    pub fn spec(&self) -> Result<KernelSpec> {
        literal(self, Form::Macro)
    }
}

/// Returns the kernel, or an error on each part that is known only at run time.
pub(crate) fn literal(kernel: &Checked, form: Form) -> Result<KernelSpec> {
    let mut errors = Errors::default();
    let tensors = kernel.inputs.iter().chain([&kernel.output]);
    let bounds = kernel.ranges.iter().flat_map(|range| [&range.start, &range.end]);
    let extents = tensors.flat_map(|tensor| &tensor.extents).chain(bounds);
    let later = "sizes known at run time";
    for extent in extents.filter(|extent| evaluate(extent).is_none()) {
        errors.add(form.not_literal(extent, "literal extents", "write a number", later));
    }
    for (_, modulus) in &kernel.moduli {
        errors.add(form.not_literal(modulus, "literal moduli", "write a number", later));
    }
    if kernel.element.known.is_none() {
        let (what, help) = ("a literal element type", "write `f32`, `f64`, `i32` or `i64`");
        errors.add(form.not_literal(&kernel.element.written, what, help, "types known later"));
    }
    for scalar in kernel.scalars.iter().filter(|_| matches!(form, Form::Text)) {
        let help = format!("write a number, or a tensor of no dimensions: `{scalar}: f32` and `{scalar}[]`");
        errors.push(scalar, format!("there is no value for `{scalar}`, since text cannot capture variables"), help);
    }
    errors.stop()?;
    let bug = || error(&kernel.name, "the kernel is not constant", "this is a bug in Polyshard, please report it");
    constant(kernel).ok_or_else(bug)
}

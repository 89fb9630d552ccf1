//! A kernel of constants as data, built where it is parsed.
//!
//! It has two uses: to check bounds while the user's crate is compiled, if everything happens to be a literal, and in the compiled form of
//! `kernel!` and in texts, where everything must be a literal.

use crate::checked::Checked;
use crate::constant::evaluate;
use crate::errors::Errors;
use crate::form::Form;
use crate::name::name;
use crate::syntax::Tensor;
use polyshard_program::{DType, KernelSpec, Number};
use quote::ToTokens;
use syn::{Expr, Result};

impl Checked {
    /// Returns the kernel as data, whose scalars get their values at run time.
    ///
    /// # Errors
    /// All extents, moduli and types that are not literals.
    pub fn spec(&self) -> Result<KernelSpec> {
        literal(self, Form::Macro)
    }
}

/// Returns the kernel, or an error on each part that is known only at run time; in a program, values of scalars may be.
pub(crate) fn literal(kernel: &Checked, form: Form) -> Result<KernelSpec> {
    literal_once(kernel, form, &mut Vec::new())
}

/// As [`literal`], but without an error on a part that another kernel has `reported`.
pub(crate) fn literal_once(kernel: &Checked, form: Form, reported: &mut Vec<String>) -> Result<KernelSpec> {
    let (mut errors, before) = (Errors::default(), reported.len());
    let mut report = |errors: &mut Errors, at: &dyn ToTokens, what: &str, help: &str, later: &str| {
        let text = at.to_token_stream().to_string();
        if !reported[..before].contains(&text) {
            errors.add(form.not_literal(at, what, help, later));
        }
        reported.push(text);
    };
    let mut number = |expr: &Expr, what: &str| {
        evaluate(expr).unwrap_or_else(|| {
            report(&mut errors, expr, what, "write a number", "sizes known at run time");
            0
        })
    };
    let mut extent = |extent: &Expr| number(extent, "literal extents");
    let mut tensor = |tensor: &Tensor| (name(&tensor.name), tensor.extents.iter().map(&mut extent).collect());
    let (inputs, output) = (kernel.inputs.iter().map(&mut tensor).collect(), tensor(&kernel.output));
    let ranges =
        kernel.ranges.iter().map(|range| (name(&range.var), extent(&range.start)..extent(&range.end))).collect();
    let moduli = kernel.moduli.iter().map(|(text, modulus)| (*text, number(modulus, "literal moduli"))).collect();
    let dtype = kernel.element.known.unwrap_or_else(|| {
        let (what, help) = ("a literal element type", "write `f32`, `f64`, `i32` or `i64`");
        report(&mut errors, &kernel.element.written, what, help, "types known later");
        DType::F64
    });
    for scalar in kernel.scalars.iter().filter(|_| matches!(form, Form::Text)) {
        let help = format!("write a number, or a tensor of no dimensions: `{scalar}: f32` and `{scalar}[]`");
        errors.push(scalar, format!("there is no value for `{scalar}`, since text cannot capture variables"), help);
    }
    errors.finish(KernelSpec {
        name: name(&kernel.name),
        dtype,
        inputs,
        output,
        ranges,
        // Their values are known at run time; 1 is legal wherever a number is.
        scalars: kernel.scalars.iter().map(|scalar| (name(scalar), Number::Int(1))).collect(),
        moduli,
        target: kernel.target.clone(),
        assign: kernel.assign,
        value: kernel.value.clone(),
    })
}

//! A kernel of constants as the data that `polyhedral` checks and schedules, built in the macro itself.

use crate::checked::Checked;
use crate::constant::evaluate;
use crate::name::name;
use polyshard_program::{KernelSpec, Number};
use syn::Expr;

/// Returns the kernel, if all its extents and its element type are known to the macro.
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
        // Their values come when the program runs; 1 is legal wherever a number is.
        scalars: kernel.scalars.iter().map(|scalar| (name(scalar), Number::Int(1))).collect(),
        moduli: moduli.collect::<Option<_>>()?,
        target: kernel.target.clone(),
        assign: kernel.assign,
        value: kernel.value.clone(),
    })
}

//! Periodic indices of kernels, `A[(i + 1) % n]`: their moduli found and checked.

use crate::affine::{Affine, Modulus};
use crate::kernel::{IndexVar, Kernel, KernelSpec, span};
use crate::kernel_error::KernelError;
use crate::value::Access;
use crate::value::Value;
use polyshard_layout::Name;

/// Replaces captured moduli by numbers, and checks them against the extents.
pub(crate) fn resolve(spec: &mut KernelSpec) -> Result<(), KernelError> {
    let tensors = [&spec.inputs[..], std::slice::from_ref(&spec.output)].concat();
    let moduli = std::mem::take(&mut spec.moduli);
    let mut result = Ok(());
    let mut resolve = |access: &mut Access| {
        if result.is_ok() {
            result = resolve_access(access, &moduli, &tensors);
        }
    };
    resolve(&mut spec.target);
    spec.value.rewrite(&mut |value| {
        if let Value::Access(access) = value {
            resolve(access);
        }
    });
    result
}

fn resolve_access(
    access: &mut Access,
    moduli: &[(Name, i128)],
    tensors: &[(Name, Vec<i128>)],
) -> Result<(), KernelError> {
    let shown = access.to_string();
    let shape = tensors.iter().find(|tensor| tensor.0 == access.tensor).map_or(&[][..], |tensor| &tensor.1);
    for (dim, index) in access.index.iter_mut().enumerate() {
        let modulus = match index.modulus {
            None => continue,
            Some(Modulus::Number(number)) => i128::from(number),
            Some(Modulus::Captured(name)) => {
                let found = moduli.iter().find(|modulus| modulus.0 == name);
                found.ok_or(KernelError::UnknownModulus { name })?.1
            }
        };
        // Other checks report a tensor that is unknown or has fewer dimensions.
        let Some(&extent) = shape.get(dim).filter(|&&extent| extent >= 0) else { continue };
        index.modulus = match (modulus, extent) {
            // A dimension of 0 elements is never read, so nothing wraps.
            (0, 0) => None,
            (1.., _) if modulus <= extent => i64::try_from(modulus).ok().map(Modulus::Number),
            _ => {
                let (tensor, extent) = (access.tensor, usize::try_from(extent).unwrap_or(usize::MAX));
                return Err(KernelError::ModulusOutOfRange { access: shown, modulus, tensor, dim, extent });
            }
        };
    }
    Ok(())
}

/// Checks that only inputs wrap, each dimension at one place, and that the span of every index fits.
pub(crate) fn check(kernel: &Kernel) -> Result<(), KernelError> {
    if let Some(index) = kernel.target.index.iter().find(|index| index.modulus.is_some()) {
        return Err(KernelError::PeriodicOutput { access: kernel.target.to_string(), index: index.to_string() });
    }
    for tensor in &kernel.inputs {
        let accesses = kernel.accesses_of(tensor.name);
        for (dim, period) in periods(&accesses, &kernel.vars).into_iter().enumerate() {
            let Some(period) = period else { continue };
            let wrapping = |access: &&&Access| wraps(&access.index[dim], &kernel.vars);
            let first = accesses.iter().find(wrapping).map_or(String::new(), |access| access.to_string());
            for access in &accesses {
                let (low, high) = span(&access.index[dim].unwrapped(), &kernel.vars, false);
                if i64::try_from(low).and(i64::try_from(high)).and(i64::try_from(high - low)).is_err() {
                    let what = format!("the index `{}`", access.index[dim]);
                    return Err(KernelError::TooLarge { what, product: (high - low).to_string() });
                }
                let agrees = access.index[dim].period() == Some(period)
                    || !wraps(&access.index[dim], &kernel.vars) && low >= 0 && high <= i128::from(period);
                if !agrees {
                    let (tensor, second) = (tensor.name, access.to_string());
                    return Err(KernelError::TwoModuli { tensor, dim, first, second });
                }
            }
        }
    }
    Ok(())
}

/// Whether a periodic index leaves its period, so that the modulus makes a difference.
fn wraps(index: &Affine, vars: &[IndexVar]) -> bool {
    index.period().is_some_and(|period| {
        let (low, high) = span(&index.unwrapped(), vars, false);
        low < 0 || high > i128::from(period)
    })
}

/// The period at which the accesses of one tensor wrap, per dimension.
pub fn periods(accesses: &[&Access], vars: &[IndexVar]) -> Vec<Option<i64>> {
    let ndim = accesses.first().map_or(0, |access| access.index.len());
    let of = |dim: usize| {
        accesses.iter().map(|access| &access.index[dim]).find(|index| wraps(index, vars)).and_then(Affine::period)
    };
    (0..ndim).map(of).collect()
}

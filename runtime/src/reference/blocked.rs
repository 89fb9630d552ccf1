//! Sums of products of two arrays, in blocks that stay in caches.
//!
//! ```text
//! C[i, j] += A[i, k] * B[k, j]
//!   =>
//! for each block of j, for each block of k, for each i: C[i, block of j] += the terms of the block of k
//! ```
//!
//! The terms of an element keep their order and are added one after the other, so sums have the bits of the original loops.

use super::points;
use super::row::Arrays;
use crate::Element;
use polyshard_program::{Access, Assign, Kernel, Value};
use pulp::{Arch, Simd, WithSimd};

/// Elements of the output that are computed together, and their terms: the parts of rows that these read stay in a second-level cache.
const COLUMNS: usize = 512;
const TERMS: usize = 64;

/// Terms that are added while a sum is in a register.
const AT_ONCE: usize = 8;

/// The loops of a kernel that adds up products along rows.
pub(super) struct Blocked<'k> {
    /// The factor that is read along a row for a row of the output, and the one of which a single element is read.
    factors: [&'k Access; 2],
    columns: usize,
    /// The other loops of the output and those of the sum: their extents, and their strides in output, row and element.
    outer: Vec<(usize, [i64; 3])>,
    summed: Vec<(usize, [i64; 3])>,
    first: [i64; 3],
}

impl<'k> Blocked<'k> {
    /// `None` if the kernel is not a sum of products along rows.
    pub(super) fn new(kernel: &'k Kernel) -> Option<Self> {
        let (target, Value::Mul(a, b)) = (kernel.written_target(), kernel.written_value()) else { return None };
        let (Value::Access(a), Value::Access(b)) = (&**a, &**b) else { return None };
        if !matches!(kernel.assign(), Assign::Set | Assign::Add) {
            return None;
        }
        // An element of the output has indices of its own, so its terms differ in the others.
        let mut own = Vec::new();
        for index in &target.index {
            match index.terms[..] {
                [] => {}
                [(name, _)] if !own.contains(&name) => own.push(name),
                _ => return None,
            }
        }
        let along = *own.last()?;
        let along = kernel.vars().iter().position(|var| var.name == along)?;
        let [c, of_a, of_b] = [flat(target, kernel)?, flat(a, kernel)?, flat(b, kernel)?];
        let (factors, flat) = match [&c, &of_a, &of_b].map(|flat| flat.by[along]) {
            [1, 1, 0] => ([a, b], [c, of_a, of_b]),
            [1, 0, 1] => ([b, a], [c, of_b, of_a]),
            _ => return None,
        };
        let loops = |is_own: bool| {
            let vars = kernel.vars().iter().enumerate();
            let chosen = vars.filter(|(nth, var)| *nth != along && own.contains(&var.name) == is_own);
            chosen.map(|(nth, var)| (var.extent, flat.each_ref().map(|flat| flat.by[nth]))).collect()
        };
        let (outer, summed) = (loops(true), loops(false));
        Some(Self { factors, columns: kernel.vars()[along].extent, outer, summed, first: flat.map(|flat| flat.first) })
    }

    /// Adds up the products.
    pub(super) fn run<T: Element>(&self, arrays: &Arrays<'_, T>, output: &mut [T]) {
        let [row, element] = self.factors.map(|access| arrays.of(access).0);
        let at = |offset: i64| {
            usize::try_from(offset).expect("a checked kernel stays inside its tensors; this is a bug in polyshard")
        };
        for begin in (0..self.columns).step_by(COLUMNS) {
            let len = COLUMNS.min(self.columns - begin);
            let mut terms = offsets(&self.summed);
            loop {
                let terms: Vec<_> = terms.by_ref().take(TERMS).collect();
                if terms.is_empty() {
                    break;
                }
                for outer in offsets(&self.outer) {
                    let first: [i64; 3] = std::array::from_fn(|nth| self.first[nth] + outer[nth]);
                    let sums = &mut output[at(first[0]) + begin..][..len];
                    let term =
                        |by: &[i64; 3]| (element[at(first[2] + by[2])], &row[at(first[1] + by[1]) + begin..][..len]);
                    let (groups, rest) = terms.as_chunks::<AT_ONCE>();
                    groups
                        .iter()
                        .for_each(|group| Arch::new().dispatch(AddTerms { sums, terms: group.each_ref().map(term) }));
                    rest.iter().for_each(|by| Arch::new().dispatch(AddTerms { sums, terms: [term(by)] }));
                }
            }
        }
    }
}

/// An access as an offset: that of the first element, and the stride of each of the kernel's loops.
struct Flat {
    first: i64,
    by: Vec<i64>,
}

/// `None` if an index wraps or may be outside.
fn flat(access: &Access, kernel: &Kernel) -> Option<Flat> {
    let tensor = kernel.tensors().find(|tensor| tensor.name == access.tensor)?;
    let mut flat = Flat { first: 0, by: vec![0; kernel.vars().len()] };
    let mut stride = 1;
    for (index, &extent) in access.index.iter().zip(&tensor.shape).rev() {
        if index.period().is_some() || access.outside.is_some() {
            return None;
        }
        flat.first += stride * index.constant;
        for (by, var) in flat.by.iter_mut().zip(kernel.vars()) {
            let coefficient = stride * index.coefficient(var.name);
            *by += coefficient;
            flat.first += coefficient * var.start;
        }
        stride *= extent as i64;
    }
    Some(flat)
}

/// The offsets of all iterations of these loops, in their order.
fn offsets(loops: &[(usize, [i64; 3])]) -> impl Iterator<Item = [i64; 3]> {
    points(loops.iter().map(|(extent, _)| *extent).collect()).map(move |point| {
        let by = |nth: usize| point.iter().zip(loops).map(|(at, (_, by))| at * by[nth]).sum();
        std::array::from_fn(by)
    })
}

/// Adds these terms to each sum, one after the other.
struct AddTerms<'a, T, const N: usize> {
    sums: &'a mut [T],
    terms: [(T, &'a [T]); N],
}

impl<T: Element, const N: usize> WithSimd for AddTerms<'_, T, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { sums, terms } = self;
        let terms = terms.map(|(factor, row)| (factor, &row[..sums.len()]));
        for (nth, sum) in sums.iter_mut().enumerate() {
            *sum = terms.iter().fold(*sum, |sum, (factor, row)| sum.add(factor.multiply(row[nth])));
        }
    }
}

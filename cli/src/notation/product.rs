//! Products of two sharded arrays, `A[I_X, J] * B[J_X, K] -> C[I_X, K] {U_Y}`, as kernels, and their cases in the literature.
//!
//! A dimension of both factors is contracted if the result lacks it, and a batch dimension if not; every other dimension is in
//! one factor and in the result. Tests: `cli/tests/it/placement/products.rs`.

use super::NamedArray;
use crate::error::{CliError, Result};
use polyshard::layout::{DType, Mesh, Name, joined};
use polyshard::planner::TypeError;
use polyshard::program::{Access, Affine, KernelSpec};
use polyshard::schedule::{Clause, Dim, Schedule, partial};
use std::collections::BTreeSet;

/// A product with the sizes of its dimensions.
pub(crate) struct Product {
    /// The factors and the result.
    pub(crate) arrays: [NamedArray; 3],
    /// Their names in the kernel.
    pub(crate) tensors: [Name; 3],
    /// The dimensions, those of the first factor first.
    pub(crate) loops: Vec<String>,
    /// Their indices in the kernel.
    pub(crate) indices: Vec<Name>,
    /// Their sizes.
    sizes: Vec<usize>,
}

impl Product {
    /// Reads a product.
    ///
    /// # Errors
    /// If it or one of its arrays has another form, a factor has open sums, or a dimension has no size, two sizes, or no
    /// part in a product.
    pub(crate) fn read(text: &str, mesh: &Mesh, sizes: &[(String, usize)]) -> Result<Self> {
        let unreadable =
            |why: &str| CliError::unreadable(format!("`{text}`: {why}"), "`A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]`");
        let (factors, out) = text.split_once("->").ok_or_else(|| unreadable("no `->` before the result"))?;
        let (left, right) = factors.split_once('*').ok_or_else(|| unreadable("no `*` between the factors"))?;
        if right.contains('*') {
            return Err(unreadable("a product has two factors"));
        }
        let given: Vec<_> = sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        let read = |text: &str| {
            NamedArray::parse(text, mesh, &given).map_err(|why| match why {
                // It names the array already.
                TypeError::Unreduced { .. } => why.into(),
                why => CliError::invalid(format!("in `{}`", text.trim()), why),
            })
        };
        let arrays = [read(left)?, read(right)?, read(out)?];
        if let Some(factor) = arrays[..2].iter().find(|factor| !factor.unreduced.is_empty()) {
            let what = format!("`{factor}` is a factor with unreduced sums");
            return Err(CliError::refused(what, "reduce it first"));
        }
        let names: BTreeSet<&str> = arrays.iter().flat_map(|array| &array.names).map(String::as_str).collect();
        for (nth, (name, _)) in given.iter().enumerate() {
            if given[..nth].iter().any(|(other, _)| other == name) {
                return Err(CliError::Twice { what: "sizes", subject: format!("dimension `{name}`") });
            }
            if !names.contains(name) {
                let what = format!("dimension `{name}` has a size but is in no array");
                return Err(CliError::refused(what, format!("the dimensions are {}", joined(&names, ", "))));
            }
        }
        for name in &names {
            let holders = arrays.iter().filter(|array| array.names.iter().any(|other| other == name));
            if let [only] = holders.collect::<Vec<_>>()[..] {
                let instead = "a dimension of a product is in two arrays or in all three";
                return Err(CliError::refused(format!("dimension `{name}` is only in `{only}`"), instead));
            }
        }
        let mut loops = arrays[0].names.clone();
        loops.extend(arrays[1].names.iter().filter(|name| !arrays[0].names.contains(name)).cloned());
        let mut taken: Vec<Name> = mesh.as_slice().iter().map(|axis| axis.name).collect();
        let mut fresh = |name: &str| {
            let mut name = name.to_owned();
            while taken.contains(&Name::new(&name)) {
                name += "_";
            }
            taken.push(Name::new(&name));
            Name::new(&name)
        };
        let tensors = arrays.each_ref().map(|array| fresh(&array.tensor));
        let indices = loops.iter().map(|name| fresh(&name.to_lowercase())).collect();
        let size = |name: &String| given.iter().find(|(other, _)| other == name).map_or(0, |(_, size)| *size);
        let sizes = loops.iter().map(size).collect();
        Ok(Self { arrays, tensors, loops, indices, sizes })
    }

    /// Checks that factors whose sharding is free are written without axes.
    pub(crate) fn check_free(&self, free: [bool; 3]) -> Result<()> {
        let divided = |(factor, free): &(&NamedArray, bool)| *free && !factor.axes.concat().is_empty();
        let Some((factor, _)) = self.arrays.iter().zip(free).find(divided) else { return Ok(()) };
        let instead = format!("write `{}[{}]`, or keep its sharding fixed", factor.tensor, factor.names.join(", "));
        Err(CliError::refused(format!("the search shards `{factor}`, but it has axes"), instead))
    }

    /// The mesh.
    pub(crate) fn mesh(&self) -> &Mesh {
        self.arrays[0].sharding.mesh()
    }

    /// The sizes as text: `I = 8, J = 16`.
    pub(crate) fn sizes(&self) -> String {
        joined(self.loops.iter().zip(&self.sizes).map(|(name, size)| format!("{name} = {size}")), ", ")
    }

    /// Operations over all ranks, if none repeats another's.
    pub(crate) fn flops(&self) -> f64 {
        2.0 * self.sizes.iter().map(|&size| size as f64).product::<f64>()
    }

    /// The kernel, as a schedule without steps.
    pub(crate) fn kernel(&self, dtype: DType) -> Schedule {
        let access = |nth: usize| {
            let index = |name: &String| Affine::new([(self.index(name), 1)], 0);
            let access = Access::new(self.tensors[nth], self.arrays[nth].names.iter().map(index).collect());
            (access, self.arrays[nth].sharding.shape().iter().map(|&extent| extent as i128).collect())
        };
        let spec = KernelSpec::product(Name::new("multiply"), dtype, vec![access(0), access(1)], access(2));
        Schedule::from_spec(spec.expect("there are two factors"))
    }

    fn index(&self, name: &String) -> Name {
        self.indices[self.loops.iter().position(|other| other == name).expect("a dimension is a loop")]
    }

    /// How an array lies, as clauses of `shard`.
    pub(crate) fn clauses(&self, array: &NamedArray) -> Vec<Clause> {
        let axis = |&axis: &usize| self.mesh().as_slice()[axis].name.as_str();
        let cut = array.names.iter().zip(&array.axes).filter_map(|(name, axes)| {
            let (first, others) = axes.split_first()?;
            let first = Dim::Var(self.index(name)).at(axis(first));
            Some(others.iter().fold(first, |clause, other| clause.at(axis(other))))
        });
        cut.chain(array.unreduced.iter().map(|other| partial(axis(other)))).collect()
    }

    /// The positions of the axes that divide each loop, major first, given by their names for each index.
    pub(crate) fn over(&self, axes: &[(Name, Vec<Name>)]) -> Vec<Vec<usize>> {
        let position = |name: &Name| self.mesh().position(*name);
        let of_loop = |index: &Name| {
            let names = axes.iter().find(|(other, _)| other == index);
            names.map_or_else(Vec::new, |(_, names)| names.iter().filter_map(position).collect())
        };
        self.indices.iter().map(of_loop).collect()
    }

    /// How the arrays lie where no rank needs anything of another for its part of the product, if these axes divide the loops.
    pub(crate) fn needed(&self, over: &[Vec<usize>]) -> [NamedArray; 3] {
        let out = &self.arrays[2].names;
        let summed = self.loops.iter().zip(over).filter(|(name, _)| !out.contains(name));
        let mut sums: Vec<usize> = summed.flat_map(|(_, axes)| axes).copied().collect();
        sums.sort_unstable();
        [(0, Vec::new()), (1, Vec::new()), (2, sums)].map(|(nth, sums): (usize, Vec<usize>)| {
            let axes = |name: &String| {
                let position = self.loops.iter().position(|other| other == name);
                position.map_or_else(Vec::new, |position| over[position].clone())
            };
            self.arrays[nth].laid(self.arrays[nth].names.iter().map(axes).collect(), sums)
        })
    }

    /// The number of the literature's case, and its description. The literature names cases for a single axis; for several axes it
    /// is the case that requires the most communication, 4 before 2 before 3 before 1.
    pub(crate) fn case(&self) -> (usize, &'static str) {
        const CASES: [(usize, &str); 4] = [
            (1, "no factor is sharded along a contracted dimension"),
            (3, "both factors are sharded in the same way along a contracted dimension"),
            (2, "the factors shard a dimension that they share differently"),
            (4, "one axis shards a dimension of each factor that the other lacks"),
        ];
        let [left, right, out] = &self.arrays;
        let is_shared = |name: &String| left.names.contains(name) && right.names.contains(name);
        let of_axis = |axis: usize| {
            let [one, other] = [left, right]
                .map(|factor| factor.names.iter().zip(&factor.axes).find(|(_, axes)| axes.contains(&axis)));
            match (one, other) {
                (Some(one), Some(other)) if one == other => usize::from(!out.names.contains(one.0)),
                (one, other) if one.into_iter().chain(other).any(|(name, _)| is_shared(name)) => 2,
                (Some(_), Some(_)) => 3,
                _ => 0,
            }
        };
        CASES[(0..self.mesh().ndim()).map(of_axis).max().unwrap_or(0)]
    }
}

impl std::fmt::Display for Product {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [left, right, out] = &self.arrays;
        write!(f, "{left} * {right} -> {out}")
    }
}

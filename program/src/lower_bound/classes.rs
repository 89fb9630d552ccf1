//! Ranks that have different amounts at the start, or must have in the end: bounds for one rank of each class, and for the mean of all.

use super::holder::Touches;
use super::homes::{Held, is_scalar_input};
use super::least::Least;
use crate::kernel::Kernel;
use polyshard_layout::{DimLayout, Name, Sharding};
use std::collections::BTreeMap;

/// Maximum number of ranks whose shares are examined individually; with more, all are taken to have equal shares.
const MOST_RANKS: usize = 1 << 12;

/// Maximum number of classes; with more, adjacent classes are merged and their mean is bounded.
const MOST_CLASSES: usize = 16;

/// Ranks that have the same number of elements of each tensor, or several such classes merged.
struct Class {
    ranks: f64,
    /// Elements of each tensor on one of these ranks; none for a tensor that may be anywhere.
    own: Vec<Option<f64>>,
}

/// The shares of ranks, if they are uneven.
pub(super) struct Classes<'a> {
    kernel: &'a Kernel,
    touches: &'a Touches,
    ranks: f64,
    /// By tensor, whether its sums are complete in the end.
    is_complete: Vec<bool>,
    all: Vec<Class>,
}

impl<'a> Classes<'a> {
    /// None if all ranks have the same, or shares are not examined: there are too many ranks, too few instances for all, or other meshes.
    pub(super) fn new(
        kernel: &'a Kernel,
        touches: &'a Touches,
        ranks: usize,
        homes: &[(Name, &Sharding)],
    ) -> Option<Self> {
        let of_tensor = |name: Name| homes.iter().find(|(other, _)| *other == name).map(|(_, home)| *home);
        let homes: Vec<Option<&Sharding>> = kernel.tensors().map(|tensor| of_tensor(tensor.name)).collect();
        let given = || homes.iter().flatten();
        let mesh = given().find(|home| !is_even(home))?.mesh();
        let instances: f64 = kernel.vars().iter().map(|var| var.extent as f64).product();
        let is_other = |home: &&Sharding| home.mesh() != mesh;
        if ranks > MOST_RANKS || instances < ranks as f64 || given().any(is_other) || mesh.size() != ranks {
            return None;
        }
        // If shares differ only by rounding, ranks are taken to have the largest at the start, and to need the smallest in the end: a
        // rank that has fewer computes less.
        let rounded = |(nth, home): (usize, &Option<&Sharding>)| {
            let home = (*home).filter(|home| is_even(home) || is_divided(home))?;
            let owners = (0..ranks).map(|rank| mesh.coordinates(rank)).filter(|at| home.keeps(at));
            let lens = owners.map(|at| home.local_len(&at));
            if nth + 1 == homes.len() { lens.min() } else { lens.max() }
        };
        let rounded: Vec<Option<usize>> = homes.iter().enumerate().map(rounded).collect();
        let is_everywhere: Vec<bool> = kernel.tensors().map(|tensor| is_scalar_input(kernel, tensor)).collect();
        let mut found: BTreeMap<Vec<Option<usize>>, usize> = BTreeMap::new();
        for rank in 0..ranks {
            let at = mesh.coordinates(rank);
            let own = |((home, rounded), is_everywhere): ((&Option<&Sharding>, &Option<usize>), &bool)| match home {
                Some(home) if home.keeps(&at) => Some(rounded.unwrap_or_else(|| home.local_len(&at))),
                Some(_) => Some(0),
                None => is_everywhere.then_some(1),
            };
            *found.entry(homes.iter().zip(&rounded).zip(&is_everywhere).map(own).collect()).or_default() += 1;
        }
        if found.len() < 2 {
            return None;
        }
        let found: Vec<_> = found.into_iter().collect();
        let together = |some: &[(Vec<Option<usize>>, usize)]| {
            let ranks: usize = some.iter().map(|(_, ranks)| ranks).sum();
            let mean = |nth: usize| {
                let all = some.iter().map(|(own, ranks)| Some(own[nth]? as f64 * *ranks as f64));
                all.sum::<Option<f64>>().map(|all| all / ranks as f64)
            };
            Class { ranks: ranks as f64, own: (0..homes.len()).map(mean).collect() }
        };
        let all = found.chunks(found.len().div_ceil(MOST_CLASSES)).map(together).collect();
        let is_complete = homes.iter().map(|home| home.is_some_and(|home| home.partial().is_empty())).collect();
        Some(Self { kernel, touches, ranks: ranks as f64, is_complete, all })
    }

    /// Lower bound on the elements that the busiest rank receives, where `share` is the logarithm of the instances that each rank
    /// computes.
    pub(super) fn least(&self, held: &Held, share: f64) -> f64 {
        self.all.iter().map(|class| self.of_one(class, share)).fold(self.of_all(held, share), f64::max)
    }

    /// The mean of all ranks. Each rank of a class receives the input elements that it touches and does not have, however many others
    /// have. Of the output, and of tensors that may be anywhere, all touched elements are received except those that all ranks together
    /// have.
    fn of_all(&self, held: &Held, share: f64) -> f64 {
        let is_known = |nth: usize, class: &Class| class.own[nth].is_some() && nth != self.output();
        let of_class = |class: &Class| {
            let own = (0..class.own.len()).map(|nth| class.own[nth].filter(|_| is_known(nth, class)).unwrap_or(0.0));
            class.ranks / self.ranks * self.missing(&own.collect::<Vec<_>>(), share, false)
        };
        let all: f64 = self.all.iter().map(of_class).sum();
        let anywhere = (0..held.own.len()).filter(|&nth| self.all.iter().any(|class| !is_known(nth, class)));
        all - anywhere.map(|nth| held.own[nth]).sum::<f64>() + held.copies
    }

    /// One rank of a class: the input elements that it touches and does not have, and the output elements that it must have and does not
    /// compute alone.
    fn of_one(&self, class: &Class, share: f64) -> f64 {
        let own = class.own.iter().zip(&self.touches.by_all);
        // A tensor that may be anywhere may be on these ranks.
        let own = own.map(|(own, by_all)| own.unwrap_or(by_all / class.ranks));
        let inputs = self.missing(&own.collect::<Vec<_>>(), share, true);
        let output = self.output();
        let (written, is_complete) = (self.touches.elements[output], self.is_complete[output]);
        let must = class.own[output].filter(|_| is_complete && written > 0.0).map_or(0.0, |own| {
            let shape = &self.kernel.output().shape;
            let all: f64 = shape.iter().map(|&extent| extent as f64).product();
            // All elements take the same number of instances, so no rank computes more elements alone than its share of all.
            own - (all - written) - (written / self.ranks + 1e-9).floor()
        });
        inputs + must.max(0.0)
    }

    fn output(&self) -> usize {
        self.touches.elements.len() - 1
    }

    /// The fewest elements that a rank touches and does not have; if `free`, touched elements of the output do not count.
    fn missing(&self, own: &[f64], share: f64, free: bool) -> f64 {
        let sizes = &self.touches.elements;
        let mut own: Vec<f64> = own.iter().zip(sizes).map(|(own, size)| own.min(*size)).collect();
        if free {
            own[self.output()] = sizes[self.output()];
        }
        // An even share of the instances touches an even share of each tensor, and at least one element.
        let touched = |size: &f64| f64::max(size / self.ranks, size.min(1.0));
        let from: Vec<f64> = own.iter().zip(sizes).map(|(own, size)| own.max(touched(size))).collect();
        let least = Least { exponents: &self.touches.exponents, from: &from, to: sizes }.of(share).least;
        least - own.iter().sum::<f64>()
    }
}

/// Whether all ranks have equal parts of each dimension, in one copy or in several, up to rounding.
fn is_even(home: &Sharding) -> bool {
    home.is_in_even_shares() || home.pins().is_empty() && is_divided(home)
}

/// Whether the ranks that have a part have equal parts of each dimension, up to rounding.
fn is_divided(home: &Sharding) -> bool {
    let is_divided = |(layout, &extent): (&DimLayout, &usize)| {
        let parts: usize = layout.levels().iter().map(|level| level.parts).product();
        layout.max_owned(extent) <= extent.div_ceil(parts.max(1))
    };
    home.dims().iter().zip(home.shape()).all(is_divided)
}

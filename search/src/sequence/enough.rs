//! How many ranks would be enough for kernels in sequence: for each number, a program that needs little memory is
//! sought on the meshes of exactly that many ranks.
//!
//! A search that examines only a few meshes may examine others with more ranks. So numbers are tried one by one only as
//! long as all meshes are examined.

use super::SequenceSearch;
use super::known::{Known, Laid};
use super::state::State;
use crate::enough::{Trial, enough, iterations, most_ranks, wide};
use crate::error::Enough;
use crate::stages::Stage;
use polyshard_layout::each_once;
use polyshard_program::Kernel;
use std::time::Instant;

impl SequenceSearch<'_> {
    /// The number of ranks that would be enough. The search that began at `start` keeps its time limit.
    pub(crate) fn enough(&self, memory: u64, start: Instant) -> Enough {
        // Given schedules fix the mesh.
        if self.mesh.is_some() || self.stages.iter().any(|stage| stage.schedule.steps().next().is_some()) {
            return Enough::LargerMesh;
        }
        if self.is_long() || !self.homes.is_empty() {
            return Enough::NotSought;
        }
        let kernels = self.stages.iter().map(|stage| stage.schedule.kernel());
        let Ok(kernels) = kernels.collect::<Result<Vec<_>, _>>() else { return Enough::NotSought };
        let least = self.stages.iter().zip(&kernels).map(|(stage, kernel)| least(stage, kernel));
        if least.max().is_some_and(|least| memory < least) {
            return Enough::Never;
        }
        // All ranks compute kernels without indices.
        let divided = kernels.iter().filter(|kernel| !kernel.vars().is_empty());
        let Some(iterations) = divided.map(|kernel| iterations(kernel)).min() else { return Enough::NotSought };
        if wide(self.machine, most_ranks(iterations).max(self.ranks)).is_none() {
            return Enough::NotSought;
        }
        let until = self.limits.until(start, 4);
        let trial = OfSequence { search: self, kernels, memory, until };
        enough(&trial, self.ranks, iterations, self.limits.since(start).at_most)
    }
}

/// Lower bound on the bytes that a rank holds while a stage runs, for any number of ranks: an element of each value
/// that its kernel reads or writes.
fn least(stage: &Stage, kernel: &Kernel) -> u64 {
    let values = kernel.tensors().zip(stage.values()).filter(|(tensor, _)| !tensor.shape.contains(&0));
    (each_once(values.map(|(_, value)| value)).len() * kernel.dtype().size()) as u64
}

/// A search for a program that fits, however slow.
struct OfSequence<'a> {
    search: &'a SequenceSearch<'a>,
    kernels: Vec<&'a Kernel>,
    memory: u64,
    until: Option<Instant>,
}

impl OfSequence<'_> {
    /// Calls `look` with the search on this many ranks, and its bounds.
    fn at<R>(&self, ranks: usize, look: impl FnOnce(&SequenceSearch<'_>, &Known<'_>) -> R) -> R {
        let machine = wide(self.search.machine, ranks);
        let machine = machine.expect("a machine that can be wider can be this wide; this is a bug in polyshard");
        let search = SequenceSearch { ranks, machine: &machine, ..self.search.clone() };
        let fixed = self.kernels.iter().map(|_| None).collect();
        let known = Known::new(&search, self.kernels.clone(), fixed);
        look(&search, &known)
    }
}

impl Trial for OfSequence<'_> {
    type Way = Laid;

    fn ways(&self, ranks: usize) -> Vec<Laid> {
        let is_counted = self.is_counted(ranks);
        self.at(ranks, |search, known| {
            let extents = search.extents(|size| !is_counted || size == ranks);
            let mut meshes = known.laid(search.meshes(&known.kernels, extents), &vec![None; known.kernels.len()]);
            meshes.truncate(search.most_meshes());
            let state = State::new(search, known, self.memory);
            meshes.retain_mut(|Laid { mesh, ways }| {
                let with_nth = ways.iter_mut().enumerate();
                with_nth.for_each(|(nth, ways)| ways.retain(|(_, along)| state.holds(nth, mesh, along) <= self.memory));
                ways.iter().all(|ways| !ways.is_empty())
            });
            meshes.sort_by_cached_key(|laid| state.least_held(laid));
            meshes
        })
    }

    fn priced(&self, laid: &Laid) -> usize {
        laid.ways.iter().map(Vec::len).sum()
    }

    fn fits(&self, ranks: usize, laid: &Laid) -> Option<bool> {
        // Programs that cannot be priced are not compared.
        self.at(ranks, |search, known| {
            let mut state = State::new(search, known, self.memory);
            state.until = self.until;
            state.fits(laid).ok().flatten()
        })
    }

    fn is_counted(&self, ranks: usize) -> bool {
        !self.search.of_few_meshes || self.at(ranks, |search, _| search.extents(|_| true).len() <= search.most_meshes())
    }
}

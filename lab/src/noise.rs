//! How much other work disturbs a measurement.
//!
//! The fastest of several rounds counts, which forgives much; but where the rounds of one call differ greatly, or ranks that compute
//! wait for a core, even the fastest may have been disturbed. Load from the ranks themselves does not count as other work. Warnings
//! are stored with the figures.

use super::clock::{Timed, Watch};
use super::topology::Topology;
use polyshard_machine::Machine;
use polyshard_machine::units::scaled;
use serde::Serialize;

/// The spread above which rounds count as disturbed: on an idle machine they differ by a few hundredths.
const SPREAD: f64 = 0.5;
/// Maximum part of its time for which a rank may wait for a core.
const WAITING: f64 = 0.1;
/// Maximum ratio of the rates of products in `f32` and `f64`; a vector holds half as many elements of `f64`, so the true ratio is 2.
const RATIO: f64 = 4.0;
/// Maximum ratio of the rates of products in `f64` and `f32`, as timed: the true ratio is at most 1.
const INVERSE: f64 = 1.5;

/// The disturbance of a measurement, as far as it can be detected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// How much longer the median round of a call took than the fastest, as a part of the fastest; the median over all calls.
    pub spread: f64,
    /// The part of the computing time for which the slowest rank waited for a core; 0 if the system does not report it.
    pub waiting: f64,
    /// The cores that the ranks of a node may run on.
    pub cores: usize,
    /// The ranks of a node.
    pub ranks_per_node: usize,
}

impl Noise {
    pub(super) fn new(topology: &Topology, watch: &Watch, timed: &[Timed]) -> Self {
        let mut spreads: Vec<f64> = timed.iter().map(|timed| timed.median / timed.seconds - 1.0).collect();
        spreads.sort_by(f64::total_cmp);
        Self {
            spread: spreads.get(spreads.len() / 2).copied().unwrap_or(0.0),
            waiting: watch.waiting(),
            cores: topology.cores,
            ranks_per_node: topology.ranks_per_node,
        }
    }

    /// Returns warnings about figures measured under this noise, a sentence each; none if the machine was idle and the
    /// figures are plausible.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard_lab::Noise;
    /// let machine = Machine::preset("v100")?;
    /// let idle = Noise { spread: 0.03, waiting: 0.01, cores: 8, ranks_per_node: 4 };
    /// assert!(idle.warnings(&machine).is_empty());
    /// assert_eq!(Noise { waiting: 0.3, ..idle }.warnings(&machine), [
    ///     "the machine is busy: a rank waited for a core for 30 % of its time; measure again when it is idle"
    /// ]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn warnings(&self, machine: &Machine) -> Vec<String> {
        let mut signs = Vec::new();
        // Ranks that share a core disturb each other, which belongs to the measurement.
        if self.spread > SPREAD && self.ranks_per_node <= self.cores {
            let percent = 100.0 * self.spread;
            signs.push(format!("the median round of a call took {percent:.0} % longer than its fastest"));
        }
        if self.waiting > WAITING && self.ranks_per_node <= self.cores {
            signs.push(format!("a rank waited for a core for {:.0} % of its time", 100.0 * self.waiting));
        }
        let mut warnings = Vec::new();
        if !signs.is_empty() {
            let signs = signs.join(", and ");
            warnings.push(format!("the machine is busy: {signs}; measure again when it is idle"));
        }
        let rate = |kind: &str| machine.device().flops.get(kind).copied();
        if let (Some(single), Some(double)) = (rate("f32"), rate("f64"))
            && !plausible(single, double)
        {
            let [single, double] = [single, double].map(|rate| scaled(rate, "FLOP/s"));
            warnings.push(format!(
                "products in f64 ran at {double} and in f32 at {single}, which no processor explains: one of the two was \
                 disturbed; measure again"
            ));
        }
        warnings
    }

    /// Returns the machine that was measured under this noise, marked with the disturbance.
    pub(super) fn marked(&self, machine: Machine) -> Machine {
        match self.warnings(&machine).first() {
            // The advice after the semicolon is for those who measure.
            Some(warning) => machine.with_disturbance(warning.rsplit_once("; ").map_or(&**warning, |(what, _)| what)),
            None => machine,
        }
    }
}

/// Whether these rates of products in `f32` and `f64` can belong to one processor.
pub(super) fn plausible(single: f64, double: f64) -> bool {
    double * RATIO >= single && single * INVERSE >= double
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(ranks_per_node: usize) -> Topology {
        Topology { nodes: 1, ranks_per_node, cores: 2, memory: 1 << 30 }
    }

    fn machine(single: f64, double: f64) -> Machine {
        let Ok(machine) = Machine::preset("v100") else { panic!("`v100` is a preset") };
        let mut device = machine.device().clone();
        device.flops = [("f32".to_owned(), single), ("f64".to_owned(), double)].into();
        Machine::new("made up", machine.levels().to_vec(), device).expect("a machine")
    }

    fn warnings(ranks: usize, timed: &[[f64; 2]], [single, double]: [f64; 2]) -> Vec<String> {
        let timed: Vec<_> = timed.iter().map(|&[seconds, median]| Timed { seconds, median }).collect();
        Noise::new(&topology(ranks), &Watch::new(None), &timed).warnings(&machine(single, double))
    }

    #[test]
    fn rounds_that_differ_by_far_are_told() {
        let quiet = [[1.0, 1.02], [2.0, 2.1], [1.0, 9.0]];
        assert!(warnings(2, &quiet, [2e11, 1e11]).is_empty(), "one call alone proves nothing");
        let busy = [[1.0, 1.02], [2.0, 5.0], [1.0, 9.0]];
        let told = "the machine is busy: the median round of a call took 150 % longer than its fastest; measure again when \
                    it is idle";
        assert_eq!(warnings(2, &busy, [2e11, 1e11]), [told]);
        assert!(warnings(3, &busy, [2e11, 1e11]).is_empty(), "ranks that share cores disturb one another");
    }

    #[test]
    fn rates_that_no_processor_has_are_told() {
        let told = "products in f64 ran at 9.45 GFLOP/s and in f32 at 222 GFLOP/s, which no processor explains: one of the \
                    two was disturbed; measure again";
        assert_eq!(warnings(2, &[], [2.22e11, 9.45e9]), [told]);
        assert_eq!(warnings(2, &[], [5e10, 1e11]).len(), 1, "f64 is never faster");
        assert!(warnings(2, &[], [1e11, 1e11]).is_empty(), "as fast where nothing is a vector");
    }
}

//! The overhead of a communication library by message size: measured factors on the links' time.
//!
//! The latency and bandwidth of links do not show that a library changes its protocol at some size, copies more often
//! than its messages need, adds numbers up while it waits, that ranks share cores, or that data leave the cache. All of
//! these depend on the operation, the ranks of a group and the size, so that is what a factor depends on. Between
//! measured sizes it is interpolated on logarithmic scales of both; beyond them it is constant. A group of a size that
//! was not measured takes the factors of the nearest group size. A profile is data of a machine; it is not derived from
//! anything, and an operation without one takes its links' time.

use super::{GroupedCollective, Machine, MachineError, Measurement, seconds};
use crate::units::counted;
use polyshard_layout::Collective;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The time of an operation as a multiple of its links' time, by size.
///
/// ```
/// use polyshard::layout::Collective;
/// use polyshard::machine::Profile;
/// let (operation, ranks) = (Collective::AllReduce, 4);
/// let profile = Profile { operation, ranks, bytes: vec![1e3, 1e5], factor: vec![1.0, 4.0] };
/// assert_eq!(profile.at(10.0), 1.0);
/// assert!((profile.at(1e4) - 2.0).abs() < 1e-12); // half-way between, on logarithmic scales
/// assert_eq!(profile.at(1e9), 4.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The operation.
    pub operation: Collective,
    /// The number of ranks of a group.
    pub ranks: usize,
    /// The bytes that each rank holds before the operation, increasing.
    pub bytes: Vec<f64>,
    /// The factor for each of these sizes, more than 0.
    pub factor: Vec<f64>,
}

impl Profile {
    /// Returns the factor for `bytes` bytes per rank.
    ///
    /// # Panics
    /// If the profile is empty; a profile of a machine never is.
    #[must_use]
    pub fn at(&self, bytes: f64) -> f64 {
        let after = self.bytes.partition_point(|&knot| knot < bytes);
        if after == 0 || after == self.bytes.len() {
            return self.factor[after.min(self.bytes.len() - 1)];
        }
        let [low, high] = [self.bytes[after - 1], self.bytes[after]].map(f64::ln);
        let part = (bytes.ln() - low) / (high - low);
        let [low, high] = [self.factor[after - 1], self.factor[after]].map(f64::ln);
        (low + part * (high - low)).exp()
    }

    fn check(&self) -> Result<(), MachineError> {
        let wrong = |why: String| Err(MachineError::Profile { operation: self.operation, ranks: self.ranks, why });
        if self.ranks < 2 {
            return wrong("one rank sends nothing; give 2 or more".into());
        }
        let (sizes, factors) = (self.bytes.len(), self.factor.len());
        if sizes == 0 || sizes != factors {
            let (sizes, factors) = (counted(sizes, "size"), counted(factors, "factor"));
            return wrong(format!("{sizes} and {factors}; give one factor for each size, at least one"));
        }
        let positive = |value: &&f64| **value > 0.0 && value.is_finite();
        if let Some(bad) = self.bytes.iter().chain(&self.factor).find(|value| !positive(value)) {
            return wrong(format!("{bad} is among its numbers; give positive numbers"));
        }
        match self.bytes.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => wrong(format!("size {} comes after {}; give increasing sizes", pair[1], pair[0])),
            None => Ok(()),
        }
    }
}

impl Machine {
    /// Returns the machine with these profiles in place of its own, at most one for each operation and number of ranks.
    ///
    /// ```
    /// use polyshard::layout::Collective;
    /// use polyshard::machine::{Algorithm, GroupedCollective, Profile, seconds};
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?;
    /// let collective = GroupedCollective { operation: Collective::Broadcast, groups: vec![vec![0, 1]], bytes: 1e9 };
    /// let links = seconds(&machine, &collective, Algorithm::Ring)?.total();
    /// let profile = Profile { operation: Collective::Broadcast, ranks: 2, bytes: vec![1e9], factor: vec![1.5] };
    /// let slower = seconds(&machine.with_profiles(vec![profile])?, &collective, Algorithm::Ring)?.total();
    /// assert!((slower / links - 1.5).abs() < 1e-12);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an operation has two profiles for one number of ranks, or a profile has fewer than two ranks or not one
    /// positive factor for each of increasing positive sizes.
    pub fn with_profiles(mut self, profiles: Vec<Profile>) -> Result<Self, MachineError> {
        for (nth, profile) in profiles.iter().enumerate() {
            profile.check()?;
            let key = (profile.operation, profile.ranks);
            if profiles[..nth].iter().any(|other| (other.operation, other.ranks) == key) {
                let why = "it is given twice; give one".into();
                return Err(MachineError::Profile { operation: key.0, ranks: key.1, why });
            }
        }
        self.profiles = profiles;
        Ok(self)
    }

    /// Returns the profiles.
    #[must_use]
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// Returns the factor on the links' time of a collective.
    pub(crate) fn factor(&self, collective: &GroupedCollective) -> f64 {
        self.factor_of(collective.operation, ranks(collective), collective.bytes)
    }

    /// Returns the factor on the links' time of messages, each given as (sender, receiver, bytes): that of an exchange
    /// between the busiest rank and its peers in which it sends or receives as many bytes.
    pub(crate) fn factor_of_messages(&self, messages: &[(usize, usize, f64)]) -> f64 {
        if self.profiles.is_empty() {
            return 1.0;
        }
        let mut talks: BTreeMap<(usize, bool), (BTreeSet<usize>, f64)> = BTreeMap::new();
        for &(from, to, bytes) in messages.iter().filter(|(from, to, bytes)| from != to && *bytes > 0.0) {
            for (rank, other, sends) in [(from, to, true), (to, from, false)] {
                let (others, all) = talks.entry((rank, sends)).or_default();
                others.insert(other);
                *all += bytes;
            }
        }
        let busiest = talks.values().max_by(|(_, one), (_, other)| one.total_cmp(other));
        busiest.map_or(1.0, |(others, bytes)| {
            let ranks = others.len() + 1;
            self.factor_of(Collective::Exchange, ranks, bytes * ranks as f64 / others.len() as f64)
        })
    }

    /// The factor of an operation in groups of `ranks` ranks, each of which holds `bytes` bytes before.
    fn factor_of(&self, operation: Collective, ranks: usize, bytes: f64) -> f64 {
        if ranks < 2 || bytes <= 0.0 {
            return 1.0;
        }
        let of_operation = self.profiles.iter().filter(|profile| profile.operation == operation);
        // Distance is by ratio, in both directions; of two equally near, the first.
        let far = |profile: &&Profile| (profile.ranks as f64 / ranks as f64).ln().abs();
        let nearest = of_operation.min_by(|left, right| far(left).total_cmp(&far(right)));
        nearest.map_or(1.0, |profile| profile.at(bytes))
    }
}

/// The ranks of the largest group.
fn ranks(collective: &GroupedCollective) -> usize {
    collective.groups.iter().map(Vec::len).max().unwrap_or(0)
}

/// Returns the machine with profiles such that it predicts these measurements, in place of its own.
///
/// Measurements of one operation, number of ranks and size count by their geometric mean. Operations without
/// measurements get no profile, so measure all operations that are to be compared.
///
/// # Errors
/// If the machine cannot run a measured collective, or a measurement is of nothing that takes time.
pub fn fit_profiles(machine: &Machine, measurements: &[Measurement]) -> Result<Machine, MachineError> {
    let links = machine.clone().with_profiles(Vec::new())?;
    let mut ratios = Vec::with_capacity(measurements.len());
    for (number, measured) in measurements.iter().enumerate() {
        let predicted = seconds(&links, &measured.collective, measured.algorithm)?.total();
        let ratio = measured.seconds / predicted;
        if !(ratio > 0.0 && ratio.is_finite() && measured.collective.bytes > 0.0) {
            let took = measured.seconds;
            let why = format!(
                "it took {took} s for {} bytes, but its links predict {predicted} s; leave it out",
                measured.collective.bytes
            );
            return Err(MachineError::Measurement { number, why });
        }
        ratios.push((
            (measured.collective.operation, ranks(&measured.collective)),
            measured.collective.bytes,
            ratio.ln(),
        ));
    }
    ratios.sort_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)));
    let mut profiles: Vec<Profile> = Vec::new();
    for same in ratios.chunk_by(|left, right| left.0 == right.0) {
        let (operation, ranks) = same[0].0;
        let mut profile = Profile { operation, ranks, bytes: Vec::new(), factor: Vec::new() };
        for size in same.chunk_by(|left, right| left.1 == right.1) {
            let mean = size.iter().map(|(.., ratio)| ratio).sum::<f64>() / size.len() as f64;
            profile.bytes.push(size[0].1);
            profile.factor.push(mean.exp());
        }
        profiles.push(profile);
    }
    links.with_profiles(profiles)
}

/// Returns, for each measurement, the seconds that a fit of all others predicts: a test of [`fit_profiles`] on sizes
/// that it has not seen.
///
/// # Errors
/// As for [`fit_profiles`].
pub fn leave_one_out(machine: &Machine, measurements: &[Measurement]) -> Result<Vec<f64>, MachineError> {
    let mut predicted = Vec::with_capacity(measurements.len());
    for (left_out, measured) in measurements.iter().enumerate() {
        // Only measurements of the same operation affect the prediction.
        let seen = measurements
            .iter()
            .enumerate()
            .filter(|(nth, other)| *nth != left_out && other.collective.operation == measured.collective.operation);
        let fit = fit_profiles(machine, &seen.map(|(_, seen)| seen.clone()).collect::<Vec<_>>())?;
        predicted.push(seconds(&fit, &measured.collective, measured.algorithm)?.total());
    }
    Ok(predicted)
}

/// Returns the middle of some values, or the mean of the two in the middle; `None` if there are none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        _ if values.is_empty() => None,
        1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

//! Bandwidths from measured seconds.
//!
//! Each measurement takes as long as its slowest resource, so it gives information on one bandwidth only. The fit
//! alternates: with the bandwidths of the last round each measurement names its bottleneck, and each bandwidth becomes
//! the median over the measurements that name it. The median keeps one outlier from shifting everything; a bandwidth
//! that no measurement names is unchanged. The round with the smallest errors is returned. Latencies and profiles are
//! not fitted here.

use super::time::{Rate, bytes_by_rate};
use super::{Algorithm, GroupedCollective, Machine, MachineError, seconds};
use std::collections::BTreeMap;

/// The maximum number of rounds, for fits that alternate between two states.
const ROUNDS: usize = 32;

/// A collective and how long it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What was run.
    pub collective: GroupedCollective,
    /// Its algorithm.
    pub algorithm: Algorithm,
    /// The measured time in seconds.
    pub seconds: f64,
}

/// A machine with fitted bandwidths.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The machine.
    pub machine: Machine,
    /// The error of its prediction of each measurement, as a fraction of the measured seconds, never negative.
    pub errors: Vec<f64>,
}

impl Calibration {
    /// Returns the median of the errors; 0 without measurements.
    #[must_use]
    pub fn median_error(&self) -> f64 {
        median(self.errors.clone()).unwrap_or(0.0)
    }
}

/// Fits the bandwidths of a machine to measurements.
///
/// ```
/// use polyshard::layout::Collective;
/// use polyshard::machine::{Algorithm, GroupedCollective, Measurement, calibrate};
/// use polyshard::prelude::*;
/// let collective = GroupedCollective { operation: Collective::Broadcast, groups: vec![vec![0, 16]], bytes: 1e9 };
/// let measured = Measurement { collective, algorithm: Algorithm::Ring, seconds: 0.1 + 2e-5 };
/// let fitted = calibrate(&Machine::preset("a100")?, &[measured])?.machine;
/// let [node, gpu] = fitted.levels() else { panic!("two levels") };
/// assert!((node.bandwidth / 1e10 - 1.0).abs() < 1e-12); // 1 GB in 0.1 s
/// assert_eq!(gpu.bandwidth, 270e9); // not measured, so as it was
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// If the machine cannot run a measured collective, or a measurement sends nothing or took no longer than its latency.
pub fn calibrate(machine: &Machine, measurements: &[Measurement]) -> Result<Calibration, MachineError> {
    let samples: Vec<Sample> =
        measurements.iter().enumerate().map(|of| Sample::new(machine, of)).collect::<Result<_, _>>()?;
    let mut rates = BTreeMap::new();
    for &rate in samples.iter().flat_map(|sample| sample.bytes.keys()) {
        rates.insert(rate, rate.bandwidth(machine));
    }
    let mut best = rates.clone();
    for _ in 0..ROUNDS {
        let next = round(&samples, &rates);
        if deviation(&samples, &next) < deviation(&samples, &best) {
            best.clone_from(&next);
        }
        if next == rates {
            break;
        }
        rates = next;
    }
    let mut levels = machine.levels().to_vec();
    for (rate, bandwidth) in best {
        match rate.bypass {
            true => levels[rate.level].bypass = Some(bandwidth),
            false => levels[rate.level].bandwidth = bandwidth,
        }
    }
    let profiles = machine.profiles().to_vec();
    let machine = Machine::new(machine.name(), levels, machine.device().clone())?.with_profiles(profiles)?;
    let errors = measurements.iter().map(|measured| error(&machine, measured)).collect::<Result<_, _>>()?;
    Ok(Calibration { machine, errors })
}

/// Returns the prediction errors for measurements that the fit has not seen, in the order of the measurements.
///
/// Measurement `i` is left out of fold `i % folds`, and predicted by the fit of the others.
///
/// # Errors
/// If there are fewer than two folds or more folds than measurements, or as [`calibrate`].
pub fn cross_validate(machine: &Machine, measurements: &[Measurement], folds: usize) -> Result<Vec<f64>, MachineError> {
    if folds < 2 || folds > measurements.len() {
        return Err(MachineError::Folds { measurements: measurements.len(), folds });
    }
    let mut fits = Vec::with_capacity(folds);
    for fold in 0..folds {
        let seen = measurements.iter().enumerate().filter(|(nth, _)| nth % folds != fold);
        fits.push(calibrate(machine, &seen.map(|(_, measured)| measured.clone()).collect::<Vec<_>>())?.machine);
    }
    measurements.iter().enumerate().map(|(nth, measured)| error(&fits[nth % folds], measured)).collect()
}

/// A measurement as a constraint on bandwidths: the seconds are the maximum of bytes over bandwidth.
struct Sample {
    bytes: BTreeMap<Rate, f64>,
    seconds: f64,
}

impl Sample {
    fn new(machine: &Machine, (number, measured): (usize, &Measurement)) -> Result<Self, MachineError> {
        let (mut bytes, latency) = bytes_by_rate(machine, &measured.collective, measured.algorithm)?;
        bytes.retain(|_, bytes| *bytes > 0.0);
        let wrong = |why: String| Err(MachineError::Measurement { number, why });
        if bytes.is_empty() {
            return wrong("it sends nothing; give groups of two ranks or more, and bytes".into());
        }
        let seconds = measured.seconds - latency;
        if !(seconds > 0.0 && seconds.is_finite()) {
            let (took, machine) = (measured.seconds, machine.name());
            return wrong(format!(
                "it took {took} s, but its messages alone take {latency} s on `{machine}`; give lower latencies"
            ));
        }
        Ok(Self { bytes, seconds })
    }

    /// The slowest of the rates, its bytes and its seconds.
    fn bottleneck(&self, rates: &BTreeMap<Rate, f64>) -> (Rate, f64, f64) {
        let taken = self.bytes.iter().map(|(rate, bytes)| (*rate, *bytes, bytes / rates[rate]));
        let Some(slowest) = taken.max_by(|left, right| left.2.total_cmp(&right.2)) else {
            panic!("a sample without bytes was kept: a bug in polyshard")
        };
        slowest
    }
}

/// Each rate, refitted to the measurements that it limits.
fn round(samples: &[Sample], rates: &BTreeMap<Rate, f64>) -> BTreeMap<Rate, f64> {
    let mut said: BTreeMap<Rate, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        let (rate, bytes, _) = sample.bottleneck(rates);
        said.entry(rate).or_default().push(bytes / sample.seconds);
    }
    let mut fitted = |rate: &Rate, before: f64| said.remove(rate).and_then(median).unwrap_or(before);
    rates.iter().map(|(rate, before)| (*rate, fitted(rate, *before))).collect()
}

/// The sum of the absolute logarithms of predicted over measured seconds.
fn deviation(samples: &[Sample], rates: &BTreeMap<Rate, f64>) -> f64 {
    samples.iter().map(|sample| (sample.bottleneck(rates).2 / sample.seconds).ln().abs()).sum()
}

fn error(machine: &Machine, measured: &Measurement) -> Result<f64, MachineError> {
    let predicted = seconds(machine, &measured.collective, measured.algorithm)?.total();
    Ok((predicted / measured.seconds - 1.0).abs())
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

//! Bandwidths from measured seconds.
//!
//! Each measurement takes as long as its slowest resource, so it gives information on one bandwidth only. The fit
//! alternates: with the bandwidths of the last round each measurement names its bottleneck, and each bandwidth becomes
//! the median over the measurements that name it. The median keeps one outlier from shifting everything; a bandwidth
//! that no measurement names is unchanged. The round with the smallest errors is returned. Latencies and profiles are
//! not fitted here.

use polyshard_machine::{Level, Machine, MachineError, Measurement, median, seconds};
use std::collections::BTreeMap;

/// The maximum number of rounds, for fits that alternate between two states.
const ROUNDS: usize = 32;

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
/// # Errors
/// If the machine cannot run a measured collective, or a measurement sends nothing or took no longer than its latency.
pub fn calibrate(machine: &Machine, measurements: &[Measurement]) -> Result<Calibration, MachineError> {
    let samples: Vec<Sample> =
        measurements.iter().enumerate().map(|of| Sample::new(machine, of)).collect::<Result<_, _>>()?;
    let mut rates = BTreeMap::new();
    for &rate in samples.iter().flat_map(|sample| sample.bytes.keys()) {
        rates.insert(rate, *bandwidth(&mut machine.levels().to_vec(), rate));
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
    for (rate, found) in best {
        *bandwidth(&mut levels, rate) = found;
    }
    let machine = with_levels(machine, levels)?;
    let errors = measurements.iter().map(|measured| error(&machine, measured)).collect::<Result<_, _>>()?;
    Ok(Calibration { machine, errors })
}

/// Returns the prediction errors for measurements that the fit has not seen, in the order of the measurements.
///
/// Measurement `i` is left out of fold `i % folds`, of two or more, and predicted by the fit of the others.
pub fn cross_validate(machine: &Machine, measurements: &[Measurement], folds: usize) -> Result<Vec<f64>, MachineError> {
    let mut fits = Vec::with_capacity(folds);
    for fold in 0..folds {
        let seen = measurements.iter().enumerate().filter(|(nth, _)| nth % folds != fold);
        fits.push(calibrate(machine, &seen.map(|(_, measured)| measured.clone()).collect::<Vec<_>>())?.machine);
    }
    measurements.iter().enumerate().map(|(nth, measured)| error(&fits[nth % folds], measured)).collect()
}

/// One of the bandwidths of a machine: a level, and whether it is that of its bypass.
type Rate = (usize, bool);

fn bandwidth(levels: &mut [Level], (level, bypass): Rate) -> &mut f64 {
    match (bypass, &mut levels[level]) {
        (true, Level { bypass: Some(bandwidth), .. }) | (_, Level { bandwidth, .. }) => bandwidth,
    }
}

fn with_levels(machine: &Machine, levels: Vec<Level>) -> Result<Machine, MachineError> {
    let profiles = machine.profiles().to_vec();
    Machine::new(machine.name(), levels, machine.device().clone())?.with_profiles(profiles)
}

/// For each bandwidth, the bytes that it divides to give seconds: the seconds on a machine in which it is 1 and all
/// others are practically infinite; and the latency.
fn bytes_by_rate(machine: &Machine, measured: &Measurement) -> Result<(BTreeMap<Rate, f64>, f64), MachineError> {
    let all: Vec<Rate> = (0..machine.levels().len()).flat_map(|level| [(level, false), (level, true)]).collect();
    let mut levels = machine.levels().to_vec();
    all.iter().for_each(|&rate| *bandwidth(&mut levels, rate) = 1e300);
    let (mut bytes, mut latency) = (BTreeMap::new(), 0.0);
    for rate in all.into_iter().filter(|&(level, bypass)| !bypass || levels[level].bypass.is_some()) {
        let mut levels = levels.clone();
        *bandwidth(&mut levels, rate) = 1.0;
        let taken = seconds(&with_levels(machine, levels)?, &measured.collective, measured.algorithm)?;
        // Less than a byte is what the others take.
        if taken.transfer > 1e-100 {
            bytes.insert(rate, taken.transfer);
        }
        latency = taken.latency;
    }
    Ok((bytes, latency))
}

/// A measurement as a constraint on bandwidths: the seconds are the maximum of bytes over bandwidth.
struct Sample {
    bytes: BTreeMap<Rate, f64>,
    seconds: f64,
}

impl Sample {
    fn new(machine: &Machine, (number, measured): (usize, &Measurement)) -> Result<Self, MachineError> {
        let (bytes, latency) = bytes_by_rate(machine, measured)?;
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

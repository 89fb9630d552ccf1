//! Latency and bandwidth of a link from the times of messages of several sizes.
//!
//! The model is the oldest one: a message of `s` bytes takes `latency + s / bandwidth` (R. W. Hockney, "The
//! communication challenge for MPP", Parallel Computing 20(3), 1994). Sizes span many powers of ten, so errors are
//! relative to the measured time and count by absolute value: a few sizes at which a library changes its protocol then
//! do not skew the line for all others.

use super::MachineError;

/// Rounds of reweighting, after which the weights hardly change.
const ROUNDS: usize = 50;
/// Relative errors below this get the same weight, so that weights are finite.
const EXACT: f64 = 1e-6;

/// The result of [`fit_link`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Seconds per message, 0 or more.
    pub latency: f64,
    /// Bytes per second.
    pub bandwidth: f64,
}

impl Link {
    /// Returns the seconds that a message of `bytes` bytes takes.
    #[must_use]
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.latency + bytes / self.bandwidth
    }
}

/// Fits a link to the seconds of messages, each as (bytes, seconds).
///
/// Minimises the sum of the absolute relative errors by iteratively reweighted least squares. Where times do not grow
/// with the sizes, as when they differ by noise only, all of the time is attributed to bytes, since no link is
/// infinitely fast.
///
/// ```
/// use polyshard::machine::fit_link;
/// let link = fit_link(&[(0.0, 2e-6), (1e3, 3e-6), (1e6, 1.002e-3)])?;
/// assert!((link.latency / 2e-6 - 1.0).abs() < 1e-9 && (link.bandwidth / 1e9 - 1.0).abs() < 1e-9);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// If no message has bytes, a time is not positive, or bytes are negative or not finite.
pub fn fit_link(times: &[(f64, f64)]) -> Result<Link, MachineError> {
    for (number, &(bytes, seconds)) in times.iter().enumerate() {
        if !(seconds > 0.0 && seconds.is_finite() && bytes >= 0.0 && bytes.is_finite()) {
            let why = format!("{bytes} bytes took {seconds} s; leave it out");
            return Err(MachineError::Measurement { number, why });
        }
    }
    if times.iter().all(|&(bytes, _)| bytes == 0.0) {
        let why = "all messages are empty; measure at least one with data".into();
        return Err(MachineError::Measurement { number: 0, why });
    }
    let mut weights = vec![1.0; times.len()];
    let mut link = weighted(times, &weights);
    for _ in 0..ROUNDS {
        for (weight, &(bytes, seconds)) in weights.iter_mut().zip(times) {
            *weight = 1.0 / (link.seconds(bytes) / seconds - 1.0).abs().max(EXACT);
        }
        link = weighted(times, &weights);
    }
    Ok(link)
}

/// The link with the minimal sum of `weight * (seconds(bytes) / measured - 1)^2`.
fn weighted(times: &[(f64, f64)], weights: &[f64]) -> Link {
    // In units of 1 / measured a message is latency * p + q / bandwidth, and should be 1.
    let [mut pp, mut pq, mut qq, mut p, mut q] = [0.0; 5];
    for (&(bytes, seconds), weight) in times.iter().zip(weights) {
        let (one, size) = (1.0 / seconds, bytes / seconds);
        pp += weight * one * one;
        pq += weight * one * size;
        qq += weight * size * size;
        p += weight * one;
        q += weight * size;
    }
    let determinant = pp * qq - pq * pq;
    let (latency, per_byte) = ((p * qq - q * pq) / determinant, (q * pp - p * pq) / determinant);
    // With messages of one size the determinant is 0; values that are not finite fail both comparisons.
    match latency >= 0.0 && per_byte > 0.0 && (latency + per_byte).is_finite() {
        true => Link { latency, bandwidth: 1.0 / per_byte },
        false => Link { latency: 0.0, bandwidth: qq / q },
    }
}

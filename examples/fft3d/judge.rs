//! The sequential transform, and how far a distributed one may be from it.
//!
//! It shares the transform of one line with the distributed one and nothing else: it makes the whole input from
//! its seed, and goes through all lines of each dimension in turn, in `f64`.

use crate::{Real, element};
use ndarray::{Array3, ArrayView1, ArrayViewD, Axis, Zip};
use num_complex::Complex;
use polyshard::cli::values::Number;
use rustfft::FftPlanner;

/// Compares the spectrum with the sequential transform of the input, and the array that came back with the input.
/// Both have real and imaginary parts along a fourth dimension.
///
/// # Errors
/// What is wrong, if they are farther apart than rounding explains.
pub(crate) fn judge<T: Real>(
    size: [usize; 3],
    seed: u64,
    spectrum: ArrayViewD<T>,
    returned: ArrayViewD<T>,
) -> Result<String, String> {
    let mut expected = Array3::from_shape_fn(size, |(i, j, k)| {
        let part = |part| element::<f64>(seed, &[i, j, k, part]);
        Complex::new(part(0), part(1))
    });
    // A transform of N elements is off by a few u * log2(N) times the input's norm, with the unit roundoff u: J.
    // Schatzman, "Accuracy of the discrete Fourier transform and the fast Fourier transform", SIAM Journal on
    // Scientific Computing 17(5), 1996. Lengths with large prime factors take longer ways, hence 16.
    let roundoff = T::EPSILON / 2.0;
    let elements = expected.len().max(1) as f64;
    let norm = expected.iter().map(Complex::norm_sqr).fold(0.0, |sum, square| sum + square).sqrt();
    let bound = 16.0 * roundoff * elements.log2().max(1.0) * norm;

    let error = largest(returned, &expected);
    // Two transforms, and a division of everything by the square root of N twice.
    let text = format!("largest error of the way there and back: {error:e}");
    let round_trip = verdict(text, error, 2.0 * bound / elements.sqrt())?;
    transform(&mut expected);
    let error = largest(spectrum, &expected);
    let text = format!("largest error against a sequential transform: {error:e}");
    Ok(format!("{}\n{round_trip}", verdict(text, error, bound)?))
}

fn verdict(text: String, error: f64, bound: f64) -> Result<String, String> {
    if error <= bound {
        return Ok(format!("{text} (rounding explains up to {bound:.1e})"));
    }
    Err(format!("the answer of `fft3d` is wrong; {text}, but rounding explains up to {bound:.1e}"))
}

/// The sequential transform.
fn transform(array: &mut Array3<Complex<f64>>) {
    let mut planner = FftPlanner::new();
    for axis in (0..3).map(Axis) {
        let plan = planner.plan_fft_forward(array.len_of(axis));
        for mut lane in array.lanes_mut(axis) {
            let mut line = lane.to_vec();
            plan.process(&mut line);
            lane.assign(&ArrayView1::from(&line));
        }
    }
}

/// The largest difference of a real or imaginary part.
fn largest<T: Real>(found: ArrayViewD<T>, expected: &Array3<Complex<f64>>) -> f64 {
    let part = |part| found.index_axis(Axis(3), part).into_dimensionality().expect("three dimensions are left");
    let mut error: f64 = 0.0;
    Zip::from(expected).and(part(0)).and(part(1)).for_each(|expected, &re, &im| {
        let distance = |found: T, expected: f64| found.to_f64().expect("floats widen").distance(expected);
        error = error.max(distance(re, expected.re)).max(distance(im, expected.im));
    });
    error
}

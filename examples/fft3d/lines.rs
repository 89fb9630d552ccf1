//! Transforms along one dimension of a rank's block, line by line.
//!
//! Lines of the inmost dimension follow one another, and are transformed in place. Those of other dimensions are
//! strided: some at a time are copied side by side, transformed, and copied back. Several at once, because the
//! elements of neighbouring lines share cache lines and pages; few, so that they stay in the cache.

use crate::Real;
use num_complex::Complex;
use polyshard::DistArray;
use rustfft::{Fft, FftPlanner};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Strided lines that are transformed at a time.
const BATCH: usize = 32;

/// Elements of each line that are copied at a time: whole cache lines of both sides.
const STRIP: usize = 8;

/// Which way to transform.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// With exponents of `-2 pi i`.
    Forward,
    /// With exponents of `2 pi i`, without dividing by the number of elements.
    Back,
}

/// Where the time of a transform goes, in seconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seconds {
    /// In transforms of lines.
    pub(crate) fft: f64,
    /// In copies that bring strided lines together and back.
    pub(crate) packing: f64,
    /// In moves between stages, waiting for other ranks included.
    pub(crate) communication: f64,
}

/// Plans for the lines of each dimension, and the room that they need.
pub(crate) struct Lines<T> {
    size: [usize; 3],
    forward: [Arc<dyn Fft<T>>; 3],
    back: [Arc<dyn Fft<T>>; 3],
    batch: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

impl<T: Real> Lines<T> {
    /// Returns the plans for arrays of this size.
    pub(crate) fn new(size: [usize; 3]) -> Self {
        let mut planner = FftPlanner::new();
        let forward = size.map(|extent| planner.plan_fft_forward(extent));
        let back = size.map(|extent| planner.plan_fft_inverse(extent));
        let zero = Complex::new(T::ZERO, T::ZERO);
        let longest = size.into_iter().max().unwrap_or(0);
        let room = forward.iter().chain(&back).map(|plan| plan.get_inplace_scratch_len()).max().unwrap_or(0);
        Self { size, forward, back, batch: vec![zero; BATCH * longest], scratch: vec![zero; room] }
    }

    /// Transforms all lines of this rank's block along `dim`, which must be whole there.
    pub(crate) fn transform(
        &mut self,
        array: &mut DistArray<T>,
        dim: usize,
        direction: Direction,
        seconds: &mut Seconds,
    ) {
        let extent = self.size[dim];
        assert_eq!(array.local_shape()[dim], extent, "lines along dimension {dim} are not whole");
        let inner: usize = array.local_shape()[dim + 1..3].iter().product();
        let plan = match direction {
            Direction::Forward => Arc::clone(&self.forward[dim]),
            Direction::Back => Arc::clone(&self.back[dim]),
        };
        let block: &mut [Complex<T>] = bytemuck::cast_slice_mut(array.block_mut());
        if block.is_empty() {
            return;
        }
        if inner == 1 {
            let start = Instant::now();
            plan.process_with_scratch(block, &mut self.scratch);
            seconds.fft += start.elapsed().as_secs_f64();
            return;
        }
        for plane in block.chunks_exact_mut(extent * inner) {
            for first in (0..inner).step_by(BATCH) {
                let start = Instant::now();
                let count = BATCH.min(inner - first);
                let batch = &mut self.batch[..count * extent];
                for start in (0..extent).step_by(STRIP) {
                    let end = extent.min(start + STRIP);
                    for (line, into) in batch.chunks_exact_mut(extent).enumerate() {
                        for (i, into) in (start..end).zip(&mut into[start..end]) {
                            *into = plane[i * inner + first + line];
                        }
                    }
                }
                let packed = Instant::now();
                plan.process_with_scratch(batch, &mut self.scratch);
                let transformed = Instant::now();
                for start in (0..extent).step_by(STRIP) {
                    let end = extent.min(start + STRIP);
                    for (line, from) in batch.chunks_exact(extent).enumerate() {
                        for (i, &from) in (start..end).zip(&from[start..end]) {
                            plane[i * inner + first + line] = from;
                        }
                    }
                }
                seconds.fft += (transformed - packed).as_secs_f64();
                seconds.packing += (packed - start + transformed.elapsed()).as_secs_f64();
            }
        }
    }

    /// Divides this rank's block by the number of elements of the whole array, which ends the way back.
    pub(crate) fn normalise(&self, array: &mut DistArray<T>, seconds: &mut Seconds) {
        let start = Instant::now();
        let count = T::from(self.size.iter().product::<usize>()).expect("floats hold every count");
        for part in array.block_mut() {
            *part = part.divide(count);
        }
        seconds.fft += start.elapsed().as_secs_f64();
    }
}

impl Seconds {
    /// What to say of the runs, of which there is at least one.
    pub(crate) fn of_runs(runs: &mut [Self]) -> String {
        runs.sort_by(|a, b| a.sum().total_cmp(&b.sum()));
        match runs {
            [one] => one.to_string(),
            _ => format!("best of {} runs {}; median {}", runs.len(), runs[0], runs[runs.len() / 2]),
        }
    }

    fn sum(&self) -> f64 {
        self.fft + self.packing + self.communication
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fft, packing, communication } = self;
        write!(f, "{:.6} s (FFT {fft:.6}, packing {packing:.6}, communication {communication:.6})", self.sum())
    }
}

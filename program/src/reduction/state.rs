//! State matrices: which devices' data is in which chunk, on each device.
//!
//! ```text
//! chunk \ device   0 1 2 3        device 0 after a reduce-scatter with device 1: of its first two chunks it has
//!         0        x x . .        the sum of both, of the others nothing
//!         1        x x . .
//!         2        . . . .
//!         3        . . . .
//! ```
//!
//! Each device has such a matrix (Xie et al., section 3.2), and a [`Context`] holds all of them. It records whose
//! data is summed, never the data.

use polyshard_layout::joined;
use std::fmt;

/// The state matrices of all devices: for each device and chunk, the devices whose data is in its sum.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Context {
    devices: usize,
    chunks: usize,
    /// The words of one row, one bit per device.
    words: usize,
    /// By device, then chunk, then word.
    bits: Vec<u64>,
}

impl Context {
    /// Returns the state before a reduction: each device has all chunks of its own data, and no other.
    ///
    /// ```
    /// use polyshard::program::reduction::{Collective, Context};
    /// let mut context = Context::initial(2, 2);
    /// context.apply(Collective::ReduceScatter, &[0, 1])?;
    /// assert_eq!([context.chunks_of(0), context.chunks_of(1)], [[0], [1]]);
    /// context.apply(Collective::AllGather, &[0, 1])?;
    /// assert!(context.is_sum());
    /// # Ok::<(), polyshard::program::reduction::Violation>(())
    /// ```
    #[must_use]
    pub fn initial(devices: usize, chunks: usize) -> Self {
        let words = devices.div_ceil(64);
        let mut context = Self { devices, chunks, words, bits: vec![0; devices * chunks * words] };
        for device in 0..devices {
            for chunk in 0..chunks {
                context.row_mut(device, chunk)[device / 64] |= 1 << (device % 64);
            }
        }
        context
    }

    /// Returns the number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Returns the number of chunks of the array.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Returns the chunks of which `device` holds any data, ascending.
    ///
    /// # Panics
    /// If there is no such device.
    #[must_use]
    pub fn chunks_of(&self, device: usize) -> Vec<usize> {
        assert!(device < self.devices, "device {device} is not one of {}", self.devices);
        (0..self.chunks).filter(|&chunk| self.row(device, chunk).iter().any(|word| *word != 0)).collect()
    }

    /// Returns whether every device has the sum of all in every chunk.
    #[must_use]
    pub fn is_sum(&self) -> bool {
        (0..self.devices).all(|device| self.unfinished(device) == 0)
    }

    /// Returns the number of chunks of which `device` does not have the whole sum.
    pub(super) fn unfinished(&self, device: usize) -> usize {
        let whole = |word: usize| match self.devices - word * 64 {
            64.. => u64::MAX,
            rest => (1 << rest) - 1,
        };
        let done = |chunk: &usize| self.row(device, *chunk).iter().enumerate().all(|(at, word)| *word == whole(at));
        (0..self.chunks).filter(|chunk| !done(chunk)).count()
    }

    pub(super) fn row(&self, device: usize, chunk: usize) -> &[u64] {
        let start = (device * self.chunks + chunk) * self.words;
        &self.bits[start..start + self.words]
    }

    fn row_mut(&mut self, device: usize, chunk: usize) -> &mut [u64] {
        let start = (device * self.chunks + chunk) * self.words;
        &mut self.bits[start..start + self.words]
    }

    /// All rows of a device.
    pub(super) fn matrix(&self, device: usize) -> &[u64] {
        let len = self.chunks * self.words;
        &self.bits[device * len..(device + 1) * len]
    }

    /// Replaces all rows of a device.
    pub(super) fn set_matrix(&mut self, device: usize, matrix: &[u64]) {
        let len = self.chunks * self.words;
        self.bits[device * len..(device + 1) * len].copy_from_slice(matrix);
    }

    /// Clears one row of a device.
    pub(super) fn clear(&mut self, device: usize, chunk: usize) {
        self.row_mut(device, chunk).fill(0);
    }
}

impl fmt::Debug for Context {
    /// Writes the matrices side by side, one line per chunk.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in 0..self.chunks {
            let row = |device: usize| -> String {
                let row = self.row(device, chunk);
                let mark = |other: usize| if row[other / 64] >> (other % 64) & 1 == 1 { 'x' } else { '.' };
                (0..self.devices).map(mark).collect()
            };
            writeln!(f, "{}", joined((0..self.devices).map(row), " "))?;
        }
        Ok(())
    }
}

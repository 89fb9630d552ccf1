//! One measured number as a line, printed by the parts and read by the table.
//!
//! ```text
//! record seconds mpi 2x2 f64 4096 summa 1.234
//! ```
//!
//! ScaLAPACK's driver prints the same form.

use polyshard_runtime::{Backend, World};
use std::fmt;
use std::str::FromStr;

/// A number with its quantity, case and contestant.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The quantity: `seconds`, or memory in bytes.
    pub quantity: String,
    /// The setting of the measurement, by which the table groups.
    pub case: Case,
    /// An algorithm, a bound of one, or ScaLAPACK with a block size.
    pub contestant: String,
    /// The number.
    pub value: f64,
}

/// The setting in which contestants are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// `mpi`, `threads`, or `lower`, which runs on no ranks.
    pub backend: String,
    /// The ranks, as `2x2`.
    pub grid: String,
    /// The element type.
    pub dtype: String,
    /// The extents, as `4096` or `512x2048x1024`.
    pub size: String,
}

impl Case {
    /// The case of a measurement on the ranks of `world`.
    pub fn on(world: &World, grid: impl fmt::Display, dtype: impl fmt::Display, size: impl fmt::Display) -> Self {
        let backend = match world.backend() {
            Backend::Mpi => "mpi",
            Backend::Threads => "threads",
        };
        Self { backend: backend.into(), grid: grid.to_string(), dtype: dtype.to_string(), size: size.to_string() }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { backend, grid, dtype, size } = &self.case;
        write!(f, "record {} {backend} {grid} {dtype} {size} {} {:e}", self.quantity, self.contestant, self.value)
    }
}

impl FromStr for Record {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &["record", quantity, backend, grid, dtype, size, contestant, value] = &fields[..] else {
            return Err(format!("`{line}` is not `record quantity backend grid type size contestant value`"));
        };
        let value = value.parse().map_err(|error| format!("`{value}` in `{line}` is no number: {error}"))?;
        let [backend, grid, dtype, size] = [backend, grid, dtype, size].map(String::from);
        let case = Case { backend, grid, dtype, size };
        Ok(Self { quantity: quantity.into(), case, contestant: contestant.into(), value })
    }
}

/// The median.
///
/// # Panics
/// If there are no values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], values[middle]) } else { values[middle] }
}

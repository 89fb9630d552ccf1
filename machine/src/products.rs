//! Rates of products of small or thin matrices, which are slower than others.

use crate::MachineError;
use serde::{Deserialize, Serialize};

/// The extent from which products get no faster.
const FULL: usize = 64;

/// How fast a device multiplies small or thin matrices of one element type. Each list has ascending extents of one
/// dimension, with the operations per second when the other two are large.
///
/// ```text
/// columns       4          16         64 and more
/// rate          0.5        0.95       1             of the rate of large matrices
/// ```
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// Seconds to start a product.
    pub latency: f64,
    /// By rows of the result, the dimension along which its elements are not contiguous.
    pub rows: Vec<(usize, f64)>,
    /// By columns of the result, along which elements are contiguous.
    pub columns: Vec<(usize, f64)>,
    /// By the terms of a sum.
    pub depth: Vec<(usize, f64)>,
}

impl Products {
    /// Returns the fraction of `rate`, the rate of large matrices, at which a product of these rows, columns and terms
    /// runs: the product of the fractions of its three extents. Between two measured extents the fraction grows by a
    /// constant amount per doubling.
    ///
    /// ```
    /// use polyshard::machine::Products;
    /// let columns = vec![(4, 5e9), (16, 9e9)];
    /// let products = Products { columns, ..Products::default() };
    /// let part = |columns: usize| products.part_of(1e10, [100, columns, 100]);
    /// assert_eq!([2, 4, 8, 16, 32, 64].map(part), [0.25, 0.5, 0.7, 0.9, 0.95, 1.0]);
    /// ```
    #[must_use]
    pub fn part_of(&self, rate: f64, [rows, columns, depth]: [usize; 3]) -> f64 {
        let part = |measured: &[(usize, f64)], extent: usize| {
            let points = || measured.iter().map(|&(extent, of)| (extent, (of / rate).min(1.0))).chain([(FULL, 1.0)]);
            let Some(above) = points().position(|(other, _)| other >= extent) else { return 1.0 };
            let (next, most) = points().nth(above).unwrap_or((FULL, 1.0));
            match above.checked_sub(1).and_then(|below| points().nth(below)) {
                // Below the shortest measured extent, the rest of that extent is computed in vain.
                None if !measured.is_empty() => most * extent as f64 / next as f64,
                None => 1.0,
                Some((before, least)) => {
                    let way = (extent as f64 / before as f64).ln() / (next as f64 / before as f64).ln();
                    least + (most - least) * way
                }
            }
        };
        part(&self.rows, rows) * part(&self.columns, columns) * part(&self.depth, depth)
    }

    /// Checks the figures of an element type.
    pub(crate) fn check(&self, dtype: &str) -> Result<(), MachineError> {
        let wrong = |what: &str, value: String, instead| {
            Err(MachineError::Device { what: format!("{what} of products of `{dtype}`"), value, instead })
        };
        if !(self.latency >= 0.0 && self.latency.is_finite()) {
            return wrong("latency", format!("{} s", self.latency), "give 0 or more");
        }
        for (what, measured) in [("rows", &self.rows), ("columns", &self.columns), ("depth", &self.depth)] {
            let ascend = measured.windows(2).all(|pair| pair[0].0 < pair[1].0);
            if !ascend || measured.iter().any(|&(extent, _)| extent == 0 || extent >= FULL) {
                let extents: Vec<usize> = measured.iter().map(|&(extent, _)| extent).collect();
                return wrong(&format!("list of {what}"), format!("{extents:?}"), "give extents of 1 to 63, ascending");
            }
            if let Some((_, rate)) = measured.iter().find(|(_, rate)| !(*rate > 0.0 && rate.is_finite())) {
                return wrong(&format!("rate by {what}"), rate.to_string(), "give more than 0 operations per second");
            }
        }
        Ok(())
    }
}

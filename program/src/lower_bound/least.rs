//! The fewest elements from which a number of instances can be computed: a small convex problem.

/// The problem: minimise the sum of `x` with `from <= x <= to`, such that for each row of exponents the product of `x` to
/// their powers is at least the number of instances.
///
/// In logarithms of `x` it is convex, and its dual has a variable for each row. Every value of these gives a valid bound; the
/// greatest bound is found one variable after the other, by bisection of a decreasing derivative.
pub(super) struct Least<'a> {
    /// A row for each way to bound the instances: an exponent for each tensor.
    pub exponents: &'a [Vec<f64>],
    pub from: &'a [f64],
    pub to: &'a [f64],
}

/// The minimal sum, or a bound below it if the search ended early, and where it is attained.
pub(super) struct Found {
    pub least: f64,
    pub at: Vec<f64>,
}

/// Maximum number of passes over all variables.
const ROUNDS: usize = 2000;

impl Least<'_> {
    /// The least sum from which a number of instances with this logarithm can be computed.
    pub(super) fn of(&self, instances: f64) -> Found {
        let mut weights = vec![0.0; self.exponents.len()];
        let mut best = self.bound(&weights, instances);
        for _ in 0..ROUNDS {
            for row in 0..weights.len() {
                weights[row] = self.best_weight(row, &weights, instances);
            }
            let bound = self.bound(&weights, instances);
            let gained = bound - best;
            best = best.max(bound);
            if gained <= 1e-15 * best.abs() {
                break;
            }
        }
        Found { least: best, at: self.elements(&weights) }
    }

    /// The elements of each tensor that minimise the bound of these weights.
    fn elements(&self, weights: &[f64]) -> Vec<f64> {
        let pull = |nth: usize| self.exponents.iter().zip(weights).map(|(row, weight)| row[nth] * weight).sum::<f64>();
        (0..self.from.len()).map(|nth| pull(nth).clamp(self.from[nth], self.to[nth])).collect()
    }

    /// The lower bound on the sum that these weights give.
    fn bound(&self, weights: &[f64], instances: f64) -> f64 {
        let elements = self.elements(weights);
        let sum: f64 = elements.iter().sum();
        self.exponents
            .iter()
            .zip(weights)
            .fold(sum, |sum, (row, weight)| sum + weight * self.lacking(row, &elements, instances))
    }

    /// By how much the logarithm of the instances that these elements allow falls short.
    fn lacking(&self, row: &[f64], elements: &[f64], instances: f64) -> f64 {
        let bounding = row.iter().zip(elements).filter(|(exponent, _)| **exponent > 0.0);
        instances - bounding.map(|(exponent, elements)| exponent * elements.ln()).sum::<f64>()
    }

    /// The weight of one row at which the bound is greatest, the others as they are.
    fn best_weight(&self, row: usize, weights: &[f64], instances: f64) -> f64 {
        let mut weights = weights.to_vec();
        let mut lacks = |weight: f64| {
            weights[row] = weight;
            self.lacking(&self.exponents[row], &self.elements(&weights), instances) > 0.0
        };
        if !lacks(0.0) {
            return 0.0;
        }
        // Once all elements are touched, more weight changes nothing.
        let exponents = self.exponents[row].iter().zip(self.to).filter(|(exponent, _)| **exponent > 0.0);
        let (mut low, mut high) = (0.0, exponents.map(|(exponent, to)| to / exponent).fold(1.0, f64::max));
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if middle <= low || middle >= high {
                break;
            }
            match lacks(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }
}

//! Products on one core: the leaf, for comparison with OpenBLAS.

use crate::product::{a, b};
use polyshard::runtime::leaf::{Role, Vectors, contract};
use polyshard::runtime::{Element, Strided, StridedMut};
use polyshard_testing::bench::record::{Case, Record};
use rustix::time::{ClockId, clock_gettime};

/// Prints the CPU seconds of each of `runs` products of square matrices, after an untimed one; CPU time does not depend
/// on other load on the machine.
pub(crate) fn measure<T: Element>(n: usize, dtype: &str, runs: usize) {
    let element = |value: i64| T::from(value).expect("a small integer");
    let matrix = |f: fn(usize, usize) -> i64| (0..n * n).map(|i| element(f(i / n, i % n))).collect::<Vec<T>>();
    let (first, second) = (matrix(a), matrix(b));
    let mut sums = vec![T::ZERO; n * n];
    let across = n as i64;
    for run in 0..=runs {
        let start = seconds();
        contract(
            &[n, n, n],
            &[Role::M, Role::N, Role::K],
            T::ONE,
            Strided::new(&first, 0, vec![across, 0, 1]),
            Strided::new(&second, 0, vec![0, 1, across]),
            StridedMut::new(&mut sums, 0, vec![across, 1, 0]),
        );
        let value = seconds() - start;
        if run > 0 {
            let [backend, grid, dtype] = ["leaf", &Vectors::in_use().to_string(), dtype].map(String::from);
            let case = Case { backend, grid, dtype, size: n.to_string() };
            println!("{}", Record { quantity: "core".into(), case, contestant: "polyshard".into(), value });
        }
    }
    let of_terms: i64 = (0..n).map(|k| a(1, k) * b(k, 0)).sum();
    assert_eq!(sums[n], element(of_terms * (runs as i64 + 1)), "the product is wrong");
}

fn seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

//! Products whose sizes decide which GEMM runs, on small integers, so that sums are exact.

use super::at;
use crate::panel::{MatrixProduct, Panel, PanelMut};
use crate::{Element, Strided, StridedMut, ViewMut};
use crate::{Role, Vectors, contract, gemm};
use proptest::prelude::*;

/// The offsets and strides of a matrix of these extents: row-major, transposed, and with its rows from last to first.
fn layouts([rows, columns]: [usize; 2]) -> [(i64, [i64; 2]); 3] {
    let [rows, columns] = [rows as i64, columns as i64];
    [(0, [columns, 1]), (0, [1, rows]), ((rows - 1) * columns, [-columns, 1])]
}

/// The matrix of this layout whose element is the product of both functions.
fn matrix<T: Element>(
    [rows, columns]: [usize; 2],
    (offset, strides): (i64, [i64; 2]),
    f: impl Fn(i64) -> i64,
    g: impl Fn(i64) -> i64,
) -> Vec<T> {
    let mut data = vec![T::ZERO; rows * columns];
    for i in 0..rows as i64 {
        for j in 0..columns as i64 {
            data[at(&[i, j], offset, &strides)] = T::from(f(i) * g(j)).expect("a small integer");
        }
    }
    data
}

fn product_is_its_sums<T: Element>([m, n, k]: [usize; 3]) {
    // Both operands have rank one, so one sum gives all elements.
    let (of_row, of_term, of_column) = (|i| i % 5 - 2, |l| l * 7 % 11 - 4, |j| j % 3 + 1);
    let sum: i64 = (0..k as i64).map(|l| of_term(l) * of_term(l)).sum();
    for (which, a_layout) in layouts([m, k]).into_iter().enumerate() {
        let b_layout = layouts([k, n])[(which + 1) % 3];
        let a = matrix::<T>([m, k], a_layout, of_row, of_term);
        let b = matrix::<T>([k, n], b_layout, of_term, of_column);
        for c_layout in layouts([m, n]) {
            let ((a_offset, [a_row, a_term]), (b_offset, [b_term, b_column])) = (a_layout, b_layout);
            let (c_offset, [row, column]) = c_layout;
            let a = || Strided::new(&a, a_offset, vec![a_row, 0, a_term]);
            let b = || Strided::new(&b, b_offset, vec![0, b_column, b_term]);
            let (counts, roles) = ([m, n, k], [Role::M, Role::N, Role::K]);
            let what = format!("{m} x {n} x {k}: {a_layout:?}, {b_layout:?}, {c_layout:?}");

            let mut added = matrix::<T>([m, n], c_layout, of_row, of_column);
            let three = T::from(3).expect("a small integer");
            contract(&counts, &roles, three, a(), b(), StridedMut::new(&mut added, c_offset, vec![row, column, 0]));
            assert!(added == matrix::<T>([m, n], c_layout, |i| (1 + 3 * sum) * of_row(i), of_column), "{what}, added");

            // Memory that was never written is not read. Such tiles are dense.
            if c_offset == 0 {
                let mut written = vec![T::ONE.divide(T::ZERO); m * n];
                let c = ViewMut::new(&mut written, vec![0, 0], vec![row, column]).unset(T::ZERO);
                contract(&counts, &roles, T::ONE, a(), b(), c.strided(&[0, 0], &[&[1, 0, 0], &[0, 1, 0]]));
                assert!(written == matrix::<T>([m, n], c_layout, |i| sum * of_row(i), of_column), "{what}, written");
            }
        }
    }
}

#[test]
fn products_are_their_sums_whatever_their_size() {
    for sizes in [[513, 258, 129], [257, 514, 128], [9, 515, 513], [514, 12, 512]] {
        product_is_its_sums::<f64>(sizes);
    }
    product_is_its_sums::<f32>([512, 256, 130]);
    product_is_its_sums::<f32>([8, 520, 512]);
}

/// The product of the first rows and columns of two matrices, of thirds: each order of summation is rounded differently.
fn of_the_first<T: Element>([m, n]: [usize; 2], terms: usize, [a, b]: [[i64; 2]; 2]) -> Vec<T> {
    let value = |i: usize| T::from((i * 7919 % 1009) as i64).expect("a number").divide(T::from(3).expect("3"));
    let len = |[outer, inner]: [usize; 2], strides: [i64; 2]| {
        1 + (outer - 1) * strides[0] as usize + (inner - 1) * strides[1] as usize
    };
    let [first, second] = [len([m, terms], a), len([terms, n], b)].map(|len| (0..len).map(value).collect::<Vec<T>>());
    let mut c = vec![T::ZERO; m * n];
    contract(
        &[m, n, terms],
        &[Role::M, Role::N, Role::K],
        T::ONE,
        Strided::new(&first, 0, vec![a[0], 0, a[1]]),
        Strided::new(&second, 0, vec![0, b[1], b[0]]),
        StridedMut::new(&mut c, 0, vec![n as i64, 1, 0]),
    );
    c
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Products that are reported to take their terms in the same order have the same bits, however many rows and columns they have.
    #[test]
    fn sums_that_are_alike_have_the_same_bits(
        small in prop::array::uniform2(prop_oneof![1usize..6, 6usize..70]),
        large in prop::array::uniform2(prop_oneof![1usize..70, 60usize..600]),
        terms in prop_oneof![1usize..5, 5usize..600, 500usize..520],
        turned in prop::array::uniform2(any::<bool>()),
    ) {
        let sizes = [0, 1].map(|of| small[of].max(large[of]));
        prop_assume!(gemm::sums_alike([small, sizes], terms));
        // The strides of rows and columns are the same in both, and one crate multiplies both.
        let strides = [if turned[0] { [1, 600] } else { [600, 1] }, if turned[1] { [1, 600] } else { [600, 1] }];
        let [packs, as_well] = [small, sizes]
            .map(|[m, n]| gemm::prefers_blocks([m, n, terms], strides[0], strides[1], [n as i64, 1]));
        prop_assume!(packs == as_well);
        let [few, all] = [small, sizes].map(|sizes| of_the_first::<f64>(sizes, terms, strides));
        for row in 0..small[0] {
            let [of_few, of_all] = [&few[row * small[1]..][..small[1]], &all[row * sizes[1]..][..small[1]]];
            let bits = |row: &[f64]| row.iter().map(|element| element.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(of_few), bits(of_all), "row {} of {:?} and {:?}, {} terms", row, small, sizes, terms);
        }
    }
}

/// The blocked product of the first rows and columns of two matrices of thirds of both signs, in these layouts, added to the held values.
fn in_blocks<T: Element>([m, n, k]: [usize; 3], all: [usize; 2], by: [(i64, [i64; 2]); 2], held: Option<T>) -> Vec<T> {
    let value = |i: usize| T::from((i * 7919 % 1009) as i64 - 500).expect("a number").divide(T::from(3).expect("3"));
    let [first, second] = [all[0] * k, k * all[1]].map(|len| (0..len).map(value).collect::<Vec<T>>());
    let mut c = vec![held.unwrap_or(T::ONE.divide(T::ZERO)); m * n];
    let panel = |data, (offset, strides)| Panel { data, offset, strides };
    let into = PanelMut { data: &mut c[..], offset: 0, strides: [n as i64, 1] };
    let [a, b] = [panel(&first, by[0]), panel(&second, by[1])];
    let (sizes, alpha) = ([m, n, k], T::from(3).expect("3"));
    gemm::multiply(MatrixProduct { sizes, alpha, a, b, c: into, adds: held.is_some() }, true);
    c
}

fn blocked_products_are_alike<T: Element>(
    few: [usize; 2],
    all: [usize; 2],
    k: usize,
    by: [usize; 2],
) -> Result<(), TestCaseError> {
    let by = [layouts([all[0], k])[by[0]], layouts([k, all[1]])[by[1]]];
    let [m, n] = all;
    let whole = in_blocks([m, n, k], all, by, Some(T::ZERO));
    let value = |i: i64| T::from(i * 7919 % 1009 - 500).expect("a number").divide(T::from(3).expect("3"));
    // The last rows and columns are at the end of blocks.
    for (i, j) in [(0, 0), (m - 1, n - 1), (few[0] - 1, n - 1), (m - 1, few[1] - 1)] {
        let term = |l: usize| {
            let [a, b] = [(by[0], i, l), (by[1], l, j)].map(|((offset, [down, right]), row, column)| {
                value(offset + row as i64 * down + column as i64 * right).to_f64().expect("a float")
            });
            3.0 * a * b
        };
        let sum: f64 = (0..k).map(term).sum();
        let size: f64 = (0..k).map(|l| term(l).abs()).sum();
        let found = whole[i * n + j].to_f64().expect("a float");
        let rounding = if T::DTYPE == crate::DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        prop_assert!((found - sum).abs() <= rounding * (k + 2) as f64 * size, "{i}, {j}: {found} and not {sum}");
    }
    let bits = |rows: &[T]| bytemuck::cast_slice::<T, u8>(rows).to_vec();
    // The held values are not read.
    prop_assert_eq!(bits(&whole), bits(&in_blocks([m, n, k], all, by, None)));
    let part = in_blocks([few[0], few[1], k], all, by, None);
    for row in 0..few[0] {
        prop_assert_eq!(bits(&part[row * few[1]..][..few[1]]), bits(&whole[row * n..][..few[1]]), "row {}", row);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Each element of a blocked product is the sum of its terms, and has the same bits for any other rows and columns.
    #[test]
    fn blocked_products_are_their_sums_with_the_same_bits(
        few in prop::array::uniform2(1usize..30),
        more in prop::array::uniform2(prop_oneof![0usize..40, 200usize..300]),
        k in prop_oneof![1usize..20, 250usize..270, 380usize..400, 700usize..800],
        by in prop::array::uniform2(0usize..3),
    ) {
        prop_assume!(Vectors::in_use() != Vectors::Native);
        let all = [few[0] + more[0], few[1] + more[1]];
        blocked_products_are_alike::<f64>(few, all, k, by)?;
        blocked_products_are_alike::<f32>(few, all, k, by)?;
    }
}

#[test]
fn blocks_are_put_together() {
    if Vectors::in_use() == Vectors::Native {
        return;
    }
    // More columns than are packed together, more rows than in a block, and columns of the result that are not contiguous.
    let [m, n, k] = [1030, 2060, 300];
    let (rows, columns) = (|i: i64| i % 5 - 2, |j: i64| j % 3 + 1);
    let [a, b] = [(0, [k as i64, 1]), (0, [1, k as i64])];
    let [first, second] =
        [matrix::<f32>([m, k], a, rows, |l| l % 7 - 3), matrix::<f32>([k, n], b, |l| l % 5 - 1, columns)];
    let sum: i64 = (0..k as i64).map(|l| (l % 7 - 3) * (l % 5 - 1)).sum();
    for c in [(0, [n as i64, 1]), (0, [1, m as i64]), ((n - 1) as i64, [n as i64, -1])] {
        let mut data = matrix::<f32>([m, n], c, rows, columns);
        let [a, b] = [(&first, a), (&second, b)].map(|(data, (offset, strides))| Panel { data, offset, strides });
        let into = PanelMut { data: &mut data, offset: c.0, strides: c.1 };
        gemm::multiply(MatrixProduct { sizes: [m, n, k], alpha: 2.0, a, b, c: into, adds: true }, true);
        assert!(data == matrix::<f32>([m, n], c, |i| (1 + 2 * sum) * rows(i), columns), "{c:?}");
    }
}

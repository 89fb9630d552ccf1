//! Products of too many tensors for one loop nest: contracted in pairs, and checked the same way.

use super::Files;
use polyshard::layout::DType;
use polyshard_testing::start::Start;
use polyshard_testing::test_folder;

/// Any letter can be an index.
fn letter(index: usize) -> char {
    char::from_u32(0x4e00 + index as u32).expect("a letter")
}

const FAST: [&str; 6] = ["--ranks", "2", "--machine", "a100", "--at-most", "1"];

#[test]
fn chains_of_many_matrices_are_computed_and_checked_in_pairs() {
    let files = Files::new(test_folder!("einsum_chains"), DType::F64, &[&[2, 2]]);
    // With one loop per index, there would be 2^25 points, and more than can be counted.
    for count in [24, 80] {
        let terms: Vec<String> = (0..count).map(|nth| [letter(nth), letter(nth + 1)].iter().collect()).collect();
        let text = format!("{}->{}{}", terms.join(","), letter(0), letter(count));
        let out = files.path("out.npy");
        let said =
            files.said(Start::Plain, &text, &vec!["A.npy"; count], &[&FAST[..], &["--check", "--out", &out]].concat());
        assert!(said.contains("checked  2 of 2 rows against a sequential computation"), "{said}");
        let (matrix, found) = (files.read("A.npy"), files.read("out.npy"));
        // The product, and the product of absolute values.
        let (mut power, mut size) = (matrix.clone(), matrix.mapv(f64::abs));
        for _ in 1..count {
            let before = [power.clone(), size.clone()];
            for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                power[[i, j]] = (0..2).map(|k| before[0][[i, k]] * matrix[[k, j]]).sum();
                size[[i, j]] = (0..2).map(|k| before[1][[i, k]] * matrix[[k, j]].abs()).sum();
            }
        }
        for ((found, power), size) in found.iter().zip(&power).zip(&size) {
            assert!((found - power).abs() <= 1e-12 * size, "{count} matrices: {found}, not {power}");
        }
    }
}

#[test]
fn lattices_are_contracted_and_checked_in_pairs() {
    const SIDE: usize = 5;
    // Tensors at corners, on sides and inside, sharing an index of extent 3 with each neighbour.
    let files = Files::new(test_folder!("einsum_lattice"), DType::F64, &[&[3, 3], &[3, 3, 3], &[3, 3, 3, 3]]);
    let mut terms = vec![String::new(); SIDE * SIDE];
    let mut next = 0;
    for at in 0..SIDE * SIDE {
        let neighbours = [(at % SIDE + 1 < SIDE, at + 1), (at / SIDE + 1 < SIDE, at + SIDE)];
        for (_, other) in neighbours.into_iter().filter(|(is_inside, _)| *is_inside) {
            terms[at].push(letter(next));
            terms[other].push(letter(next));
            next += 1;
        }
    }
    let name = |term: &String| ["A.npy", "B.npy", "C.npy"][term.chars().count() - 2];
    let names: Vec<&str> = terms.iter().map(name).collect();
    let out = files.path("out.npy");
    let text = format!("{}->", terms.join(","));
    let said = files.said(Start::Plain, &text, &names, &[&FAST[..], &["--check", "--out", &out]].concat());
    assert!(said.contains("checked  1 of 1 row against a sequential computation"), "{said}");
    // `--top` needs one kernel with all loops, whose points cannot be counted; the message stays short.
    let refused =
        files.run(Start::Plain, &text, &names, &["--dry-run", "--machine", "a100", "--ranks", "2", "--top", "1"]);
    assert!(!refused.success, "{}", refused.stdout);
    let said = "the extents of the index variables of one nest overflow: 3 * 3 * 3 * 3 * .. * 3 does not fit 63 bits";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
}

#[test]
fn rows_of_products_of_three_are_checked_in_pairs() {
    let shapes: [&[usize]; 3] = [&[300, 300], &[300, 300], &[300, 300]];
    let files = Files::new(test_folder!("einsum_rows"), DType::F32, &shapes);
    // Without pairwise contraction, each of eight rows would take 300^3 points.
    let out = files.path("out.npy");
    let names = ["A.npy", "B.npy", "C.npy"];
    let said = files.said(Start::Plain, "ij,jk,kl->il", &names, &[&FAST[..], &["--check", "--out", &out]].concat());
    assert!(said.contains("checked  8 of 300 rows against a sequential computation"), "{said}");
}

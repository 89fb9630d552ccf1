//! Which products are chosen, and that scratch is bounded.

use crate::schedule::Schedule;
use expect_test::{Expect, expect};
use polyshard_layout::Name;
use polyshard_program::{Access, Affine, Assign, DType, KernelSpec, LeafOp, Program, Value};

/// A sum of products in einsum's notation, `ijk,jr,kr->ir`, with all of it in one leaf.
fn einsum(formula: &str, extents: &[(char, i128)]) -> Program {
    let (inputs, output) = formula.split_once("->").expect("a formula has an arrow");
    let extent = |c: char| extents.iter().find(|extent| extent.0 == c).expect("an extent per index").1;
    let shape = |indices: &str| indices.chars().map(extent).collect::<Vec<_>>();
    let access = |name: Name, indices: &str| {
        let index = indices.chars().map(|c| Affine::new([(Name::new(&c.to_string()), 1)], 0)).collect();
        Access::new(name, index)
    };
    let named: Vec<(Name, &str)> = inputs
        .split(',')
        .zip(["A", "B", "C", "D", "E", "F"])
        .map(|(indices, name)| (Name::new(name), indices))
        .collect();
    let factors = named.iter().map(|&(name, indices)| Value::Access(access(name, indices)));
    let value = factors.reduce(|a, b| Value::Mul(Box::new(a), Box::new(b))).expect("a factor");
    let spec = KernelSpec {
        name: Name::new("einsum"),
        dtype: DType::F32,
        inputs: named.iter().map(|&(name, indices)| (name, shape(indices))).collect(),
        output: (Name::new("Y"), shape(output)),
        ranges: vec![],
        scalars: vec![],
        moduli: vec![],
        target: access(Name::new("Y"), output),
        assign: Assign::Add,
        value,
    };
    let loops: Vec<Name> = spec.clone().check().expect("a kernel").vars().iter().map(|var| var.name).collect();
    Schedule::from_spec(spec).tensorize(loops).lower().expect("a legal schedule")
}

fn check(formula: &str, extents: &[(char, i128)], expected: &Expect) {
    let program = einsum(formula, extents);
    let scratch = program.nest().leaf.op.scratch() * 4;
    assert!(scratch <= super::SCRATCH_BYTES, "{scratch} bytes of scratch");
    assert_eq!(program.report().tile_bytes, scratch as u64, "nothing else is in tiles on one rank");
    let text = program.to_string();
    // Without the indentation of the block of each rank.
    let lines = text.lines().skip_while(|line| !line.contains("    //"));
    let leaf = lines.map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line).trim_end()));
    expected.assert_eq(&leaf.collect::<String>());
}

#[test]
fn a_tensor_times_two_matrices_is_a_product_in_blocks() {
    let cube = [('i', 512), ('j', 512), ('k', 512), ('r', 64)];
    check(
        "ijk,jr,kr->ir",
        &cube,
        &expect![[r#"
                Y[i, r] += A[i, j, k] * B[j, r] * C[k, r]    // products of two at a time
                    over i: 512 from 0; r: 64 from 0; j: 512 from 0; k: 512 from 0
                    for blocks of 8 of j:
                        T0[j, k, r] = B[j, r] * C[k, r]    // nest
                        Y[i, r] += A[i, j, k] * T0[j, k, r]    // product (i=M, r=N, j=K, k=K)
        "#]],
    );
    check(
        "ijk,ir,kr->jr",
        &cube,
        &expect![[r#"
                Y[j, r] += A[i, j, k] * B[i, r] * C[k, r]    // products of two at a time
                    over j: 512 from 0; r: 64 from 0; i: 512 from 0; k: 512 from 0
                    for blocks of 8 of i:
                        T0[i, k, r] = B[i, r] * C[k, r]    // nest
                        Y[j, r] += A[i, j, k] * T0[i, k, r]    // product (j=M, r=N, i=K, k=K)
        "#]],
    );
    check(
        "ijk,ir,jr->kr",
        &cube,
        &expect![[r#"
                Y[k, r] += A[i, j, k] * B[i, r] * C[j, r]    // products of two at a time
                    over k: 512 from 0; r: 64 from 0; i: 512 from 0; j: 512 from 0
                    for blocks of 8 of i:
                        T0[i, j, r] = B[i, r] * C[j, r]    // nest
                        Y[k, r] += A[i, j, k] * T0[i, j, r]    // product (k=M, r=N, i=K, j=K)
        "#]],
    );
}

/// With few rows, the tensor could be multiplied by either matrix first, but one of the two runs across its rows.
#[test]
fn operands_are_multiplied_along_their_rows() {
    check(
        "ijk,jr,kr->ir",
        &[('i', 16), ('j', 256), ('k', 256), ('r', 32)],
        &expect![[r#"
            Y[i, r] += A[i, j, k] * B[j, r] * C[k, r]    // products of two at a time
                over i: 16 from 0; r: 32 from 0; j: 256 from 0; k: 256 from 0
                T0[i, j, r] = A[i, j, k] * C[k, r]    // product (i=M, r=N, j=M, k=K)
                Y[i, r] += B[j, r] * T0[i, j, r]    // nest
        "#]],
    );
}

#[test]
fn a_tensor_in_another_basis_is_a_chain_of_products() {
    let cube = [('i', 256), ('j', 256), ('k', 256), ('a', 32), ('b', 32), ('c', 32)];
    check(
        "ijk,ia,jb,kc->abc",
        &cube,
        &expect![[r#"
            Y[a, b, c] += A[i, j, k] * B[i, a] * C[j, b] * D[k, c]    // products of two at a time
                over a: 32 from 0; b: 32 from 0; c: 32 from 0; i: 256 from 0; j: 256 from 0; k: 256 from 0
                for blocks of 16 of i:
                    T0[i, b, k] = A[i, j, k] * C[j, b]    // product (b=N, i=M, j=K, k=M)
                    T1[i, b, c] = D[k, c] * T0[i, b, k]    // product (b=N, c=M, i=N, k=K)
                    Y[a, b, c] += B[i, a] * T1[i, b, c]    // product (a=M, b=N, c=N, i=K)
        "#]],
    );
}

#[test]
fn a_chain_of_matrices_is_multiplied_in_the_cheapest_order() {
    check(
        "ij,jk,kl->il",
        &[('i', 1000), ('j', 10), ('k', 1000), ('l', 10)],
        &expect![[r#"
                Y[i, l] += A[i, j] * B[j, k] * C[k, l]    // products of two at a time
                    over i: 1000 from 0; l: 10 from 0; j: 10 from 0; k: 1000 from 0
                    T0[j, l] = B[j, k] * C[k, l]    // product (l=N, j=M, k=K)
                    Y[i, l] += A[i, j] * T0[j, l]    // product (i=M, l=N, j=K)
        "#]],
    );
    check(
        "bij,bjk,bk->bi",
        &[('b', 8), ('i', 64), ('j', 64), ('k', 64)],
        &expect![[r#"
                Y[b, i] += A[b, i, j] * B[b, j, k] * C[b, k]    // products of two at a time
                    over b: 8 from 0; i: 64 from 0; j: 64 from 0; k: 64 from 0
                    T0[b, j] = B[b, j, k] * C[b, k]    // nest
                    Y[b, i] += A[b, i, j] * T0[b, j]    // nest
        "#]],
    );
}

#[test]
fn what_no_product_makes_faster_is_a_nest() {
    for formula in ["ij,ij,ij->ij", "ij,i,j->ij", "i,i,i->"] {
        let program = einsum(formula, &[('i', 100), ('j', 100)]);
        assert_eq!(program.nest().leaf.op, LeafOp::Nest, "{formula}");
    }
}

#[test]
fn six_tensors_are_planned_in_a_moment() {
    let extents: Vec<(char, i128)> = "abcdefgh".chars().map(|c| (c, 24)).collect();
    let program = einsum("ab,bc,cd,de,ef,fg->ag", &extents);
    assert!(matches!(&program.nest().leaf.op, LeafOp::Products { steps, .. } if steps.len() == 5), "{program}");
}

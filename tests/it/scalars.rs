//! Scalars are arguments of a run: a program is lowered once and runs with any values of them.

use polyshard::prelude::*;

fn axpy() -> Program {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 2)]);
    let (alpha, beta) = (2.0, 10.0);
    let axpy = kernel! {
        fn axpy(X: [f64; 5], Y: [f64; 5]) -> Z: [f64; 5] { Z[i] = alpha * X[i] + beta * Y[i] }
    };
    axpy.distribute([i], [io], [ii], &mesh).lower().expect("a legal schedule")
}

/// Runs `axpy` on X = 0, 1, .. and Y = 1, 1, .. with these scalars; returns the element at 3.
fn run(scalars: &[(&str, f64)]) -> Result<f64, String> {
    let program = axpy();
    let found = polyshard::spmd(2, |world| {
        let x = DistArray::from_fn(world, program.sharding("X"), |i| i[0] as f64)?;
        let y = DistArray::filled(world, program.sharding("Y"), 1.0)?;
        let z = program.run_with(world, &[&x, &y], scalars)?;
        let mut into = DistArray::filled(world, program.sharding("Z"), 7.0)?;
        let mut prepared = program.prepare(world)?;
        prepared.set_scalars(scalars)?;
        prepared.run_into(&[&x, &y], &mut into)?;
        assert_eq!(z.block(), into.block());
        Ok(z.get(&[3]))
    });
    found.map(|found| found.into_iter().flatten().next().expect("a rank has it")).map_err(|error| error.to_string())
}

#[test]
fn scalars_that_are_given_replace_those_that_were_captured() {
    assert_eq!(run(&[]), Ok(16.0));
    assert_eq!(run(&[("alpha", 0.5)]), Ok(11.5));
    assert_eq!(run(&[("beta", -1.0), ("alpha", 1.0)]), Ok(2.0));
}

#[test]
fn a_product_has_another_factor_in_each_run() {
    vars!(m, n, k, mo, mi);
    let mesh = Mesh::new([("x", 2)]);
    let alpha = 1.0f32;
    let matmul = kernel! {
        fn matmul(A: [f32; 4, 4], B: [f32; 4, 4]) -> C: [f32; 4, 4] { C[m, n] += alpha * A[m, k] * B[k, n] }
    };
    let program = matmul.distribute([m], [mo], [mi], &mesh).tensorize([mi, n, k]).lower().expect("a legal schedule");
    assert_eq!(program.nest().leaf.op.kind().to_string(), "contraction");
    let found = polyshard::spmd(2, |world| {
        let a = DistArray::filled(world, program.sharding("A"), 1.0f32)?;
        let runs = [0.5, 3.0].map(|alpha| program.run_with(world, &[&a, &a], &[("alpha", alpha)]));
        let [half, triple] = runs;
        Ok((half?.get(&[0, 1]), triple?.get(&[0, 1])))
    });
    assert_eq!(found.expect("the program runs")[0], (Some(2.0), Some(12.0)));
}

#[test]
fn scalars_that_do_not_exist_are_refused_by_name() {
    let refused = run(&[("gamma", 1.0)]).expect_err("there is no gamma");
    assert!(refused.contains("no scalar `gamma`; the scalars of `axpy` are alpha, beta"), "{refused}");
    let refused = run(&[("alpha", 1.0), ("alpha", 2.0)]).expect_err("alpha twice");
    assert!(refused.contains("the scalar `alpha` is given twice"), "{refused}");
    let program = kernel! { fn copy(X: [f64; 5]) -> Z: [f64; 5] { Z[i] = X[i] } }.lower().expect("a legal schedule");
    let refused = polyshard::spmd(1, |world| {
        let x = DistArray::filled(world, program.sharding("X"), 1.0)?;
        Ok(program.run_with(world, &[&x], &[("alpha", 1.0)])?)
    });
    let refused = refused.expect_err("there is no scalar").to_string();
    assert!(refused.contains("no scalar `alpha`; `copy` captures none"), "{refused}");
}

#[test]
fn scalars_that_differ_by_rank_are_refused_with_the_values_of_the_ranks() {
    let program = axpy();
    let run = |scalars: fn(usize) -> Vec<(&'static str, f64)>| {
        let said = polyshard::spmd(2, |world| {
            let x = DistArray::filled(world, program.sharding("X"), 1.0)?;
            let refused = program.run_with(world, &[&x, &x], &scalars(world.rank())).err();
            Ok(refused.map(|error| error.to_string()))
        });
        said.expect("all ranks go on")
    };
    let check = |scalars: fn(usize) -> Vec<(&'static str, f64)>, message: &str| {
        for said in run(scalars) {
            let said = said.expect("it should be refused");
            assert!(said.starts_with(&format!("{message}\n  --> {}:", file!())), "{said}");
        }
    };
    check(
        |rank| vec![("alpha", 0.5), ("beta", rank as f64)],
        "`beta` differs between ranks: rank 0 has 0.0, rank 1 has 1.0; give all ranks the same value",
    );
    check(
        |rank| vec![[("alpha", 1.0), ("beta", 1.0)][rank]],
        "`alpha` differs between ranks: rank 0 has 1.0, rank 1 has 2.0; give all ranks the same value",
    );
    assert_eq!(
        run(|rank| [vec![("alpha", 1.0), ("beta", 3.0)], vec![("beta", 3.0), ("alpha", 1.0)]][rank].clone()),
        [None, None]
    );
    // The cause of an error can be separated from its place.
    let cause = polyshard::spmd(2, |world| {
        let x = DistArray::filled(world, program.sharding("X"), 1.0)?;
        let error = program.run_with(world, &[&x, &x], &[("alpha", world.rank() as f64)]).expect_err("they differ");
        Ok(
            matches!(error.cause(), polyshard::runtime::Error::Run(polyshard::runtime::RunError::ScalarsDiffer { name, .. }) if *name == "alpha"),
        )
    });
    assert_eq!(cause.expect("all ranks go on"), [true, true]);
}

#[test]
fn a_divisor_that_becomes_0_is_refused() {
    let by = 2;
    let kernel = kernel! { fn halves(X: [i64; 5]) -> Z: [i64; 5] { Z[i] = X[i] / by } };
    let program = kernel.lower().expect("a legal schedule");
    let run = |by: i64| {
        polyshard::spmd(1, |world| {
            let x = DistArray::from_fn(world, program.sharding("X"), |i| i[0] as i64)?;
            Ok(program.run_with(world, &[&x], &[("by", by)])?.block().to_vec())
        })
    };
    assert_eq!(run(3).expect("3 divides")[0], [0, 0, 0, 1, 1]);
    let refused = run(0).expect_err("0 does not").to_string();
    assert!(refused.contains("cannot divide by `by`: it is 0"), "{refused}");
}

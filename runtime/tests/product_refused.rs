//! What cannot be run is refused on every rank, with what is wrong and what to do.

use polyshard_planner::product::{Element, Link, Product, ProductPlan, Roofline, Sharded, Wiring, reshard};
use polyshard_runtime::layout::{Mesh, Placement, Sharding};
use polyshard_runtime::{DistArray, Error, Partial, Resharding, Result, ShardedProduct, World, spmd};

const SIZES: [(&str, usize); 3] = [("I", 4), ("J", 6), ("K", 2)];

fn mesh() -> Mesh {
    Mesh::new([("X", 2)])
}

fn machine() -> Roofline {
    let link = Link { wiring: Wiring::Switch, bandwidth: 1e9, latency: 1e-6 };
    Roofline { flops: 1e10, memory_bandwidth: 1e10, memory_bytes: 1 << 30, links: vec![] }.with_link("X", link)
}

fn plan(text: &str, element: Element) -> ProductPlan {
    let product = Product::new(text, &mesh(), &SIZES, element).expect("a product");
    product.plan(&machine()).expect("a plan")
}

/// Every rank of two says so; what differs by rank is not compared.
#[track_caller]
fn check<T>(f: impl Fn(&World) -> Result<T> + Sync, expected: &str) {
    let said =
        |world: &World| -> Result<String> { Ok(f(world).map(|_| ()).expect_err("it should be refused").to_string()) };
    let said = spmd(2, said).expect("no rank fails otherwise");
    assert_eq!(said, [expected; 2]);
}

#[test]
fn elements_that_no_leaf_multiplies_are_refused_with_those_that_one_does() {
    let text = "A[I_X, J] * B[J, K] -> C[I_X, K]";
    for (element, name) in [(Element::Bf16, "bf16"), (Element::Int8, "int8")] {
        check(
            |world| ShardedProduct::<f32>::new(world, &plan(text, element)),
            &format!(
                "the plan is for {name}, which no leaf multiplies; plan the product for f32, which runs on f32 and i32, or \
                 for f64, which runs on f64 and i64"
            ),
        );
    }
    check(
        |world| ShardedProduct::<i64>::new(world, &plan(text, Element::F32)),
        "the plan is for f32, whose bytes it counts, but runs on i64; plan the product for f64",
    );
}

#[test]
fn arrays_that_lie_otherwise_than_planned_are_refused() {
    let plan = plan("A[I_X, J] * B[J, K] -> C[I_X, K]", Element::F64);
    let [x] = mesh().axes();
    let with_left = |sharding: Sharding| {
        let plan = &plan;
        move |world: &World| {
            let multiply = ShardedProduct::<f64>::new(world, plan)?;
            let a = DistArray::filled(world, &sharding, 1.0)?;
            let b = DistArray::filled(world, multiply.right(), 1.0)?;
            multiply.run(world, &a, &b)
        }
    };
    let by = |shape: &[usize], placements: &[Placement]| Sharding::new(&mesh(), shape, placements).expect("a sharding");
    check(
        with_left(by(&[4, 6], &[Placement::block(1, x)])),
        "`A` is sharded [1 @ X], but the plan takes `A[I_X, J]`, sharded [0 @ X]; redistribute it, or plan the product for \
         an array that lies so",
    );
    check(
        with_left(by(&[6, 6], &[Placement::block(0, x)])),
        "`A` has shape [6, 6], but the plan takes `A[I_X, J]` of shape [4, 6]; plan the product for these sizes",
    );
    let other = Mesh::new([("Y", 2)]);
    check(
        with_left(Sharding::replicated(&other, &[4, 6])),
        "`A` lies on the mesh (Y: 2), but the product is planned on (X: 2); make the array on that mesh",
    );
    // The same blocks, written otherwise, are the same.
    let dealt = by(&[4, 6], &[Placement::cyclic(0, x, 2)]);
    spmd(2, with_left(dealt)).expect("two rows for each rank");

    check(
        |world| {
            let multiply = ShardedProduct::<f64>::new(world, &plan)?;
            let a = DistArray::filled(world, multiply.left(), 1.0)?;
            let b = DistArray::filled(world, multiply.right(), 1.0)?;
            let mut c = DistArray::filled(world, &Sharding::replicated(&mesh(), &[4, 2]), 0.0)?;
            multiply.run_into(world, &a, &b, &mut c)
        },
        "`C` is sharded replicated, but the plan makes `C[I_X, K]`, sharded [0 @ X]; redistribute it, or plan the product for an \
         array that lies so",
    );
}

#[test]
fn open_sums_are_no_array_until_they_are_closed() {
    let plan = plan("A[I, J_X] * B[J_X, K] -> C[I, K] {U_X}", Element::F64);
    let made = |world: &World| {
        let multiply = ShardedProduct::<f64>::new(world, &plan)?;
        let a = DistArray::filled(world, multiply.left(), 1.0)?;
        let b = DistArray::filled(world, multiply.right(), 1.0)?;
        Ok::<_, Error>((multiply, a, b))
    };
    let open = "the plan leaves sums open, in `C[I, K] {U_X}`; `run_partial` returns the terms, and `reduce` sums them";
    check(|world| made(world).and_then(|(multiply, a, b)| multiply.run(world, &a, &b)), open);
    check(|world| made(world).and_then(|(multiply, ..)| multiply.output(world)), open);
    check(
        |world| made(world).and_then(|(multiply, a, b)| multiply.run_partial(world, &a, &b)?.into_array()),
        "sums along `X` are still open; `reduce` closes them",
    );
    check(
        |world| {
            let (multiply, a, b) = made(world)?;
            let mut whole = Partial::from(DistArray::filled(world, multiply.out(), 0.0)?);
            multiply.run_partial_into(world, &a, &b, &mut whole)
        },
        "`C` is unreduced along no axis, but the plan makes `C[I, K] {U_X}`, unreduced along `X`; give terms of these sums",
    );
}

#[test]
fn terms_are_of_axes_that_replicate() {
    let with = |axes: &'static [&'static str]| {
        move |world: &World| {
            let [x] = mesh().axes();
            let rows = Sharding::new(&mesh(), &[4], &[Placement::block(0, x)]).expect("a sharding");
            let axes: Vec<_> = axes.iter().map(|axis| (*axis).into()).collect();
            Partial::new(DistArray::filled(world, &rows, 1)?, &axes)
        }
    };
    check(
        with(&["X"]),
        "terms cannot be summed along `X`: it divides the array, which is sharded [0 @ X]; leave the axis out",
    );
    check(with(&["Z"]), "terms cannot be summed along `Z`: the mesh is (X: 2)");
    check(
        |world| {
            let whole = DistArray::filled(world, &Sharding::replicated(&mesh(), &[4]), 1)?;
            Partial::new(whole, &["X".into(), "X".into()])
        },
        "terms cannot be summed along `X`: it is given twice; once says it",
    );
}

#[test]
fn sizes_that_the_plan_does_not_cover_are_refused() {
    let plan = plan("A[I_X, J] * B[J, K] -> C[I_X, K]", Element::F64);
    let cut = |sizes: &'static [(&'static str, usize)]| {
        let plan = &plan;
        move |world: &World| ShardedProduct::<f64>::cut(world, plan.product(), plan.best(), sizes)
    };
    check(cut(&[("I", 5)]), "the size of `I` is 5, but the plan covers 4; plan the product for 5 or more");
    check(cut(&[("M", 5)]), "the size of `M` is of no dimension; the dimensions are `I`, `J`, `K`");
    check(cut(&[("J", 3), ("J", 4)]), "the size of `J` is given twice; give it once");
}

#[test]
fn sequences_of_other_products_are_refused() {
    let one = plan("A[I_X, J] * B[J, K] -> C[I_X, K]", Element::F64);
    let other = plan("A[I, J_X] * B[J_X, K] -> C[I, K]", Element::F64);
    check(
        |world| ShardedProduct::<f64>::with_sequence(world, one.product(), other.best()),
        "the sequence from `A[I, J_X]` and `B[J_X, K]` to `C[I, K]` is not one of the product `A[I_X, J] * B[J, K] -> C[I_X, \
         K]` over (X: 2); take one from its plan",
    );
}

#[test]
fn ranks_with_different_products_find_out_before_they_run_them() {
    let texts = ["A[I_X, J] * B[J, K] -> C[I_X, K]", "A[I, J_X] * B[J_X, K] -> C[I, K]"];
    let said = spmd(2, |world| {
        let plan = plan(texts[world.rank()], Element::F64);
        ShardedProduct::<f64>::new(world, &plan).map(|_| ())
    });
    assert_eq!(
        said.expect_err("they differ").to_string(),
        "rank 0: ranks disagree: rank 0 creates the product `A[I_X, J] * B[J, K] -> C[I_X, K]` over (X: 2), rank 1 creates \
         the product `A[I, J_X] * B[J_X, K] -> C[I, K]` over (X: 2); all ranks must create the same, in the same order"
    );
}

#[test]
fn a_world_of_another_size_is_refused_with_what_to_do() {
    let plan = plan("A[I_X, J] * B[J, K] -> C[I_X, K]", Element::F64);
    let said = spmd(3, |world| ShardedProduct::<f64>::new(world, &plan).map(|_| ()));
    assert_eq!(
        said.expect_err("three ranks").to_string(),
        "rank 0: the mesh (X: 2) has 2 ranks, but the program runs on 3: call `spmd(2, ..)`"
    );
}

#[test]
fn steps_that_do_not_follow_one_another_are_refused() {
    let parse = |text: &str| Sharded::parse(text, &mesh(), &SIZES).expect("an array");
    let steps = reshard(&parse("C[I, K] {U_X}"), &parse("C[I_X, K]"), Element::F64, &machine()).expect("a way");
    check(
        |world| Resharding::<f64>::new(world, &parse("C[I, K]"), &steps),
        "the step `ReduceScatter_X C[I, K] {U_X} -> C[I_X, K]` does not begin with `C[I, K]`; give the steps in order",
    );
}

//! Sequences: any kernels in sequence give the sequential result, whatever the shardings of their tensors.

use expect_test::expect;
use ndarray::{ArrayD, IxDyn};
use polyshard::layout::AxisExpr;
use polyshard::planner::{MemoryBound, Ops, PlanOptions, SequenceError};
use polyshard::prelude::*;
use polyshard::runtime::reference;
use polyshard::schedule::Clause;
use polyshard_testing::filled;
use proptest::prelude::*;

mod flow;
pub(crate) mod in_flight;
mod kept;
mod nests;
pub(crate) mod orders;
mod reused;
mod rounds;
mod versions;

/// C = A·B of these extents m, k and n, with tensors sharded over a mesh of two axes by these clauses.
fn product(mesh: &Mesh, [rows, inner, columns]: [usize; 3], clauses: [Vec<Clause>; 3]) -> Program {
    let matmul = kernel! {
        fn product(A: [i64; rows, inner], B: [i64; inner, columns]) -> C: [i64; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    vars!(m, n, k, mo, mi, no, ni);
    let [a, b, c] = clauses;
    let tiles = matmul.distribute([m, n], [mo, no], [mi, ni], mesh);
    tiles.shard("A", a).shard("B", b).shard("C", c).tensorize([mi, ni, k]).lower().expect("a legal schedule")
}

/// Listing 3 of N. Rink et al., "Memory-efficient array redistribution through portable collective communication",
/// arXiv 2112.01075: the first product leaves columns, the second wants rows.
fn listing_3(devices: usize, [rows, inner, hidden, columns]: [usize; 4]) -> Program {
    vars!(m, n, k, mo, mi, no, ni);
    let mesh = Mesh::new([("devs", devices)]);
    let [devs] = mesh.axes();
    let first = kernel! {
        fn first(X: [f64; rows, inner], W1: [f64; inner, hidden]) -> Y: [f64; rows, hidden] {
            Y[m, n] += X[m, k] * W1[k, n]
        }
    };
    let first = first.distribute([n], [no], [ni], &mesh).shard("W1", [n.at(devs)]).shard("Y", [n.at(devs)]);
    let second = kernel! {
        fn second(Y: [f64; rows, hidden], W2: [f64; hidden, columns]) -> Z: [f64; rows, columns] {
            Z[m, n] += Y[m, k] * W2[k, n]
        }
    };
    let second = second.distribute([m], [mo], [mi], &mesh).shard("Y", [m.at(devs)]).shard("Z", [m.at(devs)]);
    let first = first.tensorize([m, ni, k]).lower().expect("a legal schedule");
    let second = second.tensorize([mi, n, k]).lower().expect("a legal schedule");
    let chain = Sequence::new().stage(&first, ["X", "W1"], "Y").stage(&second, ["Y", "W2"], "Z");
    chain.build().expect("stages that fit")
}

/// An element determined by its array and index alone, small enough for sums of products to be exact.
fn element(array: usize, index: &[usize]) -> i64 {
    let number = index.iter().fold(array + 1, |number, i| number * 31 + i);
    (number * 2_654_435_761 % 19) as i64 - 9
}

fn whole(array: usize, shape: &[usize]) -> ArrayD<i64> {
    filled::whole(shape, |index| element(array, index))
}

fn inputs(world: &World, sequence: &Program) -> polyshard::runtime::Result<Vec<DistArray<i64>>> {
    filled::inputs(world, sequence, element)
}

#[test]
fn the_chain_of_listing_3_needs_one_all_to_all() {
    expect![[r#"
        program over (devs: 32), f64
            input         X[32, 1024]: replicated
            input         W1[1024, 2048]: [1 @ devs]
            input         W2[2048, 256]: replicated
         1  run           Y = first(X, W1), Y[m, n] += X[m, k] * W1[k, n]
         2  move          Y' = Y: [1 @ devs] to [0 @ devs], all_to_all(devs)
         3  run           Z = second(Y', W2), Z[m, n] += Y[m, k] * W2[k, n]
            output        Z[32, 256]: [0 @ devs]
        1. run Y = first(X, W1), Y[m, n] += X[m, k] * W1[k, n]
        X: local, once, outside all serial loops
            tile [32, 1024] of X[0..32, 0..1024]
            - each rank owns all it needs: local
        W1: local, once, outside all serial loops
            tile [1024, 64] of W1[0..1024, 64*devs .. +64]
            - each rank owns all it needs: local
        Y: local, once, outside all serial loops
            - each rank owns exactly what it computes, as one block: local
        lower bound
            at least 106496 bytes received by one of 32 ranks, by any algorithm that divides the work evenly, from one copy of each tensor
            - here at most 0 bytes
            - each element of X is on 32 ranks at the start, which need not fetch it
            - so with these shardings, at least 0 bytes
        2. move Y' = Y: [1 @ devs] to [0 @ devs], all_to_all(devs)
            exchange with the owners at any devs
            at most 15872 bytes received per rank
            - step of a plan: AllToAll of devs, in groups {0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ..}
            - rows are long: they are sent without packing, where the library can
        3. run Z = second(Y', W2), Z[m, n] += Y[m, k] * W2[k, n]
        Y: local, once, outside all serial loops
            tile [1, 2048] of Y[devs .. +1, 0..2048]
            - each rank owns all it needs: local
        W2: local, once, outside all serial loops
            tile [2048, 256] of W2[0..2048, 0..256]
            - each rank owns all it needs: local
        Z: local, once, outside all serial loops
            - each rank owns exactly what it computes, as one block: local
        lower bound
            at least 47104 bytes received by one of 32 ranks, by any algorithm that divides the work evenly, from one copy of each tensor
            - here at most 0 bytes
            - each element of W2 is on 32 ranks at the start, which need not fetch it
            - so with these shardings, at least 0 bytes
        proved
            - every instance once: the relation from the loops of each step to those that they replace is single-valued, injective and onto
            - flow: all that is read is of an input, or was written by an earlier statement
            - residency of W1: the rank that an element is read from owns it; what the leaf reads is in the tile; the tile is inside W1; each rank owns its tile
            - residency of X: what the leaf reads is in the tile; the tile is inside X; each rank owns its tile
            - residency of Y: the rank that an element is read from owns it; what the leaf reads is in the tile; the tile is inside Y; each rank owns its tile
            - residency of W2: what the leaf reads is in the tile; the tile is inside W2; each rank owns its tile
            - delivery of Y: what the leaf writes is in the tile; the tile is inside Y; each rank is the only owner of what it computes
            - delivery of Z: what the leaf writes is in the tile; the tile is inside Z; each rank is the only owner of what it computes
        bounds per rank
            - shards 5015552 bytes
            - tiles and staging 32768 bytes
            - packed copies of matrix products 5341184 bytes
            - received 15872 bytes
    "#]].assert_eq(&listing_3(32, [32, 1024, 2048, 256]).explain());
}

#[test]
fn blocks_that_do_not_divide_are_planned_for_and_cut_off() {
    let sequence = listing_3(4, [5, 3, 10, 2]);
    let [moved] = &sequence.moves().collect::<Vec<_>>()[..] else { panic!("{sequence}") };
    assert_eq!(moved.pattern(), Pattern::AllToAll { axes: vec!["devs".into()] }, "{sequence}");
}

#[test]
fn chains_of_any_size_are_exact_where_numbers_are() {
    for (devices, size) in
        [(1, [3, 4, 5, 6]), (4, [5, 3, 10, 2]), (3, [2, 7, 4, 9]), (2, [0, 3, 4, 5]), (3, [4, 0, 0, 2])]
    {
        let sequence = listing_3(devices, size);
        let (found, _) = filled::run(&sequence, |nth, index| element(nth, index) as f64);
        let [rows, inner, hidden, columns] = size;
        let product = |a: &ArrayD<f64>, b: &ArrayD<f64>| {
            let terms = a.shape()[1];
            ArrayD::from_shape_fn(IxDyn(&[a.shape()[0], b.shape()[1]]), |at| {
                (0..terms).map(|l| a[[at[0], l]] * b[[l, at[1]]]).sum::<f64>()
            })
        };
        let float = |nth, shape: &[usize]| whole(nth, shape).mapv(|x| x as f64);
        let y = product(&float(0, &[rows, inner]), &float(1, &[inner, hidden]));
        let z = product(&y, &float(2, &[hidden, columns]));
        assert_eq!(found, z, "{devices} devices, {size:?}");
    }
}

#[test]
fn a_value_is_redistributed_once_for_all_that_read_it_alike() {
    vars!(m, n, k);
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let square = |a: Vec<Clause>, b: Vec<Clause>| product(&mesh, [6; 3], [a, b, vec![m.at(x), n.at(y)]]);
    let rows = square(vec![m.at([x, y])], vec![k.at([x, y])]);
    let both = square(vec![m.at(x), k.at(y)], vec![k.at([x, y])]);
    let sequence = Sequence::new()
        .stage(&rows, ["A", "A"], "B")
        .stage(&rows, ["B", "A"], "C")
        .stage(&both, ["B", "B"], "D")
        .stage(&rows, ["D", "C"], "E")
        .keep("B")
        .keep("C")
        .keep("D")
        .build()
        .expect("stages that fit");
    let inserted: Vec<_> = sequence.moves().map(|moved| sequence.array(moved.source).name.as_str()).collect();
    assert_eq!(inserted, ["B", "D", "C"], "{}", sequence.explain());
    assert_eq!(sequence.inputs().count(), 1);
    assert_eq!(sequence.sharding("A").to_string(), "[0 @ [x, y]]");

    let a = whole(0, &[6, 6]);
    let times =
        |left: &ArrayD<i64>, right: &ArrayD<i64>| reference(rows.kernel(), &[left, right], None).expect("shapes fit");
    let b = times(&a, &a);
    let (c, d) = (times(&b, &a), times(&b, &b));
    let expected = [("B", b), ("C", c.clone()), ("D", d.clone()), ("E", times(&d, &c))];
    let found = polyshard::spmd(4, |world| {
        let arrays = inputs(world, &sequence)?;
        let mut prepared = sequence.prepare(world)?;
        let mut all = Vec::new();
        for _ in 0..2 {
            let outputs = prepared.run_all(&[&arrays[0]])?;
            all = outputs
                .iter()
                .map(|(name, array)| Ok((name.as_str(), array.gather(world)?)))
                .collect::<polyshard::Result<_>>()?;
            let named = prepared.run_named(&[&arrays[0]], ["E", "B"])?;
            assert_eq!(named.map(|array| array.block().to_vec()), [3, 0].map(|nth| outputs[nth].1.block().to_vec()));
        }
        Ok(all)
    });
    let found = found.expect("a run").swap_remove(0);
    assert_eq!(found, expected.map(|(name, array)| (name, Some(array))));
}

#[test]
fn shardings_that_no_plan_is_for_go_by_exchange() {
    vars!(m, n, k);
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let dealt = product(&mesh, [6; 3], [vec![m.at(x)], vec![k.at(y)], vec![m.cyclic(x, 1), n.at(y)]]);
    let sequence = Sequence::new().stage(&dealt, ["A", "B"], "C").stage(&dealt, ["C", "B"], "D").build();
    let sequence = sequence.expect("stages that fit");
    let mut moves = sequence.moves();
    let (Some(only), None) = (moves.next(), moves.next()) else { panic!("{}", sequence.explain()) };
    let why = "dimension 0 of [0 @ cyclic(x, 1), 1 @ y] cannot be written as a distributed type: it is block-cyclic";
    assert_eq!((only.pattern(), &only.tests[..]), (Pattern::Exchange, &[why.to_owned()][..]));
    assert!(sequence.explain().contains(&format!("    - {why}\n")), "{}", sequence.explain());
}

#[test]
fn shardings_that_are_the_same_need_no_move() {
    vars!(m, n);
    let check = |mesh: &Mesh, first: [Vec<Clause>; 3], second: [Vec<Clause>; 3]| {
        let [first, second] = [first, second].map(|clauses| product(mesh, [6; 3], clauses));
        let sequence = Sequence::new().stage(&first, ["A", "B"], "C").stage(&second, ["C", "B"], "D").build();
        let sequence = sequence.expect("stages that fit");
        assert_eq!(sequence.moves().count(), 0, "{}", sequence.explain());
    };
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    check(
        &mesh,
        [vec![m.at(x)], vec![pin(y, 1), pin(x, 0)], vec![m.cyclic(x, 3)]],
        [vec![m.at(x)], vec![pin(x, 0), pin(y, 1)], vec![m.at(x)]],
    );
    let mesh = Mesh::new([("x", 2), ("z", 1)]);
    let [x, z] = mesh.axes();
    check(
        &mesh,
        [vec![m.at([x, z])], vec![], vec![m.cyclic(x, 3), pin(z, 0)]],
        [vec![m.at((x + z) % 2)], vec![], vec![m.at(x), n.cyclic(z, 1)]],
    );
}

#[test]
fn options_say_what_redistributions_may_do() {
    vars!(m, n, k);
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let stage = product(&mesh, [8; 3], [vec![m.at([y, x])], vec![k.at(x)], vec![m.at(x), n.at(y)]]);
    let build = |options| {
        Sequence::new().stage(&stage, ["A", "B"], "C").stage(&stage, ["C", "B"], "D").options(options).build()
    };
    let exchange = build(PlanOptions { ops: Ops::Exchange, ..PlanOptions::default() }).expect("stages that fit");
    assert!(exchange.moves().all(|moved| moved.pattern() == Pattern::Exchange), "{}", exchange.explain());
    let tight = build(PlanOptions { memory: MemoryBound::Bytes(100), ..PlanOptions::default() });
    assert_eq!(
        tight.expect_err("it does not fit").to_string(),
        "cannot redistribute `C` from [0 @ x, 1 @ y] to [0 @ [y, x]] for stage 2, `product`: no plan fits into 100 \
         bytes per device: the source tile takes 128 and the target tile 128; allow at least 128"
    );
}

#[test]
fn stages_that_do_not_fit_are_refused_with_what_there_is() {
    vars!(m, n, mo, mi, no, ni);
    let mesh = Mesh::new([("x", 2), ("y", 1)]);
    let whole = || [vec![], vec![], vec![]];
    let narrow = product(&mesh, [4, 5, 6], whole());
    let wide = product(&mesh, [4, 6, 7], whole());
    let said = |sequence: Sequence| -> String {
        let error: Box<SequenceError> = sequence.build().expect_err("it should be refused");
        assert_eq!(format!("{error:?}"), error.to_string());
        error.to_string()
    };
    let first = || Sequence::new().stage(&narrow, ["A", "B"], "C");
    let elsewhere = product(&Mesh::new([("x", 1), ("y", 2)]), [4, 6, 7], whole());
    let floats =
        kernel! { fn floats(A: [f32; 4, 6], B: [f32; 6, 7]) -> C: [f32; 4, 7] { C[m, n] += A[m, k] * B[k, n] } };
    let floats = floats.distribute([m, n], [mo, no], [mi, ni], &mesh).lower().expect("a legal schedule");
    let refusals = [
        said(Sequence::new()),
        said(first().stage(&wide, ["C"], "D")),
        said(first().stage(&narrow, ["C", "B"], "D")),
        said(first().stage(&wide, ["C", "B"], "D")),
        said(first().stage(&wide, ["C", "E"], "A")),
        said(first().stage(&wide, ["C", "E"], "C")),
        said(first().stage(&elsewhere, ["C", "E"], "D")),
        said(first().stage(&floats, ["C", "E"], "D")),
    ];
    expect![[r#"
        the sequence has no stage; add one with `stage`
        stage 2, `product`: the kernel reads 2 tensors (A, B), but 1 value is given (C)
        stage 2, `product`: `A` has shape [4, 5], but `C` has [4, 6], the output of stage 1, `product`; make them match
        stage 2, `product`: `B` has shape [6, 7], but `B` has [5, 6], an input that stage 1, `product` reads first; make them match
        stage 2, `product` writes `A`, which is an input that stage 1, `product` reads first; the values before it are A, B, E, C; give it a name of its own
        stage 2, `product` writes `C`, which is the output of stage 1, `product`; the values before it are A, B, E, C; give it a name of its own
        stage 2, `product` runs on the mesh (x: 1, y: 2), but stage 1, `product` on (x: 2, y: 1); lower all stages for one mesh
        stage 2, `floats` computes in f32, but stage 1, `product` in i64; give all stages one element type
    "#]]
    .assert_eq(&(refusals.join("\n") + "\n"));
}

#[test]
fn runs_on_other_arrays_are_refused() {
    vars!(m);
    let mesh = Mesh::new([("x", 2), ("y", 1)]);
    let [x, _] = mesh.axes();
    let stage = product(&mesh, [4, 5, 6], [vec![m.at(x)], vec![], vec![]]);
    let sequence = Sequence::new().stage(&stage, ["A", "B"], "C").build().expect("a stage");
    let said = polyshard::spmd(2, |world| {
        let arrays = inputs(world, &sequence)?;
        let a = DistArray::filled(world, sequence.sharding("B"), 1i64)?;
        let float = DistArray::filled(world, sequence.sharding("A"), 1.0)?;
        let refused =
            |result: polyshard::runtime::Result<DistArray<i64>>| result.expect_err("it should be refused").to_string();
        let few = refused(sequence.run(world, &[&arrays[0]]));
        let other = refused(sequence.run(world, &[&a, &arrays[1]]));
        let floats = sequence.run(world, &[&float, &float]).expect_err("it should be refused").to_string();
        Ok([few, other, floats])
    });
    let [few, other, floats] = said.expect("all ranks return").swap_remove(0);
    let takes = format!("`product` takes 2 inputs (A, B), but 1 is given\n  --> {}:", file!());
    assert!(few.starts_with(&takes) && few.ends_with(", in `product`"), "{few}");
    assert!(other.starts_with("`A` has shape [5, 6], but the program expects [4, 5]; "), "{other}");
    assert!(
        floats.starts_with("`product` computes in i64, but the arrays hold f64; make them match\n  --> "),
        "{floats}"
    );
    let world = polyshard::spmd(3, |world| Ok(sequence.prepare::<i64>(world).err().map(|error| error.to_string())));
    let message = "the mesh (x: 2, y: 1) has 2 ranks, but the program runs on 3: call `spmd(2, ..)`";
    let said = world.expect("all ranks return").swap_remove(0).expect("it should be refused");
    assert_eq!(said.lines().next(), Some(message));
}

/// The shardings of a matrix with these two dimensions over a mesh.
fn ways(mesh: &Mesh, row: Var, column: Var, way: usize) -> Vec<Clause> {
    let [x, y] = mesh.axes();
    match way {
        0 => vec![],
        1 => vec![row.at(x)],
        2 => vec![column.at(x)],
        3 => vec![row.at(x), column.at(y)],
        4 => vec![row.at(y), column.at(x)],
        5 => vec![row.at([x, y])],
        6 => vec![column.at([y, x])],
        7 => vec![row.cyclic(x, 2), column.at(y)],
        8 => vec![row.at(x), pin(y, 0)],
        9 => vec![row.at(x).at(y)],
        10 => vec![column.at(y).cyclic(x, 1)],
        _ => vec![row.at(x), column.at((x + y) % y.extent as i64)],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The shardings of values between the stages change no element of the result.
    #[test]
    fn any_two_products_are_the_sequential_ones(
        extents in (1..4usize, 1..4usize),
        size in prop::array::uniform4(0..9usize),
        way in prop::array::uniform6(0..12usize),
    ) {
        let mesh = Mesh::new([("x", extents.0), ("y", extents.1)]);
        let [rows, inner, hidden, columns] = size;
        vars!(m, n, k);
        let clauses = |way: &[usize]| {
            [ways(&mesh, m, k, way[0]), ways(&mesh, k, n, way[1]), ways(&mesh, m, n, way[2])]
        };
        let first = product(&mesh, [rows, inner, hidden], clauses(&way[..3]));
        let second = product(&mesh, [rows, hidden, columns], clauses(&way[3..]));
        let sequence = Sequence::new().stage(&first, ["X", "W1"], "Y").stage(&second, ["Y", "W2"], "Z").build();
        let sequence = sequence.expect("stages that fit");
        let early = in_flight::begun_early(&sequence);
        let found = polyshard::spmd(mesh.size(), |world| {
            let arrays = inputs(world, &sequence)?;
            let inputs: Vec<_> = arrays.iter().collect();
            let mut prepared = sequence.prepare(world)?;
            let first = prepared.run(&inputs)?;
            assert_eq!(prepared.run(&inputs)?.block(), first.block(), "a second run differs\n{sequence}");
            assert_eq!(early.run(world, &inputs)?.block(), first.block(), "begun early it differs\n{early}");
            Ok(first.gather(world)?)
        });
        let y = reference(first.kernel(), &[&whole(0, &[rows, inner]), &whole(1, &[inner, hidden])], None);
        let z = reference(second.kernel(), &[&y.expect("shapes fit"), &whole(2, &[hidden, columns])], None);
        prop_assert_eq!(&found.expect("a run")[0], &Some(z.expect("shapes fit")), "{}", sequence.explain());
    }
}

/// `A * B` and then that times `B`, as stages whose outputs are in quarters.
fn two_products(mesh: &Mesh) -> [Program; 2] {
    vars!(m, n, k);
    let [x, y] = mesh.axes();
    let stage = |size, a| product(mesh, size, [a, vec![k.at(y)], vec![m.at(x), n.at(y)]]);
    [stage([6, 5, 7], vec![m.at(x)]), stage([6, 7, 4], vec![m.at([x, y])])]
}

#[test]
fn inputs_and_outputs_lie_in_shardings_that_no_stage_has() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let [first, second] = two_products(&mesh);
    let sharding = |shape: &[usize], placements: &[Placement]| Sharding::new(&mesh, shape, placements).expect("legal");
    let given = sharding(&[6, 5], &[Placement::block_cyclic(1, y, 1)]);
    let taken = sharding(&[6, 7], &[Placement::block(1, AxisExpr::List(vec![y.name, x.name]))]);
    let last = sharding(&[6, 4], &[Placement::pin(x.name, 1), Placement::block(0, y)]);
    let sequence = || Sequence::new().stage(&first, ["A", "B"], "C").stage(&second, ["C", "D"], "E");
    let sequence =
        sequence().input("A", &given).output("C", &taken).output("E", &last).build().expect("stages that fit");
    let shardings: Vec<_> = sequence.outputs().map(|array| (array.name.as_str(), &array.sharding)).collect();
    assert_eq!(shardings, [("C", &taken), ("E", &last)], "{sequence}");
    assert_eq!(sequence.sharding("A"), &given);
    let found = polyshard::spmd(mesh.size(), |world| {
        let arrays = inputs(world, &sequence)?;
        let inputs: Vec<_> = arrays.iter().collect();
        let mut prepared = sequence.prepare(world)?;
        let outputs = prepared.run_all(&inputs)?;
        let said = prepared.run(&inputs).expect_err("there are two").cause().to_string();
        assert!(said.starts_with("`run` is for one output, but the program writes 2 (C, E); use `run_all`"));
        let said = prepared.run_named(&inputs, ["E", "E"]).expect_err("there is one").cause().to_string();
        assert_eq!(said, "`E` is not an output, or is named twice; the program writes C, E");
        outputs.into_iter().map(|(_, array)| Ok(array.gather(world)?)).collect::<polyshard::Result<Vec<_>>>()
    });
    let c = reference(first.kernel(), &[&whole(0, &[6, 5]), &whole(1, &[5, 7])], None).expect("shapes fit");
    let e = reference(second.kernel(), &[&c, &whole(2, &[7, 4])], None).expect("shapes fit");
    assert_eq!(found.expect("a run")[0], [Some(c), Some(e)], "{}", sequence.explain());
}

#[test]
fn a_sharding_that_a_stage_has_already_moves_nothing() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [first, second] = two_products(&mesh);
    let sequence = || Sequence::new().stage(&first, ["A", "B"], "C").stage(&second, ["C", "D"], "E");
    let plain = sequence().keep("C").build().expect("stages that fit");
    let [a, c, e] = [first.sharding("A"), first.sharding("C"), second.sharding("C")];
    let said = sequence().input("A", a).output("C", c).output("E", e).build().expect("stages that fit");
    assert_eq!(said, plain);
    // A stage may read the array to which an output is moved.
    let rows = second.sharding("A");
    let shared = sequence().output("C", rows).build().expect("stages that fit");
    assert_eq!(shared.moves().count(), plain.moves().count(), "{shared}");
}

#[test]
fn shardings_of_inputs_and_outputs_that_do_not_fit_are_refused_with_what_there_is() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [_, y] = mesh.axes();
    let [first, second] = two_products(&mesh);
    let sequence = || Sequence::new().stage(&first, ["A", "B"], "C").stage(&second, ["C", "D"], "E");
    let refused = |sequence: Sequence| sequence.build().expect_err("it should be refused").to_string();
    let sharding = |shape: &[usize], placements: &[Placement]| Sharding::new(&mesh, shape, placements).expect("legal");
    let (whole, columns) = (sharding(&[6, 7], &[]), sharding(&[6, 7], &[Placement::block(1, y)]));
    let other = Sharding::new(&Mesh::new([("z", 4)]), &[6, 7], &[]).expect("legal");
    let refusals = [
        refused(sequence().input("C", &whole)),
        refused(sequence().input("Q", &whole)),
        refused(sequence().output("Q", &whole)),
        refused(sequence().input("D", &whole).input("D", &columns)),
        refused(sequence().input("A", &whole)),
        refused(sequence().output("E", &whole)),
        refused(sequence().output("C", &sharding(&[6, 7], &[Placement::partial(y.name)]))),
        refused(sequence().output("C", &other)),
    ];
    expect![[r#"
        `C` is not an input; the inputs are A, B, D
        `Q` is not an input; the inputs are A, B, D
        no stage writes the output `Q`; the stages write C, E
        the input `D` is given two shardings, replicated and [1 @ y]; give one
        stage 1, `product`: `A` has shape [6, 5], but `A` has [6, 7], an input that stage 1, `product` reads first; make them match
        the output `E` has shape [6, 4], but its sharding is for [6, 7]; make them match
        cannot redistribute the output `C` from [0 @ x, 1 @ y] to [partial(y)]: its sums are complete; leave out `partial`
        cannot redistribute `C` from [0 @ x, 1 @ y] to replicated for the output: the source is on the mesh (x: 2, y: 2), but the target is on (z: 4); put both on one mesh
    "#]]
    .assert_eq(&(refusals.join("\n") + "\n"));
}

/// Z = 3 * (2 * X) in two stages, which both call their factor `alpha`, of two kernels with different names or the
/// same.
fn scaled(same: bool) -> Program {
    vars!(i, io, ii);
    let mesh = Mesh::new([("x", 2)]);
    let first = |alpha: i64| kernel! { fn first(A: [i64; 5]) -> B: [i64; 5] { B[i] = alpha * A[i] } };
    let second = |alpha: i64| kernel! { fn second(A: [i64; 5]) -> B: [i64; 5] { B[i] = alpha * A[i] } };
    let stages = [first(2), if same { first(3) } else { second(3) }];
    let lowered = |stage: Schedule| stage.distribute([i], [io], [ii], &mesh).lower().expect("a legal schedule");
    let [first, second] = stages.map(lowered);
    Sequence::new().stage(&first, ["X"], "Y").stage(&second, ["Y"], "Z").build().expect("stages that fit")
}

#[test]
fn scalars_are_those_of_all_stages_or_of_one() {
    let run = |program: &Program, scalars: &[(&str, i64)]| {
        let found = polyshard::spmd(2, |world| {
            let x = DistArray::from_fn(world, program.sharding("X"), |i| i[0] as i64)?;
            Ok(program.run_with(world, &[&x], scalars)?.get(&[1]))
        });
        found.map(|found| found.into_iter().flatten().next().expect("a rank has it")).map_err(|error| error.to_string())
    };
    let program = scaled(false);
    assert_eq!(run(&program, &[]), Ok(6));
    assert_eq!(run(&program, &[("alpha", 5)]), Ok(25));
    assert_eq!(run(&program, &[("first.alpha", 5)]), Ok(15));
    assert_eq!(run(&program, &[("second.alpha", 7), ("first.alpha", 5)]), Ok(35));
    assert_eq!(run(&program, &[("second.alpha", 7), ("alpha", 5)]), Ok(35), "what is given for one comes first");
    let refused = |program: &Program, scalars: &[(&str, i64)], message: &str| {
        let error = run(program, scalars).expect_err("it should be refused");
        assert!(error.contains(message), "{error}");
    };
    let all = "the scalars are first.alpha, second.alpha";
    refused(&program, &[("gamma", 1)], &format!("no scalar `gamma`; {all}"));
    refused(&program, &[("third.alpha", 1)], &format!("no scalar `third.alpha`; {all}"));
    refused(&program, &[("first.gamma", 1)], &format!("no scalar `first.gamma`; {all}"));
    let twice = "the scalar `alpha` is given twice; give each scalar one value";
    refused(&program, &[("first.alpha", 1), ("first.alpha", 1)], twice);

    // Kernels of the same name are distinguished by the values that they write.
    let program = scaled(true);
    assert_eq!(run(&program, &[("Z.alpha", 7)]), Ok(14));
    assert_eq!(run(&program, &[("Z.alpha", 7), ("first.alpha", 5)]), Ok(35));
    refused(&program, &[("second.alpha", 1)], "no scalar `second.alpha`; the scalars are Y.alpha, Z.alpha");
}

//! Invalid programs: each kind of [`ProgramError`], with its message.

use expect_test::{Expect, expect};
use polyshard_dsl::Var;
use polyshard_layout::{Axis, Mesh, Name, Placement, Reach, Sharding};
use polyshard_polyhedral::Schedule;
use polyshard_program::reduction::Procedure;
use polyshard_program::{
    Access, Affine, Algorithm, Array, ArrayId, ArrayKind, Assign, At, AxisId, Body, CounterId, DType, Depth, End, Expr,
    KernelId, LeafAccess, LeafOp, LeafPart, Leg, LegId, LoweredKernel, Number, OperandId, Owners, Program,
    ProgramError, Proof, Property, Role, Route, Shift, Statement, StatementId, StepId, Symbol, TensorId, TileOperand,
    TileStatement, Transfer, TransferId, Value,
};
use polyshard_testing::example;

mod ahead;
mod flow;
mod kept;
mod moves;
mod procedures;
mod rounds;
mod stencils;
mod versions;

fn mesh() -> (Mesh, Axis) {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    (mesh, x)
}

fn sharding(shape: &[usize], placements: &[Placement]) -> Sharding {
    Sharding::new(&mesh().0, shape, placements).expect("a sharding")
}

fn by_rows() -> Sharding {
    sharding(&[4, 4], &[Placement::block(0, mesh().1)])
}

fn by_columns() -> Sharding {
    sharding(&[4, 4], &[Placement::block(1, mesh().1)])
}

fn array(name: &str, sharding: Sharding, kind: ArrayKind) -> Array {
    Array { name: Name::new(name), sharding, kind }
}

/// `A`, an input by rows, and `B`, an output by columns.
fn arrays() -> Vec<Array> {
    vec![array("A", by_rows(), ArrayKind::Input), array("B", by_columns(), ArrayKind::Output)]
}

/// A move by rows to columns, from one array to another.
fn moved(source: usize, target: usize) -> Transfer {
    Transfer::between([source, target].map(ArrayId), [&by_rows(), &by_columns()], DType::F64, Vec::new())
}

/// Moves from one array to another, in this order.
fn moves<const COUNT: usize>(moves: [(usize, usize); COUNT]) -> Body {
    let mut body = Body::new(&mesh().0, DType::F64);
    for (source, target) in moves {
        body.transfer(moved(source, target));
    }
    body
}

/// A product of 4 by 4 matrices, `f32` and by rows.
fn product() -> Body {
    let (mesh, x) = mesh();
    let rows = Schedule::from_spec(example::matmul(4, 4, 4))
        .distribute(["m"], ["mo"], ["mi"], &mesh)
        .shard("A", [Var::new("m").at(x)])
        .shard("C", [Var::new("m").at(x)]);
    rows.lower().expect("a program").body().clone()
}

/// The tables of a program of one kernel after a change, with what follows from its transfers as before it.
fn completed(mut body: Body) -> Body {
    let proofs = body.kernels[0].report.proofs.clone();
    body.complete(KernelId(0), proofs);
    body
}

/// The program of these tables, with these arrays.
fn program(dtype: DType, arrays: Vec<Array>, body: Body) -> Result<Program, ProgramError> {
    Program::new(Body { dtype, arrays, ..body })
}

/// `A`, `B` and `C` as the product needs them.
fn operands() -> Vec<Array> {
    let whole = sharding(&[4, 4], &[]);
    vec![
        array("A", by_rows(), ArrayKind::Input),
        array("B", whole, ArrayKind::Input),
        array("C", by_rows(), ArrayKind::Output),
    ]
}

/// The refusal of a program.
#[track_caller]
fn refusal(dtype: DType, arrays: Vec<Array>, body: Body) -> String {
    format!("{}\n", program(dtype, arrays, body).expect_err("it is not a program"))
}

#[track_caller]
fn check(dtype: DType, arrays: Vec<Array>, body: Body, expect: Expect) -> ProgramError {
    let error = program(dtype, arrays, body).expect_err("it is not a program");
    expect.assert_eq(&error.to_string());
    error
}

#[test]
fn an_array_that_there_is_not() {
    let error = check(
        DType::F32,
        arrays(),
        moves([(0, 2)]),
        expect!["transfer 0 names array 2, but the program has 2 arrays, numbered from 0"],
    );
    assert_eq!(error, ProgramError::NoRow { by: "transfer 0".into(), kind: "array", number: 2, rows: 2 });
}

#[test]
fn an_array_that_is_read_before_it_is_written() {
    let mut arrays = arrays();
    arrays.push(array("T", by_rows(), ArrayKind::Temporary));
    let error = check(
        DType::F32,
        arrays,
        moves([(2, 1)]),
        expect!["statement 1 reads `T`, which no statement before it writes"],
    );
    assert_eq!(error, ProgramError::Unwritten { statement: StatementId(1), array: Name::new("T") });
}

#[test]
fn an_array_that_is_written_again() {
    let error = check(
        DType::F32,
        arrays(),
        moves([(0, 1), (0, 1)]),
        expect!["statement 2 writes `B`, which is an input or was written before"],
    );
    assert_eq!(error, ProgramError::Overwritten { statement: StatementId(2), array: Name::new("B") });
    check(
        DType::F32,
        arrays(),
        moves([(0, 1), (1, 0)]),
        expect!["statement 2 writes `A`, which is an input or was written before"],
    );
}

#[test]
fn an_output_that_nothing_writes() {
    let error =
        check(DType::F32, arrays(), Body::new(&mesh().0, DType::F64), expect!["no statement writes the output `B`"]);
    assert_eq!(error, ProgramError::NoOutput { array: Name::new("B") });
}

/// A file may hold anything: each part that does not fit is named, and nothing that prints, explains or emits a program sees
/// it.
#[test]
fn nests_whose_parts_do_not_fit() {
    let refused = |change: fn(&mut Body)| {
        let mut body = product();
        change(&mut body);
        refusal(DType::F32, operands(), body)
    };
    let digits = |text: &str| serde_json::from_str(text).expect("digits of axes");
    let in_stages = |stages| Leg::collective(vec![0], Owners::Parts).by(Algorithm::Stages(stages));
    let staged = [
        (r#"[[{"axis":0,"stride":2,"extent":2}],[{"axis":0,"stride":1,"extent":3}]]"#, "do not make up 0.."),
        (
            r#"[[{"axis":0,"stride":1,"extent":4}]]"#,
            "it takes two stages or more, each with digits; found 1, 0 of them",
        ),
        (r#"[[{"axis":9,"stride":2,"extent":2}],[{"axis":0,"stride":1,"extent":2}]]"#, "a digit of axis 9"),
    ];
    let refusals = [
        refused(|body| body.kernels[0].uses.truncate(2)),
        refused(|body| body.kernels[0].uses[0].operands.clear()),
        refused(|body| body.transfers[0].level = Depth(1)),
        refused(|body| body.transfers[0].region.ranges[0].1 = Expr::symbol(Symbol::Coordinate(AxisId(1)))),
        refused(|body| body.transfers[0].region.periods.clear()),
        refused(|body| body.transfers[1].route = Leg::collective(vec![1], Owners::Parts).into()),
        refused(|body| body.transfers[1].route = Leg::Permute { owner: Vec::new(), served: Vec::new() }.into()),
        refused(|body| {
            body.transfers[1].route =
                Route::from(Leg::Copy).then_shift(Shift { axis: AxisId(0), by: 1, counter: CounterId(0) })
        }),
        // Its number plus 1 does not fit.
        refused(|body| {
            body.transfers[1].route =
                Route::from(Leg::Copy).then_shift(Shift { axis: AxisId(0), by: 1, counter: CounterId(usize::MAX) })
        }),
        refused(|body| body.transfers[1].route.legs.clear()),
        refused(|body| body.transfers[1].route = Leg::Copy.into()),
        refused(|body| body.transfers[0].step = Some(StepId(9))),
        refused(|body| body.kernels[0].leaf.operands[0].strides.clear()),
        refused(|body| body.kernels[0].leaf.target.base[0] = body.kernels[0].leaf.target.base[0].offset_by(1)),
        refused(|body| body.kernels[0].leaf.operands[1].strides[0][0] = 1),
        refused(|body| body.kernels[0].leaf.loops[0].stride = 0),
        refused(|body| body.kernels[0].leaf.operands[0].strides[0][0] = 1 << 62),
        refused(|body| {
            body.kernels[0].leaf.op = LeafOp::Contraction { roles: Vec::new(), alpha: Value::Literal(Number::Int(1)) }
        }),
        refused(|body| {
            let alpha = Value::Scalar(Name::new("alpha"));
            body.kernels[0].leaf.op = LeafOp::Contraction { roles: vec![Role::M, Role::N, Role::K], alpha };
        }),
        // It is an infinity in the element type.
        refused(|body| {
            let alpha = Value::Literal(Number::Float(1e308));
            body.kernels[0].leaf.op = LeafOp::Contraction { roles: vec![Role::M, Role::N, Role::K], alpha };
        }),
        refused(|body| {
            let alpha = Value::Literal(Number::Int(1));
            body.kernels[0].leaf.op = LeafOp::Contraction { roles: vec![Role::N, Role::M, Role::K], alpha };
        }),
        // A tile along an index that no loop of the leaf has.
        refused(|body| {
            let loops: Vec<Name> = body.kernels[0].leaf.loops.iter().map(|inner| inner.var).collect();
            let tile = |name: &str, index: [Name; 2]| {
                Access::new(Name::new(name), index.map(|var| Affine::new([(var, 1)], 0)).into())
            };
            let (a, b) = (tile("A", [loops[0], loops[2]]), tile("B", [loops[2], Name::new("other")]));
            let value = Value::Mul(Box::new(Value::Access(a)), Box::new(Value::Access(b)));
            let statement = TileStatement { target: tile("C", [loops[0], loops[1]]), assign: Assign::Add, value };
            let operands = [0, 1].map(|operand| TileOperand::Access(OperandId(operand)));
            body.kernels[0].leaf.op = LeafOp::Named { name: Name::new("other"), operands: operands.into(), statement };
        }),
        refused(|body| body.kernels[0].report.shard_bytes += 1),
    ]
    .concat();
    expect![[r#"
        statement 1: `matmul` has transfers in another order than its inputs and then its output
        statement 1: `matmul` has transfers that do not fetch each operand exactly once
        statement 1: `matmul` has a transfer, number 0, inside 1 loops, but there are 0
        statement 1: `matmul` has a transfer, number 0, of an invalid region of its tensor
        statement 1: `matmul` has a transfer, number 0, of an invalid region of its tensor
        statement 1: `matmul` has a transfer, number 1, along axes [1] of a mesh of 1
        statement 1: `matmul` has a transfer, number 1, with invalid coordinates of a rank
        statement 1: `matmul` has a transfer, number 1, that shifts along an unknown axis or in an unknown loop
        statement 1: `matmul` has a transfer, number 1, that shifts along an unknown axis or in an unknown loop
        statement 1: `matmul` has a transfer, number 1, with legs that cannot follow each other
        statement 1: `matmul` has a transfer, number 1, of 16 elements into a tile of 0
        statement 1: `matmul` has a transfer, number 0, made by step 9 of 3
        statement 1: `matmul` has a leaf whose accesses differ from its kernel's
        statement 1: `matmul` has a leaf whose accesses differ from its kernel's
        statement 1: `matmul` has a leaf whose accesses differ from its kernel's
        statement 1: `matmul` has a leaf whose accesses differ from its kernel's
        statement 1: `matmul` has a leaf whose accesses differ from its kernel's
        statement 1: `matmul` has a leaf whose operation does not fit its loops and operands
        statement 1: `matmul` has a leaf whose operation does not fit its loops and operands
        statement 1: `matmul` has a leaf whose operation does not fit its loops and operands
        statement 1: `matmul` has a leaf whose operation does not fit its loops and operands
        statement 1: `matmul` has a leaf whose operation does not fit its loops and operands
        statement 1: `matmul` has tiles or bounds that do not follow from its transfers
    "#]]
    .assert_eq(&refusals);
    for (stages, why) in staged {
        let mut body = product();
        body.transfers[1].route = in_stages(digits(stages)).into();
        let error = program(DType::F32, operands(), body).expect_err("it is not a program");
        let said = error.to_string();
        assert!(said.contains("number 1, by a collective with invalid stages: ") && said.contains(why), "{said}");
    }
}

/// A transfer may be awaited later than it begins, as long as that is before anything reads its tile.
#[test]
fn transfers_are_awaited_where_that_is_legal() {
    let in_order = |order: &[usize]| {
        let mut body = product();
        assert_eq!(body.statements.len(), 5, "two inputs, the leaf: {:?}", body.statements);
        body.statements = order.iter().map(|&number| body.statements[number].clone()).collect();
        program(DType::F32, operands(), body)
    };
    in_order(&[0, 1, 2, 3, 4]).expect("it is the derived one");
    let apart = in_order(&[0, 2, 1, 3, 4]).expect("both are begun, then awaited");
    assert_eq!(apart.to_string().matches("await").count(), 2, "{apart}");
    let refused = |order: &[usize]| format!("{}\n", in_order(order).expect_err("it is not a program"));
    let refusals =
        [refused(&[0, 2, 3, 4, 1]), refused(&[1, 0, 2, 3, 4]), refused(&[0, 2, 3, 4]), refused(&[0, 1, 1, 2, 3, 4])]
            .concat();
    expect![[r#"
        statement 1: `matmul` runs its leaf before its transfer, number 0, has ended
        statement 1: `matmul` ends its transfer, number 0, which is not the first in flight there
        statement 1: `matmul` runs its leaf before its transfer, number 0, has ended
        statement 1: `matmul` ends its transfer, number 0, which is not the first in flight there
    "#]]
    .assert_eq(&refusals);
    in_order(&[2, 3, 0, 1, 4]).expect("neither depends on the other");
}

/// Each nest, move and repetition runs once, in order, a nest's statements together; a move is awaited before anything reads
/// its target.
#[test]
fn statements_that_are_not_those_of_the_nests_and_moves() {
    let with = |change: &dyn Fn(&mut Body)| {
        let mut body = product();
        body.transfer(moved(2, 3));
        body.transfer(moved(0, 4));
        change(&mut body);
        let mut arrays = operands();
        arrays[2].kind = ArrayKind::Temporary;
        arrays.extend(["D", "E"].map(|name| array(name, by_columns(), ArrayKind::Output)));
        program(DType::F32, arrays, body)
    };
    let program = with(&|_| ()).expect("it is as it was put together");
    let numbers = program.body().statements.len();
    assert_eq!(numbers, 5 + 4 + 1, "the product, two moves and a free: {:?}", program.body().statements);
    let apart = with(&|body| body.statements.swap(6, 7)).expect("both moves are under way at once");
    expect![[r#"
        program over (x: 2), f32
            input         A[4, 4]: [0 @ x]
            input         B[4, 4]: replicated
         1  run           C = matmul(A, B), C[m, n] += A[m, k] * B[k, n]
         2  begin move    D = C: [0 @ x] to [1 @ x], exchange
         3  begin move    E = A: [0 @ x] to [1 @ x], exchange
            await         D
            await         E
            output        D[4, 4]: [1 @ x]
            output        E[4, 4]: [1 @ x]
    "#]]
    .assert_eq(&apart.to_string());
    let refused = |change: &dyn Fn(&mut Body)| format!("{}\n", with(change).expect_err("it is not a program"));
    let [first, second] = [3, 4].map(TransferId);
    let refusals = [
        refused(&|body| body.statements.clear()),
        refused(&|body| body.statements.rotate_left(1)),
        refused(&|body| body.statements.push(Statement::Compute(KernelId(0), LeafPart::Whole))),
        refused(&|body| body.statements.push(Statement::Compute(KernelId(7), LeafPart::Whole))),
        refused(&|body| body.statements.push(Statement::Begin(second, At::NOW))),
        refused(&|body| body.statements.swap(5, 6)),
        refused(&|body| body.statements.retain(|statement| *statement != Statement::End(first, At::NOW))),
        refused(&|body| body.statements.push(Statement::End(first, At::NOW))),
        refused(&|body| body.statements.insert(0, Statement::End(first, At::NOW))),
        refused(&|body| body.statements.truncate(7)),
        refused(&|body| {
            body.transfers[4].from = End::Array(ArrayId(3));
            body.statements.swap(6, 7);
        }),
        refused(&|body| body.transfers[4].to = End::Array(ArrayId(3))),
    ]
    .concat();
    expect![[r#"
        no statement runs kernel 0 of 1, numbered from 0
        statement 1: `matmul` ends its transfer, number 0, which is not the first in flight there
        statement 4: kernel 0, numbered from 0, runs twice, or its statements are not adjacent
        a statement names kernel 7, but the program has 1 kernel, numbered from 0
        statement 4: transfer 4, numbered from 0, moves an array, so it begins once
        statement 1: transfer 3, numbered from 0, ends, but is not in flight there
        no statement ends the move to `D`
        statement 3: transfer 3, numbered from 0, ends, but is not in flight there
        statement 1: transfer 3, numbered from 0, ends, but is not in flight there
        no statement begins transfer 4, numbered from 0, a move
        statement 3 reads `D`, which no statement before it writes
        statement 3 writes `D`, which is an input or was written before
    "#]]
    .assert_eq(&refusals);
}

/// Owners, and the elements that a leaf touches, are checked on each rank in each step.
#[test]
fn programs_from_files_whose_steps_lack_something() {
    let read = |change: fn(&mut Body)| {
        let mut body = product();
        change(&mut body);
        let program = program(DType::F32, operands(), completed(body)).expect("its parts fit");
        serde_json::from_str::<Program>(&serde_json::to_string(&program).expect("it is written"))
    };
    let refused = |change| format!("{}\n", read(change).expect_err("a rank lacks something"));
    let program = read(|_| ()).expect("it is as it was derived");
    let explained = program.explain();
    assert!(explained.contains("checked when it was read\n    - in every step, each rank receives"), "{explained}");
    assert!(explained.contains("not proved here, but stated by the file\n    - every instance once"), "{explained}");
    // Whether calls match is decided when the file is read; its other claims are only stated.
    let boasting = read(|body| {
        body.kernels[0].report.proofs.retain(|proof| proof.property != Property::Matching);
        let (property, tensor, claim) = (Property::Matching, Some("A".into()), "all is well".into());
        body.kernels[0].report.proofs.push(Proof { property, tensor, claim, of_route: true });
    });
    let boasting = boasting.expect("its steps are as before").explain();
    let (checked, stated) = boasting.split_once("not proved here").expect("a file's proofs");
    assert!(stated.contains("    - matching of A: all is well") && !checked.contains("all is well"), "{boasting}");
    let refusals = [
        refused(|body| body.transfers[0].region.ranges[0] = (Expr::constant(0), Expr::constant(4))),
        refused(|body| {
            body.transfers[1].route =
                Leg::Permute { owner: vec![Expr::constant(2)], served: vec![Expr::constant(0)] }.into();
            body.transfers[1].tile.capacity = 16;
        }),
        refused(|body| {
            body.kernels[0].leaf.loops[0].low = body.kernels[0].leaf.loops[0].low.offset_by(1);
            follow_loops(body);
        }),
        refused(|body| body.kernels[0].leaf.loops[0].count = Expr::constant(3)),
        refused(|body| body.kernels[0].leaf.loops[2].count = Expr::constant(3)),
    ]
    .concat();
    expect![[r#"
        statement 1: `matmul` has a transfer, number 0, whose legs do not lead to all of its part of `A`
        statement 1: `matmul` has a transfer, number 1, whose legs do not lead to all of its part of `B`
        statement 1: `matmul` has a leaf that reaches outside its part of `A`
        statement 1: `matmul` has a leaf that reaches outside its part of `A`
        statement 1: `matmul` computes its statement 48 times on all ranks, not 64 times
    "#]]
    .assert_eq(&refusals);
}

/// Makes the accesses of a leaf follow its loops.
fn follow_loops(body: &mut Body) {
    let LoweredKernel { kernel, leaf, .. } = &mut body.kernels[0];
    for (operand, access) in leaf.operands.iter_mut().zip(kernel.value().accesses()) {
        *operand = LeafAccess::new(access, operand.tensor, &leaf.loops);
    }
    leaf.target = LeafAccess::new(kernel.target(), leaf.target.tensor, &leaf.loops);
}

/// Each rank reads all of `A` and `B` and adds a part of the sums.
#[test]
fn files_that_compute_some_instances_twice_are_refused() {
    let (mesh, x) = mesh();
    let sums = Schedule::from_spec(example::matmul(4, 4, 4)).distribute(["k"], ["ko"], ["ki"], &mesh);
    let sums = sums.shard("A", []).shard("B", []).shard("C", [Var::new("m").at(x)]).lower().expect("a program");
    let read = |first: Expr| {
        let mut body = sums.body().clone();
        let all = (Expr::constant(0), Expr::constant(4));
        (body.transfers[0].region.ranges[1], body.transfers[1].region.ranges[0]) = (all.clone(), all);
        body.kernels[0].leaf.loops[2].low = first;
        follow_loops(&mut body);
        let made = Program::new(completed(body)).map_err(|error| error.to_string())?;
        let text = serde_json::to_string(&made).expect("it is written");
        serde_json::from_str::<Program>(&text).map_err(|error| error.to_string())
    };
    let rank = Expr::symbol(Symbol::Coordinate(AxisId(0)));
    read(rank.multiply(2)).expect("each rank adds two terms");
    let refused = |first: Expr| read(first).expect_err("it is not a program") + "\n";
    let refusals = [refused(Expr::constant(0)), refused(rank.multiply(2).offset_by(1))].concat();
    expect![[r#"
        statement 1: `matmul` computes its statement twice for some indices
        statement 1: `matmul` has a leaf that reaches outside its part of `A`
    "#]]
    .assert_eq(&refusals);
}

#[test]
fn kernels_whose_arrays_do_not_fit() {
    program(DType::F32, operands(), product()).expect("a program");
    let changed = |change: fn(&mut Body)| {
        let mut body = product();
        change(&mut body);
        refusal(DType::F32, operands(), body)
    };
    let mut by_column = operands();
    let refusals = [
        refusal(DType::F64, operands(), product()),
        changed(|body| {
            body.kernels[0].arrays.remove(1);
        }),
        changed(|body| body.kernels[0].uses[0].tensor = TensorId(7)),
        changed(|body| body.transfers[0].from = End::Array(ArrayId(1))),
        changed(|body| body.transfers[2].op = Assign::Max),
        changed(|body| body.transfers[0].called = Some(polyshard_program::Pattern::Exchange)),
    ]
    .concat();
    expect![[r#"
        statement 1: `matmul` computes f32, but the program's arrays are f64
        statement 1: `matmul` reads and writes 3 arrays, but the statement names 2
        statement 1: `matmul` has transfers in another order than its inputs and then its output
        statement 1: `matmul` has transfers between other arrays and tiles than its own
        statement 1: `matmul` combines terms by another operation than its own
        statement 1: `matmul` has a transfer, number 0, with a name or a sharding to keep, as only moves have
    "#]]
    .assert_eq(&refusals);
    by_column[0].sharding = sharding(&[4, 5], &[]);
    let wider = Body { mesh: Mesh::new([("x", 4)]), ..product() };
    let refusals = [refusal(DType::F32, by_column, product()), refusal(DType::F32, operands(), wider)].concat();
    expect![[r#"
        statement 1: `matmul` takes `A` with shape [4, 4] on the mesh (x: 2), but its array has shape [4, 5] on (x: 2)
        statement 1: `matmul` takes `A` with shape [4, 4] on the mesh (x: 4), but its array has shape [4, 4] on (x: 2)
    "#]]
    .assert_eq(&refusals);
}

#[test]
fn reductions_that_do_not_close_the_sums() {
    let (_, x) = mesh();
    let terms = sharding(&[4, 4], &[Placement::partial(x)]);
    let whole = sharding(&[4, 4], &[]);
    let by = |groups| Procedure::in_order(groups).expect("each rank is in one group");
    let both = || by(vec![vec![0, 1]]);
    let refusals = [
        (&by_rows(), Assign::Add, both()),
        (&whole, Assign::Set, both()),
        (&whole, Assign::Add, by(vec![vec![0], vec![1]])),
    ]
    .map(|(target, op, by)| {
        let reduction = Program::reduction("A", [&terms, target], DType::F32, op, by);
        format!("{}\n", reduction.expect_err("it is not a program"))
    });
    expect![[r#"
        statement 1: a reduction moves no elements, but `A` changes from [partial(x)] to [0 @ x]; move it before or after
        statement 1: `=` combines nothing; reduce `A` by `+=`, `*=`, `max=` or `min=`
        statement 1: the reduction of `A` from [partial(x)] to replicated combines the groups {0} {1}; it must combine {0 1}
    "#]]
    .assert_eq(&refusals.concat());
    // Ranks are neither counted one by one nor held in memory.
    for ranks in [1 << 40, 1 << 62] {
        let mesh = Mesh::new([("x", ranks)]);
        let [terms, whole] = [vec![Placement::partial("x")], vec![]]
            .map(|clauses| Sharding::new(&mesh, &[4], &clauses).expect("a sharding"));
        let error =
            Program::reduction("A", [&terms, &whole], DType::F32, Assign::Add, both()).expect_err("it is for 2 ranks");
        let expected = format!(
            "statement 1: the reduction of `A` from [partial(x)] to replicated is for 2 ranks, but the mesh (x: {ranks}) has {ranks}"
        );
        assert_eq!(error.to_string(), expected);
    }
}

/// Memory depends on the actions of steps, not on the claims of a file.
#[test]
fn steps_from_a_file_that_are_of_too_many_ranks_or_chunks() {
    let steps = |ranks: usize, chunks: usize| {
        let step = |collective: &str, parts: usize| serde_json::json!({ "collective": collective, "groups": [[0, 1]], "parts": parts });
        let steps = [step("ReduceScatter", 1), step("AllGather", 2)];
        let lowered = serde_json::json!({ "ranks": ranks, "reduced": [[0, 1]], "chunks": chunks, "steps": steps });
        serde_json::from_value::<Procedure>(serde_json::json!({ "Steps": lowered }))
    };
    assert_eq!(steps(2, 2).expect("they sum up").to_string(), "ReduceScatter-AllGather");
    assert_eq!(steps(1 << 40, 2).expect("they are of 2 ranks").ranks(), 2);
    let step = serde_json::json!({ "collective": "AllReduce", "groups": [[0, 1]], "parts": usize::MAX });
    let lowered = serde_json::json!({ "reduced": [[0, 1]], "chunks": 1, "steps": [step] });
    let message = serde_json::from_value::<Procedure>(serde_json::json!({ "Steps": lowered })).expect_err("1 is all");
    expect!["step 1: rank 0 holds 1 of 1 chunk, which is not one of 18446744073709551615 parts of the array"]
        .assert_eq(&message.to_string());
    let message = steps(2, 1 << 40).expect_err("no array is in that many pieces").to_string();
    expect!["1099511627776 chunks are more than these steps make of an array on this many ranks; give 2 or fewer"]
        .assert_eq(&message);
}

#[test]
fn open_sums_whose_terms_would_be_on_other_ranks() {
    let open = |extents: [usize; 2]| {
        let mesh = Mesh::new(["x", "z"].into_iter().zip(extents));
        Sharding::new(&mesh, &[4], &[Placement::partial("z")]).expect("a sharding")
    };
    let error = Program::redistribution("A", [&open([2, 4]), &open([4, 2])], DType::F32).expect_err("terms are lost");
    expect![
        "statement 1: partial sums along z of the mesh (x: 2, z: 4) have their terms on other ranks than those along \
         z of the mesh (x: 4, z: 2), so terms would be lost or count twice; add them up first, by a sharding over the \
         first mesh without `partial`"
    ]
    .assert_eq(&error.to_string());
    let closed = Sharding::new(&Mesh::new([("r", 8)]), &[4], &[]).expect("a sharding");
    let error = Program::redistribution("A", [&open([2, 4]), &closed], DType::F32).expect_err("sums are closed there");
    expect![
        "statement 1: partial sums of an array on the mesh (x: 2, z: 4) cannot be added up on the mesh (r: 8); write \
         both shardings over one mesh"
    ]
    .assert_eq(&error.to_string());
}

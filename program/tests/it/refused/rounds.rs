//! Invalid rounds.

use super::{array, by_columns, by_rows, check, mesh, program, refusal, sharding};
use expect_test::expect;
use polyshard_dsl::Var;
use polyshard_layout::{Placement, Sharding};
use polyshard_polyhedral::Schedule;
use polyshard_program::{Array, ArrayId, ArrayKind, Body, Carried, DType, Rounds, Transfer, Until};
use polyshard_testing::example;

/// Rounds that move `V`, which is first `A`, by columns and back, to `N`, which is `V` in the next round.
fn rounds(changed: impl FnOnce(&mut Vec<Array>, &mut Rounds, &mut Body)) -> (Vec<Array>, Body) {
    let mut arrays = vec![
        array("A", by_rows(), ArrayKind::Input),
        array("V", by_rows(), ArrayKind::Output),
        array("T", by_columns(), ArrayKind::Temporary),
        array("N", by_rows(), ArrayKind::Temporary),
    ];
    let mut round = Body::new(&mesh().0, DType::F64);
    round.transfer(Transfer::between([ArrayId(1), ArrayId(2)], [&by_rows(), &by_columns()], DType::F64, Vec::new()));
    round.transfer(Transfer::between([ArrayId(2), ArrayId(3)], [&by_columns(), &by_rows()], DType::F64, Vec::new()));
    let carried = vec![Carried { first: ArrayId(0), value: ArrayId(1), next: ArrayId(3) }];
    let mut repeat = Rounds { times: 2, until: None, carried };
    changed(&mut arrays, &mut repeat, &mut round);
    let statements = std::mem::take(&mut round.statements);
    round.repeat(repeat, statements);
    (arrays, round)
}

#[test]
fn rounds_that_do_not_leave_what_the_next_one_reads() {
    let (arrays, body) = rounds(|_, _, _| ());
    let program = program(DType::F32, arrays, body).expect("rounds");
    assert_eq!(program.report().traffic_bytes, 2 * 2 * 4 * 4, "two moves in each of two rounds, of 4 elements");
    let refused = |changed: &dyn Fn(&mut Vec<Array>, &mut Rounds, &mut Body)| {
        let (arrays, body) = rounds(changed);
        refusal(DType::F32, arrays, body)
    };
    // Rounds that occur twice, or that do not exist.
    let (arrays, mut body) = rounds(|_, _, _| ());
    let refusals = [
        refused(&|_, repeat, _| repeat.times = u64::MAX),
        refused(&|_, repeat, _| repeat.carried[0].next = ArrayId(9)),
        refused(&|_, repeat, _| repeat.carried[0].next = ArrayId(2)),
        refused(&|_, repeat, _| repeat.carried[0].next = ArrayId(0)),
        refused(&|_, repeat, _| repeat.carried[0].value = ArrayId(0)),
        refused(&|_, repeat, _| repeat.carried.push(repeat.carried[0])),
        refused(&|_, repeat, _| repeat.carried.clear()),
        refused(&|arrays, _, _| arrays[2].kind = ArrayKind::Output),
        refused(&|_, repeat, _| repeat.until = Some(Until { scalar: ArrayId(3), below: 1.0 })),
        refused(&|_, repeat, _| repeat.until = Some(Until { scalar: ArrayId(7), below: 1.0 })),
        refused(&|_, _, body| drop(body.statements.pop())),
        refused(&|_, _, body| body.statements.truncate(2)),
    ]
    .concat();
    expect![[r#"
        statement 1: it has 18446744073709551615 rounds, but at most 1099511627776 are allowed
        a repetition names array 9, but the program has 4 arrays, numbered from 0
        statement 1: `A`, [0 @ x], becomes `V`, [0 @ x], and then `T`, [1 @ x]; all three need the same sharding
        statement 1: `A` is written in each round, so it must be a temporary
        statement 1 writes `A`, which is an input or was written before
        statement 1: `V` or `N` is carried twice
        statement 1: it carries nothing, so each round repeats the first
        statement 1: each round writes the output `T`; carry it instead
        statement 1: `N` ends the rounds, so each round must write it, and every rank must hold it, a single element
        a repetition names array 7, but the program has 4 arrays, numbered from 0
        statement 1 reads `N`, which no statement before it writes
        statement 1 reads `N`, which no statement before it writes
    "#]]
    .assert_eq(&refusals);
    body.statements.push(body.statements[0].clone());
    check(DType::F32, arrays, body, expect!["statement 4: repetition 0, numbered from 0, runs twice"]);
    let (arrays, mut body) = rounds(|_, _, _| ());
    body.rounds.clear();
    check(
        DType::F32,
        arrays,
        body,
        expect!["a statement names repetition 0, but the program has 0 repetitions, numbered from 0"],
    );
    // A tile that is fetched once, where nothing is repeated.
    let ((mesh, x), [m, k]) = (mesh(), ["m", "k"].map(Var::new));
    let gathered = Schedule::from_spec(example::matmul(4, 4, 4)).distribute(["m"], ["mo"], ["mi"], &mesh);
    let gathered = gathered.shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]).lower();
    let mut body = gathered.expect("a program").body().clone();
    let stays: Vec<_> = body.transfers.iter().map(Transfer::can_stay).collect();
    body.fetch_once(|id| stays[id.0]);
    let kinds = [("A", ArrayKind::Input), ("B", ArrayKind::Input), ("C", ArrayKind::Output)];
    let arrays = kinds.map(|(name, kind)| array(name, by_rows(), kind)).to_vec();
    check(
        DType::F32,
        arrays,
        body,
        expect![
            "statement 1: `matmul` fetches `B` in the first round only, but is not inside rounds that leave `B` \
             unchanged, or its tile does not hold it"
        ],
    );
}

/// `V` has its ends from `U`, as long as it is the next version of `U`, and not the source of a move to it.
#[test]
fn what_is_carried_by_a_move_has_no_ends_that_its_kernel_does_not_write() {
    let (mesh, x) = mesh();
    let by = |placements: &[Placement]| sharding(&[12], placements);
    let (blocks, whole) = (by(&[Placement::block(0, x)]), by(&[]));
    let stencil = |written: &Sharding| {
        let stencil = Schedule::from_spec(super::flow::near()).distribute(["i"], ["io"], ["ii"], &mesh);
        let dims: &[_] = if *written == blocks { &[polyshard_dsl::dim(0).at(x)] } else { &[] };
        let stencil = stencil.shard("u", [polyshard_dsl::dim(0).at(x)]).shard("v", dims.iter().cloned());
        stencil.lower().expect("a program").body().clone()
    };
    let in_rounds = |written: &Sharding| {
        let mut arrays = vec![
            array("A", blocks.clone(), ArrayKind::Input),
            array("U", blocks.clone(), ArrayKind::Output),
            array("V", written.clone(), ArrayKind::Temporary),
        ];
        let mut round = Body::new(&mesh, DType::F64);
        round.run(&stencil(written), &[1, 2].map(ArrayId));
        if *written != blocks {
            arrays.push(array("V", blocks.clone(), ArrayKind::Temporary));
            round.transfer(Transfer::between([2, 3].map(ArrayId), [written, &blocks], DType::F64, Vec::new()));
        }
        let carried = vec![Carried { first: ArrayId(0), value: ArrayId(1), next: ArrayId(arrays.len() - 1) }];
        let statements = std::mem::take(&mut round.statements);
        round.repeat(Rounds { times: 2, until: None, carried }, statements);
        (arrays, round)
    };
    let (arrays, body) = in_rounds(&blocks);
    program(DType::F64, arrays, body).expect("`V` is the next version of `U`");
    let (arrays, body) = in_rounds(&whole);
    check(
        DType::F64,
        arrays,
        body,
        expect![
            "`near` does not write all of `V`, which is moved and then the next version of `U`: the other elements of `U` would be lost; \
             give all of them one sharding"
        ],
    );
}

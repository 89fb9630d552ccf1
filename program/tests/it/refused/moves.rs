//! Moves between arrays that do not fit, and by invalid routes.

use super::*;
use polyshard_program::{Algorithm, Direction, Owners, Pattern, Route};

#[test]
fn moves_between_arrays_that_do_not_fit() {
    let longer = sharding(&[5, 4], &[Placement::block(1, mesh().1)]);
    let arrays_of = |target| vec![array("A", by_rows(), ArrayKind::Input), array("B", target, ArrayKind::Output)];
    let error = check(
        DType::F32,
        arrays_of(longer),
        moves([(0, 1)]),
        expect!["statement 1: an array of shape [4, 4] cannot be moved to one of [5, 4]"],
    );
    assert!(matches!(error, ProgramError::Misfit { statement: StatementId(1), .. }));
    let elsewhere = Sharding::replicated(&Mesh::new([("x", 3)]), &[4, 4]);
    let kept = Sharding::new(&Mesh::new([("x", 3)]), &[4, 4], &[Placement::block(0, "x")]).expect("a sharding");
    let of_part = |kept: Sharding| {
        let mut body = moves([(0, 1)]);
        body.transfers[0].kept = Some(kept);
        body
    };
    let mut freed = moves([(0, 1)]);
    let refusals = [
        refusal(DType::F32, arrays_of(elsewhere), moves([(0, 1)])),
        refusal(DType::F32, arrays(), of_part(kept)),
        refusal(DType::F32, arrays(), of_part(sharding(&[4], &[Placement::block(0, mesh().1)]))),
    ]
    .concat();
    expect![[r#"
        statement 1: `B` is on 3 ranks, but the program runs on 2
        statement 1: the sharding to keep of `A` has [4, 4] on (x: 3), not [4, 4] on (x: 2)
        statement 1: the sharding to keep of `A` has [4] on (x: 2), not [4, 4] on (x: 2)
    "#]]
    .assert_eq(&refusals);
    freed.statements.push(Statement::Free(ArrayId(0)));
    expect![[r#"
        statement 1: the program frees arrays after their last use; leave `Free` out
    "#]]
    .assert_eq(&refusal(DType::F32, arrays(), freed));
}

#[test]
fn moves_by_invalid_routes() {
    let parts = || Leg::collective(vec![0], Owners::Parts);
    let exchange = || Leg::exchange([Reach::All]);
    let along = |direction: Direction, legs: &[Leg]| {
        let mut body = moves([(0, 1)]);
        body.transfers[0].direction = direction;
        body.transfers[0].route = Route::between_arrays(legs);
        body
    };
    let by = |legs: &[Leg]| along(Direction::In, legs);
    let closing = |legs: &[Leg]| along(Direction::Out { any_order: false }, legs);
    let everywhere_summed = || Leg::collective(vec![0], Owners::All).by(Algorithm::GatherTerms);
    let open = |placements: &[Placement]| sharding(&[4, 4], &[placements, &[Placement::partial(mesh().1)]].concat());
    let sums = || vec![array("A", open(&[]), ArrayKind::Input), array("B", by_rows(), ArrayKind::Output)];
    let summed = vec![array("A", open(&[]), ArrayKind::Input), array("B", sharding(&[4, 4], &[]), ArrayKind::Output)];
    let everywhere =
        || vec![array("A", by_rows(), ArrayKind::Input), array("B", sharding(&[4, 4], &[]), ArrayKind::Output)];
    let called = |pattern: Pattern, leg: Leg| {
        let mut body = by(&[leg]);
        body.transfers[0].called = Some(pattern);
        body
    };
    let gathered = Pattern::all_gather([mesh().1]);
    let accepted = program(DType::F64, everywhere(), called(gathered.clone(), parts()));
    let refusals = [
        refusal(
            DType::F64,
            sums(),
            closing(&[Leg::collective(vec![0], Owners::All).by(Algorithm::ReduceScatterGather)]),
        ),
        refusal(DType::F64, summed, closing(&[parts()])),
        refusal(DType::F64, arrays(), by(&[parts()])),
    ]
    .concat();
    expect![[r#"
        statement 1: `A` has an invalid route: it leaves sums on all ranks of a group, but the target divides them among these ranks
        statement 1: `A` has an invalid route: a reduce-scatter needs each rank's part to be one block of its group's terms
        statement 1: `A` has an invalid route: an all-gather needs groups whose shards, in order, make up each rank's part of the target
    "#]].assert_eq(&refusals);
    assert!(accepted.is_ok(), "{accepted:?}");
    let scalar = |placements: &[Placement]| sharding(&[], placements);
    let pinned = [0, 1].map(|at| scalar(&[Placement::pin(mesh().1, at)]));
    let scalars = pinned.into_iter().zip([ArrayKind::Input, ArrayKind::Output]);
    let refusals = [
        refusal(DType::F64, everywhere(), called(Pattern::Exchange, parts())),
        refusal(DType::F64, everywhere(), called(Pattern::Local, exchange())),
        refusal(DType::F64, everywhere(), called(Pattern::reduce([mesh().1]), exchange())),
    ]
    .concat();
    expect![[r#"
        statement 1: the move of `A` is called exchange, but is all_gather(x)
        statement 1: the move of `A` is called local, but is exchange
        statement 1: the move of `A` is called reduce(x), but is exchange
    "#]]
    .assert_eq(&refusals);
    let scalars = scalars.map(|(sharding, kind)| array("s", sharding, kind)).collect();
    let misled = "statement 1: `A` has an invalid route: its legs do not lead from the source's sharding to the \
                  target's";
    expect![[r#"
        statement 1: `s` has an invalid route: rows are to be sent without packing, but there are no rows
    "#]]
    .assert_eq(&refusal(DType::F64, scalars, by(&[exchange().laid_out()])));
    for body in [
        by(&[]),
        by(&[Leg::exchange([Reach::All; 2])]),
        by(&[Leg::Copy]),
        by(&[parts(), exchange()]),
        by(&[exchange(), Leg::with_one(vec![], &[])]),
        closing(&[exchange()]),
        along(Direction::Out { any_order: true }, &[exchange()]),
    ] {
        let error = program(DType::F64, arrays(), body).expect_err("no such route");
        assert_eq!(error.to_string(), misled);
    }
    for body in [by(&[exchange()]), along(Direction::Out { any_order: true }, &[exchange()])] {
        let error = program(DType::F64, sums(), body).expect_err("its sums are closed in order");
        assert_eq!(error.to_string(), misled);
    }
    let open_everywhere =
        || vec![array("A", open(&[]), ArrayKind::Input), array("B", sharding(&[4, 4], &[]), ArrayKind::Output)];
    for legs in [vec![Leg::with_one(vec![0], &[1])], vec![exchange(), everywhere_summed()]] {
        let error = program(DType::F64, open_everywhere(), closing(&legs)).expect_err("all own it");
        assert_eq!(error.to_string(), misled);
    }
    for (arrays, body) in [
        (everywhere(), by(&[parts().by(Algorithm::GatherTerms)])),
        (everywhere(), by(&[parts().by(Algorithm::EachPart)])),
        (open_everywhere(), closing(&[everywhere_summed().by(Algorithm::Library)])),
        (open_everywhere(), closing(&[everywhere_summed().by(Algorithm::Chain(2))])),
    ] {
        let error = program(DType::F64, arrays, body).expect_err("no such algorithm");
        assert_eq!(
            error.to_string(),
            "statement 1: `A` has an invalid route: its collective cannot be carried out by the algorithm that it names"
        );
    }
    let mut maxima = closing(&[everywhere_summed()]);
    maxima.transfers[0].op = Assign::Max;
    expect![[r#"
        statement 1: the terms of `A` are combined by `max=`, but only `+` works without a procedure
    "#]]
    .assert_eq(&refusal(DType::F64, open_everywhere(), maxima));
}

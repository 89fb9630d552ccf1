//! Moves between arrays that do not fit, and by invalid routes.

use super::*;
use polyshard_program::{Direction, Owners, Pattern, Way};

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
    check(
        DType::F32,
        arrays_of(elsewhere),
        moves([(0, 1)]),
        expect!["statement 1: `B` is on 3 ranks, but the program runs on 2"],
    );
    let kept = Sharding::new(&Mesh::new([("x", 3)]), &[4, 4], &[Placement::block(0, "x")]).expect("a sharding");
    let of_part = |kept: Sharding| {
        let mut body = moves([(0, 1)]);
        body.moves[0].kept = Some(kept);
        body
    };
    check(
        DType::F32,
        arrays(),
        of_part(kept),
        expect!["statement 1: the sharding to keep of `A` has [4, 4] on (x: 3), not [4, 4] on (x: 2)"],
    );
    check(
        DType::F32,
        arrays(),
        of_part(sharding(&[4], &[Placement::block(0, mesh().1)])),
        expect!["statement 1: the sharding to keep of `A` has [4] on (x: 2), not [4, 4] on (x: 2)"],
    );
    let mut freed = moves([(0, 1)]);
    freed.statements.push(Statement::Free(ArrayId(0)));
    check(
        DType::F32,
        arrays(),
        freed,
        expect!["statement 1: the program frees arrays after their last use; leave `Free` out"],
    );
}

#[test]
fn moves_by_ways_that_they_cannot_go() {
    let parts = || Leg::collective(vec![0], Owners::Parts);
    let exchange = || Way::new([Leg::exchange([Reach::All])]);
    let by = |way: Way| {
        let mut body = moves([(0, 1)]);
        body.moves[0].way = way;
        body
    };
    let open = |placements: &[Placement]| sharding(&[4, 4], &[placements, &[Placement::partial(mesh().1)]].concat());
    let sums = || vec![array("A", open(&[]), ArrayKind::Input), array("B", by_rows(), ArrayKind::Output)];
    check(
        DType::F64,
        arrays(),
        by(Way::closing([parts()])),
        expect!["statement 1: `A` has an invalid route: it adds up partial sums, but the target keeps them"],
    );
    check(
        DType::F64,
        sums(),
        by(exchange()),
        expect!["statement 1: `A` has an invalid route: it keeps partial sums, but the target needs them added up"],
    );
    check(
        DType::F64,
        sums(),
        by(Way::closing([Leg::collective(vec![0], Owners::All)]).in_pieces()),
        expect![
            "statement 1: `A` has an invalid route: it leaves sums on all ranks of a group, but the target divides \
             them among these ranks"
        ],
    );
    let summed = vec![array("A", open(&[]), ArrayKind::Input), array("B", sharding(&[4, 4], &[]), ArrayKind::Output)];
    check(
        DType::F64,
        summed,
        by(Way::closing([parts()])),
        expect![
            "statement 1: `A` has an invalid route: a reduce-scatter needs each rank's part to be one block of its \
             group's terms"
        ],
    );
    check(
        DType::F64,
        arrays(),
        by(Way::new([parts()])),
        expect![
            "statement 1: `A` has an invalid route: an all-gather needs groups whose shards, in order, make up each \
             rank's part of the target"
        ],
    );
    let everywhere =
        || vec![array("A", by_rows(), ArrayKind::Input), array("B", sharding(&[4, 4], &[]), ArrayKind::Output)];
    let called = |pattern: Pattern, way: Way| {
        let mut body = by(way);
        body.moves[0].pattern = pattern;
        body
    };
    let gathered = Pattern::all_gather([mesh().1]);
    let accepted = Program::new(&mesh().0, DType::F64, everywhere(), called(gathered.clone(), Way::new([parts()])));
    assert!(accepted.is_ok(), "{accepted:?}");
    check(
        DType::F64,
        everywhere(),
        called(Pattern::Exchange, Way::new([parts()])),
        expect!["statement 1: the move of `A` is called exchange, but is all_gather(x)"],
    );
    check(
        DType::F64,
        everywhere(),
        called(Pattern::Local, exchange()),
        expect!["statement 1: the move of `A` is called local, but is exchange"],
    );
    check(
        DType::F64,
        everywhere(),
        called(Pattern::reduce([mesh().1]), exchange()),
        expect!["statement 1: the move of `A` is called reduce(x), but is exchange"],
    );
    let scalar = |placements: &[Placement]| sharding(&[], placements);
    let pinned = [0, 1].map(|at| scalar(&[Placement::pin(mesh().1, at)]));
    let scalars = pinned.into_iter().zip([ArrayKind::Input, ArrayKind::Output]);
    let scalars = scalars.map(|(sharding, kind)| array("s", sharding, kind)).collect();
    check(
        DType::F64,
        scalars,
        by(exchange().laid_out()),
        expect![
            "statement 1: `s` has an invalid route: rows are to be sent without packing, but it is not an exchange, \
             or there are no rows"
        ],
    );
    let misled = "statement 1: `A` has an invalid route: its legs do not lead from the source's sharding to the \
                  target's";
    for way in [
        Way::new([]),
        Way::new([Leg::exchange([Reach::All; 2])]),
        Way::new([Leg::Copy]),
        Way::new([parts(), Leg::exchange([Reach::All])]),
        Way { direction: Direction::Out { any_order: true }, ..Way::new([Leg::exchange([Reach::All])]) },
    ] {
        let arrays = if way.closes_sums() { sums() } else { arrays() };
        let error = Program::new(&mesh().0, DType::F64, arrays, by(way)).expect_err("no such way");
        assert_eq!(error.to_string(), misled);
    }
    let open_everywhere =
        || vec![array("A", open(&[]), ArrayKind::Input), array("B", sharding(&[4, 4], &[]), ArrayKind::Output)];
    for legs in
        [vec![Leg::with_one(vec![0], &[1])], vec![Leg::exchange([Reach::All]), Leg::collective(vec![0], Owners::All)]]
    {
        let error =
            Program::new(&mesh().0, DType::F64, open_everywhere(), by(Way::closing(legs))).expect_err("all own it");
        assert_eq!(error.to_string(), misled);
    }
    check(
        DType::F64,
        arrays(),
        by(exchange().in_pieces()),
        expect![
            "statement 1: `A` has an invalid route: each rank is to add up a piece, but no partial sums are added in groups"
        ],
    );
    let mut maxima = by(Way::closing([Leg::collective(vec![0], Owners::All)]));
    maxima.moves[0].op = Assign::Max;
    check(
        DType::F64,
        open_everywhere(),
        maxima,
        expect!["statement 1: the terms of `A` are combined by `max=`, but only `+` works without a procedure"],
    );
}

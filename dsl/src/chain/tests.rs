//! Chains printed as steps, and their mistakes with the text that the error points at.

use crate::tests::check_chains as check;
use expect_test::expect;

#[test]
fn every_step_clause_and_pattern_is_read() {
    check(expect![[r#"
        mesh(x: 2, y: 1 + 1) .split(m, mo, mi, 64) .divide(k, ko, ki, 4 / 2,) .reorder([mo, no, ko,]) .fuse(i, j, f) .distribute([m, n], [mo, no], [mi, ni]) .replicate(mesh(w: 3)) .rotate(ko, [mo, no]) .shard(A, m @ x, k @ y) .shard(A) .communicate(A, ko) .pipeline(ko, 1) .halo(A, 3) .interior_first(A) .reassociate(C) .tensorize([mi, ni, ki]) .tensorize_as([mi], contraction) .tensorize_as([mi], nest) .tensorize_with([mi, ni], block_product) .expect(A, local) .expect_overlap(A, 0.875) .expect_overlap(B, 1) .together([S, A,], jo) .apart(Y)
            split(m, mo, mi, 64)
            divide(k, ko, ki, 2)
            reorder([mo, no, ko])
            fuse(i, j, f)
            distribute([m, n], [mo, no], [mi, ni], mesh(x: 2, y: 2))
            replicate(mesh(w: 3))
            rotate(ko, [mo, no])
            shard(A, m @ x, k @ y)
            shard(A)
            communicate(A, ko)
            pipeline(ko, 1)
            halo(A, 3)
            interior_first(A)
            reassociate(C)
            tensorize([mi, ni, ki])
            tensorize_as([mi], contraction)
            tensorize_as([mi], nest)
            tensorize_with([mi, ni], block_product)
            expect(A, local)
            expect_overlap(A, 0.875)
            expect_overlap(B, 1)
            together([S, A], jo)
            apart(Y)
        .shard(A, m @ [x, y], k @ ((x + y) % 2), n @ (y - x) % 3, i @ 2 * x + y * 3 - 1, j @ cyclic(x, 16), l @ cyclic([x, y], 4), dim(0) @ x, pin(z, 0), q @ -x, pin @ x, r @ 0, s @ x @ y, t @ [x, y] @ (z + 1) % 2 @ cyclic(w, 2), u @ cyclic(x, 3) @ 0)
            shard(A, m @ [x, y], k @ (x + y) % 2, n @ (y - x) % 3, i @ (2 * x + 3 * y - 1), j @ cyclic(x, 16), l @ cyclic([x, y], 4), dim(0) @ x, pin(z, 0), q @ (-x), pin @ x, r @ 0, s @ x @ y, t @ [x, y] @ (z + 1) % 2 @ cyclic(w, 2), u @ cyclic(x, 3) @ 0)
        .expect(A, local) .expect(A, broadcast(x, y)) .expect(A, shift(x, -1)) .expect(A, permute) .expect(A, all_gather([x])) .expect(A, exchange)
            expect(A, local)
            expect(A, broadcast(x, y))
            expect(A, shift(x, -1))
            expect(A, permute)
            expect(A, all_gather(x))
            expect(A, exchange)
    "#]]);
}

#[test]
fn a_mesh_is_given_once_and_used() {
    check(expect![[r#"
        mesh(x: 2) .distribute([m], [mo], [mi]) .distribute([mi], [mio], [mii], mesh(z: 3))
            distribute([m], [mo], [mi], mesh(x: 2))
            distribute([mi], [mio], [mii], mesh(z: 3))
        .distribute([m], [mo], [mi], mesh(x: 2, y: 2))
            distribute([m], [mo], [mi], mesh(x: 2, y: 2))
        mesh(x: 2) .distribute([m], [mo], [mi], mesh(x: 2))
            error on `distribute`: the first mesh is given twice
              help: write it once, before the first step or as last argument of the first `distribute`
        .distribute([m], [mo], [mi]) .communicate(A, k)
            error on `distribute`: there is no mesh
              help: write it before the first step: `mesh(x: 2, y: 2)`
        mesh(x: 2) .distribute([m], [mo], [mi]) .distribute([n], [no], [ni])
            error on `distribute`: there is no mesh for this `distribute`
              help: give the inner mesh as last argument: `.distribute([mi], [mio], [mii], mesh(z: 2))`
        mesh(x: 2) .tensorize([m])
            error on `mesh`: the mesh is not used
              help: distribute loops over it: `.distribute([m, n], [mo, no], [mi, ni])`
        mesh(x: 2)
            error on `mesh`: the mesh is not used
              help: distribute loops over it: `.distribute([m, n], [mo, no], [mi, ni])`
        mesh(x, y: 2).distribute([m], [mo], [mi])
            error on `x`: axis `x` has no extent
              help: write the mesh as `mesh(x: 2, y: 2)`
        mesh(x: 2, x: 2).distribute([m], [mo], [mi])
            error on `x`: two axes are named `x`
              help: give each axis a name of its own
        mesh(x: 0).distribute([m], [mo], [mi])
            error on `0`: axis `x` has extent 0
              help: an axis has at least one coordinate
        mesh(x: 65536, y: 65536).distribute([m], [mo], [mi])
            error on `65536`: the mesh has more than 2^31 ranks
              help: use a smaller mesh
        mesh(x: p).distribute([m], [mo], [mi])
            error on `p`: expected a number that is known when the crate is compiled
              help: write literals and arithmetic on them, or use the chain as methods
    "#]]);
}

#[test]
fn arguments_and_clauses_are_complete_and_of_their_kind() {
    check(expect![[r#"
        .tile(m, 4) .lower()
            error on `tile`: no schedule step `tile`
              help: the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`
            error on `lower`: no schedule step `lower`
              help: the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`
        .split(m, mo, mi) .divide(k) .reorder() .fuse(i, j) .rotate(ko) .shard() .communicate(A) .tensorize_as([m]) .tensorize_with([m]) .expect(A)
            error on `)`: expected `,`
              help: write `.split(k, ko, ki, 64)`
            error on `)`: expected `,`
              help: write `.divide(k, ko, ki, 2)`
            error on `)`: unexpected end of input, expected square brackets
              help: write `.reorder([mo, no, ko, mi, ni, ki])`
            error on `)`: expected `,`
              help: write `.fuse(i, j, f)`
            error on `)`: expected `,`
              help: write `.rotate(ko, [mo, no])`
            error on `)`: unexpected end of input, expected identifier
              help: write `.shard(A, m @ x, k @ y)`
            error on `)`: expected `,`
              help: write `.communicate(A, ko)`
            error on `)`: expected `,`
              help: write `.tensorize_as([mi, ni, ki], contraction)`
            error on `)`: expected `,`
              help: write `.tensorize_with([mi, ni, ki], block_product)`
            error on `)`: expected `,`
              help: write `.expect(A, shift(y, 1))`
        .split(m, 2, mi, 3) .reorder(m, n) .rotate(ko, mo) .communicate(A, ko, 2) .tensorize([mi + 1]) .split(m, mo, mi, size) .split(m, mo, mi, -1) .divide(m, mo, mi, 1 / 0) .distribute([m], [mo], [mi], grid(x: 2))
            error on `2`: expected identifier
              help: write `.split(k, ko, ki, 64)`
            error on `m`: expected square brackets
              help: write `.reorder([mo, no, ko, mi, ni, ki])`
            error on `mo`: expected square brackets
              help: write `.rotate(ko, [mo, no])`
            error on `2`: unexpected argument
              help: write `.communicate(A, ko)`
            error on `+`: expected `,`
              help: write `.tensorize([mi, ni, ki])`
            error on `size`: expected a number that is known when the crate is compiled
              help: write literals and arithmetic on them, or use the chain as methods
            error on `-1`: -1 is negative
              help: write a number of at least 0
            error on `1 / 0`: expected a number that is known when the crate is compiled
              help: write literals and arithmetic on them, or use the chain as methods
            error on `grid`: expected `mesh(..)`, found `grid`
              help: write the mesh as `mesh(z: 2)`
        .shard(A, m) .shard(A, m.on(x)) .shard(A, m.at(x * y)) .shard(A, m.cyclic(x)) .shard(A, m @ x * y) .shard(A, m @ f(x)) .shard(A, m @ x % y) .shard(A, m @ cyclic(x)) .shard(A, pin(z)) .shard(A, m @ a::b) .shard(A, m @ 99999999999 * x) .shard(A, m @ x @) .shard(A, m @ x @ f(y)) .shard(A, m @)
            error on `m`: expected a dimension and its axes
              help: write `m @ x`, `m @ [x, y]`, `m @ x @ y`, `m @ cyclic(x, 16)`, `pin(z, 0)`, or `partial(z)`
            error on `on`: unknown division of a dimension, `on`
              help: write `.at(x)` or `.cyclic(x, 16)`
            error on `x * y`: this is not an expression over mesh axes
              help: write an axis `x`, several `[x, y]`, or a sum of axes with its remainder `(x + y) % 2`
            error on `)`: expected `,`
              help: write `.shard(A, m @ x, k @ y)`
            error on `x * y`: this is not an expression over mesh axes
              help: write an axis `x`, several `[x, y]`, or a sum of axes with its remainder `(x + y) % 2`
            error on `f(x)`: this is not an expression over mesh axes
              help: write an axis `x`, several `[x, y]`, or a sum of axes with its remainder `(x + y) % 2`
            error on `x % y`: this is not an expression over mesh axes
              help: write an axis `x`, several `[x, y]`, or a sum of axes with its remainder `(x + y) % 2`
            error on `)`: expected `,`
              help: write `.shard(A, m @ x, k @ y)`
            error on `)`: expected `,`
              help: write `.shard(A, m @ x, k @ y)`
            error on `a::b`: this is not an expression over mesh axes
              help: write an axis `x`, several `[x, y]`, or a sum of axes with its remainder `(x + y) % 2`
            error on `99999999999`: 99999999999 does not fit 32 bits
              help: use smaller numbers
            error on `)`: unexpected end of input, expected an expression
              help: write `.shard(A, m @ x, k @ y)`
            error on `f(y)`: this is not an expression over mesh axes
              help: write an axis `x`, several `[x, y]`, or a sum of axes with its remainder `(x + y) % 2`
            error on `)`: unexpected end of input, expected an expression
              help: write `.shard(A, m @ x, k @ y)`
    "#]]);
}

#[test]
fn clauses_are_written_as_the_methods_have_them() {
    let steps = |text: &str| {
        let chain = crate::parse_chain(text, None).expect("a chain");
        chain.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        steps(".shard(A, m.at(x), k.at([y, z])).shard(B, dim(0).cyclic((x + y) % 2, 16), n.at(y).at(z), pin(z, 0))"),
        ["shard(A, m @ x, k @ [y, z])", "shard(B, dim(0) @ cyclic((x + y) % 2, 16), n @ y @ z, pin(z, 0))"]
    );
}

#[test]
fn names_are_those_of_steps_and_patterns() {
    check(expect![[r#"
        .expect(A, ring) .expect(A, shift(x)) .expect(A, broadcast) .tensorize_as([m], gemm)
            error on `ring`: no pattern `ring`
              help: the patterns are `local`, `broadcast(x, y)`, `shift(x, 1)`, `permute`, `all_gather(x)`, `halo(x: -1..=1)` and `exchange`, and of outputs also `reduce(x)`, `all_reduce(x)` and `reduce_scatter(x)`
            error on `)`: expected `,`
              help: write `.expect(A, shift(y, 1))`
            error on `)`: unexpected end of input, expected parentheses
              help: write `.expect(A, shift(y, 1))`
            error on `gemm`: no leaf `gemm`
              help: the leaves are `contraction` and `nest`
        .devide(k, ko, ki, 2) .Shard(A, m @ x) .comunicate(A, ko) .expect(A, allgather(x)) .expect(A, brodcast(x))
            error on `devide`: no schedule step `devide`
              help: did you mean `divide`? the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`
            error on `Shard`: no schedule step `Shard`
              help: did you mean `shard`? the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`
            error on `comunicate`: no schedule step `comunicate`
              help: did you mean `communicate`? the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`
            error on `allgather`: no pattern `allgather`
              help: did you mean `all_gather`? the patterns are `local`, `broadcast(x, y)`, `shift(x, 1)`, `permute`, `all_gather(x)`, `halo(x: -1..=1)` and `exchange`, and of outputs also `reduce(x)`, `all_reduce(x)` and `reduce_scatter(x)`
            error on `brodcast`: no pattern `brodcast`
              help: did you mean `broadcast`? the patterns are `local`, `broadcast(x, y)`, `shift(x, 1)`, `permute`, `all_gather(x)`, `halo(x: -1..=1)` and `exchange`, and of outputs also `reduce(x)`, `all_reduce(x)` and `reduce_scatter(x)`
    "#]]);
}

#[test]
fn a_chain_is_a_mesh_and_steps() {
    check(expect![[r#"
        grid(x: 2) .tensorize([m])
            error on `grid`: expected the schedule, found `grid`
              help: a schedule is `mesh(x: 2, y: 2)` and then steps, `.distribute([m, n], [mo, no], [mi, ni])`
        mesh(x: 2) distribute([m], [mo], [mi])
            error on `distribute([m], [mo], [mi])`: expected `.` and a schedule step
              help: a schedule is `mesh(x: 2, y: 2)` and then steps, `.distribute([m, n], [mo, no], [mi, ni])`
        mesh(x: 2).tensorize
            error on ``: unexpected end of input, expected parentheses
    "#]]);
}

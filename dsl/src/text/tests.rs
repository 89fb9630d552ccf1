//! Steps are parsed as they print, and every mistake of a text has its place.

use super::{parse_chain, parse_kernel};
use crate::step::{Clause, Dim, Step};
use crate::tests::check_all;
use expect_test::expect;
use polyshard_layout::{AxisExpr, Division, Mesh, Name};
use polyshard_program::{LeafKind, Offsets, Pattern};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Name> {
    let words = ["type", "in", "for", "yield", "mesh", "pin", "dim", "cyclic", "partial", "local", "r", "b", "été"];
    let texts = prop_oneof!["[a-zA-Z_][a-zA-Z0-9_]{0,5}", prop::sample::select(words.to_vec()).prop_map(String::from)];
    let free = |text: &String| !["_", "self", "Self", "super", "crate"].contains(&text.as_str());
    texts.prop_filter("it cannot be a name", free).prop_map(|text| Name::new(&text))
}

fn names() -> impl Strategy<Value = Vec<Name>> {
    vec(name(), 0..4)
}

fn small() -> impl Strategy<Value = i64> {
    any::<i32>().prop_map(i64::from)
}

fn mesh() -> impl Strategy<Value = Mesh> {
    (btree_set(name(), 0..4), vec(1..1000_usize, 3))
        .prop_map(|(names, extents)| Mesh::new(names.into_iter().zip(extents)))
}

fn axes() -> impl Strategy<Value = AxisExpr> {
    let leaf = prop_oneof![
        small().prop_map(AxisExpr::Const),
        name().prop_map(AxisExpr::Axis),
        names().prop_map(AxisExpr::List)
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        let one = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (one(), one()).prop_map(|(left, right)| AxisExpr::Add(left, right)),
            (one(), one()).prop_map(|(left, right)| AxisExpr::Sub(left, right)),
            (one(), small()).prop_map(|(inner, factor)| AxisExpr::Mul(inner, factor)),
            (one(), small()).prop_map(|(inner, modulus)| AxisExpr::Mod(inner, modulus)),
        ]
    })
}

fn clause() -> impl Strategy<Value = Clause> {
    let dim = prop_oneof![name().prop_map(Dim::Var), any::<usize>().prop_map(Dim::Number)];
    let level = || {
        let block = axes().prop_map(|at| Division::Block { at });
        prop_oneof![block, (axes(), any::<usize>()).prop_map(|(at, block)| Division::Cyclic { at, block })]
    };
    let divided = (dim, level(), vec(level(), 0..3)).prop_map(|(dim, outer, inner)| {
        let outer = match outer {
            Division::Block { at } => dim.at(at),
            Division::Cyclic { at, block } => dim.cyclic(at, block),
        };
        inner.into_iter().fold(outer, |clause, level| match level {
            Division::Block { at } => clause.at(at),
            Division::Cyclic { at, block } => clause.cyclic(at, block),
        })
    });
    prop_oneof![
        4 => divided,
        1 => (name(), any::<usize>()).prop_map(|(axis, coordinate)| Clause::Pin { axis, coordinate }),
        1 => name().prop_map(|axis| Clause::Partial { axis }),
    ]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let offsets = (name(), small(), small()).prop_map(|(axis, low, high)| Offsets { axis, low, high });
    let one = prop_oneof![
        Just(Pattern::Local),
        Just(Pattern::Permute),
        Just(Pattern::Exchange),
        names().prop_map(Pattern::broadcast),
        names().prop_map(Pattern::all_gather),
        names().prop_map(|axes| Pattern::AllToAll { axes }),
        names().prop_map(Pattern::reduce),
        names().prop_map(Pattern::all_reduce),
        names().prop_map(Pattern::reduce_scatter),
        (name(), small()).prop_map(|(axis, by)| Pattern::shift(axis, by)),
        vec(offsets, 0..3).prop_map(|reach| Pattern::Halo { reach }),
    ];
    vec(one, 1..4).prop_map(|patterns| patterns.into_iter().reduce(Pattern::then).expect("there is one"))
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![Just(LeafKind::Contraction), Just(LeafKind::Nest), name().prop_map(LeafKind::Named)];
    let three = || (name(), name(), name());
    let loops = (names(), names(), names(), mesh());
    prop_oneof![
        (three(), any::<usize>()).prop_map(|((i, outer, inner), size)| Step::Split { i, outer, inner, size }),
        (three(), any::<usize>()).prop_map(|((i, outer, inner), parts)| Step::Divide { i, outer, inner, parts }),
        names().prop_map(|order| Step::Reorder { order }),
        three().prop_map(|(i, j, fused)| Step::Fuse { i, j, fused }),
        loops.prop_map(|(loops, outer, inner, mesh)| Step::Distribute { loops, outer, inner, mesh }),
        mesh().prop_map(|mesh| Step::Replicate { mesh }),
        (name(), names()).prop_map(|(t, by)| Step::Rotate { t, by }),
        (name(), vec(clause(), 0..4)).prop_map(|(tensor, clauses)| Step::Shard { tensor, clauses }),
        (name(), name()).prop_map(|(tensor, at)| Step::Communicate { tensor, at }),
        (name(), any::<usize>()).prop_map(|(t, depth)| Step::Pipeline { t, depth }),
        (name(), any::<usize>()).prop_map(|(tensor, steps)| Step::Halo { tensor, steps }),
        name().prop_map(|tensor| Step::InteriorFirst { tensor }),
        name().prop_map(|tensor| Step::Reassociate { tensor }),
        (names(), prop::option::of(kind)).prop_map(|(loops, kind)| Step::Tensorize { loops, kind }),
        (name(), pattern()).prop_map(|(tensor, pattern)| Step::Expect { tensor, pattern }),
        (name(), 0.0..=1.0).prop_map(|(tensor, share)| Step::ExpectOverlap { tensor, share: crate::Share::new(share) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_step_reads_as_it_prints(step in step()) {
        prop_assert_eq!(step.to_string().parse(), Ok(step));
    }

    #[test]
    fn a_chain_reads_as_it_prints(steps in vec(step(), 0..6)) {
        let text: String = steps.iter().map(|step| format!(".{step}\n")).collect();
        prop_assert_eq!(parse_chain(&text, None), Ok(steps));
    }
}

fn kernel(text: &str) -> String {
    match parse_kernel(text) {
        Ok(kernel) => kernel.check().expect("it was checked").to_string(),
        Err(error) => error.to_string(),
    }
}

fn chain(text: &str, mesh: Option<&Mesh>) -> String {
    match parse_chain(text, mesh) {
        Ok(steps) => steps.iter().map(|step| format!("{step}\n")).collect(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_kernel_is_read_as_the_macro_reads_it_and_its_mistakes_have_their_places() {
    check_all(
        expect![[r#"
        /// Three points.⏎fn blur(A: [f32; 2 * 9]) -> B: [f32; 18] {⏎    // The rim stays.⏎    B[i] = 0.5 * A[(i - 1) % 18] + A[i + 1] for i in 0..17⏎}⏎
            fn blur(A: [f32; 18]) -> B: [f32; 18] {
                B[i] = 0.5 * A[(i - 1) % 18] + A[i + 1] for i in 0..17
            }
        fn f(A: [T; n, 4]) -> B: [T; n, 4] {⏎    B[i, j] = alpha * A[(i + 1) % n, j]⏎}
            line 1, column 10: a text needs a literal element type
            help: write `f32`, `f64`, `i32` or `i64`
            line 1, column 13: a text needs literal extents
            help: write a number
            line 1, column 30: a text needs literal extents
            help: write a number
            line 2, column 15: there is no value for `alpha`, since text cannot capture variables
            help: write a number, or a tensor of no dimensions: `alpha: f32` and `alpha[]`
            line 2, column 35: a text needs literal moduli
            help: write a number
        fn f(A: [f32; 4]) -> B: [f32; 4] {⏎    B[i] = D[i] + A[q * q]⏎}
            line 2, column 12: no tensor `D`
            help: the inputs are `A`
            line 2, column 21: this index is not affine
            help: an index is a sum of multiples of variables and a number, such as `2*i + r - 1`
            line 2, column 21: index `q` never appears alone, so its extent is unknown
            help: give its range: `for q in 0..n`; a constant in an index is written as a number, and `A[(n - 1 - i) % n]` reads a dimension backwards
        fn f(A: [f32; 4])
            line 1, column 18: expected the output
            help: name the output and its extents: `-> C: [f32; m, n]`
        fn f(A: [f32; 4]) -> B: [f32; 4] { B[i] = A[i] }⏎.split(i, a, b, 2)
            line 2, column 1: unexpected token
        fn f(A: [f32; 4]) -> B: [f32; 4] {⏎  B[i] = A[i]
            line 1, column 34: `{` is not closed
            help: write `}` where it ends
        fn f(A: [f32; 4]) -> B: [f32; 4] {⏎  B[i] = A[i] /* twice⏎}
            line 2, column 15: `/*` is not closed
            help: write `*/` where the comment ends
        fn f(A: ["f32; 4]) -> B: [f32; 4] { B[i] = A[i] }
            line 1, column 10: `"` is not closed
            help: write `"` where the quoted text ends
        fn f(A: [f32; 4]) -> B: [f32; 4] {⏎  B[i] = é * A'[i] }
            line 2, column 15: `'` has no meaning here
            help: write names and numbers without quotes
        fn f(A: [f32; 4]) -> B: [f32; 4] { B[i] = A[i] × 2 }
            line 1, column 48: `×` has no meaning here
            help: leave it out, or write a name, a number or a sign that has one
    "#]],
        kernel,
    );
    assert_eq!(kernel(""), "line 1, column 1: unexpected end of input, expected `fn`");
}

#[test]
fn the_mesh_of_a_chain_is_given_or_written() {
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    check_all(
        expect![[r#"
        .distribute([m, n], [mo, no], [mi, ni]).shard(A, m @ x)
            distribute([m, n], [mo, no], [mi, ni], mesh(x: 2, y: 3))
            shard(A, m @ x)
        mesh(x: 4) .distribute([m], [mo], [mi])
            line 1, column 1: the mesh is given twice
            help: leave it out of the chain, or write it only there
    "#]],
        |text| chain(text, Some(&mesh)),
    );
}

#[test]
fn mistakes_of_a_chain_have_their_places() {
    check_all(
        expect![[r#"
        mesh(x: 4) .distribute([m], [mo], [mi])
            distribute([m], [mo], [mi], mesh(x: 4))
        .distribute([m], [mo], [mi])
            line 1, column 2: there is no mesh
            help: write it before the first step: `mesh(x: 2, y: 2)`
        ⏎.split(k, ko, ki, n)⏎  .shard(A, m @ f(x)).tile()⏎
            line 2, column 19: expected a number
            help: write literals and arithmetic on them
            line 3, column 17: this is not an expression over mesh axes
            help: write an axis `x`, several `[x, y]`, or a sum of axes with its remainder `(x + y) % 2`
            line 3, column 23: no schedule step `tile`
            help: the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `of` and `of_all`
        .split(k, ko, ki, 2) split
            line 1, column 22: expected `.` and a schedule step
            help: a schedule is `mesh(x: 2, y: 2)` and then steps, `.distribute([m, n], [mo, no], [mi, ni])`
        .split
            line 1, column 7: unexpected end of input, expected parentheses
        .split(k]
            line 1, column 7: `(` is not closed
            help: write `)` where it ends
    "#]],
        |text| chain(text, None),
    );
}

#[test]
fn a_step_alone_has_its_mesh() {
    let error = "distribute([m], [mo], [mi])".parse::<Step>().expect_err("there is no mesh");
    expect![[r#"
        line 1, column 1: there is no mesh for this `distribute`
        help: give it as last argument: `distribute([m], [mo], [mi], mesh(x: 2))`"#]]
    .assert_eq(&error.to_string());
    let error = Step::try_from(String::from("shard(A) shard(B)")).expect_err("there are two");
    expect!["`shard(A) shard(B)` is not a schedule step: at its character 10: unexpected token"].assert_eq(&error);
}

#[test]
fn texts_of_any_length_and_depth_end_in_an_answer() {
    for (n, good) in [(150, true), (50_000, false)] {
        let wrapped = |open: &str, close: &str| [&open.repeat(n), "x", &close.repeat(n)].concat();
        for expr in [wrapped("-", ""), wrapped("(", ")"), wrapped("", " + x"), wrapped("-(", ")")] {
            assert_eq!(format!("shard(A, m @ ({expr}) % 2)").parse::<Step>().is_ok(), good, "{n}");
            let value = expr.replace('x', "A[i]");
            let kernel = format!("fn f(A: [f32; 4]) -> B: [f32; 4] {{ B[i] = {value} }}");
            assert_eq!(parse_kernel(&kernel).is_ok(), good, "{n}");
        }
        let extent = format!("fn f(A: [f32; {}]) -> B: [f32; 4] {{ B[i] = A[i] }}", wrapped("!", ""));
        assert!(parse_kernel(&extent).is_err());
        assert!(parse_kernel(&format!("fn f() -> B: {}f32 {{ B[] = 1 }}", "&".repeat(n))).is_err());
        assert!(parse_chain(&".split(a, b, c, 2)".repeat(n), None).is_ok());
    }
}

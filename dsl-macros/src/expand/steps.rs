//! Schedule steps as expressions that build them again.

use super::{interned, private};
use polyshard_layout::{AxisExpr, Level, Mesh, Name};
use polyshard_program::{Clause, Dim, LeafKind, Pattern, Step};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// Returns the expression for a step.
pub(crate) fn step(step: &Step) -> TokenStream {
    let p = private();
    let fields = match step {
        Step::Split { i, outer, inner, size } => {
            let (i, outer, inner) = (interned(*i), interned(*outer), interned(*inner));
            quote!(Split { i: #i, outer: #outer, inner: #inner, size: #size })
        }
        Step::Divide { i, outer, inner, parts } => {
            let (i, outer, inner) = (interned(*i), interned(*outer), interned(*inner));
            quote!(Divide { i: #i, outer: #outer, inner: #inner, parts: #parts })
        }
        Step::Reorder { order } => {
            let order = names(order);
            quote!(Reorder { order: #order })
        }
        Step::Fuse { i, j, fused } => {
            let (i, j, fused) = (interned(*i), interned(*j), interned(*fused));
            quote!(Fuse { i: #i, j: #j, fused: #fused })
        }
        Step::Distribute { loops, outer, inner, mesh } => {
            let (loops, outer, inner, mesh) = (names(loops), names(outer), names(inner), self::mesh(mesh));
            quote!(Distribute { loops: #loops, outer: #outer, inner: #inner, mesh: #mesh })
        }
        Step::Rotate { t, by } => {
            let (t, by) = (interned(*t), names(by));
            quote!(Rotate { t: #t, by: #by })
        }
        Step::Shard { tensor, clauses } => {
            let (tensor, clauses) = (interned(*tensor), clauses.iter().map(clause));
            quote!(Shard { tensor: #tensor, clauses: ::std::vec![#(#clauses),*] })
        }
        Step::Communicate { tensor, at } => {
            let (tensor, at) = (interned(*tensor), interned(*at));
            quote!(Communicate { tensor: #tensor, at: #at })
        }
        Step::Reassociate { tensor } => {
            let tensor = interned(*tensor);
            quote!(Reassociate { tensor: #tensor })
        }
        Step::Tensorize { loops, kind } => {
            let loops = names(loops);
            let kind = match kind {
                None => quote!(::std::option::Option::None),
                Some(LeafKind::Contraction) => quote!(::std::option::Option::Some(#p::LeafKind::Contraction)),
                Some(LeafKind::Nest) => quote!(::std::option::Option::Some(#p::LeafKind::Nest)),
                Some(LeafKind::Named(name)) => {
                    let name = interned(*name);
                    quote!(::std::option::Option::Some(#p::LeafKind::Named(#name)))
                }
            };
            quote!(Tensorize { loops: #loops, kind: #kind })
        }
        Step::Expect { tensor, pattern } => {
            let (tensor, pattern) = (interned(*tensor), self::pattern(pattern));
            quote!(Expect { tensor: #tensor, pattern: #pattern })
        }
    };
    quote!(#p::Step::#fields)
}

fn names(names: &[Name]) -> TokenStream {
    let names = names.iter().map(|name| interned(*name));
    quote!(::std::vec![#(#names),*])
}

fn mesh(mesh: &Mesh) -> TokenStream {
    let p = private();
    if mesh.ndim() == 0 {
        return quote!(#p::Mesh::default());
    }
    let axes = mesh.as_slice().iter().map(|axis| {
        let (name, extent) = (axis.name.as_str(), axis.extent);
        quote!((#name, #extent))
    });
    quote!(#p::Mesh::new([#(#axes),*]))
}

fn clause(clause: &Clause) -> TokenStream {
    let p = private();
    let dim = |dim: &Dim| match dim {
        Dim::Var(name) => {
            let name = interned(*name);
            quote!(#p::Dim::Var(#name))
        }
        Dim::Number(number) => quote!(#p::Dim::Number(#number)),
    };
    match clause {
        Clause::Block { dim: placed, at } => {
            let (placed, at) = (dim(placed), axes(at));
            quote!(#p::Clause::Block { dim: #placed, at: #at })
        }
        Clause::Cyclic { dim: placed, at, block } => {
            let (placed, at) = (dim(placed), axes(at));
            quote!(#p::Clause::Cyclic { dim: #placed, at: #at, block: #block })
        }
        Clause::Levels { outer, inner } => {
            let (outer, inner) = (self::clause(outer), inner.iter().map(level));
            quote!(#p::Clause::Levels { outer: ::std::boxed::Box::new(#outer), inner: ::std::vec![#(#inner),*] })
        }
        Clause::Pin { axis, coordinate } => {
            let axis = interned(*axis);
            quote!(#p::Clause::Pin { axis: #axis, coordinate: #coordinate })
        }
        Clause::Partial { axis } => {
            let axis = interned(*axis);
            quote!(#p::Clause::Partial { axis: #axis })
        }
    }
}

fn level(level: &Level) -> TokenStream {
    let p = private();
    match level {
        Level::Block { at } => {
            let at = axes(at);
            quote!(#p::Level::Block { at: #at })
        }
        Level::Cyclic { at, block } => {
            let at = axes(at);
            quote!(#p::Level::Cyclic { at: #at, block: #block })
        }
    }
}

fn axes(expr: &AxisExpr) -> TokenStream {
    let p = private();
    let boxed = |expr: &AxisExpr| {
        let expr = axes(expr);
        quote!(::std::boxed::Box::new(#expr))
    };
    let fields = match expr {
        AxisExpr::Const(value) => quote!(Const(#value)),
        AxisExpr::Axis(name) => {
            let name = interned(*name);
            quote!(Axis(#name))
        }
        AxisExpr::List(list) => {
            let list = names(list);
            quote!(List(#list))
        }
        AxisExpr::Add(a, b) | AxisExpr::Sub(a, b) => {
            let variant = format_ident!("{}", if matches!(expr, AxisExpr::Add(..)) { "Add" } else { "Sub" });
            let (a, b) = (boxed(a), boxed(b));
            quote!(#variant(#a, #b))
        }
        AxisExpr::Mul(inner, number) | AxisExpr::Mod(inner, number) => {
            let variant = format_ident!("{}", if matches!(expr, AxisExpr::Mul(..)) { "Mul" } else { "Mod" });
            let inner = boxed(inner);
            quote!(#variant(#inner, #number))
        }
    };
    quote!(#p::AxisExpr::#fields)
}

fn pattern(pattern: &Pattern) -> TokenStream {
    let p = private();
    let fields = match pattern {
        Pattern::Local => quote!(Local),
        Pattern::Permute => quote!(Permute),
        Pattern::Exchange => quote!(Exchange),
        Pattern::Broadcast { axes } => {
            let axes = names(axes);
            quote!(Broadcast { axes: #axes })
        }
        Pattern::Allgather { axes } => {
            let axes = names(axes);
            quote!(Allgather { axes: #axes })
        }
        Pattern::AllToAll { axes } => {
            let axes = names(axes);
            quote!(AllToAll { axes: #axes })
        }
        Pattern::Reduce { axes } => {
            let axes = names(axes);
            quote!(Reduce { axes: #axes })
        }
        Pattern::AllReduce { axes } => {
            let axes = names(axes);
            quote!(AllReduce { axes: #axes })
        }
        Pattern::ReduceScatter { axes } => {
            let axes = names(axes);
            quote!(ReduceScatter { axes: #axes })
        }
        Pattern::Sequence { patterns } => {
            let patterns = patterns.iter().map(self::pattern);
            quote!(Sequence { patterns: ::std::vec![#(#patterns),*] })
        }
        Pattern::Halo { reach } => {
            let reach = reach.iter().map(|offsets| {
                let (axis, low, high) = (interned(offsets.axis), offsets.low, offsets.high);
                quote!(#p::Offsets { axis: #axis, low: #low, high: #high })
            });
            quote!(Halo { reach: ::std::vec![#(#reach),*] })
        }
        Pattern::Shift { axis, by } => {
            let axis = interned(*axis);
            quote!(Shift { axis: #axis, by: #by })
        }
    };
    quote!(#p::Pattern::#fields)
}

#[cfg(test)]
mod tests {
    use crate::testing::check_steps as check;
    use expect_test::expect;

    #[test]
    fn steps_with_names_and_numbers_are_built_again() {
        check(
            ".split(m, mo, mi, 64) .divide(k, ko, ki, 2) .reorder([ko, mi]) .fuse(i, j, f) .rotate(ko, [mo]) .communicate(A, ko)",
            expect![[r#"
                __::Step::Split {
                    i: __::Name::new("m"),
                    outer: __::Name::new("mo"),
                    inner: __::Name::new("mi"),
                    size: 64usize,
                };
                __::Step::Divide {
                    i: __::Name::new("k"),
                    outer: __::Name::new("ko"),
                    inner: __::Name::new("ki"),
                    parts: 2usize,
                };
                __::Step::Reorder {
                    order: vec![
                        __::Name::new("ko"),
                        __::Name::new("mi")
                    ],
                };
                __::Step::Fuse {
                    i: __::Name::new("i"),
                    j: __::Name::new("j"),
                    fused: __::Name::new("f"),
                };
                __::Step::Rotate {
                    t: __::Name::new("ko"),
                    by: vec![__::Name::new("mo")],
                };
                __::Step::Communicate {
                    tensor: __::Name::new("A"),
                    at: __::Name::new("ko"),
                };
            "#]],
        );
    }

    #[test]
    fn meshes_are_built_again() {
        check(
            "mesh(x: 2, y: 3) .distribute([m], [mo], [mi]) .distribute([n], [no], [ni], mesh())",
            expect![[r#"
            __::Step::Distribute {
                loops: vec![__::Name::new("m")],
                outer: vec![__::Name::new("mo")],
                inner: vec![__::Name::new("mi")],
                mesh: __::Mesh::new([("x", 2usize), ("y", 3usize)]),
            };
            __::Step::Distribute {
                loops: vec![__::Name::new("n")],
                outer: vec![__::Name::new("no")],
                inner: vec![__::Name::new("ni")],
                mesh: __::Mesh::default(),
            };
        "#]],
        );
    }

    #[test]
    fn clauses_are_built_again() {
        check(
            ".shard(A, m @ x, k @ [x, y], n @ (x - 2 * y + 1) % 2, dim(0) @ cyclic(x, 16), pin(z, 0)) .shard(B) .shard(C, m @ x @ cyclic(y, 2))",
            expect![[r#"
                __::Step::Shard {
                    tensor: __::Name::new("A"),
                    clauses: vec![
                        __::Clause::Block { dim :
                        __::Dim::Var(__::Name::new("m")), at
                        :
                        __::AxisExpr::Axis(__::Name::new("x"))
                        }, __::Clause::Block { dim :
                        __::Dim::Var(__::Name::new("k")), at
                        :
                        __::AxisExpr::List(vec![__::Name::new("x"),
                        __::Name::new("y")]) },
                        __::Clause::Block { dim :
                        __::Dim::Var(__::Name::new("n")), at
                        :
                        __::AxisExpr::Mod(Box::new(__::AxisExpr::Add(Box::new(__::AxisExpr::Sub(Box::new(__::AxisExpr::Axis(__::Name::new("x"))),
                        Box::new(__::AxisExpr::Mul(Box::new(__::AxisExpr::Axis(__::Name::new("y"))),
                        2i64)))),
                        Box::new(__::AxisExpr::Const(1i64)))),
                        2i64) }, __::Clause::Cyclic { dim :
                        __::Dim::Number(0usize), at :
                        __::AxisExpr::Axis(__::Name::new("x")),
                        block : 16usize }, __::Clause::Pin { axis :
                        __::Name::new("z"), coordinate : 0usize }
                    ],
                };
                __::Step::Shard {
                    tensor: __::Name::new("B"),
                    clauses: vec![],
                };
                __::Step::Shard {
                    tensor: __::Name::new("C"),
                    clauses: vec![
                        __::Clause::Levels { outer :
                        Box::new(__::Clause::Block { dim :
                        __::Dim::Var(__::Name::new("m")), at
                        :
                        __::AxisExpr::Axis(__::Name::new("x"))
                        }), inner : vec![__::Level::Cyclic { at :
                        __::AxisExpr::Axis(__::Name::new("y")),
                        block : 2usize }] }
                    ],
                };
            "#]],
        );
    }

    #[test]
    fn leaves_and_patterns_are_built_again() {
        check(
            ".reassociate(C) .tensorize([m]) .tensorize_as([m], contraction) .tensorize_as([m], nest) .tensorize_with([m], block_product) .expect(A, local) \
             .expect(A, broadcast(x, y)) .expect(A, shift(x, -1)) .expect(A, permute) .expect(A, allgather(x)) \
             .expect(A, halo(x: -1..=1, y: 0..=2)) .expect(A, exchange) .expect(A, permute, broadcast(x))",
            expect![[r#"
                __::Step::Reassociate {
                    tensor: __::Name::new("C"),
                };
                __::Step::Tensorize {
                    loops: vec![__::Name::new("m")],
                    kind: option::Option::None,
                };
                __::Step::Tensorize {
                    loops: vec![__::Name::new("m")],
                    kind: option::Option::Some(__::LeafKind::Contraction),
                };
                __::Step::Tensorize {
                    loops: vec![__::Name::new("m")],
                    kind: option::Option::Some(__::LeafKind::Nest),
                };
                __::Step::Tensorize {
                    loops: vec![__::Name::new("m")],
                    kind: option::Option::Some(
                        __::LeafKind::Named(
                            __::Name::new("block_product"),
                        ),
                    ),
                };
                __::Step::Expect {
                    tensor: __::Name::new("A"),
                    pattern: __::Pattern::Local,
                };
                __::Step::Expect {
                    tensor: __::Name::new("A"),
                    pattern: __::Pattern::Broadcast {
                        axes: vec![
                            __::Name::new("x"),
                            __::Name::new("y")
                        ],
                    },
                };
                __::Step::Expect {
                    tensor: __::Name::new("A"),
                    pattern: __::Pattern::Shift {
                        axis: __::Name::new("x"),
                        by: -1i64,
                    },
                };
                __::Step::Expect {
                    tensor: __::Name::new("A"),
                    pattern: __::Pattern::Permute,
                };
                __::Step::Expect {
                    tensor: __::Name::new("A"),
                    pattern: __::Pattern::Allgather {
                        axes: vec![__::Name::new("x")],
                    },
                };
                __::Step::Expect {
                    tensor: __::Name::new("A"),
                    pattern: __::Pattern::Halo {
                        reach: vec![
                            __::Offsets { axis :
                            __::Name::new("x"), low : - 1i64, high : 1i64 },
                            __::Offsets { axis :
                            __::Name::new("y"), low : 0i64, high : 2i64 }
                        ],
                    },
                };
                __::Step::Expect {
                    tensor: __::Name::new("A"),
                    pattern: __::Pattern::Exchange,
                };
                __::Step::Expect {
                    tensor: __::Name::new("A"),
                    pattern: __::Pattern::Sequence {
                        patterns: vec![
                            __::Pattern::Permute,
                            __::Pattern::Broadcast { axes :
                            vec![__::Name::new("x")] }
                        ],
                    },
                };
            "#]],
        );
    }
}

//! The macros handle any input: in an editor, they expand half-typed kernels at every key stroke.

pub(crate) mod shared;

use proc_macro2::{Group, Literal, TokenStream, TokenTree};

/// Returns the tokens with one removed, repeated, or replaced by a number, at every place.
fn mutations(tokens: &TokenStream) -> Vec<TokenStream> {
    let all: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let with = |i: usize, middle: &[TokenTree]| [&all[..i], middle, &all[i + 1..]].concat().into_iter().collect();
    let mut found: Vec<TokenStream> = Vec::new();
    for (i, token) in all.iter().enumerate() {
        let number = TokenTree::from(Literal::i128_unsuffixed(i128::MAX));
        found.extend([with(i, &[]), with(i, &[token.clone(), token.clone()]), with(i, &[number])]);
        if let TokenTree::Group(group) = token {
            let inside = mutations(&group.stream()).into_iter();
            found.extend(inside.map(|stream| with(i, &[Group::new(group.delimiter(), stream).into()])));
        }
    }
    found
}

#[test]
fn no_mutation_of_a_kernel_panics() {
    let kernel = "pub fn f(A: [f32; 8, 2 * k], s: i32) -> C: [f32; n] { C[2*i + 1] max= -alpha * A[i - 1, j] / 2.5 + s[] for j in 0..9; }";
    let kernel = kernel.parse().expect("tokens");
    let errors = mutations(&kernel).into_iter().filter(|tokens| crate::expand_kernel(tokens.clone()).is_err());
    assert!(errors.count() > 100);
}

#[test]
fn no_mutation_of_a_schedule_panics() {
    let kernel = "fn f(A: [f32; 8, 4]) -> C: [f32; 8] { C[i] += A[i, j] } \
                  mesh(x: 2).distribute([i], [io], [ii]).divide(j, jo, ji, 2).reorder([jo, ii, ji]).rotate(jo, [io]) \
                  .shard(A, i @ (x + 1) % 2).shard(C, i @ cyclic(x, 2)).communicate(A, jo).expect(A, exchange)";
    let kernel = kernel.parse().expect("tokens");
    let errors = mutations(&kernel).into_iter().filter(|tokens| crate::expand_kernel(tokens.clone()).is_err());
    assert!(errors.count() > 200);
}

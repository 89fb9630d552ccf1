//! A program as Rust source: formatted, headed, deterministic, and linking the runtime alone.
//!
//! The text is built as syntax trees and formatted at the end. Comments do not survive that, so they
//! travel as `comment!("..")` statements and are turned into comments in the formatted text.
//!
//! ```text
//! Program --body, sequence--> items over placeholders, `__0.broadcast(__1, ..)`
//!         --imports---------> `use` items, of what the items mention
//!         --names-----------> identifiers, `a_tile.broadcast(along_y, ..)`
//!         --prettyplease----> text, with `comment!("..");` in it
//!         --with_comments---> text with `// ..`
//! ```
//!
//! Names are chosen after the items are written, since only then all identifiers are known that a user's name may not meet;
//! imports are chosen before names, since a user's `count` would otherwise look like the runtime's.
//!
//! | file | emits |
//! | --- | --- |
//! | `items` | `mesh()`, `sharding_a()`, `run`, `run_into` and `Prepared`, with a hole for its fields and one for statements |
//! | `body` | the fields, and the statements of `run_into`: loops, transfers, and the call that computes |
//! | `index`, `value` | expressions inside of these: `7 * x + 7` over `i64`, `v0 * v1` over elements |
//! | `sequence`, `reduction` | the outer module of a program of several statements |

mod body;
mod field;
mod index;
mod items;
mod names;
mod reduction;
mod sequence;
mod value;

use names::Names;
use polyshard_program::{Nest, Program, Statement};
use proc_macro2::TokenStream;
use quote::quote;

/// How source is emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOptions {
    /// The path of the runtime, as the emitted file names it: `polyshard::runtime`, or `polyshard_runtime` in a
    /// crate that depends on the runtime alone.
    pub runtime: String,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self { runtime: "polyshard::runtime".into() }
    }
}

/// Returns a Rust module with `mesh()`, a `sharding_..()` per array, `run(..)`, `Prepared`, and for one kernel `run_into(..)`.
///
/// `run(world, &a, &b, .., scalars..)` takes the inputs in the program's order and returns the output, or a tuple of several;
/// `run_into(world, &a, &b, .., &mut c, scalars..)` goes on from what the output holds. `Prepared::new(world)` makes what runs
/// need, once, and has both as methods, to be called any number of times. Of a program of several statements,
/// each kernel is a module of its own, and names of arrays end with their numbers.
///
/// # Panics
/// If `options.runtime` is not a path, or the program moves elements of a type that Rust does not have.
#[track_caller]
#[must_use]
pub fn rust_source(program: &Program, options: &SourceOptions) -> String {
    program.dtype().native().unwrap_or_else(|error| panic!("{error}"));
    let runtime: syn::Path = syn::parse_str(&options.runtime).expect("`SourceOptions::runtime` is a path");
    let (header, tokens) = match program.body().only_nest() {
        Some(nest) => (header(nest), kernel_module(nest, &program.body().statements, &runtime)),
        None => (sequence::header(program), sequence::module(program, &runtime)),
    };
    let file: syn::File = syn::parse2(tokens)
        .unwrap_or_else(|error| panic!("emitted source does not parse; this is a bug of polyshard: {error}"));
    format!("{header}\n{}", with_comments(&prettyplease::unparse(&file)))
}

/// Returns the names that `run`, as [`rust_source`] writes it for a program of one kernel, gives its last parameters: the
/// kernel's scalars in their order.
///
/// # Panics
/// If the program is not one kernel.
#[track_caller]
#[must_use]
pub fn scalar_parameters(program: &Program) -> Vec<String> {
    let nest = program.nest();
    let names = Names::new(nest);
    let chosen = names.chosen(&items(nest, &program.body().statements, &names));
    names.scalars.iter().map(|scalar| chosen.name(scalar).to_string()).collect()
}

/// The module of one kernel, which runs these statements.
fn kernel_module(nest: &Nest, statements: &[Statement], runtime: &syn::Path) -> TokenStream {
    let names = Names::new(nest);
    let items = items(nest, statements, &names);
    // Before names are chosen, since one of the user's may be that of an item, which is then imported for nothing.
    let uses = imports(runtime, &items);
    let items = names.chosen(&items).write(items);
    quote! { #uses #items }
}

/// The items of a kernel's module, with placeholders for names.
fn items(nest: &Nest, statements: &[Statement], names: &Names) -> TokenStream {
    items::items(nest, names, &body::fields(nest, names), &body::body(nest, statements, names))
}

/// What the items use of the runtime; nothing else, so that no import is unused.
///
/// The lists below hold every name that any function here writes without a path. A name that is missing in them is found
/// when the golden files are compiled, so each call that is emitted stands in one of these.
fn imports(runtime: &syn::Path, items: &TokenStream) -> TokenStream {
    let used = |name: &str| mentions(items, name);
    let pick = |names: &str| -> Vec<syn::Ident> {
        names.split(' ').filter(|name| used(name)).map(|name| syn::parse_str(name).expect("a name")).collect()
    };
    let layout = pick("AxisExpr AxisPart Division Mesh Neighbours Placement Reach Sharding");
    let leaf = pick(
        "Access Assign BlockDepth Comparison Conditional Factor Function LeafLoopId Name Named Number OperandId Product ProductId Products Ramp \
         Role Slices TileStatement Value contract nest nest_with_numbers pointwise",
    );
    let top = pick(
        "DistArray Element Grid Group InputTable OutTile Passing Redistribution ReduceOp Reduction Region Result Room Rows SharedInputs Strided \
         Tile Way World Written count",
    );
    let reductions = pick("Collective Lowered LoweredStep Procedure");
    // A list of nothing would be an unused import.
    let from = |module: TokenStream, names: &[syn::Ident]| {
        (!names.is_empty()).then(|| quote! { use #runtime #module::{#(#names),*}; })
    };
    let cow = used("Cow").then(|| quote! { use std::borrow::Cow; });
    let imports = [
        cow,
        from(quote! { ::layout }, &layout),
        from(quote! { ::leaf }, &leaf),
        from(quote! { ::reduction }, &reductions),
        from(quote! {}, &top),
    ];
    quote! { #(#imports)* }
}

/// Whether an identifier occurs in the tokens.
fn mentions(tokens: &TokenStream, name: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        proc_macro2::TokenTree::Ident(ident) => ident == name,
        proc_macro2::TokenTree::Group(group) => mentions(&group.stream(), name),
        _ => false,
    })
}

/// The comment at the head of a module of one kernel. Steps have the numbers that comments in the code refer to:
///
/// ```text
/// // Generated by polyshard 0.1.0 from C[m, n] += A[m, k] * B[k, n]. Do not edit.
/// //
/// // mesh(x: 2, y: 2)
/// //  1  distribute([m, n], [mo, no], [mi, ni], mesh(x: 2, y: 2))
/// //  2  divide(k, ko, ki, 2)
/// ```
fn header(nest: &Nest) -> String {
    let mut text = format!(
        "// Generated by polyshard {} from {}. Do not edit.\n//\n// mesh({})\n",
        env!("CARGO_PKG_VERSION"),
        nest.kernel.statement(),
        nest.mesh
    );
    for (i, step) in nest.steps.iter().enumerate() {
        text += &format!("// {:>2}  {}\n", i + 1, step);
    }
    text
}

/// A comment line in emitted code.
fn comment(text: &str) -> TokenStream {
    quote! { comment!(#text); }
}

/// The formatted text with its comments, and a blank line before each item.
///
/// ```text
/// comment!("step 2: divide(k, ko, ki, 2)");   =>   // step 2: divide(k, ko, ki, 2)
/// ```
///
/// The formatter writes a macro call on one line or on three, `comment!(`, the text and `);`. Both are read as string
/// literals, so that quotes in them are unescaped.
fn with_comments(formatted: &str) -> String {
    let mut text = String::new();
    let mut before = "";
    let mut lines = formatted.lines();
    while let Some(line) = lines.next() {
        let used = before == "};" || before.starts_with("use ") && before.ends_with(';');
        if (before == "}" || used) && !line.starts_with("use ") {
            text.push('\n');
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let comment = match line.trim() {
            // One that does not fit its line is on the next one.
            "comment!(" => lines.next().zip(lines.next()).map(|(comment, _)| comment.trim()),
            line => line.strip_prefix("comment!(").and_then(|rest| rest.strip_suffix(");")),
        };
        match comment.and_then(|comment| syn::parse_str::<syn::LitStr>(comment).ok()) {
            Some(comment) => text += &format!("{indent}// {}\n", comment.value()),
            None => text += &format!("{line}\n"),
        }
        before = line;
    }
    text
}

#[cfg(test)]
mod tests;

//! Parts of a module's items: mesh, shardings, checks of parameters, and values of element types.

use super::index::literal;
use polyshard_layout::{AxisExpr, Division, Mesh, Name, Placement, Sharding};
use polyshard_program::{Assign, NestView};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// Whether runs overwrite all of the output.
pub(super) fn writes_all(nest: &NestView<'_>) -> bool {
    nest.kernel.assign() == Assign::Set && nest.kernel.written().is_none()
}

/// The element type.
pub(super) fn element(nest: &NestView<'_>) -> Ident {
    format_ident!("{}", nest.kernel.dtype().name())
}

/// The zero of an element type.
pub(super) fn zero(element: &Ident) -> syn::Lit {
    syn::parse_str(&format!("0{element}")).expect("a literal with a suffix")
}

/// The element that an output starts from.
pub(super) fn identity(assign: Assign, element: &Ident) -> TokenStream {
    match assign {
        Assign::Set | Assign::Add | Assign::Running(_) => {
            let zero = zero(element);
            quote! { #zero }
        }
        Assign::Mul | Assign::Max | Assign::Min => {
            let op = reduce_op(assign);
            quote! { #op.identity() }
        }
    }
}

/// The operation that combines values, where a leaf runs.
pub(super) fn reduce_op(assign: Assign) -> TokenStream {
    match assign {
        Assign::Set | Assign::Add => quote! { ReduceOp::Sum },
        Assign::Mul => quote! { ReduceOp::Product },
        Assign::Max => quote! { ReduceOp::Max },
        Assign::Min => quote! { ReduceOp::Min },
        Assign::Running(_) => quote! { leaf.op() },
    }
}

/// The function that returns the mesh.
pub(super) fn mesh(mesh: &Mesh) -> TokenStream {
    let doc = format!(" The mesh: {}.", if mesh.ndim() == 0 { "one rank".into() } else { mesh.to_string() });
    let new = new_mesh(mesh);
    quote! {
        #[doc = #doc]
        pub fn mesh() -> Mesh { #new }
    }
}

/// The function that returns the sharding of an array.
pub(super) fn sharding_function(
    vis: &Option<TokenStream>,
    name: &Ident,
    of: &str,
    sharding: &Sharding,
    mesh: &Mesh,
) -> TokenStream {
    let doc = format!(" Which rank owns which elements of `{of}`: {sharding}.");
    let sharding = new_sharding(sharding, mesh);
    quote! {
        #[doc = #doc]
        #vis fn #name() -> Sharding { #sharding }
    }
}

/// The check that a parameter has the sharding that this function returns.
pub(super) fn check(parameter: &Ident, name: Name, sharding: &Ident) -> TokenStream {
    let name = name.as_str();
    quote! { #parameter.expect(#name, &#sharding())?; }
}

/// `Mesh::new([("x", 2), ("y", 2)])`.
fn new_mesh(mesh: &Mesh) -> TokenStream {
    if mesh.ndim() == 0 {
        return quote! { Mesh::default() };
    }
    let axes = mesh.as_slice().iter().map(|axis| {
        let (name, extent) = (axis.name.as_str(), literal(axis.extent as i64));
        quote! { (#name, #extent) }
    });
    quote! { Mesh::new([#(#axes),*]) }
}

/// A sharding in a module whose function `mesh` returns `own`; a sharding over another mesh, such as a refined one,
/// contains that mesh.
///
/// ```text
/// [0 @ x, 1 @ cyclic(y, 3)] of 13 x 11
///   sharding(&mesh(), [13, 11], [Placement::block(0, "x"), Placement::block_cyclic(1, AxisExpr::axis("y"), 3usize)])
/// ```
pub(super) fn new_sharding(sharding: &Sharding, own: &Mesh) -> TokenStream {
    let shape = sharding.shape().iter().map(|&extent| literal(extent as i64));
    let mesh = if sharding.mesh() == own {
        quote! { mesh() }
    } else {
        new_mesh(sharding.mesh())
    };
    let placements = sharding.placements();
    if placements.is_empty() {
        return quote! { Sharding::replicated(&#mesh, &[#(#shape),*]) };
    }
    let placements = placements.iter().map(new_placement);
    quote! { sharding(&#mesh, [#(#shape),*], [#(#placements),*]) }
}

/// The outermost level makes the placement, `Placement::block(0usize, ..)`, and inner ones are added by `.at(..)`.
fn new_placement(placement: &Placement) -> TokenStream {
    match placement {
        Placement::Divided { dim, levels } => {
            let levels = levels.iter().enumerate().map(|(nth, level)| match level {
                Division::Block { at } => {
                    let at = axis_expr(at, false);
                    if nth == 0 {
                        let dim = literal(*dim as i64);
                        // A name alone is an expression, too.
                        match &level_axis(level) {
                            Some(name) => quote! { Placement::block(#dim, #name) },
                            None => quote! { Placement::block(#dim, #at) },
                        }
                    } else {
                        quote! { .at(#at) }
                    }
                }
                Division::Cyclic { at, block } => {
                    let at = axis_expr(at, false);
                    if nth == 0 {
                        quote! { Placement::block_cyclic(#dim, #at, #block) }
                    } else {
                        quote! { .cyclic(#at, #block) }
                    }
                }
            });
            quote! { #(#levels)* }
        }
        Placement::Pin { axis, coordinate } => {
            let axis = axis.as_str();
            quote! { Placement::pin(#axis, #coordinate) }
        }
        Placement::Partial { axis } => {
            let axis = axis.as_str();
            quote! { Placement::partial(#axis) }
        }
    }
}

/// The axis by whose coordinate a level divides, if that is all.
fn level_axis(level: &Division) -> Option<String> {
    match level {
        Division::Block { at: AxisExpr::Axis(name) } => Some(name.to_string()),
        _ => None,
    }
}

/// `(AxisExpr::axis("x") + AxisExpr::axis("y")) % 2i64`, by the operators of the type; in parentheses if it is `inside`
/// an operator.
fn axis_expr(expr: &AxisExpr, inside: bool) -> TokenStream {
    let shown = match expr {
        AxisExpr::Const(value) => return quote! { AxisExpr::Const(#value) },
        AxisExpr::Axis(name) => {
            let name = name.as_str();
            return quote! { AxisExpr::axis(#name) };
        }
        AxisExpr::List(names) => {
            let names = names.iter().map(|name| name.as_str());
            return quote! { AxisExpr::list(&[#(#names),*]) };
        }
        AxisExpr::Add(a, b) => {
            let (a, b) = (axis_expr(a, false), axis_expr(b, true));
            quote! { #a + #b }
        }
        AxisExpr::Sub(a, b) => {
            let (a, b) = (axis_expr(a, false), axis_expr(b, true));
            quote! { #a - #b }
        }
        AxisExpr::Mul(a, factor) => {
            let a = axis_expr(a, true);
            quote! { #a * #factor }
        }
        AxisExpr::Mod(a, modulus) => {
            let a = axis_expr(a, true);
            quote! { #a % #modulus }
        }
    };
    if inside {
        quote! { (#shown) }
    } else {
        shown
    }
}

//! The items of an emitted module of one kernel: mesh, shardings, `run` and `run_into`, and the kernel's table.
//!
//! ```text
//! pub fn mesh() -> Mesh { .. }
//! pub fn sharding_a() -> Sharding { .. }                          per tensor
//! pub fn run(world, &a, &b, scalars..) -> Result<DistArray>       makes a `Prepared` for one run
//! pub fn run_into(world, &a, &b, &mut c, scalars..) -> Result<()>
//! pub struct Prepared { engine, .. }
//! impl Prepared { new(world); run(..); run_into(..) }
//! fn kernel() -> Kernel<'static> { .. }
//! ```
//!
//! `run` fills a new output with the identity of the kernel's operation and calls `run_into`, which contains the
//! statements and accumulates into the output; so each statement is emitted once.

use super::body::Writer;
use super::index::literal;
use super::names::Names;
use polyshard_layout::{AxisExpr, Division, Mesh, Name, Placement, Sharding};
use polyshard_program::{Assign, LeafOp, NestView, Statement};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// The items of a module of one kernel that runs these statements.
pub(super) fn items(nest: &NestView<'_>, statements: &[Statement], names: &Names) -> TokenStream {
    let kernel = &nest.kernel;
    let field = match &nest.leaf.op {
        LeafOp::Named { .. } => "leaf",
        _ => "products",
    };
    let writer = Writer::new(nest, names, format_ident!("{field}"));
    let mesh = mesh(nest.mesh);
    let shardings = kernel.tensors().zip(&nest.shardings).zip(&names.shardings);
    let shardings =
        shardings.map(|((tensor, sharding), name)| sharding_function(name, tensor.name.as_str(), sharding, nest.mesh));
    let element = element(nest);
    let (inputs, output) = names.tensors.split_at(kernel.inputs().len());
    let (c, scalars) = (&output[0], &names.scalars);
    let sharding_c = &names.shardings[inputs.len()];
    let identity = identity(kernel.assign(), &element);
    let prepared_doc = format!(" What runs of `{}` need, made once.", kernel.statement());
    let run_doc = format!(" Runs `{}` on all ranks, which each return their shard of the output.", kernel.statement());
    let into_doc = match kernel.assign() {
        Assign::Set if kernel.written().is_some() => {
            " As `run`, into an output that exists, of which the elements that the kernel writes are overwritten."
        }
        Assign::Set => " As `run`, into an output that exists, whose elements are overwritten.",
        _ => " As `run`, but goes on from what the output holds.",
    };
    let new_errors = match &nest.leaf.op {
        LeafOp::Named { name, statement, .. } => format!(
            " If the world has not as many ranks as the mesh, leaf `{name}` is not registered as `{statement}`, or there is too \
             little memory."
        ),
        _ => " If the world has not as many ranks as the mesh, or there is too little memory.".into(),
    };
    let [input_errors, tensor_errors] = ["inputs", "tensors"]
        .map(|arrays| format!(" If the {arrays} are not sharded as the program expects them, or communication fails."));
    let checks = kernel.tensors().zip(&names.tensors).zip(&names.shardings);
    let checks = checks.map(|((tensor, ident), sharding)| check(ident, tensor.name, sharding));
    let (body, table) =
        (writer.body(0, statements), writer.table(&names.table, &names.shardings.iter().collect::<Vec<_>>()));
    let (kept, table_name) = (writer.kept_by_leaf().unzip(), &names.table);
    let ((types, made), field) = (kept, &writer.kept);
    let declared = types.map(|of| quote! { #field: #of, });
    let made = made.map(|made| quote! { #field: #made, });
    quote! {
        #mesh
        #(#shardings)*

        #[doc = #run_doc]
        ///
        /// # Errors
        /// As `Prepared::new` and `Prepared::run`.
        pub fn run(
            world: &World,
            #(#inputs: &DistArray<#element>,)*
            #(#scalars: #element,)*
        ) -> Result<DistArray<#element>> {
            Prepared::new(world)?.run(#(#inputs,)* #(#scalars,)*)
        }

        #[doc = #into_doc]
        ///
        /// # Errors
        /// As `Prepared::new` and `Prepared::run_into`.
        pub fn run_into(
            world: &World,
            #(#inputs: &DistArray<#element>,)*
            #c: &mut DistArray<#element>,
            #(#scalars: #element,)*
        ) -> Result<()> {
            Prepared::new(world)?.run_into(#(#inputs,)* #c, #(#scalars,)*)
        }

        #[doc = #prepared_doc]
        pub struct Prepared<'world> {
            engine: Engine<'world, #element>,
            #declared
        }

        impl<'world> Prepared<'world> {
            /// Makes what runs need; all ranks must call it.
            ///
            /// # Errors
            #[doc = #new_errors]
            pub fn new(world: &'world World) -> Result<Self> {
                Ok(Self { #made engine: Engine::new(world, [#table_name()])? })
            }

            /// Runs the program on all ranks, which each return their shard of the output.
            ///
            /// # Errors
            #[doc = #input_errors]
            pub fn run(
                &mut self,
                #(#inputs: &DistArray<#element>,)*
                #(#scalars: #element,)*
            ) -> Result<DistArray<#element>> {
                let mut #c = DistArray::filled(self.engine.world(), &#sharding_c(), #identity)?;
                self.run_into(#(#inputs,)* &mut #c, #(#scalars,)*)?;
                Ok(#c)
            }

            #[doc = #into_doc]
            ///
            /// # Errors
            #[doc = #tensor_errors]
            pub fn run_into(
                &mut self,
                #(#inputs: &DistArray<#element>,)*
                #c: &mut DistArray<#element>,
                #(#scalars: #element,)*
            ) -> Result<()> {
                #(#checks)*
                #body
            }
        }

        #table
    }
}

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
        Assign::Set | Assign::Add => {
            let zero = zero(element);
            quote! { #zero }
        }
        Assign::Mul | Assign::Max | Assign::Min => {
            let op = reduce_op(assign);
            quote! { #op.identity() }
        }
    }
}

/// The operation that combines values.
pub(super) fn reduce_op(assign: Assign) -> TokenStream {
    match assign {
        Assign::Set | Assign::Add => quote! { ReduceOp::Sum },
        Assign::Mul => quote! { ReduceOp::Product },
        Assign::Max => quote! { ReduceOp::Max },
        Assign::Min => quote! { ReduceOp::Min },
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
pub(super) fn sharding_function(name: &Ident, of: &str, sharding: &Sharding, mesh: &Mesh) -> TokenStream {
    let doc = format!(" Which rank owns which elements of `{of}`: {sharding}.");
    let sharding = new_sharding(sharding, mesh);
    quote! {
        #[doc = #doc]
        pub fn #name() -> Sharding { #sharding }
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
///   Sharding::new(&mesh(), &[13, 11], &[
///       Placement::block(0usize, AxisExpr::axis("x")), Placement::block_cyclic(1usize, AxisExpr::axis("y"), 3usize),
///   ]).expect(..)
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
    quote! {
        Sharding::new(&#mesh, &[#(#shape),*], &[#(#placements),*]).expect("the sharding was checked when this was generated")
    }
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

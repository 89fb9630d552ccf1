//! The items of an emitted module: mesh, shardings, `run` and `run_into`.
//!
//! ```text
//! pub fn mesh() -> Mesh { .. }
//! pub fn sharding_a() -> Sharding { .. }                          per tensor
//! pub fn run(world, &a, &b, scalars..) -> Result<DistArray>       makes a `Prepared` for one run
//! pub fn run_into(world, &a, &b, &mut c, scalars..) -> Result<()>
//! pub struct Prepared { grid, fields.. }
//! impl Prepared { new(world); run(..); run_into(..); set_first(is_first) }
//! ```
//!
//! `run` fills a new output with the identity of the kernel's operation and calls `run_into`, which contains the
//! statements and accumulates into the output; so each statement is emitted once.

use super::field::Field;
use super::index::literal;
use super::mentions;
use super::names::Names;
use polyshard_layout::{AxisExpr, Division, Mesh, Name, Placement, Sharding};
use polyshard_program::{Assign, LeafOp, Nest, TileId};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// The items of a module: `fields` are made before the first run, which has `body` for statements.
///
/// `run_into` contains, in this order: the fields by name, the checks that arrays are sharded as the program says, the
/// call that clears the output, the statements, and the release of the inputs, where ranks that read each other's
/// memory wait.
///
/// Tiles that other kernels keep are parameters after the inputs; each tile that this one keeps for others has a
/// method.
pub(super) fn items(nest: &Nest, names: &Names, kept: &[TileId], fields: &[Field], body: &TokenStream) -> TokenStream {
    let kernel = &nest.kernel;
    let mesh = mesh(&nest.mesh);
    let shardings = kernel.tensors().zip(&nest.shardings).zip(&names.shardings);
    let shardings =
        shardings.map(|((tensor, sharding), name)| sharding_function(name, tensor.name.as_str(), sharding, &nest.mesh));
    let element = element(nest);
    let (inputs, output) = names.tensors.split_at(kernel.inputs().len());
    let (c, scalars) = (&output[0], &names.scalars);
    let sharding_c = &names.shardings[inputs.len()];
    let identity = reduce_op(kernel.assign());
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
    let restart = restart_output(nest, names);
    let checks = kernel.tensors().zip(&names.tensors).zip(&names.shardings);
    let checks = checks.map(|((tensor, ident), sharding)| check(ident, tensor.name, sharding));
    let end = match nest.reads_others() {
        true => quote! { shared.release() },
        false => quote! { Ok(()) },
    };
    let statements = quote! { #restart #body };
    // A field that is used only by another field, or is not needed because all ranks do the same, is not named.
    let used: Vec<_> = std::iter::once(format_ident!("grid"))
        .chain(fields.iter().map(|field| field.name.clone()))
        .filter(|name| mentions(&statements, &name.to_string()))
        .collect();
    let rest = (used.len() <= fields.len()).then(|| quote! { .. });
    let own = (!used.is_empty()).then(|| quote! { let Self { #(#used,)* #rest } = self; });
    let (tiles, tiles_of_others) = tile_parameters(nest, names);
    let keeps = kept.iter().map(|&tile| keeps(nest, names, tile));
    let set_first = nest.brings_once().then(|| {
        quote! {
            /// Says whether the runs that follow are of the first of several rounds, which brings what no round writes.
            pub fn set_first(&mut self, is_first: bool) {
                self.is_first = is_first;
            }
        }
    });
    let declared = fields.iter().map(|Field { name, r#type, .. }| quote! { #name: #r#type });
    let made = fields.iter().map(|Field { name, new, .. }| quote! { let #name = #new; });
    let made_names = fields.iter().map(|field| &field.name);
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
            #tiles_of_others
            #(#scalars: #element,)*
        ) -> Result<DistArray<#element>> {
            Prepared::new(world)?.run(#(#inputs,)* #(#tiles,)* #(#scalars,)*)
        }

        #[doc = #into_doc]
        ///
        /// # Errors
        /// As `Prepared::new` and `Prepared::run_into`.
        pub fn run_into(
            world: &World,
            #(#inputs: &DistArray<#element>,)*
            #tiles_of_others
            #c: &mut DistArray<#element>,
            #(#scalars: #element,)*
        ) -> Result<()> {
            Prepared::new(world)?.run_into(#(#inputs,)* #(#tiles,)* #c, #(#scalars,)*)
        }

        #[doc = #prepared_doc]
        pub struct Prepared<'world> {
            grid: Grid<'world>,
            #(#declared,)*
        }

        impl<'world> Prepared<'world> {
            /// Makes what runs need; all ranks must call it.
            ///
            /// # Errors
            #[doc = #new_errors]
            pub fn new(world: &'world World) -> Result<Self> {
                let grid = Grid::new(world, &mesh())?;
                #(#made)*
                Ok(Self { grid, #(#made_names,)* })
            }

            /// Runs the program on all ranks, which each return their shard of the output.
            ///
            /// # Errors
            #[doc = #input_errors]
            pub fn run(
                &mut self,
                #(#inputs: &DistArray<#element>,)*
                #tiles_of_others
                #(#scalars: #element,)*
            ) -> Result<DistArray<#element>> {
                let mut #c = DistArray::filled(self.grid.world(), &#sharding_c(), #identity.identity())?;
                self.run_into(#(#inputs,)* #(#tiles,)* &mut #c, #(#scalars,)*)?;
                Ok(#c)
            }

            #[doc = #into_doc]
            ///
            /// # Errors
            #[doc = #tensor_errors]
            pub fn run_into(
                &mut self,
                #(#inputs: &DistArray<#element>,)*
                #tiles_of_others
                #c: &mut DistArray<#element>,
                #(#scalars: #element,)*
            ) -> Result<()> {
                #own
                #(#checks)*
                #statements
                #end
            }

            #set_first
            #(#keeps)*
        }
    }
}

/// The tiles that other kernels keep for this one, as names and as parameters.
fn tile_parameters<'a>(nest: &Nest, names: &'a Names) -> (Vec<&'a Ident>, TokenStream) {
    let tiles: Vec<_> = nest.kept().map(|(tile, _)| &names.tiles[tile.0]).collect();
    let element = element(nest);
    let parameters = quote! { #(#tiles: KeptTile<'_, #element>,)* };
    (tiles, parameters)
}

/// The name of the method that returns a tile, by its number, to kernels that read it instead of fetching.
pub(super) fn kept_tile(TileId(number): TileId) -> Ident {
    format_ident!("tile_{number}")
}

/// The method of a kernel that returns a tile.
///
/// ```text
/// pub fn tile_0(&self) -> KeptTile<'_, f32> { KeptTile::new(&self.x_tile, Some(&self.known_inputs)) }
/// ```
fn keeps(nest: &Nest, names: &Names, tile: TileId) -> TokenStream {
    let (element, method, field) = (element(nest), kept_tile(tile), &names.tiles[tile.0]);
    let doc = format!(" What the last run was brought of `{}`.", nest.tensor_name(nest.transfers[tile.0].tensor));
    let known = if nest.reads_others() {
        quote! { Some(&self.known_inputs) }
    } else {
        quote! { None }
    };
    quote! {
        #[doc = #doc]
        #[must_use]
        pub fn #method(&self) -> KeptTile<'_, #element> {
            KeptTile::new(&self.#field, #known)
        }
    }
}

/// Whether runs overwrite all of the output.
pub(super) fn writes_all(nest: &Nest) -> bool {
    nest.kernel.assign() == Assign::Set && nest.kernel.written().is_none()
}

/// Whether `=` clears the output before it sums: not if the leaf assigns each element once.
pub(super) fn clears(nest: &Nest) -> bool {
    nest.kernel.assign() == Assign::Set && !nest.leaf.overwrites
}

/// Resets the output before the first contribution: elements that the kernel writes become 0 if it does not accumulate
/// into them, and others keep their values.
fn restart_output(nest: &Nest, names: &Names) -> Option<TokenStream> {
    let (c, name) = (names.tensors.last(), &names.written);
    let zero = zero(&element(nest));
    clears(nest).then(|| match nest.kernel.written() {
        Some(_) => quote! { #name.fill(#c, #zero); },
        None => quote! { #c.block_mut().fill(#zero); },
    })
}

/// The element type.
pub(super) fn element(nest: &Nest) -> Ident {
    format_ident!("{}", nest.kernel.dtype().name())
}

/// The zero of an element type.
pub(super) fn zero(element: &Ident) -> syn::Lit {
    syn::parse_str(&format!("0{element}")).expect("a literal with a suffix")
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
                        quote! { Placement::block(#dim, #at) }
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

//! The leaf: the call that computes, and the fields that it needs between calls.
//!
//! ```text
//! contract(&leaf.counts(), &[Role::M, Role::N, Role::K], 1f64, a, b, c);                        two operands, as GEMM
//! self.products.run(&leaf.counts(), 1f64, &[a, b, d], c);                                       several, two at a time
//! self.leaf.run(&leaf.counts(), &[a, b], c);                                                    registered by the user
//! nest(&leaf.counts(), c, ReduceOp::Sum, &[a], &pointwise(|[v0]: [f64; 1]| alpha * v0));        any other statement
//! ```
//!
//! An operand gives the tensor index of the leaf's first iteration, and the stride of each loop along each dimension:
//!
//! ```text
//! leaf.read(a_tile, &[7 * x, 9 * ko], &[&[1, 0, 0], &[0, 0, 1]])     A[m, k] in loops mi, ni, ki
//! ```

use super::body::Writer;
use super::comment;
use super::index::literal;
use super::items::{element, reduce_op};
use super::value::{Values, bare};
use crate::data::Data;
use polyshard_program::{
    Access, Factor, LeafAccess, LeafLoop, LeafLoopId, LeafOp, LeafPart, OperandId, Role, TileOperand,
};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

impl Writer<'_> {
    /// The type of the state that the leaf keeps between calls, if it keeps any, and the expression that makes it.
    pub(super) fn kept_by_leaf(&self) -> Option<(TokenStream, TokenStream)> {
        self.registered().or_else(|| self.products())
    }

    /// The leaf that the user has registered, if the nest calls one. It is looked up when the program is prepared, by
    /// the statement that it must compute, so that a run cannot find a different one.
    ///
    /// ```text
    /// let leaf = Named::find("weighted", &["i", "j", "k"], &TileStatement { target: .., assign: Assign::Add, value: .. })?;
    /// ```
    fn registered(&self) -> Option<(TokenStream, TokenStream)> {
        let LeafOp::Named { name, statement, .. } = &self.nest.leaf.op else { return None };
        let (name, loops) = (name.as_str(), self.nest.leaf.loops.iter().map(|l| l.var.as_str()));
        let data = Data { path: TokenStream::new(), boxed: quote!(Box) };
        let (target, assign) = (data.access(&statement.target), data.assign(statement.assign));
        let (element, value) = (element(self.nest), data.value(&statement.value));
        let needed = quote! { TileStatement { target: #target, assign: #assign, value: #value } };
        let new = quote! { Named::find(#name, &[#(#loops),*], &#needed)? };
        Some((quote! { Named<#element> }, new))
    }

    /// The products of a leaf of several operands with their scratch.
    fn products(&self) -> Option<(TokenStream, TokenStream)> {
        let LeafOp::Products { steps, blocks, .. } = &self.nest.leaf.op else { return None };
        let number = Literal::usize_unsuffixed;
        let leaf_loop = |l: &LeafLoopId| {
            let l = number(l.0);
            quote! { LeafLoopId(#l) }
        };
        let steps = steps.iter().map(|step| {
            let factors = step.factors.map(|factor| match factor {
                Factor::Operand(operand) => {
                    let operand = number(operand.0);
                    quote! { Factor::Operand(OperandId(#operand)) }
                }
                Factor::Scratch(step) => {
                    let step = number(step.0);
                    quote! { Factor::Scratch(ProductId(#step)) }
                }
            });
            let roles = step.roles.iter().map(|role| role_path(*role));
            let (loops, kept) = (step.loops.iter().map(leaf_loop), step.kept.iter().map(leaf_loop));
            let (level, capacity) = (number(step.level.0), number(step.capacity));
            quote! {
                Product {
                    factors: [#(#factors),*],
                    loops: vec![#(#loops),*],
                    roles: vec![#(#roles),*],
                    kept: vec![#(#kept),*],
                    level: BlockDepth(#level),
                    capacity: #capacity,
                }
            }
        });
        let blocks = blocks.iter().map(|block| {
            let (l, size) = (leaf_loop(&block.number), literal(block.size));
            quote! { (#l, #size) }
        });
        // The formatter does not format inside macros, so the long list is not a `vec!`.
        let (element, new) =
            (element(self.nest), quote! { Products::new(Vec::from([#(#steps),*]), vec![#(#blocks),*])? });
        Some((quote! { Products<#element> }, new))
    }

    /// The call that runs the leaf, or a part of it, inside this many loops. The closure may be called for one part of the iterations after
    /// the other.
    ///
    /// ```text
    /// run.compute(&[ko], &[count(..), ..], |leaf| contract(&leaf.counts(), ..))?;
    /// run.compute_part(LeafPart::Interior, &[], &[..], &[(1, 7), ..], |leaf| nest(&leaf.counts(), ..))?;
    /// ```
    pub(super) fn leaf(&self, depth: usize, part: LeafPart) -> TokenStream {
        let note = self.nest.leaf.step.map(|step| comment(&self.steps(&[step])));
        let (counters, counts, call) = (&self.names.loops[..depth], self.counts(), self.call());
        let leaf = quote! { |leaf| { #call } };
        let counts = quote! { &[#(#counters),*], &[#(#counts),*] };
        if part == LeafPart::Whole {
            return quote! { #note run.compute(#counts, #leaf)?; };
        }
        let interior = self.nest.leaf.interior.iter().flat_map(|interior| &interior.ranges).map(|(low, high)| {
            let [low, high] = [low, high].map(|at| self.index.expr(at));
            quote! { (#low, #high) }
        });
        // Variants print as they are named.
        let part = format_ident!("{part:?}");
        quote! { #note run.compute_part(LeafPart::#part, #counts, &[#(#interior),*], #leaf)?; }
    }

    /// The numbers of iterations of the leaf's loops; the runtime's `count` turns a negative number, of a tile past the
    /// end, into 0.
    fn counts(&self) -> Vec<syn::Expr> {
        let count = |l: &LeafLoop| match l.count.as_constant() {
            Some(count) => literal(count.max(0)),
            None => {
                let count = self.index.expr(&l.count);
                syn::parse_quote!(count(#count))
            }
        };
        self.nest.leaf.loops.iter().map(count).collect()
    }

    /// The call that computes the iterations of `part`.
    fn call(&self) -> TokenStream {
        let (leaf, kept) = (&self.nest.leaf, &self.kept);
        let target = self.target(&leaf.target);
        let operands: Vec<_> = (0..leaf.operands.len()).map(OperandId).map(|operand| self.operand(operand)).collect();
        let values = Values { nest: self.nest, names: self.names };
        match &leaf.op {
            LeafOp::Contraction { roles, alpha } => {
                let roles = roles.iter().map(|role| role_path(*role));
                let alpha = bare(values.constant(alpha));
                quote! { contract(&leaf.counts(), &[#(#roles),*], #alpha, #(#operands,)* #target); }
            }
            LeafOp::Products { alpha, .. } => {
                let alpha = bare(values.constant(alpha));
                quote! { self.#kept.run(&leaf.counts(), #alpha, &[#(#operands),*], #target); }
            }
            LeafOp::Named { operands: tiles, .. } => {
                let tiles = tiles.iter().map(|operand| match *operand {
                    TileOperand::Access(operand) => operands[operand.0].clone(),
                    TileOperand::Scalar(name) => {
                        let scalar = self.names.scalar(self.nest, name);
                        quote! { Strided::new(&[#scalar], 0, vec![]) }
                    }
                });
                quote! { self.#kept.run(&leaf.counts(), &[#(#tiles),*], #target); }
            }
            LeafOp::Nest => {
                let op = reduce_op(self.nest.kernel.assign());
                let element_type = element(self.nest);
                let value = bare(values.of_kernel());
                let names: Vec<_> = self.names.elements.iter().chain(&self.names.numbers).collect();
                let (count, numbers) = (literal(names.len() as i64), self.numbers());
                let nest = if leaf.numbers.is_empty() { quote!(nest) } else { quote!(nest_with_numbers) };
                quote! {
                    #nest(
                        &leaf.counts(),
                        #target,
                        #op,
                        &[#(#operands),*],
                        #numbers
                        &pointwise(|[#(#names),*]: [#element_type; #count]| #value),
                    );
                }
            }
        }
    }

    /// The indices that the value reads as numbers, as an argument: `&[leaf.ramp(7 * x, &[1, 0])]`, which grow by the strides. Empty
    /// without any.
    fn numbers(&self) -> TokenStream {
        let numbers = self.nest.leaf.numbers.iter().map(|number| {
            let base = self.index.expr(&number.base);
            let strides = number.strides.iter().map(|&stride| Literal::i64_unsuffixed(stride));
            quote! { leaf.ramp(#base, &[#(#strides),*]) }
        });
        let numbers: Vec<_> = numbers.collect();
        if numbers.is_empty() {
            TokenStream::new()
        } else {
            quote! { &[#(#numbers),*], }
        }
    }

    /// An operand: `leaf.read(a_tile, &[7 * x, 9 * ko], &[&[1, 0, 0], &[0, 0, 1]])`.
    fn operand(&self, operand: OperandId) -> TokenStream {
        let walk = self.walk(&self.nest.leaf.operands[operand.0]);
        let tile = &self.names.tiles[self.nest.transfer_of(operand).0];
        match self.outside(self.nest.kernel.value().accesses()[operand.0]) {
            None => quote! { leaf.read(#tile, #walk) },
            Some(outside) => quote! { leaf.read_or(#tile, #outside, #walk) },
        }
    }

    /// The value of an operand outside its array: `0f64, &[Some(13), None]`, with the extents of the
    /// dimensions whose index may exceed them.
    fn outside(&self, access: &Access) -> Option<TokenStream> {
        let kernel = &self.nest.kernel;
        let value = bare(Values { nest: self.nest, names: self.names }.constant(access.outside.as_ref()?));
        let extents = kernel.open_extents(access).into_iter().map(|extent| match extent {
            Some(extent) => {
                let extent = Literal::i64_unsuffixed(extent);
                quote! { Some(#extent) }
            }
            None => quote! { None },
        });
        Some(quote! { #value, &[#(#extents),*] })
    }

    fn target(&self, access: &LeafAccess) -> TokenStream {
        let walk = self.walk(access);
        quote! { leaf.write(#walk) }
    }

    /// `&[7 * x, 9 * ko], &[&[1, 0, 0], &[0, 0, 1]]`: the index of the first iteration, and the strides of the loops per dimension.
    fn walk(&self, access: &LeafAccess) -> TokenStream {
        let base = access.base.iter().map(|base| self.index.expr(base));
        let strides = access.strides.iter().map(|strides| {
            let strides = strides.iter().map(|&stride| Literal::i64_unsuffixed(stride));
            quote! { &[#(#strides),*] }
        });
        quote! { &[#(#base),*], &[#(#strides),*] }
    }
}

fn role_path(role: Role) -> TokenStream {
    // Variants print as they are named.
    let role = format_ident!("{role:?}");
    quote! { Role::#role }
}

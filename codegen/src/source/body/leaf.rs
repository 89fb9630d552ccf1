//! The leaf: the call that computes, and the fields that it needs between calls.
//!
//! ```text
//! contract(&[m, n, k], &[Role::M, Role::N, Role::K], 1f64, a_view, b_view, c_view);              two operands, as GEMM
//! products.run(&[..], 1f64, &[a_view, b_view, d_view], c_view);                                  several, two at a time
//! leaf.run(&[..], &[a_view, b_view], c_view);                                                    registered by the user
//! nest(&[..], c_view, ReduceOp::Sum, &[a_view], &pointwise(|[v0]: [f64; 1]| alpha * v0));        any other statement
//! ```
//!
//! The first argument is the number of iterations of each loop of the leaf; a view gives the tensor index of the first
//! iteration, and the stride of each loop along each dimension:
//!
//! ```text
//! a_tile.view(a).strided(&[7 * x, 9 * ko], &[&[1, 0, 0], &[0, 0, 1]])     A[m, k] in loops mi, ni, ki
//! ```
//!
//! A view of a tile takes the tensor too, since elements that the rank owns may be read in place.

use super::super::field::Field;
use super::super::items::{element, reduce_op};
use super::super::value::{Values, bare};
use super::super::{comment, index::literal};
use super::Writer;
use crate::data::Data;
use polyshard_program::{
    Access, Buffers, Factor, LeafAccess, LeafLoop, LeafLoopId, LeafOp, LeafPart, OperandId, Role, TileId, TileOperand,
    TimeSteps,
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

impl Writer<'_> {
    /// The leaf that the user has registered, if the nest calls one. It is looked up when the program is prepared, by
    /// the statement that it must compute, so that a run cannot find a different one.
    ///
    /// ```text
    /// let leaf = Named::find("weighted", &["i", "j", "k"], &TileStatement { target: .., assign: Assign::Add, value: .. })?;
    /// ```
    pub(super) fn registered(&self) -> Option<Field> {
        let LeafOp::Named { name, statement, .. } = &self.nest.leaf.op else { return None };
        let (name, loops) = (name.as_str(), self.nest.leaf.loops.iter().map(|l| l.var.as_str()));
        let data = Data { path: TokenStream::new(), boxed: quote!(Box) };
        let (target, assign) = (data.access(&statement.target), data.assign(statement.assign));
        let (element, value) = (element(self.nest), data.value(&statement.value));
        let needed = quote! { TileStatement { target: #target, assign: #assign, value: #value } };
        let new = quote! { Named::find(#name, &[#(#loops),*], &#needed)? };
        Some(Field { name: format_ident!("leaf"), r#type: quote! { Named<#element> }, new })
    }

    /// The products of a leaf of several operands with their scratch.
    pub(super) fn products(&self) -> Option<Field> {
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
        Some(Field { name: format_ident!("products"), r#type: quote! { Products<#element> }, new })
    }

    /// The leaf, in slices if transfers are in flight while it computes: tiles in flight are polled between slices, or
    /// by the progress thread during them.
    ///
    /// ```text
    /// let mut slices = Slices::new(&[..], 0, SlicesOf::Panels);
    /// while let Some(slice) = slices.next(a_tile.poll(grid.world())? | b_tile.poll(grid.world())?) {
    ///     let _polled = grid.world().poll_meanwhile([a_tile.under_way(), b_tile.under_way()]);
    ///     let from = slice.start as i64;
    ///     contract(&[slice.len(), ..], .., a_tile.view(a).strided(&[7 * x + from, ..], ..), ..);
    /// }
    /// ```
    pub(super) fn leaf(&self, part: LeafPart) -> TokenStream {
        let note = self.nest.leaf.step.map(|step| comment(&self.steps(&[step])));
        let call = self.call();
        if let Some(steps) = &self.nest.time_steps {
            let call = self.in_turn(steps, &call);
            return quote! { #note #call };
        }
        if part != LeafPart::Whole {
            let boxes = self.boxes(part, &call);
            return quote! { #note #boxes };
        }
        let meanwhile = self.polled_meanwhile();
        let Some(along) = self.nest.sliced_along() else {
            return match meanwhile {
                None => quote! { #note #call },
                Some(meanwhile) => quote! { #note { #meanwhile #call } },
            };
        };
        let (counts, polls) = (self.counts(), self.polls());
        // Variants print as they are named.
        let of = self.nest.slices_along(along);
        let of = format_ident!("{of:?}");
        let along = literal(along.0 as i64);
        quote! {
            #note
            let mut slices = Slices::new(&[#(#counts),*], #along, SlicesOf::#of);
            while let Some(slice) = slices.next(#polls) {
                #meanwhile
                let from = slice.start as i64;
                #call
            }
        }
    }

    /// The buffers that pass values from one time step to the next.
    pub(super) fn time_steps(&self) -> Option<Field> {
        let steps = self.nest.time_steps.as_ref()?;
        let (element, capacity) = (element(self.nest), literal(steps.capacity as i64));
        let output = self.nest.kernel.output().name;
        let output = output.as_str();
        let new = quote! { StepBuffers::new(#output, #capacity)? };
        Some(Field { name: format_ident!("time_steps"), r#type: quote! { StepBuffers<#element> }, new })
    }

    /// A time step: the first one reads the fetched tile, and the last one writes the output.
    ///
    /// ```text
    /// time_steps.begin(&Region::new([..]));
    /// let (before, into) = time_steps.turn();
    /// let read = if step == 0 { u_tile.view(u) } else { before };
    /// let write = if step == 2 { v.view_mut().overwritten() } else { into };
    /// nest(&[..], write.strided(..), .., &[read.clone().strided(..)], ..);
    /// ```
    fn in_turn(&self, TimeSteps { tile, counter, region, .. }: &TimeSteps, call: &TokenStream) -> TokenStream {
        let (step, last) = (&self.names.loops[counter.0], literal(self.nest.loops[counter.0].extent - 1));
        let region = self.region(region);
        let (first, output) = (self.brought(*tile), self.output());
        quote! {
            time_steps.begin(&#region);
            let (before, into) = time_steps.turn();
            let read = if #step == 0 { #first } else { before };
            let write = if #step == #last { #output } else { into };
            #call
        }
    }

    /// The data that a transfer fetches, in the rank's shard or in a tile.
    fn brought(&self, number: TileId) -> TokenStream {
        let transfer = &self.nest.transfers[number.0];
        let (tensor, tile) = (&self.names.tensors[transfer.tensor.0], &self.names.tiles[number.0]);
        match transfer.tile.buffers {
            Buffers::Shard => quote! { #tensor.view() },
            Buffers::One | Buffers::Relay | Buffers::Ahead(_) => quote! { #tile.view(#tensor) },
        }
    }

    /// The interior of the leaf, in slices while halos are in flight, or the rims around it.
    ///
    /// ```text
    /// let mut boxes = LeafBoxes::interior(&[..], &[(1, 7), ..], 0);
    /// while let Some(part) = boxes.next(u_tile.poll(grid.world())?) {
    ///     let _polled = grid.world().poll_meanwhile([u_tile.under_way()]);
    ///     nest(&[part.count(0), ..], .., &[u_tile.view(u).strided(&[8 * x + part.first(0), ..], ..)], ..);
    /// }
    /// ```
    fn boxes(&self, part: LeafPart, call: &TokenStream) -> TokenStream {
        let counts = self.counts();
        let interior = self.nest.leaf.interior.iter().flat_map(|interior| &interior.ranges).map(|(low, high)| {
            let [low, high] = [low, high].map(|at| self.index.expr(at));
            quote! { (#low, #high) }
        });
        let interior = quote! { &[#(#interior),*] };
        let (boxes, coming, meanwhile) = match part {
            LeafPart::Interior => {
                let along = literal(self.nest.sliced_along().map_or(0, |along| along.0) as i64);
                let boxes = quote! { LeafBoxes::interior(&[#(#counts),*], #interior, #along) };
                (boxes, self.polls(), self.polled_meanwhile())
            }
            LeafPart::Whole | LeafPart::Rims => {
                (quote! { LeafBoxes::rims(&[#(#counts),*], #interior) }, quote! { false }, None)
            }
        };
        quote! {
            let mut boxes = #boxes;
            while let Some(part) = boxes.next(#coming) { #meanwhile #call }
        }
    }

    /// Lets the progress thread poll the tiles in flight, if any, until the end of the block.
    fn polled_meanwhile(&self) -> Option<TokenStream> {
        let tiles: Vec<_> = self.under_way().map(|tile| quote! { #tile.under_way() }).collect();
        (!tiles.is_empty()).then(|| quote! { let _polled = grid.world().poll_meanwhile([#(#tiles),*]); })
    }

    /// The tiles with transfers in flight while the leaf computes.
    fn under_way(&self) -> impl Iterator<Item = &Ident> {
        let tiles = self.nest.transfers.iter().zip(&self.names.tiles);
        tiles.filter(|(transfer, _)| transfer.is_under_way()).map(|(_, tile)| tile)
    }

    /// Polls the tiles in flight; true if any must be polled again.
    fn polls(&self) -> TokenStream {
        let polls = self.under_way().map(|tile| quote! { #tile.poll(grid.world())? });
        quote! { #(#polls)|* }
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

    /// The call that computes, for one slice if there are several.
    fn call(&self) -> TokenStream {
        let leaf = &self.nest.leaf;
        let mut counts = self.counts();
        if leaf.interior.is_some() {
            for LeafLoopId(l) in self.nest.cut_loops() {
                let number = literal(l as i64);
                counts[l] = syn::parse_quote!(part.count(#number));
            }
        } else if let Some(along) = self.nest.sliced_along() {
            counts[along.0] = syn::parse_quote!(slice.len());
        }
        let target = self.target(&leaf.target);
        let operands: Vec<_> = (0..leaf.operands.len()).map(OperandId).map(|operand| self.operand(operand)).collect();
        let values = Values { nest: self.nest, names: self.names };
        match &leaf.op {
            LeafOp::Contraction { roles, alpha } => {
                let roles = roles.iter().map(|role| role_path(*role));
                let alpha = bare(values.constant(alpha));
                quote! { contract(&[#(#counts),*], &[#(#roles),*], #alpha, #(#operands,)* #target); }
            }
            LeafOp::Products { alpha, .. } => {
                let alpha = bare(values.constant(alpha));
                quote! { products.run(&[#(#counts),*], #alpha, &[#(#operands),*], #target); }
            }
            LeafOp::Named { operands: tiles, .. } => {
                let tiles = tiles.iter().map(|operand| match *operand {
                    TileOperand::Access(operand) => operands[operand.0].clone(),
                    TileOperand::Scalar(name) => {
                        let scalar = self.names.scalar(self.nest, name);
                        quote! { Strided::new(&[#scalar], 0, vec![]) }
                    }
                });
                quote! { leaf.run(&[#(#counts),*], &[#(#tiles),*], #target); }
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
                        &[#(#counts),*],
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

    /// The indices that the value reads as numbers, as an argument: `&[Ramp::new(7 * x, vec![1, 0])]`, which grow by
    /// the strides. Empty without any.
    fn numbers(&self) -> TokenStream {
        let numbers = self.nest.leaf.numbers.iter().map(|number| {
            let base = self.index.expr(&number.base);
            let base = self.moved(base, &number.strides);
            let strides = number.strides.iter().map(|&stride| Literal::i64_unsuffixed(stride));
            quote! { Ramp::new(#base, vec![#(#strides),*]) }
        });
        let numbers: Vec<_> = numbers.collect();
        if numbers.is_empty() {
            TokenStream::new()
        } else {
            quote! { &[#(#numbers),*], }
        }
    }

    /// The view of an operand, of the rank's shard or of a tile.
    fn operand(&self, operand: OperandId) -> TokenStream {
        let access = &self.nest.leaf.operands[operand.0];
        let walk = self.walk(access);
        let outside = self.outside(self.nest.kernel.value().accesses()[operand.0]);
        let view = match self.nest.time_steps {
            Some(_) => quote! { read.clone() },
            None => self.brought(self.nest.transfer_of(operand)),
        };
        quote! { #view #outside #walk }
    }

    /// The value of an operand outside its array: `.outside(0f64, &[Some(13), None])`, with the extents of the
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
        Some(quote! { .outside(#value, &[#(#extents),*]) })
    }

    /// The view of the output, marked as overwritten if the leaf assigns each element once.
    fn target(&self, access: &LeafAccess) -> TokenStream {
        let walk = self.walk(access);
        let view = if self.nest.time_steps.is_some() {
            quote! { write }
        } else {
            self.output()
        };
        quote! { #view #walk }
    }

    /// The rank's shard of the output, or its tile.
    fn output(&self) -> TokenStream {
        let (tensor, tile) = (self.names.tensors.last(), self.names.tiles.last());
        match self.nest.output().tile.buffers {
            Buffers::Shard if self.nest.leaf.overwrites => quote! { #tensor.view_mut().overwritten() },
            Buffers::Shard => quote! { #tensor.view_mut() },
            Buffers::One | Buffers::Relay | Buffers::Ahead(_) => quote! { #tile.view_mut() },
        }
    }

    /// `.strided(&[7 * x, 9 * ko], &[&[1, 0, 0], &[0, 0, 1]])`: the index of the first iteration, and the strides of
    /// the loops per dimension.
    fn walk(&self, access: &LeafAccess) -> TokenStream {
        let base = access.base.iter().zip(&access.strides);
        let base = base.map(|(base, strides)| self.moved(self.index.expr(base), strides));
        let strides = access.strides.iter().map(|strides| {
            let strides = strides.iter().map(|&stride| proc_macro2::Literal::i64_unsuffixed(stride));
            quote! { &[#(#strides),*] }
        });
        quote! { .strided(&[#(#base),*], &[#(#strides),*]) }
    }
}

impl Writer<'_> {
    /// The first index of a slice or box, given the first index `base` of the whole leaf and the strides of its loops.
    fn moved(&self, base: syn::Expr, strides: &[i64]) -> syn::Expr {
        if self.nest.leaf.interior.is_some() {
            let cut = self.nest.cut_loops().into_iter().filter(|l| strides[l.0] != 0);
            return cut.fold(base, |base, LeafLoopId(l)| {
                let (number, stride) = (literal(l as i64), Literal::i64_unsuffixed(strides[l]));
                match strides[l] {
                    1 => syn::parse_quote!(#base + part.first(#number)),
                    _ => syn::parse_quote!(#base + part.first(#number) * #stride),
                }
            });
        }
        let is_zero = quote!(#base).to_string() == "0";
        match self.nest.sliced_along().map(|along| strides[along.0]) {
            None | Some(0) => base,
            Some(1) if is_zero => syn::parse_quote!(from),
            Some(1) => syn::parse_quote!(#base + from),
            Some(stride) => {
                let stride = Literal::i64_unsuffixed(stride);
                syn::parse_quote!(#base + from * #stride)
            }
        }
    }
}

fn role_path(role: Role) -> TokenStream {
    // Variants print as they are named.
    let role = format_ident!("{role:?}");
    quote! { Role::#role }
}

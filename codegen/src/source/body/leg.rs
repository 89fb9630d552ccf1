//! A leg as code: the call of a tile's method that carries it out, or, between two arrays, a value that is part of a
//! redistribution.

use super::super::items::reduce_op;
use super::{Writer, along_of, reach_of};
use polyshard_program::{Buffers, Direction, Expr, Leg, Owners, Shift, Source, TileId};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// The two ends of a leg.
#[derive(Clone, Copy)]
pub(in super::super) enum Ends<'a> {
    /// The shards of an input, or other tiles, and a tile.
    Input(Tile<'a>),
    /// The output's tile and shards.
    Output(Tile<'a>),
    /// Two arrays.
    Arrays,
}

/// A tile, and the region that is fetched into it or written back from it.
#[derive(Clone, Copy)]
pub(in super::super) struct Tile<'a> {
    pub(super) writer: &'a Writer<'a>,
    pub(super) number: TileId,
    pub(super) region: &'a TokenStream,
    pub(super) from: Source,
}

/// A leg as code.
///
/// ```text
/// input      let a_region = Region::new([..]); a_tile.broadcast(along_y, &[ko], a, &a_region)?;
/// output     c_tile.reduce(along_z, &[0], c, ReduceOp::Sum)?;
/// arrays     Leg::with_one(vec![0], &[0])
/// ```
///
/// The method has another name if the source is a tile, or if the transfer is ahead. Elements that the rank itself owns
/// are copied immediately, even ahead, by `begin_own`. An output in place needs no call, and neither does a shift of
/// sums: they were taken over at the start.
pub(in super::super) fn leg(leg: &Leg, ends: Ends<'_>) -> TokenStream {
    match (leg, ends) {
        (Leg::InPlace | Leg::Copy | Leg::Collective { owners: Owners::All, .. }, Ends::Input(input)) => {
            let Tile { writer, number, region, from } = input;
            let (tile, source, name) = (writer.tile(number), input.array(), input.name());
            match leg {
                _ if from == Source::Ahead => quote! { #tile.begin_own(#source, &#region); },
                Leg::InPlace if writer.nest.transfers[number.0].tile.buffers == Buffers::Shard => TokenStream::new(),
                Leg::InPlace => quote! { #tile.hold(&#region); },
                _ => quote! { let #name = #region; #tile.copy(#source, &#name); },
            }
        }
        (Leg::Copy, Ends::Output(output)) => {
            let (tile, c, op) = (output.writer.tile(output.number), output.array(), output.op());
            quote! { #tile.combine_local(#c, #op); }
        }
        (Leg::InPlace | Leg::Shift(_), Ends::Output(_)) => TokenStream::new(),
        (Leg::Collective { axes, owners, .. }, Ends::Input(tile) | Ends::Output(tile)) => {
            let call = tile.call(match (owners, ends) {
                (Owners::One(_), Ends::Input(_)) => "broadcast",
                (Owners::Parts | Owners::All, Ends::Input(_)) => "all_gather",
                (Owners::One(_), _) => "reduce",
                (Owners::All, _) => "all_reduce",
                (Owners::Parts, _) => "reduce_scatter",
            });
            let group = tile.writer.names.group(axes, leg.stages());
            let root = match owners {
                Owners::One(root) => {
                    let root = root.iter().map(|root| tile.writer.index.expr(root));
                    quote! { &[#(#root),*], }
                }
                Owners::All | Owners::Parts => TokenStream::new(),
            };
            let (array, name, region, op) = (tile.array(), tile.name(), tile.region, tile.op());
            let tile = tile.writer.tile(tile.number);
            match ends {
                Ends::Input(_) => quote! { let #name = #region; #tile.#call(#group, #root #array, &#name)?; },
                _ => quote! { #tile.#call(#group, #root #array, #op)?; },
            }
        }
        (Leg::Permute { owner, served }, Ends::Input(input)) => {
            let (tile, source, name) = (input.writer.tile(input.number), input.array(), input.name());
            let (permutation, call) = (input.permutation(owner, served), input.call("permute"));
            quote! {
                #permutation
                let (from, to) = permutation;
                #tile.#call(grid, from, to, #source, &#name(grid.coords()))?;
            }
        }
        (Leg::Permute { owner, served }, Ends::Output(output)) => {
            let (tile, c, combined) = (output.writer.tile(output.number), output.array(), output.combined());
            // The roles are those of an input, reversed: the owner of a rank's tile receives it.
            let (permutation, call) = (output.permutation(owner, served), output.call("permute_back"));
            quote! { #permutation let (to, from) = permutation; #tile.#call(grid, to, from, #c #combined)?; }
        }
        (Leg::Halo { reach } | Leg::Exchange { reach }, Ends::Input(input)) => {
            let Tile { writer, number, region, .. } = input;
            let (tile, source, name) = (writer.tile(number), input.array(), input.name());
            let is_halo = writer.nest.transfers[number.0].tile.own_in_place;
            let call = input.call(if is_halo { "halo" } else { "exchange" });
            let (closure, reach) = (writer.of_rank(region), reach_of(reach));
            quote! { let #name = #closure; #tile.#call(grid, #reach, #source, #name)?; }
        }
        (Leg::Halo { reach } | Leg::Exchange { reach }, Ends::Output(output)) => {
            let (tile, c, combined) = (output.writer.tile(output.number), output.array(), output.combined());
            let (closure, reach, call) =
                (output.writer.of_rank(output.region), reach_of(reach), output.call("write_back"));
            quote! { #tile.#call(grid, #reach, #c, #closure #combined)?; }
        }
        (Leg::Shift(Shift { axis, by, .. }), Ends::Input(input)) => {
            let (tile, source, name) = (input.writer.tile(input.number), input.array(), input.name());
            let (group, by) = (input.writer.names.group(&[axis.0], None), Literal::i64_unsuffixed(*by));
            // A shift always reads from tiles.
            let (region, call) = (input.region, if input.from == Source::Ahead { "begin_shift" } else { "shift" });
            let call = format_ident!("{call}");
            quote! { let #name = #region; #tile.#call(#group, #by, #source, &#name)?; }
        }
        (Leg::Collective { axes, owners, .. }, Ends::Arrays) => {
            let axes = axes.iter().map(|&axis| Literal::usize_unsuffixed(axis));
            let axes = quote! { vec![#(#axes),*] };
            match owners {
                Owners::One(owner) => {
                    let owner = owner.iter().map(|at| Literal::i64_unsuffixed(at.offset()));
                    quote! { Leg::with_one(#axes, &[#(#owner),*]) }
                }
                Owners::All => quote! { Leg::collective(#axes, Owners::All) },
                Owners::Parts => quote! { Leg::collective(#axes, Owners::Parts) },
            }
        }
        (Leg::Exchange { reach }, Ends::Arrays) => {
            let along = along_of(reach);
            quote! { Leg::exchange(#along) }
        }
        (leg, Ends::Arrays) => unreachable!("no array is moved by {leg:?}; this is a bug in polyshard"),
    }
}

impl<'a> Tile<'a> {
    fn array(&self) -> &'a Ident {
        self.writer.tensor(&self.writer.nest.transfers[self.number.0])
    }

    fn name(&self) -> &'a Ident {
        &self.writer.names.regions[self.number.0]
    }

    fn is_input(&self) -> bool {
        self.writer.nest.transfers[self.number.0].direction == Direction::In
    }

    /// The operation that combines.
    fn op(&self) -> TokenStream {
        reduce_op(self.writer.nest.kernel.assign())
    }

    /// The operation as an argument; a transfer ahead combines on arrival instead.
    fn combined(&self) -> Option<TokenStream> {
        let op = self.op();
        (self.from != Source::Ahead).then(|| quote! { , #op })
    }

    /// The method of this name, or its variant that reads a region of an input from tiles, or that only begins the
    /// transfer.
    fn call(&self, name: &str) -> Ident {
        match self.from {
            Source::Ahead => format_ident!("begin_{name}"),
            Source::Tiles if self.is_input() => format_ident!("{name}_held"),
            Source::Shards | Source::Tiles => format_ident!("{name}"),
        }
    }

    /// Defines `permutation`: the rank to which `image` maps this one, and the rank that it maps to this one.
    ///
    /// ```text
    /// let a_region = |at: &[i64]| { .. };
    /// let permutation = grid.permutation(|at: &[i64]| { .. vec![x, (x + y) % 2] }, &[x, (y - x).rem_euclid(2)], a_region);
    /// ```
    ///
    /// The region, at its partner's coordinates, gives the elements to send: if it is empty, the rank sends nothing.
    fn permutation(&self, image: &[Expr], inverse: &[Expr]) -> TokenStream {
        let (writer, name) = (self.writer, self.name());
        let (region, image) = (writer.of_rank(self.region), writer.of_rank(&writer.rank(image)));
        let inverse = inverse.iter().map(|coordinate| writer.index.expr(coordinate));
        quote! {
            let #name = #region;
            let permutation = grid.permutation(#image, &[#(#inverse),*], #name);
        }
    }
}

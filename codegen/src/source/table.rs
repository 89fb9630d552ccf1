//! The table of a kernel: its arrays, its loops, and its transfers, with regions and owners as closures.
//!
//! ```text
//! fn kernel() -> Kernel<'static> {
//!     // step 7: communicate(A, ko): A, broadcast(y), at most 504 bytes per rank and step
//!     let a_tile = Transfer::input("A", 0)
//!         .region(|[x, _]: [i64; 2], [ko]: [i64; 1]| Region::new([7 * x..(7 * x + 7).min(13), 9 * ko..(9 * ko + 9).min(17)]))
//!         .by([Leg::collective([1], Owners::One(coordinates(|_: [i64; 2], [ko]: [i64; 1]| [ko])))])
//!         .tile(63);
//!     ..
//!     Kernel::new("matmul", "C[m, n] += A[m, k] * B[k, n]", &mesh(), Assign::Add, [&sharding_a(), ..])
//!         .loops([2])
//!         .transfers([a_tile, b_tile, c_tile])
//! }
//! ```
//!
//! Tests: `tests/it/golden.rs`.

use super::body::Writer;
use super::index::literal;
use super::{comment, mentions, reduction};
use crate::data::Data;
use polyshard_layout::{Neighbours, Reach, Stages, Stencil};
use polyshard_program::{
    Algorithm, Buffers, Direction, Expr, InPlace, KernelId, Leg, Owners, Packing, Region, Shift, TileId, TransferView,
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

impl Writer<'_> {
    /// The function `function`, which returns the table of the kernel, whose arrays have the shardings that these functions return.
    pub(super) fn table(&self, function: &Ident, in_place: Option<InPlace>, shardings: &[&Ident]) -> TokenStream {
        let (nest, kernel) = (self.nest, &self.nest.kernel);
        let transfers = nest.transfers.iter().zip(nest.volumes()).zip(&self.names.tiles);
        let transfers = transfers.map(|((transfer, volume), name)| {
            let (note, made) = (self.note(transfer, volume.each), self.transfer(transfer));
            quote! { #note let #name = #made; }
        });
        let (tiles, extents) = (&self.names.tiles, nest.loops.iter().map(|l| literal(l.extent)));
        let loops = (!nest.loops.is_empty()).then(|| quote! { .loops([#(#extents),*]) });
        let written = kernel.written().map(|written| {
            let number = |&number: &i64| Literal::i64_unsuffixed(number);
            let base = written.base.iter().map(number);
            let counts = written.counts.iter().map(|&count| literal(count as i64));
            let strides = written.strides.iter().map(|strides| {
                let strides = strides.iter().map(number);
                quote! { &[#(#strides),*] }
            });
            quote! { .writes(&[#(#base),*], &[#(#strides),*], &[#(#counts),*]) }
        });
        let overwrites = nest.leaf.overwrites.then(|| quote! { .overwrites() });
        let in_place = in_place.filter(|ranks| *ranks != InPlace::Always).map(|ranks| {
            // Variants print as they are named.
            let ranks = format_ident!("{ranks:?}");
            quote! { .in_place(InPlace::#ranks) }
        });
        let sliced = nest.sliced_along().map(|along| {
            // Variants print as they are named.
            let of = nest.slices_along(along);
            let of = format_ident!("{of:?}");
            let along = literal(along.0 as i64);
            quote! { .sliced(#along, SlicesOf::#of) }
        });
        let steps = nest.time_steps.as_ref().map(|steps| {
            let (counter, capacity) = (literal(steps.counter.0 as i64), literal(steps.capacity as i64));
            let region = self.of_rank(&self.region(&steps.region));
            quote! { .time_steps(#counter, #capacity, #region) }
        });
        let (name, statement) = (kernel.name(), kernel.statement());
        let (name, doc) = (name.as_str(), format!(" The arrays and transfers of `{statement}`."));
        let assign = Data { path: TokenStream::new(), boxed: quote!(Box) }.assign(kernel.assign());
        quote! {
            #[doc = #doc]
            fn #function() -> Kernel<'static> {
                #(#transfers)*
                Kernel::new(#name, #statement, &mesh(), #assign, [#(&#shardings()),*])
                    #loops
                    .transfers([#(#tiles),*])
                    #written #overwrites #in_place #sliced #steps
            }
        }
    }

    /// A comment that describes a transfer: `step 7: communicate(A, ko): A, broadcast(y), at most 504 bytes per rank and step`.
    fn note(&self, transfer: &TransferView<'_>, bytes: u64) -> TokenStream {
        let by = transfer.step.map(|step| format!("{}: ", self.steps(&[step]))).unwrap_or_default();
        let bytes = if bytes == 0 { String::new() } else { format!(", at most {bytes} bytes per rank and step") };
        let (name, pattern) = (self.nest.tensor_name(transfer.tensor), self.nest.pattern_of(transfer));
        comment(&format!("{by}{name}, {pattern}{bytes}"))
    }

    fn transfer(&self, transfer: &TransferView<'_>) -> TokenStream {
        let tensor = self.nest.tensor_name(transfer.tensor);
        let tensor = tensor.as_str();
        let new = match transfer.direction {
            Direction::In => match self.argument(transfer.tensor) {
                Ok(number) => {
                    let number = literal(number as i64);
                    quote! { Transfer::input(#tensor, #number) }
                }
                Err(KernelId(writer)) => {
                    let writer = literal(writer as i64);
                    return quote! { Transfer::written_by(#tensor, #writer) };
                }
            },
            Direction::Out { .. } => quote! { Transfer::output(#tensor) },
        };
        if let Some((KernelId(kernel), TileId(tile))) = transfer.reused {
            let [kernel, tile] = [kernel, tile].map(|number| literal(number as i64));
            return quote! { #new.reuses(#kernel, TileId(#tile)) };
        }
        let is_in_tile = transfer.closes_sums() && self.nest.in_panels;
        if transfer.route.is_in_place() && !is_in_tile {
            return new;
        }
        let region = self.of_rank(&self.region(&transfer.region));
        if is_in_tile {
            let tile = tile(transfer);
            return quote! { #new.region(#region) #tile };
        }
        let legs = transfer.route.legs.iter().map(|one| leg(one, &|exprs| self.coordinates(exprs)));
        let held = transfer.route.held.as_ref().map(|held| {
            let held = self.of_rank(&self.region(held));
            quote! { .holding(#held) }
        });
        let tile = tile(transfer);
        let interior = transfer.interior_first.then(|| quote! { .interior_first() });
        let any_order = (transfer.direction == Direction::Out { any_order: true }).then(|| quote! { .in_any_order() });
        quote! { #new.region(#region).by([#(#legs),*]) #held #tile #interior #any_order }
    }

    /// A region as an expression of this rank's coordinates and the counters, empty if its conditions do not hold.
    ///
    /// ```text
    /// Region::new([7 * x..(7 * x + 7).min(13), 0..17]).periodic(0, 4).in_blocks(1, 3, 6)
    /// if ko < 2 { Region::new([..]) } else { Region::empty(2usize) }
    /// ```
    fn region(&self, region: &Region) -> TokenStream {
        let ranges = region.ranges.iter().map(|(low, high)| {
            let (low, high) = (self.index.expr(low), self.index.expr(high));
            quote! { #low..#high }
        });
        let ranges: Vec<_> = ranges.collect();
        // Clippy warns of a list with one range.
        let new = match &ranges[..] {
            [range] => quote! { Region::new(std::iter::once(#range)) },
            ranges => quote! { Region::new([#(#ranges),*]) },
        };
        let periods = region.periods.iter().enumerate().filter_map(|(dim, period)| {
            let (dim, period) = (literal(dim as i64), literal((*period)?));
            Some(quote! { .periodic(#dim, #period) })
        });
        let blocks = region.blocks.iter().enumerate().filter_map(|(dim, blocks)| {
            let blocks = blocks.as_ref()?;
            let (dim, size, step) = (literal(dim as i64), self.index.expr(&blocks.size), literal(blocks.stride));
            Some(quote! { .in_blocks(#dim, #size, #step) })
        });
        let new = quote! { #new #(#periods)* #(#blocks)* };
        if region.when.is_empty() {
            return new;
        }
        let conditions = region.when.iter().map(|(a, b)| {
            let (a, b) = (self.index.expr(a), self.index.expr(b));
            quote! { #a < #b }
        });
        let ndim = region.ranges.len();
        quote! { if #(#conditions)&&* { #new } else { Region::empty(#ndim) } }
    }

    /// A closure over a rank's coordinates and the counters that yields `value`: to find what other ranks need, the same expressions are
    /// evaluated at their coordinates.
    ///
    /// ```text
    /// |[x, _]: [i64; 2], [ko]: [i64; 1]| Region::new([7 * x..(7 * x + 7).min(13), 9 * ko..(9 * ko + 9).min(17)])
    /// ```
    fn of_rank(&self, value: &TokenStream) -> TokenStream {
        let bound = |names: &[Ident]| {
            let used = names.iter().map(|name| mentions(value, &name.to_string()).then_some(name));
            let used: Vec<_> = used.collect();
            let count = literal(names.len() as i64);
            if used.iter().all(Option::is_none) {
                return quote! { _: [i64; #count] };
            }
            let used = used.into_iter().map(|name| name.map_or(quote! { _ }, |name| quote! { #name }));
            quote! { [#(#used),*]: [i64; #count] }
        };
        let (coordinates, counters) = (bound(&self.names.axes), bound(&self.names.loops));
        quote! { |#coordinates, #counters| #value }
    }

    /// The coordinates of another rank: `coordinates(|[x, y]: [i64; 2], _: [i64; 1]| [x, (x + y) % 2])`.
    fn coordinates(&self, exprs: &[Expr]) -> TokenStream {
        let exprs = exprs.iter().map(|coordinate| self.index.expr(coordinate));
        let closure = self.of_rank(&quote! { [#(#exprs),*] });
        quote! { coordinates(#closure) }
    }
}

/// The tile of a transfer: `.tile(63).fixed()`; none if the leaf works on the shard.
fn tile(transfer: &TransferView<'_>) -> Option<TokenStream> {
    let (tile, capacity) = (transfer.tile, literal(transfer.tile.capacity as i64));
    let buffers = match tile.buffers {
        Buffers::Shard => return None,
        Buffers::One => quote! { .tile(#capacity) },
        Buffers::Relay => quote! { .relay(#capacity) },
        Buffers::Ahead(depth) => {
            let depth = literal(depth as i64);
            quote! { .ahead(#depth, #capacity) }
        }
    };
    let flags = [("fixed", tile.is_fixed), ("own_in_place", tile.own_in_place)];
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| {
        let name = format_ident!("{name}");
        quote! { .#name() }
    });
    Some(quote! { #buffers #(#flags)* })
}

/// A leg as a value; `coordinates` writes those of ranks.
///
/// ```text
/// Leg::collective([1], Owners::Parts)
/// Leg::Permute { owner: coordinates(..), served: coordinates(..) }
/// Leg::exchange([Reach::All])
/// ```
pub(super) fn leg(leg: &Leg, coordinates: &dyn Fn(&[Expr]) -> TokenStream) -> TokenStream {
    match leg {
        Leg::InPlace => quote! { Leg::InPlace },
        Leg::Copy => quote! { Leg::Copy },
        Leg::Collective { axes, owners, by } => {
            let numbers = axes.iter().map(|&axis| Literal::usize_unsuffixed(axis));
            let numbers: Vec<_> = numbers.collect();
            let owners = match owners {
                Owners::One(owner) => {
                    let owner = coordinates(owner);
                    quote! { Owners::One(#owner) }
                }
                Owners::All => quote! { Owners::All },
                Owners::Parts => quote! { Owners::Parts },
            };
            let new = quote! { Leg::collective([#(#numbers),*], #owners) };
            let segments = |segments: &usize| literal(*segments as i64);
            let by = match by {
                Algorithm::Library => return new,
                Algorithm::Direct => quote! { Direct },
                Algorithm::EachPart => quote! { EachPart },
                Algorithm::GatherTerms => quote! { GatherTerms },
                Algorithm::ReduceScatterGather => quote! { ReduceScatterGather },
                Algorithm::Chain(count) => {
                    let count = segments(count);
                    quote! { Chain(#count) }
                }
                Algorithm::Circulant(count) => {
                    let count = segments(count);
                    quote! { Circulant(#count) }
                }
                Algorithm::Procedure(procedure) => {
                    let procedure = reduction::procedure(procedure);
                    quote! { Procedure(#procedure) }
                }
                Algorithm::Stages(stages) => {
                    let stages = stages_of(stages);
                    quote! {
                        Stages(
                            Stages::new(&mesh(), &[#(#numbers),*], #stages)
                                .expect("the stages were checked when this was generated"),
                        )
                    }
                }
            };
            quote! { #new.by(Algorithm::#by) }
        }
        Leg::Shift(Shift { axis, by, counter }) => {
            let (axis, counter) = (literal(axis.0 as i64), literal(counter.0 as i64));
            let by = Literal::i64_unsuffixed(*by);
            quote! { Leg::shift(#axis, #by, #counter) }
        }
        Leg::Permute { owner, served } => {
            let [owner, served] = [owner, served].map(|exprs| coordinates(exprs));
            quote! { Leg::Permute { owner: #owner, served: #served } }
        }
        Leg::Halo { reach } => {
            let along = along_of(reach);
            match reach.stencil {
                Stencil::Box => quote! { Leg::halo(#along) },
                Stencil::Star => quote! { Leg::Halo { reach: Neighbours::in_star(#along) } },
            }
        }
        Leg::Exchange { reach, packing } => {
            let along = along_of(reach);
            let new = match reach.stencil {
                Stencil::Box => quote! { Leg::exchange(#along) },
                Stencil::Star => quote! { Leg::exchange_with(Neighbours::in_star(#along)) },
            };
            match packing {
                Packing::Packed => new,
                Packing::LaidOut => quote! { #new.laid_out() },
            }
        }
    }
}

/// The digits of each stage of a collective: `vec![vec![AxisPart { axis: 0, stride: 2, extent: 2 }], ..]`.
fn stages_of(stages: &Stages) -> TokenStream {
    let stages = stages.parts().iter().map(|parts| {
        let parts = parts.iter().map(|part| {
            let [axis, stride, extent] = [part.axis, part.stride, part.extent].map(|number| literal(number as i64));
            quote! { AxisPart { axis: #axis, stride: #stride, extent: #extent } }
        });
        quote! { vec![#(#parts),*] }
    });
    quote! { vec![#(#stages),*] }
}

/// The reach of the owners per axis, in coordinates relative to the reader.
fn along_of(reach: &Neighbours) -> TokenStream {
    let number = Literal::i64_unsuffixed;
    let axes = reach.along.iter().map(|reach| match reach {
        Reach::All => quote! { Reach::All },
        &Reach::OWN => quote! { Reach::OWN },
        Reach::Within { low, high } => {
            let (low, high) = (number(*low), number(*high));
            quote! { Reach::Within { low: #low, high: #high } }
        }
        Reach::Around { low, high } => {
            let (low, high) = (number(*low), number(*high));
            quote! { Reach::Around { low: #low, high: #high } }
        }
    });
    quote! { [#(#axes),*] }
}

//! What runs need, made once, and the statements of `run_into`: loops, transfers and leaves, in the order of the nest.

mod leaf;

use super::field::Field;
use super::index::{Index, literal};
use super::items::{element, reduce_op};
use super::names::Names;
use super::{comment, mentions};
use polyshard_layout::{Reach, Stages};
use polyshard_program::{
    Buffers, Direction, Expr, Iteration, Leg, LoopId, Nest, Owners, Region, Shift, Statement, StepId, TileId, Transfer,
    TransferId, Written,
};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// What runs of a nest need, in the order in which it is made.
pub(super) fn fields(nest: &Nest, names: &Names) -> Vec<Field> {
    let writer = Writer { nest, names, index: Index::new(nest, names) };
    let made = writer.registered().into_iter().chain(writer.groups()).chain(writer.written());
    made.chain(writer.tiles()).chain(writer.products()).chain(writer.known()).chain(writer.is_first()).collect()
}

/// The statements of a run.
pub(super) fn body(nest: &Nest, statements: &[Statement], names: &Names) -> TokenStream {
    let writer = Writer { nest, names, index: Index::new(nest, names) };
    let statements = writer.statements(statements);
    let coordinates = coordinates(names, &statements);
    let shared = writer.shared();
    let ahead = nest.inputs().iter().zip(&names.tiles).filter(|(transfer, _)| transfer.ahead > 0);
    let restarts = ahead.map(|(_, tile)| quote! { #tile.restart(); });
    quote! { #coordinates #(#restarts)* #shared #statements }
}

/// This rank's coordinates, with `_` for those that nothing uses.
fn coordinates(names: &Names, used_by: &TokenStream) -> TokenStream {
    let bound = names.axes.iter().map(|axis| match mentions(used_by, &axis.to_string()) {
        true => quote! { #axis },
        false => quote! { _ },
    });
    if names.axes.iter().all(|axis| !mentions(used_by, &axis.to_string())) {
        return TokenStream::new();
    }
    quote! { let [#(#bound),*] = grid.coordinates(); }
}

/// How a leg brings a region.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Out of shards.
    FromShards,
    /// Out of tiles.
    FromTiles,
    /// Out of shards, for a later iteration.
    Ahead,
}

struct Writer<'a> {
    nest: &'a Nest,
    names: &'a Names,
    index: Index<'a>,
}

impl Writer<'_> {
    fn statements(&self, statements: &[Statement]) -> TokenStream {
        statements.iter().map(|statement| self.statement(statement)).collect()
    }

    fn statement(&self, statement: &Statement) -> TokenStream {
        match statement {
            Statement::Loop { counter, body, .. } => self.serial_loop(*counter, body),
            Statement::Fill { tile, .. } => self.fill(*tile),
            Statement::Begin(TransferId::Tile { tile, .. }) => self.transfer(*tile),
            Statement::BeginFor { tile, counter, iteration, .. } => self.begin_for(*tile, *counter, *iteration),
            Statement::Await(TransferId::Tile { tile, .. }) if self.nest.transfers[tile.0].ahead > 0 => {
                let (tile, source) = (&self.names.tiles[tile.0], self.tensor(&self.nest.transfers[tile.0]));
                quote! { #tile.arrive(grid.world(), #source)?; }
            }
            // Other calls that begin a transfer return when it is done.
            Statement::Await(_) => TokenStream::new(),
            Statement::Compute(_) => self.leaf(),
            Statement::Repeat { .. } | Statement::Begin(TransferId::Array(_)) | Statement::Free(_) => {
                unreachable!("no statement of a nest; this is a bug of polyshard")
            }
        }
    }

    /// Begins a transfer for another iteration of its loop, if there is that one.
    fn begin_for(&self, number: TileId, counter: LoopId, iteration: Iteration) -> TokenStream {
        let transfer = &self.nest.transfers[number.0];
        let note = self.note(transfer);
        let name = &self.names.loops[counter.0];
        let is_first = iteration == Iteration::At(0);
        let begun = match transfer.route.shift() {
            Some(Shift { axis, by, .. }) if !is_first => {
                let (tile, shown, group) =
                    (&self.names.tiles[number.0], self.region(&transfer.region), self.names.group(&[axis], None));
                let (source, by) = (self.tensor(transfer), proc_macro2::Literal::i64_unsuffixed(by));
                quote! { #tile.begin_shift(#group, #by, #source, &#shown)?; }
            }
            _ => self.brought(number, &transfer.route.at_owners()[0], &transfer.region, Manner::Ahead),
        };
        let literal = proc_macro2::Literal::i64_suffixed;
        let bound = |value: TokenStream| mentions(&begun, &name.to_string()).then(|| quote! { let #name = #value; });
        match iteration {
            Iteration::At(value) => {
                let value = literal(value);
                let bound = bound(quote! { #value });
                quote! { #note { #bound #begun } }
            }
            Iteration::Later(by) => {
                let (by, extent) = (literal(by), literal(self.nest.loops[counter.0].extent));
                let bound = bound(quote! { #name + #by });
                quote! { #note if #name + #by < #extent { #bound #begun } }
            }
        }
    }

    fn steps(&self, numbers: &[StepId]) -> String {
        let steps: Vec<_> =
            numbers.iter().map(|&StepId(number)| format!("step {number}: {}", self.nest.steps[number - 1])).collect();
        steps.join("; ")
    }

    fn serial_loop(&self, LoopId(counter): LoopId, body: &[Statement]) -> TokenStream {
        let of = &self.nest.loops[counter];
        let note = (!of.steps.is_empty()).then(|| comment(&self.steps(&of.steps)));
        let body = self.statements(body);
        let name = &self.names.loops[counter];
        let name = if mentions(&body, &name.to_string()) {
            quote! { #name }
        } else {
            quote! { _ }
        };
        let extent = proc_macro2::Literal::i64_suffixed(of.extent);
        quote! { #note for #name in 0..#extent { #body } }
    }

    /// The tile buffers.
    fn tiles(&self) -> Vec<Field> {
        let element = element(self.nest);
        let tiles = self.nest.transfers.iter().zip(&self.names.tiles).filter_map(|(transfer, name)| {
            let (tensor, tile) = (self.nest.tensor_name(transfer.tensor), transfer.tile);
            let (tensor, capacity) = (tensor.as_str(), literal(tile.capacity as i64));
            let new = match (transfer.direction, tile.buffers) {
                (_, Buffers::Shard) => return None,
                (Direction::In, Buffers::One) => quote! { Tile::new(#tensor, #capacity)? },
                (Direction::In, Buffers::Relay) => quote! { Tile::relay(#tensor, #capacity)? },
                (Direction::In, Buffers::Ahead(depth)) => {
                    let (depth, group) = (literal(depth as i64), transfer.route.broadcasts_along());
                    let group = match group.map(|axes| self.names.group(axes, None)) {
                        Some(group) => quote! { Some(&*#group) },
                        None => quote! { None },
                    };
                    quote! { Tile::ahead(#tensor, #capacity, #depth, #group)? }
                }
                (Direction::Out { any_order }, _) => {
                    let written = &self.names.written;
                    let within = self.nest.kernel.written().map(|_| quote! { .within(#written.clone()) });
                    let order = any_order.then(|| quote! { .in_any_order() });
                    let pieces = tile.in_pieces.then(|| quote! { .in_pieces() });
                    quote! { OutTile::new(#tensor, #capacity)?#within #order #pieces }
                }
            };
            let fixed = tile.is_fixed.then(|| quote! { .fixed() });
            let r#type = match transfer.direction {
                Direction::In => quote! { Tile<#element> },
                Direction::Out { .. } => quote! { OutTile<#element> },
            };
            Some(Field { name: name.clone(), r#type, new: quote! { #new #fixed } })
        });
        tiles.collect()
    }

    /// The elements of the output that the kernel writes, where something has to know.
    fn written(&self) -> Option<Field> {
        let Written { base, strides, counts } = self.nest.kernel.written()?;
        if !super::items::clears(self.nest) && self.nest.output().route.is_in_place() {
            return None;
        }
        let number = |&number: &i64| proc_macro2::Literal::i64_unsuffixed(number);
        let (base, counts) = (base.iter().map(number), counts.iter().map(|&count| literal(count as i64)));
        let strides = strides.iter().map(|strides| {
            let strides = strides.iter().map(number);
            quote! { &[#(#strides),*] }
        });
        let sharding = self.names.shardings.last();
        let new = quote! { Written::new(world, &#sharding(), &[#(#base),*], &[#(#strides),*], &[#(#counts),*]) };
        Some(Field { name: self.names.written.clone(), r#type: quote! { Written }, new })
    }

    /// The inputs, where ranks that share memory see them.
    fn shared(&self) -> TokenStream {
        if !self.nest.reads_others() {
            return TokenStream::new();
        }
        let inputs = &self.names.tensors[..self.nest.kernel.inputs().len()];
        let note = comment("until the end, ranks of a node read each other's inputs where they are");
        quote! {
            #note
            let shared = SharedInputs::new(grid.world(), [#(#inputs),*], known_inputs)?;
            let [#(#inputs),*] = shared.shards();
        }
    }

    /// Where inputs were in the last run.
    fn known(&self) -> Option<Field> {
        let (r#type, new) = (quote! { InputTable }, quote! { InputTable::default() });
        self.nest.reads_others().then(|| Field { name: format_ident!("known_inputs"), r#type, new })
    }

    /// Whether it is the first round, where others leave something out.
    fn is_first(&self) -> Option<Field> {
        let (r#type, new) = (quote! { bool }, quote! { true });
        let is_used = self.nest.transfers.iter().any(|transfer| transfer.once);
        is_used.then(|| Field { name: format_ident!("is_first"), r#type, new })
    }

    /// The sub-communicators, one per set of axes.
    fn groups(&self) -> Vec<Field> {
        let groups = self.nest.groups().into_iter().map(|(axes, stages)| {
            let name = self.names.group(&axes, stages.as_ref()).clone();
            let axes = axes.iter().map(|&axis| literal(axis as i64));
            let new = match stages.as_ref().map(stages_of) {
                None => quote! { grid.group(&[#(#axes),*])? },
                Some(stages) => quote! { grid.group_in_stages(&[#(#axes),*], #stages)? },
            };
            Field { name, r#type: quote! { std::rc::Rc<Group> }, new }
        });
        groups.collect()
    }

    fn region(&self, region: &Region) -> TokenStream {
        let ranges = region.ranges.iter().map(|(low, high)| {
            let (low, high) = (self.index.expr(low), self.index.expr(high));
            quote! { #low..#high }
        });
        let ranges: Vec<_> = ranges.collect();
        // A list of one range is what clippy takes for a slip.
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

    /// A closure over coordinates that yields `value`.
    fn of_rank(&self, value: TokenStream) -> TokenStream {
        let used: Vec<_> = self.names.axes.iter().map(|axis| mentions(&value, &axis.to_string())).collect();
        let bound =
            self.names.axes.iter().zip(&used).enumerate().filter(|(_, (_, used))| **used).map(|(i, (axis, _))| {
                let i = literal(i as i64);
                quote! { let #axis = at[#i]; }
            });
        let at = if used.contains(&true) {
            quote! { at }
        } else {
            quote! { _ }
        };
        quote! { |#at: &[i64]| { #(#bound)* #value } }
    }

    fn rank(&self, coordinates: &[Expr]) -> TokenStream {
        let coordinates = coordinates.iter().map(|coordinate| self.index.expr(coordinate));
        quote! { vec![#(#coordinates),*] }
    }

    fn transfer(&self, number: TileId) -> TokenStream {
        let transfer = &self.nest.transfers[number.0];
        let note = self.note(transfer);
        let Some(Shift { axis, by, counter }) = transfer.route.shift() else {
            let moved = self.at_owners(number, &transfer.region);
            return match transfer.once {
                true => quote! { #note if *is_first { #moved } },
                false => quote! { #note #moved },
            };
        };
        let at_owners = self.at_owners(number, &transfer.region_at_owners(counter, &self.index.ranges));
        let (group, counter) = (self.names.group(&[axis], None), &self.names.loops[counter.0]);
        match transfer.direction {
            Direction::In => {
                let (tile, name, source) =
                    (&self.names.tiles[number.0], &self.names.regions[number.0], self.tensor(transfer));
                let (shown, by) = (self.region(&transfer.region), proc_macro2::Literal::i64_unsuffixed(by));
                quote! {
                    #note
                    if #counter == 0 {
                        #at_owners
                    } else {
                        let #name = #shown;
                        #tile.shift(#group, #by, #source, &#name)?;
                    }
                }
            }
            Direction::Out { .. } => {
                let extent = proc_macro2::Literal::i64_unsuffixed(self.extent_of(transfer));
                // On the way, sums stay in the tile.
                quote! { #note if #counter + 1 == #extent { #at_owners } }
            }
        }
    }

    /// What a transfer is, as a comment.
    fn note(&self, transfer: &Transfer) -> TokenStream {
        let tensor = self.nest.tensor_name(transfer.tensor);
        let by = transfer.step.map(|step| format!("{}: ", self.steps(&[step]))).unwrap_or_default();
        comment(&format!("{by}{tensor}, {}", self.nest.pattern_of(transfer)))
    }

    /// The iterations of the loop of a transfer that shifts.
    fn extent_of(&self, transfer: &Transfer) -> i64 {
        transfer.route.shift().map_or(1, |shift| self.nest.loops[shift.counter.0].extent)
    }

    fn tensor(&self, transfer: &Transfer) -> &Ident {
        &self.names.tensors[transfer.tensor.0]
    }

    /// The legs between owners and tiles.
    fn at_owners(&self, number: TileId, region: &Region) -> TokenStream {
        let Transfer { route, direction, .. } = &self.nest.transfers[number.0];
        let legs = route.at_owners().iter().enumerate().map(|(nth, leg)| {
            let held = route.held.as_ref().filter(|_| nth == 0);
            let region = held.unwrap_or(region);
            match direction {
                Direction::In => {
                    let manner = if nth > 0 { Manner::FromTiles } else { Manner::FromShards };
                    self.brought(number, leg, region, manner)
                }
                Direction::Out { .. } => self.sent(number, leg, region),
            }
        });
        legs.collect()
    }

    /// A leg of an input's route.
    fn brought(&self, number: TileId, leg: &Leg, region: &Region, manner: Manner) -> TokenStream {
        let transfer = &self.nest.transfers[number.0];
        let (tile, name, source) = (&self.names.tiles[number.0], &self.names.regions[number.0], self.tensor(transfer));
        let shown = self.region(region);
        let bound = quote! { let #name = #shown; };
        match leg {
            Leg::InPlace | Leg::Copy | Leg::Collective { owners: Owners::All, .. } if manner == Manner::Ahead => {
                quote! { #tile.begin_own(#source, &#shown); }
            }
            Leg::InPlace if transfer.tile.buffers == Buffers::Shard => TokenStream::new(),
            Leg::InPlace => quote! { #tile.hold(&#shown); },
            Leg::Copy | Leg::Collective { owners: Owners::All, .. } => quote! { #bound #tile.copy(#source, &#name); },
            Leg::Collective { axes, owners: Owners::One(root), stages } => {
                let group = self.names.group(axes, stages.as_ref());
                let root = root.iter().map(|root| self.index.expr(root));
                let broadcast = match manner {
                    Manner::FromShards => quote!(broadcast),
                    Manner::FromTiles => quote!(broadcast_held),
                    Manner::Ahead => quote!(begin_broadcast),
                };
                quote! { #bound #tile.#broadcast(#group, &[#(#root),*], #source, &#name)?; }
            }
            Leg::Collective { axes, owners: Owners::Parts, stages } => {
                let group = self.names.group(axes, stages.as_ref());
                let gather = if manner == Manner::Ahead { quote!(begin_all_gather) } else { quote!(all_gather) };
                quote! { #bound #tile.#gather(#group, #source, &#name)?; }
            }
            Leg::Permute { owner, served } => {
                let permutation = self.permutation(owner, served, shown, name);
                let permute = match manner {
                    Manner::FromShards => quote!(permute),
                    Manner::FromTiles => quote!(permute_held),
                    Manner::Ahead => quote!(begin_permute),
                };
                quote! {
                    #permutation
                    let (from, to) = permutation;
                    #tile.#permute(grid, from, to, #source, &#name(grid.coords()))?;
                }
            }
            Leg::Halo { reach } | Leg::Exchange { reach } => {
                let (closure, reach) = (self.of_rank(shown), reach_of(reach));
                let fetch = match manner {
                    Manner::Ahead => quote!(begin_exchange),
                    _ if transfer.tile.own_in_place => quote!(halo),
                    _ => quote!(exchange),
                };
                quote! { let #name = #closure; #tile.#fetch(grid, #reach, #source, #name)?; }
            }
            Leg::Shift(_) => unreachable!("a shift is not at owners; this is a bug of polyshard"),
        }
    }

    /// The rank to which `image` maps this one, and the one that it maps here, as `permutation`.
    fn permutation(&self, image: &[Expr], inverse: &[Expr], region: TokenStream, name: &Ident) -> TokenStream {
        let (region, image) = (self.of_rank(region), self.of_rank(self.rank(image)));
        let inverse = inverse.iter().map(|coordinate| self.index.expr(coordinate));
        quote! {
            let #name = #region;
            let permutation = grid.permutation(#image, &[#(#inverse),*], #name);
        }
    }

    fn fill(&self, number: TileId) -> TokenStream {
        let Transfer { region, route, .. } = &self.nest.transfers[number.0];
        let (tile, region) = (&self.names.tiles[number.0], self.region(region));
        let op = reduce_op(self.nest);
        let Some(Shift { axis, by, counter }) = route.shift() else { return quote! { #tile.reset(&#region, #op); } };
        let (group, counter) = (self.names.group(&[axis], None), &self.names.loops[counter.0]);
        let by = proc_macro2::Literal::i64_unsuffixed(by);
        quote! {
            if #counter == 0 {
                #tile.reset(&#region, #op);
            } else {
                #tile.shift(#group, #by, &#region)?;
            }
        }
    }

    /// A leg of an output's route.
    fn sent(&self, number: TileId, leg: &Leg, symbolic: &Region) -> TokenStream {
        let (tile, name, c) = (&self.names.tiles[number.0], &self.names.regions[number.0], self.names.tensors.last());
        let (op, region) = (reduce_op(self.nest), self.region(symbolic));
        match leg {
            Leg::InPlace | Leg::Shift(_) => TokenStream::new(),
            Leg::Copy => quote! { #tile.combine_local(#c, #op); },
            Leg::Collective { axes, owners: Owners::One(root), stages } => {
                let group = self.names.group(axes, stages.as_ref());
                let root = root.iter().map(|root| self.index.expr(root));
                quote! { #tile.reduce(#group, &[#(#root),*], #c, #op)?; }
            }
            Leg::Collective { axes, owners: Owners::All, stages } => {
                let group = self.names.group(axes, stages.as_ref());
                quote! { #tile.all_reduce(#group, #c, #op)?; }
            }
            Leg::Collective { axes, owners: Owners::Parts, stages } => {
                let group = self.names.group(axes, stages.as_ref());
                quote! { #tile.reduce_scatter(#group, #c, #op)?; }
            }
            Leg::Permute { owner, served } => {
                // The roles are those of an input, reversed: the owner of a rank's tile receives it.
                let permutation = self.permutation(owner, served, region, name);
                quote! { #permutation let (to, from) = permutation; #tile.permute_back(grid, to, from, #c, #op)?; }
            }
            Leg::Halo { reach } | Leg::Exchange { reach } => {
                let (closure, reach) = (self.of_rank(region), reach_of(reach));
                quote! { #tile.write_back(grid, #reach, #c, #closure, #op)?; }
            }
        }
    }
}

/// The digits of each stage of a collective.
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

/// How far owners are, per axis.
fn reach_of(reach: &[Reach]) -> TokenStream {
    let number = proc_macro2::Literal::i64_unsuffixed;
    let axes = reach.iter().map(|reach| match reach {
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
    quote! { &[#(#axes),*] }
}

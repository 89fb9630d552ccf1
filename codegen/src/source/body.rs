//! The fields that runs need, made once, and the statements of `run_into`: loops, and the actions of the nest, each as
//! a call.
//!
//! [`Nest::actions`] gives both the executor and this file the actions of a statement, with their order and iterations,
//! so both make the same calls. Here each action becomes a call to a method of a tile, which the runtime's executor
//! calls too:
//!
//! | action | by | call |
//! | --- | --- | --- |
//! | `Reset` | | `c_tile.reset(&region, ReduceOp::Sum)` |
//! | `TakeOver` | shift | `c_tile.shift(along_x, 1, &region)?` |
//! | `Carry`, in | in place | `a_tile.hold(&region)`, or nothing if the leaf reads the shard |
//! | | copy, all own it | `a_tile.copy(a, &a_region)` |
//! | | one owner | `a_tile.broadcast(along_y, &[ko], a, &a_region)?` |
//! | | parts | `a_tile.all_gather(along_y, a, &a_region)?` |
//! | | permute | `a_tile.permute(grid, from, to, a, &a_region(grid.coords()))?` |
//! | | halo, exchange | `a_tile.halo(grid, reach, a, a_region)?`, `a_tile.exchange(..)?` |
//! | | shift | `a_tile.shift(along_y, 1, a, &a_region)?` |
//! | `Carry`, out | copy | `c_tile.combine_local(c, ReduceOp::Sum)` |
//! | | one, all, parts | `c_tile.reduce(along_z, &[0], c, ReduceOp::Sum)?`, `all_reduce`, `reduce_scatter` |
//! | | permute | `c_tile.permute_back(grid, to, from, c, ReduceOp::Sum)?` |
//! | | halo, exchange | `c_tile.write_back(grid, reach, c, c_region, ReduceOp::Sum)?` |
//! | `Arrive` | | `a_tile.arrive(grid.world(), a)?` |
//! | `Compute` | | see `leaf` |
//!
//! For a transfer ahead, calls that take time have the prefix `begin_`, and `arrive` completes them. The second leg of
//! a route, which reads from the tiles that the first filled, has the suffix `_held`.

mod leaf;
pub(super) mod leg;

use super::field::Field;
use super::index::{Index, literal};
use super::items::{element, reduce_op};
use super::names::Names;
use super::{comment, mentions, reduction};
use leg::{Ends, Tile};
use polyshard_layout::{Neighbours, Reach, Stages, Stencil};
use polyshard_program::{
    Action, Buffers, Direction, Expr, Iteration, LoopId, Nest, Passing, Region, Shift, Statement, StepId, Symbol,
    TileId, Transfer, TransferId, When, Written,
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// The fields that runs of a nest need, in the order of their construction: tiles ahead use a group, and output tiles
/// the written elements, so these are made first.
pub(super) fn fields(nest: &Nest, names: &Names) -> Vec<Field> {
    let writer = Writer::new(nest, names);
    let made = writer.registered().into_iter().chain(writer.groups()).chain(writer.written());
    made.chain(writer.tiles())
        .chain(writer.time_steps())
        .chain(writer.products())
        .chain(writer.known())
        .chain(writer.is_first())
        .collect()
}

/// The statements of a run, preceded by their common setup: this rank's coordinates, resetting tiles ahead, and
/// publishing the inputs.
pub(super) fn body(nest: &Nest, statements: &[Statement], names: &Names) -> TokenStream {
    let writer = Writer::new(nest, names);
    let statements = writer.statements(statements);
    let coordinates = coordinates(names, &statements);
    let shared = writer.shared();
    let ahead = nest.transfers.iter().zip(&names.tiles).filter(|(transfer, _)| transfer.is_under_way());
    let restarts = ahead.map(|(_, tile)| quote! { #tile.restart(); });
    quote! { #coordinates #(#restarts)* #shared #statements }
}

/// This rank's coordinates, with `_` for unused ones.
fn coordinates(names: &Names, used_by: &TokenStream) -> Option<TokenStream> {
    let used = names.axes.iter().map(|axis| mentions(used_by, &axis.to_string()).then_some(axis));
    let used: Vec<_> = used.collect();
    let bound = used.iter().map(|axis| axis.map_or(quote! { _ }, |axis| quote! { #axis }));
    used.iter().any(Option::is_some).then(|| quote! { let [#(#bound),*] = grid.coordinates(); })
}

/// Writes the calls of one nest over placeholders.
struct Writer<'a> {
    nest: &'a Nest,
    names: &'a Names,
    index: Index<'a>,
}

impl<'a> Writer<'a> {
    fn new(nest: &'a Nest, names: &'a Names) -> Self {
        Self { nest, names, index: Index::new(nest, names) }
    }

    fn statements(&self, statements: &[Statement]) -> TokenStream {
        statements.iter().map(|statement| self.statement(statement)).collect()
    }

    /// A statement as the calls of its actions, under their conditions. All conditions of a statement are of one kind,
    /// so the first determines it: always, in one iteration or all others, for another iteration, or in the first
    /// round.
    fn statement(&self, statement: &Statement) -> TokenStream {
        let note = match statement {
            Statement::Loop { counter, body, .. } => return self.serial_loop(*counter, body),
            Statement::Begin(TransferId::Tile { tile, .. }) | Statement::BeginFor { tile, .. } => {
                Some(self.note(*tile))
            }
            _ => None,
        };
        let actions = self.nest.actions(statement);
        let code = match actions[..] {
            [(When::For(counter, iteration), action)] => self.in_iteration(counter, iteration, action),
            [(When::At(counter, value), _), ..] => self.by_iteration(counter, value, &actions),
            _ => actions.iter().map(|&(_, action)| self.action(action, None)).collect(),
        };
        let code = match actions.first() {
            Some((When::InFirstRound, _)) => quote! { if *is_first { #code } },
            _ => code,
        };
        quote! { #note #code }
    }

    /// `for ko in 0..2i64 { .. }`, headed by the step that made the loop.
    fn serial_loop(&self, LoopId(counter): LoopId, body: &[Statement]) -> TokenStream {
        let of = &self.nest.loops[counter];
        let note = (!of.steps.is_empty()).then(|| comment(&self.steps(&of.steps)));
        let (body, name) = (self.statements(body), &self.names.loops[counter]);
        let name = if mentions(&body, &name.to_string()) {
            quote! { #name }
        } else {
            quote! { _ }
        };
        let extent = Literal::i64_suffixed(of.extent);
        quote! { #note for #name in 0..#extent { #body } }
    }

    /// The actions for one value of a counter, and those for all others.
    ///
    /// ```text
    /// if ko == 0 { a_tile.hold(&Region::new([..])); } else { .. a_tile.shift(along_y, 1, a, &a_region)?; }
    /// ```
    ///
    /// If the counter is known, regions are written with its value.
    fn by_iteration(&self, counter: LoopId, value: i64, actions: &[(When, Action<'_>)]) -> TokenStream {
        let there = When::At(counter, value);
        let (there, elsewhere): (Vec<_>, Vec<_>) = actions.iter().partition(|(when, _)| *when == there);
        let there = there.into_iter().map(|(_, action)| self.action(action, Some((counter, value))));
        let elsewhere: TokenStream = elsewhere.into_iter().map(|(_, action)| self.action(action, None)).collect();
        let elsewhere = (!elsewhere.is_empty()).then(|| quote! { else { #elsewhere } });
        let (name, value) = (&self.names.loops[counter.0], literal(value));
        quote! { if #name == #value { #(#there)* } #elsewhere }
    }

    /// The action for another iteration, if that iteration exists. The counter is rebound, so that the region is that
    /// of the other iteration:
    ///
    /// ```text
    /// if ko + 1i64 < 2i64 { let ko = ko + 1i64; .. b_tile.begin_broadcast(along_x, &[ko], b, &b_region)?; }
    /// ```
    fn in_iteration(&self, counter: LoopId, iteration: Iteration, action: Action<'_>) -> TokenStream {
        let (begun, name) = (self.action(action, None), &self.names.loops[counter.0]);
        let bound = |value: TokenStream| mentions(&begun, &name.to_string()).then(|| quote! { let #name = #value; });
        match iteration {
            Iteration::At(value) => {
                let value = Literal::i64_suffixed(value);
                let bound = bound(quote! { #value });
                quote! { { #bound #begun } }
            }
            Iteration::Later(by) => {
                let [by, extent] = [by, self.nest.loops[counter.0].extent].map(Literal::i64_suffixed);
                let bound = bound(quote! { #name + #by });
                quote! { if #name + #by < #extent { #bound #begun } }
            }
            Iteration::Earlier(by) => {
                let by = Literal::i64_suffixed(by);
                let bound = bound(quote! { #name - #by });
                quote! { if #name >= #by { #bound #begun } }
            }
        }
    }

    /// A comment that describes a transfer: `step 7: communicate(A, ko): A, broadcast(y)`.
    fn note(&self, TileId(number): TileId) -> TokenStream {
        let transfer = &self.nest.transfers[number];
        let by = transfer.step.map(|step| format!("{}: ", self.steps(&[step]))).unwrap_or_default();
        comment(&format!("{by}{}, {}", self.nest.tensor_name(transfer.tensor), self.nest.pattern_of(transfer)))
    }

    /// The call for an action; a counter may have a known value.
    fn action(&self, action: Action<'_>, known: Option<(LoopId, i64)>) -> TokenStream {
        let shown = |region: &Region| match known {
            Some((counter, value)) => self.region(&region.fixed(Symbol::Counter(counter), value, &self.index.ranges)),
            None => self.region(region),
        };
        let of = |TileId(number): TileId| shown(&self.nest.transfers[number].region);
        match action {
            Action::Reset(number) => {
                let (tile, region, op) = (self.tile(number), of(number), reduce_op(self.nest.kernel.assign()));
                quote! { #tile.reset(&#region, #op); }
            }
            Action::TakeOver(number, Shift { axis, by, .. }) => {
                let (tile, region, group) = (self.tile(number), of(number), self.names.group(&[axis.0], None));
                let by = Literal::i64_unsuffixed(by);
                quote! { #tile.shift(#group, #by, &#region)?; }
            }
            Action::Carry(number, leg, region, from) => {
                let tile = Tile { writer: self, number, region: &shown(region), from };
                let is_input = self.nest.transfers[number.0].direction == Direction::In;
                self::leg::leg(leg, if is_input { Ends::Input(tile) } else { Ends::Output(tile) })
            }
            Action::Arrive(number) => {
                let transfer = &self.nest.transfers[number.0];
                let (tile, tensor) = (self.tile(number), self.tensor(transfer));
                let op = (transfer.direction != Direction::In).then(|| reduce_op(self.nest.kernel.assign()));
                let op = op.map(|op| quote! { , #op });
                quote! { #tile.arrive(grid.world(), #tensor #op)?; }
            }
            Action::Compute(part) => self.leaf(part),
        }
    }

    fn tile(&self, TileId(number): TileId) -> &Ident {
        &self.names.tiles[number]
    }

    fn tensor(&self, transfer: &Transfer) -> &Ident {
        &self.names.tensors[transfer.tensor.0]
    }

    /// Steps, with their numbers in the module's header.
    fn steps(&self, numbers: &[StepId]) -> String {
        let steps: Vec<_> =
            numbers.iter().map(|&StepId(number)| format!("step {number}: {}", self.nest.steps[number - 1])).collect();
        steps.join("; ")
    }

    /// The tile buffers, with room for the largest region that they ever hold; no buffer if the leaf works on the
    /// shard.
    ///
    /// ```text
    /// Tile::new("A", 63)?   Tile::relay("A", 63)?   Tile::ahead("A", 63, 1, Some((&*along_y, Passing::Chain(1))))?
    /// Tile::ahead("B", 63, 1, None)?.connected(&grid, &Neighbours::in_box([Reach::OWN, Reach::Around { low: 1, high: 1 }]))?
    /// OutTile::new("C", 42)?.within(c_written.clone()).in_any_order().in_pieces().fixed()
    /// ```
    fn tiles(&self) -> Vec<Field> {
        let element = element(self.nest);
        let own = self.nest.transfers.iter().zip(&self.names.tiles);
        let own = own.filter(|(transfer, _)| transfer.kept_by().is_none());
        let tiles = own.filter_map(|(transfer, name)| {
            let (tensor, tile) = (self.nest.tensor_name(transfer.tensor), transfer.tile);
            let (tensor, capacity) = (tensor.as_str(), literal(tile.capacity as i64));
            let group = transfer.group_ahead().map(|axes| self.names.group(axes, None));
            let new = match (transfer.direction, tile.buffers) {
                (_, Buffers::Shard) => return None,
                (Direction::In, Buffers::One) => {
                    let pieces = tile.in_pieces.then(|| quote! { .in_pieces() });
                    quote! { Tile::new(#tensor, #capacity)? #pieces }
                }
                (Direction::In, Buffers::Relay) => quote! { Tile::relay(#tensor, #capacity)? },
                (Direction::In, Buffers::Ahead(depth)) => {
                    let depth = literal(depth as i64);
                    let (how, segments) = match tile.passing {
                        Passing::Direct => (quote! { Direct }, None),
                        Passing::Chain(segments) => (quote! { Chain }, Some(literal(segments as i64))),
                        Passing::Circulant(segments) => (quote! { Circulant }, Some(literal(segments as i64))),
                    };
                    let segments = segments.map(|segments| quote! { (#segments) });
                    let passing = match group {
                        Some(group) => quote! { Some((&*#group, Passing::#how #segments)) },
                        None => quote! { None },
                    };
                    quote! { Tile::ahead(#tensor, #capacity, #depth, #passing)? }
                }
                (Direction::Out { any_order }, _) => {
                    let written = &self.names.written;
                    let within = self.nest.kernel.written().map(|_| quote! { .within(#written.clone()) });
                    let order = any_order.then(|| quote! { .in_any_order() });
                    let pieces = tile.in_pieces.then(|| quote! { .in_pieces() });
                    let procedure = transfer.route.procedure().map(|procedure| {
                        let procedure = reduction::procedure(procedure);
                        quote! { .reduced_by(Reduction::new(world, &#procedure, #capacity)?) }
                    });
                    let new = match tile.buffers {
                        Buffers::Ahead(depth) => {
                            let depth = literal(depth as i64);
                            let group = group.map_or_else(|| quote! { None }, |group| quote! { Some(&*#group) });
                            quote! { OutTile::ahead(#tensor, #capacity, #depth, #group)? }
                        }
                        _ => quote! { OutTile::new(#tensor, #capacity)? },
                    };
                    quote! { #new #within #order #pieces #procedure }
                }
            };
            let fixed = tile.is_fixed.then(|| quote! { .fixed() });
            let peers = self.nest.peers_ahead(transfer);
            let connected = peers.iter().map(reach_of).map(|reach| quote! { .connected(&grid, #reach)? });
            let r#type = match transfer.direction {
                Direction::In => quote! { Tile<#element> },
                Direction::Out { .. } => quote! { OutTile<#element> },
            };
            Some(Field { name: name.clone(), r#type, new: quote! { #new #fixed #(#connected)* } })
        });
        tiles.collect()
    }

    /// The elements of the output that the kernel writes, if the code needs them: `=` clears only these, and a tile
    /// that is written back overwrites only these. In place, a leaf that clears nothing does not need them.
    fn written(&self) -> Option<Field> {
        let written = self.nest.kernel.written()?;
        if !super::items::clears(self.nest) && self.nest.output().route.is_in_place() {
            return None;
        }
        Some(written_field(&self.names.written, &written, self.names.shardings.last()?))
    }

    /// Publishes the inputs to ranks that share memory.
    fn shared(&self) -> TokenStream {
        if !self.nest.reads_others() {
            return TokenStream::new();
        }
        let inputs = &self.names.tensors[..self.nest.kernel.inputs().len()];
        let kept = self.nest.kept().map(|(tile, _)| self.tile(tile));
        let note = comment("until the end, ranks of a node read each other's inputs where they are");
        quote! {
            #note
            #(#kept.publish_with(known_inputs);)*
            let shared = SharedInputs::new(grid.world(), [#(#inputs),*], known_inputs)?;
            let [#(#inputs),*] = shared.shards();
        }
    }

    /// The addresses of inputs in the last run.
    fn known(&self) -> Option<Field> {
        let (r#type, new) = (quote! { InputTable }, quote! { InputTable::default() });
        self.nest.reads_others().then(|| Field { name: format_ident!("known_inputs"), r#type, new })
    }

    /// Whether it is the first round, if later rounds skip a fetch.
    fn is_first(&self) -> Option<Field> {
        let (r#type, new) = (quote! { bool }, quote! { true });
        self.nest.brings_once().then(|| Field { name: format_ident!("is_first"), r#type, new })
    }

    /// The sub-communicators, one per set of axes and stages: `grid.group(&[0])?`. The world makes one per set of axes
    /// and shares it among all callers, hence `Rc`.
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

    /// A region with this rank's coordinates and the counters in its bounds, empty if its conditions do not hold.
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

    /// A closure over coordinates that yields `value`: to find what other ranks need, the same expressions are
    /// evaluated at their coordinates.
    ///
    /// ```text
    /// |at: &[i64]| { let x = at[0]; Region::new([7 * x..(7 * x + 7).min(13)]) }
    /// ```
    fn of_rank(&self, value: &TokenStream) -> TokenStream {
        let used = self.names.axes.iter().enumerate().filter(|(_, axis)| mentions(value, &axis.to_string()));
        let bound = used.map(|(number, axis)| {
            let number = literal(number as i64);
            quote! { let #axis = at[#number]; }
        });
        let bound: Vec<_> = bound.collect();
        let at = if bound.is_empty() {
            quote! { _ }
        } else {
            quote! { at }
        };
        quote! { |#at: &[i64]| { #(#bound)* #value } }
    }

    /// The coordinates of a rank: `vec![x, (x + y) % 2]`.
    fn rank(&self, coordinates: &[Expr]) -> TokenStream {
        let coordinates = coordinates.iter().map(|coordinate| self.index.expr(coordinate));
        quote! { vec![#(#coordinates),*] }
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

/// The reach of the owners: `&Neighbours::in_star([Reach::Within { low: -1, high: 1 }, Reach::OWN])`.
fn reach_of(reach: &Neighbours) -> TokenStream {
    let along = along_of(reach);
    match reach.stencil {
        Stencil::Box => quote! { &Neighbours::in_box(#along) },
        Stencil::Star => quote! { &Neighbours::in_star(#along) },
    }
}

/// The reach of the owners per axis, in coordinates relative to the reader.
pub(super) fn along_of(reach: &Neighbours) -> TokenStream {
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

/// The elements that a kernel writes of an array with this sharding.
pub(super) fn written_field(name: &Ident, written: &Written, sharding: &Ident) -> Field {
    let Written { base, strides, counts } = written;
    let number = |&number: &i64| Literal::i64_unsuffixed(number);
    let (base, counts) = (base.iter().map(number), counts.iter().map(|&count| literal(count as i64)));
    let strides = strides.iter().map(|strides| {
        let strides = strides.iter().map(number);
        quote! { &[#(#strides),*] }
    });
    let new = quote! { Written::new(world, &#sharding(), &[#(#base),*], &[#(#strides),*], &[#(#counts),*]) };
    Field { name: name.clone(), r#type: quote! { Written }, new }
}

//! The statements of `run_into`: loops, transfers and leaves, in the order of the nest.

mod leaf;

pub(super) use leaf::named_leaf;

use super::index::{Index, literal};
use super::items::reduce_op;
use super::names::Names;
use super::{comment, mentions};
use polyshard_layout::Reach;
use polyshard_program::{Expr, Nest, NestStatement, OutputRoute, Region, Route, Symbol, TransferId};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

pub(super) fn body(nest: &Nest, names: &Names) -> TokenStream {
    let writer = Writer { nest, names, index: Index::new(nest, names) };
    let statements = writer.statements(&nest.body);
    let tiles = writer.tiles();
    let groups = writer.groups();
    let coordinates = coordinates(names, &statements);
    let shared = writer.shared();
    quote! { #coordinates #groups #tiles #shared #statements }
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

struct Writer<'a> {
    nest: &'a Nest,
    names: &'a Names,
    index: Index<'a>,
}

impl Writer<'_> {
    fn statements(&self, statements: &[NestStatement]) -> TokenStream {
        statements.iter().map(|statement| self.statement(statement)).collect()
    }

    fn statement(&self, statement: &NestStatement) -> TokenStream {
        match statement {
            NestStatement::Loop { counter, body } => self.serial_loop(*counter, body),
            NestStatement::Fetch(number) => self.fetch(*number),
            NestStatement::Start => self.start(),
            NestStatement::Leaf => self.leaf(),
            NestStatement::Finish => self.finish(),
        }
    }

    fn steps(&self, numbers: &[usize]) -> String {
        let steps: Vec<_> =
            numbers.iter().map(|&number| format!("step {number}: {}", self.nest.steps[number - 1])).collect();
        steps.join("; ")
    }

    fn serial_loop(&self, counter: usize, body: &[NestStatement]) -> TokenStream {
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

    /// The tile buffers, allocated once.
    fn tiles(&self) -> TokenStream {
        let tiled = self.nest.transfers.iter().zip(&self.names.tiles).enumerate();
        let tiled = tiled.filter(|(_, (transfer, _))| transfer.buffers > 0);
        let inputs = tiled.map(|(number, (transfer, tile))| {
            let fixed = self.nest.is_fixed(TransferId(number)).then(|| quote! { .fixed() });
            let capacity = literal(transfer.capacity as i64);
            let new = if transfer.buffers == 2 {
                quote! { relay }
            } else {
                quote! { new }
            };
            let name = self.nest.kernel.inputs()[transfer.tensor].name.as_str();
            quote! { let mut #tile = Tile::#new(#name, #capacity)?#fixed; }
        });
        let output = &self.nest.output;
        let tile = (output.route != OutputRoute::InPlace).then(|| {
            let tile = self.names.tiles.last().expect("a kernel has an output; this is a bug of polyshard");
            let capacity = literal(output.capacity as i64);
            let written = &self.names.written;
            let within = self.nest.kernel.written().map(|_| quote! { .within(#written) });
            let name = self.nest.kernel.output().name.as_str();
            let order = self.nest.output.any_order.then(|| quote! { .in_any_order() });
            let fixed = self.nest.is_output_fixed().then(|| quote! { .fixed() });
            quote! { let mut #tile = OutTile::new(#name, #capacity)?#within #order #fixed; }
        });
        let products = self.products();
        quote! { #(#inputs)* #tile #products }
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
            let shared = SharedInputs::new(world, [#(#inputs),*])?;
            let [#(#inputs),*] = shared.shards();
        }
    }

    /// The sub-communicators, made once per set of axes.
    fn groups(&self) -> TokenStream {
        let groups = self.nest.groups().into_iter().map(|axes| {
            let (name, axes) = (self.names.group(&axes), axes.iter().map(|&axis| literal(axis as i64)));
            quote! { let #name = grid.group(&[#(#axes),*])?; }
        });
        quote! { #(#groups)* }
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

    fn fetch(&self, number: TransferId) -> TokenStream {
        let transfer = &self.nest.transfers[number.0];
        let tensor = self.nest.kernel.inputs()[transfer.tensor].name;
        let by = transfer.step.map(|step| format!("{}: ", self.steps(&[step]))).unwrap_or_default();
        let note = comment(&format!("{by}{tensor}, {}", transfer.route.pattern(&self.nest.mesh)));
        let moved = self.moved(number, &transfer.route, &transfer.region);
        quote! { #note #moved }
    }

    fn moved(&self, number: TransferId, route: &Route, region: &Region) -> TokenStream {
        let (tile, name) = (&self.names.tiles[number.0], &self.names.regions[number.0]);
        let source = &self.names.tensors[self.nest.transfers[number.0].tensor];
        let shown = self.region(region);
        let bound = quote! { let #name = #shown; };
        match route {
            Route::Hold => TokenStream::new(),
            Route::Copy => quote! { #bound #tile.copy(#source, &#name); },
            Route::Broadcast { axes, root } => {
                let (group, root) = (self.names.group(axes), root.iter().map(|root| self.index.expr(root)));
                quote! { #bound #tile.broadcast(&#group, &[#(#root),*], #source, &#name)?; }
            }
            Route::AllGather { axes } => {
                let group = self.names.group(axes);
                quote! { #bound #tile.all_gather(&#group, #source, &#name)?; }
            }
            Route::Shift { axis, by, counter, first } => {
                let (group, counter) = (self.names.group(&[*axis]), &self.names.loops[*counter]);
                let start = self.first(number, first);
                let by = proc_macro2::Literal::i64_unsuffixed(*by);
                quote! {
                    if #counter == 0 {
                        #start
                    } else {
                        #bound
                        #tile.shift(&#group, #by, #source, &#name)?;
                    }
                }
            }
            Route::Permute { from, to } => {
                let permutation = self.permutation(from, to, shown, name);
                quote! { #permutation let (from, to) = permutation; #tile.permute(&grid, from, to, #source, &#name(grid.coords()))?; }
            }
            Route::Sequence { first, held, next } => {
                let (first, next) = (self.moved(number, first, held), self.passed_on(number, next, region));
                quote! { #first #next }
            }
            Route::Halo { reach } | Route::Exchange { reach } => {
                let (closure, reach) = (self.of_rank(shown), reach_of(reach));
                let fetch = if self.nest.reads_in_place(number) { quote!(halo) } else { quote!(exchange) };
                quote! { let #name = #closure; #tile.#fetch(&grid, #reach, #source, #name)?; }
            }
        }
    }

    /// The second of two steps: out of tiles, not of shards.
    fn passed_on(&self, number: TransferId, route: &Route, region: &Region) -> TokenStream {
        let (tile, name) = (&self.names.tiles[number.0], &self.names.regions[number.0]);
        let source = &self.names.tensors[self.nest.transfers[number.0].tensor];
        let shown = self.region(region);
        match route {
            Route::Broadcast { axes, root } => {
                let (group, root) = (self.names.group(axes), root.iter().map(|root| self.index.expr(root)));
                quote! { let #name = #shown; #tile.broadcast_held(&#group, &[#(#root),*], #source, &#name)?; }
            }
            Route::Permute { from, to } => {
                let permutation = self.permutation(from, to, shown, name);
                quote! {
                    #permutation
                    let (from, to) = permutation;
                    #tile.permute_held(&grid, from, to, #source, &#name(grid.coords()))?;
                }
            }
            _ => unreachable!("tiles are broadcast or permuted; this is a bug of polyshard"),
        }
    }

    /// The first iteration of a shift: its counter is 0 there.
    fn first(&self, number: TransferId, first: &Route) -> TokenStream {
        let transfer = &self.nest.transfers[number.0];
        let Some(counter) = transfer.level.checked_sub(1) else {
            unreachable!("a shift is inside a loop; this is a bug of polyshard")
        };
        let region = transfer.region.fixed(Symbol::Counter(counter), 0, &self.index.ranges);
        if *first == Route::Hold {
            let (tile, shown) = (&self.names.tiles[number.0], self.region(&region));
            return quote! { #tile.hold(&#shown); };
        }
        self.moved(number, first, &region)
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

    fn start(&self) -> TokenStream {
        let output = &self.nest.output;
        let (tile, region) = (self.names.tiles.last(), self.region(&output.region));
        let op = reduce_op(self.nest);
        match &output.route {
            OutputRoute::Shift { axis, by, counter, .. } => {
                let (group, counter) = (self.names.group(&[*axis]), &self.names.loops[*counter]);
                let by = proc_macro2::Literal::i64_unsuffixed(*by);
                quote! {
                    if #counter == 0 {
                        #tile.reset(&#region, #op);
                    } else {
                        #tile.shift(&#group, #by, &#region)?;
                    }
                }
            }
            _ => quote! { #tile.reset(&#region, #op); },
        }
    }

    fn finish(&self) -> TokenStream {
        let output = &self.nest.output;
        let by = output.step.map(|step| format!("{}: ", self.steps(&[step]))).unwrap_or_default();
        let tensor = self.nest.kernel.output().name;
        let note = comment(&format!("{by}{tensor}, {}", output.route.pattern(&self.nest.mesh)));
        let sent = self.sent(&output.route, &output.region);
        quote! { #note #sent }
    }

    fn sent(&self, route: &OutputRoute, symbolic: &Region) -> TokenStream {
        let (tile, c) = (self.names.tiles.last(), self.names.tensors.last());
        let name = self.names.regions.last().expect("a kernel has an output; this is a bug of polyshard");
        let op = reduce_op(self.nest);
        let region = self.region(symbolic);
        match route {
            OutputRoute::InPlace => TokenStream::new(),
            OutputRoute::Combine => quote! { #tile.combine_local(#c, #op); },
            OutputRoute::Reduce { axes, root } => {
                let (group, root) = (self.names.group(axes), root.iter().map(|root| self.index.expr(root)));
                quote! { #tile.reduce(&#group, &[#(#root),*], #c, #op)?; }
            }
            OutputRoute::AllReduce { axes } => {
                let group = self.names.group(axes);
                quote! { #tile.all_reduce(&#group, #c, #op)?; }
            }
            OutputRoute::ReduceScatter { axes } => {
                let group = self.names.group(axes);
                quote! { #tile.reduce_scatter(&#group, #c, #op)?; }
            }
            OutputRoute::Shift { counter, last, .. } => {
                let extent = self.nest.loops[*counter].extent;
                let end = symbolic.fixed(Symbol::Counter(*counter), extent - 1, &self.index.ranges);
                let (last, counter) = (self.sent(last, &end), &self.names.loops[*counter]);
                let extent = proc_macro2::Literal::i64_unsuffixed(extent);
                // On the way, sums stay in the tile.
                quote! { if #counter + 1 == #extent { #last } }
            }
            OutputRoute::Permute { to, from } => {
                let permutation = self.permutation(to, from, region, name);
                quote! { #permutation let (to, from) = permutation; #tile.permute_back(&grid, to, from, #c, #op)?; }
            }
            OutputRoute::Halo { reach } | OutputRoute::Exchange { reach } => {
                let (closure, reach) = (self.of_rank(region), reach_of(reach));
                quote! { #tile.write_back(&grid, #reach, #c, #closure, #op)?; }
            }
        }
    }
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

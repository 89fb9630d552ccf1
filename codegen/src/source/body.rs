//! The statements of `run_into`: loops, transfers and leaves, in the order of the program.

mod leaf;

use super::index::{Index, literal};
use super::items::reduce_op;
use super::names::Names;
use super::{comment, mentions};
use polyshard_polyhedral::{Expr, OutputRoute, Program, Region, Route, Statement, Symbol, Transfer};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

pub(super) fn body(program: &Program, names: &Names) -> TokenStream {
    let writer = Writer { program, names, index: Index::new(program, names) };
    let statements = writer.statements(program.body());
    let tiles = writer.tiles();
    let groups = writer.groups();
    let coordinates = coordinates(names, &statements);
    quote! { #coordinates #groups #tiles #statements }
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
    program: &'a Program,
    names: &'a Names,
    index: Index<'a>,
}

impl Writer<'_> {
    fn statements(&self, statements: &[Statement]) -> TokenStream {
        statements.iter().map(|statement| self.statement(statement)).collect()
    }

    fn statement(&self, statement: &Statement) -> TokenStream {
        match statement {
            Statement::Loop { counter, body } => self.serial_loop(*counter, body),
            Statement::Fetch(number) => self.fetch(&self.program.transfers()[*number]),
            Statement::Start => self.start(),
            Statement::Leaf => self.leaf(),
            Statement::Finish => self.finish(),
        }
    }

    fn steps(&self, numbers: &[usize]) -> String {
        let steps: Vec<_> =
            numbers.iter().map(|&number| format!("step {number}: {}", self.program.steps()[number - 1])).collect();
        steps.join("; ")
    }

    fn serial_loop(&self, counter: usize, body: &[Statement]) -> TokenStream {
        let of = &self.program.loops()[counter];
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
        let inputs = self.program.transfers().iter().filter(|transfer| transfer.buffers > 0).map(|transfer| {
            let (tile, capacity) = (&self.names.tiles[transfer.tensor], literal(transfer.capacity as i64));
            let new = if transfer.buffers == 2 {
                quote! { relay }
            } else {
                quote! { new }
            };
            let name = self.program.kernel().inputs()[transfer.tensor].name.as_str();
            quote! { let mut #tile = Tile::#new(#name, #capacity)?; }
        });
        let output = self.program.output();
        let tile = (output.route != OutputRoute::InPlace).then(|| {
            let tile = self.names.tiles.last().expect("a kernel has an output; this is a bug of polyshard");
            let capacity = literal(output.capacity as i64);
            let written = &self.names.written;
            let within = self.program.kernel().written().map(|_| quote! { .within(#written) });
            let name = self.program.kernel().output().name.as_str();
            quote! { let mut #tile = OutTile::new(#name, #capacity)?#within; }
        });
        let products = self.products();
        quote! { #(#inputs)* #tile #products }
    }

    /// The sub-communicators, made once per set of axes.
    fn groups(&self) -> TokenStream {
        let groups = self.program.groups().into_iter().map(|axes| {
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
        let new = quote! { #new #(#periods)* };
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

    fn fetch(&self, transfer: &Transfer) -> TokenStream {
        let tensor = self.program.kernel().inputs()[transfer.tensor].name;
        let by = transfer.step.map(|step| format!("{}: ", self.steps(&[step]))).unwrap_or_default();
        let note = comment(&format!("{by}{tensor}, {}", transfer.route.pattern(self.program.mesh())));
        let moved = self.moved(transfer, &transfer.route, &transfer.region);
        quote! { #note #moved }
    }

    fn moved(&self, transfer: &Transfer, route: &Route, region: &Region) -> TokenStream {
        let (tile, source) = (&self.names.tiles[transfer.tensor], &self.names.tensors[transfer.tensor]);
        let name = &self.names.regions[transfer.tensor];
        let shown = self.region(region);
        let bound = quote! { let #name = #shown; };
        match route {
            Route::Hold => TokenStream::new(),
            Route::Copy => quote! { #bound #tile.copy(#source, &#name); },
            Route::Broadcast { axes, root } => {
                let (group, root) = (self.names.group(axes), root.iter().map(|root| self.index.expr(root)));
                quote! { #bound #tile.broadcast(&#group, &[#(#root),*], #source, &#name)?; }
            }
            Route::Allgather { axes } => {
                let group = self.names.group(axes);
                quote! { #bound #tile.all_gather(&#group, #source, &#name)?; }
            }
            Route::Shift { axis, by, counter, first } => {
                let (group, counter) = (self.names.group(&[*axis]), &self.names.loops[*counter]);
                let start = self.first(transfer, first);
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
            Route::Exchange => {
                let closure = self.of_rank(shown);
                quote! { let #name = #closure; #tile.exchange(&grid, #source, #name)?; }
            }
        }
    }

    /// The first iteration of a shift: its counter is 0 there.
    fn first(&self, transfer: &Transfer, first: &Route) -> TokenStream {
        let Some(counter) = transfer.level.checked_sub(1) else {
            unreachable!("a shift is inside a loop; this is a bug of polyshard")
        };
        let region = transfer.region.fixed(Symbol::Counter(counter), 0, &self.index.ranges);
        if *first == Route::Hold {
            let (tile, shown) = (&self.names.tiles[transfer.tensor], self.region(&region));
            return quote! { #tile.hold(&#shown); };
        }
        self.moved(transfer, first, &region)
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
        let (tile, region) = (self.names.tiles.last(), self.region(&self.program.output().region));
        let op = reduce_op(self.program);
        quote! { #tile.reset(&#region, #op); }
    }

    fn finish(&self) -> TokenStream {
        let output = self.program.output();
        let (tile, c) = (self.names.tiles.last(), self.names.tensors.last());
        let name = self.names.regions.last().expect("a kernel has an output; this is a bug of polyshard");
        let op = reduce_op(self.program);
        let by = output.step.map(|step| format!("{}: ", self.steps(&[step]))).unwrap_or_default();
        let tensor = self.program.kernel().output().name;
        let note = comment(&format!("{by}{tensor}, {}", output.route.pattern()));
        let region = self.region(&output.region);
        let sent = match &output.route {
            OutputRoute::InPlace => TokenStream::new(),
            OutputRoute::Combine => quote! { #tile.combine_local(#c, #op); },
            OutputRoute::Permute { to, from } => {
                let permutation = self.permutation(to, from, region, name);
                quote! { #permutation let (to, from) = permutation; #tile.permute_back(&grid, to, from, #c, #op)?; }
            }
            OutputRoute::Exchange => {
                let closure = self.of_rank(region);
                quote! { #tile.write_back(&grid, #c, #closure, #op)?; }
            }
        };
        quote! { #note #sent }
    }
}

//! The statements of a kernel's run: its loops, and a call of the runtime's engine for each statement in them.
//!
//! ```text
//! Loop                     for ko in 0..2i64 { .. }
//! Fill                     run.fill(c_tile, &[ko])?;
//! Begin, Await             run.transfer(a_tile, &[ko])?;      run.begin(a_tile, &[])?; .. run.end(a_tile)?;
//! BeginFor, AwaitFor       if ko + 1i64 < 2i64 { run.begin(a_tile, &[ko + 1i64])?; }
//! Compute                  run.compute(&[ko], &[..], |leaf| contract(..))?;
//! ```
//!
//! The executor makes the same calls. What each of them does follows from the kernel's [table](super::table).
//!
//! Tests: `tests/it/golden.rs`.

use super::index::Index;
use super::names::Names;
use super::{comment, mentions};
use polyshard_program::{
    Brought, Buffers, Iteration, LeafPart, LoopId, Nest, Statement, StepId, TileId, Transfer, TransferId,
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;

/// Writes the code of one nest over placeholders.
pub(super) struct Writer<'a> {
    pub(super) nest: &'a Nest,
    pub(super) names: &'a Names,
    pub(super) index: Index<'a>,
    /// The field that keeps the leaf's products, or the leaf that the user has registered.
    pub(super) kept: Ident,
}

impl<'a> Writer<'a> {
    /// The writer of a nest that keeps what its leaf needs between calls in the field `kept`.
    pub(super) fn new(nest: &'a Nest, names: &'a Names, kept: Ident) -> Self {
        Self { nest, names, index: Index::new(nest, names), kept }
    }

    /// The body of the function that runs these statements of the engine's kernel `number`.
    pub(super) fn body(&self, number: usize, statements: &[Statement]) -> TokenStream {
        let statements = self.statements(statements);
        let (inputs, output) = self.names.tensors.split_at(self.nest.kernel.inputs().len());
        let number = super::index::literal(number as i64);
        let (coordinates, tiles) = (self.own_coordinates(&statements), self.tiles(&statements));
        quote! {
            let mut run = self.engine.run(#number, &[#(#inputs),*], #(#output)*)?;
            #coordinates
            #tiles
            #statements
            run.finish()
        }
    }

    /// This rank's coordinates, with `_` for unused ones.
    fn own_coordinates(&self, used_by: &TokenStream) -> Option<TokenStream> {
        let used = self.names.axes.iter().map(|axis| mentions(used_by, &axis.to_string()).then_some(axis));
        let used: Vec<_> = used.collect();
        let bound = used.iter().map(|axis| axis.map_or(quote! { _ }, |axis| quote! { #axis }));
        used.iter().any(Option::is_some).then(|| quote! { let [#(#bound),*] = run.coordinates(); })
    }

    /// The numbers of the tiles that are used, by name.
    fn tiles(&self, used_by: &TokenStream) -> Option<TokenStream> {
        let tiles = self.names.tiles.iter().enumerate();
        let used = tiles.filter(|(_, name)| mentions(used_by, &name.to_string()));
        let (numbers, names): (Vec<_>, Vec<_>) =
            used.map(|(number, name)| (Literal::usize_unsuffixed(number), name)).unzip();
        match &names[..] {
            [] => None,
            [name] => Some(quote! { let #name = TileId(#(#numbers)*); }),
            names => Some(quote! { let [#(#names),*] = [#(#numbers),*].map(TileId); }),
        }
    }

    fn statements(&self, statements: &[Statement]) -> TokenStream {
        self.statements_in(0, statements)
    }

    /// The statements inside this many loops.
    fn statements_in(&self, depth: usize, statements: &[Statement]) -> TokenStream {
        let mut code = TokenStream::new();
        let mut statements = statements.iter().peekable();
        while let Some(statement) = statements.next() {
            if let Some((counter, iteration)) = other_iteration(statement) {
                // Those of the same iteration have one condition.
                let is_same = |next: &&Statement| other_iteration(next) == Some((counter, iteration));
                let all = std::iter::once(statement).chain(std::iter::from_fn(|| statements.next_if(is_same)));
                code.extend(self.in_iteration(counter, iteration, &all.collect::<Vec<_>>()));
                continue;
            }
            let is_whole = match statement {
                Statement::Begin(transfer) => statements.next_if_eq(&&Statement::Await(*transfer)).is_some(),
                _ => false,
            };
            code.extend(self.statement(depth, statement, is_whole));
        }
        code
    }

    /// A statement; `is_whole` if it begins a transfer that ends next.
    fn statement(&self, depth: usize, statement: &Statement, is_whole: bool) -> TokenStream {
        let counters = || {
            let counters = &self.names.loops[..depth];
            quote! { &[#(#counters),*] }
        };
        match *statement {
            Statement::Loop { counter, ref body, .. } => self.serial_loop(counter, body),
            Statement::Fill { tile, .. } => {
                let (name, counters) = (self.tile(tile), counters());
                quote! { run.fill(#name, #counters)?; }
            }
            Statement::Begin(TransferId::Tile { tile, .. }) => {
                let (name, counters) = (self.tile(tile), counters());
                self.if_due(
                    tile,
                    match is_whole {
                        true => quote! { run.transfer(#name, #counters)?; },
                        false => quote! { run.begin(#name, #counters)?; },
                    },
                )
            }
            Statement::Await(TransferId::Tile { tile, .. }) => {
                let name = self.tile(tile);
                self.if_due(tile, quote! { run.end(#name)?; })
            }
            Statement::Compute(_) => self.leaf(depth, LeafPart::Whole),
            Statement::ComputeInterior(_) => self.leaf(depth, LeafPart::Interior),
            Statement::ComputeRims(_) => self.leaf(depth, LeafPart::Rims),
            Statement::BeginFor { .. }
            | Statement::AwaitFor { .. }
            | Statement::Repeat { .. }
            | Statement::Begin(_)
            | Statement::Await(_)
            | Statement::Free(_) => {
                unreachable!("for another iteration, or no statement of a nest; this is a bug in polyshard")
            }
        }
    }

    /// `for ko in 0..2i64 { .. }`, headed by the step that made the loop.
    fn serial_loop(&self, LoopId(counter): LoopId, body: &[Statement]) -> TokenStream {
        let of = &self.nest.loops[counter];
        let note = (!of.steps.is_empty()).then(|| comment(&self.steps(&of.steps)));
        let (body, name) = (self.statements_in(counter + 1, body), &self.names.loops[counter]);
        let name = if mentions(&body, &name.to_string()) {
            quote! { #name }
        } else {
            quote! { _ }
        };
        let extent = Literal::i64_suffixed(of.extent);
        quote! { #note for #name in 0..#extent { #body } }
    }

    /// A call about a tile in the rounds in which it is fetched; none if the leaf reads the shard, or the tile of another kernel.
    fn if_due(&self, TileId(number): TileId, call: TokenStream) -> TokenStream {
        let Transfer { brought, tile, .. } = &self.nest.transfers[number];
        match brought {
            _ if tile.buffers == Buffers::Shard => TokenStream::new(),
            Brought::For { .. } => TokenStream::new(),
            Brought::Once => quote! { if is_first { #call } },
            Brought::EachTime => call,
        }
    }

    /// Calls with the counter of another iteration, if the loop has that iteration.
    fn in_iteration(&self, counter: LoopId, iteration: Iteration, statements: &[&Statement]) -> TokenStream {
        let (name, extent) = (&self.names.loops[counter.0], self.nest.loops[counter.0].extent);
        let [by, extent] = [
            match iteration {
                Iteration::At(value) => value,
                Iteration::Later(by) | Iteration::Earlier(by) => by,
            },
            extent,
        ]
        .map(Literal::i64_unsuffixed);
        let at = match iteration {
            Iteration::At(_) => quote! { #by },
            Iteration::Later(_) => quote! { #name + #by },
            Iteration::Earlier(_) => quote! { #name - #by },
        };
        let outer = &self.names.loops[..counter.0];
        let calls = statements.iter().map(|statement| match **statement {
            Statement::BeginFor { tile, .. } => {
                let tile = self.tile(tile);
                quote! { run.begin(#tile, &[#(#outer,)* #at])?; }
            }
            Statement::AwaitFor { tile, .. } => {
                let tile = self.tile(tile);
                quote! { run.end(#tile)?; }
            }
            _ => TokenStream::new(),
        });
        match iteration {
            Iteration::At(_) => quote! { #(#calls)* },
            Iteration::Later(_) => quote! { if #at < #extent { #(#calls)* } },
            Iteration::Earlier(_) => quote! { if #name >= #by { #(#calls)* } },
        }
    }

    fn tile(&self, TileId(number): TileId) -> &Ident {
        &self.names.tiles[number]
    }

    /// Steps, with their numbers in the module's header.
    pub(super) fn steps(&self, numbers: &[StepId]) -> String {
        let steps: Vec<_> =
            numbers.iter().map(|&StepId(number)| format!("step {number}: {}", self.nest.steps[number - 1])).collect();
        steps.join("; ")
    }
}

/// The loop, and its iteration, of a statement for another iteration than the current one.
fn other_iteration(statement: &Statement) -> Option<(LoopId, Iteration)> {
    match *statement {
        Statement::BeginFor { counter, iteration, .. } | Statement::AwaitFor { counter, iteration, .. } => {
            Some((counter, iteration))
        }
        _ => None,
    }
}

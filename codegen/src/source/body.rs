//! The statements of a kernel's run: its loops, and a call of the runtime's engine for each statement in them.
//!
//! ```text
//! Loop                     for ko in 0..2i64 { .. }
//! Fill                     run.fill(c_tile, &[ko])?;
//! Begin, End               run.transfer(a_tile, &[ko])?;      run.begin(a_tile, &[])?; .. run.end(a_tile)?;
//!   of another iteration   if ko + 1i64 < 2i64 { run.begin(a_tile, &[ko + 1i64])?; }
//! Compute                  run.compute(&[ko], &[..], |leaf| contract(..))?;
//! ```
//!
//! Where statements of several kernels are in one loop, each call says of which kernel it is: `run.select(1);`.
//!
//! The executor makes the same calls. What each of them does follows from the kernel's [table](super::table).
//!
//! Tests: `tests/it/golden.rs`.

use super::index::{Index, literal};
use super::names::Names;
use super::{comment, mentions};
use polyshard_program::{
    At, Body, Buffers, CounterId, Iteration, KernelId, LoopId, NestView, Statement, StepId, TensorId, TileId,
    TransferId, TransferView,
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;

/// Writes the code of one nest over placeholders.
pub(super) struct Writer<'a> {
    body: &'a Body,
    pub(super) nest: &'a NestView<'a>,
    pub(super) names: &'a Names,
    pub(super) index: Index<'a>,
    /// The field that keeps the leaf's products, or the leaf that the user has registered.
    pub(super) kept: Ident,
}

/// The body of the function that runs these statements of kernels, one of which `writers` has for each.
pub(super) fn body(writers: &[Writer<'_>], statements: &[Statement]) -> TokenStream {
    let statements = Together(writers).statements(&[], statements);
    let opened = writers.iter().enumerate().map(|(position, writer)| {
        let (inputs, output) = (writer.arguments(), writer.names.tensors.last());
        let number = literal(writer.nest.id.0 as i64);
        let arguments = quote! { #number, &[#(#inputs),*], #output };
        match position {
            0 => quote! { let mut run = self.engine.run(#arguments)?; },
            _ => quote! { run.open(#arguments)?; },
        }
    });
    let named = writers.iter().map(|writer| (writer.own_coordinates(&statements), writer.tiles(&statements)));
    let named = named.map(|(coordinates, tiles)| quote! { #coordinates #tiles });
    quote! {
        #(#opened)*
        #(#named)*
        #statements
        run.finish()
    }
}

/// The writers of kernels whose statements are in one list, by position in their run.
struct Together<'w, 'a>(&'w [Writer<'a>]);

impl<'w, 'a> Together<'w, 'a> {
    /// The statements inside these loops.
    fn statements(&self, around: &[LoopId], statements: &[Statement]) -> TokenStream {
        let (mut code, mut selected) = (TokenStream::new(), None);
        let mut statements = statements.iter().peekable();
        while let Some(statement) = statements.next() {
            if let Statement::Loop(id, body) = statement {
                code.extend(self.serial_loop(around, *id, body));
                selected = None;
                continue;
            }
            let position = self.position(statement);
            let writer = &self.0[position];
            let call = if let Some(other) = self.other_iteration(statement) {
                // Those of the same iteration have one condition.
                let is_same = |next: &&Statement| self.other_iteration(next) == Some(other);
                let all = std::iter::once(statement).chain(std::iter::from_fn(|| statements.next_if(is_same)));
                let (_, counter, iteration) = other;
                writer.in_iteration(counter, iteration, &all.collect::<Vec<_>>())
            } else {
                let is_whole = match statement {
                    Statement::Begin(id, at) => statements.next_if_eq(&&Statement::End(*id, *at)).is_some(),
                    _ => false,
                };
                let depth = around.iter().filter(|around| writer.counter(**around).is_some()).count();
                writer.statement(depth, statement, is_whole)
            };
            if !call.is_empty() && self.0.len() > 1 && selected.replace(position) != Some(position) {
                let position = literal(position as i64);
                code.extend(quote! { run.select(#position); });
            }
            code.extend(call);
        }
        code
    }

    /// The kernel of a statement other than a loop.
    fn position(&self, statement: &Statement) -> usize {
        let found = self.0.iter().position(|writer| match *statement {
            Statement::Fill(id) | Statement::Begin(id, _) | Statement::End(id, _) => {
                writer.nest.transfers.iter().any(|one| one.id == id && one.reused.is_none())
            }
            Statement::Compute(id, _) => writer.nest.id == id,
            Statement::Loop(..) | Statement::Rounds(..) | Statement::Free(_) => false,
        });
        found.expect("a statement of a kernel that runs; this is a bug in polyshard")
    }

    /// The kernel, the loop, and its iteration, of a statement for another iteration than the current one.
    fn other_iteration(&self, statement: &Statement) -> Option<(usize, CounterId, Iteration)> {
        let (Statement::Begin(id, at) | Statement::End(id, at)) = statement else { return None };
        let position = self.position(statement);
        let counter = self.0[position].transfer_of(*id).level.innermost()?;
        (at.iteration != Iteration::Now).then_some((position, counter, at.iteration))
    }

    /// `for ko in 0..2i64 { .. }`, headed by the step that made the loop.
    fn serial_loop(&self, around: &[LoopId], id: LoopId, body: &[Statement]) -> TokenStream {
        let body = self.statements(&[around, &[id]].concat(), body);
        let mut counters = self.0.iter().filter_map(|writer| Some((writer, writer.counter(id)?))).peekable();
        let (writer, counter) = *counters.peek().expect("it is around a leaf; this is a bug in polyshard");
        let of = writer.nest.loops[counter];
        let note = (!of.steps.is_empty()).then(|| comment(&writer.steps(&of.steps)));
        let names = counters.map(|(writer, counter)| &writer.names.loops[counter]);
        let mut used = names.filter(|name| mentions(&body, &name.to_string()));
        let name = used.next().map_or(quote! { _ }, |name| quote! { #name });
        let same = used.map(|other| quote! { let #other = #name; });
        let extent = Literal::i64_suffixed(of.extent);
        quote! { #note for #name in 0..#extent { #(#same)* #body } }
    }
}

impl<'a> Writer<'a> {
    /// The writer of a nest that keeps what its leaf needs between calls in the field `kept`.
    pub(super) fn new(body: &'a Body, nest: &'a NestView<'a>, names: &'a Names, kept: Ident) -> Self {
        Self { body, nest, names, index: Index::new(nest, names), kept }
    }

    /// The inputs that are arguments: not what other kernels of the run write.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &'a Ident> {
        let names = self.names;
        self.body.reads_from_before(self.nest.id).map(|(tensor, _)| &names.tensors[tensor.0])
    }

    /// The number of an input among the arguments, or else the kernel of the run that writes it.
    pub(super) fn argument(&self, tensor: TensorId) -> Result<usize, KernelId> {
        match self.body.writer_beside(self.nest.id, self.nest.row.arrays[tensor.0]) {
            Some(kernel) => Err(kernel),
            None => Ok(self.body.reads_from_before(self.nest.id).take_while(|(other, _)| *other < tensor).count()),
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

    /// A statement inside this many loops; `is_whole` if it begins a transfer that ends next.
    fn statement(&self, depth: usize, statement: &Statement, is_whole: bool) -> TokenStream {
        let counters = || {
            let counters = &self.names.loops[..depth];
            quote! { &[#(#counters),*] }
        };
        match *statement {
            Statement::Fill(id) => {
                let (name, counters) = (self.tile(id), counters());
                quote! { run.fill(#name, #counters)?; }
            }
            Statement::Begin(id, at) => {
                let (name, counters) = (self.tile(id), counters());
                let call = match is_whole {
                    true => quote! { run.transfer(#name, #counters)?; },
                    false => quote! { run.begin(#name, #counters)?; },
                };
                self.if_due(id, at, call)
            }
            Statement::End(id, at) => {
                let name = self.tile(id);
                self.if_due(id, at, quote! { run.end(#name)?; })
            }
            Statement::Compute(_, part) => self.leaf(depth, part),
            Statement::Loop(..) | Statement::Rounds(..) | Statement::Free(_) => {
                unreachable!("a loop, or no statement of a kernel; this is a bug in polyshard")
            }
        }
    }

    /// A call about a tile in the rounds in which it is fetched; none if the leaf reads the shard.
    fn if_due(&self, id: TransferId, at: At, call: TokenStream) -> TokenStream {
        match at.first_round {
            _ if self.transfer_of(id).tile.buffers == Buffers::Shard => TokenStream::new(),
            true => quote! { if is_first { #call } },
            false => call,
        }
    }

    /// Calls with the counter of another iteration, if the loop has that iteration.
    fn in_iteration(&self, counter: CounterId, iteration: Iteration, statements: &[&Statement]) -> TokenStream {
        let (name, extent) = (&self.names.loops[counter.0], self.nest.loops[counter.0].extent);
        let [by, extent] = [
            match iteration {
                Iteration::Now => 0,
                Iteration::At(value) => value,
                Iteration::Later(by) | Iteration::Earlier(by) => by,
            },
            extent,
        ]
        .map(Literal::i64_unsuffixed);
        let at = match iteration {
            Iteration::Now => quote! { #name },
            Iteration::At(_) => quote! { #by },
            Iteration::Later(_) => quote! { #name + #by },
            Iteration::Earlier(_) => quote! { #name - #by },
        };
        let outer = &self.names.loops[..counter.0];
        let calls = statements.iter().map(|statement| match **statement {
            Statement::Begin(id, _) => {
                let tile = self.tile(id);
                quote! { run.begin(#tile, &[#(#outer,)* #at])?; }
            }
            Statement::End(id, _) => {
                let tile = self.tile(id);
                quote! { run.end(#tile)?; }
            }
            _ => TokenStream::new(),
        });
        match iteration {
            Iteration::Now | Iteration::At(_) => quote! { #(#calls)* },
            Iteration::Later(_) => quote! { if #at < #extent { #(#calls)* } },
            Iteration::Earlier(_) => quote! { if #name >= #by { #(#calls)* } },
        }
    }

    /// The counter of a loop, if it is around the kernel's leaf.
    fn counter(&self, id: LoopId) -> Option<usize> {
        self.nest.row.loops.iter().position(|number| *number == id)
    }

    /// The number of a transfer's tile.
    fn number(&self, id: TransferId) -> TileId {
        let number = self.nest.transfers.iter().position(|transfer| transfer.id == id);
        TileId(number.expect("a kernel uses its transfers; this is a bug in polyshard"))
    }

    fn transfer_of(&self, id: TransferId) -> &TransferView<'a> {
        &self.nest.transfers[self.number(id).0]
    }

    fn tile(&self, id: TransferId) -> &Ident {
        &self.names.tiles[self.number(id).0]
    }

    /// Steps, with their numbers in the module's header.
    pub(super) fn steps(&self, numbers: &[StepId]) -> String {
        let steps: Vec<_> =
            numbers.iter().map(|&StepId(number)| format!("step {number}: {}", self.nest.steps[number - 1])).collect();
        steps.join("; ")
    }
}

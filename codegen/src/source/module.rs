//! The module of a program: mesh, shardings, `run`, and `Prepared` with the statements of a run.
//!
//! ```text
//! pub fn mesh() -> Mesh { .. }
//! pub fn sharding_a() -> Sharding { .. }                          per array
//! pub fn run(world, &a, &b, scalars..) -> Result<DistArray>       makes a `Prepared` for one run
//! pub struct Prepared { engine, .. }
//! impl Prepared { new(world); run(..); fn first_1(&a, &b, &mut c, scalars..) }
//! fn first_1_table() -> Kernel<'static> { .. }                    per kernel
//! fn moves(world) -> Result<[Redistribution; 2]> { .. }
//! ```
//!
//! The method of a program's only kernel is called `run_into` and is public, and there is a function of that name, too. It accumulates
//! into its output, which `run` fills with the identity of the kernel's operation; so each statement is emitted once. In a
//! program of several statements, names of computed arrays end with their numbers, and statements are:
//!
//! ```text
//! run      Y = first(X, W)                  let mut y_3 = DistArray::filled(world, &sharding_y_3(), 0f32)?;
//!                                           self.first_1(x, w, &mut y_3)?;
//! move     Y' = Y: [1 @ x] to [0 @ x]       let mut y_4 = self.engine.target_of_move(0usize)?;
//!                                           self.engine.run_move(0usize, &y_3, &mut y_4)?;
//! ```
//!
//! Without rounds, each statement makes the array that it writes, which is dropped after its last use. In rounds this
//! would allocate repeatedly, so arrays are taken from a room (a memory pool) and are returned to it.

use super::body::{Writer, body};
use super::items::{check, element, identity, mesh, new_sharding, reduce_op, sharding_function, writes_all};
use super::module_names::ModuleNames;
use super::names::Names;
use super::{comment, mentions, table};
use polyshard_program::{
    ArrayId, ArrayKind, Assign, Carried, KernelId, LeafOp, Leg, MoveView, NestView, Owners, Program, Rooms, Rounds,
    RoundsId, Statement, TransferId,
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// The items of a program's module, over placeholders, and the names of these.
pub(super) fn items(program: &Program) -> (TokenStream, ModuleNames) {
    let mut names = ModuleNames::new(program);
    let element = format_ident!("{}", program.dtype().name());
    let mut walk = Walk { program, names: &names, element: &element, rooms: program.rooms(), kernels: Vec::new() };
    let statements = walk.statements(&program.body().statements, None);
    let Walk { rooms, mut kernels, .. } = walk;
    // The engine numbers kernels as the program does.
    kernels.sort_by_key(|kernel| kernel.id);
    let only = program.body().only_nest();

    let mesh = mesh(program.mesh());
    let public = program.arrays().iter().map(|array| array.kind != ArrayKind::Temporary);
    let public: Vec<_> =
        public.zip(&names.shardings).filter_map(|(is_public, name)| is_public.then_some(name)).collect();
    let shardings = program.arrays().iter().zip(&names.shardings).enumerate();
    let shardings = shardings.filter(|(id, (_, name))| !names.shardings[..*id].contains(name));
    let shardings = shardings.map(|(id, (array, name))| {
        let vis = public.contains(&name).then(|| quote!(pub));
        sharding_function(&vis, name, &program.shown(ArrayId(id)), &array.sharding, program.mesh())
    });
    let inputs = program.of_kind(ArrayKind::Input);
    let parameters: Vec<_> = inputs.iter().map(|id| &names.arrays[id.0]).collect();
    let scalars: Vec<_> = names.parameters.iter().map(|(_, parameter)| parameter).collect();
    let arguments = quote! { #(#parameters: &DistArray<#element>,)* };
    let values = quote! { #(#scalars: #element,)* };
    let outputs: Vec<_> = program.of_kind(ArrayKind::Output).iter().map(|id| &names.arrays[id.0]).collect();
    let (returned, result) = match &outputs[..] {
        [output] => (quote! { DistArray<#element> }, quote! { #output }),
        outputs => {
            let types = outputs.iter().map(|_| quote! { DistArray<#element> });
            (quote! { (#(#types),*) }, quote! { (#(#outputs),*) })
        }
    };

    let of = only.as_ref().map_or("the program".into(), |nest| format!("`{}`", nest.kernel.statement()));
    let returned_names = program.outputs().map(|output| format!("`{}`", output.name)).collect::<Vec<_>>().join(", ");
    let shards = match only {
        Some(_) => "their shard of the output".to_owned(),
        None => format!("their shards of {returned_names}"),
    };
    let [run_doc, method_doc] =
        [&of[..], "the program"].map(|what| format!(" Runs {what} on all ranks, which each return {shards}."));
    let prepared_doc = format!(" What runs of {of} need, made once.");
    let leaves = program.nests().filter_map(|nest| match &nest.leaf.op {
        LeafOp::Named { name, statement, .. } => Some(format!(" leaf `{name}` is not registered as `{statement}`,")),
        _ => None,
    });
    let leaves: String = leaves.collect();
    let new_errors = format!(" If the world has not as many ranks as the mesh,{leaves} or there is too little memory.");
    let into = only.as_ref().map(|nest| {
        let (doc, output) = (into_doc(nest), &outputs[0]);
        quote! {
            #[doc = #doc]
            ///
            /// # Errors
            /// As `Prepared::new` and `Prepared::run_into`.
            pub fn run_into(world: &World, #arguments #output: &mut DistArray<#element>, #values) -> Result<()> {
                Prepared::new(world)?.run_into(#(#parameters,)* #output, #(#scalars,)*)
            }
        }
    });
    // The method of an only kernel checks its arrays.
    let start = match only {
        Some(_) => quote! { let world = self.engine.world(); },
        None => {
            let checks =
                inputs.iter().map(|id| check(&names.arrays[id.0], program.array(*id).name, &names.shardings[id.0]));
            let world = mentions(&statements, "world").then(|| quote! { let world = });
            quote! { #(#checks)* #world self.engine.restart(); }
        }
    };
    let (mut moves, with_moves) = moves(program, &names).unzip();
    let tables = kernels.iter().map(|kernel| kernel.table_name);
    let engine = (
        format_ident!("engine"),
        quote! { Engine<'world, #element> },
        quote! { Engine::new(world, [#(#tables()),*])? #with_moves },
    );
    let rooms = names.rooms.iter().zip(&rooms.most);
    let rooms = rooms.map(|(name, most)| (name.clone(), quote! { Room<#element> }, quote! { Room::new(#most) }));
    let kept = kernels.iter().filter_map(|kernel| kernel.kept.clone());
    let fields: Vec<_> = kept.chain([engine]).chain(rooms).collect();
    let declared = fields.iter().map(|(name, of, _)| quote! { #name: #of });
    let made = fields.iter().map(|(name, _, new)| quote! { #name: #new });
    let (methods, tables) = (kernels.iter().map(|kernel| &kernel.method), kernels.iter().map(|kernel| &kernel.table));
    let mut run = quote! {
        #[doc = #run_doc]
        ///
        /// # Errors
        /// As `Prepared::new` and `Prepared::run`.
        pub fn run(world: &World, #arguments #values) -> Result<#returned> {
            Prepared::new(world)?.run(#(#parameters,)* #(#scalars,)*)
        }
    };
    let mut method = quote! {
        #[doc = #method_doc]
        ///
        /// # Errors
        /// If the inputs are not sharded as the program expects them, or communication fails.
        pub fn run(&mut self, #arguments #values) -> Result<#returned> {
            #start
            #statements
            Ok(#result)
        }
    };
    let chosen = names.local.chosen(&quote! { #run #method #moves });
    [run, method] = [run, method].map(|code| chosen.write(code));
    moves = moves.map(|code| chosen.write(code));
    let items = quote! {
        #mesh
        #(#shardings)*

        #run

        #into

        #[doc = #prepared_doc]
        pub struct Prepared<'world> { #(#declared,)* }

        impl<'world> Prepared<'world> {
            /// Makes what runs need; all ranks must call it.
            ///
            /// # Errors
            #[doc = #new_errors]
            pub fn new(world: &'world World) -> Result<Self> {
                Ok(Self { #(#made,)* })
            }

            #method

            #(#methods)*
        }

        #(#tables)*

        #moves
    };
    let parameters = names.parameters.iter().map(|(scalar, name)| (*scalar, chosen.name(name).clone())).collect();
    names.parameters = parameters;
    (items, names)
}

/// What the runs of an only kernel do with an output that is given.
fn into_doc(nest: &NestView<'_>) -> &'static str {
    match nest.kernel.assign() {
        Assign::Set if nest.kernel.written().is_some() => {
            " As `run`, into an output that exists, of which the elements that the kernel writes are overwritten."
        }
        Assign::Set => " As `run`, into an output that exists, whose elements are overwritten.",
        _ => " As `run`, but goes on from what the output holds.",
    }
}

/// A kernel as Rust.
struct Kernel<'a> {
    id: KernelId,
    /// The method that runs it, and the function that returns its table.
    method: TokenStream,
    table: TokenStream,
    table_name: &'a Ident,
    /// What its leaf needs between calls: the field, its type, and the expression that makes it.
    kept: Option<(Ident, TokenStream, TokenStream)>,
}

impl<'a> Kernel<'a> {
    /// Kernels whose statements these are; the method of the first one runs them.
    fn of(program: &Program, names: &'a ModuleNames, ids: &[KernelId], statements: &[Statement]) -> Vec<Self> {
        let nests: Vec<_> = ids.iter().map(|id| program.body().nest(*id)).collect();
        // The arrays of one of several kernels have other names inside.
        let inside = nests.iter().enumerate().filter(|_| names.only.is_none());
        let inside = inside.map(|(position, nest)| Names::new(nest, &format!("k{position}_")));
        let inside: Vec<_> = inside.collect();
        let own = names.only.as_ref().map_or(&inside[..], std::slice::from_ref);
        let writers = nests.iter().zip(own).map(|(nest, own)| {
            let field = if matches!(nest.leaf.op, LeafOp::Named { .. }) { "leaf" } else { "products" };
            let number = if names.only.is_none() { format!("_{}", nest.id.0 + 1) } else { String::new() };
            Writer::new(program.body(), nest, own, format_ident!("{field}{number}"))
        });
        let writers: Vec<_> = writers.collect();
        let (body, name, first) = (body(&writers, statements), &names.kernels[ids[0].0], &nests[0]);
        let element = element(first);
        let shardings = nests.iter().map(|nest| nest.arrays.iter().map(|array| &names.shardings[array.0]).collect());
        let shardings: Vec<Vec<_>> = shardings.collect();
        let (head, checks) = match &names.only {
            None => {
                let doc: Vec<_> = nests.iter().map(|nest| format!("`{}`", nest.kernel.statement())).collect();
                let doc = format!(" {}.", doc.join(", together with "));
                (quote! { #[doc = #doc] fn }, None)
            }
            Some(own) => {
                let doc = into_doc(first);
                let checks = first.kernel.tensors().zip(&own.tensors).zip(&shardings[0]);
                let checks = checks.map(|((tensor, array), sharding)| check(array, tensor.name, sharding));
                let head = quote! {
                    #[doc = #doc]
                    ///
                    /// # Errors
                    /// If the tensors are not sharded as the program expects them, or communication fails.
                    pub fn
                };
                (head, Some(checks.collect::<TokenStream>()))
            }
        };
        let inputs: Vec<_> = writers.iter().flat_map(Writer::arguments).collect();
        let outputs = own.iter().filter_map(|own| own.tensors.last());
        let scalars = own.iter().flat_map(|own| &own.scalars);
        let is_first = fetches_once(statements).then(|| quote! { is_first: bool, });
        let arguments = 1 + inputs.len() + own.len() + scalars.clone().count() + is_first.iter().count();
        // The number from which clippy warns.
        let many = (ids.len() > 1 && arguments > 7).then(|| {
            let reason = "these are the arrays of all kernels of a pass";
            quote! { #[allow(clippy::too_many_arguments, reason = #reason)] }
        });
        let mut method = quote! {
            #many
            #head #name(
                &mut self,
                #(#inputs: &DistArray<#element>,)*
                #(#outputs: &mut DistArray<#element>,)*
                #is_first
                #(#scalars: #element,)*
            ) -> Result<()> {
                #checks
                #body
            }
        };
        let tables = writers.iter().zip(&shardings).map(|(writer, shardings)| {
            let id = writer.nest.id;
            writer.table(&names.tables[id.0], program.body().in_place(id), shardings)
        });
        let mut tables: Vec<_> = tables.collect();
        for own in &inside {
            let chosen = own.wanted.chosen(&quote! { #method #(#tables)* });
            method = chosen.write(method);
            tables = tables.into_iter().map(|table| chosen.write(table)).collect();
        }
        let kernels = writers.iter().zip(tables).map(|(writer, table)| Self {
            id: writer.nest.id,
            method: std::mem::take(&mut method),
            table,
            table_name: &names.tables[writer.nest.id.0],
            kept: writer.kept_by_leaf().map(|(of, made)| (writer.kept.clone(), of, made)),
        });
        kernels.collect()
    }
}

/// Walks over a program's statements, and writes them and the kernels that they run.
struct Walk<'a> {
    program: &'a Program,
    names: &'a ModuleNames,
    element: &'a Ident,
    rooms: Rooms,
    kernels: Vec<Kernel<'a>>,
}

impl<'a> Walk<'a> {
    /// The statements as Rust; those of a round if there are rounds around them.
    fn statements(&mut self, statements: &[Statement], around: Option<RoundsId>) -> TokenStream {
        // Arrays that rounds pass to the next round have no name after the rounds.
        let mut gone = Vec::new();
        let body = self.program.body();
        let mut spans = body.spans(statements).peekable();
        let mut code = TokenStream::new();
        while let Some(span) = spans.next() {
            code.extend(match (&body.kernels_of(span)[..], span.statements) {
                ([], [Statement::Begin(id, _)]) => {
                    // A move that ends where it begins is complete when its call returns.
                    let is_whole = span.is_ended_by(spans.peek());
                    spans.next_if(|_| is_whole);
                    let target = self.target_of_move(*id, around.is_some());
                    let call = self.call_of_move(if is_whole { "run_move" } else { "begin_move" }, *id);
                    quote! { #target #call }
                }
                ([], [Statement::End(id, _)]) => self.call_of_move("end_move", *id),
                ([], [Statement::Free(id)]) if gone.contains(id) => TokenStream::new(),
                ([], [Statement::Free(id)]) => self.free(*id, around.and_then(|_| self.rooms.of[id.0]).is_some()),
                ([], [Statement::Rounds(id, round)]) => {
                    gone.extend(self.leaves(*id));
                    self.rounds(*id, round)
                }
                ([], _) => unreachable!("a span without kernels is one statement; this is a bug in polyshard"),
                (kernels, statements) => self.kernels(kernels, statements, around),
            });
        }
        code
    }

    /// The arrays that a round writes and that are alive when it ends, but have no name after it.
    fn leaves(&self, id: RoundsId) -> Vec<ArrayId> {
        let rounds = &self.program.body().rounds[id.0];
        let is_value = |id: &ArrayId| rounds.carried.iter().any(|carried| carried.value == *id);
        rounds.leaves().into_iter().filter(|id| !is_value(id)).collect()
    }

    fn array(&self, id: ArrayId) -> &'a Ident {
        &self.names.arrays[id.0]
    }

    /// An array as an argument; inputs are references already.
    fn argument(&self, id: ArrayId) -> TokenStream {
        let array = self.array(id);
        match self.program.array(id).kind {
            ArrayKind::Input => quote! { #array },
            _ => quote! { &#array },
        }
    }

    fn room(&self, id: ArrayId) -> &'a Ident {
        &self.names.rooms[self.rooms.of[id.0].expect("what a round writes has a room; this is a bug in polyshard").0]
    }

    /// Makes an array in memory that earlier rounds may have used: filled with the identity of an operation, or uninitialised.
    fn made_in_room(&self, id: ArrayId, identity: Option<Assign>) -> TokenStream {
        let (array, room, sharding) = (self.array(id), self.room(id), &self.names.shardings[id.0]);
        let filled = identity.map(reduce_op).map_or(quote! { None }, |op| quote! { Some(#op.identity()) });
        quote! { let mut #array = self.#room.array(world, &#sharding(), #filled)?; }
    }

    /// Frees an array, and returns its memory to its room if it has one.
    fn free(&self, id: ArrayId, has_room: bool) -> TokenStream {
        let array = self.array(id);
        if !has_room {
            return quote! { drop(#array); };
        }
        let room = self.room(id);
        quote! { self.#room.give_back(#array); }
    }

    /// A run of kernels, after the arrays that they write are made.
    fn kernels(&mut self, ids: &[KernelId], statements: &[Statement], around: Option<RoundsId>) -> TokenStream {
        let (body, names) = (self.program.body(), self.names);
        let made: Vec<_> = ids.iter().map(|id| self.target_of_kernel(*id, around.is_some())).collect();
        let rows = || ids.iter().map(|id| &body.kernels[id.0]);
        let inputs = ids.iter().flat_map(|id| body.reads_from_before(*id)).map(|(_, id)| self.argument(id));
        let inputs: Vec<_> = inputs.collect();
        let outputs = rows().map(|row| self.array(row.writes())).collect::<Vec<_>>();
        let scalars = ids.iter().flat_map(|id| &names.scalars[id.0]);
        let round = around.filter(|_| fetches_once(statements)).map(|around| &names.rounds[around.0]);
        let is_first = round.map(|round| quote! { #round == 0, });
        self.kernels.extend(Kernel::of(self.program, names, ids, statements));
        let method = &names.kernels[ids[0].0];
        quote! { #(#made)* self.#method(#(#inputs,)* #(&mut #outputs,)* #is_first #(#scalars,)*)?; }
    }

    /// Makes the array that a kernel writes, filled with the identity unless the kernel overwrites all of it, and begun as the previous
    /// version of the array, if any. Inside rounds, its memory is reused.
    fn target_of_kernel(&self, id: KernelId, is_of_round: bool) -> TokenStream {
        let nest = self.program.body().nest(id);
        let (output, written) = (self.array(nest.writes()), nest.writes());
        let before = self.program.body().version_before(nest.row);
        let begin = before.map(|before| {
            let (kernel, array, before) = (Literal::usize_unsuffixed(id.0), self.array(before), self.argument(before));
            match nest.adds() {
                true => quote! { #output.block_mut().copy_from_slice(#array.block()); },
                false => quote! { self.engine.begin_version(#kernel, &mut #output, #before); },
            }
        });
        let made = if nest.in_panels {
            let kernel = Literal::usize_unsuffixed(id.0);
            quote! { let mut #output = self.engine.target_in_tile(#kernel)?; }
        } else if is_of_round {
            let is_filled = before.is_none() && !writes_all(&nest);
            self.made_in_room(written, is_filled.then(|| nest.kernel.assign()))
        } else {
            let (sharding, value) = (&self.names.shardings[written.0], identity(nest.kernel.assign(), self.element));
            quote! { let mut #output = DistArray::filled(world, &#sharding(), #value)?; }
        };
        quote! { #made #begin }
    }

    fn moved(&self, id: TransferId) -> MoveView<'a> {
        self.program.body().moved(id).expect("it is of no kernel; this is a bug in polyshard")
    }

    /// The number of a move in the engine.
    fn number_of_move(&self, id: TransferId) -> Literal {
        Literal::usize_unsuffixed(self.program.body().number_of_move(id))
    }

    fn target_of_move(&self, id: TransferId, is_of_round: bool) -> TokenStream {
        let target = self.moved(id).target;
        if is_of_round {
            return self.made_in_room(target, None);
        }
        let (number, target) = (self.number_of_move(id), self.array(target));
        quote! { let mut #target = self.engine.target_of_move(#number)?; }
    }

    fn call_of_move(&self, call: &str, id: TransferId) -> TokenStream {
        let (moved, call, number) = (self.moved(id), format_ident!("{call}"), self.number_of_move(id));
        let (source, target) = (self.argument(moved.source), self.array(moved.target));
        quote! { self.engine.#call(#number, #source, &mut #target)?; }
    }

    /// Rounds: carried values are borrowed for the first round, and then taken from the previous one.
    ///
    /// ```text
    /// let mut a_3: Cow<'_, DistArray<f64>> = Cow::Borrowed(a_0);
    /// for round in 0..3u64 {
    ///     let mut z_8 = self.room_0.array(world, &sharding_z_8(), Some(ReduceOp::Sum.identity()))?;
    ///     self.first_1(&a_3, &mut z_8, round == 0)?;
    ///     let is_last = s_9.is_below(-1e15);
    ///     let next_0 = Cow::Owned(z_8);
    ///     if let Cow::Owned(before) = std::mem::replace(&mut a_3, next_0) { self.room_0.give_back(before); }
    ///     self.room_1.give_back(s_9);
    ///     if is_last { break; }
    /// }
    /// let a_3 = a_3.into_owned();
    /// ```
    fn rounds(&mut self, id: RoundsId, round: &[Statement]) -> TokenStream {
        let Rounds { times, until, carried } = &self.program.body().rounds[id.0];
        let statements = self.statements(round, Some(id));
        let element = self.element;
        let borrowed = carried.iter().map(|&Carried { value, first, .. }| {
            let (value, first) = (self.array(value), self.argument(first));
            quote! { let mut #value: Cow<'_, DistArray<#element>> = Cow::Borrowed(#first); }
        });
        // Before the scalar that decides is freed.
        let asked = until.map(|until| {
            let (scalar, below) = (self.array(until.scalar), until.below);
            quote! { let is_last = #scalar.is_below(#below); }
        });
        // Take all values before renaming any, since names may be swapped. The next value is an array that this round made, or another
        // carried value, which is its first array until it is renamed itself.
        let next = |nth: usize| format_ident!("next_{nth}");
        let taken = carried.iter().enumerate().map(|(nth, carried_to)| {
            let (next, array) = (next(nth), self.array(carried_to.next));
            match carried.iter().find(|other| other.value == carried_to.next) {
                Some(other) => {
                    let first = self.argument(other.first);
                    quote! { let #next = std::mem::replace(&mut #array, Cow::Borrowed(#first)); }
                }
                None => quote! { let #next = Cow::Owned(#array); },
            }
        });
        let renamed = carried.iter().enumerate().map(|(nth, carried)| {
            let (next, value, room) = (next(nth), self.array(carried.value), self.room(carried.value));
            quote! { if let Cow::Owned(before) = std::mem::replace(&mut #value, #next) { self.#room.give_back(before); } }
        });
        // Free the arrays that are left by a round and not carried.
        let left = self.leaves(id).into_iter().filter(|id| !carried.iter().any(|carried| carried.next == *id));
        let freed = left.map(|id| self.free(id, true));
        let leave = until.map(|_| quote! { if is_last { break; } });
        let body = quote! { #statements #asked #(#taken)* #(#renamed)* #(#freed)* #leave };
        let counter = &self.names.rounds[id.0];
        let counter = if mentions(&body, &counter.to_string()) { quote!(#counter) } else { quote!(_) };
        let owned = carried.iter().map(|carried| {
            let value = self.array(carried.value);
            quote! { let #value = #value.into_owned(); }
        });
        quote! { #(#borrowed)* for #counter in 0..#times { #body } #(#owned)* }
    }
}

/// Whether some of these statements are in the first round only.
fn fetches_once(statements: &[Statement]) -> bool {
    let mut found = false;
    let mut note = |statement: &Statement| {
        found |= matches!(statement, Statement::Begin(_, at) if at.first_round);
    };
    statements.iter().for_each(|statement| statement.visit(&mut note));
    found
}

/// The function that makes the moves, and the call of it; none if there are no moves.
fn moves(program: &Program, names: &ModuleNames) -> Option<(TokenStream, TokenStream)> {
    let made = program.moves().map(|moved| {
        let [source, target] = [moved.source, moved.target].map(|id| program.shown(id));
        let bytes = match moved.volume().received {
            0 => String::new(),
            bytes => format!(", at most {bytes} bytes received per rank"),
        };
        let note = comment(&format!("{target} = {source}: {}{bytes}", moved.pattern()));
        let (made, name) = (made_move(&moved, program, names), &names.arrays[moved.target.0]);
        (quote! { #note let #name = #made; }, name)
    });
    let (made, targets): (Vec<_>, Vec<_>) = made.unzip();
    let count = Literal::usize_unsuffixed(targets.len());
    let function = quote! {
        /// The moves between arrays.
        fn moves(world: &World) -> Result<[Redistribution; #count]> {
            #(#made)*
            Ok([#(#targets),*])
        }
    };
    (!targets.is_empty()).then(|| (function, quote! { .with_moves(moves(world)?) }))
}

/// The expression that makes a move. The route is the program's, written out, so that the runtime does not decide it again.
///
/// ```text
/// Redistribution::by(world, &sharding_y_3(), None, &sharding_y_4(), &Route::from(Leg::exchange([Reach::All])))?
/// ```
fn made_move(moved: &MoveView<'_>, program: &Program, names: &ModuleNames) -> TokenStream {
    let [from, to] = [moved.source, moved.target].map(|id| &names.shardings[id.0]);
    let kept = moved.row.kept.as_ref().map(|kept| new_sharding(kept, program.mesh()));
    let kept = kept.map_or(quote! { None }, |kept| quote! { Some(&#kept) });
    let leg = |one: &Leg| match one {
        Leg::Collective { axes, owners: Owners::One(owner), by } => {
            let axes = axes.iter().map(|&axis| Literal::usize_unsuffixed(axis));
            let owner = owner.iter().map(|at| Literal::i64_unsuffixed(at.offset()));
            let by = format_ident!("{by:?}");
            quote! { Leg::with_one([#(#axes),*], &[#(#owner),*]).by(Algorithm::#by) }
        }
        one => table::leg(one, &|_| unreachable!("no other leg of a move names ranks; this is a bug in polyshard")),
    };
    let route = match &moved.row.route.legs[..] {
        [only] => {
            let only = leg(only);
            quote! { Route::from(#only) }
        }
        legs => {
            let legs = legs.iter().map(leg);
            quote! { Route::between_arrays([#(#legs),*]) }
        }
    };
    let op = (!matches!(moved.op, Assign::Set | Assign::Add)).then(|| {
        let op = reduce_op(moved.op);
        quote! { .with_op(#op) }
    });
    quote! { Redistribution::by(world, &#from(), #kept, &#to(), &#route)? #op }
}

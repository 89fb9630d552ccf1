//! The steps and actions of a program of several statements, each written as Rust, in the given order.
//!
//! ```text
//! run      Y = first(X, W)                  self.first_1(x_0, w_1, &mut y_3)?;
//! move     Y' = Y: [1 @ x] to [0 @ x]       let y_4 = self.step_1.run(self.world, &y_3)?;
//! run      Z = second(Y', scale)            self.second_2(&y_4, &mut z_5, scale_of_2)?;
//! ```
//!
//! All kernels run on one engine, whose table of the first one is `first_1_table()`.

use super::super::body::Writer;
use super::super::items::{check, element, identity as identity_of, mesh, new_sharding, reduce_op, sharding_function};
use super::super::names::Names as KernelNames;
use super::super::{imports, mentions, table};
use super::{Action, Argument, Names, Step, Walk, fetches_once};
use polyshard_program::{ArrayId, ArrayKind, Assign, KernelId, LeafOp, Leg, Owners, Program, Route, Statement};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};

/// The module of a program of several statements.
pub(in super::super) fn module(program: &Program, runtime: &syn::Path) -> TokenStream {
    let names = Names::new(program);
    let mut walk = Walk { program, names: &names, rooms: program.rooms(), steps: Vec::new(), kernels: Vec::new() };
    let actions = walk.statements(&program.body().statements, None);
    // The engine numbers kernels as the program does.
    walk.kernels.sort_by_key(|(id, _)| *id);
    let kernels: Vec<_> =
        walk.kernels.iter().map(|&(id, statements)| Kernel::new(program, &names, id, statements)).collect();
    let items = items(&walk, &actions, &kernels);
    let code = kernels.iter().map(|kernel| &kernel.code);
    let uses = imports(runtime, &quote! { #items #(#code)* });
    let items = names.wanted.chosen(&items).write(items);
    quote! { #uses #items }
}

/// A kernel of a program of several, written with names of its own, since its arrays have other names inside.
struct Kernel<'a> {
    /// The method that runs it, and the function that returns its table.
    method: TokenStream,
    table: TokenStream,
    /// What its leaf needs between calls: the field, its type, and the expression that makes it.
    kept: Option<(Ident, TokenStream, TokenStream)>,
    table_name: &'a Ident,
    /// The code before names were chosen.
    code: TokenStream,
}

impl<'a> Kernel<'a> {
    fn new(program: &Program, names: &'a Names, id: KernelId, statements: &[Statement]) -> Self {
        let nest = &program.body().nest(id);
        let own = KernelNames::new(nest);
        let field = match &nest.leaf.op {
            LeafOp::Named { .. } => format_ident!("leaf_{}", id.0 + 1),
            _ => format_ident!("products_{}", id.0 + 1),
        };
        let writer = Writer::new(nest, &own, field);
        let (body, element, name) = (writer.body(id.0, statements), element(nest), &names.kernels[id.0]);
        let (inputs, output) = own.tensors.split_at(nest.kernel.inputs().len());
        let scalars = &own.scalars;
        let is_first = fetches_once(statements).then(|| quote! { is_first: bool, });
        let doc = format!(" `{}`.", nest.kernel.statement());
        let method = quote! {
            #[doc = #doc]
            fn #name(
                &mut self,
                #(#inputs: &DistArray<#element>,)*
                #(#output: &mut DistArray<#element>,)*
                #is_first
                #(#scalars: #element,)*
            ) -> Result<()> {
                #body
            }
        };
        let shardings: Vec<_> = nest.arrays.iter().map(|array| &names.shardings[array.0]).collect();
        let table_name = &names.tables[id.0];
        let table = writer.table(table_name, &shardings);
        let kept = writer.kept_by_leaf();
        let made = kept.iter().map(|(of, made)| quote! { #of #made });
        let code = quote! { #method #table #(#made)* };
        let kept = kept.map(|(of, made)| (writer.kept.clone(), of, made));
        let chosen = own.wanted.chosen(&quote! { #method #table });
        Self { method: chosen.write(method), table: chosen.write(table), kept, table_name, code }
    }
}

/// The items of the module: mesh, shardings, `run` and `Prepared`, as in `items.rs` for one kernel, but without
/// `run_into`, since there may be several outputs and intermediate arrays.
fn items(
    Walk { program, names, rooms, steps, .. }: &Walk<'_>,
    actions: &[Action<'_>],
    kernels: &[Kernel<'_>],
) -> TokenStream {
    let mesh = mesh(program.mesh());
    let shardings = program.arrays().iter().zip(&names.shardings).enumerate().map(|(id, (array, name))| {
        sharding_function(name, &program.shown(ArrayId(id)), &array.sharding, program.mesh())
    });
    let inputs = program.of_kind(ArrayKind::Input);
    let checks = inputs.iter().map(|id| check(&names.arrays[id.0], program.array(*id).name, &names.shardings[id.0]));
    let parameters: Vec<_> = inputs.iter().map(|id| &names.arrays[id.0]).collect();
    let scalars: Vec<_> = names.scalars.iter().flatten().collect();
    let element = format_ident!("{}", program.dtype().name());
    let steps = steps.iter().map(|step| field(step, program));
    let rooms = names.rooms.iter().zip(&rooms.most);
    let rooms = rooms.map(|(name, most)| (name.clone(), quote! { Room<#element> }, quote! { Room::new(#most) }));
    let tables: Vec<_> = kernels.iter().map(|kernel| kernel.table_name).collect();
    let engine = (!tables.is_empty()).then(|| {
        let new = quote! { Engine::new(world, [#(#tables()),*])? };
        (format_ident!("engine"), quote! { Engine<'world, #element> }, new)
    });
    let kept = kernels.iter().filter_map(|kernel| kernel.kept.clone());
    let fields: Vec<_> = kept.chain(engine).chain(steps).chain(rooms).collect();
    let declared = fields.iter().map(|(name, of, _)| quote! { #name: #of });
    let made = fields.iter().map(|(name, _, new)| quote! { #name: #new });
    let actions = actions.iter().map(|action| spelled(action, &element));
    let outputs: Vec<_> = program.of_kind(ArrayKind::Output).iter().map(|id| &names.arrays[id.0]).collect();
    let (returned, result) = match &outputs[..] {
        [output] => (quote! { DistArray<#element> }, quote! { #output }),
        outputs => {
            let types = outputs.iter().map(|_| quote! { DistArray<#element> });
            (quote! { (#(#types),*) }, quote! { (#(#outputs),*) })
        }
    };
    let (methods, tables) = (kernels.iter().map(|kernel| &kernel.method), kernels.iter().map(|kernel| &kernel.table));
    quote! {
        #mesh
        #(#shardings)*

        /// Runs the program on all ranks, which each return their shards of what it computes.
        ///
        /// # Errors
        /// If the inputs are not sharded as the program expects them, or communication fails.
        pub fn run(
            world: &World,
            #(#parameters: &DistArray<#element>,)*
            #(#scalars: #element,)*
        ) -> Result<#returned> {
            Prepared::new(world)?.run(#(#parameters,)* #(#scalars,)*)
        }

        /// What runs of the program need, made once.
        pub struct Prepared<'world> {
            world: &'world World,
            #(#declared,)*
        }

        impl<'world> Prepared<'world> {
            /// Makes what runs need; all ranks must call it.
            ///
            /// # Errors
            /// If the world has not as many ranks as the mesh, a leaf is not registered as a kernel needs it, or there is too
            /// little memory.
            pub fn new(world: &'world World) -> Result<Self> {
                Ok(Self { world, #(#made,)* })
            }

            /// Runs the program on all ranks, which each return their shards of what it computes.
            ///
            /// # Errors
            /// If the inputs are not sharded as the program expects them, or communication fails.
            pub fn run(
                &mut self,
                #(#parameters: &DistArray<#element>,)*
                #(#scalars: #element,)*
            ) -> Result<#returned> {
                #(#checks)*
                #(#actions)*
                Ok(#result)
            }

            #(#methods)*
        }

        #(#tables)*
    }
}

/// The field of a move: its name, its type, and the expression that makes it. The route is the program's, written out, so that the
/// runtime does not decide it again.
///
/// ```text
/// step_1: Redistribution::by(world, &sharding_y_3(), None, &sharding_y_4(), &Route::from(Leg::exchange([Reach::All])))?
/// ```
fn field(step: &Step<'_>, program: &Program) -> (Ident, TokenStream, TokenStream) {
    let Step { name, moved, from, to } = step;
    let kept = moved.kept.as_ref().map(|kept| new_sharding(kept, program.mesh()));
    let (kept, route) = (kept.map_or(quote! { None }, |kept| quote! { Some(&#kept) }), route_of(&moved.route));
    let op = (!matches!(moved.op, Assign::Set | Assign::Add)).then(|| {
        let op = reduce_op(moved.op);
        quote! { .with_op(#op) }
    });
    let new = quote! { Redistribution::by(world, &#from(), #kept, &#to(), &#route)? #op };
    ((*name).clone(), quote! { Redistribution }, new)
}

/// An action as Rust. Those of rounds are, in this order:
///
/// ```text
/// let mut a_3: Cow<'_, DistArray<f64>> = Cow::Borrowed(a_0);             Borrow
/// for round in 0..3u64 {                                                 Repeat
///     let mut z_8 = self.room_0.array(self.world, &sharding_z_8(), Some(ReduceOp::Sum.identity()))?;
///     self.first_1(&a_3, &mut z_8, round == 0)?;
///     let is_last = s_9.is_below(-1e15);                                 Ask
///     let next_0 = Cow::Owned(z_8);                                      Take
///     if let Cow::Owned(before) = std::mem::replace(&mut a_3, next_0) { self.room_0.give_back(before); }
///     self.room_1.give_back(s_9);                                        Free
///     if is_last { break; }                                              Leave
/// }
/// let a_3 = a_3.into_owned();                                            Own
/// ```
fn spelled(action: &Action<'_>, element: &Ident) -> TokenStream {
    let next = |nth: &usize| format_ident!("next_{nth}");
    match action {
        Action::Make { array, sharding, identity } => {
            let value = identity_of(identity.unwrap_or(Assign::Set), element);
            quote! { let mut #array = DistArray::filled(self.world, &#sharding(), #value)?; }
        }
        Action::MakeIn { room, array, sharding, identity } => {
            let filled = identity.map(reduce_op).map(|op| quote! { Some(#op.identity()) });
            let filled = filled.unwrap_or(quote! { None });
            quote! { let mut #array = self.#room.array(self.world, &#sharding(), #filled)?; }
        }
        Action::Begin { kernel: KernelId(kernel), array, before } => {
            let kernel = Literal::usize_unsuffixed(*kernel);
            quote! { self.engine.begin_version(#kernel, &mut #array, #before); }
        }
        Action::Run { kernel, inputs, output, scalars, round } => {
            let is_first = round.map(|round| quote! { #round == 0, });
            quote! { self.#kernel(#(#inputs,)* &mut #output, #is_first #(#scalars,)*)?; }
        }
        Action::Redistribute { step, source, target, into } => match into {
            false => quote! { let #target = self.#step.run(self.world, #source)?; },
            true => quote! { self.#step.run_into(self.world, #source, &mut #target)?; },
        },
        Action::Free { array, room: None } => quote! { drop(#array); },
        Action::Free { array, room: Some(room) } => quote! { self.#room.give_back(#array); },
        Action::Borrow { value, first } => {
            quote! { let mut #value: Cow<'_, DistArray<#element>> = Cow::Borrowed(#first); }
        }
        Action::Repeat { round, times, body } => {
            let body: TokenStream = body.iter().map(|action| spelled(action, element)).collect();
            let round = if mentions(&body, &round.to_string()) { quote!(#round) } else { quote!(_) };
            quote! { for #round in 0..#times { #body } }
        }
        Action::Ask { scalar, below } => quote! { let is_last = #scalar.is_below(#below); },
        Action::Take { nth, array, first } => {
            let next = next(nth);
            match first {
                Some(first) => quote! { let #next = std::mem::replace(&mut #array, Cow::Borrowed(#first)); },
                None => quote! { let #next = Cow::Owned(#array); },
            }
        }
        Action::Rename { nth, value, room } => {
            let next = next(nth);
            quote! { if let Cow::Owned(before) = std::mem::replace(&mut #value, #next) { self.#room.give_back(before); } }
        }
        Action::Leave => quote! { if is_last { break; } },
        Action::Own(value) => quote! { let #value = #value.into_owned(); },
    }
}

/// Inputs are references already.
impl ToTokens for Argument<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let (borrow, array) = ((!self.is_input).then(|| quote! { & }), self.array);
        tokens.extend(quote! { #borrow #array });
    }
}

/// `Route::from(Leg::exchange([Reach::All]))`, or `Route::between_arrays([..])` of two legs.
fn route_of(route: &Route) -> TokenStream {
    let leg = |one: &Leg| match one {
        Leg::Collective { axes, owners: Owners::One(owner), by } => {
            let axes = axes.iter().map(|&axis| Literal::usize_unsuffixed(axis));
            let owner = owner.iter().map(|at| Literal::i64_unsuffixed(at.offset()));
            let by = format_ident!("{by:?}");
            quote! { Leg::with_one([#(#axes),*], &[#(#owner),*]).by(Algorithm::#by) }
        }
        one => table::leg(one, &|_| unreachable!("no other leg of a move names ranks; this is a bug in polyshard")),
    };
    match &route.legs[..] {
        [only] => {
            let only = leg(only);
            quote! { Route::from(#only) }
        }
        legs => {
            let legs = legs.iter().map(leg);
            quote! { Route::between_arrays([#(#legs),*]) }
        }
    }
}

//! The steps and actions of a program of several statements, each written as Rust, in the given order.
//!
//! ```text
//! run      Y = first(X, W)                  let y_3 = self.step_1.run(x_0, w_1)?;
//! move     Y' = Y: [1 @ x] to [0 @ x]       let y_4 = self.step_2.run(self.world, &y_3)?;
//! run      Z = second(Y', scale)            let z_5 = self.step_3.run(&y_4, scale_of_2)?;
//! ```
//!
//! The module of `first` is that of the kernel alone, inside `pub mod first_1 { .. }`, and `step_1` is its `Prepared`.

use super::super::body::leg::{Ends, leg};
use super::super::body::written_field;
use super::super::field::Field;
use super::super::items::{check, kept_tile, mesh, new_sharding, reduce_op, sharding_function, zero};
use super::super::{imports, kernel_module, mentions, reduction};
use super::{Action, Argument, Names, Step, Walk};
use polyshard_program::{ArrayId, ArrayKind, Nest, NestId, Packing, Program, TileId, Way};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};

/// The outer module, with those of the kernels inside it. Each chooses its own names, since items inside are reached by
/// a path.
pub(in super::super) fn module(program: &Program, runtime: &syn::Path) -> TokenStream {
    let names = Names::new(program);
    let mut walk = Walk { program, names: &names, rooms: program.rooms(), steps: Vec::new() };
    let actions = walk.statements(&program.body().statements, None);
    let items = items(&walk, &actions);
    let uses = imports(runtime, &items);
    let chosen = names.wanted.chosen(&items);
    let kernels = walk.steps.iter().filter_map(|(_, step)| {
        let Step::Kernel { module, nest, statements } = step else { return None };
        let kept = kept_of(program, nest);
        let (name, module) = (chosen.name(module), kernel_module(nest, statements, &kept, runtime));
        let doc = format!(" `{}`.", nest.kernel.statement());
        Some(quote! {
            #[doc = #doc]
            pub mod #name { #module }
        })
    });
    let items = chosen.write(items);
    quote! { #uses #items #(#kernels)* }
}

/// The tiles that a kernel keeps for others.
fn kept_of(program: &Program, nest: &Nest) -> Vec<TileId> {
    let is_it = |NestId(id): NestId| std::ptr::eq(&program.body().nests[id], nest);
    let all = program.nests().flat_map(Nest::kept).filter(|(_, (from, _))| is_it(*from));
    let mut tiles: Vec<_> = all.map(|(_, (_, tile))| tile).collect();
    tiles.sort_unstable();
    tiles.dedup();
    tiles
}

/// The items of the outer module: mesh, shardings, `run` and `Prepared`, as in `items.rs` for one kernel, but without
/// `run_into`, since there may be several outputs and intermediate arrays.
fn items(Walk { program, names, rooms, steps }: &Walk<'_>, actions: &[Action<'_>]) -> TokenStream {
    let mesh = mesh(program.mesh());
    let shardings = program.arrays().iter().zip(&names.shardings).enumerate().map(|(id, (array, name))| {
        sharding_function(name, &program.shown(ArrayId(id)), &array.sharding, program.mesh())
    });
    let inputs = program.of_kind(ArrayKind::Input);
    let checks = inputs.iter().map(|id| check(&names.arrays[id.0], program.array(*id).name, &names.shardings[id.0]));
    let parameters: Vec<_> = inputs.iter().map(|id| &names.arrays[id.0]).collect();
    let scalars: Vec<_> = names.scalars.iter().flatten().collect();
    let element = format_ident!("{}", program.dtype().name());
    let steps = steps.iter().map(|(name, step)| field(name, step, program, &element));
    let rooms = names.rooms.iter().zip(&rooms.most).map(|(name, most)| Field {
        name: name.clone(),
        r#type: quote! { Room<#element> },
        new: quote! { Room::new(#most) },
    });
    let fields: Vec<_> = steps.chain(rooms).collect();
    let declared = fields.iter().map(|Field { name, r#type, .. }| quote! { #name: #r#type });
    let made = fields.iter().map(|Field { name, new, .. }| quote! { #name: #new });
    let actions = actions.iter().map(|action| spelled(action, &element));
    let outputs: Vec<_> = program.of_kind(ArrayKind::Output).iter().map(|id| &names.arrays[id.0]).collect();
    let (returned, result) = match &outputs[..] {
        [output] => (quote! { DistArray<#element> }, quote! { #output }),
        outputs => {
            let types = outputs.iter().map(|_| quote! { DistArray<#element> });
            (quote! { (#(#types),*) }, quote! { (#(#outputs),*) })
        }
    };
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
        }
    }
}

/// The field of a step. The route of a move is the program's, written out, so that the runtime does not decide it
/// again.
///
/// ```text
/// step_1: first_1::Prepared::new(world)?
/// step_2: Redistribution::by(world, &sharding_y_3(), None, &sharding_y_4(), &Way::new([Leg::exchange([Reach::All])]))?
/// ```
fn field(name: &Ident, step: &Step<'_>, program: &Program, element: &Ident) -> Field {
    let (r#type, new) = match step {
        Step::Written { written, sharding } => return written_field(name, written, sharding),
        Step::Kernel { module, .. } => {
            (quote! { #module::Prepared<'world> }, quote! { #module::Prepared::new(world)? })
        }
        Step::Move { moved, from, to } => match moved.way.procedure() {
            None => {
                let kept = moved.kept.as_ref().map(|kept| new_sharding(kept, program.mesh()));
                let (kept, way) = (kept.map_or(quote! { None }, |kept| quote! { Some(&#kept) }), way_of(&moved.way));
                let new = quote! { Redistribution::by(world, &#from(), #kept, &#to(), &#way)? };
                (quote! { Redistribution }, new)
            }
            Some(procedure) => {
                let procedure = reduction::procedure(procedure);
                let new = quote! { Reduction::between(world, &#from(), &#to(), &#procedure)? };
                (quote! { Reduction<#element> }, new)
            }
        },
    };
    Field { name: name.clone(), r#type, new }
}

/// An action as Rust. Those of rounds are, in this order:
///
/// ```text
/// let mut a_3: Cow<'_, DistArray<f64>> = Cow::Borrowed(a_0);             Borrow
/// for round in 0..3u64 {                                                 Repeat
///     self.step_1.set_first(round == 0);                                 SetFirst
///     let mut z_8 = self.room_0.array(self.world, &sharding_z_8(), Some(ReduceOp::Sum.identity()))?;
///     self.step_1.run_into(&a_3, &mut z_8)?;
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
        Action::SetFirst { step, round } => quote! { self.#step.set_first(#round == 0); },
        Action::Make { array, sharding } => {
            let zero = zero(element);
            quote! { let mut #array = DistArray::filled(self.world, &#sharding(), #zero)?; }
        }
        Action::MakeIn { room, array, sharding, identity } => {
            let filled = identity.map(reduce_op).map(|op| quote! { Some(#op.identity()) });
            let filled = filled.unwrap_or(quote! { None });
            quote! { let mut #array = self.#room.array(self.world, &#sharding(), #filled)?; }
        }
        Action::Begin { step, array, before, identity } => {
            let filled = identity.map(reduce_op).map(|op| quote! { self.#step.fill(&mut #array, #op.identity()); });
            quote! { self.#step.copy_others(&mut #array, #before); #filled }
        }
        Action::Run { step, inputs, tiles, output, scalars, into } => {
            let tiles = tiles.iter().map(|&(step, tile)| {
                let tile = kept_tile(tile);
                quote! { self.#step.#tile() }
            });
            match into {
                false => quote! { let #output = self.#step.run(#(#inputs,)* #(#tiles,)* #(#scalars,)*)?; },
                true => quote! { self.#step.run_into(#(#inputs,)* #(#tiles,)* &mut #output, #(#scalars,)*)?; },
            }
        }
        Action::Redistribute { step, source, target, into } => match into {
            false => quote! { let #target = self.#step.run(self.world, #source)?; },
            true => quote! { self.#step.run_into(self.world, #source, &mut #target)?; },
        },
        Action::Reduce { step, source, target, op } => {
            let op = reduce_op(*op);
            quote! {
                #target.block_mut().copy_from_slice(#source.block());
                self.#step.run(#target.block_mut(), #op)?;
            }
        }
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

/// `Way::closing([Leg::exchange([Reach::All]), Leg::collective(vec![0], Owners::All)]).in_pieces()` and the like.
fn way_of(way: &Way) -> TokenStream {
    let legs = way.legs.iter().map(|one| leg(one, Ends::Arrays));
    let new = if way.closes_sums() {
        quote! { closing }
    } else {
        quote! { new }
    };
    let packing = (way.packing == Packing::LaidOut).then(|| quote! { .laid_out() });
    let pieces = way.in_pieces.then(|| quote! { .in_pieces() });
    quote! { Way::#new([#(#legs),*]) #packing #pieces }
}

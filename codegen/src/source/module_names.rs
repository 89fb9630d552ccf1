//! The names of a module: of its functions, and of the arrays, scalars and rooms of its statements.

use super::names::{Names, Wanted};
use polyshard_layout::{Name, each_once};
use polyshard_program::{ArrayKind, Kernel, Program};
use proc_macro2::Ident;
use quote::format_ident;

/// The placeholders of a module. Arrays are numbered as in the program's table, kernels by their
/// position in the program, so that two arrays with the same name differ; the names that a caller writes have no
/// number where they differ without it.
pub(super) struct ModuleNames {
    /// By array: `sharding_a`, the same for arrays of one name and one sharding.
    pub shardings: Vec<Ident>,
    /// By array: `a`, if it is given, or `y_3`.
    pub arrays: Vec<Ident>,
    /// By kernel, the method that runs it: `first_1`.
    pub kernels: Vec<Ident>,
    /// By kernel, the function that returns its table: `first_1_table`.
    pub tables: Vec<Ident>,
    /// By kernel: `scale`, or `scale_of_2` if kernels have other values for it.
    pub scalars: Vec<Vec<Ident>>,
    /// The last parameters of `run`: scalars, each with its name.
    pub parameters: Vec<(Name, Ident)>,
    /// By room of arrays of rounds: `room_0`.
    pub rooms: Vec<Ident>,
    /// By row of the rounds, their counter.
    pub rounds: Vec<Ident>,
    /// The names of an only kernel, which are those of the module, without numbers.
    pub only: Option<Names>,
    /// The wanted names of all placeholders.
    pub wanted: Wanted,
    /// Those of arrays and scalars, which are names inside of `run` alone.
    pub local: Wanted,
}

impl ModuleNames {
    pub(super) fn new(program: &Program) -> Self {
        if let Some(nest) = program.body().only_nest() {
            let own = Names::new(&nest, "");
            let of_array = |names: &[Ident]| -> Vec<Ident> {
                let place = |id: usize| nest.arrays.iter().position(|array| array.0 == id);
                let place = |id| place(id).expect("an only kernel has all arrays; this is a bug in polyshard");
                (0..program.arrays().len()).map(|id| names[place(id)].clone()).collect()
            };
            return Self {
                shardings: of_array(&own.shardings),
                arrays: of_array(&own.tensors),
                kernels: vec![format_ident!("run_into")],
                tables: vec![own.table.clone()],
                scalars: vec![own.scalars.clone()],
                parameters: nest.kernel.scalars().iter().map(|scalar| scalar.0).zip(own.scalars.clone()).collect(),
                rooms: Vec::new(),
                rounds: Vec::new(),
                wanted: own.wanted.clone(),
                local: Wanted::with_prefix("l"),
                only: Some(own),
            };
        }
        let [mut wanted, mut local] = ["m", "l"].map(Wanted::with_prefix);
        let all = program.arrays();
        let is_public = |id: usize| all[id].kind != ArrayKind::Temporary;
        let is_same = |one: usize, other: usize| all[one].name == all[other].name;
        let is_alike = |one: usize, other: usize| is_same(one, other) && all[one].sharding == all[other].sharding;
        let mut shardings: Vec<Ident> = Vec::with_capacity(all.len());
        for (id, array) in all.iter().enumerate() {
            let name = match (0..id).find(|&other| is_alike(id, other)) {
                Some(first) => shardings[first].clone(),
                None => {
                    let is_named = (0..all.len()).any(|other| is_public(other) && is_alike(id, other));
                    let mut others = (0..all.len()).filter(|&other| is_public(other) && is_same(id, other));
                    match is_named && others.all(|other| is_alike(id, other)) {
                        true => wanted.name(&format!("sharding_{}", array.name)),
                        false => wanted.name(&format!("sharding_{}_{id}", array.name)),
                    }
                }
            };
            shardings.push(name);
        }
        let arrays = all.iter().enumerate().map(|(id, array)| match array.kind {
            ArrayKind::Input => local.name(array.name.as_str()),
            _ => local.name(&format!("{}_{id}", array.name)),
        });
        let arrays = arrays.collect();
        let nests = || program.nests().map(|nest| &nest.row.kernel).zip(1..);
        let kernels = nests().map(|(kernel, number)| wanted.name(&format!("{}_{number}", kernel.name()))).collect();
        let tables =
            nests().map(|(kernel, number)| wanted.name(&format!("{}_{number}_table", kernel.name()))).collect();
        let values = each_once(program.nests().flat_map(|nest| nest.row.kernel.scalars().to_vec()));
        let named = values.iter().map(|(name, value)| {
            let of = |kernel: &Kernel| kernel.scalars().contains(&(*name, *value));
            let first = nests().find(|(kernel, _)| of(kernel)).map_or(0, |(_, number)| number);
            match values.iter().filter(|(other, _)| other == name).count() {
                1 => local.name(name.as_str()),
                _ => local.name(&format!("{name}_of_{first}")),
            }
        });
        let named: Vec<Ident> = named.collect();
        let own = |(kernel, _): (&Kernel, _)| -> Vec<Ident> {
            let place = |scalar| values.iter().position(|other| other == scalar);
            kernel.scalars().iter().filter_map(|scalar| Some(named[place(scalar)?].clone())).collect()
        };
        let scalars = nests().map(own).collect();
        let parameters = values.iter().map(|(name, _)| *name).zip(named.iter().cloned()).collect();
        let rooms = if program.body().rounds.is_empty() { 0 } else { program.rooms().most.len() };
        let rooms = (0..rooms).map(|room| wanted.name(&format!("room_{room}"))).collect();
        let rounds = program.body().rounds.iter().map(|_| wanted.name("round")).collect();
        Self { shardings, arrays, kernels, tables, scalars, rooms, rounds, parameters, only: None, wanted, local }
    }
}

//! The names of a module: of its functions, and of the arrays, scalars and rooms of its statements.

use super::names::{Names, Wanted};
use polyshard_program::Program;
use proc_macro2::Ident;
use quote::format_ident;

/// The placeholders of a module. Arrays are numbered as in the program's table, kernels by their
/// position in the program, so that two arrays with the same name differ.
pub(super) struct ModuleNames {
    /// By array: `sharding_a_0`.
    pub shardings: Vec<Ident>,
    /// By array: `a_0`, `y_3`.
    pub arrays: Vec<Ident>,
    /// By kernel, the method that runs it: `first_1`.
    pub kernels: Vec<Ident>,
    /// By kernel, the function that returns its table: `first_1_table`.
    pub tables: Vec<Ident>,
    /// By kernel: `scale_of_2`.
    pub scalars: Vec<Vec<Ident>>,
    /// By room of arrays of rounds: `room_0`.
    pub rooms: Vec<Ident>,
    /// By row of the rounds, their counter.
    pub rounds: Vec<Ident>,
    /// The names of an only kernel, which are those of the module, without numbers.
    pub only: Option<Names>,
    /// The wanted names of all placeholders.
    pub wanted: Wanted,
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
                rooms: Vec::new(),
                rounds: Vec::new(),
                wanted: own.wanted.clone(),
                only: Some(own),
            };
        }
        let mut wanted = Wanted::with_prefix("m");
        let arrays = || program.arrays().iter().enumerate().map(|(id, array)| format!("{}_{id}", array.name));
        let shardings = arrays().map(|array| wanted.name(&format!("sharding_{array}"))).collect();
        let arrays = arrays().map(|array| wanted.name(&array)).collect();
        let nests = || program.nests().map(|nest| &nest.row.kernel).zip(1..);
        let kernels = nests().map(|(kernel, number)| wanted.name(&format!("{}_{number}", kernel.name()))).collect();
        let tables =
            nests().map(|(kernel, number)| wanted.name(&format!("{}_{number}_table", kernel.name()))).collect();
        let scalars = nests().map(|(kernel, number)| {
            let scalars = kernel.scalars().iter();
            scalars.map(|scalar| wanted.name(&format!("{}_of_{number}", scalar.0))).collect()
        });
        let scalars = scalars.collect();
        let rooms = if program.body().rounds.is_empty() { 0 } else { program.rooms().most.len() };
        let rooms = (0..rooms).map(|room| wanted.name(&format!("room_{room}"))).collect();
        let rounds = program.body().rounds.iter().map(|_| wanted.name("round")).collect();
        Self { shardings, arrays, kernels, tables, scalars, rooms, rounds, only: None, wanted }
    }

    /// The last parameters of `run`.
    pub(super) fn scalars(&self) -> impl Iterator<Item = &Ident> {
        self.scalars.iter().flatten()
    }
}

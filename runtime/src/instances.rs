//! The functions that every user runs, compiled once for each element type: here, not in each crate that calls them.
//!
//! A generic function is compiled by the crate that calls it. The executor and the operations on tiles would then be compiled
//! again with every program that uses them, for each of its element types. So public functions that are generic over the element type are
//! thin: they call a function of a table, one entry for each type, compiled with this library.
//!
//! ```text
//! Prepared::<f32>::run                   in the user's crate: a call
//!   -> run_program of f32, by its table    in this library
//!     -> Prepared::<f32>::walk, and all that it calls
//! ```

use crate::engine::{self, Engine, Run};
use crate::execute::Prepared;
use crate::layout::{Name, Sharding};
use crate::reduction::Procedure;
use crate::tile::When;
use crate::{CompleteNpy, DistArray, Element, Redistribution, ReduceOp, Reduction, Result, World};
use ndarray::{ArrayD, ArrayViewD};
use polyshard_program::{Kernel, Program, TileId};
use std::any::Any;
use std::panic::Location;
use std::path::Path;

/// Declares [`Instances`]: each function calls the generic one after the `=`, by a table of its own, so that a program links only those
/// functions that it calls.
macro_rules! instances {
    ($(
        fn $name:ident $(<$($life:lifetime),*>)? ($($argument:ident: $of:ty),* $(,)?) $(-> $result:ty)? = $generic:expr;
    )*) => {
        /// The functions of the element type `T`, which is the type itself; called only by thin generic ones.
        pub(crate) trait Instances<T: Element> {
            $(
                fn $name $(<$($life),*>)? ($($argument: $of),*) $(-> $result)? {
                    type Function<T> = for<$($($life),*)?> fn($($of),*) $(-> $result)?;
                    macro_rules! instance {
                        ($type:ident) => {{
                            type T = $type;
                            fn instance $(<$($life),*>)? ($($argument: $of),*) $(-> $result)? {
                                $generic($($argument),*)
                            }
                            static INSTANCE: Function<T> = instance;
                            &INSTANCE
                        }};
                    }
                    let instances: [&'static dyn Any; 4] =
                        [instance!(f32), instance!(f64), instance!(i32), instance!(i64)];
                    let of_type = instances.into_iter().find_map(|function| function.downcast_ref::<Function<T>>());
                    of_type.expect("every element type has its functions; this is a bug in polyshard")($($argument),*)
                }
            )*
        }

        impl<T: Element> Instances<T> for T {}
    };
}

instances! {
    fn prepare<'a>(program: &'a Program, world: &'a World) -> Result<Prepared<'a, T>> = Prepared::new;
    fn set_scalars(prepared: &mut Prepared<'_, T>, scalars: &[(&str, T)]) -> Result<()> = Prepared::scalars_set;
    fn output(prepared: &mut Prepared<'_, T>) -> Result<DistArray<T>> = Prepared::make_output;
    fn run_program(
        prepared: &mut Prepared<'_, T>,
        inputs: &[&DistArray<T>],
        into: Option<&mut DistArray<T>>,
        at: &'static Location<'static>,
    ) -> Result<Vec<(Name, DistArray<T>)>> = Prepared::walk;
    fn engine<'w>(world: &'w World, kernels: Vec<engine::Kernel<'w>>) -> Result<Engine<'w, T>> = Engine::made;
    fn run_kernel<'r, 'w>(
        engine: &'r mut Engine<'w, T>,
        kernel: usize,
        inputs: &[&'r DistArray<T>],
        output: &'r mut DistArray<T>,
        at: &'static Location<'static>,
    ) -> Result<Run<'r, 'w, T>> = Engine::run_at;
    fn target_of_move(engine: &Engine<'_, T>, number: usize) -> Result<DistArray<T>> = Engine::made_target;
    fn begin_move(
        engine: &mut Engine<'_, T>,
        number: usize,
        source: &DistArray<T>,
        target: &mut DistArray<T>,
        when: When,
    ) -> Result<()> = Engine::begun_move;
    fn end_move(
        engine: &mut Engine<'_, T>,
        number: usize,
        source: &DistArray<T>,
        target: &mut DistArray<T>,
    ) -> Result<()> = Engine::ended_move;
    fn open<'r, 'w>(
        run: &mut Run<'r, 'w, T>,
        kernel: usize,
        inputs: &[&'r DistArray<T>],
        output: &'r mut DistArray<T>,
    ) -> Result<()> = Run::opened;
    fn fill(run: &mut Run<'_, '_, T>, tile: TileId, counters: &[i64]) -> Result<()> = Run::filled;
    fn begin(run: &mut Run<'_, '_, T>, tile: TileId, counters: &[i64]) -> Result<()> = Run::begun;
    fn end(run: &mut Run<'_, '_, T>, tile: TileId) -> Result<()> = Run::ended;
    fn poll(run: &mut Run<'_, '_, T>) -> Result<bool> = Run::polled;
    fn finish(run: &mut Run<'_, '_, T>) -> Result<()> = Run::finished;
    fn reference(
        kernel: &Kernel,
        inputs: &[&ArrayD<T>],
        into: Option<ArrayD<T>>,
    ) -> Result<ArrayD<T>> = crate::reference::evaluate;
    fn verify(
        program: &Program,
        world: &World,
        inputs: &[&DistArray<T>],
        outputs: &[&DistArray<T>],
        tolerance: f64,
    ) -> Result<f64> = crate::execute::verify;
    fn with_block(world: &World, sharding: &Sharding) -> Result<DistArray<T>> = DistArray::with_any_elements;
    fn filled(world: &World, sharding: &Sharding, value: T) -> Result<DistArray<T>> = DistArray::filled_with;
    fn from_array(world: &World, array: ArrayViewD<'_, T>, sharding: &Sharding) -> Result<DistArray<T>>
        = DistArray::part_of;
    fn gather(array: &DistArray<T>, world: &World) -> Result<Option<ArrayD<T>>> = DistArray::gathered;
    fn read_npy(world: &World, path: &Path, sharding: &Sharding) -> Result<DistArray<T>> = DistArray::read;
    fn complete_npy(array: &DistArray<T>, world: &World, path: &Path) -> Result<CompleteNpy> = DistArray::complete;
    fn redistribute(
        moved: &Redistribution,
        world: &World,
        source: &DistArray<T>,
        target: Option<&mut DistArray<T>>,
    ) -> Result<Option<DistArray<T>>> = Redistribution::run_checked;
    fn reduction(world: &World, procedure: &Procedure, elements: usize) -> Result<Reduction<T>> = Reduction::planned;
    fn reduce(reduction: &Reduction<T>, data: &mut [T], op: ReduceOp) -> Result<()> = Reduction::run_steps;
}

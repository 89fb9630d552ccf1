//! The functions that every user runs, compiled once for each element type: here, not in each crate that calls them.
//!
//! A generic function is compiled by the crate that calls it. The executor, the leaves and the operations on tiles would then be compiled
//! again with every program that uses them, for each of its element types. So public functions that are generic over the element type are
//! thin: they call a function of this trait, of which each type has its own, compiled with this library.
//!
//! ```text
//! Prepared::<f32>::run                   in the user's crate: a call
//!   -> <f32 as Instances>::run_program    in this library
//!     -> Prepared::<f32>::walk, and all that it calls
//! ```

use crate::engine::{self, Engine, Run};
use crate::execute::Prepared;
use crate::layout::{Name, Sharding};
use crate::leaf::{Products, Role};
use crate::reduction::Procedure;
use crate::{
    CompleteNpy, DistArray, Element, Redistribution, ReduceOp, Reduction, Result, Strided, StridedMut, Transport, World,
};
use ndarray::{ArrayD, ArrayViewD};
use polyshard_program::{Kernel, Program, TileId};
use std::panic::Location;
use std::path::Path;

/// Declares [`Instances`] and implements it for these types: each function calls the generic one after the `=`.
macro_rules! instances {
    ([$($type:ident)*] $functions:tt) => {
        instances!(@declare $functions);
        $(instances!(@implement $type $functions);)*
    };
    (@declare { $(
        $(#[$attribute:meta])*
        fn $name:ident $(<$($life:lifetime),*>)? ($($argument:ident: $of:ty),* $(,)?) $(-> $result:ty)? = $generic:expr;
    )* }) => {
        /// The functions of one element type; called only by thin generic ones.
        pub trait Instances: Sized {
            $( $(#[$attribute])* fn $name $(<$($life),*>)? ($($argument: $of),*) $(-> $result)? where Self: Element; )*
        }
    };
    (@implement $type:ident { $(
        $(#[$attribute:meta])*
        fn $name:ident $(<$($life:lifetime),*>)? ($($argument:ident: $of:ty),* $(,)?) $(-> $result:ty)? = $generic:expr;
    )* }) => {
        impl Instances for $type {
            $(
                $(#[$attribute])*
                #[inline(never)]
                fn $name $(<$($life),*>)? ($($argument: $of),*) $(-> $result)? {
                    $generic($($argument),*)
                }
            )*
        }
    };
}

instances!([f32 f64 i32 i64] {
    fn prepare<'a>(program: &'a Program, world: &'a World) -> Result<Prepared<'a, Self>> = Prepared::new;
    fn with_transport<'a>(prepared: Prepared<'a, Self>, transport: Transport) -> Result<Prepared<'a, Self>>
        = Prepared::transported;
    fn output(prepared: &mut Prepared<'_, Self>) -> Result<DistArray<Self>> = Prepared::make_output;
    fn run_program(
        prepared: &mut Prepared<'_, Self>,
        inputs: &[&DistArray<Self>],
        into: Option<&mut DistArray<Self>>,
        scalars: &[(&str, Self)],
        at: &'static Location<'static>,
    ) -> Result<Vec<(Name, DistArray<Self>)>> = Prepared::walk;
    fn engine<'w>(world: &'w World, kernels: Vec<engine::Kernel<'w>>) -> Result<Engine<'w, Self>> = Engine::made;
    fn run_kernel<'r, 'w>(
        engine: &'r mut Engine<'w, Self>,
        kernel: usize,
        inputs: &[&'r DistArray<Self>],
        output: &'r mut DistArray<Self>,
        at: &'static Location<'static>,
    ) -> Result<Run<'r, 'w, Self>> = Engine::run_at;
    fn fill(run: &mut Run<'_, '_, Self>, tile: TileId, counters: &[i64]) -> Result<()> = Run::filled;
    fn begin(run: &mut Run<'_, '_, Self>, tile: TileId, counters: &[i64]) -> Result<()> = Run::begun;
    fn end(run: &mut Run<'_, '_, Self>, tile: TileId) -> Result<()> = Run::ended;
    fn poll(run: &mut Run<'_, '_, Self>) -> Result<bool> = Run::polled;
    fn finish(run: Run<'_, '_, Self>) -> Result<()> = Run::finished;
    fn reference(
        kernel: &Kernel,
        inputs: &[&ArrayD<Self>],
        into: Option<ArrayD<Self>>,
    ) -> Result<ArrayD<Self>> = crate::reference::evaluate;
    fn verify(
        program: &Program,
        world: &World,
        inputs: &[&DistArray<Self>],
        outputs: &[&DistArray<Self>],
        tolerance: f64,
    ) -> Result<f64> = crate::execute::verify;
    fn with_block(world: &World, sharding: &Sharding) -> Result<DistArray<Self>> = DistArray::with_any_elements;
    fn filled(world: &World, sharding: &Sharding, value: Self) -> Result<DistArray<Self>> = DistArray::filled_with;
    fn from_array(world: &World, array: ArrayViewD<'_, Self>, sharding: &Sharding) -> Result<DistArray<Self>>
        = DistArray::part_of;
    fn gather(array: &DistArray<Self>, world: &World) -> Result<Option<ArrayD<Self>>> = DistArray::gathered;
    fn read_npy(world: &World, path: &Path, sharding: &Sharding) -> Result<DistArray<Self>> = DistArray::read;
    fn complete_npy(array: &DistArray<Self>, world: &World, path: &Path) -> Result<CompleteNpy> = DistArray::complete;
    fn redistribute(
        moved: &Redistribution,
        world: &World,
        source: &DistArray<Self>,
        target: Option<&mut DistArray<Self>>,
    ) -> Result<Option<DistArray<Self>>> = Redistribution::run_checked;
    fn reduction(world: &World, procedure: &Procedure, elements: usize) -> Result<Reduction<Self>> = Reduction::planned;
    fn reduce(reduction: &Reduction<Self>, data: &mut [Self], op: ReduceOp) -> Result<()> = Reduction::run_steps;
    #[track_caller]
    fn contract(
        counts: &[usize],
        roles: &[Role],
        alpha: Self,
        a: Strided<'_, Self>,
        b: Strided<'_, Self>,
        c: StridedMut<'_, Self>,
    ) = crate::leaf::contract_strided;
    #[track_caller]
    fn products(
        products: &mut Products<Self>,
        counts: &[usize],
        alpha: Self,
        operands: &[Strided<'_, Self>],
        c: StridedMut<'_, Self>,
    ) = Products::run_strided;
});

//! Leaves that users register under a name, with the statement that they compute.
//!
//! A program requests a leaf by name, element type and meaning, which is a statement over tiles; the registry is one per process, so that
//! threads share it. The leaf's statement and the program's must be the same except for the names in them, and the order of a tile's
//! dimensions: tiles are strided views, so any order is possible.

use crate::{DType, Element, LeafError, Strided, StridedMut};
use ndarray::{ArrayView, ArrayViewD, ArrayViewMut, ArrayViewMutD, Axis, IxDyn, ShapeBuilder};
use polyshard_layout::Name;
use polyshard_program::{Affine, Kernel, TileStatement};
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Function<T> = dyn Fn(ArrayViewMutD<'_, T>, Vec<ArrayViewD<'_, T>>) + Send + Sync;

/// A function on tiles, and the statement that it computes.
struct Registered {
    statement: TileStatement,
    /// The type of the function, if it identifies the function.
    identity: Option<TypeId>,
    /// A `Box<Function<T>>`.
    function: Arc<dyn Any + Send + Sync>,
}

/// By name and element type.
type Registry = BTreeMap<(Name, DType), Registered>;

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: Mutex<Registry> = Mutex::new(BTreeMap::new());
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers `function` as the leaf `name` over elements of type `T`, which computes the statement of `kernel` on tiles.
///
/// # Errors
/// [`LeafError`] if the name is not an identifier, a tensor of the kernel is not one tile, its element type or the number of
/// its operands is not the function's, or another function is registered under the name for this element type.
pub fn register<T, const N: usize, F>(name: &str, kernel: &Kernel, function: F) -> Result<(), LeafError>
where
    T: Element,
    F: Fn(ArrayViewMutD<'_, T>, [ArrayViewD<'_, T>; N]) + Send + Sync + 'static,
{
    let (name, dtype) = (Name::new(name), T::DTYPE);
    if !name.is_identifier() {
        return Err(LeafError::BadName { name });
    }
    if kernel.dtype() != dtype {
        return Err(LeafError::ElementType { name, kernel: kernel.dtype(), function: dtype });
    }
    let statement = TileStatement::of_kernel(kernel).map_err(|why| LeafError::NoTiles {
        name,
        statement: kernel.statement().into(),
        why: why.into(),
    })?;
    let operands: Box<[Name]> = statement.tiles().iter().skip(1).map(|tile| tile.tensor).collect();
    if operands.len() != N {
        return Err(LeafError::Operands { name, statement: statement.to_string().into(), operands, taken: N });
    }
    let mut registry = registry();
    let key = (name, dtype);
    // All values of a zero-sized type are the same function.
    let identity = (size_of::<F>() == 0).then(TypeId::of::<F>);
    if let Some(first) = registry.get(&key) {
        if identity.is_some() && first.identity == identity && first.statement == statement {
            return Ok(());
        }
        return Err(LeafError::RegisteredAlready { name, dtype, registered: first.statement.to_string() });
    }
    let function: Box<Function<T>> = Box::new(move |target, operands| {
        let Ok(operands) = operands.try_into() else {
            unreachable!("a leaf gets the operands of its statement; this is a bug in polyshard")
        };
        function(target, operands);
    });
    registry.insert(key, Registered { statement, identity, function: Arc::new(function) });
    Ok(())
}

/// A registered leaf that computes what a program needs.
pub struct Named<T> {
    function: Arc<Box<Function<T>>>,
    /// The leaf loops of the output's dimensions, then of each operand's.
    tiles: Vec<Vec<usize>>,
}

impl<T: Element> Named<T> {
    /// Returns the leaf that is registered as `name`, if it computes `statement`, whose indices are among `loops`.
    ///
    /// # Errors
    /// [`LeafError`] if no leaf has the name, or it computes another statement.
    ///
    /// # Panics
    /// If an index of the statement is not among the loops: a bug in polyshard.
    pub fn find(name: &str, loops: &[&str], statement: &TileStatement) -> Result<Self, LeafError> {
        let (name, dtype) = (Name::new(name), T::DTYPE);
        let registry = registry();
        let Some(leaf) = registry.get(&(name, dtype)) else {
            return Err(missing(&registry, name, dtype, statement));
        };
        let Some(renamed) = leaf.statement.renamed(statement) else {
            let [registered, statement] = [&leaf.statement, statement].map(|statement| statement.to_string().into());
            return Err(LeafError::OtherStatement { name, dtype, registered, statement });
        };
        let number = |index: Name| {
            let pair = renamed.iter().find(|(own, _)| *own == index);
            let found = pair.and_then(|(_, theirs)| loops.iter().position(|other| *theirs == *other));
            found.expect("the indices of a leaf's statement are its loops; this is a bug in polyshard")
        };
        let tiles = leaf.statement.tiles();
        let tiles = tiles.iter().map(|tile| tile.index.iter().filter_map(Affine::as_variable).map(number).collect());
        let function = Arc::clone(&leaf.function).downcast();
        let function = function.expect("leaves are kept by their element type; this is a bug in polyshard");
        Ok(Self { tiles: tiles.collect(), function })
    }

    /// Calls the leaf on the tiles that the operands cover in loops with `counts` iterations, unless a loop has none.
    ///
    /// `operands` are in the order in which the program's statement first names them.
    ///
    /// # Panics
    /// If the leaf panics; if the number of operands is not the leaf's, or one would be accessed outside its data, or output elements have
    /// two places in the tile: a bug in polyshard.
    #[track_caller]
    pub fn run(&self, counts: &[usize], operands: &[Strided<'_, T>], mut c: StridedMut<'_, T>) {
        c.set();
        assert_eq!(operands.len() + 1, self.tiles.len(), "a leaf has other operands; this is a bug in polyshard");
        let strides = c.checked_strides("c", counts);
        let numbered = operands.iter().enumerate();
        let all: Vec<_> = numbered.map(|(i, operand)| operand.checked_strides(i, counts)).collect();
        if counts.contains(&0) {
            return;
        }
        let misfit = "tiles are inside of their data; this is a bug in polyshard";
        let views = operands.iter().zip(&all).zip(&self.tiles[1..]).map(|((operand, strides), dims)| {
            let dims = Dims::new(dims, counts, strides);
            let data = &operand.data[dims.first(operand.offset)..];
            let mut view = ArrayView::from_shape(dims.shape(), data).expect(misfit);
            dims.reversed().for_each(|dim| view.invert_axis(dim));
            view
        });
        let views = views.collect();
        let dims = Dims::new(&self.tiles[0], counts, &strides);
        let data = &mut c.data[dims.first(c.offset)..];
        let mut target = ArrayViewMut::from_shape(dims.shape(), data).expect(misfit);
        dims.reversed().for_each(|dim| target.invert_axis(dim));
        (self.function)(target, views);
    }
}

/// The dimensions of a tile: extents and strides.
struct Dims {
    counts: Vec<usize>,
    strides: Vec<i64>,
}

impl Dims {
    fn new(loops: &[usize], counts: &[usize], strides: &[i64]) -> Self {
        Self {
            counts: loops.iter().map(|&l| counts[l]).collect(),
            strides: loops.iter().map(|&l| strides[l]).collect(),
        }
    }

    /// The element that is first in memory, if `offset` is that of the first iterations.
    fn first(&self, offset: i64) -> usize {
        let back = self.strides.iter().zip(&self.counts).map(|(&stride, &count)| stride.min(0) * (count as i64 - 1));
        (offset + back.sum::<i64>()) as usize
    }

    fn shape(&self) -> ndarray::StrideShape<IxDyn> {
        let strides: Vec<usize> = self.strides.iter().map(|stride| stride.unsigned_abs() as usize).collect();
        IxDyn(&self.counts).strides(IxDyn(&strides))
    }

    /// The dimensions that run backwards in memory.
    fn reversed(&self) -> impl Iterator<Item = Axis> {
        self.strides.iter().enumerate().filter(|&(_, &stride)| stride < 0).map(|(dim, _)| Axis(dim))
    }
}

fn missing(registry: &Registry, name: Name, dtype: DType, statement: &TileStatement) -> LeafError {
    let statement = statement.to_string().into();
    let registered: Box<[DType]> = registry.keys().filter(|key| key.0 == name).map(|key| key.1).collect();
    if registered.is_empty() {
        let known = registry.keys().filter(|key| key.1 == dtype).map(|key| key.0).collect();
        return LeafError::Unknown { name, dtype, statement, known };
    }
    LeafError::OtherType { name, dtype, statement, registered }
}

#[cfg(test)]
mod tests;

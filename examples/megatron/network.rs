//! The network on one rank: its arrays, made once, and a pass forward and backward over them.
//!
//! The loss is half the squared distance of Y from a target, so the gradient of Y is their difference. What happens to
//! elements alone is done on blocks, which lie alike on both sides.

use crate::plans::{Closing, Plans};
use ndarray::{Array2, Ix2};
use polyshard::cli::values::{self, Number};
use polyshard::planner::product::ProductPlan;
use polyshard::runtime::{Partial, Resharding, Result, ShardedProduct};
use polyshard::{DistArray, Sharding, World};

/// The products, made once, and all arrays between them.
pub(crate) struct Network<T> {
    products: Vec<ShardedProduct<T>>,
    closings: Vec<Resharding<T>>,
    arrays: Arrays<DistArray<T>>,
    /// The gradients of W2 and W1, as terms and closed.
    gradients: [[Partial<T>; 2]; 2],
    target: DistArray<T>,
}

/// The arrays of the network, distributed or gathered.
pub(crate) struct Arrays<A> {
    pub(crate) x: A,
    pub(crate) w1: A,
    pub(crate) w2: A,
    /// X * W1.
    pub(crate) z: A,
    /// relu(Z).
    pub(crate) h: A,
    pub(crate) y: A,
    pub(crate) dy: A,
    pub(crate) dh: A,
    pub(crate) dz: A,
    pub(crate) dx: A,
}

/// What a pass leaves, whole.
pub(crate) struct Found<T> {
    pub(crate) arrays: Arrays<Array2<T>>,
    pub(crate) dw1: Array2<T>,
    pub(crate) dw2: Array2<T>,
}

/// The seeds of X, W1, W2 and the target.
pub(crate) fn seeds(seed: u64) -> [u64; 4] {
    [0, 1, 2, 3].map(|nth| seed.wrapping_add(nth))
}

impl<T: Number> Network<T> {
    /// Makes products and arrays; collective over the world.
    pub(crate) fn new(world: &World, plans: &Plans, seed: u64) -> Result<Self> {
        let size = plans.size.named();
        let product = |plan: &ProductPlan| ShardedProduct::cut(world, plan.product(), plan.best(), &size);
        let products = plans.products.iter().map(product).collect::<Result<Vec<_>>>()?;
        let closing = |(from, steps): &Closing| Resharding::cut(world, from, steps, &size);
        let closings = plans.closings.iter().map(closing).collect::<Result<Vec<_>>>()?;
        let [x, w1, w2, target] = seeds(seed);
        let random = |sharding: &Sharding, seed| DistArray::from_fn(world, sharding, |at| values::element(seed, at));
        let gradient = |closing: &Resharding<T>| -> Result<[Partial<T>; 2]> {
            Ok([closing.input(world)?, closing.output(world)?])
        };
        let arrays = Arrays {
            x: random(products[0].left(), x)?,
            w1: random(products[0].right(), w1)?,
            w2: random(products[1].right(), w2)?,
            z: products[0].output(world)?,
            h: DistArray::filled(world, products[1].left(), T::ZERO)?,
            y: products[1].output(world)?,
            dy: DistArray::filled(world, products[1].out(), T::ZERO)?,
            dh: products[3].output(world)?,
            dz: DistArray::filled(world, products[3].out(), T::ZERO)?,
            dx: products[5].output(world)?,
        };
        let target = random(products[1].out(), target)?;
        let gradients = [gradient(&closings[0])?, gradient(&closings[1])?];
        Ok(Self { products, closings, arrays, gradients, target })
    }

    /// One pass, forward and backward; collective over the world.
    pub(crate) fn run(&mut self, world: &World) -> Result<()> {
        let Arrays { x, w1, w2, z, h, y, dy, dh, dz, dx } = &mut self.arrays;
        let [[dw2, dw2_closed], [dw1, dw1_closed]] = &mut self.gradients;
        let of = &self.products;
        of[0].run_into(world, x, w1, z)?;
        each(h, z, z, |z, _| if z > T::ZERO { z } else { T::ZERO });
        of[1].run_into(world, h, w2, y)?;
        each(dy, y, &self.target, T::minus);
        of[2].run_partial_into(world, h, dy, dw2)?;
        of[3].run_into(world, dy, w2, dh)?;
        each(dz, dh, z, |dh, z| if z > T::ZERO { dh } else { T::ZERO });
        of[4].run_partial_into(world, x, dz, dw1)?;
        of[5].run_into(world, dz, w1, dx)?;
        self.closings[0].run_into(world, dw2, dw2_closed)?;
        self.closings[1].run_into(world, dw1, dw1_closed)
    }

    /// Returns all arrays on rank 0, as the last pass left them; collective over the world.
    pub(crate) fn gather(&self, world: &World) -> Result<Option<Found<T>>> {
        let whole = |array: &DistArray<T>| -> Result<Array2<T>> {
            let whole = array.gather(world)?.map(|whole| whole.into_dimensionality::<Ix2>().expect("it is a matrix"));
            // Ranks but the first are told nothing.
            Ok(whole.unwrap_or_else(|| Array2::from_elem((0, 0), T::ZERO)))
        };
        let Arrays { x, w1, w2, z, h, y, dy, dh, dz, dx } = &self.arrays;
        let arrays = Arrays {
            x: whole(x)?,
            w1: whole(w1)?,
            w2: whole(w2)?,
            z: whole(z)?,
            h: whole(h)?,
            y: whole(y)?,
            dy: whole(dy)?,
            dh: whole(dh)?,
            dz: whole(dz)?,
            dx: whole(dx)?,
        };
        let [dw2, dw1] = [0, 1].map(|nth| whole(&self.gradients[nth][1].clone().into_array()?));
        let found = Found { arrays, dw1: dw1?, dw2: dw2? };
        Ok((world.rank() == 0).then_some(found))
    }
}

/// Writes `f` of two arrays' elements to `out`; all three lie alike.
fn each<T: Number>(out: &mut DistArray<T>, left: &DistArray<T>, right: &DistArray<T>, f: impl Fn(T, T) -> T) {
    let operands = left.block().iter().zip(right.block());
    out.block_mut().iter_mut().zip(operands).for_each(|(out, (&left, &right))| *out = f(left, right));
}

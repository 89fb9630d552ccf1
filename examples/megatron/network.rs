//! The network on one rank: its arrays, made once, and a pass forward and backward over them.
//!
//! The loss is half the squared distance of Y from a target, so the gradient of Y is their difference. What happens to
//! elements alone is done on blocks, which lie alike on both sides.

use crate::plans::Plans;
use ndarray::{Array2, Ix2};
use polyshard::cli::values::{self, Number};
use polyshard::planner::product::{ProductError, resharding};
use polyshard::prelude::*;
use polyshard::runtime::Result;
use polyshard_testing::example::launch::failure;

/// The products and the closings of the gradients as programs.
pub(crate) struct Programs {
    products: Vec<Program>,
    closings: Vec<Program>,
}

/// The programs, prepared, and all arrays between them.
pub(crate) struct Network<'a, T: Number> {
    products: Vec<Prepared<'a, T>>,
    closings: Vec<Prepared<'a, T>>,
    arrays: Arrays<DistArray<T>>,
    /// The gradients of W2 and W1, as terms and closed.
    gradients: [[DistArray<T>; 2]; 2],
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

impl Programs {
    /// The programs of plans, for arrays of their size.
    pub(crate) fn new<T: Number>(plans: &Plans) -> polyshard::Result<Self> {
        let size = plans.size.named();
        let products = plans.products.iter().map(|plan| plan.best().program(plan.product(), &size));
        let closings = plans.closings.iter().map(|(from, steps)| resharding(from, steps, T::DTYPE, &size));
        let refused = |error: ProductError| failure(error.to_string());
        Ok(Self {
            products: products.collect::<std::result::Result<_, _>>().map_err(refused)?,
            closings: closings.collect::<std::result::Result<_, _>>().map_err(refused)?,
        })
    }
}

impl<'a, T: Number> Network<'a, T> {
    /// Prepares the programs and makes the arrays; collective over the world.
    pub(crate) fn new(world: &'a World, programs: &'a Programs, seed: u64) -> Result<Self> {
        let prepare = |program: &'a Program| program.prepare(world);
        let mut products = programs.products.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        let mut closings = programs.closings.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        let [x, w1, w2, target] = seeds(seed);
        let random = |sharding: &Sharding, seed| DistArray::from_fn(world, sharding, |at| values::element(seed, at));
        let factor = |nth: usize, operand: usize| {
            let factor = programs.products[nth].inputs().nth(operand).expect("a product has two factors");
            &factor.sharding
        };
        let out = |nth: usize| &programs.products[nth].outputs().last().expect("a product has a result").sharding;
        let mut output = |nth: usize| products[nth].output();
        let arrays = Arrays {
            x: random(factor(0, 0), x)?,
            w1: random(factor(0, 1), w1)?,
            w2: random(factor(1, 1), w2)?,
            z: output(0)?,
            h: DistArray::filled(world, factor(1, 0), T::ZERO)?,
            y: output(1)?,
            dy: DistArray::filled(world, out(1), T::ZERO)?,
            dh: output(3)?,
            dz: DistArray::filled(world, out(3), T::ZERO)?,
            dx: output(5)?,
        };
        let target = random(out(1), target)?;
        let mut gradient = |nth: usize, product: usize| -> Result<[DistArray<T>; 2]> {
            Ok([DistArray::filled(world, out(product), T::ZERO)?, closings[nth].output()?])
        };
        let gradients = [gradient(0, 2)?, gradient(1, 4)?];
        Ok(Self { products, closings, arrays, gradients, target })
    }

    /// One pass, forward and backward; collective over the world.
    pub(crate) fn run(&mut self) -> Result<()> {
        let Arrays { x, w1, w2, z, h, y, dy, dh, dz, dx } = &mut self.arrays;
        let [[dw2, dw2_closed], [dw1, dw1_closed]] = &mut self.gradients;
        let multiply = &mut self.products;
        multiply[0].run_into(&[&*x, &*w1], z)?;
        each(h, z, z, |z, _| if z > T::ZERO { z } else { T::ZERO });
        multiply[1].run_into(&[&*h, &*w2], y)?;
        each(dy, y, &self.target, T::subtract);
        multiply[2].run_into(&[&*h, &*dy], dw2)?;
        multiply[3].run_into(&[&*dy, &*w2], dh)?;
        each(dz, dh, z, |dh, z| if z > T::ZERO { dh } else { T::ZERO });
        multiply[4].run_into(&[&*x, &*dz], dw1)?;
        multiply[5].run_into(&[&*dz, &*w1], dx)?;
        self.closings[0].run_into(&[&*dw2], dw2_closed)?;
        self.closings[1].run_into(&[&*dw1], dw1_closed)
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
        let [dw2, dw1] = [0, 1].map(|nth| whole(&self.gradients[nth][1]));
        let found = Found { arrays, dw1: dw1?, dw2: dw2? };
        Ok((world.rank() == 0).then_some(found))
    }
}

/// Writes `f` of two arrays' elements to `out`; all three lie alike.
fn each<T: Number>(out: &mut DistArray<T>, left: &DistArray<T>, right: &DistArray<T>, f: impl Fn(T, T) -> T) {
    let operands = left.block().iter().zip(right.block());
    out.block_mut().iter_mut().zip(operands).for_each(|(out, (&left, &right))| *out = f(left, right));
}

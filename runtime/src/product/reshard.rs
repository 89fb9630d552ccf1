//! One array from one sharding to another, sums that are closed on the way among it.
//!
//! What a product does to its result, for an array by itself. Between shardings without sums, [`Redistribution`] knows
//! more of them and is not bound to a plan's steps.
//!
//! [`Redistribution`]: crate::Redistribution

use super::chain::{Chain, Start};
use super::tile::Held;
use super::{Partial, check};
use crate::layout::Sharding;
use crate::{DistArray, Element, Error, Result, World};
use polyshard_planner::product::{Sharded, Step, StepCost};

/// The steps that the planner's [`reshard`](polyshard_planner::product::reshard()) found, made once and run many times.
///
/// ```
/// use polyshard_planner::product::{Element, Link, Roofline, Sharded, Wiring, reshard};
/// use polyshard_runtime::layout::Mesh;
/// use polyshard_runtime::{DistArray, Error, Partial, Resharding, spmd};
/// let mesh = Mesh::new([("X", 2)]);
/// let [from, to] = ["G[I] {U_X}", "G[I_X]"].map(|text| Sharded::parse(text, &mesh, &[("I", 4)]).expect("an array"));
/// let link = Link { wiring: Wiring::Switch, bandwidth: 1e9, latency: 1e-6 };
/// let machine = Roofline { flops: 1e10, memory_bandwidth: 1e10, memory_bytes: 1 << 30, links: vec![] };
/// let steps = reshard(&from, &to, Element::F64, &machine.with_link("X", link)).expect("a way");
/// let sums = spmd(2, |world| -> Result<_, Error> {
///     let there = Resharding::new(world, &from, &steps)?;
///     let terms = DistArray::from_fn(world, there.source(), |index| (index[0] + 10 * world.rank()) as f64)?;
///     let whole = there.run(world, &Partial::new(terms, &["X".into()])?)?.into_array()?;
///     Ok(whole.block().to_vec())
/// })?;
/// assert_eq!(sums, [[10.0, 12.0], [14.0, 16.0]]); // a part of the sum for each rank
/// # Ok::<(), Error>(())
/// ```
pub struct Resharding<T> {
    from: Held,
    to: Held,
    shardings: [Sharding; 2],
    steps: Chain<T>,
}

impl<T: Element> Resharding<T> {
    /// Works out how to run steps on an array that lies as `from`; collective over the world.
    ///
    /// # Errors
    /// If the mesh has not as many ranks as the world, or the first step begins with another type, each said before any
    /// communication; the ranks give different steps, or another rank failed.
    pub fn new(world: &World, from: &Sharded, steps: &[(Step, StepCost)]) -> Result<Self> {
        Self::cut(world, from, steps, &[])
    }

    /// As [`new`](Self::new), for an array of these sizes, which are at most those of the type: tiles are cut off where
    /// the array ends. Sizes of dimensions that it does not have are ignored; without a size it has that of the type.
    ///
    /// # Errors
    /// If a size is more than the type's. As [`new`](Self::new).
    pub fn cut(world: &World, from: &Sharded, steps: &[(Step, StepCost)], sizes: &[(&str, usize)]) -> Result<Self> {
        world.check_mesh(from.dist_type().mesh())?;
        let mut last = from;
        for (step, _) in steps {
            if step.before() != Some(last) {
                return Err(Error::Usage(format!(
                    "the step `{step}` does not begin with `{last}`; give the steps in order"
                )));
            }
            last = step.result();
        }
        check::covered(&from.names().iter().zip(from.dist_type().shape()).collect::<Vec<_>>(), sizes)?;
        world.agree(&format!(
            "a resharding of `{from}` over ({})\na resharding of `{}` of shape {:?}, with sizes {sizes:?}\n{}",
            from.dist_type().mesh(),
            T::NAME,
            from.dist_type().shape(),
            check::steps(steps.iter().map(|(step, _)| step))
        ))?;
        let (from, to) = (Held::new(from, sizes), Held::new(last, sizes));
        let shardings = [from.sharding()?, to.sharding()?];
        let steps: Vec<_> = steps.iter().map(|(step, _)| step).collect();
        let steps = Chain::new(world, &from, &steps, Start::Given)?;
        Ok(Self { from, to, shardings, steps })
    }

    /// Returns the sharding of what it takes.
    #[must_use]
    pub fn source(&self) -> &Sharding {
        &self.shardings[0]
    }

    /// Returns the sharding of what it makes.
    #[must_use]
    pub fn target(&self) -> &Sharding {
        &self.shardings[1]
    }

    /// Returns terms of zeros that lie as it takes them. Does not communicate.
    ///
    /// # Errors
    /// If the mesh has not as many ranks as the world.
    pub fn input(&self, world: &World) -> Result<Partial<T>> {
        let terms = DistArray::filled(world, self.source(), T::ZERO)?;
        Ok(Partial { terms, unreduced: self.from.array.unreduced().to_vec() })
    }

    /// Returns what lies as it makes them, all zeros, in shared memory where that saves a copy; collective over the world.
    ///
    /// # Errors
    /// If the mesh has not as many ranks as the world, or another rank failed.
    pub fn output(&self, world: &World) -> Result<Partial<T>> {
        world.check_mesh(self.to.mesh())?;
        Ok(Partial { terms: self.steps.output(world, &self.to)?, unreduced: self.to.array.unreduced().to_vec() })
    }

    /// Returns `source` as it lies after the steps, with the sums open that they leave open; collective over the world.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into).
    pub fn run(&self, world: &World, source: &Partial<T>) -> Result<Partial<T>> {
        self.check(world, source)?;
        let mut target = self.output(world)?;
        self.run_into(world, source, &mut target)?;
        Ok(target)
    }

    /// Writes `source` to `target`; collective over the world. Allocates no tile.
    ///
    /// # Errors
    /// If an array does not lie as the steps say, or other sums are open in it; the ranks run different steps, or
    /// another rank failed.
    pub fn run_into(&self, world: &World, source: &Partial<T>, target: &mut Partial<T>) -> Result<()> {
        self.check(world, source)?;
        check::array(&target.terms, &self.to, &self.shardings[1], "makes")?;
        check::unreduced(target, &self.to, "makes")?;
        if self.steps.is_empty() {
            target.terms.block_mut().copy_from_slice(source.block());
        }
        self.steps.run(source.block(), &mut target.terms)
    }

    fn check(&self, world: &World, source: &Partial<T>) -> Result<()> {
        world.check_mesh(self.from.mesh())?;
        check::array(&source.terms, &self.from, &self.shardings[0], "takes")?;
        check::unreduced(source, &self.from, "takes")
    }
}

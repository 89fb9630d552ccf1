//! Products of sharded arrays, run as the sequences that the planner found.
//!
//! A [`ShardedProduct`] is worked out once and run many times: its groups and the tiles between its steps are made at the
//! beginning. What moves without being summed is a redistribution inside the groups of a step; sums are collectives; and
//! between them every rank multiplies its tiles through the leaf. What a rank receives is what the plan says.
//!
//! | module | what |
//! | --- | --- |
//! | `tile` | what a rank has of an array |
//! | `sum` | sums of terms: a part for each rank, or all for all |
//! | `chain` | the steps of one array, and where it is between them |
//! | `local` | what a rank multiplies alone |
//! | `partial`, `reshard` | arrays whose sums are open, and how they are closed |
//! | `check` | what is refused |
//!
//! Nothing here decides which sequence to run, and the factors are never written.

mod chain;
mod check;
mod local;
mod partial;
mod reshard;
mod sum;
mod tile;

pub use partial::Partial;
pub use reshard::Resharding;

use crate::layout::{Mesh, Sharding};
use crate::{DistArray, Element, Error, Result, World};
use chain::{Chain, Start};
use local::Local;
use polyshard_planner::product::{Operand, Product, ProductPlan, Sequence, Sharded, Step};
use std::cell::RefCell;
use tile::Held;

/// A product of two sharded arrays, made once and run many times.
///
/// ```
/// use polyshard_planner::product::{Element, Link, Product, Roofline, Wiring};
/// use polyshard_runtime::layout::Mesh;
/// use polyshard_runtime::{DistArray, Error, ShardedProduct, spmd};
/// let mesh = Mesh::new([("X", 2), ("Y", 2)]);
/// let sizes = [("I", 4), ("J", 8), ("K", 6)];
/// let product = Product::new("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]", &mesh, &sizes, Element::F64).expect("a product");
/// let link = Link { wiring: Wiring::Switch, bandwidth: 1e9, latency: 1e-6 };
/// let machine = Roofline { flops: 1e10, memory_bandwidth: 1e10, memory_bytes: 1 << 30, links: vec![] };
/// let plan = product.plan(&machine.with_link("X", link).with_link("Y", link)).expect("a plan");
/// let rows = spmd(4, |world| -> Result<_, Error> {
///     let multiply = ShardedProduct::new(world, &plan)?;
///     let a = DistArray::from_fn(world, multiply.left(), |i| (i[0] + i[1]) as f64)?;
///     let b = DistArray::from_fn(world, multiply.right(), |i| (i[0] * i[1]) as f64)?;
///     let mut c = multiply.output(world)?;
///     multiply.run_into(world, &a, &b, &mut c)?;
///     Ok(c.get(&[0, 1]).or(c.get(&[2, 1])))
/// })?;
/// // The sum over j of j * j, and of (2 + j) * j.
/// assert_eq!(rows, [Some(140.0), Some(140.0), Some(196.0), Some(196.0)]);
/// # Ok::<(), Error>(())
/// ```
pub struct ShardedProduct<T> {
    left: Factor<T>,
    right: Factor<T>,
    out: Held,
    out_sharding: Sharding,
    local: Local,
    /// From the local product to the result.
    steps: Chain<T>,
}

/// A factor: how it is given, and how it gets to where the multiplication needs it.
struct Factor<T> {
    held: Held,
    sharding: Sharding,
    steps: Chain<T>,
    /// Where it lies then, if it has to be moved.
    tile: Option<RefCell<DistArray<T>>>,
}

impl<T: Element> ShardedProduct<T> {
    /// Works out how to run the best sequence of a plan; collective over the world.
    ///
    /// # Errors
    /// As [`with_sequence`](Self::with_sequence).
    pub fn new(world: &World, plan: &ProductPlan) -> Result<Self> {
        Self::with_sequence(world, plan.product(), plan.best())
    }

    /// Works out how to run a sequence of the product's plan; collective over the world.
    ///
    /// The groups of its steps are made, and kept by the world (MPI 3.1, section 6.4.2), and the tiles that are between
    /// steps. Elements are of as many bytes as the plan counts: `f32` and `i32` for [`F32`], `f64` and `i64` for [`F64`].
    ///
    /// [`F32`]: polyshard_planner::product::Element::F32
    /// [`F64`]: polyshard_planner::product::Element::F64
    ///
    /// # Errors
    /// If the mesh has not as many ranks as the world, the plan's elements are not of this type's bytes, the sequence is
    /// not one of the product's, each said before any communication; the ranks give different products, or another rank
    /// failed.
    pub fn with_sequence(world: &World, product: &Product, sequence: &Sequence) -> Result<Self> {
        Self::cut(world, product, sequence, &[])
    }

    /// As [`with_sequence`](Self::with_sequence), for arrays of these sizes, which are at most those of the product:
    /// tiles are cut off where the arrays end. Dimensions that are not named have the product's sizes.
    ///
    /// ```text
    /// I = 8 in the product, 4 ranks along X, and 5 in the array     A[I_X]
    /// rank 0: 0 1    rank 1: 2 3    rank 2: 4    rank 3: -
    /// ```
    ///
    /// # Errors
    /// If a size is of no dimension, or is more than the product's. As [`with_sequence`](Self::with_sequence).
    pub fn cut(world: &World, product: &Product, sequence: &Sequence, sizes: &[(&str, usize)]) -> Result<Self> {
        world.check_mesh(product.mesh())?;
        check::element::<T>(product)?;
        let multiplied = check::sequence(product, sequence)?;
        check::sizes(product, sizes)?;
        world.agree(&format!(
            "the product `{product}` over ({})\na product of `{}` of shapes {:?} and {:?}, with sizes {sizes:?}\n{}",
            product.mesh(),
            T::NAME,
            product.left().dist_type().shape(),
            product.right().dist_type().shape(),
            check::steps(sequence.steps())
        ))?;
        let held = |array: &Sharded| Held::new(array, sizes);
        let steps = |which: Operand| {
            let of = |step: &&Step| matches!(step, Step::Move { operand, .. } if *operand == which);
            sequence.steps().iter().filter(of).collect::<Vec<_>>()
        };
        let [left, right, terms] = multiplied.map(held);
        let coordinates = product.mesh().coordinates(world.rank());
        let (out, local) = (held(product.out()), Local::new([&left, &right, &terms], &coordinates));
        Ok(Self {
            left: Factor::new(world, held(sequence.left()), &left, &steps(Operand::Left))?,
            right: Factor::new(world, held(sequence.right()), &right, &steps(Operand::Right))?,
            out_sharding: out.sharding()?,
            out,
            local,
            steps: Chain::new(world, &terms, &steps(Operand::Out), Start::Written)?,
        })
    }

    /// Returns the sharding of the first factor.
    #[must_use]
    pub fn left(&self) -> &Sharding {
        &self.left.sharding
    }

    /// Returns the sharding of the second factor.
    #[must_use]
    pub fn right(&self) -> &Sharding {
        &self.right.sharding
    }

    /// Returns the sharding of the result, or of its terms where sums stay open.
    #[must_use]
    pub fn out(&self) -> &Sharding {
        &self.out_sharding
    }

    /// Returns the positions in the mesh of the axes along which sums of the result stay open, ascending.
    #[must_use]
    pub fn unreduced(&self) -> &[usize] {
        self.out.array.unreduced()
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        self.out.mesh()
    }

    /// Returns an array of zeros for the result, in shared memory where that saves a copy; collective over the world.
    ///
    /// # Errors
    /// If sums stay open, the mesh has not as many ranks as the world, or another rank failed.
    pub fn output(&self, world: &World) -> Result<DistArray<T>> {
        self.complete()?;
        self.room(world)
    }

    /// Returns the product; collective over the world.
    ///
    /// # Errors
    /// As [`run_into`](Self::run_into).
    pub fn run(&self, world: &World, a: &DistArray<T>, b: &DistArray<T>) -> Result<DistArray<T>> {
        self.complete()?;
        self.check(world, a, b)?;
        let mut c = self.room(world)?;
        self.multiply(a, b, &mut c)?;
        Ok(c)
    }

    /// Writes the product of `a` and `b` to `c`; collective over the world. Allocates no tile.
    ///
    /// # Errors
    /// If sums stay open, an array does not lie as the plan says, the ranks run different products, or another rank
    /// failed.
    pub fn run_into(&self, world: &World, a: &DistArray<T>, b: &DistArray<T>, c: &mut DistArray<T>) -> Result<()> {
        self.complete()?;
        self.check(world, a, b)?;
        check::array(c, &self.out, &self.out_sharding, "makes")?;
        self.multiply(a, b, c)
    }

    /// Returns the product with the sums open that the plan leaves open, if it leaves any; collective over the world.
    ///
    /// # Errors
    /// As [`run_partial_into`](Self::run_partial_into).
    pub fn run_partial(&self, world: &World, a: &DistArray<T>, b: &DistArray<T>) -> Result<Partial<T>> {
        self.check(world, a, b)?;
        let mut c = Partial { terms: self.room(world)?, unreduced: self.unreduced().to_vec() };
        self.multiply(a, b, &mut c.terms)?;
        Ok(c)
    }

    /// Writes the terms of the product of `a` and `b` to `c`; collective over the world. Allocates no tile.
    ///
    /// # Errors
    /// If other sums are open in `c` than the plan leaves open. As [`run_into`](Self::run_into).
    pub fn run_partial_into(
        &self,
        world: &World,
        a: &DistArray<T>,
        b: &DistArray<T>,
        c: &mut Partial<T>,
    ) -> Result<()> {
        self.check(world, a, b)?;
        check::array(&c.terms, &self.out, &self.out_sharding, "makes")?;
        check::unreduced(c, &self.out, "makes")?;
        self.multiply(a, b, &mut c.terms)
    }

    /// Returns the bytes that this rank holds besides factors and result, from one run to the next.
    #[must_use]
    pub fn staging_bytes(&self) -> usize {
        self.left.staging_bytes() + self.right.staging_bytes() + self.steps.staging_bytes()
    }

    fn room(&self, world: &World) -> Result<DistArray<T>> {
        world.check_mesh(self.mesh())?;
        self.steps.output(world, &self.out)
    }

    fn check(&self, world: &World, a: &DistArray<T>, b: &DistArray<T>) -> Result<()> {
        world.check_mesh(self.mesh())?;
        check::array(a, &self.left.held, &self.left.sharding, "takes")?;
        check::array(b, &self.right.held, &self.right.sharding, "takes")
    }

    fn complete(&self) -> Result<()> {
        if self.unreduced().is_empty() {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "the plan leaves sums open, in `{}`; `run_partial` returns the terms, and `reduce` sums them",
            self.out.array
        )))
    }

    fn multiply(&self, a: &DistArray<T>, b: &DistArray<T>, c: &mut DistArray<T>) -> Result<()> {
        self.left.bring(a)?;
        self.right.bring(b)?;
        self.left.with(a, |left| {
            self.right.with(b, |right| self.steps.start(c, |out| self.local.run(left, right, out)));
        });
        self.steps.run(&[], c)
    }
}

impl<T: Element> Factor<T> {
    fn new(world: &World, held: Held, multiplied: &Held, steps: &[&Step]) -> Result<Self> {
        let sharding = held.sharding()?;
        let steps = Chain::new(world, &held, steps, Start::Given)?;
        let tile = if steps.is_empty() { None } else { Some(RefCell::new(steps.output(world, multiplied)?)) };
        Ok(Self { held, sharding, steps, tile })
    }

    /// Brings the factor to where the multiplication needs it.
    fn bring(&self, given: &DistArray<T>) -> Result<()> {
        self.tile.as_ref().map_or(Ok(()), |tile| self.steps.run(given.block(), &mut tile.borrow_mut()))
    }

    /// Calls `read` with what this rank multiplies.
    fn with(&self, given: &DistArray<T>, read: impl FnOnce(&[T])) {
        match &self.tile {
            Some(tile) => read(tile.borrow().block()),
            None => read(given.block()),
        }
    }

    fn staging_bytes(&self) -> usize {
        self.steps.staging_bytes() + self.tile.as_ref().map_or(0, |tile| size_of_val(tile.borrow().block()))
    }
}

//! The laws of products whose arrays lie somewhere, for all ranks of a world: run by threads in one test, by MPI processes in
//! another.
//!
//! Problems are drawn from a sequence of numbers, so all ranks see the same ones. Values are small integers, so that
//! sums in any order are exact in every element type, and answers are compared bit by bit.

use polyshard::Result;
use polyshard::machine::{Device, Interconnect, Level};
use polyshard::planner::placement::PlacedMesh;
use polyshard::program::Program;
use polyshard::schedule::{Clause, Schedule, dim};
use polyshard::search::{Choose, SearchError};
use polyshard::text::{Operand, einsum};
use polyshard_planner::redistribution;
use polyshard_runtime::layout::{DType, Mesh, Placement, Sharding};
use polyshard_runtime::{DistArray, Element, Execute, World};

/// Matrices, transposed ones, batches, two dimensions contracted, nothing contracted, and everything.
const PRODUCTS: [&str; 6] = ["ij,jk->ik", "ji,jk->ki", "nij,nj->in", "ijl,jl->i", "i,k->ik", "jl,lj->"];

/// A sequence of numbers that only look random (Knuth's linear congruential generator).
pub struct Draw(pub u64);

/// How an array is sharded over a mesh: the axes of each dimension, major first, and those along which its sums are open.
#[derive(Clone, Debug)]
pub struct Lies {
    axes: Vec<Vec<usize>>,
    open: Vec<usize>,
}

impl Lies {
    /// The sharding of an array of this shape.
    fn sharding(&self, mesh: &Mesh, shape: &[usize]) -> Result<Sharding> {
        let name = |&axis: &usize| mesh.as_slice()[axis].name.as_str();
        let block = |(dim, axes): (usize, &Vec<usize>)| {
            let (first, others) = axes.split_first()?;
            Some(others.iter().fold(Placement::block(dim, name(first)), |block, axis| block.at(name(axis))))
        };
        let blocks = self.axes.iter().enumerate().filter_map(block);
        let placements: Vec<_> = blocks.chain(self.open.iter().map(|axis| Placement::partial(name(axis)))).collect();
        Ok(Sharding::new(mesh, shape, &placements)?)
    }

    /// The same as clauses.
    fn clauses(&self, mesh: &Mesh) -> Vec<Clause> {
        let name = |&axis: &usize| mesh.as_slice()[axis].name.as_str();
        let block = |(number, axes): (usize, &Vec<usize>)| {
            let (first, others) = axes.split_first()?;
            Some(others.iter().fold(dim(number).at(name(first)), |block, axis| block.at(name(axis))))
        };
        let blocks = self.axes.iter().enumerate().filter_map(block);
        blocks.chain(self.open.iter().map(|axis| Placement::partial(name(axis)))).collect()
    }
}

impl Draw {
    /// The next number, less than `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }

    /// Where an array lies: each axis of the mesh on a dimension, on none, or among its open sums.
    fn lies(&mut self, mesh: &Mesh, dims: usize, open: bool) -> Lies {
        let mut lies = Lies { axes: vec![Vec::new(); dims], open: Vec::new() };
        for (axis, described) in mesh.as_slice().iter().enumerate() {
            let (place, first) = (self.below(dims + 1 + usize::from(open)), self.below(2) == 0);
            match place {
                // Axes of one rank divide nothing.
                _ if described.extent == 1 => {}
                place if place < dims && first => lies.axes[place].insert(0, axis),
                place if place < dims => lies.axes[place].push(axis),
                place if place > dims => lies.open.push(axis),
                _ => {}
            }
        }
        lies
    }

    /// A product over the mesh, of sizes that are divisible among the ranks, or any if `any_size`.
    pub fn problem(&mut self, mesh: &Mesh, any_size: bool) -> Problem {
        let product = PRODUCTS[self.below(PRODUCTS.len())];
        let (factors, out) = product.split_once("->").expect("a product has an arrow");
        let terms: Vec<&str> = factors.split(',').chain([out]).collect();
        let contracts = factors.chars().any(|index| index != ',' && !out.contains(index));
        let lies = [0, 1, 2].map(|nth| self.lies(mesh, terms[nth].len(), nth == 2 && contracts));
        let mut sizes: Vec<(char, usize)> = Vec::new();
        for index in factors.chars().filter(|index| *index != ',') {
            if sizes.iter().all(|(other, _)| *other != index) {
                let size = match any_size {
                    true => self.below(2 * mesh.size() + 3),
                    false => mesh.size() * (1 + self.below(2)),
                };
                sizes.push((index, size));
            }
        }
        Problem { product, sizes, lies }
    }
}

/// A product, the sizes of its dimensions, and the shardings of its factors and its result.
#[derive(Clone, Debug)]
pub struct Problem {
    product: &'static str,
    sizes: Vec<(char, usize)>,
    lies: [Lies; 3],
}

/// The meshes of one, two and three axes with this many ranks; some axes have one rank.
pub fn meshes(ranks: usize) -> Vec<Mesh> {
    let divisors = |n: usize| (1..=n).filter(move |divisor| n.is_multiple_of(*divisor));
    let mut meshes = vec![Mesh::new([("X", ranks)])];
    for x in divisors(ranks) {
        meshes.push(Mesh::new([("X", x), ("Y", ranks / x)]));
        let deep = divisors(ranks / x).filter(|y| *y > 1 && ranks / x / y > 1 && x > 1);
        meshes.extend(deep.map(|y| Mesh::new([("X", x), ("Y", y), ("Z", ranks / x / y)])));
    }
    meshes
}

/// A mesh on a machine with links along all axes, of all kinds.
fn machine(mesh: &Mesh) -> PlacedMesh {
    let kinds = [Interconnect::Ring, Interconnect::Line, Interconnect::Switch];
    let level = |axis: usize| Level::new("", 1, kinds[axis % 3].clone(), 1e9 / (axis + 1) as f64, 1e-9);
    let flops = DType::NATIVE.map(|dtype| (dtype.to_string(), 1e10)).into();
    let device = Device { memory_bandwidth: 1e10, memory_capacity: 1 << 40, flops, ..Device::default() };
    PlacedMesh::along_axes(mesh, "all kinds", device, level).expect("a machine")
}

/// A value that depends on the array and on all of the index, from -8 to 8.
fn value(seed: i64, index: &[usize]) -> i64 {
    index.iter().fold(seed, |number, &at| number * 31 + at as i64 + 1) % 17 - 8
}

fn number<T: Element>(value: i64) -> T {
    T::from(value).expect("every element type holds it")
}

/// Programs of a product, each with the bytes that its price says a rank receives at most.
pub type Held = Vec<(Program, u64)>;

/// The maximum number of programs of a search to run.
const PROGRAMS: usize = 6;

/// Programs that the search finds for a product with the drawn shardings, and with factors sharded by the search: the best, the
/// worst, and some between.
pub fn held(mesh: &Mesh, Problem { product, sizes, lies }: &Problem, dtype: DType) -> Result<Held> {
    let (factors, _) = product.split_once("->").expect("a product has an arrow");
    let size = |index: char| sizes.iter().find(|(other, _)| *other == index).map_or(0, |(_, size)| *size);
    let shapes: Vec<Vec<usize>> = factors.split(',').map(|term| term.chars().map(size).collect()).collect();
    let operands: Vec<_> =
        ["A", "B"].into_iter().zip(&shapes).map(|(source, shape)| Operand { source, shape }).collect();
    let kernel = Schedule::from_spec(einsum(product, &operands, dtype, "C")?);
    let tensors: Vec<_> = kernel.kernel()?.tensors().map(|tensor| tensor.name).collect();
    let placed = machine(mesh);
    let mut held = Vec::new();
    for fixed in [&[0, 1, 2][..], &[2]] {
        let search =
            kernel.auto(mesh.size(), placed.machine()).on_placed(&placed).without_panels().at_least(usize::MAX);
        let search = fixed.iter().fold(search, |search, &nth| search.shard(tensors[nth], lies[nth].clauses(mesh)));
        let choice = match search.find() {
            Ok(choice) => choice,
            // Few iterations cannot be divided over many ranks, nor can their sums be kept open.
            Err(SearchError::Home { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let all: Vec<_> = [choice.best()].into_iter().chain(choice.others()).collect();
        let mut numbers: Vec<_> = (0..PROGRAMS).map(|nth| nth * (all.len() - 1) / (PROGRAMS - 1)).collect();
        numbers.dedup();
        for nth in numbers {
            let program = all[nth].schedule().lower()?;
            let shape = program.sharding("C").shape().to_vec();
            assert_eq!(*program.sharding("C"), lies[2].sharding(mesh, &shape)?, "{}", all[nth].chain());
            held.push((program, all[nth].cost().received));
        }
    }
    Ok(held)
}

/// Runs programs of a product, each three times.
pub fn hold<T: Element>(world: &World, held: &Held) -> Result<()> {
    held.iter().try_for_each(|(program, stated)| run::<T>(world, program, *stated))
}

fn run<T: Element>(world: &World, program: &Program, stated: u64) -> Result<()> {
    let factors = program.inputs().zip([3, 5]);
    let factors =
        factors.map(|(array, seed)| DistArray::from_fn(world, &array.sharding, |index| number(value(seed, index))));
    let factors = factors.collect::<polyshard_runtime::Result<Vec<DistArray<T>>>>()?;
    let factors: Vec<_> = factors.iter().collect();
    let counted = |run: &mut dyn FnMut() -> polyshard_runtime::Result<()>| -> Result<()> {
        let before = world.bytes_received();
        run()?;
        let received = world.bytes_received() - before;
        assert!(received <= stated, "{received} bytes on rank {}, {stated} stated, of\n{program}", world.rank());
        assert!(received <= program.report().traffic_bytes, "{received} bytes by\n{}", program.explain());
        Ok(())
    };
    let check = |c: &DistArray<T>| -> Result<()> {
        let whole = c.redistribute(world, &c.sharding().closed())?;
        program.verify(world, &factors, &[&whole], 0.0)?;
        Ok(())
    };
    let mut prepared = program.prepare::<T>(world)?;
    let mut terms = None;
    counted(&mut || {
        terms = Some(prepared.run(&factors)?);
        Ok(())
    })?;
    let mut terms = terms.expect("it has run");
    check(&terms)?;
    // The target of a run may hold anything before.
    terms.block_mut().fill(number(99));
    counted(&mut || prepared.run_into(&factors, &mut terms))?;
    check(&terms)?;
    let mut c = prepared.output()?;
    assert!(c.block().iter().all(|&x| x == T::ZERO), "an output is zeros");
    counted(&mut || prepared.run_into(&factors, &mut c))?;
    check(&c)
}

/// Redistributes terms of open sums, drawn like the rest, to another sharding with some of the sums closed.
pub fn reshardings_hold<T: Element>(world: &World, mesh: &Mesh, draw: &mut Draw) -> Result<()> {
    let shape = [draw.below(2 * mesh.size() + 3), 1 + draw.below(2 * mesh.size())];
    let [from, to] = [(); 2].map(|()| draw.lies(mesh, 2, true));
    let Ok(program) = redistribution(&from.sharding(mesh, &shape)?, &to.sharding(mesh, &shape)?, T::DTYPE) else {
        return Ok(());
    };
    let [source, target] =
        [program.inputs().last(), program.outputs().last()].map(|array| &array.expect("one").sharding);
    // Each term has its own weight, by its rank's position along the summed axes.
    let weight =
        |at: &[usize], axes: &[usize]| axes.iter().map(|&axis| (axis as i64 + 1) * at[axis] as i64).sum::<i64>();
    let own = mesh.coordinates(world.rank());
    let mine = weight(&own, &from.open) + 1;
    // Every rank writes its own term.
    let mine = DistArray::from_fn(world, &source.closed(), |index| number::<T>(mine * value(7, index)))?;
    let mut terms = DistArray::filled(world, source, T::ZERO)?;
    terms.block_mut().copy_from_slice(mine.block());
    // Sums that remain open still have one term per rank along their axes.
    let closed: Vec<usize> = from.open.iter().copied().filter(|axis| !to.open.contains(axis)).collect();
    let summed: i64 = (0..mesh.size())
        .map(|rank| mesh.coordinates(rank))
        .filter(|at| (0..mesh.ndim()).all(|axis| closed.contains(&axis) || at[axis] == own[axis]))
        .map(|at| weight(&at, &from.open) + 1)
        .sum();
    let expected = DistArray::from_fn(world, &target.closed(), |index| number::<T>(summed * value(7, index)))?;
    let mut prepared = program.prepare(world)?;
    for _ in 0..2 {
        let got = prepared.run(&[&terms])?;
        assert_eq!(target.partial(), to.open);
        assert_eq!(got.block(), expected.block(), "rank {}: {from:?} to {to:?}", world.rank());
    }
    Ok(())
}

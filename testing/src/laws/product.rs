//! The laws of sharded products, for all ranks of a world: run by threads in one test, by MPI processes in another.
//!
//! Problems are drawn from a sequence of numbers, so all ranks see the same ones. Values are small integers, so that
//! sums in any order are exact in every element type, and answers are compared bit by bit.

use polyshard::Result;
use polyshard::machine::{Device, Interconnect, Level};
use polyshard::planner::Sharded;
use polyshard::planner::placement::PlacedMesh;
use polyshard::program::Program;
use polyshard::search::product::{Free, Product, ProductError, ProductSequence};
use polyshard_planner::redistribution;
use polyshard_runtime::layout::{DType, Mesh, Sharding};
use polyshard_runtime::{DistArray, Element, Execute, World};

/// The dimensions of the first factor, the second and the result: matrices, transposed ones, batches, two dimensions
/// contracted, nothing contracted, and everything.
const SHAPES: [[&[&str]; 3]; 6] = [
    [&["I", "J"], &["J", "K"], &["I", "K"]],
    [&["J", "I"], &["J", "K"], &["K", "I"]],
    [&["N", "I", "J"], &["N", "J"], &["I", "N"]],
    [&["I", "J", "L"], &["J", "L"], &["I"]],
    [&["I"], &["K"], &["I", "K"]],
    [&["J", "L"], &["L", "J"], &[]],
];

/// A sequence of numbers that only look random (Knuth's linear congruential generator).
pub struct Draw(pub u64);

impl Draw {
    /// The next number, less than `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }

    /// An array with each axis of the mesh on a dimension, on none, or among its open sums.
    fn array(&mut self, mesh: &Mesh, tensor: &str, names: &[&str], open: bool) -> String {
        let (mut below, mut sums) = (vec![String::new(); names.len()], String::new());
        for axis in mesh.as_slice() {
            let (place, first) = (self.below(names.len() + 1 + usize::from(open)), self.below(2) == 0);
            match place {
                place if place < names.len() && first => below[place].insert_str(0, axis.name.as_str()),
                place if place < names.len() => below[place].push_str(axis.name.as_str()),
                place if place > names.len() => sums.push_str(axis.name.as_str()),
                _ => {}
            }
        }
        let subscript = |(name, axes): (&&str, &String)| match axes.as_str() {
            "" => (*name).to_owned(),
            axes => format!("{name}_{axes}"),
        };
        let dims: Vec<_> = names.iter().zip(&below).map(subscript).collect();
        let sums = if sums.is_empty() { sums } else { format!(" {{U_{sums}}}") };
        format!("{tensor}[{}]{sums}", dims.join(", "))
    }

    /// A product over the mesh, and the sizes of its dimensions: divisible among the ranks, or any if `any_size`.
    pub fn problem(&mut self, mesh: &Mesh, any_size: bool) -> (String, Vec<(&'static str, usize)>) {
        let [left, right, out] = SHAPES[self.below(SHAPES.len())];
        let contracts = left.iter().any(|name| !out.contains(name));
        let text = format!(
            "{} * {} -> {}",
            self.array(mesh, "A", left, false),
            self.array(mesh, "B", right, false),
            self.array(mesh, "C", out, contracts)
        );
        let mut names = [left, right].concat();
        names.sort_unstable();
        names.dedup();
        let size = |draw: &mut Self| match any_size {
            true => draw.below(2 * mesh.size() + 3),
            false => mesh.size() * (1 + draw.below(2)),
        };
        let sizes = names.into_iter().map(|name| (name, size(self))).collect();
        (text, sizes)
    }
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
pub fn machine(mesh: &Mesh) -> PlacedMesh {
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

/// A product with some of its sequences, and their programs.
pub struct Held {
    product: Product,
    sequences: Vec<(ProductSequence, Program)>,
}

/// The maximum number of sequences of a plan to run.
const SEQUENCES: usize = 6;

impl Held {
    /// Sequences of a product's plan, and of a search for its factors' shardings: the best, the worst, and some between.
    pub fn new(mesh: &Mesh, text: &str, sizes: &[(&str, usize)], dtype: DType) -> Result<Vec<Self>> {
        let product = Product::new(text, mesh, sizes, dtype)?;
        let whole = |array: &str| array.chars().filter(|c| !"_XYZ".contains(*c)).collect::<String>();
        let (factors, out) = text.split_once("->").expect("a product has an arrow");
        let free = Product::new(&format!("{}->{out}", whole(factors)), mesh, sizes, dtype)?;
        let mut held = Vec::new();
        for plan in [product.plan(&machine(mesh)), free.search(&machine(mesh), Free::Both)] {
            let plan = match plan {
                Ok(plan) => plan,
                // Few iterations cannot be divided over many ranks, nor can their sums be kept open.
                Err(ProductError::NoSequence { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let all = plan.sequences();
            let mut numbers: Vec<_> = (0..SEQUENCES).map(|nth| nth * (all.len() - 1) / (SEQUENCES - 1)).collect();
            numbers.dedup();
            let sequences = numbers.into_iter().map(|nth| Ok((all[nth].clone(), all[nth].program()?)));
            held.push(Self { product: plan.product().clone(), sequences: sequences.collect::<Result<_>>()? });
        }
        Ok(held)
    }
}

/// Runs sequences of a product, each twice.
pub fn hold<T: Element>(world: &World, Held { product, sequences }: &Held) -> Result<()> {
    let answer = Answer::new(product);
    sequences.iter().try_for_each(|(sequence, program)| run::<T>(world, product, sequence, program, &answer))
}

fn run<T: Element>(
    world: &World,
    product: &Product,
    sequence: &ProductSequence,
    program: &Program,
    answer: &Answer,
) -> Result<()> {
    let [left, right]: [&Sharding; 2] = {
        let inputs: Vec<_> = program.inputs().map(|array| &array.sharding).collect();
        inputs.try_into().expect("a product has two factors")
    };
    let out = &program.outputs().last().expect("a product has a result").sharding;
    let a = DistArray::from_fn(world, left, |index| number(value(3, index)))?;
    let b = DistArray::from_fn(world, right, |index| number(value(5, index)))?;
    let expected = DistArray::from_fn(world, &out.closed(), |index| number::<T>(answer.at(index)))?;
    let counted = |run: &mut dyn FnMut() -> polyshard_runtime::Result<()>| -> Result<()> {
        let before = world.bytes_received();
        run()?;
        let received = world.bytes_received() - before;
        let stated = sequence.total().bytes;
        assert!(received <= stated, "{received} bytes on rank {} of\n{product}\n{sequence}\n{program}", world.rank());
        assert!(received <= program.report().traffic_bytes, "{received} bytes by\n{}", program.explain());
        Ok(())
    };
    assert_eq!(out, product.out().sharding());
    let mut prepared = program.prepare::<T>(world)?;
    let check = |c: &DistArray<T>| -> Result<()> {
        let whole = c.redistribute(world, &out.closed())?;
        assert_eq!(whole.block(), expected.block(), "rank {}\n{product}\n{sequence}", world.rank());
        Ok(())
    };
    let mut terms = None;
    counted(&mut || {
        terms = Some(prepared.run(&[&a, &b])?);
        Ok(())
    })?;
    let mut terms = terms.expect("it has run");
    check(&terms)?;
    // The target of a run may hold anything before.
    terms.block_mut().fill(number(99));
    counted(&mut || prepared.run_into(&[&a, &b], &mut terms))?;
    check(&terms)?;
    let mut c = prepared.output()?;
    assert!(c.block().iter().all(|&x| x == T::ZERO), "an output is zeros");
    counted(&mut || prepared.run_into(&[&a, &b], &mut c))?;
    check(&c)
}

/// The product on one rank: all points of all loops, in sequence.
struct Answer {
    shape: Vec<usize>,
    values: Vec<i64>,
}

impl Answer {
    fn new(product: &Product) -> Self {
        let names = [product.left(), product.right(), product.out()].map(Sharded::names);
        let mut all = [names[0], names[1]].concat();
        all.sort_unstable();
        all.dedup();
        let sizes: Vec<(&str, usize)> = all.iter().map(|name| (name.as_str(), product.size(name))).collect();
        let shape: Vec<usize> = names[2].iter().map(|name| product.size(name)).collect();
        let mut values = vec![0; shape.iter().product()];
        let mut point = vec![0; sizes.len()];
        for mut nth in 0..sizes.iter().map(|(_, size)| size).product() {
            for (at, (_, size)) in point.iter_mut().zip(&sizes) {
                *at = nth % size;
                nth /= size;
            }
            let [a, b, c] = names.map(|names| -> Vec<usize> {
                let at = |name: &String| point[sizes.iter().position(|(other, _)| other == name).expect("a size")];
                names.iter().map(at).collect()
            });
            values[position(&shape, &c)] += value(3, &a) * value(5, &b);
        }
        Self { shape, values }
    }

    fn at(&self, index: &[usize]) -> i64 {
        self.values[position(&self.shape, index)]
    }
}

fn position(shape: &[usize], index: &[usize]) -> usize {
    shape.iter().zip(index).fold(0, |at, (extent, index)| at * extent + index)
}

/// Redistributes terms of open sums, drawn like the rest, to another sharding with some of the sums closed.
pub fn reshardings_hold<T: Element>(world: &World, mesh: &Mesh, draw: &mut Draw) -> Result<()> {
    let sizes = [("I", draw.below(2 * mesh.size() + 3)), ("K", 1 + draw.below(2 * mesh.size()))];
    let parse = |text: &str| Sharded::parse(text, mesh, &sizes);
    let from = parse(&draw.array(mesh, "C", &["I", "K"], true))?;
    let to = parse(&draw.array(mesh, "C", &["I", "K"], true))?;
    let Ok(program) = redistribution(from.sharding(), to.sharding(), T::DTYPE) else { return Ok(()) };
    let [source, target] =
        [program.inputs().last(), program.outputs().last()].map(|array| &array.expect("one").sharding);
    // Each term has its own weight, by its rank's position along the summed axes.
    let weight =
        |at: &[usize], axes: &[usize]| axes.iter().map(|&axis| (axis as i64 + 1) * at[axis] as i64).sum::<i64>();
    let own = mesh.coordinates(world.rank());
    let mine = weight(&own, from.unreduced()) + 1;
    // Every rank writes its own term.
    let mine = DistArray::from_fn(world, &source.closed(), |index| number::<T>(mine * value(7, index)))?;
    let mut terms = DistArray::filled(world, source, T::ZERO)?;
    terms.block_mut().copy_from_slice(mine.block());
    // Sums that remain open still have one term per rank along their axes.
    let closed: Vec<usize> = from.unreduced().iter().copied().filter(|axis| !to.unreduced().contains(axis)).collect();
    let summed: i64 = (0..mesh.size())
        .map(|rank| mesh.coordinates(rank))
        .filter(|at| (0..mesh.ndim()).all(|axis| closed.contains(&axis) || at[axis] == own[axis]))
        .map(|at| weight(&at, from.unreduced()) + 1)
        .sum();
    let expected = DistArray::from_fn(world, &target.closed(), |index| number::<T>(summed * value(7, index)))?;
    let mut prepared = program.prepare(world)?;
    for _ in 0..2 {
        let got = prepared.run(&[&terms])?;
        assert_eq!(target.partial(), to.unreduced());
        assert_eq!(got.block(), expected.block(), "rank {}: {from} to {to}", world.rank());
    }
    Ok(())
}

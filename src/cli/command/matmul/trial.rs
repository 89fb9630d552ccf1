//! The cheapest sequence of a product run on threads, and every element of its result compared.
//!
//! Elements are small whole numbers as floats of 8 bytes, so sums are exact in whatever order they are made and the
//! comparison is one of bits. What the plan counts in other types moves as many elements here, and more bytes.

use crate::cli::command::threads;
use crate::cli::values::element;
use crate::machine::units::{counted, scaled};
use crate::planner::product::{Product, ProductPlan, Sharded};
use crate::{DType, DistArray, Execute};
use serde::Serialize;
use std::fmt;

/// The most ranks: each is a thread.
const RANKS: usize = 64;
/// The most operations, which the comparison does one by one.
const FLOPS: f64 = 1e9;
/// Arrays are made from these, so that the factors differ.
const SEEDS: [u64; 2] = [1, 2];

/// What came of a run in which nothing was wrong.
#[derive(Serialize)]
pub(super) struct Trial {
    /// Tiles of the result that were compared.
    tiles: usize,
    /// Bytes that each rank got from others.
    received_bytes: Vec<u64>,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let received = threads::received(&self.received_bytes);
        write!(f, "ran on numbers of 8 bytes, checked {} of the product\n{received}\n", counted(self.tiles, "tile"))
    }
}

/// Runs the best sequence of `plan`, which is of the product `text`, on one thread per rank.
///
/// # Errors
/// If there are too many ranks or operations or too little memory, or an element of the result is wrong.
pub(super) fn run(text: &str, sizes: &[(&str, usize)], plan: &ProductPlan) -> Result<Trial, String> {
    let (mesh, planned) = (plan.product().mesh(), plan.product());
    threads::check_ranks("the mesh", mesh.size(), RANKS)?;
    if planned.flops() > FLOPS {
        return Err(format!(
            "`--run` checks {} one by one, but the product has {}; run a smaller one",
            scaled(FLOPS, "FLOP"),
            scaled(planned.flops(), "FLOP")
        ));
    }
    let product = Product::new(text, mesh, sizes, DType::F64).map_err(|why| why.to_string())?;
    let arrays = [product.left(), product.right(), product.out()];
    let whole: u128 = arrays.iter().map(|array| elements(array) as u128).sum();
    let tiles = plan.best().total().memory / planned.dtype().size() as u128 * mesh.size() as u128;
    threads::check_memory("all arrays and the tiles of all ranks", (whole + tiles) * size_of::<f64>() as u128)?;
    let program = plan.best().program(&product, &[]).map_err(|why| why.to_string())?;
    let answer = sequential(&product);
    let found = crate::spmd(mesh.size(), |world| {
        let factors = program.inputs().zip(SEEDS);
        let factors =
            factors.map(|(array, seed)| DistArray::from_fn(world, &array.sharding, |index| number(seed, index)));
        let factors = factors.collect::<Result<Vec<_>, _>>()?;
        let mut prepared = program.prepare(world)?;
        let before = world.bytes_received();
        let terms = prepared.run(&factors.iter().collect::<Vec<_>>())?;
        let received = world.bytes_received() - before;
        // What is left open is closed, to be compared.
        let whole = terms.redistribute(world, &terms.sharding().closed())?;
        let out = product.out().dist_type();
        let expected = |index: &[usize]| answer[position(index, &out.shape())];
        Ok((threads::wrong(whole.block(), out, world.rank(), expected), received))
    });
    let found = found.map_err(|error| error.to_string())?;
    if let Some((rank, wrong)) = found.iter().enumerate().find_map(|(rank, (wrong, _))| Some((rank, wrong.as_ref()?))) {
        return Err(format!("the product on rank {rank} is wrong: {wrong}; this is a bug of polyshard"));
    }
    Ok(Trial { tiles: found.len(), received_bytes: found.into_iter().map(|(_, received)| received).collect() })
}

/// A whole number from -9 to 9.
fn number(seed: u64, index: &[usize]) -> f64 {
    element::<i64>(seed, index) as f64
}

fn elements(array: &Sharded) -> usize {
    array.dist_type().shape().iter().product()
}

fn position(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |number, (&at, &extent)| number * extent + at)
}

/// The product of the whole arrays, row-major.
fn sequential(product: &Product) -> Vec<f64> {
    let arrays = [product.left(), product.right(), product.out()];
    let mut loops: Vec<&String> = Vec::new();
    for name in product.left().names().iter().chain(product.right().names()) {
        if !loops.contains(&name) {
            loops.push(name);
        }
    }
    let factor = |array: &Sharded, seed: u64| -> Vec<f64> {
        let shape = array.dist_type().shape();
        let index = |mut number: usize| {
            let mut index = vec![0; shape.len()];
            for (at, extent) in index.iter_mut().zip(&shape).rev() {
                *at = number % extent;
                number /= extent;
            }
            index
        };
        (0..elements(array)).map(|at| number(seed, &index(at))).collect()
    };
    let (left, right) = (factor(arrays[0], SEEDS[0]), factor(arrays[1], SEEDS[1]));
    let mut out = vec![0.0; elements(arrays[2])];
    // How far a step of each loop leads in each array.
    let stride = |array: &Sharded, name: &String| {
        let at = array.names().iter().position(|other| other == name)?;
        Some(array.dist_type().shape()[at + 1..].iter().product::<usize>())
    };
    let nest: Vec<(usize, [usize; 3])> =
        loops.iter().map(|name| (product.size(name), arrays.map(|array| stride(array, name).unwrap_or(0)))).collect();
    walk(&nest, [0; 3], &mut |[a, b, c]| out[c] += left[a] * right[b]);
    out
}

/// Calls `visit` with the three positions of each point of a nest of loops.
fn walk(nest: &[(usize, [usize; 3])], at: [usize; 3], visit: &mut impl FnMut([usize; 3])) {
    let [(extent, strides), inner @ ..] = nest else { return visit(at) };
    for step in 0..*extent {
        walk(inner, [0, 1, 2].map(|array| at[array] + step * strides[array]), visit);
    }
}

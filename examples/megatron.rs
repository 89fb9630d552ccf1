//! A two-layer perceptron, forward and backward, data-parallel along one axis of the mesh and tensor-parallel along the
//! other: Y = relu(X·W1)·W2, and the gradients of W1, W2 and X.
//!
//! W1 is cut by columns and W2 by rows, so that nothing moves between the layers and each direction needs one sum along
//! the tensor axis; gradients of the weights stay partial sums along the data axis until an all-reduce at the end. M.
//! Shoeybi et al., "Megatron-LM: Training multi-billion parameter language models using model parallelism", arXiv
//! 1909.08053, section 3. None of these transfers is written here: the planner derives them from the shardings.
//!
//! ```text
//! cargo run --release --example megatron -- --mesh 2x4 --explain
//! mpirun -n 6 target/release/examples/megatron --mesh 2x3 --size 30,50,70
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::machine::units::counted;
use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
use polyshard::planner::{Sharded, redistribution};
use polyshard::prelude::*;
use polyshard::search::product::{Product, ProductError, ProductPlan};
use std::error::Error;
use std::time::Instant;

/// Forward, then backward: rows of the batch are cut along `d`, hidden units along `t`. Gradients of the weights stay
/// partial sums along `d`. A transposed product is written with its dimensions in another order.
const PRODUCTS: [&str; 6] = [
    "X[B_d, M] * W1[M, F_t] -> Z[B_d, F_t]",
    "H[B_d, F_t] * W2[F_t, M] -> Y[B_d, M]",
    "H[B_d, F_t] * dY[B_d, M] -> dW2[F_t, M] {U_d}",
    "dY[B_d, M] * W2[F_t, M] -> dH[B_d, F_t]",
    "X[B_d, M] * dZ[B_d, F_t] -> dW1[M, F_t] {U_d}",
    "dZ[B_d, F_t] * W1[M, F_t] -> dX[B_d, M]",
];

/// The final shardings of the gradients of W2 and W1, and the products that compute them.
const CLOSED: [(&str, usize); 2] = [("dW2[F_t, M]", 2), ("dW1[M, F_t]", 4)];

/// Y = relu(X·W1)·W2 and the gradients of W1, W2 and X, by data (d) and tensor (t) parallelism.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release --example megatron -- --mesh d=2,t=4 --explain
  mpirun -n 6 target/release/examples/megatron --mesh 2x3 --size 30,50,70")]
struct Args {
    /// Ranks along the data axis and the tensor axis, as 2x4 [default: 2x2; under an MPI launcher, as many as it started].
    #[arg(long, value_parser = |text: &str| Mesh::parse(text, ["d", "t"]))]
    mesh: Option<Mesh>,
    /// Rows of X, columns of X and Y, and columns of W1; the mesh need not divide them.
    #[arg(long, value_name = "BATCH,MODEL,HIDDEN", value_delimiter = ',', default_value = "64,256,1024")]
    size: Vec<usize>,
    /// Print all sequences of each product's plan with their costs, instead of running.
    #[arg(long)]
    explain: bool,
}

fn main() {
    let args = Args::try_parse().unwrap_or_else(|said| polyshard::exit(said.exit_code(), said));
    run(&args).unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {error}")));
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let &[batch, model, hidden] = &args.size[..] else {
        return Err("`--size` takes batch, model and hidden, such as 64,256,1024".into());
    };
    let sizes = [("B", batch), ("M", model), ("F", hidden)];
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["d", "t"], launched_ranks().unwrap_or(4)));
    let [data, tensor] = mesh.axes().map(|axis| axis.extent);
    // Nodes of A100s: the data axis is across nodes, the tensor axis inside them.
    let nodes = Machine::preset("a100")?.with_counts(&[data, tensor])?;
    let matrix = ParallelismMatrix::new(vec![vec![data, 1], vec![1, tensor]])?;
    let placed = PlacedMesh::new(&mesh, &nodes, &matrix)?;
    let plan = |text: &&str| Product::new(text, &mesh, &sizes, DType::F32)?.plan(&placed);
    let plans = PRODUCTS.iter().map(plan).collect::<Result<Vec<ProductPlan>, ProductError>>()?;
    let closings = CLOSED.iter().map(|&(text, product)| -> Result<(String, Program), Box<dyn Error>> {
        let (open, closed) = (plans[product].product().out(), Sharded::parse(text, &mesh, &sizes)?);
        let program = redistribution(open.sharding(), closed.sharding(), DType::F32)?;
        let patterns: Vec<_> = program.moves().map(|moved| moved.pattern.to_string()).collect();
        Ok((format!("{} {open} -> {closed}", patterns.join(", ")), program))
    });
    let closings = closings.collect::<Result<Vec<_>, _>>()?;
    if args.explain {
        let plans = plans.iter().map(|plan| plan.explain() + "\n");
        let closings = closings
            .iter()
            .map(|(step, program)| format!("{step}: {}\n", counted(program.report().traffic_bytes, "byte")));
        polyshard::exit(0, plans.chain(closings).collect::<String>());
    }
    let products = plans.iter().map(|plan| plan.best().program()).collect::<Result<Vec<_>, _>>()?;

    polyshard::spmd(mesh.size(), |world| {
        if world.is_root() {
            for plan in &plans {
                println!("{}", plan.best().steps().iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
            }
            closings.iter().for_each(|(step, _)| println!("{step}"));
        }
        let input = |product: usize, nth: usize, seed| {
            let factor = products[product].inputs().nth(nth).expect("a product has two factors");
            DistArray::from_fn(world, &factor.sharding, |index| f32::random(seed, index))
        };
        let (x, w1, w2) = (input(0, 0, 1)?, input(0, 1, 2)?, input(1, 1, 3)?);
        // The loss is half the squared distance of Y from a target, so the gradient of Y is their difference.
        let target = input(3, 0, 4)?;
        let start = Instant::now();
        let z = products[0].run(world, &[&x, &w1])?;
        let h = each(&z, &z, |z, _| z.max(0.0));
        let y = products[1].run(world, &[&h, &w2])?;
        let dy = each(&y, &target, |y, target| y - target);
        let dw2 = products[2].run(world, &[&h, &dy])?;
        let dh = products[3].run(world, &[&dy, &w2])?;
        let dz = each(&dh, &z, |dh, z| if z > 0.0 { dh } else { 0.0 });
        let dw1 = products[4].run(world, &[&x, &dz])?;
        let dx = products[5].run(world, &[&dz, &w1])?;
        let (dw2, dw1) = (closings[0].1.run(world, &[&dw2])?, closings[1].1.run(world, &[&dw1])?);
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        if world.is_root() {
            let planned: u64 = plans.iter().map(|plan| plan.best().total().bytes).sum();
            let planned = planned + closings.iter().map(|(_, program)| program.report().traffic_bytes).sum::<u64>();
            println!("{seconds:.6} s, {received} bytes received by rank 0; planned for the busiest ranks: {planned}");
        }
        // Each product is checked against its computed operands, so that its error is that of one product.
        let operands =
            [(&x, &w1, &z), (&h, &w2, &y), (&h, &dy, &dw2), (&dy, &w2, &dh), (&x, &dz, &dw1), (&dz, &w1, &dx)];
        for ((product, text), (left, right, found)) in products.iter().zip(PRODUCTS).zip(operands) {
            let error = product.verify(world, &[left, right], &[found], 1e-4)?;
            if world.is_root() {
                println!("{text}: largest error against the sequential reference: {error:e}");
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Returns `f` of two arrays' elements; both have the same sharding.
fn each(left: &DistArray<f32>, right: &DistArray<f32>, f: impl Fn(f32, f32) -> f32) -> DistArray<f32> {
    let mut out = left.clone();
    out.block_mut().iter_mut().zip(right.block()).for_each(|(left, &right)| *left = f(*left, right));
    out
}

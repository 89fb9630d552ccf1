//! A two-layer perceptron, forward and backward, data-parallel along one axis of the mesh and tensor-parallel along the
//! other: Y = relu(X·W1)·W2, and the gradients of W1, W2 and X.
//!
//! W1 is cut by columns and W2 by rows, so that nothing moves between the layers and each direction needs one sum along
//! the tensor axis; gradients of the weights stay partial sums along the data axis until an all-reduce at the end. M.
//! Shoeybi et al., "Megatron-LM: Training multi-billion parameter language models using model parallelism", arXiv
//! 1909.08053, section 3. None of these transfers is written here: the search derives them from the shardings.
//!
//! ```text
//! cargo run --release --example megatron -- --mesh 2x4 --explain
//! mpirun -n 6 target/release/examples/megatron --mesh 2x3 --size 30,50,70
//! ```

use clap::Parser;
use polyshard::launched_ranks;
use polyshard::layout::Name;
use polyshard::machine::units::counted;
use polyshard::planner::redistribution;
use polyshard::prelude::*;
use polyshard::schedule::Clause;
use std::error::Error;
use std::time::Instant;

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
    /// Print the schedule of each product with its cost, instead of running.
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
    let mesh = args.mesh.clone().unwrap_or_else(|| Mesh::balanced(["d", "t"], launched_ranks().unwrap_or(4)));
    let [data, tensor] = mesh.axes();
    // Nodes of A100s: the data axis is across nodes, the tensor axis inside them.
    let nodes = Machine::preset("a100")?.with_counts(&[data.extent, tensor.extent])?;
    let choose = |kernel: Schedule| {
        let search = kernel.auto(mesh.size(), &nodes).on(&mesh).without_panels();
        let tensors = kernel.kernel()?.tensors().map(|tensor| tensor.name);
        let placed = tensors.fold(search, |search, name| search.shard(name, placement(name, data, tensor)));
        placed.find().map_err(Box::<dyn Error>::from)
    };
    let choices = products(batch, model, hidden).into_iter().map(choose).collect::<Result<Vec<_>, _>>()?;
    let products: Vec<&Program> = choices.iter().map(|choice| choice.program()).collect();
    // The sums of the gradients of W2 and W1, which the products leave open.
    let close = |product: usize| -> Result<Program, Box<dyn Error>> {
        let open = &products[product].outputs().last().expect("a product has a result").sharding;
        Ok(redistribution(open, &open.closed(), DType::F32)?)
    };
    let (close_w2, close_w1) = (close(2)?, close(4)?);
    if args.explain {
        let choices = choices.iter().zip(&products).map(|(choice, program)| {
            format!("{}\n{}{}\n", program.kernel().statement(), choice.chain(), choice.cost())
        });
        let closings = [("dW2", &close_w2), ("dW1", &close_w1)].map(|(name, program)| {
            let patterns: Vec<_> = program.moves().map(|moved| moved.pattern().to_string()).collect();
            format!("{} {name}: {}\n", patterns.join(", "), counted(program.report().traffic_bytes, "byte"))
        });
        polyshard::exit(0, choices.chain(closings).collect::<String>());
    }

    polyshard::spmd(mesh.size(), |world| {
        if world.is_root() {
            products.iter().for_each(|program| println!("{}: {}", program.kernel().statement(), moved(program)));
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
        let (dw2, dw1) = (close_w2.run(world, &[&dw2])?, close_w1.run(world, &[&dw1])?);
        let (seconds, received) = (start.elapsed().as_secs_f64(), world.bytes_received());
        if world.is_root() {
            let planned: u64 = choices.iter().map(|choice| choice.cost().received).sum();
            let planned = planned + close_w2.report().traffic_bytes + close_w1.report().traffic_bytes;
            println!("{seconds:.6} s, {received} bytes received by rank 0; planned for the busiest ranks: {planned}");
        }
        // Each product is checked against its computed operands, so that its error is that of one product.
        let operands =
            [(&x, &w1, &z), (&h, &w2, &y), (&h, &dy, &dw2), (&dy, &w2, &dh), (&x, &dz, &dw1), (&dz, &w1, &dx)];
        for (product, (left, right, found)) in products.iter().zip(operands) {
            let error = product.verify(world, &[left, right], &[found], 1e-4)?;
            if world.is_root() {
                let statement = product.kernel().statement();
                println!("{statement}: largest error against the sequential reference: {error:e}");
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// The products, forward and then backward, over batch, model and hidden units.
fn products(batch: usize, model: usize, hidden: usize) -> [Schedule; 6] {
    [
        kernel! {
            fn z(X: [f32; batch, model], W1: [f32; model, hidden]) -> Z: [f32; batch, hidden] {
                Z[b, f] += X[b, m] * W1[m, f]
            }
        },
        kernel! {
            fn y(H: [f32; batch, hidden], W2: [f32; hidden, model]) -> Y: [f32; batch, model] {
                Y[b, m] += H[b, f] * W2[f, m]
            }
        },
        kernel! {
            fn dw2(H: [f32; batch, hidden], dY: [f32; batch, model]) -> dW2: [f32; hidden, model] {
                dW2[f, m] += H[b, f] * dY[b, m]
            }
        },
        kernel! {
            fn dh(dY: [f32; batch, model], W2: [f32; hidden, model]) -> dH: [f32; batch, hidden] {
                dH[b, f] += dY[b, m] * W2[f, m]
            }
        },
        kernel! {
            fn dw1(X: [f32; batch, model], dZ: [f32; batch, hidden]) -> dW1: [f32; model, hidden] {
                dW1[m, f] += X[b, m] * dZ[b, f]
            }
        },
        kernel! {
            fn dx(dZ: [f32; batch, hidden], W1: [f32; model, hidden]) -> dX: [f32; batch, model] {
                dX[b, m] += dZ[b, f] * W1[m, f]
            }
        },
    ]
}

/// Where an array lies: the batch along the data axis, hidden units along the tensor axis. Gradients of the weights stay terms of
/// sums along the data axis.
fn placement(name: Name, data: Axis, tensor: Axis) -> Vec<Clause> {
    vars!(b, f);
    match name.as_str() {
        "X" | "Y" | "dX" | "dY" => vec![b.at(data)],
        "W1" | "W2" => vec![f.at(tensor)],
        "dW1" | "dW2" if data.extent > 1 => vec![f.at(tensor), partial(data.name)],
        "dW1" | "dW2" => vec![f.at(tensor)],
        _ => vec![b.at(data), f.at(tensor)],
    }
}

/// What a product moves, and how.
fn moved(program: &Program) -> String {
    let tensors = program.kernel().tensors();
    let pattern = |name: Name| program.pattern(name.as_str()).filter(|pattern| *pattern != Pattern::Local);
    let moved = tensors.filter_map(|tensor| Some(format!("{} {}", pattern(tensor.name)?, tensor.name)));
    let moved: Vec<_> = moved.collect();
    if moved.is_empty() { "nothing moves".to_owned() } else { moved.join(", ") }
}

/// Returns `f` of two arrays' elements; both have the same sharding.
fn each(left: &DistArray<f32>, right: &DistArray<f32>, f: impl Fn(f32, f32) -> f32) -> DistArray<f32> {
    let mut out = left.clone();
    out.block_mut().iter_mut().zip(right.block()).for_each(|(left, &right)| *left = f(*left, right));
    out
}

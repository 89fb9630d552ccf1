//! The functions that read inputs: each target maps bytes to an answer, or to the message of a refusal.
//!
//! Targets of the command line take one argument per line and run up to the text that would be printed. Options that
//! start ranks, or read or write other files, are left out.

use clap::{Args, Command, FromArgMatches};
use polyshard::layout::{DType, Mesh, Name, Sharding};
use polyshard::leaf;
use polyshard::machine::Machine;
use polyshard::ndarray::{ArrayViewD, ArrayViewMutD};
use polyshard::planner::DistType;
use polyshard::program::{ArrayKind, KernelSpec, Number, Program};
use polyshard::runtime::{DistArray, Element, Execute, NpyFile, Transport};
use polyshard::schedule::{Schedule, Trace};
use polyshard::search::Choose;
use polyshard::source::{SourceOptions, rust_source};
use polyshard::text::{Definitions, Given, Operand, einsum, parse_kernel};
use polyshard_cli::command::machine::show;
use polyshard_cli::command::{matmul, mesh, placement, redistribute, reduce};
use polyshard_cli::error::CliError;
use polyshard_cli::notation::NamedArray;
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::Once;

/// A function that reads inputs.
pub(crate) struct Target {
    /// Its name on the command line, and the name of its folders.
    pub(crate) name: &'static str,
    /// Maximum length of an input in bytes.
    pub(crate) longest: usize,
    /// Reads an input; files are written to the folder. Refusals are `Err`.
    pub(crate) read: fn(&[u8], &Path) -> Result<String, String>,
}

/// All targets.
pub(crate) const TARGETS: [Target; 10] = [
    Target { name: "npy", longest: 1024, read: read_npy },
    Target { name: "machines", longest: 4096, read: read_machine },
    Target { name: "traces", longest: 16384, read: read_trace },
    Target { name: "types", longest: 512, read: read_types },
    Target { name: "products", longest: 512, read: read_product },
    Target { name: "reductions", longest: 512, read: read_reduction },
    Target { name: "meshes", longest: 256, read: read_mesh },
    Target { name: "einsums", longest: 512, read: read_einsum },
    Target { name: "kernels", longest: 4096, read: read_kernels },
    Target { name: "programs", longest: 65536, read: read_program },
];

/// A `.npy` file, as the command line compares it and as a distributed array is read from it.
fn read_npy(input: &[u8], scratch: &Path) -> Result<String, String> {
    let path = scratch.join("input.npy");
    fs::write(&path, input).map_err(|why| why.to_string())?;
    let file = NpyFile::open(&path).map_err(|why| why.to_string())?;
    let shape = file.shape().to_vec();
    polyshard_cli::with_type!(file.dtype(), T => {
        let whole = file.read::<T>().map(|array| array.len());
        // Call the other reader, whatever the result of this one.
        let distributed = distributed::<T>(&path, &shape)?;
        whole.map(|len| format!("{len} {distributed}")).map_err(|why| why.to_string())
    })
}

fn distributed<T: Element>(path: &Path, shape: &[usize]) -> Result<usize, String> {
    let sharding = Sharding::new(&Mesh::new([("x", 1)]), shape, &[]).map_err(|why| why.to_string())?;
    let read = polyshard::spmd(1, |world| -> polyshard::Result<usize> {
        Ok(DistArray::<T>::read_npy(world, path, &sharding)?.block().len())
    });
    read.map(|blocks| blocks.into_iter().sum()).map_err(|why| why.to_string())
}

/// A machine as TOML.
fn read_machine(input: &[u8], _: &Path) -> Result<String, String> {
    let machine = Machine::from_toml(&text(input)).map_err(|why| why.to_string())?;
    let again = Machine::from_toml(&machine.to_toml()).map_err(|why| why.to_string());
    assert_eq!(again.as_ref(), Ok(&machine), "a machine that was written is read as another");
    Ok(show::list(std::slice::from_ref(&machine)) + &show::machine(&machine))
}

/// A schedule as JSON, as `polyshard show` reads and prints it.
fn read_trace(input: &[u8], _: &Path) -> Result<String, String> {
    let trace: Trace = serde_json::from_str(&text(input)).map_err(|why| why.to_string())?;
    let shown = trace.to_string();
    let program = trace.replay().lower().map_err(|why| why.to_string())?;
    Ok(shown + &program.to_string() + &program.explain() + &rust_source(&program, &SourceOptions::default()))
}

/// The arguments of `polyshard redistribute`; the first line is also read as a type alone.
fn read_types(input: &[u8], _: &Path) -> Result<String, String> {
    thread_local!(static COMMAND: RefCell<Command> = RefCell::new(command::<redistribute::Arguments>()));
    let text = text(input);
    let mesh = Mesh::new([("x", 4), ("y", 6), ("X", 8)]);
    for line in text.lines().take(2) {
        if let Ok(read) = DistType::parse(line, &mesh) {
            assert_eq!(DistType::parse(&read.to_string(), &mesh).as_ref(), Ok(&read), "it reads as another type");
        }
        let sizes = [("I", 48), ("J", 96), ("K", 0)];
        if let Ok(read) = NamedArray::parse(line, &mesh, &sizes) {
            assert_eq!(
                NamedArray::parse(&read.to_string(), &mesh, &sizes).as_ref(),
                Ok(&read),
                "it reads as another array"
            );
        }
    }
    said(redistribute::redistribute(&arguments(&COMMAND, &text)?))
}

/// The arguments of `polyshard matmul`.
fn read_product(input: &[u8], _: &Path) -> Result<String, String> {
    thread_local!(static COMMAND: RefCell<Command> = RefCell::new(command::<matmul::Arguments>()));
    said(matmul::matmul(&arguments(&COMMAND, &text(input))?))
}

/// The arguments of `polyshard reduce`.
fn read_reduction(input: &[u8], _: &Path) -> Result<String, String> {
    thread_local!(static COMMAND: RefCell<Command> = RefCell::new(command::<reduce::Arguments>()));
    said(reduce::reduce(&arguments(&COMMAND, &text(input))?))
}

/// A mesh, its matrix, and the arguments of `polyshard placement`.
fn read_mesh(input: &[u8], _: &Path) -> Result<String, String> {
    thread_local!(static COMMAND: RefCell<Command> = RefCell::new(command::<placement::Arguments>()));
    let text = text(input);
    if text.starts_with('-') {
        return said(placement::placement(&arguments(&COMMAND, &text)?));
    }
    if text.trim_start().starts_with('[') {
        return said(
            mesh::matrix(&text).map(|matrix| format!("{matrix} {:?} {:?}", matrix.axes(), matrix.hierarchy())),
        );
    }
    if !text.contains(['=', 'x']) {
        return said(mesh::numbers("axes", &text, "4,6").map(|numbers| format!("{numbers:?}")));
    }
    said(mesh::named_mesh(&text, ["x", "y", "z"]).map(|mesh| {
        assert_eq!(mesh.rank(&mesh.coordinates(mesh.size() - 1)), mesh.size() - 1);
        mesh.to_string()
    }))
}

/// An einsum on the first line, and the extents of one operand on each following line; a schedule is chosen if that is
/// cheap.
fn read_einsum(input: &[u8], _: &Path) -> Result<String, String> {
    let text = text(input);
    let mut lines = text.lines();
    let einsum_text = lines.next().unwrap_or("");
    let extents = |line: &str| line.split_whitespace().map(|word| word.parse().map_err(|_| line.to_owned())).collect();
    let shapes: Vec<Vec<usize>> = lines.map(extents).collect::<Result<_, String>>()?;
    let sources: Vec<String> = (0..shapes.len()).map(|nth| format!("{nth}.npy")).collect();
    let operands: Vec<_> = sources.iter().zip(&shapes).map(|(source, shape)| Operand { source, shape }).collect();
    let spec = einsum(einsum_text, &operands, DType::F64, "C").map_err(|why| why.to_string())?;
    let kernel = spec.check().map_err(|why| why.to_string())?;
    for ranks in [1, 6, 1000] {
        let bound = kernel.lower_bound(ranks, Some(1000)).words;
        assert!(bound >= 0.0 && bound.is_finite(), "{kernel} on {ranks} ranks: a bound of {bound} words");
    }
    let said = kernel.to_string();
    let small = kernel.vars().len() <= 4 && kernel.vars().iter().all(|var| var.extent <= 12);
    if !small {
        return Ok(said);
    }
    let machine =
        Machine::preset("a100").and_then(|machine| machine.with_counts(&[2, 1])).map_err(|why| why.to_string())?;
    let choice = Schedule::new(kernel).auto(2, &machine).find().map_err(|why| why.to_string())?;
    assert!(choice.gap() == 0.0 && choice.best().ranks() <= 2);
    Ok(said + &choice.chain() + &choice.cost().to_string() + &choice.program().explain())
}

/// A file of kernels with small extents; each is lowered by its schedule, or on one rank.
fn read_kernels(input: &[u8], _: &Path) -> Result<String, String> {
    let names = "m k n h rows columns rank d0 d1 d2 r0 r1 r2 heads s d e a c alpha scale eps steps rounds restarts tolerance causal";
    let values: Vec<_> = names.split(' ').zip(2..).map(|(name, value)| (Name::new(name), Number::Int(value))).collect();
    let given = Given { arrays: None, values: &values, dtype: Some(DType::F64) };
    let file = Definitions::parse(&text(input)).map_err(|why| why.to_string())?;
    let (stages, rounds) =
        file.bind(&given).and_then(|stages| Ok((stages, file.rounds(&given)?))).map_err(|why| why.to_string())?;
    let mut said: String = rounds.iter().map(ToString::to_string).collect();
    for stage in stages {
        let kernel = stage.kernel.clone().check().map_err(|why| why.to_string())?;
        // The printed text is read as the same kernel, except for scalars, which a text does not capture, for next versions of what a
        // statement of a block reads, which have a prime, and for records, which have no notation.
        if kernel.output().name.is_identifier() && kernel.record_index().is_none() {
            let again = parse_kernel(&kernel.definition()).map(KernelSpec::check);
            assert_eq!(again, Ok(Ok(kernel)), "a kernel that is printed is read as another");
        }
        said += &Schedule::from(&stage).lower().map_err(|why| why.to_string())?.to_string();
    }
    Ok(said)
}

/// A program as JSON; a valid one is printed, explained, emitted and, if that is cheap, run.
fn read_program(input: &[u8], _: &Path) -> Result<String, String> {
    static LEAVES: Once = Once::new();
    LEAVES.call_once(|| register_leaf().expect("the leaf of a seed"));
    let program: Program = serde_json::from_str(&text(input)).map_err(|why| why.to_string())?;
    let said = program.to_string() + &program.explain() + &rust_source(&program, &SourceOptions::default());
    let runs =
        if takes_little(&program) { polyshard_cli::with_type!(program.dtype(), T => run::<T>(&program)?) } else { 0 };
    Ok(format!("{said}\n{runs} outputs"))
}

/// The leaf that one of the seeds calls.
fn register_leaf() -> Result<(), Box<dyn std::error::Error>> {
    let text = "fn weighted(factor: [i32;], A: [i32; 4, 5], B: [i32; 4, 3], d: [i32; 3]) -> C: [i32; 5, 3] {
        C[i, j] += factor[] * A[k, i] * B[k, j] * d[j]
    }";
    fn weighted(mut c: ArrayViewMutD<'_, i32>, [factor, a, b, d]: [ArrayViewD<'_, i32>; 4]) {
        for (at, c) in c.indexed_iter_mut() {
            let terms = (0..a.shape()[0]).map(|k| a[[k, at[0]]].wrapping_mul(b[[k, at[1]]]));
            let sum = terms.fold(0, i32::wrapping_add);
            *c = c.wrapping_add(factor[[]].wrapping_mul(sum).wrapping_mul(d[[at[1]]]));
        }
    }
    leaf::register("weighted", &parse_kernel(text)?.check()?, weighted)?;
    Ok(())
}

/// Whether a program runs quickly, with threads as ranks.
fn takes_little(program: &Program) -> bool {
    const RANKS: usize = 8;
    const MOST: u64 = 1 << 16;
    let report = program.report();
    let bytes = report.shard_bytes.saturating_add(report.tile_bytes).saturating_add(report.traffic_bytes);
    let iterations = program.nests().zip(program.runs()).map(|(nest, runs)| nest.iterations().saturating_mul(runs));
    // Rounds take time even without a nest.
    let rounds = program.body().rounds.iter().fold(1u64, |all, rounds| all.saturating_mul(rounds.times.max(1)));
    program.mesh().size() <= RANKS && bytes <= MOST && rounds <= MOST && iterations.max().unwrap_or(0) <= MOST
}

/// Runs a program in place and by messages, twice each, and panics if the outputs differ.
fn run<T: Element>(program: &Program) -> Result<usize, String> {
    let outputs = polyshard::spmd(program.mesh().size(), |world| {
        let of = |id| DistArray::from_fn(world, &program.array(id).sharding, |index| T::random(1, index));
        let inputs = program.of_kind(ArrayKind::Input).into_iter().map(of).collect::<Result<Vec<DistArray<T>>, _>>()?;
        let inputs: Vec<_> = inputs.iter().collect();
        let mut runs = Vec::new();
        for transport in [Transport::Auto, Transport::Messages] {
            let mut prepared = program.prepare(world)?.with_transport(transport);
            for _ in 0..2 {
                runs.push(prepared.run_all(&inputs)?);
            }
        }
        let bits = |(_, output): &(Name, DistArray<T>)| bytemuck::cast_slice::<T, u8>(output.block()).to_vec();
        let runs: Vec<Vec<_>> = runs.iter().map(|outputs| outputs.iter().map(bits).collect()).collect();
        assert!(runs.iter().all(|run| *run == runs[0]), "in place, by messages and again are not the same bits");
        polyshard::Result::Ok(runs[0].len())
    });
    outputs.map(|outputs| outputs[0]).map_err(|why| why.to_string())
}

fn said(answer: Result<String, CliError>) -> Result<String, String> {
    answer.map_err(|why| why.to_string())
}

fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

fn command<A: Args>() -> Command {
    A::augment_args(Command::new("polyshard").no_binary_name(true))
}

fn arguments<A: FromArgMatches>(
    command: &'static std::thread::LocalKey<RefCell<Command>>,
    text: &str,
) -> Result<A, String> {
    if text.lines().any(|word| ["--run", "--draw", "--batch"].iter().any(|flag| word.starts_with(flag))) {
        return Err("it would start ranks or write files".into());
    }
    let matches = command.with_borrow_mut(|command| command.try_get_matches_from_mut(text.lines()));
    A::from_arg_matches(&matches.map_err(|why| why.to_string())?).map_err(|why| why.to_string())
}

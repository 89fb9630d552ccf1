//! The command line of an example: what it says, and what follows from what it leaves out.

use super::axes::Axes;
use super::dtypes::dtype_parser;
use super::launch::Stop;
use super::npy;
use super::numbers::whole;
use super::operand::Operand;
use super::run::Measuring;
use super::size::parse_extents;
use super::{Algorithm, Size};
use clap::{Args, CommandFactory, FromArgMatches, Parser, ValueEnum};
use polyshard::{DType, Mesh};
use std::path::{Path, PathBuf};

// The text of `--help` begins with the documentation of the algorithm's type.
#[derive(Parser)]
pub(crate) struct Options<A: Args> {
    /// The mesh, as 8x8 or with names of its axes, as x=8,y=8 [default: 4 ranks; under an MPI launcher, as many as it
    /// started].
    #[arg(long, value_name = "MESH")]
    mesh: Option<Axes>,
    /// Extents m,k,n of the product [default: that of the files, or the algorithm's].
    #[arg(long, value_parser = parse_size, value_name = "M,K,N", allow_hyphen_values = true)]
    size: Option<Size>,
    /// The element type [default: that of the files, or f32].
    #[arg(long = "type", value_parser = dtype_parser(), value_name = "TYPE")]
    dtype: Option<DType>,
    /// The `.npy` file that holds A; each rank reads its own part.
    #[arg(long, value_name = "FILE")]
    a: Option<PathBuf>,
    /// The `.npy` file that holds B; each rank reads its own part.
    #[arg(long, value_name = "FILE")]
    b: Option<PathBuf>,
    /// The `.npy` file to write C to.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Makes up what is in no file: A as `polyshard random` does with this seed, B with the next.
    #[arg(long, value_parser = whole::<u64>, default_value = "1", allow_negative_numbers = true)]
    seed: u64,
    /// Print this instead of running.
    #[arg(long, value_enum)]
    pub(crate) print: Option<Print>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) algorithm: A,
}

/// What to print instead of running.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Print {
    /// The program as a page of pseudo-code.
    Program,
    /// The program as Rust source.
    Source,
    /// Why each transfer has its pattern.
    Explain,
    /// The schedule as JSON, for `polyshard show`.
    Trace,
}

/// Reads the command line.
pub(crate) fn parse<A: Algorithm>() -> Result<Options<A>, Stop> {
    let matches = Options::<A>::command().name(A::NAME).try_get_matches()?;
    Ok(Options::from_arg_matches(&matches)?)
}

impl<A: Algorithm> Options<A> {
    /// Returns the element type: as asked for, which must be that of the files.
    pub(crate) fn dtype(&self) -> Result<DType, String> {
        let mut known = self.dtype.map(|dtype| (dtype, "`--type`".to_owned()));
        for (path, name) in self.files() {
            let (dtype, _) = npy::header(path)?;
            match &known {
                Some((other, at)) if *other != dtype => {
                    let type_too = if at == "`--type`" { format!(", or give `--type {dtype}`") } else { String::new() };
                    return Err(format!(
                        "{name} holds {dtype}, but {at} says {other}; they must agree: convert {name} with NumPy's \
                         `.astype('{}')`{type_too}",
                        numpy(*other)
                    ));
                }
                _ => known = Some((dtype, name)),
            }
        }
        Ok(known.map_or(DType::F32, |known| known.0))
    }

    /// Returns the mesh: as asked for, or as square as the number of ranks allows.
    pub(crate) fn mesh(&self) -> Result<Mesh, String> {
        super::mesh::mesh(A::NAME, self.mesh.as_ref(), &["x", "y"][..A::MESH.len()], A::MESH)
    }

    /// Returns the size: that of the files, else as asked for, else the algorithm's.
    pub(crate) fn size(&self) -> Result<Size, String> {
        let mut size = self.size.unwrap_or(A::SIZE);
        let mut known: Vec<(&str, usize, String)> = Vec::new();
        if let Some(asked) = self.size {
            known.extend([("m", asked.m), ("k", asked.k), ("n", asked.n)].map(|(i, e)| (i, e, "`--size`".to_owned())));
        }
        for (path, name) in self.files() {
            let order = match (name.starts_with("A"), A::TRANSPOSED) {
                (true, false) => ["m", "k"],
                (true, true) => ["k", "m"],
                (false, _) => ["k", "n"],
            };
            let (_, shape) = npy::header(path)?;
            let &[first, second] = &shape[..] else {
                return Err(format!("{name} has shape {shape:?}, but a matrix [{}] is needed", order.join(", ")));
            };
            for (index, extent) in order.into_iter().zip([first, second]) {
                if let Some((_, other, at)) = known.iter().find(|known| known.0 == index && known.1 != extent) {
                    let shape = format!("{index} = {extent} (its shape is {shape:?})");
                    return Err(format!("{name} has {shape}, but {at} says {index} = {other}; they must agree"));
                }
                match index {
                    "m" => size.m = extent,
                    "k" => size.k = extent,
                    _ => size.n = extent,
                }
                known.push((index, extent, name.clone()));
            }
        }
        Ok(size)
    }

    /// The files given, each with its name for messages.
    fn files(&self) -> impl Iterator<Item = (&Path, String)> {
        let files = [("A", &self.a), ("B", &self.b)].into_iter();
        files.filter_map(|(name, path)| path.as_deref().map(|path| (path, format!("{name} (`{}`)", path.display()))))
    }

    /// Returns where A and B come from.
    pub(crate) fn operands(&self) -> [Operand; 2] {
        [(&self.a, self.seed), (&self.b, self.seed.wrapping_add(1))].map(|(path, seed)| match path {
            Some(path) => Operand::File(path.clone()),
            None => Operand::Random(seed),
        })
    }
}

/// NumPy's name of the type.
fn numpy(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float32",
        DType::F64 => "float64",
        DType::I32 => "int32",
        DType::I64 => "int64",
    }
}

fn parse_size(text: &str) -> Result<Size, String> {
    let [m, k, n] = parse_extents(text, "m, k and n", "512,2048,1024")?;
    Ok(Size { m, k, n })
}

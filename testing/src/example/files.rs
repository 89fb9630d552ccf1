//! The flags that matrix products have besides: sizes and files.

use super::options::Options;
use super::room::bytes;
use super::size::{Size, parse_size};
use clap::Args;
use polyshard::DType;
use polyshard::cli::npy;
use polyshard::cli::values::Number;
use polyshard::prelude::*;
use polyshard::runtime::Output;
use std::path::{Path, PathBuf};

/// Sizes and files of a product.
#[derive(Args)]
pub struct Files {
    /// Extents m,k,n of the product [default: that of the files, or the algorithm's].
    #[arg(long, value_parser = parse_size::<3>("m, k and n", "512,2048,1024"), value_name = "M,K,N",
        allow_hyphen_values = true)]
    size: Option<Size<3>>,
    /// The `.npy` file that holds A; each rank reads its own part.
    #[arg(long, value_name = "FILE")]
    a: Option<PathBuf>,
    /// The `.npy` file that holds B; each rank reads its own part.
    #[arg(long, value_name = "FILE")]
    b: Option<PathBuf>,
    /// The `.npy` file to write C to.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Files {
    /// Returns the element type: as asked for, which must be that of the files.
    pub fn dtype(&self, options: &Options) -> Result<DType, String> {
        let mut known = options.dtype.map(|dtype| (dtype, "`--type`".to_owned()));
        for (path, name) in self.named() {
            let (dtype, _) = npy::header(path).map_err(|why| why.to_string())?;
            match &known {
                Some((other, at)) if *other != dtype => {
                    let type_too = if at == "`--type`" { format!(", or give `--type {dtype}`") } else { String::new() };
                    return Err(format!(
                        "{name} holds {dtype}, but {at} says {other}; they must agree: convert {name} with NumPy's \
                         `.astype('{}')`{type_too}",
                        other.numpy_name()
                    ));
                }
                _ => known = Some((dtype, name)),
            }
        }
        Ok(known.map_or(DType::F32, |known| known.0))
    }

    /// Returns m, k and n: those of the files, whose A has the indices `a`, else as asked for, else `default`.
    pub fn size(&self, a: [&str; 2], default: [usize; 3]) -> Result<[usize; 3], String> {
        const NAMES: [&str; 3] = ["m", "k", "n"];
        let mut size = self.size.map_or(default, |size| size.0);
        let mut known: Vec<(&str, usize, String)> = Vec::new();
        if self.size.is_some() {
            known.extend(NAMES.iter().zip(size).map(|(name, extent)| (*name, extent, "`--size`".to_owned())));
        }
        for (path, name) in self.named() {
            let order = if name.starts_with('A') { a } else { ["k", "n"] };
            let (_, shape) = npy::header(path).map_err(|why| why.to_string())?;
            let &[first, second] = &shape[..] else {
                return Err(format!("{name} has shape {shape:?}, but a matrix [{}] is needed", order.join(", ")));
            };
            for (index, extent) in order.into_iter().zip([first, second]) {
                if let Some((_, other, at)) = known.iter().find(|known| known.0 == index && known.1 != extent) {
                    let shape = format!("{index} = {extent} (its shape is {shape:?})");
                    return Err(format!("{name} has {shape}, but {at} says {index} = {other}; they must agree"));
                }
                let place = NAMES.iter().position(|name| *name == index).expect("they are m, k and n");
                size[place] = extent;
                known.push((index, extent, name.clone()));
            }
        }
        Ok(size)
    }

    /// Looks at the place of C and at the memory before the time is spent, and says what runs; collective.
    pub fn begin(&self, world: &World, options: &Options, program: &Program) -> polyshard::Result<()> {
        if let Some(out) = self.out.as_ref().filter(|_| world.is_root()) {
            let bytes = bytes(program.kernel().dtype(), &program.kernel().output().shape);
            // The inputs are read before it is written, and are still the user's.
            Output::new(out)?.with_room(bytes)?.other_than(self.named().map(|(path, _)| path))?;
        }
        options.begin(world, &[program])
    }

    /// Reads this rank's part of A or B from its file, or makes it of the seed.
    pub fn input<T: Number>(
        &self,
        world: &World,
        options: &Options,
        name: &str,
        sharding: &Sharding,
    ) -> polyshard::Result<DistArray<T>> {
        let (path, nth) = if name == "A" { (&self.a, 0) } else { (&self.b, 1) };
        Ok(match path {
            Some(path) => DistArray::read_npy(world, path, sharding)?,
            None => DistArray::from_fn(world, sharding, |index| options.element(nth, index))?,
        })
    }

    /// Writes C to its file, if it has one; collective.
    pub fn write<T: Number>(&self, world: &World, c: &DistArray<T>) -> polyshard::Result<()> {
        if let Some(path) = &self.out {
            c.to_npy(world, path)?;
        }
        Ok(())
    }

    /// The files given, each with its name for messages.
    fn named(&self) -> impl Iterator<Item = (&Path, String)> {
        let files = [("A", &self.a), ("B", &self.b)].into_iter();
        files.filter_map(|(name, path)| path.as_deref().map(|path| (path, format!("{name} (`{}`)", path.display()))))
    }
}

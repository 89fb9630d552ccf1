//! `.npy` files: what their headers say, checked against what can be read and against the length of the file.
//!
//! The format is NumPy's, "A simple file format for NumPy arrays", NEP 1: a magic, a version, the length of a
//! header, and the header, which is a Python dictionary of three entries. Here nothing is allocated that a header
//! merely claims, and nothing is read but files.

mod header;

use crate::{DType, Element, Error, FileError, FileErrorKind, Result, memory};
use header::{Descr, Header};
use ndarray::{ArrayD, ShapeBuilder};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The most bytes of a header; NumPy too reads no longer ones unless told to.
const HEADER: usize = 10_000;

/// A `.npy` file that is open, and whose header says what can be read.
///
/// ```
/// use polyshard_runtime::{DType, NpyFile, npy_header};
/// let path = std::env::temp_dir().join(format!("polyshard-doc-{}.npy", std::process::id()));
/// let elements: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// std::fs::write(&path, [&npy_header::<f32>(&[2, 3], false)[..], bytemuck::cast_slice(&elements)].concat())?;
/// let file = NpyFile::open(&path)?;
/// assert_eq!((file.dtype(), file.shape()), (DType::F32, &[2, 3][..]));
/// assert_eq!(file.read::<f32>()?[[1, 0]], 4.0);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NpyFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    dtype: DType,
    /// Whether the bytes of an element come in the other order than on this machine.
    pub(crate) swapped: bool,
    pub(crate) fortran: bool,
    shape: Vec<usize>,
    /// Where the elements begin.
    pub(crate) start: u64,
}

impl NpyFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be opened, is no whole `.npy` file, or holds what is neither `f32`, `f64`, `i32` nor
    /// `i64`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let there = std::fs::metadata(path).map_err(|why| failed("open", path, plain(why)))?;
        if !there.is_file() {
            // Opening a pipe would wait for its writer, and what comes from it cannot be mapped.
            let what = if there.is_dir() { "a folder" } else { "a pipe or a device" };
            return Err(failed("read", path, FileErrorKind::NotAFile { what }));
        }
        let mut file = File::open(path).map_err(|why| failed("open", path, plain(why)))?;
        let (text, start) = header_text(&mut file).map_err(|why| failed("read", path, why))?;
        let Header { descr, fortran, shape } =
            Header::parse(&text).map_err(|why| failed("read", path, FileErrorKind::Header { why }))?;
        let (dtype, swapped) = known(&descr).map_err(|why| failed("use", path, why))?;
        // Extents of 0 hide others that are too large for strides.
        let most = shape.iter().try_fold(dtype.size(), |bytes, &extent| bytes.checked_mul(extent.max(1)));
        if most.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(failed("read", path, FileErrorKind::Shape { shape }));
        }
        let bytes = (shape.iter().product::<usize>() * dtype.size()) as u64;
        let held = there.len().saturating_sub(start);
        if held < bytes {
            return Err(failed("read", path, FileErrorKind::ElementsCutShort { held, bytes }));
        }
        Ok(Self { path: path.to_owned(), file, dtype, swapped, fortran, shape, start })
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the shape of the array.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Reads the whole array, of either memory order.
    ///
    /// # Errors
    /// [`FileError`] if the file holds another type than `T` or is changed meanwhile. If it does not fit the memory
    /// that is free.
    ///
    /// # Panics
    /// If the elements do not make the array: a bug of polyshard.
    pub fn read<T: Element>(mut self) -> Result<ArrayD<T>> {
        self.expect::<T>(None)?;
        let what = format_args!("the array in `{}`", self.path.display());
        let mut elements = memory::zeros::<T>(self.shape.iter().product(), what)?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut elements);
        self.file.read_exact(bytes).map_err(|why| failed("read", &self.path, plain(why)))?;
        self.unswap(&mut elements);
        let array = ArrayD::from_shape_vec(self.shape.as_slice().set_f(self.fortran), elements);
        Ok(array.unwrap_or_else(|why| panic!("a file has another length than its shape: {why}; a bug of polyshard")))
    }

    /// Checks the type, and the shape if one is wanted.
    pub(crate) fn expect<T: Element>(&self, shape: Option<&[usize]>) -> Result<()> {
        let (dtype, wanted_dtype) = (self.dtype, T::DTYPE);
        let [shape, wanted_shape] = [&self.shape, shape.unwrap_or(&self.shape)].map(<[usize]>::to_vec);
        if dtype == wanted_dtype && shape == wanted_shape {
            return Ok(());
        }
        Err(failed("use", &self.path, FileErrorKind::OtherArray { dtype, wanted_dtype, shape, wanted_shape }))
    }

    /// Gives the bytes of elements that were read the order of this machine.
    pub(crate) fn unswap<T: Element>(&self, elements: &mut [T]) {
        if self.swapped {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(elements);
            bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        }
    }
}

/// Returns what a file of elements `T` begins with: all that comes before the elements.
///
/// # Panics
/// If there are thousands of dimensions.
#[must_use]
pub fn npy_header<T: Element>(shape: &[usize], fortran: bool) -> Vec<u8> {
    let order = if cfg!(target_endian = "big") { '>' } else { '<' };
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let extents = if shape.len() > 1 { extents.trim_end_matches(", ") } else { extents.trim_end() };
    let fortran = if fortran { "True" } else { "False" };
    let descr = code(T::DTYPE);
    let mut text = format!("{{'descr': '{order}{descr}', 'fortran_order': {fortran}, 'shape': ({extents}), }}");
    // Elements begin at a multiple of 64, so that a file can be mapped. Before the text there are 10 bytes.
    text.push_str(&" ".repeat(63 - (10 + text.len()) % 64));
    text.push('\n');
    let len = u16::try_from(text.len()).expect("an array has no thousands of dimensions");
    [MAGIC, &[1, 0], &len.to_le_bytes(), text.as_bytes()].concat()
}

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads the header's text, and returns where it ends; or why it cannot be read.
fn header_text(file: &mut impl Read) -> Result<(String, u64), FileErrorKind> {
    let mut bytes = Vec::new();
    // Read as far as there are bytes, so that what is missing can be told.
    let mut upto = |len: usize, bytes: &mut Vec<u8>| -> Result<(), FileErrorKind> {
        let missing = (len - bytes.len()) as u64;
        file.take(missing).read_to_end(bytes).map(drop).map_err(plain)
    };
    upto(8, &mut bytes)?;
    if bytes.is_empty() {
        return Err(FileErrorKind::Empty);
    }
    if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
        return Err(FileErrorKind::NotNpy);
    }
    let cut = |held| FileErrorKind::HeaderCutShort { held };
    let Some(&version) = bytes.get(6).filter(|_| bytes.len() == 8) else { return Err(cut(bytes.len())) };
    let wide = match version {
        1 => false,
        2 | 3 => true,
        _ => return Err(FileErrorKind::Version { major: version, minor: bytes[7] }),
    };
    let before = if wide { 12 } else { 10 };
    upto(before, &mut bytes)?;
    if bytes.len() < before {
        return Err(cut(bytes.len()));
    }
    let len = bytes[8..].iter().rev().fold(0, |len, &byte| (len << 8) | usize::from(byte));
    if len > HEADER {
        let why = format!("it claims to have {len} bytes, and {HEADER} are read at most");
        return Err(FileErrorKind::Header { why });
    }
    upto(before + len, &mut bytes)?;
    if bytes.len() < before + len {
        return Err(cut(bytes.len()));
    }
    Ok((String::from_utf8_lossy(&bytes[before..]).into_owned(), bytes.len() as u64))
}

/// Returns the element type that `descr` names, and whether its bytes are swapped.
fn known(descr: &Descr) -> Result<(DType, bool), FileErrorKind> {
    let Descr::Plain(descr) = descr else {
        let [what, cure] = ["records of several fields", "save one field, `a['name']`"].map(String::from);
        return Err(FileErrorKind::ElementType { what, cure });
    };
    let (order, code) = descr.split_at(descr.find(|c: char| c.is_ascii_alphanumeric()).unwrap_or(0));
    let big = match order {
        "<" => Some(false),
        ">" => Some(true),
        // Native order, as NumPy writes it for types without one.
        "=" | "|" | "" => Some(cfg!(target_endian = "big")),
        _ => None,
    };
    let dtype = DType::NATIVE.into_iter().find(|&dtype| self::code(dtype) == code);
    if let (Some(dtype), Some(big)) = (dtype, big) {
        return Ok((dtype, big != cfg!(target_endian = "big")));
    }
    let shown = shortened(descr);
    let convert = |to: &str| format!("convert it with NumPy's `.astype('{to}')`");
    let (what, cure) = match code.chars().next() {
        Some('c') => ("complex numbers", "save `a.real` and `a.imag`".into()),
        Some('b') => ("booleans", convert("int32")),
        Some('f') => ("floats of another size", convert("float32")),
        Some('i') => ("integers of another size", convert("int32")),
        Some('u') => ("unsigned integers", convert("int64")),
        Some('O') => ("pickled objects", convert("float64")),
        Some('S' | 'a' | 'U') => ("strings", convert("float64")),
        Some('M' | 'm') => ("times", convert("int64")),
        _ => ("a type that is not known", convert("float32")),
    };
    Err(FileErrorKind::ElementType { what: format!("{what}, '{shown}'"), cure })
}

/// Returns the type in a header, without the order of bytes.
fn code(dtype: DType) -> String {
    format!("{}{}", if dtype.is_float() { 'f' } else { 'i' }, dtype.size())
}

/// Returns text from a file so that it can be printed: a few characters, and none that steer a terminal.
fn shortened(text: &str) -> String {
    const SHOWN_CHARS: usize = 40;
    let shown = |c: char| if matches!(c, ' '..='~') { c.to_string() } else { c.escape_default().to_string() };
    let more = if text.chars().nth(SHOWN_CHARS).is_some() { ".." } else { "" };
    text.chars().take(SHOWN_CHARS).map(shown).collect::<String>() + more
}

/// Says what went wrong while reading.
fn plain(why: io::Error) -> FileErrorKind {
    if why.kind() == ErrorKind::UnexpectedEof { FileErrorKind::CutShort } else { why.into() }
}

pub(crate) fn failed(action: &'static str, path: &Path, kind: FileErrorKind) -> Error {
    FileError { path: path.into(), action, kind }.into()
}

#[cfg(test)]
mod tests;

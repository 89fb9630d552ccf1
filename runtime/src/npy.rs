//! `.npy` files: their headers, checked against the supported types and against the length of the file.
//!
//! The format is NumPy's, "A simple file format for NumPy arrays", NEP 1: a magic, a version, the length of a header, and the header, which
//! is a Python dictionary of three entries. Nothing is allocated that a header merely claims, and only files are read.

mod header;

use crate::{DType, Element, Error, FileError, FileErrorKind, Result, memory};
use header::{Descr, Header};
use ndarray::{ArrayD, ShapeBuilder};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Elements that are converted together.
const PIECE: usize = 1 << 16;

/// The maximum bytes of a header; NumPy too reads no longer ones by default.
const HEADER: usize = 10_000;

/// An open `.npy` file with a supported header.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::{NpyFile, npy_header};
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
    /// Whether the bytes of an element are in the opposite order to this machine's.
    pub(crate) swapped: bool,
    pub(crate) fortran: bool,
    shape: Vec<usize>,
    /// The offset of the elements.
    pub(crate) start: u64,
    /// The length of the file and its modification time, if the system reports that.
    stamp: (u64, Option<SystemTime>),
}

impl NpyFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be opened, is not a complete `.npy` file, or its elements are neither `f32`, `f64`, `i32` nor `i64`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let there = std::fs::metadata(path).map_err(|why| failed("open", path, plain(why)))?;
        if !there.is_file() {
            // Opening a pipe would wait for its writer, and a pipe cannot be mapped.
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
        let stamp = stamp(&file.metadata().map_err(|why| failed("open", path, plain(why)))?);
        let held = stamp.0.saturating_sub(start);
        if held < bytes {
            return Err(failed("read", path, FileErrorKind::ElementsCutShort { held, bytes }));
        }
        Ok(Self { path: path.to_owned(), file, dtype, swapped, fortran, shape, start, stamp })
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the path with which it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the shape of the array.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Checks that the file at this path is unchanged since it was opened, by its length and time.
    ///
    /// # Errors
    /// [`FileError`] if it has changed.
    pub fn check_unchanged(&self) -> Result<()> {
        match fs::metadata(&self.path) {
            Ok(there) if stamp(&there) == self.stamp => Ok(()),
            _ => Err(failed("use", &self.path, FileErrorKind::Changed)),
        }
    }

    /// Reads the whole array, of either memory order; elements of a narrower type are converted as they are read, to a type that [`wider`]
    /// gives.
    ///
    /// # Errors
    /// [`FileError`] if the file holds another type than `T` that is not narrower, or changes meanwhile. If it does not fit in free memory.
    ///
    /// # Panics
    /// If the elements do not make up the array: a bug in polyshard.
    pub fn read<T: Element>(mut self) -> Result<ArrayD<T>> {
        self.expect::<T>(None)?;
        let what = format_args!("the array in `{}`", self.path.display());
        let mut elements = memory::zeros::<T>(self.shape.iter().product(), what)?;
        let mut bytes = vec![0; elements.len().min(PIECE) * self.dtype.size()];
        for piece in elements.chunks_mut(PIECE) {
            let bytes = &mut bytes[..piece.len() * self.dtype.size()];
            self.file.read_exact(bytes).map_err(|why| failed("read", &self.path, plain(why)))?;
            self.decode(bytes, piece);
        }
        self.check_unchanged()?;
        let array = ArrayD::from_shape_vec(self.shape.as_slice().set_f(self.fortran), elements);
        Ok(array.unwrap_or_else(|why| panic!("a file has another length than its shape: {why}; a bug in polyshard")))
    }

    /// Checks that elements can be converted to the type, and the shape if one is given.
    pub(crate) fn expect<T: Element>(&self, shape: Option<&[usize]>) -> Result<()> {
        let wanted_dtype = T::DTYPE;
        let dtype = if wider(self.dtype, wanted_dtype) == wanted_dtype { wanted_dtype } else { self.dtype };
        let [shape, wanted_shape] = [&self.shape, shape.unwrap_or(&self.shape)].map(<[usize]>::to_vec);
        if dtype == wanted_dtype && shape == wanted_shape {
            return Ok(());
        }
        Err(failed("use", &self.path, FileErrorKind::OtherArray { dtype, wanted_dtype, shape, wanted_shape }))
    }

    /// Decodes elements from bytes of the file.
    pub(crate) fn decode<T: Element>(&self, bytes: &[u8], into: &mut [T]) {
        match self.dtype {
            dtype if dtype == T::DTYPE => {
                let into: &mut [u8] = bytemuck::cast_slice_mut(into);
                into.copy_from_slice(bytes);
                if self.swapped {
                    into.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
                }
            }
            DType::F32 => self.convert::<f32, T>(bytes, into),
            DType::I32 => self.convert::<i32, T>(bytes, into),
            _ => self.convert::<i64, T>(bytes, into),
        }
    }

    fn convert<S: Element, T: Element>(&self, bytes: &[u8], into: &mut [T]) {
        for (bytes, to) in bytes.chunks_exact(size_of::<S>()).zip(into) {
            let mut element: S = bytemuck::pod_read_unaligned(bytes);
            if self.swapped {
                bytemuck::bytes_of_mut(&mut element).reverse();
            }
            *to = T::from(element).expect("a wider type has a value for each; this is a bug in polyshard");
        }
    }
}

/// Returns the type in which elements of two types are computed, as NumPy's `result_type` does: the wider of two integers
/// or two floats, and else `f64`.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::wider;
/// assert_eq!(wider(DType::I32, DType::I64), DType::I64);
/// assert_eq!(wider(DType::F32, DType::I32), DType::F64);
/// ```
#[must_use]
pub fn wider(one: DType, other: DType) -> DType {
    match (one == other, one.is_float() || other.is_float()) {
        (true, _) => one,
        (false, true) => DType::F64,
        (false, false) => DType::I64,
    }
}

fn stamp(there: &Metadata) -> (u64, Option<SystemTime>) {
    (there.len(), there.modified().ok())
}

/// Returns the start of a file of elements `T`: everything before the elements.
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

/// The start of a `.npz` file, which is a ZIP archive of `.npy` files.
const ZIP: &[u8] = b"PK";

/// Reads the header's text, and returns it with the offset of its end.
fn header_text(file: &mut impl Read) -> Result<(String, u64), FileErrorKind> {
    let mut bytes = Vec::new();
    // Reads as many bytes as exist, so that the error can name the missing part.
    let mut upto = |len: usize, bytes: &mut Vec<u8>| -> Result<(), FileErrorKind> {
        let missing = (len - bytes.len()) as u64;
        file.take(missing).read_to_end(bytes).map(drop).map_err(plain)
    };
    upto(8, &mut bytes)?;
    if bytes.is_empty() {
        return Err(FileErrorKind::Empty);
    }
    if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
        return Err(if bytes.starts_with(ZIP) { FileErrorKind::Archive } else { FileErrorKind::NotNpy });
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
        let why = format!("it claims to have {len} bytes, but at most {HEADER} are read");
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
        // Native byte order, as NumPy writes it for types without one.
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
        Some('f') if code != "f2" => ("long doubles", convert("float64")),
        Some('f') => ("floats of another size", convert("float32")),
        // NumPy has no name for it, and keeps its bytes.
        Some('V') if code == "V2" => (
            "elements of two bytes without a type, as bfloat16 is saved",
            "convert it with NumPy's `.view(ml_dtypes.bfloat16).astype('float32')`".into(),
        ),
        Some('V') => ("elements without a type", "view them as the type that they are with NumPy's `.view`".into()),
        Some('i') => ("integers of another size", convert("int32")),
        Some('u') => ("unsigned integers", convert("int64")),
        Some('O') => ("pickled objects", convert("float64")),
        Some('S' | 'a' | 'U') => ("strings", convert("float64")),
        Some('M' | 'm') => ("times", convert("int64")),
        _ => ("an unknown type", convert("float32")),
    };
    Err(FileErrorKind::ElementType { what: format!("{what}, '{shown}'"), cure })
}

/// Returns the type in a header, without the order of bytes.
fn code(dtype: DType) -> String {
    format!("{}{}", if dtype.is_float() { 'f' } else { 'i' }, dtype.size())
}

/// Returns text from a file in printable form: a few characters, without any that control a terminal.
fn shortened(text: &str) -> String {
    const SHOWN_CHARS: usize = 40;
    let shown = |c: char| if matches!(c, ' '..='~') { c.to_string() } else { c.escape_default().to_string() };
    let more = if text.chars().nth(SHOWN_CHARS).is_some() { ".." } else { "" };
    text.chars().take(SHOWN_CHARS).map(shown).collect::<String>() + more
}

/// The cause of a failed read.
fn plain(why: io::Error) -> FileErrorKind {
    if why.kind() == ErrorKind::UnexpectedEof { FileErrorKind::CutShort } else { why.into() }
}

pub(crate) fn failed(action: &'static str, path: &Path, kind: FileErrorKind) -> Error {
    FileError { path: path.into(), action, kind }.into()
}

#[cfg(test)]
mod tests;

//! Errors of files.

use crate::layout::DType;
use polyshard_machine::units;
use std::io;
use std::path::PathBuf;

/// Why a file cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {action} `{}`: {kind}", .path.display())]
#[non_exhaustive]
pub struct FileError {
    /// The file, as the caller named it.
    pub path: PathBuf,
    /// The failed action: `open`, `map`, `read`, `use` or `write`.
    pub action: &'static str,
    /// The cause.
    pub kind: FileErrorKind,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum FileErrorKind {
    /// The operating system refuses.
    #[error("{message}")]
    System {
        kind: io::ErrorKind,
        /// Its message, or for common failures the cure.
        message: String,
    },
    /// A folder, a pipe or a device is to be read.
    #[error("it is {what}, not a file")]
    NotAFile { what: &'static str },
    /// The file is empty.
    #[error("it is empty; write it with `numpy.save`")]
    Empty,
    /// The file does not begin as `.npy` files do.
    #[error("it is not a `.npy` file: it does not begin with `\\x93NUMPY`; write it with `numpy.save`")]
    NotNpy,
    /// The file is an archive of arrays.
    #[error(
        "it is a `.npz` archive of arrays, not a `.npy` file; extract one with \
         `numpy.save('A.npy', numpy.load('FILE.npz')['NAME'])`, where `numpy.load('FILE.npz').files` are the names"
    )]
    Archive,
    /// The version of the format is not supported.
    #[error("unsupported .npy version {major}.{minor} (1.0 to 3.0 are supported); write it with `numpy.save`")]
    Version { major: u8, minor: u8 },
    /// The file ends inside of its header.
    #[error("it is cut short: its header ends after {held} bytes; write it again")]
    HeaderCutShort { held: usize },
    /// The file ends before its last element: it has `held` bytes of elements, but its shape needs `bytes`.
    #[error("it is cut short: {held} bytes of elements instead of {bytes}; write it again")]
    ElementsCutShort { held: u64, bytes: u64 },
    /// The file became shorter while it was read.
    #[error("it is cut short; write it again")]
    CutShort,
    /// The file has changed since it was opened.
    #[error("it has changed since it was opened; run again when nothing writes to it")]
    Changed,
    /// The header cannot be read.
    #[error("its header is damaged: {why}; write it again with `numpy.save`")]
    Header { why: String },
    /// The header gives a shape that no array can have.
    #[error("its header is damaged: an array of shape {shape:?} does not fit into memory")]
    Shape { shape: Vec<usize> },
    /// The element type is not supported.
    #[error("it holds {what}, but f32, f64, i32 or i64 is needed: {cure}")]
    ElementType {
        /// The contents of the file, with the type in the header.
        what: String,
        cure: String,
    },
    /// The array in the file has another type or shape than expected.
    #[error("{}", other_array(*.dtype, *.wanted_dtype, .shape, .wanted_shape))]
    OtherArray { dtype: DType, wanted_dtype: DType, shape: Vec<usize>, wanted_shape: Vec<usize> },
    /// The path ends in a folder or in nothing.
    #[error("it does not name a file")]
    Nameless,
    /// A folder is to be written.
    #[error("it is a folder; name a file in it")]
    Folder,
    /// A disk or a socket is to be written.
    #[error("it is {what}; name a file")]
    Special { what: &'static str },
    /// The folder of a file to write does not exist.
    #[error("the folder `{}` does not exist; create it first", .folder.display())]
    NoFolder { folder: PathBuf },
    /// The parent of a file to write is not a folder.
    #[error("`{}` is not a folder", .parent.display())]
    NotAFolder { parent: PathBuf },
    /// Symbolic links form a cycle.
    #[error("its symbolic links form a cycle")]
    Links,
    /// The file system has too little space for the file.
    #[error(
        "it needs {}, but {} are free there; write it elsewhere, or make room",
        units::bytes(*.needed),
        units::bytes((*.free).into())
    )]
    Room { needed: u128, free: u64 },
    /// The file to write is also an input.
    #[error("it is the input `{}`; write to another file", .input.display())]
    Input { input: PathBuf },
}

impl From<io::Error> for FileErrorKind {
    fn from(error: io::Error) -> Self {
        Self::System { kind: error.kind(), message: error.to_string() }
    }
}

fn other_array(dtype: DType, wanted_dtype: DType, shape: &[usize], wanted_shape: &[usize]) -> String {
    let mut why = Vec::new();
    if dtype != wanted_dtype {
        why.push(format!(
            "it holds {dtype}, but {wanted_dtype} is expected: convert it with NumPy's `.astype('{}')`, or compute with \
             {dtype}",
            wanted_dtype.numpy_name()
        ));
    }
    if shape != wanted_shape {
        let remedy = match wanted_shape.iter().rev().eq(shape) {
            true => "write its transpose, NumPy's `.T`",
            false => "write an array of that shape, or use the file's",
        };
        why.push(format!("its shape is {shape:?}, but {wanted_shape:?} is expected: {remedy}"));
    }
    why.join("; and ")
}

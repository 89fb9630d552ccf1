//! What the examples share: flags, what is said of a run, and how far an answer may be from the sequential one.
//!
//! Kernel, schedule, arrays, run and check of an algorithm are in the example itself.
#![allow(dead_code, unused_imports, unused_macros, reason = "each example uses a part of it")]

#[path = "../../src/bin/polyshard/axes.rs"]
pub(crate) mod axes;
pub(crate) mod check;
#[path = "../../src/bin/polyshard/dtypes.rs"]
pub(crate) mod dtypes;
mod files;
pub(crate) mod launch;
pub(crate) mod mesh;
#[path = "../../src/bin/polyshard/npy.rs"]
mod npy;
#[path = "../../src/bin/polyshard/numbers.rs"]
pub(crate) mod numbers;
mod options;
pub(crate) mod progress;
pub(crate) mod room;
pub(crate) mod run;
#[path = "../../src/bin/polyshard/say.rs"]
pub(crate) mod say;
pub(crate) mod size;
#[path = "../../src/bin/polyshard/values.rs"]
pub(crate) mod values;

pub(crate) use check::check;
pub(crate) use dtypes::with_type;
pub(crate) use files::Files;
pub(crate) use launch::{Stop, main};
pub(crate) use mesh::balanced;
pub(crate) use options::{Options, Print};
pub(crate) use run::flops;
pub(crate) use size::{Size, parse_size};
pub(crate) use values::Number;
